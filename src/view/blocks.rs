//! `blocks.yaml`: a row per block, generated on read.
//!
//! A row is a mapping over [`LINES`] lines of [`LINE`] bytes, padded with blanks before the last character of a
//! line, because tools remove or report blanks at the end. The first line has the facts that are looked for
//! most: the block's number and the arrays that use it. Rows have a fixed size. The size of the text thus
//! follows from the number of blocks, and a range of the text is made from the blocks of its rows alone. A
//! table of millions of blocks is never held in memory.
//!
//! ```text
//! - {block: 0, readable: true, arrays: [roman.data]                             ,
//!    data_size: 51200, used_size: 10234, compression: bzp2                      ,
//!    offset: 1121, allocated_size: 10234, header_size: 48                       ,
//!    flags: 0, verified: unknown, checksum: "c01bd54da2dfa4b9a8b0b1ee6ac4a3c4"  }
//! ```

use std::fmt::Write;
use std::sync::Arc;

use asdf_file::container::{ArrayPaths, Block, Container, FactValue, Facts, Verified};
use seekable::content::{Content, copy_from, is_printable};
use seekable::error::Result;

/// Bytes per line, including the line break.
const LINE: usize = 80;
/// Lines per row.
const LINES: usize = 4;
/// Bytes per row.
pub(crate) const WIDTH: u64 = (LINE * LINES) as u64;
/// An empty line, which is padded like all others.
const COMMENT: &str = "#";
/// Maximum characters of a word, and of a text in quotes.
const MAX_WORD: usize = 10;
const MAX_QUOTED: usize = 52;
/// Maximum characters of an error message.
const ERROR_SHOWN: usize = 64;

/// A callback that returns the known result of a block's checksum verification.
pub(crate) type KnownChecks = Arc<dyn Fn(usize) -> Option<Verified> + Send + Sync>;

/// The table of a container's blocks.
pub(crate) struct BlockTable {
    container: Arc<dyn Container>,
    rows: u64,
    known: KnownChecks,
}

impl std::fmt::Debug for BlockTable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("BlockTable").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl BlockTable {
    /// Creates the table of the blocks that exist now; `known` returns the verification result of a block's
    /// checksum.
    pub(crate) fn new(container: Arc<dyn Container>, known: KnownChecks) -> Result<Self> {
        let rows = size(container.block_count()?) / WIDTH;
        Ok(Self { container, rows, known })
    }
}

/// Text of a table without rows.
const EMPTY: &[u8] = b"[]\n";

/// Returns the size in bytes of a table of `blocks` blocks.
pub(crate) fn size(blocks: usize) -> u64 {
    if blocks == 0 {
        return EMPTY.len() as u64;
    }
    let rows = (blocks as u64).min(i64::MAX as u64 / WIDTH);
    rows * WIDTH
}

impl Content for BlockTable {
    fn len(&self) -> u64 {
        if self.rows == 0 { EMPTY.len() as u64 } else { self.rows * WIDTH }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if self.rows == 0 {
            return Ok(copy_from(EMPTY, offset, buf));
        }
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(done as u64);
            let n = at / WIDTH;
            let (Ok(index), true) = (usize::try_from(n), n < self.rows) else { break };
            let arrays = self.container.arrays()?;
            let block = match self.container.block(index) {
                Err(error) if error.is_of_reading() => return Err(error),
                block => block,
            };
            let row = row(index, &block, (self.known)(index), arrays);
            let from = row.as_bytes().get((at % WIDTH) as usize..).unwrap_or_default();
            let read = from.len().min(rest.len());
            rest[..read].copy_from_slice(&from[..read]);
            done += read;
        }
        Ok(done)
    }

    /// True at first: the first read scans the tree for arrays.
    fn is_slow(&self) -> bool {
        !self.container.knows_arrays()
    }
}

/// Returns row `n`.
fn row(n: usize, block: &Result<Block>, known: Option<Verified>, arrays: Option<&ArrayPaths>) -> String {
    let readable = block.as_ref().is_ok_and(|block| block.content.is_ok());
    let mut first = format!("- {{block: {n}, readable: {readable}, arrays: ");
    let room = LINE - first.len() - ",\n".len();
    first.push_str(&arrays_shown(n, arrays, room));
    first.push(',');
    let lines = match block {
        Ok(block) => of_facts(first.clone(), &block.facts, known),
        Err(error) => of_error(first.clone(), &error.message()),
    };
    filled(&lines).unwrap_or_else(|| {
        let fallback = of_error(first, "its sizes are larger than any file: see its attributes");
        filled(&fallback).unwrap_or_else(|| " ".repeat(LINE * LINES - 2) + COMMENT + "\n")
    })
}

