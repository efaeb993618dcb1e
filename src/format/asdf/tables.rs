//! `tables/`: each table of the tree as a file `PATH.parquet`.
//!
//! | module | what it does |
//! |---|---|
//! | [`survey`] | collects the tables during the survey of the tree |
//! | [`search`] | finds the arrays in a column, and their metadata |
//! | [`spectrum`] | finds the columns of spectra and cubes |
//! | [`times`], [`instant`] | converts times to timestamps, where that is exact |
//! | [`columns`] | converts the elements of arrays to columns of a file |

use std::ffi::OsString;
use std::sync::Arc;

use super::arrays::surveyed;
use super::view::{AsdfFile, Collector, Directory, View};
use crate::content::dir::Node;
use crate::content::path_dir::PathDir;
use crate::error::Result;
use crate::format::Defect;

mod columns;
mod instant;
mod search;
mod spectrum;
mod survey;
mod times;

use survey::{FoundTables, TableEntry, TableFinder, is_wanted};

/// The directory `tables/`. The tree is searched when a program first looks into the directory.
#[derive(Debug)]
pub(super) struct Tables;

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

fn dir(file: &Arc<AsdfFile>) -> Result<PathDir<TableEntry>> {
    surveyed(file)?;
    let items = &file.computed.get_or_compute(FoundTables::default).items;
    let file = file.clone();
    let make = move |entry: &TableEntry| {
        Ok(match entry {
            TableEntry::Table { columns, statistics } => {
                Node::File(columns::file(&file, columns, statistics))
            }
            TableEntry::Link(target) => Node::Link(OsString::from(&**target)),
        })
    };
    Ok(PathDir::new(items, make).with_links(|entry| matches!(entry, TableEntry::Link(_))))
}
