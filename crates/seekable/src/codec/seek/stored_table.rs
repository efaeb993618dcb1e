//! Seek tables that are stored between mounts: the layout of their files, and their keys.
//!
//! All numbers are little-endian:
//!
//! ```text
//!  0  "asdfseek"
//!  8  version          u32 = 1
//! 12  codec            u32: 1 zlib, 2 bzip2, 3 zstd
//! 16  key              16 bytes
//! 32  used_size        u64: bytes of the stream as stored
//! 40  data_size        u64: bytes that it decodes to
//! 48  end              u64: the bit behind its last block
//! 56  checksum         u32: the stream's own, of all output (zlib); that of the last frame (zstd); 0 (bzip2)
//! 60  flags            u32: 1, sound to the end
//! 64  interval             u64: bytes between two CRCs (zlib); minimum of bytes for a CRC (zstd); 0 (bzip2)
//! 72  count            u64: number of entries
//! 80  crc              u32: CRC-32 of bytes 0..80 and of the entries
//! 84                   u32 = 0
//! 88  entries          count × the codec's number of u64 for an entry
//!     records          data to which the entries point; each record has a CRC of its own
//! ```
//!
//! A table is stored only after a pass that reached the end of the stream, and found its checksum right and
//! its length equal to the header's. The flag records this, since reading with a stored table does not repeat
//! the pass. The key is an MD5 of everything that identifies the stream: its name, which the format gives,
//! its length, and its first and last bytes. The key does not show if bytes between them have changed.
//! Therefore all output that is decoded with a stored table is compared with a CRC in the table before a
//! reader gets it. If they differ, the table is removed and the stream is decoded without it. The stream's
//! own checksum then decides which of the two was wrong; a stream without a checksum is no longer trusted.
//!
//! The CRCs are those of the stream that made the table. A forged stream could make a table for another
//! stream with equal ends. Therefore a stored table belongs to one file, unless the MD5 that the stream
//! claims proves right ([`StreamName`]). Computing the MD5 takes longer than decoding, and only a copy of the
//! file, or the file after a change, needs it. The first table of a stream that claims an MD5 therefore lies
//! under the name that all such streams share, with the key of its own file in its header. The next file that
//! claims the MD5 decodes its stream without that table, and computes the MD5. So does `--index`.
//!
//! The bytes of a stored table are trusted no more than those of a source: every number is checked before
//! use, and no memory is allocated from an unchecked number.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use md5::{Digest, Md5};

use super::SegmentReader;
use crate::cache::store::{PendingWrite, Store, TableKey};
use crate::codec::{StoredStream, StreamName};
use crate::content::{Content, read_exact_at};
use crate::error::Result;

const MAGIC: [u8; 8] = *b"asdfseek";
const VERSION: u32 = 1;

/// Size of the header, and of its part before the CRC.
const HEADER: usize = 88;
const BEFORE_CRC: usize = 80;

/// Flag: the pass that made the table found the stream sound to its end.
const SOUND: u32 = 1;

/// Number of bytes of each end of a stream that are part of its key.
const EDGE: u64 = 4096;

/// Bytes hashed at a time.
const PIECE: usize = 256 << 10;

/// Entries read at a time.
const AT_ONCE: usize = 2048;

/// The codec of a stored table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::codec) enum TableKind {
    Zlib = 1,
    Bzip2 = 2,
    Zstd = 3,
}

impl TableKind {
    /// Returns the number of u64 in each entry.
    fn numbers(self) -> usize {
        match self {
            Self::Zlib | Self::Zstd => 4,
            Self::Bzip2 => 3,
        }
    }
}

/// A table's data about the whole stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::codec) struct Summary {
    /// The first bit after the stream's last block.
    pub(in crate::codec) end: u64,
    /// The stream's own checksum.
    pub(in crate::codec) checksum: u32,
    /// The header's `interval`: output bytes between two CRCs.
    pub(in crate::codec) interval: u64,
}

/// The conditions for storing a table: the stream was decoded to its sound end, and all checkpoints are
/// stored.
#[derive(Debug, Default)]
pub(in crate::codec) struct Completion {
    /// Number of checkpoints that are being stored.
    storing: usize,
    has_ended: bool,
    end: Option<(Summary, PendingWrite)>,
}

