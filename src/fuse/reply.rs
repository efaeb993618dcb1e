//! Answers: the tree's words in the kernel's.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo, ReplyData, ReplyEmpty};

use crate::content::Content;
use crate::error::{Error, Result};
use crate::host::stat::{Kind, Time};
use crate::vfs::{Attr, Given, Reader, Writer};

/// From this length on bytes are lent to the kernel instead of being copied here first; for less, the
/// mapping costs more than the copy.
const WORTH_LENDING: u32 = 16 << 10;

thread_local! {
    /// What is read and not lent passes through here.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The errno of an error.
pub(crate) fn errno(error: &Error) -> Errno {
    Errno::from_i32(error.errno())
}

pub(crate) fn kind(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Link => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

pub(crate) fn attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks: attr.blocks(),
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        crtime: UNIX_EPOCH,
        kind: kind(attr.kind),
        perm: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: attr.block_size,
        flags: 0,
    }
}

/// What says that a name does not exist, in a way that the kernel may remember.
pub(crate) fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// Seconds that any `SystemTime` holds with room to spare: a million years either way.
const FARTHEST: i64 = 1 << 45;

fn time((seconds, nanoseconds): Time) -> SystemTime {
    let seconds = seconds.clamp(-FARTHEST, FARTHEST);
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    let time = second.and_then(|second| second.checked_add(Duration::from_nanos(nanoseconds.into())));
    time.unwrap_or(UNIX_EPOCH)
}

/// Answers what has nothing to say.
pub(crate) fn done(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

/// Answers a read of a file that can be written.
pub(crate) fn read_writer(writer: &Writer, offset: u64, size: u32, reply: ReplyData) {
    BUFFER.with_borrow_mut(|buffer| {
        let wanted = size as usize;
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        match writer.read(offset, &mut buffer[..wanted]) {
            Ok(read) => reply.data(&buffer[..read.min(wanted)]),
            Err(error) => reply.error(errno(&error)),
        }
    });
}

/// For whom the kernel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// Who gets what there is, and comes again for the rest.
    Program,
    /// Its cache, in whole pages. A short answer is the end of the file to it: it fills the page up with
    /// zeros, and takes the file to be no longer.
    Cache,
}

/// Answers a read.
pub(crate) fn read(reader: &Reader, offset: u64, size: u32, way: For, reply: ReplyData) {
    let _still = reader.hold_still();
    let admitted = |content| reader.admit().map(|()| content);
    let content = match reader.content().and_then(admitted) {
        Ok(content) => content,
        Err(error) => {
            reader.trouble(&error);
            return reply.error(errno(&error));
        }
    };
    if content.is_slow()
        && let Some(shared) = content.share(offset, size as usize, true)
    {
        reply.data(&shared);
        return reader.given(&content, offset, Given::Shared(shared));
    }
    if let Some(lent) = lend(&*content, offset, size) {
        // If the file is cut just now the kernel finds no bytes in the mapping: the write of the answer
        // fails, and the kernel itself has then ended the request with EIO.
        return reply.data(lent.for_kernel());
    }
    BUFFER.with_borrow_mut(|buffer| {
        let wanted = size as usize;
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        let filled = fill(&*content, offset, &mut buffer[..wanted]);
        let filled = filled.and_then(|read| match way {
            For::Cache if read < wanted => {
                why_short(&*content, offset.saturating_add(read as u64)).map_or(Ok(read), Err)
            }
            _ => Ok(read),
        });
        match filled {
            Ok(read) => {
                reply.data(&buffer[..read]);
                reader.given(&content, offset, Given::Copied(buffer, read));
            }
            Err(error) => {
                reader.trouble(&error);
                reply.error(errno(&error));
            }
        }
    });
}

/// Answers a read with what lies in memory; gives the reply back if that is not to be had at once.
pub(crate) fn read_at_hand(reader: &Reader, offset: u64, size: u32, reply: ReplyData) -> Option<ReplyData> {
    let Some((content, shared)) = reader.at_hand(offset, size as usize) else { return Some(reply) };
    reply.data(&shared);
    reader.given(&content, offset, Given::Shared(shared));
    None
}

fn fill(content: &dyn Content, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    content.read_at(offset, buffer).map(|read| read.min(buffer.len()))
}

/// Why a read stopped at `at`, unless that is the end.
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

fn lend(content: &dyn Content, offset: u64, size: u32) -> Option<crate::source::Lent<'_>> {
    if size < WORTH_LENDING {
        return None;
    }
    let (source, start) = content.stored()?;
    let len = content.len().saturating_sub(offset).min(size.into());
    if len < WORTH_LENDING.into() {
        return None;
    }
    source.lend(start.checked_add(offset)?, usize::try_from(len).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_fraction() {
        assert_eq!(time((-1, 250_000_000)), UNIX_EPOCH - Duration::from_millis(750));
        assert_eq!(time((1, 5)), UNIX_EPOCH + Duration::new(1, 5));
        assert_eq!(time((i64::MIN, 0)), UNIX_EPOCH - Duration::from_secs(1 << 45));
        assert_eq!(time((i64::MAX, 0)), UNIX_EPOCH + Duration::from_secs(1 << 45));
    }
}
