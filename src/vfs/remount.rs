//! Switching a mount between read-only and writable.
//!
//! A mount that began writable can be made read-only (*sealed*): every change then fails with EROFS, as on
//! any file system that was remounted read-only. The lock on its file stays, so that the mount can become
//! writable again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use asdf_file::time::instant;
use seekable::error::{Error, Kind, Result, errno};
use seekable::sync::locked;

use crate::overlay::Overlay;
use crate::vfs::Vfs;

impl Vfs {
    /// Makes the mount read-only, or writable again. The outcome is also an attribute of the root.
    ///
    /// # Errors
    /// EBUSY if a program has a file open for writing, or a text is unsaved or refused. EROFS if the mount began
    /// read-only.
    pub fn remount(&self, read_only: bool) -> Result<()> {
        let result = if read_only { self.seal() } else { self.unseal() };
        let mut remounts = locked(&self.remounts);
        *remounts = (remounts.0 + 1, result.as_ref().err().map(Error::message));
        result
    }

    fn seal(&self) -> Result<()> {
        // The flag is set first, so that no program opens a file for writing after the check.
        let was_sealed = self.is_sealed.swap(true, Ordering::SeqCst);
        match self.overlays().iter().find_map(|overlay| overlay.unfinished()) {
            Some(reason) => {
                self.is_sealed.store(was_sealed, Ordering::SeqCst);
                Err(Error::new(Kind::System(libc::EBUSY), reason))
            }
            None => Ok(()),
        }
    }

    fn unseal(&self) -> Result<()> {
        if self.shared.is_none() {
            let message = "the mount was made read-only; unmount it, and mount it again without -r";
            return Err(Error::new(Kind::ReadOnly, message));
        }
        self.is_sealed.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// True if a program has a file open for writing, or a text is neither saved nor given up.
    pub fn has_unfinished(&self) -> bool {
        self.overlays().iter().any(|overlay| overlay.unfinished().is_some())
    }

    /// Returns the overlays in use.
    pub(crate) fn overlays(&self) -> Vec<Arc<Overlay>> {
        let written: Vec<_> = locked(&self.written).iter().map(|(_, entry)| entry.clone()).collect();
        written.iter().filter_map(|entry| entry.lazy_overlay().ok()?.used_overlay()).collect()
    }

    /// Fails with EROFS if the mount is read-only.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_read_only() { Err(errno(libc::EROFS)) } else { Ok(()) }
    }

    /// Returns `ro` or `rw`.
    pub(super) fn mode(&self) -> &'static str {
        if self.is_read_only() { "ro" } else { "rw" }
    }

    /// Returns the time at which the mount began, as text.
    pub(super) fn since(&self) -> String {
        let since = self.began.duration_since(UNIX_EPOCH).unwrap_or_default();
        instant((since.as_secs().cast_signed(), 0))
    }

    /// Returns the count of remounts, a space, and the error of the last one.
    pub(super) fn remounts(&self) -> String {
        let remounts = locked(&self.remounts);
        format!("{} {}", remounts.0, remounts.1.as_deref().unwrap_or_default())
    }
}