impl Completion {
    /// Notes that a checkpoint is being stored.
    pub(in crate::codec) fn begin(&mut self) {
        self.storing += 1;
    }

    /// Notes that a checkpoint is stored, or could not be stored.
    pub(in crate::codec) fn done(&mut self) {
        self.storing -= 1;
    }

    pub(in crate::codec) fn is_storing(&self) -> bool {
        self.storing > 0
    }

    pub(in crate::codec) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Notes that the stream has ended, and that its table will be stored in the slot.
    pub(in crate::codec) fn end(&mut self, summary: Summary, slot: &TableSlot) {
        (self.has_ended, self.end) = (true, Some((summary, slot.store.pending_write())));
    }

    /// Takes the data noted at the end, once; `None` while a checkpoint is being stored.
    pub(in crate::codec) fn take(&mut self) -> Option<(Summary, PendingWrite)> {
        if self.is_storing() { None } else { self.end.take() }
    }
}

/// The slot in the store for the table of a stream.
#[derive(Debug)]
pub(in crate::codec) struct TableSlot {
    store: Arc<Store>,
    of: TableKind,
    name: StreamName,
    stored: Arc<dyn Content>,
    data_size: u64,
    keys: OnceLock<Option<Keys>>,
}

/// The keys under which the table of a stream may be stored.
#[derive(Clone, Copy, Debug)]
struct Keys {
    /// The key of the stream in this file.
    own: TableKey,
    /// The key of all streams that claim the same MD5. The header tells whether the MD5 is proved.
    shared: Option<TableKey>,
}

impl Keys {
    fn all(self) -> impl Iterator<Item = TableKey> {
        std::iter::once(self.own).chain(self.shared)
    }
}

impl TableSlot {
    /// Returns the slot for a stream. `None` if the stream has no name, or if the store keeps nothing.
    pub(in crate::codec) fn new(store: &Arc<Store>, of: TableKind, stream: &StoredStream) -> Option<Self> {
        let StoredStream { stored, data_size, name } = stream.clone();
        let name = name.filter(|_| store.keeps())?;
        Some(Self { store: store.clone(), of, name, stored, data_size, keys: OnceLock::new() })
    }

    /// Returns the size of the stored stream in bytes.
    pub(in crate::codec) fn used_size(&self) -> u64 {
        self.stored.len()
    }

    /// Returns the expected decoded size of the stream.
    pub(in crate::codec) fn data_size(&self) -> u64 {
        self.data_size
    }

    /// Returns the keys of the table; `None` if the ends of the stream can't be read.
    fn keys(&self) -> Option<Keys> {
        *self.keys.get_or_init(|| {
            let used_size = self.stored.len();
            let mut edge = vec![0; usize::try_from(used_size.min(EDGE)).ok()?];
            let mut digest = Md5::new();
            digest.update(MAGIC);
            for number in [u64::from(VERSION), self.of as u64, used_size, self.data_size] {
                digest.update(number.to_le_bytes());
            }
            for at in [0, used_size.saturating_sub(EDGE)] {
                read_exact_at(&*self.stored, at, &mut edge).ok()?;
                digest.update(&edge);
            }
            let key = |name: &[u8]| TableKey(digest.clone().chain_update(name).finalize().into());
            let shared = self.name.shared.as_ref().map(|(name, md5)| key(&[&name[..], md5].concat()));
            Some(Keys { own: key(&self.name.own), shared })
        })
    }

    /// True if a table is stored, which may be damaged.
    pub(in crate::codec) fn has_table(&self) -> bool {
        self.keys().is_some_and(|keys| keys.all().any(|key| self.store.find(key).is_some()))
    }

    /// Returns the stored table, if one fits: at most `most` entries of `N` numbers each.
    pub(in crate::codec) fn find<const N: usize>(&self, most: u64) -> Option<StoredTable<N>> {
        let keys = self.keys()?;
        keys.all().find_map(|key| {
            let file = self.store.find(key)?;
            let header = self.read_header(&*file);
            if header.is_some_and(|header| header.owner != key && header.owner != keys.own) {
                return None; // the table of another file, whose MD5 is not proved
            }
            let table = header.and_then(|header| Self::read(file, header, most));
            if table.is_none() {
                tracing::debug!("the seek table {key} is damaged, and removed");
                self.store.remove(key);
            }
            table
        })
    }

