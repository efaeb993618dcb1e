//! The positions of the chunks in a row of Blosc buffers, found by skipping from header to header.
//!
//! A step finds a *span*: one buffer, or a run of buffers that are too small for chunks of their own. The
//! search stops at the wanted offset. A mark, the start of a span, is kept for each span, or, if there are
//! very many, for every second, fourth … span, so that the table stays small for any stored bytes. The spans
//! between are found again from the mark before them.

use super::header::Header;
use crate::decode::Chunk;
use crate::error::Result;

/// Maximum number of spans whose start is kept in the table.
const MAX_MARKS: usize = 1 << 14;

/// A boundary between two spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SpanStart {
    /// Number of stored bytes before the boundary.
    pub(super) stored: u64,
    /// Number of decoded bytes before the boundary.
    pub(super) decoded: u64,
    /// Number of chunks before the boundary.
    pub(super) chunks: u64,
}

/// One buffer, or a run of small ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: SpanStart,
    pub(super) end: SpanStart,
    /// Decoded bytes in each chunk but the last; not 0.
    pub(super) piece: u64,
    /// The header of the buffer; `None` for a run, which is one chunk.
    pub(super) header: Option<Header>,
}

impl Span {
    /// Returns the chunk that holds decoded byte `offset`, if it is in this span.
    pub(super) fn chunk(&self, offset: u64) -> Option<Chunk> {
        if offset < self.start.decoded || offset >= self.end.decoded {
            return None;
        }
        let piece = (offset - self.start.decoded) / self.piece;
        let start = self.start.decoded + piece * self.piece;
        let len = self.piece.min(self.end.decoded - start);
        Some(Chunk { index: self.start.chunks + piece, offset: start, len })
    }
}

/// The spans (buffers, or runs of small buffers) found so far, in order.
#[derive(Debug)]
pub(super) struct Table {
    /// The start of every `stride`-th span found so far.
    marks: Vec<SpanStart>,
    stride: u64,
    /// Number of spans (buffers, or runs of small buffers) found so far.
    spans: u64,
    /// The end of the last span found so far.
    frontier: SpanStart,
    last: Option<Span>,
}

impl Default for Table {
    fn default() -> Self {
        Self { marks: vec![], stride: 1, spans: 0, frontier: SpanStart::default(), last: None }
    }
}

impl Table {
    /// Returns the span that holds decoded byte `offset`; `None` past the end.
    ///
    /// `next_span` returns the span that begins at a boundary, or `None` at the end; it must be deterministic.
    pub(super) fn find(
        &mut self,
        offset: u64,
        mut next_span: impl FnMut(SpanStart) -> Result<Option<Span>>,
    ) -> Result<Option<Span>> {
        if let Some(span) = self.last.filter(|span| span.chunk(offset).is_some()) {
            return Ok(Some(span));
        }
        let mut mark = self.nearest(offset);
        while let Some(span) = next_span(mark)? {
            if mark == self.frontier {
                self.extend(span);
            }
            if span.chunk(offset).is_some() {
                self.last = Some(span);
                return Ok(Some(span));
            }
            mark = span.end;
        }
        Ok(None)
    }

    fn nearest(&self, offset: u64) -> SpanStart {
        if offset >= self.frontier.decoded {
            return self.frontier;
        }
        let after = self.marks.partition_point(|mark| mark.decoded <= offset);
        after.checked_sub(1).and_then(|before| self.marks.get(before)).copied().unwrap_or_default()
    }

    fn extend(&mut self, span: Span) {
        if self.spans.is_multiple_of(self.stride) {
            if self.marks.len() == MAX_MARKS {
                let mut keep = false;
                self.marks.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride *= 2;
            }
            // MAX_MARKS is even, so the new stride keeps this span too.
            self.marks.push(span.start);
        }
        self.spans += 1;
        self.frontier = span.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a span for each stored byte `i`, with `i % 3` chunks of 10 bytes.
    fn span_at(mark: SpanStart, count: u64) -> Option<Span> {
        let len = mark.stored % 3 * 10;
        let end = SpanStart {
            stored: mark.stored + 1,
            decoded: mark.decoded + len,
            chunks: mark.chunks + len / 10,
        };
        (mark.stored < count).then_some(Span { start: mark, end, piece: 10, header: None })
    }

    #[test]
    fn the_table_stays_small_and_right() {
        let count = 200_000;
        let mut table = Table::default();
        let mut lookups = 0;
        let mut find = |offset| {
            let span = table.find(offset, |mark| {
                lookups += 1;
                Ok(span_at(mark, count))
            });
            (span.expect("no error").and_then(|span| span.chunk(offset)), lookups, table.marks.len())
        };
        let all = count / 3 * 30 + 10; // spans 0 to 199 999: the last two hold 0 and 10
        assert_eq!(find(25).0, Some(Chunk { index: 2, offset: 20, len: 10 }));
        assert_eq!(find(25).1, 3, "no further than asked, and not twice");
        for offset in (0..all).rev().step_by(99_991).chain((0..all).step_by(77_777)) {
            let (chunk, _, marks) = find(offset);
            assert_eq!(chunk, Some(Chunk { index: offset / 10, offset: offset / 10 * 10, len: 10 }));
            assert!(marks <= MAX_MARKS);
        }
        assert_eq!(find(all).0, None);
        let before = find(all).1;
        let after = find(all / 2).1;
        assert!(after - before <= 32, "{} lookups from the nearest mark", after - before);
    }

    #[test]
    fn what_lies_before_an_error_is_found() {
        let mut table = Table::default();
        let mut find = |offset| {
            table.find(offset, |mark| match mark.stored {
                9.. => Err(crate::Error::damaged("broken")),
                _ => Ok(span_at(mark, 100)),
            })
        };
        assert!(find(1000).is_err());
        assert!(find(89).expect("before it").is_some());
        assert!(find(90).is_err());
    }
}
