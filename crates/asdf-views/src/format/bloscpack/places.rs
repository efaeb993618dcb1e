//! Locations of the chunks according to header and offsets. One damaged field of the file is tolerated.
//!
//! The location of a chunk is given by three fields: its offset, the end of the previous chunk, and the next
//! offset, which is the chunk's end. Two that agree are enough, so a damaged offset or chunk header affects
//! no other chunk.

use std::sync::Arc;

use seekable::codec::blosc;
use seekable::error::{Error, Result};
use seekable::source::{Source, read_up_to};

use super::chain::LocatedChunk;
use super::checksum::Checksum;
use super::header::{Header, Layout};

/// Number of offsets that are read at once.
const PIECE: u64 = 8 << 10;

/// The part of the file that gives the location of the first chunk.
#[derive(Clone, Copy, Debug)]
enum Anchor {
    /// The header.
    Data,
    /// The first offset: the number of chunks in the header is wrong.
    Offset(u64),
    /// Neither: the offsets are not where the header says.
    Nowhere,
}

/// Chunk locations according to header and offsets.
#[derive(Debug)]
pub struct ChunkLocations {
    /// The file.
    pub source: Arc<dyn Source>,
    /// Size of the file in bytes.
    pub size: u64,
    /// Location of the first chunk according to the header alone.
    pub data: u64,
    /// Location of the first chunk according to header and offsets.
    pub begin: u64,
    /// Size in bytes of the checksum after a chunk.
    sum: u64,
    /// Number of chunks, if the header has it.
    pub chunks: Option<u64>,
    /// Location of the offsets, if they are usable.
    pub offsets: Option<u64>,
    /// True for the variable-length proposal, whose items have offsets but no chain.
    pub variable: bool,
}

impl ChunkLocations {
    /// Determines the locations in a file with this header.
    pub fn new(source: Arc<dyn Source>, size: u64, header: &Header) -> Result<Self> {
        let mut places = Self {
            source,
            size,
            data: header.data,
            begin: header.data,
            sum: header.checksum.size(),
            chunks: header.chunks,
            offsets: header.offsets,
            variable: header.kind == Layout::Variable,
        };
        match places.anchor(header)? {
            Anchor::Data => {}
            Anchor::Offset(first) => places.begin = first,
            Anchor::Nowhere => places.offsets = None,
        }
        Ok(places)
    }

    /// True if there may be a chunk `n`.
    pub fn has(&self, n: u64) -> bool {
        self.chunks.is_none_or(|chunks| n < chunks)
    }

    /// Returns the number of the last chunk, if known.
    pub fn last_number(&self) -> Option<u64> {
        self.chunks.and_then(|chunks| chunks.checked_sub(1))
    }

    /// Reads the offset of chunk `n`, if there are offsets.
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

    /// Returns the location of the item with this offset.
    pub fn item_place(&self, offset: Option<i64>) -> Result<u64> {
        match offset {
            Some(-1) => Err(Error::damaged("was not finished: its offset is -1")),
            Some(at) => match u64::try_from(at) {
                Ok(at) if at >= self.data => Ok(at),
                _ => Err(Error::damaged(format!("has the invalid offset {at}"))),
            },
            None => Err(Error::damaged("has no offset")),
        }
    }

    /// Reads the header of the chunk at `at`.
    pub fn header(&self, at: u64) -> Result<LocatedChunk> {
        let mut bytes = [0; blosc::HEADER_SIZE as usize];
        let read = if at < self.size { read_up_to(&*self.source, at, &mut bytes)? } else { 0 };
        self.parse(at, &bytes[..read])
    }

    /// Parses the header of the chunk at `at` from `bytes`.
    pub fn parse(&self, at: u64, bytes: &[u8]) -> Result<LocatedChunk> {
        let Some(bytes) = bytes.first_chunk() else {
            return Err(Error::damaged("its header is cut off: the file ends before it").at(at));
        };
        let header = blosc::Header::parse(bytes).map_err(|error| error.at(at))?;
        if header.nbytes() == 0 && header.cbytes() > blosc::HEADER_SIZE {
            let error = format!("its header says that its {} bytes decode to 0 bytes", header.cbytes());
            return Err(Error::damaged(error).at(at));
        }
        let found = LocatedChunk { at, header };
        if self.end_of(&found) > self.size {
            return Err(Error::damaged(format!(
                "its {} bytes reach past the end of the file: the file is cut off, or the chunk's header is \
                 wrong",
                header.cbytes()
            ))
            .at(at));
        }
        Ok(found)
    }

