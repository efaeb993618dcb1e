//! The editor of one ASDF file: checks and saves texts one after the other.
//!
//! It decides whether a text is accepted, how the text is written to the file, and what a crash can leave. The caller
//! decides when a text is tried.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::os::fd::AsFd;
use std::sync::Arc;

use asdf_tree::schema::Schemas;
use seekable::cache::Cache;
use seekable::error::{Error, Kind, Result};
use seekable::source::storage::System;
use seekable::source::{FileSource, Readers, SourceVersion};

use seekable::content::{Content, read_exact_at};

use super::check::{self, Accepted, BlockSizes, Old};
use super::context::{EditContext, Planned, SaveTarget, Saved, Validation};
use super::refusal::Refusal;
use super::sidecar::HeldSource;
use super::{NewHead, SaveOptions, SavePlan, Target};
use crate::asdf::head::Head;
use crate::asdf::stored::StoredFile;
use crate::container::Context;
use crate::container::text_version::TextVersion;
use crate::history::{Digest, History, KeptText, MAX_BYTES, Replaced, Save};

/// The size from which a text is hashed on another thread during the check.
const LARGE: usize = 1 << 20;

/// The editor of one file's tree. It holds the file's lock until it is dropped.
#[derive(Debug)]
pub struct Editor {
    /// The file.
    pub file: Target,
    validation: Validation,
    schemas: Option<Arc<Schemas>>,
    options: SaveOptions,
    /// The version of the text in the file, and what the check of a new text needs to know of that text.
    old: Option<(TextVersion, Old)>,
    notices: Vec<String>,
    later_notices: Vec<String>,
    /// The history, which keeps the texts that saves replace. `program` is the name of the program that
    /// saves.
    history: Option<Arc<History>>,
    program: Option<String>,
    /// True if a save is refused when the text that it replaces can't be kept.
    needs_history: bool,
    /// The file to edit.
    target: SaveTarget,
}

impl Editor {
    /// Opens and locks a file, and recovers it from an interrupted save.
    ///
    /// # Errors
    ///
    /// The errno is EROFS, EACCES or EPERM if the file is read-only, EBUSY if another program has it locked.
    pub fn open(target: SaveTarget, context: &EditContext) -> Result<Self> {
        let source = HeldSource::of(&target)?;
        let mut file = Target::open(System, source).map_err(|error| relabelled(&error, &target))?;
        if let Some(rights) = target.rights() {
            file.demand(rights).map_err(|error| relabelled(&error, &target))?;
        }
        if let Some(mount) = target.mount() {
            file.held_for(mount);
        }
        file.share(&context.limits);
        let lock_error = file.lock_error().map(|error| {
            format!("it can't be locked, so other programs may save it at the same time: {error}")
        });
        let outcome = file.recovered().outcome_notice().map(str::to_owned);
        let notices = lock_error.into_iter().chain(outcome).chain(file.recovered().notices()).collect();
        Ok(Self {
            file,
            validation: context.options.validation,
            schemas: context.schemas.clone(),
            options: SaveOptions { padding: context.options.padding, only: None },
            old: None,
            notices,
            later_notices: Vec::new(),
            history: context.history.clone(),
            program: None,
            needs_history: false,
            target,
        })
    }

    /// Returns the file with its layout, which is read at the first call.
    fn file(&mut self) -> Result<&mut Target> {
        self.file.layout().map_err(|error| relabelled(&error, &self.target))?;
        Ok(&mut self.file)
    }

    /// Refuses a text that was not made from the present version of the tree.
    fn check_base(&mut self, base: &TextVersion) -> std::result::Result<(), Refusal> {
        if self.version()? == *base { Ok(()) } else { Err(Refusal::Conflict) }
    }

