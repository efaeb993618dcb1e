//! Overlay files: the files of a folder that can be written, `tree.yaml` among them.
//!
//! An overlay file is what an inode is in other file systems: it has one text and one size, whatever names and
//! handles it has. Its bytes ([`Backing`]) lie in a file of the state directory, or in the source itself: a
//! `tree.yaml` that no program has written to shows the head of the source, and gets a file of its own with the
//! first change.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::content::{Content, Text};
use crate::error::{Result, errno};
use crate::format::refusal::Refusal;
use crate::host::stat::{Kind, Stat, Time};
use crate::sync::RankedMutex;

/// Bytes of all scratch files of a mount, besides four times the tree of the one that is written.
pub(crate) const MOST_BYTES: u64 = 256 << 20;
/// Scratch files and drafts of a mount, where so many files can be open.
pub(crate) const MOST_FILES: u64 = 512;
/// Bytes copied at once.
const PIECE: usize = 256 << 10;

/// What all overlay files of a mount take that have something of their own. One that shows the source takes
/// nothing.
#[derive(Debug)]
pub(crate) struct Quota {
    bytes: AtomicU64,
    overlay_files: AtomicU64,
    most_scratch_files: u64,
}

impl Quota {
    /// A budget of `most_scratch_files` scratch files and drafts: each is an open file.
    pub(crate) fn new(most_scratch_files: u64) -> Self {
        Self { bytes: AtomicU64::new(0), overlay_files: AtomicU64::new(0), most_scratch_files }
    }

    /// Takes `more` bytes, if not more than `most` are taken then.
    fn take(&self, more: u64, most: u64) -> Result<()> {
        let take = |bytes: u64| bytes.checked_add(more).filter(|bytes| *bytes <= most);
        if self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return Ok(());
        }
        tracing::warn!(
            "scratch files and drafts of this mount would take more than {} MiB: refused (ENOSPC); remove \
             some of the files beside tree.yaml",
            most >> 20
        );
        Err(errno(libc::ENOSPC))
    }

    fn give_back(&self, bytes: u64) {
        let less = |taken: u64| Some(taken.saturating_sub(bytes));
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Takes the place of one more overlay file.
    fn one_more(self: &Arc<Self>) -> Result<QuotaShare> {
        let more = |overlay_files: u64| {
            Some(overlay_files + 1).filter(|overlay_files| *overlay_files <= self.most_scratch_files)
        };
        if self.overlay_files.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            tracing::warn!(
                "there are {} scratch files in this mount: one more was refused (ENOSPC); remove some of the \
                 files beside tree.yaml",
                self.most_scratch_files
            );
            return Err(errno(libc::ENOSPC));
        }
        Ok(QuotaShare { quota: self.clone(), bytes: 0 })
    }

    /// Whether more than half of it is taken.
    pub(crate) fn is_short(&self) -> bool {
        let (bytes, overlay_files) =
            (self.bytes.load(Ordering::Relaxed), self.overlay_files.load(Ordering::Relaxed));
        bytes > MOST_BYTES / 2 || overlay_files > self.most_scratch_files / 2
    }
}

/// One overlay file's part of the budget; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct QuotaShare {
    quota: Arc<Quota>,
    bytes: u64,
}

