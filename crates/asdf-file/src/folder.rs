//! Directories of a view, listed on demand.
//!
//! A directory costs nothing until a program looks into it, however many entries it has. It belongs to one
//! generation of a file; the next generation has directories of its own.

pub mod names;
pub mod path_dir;
mod path_items;
pub mod path_tree;
pub mod shared_path;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use seekable::error::{Error, Result};
use seekable::source::Time;

use seekable::content::Content;

/// A directory with entries that are found on demand.
pub trait Dir: Send + Sync + fmt::Debug {
    /// Returns the entry with this name; `None` if there is none.
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>>;

    /// Passes the entries from number `from` on to `take`, in a stable order, until `take` returns false.
    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()>;

    /// True if a lookup or a listing may take long now, for example because the first one reads an index.
    /// Slow calls must not run on a thread that answers the kernel.
    fn is_slow(&self) -> bool {
        false
    }

    /// True if the lookup of `name` may take long now. See [`Self::is_slow`].
    fn is_slow_at(&self, name: &OsStr) -> bool {
        let _ = name;
        self.is_slow()
    }

    /// Returns the entry at a path below this directory; `None` if there is none.
    fn find(&self, path: &[&OsStr]) -> Result<Option<Node>> {
        let Some((first, rest)) = path.split_first() else { return Ok(None) };
        match self.lookup(first)? {
            Some(Node::Dir(dir)) if !rest.is_empty() => dir.find(rest),
            found => found.filter(|_| rest.is_empty()).map(Node::if_known).transpose(),
        }
    }

    /// True if a lookup on the way to `path` below this directory may be slow now, or the lookup of `name` in
    /// the directory at `path`. Without `name`, any use of that directory counts. See [`Self::is_slow`].
    fn is_slow_below(&self, path: &[&OsStr], name: Option<&OsStr>) -> Result<bool> {
        let Some((first, rest)) = path.split_first() else {
            return Ok(name.map_or_else(|| self.is_slow(), |name| self.is_slow_at(name)));
        };
        if self.is_slow_at(first) {
            return Ok(true);
        }
        match self.lookup(first)? {
            Some(Node::Dir(dir)) => dir.is_slow_below(rest, name),
            _ => Ok(false),
        }
    }
}

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Dir,
    /// A file.
    File,
    /// A symbolic link.
    Link,
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub enum Node {
    /// A directory.
    Dir(Arc<dyn Dir>),
    /// A file.
    File(File),
    /// A symbolic link with this target.
    Link(OsString),
}

impl Node {
    /// Fails if the bytes of a file could not be read, so that nothing is known about the file.
    pub fn if_known(self) -> Result<Self> {
        match &self {
            Self::File(File { content: Err(error), .. }) if error.is_of_reading() => Err(error.clone()),
            _ => Ok(self),
        }
    }

    /// Returns the type of the entry.
    pub fn kind(&self) -> EntryKind {
        match self {
            Self::Dir(_) => EntryKind::Dir,
            Self::File(_) => EntryKind::File,
            Self::Link(_) => EntryKind::Link,
        }
    }
}

/// A rule that says if a file has the same bytes in another generation of its source. An open file keeps the
/// bytes of its own generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The bytes are generated at each open.
    Generated,
    /// The bytes are taken to be different in each generation.
    Anew,
    /// The bytes are the same if the signature is the same.
    WhileSame(Signature),
    /// The bytes are the same, possibly with more bytes appended. An open file can read these, too.
    Follows,
}

/// A signature of a file's bytes that is compared between generations of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Signature {
    /// A text that differs if the bytes differ, provided that only saves made in the mount have changed the
    /// source. The text is empty if no save changes the bytes.
    pub text: String,
    /// The place of the bytes in the source. A save made in the mount may move them. After a change by
    /// another program, only bytes at the same place are known to be the same.
    pub place: String,
}

impl Signature {
    /// Identifies bytes by `text` alone, wherever they lie.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), place: String::new() }
    }

    /// Combines the signatures of these bytes and of `other`.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.text.push('\n');
        self.text.push_str(&other.text);
        self.place.push('\n');
        self.place.push_str(&other.place);
        self
    }
}

