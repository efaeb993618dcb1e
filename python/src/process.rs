//! Values that a forked process does not use.

/// A value with threads and locks. In a process that was forked from the one that made it, its threads are missing and its
/// locks may be held for ever: there it can neither be used nor dropped.
#[derive(Debug)]
pub(crate) struct Own<T> {
    process: u32,
    /// `None` only while the value is dropped.
    value: Option<T>,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: std::process::id(), value: Some(value) }
    }

    /// Returns the value, unless another process made it.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.process == std::process::id())
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}
