//! `tables/`: the logged quantities of all frames as a table.

use std::ffi::OsStr;
use std::sync::Arc;

use asdf_file::folder::{Dir, EntryKind, File, Node, Renewal, Signature};
use seekable::content::Content;
use seekable::error::Result;

use super::file::GsdFile;
use super::series::Series;
use crate::parquet::ParquetTable;

/// The name of the table.
const LOG: &str = "log.parquet";

/// The directory `tables/`.
#[derive(Debug)]
pub(crate) struct Tables {
    file: Arc<GsdFile>,
    series: Arc<Series>,
}

impl Tables {
    /// Creates the tables of `file`, which has the HOOMD schema.
    pub(crate) fn new(file: Arc<GsdFile>, series: Arc<Series>) -> Self {
        Self { file, series }
    }

    fn log(&self) -> Result<Arc<dyn Content>> {
        let (columns, frames) = self.series.columns()?;
        Ok(Arc::new(ParquetTable::new(&columns, frames)?))
    }
}

impl Dir for Tables {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        if name != LOG {
            return Ok(None);
        }
        let content = self.log().map_err(|error| error.within(LOG).of(self.file.source.path()));
        let len = content.as_ref().map_or(0, |table| table.len());
        let signature = Signature::new(format!("log {} {len}", self.file.frames()?));
        let renewal = Renewal::WhileSame(signature);
        Ok(Some(Node::File(File { renewal, ..File::of(content) })))
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        if from == 0 {
            take(OsStr::new(LOG), EntryKind::File);
        }
        Ok(())
    }

    fn is_slow(&self) -> bool {
        self.series.is_slow()
    }
}
