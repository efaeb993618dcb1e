//! Formats: what knows one kind of file. A [`Container`] is what every format opens to.

pub mod asdf;
pub mod bloscpack;
pub mod editor;
pub mod gsd;
pub mod recovery;
pub mod refusal;
pub(crate) mod shown;

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use crate::cache::Cache;
use crate::content::Content;
use crate::content::folder::{Attributes, File, Node};
use crate::error::{Error, Kind, Result};
use crate::source::{FileSource, Reach, Source, SourceStat};
use editor::{EditContext, EditSupport, Editor, SaveTarget};

/// How many bytes of a file's start are enough to recognise every format.
pub const HEAD: usize = 16;

/// What all containers of a mount share.
#[derive(Clone, Debug)]
pub struct Context {
    /// Decoded chunks.
    pub cache: Arc<Cache>,
    /// How far away files may lie that a file names.
    pub reach: Reach,
}

impl Context {
    /// What containers share that name files of their own folder only.
    pub fn new(cache: Arc<Cache>) -> Self {
        Self { cache, reach: Reach::default() }
    }
}

/// The formats, in the order in which they are asked.
const FORMATS: &[&dyn Format] = &[
    &asdf::Asdf, //
    &gsd::Gsd,
    &bloscpack::Bloscpack,
];

/// What knows one kind of file.
pub trait Format: Sync + std::fmt::Debug {
    /// The format's name, lower case: `asdf`. Attributes are called `user.NAME.KEY`.
    fn name(&self) -> &'static str;

    /// One of its files, for messages: `an ASDF file`.
    fn title(&self) -> &'static str;

    /// What its files begin with, for messages: `#ASDF`.
    fn magic(&self) -> &'static str;

    /// The names of all that its files may have beside `tree.yaml` and `blocks/`, for `-o views=`.
    fn view_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a file that begins with `head`, its first [`HEAD`] bytes, is of this format.
    fn recognise(&self, head: &[u8]) -> bool;

    /// Opens a source that is of this format.
    fn open(&self, source: Arc<dyn Source>, context: &Context) -> Result<Arc<dyn Container>>;

    /// What a file is that is not of this format, but has to do with it: words for a message.
    fn kin(&self, head: &[u8], stat: &SourceStat) -> Option<String> {
        let _ = (head, stat);
        None
    }

    /// How the trees of its files are changed, if they can be.
    fn edit_support(&self) -> Option<&'static dyn EditSupport> {
        None
    }
}

fn format_of(head: &[u8]) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.recognise(head))
}

/// The name of the format that `head`, the first [`HEAD`] bytes of a file, belongs to.
pub fn recognise(head: &[u8]) -> Option<&'static str> {
    format_of(head).map(Format::name)
}

/// The names of the views of all formats. Several formats may have the same one.
pub fn view_names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().flat_map(|format| format.view_names()).copied()
}

/// Whether the file at `path` is of a format that can be opened, by its first bytes.
///
/// # Errors
/// [`Kind::Unrecognised`] if it is of none; or what keeps it from being read.
pub fn check_kind(path: &Path) -> Result<()> {
    format_of_source(&FileSource::open(path)?).map(drop)
}

/// Opens a source in the format that its first bytes name.
pub fn open(source: Arc<dyn Source>, context: &Context) -> Result<Arc<dyn Container>> {
    format_of_source(&*source)?.open(source, context)
}

fn format_of_source(source: &dyn Source) -> Result<&'static dyn Format> {
    let mut head = [0; HEAD];
    let read = crate::source::read_up_to(source, 0, &mut head)?;
    let head = &head[..read];
    if let Some(format) = format_of(head) {
        return Ok(format);
    }
    let stat = source.stat()?;
    let kin = FORMATS.iter().find_map(|format| format.kin(head, &stat));
    Err(match kin {
        Some(kin) => Error::new(Kind::Unrecognised, kin).of(source.path()),
        None => unrecognised(source.path(), head),
    })
}

/// The formats whose files can be changed.
fn edit_supports() -> impl Iterator<Item = &'static dyn EditSupport> {
    FORMATS.iter().filter_map(|format| format.edit_support())
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
    let context = Context::new(Arc::new(Cache::with_threads(0, 1)));
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
    let any = |word: fn(&dyn Format) -> String| {
        FORMATS.iter().map(|format| word(*format)).collect::<Vec<_>>().join(" or ")
    };
    let message = match head {
        [] => {
            let begins =
                |format: &dyn Format| format!("{} begins with \"{}\"", format.title(), format.magic());
            format!("is empty: {}", any(begins))
        }
        _ => {
            let (titles, magics) =
                (any(|format| format.title().into()), any(|format| format!("\"{}\"", format.magic())));
            format!("is not {titles}: it begins with \"{}\", not with {magics}", head.escape_ascii())
        }
    };
    Error::new(Kind::Unrecognised, message).of(file)
}

/// A source that a format has parsed.
///
/// Cheap to open whatever the size of the file: the tree's end is found at once, the blocks at the
/// first call that asks for one. All methods may be called from several threads.
pub trait Container: Any + Send + Sync + std::fmt::Debug {
    /// The format's name, lower case: `asdf`.
    fn format(&self) -> &'static str;

    /// The version that the file says it has, and the layout that was found: `1.0.0`.
    fn version(&self) -> String;

    /// The text of the file's head, as `tree.yaml` shows it.
    fn tree(&self) -> Arc<dyn Content>;

