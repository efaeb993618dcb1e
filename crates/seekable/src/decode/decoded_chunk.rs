//! A chunk that was decoded as a whole and is read as a stream, for codecs without incremental decoding.

use super::{Chunk, Chunks, Decoder};
use crate::error::{Error, Result};

/// The bytes of a chunk, and the error that follows them.
pub(super) struct DecodedChunk {
    bytes: Vec<u8>,
    given: usize,
    error: Option<Error>,
}

impl DecodedChunk {
    pub(super) fn decode(chunks: &(impl Chunks + ?Sized), chunk: Chunk) -> Result<Self> {
        let mut bytes = Vec::new();
        let error = chunks.decode(chunk, &mut bytes).err();
        match error {
            Some(error) if bytes.is_empty() => Err(error),
            error => Ok(Self { bytes, given: 0, error }),
        }
    }
}

impl Decoder for DecodedChunk {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let rest = self.bytes.get(self.given..).unwrap_or_default();
        let read = rest.len().min(out.len());
        out[..read].copy_from_slice(&rest[..read]);
        self.given += read;
        match &self.error {
            Some(error) if read == 0 && !out.is_empty() => Err(error.clone()),
            _ => Ok(read),
        }
    }

    fn weight(&self) -> u64 {
        self.bytes.capacity() as u64
    }
}
