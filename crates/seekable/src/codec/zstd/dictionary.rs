//! Dictionaries in the mount's temporary file ([`TempSegments`](crate::cache::TempSegments)).

use crate::cache::{Cache, SegmentBytes, SegmentList};

/// Bytes put into a segment at a time.
const PART: usize = 256 << 10;

/// Compression level of a dictionary in a stored table: a fast one.
const LEVEL: i32 = 1;

/// A dictionary in the temporary file.
#[derive(Debug)]
pub(super) struct StoredDictionary {
    segments: SegmentList,
    parts: Vec<SegmentBytes>,
    /// Number of stored bytes, and of bytes in the dictionary.
    len: usize,
    unpacked: usize,
    pub(super) packed: bool,
}

impl StoredDictionary {
    /// Stores a dictionary: its `head`, and the preceding output `content`.
    pub(super) fn put(head: &[u8], content: &[u8], cache: &Cache) -> Option<Self> {
        let len = head.len() + content.len();
        let mut aside = Self::new(len, len, false);
        aside.add(head, cache)?;
        aside.add(content, cache)?;
        Some(aside)
    }

    fn new(len: usize, unpacked: usize, packed: bool) -> Self {
        Self { segments: SegmentList::default(), parts: Vec::new(), len, unpacked, packed }
    }

    fn add(&mut self, bytes: &[u8], cache: &Cache) -> Option<()> {
        for part in bytes.chunks(PART) {
            self.parts.push(self.segments.put(part, cache.temp_segments())?);
        }
        Some(())
    }

    /// Stores the dictionary again, compressed.
    pub(super) fn pack(&self, cache: &Cache) -> Option<Self> {
        let packed = zstd::bulk::compress(&self.stored()?, LEVEL).ok()?;
        let mut aside = Self::new(packed.len(), self.unpacked, true);
        aside.add(&packed, cache)?;
        Some(aside)
    }

    /// Returns the number of stored bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the stored bytes.
    pub(super) fn stored(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.len);
        for part in &self.parts {
            bytes.extend_from_slice(&self.segments.get(*part)?);
        }
        Some(bytes)
    }

    /// Returns the dictionary.
    pub(super) fn dictionary(&self) -> Option<Vec<u8>> {
        let stored = self.stored()?;
        if self.packed { unpack(&stored, self.unpacked) } else { Some(stored) }
    }
}

/// Decompresses a packed dictionary of at most `most` bytes.
pub(super) fn unpack(packed: &[u8], most: usize) -> Option<Vec<u8>> {
    zstd::bulk::decompress(packed, most).ok()
}
