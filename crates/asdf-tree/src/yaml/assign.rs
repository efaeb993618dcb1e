//! Sets and removes values in a YAML text by the paths of their keys, and returns them. All other bytes, comments
//! included, stay the same.

mod key;
mod remove;

use std::collections::HashMap;
use std::ops::Range;

use super::event::{Event, Style, What};
use super::read::each_event_in;
use super::scalar::{TAG_PREFIX, Type, resolve, type_of};
pub use key::KeyPath;
use remove::Siblings;
use seekable::error::{Error, Kind, Result, to_json};

/// Maximum number of assignments to one text.
const MAX_ASSIGNMENTS: usize = 1 << 10;
/// Maximum number of aliases on the way to a value.
const MAX_ALIASES: usize = 64;
const TWICE: &str = "it, or a part of it, is set twice";

/// A value for the node at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    key: KeyPath,
    value: NewValue,
}

/// A value on one line, in YAML's flow style.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NewValue {
    flow: String,
    /// The text of a scalar without a tag, which keeps the tag of the scalar that it replaces; and its style.
    bare: Option<(String, Style)>,
}

/// The changes that are allowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    /// True to add missing keys at the end of their mapping.
    pub create: bool,
    /// True to set a value in place of a mapping, a sequence or an array.
    pub force: bool,
}

impl Assignment {
    /// Parses `KEY=VALUE`. KEY is a [`KeyPath`]; VALUE is YAML; an empty VALUE is null.
    ///
    /// # Errors
    /// There is no `=`, a key is empty, or VALUE is not one valid YAML value.
    pub fn parse(text: &str) -> Result<Self> {
        let (key, value) = KeyPath::before_equals(text)?;
        let message = || format!("{text}: write KEY=VALUE, as in meta.filter=F158");
        Self::of(key, value.ok_or_else(|| Error::new(Kind::Usage, message()))?, text)
    }

    /// Assigns a value to a key, which are written as in [`parse`](Self::parse).
    ///
    /// # Errors
    /// As of [`parse`](Self::parse).
    pub fn new(key: &str, value: &str) -> Result<Self> {
        Self::of(KeyPath::parse(key)?, value, &format!("{key}={value}"))
    }

    /// `shown` is both, for messages.
    fn of(key: KeyPath, value: &str, shown: &str) -> Result<Self> {
        let wrong = |error: Error| Error::new(Kind::Usage, format!("{shown}: {}", error.message()));
        Ok(Self { key, value: in_flow(value).map_err(wrong)? })
    }
}

/// Returns a value in flow style.
fn in_flow(value: &str) -> Result<NewValue> {
    if value.trim().is_empty() {
        return Ok(NewValue { flow: "null".to_owned(), bare: Some((String::new(), Style::Plain)) });
    }
    let mut flow = FlowWriter::default();
    let is_one_line = !value.trim().contains('\n');
    each_event_in(value.as_bytes(), |event| -> Result<bool> {
        let block = match event.what {
            What::MappingStart { flow: false, .. } => Some(("mapping", "braces")),
            What::SequenceStart { flow: false, .. } => Some(("list", "brackets")),
            _ => None,
        };
        if let Some((what, signs)) = block
            && is_one_line
            && flow.open.is_empty()
        {
            let why = format!("in YAML this is a {what}; write it in quotes for a text, or in {signs}");
            return Err(Error::new(Kind::Usage, why));
        }
        flow.take(event.what)?;
        Ok(true)
    })?;
    if flow.nodes == 0 {
        return Err(Error::new(Kind::Usage, "the value is only a comment; write it in quotes"));
    }
    Ok(NewValue { flow: flow.out, bare: flow.bare })
}

/// Returns a number such as `1e5` as YAML 1.1 writes it: without a point, or without the sign of the exponent, Python
/// would read a text.
fn with_point_and_sign(text: &str) -> Option<String> {
    let (digits, exponent) = text.split_once(['e', 'E'])?;
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['+', '-']) { "" } else { "+" };
    let number = format!("{digits}{point}e{sign}{exponent}");
    (resolve(&number) == Type::Float).then_some(number)
}

/// Returns a number as YAML 1.1 writes it, that replaces a number: also `nan` and `inf`.
fn as_number(text: &str) -> Option<String> {
    let is_named = ["nan", "inf", "-inf", "+inf"].iter().any(|name| text.eq_ignore_ascii_case(name));
    let name = || text.to_ascii_lowercase().replace("nan", ".nan").replace("inf", ".inf");
    if is_named { Some(name()) } else { with_point_and_sign(text) }
}

/// Writes events in flow style.
#[derive(Debug, Default)]
struct FlowWriter {
    out: String,
    /// The open collections: true for a mapping, and the number of keys, values and items so far.
    open: Vec<(bool, u64)>,
    nodes: u64,
    /// The text and the style of a scalar without a tag.
    bare: Option<(String, Style)>,
}

