//! An index: a seek table as it is stored between mounts. Its file layout, and its key.
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
//! 56  checksum         u32: the stream's own over all it decodes to (zlib); that of the last frame (zstd); 0
//! 60  flags            u32: 1, sound to the end
//! 64  unit             u64: bytes from one sum to the next (zlib), or that it is over at least (zstd); 0
//! 72  count            u64: places
//! 80  crc              u32: CRC-32 of bytes 0..80 and of the places
//! 84                   u32 = 0
//! 88  places           count × so many u64 as the codec has for one
//!     records          whatever the places point to; each has a CRC of its own
//! ```
//!
//! An index is written only after a pass that reached the end of the stream, and found its checksum right and its
//! length as the header says. The flag records that, since reading with an index does not repeat the pass. The
//! key is an MD5 of everything that identifies the stream: its name, which the format gives, its length, and its
//! first and last bytes. The key does not show whether bytes between them have changed. Therefore all output that
//! is decoded with an index is compared with a CRC in the index before a reader gets it. Where they differ, the
//! index is removed and the stream is decoded without it. The stream's own checksum decides which of the two was
//! wrong; a stream without a checksum is not trusted any more.
//!
//! The CRCs are those of the stream that made the index. A forged stream could make one for another stream with the
//! same ends. Therefore an index belongs to one file, unless the MD5 that the stream claims proves to be right
//! ([`StreamName`]).
//!
//! The bytes of an index are trusted no more than those of a source: every number is checked before use, and
//! nothing is allocated on a number's word.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use md5::{Digest, Md5};

use super::SegmentReader;
use crate::cache::store::{Key, PendingWrite, Store};
use crate::codec::StreamName;
use crate::content::{Content, read_exact_at};
use crate::error::Result;

const MAGIC: [u8; 8] = *b"asdfseek";
const VERSION: u32 = 1;

/// Bytes before the places, and those of them before the CRC.
const HEADER: usize = 88;
const BEFORE_CRC: usize = 80;

/// The pass that made the table found the stream sound to its end.
const SOUND: u32 = 1;

/// Bytes of each end of a stream that are part of its key.
const EDGE: u64 = 4096;

/// Bytes that are hashed at a time.
const PIECE: usize = 256 << 10;

/// Places that are read at a time.
const AT_ONCE: usize = 2048;

/// The codec of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::codec) enum IndexKind {
    Zlib = 1,
    Bzip2 = 2,
    Zstd = 3,
}

impl IndexKind {
    /// Numbers for each place.
    fn numbers(self) -> usize {
        match self {
            Self::Zlib | Self::Zstd => 4,
            Self::Bzip2 => 3,
        }
    }
}

/// What an index says of its stream as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::codec) struct Summary {
    /// The bit behind its last block.
    pub(in crate::codec) end: u64,
    /// Its own checksum.
    pub(in crate::codec) checksum: u32,
    /// Bytes from one sum to the next.
    pub(in crate::codec) unit: u64,
}

/// When an index is written: once the stream was decoded to its sound end, and all its checkpoints are stored.
#[derive(Debug, Default)]
pub(in crate::codec) struct Completion {
    /// Checkpoints that are being stored.
    storing: usize,
    has_ended: bool,
    end: Option<(Summary, PendingWrite)>,
}

impl Completion {
    /// A checkpoint is being stored.
    pub(in crate::codec) fn begin(&mut self) {
        self.storing += 1;
    }

    /// It is stored, or that failed.
    pub(in crate::codec) fn done(&mut self) {
        self.storing -= 1;
    }

    pub(in crate::codec) fn is_storing(&self) -> bool {
        self.storing > 0
    }

    pub(in crate::codec) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The stream has ended, and its index will be written to the slot.
    pub(in crate::codec) fn end(&mut self, summary: Summary, slot: &IndexSlot) {
        (self.has_ended, self.end) = (true, Some((summary, slot.pending_write())));
    }

    /// What was noted at the end, once, when no checkpoint is being stored.
    pub(in crate::codec) fn take(&mut self) -> Option<(Summary, PendingWrite)> {
        if self.is_storing() { None } else { self.end.take() }
    }
}

/// Where the index of a stream is stored.
#[derive(Debug)]
pub(in crate::codec) struct IndexSlot {
    store: Arc<Store>,
    of: IndexKind,
    name: StreamName,
    stored: Arc<dyn Content>,
    data_size: u64,
    keys: OnceLock<Option<Keys>>,
}

