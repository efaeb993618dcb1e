//! Collects the tables during the survey of the tree.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use asdf_file::asdf::arrays::{IMAGES, NodePaths};
use asdf_file::asdf::computed::Computed;
use asdf_file::asdf::ndarray::{self, Datatype, Ndarray};
use asdf_file::asdf::units;
use asdf_file::asdf::view::{Collector, Surveyed, Unfit};
use asdf_file::container::{Defect, Severity};
use asdf_file::folder::names::ViewNames;
use asdf_file::folder::path_dir::{Item, Items};
use asdf_file::folder::path_tree::{Id, PathTree};
use asdf_tree::limits::{MAX_DESCRIBED, MAX_ELEMENT, MAX_MADE, MAX_NOTES};
use asdf_tree::yaml::event::Mark;
use asdf_tree::yaml::survey::{Alias, PathId, Paths, Step, TreeNode, WantedNode};

use super::meta;
use super::search::{Source, arrays_in, is_column, is_time};
use super::spectrum::{columns_in, is_spectrum};
use crate::parquet::{Facts, SharedStatistics};

const TOO_LONG: &str = "one of its rows is longer than 8 MiB";

pub(super) const ENDING: &str = ".parquet";
/// The file of a table that is the root of the tree, and the link to it.
const ROOT: &str = "%-.parquet";
const NAME_OF_ROOT: &str = "tree.parquet";
const NAMES: ViewNames = ViewNames { endings: &[ENDING, ".npy", ".mask"] };

/// An entry of `tables/`.
#[derive(Clone, Debug)]
pub(super) enum TableEntry {
    /// A table.
    Table {
        columns: Box<[Source]>,
        /// The `meta` of the table as YAML on one line, if it has one.
        meta: Option<Arc<str>>,
        /// The statistics of its columns, once a program has asked for them.
        statistics: SharedStatistics,
    },
    /// A symbolic link with this target.
    Link(Box<str>),
}

impl TableEntry {
    /// Returns the table of a structured array; `units` are those of its fields.
    pub(super) fn of_records(array: Ndarray, units: &[Option<String>]) -> Self {
        let fact = |unit: &Option<String>| unit.iter().map(|unit| ("unit", unit.clone())).collect();
        let source = Source {
            name: String::new(),
            array: Arc::new(array),
            mask: None,
            facts: Facts::new(),
            facts_of_fields: units.iter().map(fact).collect(),
            times: None,
        };
        Self::Table { columns: Box::new([source]), meta: None, statistics: SharedStatistics::default() }
    }
}

/// The tables of a tree.
#[derive(Debug, Default)]
pub(super) struct FoundTables {
    pub items: Items<TableEntry>,
    /// Notes on omitted tables.
    pub defects: Vec<Defect>,
    /// Number of columns of times that have not been read.
    unread_times: AtomicUsize,
}

impl FoundTables {
    fn new(items: Vec<Item<TableEntry>>, defects: Vec<Defect>) -> Self {
        let times_in = |item: &Item<TableEntry>| match &item.what {
            TableEntry::Table { columns, .. } => {
                columns.iter().filter(|column| column.times.is_some()).count()
            }
            TableEntry::Link(_) => 0,
        };
        let unread_times = AtomicUsize::new(items.iter().map(times_in).sum());
        Self { items: Items::new(items), defects, unread_times }
    }

    /// True if looking up a table may have to read its times.
    pub(super) fn has_unread_times(&self) -> bool {
        self.unread_times.load(Ordering::Relaxed) > 0
    }

