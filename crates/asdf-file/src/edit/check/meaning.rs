//! Finds faults that would keep Python asdf from opening the file, or from finding the same data in it.

use std::collections::{BTreeSet, HashMap, HashSet};

use asdf_tree::schema::remove_explained;
use asdf_tree::yaml::event::{Failure, Mark};
use asdf_tree::yaml::survey::{Broken, Paths, Root, Wrong};

use super::arrays::{ArrayNode, TreeFacts};
use super::prologue::{Prologue, words};
use super::{BlockSizes, Class, Draft, Fault, Judgement, Old, lost, offset};
use crate::asdf::ndarray::{Ndarray, Source};

/// Maximum nesting that Python asdf can read. It makes 4 nested calls for each level, and Python allows
/// 1000 nested calls.
const MAX_DEPTH: usize = 247;
/// The prefixes of a root's tag, in all editions of the standard.
const ROOT_TAGS: [&str; 2] = ["tag:stsci.edu:asdf/core/asdf-", "tag:stsci.edu:asdf/0.1.0/core/asdf"];

/// Compares a text with the text that it replaces, and returns the newly introduced problems.
pub(super) fn problems(
    draft: &Draft<'_, '_>,
    facts: &Result<TreeFacts, Box<Broken>>,
    old: &Old,
    blocks: &dyn BlockSizes,
) -> Judgement {
    let mut judgement = Judgement::default();
    if let (Err(error), true) = (std::str::from_utf8(draft.text), old.is_utf8) {
        let what = "the text is not in UTF-8";
        judgement.problems.push(draft.fault(error.valid_up_to(), what, "save it as UTF-8"));
        return judgement;
    }
    prologue(draft, old, &mut judgement);
    match (facts, &old.facts) {
        (Err(broken), was) => {
            let problem = broken_yaml(draft, broken);
            match was {
                // The old text was not valid YAML, either, or it was too large, too, so this is only a warning.
                Err(was) if broken.too_large || !was.too_large => judgement.warnings.push(problem),
                _ => judgement.problems.push(problem),
            }
        }
        (Ok(facts), was) => {
            Comparison { draft, facts, was: was.as_ref().ok(), blocks }.compare(old, &mut judgement)
        }
    }
    judgement.problems.sort_by_key(|fault| fault.offset.unwrap_or(usize::MAX));
    judgement
}

fn broken_yaml(draft: &Draft<'_, '_>, broken: &Broken) -> Fault {
    let class = if broken.too_large { Class::TooLarge } else { Class::Invalid };
    let Some(failure) = &broken.failure else {
        return Fault { class, ..Fault::of_all(broken.error.message(), "make the tree smaller") };
    };
    if broken.too_large {
        let what = format!("the tree is too large: {}", failure.problem);
        return Fault { class, ..draft.fault(offset(failure.place), what, "make the tree smaller") };
    }
    let what = format!("this is not valid YAML: {}", failure.problem);
    let to_do = match not_closed(draft.text, failure) {
        Some(to_do) => to_do,
        None => advice(draft.text, offset(failure.place)).to_owned(),
    };
    Fault { class, ..draft.fault(offset(failure.place), what, &to_do) }
}

/// Returns the line of a text with the byte at an offset, and the offset of the line.
fn line_at(text: &[u8], at: usize) -> (&[u8], usize) {
    let start = text.get(..at).and_then(|before| memchr::memrchr(b'\n', before)).map_or(0, |end| end + 1);
    let rest = text.get(start..).unwrap_or_default();
    (rest.get(..memchr::memchr(b'\n', rest).unwrap_or(rest.len())).unwrap_or_default(), start)
}

/// Returns the advice for a bracket or quote of an earlier line that is not closed at the error. The line is quoted,
/// because its number may differ in the text as written.
fn not_closed(text: &[u8], failure: &Failure) -> Option<String> {
    const LONGEST: usize = 50;
    let began = failure.began.filter(|began| began.line < failure.place.line)?;
    let (line, start) = line_at(text, offset(began));
    let opening = char::from(*text.get(offset(began))?);
    if !matches!(opening, '[' | '{' | '"' | '\'') {
        return None;
    }
    let from = offset(began).saturating_sub(start).saturating_sub(LONGEST / 2);
    let quoted: String = String::from_utf8_lossy(line.get(from..)?).trim().chars().take(LONGEST).collect();
    Some(format!("close the {opening} in the line '{quoted}', or correct the text here"))
}

