//! The interface between a save that changes a file in place, and the file's readers.
//!
//! Readers keep the bytes of the generation that they opened. Therefore a save announces which bytes it
//! overwrites and which ones it moves, before it changes the file.

use std::fs::File;
use std::ops::Range;

use super::Identity;

/// The result of moving bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The bytes are at their new offsets.
    Yes,
    /// The bytes are at their old offsets.
    No,
    /// Some of the bytes may have moved.
    Unknown,
}

/// The readers of a file that a save changes in place. Each call names the file, as the save may have opened
/// another file than the readers.
pub trait Readers {
    /// Copies the bytes of these ranges for readers, because the save overwrites them next. Once this
    /// returns, no thread reads these bytes from the file.
    fn keep(&mut self, file: Identity, ranges: &[Range<u64>]);

    /// Runs `relocate` while no thread reads the file. `relocate` moves all bytes from offset `from` on by
    /// `shift`.
    fn relocate(&mut self, file: Identity, from: u64, shift: i64, relocate: &mut dyn FnMut() -> Moved);

    /// Runs `write`, which writes to the file, while no thread reads it; if there is an image, threads read that.
    /// `write` returns true if no other program wrote in that time.
    fn write(&mut self, file: Identity, write: &mut dyn FnMut() -> bool);

    /// Serves reads of a file range from `image`, at an offset larger by `shift`, until
    /// [`image_written`](Self::image_written).
    fn read_from_image(&mut self, file: Identity, range: Range<u64>, shift: u64, image: File);

    /// Ends the use of the image: the file now has the bytes of the image (`Yes`), or its old bytes again
    /// (`No`).
    fn image_written(&mut self, file: Identity, shift: u64, written: Moved);
}

/// The absence of readers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoReaders;

impl Readers for NoReaders {
    fn keep(&mut self, _: Identity, _: &[Range<u64>]) {}

    fn relocate(&mut self, _: Identity, _: u64, _: i64, relocate: &mut dyn FnMut() -> Moved) {
        relocate();
    }

    fn write(&mut self, _: Identity, write: &mut dyn FnMut() -> bool) {
        write();
    }

    fn read_from_image(&mut self, _: Identity, _: Range<u64>, _: u64, _: File) {}

    fn image_written(&mut self, _: Identity, _: u64, _: Moved) {}
}
