//! Open files: what a handle reads, and what the kernel may keep of it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, RwLock};

use crate::content::folder::{self, File, Keeping, Renewal};
use crate::content::{Content, Shared, Soundness};
use crate::error::{Error, Kind, Result};
use crate::folder::mounted_file::{Look, MountedFile};
use crate::folder::snapshot::Snapshot;
use crate::source::Source;
use crate::sync::locked;
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
    /// Everything, but nothing of what it has from before: that is of an older generation.
    Anew,
}

/// An open file.
#[derive(Debug)]
pub struct Reader {
    what: What,
}

#[derive(Debug)]
enum What {
    /// What a mounted file shows: follows it through its versions.
    View { mounted: Arc<MountedFile>, view: Arc<ViewNode>, now: Box<RwLock<Now>>, kernel_cache: KernelCache },
    /// Generated when it was opened.
    Generated(Arc<dyn Content>),
    /// A mirrored file.
    Plain(Arc<dyn Content>),
}

#[derive(Clone, Debug)]
struct Now {
    opened: Arc<Snapshot>,
    content: Arc<dyn Content>,
    file: Arc<File>,
}

impl Reader {
    /// Opens a file that a mounted file shows.
    pub(crate) fn of_view(
        mounted: Arc<MountedFile>,
        view: Arc<ViewNode>,
        opened: Arc<Snapshot>,
        mut file: File,
        kernel_cache: KernelCache,
    ) -> Result<Self> {
        let content = file.content.clone().inspect_err(|error| {
            mounted.trouble(error);
        })?;
        if file.renewal == Renewal::Never {
            return Ok(Self { what: What::Generated(content) });
        }
        opened.add_blocks_of(&*content, &mut file.blocks)?;
        let now = Box::new(RwLock::new(Now { opened, content, file: Arc::new(file) }));
        Ok(Self { what: What::View { mounted, view, now, kernel_cache } })
    }

    /// Opens a mirrored file.
    pub(crate) fn of_entry(entry: &Entry) -> Result<Self> {
        let Class::File { first, open } = &entry.class else {
            return Err(Error::new(Kind::Usage, "is not a file that can be read here"));
        };
        let source = entry.position.location.open(None)?;
        if !source.stat()?.version.same_file(&first.source.version) {
            return Err(rustix::io::Errno::STALE.into());
        }
        *locked(open) = Some(Arc::downgrade(&source));
        Ok(Self { what: What::Plain(Arc::new(Plain::new(source))) })
    }

    /// The bytes as they are to be read now.
    ///
    /// An error of kind [`Kind::Changed`] (ESTALE) says that the file was written anew, and has no such
    /// block any more.
    pub fn content(&self) -> Result<Arc<dyn Content>> {
        let (mounted, view, now) = match &self.what {
            What::View { mounted, view, now, .. } => (mounted, view, now),
            What::Generated(content) | What::Plain(content) => return Ok(content.clone()),
        };
        let look = mounted.look();
        if !look.attached || self.is_of(&look) {
            return Ok(now.read().unwrap_or_else(std::sync::PoisonError::into_inner).content.clone());
        }
        let opened = mounted.opened()?;
        let mut now = now.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if opened.version != now.opened.version || opened.saves != now.opened.saves {
            let (content, file) = renewed(mounted, &opened, view).map_err(|error| match error.kind() {
                Kind::System(_) => error,
                _ => rewritten(),
            })?;
            // A save made here moves blocks, and changes none.
            let saved = opened.base_version == now.opened.base_version;
            let is_other = !saved && opened.lineage != now.opened.lineage;
            let same = now.file.renewal.allows(&file.renewal, saved);
            if !same || (is_other && matches!(now.file.renewal, Renewal::WhileSame(_))) {
                return Err(rewritten());
            }
            *now = Now { opened, content, file: Arc::new(file) };
        }
        Ok(now.content.clone())
    }

    /// What it shows of a mounted file, if it does.
    pub(crate) fn shown(&self) -> Option<(&Arc<MountedFile>, &ViewNode)> {
        match &self.what {
            What::View { mounted, view, .. } => Some((mounted, view)),
            What::Generated(_) | What::Plain(_) => None,
        }
    }

    /// Whether it shows the version of its file that a look found.
    pub(crate) fn is_of(&self, look: &Look) -> bool {
        let What::View { now, .. } = &self.what else { return true };
        let now = now.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        now.opened.version == look.stat.source.version && now.opened.saves == look.saves
    }