/// Returns the advice for a syntax error at an offset: for a tab in the indentation, for a colon in a value or a
/// first character that none may have, or in general.
fn advice(text: &[u8], at: usize) -> &'static str {
    let (line, start) = line_at(text, at);
    let indentation = line.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let column = at.saturating_sub(start);
    if line.get(..indentation).is_some_and(|blanks| blanks.contains(&b'\t')) {
        return "replace the tab by blanks: YAML allows no tabs in the indentation";
    }
    if line.get(column) == Some(&b'\t') {
        return "replace the tab by blanks: YAML allows none here";
    }
    let before = line.get(..column).unwrap_or_default();
    let is_colon = line.get(column) == Some(&b':');
    if is_colon && before.windows(2).any(|two| matches!(two, b": " | b":\t")) {
        return "put the value in quotes: a colon and a blank in it would begin another key";
    }
    if line.get(column).is_some_and(|letter| b"@`%".contains(letter)) {
        return "put the value in quotes: none begins with @, ` or %";
    }
    "correct the text here, or shortly before"
}

/// Checks the lines before the document. Their versions must stay, and Python asdf must be able to read them.
fn prologue(draft: &Draft<'_, '_>, old: &Old, judgement: &mut Judgement) {
    let (is, was) = (Prologue::of(draft.text), Prologue::of(&old.head));
    for (now, before, name) in
        [(&is.standard, &was.standard, "#ASDF_STANDARD"), (&is.yaml, &was.yaml, "%YAML")]
    {
        let (Some(now), Some(before)) = (now, before) else { continue };
        let before = &old.head[before.clone()];
        if words(&draft.text[now.clone()]) != words(before) {
            let before = String::from_utf8_lossy(before);
            let what =
                format!("the version in the line {name} was changed; it was \"{}\"", before.trim_end());
            let to_do = "restore the line: another version gives the tree another meaning";
            judgement.problems.push(draft.fault(now.start, what, to_do));
        }
    }
    let must_be_readable = is.has_tree(draft.text) && !old.unreadable;
    if let Some((at, what)) = must_be_readable.then(|| is.unreadable(draft.text)).flatten() {
        let to_do =
            "begin the tree with the line '%YAML 1.1', right after the comments that follow the header line";
        judgement.problems.push(draft.fault(at, what, to_do));
    }
    if !is.has_tree(draft.text) && old.has_tree {
        judgement.problems.push(Fault::of_all("the tree is gone", "restore it"));
    }
}

struct Comparison<'c> {
    draft: &'c Draft<'c, 'c>,
    facts: &'c TreeFacts,
    was: Option<&'c TreeFacts>,
    blocks: &'c dyn BlockSizes,
}

