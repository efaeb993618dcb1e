//! Logged quantities with one row per frame, as `gsd.hoomd.read_log` returns them: the frame's own chunk,
//! or else that of frame 0. If frame 0 lacks it, too, the step is 0. The quantities of the HOOMD schema have rows in
//! the same way, with the defaults of the schema.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use asdf_file::array::{Datatype, Scalar, npy};
use seekable::content::{Content, Soundness, Stored, fill};
use seekable::error::{Error, Kind, Result};
use seekable::source::read_up_to;

use super::super::entry::{self, IndexEntry};
use super::super::file::GsdFile;
use super::super::schema::{Numbers, Quantity, Rule};
use super::gather::{self, BATCH, DataRange, MIN_ZERO_COPY};
use super::numbers;
use super::pass::NameRows;
use crate::parquet::{Column, Element, Values};

/// Maximum length of a text that is a row.
const MAX_TEXT: u64 = 1 << 16;

/// Average number of chunks per frame above which each frame is searched by name on its own, as its entries
/// are sorted by name.
const MANY_CHUNKS: u64 = 256;

/// The entry of a step: one uint64.
const STEP: IndexEntry = IndexEntry { slot: 0, frame: 0, n: 1, m: 1, location: 0, id: 0, kind: 4, flags: 0 };

/// The value of the row of a frame that has no chunk of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// The chunk of frame 0.
    Chunk(IndexEntry),
    /// Zero.
    Zero,
    /// The default of the schema: these bytes, repeated.
    Default(&'static [u8]),
    /// No value. `gsd.hoomd.read_log` omits the name.
    Missing,
}

/// The type of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Numbers of the type and shape of this entry. If that is a single number, a row is the first one of a
    /// chunk.
    Numbers(IndexEntry),
    /// Arrays of exactly the type and shape of this entry.
    Arrays(IndexEntry),
    /// A text of at most this many characters.
    Text(u64),
}

/// The rows of a name, as the index describes them.
#[derive(Clone, Debug)]
pub(crate) struct LoggedQuantity {
    /// Number of the name; `None` if the file has no chunk of it.
    id: Option<u16>,
    base: Base,
    form: Form,
    cut: Option<u64>,
    /// Number of rows.
    frames: u64,
}

impl LoggedQuantity {
    /// Creates the step of a file that stores no step: 0 in each frame.
    pub(super) fn no_step(frames: u64) -> Self {
        Self { id: None, base: Base::Zero, form: Form::Numbers(STEP), cut: None, frames }
    }

    /// Creates the rows from the chunks of a name; `None` if a chunk can't be a row.
    pub(super) fn new(id: u16, rows: &NameRows, is_step: bool, frames: u64) -> Option<Self> {
        let first = rows.first;
        let form = if first.is_text() { Form::Text(rows.longest.max(1)) } else { Form::Numbers(first) };
        let fits = match form {
            Form::Text(longest) => first.m == 1 && longest <= MAX_TEXT && !is_step,
            Form::Numbers(_) | Form::Arrays(_) => true,
        };
        if rows.misfit.is_some() || !fits {
            return None;
        }
        let (base, form) = match (first.frame, is_step) {
            (0, _) => (Base::Chunk(first), form),
            (_, true) if first.is_number() => (Base::Zero, Form::Numbers(STEP)),
            (_, true) => return None,
            (_, false) => (Base::Missing, form),
        };
        Some(Self { id: Some(id), base, form, cut: rows.cut, frames })
    }

    /// Creates the rows of a quantity of the HOOMD schema from its chunks, if there are any; `None` if its
    /// values differ in type or shape. `rows` is the number of particles, bonds and so on in all frames.
    pub(super) fn of_schema(
        quantity: &Quantity,
        found: Option<(u16, &NameRows)>,
        rows: u64,
        frames: u64,
    ) -> Option<Self> {
        let Numbers { scalar, columns, bytes } = quantity.default;
        let kind = entry::kind_of(scalar)?;
        let default = match quantity.rule {
            Rule::Number => IndexEntry { kind, ..STEP },
            Rule::WholeChunk => IndexEntry { n: columns.unwrap_or(1), kind, ..STEP },
            Rule::Rows => IndexEntry { n: rows, m: u32::try_from(columns.unwrap_or(1)).ok()?, kind, ..STEP },
            Rule::Types | Rule::Shapes => return None,
        };
        let form = |of| if quantity.rule == Rule::Number { Form::Numbers(of) } else { Form::Arrays(of) };
        let base = Base::Default(bytes);
        let Some((id, name_rows)) = found else {
            return Some(Self { id: None, base, form: form(default), cut: None, frames });
        };
        let first = name_rows.first;
        let is_same = |one: &IndexEntry| (one.kind, one.n, one.m) == (first.kind, first.n, first.m);
        let has_rows = quantity.rule != Rule::Rows || first.n == default.n;
        let is_number = quantity.rule != Rule::Number || first.is_number();
        let is_exact =
            name_rows.misfit.is_none() && name_rows.converted.is_none() && name_rows.longest == first.n;
        if first.is_text() || !has_rows || !is_number || !is_exact {
            return None;
        }
        let base = match first.frame {
            0 => Base::Chunk(first),
            _ if is_same(&default) => base,
            _ => return None,
        };
        Some(Self { id: Some(id), base, form: form(first), cut: name_rows.cut, frames })
    }

