//! Retries of failed requests.

use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant, SystemTime};

use seekable::error::{Error, Kind, Result};

use super::stats::Counters;
use super::{cancel, date};

/// Limits of the pause before the first and the later retries.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Time after which a cancelled request counts as a failure of the server.
const NOTICED: Duration = Duration::from_secs(1);

/// A failed request.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: Error,
    /// True if the request may succeed later.
    pub(super) is_transient: bool,
    /// The pause that the server asks for.
    pub(super) retry_after: Option<Duration>,
}

/// The result of one request.
pub(super) type Answer<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Creates a failure that a retry may overcome. Readers get EIO.
    pub(super) fn transient(message: impl Into<String>) -> Self {
        Self { error: eio(message), is_transient: true, retry_after: None }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, is_transient: false, retry_after: None }
    }
}

/// Creates an error for EIO.
pub(super) fn eio(message: impl Into<String>) -> Error {
    Error::new(Kind::System(libc::EIO), message)
}

/// Returns the error of a reader at its deadline.
pub(super) fn too_late() -> Error {
    eio("the server did not answer within the read-timeout")
}

/// Returns the error of a request whose program a signal ends.
pub(super) fn interrupted() -> Error {
    Error::new(Kind::System(libc::EINTR), "a signal interrupts the request")
}

/// Calls `request` until it succeeds, fails for good, is cancelled, or the deadline has passed.
pub(super) fn until<T>(
    deadline: Instant,
    counters: &Counters,
    mut request: impl FnMut() -> Answer<T>,
) -> Result<T> {
    let mut tries = 0;
    loop {
        if cancel::is_cancelled() {
            return Err(interrupted());
        }
        if Instant::now() >= deadline {
            return Err(too_late());
        }
        let begun = Instant::now();
        let failure = match request() {
            Ok(result) => return Ok(result),
            Err(_) if cancel::is_cancelled() => {
                if begun.elapsed() >= NOTICED {
                    counters.failed(&eio("a program was interrupted while it waited for the server"));
                }
                return Err(interrupted());
            }
            Err(failure) => failure,
        };
        counters.failed(&failure.error);
        if !failure.is_transient {
            return Err(failure.error);
        }
        let pause = failure.retry_after.unwrap_or_default().max(jittered(tries));
        if Instant::now().checked_add(pause).is_none_or(|then| then >= deadline) {
            return Err(failure.error);
        }
        cancel::sleep(pause);
        tries += 1;
        counters.retry();
    }
}

/// Returns a random pause, which grows with the number of tries.
fn jittered(tries: u32) -> Duration {
    let most = MIN_PAUSE.saturating_mul(1 << tries.min(10)).min(MAX_PAUSE);
    // Each RandomState has other keys.
    let random = std::hash::RandomState::new().build_hasher().finish();
    most.mul_f64(0.1 + 0.9 * (random % 1024) as f64 / 1024.0)
}

/// Parses `Retry-After`: seconds, or a date.
pub(super) fn retry_after(value: &str) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.len() <= 9 && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().ok()?));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    let then = u64::try_from(date::http(value)?).ok()?;
    Some(Duration::from_secs(then.saturating_sub(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_have_a_limit() {
        for tries in [0, 1, 5, 40, u32::MAX] {
            let pause = jittered(tries);
            assert!(pause >= MIN_PAUSE / 10 && pause <= MAX_PAUSE, "{pause:?}");
        }
        assert!(jittered(0) <= MIN_PAUSE);
    }

    #[test]
    fn a_request_that_was_given_up_after_a_while_is_an_error_of_the_server() {
        for (pause, errors) in [(Duration::ZERO, 0), (NOTICED, 1)] {
            let counters = Counters::default();
            let cancel = cancel::Cancel::default();
            let deadline = Instant::now() + Duration::from_secs(600);
            let given_up = cancel.clone().watched(|| {
                until(deadline, &counters, || -> Answer<()> {
                    std::thread::sleep(pause);
                    cancel.cancel();
                    Err(Failure::transient("the server stalls"))
                })
            });
            assert_eq!(given_up.unwrap_err().errno(), libc::EINTR);
            assert_eq!(counters.now().errors, errors);
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after("7"), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        for value in ["", "-1", "soon", "99999999999999999999", "+3"] {
            assert_eq!(retry_after(value), None, "{value}");
        }
    }
}
