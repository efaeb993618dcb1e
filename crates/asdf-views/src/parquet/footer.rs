//! Headers of pages, and the footer of the file.

use super::statistics::{self, Slot, SlotLayout};
use super::thrift::{BINARY, I32, STRUCT, Writer};
use super::values::{Element, Timestamp};
use super::{Column, MAGIC, ParquetTable};

/// Physical types.
mod kind {
    pub(super) const BOOLEAN: i32 = 0;
    pub(super) const INT32: i32 = 1;
    pub(super) const INT64: i32 = 2;
    pub(super) const FLOAT: i32 = 4;
    pub(super) const DOUBLE: i32 = 5;
    pub(super) const BYTE_ARRAY: i32 = 6;
}

/// Repetition types: exactly one value, zero or one, any number.
const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;
const REPEATED: i32 = 2;

/// Converted types, the predecessors of logical types.
const UTF8: i32 = 0;
const LIST: i32 = 3;
const TIMESTAMP_MICROS: i32 = 10;
/// The first integer type. It is followed by unsigned types of 16, 32 and 64 bits, and by the four signed
/// types.
const UINT_8: i32 = 11;

/// Encodings.
const PLAIN: i32 = 0;
const RLE: i32 = 3;

/// Returns the header of a page with `len` bytes after the header.
pub(super) fn page_header(len: u64, values: u64) -> Vec<u8> {
    let mut out = Writer::new();
    // A page has at most 16 MiB, and levels.
    let len = len as i32;
    let values = values as i32;
    out.i32(1, 0);
    out.i32(2, len);
    out.i32(3, len);
    out.structure(5, |out| {
        out.i32(1, values);
        out.i32(2, PLAIN);
        out.i32(3, RLE);
        out.i32(4, RLE);
    });
    out.finish()
}

/// The footer of a file, with its length and the magic.
#[derive(Debug, Default)]
pub(super) struct Footer {
    /// The footer without statistics.
    pub bytes: Vec<u8>,
    /// The places for statistics.
    pub slots: Vec<Slot>,
}

/// Returns the footer.
pub(super) fn footer(
    columns: &[(String, Column)],
    pairs: &[(String, String)],
    table: &ParquetTable,
) -> Footer {
    let has_statistics = statistics::wanted(&table.leaves, table.rows);
    let mut slots = Vec::new();
    let mut first = 0;
    let mut out = Writer::new();
    out.i32(1, 2);
    let elements = 1 + columns.iter().map(|(_, column)| count(column)).sum::<usize>();
    out.list(2, STRUCT, elements);
    group(&mut out, None, "schema", columns.len());
    for (name, column) in columns {
        schema(&mut out, name, column, false);
    }
    out.i64(3, table.rows);
    let groups = table.full_groups as usize + usize::from(table.last.is_some());
    out.list(4, STRUCT, groups);
    for (start, of) in table.groups() {
        out.bare_structure(|out| {
            out.list(1, STRUCT, of.chunks.len());
            for (number, (chunk, leaf)) in of.chunks.iter().zip(&table.leaves).enumerate() {
                let at = start + chunk.start;
                out.bare_structure(|out| {
                    out.i64(2, 0);
                    out.structure(3, |out| {
                        out.i32(1, kind_of(leaf.shape.element));
                        out.list(2, I32, 2);
                        for encoding in [PLAIN, RLE] {
                            out.bare_i32(encoding);
                        }
                        out.list(3, BINARY, leaf.path.len());
                        for name in &leaf.path {
                            out.bare_text(name);
                        }
                        out.i32(4, 0);
                        out.i64(5, chunk.values);
                        out.i64(6, chunk.len);
                        out.i64(7, chunk.len);
                        out.i64(9, at);
                        if has_statistics.get(number) == Some(&true) {
                            let layout = SlotLayout::of(&leaf.shape, chunk.values);
                            out.structure(12, |out| {
                                slots.push(Slot::new(out.bytes.len(), number, first, of.rows, layout));
                                layout.write(out, None);
                            });
                        }
                    });
                });
            }
            out.i64(2, of.len);
            out.i64(3, of.rows);
        });
        first += of.rows;
    }
    if !pairs.is_empty() {
        out.list(5, STRUCT, pairs.len());
        for (key, value) in pairs {
            out.bare_structure(|out| {
                out.text(1, key);
                out.text(2, value);
            });
        }
    }
    out.text(6, concat!("asdf-mount version ", env!("CARGO_PKG_VERSION")));
    // Values are ordered as their types say.
    out.list(7, STRUCT, table.leaves.len());
    for _ in &table.leaves {
        out.bare_structure(|out| out.structure(1, |_| {}));
    }
    let mut bytes = out.finish();
    // `layout` keeps the number of row groups small.
    let len = bytes.len() as u32;
    bytes.extend(len.to_le_bytes());
    bytes.extend(MAGIC);
    Footer { bytes, slots }
}

