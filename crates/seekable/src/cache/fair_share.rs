//! An estimate of how many streams are being decoded, from the last turns. A stream takes a turn when it asks
//! for its share of the threads.
//!
//! Splitting one stream over several threads costs extra work. Several streams that are read at the same time
//! keep all threads busy without being split. A stream does not report that its reader has stopped, since the
//! reader may come back. Instead a stream that takes no turn while others do is forgotten.

use std::sync::Mutex;

use crate::sync::{MutexGuard, locked};

/// Number of turns that are remembered.
const TURNS: usize = 16;

/// The numbers of the streams that took the last turns; 0 stands for no stream.
#[derive(Debug, Default)]
pub struct FairShare(Mutex<Turns>);

#[derive(Debug, Default)]
struct Turns {
    last: [u64; TURNS],
    next: usize,
    numbers: u64,
}

impl FairShare {
    /// Returns a number for a new stream.
    pub fn number(&self) -> u64 {
        let mut state = self.state();
        state.numbers += 1;
        state.numbers
    }

    /// Takes a turn; returns the number of streams with recent turns, including this one.
    pub fn take(&self, number: u64) -> usize {
        let mut state = self.state();
        let next = state.next;
        state.last[next] = number;
        state.next = (next + 1) % TURNS;
        let is_first = |at: &usize| state.last[*at] != 0 && !state.last[..*at].contains(&state.last[*at]);
        (0..TURNS).filter(is_first).count()
    }

    /// Removes the turns of a stream that has ended.
    pub fn leave(&self, number: u64) {
        let mut state = self.state();
        for last in state.last.iter_mut().filter(|last| **last == number) {
            *last = 0;
        }
    }

    fn state(&self) -> MutexGuard<'_, Turns> {
        locked(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_taker_of_the_last_turns_is_counted_once() {
        let turns = FairShare::default();
        let [one, two, three] = [(); 3].map(|()| turns.number());
        assert_eq!([one, one, two, one, two].map(|number| turns.take(number)), [1, 1, 2, 2, 2]);
        turns.leave(one);
        assert_eq!(turns.take(two), 1);
        // A stream that took one turn and no more is forgotten.
        assert_eq!(turns.take(three), 2);
        let counts: Vec<_> = (0..TURNS).map(|_| turns.take(two)).collect();
        assert_eq!(counts, [vec![2; TURNS - 1], vec![1]].concat());
        assert_eq!((0..100).map(|_| turns.take(turns.number())).max(), Some(TURNS));
    }
}
