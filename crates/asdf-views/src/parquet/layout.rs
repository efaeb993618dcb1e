//! Places of the row groups, column chunks and pages of a table.

use seekable::error::{Error, Result};

use super::footer::page_header;
use super::values::ColumnShape;

/// Rows of a row group, about as many as in files of DuckDB: a query for a single row reads a whole group. Very
/// long tables have longer groups.
const GROUP_ROWS: u64 = 1 << 17;
/// Maximum number of column chunks of a table with several row groups: the footer describes each chunk.
const MAX_CHUNKS: u64 = 1 << 14;
/// Rows of a page whose values are the array's own bytes: at most 8 MiB, with 8 bytes a value.
const PLAIN_ROWS: u64 = 1 << 20;
/// Size of a generated page in bytes, unless a single row is longer.
const MADE_PAGE: u64 = 64 << 10;
/// Maximum length of a row in a generated page, in bytes.
const MAX_ROW: u64 = 16 << 20;

/// Returns the number of rows in a row group, for a table of this size.
pub(super) fn group_rows(rows: u64, columns: usize) -> u64 {
    let most_groups = (MAX_CHUNKS / (columns as u64).max(1)).max(1);
    let least = rows.div_ceil(most_groups);
    least.checked_next_power_of_two().unwrap_or(u64::MAX).max(GROUP_ROWS)
}

/// Returns an error if pages can't be generated from the rows of a column.
pub(super) fn row_fits(shape: &ColumnShape, per_row: u64) -> Result<()> {
    if per_row == 0 {
        return Err(Error::unsupported("its lists have no items"));
    }
    match shape.page_len(per_row).filter(|len| *len <= MAX_ROW && per_row <= MAX_ROW) {
        Some(_) => Ok(()),
        None => Err(Error::unsupported(format!("one of its rows is longer than {} MiB", MAX_ROW >> 20))),
    }
}

/// Returns the number of rows in a page of a column.
fn page_rows(shape: &ColumnShape, per_row: u64) -> u64 {
    if shape.is_plain() {
        return PLAIN_ROWS;
    }
    let row = shape.page_len(per_row).unwrap_or(MAX_ROW).max(per_row * shape.element.size());
    (MADE_PAGE / row.max(1)).clamp(1, MADE_PAGE)
}

/// A row group: its column chunks one after the other.
#[derive(Debug)]
pub(super) struct Group {
    pub rows: u64,
    pub len: u64,
    pub chunks: Vec<ColumnChunk>,
}

/// A column chunk: the pages of a column in a row group.
#[derive(Debug)]
pub(super) struct ColumnChunk {
    /// The offset in the row group.
    pub start: u64,
    pub len: u64,
    pub values: u64,
    /// Rows of a page.
    page_rows: u64,
    per_row: u64,
    rows: u64,
    /// Length of a page with `page_rows` rows, in bytes: with and without its header.
    full: (u64, u64),
    /// Length of the last page if it has fewer rows, in bytes.
    last: u64,
}

/// A page, and a position in it.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub header: Vec<u8>,
    /// The length without the header, in bytes.
    pub len: u64,
    /// The number of the page's first row.
    pub row: u64,
    pub rows: u64,
    /// The position, counted from the start of the header.
    pub within: u64,
}

impl Group {
    pub(super) fn new<'s>(columns: impl Iterator<Item = (&'s ColumnShape, u64)>, rows: u64) -> Result<Self> {
        let mut group = Self { rows, len: 0, chunks: Vec::new() };
        for (shape, per_row) in columns {
            let chunk = ColumnChunk::new(shape, per_row, rows, group.len);
            let chunk = chunk.ok_or_else(|| Error::damaged("the table is longer than any file can be"))?;
            group.len += chunk.len;
            group.chunks.push(chunk);
        }
        Ok(group)
    }

    /// Returns the column and the page at an offset. Rows are counted from the start of the group.
    pub(super) fn page_at(&self, offset: u64) -> Option<(usize, Page)> {
        let column = self.chunks.partition_point(|chunk| chunk.start <= offset).checked_sub(1)?;
        let chunk = self.chunks.get(column)?;
        chunk.page_at(offset - chunk.start).map(|page| (column, page))
    }
}

impl ColumnChunk {
    fn new(shape: &ColumnShape, per_row: u64, rows: u64, start: u64) -> Option<Self> {
        let page_rows = page_rows(shape, per_row).min(rows.max(1));
        let size = |count: u64| -> Option<(u64, u64)> {
            let values = count.checked_mul(per_row)?;
            let len = shape.page_len(values)?;
            Some((len.checked_add(page_header(len, values).len() as u64)?, len))
        };
        let full = size(page_rows)?;
        let (last, rest) = match rows % page_rows {
            0 => (0, 0),
            rest => {
                let (whole, len) = size(rest)?;
                (len, whole)
            }
        };
        let len = full.0.checked_mul(rows / page_rows)?.checked_add(rest)?;
        start.checked_add(len).filter(|end| *end <= i64::MAX as u64)?;
        Some(Self { start, len, values: rows.checked_mul(per_row)?, page_rows, per_row, rows, full, last })
    }

    fn page_at(&self, offset: u64) -> Option<Page> {
        if offset >= self.len {
            return None;
        }
        let number = offset / self.full.0;
        let row = number * self.page_rows;
        let rows = self.page_rows.min(self.rows - row);
        let len = if rows == self.page_rows { self.full.1 } else { self.last };
        let header = page_header(len, rows * self.per_row);
        Some(Page { header, len, row, rows, within: offset - number * self.full.0 })
    }
}
