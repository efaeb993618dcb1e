//! Properties of the elements of an array in the tree that decide which datatypes can hold them.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::yaml::event::Mark;
use crate::yaml::scalar::{self, Type};

/// Maximum number of digits of an integer that certainly fits in a float.
const MAX_FLOAT_DIGITS: usize = 308;

/// Properties of the elements of an array, each with the place of one element that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaves {
    /// The least number, truncated to an integer.
    pub least: Option<(i128, Mark)>,
    /// The greatest number, truncated to an integer.
    pub greatest: Option<(i128, Mark)>,
    /// An element that Python can't convert to an integer.
    pub no_integer: Option<Mark>,
    /// An element that Python can't convert to a float.
    pub no_float: Option<Mark>,
    /// An element that Python can't convert to a complex number.
    pub no_complex: Option<Mark>,
    /// An element that is not a boolean.
    pub no_bool: Option<Mark>,
    /// A text that is not ASCII.
    pub no_ascii: Option<Mark>,
    /// A date, or binary data.
    pub no_number: Option<Mark>,
    /// The types of elements found.
    pub seen: ElementTypes,
}

/// The types of elements found in an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementTypes {
    /// Number of elements, without those that aliases stand for.
    pub count: u64,
    /// True if there are aliases of elements or of rows.
    pub aliases: bool,
    /// True if there are nulls.
    pub nulls: bool,
    /// True if there are booleans.
    pub bools: bool,
    /// True if there are integers that fit in a signed 64-bit integer.
    pub integers: bool,
    /// True if there are integers that fit only in an unsigned 64-bit integer.
    pub unsigned: bool,
    /// The place of an integer that fits in neither type.
    pub beyond: Option<Mark>,
    /// True if there are floats.
    pub floats: bool,
    /// True if there are complex numbers.
    pub complex: bool,
    /// Number of characters of the longest text.
    pub longest: Option<u64>,
    /// A hash of all elements.
    pub hash: u64,
}

impl ElementTypes {
    fn add(&mut self, place: Mark, text: &str, looks: Type, tag: Option<&str>) {
        self.count += 1;
        let mut hasher = DefaultHasher::new();
        (self.hash, text, looks as u8).hash(&mut hasher);
        self.hash = hasher.finish();
        match looks {
            Type::Null => self.nulls = true,
            Type::Bool => self.bools = true,
            Type::Int => match scalar::integer(text) {
                Some(value) if i64::try_from(value).is_ok() => self.integers = true,
                Some(value) if u64::try_from(value).is_ok() => self.unsigned = true,
                _ => drop(self.beyond.get_or_insert(place)),
            },
            Type::Float => self.floats = true,
            Type::Other if is_complex(tag) => self.complex = true,
            _ => self.longest = self.longest.max(Some(text.chars().count() as u64)),
        }
    }
}

/// True for the tag of a complex number.
pub fn is_complex(tag: Option<&str>) -> bool {
    tag.is_some_and(|tag| tag.contains("/complex-") || tag.ends_with("/core/complex"))
}

impl Leaves {
    /// Adds a scalar of the type `looks`. `tag` is its tag if that is not one of YAML's own.
    pub fn add(&mut self, place: Mark, text: &str, looks: Type, tag: Option<&str>) {
        self.seen.add(place, text, looks, tag);
        if !matches!(looks, Type::Bool | Type::Null) {
            self.no_bool.get_or_insert(place);
        }
        match looks {
            Type::Int => match text.parse().ok().map(i64::into).or_else(|| scalar::integer(text)) {
                Some(value) => self.number(place, value),
                None => {
                    self.number(place, if text.starts_with('-') { i128::MIN } else { i128::MAX });
                    if text.len() > MAX_FLOAT_DIGITS {
                        self.no_float.get_or_insert(place);
                    }
                }
            },
            Type::Float => self.float(place, text),
            Type::Timestamp | Type::Binary => drop(self.no_number.get_or_insert(place)),
            Type::Null | Type::Bool => {}
            Type::Other if is_complex(tag) => {
                self.no_integer.get_or_insert(place);
                self.no_float.get_or_insert(place);
            }
            _ => self.text(place, text),
        }
    }

    fn number(&mut self, place: Mark, value: i128) {
        if self.least.is_none_or(|(least, _)| value < least) {
            self.least = Some((value, place));
        }
        if self.greatest.is_none_or(|(greatest, _)| value > greatest) {
            self.greatest = Some((value, place));
        }
    }

    fn float(&mut self, place: Mark, text: &str) {
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => self.number(place, value as i128),
            Ok(_) => drop(self.no_integer.get_or_insert(place)),
            // Rust does not parse underscores, base 60, and PyYAML's spelling of numbers that are not finite.
            Err(_) if text.trim_start_matches(['+', '-']).starts_with(".i") || text.starts_with(".n") => {
                self.no_integer.get_or_insert(place);
            }
            Err(_) => {}
        }
    }

    /// Adds a text. Python's `int()`, `float()` and `complex()` decide which numbers it can be converted to.
    fn text(&mut self, place: Mark, text: &str) {
        if !text.is_ascii() {
            self.no_ascii.get_or_insert(place);
            // Python converts digits of any script, so only a letter shows that the text is no number.
            if text.chars().any(|char| !char.is_ascii() && char.is_alphabetic()) {
                for none in [&mut self.no_integer, &mut self.no_float, &mut self.no_complex] {
                    none.get_or_insert(place);
                }
            }
            return;
        }
        let text = text.trim();
        let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
        let grouped = !bare.split('_').any(str::is_empty);
        let digits = text.replace('_', "");
        match digits.parse::<i128>() {
            Ok(value) if grouped => self.number(place, value),
            _ => drop(self.no_integer.get_or_insert(place)),
        }
        if !grouped || digits.parse::<f64>().is_err() {
            self.no_float.get_or_insert(place);
        }
        if !may_be_complex(text) {
            self.no_complex.get_or_insert(place);
        }
    }
}

/// True if Python's `complex()` may parse a text: it has only characters of numbers.
fn may_be_complex(text: &str) -> bool {
    let text = text.to_ascii_lowercase().replace("infinity", "1").replace("inf", "1").replace("nan", "1");
    let text = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(&text);
    let signs = |byte: u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'j' | b'_');
    text.bytes().any(|byte| byte.is_ascii_digit() || byte == b'j') && text.trim().bytes().all(signs)
}
