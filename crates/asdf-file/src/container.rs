//! The interface of a format: a [`Format`] opens a source as a [`Container`].

pub mod array_facts;
pub mod footprint;
mod healpix;
pub mod references;
pub mod text_version;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use asdf_tree::product::FileSummary;
use asdf_tree::schema::Schemas;
use asdf_tree::yaml::document::Document;
use seekable::cache::Cache;
use seekable::content::Content;
use seekable::error::{Error, Kind, Result};
use seekable::source::{Reach, Source, SourceStat, UrlOpener};

use crate::folder::{Attributes, File, Node};

pub use array_facts::IN_BLOCKS;
pub use array_facts::{ArrayFacts, ArraySource, ElementType, FieldType};
pub use footprint::{Cone, Footprint};
pub use references::NAME as REFERENCES;

/// Number of bytes at the start of a file that are enough to recognise every format.
pub const HEAD: usize = 16;

/// Objects shared by all containers of a mount.
#[derive(Clone, Debug)]
pub struct Context {
    /// The cache of decoded data.
    pub cache: Arc<Cache>,
    /// Limit on the location of other files that a file refers to.
    pub reach: Reach,
    /// The files on servers that a local file may refer to; `None` if it may not.
    pub web: Option<Arc<dyn UrlOpener>>,
    /// True if few facts of each file are read, so that a request to a server to prove its index is not worth it.
    pub spares_requests: bool,
    /// The time for which a host that did not answer is not asked for other files.
    pub silence: Duration,
    /// The schemas by which a check examines trees; `None` for no schemas.
    pub schemas: Option<Arc<Schemas>>,
}

/// The time for which a host that did not answer is not asked again, outside of tests.
const SILENCE: Duration = Duration::from_secs(10);

impl Context {
    /// Creates a context in which files may only refer to files of their own directory.
    pub fn new(cache: Arc<Cache>) -> Self {
        Self {
            cache,
            reach: Reach::default(),
            web: None,
            spares_requests: false,
            silence: SILENCE,
            schemas: None,
        }
    }
}

/// Reads a file at an offset into a buffer, and returns the number of bytes: 0 only at the end.
pub type ReadAt<'r> = &'r dyn Fn(u64, &mut [u8]) -> Result<usize>;

/// A file format.
pub trait Format: Sync + std::fmt::Debug {
    /// Returns the format's name, lower case: `asdf`. Attributes are called `user.NAME.KEY`.
    fn name(&self) -> &'static str;

    /// Returns the noun for a file of this format, for messages: `an ASDF file`.
    fn title(&self) -> &'static str;

