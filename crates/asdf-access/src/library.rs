//! The interface for Rust programs: a file with its tree, its arrays and its blocks.
//!
//! - `array`: a typed array
//! - `block`: a block
//! - `check`: the check of a whole file, as `--check` makes it
//! - `options`: how files are opened
//! - `unchanged`: a source that is read in one version

mod array;
mod block;
pub mod check;
pub mod options;
mod unchanged;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use array::{Array, Element, Selection};
pub use block::Block;
pub use check::CheckProgress;
pub use options::OpenOptions;

pub use asdf_file::array::{ByteOrder, Datatype, Field, Scalar};
pub use asdf_tree::yaml::assign::Allowed;

use seekable::error::{Error, Kind, Result};
use seekable::source::{MemorySource, Revision, Source};

use seekable::content::{Content, read_exact_at};

use crate::local::location::Location;
use crate::named::{self, Named};
use crate::search::Pattern;
use asdf_file::container::text_version::TextVersion;
use asdf_file::container::{self, ArrayFacts, Container, Context, Defect, Footprint};
use asdf_file::edit::context::SaveTarget;
use asdf_file::edit::recovery::RecoveryPolicy;
use asdf_file::folder::{Dir, EntryKind, Node};
use asdf_tree::yaml::assign::{Assignment, assign};
use asdf_views::format::{self, TreeJson};
use unchanged::{StaleOnWrite, UnchangedSource};

/// The view with the arrays.
const ARRAYS: &str = "arrays";
/// Maximum length of a tree in JSON, in bytes.
const MAX_JSON: u64 = 1 << 30;
/// The endings of the files in the view with the arrays: arrays, and the texts of GSD files.
const ENDINGS: [&str; 2] = [".npy", ".txt"];

/// Maximum number of links followed on the way to an array.
const MAX_LINKS: usize = 40;

/// Number of attempts to open a file that another program is changing, and the pause between them.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(20);

/// An open file: ASDF, GSD, Bloscpack or Blosc2.
///
/// Opening reads the head of the file; everything else is read when it is asked for. A `File` is a snapshot:
/// once another program has changed the file, reads of bytes that were not read yet fail with
/// [`Kind::Changed`], and the file must be opened again. All methods but [`set`](Self::set) and
/// [`set_tree`](Self::set_tree) may be called from several threads.
///
/// ```
/// # fn main() -> asdf_access::Result<()> {
/// let file = asdf_access::File::open("examples/sample.asdf")?;
/// assert_eq!((file.format(), file.block_count()?), ("asdf", 3));
/// for array in file.arrays()? {
///     println!("{} {:?} of {}", array.path, array.shape, array.datatype);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct File {
    container: Arc<dyn Container>,
    /// The source and its name, with which the file is opened again after a save.
    opened: Option<NamedSource>,
}

/// The source of a file that was opened by its name.
#[derive(Debug)]
struct NamedSource {
    named: Named,
    options: OpenOptions,
    source: Arc<UnchangedSource>,
}

/// The result of [`File::set_tree`] and [`File::set`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SaveReport {
    /// True if the file was written; false if the tree had this text already.
    pub written: bool,
    /// Parts that the text had lost and that were restored in it, such as the header line.
    pub restored: Vec<String>,
    /// Problems of the text that did not cause a refusal, and notices about the save, a line each.
    pub warnings: Vec<String>,
}

