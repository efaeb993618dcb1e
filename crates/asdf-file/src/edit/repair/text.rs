//! The text of a repaired head: a valid tree, and comments about what is lost.

use std::collections::BTreeMap;

use asdf_tree::yaml::document::{Document, Id, Kind as NodeKind, NodePlace};
use asdf_tree::yaml::survey::{self, TreeNode, nodes};
use memchr::memrchr;
use seekable::content::Borrowed;
use seekable::error::{Kind, Result, one_line};

use crate::asdf::ndarray::{self, Ndarray, Source};

/// The header line if that of the file has no end, or not the version of the layout.
const HEADER: &[u8] = b"#ASDF 1.0.0\n";
/// The start of a tree. Python asdf takes everything up to it for comments.
const DIRECTIVE: &[u8] = b"%YAML";

/// A text that is being mended.
#[derive(Debug)]
pub(super) struct HeadText {
    /// The text: header line, comments, and a valid tree or none.
    pub(super) text: Vec<u8>,
    /// The end of the header line and the comments.
    tree_from: usize,
    /// Number of lines that are comments now, as the tree is not valid with them.
    pub(super) lost_lines: usize,
    /// Number of replacement characters for bytes that are no text.
    pub(super) not_text: usize,
    /// True if the tree did not begin as other readers need it.
    pub(super) has_new_start: bool,
}

/// The blocks that arrays of a tree name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NamedBlocks {
    /// The number of blocks that must be there.
    pub(super) count: u64,
    /// The largest number that counts blocks from the end; 0 if none does.
    pub(super) from_end: u64,
}

impl HeadText {
    /// Mends a text.
    pub(super) fn mend(text: Vec<u8>) -> Result<Self> {
        let mut not_text = 0;
        let is_sound = is_valid(&text)?;
        let text = if is_sound { text } else { readable(&text, &mut not_text) };
        let line_end = memchr::memchr(b'\n', &text).map_or(text.len(), |at| at + 1);
        let mut tree_from = line_end;
        while text.get(tree_from) == Some(&b'#') {
            let len = memchr::memchr(b'\n', &text[tree_from..]);
            tree_from = len.map_or(text.len(), |len| tree_from + len + 1);
        }
        let line = if has_version(&text[..line_end]) { &text[..line_end] } else { HEADER };
        let mut mended = [line, &text[line_end..tree_from]].concat();
        if !mended.ends_with(b"\n") {
            mended.push(b'\n');
        }
        let mut mended =
            Self { tree_from: mended.len(), text: mended, lost_lines: 0, not_text, has_new_start: false };
        let mut tree = &text[tree_from..];
        if tree.starts_with(DIRECTIVE) {
            mended.add_tree(tree, is_sound)?;
            return Ok(mended);
        }
        if tree.starts_with(b"%") && !tree.starts_with(b"%TAG") {
            tree = memchr::memchr(b'\n', tree).map_or(&[], |end| &tree[end + 1..]);
        }
        if !tree.is_empty() {
            mended.has_new_start = true;
            let is_begun = tree.starts_with(b"---") || tree.starts_with(b"%");
            mended.text.extend(DIRECTIVE);
            mended.text.extend(if is_begun { &b" 1.1\n"[..] } else { b" 1.1\n---\n" });
            mended.add_tree(tree, false)?;
        }
        Ok(mended)
    }

    /// Adds the tree up to the last line with which it is valid, and all other lines as comments.
    fn add_tree(&mut self, tree: &[u8], is_sound: bool) -> Result<()> {
        self.text.extend(tree);
        let is_ended =
            [&b"\n..."[..], b"\n...\r", b"\n...\n", b"\n...\r\n"].iter().any(|end| self.text.ends_with(end));
        if is_ended && (is_sound || is_valid(&self.text)?) {
            if !self.text.ends_with(b"\n") {
                self.text.push(b'\n');
            }
            return Ok(());
        }
        let mut end = self.text.len();
        let mut is_tree = false;
        let mut lines = 1;
        while end > self.tree_from {
            end = start_of_open_part(&self.text[..end])?;
            is_tree = end > self.tree_from && has_mapping(&[&self.text[..end], b"...\n"].concat())?;
            if is_tree {
                break;
            }
            for _ in 0..lines {
                end = line_start(&self.text, end.saturating_sub(1));
            }
            // So that a long tree is not read too often.
            lines *= 2;
        }
        let lost = self.text.split_off(if is_tree { end } else { self.tree_from });
        for line in String::from_utf8_lossy(&lost).lines().filter(|line| *line != "...") {
            let line = line.replace(['\r', '\u{85}', '\u{2028}', '\u{2029}'], "?").replace("%YAML", "% YAML");
            self.text.extend(format!("# {line}\n").bytes());
            self.lost_lines += 1;
        }
        if is_tree {
            self.text.extend(b"...\n");
        }
        Ok(())
    }

