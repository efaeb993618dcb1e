//! Open files: what a handle reads, and what the kernel may keep of it.

use std::sync::{Arc, PoisonError, RwLock};

use crate::content::folder::{self, File, Keeping, Renewal, RenewalKey};
use crate::content::{Content, Shared, Soundness};
use crate::error::{Error, Kind, Result};
use crate::folder::generation::Held;
use crate::folder::generation::bytes::rewritten;
use crate::folder::mounted_file::MountedFile;
use crate::folder::mounted_file::verification::are_proven;
use crate::source::Source;
use crate::sync::locked;
use crate::vfs::Delay;
use crate::vfs::entry::{Class, Entry};
use crate::vfs::kernel_cache::{KernelCache, ReadBytes};
use crate::vfs::node::{Ino, ViewNode};
use crate::view::status::Writing;

/// Contents up to this size are read through the kernel's cache, which is the faster way for many
/// small reads; a larger stored one goes past it, straight from the source's cache to the reader.
const SMALL: u64 = 1 << 20;

/// What the kernel may keep of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// Nothing: every read comes here, so that a broken content gives its exact good prefix.
    ///
    /// Through its cache the kernel takes a short answer for the file's end, and an error for one of
    /// the whole page.
    Direct,
    /// What the daemon stores into its cache ([`Reader::given`]); every read comes here.
    Stored,
    /// Everything, also from one open to the next.
    Keep,
}

/// An open file.
#[derive(Debug)]
pub struct Reader {
    what: What,
}

#[derive(Debug)]
enum What {
    /// A file of one generation of a mounted file.
    View { mounted: Arc<MountedFile>, view: Arc<ViewNode>, now: Box<RwLock<Now>>, kernel_cache: KernelCache },
    /// Generated when it was opened.
    Generated(Arc<dyn Content>),
    /// A mirrored file.
    Plain(Arc<dyn Content>),
}

/// What a handle reads: the file as it was opened. Only a file that grows is exchanged, and one that another program
/// left alone when it changed the source.
#[derive(Clone, Debug)]
struct Now {
    held: Held,
    content: Arc<dyn Content>,
    file: Arc<File>,
}

impl Reader {
    /// Opens a file that a mounted file shows.
    pub(crate) fn of_view(
        mounted: Arc<MountedFile>,
        view: Arc<ViewNode>,
        held: Held,
        mut file: File,
        kernel_cache: KernelCache,
    ) -> Result<Self> {
        let content = file.content.clone().inspect_err(|error| {
            mounted.trouble(error);
        })?;
        if file.renewal == Renewal::Generated {
            return Ok(Self { what: What::Generated(content) });
        }
        held.add_blocks_of(&*content, &mut file.blocks)?;
        let now = Box::new(RwLock::new(Now { held, content, file: Arc::new(file) }));
        Ok(Self { what: What::View { mounted, view, now, kernel_cache } })
    }

    /// Opens a mirrored file.
    pub(crate) fn of_entry(entry: &Entry) -> Result<Self> {
        let Class::File { first, open } = &entry.class else {
            return Err(Error::new(Kind::Usage, "is not a file that can be read here"));
        };
        let source = entry.position.location.open()?;
        if !source.stat()?.version.same_file(&first.source.version) {
            return Err(rustix::io::Errno::STALE.into());
        }
        *locked(open) = Some(Arc::downgrade(&source));
        Ok(Self { what: What::Plain(Arc::new(Plain::new(source))) })
    }

    /// The bytes to be read.
    ///
    /// Reading them is an error of kind [`Kind::Changed`] (ESTALE) where another program has changed the source. Then
    /// [`Reader::renew`] looks whether it left them alone.
    pub fn content(&self) -> Result<Arc<dyn Content>> {
        match &self.what {
            What::View { now, .. } => {
                if self.is_outdated() {
                    self.renew()?;
                }
                Ok(now.read().unwrap_or_else(PoisonError::into_inner).content.clone())
            }
            What::Generated(content) | What::Plain(content) => Ok(content.clone()),
        }
    }

