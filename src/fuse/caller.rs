//! The process that made a request, looked up in `/proc`.
//!
//! A request contains a thread ID. To find out whether the program that opened a file also closes it, thread
//! groups are compared: Node.js opens and closes from different threads.
//!
//! Some files of `/proc` must not be read while a request waits for its reply. exec closes files, and until
//! it is done the kernel blocks every reader of `/proc/PID/stat`. Reading `status` never blocks; `stat` is
//! read on a separate thread with a short time-out.

use std::fs::File;
use std::io::Read;
use std::sync::mpsc;
use std::time::Duration;

use fuser::Request;

use crate::overlay::write_handle::Caller;

/// Flag `PF_SIGNALED` of a thread in `/proc/PID/stat`: a signal is ending the thread.
const SIGNALED: u64 = 0x400;
/// Index of the flags among the fields after the process name.
const FLAGS: usize = 6;
/// Number of bytes of `/proc/PID/status` that contain the line with the thread group.
const FIRST_LINES: usize = 512;
/// Time-out for reading `stat`. If the read blocks, the process is in exec and can't be killed now anyway.
const WAIT: Duration = Duration::from_millis(100);

/// Returns the process of the thread that made a request. Group 0 means unknown, for
/// example in another container.
pub(crate) fn of(thread: u32, uid: u32) -> Caller {
    Caller { group: group(thread).unwrap_or(0), uid, killed: false }
}

/// Returns the process that closes a file, and whether a signal is ending it.
pub(crate) fn closing(request: &Request) -> Caller {
    let thread = request.pid();
    let caller = of(request.pid(), request.uid());
    if caller.group == 0 {
        return caller;
    }
    // exit_group kills the other threads by a signal, but not the calling thread, which is usually the first.
    // A process was therefore ended by a signal only if its first thread is killed too.
    let threads = [thread, caller.group];
    Caller { killed: in_time(move || threads.into_iter().all(is_killed)).unwrap_or(false), ..caller }
}

/// Returns the result of `question`; `None` after [`WAIT`].
fn in_time<T: Send + 'static>(question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (answer, answered) = mpsc::channel();
    let asking = std::thread::Builder::new().name("caller".into()).spawn(move || {
        // After the time-out the receiver is gone.
        let _ = answer.send(question());
    });
    asking.ok()?;
    answered.recv_timeout(WAIT).ok()
}

fn group(thread: u32) -> Option<u32> {
    // The line `Tgid:` is among the first lines, which are short.
    let mut start = [0; FIRST_LINES];
    let read = File::open(format!("/proc/{thread}/status")).ok()?.read(&mut start).ok()?;
    let start = String::from_utf8_lossy(start.get(..read)?);
    start.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

fn is_killed(thread: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
    let flags = fields.and_then(|fields| fields.split(' ').nth(FLAGS)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & SIGNALED != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_belongs_to_its_process_and_is_alive() {
        let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        assert_eq!(group(thread), Some(std::process::id()));
        assert!(!is_killed(thread));
        assert_eq!(group(0), None);
    }

    #[test]
    fn a_question_without_an_answer_times_out() {
        let (_keep, never) = mpsc::channel::<()>();
        assert!(in_time(move || never.recv()).is_none());
        assert_eq!(in_time(|| 7), Some(7));
    }
}
