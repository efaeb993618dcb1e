//! FlatBuffers encoding. All offsets point forward.

/// A part of a buffer.
#[derive(Clone, Debug)]
pub(super) enum BufferPart {
    /// A number or a boolean of at most four bytes.
    Number(u32),
    Text(String),
    List(Vec<BufferPart>),
    /// A table of fields by number; `None` for a field with its default.
    Table(Vec<Option<BufferPart>>),
}

/// Length of an offset, and of every field used here, in bytes.
const OFFSET_LEN: usize = 4;

/// Encodes a buffer with this root.
pub(super) fn buffer(root: &BufferPart) -> Vec<u8> {
    let mut out = vec![0; OFFSET_LEN];
    let at = write(root, &mut out);
    refer(&mut out, 0, at);
    out
}

/// Sets the offset at `place` to a part at `to`, which comes after it.
fn refer(out: &mut [u8], place: usize, to: usize) {
    if let Some(bytes) = out.get_mut(place..place + OFFSET_LEN) {
        // Schemas are far shorter than 4 GiB: `Table::new` limits names and columns.
        bytes.copy_from_slice(&((to - place) as u32).to_le_bytes());
    }
}

/// Appends a part and all parts that it refers to. Returns the position of the part.
fn write(part: &BufferPart, out: &mut Vec<u8>) -> usize {
    out.resize(out.len().next_multiple_of(OFFSET_LEN), 0);
    let start = out.len();
    match part {
        BufferPart::Number(number) => out.extend(number.to_le_bytes()),
        BufferPart::Text(text) => {
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.as_bytes());
            out.push(0);
        }
        BufferPart::List(items) => {
            out.extend((items.len() as u32).to_le_bytes());
            let first = out.len();
            out.resize(first + OFFSET_LEN * items.len(), 0);
            for (n, item) in items.iter().enumerate() {
                let at = write(item, out);
                refer(out, first + OFFSET_LEN * n, at);
            }
        }
        BufferPart::Table(fields) => return table(fields, out),
    }
    start
}

/// Appends a table: its vtable, its fields, and the parts that they refer to. Returns the position of the
/// fields.
fn table(fields: &[Option<BufferPart>], out: &mut Vec<u8>) -> usize {
    let start = out.len();
    let count = fields.iter().flatten().count();
    let head = [2 * (2 + fields.len()), OFFSET_LEN * (1 + count)];
    for len in &head {
        out.extend((*len as u16).to_le_bytes());
    }
    let mut next_place = OFFSET_LEN;
    for field in fields {
        let at = if field.is_some() { next_place } else { 0 };
        out.extend((at as u16).to_le_bytes());
        next_place += if field.is_some() { OFFSET_LEN } else { 0 };
    }
    out.resize(out.len().next_multiple_of(OFFSET_LEN), 0);
    let table = out.len();
    out.extend(((table - start) as u32).to_le_bytes());
    let first = out.len();
    out.resize(first + OFFSET_LEN * count, 0);
    for (n, field) in fields.iter().flatten().enumerate() {
        let place = first + OFFSET_LEN * n;
        match field {
            BufferPart::Number(number) => {
                if let Some(bytes) = out.get_mut(place..place + OFFSET_LEN) {
                    bytes.copy_from_slice(&number.to_le_bytes());
                }
            }
            field => {
                let at = write(field, out);
                refer(out, place, at);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_tells_where_its_fields_are() {
        let bytes = buffer(&BufferPart::Table(vec![
            Some(BufferPart::Number(7)),
            None,
            Some(BufferPart::Text("ab".to_owned())),
        ]));
        let wanted = [
            [16, 0, 0, 0],  // offset of the root
            [10, 0, 12, 0], // vtable: length of vtable and table
            [4, 0, 0, 0],   // field 0, no field 1
            [8, 0, 0, 0],   // field 2
            [12, 0, 0, 0],  // table: distance to the vtable
            [7, 0, 0, 0],
            [4, 0, 0, 0], // offset of the text
            [2, 0, 0, 0],
            [b'a', b'b', 0, 0],
        ];
        assert_eq!(bytes, wanted.concat()[..bytes.len()]);
    }
}
