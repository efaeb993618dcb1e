//! The stored bytes for a decoder: read front to back, in bounded reads.

use std::io;
use std::sync::Arc;

use crate::content::{Content, on_server};
use crate::error::{Error, Result};

/// Bytes read at a time, unless `in_reads_of` sets another size.
const READ: usize = 128 << 10;
/// Bytes read at a time beyond what a server may read ahead.
const BEYOND: u64 = 64 << 10;

/// A reader of a range of the stored bytes, once and front to back.
pub(super) struct Input {
    stored: Arc<dyn Content>,
    /// Offset of the next read.
    next: u64,
    start_of_range: u64,
    end: u64,
    /// End of the bytes that a server may read ahead.
    ahead_end: u64,
    /// Bytes read at a time.
    size: usize,
    /// True if the range or a skip went past the end.
    beyond: bool,
    buffer: Vec<u8>,
    /// Start of the bytes in `buffer` that are not taken yet.
    start: usize,
    filled: usize,
}

impl Input {
    /// Returns an input for all of `stored`.
    pub(super) fn new(stored: &Arc<dyn Content>) -> Self {
        Self::range(stored, 0, stored.len())
    }

    /// Returns an input for the bytes from `start` to `end`, or to the end of `stored` if that comes first.
    pub(super) fn range(stored: &Arc<dyn Content>, start: u64, end: u64) -> Self {
        let end = end.min(stored.len());
        Self {
            stored: stored.clone(),
            next: start,
            start_of_range: start,
            end,
            ahead_end: end,
            size: READ,
            beyond: start > end,
            buffer: Vec::new(),
            start: 0,
            filled: 0,
        }
    }

    /// Returns another input for the bytes from `start` to `end` of the same content.
    pub(super) fn again(&self, start: u64, end: u64) -> Self {
        Self::range(&self.stored, start, end)
    }

    /// Sets the number of bytes read at a time.
    pub(super) fn in_reads_of(self, size: usize) -> Self {
        Self { size, ..self }
    }

    /// Sets the offset at which a server stops reading ahead.
    pub(super) fn reading_ahead_to(self, ahead_end: u64) -> Self {
        Self { ahead_end, ..self }
    }

    /// Returns the buffered bytes, after a read if there were none; empty at the end.
    pub(super) fn fill(&mut self) -> Result<&[u8]> {
        if self.start == self.filled {
            self.more()?;
        }
        Ok(self.at_hand())
    }

    /// Returns the buffered bytes: at least `count` (capped at half the read size) unless fewer are left.
    pub(super) fn at_least(&mut self, count: usize) -> Result<&[u8]> {
        while self.filled - self.start < count.min(self.size / 2) && self.more()? {}
        Ok(self.at_hand())
    }

    /// Returns the next four bytes without taking them, padded with zeros at the end.
    pub(super) fn magic(&mut self) -> Result<[u8; 4]> {
        let available = self.at_least(4)?;
        let mut magic = [0; 4];
        let len = available.len().min(4);
        magic[..len].copy_from_slice(&available[..len]);
        Ok(magic)
    }

    /// Takes `count` of the buffered bytes.
    pub(super) fn take(&mut self, count: usize) {
        self.start = (self.start + count).min(self.filled);
    }