    /// True if the next read goes on to a newer generation, for which the file may have to be parsed.
    pub fn is_outdated(&self) -> bool {
        let What::View { mounted, now, .. } = &self.what else { return false };
        let shown = now.read().unwrap_or_else(PoisonError::into_inner).clone();
        if shown.file.renewal != Renewal::Follows {
            return false;
        }
        let look = mounted.look();
        look.attached && look.stat.source.version != shown.held.version
    }

    /// Goes on with the newest generation if it has the same bytes, and those of a file that grows. That is known where
    /// the file has only grown, or where the checksums of the blocks prove it. May parse the file and read blocks.
    ///
    /// # Errors
    /// ESTALE if the bytes are no longer there.
    pub fn renew(&self) -> Result<()> {
        let What::View { mounted, view, now, .. } = &self.what else { return Ok(()) };
        mounted.look_now();
        let newest = mounted.opened()?;
        let shown = now.read().unwrap_or_else(PoisonError::into_inner).clone();
        if shown.file.renewal != Renewal::Follows && !shown.held.is_outlived() {
            return Ok(());
        }
        let renewed = renewed(mounted, newest, view, &shown).map_err(|error| match error.kind() {
            Kind::System(_) => error,
            _ => rewritten(),
        })?;
        *now.write().unwrap_or_else(PoisonError::into_inner) = renewed;
        Ok(())
    }

    /// The queue of a read for which the file may have to be parsed.
    pub fn delay(&self) -> Delay {
        let file = match &self.what {
            What::View { mounted, .. } => mounted.serial,
            What::Generated(_) | What::Plain(_) => 0,
        };
        Delay { file, foreign: None }
    }

    /// Lets a read pass, or says why nothing of it may be given: to be asked before [`Reader::content`] is
    /// read.
    pub fn admit(&self) -> Result<()> {
        match &self.what {
            What::View { mounted, now, .. } => {
                let shown = now.read().unwrap_or_else(PoisonError::into_inner).clone();
                mounted.admit(&shown.held, &shown.file.blocks)
            }
            What::Generated(_) | What::Plain(_) => Ok(()),
        }
    }

    /// Whether deciding on [`Reader::caching`], or reading, needs real work.
    pub fn is_slow(&self) -> bool {
        match &self.what {
            What::View { mounted, now, .. } => {
                let now = now.read().unwrap_or_else(PoisonError::into_inner);
                mounted.is_held_up(&now.held, &now.file.blocks) || now.content.is_slow()
            }
            What::Plain(content) => content.is_slow(),
            What::Generated(_) => false,
        }
    }

