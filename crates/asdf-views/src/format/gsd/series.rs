//! `arrays/series/`: the chunks of one name in all frames, as one array.
//!
//! A name has a series if all its chunks have the same type and shape; otherwise `status.yaml` has a note.
//! The series are found by a scan of the index when a program first looks into the directory.
//!
//! [`rows`] has the rows of `arrays/resolved/series/` and `tables/log.parquet`.

mod gather;
mod numbers;
mod pass;
mod rows;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Arc, Mutex};

use asdf_file::array::{ByteOrder, Datatype, Scalar, npy};
use asdf_file::container;
use asdf_file::folder::shared_path::SharedPath;
use asdf_file::folder::{Attributes, Dir, EntryKind, File, Node, Renewal, Signature};
use gather::{Gather, Of};
use pass::{Differs, NameChunks, NameRows, Outcome, Pass};
use rows::LoggedQuantity;
use seekable::content::{Content, read_exact_at};
use seekable::error::{Error, Result, if_readable};
use seekable::sync::{locked, locked_at_once};

use super::defect::{GsdDefect, UnequalChunks};
use super::entry::{Element, IndexEntry};
use super::file::GsdFile;
use super::index::SURVEYED;
use super::path_dir::{Item, Items, PathDir};
use super::schema::Rule;
use super::{resolved, schema};
use crate::parquet::Column;

/// The name extension of arrays.
const ENDING: &str = ".npy";

/// Bytes of numbers that are compared at a time: whole numbers.
const READ: usize = 64 << 10;

/// Returns the file at the path of a name.
fn item_at<T>(path: &[String], ending: &str, what: T) -> Option<Item<T>> {
    let (stem, dir) = path.split_last()?;
    let dir = SharedPath::new(dir.iter().map(String::as_str));
    Some(Item { dir, file: format!("{stem}{ending}"), what })
}

/// The directory of series.
#[derive(Debug)]
pub(crate) struct Series {
    file: Arc<GsdFile>,
    /// The result of the pass that runs when a program first looks into the directory, while others wait.
    table: Mutex<Option<Arc<SeriesTable>>>,
    /// The pass over an older version of the file, from which a new pass continues.
    older: Mutex<Option<Pass>>,
}

/// The result of a pass.
#[derive(Debug)]
struct SeriesTable {
    pass: Pass,
    dir: PathDir<SeriesFile>,
    /// The logged quantities that have a row in every frame.
    rows: PathDir<LoggedQuantity>,
    logged: Logged,
    notes: Vec<container::Defect>,
    /// The files of the directory.
    items: Items<SeriesFile>,
    /// The paths of names whose chunks differ in type or shape.
    differing: Vec<Arc<[String]>>,
}

/// The chunks of a name in all frames, as rows of an array.
pub(super) struct ChunkSeries {
    pub(super) path: Vec<String>,
    pub(super) dtype: String,
    pub(super) shape: Vec<u64>,
    pub(super) chunks: Gather,
    /// The first chunk with data outside of the file.
    pub(super) cut: Option<u64>,
}

/// The step, and all logged quantities in the order of their names in the file.
type Logged = Vec<(Item<LoggedQuantity>, String)>;

/// A file of the directory.
#[derive(Clone, Debug)]
struct SeriesFile {
    chunks: Arc<NameChunks>,
    spacing: u64,
    /// True for the list of frames that have a chunk.
    is_frames: bool,
}

impl Series {
    /// Creates the series of a file.
    pub(crate) fn new(file: Arc<GsdFile>) -> Self {
        Self { file, table: Mutex::default(), older: Mutex::default() }
    }

    /// Reuses the results of `older`, an earlier version of the file, to which this version only appended.
    pub(crate) fn carry_over_from(&self, older: &Self) {
        let known = locked(&older.table).as_ref().map(|table| table.pass.clone());
        *locked(&self.older) = known.filter(Pass::is_sound).or_else(|| locked(&older.older).take());
    }

    /// Fails if a small index, which is scanned for notes, can't be read now.
    pub(crate) fn check_readable(&self) -> Result<()> {
        self.table_if_small().map(drop)
    }

    /// Returns the notes on names whose chunks differ. A small index is scanned for these names; for a large
    /// index the list is empty until a program looks into the directory.
    pub(crate) fn notes(&self) -> Vec<container::Defect> {
        // While another thread scans the index, it holds the lock: there are no results yet.
        let known = || locked_at_once(&self.table).and_then(|table| table.clone());
        let table = self.table_if_small().ok().flatten().or_else(known);
        table.map_or_else(Vec::new, |table| table.notes.clone())
    }