    /// Returns the file name extensions of this format, lower case: `.asdf`.
    fn endings(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the file name extensions of files that may be of this format: only a look into them tells.
    fn unsure_endings(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the names for `-o views=` of all views besides `tree.yaml` and `blocks/`.
    fn view_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// True if a file that starts with `head`, its first [`HEAD`] bytes, is of this format.
    fn recognise(&self, head: &[u8]) -> bool;

    /// True if a file that [`recognise`](Self::recognise) accepts is of this format, which may take a look at more of
    /// the file.
    fn confirm(&self, read: ReadAt<'_>) -> Result<bool> {
        let _ = read;
        Ok(true)
    }

    /// Opens a source of this format.
    fn open(&self, source: Arc<dyn Source>, context: &Context) -> Result<Arc<dyn Container>>;

    /// Describes a file that is not of this format but related to it, for a message.
    fn related(&self, head: &[u8], stat: &SourceStat) -> Option<String> {
        let _ = (head, stat);
        None
    }
}

/// A source that a format has parsed.
///
/// Opening is cheap for a file of any size: it finds the end of the tree. Blocks are located by the first
/// call that needs one. All methods may be called from several threads.
pub trait Container: Views + Any + Send + Sync + std::fmt::Debug {
    /// Returns the format's name, lower case: `asdf`.
    fn format(&self) -> &'static str;

    /// Returns the version that the file declares, such as `1.0.0`; an unusual layout follows in parentheses.
    fn version(&self) -> String;

    /// Returns the text of the file's head, as `tree.yaml` shows it.
    fn tree(&self) -> Arc<dyn Content>;

    /// Returns the same text as [`tree`](Self::tree). Fails if a part of the file that the text depends on can't
    /// be read now.
    fn tree_to_show(&self) -> Result<Arc<dyn Content>> {
        Ok(self.tree())
    }

    /// Returns the document of the text. It ends before an error in the text.
    fn document(&self) -> Result<Arc<Document>> {
        Ok(Arc::new(Document::read(&*self.tree_to_show()?)?))
    }

    /// True if the methods are slow now: the blocks are not located yet, which takes a search of the whole
    /// file, or the tree refers to other files, which a method may read.
    fn is_slow(&self) -> bool {
        false
    }

    /// Returns the number of blocks.
    fn block_count(&self) -> Result<usize> {
        Ok(0)
    }

    /// Finds all blocks and their damage. In a file on a server, the other methods may believe the index.
    fn find_all_blocks(&self) -> Result<()> {
        Ok(())
    }

    /// Returns block `n`, from 0, in file order. Fails if there is no such block, or it can't be read now.
    fn block(&self, n: usize) -> Result<Block> {
        Err(Error::new(Kind::NotFound, format!("there is no block {n}")))
    }

    /// Returns the offset of block `n` if reading its header costs a request to a server.
    fn far_block(&self, n: usize) -> Result<Option<u64>> {
        let _ = n;
        Ok(None)
    }

    /// Returns the last block that begins before byte `offset`. `None` for an offset within the tree, without
    /// a search for blocks.
    fn block_before(&self, offset: u64) -> Result<Option<usize>> {
        let _ = offset;
        Ok(None)
    }

    /// Verifies the checksum of block `n`, reading all of it.
    fn verify(&self, n: usize) -> Result<Verified> {
        self.block(n).map(|_| Verified::None)
    }

    /// Returns the arrays of the tree, by the block that they use. The first call scans the tree.
    fn arrays(&self) -> Result<Option<&ArrayPaths>> {
        Ok(None)
    }

    /// True if [`arrays`](Self::arrays) needs no scan any more.
    fn knows_arrays(&self) -> bool {
        true
    }

    /// Passes the arrays of the file to `take`.
    fn each_array(&self, take: &mut dyn FnMut(ArrayFacts)) -> Result<()> {
        let _ = take;
        Ok(())
    }

    /// Passes the path of each reference into another file, and its URI, to `take`. Opens no other file, so the
    /// reference may lead to something that is no array, or to nothing.
    fn each_reference(&self, take: &mut dyn FnMut(String, &str)) -> Result<()> {
        let _ = take;
        Ok(())
    }

    /// Returns the parts of the sky that the images of the file cover. Reads no pixel.
    fn footprints(self: Arc<Self>) -> Result<Vec<Footprint>> {
        Ok(Vec::new())
    }

    /// Returns the path, within the view of arrays, of the image that `preview.png` shows.
    fn displayed_image(&self) -> Result<Option<Vec<String>>> {
        Ok(None)
    }

    /// Returns the facts of the image at a path of the view of arrays; `None` if the format has none for each image.
    fn facts_of_image(&self, path: &[String]) -> Result<Option<FileSummary>> {
        let _ = path;
        Ok(None)
    }

    /// Returns the path, within the view of arrays, of the directory of the arrays that
    /// [`each_array`](Self::each_array) passes: empty, or with a slash at its end.
    fn directory_of_arrays(&self) -> &'static str {
        ""
    }

    /// Returns the attributes of the file's directory with their values: `user.FORMAT.format` and
    /// `user.FORMAT.version`. These names can be listed before the file is parsed.
    fn attributes(&self) -> Attributes {
        Vec::new()
    }

    /// Returns the message for a checksum mismatch.
    fn mismatch(&self) -> &'static str {
        "the checksum matches neither the stored nor the decoded data"
    }

    /// Reads the whole tree and returns its defects.
    fn check_tree(&self) -> Result<Vec<Defect>> {
        Ok(Vec::new())
    }

    /// Returns the number of bytes that [`check_outside_blocks`](Self::check_outside_blocks) reads, for a progress bar.
    fn len_outside_blocks(&self) -> u64 {
        0
    }

    /// Reads the data of the file that are neither in the head nor in a block, and returns their defects. `count` gets
    /// the numbers of bytes read.
    fn check_outside_blocks(&self, count: &dyn Fn(u64)) -> Result<Vec<Defect>> {
        let _ = count;
        Ok(Vec::new())
    }

    /// True if an editor can change the file's tree.
    fn is_editable(&self) -> bool {
        false
    }

    /// Returns the message for an attempt to change a file that is not [editable](Self::is_editable).
    fn unchangeable(&self) -> String {
        format!("files of the format {} can't be changed", self.format())
    }

    /// True if `file`, the same file at a later time, has only grown: all bytes of this version are at their
    /// old offsets. Otherwise reads of data that were not read yet fail.
    fn still_has(&self, file: &Arc<dyn Source>) -> bool {
        let _ = file;
        false
    }

    /// Prepares [`still_has`](Self::still_has) for a file that another program is writing now.
    fn expect_growth(&self) {}

    /// Reuses the results of `older`, an earlier version of this file, which has only grown since.
    fn carry_over_from(&self, older: &dyn Container) {
        let _ = older;
    }

    /// Returns the defects found so far: of the head first, then of the blocks, then of views.
    fn defects(&self) -> Vec<Defect> {
        Vec::new()
    }

    /// Returns the source of the container.
    fn source(&self) -> &Arc<dyn Source>;

    /// Returns the stat of the source at the time of opening.
    fn source_stat(&self) -> SourceStat;
}

/// The directories and files that a format makes of a file, beside `tree.yaml` and `blocks/`.
pub trait Views: Send + Sync + std::fmt::Debug {
    /// Returns the names and nodes in the file's directory besides `tree.yaml` and `blocks/`.
    fn views(self: Arc<Self>) -> Result<Vec<(&'static str, Node)>> {
        Ok(Vec::new())
    }

