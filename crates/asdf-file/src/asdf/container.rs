//! An ASDF file as a container of the mount: its blocks, and its views by name.

use std::any::Any;
use std::sync::Arc;

use asdf_tree::product::FileSummary;
use asdf_tree::yaml::document::Document;
use seekable::content::Content;
use seekable::error::Result;
use seekable::source::{Source, SourceStat};

use super::head::NAME;
use super::view::{AsdfFile, View};
use super::{arrays, check, image_facts};
use crate::container::{
    ArrayFacts, ArrayPaths, Block, Container, Defect, FactValue, Footprint, Verified, Views,
};
use crate::folder::{Attributes, File, Node};

impl AsdfFile {
    /// Returns defects with their offsets in the file that users know.
    fn in_file(&self, mut defects: Vec<Defect>) -> Vec<Defect> {
        let start = self.source.start_in_file();
        for defect in &mut defects {
            defect.offset = defect.offset.saturating_add(start);
        }
        defects
    }

    /// Returns the views that are files.
    fn files(&self) -> impl Iterator<Item = &'static dyn View> {
        self.views.iter().copied().filter(|view| view.is_file())
    }
}

impl Container for AsdfFile {
    fn format(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> String {
        let version = self.head.version.clone();
        if self.fits.is_some() { version + " (in FITS)" } else { version }
    }

    fn tree(&self) -> Arc<dyn Content> {
        self.stored.tree()
    }

    fn document(&self) -> Result<Arc<Document>> {
        let kept = self.kept_document();
        let _room = kept.demand();
        let document = kept.get()?;
        kept.keep(&document);
        Ok(document)
    }

    fn is_slow(&self) -> bool {
        self.is_slow()
    }

    fn block_count(&self) -> Result<usize> {
        self.stored.block_count()
    }

    fn find_all_blocks(&self) -> Result<()> {
        self.blocks().map(drop)
    }

    fn block(&self, n: usize) -> Result<Block> {
        let mut block = self.stored.block(n)?;
        if self.fits.is_some() {
            let start = self.source.start_in_file();
            block.facts.offset = block.facts.offset.saturating_add(start);
            for fact in block.facts.groups.iter_mut().flatten().filter(|fact| fact.key() == "offset") {
                if let FactValue::Number(offset) = &mut fact.value {
                    *offset = offset.saturating_add(start);
                }
            }
        }
        Ok(block)
    }

    fn far_block(&self, n: usize) -> Result<Option<u64>> {
        self.stored.far_block(n)
    }

    fn block_before(&self, offset: u64) -> Result<Option<usize>> {
        // The ranges of views are positions in the FITS file, where the blocks are in an extension.
        if offset <= self.head.end || self.fits.is_some() {
            return Ok(None);
        }
        Ok(self.offsets()?.partition_point(|start| *start < offset).checked_sub(1))
    }

    fn still_has(&self, file: &Arc<dyn Source>) -> bool {
        self.has_only_grown(file)
    }

    fn expect_growth(&self) {
        self.stored.expect_growth();
    }

    fn carry_over_from(&self, older: &dyn Container) {
        if let Some(older) = (older as &dyn Any).downcast_ref::<Self>() {
            self.grow_on_from(older);
        }
    }

    fn verify(&self, n: usize) -> Result<Verified> {
        self.stored.verify(n)
    }

    fn arrays(&self) -> Result<Option<&ArrayPaths>> {
        Ok(Some(&arrays::surveyed(self)?.of_blocks))
    }

    fn knows_arrays(&self) -> bool {
        arrays::is_surveyed(self)
    }

    fn each_array(&self, take: &mut dyn FnMut(ArrayFacts)) -> Result<()> {
        arrays::each(self, take)
    }

    fn each_reference(&self, take: &mut dyn FnMut(String, &str)) -> Result<()> {
        arrays::each_reference(self, take)
    }

    fn footprints(self: Arc<Self>) -> Result<Vec<Footprint>> {
        let mut all = Vec::new();
        for view in self.views {
            all.extend(view.footprints(&self)?);
        }
        Ok(all)
    }

    fn displayed_image(&self) -> Result<Option<Vec<String>>> {
        self.files().find_map(|view| view.displayed(self).transpose()).transpose()
    }

    fn facts_of_image(&self, path: &[String]) -> Result<Option<FileSummary>> {
        Ok(Some(image_facts::of(self)?.of(path)))
    }

    fn attributes(&self) -> Attributes {
        vec![("user.asdf.format", NAME.to_owned()), ("user.asdf.version", self.version())]
    }

    fn mismatch(&self) -> &'static str {
        "its MD5 fits neither the stored nor the decoded data"
    }

