//! Who a request comes from, as `/proc` tells.
//!
//! A request names a thread. Whether a close is that of the program which opened the file is a question
//! of thread groups: node opens and closes from different threads.

use fuser::Request;

use crate::tree::Caller;

/// `PF_SIGNALED` among the flags of a thread in `/proc/PID/stat`: a signal is ending it.
const SIGNALED: u64 = 0x400;
/// Where the flags stand among the fields after the name.
const FLAGS: usize = 6;

/// Who a request comes from; nobody where that can't be known, as from another container.
pub(crate) fn of(request: &Request) -> Caller {
    let thread = request.pid();
    let group = group(thread).unwrap_or(0);
    // Where one thread ends the whole process the others die of a signal, which says nothing: but that
    // one, mostly the first, does not.
    let killed = group != 0 && is_killed(thread) && is_killed(group);
    Caller { group, killed }
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
}