    /// Takes `len` bytes as one slice of `buffer`; its old contents do not matter. Fails if fewer bytes are
    /// left.
    pub(super) fn gather<'a>(&mut self, len: usize, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let bytes_left = self.end.saturating_sub(self.position());
        if len as u64 > bytes_left {
            return Err(self.cut_off());
        }
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let out = &mut buffer[..len];
        let at_hand = self.at_hand().len().min(len);
        out[..at_hand].copy_from_slice(&self.at_hand()[..at_hand]);
        self.take(at_hand);
        let mut done = at_hand;
        while done < len {
            match self.read(&mut out[done..])?.min(len - done) {
                0 => return Err(self.cut_off()),
                read => {
                    done += read;
                    self.next += read as u64;
                }
            }
        }
        Ok(out)
    }

    /// Skips `count` bytes without reading them.
    pub(super) fn skip(&mut self, count: u64) {
        let at_hand = (self.filled - self.start) as u64;
        if count <= at_hand {
            self.start += count as usize;
        } else {
            self.start = self.filled;
            let next = self.next.saturating_add(count - at_hand);
            self.beyond |= next > self.end;
            self.next = next.min(self.end);
        }
    }

    /// True if the range ends before `end`.
    pub(super) fn ends_early(&self, end: u64) -> bool {
        self.end < end
    }

    /// True if every byte was taken.
    pub(super) fn is_at_end(&self) -> bool {
        self.start == self.filled && self.next >= self.end
    }

    /// True if every byte was taken and no skip went past the end.
    pub(super) fn is_exactly_at_end(&self) -> bool {
        self.is_at_end() && !self.beyond
    }

    /// True if a skip went past the end.
    pub(super) fn is_beyond(&self) -> bool {
        self.beyond
    }

    /// Returns the number of bytes that are not taken yet.
    pub(super) fn len(&self) -> u64 {
        self.end.saturating_sub(self.position())
    }

    /// Returns the offset of the next byte in the stored bytes.
    pub(super) fn position(&self) -> u64 {
        self.next - (self.filled - self.start) as u64
    }

    /// Returns a damage error for the current place in the file.
    pub(super) fn damaged(&self, message: impl Into<String>) -> Error {
        self.place(Error::damaged(message))
    }

    /// Adds the current place in the file to an error.
    pub(super) fn place(&self, error: Error) -> Error {
        match self.stored.stored() {
            Some((source, offset)) => error.at(offset.saturating_add(self.position())).of(source.path()),
            None => error,
        }
    }

    /// Returns the error for compressed data that is cut off.
    pub(super) fn cut_off(&self) -> Error {
        self.damaged("the compressed data are cut off")
    }

    /// Reads at the current offset.
    fn read(&self, buf: &mut [u8]) -> Result<usize> {
        if let Some((source, offset)) = on_server(&*self.stored) {
            let place = |at: u64| offset.saturating_add(at);
            let end = self.ahead_end.max(self.next.saturating_add(buf.len() as u64));
            let extent = place(self.start_of_range)..place(end);
            let read = source.read_within(extent, place(self.next), buf)?;
            if read > 0 {
                return Ok(read);
            }
        }
        self.stored.read_at(self.next, buf)
    }

    fn at_hand(&self) -> &[u8] {
        &self.buffer[self.start..self.filled]
    }

    /// Reads more bytes after the buffered ones; false if there were none.
    fn more(&mut self) -> Result<bool> {
        self.buffer.copy_within(self.start..self.filled, 0);
        (self.start, self.filled) = (0, self.filled - self.start);
        let bytes_left = self.end.saturating_sub(self.next);
        let at_once = bytes_left.min(self.ahead_end.saturating_sub(self.next).max(BEYOND));
        let room = self.size.saturating_sub(self.filled).min(usize::try_from(at_once).unwrap_or(usize::MAX));
        if room == 0 {
            return Ok(false);
        }
        if self.buffer.len() < self.filled + room {
            self.buffer.resize(self.filled + room, 0);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.read(&mut buffer[self.filled..self.filled + room]);
        self.buffer = buffer;
        let read = read?.min(room);
        self.filled += read;
        self.next += read as u64;
        Ok(read > 0)
    }
}

impl io::Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let available = self.fill().map_err(io::Error::other)?;
        let read = available.len().min(out.len());
        out[..read].copy_from_slice(&available[..read]);
        self.take(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Text;

    #[test]
    fn reads_looks_ahead_and_skips_across_its_reads() {
        let bytes: Vec<u8> = (0..3 * READ).map(|at| (at / 7) as u8).collect();
        let stored: Arc<dyn Content> = Arc::new(Text::new(bytes.clone()));
        let mut input = Input::range(&stored, 5, u64::MAX);
        assert_eq!(input.magic().unwrap(), bytes[5..9]);
        input.skip(READ as u64 - 7);
        assert_eq!(input.at_least(100).unwrap()[..100], bytes[READ - 2..READ + 98]);
        input.skip(READ as u64);
        assert_eq!(input.fill().unwrap()[..3], bytes[2 * READ - 2..2 * READ + 1]);
        input.skip(u64::MAX);
        assert!(input.fill().unwrap().is_empty() && input.is_at_end());
    }

    #[test]
    fn looks_ahead_to_the_end_when_fewer_bytes_are_left_than_are_at_hand() {
        let stored: Arc<dyn Content> = Arc::new(Text::new((0..15).collect::<Vec<u8>>()));
        let mut input = Input::new(&stored).in_reads_of(12);
        input.at_least(1).unwrap();
        input.take(7);
        assert_eq!(input.at_least(6).unwrap(), [7, 8, 9, 10, 11, 12, 13, 14]);
    }
}
