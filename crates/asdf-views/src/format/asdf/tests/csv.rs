//! `csv/`: each table of astropy as a file `PATH.csv`.

use std::collections::HashSet;
use std::sync::Arc;

use asdf_file::array::numbers::to_number;
use asdf_file::asdf::arrays::{ArrayPart, Elements, NodePaths, file_of_all, surveyed};
use asdf_file::asdf::computed::Computed;
use asdf_file::asdf::ndarray::{self, Datatype, Ndarray};
use asdf_file::asdf::view::{AsdfFile, Collector, Directory, Surveyed, Unfit, View};
use asdf_file::folder::path_dir::{Item, Items, PathDir};
use asdf_file::folder::{File, Node, Renewal};
use asdf_tree::yaml::survey::{PathId, Paths, TreeNode, WantedNode};
use seekable::content::{Content, Text, read_exact_at};
use seekable::error::{Error, Result};

use crate::views::same_paths::Dirs;

const TAG: &str = "tag:astropy.org:astropy/table/table-1.";
const ENDING: &str = ".csv";
/// Maximum number of rows: a file is made in memory.
const MAX_ROWS: u64 = 1 << 16;

/// The view.
#[derive(Debug)]
pub(super) struct Csv;

impl View for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn wants(&self, tag: &str) -> bool {
        tag.starts_with(TAG)
    }

    fn collector(&self) -> Option<Box<dyn Collector>> {
        Some(Box::new(Finder::default()))
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        // The length of a file is known once all its numbers have been read.
        Some(Directory { file: file.clone(), find: dir, is_slow: |_| true }.node())
    }
}

/// The names and arrays of a table's columns.
type Columns = Vec<(String, Ndarray)>;

/// The tables found so far.
#[derive(Default)]
struct Finder(Vec<(Option<PathId>, Columns)>);

/// The tables of the tree.
#[derive(Default)]
struct Tables(Items<Columns>);

impl Collector for Finder {
    fn on_node(&mut self, _: &Paths, node: &WantedNode<'_>, unfit: Unfit<'_>) {
        let columns = node.value.get("columns").and_then(TreeNode::items).unwrap_or_default();
        let columns = columns.iter().filter_map(column).filter(|(_, array)| unfit(array).is_none());
        self.0.push((node.path, columns.collect()));
    }

    fn end(self: Box<Self>, surveyed: Option<&Surveyed<'_>>, computed: &Computed) {
        let mut items = Vec::new();
        let mut taken = HashSet::new();
        let mut paths = NodePaths::of_arrays();
        let mut dirs = Dirs::new(ENDING);
        for (path, columns) in self.0 {
            let place = surveyed.and_then(|surveyed| paths.of(&surveyed.survey.paths, path));
            // A tree may have the same key twice.
            let Some(place) = place.filter(|place| taken.insert(*place)) else { continue };
            let path = dirs.renamed(&paths.tree.shared(place));
            if let Some((dir, name)) = path.split_last() {
                items.push(Item { dir: dir.clone(), file: format!("{name}{ENDING}"), what: columns });
            }
        }
        computed.get_or_compute(|| Tables(Items::new(items)));
    }
}

/// Reads a node of the list of columns; `None` if it has no name or no array.
fn column(node: &TreeNode) -> Option<(String, Ndarray)> {
    let data = node.get("data")?.target();
    let tag = data.tag.as_deref().filter(|tag| ndarray::is_tag(tag))?;
    let (mut array, _) = Ndarray::read_leniently(tag, data).ok()?;
    array.infer_inline().ok()?;
    Some((node.get("name")?.text()?.to_owned(), array))
}

fn dir(file: &Arc<AsdfFile>) -> Result<PathDir<Columns>> {
    surveyed(file)?;
    let Tables(items) = file.computed.get_or_compute(Tables::default);
    let file = file.clone();
    Ok(PathDir::new(items, move |columns| Ok(Node::File(csv_file(&file, columns)))))
}

fn csv_file(file: &Arc<AsdfFile>, columns: &Columns) -> File {
    let parts: Vec<ArrayPart<'_>> = columns.iter().map(|(_, array)| ArrayPart::Elements(array)).collect();
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let mut made = file_of_all(file, &parts, |elements| text(&names, elements));
    // The names are part of the bytes, too: after a save that changes one, this is another file.
    if let Renewal::WhileSame(signature) = &mut made.renewal {
        signature.text.push_str(&names.join(","));
    }
    made
}

fn text(names: &[&str], elements: &[Elements]) -> Result<Arc<dyn Content>> {
    let columns = elements.iter().map(numbers).collect::<Result<Vec<_>>>()?;
    let rows = columns.first().map_or(0, Vec::len);
    if columns.iter().any(|column| column.len() != rows) {
        return Err(Error::damaged("the columns of the table differ in length"));
    }
    let mut text = names.join(",") + "\n";
    for row in 0..rows {
        let cells: Vec<String> = columns.iter().map(|column| column[row].to_string()).collect();
        text.push_str(&(cells.join(",") + "\n"));
    }
    Ok(Arc::new(Text::new(text.into_bytes())))
}

fn numbers(elements: &Elements) -> Result<Vec<f64>> {
    let no_numbers = || Error::unsupported("a column of the table is not a list of numbers");
    let (Datatype::Scalar(scalar), [rows]) = (&elements.datatype, &elements.dimensions[..]) else {
        return Err(no_numbers());
    };
    let to_number = to_number(*scalar, elements.byteorder).ok_or_else(no_numbers)?;
    if *rows > MAX_ROWS {
        return Err(Error::unsupported(format!("the table has more than {MAX_ROWS} rows")));
    }
    let size = scalar.size().ok_or_else(no_numbers)?;
    let mut bytes = vec![0; (rows * size) as usize];
    read_exact_at(&*elements.content, 0, &mut bytes)?;
    Ok(bytes.chunks_exact(size as usize).map(to_number).collect())
}
