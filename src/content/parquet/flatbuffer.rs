//! Tables as FlatBuffers has them. Each lies before what it refers to.

/// A part of a buffer.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// A number, or a truth value, of at most four bytes.
    Number(u32),
    Text(String),
    List(Vec<Part>),
    /// Fields by number; `None` for one that has its default.
    Table(Vec<Option<Part>>),
}

/// Bytes of a reference, and of a field here.
const UNIT: usize = 4;

/// A buffer with `root` in it.
pub(super) fn buffer(root: &Part) -> Vec<u8> {
    let mut out = vec![0; UNIT];
    let at = write(root, &mut out);
    refer(&mut out, 0, at);
    out
}

/// Sets the reference at a place to a part behind it.
fn refer(out: &mut [u8], place: usize, to: usize) {
    if let Some(bytes) = out.get_mut(place..place + UNIT) {
        // Schemas are far shorter than 4 GiB: `Table::new` bounds names and columns.
        bytes.copy_from_slice(&((to - place) as u32).to_le_bytes());
    }
}

/// Appends a part, and what it refers to; where it begins.
fn write(part: &Part, out: &mut Vec<u8>) -> usize {
    out.resize(out.len().next_multiple_of(UNIT), 0);
    let start = out.len();
    match part {
        Part::Number(number) => out.extend(number.to_le_bytes()),
        Part::Text(text) => {
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.as_bytes());
            out.push(0);
        }
        Part::List(items) => {
            out.extend((items.len() as u32).to_le_bytes());
            let first = out.len();
            out.resize(first + UNIT * items.len(), 0);
            for (n, item) in items.iter().enumerate() {
                let at = write(item, out);
                refer(out, first + UNIT * n, at);
            }
        }
        Part::Table(fields) => return table(fields, out),
    }
    start
}

/// Appends a table: where its fields are, the fields, and what they refer to; where the fields begin.
fn table(fields: &[Option<Part>], out: &mut Vec<u8>) -> usize {
    let start = out.len();
    let count = fields.iter().flatten().count();
    let head = [2 * (2 + fields.len()), UNIT * (1 + count)];
    head.iter().for_each(|len| out.extend((*len as u16).to_le_bytes()));
    let mut place = UNIT;
    for field in fields {
        let at = if field.is_some() { place } else { 0 };
        out.extend((at as u16).to_le_bytes());
        place += if field.is_some() { UNIT } else { 0 };
    }
    out.resize(out.len().next_multiple_of(UNIT), 0);
    let table = out.len();
    out.extend(((table - start) as u32).to_le_bytes());
    let first = out.len();
    out.resize(first + UNIT * count, 0);
    for (n, field) in fields.iter().flatten().enumerate() {
        let place = first + UNIT * n;
        match field {
            Part::Number(number) => {
                if let Some(bytes) = out.get_mut(place..place + UNIT) {
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
        let bytes =
            buffer(&Part::Table(vec![Some(Part::Number(7)), None, Some(Part::Text("ab".to_owned()))]));
        let wanted = [
            [16, 0, 0, 0],  // the root
            [10, 0, 12, 0], // bytes of this list, and of the table
            [4, 0, 0, 0],   // the first field, none
            [8, 0, 0, 0],   // the third field
            [12, 0, 0, 0],  // back to the list
            [7, 0, 0, 0],
            [4, 0, 0, 0], // to the text
            [2, 0, 0, 0],
            [b'a', b'b', 0, 0],
        ];
        assert_eq!(bytes, wanted.concat()[..bytes.len()]);
    }
}
