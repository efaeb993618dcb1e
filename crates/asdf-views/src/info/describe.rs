//! A captured value in words: `ndarray float32 (4096, 4096) lz4 29.1 MB`.

use asdf_file::array::Scalar;
use asdf_file::container::Facts;
use asdf_file::time::instant;
use asdf_tree::yaml::scalar::{self, Type};
use seekable::error::one_line;

use super::line::Style;
use super::value::{NodeValue, ValueKind};

/// Maximum nesting of a value on one line.
const MAX_NESTING: usize = 6;
/// Maximum length in bytes of a value on one line, unless values are shown in full.
const MAX_LINE: usize = 512;
const MAX_LINE_OF_ALL: usize = 1 << 20;

/// Codec and stored size of a block.
#[derive(Clone, Debug)]
pub(super) struct BlockSize {
    /// The codec; `None` for uncompressed data.
    pub(super) codec: Option<String>,
    pub(super) stored: u64,
}

/// The blocks of the file.
pub(super) trait Blocks {
    /// Returns a block by its number, or the last one.
    fn block(&self, number: Option<usize>) -> Option<BlockSize>;

    /// True if the file certainly has no such block.
    fn is_missing(&self, number: Option<usize>) -> bool {
        let _ = number;
        false
    }
}

/// Returns the codec of a block; `None` for uncompressed data.
pub(super) fn codec_of(facts: &Facts) -> Option<String> {
    let codec = facts.get("compression").or_else(|| facts.get("codec"))?;
    (!codec.is_empty() && codec != "none").then_some(codec)
}

/// Returns a size with a decimal prefix: `29.1 MB`.
pub fn data_size(bytes: u64) -> String {
    let mut size = bytes as f64;
    let mut unit = "B";
    for larger in ["kB", "MB", "GB", "TB", "PB"] {
        if size < 999.5 {
            break;
        }
        size /= 1000.0;
        unit = larger;
    }
    match size {
        _ if unit == "B" => format!("{bytes} B"),
        size if size < 99.95 => format!("{size:.1} {unit}"),
        size => format!("{size:.0} {unit}"),
    }
}

/// A value in words.
#[derive(Debug, Default)]
pub(super) struct Described {
    /// The style of the text.
    pub(super) style: Option<Style>,
    pub(super) text: String,
    /// The columns of a table, one line each: name and description.
    pub(super) columns: Vec<(String, String)>,
}