    /// True if every frame has a value.
    pub(super) fn is_whole(&self) -> bool {
        self.base != Base::Missing
    }

    /// Returns a text that differs between versions of the file with different rows.
    pub(super) fn signature(&self) -> String {
        let row = match self.form {
            Form::Numbers(of) | Form::Arrays(of) => of.array(),
            Form::Text(longest) => format!("texts of {longest}"),
        };
        format!("rows {row} {}", self.frames)
    }

    /// Returns the rows as a `.npy` array.
    pub(super) fn array(&self, file: &Arc<GsdFile>) -> Result<Arc<dyn Content>> {
        let mut shape = vec![self.frames];
        let datatype = match self.form {
            Form::Text(longest) => Datatype::Scalar(Scalar::Ucs4(longest)),
            Form::Numbers(of) => {
                shape.extend(of.shape().into_iter().filter(|_| !of.is_number()));
                of.element().map_or(Datatype::Scalar(Scalar::Uint8), |element| element.scalar.into())
            }
            Form::Arrays(of) => {
                shape.extend(of.shape());
                of.element().map_or(Datatype::Scalar(Scalar::Uint8), |element| element.scalar.into())
            }
        };
        npy::little_endian(datatype, shape, Arc::new(RowsContent::new(file.clone(), self.clone())?))
    }

    /// Returns the rows as a column of a table; `None` if a row is neither a single number nor a text.
    pub(super) fn column(&self, file: &Arc<GsdFile>) -> Result<Option<Column>> {
        let element = match self.form {
            Form::Text(longest) => Some(Element::Ucs4(longest)),
            Form::Numbers(of) if of.is_number() => of.element().and_then(|of| Element::of(of.scalar)),
            Form::Numbers(_) | Form::Arrays(_) => None,
        };
        let Some(element) = element else { return Ok(None) };
        let content = Arc::new(RowsContent::new(file.clone(), self.clone())?);
        let missing = (!self.is_whole()).then(|| Arc::new(Lacking(content.clone())) as Arc<dyn Content>);
        Ok(Some(Column::Values(Values { element, big_endian: false, content, missing })))
    }
}

/// The concatenated rows of a name, gathered on read.
#[derive(Debug)]
struct RowsContent {
    file: Arc<GsdFile>,
    quantity: LoggedQuantity,
    /// Bytes per row.
    row_len: u64,
    len: u64,
    /// The row of frames without a chunk, kept after the first read unless it is long.
    base: OnceLock<Vec<u8>>,
}

impl RowsContent {
    fn new(file: Arc<GsdFile>, quantity: LoggedQuantity) -> Result<Self> {
        let row_len = match quantity.form {
            Form::Numbers(of) | Form::Arrays(of) => of.bytes(),
            Form::Text(longest) => longest.checked_mul(4),
        };
        let len = row_len.and_then(|row_len| row_len.checked_mul(quantity.frames));
        match (row_len, len.filter(|len| *len <= i64::MAX as u64)) {
            (Some(row_len), Some(len)) => Ok(Self { file, quantity, row_len, len, base: OnceLock::new() }),
            _ => Err(Error::damaged("the rows are larger than any file can be")),
        }
    }

