//! What the elements of an array in the tree are, as far as a datatype may not take them.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::yaml::event::Mark;
use crate::yaml::scalar::{self, Type};

/// The longest integer, in digits, that is a float for certain.
const LONGEST_FLOAT: usize = 308;

/// Which elements of an array there are; each with the place of one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaves {
    /// The least integer, numbers being cut to integers.
    pub least: Option<(i128, Mark)>,
    /// The greatest one.
    pub greatest: Option<(i128, Mark)>,
    /// What Python makes no integer of.
    pub no_integer: Option<Mark>,
    /// What Python makes no float of.
    pub no_float: Option<Mark>,
    /// What Python makes no complex number of.
    pub no_complex: Option<Mark>,
    /// What is no truth value.
    pub no_bool: Option<Mark>,
    /// A text that is not in ASCII.
    pub no_ascii: Option<Mark>,
    /// A date, or binary data.
    pub foreign: Option<Mark>,
    /// What kinds of elements there are.
    pub seen: Seen,
}

/// What kinds of elements an array has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// How many elements there are, without those that are mentioned by an anchor.
    pub count: u64,
    /// Whether elements, or rows of them, are mentioned by an anchor.
    pub aliases: bool,
    /// Nulls.
    pub nulls: bool,
    /// Truth values.
    pub bools: bool,
    /// Integers of 64 bits.
    pub integers: bool,
    /// Integers of 64 bits only without a sign.
    pub unsigned: bool,
    /// An integer beyond.
    pub beyond: Option<Mark>,
    /// Numbers with a decimal point.
    pub floats: bool,
    /// Complex numbers.
    pub complex: bool,
    /// The characters of the longest text.
    pub longest: Option<u64>,
    /// A hash of all of them.
    pub hash: u64,
}

impl Seen {
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

/// Whether a tag is that of a complex number.
pub fn is_complex(tag: Option<&str>) -> bool {
    tag.is_some_and(|tag| tag.contains("/complex-") || tag.ends_with("/core/complex"))
}

impl Leaves {
    /// Takes a scalar that looks so, with a tag of its own if that is none of YAML's.
    pub(crate) fn add(&mut self, place: Mark, text: &str, looks: Type, tag: Option<&str>) {
        self.seen.add(place, text, looks, tag);
        if !matches!(looks, Type::Bool | Type::Null) {
            self.no_bool.get_or_insert(place);
        }
        match looks {
            Type::Int => match text.parse().ok().map(i64::into).or_else(|| scalar::integer(text)) {
                Some(value) => self.number(place, value),
                None => {
                    self.number(place, if text.starts_with('-') { i128::MIN } else { i128::MAX });
                    if text.len() > LONGEST_FLOAT {
                        self.no_float.get_or_insert(place);
                    }
                }
            },
            Type::Float => self.float(place, text),
            Type::Timestamp | Type::Binary => drop(self.foreign.get_or_insert(place)),
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
            // Not spelt as elsewhere: with underscores, by sixties, or no number at all.
            Err(_) if text.trim_start_matches(['+', '-']).starts_with(".i") || text.starts_with(".n") => {
                self.no_integer.get_or_insert(place);
            }
            Err(_) => {}
        }
    }

    /// What Python's `int()` and `float()` make of a text.
    fn text(&mut self, place: Mark, text: &str) {
        if !text.is_ascii() {
            self.no_ascii.get_or_insert(place);
            // It may be digits of another script.
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

/// Whether Python's `complex()` may make something of a text: it is made of nothing but numbers' signs.
fn may_be_complex(text: &str) -> bool {
    let text = text.to_ascii_lowercase().replace("infinity", "1").replace("inf", "1").replace("nan", "1");
    let text = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(&text);
    let signs = |byte: u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'j' | b'_');
    text.bytes().any(|byte| byte.is_ascii_digit() || byte == b'j') && text.trim().bytes().all(signs)
}
