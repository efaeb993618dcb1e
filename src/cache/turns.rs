//! Who decodes streams just now, told from who took the last turns.
//!
//! One stream alone gives work to other threads than its own only at a price; several that are read at the
//! same time give each thread its work without it. Nobody says that he has stopped, as nobody knows whether a
//! reader comes again: who takes no turns while the others do is forgotten.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Turns that are remembered.
const TURNS: usize = 16;

/// The last turns, each with the number of who took it; 0 is nobody.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: [u64; TURNS],
    next: usize,
    numbers: u64,
}

impl Turns {
    /// A number for who is going to take turns.
    pub(crate) fn number(&self) -> u64 {
        let mut state = self.state();
        state.numbers += 1;
        state.numbers
    }

    /// Takes a turn; how many have taken one lately, with this one.
    pub(crate) fn take(&self, number: u64) -> usize {
        let mut state = self.state();
        let next = state.next;
        state.last[next] = number;
        state.next = (next + 1) % TURNS;
        let is_first = |at: &usize| state.last[*at] != 0 && !state.last[..*at].contains(&state.last[*at]);
        (0..TURNS).filter(is_first).count()
    }

    /// Says that this one takes no more.
    pub(crate) fn leave(&self, number: u64) {
        let mut state = self.state();
        state.last.iter_mut().filter(|last| **last == number).for_each(|last| *last = 0);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_took_the_last_turns_are_counted_once_each() {
        let turns = Turns::default();
        let [one, two, three] = [(); 3].map(|()| turns.number());
        assert_eq!([one, one, two, one, two].map(|number| turns.take(number)), [1, 1, 2, 2, 2]);
        turns.leave(one);
        assert_eq!(turns.take(two), 1);
        // Who took one, and no more, is forgotten.
        assert_eq!(turns.take(three), 2);
        let counts: Vec<_> = (0..TURNS).map(|_| turns.take(two)).collect();
        assert_eq!(counts, [vec![2; TURNS - 1], vec![1]].concat());
        assert_eq!((0..100).map(|_| turns.take(turns.number())).max(), Some(TURNS));
    }
}
