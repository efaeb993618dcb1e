//! Serial numbers: what tells the files of a mount from each other.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Kind, Result};

/// The serials given out so far.
#[derive(Debug)]
pub(crate) struct Serials(AtomicU32);

impl Serials {
    /// Serial 0 is the root's.
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(1))
    }

    pub(crate) fn next(&self) -> Result<u32> {
        let next = |serial: u32| serial.checked_add(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).map_err(|_| {
            Error::new(Kind::System(libc::ENFILE), "all node numbers are used up: mount the source again")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_end_instead_of_starting_again() {
        let serials = Serials(AtomicU32::new(u32::MAX - 1));
        assert!(serials.next().is_ok());
        assert!(serials.next().is_err());
        assert!(serials.next().is_err());
    }
}