/// The keys under which the index of a stream may lie.
#[derive(Clone, Copy, Debug)]
struct Keys {
    /// The key of the file itself.
    own: Key,
    /// The key of all streams with the same MD5, once that has proven right.
    shared: Option<Key>,
}

impl Keys {
    fn all(self) -> impl Iterator<Item = Key> {
        std::iter::once(self.own).chain(self.shared)
    }
}

impl IndexSlot {
    /// The slot for the stream in `stored`, which decodes to `data_size` bytes; `name` is what else tells
    /// it from others. There is none where nothing is stored.
    pub(in crate::codec) fn new(
        store: &Arc<Store>,
        of: IndexKind,
        name: Option<&StreamName>,
        stored: &Arc<dyn Content>,
        data_size: u64,
    ) -> Option<Self> {
        let name = name.filter(|_| store.keeps())?.clone();
        let (store, stored, keys) = (store.clone(), stored.clone(), OnceLock::new());
        Some(Self { store, of, name, stored, data_size, keys })
    }

    /// How many bytes the stream has, stored.
    pub(in crate::codec) fn used_size(&self) -> u64 {
        self.stored.len()
    }

    /// How many bytes the stream should decode to.
    pub(in crate::codec) fn data_size(&self) -> u64 {
        self.data_size
    }

