//! The checksum and the length of an LZ4 frame, computed while the frame is decoded in order.

use std::hash::Hasher;

use twox_hash::XxHash32;

use super::format::Header;
use crate::codec::input::Input;
use crate::error::Result;

/// Checksum and length of a frame up to a position.
#[derive(Clone)]
pub(super) struct Running {
    hash: Option<XxHash32>,
    len: u64,
    content_size: Option<u64>,
}

impl Running {
    /// Returns the state at the start of a frame.
    pub(super) fn new(header: Header) -> Self {
        let hash = header.blocks.content_checked.then(|| XxHash32::with_seed(0));
        Self { hash, len: 0, content_size: header.content_size }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.len = self.len.saturating_add(bytes.len() as u64);
        if let Some(hash) = &mut self.hash {
            hash.write(bytes);
        }
    }

    pub(super) fn check(&self, sum: Option<u32>, input: &Input) -> Result<()> {
        if let (Some(hash), Some(sum)) = (&self.hash, sum)
            && hash.finish_32() != sum
        {
            return Err(input.damaged("the LZ4 frame is broken: its checksum is wrong"));
        }
        match self.content_size {
            Some(size) if size != self.len => {
                Err(input.damaged("the LZ4 frame decodes to another size than its header says"))
            }
            _ => Ok(()),
        }
    }
}
