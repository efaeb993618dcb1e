//! The program's thread that waits for a request, the signals that end it, and the time since which it waits.
//!
//! fuser does not support FUSE_INTERRUPT, by which the kernel interrupts a request. A thread that decodes much or waits
//! for a server therefore looks at the signals of its caller. A caller in this process says itself whether it still wants
//! the bytes.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::Read;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;

use crate::error::Result;

thread_local! {
    /// The thread of a program on whose behalf this thread works.
    static CALLER: Cell<Option<u32>> = const { Cell::new(None) };
    /// Tells whether the caller in this process, for which this thread works, has given up.
    static HAS_GIVEN_UP: RefCell<Option<HasGivenUp>> = const { RefCell::new(None) };
    /// The time at which the request arrived for which this thread works.
    static ARRIVED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// The time of this thread's last look at its caller, or of the start of its job.
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

type HasGivenUp = Rc<dyn Fn() -> bool>;

/// Time between two looks at the signals.
pub const LOOK: Duration = Duration::from_millis(50);

/// Number of bytes of `/proc/PID/status` that contain the lines about signals.
const LINES: usize = 4096;

/// SIGHUP, SIGINT, SIGQUIT, SIGKILL and SIGTERM. Other signals do not interrupt requests, because programs
/// may not expect EINTR.
const ENDING: u64 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 8 | 1 << 14;

/// Runs a job for a request that arrived at a time, on behalf of the thread `caller` of a program.
pub fn on_behalf_of<T>(caller: Option<u32>, arrived: Instant, job: impl FnOnce() -> T) -> T {
    let _reset = Reset(CALLER.replace(caller), ARRIVED.replace(Some(arrived)));
    LOOKED.set(Some(Instant::now()));
    job()
}

/// Runs a job for a caller in this process. The job ends with EINTR soon after `has_given_up`, which is called on this
/// thread while the job waits or decodes, has returned true.
pub fn unless_given_up<T>(has_given_up: impl Fn() -> bool + 'static, job: impl FnOnce() -> T) -> T {
    let _reset = ResetGivenUp(HAS_GIVEN_UP.replace(Some(Rc::new(has_given_up))));
    LOOKED.set(Some(Instant::now()));
    job()
}

/// A guard that restores the caller in this process. A panic drops it, too.
struct ResetGivenUp(Option<HasGivenUp>);

impl Drop for ResetGivenUp {
    fn drop(&mut self) {
        HAS_GIVEN_UP.set(self.0.take());
    }
}

/// Returns a job for another thread, with the deadline of this thread's request. If the thread that runs the job
/// has a later deadline, that one counts.
pub fn with_deadline<T>(job: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let arrived = ARRIVED.get();
    move || {
        let _reset = Reset(CALLER.get(), ARRIVED.replace(arrived.max(ARRIVED.get())));
        job()
    }
}

/// Returns the time at which this thread gives up waiting, if it waits no longer than `patience` for all parts
/// of a request.
pub fn deadline(patience: Duration) -> Instant {
    ARRIVED.get().unwrap_or_else(Instant::now) + patience
}

/// A guard that restores caller and time of arrival. A panic drops it, too.
struct Reset(Option<u32>, Option<Instant>);

impl Drop for Reset {
    fn drop(&mut self) {
        CALLER.set(self.0);
        ARRIVED.set(self.1);
    }
}

/// True if the caller has ended or given up, or a signal is to end it.
pub fn is_gone() -> bool {
    let has_given_up = HAS_GIVEN_UP.with_borrow(Option::clone);
    has_given_up.is_some_and(|has_given_up| has_given_up()) || CALLER.get().is_some_and(is_thread_gone)
}

/// Returns EINTR if the caller is gone. Called often during work that does not wait, it looks once in [`LOOK`], however the
/// job divides its work.
pub fn look() -> Result<()> {
    if LOOKED.get().is_some_and(|looked| looked.elapsed() < LOOK) {
        return Ok(());
    }
    if is_gone() {
        return Err(Errno::INTR.into());
    }
    LOOKED.set(Some(Instant::now()));
    Ok(())
}

/// True if a thread of a program has ended, or a signal is to end it. Reading `status` never blocks.
pub fn is_thread_gone(thread: u32) -> bool {
    // A thread in another PID namespace has the number 0.
    let Some(id) = i32::try_from(thread).ok().and_then(Pid::from_raw) else { return false };
    // A thread may end while the kernel reads ahead for it. Unlike files in /proc, it is never hidden from other users:
    // the error is EPERM then.
    if rustix::process::test_kill_process(id) == Err(Errno::SRCH) {
        return true;
    }
    let mut start = [0; LINES];
    let read = File::open(format!("/proc/{thread}/status")).and_then(|mut file| file.read(&mut start));
    let start = String::from_utf8_lossy(start.get(..read.unwrap_or(0)).unwrap_or_default());
    let mask = |name: &str| {
        let line = start.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    };
    (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") & !mask("SigIgn:") & ENDING != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_one_deadline_on_all_threads() {
        let second = Duration::from_secs(1);
        let begun = Instant::now();
        assert!(deadline(second) >= begun + second);
        let job = on_behalf_of(None, begun, || {
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(deadline(second), begun + second);
            with_deadline(move || deadline(second))
        });
        let late = on_behalf_of(None, begun, || with_deadline(move || deadline(second)));
        assert_eq!(std::thread::spawn(job).join().unwrap(), begun + second);
        // A job that another request runs in the end has that request's deadline.
        let later = begun + 5 * second;
        assert_eq!(on_behalf_of(None, later, late), later + second);
        assert!(deadline(second) > begun + second);
    }

    #[test]
    fn looks_of_short_pieces_of_work_add_up() {
        let piece = || {
            std::thread::sleep(Duration::from_millis(5));
            look()
        };
        assert!(unless_given_up(|| true, || (0..100).any(|_| piece().is_err())));
        assert!(unless_given_up(|| false, || (0..20).all(|_| piece().is_ok())));
    }

    #[test]
    fn a_thread_that_has_ended_is_gone() {
        let id = || rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert!(!is_thread_gone(id()) && !is_thread_gone(0) && !is_thread_gone(u32::MAX));
        let ended = std::thread::spawn(id).join().unwrap();
        // The thread ends a moment after it is joined.
        assert!((0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            is_thread_gone(ended)
        }));
    }

    /// As in a container that a program was started in from outside. Its process group has no number there. Needs root.
    #[cfg(feature = "system-tests")]
    #[test]
    fn a_thread_is_known_in_a_pid_namespace_without_its_process_group() {
        let ended = std::process::Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "workers::caller::tests::a_thread_that_has_ended_is_gone"])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && told.contains("1 passed"), "{ended:?}");
    }
}