    /// Calls `take` with each array in a block, its path and its node.
    pub(super) fn each_array(&self, take: &mut dyn FnMut(String, &TreeNode, &Ndarray)) -> Result<()> {
        let document = Document::read(&Borrowed(&self.text))?;
        let found = nodes::survey(&document, ndarray::WANTED, &mut |paths, found| {
            if let Some(tag) = found.tag.filter(|tag| ndarray::is_tag(tag))
                && let Ok((array, _)) = Ndarray::read_leniently(tag, found.value)
            {
                take(paths.show(found.path), found.value, &array);
            }
        });
        Ok(found.map(drop)?)
    }

    /// Returns the blocks that the arrays name.
    pub(super) fn named_blocks(&self) -> Result<NamedBlocks> {
        let mut named = NamedBlocks::default();
        self.each_array(&mut |_, _, array| match array.source {
            Source::Block(n @ 0..) => named.count = named.count.max(n.unsigned_abs() + 1),
            Source::Block(n) => named.from_end = named.from_end.max(n.unsigned_abs()),
            _ => {}
        })?;
        Ok(named)
    }

    /// Shortens each array that needs more bytes than its block has, if the block is one of `cut`, to as many rows as are
    /// there. `count` is the number of blocks; `cut` has the sizes of blocks by their numbers. Returns the number of the
    /// block and a text for each array.
    pub(super) fn shorten(
        &mut self,
        cut: &BTreeMap<usize, u64>,
        count: usize,
    ) -> Result<Vec<(usize, String)>> {
        let mut changes = BTreeMap::new();
        let mut told = Vec::new();
        self.each_array(&mut |path, node, array| {
            if let Some(n) = array.source.block(count)
                && let Some((rows, all)) = cut.get(&n).and_then(|size| rows_in(array, *size))
                && let Some(first) = node.get("shape").and_then(TreeNode::items).and_then(<[_]>::first)
                // The shape is not that of another array, for which an alias stands here.
                && first.place.offset > node.place.offset
                && let Ok(at) = usize::try_from(first.place.offset)
                && self.text.get(at..).is_some_and(|text| text.starts_with(all.to_string().as_bytes()))
            {
                changes.insert(at, (all.to_string().len(), rows.to_string()));
                told.push((n, format!("{path} has {rows} of {all} rows")));
            }
        })?;
        for (at, (len, rows)) in changes.into_iter().rev() {
            self.text.splice(at..at + len, rows.into_bytes());
        }
        Ok(told)
    }

    /// Adds comments before the tree.
    pub(super) fn note(&mut self, notes: &[String]) {
        let lines: String =
            notes.iter().map(|note| format!("# asdf-mount --repair: {}\n", one_line(note))).collect();
        self.text.splice(self.tree_from..self.tree_from, lines.into_bytes());
    }
}

/// Returns the start of the first line that can't be part of a valid tree: that of the fault, or, if there the value of
/// a key has a tag or is written in brackets, that of the key. Without a part of it, readers can't read such a value.
fn start_of_open_part(text: &[u8]) -> Result<usize> {
    let document = Document::read(&Borrowed(text))?;
    let mut end = text.len();
    let fault = survey::whole(&document).err().map(seekable::error::Error::from);
    if let Some(at) = fault.and_then(|fault| fault.offset()).and_then(|at| usize::try_from(at).ok()) {
        end = end.min(at);
    }
    let mut at = document.all().last();
    while let Some(id) = at.filter(|id| document.place(*id) != NodePlace::Root) {
        if document.tag(id).is_some() || document.is_flow(id) {
            end = end.min(start_of_key(&document, id));
        }
        at = document.parent(id);
    }
    Ok(line_start(text, end))
}