    /// Returns the own chunk of each frame; the one written last if a frame has several.
    fn own(&self, frames: Range<u64>) -> Result<Vec<Option<IndexEntry>>> {
        let count = frames.end.saturating_sub(frames.start);
        let mut found: Vec<Option<IndexEntry>> = vec![None; count as usize];
        let Some(id) = self.quantity.id.filter(|_| count > 0) else { return Ok(found) };
        let file = &self.file;
        let entries = file.frame(frames.start)?.start..file.frame(frames.end - 1)?.end;
        if !file.header().is_old() && (entries.end - entries.start) / count > MANY_CHUNKS {
            for (frame, slot) in frames.zip(&mut found) {
                *slot = file.find(frame, id)?;
            }
        } else {
            file.each_entry(entries, |entry| {
                let place = entry.frame.checked_sub(frames.start).filter(|_| entry.id == id);
                let slot = place.and_then(|place| found.get_mut(usize::try_from(place).ok()?));
                let is_later = |other: IndexEntry| file.written(entry) > file.written(&other);
                if let Some(slot) = slot.filter(|slot| slot.is_none_or(is_later)) {
                    *slot = Some(*entry);
                }
            })?;
        }
        if found.iter().flatten().all(|entry| self.takes(entry)) {
            Ok(found)
        } else {
            Err(Error::new(Kind::Changed, "the index of the file has changed: open the file again"))
        }
    }

    /// True if type and shape of a chunk allow it to be a row.
    fn takes(&self, entry: &IndexEntry) -> bool {
        match self.quantity.form {
            Form::Text(longest) => entry.is_text() && entry.m == 1 && entry.n <= longest,
            Form::Numbers(_) if entry.is_text() => false,
            Form::Numbers(of) if of.is_number() => entry.m == 1 && entry.n > 0,
            Form::Numbers(of) => (entry.n, entry.m) == (of.n, of.m),
            Form::Arrays(of) => (entry.kind, entry.n, entry.m) == (of.kind, of.n, of.m),
        }
    }

    /// True if the row is the chunk's data without conversion.
    fn is_plain(&self, entry: &IndexEntry) -> bool {
        matches!(self.quantity.form, Form::Numbers(of) | Form::Arrays(of) if of.kind == entry.kind)
    }

    /// Returns the location of a chunk's row in the source from byte `within` on, at most `len` bytes.
    fn part(&self, entry: &IndexEntry, within: u64, len: u64) -> Result<DataRange> {
        let (offset, bytes) = self.range(entry)?;
        Ok((offset + within, len.min(bytes.min(self.row_len).saturating_sub(within))))
    }

    fn range(&self, entry: &IndexEntry) -> Result<DataRange> {
        self.file.range(entry).map_err(|error| error.within(format!("frame {}", entry.frame)))
    }

    /// Fills `buf` with the row of a chunk from byte `within` on.
    fn read_row(&self, entry: &IndexEntry, within: u64, buf: &mut [u8]) -> Result<()> {
        let (offset, bytes) = self.range(entry)?;
        let (mut row, start) = match self.quantity.form {
            Form::Text(longest) => (self.text(offset, bytes, longest, entry)?, within),
            _ if self.is_plain(entry) => return self.read(offset + within, buf),
            Form::Numbers(of) | Form::Arrays(of) => {
                let scalar =
                    |entry: &IndexEntry| entry.element().map_or(Scalar::Uint8, |element| element.scalar);
                let size = |entry: &IndexEntry| entry.element().map_or(1, entry::Element::size);
                let first = within / size(&of);
                let count = (within + buf.len() as u64).div_ceil(size(&of)) - first;
                let mut stored = vec![0; (count * size(entry)) as usize];
                self.read(offset + first * size(entry), &mut stored)?;
                let mut row = Vec::with_capacity((count * size(&of)) as usize);
                numbers::convert(&stored, scalar(entry), scalar(&of), &mut row)
                    .map_err(|error| error.within(format!("frame {}", entry.frame)))?;
                (row, within - first * size(&of))
            }
        };
        row.resize(row.len().max(start as usize + buf.len()), 0);
        buf.copy_from_slice(&row[start as usize..start as usize + buf.len()]);
        Ok(())
    }

    /// Reads a text as UTF-32, padded to the row's length, as in NumPy arrays.
    fn text(&self, offset: u64, bytes: u64, longest: u64, entry: &IndexEntry) -> Result<Vec<u8>> {
        let mut text = vec![0; bytes.min(longest) as usize];
        self.read(offset, &mut text)?;
        let text = std::str::from_utf8(&text).map_err(|_| {
            Error::damaged(format!("frame {}: the text is not UTF-8", entry.frame)).at(offset)
        })?;
        let mut row: Vec<u8> = text.chars().flat_map(|char| u32::from(char).to_le_bytes()).collect();
        row.resize(self.row_len as usize, 0);
        Ok(row)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if read_up_to(&*self.file.source, offset, buf)? == buf.len() {
            Ok(())
        } else {
            Err(Error::damaged("the file was truncated while it was read").at(offset))
        }
    }