    /// Returns the table, if a small index, which is scanned for it, is sound. Fails if it can't be read now.
    fn table_if_small(&self) -> Result<Option<Arc<SeriesTable>>> {
        if if_readable(self.file.index().used())?.is_some_and(|used| used <= SURVEYED) {
            return if_readable(self.table());
        }
        Ok(None)
    }

    fn table(&self) -> Result<Arc<SeriesTable>> {
        let mut table = locked(&self.table);
        if let Some(table) = &*table {
            return Ok(table.clone());
        }
        let mut pass = locked(&self.older).clone().unwrap_or_default();
        pass.run(&self.file)?;
        let made = Arc::new(self.table_of(pass)?);
        *table = Some(made.clone());
        *locked(&self.older) = None;
        Ok(made)
    }

    fn table_of(&self, pass: Pass) -> Result<SeriesTable> {
        let names = self.file.names();
        let index = self.file.index();
        let frames = self.file.frames()?;
        let mut items = Vec::new();
        let mut notes = Vec::new();
        let mut found_rows = Vec::new();
        let mut differing = Vec::new();
        let mut counts = HashMap::new();
        for (id, outcome, rows) in pass.outcomes(&self.file) {
            // Only the first of equal names is shown.
            let name = names.bytes(id).filter(|name| names.id_of(name) == Some(id));
            let (Some(name), Some(path)) = (name, names.path(id)) else { continue };
            found_rows.push((id, rows));
            let chunks = match outcome {
                Outcome::Series(chunks) => Arc::new(chunks),
                Outcome::Differs(differs) => {
                    differing.push(path.clone());
                    let Differs { first, other } = differs;
                    let why = GsdDefect::NoSeries(UnequalChunks { name: name.into(), first, other });
                    notes.push(why.at(index.offset(other.slot), None));
                    continue;
                }
            };
            let mut add = |ending: &str, is_frames| {
                let what = SeriesFile { chunks: chunks.clone(), spacing: pass.spacing(), is_frames };
                items.extend(item_at(path, ending, what));
            };
            if name.ends_with(b"/N") {
                counts.insert(id, chunks.clone());
            }
            add(ENDING, false);
            if chunks.count != frames {
                add(".frames.npy", true);
            }
        }
        let logged =
            if resolved::applies(&self.file) { self.logged(&found_rows, &mut notes)? } else { Vec::new() };
        let whole = logged.iter().filter(|(item, _)| item.what.is_whole());
        let mut whole: Vec<Item<LoggedQuantity>> = whole.map(|(item, _)| item.clone()).collect();
        if resolved::applies(&self.file) {
            self.add_quantities(&found_rows, &counts, pass.spacing(), &mut whole)?;
        }
        let whole = Items::new(whole);
        let file = self.file.clone();
        let holder = self.file.clone();
        let items = Items::new(items);
        let dir = PathDir::new(&items, move |shown| Ok(Node::File(file_of(&file, shown))));
        let rows = PathDir::new(&whole, move |quantity| Ok(Node::File(file_of_rows(&holder, quantity))));
        Ok(SeriesTable { pass, dir, rows, logged, notes, items, differing })
    }

    /// Returns the step and the logged quantities as rows. Adds a note for each quantity that can't be shown
    /// as rows, or only after conversion.
    fn logged(&self, found: &[(u16, NameRows)], notes: &mut Vec<container::Defect>) -> Result<Logged> {
        let names = self.file.names();
        let index = self.file.index();
        let frames = self.file.frames()?;
        let step = names.id_of(schema::STEP.as_bytes());
        let mut logged = Vec::new();
        if !found.iter().any(|(id, _)| Some(*id) == step) {
            let path: Vec<String> = schema::STEP.split('/').map(str::to_owned).collect();
            let item = item_at(&path, ENDING, LoggedQuantity::no_step(frames));
            logged.extend(item.map(|item| (item, schema::STEP.to_owned())));
        }
        for (id, rows) in found {
            let (Some(name), Some(path)) = (names.bytes(*id), names.path(*id)) else { continue };
            let is_step = Some(*id) == step;
            if !is_step && !name.starts_with(schema::LOGGED.as_bytes()) {
                continue;
            }
            let quantity = LoggedQuantity::new(*id, rows, is_step, frames);
            if let Some(other) = rows.misfit.or(rows.converted).or(quantity.is_none().then_some(rows.first)) {
                let what = UnequalChunks { name: name.into(), first: rows.first, other };
                let why =
                    if quantity.is_some() { GsdDefect::Converted(what) } else { GsdDefect::NoRows(what) };
                notes.push(why.at(index.offset(other.slot), None));
            }
            let Some(item) = quantity.and_then(|what| item_at(path, ENDING, what)) else { continue };
            // The first column of the table is the step.
            let at = if is_step { 0 } else { logged.len() };
            logged.insert(at, (item, String::from_utf8_lossy(name).into_owned()));
        }
        Ok(logged)
    }

