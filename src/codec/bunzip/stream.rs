//! The order of blocks and streams: which bit comes next, and which checks stand between.
//!
//! Several streams may follow each other, each padded to a byte. What behind the first one doesn't begin with
//! `BZh` and a digit is trailing garbage, no error. Others, seen with Python 3.11 and bzip2 1.0.8:
//!
//! | behind the first stream | here | `bzip2 -d` | Python's `bz2.decompress` | the crate's `MultiBzDecoder` |
//! |---|---|---|---|---|
//! | garbage, zeros | trailing | ignored, warning | ignored | error |
//! | `BZ`, cut off | trailing | error | error | error |
//! | `BZh9`, cut off | error | error | error | error |
//! | `BZh9` and garbage, a broken stream | error | error | ignored, and its good blocks too | error |
//!
//! A caller that knows the expected length knows whether it matters, and asks for no more.

use std::sync::Arc;

use super::Level;
use super::bits::{Bits, Piece};
use super::block::{Block, Decoder, what_follows};
use super::crc::combine;
use super::fault::Fault;
use super::magic::{Follows, MAGIC_BITS, Magic};
use crate::content::Content;
use crate::error::Result as SourceResult;

/// What a stream begins with, before the digit.
const SIGNATURE: [u8; 3] = *b"BZh";

/// Bytes of a stream's header.
const HEADER: u64 = SIGNATURE.len() as u64 + 1;

/// Bits of a footer: the magic and the combined CRC.
const FOOTER_BITS: u64 = MAGIC_BITS as u64 + 32;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A block.
    Block {
        /// Where its magic begins.
        bit: u64,
        /// The level of its stream.
        level: Level,
    },
    /// The end of the last stream.
    End {
        /// Where it is, in bytes from the content's start.
        byte: u64,
        /// How many bytes follow that belong to no stream.
        trailing: u64,
    },
}

/// The chain of blocks from the first byte of a content on; says of each whether it counts.
///
/// It doesn't decode: [`Chain::next`] says which bit is next, and [`Chain::accept`] takes the block that
/// was decoded there, on any thread.
#[derive(Debug)]
pub struct Chain {
    place: ChainState,
    piece: Piece,
}

/// How far a chain has come.
#[derive(Clone, Copy, Debug)]
enum ChainState {
    /// Where a stream may begin, and whether none has come yet.
    Outside { byte: u64, first: bool },
    /// Behind a stream's header, or behind a block.
    Inside { bit: u64, follows: Follows, level: Level, combined: u32 },
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

impl Chain {
    /// Stands at the content's first byte.
    pub fn new() -> Self {
        Self { place: ChainState::Outside { byte: 0, first: true }, piece: Piece::short() }
    }

    /// What comes next; reads headers and footers on the way, and checks them.
    ///
    /// Says the same again until the block is accepted.
    pub fn next(&mut self, content: &dyn Content) -> Result<Next, Fault> {
        loop {
            self.place = match self.place {
                ChainState::Outside { byte, first } => match self.header(content, byte, first)? {
                    Some(place) => place,
                    None => {
                        return Ok(Next::End { byte, trailing: content.len().saturating_sub(byte) });
                    }
                },
                ChainState::Inside { bit, follows, level, combined } => match follows {
                    Follows::Magic(Magic::Block) => return Ok(Next::Block { bit, level }),
                    Follows::Magic(Magic::EndOfStream) => {
                        self.footer(content, bit, combined)?;
                        ChainState::Outside { byte: (bit + FOOTER_BITS).div_ceil(8), first: false }
                    }
                    Follows::Neither => {
                        let reason = "neither a block nor the end of the stream is there";
                        return Err(Fault::Broken { bit, reason });
                    }
                    // Met anew, so that it is known why.
                    Follows::Cut => {
                        let follows = self.peek(content, bit)?;
                        ChainState::Inside { bit, follows, level, combined }
                    }
                },
            };
        }
    }

    /// Goes on behind `block`; `false`, and nothing else, if it is not the one that comes next.
    pub fn accept(&mut self, block: &Block) -> bool {
        match &mut self.place {
            ChainState::Inside { bit, follows, combined, .. }
                if *bit == block.start && *follows == Follows::Magic(Magic::Block) =>
            {
                (*bit, *follows, *combined) = (block.end, block.follows, combine(*combined, block.crc));
                true
            }
            _ => false,
        }
    }

    /// Where the chain goes on behind a stream's header at `byte`, or `None` if there is none.
    fn header(&mut self, content: &dyn Content, byte: u64, first: bool) -> Result<Option<ChainState>, Fault> {
        let mut header = [0; HEADER as usize];
        let mut read = 0;
        while read < header.len() {
            match content.read_at(byte + read as u64, &mut header[read..])? {
                0 => break,
                more => read = header.len().min(read + more),
            }
        }
        let right = header[..read].iter().zip(SIGNATURE).all(|(&byte, wanted)| byte == wanted);
        let level = Level::from_digit(header[3]).filter(|_| right && read == header.len());
        let Some(level) = level else {
            let bit = byte * 8;
            return match first {
                false => Ok(None),
                true if right && read < header.len() => Err(Fault::Truncated { bit: bit + read as u64 * 8 }),
                true => Err(Fault::Broken { bit, reason: "a bzip2 stream begins with BZh and a digit" }),
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

/// Decodes all blocks of all streams in order, on one thread.
#[derive(Debug)]
pub struct StreamReader {
    content: Arc<dyn Content>,
    chain: Chain,
    decoder: Decoder,
}

impl StreamReader {
    /// Stands at the content's first byte.
    pub fn new(content: Arc<dyn Content>) -> Self {
        Self { content, chain: Chain::new(), decoder: Decoder::new() }
    }

    /// Decodes the next block; bytes of the one before that were not read are passed. `None` is the end.
    pub fn block(&mut self) -> Result<Option<Block>, Fault> {
        match self.chain.next(&*self.content)? {
            Next::End { .. } => Ok(None),
            Next::Block { bit, level } => {
                let block = self.decoder.decode_at(&*self.content, bit, level)?;
                self.chain.accept(&block);
                Ok(Some(block))
            }
        }
    }

    /// Fills `out` with the next decoded bytes and says how many; 0 is the end, if `out` isn't empty.
    ///
    /// All bytes before a broken block come before its error; of the broken block none, as its CRC is all
    /// that vouches for them.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, Fault> {
        while self.decoder.left() == 0 {
            if self.block()?.is_none() {
                return Ok(0);
            }
        }
        Ok(self.decoder.read(out))
    }
}

impl crate::decode::Decoder for StreamReader {
    fn read(&mut self, out: &mut [u8]) -> SourceResult<usize> {
        Ok(Self::read(self, out)?)
    }
}
