//! The head of a file: header line, comments, tree. `tree.yaml` shows it.
//!
//! The header line is `#ASDF 1.0.0` (`%ASDF 0.1.0` in 2014). Lines that begin with `#` may follow, then the
//! tree, which ends with the first line `...`. Both may be missing. (ASDF standard, *Low-level file layout*,
//! Header, Comments, Tree.) The bytes between the head and the first block are padding.

use memchr::memmem;
use seekable::error::Result;
use seekable::source::{Source, read_up_to};

use super::defect::{AsdfDefect, TreeCut};
use super::header::Generation;
use crate::container;

/// A tree is read up to here, as many bytes as a server sends with the first request, then in pieces of [`PIECE`].
const SECOND_PIECE_END: usize = 256 << 10;
/// Bytes read at once, up to the next multiple of this: the tree of 10 000 arrays takes two requests.
const PIECE: usize = 1 << 20;
/// Bytes of the first read: most trees are short.
const FIRST_PIECE: usize = 16 << 10;
/// Maximum length of a header line that is read. A usual one has a dozen bytes.
const MAX_HEADER_LINE: usize = 1 << 10;
/// Maximum length of a tree that is read: a bound on the cost of a file without any `...`.
pub(crate) const MAX_TREE: u64 = 4 << 30;

/// The format's name.
pub const NAME: &str = "asdf";

/// True if a file that begins with `head` is an ASDF file.
pub fn recognises(head: &[u8]) -> bool {
    (head.starts_with(b"#ASDF") || head.starts_with(b"%ASDF"))
        && head.get(5).is_none_or(u8::is_ascii_whitespace)
}

/// The head of an ASDF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The specification that the file follows.
    pub generation: Generation,
    /// The version of the header line, as written: `1.0.0`.
    pub version: String,
    /// The offset of the end of the tree's text.
    pub end: u64,
    /// The defects of the head.
    pub defects: Vec<container::Defect>,
}

impl Head {
    /// Creates a head without defects, for callers that need only its generation and its end.
    pub(crate) fn known(generation: Generation, end: u64) -> Self {
        Self { generation, version: String::new(), end, defects: Vec::new() }
    }
}

/// Reads the head. `source` is known to begin with `#ASDF` or `%ASDF`.
pub(crate) fn read(source: &dyn Source) -> Result<Head> {
    let mut line = vec![0; MAX_HEADER_LINE];
    let read = read_up_to(source, 0, &mut line)?;
    line.truncate(read);
    let line_end = memchr::memchr(b'\n', &line).map(|at| at + 1);
    let line = &line[..line_end.unwrap_or(line.len())];

    let generation = generation(line, &version_word(line));
    // A line without an end would include bytes that are not text.
    let end = binary_byte(line, generation).unwrap_or(line.len());
    let line_end = line_end.filter(|line_end| *line_end == end);
    let version = version_word(&line[..end]);
    let mut head = Head { generation, version, end: end as u64, defects: Vec::new() };
    if let Some(defect) = version_defect(&head) {
        head.note(0, &defect);
    }
    if line_end.is_none() {
        head.note(0, &AsdfDefect::EndlessHeaderLine);
        return Ok(head);
    }
    let mut scan = Scan {
        source,
        generation: head.generation,
        at: head.end,
        piece: Vec::new(),
        start: 0,
        at_end_of_file: false,
    };
    let whole = scan.comments()?;
    head.end = scan.at;
    if !whole {
        head.note(scan.at, &AsdfDefect::EndlessComment);
    } else if scan.tree_follows()? {
        let start = scan.at;
        match scan.tree_end()? {
            TreeEnd::Line(tree_end) => head.end = tree_end,
            TreeEnd::Cut(tree_end, cut) => {
                head.end = tree_end;
                head.note(start, &AsdfDefect::EndlessTree(cut));
            }
        }
    }
    Ok(head)
}

impl Head {
    fn note(&mut self, offset: u64, defect: &AsdfDefect) {
        self.defects.push(defect.at(offset, None));
    }
}

fn version_word(line: &[u8]) -> String {
    let rest = line.get(b"#ASDF".len()..).unwrap_or_default();
    String::from_utf8_lossy(rest).split_whitespace().next().unwrap_or_default().to_owned()
}

fn generation(line: &[u8], version: &str) -> Generation {
    match version.split('.').next() {
        _ if line.starts_with(b"%") => Generation::Draft,
        Some("0") => Generation::Zero,
        _ => Generation::One,
    }
}

fn version_defect(head: &Head) -> Option<AsdfDefect> {
    let version = &head.version;
    let numbers: Vec<Option<u32>> = version.split('.').map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [Some(0 | 1), Some(_), Some(_)] => None,
        [Some(_), Some(_), Some(_)] => Some(AsdfDefect::NewerVersion(version.clone())),
        _ => Some(AsdfDefect::NoVersion(version.clone())),
    }
}

enum TreeEnd {
    /// The offset after the line `...`.
    Line(u64),
    /// The offset of the first byte that can't be part of a tree.
    Cut(u64, TreeCut),
}