    /// Whether the next question for its blocks takes long: the first one looks for them in all of the file.
    fn is_slow(&self) -> bool {
        false
    }

    /// How many blocks there are.
    fn block_count(&self) -> Result<usize> {
        Ok(0)
    }

    /// Block `n`, from 0, in file order. An error means that there is no such block.
    fn block(&self, n: usize) -> Result<Block> {
        Err(Error::new(Kind::NotFound, format!("there is no block {n}")))
    }

    /// The last block that begins before byte `offset` of the source. Finds no blocks for an offset within
    /// the tree.
    fn block_before(&self, offset: u64) -> Result<Option<usize>> {
        let _ = offset;
        Ok(None)
    }

    /// Checks the checksum of block `n`, reading all of it.
    fn verify(&self, n: usize) -> Result<Verified> {
        self.block(n).map(|_| Verified::None)
    }

    /// Which arrays of the tree use which block: looked for at the first call, in a pass over the tree.
    fn arrays(&self) -> Option<&ArrayPaths> {
        None
    }

    /// Whether [`arrays`](Self::arrays) costs nothing any more.
    fn knows_arrays(&self) -> bool {
        true
    }

    /// What lies in the file's folder beside `tree.yaml` and `blocks/`: names, and folders or files.
    fn views(self: Arc<Self>) -> Vec<(&'static str, Node)> {
        Vec::new()
    }

    /// The names of files that lie there too and are found by looking at the tree: [`derived_file`](Self::derived_file)
    /// makes each when it is asked for.
    fn derived_files(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The file with one of these names, or with one that is left out of them for now; `None` if there is none.
    fn derived_file(self: Arc<Self>, name: &str) -> Result<Option<File>> {
        let _ = name;
        Ok(None)
    }

    /// Whether it takes long now to list them, or to make the one with this name.
    fn is_derived_slowly(&self, name: Option<&str>) -> bool {
        let _ = name;
        false
    }

    /// The attributes of the file's folder, with their values: `user.FORMAT.format` and `user.FORMAT.version`. So their
    /// names can be listed before the file is parsed.
    fn attributes(&self) -> Attributes {
        Vec::new()
    }

    /// What a block with a wrong checksum is told as.
    fn mismatch(&self) -> &'static str {
        "the checksum fits neither the stored nor the decoded data"
    }

    /// What is wrong with the tree as a whole, which is read for that.
    fn check_tree(&self) -> Result<Vec<Defect>> {
        Ok(Vec::new())
    }

    /// How the file's tree can be changed, if the format can do that.
    fn editor(&self) -> Option<&'static dyn EditSupport> {
        None
    }

    /// True if `file`, the same file at a later time, has at their places all bytes that it had when this was parsed: it
    /// has only grown. Otherwise nothing that was not read yet can be read.
    fn still_has(&self, file: &Arc<dyn Source>) -> bool {
        let _ = file;
        false
    }

    /// Notes what tells a file that has only grown, if it can grow: another program is writing it now.
    fn expect_growth(&self) {}

    /// Takes over what was found of `older`, of whose file this one is a later version that has only grown.
    fn go_on_from(&self, older: &dyn Container) {
        let _ = older;
    }

    /// What is wrong with the file as far as it was looked at, first things first.
    fn defects(&self) -> Vec<Defect> {
        Vec::new()
    }

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

/// What is known of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Where it begins, in bytes from the start of the file.
    pub offset: u64,
    /// Bytes of the decoded data, as far as the file says.
    pub data_size: u64,
    /// The facts in the format's words: the lines of `blocks.yaml`, at most three. The last fact is the
    /// checksum, if the format has one: what is known of it is shown before it.
    pub lines: Vec<Vec<Fact>>,
}

/// A fact of a block: an attribute of its file, and a key and value in `blocks.yaml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The attribute's name, `user.FORMAT.KEY`.
    pub name: &'static str,
    /// Its value.
    pub value: FactValue,
}

/// The value of a [`Fact`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactValue {
    /// A number that stays as it is.
    Number(u64),
    /// Bytes; they grow with a block that is streamed.
    Size(u64),
    /// A word, a plain scalar of YAML where it can be.
    Word {
        /// The word.
        text: String,
        /// How many characters of it `blocks.yaml` shows.
        shown: usize,
    },
    /// The same, always in quotes.
    Quoted {
        /// The word.
        text: String,
        /// How many characters of it `blocks.yaml` shows.
        shown: usize,
    },
}

impl Fact {
    /// A number.
    pub fn number(name: &'static str, value: impl Into<u64>) -> Self {
        Self { name, value: FactValue::Number(value.into()) }
    }

    /// A number of bytes.
    pub fn size(name: &'static str, value: u64) -> Self {
        Self { name, value: FactValue::Size(value) }
    }

    /// The name without format: the key in `blocks.yaml`.
    pub fn key(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl std::fmt::Display for FactValue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) | Self::Size(number) => number.fmt(out),
            Self::Word { text, .. } | Self::Quoted { text, .. } => text.fmt(out),
        }
    }
}

impl Facts {
    /// All facts, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Fact> {
        self.lines.iter().flatten()
    }

    /// The value of the fact with a key.
    pub fn get(&self, key: &str) -> Option<String> {
        self.iter().find(|fact| fact.key() == key).map(|fact| fact.value.to_string())
    }
}

/// What checking a block's checksum found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// It is that of the stored bytes.
    Stored,
    /// It is that of the decoded bytes.
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