impl File {
    /// Opens the file at a path, or at an address that begins with `http://`, `https://` or `s3://`, with the
    /// default [`OpenOptions`].
    ///
    /// # Errors
    /// [`Kind::Unrecognised`] if the format is unknown, [`Kind::Unfinished`] if an interrupted save has left the
    /// file half-saved (`asdf-mount --recover` repairs it), other kinds if the file can't be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::shared()?.open(path)
    }

    fn open_named(named: Named, options: &OpenOptions) -> Result<Self> {
        for _ in 1..ATTEMPTS {
            match Self::try_open(&named, options) {
                // Another program is saving the file.
                Err(error) if matches!(error.kind(), Kind::Changed | Kind::Unfinished) => {
                    std::thread::sleep(PAUSE);
                }
                opened => return opened,
            }
        }
        Self::try_open(&named, options)
    }

    fn try_open(named: &Named, options: &OpenOptions) -> Result<Self> {
        let location = match named {
            Named::Local(path) => {
                named::refuse_mount(path)?;
                Location::of_path(path, None, false)?
            }
            Named::Elsewhere(place) => Location::Elsewhere(place.clone()),
        };
        let label = location.label();
        let open = || {
            location.recover(&RecoveryPolicy::Report)?;
            let source = Arc::new(UnchangedSource::new(location.open()?)?);
            let container = format::open(source.clone(), &options.context)?;
            let opened = NamedSource { named: named.clone(), options: options.clone(), source };
            Ok(Self { container, opened: Some(opened) })
        };
        open().map_err(|error: Error| error.of(label))
    }

    /// Opens a file that is in memory, such as one that was received.
    ///
    /// # Errors
    /// [`Kind::Unrecognised`] if the format is unknown, other kinds if the head is damaged.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        Self::of_source(Arc::new(MemorySource(bytes.into())), &OpenOptions::shared()?.context)
    }

    /// Opens a source that does not change meanwhile.
    pub fn of_source(source: Arc<dyn Source>, context: &Context) -> Result<Self> {
        Ok(Self { container: format::open(source, context)?, opened: None })
    }

    /// Returns the path or address that the file was opened by. An address has neither password nor query.
    pub fn path(&self) -> &Path {
        self.container.source().path()
    }

    /// Returns the name of the format: `asdf`, `gsd` or `bloscpack`.
    pub fn format(&self) -> &'static str {
        self.container.format()
    }

    /// Returns the version that the file declares, such as `1.6.0`.
    pub fn version(&self) -> String {
        self.container.version()
    }

    /// Returns the text of the tree: of an ASDF file all lines up to `...`; of any other file a YAML
    /// text about its contents.
    ///
    /// # Errors
    /// The text can't be read, is not UTF-8, or does not fit in memory.
    pub fn tree(&self) -> Result<String> {
        let text = self.container.tree_to_show().and_then(|tree| read_all(&*tree))?;
        String::from_utf8(text).map_err(|error| {
            let at = error.utf8_error().valid_up_to() as u64;
            Error::damaged("the tree is not UTF-8").at(at).of(self.path())
        })
    }

    /// Returns the arrays of the file. References into other files and masks are not listed. Of a GSD
    /// trajectory, the arrays of the first frame are listed; [`array`](Self::array) finds all others, too.
    ///
    /// # Errors
    /// The tree or the index can't be read.
    pub fn arrays(&self) -> Result<Vec<ArrayFacts>> {
        let mut arrays = Vec::new();
        let directory = self.container.directory_of_arrays();
        self.each_array(&mut |facts| {
            arrays.push(ArrayFacts { path: format!("{directory}{}", facts.path), ..facts });
        })?;
        Ok(arrays)
    }

    fn each_array(&self, take: &mut dyn FnMut(ArrayFacts)) -> Result<()> {
        self.container.each_array(take).map_err(|error| error.of(self.path()))
    }

    /// Returns the paths of all arrays below a directory of the view of arrays, `""` for all: with masks, aliases and
    /// references, in the order of the tree. A path may lead to no array.
    ///
    /// # Errors
    /// The tree or the index can't be read.
    pub fn array_paths(&self, directory: &str) -> Result<Vec<String>> {
        let walk = || {
            let mut paths = Vec::new();
            let mut found = self.container.clone().view(ARRAYS)?;
            if let (Some(Node::Dir(root)), false) = (&found, directory.is_empty()) {
                found = root.lookup(OsStr::new(directory))?;
            }
            if let Some(Node::Dir(found)) = found {
                push_paths(&*found, directory, &mut paths)?;
            }
            Ok(paths)
        };
        walk().map_err(|error: Error| error.of(self.path()))
    }

    /// Returns the array at a path: the keys on the way to it, joined by slashes, such as `roman/data`. Aliases
    /// and references lead to their arrays. The mask of `roman/data` is `roman/data.mask`, an array of
    /// booleans. In a GSD file the paths are those below `arrays/` in a mount, such as
    /// `series/particles/position`; a text is an array of bytes.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if there is no such array; other kinds if it can't be read.
    pub fn array(&self, path: &str) -> Result<Array> {
        let missing = || {
            let message = format!("there is no array \"{}\"; File::arrays lists them", path.escape_debug());
            Error::new(Kind::NotFound, message).of(self.path())
        };
        self.array_if_any(path)?.ok_or_else(missing)
    }

    /// Returns the array at a path as [`array`](Self::array) does; `None` if the file has no such array.
    ///
    /// # Errors
    /// The array can't be read. [`Kind::NotFound`] means that the file is gone, or another one that has the array.
    pub fn array_if_any(&self, path: &str) -> Result<Option<Array>> {
        let mut found = Ok(None);
        for ending in ENDINGS {
            found = self.find_array(&format!("{path}{ending}"));
            if !matches!(found, Ok(None)) {
                break;
            }
        }
        let array = found.and_then(|content| content.map(|content| Array::of(path, &content)).transpose());
        array.map_err(|error| error.of(self.path()))
    }

    /// Returns the file of an array in the view of arrays, following links.
    fn find_array(&self, path: &str) -> Result<Option<Arc<dyn Content>>> {
        let views = self.container.clone().views()?;
        let Some((_, Node::Dir(root))) = views.into_iter().find(|(name, _)| *name == ARRAYS) else {
            return Ok(None);
        };
        let mut directories: Vec<Arc<dyn Dir>> = vec![root];
        let mut ahead: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        let mut links = 0;
        while let Some(name) = ahead.pop() {
            if name == ".." {
                directories.pop();
                continue;
            }
            let Some(directory) = directories.last() else { return Ok(None) };
            match directory.lookup(OsStr::new(&name))?.map(Node::if_known).transpose()? {
                Some(Node::Dir(below)) => directories.push(below),
                Some(Node::File(file)) if ahead.is_empty() => return file.content.map(Some),
                Some(Node::Link(target)) if links < MAX_LINKS => {
                    links += 1;
                    ahead.extend(target.to_string_lossy().split('/').rev().map(str::to_owned));
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the offset in the local file at which the elements of an array lie, in C order and one after another, as the
    /// array has them. Then the file can be [mapped](Self::descriptor).
    ///
    /// # Errors
    /// [`Kind::Changed`] if another program has changed the file.
    pub fn stored(&self, array: &Array) -> Result<Option<u64>> {
        let Some(offset) = self.offset_of(array) else { return Ok(None) };
        // A read finds out whether the file has changed.
        self.container.source().read_at(offset, &mut [0])?;
        Ok(Some(offset))
    }

    fn offset_of(&self, array: &Array) -> Option<u64> {
        let (source, offset) = array.elements().stored()?;
        let own = self.descriptor()?.as_raw_fd();
        let offset = offset.checked_add(source.start_in_file())?;
        let end = offset.checked_add(array.elements().len())?;
        let is_whole = end <= self.container.source().stat().ok()?.size;
        (source.descriptor()?.as_raw_fd() == own && is_whole).then_some(offset)
    }

    /// Returns the descriptor of a local file, which is open as long as the `File` lasts.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.container.source().descriptor()
    }

    /// Returns a text that differs between versions of the file, to compare it later, or on another machine.
    ///
    /// # Errors
    /// The file can't be examined.
    pub fn version_of_source(&self) -> Result<String> {
        Ok(self.container.source().stat()?.version.in_text())
    }

    /// Returns the tree as JSON, as `tree.json` in a mount has it.
    ///
    /// # Errors
    /// The tree has no JSON, or can't be read.
    pub fn tree_json(&self) -> Result<Vec<u8>> {
        let json = self.describe(MAX_JSON, &mut |_| ()).and_then(|json| json);
        json.map(|json| json.text).map_err(|error| error.of(self.path()))
    }

    /// Returns the number of blocks. The first call may search the whole file.
    ///
    /// # Errors
    /// The blocks can't be found.
    pub fn block_count(&self) -> Result<usize> {
        self.container.block_count().map_err(|error| error.of(self.path()))
    }

    /// Returns the blocks, in file order.
    ///
    /// # Errors
    /// The blocks can't be found. An item is an error if its block can't be read.
    pub fn blocks(&self) -> Result<impl Iterator<Item = Result<Block>>> {
        let count = self.block_count()?;
        Ok((0..count).map(|n| self.block(n)))
    }

    /// Returns block `n`, from 0: in an ASDF file a block of the standard, in a GSD file a data chunk, in a
    /// Bloscpack file a chunk.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if there is no such block; other kinds if its header can't be read.
    pub fn block(&self, n: usize) -> Result<Block> {
        Block::of(&self.container, n).map_err(|error| error.of(self.path()))
    }

    /// Replaces the tree of an ASDF file by `text`, and opens the file again. The save is that of a mount: the
    /// text is checked, a journal makes the save survive a crash, the file is locked meanwhile, and the replaced
    /// text goes into the history. The data of the blocks do not change. Arrays and blocks that were taken
    /// before a save can no longer be read after it.
    ///
    /// # Errors
    /// The file is unchanged if the error is one of these: [`Kind::Refused`] and [`Kind::TooLarge`] if the text
    /// is refused, [`Kind::Conflict`] if another program has changed the tree since this file was opened,
    /// [`Kind::Busy`] if another program (such as a mount) has the file locked, [`Kind::ReadOnly`] or
    /// [`Kind::System`] if it can't be written, [`Kind::Unsupported`] if files of the format can't be changed.
    pub fn set_tree(&mut self, text: &str) -> Result<SaveReport> {
        self.save(|_| Ok(Cow::Borrowed(text.as_bytes())))
    }

    /// Sets values in the tree of an ASDF file, as `asdf-mount --set KEY=VALUE` does, and saves it as
    /// [`set_tree`](Self::set_tree) does. The rest of the text stays as it is, comments included.
    ///
    /// A key is a path such as `meta.exposure.filter`: a backslash makes a dot or an equals sign part of a key, and a
    /// number is the position in a sequence. A value is YAML; an empty one is null. A number that replaces a number is
    /// written so that Python reads a number: `1e5` as `1.0e+5`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let copy = folder.path().join("galaxy.asdf");
    /// # std::fs::copy("examples/sample.asdf", &copy)?;
    /// use asdf_access::{Allowed, OpenOptions};
    ///
    /// let mut file = OpenOptions::parse("history=off")?.open(&copy)?;
    /// let allowed = Allowed { create: true, ..Allowed::default() };
    /// file.set(&[("object.name", "M31"), ("checked", "2026-01-01")], allowed)?;
    /// # assert!(file.tree()?.contains("M31"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As of [`set_tree`](Self::set_tree). The file is unchanged, too, if the error is [`Kind::Usage`] because a key or a
    /// value can't be read, [`Kind::NotFound`] if there is no such key, or [`Kind::Refused`] if a mapping, a sequence or an
    /// array would be replaced. [`Allowed`] permits the last two; messages name its fields as the options `--create`
    /// and `--force` of the program.
    pub fn set(&mut self, assignments: &[(&str, &str)], allowed: Allowed) -> Result<SaveReport> {
        let assignments = assignments.iter().map(|(key, value)| Assignment::new(key, value));
        let assignments = assignments.collect::<Result<Vec<_>>>().map_err(|error| error.of(self.path()))?;
        let mut warnings = Vec::new();
        let mut report = self.save(|tree| {
            let text =
                assign(&read_all(tree)?, &assignments, allowed, &mut |warning| warnings.push(warning))?;
            Ok(Cow::Owned(text))
        })?;
        report.warnings.splice(0..0, warnings);
        Ok(report)
    }

    /// Saves the text that `make` makes of the tree, and opens the file again.
    fn save<'t>(&mut self, make: impl FnOnce(&dyn Content) -> Result<Cow<'t, [u8]>>) -> Result<SaveReport> {
        let opened =
            self.opened.as_ref().ok_or_else(|| Error::new(Kind::ReadOnly, "is in memory").of(self.path()))?;
        let Named::Local(path) = &opened.named else {
            let message = "is on a server, where files are read-only; download it and change the copy";
            return Err(Error::new(Kind::ReadOnly, message).of(self.path()));
        };
        let tree = self.container.tree();
        let base = TextVersion::of(&*tree).map_err(|error| error.of(path))?;
        let mut editor = format::open_editor(SaveTarget::of_path(path)?, &opened.options.edits())?;
        editor.set_program(program());
        let text = make(&*tree).map_err(|error| error.of(path))?;
        if text.is_empty() {
            return Err(Error::new(Kind::Refused, "an empty tree is never saved").of(path));
        }
        let saved = editor
            .commit(&text, &base, &mut StaleOnWrite(&opened.source))
            .map_err(|refusal| Error::from(refusal).of(path))?;
        let notices = editor.notices().iter().chain(editor.later_notices()).cloned();
        let warnings = saved.warnings.iter().map(ToString::to_string).chain(notices).collect();
        let report = SaveReport { written: saved.written, restored: saved.restored, warnings };
        drop(editor);
        if report.written {
            *self = Self::open_named(opened.named.clone(), &opened.options)?;
        }
        Ok(report)
    }

    /// Returns the size, the ETag and the modification time that the file had when it was opened.
    pub(crate) fn revision(&self) -> Revision {
        let stat = self.container.source_stat();
        let of_server = self.container.source().revision();
        of_server.unwrap_or(Revision { size: stat.size, etag: None, mtime: Some(stat.mtime) })
    }

    /// Returns the offset of block `n` if reading its header costs a request to a server.
    pub fn far_block(&self, n: usize) -> Result<Option<u64>> {
        self.container.far_block(n).map_err(|error| error.of(self.path()))
    }

    /// Reads the whole file, and returns its defects in file order, as `asdf-mount --check` does. A file without
    /// [damage](container::Severity::Damage) is sound.
    ///
    /// # Errors
    /// The file can't be read to its end.
    pub fn check(&self) -> Result<Vec<Defect>> {
        let mut findings = check::Findings::default();
        self.check_into(&mut findings, &()).map_err(|error| error.of(self.path()))?;
        Ok(findings.defects)
    }

    /// Checks the file; `findings` has what was found before an error.
    pub fn check_into(&self, findings: &mut check::Findings, progress: &dyn CheckProgress) -> Result<()> {
        check::check(&*self.container, findings, progress)
    }

    /// Passes the arrays of the file to `take`, and returns the tree as JSON in one line, of at most `max_len`
    /// bytes. The inner error says why there is no JSON.
    pub fn describe(&self, max_len: u64, take: &mut dyn FnMut(ArrayFacts)) -> Result<Result<TreeJson>> {
        format::describe(&*self.container, max_len, take)
    }

    /// Returns the parts of the sky that the images of the file cover.
    pub fn footprints(&self) -> Result<Vec<Footprint>> {
        self.container.clone().footprints().map_err(|error| error.of(self.path()))
    }

    /// Passes the path and the value of each scalar of the tree that `pattern` matches to `take`.
    ///
    /// ```
    /// # fn main() -> asdf_access::Result<()> {
    /// let file = asdf_access::File::open("examples/sample.asdf")?;
    /// let pattern = asdf_access::search::Pattern::new("filter=V", false)?;
    /// let mut found = Vec::new();
    /// file.search(&pattern, &mut |path, value| {
    ///     found.push(format!("{path}: {value}"));
    ///     Ok(())
    /// })?;
    /// assert_eq!(found, ["object.filter: V"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The tree can't be read; or as of `take`.
    pub fn search(&self, pattern: &Pattern, take: &mut dyn FnMut(&str, &str) -> Result<()>) -> Result<()> {
        pattern.each_match(&*self.container, take).map_err(|error| error.of(self.path()))
    }

    /// Returns the text of the references to the chunks of all arrays; `None` if the format has none.
    pub fn references(&self) -> Result<Option<Arc<dyn Content>>> {
        let file = self.container.clone().derived_file(container::REFERENCES)?;
        file.map(|file| file.content).transpose()
    }
}

/// Adds the paths of the arrays in a directory, and in those below.
fn push_paths(dir: &dyn Dir, path: &str, paths: &mut Vec<String>) -> Result<()> {
    let mut entries = Vec::new();
    dir.list(0, &mut |name, kind| {
        entries.push((name.to_owned(), kind));
        true
    })?;
    for (name, kind) in entries {
        let path = if path.is_empty() {
            name.to_string_lossy().into_owned()
        } else {
            format!("{path}/{}", name.to_string_lossy())
        };
        match kind {
            EntryKind::Dir => {
                if let Some(Node::Dir(below)) = dir.lookup(&name)? {
                    push_paths(&*below, &path, paths)?;
                }
            }
            EntryKind::File | EntryKind::Link => paths.extend(path.strip_suffix(".npy").map(str::to_owned)),
        }
    }
    Ok(())
}

/// Returns the name of the running program, for the history.
fn program() -> Option<String> {
    let program = std::env::args_os().next().map(PathBuf::from)?;
    Some(program.file_name()?.to_string_lossy().into_owned())
}

/// Reads a content to its end.
pub fn read_all(content: &dyn Content) -> Result<Vec<u8>> {
    let too_large = |_| Error::new(Kind::TooLarge, format!("{} bytes do not fit in memory", content.len()));
    let len = usize::try_from(content.len()).map_err(|_| Error::new(Kind::TooLarge, "is too large"))?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(too_large)?;
    bytes.resize(len, 0);
    read_exact_at(content, 0, &mut bytes)?;
    Ok(bytes)
}
