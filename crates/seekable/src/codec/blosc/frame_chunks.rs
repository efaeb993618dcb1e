//! The chunks of a frame as parts of its decoded bytes.
//!
//! The index is a chunk itself, of which only the blocks that are needed are decoded. If all chunks but the last
//! have the length that the header states, the place of a chunk in the decoded bytes follows from its number.
//! Otherwise the headers of all chunks are read once.

use std::sync::{Arc, Mutex, OnceLock};

use super::frame::Frame;
use super::header::{EXTENDED_SIZE, HEADER_SIZE, Header, Special};
use super::scratch::placed;
use super::{Buffer, Buffers, DecodedRun, Payload, RUN_BUFFERS, RUN_BYTES};
use crate::cache::Cache;
use crate::content::{Content, read_exact_at};
use crate::error::{self, Error, Result};
use crate::sync::locked;

/// Length of an offset in the index.
const OFFSET: u64 = 8;

/// Maximum number of chunks of different lengths, the ends of which are kept.
const MAX_UNEVEN: u64 = 1 << 20;

/// Bits of the highest byte of a negative offset, in the order in which they count.
const ZEROS: u8 = 1;
const UNSET: u8 = 4;
const NAN: u8 = 2;

/// A chunk with its place.
#[derive(Clone, Copy, Debug)]
pub struct FrameChunk {
    /// The offset in the frame; `None` if the frame does not store the chunk.
    pub at: Option<u64>,
    /// The header of the chunk.
    pub header: Header,
}

/// The chunks of a frame that are there only for their places. Each kind has the reason.
#[derive(Debug)]
pub enum NotStored {
    /// All of them; the frame is something else.
    All(String),
    /// Chunks without all of their bits.
    Unfetched {
        /// The bits of all chunks, the lowest of a byte first.
        bits: Vec<u8>,
        /// The number of bits of a chunk.
        each: u64,
        /// The reason.
        why: String,
    },
    /// Chunks without blocks.
    Special(String),
}

impl NotStored {
    /// Returns the reason why the data of chunk `n` are not in the frame; `None` if they are.
    fn reason(&self, n: u64, header: &Header) -> Option<String> {
        let (is_stored, why) = match self {
            Self::All(why) => return Some(format!("the frame {why}")),
            Self::Unfetched { bits, each, why } => (has_all_bits(bits, *each, n), why),
            Self::Special(why) => (header.special().is_none(), why),
        };
        (!is_stored).then(|| why.clone())
    }
}

/// True if all `each` bits of chunk `n` are set. There are as many bits as the chunks need, so nothing overflows.
fn has_all_bits(bits: &[u8], each: u64, n: u64) -> bool {
    let is_set = |bit: u64| bits.get((bit / 8) as usize).is_some_and(|byte| byte >> (bit % 8) & 1 != 0);
    (n * each..(n + 1) * each).all(is_set)
}

/// The chunks of a frame.
#[derive(Debug)]
pub struct FrameChunks {
    stored: Arc<dyn Content>,
    frame: Frame,
    /// The offsets; `None` in a frame without chunks.
    index: Option<Arc<dyn Content>>,
    count: u64,
    /// The decoded offset after each chunk, if chunks differ in length.
    ends: OnceLock<Vec<u64>>,
    /// The chunk that was found last, with its number.
    last: Mutex<Option<Numbered>>,
    not_stored: Option<NotStored>,
}

#[derive(Clone, Copy, Debug)]
struct Numbered {
    n: u64,
    chunk: FrameChunk,
}

impl FrameChunks {
    /// Finds the index of the frame at the start of `stored`.
    pub fn new(stored: Arc<dyn Content>, frame: Frame, cache: &Arc<Cache>) -> Result<Self> {
        let mut chunks = Self {
            stored,
            frame,
            index: None,
            count: 0,
            ends: OnceLock::new(),
            last: Mutex::default(),
            not_stored: None,
        };
        if chunks.frame.nbytes == 0 {
            return Ok(chunks);
        }
        let at = chunks.frame.index();
        let header = header_at(&*chunks.stored, at, chunks.frame.len)
            .map_err(|error| error.within("the index of the frame"))?;
        let len = u64::from(header.nbytes());
        let listed = len / OFFSET;
        let stated = chunks.frame.nbytes.checked_div(chunks.frame.chunksize.into());
        let stated = stated.map(|whole| {
            let has_rest = whole * u64::from(chunks.frame.chunksize) < chunks.frame.nbytes;
            whole + u64::from(has_rest)
        });
        chunks.count = stated.unwrap_or(listed);
        if chunks.count > listed {
            return Err(placed(
                Error::damaged(format!("the frame has {} chunks, but its index has {listed}", chunks.count)),
                &*chunks.stored,
                at,
            ));
        }
        if stated.is_none() && listed > MAX_UNEVEN {
            return Err(Error::unsupported(format!(
                "the frame has {listed} chunks of different lengths, more than the {MAX_UNEVEN} that are read"
            )));
        }
        let index = OneBuffer { stored: chunks.stored.clone(), at, header };
        chunks.index = Some(Payload::new(Arc::new(index), len, cache).content());
        Ok(chunks)
    }

