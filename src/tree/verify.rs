//! The MD5 of blocks, checked for who reads them.
//!
//! The standard lets a reader check the checksum of a block or not. It is not done unless it is asked for:
//! a single core hashes some 500 MB/s, a fraction of what blocks are read with, and most of a large block
//! is never read at all. With `first-read` a block is checked beside its readers, from the first read on;
//! once it is found wrong, reads are errors, and the kernel is told to forget what it has of it. With
//! `always` the first reader waits until all of the block was found right. Blocks without a checksum are
//! read as ever.

use std::sync::Arc;

use super::Ino;
use super::folder::{Opened, Volume};
use super::node::Part;
use crate::cache::Workers;
use crate::error::{Error, Result};
use crate::format::Verified;

/// When the checksum of a block is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// When someone asks for it, and for nobody else.
    #[default]
    Off,
    /// From the first read of the block on, beside its readers.
    FirstRead,
    /// Before a byte of the block is given.
    Always,
}

/// Checks blocks in the background.
#[derive(Debug)]
pub(crate) struct Verifier {
    when: Verify,
    workers: Workers,
}

impl Verifier {
    pub(crate) fn new(when: Verify) -> Self {
        Self { when, workers: Workers::new("verify", 1) }
    }
}

impl Volume {
    /// Whether a read of block `n` is to wait until all of it was checked.
    pub(crate) fn is_held_up(&self, opened: &Opened, n: u32) -> bool {
        self.verifier().when == Verify::Always && self.known(opened.edition(), n).is_none()
    }

    /// Whether block `n` is known to be other than its checksum says.
    pub(crate) fn is_wrong(&self, opened: &Opened, n: u32) -> bool {
        self.verifier().when != Verify::Off && self.known(opened.edition(), n) == Some(Verified::Mismatch)
    }

    /// Lets a read of block `n` pass, or says why not; for who holds the source still.
    pub(crate) fn admit(self: &Arc<Self>, opened: &Arc<Opened>, n: u32) -> Result<()> {
        let found = match self.verifier().when {
            Verify::Off => return Ok(()),
            Verify::Always => self.verify_of(opened, n)?,
            Verify::FirstRead => match self.known(opened.edition(), n) {
                Some(found) => found,
                None => {
                    self.begin(opened, n);
                    return Ok(());
                }
            },
        };
        match found {
            Verified::Mismatch => Err(wrong(opened, n)),
            Verified::Stored | Verified::Decoded | Verified::None => Ok(()),
        }
    }

    /// Has block `n` checked in the background, unless that was begun already.
    fn begin(self: &Arc<Self>, opened: &Arc<Opened>, n: u32) {
        if !self.is_first_to_check(opened.edition(), n) {
            return;
        }
        let (volume, opened) = (self.clone(), opened.clone());
        self.verifier().workers.run(move || {
            if let Ok(Verified::Mismatch) = volume.verify(n) {
                volume.trouble(&wrong(&opened, n));
                volume.void(n);
            }
        });
    }

    /// Has the kernel forget what it has of block `n`.
    pub(crate) fn void(&self, n: u32) {
        self.pages().forget(Ino::new(self.serial, Part::Block(n)));
    }
}

fn wrong(opened: &Opened, n: u32) -> Error {
    let error = Error::damaged(format!("block {n}: its MD5 fits neither the stored nor the decoded data"));
    match &opened.container {
        Ok(container) => error.of(container.source().path()),
        Err(_) => error,
    }
}
