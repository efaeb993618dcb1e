//! Values that cards must have for the data that they describe.

use super::card;

/// What was read of the tree, or why it can't be read.
pub(super) type Reading<T> = std::result::Result<T, String>;

/// The value that a card must have.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Must {
    Int(i128),
    Text(String),
    /// A text; one of the tree that means the same is kept.
    Form(String),
}

impl Must {
    /// The value as that of a card.
    pub(super) fn as_card(&self) -> card::Value<'_> {
        match self {
            Self::Int(value) => card::Value::Int(*value),
            Self::Text(text) | Self::Form(text) => card::Value::Text(text),
        }
    }

    /// The text of the tree if it means the same, or else this one.
    pub(super) fn kept_or_own(&self, there: card::Value<'_>) -> Self {
        match (self, there) {
            (Self::Form(form), card::Value::Text(text)) if repeat(text) == repeat(form) => {
                Self::Form(text.to_owned())
            }
            _ => self.clone(),
        }
    }
}

/// Repeat count and letter of a `TFORM`.
fn repeat(form: &str) -> Option<(u64, &str)> {
    let form = form.trim();
    let at = form.find(|c: char| !c.is_ascii_digit())?;
    let (count, letter) = form.split_at(at);
    Some((if count.is_empty() { 1 } else { count.parse().ok()? }, letter))
}
