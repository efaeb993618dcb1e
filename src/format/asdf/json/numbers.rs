//! Numbers as keys of a mapping.
//!
//! In Python `1`, `1.0` and `true` are the same key. JSON must have a single member for them, so all get the
//! name of the first of these keys.

use std::collections::HashMap;

use crate::yaml::scalar;

/// Maximum number of keys remembered for a mapping, so that memory does not grow with the tree. Later keys
/// keep their own names.
const MAX_KEYS: usize = 4096;
/// Approximate size of an entry without its name, in bytes.
const ENTRY: usize = 64;

/// A number that identifies equal keys.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Number {
    Integer(i128),
    /// Infinity; true if positive.
    Infinite(bool),
}

/// The numbers that have been keys of a mapping so far.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    names: HashMap<Number, Box<str>>,
    weight: usize,
}

impl Numbers {
    /// Returns the name of the first key with the same value as `name`, if the two names differ.
    pub(super) fn first(&mut self, name: &str) -> Option<Box<str>> {
        let number = number(name)?;
        if let Some(first) = self.names.get(&number) {
            return (**first != *name).then(|| first.clone());
        }
        if self.names.len() < MAX_KEYS {
            self.weight += ENTRY + name.len();
            self.names.insert(number, name.into());
        }
        None
    }

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }
}

/// Parses the number of a key; `None` for fractions and other names: each of
/// these has a single spelling.
fn number(name: &str) -> Option<Number> {
    let whole = match name {
        "true" => Some(1),
        "false" => Some(0),
        _ => name.parse().ok(),
    };
    if let Some(whole) = whole {
        return Some(Number::Integer(whole));
    }
    let value: f64 = scalar::float(name)?;
    // The limit of 128-bit integers.
    let limit = 2_f64.powi(127);
    match value {
        _ if value.is_infinite() => Some(Number::Infinite(value > 0.0)),
        _ if value.fract() == 0.0 && value.abs() < limit => Some(Number::Integer(value as i128)),
        _ => None,
    }
}
