//! Handles of open files and directories.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::time::Duration;

use fuser::FileHandle;
use seekable::sync::{locked, locked_to_read, locked_to_write, wait_while_within};

/// Locked while a wait begins.
#[derive(Debug)]
struct Waiting;

/// Open files or directories by handle.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    next: AtomicU64,
    open: RwLock<HashMap<u64, Arc<T>>>,
    /// A lock, held from checking `open` until the wait begins, so that no removal is missed in between.
    waiting: Mutex<Waiting>,
    closed: Condvar,
}

impl<T> Handles<T> {
    pub(crate) fn new() -> Self {
        Self {
            next: AtomicU64::new(1),
            open: RwLock::new(HashMap::new()),
            waiting: Mutex::new(Waiting),
            closed: Condvar::new(),
        }
    }

    pub(crate) fn add(&self, what: T) -> (FileHandle, Arc<T>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let what = Arc::new(what);
        locked_to_write(&self.open).insert(number, what.clone());
        (FileHandle(number), what)
    }

    /// Returns the file of a handle. The file stays open while the returned reference exists.
    pub(crate) fn get(&self, handle: FileHandle) -> Option<Arc<T>> {
        locked_to_read(&self.open).get(&handle.0).cloned()
    }

    /// Waits until `is` is false for every open file, at most for `patience`. Returns true if that is so in time.
    pub(crate) fn wait_while_any(&self, is: impl Fn(&T) -> bool, patience: Duration) -> bool {
        let any = |_: &mut Waiting| locked_to_read(&self.open).values().any(|what| is(what));
        let waiting = locked(&self.waiting);
        let (_waiting, is_over) = wait_while_within(&self.closed, waiting, patience, any);
        !is_over
    }

    pub(crate) fn remove(&self, handle: FileHandle) {
        let removed = locked_to_write(&self.open).remove(&handle.0);
        self.tell();
        drop(removed); // closes the file after the lock is released
    }

    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *locked_to_write(&self.open));
        self.tell();
        drop(all);
    }

    /// Wakes the threads in [`wait_while_any`](Self::wait_while_any).
    fn tell(&self) {
        drop(locked(&self.waiting));
        self.closed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A time after which a test that waits in vain fails.
    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_waiter_is_woken_when_the_last_matching_file_closes() {
        for end in [Handles::remove, |handles: &Handles<u8>, _| handles.clear()] {
            let handles = Handles::new();
            let _ = handles.add(b'r');
            let (writer, _) = handles.add(b'p');
            let (looks, looked) = mpsc::channel();
            std::thread::scope(|scope| {
                let handles = &handles;
                scope.spawn(move || {
                    let is_writer = |what: &u8| {
                        let _ = looks.send(());
                        *what == b'p'
                    };
                    assert!(handles.wait_while_any(is_writer, LONG));
                    assert!(handles.get(writer).is_none());
                });
                looked.recv().unwrap();
                end(handles, writer);
            });
        }
    }

    #[test]
    fn a_waiter_ignores_other_files_and_times_out() {
        let handles = Handles::new();
        handles.add(b'r');
        assert!(handles.wait_while_any(|what| *what == b'p', LONG));
        assert!(!handles.wait_while_any(|what| *what == b'r', Duration::from_millis(5)));
    }
}
