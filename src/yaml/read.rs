//! Reads the events of a text with the fastest parser that can read it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::event::{Event, Failure};
use super::fast::FastParser;
use super::parser::Events;
use crate::content::{Content, read_exact_at};
use crate::error::Error;

/// Maximum total length of the texts that are held in memory at a time, in bytes. Other texts are read piece by
/// piece with libyaml.
const MAX_HELD: u64 = 128 << 20;

/// Total length of the texts that are held now.
static HELD: AtomicU64 = AtomicU64::new(0);

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

/// A second receiver of the events of a text ([`each_event_beside`]).
pub trait Listener {
    /// Takes an event. False if no further events are wanted.
    fn take(&mut self, event: &Event<'_>) -> bool;

    /// Takes the reason why the events end early.
    fn fail(&mut self, error: &Error);
}

/// Passes the events of a text to `take`, in order, until `take` returns false. `beside` gets the same
/// events, until its own `take` returns false.
///
/// # Errors
///
/// As of [`each_event`]. `beside` still gets the later events after an error of `take`.
pub(crate) fn each_event_beside<E: From<Unread>>(
    text: &dyn Content,
    beside: Option<&mut dyn Listener>,
    mut take: impl FnMut(&Event<'_>) -> Result<bool, E>,
) -> Result<(), E> {
    let Some(beside) = beside else { return each_event(text, take) };
    let mut listens = true;
    let mut ended = None;
    let read = each_event(text, |event| -> Result<bool, Unread> {
        listens = listens && beside.take(event);
        if ended.is_none() {
            ended = match take(event) {
                Ok(true) => None,
                Ok(false) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            };
        }
        Ok(listens || ended.is_none())
    });
    if listens && let Err(unread) = &read {
        beside.fail(&unread.error);
    }
    ended.unwrap_or_else(|| read.map_err(E::from))
}

/// Passes the events of a text to `take`, in order, until `take` returns false.
///
/// # Errors
///
/// The text can't be read or is not valid YAML, or `take` fails.
pub(crate) fn each_event<E: From<Unread>>(
    text: &dyn Content,
    mut take: impl FnMut(&Event<'_>) -> Result<bool, E>,
) -> Result<(), E> {
    match held(text) {
        Some(held) => each_event_in(&held.0, take),
        None => rest_of_events(Events::of(text), 0, &mut take),
    }
}

/// Passes the events of a text in memory to `take`, in order, until `take` returns false.
///
/// # Errors
///
/// As of [`each_event`].
pub(crate) fn each_event_in<E: From<Unread>>(
    text: &[u8],
    mut take: impl FnMut(&Event<'_>) -> Result<bool, E>,
) -> Result<(), E> {
    let mut taken = 0_u64;
    if let Some(mut events) = FastParser::new(text) {
        while let Ok(event) = events.next_event() {
            let Some(event) = event else { return Ok(()) };
            taken += 1;
            if !take(&event)? {
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

/// A whole text in memory.
struct HeldText(Vec<u8>);

impl Drop for HeldText {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0.len() as u64, Ordering::Relaxed);
    }
}

/// Returns the whole text if there is room for it, and it can be read.
fn held(text: &dyn Content) -> Option<HeldText> {
    let more = |held: u64| held.checked_add(text.len()).filter(|held| *held <= MAX_HELD);
    HELD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
    // Dropping the `HeldText` subtracts the length from `HELD`, even if the text can't be read.
    let mut held = HeldText(vec![0; text.len() as usize]);
    read_exact_at(text, 0, &mut held.0).ok()?;
    Some(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Text;

    /// Returns the starts of the events of a text, and the error at their end.
    fn starts(text: &str) -> (Vec<u64>, Option<String>) {
        let mut starts = Vec::new();
        let read = each_event(&Text::new(text.as_bytes()), |event| -> Result<bool, Error> {
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

    /// A text of spaces.
    #[derive(Debug)]
    struct Spaces(u64);

    impl Content for Spaces {
        fn len(&self) -> u64 {
            self.0
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> crate::error::Result<usize> {
            let len = self.0.saturating_sub(offset).min(buf.len() as u64) as usize;
            buf[..len].fill(b' ');
            Ok(len)
        }
    }

    #[test]
    fn texts_that_are_held_together_are_not_too_long() {
        assert!(held(&Spaces(MAX_HELD + 1)).is_none() && held(&Spaces(u64::MAX)).is_none());
        let most = held(&Spaces(MAX_HELD - (1 << 20)));
        assert!(most.is_some() && held(&Spaces(2 << 20)).is_none());
        drop(most);
        assert!(held(&Spaces(2 << 20)).is_some());
    }

    /// A listener that takes this number of events.
    struct Few(usize, Option<String>);

    impl Listener for Few {
        fn take(&mut self, _: &Event<'_>) -> bool {
            self.0 -= 1;
            self.0 > 0
        }

        fn fail(&mut self, error: &Error) {
            self.1 = Some(error.message());
        }
    }

    /// Returns the number of events left to each of two takers, and what they are told.
    fn left_to_both(text: &str, (mut one, other): (usize, usize)) -> [(usize, bool); 2] {
        let mut beside = Few(other, None);
        let read = each_event_beside(&Text::new(text.as_bytes()), Some(&mut beside), |_| {
            one -= 1;
            Ok::<_, Error>(one > 0)
        });
        [(one, read.is_err()), (beside.0, beside.1.is_some())]
    }

    #[test]
    fn two_takers_end_on_their_own() {
        // Eight events in all; the second text ends with an error after five.
        for text in ["[a, b]", "? a\n: b\n"] {
            assert_eq!(left_to_both(text, (3, 9)), [(0, false), (1, false)], "{text}");
            assert_eq!(left_to_both(text, (9, 3)), [(1, false), (0, false)], "{text}");
            assert_eq!(left_to_both(text, (9, 9)), [(1, false), (1, false)], "{text}");
        }
        assert_eq!(left_to_both("[a, b", (9, 2)), [(4, true), (0, false)]);
        assert_eq!(left_to_both("[a, b", (2, 9)), [(0, false), (4, true)]);
        let read = each_event_beside(&Text::new(&b"[a]"[..]), Some(&mut Few(9, None)), |_| {
            Err::<bool, _>(Error::unsupported("no"))
        });
        assert_eq!(read.unwrap_err().message(), "no");
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
