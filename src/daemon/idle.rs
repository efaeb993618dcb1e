//! `-o timeout=`: the end of a mount that nobody uses.
//!
//! The kernel decides whether the mount is in use: unmounting fails with EBUSY while a program has a file open or
//! mapped, or its working directory in the mount. Only if no program has asked for anything for the whole time
//! does the daemon try to unmount.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::signals::Lifecycle;
use crate::error::Result;

/// The condition under which a mount ends by itself.
pub struct Idle {
    /// The time without a request.
    pub timeout: Duration,
    /// Callback that returns the time since the last request.
    pub quiet_for: fn() -> Duration,
    /// True if a text is unsaved or refused, or a program may write.
    pub has_unfinished: Box<dyn Fn() -> bool + Send>,
}

impl fmt::Debug for Idle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Idle").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Idle {
    /// Starts a thread that unmounts once the mount is idle.
    pub(super) fn watch(self, lifecycle: &Arc<Lifecycle>) -> Result<()> {
        let lifecycle = Arc::downgrade(lifecycle);
        // The first call of `quiet_for` starts its clock.
        (self.quiet_for)();
        std::thread::Builder::new().name("idle".to_owned()).spawn(move || self.wait(&lifecycle))?;
        Ok(())
    }

    fn wait(&self, lifecycle: &Weak<Lifecycle>) {
        loop {
            let rest = self.timeout.saturating_sub((self.quiet_for)());
            std::thread::sleep(if rest.is_zero() { self.timeout } else { rest });
            let Some(lifecycle) = lifecycle.upgrade() else { return };
            if (self.quiet_for)() < self.timeout || (self.has_unfinished)() {
                continue;
            }
            if lifecycle.unmount_if_unused() {
                tracing::info!("unmounted after {} s without use", self.timeout.as_secs());
                return;
            }
        }
    }
}
