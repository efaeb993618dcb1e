//! The chain of chunks: finds the chunk that holds a value.
//!
//! To find a value the headers are walked from the first chunk on. A bounded number of chunk starts is kept,
//! so that the next walk begins nearby.

use std::sync::{Arc, Mutex};

use seekable::error::{Error, Result};
use seekable::sync::locked;

use seekable::content::{Content, read_exact_at};

/// Bytes of a chunk's header.
const HEADER: u64 = 25;

/// The approximate number of chunk starts that are kept: this many evenly spaced by values, and as many
/// evenly spaced by bytes.
const MARKS: u64 = 4096;

/// Maximum number of consecutive chunks without values. Writers have no use for them.
const EMPTY_CHUNKS: u32 = 1000;

/// A chunk's header and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// The number of the chunk's first value in the array.
    pub(super) first: u64,
    /// The number of values in the chunk.
    nvalues: u64,
    /// The offset of the chunk's packed values in the stream.
    pub(super) data: u64,
    /// The offset of the next chunk.
    next: u64,
    pub(super) encoded_bits: u8,
    pub(super) offset: f64,
    pub(super) scale: f64,
}

impl Chunk {
    pub(super) fn end(&self) -> u64 {
        self.first + self.nvalues
    }
}

/// The start of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ChunkStart {
    /// The number of the chunk's first value.
    first: u64,
    /// The offset of the chunk's header.
    at: u64,
}

/// The known part of the chain of chunks.
#[derive(Debug, Default)]
struct Walked {
    /// The chunk starts that are kept, in order and far enough apart ([`MARKS`]).
    marks: Vec<ChunkStart>,
    /// The end of the chunk that holds the last value.
    end: Option<u64>,
}

/// The chunks of an array.
#[derive(Debug)]
pub(super) struct Chunks {
    pub(super) packed: Arc<dyn Content>,
    /// True if the length of `packed` is exact, false if it is an upper bound.
    pub(super) ends_known: bool,
    /// The number of values in the array.
    values: u64,
    walked: Mutex<Walked>,
}

impl Chunks {
    /// Returns the chunks of `values` values in the stream `packed`.
    pub(super) fn new(packed: Arc<dyn Content>, ends_known: bool, values: u64) -> Self {
        Self { packed, ends_known, values, walked: Mutex::default() }
    }

    /// Reads the header at `at`. The chunk's first value has the number `first`.
    fn header(&self, ChunkStart { first, at }: ChunkStart) -> Result<Chunk> {
        let mut head = [0; HEADER as usize];
        read_exact_at(&*self.packed, at, &mut head)
            .map_err(|error| error.within(format!("the header of a chunk at byte {at}")))?;
        let word = |start: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&head[start..start + 8]);
            u64::from_be_bytes(word)
        };
        let encoded_bits = head[0];
        let nvalues = word(17);
        if nvalues > self.values - first {
            return Err(Error::damaged(format!(
                "the chunk at byte {at} takes the number of values past the {} of the array",
                self.values
            )));
        }
        let bytes = (u128::from(encoded_bits) * u128::from(nvalues)).div_ceil(8);
        let data = at.saturating_add(HEADER);
        let next = u64::try_from(u128::from(data) + bytes)
            .map_err(|_| Error::damaged(format!("the chunk at byte {at} is larger than a file can be")))?;
        let offset = f64::from_bits(word(1));
        let scale = f64::from_bits(word(9));
        Ok(Chunk { first, nvalues, data, next, encoded_bits, offset, scale })
    }

    fn walked(&self) -> seekable::sync::MutexGuard<'_, Walked> {
        // Every change is complete in itself, so a panic leaves no inconsistent state.
        locked(&self.walked)
    }

    /// Keeps the start of the chunk after `chunk`, if this start is far enough from the last start kept.
    fn keep(&self, chunk: &Chunk) {
        let mut walked = self.walked();
        if chunk.end() == self.values {
            walked.end.get_or_insert(chunk.next);
        }
        let last = walked.marks.last().copied().unwrap_or_default();
        let values = chunk.end().saturating_sub(last.first);
        let bytes = chunk.next.saturating_sub(last.at);
        if values > self.values / MARKS || bytes > (self.packed.len() / MARKS).max(64 * HEADER) {
            walked.marks.push(ChunkStart { first: chunk.end(), at: chunk.next });
        }
    }

    /// Finds the chunk that holds `value`. Starts from `near`, or from the nearest start kept.
    pub(super) fn find(&self, value: u64, near: Option<Chunk>) -> Result<Chunk> {
        let mut place = match near {
            Some(chunk) if chunk.end() <= value => ChunkStart { first: chunk.end(), at: chunk.next },
            _ => {
                let walked = self.walked();
                let after = walked.marks.partition_point(|mark| mark.first <= value);
                after.checked_sub(1).and_then(|n| walked.marks.get(n)).copied().unwrap_or_default()
            }
        };
        let mut empty = 0;
        loop {
            let chunk = self.header(place)?;
            self.keep(&chunk);
            if value < chunk.end() {
                return Ok(chunk);
            }
            empty = if chunk.nvalues == 0 { empty + 1 } else { 0 };
            if empty > EMPTY_CHUNKS {
                return Err(Error::damaged(format!(
                    "there are too many empty chunks before byte {}",
                    chunk.next
                )));
            }
            place = ChunkStart { first: chunk.end(), at: chunk.next };
        }
    }

    /// Fails if anything but empty chunks follows the last value. Succeeds if the end was not reached yet.
    pub(super) fn check_end(&self) -> Result<()> {
        let Some(mut at) = self.walked().end else { return Ok(()) };
        for _ in 0..EMPTY_CHUNKS {
            match self.packed.read_at(at, &mut [0]) {
                Ok(0) => return Ok(()),
                Ok(_) => at = self.header(ChunkStart { first: self.values, at })?.next,
                Err(error) if self.ends_known => return Err(error),
                Err(_) => return Ok(()),
            }
        }
        Err(Error::damaged(format!("empty chunks follow the last value up to byte {at}")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Float;
    use super::super::tests::{chunk, quantized};
    use super::*;

    #[test]
    fn the_kept_places_are_bounded_and_lead_to_the_right_chunk() {
        let values = 100_000u64;
        let stream: Vec<u8> = (0..values).flat_map(|n| chunk(32, n as f64, 1.0, &[1])).collect();
        let content = quantized(stream, values, Float::Double);
        let mut buf = [0; 8];
        for value in [values - 1, 0, 77_777, 5, values - 2] {
            assert_eq!(content.read_at(value * 8, &mut buf).unwrap(), 8);
            assert_eq!(f64::from_le_bytes(buf), value as f64 + 1.0);
        }
        let marks = content.chunks.walked().marks.len() as u64;
        assert!((1000..=2 * MARKS).contains(&marks), "{marks}");
    }
}
