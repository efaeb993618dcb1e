//! Reads: the ways in which bytes reach the kernel.

use std::cell::RefCell;

use fuser::ReplyData;
use seekable::content::Content;
use seekable::error::{Error, Kind, Result};
use seekable::source::Lent;

use super::reply;
use crate::vfs::{OverlayWriter, ReadBytes, ReadHandle, Reading};

/// Minimum length at which stored bytes are passed from the mapping to the kernel without a copy. For shorter
/// reads, the mapping costs more than the copy.
const WORTH_LENDING: u64 = 16 << 10;

thread_local! {
    /// Buffer for bytes that are copied on their way to the kernel.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Answers a read through a writable handle.
pub(super) fn answer_from_writer(writer: &OverlayWriter, read: ReadRequest, reply: ReplyData) {
    let ReadRequest { offset, size, purpose, .. } = read;
    BUFFER.with_borrow_mut(|buffer| {
        let wanted = size as usize;
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        match writer.read(offset, &mut buffer[..wanted], purpose == Purpose::Cache) {
            Ok(count) => reply.data(&buffer[..count.min(wanted)]),
            Err(error) => reply.error(reply::errno(&error)),
        }
    });
}

/// A request to read part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadRequest {
    /// Thread ID of the reader.
    pub(super) thread: u32,
    pub(super) offset: u64,
    /// Maximum number of bytes.
    pub(super) size: u32,
    pub(super) purpose: Purpose,
}

/// The kernel's purpose in a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A read by a program. A short reply is allowed: the program reads again for the rest.
    Program,
    /// A read of whole pages for the page cache or a mapping. To the kernel, a short reply means the
    /// end of the file: it fills the page with zeros and shortens the file.
    Cache,
}

/// Answers a read. Returns the reply unused if another program has changed the file; then call
/// [`answer_anew`].
pub(super) fn answer(
    reader: &ReadHandle,
    reading: Result<Reading<'_>>,
    read: ReadRequest,
    reply: ReplyData,
) -> Option<ReplyData> {
    match try_answer(reading, read, reply) {
        Ok(()) => None,
        Err((error, reply)) if error.kind() == Kind::Changed => Some(reply),
        Err((error, reply)) => {
            refuse(reader, &error, reply);
            None
        }
    }
}

/// Answers a read of a file whose source another program has changed. Fails unless the file's own bytes are
/// unchanged.
pub(super) fn answer_anew(reader: &ReadHandle, read: ReadRequest, reply: ReplyData) {
    let answered = match reader.renew() {
        Ok(()) => try_answer(reader.current(), read, reply),
        Err(error) => Err((error, reply)),
    };
    if let Err((error, reply)) = answered {
        refuse(reader, &error, reply);
    }
}

fn refuse(reader: &ReadHandle, error: &Error, reply: ReplyData) {
    // An interrupted read says nothing about the file, so it is not reported.
    if error.errno() != libc::EINTR {
        reader.report(error);
    }
    reply.error(reply::errno(error));
}

/// Answers a read, or returns the error together with the unused reply.
fn try_answer(
    reading: Result<Reading<'_>>,
    read: ReadRequest,
    reply: ReplyData,
) -> std::result::Result<(), (Error, ReplyData)> {
    let ReadRequest { offset, size, purpose, .. } = read;
    let reading = match reading.and_then(|reading| reading.admit().map(|()| reading)) {
        Ok(reading) => reading,
        Err(error) => return Err((error, reply)),
    };
    let content = &**reading.content();
    if content.is_slow()
        && let Some(shared) = content.share(offset, size as usize, true)
    {
        reply.data(&shared);
        reading.given(offset, ReadBytes::Shared(shared));
        return Ok(());
    }
    if let Some(lent) = lend(content, offset, size) {
        // If the file is truncated at this moment, the mapping has no bytes there. Writing the reply then
        // fails, and the kernel ends the request with EIO.
        reply.data(lent.for_kernel());
        return Ok(());
    }
    BUFFER.with_borrow_mut(|buffer| {
        let wanted = size as usize;
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        let filled = fill(content, offset, &mut buffer[..wanted]);
        let filled = filled.and_then(|count| match purpose {
            Purpose::Cache if count < wanted => {
                why_short(content, offset.saturating_add(count as u64)).map_or(Ok(count), Err)
            }
            _ => Ok(count),
        });
        match filled {
            Ok(count) => {
                reply.data(&buffer[..count]);
                reading.given(offset, ReadBytes::Copied(buffer, count));
                Ok(())
            }
            Err(error) => Err((error, reply)),
        }
    })
}

/// Answers a read with decoded bytes from memory. Returns the reply unused if the bytes are not in memory.
pub(super) fn answer_at_hand(
    reading: &Reading<'_>,
    read: ReadRequest,
    reply: ReplyData,
) -> Option<ReplyData> {
    let Some(shared) = reading.at_hand(read.offset, read.size as usize) else { return Some(reply) };
    reply.data(&shared);
    reading.given(read.offset, ReadBytes::Shared(shared));
    None
}

fn fill(content: &dyn Content, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    content.read_at(offset, buffer).map(|read| read.min(buffer.len()))
}

/// Returns the reason why a read stopped at `at`; `None` at the end of the content.
fn why_short(content: &dyn Content, at: u64) -> Option<Error> {
    if at >= content.len() {
        return None;
    }
    let again = content.read_at(at, &mut [0]);
    Some(again.err().unwrap_or_else(|| Error::damaged(format!("the read ended early, before byte {at}"))))
}

/// Lends the bytes of a read from the source's mapping, if all of them are contiguous there.
fn lend(content: &dyn Content, offset: u64, size: u32) -> Option<Lent<'_>> {
    let len = content.len().saturating_sub(offset).min(size.into());
    if len < WORTH_LENDING {
        return None;
    }
    let stored = content.stored_at(offset).filter(|stored| stored.len >= len)?;
    stored.source.lend(stored.offset, usize::try_from(len).ok()?)
}
