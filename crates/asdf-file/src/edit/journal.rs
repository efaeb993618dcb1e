//! The journal: a record of the changes that a save is about to make in the source, with the old and the new
//! bytes.
//!
//! The journal and its name are durable before the first byte of the source changes. After a crash the
//! journal proves that the source is the old file, the new one or a mixture of both, and holds the bytes to
//! make it one of them. The proof compares bytes, because inode numbers, owners and modes change when a file
//! is copied or restored.
//!
//! The kept bytes are those from the first block, or from unidentified bytes before it, to the end of the
//! last block or of the file: the save moves them as a whole or leaves them in place. The image is a new file
//! from which the source is written. All numbers in the journal are big-endian.
//!
//! ```text
//!   0  8  magic "ASDFJRNL"
//!   8  2  version, 1
//!  10  2  how the source is changed: 1 in place, 2 with an inserted range, 3 from an image
//!  12  2  1 if the last block is streamed, so that the source may grow at any time
//!  14  2  zeros
//!  16  8  size of the source before the save
//!  24  8  modification time of the source before the save, seconds
//!  32  4  nanoseconds of that time
//!  36  6  first bytes of the source, which the mark of an unfinished save overwrites
//!  42  6  zeros
//!  48  8  size of the source after the save
//!  56  8  start of the kept bytes before the save
//!  64  8  end of the kept bytes before the save
//!  72  8  distance by which the kept bytes move
//!  80  8  offset of the inserted range
//!  88  8  size of the image
//!  96 16  MD5 of the image without the kept bytes
//! 112  4  the saver's machine (4-byte hash; 0 in journals of earlier versions, as all of the saver)
//! 116  4  its boot
//! 120  4  its PID namespace
//! 124  4  its process id
//! 128  8  number of the source's device for the saver
//! 136  4  number in the image's name
//! 140 356 zeros
//! 496 16  MD5 of the first 496 bytes
//! 512     records, one after the other:
//!         0  4  kind: 1 a range, 2 extents, 3 the end, 4 unchanged bytes, 5 kept bytes
//!         4  4  old_len: bytes of the range before the save (of extents: bytes of the list)
//!         8  4  new_len: bytes of the range after the save (0 if they are in the image)
//!        12  4  zeros
//!        16  8  offset of the range in the source (of the end: number of records)
//!        24     the old bytes, then the new ones (of extents: logical, physical, len, 8 bytes each;
//!               of the end: MD5 of the header's MD5 and the XXH3 of all records; of unchanged bytes:
//!               MD5 of the XXH3s of the head outside the ranges and of the first kept bytes; of kept
//!               bytes: XXH3 of the first ones)
//!            16  XXH3 (128 bits) of the record before this field
//! end     8  "OVERWRIT" if another program wrote to the source in the same moment as the save
//!         8  the inode number of the source then
//! ```
//!
//! If a range is inserted, the ranges' offsets and old bytes describe the source with the inserted hole of
//! zeros. After the insertion the rest of the save is then a change in place.
//!
//! The checksums detect what a disk lost or tore, not forgery. The records may hold as much as the tree, so
//! their checksum is a fast one. A forged journal can describe any sound file as a mixture and have other
//! bytes written into it. A journal therefore changes a file only if every user that could have written the
//! journal may also write the file. Otherwise it is only evidence of an interrupted save: the file stays
//! unchanged and is not read until the user decides (`recover.rs`).
//!
//! After a power cut a removed journal may reappear beside a file that was saved again since. That file
//! differs in bytes that the journal records as unchanged, so the journal is recognised as not belonging to
//! it. The mixture that another program and a save leave may differ so, too, and look sound: it is recognised by its inode
//! number.
//!
//! A record has at most a few hundred KiB, so that a journal of any size can be written and read in little
//! memory.

use std::ffi::OsStr;
use std::io;

use md5::{Digest, Md5};
use seekable::source::Time;
use seekable::source::storage::{Extent, Storage};
use twox_hash::xxhash3_128;

use super::mark::MARK;
use super::saver::Saver;

mod read;

pub(crate) use read::{Journal, Range, Unreadable};