impl QuotaShare {
    /// Makes it `bytes` large; growing is refused where all overlay files would take more than `most`.
    pub(crate) fn resize(&mut self, bytes: u64, most: u64) -> Result<()> {
        match bytes.checked_sub(self.bytes) {
            Some(more @ 1..) => self.quota.take(more, most)?,
            Some(0) => {}
            None => self.quota.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        self.quota.give_back(self.bytes);
        let less = |overlay_files: u64| Some(overlay_files.saturating_sub(1));
        let _ = self.quota.overlay_files.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// Where the bytes of an overlay file are.
#[derive(Debug)]
pub(crate) enum Backing {
    /// It shows the head of the source.
    Source,
    /// A file of its own.
    File(Arc<File>),
    /// A short text that this program made, in memory; a change gives it a file.
    Text(Text),
    /// It is a symbolic link with this text.
    Link(OsString),
}

/// A file or link beside `tree.yaml`, or that itself.
#[derive(Debug)]
pub(crate) struct OverlayFile {
    /// Its serial number; none for the file that is `tree.yaml` from the start.
    pub(crate) serial: Option<u64>,
    /// The number of the overlay that it belongs to.
    pub(crate) overlay: u64,
    /// Taken only while the overlay's own lock is held, which comes first.
    pub(crate) body: RankedMutex<Body>,
}

/// What is said of a file of the overlay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileStat {
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    /// None of these three where it is the source's.
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) nlink: u32,
    pub(crate) atime: Time,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
    /// What the system says of the source.
    pub(crate) source: Stat,
}

/// What an overlay file is at the moment.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) backing: Backing,
    /// Bytes of a file of its own.
    pub(crate) size: u64,
    /// None of these where they are the source's.
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) atime: Option<Time>,
    /// Of an overlay file with a file of its own, or a link.
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
    pub(crate) nlink: u32,
    pub(crate) xattrs: BTreeMap<OsString, Vec<u8>>,
    /// Whether this program made the text, and no other has changed it.
    pub(crate) generated: bool,
    /// Counts the changes of the text.
    pub(crate) edits: u64,
    /// The change up to which the text is what was saved last.
    pub(crate) saved: u64,
    /// The change whose text was refused, and why.
    pub(crate) refused: Option<(u64, Refusal)>,
    /// The change at which its writer was killed.
    pub(crate) cut: Option<u64>,
    /// Whether all that changed since it showed the saved text was added at its end.
    pub(crate) appended: bool,
    /// Which of the source's heads it began from.
    pub(crate) base_version: u64,
    /// Handles, and those of them that may write.
    pub(crate) handles: u32,
    pub(crate) writers: u32,
    /// Whether any change came from a mapping, so that no handle knows of it.
    pub(crate) mapped: bool,
    /// Since when no handle has it open for writing although it is not saved.
    pub(crate) pending: Option<Instant>,
    /// Its part of the budget; none while it shows the source, or when nothing can reach it any more.
    share: Option<QuotaShare>,
}

impl Body {
    pub(crate) fn new(backing: Backing, base_version: u64) -> Self {
        let now = now();
        Self {
            backing,
            size: 0,
            mode: None,
            uid: None,
            gid: None,
            atime: None,
            mtime: now,
            ctime: now,
            nlink: 1,
            xattrs: BTreeMap::new(),
            generated: false,
            edits: 0,
            saved: 0,
            refused: None,
            cut: None,
            appended: false,
            base_version,
            handles: 0,
            writers: 0,
            mapped: false,
            pending: None,
            share: None,
        }
    }

    /// Takes the room that something of its own needs, of so many bytes; see [`QuotaShare::resize`].
    pub(crate) fn take_room(&mut self, quota: &Arc<Quota>, bytes: u64, most: u64) -> Result<()> {
        match &mut self.share {
            Some(share) => share.resize(bytes, most),
            None => {
                let mut share = quota.one_more()?;
                share.resize(bytes, most)?;
                self.share = Some(share);
                Ok(())
            }
        }
    }

    /// Has it show the source, and hands out the file that it had.
    pub(crate) fn show_source(&mut self) -> Backing {
        (self.size, self.share) = (0, None);
        std::mem::replace(&mut self.backing, Backing::Source)
    }

    /// Gives its part of the budget back if no name and no handle reaches it any more.
    ///
    /// The bytes stay until the kernel forgets the node: a program that has just looked the name up may still open it.
    pub(crate) fn give_back_if_gone(&mut self) {
        if self.nlink == 0 && self.handles == 0 {
            self.share = None;
        }
    }

    /// Whether the text is what was saved last, as far as this overlay file is `tree.yaml`.
    pub(crate) fn is_clean(&self) -> bool {
        self.edits == self.saved
    }

    /// The refusal of the text as it is now.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        self.refused.as_ref().filter(|(edits, _)| *edits == self.edits).map(|(_, refusal)| refusal)
    }

    /// Notes that the text changed just now.
    ///
    /// `appended` says that nothing but its end did.
    pub(crate) fn edited(&mut self, appended: bool) {
        self.generated = false;
        self.appended = appended && (self.appended || self.is_clean());
        self.edits += 1;
        self.mtime = now();
        self.ctime = self.mtime;
        self.pending = None;
    }

    /// All of a text of its own.
    pub(crate) fn text(&self) -> Result<Vec<u8>> {
        let mut text = vec![0; usize::try_from(self.size).map_err(|_| errno(libc::EFBIG))?];
        match &self.backing {
            Backing::File(file) => file.read_exact_at(&mut text, 0)?,
            Backing::Text(own) => crate::content::read_exact_at(own, 0, &mut text)?,
            _ => return Err(errno(libc::EINVAL)),
        }
        Ok(text)
    }

    /// Whether the last line is `...`, with which a tree ends.
    pub(crate) fn has_ended(&self) -> Result<bool> {
        let Backing::File(file) = &self.backing else { return Ok(false) };
        let mut end = [0; 6];
        let len = self.size.min(end.len() as u64) as usize;
        file.read_exact_at(&mut end[..len], self.size - len as u64)?;
        let end = &end[..len];
        Ok([&b"\n..."[..], b"\n...\n", b"\n...\r\n"].iter().any(|line| end.ends_with(line)))
    }

    /// Whether the text is the same as `other`'s.
    pub(crate) fn same_as(&self, other: &dyn Content) -> Result<bool> {
        let Backing::File(file) = &self.backing else { return Ok(matches!(self.backing, Backing::Source)) };
        if self.size != other.len() {
            return Ok(false);
        }
        let piece = piece(self.size);
        let (mut own, mut others) = (vec![0; piece], vec![0; piece]);
        let mut at = 0;
        while at < self.size {
            let len = usize::try_from(self.size - at).map_or(PIECE, |rest| rest.min(PIECE));
            file.read_exact_at(&mut own[..len], at)?;
            crate::content::read_exact_at(other, at, &mut others[..len])?;
            if own[..len] != others[..len] {
                return Ok(false);
            }
            at += len as u64;
        }
        Ok(true)
    }
}