    /// Adds the rows of all quantities of the HOOMD schema whose values have one type and shape in all frames,
    /// except the step.
    fn add_quantities(
        &self,
        found: &[(u16, NameRows)],
        counts: &HashMap<u16, Arc<NameChunks>>,
        spacing: u64,
        whole: &mut Vec<Item<LoggedQuantity>>,
    ) -> Result<()> {
        let frames = self.file.frames()?;
        for group in schema::GROUPS {
            let rows = self.constant_count(group.name, counts, spacing)?;
            for quantity in group.quantities {
                let name = format!("{}/{}", group.name, quantity.name);
                let rows = if quantity.rule == Rule::Rows { rows } else { Some(0) };
                let Some(rows) = rows.filter(|_| name != schema::STEP) else { continue };
                let id = self.file.names().id_of(name.as_bytes());
                let of_name = found.iter().find(|(found, _)| Some(*found) == id);
                let of_name = of_name.map(|(known, name_rows)| (*known, name_rows));
                let path = [group.name.to_owned(), quantity.name.to_owned()];
                let made = LoggedQuantity::of_schema(quantity, of_name, rows, frames);
                whole.extend(made.and_then(|made| item_at(&path, ENDING, made)));
            }
        }
        Ok(())
    }

    /// Returns the number of particles, bonds and so on if it is the same in all frames.
    fn constant_count(
        &self,
        group: &str,
        counts: &HashMap<u16, Arc<NameChunks>>,
        spacing: u64,
    ) -> Result<Option<u64>> {
        let Some(id) = self.file.names().id_of(format!("{group}/N").as_bytes()) else { return Ok(Some(0)) };
        let Some(chunks) = counts.get(&id) else { return Ok(None) };
        let first = chunks.first;
        let Some(count) = if_readable(resolved::count(&self.file, &first))? else { return Ok(None) };
        let Some(chunk_len) = first.bytes().filter(|_| first.frame == 0 && first.is_number()) else {
            return Ok(None);
        };
        let all = Gather::new(self.file.clone(), chunks.clone(), spacing, Of::Data(chunk_len));
        let mut wanted = Vec::new();
        let mut buffer = vec![0; READ];
        let mut offset = 0;
        while offset < all.len() {
            let len = (all.len() - offset).min(READ as u64) as usize;
            let room = &mut buffer[..len];
            if if_readable(read_exact_at(&all, offset, room))?.is_none() {
                return Ok(None);
            }
            if wanted.is_empty() {
                wanted = room[..chunk_len as usize].to_vec();
            }
            if !room.chunks(chunk_len as usize).all(|number| number == wanted) {
                return Ok(None);
            }
            offset += len as u64;
        }
        Ok(Some(count))
    }

    /// Returns the series in file number `n` of `arrays/series/`; `None` after the last file. The inner
    /// `None` is for a file that lists the frames that have a chunk.
    pub(super) fn chunk_series(&self, n: usize) -> Result<Option<Option<ChunkSeries>>> {
        let table = self.table()?;
        let Some(item) = table.items.get(n) else { return Ok(None) };
        let SeriesFile { chunks, spacing, is_frames } = &item.what;
        let bytes = chunks.first.bytes().filter(|_| !is_frames);
        let (Some(bytes), Some(element)) = (bytes, chunks.first.element()) else { return Ok(Some(None)) };
        let (datatype, shape) = array_of(element, chunks);
        let stem = item.file.strip_suffix(ENDING).unwrap_or(&item.file);
        let path = item.dir.names().into_iter().chain([stem]).map(str::to_owned).collect();
        let dtype = datatype.descr(ByteOrder::Little).trim_matches('\'').to_owned();
        let cut = chunks.cut;
        let chunks = Gather::new(self.file.clone(), chunks.clone(), *spacing, Of::Data(bytes));
        Ok(Some(Some(ChunkSeries { path, dtype, shape, chunks, cut })))
    }