    /// Returns the end of the chunk, including its checksum.
    pub fn end_of(&self, found: &LocatedChunk) -> u64 {
        found.at.saturating_add(u64::from(found.header.cbytes()) + self.sum)
    }

    /// Checks that header and offsets agree on the location of the first chunk.
    fn anchor(&self, header: &Header) -> Result<Anchor> {
        if self.offsets.is_none() || self.last_number().is_none() {
            return Ok(Anchor::Data);
        }
        let offset_of = |n| self.offset(n).map(|offset| offset.and_then(|offset| u64::try_from(offset).ok()));
        let first = lasting(offset_of(0))?.flatten();
        if first == Some(header.data) || lasting(self.header(header.data))?.is_some() {
            return Ok(Anchor::Data);
        }
        let leads = |at: Option<u64>| match at {
            Some(at) => Ok::<_, Error>(lasting(self.header(at))?.is_some()),
            None => Ok(false),
        };
        if header.kind == Layout::Variable {
            // Items may be anywhere. If the offsets were read from a wrong place, the first or the last
            // offset leads to no chunk.
            let last = self.last_number().map(offset_of).transpose()?.flatten();
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

    /// True if the offsets increase.
    pub fn increase(&self) -> Result<bool> {
        let (Some(offsets), Some(last)) = (self.offsets, self.last_number()) else { return Ok(false) };
        let chunks = last + 1;
        let mut piece = vec![0; chunks.min(PIECE) as usize * 8];
        let mut n = 0;
        let mut least = offsets;
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

    /// Locates chunk `n`. The inner result is an error if two fields agree on a location, but no valid
    /// chunk is there. `None` if the fields contradict each other.
    pub fn by_offset(
        &self,
        n: u64,
        last: Option<(u64, LocatedChunk)>,
    ) -> Result<Option<Result<LocatedChunk>>> {
        let offset = |n| self.offset(n).map(|at| at.and_then(|at| u64::try_from(at).ok()));
        let at = offset(n)?;
        let before = match n.checked_sub(1) {
            None => Some(self.begin),
            Some(before) => match last.filter(|(last, _)| *last == before) {
                Some((_, found)) => Some(self.end_of(&found)),
                None => offset(before)?
                    .map(|start| lasting(self.header(start)))
                    .transpose()?
                    .flatten()
                    .map(|found| self.end_of(&found)),
            },
        };
        let behind = if self.last_number() == Some(n) { Some(self.size) } else { offset(n + 1)? };
        let ends = |found: &LocatedChunk| Some(self.end_of(found)) == behind;
        let by_offset = at.map(|at| self.header(at));
        if at == before {
            return by_offset.map(transient).transpose();
        }
        // The offset and the end of the previous chunk differ, so one of them is wrong.
        let by_chain = before.map(|start| lasting(self.header(start))).transpose()?.flatten();
        let by_offset = by_offset.map(lasting).transpose()?.flatten();
        Ok(match (by_offset, by_chain) {
            (_, Some(found)) if ends(&found) => Some(Ok(found)),
            (Some(found), None) if ends(&found) => Some(Ok(found)),
            _ => None,
        })
    }

    /// Returns the last chunk, if an offset leads to it.
    pub fn last_by_offset(&self) -> Result<Option<LocatedChunk>> {
        match self.last_number() {
            Some(last) if self.offsets.is_some() => Ok(self.by_offset(last, None)?.and_then(Result::ok)),
            _ => Ok(None),
        }
    }

    /// Returns the first chunk, if its header is valid.
    pub fn first(&self) -> Result<Option<LocatedChunk>> {
        lasting(self.header(self.begin))
    }

    /// Returns the chunk after the last one that the header counts, if the file has such a chunk.
    pub fn surplus(&self, last: Option<&LocatedChunk>) -> Result<Option<LocatedChunk>> {
        let Some(behind) = self.last_number().map_or(Some(0), |number| number.checked_add(1)) else {
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

/// Converts a persistent error to `None`; a transient error is returned.
pub(crate) fn lasting<T>(result: Result<T>) -> Result<Option<T>> {
    Ok(transient(result)?.ok())
}
