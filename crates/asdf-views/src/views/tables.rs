//! `tables/`: each table of the tree as a file `PATH.parquet`.
//!
//! | module | what it does |
//! |---|---|
//! | [`survey`] | collects the tables during the survey of the tree |
//! | [`search`] | finds the arrays in a column, and their metadata |
//! | [`spectrum`] | finds the columns of spectra and cubes |
//! | [`times`], [`instant`] | converts times to timestamps, where that is exact |
//! | [`meta`](mod@meta) | the `meta` of a table |
//! | [`columns`] | converts the elements of arrays to columns of a file |

use std::ffi::OsString;
use std::sync::Arc;

use asdf_file::asdf::arrays::surveyed;
use asdf_file::asdf::in_fits::FitsFile;
use asdf_file::asdf::ndarray::Datatype;
use asdf_file::asdf::view::{AsdfFile, Collector, Directory, View};
use asdf_file::container::Defect;
use asdf_file::folder::Node;
use asdf_file::folder::path_dir::{Item, Items, PathDir};
use asdf_file::folder::shared_path::SharedPath;
use seekable::error::Result;

mod columns;
mod instant;
mod meta;
mod search;
mod spectrum;
mod survey;
mod times;

use survey::{ENDING, FoundTables, TableEntry, TableFinder, is_wanted};

/// The directory `tables/`. The tree is searched when a program first looks into the directory.
#[derive(Debug)]
pub(crate) struct Tables;

impl View for Tables {
    fn name(&self) -> &'static str {
        "tables"
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        // The first lookup of a table with times reads the times.
        let is_slow = |file: &AsdfFile| file.computed.get().is_none_or(FoundTables::has_unread_times);
        Some(Directory { file: file.clone(), find: dir, is_slow }.node())
    }

    fn wants(&self, tag: &str) -> bool {
        is_wanted(tag)
    }

    fn collector(&self) -> Option<Box<dyn Collector>> {
        Some(Box::new(TableFinder::default()))
    }

    fn defects(&self, file: &AsdfFile) -> Vec<Defect> {
        file.computed.get().map_or_else(Vec::new, |found: &FoundTables| found.defects.clone())
    }
}

/// The tables of the tree, and those of the FITS file that it is in.
struct WithHdus(Items<TableEntry>);

/// Adds the binary tables of a FITS file as `hdus/NAME.parquet`.
fn with_hdus(found: &FoundTables, fits: &FitsFile) -> Items<TableEntry> {
    let mut items: Vec<Item<TableEntry>> = found.items.iter().cloned().collect();
    let dir = SharedPath::new(["hdus"]);
    for (number, hdu) in fits.hdus.iter().enumerate() {
        let Ok(Some(array)) = &hdu.array else { continue };
        let is_table = matches!(array.datatype, Datatype::Structured(_)) && !fits.is_asdf(number);
        if let Some(ndarray) = fits.as_ndarray(number).filter(|_| is_table) {
            let table = TableEntry::of_records(ndarray, &array.units);
            items.push(Item {
                dir: dir.clone(),
                file: format!("{}{ENDING}", fits.file_name(number)),
                what: table,
            });
        }
    }
    Items::new(items)
}

fn dir(file: &Arc<AsdfFile>) -> Result<PathDir<TableEntry>> {
    surveyed(file)?;
    let found = file.computed.get_or_compute(FoundTables::default);
    let items = match &file.fits {
        None => &found.items,
        Some(fits) => &file.computed.get_or_compute(|| WithHdus(with_hdus(found, fits))).0,
    };
    let file = file.clone();
    let make = move |entry: &TableEntry| {
        Ok(match entry {
            TableEntry::Table { columns, meta, statistics } => {
                Node::File(columns::file(&file, columns, meta.as_deref(), statistics))
            }
            TableEntry::Link(target) => Node::Link(OsString::from(&**target)),
        })
    };
    Ok(PathDir::new(items, make).with_links(|entry| matches!(entry, TableEntry::Link(_))))
}
