//! `arrays/`: the typed arrays of the file.

use std::ffi::OsStr;
use std::sync::Arc;

use asdf_file::folder::{Dir, EntryKind, Node};
use seekable::error::Result;

use super::file::GsdFile;
use super::frames::Frames;
use super::resolved;
use super::series::{ResolvedSeries, Series};

/// The directories in `arrays/`.
#[derive(Debug)]
pub(crate) struct Arrays {
    file: Arc<GsdFile>,
    frames: Arc<Frames>,
    series: Arc<Series>,
}

/// The names of the directories. The last one exists only if the file has the HOOMD schema.
const NAMES: [&str; 3] = ["frames", "series", "resolved"];

impl Arrays {
    /// Creates the directories of `file`.
    pub(crate) fn new(file: &Arc<GsdFile>) -> Self {
        let frames = Frames::new(file.clone());
        let series = Series::new(file.clone());
        Self { file: file.clone(), frames: Arc::new(frames), series: Arc::new(series) }
    }

    /// Returns the directory of series.
    pub(crate) fn series(&self) -> &Arc<Series> {
        &self.series
    }

    fn names(&self) -> &[&str] {
        if resolved::applies(&self.file) { &NAMES } else { &NAMES[..2] }
    }
}

impl Dir for Arrays {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        let dir = match name.to_str().filter(|name| self.names().contains(name)) {
            Some("frames") => self.frames.dir()?,
            Some("series") => self.series.clone(),
            Some("resolved") => resolved::dir(&self.file, Arc::new(ResolvedSeries(self.series.clone())))?,
            _ => return Ok(None),
        };
        Ok(Some(Node::Dir(dir)))
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        for name in self.names().iter().skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            if !take(OsStr::new(name), EntryKind::Dir) {
                break;
            }
        }
        Ok(())
    }
}
