//! `arrays/resolved/`: each frame with all quantities of the HOOMD schema, as `gsd.hoomd` returns them.
//!
//! A quantity that a frame does not store is taken from frame 0, or is a default ([`schema`]). Its file
//! shares the data of frame 0, or is generated on read. The names of types are an array of strings
//! (`types.npy`) and a text with one name per line (`types.txt`). The shapes of types are a JSON array.

mod value;

use std::ffi::OsStr;
use std::sync::Arc;

use asdf_file::folder::shared_path::SharedPath;
use asdf_file::folder::{Attributes, Dir, EntryKind, File, Node, Renewal, Signature};
use seekable::error::{Error, Result};

use super::entry::IndexEntry;
use super::file::GsdFile;
use super::path_dir::{CountedDir, Item, Items, PathDir};
use super::schema::{self, GROUPS, Group, Quantity, Rule};
use super::{chunk, facts};

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueOrigin {
    /// A chunk of the frame itself, or of frame 0.
    Chunk(IndexEntry),
    /// The default, repeated for this number of rows.
    Default(u64),
}

/// A frame of the file.
#[derive(Clone, Debug)]
struct Frame {
    file: Arc<GsdFile>,
    number: u64,
}

/// A directory with the quantities of one group in a frame.
#[derive(Debug)]
struct FrameGroup {
    frame: Frame,
    group: &'static Group,
}

/// True if a file has a known version of the HOOMD schema.
pub(crate) fn applies(file: &GsdFile) -> bool {
    let header = file.header();
    header.schema == schema::NAME && schema::is_known(header.schema_version)
}

/// Returns the number that a chunk `…/N` holds.
pub(super) fn count(file: &GsdFile, entry: &IndexEntry) -> Result<u64> {
    value::count(file, entry)
}

/// The directory of frames, followed by `series/` with one row per frame.
#[derive(Debug)]
struct Resolved {
    frames: Arc<dyn Dir>,
    count: u64,
    series: Arc<dyn Dir>,
}

const SERIES: &str = "series";

/// Returns the directory of all frames and of `series/`.
pub(crate) fn dir(file: &Arc<GsdFile>, series: Arc<dyn Dir>) -> Result<Arc<dyn Dir>> {
    let holder = file.clone();
    let frame = move |number| Ok(Node::Dir(Arc::new(Frame { file: holder.clone(), number }) as Arc<dyn Dir>));
    let count = file.frames()?;
    Ok(Arc::new(Resolved { frames: Arc::new(CountedDir::new(count, frame)), count, series }))
}

impl Dir for Resolved {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        if name == SERIES { Ok(Some(Node::Dir(self.series.clone()))) } else { self.frames.lookup(name) }
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        let mut goes_on = true;
        self.frames.list(from, &mut |name, kind| {
            goes_on = take(name, kind);
            goes_on
        })?;
        if goes_on && from <= self.count {
            take(OsStr::new(SERIES), EntryKind::Dir);
        }
        Ok(())
    }
}

impl Frame {
    /// Returns the chunk `group/name` of a frame.
    fn chunk(&self, frame: u64, group: &str, name: &str) -> Result<Option<IndexEntry>> {
        match self.file.names().id_of(format!("{group}/{name}").as_bytes()) {
            Some(id) => self.file.find(frame, id),
            None => Ok(None),
        }
    }

    /// Returns the number of rows that the quantities of a group have in a frame.
    fn rows(&self, frame: u64, group: &str) -> Result<u64> {
        let own = self.chunk(frame, group, "N")?;
        match own.map_or_else(|| self.chunk(0, group, "N"), |own| Ok(Some(own)))? {
            Some(entry) => {
                value::count(&self.file, &entry).map_err(|error| error.within(format!("{group}/N")))
            }
            None => Ok(0),
        }
    }

    /// Finds the origin of a quantity's value.
    fn find(&self, group: &str, quantity: &Quantity) -> Result<ValueOrigin> {
        if let Some(own) = self.chunk(self.number, group, quantity.name)? {
            return Ok(ValueOrigin::Chunk(own));
        }
        let rows = match quantity.rule {
            Rule::Rows => self.rows(self.number, group)?,
            _ => 1,
        };
        let is_lent = quantity.rule != Rule::Rows || self.rows(0, group)? == rows;
        let of_first = if is_lent { self.chunk(0, group, quantity.name)? } else { None };
        Ok(of_first.map_or(ValueOrigin::Default(rows), ValueOrigin::Chunk))
    }

