//! `.parquet`, a table of columns (Apache Parquet 2), generated while it is read.
//!
//! The length of the file and the place of each value follow from the column types and the number of rows.
//! All pages use the encoding PLAIN without compression, and all pages of a column chunk except the last have
//! the same length. Numbers that need no conversion are lent from the column's content. All other pages are
//! generated from their own rows when they are read. Texts and missing values may be shorter than the
//! reserved space; the end of their page is then padding, so that its length stays the same. Statistics are
//! found when the footer is first read.
//!
//! | module | what it does |
//! |---|---|
//! | [`thrift`] | Thrift's compact protocol, for headers and footer |
//! | [`values`] | values and levels in a page |
//! | [`layout`] | places of row groups, column chunks and pages |
//! | [`footer`] | page headers and file footer |
//! | [`statistics`] | statistics of column chunks, and their places in the footer |
//! | [`metadata`], [`flatbuffer`] | metadata of columns; its encoding for Arrow |

use std::any::Any;
use std::sync::{Arc, OnceLock};

use seekable::error::{Error, Result};

use seekable::content::{Content, SharedBytes, Soundness, Stored, copy_from, fill, read_exact_at};

use self::footer::Footer;
use self::layout::{Group, Page};
use self::statistics::ChunkStatistics;
use self::values::ColumnShape;

mod flatbuffer;
mod footer;
mod layout;
mod metadata;
mod statistics;
mod thrift;
mod values;

pub use metadata::{Facts, quoted};
pub use statistics::SharedStatistics;
pub use values::{Element, Timestamp};

const MAGIC: &[u8; 4] = b"PAR1";

/// The definition and the data of a column.
#[derive(Clone, Debug)]
pub(crate) enum Column {
    /// A column of values.
    Values(Values),
    /// A group of named columns.
    Group {
        /// The columns.
        columns: Vec<(String, Column)>,
        /// True if whole groups may be missing. No column in the group may then be a list, and all share one
        /// `missing`.
        nullable: bool,
    },
    /// Lists with this number of items.
    List(u64, Box<Column>),
}

/// The values of a column.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    /// The type of a value.
    pub element: Element,
    /// True if values are big-endian.
    pub big_endian: bool,
    /// All values, contiguous.
    pub content: Arc<dyn Content>,
    /// A byte for each value: not 0 if the value is missing.
    pub missing: Option<Arc<dyn Content>>,
}

/// A column of values and its path in the schema.
#[derive(Debug)]
struct Leaf {
    path: Vec<String>,
    shape: ColumnShape,
    per_row: u64,
    content: Arc<dyn Content>,
    missing: Option<Arc<dyn Content>>,
}

/// A column of values in a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableColumn<'t> {
    /// The name, after those of the groups that the column is in.
    pub path: &'t [String],
    /// The type of a value.
    pub element: Element,
    /// True if values are big-endian.
    pub big_endian: bool,
    /// The number of values in a row.
    pub per_row: u64,
    /// All values, contiguous.
    pub content: &'t Arc<dyn Content>,
    /// A byte for each value: not 0 if the value is missing.
    pub missing: Option<&'t Arc<dyn Content>>,
}

/// A table as a Parquet file.
#[derive(Debug)]
pub(crate) struct ParquetTable {
    leaves: Vec<Leaf>,
    /// The contents of all leaves.
    contents: Vec<Arc<dyn Content>>,
    rows: u64,
    /// The row groups of full size, and the shorter one after them.
    full: Group,
    full_groups: u64,
    last: Option<Group>,
    footer: Footer,
    /// The offset of the footer.
    footer_at: u64,
    statistics: SharedStatistics,
    /// The footer with statistics.
    final_footer: OnceLock<Vec<u8>>,
}

impl ParquetTable {
    /// Makes a table of named columns.
    ///
    /// # Errors
    /// A row of a column is too long or has lists without items, or the file would be longer than any file
    /// can be.
    pub(crate) fn new(columns: &[(String, Column)], rows: u64) -> Result<Self> {
        Self::with_facts(columns, rows, &[], None)
    }

