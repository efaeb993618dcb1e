//! Texts that are generated in order while they are read.
//!
//! One pass measures a text. A text of up to [`SMALL`] bytes is kept from that pass; a longer one is generated
//! again from its start, and cached in granules like a compressed block.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use seekable::cache::Cache;
use seekable::content::{Content, Text};
use seekable::decode::{Decoded, Decoder, Sequential};
use seekable::error::Result;
use twox_hash::XxHash64;

use crate::folder::{File, Renewal, Signature};

/// Maximum length of a text that is kept, in bytes.
const SMALL: usize = 256 << 10;

/// A generator of a text, which runs once, from the start. All generators of a text must generate the same
/// bytes.
pub trait Generator: Send {
    /// Appends the next bytes to `out`; false at the end of the text.
    fn more(&mut self, out: &mut Vec<u8>) -> Result<bool>;

    /// Returns the approximate memory of the generator in bytes.
    fn weight(&self) -> u64 {
        256 << 10
    }
}

/// A text that is generated while it is read.
pub trait Generated: Send + Sync + fmt::Debug {
    /// Returns a generator at the start of the text.
    fn generator(&self) -> Result<Box<dyn Generator>>;

    /// Returns the approximate memory of a generator that has not begun, in bytes.
    fn weight(&self) -> u64 {
        1 << 20
    }
}

/// A text that was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The length in bytes.
    pub len: u64,
    /// A hash of the text.
    hash: u64,
    /// The text, if it is small.
    text: Option<Text>,
}

impl Measured {
    /// Generates a text once to measure it.
    pub fn of(text: &dyn Generated) -> Result<Self> {
        let mut generator = text.generator()?;
        let mut measuring = Measuring::default();
        let mut out = Vec::new();
        loop {
            let goes_on = generator.more(&mut out)?;
            measuring.add(&out);
            out.clear();
            if !goes_on {
                return Ok(measuring.end());
            }
        }
    }

    /// Returns the file of the measured text. It is the same file as long as the text is the same.
    pub fn file(&self, text: impl Generated + 'static, cache: &Arc<Cache>) -> File {
        let renewal = Renewal::WhileSame(Signature::new(format!("{} {:x}", self.len, self.hash)));
        File { renewal, ..File::new(self.content(text, cache)) }
    }

    /// True if the text is small enough to be kept.
    pub fn is_small(&self) -> bool {
        self.text.is_some()
    }

    /// Returns the content of the measured text.
    fn content(&self, text: impl Generated + 'static, cache: &Arc<Cache>) -> Arc<dyn Content> {
        match &self.text {
            Some(held) => Arc::new(held.clone()),
            None => Arc::new(Decoded::stream(Stream(text), self.len, cache)),
        }
    }
}

/// A text that is being measured.
#[derive(Debug)]
pub struct Measuring {
    len: u64,
    hasher: XxHash64,
    /// The text so far, if it is small.
    text: Option<Vec<u8>>,
}

impl Default for Measuring {
    fn default() -> Self {
        Self { len: 0, hasher: XxHash64::with_seed(0), text: Some(Vec::new()) }
    }
}

impl Measuring {
    /// Takes the next bytes of the text.
    pub fn add(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        self.hasher.write(bytes);
        self.text = self.text.take().filter(|text| text.len() + bytes.len() <= SMALL);
        if let Some(text) = &mut self.text {
            text.extend_from_slice(bytes);
        }
    }

    /// Returns the results at the end of the text.
    pub fn end(self) -> Measured {
        Measured { len: self.len, hash: self.hasher.finish(), text: self.text.map(Text::new) }
    }
}

#[derive(Debug)]
struct Stream<T>(T);

impl<T: Generated> Sequential for Stream<T> {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        let generator = self.0.generator()?;
        Ok(Box::new(Generating { generator, out: Vec::new(), given: 0, ended: false }))
    }

    fn weight(&self) -> u64 {
        self.0.weight()
    }
}

struct Generating {
    generator: Box<dyn Generator>,
    out: Vec<u8>,
    /// Number of bytes of `out` that have been read.
    given: usize,
    ended: bool,
}

impl Decoder for Generating {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < out.len() {
            let ready = &self.out[self.given..];
            if ready.is_empty() {
                self.out.clear();
                self.given = 0;
                if self.ended {
                    break;
                }
                self.ended = !self.generator.more(&mut self.out)?;
                continue;
            }
            let take = ready.len().min(out.len() - done);
            out[done..done + take].copy_from_slice(&ready[..take]);
            (done, self.given) = (done + take, self.given + take);
        }
        Ok(done)
    }

    fn weight(&self) -> u64 {
        self.generator.weight() + self.out.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekable::content::read_exact_at;

    #[derive(Debug)]
    struct Counting(u32);

    struct Counter(u32, u32);

    impl Generated for Counting {
        fn generator(&self) -> Result<Box<dyn Generator>> {
            Ok(Box::new(Counter(0, self.0)))
        }
    }

    impl Generator for Counter {
        fn more(&mut self, out: &mut Vec<u8>) -> Result<bool> {
            out.extend(self.0.to_be_bytes());
            self.0 += 1;
            Ok(self.0 < self.1)
        }
    }

    #[test]
    fn short_and_long_texts_are_read_at_any_offset() {
        let cache = Arc::new(Cache::new(16 << 20));
        for count in [1, 1000, 200_000] {
            let measured = Measured::of(&Counting(count)).unwrap();
            assert_eq!((measured.len, measured.text.is_some()), (u64::from(count) * 4, count < 2000));
            let content = measured.content(Counting(count), &cache);
            for n in [count - 1, 0, count / 2] {
                let mut bytes = [0; 4];
                read_exact_at(&*content, u64::from(n) * 4, &mut bytes).unwrap();
                assert_eq!(u32::from_be_bytes(bytes), n);
            }
        }
    }
}
