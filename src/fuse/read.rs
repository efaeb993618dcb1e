//! Reads: the ways in which bytes reach the kernel.

use std::cell::RefCell;

use fuser::ReplyData;

use super::reply;
use crate::content::Content;
use crate::error::{Error, Kind, Result};
use crate::source::Lent;
use crate::vfs::{ReadBytes, Reader, Writer};

/// From this length on, stored bytes go from the mapping to the kernel without a copy. For less, the
/// mapping costs more than the copy.
const WORTH_LENDING: u64 = 16 << 10;

thread_local! {
    /// Bytes that are copied on their way to the kernel.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Answers a read through a handle that can write.
pub(super) fn answer_from_writer(
    writer: &Writer,
    offset: u64,
    size: u32,
    purpose: Purpose,
    reply: ReplyData,
) {
    BUFFER.with_borrow_mut(|buffer| {
        let wanted = size as usize;
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        match writer.read(offset, &mut buffer[..wanted], purpose == Purpose::Cache) {
            Ok(read) => reply.data(&buffer[..read.min(wanted)]),
            Err(error) => reply.error(reply::errno(&error)),
        }
    });
}

/// What the kernel reads for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A program's own read: it gets the bytes there are, and reads again for the rest.
    Program,
    /// The page cache or a mapping, in whole pages. To the kernel a short reply is the end of the file: it
    /// fills the page with zeros and shortens the file.
    Cache,
}

/// Answers a read. Returns the reply if another program has changed the file: [`answer_anew`] answers then.
pub(super) fn answer(
    reader: &Reader,
    offset: u64,
    size: u32,
    purpose: Purpose,
    reply: ReplyData,
) -> Option<ReplyData> {
    match try_answer(reader, offset, size, purpose, reply) {
        Ok(()) => None,
        Err((error, reply)) if error.kind() == Kind::Changed => Some(reply),
        Err((error, reply)) => {
            refuse(reader, &error, reply);
            None
        }
    }
}

/// Answers a read of a file that another program has changed, if it has left these bytes alone.
pub(super) fn answer_anew(reader: &Reader, offset: u64, size: u32, purpose: Purpose, reply: ReplyData) {
    let answered = match reader.renew() {
        Ok(()) => try_answer(reader, offset, size, purpose, reply),
        Err(error) => Err((error, reply)),
    };
    if let Err((error, reply)) = answered {
        refuse(reader, &error, reply);
    }
}

fn refuse(reader: &Reader, error: &Error, reply: ReplyData) {
    reader.trouble(error);
    reply.error(reply::errno(error));
}

/// Answers a read, or returns the reply with the reason why it can't be.
fn try_answer(
    reader: &Reader,
    offset: u64,
    size: u32,
    purpose: Purpose,
    reply: ReplyData,
) -> std::result::Result<(), (Error, ReplyData)> {
    let admitted = |content| reader.admit().map(|()| content);
    let content = match reader.content().and_then(admitted) {
        Ok(content) => content,
        Err(error) => return Err((error, reply)),
    };
    if content.is_slow()
        && let Some(shared) = content.share(offset, size as usize, true)
    {
        reply.data(&shared);
        reader.given(&content, offset, ReadBytes::Shared(shared));
        return Ok(());
    }
    if let Some(lent) = lend(&*content, offset, size) {
        // If the file is truncated just now, the kernel finds no bytes in the mapping: writing the reply
        // fails, and the kernel itself ends the request with EIO.
        reply.data(lent.for_kernel());
        return Ok(());
    }
    BUFFER.with_borrow_mut(|buffer| {
        let wanted = size as usize;
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        let filled = fill(&*content, offset, &mut buffer[..wanted]);
        let filled = filled.and_then(|read| match purpose {
            Purpose::Cache if read < wanted => {
                why_short(&*content, offset.saturating_add(read as u64)).map_or(Ok(read), Err)
            }
            _ => Ok(read),
        });
        match filled {
            Ok(read) => {
                reply.data(&buffer[..read]);
                reader.given(&content, offset, ReadBytes::Copied(buffer, read));
                Ok(())
            }
            Err(error) => Err((error, reply)),
        }
    })
}

/// Answers a read with decoded bytes that lie in memory; returns the reply if they are not there yet.
pub(super) fn answer_at_hand(reader: &Reader, offset: u64, size: u32, reply: ReplyData) -> Option<ReplyData> {
    let Some((content, shared)) = reader.at_hand(offset, size as usize) else { return Some(reply) };
    reply.data(&shared);
    reader.given(&content, offset, ReadBytes::Shared(shared));
    None
}

fn fill(content: &dyn Content, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    content.read_at(offset, buffer).map(|read| read.min(buffer.len()))
}

/// Why a read stopped at `at`; `None` if that is the end of the content.
fn why_short(content: &dyn Content, at: u64) -> Option<Error> {
    if at >= content.len() {
        return None;
    }
    let again = content.read_at(at, &mut [0]);
    Some(
        again.err().unwrap_or_else(|| {
            Error::damaged(format!("byte {at} can't be had at once with those before it"))
        }),
    )
}

/// Lends the bytes of a read from the mapping of their source, if all of them lie there in one piece.
fn lend(content: &dyn Content, offset: u64, size: u32) -> Option<Lent<'_>> {
    let len = content.len().saturating_sub(offset).min(size.into());
    if len < WORTH_LENDING {
        return None;
    }
    let stored = content.stored_at(offset).filter(|stored| stored.len >= len)?;
    stored.source.lend(stored.offset, usize::try_from(len).ok()?)
}