    /// Fills `buf` with the row of frames without a chunk, from byte `within` on.
    fn read_base(&self, within: u64, buf: &mut [u8]) -> Result<()> {
        let entry = match self.quantity.base {
            Base::Chunk(entry) => entry,
            Base::Default(bytes) if !bytes.is_empty() => {
                let row = bytes.iter().cycle().skip((within % bytes.len() as u64) as usize);
                for (to, byte) in buf.iter_mut().zip(row) {
                    *to = *byte;
                }
                return Ok(());
            }
            _ => {
                buf.fill(0);
                return Ok(());
            }
        };
        if self.row_len > MIN_ZERO_COPY {
            return self.read_row(&entry, within, buf);
        }
        if self.base.get().is_none() {
            let mut row = vec![0; self.row_len as usize];
            self.read_row(&entry, 0, &mut row)?;
            self.base.get_or_init(|| row);
        }
        let row = self.base.get().map_or(&[][..], Vec::as_slice);
        buf.copy_from_slice(&row[within as usize..within as usize + buf.len()]);
        Ok(())
    }

    /// Reads the rows of up to [`BATCH`] frames.
    fn read_rows(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if self.row_len == 0 {
            return Ok(0);
        }
        let frame = offset / self.row_len;
        let mut within = offset % self.row_len;
        let wanted = within.saturating_add(buf.len() as u64).div_ceil(self.row_len).min(BATCH);
        let own = self.own(frame..frame.saturating_add(wanted).min(self.quantity.frames))?;
        fill(buf, |done, room| {
            let row = ((offset % self.row_len + done as u64) / self.row_len) as usize;
            let rest = own.get(row..).unwrap_or_default();
            let start = std::mem::take(&mut within);
            let parts = self.parts(rest, start, room.len() as u64);
            match rest.first() {
                _ if !parts.is_empty() => gather::copy(&*self.file.source, &parts, room),
                None => Ok(0),
                Some(entry) => {
                    let len = (self.row_len - start).min(room.len() as u64) as usize;
                    let room = &mut room[..len];
                    match entry {
                        Some(entry) => self.read_row(entry, start, room)?,
                        None => self.read_base(start, room)?,
                    }
                    Ok(len)
                }
            }
        })
    }

    /// Returns the locations of the leading rows that need no conversion, up to `room` bytes.
    fn parts(&self, rows: &[Option<IndexEntry>], mut within: u64, room: u64) -> Vec<DataRange> {
        let mut parts = Vec::new();
        let mut len = 0;
        for entry in rows {
            let plain = entry.filter(|entry| len < room && self.is_plain(entry));
            let part = plain.map(|entry| self.part(&entry, within, room - len));
            // A row outside of the file ends the list. The read that starts with this row reports the error.
            let Some(Ok(part)) = part else { break };
            len += part.1;
            parts.push(part);
            within = 0;
        }
        parts
    }
}

impl Content for RowsContent {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        fill(&mut buf[..wanted], |done, room| self.read_rows(offset + done as u64, room))
    }

    fn stored_at(&self, offset: u64) -> Option<Stored<'_>> {
        if self.row_len < MIN_ZERO_COPY || offset >= self.len {
            return None;
        }
        let frame = offset / self.row_len;
        let entry = self.own(frame..frame + 1).ok()?.first().copied().flatten();
        let entry = entry.filter(|entry| self.is_plain(entry))?;
        let (offset, len) = self.part(&entry, offset % self.row_len, self.row_len).ok()?;
        Some(Stored { source: &self.file.source, offset, len })
    }

    /// Returns true, as a large read consists of many small reads.
    fn is_slow(&self) -> bool {
        true
    }

    fn soundness(&self) -> Soundness {
        match (self.quantity.cut, self.quantity.form) {
            (Some(frame), _) => Soundness::Broken(frame.saturating_mul(self.row_len)),
            // Only a read shows if texts are valid and numbers convertible.
            _ => Soundness::Unknown,
        }
    }
}

/// One byte per frame: 1 if the frame has no chunk of its own.
#[derive(Debug)]
struct Lacking(Arc<RowsContent>);

impl Content for Lacking {
    fn len(&self) -> u64 {
        self.0.quantity.frames
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        fill(buf, |done, room| {
            let from = offset.saturating_add(done as u64).min(self.len());
            let count = (room.len() as u64).min(BATCH).min(self.len() - from);
            let own = self.0.own(from..from + count)?;
            Ok(room.iter_mut().zip(own).map(|(byte, own)| *byte = u8::from(own.is_none())).count())
        })
    }

    fn is_slow(&self) -> bool {
        true
    }
}
