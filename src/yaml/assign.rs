//! Sets values in a YAML text by the paths of their keys. All other bytes, comments included, stay the same.

use std::fmt;
use std::ops::Range;

use super::event::{Event, Style, What};
use super::read::each_event;
use super::scalar::{Type, resolve};
use crate::content::Text;
use crate::error::{Error, Kind, Result, to_json};

/// Maximum number of assignments to one text.
const MAX_ASSIGNMENTS: usize = 1 << 10;

/// A value for the node at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    path: Vec<String>,
    /// The path as the user wrote it.
    shown: String,
    /// The value on one line, in YAML's flow style.
    value: String,
    /// True if the value is a scalar without a tag: it then keeps the tag of the scalar that it replaces.
    is_bare_scalar: bool,
}

impl Assignment {
    /// Parses `KEY=VALUE`. The keys of the path are separated by dots; a backslash makes the next character part of
    /// a key; a number is the position in a sequence, from 0. VALUE is YAML; an empty VALUE is null.
    ///
    /// # Errors
    /// There is no `=`, a key is empty, or VALUE is not one valid YAML value.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| Error::new(Kind::Usage, format!("{text}: {why}"));
        let mut path = vec![String::new()];
        let mut letters = text.char_indices();
        let mut end = None;
        while let Some((at, letter)) = letters.next() {
            let Some(key) = path.last_mut() else { break };
            match letter {
                '=' => {
                    end = Some(at);
                    break;
                }
                '.' => path.push(String::new()),
                '\\' => key.extend(letters.next().map(|(_, escaped)| escaped)),
                letter => key.push(letter),
            }
        }
        let end = end.ok_or_else(|| wrong("write KEY=VALUE, as in meta.filter=F158"))?;
        if path.iter().any(String::is_empty) {
            return Err(wrong("a key is empty; write KEY=VALUE, as in meta.filter=F158"));
        }
        let (shown, value) = (&text[..end], &text[end + 1..]);
        let (value, is_bare_scalar) = in_flow(value).map_err(|error| wrong(&error.message()))?;
        Ok(Self { path, shown: shown.to_owned(), value, is_bare_scalar })
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.shown)
    }
}

/// Returns a value in flow style on one line, and true if it is a scalar without a tag.
fn in_flow(value: &str) -> Result<(String, bool)> {
    if value.trim().is_empty() {
        return Ok(("null".to_owned(), true));
    }
    let mut flow = FlowWriter::default();
    each_event(&Text::new(value.as_bytes().to_vec()), |event| -> Result<bool> {
        flow.take(event.what)?;
        Ok(true)
    })?;
    if flow.nodes == 0 {
        return Err(Error::new(Kind::Usage, "the value is only a comment; write it in quotes"));
    }
    Ok((flow.out, flow.is_bare_scalar))
}

/// Writes events in flow style.
#[derive(Debug, Default)]
struct FlowWriter {
    out: String,
    /// The open collections: true for a mapping, and the number of keys, values and items so far.
    open: Vec<(bool, u64)>,
    nodes: u64,
    is_bare_scalar: bool,
}