    /// Makes reads of these chunks fail.
    pub fn leave_out(&mut self, not_stored: Option<NotStored>) {
        self.not_stored = not_stored;
    }

    /// Returns the reason why no chunk has data; `None` if chunks have.
    pub fn lack(&self) -> Option<&str> {
        match &self.not_stored {
            Some(NotStored::All(why)) => Some(why),
            _ => None,
        }
    }

    /// Returns a note on the chunks whose data a proxy has not fetched.
    pub fn unfetched(&self) -> Option<String> {
        match self.not_stored.as_ref()? {
            NotStored::All(_) => None,
            NotStored::Special(_) => Some(
                "the frame is the cache of a proxy that does not say what it has fetched: chunks without blocks can't be \
                 read"
                    .to_owned(),
            ),
            NotStored::Unfetched { bits, each, .. } => {
                let count = self.count;
                let fetched = (0..bits.len() as u64 * 8 / each).filter(|n| has_all_bits(bits, *each, *n)).count();
                // The last byte may have more bits than there are chunks.
                let missing = count.saturating_sub(fetched as u64);
                (missing > 0).then(|| {
                    format!(
                        "the frame is the cache of a proxy, which has not fetched {missing} of {count} chunks: they can't \
                         be read"
                    )
                })
            }
        }
    }

    /// Returns the header of the frame.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Returns the number of chunks.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True if the places of the chunks are known without reading their headers.
    pub fn is_known(&self) -> bool {
        self.frame.is_even() || self.ends.get().is_some()
    }

    /// Returns the decoded range of chunk `n`.
    pub fn range(&self, n: u64) -> Result<DecodedRun> {
        if n >= self.count {
            return Err(Error::new(error::Kind::NotFound, format!("there is no chunk {n}")));
        }
        let each = u64::from(self.frame.chunksize);
        if self.frame.is_even() {
            // No overflow: chunk n begins before the end of the decoded bytes.
            let start = n * each;
            return Ok(DecodedRun { n, count: 1, start, len: each.min(self.frame.nbytes - start) });
        }
        let ends = self.ends()?;
        let start = n.checked_sub(1).and_then(|before| ends.get(before as usize)).copied().unwrap_or(0);
        let end = ends.get(n as usize).copied().unwrap_or(start);
        Ok(DecodedRun { n, count: 1, start, len: end - start })
    }

    /// Returns chunk `n`.
    pub fn chunk(&self, n: u64) -> Result<FrameChunk> {
        let known = *locked(&self.last);
        if let Some(known) = known.filter(|known| known.n == n) {
            return Ok(known.chunk);
        }
        let len = self.range(n)?.len;
        let chunk = self.stored_chunk(n, len)?;
        if let Some(why) = self.not_stored.as_ref().and_then(|not_stored| not_stored.reason(n, &chunk.header))
        {
            return Err(Error::unsupported(why));
        }
        if u64::from(chunk.header.nbytes()) != len {
            let what = format!("it decodes to {} bytes, but the frame says {len}", chunk.header.nbytes());
            return Err(placed(Error::damaged(what), &*self.stored, chunk.at.unwrap_or(0)));
        }
        *locked(&self.last) = Some(Numbered { n, chunk });
        Ok(chunk)
    }

