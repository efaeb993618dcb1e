//! Card values that are determined by the data.

use super::card;

/// A result with a message as its error: the reason why the node can't be read.
pub(super) type Reading<T> = std::result::Result<T, String>;

/// The value that a card must have.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Must {
    Int(i128),
    Text(String),
    /// A text. An equivalent text in the tree is kept.
    Form(String),
    /// A text, unless the tree has another one.
    Default(String),
    /// Number of elements of a field. A `TDIM` in the tree may split these into several dimensions.
    Dimensions(u64),
}

impl Must {
    /// Returns the card's value; `None` if the card is optional.
    pub(super) fn as_card(&self) -> Option<card::Value<'_>> {
        match self {
            Self::Int(value) => Some(card::Value::Int(*value)),
            Self::Text(text) | Self::Form(text) | Self::Default(text) => Some(card::Value::Text(text)),
            Self::Dimensions(_) => None,
        }
    }

    /// Returns `there`, the tree's value, if it is equivalent to this value or this value is only a default;
    /// otherwise returns this value.
    pub(super) fn kept_or_own(&self, there: card::Value<'_>) -> Self {
        match (self, there) {
            (Self::Form(form), card::Value::Text(text)) if is_same(text, form) => Self::Form(text.to_owned()),
            (Self::Default(_), card::Value::Text(text)) if !text.trim().is_empty() => {
                Self::Text(text.to_owned())
            }
            (Self::Dimensions(count), card::Value::Text(text)) if describes(text, *count) => {
                Self::Form(text.to_owned())
            }
            _ => self.clone(),
        }
    }
}

/// True if two values of `TFORM` or `TDIM` are equivalent.
fn is_same(one: &str, other: &str) -> bool {
    match (dimensions(one), dimensions(other)) {
        (None, None) => repeat(one) == repeat(other),
        (one, other) => one == other,
    }
}

/// True if a `TDIM` describes `count` elements.
fn describes(text: &str, count: u64) -> bool {
    let product = |axes: Vec<u64>| axes.iter().try_fold(1_u64, |product, len| product.checked_mul(*len));
    dimensions(text).and_then(product) == Some(count)
}

/// Parses the axes of a `TDIM`.
fn dimensions(text: &str) -> Option<Vec<u64>> {
    let axes = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    axes.split(',').map(|len| len.trim().parse().ok()).collect()
}

/// Parses the repeat count and the letter of a `TFORM`.
fn repeat(form: &str) -> Option<(u64, &str)> {
    let form = form.trim();
    let at = form.find(|c: char| !c.is_ascii_digit())?;
    let (count, letter) = form.split_at(at);
    Some((if count.is_empty() { 1 } else { count.parse().ok()? }, letter))
}
