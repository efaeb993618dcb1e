//! What we ask of YAML: the events of a text, whether a text is one sound document, and the values of
//! a tiny one.
//!
//! Trees are read by their events ([`event`]), surveyed in one pass ([`survey`]), and never held as
//! values: they may be as large as memory. [`scalar`] says what a scalar is taken for.
//! [`Value`] is for documents that are tiny by nature, a block index or an encoding chain.

pub mod event;
pub mod scalar;
pub mod survey;
mod value;

use std::collections::HashSet;

use crate::error::{Error, Result};
use event::{Events, Mark, What};

pub use value::Value;

/// Whether `text` is exactly one YAML document that a reader of YAML 1.1 can load; if not, why and where.
///
/// Besides the grammar, each alias must mention an anchor before it, and no anchor may come twice. What the document
/// says is not looked at.
pub fn check_document(text: &[u8]) -> Result<()> {
    let mut events = Events::new(text);
    let mut anchors = HashSet::new();
    let mut documents = 0;
    while let Some(event) = events.next_event()? {
        match event.what {
            What::DocumentStart { .. } => {
                documents += 1;
                if documents > 1 {
                    return Err(refused("a second document begins", event.start));
                }
            }
            What::Alias(anchor) if !anchors.contains(anchor) => {
                return Err(refused(&format!("alias \"{anchor}\" has no anchor before it"), event.start));
            }
            What::Scalar { anchor: Some(anchor), .. }
            | What::SequenceStart { anchor: Some(anchor), .. }
            | What::MappingStart { anchor: Some(anchor), .. }
                if !anchors.insert(anchor.to_owned()) =>
            {
                return Err(refused(&format!("anchor \"{anchor}\" comes twice"), event.start));
            }
            _ => {}
        }
    }
    match documents {
        0 => Err(Error::damaged("not valid YAML: there is no document, only comments or nothing")),
        _ => Ok(()),
    }
}

fn refused(problem: &str, place: Mark) -> Error {
    Error::damaged(format!("not valid YAML at {place}: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_document_is_one() {
        for text in ["a: 1", "--- &x [1, *x]\n...\n", "%YAML 1.1\n---\n{}\n...\n# end\n", "&a x"] {
            check_document(text.as_bytes()).unwrap();
        }
    }

    #[test]
    fn what_a_loader_refuses_is_refused_with_its_place() {
        for (text, expected) in [
            ("", "no document"),
            ("# only\n", "no document"),
            ("a: 1\n--- \nb: 2\n", "line 2, column 1: a second document"),
            ("a: *b\nb: &b 1\n", "line 1, column 4: alias \"b\" has no anchor"),
            ("a: &b 1\nb: &b 1\n", "line 2, column 4: anchor \"b\" comes twice"),
            ("a: [\n", "line 2, column 1"),
        ] {
            let message = check_document(text.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(expected), "{text:?}: {message}");
        }
    }
}
