//! The search for the keys and values of a tree that a pattern matches, as `asdf-mount --search` makes it.

use asdf_file::container::Container;
use asdf_views::info;
use regex::{Regex, RegexBuilder};
use seekable::error::{Error, Kind, Result};

/// A regular expression that is searched for in paths, such as `meta.instrument.name`, and in values. As `filter: V` or
/// `filter=V` it is also searched for in a path with its value.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// In a path or in a value.
    any: Regex,
    /// In a path with its value, as `PATH: VALUE`.
    pair: Option<Regex>,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`Kind::Usage`] if it is no regular expression.
    pub fn new(text: &str, ignore_case: bool) -> Result<Self> {
        let regex = |text: &str| RegexBuilder::new(text).case_insensitive(ignore_case).build();
        let any = regex(text).map_err(|error| {
            let lines: Vec<String> = error.to_string().lines().map(|line| line.trim().to_owned()).collect();
            Error::new(Kind::Usage, lines.join(" "))
        })?;
        // An equals sign may be a part of the expression.
        let pair = pair_of(text).and_then(|pair| regex(&pair).ok());
        Ok(Self { any, pair })
    }

    /// Passes each match in the tree of a file to `take`: the path and the value. Returns the first error of `take`.
    ///
    /// # Errors
    /// The tree can't be read; or as of `take`.
    pub fn each_match(
        &self,
        container: &dyn Container,
        take: &mut dyn FnMut(&str, &str) -> Result<()>,
    ) -> Result<()> {
        let mut joined = String::new();
        info::each_leaf(container, &mut |path, value| {
            if self.matches(path, value, &mut joined) { take(path, value) } else { Ok(()) }
        })
    }

    /// True if a path or its value matches. `joined` is overwritten; it is kept from value to value, as there are many.
    fn matches(&self, path: &str, value: &str, joined: &mut String) -> bool {
        if self.any.is_match(path) || self.any.is_match(value) {
            return true;
        }
        let Some(pair) = &self.pair else { return false };
        joined.clear();
        joined.extend([path, ": ", value]);
        pair.is_match(joined)
    }
}

/// Returns the pattern for a key with its value, if the pattern is one: `filter: V`, `filter=V`, `filter:V`,
/// `filter: 'V'` as in a tree, `meta/filter = V`.
fn pair_of(pattern: &str) -> Option<String> {
    // A colon alone may be of the language of patterns, as in `(?:a|b)`: there, the key is a name.
    let named = || pattern.split_once(':').filter(|(key, _)| key.chars().all(is_of_name));
    let (key, value) = pattern.split_once(": ").or_else(|| pattern.split_once('=')).or_else(named)?;
    let key = key.trim().replace('/', ".");
    let value = value.trim();
    let quoted = ["'", "\""].iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    let value = quoted.map_or_else(|| value.to_owned(), |text| format!("{text}$"));
    (!key.is_empty()).then(|| format!("{key}: {value}"))
}

/// Tells whether a character is one of names and paths.
fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || "_-./".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, path: &str, value: &str) -> bool {
        Pattern::new(pattern, false).unwrap().matches(path, value, &mut String::new())
    }

    #[test]
    fn a_pattern_is_for_paths_values_and_both_together() {
        for pattern in
            ["filter", "^V$", "filter: V", "filter:V", "filter=V", "filter: 'V'", "meta/filter = V"]
        {
            assert!(is_match(pattern, "meta.filter", "V"), "{pattern}");
        }
        for pattern in ["Filter", "^filter", "filter: B", "filter=B", "(?:filter|x): B", "filter: 'v'"] {
            assert!(!is_match(pattern, "meta.filter", "V"), "{pattern}");
        }
        assert!(is_match("filter: V", "filter", "V2") && !is_match("filter: 'V'", "filter", "V2"));
        assert!(Pattern::new("FILTER", true).unwrap().matches("filter", "", &mut String::new()));
        let error = Pattern::new("(", false).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.message().contains("unclosed group") && !error.message().contains('\n'), "{error}");
    }
}