    /// Makes a table of named columns with metadata for each column. `meta` is the metadata of the table, as YAML on one
    /// line.
    ///
    /// # Errors
    /// See [`ParquetTable::new`].
    pub(crate) fn with_facts(
        columns: &[(String, Column)],
        rows: u64,
        facts: &[Facts],
        meta: Option<&str>,
    ) -> Result<Self> {
        let mut leaves = Vec::new();
        for (name, column) in columns {
            column.leaves(&mut vec![name.clone()], &mut Vec::new(), &mut leaves)?;
        }
        let group_rows = layout::group_rows(rows, leaves.len()).min(rows);
        let group_of = |rows| Group::new(leaves.iter().map(|leaf| (&leaf.shape, leaf.per_row)), rows);
        let full = group_of(group_rows)?;
        let full_groups = rows.checked_div(full.rows).unwrap_or(0);
        let rest = rows - full_groups * full.rows;
        let last = if rest == 0 { None } else { Some(group_of(rest)?) };
        let too_long = || Error::damaged("the table is longer than any file can be");
        let mut footer_at = full.len.checked_mul(full_groups).ok_or_else(too_long)?;
        for len in [last.as_ref().map_or(0, |group| group.len), MAGIC.len() as u64] {
            footer_at = footer_at.checked_add(len).ok_or_else(too_long)?;
        }
        let contents_of = |leaf: &Leaf| std::iter::once(leaf.content.clone()).chain(leaf.missing.clone());
        let mut table = Self {
            contents: leaves.iter().flat_map(contents_of).collect(),
            leaves,
            rows,
            full,
            full_groups,
            last,
            footer: Footer::default(),
            footer_at,
            statistics: SharedStatistics::default(),
            final_footer: OnceLock::new(),
        };
        table.footer = footer::footer(columns, &metadata::pairs(columns, facts, meta), &table);
        let len = footer_at.checked_add(table.footer.bytes.len() as u64);
        if len.is_none_or(|len| len > i64::MAX as u64) {
            return Err(too_long());
        }
        Ok(table)
    }

    /// Uses, or finds, the statistics of this table that its files share.
    #[must_use]
    pub(crate) fn with_statistics(self, statistics: SharedStatistics) -> Self {
        Self { statistics, ..self }
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the columns of values, with those in groups and lists.
    pub(crate) fn columns(&self) -> impl Iterator<Item = TableColumn<'_>> {
        self.leaves.iter().map(|leaf| TableColumn {
            path: &leaf.path,
            element: leaf.shape.element,
            big_endian: leaf.shape.big_endian,
            per_row: leaf.per_row,
            content: &leaf.content,
            missing: leaf.missing.as_ref(),
        })
    }

    /// Returns the footer with statistics, for which all columns with statistics are read once.
    ///
    /// # Errors
    /// A column can't be read at the moment. Damage of a column only costs its statistics.
    fn final_footer(&self) -> Result<&[u8]> {
        if let Some(footer) = self.final_footer.get() {
            return Ok(footer);
        }
        let mut footer = self.footer.bytes.clone();
        for (slot, found) in self.footer.slots.iter().zip(self.found_statistics()?) {
            let bytes = slot.bytes(found.as_ref());
            if let Some(place) = footer.get_mut(slot.at..slot.at + bytes.len()) {
                place.copy_from_slice(&bytes);
            }
        }
        Ok(self.final_footer.get_or_init(|| footer))
    }

    fn found_statistics(&self) -> Result<&[Option<ChunkStatistics>]> {
        if let Some(found) = self.statistics.get() {
            return Ok(found);
        }
        let mut found = Vec::new();
        for slot in &self.footer.slots {
            let statistics =
                match self.leaves.get(slot.leaf).map(|leaf| leaf.statistics(slot.first, slot.rows)) {
                    Some(Ok(statistics)) => Some(statistics),
                    Some(Err(error)) if error.is_of_reading() => return Err(error),
                    Some(Err(error)) => {
                        tracing::debug!("no statistics: {error}");
                        None
                    }
                    None => None,
                };
            found.push(statistics);
        }
        Ok(self.statistics.get_or_init(|| found))
    }

    /// Returns the row groups, each with its offset.
    fn groups(&self) -> impl Iterator<Item = (u64, &Group)> {
        let start = MAGIC.len() as u64;
        let full = (0..self.full_groups).map(move |n| (start + n * self.full.len, &self.full));
        full.chain(self.last.iter().map(move |last| (start + self.full_groups * self.full.len, last)))
    }

    /// Returns the column and page at an offset between magic and footer.
    fn at(&self, offset: u64) -> Option<(&Leaf, Page)> {
        let within = offset.checked_sub(MAGIC.len() as u64)?;
        let number = within.checked_div(self.full.len)?.min(self.full_groups);
        let group = if number < self.full_groups { &self.full } else { self.last.as_ref()? };
        let (column, page) = group.page_at(within - number * self.full.len)?;
        let leaf = self.leaves.get(column)?;
        Some((leaf, Page { row: page.row + number * self.full.rows, ..page }))
    }

