//! A line-based format for tests, so that the tree can be tested without a real format.
//!
//! A file is `#ASDF fake`, lines of text up to `...`, then blocks: a line `BLOCK n` with n bytes after
//! it, or `STREAM` with all the rest of the file. A line `BROKEN` makes the file unreadable.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use asdf_file::container::{Block, Container, Defect, Fact, FactValue, Facts, Verified, Views};
use asdf_file::folder::Attributes;
use seekable::content::{Content, Slice};
use seekable::error::{Error, Kind, Result};
use seekable::source::{Source, SourceStat, read_up_to};

/// Number of times that files were opened or verified.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) opened: AtomicUsize,
    pub(crate) verified: AtomicUsize,
}

#[derive(Debug)]
struct Fake {
    source: Arc<dyn Source>,
    source_stat: SourceStat,
    tree_end: u64,
    blocks: Vec<(u64, u64, bool)>,
    /// All bytes before a streamed block.
    before_stream: Option<Vec<u8>>,
    counts: Arc<Counts>,
}

pub(crate) fn open(source: Arc<dyn Source>, counts: &Arc<Counts>) -> Result<Arc<dyn Container>> {
    counts.opened.fetch_add(1, Ordering::Relaxed);
    let source_stat = source.stat()?;
    let mut bytes = vec![0; source_stat.size as usize];
    let read = read_up_to(&*source, 0, &mut bytes)?;
    bytes.truncate(read);
    if !bytes.starts_with(b"#ASDF fake\n") {
        return Err(Error::new(Kind::Unrecognised, "is not a fake file").of(source.path()));
    }
    let mut at = 0;
    let mut tree_end = 0;
    let mut blocks = Vec::new();
    let mut before_stream = None;
    while let Some(len) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        let line = std::str::from_utf8(&bytes[at..at + len]).unwrap_or("");
        at += len + 1;
        match (line.split_once(' '), line) {
            (_, "...") => tree_end = at as u64,
            (_, "BROKEN") => return Err(Error::damaged("is broken on purpose").of(source.path())),
            (_, "STREAM") => {
                blocks.push((at as u64, (bytes.len() - at) as u64, true));
                before_stream = Some(bytes[..at].to_vec());
                break;
            }
            (Some(("BLOCK", size)), _) => {
                let size: usize = size.parse().unwrap();
                blocks.push((at as u64, size as u64, false));
                at = (at + size).min(bytes.len());
            }
            _ => {}
        }
    }
    Ok(Arc::new(Fake { source, source_stat, tree_end, blocks, before_stream, counts: counts.clone() }))
}

impl Container for Fake {
    fn format(&self) -> &'static str {
        "fake"
    }

    fn version(&self) -> String {
        "1.2".into()
    }

    fn tree(&self) -> Arc<dyn Content> {
        Arc::new(Slice::new(self.source.clone(), 0, self.tree_end))
    }

    fn block_count(&self) -> Result<usize> {
        Ok(self.blocks.len())
    }

    fn block(&self, n: usize) -> Result<Block> {
        let found = self.blocks.get(n).ok_or_else(|| Error::new(Kind::NotFound, "no such block"));
        let (offset, size, streamed) = *found?;
        let text = |text: &str| FactValue::Word(text.to_owned());
        let groups = vec![
            vec![
                Fact::size("user.fake.data_size", size),
                Fact { name: "user.fake.compression", value: text("") },
            ],
            vec![
                Fact::number("user.fake.offset", offset),
                Fact { name: "user.fake.checksum", value: text("00") },
            ],
        ];
        let facts = Facts { offset, data_size: size, groups };
        Ok(Block { facts, content: Ok(Arc::new(Slice::new(self.source.clone(), offset, size))), streamed })
    }

    fn block_before(&self, offset: u64) -> Result<Option<usize>> {
        // A block's bytes are preceded by its line, so the block begins before `start`.
        Ok(self.blocks.partition_point(|(start, ..)| *start <= offset).checked_sub(1))
    }

    fn still_has(&self, file: &Arc<dyn Source>) -> bool {
        self.before_stream.as_ref().is_some_and(|before| {
            let mut bytes = vec![0; before.len()];
            read_up_to(&**file, 0, &mut bytes).is_ok() && bytes == *before
        })
    }

    fn verify(&self, n: usize) -> Result<Verified> {
        self.counts.verified.fetch_add(1, Ordering::Relaxed);
        self.block(n).map(|_| Verified::Mismatch)
    }

    fn attributes(&self) -> Attributes {
        vec![("user.fake.format", self.format().to_owned()), ("user.fake.version", self.version())]
    }

    fn defects(&self) -> Vec<Defect> {
        Vec::new()
    }

    fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    fn source_stat(&self) -> SourceStat {
        self.source_stat
    }
}

impl Views for Fake {}
