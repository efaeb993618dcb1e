//! The handles that the kernel holds: numbers for what is open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;

use fuser::FileHandle;

/// What is open, by the number that the kernel has for it.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    next: AtomicU64,
    open: RwLock<HashMap<u64, Arc<T>>>,
    /// Held from a look at what is open until the wait for its end, so that no end falls between.
    looking: Mutex<()>,
    closed: Condvar,
}

impl<T> Handles<T> {
    pub(crate) fn new() -> Self {
        Self {
            next: AtomicU64::new(1),
            open: RwLock::new(HashMap::new()),
            looking: Mutex::new(()),
            closed: Condvar::new(),
        }
    }

    pub(crate) fn add(&self, what: T) -> (FileHandle, Arc<T>) {
        let (number, what) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::new(what));
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(number, what.clone());
        (FileHandle(number), what)
    }

    /// What a number stands for; it stays open for as long as the answer is held.
    pub(crate) fn get(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).get(&handle.0).cloned()
    }

    /// Waits while any that is open is of a kind, but no longer than that.
    pub(crate) fn wait_while_any(&self, is: impl Fn(&T) -> bool, patience: Duration) {
        let any = |_: &mut ()| {
            self.open.read().unwrap_or_else(PoisonError::into_inner).values().any(|what| is(what))
        };
        let looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.closed.wait_timeout_while(looking, patience, any);
    }

    pub(crate) fn remove(&self, handle: FileHandle) {
        let removed = self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
        self.tell();
        drop(removed); // closed without the lock
    }

    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.open.write().unwrap_or_else(PoisonError::into_inner));
        self.tell();
        drop(all);
    }

    /// Wakes who waits for the end of what is open.
    fn tell(&self) {
        drop(self.looking.lock().unwrap_or_else(PoisonError::into_inner));
        self.closed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Instant;

    /// Far longer than being woken takes.
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn who_waits_for_a_kind_is_woken_by_the_end_of_its_last() {
        for end in [Handles::remove, |handles: &Handles<u8>, _| handles.clear()] {
            let handles = Handles::new();
            let (_, (writer, _)) = (handles.add(b'r'), handles.add(b'p'));
            let (looks, looked) = mpsc::channel();
            let began = Instant::now();
            std::thread::scope(|scope| {
                let handles = &handles;
                scope.spawn(move || {
                    let is_pen = |what: &u8| {
                        let _ = looks.send(());
                        *what == b'p'
                    };
                    handles.wait_while_any(is_pen, LONG);
                    assert!(handles.get(writer).is_none());
                });
                looked.recv().unwrap();
                end(handles, writer);
            });
            assert!(began.elapsed() < LONG / 2);
        }
    }

    #[test]
    fn nobody_waits_for_another_kind_or_for_ever() {
        let handles = Handles::new();
        handles.add(b'r');
        let began = Instant::now();
        handles.wait_while_any(|what| *what == b'p', LONG);
        assert!(began.elapsed() < LONG / 2);
        let (short, began) = (Duration::from_millis(5), Instant::now());
        handles.wait_while_any(|what| *what == b'r', short);
        assert!(began.elapsed() >= short);
    }
}