impl FlowWriter {
    fn take(&mut self, what: What<'_>) -> Result<()> {
        match what {
            What::Scalar { value, style, tag, anchor } => {
                self.begin(tag, anchor)?;
                if self.open.is_empty() && tag.is_none() {
                    self.bare = Some((value.to_owned(), style));
                }
                let is_key =
                    self.open.last().is_some_and(|(is_mapping, count)| *is_mapping && count % 2 == 1);
                // A number within a list is meant as a number.
                let number = if style == Style::Plain && !is_key && !self.open.is_empty() && tag.is_none() {
                    with_point_and_sign(value)
                } else {
                    None
                };
                let value = number.as_deref().unwrap_or(value);
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

/// Returns the text with the assigned values, and passes warnings to `warn`.
///
/// # Errors
/// The text can't be read; or a path does not exist, leads through an alias, or is assigned twice.
pub fn assign(
    text: &[u8],
    assignments: &[Assignment],
    allowed: Allowed,
    warn: &mut dyn FnMut(String),
) -> Result<Vec<u8>> {
    if assignments.len() > MAX_ASSIGNMENTS {
        return Err(Error::new(Kind::Usage, format!("more than {MAX_ASSIGNMENTS} values are set")));
    }
    let keys: Vec<KeyPath> = assignments.iter().map(|assignment| assignment.key.clone()).collect();
    let (keys, found, places) = locate(text, keys)?;
    let mut edits = Vec::new();
    let mut added: Vec<(usize, &NewValue)> = Vec::new();
    for (n, Assignment { value, .. }) in assignments.iter().enumerate() {
        let key = &keys[n];
        match &found[n] {
            Some(node) => {
                if !allowed.force {
                    node.may_be_replaced(value)
                        .map_err(|what| key.refused(&format!("{key} is {what}; --force replaces it")))?;
                }
                let new = node.replacement(text, value, &mut |warning| warn(format!("{key}: {warning}")));
                edits.push(Edit { range: node.range.clone(), new, n });
            }
            None if allowed.create && places[n].obstacle.is_none() => {
                key.may_be_added(&places[n])?;
                added.push((n, value));
            }
            None => return Err(key.missing(&places[n], true)),
        }
    }
    while let Some(&(n, _)) = added.first() {
        // Keys that are added to one mapping are one edit, since a new mapping may hold several of them.
        let is_here = |&(other, _): &(usize, &NewValue)| places[other].mapping == places[n].mapping;
        let (here, others): (Vec<_>, Vec<_>) = added.into_iter().partition(is_here);
        added = others;
        let values: Vec<(&[String], String)> =
            here.iter().map(|&(n, value)| (keys[n].missing_keys(&places[n]), value.added())).collect();
        let members = members(&values).ok_or_else(|| keys[n].refused(TWICE))?;
        let edit = addition(text, &places[n], &members, n);
        edits.push(edit.ok_or_else(|| keys[n].refused("it can't be added here"))?);
    }
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end, edit.n));
    let mut new = Vec::with_capacity(text.len() + 64);
    let mut at = 0;
    for edit in &edits {
        if edit.range.start < at {
            return Err(keys[edit.n].refused(TWICE));
        }
        new.extend_from_slice(text.get(at..edit.range.start).unwrap_or_default());
        new.extend_from_slice(edit.new.as_bytes());
        at = edit.range.end;
    }
    new.extend_from_slice(text.get(at..).unwrap_or_default());
    Ok(new)
}

/// Returns the text without some keys and their values, or without items of sequences.
///
/// # Errors
/// The text can't be read; or a path does not exist, or leads through an alias.
pub fn remove(text: &[u8], keys: &[KeyPath]) -> Result<Vec<u8>> {
    if keys.len() > MAX_ASSIGNMENTS {
        return Err(Error::new(Kind::Usage, format!("more than {MAX_ASSIGNMENTS} keys are removed")));
    }
    let (keys, found, places) = locate(text, keys.to_vec())?;
    let mut last_first = Vec::new();
    for (n, node) in found.iter().enumerate() {
        match node {
            Some(node) => last_first.push((node.range.clone(), n)),
            None => return Err(keys[n].missing(&places[n], false)),
        }
    }
    last_first.sort_by_key(|(range, n)| (std::cmp::Reverse(range.start), range.end, *n));
    let mut text = text.to_vec();
    let mut removed = None;
    for (range, n) in last_first {
        let key = &keys[n];
        if removed.replace(range.clone()) == Some(range) {
            return Err(key.refused("it is removed twice"));
        }
        // A node before a removed one keeps its place, but may be the last in its collection now.
        let found = locate(&text, vec![key.clone()])?.1.swap_remove(0);
        let node = found.ok_or_else(|| key.refused("it is removed twice"))?;
        let edit = remove::edit(&text, &node).map_err(|why| key.refused(&why))?;
        text.splice(edit.range, edit.new.into_bytes());
    }
    Ok(text)
}

/// Returns the value at a path: the text of a scalar, and the YAML of a collection. Aliases are followed.
///
/// # Errors
/// The text can't be read, or has no such key ([`Kind::NotFound`]).
pub fn value_at(text: &[u8], key: &KeyPath) -> Result<String> {
    let mut key = key.clone();
    for _ in 0..MAX_ALIASES {
        let (mut keys, mut found, places) = locate(text, vec![key])?;
        key = keys.swap_remove(0);
        if let Some((alias, rest)) = &places[0].alias {
            key.follow(alias, *rest);
            continue;
        }
        return match found.swap_remove(0) {
            Some(node) => Ok(node.value(text)),
            None => Err(key.missing(&places[0], false)),
        };
    }
    Err(key.refused("more than 64 aliases lead to it"))
}

type Located = (Vec<KeyPath>, Vec<Option<FoundNode>>, Vec<KeyPlace>);

/// Finds the nodes at some paths. A path that is not there as it was written is searched for as its dotted form.
fn locate(text: &[u8], mut keys: Vec<KeyPath>) -> Result<Located> {
    let mut readable = text.to_vec();
    if readable.starts_with(b"%ASDF") {
        readable[0] = b'#';
    }
    loop {
        let mut finder = Finder::new(&keys);
        each_event_in(&readable, |event| -> Result<bool> {
            finder.on_event(event);
            Ok(true)
        })?;
        let Finder { found, places, .. } = finder;
        let mut is_changed = false;
        for (n, key) in keys.iter_mut().enumerate() {
            is_changed |= found[n].is_none() && places[n].alias.is_none() && key.take_dotted(places[n].depth);
        }
        if !is_changed {
            return Ok((keys, found, places));
        }
    }
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
    /// The path of the anchor that an alias on the way stands for, and the number of keys up to the alias.
    alias: Option<(Vec<String>, usize)>,
    mapping: Option<MappingEnd>,
}

/// The end of a mapping, where a member can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MappingEnd {
    is_flow: bool,
    is_empty: bool,
    /// Column of its first key, from 0.
    column: usize,
    /// Offset of the closing brace, or the end of the last value.
    end: usize,
}

/// Returns the members of a mapping with values at some paths, which are not empty. Paths that begin with the same key are
/// in one member. `None` if a path is another one, or the beginning of another one.
fn members(values: &[(&[String], String)]) -> Option<Vec<String>> {
    let mut names: Vec<&String> = Vec::new();
    for (path, _) in values {
        let name = path.first()?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut members = Vec::new();
    for name in names {
        let with_name = values.iter().filter(|(path, _)| path.first() == Some(name));
        let below: Vec<(&[String], String)> =
            with_name.map(|(path, value)| (path.get(1..).unwrap_or_default(), value.clone())).collect();
        let value = match &below[..] {
            [([], value)] => value.clone(),
            below => format!("{{{}}}", self::members(below)?.join(", ")),
        };
        members.push(format!("{}: {value}", key_text(name)));
    }
    Some(members)
}

/// Returns the edit that adds members at the end of a mapping.
fn addition(text: &[u8], place: &KeyPlace, members: &[String], n: usize) -> Option<Edit> {
    let mapping = place.mapping?;
    if mapping.is_flow {
        let before = text.get(..mapping.end)?.trim_ascii_end().last().copied();
        let separator = if mapping.is_empty || before == Some(b',') { "" } else { ", " };
        let new = format!("{separator}{}", members.join(", "));
        return Some(Edit { range: mapping.end..mapping.end, new, n });
    }
    let indent = " ".repeat(mapping.column);
    // A block scalar ends after its line break.
    if mapping.end > 0 && text.get(mapping.end - 1) == Some(&b'\n') {
        let new = members.iter().map(|member| format!("{indent}{member}\n")).collect();
        return Some(Edit { range: mapping.end..mapping.end, new, n });
    }
    let after = text.get(mapping.end..)?;
    let line = memchr::memchr(b'\n', after).unwrap_or(after.len());
    let end = mapping.end + line - usize::from(line > 0 && after.get(line - 1) == Some(&b'\r'));
    let new = members.iter().map(|member| format!("\n{indent}{member}")).collect();
    Some(Edit { range: end..end, new, n })
}

fn key_text(key: &str) -> String {
    if is_simple(key) && resolve(key) == Type::Str { key.to_owned() } else { to_json(key) }
}

/// A node at a path.
#[derive(Clone, Debug)]
struct FoundNode {
    range: Range<usize>,
    start: NodeStart,
    kind: NodeKind,
    tag: Option<String>,
    siblings: Siblings,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NodeKind {
    Scalar(String, Style),
    Alias,
    Sequence(u64),
    Mapping(u64),
}

impl NewValue {
    /// Returns the text of a plain scalar without a tag.
    fn plain(&self) -> Option<&str> {
        self.bare.as_ref().filter(|(_, style)| *style == Style::Plain).map(|(text, _)| text.as_str())
    }

    /// Returns what is written of a value at a new key.
    fn added(&self) -> String {
        self.plain().and_then(with_point_and_sign).unwrap_or_else(|| self.flow.clone())
    }
}

/// Returns a type as messages name it; `None` for one that may become any other.
fn described(scalar: Type) -> Option<&'static str> {
    match scalar {
        Type::Int | Type::Float => Some("a number"),
        Type::Bool => Some("true or false"),
        Type::Timestamp => Some("a date"),
        Type::Binary => Some("binary"),
        Type::Str => Some("a text"),
        _ => None,
    }
}

/// True for a number that YAML 1.1 takes as octal, hexadecimal, binary or sexagesimal: `010`, `0x1F`, `12:30`.
fn is_in_another_base(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    let is_octal = resolve(text) == Type::Int && digits.len() > 1 && digits.starts_with('0');
    is_octal || digits.contains(':')
}

/// Returns a number of items as a text.
fn items(count: u64) -> String {
    if count == 1 { "1 item".to_owned() } else { format!("{count} items") }
}

impl FoundNode {
    /// Refuses to set a value in place of much, which may be a mistake; the error says of what.
    fn may_be_replaced(&self, new: &NewValue) -> std::result::Result<(), String> {
        let is_array = self.tag.as_ref().is_some_and(|tag| tag.contains("ndarray-"));
        match self.kind {
            NodeKind::Mapping(_) | NodeKind::Sequence(_) if is_array => Err("an array".to_owned()),
            NodeKind::Mapping(1) => Err("a mapping with 1 key".to_owned()),
            NodeKind::Mapping(count) if count > 0 => Err(format!("a mapping with {count} keys")),
            // A list in place of a list is no mistake.
            NodeKind::Sequence(count) if count > 0 && (self.tag.is_some() || !new.flow.starts_with('[')) => {
                Err(format!("a sequence of {}", items(count)))
            }
            _ => Ok(()),
        }
    }

    /// Returns the type of a scalar; that of an alias or a collection is null, and that of a tag `Other`.
    fn scalar_type(&self) -> Type {
        match &self.kind {
            NodeKind::Scalar(text, style) => type_of(text, *style == Style::Plain, self.tag.as_deref()),
            _ => Type::Null,
        }
    }

    /// True for a text that would be no text without its quotes or its tag, such as a date.
    fn is_quoted(&self) -> bool {
        let NodeKind::Scalar(text, _) = &self.kind else { return false };
        self.scalar_type() == Type::Str && !matches!(resolve(text), Type::Str | Type::Null)
    }

    /// Returns what is written of a value that replaces the node, without what surrounds it. A number stays a number,
    /// and a text that looks like a number or a date stays a text.
    fn of_same_type(&self, new: &NewValue, warn: &mut dyn FnMut(String)) -> String {
        let Some(text) = new.plain() else { return new.flow.clone() };
        let is = resolve(text);
        let old = self.scalar_type();
        if text.is_empty() && old == Type::Str {
            warn("it was a text, and Python reads null now; \"KEY=''\" sets an empty text".to_owned());
        }
        if matches!(is, Type::Str | Type::Null) && matches!(old, Type::Str | Type::Other) {
            return new.flow.clone();
        }
        if is != Type::Null && self.is_quoted() {
            return to_json(text);
        }
        let number = match is {
            Type::Str if matches!(old, Type::Int | Type::Float) => as_number(text),
            Type::Str => with_point_and_sign(text),
            _ => None,
        };
        match (described(old), described(is)) {
            (Some(was), Some(reads)) if number.is_none() && was != reads => {
                warn(format!("it was {was}, and Python reads {} as {reads}", to_json(text)));
            }
            (_, Some("a number")) if is_in_another_base(text) => {
                warn(format!("Python reads {} in another base than ten", to_json(text)));
            }
            _ => {}
        }
        let written = number.unwrap_or_else(|| new.flow.clone());
        let is_too_large = written.parse().is_ok_and(f64::is_infinite);
        if is_too_large && written.contains(|character: char| character.is_ascii_digit()) {
            warn(format!("Python reads {written} as infinity"));
        }
        written
    }

    /// Returns the bytes that replace the node.
    fn replacement(&self, text: &[u8], value: &NewValue, warn: &mut dyn FnMut(String)) -> String {
        let start = &self.start;
        let old = text.get(self.range.clone()).unwrap_or_default();
        let mut new = String::new();
        // Without a blank, the value would touch the colon before it; at the column of its key, it would end the mapping.
        let before = start.offset.checked_sub(1).and_then(|at| text.get(at));
        if before.is_some_and(|byte| !byte.is_ascii_whitespace() && !b"[{(".contains(byte)) {
            new.push(' ');
        }
        new += &" ".repeat(start.missing_indent());
        if let Some(anchor) = &start.anchor {
            new += &format!("&{anchor} ");
        }
        // A tag of YAML's own tells the type of the old value.
        if value.bare.is_some()
            && matches!(self.kind, NodeKind::Scalar(..))
            && self.tag.as_ref().is_some_and(|tag| !tag.starts_with(TAG_PREFIX))
            && let Some(written) = written_tag(old)
        {
            new += &format!("{written} ");
        }
        new += &self.of_same_type(value, warn);
        if old.ends_with(b"\n") {
            new.push('\n');
        }
        new
    }

    /// Returns the text of a scalar, and the YAML of a collection, without the blanks before its lines.
    fn value(&self, text: &[u8]) -> String {
        if let NodeKind::Scalar(value, _) = &self.kind {
            return value.clone();
        }
        let written = String::from_utf8_lossy(text.get(self.range.clone()).unwrap_or_default());
        let mut lines = written.lines();
        let first = lines.next().unwrap_or_default();
        let blanks = |line: &str| line.len() - line.trim_start_matches(' ').len();
        let rest: Vec<&str> = lines.collect();
        let indent = match (self.kind.is_flow(first), first.starts_with(['!', '&'])) {
            (false, false) => self.start.column,
            _ => {
                rest.iter().filter(|line| !line.trim().is_empty()).map(|line| blanks(line)).min().unwrap_or(0)
            }
        };
        let rest = rest.iter().map(|line| line.get(blanks(line).min(indent)..).unwrap_or_default());
        std::iter::once(first).chain(rest).collect::<Vec<_>>().join("\n")
    }
}

impl NodeKind {
    fn is_flow(&self, first: &str) -> bool {
        *self != Self::Alias && first.starts_with(['[', '{'])
    }
}

/// Finds the nodes at some paths.
struct Finder<'k> {
    keys: &'k [KeyPath],
    open: Vec<OpenNode>,
    found: Vec<Option<FoundNode>>,
    places: Vec<KeyPlace>,
    /// The paths of the nodes with anchors.
    anchors: HashMap<String, Vec<String>>,
    /// The end of the last scalar, alias, or collection in flow style.
    end: usize,
}

/// A key, and its place.
#[derive(Clone, Debug)]
struct OpenKey {
    name: String,
    column: usize,
    offset: usize,
}

struct OpenNode {
    is_mapping: bool,
    is_flow: bool,
    /// The key of the next value; `None` if a key is next.
    key: Option<OpenKey>,
    /// Number of items or members so far.
    count: u64,
    /// Column of the first key.
    column: usize,
    /// The numbers of the paths that lead into this node.
    inside: Vec<usize>,
    /// The paths to this node itself.
    exact: Vec<usize>,
    start: NodeStart,
    tag: Option<String>,
    /// The end of the last item or member.
    last_end: Option<usize>,
    /// The paths to the last item or member, whose next sibling is not known yet.
    unfinished: Vec<usize>,
    /// True if the collection is a key.
    is_key: bool,
}

/// The start of a node.
#[derive(Clone, Debug, Default)]
struct NodeStart {
    offset: usize,
    column: usize,
    /// The key; `None` for an item.
    key: Option<OpenKey>,
    anchor: Option<String>,
}

impl NodeStart {
    /// Returns the number of blanks without which a value would stand at the column of its key.
    fn missing_indent(&self) -> usize {
        let key = self.key.as_ref().filter(|key| self.column <= key.column);
        key.map_or(0, |key| key.column + 2 - self.column)
    }
}

impl<'k> Finder<'k> {
    fn new(keys: &'k [KeyPath]) -> Self {
        let count = keys.len();
        Self {
            keys,
            open: Vec::new(),
            found: vec![None; count],
            places: vec![KeyPlace::default(); count],
            anchors: HashMap::new(),
            end: 0,
        }
    }

