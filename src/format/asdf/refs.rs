//! `refs.json`: references to the chunks of the arrays, for zarr, xarray and Dask, which then read the file
//! without this program. `docs/scale.md` has the rules.

mod plan;

use std::borrow::Cow;
use std::sync::Arc;

use super::arrays::{self, ArrayEntry};
use super::view::{AsdfFile, View};
use crate::content::Text;
use crate::content::folder::{File, Keeping, Node, Renewal, Signature};
use crate::content::path_folder::Item;
use crate::content::zarr::{self, References};
use crate::decode::generated::{Generated, Generator, Measured};
use crate::error::Result;
use plan::Plan;

/// Maximal number of chunks of all arrays.
const MOST_CHUNKS: u64 = 1 << 22;
/// Bytes that are generated at a time.
const PIECE: usize = 64 << 10;
/// Name extension of files in `arrays/`.
const ENDING: &str = ".npy";
const MASK_ENDING: &str = ".mask.npy";

/// The view.
#[derive(Debug)]
pub(super) struct Refs;

/// Result of measuring the text, kept in `AsdfFile::computed`.
struct RefsMeasured(Result<Measured>);

impl View for Refs {
    fn name(&self) -> &'static str {
        "refs.json"
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        Some(Node::File(refs_file(file)))
    }

    fn is_made_slowly(&self, file: &AsdfFile) -> bool {
        file.computed.get::<RefsMeasured>().is_none()
    }
}

fn refs_file(file: &Arc<AsdfFile>) -> File {
    let text = RefsText(file.clone());
    let RefsMeasured(measured) = file.computed.get_or_compute(|| RefsMeasured(Measured::of(&text)));
    match measured {
        Ok(measured) => {
            let signature = Signature::new(format!("{} {:x}", measured.len, measured.hash));
            let content = measured.content(text, &file.context.cache);
            File { renewal: Renewal::WhileSame(signature), ..File::new(content, Keeping::All) }
        }
        Err(error) => {
            File { content: Err(error.clone()), ..File::new(Arc::new(Text::default()), Keeping::Nothing) }
        }
    }
}

/// The text of a file's references.
#[derive(Debug)]
struct RefsText(Arc<AsdfFile>);

impl Generated for RefsText {
    fn generator(&self) -> Result<Box<dyn Generator>> {
        Ok(Box::new(RefsGenerator {
            file: self.0.clone(),
            at: At::Start,
            references: References::default(),
            left_out: Vec::new(),
            chunks: 0,
        }))
    }
}

/// Generates the text: arrays first, then the arrays that are left out.
struct RefsGenerator {
    file: Arc<AsdfFile>,
    at: At,
    references: References,
    /// The numbers of items that are left out, with the reasons.
    left_out: Vec<(usize, Cow<'static, str>)>,
    /// Number of chunks so far.
    chunks: u64,
}

/// The next part of the text.
enum At {
    Start,
    Item(usize),
    /// A chunk of an array, and the number of the array's item.
    Chunk(Box<Plan>, u64, usize),
    LeftOut(usize),
    /// The consolidated metadata of a group.
    Group(usize),
}

impl Generator for RefsGenerator {
    fn more(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        while out.len() < PIECE {
            if !self.step(out)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn weight(&self) -> u64 {
        let parts = if let At::Chunk(plan, ..) = &self.at { plan.weight() } else { 0 };
        (256 << 10) + 64 * self.left_out.len() as u64 + parts + self.references.weight()
    }
}

impl RefsGenerator {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        self.at = match std::mem::replace(&mut self.at, At::Start) {
            At::Start => {
                References::begin(&zarr::url(self.file.source.path())?, out);
                At::Item(0)
            }
            At::Item(n) => self.item(n, out)?,
            At::Chunk(plan, chunk, n) => match plan.range(chunk) {
                Some(range) => {
                    References::chunk(&plan.array, chunk, range, out);
                    At::Chunk(plan, chunk + 1, n)
                }
                None => At::Item(n + 1),
            },
            At::LeftOut(n) => match self.left_out.get(n) {
                Some((item, why)) => {
                    let items = &arrays::found(&self.file).items;
                    let path = items.get(*item).map(path_of).unwrap_or_default().join("/");
                    self.references.left_out(&path, why, out);
                    At::LeftOut(n + 1)
                }
                None => {
                    self.references.end_left_out(out);
                    At::Group(0)
                }
            },
            At::Group(n) if self.references.consolidated(n, out) => At::Group(n + 1),
            At::Group(_) => {
                References::end(out);
                return Ok(false);
            }
        };
        Ok(true)
    }

    fn item(&mut self, n: usize, out: &mut Vec<u8>) -> Result<At> {
        let file = self.file.clone();
        let Some(item) = arrays::found(&file).items.get(n) else { return Ok(At::LeftOut(0)) };
        Ok(match self.plan(item)? {
            Ok(plan) => {
                self.references.array(&plan.array, out);
                At::Chunk(Box::new(plan), 0, n)
            }
            Err(why) => {
                self.left_out.push((n, why));
                At::Item(n + 1)
            }
        })
    }

    /// Returns the chunks of an item, or the reason why it is left out.
    fn plan(&mut self, item: &Item<ArrayEntry>) -> Result<std::result::Result<Plan, Cow<'static, str>>> {
        let array = match &item.what {
            ArrayEntry::Array(array) if !item.file.ends_with(MASK_ENDING) => array,
            ArrayEntry::Array(_) | ArrayEntry::Mask(_) => {
                return Ok(Err("it is the mask of an array".into()));
            }
            ArrayEntry::Reference(..) => return Ok(Err("it is in another file".into())),
            ArrayEntry::Link(target) => {
                let target = target.strip_suffix(ENDING).unwrap_or(target);
                return Ok(Err(format!("it is an alias of, or a reference to, {target}").into()));
            }
        };
        let path = path_of(item);
        let folder = item.folder.names().into_iter();
        let own = item.file.strip_suffix(ENDING).unwrap_or(&item.file);
        if !arrays::found(&self.file).items.numbers_below(folder.chain([own])).is_empty() {
            return Ok(Err("a group has the same path".into()));
        }
        match Plan::of(&self.file, array, path) {
            Ok(plan) if self.chunks.saturating_add(plan.count()) > MOST_CHUNKS => {
                Ok(Err(format!("the file has more than {MOST_CHUNKS} chunks").into()))
            }
            Ok(plan) => {
                self.chunks += plan.count();
                Ok(Ok(plan))
            }
            Err(plan::Left::Out(why)) => Ok(Err(why)),
            Err(plan::Left::Unknown(error)) => Err(error),
        }
    }
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
