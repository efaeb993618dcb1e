//! Open files: their bytes, and how the kernel may cache them.

use std::sync::{Arc, RwLock};

use asdf_file::folder::{self, Dir, File, Keeping, Renewal, RenewalKey};
use seekable::content::{Content, SharedBytes, Soundness};
use seekable::error::{Error, Kind, Result};
use seekable::source::Source;
use seekable::sync::{locked, locked_to_read, locked_to_write};

use crate::mounted::file::MountedFile;
use crate::mounted::file::verification::are_proven;
use crate::mounted::generation::HeldGeneration;
use crate::mounted::generation::bytes::rewritten;
use crate::vfs::Delay;
use crate::vfs::entry::{Class, Entry, OpenedSource};
use crate::vfs::kernel_cache::{KernelCache, Pages, ReadBytes};
use crate::vfs::node::{Ino, ViewNode};
use crate::vfs::read_sizes::{FirstReads, ReadSizes};
use crate::view::status::Writing;

/// Contents up to this size, in bytes, are read through the kernel's cache, which is faster for
/// many small reads. A larger stored content bypasses it, unless it was read in small pieces before: its bytes
/// go from the cache of the source straight to the reader.
const SMALL: u64 = 1 << 20;

/// The kernel's caching of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// No caching: every read reaches the daemon, so that a damaged content returns exactly its good prefix.
    ///
    /// With caching, the kernel would take a short answer for the end of the file, and an error for an error
    /// of the whole page.
    Direct,
    /// Only bytes that the daemon stores ([`Reading::given`]). Every read of this handle reaches the
    /// daemon.
    Stored,
    /// All bytes, until the next open.
    Anew,
    /// All bytes, also from one open to the next.
    Keep,
}

/// An open file.
#[derive(Debug)]
pub struct ReadHandle {
    what: What,
    ino: Ino,
    read_sizes: Arc<ReadSizes>,
    first_reads: FirstReads,
}

#[derive(Debug)]
enum What {
    /// A file in one generation of a mounted file.
    View { file: ViewFile, now: RwLock<Arc<Now>> },
    /// A content generated at open.
    Generated(Arc<dyn Content>),
    /// A mirrored file; `is_same` is true if it has not changed since the last open.
    Plain { content: Arc<dyn Content>, is_same: bool },
}

/// A file of a view, and the kernel's cache of its bytes.
#[derive(Debug)]
pub(crate) struct ViewFile {
    pub(crate) mounted: Arc<MountedFile>,
    pub(crate) view: Arc<ViewNode>,
    pub(crate) kernel_cache: KernelCache,
}

/// The content that a handle reads, as it was when opened. It is only replaced if the file grows, or if
/// another program changed the source but not these bytes.
#[derive(Debug)]
struct Now {
    held: HeldGeneration,
    content: Arc<dyn Content>,
    file: File,
}

impl ReadHandle {
    /// Opens a file of a view; `shown` is the file in the generation `held`.
    pub(crate) fn of_view(
        file: ViewFile,
        held: HeldGeneration,
        mut shown: File,
        read_sizes: &Arc<ReadSizes>,
    ) -> Result<Self> {
        let ino = Ino::of(file.view.serial);
        let content = shown.content.clone().inspect_err(|error| {
            file.mounted.report(error);
        })?;
        if shown.renewal == Renewal::Generated {
            return Ok(Self::new(What::Generated(content), ino, read_sizes));
        }
        held.add_blocks_of(&*content, &mut shown.blocks)?;
        let now = RwLock::new(Arc::new(Now { held, content, file: shown }));
        Ok(Self::new(What::View { file, now }, ino, read_sizes))
    }

    /// Opens a file that is generated now.
    pub(crate) fn generated(content: Arc<dyn Content>, ino: Ino, read_sizes: &Arc<ReadSizes>) -> Self {
        Self::new(What::Generated(content), ino, read_sizes)
    }

    fn new(what: What, ino: Ino, read_sizes: &Arc<ReadSizes>) -> Self {
        Self { what, ino, read_sizes: read_sizes.clone(), first_reads: FirstReads::default() }
    }