impl FlowWriter {
    fn take(&mut self, what: What<'_>) -> Result<()> {
        match what {
            What::Scalar { value, style, tag, anchor } => {
                self.begin(tag, anchor)?;
                self.is_bare_scalar = self.open.is_empty() && tag.is_none();
                let is_plain = style == Style::Plain && (resolve(value) != Type::Str || is_simple(value));
                if is_plain && !value.is_empty() {
                    self.out += value;
                } else if style == Style::Plain && value.is_empty() {
                    self.out += "null";
                } else {
                    // A JSON string is a double-quoted scalar.
                    self.out += &to_json(value);
                }
            }
            What::Alias(name) => {
                self.begin(None, None)?;
                self.out += &format!("*{name} ");
            }
            What::SequenceStart { tag, anchor, .. } => {
                self.begin(tag, anchor)?;
                self.out.push('[');
                self.open.push((false, 0));
            }
            What::MappingStart { tag, anchor, .. } => {
                self.begin(tag, anchor)?;
                self.out.push('{');
                self.open.push((true, 0));
            }
            What::SequenceEnd => {
                self.open.pop();
                self.out.push(']');
            }
            What::MappingEnd => {
                self.open.pop();
                self.out.push('}');
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes what precedes a node: a separator, its tag and its anchor.
    fn begin(&mut self, tag: Option<&str>, anchor: Option<&str>) -> Result<()> {
        if self.open.is_empty() && self.nodes > 0 {
            return Err(Error::new(Kind::Usage, "the value has several documents"));
        }
        self.nodes += 1;
        if let Some((is_mapping, count)) = self.open.last_mut() {
            self.out += match (*count, *is_mapping && *count % 2 == 1) {
                (0, _) => "",
                (_, true) => ": ",
                (_, false) => ", ",
            };
            *count += 1;
        }
        if let Some(anchor) = anchor {
            self.out += &format!("&{anchor} ");
        }
        if let Some(tag) = tag {
            self.out += &if tag.starts_with('!') { format!("{tag} ") } else { format!("!<{tag}> ") };
        }
        Ok(())
    }
}

/// True if a text can be a plain scalar anywhere.
fn is_simple(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '/' || first == '_')
        && !text.ends_with(' ')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || " _-./+()*".contains(c))
}

/// Returns the text with the assigned values. With `create`, missing keys are added at the end of their mapping.
///
/// # Errors
/// The text can't be read; or a path does not exist, leads through an alias, or is assigned twice.
pub(crate) fn assign(text: &[u8], assignments: &[Assignment], create: bool) -> Result<Vec<u8>> {
    if assignments.len() > MAX_ASSIGNMENTS {
        return Err(Error::new(Kind::Usage, format!("more than {MAX_ASSIGNMENTS} values are set")));
    }
    let mut readable = text.to_vec();
    if readable.starts_with(b"%ASDF") {
        readable[0] = b'#';
    }
    let mut finder = Finder::new(text, assignments);
    each_event(&Text::new(readable), |event| -> Result<bool> {
        finder.take(event);
        Ok(true)
    })?;
    let mut edits = Vec::new();
    let mut added: Vec<(usize, &Assignment)> = Vec::new();
    for (n, assignment) in assignments.iter().enumerate() {
        let found = finder.found.get_mut(n).and_then(Option::take);
        let place = &finder.places[n];
        match found {
            Some(range) => edits.push(Edit { range, new: finder.replacements[n].clone(), n }),
            None => match &place.obstacle {
                Some(why) => return Err(missing(assignment, why)),
                None if !create => {
                    let known = assignment.path.get(..place.depth).unwrap_or_default().join(".");
                    let key = assignment.path.get(place.depth).map_or("", String::as_str);
                    let at = if known.is_empty() { "the root".to_owned() } else { known };
                    let why = format!("{at} has no key \"{}\"; --create adds it", key.escape_debug());
                    return Err(missing(assignment, &why));
                }
                None => added.push((n, assignment)),
            },
        }
    }
    for (n, assignment) in added {
        let place = &finder.places[n];
        edits.push(
            addition(text, place, assignment, n)
                .ok_or_else(|| missing(assignment, "it can't be added here"))?,
        );
    }
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end, edit.n));
    let mut new = Vec::with_capacity(text.len() + 64);
    let mut at = 0;
    for edit in &edits {
        if edit.range.start < at {
            return Err(missing(&assignments[edit.n], "it, or a part of it, is set twice"));
        }
        new.extend_from_slice(text.get(at..edit.range.start).unwrap_or_default());
        new.extend_from_slice(edit.new.as_bytes());
        at = edit.range.end;
    }
    new.extend_from_slice(text.get(at..).unwrap_or_default());
    Ok(new)
}

fn missing(assignment: &Assignment, why: &str) -> Error {
    Error::new(Kind::Refused, format!("{}: {why}", assignment.shown.escape_debug()))
}

/// A replacement of bytes.
#[derive(Debug)]
struct Edit {
    range: Range<usize>,
    new: String,
    /// The number of the assignment.
    n: usize,
}

/// The deepest existing collection on the way to a path.
#[derive(Clone, Debug, Default)]
struct KeyPlace {
    /// Number of keys of the path that exist.
    depth: usize,
    /// Why no key can be added: the collection is a sequence, an alias or a scalar.
    obstacle: Option<String>,
    mapping: Option<MappingEnd>,
}

