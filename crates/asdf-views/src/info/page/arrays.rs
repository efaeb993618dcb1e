//! The table of arrays, and the arrays themselves by path.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::sync::Arc;

use asdf_file::array::{self, ByteOrder, Datatype, literal};
use asdf_file::container::{ArrayFacts, ArraySource, Container, ElementType};
use asdf_file::folder::{Dir, EntryKind, Node};
use seekable::content::Content;
use seekable::error::{Error, Result};

use super::html::{cut, escape, link, link_by_ending};
use super::{Plan, Slot};
use crate::info::ContainerBlocks;

/// Maximum number of arrays in the table, and in the folded list after it.
const MAX_ROWS: usize = 40;
const MAX_SMALL: usize = 300;
/// Maximum number of arrays that are looked at.
const MAX_ARRAYS: usize = 10_000;
/// Maximum number of arrays whose numbers are sampled.
const MAX_STATISTICS: usize = 16;
/// Maximum number of files that are found in a view.
const MAX_FILES: usize = 20_000;
/// Maximum number of tables.
const MAX_TABLES: usize = 8;
/// The space for the numbers of an array in bytes.
const STATISTICS: usize = 260;
/// The space for type, shape, numbers and one more link of an array in another file, in bytes.
const REFERENCE: usize = 1800;
/// The keys, in lower case, of arrays that are listed first.
const FIRST: [&str; 5] = ["data", "sci", "image", "dq", "err"];
/// The shortest array that is plotted.
const MIN_CURVE: u64 = 8;
/// The keys, in lower case, of arrays of flags.
const FLAGS: [&str; 3] = ["dq", "pixeldq", "groupdq"];

/// An array of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrayRow {
    /// The path in `arrays/`, without ending.
    pub(super) path: String,
    pub(super) datatype: String,
    pub(super) shape: Vec<u64>,
    unit: Option<String>,
    /// Codec and size as they are stored.
    stored: String,
    /// The approximate size in bytes, uncompressed.
    weight: u64,
    is_inline: bool,
    /// True for a reference into another file, whose type and shape are not known.
    pub(super) is_reference: bool,
    /// True for a column of a table that the page shows.
    is_column: bool,
    pub(super) has_npy: bool,
    pub(super) has_fits: bool,
    has_parquet: bool,
}

impl ArrayRow {
    /// True for an array whose bits are flags.
    pub(super) fn has_flags(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        FLAGS.contains(&name.as_str()) && self.datatype.contains("int")
    }

    /// Returns the place of the array in the table by its name: images, then their flags and errors.
    fn rank(&self) -> usize {
        let name = self.path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let is_deep = self.path.split('/').count() > 3;
        FIRST.iter().position(|first| *first == name && !is_deep).unwrap_or(FIRST.len())
    }

    /// Returns the cells of an array in another file, behind its path.
    pub(super) fn reference(&self, type_and_shape: &str, numbers: &str) -> String {
        format!(
            "{type_and_shape}<td></td><td>in {}</td><td>{numbers}</td><td class=\"whole\">{}</td>",
            escape(&self.stored),
            links(self)
        )
    }

    /// True for a row of real numbers.
    pub(super) fn is_curve(&self) -> bool {
        let is_number = ["int", "float"].iter().any(|kind| self.datatype.contains(kind))
            || matches!(
                self.datatype.trim_start_matches(['<', '>', '|']).as_bytes(),
                [b'f' | b'i' | b'u', ..]
            );
        self.shape.len() == 1 && self.shape[0] >= MIN_CURVE && self.has_npy && is_number
    }
}

/// The arrays of a file.
#[derive(Debug, Default)]
pub(super) struct FoundArrays {
    /// The largest ones first.
    pub(super) rows: Vec<ArrayRow>,
    count: usize,
}