impl Described {
    fn plain(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    fn typed(text: String) -> Self {
        Self { style: Some(Style::Type), text, ..Self::default() }
    }
}

/// True for the kinds of nodes that are described as a whole instead of key by key.
pub(super) fn is_whole(kind: &str) -> bool {
    matches!(
        kind,
        "ndarray"
            | "chunked-ndarray"
            | "quantity"
            | "time"
            | "unit"
            | "complex"
            | "fraction"
            | "integer"
            | "software"
            | "table"
            | "column"
            | "angle"
            | "latitude"
            | "longitude"
            | "distance"
            | "timedelta"
    )
}

/// Describes a value.
pub(super) fn of(value: &NodeValue, blocks: &dyn Blocks, all: bool) -> Described {
    match value.kind() {
        Some("ndarray" | "chunked-ndarray") => array(value, blocks),
        Some("quantity" | "angle" | "latitude" | "longitude" | "distance") => quantity(value, blocks, all),
        Some("time") => Described::plain(time(value)),
        Some("software") if value.text_of("name").is_some() => {
            let version = value.text_of("version").unwrap_or_default();
            Described::plain(one_line(&format!("{} {version}", value.text_of("name").unwrap_or_default())))
        }
        Some("table") => table(value, blocks),
        Some("column") => column(value, blocks),
        _ => {
            let mut text = String::new();
            flow(value, blocks, if all { MAX_LINE_OF_ALL } else { MAX_LINE }, 0, &mut text);
            Described::plain(text)
        }
    }
}

/// Writes a value on one line, as in YAML's flow style but without needless quotes.
fn flow(value: &NodeValue, blocks: &dyn Blocks, most: usize, nesting: usize, out: &mut String) {
    if out.len() > most {
        return;
    }
    if nesting > 0 && value.kind().is_some_and(is_whole) {
        out.push_str(&of(value, blocks, false).text);
        return;
    }
    match value.what() {
        ValueKind::Scalar => {
            let text = value.shown();
            out.push_str(match (text.is_empty(), value.is_plain()) {
                (true, true) => "null",
                (true, false) => "''",
                _ => "",
            });
            out.push_str(&one_line(&text));
        }
        ValueKind::Alias => {
            out.push('*');
            out.push_str(&one_line(&value.shown()));
        }
        ValueKind::Sequence | ValueKind::Mapping if nesting >= MAX_NESTING => out.push('…'),
        ValueKind::Sequence => {
            out.push('[');
            let items = value.items();
            for (n, item) in items.iter().enumerate() {
                out.push_str(if n > 0 { ", " } else { "" });
                flow(item, blocks, most, nesting + 1, out);
            }
            if value.count() > items.len() as u64 {
                out.push_str(&format!(", … {} items", value.count()));
            }
            out.push(']');
        }
        ValueKind::Mapping => {
            out.push('{');
            for (n, (key, member)) in value.members().enumerate() {
                if out.len() > most {
                    break;
                }
                out.push_str(if n > 0 { ", " } else { "" });
                out.push_str(&one_line(&key));
                out.push_str(": ");
                flow(&member, blocks, most, nesting + 1, out);
            }
            out.push('}');
        }
    }
}

/// Describes an array.
fn array(value: &NodeValue, blocks: &dyn Blocks) -> Described {
    let mut text = String::from("ndarray");
    let data = if value.what() == ValueKind::Sequence { Some(value.clone()) } else { value.get("data") };
    let datatype = value.get("datatype").or_else(|| value.get("dtype"));
    let (name, columns) = match datatype {
        Some(datatype) => datatype_of(&datatype),
        None => (data.as_ref().map(|data| inferred(data).to_owned()).unwrap_or_default(), Vec::new()),
    };
    if columns.is_empty() {
        text += &format!(" {name}");
    }
    let shape = match (value.get("shape"), &data) {
        (Some(shape), _) => dimensions(&shape),
        (None, Some(data)) => shape_of(data),
        (None, None) => Vec::new(),
    };
    if columns.is_empty() {
        text += &format!(" ({})", shape.join(", "));
    } else {
        let rows = shape.join(" × ");
        text = format!("table {} columns × {rows} rows", columns.len());
    }
    match value.text_of("source") {
        _ if data.is_some() => {
            text += " inline ";
            if let Some(data) = data {
                flow(&data.untagged(), blocks, 200, 0, &mut text);
            }
        }
        Some(source) => match source.parse::<i64>() {
            Ok(source) => {
                let number = usize::try_from(source).ok();
                if let Some(block) = blocks.block(number) {
                    let own = size_of(&name, &shape).filter(|_| block.codec.is_none());
                    if let Some(codec) = block.codec {
                        text += &format!(" {codec}");
                    }
                    text += &format!(" {}", data_size(own.unwrap_or(block.stored)));
                } else if blocks.is_missing(number) {
                    text += &format!(" (damaged: there is no block {source})");
                }
            }
            Err(_) => text += &format!(" in {source}"),
        },
        None => {}
    }
    if value.get("mask").is_some() {
        text += " masked";
    }
    Described { columns, ..Described::typed(one_line(&text)) }
}

/// Returns the name of a type, and the fields of a structured one.
fn datatype_of(datatype: &NodeValue) -> (String, Vec<(String, String)>) {
    if datatype.what() != ValueKind::Sequence {
        return (datatype.text().unwrap_or_default().into_owned(), Vec::new());
    }
    let items = datatype.items();
    if let [name, length] = &items[..]
        && let (Some(name), Some(length)) = (name.text(), length.text())
        && matches!(&*name, "ascii" | "ucs4")
    {
        return (format!("{name}[{length}]"), Vec::new());
    }
    let field = |(n, field): (usize, &NodeValue)| {
        let of_field = field.get("datatype");
        let (mut name, within) = datatype_of(of_field.as_ref().unwrap_or(field));
        if !within.is_empty() {
            name = format!("{} fields", within.len());
        }
        if let Some(shape) = field.get("shape") {
            name += &format!(" ({})", dimensions(&shape).join(", "));
        }
        (field.text_of("name").map_or_else(|| format!("f{n}"), |name| one_line(&name)), one_line(&name))
    };
    (String::new(), items.iter().enumerate().map(field).collect())
}

fn dimensions(shape: &NodeValue) -> Vec<String> {
    shape.items().iter().map(|item| item.text().unwrap_or("?".into()).into_owned()).collect()
}

/// Returns the first item of a sequence.
fn first(sequence: &NodeValue) -> Option<NodeValue> {
    sequence.items().into_iter().next()
}

/// Returns the shape of an array that is written in the tree.
fn shape_of(data: &NodeValue) -> Vec<String> {
    let sequences = std::iter::successors(Some(data.clone()), first);
    let sequences = sequences.take_while(|here| here.what() == ValueKind::Sequence);
    sequences.map(|sequence| sequence.count().to_string()).collect()
}

/// Returns the type that the first element suggests.
fn inferred(data: &NodeValue) -> &'static str {
    let element = std::iter::successors(Some(data.clone()), first).last();
    let Some((element, text)) = element.as_ref().and_then(|element| Some((element, element.text()?))) else {
        return "";
    };
    match scalar::type_of(&text, element.is_plain(), element.tag()) {
        Type::Int => "int64",
        Type::Float => "float64",
        Type::Bool => "bool8",
        Type::Str => "text",
        _ => "",
    }
}