impl Comparison<'_> {
    fn fault(&self, place: Mark, what: impl Into<String>, to_do: &str) -> Fault {
        self.fault_at(place.offset, what, to_do)
    }

    fn fault_at(&self, at: u64, what: impl Into<String>, to_do: &str) -> Fault {
        self.draft.fault(at as usize, what, to_do)
    }

    fn compare(&self, old: &Old, judgement: &mut Judgement) {
        if old.has_tree && Prologue::of(self.draft.text).has_tree(self.draft.text) {
            judgement.problems.extend(self.root());
        }
        judgement.problems.extend(self.depth());
        self.findings(judgement);
        judgement.problems.extend(self.lost_tags());
        lost::tags(self.draft, &self.facts.survey, judgement);
        lost::readings(self.draft, &self.facts.survey, judgement);
        self.arrays(judgement);
        self.unused_blocks(judgement);
        self.other_types(judgement);
        self.schemas(judgement);
    }

    /// Checks that the root is still a mapping with its tag.
    fn root(&self) -> Option<Fault> {
        let was = self.was?.survey.root.as_ref()?;
        let to_do = "restore it: without this tag, readers do not recognise the file as ASDF";
        let Some(is) = &self.facts.survey.root else {
            return Some(Fault::of_all("the tree is gone", "restore it"));
        };
        let is_root = |root: &Root| {
            root.tag.as_deref().is_some_and(|tag| ROOT_TAGS.iter().any(|start| tag.starts_with(start)))
        };
        match (&was.tag, &is.tag) {
            (Some(was), None) => {
                let what = format!("the root of the tree has lost its tag, {was}");
                return Some(self.fault_at(is.at, what, to_do));
            }
            (Some(tag), Some(other)) if is_root(was) && !is_root(is) => {
                let what = format!("the tag of the root was changed from {tag} to {}", other.escape_debug());
                return Some(self.fault_at(is.at, what, to_do));
            }
            _ => {}
        }
        let what = "the root of the tree is no longer a mapping";
        (was.mapping && !is.mapping).then(|| self.fault_at(is.at, what, "restore the keys and their values"))
    }

    fn depth(&self) -> Option<Fault> {
        let (depth, at) = self.facts.survey.depth;
        let was = self.was.map_or(0, |was| was.survey.depth.0);
        (depth > MAX_DEPTH.max(was)).then(|| {
            let what = format!("the tree is {depth} levels deep; Python asdf reads at most {MAX_DEPTH}");
            self.fault_at(at, what, "reduce the nesting")
        })
    }

    /// Reports nodes that are valid YAML but refused by readers.
    fn findings(&self, judgement: &mut Judgement) {
        let mut known = OldFaults::default();
        for finding in self.was.iter().flat_map(|was| &was.survey.findings) {
            known.add(finding.identity);
        }
        for finding in &self.facts.survey.findings {
            let problem = self.fault_at(finding.at, finding.what.clone(), to_do(finding.wrong));
            match finding.wrong {
                _ if known.remove(finding.identity) => {}
                Wrong::LargeInteger => judgement.warnings.push(problem),
                _ => judgement.problems.push(problem),
            }
        }
    }

    /// Finds arrays that are still there, but no longer recognised as arrays.
    fn lost_tags(&self) -> Vec<Fault> {
        let to_do = "restore the tag, as in '!core/ndarray-1.1.0'; a tool that drops tags can't be used here";
        let Some(was) = self.was.filter(|was| !was.arrays.is_empty()) else { return Vec::new() };
        let here = identities(&self.facts.nodes.paths, &self.facts.arrays);
        let before = identities(&was.nodes.paths, &was.arrays);
        let untagged_before: HashSet<u64> =
            was.nodes.untagged.iter().map(|(path, _)| was.nodes.paths.identity(*path, true)).collect();
        let any_vanished = before.iter().any(|path| !here.contains(path));
        let mut lost: Vec<Fault> = Vec::new();
        for (path, place) in &self.facts.nodes.untagged {
            let identity = self.facts.nodes.paths.identity(*path, true);
            let was_array = before.contains(&identity);
            if was_array || (any_vanished && !untagged_before.contains(&identity)) {
                let name = self.facts.nodes.paths.show(*path);
                lost.push(self.fault(*place, format!("the array {name} has lost its ndarray tag"), to_do));
                if lost.len() > super::MAX_FURTHER {
                    break;
                }
            }
        }
        // If there is no tree, only its absence is reported.
        if lost.is_empty() && self.facts.arrays.is_empty() && self.facts.survey.root.is_some() {
            let what = match was.arrays.len() {
                1 => "the only ndarray of the tree is gone".to_owned(),
                count => format!("all {count} ndarrays of the tree are gone"),
            };
            lost.push(Fault::of_all(what, "restore at least one, or mount with -o validate=off"));
        }
        lost
    }

    /// Reports faults in ndarrays that the old text did not have.
    fn arrays(&self, judgement: &mut Judgement) {
        self.moved_out(judgement);
        let mut faults: Vec<_> =
            self.facts.arrays.iter().filter_map(|node| Some((node, self.array_fault(node)?))).collect();
        if faults.is_empty() {
            return;
        }
        let mut known = OldFaults::default();
        for (was, node) in self.was.iter().flat_map(|was| was.arrays.iter().map(move |node| (was, node))) {
            if let Some((_, what, _)) = self.array_fault(node) {
                known.add((was.nodes.paths.identity(node.path, false), what));
            }
        }
        faults.retain(|(node, (_, what, _))| {
            !known.remove((self.facts.nodes.paths.identity(node.path, false), what.clone()))
        });
        for (node, (place, what, to_do)) in faults {
            let name = self.facts.nodes.paths.show(node.path);
            judgement.problems.push(self.fault(place, format!("{name}: {what}"), to_do));
        }
    }

    /// Reports arrays that were in a block and now have another file as their source. This is hardly ever
    /// intended, as the data are not there.
    fn moved_out(&self, judgement: &mut Judgement) {
        let external = |node: &&ArrayNode| {
            matches!(&node.array, Ok(Ndarray { source: Source::External(_) | Source::Hdu(_), .. }))
        };
        let mut moved = self.facts.arrays.iter().filter(external).peekable();
        let (Some(was), Some(_)) = (self.was, moved.peek()) else { return };
        let in_block =
            |node: &&ArrayNode| matches!(&node.array, Ok(Ndarray { source: Source::Block(_), .. }));
        let before: HashSet<u64> = was
            .arrays
            .iter()
            .filter(in_block)
            .map(|node| was.nodes.paths.identity(node.path, true))
            .collect();
        for node in moved.filter(|node| before.contains(&self.facts.nodes.paths.identity(node.path, true))) {
            let name = self.facts.nodes.paths.show(node.path);
            let what = format!("{name}: it was in a block of this file, but its source is now another file");
            judgement.problems.push(self.fault(node.place, what, "write the number of the block"));
        }
    }

    /// Warns about blocks that an array used, and that none uses any more.
    fn unused_blocks(&self, judgement: &mut Judgement) {
        // An array with a wrong source is reported already.
        if !judgement.problems.is_empty() {
            return;
        }
        let Some(was) = self.was else { return };
        let count = self.blocks.count();
        let used = |arrays: &[ArrayNode]| -> BTreeSet<usize> {
            let block =
                |node: &ArrayNode| node.array.as_ref().ok().and_then(|array| array.source.block(count));
            arrays.iter().filter_map(block).collect()
        };
        let before = used(&was.arrays);
        let now = used(&self.facts.arrays);
        let mut unused = before.difference(&now);
        let Some(first) = unused.next() else { return };
        let more = unused.count();
        let size = self.blocks.size(*first).map_or_else(String::new, |size| format!(" ({size} bytes)"));
        let what = if more == 0 {
            format!("block {first}{size} is not used by any array now; it stays in the file")
        } else {
            format!(
                "block {first}{size} and {more} others are not used by any array now; they stay in the file"
            )
        };
        let to_do =
            "asdf-mount --undo takes the save back; a copy written by Python's asdf lacks such blocks";
        judgement.warnings.push(Fault::of_all(what, to_do));
    }

    /// Returns the fault in an ndarray: its place, a message, and the advice.
    fn array_fault(&self, node: &ArrayNode) -> Option<(Mark, String, &'static str)> {
        let array = match &node.array {
            Ok(array) => array,
            Err(fault) => return Some((fault.place, fault.what.clone(), "correct it")),
        };
        let Source::Block(source) = array.source else { return None };
        let count = self.blocks.count();
        let Some(n) = array.source.block(count) else {
            let what = match count {
                0 => format!("its source is block {source}, and the file has no blocks"),
                1 => format!("its source is block {source}, and the file has only block 0"),
                _ => format!("its source is block {source}, and the file has blocks 0 to {}", count - 1),
            };
            return Some((node.place, what, "name a block that exists"));
        };
        let size = self.blocks.size(n)?;
        let too_large = array.extent(size)?.err()?;
        let what = format!("it does not fit in block {n}, which has {size} bytes: {too_large}");
        Some((node.place, what, "correct its shape, datatype, offset or strides"))
    }

    /// Reports nodes that do not fit the schemas, and did in the old text. Nodes that can't be checked are warnings.
    fn schemas(&self, judgement: &mut Judgement) {
        let mut known = OldFaults::default();
        for violation in self.was.iter().flat_map(|was| &was.violations) {
            known.add(violation.identity);
        }
        let mut new = self.facts.violations.clone();
        new.retain(|violation| violation.unchecked || !known.remove(violation.identity));
        remove_explained(&mut new);
        for violation in new {
            let to_do = "correct it: software that validates the file refuses it";
            let fault = self.fault_at(violation.at, violation.what, to_do);
            if violation.unchecked {
                judgement.warnings.push(fault);
            } else {
                judgement.problems.push(fault);
            }
        }
    }

    /// Reports faults in nodes of the standard's other types that the old text did not have.
    fn other_types(&self, judgement: &mut Judgement) {
        let mut known = OldFaults::default();
        for (was, (path, fault)) in
            self.was.iter().flat_map(|was| was.unfit.iter().map(move |unfit| (was, unfit)))
        {
            known.add((was.nodes.paths.identity(*path, false), fault.what.as_str()));
        }
        for (path, fault) in &self.facts.unfit {
            if !known.remove((self.facts.nodes.paths.identity(*path, false), fault.what.as_str())) {
                let name = self.facts.nodes.paths.show(*path);
                let to_do = "correct it: Python asdf can't read such a node";
                judgement.problems.push(self.fault(fault.place, format!("{name}: {}", fault.what), to_do));
            }
        }
    }
}

