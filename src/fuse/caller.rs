//! Who a request comes from, as `/proc` tells.
//!
//! A request names a thread. Whether a close is that of the program which opened the file is a question
//! of thread groups: node opens and closes from different threads.
//!
//! Not everything in `/proc` may be read while a request waits for its answer: a program that executes
//! another closes files in the midst of it, and until that is done the kernel lets nobody read
//! `/proc/PID/stat`. `status` is free of that; `stat` is read on a thread that is not waited for long.

use std::sync::mpsc;
use std::time::Duration;

use fuser::Request;

use crate::overlay::write_handle::Caller;

/// `PF_SIGNALED` among the flags of a thread in `/proc/PID/stat`: a signal is ending it.
const SIGNALED: u64 = 0x400;
/// Where the flags stand among the fields after the name.
const FLAGS: usize = 6;
/// How long `stat` may take; who executes another program can't be killed just now anyway.
const WAIT: Duration = Duration::from_millis(100);

/// Who a request comes from; nobody where that can't be known, as from another container.
pub(crate) fn of(request: &Request) -> Caller {
    Caller { group: group(request.pid()).unwrap_or(0), killed: false }
}

/// The same of one that closes a file: also whether a signal is ending it.
pub(crate) fn closing(request: &Request) -> Caller {
    let (thread, caller) = (request.pid(), of(request));
    if caller.group == 0 {
        return caller;
    }
    // Where one thread ends the whole process the others die of a signal, which says nothing: but that
    // one, mostly the first, does not.
    let threads = [thread, caller.group];
    Caller { killed: in_time(move || threads.into_iter().all(is_killed)).unwrap_or(false), ..caller }
}

/// What `question` answers, unless it takes too long.
fn in_time<T: Send + 'static>(question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (answer, answered) = mpsc::channel();
    let asking = std::thread::Builder::new().name("caller".into()).spawn(move || {
        // Nobody listens any more after the time is up.
        let _ = answer.send(question());
    });
    asking.ok()?;
    answered.recv_timeout(WAIT).ok()
}

fn group(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
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
    fn a_question_without_an_answer_is_given_up() {
        let (_keep, never) = mpsc::channel::<()>();
        assert!(in_time(move || never.recv()).is_none());
        assert_eq!(in_time(|| 7), Some(7));
    }
}