    /// Returns the header of a table of this stream, or of a stream that can't be told from it.
    fn read_header(&self, file: &dyn Content) -> Option<TableHeader> {
        let mut bytes = [0; HEADER];
        read_exact_at(file, 0, &mut bytes).ok()?;
        let owner = TableKey(*bytes.get(16..)?.first_chunk()?);
        let whole =
            Summary { end: long(&bytes, 48)?, checksum: short(&bytes, 56)?, interval: long(&bytes, 64)? };
        let count = long(&bytes, 72)?;
        let crc = short(&bytes, 80)?;
        (bytes == self.header(owner, whole, count, crc)).then_some(TableHeader { owner, whole, count, bytes })
    }

    fn read<const N: usize>(
        file: Arc<dyn Content>,
        header: TableHeader,
        most: u64,
    ) -> Option<StoredTable<N>> {
        let TableHeader { whole, count, bytes: header, .. } = header;
        if count > most {
            return None;
        }
        let len = count.checked_mul(8 * N as u64)?;
        let end = len.checked_add(HEADER as u64).filter(|end| *end <= file.len())?;
        let mut crc = crc_after(0, &header[..BEFORE_CRC]);
        let mut entries = Vec::new();
        let mut at = HEADER as u64;
        let mut bytes = vec![0; 8 * N * AT_ONCE];
        while at < end {
            let wanted = usize::try_from(end - at).map_or(bytes.len(), |rest| rest.min(bytes.len()));
            let part = bytes.get_mut(..wanted)?;
            read_exact_at(&*file, at, part).ok()?;
            crc = crc_after(crc, part);
            entries.extend(part.chunks_exact(8 * N).map(|entry| {
                let mut numbers = [0; N];
                for (number, eight) in numbers.iter_mut().zip(entry.chunks_exact(8)) {
                    *number = eight.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
                }
                numbers
            }));
            at += wanted as u64;
        }
        entries.shrink_to_fit();
        (crc == short(&header, 80)?).then_some(StoredTable { file, whole, entries, records: end })
    }

