//! Decoding from every position between two blocks where it can begin: for tests and the fuzzer.

use std::sync::Arc;

use super::blocks::BlockDecoder;
use super::library::Context;
use super::memory::{Follow, Memory};
use crate::codec::input::Input;
use crate::content::Content;
use crate::error::Result;

/// The output of a frame.
#[derive(Debug, Default)]
pub struct Everywhere {
    /// Output from the start of the frame.
    pub whole: Vec<u8>,
    /// Output from positions within the frame, each with its offset in `whole`.
    pub outputs: Vec<(usize, Vec<u8>)>,
    /// Number of blocks.
    pub blocks: usize,
    /// Number of blocks before which decoding can begin.
    pub entries: usize,
}

/// A position in the stored bytes, its decoded offset, and its dictionary.
type EntryDictionary = (u64, usize, Vec<u8>);

impl Everywhere {
    /// Decodes the first frame in `stored` from its start and from about `most` positions. Fails if it
    /// decodes to more than `limit` bytes or is broken.
    pub fn of(stored: &Arc<dyn Content>, limit: usize, most: usize) -> Result<Self> {
        let mut all = Self::default();
        let mut blocks = BlockDecoder::new(Input::new(stored), Box::<Context>::default());
        blocks.skip()?;
        let header = blocks.begin()?;
        let mut memory = Memory::default();
        let mut positions = Vec::<EntryDictionary>::new();
        loop {
            let block = blocks.block()?;
            let start = all.whole.len().saturating_sub(usize::try_from(header.window).unwrap_or(usize::MAX));
            let at = blocks.input.position();
            let window = all.whole.get(start..).unwrap_or_default();
            let content = blocks.content(block)?;
            all.blocks += 1;
            if let Some(head) = memory.head(window, content) {
                positions.push((at, all.whole.len(), [&head, window].concat()));
            }
            if let Some(content) = content {
                memory.pass(content, [Follow::Now, Follow::Later][all.blocks % 2]);
            }
            blocks.decode(block, &mut all.whole)?;
            if all.whole.len() > limit {
                return Err(blocks.input.damaged("more than is looked at"));
            }
            if block.last {
                break;
            }
        }
        all.entries = positions.len();
        for (at, offset, dictionary) in positions.iter().step_by(positions.len() / most.max(1) + 1) {
            let input = Input::range(stored, *at, u64::MAX);
            let mut rest_blocks = BlockDecoder::within(input, Box::<Context>::default(), header, dictionary)?;
            let mut rest = Vec::new();
            loop {
                let block = rest_blocks.block()?;
                rest_blocks.decode(block, &mut rest)?;
                if block.last {
                    break;
                }
            }
            all.outputs.push((*offset, rest));
        }
        Ok(all)
    }
}