    /// Opens a mirrored file.
    pub(crate) fn of_entry(entry: &Entry, read_sizes: &Arc<ReadSizes>) -> Result<Self> {
        let Class::File { first, open } = &entry.class else {
            return Err(Error::new(Kind::Usage, "is not a file that can be read here"));
        };
        let source = entry.position.location.open_found(first)?;
        let opened = OpenedSource { version: source.stat()?.version, source: Arc::downgrade(&source) };
        // The kernel notices only changes of size and mtime.
        let before = locked(open).replace(Box::new(opened));
        let is_same =
            before.is_none_or(|before| source.stat().is_ok_and(|now| now.version == before.version));
        let what = What::Plain { content: Arc::new(Plain::new(source)), is_same };
        Ok(Self::new(what, Ino::of(entry.serial), read_sizes))
    }

    /// Notes the size of a read by a thread, or by the kernel's cache, for the next open.
    pub fn note_read(&self, thread: u32, offset: u64, size: u32, through_cache: bool) {
        self.first_reads.note(&self.read_sizes, self.ino, thread, offset, size, through_cache);
    }

    /// Looks at the file once, for a read.
    pub fn begin(&self) -> Reading<'_> {
        match &self.what {
            What::View { file, now } => {
                let now = snapshot(now);
                Reading { content: now.content.clone(), view: Some((file, now)) }
            }
            What::Generated(content) | What::Plain { content, .. } => {
                Reading { content: content.clone(), view: None }
            }
        }
    }

    /// Looks at the file for a read, and moves to a newer generation first if the file may have grown. See
    /// [`renew`](Self::renew).
    pub fn current(&self) -> Result<Reading<'_>> {
        let reading = self.begin();
        if !reading.is_outdated() {
            return Ok(reading);
        }
        self.renew()?;
        Ok(self.begin())
    }

    /// Returns the bytes of the file.
    ///
    /// If another program has changed the source, reading them fails with [`Kind::Changed`] (ESTALE). Then
    /// [`ReadHandle::renew`] finds out whether these bytes are unchanged.
    pub fn content(&self) -> Result<Arc<dyn Content>> {
        Ok(self.current()?.content)
    }

    /// Moves to the newest generation if this file has the same bytes there, or if it may grow. The bytes are
    /// the same if the source has only grown, or if the checksums of its blocks prove it. May parse
    /// the source and read blocks.
    ///
    /// # Errors
    /// ESTALE if the bytes no longer exist.
    pub fn renew(&self) -> Result<()> {
        let What::View { file: ViewFile { mounted, view, .. }, now } = &self.what else { return Ok(()) };
        mounted.revalidate_now();
        let newest = mounted.opened()?;
        let shown = snapshot(now);
        if shown.file.renewal != Renewal::Follows && !mounted.has_stale(&shown.held) {
            return Ok(());
        }
        let renewed = renewed(mounted, newest, view, &shown).map_err(|error| match error.kind() {
            Kind::System(_) => error,
            _ => rewritten(),
        })?;
        *locked_to_write(now) = Arc::new(renewed);
        Ok(())
    }

    /// Returns the queue for a read that may have to parse the file.
    pub fn delay(&self) -> Delay {
        let file = match &self.what {
            What::View { file, .. } => file.mounted.serial,
            What::Generated(_) | What::Plain { .. } => 0,
        };
        Delay { file, stalling: None }
    }

    /// Returns the caching for the content as it is now. Decodes a small content to find out if it is
    /// damaged.
    fn caching_of_now(&self, thread: u32) -> Caching {
        let is_small = |len: u64| len <= SMALL || self.read_sizes.are_small(self.ino, thread);
        let (mounted, now) = match &self.what {
            What::Generated(_) => return Caching::Direct,
            // A file of /proc has size 0 although it has bytes.
            What::Plain { content, .. } if content.is_empty() || !is_small(content.len()) => {
                return Caching::Direct;
            }
            What::Plain { is_same: false, .. } => return Caching::Anew,
            What::Plain { .. } => return Caching::Keep,
            What::View { file: ViewFile { mounted, .. }, now } => (mounted, now),
        };
        if self.content().is_err() {
            return Caching::Direct;
        }
        let now = snapshot(now);
        let content = &*now.content;
        let sound = match now.file.keeping {
            _ if now.file.grows || mounted.is_wrong(&now.held, &now.file.blocks) => false,
            Keeping::Nothing => false,
            keeping if content.stored().is_some() => {
                (keeping == Keeping::All || is_small(content.len())) && is_all_there(content)
            }
            Keeping::Small | Keeping::All => match content.soundness() {
                Soundness::Sound => true,
                Soundness::Broken(_) => false,
                Soundness::Unknown if content.len() <= SMALL => decodes(content),
                Soundness::Unknown => return Caching::Stored,
            },
        };
        if sound { Caching::Keep } else { Caching::Direct }
    }

    /// Returns how the kernel may cache the file, for the reply to an open by a thread. Notes the open, so that
    /// damage found later can drop the cached bytes.
    pub fn caching(&self, thread: u32) -> Caching {
        let caching = self.caching_of_now(thread);
        if let What::View { file: ViewFile { mounted, view, kernel_cache }, now } = &self.what {
            let now = snapshot(now);
            kernel_cache.note_open(Ino::of(view.serial), mounted.serial, &now.file.blocks);
        }
        caching
    }

    /// Reports a read error: in the log, and for a mounted file also in its status.
    pub fn report(&self, error: &Error) {
        match &self.what {
            What::View { file: ViewFile { mounted, .. }, now } => {
                if mounted.report(error) && error.lasts() {
                    let now = snapshot(now);
                    // The kernel's cache may hold some of the damaged bytes.
                    for n in now.file.blocks.iter() {
                        mounted.report_wrong(*n);
                    }
                }
            }
            What::Generated(_) | What::Plain { .. } => tracing::warn!("{error}"),
        }
    }
}

