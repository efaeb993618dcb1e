//! Decoding from every place between two blocks where that can begin: for tests, and for the fuzzer.

use std::sync::Arc;

use super::blocks::Blocks;
use super::library::Context;
use super::memory::{Follow, Memory};
use crate::codec::input::Input;
use crate::content::Content;
use crate::error::Result;

/// What a frame decodes to.
#[derive(Debug, Default)]
pub struct Everywhere {
    /// From its start on.
    pub whole: Vec<u8>,
    /// From places on, each with its offset in that.
    pub places: Vec<(usize, Vec<u8>)>,
    /// Its blocks.
    pub blocks: usize,
    /// Between how many of them there is such a place.
    pub entries: usize,
}

/// A place: where it is in the stored bytes and in the decoded ones, and its dictionary.
type EntryDictionary = (u64, usize, Vec<u8>);

impl Everywhere {
    /// Decodes the first frame in `stored` from its start and from some `most` places. What decodes to more than
    /// `limit` bytes, or is broken, is an error.
    pub fn of(stored: &Arc<dyn Content>, limit: usize, most: usize) -> Result<Self> {
        let mut all = Self::default();
        let mut blocks = Blocks::new(Input::new(stored), Box::<Context>::default());
        blocks.skip()?;
        let header = blocks.begin()?;
        let (mut memory, mut places) = (Memory::default(), Vec::<EntryDictionary>::new());
        loop {
            let block = blocks.block()?;
            let start = all.whole.len().saturating_sub(usize::try_from(header.window).unwrap_or(usize::MAX));
            let (at, window) = (blocks.position(), all.whole.get(start..).unwrap_or_default());
            let content = blocks.content(block)?;
            all.blocks += 1;
            if let Some(head) = memory.head(window, content) {
                places.push((at, all.whole.len(), [&head, window].concat()));
            }
            if let Some(content) = content {
                memory.pass(content, [Follow::Now, Follow::Later][all.blocks % 2]);
            }
            blocks.decode(block, &mut all.whole)?;
            if all.whole.len() > limit {
                return Err(blocks.damaged("more than is looked at"));
            }
            if block.last {
                break;
            }
        }
        all.entries = places.len();
        for (at, offset, dictionary) in places.iter().step_by(places.len() / most.max(1) + 1) {
            let input = Input::range(stored, *at, u64::MAX);
            let mut blocks = Blocks::within(input, Box::<Context>::default(), header, dictionary)?;
            let mut rest = Vec::new();
            loop {
                let block = blocks.block()?;
                blocks.decode(block, &mut rest)?;
                if block.last {
                    break;
                }
            }
            all.places.push((*offset, rest));
        }
        Ok(all)
    }
}