    /// Checks a text against the one in the file.
    fn checked<'t>(&mut self, text: &'t [u8]) -> std::result::Result<Accepted<'t>, Refusal> {
        let head = self.file()?.layout()?.head;
        if self.old.as_ref().is_none_or(|(known, _)| *known != head) {
            let text = self.file()?.head()?;
            self.old = Some((head, Old::of(&text, self.schemas.clone())));
        }
        let blocks = SizedBlocks::of(self.file()?)?;
        let Some((_, old)) = &self.old else {
            return Err(Error::new(Kind::System(libc::EIO), "the saved text is not known").into());
        };
        blocks.check(text, old, self.validation).map_err(|refusal| match refusal {
            Refusal::Failed(error) => error.of(self.target.label()).into(),
            refusal => refusal,
        })
    }

    /// Checks a text for a file that another program has locked, as a mount does. Nothing is locked or written.
    pub fn check_beside(
        target: &SaveTarget,
        text: &[u8],
        base: &TextVersion,
        edits: &EditContext,
    ) -> std::result::Result<Planned, Refusal> {
        let context = Context::new(Arc::new(Cache::with_threads(0, 1)));
        let file = StoredFile::open(target.open()?, &context)?;
        let tree = file.tree();
        let mut old = vec![0; usize::try_from(tree.len()).unwrap_or(usize::MAX)];
        read_exact_at(&*tree, 0, &mut old)?;
        if TextVersion::of_bytes(&old) != *base {
            return Err(Refusal::Conflict);
        }
        let count = file.block_count()?;
        let blocks = SizedBlocks { file, count, error: OnceCell::new() };
        let old = Old::of(&old, edits.schemas.clone());
        let Accepted { text, restored, warnings, .. } = blocks.check(text, &old, edits.options.validation)?;
        Ok(Planned { text: text.into_owned(), way: None, restored, warnings })
    }

    /// Keeps the present text in the history before a save replaces it by `text`. An error prevents the save
    /// only if it must be possible to take the save back.
    fn keep<'h>(
        &mut self,
        history: &'h History,
        text: &[u8],
        version: TextVersion,
    ) -> Result<Option<KeptText<'h>>> {
        let Ok(target) = self.file() else { return Ok(None) };
        if target.layout()?.head == version {
            return Ok(None);
        }
        let Ok(old) = target.head() else { return Ok(None) };
        let file = (self.target.dir(), self.target.name());
        let program = self.program.as_deref();
        match history.keep(&Replaced { file, program, old: &old, new: text }) {
            Ok(kept) => {
                if kept.is_omitted() {
                    self.notify(format!(
                        "the replaced text is larger than {} MiB: it is not kept in the history, so this save \
                         can't be taken back",
                        MAX_BYTES >> 20
                    ));
                }
                Ok(Some(kept))
            }
            Err(error) if self.needs_history => Err(error),
            Err(error) => {
                if history.warns() {
                    self.notify(error.to_string());
                }
                Ok(None)
            }
        }
    }

    /// Logs a notice about a save, and keeps it for the user.
    fn notify(&mut self, notice: String) {
        tracing::warn!("{}: {notice}", self.target.label().display());
        self.later_notices.push(notice);
    }

    /// Ends the history's part of a save: keeps the old text, or withdraws it if the save failed. `now` is
    /// the version of the tree after the save, if it is known.
    fn end_kept(&self, kept: Option<KeptText<'_>>, base: TextVersion, now: Option<TextVersion>) {
        match kept {
            Some(kept) if now == Some(base) => kept.withdraw(),
            Some(kept) => kept.saved((self.target.dir(), self.target.name())),
            None => {}
        }
    }

    /// Opens the file for writing and closes it again. The descriptor that wrote the save stays open, so
    /// without this programs that wait for `IN_CLOSE_WRITE` with inotify would not be notified of the save.
    fn close_again(&mut self) {
        // The text is saved, whatever happens here.
        let _ = self.file.open_named(true);
    }

    /// Returns notices for the user about the opening of this file, a line each.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Returns notices for the user about the saves since the file was opened, a line each.
    pub fn later_notices(&self) -> &[String] {
        &self.later_notices
    }

    /// Returns the version of the tree now.
    ///
    /// This is the version in the last layout if the file's size and time have not changed. If the head was
    /// changed nevertheless, the save notices, because it reads the head.
    pub(crate) fn version(&mut self) -> Result<TextVersion> {
        let file = self.file()?;
        if !file.is_untouched() && !file.is_current()? {
            file.reload()?;
        }
        Ok(file.layout()?.head)
    }

    /// Returns the text of the tree.
    pub fn text(&mut self) -> Result<Vec<u8>> {
        self.version()?;
        self.file()?.head()
    }

    /// Returns the saves of the file in a history, the last one first. `now` is the digest of the present text.
    pub fn saves_in(&self, history: &History, now: Digest) -> Result<Vec<Save>> {
        let found_at = (self.target.dir(), self.target.name());
        history.changes_of_open(self.file.file.as_fd(), found_at, || Ok(now))
    }

    /// Sets the program that writes the next texts, for the history.
    pub fn set_program(&mut self, program: Option<String>) {
        self.program = program;
    }

    /// Refuses the next saves if the history can't keep the texts that they replace.
    pub fn require_history(&mut self) {
        self.needs_history = true;
    }

    /// Checks a text without writing it; the arguments are as for [`commit`](Self::commit).
    pub fn check(&mut self, text: &[u8], base: &TextVersion) -> std::result::Result<(), Refusal> {
        self.check_base(base)?;
        self.checked(text).map(drop)
    }

    /// Checks a text and plans its save, without writing it; the arguments are as for [`commit`](Self::commit).
    pub fn plan(&mut self, text: &[u8], base: &TextVersion) -> std::result::Result<Planned, Refusal> {
        self.check_base(base)?;
        let Accepted { text, restored, warnings, .. } = self.checked(text)?;
        let options = self.options;
        let way = self.file()?.way(&text, &options).map_err(|error| relabelled(&error, &self.target))?;
        Ok(Planned { text: text.into_owned(), way: way.map(SavePlan::word), restored, warnings })
    }

    /// Makes `text` the tree, durably, or leaves the file unchanged.
    ///
    /// `base` is the version that the text was derived from; the text is refused if the file has another
    /// version now. Before bytes of the same file change, `readers` are told about it.
    pub fn commit(
        &mut self,
        text: &[u8],
        base: &TextVersion,
        readers: &mut dyn Readers,
    ) -> std::result::Result<Saved, Refusal> {
        self.check_base(base)?;
        let (accepted, hashed) = std::thread::scope(|scope| {
            // Hashing takes about as long as the check, so a large text is hashed on another thread.
            let beside = (text.len() >= LARGE)
                .then(|| {
                    let hash = || TextVersion::of_bytes(text);
                    std::thread::Builder::new().name("hash".into()).spawn_scoped(scope, hash).ok()
                })
                .flatten();
            let accepted = self.checked(text);
            (accepted, beside.and_then(|beside| beside.join().ok()))
        });
        let accepted = accepted?;
        let version = match &accepted.text {
            Cow::Borrowed(text) => hashed.unwrap_or_else(|| TextVersion::of_bytes(text)),
            // The check restored a part of the tree, so the accepted text is not the hashed one.
            Cow::Owned(restored) => TextVersion::of_bytes(restored),
        };
        let options = self.options;
        let history = self.history.clone();
        let kept = match history.as_deref() {
            Some(history) => self.keep(history, &accepted.text, version)?,
            None => None,
        };
        let new = NewHead { text: &accepted.text, version };
        let applied = self.file()?.save_among_readers(new, &options, readers);
        let now = if applied.is_ok() { Some(version) } else { self.version().ok() };
        self.end_kept(kept, *base, now);
        let applied = applied.map_err(|error| relabelled(&error, &self.target))?;
        self.old = accepted.next.map(|next| (version, next));
        let written = applied.plan.is_some();
        if written {
            self.close_again();
        }
        Ok(Saved {
            version,
            from: applied.from.into(),
            after: applied.saved.into(),
            written,
            restored: accepted.restored,
            warnings: accepted.warnings,
        })
    }

    /// Returns the version of the new file if a save failed after the new file was in place.
    pub fn replaced(&self) -> Option<SourceVersion> {
        let layout = self.file.layout.as_ref().filter(|_| self.file.rename_unsynced)?;
        Some(layout.identity.into())
    }
}

