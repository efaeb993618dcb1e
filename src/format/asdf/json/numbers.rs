//! The numbers among the keys of a mapping.
//!
//! To Python `1`, `1.0` and `true` are one key. Readers of JSON must see one member then, so all get the name of the
//! first one.

use std::collections::HashMap;

use crate::yaml::scalar;

/// Numbers remembered of a mapping. Later ones have their own names: the memory must not grow with the tree.
const MOST: usize = 4096;
/// Bytes that one takes beside its name, roughly.
const ENTRY: usize = 64;

/// What makes two keys one.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Number {
    Whole(i128),
    /// Infinity, and whether it is positive.
    Infinite(bool),
}

/// The numbers that are keys of a mapping so far.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    names: HashMap<Number, Box<str>>,
    weight: usize,
}

impl Numbers {
    /// Returns the name of the first key that is the same number as `name`, if that is not this one.
    pub(super) fn first(&mut self, name: &str) -> Option<Box<str>> {
        let number = number(name)?;
        if let Some(first) = self.names.get(&number) {
            return (**first != *name).then(|| first.clone());
        }
        if self.names.len() < MOST {
            self.weight += ENTRY + name.len();
            self.names.insert(number, name.into());
        }
        None
    }

    /// Returns the bytes that they take, roughly.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }
}

/// The number that a key is; `None` for fractions and others, which have one name each.
fn number(name: &str) -> Option<Number> {
    let whole = match name {
        "true" => Some(1),
        "false" => Some(0),
        _ => name.parse().ok(),
    };
    if let Some(whole) = whole {
        return Some(Number::Whole(whole));
    }
    let value: f64 = scalar::float(name)?;
    // The integers of 128 bits reach as far as this power of two.
    let limit = 2_f64.powi(127);
    match value {
        _ if value.is_infinite() => Some(Number::Infinite(value > 0.0)),
        _ if value.fract() == 0.0 && value.abs() < limit => Some(Number::Whole(value as i128)),
        _ => None,
    }
}
