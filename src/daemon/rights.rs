//! The privileges of a daemon that was started by root.
//!
//! A daemon serves other users and reads untrusted files. It drops all privileges that it does not need, for
//! itself and for all programs that it starts. Privileges are per thread, so it drops them before starting a
//! thread.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// The capabilities that are kept.
///
/// | capability | for |
/// |---|---|
/// | `DAC_OVERRIDE`, `DAC_READ_SEARCH` | reading files of other users, after the kernel's permission check; saving them |
/// | `CHOWN`, `FOWNER`, `FSETID`, `SETFCAP` | owner, mode, ACL and attributes of a file that a save replaces |
/// | `LEASE` | saves that move the blocks of a stream |
/// | `SYS_ADMIN` | mounting and unmounting; `trusted` and `security` attributes |
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::LEASE)
    .union(CapabilitySet::SETFCAP);

/// Drops all capabilities except [`KEPT`].
///
/// If the daemon may mount by itself, setuid programs can't restore the capabilities either. Any other daemon
/// needs the setuid program fusermount3 to mount and unmount.
pub(super) fn drop_unneeded() {
    let Ok(CapabilitySets { effective, permitted, .. }) = capabilities(None) else { return };
    if permitted.is_empty() {
        return;
    }
    // Errors are ignored: an older kernel refuses capabilities that it does not know.
    for capability in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        if !KEPT.contains(capability) {
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    let _ = clear_ambient_capability_set();
    let kept = CapabilitySets {
        effective: effective & KEPT,
        permitted: permitted & KEPT,
        inheritable: CapabilitySet::empty(),
    };
    if let Err(errno) = set_capabilities(None, kept) {
        tracing::warn!(
            "capabilities that are not needed can't be dropped: {}",
            seekable::error::Error::from(errno)
        );
    }
    if effective.contains(CapabilitySet::SYS_ADMIN) {
        let _ = set_no_new_privs(true);
    }
}
