//! `blocks.yaml`: a row a block, made when it is read.
//!
//! Every row is [`WIDTH`] bytes long, filled up with spaces inside its braces. So the size is known
//! from the number of blocks, and any range of the text from the blocks whose rows it touches: a
//! table of millions of blocks is never held.

use std::fmt::Write;
use std::sync::Arc;

use crate::content::Content;
use crate::error::Result;
use crate::format::{Block, Container, Verified};

/// Bytes of a row, the line break included: what the longest of all fields need.
pub const WIDTH: u64 = 384;
/// Characters of a label or checksum that are shown; the whole of it is an attribute of the block.
const SHOWN: usize = 40;
/// Characters of an error that are shown.
const ERROR_SHOWN: usize = 120;

/// What is known of a block's checksum, if anyone had it checked.
type Known = dyn Fn(usize) -> Option<Verified> + Send + Sync;

/// The table of a container's blocks.
pub struct Table {
    container: Arc<dyn Container>,
    rows: u64,
    known: Box<Known>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Table").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Table {
    /// The table of the blocks that there are now; `known` says what was found of a block's checksum.
    pub fn new(
        container: Arc<dyn Container>,
        known: impl Fn(usize) -> Option<Verified> + Send + Sync + 'static,
    ) -> Result<Self> {
        let rows = size(container.block_count()?) / WIDTH;
        Ok(Self { container, rows, known: Box::new(known) })
    }
}

/// Bytes of the table of so many blocks.
pub fn size(blocks: usize) -> u64 {
    let rows = (blocks as u64).min(i64::MAX as u64 / WIDTH);
    rows * WIDTH
}

impl Content for Table {
    fn len(&self) -> u64 {
        self.rows * WIDTH
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        let mut row = String::new();
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(done as u64);
            let n = at / WIDTH;
            let (Ok(index), true) = (usize::try_from(n), n < self.rows) else { break };
            fill(&mut row, index, &self.container.block(index), (self.known)(index));
            let from = row.as_bytes().get((at % WIDTH) as usize..).unwrap_or_default();
            let read = from.len().min(rest.len());
            rest[..read].copy_from_slice(&from[..read]);
            done += read;
        }
        Ok(done)
    }
}

/// Writes row `n`.
fn fill(row: &mut String, n: usize, block: &Result<Block>, known: Option<Verified>) {
    row.clear();
    // Writing to a string can't fail.
    let _ = write!(row, "- {{block: {n}");
    match block {
        Ok(block) => {
            let facts = &block.facts;
            let _ = write!(
                row,
                ", offset: {}, header_size: {}, flags: {}, compression: {}, allocated_size: {}, \
                 used_size: {}, data_size: {}, checksum: {}, verified: {}, readable: {}",
                facts.offset,
                facts.header_size,
                facts.flags,
                quoted(&facts.compression, SHOWN),
                facts.allocated_size,
                facts.used_size,
                facts.data_size,
                quoted(&facts.checksum, SHOWN),
                known.map_or("unknown", Verified::word),
                block.content.is_ok(),
            );
        }
        Err(error) => {
            let _ = write!(row, ", error: {}", quoted(error.message(), ERROR_SHOWN));
        }
    }
    debug_assert!(row.len() <= WIDTH as usize - 2, "a row is {} bytes long", row.len());
    while row.len() < WIDTH as usize - 2 {
        row.push(' ');
    }
    row.push_str("}\n");
}