fn identities(paths: &Paths, arrays: &[ArrayNode]) -> HashSet<u64> {
    arrays.iter().map(|node| paths.identity(node.path, true)).collect()
}

/// The faults of the old text, each with its count.
#[derive(Debug)]
struct OldFaults<T>(HashMap<T, usize>);

impl<T> Default for OldFaults<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: std::hash::Hash + Eq> OldFaults<T> {
    fn add(&mut self, thing: T) {
        *self.0.entry(thing).or_default() += 1;
    }

    /// Removes one of these faults; true if there was one.
    fn remove(&mut self, thing: T) -> bool {
        match self.0.get_mut(&thing) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }
}

fn to_do(wrong: Wrong) -> &'static str {
    match wrong {
        Wrong::DuplicateKey => "remove one of the two: readers see only the last",
        Wrong::UndefinedAlias => "define the anchor (&name) before its alias (*name)",
        Wrong::RepeatedAnchor => "give one of the two anchors another name",
        Wrong::UnhashableKey => "write the key as a text or a number; quotes make a text",
        Wrong::Unfit => "correct it, or put it in quotes (and remove its tag) if it is meant as text",
        Wrong::Merge => "give a mapping to merge, or quote the key if it is meant as text",
        Wrong::SecondDocument => "a tree is one document: remove the second one",
        Wrong::LargeInteger => "write it as !core/integer, or in quotes",
    }
}