/// The end of a mapping, where a member can be added.
#[derive(Clone, Copy, Debug)]
struct MappingEnd {
    is_flow: bool,
    is_empty: bool,
    /// Column of its first key, from 0.
    column: usize,
    /// Offset of the closing brace, or the end of the last value.
    end: usize,
}

/// Returns the edit that adds the missing keys of a path.
fn addition(text: &[u8], place: &KeyPlace, assignment: &Assignment, n: usize) -> Option<Edit> {
    let mapping = place.mapping?;
    let missing = assignment.path.get(place.depth..)?;
    let (first, rest) = missing.split_first()?;
    let mut member = format!("{}: ", key_text(first));
    for key in rest {
        member += &format!("{{{}: ", key_text(key));
    }
    member += &assignment.value;
    member += &"}".repeat(rest.len());
    if mapping.is_flow {
        let before = text.get(..mapping.end)?.trim_ascii_end().last().copied();
        let separator = if mapping.is_empty || before == Some(b',') { "" } else { ", " };
        return Some(Edit { range: mapping.end..mapping.end, new: format!("{separator}{member}"), n });
    }
    let indent = " ".repeat(mapping.column);
    // A block scalar ends after its line break.
    if mapping.end > 0 && text.get(mapping.end - 1) == Some(&b'\n') {
        return Some(Edit { range: mapping.end..mapping.end, new: format!("{indent}{member}\n"), n });
    }
    let after = text.get(mapping.end..)?;
    let line = memchr::memchr(b'\n', after).unwrap_or(after.len());
    let end = mapping.end + line - usize::from(line > 0 && after.get(line - 1) == Some(&b'\r'));
    Some(Edit { range: end..end, new: format!("\n{indent}{member}"), n })
}

fn key_text(key: &str) -> String {
    if is_simple(key) && resolve(key) == Type::Str { key.to_owned() } else { to_json(key) }
}

/// Finds the nodes at the paths of assignments.
struct Finder<'t> {
    text: &'t [u8],
    assignments: &'t [Assignment],
    open: Vec<OpenNode>,
    found: Vec<Option<Range<usize>>>,
    replacements: Vec<String>,
    places: Vec<KeyPlace>,
    /// The end of the last scalar, alias, or collection in flow style.
    end: usize,
}

struct OpenNode {
    is_mapping: bool,
    is_flow: bool,
    /// The key of the next value, with its column; `None` if a key is next.
    key: Option<(String, usize)>,
    /// Number of items or members so far.
    count: u64,
    /// Column of the first key.
    column: usize,
    /// The assignments to this node or within it, and the number of keys of their paths on the way to it.
    inside: Vec<usize>,
    /// The assignments to this node itself.
    exact: Vec<usize>,
    start: NodeStart,
    /// True if the collection is a key.
    is_key: bool,
}

/// The start of a node that may be replaced.
#[derive(Clone, Debug, Default)]
struct NodeStart {
    offset: usize,
    column: usize,
    /// Column of the key; `None` for an item.
    key_column: Option<usize>,
    anchor: Option<String>,
}

impl<'t> Finder<'t> {
    fn new(text: &'t [u8], assignments: &'t [Assignment]) -> Self {
        let count = assignments.len();
        Self {
            text,
            assignments,
            open: Vec::new(),
            found: vec![None; count],
            replacements: vec![String::new(); count],
            places: vec![KeyPlace::default(); count],
            end: 0,
        }
    }

