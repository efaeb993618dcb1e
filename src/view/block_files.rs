//! `blocks/`: each block of a container as a file, `0.bin`, `1.bin` and so on.

use std::ffi::OsStr;
use std::sync::Arc;

use asdf_file::container::{Block, Container, Facts};
use asdf_file::folder::{Attributes, Dir, EntryKind, File, Keeping, Node, Renewal, Signature};
use seekable::error::Result;

/// The directory of a container's blocks. The names are numbers, so no list of them is held.
#[derive(Debug)]
pub(crate) struct BlockFiles {
    container: Arc<dyn Container>,
}

impl BlockFiles {
    /// Creates the directory of a container's blocks.
    pub(crate) fn new(container: Arc<dyn Container>) -> Self {
        Self { container }
    }
}

impl Dir for BlockFiles {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        let Some(n) = block_number(name) else { return Ok(None) };
        match self.container.block(n) {
            Ok(block) => Ok(Some(Node::File(file(n, block)))),
            Err(error) if error.is_of_reading() => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        let count = self.container.block_count()? as u64;
        for n in from..count {
            if !take(OsStr::new(&format!("{n}.bin")), EntryKind::File) {
                break;
            }
        }
        Ok(())
    }

    fn is_slow(&self) -> bool {
        self.container.is_slow()
    }
}

/// Parses `N.bin`; `None` for another spelling than [`BlockFiles`] uses.
fn block_number(name: &OsStr) -> Option<usize> {
    let digits = name.to_str()?.strip_suffix(".bin")?;
    let plain = digits == "0" || !digits.starts_with('0');
    let plain = plain && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

fn file(n: usize, block: Block) -> File {
    let facts = block.facts;
    File {
        content: block.content,
        claimed: facts.data_size,
        grows: block.streamed,
        blocks: vec![n],
        renewal: if block.streamed {
            Renewal::Follows
        } else {
            Renewal::WhileSame(Signature { text: String::new(), place: format!("{facts:?}") })
        },
        keeping: if block.streamed { Keeping::Nothing } else { Keeping::Small },
        mtime: None,
        attributes: Some(Arc::new(move || attributes(&facts))),
    }
}

fn attributes(facts: &Facts) -> Attributes {
    facts.iter().map(|fact| (fact.name, fact.value.to_string())).collect()
}
