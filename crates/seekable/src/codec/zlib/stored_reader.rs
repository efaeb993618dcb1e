//! A reader that uses the stored table of a stream. All output is compared with the table's CRCs before it is
//! given.
//!
//! By itself the reader decodes from one CRC to the next. For sequential reads and far seeks other threads
//! decode whole spans ahead.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ahead::{INFLATE, Output};
use super::stored_table::{Record, StoredZlibTable};
use super::table::ZlibTable;
use crate::cache::{Reservation, Task};
use crate::codec::deflate::{Fault, Inflate, Stop, WINDOW, zlib};
use crate::codec::seek::SegmentReader;
use crate::decode::Depth;
use crate::error::{Error, Result};

pub(super) struct StoredTableReader {
    zlib: Arc<ZlibTable>,
    table: Arc<StoredZlibTable>,
    /// The current span.
    span: usize,
    at: u64,
    decoder: Option<SpanDecoder>,
    /// Spans that are being decoded, in order.
    ahead: VecDeque<(usize, Work)>,
    depth: Depth,
}

type Work = Task<(Option<Output>, Reservation)>;

/// A decoder at the reader's position.
struct SpanDecoder {
    inflate: Box<Inflate>,
    /// The record of the current span.
    record: Record,
    window: Vec<u8>,
}

impl StoredTableReader {
    /// Returns a reader from the start of a span on.
    pub(super) fn new(zlib: Arc<ZlibTable>, table: Arc<StoredZlibTable>, span: usize) -> Self {
        let at = table.spans.start(span);
        Self { zlib, table, span, at, decoder: None, ahead: VecDeque::new(), depth: Depth::default() }
    }

    /// Starts further spans, as many as the depth allows and the cache has room for.
    fn fill(&mut self) {
        let depth = self.depth.get(self.at, self.zlib.cache.threads());
        while self.ahead.front().is_some_and(|(span, _)| self.table.spans.start(*span) < self.at) {
            self.ahead.pop_front();
        }
        while self.ahead.len() < depth {
            let within = usize::from(self.table.spans.start(self.span) < self.at);
            let span = self.ahead.back().map_or(self.span + within, |(last, _)| last + 1);
            if span >= self.table.spans.entries.len() {
                return;
            }
            let len = self.table.spans.start(span + 1) - self.table.spans.start(span);
            let weight = len.saturating_add(WINDOW as u64 + INFLATE);
            let Some(reservation) = self.zlib.cache.reserve(weight) else { return };
            let zlib = self.zlib.clone();
            let table = self.table.clone();
            let task = self.zlib.cache.task(move || (decode_span(&zlib, &table, span).ok(), reservation));
            self.ahead.push_back((span, task));
        }
    }

    /// Takes the span that begins at the reader's position, if it was decoded ahead and is right.
    fn take(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        self.ahead.front().filter(|(span, _)| self.table.spans.start(*span) == self.at)?;
        let (span, task) = self.ahead.pop_front()?;
        let (decoded, _reservation) = task.take()?;
        let decoded = decoded?;
        self.zlib.cache.used(Arc::new(std::mem::replace(out, decoded.bytes)));
        self.decoder = None;
        self.span = span + 1;
        self.at = self.table.spans.start(self.span);
        Some(decoded.start)
    }

    /// Decodes up to the next offset that has a CRC in the table.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<usize> {
        if self.at >= self.table.spans.start(self.span + 1) {
            self.span += 1;
            if let Some(decoder) = &mut self.decoder {
                decoder.record = self.table.record(self.span).ok_or_else(wrong)?;
            }
        }
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None => self.decoder.insert(SpanDecoder::at(&self.zlib, &self.table, self.span)?),
        };
        let (number, end) = self.table.next_crc(self.span, self.at);
        let len = usize::try_from(end - self.at).map_err(|_| wrong())?;
        let window = decoder.window.len();
        if out.capacity() < window + len {
            let before = std::mem::replace(out, self.zlib.cache.buffer(WINDOW + len));
            self.zlib.cache.used(Arc::new(before));
        }
        if let Err(error) = decoder.decode(&self.zlib, out, len) {
            out.clear();
            return Err(error);
        }
        if !decoder.record.vouches(number, &out[window..]) {
            out.clear();
            return Err(wrong());
        }
        decoder.window.clear();
        decoder.window.extend_from_slice(&out[out.len().saturating_sub(WINDOW)..]);
        self.at = end;
        if end == self.table.spans.start(self.table.spans.entries.len()) {
            finish(&self.zlib, &self.table, &mut decoder.inflate, out)?;
        }
        Ok(window)
    }
}

