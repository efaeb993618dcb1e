//! The order of blocks and streams, with the checks of headers and footers.
//!
//! Several streams may follow each other, each padded to a byte. Bytes after the first stream that do not
//! begin with `BZh` and a digit are trailing garbage, not an error. Other decoders, seen with Python 3.11 and
//! bzip2 1.0.8:
//!
//! | after the first stream | here | `bzip2 -d` | Python's `bz2.decompress` | the crate's `MultiBzDecoder` |
//! |---|---|---|---|---|
//! | garbage, zeros | trailing | ignored, warning | ignored | error |
//! | `BZ`, cut off | trailing | error | error | error |
//! | `BZh9`, cut off | error | error | error | error |
//! | `BZh9` and garbage, a broken stream | error | error | ignored, including its good blocks | error |
//!
//! A caller that knows the expected length can stop at that length, and does not see these errors then.

use super::Level;
use super::bits::{Bits, Piece};
#[cfg(test)]
use super::block::Decoder;
use super::block::{Block, what_follows};
use super::crc::combine;
use super::fault::Fault;
use super::magic::{Follows, MAGIC_BITS, Magic};
use crate::content::Content;

/// Signature of a stream, before the digit.
const SIGNATURE: [u8; 3] = *b"BZh";

/// Size of a stream's header in bytes.
const HEADER: u64 = SIGNATURE.len() as u64 + 1;

/// Size of a footer in bits: the magic and the combined CRC.
pub const FOOTER_BITS: u64 = MAGIC_BITS as u64 + 32;

/// The next element of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamElement {
    /// A block.
    Block {
        /// The first bit of the block's magic.
        bit: u64,
        /// The level of the block's stream.
        level: Level,
    },
    /// The end of the last stream.
    End {
        /// Offset of the end in bytes, from the content's start.
        byte: u64,
        /// Number of bytes after the last stream.
        trailing: u64,
    },
}

/// The chain of blocks from the first byte of a content on; it proves which candidates are blocks.
///
/// The chain does not decode: [`BlockChain::next`] gives the next bit, and [`BlockChain::accept`] takes the
/// block that was decoded there, on any thread.
#[derive(Debug)]
pub struct BlockChain {
    state: ChainState,
    piece: Piece,
}

/// The progress of a chain.
#[derive(Clone, Copy, Debug)]
enum ChainState {
    /// Before a possible stream; `first` is true if no stream came before.
    Outside { byte: u64, first: bool },
    /// After a stream's header, or after a block.
    Inside { bit: u64, follows: Follows, level: Level, combined: u32 },
}

impl Default for BlockChain {
    fn default() -> Self {
        Self::new()
    }
}

impl BlockChain {
    /// Returns a chain at the content's first byte.
    pub fn new() -> Self {
        Self { state: ChainState::Outside { byte: 0, first: true }, piece: Piece::short() }
    }

    /// Returns the next element; reads and checks headers and footers on the way.
    ///
    /// The result stays the same until the block is accepted.
    pub fn next(&mut self, content: &dyn Content) -> Result<StreamElement, Fault> {
        loop {
            self.state = match self.state {
                ChainState::Outside { byte, first } => match self.header(content, byte, first)? {
                    Some(state) => state,
                    None => {
                        return Ok(StreamElement::End { byte, trailing: content.len().saturating_sub(byte) });
                    }
                },
                ChainState::Inside { bit, follows, level, combined } => match follows {
                    Follows::Magic(Magic::Block) => return Ok(StreamElement::Block { bit, level }),
                    Follows::Magic(Magic::EndOfStream) => {
                        self.footer(content, bit, combined)?;
                        ChainState::Outside { byte: (bit + FOOTER_BITS).div_ceil(8), first: false }
                    }
                    Follows::Neither => {
                        let reason = "neither a block nor the end of the stream begins here";
                        return Err(Fault::Broken { bit, reason });
                    }
                    // The magic could not be read; reading it again gives the reason.
                    Follows::Cut => {
                        let follows = self.peek(content, bit)?;
                        ChainState::Inside { bit, follows, level, combined }
                    }
                },
            };
        }
    }