    fn take(&mut self, event: &Event<'_>) {
        let start = event.start.offset as usize;
        let column = (event.start.column as usize).saturating_sub(1);
        let end = event.end.offset as usize;
        match event.what {
            What::Scalar { value, anchor, tag, .. } => {
                if self.take_key(Some(value), column) {
                    self.end = end;
                    return;
                }
                let (inside, exact) = self.wanted();
                self.obstruct(&inside, "is a single value, not a mapping");
                // A value that is not written ends where its key does.
                let start = NodeStart {
                    offset: start,
                    column,
                    key_column: self.key_column(),
                    anchor: anchor.map(str::to_owned),
                };
                if start.offset < end {
                    self.end = end;
                }
                self.set(&exact, &start, end, tag);
                self.node_ended();
            }
            What::Alias(name) => {
                if self.take_key(None, column) {
                    self.end = end;
                    return;
                }
                let (inside, exact) = self.wanted();
                self.obstruct(
                    &inside,
                    &format!("is an alias (*{name}): set the value where it is defined (&{name})"),
                );
                let start = NodeStart { offset: start, column, key_column: self.key_column(), anchor: None };
                self.end = end;
                self.set(&exact, &start, end, None);
                self.node_ended();
            }
            What::SequenceStart { anchor, flow, .. } => self.begin((false, flow), start, column, anchor),
            What::MappingStart { anchor, flow, .. } => self.begin((true, flow), start, column, anchor),
            What::SequenceEnd | What::MappingEnd => self.close(start, end),
            _ => {}
        }
    }

    /// Takes a key. False if the node is not a key.
    fn take_key(&mut self, key: Option<&str>, column: usize) -> bool {
        let Some(open) = self.open.last_mut() else { return false };
        if !open.is_mapping || open.key.is_some() {
            return false;
        }
        if open.count == 0 {
            open.column = column;
        }
        open.key = Some((key.unwrap_or("\0").to_owned(), column));
        true
    }

    fn key_column(&self) -> Option<usize> {
        self.open.last().and_then(|open| open.key.as_ref()).map(|(_, column)| *column)
    }

    /// Returns the assignments within the next node, and those to the node itself.
    fn wanted(&self) -> (Vec<usize>, Vec<usize>) {
        let Some(open) = self.open.last() else {
            return ((0..self.assignments.len()).collect(), Vec::new());
        };
        let depth = self.open.len() - 1;
        let step = |n: &&usize| {
            let Some(wanted) = self.assignments[**n].path.get(depth) else { return false };
            match &open.key {
                Some((key, _)) => key == wanted,
                None => !open.is_mapping && wanted.parse() == Ok(open.count),
            }
        };
        let here = open.inside.iter().filter(step).copied();
        here.partition(|n| self.assignments[*n].path.len() > depth + 1)
    }

    fn obstruct(&mut self, inside: &[usize], why: &str) {
        let depth = self.open.len();
        for &n in inside {
            let known = self.assignments[n].path.get(..depth).unwrap_or_default().join(".");
            let known = if known.is_empty() { "the tree".to_owned() } else { known };
            self.places[n] = KeyPlace { depth, obstacle: Some(format!("{known} {why}")), mapping: None };
        }
    }

    fn begin(
        &mut self,
        (is_mapping, is_flow): (bool, bool),
        start: usize,
        column: usize,
        anchor: Option<&str>,
    ) {
        let is_key = self.take_key(None, column);
        let (inside, exact) = if is_key { (Vec::new(), Vec::new()) } else { self.wanted() };
        let key_column = self.key_column();
        let start = NodeStart { offset: start, column, key_column, anchor: anchor.map(str::to_owned) };
        self.open.push(OpenNode {
            is_mapping,
            is_flow,
            key: None,
            count: 0,
            column,
            inside,
            exact,
            start,
            is_key,
        });
    }

    fn close(&mut self, start: usize, end: usize) {
        let Some(closed) = self.open.pop() else { return };
        if closed.is_flow {
            self.end = end;
        }
        let depth = self.open.len();
        for &n in &closed.inside {
            // A deeper place was found already if the key exists here.
            if self.found[n].is_some() || self.places[n].depth > depth {
                continue;
            }
            let mapping = MappingEnd {
                is_flow: closed.is_flow,
                is_empty: closed.count == 0,
                column: closed.column,
                end: if closed.is_flow { start } else { self.end },
            };
            let count = closed.count;
            let known = self.assignments[n].path.get(..depth).unwrap_or_default().join(".");
            let obstacle = (!closed.is_mapping)
                .then(|| format!("{known} is a sequence of {count} items, which are counted from 0"));
            self.places[n] = KeyPlace { depth, obstacle, mapping: Some(mapping) };
        }
        let node_end = self.end;
        self.set(&closed.exact, &closed.start, node_end, None);
        if !closed.is_key {
            self.node_ended();
        }
    }

