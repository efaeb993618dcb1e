//! Waits for programs that have a lease on a file, such as a file server for one of its clients.

use std::time::{Duration, Instant};

use super::writes;

/// How long to wait. The kernel ends a lease 45 s after another program has opened the file
/// (`/proc/sys/fs/lease-break-time`), or when its holder gives it up, usually at once.
const IN_PROGRAM: Duration = Duration::from_secs(60);
/// In a daemon, which answers others meanwhile.
const IN_DAEMON: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

/// Opens a file with `open`, which does not block. If another program has a write lease on the file, waits for it to give
/// the lease up, as opening without O_NONBLOCK would.
pub fn wait_for_lease<T, E>(open: impl Fn() -> Result<T, E>, is_leased: impl Fn(&E) -> bool) -> Result<T, E> {
    let begun = Instant::now();
    let patience = if writes::are_counted() { IN_DAEMON } else { IN_PROGRAM };
    loop {
        match open() {
            Err(error) if is_leased(&error) && begun.elapsed() < patience => std::thread::sleep(PAUSE),
            opened => return opened,
        }
    }
}
