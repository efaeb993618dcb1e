//! Reads the events of a text with the fast parser if the text is short, or else with libyaml.

use super::event::{Event, Failure};
use super::fast::FastParser;
use super::parser::Events;
use crate::content::{Content, read_exact_at};
use crate::error::Error;

/// Maximum length in bytes of a text that is read into memory. A longer text is read
/// by libyaml piece by piece.
const LONGEST_HELD: u64 = 16 << 20;

/// The reason why the events of a text end early.
#[derive(Debug)]
pub struct Unread {
    /// The error for callers that need no details.
    pub error: Error,
    /// Position and kind of the syntax error; `None` if the text could not be read.
    pub failure: Option<Failure>,
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        unread.error
    }
}

/// Passes the events of a text to `take`, in order, until `take` returns false.
///
/// # Errors
///
/// Fails if the text can't be read, if it is not valid YAML, or if `take` fails.
pub fn each_event<E: From<Unread>>(
    text: &dyn Content,
    mut take: impl FnMut(Event<'_>) -> Result<bool, E>,
) -> Result<(), E> {
    let mut taken = 0_u64;
    if let Some(held) = held(text)
        && let Some(mut events) = FastParser::new(&held)
    {
        while let Ok(event) = events.next_event() {
            let Some(event) = event else { return Ok(()) };
            taken += 1;
            if !take(event)? {
                return Ok(());
            }
        }
    }
    // libyaml reads the rest. It produces the same events up to here; these are skipped.
    let mut events = Events::of(text);
    loop {
        match events.next_event() {
            Ok(None) => return Ok(()),
            Ok(Some(_)) if taken > 0 => taken -= 1,
            Ok(Some(event)) => {
                if !take(event)? {
                    return Ok(());
                }
            }
            Err(error) => return Err(Unread { error, failure: events.failure().cloned() }.into()),
        }
    }
}

/// Returns the whole text, if it is short and can be read.
fn held(text: &dyn Content) -> Option<Vec<u8>> {
    let len = usize::try_from(text.len()).ok().filter(|_| text.len() <= LONGEST_HELD)?;
    let mut held = vec![0; len];
    read_exact_at(text, 0, &mut held).ok()?;
    Some(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Text;

    /// Returns the offsets at which the events of a text begin, and the error with which they end.
    fn starts(text: &str) -> (Vec<u64>, Option<String>) {
        let mut starts = Vec::new();
        let read = each_event(&Text::new(text.as_bytes()), |event| -> Result<bool, Error> {
            starts.push(event.start.offset);
            Ok(true)
        });
        (starts, read.err().map(|error| error.message()))
    }

    fn starts_by_libyaml(text: &str) -> (Vec<u64>, Option<String>) {
        let (mut starts, mut events) = (Vec::new(), Events::new(text.as_bytes()));
        loop {
            match events.next_event() {
                Ok(Some(event)) => starts.push(event.start.offset),
                Ok(None) => return (starts, None),
                Err(error) => return (starts, Some(error.message())),
            }
        }
    }

    #[test]
    fn each_event_comes_once_whoever_reads_it() {
        let deep = ["[".repeat(1000), "]".repeat(1000)].concat();
        let too_deep = "[".repeat(1001);
        for text in
            ["a: 1\nb: [2, {c: d}]\n", "a: 1\n? b\n: c\n", "a: 1\nb: [\n", "a: \"\\x\"\n", &deep, &too_deep]
        {
            assert_eq!(starts(text), starts_by_libyaml(text), "{text}");
        }
    }

    #[test]
    fn no_event_comes_after_the_last_wanted() {
        for text in ["[a, b, c, d]", "? a\n: b\n"] {
            let mut count = 0;
            let read = each_event(&Text::new(text.as_bytes()), |_| -> Result<bool, Error> {
                count += 1;
                Ok(count < 4)
            });
            assert!(read.is_ok() && count == 4, "{text}");
        }
    }
}