    fn node_ended(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.key = None;
            open.count += 1;
        }
    }

    /// Records the bytes of a node, and those that replace them. `tag` is that of a scalar.
    fn set(&mut self, exact: &[usize], start: &NodeStart, end: usize, tag: Option<&str>) {
        for &n in exact {
            let end = end.max(start.offset);
            let assignment = &self.assignments[n];
            let old = self.text.get(start.offset..end).unwrap_or_default();
            let mut new = String::new();
            // Without a blank, the value would touch the colon before it; at the column of its key, it would end the mapping.
            let before = start.offset.checked_sub(1).and_then(|at| self.text.get(at));
            if before.is_some_and(|byte| !byte.is_ascii_whitespace() && !b"[{(".contains(byte)) {
                new.push(' ');
            }
            if let Some(key_column) = start.key_column
                && start.column <= key_column
            {
                new += &" ".repeat(key_column + 2 - start.column);
            }
            if let Some(anchor) = &start.anchor {
                new += &format!("&{anchor} ");
            }
            if assignment.is_bare_scalar
                && tag.is_some()
                && let Some(written) = written_tag(old)
            {
                new += &format!("{written} ");
            }
            new += &assignment.value;
            if old.ends_with(b"\n") {
                new.push('\n');
            }
            self.found[n] = Some(start.offset..end);
            self.replacements[n] = new;
        }
    }
}

