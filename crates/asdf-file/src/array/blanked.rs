//! Elements of which those under a mask are replaced.

use std::sync::{Arc, OnceLock};

use seekable::error::{Error, Result};

use seekable::content::{Content, fill, read_exact_at};

/// Number of elements read at once.
const SPAN: usize = 64 << 10;

/// The bytes that replace an element.
#[derive(Clone, Debug)]
pub enum Blank {
    /// Always the same.
    Fixed(Vec<u8>),
    /// An integer that is not among the elements.
    Unused(Arc<Unused>),
}

/// Integers that masked elements could have.
#[derive(Clone, Copy, Debug)]
pub struct NullCandidates {
    /// The one that is tried first.
    pub first: i64,
    /// The step to the next one: 1 or -1.
    pub step: i64,
    /// The number of candidates.
    pub count: usize,
    /// A number that some readers add to the elements before they compare them.
    pub shift: i64,
}

/// An integer that no element without mask has. It is searched when it is first needed.
#[derive(Debug)]
pub struct Unused {
    /// Big-endian integers.
    elements: Arc<dyn Content>,
    /// A byte for each element, which is not 0 if the element is masked.
    mask: Arc<dyn Content>,
    /// Length of an integer in bytes. Integers of one byte are unsigned, others are signed.
    width: usize,
    candidates: NullCandidates,
    /// Maximum length of elements that are searched, in bytes. Of longer ones the first candidate is taken.
    max_len: u64,
    found: OnceLock<Option<FoundInteger>>,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundInteger {
    /// The integer.
    pub value: i64,
    /// False if not all elements were compared with it, because they are too many or damaged.
    pub is_unused: bool,
}

impl Unused {
    /// Searches an unused integer of `width` bytes. In elements that are longer than `max_len` bytes the first
    /// candidate is taken.
    pub fn new(
        elements: Arc<dyn Content>,
        mask: Arc<dyn Content>,
        width: usize,
        candidates: NullCandidates,
        max_len: u64,
    ) -> Self {
        Self { elements, mask, width, candidates, max_len, found: OnceLock::new() }
    }

    /// Returns the integer; `None` if the elements have all candidates. The first call reads all elements.
    ///
    /// # Errors
    /// The elements can't be read now.
    pub fn find(&self) -> Result<Option<FoundInteger>> {
        if let Some(found) = self.found.get() {
            return Ok(*found);
        }
        let any = Some(FoundInteger { value: self.candidates.first, is_unused: false });
        let found = if self.elements.len() <= self.max_len {
            match self.search() {
                Err(error) if error.is_of_reading() => return Err(error),
                Err(_) => any,
                Ok(found) => found.map(|value| FoundInteger { value, is_unused: true }),
            }
        } else {
            any
        };
        Ok(*self.found.get_or_init(|| found))
    }

