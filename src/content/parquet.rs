//! `.parquet`, a table of columns (Apache Parquet 2), made while it is read.
//!
//! The length of the file, and where each value lies in it, follow from the types of the columns and the number of
//! rows: all pages are in the encoding PLAIN, not compressed, and all pages of a column but the last of each row group
//! have the same length. Numbers that are as the file has them are lent from where they lie. Other pages are made when
//! they are read, each from its own rows. Values that are shorter than they might be, texts and missing ones, leave
//! the end of their page unused, so that its length stays the same. There are no statistics.
//!
//! | module | what it does |
//! |---|---|
//! | [`thrift`] | the protocol of the headers |
//! | [`values`] | values and levels in a page |
//! | [`layout`] | where groups, columns and pages lie |
//! | [`footer`] | what the end of the file says |
//! | [`metadata`], [`flatbuffer`] | what it says of columns; the form that Arrow gives that |

use std::ops::Range;
use std::sync::Arc;

use self::layout::{Group, Page};
use self::values::Shape;
use super::{Content, Shared, Soundness, Stored, fill, read_exact_at};
use crate::error::{Error, Result};

mod flatbuffer;
mod footer;
mod layout;
mod metadata;
mod thrift;
mod values;

pub use metadata::Facts;
pub use values::Element;

const MAGIC: &[u8; 4] = b"PAR1";

/// What a column is.
#[derive(Clone, Debug)]
pub enum Column {
    /// Values.
    Values(Values),
    /// Columns with names.
    Group {
        /// The columns.
        columns: Vec<(String, Column)>,
        /// True if a whole group may be missing. No column in it may be a list then, and each has the group's `missing`.
        nullable: bool,
    },
    /// Lists of so many items.
    List(u64, Box<Column>),
}

/// The values of a column.
#[derive(Clone, Debug)]
pub struct Values {
    /// What they are.
    pub element: Element,
    /// Whether the most significant byte of one is the first.
    pub big_endian: bool,
    /// All of them, one after the other.
    pub content: Arc<dyn Content>,
    /// A byte for each: it is missing where that is not zero.
    pub missing: Option<Arc<dyn Content>>,
}

/// The values of a column, and where it is in the table.
#[derive(Debug)]
struct Leaf {
    path: Vec<String>,
    shape: Shape,
    per_row: u64,
    content: Arc<dyn Content>,
    missing: Option<Arc<dyn Content>>,
}

/// A table as a file.
#[derive(Debug)]
pub struct Table {
    leaves: Vec<Leaf>,
    rows: u64,
    /// Groups of equally many rows, and the one after them.
    full: Group,
    full_groups: u64,
    last: Option<Group>,
    footer: Vec<u8>,
    /// Where the footer begins.
    footer_at: u64,
}

impl Table {
    /// A table of columns with names.
    ///
    /// # Errors
    /// A row of a column is too long, or has lists without items; or the file would be longer than any can be.
    pub fn new(columns: &[(String, Column)], rows: u64) -> Result<Self> {
        Self::with_facts(columns, rows, &[])
    }

    /// A table of columns with names, and what is said of each column.
    ///
    /// # Errors
    /// See [`Table::new`].
    pub fn with_facts(columns: &[(String, Column)], rows: u64, facts: &[Facts]) -> Result<Self> {
        let too_long = || Error::damaged("the table is longer than any file can be");
        let mut leaves = Vec::new();
        for (name, column) in columns {
            column.leaves(&mut vec![name.clone()], &mut Vec::new(), &mut leaves)?;
        }
        let group_rows = layout::group_rows(rows, leaves.len());
        let group = |rows| Group::new(leaves.iter().map(|leaf| (&leaf.shape, leaf.per_row)), rows);
        let full = group(group_rows.min(rows))?;
        let full_groups = rows.checked_div(full.rows).unwrap_or(0);
        let last = match rows - full_groups * full.rows {
            0 => None,
            rest => Some(group(rest)?),
        };
        let groups = full.len.checked_mul(full_groups).ok_or_else(too_long)?;
        let values = groups.checked_add(last.as_ref().map_or(0, |group| group.len));
        let footer_at = values.and_then(|len| len.checked_add(MAGIC.len() as u64)).ok_or_else(too_long)?;
        let mut table = Self { leaves, rows, full, full_groups, last, footer: Vec::new(), footer_at };
        table.footer = footer::footer(columns, &metadata::pairs(columns, facts), &table);
        match footer_at.checked_add(table.footer.len() as u64).filter(|len| *len <= i64::MAX as u64) {
            Some(_) => Ok(table),
            None => Err(too_long()),
        }
    }

    /// The groups, each with the place where it begins.
    fn groups(&self) -> impl Iterator<Item = (u64, &Group)> {
        let start = MAGIC.len() as u64;
        let full = (0..self.full_groups).map(move |n| (start + n * self.full.len, &self.full));
        full.chain(self.last.iter().map(move |last| (start + self.full_groups * self.full.len, last)))
    }