/// Returns a text with a replacement character for all that is no text.
fn readable(text: &[u8], replaced: &mut usize) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut readable = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let is_text = match char {
            '\t' | '\n' => true,
            // Alone, it ends a line for some readers, and a comment for them.
            '\r' => chars.peek() == Some(&'\n'),
            char::REPLACEMENT_CHARACTER..='\u{ffff}' => false,
            _ => !char.is_control(),
        };
        *replaced += usize::from(!is_text);
        readable.push(if is_text { char } else { char::REPLACEMENT_CHARACTER });
    }
    readable.into_bytes()
}

/// Returns the number of rows of an array that a block of `size` bytes holds, and the number of all; `None` if it holds all,
/// or none.
fn rows_in(array: &Ndarray, size: u64) -> Option<(u64, u64)> {
    let all = array.shape.as_ref().filter(|shape| !shape.streamed)?.dimensions.first().copied()?;
    let mut shorter = array.clone();
    let mut fits = |rows: u64| {
        if let Some(first) = shorter.shape.as_mut().and_then(|shape| shape.dimensions.first_mut()) {
            *first = rows;
        }
        shorter.extent(size).is_some_and(|extent| extent.is_ok())
    };
    if fits(all) {
        return None;
    }
    let mut rows = 0;
    let mut end = all;
    while end - rows > 1 {
        let middle = rows + (end - rows) / 2;
        if fits(middle) {
            rows = middle;
        } else {
            end = middle;
        }
    }
    (rows > 0).then_some((rows, all))
}

