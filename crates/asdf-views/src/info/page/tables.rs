//! The first rows of tables, and curves of their columns.

use asdf_file::array::numbers::integer;
use asdf_file::array::{ByteOrder, Scalar};
use asdf_file::time::instant;
use seekable::content::{read_exact_at, short_number};
use seekable::error::Result;

use super::arrays::Views;
use super::html::{cut, escape};
use super::plot::Curve;
use super::sample::{Budget, Sample, to_real};
use crate::parquet::{Element, ParquetTable, TableColumn};

/// The space for a table and its curves in bytes.
pub(super) const RESERVED: usize = 40 << 10;
/// The part of it for the rows.
const FOR_ROWS: usize = 12 << 10;
/// Maximum number of rows and columns that are shown.
const ROWS: u64 = 8;
const COLUMNS: usize = 12;
/// Maximum number of curves.
const CURVES: usize = 6;
/// Maximum length of a value and of a name in characters.
const MAX_VALUE: usize = 24;
const MAX_NAME: usize = 60;
/// Maximum number of bytes of a value that are read.
const MAX_BYTES: u64 = 4096;
/// The names, in their last part, of columns that others are drawn against.
const AXES: [&str; 5] = ["spectral_axis", "wavelength", "wave", "step", "time"];

/// Returns the first rows of a table, and curves of its numbers.
pub(super) fn html(views: &Views, path: &str, room: usize, budget: &mut Budget) -> Result<String> {
    let Some(content) = views.content("tables", &format!("{path}.parquet"))? else {
        return Ok(String::new());
    };
    let Some(table) = ParquetTable::of(&*content) else { return Ok(String::new()) };
    let mut text = String::new();
    // Long values leave room for fewer rows.
    for rows in (0..=table.rows().min(ROWS)).rev() {
        text = first_rows(table, path, rows)?;
        if text.len() <= FOR_ROWS.min(room) {
            break;
        }
    }
    if text.len() > room {
        text.clear();
    }
    text += "<div class=\"plots\">";
    for curve in curves(table, budget)? {
        if text.len() + curve.len() + 10 <= room {
            text += &curve;
        }
    }
    Ok(text + "</div>")
}

fn name_of(column: &TableColumn<'_>) -> String {
    cut(&column.path.join("."), MAX_NAME)
}

fn first_rows(table: &ParquetTable, path: &str, rows: u64) -> Result<String> {
    let columns: Vec<TableColumn<'_>> = table.columns().take(COLUMNS).collect();
    let count = table.columns().count();
    let mut caption = format!("{}: {rows} of {} rows", cut(path, 100), table.rows());
    if count > columns.len() {
        caption += &format!(", {} of {count} columns", columns.len());
    }
    let caption = escape(&caption);
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table><caption>{caption}</caption><thead><tr>"
    );
    for column in &columns {
        text += &format!("<th scope=\"col\">{}</th>", escape(&name_of(column)));
    }
    text += "</tr></thead><tbody>";
    for row in 0..rows {
        text += "<tr>";
        for column in &columns {
            text += &format!("<td>{}</td>", escape(&cell(column, row)?));
        }
        text += "</tr>";
    }
    Ok(text + "</tbody></table></div>")
}

/// Returns a value as text; `–` for a missing one.
fn cell(column: &TableColumn<'_>, row: u64) -> Result<String> {
    let size = column.element.size();
    let first = row.saturating_mul(column.per_row);
    let mut missing = [0];
    if let Some(mask) = column.missing
        && column.per_row > 0
    {
        read_exact_at(&**mask, first, &mut missing)?;
    }
    if missing[0] != 0 {
        return Ok("–".to_owned());
    }
    let shown = column.per_row.min(3);
    let mut values = Vec::new();
    for n in 0..shown {
        let mut bytes = vec![0; usize::try_from(size.min(MAX_BYTES)).unwrap_or_default()];
        read_exact_at(&**column.content, first.saturating_add(n).saturating_mul(size), &mut bytes)?;
        values.push(cut(&value(column, &bytes), MAX_VALUE));
    }
    let text = values.join(", ");
    Ok(match column.per_row {
        1 => text,
        count if count > shown => format!("[{text}, … {count}]"),
        _ => format!("[{text}]"),
    })
}

fn order_of(column: &TableColumn<'_>) -> ByteOrder {
    if column.big_endian { ByteOrder::Big } else { ByteOrder::Little }
}

