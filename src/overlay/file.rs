//! Overlay files: the writable files of a directory, `tree.yaml` among them.
//!
//! An overlay file corresponds to an inode of other file systems: it has one text and one size, for any
//! number of names and handles. Its bytes ([`Backing`]) are in a scratch file of the state directory, or in
//! the source itself: a `tree.yaml` that no program has written to shows the head of the source, and gets a
//! scratch file with the first change.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use asdf_access::local::stat::{FileKind, Stat, Time};
use asdf_file::edit::refusal::Refusal;
use seekable::content::{Content, Text};
use seekable::error::{Result, errno};
use seekable::sync::{RankedMutex, locked};

/// Maximum number of bytes of one user's scratch files in a mount, in addition to four times the size of the tree being
/// written. Those of all users together may take twice as many.
pub(crate) const MAX_BYTES: u64 = 256 << 20;
/// Maximum number of scratch files and drafts of all users of a mount, if the limit of open files allows.
pub(crate) const MAX_FILES: u64 = 1024;
/// Bytes copied at once.
const PIECE: usize = 256 << 10;

/// The resources that the overlay files of a mount take together. A file that shows the source takes none.
///
/// Each user may take half of what the other users leave, so that no user takes everything. Files beside
/// `tree.yaml` leave a part of that for drafts of `tree.yaml`.
#[derive(Debug)]
pub(crate) struct Quota {
    taken: Mutex<BTreeMap<u32, Taken>>,
    most_scratch_files: u64,
}

/// Bytes and overlay files of one user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    bytes: u64,
    overlay_files: u64,
}

/// The user whose share of the quota a file takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Payer {
    pub(crate) uid: u32,
    /// True for a file made beside `tree.yaml`, false for a draft of `tree.yaml`.
    pub(crate) is_beside: bool,
}

impl Quota {
    /// Creates a quota of `most_scratch_files` scratch files and drafts, each of which is an open file.
    pub(crate) fn new(most_scratch_files: u64) -> Self {
        Self { taken: Mutex::default(), most_scratch_files }
    }

    /// Takes `more` bytes for a user; ENOSPC if he alone would take more than `most`, or more than his share.
    fn take(&self, uid: u32, more: u64, most: u64) -> Result<()> {
        let mut taken = locked(&self.taken);
        let all = total(&taken);
        let own = taken.entry(uid).or_default();
        let share = most.saturating_sub((all.bytes - own.bytes) / 2);
        match own.bytes.checked_add(more).filter(|bytes| *bytes <= share) {
            Some(bytes) => own.bytes = bytes,
            None => {
                tracing::warn!(
                    "scratch files and drafts of user {uid} in this mount would take more than {} MiB: refused \
                     (ENOSPC); remove some of the files beside tree.yaml",
                    share >> 20
                );
                return Err(errno(libc::ENOSPC));
            }
        }
        Ok(())
    }

    fn give_back(&self, uid: u32, given: Taken) {
        let mut taken = locked(&self.taken);
        let own = taken.entry(uid).or_default();
        own.bytes = own.bytes.saturating_sub(given.bytes);
        own.overlay_files = own.overlay_files.saturating_sub(given.overlay_files);
        if *own == Taken::default() {
            taken.remove(&uid);
        }
    }

    /// Takes the share of one more file.
    fn one_more(self: &Arc<Self>, payer: Payer) -> Result<QuotaShare> {
        let mut taken = locked(&self.taken);
        let others = total(&taken).overlay_files;
        let own = taken.entry(payer.uid).or_default();
        let share = self.most_scratch_files.saturating_sub(others - own.overlay_files) / 2;
        // The rest is for drafts.
        let most = if payer.is_beside { share - share / 8 } else { share };
        if own.overlay_files >= most {
            tracing::warn!(
                "user {} has {} scratch files in this mount: one more was refused (ENOSPC); remove some of the \
                 files beside tree.yaml",
                payer.uid,
                own.overlay_files
            );
            return Err(errno(libc::ENOSPC));
        }
        own.overlay_files += 1;
        Ok(QuotaShare { quota: self.clone(), uid: payer.uid, bytes: 0 })
    }