/// Returns the tag of a node as it is written, before or after its anchor.
fn written_tag(node: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(node).ok()?;
    text.split_ascii_whitespace().take(2).find(|word| word.starts_with('!'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str, pairs: &[&str], create: bool) -> std::result::Result<String, String> {
        let assignments: Result<Vec<_>> = pairs.iter().map(|pair| Assignment::parse(pair)).collect();
        let new = assignments.and_then(|all| assign(text.as_bytes(), &all, create));
        new.map(|new| String::from_utf8(new).unwrap()).map_err(|error| error.message())
    }

    #[test]
    fn a_value_replaces_another_and_all_else_stays() {
        for (text, pair, wanted) in [
            ("a: 1 # one\nb: 2\n", "a=3", "a: 3 # one\nb: 2\n"),
            ("m: {x: F1, y: [1, 2]}\n", "m.x=F158", "m: {x: F158, y: [1, 2]}\n"),
            ("m: {x: F1, y: [1, 2]}\n", "m.y.1={a: b}", "m: {x: F1, y: [1, {a: b}]}\n"),
            ("m:\n  x: 'a b'   # c\n  y: 1\n", "m.x=c, d", "m:\n  x: \"c, d\"   # c\n  y: 1\n"),
            ("m:\n  x:\n  - 1\n  - 2\n  # c\n  y: 1\n", "m.x=[3]", "m:\n  x:\n    [3]\n  # c\n  y: 1\n"),
            ("x:\n- 1\ny: 1\n", "x=3", "x:\n  3\ny: 1\n"),
            ("x:\n- 1\n- {a: b}\ny: 1\n", "x.1.a=3", "x:\n- 1\n- {a: 3}\ny: 1\n"),
            ("x:\n  a: 1\n\ny: 1\n", "x=3", "x:\n  3\n\ny: 1\n"),
            ("x:\ny: 1\n", "x=3", "x: 3\ny: 1\n"),
            ("{x: , y: 1}\n", "x=3", "{x: 3, y: 1}\n"),
            ("x: |\n  a\n  b\ny: 1\n", "x=c", "x: c\ny: 1\n"),
            ("x: &a 1\ny: *a\n", "x=2", "x: &a 2\ny: *a\n"),
            ("x: &a 1\ny: *a\n", "y=2", "x: &a 1\ny: 2\n"),
            ("t: !time/time-1.1.0 2020-01-01\n", "t=2021-01-01", "t: !time/time-1.1.0 2021-01-01\n"),
            ("t: !time/time-1.1.0 2020-01-01\n", "t=[1]", "t: [1]\n"),
            ("t: !a 1\n", "t=!<x> 2", "t: !<x> 2\n"),
            ("a.b: 1\n", "a\\.b=2", "a.b: 2\n"),
            ("a: x\n", "a=", "a: null\n"),
            ("a: x\n", "a=''", "a: \"\"\n"),
            ("a: x\n", "a=\"5\"", "a: \"5\"\n"),
            ("a: {b: c}\n", "a.b=\u{e9} # x", "a: {b: \"\u{e9}\"}\n"),
            ("%YAML 1.1\n---\nä: ö\na: 1\n...\n", "a=2", "%YAML 1.1\n---\nä: ö\na: 2\n...\n"),
        ] {
            assert_eq!(set(text, &[pair], false).as_deref(), Ok(wanted), "{text} {pair}");
        }
        assert_eq!(set("a: 1\nb: 2\n", &["b=4", "a=3"], false).as_deref(), Ok("a: 3\nb: 4\n"));
    }

    #[test]
    fn a_missing_key_is_added_on_request() {
        for (text, pair, wanted) in [
            ("a: 1 # one\n", "b=2", "a: 1 # one\nb: 2\n"),
            ("m:\n  x: 1 # one\n# end\ny: 1\n", "m.z.q=2", "m:\n  x: 1 # one\n  z: {q: 2}\n# end\ny: 1\n"),
            ("m: {}\n", "m.a b=2", "m: {a b: 2}\n"),
            ("m: {x: 1}\n", "m.yes=2", "m: {x: 1, \"yes\": 2}\n"),
            ("m: {x: 1,}\n", "m.y=2", "m: {x: 1,y: 2}\n"),
            ("m:\n  x: |\n    t\ny: 1\n", "m.z=2", "m:\n  x: |\n    t\n  z: 2\ny: 1\n"),
            ("m:\n  x:\n    q: 1\ny: 1", "z=2", "m:\n  x:\n    q: 1\ny: 1\nz: 2"),
            ("m: 1\n...\n", "z=2", "m: 1\nz: 2\n...\n"),
        ] {
            assert_eq!(set(text, &[pair], true).as_deref(), Ok(wanted), "{text} {pair}");
        }
        let both = set("m:\n  x: 1\n", &["m.a=1", "m.b=2"], true);
        assert_eq!(both.as_deref(), Ok("m:\n  x: 1\n  a: 1\n  b: 2\n"));
    }

    #[test]
    fn what_can_not_be_set_says_why() {
        for (text, pair, create, why) in [
            ("a: {b: 1}\n", "a.c=1", false, "a.c: a has no key \"c\"; --create adds it"),
            ("a: {b: 1}\n", "c=1", false, "c: the root has no key \"c\"; --create adds it"),
            ("a: 1\n", "a.b=1", true, "a.b: a is a single value, not a mapping"),
            ("a: [1]\n", "a.1=1", true, "a.1: a is a sequence of 1 items, which are counted from 0"),
            (
                "b: &x {c: 1}\na: *x\n",
                "a.c=1",
                true,
                "a.c: a is an alias (*x): set the value where it is defined (&x)",
            ),
        ] {
            assert_eq!(set(text, &[pair], create), Err(why.to_owned()), "{text} {pair}");
        }
        assert!(set("a: {b: 1}\n", &["a.b=1", "a=2"], false).unwrap_err().contains("set twice"));
        for pair in ["a", "=1", "a..b=1", "a=[1", "a=x: y: z", "a=--- 1\n--- 2\n", "a=# x"] {
            assert!(Assignment::parse(pair).is_err(), "{pair}");
        }
    }

    proptest::proptest! {
        /// Any value comes back as it was set.
        #[test]
        fn a_value_is_read_as_it_was_set(value in "[ -~\u{a0}-\u{ff}]{0,12}", is_flow: bool) {
            let quoted = to_json(&value);
            let text = if is_flow { "m: {x: 1, y: 2}\n" } else { "m:\n  x: 1\n  y: 2\n" };
            let Ok(new) = set(text, &[&format!("m.x={quoted}")], false) else { return Ok(()) };
            let mut scalars = Vec::new();
            each_event(&Text::new(new.clone().into_bytes()), |event| -> Result<bool> {
                if let What::Scalar { value, .. } = event.what {
                    scalars.push(value.to_owned());
                }
                Ok(true)
            }).unwrap();
            proptest::prop_assert_eq!(scalars, ["m", "x", value.as_str(), "y", "2"], "{}", new);
        }
    }
}
