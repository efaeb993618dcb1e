//! Reads a journal, and trusts only what its checksums confirm.

use std::io;

use md5::{Digest, Md5};
use seekable::source::storage::{Extent, Storage};

use super::{
    DIGEST, END, EXTENT, EXTENTS, HEADER, Header, INODE, KEPT, MAGIC, MAX_BYTES, OVERWRITTEN, RANGE, RECORD,
    REST, digest_of, is_undamaged,
};

/// A range of the source, and the place of its bytes in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The offset in the source.
    pub(crate) offset: u64,
    /// The length in bytes before the save.
    pub(crate) old_len: usize,
    /// The length in bytes after the save.
    pub(crate) new_len: usize,
    /// The offset of the old bytes in the journal. The new bytes follow them.
    pub(crate) at: u64,
}

impl Range {
    /// Returns the bytes of the source that the range covers before or after the save.
    pub(crate) fn span(&self) -> std::ops::Range<u64> {
        self.offset..self.offset.saturating_add(self.old_len.max(self.new_len) as u64)
    }
}

/// A journal that was read.
#[derive(Debug)]
pub(crate) struct Journal<S: Storage> {
    /// The open file of the journal.
    pub(crate) file: S::File,
    /// The header.
    pub(crate) header: Header,
    /// The extents of the source before the save.
    pub(crate) extents: Vec<Extent>,
    /// The ranges, in the order of the source.
    pub(crate) ranges: Vec<Range>,
    /// The digest of bytes that the save leaves unchanged; see [`Header::digest_rest`].
    pub(crate) rest: Option<[u8; DIGEST]>,
    /// The digest of the first kept bytes; see [`Header::digest_kept`].
    pub(crate) kept: Option<[u8; DIGEST]>,
    /// The inode number of the source if another program wrote to it in the same moment as the save. No recovery can
    /// tell then which bytes are right.
    pub(crate) overwritten: Option<u64>,
}

/// The reason why a journal can't be read.
#[derive(Debug)]
pub(crate) enum Unreadable<S: Storage> {
    /// The file is empty, or its header is all zeros: the journal was not written yet.
    Blank,
    /// The journal has no valid end. Either it was not finished and nothing was changed yet, or it was
    /// truncated or damaged later. `ranges` lists the ranges that could be read.
    Unfinished(Box<Journal<S>>),
    /// The file starts with a journal's magic, and its header is truncated or damaged.
    Damaged,
    /// Another version of asdf-mount wrote the journal.
    OtherVersion,
    /// The file is no journal.
    NoJournal,
    /// A system call failed.
    System(io::Error),
}

impl<S: Storage> From<io::Error> for Unreadable<S> {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl<S: Storage> Journal<S> {
    /// Reads and checks the whole journal.
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
        let (extents, ranges) = (Vec::new(), Vec::new());
        let mut journal = Self { file, header, extents, ranges, rest: None, kept: None, overwritten: None };
        match journal.records(storage, &first[HEADER - DIGEST..])? {
            Some(()) => Ok(journal),
            None => Err(Unreadable::Unfinished(Box::new(journal))),
        }
    }

    /// Reads the records; `None` if they are incomplete or damaged.
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
            let word = |start: usize| {
                let field = bytes[start..start + 4].try_into().expect("four bytes of a record's head");
                u32::from_be_bytes(field)
            };
            let kind = word(0);
            let old_len = word(4) as usize;
            let new_len = word(8) as usize;
            let offset =
                u64::from_be_bytes(bytes[16..24].try_into().expect("eight bytes of a record's head"));
            if old_len.max(new_len) > MAX_BYTES || offset > i64::MAX as u64 {
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
                KEPT => self.kept = old.try_into().ok(),
                EXTENTS => self.extents.extend(old.chunks_exact(EXTENT).map(extent)),
                END => {
                    if offset != count || digests.finalize()[..] != *old {
                        return Ok(None);
                    }
                    let mut after = [0; OVERWRITTEN.len() + INODE];
                    storage.read_at(&self.file, at + len as u64, &mut after)?;
                    let (note, inode) = after.split_at(OVERWRITTEN.len());
                    let inode = u64::from_be_bytes(inode.try_into().expect("eight bytes after the note"));
                    self.overwritten = (note == OVERWRITTEN).then_some(inode);
                    return Ok(Some(()));
                }
                _ => return Ok(None),
            }
            digests.update(digest);
            at += len as u64;
        }
        Ok(None)
    }

    /// Notes in the journal's file that another program wrote to `source` in the same moment as the save.
    pub(crate) fn note_overwritten(&self, storage: &S, source: &S::File) -> io::Result<()> {
        let end = storage.meta(&self.file)?.identity.size;
        let inode = storage.meta(source)?.identity.inode;
        let mut note = OVERWRITTEN.to_vec();
        note.extend(inode.to_be_bytes());
        storage.write_at(&self.file, end, &note)?;
        storage.sync(&self.file)
    }

    /// Reads the old and the new bytes of a range.
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
