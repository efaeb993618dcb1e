//! What header and offsets say of where the chunks lie, though one field of the file may be damaged.
//!
//! A chunk has three witnesses: its offset; the end of the chunk before it; the next offset, which is where the chunk
//! ends. Two of them are enough, so that a damaged offset or a damaged header of a chunk costs no other chunk.

use std::sync::Arc;

use super::chain::Found;
use super::checksum::Checksum;
use super::header::{Header, Kind};
use crate::codec::blosc;
use crate::error::{Error, Result};
use crate::source::{Source, read_up_to};

/// Offsets looked through in one go.
const PIECE: u64 = 8 << 10;

/// What says where the first chunk begins.
#[derive(Clone, Copy, Debug)]
enum Anchor {
    /// The header.
    Data,
    /// The first offset: the header counts chunks wrongly.
    Offset(u64),
    /// Nothing: the offsets are not where the header says.
    Nowhere,
}

/// The places of chunks, as header and offsets say.
#[derive(Debug)]
pub struct Places {
    /// The file.
    pub source: Arc<dyn Source>,
    /// Bytes of the file.
    pub size: u64,
    /// Where the first chunk begins, as the header says.
    pub data: u64,
    /// Where the first chunk begins, as header and offsets say.
    pub begin: u64,
    /// Bytes of the checksum behind a chunk.
    sum: u64,
    /// How many chunks there are, if the header says so.
    pub chunks: Option<u64>,
    /// Where the offsets begin, if there are any that can be used.
    pub offsets: Option<u64>,
    /// Whether the chunks are items that have only their offsets.
    pub variable: bool,
}

impl Places {
    /// The places in a file with this header.
    pub fn new(source: Arc<dyn Source>, size: u64, header: &Header) -> Result<Self> {
        let mut places = Self {
            source,
            size,
            data: header.data,
            begin: header.data,
            sum: header.checksum.size(),
            chunks: header.chunks,
            offsets: header.offsets,
            variable: header.kind == Kind::Variable,
        };
        match places.anchor(header)? {
            Anchor::Data => {}
            Anchor::Offset(first) => places.begin = first,
            Anchor::Nowhere => places.offsets = None,
        }
        Ok(places)
    }

    /// Whether there may be a chunk `n`.
    pub fn has(&self, n: u64) -> bool {
        self.chunks.is_none_or(|chunks| n < chunks)
    }

    /// The number of the last chunk, if it is known.
    pub fn last_number(&self) -> Option<u64> {
        self.chunks.and_then(|chunks| chunks.checked_sub(1))
    }

    /// The offset of chunk `n`, if there are offsets.
    pub fn offset(&self, n: u64) -> Result<Option<i64>> {
        let Some(at) = self.offsets else { return Ok(None) };
        let mut bytes = [0; 8];
        match n.checked_mul(8).and_then(|skip| at.checked_add(skip)) {
            Some(at) if read_up_to(&*self.source, at, &mut bytes)? == 8 => {
                Ok(Some(i64::from_le_bytes(bytes)))
            }
            _ => Err(Error::damaged("the offsets are cut off")),
        }
    }

    /// Where the item with this offset begins.
    pub fn item_place(&self, offset: Option<i64>) -> Result<u64> {
        match offset {
            Some(-1) => Err(Error::damaged("was not finished: its offset is -1")),
            Some(at) => match u64::try_from(at) {
                Ok(at) if at >= self.data => Ok(at),
                _ => Err(Error::damaged(format!("has the offset {at}, where no item can be"))),
            },
            None => Err(Error::damaged("has no offset")),
        }
    }

    /// The chunk that begins at `at`.
    pub fn header(&self, at: u64) -> Result<Found> {
        let mut bytes = [0; blosc::HEADER_SIZE as usize];
        let read = if at < self.size { read_up_to(&*self.source, at, &mut bytes)? } else { 0 };
        self.parse(at, &bytes[..read])
    }

    /// The chunk that begins at `at` with these bytes.
    pub fn parse(&self, at: u64, bytes: &[u8]) -> Result<Found> {
        let Some(bytes) = bytes.first_chunk() else {
            return Err(Error::damaged("its header is cut off: the file ends before it").at(at));
        };
        let header = blosc::Header::parse(bytes).map_err(|error| error.at(at))?;
        if header.nbytes() == 0 && header.cbytes() > blosc::HEADER_SIZE {
            let error = format!("its header says that its {} bytes decode to none", header.cbytes());
            return Err(Error::damaged(error).at(at));
        }
        let found = Found { at, header };
        if self.end_of(&found) > self.size {
            return Err(Error::damaged(format!(
                "its {} bytes reach past the end of the file: the file is cut off, or the chunk's header is wrong",
                header.cbytes()
            ))
            .at(at));
        }
        Ok(found)
    }

    /// Where the chunk ends, its checksum included.
    pub fn end_of(&self, found: &Found) -> u64 {
        found.at.saturating_add(u64::from(found.header.cbytes()) + self.sum)
    }

