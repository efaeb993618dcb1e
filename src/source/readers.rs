//! The readers of a file that a save changes in place.
//!
//! A reader keeps the bytes of the generation that it opened. So a save tells the readers, before it changes a byte,
//! which bytes it overwrites and which ones move.

use std::fs::File;
use std::ops::Range;

use super::Identity;

/// Whether bytes of a file have moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// They are in their new place.
    Yes,
    /// They are where they were.
    No,
    /// A part of them may have moved.
    Unknown,
}

/// The readers of a file that a save changes in place. The save names the file with each call, as it may have opened
/// another one than the readers.
pub trait Readers {
    /// Keeps the bytes of these ranges for readers; the save overwrites them next. No thread reads them from the file
    /// when this returns.
    fn keep(&mut self, file: Identity, ranges: &[Range<u64>]);

    /// Runs `relocate` while no thread reads the file. It moves all bytes from offset `from` on by `shift`.
    fn relocate(&mut self, file: Identity, from: u64, shift: i64, relocate: &mut dyn FnMut() -> Moved);

    /// Serves a range of the file from `image`, where it lies `shift` further, until [`image_written`](Self::image_written).
    fn read_from_image(&mut self, file: Identity, range: Range<u64>, shift: u64, image: File);

    /// The file has the bytes of the image where the image has them (`Yes`), or its own old bytes again (`No`).
    fn image_written(&mut self, file: Identity, shift: u64, written: Moved);
}

/// Nobody reads the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoReaders;

impl Readers for NoReaders {
    fn keep(&mut self, _: Identity, _: &[Range<u64>]) {}

    fn relocate(&mut self, _: Identity, _: u64, _: i64, relocate: &mut dyn FnMut() -> Moved) {
        relocate();
    }

    fn read_from_image(&mut self, _: Identity, _: Range<u64>, _: u64, _: File) {}

    fn image_written(&mut self, _: Identity, _: u64, _: Moved) {}
}
