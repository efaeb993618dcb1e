//! Formats: what knows one kind of file. A [`Container`] is what every format opens to.

pub mod asdf;
pub mod editor;
pub mod recovery;
pub mod refusal;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use crate::cache::Cache;
use crate::content::Content;
use crate::error::{Error, Kind, Result};
use crate::source::{FileSource, Source, SourceStat};
use editor::{EditContext, EditSupport, Editor, SaveTarget};

/// How many bytes of a file's start are enough to recognise every format.
pub const HEAD: usize = 16;

/// What all containers of a mount share.
#[derive(Clone, Debug)]
pub struct Context {
    /// Decoded chunks.
    pub cache: Arc<Cache>,
}

/// The name of the format that `head`, the first [`HEAD`] bytes of a file, belongs to.
pub fn recognise(head: &[u8]) -> Option<&'static str> {
    asdf::recognises(head).then_some(asdf::NAME)
}

/// Whether the file at `path` is of a format that can be opened, by its first bytes.
///
/// # Errors
/// [`Kind::Unrecognised`] if it is of none; or what keeps it from being read.
pub fn check_kind(path: &Path) -> Result<()> {
    let mut head = [0; HEAD];
    let source = FileSource::open(path)?;
    let read = crate::source::read_up_to(&source, 0, &mut head)?;
    match recognise(&head[..read]) {
        Some(_) => Ok(()),
        None => Err(unrecognised(path, &head[..read])),
    }
}

/// Opens a source in the format that its first bytes name.
pub fn open(source: Arc<dyn Source>, context: &Context) -> Result<Arc<dyn Container>> {
    let mut head = [0; HEAD];
    let read = crate::source::read_up_to(&*source, 0, &mut head)?;
    let head = &head[..read];
    match recognise(head) {
        Some(_) => asdf::open(source, context),
        None => Err(unrecognised(source.path(), head)),
    }
}

/// The formats whose files can be changed.
fn edit_supports() -> impl Iterator<Item = &'static dyn EditSupport> {
    [&asdf::edit::Support as &dyn EditSupport].into_iter()
}

/// Whether a file, judged by its name, belongs to a save of the file beside it.
pub fn is_sidecar(name: &OsStr) -> bool {
    edit_supports().any(|support| support.is_sidecar(name))
}

/// Opens and locks the file at `path` for changes; a save that a crash interrupted is finished or undone.
///
/// # Errors
///
/// [`Kind::ReadOnly`] if the file can't be written, [`Kind::Busy`] if another program has it,
/// [`Kind::Unsupported`] if its format can't be changed.
pub fn open_editor(path: &Path, edits: &EditContext) -> Result<Box<dyn Editor>> {
    let target = SaveTarget::of_path(path)?;
    // A file that is half old and half new may not begin as its format does.
    for support in edit_supports() {
        if support.is_interrupted(&target, None)? {
            return support.open(target, edits);
        }
    }
    let context = Context { cache: Arc::new(Cache::with_threads(0, 1)) };
    let container = open(Arc::new(FileSource::open(path)?), &context)?;
    match container.editor() {
        Some(support) => support.open(target, edits),
        None => {
            let message = format!("files of the format {} can't be changed", container.format());
            Err(Error::new(Kind::Unsupported, message).of(path))
        }
    }
}

fn unrecognised(file: &Path, head: &[u8]) -> Error {
    let message = match head {
        [] => "is empty: an ASDF file begins with \"#ASDF\"".to_owned(),
        _ => format!("is not an ASDF file: it begins with \"{}\", not with \"#ASDF\"", head.escape_ascii()),
    };
    Error::new(Kind::Unrecognised, message).of(file)
}

/// A source that a format has parsed.
///
/// Cheap to open whatever the size of the file: the tree's end is found at once, the blocks at the
/// first call that asks for one. All methods may be called from several threads.
pub trait Container: Send + Sync + std::fmt::Debug {
    /// The format's name, lower case: `asdf`.
    fn format(&self) -> &'static str;

    /// The version that the file says it has, and the layout that was found: `1.0.0`.
    fn version(&self) -> String;

