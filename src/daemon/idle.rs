//! `-o timeout=`: the end of a mount that nobody uses.
//!
//! The kernel decides whether the mount is in use: unmounting fails with EBUSY while a program has a file open or
//! mapped, or its working directory in the mount. Only if no program has asked for anything for the whole time
//! does the daemon try to unmount.

use std::sync::{Arc, Weak};
use std::time::Duration;

use seekable::error::Result;

use super::signals::Lifecycle;
use crate::fuse::quiet_for;
use crate::vfs::Vfs;

/// Starts a thread that unmounts once no program has asked for anything for the time `timeout`.
pub(super) fn watch(timeout: Duration, vfs: Arc<Vfs>, lifecycle: &Arc<Lifecycle>) -> Result<()> {
    let lifecycle = Arc::downgrade(lifecycle);
    // The first call starts its clock.
    quiet_for();
    std::thread::Builder::new().name("idle".to_owned()).spawn(move || wait(timeout, &vfs, &lifecycle))?;
    Ok(())
}

fn wait(timeout: Duration, vfs: &Vfs, lifecycle: &Weak<Lifecycle>) {
    loop {
        let rest = timeout.saturating_sub(quiet_for());
        std::thread::sleep(if rest.is_zero() { timeout } else { rest });
        let Some(lifecycle) = lifecycle.upgrade() else { return };
        // A text may be unsaved or refused, or a program may write.
        if quiet_for() < timeout || vfs.has_unfinished() {
            continue;
        }
        if lifecycle.unmount_if_unused() {
            tracing::info!("unmounted after {} s without use", timeout.as_secs());
            return;
        }
    }
}
