//! The end of a mount, by a signal or by unmounting.
//!
//! The first SIGINT or SIGTERM detaches the mount; SIGHUP does so only for a process in the foreground of a
//! terminal, and otherwise reopens the log file. SIGUSR1 makes the mount read-only, SIGUSR2 writable again.
//! After the first signal that ends the mount, programs have [`GRACE`] to close their files; then the
//! process ends. A second signal ends it at once. In every case the process completes a running save,
//! keeps unsaved texts, and removes a mountpoint that it created.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use seekable::error::{Error, Kind, Result};
use seekable::sync::locked;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::contents::Served;
use super::mounter::Mounter;
use super::{service_manager, threads};
use crate::exit;

/// Time for which open files are served after a signal.
const GRACE: Duration = Duration::from_secs(2);

/// The stages of a mount, from its start to its end.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    /// `None` for a mount that the caller made.
    mounter: Option<Mounter>,
    stage: Mutex<Stage>,
    /// Set once the sources are open.
    served: OnceLock<Served>,
}

#[derive(Debug)]
enum Stage {
    Starting,
    /// The device of the mount.
    Mounted(String),
    /// The caller made the mount, and unmounts it. Its device is unknown before Linux 6.16.
    Given(Option<String>),
    Over,
}

impl Lifecycle {
    /// Starts the thread that waits for signals.
    pub(crate) fn watched(mounter: Option<Mounter>, foreground: bool) -> Result<Arc<Self>> {
        let lifecycle =
            Arc::new(Self { mounter, stage: Mutex::new(Stage::Starting), served: OnceLock::new() });
        let hangs_up = foreground && std::fs::File::open("/dev/tty").is_ok();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2])?;
        let watched = Arc::clone(&lifecycle);
        let watching = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut arrived = signals.forever().filter(|signal| !watched.goes_on_after(*signal, hangs_up));
            if let Some(signal) = arrived.next() {
                tracing::info!("signal {signal}: unmounting");
                // A separate thread handles the first signal, so that this one can receive a second.
                let ending = Arc::clone(&watched);
                let end = std::thread::Builder::new().name("end".to_owned()).spawn(move || ending.end());
                if end.is_ok() {
                    arrived.next();
                    tracing::warn!("a second signal: files that are still open are closed");
                }
                watched.leave(exit::OK);
            }
        });
        watching.map_err(threads::too_few)?;
        Ok(lifecycle)
    }

    /// Handles a signal that does not end the mount; false for any other.
    fn goes_on_after(&self, signal: i32, hangs_up: bool) -> bool {
        match signal {
            SIGHUP if hangs_up => return false,
            SIGHUP => {
                if let Err(error) = crate::log::reopen() {
                    tracing::warn!("{error}");
                }
            }
            SIGUSR1 | SIGUSR2 => {
                let read_only = signal == SIGUSR1;
                match self.served.get().map(|served| served.writing.vfs.remount(read_only)) {
                    Some(Ok(())) => tracing::info!("remounted {}", if read_only { "ro" } else { "rw" }),
                    Some(Err(error)) => tracing::warn!("not remounted: {error}"),
                    None => {}
                }
            }
            _ => return false,
        }
        true
    }

    /// Sets what the mount serves.
    pub(super) fn serves(&self, served: Served) {
        // Set once: there is only one mount.
        let _ = self.served.set(served);
    }

    /// Ends all writing, once.
    pub(crate) fn close(&self) {
        if let Some(served) = self.served.get() {
            served.close();
        }
    }

    /// Mounts, and returns the descriptor to serve. A signal that arrives meanwhile is handled afterwards.
    pub(crate) fn mount(&self, read_only: bool) -> Result<OwnedFd> {
        let no_place = || Error::new(Kind::System(libc::EINVAL), "there is no directory to mount on");
        let mounter = self.mounter.as_ref().ok_or_else(no_place)?;
        let mut stage = locked(&self.stage);
        let (device, descriptor) = mounter.mount(read_only)?;
        *stage = Stage::Mounted(device);
        Ok(descriptor)
    }

    /// Says that the caller has made the mount.
    pub(crate) fn serve_given(&self, device: Option<String>) {
        *locked(&self.stage) = Stage::Given(device);
    }

    /// Returns the device number `major:minor` of the mount.
    pub(crate) fn device(&self) -> Option<String> {
        match &*locked(&self.stage) {
            Stage::Mounted(device) => Some(device.clone()),
            Stage::Given(device) => device.clone(),
            Stage::Starting | Stage::Over => None,
        }
    }

    /// Unmounts, because the mount can't be served.
    pub(crate) fn give_up(&self) {
        if let (Stage::Mounted(_), Some(mounter)) = (self.next_stage(), &self.mounter) {
            mounter.detach();
        }
    }

    /// Unmounts if no program uses the mount; true if it is unmounted.
    pub(crate) fn unmount_if_unused(&self) -> bool {
        let mut stage = locked(&self.stage);
        match (&*stage, &self.mounter) {
            (Stage::Mounted(_), Some(mounter)) if mounter.is_removed_unless_busy() => {
                *stage = Stage::Over;
                true
            }
            (Stage::Over, _) => true,
            _ => false,
        }
    }

    /// Cleans up after the last request was answered.
    pub(crate) fn over(&self) {
        if let (Stage::Mounted(_), Some(mounter)) = (self.next_stage(), &self.mounter) {
            mounter.detach_if_dead();
        }
        self.remove_place();
    }

    /// Handles a signal: detaches the mount, waits, and ends the process if it has not ended by itself.
    fn end(&self) {
        service_manager::stopping();
        if let Some(status) = self.detach() {
            self.leave(status);
        }
        std::thread::sleep(GRACE);
        tracing::warn!(
            "the mount is still in use after {} s, by open files or by a copy in another mount namespace, and is \
             closed; there 'umount -l' removes what is left",
            GRACE.as_secs()
        );
        self.leave(exit::OK);
    }

    fn remove_place(&self) {
        if let Some(mounter) = &self.mounter {
            mounter.remove_place();
        }
    }

    fn next_stage(&self) -> Stage {
        let mut stage = locked(&self.stage);
        std::mem::replace(&mut stage, Stage::Over)
    }

    /// Unmounts; returns the exit status if there is nothing to unmount.
    ///
    /// Other threads that end the process wait for the unmount: a process that ends before unmounting leaves
    /// a dead mount.
    fn detach(&self) -> Option<u8> {
        let mut stage = locked(&self.stage);
        match std::mem::replace(&mut *stage, Stage::Over) {
            Stage::Starting => return Some(exit::FAILED),
            Stage::Given(_) => return Some(exit::OK),
            Stage::Mounted(_) => {
                if let Some(mounter) = &self.mounter {
                    mounter.detach();
                }
            }
            Stage::Over => {}
        }
        None
    }

    fn leave(&self, status: u8) {
        self.detach();
        self.close();
        self.remove_place();
        std::process::exit(i32::from(status));
    }
}