/// `text` as a double-quoted scalar of at most `room` bytes between the quotes.
fn quoted(text: &str, room: usize) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        let start = out.len();
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            ' '..='~' => out.push(char),
            _ => {
                let _ = write!(out, "\\U{:08x}", u32::from(char));
            }
        }
        // The three dots that say that something is missing need their room as well.
        if out.len() > room + 1 - 3 {
            out.truncate(start);
            out.push_str("...");
            break;
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::read_exact_at;
    use crate::error::Error;
    use crate::format::{Defect, Facts};
    use crate::source::{Identity, Source};

    /// Blocks with the most awkward facts there can be.
    #[derive(Debug)]
    struct Awkward(Vec<Result<Block>>);

    fn block(compression: &str, number: u64) -> Result<Block> {
        let facts = Facts {
            offset: number,
            header_size: u16::MAX,
            flags: u32::MAX,
            compression: compression.to_owned(),
            allocated_size: number,
            used_size: number,
            data_size: number,
            checksum: "f".repeat(32),
        };
        Ok(Block { facts, content: Err(Error::unsupported("no")), streamed: false })
    }

    impl Container for Awkward {
        fn format(&self) -> &'static str {
            "awkward"
        }
        fn version(&self) -> String {
            "yes: \"no\"".to_owned()
        }
        fn tree(&self) -> Arc<dyn Content> {
            Arc::new(crate::content::Text::default())
        }
        fn block_count(&self) -> Result<usize> {
            Ok(self.0.len())
        }
        fn block(&self, n: usize) -> Result<Block> {
            self.0[n].clone()
        }
        fn verify(&self, _: usize) -> Result<Verified> {
            Ok(Verified::None)
        }
        fn tree_end(&self) -> u64 {
            0
        }
        fn defects(&self) -> Vec<Defect> {
            let severity = crate::format::Severity::Damage;
            vec![Defect { severity, offset: 7, block: Some(2), what: "it: is 'bad'\n".into() }; 1002]
        }
        fn source(&self) -> &Arc<dyn Source> {
            panic!("the views do not look at the source")
        }
        fn identity(&self) -> Identity {
            panic!("the views do not look at the source")
        }
    }

    fn awkward() -> Arc<Awkward> {
        let labels =
            ["", "zlib", "\"\\'", "yes", "\u{0}\u{1f600}\u{85}\u{2028}", &"é".repeat(99), &"x".repeat(99)];
        let mut blocks: Vec<_> = labels.iter().map(|label| block(label, u64::MAX)).collect();
        blocks.push(Err(Error::damaged("\"not\" there\n".repeat(50))));
        blocks.push(block("zlib", 0));
        Arc::new(Awkward(blocks))
    }

    #[test]
    fn rows_of_any_facts_are_as_long_as_promised_and_yaml() {
        let table = Table::new(awkward(), |n| (n == 1).then_some(Verified::Mismatch)).unwrap();
        let mut text = vec![0; table.len() as usize];
        read_exact_at(&table, 0, &mut text).unwrap();
        assert_eq!(text.len() as u64, 9 * WIDTH);
        for row in text.chunks(WIDTH as usize) {
            assert!(row.starts_with(b"- {block: ") && row.ends_with(b"}\n") && row.is_ascii());
        }
        let rows: serde_yaml::Value = serde_yaml::from_slice(&text).unwrap();
        assert_eq!(rows[2]["compression"].as_str(), Some("\"\\'"));
        assert_eq!(rows[3]["compression"].as_str(), Some("yes"));
        assert_eq!(rows[4]["compression"].as_str(), Some("\u{0}\u{1f600}\u{85}..."));
        assert_eq!(rows[0]["offset"].as_u64(), Some(u64::MAX));
        assert_eq!(rows[1]["verified"].as_str(), Some("mismatch"));
        assert_eq!(rows[0]["readable"].as_bool(), Some(false));
        assert!(rows[7]["error"].as_str().unwrap().starts_with("\"not\" there\n"));
    }

    #[test]
    fn any_range_is_that_of_the_whole() {
        let table = Table::new(awkward(), |_| None).unwrap();
        let mut whole = vec![0; table.len() as usize];
        read_exact_at(&table, 0, &mut whole).unwrap();
        for from in (0..whole.len() + 9).step_by(37) {
            for len in [0, 1, 383, 384, 385, 1000, 9999] {
                let mut part = vec![0; len];
                let read = table.read_at(from as u64, &mut part).unwrap();
                let end = (from + len).min(whole.len());
                assert_eq!(part[..read], whole[from.min(end)..end]);
            }
        }
        assert_eq!(table.read_at(u64::MAX, &mut [0; 4]).unwrap(), 0);
    }

    #[test]
    fn a_status_is_yaml_and_bounded() {
        let path = std::path::Path::new("/tmp/a: \"b\" #c\n.asdf");
        let text = crate::view::status::text(path, Ok(&*awkward()), 3, &["x: y".into()], &Default::default());
        let status: serde_yaml::Value = serde_yaml::from_slice(&text).unwrap();
        assert_eq!(status["source"].as_str(), path.to_str());
        assert_eq!(status["version"].as_str(), Some("yes: \"no\""));
        assert_eq!(status["defects"][999]["what"].as_str(), Some("it: is 'bad'\n"));
        assert_eq!(status["defects_not_listed"].as_u64(), Some(2));
        assert_eq!(status["troubles"][0].as_str(), Some("x: y"));
        let error = Error::damaged("gone");
        let text = crate::view::status::text(path, Err(&error), 0, &[], &Default::default());
        let status: serde_yaml::Value = serde_yaml::from_slice(&text).unwrap();
        assert_eq!((status["error"].as_str(), status["blocks"].as_u64()), (Some("gone"), None));
    }
}
