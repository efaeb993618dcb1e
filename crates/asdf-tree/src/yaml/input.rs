//! The parser's input: a text in memory or a content, read from start to end.

use std::sync::Arc;

use super::event::Mark;
use seekable::content::{Content, copy_from};
use seekable::error::{Error, Result};

/// Maximum number of `%TAG` lines: libyaml's time is quadratic in this number.
const MAX_TAG_LINES: usize = 1000;

/// Maximum number of bytes for one event: libyaml holds a scalar, and the blanks behind it, in up to twice as much
/// memory.
const MAX_EVENT: u64 = 32 << 20;

/// The byte order mark, which libyaml skips and doesn't count in offsets.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// A text in memory or in a content.
pub(super) enum Text<'a> {
    Bytes(&'a [u8]),
    Shared(Arc<dyn Content>),
}

impl Text<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self {
            Self::Shared(content) => content.read_at(offset, buf),
            Self::Bytes(bytes) => Ok(copy_from(bytes, offset, buf)),
        }
    }
}

/// A text that libyaml reads piece by piece.
pub(super) struct Input<'a> {
    text: Text<'a>,
    offset: u64,
    /// The offset that was reached when the last event was complete.
    last_event: u64,
    tag_lines: usize,
    /// The error that ended the input.
    pub(super) error: Option<Error>,
}

impl<'a> Input<'a> {
    pub(super) fn new(text: Text<'a>) -> Self {
        Self { text, offset: 0, last_event: 0, tag_lines: 0, error: None }
    }

    /// Returns the length of the byte order mark at the start of the text, or 0.
    pub(super) fn byte_order_mark(&self) -> u64 {
        let mut head = [0; BOM.len()];
        // Errors can be ignored here: libyaml reads the same bytes again and then fails.
        match self.text.read_at(0, &mut head) {
            Ok(_) if head == BOM => BOM.len() as u64,
            _ => 0,
        }
    }

    /// Notes that an event is complete.
    pub(super) fn end_event(&mut self) {
        self.last_event = self.offset;
    }

    /// Reads the next bytes. Returns their number, 0 at the end.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        if self.offset - self.last_event > MAX_EVENT {
            let most = MAX_EVENT >> 20;
            return Err(Error::unsupported(format!(
                "a text or a comment in the tree, with the blanks behind it, is longer than {most} MiB"
            )));
        }
        let read = self.text.read_at(self.offset, buf)?;
        self.offset += read as u64;
        self.tag_lines += memchr::memmem::find_iter(&buf[..read], b"\n%TAG").count();
        if self.tag_lines > MAX_TAG_LINES {
            return Err(Error::unsupported(format!("more than {MAX_TAG_LINES} %TAG lines")));
        }
        Ok(read)
    }

    /// Computes the line and column of a byte, for libyaml's errors that have only an offset.
    pub(super) fn mark(&self, offset: u64) -> Mark {
        let mut line = 1;
        let mut column = 1;
        let mut at = 0;
        let mut after_cr = false;
        let mut buf = [0; 4096];
        while at < offset {
            let wanted = (offset - at).min(buf.len() as u64) as usize;
            let read = match self.text.read_at(at, &mut buf[..wanted]) {
                Ok(read) if read > 0 => read,
                _ => break,
            };
            for &byte in &buf[..read] {
                match byte {
                    b'\n' if after_cr => {}
                    b'\n' | b'\r' => (line, column) = (line + 1, 1),
                    // Continuation bytes of a UTF-8 character.
                    0x80..=0xbf => {}
                    _ => column += 1,
                }
                after_cr = byte == b'\r';
            }
            at += read as u64;
        }
        Mark { offset, line, column }
    }
}