/// A scan of the head in pieces.
struct Scan<'a> {
    source: &'a dyn Source,
    generation: Generation,
    /// The current offset.
    at: u64,
    piece: Vec<u8>,
    start: u64,
    /// True if the piece is the file's last.
    at_end_of_file: bool,
}

impl Scan<'_> {
    /// Returns the bytes from `offset` on, at least `least` of them unless the file ends.
    fn from(&mut self, offset: u64, least: usize) -> Result<&[u8]> {
        let end = self.start + self.piece.len() as u64;
        let missing = offset.saturating_add(least as u64) > end && !(self.at_end_of_file && offset <= end);
        if offset < self.start || missing {
            self.piece.resize(FIRST_PIECE.max(least), 0);
            let read = read_up_to(self.source, offset, &mut self.piece)?;
            self.at_end_of_file = read < self.piece.len();
            self.piece.truncate(read);
            self.start = offset;
        }
        Ok(self.piece.get((offset - self.start) as usize..).unwrap_or_default())
    }

    /// Skips lines that begin with `#`. Returns false if the last of them has no end.
    fn comments(&mut self) -> Result<bool> {
        loop {
            let at = self.at;
            let line_start = self.from(at, super::index::MARKER.len())?;
            if line_start.first() != Some(&b'#') || line_start.starts_with(super::index::MARKER) {
                return Ok(true);
            }
            let generation = self.generation;
            let mut next = at;
            self.at = loop {
                // A magic may span two pieces, so at least its four bytes are read.
                let bytes = self.from(next, 4)?;
                let end = memchr::memchr(b'\n', bytes);
                let line = &bytes[..end.unwrap_or(bytes.len())];
                match (binary_byte(line, generation), end) {
                    (Some(binary), _) => {
                        self.at = next + binary as u64;
                        return Ok(false);
                    }
                    (None, Some(end)) => break next + end as u64 + 1,
                    (None, None) if bytes.len() < 4 => {
                        self.at = next + bytes.len() as u64;
                        return Ok(false);
                    }
                    (None, None) => next += bytes.len() as u64 - 3,
                }
            };
        }
    }

    /// True if text follows, rather than padding, a block or the end of the file.
    fn tree_follows(&mut self) -> Result<bool> {
        let at = self.at;
        let generation = self.generation;
        let bytes = self.from(at, 4)?;
        let padding = matches!(bytes.first(), None | Some(b' ' | 0));
        Ok(!padding && !generation.is_magic(bytes) && !bytes.starts_with(b"#"))
    }

    /// Finds the first line `...` from the current offset on.
    fn tree_end(&mut self) -> Result<TreeEnd> {
        let finder = memmem::Finder::new(b"\n...");
        // The line `...` may be the first of the tree: the newline before it belongs to the comments.
        let mut from = self.at.saturating_sub(1);
        let limit = self.at.saturating_add(MAX_TREE);
        let mut least = FIRST_PIECE;
        loop {
            let generation = self.generation;
            let bytes = self.from(from, least)?;
            let binary = binary_byte(bytes, generation);
            let text = &bytes[..binary.unwrap_or(bytes.len())];
            let mut looked = 0;
            while let Some(found) = finder.find(&text[looked..]) {
                let after = looked + found + 4;
                match &text[after..] {
                    [b'\n', ..] => return Ok(TreeEnd::Line(from + after as u64 + 1)),
                    [b'\r', b'\n', ..] => return Ok(TreeEnd::Line(from + after as u64 + 2)),
                    // The match is at the end of the piece: try again with a longer piece.
                    [] | [b'\r'] if binary.is_none() => break,
                    _ => looked += found + 1,
                }
            }
            if let Some(at) = binary {
                return Ok(TreeEnd::Cut(from + at as u64, TreeCut::Binary));
            }
            let end = from + text.len() as u64;
            if self.at_end_of_file {
                return self.tree_at_end_of_file(end);
            }
            if end > limit {
                return Ok(TreeEnd::Cut(end, TreeCut::TooLong));
            }
            // `\n...\r\n` may span two pieces.
            from = end.saturating_sub(5).max(from + 1);
            let border = if end < SECOND_PIECE_END as u64 { SECOND_PIECE_END } else { PIECE };
            least = (end - from) as usize + border - end as usize % border;
        }
    }

    /// Handles a file that ends within the tree, or right after `...` without a newline.
    fn tree_at_end_of_file(&mut self, end: u64) -> Result<TreeEnd> {
        let tail_start = end.saturating_sub(5).max(self.at.saturating_sub(1));
        let mut tail = [0; 5];
        let read = read_up_to(self.source, tail_start, &mut tail)?;
        let tail = &tail[..read];
        if tail.ends_with(b"\n...") || tail.ends_with(b"\n...\r") {
            return Ok(TreeEnd::Line(end));
        }
        Ok(TreeEnd::Cut(end, TreeCut::EndOfFile))
    }
}

