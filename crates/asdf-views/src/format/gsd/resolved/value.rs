//! The bytes of a quantity, from its chunk or its default.

use std::sync::Arc;

use asdf_file::array::{Scalar, npy};
use seekable::content::{Content, Slice, Text, read_exact_at};
use seekable::error::{Error, Result};

use super::super::entry::IndexEntry;
use super::super::file::GsdFile;
use super::super::schema::{Numbers, Quantity, Rule};
use super::ValueOrigin;

/// Maximum size in bytes of all type names of a chunk together, which are assembled in memory.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum number of types.
const MAX_TYPES: u64 = 1 << 16;

/// Returns the content of a quantity's file.
///
/// # Errors
/// The chunk does not match the schema.
pub(super) fn content(
    file: &GsdFile,
    quantity: &Quantity,
    found: ValueOrigin,
    ending: &str,
) -> Result<Arc<dyn Content>> {
    let default = &quantity.default;
    match (quantity.rule, found) {
        (Rule::Types | Rule::Shapes, found) => {
            let words = match found {
                ValueOrigin::Chunk(entry) => words(file, &entry)?,
                ValueOrigin::Default(_) if default.bytes.is_empty() => Vec::new(),
                ValueOrigin::Default(_) => vec![default.bytes.to_vec()],
            };
            match ending {
                ".json" => Ok(Arc::new(Text::new(json(&words)))),
                ".txt" => Ok(Arc::new(Text::new(lines(&words)))),
                _ => strings(&words),
            }
        }
        (Rule::Number, ValueOrigin::Chunk(entry)) => {
            let shape = if entry.m == 1 { Vec::new() } else { vec![entry.m.into()] };
            let first = first_row(file, &entry)?;
            npy::little_endian(number(&entry)?, shape, Arc::new(first))
        }
        (_, ValueOrigin::Chunk(entry)) => {
            npy::little_endian(number(&entry)?, entry.shape(), Arc::new(file.data(&entry)?))
        }
        (Rule::Rows, ValueOrigin::Default(rows)) => {
            let shape: Vec<u64> = std::iter::once(rows).chain(default.columns).collect();
            npy::little_endian(default.scalar, shape, Arc::new(Repeated::new(default, rows)?))
        }
        (Rule::Number | Rule::WholeChunk, ValueOrigin::Default(_)) => {
            let shape: Vec<u64> = default.columns.into_iter().collect();
            npy::little_endian(default.scalar, shape, Arc::new(Text::new(default.bytes)))
        }
    }
}