    /// Returns the chunks with user-defined names: those of the frame, and those under `log/` in frame 0
    /// that the frame lacks.
    fn free(&self) -> Result<PathDir<IndexEntry>> {
        let names = self.file.names();
        let groups = schema::free_groups(self.file.header().schema_version);
        let is_free = |entry: &IndexEntry| {
            let name = names.bytes(entry.id).filter(|name| names.id_of(name) == Some(entry.id));
            let rest = |group: &str| name?.strip_prefix(group.as_bytes())?.strip_prefix(b"/");
            let is_there = |group: &str| entry.frame == self.number || group == schema::INHERITED_GROUP;
            groups.iter().any(|group| is_there(group) && rest(group).is_some())
        };
        let mut entries = self.file.entries_of(self.number)?;
        if self.number > 0 {
            entries.extend(self.file.entries_of(0)?);
        }
        entries.retain(is_free);
        // For each name, the frame's own chunks sort before those of frame 0, and newer chunks before older.
        entries.sort_by(|one, other| {
            let written = || self.file.written(other).cmp(&self.file.written(one));
            one.id.cmp(&other.id).then_with(|| other.frame.cmp(&one.frame)).then_with(written)
        });
        entries.dedup_by_key(|entry| entry.id);
        let item = |entry: IndexEntry| {
            let (stem, dir) = names.path(entry.id)?.split_last()?;
            let file = format!("{stem}{}", chunk::ending(&entry));
            let dir = SharedPath::new(dir.iter().map(String::as_str));
            Some(Item { dir, file, what: entry })
        };
        let items = Items::new(entries.into_iter().filter_map(item).collect());
        let frame = self.clone();
        Ok(PathDir::new(&items, move |entry| {
            let attributes = frame.attributes(ValueOrigin::Chunk(*entry));
            Ok(Node::File(File { attributes: Some(attributes), ..chunk::file(&frame.file, entry) }))
        }))
    }

    /// Returns the attributes of a chunk, and the origin of the value.
    fn attributes(&self, found: ValueOrigin) -> Arc<dyn Fn() -> Attributes + Send + Sync> {
        let file = self.file.clone();
        let number = self.number;
        Arc::new(move || match found {
            ValueOrigin::Chunk(entry) => {
                let from = if entry.frame == number { "frame" } else { "frame 0" };
                let mut attributes = facts::attributes(&file, &entry);
                attributes.push(("user.gsd.resolved_from", from.to_owned()));
                attributes
            }
            ValueOrigin::Default(_) => vec![("user.gsd.resolved_from", "default".to_owned())],
        })
    }
}

impl Dir for Frame {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        match GROUPS.iter().find(|group| name == group.name) {
            Some(group) => Ok(Some(Node::Dir(Arc::new(FrameGroup { frame: self.clone(), group })))),
            None => self.free()?.lookup(name),
        }
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        let count = GROUPS.len() as u64;
        for group in GROUPS.iter().skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            if !take(OsStr::new(group.name), EntryKind::Dir) {
                return Ok(());
            }
        }
        self.free()?.list(from.saturating_sub(count), take)
    }
}

/// Returns the file name extensions of a quantity's files.
fn endings(rule: Rule) -> &'static [&'static str] {
    match rule {
        Rule::Number | Rule::WholeChunk | Rule::Rows => &[".npy"],
        Rule::Types => &[".npy", ".txt"],
        Rule::Shapes => &[".json"],
    }
}

impl FrameGroup {
    fn files(&self) -> impl Iterator<Item = (&'static Quantity, &'static str)> {
        let of = |quantity: &'static Quantity| {
            endings(quantity.rule).iter().map(move |ending| (quantity, *ending))
        };
        self.group.quantities.iter().flat_map(of)
    }

    fn file(&self, quantity: &Quantity, ending: &str) -> File {
        let frame = &self.frame;
        let found = frame.find(self.group.name, quantity);
        let content = found.clone().and_then(|found| value::content(&frame.file, quantity, found, ending));
        let name = format!("frame {}: {}/{}", frame.number, self.group.name, quantity.name);
        let of_file = |error: Error| error.within(&name).of(frame.file.source.path());
        let same = match &found {
            Ok(ValueOrigin::Chunk(entry)) => chunk::signature(&frame.file, entry),
            Ok(ValueOrigin::Default(rows)) => format!("default {rows}"),
            Err(_) => "wrong".to_owned(),
        };
        File {
            renewal: Renewal::WhileSame(Signature::new(same)),
            attributes: found.ok().map(|found| frame.attributes(found)),
            ..File::of(content.map_err(of_file))
        }
    }
}

impl Dir for FrameGroup {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        let mut files = self.files();
        let found =
            files.find(|(quantity, ending)| name == OsStr::new(&format!("{}{ending}", quantity.name)));
        Ok(found.map(|(quantity, ending)| Node::File(self.file(quantity, ending))))
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        for (quantity, ending) in self.files().skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            if !take(OsStr::new(&format!("{}{ending}", quantity.name)), EntryKind::File) {
                break;
            }
        }
        Ok(())
    }
}
