//! Folders of contents: what a view shows, listed when a program asks.
//!
//! A folder costs nothing until it is looked into, whatever the number of its entries. It belongs to one version of
//! a file: the next version has folders of its own.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::Content;
use crate::error::Result;

/// A folder whose entries are found when they are asked for.
pub trait Folder: Send + Sync + fmt::Debug {
    /// What lies at a name; `None` if nothing does.
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>>;

    /// Hands the entries from number `from` on to `take`, in an order that stays, until `take` answers false.
    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, Kind) -> bool) -> Result<()>;

    /// Whether a lookup or a listing takes long now: the first one reads an index, say. Then no thread that answers
    /// the kernel makes it.
    fn is_slow(&self) -> bool {
        false
    }

    /// The same for the lookup of one name.
    fn is_slow_at(&self, name: &OsStr) -> bool {
        let _ = name;
        self.is_slow()
    }
}

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Another folder.
    Folder,
    /// A file.
    File,
    /// A symbolic link.
    Link,
}

/// An entry of a folder.
#[derive(Clone, Debug)]
pub enum Node {
    /// Another folder.
    Folder(Arc<dyn Folder>),
    /// A file.
    File(File),
    /// A symbolic link with this text.
    Link(OsString),
}

impl Node {
    /// Which of the three it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Folder(_) => Kind::Folder,
            Self::File(_) => Kind::File,
            Self::Link(_) => Kind::Link,
        }
    }
}

/// Which bytes a file has in another generation of its source. An open file keeps those of its own generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Its bytes are made at each open.
    Generated,
    /// Other ones, as far as is known.
    Anew,
    /// The same ones where the signature is the same.
    WhileSame(Signature),
    /// The same ones, and more behind them: an open file reads on.
    Follows,
}

/// What tells the bytes of a file from others, in another version of its source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Signature {
    /// Differs where the bytes do, after any save made in the mount. Empty if no save changes them.
    pub text: String,
    /// Where they lie. A save made in the mount may move them; where another program has changed the source, only those
    /// in the same place are known to be the same.
    pub place: String,
}

impl Signature {
    /// That of bytes that are known by `text` wherever they lie.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), place: String::new() }
    }

    /// That of these bytes and `other` ones together.
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
    /// The renewal with its signature hashed.
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

/// A [`Renewal`] whose signature is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalKey {
    /// See [`Renewal::Generated`].
    Generated,
    /// See [`Renewal::Anew`].
    Anew,
    /// See [`Renewal::WhileSame`]: the text and the place.
    WhileSame(u64, u64),
    /// See [`Renewal::Follows`].
    Follows,
}

impl RenewalKey {
    /// True if a file has the same bytes as one of another generation. `saved` says that nothing but saves made in the
    /// mount lies between the two, `grown` that the source has only grown.
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

/// What the kernel may keep of a file that is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Nothing: its bytes change at any time.
    Nothing,
    /// All of it, unless it is so large that the source's own cache serves it better.
    Small,
    /// All of it: programs map it.
    All,
}

/// Key and value pairs that are told of a file.
pub type Attributes = Vec<(&'static str, String)>;

/// A file in a folder.
#[derive(Clone)]
pub struct File {
    /// Its bytes; an error if none can be had.
    pub content: Result<Arc<dyn Content>>,
    /// Its length where there are no bytes.
    pub claimed: u64,
    /// Whether it may be longer at the next look.
    pub grows: bool,
    /// Blocks whose checksums hold for it, by number. Those that its content has ranges of need not be named.
    pub blocks: Vec<usize>,
    /// See [`Renewal`].
    pub renewal: Renewal,
    /// See [`Keeping`].
    pub keeping: Keeping,
    /// What its extended attributes say.
    pub attributes: Option<Arc<dyn Fn() -> Attributes + Send + Sync>>,
}

impl File {
    /// A file with other bytes in each generation that is made of no block.
    pub fn new(content: Arc<dyn Content>, keeping: Keeping) -> Self {
        Self {
            content: Ok(content),
            claimed: 0,
            grows: false,
            blocks: Vec::new(),
            renewal: Renewal::Anew,
            keeping,
            attributes: None,
        }
    }

    /// Its length, in bytes.
    pub fn len(&self) -> u64 {
        // No file is longer: the kernel would refuse all of the attributes.
        let claimed = self.claimed.min(i64::MAX as u64);
        self.content.as_ref().map_or(claimed, |content| content.len())
    }

    /// Whether there is nothing to read.
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

/// Whether it takes long now to look up `name` in the folder at a path below `root`, or to list it, or to get there.
pub fn is_slow(root: &dyn Folder, path: &[&OsStr], name: Option<&OsStr>) -> Result<bool> {
    let Some((first, rest)) = path.split_first() else {
        return Ok(name.map_or_else(|| root.is_slow(), |name| root.is_slow_at(name)));
    };
    if root.is_slow_at(first) {
        return Ok(true);
    }
    match root.lookup(first)? {
        Some(Node::Folder(folder)) => is_slow(&*folder, rest, name),
        _ => Ok(false),
    }
}

/// What lies at a path below a folder; `None` if nothing does.
pub fn resolve(root: &dyn Folder, path: &[&OsStr]) -> Result<Option<Node>> {
    let Some((first, rest)) = path.split_first() else { return Ok(None) };
    let mut found = root.lookup(first)?;
    for name in rest {
        let Some(Node::Folder(folder)) = found else { return Ok(None) };
        found = folder.lookup(name)?;
    }
    Ok(found)
}