    /// True if a user alone has taken more than half of what he may take.
    pub(crate) fn is_short(&self) -> bool {
        let all = total(&locked(&self.taken));
        all.bytes > MAX_BYTES / 2 || all.overlay_files > self.most_scratch_files / 4
    }
}

fn total(taken: &BTreeMap<u32, Taken>) -> Taken {
    taken.values().fold(Taken::default(), |all, own| Taken {
        bytes: all.bytes + own.bytes,
        overlay_files: all.overlay_files + own.overlay_files,
    })
}

/// The share of one overlay file in the quota; given back on drop.
#[derive(Debug)]
pub(crate) struct QuotaShare {
    quota: Arc<Quota>,
    uid: u32,
    bytes: u64,
}

impl QuotaShare {
    /// Resizes the share to `bytes`; ENOSPC if its user would take too much, see [`Quota::take`].
    pub(crate) fn resize(&mut self, bytes: u64, most: u64) -> Result<()> {
        if bytes > self.bytes {
            self.quota.take(self.uid, bytes - self.bytes, most)?;
        } else {
            self.quota.give_back(self.uid, Taken { bytes: self.bytes - bytes, overlay_files: 0 });
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        self.quota.give_back(self.uid, Taken { bytes: self.bytes, overlay_files: 1 });
    }
}

/// The location of an overlay file's bytes.
#[derive(Debug)]
pub(crate) enum Backing {
    /// The head of the source.
    Source,
    /// A scratch file.
    File(Arc<File>),
    /// A short generated text in memory; a change moves it to a scratch file.
    Text(Text),
    /// The target of a symbolic link.
    Link(OsString),
    /// A directory.
    Directory,
}

/// A file, link or directory in an overlay: `tree.yaml`, or one beside it.
#[derive(Debug)]
pub(crate) struct OverlayFile {
    /// Serial number of the file; `None` for the initial `tree.yaml`.
    pub(crate) serial: Option<u64>,
    /// Serial number of the file's overlay.
    pub(crate) overlay: u64,
    /// True for a directory.
    pub(crate) is_dir: bool,
    /// State of the file. A thread that takes this lock must already hold the overlay's lock.
    pub(crate) body: RankedMutex<Body>,
}

/// The stat of an overlay file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileStat {
    pub(crate) kind: FileKind,
    pub(crate) size: u64,
    /// `None` in `mode`, `uid` and `gid` if the value is that of the source.
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) nlink: u32,
    pub(crate) atime: Time,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
    /// The stat of the source.
    pub(crate) source: Stat,
}

