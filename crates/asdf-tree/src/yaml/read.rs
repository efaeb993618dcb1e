//! Reads the events of a text with the fastest parser that can read it.

use super::event::{Event, Failure};
use super::fast::FastParser;
use super::parser::Events;
use seekable::error::Error;

/// The reason why the events of a text end early.
#[derive(Debug)]
pub struct Unread {
    /// The error.
    pub error: Error,
    /// The syntax error and its place; `None` if the text could not be read.
    pub failure: Option<Failure>,
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        unread.error
    }
}

/// Passes the events of a text in memory to `take`, in order, until `take` returns false.
///
/// # Errors
///
/// The text is not valid YAML, or `take` fails.
pub fn each_event_in<E: From<Unread>>(
    text: &[u8],
    mut take: impl FnMut(&Event<'_>) -> Result<bool, E>,
) -> Result<(), E> {
    let mut taken = 0_u64;
    if let Some(mut events) = FastParser::new(text) {
        // By reference, as moving an event takes as long as making it.
        while let Ok(event) = &events.next_event() {
            let Some(event) = event else { return Ok(()) };
            taken += 1;
            if !take(event)? {
                return Ok(());
            }
        }
    }
    // libyaml reads the text from its start. Events that `take` got from the fast parser are skipped.
    rest_of_events(Events::new(text), taken, &mut take)
}

fn rest_of_events<E: From<Unread>>(
    mut events: Events<'_>,
    mut taken: u64,
    take: &mut impl FnMut(&Event<'_>) -> Result<bool, E>,
) -> Result<(), E> {
    loop {
        match events.next_event() {
            Ok(None) => return Ok(()),
            Ok(Some(_)) if taken > 0 => taken -= 1,
            Ok(Some(event)) => {
                if !take(&event)? {
                    return Ok(());
                }
            }
            Err(error) => return Err(Unread { error, failure: events.failure().cloned() }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the starts of the events of a text, and the error at their end.
    fn starts(text: &str) -> (Vec<u64>, Option<String>) {
        let mut starts = Vec::new();
        let read = each_event_in(text.as_bytes(), |event| -> Result<bool, Error> {
            starts.push(event.start.offset);
            Ok(true)
        });
        (starts, read.err().map(|error| error.message()))
    }

    fn starts_by_libyaml(text: &str) -> (Vec<u64>, Option<String>) {
        let mut starts = Vec::new();
        let mut events = Events::new(text.as_bytes());
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
            let read = each_event_in(text.as_bytes(), |_| -> Result<bool, Error> {
                count += 1;
                Ok(count < 4)
            });
            assert!(read.is_ok() && count == 4, "{text}");
        }
    }
}