    /// Reads from a single page, or from the magic or the footer.
    fn read_part(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if let Some(within) = offset.checked_sub(self.footer_at) {
            return Ok(copy_from(self.final_footer()?, within, buf));
        }
        if offset < MAGIC.len() as u64 {
            return Ok(copy_from(MAGIC, offset, buf));
        }
        let Some((leaf, page)) = self.at(offset) else { return Ok(0) };
        let Some(within) = page.within.checked_sub(page.header.len() as u64) else {
            return Ok(copy_from(&page.header, page.within, buf));
        };
        let len = (page.len - within).min(buf.len() as u64) as usize;
        if leaf.shape.is_plain() {
            let start = page.row * leaf.shape.element.size() + within;
            return leaf.content.read_at(start, &mut buf[..len]);
        }
        Ok(copy_from(&leaf.page(&page)?, within, &mut buf[..len]))
    }

    /// Returns the column with unconverted values at `offset`, the offset in that column, and the number of
    /// bytes that follow in the page.
    fn plain_at(&self, offset: u64) -> Option<(&Leaf, u64, u64)> {
        let (leaf, page) = self.at(offset).filter(|_| offset < self.footer_at)?;
        let within = page.within.checked_sub(page.header.len() as u64)?;
        let start = page.row * leaf.shape.element.size() + within;
        leaf.shape.is_plain().then_some((leaf, start, page.len - within))
    }
}

impl Column {
    /// Adds all columns of values in this column.
    fn leaves(&self, path: &mut Vec<String>, lists: &mut Vec<u64>, leaves: &mut Vec<Leaf>) -> Result<()> {
        match self {
            Self::Group { columns, .. } => {
                for (name, column) in columns {
                    path.push(name.clone());
                    column.leaves(path, lists, leaves)?;
                    path.pop();
                }
            }
            Self::List(len, of) => {
                lists.push(*len);
                path.extend(["list".to_owned(), "element".to_owned()]);
                of.leaves(path, lists, leaves)?;
                path.truncate(path.len() - 2);
                lists.pop();
            }
            Self::Values(values) => {
                let Values { element, big_endian, content, missing } = values.clone();
                let shape =
                    ColumnShape { element, big_endian, lists: lists.clone(), nullable: missing.is_some() };
                let per_row = shape.per_row().unwrap_or(u64::MAX);
                layout::row_fits(&shape, per_row)?;
                leaves.push(Leaf { path: path.clone(), shape, per_row, content, missing });
            }
        }
        Ok(())
    }
}

impl Leaf {
    /// Returns the levels and values of a page.
    fn page(&self, page: &Page) -> Result<Vec<u8>> {
        let first = page.row * self.per_row;
        let count = page.rows * self.per_row;
        // `layout` keeps generated pages small.
        let size = self.shape.element.size();
        let mut elements = vec![0; (count * size) as usize];
        read_exact_at(&*self.content, first * size, &mut elements)?;
        let mut missing = Vec::new();
        if let Some(content) = &self.missing {
            missing.resize(count as usize, 0);
            read_exact_at(&**content, first, &mut missing)?;
        }
        self.shape.page(&elements, &missing, count, page.len as usize)
    }
}

impl ParquetTable {
    /// Returns the table that a content is a file of.
    pub(crate) fn of(content: &dyn Content) -> Option<&Self> {
        content.written()?.downcast_ref()
    }
}

impl Content for ParquetTable {
    fn written(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn len(&self) -> u64 {
        self.footer_at + self.footer.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        fill(buf, |done, rest| self.read_part(offset.saturating_add(done as u64), rest))
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        &self.contents
    }

    fn stored_at(&self, offset: u64) -> Option<Stored<'_>> {
        let (leaf, start, len) = self.plain_at(offset)?;
        let stored = leaf.content.stored_at(start)?;
        Some(Stored { len: stored.len.min(len), ..stored })
    }

    fn share(&self, offset: u64, len: usize, at_any_cost: bool) -> Option<SharedBytes> {
        let wanted = (len as u64).min(self.len().checked_sub(offset)?);
        let (leaf, start, there) = self.plain_at(offset)?;
        (there >= wanted).then(|| leaf.content.share(start, wanted as usize, at_any_cost))?
    }

    fn is_slow(&self) -> bool {
        let has_to_find = !self.footer.slots.is_empty() && self.statistics.get().is_none();
        has_to_find || self.contents.iter().any(|content| content.is_slow())
    }

    fn soundness(&self) -> Soundness {
        let all = self.contents.iter().map(|content| content.soundness());
        let found = all.fold(Soundness::Sound, Soundness::and);
        // Invalid text is only noticed when it is read.
        let has_texts = || {
            let is_text = |leaf: &Leaf| matches!(leaf.shape.element, Element::Ascii(_) | Element::Ucs4(_));
            self.leaves.iter().any(is_text)
        };
        match found {
            Soundness::Broken(_) => Soundness::Broken(0),
            Soundness::Sound if has_texts() => Soundness::Unknown,
            known => known,
        }
    }
}

#[cfg(test)]
mod tests;
