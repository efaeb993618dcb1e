//! What we ask of YAML: the events of a text, a survey of it, and the values of a tiny one.
//!
//! Trees are read by their events ([`read`]: those of [`fast`] or of [`parser`]), surveyed in one pass ([`survey`]), and never held as
//! values: they may be as large as memory. [`scalar`] says what a scalar is taken for.
//! [`Value`] is for documents that are tiny by nature, a block index or an encoding chain.

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
