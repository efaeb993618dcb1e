//! Serial numbers, which identify the files of a mount.

use std::sync::atomic::{AtomicU64, Ordering};

use seekable::error::{Error, Kind, Result};

/// Highest serial number: two inode numbers may be derived from each serial number, so the numbers stop at
/// half of the range.
const MAX_SERIAL: u64 = u64::MAX / 2 - 2;

/// The counter of serials.
#[derive(Debug)]
pub(crate) struct Serials(AtomicU64);

impl Serials {
    /// Creates the counter. Serial 0 is the root's.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    pub(crate) fn next(&self) -> Result<u64> {
        let next = |serial: u64| (serial < MAX_SERIAL).then_some(serial + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).map_err(|_| {
            Error::new(
                Kind::System(libc::ENFILE),
                "all inode numbers are used: unmount the source, and mount it again",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_end_instead_of_starting_again() {
        let serials = Serials(AtomicU64::new(MAX_SERIAL - 1));
        assert!(serials.next().is_ok());
        assert!(serials.next().is_err());
        assert!(serials.next().is_err());
    }
}