const MAGIC: &[u8; 8] = b"ASDFJRNL";
const VERSION: u16 = 1;
/// The bytes after the end record if another program wrote to the source in the same moment as the save.
const OVERWRITTEN: &[u8; 8] = b"OVERWRIT";
/// Bytes of the source's inode number, which follows.
const INODE: usize = 8;
/// Bytes of the header: one sector, which the disk writes atomically.
pub(crate) const HEADER: usize = 512;
const RECORD: usize = 24;
pub(crate) const DIGEST: usize = 16;
/// Number of bytes that a journal gathers in memory before it writes them.
const GATHERED: usize = 256 << 10;
/// Extents in one record.
const EXTENTS_AT_ONCE: usize = 4096;
/// Bytes of one extent.
const EXTENT: usize = 24;
/// Maximum number of old bytes, and of new bytes, in a record.
const MAX_BYTES: usize = 256 << 10;

const RANGE: u32 = 1;
const EXTENTS: u32 = 2;
const END: u32 = 3;
const REST: u32 = 4;
const KEPT: u32 = 5;
/// The number of kept bytes that identify the source.
const RECOGNISED: u64 = 4096;

/// A way to change the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Ranges of the source are overwritten.
    InPlace,
    /// A range is inserted, then ranges are overwritten.
    Insert,
    /// The whole source is written from an image of the new file.
    Image,
}

/// The header of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The way in which the source is changed.
    pub(crate) way: Method,
    /// True if programs may append to the source at any time.
    pub(crate) grows: bool,
    /// The source's size before the save.
    pub(crate) old_size: u64,
    /// The source's modification time before the save.
    pub(crate) mtime: Time,
    /// The source's first bytes before the save.
    pub(crate) start: [u8; MARK.len()],
    /// The source's size after the save.
    pub(crate) new_size: u64,
    /// The start of the kept bytes before the save.
    pub(crate) kept_from: u64,
    /// The end of the kept bytes before the save.
    pub(crate) kept_to: u64,
    /// The distance by which the kept bytes move.
    pub(crate) shift: u64,
    /// The offset of the inserted range.
    pub(crate) insert_at: u64,
    /// The image's size.
    pub(crate) image_size: u64,
    /// The MD5 of the image without the kept bytes.
    pub(crate) image_digest: [u8; DIGEST],
    /// The process that saves.
    pub(crate) saver: Saver,
    /// The number of the source's device for that process.
    pub(crate) device: u64,
    /// The number in the image's name.
    pub(crate) image_number: u32,
}

impl Header {
    /// Returns a digest of bytes that the save leaves unchanged: of a change in place, the head without
    /// `ranges` and the mark, and the first of the kept bytes; of an insertion, the bytes before the inserted
    /// range without `ranges` and the mark; of an image, no bytes.
    pub(crate) fn digest_rest<S: Storage>(
        &self,
        storage: &S,
        file: &S::File,
        ranges: &[Range],
    ) -> io::Result<[u8; DIGEST]> {
        let end = match self.way {
            Method::Insert => self.insert_at,
            Method::InPlace => self.kept_to.min(self.kept_from.saturating_add(RECOGNISED)),
            // The image is removed only after the journal, so no digest is needed: if the image is there, the
            // journal is not stale.
            Method::Image => 0,
        };
        let mut digest = Md5::new();
        let mut piece = vec![0; MAX_BYTES];
        let mut at = MARK.len() as u64;
        for range in ranges.iter().map(Range::span).chain(std::iter::once(end..end)) {
            let stop = range.start.min(end);
            while at < stop {
                let len = piece.len().min(usize::try_from(stop - at).unwrap_or(usize::MAX));
                let read = storage.read_at(file, at, &mut piece[..len])?;
                if read == 0 {
                    break;
                }
                digest.update(digest_of(&piece[..read]));
                at += read as u64;
            }
            at = at.max(range.end);
        }
        Ok(digest.finalize().into())
    }

    /// Returns a digest of the first kept bytes, which are at `at`.
    pub(crate) fn digest_kept<S: Storage>(
        &self,
        storage: &S,
        file: &S::File,
        at: u64,
    ) -> io::Result<[u8; DIGEST]> {
        let mut bytes = vec![0; RECOGNISED.min(self.kept_to.saturating_sub(self.kept_from)) as usize];
        let read = storage.read_at(file, at, &mut bytes)?;
        Ok(digest_of(&bytes[..read]))
    }