    /// Notes that the times of a column have been read.
    pub(super) fn has_read_times(&self) {
        self.unread_times.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tag prefixes of tables.
const TABLES: [&str; 3] = [
    "tag:stsci.edu:asdf/core/table-1.",
    "tag:stsci.edu:asdf/table/table-1.",
    "tag:astropy.org:astropy/table/table-1.",
];

fn is_table(tag: &str) -> bool {
    TABLES.iter().any(|known| tag.starts_with(known)) || tag == "tag:stsci.edu:asdf/0.1.0/core/table"
}

/// True for the tags of tables, and of everything that a column may be made of.
pub(super) fn is_wanted(tag: &str) -> bool {
    let is_of_column = is_column(tag) || units::is_quantity(tag) || is_time(tag);
    ndarray::is_tag(tag) || is_table(tag) || is_spectrum(tag) || is_of_column
}

/// A table in the tree.
struct FoundTable {
    path: Option<PathId>,
    columns: Vec<Source>,
    /// See [`TableEntry::Table`].
    meta: Option<Arc<str>>,
}

/// A collector of the tables of a tree.
#[derive(Default)]
pub(super) struct TableFinder {
    columns: usize,
    /// Size of the metadata of all columns so far, in bytes.
    metadata: usize,
    /// True if there are too many columns.
    is_full: bool,
    /// Tables with a tag, and structured arrays.
    tables: Vec<FoundTable>,
    /// Paths of nodes in which tables are not searched for.
    closed: HashSet<Option<PathId>>,
    /// Columns in a mapping, by the path of the mapping, each with its offset in the text.
    mappings: HashMap<Option<PathId>, Vec<(u64, Source)>>,
    defects: Vec<Defect>,
}

impl Collector for TableFinder {
    fn on_node(&mut self, paths: &Paths, node: &WantedNode<'_>, unfit: Unfit<'_>) {
        let Some(tag) = node.tag else { return };
        if self.columns >= MAX_DESCRIBED {
            if !std::mem::replace(&mut self.is_full, true) {
                let what =
                    format!("tables/ leaves out what follows: there are more than {MAX_DESCRIBED} columns");
                self.leave_out(node.value.place, what);
            }
            return;
        }
        if is_table(tag) {
            self.closed.insert(node.path);
            let columns = self.columns_of(paths, node, unfit);
            self.columns += columns.len();
            let meta = node.value.get("meta").and_then(meta::yaml).filter(|meta| {
                self.metadata += meta.len();
                self.metadata <= MAX_MADE
            });
            self.tables.push(FoundTable { path: node.path, columns, meta: meta.map(Arc::from) });
            return;
        }
        if is_spectrum(tag) {
            let columns = self.columns_of_spectrum(tag, node.value, unfit);
            self.columns += columns.len();
            if !columns.is_empty() {
                self.closed.insert(node.path);
                self.tables.push(FoundTable { path: node.path, columns, meta: None });
            }
            return;
        }
        let mut arrays = arrays_in(node.value);
        let [(_, source)] = &mut arrays[..] else { return };
        if ndarray::is_tag(tag) && is_records(&source.array) {
            self.columns += 1;
            // `arrays/` reports arrays that can't be read.
            if lost(source, unfit).is_none() {
                self.tables.push(FoundTable { path: node.path, columns: vec![source.clone()], meta: None });
            }
        }
        if node.plain
            && let Some((parent, Step::Key(key))) = paths.last(node.path)
        {
            source.name = key.to_string();
            self.columns += 1;
            let offset = node.value.place.offset;
            let source = self.bounded(source.clone());
            self.mappings.entry(parent).or_default().push((offset, source));
        }
    }

    fn end(self: Box<Self>, surveyed: Option<&Surveyed<'_>>, computed: &Computed) {
        computed.get_or_compute(|| self.found(surveyed));
    }
}

impl TableFinder {
    /// Returns the flux of a spectrum, and those of axis, uncertainty and mask that are one-dimensional and
    /// as long as the flux. Returns nothing if the flux is not one-dimensional.
    fn columns_of_spectrum(
        &mut self,
        tag: &str,
        spectrum: &TreeNode,
        unfit_in_block: Unfit<'_>,
    ) -> Vec<Source> {
        let (main, arrays) = columns_in(tag, spectrum);
        let flux = arrays.iter().find(|(name, flux)| name == main && dimensions(&flux.array) == 1);
        let Some(rows) = flux.and_then(|(_, flux)| rows_of(&flux.array)) else { return Vec::new() };
        let mut columns = Vec::new();
        for (name, source) in arrays {
            let is_row = dimensions(&source.array) == 1 && rows_of(&source.array) == Some(rows);
            if is_row && unfit(&source.array).is_none() && lost(&source, unfit_in_block).is_none() {
                columns.push(self.bounded(Source { name, ..source }));
            }
        }
        columns
    }

    /// Returns the columns of a node with the tag of a table.
    fn columns_of(&mut self, paths: &Paths, node: &WantedNode<'_>, unfit_in_block: Unfit<'_>) -> Vec<Source> {
        let Some(listed) = node.value.get("columns").and_then(TreeNode::items) else {
            let path = paths.show(node.path);
            let what = format!(
                "tables/ leaves out {path}: it has no list of columns, or the list is too \
                                long"
            );
            self.leave_out(node.value.place, what);
            return Vec::new();
        };
        if listed.is_empty() {
            let what = format!("tables/ leaves out {}: it has no columns", paths.show(node.path));
            self.leave_out(node.value.place, what);
        }
        let names = node.value.get("colnames").and_then(TreeNode::items).unwrap_or_default();
        let mut columns = Vec::new();
        for (n, column) in listed.iter().enumerate() {
            let name = column.get("name").and_then(TreeNode::text).or_else(|| names.get(n)?.text());
            let name = name.map_or_else(|| format!("column{n}"), str::to_owned);
            let arrays = arrays_in(column);
            if arrays.is_empty() {
                let path = paths.show(node.path);
                let what = format!("tables/ leaves out the column \"{name}\" of {path}: it has no array");
                self.leave_out(column.place, what);
            }
            let is_one = arrays.len() == 1;
            columns.extend(arrays.into_iter().map(|(below, source)| {
                let below = if is_one || below.is_empty() { String::new() } else { format!(".{below}") };
                (column.place, Source { name: format!("{name}{below}"), ..source })
            }));
        }
        let rows = columns.first().map(|(_, column)| rows_of(&column.array));
        columns.retain(|(place, column)| {
            let is_long = rows.is_none_or(|rows| rows_of(&column.array) == rows);
            let unfit =
                if is_long { unfit(&column.array) } else { Some("it has not as many rows as the first one") };
            let unfit = unfit.map(str::to_owned).or_else(|| lost(column, unfit_in_block));
            if let Some(why) = &unfit {
                let path = paths.show(node.path);
                let what = format!("tables/ leaves out the column \"{}\" of {path}: {why}", column.name);
                self.leave_out(*place, what);
            }
            unfit.is_none()
        });
        columns.into_iter().map(|(_, source)| self.bounded(source)).collect()
    }

    /// Returns the column. Its metadata are dropped once the metadata of all columns exceed [`MAX_MADE`]:
    /// with aliases, a short text may have much metadata.
    fn bounded(&mut self, mut source: Source) -> Source {
        self.metadata += source.facts.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        if self.metadata > MAX_MADE {
            source.facts.clear();
        }
        source
    }

    fn leave_out(&mut self, place: Mark, what: String) {
        if self.defects.len() < MAX_NOTES {
            let offset = place.offset;
            let what = format!("line {}: {what}", place.line);
            self.defects.push(Defect { severity: Severity::Note, offset, block: None, what });
        }
    }

    fn found(self, surveyed: Option<&Surveyed<'_>>) -> FoundTables {
        let Some(Surveyed { survey, unfit, .. }) = surveyed else {
            return FoundTables::new(Vec::new(), self.defects);
        };
        let closed = self.closed_below(&survey.paths);
        let is_closed = |path: Option<PathId>| match path {
            None => self.closed.contains(&None),
            Some(path) => closed.get(path.index()).copied().unwrap_or_default(),
        };
        let mut places = TablePaths::new();
        for table in self.tables {
            let within = survey.paths.last(table.path).is_some_and(|(parent, _)| is_closed(parent));
            if !within && !table.columns.is_empty() {
                places.add(&survey.paths, table);
            }
        }
        for (path, mut columns) in self.mappings {
            if is_table_of(&columns) && !is_closed(path) {
                columns.sort_by_key(|(offset, _)| *offset);
                columns.retain(|(_, source)| lost(source, *unfit).is_none());
                let columns: Vec<Source> = columns.into_iter().map(|(_, source)| source).collect();
                if !columns.is_empty() {
                    places.add(&survey.paths, FoundTable { path, columns, meta: None });
                }
            }
        }
        let aliases = if places.nodes.is_empty() { &[] } else { &survey.aliases[..] };
        for alias in aliases {
            places.link(&survey.paths, alias);
        }
        places.name_root();
        FoundTables::new(places.items, self.defects)
    }

    /// Returns, for each path, true if the node is a table with a tag, or lies within one.
    fn closed_below(&self, paths: &Paths) -> Vec<bool> {
        if self.closed.is_empty() {
            return Vec::new();
        }
        let mut closed = Vec::new();
        // A parent comes before the paths below it.
        for (path, parent) in paths.parents() {
            let is_within = parent.map_or_else(
                || self.closed.contains(&None),
                |parent| closed.get(parent.index()).copied().unwrap_or_default(),
            );
            closed.push(is_within || self.closed.contains(&Some(path)));
        }
        closed
    }
}

/// Returns the reason why a column or its mask can't be read from its block.
fn lost(column: &Source, unfit_in_block: Unfit<'_>) -> Option<String> {
    let of_mask = || Some(format!("of its mask, {}", unfit_in_block(column.mask.as_ref()?)?));
    unfit_in_block(&column.array).or_else(of_mask)
}

/// True if the arrays in a mapping are columns of a table: there are several, of equal length, and at least
/// one is one-dimensional. A mapping with an image is none.
fn is_table_of(columns: &[(u64, Source)]) -> bool {
    let [(_, first), _, ..] = columns else { return false };
    // A streamed array has no fixed number of rows, so a mapping that contains one is no table.
    let rows = rows_of(&first.array);
    rows.is_some()
        && columns.iter().all(|(_, column)| rows_of(&column.array) == rows && unfit(&column.array).is_none())
        && columns.iter().any(|(_, column)| dimensions(&column.array) == 1)
        && !columns
            .iter()
            .any(|(_, column)| IMAGES.contains(&column.name.as_str()) && dimensions(&column.array) > 1)
}

fn is_records(array: &Ndarray) -> bool {
    matches!(array.datatype, Some(Datatype::Structured(_))) && unfit(array).is_none()
}

fn dimensions(array: &Ndarray) -> usize {
    array.shape.as_ref().map_or(0, |shape| shape.dimensions.len() + usize::from(shape.streamed))
}

/// Returns the number of rows of an array; `None` if it is not written or not fixed.
fn rows_of(array: &Ndarray) -> Option<u64> {
    let shape = array.shape.as_ref().filter(|shape| !shape.streamed)?;
    shape.dimensions.first().copied()
}

/// Returns the reason why an array can't be a column.
fn unfit(array: &Ndarray) -> Option<&'static str> {
    let (Some(shape), Some(datatype)) = (&array.shape, &array.datatype) else {
        return Some("its shape or its type is not known");
    };
    if dimensions(array) == 0 {
        return Some("it has no rows");
    }
    let inner = shape.dimensions.get(usize::from(!shape.streamed)..).unwrap_or_default();
    match inner.iter().try_fold(1_u64, |product, len| product.checked_mul(*len)) {
        Some(0) => Some("its rows are empty"),
        Some(count) => unfit_row(datatype, count),
        None => Some(TOO_LONG),
    }
}

/// Returns the reason why `count` elements of a type can't be a row.
fn unfit_row(datatype: &Datatype, count: u64) -> Option<&'static str> {
    match datatype {
        Datatype::Scalar(scalar) => {
            let bytes = scalar.size().and_then(|size| size.checked_mul(count));
            let is_short = count <= MAX_ELEMENT && bytes.is_some_and(|bytes| bytes <= 8 * MAX_ELEMENT);
            (!is_short).then_some(TOO_LONG)
        }
        Datatype::Structured(fields) if fields.is_empty() => Some("it has no fields"),
        Datatype::Structured(fields) => fields.iter().find_map(|field| {
            match field.shape.iter().try_fold(count, |product, len| product.checked_mul(*len)) {
                Some(0) => Some("one of its fields is empty"),
                Some(count) => unfit_row(&field.datatype, count),
                None => Some(TOO_LONG),
            }
        }),
        Datatype::Unknown => Some("its datatype has too many fields"),
    }
}

