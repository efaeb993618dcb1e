//! The end of a mount: by a signal, or because someone unmounted it.
//!
//! On the first SIGINT, SIGTERM or SIGHUP the mount is detached: nobody finds it any more, programs that
//! have files open in it get [`GRACE`] to close them, and then the process ends, whether they did or not.
//! A second signal ends it at once. What was made for the mount is removed on every way out, and on
//! every way out a save that runs is finished, and a text that was not saved is kept.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::mount::Mounted;
use super::mountpoint::Mountpoint;
use crate::error::Result;
use crate::exit;

/// How long open files are served after a signal.
const GRACE: Duration = Duration::from_secs(2);

/// One mount's life, as the thread that waits for signals sees it.
pub(crate) struct Life {
    place: Mountpoint,
    stage: Mutex<Stage>,
    close: OnceLock<Close>,
}

/// See [`super::Served::close`].
type Close = Arc<dyn Fn() + Send + Sync>;

impl std::fmt::Debug for Life {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Life")
            .field("place", &self.place)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Stage {
    Starting,
    Mounted(Mounted),
    Over,
}

impl Life {
    /// Begins to watch for signals, which end the process properly from now on.
    pub(crate) fn watched(place: Mountpoint) -> Result<Arc<Self>> {
        let life = Arc::new(Self { place, stage: Mutex::new(Stage::Starting), close: OnceLock::new() });
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let watched = Arc::clone(&life);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut arrived = signals.forever();
            if let Some(signal) = arrived.next() {
                tracing::info!("signal {signal}: the mount ends");
                // The first signal is dealt with elsewhere, so that a second one is heard meanwhile.
                let ending = Arc::clone(&watched);
                let end = std::thread::Builder::new().name("end".to_owned()).spawn(move || ending.end());
                if end.is_ok() {
                    arrived.next();
                    tracing::warn!("a second signal: files that are still open are cut off");
                }
                watched.leave(exit::OK);
            }
        })?;
        Ok(life)
    }

    /// Says how writing is brought to an end.
    pub(crate) fn at_end(&self, close: Close) {
        // There is one mount in a life.
        let _ = self.close.set(close);
    }

    /// Brings writing to an end.
    pub(crate) fn close(&self) {
        if let Some(close) = self.close.get() {
            close();
        }
    }

    /// The folder that is mounted on.
    pub(crate) fn place(&self) -> &Mountpoint {
        &self.place
    }

    /// Mounts by `mount`; a signal that comes meanwhile is dealt with afterwards.
    pub(crate) fn mount<T>(&self, mount: impl FnOnce() -> Result<(Mounted, T)>) -> Result<T> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let (mounted, rest) = mount()?;
        *stage = Stage::Mounted(mounted);
        Ok(rest)
    }

    /// Takes the mount away because it can't be served.
    pub(crate) fn give_up(&self) {
        if let Stage::Mounted(mounted) = self.next_stage() {
            mounted.detach();
        }
    }

    /// Notes that the mount is gone, after the last request was answered.
    pub(crate) fn over(&self) {
        if let Stage::Mounted(mounted) = self.next_stage() {
            mounted.detach_if_dead();
        }
        self.place.remove();
    }

    /// On a signal: detaches, waits, and ends the process if that did not end by itself.
    fn end(&self) {
        if self.detach() {
            self.leave(exit::FAILED);
        }
        std::thread::sleep(GRACE);
        tracing::warn!(
            "the mount is still in use after {} s and is cut off: by open files, or by a copy in another mount \
             namespace, where 'umount -l' takes away what is left",
            GRACE.as_secs()
        );
        self.leave(exit::OK);
    }

    fn next_stage(&self) -> Stage {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut stage, Stage::Over)
    }

    /// Takes the mount from its place; whether there was none yet.
    ///
    /// Whoever else wants to end the process meanwhile waits: a process that ends while the mount is still
    /// in its place leaves it there, dead.
    fn detach(&self) -> bool {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *stage, Stage::Over) {
            Stage::Starting => return true,
            Stage::Mounted(mounted) => mounted.detach(),
            Stage::Over => {}
        }
        false
    }

    fn leave(&self, status: u8) {
        self.detach();
        self.close();
        self.place.remove();
        std::process::exit(i32::from(status));
    }
}
