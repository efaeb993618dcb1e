//! Scratch tables and buffers of decoders, kept for reuse.

use std::any::Any;
use std::sync::Mutex;

use crate::sync::locked;

/// Minimum of the pool's limit in bytes, for small budgets.
const WEIGHT: u64 = 16 << 20;

/// The kept objects with their weights; the one used last is at the end.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    waiting: Mutex<Vec<(Box<dyn Any + Send>, u64)>>,
    most: u64,
}

impl Scratch {
    /// Creates a pool limited to an eighth of the budget.
    pub(super) fn new(budget: u64) -> Self {
        Self { waiting: Mutex::default(), most: WEIGHT.max(budget / 8) }
    }

    /// Returns the bytes of all kept objects.
    pub(super) fn weight(&self) -> u64 {
        locked(&self.waiting).iter().map(|(_, weight)| weight).sum()
    }

    /// Takes a kept object, or creates a new one.
    pub(super) fn take<T: Any + Send + Default>(&self) -> Box<T> {
        let mut waiting = locked(&self.waiting);
        let place = waiting.iter().rposition(|(one, _)| one.is::<T>());
        let found = place.map(|place| waiting.remove(place).0);
        drop(waiting);
        found.and_then(|one| one.downcast().ok()).unwrap_or_default()
    }

    /// Adds an object of `weight` bytes to the pool, and evicts the oldest objects beyond the pool's limit.
    pub(super) fn give<T: Any + Send>(&self, one: Box<T>, weight: u64) {
        let mut dropped = Vec::new();
        let mut waiting = locked(&self.waiting);
        waiting.push((one, weight));
        while waiting.iter().map(|(_, weight)| weight).sum::<u64>() > self.most {
            dropped.push(waiting.remove(0));
        }
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_the_same_kind_and_holds_only_so_much() {
        let scratch = Scratch::new(0);
        scratch.give(Box::new(7_u32), 1);
        scratch.give(Box::new(String::from("a")), 1);
        assert_eq!((*scratch.take::<u32>(), *scratch.take::<u32>()), (7, 0));
        scratch.give(Box::new(8_u32), WEIGHT);
        assert_eq!((*scratch.take::<u32>(), scratch.take::<String>().as_str()), (8, ""));
        scratch.give(Box::new(9_u32), WEIGHT + 1);
        assert_eq!(*scratch.take::<u32>(), 0);
    }
}
