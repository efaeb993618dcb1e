//! A reader that decodes the parts of a stream in order, with further parts ahead.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{PartDecoder, PartTable, Parts, StreamPart};
use crate::cache::{Reservation, Task};
use crate::codec::seek::SegmentReader;
use crate::decode::{Depth, GRANULE, WHOLE};
use crate::error::Result;

/// A decoder of parts in order, from any part on.
pub(super) struct PartReader<P: Parts> {
    table: Arc<PartTable<P>>,
    /// Number of the current part, or of the next one.
    n: usize,
    /// The decoded offset at which part `n` begins.
    part_offset: u64,
    /// The decoded offset of the next byte.
    offset: u64,
    current: Option<P::Decoder>,
    ahead: VecDeque<(usize, Task<DecodedPart<P>>)>,
    depth: Depth,
    ended: bool,
}

/// A part decoded ahead: its bytes, their start in the buffer, and the decoder.
type DecodedPart<P> = (Result<(Vec<u8>, usize, <P as Parts>::Decoder)>, Reservation);

impl<P: Parts> PartReader<P> {
    /// Returns a reader from the start of part `n` on, which has the decoded offset `offset`.
    pub(super) fn new(table: Arc<PartTable<P>>, n: usize, offset: u64) -> Self {
        Self {
            table,
            n,
            part_offset: offset,
            offset,
            current: None,
            ahead: VecDeque::new(),
            depth: Depth::default(),
            ended: false,
        }
    }

    /// Starts decoding further parts, as many as the depth allows and the cache has room for.
    fn fill(&mut self) -> Result<()> {
        let depth = self.depth.get(self.offset, self.table.cache.threads());
        while self.ahead.len() < depth {
            let n = self.ahead.back().map_or(self.n, |last| last.0) + 1;
            if n >= self.table.state().known_parts.len() {
                return Ok(());
            }
            let Some(part) = self.table.part(n)? else { return Ok(()) };
            if part.until.is_none() || part.most > WHOLE {
                return Ok(());
            }
            let weight = part.most.saturating_add(self.table.parts.weight());
            let Some(reservation) = self.table.cache.reserve(weight) else { return Ok(()) };
            let theirs = self.table.clone();
            let task = self.table.cache.task(move || (decode(&theirs, n, part), reservation));
            self.ahead.push_back((n, task));
        }
        Ok(())
    }

    /// Takes the next part, if it was decoded ahead without an error.
    fn take_ahead(&mut self, part: StreamPart, out: &mut Vec<u8>) -> Result<Option<usize>> {
        while self.ahead.front().is_some_and(|(n, _)| *n < self.n) {
            self.ahead.pop_front();
        }
        if self.ahead.front().is_none_or(|(n, _)| *n > self.n) {
            return Ok(None);
        }
        let Some((Ok((bytes, start, mut decoder)), _reservation)) =
            self.ahead.pop_front().and_then(|(_, task)| task.take())
        else {
            return Ok(None);
        };
        let decoded = bytes.get(start..).unwrap_or_default();
        self.table.parts.follow(part.start, decoded, &decoder)?;
        let len = decoded.len() as u64;
        self.offset = self.offset.saturating_add(len);
        self.depth.note_read(decoded.len(), self.offset);
        let stopped = decoder.stopped();
        self.table.parts.leave(decoder);
        self.table.passed(self.n, len, stopped);
        (self.n, self.part_offset) = (self.n + 1, self.offset);
        let before = std::mem::replace(out, bytes);
        self.table.cache.used(Arc::new(before));
        Ok(Some(start))
    }

    /// Handles a decoder that has come to the end of its part.
    fn stop(&mut self, mut decoder: P::Decoder) {
        let stopped = decoder.stopped();
        let ended = stopped.ended;
        if self.table.passed(self.n, self.offset.saturating_sub(self.part_offset), stopped) {
            self.table.parts.leave(decoder);
            (self.n, self.part_offset) = (self.n + 1, self.offset);
        } else if ended {
            self.ended = true;
        } else {
            // The table has no room for another part start: the decoder continues as if there were none.
            self.current = Some(decoder);
        }
    }
}

/// Decodes a part as a whole.
fn decode<P: Parts>(
    table: &PartTable<P>,
    n: usize,
    part: StreamPart,
) -> Result<(Vec<u8>, usize, P::Decoder)> {
    let mut decoder = table.start(n, part)?;
    let mut bytes = table.cache.buffer(usize::try_from(part.most.min(WHOLE)).unwrap_or_default());
    let start = decoder.more(&mut bytes, usize::MAX)?;
    Ok((bytes, start, decoder))
}

impl<P: Parts> SegmentReader for PartReader<P> {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<Option<usize>> {
        loop {
            if self.ended {
                return Ok(None);
            }
            let mut decoder = match self.current.take() {
                Some(decoder) => decoder,
                None => {
                    let Some(part) = self.table.part(self.n)? else {
                        self.ended = true;
                        continue;
                    };
                    self.fill()?;
                    match self.take_ahead(part, out)? {
                        Some(start) if start < out.len() => return Ok(Some(start)),
                        Some(_) => continue,
                        None => self.table.start(self.n, part)?,
                    }
                }
            };
            let start = decoder.more(out, GRANULE as usize)?;
            let len = out.len().saturating_sub(start);
            if len == 0 {
                self.stop(decoder);
                continue;
            }
            self.offset = self.offset.saturating_add(len as u64);
            self.depth.note_read(len, self.offset);
            self.current = Some(decoder);
            return Ok(Some(start));
        }
    }

    fn wanted(&mut self, until: u64) {
        self.depth.wanted(until);
    }

    fn weight(&self) -> u64 {
        self.current.as_ref().map_or(0, PartDecoder::weight)
    }
}
