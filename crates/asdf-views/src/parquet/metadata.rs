//! Metadata of columns: for Arrow readers as metadata of fields (`ARROW:schema`), for astropy in its own form
//! (`table_meta_yaml`).

use std::fmt::Write;

use super::flatbuffer::{BufferPart, buffer};
use super::{Column, Element, Timestamp};
use base64::prelude::{BASE64_STANDARD, Engine};

/// Metadata of a column: keys and values.
pub type Facts = Vec<(&'static str, String)>;

/// Metadata keys that astropy knows.
const OF_ASTROPY: [&str; 2] = ["unit", "description"];

/// Type numbers of Arrow.
mod kind {
    pub(super) const INT: u32 = 2;
    pub(super) const FLOAT: u32 = 3;
    pub(super) const UTF8: u32 = 5;
    pub(super) const BOOL: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 10;
    pub(super) const LIST: u32 = 12;
    pub(super) const STRUCT: u32 = 13;
}

/// Returns the file's key-value metadata, empty if neither a column nor the table has facts.
pub(super) fn pairs(
    columns: &[(String, Column)],
    facts: &[Facts],
    meta: Option<&str>,
) -> Vec<(String, String)> {
    if meta.is_none() && facts.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let mut yaml = yaml(columns, facts);
    if let Some(meta) = meta {
        let _ = write!(yaml, "\nmeta: {meta}");
    }
    let mut pairs = vec![("table_meta_yaml".to_owned(), yaml)];
    for (name, column) in columns {
        if let Column::Values(values) = column
            && let Element::Ascii(len) | Element::Ucs4(len) = values.element
        {
            pairs.push((format!("table::len::{name}"), len.to_string()));
        }
    }
    // Arrow readers ignore the file's key-value pairs if there is a schema, so the schema repeats them.
    let schema = BASE64_STANDARD.encode(message(columns, facts, &pairs));
    pairs.push(("ARROW:schema".to_owned(), schema));
    pairs
}

/// Returns the schema as a message of Arrow's IPC format.
fn message(columns: &[(String, Column)], facts: &[Facts], pairs: &[(String, String)]) -> Vec<u8> {
    let none = Facts::new();
    let facts = facts.iter().chain(std::iter::repeat(&none));
    let fields = columns.iter().zip(facts).map(|((name, column), facts)| field(name, column, false, facts));
    let pairs = pairs.iter().map(|(key, value)| pair(key, value)).collect();
    let schema = BufferPart::Table(vec![
        None,
        Some(BufferPart::List(fields.collect())),
        Some(BufferPart::List(pairs)),
    ]);
    // Metadata version V5 and message type Schema.
    let message =
        BufferPart::Table(vec![Some(BufferPart::Number(4)), Some(BufferPart::Number(1)), Some(schema)]);
    let mut bytes = buffer(&message);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let mut whole = vec![0xff; 4];
    whole.extend((bytes.len() as u32).to_le_bytes());
    whole.extend(bytes);
    whole
}

/// Returns the field of a column. `in_nullable` is true if the column lies in a group that is missing
/// together with its values.
fn field(name: &str, column: &Column, in_nullable: bool, facts: &Facts) -> BufferPart {
    let no_facts = Facts::new();
    let (nullable, kind, of, children) = match column {
        Column::Values(values) => {
            let (kind, of) = element(values.element);
            (values.missing.is_some() && !in_nullable, kind, of, Vec::new())
        }
        Column::Group { columns, nullable } => {
            let inner = in_nullable || *nullable;
            let child = |(part_name, part): &(String, Column)| field(part_name, part, inner, &no_facts);
            (*nullable && !in_nullable, kind::STRUCT, Vec::new(), columns.iter().map(child).collect())
        }
        Column::List(_, of) => {
            let child = field("element", of, in_nullable, &no_facts);
            (false, kind::LIST, Vec::new(), vec![child])
        }
    };
    BufferPart::Table(vec![
        Some(BufferPart::Text(name.to_owned())),
        Some(BufferPart::Number(nullable.into())),
        Some(BufferPart::Number(kind)),
        Some(BufferPart::Table(of)),
        None,
        Some(BufferPart::List(children)),
        (!facts.is_empty())
            .then(|| BufferPart::List(facts.iter().map(|(key, value)| pair(key, value)).collect())),
    ])
}

fn pair(key: &str, value: &str) -> BufferPart {
    BufferPart::Table(vec![Some(BufferPart::Text(key.to_owned())), Some(BufferPart::Text(value.to_owned()))])
}

/// Returns the number of a type, and the fields of its definition.
fn element(element: Element) -> (u32, Vec<Option<BufferPart>>) {
    match element {
        Element::Int { size, signed } => {
            let bits = 8 * u32::from(size);
            (kind::INT, vec![Some(BufferPart::Number(bits)), Some(BufferPart::Number(signed.into()))])
        }
        // float16 is written as float32.
        Element::Float { size } => {
            (kind::FLOAT, vec![Some(BufferPart::Number(if size == 8 { 2 } else { 1 }))])
        }
        Element::Timestamp(Timestamp { nanos, utc }) => {
            let zone = utc.then(|| BufferPart::Text("UTC".to_owned()));
            (kind::TIMESTAMP, vec![Some(BufferPart::Number(if nanos { 3 } else { 2 })), zone])
        }
        Element::Bool => (kind::BOOL, Vec::new()),
        Element::Ascii(_) | Element::Ucs4(_) => (kind::UTF8, Vec::new()),
    }
}

/// Returns astropy's description of the columns, in YAML.
fn yaml(columns: &[(String, Column)], facts: &[Facts]) -> String {
    let none = Facts::new();
    let facts = facts.iter().chain(std::iter::repeat(&none));
    let mut text = "datatype:\n".to_owned();
    for ((name, column), of_column) in columns.iter().zip(facts) {
        let _ = write!(text, "- {{name: {}", quoted(name));
        for (key, value) in of_column.iter().filter(|(key, _)| OF_ASTROPY.contains(key)) {
            let _ = write!(text, ", {key}: {}", quoted(value));
        }
        let _ = writeln!(text, ", datatype: {}}}", datatype(column));
    }
    text.pop();
    text
}

/// Returns numpy's name for the type of a column, as a YAML scalar.
fn datatype(column: &Column) -> String {
    match column {
        Column::Values(values) => match values.element {
            Element::Int { size, signed } => {
                format!("{}int{}", if signed { "" } else { "u" }, 8 * u32::from(size))
            }
            Element::Float { size } => format!("float{}", 8 * u32::from(size.max(4))),
            Element::Timestamp(Timestamp { nanos, .. }) => {
                format!("\"datetime64[{}]\"", if nanos { "ns" } else { "us" })
            }
            Element::Bool => "bool".to_owned(),
            Element::Ascii(_) | Element::Ucs4(_) => "string".to_owned(),
        },
        Column::List(_, of) => datatype(of),
        Column::Group { .. } => "object".to_owned(),
    }
}

/// Formats a text as a double-quoted YAML scalar on one line.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            ' '..='~' => quoted.push(char),
            _ => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(char));
            }
        }
    }
    quoted.push('"');
    quoted
}