    fn on_event(&mut self, event: &Event<'_>) {
        let start = event.start.offset as usize;
        let column = (event.start.column as usize).saturating_sub(1);
        let end = event.end.offset as usize;
        match event.what {
            What::Scalar { value, anchor, tag, style } => {
                if self.take_key(Some(value), column, start) {
                    self.end = end;
                    return;
                }
                let (inside, exact) = self.wanted();
                self.obstruct(&inside, "is a single value, not a mapping");
                self.note_anchor(anchor);
                // A value that is not written ends where its key does.
                if start < end {
                    self.end = end;
                }
                if !exact.is_empty() {
                    let start = self.start(start, column, anchor);
                    self.record(&exact, &start, end, tag, &NodeKind::Scalar(value.to_owned(), style));
                }
                self.node_ended();
            }
            What::Alias(name) => {
                if self.take_key(None, column, start) {
                    self.end = end;
                    return;
                }
                let (inside, exact) = self.wanted();
                self.obstruct(
                    &inside,
                    &format!("is an alias (*{name}): set the value where it is defined (&{name})"),
                );
                if let Some(path) = self.anchors.get(name) {
                    for &n in inside.iter().chain(&exact) {
                        self.places[n].alias = Some((path.clone(), self.open.len()));
                    }
                }
                let start = self.start(start, column, None);
                self.end = end;
                self.record(&exact, &start, end, None, &NodeKind::Alias);
                self.node_ended();
            }
            What::SequenceStart { anchor, flow, tag } => {
                self.begin((false, flow), (start, column), anchor, tag)
            }
            What::MappingStart { anchor, flow, tag } => {
                self.begin((true, flow), (start, column), anchor, tag)
            }
            What::SequenceEnd | What::MappingEnd => self.close(start, end),
            _ => {}
        }
    }

