//! Static values of which each process has its own.

use std::sync::OnceLock;

/// A static value of which each process has its own. After a fork, another thread may have held a lock of the parent's
/// value, and no thread of the child ends that.
#[derive(Debug)]
pub struct PerProcess<T> {
    first: OnceLock<Box<OfProcess<T>>>,
    make: fn() -> T,
}

#[derive(Debug)]
struct OfProcess<T> {
    process: u32,
    value: T,
    /// The value of a child, in its memory.
    next: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    /// A value that each process makes when it first needs it.
    pub const fn new(make: fn() -> T) -> Self {
        Self { first: OnceLock::new(), make }
    }

    /// Returns the value of this process.
    pub fn get(&self) -> &T {
        let process = std::process::id();
        let make = || Box::new(OfProcess { process, value: (self.make)(), next: OnceLock::new() });
        let mut found = self.first.get_or_init(make);
        while found.process != process {
            found = found.next.get_or_init(make);
        }
        &found.value
    }
}