fn of_facts(first: String, facts: &Facts, known: Option<Verified>) -> [String; LINES] {
    let verified = known.map_or("unknown", Verified::word);
    let comment = || COMMENT.to_owned();
    let mut lines = [first, comment(), comment(), comment()];
    let last = facts.iter().count();
    let mut shown = 0;
    for (n, group) in facts.groups.iter().take(LINES - 1).enumerate() {
        let mut line = String::from("  ");
        for fact in group {
            shown += 1;
            if shown == last {
                let _ = write!(line, " verified: {verified},");
            }
            let value = match &fact.value {
                FactValue::Word(text) => word(text, MAX_WORD),
                FactValue::Quoted(text) => quoted(text, MAX_QUOTED),
                number => number.to_string(),
            };
            let end = if shown == last { '}' } else { ',' };
            let _ = write!(line, " {}: {value}{end}", fact.key());
        }
        lines[n + 1] = line;
    }
    lines
}

fn of_error(first: String, error: &str) -> [String; LINES] {
    let error = format!("   error: {}}}", quoted(error, ERROR_SHOWN));
    [first, error, COMMENT.to_owned(), COMMENT.to_owned()]
}

/// Joins the lines into a row, padded with blanks; `None` if they are too long.
fn filled(lines: &[String; LINES]) -> Option<String> {
    let used = lines.iter().map(|line| line.len() + 1).sum();
    let mut blanks_left = (LINE * LINES).checked_sub(used)?;
    let mut row = String::with_capacity(LINE * LINES);
    for line in lines {
        let blanks = blanks_left.min((LINE - 1).saturating_sub(line.len()));
        blanks_left -= blanks;
        let end = line.char_indices().next_back().map_or(0, |(at, _)| at);
        let (line, last) = line.split_at(end);
        let _ = writeln!(row, "{line}{:blanks$}{last}", "");
    }
    Some(row)
}

/// Returns the paths of the arrays that use block `n`, as many as fit.
fn arrays_shown(n: usize, arrays: Option<&ArrayPaths>, room: usize) -> String {
    let Some(arrays) = arrays else { return "[]".to_owned() };
    let Some(paths) = arrays.found.get(&n).filter(|paths| !paths.is_empty()) else {
        return if arrays.complete { "[]" } else { "unknown" }.to_owned();
    };
    const MORE: &str = ", \"...\"";
    let room = room - "[]".len();
    let mut shown = String::new();
    for (at, path) in paths.iter().enumerate() {
        let more = if at + 1 < paths.len() { MORE.len() } else { 0 };
        let next = if shown.is_empty() {
            word_from_end(path, room - more)
        } else {
            format!(", {}", word(path, usize::MAX))
        };
        if shown.len() + next.len() + more > room {
            shown.push_str(MORE);
            break;
        }
        shown.push_str(&next);
    }
    format!("[{shown}]")
}

/// Returns `text` as a scalar of at most `room` bytes, omitting its beginning if it is too long.
fn word_from_end(text: &str, room: usize) -> String {
    let whole = word(text, usize::MAX);
    if whole.len() <= room {
        return whole;
    }
    let ends = text.char_indices().map(|(at, _)| quoted(&format!("...{}", &text[at..]), usize::MAX));
    ends.into_iter().find(|end| end.len() <= room).unwrap_or_else(|| "\"...\"".to_owned())
}

/// Returns `text` as a plain scalar if every YAML reader takes it for a string, otherwise in quotes.
fn word(text: &str, room: usize) -> String {
    const OTHERS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "unknown"];
    let plain = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.'))
        && !OTHERS.contains(&text.to_ascii_lowercase().as_str());
    if plain && text.len() <= room { text.to_owned() } else { quoted(text, room) }
}