/// Returns the first number of a chunk `…/N`.
pub(super) fn count(file: &GsdFile, entry: &IndexEntry) -> Result<u64> {
    let name = entry.element().map_or("?", |element| element.name);
    let row = first_row(file, entry)?;
    let mut bytes = [0; 8];
    let size = entry.element().map_or(0, |element| element.size() as usize);
    if !name.contains("int") {
        return Err(Error::damaged(format!("a number of rows can't be of type {name}")));
    }
    let bytes = &mut bytes[..size];
    read_exact_at(&row, 0, bytes)?;
    let is_negative = !name.starts_with('u') && bytes.last().is_some_and(|byte| *byte >= 128);
    if is_negative {
        return Err(Error::damaged("the number of rows is below 0"));
    }
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn number(entry: &IndexEntry) -> Result<Scalar> {
    match entry.element() {
        Some(element) if !element.is_text() => Ok(element.scalar),
        _ => Err(Error::damaged("the chunk holds characters, not numbers")),
    }
}

/// Returns the data of the first row of a chunk.
fn first_row(file: &GsdFile, entry: &IndexEntry) -> Result<Slice> {
    if entry.n == 0 || entry.m == 0 {
        return Err(Error::damaged("the chunk has no element"));
    }
    file.data(&IndexEntry { n: 1, ..*entry })
}

/// Returns the rows of a chunk of characters, each without trailing NULs.
fn words(file: &GsdFile, entry: &IndexEntry) -> Result<Vec<Vec<u8>>> {
    let data = file.data(entry)?;
    if entry.element().is_none_or(|element| element.size() != 1) || entry.m == 0 {
        return Err(Error::damaged(format!("{} are not rows of characters", entry.array())));
    }
    if data.len() > MAX_BYTES || entry.n > MAX_TYPES {
        let message = format!("{} are too many to be read as names: see arrays/frames", entry.array());
        return Err(Error::unsupported(message));
    }
    let mut bytes = vec![0; data.len() as usize];
    read_exact_at(&data, 0, &mut bytes)?;
    let word = |row: &[u8]| {
        let len = row.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        row[..len].to_vec()
    };
    Ok(bytes.chunks(entry.m as usize).map(word).collect())
}

fn lines(words: &[Vec<u8>]) -> Vec<u8> {
    words.iter().flat_map(|word| [word, &b"\n"[..]].concat()).collect()
}

fn json(texts: &[Vec<u8>]) -> Vec<u8> {
    [&b"["[..], &texts.join(&b", "[..]), b"]\n"].concat()
}

/// Returns the names as NumPy saves a list of strings: UTF-32, padded to the longest name. NumPy
/// saves an empty list as an array of float64.
fn strings(words: &[Vec<u8>]) -> Result<Arc<dyn Content>> {
    let wrong = |_| Error::damaged("a name is not UTF-8: types.txt has its bytes");
    let words: Vec<&str> =
        words.iter().map(|word| std::str::from_utf8(word).map_err(wrong)).collect::<Result<_>>()?;
    let longest = words.iter().map(|word| word.chars().count()).max();
    let Some(longest) = longest.map(|longest| longest.max(1)) else {
        return npy::little_endian(Scalar::Float64, vec![0], Arc::new(Text::default()));
    };
    if (longest * words.len()) as u64 > MAX_BYTES {
        return Err(Error::unsupported("the names of types are too long: types.txt has them"));
    }
    let mut data = Vec::with_capacity(4 * longest * words.len());
    for word in &words {
        let chars = word.chars().map(u32::from).chain(std::iter::repeat(0)).take(longest);
        data.extend(chars.flat_map(u32::to_le_bytes));
    }
    npy::little_endian(Scalar::Ucs4(longest as u64), vec![words.len() as u64], Arc::new(Text::new(data)))
}

/// One row, repeated up to a length in bytes.
#[derive(Debug)]
struct Repeated {
    row: &'static [u8],
    len: u64,
}

impl Repeated {
    fn new(row: &Numbers, rows: u64) -> Result<Self> {
        let row = row.bytes;
        let len = rows.checked_mul(row.len() as u64);
        let len = len.ok_or_else(|| Error::damaged(format!("{rows} rows are more than any file has")))?;
        Ok(Self { row, len })
    }
}

impl Content for Repeated {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let first = (offset % self.row.len().max(1) as u64) as usize;
        let buf = &mut buf[..wanted];
        let start = self.row.len().saturating_sub(first).min(wanted);
        buf[..start].copy_from_slice(&self.row[first..first + start]);
        for piece in buf[start..].chunks_mut(self.row.len().max(1)) {
            piece.copy_from_slice(&self.row[..piece.len()]);
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(content: &dyn Content) -> Vec<u8> {
        let mut bytes = vec![0; content.len() as usize];
        read_exact_at(content, 0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_row_repeats_from_any_offset() {
        let row = Numbers { scalar: Scalar::Uint8, columns: Some(3), bytes: b"abc" };
        let repeated = Repeated::new(&row, 4).unwrap();
        for offset in 0..15 {
            for len in 0..15 {
                let mut buf = vec![0; len];
                let read = repeated.read_at(offset as u64, &mut buf).unwrap();
                let rest = b"abcabcabcabc".get(offset..).unwrap_or_default();
                assert_eq!(&buf[..read], &rest[..rest.len().min(len)], "{len} at {offset}");
            }
        }
        assert!(Repeated::new(&row, u64::MAX / 2).is_err());
        assert_eq!(Repeated::new(&row, 1 << 60).unwrap().len(), 3 << 60);
        assert_eq!(Repeated::new(&row, 0).unwrap().len(), 0);
    }

    #[test]
    fn names_are_strings_as_numpy_saves_them() {
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        let two = all(&*strings(&words(&["A", "äb"])).unwrap());
        assert_eq!(two[128..], [65, 0, 0, 0, 0, 0, 0, 0, 0xe4, 0, 0, 0, 98, 0, 0, 0]);
        assert!(two.windows(5).any(|part| part == b"'<U2'"));
        assert_eq!(all(&*strings(&words(&[""])).unwrap()).len(), 132);
        assert!(all(&*strings(&[]).unwrap()).windows(5).any(|part| part == b"'<f8'"));
        assert!(strings(&[vec![0xff]]).is_err());
        assert!(strings(&vec![b"x".repeat(3); 1 << 19]).is_err());
        assert_eq!(
            (json(&[]), json(&words(&["{}", "{\"a\": 1}"]))),
            (b"[]\n".to_vec(), b"[{}, {\"a\": 1}]\n".to_vec())
        );
        assert_eq!(lines(&words(&["A", "b c"])), b"A\nb c\n");
    }
}