    /// Returns the MD5 of the image without the kept bytes. The source itself holds those.
    pub(crate) fn digest_image<S: Storage>(&self, storage: &S, image: &S::File) -> io::Result<[u8; DIGEST]> {
        let mut digest = Md5::new();
        let mut piece = vec![0; MAX_BYTES];
        let [from, to] = [self.kept_from, self.kept_to].map(|place| place.saturating_add(self.shift));
        for region in [0..from.min(self.image_size), to.min(self.image_size)..self.image_size] {
            let mut at = region.start;
            while at < region.end {
                let len = piece.len().min(usize::try_from(region.end - at).unwrap_or(usize::MAX));
                let read = storage.read_at(image, at, &mut piece[..len])?;
                if read == 0 {
                    break;
                }
                digest.update(&piece[..read]);
                at += read as u64;
            }
        }
        Ok(digest.finalize().into())
    }

    fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_be_bytes());
        let way: u16 = match self.way {
            Method::InPlace => 1,
            Method::Insert => 2,
            Method::Image => 3,
        };
        bytes.extend(way.to_be_bytes());
        bytes.extend(u16::from(self.grows).to_be_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.old_size.to_be_bytes());
        bytes.extend(self.mtime.0.to_be_bytes());
        bytes.extend(self.mtime.1.to_be_bytes());
        bytes.extend(self.start);
        bytes.extend([0; 6]);
        let numbers =
            [self.new_size, self.kept_from, self.kept_to, self.shift, self.insert_at, self.image_size];
        for number in numbers {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(self.image_digest);
        let Saver { machine, boot, namespace, pid } = self.saver;
        for number in [machine, boot, namespace, pid] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(self.device.to_be_bytes());
        bytes.extend(self.image_number.to_be_bytes());
        bytes.resize(HEADER - DIGEST, 0);
        let digest = Md5::digest(&bytes);
        bytes.extend(digest);
        bytes.try_into().expect("it was filled up to its length")
    }

    /// Parses a header whose checksum is right; `None` if it has another version or impossible numbers.
    fn from_bytes(bytes: &[u8; HEADER]) -> Option<Self> {
        let number_at = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let word_at = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        if bytes.get(8..10)? != VERSION.to_be_bytes() {
            return None;
        }
        let way = match bytes.get(10..12)? {
            [0, 1] => Method::InPlace,
            [0, 2] => Method::Insert,
            [0, 3] => Method::Image,
            _ => return None,
        };
        let header = Self {
            way,
            grows: bytes.get(12..14)? == [0, 1],
            old_size: number_at(16)?,
            mtime: (
                i64::from_be_bytes(bytes.get(24..32)?.try_into().ok()?),
                u32::from_be_bytes(bytes.get(32..36)?.try_into().ok()?),
            ),
            start: bytes.get(36..42)?.try_into().ok()?,
            new_size: number_at(48)?,
            kept_from: number_at(56)?,
            kept_to: number_at(64)?,
            shift: number_at(72)?,
            insert_at: number_at(80)?,
            image_size: number_at(88)?,
            image_digest: bytes.get(96..112)?.try_into().ok()?,
            saver: Saver {
                machine: word_at(112)?,
                boot: word_at(116)?,
                namespace: word_at(120)?,
                pid: word_at(124)?,
            },
            device: number_at(128)?,
            image_number: word_at(136)?,
        };
        let most = i64::MAX as u64 / 4;
        let numbers = [header.old_size, header.new_size, header.kept_to, header.shift, header.insert_at];
        (numbers.iter().all(|number| *number <= most) && header.kept_from <= header.kept_to).then_some(header)
    }
}

/// True if a header's checksum is right.
fn is_undamaged(bytes: &[u8; HEADER]) -> bool {
    let (fields, digest) = bytes.split_at(HEADER - DIGEST);
    Md5::digest(fields)[..] == *digest
}

/// A writer of a journal, record by record.
#[derive(Debug)]
pub(crate) struct Writer<'a, S: Storage> {
    storage: &'a S,
    file: &'a S::File,
    gathered: Vec<u8>,
    written: u64,
    records: u64,
    digests: Md5,
    ranges: Vec<Range>,
}

