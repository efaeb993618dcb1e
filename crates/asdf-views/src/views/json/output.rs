//! The text of JSON: each member has a line of its own; items share lines.

use asdf_tree::limits::MAX_MADE;
use asdf_tree::yaml::document::Id;

use super::Tags;
use super::nulls::Nulls;
use super::scalar::{Json, reference, string};

/// Maximum length of a scalar's JSON, in bytes, that is repeated for each alias.
pub(super) const SHORT: usize = 256;
/// Maximum number of indentation levels.
const MAX_INDENT: usize = 40;
/// Reserved names of the tagged form, without their `$`.
const RESERVED_NAMES: [&str; 3] = ["ref", "tag", "value"];

/// A text of JSON that is being written.
#[derive(Debug)]
pub(super) struct JsonOutput {
    tags: Tags,
    /// True if the text has neither line breaks nor indentation.
    is_one_line: bool,
    /// The text, which the caller removes regularly.
    pub(super) bytes: Vec<u8>,
    /// Bytes that long references have added to the text.
    added: usize,
    /// The aliases that are null.
    pub(super) nulls: Nulls,
}

impl JsonOutput {
    pub(super) fn new(tags: Tags) -> Self {
        Self { tags, is_one_line: false, bytes: Vec::new(), added: 0, nulls: Nulls::default() }
    }

    /// Begins a text in one line, without tags.
    pub(super) fn in_one_line() -> Self {
        Self { is_one_line: true, ..Self::new(Tags::Dropped) }
    }

    /// Begins a collection.
    pub(super) fn open(&mut self, is_mapping: bool, tag: Option<&str>) {
        if let Some(tag) = tag.filter(|_| self.tags == Tags::Kept) {
            self.open_tag(tag);
        }
        self.bytes.push(if is_mapping { b'{' } else { b'[' });
    }

    /// Ends a sequence, or a mapping without members.
    pub(super) fn close(&mut self, is_mapping: bool, has_tag: bool) {
        self.bytes.push(if is_mapping { b'}' } else { b']' });
        if has_tag && self.tags == Tags::Kept {
            self.bytes.push(b'}');
        }
    }

    /// Ends the text.
    pub(super) fn finish(&mut self) {
        if !self.is_one_line {
            self.bytes.push(b'\n');
        }
    }

    /// Begins a line within this number of mappings.
    pub(super) fn new_line(&mut self, depth: usize) {
        if !self.is_one_line {
            self.bytes.push(b'\n');
            self.bytes.extend(std::iter::repeat_n(b' ', 2 * depth.min(MAX_INDENT)));
        }
    }

    /// Begins an item.
    pub(super) fn item(&mut self, is_first: bool) {
        if !is_first {
            self.bytes.extend_from_slice(b", ");
        }
    }

    /// Begins a member within this number of mappings.
    pub(super) fn member(&mut self, name: &str, is_first: bool, depth: usize) {
        if !is_first {
            self.bytes.push(b',');
        }
        self.new_line(depth);
        let bare = name.trim_start_matches('$');
        let is_reserved = bare.len() < name.len() && RESERVED_NAMES.contains(&bare);
        if is_reserved && self.tags == Tags::Kept {
            string(&format!("${name}"), &mut self.bytes);
        } else {
            string(name, &mut self.bytes);
        }
        self.bytes.extend_from_slice(b": ");
    }

    pub(super) fn scalar(&mut self, json: &Json<'_>, tag: Option<&str>) {
        if self.tags == Tags::Dropped {
            json.write(&mut self.bytes);
            return;
        }
        let implied = json.implied_tag();
        match tag.or(implied.as_deref()) {
            Some(tag) => {
                self.open_tag(tag);
                json.write_tagged(&mut self.bytes);
                self.bytes.push(b'}');
            }
            None => json.write(&mut self.bytes),
        }
    }

    /// Writes a copy of a scalar if it is short. False if it is long.
    pub(super) fn short_scalar(&mut self, json: &Json<'_>, tag: Option<&str>) -> bool {
        let begun = self.bytes.len();
        self.scalar(json, tag);
        let is_short = self.bytes.len() - begun <= SHORT && json.name().len() <= SHORT;
        if !is_short {
            self.bytes.truncate(begun);
        }
        is_short
    }

    /// Returns the number of bytes that a pointer may have.
    pub(super) fn max_pointer(&self) -> usize {
        MAX_MADE - self.added + SHORT
    }

    /// Writes a reference to the node at a path, or null if there is no path. A member that a merge key brings is no
    /// alias.
    pub(super) fn refer(&mut self, path: std::result::Result<&str, &'static str>, alias: Option<Id>) {
        let begun = self.bytes.len();
        let why = match path {
            Ok(path) => {
                reference(path, &mut self.bytes);
                let added = (self.bytes.len() - begun).saturating_sub(SHORT);
                if self.added + added <= MAX_MADE {
                    self.added += added;
                    return;
                }
                self.bytes.truncate(begun);
                Nulls::TOO_LONG
            }
            Err(why) => why,
        };
        self.bytes.extend_from_slice(b"null");
        if let Some(alias) = alias {
            self.nulls.add(alias, why);
        }
    }

    fn open_tag(&mut self, tag: &str) {
        self.bytes.extend_from_slice(b"{\"$tag\": ");
        string(tag, &mut self.bytes);
        self.bytes.extend_from_slice(b", \"$value\": ");
    }
}
