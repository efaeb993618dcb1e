//! YAML: events of a text, a survey of it, and values of small documents.
//!
//! Trees may be as large as memory. They are read as events ([`read`], with the parsers [`fast`] and
//! [`parser`]) and surveyed in one pass ([`survey`]), but never held as values. [`scalar`] resolves the types
//! of scalars. [`Value`] is for small documents, such as a block index or an encoding chain.

pub(crate) mod assign;
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