/// The state of an overlay file.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) backing: Backing,
    /// Size in bytes of the scratch file or the generated text.
    pub(crate) size: u64,
    /// `None` in `mode`, `uid`, `gid` and `atime` if the value is that of the source.
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) atime: Option<Time>,
    /// Modification time; not used while the file shows the source.
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
    pub(crate) nlink: u32,
    pub(crate) xattrs: BTreeMap<OsString, Vec<u8>>,
    /// True if the text was generated by this program and not changed since.
    pub(crate) generated: bool,
    /// Number of changes of the text.
    pub(crate) edits: u64,
    /// Value of `edits` when the text was last equal to the saved text.
    pub(crate) saved: u64,
    /// Value of `edits` at the last refusal, and the reason.
    pub(crate) refused: Option<(u64, Refusal)>,
    /// Value of `edits` at which the program that wrote the text was killed.
    pub(crate) cut: Option<u64>,
    /// True if the saved text was only appended to.
    pub(crate) appended: bool,
    /// The overlay's `base_version` from which the text was derived.
    pub(crate) base_version: u64,
    /// The program that last opened the file for writing, if known.
    pub(crate) program: Option<String>,
    /// Numbers of handles, and of handles that may write.
    pub(crate) handles: u32,
    pub(crate) writers: u32,
    /// True if a change came from a memory mapping, of which no handle knows.
    pub(crate) mapped: bool,
    /// Time at which the text was left empty and unsaved, without a writing handle.
    pub(crate) pending: Option<Instant>,
    /// True if the saved text is shown once the last handle is closed: the text is saved, but has inner lines `...` that
    /// were removed in the saved text, or lacks the prologue, without which other programs don't know what it is.
    pub(crate) gives_way: bool,
    /// The user whose quota the file takes.
    pub(crate) payer: Payer,
    /// The file's share of the quota; `None` if the file shows the source, or is unreachable.
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
            program: None,
            handles: 0,
            writers: 0,
            mapped: false,
            pending: None,
            gives_way: false,
            payer: Payer::default(),
            share: None,
        }
    }

    /// Takes quota for `bytes`; see [`QuotaShare::resize`].
    pub(crate) fn take_room(&mut self, quota: &Arc<Quota>, bytes: u64, most: u64) -> Result<()> {
        match &mut self.share {
            Some(share) => share.resize(bytes, most),
            None => {
                let mut share = quota.one_more(self.payer)?;
                share.resize(bytes, most)?;
                self.share = Some(share);
                Ok(())
            }
        }
    }

    /// Sets the user whose quota the file takes, unless it has a share of another one.
    pub(crate) fn set_payer(&mut self, payer: Payer) {
        if self.share.is_none() {
            self.payer = payer;
        }
    }

    /// Makes the file show the source, and returns its previous backing.
    pub(crate) fn show_source(&mut self) -> Backing {
        self.size = 0;
        self.share = None;
        self.gives_way = false;
        std::mem::replace(&mut self.backing, Backing::Source)
    }

    /// Gives the share back to the quota if no name and no handle reaches the file any more.
    ///
    /// The bytes stay until the kernel forgets the node, as a program that has just looked the name up may
    /// still open it.
    pub(crate) fn give_back_if_gone(&mut self) {
        if self.nlink == 0 && self.handles == 0 {
            self.share = None;
        }
    }

    /// True if the text is the saved one. Only meaningful for `tree.yaml`.
    pub(crate) fn is_clean(&self) -> bool {
        self.edits == self.saved
    }

    /// Returns the refusal of the current text.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        self.refused.as_ref().filter(|(edits, _)| *edits == self.edits).map(|(_, refusal)| refusal)
    }

    /// Records a change of the text.
    ///
    /// `appended` is true if the change only extended it.
    pub(crate) fn edited(&mut self, appended: bool) {
        self.generated = false;
        self.appended = appended && (self.appended || self.is_clean());
        self.gives_way = false;
        self.edits += 1;
        self.mtime = now();
        self.ctime = self.mtime;
        self.pending = None;
    }

    /// Returns the whole text of a file that does not show the source.
    pub(crate) fn text(&self) -> Result<Vec<u8>> {
        let mut text = vec![0; usize::try_from(self.size).map_err(|_| errno(libc::EFBIG))?];
        match &self.backing {
            Backing::File(file) => file.read_exact_at(&mut text, 0)?,
            Backing::Text(own) => seekable::content::read_exact_at(own, 0, &mut text)?,
            _ => return Err(errno(libc::EINVAL)),
        }
        Ok(text)
    }

    /// True if the last line is `...`, which ends a tree.
    pub(crate) fn has_ended(&self) -> Result<bool> {
        let Backing::File(file) = &self.backing else { return Ok(false) };
        let mut end = [0; 6];
        let len = self.size.min(end.len() as u64) as usize;
        file.read_exact_at(&mut end[..len], self.size - len as u64)?;
        let end = &end[..len];
        Ok([&b"\n..."[..], b"\n...\n", b"\n...\r\n"].iter().any(|line| end.ends_with(line)))
    }

    /// True if the text equals `other`.
    pub(crate) fn same_as(&self, other: &dyn Content) -> Result<bool> {
        let Backing::File(file) = &self.backing else { return Ok(matches!(self.backing, Backing::Source)) };
        if self.size != other.len() {
            return Ok(false);
        }
        let piece = piece(self.size);
        let mut own = vec![0; piece];
        let mut others = vec![0; piece];
        let mut at = 0;
        while at < self.size {
            let len = usize::try_from(self.size - at).map_or(PIECE, |rest| rest.min(PIECE));
            file.read_exact_at(&mut own[..len], at)?;
            seekable::content::read_exact_at(other, at, &mut others[..len])?;
            if own[..len] != others[..len] {
                return Ok(false);
            }
            at += len as u64;
        }
        Ok(true)
    }
}