    /// Returns the header of the table's file. `owner` is the key of one file's stream, or of all with an MD5.
    fn header(&self, owner: TableKey, whole: Summary, count: u64, crc: u32) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            header[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&(self.of as u32).to_le_bytes());
        put(&owner.0);
        put(&self.stored.len().to_le_bytes());
        put(&self.data_size.to_le_bytes());
        put(&whole.end.to_le_bytes());
        put(&whole.checksum.to_le_bytes());
        put(&SOUND.to_le_bytes());
        put(&whole.interval.to_le_bytes());
        put(&count.to_le_bytes());
        put(&crc.to_le_bytes());
        header
    }

    /// Stores a table: its entries, then the output of `records`. `pass` decodes the stream from its start.
    pub(in crate::codec) fn keep<const N: usize>(
        &self,
        whole: Summary,
        entries: &[[u64; N]],
        records: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
        pass: &dyn Fn() -> Result<Box<dyn SegmentReader>>,
    ) {
        let Some(keys) = self.keys() else { return };
        let count = entries.len() as u64;
        let mut keep = |key, owner| {
            self.store.keep(key, &mut |out| {
                let numbers = || entries.iter().flatten().map(|number| number.to_le_bytes());
                let before = &self.header(owner, whole, count, 0)[..BEFORE_CRC];
                let crc = numbers().fold(crc_after(0, before), |crc, bytes| crc_after(crc, &bytes));
                out.write_all(&self.header(owner, whole, count, crc))?;
                numbers().try_for_each(|bytes| out.write_all(&bytes))?;
                records(out)
            });
        };
        let claimed = self.name.shared.as_ref().map(|(_, md5)| *md5);
        let Some((shared, claimed)) = keys.shared.zip(claimed) else { return keep(keys.own, keys.own) };
        let owner =
            self.store.find(shared).and_then(|table| self.read_header(&*table)).map(|table| table.owner);
        if owner == Some(shared) {
            return; // another mount has just proved it
        }
        if !self.store.proves_md5() && owner.is_none_or(|owner| owner == keys.own) {
            return keep(shared, keys.own);
        }
        if self.md5_of_stored().is_ok_and(|md5| md5 == claimed) {
            return keep(shared, shared);
        }
        // Only a second pass shows the MD5 of the decoded bytes. The mount may end before that pass is done.
        keep(keys.own, keys.own);
        if self.md5_of_decoded(pass).is_ok_and(|md5| md5 == claimed) {
            keep(shared, shared);
            self.store.remove(keys.own);
        }
    }

    fn md5_of_stored(&self) -> Result<[u8; 16]> {
        let mut md5 = Md5::new();
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < self.stored.len() {
            let read = self.stored.read_at(at, &mut piece)?;
            if read == 0 {
                break;
            }
            md5.update(piece.get(..read).unwrap_or_default());
            at += read as u64;
        }
        Ok(md5.finalize().into())
    }

    fn md5_of_decoded(&self, pass: &dyn Fn() -> Result<Box<dyn SegmentReader>>) -> Result<[u8; 16]> {
        let mut md5 = Md5::new();
        let mut bytes = Vec::new();
        let mut bytes_left = self.data_size;
        let mut pass = pass()?;
        pass.wanted(u64::MAX);
        while let Some(start) = pass.next(&mut bytes)? {
            let piece = bytes.get(start..).unwrap_or_default();
            md5.update(piece);
            // A file that changes meanwhile may have no end.
            let Some(rest) = bytes_left.checked_sub(piece.len() as u64) else { break };
            bytes_left = rest;
        }
        pass.done(bytes);
        Ok(md5.finalize().into())
    }

    /// Removes the stored table.
    pub(in crate::codec) fn remove(&self) {
        for key in self.keys().into_iter().flat_map(Keys::all) {
            tracing::info!("the seek table {key} does not fit its stream, and is removed");
            self.store.remove(key);
        }
    }

    /// Stores `table` in the slot, with a right header and CRC.
    pub(in crate::codec) fn forge(&self, table: &[u8]) {
        let long = |at| long(table, at);
        let short = |at| short(table, at);
        let (Some(Keys { own: key, .. }), Some(end), Some(checksum), Some(interval)) =
            (self.keys(), long(48), short(56), long(64))
        else {
            return;
        };
        let whole = Summary { end, checksum, interval };
        let count = long(72).and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
        let body = table.get(HEADER..).unwrap_or_default();
        let entries = body.get(..count.saturating_mul(8 * self.of.numbers())).unwrap_or(body);
        let crc = crc_after(0, &self.header(key, whole, count as u64, 0)[..BEFORE_CRC]);
        let header = self.header(key, whole, count as u64, crc_after(crc, entries));
        self.store.keep(key, &mut |out| {
            out.write_all(&header)?;
            out.write_all(body)
        });
    }
}

#[cfg(test)]
impl TableSlot {
    /// Returns all stored bytes.
    pub(in crate::codec) fn bytes(&self) -> Option<Vec<u8>> {
        let file = self.keys()?.all().find_map(|key| self.store.find(key))?;
        let mut bytes = vec![0; usize::try_from(file.len()).ok()?];
        read_exact_at(&*file, 0, &mut bytes).ok().map(|()| bytes)
    }

    /// Stores any bytes.
    pub(in crate::codec) fn put(&self, bytes: &[u8]) {
        self.store.keep(self.keys().unwrap().own, &mut |out| out.write_all(bytes));
    }
}

/// The header of a stored table, whose key is `owner`'s.
#[derive(Clone, Copy, Debug)]
struct TableHeader {
    owner: TableKey,
    whole: Summary,
    count: u64,
    bytes: [u8; HEADER],
}

/// A stored table that was found.
#[derive(Debug)]
pub(in crate::codec) struct StoredTable<const N: usize> {
    /// The table's file, for the records.
    pub(in crate::codec) file: Arc<dyn Content>,
    pub(in crate::codec) whole: Summary,
    pub(in crate::codec) entries: Vec<[u64; N]>,
    /// Position of the records in the file.
    pub(in crate::codec) records: u64,
}

/// Returns the position of the records after `count` entries of `N` numbers.
pub(in crate::codec) fn records<const N: usize>(count: usize) -> u64 {
    HEADER as u64 + count as u64 * 8 * N as u64
}

/// Continues a CRC-32: `before` is the CRC of the preceding bytes.
pub(in crate::codec) fn crc_after(before: u32, bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new_with_initial(before);
    crc.update(bytes);
    crc.finalize()
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