    /// Returns a node of [`views`](Self::views) by its name.
    fn view(self: Arc<Self>, name: &str) -> Result<Option<Node>> {
        Ok(self.views()?.into_iter().find_map(|(view, node)| (view == name).then_some(node)))
    }

    /// Returns the names of further files beside `tree.yaml`, which depend on the tree.
    /// [`derived_file`](Self::derived_file) creates them on demand.
    fn derived_files(&self) -> Result<Vec<&'static str>> {
        Ok(Vec::new())
    }

    /// Returns a derived file by name, also one that is not listed at present; `None` if there is none.
    fn derived_file(self: Arc<Self>, name: &str) -> Result<Option<File>> {
        let _ = name;
        Ok(None)
    }

    /// True if listing the derived files, or creating the one with this name, is slow at present.
    fn is_derived_slowly(&self, name: Option<&str>) -> bool {
        let _ = name;
        false
    }

    /// Finds the reasons why views leave something out, if a view that `is_shown` has one. This may read the
    /// whole tree, and other files that it names.
    fn find_omissions(&self, is_shown: &dyn Fn(&str) -> bool) {
        let _ = is_shown;
    }

    /// True if [`find_omissions`](Self::find_omissions) is slow now.
    fn are_omissions_slow(&self) -> bool {
        false
    }

    /// True if the tree refers to arrays in other files on servers, which are requested when the views of arrays are
    /// listed.
    fn refers_to_servers(&self) -> bool {
        false
    }
}

/// The arrays of the tree, by the block that they use.
#[derive(Clone, Debug, Default)]
pub struct ArrayPaths {
    /// The paths of a block's first arrays, such as `roman.data`; further ones may be omitted.
    pub found: BTreeMap<usize, Vec<String>>,
    /// True if the whole tree was scanned.
    pub complete: bool,
}

/// A block: its facts and its bytes.
#[derive(Clone, Debug)]
pub struct Block {
    /// The facts in its header.
    pub facts: Facts,
    /// The decoded bytes; an error if they can't be decoded at all (unknown codec, impossible sizes).
    pub content: Result<Arc<dyn Content>>,
    /// True if the block extends to the end of the file and grows with it.
    pub streamed: bool,
}

/// The facts of a block, such as sizes, codec and checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Offset of the block in the file.
    pub offset: u64,
    /// Size of the decoded data in bytes, according to the file.
    pub data_size: u64,
    /// The facts, in at most three groups of related ones. If the format has checksums, the last fact is the
    /// checksum.
    pub groups: Vec<Vec<Fact>>,
}

/// A property of a block: an extended attribute of its file, and a key and value in `blocks.yaml`.
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
    /// A number that does not change.
    Number(u64),
    /// A size in bytes, which grows if the block is streamed.
    Size(u64),
    /// A word, written as a plain YAML scalar if possible.
    Word(String),
    /// A text, always written in quotes.
    Quoted(String),
}

impl Fact {
    /// Creates a fact from a number.
    pub fn number(name: &'static str, value: impl Into<u64>) -> Self {
        Self { name, value: FactValue::Number(value.into()) }
    }

    /// Creates a fact from a size in bytes.
    pub fn size(name: &'static str, value: u64) -> Self {
        Self { name, value: FactValue::Size(value) }
    }

    /// Returns the key in `blocks.yaml`: the attribute's name without the format.
    pub fn key(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl std::fmt::Display for FactValue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) | Self::Size(number) => number.fmt(out),
            Self::Word(text) | Self::Quoted(text) => text.fmt(out),
        }
    }
}

impl Facts {
    /// Iterates over all facts in order.
    pub fn iter(&self) -> impl Iterator<Item = &Fact> {
        self.groups.iter().flatten()
    }

    /// Returns the value of the fact with a key.
    pub fn get(&self, key: &str) -> Option<String> {
        self.iter().find(|fact| fact.key() == key).map(|fact| fact.value.to_string())
    }
}

/// The result of verifying a block's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// The checksum matches the stored bytes.
    Stored,
    /// The checksum matches the decoded bytes.
    Decoded,
    /// The block has no checksum.
    None,
    /// The checksum matches neither the stored nor the decoded bytes.
    Mismatch,
}

impl Verified {
    /// Returns the word for the result in extended attributes and status files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Decoded => "decoded",
            Self::None => "none",
            Self::Mismatch => "mismatch",
        }
    }
}

/// The severity of a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A violation of the standard without loss of data, such as a stale index.
    Note,
    /// Some data can't be read by this program, such as those of an unknown codec.
    Unread,
    /// Some data can't be read or can't be trusted.
    Damage,
}

impl Severity {
    /// Returns the severity of an error of some data.
    pub fn of(error: &Error) -> Self {
        if error.kind() == Kind::Unsupported { Self::Unread } else { Self::Damage }
    }
}

/// A defect of a file: damage or a note.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Defect {
    /// Its severity.
    pub severity: Severity,
    /// Offset in the file.
    pub offset: u64,
    /// Number of the block, if the defect concerns one.
    pub block: Option<usize>,
    /// The message.
    pub what: String,
}