    /// Returns chunk `n`, of `len` bytes if the frame does not store it.
    fn stored_chunk(&self, n: u64, len: u64) -> Result<FrameChunk> {
        let index = self.index.as_ref().ok_or_else(|| Error::damaged("the frame has no index"))?;
        let mut bytes = [0; OFFSET as usize];
        read_exact_at(&**index, n * OFFSET, &mut bytes)?;
        let offset = i64::from_le_bytes(bytes);
        let Ok(offset) = u64::try_from(offset) else {
            let [.., kind] = bytes;
            let special = if kind & ZEROS != 0 {
                Special::Zeros
            } else if kind & UNSET != 0 {
                Special::Unset
            } else if kind & NAN != 0 {
                Special::Nan
            } else {
                return Err(Error::damaged(format!("the offset {offset} in the index has no meaning")));
            };
            let len = u32::try_from(len).map_err(|_| Error::damaged("a chunk has more than 2 GiB"))?;
            let header = Header::of_special(special, len, self.frame.typesize)?;
            return Ok(FrameChunk { at: None, header });
        };
        let limit = self.frame.index();
        let at = offset.checked_add(self.frame.header).filter(|at| *at < limit).ok_or_else(|| {
            Error::damaged(format!("the index says that it begins at byte {offset} of {}", self.frame.cbytes))
        })?;
        let header = header_at(&*self.stored, at, limit)?;
        if u64::from(header.cbytes()) > limit - at {
            return Err(placed(Error::damaged("it reaches into the index of the frame"), &*self.stored, at));
        }
        Ok(FrameChunk { at: Some(at), header })
    }

    /// Returns the decoded offset after each chunk, for which the headers of all chunks are read once.
    fn ends(&self) -> Result<&[u64]> {
        if let Some(ends) = self.ends.get() {
            return Ok(ends);
        }
        let mut ends = Vec::new();
        let mut end = 0_u64;
        for n in 0..self.count {
            let len = match self.stored_chunk(n, 0) {
                Ok(chunk) => chunk.header.nbytes(),
                // The chunks after it have no place. A chunk with a broken header gives its own error.
                Err(error) if error.lasts() => break,
                Err(error) => return Err(error),
            };
            end = end.saturating_add(len.into()).min(self.frame.nbytes);
            ends.push(end);
        }
        // The first chunk without a place takes the rest, so that reads of it give its error.
        ends.resize(self.count as usize, self.frame.nbytes);
        Ok(self.ends.get_or_init(|| ends))
    }

    /// Returns up to `most` chunks that lie beside each other, among them the one with decoded byte `offset`.
    fn find(&self, offset: u64, most: u64) -> Result<Option<DecodedRun>> {
        if offset >= self.frame.nbytes {
            return Ok(None);
        }
        if !self.frame.is_even() {
            let n = self.ends()?.partition_point(|end| *end <= offset) as u64;
            return if n < self.count { self.range(n).map(Some) } else { Ok(None) };
        }
        let n = offset / u64::from(self.frame.chunksize) / most * most;
        let count = most.min(self.count - n);
        let start = n * u64::from(self.frame.chunksize);
        let last = self.range(n + count - 1)?;
        Ok(Some(DecodedRun { n, count, start, len: last.start + last.len - start }))
    }
}

impl Buffers for FrameChunks {
    fn buffer_at(&self, offset: u64) -> Result<Option<DecodedRun>> {
        self.find(offset, 1)
    }

    fn run(&self, offset: u64) -> Result<Option<DecodedRun>> {
        let each = u64::from(self.frame.chunksize);
        self.find(offset, RUN_BYTES.checked_div(each).unwrap_or(1).clamp(1, RUN_BUFFERS))
    }

    fn buffer(&self, n: u64) -> Result<Buffer<'_>> {
        let chunk = self.chunk(n)?;
        Ok(Buffer::new(&*self.stored, chunk.at.unwrap_or(0), chunk.header))
    }

    fn admit(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// A content that has one buffer.
#[derive(Debug)]
pub struct OneBuffer {
    /// The bytes that the buffer is in.
    pub stored: Arc<dyn Content>,
    /// The offset of the buffer in them.
    pub at: u64,
    /// The header of the buffer.
    pub header: Header,
}

impl Buffers for OneBuffer {
    fn buffer_at(&self, offset: u64) -> Result<Option<DecodedRun>> {
        let len = u64::from(self.header.nbytes());
        Ok((offset < len).then_some(DecodedRun { n: 0, count: 1, start: 0, len }))
    }

    fn buffer(&self, _: u64) -> Result<Buffer<'_>> {
        Ok(Buffer::new(&*self.stored, self.at, self.header))
    }

    fn admit(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// Reads the header of the chunk at `at`, which ends before `limit`.
pub(super) fn header_at(stored: &dyn Content, at: u64, limit: u64) -> Result<Header> {
    let room = limit.min(stored.len()).saturating_sub(at);
    let mut bytes = [0; EXTENDED_SIZE as usize];
    let len = room.min(bytes.len() as u64) as usize;
    if len < HEADER_SIZE as usize {
        return Err(placed(Error::damaged("a Blosc2 chunk is cut off within its header"), stored, at));
    }
    let bytes = &mut bytes[..len];
    read_exact_at(stored, at, bytes)?;
    Header::of_chunk(bytes).map_err(|error| placed(error, stored, at))
}