impl<'a, S: Storage> Writer<'a, S> {
    /// Starts a journal in an empty file.
    pub(crate) fn new(storage: &'a S, file: &'a S::File, header: &Header) -> Self {
        let gathered = header.to_bytes().to_vec();
        let mut digests = Md5::new();
        digests.update(&gathered[HEADER - DIGEST..]);
        Self { storage, file, gathered, written: 0, records: 0, digests, ranges: Vec::new() }
    }

    /// Adds a range with its old and its new bytes.
    pub(crate) fn range(&mut self, offset: u64, old: &[u8], new: &[u8]) -> io::Result<()> {
        // Changes are split into pieces much smaller than `MAX_BYTES`.
        debug_assert!(old.len().max(new.len()) <= MAX_BYTES);
        let at = self.written + (self.gathered.len() + RECORD) as u64;
        self.ranges.push(Range { offset, old_len: old.len(), new_len: new.len(), at });
        self.record(RANGE, offset, old, new)
    }

    /// Adds the list of the source's extents.
    pub(crate) fn extents(&mut self, extents: &[Extent]) -> io::Result<()> {
        for some in extents.chunks(EXTENTS_AT_ONCE) {
            let mut bytes = Vec::with_capacity(some.len() * EXTENT);
            for extent in some {
                for number in [extent.logical, extent.physical, extent.len] {
                    bytes.extend(number.to_be_bytes());
                }
            }
            self.record(EXTENTS, 0, &bytes, &[])?;
        }
        Ok(())
    }

    /// Adds the digest of the first kept bytes.
    pub(crate) fn kept(&mut self, digest: &[u8; DIGEST]) -> io::Result<()> {
        self.record(KEPT, 0, digest, &[])
    }

    /// Writes the end record, and returns the ranges. The journal is not durable yet. `rest` computes the
    /// digest of the bytes outside the ranges.
    pub(crate) fn end(
        mut self,
        rest: impl FnOnce(&[Range]) -> io::Result<[u8; DIGEST]>,
    ) -> io::Result<(Vec<Range>, [u8; DIGEST])> {
        let rest = rest(&self.ranges)?;
        self.record(REST, 0, &rest, &[])?;
        let digests: [u8; DIGEST] = std::mem::take(&mut self.digests).finalize().into();
        self.record(END, self.records, &digests, &[])?;
        self.flush()?;
        Ok((self.ranges, rest))
    }

    fn record(&mut self, kind: u32, offset: u64, old: &[u8], new: &[u8]) -> io::Result<()> {
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput);
        let old_len = len(old)?;
        let new_len = len(new)?;
        let start = self.gathered.len();
        self.gathered.extend(kind.to_be_bytes());
        self.gathered.extend(old_len.to_be_bytes());
        self.gathered.extend(new_len.to_be_bytes());
        self.gathered.extend([0; 4]);
        self.gathered.extend(offset.to_be_bytes());
        self.gathered.extend(old);
        self.gathered.extend(new);
        let digest = digest_of(&self.gathered[start..]);
        self.digests.update(digest);
        self.gathered.extend(digest);
        self.records += 1;
        if self.gathered.len() >= GATHERED { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.storage.write_at(self.file, self.written, &self.gathered)?;
        self.written += self.gathered.len() as u64;
        self.gathered.clear();
        Ok(())
    }
}

/// Returns the XXH3 (128 bits) of a record or of other bytes.
fn digest_of(record: &[u8]) -> [u8; DIGEST] {
    xxhash3_128::Hasher::oneshot(record).to_be_bytes()
}

/// True if a file starts with a journal's magic.
pub(crate) fn begins<S: Storage>(storage: &S, dir: &S::Dir, name: &OsStr) -> bool {
    let mut magic = [0; MAGIC.len()];
    let read = storage.open(dir, name, false).and_then(|file| storage.read_at(&file, 0, &mut magic));
    read.is_ok() && magic == *MAGIC
}

/// True if a file is a journal, or one that is just being written.
pub(crate) fn may_begin<S: Storage>(storage: &S, dir: &S::Dir, name: &OsStr) -> io::Result<bool> {
    let file = match storage.open(dir, name, false) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(false),
        // A directory, a link, a FIFO.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ELOOP | libc::EISDIR)) => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let first = first_bytes(storage, &file)?;
    Ok(first.starts_with(MAGIC) || first.iter().all(|byte| *byte == 0))
}