    /// Takes a key. False if the node is not a key.
    fn take_key(&mut self, key: Option<&str>, column: usize, offset: usize) -> bool {
        let Some(open) = self.open.last_mut() else { return false };
        if open.key.is_none() {
            for n in open.unfinished.drain(..) {
                if let Some(node) = &mut self.found[n] {
                    node.siblings.next = Some(offset);
                }
            }
        }
        if !open.is_mapping || open.key.is_some() {
            return false;
        }
        if open.count == 0 {
            open.column = column;
        }
        open.key = Some(OpenKey { name: key.unwrap_or("\0").to_owned(), column, offset });
        true
    }

    /// Notes the path of the next node if it has an anchor.
    fn note_anchor(&mut self, anchor: Option<&str>) {
        if let Some(anchor) = anchor {
            let step =
                |open: &OpenNode| open.key.as_ref().map_or(open.count.to_string(), |key| key.name.clone());
            self.anchors.insert(anchor.to_owned(), self.open.iter().map(step).collect());
        }
    }

    /// Returns the start of the next node.
    fn start(&self, offset: usize, column: usize, anchor: Option<&str>) -> NodeStart {
        let key = self.open.last().and_then(|open| open.key.clone());
        NodeStart { offset, column, key, anchor: anchor.map(str::to_owned) }
    }

