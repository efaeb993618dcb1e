//! YAML: events of a text, a survey of it, and values of small documents.
//!
//! Trees may be as large as memory. They are read as events ([`read`], with the parsers [`fast`] and
//! [`parser`]) and surveyed in one pass ([`survey`]), but never held as values. [`scalar`] resolves the types
//! of scalars. [`Value`] is for small documents, such as a block index or an encoding chain.

pub mod assign;
pub mod event;
pub mod fast;
mod input;
pub mod parser;
pub mod read;
pub mod scalar;
pub mod survey;
mod value;

use crate::error::Error;
use event::Mark;

pub use value::Value;

fn refused(problem: &str, place: Mark) -> Error {
    Error::damaged(format!("not valid YAML at {place}: {problem}"))
}