impl SpanDecoder {
    fn at(zlib: &ZlibTable, table: &StoredZlibTable, span: usize) -> Result<Self> {
        let (Some(record), Some(position)) = (table.record(span), table.position(span)) else {
            return Err(wrong());
        };
        let window = record.window().ok_or_else(wrong)?;
        let mut inflate = zlib.cache.scratch::<Inflate>();
        inflate.start(&*zlib.stored, position)?;
        Ok(Self { inflate, record, window })
    }

    /// Writes the window and the next `len` bytes to `out`, whose old contents do not matter.
    fn decode(&mut self, zlib: &ZlibTable, out: &mut Vec<u8>, len: usize) -> Result<()> {
        // Only growth of `out` has to write zeros.
        out.resize(self.window.len() + len, 0);
        out[..self.window.len()].copy_from_slice(&self.window);
        let (filled, stop) = self.inflate.decode(&*zlib.stored, out, self.window.len());
        match stop {
            _ if filled == out.len() => Ok(()),
            Err(fault) => Err(fault.into()),
            Ok(_) => Err(wrong()),
        }
    }
}

/// Decodes a span as a whole, with the window before it.
fn decode_span(zlib: &ZlibTable, table: &StoredZlibTable, span: usize) -> Result<Output> {
    let mut decoder = SpanDecoder::at(zlib, table, span)?;
    let start = table.spans.start(span);
    let end = table.spans.start(span + 1);
    let len = usize::try_from(end - start).map_err(|_| wrong())?;
    let mut bytes = zlib.cache.buffer(len + decoder.window.len());
    decoder.decode(zlib, &mut bytes, len)?;
    let SpanDecoder { mut inflate, record, window } = decoder;
    let mut at = start;
    let mut rest = &bytes[window.len()..];
    while at < end {
        let (number, next) = table.next_crc(span, at);
        let (part, after) = rest.split_at((next - at) as usize);
        if !record.vouches(number, part) {
            return Err(wrong());
        }
        (at, rest) = (next, after);
    }
    if span + 1 == table.spans.entries.len() {
        finish(zlib, table, &mut inflate, &mut bytes)?;
    }
    zlib.cache.keep_scratch(inflate, INFLATE);
    Ok(Output { bytes, start: window.len() })
}

/// Fails unless the stream ends after its last byte, at the bit and with the checksum in the table.
fn finish(zlib: &ZlibTable, table: &StoredZlibTable, inflate: &mut Inflate, out: &mut [u8]) -> Result<()> {
    let filled = out.len();
    let ends = matches!(inflate.decode(&*zlib.stored, out, filled), (_, Ok(Stop::End)));
    let position = inflate.position();
    let checksum: std::result::Result<u32, Fault> = zlib::stored_checksum(&*zlib.stored, position);
    if !ends || position.bit != table.spans.whole.end || checksum? != table.spans.whole.checksum {
        return Err(wrong());
    }
    Ok(())
}

fn wrong() -> Error {
    Error::damaged("the seek table does not fit the stream")
}

impl SegmentReader for StoredTableReader {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<Option<usize>> {
        if self.at >= self.table.spans.start(self.table.spans.entries.len()) {
            return Ok(None);
        }
        self.fill();
        let start = match self.take(out) {
            Some(start) => start,
            None => self.step(out)?,
        };
        self.depth.note_read(out.len() - start, self.at);
        Ok(Some(start))
    }

    fn wanted(&mut self, until: u64) {
        self.depth.wanted(until);
    }

    fn done(&mut self, out: Vec<u8>) {
        self.zlib.cache.used(Arc::new(out));
    }

    fn weight(&self) -> u64 {
        if self.decoder.is_some() { INFLATE + WINDOW as u64 } else { 0 }
    }

    fn uses_stored_table(&self) -> bool {
        true
    }
}