    /// Moves past `block` and returns true; returns false, without any effect, if another block comes next.
    pub fn accept(&mut self, block: &Block) -> bool {
        match &mut self.state {
            ChainState::Inside { bit, follows, combined, .. }
                if *bit == block.start && *follows == Follows::Magic(Magic::Block) =>
            {
                (*bit, *follows, *combined) = (block.end, block.follows, combine(*combined, block.crc));
                true
            }
            _ => false,
        }
    }

    /// Returns the state after a stream's header at `byte`, or `None` if there is no header.
    fn header(&mut self, content: &dyn Content, byte: u64, first: bool) -> Result<Option<ChainState>, Fault> {
        let mut header = [0; HEADER as usize];
        let mut read = 0;
        while read < header.len() {
            match content.read_at(byte + read as u64, &mut header[read..])? {
                0 => break,
                more => read = header.len().min(read + more),
            }
        }
        let right = header[..read].iter().zip(SIGNATURE).all(|(&found, wanted)| found == wanted);
        let level = Level::from_digit(header[3]).filter(|_| right && read == header.len());
        let Some(level) = level else {
            let bit = byte * 8;
            return if !first {
                Ok(None)
            } else if right && read < header.len() {
                Err(Fault::Truncated { bit: bit + read as u64 * 8 })
            } else {
                Err(Fault::Broken { bit, reason: "it does not begin with BZh and a digit from 1 to 9" })
            };
        };
        let bit = (byte + HEADER) * 8;
        let follows = self.peek(content, bit)?;
        Ok(Some(ChainState::Inside { bit, follows, level, combined: 0 }))
    }

    /// Checks the combined CRC in the footer at `bit`.
    fn footer(&mut self, content: &dyn Content, bit: u64, combined: u32) -> Result<(), Fault> {
        let bit = bit + u64::from(MAGIC_BITS);
        let stored = Bits::new(content, bit, &mut self.piece).take(32)?;
        if stored != combined {
            return Err(Fault::Broken { bit, reason: "the stream's CRC is wrong" });
        }
        Ok(())
    }

    fn peek(&mut self, content: &dyn Content, bit: u64) -> Result<Follows, Fault> {
        what_follows(&mut Bits::new(content, bit, &mut self.piece))
    }
}

/// A decoder of all blocks of all streams, in order and on one thread.
#[cfg(test)]
#[derive(Debug)]
pub struct StreamReader {
    content: std::sync::Arc<dyn Content>,
    chain: BlockChain,
    decoder: Decoder,
}

#[cfg(test)]
impl StreamReader {
    /// Returns a reader at the content's first byte.
    pub fn new(content: std::sync::Arc<dyn Content>) -> Self {
        Self { content, chain: BlockChain::new(), decoder: Decoder::new() }
    }

    /// Decodes the next block; unread bytes of the block before are skipped. `None` is the end.
    pub fn block(&mut self) -> Result<Option<Block>, Fault> {
        match self.chain.next(&*self.content)? {
            StreamElement::End { .. } => Ok(None),
            StreamElement::Block { bit, level } => {
                let block = self.decoder.decode_at(&*self.content, bit, level)?;
                self.chain.accept(&block);
                Ok(Some(block))
            }
        }
    }

    /// Fills `out` with the next decoded bytes and returns their number; 0 is the end, if `out` isn't empty.
    ///
    /// All bytes before a broken block are given before its error. Bytes of the broken block are not given:
    /// only the block's CRC could prove these bytes right.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, Fault> {
        while self.decoder.bytes_left() == 0 {
            if self.block()?.is_none() {
                return Ok(0);
            }
        }
        Ok(self.decoder.read(out))
    }
}
