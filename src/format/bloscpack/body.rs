//! The payload: what all chunks decode to, one after the other.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::chain::Found;
use super::checksum::Checksum;
use super::header::{Header, Kind};
use super::map::ChunkMap;
use crate::codec::blosc::{Buffer, Buffers, Place};
use crate::content::{Content, Slice};
use crate::error::{Error, Result};
use crate::source::Source;

/// What a chunk with a wrong checksum is told as.
pub const MISMATCH: &str = "its checksum does not fit the stored bytes";

/// Chunks with wrong checksums that are remembered.
const WRONG: usize = 4096;

/// Which chunk holds which decoded bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sizes {
    /// As the header says: so many in each chunk but the last, so many in that one.
    Stated { each: u64, last: u64, chunks: u64 },
    /// As the chunks say.
    Counted,
}

/// The chunks of a file as parts of its payload.
#[derive(Debug)]
pub struct Body {
    map: ChunkMap,
    sizes: Sizes,
    source: Arc<dyn Source>,
    stored: Arc<dyn Content>,
    checksum: Checksum,
    checks: Mutex<Checks>,
}

/// Which chunks have the right checksum.
#[derive(Debug, Default)]
struct Checks {
    /// A bit a chunk, 64 in a word.
    right: HashMap<u64, u64>,
    wrong: BTreeSet<u64>,
    running: HashMap<u64, Arc<OnceLock<Result<bool>>>>,
}

impl Body {
    /// The payload of a file with this header.
    pub fn new(source: &Arc<dyn Source>, size: u64, header: &Header) -> Result<Self> {
        let map = ChunkMap::new(source.clone(), size, header);
        let sizes = sizes(header, &map)?;
        Ok(Self {
            map,
            sizes,
            source: source.clone(),
            stored: Arc::new(Slice::new(source.clone(), 0, size)),
            checksum: header.checksum,
            checks: Mutex::default(),
        })
    }

    /// Where the chunks lie.
    pub fn map(&self) -> &ChunkMap {
        &self.map
    }

    /// Bytes of the payload. Where the header does not say so, the chunks are counted.
    pub fn size(&self) -> Result<u64> {
        Ok(match self.told_size() {
            Some(len) => len,
            None => self.map.scan()?.decoded,
        })
    }

    /// Bytes of the payload, if the header says so.
    pub fn told_size(&self) -> Option<u64> {
        match self.sizes {
            Sizes::Stated { chunks: 0, .. } => Some(0),
            Sizes::Stated { each, last, chunks } => Some((chunks - 1) * each + last),
            Sizes::Counted => None,
        }
    }

    /// Chunk `n`, and where its bytes begin in the payload.
    pub fn chunk(&self, n: u64) -> Result<(Found, u64)> {
        let found = self.map.chunk(n)?;
        match self.sizes {
            Sizes::Stated { each, last, chunks } => {
                let (stated, nbytes) = (if n + 1 == chunks { last } else { each }, found.header.nbytes());
                if stated != u64::from(nbytes) {
                    return Err(Error::damaged(format!(
                        "it decodes to {nbytes} bytes, where the header of the file says {stated}"
                    ))
                    .at(found.at));
                }
                Ok((found, n * each))
            }
            Sizes::Counted => Ok((found, self.map.decoded_start(n)?)),
        }
    }

    /// The buffer of chunk `n`.
    pub fn open(&self, found: &Found) -> Buffer {
        Buffer::new(self.stored.clone(), found.at, found.header)
    }

    /// The stored checksum of a chunk.
    pub fn stored_sum(&self, found: &Found) -> Result<Vec<u8>> {
        self.checksum.stored(&*self.source, found.at + u64::from(found.header.cbytes()))
    }

    /// Whether the checksum of chunk `n` is right: looked at once, by one thread, while the others wait.
    pub fn check(&self, n: u64, found: &Found) -> Result<bool> {
        if self.checksum == Checksum::None {
            return Ok(true);
        }
        let check = {
            let mut checks = self.checks();
            if checks.right.get(&(n / 64)).is_some_and(|word| word >> (n % 64) & 1 == 1) {
                return Ok(true);
            }
            if checks.wrong.contains(&n) {
                return Ok(false);
            }
            checks.running.entry(n).or_default().clone()
        };
        let is_right = check
            .get_or_init(|| {
                let sum = self.checksum.sum(&*self.source, found.at, found.header.cbytes().into())?;
                Ok(sum == self.stored_sum(found)?)
            })
            .clone();
        let mut checks = self.checks();
        checks.running.remove(&n);
        match is_right {
            Ok(true) => *checks.right.entry(n / 64).or_default() |= 1 << (n % 64),
            Ok(false) if checks.wrong.len() < WRONG => drop(checks.wrong.insert(n)),
            _ => {}
        }
        is_right
    }

    /// The same as an error.
    pub fn admit_found(&self, n: u64, found: &Found) -> Result<()> {
        match self.check(n, found)? {
            true => Ok(()),
            false => Err(Error::wrong_checksum(MISMATCH).at(found.at)),
        }
    }

    fn checks(&self) -> MutexGuard<'_, Checks> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sizes of the header, unless the first or the last chunk contradicts them: Bloscpack itself goes by the chunks.
fn sizes(header: &Header, map: &ChunkMap) -> Result<Sizes> {
    let stated = (u64::try_from(header.chunk_size), u64::try_from(header.last_chunk), header.chunks);
    let (Ok(each), Ok(last), Some(chunks)) = stated else { return Ok(Sizes::Counted) };
    if header.kind == Kind::Variable || (chunks > 1 && (each == 0 || last > each)) {
        return Ok(Sizes::Counted);
    }
    let stated = Sizes::Stated { each, last, chunks };
    let len = chunks.saturating_sub(1).checked_mul(each).and_then(|len| len.checked_add(last));
    if len.is_none_or(|len| len > i64::MAX as u64) {
        return Err(Error::damaged(format!(
            "{chunks} chunks of {each} bytes are said to be there, more than any file can be"
        ))
        .at(8));
    }
    if chunks == 0 {
        return Ok(stated);
    }
    let first = if chunks == 1 { last } else { each };
    let ends = [(map.first()?, first), (map.last_by_offset()?, last)];
    let agree = |(found, stated): &(Option<Found>, u64)| {
        found.is_none_or(|found| u64::from(found.header.nbytes()) == *stated)
    };
    Ok(if ends.iter().all(agree) { stated } else { Sizes::Counted })
}

impl Buffers for Body {
    fn place(&self, offset: u64) -> Result<Option<Place>> {
        match self.sizes {
            Sizes::Stated { each, last, chunks } => {
                if self.told_size().is_none_or(|len| offset >= len) {
                    return Ok(None);
                }
                let n = offset.checked_div(each).unwrap_or(0).min(chunks - 1);
                let len = if n + 1 == chunks { last } else { each };
                Ok(Some(Place { n, start: n * each, len }))
            }
            Sizes::Counted => Ok(self.map.at_decoded(offset)?.map(|(n, start, len)| Place { n, start, len })),
        }
    }

    fn buffer(&self, n: u64) -> Result<Buffer> {
        let (found, _) = self.chunk(n)?;
        Ok(self.open(&found))
    }

    fn admit(&self, n: u64) -> Result<()> {
        let (found, _) = self.chunk(n)?;
        self.admit_found(n, &found)
    }
}
