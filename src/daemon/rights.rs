//! The privileges of a daemon, and of the process that mounts for it.
//!
//! A daemon serves other users and reads untrusted files. It drops all privileges that it does not need, for
//! itself and for all programs that it starts. Privileges are per thread, so it drops them before starting a
//! thread.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// The capabilities that a daemon of root keeps.
///
/// | capability | for |
/// |---|---|
/// | `DAC_OVERRIDE`, `DAC_READ_SEARCH` | reading files of other users, after the kernel's permission check; saving them |
/// | `CHOWN`, `FOWNER`, `FSETID`, `SETFCAP` | owner, mode, ACL and attributes of a file that a save replaces |
/// | `LEASE` | saves that move the blocks of a stream |
const SERVING: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::LEASE)
    .union(CapabilitySet::SETFCAP);

/// A daemon that may save keeps `SYS_ADMIN`, too: for the `trusted` and `security` attributes of a file that a save
/// replaces.
const SAVING: CapabilitySet = SERVING.union(CapabilitySet::SYS_ADMIN);

/// The capabilities for mounting, unmounting, and removing the mountpoint from a directory of another user.
const MOUNTING: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER);

/// Drops the privileges that serving does not need. `saves` is true if the mount may save files.
///
/// Setuid programs can't restore them. The memory of a daemon of root has the data of other users: it is not dumped,
/// unless commands of root could then not see which files the daemon has open, as in a container without `SYS_PTRACE`.
pub(super) fn keep_for_serving(saves: bool) {
    let sees_all = capabilities(None).is_ok_and(|own| own.permitted.contains(CapabilitySet::SYS_PTRACE));
    if sees_all && rustix::process::geteuid().is_root() {
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
    keep_only(if saves { SAVING } else { SERVING });
    let _ = set_no_new_privs(true);
}

/// Drops the privileges that mounting does not need.
///
/// If the process may mount by itself, setuid programs can't restore them either. Any other process needs the setuid
/// program fusermount3.
pub(super) fn keep_for_mounting() {
    if keep_only(MOUNTING).contains(CapabilitySet::SYS_ADMIN) {
        let _ = set_no_new_privs(true);
    }
}

/// Drops all capabilities except `kept`, and returns the effective ones that remain.
fn keep_only(kept: CapabilitySet) -> CapabilitySet {
    let Ok(CapabilitySets { effective, permitted, .. }) = capabilities(None) else {
        return CapabilitySet::empty();
    };
    if permitted.is_empty() {
        return permitted;
    }
    // Errors are ignored: an older kernel refuses capabilities that it does not know.
    for capability in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        if !kept.contains(capability) {
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    let _ = clear_ambient_capability_set();
    let reduced = CapabilitySets {
        effective: effective & kept,
        permitted: permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    if let Err(errno) = set_capabilities(None, reduced) {
        tracing::warn!(
            "capabilities that are not needed can't be dropped: {}",
            seekable::error::Error::from(errno)
        );
    }
    reduced.effective
}