/// The contents of a scratch file, with its size.
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

/// Returns the size of a piece for copying `len` bytes.
fn piece(len: u64) -> usize {
    usize::try_from(len).map_or(PIECE, |len| len.min(PIECE))
}

/// Copies a text into a file.
pub(crate) fn copy(text: &dyn Content, file: &File) -> Result<()> {
    let mut piece = vec![0; piece(text.len())];
    let mut at = 0;
    while at < text.len() {
        let len = usize::try_from(text.len() - at).map_or(PIECE, |rest| rest.min(PIECE));
        seekable::content::read_exact_at(text, at, &mut piece[..len])?;
        file.write_all_at(&piece[..len], at)?;
        at += len as u64;
    }
    Ok(())
}

/// Returns the current time, truncated to 100 ns.
///
/// emacs takes a finer time as a sign that `fstat` before close returns the final time and size, and does not
/// ask again after close. It would then record time and size of a refused text, and find at its next save
/// that the file has changed (`write-region` in fileio.c).
pub(crate) fn now() -> Time {
    let (seconds, nanoseconds) = time_of(SystemTime::now());
    (seconds, nanoseconds - nanoseconds % 100)
}

/// Converts a system time to seconds and nanoseconds.
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

    const DRAFT: Payer = Payer { uid: 7, is_beside: false };

    #[test]
    fn the_budget_is_given_back_to_the_last_byte() {
        let quota = Arc::new(Quota::new(MAX_FILES));
        let mut one = quota.one_more(DRAFT).unwrap();
        one.resize(100, 150).unwrap();
        let mut two = quota.one_more(DRAFT).unwrap();
        assert_eq!(two.resize(51, 150).unwrap_err().errno(), libc::ENOSPC);
        two.resize(50, 150).unwrap();
        one.resize(20, 0).unwrap();
        two.resize(130, 150).unwrap();
        assert_eq!(two.resize(u64::MAX, u64::MAX).unwrap_err().errno(), libc::ENOSPC);
        drop((one, two));
        assert!(locked(&quota.taken).is_empty());
        let all: Vec<_> = (0..MAX_FILES / 2).map(|_| quota.one_more(DRAFT).unwrap()).collect();
        assert!(quota.one_more(DRAFT).is_err());
        drop(all);
        quota.one_more(DRAFT).unwrap();
    }

    #[test]
    fn a_user_leaves_a_share_to_others_and_his_files_a_share_to_his_drafts() {
        let quota = Arc::new(Quota::new(64));
        let fill = |payer: Payer| std::iter::from_fn(|| quota.one_more(payer).ok()).collect::<Vec<_>>();
        let mut all = Vec::new();
        for (uid, files, drafts) in [(1, 28, 4), (2, 14, 2), (3, 7, 1)] {
            for (is_beside, count) in [(true, files), (false, drafts)] {
                let taken = fill(Payer { uid, is_beside });
                assert_eq!(taken.len(), count, "{uid} {is_beside}");
                all.extend(taken);
            }
        }
        drop(all);
        let share = |uid, bytes| {
            let mut share = quota.one_more(Payer { uid, is_beside: true }).unwrap();
            share.resize(bytes, 1000).map(|()| share)
        };
        let one = share(1, 1000).unwrap();
        assert!(share(1, 1).is_err() && share(2, 501).is_err());
        let two = share(2, 500).unwrap();
        share(3, 250).unwrap();
        drop((one, two));
        share(3, 1000).unwrap();
    }

    #[test]
    fn a_sheet_that_shows_the_source_takes_nothing() {
        let quota = Arc::new(Quota::new(2));
        let mut one = Body::new(Backing::Source, 0);
        let mut two = Body::new(Backing::Source, 0);
        one.take_room(&quota, 10, 100).unwrap();
        assert_eq!(two.take_room(&quota, 0, 100).unwrap_err().errno(), libc::ENOSPC);
        one.show_source();
        assert_eq!(two.take_room(&quota, 101, 100).unwrap_err().errno(), libc::ENOSPC);
        two.take_room(&quota, 100, 100).unwrap();
    }
}