/// The paths of tables.
struct TablePaths {
    paths: NodePaths,
    items: Vec<Item<TableEntry>>,
    /// The entry at the path of a node: true for a table, false for a directory.
    nodes: HashMap<Id, bool>,
    /// Size of the targets of all links so far, in bytes.
    targets: usize,
}

impl TablePaths {
    fn new() -> Self {
        Self { paths: NodePaths::new(NAMES), items: Vec::new(), nodes: HashMap::new(), targets: 0 }
    }

    fn add(&mut self, paths: &Paths, table: FoundTable) {
        let FoundTable { path, columns, meta } = table;
        let Some(place) = self.paths.of(paths, path) else { return };
        let mut above = self.paths.tree.parent(place);
        while let Some(dir) = above.filter(|dir| *dir != PathTree::ROOT) {
            if self.nodes.contains_key(&dir) {
                break;
            }
            self.nodes.insert(dir, false);
            above = self.paths.tree.parent(dir);
        }
        self.nodes.insert(place, true);
        let entry =
            TableEntry::Table { columns: columns.into(), meta, statistics: SharedStatistics::default() };
        self.items.push(self.paths.item(place, ENDING, entry));
    }

    /// Adds a link with a readable name to the table of the root, unless another table has the name.
    fn name_root(&mut self) {
        let is_in_root = |item: &&Item<TableEntry>| item.components().count() == 1;
        let named = |file: &str| self.items.iter().filter(is_in_root).find(|item| item.file == file);
        if let Some(root) = named(ROOT)
            && named(NAME_OF_ROOT).is_none()
        {
            let link = Item {
                dir: root.dir.clone(),
                file: NAME_OF_ROOT.to_owned(),
                what: TableEntry::Link(ROOT.into()),
            };
            self.items.push(link);
        }
    }

    /// Adds a link from an alias to its node.
    fn link(&mut self, paths: &Paths, alias: &Alias) {
        let Some(to) = self.paths.of(paths, alias.target) else { return };
        let Some(is_table) = self.nodes.get(&to).copied() else { return };
        let Some(from) = self.paths.of(paths, alias.path) else { return };
        let ending = if is_table { ENDING } else { "" };
        let tree = &self.paths.tree;
        let parent = |path| tree.parent(path).unwrap_or(PathTree::ROOT);
        let name = [tree.component(to), ending].concat();
        let mut way = tree.way(parent(from), parent(to));
        way.push(&name);
        let text = way.join("/");
        self.targets += text.len();
        if self.targets <= MAX_MADE {
            self.items.push(self.paths.item(from, ending, TableEntry::Link(text.into())));
        }
    }
}

#[cfg(test)]
mod tests;