/// The views of a file that are shown.
pub(super) struct Views {
    nodes: Vec<(&'static str, Node)>,
    /// False if a listing would send requests for other files to servers.
    pub(super) may_be_listed: bool,
}

/// The elements of an array.
#[derive(Debug)]
pub(super) struct Elements {
    pub(super) datatype: Datatype,
    pub(super) byteorder: ByteOrder,
    /// The size of an element in bytes; not 0.
    pub(super) item: u64,
    pub(super) count: u64,
    pub(super) content: Arc<dyn Content>,
}

impl Views {
    pub(super) fn of(container: &Arc<dyn Container>, is_shown: &dyn Fn(&str) -> bool) -> Result<Self> {
        let views = container.clone().views()?;
        let nodes = views.into_iter().filter(|(name, _)| is_shown(name)).collect();
        Ok(Self { nodes, may_be_listed: !container.refers_to_servers() })
    }

    fn dir(&self, view: &str) -> Option<&Arc<dyn Dir>> {
        self.nodes.iter().find(|(name, _)| *name == view).and_then(|(_, node)| match node {
            Node::Dir(dir) => Some(dir),
            _ => None,
        })
    }

    /// Returns the bytes of a file in a view.
    pub(super) fn content(&self, view: &str, path: &str) -> Result<Option<Arc<dyn Content>>> {
        let Some(dir) = self.dir(view) else { return Ok(None) };
        let names: Vec<&OsStr> = path.split('/').map(OsStr::new).collect();
        match dir.find(&names)? {
            Some(Node::File(file)) => file.content.map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the elements of an array.
    pub(super) fn elements(&self, path: &str) -> Result<Option<Elements>> {
        let Some(content) = self.content("arrays", &format!("{path}.npy"))? else { return Ok(None) };
        let Some(array) = array::Array::of(&*content) else { return Ok(None) };
        let Some(item) = array.datatype.size().filter(|size| *size > 0) else { return Ok(None) };
        let count = array.shape.iter().try_fold(1_u64, |count, len| count.checked_mul(*len));
        let Some(count) = count.filter(|count| count.checked_mul(item).is_some()) else {
            return Err(Error::damaged("the array is too large"));
        };
        let array::Array { datatype, byteorder, elements: content, .. } = array.clone();
        Ok(Some(Elements { datatype, byteorder, item, count, content }))
    }

    /// True if the file has frames of particles.
    pub(super) fn trajectory(&self) -> bool {
        if !self.may_be_listed {
            return false;
        }
        let found = self.dir("arrays").map(|dir| dir.lookup(OsStr::new("resolved")));
        matches!(found, Some(Ok(Some(Node::Dir(_)))))
    }

    /// Returns the number of frames of a trajectory.
    pub(super) fn frames(&self) -> Result<u64> {
        let dir = match self.dir("arrays").map(|dir| dir.lookup(OsStr::new("frames"))).transpose()? {
            Some(Some(Node::Dir(dir))) => dir,
            _ => return Ok(0),
        };
        // Frames are numbered.
        let exists = |number: u64| Ok::<_, Error>(dir.lookup(OsStr::new(&number.to_string()))?.is_some());
        let mut known = 0;
        let mut step = 1_u64 << 40;
        while step > 0 {
            if exists(known + step - 1)? {
                known += step;
            }
            step /= 2;
        }
        Ok(known)
    }

    /// Returns the paths of the tables.
    pub(super) fn tables(&self) -> Result<Vec<String>> {
        let mut paths: Vec<String> = self.files("tables", ".parquet", MAX_TABLES)?.into_iter().collect();
        paths.sort();
        Ok(paths)
    }

    /// Returns the paths of the files in a view with this ending, without it.
    fn files(&self, view: &str, ending: &str, most: usize) -> Result<HashSet<String>> {
        let mut found = HashSet::new();
        let Some(root) = self.dir(view).filter(|_| self.may_be_listed) else { return Ok(found) };
        let mut ahead = vec![(String::new(), root.clone())];
        let mut seen = 0;
        while let Some((prefix, dir)) = ahead.pop() {
            let mut below = Vec::new();
            dir.list(0, &mut |name, kind| {
                seen += 1;
                if let Some(name) = name.to_str() {
                    match kind {
                        EntryKind::Dir => below.push(name.to_owned()),
                        EntryKind::File => {
                            if let Some(stem) = name.strip_suffix(ending) {
                                found.insert(format!("{prefix}{stem}"));
                            }
                        }
                        EntryKind::Link => {}
                    }
                }
                seen < MAX_FILES && found.len() < most
            })?;
            if seen >= MAX_FILES || found.len() >= most {
                break;
            }
            for name in below.into_iter().rev() {
                if let Some(Node::Dir(dir)) = dir.lookup(OsStr::new(&name))? {
                    ahead.push((format!("{prefix}{name}/"), dir));
                }
            }
        }
        Ok(found)
    }
}

/// Finds the arrays of a file.
pub(super) fn found(
    container: &Arc<dyn Container>,
    views: &Views,
    units: &[(String, String)],
) -> Result<FoundArrays> {
    let fits = views.files("fits", ".fits", MAX_FILES)?;
    let tables = views.files("tables", ".parquet", MAX_FILES)?;
    let units: HashMap<&str, &str> =
        units.iter().map(|(path, unit)| (path.as_str(), unit.as_str())).collect();
    let directory = container.directory_of_arrays();
    let has_arrays = views.dir("arrays").is_some();
    let mut found = FoundArrays::default();
    let mut facts = Vec::new();
    container.each_array(&mut |array| {
        found.count += 1;
        if facts.len() < MAX_ARRAYS {
            facts.push(array);
        }
    })?;
    let blocks = ContainerBlocks::of(&**container);
    for ArrayFacts { path, datatype, shape, source } in facts {
        let weight = shape.iter().fold(1, |count: u64, len| count.saturating_mul(*len));
        let stored = blocks.stored(&source).unwrap_or_else(|| match &source {
            ArraySource::Block(_) => String::new(),
            ArraySource::Text(text) => cut(text, 60),
        });
        let dotted = path.replace('/', ".");
        let parent = dotted.rsplit_once('.').map_or("", |(parent, _)| parent);
        let unit = units.get(parent).or_else(|| units.get(dotted.as_str())).map(|unit| (*unit).to_owned());
        let path = format!("{directory}{path}");
        found.rows.push(ArrayRow {
            has_fits: fits.contains(&path),
            has_parquet: tables.contains(&path),
            has_npy: has_arrays,
            is_column: path.find("/columns/").is_some_and(|end| tables.contains(&path[..end])),
            path,
            datatype: match &datatype {
                ElementType::Fields(fields) => format!("{} fields", fields.len()),
                datatype => cut(&datatype.to_string(), 80),
            },
            shape,
            unit,
            stored,
            weight,
            is_inline: source == ArraySource::Text("inline".to_owned()),
            is_reference: false,
        });
    }
    blocks.finish()?;
    container.each_reference(&mut |path, uri| {
        found.count += 1;
        if found.rows.len() < MAX_ARRAYS {
            let stored = cut(uri, 200);
            found.rows.push(ArrayRow {
                path,
                stored,
                is_reference: true,
                has_npy: has_arrays,
                ..ArrayRow::default()
            });
        }
    })?;
    found.rows.sort_by_key(|row| (row.is_inline, row.rank(), std::cmp::Reverse(row.weight)));
    Ok(found)
}

/// Writes the table of the arrays.
pub(super) fn table(found: &FoundArrays, plan: &mut Plan) {
    plan.push("<section id=\"arrays\">\n<h2>Arrays</h2>\n");
    let is_large = |row: &&ArrayRow| !row.is_inline && !row.is_column;
    let (large, small): (Vec<&ArrayRow>, Vec<&ArrayRow>) = found.rows.iter().partition(is_large);
    let (large, small) = if large.is_empty() { (small, large) } else { (large, small) };
    if large.is_empty() {
        plan.push("<p>The file has no arrays.</p>\n</section>\n");
        return;
    }
    let values = if large.len() > MAX_STATISTICS {
        format!("; values are read of the first {MAX_STATISTICS} arrays")
    } else {
        String::new()
    };
    plan.push(&format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Arrays\">\n<table>\n<caption>Images and large \
         arrays first; links lead to files beside this page{values}</caption>\n<thead><tr><th scope=\"col\">Array</th><th \
         scope=\"col\">Type</th><th scope=\"col\">Shape</th><th scope=\"col\">Unit</th><th \
         scope=\"col\">Stored</th><th scope=\"col\">Values</th><th scope=\"col\">Files</th></tr></thead>\n<tbody>\n"
    ));
    for (number, row) in large.iter().take(MAX_ROWS).enumerate() {
        plan.push(&format!(
            "<tr><th scope=\"row\">{}</th>",
            escape(&cut(&row.path, 200)).replace('/', "/<wbr>")
        ));
        if row.is_reference {
            plan.slot(REFERENCE + row.reference("", "").len(), Slot::Reference((*row).clone()));
            plan.push("</tr>\n");
            continue;
        }
        plan.push(&format!(
            "<td>{}</td><td class=\"whole\">{}</td><td>{}</td><td class=\"whole\">{}</td><td>",
            escape(&row.datatype),
            escape(&shape_of(&row.shape)),
            escape(row.unit.as_deref().unwrap_or_default()),
            escape(&row.stored),
        ));
        if number < MAX_STATISTICS && !row.has_flags() && row.has_npy {
            plan.slot(STATISTICS, Slot::Statistics((*row).clone()));
        }
        plan.push(&format!("</td><td class=\"whole\">{}</td></tr>\n", links(row)));
    }
    plan.push("</tbody>\n</table>\n</div>\n");
    let rest: Vec<&ArrayRow> = large.into_iter().skip(MAX_ROWS).chain(small).collect();
    if !rest.is_empty() {
        let has = |what: &dyn Fn(&ArrayRow) -> bool| rest.iter().any(|row| what(row));
        let kinds = [
            ("arrays", found.count > found.rows.len() || has(&|row| !row.is_inline && !row.is_column)),
            ("inline arrays", has(&|row| row.is_inline && !row.is_column)),
            ("columns of tables", has(&|row| row.is_column)),
        ];
        let kinds: Vec<&str> =
            kinds.iter().filter(|(_, is_there)| *is_there).map(|(kind, _)| *kind).collect();
        plan.push(&format!(
            "<details>\n<summary>{} more: {}</summary>\n<ul>\n",
            found.count - found.rows.len() + rest.len(),
            kinds.join(", ")
        ));
        for row in rest.iter().take(MAX_SMALL) {
            plan.push(&format!(
                "<li><b>{}</b> {} {} {} {}</li>\n",
                escape(&cut(&row.path, 200)),
                escape(&row.datatype),
                escape(&shape_of(&row.shape)),
                escape(row.unit.as_deref().unwrap_or_default()),
                links(row)
            ));
        }
        if rest.len() > MAX_SMALL {
            plan.push(&format!("<li>… all are in {}</li>\n", link("arrays", "arrays/")));
        }
        plan.push("</ul>\n</details>\n");
    }
    plan.push("</section>\n");
}

pub(super) fn shape_of(shape: &[u64]) -> String {
    let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
    if sizes.is_empty() { "scalar".to_owned() } else { sizes.join(" × ") }
}

fn links(row: &ArrayRow) -> String {
    let mut links = Vec::new();
    for (view, ending, is_there) in [
        ("arrays", ".npy", row.has_npy),
        ("fits", ".fits", row.has_fits),
        ("tables", ".parquet", row.has_parquet),
    ] {
        if is_there {
            links.push(link_by_ending(&format!("{view}/{}{ending}", row.path), ending));
        }
    }
    links.join(" ")
}

/// Returns the keys of an array's path as indices in Python; nothing if a key is escaped in the path.
pub(super) fn keys(path: &str) -> String {
    if path.contains(['%', '~']) {
        return String::new();
    }
    let index = |key: &str| match key.parse::<u64>() {
        Ok(number) => format!("[{number}]"),
        Err(_) => format!("[{}]", literal::quoted(key)),
    };
    path.strip_suffix("/value").unwrap_or(path).split('/').map(index).collect()
}
