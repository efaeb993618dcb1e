//! The directory of a file: the currently mounted file, and the overlay, if there is one.
//!
//! An overlay takes up memory, so a file that is only looked at has no overlay. Opening `tree.yaml` creates
//! one. If nothing was written, the overlay is dropped with the last handle. Otherwise it is dropped after
//! many other files have been written.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use asdf_access::local::detect::EntryPosition;
use seekable::error::{Result, errno};
use seekable::sync::{Rank, RankedMutex, locked, locked_at_once};

use crate::mounted::file::CurrentFile;
use crate::overlay::file::OverlayFile;
use crate::overlay::{Overlay, SharedByOverlays};

/// Time that the kernel takes at most to enter the names of a listing.
const ENTERED: Duration = Duration::from_millis(30);

/// The directory of a file, with its overlay created on demand.
#[derive(Debug)]
pub(crate) struct LazyOverlay {
    pub(crate) current: Arc<CurrentFile>,
    overlay: RankedMutex<Option<Arc<Overlay>>>,
    /// True once the file was found writable.
    is_writable: AtomicBool,
    /// The time of the last listing whose names the kernel keeps.
    listed: Mutex<Option<Instant>>,
}

impl Default for LazyOverlay {
    fn default() -> Self {
        let overlay = RankedMutex::new(Rank::LazyOverlay, None);
        Self {
            current: Arc::default(),
            overlay,
            is_writable: AtomicBool::new(false),
            listed: Mutex::default(),
        }
    }
}

impl LazyOverlay {
    /// True if the file can be written; `shared` is common to all directories.
    ///
    /// # Errors
    /// The reason why the file can't be parsed, perhaps because another program is writing it.
    pub(crate) fn is_writable(&self, position: &EntryPosition, shared: &SharedByOverlays) -> Result<bool> {
        if self.is_writable.load(Relaxed) {
            return Ok(true);
        }
        let (_, opened) = self.current.newest(&position.location, &shared.serials, &shared.open_files)?;
        let is_writable = opened.container()?.is_editable() && position.location.may_write()?;
        self.is_writable.store(is_writable, Relaxed);
        Ok(is_writable)
    }

    /// Returns a message if the file's format can't be changed.
    pub(crate) fn unchangeable(
        &self,
        position: &EntryPosition,
        shared: &SharedByOverlays,
    ) -> Result<Option<String>> {
        let (_, opened) = self.current.newest(&position.location, &shared.serials, &shared.open_files)?;
        let container = opened.container().ok().filter(|container| !container.is_editable());
        Ok(container.map(|container| container.unchangeable()))
    }

    /// Returns the overlay, creating it if the file can be written.
    pub(crate) fn overlay(
        &self,
        position: &EntryPosition,
        shared: &Arc<SharedByOverlays>,
    ) -> Result<Option<Arc<Overlay>>> {
        let mut overlay = locked(&self.overlay);
        if overlay.is_none() && self.is_writable(position, shared)? {
            *overlay = Some(Arc::new(Overlay::of(position, &self.current, shared)?));
        }
        Ok(overlay.clone())
    }

    /// Notes a listing whose names the kernel will keep, unless a save may end soon. Returns true if it may keep
    /// them.
    pub(crate) fn note_listing(&self) -> bool {
        let is_quiet = || self.used_overlay().is_none_or(|overlay| overlay.is_quiet());
        if !is_quiet() {
            return false;
        }
        *locked(&self.listed) = Some(Instant::now());
        // The save of a text that is begun from now on waits for this listing.
        is_quiet()
    }

    /// Waits until the kernel has entered the names of all listings.
    pub(crate) fn await_listings(&self) {
        let listed = *locked(&self.listed);
        if let Some(rest) = listed.and_then(|listed| ENTERED.checked_sub(listed.elapsed())) {
            std::thread::sleep(rest);
        }
    }

    /// Returns the existing overlay, if any.
    pub(crate) fn used_overlay(&self) -> Option<Arc<Overlay>> {
        locked(&self.overlay).clone()
    }

    /// Returns the overlay that a file belongs to; ESTALE if it was dropped.
    pub(crate) fn overlay_of(&self, overlay_file: &OverlayFile) -> Result<Arc<Overlay>> {
        self.used_overlay().filter(|overlay| overlay.has(overlay_file)).ok_or_else(|| errno(libc::ESTALE))
    }

    /// Drops the overlay of a closed handle, unless other handles use it or something was written.
    pub(crate) fn let_go(&self, own: &Arc<Overlay>) {
        let mut overlay = locked(&self.overlay);
        // References are only handed out under this lock, so the count can't grow.
        if overlay.as_ref().is_some_and(|overlay| Arc::ptr_eq(overlay, own))
            && Arc::strong_count(own) == 2
            && !own.is_touched()
        {
            *overlay = None;
        }
    }

    /// True if there is no overlay, and no thread is creating one.
    pub(crate) fn is_put_away(&self) -> bool {
        locked_at_once(&self.overlay).is_some_and(|overlay| overlay.is_none())
    }

    /// Drops the overlay if no handle or thread uses it; `old` also allows dropping the reports of a save or
    /// refusal. Returns true if there is no overlay now. Never blocks.
    pub(crate) fn put_away(&self, old: bool) -> bool {
        let Some(mut overlay) = locked_at_once(&self.overlay) else { return false };
        let unused = |overlay: &Arc<Overlay>| Arc::strong_count(overlay) == 1 && overlay.put_away(old);
        if overlay.as_ref().is_some_and(unused) {
            *overlay = None;
        }
        overlay.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_that_a_thread_parses_is_not_waited_for() {
        let lazy = Arc::new(LazyOverlay::default());
        let held = locked(&lazy.overlay);
        let own = lazy.clone();
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || done.send((own.put_away(true), own.is_put_away())));
        assert_eq!(is_done.recv_timeout(Duration::from_secs(20)), Ok((false, false)));
        drop(held);
        assert!(lazy.put_away(true) && lazy.is_put_away());
    }
}