impl Drop for ReadHandle {
    fn drop(&mut self) {
        // The kernel does not tell when it no longer needs a page, so a server would be asked for it in vain.
        let What::View { now, .. } = &self.what else { return };
        if !snapshot(now).held.source.is_slow() {
            self.first_reads.end(&self.read_sizes, self.ino);
        }
    }
}

fn snapshot(now: &RwLock<Arc<Now>>) -> Arc<Now> {
    locked_to_read(now).clone()
}

/// A snapshot of an open file: the bytes that it has, and their generation. A read takes one and passes it on.
#[derive(Debug)]
pub struct Reading<'h> {
    content: Arc<dyn Content>,
    /// The file of a view, as it was at the snapshot.
    view: Option<(&'h ViewFile, Arc<Now>)>,
}

impl Reading<'_> {
    /// Returns the bytes. They may be read once the read is admitted.
    pub fn content(&self) -> &Arc<dyn Content> {
        &self.content
    }

    /// True if a read has to move to a newer generation first, for which the file may have to be parsed.
    pub fn is_outdated(&self) -> bool {
        let Some((ViewFile { mounted, .. }, now)) = &self.view else { return false };
        if now.file.renewal != Renewal::Follows {
            return false;
        }
        let seen = mounted.revalidate();
        seen.attached && seen.stat.source.version != now.held.version
    }

    /// Admits a read, or returns the error with which it fails. Call this before reading
    /// [`content`](Self::content).
    pub fn admit(&self) -> Result<()> {
        let Some((file, now)) = &self.view else { return Ok(()) };
        file.mounted.admit(&now.held, &now.file.blocks)
    }

    /// True if a read waits for the check of a checksum.
    fn is_held_up(&self) -> bool {
        let Some((file, now)) = &self.view else { return false };
        file.mounted.is_held_up(&now.held, &now.file.blocks)
    }

    /// True if a read may take long.
    pub fn is_slow(&self) -> bool {
        self.is_held_up() || self.content.is_slow()
    }

    /// Returns the bytes of a read from memory, if it needs no work and does not wait.
    pub fn at_hand(&self, offset: u64, len: usize) -> Option<SharedBytes> {
        let (_, now) = self.view.as_ref()?;
        // A growing file may have a newer version. Asking a slow source for it may take long.
        let is_asked = now.file.renewal == Renewal::Follows && now.held.source.is_slow();
        if is_asked || self.is_held_up() || self.is_outdated() {
            return None;
        }
        self.admit().ok()?;
        self.content.share(offset, len, false)
    }

    /// Stores the bytes that a reader with [`Caching::Stored`] got into the kernel's cache, so that the next
    /// reader gets them from there.
    pub fn given(&self, offset: u64, given: ReadBytes<'_>) {
        let Some((file, now)) = &self.view else { return };
        let content = &self.content;
        let is_kept = now.file.keeping != Keeping::Nothing;
        if is_kept && content.is_slow() && content.soundness() == Soundness::Unknown {
            let len = content.len();
            let content = content.clone();
            let is_still_valid = move || !matches!(content.soundness(), Soundness::Broken(_));
            if let Some(pages) = Pages::among(offset, given.len(), len) {
                file.kernel_cache.keep(Ino::of(file.view.serial), pages, given, is_still_valid);
            }
        }
    }
}