/// Returns the size of an array in bytes, if type and shape are known.
fn size_of(datatype: &str, shape: &[String]) -> Option<u64> {
    let item = Scalar::named(datatype)?.size()?;
    shape.iter().try_fold(item, |size, len| size.checked_mul(len.parse().ok()?))
}

fn unit_of(value: &NodeValue) -> Option<String> {
    let unit = value.text_of("unit").filter(|unit| !unit.is_empty() && unit != "null")?;
    Some(one_line(&unit))
}

/// Describes a number or an array with its unit.
fn quantity(value: &NodeValue, blocks: &dyn Blocks, all: bool) -> Described {
    let Some(number) = value.get("value") else {
        return of(&value.untagged(), blocks, all);
    };
    let mut described = of(&number, blocks, all);
    if let Some(unit) = unit_of(value) {
        described.text += &format!(" {unit}");
    }
    described
}

/// Returns a time as text. Julian dates and seconds also as a date.
fn time(value: &NodeValue) -> String {
    if let Some(text) = value.text() {
        return one_line(&text);
    }
    let Some(text) = value.text_of("value") else {
        let mut text = String::new();
        flow(&value.untagged(), &NoBlocks, MAX_LINE, 0, &mut text);
        return text;
    };
    let format = value.text_of("format").unwrap_or_default();
    let scale = value.text_of("scale").unwrap_or_default();
    let number: Option<f64> = text.parse().ok();
    let seconds = match (&*format, number) {
        ("jd", Some(days)) => Some((days - 2_440_587.5) * 86_400.0),
        ("mjd", Some(days)) => Some((days - 40_587.0) * 86_400.0),
        ("unix", Some(seconds)) => Some(seconds),
        _ => None,
    };
    // The calendar has years of four digits.
    let date = seconds.filter(|seconds| (-6.2e10..2.5e11).contains(seconds));
    let mut shown = match date {
        Some(seconds) => {
            format!("{} ({format} {text})", instant((seconds.round() as i64, 0)).trim_end_matches('Z'))
        }
        None => text,
    };
    if !scale.is_empty() {
        shown += &format!(" {scale}");
    }
    one_line(&shown)
}

/// Blocks that are not there.
struct NoBlocks;

impl Blocks for NoBlocks {
    fn block(&self, _: Option<usize>) -> Option<BlockSize> {
        None
    }
}

/// Describes a table, with a line for each column.
fn table(value: &NodeValue, blocks: &dyn Blocks) -> Described {
    let Some(listed) = value.get("columns").filter(|columns| columns.what() == ValueKind::Sequence) else {
        return of(&value.untagged(), blocks, false);
    };
    let names = value.get("colnames").map(|names| names.items()).unwrap_or_default();
    let mut rows = None;
    let mut columns = Vec::new();
    for item in listed.items() {
        let data = item.get("data").or_else(|| item.get("value")).unwrap_or_else(|| item.clone());
        let array = data.get("value").unwrap_or(data);
        if rows.is_none() {
            rows = array.get("shape").and_then(|shape| dimensions(&shape).into_iter().next());
            rows = rows.or_else(|| shape_of(&array.get("data").unwrap_or(array)).into_iter().next());
        }
        // A column of astropy may have its name in the list of the table only.
        let of_table = || Some(names.get(columns.len())?.text()?.into_owned());
        let name =
            item.text_of("name").or_else(of_table).map_or_else(|| "?".to_owned(), |name| one_line(&name));
        columns.push((name, column(&item, blocks).text));
    }
    let rows = rows.map_or_else(String::new, |rows| format!(" × {} rows", one_line(&rows)));
    Described { columns, ..Described::typed(format!("table {} columns{rows}", listed.count())) }
}

/// Describes a column of a table.
fn column(value: &NodeValue, blocks: &dyn Blocks) -> Described {
    let Some(data) = value.get("data") else {
        let untagged = value.untagged();
        let is_known = value.kind().is_some_and(|kind| is_whole(kind) && kind != "column" && kind != "table");
        let mut described = of(if is_known { value } else { &untagged }, blocks, false);
        if let Some(short) = described.text.strip_prefix("ndarray ") {
            described.text = short.to_owned();
        }
        return described;
    };
    let mut described = of(&data, blocks, false);
    if let Some(short) = described.text.strip_prefix("ndarray ") {
        described.text = short.to_owned();
    }
    if let Some(unit) = unit_of(value) {
        described.text += &format!(" {unit}");
    }
    described
}
