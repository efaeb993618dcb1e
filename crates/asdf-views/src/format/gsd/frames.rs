//! `arrays/frames/`: each frame as a directory of the chunks that it stores.
//!
//! A frame's name is its number without leading zeros. A chunk's name is its path. No state is kept per
//! frame: its entries are found by bisection when a program looks into it. The most recently used frames are
//! cached in bounded memory.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex};

use asdf_file::folder::shared_path::SharedPath;
use asdf_file::folder::{Dir, EntryKind, Node};
use lru::LruCache;
use seekable::error::Result;
use seekable::sync::locked;

use super::chunk;
use super::entry::IndexEntry;
use super::file::GsdFile;
use super::path_dir::{CountedDir, Item, Items, PathDir};

/// Maximum number of chunks in cached frames. The most recent frame is always kept.
const KEPT: usize = 1 << 15;

/// The frames of a file.
#[derive(Debug)]
pub(crate) struct Frames {
    file: Arc<GsdFile>,
    kept: Mutex<(LruCache<u64, Items<IndexEntry>>, usize)>,
}

impl Frames {
    /// Creates the frames of `file`.
    pub(crate) fn new(file: Arc<GsdFile>) -> Self {
        Self { file, kept: Mutex::new((LruCache::unbounded(), 0)) }
    }

    /// Returns the directory of all frames.
    pub(crate) fn dir(self: &Arc<Self>) -> Result<Arc<dyn Dir>> {
        let frames = self.clone();
        let dir = move |number| Ok(Node::Dir(Arc::new(Frame { frames: frames.clone(), number })));
        Ok(Arc::new(CountedDir::new(self.file.frames()?, dir)))
    }

    fn items(&self, frame: u64) -> Result<Items<IndexEntry>> {
        let kept = || locked(&self.kept);
        if let Some(items) = kept().0.get(&frame) {
            return Ok(items.clone());
        }
        let items = self.read(frame)?;
        let mut guard = kept();
        let (frames, total) = &mut *guard;
        // An empty frame needs memory, too.
        let weight = |items: &Items<IndexEntry>| items.len() + 1;
        *total += weight(&items);
        if let Some(replaced) = frames.put(frame, items.clone()) {
            *total -= weight(&replaced);
        }
        // The most recent frame is kept whatever its size: a listing looks into it many times.
        while *total > KEPT
            && frames.len() > 1
            && let Some((_, dropped)) = frames.pop_lru()
        {
            *total -= weight(&dropped);
        }
        Ok(items)
    }

    /// Reads the chunks of a frame. If several have the same name, the last one has the plain name. The
    /// others are called `NAME~1`, `NAME~2` in the order of writing.
    fn read(&self, frame: u64) -> Result<Items<IndexEntry>> {
        let mut entries = self.file.entries_of(frame)?;
        let names = self.file.names();
        entries.sort_by(|one, other| {
            let order = names.bytes(one.id).cmp(&names.bytes(other.id));
            order.then_with(|| self.file.written(one).cmp(&self.file.written(other)))
        });
        let mut items = Vec::with_capacity(entries.len());
        let mut copy = 0;
        for (at, entry) in entries.iter().enumerate() {
            let name = names.bytes(entry.id);
            let is_last = entries.get(at + 1).is_none_or(|next| names.bytes(next.id) != name);
            copy = if is_last { 0 } else { copy + 1 };
            let Some((stem, dir)) = names.path(entry.id).and_then(|path| path.split_last()) else {
                continue;
            };
            let number = if is_last { String::new() } else { format!("~{copy}") };
            let file = format!("{stem}{number}{}", chunk::ending(entry));
            let dir = SharedPath::new(dir.iter().map(String::as_str));
            items.push(Item { dir, file, what: *entry });
        }
        Ok(Items::new(items))
    }
}

/// The directory of a frame, which costs nothing until a program looks into it.
#[derive(Debug)]
struct Frame {
    frames: Arc<Frames>,
    number: u64,
}

impl Frame {
    fn open(&self) -> Result<PathDir<IndexEntry>> {
        let file = self.frames.file.clone();
        let items = self.frames.items(self.number)?;
        Ok(PathDir::new(&items, move |entry| Ok(Node::File(chunk::file(&file, entry)))))
    }
}

impl Dir for Frame {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        self.open()?.lookup(name)
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        self.open()?.list(from, take)
    }
}