/// Returns the content for a handle in a newer generation, after another program changed the file.
fn renewed(mounted: &Arc<MountedFile>, newest: HeldGeneration, view: &ViewNode, shown: &Now) -> Result<Now> {
    // Only the root's status uses `Writing`, and the status is not read here.
    let root = mounted.root(&newest, Writing::default);
    let Some(folder::Node::File(mut file)) = root.find(&view.path())? else {
        return Err(rewritten());
    };
    let content = file.content.clone()?;
    newest.add_blocks_of(&*content, &mut file.blocks)?;
    let (own, new) = (shown.file.renewal.key(), file.renewal.key());
    let saved = newest.outside_changes == shown.held.outside_changes;
    let has_grown = newest.lineage == shown.held.lineage || !mounted.has_stale(&shown.held);
    let carries_over = own.is_same(new, saved, has_grown);
    let is_proven = || {
        let in_place = own.is_same(new, false, true) && content.len() == shown.content.len();
        in_place && new != RenewalKey::Follows && are_proven(&newest, &file.blocks)
    };
    if carries_over || is_proven() { Ok(Now { held: newest, content, file }) } else { Err(rewritten()) }
}

/// True if the source holds all bytes of a stored content, or if any other content is known to be sound.
fn is_all_there(content: &dyn Content) -> bool {
    let Some((source, offset)) = content.stored() else { return content.soundness() == Soundness::Sound };
    let end = offset.checked_add(content.len());
    source.stat().is_ok_and(|stat| end.is_some_and(|end| end <= stat.size))
}

/// True if a content decodes without error to exactly its length.
fn decodes(content: &dyn Content) -> bool {
    let mut buf = vec![0; (64 << 10).min(content.len() as usize).max(1)];
    let mut done = 0;
    loop {
        match content.read_at(done, &mut buf) {
            // The read at the end finds damage even in an empty content.
            Ok(0) => break done == content.len() && !matches!(content.soundness(), Soundness::Broken(_)),
            Ok(read) => done += read as u64,
            Err(_) => break false,
        }
    }
}

/// The bytes of a file that no format recognises, up to its current length.
#[derive(Debug)]
struct Plain {
    source: Arc<dyn Source>,
}

impl Plain {
    fn new(source: Arc<dyn Source>) -> Self {
        Self { source }
    }
}

impl Content for Plain {
    fn len(&self) -> u64 {
        self.source.stat().map_or(0, |stat| stat.size)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.source.read_at(offset, buf)
    }

    fn is_slow(&self) -> bool {
        self.source.is_slow()
    }

    fn stored(&self) -> Option<(&Arc<dyn Source>, u64)> {
        Some((&self.source, 0))
    }
}