/// Returns the header of a journal, or what is there of it.
pub(crate) fn first_bytes<S: Storage>(storage: &S, file: &S::File) -> io::Result<Vec<u8>> {
    let mut first = vec![0; HEADER];
    let read = storage.read_at(file, 0, &mut first)?;
    first.truncate(read);
    Ok(first)
}

/// True if a file, directory or link has a name. A link is not followed.
pub(crate) fn exists<S: Storage>(storage: &S, dir: &S::Dir, name: &OsStr) -> io::Result<bool> {
    match storage.meta_at(dir, name) {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// True if an error shows that a name can't be found.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekable::source::storage::{HeldDir, System};

    fn header() -> Header {
        Header {
            way: Method::Insert,
            grows: true,
            old_size: 30_000,
            mtime: (-5, 7),
            start: *b"#ASDF ",
            new_size: 40_000,
            kept_from: 500,
            kept_to: 29_000,
            shift: 4096,
            insert_at: 0,
            image_size: 10,
            image_digest: [7; DIGEST],
            saver: Saver::this(),
            device: 8,
            image_number: 9,
        }
    }

    /// Writes a journal of the name `journal`.
    fn written() -> (tempfile::TempDir, HeldDir, Vec<Range>) {
        let folder = tempfile::tempdir().unwrap();
        let dir = System.hold(folder.path()).unwrap();
        let file = System.create(&dir, OsStr::new("journal")).unwrap();
        let mut writer = Writer::new(&System, &file, &header());
        writer.extents(&[Extent { logical: 4096, physical: 1 << 40, len: 8192 }]).unwrap();
        writer.range(0, b"old", b"new text").unwrap();
        writer.range(29_000, &[1; 70_000], &[]).unwrap();
        writer.kept(&[8; DIGEST]).unwrap();
        let (ranges, _) = writer.end(|_| Ok([9; DIGEST])).unwrap();
        (folder, dir, ranges)
    }

    fn open(dir: &HeldDir) -> std::fs::File {
        System.open(dir, OsStr::new("journal"), false).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let (_folder, dir, ranges) = written();
        let journal = Journal::read(&System, open(&dir)).unwrap();
        assert_eq!((journal.header, &journal.ranges), (header(), &ranges));
        assert_eq!((journal.rest, journal.kept), (Some([9; DIGEST]), Some([8; DIGEST])));
        assert_eq!(journal.extents, [Extent { logical: 4096, physical: 1 << 40, len: 8192 }]);
        let bytes = journal.bytes(&System, &ranges[0]).unwrap();
        assert_eq!(bytes, (b"old".to_vec(), b"new text".to_vec()));
        assert_eq!(journal.bytes(&System, &ranges[1]).unwrap(), (vec![1; 70_000], Vec::new()));
    }

    #[test]
    fn nothing_that_is_cut_or_damaged_is_believed() {
        let (folder, dir, _) = written();
        let path = folder.path().join("journal");
        let whole = std::fs::read(&path).unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Journal::read(&System, open(&dir)).unwrap_err()
        };
        for at in (0..whole.len()).filter(|at| *at < 900 || at % 997 == 0 || at + 80 > whole.len()) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            let unreadable = read(&damaged);
            let right = match at {
                0..8 => matches!(unreadable, Unreadable::NoJournal),
                8..HEADER => matches!(unreadable, Unreadable::Damaged),
                _ => matches!(unreadable, Unreadable::Unfinished(_)),
            };
            assert!(right, "{at}: {unreadable:?}");
            let unreadable = read(&whole[..at]);
            let right = match at {
                0 => matches!(unreadable, Unreadable::Blank),
                1..HEADER => matches!(unreadable, Unreadable::Damaged),
                _ => matches!(unreadable, Unreadable::Unfinished(_)),
            };
            assert!(right, "{at}: {unreadable:?}");
        }
        assert!(matches!(read(&[0; 5000]), Unreadable::Blank));
        assert!(matches!(read(b"a diary"), Unreadable::NoJournal));
        let mut of_another_version = header().to_bytes();
        of_another_version[8..10].copy_from_slice(&2_u16.to_be_bytes());
        let digest = Md5::digest(&of_another_version[..HEADER - DIGEST]);
        of_another_version[HEADER - DIGEST..].copy_from_slice(&digest);
        assert!(matches!(read(&of_another_version), Unreadable::OtherVersion));
    }
}