/// True if a header line has a version 1.x.y.
fn has_version(line: &[u8]) -> bool {
    let version = line.get(6..).unwrap_or_default().trim_ascii().split(|byte| *byte == b'.');
    let numbers: Vec<&[u8]> = version.collect();
    numbers.len() == 3
        && numbers[0] == b"1"
        && numbers.iter().all(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// Returns the offset of the key under which a node stands, or under which the sequences stand that have it as an item.
fn start_of_key(document: &Document, id: Id) -> usize {
    let mut at = id;
    let start = loop {
        match (document.place(at), document.parent(at)) {
            (NodePlace::Value(key), _) => break key,
            (NodePlace::Item(_), Some(parent)) => at = parent,
            _ => break at,
        }
    };
    usize::try_from(document.offset(start)).unwrap_or(usize::MAX)
}

fn line_start(text: &[u8], at: usize) -> usize {
    memrchr(b'\n', &text[..at.min(text.len())]).map_or(0, |newline| newline + 1)
}

/// True if the tree of a text is valid, or too complex to be checked.
fn is_valid(text: &[u8]) -> Result<bool> {
    let document = Document::read(&Borrowed(text))?;
    let checked = survey::whole(&document).map_err(seekable::error::Error::from);
    match checked.and_then(|()| survey::check_tree(&document)) {
        Ok(()) => Ok(true),
        Err(error) if error.is_of_reading() => Err(error),
        Err(error) => Ok(error.kind() == Kind::Unsupported),
    }
}

/// True if the tree of a text is valid, and is a mapping.
fn has_mapping(text: &[u8]) -> Result<bool> {
    let document = Document::read(&Borrowed(text))?;
    let is_mapping = document.root().is_some_and(|root| document.kind(root) == NodeKind::Mapping);
    Ok(is_mapping && is_valid(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n";

    fn mended(text: &str) -> (String, HeadText) {
        let head = HeadText::mend(text.as_bytes().to_vec()).unwrap();
        (String::from_utf8(head.text.clone()).unwrap(), head)
    }

    #[test]
    fn a_tree_is_kept_up_to_its_damage_and_the_rest_as_comments() {
        for (tree, kept, rest) in [
            ("a: 1\nb: 2\nc: 3", "a: 1\nb: 2\n", "# c: 3\n"),
            ("a: 1\nb: [1,\n 2", "a: 1\n", "# b: [1,\n#  2\n"),
            (
                "a: 1\nb: !core/x-1.0.0\n  c: 1\n  d: 2\n",
                "a: 1\n",
                "# b: !core/x-1.0.0\n#   c: 1\n#   d: 2\n",
            ),
            (
                "a: 1\nb:\n- !core/x-1.0.0\n  c: 1\n- !core/x-1.0.0\n  c: 2\n",
                "a: 1\n",
                "# b:\n# - !core/x-1.0.0\n#   c: 1\n# - !core/x-1.0.0\n#   c: 2\n",
            ),
            ("a: 1\nb: *c\nd: 4\n...\n", "a: 1\n", "# b: *c\n# d: 4\n"),
            ("a: 1\nb: 'x\nc: 3\n...\n", "a: 1\n", "# b: 'x\n# c: 3\n"),
            (
                "a: 1\nb: !core/x-1.0.0\n  c: 1\n  d: 2\ne: ?\n...\n",
                "a: 1\n",
                "# b: !core/x-1.0.0\n#   c: 1\n#   d: 2\n# e: ?\n",
            ),
        ] {
            let (text, head) = mended(&format!("{START}{tree}"));
            assert_eq!(text, format!("{START}{kept}{rest}...\n"), "{tree}");
            assert_eq!(head.lost_lines, rest.lines().count());
        }
        let (text, _) = mended(START);
        assert_eq!(text, "#ASDF 1.0.0\n# % YAML 1.1\n# %TAG ! tag:stsci.edu:asdf/\n# --- !core/asdf-1.1.0\n");
    }

    #[test]
    fn a_sound_text_stays_and_a_damaged_start_is_made_anew() {
        let sound = format!("{START}a: 1\n...\n");
        let (text, head) = mended(&sound);
        assert!(text == sound && head.not_text == 0 && !head.has_new_start);
        for damaged in [
            sound.replace("#ASDF 1.0.0", "#ASDF 1.x.0"),
            sound.replace("%YAML 1.1\n", ""),
            sound.replace("%YAML", "%YBML"),
            sound.trim_end().to_owned(),
        ] {
            assert_eq!(mended(&damaged).0, sound, "{damaged}");
        }
        let (text, head) = mended(&sound.replace("a: 1", "a: x\0\u{fffd}y"));
        assert_eq!((text, head.not_text), (sound.replace("a: 1", "a: x\u{fffd}\u{fffd}y"), 2));
        let damaged = sound.replace("%YAML", "# x\ry\u{1}\r\n%YAML");
        assert_eq!(mended(&damaged).0, sound.replace("%YAML", "# x\u{fffd}y\u{fffd}\r\n%YAML"));
        for line in ["#ASDF 1.0.0", "#AS"] {
            assert_eq!(mended(line).0, "#ASDF 1.0.0\n");
        }
    }

    #[test]
    fn arrays_get_as_many_rows_as_a_block_has() {
        let array = |shape: &str, more: &str| {
            format!(
                "!core/ndarray-1.1.0 {{source: 0, datatype: int16, byteorder: big, shape: {shape}{more}}}"
            )
        };
        for (shape, more, size, wanted) in [
            ("[10, 2]", "", 23, "[5, 2]"),
            ("[10, 2]", "", 40, "[10, 2]"),
            ("[10, 2]", "", 3, "[10, 2]"),
            ("['*', 2]", "", 23, "['*', 2]"),
            ("[10]", ", offset: 4", 10, "[3]"),
            ("[10]", ", strides: [4]", 11, "[3]"),
        ] {
            let text = format!("{START}a: {}\nb: {}\n...\n", array(shape, more), array(shape, more));
            let (_, mut head) = mended(&text);
            let told = head.shorten(&BTreeMap::from([(0, size)]), 1).unwrap();
            let wanted_text = text.replace(&format!("shape: {shape}"), &format!("shape: {wanted}"));
            assert_eq!(String::from_utf8(head.text).unwrap(), wanted_text);
            assert_eq!(told.len(), if wanted == shape { 0 } else { 2 }, "{told:?}");
        }
    }
}