/// Returns `text` as a double-quoted scalar of at most `room` bytes between the quotes.
fn quoted(text: &str, room: usize) -> String {
    let escaped = |char: char| match char {
        '"' | '\\' => format!("\\{char}"),
        ' '..='~' => char.to_string(),
        _ if is_printable(char) => char.to_string(),
        _ => match u32::from(char) {
            code @ ..=0xff => format!("\\x{code:02x}"),
            code @ ..=0xffff => format!("\\u{code:04x}"),
            code => format!("\\U{code:08x}"),
        },
    };
    let mut out = String::from("\"");
    let whole: usize = text.chars().map(|char| escaped(char).len()).sum();
    for char in text.chars().map(escaped) {
        // Leaves room for the three dots that mark an omission.
        if whole > room && out.len() + char.len() > room + 1 - 3 {
            out.push_str("...");
            break;
        }
        out.push_str(&char);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::status::{Status, Writing};
    use asdf_file::container::{Defect, Fact, Views};
    use seekable::content::read_exact_at;
    use seekable::error::Error;
    use seekable::source::{Source, SourceStat};

    /// Blocks with the most awkward facts.
    #[derive(Debug)]
    struct Awkward(Vec<Result<Block>>);

    fn facts(compression: &str, number: u64, (header_size, flags): (u16, u32)) -> Facts {
        let compression = FactValue::Word(compression.to_owned());
        let checksum = FactValue::Quoted("f".repeat(32));
        let groups = vec![
            vec![
                Fact::size("user.awkward.data_size", number),
                Fact::size("user.awkward.used_size", number),
                Fact { name: "user.awkward.compression", value: compression },
            ],
            vec![
                Fact::number("user.awkward.offset", number),
                Fact::size("user.awkward.allocated_size", number),
                Fact::number("user.awkward.header_size", header_size),
            ],
            vec![
                Fact::number("user.awkward.flags", flags),
                Fact { name: "user.awkward.checksum", value: checksum },
            ],
        ];
        Facts { offset: number, data_size: number, groups }
    }

    fn block(compression: &str, number: u64) -> Result<Block> {
        let facts = facts(compression, number, (u16::MAX, u32::MAX));
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
            Arc::new(seekable::content::Text::default())
        }
        fn block_count(&self) -> Result<usize> {
            Ok(self.0.len())
        }
        fn block(&self, n: usize) -> Result<Block> {
            self.0[n].clone()
        }
        fn block_before(&self, _: u64) -> Result<Option<usize>> {
            Ok(None)
        }
        fn verify(&self, _: usize) -> Result<Verified> {
            Ok(Verified::None)
        }
        fn defects(&self) -> Vec<Defect> {
            let severity = asdf_file::container::Severity::Damage;
            vec![Defect { severity, offset: 7, block: Some(2), what: "it: is 'bad'\n".into() }; 1002]
        }
        fn source(&self) -> &Arc<dyn Source> {
            panic!("the views do not look at the source")
        }
        fn source_stat(&self) -> SourceStat {
            panic!("the views do not look at the source")
        }
    }

    impl Views for Awkward {}

    fn awkward() -> Arc<Awkward> {
        let labels =
            ["", "zlib", "\"\\'", "yes", "\u{0}\u{1f600}\u{85}\u{2028}", &"é".repeat(99), &"x".repeat(99)];
        let mut blocks: Vec<_> = labels.iter().map(|label| block(label, 9_999_999_999_999)).collect();
        blocks.push(Err(Error::damaged("\"not\" there\n".repeat(50))));
        blocks.push(block("zlib", 0));
        blocks.push(block("zlib", u64::MAX));
        Arc::new(Awkward(blocks))
    }

    #[test]
    fn rows_of_any_facts_are_as_long_as_promised_and_yaml() {
        let table = BlockTable::new(awkward(), Arc::new(|n| (n == 1).then_some(Verified::Mismatch))).unwrap();
        let mut text = vec![0; table.len() as usize];
        read_exact_at(&table, 0, &mut text).unwrap();
        assert_eq!(text.len() as u64, 10 * WIDTH);
        for row in text.chunks(WIDTH as usize) {
            assert!(row.starts_with(b"- {block: "));
            assert!(row.ends_with(b"}\n") || row.ends_with(b"#\n"));
        }
        assert!(!String::from_utf8(text.clone()).unwrap().lines().any(|line| line.ends_with(' ')));
        let rows: serde_yaml::Value = serde_yaml::from_slice(&text).unwrap();
        assert_eq!(rows[2]["compression"].as_str(), Some("\"\\'"));
        assert_eq!(rows[3]["compression"].as_str(), Some("yes"));
        assert_eq!(rows[4]["compression"].as_str(), Some("\0..."));
        assert_eq!(rows[5]["compression"].as_str(), Some("ééé..."));
        assert_eq!(rows[0]["offset"].as_u64(), Some(9_999_999_999_999));
        assert_eq!(rows[7]["offset"].as_u64(), None);
        assert_eq!(rows[9]["offset"].as_u64(), Some(u64::MAX));
        assert_eq!(rows[1]["verified"].as_str(), Some("mismatch"));
        assert_eq!(rows[0]["readable"].as_bool(), Some(false));
        assert!(rows[7]["error"].as_str().unwrap().starts_with("\"not\" there\n"));
    }

    #[test]
    fn lines_fit_a_terminal() {
        let table = BlockTable::new(awkward(), Arc::new(|_| Some(Verified::Mismatch))).unwrap();
        let mut text = vec![0; table.len() as usize];
        read_exact_at(&table, 0, &mut text).unwrap();
        for line in text.split(|byte| *byte == b'\n') {
            // A sound file has no flags of ten digits.
            assert!(line.trim_ascii_end().len() <= 90, "{}", String::from_utf8_lossy(line));
        }
        let facts = facts("bzp2", 9_999_999_999_999, (48, 1));
        let paths = vec!["a".repeat(30), "b".repeat(30)];
        let arrays = ArrayPaths { found: [(16_000_000, paths)].into(), complete: true };
        let content = Err(Error::unsupported("no"));
        let block = Ok(Block { facts, content, streamed: false });
        let row = row(16_000_000, &block, Some(Verified::Mismatch), Some(&arrays));
        assert!(row.lines().all(|line| line.len() == 79), "{row}");
        let absurd = super::row(16_000_000, &super::tests::block("zlib", u64::MAX), None, Some(&arrays));
        assert!(
            absurd.contains("its sizes are larger than any file: see its attributes")
                && absurd.len() == WIDTH as usize,
            "{absurd}"
        );
    }

    #[test]
    fn arrays_are_shown_as_far_as_there_is_room_and_are_yaml() {
        let paths = |paths: &[&str]| ArrayPaths {
            found: [(0, paths.iter().map(ToString::to_string).collect())].into(),
            complete: false,
        };
        let long = "x".repeat(50);
        for (arrays, shown) in [
            (paths(&["roman.data"]), "[roman.data]"),
            (paths(&["roman.data", "roman.err"]), "[roman.data, roman.err]"),
            (paths(&["a", "b", "roman.data.and.so.on.more"]), "[a, b, \"...\"]"),
            (paths(&["yes", "1", "a b", "\""]), "[\"yes\", \"1\", \"a b\", \"\\\"\"]"),
            (paths(&["für", "\u{85}\u{2028}"]), "[\"für\", \"\\x85\\u2028\"]"),
            (paths(&["20 °C", "ü", "😀"]), "[\"20 °C\", \"ü\", \"😀\"]"),
            (paths(&[&long, "b"]), "[\"...xxxxxxxxxxxxxxx\", b]"),
            (paths(&[]), "unknown"),
            (ArrayPaths { complete: true, ..paths(&[]) }, "[]"),
        ] {
            let text = arrays_shown(0, Some(&arrays), 29);
            assert_eq!(text, shown);
            assert!(text.len() <= 29, "{text}");
            assert!(serde_yaml::from_str::<serde_yaml::Value>(&text).is_ok(), "{text}");
        }
        assert_eq!(arrays_shown(0, None, 29), "[]");
    }

    #[test]
    fn any_range_is_that_of_the_whole() {
        let table = BlockTable::new(awkward(), Arc::new(|_| None)).unwrap();
        let mut whole = vec![0; table.len() as usize];
        read_exact_at(&table, 0, &mut whole).unwrap();
        for from in (0..whole.len() + 9).step_by(37) {
            for len in [0, 1, 319, 320, 321, 1000, 9999] {
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
        let errors = ["x: y".into()];
        let writing = Writing::default();
        let text = Status::new(path, 3, &errors, &writing).with_container(Ok(&*awkward())).text();
        let status: serde_yaml::Value = serde_yaml::from_slice(&text).unwrap();
        assert_eq!(status["source"].as_str(), path.to_str());
        assert_eq!(status["version"].as_str(), Some("yes: \"no\""));
        assert_eq!(status["defects"][999]["what"].as_str(), Some("it: is 'bad'\n"));
        assert_eq!(status["defects_not_listed"].as_u64(), Some(2));
        assert_eq!(status["errors"][0].as_str(), Some("x: y"));
        let error = Error::damaged("gone");
        let text = Status::new(path, 0, &[], &writing).with_container(Err(&error)).text();
        let status: serde_yaml::Value = serde_yaml::from_slice(&text).unwrap();
        assert_eq!((status["error"].as_str(), status["blocks"].as_u64()), (Some("gone"), None));
    }
}