    /// Looks whether header and offsets agree on where the first chunk begins.
    fn anchor(&self, header: &Header) -> Result<Anchor> {
        if self.offsets.is_none() || self.last_number().is_none() {
            return Ok(Anchor::Data);
        }
        let offset = |n| self.offset(n).map(|offset| offset.and_then(|offset| u64::try_from(offset).ok()));
        let first = lasting(offset(0))?.flatten();
        if first == Some(header.data) || lasting(self.header(header.data))?.is_some() {
            return Ok(Anchor::Data);
        }
        let leads = |at: Option<u64>| match at {
            Some(at) => Ok::<_, Error>(lasting(self.header(at))?.is_some()),
            None => Ok(false),
        };
        if header.kind == Kind::Variable {
            // Items may lie anywhere. Of offsets that are read from a wrong place, the first or the last is none.
            let last = self.last_number().map(offset).transpose()?.flatten();
            let unfinished = |n| self.offset(n).map(|offset| offset == Some(-1));
            let is_one = |n, at| Ok::<_, Error>(unfinished(n)? || leads(at)?);
            let both = is_one(0, first)? && is_one(self.last_number().unwrap_or(0), last)?;
            return Ok(if both { Anchor::Data } else { Anchor::Nowhere });
        }
        let is_certain = match &header.metadata {
            None => true,
            Some(section) if section.checksum == Checksum::None => false,
            Some(section) => section.bytes(&*self.source).is_ok(),
        };
        match first {
            Some(at) if is_certain && leads(first)? => Ok(Anchor::Offset(at)),
            _ if is_certain => Ok(Anchor::Data),
            _ => Ok(Anchor::Nowhere),
        }
    }

    /// Whether the offsets increase.
    pub fn increase(&self) -> Result<bool> {
        let (Some(offsets), Some(last)) = (self.offsets, self.last_number()) else { return Ok(false) };
        let chunks = last + 1;
        let mut piece = vec![0; chunks.min(PIECE) as usize * 8];
        let (mut n, mut least) = (0, offsets);
        while n < chunks {
            let wanted = (chunks - n).min(PIECE) as usize * 8;
            if read_up_to(&*self.source, offsets + n * 8, &mut piece[..wanted])? < wanted {
                return Ok(false);
            }
            for &offset in piece[..wanted].as_chunks::<8>().0 {
                let at = u64::from_le_bytes(offset);
                if at < least || at >= self.size {
                    return Ok(false);
                }
                least = at.saturating_add(u64::from(blosc::HEADER_SIZE));
                n += 1;
            }
        }
        Ok(true)
    }

    /// Chunk `n`, or what is wrong with it where two witnesses lead to it. `None` if the witnesses contradict each
    /// other.
    pub fn by_offset(&self, n: u64, last: Option<(u64, Found)>) -> Result<Option<Result<Found>>> {
        let offset = |n| self.offset(n).map(|at| at.and_then(|at| u64::try_from(at).ok()));
        let at = offset(n)?;
        let before = match n.checked_sub(1) {
            None => Some(self.begin),
            Some(before) => match last.filter(|(last, _)| *last == before) {
                Some((_, found)) => Some(self.end_of(&found)),
                None => offset(before)?
                    .map(|at| lasting(self.header(at)))
                    .transpose()?
                    .flatten()
                    .map(|found| self.end_of(&found)),
            },
        };
        let behind = if self.last_number() == Some(n) { Some(self.size) } else { offset(n + 1)? };
        let ends = |found: &Found| Some(self.end_of(found)) == behind;
        let by_offset = at.map(|at| self.header(at));
        if at == before {
            return by_offset.map(transient).transpose();
        }
        // One of the two is wrong.
        let by_chain = before.map(|at| lasting(self.header(at))).transpose()?.flatten();
        let by_offset = by_offset.map(lasting).transpose()?.flatten();
        Ok(match (by_offset, by_chain) {
            (_, Some(found)) if ends(&found) => Some(Ok(found)),
            (Some(found), None) if ends(&found) => Some(Ok(found)),
            _ => None,
        })
    }

    /// The last chunk, if an offset leads to one.
    pub fn last_by_offset(&self) -> Result<Option<Found>> {
        match self.last_number() {
            Some(last) if self.offsets.is_some() => Ok(self.by_offset(last, None)?.and_then(Result::ok)),
            _ => Ok(None),
        }
    }

    /// The first chunk, if there is one that is in order.
    pub fn first(&self) -> Result<Option<Found>> {
        lasting(self.header(self.begin))
    }

    /// A chunk behind those that the header counts.
    pub fn surplus(&self, last: Option<&Found>) -> Result<Option<Found>> {
        let Some(behind) = self.last_number().map_or(Some(0), |last| last.checked_add(1)) else {
            return Ok(None);
        };
        let by_offset = lasting(self.offset(behind))?.flatten().and_then(|at| u64::try_from(at).ok());
        for at in [last.map(|last| self.end_of(last)), by_offset].into_iter().flatten() {
            if let Some(found) = lasting(self.header(at))? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

fn transient<T>(result: Result<T>) -> Result<Result<T>> {
    match result {
        Err(error) if !error.lasts() => Err(error),
        result => Ok(result),
    }
}

/// `None` instead of an error that lasts.
pub fn lasting<T>(result: Result<T>) -> Result<Option<T>> {
    Ok(transient(result)?.ok())
}