    /// What the kernel may keep of what is there now; decodes a small content to see whether it is sound.
    fn caching_of_now(&self) -> Caching {
        let (mounted, now) = match &self.what {
            What::Generated(_) => return Caching::Direct,
            // What says that it is empty may be a file of /proc.
            What::Plain(content) => match (1..=SMALL).contains(&content.len()) {
                true => return Caching::Keep,
                false => return Caching::Direct,
            },
            What::View { mounted, now, .. } => (mounted, now),
        };
        if self.content().is_err() {
            return Caching::Direct;
        }
        let now = now.read().unwrap_or_else(PoisonError::into_inner).clone();
        let content = &*now.content;
        let sound = match now.file.keeping {
            _ if now.file.grows || mounted.is_wrong(&now.held, &now.file.blocks) => false,
            Keeping::Nothing => false,
            keeping if content.stored().is_some() => {
                (keeping == Keeping::All || content.len() <= SMALL) && is_all_there(content)
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

    /// What the kernel may keep at this open of the file.
    pub fn caching(&self) -> Caching {
        let caching = self.caching_of_now();
        if let What::View { mounted, view, now, kernel_cache } = &self.what {
            let now = now.read().unwrap_or_else(PoisonError::into_inner);
            kernel_cache.note_open(Ino::of(view.serial), mounted.serial, &now.file.blocks);
        }
        caching
    }

    /// The bytes of a read that needs no work, and nothing to wait for, as they lie in memory.
    pub fn at_hand(&self, offset: u64, len: usize) -> Option<(Arc<dyn Content>, Shared)> {
        let What::View { mounted, now, .. } = &self.what else { return None };
        {
            let now = now.read().unwrap_or_else(PoisonError::into_inner);
            // Of a file that grows, the newest version is asked of the source.
            let is_asked = now.file.renewal == Renewal::Follows && now.held.source.is_slow();
            if is_asked || mounted.is_held_up(&now.held, &now.file.blocks) {
                return None;
            }
        }
        self.admit().ok()?;
        let content = self.content().ok()?;
        let shared = content.share(offset, len, false)?;
        Some((content, shared))
    }

    /// Takes note of what was read at an offset by a reader of [`Caching::Stored`], so that the next one need
    /// not ask for it.
    pub fn given(&self, content: &Arc<dyn Content>, offset: u64, given: ReadBytes<'_>) {
        if let What::View { view, now, kernel_cache, .. } = &self.what
            && content.is_slow()
            && content.soundness() == Soundness::Unknown
        {
            let keeping = now.read().unwrap_or_else(PoisonError::into_inner).file.keeping;
            if keeping == Keeping::Nothing {
                return;
            }
            let (content, len) = (content.clone(), content.len());
            let holds = move || !matches!(content.soundness(), Soundness::Broken(_));
            kernel_cache.keep(Ino::of(view.serial), offset, given, len, holds);
        }
    }

    /// Notes what went wrong while reading.
    pub fn trouble(&self, error: &Error) {
        match &self.what {
            What::View { mounted, now, .. } => {
                if mounted.trouble(error) && error.lasts() {
                    let now = now.read().unwrap_or_else(PoisonError::into_inner);
                    // Some of it may be in the kernel's cache.
                    now.file.blocks.iter().for_each(|n| mounted.report_wrong(*n));
                }
            }
            What::Generated(_) | What::Plain(_) => tracing::warn!("{error}"),
        }
    }
}

/// What a handle reads in a newer generation, which another program has made.
fn renewed(mounted: &Arc<MountedFile>, newest: Held, view: &ViewNode, shown: &Now) -> Result<Now> {
    // What says how the file is written is not read anew.
    let root = mounted.root(&newest, Writing::default);
    let Some(folder::Node::File(mut file)) = folder::resolve(&root, &view.path())? else {
        return Err(rewritten());
    };
    let content = file.content.clone()?;
    newest.add_blocks_of(&*content, &mut file.blocks)?;
    let (own, new) = (shown.file.renewal.key(), file.renewal.key());
    let saved = newest.base_version == shown.held.base_version;
    let has_grown = newest.lineage == shown.held.lineage || !shown.held.is_outlived();
    let goes_on = own.is_same(new, saved, has_grown);
    let is_proven = || {
        let in_place = own.is_same(new, false, true) && content.len() == shown.content.len();
        in_place && new != RenewalKey::Follows && are_proven(&newest, &file.blocks)
    };
    match goes_on || is_proven() {
        true => Ok(Now { held: newest, content, file: Arc::new(file) }),
        false => Err(rewritten()),
    }
}

/// Whether the source reaches as far as a stored content says.
fn is_all_there(content: &dyn Content) -> bool {
    let Some((source, offset)) = content.stored() else { return content.soundness() == Soundness::Sound };
    let end = offset.checked_add(content.len());
    source.stat().is_ok_and(|stat| end.is_some_and(|end| end <= stat.size))
}

/// Whether a content can be decoded to its end, and ends there.
fn decodes(content: &dyn Content) -> bool {
    let mut buf = vec![0; (64 << 10).min(content.len() as usize).max(1)];
    let mut done = 0;
    loop {
        match content.read_at(done, &mut buf) {
            // Asked at its end, too: so one that should be empty is looked into at all.
            Ok(0) => break done == content.len() && !matches!(content.soundness(), Soundness::Broken(_)),
            Ok(read) => done += read as u64,
            Err(_) => break false,
        }
    }
}

/// All of a file that no format recognises, however long it is at the moment.
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