    /// The keys of the index; `None` if the ends of the stream can't be read.
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
            let key = |name: &[u8]| Key(digest.clone().chain_update(name).finalize().into());
            let shared = self.name.shared.as_ref().map(|(name, md5)| key(&[&name[..], md5].concat()));
            Some(Keys { own: key(&self.name.own), shared })
        })
    }

    /// The index, if there is one that fits: its places of `N` numbers each, `most` of them at most.
    pub(in crate::codec) fn find<const N: usize>(&self, most: u64) -> Option<StoredIndex<N>> {
        self.keys()?.all().find_map(|key| {
            let table = self.read(self.store.find(key)?, key, most);
            if table.is_none() {
                tracing::debug!("the seek table {key} is damaged, and removed");
                self.store.remove(key);
            }
            table
        })
    }

    fn read<const N: usize>(&self, file: Arc<dyn Content>, key: Key, most: u64) -> Option<StoredIndex<N>> {
        let mut header = [0; HEADER];
        read_exact_at(&*file, 0, &mut header).ok()?;
        let (long, short) = (|at| long(&header, at), |at| short(&header, at));
        let whole = Summary { end: long(48)?, checksum: short(56)?, unit: long(64)? };
        let count = long(72)?;
        if header != self.header(key, whole, count, short(80)?) || count > most {
            return None;
        }
        let len = count.checked_mul(8 * N as u64)?;
        let end = len.checked_add(HEADER as u64).filter(|end| *end <= file.len())?;
        let mut crc = crc_after(0, &header[..BEFORE_CRC]);
        let mut places = Vec::new();
        let mut at = HEADER as u64;
        let mut bytes = vec![0; 8 * N * AT_ONCE];
        while at < end {
            let wanted = usize::try_from(end - at).map_or(bytes.len(), |left| left.min(bytes.len()));
            let part = bytes.get_mut(..wanted)?;
            read_exact_at(&*file, at, part).ok()?;
            crc = crc_after(crc, part);
            places.extend(part.chunks_exact(8 * N).map(|place| {
                let mut numbers = [0; N];
                for (number, eight) in numbers.iter_mut().zip(place.chunks_exact(8)) {
                    *number = eight.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
                }
                numbers
            }));
            at += wanted as u64;
        }
        places.shrink_to_fit();
        (crc == short(80)?).then_some(StoredIndex { file, whole, places, records: end })
    }

    /// The bytes before the places.
    fn header(&self, key: Key, whole: Summary, count: u64, crc: u32) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            header[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&(self.of as u32).to_le_bytes());
        put(&key.0);
        put(&self.stored.len().to_le_bytes());
        put(&self.data_size.to_le_bytes());
        put(&whole.end.to_le_bytes());
        put(&whole.checksum.to_le_bytes());
        put(&SOUND.to_le_bytes());
        put(&whole.unit.to_le_bytes());
        put(&count.to_le_bytes());
        put(&crc.to_le_bytes());
        header
    }

    /// Stores an index: its places, and then what `records` writes. `pass` decodes the stream from its start.
    pub(in crate::codec) fn keep<const N: usize>(
        &self,
        whole: Summary,
        places: &[[u64; N]],
        records: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
        pass: &dyn Fn() -> Result<Box<dyn SegmentReader>>,
    ) {
        let Some(keys) = self.keys() else { return };
        let count = places.len() as u64;
        let mut keep = |key| {
            self.store.keep(key, &mut |out| {
                let numbers = || places.iter().flatten().map(|number| number.to_le_bytes());
                let before = &self.header(key, whole, count, 0)[..BEFORE_CRC];
                let crc = numbers().fold(crc_after(0, before), |crc, bytes| crc_after(crc, &bytes));
                out.write_all(&self.header(key, whole, count, crc))?;
                numbers().try_for_each(|bytes| out.write_all(&bytes))?;
                records(out)
            });
        };
        let claimed = self.name.shared.as_ref().map(|(_, md5)| *md5);
        let Some((shared, claimed)) = keys.shared.zip(claimed) else { return keep(keys.own) };
        if self.md5_of_stored().is_ok_and(|md5| md5 == claimed) {
            return keep(shared);
        }
        // Only a second pass shows the MD5 of the decoded bytes. Meanwhile the mount may end.
        keep(keys.own);
        if self.md5_of_decoded(pass).is_ok_and(|md5| md5 == claimed) {
            keep(shared);
            self.store.remove(keys.own);
        }
    }

    fn md5_of_stored(&self) -> Result<[u8; 16]> {
        let (mut md5, mut piece, mut at) = (Md5::new(), vec![0; PIECE], 0);
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
        let (mut md5, mut bytes, mut left) = (Md5::new(), Vec::new(), self.data_size);
        let mut pass = pass()?;
        pass.wanted(u64::MAX);
        while let Some(start) = pass.next(&mut bytes)? {
            let piece = bytes.get(start..).unwrap_or_default();
            md5.update(piece);
            // A file that is changed meanwhile may have no end.
            let Some(rest) = left.checked_sub(piece.len() as u64) else { break };
            left = rest;
        }
        pass.done(bytes);
        Ok(md5.finalize().into())
    }

    /// Removes the index.
    pub(in crate::codec) fn remove(&self) {
        for key in self.keys().into_iter().flat_map(Keys::all) {
            tracing::info!("the seek table {key} does not fit its stream, and is removed");
            self.store.remove(key);
        }
    }

    /// Announces that the index will be written.
    pub(in crate::codec) fn pending_write(&self) -> PendingWrite {
        self.store.pending_write()
    }

    /// Stores `table` in the slot, with a right header and CRC.
    pub(in crate::codec) fn forge(&self, table: &[u8]) {
        let (long, short) = (|at| long(table, at), |at| short(table, at));
        let (Some(Keys { own: key, .. }), Some(end), Some(checksum), Some(unit)) =
            (self.keys(), long(48), short(56), long(64))
        else {
            return;
        };
        let whole = Summary { end, checksum, unit };
        let count = long(72).and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
        let body = table.get(HEADER..).unwrap_or_default();
        let places = body.get(..count.saturating_mul(8 * self.of.numbers())).unwrap_or(body);
        let crc = crc_after(0, &self.header(key, whole, count as u64, 0)[..BEFORE_CRC]);
        let header = self.header(key, whole, count as u64, crc_after(crc, places));
        self.store.keep(key, &mut |out| {
            out.write_all(&header)?;
            out.write_all(body)
        });
    }
}

#[cfg(test)]
impl IndexSlot {
    /// All bytes that are stored.
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

/// An index that was found.
#[derive(Debug)]
pub(in crate::codec) struct StoredIndex<const N: usize> {
    /// Its file, for the records.
    pub(in crate::codec) file: Arc<dyn Content>,
    pub(in crate::codec) whole: Summary,
    pub(in crate::codec) places: Vec<[u64; N]>,
    /// Where the records begin in the file.
    pub(in crate::codec) records: u64,
}

/// Where the records of so many places of `N` numbers begin.
pub(in crate::codec) fn records<const N: usize>(places: usize) -> u64 {
    HEADER as u64 + places as u64 * 8 * N as u64
}

/// The CRC-32 of some bytes and those after them, by the CRC of the first.
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
