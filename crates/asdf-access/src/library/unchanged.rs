//! A source that is read in one version.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seekable::error::{Error, Kind, Result};
use seekable::source::{Identity, Moved, Readers, Source, SourceStat};

/// A source that fails once the file has another version than at its opening.
#[derive(Debug)]
pub(super) struct UnchangedSource {
    source: Arc<dyn Source>,
    stat: SourceStat,
    /// True once this program changes the file, which may happen within one tick of the file system's clock.
    is_stale: AtomicBool,
}

impl UnchangedSource {
    /// Pins a source to its present version.
    pub(super) fn new(source: Arc<dyn Source>) -> Result<Self> {
        Ok(Self { stat: source.stat()?, source, is_stale: AtomicBool::new(false) })
    }

    /// Fails if the file has another version now. Called after each read, so that bytes of another version are
    /// never returned.
    fn check(&self) -> Result<()> {
        let now = self.source.stat()?.version;
        // The removal of the file's last name changes only its ctime.
        let is_removed = || now.differs_only_in_ctime(&self.stat.version) && self.source.is_unlinked();
        if !self.is_stale.load(Ordering::SeqCst) && (now == self.stat.version || is_removed()) {
            return Ok(());
        }
        Err(Error::new(Kind::Changed, "has changed since it was opened; open it again")
            .of(self.source.path()))
    }
}

impl Source for UnchangedSource {
    fn inner(&self) -> Option<&dyn Source> {
        Some(&*self.source)
    }

    fn stat(&self) -> Result<SourceStat> {
        Ok(self.stat)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let read = self.source.read_at(offset, buf)?;
        self.check()?;
        Ok(read)
    }

    fn read_within(&self, extent: Range<u64>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let read = self.source.read_within(extent, offset, buf)?;
        self.check()?;
        Ok(read)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>> {
        let read = self.source.read_ranges(ranges)?;
        self.check()?;
        Ok(read)
    }
}

/// The readers of a file that this program saves: they can't read it any more once the save writes to it.
#[derive(Debug)]
pub(super) struct StaleOnWrite<'a>(pub(super) &'a UnchangedSource);

impl StaleOnWrite<'_> {
    fn set(&self) {
        self.0.is_stale.store(true, Ordering::SeqCst);
    }
}

impl Readers for StaleOnWrite<'_> {
    fn keep(&mut self, _: Identity, _: &[Range<u64>]) {
        self.set();
    }

    fn relocate(&mut self, _: Identity, _: u64, _: i64, relocate: &mut dyn FnMut() -> Moved) {
        self.set();
        relocate();
    }

    fn write(&mut self, _: Identity, write: &mut dyn FnMut() -> bool) {
        self.set();
        write();
    }

    fn read_from_image(&mut self, _: Identity, _: Range<u64>, _: u64, _: File) {
        self.set();
    }

    fn image_written(&mut self, _: Identity, _: u64, _: Moved) {}
}
