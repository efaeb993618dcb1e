//! `arrays/series/`: the chunks of one name in all frames, as one array.
//!
//! A name has a series if its chunks have one type and shape; where they differ, `status.yaml` says so. Which names
//! have one is found by a pass over the index when a program first looks into the folder.

mod gather;
mod pass;

use std::ffi::OsStr;
use std::sync::{Arc, Mutex};

use super::defect::Defect;
use super::entry::{Element, Entry};
use super::file::GsdFile;
use super::index::SURVEYED;
use super::path_folder::{Item, Items, PathFolder};
use crate::content::folder::{Attributes, File, Folder, Keeping, Kind, Node, Renewal, Signature};
use crate::content::{Content, npy};
use crate::error::{Error, Result};
use crate::format;
use gather::{Gather, Of, locked};
use pass::{Chunks, Outcome, Pass};

/// The folder, and what is known of it.
#[derive(Debug)]
pub struct Series {
    file: Arc<GsdFile>,
    /// Made by the first program that looks into it; the others wait.
    table: Mutex<Option<Arc<Table>>>,
    /// The pass over an older version of the file, which this one goes on from.
    older: Mutex<Option<Pass>>,
}

/// What a pass found.
#[derive(Debug)]
struct Table {
    pass: Pass,
    folder: PathFolder<Shown>,
    notes: Vec<format::Defect>,
}

/// A file of the folder.
#[derive(Clone, Debug)]
struct Shown {
    chunks: Arc<Chunks>,
    spacing: u64,
    /// Whether it says which frames have a chunk.
    is_frames: bool,
}

impl Series {
    /// The series of a file.
    pub fn new(file: Arc<GsdFile>) -> Self {
        Self { file, table: Mutex::default(), older: Mutex::default() }
    }

    /// Takes over what is known of an older version of the file, of which all is in this one.
    pub fn go_on_from(&self, older: &Self) {
        let known = locked(&older.table).as_ref().map(|table| table.pass.clone());
        *locked(&self.older) = known.filter(Pass::is_sound).or_else(|| locked(&older.older).take());
    }

    /// Why names have no series, as far as is known: of a small index it is found out, of a large one only by a
    /// program that looks into the folder.
    pub fn notes(&self) -> Vec<format::Defect> {
        // While a pass is made nothing is known.
        let known = self.table.try_lock().map_or(None, |table| table.clone());
        let is_small = self.file.index().used().is_ok_and(|used| used <= SURVEYED);
        let table = if is_small { self.table().ok() } else { known };
        table.map_or_else(Vec::new, |table| table.notes.clone())
    }

    fn table(&self) -> Result<Arc<Table>> {
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

    fn table_of(&self, pass: Pass) -> Result<Table> {
        let (names, index, frames) = (self.file.names(), self.file.index(), self.file.frames()?);
        let (mut items, mut notes) = (Vec::new(), Vec::new());
        for (id, outcome) in pass.outcomes(&self.file) {
            // Of equal names the first one is shown.
            let name = names.bytes(id).filter(|name| names.id_of(name) == Some(id));
            let (Some(name), Some(path)) = (name, names.path(id)) else { continue };
            let chunks = match outcome {
                Outcome::Series(chunks) => Arc::new(chunks),
                Outcome::Differs(differs) => {
                    let why =
                        Defect::NoSeries { name: name.into(), first: differs.first, other: differs.other };
                    notes.push(why.at(index.offset(differs.other.slot), None));
                    continue;
                }
            };
            let stem = path.last().map_or("", String::as_str);
            let mut add = |ending: &str, is_frames| {
                let what = Shown { chunks: chunks.clone(), spacing: pass.spacing(), is_frames };
                items.push(Item { path: path.clone(), file: format!("{stem}{ending}"), what });
            };
            add(".npy", false);
            if chunks.count != frames {
                add(".frames.npy", true);
            }
        }
        let file = self.file.clone();
        let folder = PathFolder::new(&Items::new(items), move |shown| Ok(Node::File(file_of(&file, shown))));
        Ok(Table { pass, folder, notes })
    }
}

impl Folder for Series {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        self.table()?.folder.lookup(name)
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, Kind) -> bool) -> Result<()> {
        self.table()?.folder.list(from, take)
    }

    fn is_slow(&self) -> bool {
        self.table.try_lock().map_or(true, |table| table.is_none())
    }
}

fn file_of(file: &Arc<GsdFile>, shown: &Shown) -> File {
    let Entry { n, m, kind, .. } = shown.chunks.first;
    let (holder, chunks) = (file.clone(), shown.chunks.clone());
    File {
        content: content(file, shown).map_err(|error| error.of(file.source().path())),
        claimed: 0,
        grows: false,
        blocks: Vec::new(),
        renewal: Renewal::WhileSame(Signature::new(format!("series {kind} {n} {m} {}", shown.chunks.count))),
        keeping: Keeping::All,
        attributes: Some(Arc::new(move || attributes(&holder, &chunks))),
    }
}

fn content(file: &Arc<GsdFile>, shown: &Shown) -> Result<Arc<dyn Content>> {
    let chunks = &shown.chunks;
    let of = match shown.is_frames {
        true => Of::Frames,
        false => {
            let bytes = chunks.first.bytes();
            Of::Data(bytes.ok_or_else(|| Error::damaged("the chunks are larger than any file can be"))?)
        }
    };
    let (descr, shape) = match (shown.is_frames, chunks.first.element()) {
        (true, _) => ("'<u8'".to_owned(), vec![chunks.count]),
        (false, Some(element)) => array_of(element, chunks),
        (false, None) => ("'|u1'".to_owned(), vec![chunks.count, 0]),
    };
    let data = Gather::new(file.clone(), chunks.clone(), shown.spacing, of);
    npy::array(&descr, false, &shape, Arc::new(data))
}

/// Type and shape: the frames, and then the shape of each. Texts of one length are strings of that.
fn array_of(element: &Element, chunks: &Chunks) -> (String, Vec<u64>) {
    let Entry { n, m, .. } = chunks.first;
    if element.is_text() && m == 1 && (1..=i32::MAX as u64).contains(&n) {
        return (format!("'|S{n}'"), vec![chunks.count]);
    }
    let descr = if element.is_text() { "|S1" } else { element.descr };
    let shape = std::iter::once(chunks.count).chain(chunks.first.shape());
    (format!("'{descr}'"), shape.collect())
}

fn attributes(file: &GsdFile, chunks: &Chunks) -> Attributes {
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
