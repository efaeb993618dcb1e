//! The time of the last request, for mounts that end when they are idle.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Milliseconds from the start of the process to the last request. A process serves one mount.
static LAST: AtomicU64 = AtomicU64::new(0);
static START: OnceLock<Instant> = OnceLock::new();

fn since_start() -> u64 {
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Records the time of a request.
pub(super) fn note() {
    LAST.store(since_start(), Ordering::Relaxed);
}

/// Returns the time since the last request; before the first request, the time since the first call.
pub(crate) fn quiet_for() -> Duration {
    Duration::from_millis(since_start().saturating_sub(LAST.load(Ordering::Relaxed)))
}
