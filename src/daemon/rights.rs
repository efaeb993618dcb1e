//! The rights of a daemon that root started.
//!
//! A daemon serves other users and reads files of strangers. It gives up at once all rights that it needs for nothing,
//! for itself and all programs that it starts. Each thread has rights of its own, so that happens before the first one.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// The capabilities that stay.
///
/// | capability | for |
/// |---|---|
/// | `DAC_OVERRIDE`, `DAC_READ_SEARCH` | files of other users, which the kernel admits programs to; saves into them |
/// | `CHOWN`, `FOWNER`, `FSETID`, `SETFCAP` | owner, mode, ACL and attributes of a file that a save writes anew |
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

/// Gives up all capabilities but [`KEPT`].
///
/// A daemon that may mount by itself can't get them back from a setuid program either. Any other daemon needs one to
/// mount and unmount, fusermount3.
pub(super) fn drop_unneeded() {
    let Ok(CapabilitySets { effective, permitted, .. }) = capabilities(None) else { return };
    if permitted.is_empty() {
        return;
    }
    // An older kernel knows fewer of them. What it refuses stays as it is: the daemon works with it.
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
        tracing::warn!("rights that are not needed can't be given up: {}", crate::error::Error::from(errno));
    }
    if effective.contains(CapabilitySet::SYS_ADMIN) {
        let _ = set_no_new_privs(true);
    }
}
