//! Columns read as rows, with one field per column.

use std::sync::Arc;

use seekable::error::{Error, Result};

use seekable::content::{Content, fill, read_exact_at};

/// Maximum size of rows built at once, in bytes, unless a single row is longer.
const SPAN: u64 = 256 << 10;
/// Maximum length of a row, in bytes.
const MAX_ROW: u64 = 1 << 20;

/// The rows of a table that is stored by columns.
#[derive(Debug)]
pub struct Interleaved {
    columns: Vec<Arc<dyn Content>>,
    /// The length in bytes of a field of each column.
    widths: Vec<u64>,
    row: u64,
    len: u64,
}

impl Interleaved {
    /// Makes `rows` rows of columns. Each column has the length of its fields in bytes.
    ///
    /// # Errors
    /// A column does not have `rows` fields, or a row is longer than 1 MiB.
    pub fn new(columns: Vec<(Arc<dyn Content>, u64)>, rows: u64) -> Result<Self> {
        let mut row = 0_u64;
        for (column, width) in &columns {
            if width.checked_mul(rows) != Some(column.len()) {
                return Err(Error::damaged("the columns of the table differ in length"));
            }
            row = row
                .checked_add(*width)
                .filter(|row| *row <= MAX_ROW)
                .ok_or_else(|| Error::unsupported("a row of the table is longer than 1 MiB"))?;
        }
        let len = row.checked_mul(rows).filter(|len| *len <= i64::MAX as u64);
        let len = len.ok_or_else(|| Error::damaged("the table is longer than any file can be"))?;
        let (columns, widths) = columns.into_iter().unzip();
        Ok(Self { columns, widths, row, len })
    }

    /// Builds `count` rows from row `n` on.
    fn rows(&self, n: u64, count: u64) -> Result<Vec<u8>> {
        let mut rows = vec![0; (count * self.row) as usize];
        let mut at = 0;
        for (column, width) in self.columns.iter().zip(&self.widths).filter(|(_, width)| **width > 0) {
            let width_here = *width as usize;
            let mut fields = vec![0; (count * width) as usize];
            read_exact_at(&**column, n * width, &mut fields)?;
            let places = rows.chunks_exact_mut(self.row as usize);
            for (field, row) in fields.chunks_exact(width_here).zip(places) {
                row[at..at + width_here].copy_from_slice(field);
            }
            at += width_here;
        }
        Ok(rows)
    }
}

impl Content for Interleaved {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        fill(&mut buf[..wanted], |done, rest| {
            let at = offset + done as u64;
            let n = at / self.row;
            let within = at % self.row;
            let count = (within + rest.len() as u64).div_ceil(self.row).min((SPAN / self.row).max(1));
            let rows = match self.rows(n, count) {
                // Rows before the unreadable one may be readable.
                Err(_) if count > 1 => self.rows(n, 1)?,
                rows => rows?,
            };
            let from = &rows[within as usize..];
            let len = from.len().min(rest.len());
            rest[..len].copy_from_slice(&from[..len]);
            Ok(len)
        })
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        &self.columns
    }

    fn first_broken(&self, n: usize, at: u64) -> u64 {
        at / self.widths.get(n).map_or(1, |width| (*width).max(1)) * self.row
    }

    fn is_slow(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekable::content::{Slice, Soundness, Text};
    use seekable::source::{MemorySource, Source};

    fn column(bytes: &[u8], width: u64) -> (Arc<dyn Content>, u64) {
        (Arc::new(Text::new(bytes)), width)
    }

    #[test]
    fn rows_have_a_field_of_each_column() {
        let table =
            Interleaved::new(vec![column(b"abcdef", 2), column(b"", 0), column(b"XYZ", 1)], 3).unwrap();
        for piece in 1..12 {
            let mut all = Vec::new();
            let mut buf = vec![0; piece];
            while let read @ 1.. = table.read_at(all.len() as u64, &mut buf).unwrap() {
                all.extend_from_slice(&buf[..read]);
            }
            assert_eq!(all, b"abXcdYefZ", "{piece}");
        }
        assert_eq!(table.read_at(u64::MAX, &mut [0]).unwrap(), 0);
    }

    #[test]
    fn rows_before_a_fault_can_be_had() {
        let source: Arc<dyn Source> = Arc::new(MemorySource(b"abcd".to_vec()));
        let cut: Arc<dyn Content> = Arc::new(Slice::new(source, 0, 6));
        let table = Interleaved::new(vec![(cut, 2), column(b"XYZ", 1)], 3).unwrap();
        let mut buf = [0; 9];
        assert_eq!(table.read_at(1, &mut buf).unwrap(), 5);
        assert_eq!(&buf[..5], b"bXcdY");
        assert!(table.read_at(6, &mut buf).is_err());
        assert_eq!(table.soundness(), Soundness::Broken(6));
    }

    #[test]
    fn columns_of_other_lengths_are_refused() {
        assert!(Interleaved::new(vec![column(b"abc", 2)], 2).is_err());
        assert!(Interleaved::new(vec![column(b"abc", u64::MAX)], 2).is_err());
        assert_eq!(Interleaved::new(Vec::new(), 9).unwrap().len(), 0);
        assert!(Interleaved::new(vec![column(&[0; 4 << 20], 2 << 20)], 2).is_err());
    }
}
