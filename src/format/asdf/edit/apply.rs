//! Carries out a change by one of five plans. Whatever happens, the file is the old one or the new one.
//!
//! Plans that write a new file ([`replace`]) need no journal: one rename puts the new file in place of the old
//! one. Plans that change the file itself ([`journaled`]) write the journal first.

use super::Plan;
use super::layout::version;
use super::plan::Change;
use super::sidecar::SidecarPaths;
use crate::error::{Error, Kind};
use crate::format::editor::DeviceLimits;
use crate::source::storage::Storage;
use crate::source::{Identity, Readers};

mod announce;
mod journaled;
mod ranges;
mod replace;
mod stream;

pub(crate) use stream::{linked, not_leased};

/// Bytes compared and written at once.
const PIECE: usize = 64 << 10;

/// What a save works on.
pub(crate) struct Job<'a, S: Storage> {
    /// The file system.
    pub(crate) storage: &'a S,
    /// The source's name, absolute and without links.
    pub(crate) path: &'a std::path::Path,
    /// The open source.
    pub(crate) file: &'a S::File,
    /// Where journal and image may lie, best first.
    pub(crate) places: &'a [SidecarPaths],
    /// What is to be done.
    pub(crate) change: &'a Change<'a>,
    /// The identity that the source must have until a plan changes it.
    pub(crate) source: std::cell::Cell<Identity>,
    /// What file systems can't do.
    pub(crate) limits: &'a DeviceLimits,
    /// The readers of the source, who are told of what changes in it.
    pub(crate) readers: std::cell::RefCell<&'a mut dyn Readers>,
    /// How many syncs were made.
    pub(crate) syncs: std::cell::Cell<u32>,
    /// Whether the source has a read lease; it is then open for reading only.
    pub(crate) leased: bool,
    /// Whether a journal could not be removed although the save is complete. The next recovery removes it.
    pub(crate) left: std::cell::Cell<bool>,
}

/// The outcome of a plan that succeeded.
#[derive(Debug)]
pub(crate) enum Done<F> {
    /// The source is changed.
    SameFile,
    /// A new file has the source's name. With an error: the rename may not survive a crash.
    NewFile(NewFile<F>, Option<Error>),
}

/// The file that has taken the source's place.
#[derive(Debug)]
pub(crate) struct NewFile<F> {
    /// Open as the source was.
    pub(crate) file: F,
    /// What it is locked by, if not by itself.
    pub(crate) lock: Option<F>,
}

/// Why a plan failed. The source is the old one, unless the error says otherwise.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The file system does not support it, or something would be lost: try the next plan.
    Unsuited(Error),
    /// Another program changed the source meanwhile.
    SourceChanged,
    /// It failed.
    Failed(Error),
}

impl From<std::io::Error> for Stopped {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl<S: Storage> Job<'_, S> {
    /// Carries out `plan`.
    pub(crate) fn run(&self, plan: Plan) -> Result<Done<S::File>, Stopped> {
        if self.limits.has(self.change.identity.device, plan.word()) {
            return Err(unsuited("the file system refused that before"));
        }
        match plan {
            Plan::InPlace => self.in_place().map(|()| Done::SameFile),
            // A program that opens the file meanwhile would write to a place that is another one by then.
            Plan::Insert | Plan::Rewrite if self.change.moves_a_stream() => {
                Err(unsuited("the last block is streamed"))
            }
            Plan::Insert => self.insert().map(|()| Done::SameFile),
            Plan::Rewrite => self.rewrite().map(|()| Done::SameFile),
            Plan::Clone => self.replace(true),
            Plan::Copy => self.replace(false),
        }
    }

    fn sync(&self, file: &S::File) -> std::io::Result<()> {
        self.syncs.set(self.syncs.get() + 1);
        self.storage.sync(file)
    }

    fn sync_dir(&self, dir: &std::path::Path) -> std::io::Result<()> {
        self.syncs.set(self.syncs.get() + 1);
        self.storage.sync_dir(dir)
    }

    /// Makes a file and its name in `dir` durable.
    fn sync_with_dir(&self, file: &S::File, dir: &std::path::Path) -> std::io::Result<()> {
        self.syncs.set(self.syncs.get() + 2);
        self.storage.sync_with_dir(file, dir)
    }

    /// Takes the file system's answer to the one request that only `plan` makes.
    fn note_limit(&self, plan: Plan, error: &std::io::Error) {
        let never = match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY) => true,
            // A range that is not of the device's clusters. A clone may have other reasons.
            Some(libc::EINVAL) => plan == Plan::Insert,
            _ => false,
        };
        if never {
            self.limits.add(self.change.identity.device, plan.word());
        }
    }

    /// Whether the source is still the file that the change was planned for.
    fn check_unchanged(&self) -> Result<(), Stopped> {
        let planned = self.source.get();
        let named = self.named();
        let now = self.storage.meta(self.file)?.identity;
        // What is appended to a stream is no concern of a head that stays within its room.
        let grown = || -> std::io::Result<bool> {
            let head = self.change.old_head;
            let may = self.change.streamed && now.same_file(&planned) && now.size >= planned.size;
            Ok(may && version(self.storage, self.file, head.len)? == head)
        };
        match (now == planned || grown()?) && named.is_ok_and(|named| named.same_file(&planned)) {
            true => Ok(()),
            false => Err(Stopped::SourceChanged),
        }
    }

    /// The identity of the file that has the name.
    fn named(&self) -> std::io::Result<Identity> {
        if !self.storage.is_remote(self.file) {
            return Ok(self.storage.meta_at(self.path)?.identity);
        }
        // Only an opening finds a file that was replaced on the server; it may have the same number.
        let file = self.storage.open(self.path, false)?;
        let (head, identity) = (self.change.old_head, self.storage.meta(&file)?.identity);
        match version(self.storage, &file, head.len)? == head && identity.size >= self.source.get().size {
            true => Ok(identity),
            false => Err(std::io::Error::from_raw_os_error(libc::ESTALE)),
        }
    }
}

/// Whether an answer means that the file system can't do this at all.
pub(super) fn cannot(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EOPNOTSUPP
                | libc::ENOSYS
                | libc::EINVAL
                | libc::EXDEV
                | libc::ENOTTY
                | libc::ETXTBSY
                | libc::EPERM
                | libc::EACCES
                | libc::EISDIR
                | libc::EROFS
                | libc::EFBIG
                | libc::ENAMETOOLONG
                | libc::EBUSY
        )
    )
}

fn unsuited(why: &str) -> Stopped {
    Stopped::Unsuited(Error::new(Kind::Refused, why))
}

fn unsuited_or_failed(error: std::io::Error) -> Stopped {
    match cannot(&error) {
        true => Stopped::Unsuited(error.into()),
        false => Stopped::Failed(error.into()),
    }
}
