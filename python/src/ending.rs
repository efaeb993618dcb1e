//! The end of Python while other threads read.
//!
//! Python ends a daemon thread that asks for the GIL after the end by `pthread_exit`, which unwinds the thread's frames. Those
//! of Rust may not be unwound so: the process crashed. So [`ends`] lets all threads come to a point from where they do
//! not return.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use seekable::per_process::PerProcess;
use seekable::sync::{MutexGuard, locked};

/// Maximum time for which the end waits for threads.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two looks at them.
const PAUSE: Duration = Duration::from_millis(1);

/// Calls without the GIL.
#[derive(Default)]
struct Calls {
    count: usize,
    /// The thread that ends Python.
    ending: Option<thread::ThreadId>,
}

/// A forked process has none of the threads that are counted.
static CALLS: PerProcess<Mutex<Calls>> = PerProcess::new(Mutex::default);

fn calls() -> MutexGuard<'static, Calls> {
    locked(CALLS.get())
}

impl Calls {
    fn is_over(&self) -> bool {
        self.ending.is_some_and(|thread| thread != thread::current().id())
    }
}

/// True if Python ends, on another thread.
pub(crate) fn is_over() -> bool {
    calls().is_over()
}

/// Runs a job without the GIL. Does not return if Python ends meanwhile.
pub(crate) fn detached<T: Send>(py: Python<'_>, job: impl FnOnce() -> T + Send) -> T {
    // The call is counted for as long as it may ask for the GIL.
    let _counted = Counted::new();
    py.detach(|| {
        stay_if_over();
        let done = job();
        stay_if_over();
        done
    })
}

/// One of the calls, counted until it returns or panics.
struct Counted;

impl Counted {
    fn new() -> Self {
        calls().count += 1;
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        calls().count -= 1;
    }
}

fn stay_if_over() {
    {
        let mut calls = calls();
        if !calls.is_over() {
            return;
        }
        calls.count -= 1;
    }
    loop {
        thread::park();
    }
}

/// Python's `atexit` calls it, before daemon threads are ended.
#[pyfunction]
pub(crate) fn ends(py: Python<'_>) {
    calls().ending = Some(thread::current().id());
    py.detach(|| {
        let begun = Instant::now();
        while calls().count > 0 && begun.elapsed() < PATIENCE {
            thread::sleep(PAUSE);
        }
    });
}