    fn search(&self) -> Result<Option<i64>> {
        let NullCandidates { first, step, count, shift } = self.candidates;
        let mut used = vec![false; count];
        let elements = self.elements.len().checked_div(self.width as u64).unwrap_or_default();
        let mut bytes = vec![0; SPAN * self.width];
        let mut masked = vec![0; SPAN];
        let mut at = 0;
        while at < elements {
            let here = (elements - at).min(SPAN as u64) as usize;
            let bytes = &mut bytes[..here * self.width];
            let masked = &mut masked[..here];
            read_exact_at(&*self.elements, at * self.width as u64, bytes)?;
            read_exact_at(&*self.mask, at, masked)?;
            for (number, is_masked) in bytes.chunks_exact(self.width).zip(masked) {
                if *is_masked != 0 {
                    continue;
                }
                for added in [0, shift] {
                    let value = i128::from(integer(number)) + i128::from(added);
                    let n = (value - i128::from(first)) * i128::from(step);
                    if let Some(used) = usize::try_from(n).ok().and_then(|n| used.get_mut(n)) {
                        *used = true;
                    }
                }
            }
            at += here as u64;
        }
        let n = used.iter().position(|used| !used).and_then(|n| i64::try_from(n).ok());
        Ok(n.map(|n| first + n * step))
    }
}

/// Returns a big-endian integer.
fn integer(bytes: &[u8]) -> i64 {
    match *bytes {
        [byte] => i64::from(byte),
        [a, b] => i64::from(i16::from_be_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => i64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// Elements of which those under a mask are replaced while they are read.
#[derive(Debug)]
pub struct Blanked {
    /// The elements, and a byte for each, which is not 0 if the element is masked.
    whole_and_mask: [Arc<dyn Content>; 2],
    /// Length of an element in bytes.
    width: u64,
    blank: Blank,
}

impl Blanked {
    /// Replaces the elements of `width` bytes for which `mask` is not 0.
    ///
    /// # Errors
    /// The mask has another number of elements.
    pub fn new(whole: Arc<dyn Content>, mask: Arc<dyn Content>, width: u64, blank: Blank) -> Result<Self> {
        if width == 0 || mask.len().checked_mul(width) != Some(whole.len()) {
            return Err(Error::damaged("the mask does not fit the elements of its array"));
        }
        Ok(Self { whole_and_mask: [whole, mask], width, blank })
    }

    /// Returns the bytes that replace an element; `None` if nothing does.
    fn bytes(&self) -> Result<Option<Vec<u8>>> {
        match &self.blank {
            Blank::Fixed(bytes) => Ok(Some(bytes.clone())),
            Blank::Unused(unused) => {
                let bytes = |value: i64| value.to_be_bytes()[8 - unused.width..].to_vec();
                Ok(unused.find()?.map(|found| bytes(found.value)))
            }
        }
    }

    /// Reads the bytes of whole or partial elements, at most [`SPAN`] elements.
    fn read_span(&self, offset: u64, buf: &mut [u8], blank: &[u8]) -> Result<usize> {
        let [whole, mask] = &self.whole_and_mask;
        let read = whole.read_at(offset, buf)?;
        if read == 0 {
            return Ok(0);
        }
        let first = offset / self.width;
        let last = (offset + read as u64 - 1) / self.width;
        let mut masked = vec![0; (last - first + 1) as usize];
        read_exact_at(&**mask, first, &mut masked)?;
        for (n, _) in masked.iter().enumerate().filter(|(_, masked)| **masked != 0) {
            let start = (first + n as u64) * self.width;
            for (k, byte) in blank.iter().enumerate() {
                let place = (start + k as u64).checked_sub(offset).and_then(|at| usize::try_from(at).ok());
                if let Some(place) = place.and_then(|at| buf[..read].get_mut(at)) {
                    *place = *byte;
                }
            }
        }
        Ok(read)
    }
}

impl Content for Blanked {
    fn len(&self) -> u64 {
        self.whole_and_mask[0].len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let whole = &self.whole_and_mask[0];
        let wanted = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        if wanted == 0 {
            return whole.read_at(offset, &mut []);
        }
        let Some(blank) = self.bytes()? else { return whole.read_at(offset, buf) };
        let width = usize::try_from(self.width).unwrap_or(usize::MAX);
        fill(&mut buf[..wanted], |done, rest| {
            let at = offset + done as u64;
            let mut most = width.saturating_mul(SPAN).min(rest.len());
            loop {
                match self.read_span(at, &mut rest[..most], &blank) {
                    // Elements before an unreadable byte of the mask may be readable.
                    Err(_) if most > width => most = (most / 2).max(width),
                    read => return read,
                }
            }
        })
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        &self.whole_and_mask
    }

    fn first_broken(&self, n: usize, at: u64) -> u64 {
        if n == 0 { at } else { at.saturating_mul(self.width) }
    }

    fn is_slow(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekable::content::{Slice, Soundness, Text};
    use seekable::source::{MemorySource, Source};

    fn text(bytes: &[u8]) -> Arc<dyn Content> {
        Arc::new(Text::new(bytes))
    }

    fn all(content: &dyn Content, piece: usize) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buf = vec![0; piece];
        while let read @ 1.. = content.read_at(all.len() as u64, &mut buf).unwrap() {
            all.extend_from_slice(&buf[..read]);
        }
        all
    }

    #[test]
    fn masked_elements_are_replaced_whatever_is_read_at_once() {
        let bytes: Vec<u8> = (0..24).collect();
        let mask = [0, 1, 0, 0, 255, 1];
        let blanked =
            Blanked::new(text(&bytes), text(&mask), 4, Blank::Fixed(vec![0xf0, 0xf1, 0xf2, 0xf3])).unwrap();
        let mut expected = bytes.clone();
        for n in [1, 4, 5] {
            expected[4 * n..][..4].copy_from_slice(&[0xf0, 0xf1, 0xf2, 0xf3]);
        }
        for piece in 1..30 {
            assert_eq!(all(&blanked, piece), expected, "{piece}");
        }
        let mut byte = [0];
        assert_eq!((blanked.read_at(18, &mut byte).unwrap(), byte), (1, [0xf2]));
        assert!(Blanked::new(text(&bytes), text(&mask), 8, Blank::Fixed(Vec::new())).is_err());
    }

    #[test]
    fn an_unused_integer_is_found() {
        let find = |numbers: &[i16], mask: &[u8], max_len| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
            let candidates = NullCandidates { first: -32768, step: 1, count: 1 << 16, shift: 0 };
            let unused = Unused::new(text(&bytes), text(mask), 2, candidates, max_len);
            unused.find().unwrap().unwrap()
        };
        let unused = |value| FoundInteger { value, is_unused: true };
        assert_eq!(find(&[1, 2, -5], &[0; 3], 100), unused(-32768));
        assert_eq!(find(&[-32768, -32767, -32765], &[0; 3], 100), unused(-32766));
        assert_eq!(find(&[-32768, 7], &[1, 0], 100), unused(-32768));
        let any = FoundInteger { value: -32768, is_unused: false };
        assert_eq!(find(&[-32768, 7], &[0, 0], 3), any);
        assert_eq!(find(&[-32768, 7], &[0], 100), any);
        let shifted = NullCandidates { first: 127, step: -1, count: 128, shift: -128 };
        let unused_of =
            |bytes: &[u8]| Unused::new(text(bytes), text(&vec![0; bytes.len()]), 1, shifted, 100).find();
        assert_eq!(unused_of(&[127, 254, 1]).unwrap(), Some(unused(125)));
        let every: Vec<u8> = (0..=255).collect();
        let down = NullCandidates { first: 255, step: -1, count: 256, shift: 0 };
        let find = |mask: &[u8; 256]| Unused::new(text(&every), text(mask), 1, down, 1000).find().unwrap();
        assert_eq!(find(&[0; 256]), None);
        let mut mask = [0; 256];
        mask[100] = 1;
        assert_eq!(find(&mask), Some(unused(100)));
        let unused = Arc::new(Unused::new(text(&every), text(&mask), 1, down, 1000));
        let blanked = Blanked::new(text(&every), text(&mask), 1, Blank::Unused(unused)).unwrap();
        assert_eq!(all(&blanked, 77), every);
    }

    #[test]
    fn elements_before_a_fault_of_the_mask_can_be_read() {
        let source: Arc<dyn Source> = Arc::new(MemorySource(vec![0, 1, 0]));
        let mask = Arc::new(Slice::new(source, 0, 6));
        let blanked = Blanked::new(text(&[7; 12]), mask, 2, Blank::Fixed(vec![1, 1])).unwrap();
        let mut buf = [0; 12];
        assert_eq!(blanked.read_at(0, &mut buf).unwrap(), 6);
        assert_eq!(buf[..6], [7, 7, 1, 1, 7, 7]);
        assert!(blanked.read_at(6, &mut buf).is_err());
        assert_eq!(blanked.soundness(), Soundness::Broken(6));
        // The ranges are the mask's: these elements have none.
        assert_eq!(blanked.ranges().first(), Some(&(0..6)));
    }
}