/// Returns the error with the file's name as the user knows it.
fn relabelled(error: &Error, target: &SaveTarget) -> Error {
    Error::new(error.kind(), error.message()).of(target.label())
}

/// The blocks of a file, with sizes from their headers.
#[derive(Debug)]
struct SizedBlocks {
    file: StoredFile,
    count: usize,
    /// The system error that kept a block from being read.
    error: OnceCell<Error>,
}

impl SizedBlocks {
    fn of(target: &mut Target) -> Result<Self> {
        let label = target.label();
        let opened = target.open_named(false).map_err(|error| Error::from(error).of(&label))?;
        let source = Arc::new(FileSource::from_file(opened, &label)?);
        // The sizes need no decoding.
        let context = Context::new(Arc::new(Cache::with_threads(0, 1)));
        let layout = target.layout()?;
        let identity = source.identity()?;
        let file = if identity == layout.identity {
            let head = Head::known(layout.generation, layout.head.len);
            StoredFile::new(source, &context, identity.into(), head).with_blocks_at(layout.offsets.clone())
        } else {
            // The file was changed outside the tree meanwhile.
            StoredFile::open(source, &context)?
        };
        let count = file.block_count()?;
        Ok(Self { file, count, error: OnceCell::new() })
    }
}

impl SizedBlocks {
    /// Checks a text for a file with these blocks.
    fn check<'t>(
        self,
        text: &'t [u8],
        old: &Old,
        validation: Validation,
    ) -> std::result::Result<Accepted<'t>, Refusal> {
        let checked = check::check(text, old, &self, validation);
        // An unreadable block is not a fault of the text.
        match self.error.into_inner() {
            Some(error) => Err(error.into()),
            None => checked.map_err(Refusal::Text),
        }
    }
}

impl BlockSizes for SizedBlocks {
    fn count(&self) -> usize {
        self.count
    }

    fn size(&self, n: usize) -> Option<u64> {
        let block = self.file.block(n).ok()?;
        if let Err(error) = &block.content
            && matches!(error.kind(), Kind::System(_))
        {
            let _ = self.error.set(error.clone());
            return None;
        }
        // A block that can't be decoded here may be decodable for other readers. Its header gives the length.
        Some(block.content.as_ref().map_or(block.facts.data_size, |content| Content::len(&**content)))
    }
}
