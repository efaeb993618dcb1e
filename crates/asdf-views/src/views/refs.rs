//! `refs.json`: references to the chunks of the arrays, for zarr, xarray and Dask, which then read the file
//! without this program. `docs/scale.md` has the rules.

mod plan;

use std::path::Path;
use std::sync::Arc;

use asdf_file::array::zarr;
use asdf_file::asdf::arrays::{self, ArrayEntry};
use asdf_file::asdf::ndarray::Ndarray;
use asdf_file::asdf::view::{AsdfFile, View};
use asdf_file::container::references::{self, Left, Listed, ReferencedArrays, RefsText};
use asdf_file::folder::path_dir::{Item, Items};
use asdf_file::folder::{File, Node};
use asdf_file::generated::Measured;
use plan::Plan;
use seekable::error::Result;

/// Name extension of files in `arrays/`.
const ENDING: &str = ".npy";
const MASK_ENDING: &str = ".mask.npy";
/// Reason for which a mask is left out.
const IS_MASK: &str = "it is the mask of an array";

/// The view `refs.json`.
#[derive(Debug)]
pub(crate) struct Refs;

/// Result of measuring the text, kept in `AsdfFile::computed`.
struct RefsMeasured(Measured);

impl View for Refs {
    fn name(&self) -> &'static str {
        references::NAME
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        Some(Node::File(refs_file(file)))
    }

    fn is_made_slowly(&self, file: &AsdfFile) -> bool {
        file.computed.get::<RefsMeasured>().is_none()
    }
}

fn refs_file(file: &Arc<AsdfFile>) -> File {
    let text = RefsText(FileArrays(file.clone()));
    match file.computed.get_or_try_compute(|| Measured::of(&text).map(RefsMeasured)) {
        Ok(RefsMeasured(measured)) => measured.file(text, &file.context.cache),
        Err(error) => File::unreadable(error),
    }
}

/// The arrays of a file.
#[derive(Clone, Debug)]
struct FileArrays(Arc<AsdfFile>);

impl FileArrays {
    /// Returns the arrays. Those in other files are left out in any case, so no server is asked for them.
    fn items(&self) -> Result<&Items<ArrayEntry>> {
        Ok(&arrays::found_without_requests(&self.0)?.items)
    }

    /// Returns the chunks of an item.
    fn plan(&self, n: usize, item: &Item<ArrayEntry>) -> std::result::Result<Listed<Plan>, Left> {
        let array = match &item.what {
            ArrayEntry::Link(_) if item.file.ends_with(MASK_ENDING) => return Err(IS_MASK.into()),
            ArrayEntry::Link(target) => self.linked(n, target)?,
            _ => array_of(item)?,
        };
        let dir = item.dir.names().into_iter();
        let own = item.file.strip_suffix(ENDING).unwrap_or(&item.file);
        if !self.items()?.numbers_below(dir.chain([own])).is_empty() {
            return Err("a group has the same path".into());
        }
        Plan::of(&self.0, array, path_of(item)).map(Listed::Array)
    }

    /// Returns the array that item `n` links to.
    fn linked(&self, n: usize, target: &str) -> std::result::Result<&Arc<Ndarray>, Left> {
        let items = self.items()?;
        let behind = items.numbers_behind(n, target).next().and_then(|n| items.get(n));
        array_of(behind.filter(|_| target.ends_with(ENDING)).ok_or_else(|| no_array(target))?)
    }
}

impl ReferencedArrays for FileArrays {
    type Plan = Plan;

    fn source(&self) -> &Path {
        self.0.source.path()
    }

    fn array(&self, n: usize) -> Result<Option<Listed<Plan>>> {
        self.items()?.get(n).map(|item| self.plan(n, item).or_else(Left::result)).transpose()
    }

    fn path(&self, n: usize) -> Result<String> {
        Ok(self.items()?.get(n).map(path_of).unwrap_or_default().join("/"))
    }
}

/// Returns the array of an item.
fn array_of(item: &Item<ArrayEntry>) -> std::result::Result<&Arc<Ndarray>, Left> {
    match &item.what {
        ArrayEntry::Array(array) if !item.file.ends_with(MASK_ENDING) => Ok(array),
        ArrayEntry::Array(_) | ArrayEntry::Mask(_) => Err(IS_MASK.into()),
        ArrayEntry::Reference(..) | ArrayEntry::Unread(_) | ArrayEntry::Pending(..) => {
            Err("it is in another file".into())
        }
        ArrayEntry::Link(target) => Err(no_array(target)),
    }
}

fn no_array(target: &str) -> Left {
    Left::Out(format!("it leads to {target}, which is not an array").into())
}

/// Returns the names of the groups that contain an item, then the name of the item.
fn path_of(item: &Item<ArrayEntry>) -> Vec<String> {
    let mut path: Vec<String> = item.components().map(zarr::name).collect();
    if let Some(last) = path.last_mut()
        && let Some(len) = last.strip_suffix(ENDING).map(str::len)
    {
        last.truncate(len);
        // Without the ending, the name may be one that Zarr reserves, so it is escaped again.
        *last = zarr::name(last);
    }
    path
}

#[cfg(test)]
mod tests;
