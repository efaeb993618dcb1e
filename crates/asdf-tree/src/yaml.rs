//! YAML: events of a text, a survey of it, and values of small documents.
//!
//! A text is read as events ([`read`], with the parsers [`fast`] and [`parser`]). From these a tree is surveyed in one
//! pass ([`survey`]), or becomes a [`document`]. [`scalar`] resolves the types of scalars. [`Value`] is for small
//! documents, such as a block index or an encoding chain.

pub mod assign;
pub mod document;
pub mod event;
pub mod fast;
mod input;
pub mod parser;
pub mod read;
pub mod scalar;
pub mod survey;
mod value;

use event::Mark;
use seekable::error::Error;

pub use value::Value;

fn refused(problem: &str, place: Mark) -> Error {
    Error::damaged(format!("not valid YAML at {place}: {problem}"))
}
