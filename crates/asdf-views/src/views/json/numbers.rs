//! Numbers as keys of a mapping.
//!
//! In Python `1`, `1.0` and `true` are the same key. JSON must have a single member for them, so all get the
//! name of the first of these keys.

use asdf_tree::yaml::scalar;
use twox_hash::XxHash64;

/// A number that identifies equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Number {
    Integer(i128),
    /// Infinity; true if positive.
    Infinite(bool),
}

impl Number {
    /// Returns a hash of the number.
    pub(super) fn hashed(self) -> u64 {
        let bits = match self {
            Self::Integer(value) => value,
            Self::Infinite(is_positive) => i128::MAX - i128::from(is_positive),
        };
        XxHash64::oneshot(1, &bits.to_le_bytes())
    }
}

/// Parses the number of a key; `None` for fractions and other names: each of
/// these has a single spelling.
pub(super) fn number(name: &str) -> Option<Number> {
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
