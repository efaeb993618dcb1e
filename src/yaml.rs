//! YAML: events of a text, a survey of it, and values of small documents.
//!
//! A text is read as events ([`read`], with the parsers [`fast`] and [`parser`]). From these a tree is surveyed in one
//! pass ([`survey`]), or becomes a [`document`]. [`scalar`] resolves the types of scalars. [`Value`] is for small
//! documents, such as a block index or an encoding chain.

pub(crate) mod assign;
pub(crate) mod document;
pub(crate) mod event;
pub(crate) mod fast;
mod input;
pub(crate) mod parser;
pub(crate) mod read;
pub(crate) mod scalar;
pub(crate) mod survey;
mod value;

use crate::error::Error;
use event::Mark;

pub(crate) use value::Value;

fn refused(problem: &str, place: Mark) -> Error {
    Error::damaged(format!("not valid YAML at {place}: {problem}"))
}
