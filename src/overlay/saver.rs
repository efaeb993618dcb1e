//! The seam between drafts and what makes a save of them.
//!
//! A folder whose file can be written asks [`Savers`] for a [`Saver`] when its first draft begins, and
//! hands it each text that is to become the tree. Whether the text is accepted, how it gets into the
//! file and what a crash may do is the saver's affair; which text is tried when is the draft's.
//!
//! A saver holds the lock of its file for as long as it lives.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use md5::{Digest, Md5};

use crate::content::{Content, read_exact_at};
use crate::error::Result;
use crate::format::Container;

/// How much of a text is read at once to tell what it is.
const PIECE: usize = 256 << 10;

/// Which text a file's head is: its length and its MD5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes, up to and with the line `...`.
    pub len: u64,
    /// MD5 of these bytes.
    pub md5: [u8; 16],
}

impl Head {
    /// Of a text in memory.
    pub fn of_bytes(text: &[u8]) -> Self {
        Self { len: text.len() as u64, md5: Md5::digest(text).into() }
    }

    /// Reads all of `text`.
    pub fn of(text: &dyn Content) -> Result<Self> {
        let (mut md5, mut at, len) = (Md5::new(), 0, text.len());
        let mut piece = vec![0; PIECE.min(usize::try_from(len).unwrap_or(PIECE))];
        while at < len {
            let wanted = usize::try_from(len - at).map_or(piece.len(), |rest| rest.min(piece.len()));
            read_exact_at(text, at, &mut piece[..wanted])?;
            md5.update(&piece[..wanted]);
            at += wanted as u64;
        }
        Ok(Self { len, md5: md5.finalize().into() })
    }
}

/// Where the file lies that a saver is to write.
#[derive(Debug)]
pub struct Site {
    dir: OwnedFd,
    name: OsString,
    label: PathBuf,
}

impl Site {
    pub(crate) fn new(dir: OwnedFd, name: OsString, label: PathBuf) -> Self {
        Self { dir, name, label }
    }

    /// The directory that holds the file, opened before a mount could cover it.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// The file's name in that directory; not a link.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// A path that reaches the file although a mount may cover it, for as long as the site is kept; not
    /// to be made canonical.
    pub fn path(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.dir.as_raw_fd().to_string()).join(&self.name)
    }

    /// The path as the user knows it, for messages only.
    pub fn label(&self) -> &Path {
        &self.label
    }
}

/// Who sees to it that nobody reads a file that a save left half the old one and half the new one.
#[derive(Clone, Debug)]
pub(crate) enum Settler {
    /// Makes it one of the two.
    Savers(Arc<dyn Savers>),
    /// Finds out that it is neither, in a mount (there, if that is known) that changes nothing.
    Reader(Option<PathBuf>),
}

impl Settler {
    /// See [`Savers::recover`].
    pub(crate) fn settle(&self, site: Site) -> Result<()> {
        match self {
            Self::Savers(savers) => savers.recover(site),
            Self::Reader(mountpoint) => crate::overlay::savers::is_whole(&site, mountpoint.as_deref()),
        }
    }
}

/// What a save did.
#[derive(Clone, Debug)]
pub struct Saved {
    /// Which text the file's head is now.
    pub head: Head,
    /// Whether anything was written: not where the file's head was this text already.
    pub written: bool,
    /// Whether the file's head is not exactly the text that was given: something was put back into it.
    pub mended: bool,
    /// What was put back, for the log.
    pub notes: Vec<String>,
    /// What the text was nearly refused for.
    pub warnings: Vec<String>,
    /// All of `tree.yaml.warning`: the warnings, and what to do.
    pub report: String,
}

/// Why a text did not become the tree. The file is the old one then.
#[derive(Clone, Debug)]
pub struct Refused {
    /// For the program that saves: EINVAL, EFBIG, EBUSY, ENOSPC, EIO …; never EPERM or EACCES.
    pub errno: i32,
    /// What is wrong, in one line.
    pub summary: String,
    /// All of `tree.yaml.error`: what is wrong, where, and what to do.
    pub explanation: String,
    /// Whether the same text would be refused again, so that it need not be tried again.
    pub for_good: bool,
    /// Whether the file may be half the old one and half the new one, until it is settled.
    pub unsettled: bool,
}

/// Makes saves of texts for one file, whose lock it holds.
pub trait Saver: Send + std::fmt::Debug {
    /// Whether `text` would be refused for what it is; writes nothing.
    fn check(&mut self, text: &[u8], began_from: &Head) -> std::result::Result<(), Refused>;

    /// Makes `text` the file's head, durably, or leaves the file as it is.
    ///
    /// `began_from` is the head that the draft began from: if the file has another one now, the text is
    /// refused with EBUSY. `moving` is to be called before bytes behind the head change their place in
    /// the same file: it returns when nobody reads them any more, and nobody does until this returns.
    fn try_save(
        &mut self,
        text: &[u8],
        began_from: &Head,
        moving: &mut dyn FnMut(),
    ) -> std::result::Result<Saved, Refused>;

    /// Finishes or undoes a save that could be neither finished nor undone when it failed.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Gives each file its saver.
pub trait Savers: Send + Sync + std::fmt::Debug {
    /// Whether files like this one can be saved at all.
    fn can_save(&self, container: &dyn Container) -> bool;

    /// Opens and locks a file.
    ///
    /// An error whose errno is EROFS, EACCES or EPERM says that the file can only be read; EBUSY that
    /// another program has it, which the message names.
    fn open(&self, site: Site) -> Result<Box<dyn Saver>>;

    /// Finishes or undoes a save of the file that a crash interrupted, if anything tells of one.
    ///
    /// Where that can't be done, as when another program has the file, nothing is done, and it is an
    /// error ([`Unfinished`](crate::Kind::Unfinished)) only if the file is half the old one and half the
    /// new one.
    fn recover(&self, site: Site) -> Result<()> {
        drop(site);
        Ok(())
    }
}