    /// Keeps what is read where it is until the answer is dropped; to be taken before
    /// [`Reader::content`].
    pub fn hold_still(&self) -> Option<std::sync::RwLockReadGuard<'_, ()>> {
        match &self.what {
            What::View { mounted, .. } => Some(mounted.hold_still()),
            What::Generated(_) | What::Plain(_) => None,
        }
    }

    /// Lets a read pass, or says why nothing of it may be given: to be asked before [`Reader::content`] is
    /// read.
    pub fn admit(&self) -> Result<()> {
        match &self.what {
            What::View { mounted, now, .. } => {
                let (opened, file) = {
                    let now = now.read().unwrap_or_else(std::sync::PoisonError::into_inner);
                    (now.opened.clone(), now.file.clone())
                };
                mounted.admit(&opened, &file.blocks)
            }
            What::Generated(_) | What::Plain(_) => Ok(()),
        }
    }

    /// Whether deciding on [`Reader::caching`], or reading, needs real work.
    pub fn is_slow(&self) -> bool {
        match &self.what {
            What::View { mounted, now, .. } => {
                let now = now.read().unwrap_or_else(std::sync::PoisonError::into_inner);
                mounted.is_held_up(&now.opened, &now.file.blocks) || now.content.is_slow()
            }
            What::Generated(_) | What::Plain(_) => false,
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
        let _still = mounted.hold_still();
        if self.content().is_err() {
            return Caching::Direct;
        }
        let now = now.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let content = &*now.content;
        let sound = match now.file.keeping {
            _ if now.file.grows || mounted.is_wrong(&now.opened, &now.file.blocks) => false,
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
        let is_first = match &self.what {
            What::View { mounted, view, now, kernel_cache } => {
                let now = now.read().unwrap_or_else(std::sync::PoisonError::into_inner);
                let ino = Ino::of(view.serial);
                let seen = seen(now.opened.generation, &now.file.renewal);
                kernel_cache.is_first_open(ino, seen, mounted.serial, &now.file.blocks)
            }
            What::Generated(_) | What::Plain(_) => false,
        };
        match caching {
            Caching::Stored if is_first => Caching::Direct,
            Caching::Keep if is_first => Caching::Anew,
            caching => caching,
        }
    }

    /// The bytes of a read that needs no work, and nothing to wait for, as they lie in memory.
    pub fn at_hand(&self, offset: u64, len: usize) -> Option<(Arc<dyn Content>, Shared)> {
        let What::View { mounted, now, .. } = &self.what else { return None };
        let _still = mounted.is_still()?;
        {
            let now = now.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            if mounted.is_held_up(&now.opened, &now.file.blocks) {
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
        if let What::View { mounted, view, now, kernel_cache } = &self.what
            && content.is_slow()
            && content.soundness() == Soundness::Unknown
        {
            let (generation, keeping) = {
                let now = now.read().unwrap_or_else(std::sync::PoisonError::into_inner);
                (now.opened.generation, now.file.keeping)
            };
            if keeping == Keeping::Nothing {
                return;
            }
            let (theirs, content, len) = (mounted.clone(), content.clone(), content.len());
            let holds = move || {
                theirs.generation() == generation && !matches!(content.soundness(), Soundness::Broken(_))
            };
            kernel_cache.keep(Ino::of(view.serial), offset, given, len, holds);
        }
    }

    /// Notes what went wrong while reading.
    pub fn trouble(&self, error: &Error) {
        match &self.what {
            What::View { mounted, now, .. } => {
                if mounted.trouble(error) && error.lasts() {
                    let now = now.read().unwrap_or_else(std::sync::PoisonError::into_inner);
                    // Some of it may be in the kernel's cache.
                    now.file.blocks.iter().for_each(|n| mounted.report_wrong(*n));
                }
            }
            What::Generated(_) | What::Plain(_) => tracing::warn!("{error}"),
        }
    }
}

/// Another number for other bytes: of another generation, or, where another file is shown as well, of a version of that.
fn seen(generation: u64, renewal: &Renewal) -> u64 {
    let mut hasher = DefaultHasher::new();
    generation.hash(&mut hasher);
    if let Renewal::WhileSame(signature) = renewal {
        signature.hash(&mut hasher);
    }
    hasher.finish()
}

/// What a view shows in a new version of its file.
fn renewed(
    mounted: &Arc<MountedFile>,
    opened: &Arc<Snapshot>,
    view: &ViewNode,
) -> Result<(Arc<dyn Content>, File)> {
    // What says how the file is written is not read anew.
    let root = mounted.root(opened, Writing::default);
    match folder::resolve(&root, &view.path())? {
        Some(folder::Node::File(mut file)) => {
            let content = file.content.clone()?;
            opened.add_blocks_of(&*content, &mut file.blocks)?;
            Ok((content, file))
        }
        _ => Err(rewritten()),
    }
}

fn rewritten() -> Error {
    Error::new(Kind::Changed, "another program rewrote the file: open it again")
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

    fn stored(&self) -> Option<(&Arc<dyn Source>, u64)> {
        Some((&self.source, 0))
    }
}