    /// Returns the paths that lead into the next node, and those to the node itself.
    fn wanted(&self) -> (Vec<usize>, Vec<usize>) {
        let Some(open) = self.open.last() else {
            return ((0..self.keys.len()).collect(), Vec::new());
        };
        let depth = self.open.len() - 1;
        let step = |n: &&usize| {
            let Some(wanted) = self.keys[**n].path().get(depth) else { return false };
            match &open.key {
                Some(key) => key.name == *wanted,
                None => !open.is_mapping && wanted.parse() == Ok(open.count),
            }
        };
        let here = open.inside.iter().filter(step).copied();
        here.partition(|n| self.keys[*n].path().len() > depth + 1)
    }

    fn obstruct(&mut self, inside: &[usize], why: &str) {
        let depth = self.open.len();
        for &n in inside {
            let known = self.keys[n].first(depth);
            let obstacle = Some(format!("{known} {why}"));
            self.places[n] = KeyPlace { depth, obstacle, ..KeyPlace::default() };
        }
    }

    fn begin(
        &mut self,
        (is_mapping, is_flow): (bool, bool),
        (start, column): (usize, usize),
        anchor: Option<&str>,
        tag: Option<&str>,
    ) {
        let is_key = self.take_key(None, column, start);
        let (inside, exact) = if is_key { (Vec::new(), Vec::new()) } else { self.wanted() };
        self.note_anchor(anchor);
        let is_wanted = !inside.is_empty() || !exact.is_empty();
        let start = if is_wanted { self.start(start, column, anchor) } else { NodeStart::default() };
        self.open.push(OpenNode {
            is_mapping,
            is_flow,
            key: None,
            count: 0,
            column,
            inside,
            exact,
            start,
            tag: tag.map(str::to_owned),
            last_end: None,
            unfinished: Vec::new(),
            is_key,
        });
    }

    fn close(&mut self, start: usize, end: usize) {
        let Some(closed) = self.open.pop() else { return };
        if closed.is_flow {
            self.end = end;
        }
        let depth = self.open.len();
        for &n in &closed.unfinished {
            if let Some(node) = &mut self.found[n] {
                node.siblings.close = Some(start);
            }
        }
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
            let known = self.keys[n].first(depth);
            let obstacle = (!closed.is_mapping)
                .then(|| format!("{known} is a sequence of {}, counted from 0", items(count)));
            self.places[n] = KeyPlace { depth, obstacle, mapping: Some(mapping), alias: None };
        }
        let kind = if closed.is_mapping { NodeKind::Mapping } else { NodeKind::Sequence };
        let node_end = self.end;
        self.record(&closed.exact, &closed.start, node_end, closed.tag.as_deref(), &kind(closed.count));
        if !closed.is_key {
            self.node_ended();
        }
    }

    fn node_ended(&mut self) {
        let end = self.end;
        if let Some(open) = self.open.last_mut() {
            open.key = None;
            open.count += 1;
            open.last_end = Some(end);
        }
    }

