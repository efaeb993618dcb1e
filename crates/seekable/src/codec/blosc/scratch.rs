//! Scratch buffers for decoding, reused from block to block.

use std::cell::RefCell;

use super::inner::Decoders;
use crate::content::Content;
use crate::error::{Error, Result};

/// Maximum number of bytes read ahead.
const AHEAD: u64 = 4 << 20;
/// Bytes by which a window grows at a time, so that memory is allocated only for data that exist.
const STEP: u64 = 1 << 20;
/// A buffer larger than this is freed after use.
const KEPT: usize = 8 << 20;

/// Buffers and tables that a decoder reuses; one set per thread.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) reader: SplitReader,
    pub(super) starts: Vec<u8>,
    pub(super) shuffled: Vec<u8>,
    /// The output of a filter that was undone, if another one is still to be undone.
    pub(super) turned: Vec<u8>,
    pub(super) planes: Vec<u8>,
    /// The decoded first block of a chunk whose other blocks are differences to it.
    pub(super) first: Vec<u8>,
}

/// The buffers for reading and decoding splits.
#[derive(Debug, Default)]
pub(super) struct SplitReader {
    pub(super) decoders: Decoders,
    pub(super) window: ScratchWindow,
    /// The dictionary of the chunk; empty if it has none.
    pub(super) dictionary: Vec<u8>,
}

impl Scratch {
    /// Lends the thread's own scratch to `work`.
    pub fn lend<T>(work: impl FnOnce(&mut Self) -> T) -> T {
        thread_local!(static OWN: RefCell<Scratch> = RefCell::default());
        OWN.with(|own| match own.try_borrow_mut() {
            Ok(mut scratch) => {
                scratch.reader.window.forget();
                let result = work(&mut scratch);
                scratch.trim();
                result
            }
            // Nested decoding: the content being decoded is itself decoded by Blosc.
            Err(_) => work(&mut Self::default()),
        })
    }

    /// Returns the bytes allocated for buffers.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        let Self { reader, starts, shuffled, turned, planes, first } = self;
        [&reader.window.bytes, &reader.dictionary, starts, shuffled, turned, planes, first]
            .iter()
            .map(|buffer| buffer.capacity())
            .sum()
    }

    fn trim(&mut self) {
        let Self { reader, starts, shuffled, turned, planes, first } = self;
        for buffer in [&mut reader.window.bytes, starts, shuffled, turned, planes, first] {
            if buffer.capacity() > KEPT {
                *buffer = Vec::new();
            }
        }
    }
}

/// The part of a content that was read last.
#[derive(Debug, Default)]
pub(super) struct ScratchWindow {
    bytes: Vec<u8>,
    at: u64,
}

impl ScratchWindow {
    /// Discards the bytes read, before another content is read.
    pub(super) fn forget(&mut self) {
        self.bytes.clear();
    }

    /// Returns `len` bytes of `content` from `at` on. If they are not in the window, up to `ahead` bytes are
    /// read with them.
    pub(super) fn get(&mut self, content: &dyn Content, at: u64, len: u32, ahead: u64) -> Result<&[u8]> {
        let len = u64::from(len);
        let held = at.checked_sub(self.at).filter(|skip| skip.saturating_add(len) <= self.bytes.len() as u64);
        let skip = match held {
            Some(skip) => skip as usize,
            None => {
                self.load(content, at, len, len.max(ahead.min(AHEAD)))?;
                0
            }
        };
        Ok(&self.bytes[skip..skip + len as usize])
    }

    /// True if the last read began less than `distance` bytes before `at`.
    pub(super) fn is_before(&self, at: u64, distance: u64) -> bool {
        !self.bytes.is_empty() && at.checked_sub(self.at).is_some_and(|gap| gap < distance)
    }

    /// Returns `N` bytes, like [`ScratchWindow::get`].
    pub(super) fn array<const N: usize>(
        &mut self,
        content: &dyn Content,
        at: u64,
        ahead: u64,
    ) -> Result<[u8; N]> {
        let bytes = self.get(content, at, N as u32, ahead)?;
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        Ok(array)
    }

    /// Reads at least `len` and at most `wanted` bytes. Memory grows only with the bytes read.
    fn load(&mut self, content: &dyn Content, at: u64, len: u64, wanted: u64) -> Result<()> {
        self.bytes.clear();
        self.at = at;
        let result = fill(&mut self.bytes, content, at, wanted);
        if self.bytes.len() as u64 >= len {
            // Bytes that are only read ahead may be missing.
            return Ok(());
        }
        self.bytes.clear();
        result?;
        Err(cut_off(content, at, len))
    }
}

/// Appends up to `len` bytes of `content` from `at` on, as many as there are before an error or the end.
pub(super) fn fill(out: &mut Vec<u8>, content: &dyn Content, at: u64, len: u64) -> Result<()> {
    let start = out.len();
    loop {
        let done = (out.len() - start) as u64;
        let step = (len - done).min(STEP) as usize;
        if step == 0 {
            return Ok(());
        }
        let from = out.len();
        out.resize(from + step, 0);
        let read = content.read_at(at.saturating_add(done), &mut out[from..]);
        let count = *read.as_ref().unwrap_or(&0);
        out.truncate(from + count.min(step));
        read?;
        if count == 0 {
            return Ok(());
        }
    }
}

/// Returns the error for `len` bytes at `at` that are partly missing.
pub(super) fn cut_off(content: &dyn Content, at: u64, len: u64) -> Error {
    let missing = at.saturating_add(len).saturating_sub(content.len());
    placed(Error::damaged(format!("the Blosc data are cut off; bytes missing: {missing}")), content, at)
}

/// Adds to an error the position of byte `at` in the source, if known.
pub(super) fn placed(error: Error, content: &dyn Content, at: u64) -> Error {
    match content.stored().and_then(|(_, offset)| offset.checked_add(at)) {
        Some(offset) => error.at(offset),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Text;

    #[test]
    fn a_window_gives_what_is_there_and_no_more() {
        let content = Text::new((0..=255).collect::<Vec<u8>>());
        let mut window = ScratchWindow::default();
        assert_eq!(window.get(&content, 10, 2, 100).expect("there"), [10, 11]);
        assert_eq!(window.bytes.len(), 100);
        assert_eq!(window.get(&content, 109, 1, 0).expect("held"), [109]);
        assert_eq!(window.at, 10);
        assert_eq!(window.get(&content, 109, 2, 0).expect("there"), [109, 110]);
        assert_eq!(window.get(&content, 250, 6, 1000).expect("there"), [250, 251, 252, 253, 254, 255]);
        let error = window.get(&content, 250, 7, 0).expect_err("not there");
        assert!(error.message().ends_with("bytes missing: 1"), "{error}");
        assert!(window.get(&content, u64::MAX, u32::MAX, 0).is_err());
        assert!(window.bytes.capacity() <= 2 << 20, "not allocated on a word");
    }

    #[test]
    fn what_is_large_is_given_back() {
        Scratch::lend(|scratch| scratch.shuffled.resize(KEPT + 1, 0));
        Scratch::lend(|scratch| {
            assert_eq!(scratch.shuffled.capacity(), 0);
            Scratch::lend(|inner| inner.shuffled.push(1));
        });
    }
}
