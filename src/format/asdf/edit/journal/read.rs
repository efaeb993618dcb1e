//! Reads a journal, believing nothing that its checksums do not confirm.

use std::io;

use md5::{Digest, Md5};

use super::{
    DIGEST, END, EXTENT, EXTENTS, HEADER, Header, MAGIC, MOST_BYTES, RANGE, RECORD, REST, digest_of,
    is_undamaged,
};
use crate::source::storage::{Extent, Storage};

/// Where a range's bytes are in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Offset in the source.
    pub(crate) offset: u64,
    /// Bytes before the save.
    pub(crate) old_len: usize,
    /// Bytes after it.
    pub(crate) new_len: usize,
    /// Where the old bytes begin in the journal.
    pub(crate) at: u64,
}

impl Range {
    /// The bytes of the source that it covers before or after the save.
    pub(crate) fn span(&self) -> std::ops::Range<u64> {
        self.offset..self.offset.saturating_add(self.old_len.max(self.new_len) as u64)
    }
}

/// A whole journal.
#[derive(Debug)]
pub(crate) struct Journal<S: Storage> {
    /// The open file.
    pub(crate) file: S::File,
    /// What it says of the source.
    pub(crate) header: Header,
    /// Where the source's bytes were on the disk.
    pub(crate) extents: Vec<Extent>,
    /// The ranges, in the order of the source.
    pub(crate) ranges: Vec<Range>,
    /// Digest of what the save leaves alone; see [`Header::digest_rest`].
    pub(crate) rest: Option<[u8; DIGEST]>,
}

/// Why a journal can't be read.
#[derive(Debug)]
pub(crate) enum Unreadable<S: Storage> {
    /// Nothing of it was written.
    Blank,
    /// It was begun and not ended, so that nothing was changed yet; or it was cut or damaged later. The
    /// ranges are those that can be read.
    Unfinished(Box<Journal<S>>),
    /// It begins as a journal, and its header is cut or damaged.
    Damaged,
    /// Another version of this program made it.
    OtherVersion,
    /// It is something else.
    NoJournal,
    /// The system refused.
    System(io::Error),
}

impl<S: Storage> From<io::Error> for Unreadable<S> {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl<S: Storage> Journal<S> {
    /// Reads all of it once.
    pub(crate) fn read(storage: &S, file: S::File) -> Result<Self, Unreadable<S>> {
        let mut first = [0; HEADER];
        let read = storage.read_at(&file, 0, &mut first)?;
        if first[..read].iter().all(|byte| *byte == 0) {
            return Err(Unreadable::Blank);
        }
        let magic = &first[..read.min(MAGIC.len())];
        if !MAGIC.starts_with(magic) {
            return Err(Unreadable::NoJournal);
        }
        if read < HEADER || !is_undamaged(&first) {
            return Err(Unreadable::Damaged);
        }
        let Some(header) = Header::from_bytes(&first) else {
            return Err(Unreadable::OtherVersion);
        };
        let mut journal = Self { file, header, extents: Vec::new(), ranges: Vec::new(), rest: None };
        match journal.records(storage, &first[HEADER - DIGEST..])? {
            Some(()) => Ok(journal),
            None => Err(Unreadable::Unfinished(Box::new(journal))),
        }
    }

    /// Reads the records; `None` if they are not whole.
    fn records(&mut self, storage: &S, header_digest: &[u8]) -> io::Result<Option<()>> {
        let mut digests = Md5::new();
        digests.update(header_digest);
        let mut at = HEADER as u64;
        let mut bytes = vec![0; RECORD];
        for count in 0.. {
            bytes.resize(RECORD, 0);
            if storage.read_at(&self.file, at, &mut bytes)? < RECORD {
                return Ok(None);
            }
            let word = |at: usize| {
                let field = bytes[at..at + 4].try_into().expect("four bytes of a record's head");
                u32::from_be_bytes(field)
            };
            let (kind, old_len, new_len) = (word(0), word(4) as usize, word(8) as usize);
            let offset =
                u64::from_be_bytes(bytes[16..24].try_into().expect("eight bytes of a record's head"));
            if old_len.max(new_len) > MOST_BYTES || offset > i64::MAX as u64 {
                return Ok(None);
            }
            let len = RECORD + old_len + new_len + DIGEST;
            bytes.resize(len, 0);
            if storage.read_at(&self.file, at, &mut bytes)? < len {
                return Ok(None);
            }
            let (record, digest) = bytes.split_at(len - DIGEST);
            if digest_of(record) != *digest {
                return Ok(None);
            }
            let old = &record[RECORD..RECORD + old_len];
            match kind {
                RANGE => {
                    self.ranges.push(Range { offset, old_len, new_len, at: at + RECORD as u64 });
                }
                REST => self.rest = old.try_into().ok(),
                EXTENTS => self.extents.extend(old.chunks_exact(EXTENT).map(extent)),
                END => {
                    let whole = offset == count && digests.finalize()[..] == *old;
                    return Ok(whole.then_some(()));
                }
                _ => return Ok(None),
            }
            digests.update(digest);
            at += len as u64;
        }
        Ok(None)
    }

    /// The old and the new bytes of a range.
    pub(crate) fn bytes(&self, storage: &S, range: &Range) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let mut old = vec![0; range.old_len + range.new_len];
        if storage.read_at(&self.file, range.at, &mut old)? < old.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let new = old.split_off(range.old_len);
        Ok((old, new))
    }
}

fn extent(bytes: &[u8]) -> Extent {
    let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("chunks of 24 bytes"));
    Extent { logical: number(0), physical: number(8), len: number(16) }
}
