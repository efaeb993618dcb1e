//! The decoded bytes of an encoded content, read at any offset with bounded memory.

use crate::error::Result;

/// Decodes a stream from its start, once.
pub trait Decoder: Send {
    /// Writes the next decoded bytes to `out` and says how many; 0 is the end of the stream.
    ///
    /// An error is given only after every byte before the damage was handed out.
    fn read(&mut self, out: &mut [u8]) -> Result<usize>;
}

/// An encoded stream that can be decoded from its start, as often as needed.
pub trait Sequential: Send + Sync + std::fmt::Debug {
    /// A new decoder that stands at decoded offset 0.
    fn start(&self) -> Result<Box<dyn Decoder>>;
}

/// Placeholder until the codecs' room is furnished.
#[derive(Debug)]
pub struct Decoded;