    /// Records a node at the end of paths.
    fn record(&mut self, exact: &[usize], start: &NodeStart, end: usize, tag: Option<&str>, kind: &NodeKind) {
        for &n in exact {
            let siblings = self.open.last().map(|parent| Siblings {
                is_flow: parent.is_flow,
                is_mapping: parent.is_mapping,
                parent: parent.start.clone(),
                before: parent.last_end,
                next: None,
                close: None,
            });
            self.found[n] = Some(FoundNode {
                range: start.offset..end.max(start.offset),
                start: start.clone(),
                kind: kind.clone(),
                tag: tag.map(str::to_owned),
                siblings: siblings.unwrap_or_default(),
            });
            if let Some(parent) = self.open.last_mut() {
                parent.unfinished.push(n);
            }
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
        set_as(text, pairs, Allowed { create, force: true }).map(|(new, _)| new)
    }

    /// Returns the new text and the warnings.
    fn set_as(text: &str, pairs: &[&str], allowed: Allowed) -> std::result::Result<(String, String), String> {
        let mut warnings = String::new();
        let assignments: Result<Vec<_>> = pairs.iter().map(|pair| Assignment::parse(pair)).collect();
        let new = assignments
            .and_then(|all| assign(text.as_bytes(), &all, allowed, &mut |warning| warnings += &warning));
        let new = new.map(|new| String::from_utf8(new).unwrap()).map_err(|error| error.message())?;
        Ok((new, warnings))
    }

    fn keys(paths: &[&str]) -> Vec<KeyPath> {
        paths.iter().map(|path| KeyPath::parse(path).unwrap()).collect()
    }

    fn unset(text: &str, paths: &[&str]) -> std::result::Result<String, String> {
        let new = remove(text.as_bytes(), &keys(paths));
        new.map(|new| String::from_utf8(new).unwrap()).map_err(|error| error.message())
    }

    fn get(text: &str, path: &str) -> std::result::Result<String, String> {
        value_at(text.as_bytes(), &keys(&[path])[0]).map_err(|error| error.message())
    }

    #[test]
    fn slashes_and_brackets_find_a_key_and_add_none() {
        let text = "m: {x: 1, y/z: 2}\ns:\n- {a: b}\nu[v]: 3\n";
        for (path, wanted) in [
            ("m/x", "1"),
            ("/m/x", "1"),
            ("m[x]", "1"),
            ("m['x']", "1"),
            ("m[\"x\"]", "1"),
            ("m.y/z", "2"),
            ("m/y\\/z", "2"),
            ("s[0].a", "b"),
            ("s[0][a]", "b"),
            ("s/0/a", "b"),
            ("u[v]", "3"),
        ] {
            assert_eq!(get(text, path).as_deref(), Ok(wanted), "{path}");
            let new = set(text, &[&format!("{path}=new")], true).unwrap();
            assert_eq!(new, text.replacen(wanted, "new", 1), "{path}");
        }
        for (path, dots) in [("m/q", "m.q"), ("m[q]", "m.q"), ("q/r", "q.r"), ("m/q.x", "m.q.x")] {
            let pair = format!("{path}=1");
            assert!(
                set(text, &[&pair], true).unwrap_err().contains(&format!("write {dots} to add it")),
                "{path}"
            );
            let advice = format!("write {dots} with --create to add it");
            assert!(set(text, &[&pair], false).unwrap_err().contains(&advice), "{path}");
            // The advice holds.
            assert_eq!(get(&set(text, &[&format!("{dots}=1")], true).unwrap(), dots).as_deref(), Ok("1"));
        }
        assert_eq!(set("a: 1\n", &["b\\/c=2"], true).as_deref(), Ok("a: 1\nb/c: 2\n"));
    }

    #[test]
    fn a_value_keeps_the_type_that_python_reads() {
        let any = Allowed { create: true, force: false };
        for (text, pair, wanted, warning) in [
            ("x: 1\n", "x=1e5", "x: 1.0e+5\n", ""),
            ("x: 1.5\n", "x=-2.5E-3", "x: -2.5E-3\n", ""),
            ("x: 1\n", "x=.5e3", "x: .5e+3\n", ""),
            ("x: 1\n", "x=NaN", "x: .nan\n", ""),
            ("x: 1\n", "x=-inf", "x: -.inf\n", ""),
            ("x: abc\n", "x=1e5", "x: 1e5\n", ""),
            ("x: 'a'\n", "x=1e5", "x: 1e5\n", ""),
            ("x: !!str 5\n", "x=1e5", "x: 1e5\n", ""),
            ("x: !!float 5\n", "x=1e5", "x: 1.0e+5\n", ""),
            ("x: !!int '5'\n", "x=abc", "x: abc\n", "x: it was a number, and Python reads \"abc\" as a text"),
            ("x: !core/complex-1.0.0 1\n", "x=1e5", "x: !core/complex-1.0.0 1e5\n", ""),
            ("x: 1\n", "x='1e5'", "x: \"1e5\"\n", ""),
            ("x: 1\n", "y=1e5", "x: 1\ny: 1.0e+5\n", ""),
            ("x: [1, 2]\n", "x=[1e5, a, '1e5', {1e5: 2e3}]", "x: [1.0e+5, a, \"1e5\", {1e5: 2.0e+3}]\n", ""),
            ("x: 1\n", "x=1e400", "x: 1.0e+400\n", "x: Python reads 1.0e+400 as infinity"),
            ("x: 1\n", "x=abc", "x: abc\n", "x: it was a number, and Python reads \"abc\" as a text"),
            ("x: yes\n", "x=abc", "x: abc\n", "x: it was true or false, and Python reads \"abc\" as a text"),
            ("x: 2020-01-01\n", "x=2021-02-03", "x: 2021-02-03\n", ""),
            ("x: '2020-01-01'\n", "x=2021-02-03", "x: \"2021-02-03\"\n", ""),
            ("x: !!str 2020-01-01\n", "x=2021-02-03", "x: \"2021-02-03\"\n", ""),
            ("x: '2020-01-01'\n", "x=5", "x: \"5\"\n", ""),
            ("x: '11:00:00'\n", "x=12:30:00", "x: \"12:30:00\"\n", ""),
            ("x: '1.0'\n", "x=1.10", "x: \"1.10\"\n", ""),
            (
                "x: '1.0'\n",
                "x=",
                "x: null\n",
                "x: it was a text, and Python reads null now; \"KEY=''\" sets an empty text",
            ),
            ("x: '1.0'\n", "x=''", "x: \"\"\n", ""),
            ("x: 1.0\n", "x=", "x: null\n", ""),
            ("x: V\n", "x=yes", "x: yes\n", "x: it was a text, and Python reads \"yes\" as true or false"),
            ("x: V\n", "x=5", "x: 5\n", "x: it was a text, and Python reads \"5\" as a number"),
            ("x: 1.5\n", "x=no", "x: no\n", "x: it was a number, and Python reads \"no\" as true or false"),
            ("x: 8\n", "x=010", "x: 010\n", "x: Python reads \"010\" in another base than ten"),
            ("x: 8\n", "x=12:30", "x: 12:30\n", "x: Python reads \"12:30\" in another base than ten"),
            ("x: 8\n", "x=0", "x: 0\n", ""),
            ("x: 8\n", "x=0.5", "x: 0.5\n", ""),
            ("x:\n", "x=1e5", "x: 1.0e+5\n", ""),
            (
                "x: 2020-01-01\n",
                "x=soon",
                "x: soon\n",
                "x: it was a date, and Python reads \"soon\" as a text",
            ),
            ("x: !!null 7\n", "x=8", "x: 8\n", ""),
            ("x: !!float 3\n", "x=4.5", "x: 4.5\n", ""),
            ("x: !<tag:yaml.org,2002:null> ''\n", "x=8", "x: 8\n", ""),
        ] {
            assert_eq!(
                set_as(text, &[pair], any),
                Ok((wanted.to_owned(), warning.to_owned())),
                "{text} {pair}"
            );
        }
    }

    #[test]
    fn a_line_that_is_a_mapping_by_its_colon_is_no_value() {
        for (value, why) in [
            ("M 31: the core", "in YAML this is a mapping; write it in quotes for a text, or in braces"),
            ("abc:", "in YAML this is a mapping; write it in quotes for a text, or in braces"),
            ("- 1", "in YAML this is a list; write it in quotes for a text, or in brackets"),
        ] {
            let pair = format!("x={value}");
            assert_eq!(set("x: a\n", &[&pair], false), Err(format!("{pair}: {why}")));
        }
        assert_eq!(set("x: a\n", &["x='M 31: the core'"], false).as_deref(), Ok("x: \"M 31: the core\"\n"));
        assert_eq!(set("x: a\n", &["x={M 31: the core}"], false).as_deref(), Ok("x: {M 31: the core}\n"));
        assert_eq!(set("x: a\n", &["x=a: 1\nb: 2"], false).as_deref(), Ok("x: {a: 1, b: 2}\n"));
    }

    #[test]
    fn blanks_around_the_equals_sign_are_no_part_of_key_and_value() {
        assert_eq!(set("x: a\n", &["x = B"], true).as_deref(), Ok("x: B\n"));
        assert_eq!(set("'x ': a\n", &["x\\ =B"], true).as_deref(), Ok("'x ': B\n"));
    }

    #[test]
    fn much_is_replaced_only_by_force() {
        for (text, pair, what) in [
            ("m: {x: 1, y: 2}\n", "m=X", "m is a mapping with 2 keys; --force replaces it"),
            ("m:\n  x: 1\n", "m={}", "m is a mapping with 1 key; --force replaces it"),
            ("m: !core/ndarray-1.1.0\n  source: 0\n", "m=", "m is an array; --force replaces it"),
            ("m: !core/ndarray-1.1.0 [1]\n", "m=[2]", "m is an array; --force replaces it"),
            ("m: [1, 2]\n", "m=3", "m is a sequence of 2 items; --force replaces it"),
        ] {
            let error = set_as(text, &[pair], Allowed::default()).unwrap_err();
            assert_eq!(error, format!("m: {what}"), "{text}");
            set(text, &[pair], false).unwrap();
        }
        for (text, pair) in
            [("m: [1, 2]\n", "m=[3]"), ("m: {}\n", "m=1"), ("m: []\n", "m=1"), ("m: 1\n", "m={x: 1}")]
        {
            set_as(text, &[pair], Allowed::default()).unwrap();
        }
    }

    #[test]
    fn a_key_is_removed_and_all_else_stays() {
        for (text, paths, wanted) in [
            ("a: 1 # one\n# two\nb: 2\n", &["a"][..], "# two\nb: 2\n"),
            ("a: 1\nb: 2", &["b"], "a: 1"),
            ("a: 1\n", &["a"], "{}\n"),
            ("a: 1\nb: 2\n", &["a", "b"], "{}\n"),
            ("m:\n  x: 1\n  y: 2\nz: 3\n", &["m.x"], "m:\n  y: 2\nz: 3\n"),
            ("m:\n  x: 1\nz: 3\n", &["m.x"], "m:\n  {}\nz: 3\n"),
            ("m:\n  x: 1\n  y: 2\nz: 3\n", &["m.y", "m.x"], "m:\n  {}\nz: 3\n"),
            ("m:\n  x:\n    q: 1\n    r: [1,\n      2]\n  y: 2\n", &["m.x"], "m:\n  y: 2\n"),
            ("m:\n  x: |\n    a\n    b\n  y: 2\n", &["m.x"], "m:\n  y: 2\n"),
            ("m:\n  x: |\n    a\nz: 2\n", &["m.x"], "m:\n  {}\nz: 2\n"),
            ("m:\n  x:\n  y: 2\n", &["m.x"], "m:\n  y: 2\n"),
            ("m: {x: 1, y: 2, z: 3}\n", &["m.x"], "m: {y: 2, z: 3}\n"),
            ("m: {x: 1, y: 2, z: 3}\n", &["m.y"], "m: {x: 1, z: 3}\n"),
            ("m: {x: 1, y: 2, z: 3}\n", &["m.z"], "m: {x: 1, y: 2}\n"),
            ("m: {x: 1, y: 2, z: 3 }\n", &["m.x", "m.z"], "m: {y: 2}\n"),
            ("m: {x: 1, y: 2}\n", &["m.x", "m.y"], "m: {}\n"),
            ("m: { x: , y: 1}\n", &["m.x"], "m: { y: 1}\n"),
            ("s: [1, [2, 3], 4]\n", &["s.1"], "s: [1, 4]\n"),
            ("s: [1]\n", &["s.0"], "s: []\n"),
            ("s:\n- 1\n- 2 # two\n- 3\n", &["s.1"], "s:\n- 1\n- 3\n"),
            ("s:\n- 1\n- 2\n- 3\n", &["s.0", "s.1"], "s:\n- 3\n"),
            ("s:\n- 1\nt: 2\n", &["s.0"], "s:\n  []\nt: 2\n"),
            ("s:\n- a: 1\n  b: 2\n", &["s.0.a"], "s:\n- b: 2\n"),
            ("s:\n- a: 1\n  # c\n  b: 2\n", &["s.0.a"], "s:\n- \n  # c\n  b: 2\n"),
            ("s:\n- a: 1\n  b: 2\n", &["s.0.b"], "s:\n- a: 1\n"),
            ("s:\n- a: 1\nt: 2\n", &["s.0.a"], "s:\n- {}\nt: 2\n"),
            ("s:\n- - 1\n  - 2\n", &["s.0.0"], "s:\n- - 2\n"),
            ("m: &a !x\n  k: 1\n  l: 2\nn: *a\n", &["n"], "m: &a !x\n  k: 1\n  l: 2\n"),
            ("m/n: 1\no: {p: 2, q: 3}\n", &["o/p"], "m/n: 1\no: {q: 3}\n"),
        ] {
            assert_eq!(unset(text, paths).as_deref(), Ok(wanted), "{text} {paths:?}");
            read(wanted);
        }
        for (text, paths, why) in [
            ("a: 1\n", &["b"][..], "b: the root has no key \"b\""),
            ("a: {b: 1}\n", &["a.c"], "a.c: a has no key \"c\""),
            ("a: [1]\n", &["a.1"], "a.1: a is a sequence of 1 item, counted from 0"),
            ("a: [1, 2]\n", &["a.0", "a.0"], "a.0: it is removed twice"),
            ("? a\n: 1\nb: 2\n", &["a"], "a: it is written in an unusual way; remove it with --edit"),
            ("s: [a: 1]\n", &["s.0.a"], "s.0.a: it is written in an unusual way; remove it with --edit"),
        ] {
            assert_eq!(unset(text, paths), Err(why.to_owned()), "{text} {paths:?}");
        }
    }

    #[test]
    fn a_value_is_returned_as_text_or_yaml() {
        for (text, path, wanted) in [
            ("a: 'it''s' # c\n", "a", "it's"),
            ("a:\nb: 1\n", "a", ""),
            ("a: |\n  x\n  y\nb: 1\n", "a", "x\ny\n"),
            ("m:\n  x: 1\n  y:\n    z: [1,\n      2]\nb: 1\n", "m", "x: 1\ny:\n  z: [1,\n    2]"),
            ("m:\n  y:\n    z: 1\nb: 1\n", "m", "y:\n  z: 1"),
            ("m: !x\n  y: 1\n  z: 2\n", "m", "!x\ny: 1\nz: 2"),
            ("m: {a: [1, 2]}\n", "m.a", "[1, 2]"),
            ("s:\n- a: 1\n  b: 2\n", "s.0", "a: 1\nb: 2"),
            ("s:\n- a\n- b\n", "s", "- a\n- b"),
            ("t: !time/time-1.1.0 2020-01-01\n", "t", "2020-01-01"),
            ("b: &x {c: &y 1}\na: *x\nd: *y\n", "a.c", "1"),
            ("b: &x {c: &y 1}\na: *x\nd: *y\n", "a", "&x {c: &y 1}"),
            ("b: &x {c: &y 1}\na: *x\nd: *y\n", "d", "1"),
            ("s: [&x {c: 1}]\na: {z: *x}\n", "a.z.c", "1"),
            ("m: {a/b: 1}\n", "m[a/b]", "1"),
            ("m: {a.b: {c: 1}}\n", "m['a.b'].c", "1"),
            ("%ASDF 1.0\n%YAML 1.1\n---\na: 1\n...\n", "a", "1"),
        ] {
            assert_eq!(get(text, path).as_deref(), Ok(wanted), "{text} {path}");
        }
        assert_eq!(get("a: 1\n", "a.b"), Err("a.b: a is a single value, not a mapping".to_owned()));
        assert_eq!(get("a=1: 2\n", "a\\=1").as_deref(), Ok("2"));
        for path in ["", "a..b", "a=1"] {
            assert!(KeyPath::parse(path).is_err(), "{path}");
        }
    }

    /// A text that is valid YAML.
    fn read(text: &str) {
        each_event_in(text.as_bytes(), |_| Ok::<_, Error>(true)).expect(text);
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
        for (text, pairs, wanted) in [
            ("m:\n  x: 1\n", &["m.a=1", "m.b=2"][..], "m:\n  x: 1\n  a: 1\n  b: 2\n"),
            ("m: {}\n", &["m.a=1", "m.b=2"], "m: {a: 1, b: 2}\n"),
            ("a: 1\n", &["n.a=1e5", "n.b=2", "q=3", "n.c.d=4", "n.c.e=5"], {
                "a: 1\nn: {a: 1.0e+5, b: 2, c: {d: 4, e: 5}}\nq: 3\n"
            }),
            ("m: {x: 1}\nn: |\n  t\n", &["m.q.a=1", "r.a=1", "m.q.b=2", "r.b=2"], {
                "m: {x: 1, q: {a: 1, b: 2}}\nn: |\n  t\nr: {a: 1, b: 2}\n"
            }),
        ] {
            assert_eq!(set(text, pairs, true).as_deref(), Ok(wanted), "{text} {pairs:?}");
        }
    }

    #[test]
    fn what_can_not_be_set_says_why() {
        for (text, pair, create, why) in [
            ("a: {b: 1}\n", "a.c=1", false, "a.c: a has no key \"c\"; --create adds it"),
            ("a: {b: 1}\n", "c=1", false, "c: the root has no key \"c\"; --create adds it"),
            ("a: 1\n", "a.b=1", true, "a.b: a is a single value, not a mapping"),
            ("a: [1]\n", "a.1=1", true, "a.1: a is a sequence of 1 item, counted from 0"),
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
        for twice in [["n=1", "n=2"], ["n=1", "n.a=2"], ["n.a=1", "n=2"]] {
            assert!(set("a: 1\n", &twice, true).unwrap_err().contains("set twice"), "{twice:?}");
        }
        let deep = format!("{}=1", vec!["k"; 1001].join("."));
        assert!(Assignment::parse(&deep).is_err() && KeyPath::parse(&"k.".repeat(100_000)).is_err());
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
            each_event_in(new.as_bytes(), |event| -> Result<bool> {
                if let What::Scalar { value, .. } = event.what {
                    scalars.push(value.to_owned());
                }
                Ok(true)
            }).unwrap();
            proptest::prop_assert_eq!(scalars, ["m", "x", value.as_str(), "y", "2"], "{}", new);
        }
    }
}