    /// The text of the file's head, as `tree.yaml` shows it.
    fn tree(&self) -> Arc<dyn Content>;

    /// How many blocks there are.
    fn block_count(&self) -> Result<usize>;

    /// Block `n`, from 0, in file order. An error means that there is no such block.
    fn block(&self, n: usize) -> Result<Block>;

    /// The last block that begins before byte `offset` of the source. Finds no blocks for an offset within
    /// the tree.
    fn block_before(&self, offset: u64) -> Result<Option<usize>>;

    /// Checks the checksum of block `n`, reading all of it.
    fn verify(&self, n: usize) -> Result<Verified>;

    /// Which arrays of the tree use which block: looked for at the first call, in a pass over the tree.
    fn arrays(&self) -> Option<&ArrayPaths> {
        None
    }

    /// Whether [`arrays`](Self::arrays) costs nothing any more.
    fn knows_arrays(&self) -> bool {
        true
    }

    /// Where the tree's text ends in the file, in bytes from its start.
    fn tree_end(&self) -> u64;

    /// How the file's tree can be changed, if the format can do that.
    fn editor(&self) -> Option<&'static dyn EditSupport> {
        None
    }

    /// What is wrong with the file as far as it was looked at, first things first.
    fn defects(&self) -> Vec<Defect>;

    /// The source it was opened from.
    fn source(&self) -> &Arc<dyn Source>;

    /// The state of the source when it was opened.
    fn source_stat(&self) -> SourceStat;
}

/// Which arrays of the tree use which block.
#[derive(Clone, Debug, Default)]
pub struct ArrayPaths {
    /// The paths of a block's first arrays, `roman.data`; those of further ones may be left out.
    pub found: BTreeMap<usize, Vec<String>>,
    /// Whether all of the tree was looked through.
    pub complete: bool,
}

/// One block: its facts and its bytes.
#[derive(Clone, Debug)]
pub struct Block {
    /// What its header says.
    pub facts: Facts,
    /// Its decoded bytes; an error if they can't be had at all (unknown codec, impossible sizes).
    pub content: Result<Arc<dyn Content>>,
    /// Whether it reaches to the end of the file and grows with it.
    pub streamed: bool,
}

/// The facts of a block's header, in the standard's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Where its magic begins, in bytes from the start of the file.
    pub offset: u64,
    /// Bytes of header after the `header_size` field.
    pub header_size: u16,
    /// The flags: 1 STREAMED, 2 ENCODED (0.1.0 only).
    pub flags: u32,
    /// The codec's label without trailing zero bytes, escaped; or the chain, `tile+zlib`; empty when stored as it is.
    pub compression: String,
    /// Bytes set aside for the data in the file.
    pub allocated_size: u64,
    /// Bytes of them in use.
    pub used_size: u64,
    /// Bytes of the decoded data.
    pub data_size: u64,
    /// The checksum as the header has it, in hexadecimal; all zeros, or empty, for none.
    pub checksum: String,
}

impl Facts {
    /// What is known of a block whose header can't be read: only where it should be.
    pub fn unknown(offset: u64) -> Self {
        Self {
            offset,
            header_size: 0,
            flags: 0,
            compression: String::new(),
            allocated_size: 0,
            used_size: 0,
            data_size: 0,
            checksum: String::new(),
        }
    }
}

/// What checking a block's checksum found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// It is the MD5 of the stored bytes, as the standard says.
    Stored,
    /// It is the MD5 of the decoded bytes, as Python asdf up to 5.2 wrote it.
    Decoded,
    /// There is none.
    None,
    /// It fits neither.
    Mismatch,
}

impl Verified {
    /// The word for it in xattrs and status files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Decoded => "decoded",
            Self::None => "none",
            Self::Mismatch => "mismatch",
        }
    }
}

/// How bad a defect is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Against the standard, but nothing is lost by it: a stale index.
    Note,
    /// Some data can't be had or can't be trusted.
    Damage,
}

/// Something wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Defect {
    /// How bad it is.
    pub severity: Severity,
    /// Where in the file, in bytes from its start.
    pub offset: u64,
    /// Which block, if it is about one.
    pub block: Option<usize>,
    /// What is wrong.
    pub what: String,
}