    fn check_tree(&self) -> Result<Vec<Defect>> {
        // The search for arrays gets the same document.
        let document = self.document();
        let mut defects = check::tree(self, document.as_deref().map_err(Clone::clone))?;
        if let (Some(schemas), Ok(document)) = (&self.context.schemas, &document)
            && document.fault().is_none()
        {
            defects.extend(check::schemas(document, schemas));
        }
        for omission in &arrays::surveyed(self)?.defects {
            // A missing block is damage, and told once.
            if defects.iter().all(|defect| defect.offset != omission.offset) {
                defects.push(omission.clone());
            }
        }
        Ok(self.in_file(defects))
    }

    fn len_outside_blocks(&self) -> u64 {
        match &self.fits {
            Some(fits) => fits.len_to_check(),
            None => 0,
        }
    }

    fn check_outside_blocks(&self, count: &dyn Fn(u64)) -> Result<Vec<Defect>> {
        self.fits.as_ref().map_or(Ok(Vec::new()), |fits| fits.check(count))
    }

    fn is_editable(&self) -> bool {
        self.fits.is_none()
    }

    fn unchangeable(&self) -> String {
        "ASDF in FITS is read-only: change it with astropy.io.fits or stdatamodels".to_owned()
    }

    fn defects(&self) -> Vec<Defect> {
        let of_views = self.views.iter().flat_map(|view| view.defects(self));
        self.in_file(self.stored.defects().into_iter().chain(of_views).collect())
    }

    fn source(&self) -> &Arc<dyn Source> {
        self.fits.as_ref().map_or(&self.source, |fits| &fits.source)
    }

    fn source_stat(&self) -> SourceStat {
        self.fits.as_ref().map_or(self.source_stat, |fits| fits.stat)
    }
}

impl Views for AsdfFile {
    fn views(self: Arc<Self>) -> Result<Vec<(&'static str, Node)>> {
        let dirs = self.views.iter().filter(|view| !view.is_file());
        Ok(dirs.filter_map(|view| Some((view.name(), view.node(&self)?))).collect())
    }

    fn view(self: Arc<Self>, name: &str) -> Result<Option<Node>> {
        let view = self.views.iter().find(|view| !view.is_file() && view.name() == name);
        Ok(view.and_then(|view| view.node(&self)))
    }

    fn derived_files(&self) -> Result<Vec<&'static str>> {
        let mut names = Vec::new();
        for view in self.files() {
            if view.is_there(self)? {
                names.push(view.name());
            }
        }
        Ok(names)
    }

    fn derived_file(self: Arc<Self>, name: &str) -> Result<Option<File>> {
        let view = self.files().find(|view| view.name() == name);
        Ok(match view.and_then(|view| view.node(&self)) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        })
    }

    fn is_derived_slowly(&self, name: Option<&str>) -> bool {
        match name {
            None => self.files().any(|view| view.is_sought_slowly(self)),
            Some(name) => self.files().any(|view| view.name() == name && view.is_made_slowly(self)),
        }
    }

    fn find_omissions(&self, is_shown: &dyn Fn(&str) -> bool) {
        // A server is not asked: `status.yaml` must be readable if it does not answer.
        if is_shown(arrays::Arrays.name()) && !self.source.is_slow() {
            arrays::find_omissions(self);
        }
    }

    fn are_omissions_slow(&self) -> bool {
        !arrays::is_known(self)
    }

    fn refers_to_servers(&self) -> bool {
        arrays::surveyed(self).is_ok_and(|surveyed| arrays::refers_to_servers(self, surveyed))
    }
}
