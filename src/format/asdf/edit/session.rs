//! Texts are checked and saved, one after the other, into one file.
//!
//! What every way of editing has in common: the mount, `--edit` and `--set-tree`.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use md5::{Digest, Md5};

use super::check::{self, Accepted, BlockSizes, Level, Old, Problem, Refusal};
use super::{SaveOptions, Saved, Target};
use crate::cache::Cache;
use crate::content::Content;
use crate::error::{Error, Kind, Result};
use crate::format::asdf::AsdfFile;
use crate::format::{Container, Context};
use crate::source::FileSource;

/// A text so long is worth a thread.
const LARGE: usize = 1 << 20;

/// How a session judges and saves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How much a text is asked for.
    pub level: Level,
    /// How it gets into the file.
    pub save: SaveOptions,
}

/// What became of a text that was saved.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it got into the file.
    pub saved: Saved,
    /// Which text the file's head is now: its length and its MD5.
    pub head: (u64, [u8; 16]),
    /// What was put back into it, in words; the file's head is then not exactly the text.
    pub mends: Vec<String>,
    /// What it was nearly refused for.
    pub warnings: Vec<Problem>,
}

/// Why a text was not saved; the file is the one before.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotSaved {
    /// The text is not what it should be.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// It could not be written.
    #[error("{0}")]
    Failed(Error),
}

impl From<Error> for NotSaved {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A file that is being edited: it is locked.
#[derive(Debug)]
pub struct Session {
    target: Target,
    settings: Settings,
    /// The file as messages name it.
    label: PathBuf,
    /// The text that is in the file, as the check knows it, and which text that is.
    old: Option<((u64, [u8; 16]), Old)>,
}

impl Session {
    /// Locks and recovers the file at `path`; see [`Target::open`].
    pub fn open(path: &Path, settings: Settings) -> Result<Self> {
        Ok(Self::of(Target::open(path)?, path, settings))
    }

    /// Goes on with a target that is open; `label` names it in messages.
    pub fn of(target: Target, label: &Path, settings: Settings) -> Self {
        Self { target, settings, label: label.to_owned(), old: None }
    }

    /// The file and what is known of it.
    pub fn target(&mut self) -> &mut Target {
        &mut self.target
    }

    /// Which text the file's head is, as of now: its length and its MD5.
    ///
    /// Of a file with the size and the time that are known nothing is read: should its head be another one
    /// all the same, the save finds that out, which reads it.
    pub fn head_now(&mut self) -> Result<(u64, [u8; 16])> {
        if !self.target.is_untouched() && !self.target.is_current()? {
            self.target.reload()?;
        }
        Ok(self.known_head())
    }

    fn known_head(&self) -> (u64, [u8; 16]) {
        (self.target.layout().head_end, self.target.layout().head_md5)
    }

    /// The text that is in the file.
    pub fn text(&mut self) -> Result<Vec<u8>> {
        self.head_now()?;
        self.target.head()
    }

    /// Checks `text` as a save would; writes nothing.
    pub fn check<'t>(&mut self, text: &'t [u8]) -> std::result::Result<Accepted<'t>, NotSaved> {
        let head = self.known_head();
        if self.old.as_ref().is_none_or(|(known, _)| *known != head) {
            self.old = Some((head, Old::of(&self.target.head()?)));
        }
        let Some((_, old)) = &self.old else {
            return Err(Error::new(Kind::System(libc::EIO), "the saved text is not known").into());
        };
        let blocks = Blocks::of(&self.target)?;
        let checked = check::check(text, old, &blocks, self.settings.level);
        // What was found of blocks that could not be read is no fault of the text.
        match blocks.trouble.into_inner() {
            Some(trouble) => Err(NotSaved::Failed(trouble.of(&self.label))),
            None => checked.map_err(NotSaved::Refused),
        }
    }

    /// Checks `text` and makes it the file's head; `moving` as in [`Target::save_among_readers`].
    pub fn save(&mut self, text: &[u8], moving: &mut dyn FnMut()) -> std::result::Result<Outcome, NotSaved> {
        let (accepted, md5) = std::thread::scope(|scope| {
            // A large text is hashed while it is checked: that takes about as long.
            let beside = (text.len() >= LARGE)
                .then(|| std::thread::Builder::new().spawn_scoped(scope, || md5_of(text)).ok())
                .flatten();
            let accepted = self.check(text);
            (accepted, beside.and_then(|beside| beside.join().ok()))
        });
        let accepted = accepted?;
        let md5 = match &accepted.text {
            Cow::Borrowed(text) => md5.unwrap_or_else(|| md5_of(text)),
            // Something was put back into it.
            Cow::Owned(text) => md5_of(text),
        };
        let saved = self.target.save_among_readers(&accepted.text, md5, &self.settings.save, moving);
        let saved = saved.map_err(|error| Error::new(error.kind(), error.message()).of(&self.label))?;
        let next = accepted.next;
        let head = self.known_head();
        self.old = next.map(|next| (head, next));
        Ok(Outcome { saved, head, mends: accepted.mends, warnings: accepted.warnings })
    }
}

fn md5_of(text: &[u8]) -> [u8; 16] {
    Md5::digest(text).into()
}

/// The blocks of a file as its headers have them.
#[derive(Debug)]
struct Blocks {
    file: AsdfFile,
    count: usize,
    /// Why the system did not let one be looked at.
    trouble: OnceCell<Error>,
}

impl Blocks {
    fn of(target: &Target) -> Result<Self> {
        let source = Arc::new(FileSource::open(target.path())?);
        // Nothing is decoded for its size.
        let context = Context { cache: Arc::new(Cache::with_threads(0, 1)) };
        let (layout, identity) = (target.layout(), source.identity()?);
        let file = match identity == layout.identity {
            true => {
                let head = (layout.generation, layout.head_end);
                AsdfFile::known(source, &context, identity.into(), head, layout.offsets.clone())
            }
            // Something else about it was changed meanwhile.
            false => AsdfFile::open(source, &context)?,
        };
        let count = file.block_count()?;
        Ok(Self { file, count, trouble: OnceCell::new() })
    }
}

impl BlockSizes for Blocks {
    fn count(&self) -> usize {
        self.count
    }

    fn size(&self, n: usize) -> Option<u64> {
        let block = self.file.block(n).ok()?;
        if let Err(error) = &block.content
            && matches!(error.kind(), Kind::System(_))
        {
            let _ = self.trouble.set(error.clone());
            return None;
        }
        // A block that can't be read here may be readable to others: its header tells how long it is.
        Some(block.content.as_ref().map_or(block.facts.data_size, |content| Content::len(&**content)))
    }
}