    /// What lies at an offset before the footer and behind the first bytes.
    fn at(&self, offset: u64) -> Option<(&Leaf, Page)> {
        let within = offset.checked_sub(MAGIC.len() as u64)?;
        let number = within.checked_div(self.full.len)?.min(self.full_groups);
        let group = if number < self.full_groups { &self.full } else { self.last.as_ref()? };
        let (column, page) = group.page_at(within - number * self.full.len)?;
        let leaf = self.leaves.get(column)?;
        Some((leaf, Page { row: page.row + number * self.full.rows, ..page }))
    }

    /// Reads from one page, or from what lies before and behind all pages.
    fn read_part(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let copy = |from: &[u8], at: u64, buf: &mut [u8]| {
            let rest = usize::try_from(at).ok().and_then(|at| from.get(at..)).unwrap_or_default();
            let len = rest.len().min(buf.len());
            buf[..len].copy_from_slice(&rest[..len]);
            len
        };
        if let Some(within) = offset.checked_sub(self.footer_at) {
            return Ok(copy(&self.footer, within, buf));
        }
        if offset < MAGIC.len() as u64 {
            return Ok(copy(MAGIC, offset, buf));
        }
        let Some((leaf, page)) = self.at(offset) else { return Ok(0) };
        let Some(within) = page.within.checked_sub(page.header.len() as u64) else {
            return Ok(copy(&page.header, page.within, buf));
        };
        let len = (page.len - within).min(buf.len() as u64) as usize;
        if leaf.shape.is_plain() {
            let start = page.row * leaf.shape.element.size() + within;
            return leaf.content.read_at(start, &mut buf[..len]);
        }
        Ok(copy(&leaf.page(&page)?, within, &mut buf[..len]))
    }

    /// The column whose bytes lie at an offset as they are, where they begin in it, and how many there are.
    fn plain_at(&self, offset: u64) -> Option<(&Leaf, u64, u64)> {
        let (leaf, page) = self.at(offset).filter(|_| offset < self.footer_at)?;
        let within = page.within.checked_sub(page.header.len() as u64)?;
        let start = page.row * leaf.shape.element.size() + within;
        leaf.shape.is_plain().then_some((leaf, start, page.len - within))
    }

    /// The contents that it is made of.
    fn contents(&self) -> impl Iterator<Item = &Arc<dyn Content>> {
        self.leaves.iter().flat_map(|leaf| std::iter::once(&leaf.content).chain(&leaf.missing))
    }
}

impl Column {
    /// Adds the columns of values that it is made of.
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
                let shape = Shape { element, big_endian, lists: lists.clone(), nullable: missing.is_some() };
                let per_row = shape.per_row().unwrap_or(u64::MAX);
                layout::row_fits(&shape, per_row)?;
                leaves.push(Leaf { path: path.clone(), shape, per_row, content, missing });
            }
        }
        Ok(())
    }
}

impl Leaf {
    /// The values of a page, with their levels.
    fn page(&self, page: &Page) -> Result<Vec<u8>> {
        let (first, count) = (page.row * self.per_row, page.rows * self.per_row);
        // Pages that are made are small: `layout` sees to that.
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

impl Content for Table {
    fn len(&self) -> u64 {
        self.footer_at + self.footer.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        fill(buf, |done, rest| self.read_part(offset.saturating_add(done as u64), rest))
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        self.contents().flat_map(|content| content.ranges()).collect()
    }

    fn stored_at(&self, offset: u64) -> Option<Stored<'_>> {
        let (leaf, start, len) = self.plain_at(offset)?;
        let stored = leaf.content.stored_at(start)?;
        Some(Stored { len: stored.len.min(len), ..stored })
    }

    fn share(&self, offset: u64, len: usize, at_any_cost: bool) -> Option<Shared> {
        let wanted = (len as u64).min(self.len().checked_sub(offset)?);
        let (leaf, start, there) = self.plain_at(offset)?;
        (there >= wanted).then(|| leaf.content.share(start, wanted as usize, at_any_cost))?
    }

    fn is_slow(&self) -> bool {
        self.contents().any(|content| content.is_slow())
    }

    fn soundness(&self) -> Soundness {
        let mut found = Soundness::Sound;
        for content in self.contents() {
            match content.soundness() {
                Soundness::Sound => {}
                Soundness::Unknown => found = Soundness::Unknown,
                Soundness::Broken(_) => return Soundness::Broken(0),
            }
        }
        // Whether texts are texts is seen when they are read.
        let has_texts = || {
            let is_text = |leaf: &Leaf| matches!(leaf.shape.element, Element::Ascii(_) | Element::Ucs4(_));
            self.leaves.iter().any(is_text)
        };
        if found == Soundness::Sound && has_texts() { Soundness::Unknown } else { found }
    }

    fn costs_a_pass(&self) -> bool {
        self.contents().any(|content| content.costs_a_pass())
    }

    fn trouble(&self) -> Option<Error> {
        self.contents().find_map(|content| content.trouble())
    }
}

#[cfg(test)]
mod tests;
