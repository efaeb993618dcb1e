//! Builder of Bloscpack files, correct or wrong.

use md5::Digest;
use simd_adler32::Adler32;

/// Returns a Blosc buffer of uncompressed data.
pub fn stored(data: &[u8]) -> Vec<u8> {
    let len = data.len() as u32;
    let mut buffer = vec![2, 1, 0x22, 1];
    buffer.extend([len, len, len + 16].map(u32::to_le_bytes).concat());
    buffer.extend(data);
    buffer
}

/// Returns the checksum of kind `number` of some bytes, in stored form.
pub fn checksum(number: u8, bytes: &[u8]) -> Vec<u8> {
    match number {
        0 => vec![],
        1 => {
            let mut sum = Adler32::new();
            sum.write(bytes);
            sum.finish().to_le_bytes().to_vec()
        }
        2 => crc32fast::hash(bytes).to_le_bytes().to_vec(),
        3 => md5::Md5::digest(bytes).to_vec(),
        4 => sha1::Sha1::digest(bytes).to_vec(),
        5 => sha2::Sha224::digest(bytes).to_vec(),
        6 => sha2::Sha256::digest(bytes).to_vec(),
        7 => sha2::Sha384::digest(bytes).to_vec(),
        8 => sha2::Sha512::digest(bytes).to_vec(),
        other => panic!("there is no checksum {other}"),
    }
}

/// The parts of a file, each of which can be made wrong.
#[derive(Clone, Debug)]
pub struct Pack {
    pub version: u8,
    pub options: u8,
    pub checksum: u8,
    pub chunk_size: i32,
    pub last_chunk: i32,
    pub nchunks: i64,
    /// `max_app_chunks`, or `meta_size` in the 2012 proposal.
    pub last_word: i64,
    /// The bytes between header and offsets.
    pub metadata: Vec<u8>,
    /// Replacement of the correct offsets.
    pub offsets: Option<Vec<i64>>,
    /// Blosc buffers.
    pub chunks: Vec<Vec<u8>>,
    pub behind: Vec<u8>,
}

impl Pack {
    /// Returns a file of version 3, with offsets and Adler-32.
    pub fn new(chunk_size: usize, data: &[u8]) -> Self {
        let chunks: Vec<_> = data.chunks(chunk_size).collect();
        Self {
            version: 3,
            options: 1,
            checksum: 1,
            chunk_size: chunk_size as i32,
            last_chunk: chunks.last().unwrap().len() as i32,
            nchunks: chunks.len() as i64,
            last_word: 2,
            metadata: vec![],
            offsets: None,
            chunks: chunks.into_iter().map(stored).collect(),
            behind: vec![],
        }
    }

    /// Returns a file in the form of the 2012 proposal.
    pub fn variable(items: &[&[u8]], metadata: &[u8]) -> Self {
        Self {
            options: 7,
            chunk_size: -1,
            last_chunk: -1,
            nchunks: items.len() as i64,
            last_word: metadata.len() as i64,
            metadata: metadata.to_vec(),
            chunks: items.iter().map(|item| stored(item)).collect(),
            ..Self::new(1, b"x")
        }
    }

    /// Adds uncompressed metadata in the form of version 3.
    pub fn described(mut self, json: &[u8]) -> Self {
        self.options |= 2;
        let len = json.len() as u32;
        let mut section = b"JSON\0\0\0\0\0\x01\0\0".to_vec();
        section.extend([len, len + 9, len].map(u32::to_le_bytes).concat());
        section.extend([0; 8]);
        section.extend(json);
        section.extend([0; 9]);
        section.extend(checksum(1, json));
        Self { metadata: section, ..self }
    }

    fn has_offsets(&self) -> bool {
        self.options & 1 != 0
    }

    fn room(&self) -> usize {
        let more = if self.version == 3 && self.options & 4 == 0 {
            self.last_word.clamp(0, 1000) as usize
        } else {
            0
        };
        if self.has_offsets() { self.chunks.len() + more } else { 0 }
    }

    /// Returns the offsets of the chunks.
    pub fn places(&self) -> Vec<usize> {
        let mut at = 32 + self.metadata.len() + 8 * self.room();
        self.chunks
            .iter()
            .map(|chunk| {
                let begun = at;
                at += chunk.len() + checksum(self.checksum, b"").len();
                begun
            })
            .collect()
    }

    pub fn build(&self) -> Vec<u8> {
        let mut file = b"blpk".to_vec();
        file.extend([self.version, self.options, self.checksum, 1]);
        file.extend([self.chunk_size, self.last_chunk].map(i32::to_le_bytes).concat());
        file.extend([self.nchunks, self.last_word].map(i64::to_le_bytes).concat());
        file.extend(&self.metadata);
        let places = self.places().into_iter().map(|at| at as i64).collect();
        let offsets: Vec<i64> = self.offsets.clone().unwrap_or(places);
        (0..self.room()).for_each(|n| file.extend(offsets.get(n).unwrap_or(&-1).to_le_bytes()));
        for chunk in &self.chunks {
            file.extend(chunk);
            file.extend(checksum(self.checksum, chunk));
        }
        file.extend(&self.behind);
        file
    }
}