/// Returns the position of the first byte that can't be in a tree: the magic of a block, or a zero byte.
fn binary_byte(bytes: &[u8], generation: Generation) -> Option<usize> {
    let zero = memchr::memchr(0, bytes);
    let before = &bytes[..zero.unwrap_or(bytes.len())];
    generation.find_magic(before).or(zero)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::Severity;
    use seekable::source::MemorySource;

    fn head(bytes: &[u8]) -> Head {
        read(&MemorySource(bytes.to_vec())).unwrap()
    }

    /// Checks that the head ends with `text`.
    fn ends_at(text: &[u8], rest: &[u8]) -> Head {
        let head = head(&[text, rest].concat());
        assert_eq!(head.end, text.len() as u64, "{}", text.escape_ascii());
        head
    }

    #[test]
    fn the_tree_ends_with_its_dots() {
        for text in [
            &b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n--- {a: 1}\n...\n"[..],
            b"#ASDF 1.0.0\r\n%YAML 1.1\r\n---\r\na: 1\r\n...\r\n",
            b"#ASDF 1.0.0\n# a comment\n#\n%YAML 1.1\n---\na: ...\n ...\n....\n... x\n...\n",
            b"%ASDF 0.1.0\n%YAML 1.1\n---\na: 1\n...\n",
            b"#ASDF 1.0.0\n...\n",
            b"#ASDF 1.0.0\n",
            b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n",
        ] {
            for rest in
                [&b""[..], b"    \n...\n", b"\0\0\0", b"\xd3BLK\0\x30", b"#ASDF BLOCK INDEX\n--- [1]\n...\n"]
            {
                if text.ends_with(b"...\n") || text.ends_with(b"...\r\n") || !rest.starts_with(b" ") {
                    assert_eq!(ends_at(text, rest).defects, [], "{}", text.escape_ascii());
                }
            }
        }
        assert_eq!(ends_at(b"#ASDF 1.0.0\n%YAML 1.1\n---\n...", b"").defects, []);
    }

    #[test]
    fn a_comment_without_end_is_damage_and_takes_no_binary_data_in() {
        for (text, rest) in [
            (&b"#ASDF 1.0.0\n#ASDF_STAND"[..], &b""[..]),
            (b"#ASDF 1.0.0\n#", b""),
            (b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0", b"\xd3BLK\0\x30\0\n\0\n...\n"),
            (b"#ASDF 1.0.0\n# x", b"\0\0\n...\n"),
            (b"#ASDF 1.0.0\r#\r", b"\xd3BLK\0\x30\0\n\0\n...\n"),
            (b"#ASDF 1.0.0", b"\0\0\n...\n"),
        ] {
            let head = ends_at(text, rest);
            assert_eq!(head.defects.len(), 1, "{}", text.escape_ascii());
            assert_eq!(head.defects[0].severity, Severity::Damage);
        }
        // A long comment. Its end, or a magic after it, spans two pieces.
        for len in FIRST_PIECE - 20..FIRST_PIECE + 3 {
            let comment = [&b"#ASDF 1.0.0\n#"[..], &vec![b'x'; len]].concat();
            assert_eq!(ends_at(&[&comment[..], b"\n"].concat(), b"\xd3BLK\0\x30").defects, []);
            assert_eq!(ends_at(&comment, b"\xd3BLK\0\x30").defects.len(), 1);
        }
    }

    #[test]
    fn a_tree_without_end_reaches_to_what_can_not_be_tree() {
        let text = b"#ASDF 1.0.0\n%YAML 1.1\n---\na: 1\n";
        for rest in [&b""[..], b"\xd3BLK\0\x30", b"\0\0\xd3BLK"] {
            let head = ends_at(text, rest);
            assert_eq!(head.defects.len(), 1);
            assert_eq!(head.defects[0].severity, Severity::Damage);
        }
    }

    #[test]
    fn the_end_is_found_across_the_borders_of_pieces() {
        let around = |len: usize| len - 8..len + 3;
        for len in around(SECOND_PIECE_END).chain(around(PIECE)).chain([3 * PIECE - 7]) {
            for end in ["\n...\n", "\n...\r\n", "\n..."] {
                let mut text = b"#ASDF 1.0.0\n%YAML 1.1\n---\n#".to_vec();
                text.resize(len, b'x');
                text.extend(end.as_bytes());
                assert_eq!(ends_at(&text, if end == "\n..." { b"" } else { b"   " }).defects, []);
            }
        }
    }

    #[test]
    fn odd_header_lines_are_told() {
        for line in ["#ASDF\n", "#ASDF one\n", "#ASDF 2.0.0\n", "#ASDF 1.0\n"] {
            assert_eq!(head(line.as_bytes()).defects.len(), 1, "{line}");
        }
        assert_eq!(head(b"#ASDF 1.0").defects.len(), 2);
        assert_eq!(head(b"%ASDF 0.1.0\n").generation, Generation::Draft);
        assert_eq!(head(b"#ASDF 0.1.0\n").generation, Generation::Zero);
    }
}
