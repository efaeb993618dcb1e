//! Reads the events of a text with the fastest parser that can read it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::event::{Event, Failure};
use super::fast::FastParser;
use super::parser::Events;
use crate::content::{Content, read_exact_at};
use crate::error::Error;

/// Maximal total length of the texts that are held in memory at a time, in bytes. Other texts are read piece by
/// piece with libyaml.
const MOST_HELD: u64 = 128 << 20;

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

/// Passes the events of a text to `take`, in order, until `take` returns false.
///
/// # Errors
///
/// The text can't be read or is not valid YAML, or `take` fails.
pub fn each_event<E: From<Unread>>(
    text: &dyn Content,
    mut take: impl FnMut(Event<'_>) -> Result<bool, E>,
) -> Result<(), E> {
    let mut taken = 0_u64;
    if let Some(held) = held(text)
        && let Some(mut events) = FastParser::new(&held.0)
    {
        while let Ok(event) = events.next_event() {
            let Some(event) = event else { return Ok(()) };
            taken += 1;
            if !take(event)? {
                return Ok(());
            }
        }
    }
    // libyaml reads the text from its start. The events that were already taken are skipped.
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

/// A whole text in memory.
struct HeldText(Vec<u8>);

impl Drop for HeldText {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0.len() as u64, Ordering::Relaxed);
    }
}

/// Returns the whole text if there is room for it, and it can be read.
fn held(text: &dyn Content) -> Option<HeldText> {
    let more = |held: u64| held.checked_add(text.len()).filter(|held| *held <= MOST_HELD);
    HELD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
    // Dropping the `HeldText` subtracts the length, even if the text can't be read.
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
        assert!(held(&Spaces(MOST_HELD + 1)).is_none() && held(&Spaces(u64::MAX)).is_none());
        let most = held(&Spaces(MOST_HELD - (1 << 20)));
        assert!(most.is_some() && held(&Spaces(2 << 20)).is_none());
        drop(most);
        assert!(held(&Spaces(2 << 20)).is_some());
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