/// Returns the number of schema elements of a column.
fn count(column: &Column) -> usize {
    match column {
        Column::Values(_) => 1,
        Column::Group { columns, .. } => 1 + columns.iter().map(|(_, part)| count(part)).sum::<usize>(),
        Column::List(_, of) => 2 + count(of),
    }
}

fn group(out: &mut Writer, repetition: Option<i32>, name: &str, children: usize) {
    out.bare_structure(|out| {
        if let Some(repetition) = repetition {
            out.i32(3, repetition);
        }
        out.text(4, name);
        out.i32(5, children as i32);
    });
}

/// Writes the schema of a column. `in_nullable` is true if the column lies in a group that is missing
/// together with its values.
fn schema(out: &mut Writer, name: &str, column: &Column, in_nullable: bool) {
    let repetition = |nullable: bool| if nullable && !in_nullable { OPTIONAL } else { REQUIRED };
    match column {
        Column::Group { columns, nullable } => {
            group(out, Some(repetition(*nullable)), name, columns.len());
            for (part_name, part) in columns {
                schema(out, part_name, part, in_nullable || *nullable);
            }
        }
        Column::List(_, of) => {
            out.bare_structure(|out| {
                out.i32(3, REQUIRED);
                out.text(4, name);
                out.i32(5, 1);
                out.i32(6, LIST);
                out.structure(10, |out| out.structure(3, |_| {}));
            });
            group(out, Some(REPEATED), "list", 1);
            schema(out, "element", of, in_nullable);
        }
        Column::Values(values) => out.bare_structure(|out| {
            out.i32(1, kind_of(values.element));
            out.i32(3, repetition(values.missing.is_some()));
            out.text(4, name);
            meaning(out, values.element);
        }),
    }
}

fn kind_of(element: Element) -> i32 {
    match element {
        Element::Bool => kind::BOOLEAN,
        Element::Int { size: 8, .. } | Element::Timestamp(_) => kind::INT64,
        Element::Int { .. } => kind::INT32,
        Element::Float { size: 8 } => kind::DOUBLE,
        Element::Float { .. } => kind::FLOAT,
        Element::Ascii(_) | Element::Ucs4(_) => kind::BYTE_ARRAY,
    }
}

/// Writes the converted and the logical type.
fn meaning(out: &mut Writer, element: Element) {
    match element {
        Element::Int { size, signed } => {
            let older = UINT_8 + size.trailing_zeros() as i32 + if signed { 4 } else { 0 };
            out.i32(6, older);
            out.structure(10, |out| {
                out.structure(10, |out| {
                    out.byte(1, size * 8);
                    out.bool(2, signed);
                });
            });
        }
        Element::Timestamp(Timestamp { nanos, utc }) => {
            // The converted type means UTC.
            if utc && !nanos {
                out.i32(6, TIMESTAMP_MICROS);
            }
            out.structure(10, |out| {
                out.structure(8, |out| {
                    out.bool(1, utc);
                    out.structure(2, |out| out.structure(if nanos { 3 } else { 2 }, |_| {}));
                });
            });
        }
        Element::Ascii(_) | Element::Ucs4(_) => {
            out.i32(6, UTF8);
            out.structure(10, |out| out.structure(1, |_| {}));
        }
        Element::Bool | Element::Float { .. } => {}
    }
}
