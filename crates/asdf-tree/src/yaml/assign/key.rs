//! The path of a key, as the user writes it.

use std::fmt;

use super::KeyPlace;
use crate::limits::MAX_DEPTH;
use seekable::error::{Error, Kind, Result, one_line};

/// The path of a key: `meta.exposure.filter`.
///
/// Dots separate keys; a backslash makes the next character part of a key; a number is the position in a sequence,
/// from 0. If there is no such key, slashes and brackets separate keys, too: `meta/filter`, `steps[2]`, `meta['filter']`;
/// between brackets, dots and slashes are part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPath {
    path: Vec<String>,
    /// The path in which slashes and brackets separate keys, unless it is the same.
    dotted: Option<Vec<String>>,
    is_dotted: bool,
    /// The path as the user wrote it.
    shown: String,
}

impl KeyPath {
    /// Parses a path.
    ///
    /// # Errors
    /// A key is empty, or the path has an equals sign without a backslash.
    pub fn parse(text: &str) -> Result<Self> {
        match Self::before_equals(text)? {
            (key, None) => Ok(key),
            (key, Some(_)) => {
                let why = format!("give the key alone, {key}; in a key, = is written \\=");
                Err(Error::new(Kind::Usage, format!("{text}: {why}")))
            }
        }
    }

    /// Parses a path up to an equals sign. Returns the text after that, too.
    pub(super) fn before_equals(text: &str) -> Result<(Self, Option<&str>)> {
        let mut path = vec![String::new()];
        let mut dotted = path.clone();
        let mut is_in_brackets = false;
        let mut letters = text.char_indices();
        let mut end = text.len();
        while let Some((at, letter)) = letters.next() {
            let (Some(key), Some(other)) = (path.last_mut(), dotted.last_mut()) else { break };
            match letter {
                '=' => {
                    end = at;
                    break;
                }
                '.' => {
                    path.push(String::new());
                    if is_in_brackets { other.push('.') } else { dotted.push(String::new()) }
                }
                '\\' => {
                    let escaped = letters.next().map(|(_, escaped)| escaped);
                    key.extend(escaped);
                    other.extend(escaped);
                }
                letter => {
                    key.push(letter);
                    match letter {
                        '[' => dotted.push(String::new()),
                        '/' if !is_in_brackets => dotted.push(String::new()),
                        ']' | '\'' | '"' if is_in_brackets => {}
                        letter => other.push(letter),
                    }
                    is_in_brackets = letter == '[' || is_in_brackets && letter != ']';
                }
            }
        }
        // A blank before the equals sign is a slip, unless a backslash is before it.
        if !text[..end].ends_with("\\ ") {
            for last in [path.last_mut(), dotted.last_mut()].into_iter().flatten() {
                last.truncate(last.trim_end().len());
            }
        }
        if path.iter().any(String::is_empty) {
            let why = "a key is empty; a path is written as in meta.filter";
            return Err(Error::new(Kind::Usage, format!("{text}: {why}")));
        }
        if path.len() > MAX_DEPTH {
            let why = format!("the path has more than {MAX_DEPTH} keys");
            return Err(Error::new(Kind::Usage, why));
        }
        dotted.retain(|key| !key.is_empty());
        let dotted = (dotted != path && !dotted.is_empty()).then_some(dotted);
        let key = Self { path, dotted, is_dotted: false, shown: text[..end].trim_end().to_owned() };
        Ok((key, text.get(end + 1..)))
    }

    /// Returns the keys.
    pub fn path(&self) -> &[String] {
        &self.path
    }

    /// Returns the keys that do not exist.
    pub(super) fn missing_keys(&self, place: &KeyPlace) -> &[String] {
        self.path.get(place.depth..).unwrap_or_default()
    }

    /// Returns the first `count` keys of the path, for messages.
    pub(super) fn first(&self, count: usize) -> String {
        let known = self.path.get(..count).unwrap_or_default().join(".");
        if known.is_empty() { "the tree".to_owned() } else { known }
    }

    /// Takes slashes and brackets as separators, if that changes the keys after the first `depth`, which exist. Returns
    /// true if it does.
    pub(super) fn take_dotted(&mut self, depth: usize) -> bool {
        let missing = self.path.get(depth..).unwrap_or_default();
        if !missing.iter().any(|key| key.contains(['/', '['])) {
            return false;
        }
        let Some(dotted) = self.dotted.take() else { return false };
        self.path = dotted;
        self.is_dotted = true;
        true
    }

    /// Returns the path as it is written with dots.
    fn with_dots(&self) -> String {
        let escaped = |key: &String| {
            let mut escaped = String::new();
            for letter in key.chars() {
                if ".\\=".contains(letter) {
                    escaped.push('\\');
                }
                escaped.push(letter);
            }
            escaped
        };
        self.path.iter().map(escaped).collect::<Vec<_>>().join(".")
    }

    /// Replaces the first `count` keys by the path of the node that an alias stands for.
    pub(super) fn follow(&mut self, target: &[String], count: usize) {
        let rest = self.path.get(count..).unwrap_or_default();
        self.path = [target, rest].concat();
    }

    /// Refuses to add a key whose name may be a mistake.
    pub(super) fn may_be_added(&self, place: &KeyPlace) -> Result<()> {
        if !self.is_dotted {
            return Ok(());
        }
        let dots = self.with_dots();
        Err(self.refused(&format!(
            "{} has no such key; write {dots} to add it, or a backslash before / or [ in a key",
            self.first(place.depth)
        )))
    }

    pub(super) fn refused(&self, why: &str) -> Error {
        Error::new(Kind::Refused, format!("{self}: {why}"))
    }

    /// Returns the error for a path that does not exist. `is_set` is true if `--create` would add it.
    pub(super) fn missing(&self, place: &KeyPlace, is_set: bool) -> Error {
        let why = place.obstacle.clone().unwrap_or_else(|| {
            let key = self.path.get(place.depth).map_or("", String::as_str);
            let above = if place.depth == 0 { "the root".to_owned() } else { self.first(place.depth) };
            let to_do = match (is_set, self.is_dotted) {
                (true, false) => "; --create adds it".to_owned(),
                (true, true) => format!("; write {} with --create to add it", self.with_dots()),
                (false, _) => String::new(),
            };
            format!("{above} has no key \"{}\"{to_do}", key.escape_debug())
        });
        Error::new(Kind::NotFound, format!("{self}: {why}"))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", one_line(&self.shown))
    }
}