/// All of an overlay file's file, which has so many bytes.
#[derive(Debug)]
pub(crate) struct Whole<'a>(pub(crate) &'a File, pub(crate) u64);

impl Content for Whole<'_> {
    fn len(&self) -> u64 {
        self.1
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Ok(self.0.read_at(buf, offset)?)
    }
}

/// How much of so many bytes is taken at once.
fn piece(len: u64) -> usize {
    usize::try_from(len).map_or(PIECE, |len| len.min(PIECE))
}

/// Copies all of a text into a file.
pub(crate) fn copy(text: &dyn Content, file: &File) -> Result<()> {
    let (mut piece, mut at) = (vec![0; piece(text.len())], 0);
    while at < text.len() {
        let len = usize::try_from(text.len() - at).map_or(PIECE, |rest| rest.min(PIECE));
        crate::content::read_exact_at(text, at, &mut piece[..len])?;
        file.write_all_at(&piece[..len], at)?;
        at += len as u64;
    }
    Ok(())
}

/// The time as files have it, in steps of 100 ns.
///
/// emacs takes finer times for a sign that `fstat` before close tells the final time and size, and asks no more
/// after close: it would take those of a refused text for the file's, and find at its next save that the file has
/// changed (`write-region` in fileio.c).
pub(crate) fn now() -> Time {
    let (seconds, nanoseconds) = time_of(SystemTime::now());
    (seconds, nanoseconds - nanoseconds % 100)
}

/// A time of the system's as files have it.
pub(crate) fn time_of(time: SystemTime) -> Time {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let whole = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            match before.subsec_nanos() {
                0 => (-whole, 0),
                part => (-whole - 1, 1_000_000_000 - part),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_keep_their_fraction_on_both_sides_of_1970() {
        assert_eq!(time_of(UNIX_EPOCH + Duration::new(3, 4)), (3, 4));
        assert_eq!(time_of(UNIX_EPOCH - Duration::from_millis(250)), (-1, 750_000_000));
        assert_eq!(time_of(UNIX_EPOCH - Duration::from_secs(2)), (-2, 0));
    }

    #[test]
    fn the_budget_is_given_back_to_the_last_byte() {
        let quota = Arc::new(Quota::new(MOST_FILES));
        let mut one = quota.one_more().unwrap();
        one.resize(100, 150).unwrap();
        let mut two = quota.one_more().unwrap();
        assert_eq!(two.resize(51, 150).unwrap_err().errno(), libc::ENOSPC);
        two.resize(50, 150).unwrap();
        one.resize(20, 0).unwrap();
        two.resize(130, 150).unwrap();
        assert_eq!(two.resize(u64::MAX, u64::MAX).unwrap_err().errno(), libc::ENOSPC);
        drop((one, two));
        assert_eq!(quota.bytes.load(Ordering::Relaxed), 0);
        let all: Vec<_> = (0..MOST_FILES).map(|_| quota.one_more().unwrap()).collect();
        assert!(quota.one_more().is_err());
        drop(all);
        quota.one_more().unwrap();
    }

    #[test]
    fn a_sheet_that_shows_the_source_takes_nothing() {
        let quota = Arc::new(Quota::new(1));
        let mut one = Body::new(Backing::Source, 0);
        let mut two = Body::new(Backing::Source, 0);
        one.take_room(&quota, 10, 100).unwrap();
        assert_eq!(two.take_room(&quota, 0, 100).unwrap_err().errno(), libc::ENOSPC);
        one.show_source();
        assert_eq!(two.take_room(&quota, 101, 100).unwrap_err().errno(), libc::ENOSPC);
        two.take_room(&quota, 100, 100).unwrap();
    }
}