fn value(column: &TableColumn<'_>, bytes: &[u8]) -> String {
    let byteorder = order_of(column);
    match column.element {
        Element::Int { .. } => {
            let integer = column.element.number().and_then(|scalar| integer(scalar, byteorder, bytes));
            integer.map_or_else(String::new, |integer| integer.to_string())
        }
        Element::Float { .. } => {
            let number = to_real(column.element.number(), byteorder).map(|to_real| to_real(bytes));
            number.map_or_else(String::new, short_number)
        }
        Element::Bool => (bytes.first().is_some_and(|byte| *byte != 0)).to_string(),
        Element::Timestamp(timestamp) => {
            let count = integer(Scalar::Int64, byteorder, bytes).and_then(|count| i64::try_from(count).ok());
            let seconds =
                count.unwrap_or_default().div_euclid(if timestamp.nanos { 1_000_000_000 } else { 1_000_000 });
            instant((seconds, 0)).trim_end_matches('Z').to_owned()
        }
        Element::Ascii(_) => String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned(),
        Element::Ucs4(_) => {
            let letter = |unit: &[u8]| {
                let unit: [u8; 4] = unit.try_into().unwrap_or_default();
                let code =
                    if column.big_endian { u32::from_be_bytes(unit) } else { u32::from_le_bytes(unit) };
                char::from_u32(code).unwrap_or('\u{fffd}')
            };
            let text: String = bytes.chunks_exact(4).map(letter).collect();
            text.trim_end_matches('\0').to_owned()
        }
    }
}

/// A column of numbers, read in part.
struct Read {
    name: String,
    numbers: Vec<(u64, f64)>,
    words: String,
}

fn read(column: &TableColumn<'_>, rows: u64, budget: &mut Budget) -> Result<Option<Read>> {
    let to_real = to_real(column.element.number().filter(|_| column.per_row == 1), order_of(column));
    let Some(to_real) = to_real else { return Ok(None) };
    let item = column.element.size();
    let sample = Sample::of(&**column.content, item, rows, budget)?;
    let masks = match column.missing {
        Some(mask) => sample.masks(&**mask, item)?,
        None => Vec::new(),
    };
    let mut numbers = Vec::new();
    for (n, (first, run)) in sample.runs.iter().enumerate() {
        let mask = masks.get(n).map(Vec::as_slice).unwrap_or_default();
        for (k, bytes) in run.chunks_exact(usize::try_from(item).unwrap_or(8).max(1)).enumerate() {
            let is_missing = mask.get(k).is_some_and(|byte| *byte != 0);
            // A missing number keeps its place: curves against an axis take the numbers of both in order.
            let number = if is_missing { f64::NAN } else { to_real(bytes) };
            numbers.push((*first + k as u64, number));
        }
    }
    let words = sample.words_without(&masks);
    Ok(Some(Read { name: name_of(column), numbers, words }))
}

/// Returns the curves of the first columns of numbers, against a column that is an axis or the number of the row.
fn curves(table: &ParquetTable, budget: &mut Budget) -> Result<Vec<String>> {
    let rows = table.rows();
    if rows < 3 {
        return Ok(Vec::new());
    }
    let is_axis = |column: &TableColumn<'_>| {
        let name = column.path.last().map_or("", |name| name.rsplit('/').next().unwrap_or(name));
        AXES.contains(&name) && column.per_row == 1
    };
    let axis_column = table.columns().find(|column| is_axis(column));
    let axis = match &axis_column {
        Some(column) => read(column, rows, budget)?,
        None => None,
    };
    let ends = axis.as_ref().map(|axis| {
        let finite = || axis.numbers.iter().map(|(_, x)| *x).filter(|x| x.is_finite());
        (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max))
    });
    let ends = ends.filter(|(from, to)| from < to);
    let mut made = Vec::new();
    for column in table.columns() {
        if made.len() >= CURVES {
            break;
        }
        if axis_column.as_ref().is_some_and(|of_axis| of_axis.path == column.path) {
            continue;
        }
        let Some(read) = read(&column, rows, budget)? else { continue };
        let mut curve = match ends {
            Some((from, to)) => Curve::new(from, to),
            None => Curve::new(0.0, rows.saturating_sub(1) as f64),
        };
        // Samples of columns of one type have the same rows.
        match (&axis, ends) {
            (Some(axis), Some(_)) => {
                for ((_, x), (_, y)) in axis.numbers.iter().zip(&read.numbers) {
                    curve.add(*x, *y);
                }
            }
            _ => {
                for (row, y) in &read.numbers {
                    curve.add(*row as f64, *y);
                }
            }
        }
        let against = match (&axis, ends) {
            (Some(axis), Some(_)) => format!(" against {}", axis.name),
            _ => " by row".to_owned(),
        };
        let name = format!("{}{against}", read.name);
        let drawing = curve.svg(&name, &read.words);
        made.push(format!("<figure>{drawing}<figcaption>{}</figcaption></figure>", escape(&name)));
    }
    Ok(made)
}