    /// Returns the path of the `n`-th name whose chunks differ in type or shape; `None` after the last name.
    pub(super) fn differing(&self, n: usize) -> Result<Option<Arc<[String]>>> {
        Ok(self.table()?.differing.get(n).cloned())
    }

    /// True if `arrays/series/` has files below the directory at `path`.
    pub(super) fn has_below(&self, path: &[String]) -> Result<bool> {
        Ok(!self.table()?.items.numbers_below(path.iter().map(String::as_str)).is_empty())
    }

    /// Returns the step and all logged single numbers and texts as columns, and the number of frames.
    pub(super) fn columns(&self) -> Result<(Vec<(String, Column)>, u64)> {
        let table = self.table()?;
        let mut columns = Vec::new();
        for (item, name) in &table.logged {
            if let Some(column) = item.what.column(&self.file)? {
                columns.push((name.clone(), column));
            }
        }
        Ok((columns, self.file.frames()?))
    }
}

/// The directory `arrays/resolved/series/`.
#[derive(Debug)]
pub(crate) struct ResolvedSeries(pub Arc<Series>);

impl Dir for ResolvedSeries {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        self.0.table()?.rows.lookup(name)
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        self.0.table()?.rows.list(from, take)
    }

    fn is_slow(&self) -> bool {
        self.0.is_slow()
    }
}

impl Dir for Series {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        self.table()?.dir.lookup(name)
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        self.table()?.dir.list(from, take)
    }

    fn is_slow(&self) -> bool {
        locked_at_once(&self.table).is_none_or(|table| table.is_none())
    }
}

fn file_of(file: &Arc<GsdFile>, shown: &SeriesFile) -> File {
    let IndexEntry { n, m, kind, .. } = shown.chunks.first;
    let holder = file.clone();
    let chunks = shown.chunks.clone();
    File {
        renewal: Renewal::WhileSame(Signature::new(format!("series {kind} {n} {m} {}", shown.chunks.count))),
        attributes: Some(Arc::new(move || attributes(&holder, &chunks))),
        ..File::of(content(file, shown).map_err(|error| error.of(file.source.path())))
    }
}

fn file_of_rows(file: &Arc<GsdFile>, quantity: &LoggedQuantity) -> File {
    let renewal = Renewal::WhileSame(Signature::new(quantity.signature()));
    let content = quantity.array(file).map_err(|error| error.of(file.source.path()));
    File { renewal, ..File::of(content) }
}

fn content(file: &Arc<GsdFile>, shown: &SeriesFile) -> Result<Arc<dyn Content>> {
    let chunks = &shown.chunks;
    let of = if shown.is_frames {
        Of::Frames
    } else {
        let bytes = chunks.first.bytes();
        Of::Data(bytes.ok_or_else(|| Error::damaged("the chunks are larger than any file can be"))?)
    };
    let (datatype, shape) = match (shown.is_frames, chunks.first.element()) {
        (true, _) => (Datatype::Scalar(Scalar::Uint64), vec![chunks.count]),
        (false, Some(element)) => array_of(element, chunks),
        (false, None) => (Datatype::Scalar(Scalar::Uint8), vec![chunks.count, 0]),
    };
    let data = Gather::new(file.clone(), chunks.clone(), shown.spacing, of);
    npy::little_endian(datatype, shape, Arc::new(data))
}

/// Returns type and shape of a series: the number of its chunks, then the shape of a chunk. If each
/// chunk is one text, the texts are strings of their common length.
fn array_of(element: &Element, chunks: &NameChunks) -> (Datatype, Vec<u64>) {
    let IndexEntry { n, m, .. } = chunks.first;
    if element.is_text() && m == 1 && (1..=i32::MAX as u64).contains(&n) {
        return (Datatype::Scalar(Scalar::Ascii(n)), vec![chunks.count]);
    }
    let datatype = if element.is_text() { Datatype::Scalar(Scalar::Ascii(1)) } else { element.scalar.into() };
    let shape = std::iter::once(chunks.count).chain(chunks.first.shape());
    (datatype, shape.collect())
}

fn attributes(file: &GsdFile, chunks: &NameChunks) -> Attributes {
    let name = file.names().bytes(chunks.first.id).unwrap_or_default();
    let element = chunks.first.element().map_or("", |element| element.name);
    vec![
        ("user.gsd.name", String::from_utf8_lossy(name).into_owned()),
        ("user.gsd.type", element.to_owned()),
        ("user.gsd.N", chunks.first.n.to_string()),
        ("user.gsd.M", chunks.first.m.to_string()),
        ("user.gsd.frames", chunks.count.to_string()),
    ]
}
