//! `arrays/`: what can be typed.

use std::ffi::OsStr;
use std::sync::Arc;

use super::file::GsdFile;
use super::frames::Frames;
use crate::content::folder::{Folder, Kind, Node};
use crate::error::Result;

/// The folders in `arrays/`.
#[derive(Debug)]
pub struct Arrays {
    frames: Arc<Frames>,
}

/// The names of the folders.
const NAMES: [&str; 1] = ["frames"];

impl Arrays {
    /// Those of `file`.
    pub fn new(file: &Arc<GsdFile>) -> Self {
        Self { frames: Arc::new(Frames::new(file.clone())) }
    }
}

impl Folder for Arrays {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        let folder = match name.to_str() {
            Some("frames") => self.frames.folder()?,
            _ => return Ok(None),
        };
        Ok(Some(Node::Folder(folder)))
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, Kind) -> bool) -> Result<()> {
        for name in NAMES.iter().skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            if !take(OsStr::new(name), Kind::Folder) {
                break;
            }
        }
        Ok(())
    }
}
