//! The order in which threads take locks, checked in a debug build.
//!
//! Two threads that take two locks in different orders may wait for each other. A debug build notes which locks a
//! thread holds while it takes another one, and panics at the first one that closes a circle, even if the threads
//! happened not to wait. Locks are told apart by their rank, or by the type that they guard. Locks of one type may be
//! taken together, without a check: an array that is gathered from gathered ones is locked before they are.

use super::Rank;

/// The locks of one rank, or those that guard a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(debug_assertions), allow(dead_code))]
pub(super) enum Class {
    Ranked(Rank),
    /// The name of the type.
    Guarding(&'static str),
}

impl Class {
    pub(super) fn guarding<T>() -> Self {
        Self::Guarding(std::any::type_name::<T>())
    }
}

#[cfg(debug_assertions)]
pub(super) use checked::HeldLock;
#[cfg(not(debug_assertions))]
pub(super) use unchecked::HeldLock;

#[cfg(debug_assertions)]
mod checked {
    use std::cell::RefCell;
    use std::collections::{HashMap, HashSet};
    use std::sync::{Mutex, PoisonError};

    use super::Class;
    use crate::per_process::PerProcess;

    /// The classes that were taken while one of a class was held.
    type Order = HashMap<Class, HashSet<Class>>;

    /// The order of all threads.
    static ORDER: PerProcess<Mutex<Order>> = PerProcess::new(Mutex::default);

    thread_local! {
        static HELD: RefCell<Vec<Class>> = const { RefCell::new(Vec::new()) };
        /// The pairs that this thread has noted in `ORDER`.
        static NOTED: RefCell<HashSet<(Class, Class)>> = RefCell::default();
    }

    /// A lock that this thread holds.
    #[derive(Debug)]
    pub(in super::super) struct HeldLock(Class);

    impl HeldLock {
        /// Checks that this thread may wait for a lock.
        pub(in super::super) fn check(class: Class) {
            let held = HELD.with_borrow(Clone::clone);
            for before in held {
                match (before, class) {
                    (Class::Ranked(held), Class::Ranked(rank)) => {
                        assert!(held < rank, "{rank:?} is locked after {held:?}");
                    }
                    _ if before == class => {}
                    _ => note(before, class),
                }
            }
        }

        /// Notes that this thread holds a lock.
        pub(in super::super) fn note(class: Class) -> Self {
            HELD.with_borrow_mut(|held| held.push(class));
            Self(class)
        }
    }

    impl Drop for HeldLock {
        fn drop(&mut self) {
            // An ending thread may have dropped its list already.
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(place) = held.iter().rposition(|class| *class == self.0) {
                    held.remove(place);
                }
            });
        }
    }

    /// Notes that one lock is taken while another one is held; panics if a circle is closed.
    fn note(held: Class, taken: Class) {
        if !NOTED.with_borrow_mut(|noted| noted.insert((held, taken))) {
            return;
        }
        let mut order = ORDER.get().lock().unwrap_or_else(PoisonError::into_inner);
        let back = path(&order, taken, held);
        order.entry(held).or_default().insert(taken);
        drop(order);
        assert!(back.is_none(), "{taken:?} is locked while {held:?} is; elsewhere, in this order: {back:?}");
    }

    /// Returns the classes from one to another, each of which was taken while the one before was held.
    fn path(order: &Order, from: Class, to: Class) -> Option<Vec<Class>> {
        let mut reached = HashMap::from([(from, from)]);
        let mut ahead = vec![from];
        while let Some(at) = ahead.pop() {
            if at == to {
                let mut path = vec![at];
                while let Some(before) = path.last().map(|last| reached[last])
                    && path.last() != Some(&from)
                {
                    path.push(before);
                }
                path.reverse();
                return Some(path);
            }
            for next in order.get(&at).into_iter().flatten() {
                if !reached.contains_key(next) {
                    reached.insert(*next, at);
                    ahead.push(*next);
                }
            }
        }
        None
    }
}

#[cfg(not(debug_assertions))]
mod unchecked {
    use super::Class;

    #[derive(Debug)]
    pub(in super::super) struct HeldLock;

    impl HeldLock {
        pub(in super::super) fn check(_: Class) {}

        pub(in super::super) fn note(_: Class) -> Self {
            Self
        }
    }
}