impl Renewal {
    /// True if no save changes the bytes.
    pub fn outlasts_saves(&self) -> bool {
        matches!(self, Self::WhileSame(signature) if signature.text.is_empty())
    }

    /// Returns the renewal with a hash in place of the signature.
    pub fn key(&self) -> RenewalKey {
        let hash = |text: &str| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            hasher.finish()
        };
        match self {
            Self::Generated => RenewalKey::Generated,
            Self::Anew => RenewalKey::Anew,
            Self::WhileSame(signature) => {
                RenewalKey::WhileSame(hash(&signature.text), hash(&signature.place))
            }
            Self::Follows => RenewalKey::Follows,
        }
    }
}

/// A [`Renewal`] with a hashed signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalKey {
    /// See [`Renewal::Generated`].
    Generated,
    /// See [`Renewal::Anew`].
    Anew,
    /// See [`Renewal::WhileSame`]: the hashes of text and place.
    WhileSame(u64, u64),
    /// See [`Renewal::Follows`].
    Follows,
}

impl RenewalKey {
    /// True if a file has the same bytes in another generation. `saved` is true if only saves made in the
    /// mount lie between the two generations, `grown` if the source has only grown.
    pub fn is_same(self, other: Self, saved: bool, grown: bool) -> bool {
        match (self, other) {
            (Self::WhileSame(text, place), Self::WhileSame(other_text, other_place)) => {
                text == other_text && (saved || (grown && place == other_place))
            }
            (Self::Follows, Self::Follows) => saved || grown,
            (Self::Generated, Self::Generated) => true,
            _ => false,
        }
    }
}

/// The part of an undamaged file that the kernel may cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Nothing: the bytes may change at any time.
    Nothing,
    /// Everything, unless the file is so large that the kernel's cache of the source serves it better.
    Small,
    /// Everything: programs map the file.
    All,
}

/// Keys and values of a file's extended attributes.
pub type Attributes = Vec<(&'static str, String)>;

/// A file in a directory.
#[derive(Clone)]
pub struct File {
    /// The bytes, or the error that prevents reading them.
    pub content: Result<Arc<dyn Content>>,
    /// The length shown if `content` is an error.
    pub claimed: u64,
    /// True if the file may be longer at the next lookup.
    pub grows: bool,
    /// Numbers of the blocks that the file is made of: the file is damaged if the checksum of one is wrong.
    /// Blocks that the ranges of `content` lie in need not be listed.
    pub blocks: Vec<usize>,
    /// See [`Renewal`].
    pub renewal: Renewal,
    /// See [`Keeping`].
    pub keeping: Keeping,
    /// Time of the last change, if it is not that of the source.
    pub mtime: Option<Time>,
    /// Callback that makes the extended attributes.
    pub attributes: Option<Arc<dyn Fn() -> Attributes + Send + Sync>>,
}

impl File {
    /// Returns a file that is made of no block. Its bytes are taken to be different in each generation.
    pub fn new(content: Arc<dyn Content>) -> Self {
        Self::of(Ok(content))
    }

    /// Returns a file whose bytes may change at any time.
    pub fn changing(content: Arc<dyn Content>) -> Self {
        Self { keeping: Keeping::Nothing, ..Self::new(content) }
    }

    /// Returns the file of a content that may be an error; otherwise as [`new`](Self::new).
    pub fn of(content: Result<Arc<dyn Content>>) -> Self {
        Self {
            content,
            claimed: 0,
            grows: false,
            blocks: Vec::new(),
            renewal: Renewal::Anew,
            keeping: Keeping::All,
            mtime: None,
            attributes: None,
        }
    }

    /// Returns a file that can't be read. If the error is not a property of its bytes, lookups of the file fail.
    pub fn unreadable(error: Error) -> Self {
        Self { keeping: Keeping::Nothing, ..Self::of(Err(error)) }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        // Greater lengths make the kernel refuse all attributes of the file.
        let claimed = self.claimed.min(i64::MAX as u64);
        self.content.as_ref().map_or(claimed, |content| content.len())
    }

    /// True if the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for File {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("File");
        out.field("len", &self.len()).field("blocks", &self.blocks).field("renewal", &self.renewal);
        out.finish_non_exhaustive()
    }
}
