//! A GSD file as a container.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use asdf_file::container::references::{self, RefsFile};
use asdf_file::container::{ArrayFacts, ArraySource, Block, Container, Defect, ElementType, Views};
use asdf_file::folder::{Attributes, Dir, File, Node};
use seekable::cache::Cache;
use seekable::content::{Content, Text, UnreadableText};
use seekable::error::{Error, Kind, Result, if_readable};
use seekable::source::{Source, SourceStat};

use super::arrays::Arrays;
use super::file::GsdFile;
use super::lineage::{self, Trace};
use super::refs::SeriesArrays;
use super::tables::Tables;
use super::{NAME, defect, facts, resolved, tree};

/// An open GSD file and its views.
#[derive(Debug)]
pub(super) struct Gsd {
    file: Arc<GsdFile>,
    arrays: Arc<Arrays>,
    refs: RefsFile<SeriesArrays>,
    tree: OnceLock<Text>,
    defects: OnceLock<Vec<Defect>>,
    /// The fingerprint of the frames; `None` if they can't be read.
    trace: Option<Trace>,
}

impl Gsd {
    pub(super) fn new(file: GsdFile, cache: &Arc<Cache>) -> Self {
        let file = Arc::new(file);
        let arrays = Arc::new(Arrays::new(&file));
        let trace = Trace::of(&file).ok();
        let series = SeriesArrays { file: file.clone(), series: arrays.series().clone() };
        let refs = RefsFile::new(series, cache);
        Self { file, arrays, refs, tree: OnceLock::new(), defects: OnceLock::new(), trace }
    }
}

impl Gsd {
    /// Returns the defects of header, names and a small index. Fails if the index can't be read now.
    fn defects_of_file(&self) -> Result<&Vec<Defect>> {
        if let Some(defects) = self.defects.get() {
            return Ok(defects);
        }
        let defects = defect::of_file(&self.file)?;
        Ok(self.defects.get_or_init(|| defects))
    }
}

impl Container for Gsd {
    fn format(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> String {
        self.file.header().version.to_string()
    }

    fn tree(&self) -> Arc<dyn Content> {
        self.tree_to_show().unwrap_or_else(|error| Arc::new(UnreadableText(error)))
    }

    fn tree_to_show(&self) -> Result<Arc<dyn Content>> {
        if let Some(text) = self.tree.get() {
            return Ok(Arc::new(text.clone()));
        }
        let text = Text::new(tree::text(&self.file)?);
        Ok(Arc::new(self.tree.get_or_init(|| text).clone()))
    }

    fn block_count(&self) -> Result<usize> {
        let used = self.file.index().used()?;
        usize::try_from(used).map_err(|_| Error::unsupported("the index has too many entries"))
    }

    fn block(&self, n: usize) -> Result<Block> {
        let missing = || Error::new(Kind::NotFound, format!("there is no block {n}"));
        let index = self.file.index();
        let used = if_readable(index.used())?.unwrap_or(0);
        let slot = u64::try_from(n).ok().filter(|slot| *slot < used);
        let entry = index.slot(slot.ok_or_else(missing)?)?;
        let data = entry.check(index.limits()).and_then(|()| self.file.data(&entry));
        if let Err(error) = &data
            && error.is_of_reading()
        {
            return Err(error.clone());
        }
        let wrong = |error: Error| error.at(index.offset(entry.slot)).in_block(n as u64);
        Ok(Block {
            facts: facts::facts(&self.file, &entry),
            content: data.map(|data| Arc::new(data) as Arc<dyn Content>).map_err(wrong),
            streamed: false,
        })
    }

    /// Passes the chunks of the first frame to `take`.
    fn each_array(&self, take: &mut dyn FnMut(ArrayFacts)) -> Result<()> {
        if self.file.frames()? == 0 {
            return Ok(());
        }
        for entry in self.file.entries_of(0)? {
            let (Some(path), Some(element)) = (self.file.names().path(entry.id), entry.element()) else {
                continue;
            };
            let Ok(block) = usize::try_from(entry.slot) else { continue };
            let path = path.join("/");
            let datatype = ElementType::Named(element.name.to_owned());
            take(ArrayFacts { path, datatype, shape: entry.shape(), source: ArraySource::Block(block) });
        }
        Ok(())
    }

    fn directory_of_arrays(&self) -> &'static str {
        "frames/0/"
    }

    fn attributes(&self) -> Attributes {
        vec![("user.gsd.format", NAME.to_owned()), ("user.gsd.version", self.version())]
    }

    fn still_has(&self, file: &Arc<dyn Source>) -> bool {
        let newer = || GsdFile::open(file.clone());
        self.trace
            .as_ref()
            .is_some_and(|trace| newer().is_ok_and(|newer| lineage::continues(&self.file, trace, &newer)))
    }

    fn carry_over_from(&self, older: &dyn Container) {
        if let Some(older) = (older as &dyn Any).downcast_ref::<Self>() {
            self.arrays.series().carry_over_from(older.arrays.series());
        }
    }

    fn check_tree(&self) -> Result<Vec<Defect>> {
        self.defects_of_file()?;
        self.arrays.series().check_readable()?;
        defect::of_index(&self.file)
    }

    fn defects(&self) -> Vec<Defect> {
        // `check_tree` reports an index that can't be read now.
        let mut found = self.defects_of_file().cloned().unwrap_or_default();
        found.extend(self.arrays.series().notes());
        found
    }

    fn source(&self) -> &Arc<dyn Source> {
        &self.file.source
    }

    fn source_stat(&self) -> SourceStat {
        self.file.stat()
    }
}

impl Views for Gsd {
    fn views(self: Arc<Self>) -> Result<Vec<(&'static str, Node)>> {
        let mut views = vec![("arrays", Node::Dir(self.arrays.clone() as Arc<dyn Dir>))];
        if resolved::applies(&self.file) {
            let tables = Tables::new(self.file.clone(), self.arrays.series().clone());
            views.push(("tables", Node::Dir(Arc::new(tables))));
        }
        Ok(views)
    }

    fn derived_files(&self) -> Result<Vec<&'static str>> {
        Ok(vec![references::NAME])
    }

    fn derived_file(self: Arc<Self>, name: &str) -> Result<Option<File>> {
        if name == references::NAME { self.refs.file().map(Some) } else { Ok(None) }
    }

    fn is_derived_slowly(&self, name: Option<&str>) -> bool {
        name == Some(references::NAME) && !self.refs.is_known()
    }
}
