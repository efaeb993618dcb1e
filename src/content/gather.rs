//! The elements of an array that do not lie one after the other, as if they did.

use std::ops::Range;
use std::sync::Arc;

use super::{Content, Soundness, fill, read_exact_at};
use crate::error::{Error, Result};
use crate::source::RelocationLock;

/// Bytes that are read at once; more only for a single element.
const SPAN: u64 = 256 << 10;
/// Bytes from one element to the next, up to which what lies between them is read, too.
const APART: u64 = 4 << 10;

/// The elements of an array with strides, in C order.
#[derive(Debug)]
pub struct Gather {
    whole: Arc<dyn Content>,
    /// Where the first element lies.
    start: u64,
    /// Bytes of an element.
    item: u64,
    /// Length and stride in bytes of each dimension, the outermost first.
    dimensions: Vec<(u64, i64)>,
    len: u64,
}

impl Gather {
    /// Gathers elements of `item` bytes from `whole`.
    ///
    /// # Errors
    /// [`Kind::Damaged`](crate::error::Kind) if elements lie outside `whole`, or are too many to count.
    pub fn new(whole: Arc<dyn Content>, start: u64, item: u64, dimensions: Vec<(u64, i64)>) -> Result<Self> {
        let outside = || Error::damaged("elements of the array lie outside its data");
        let count = dimensions.iter().try_fold(item, |bytes, (len, _)| bytes.checked_mul(*len));
        let len = count.filter(|len| *len <= i64::MAX as u64).ok_or_else(outside)?;
        let (mut first, mut last) = (i128::from(start), i128::from(start) + i128::from(item));
        for (len, stride) in &dimensions {
            let reach = i128::from(*stride) * (i128::from(*len) - 1).max(0);
            *(if reach < 0 { &mut first } else { &mut last }) += reach;
        }
        if len > 0 && (first < 0 || last > i128::from(whole.len())) {
            return Err(outside());
        }
        Ok(Self { whole, start, item, dimensions, len })
    }

    /// Where element `n` lies, and how many follow it in the innermost dimension.
    fn element(&self, mut n: u64) -> (u64, u64) {
        let (mut at, mut follow) = (i128::from(self.start), 0);
        for (index, (len, stride)) in self.dimensions.iter().enumerate().rev() {
            let within = n % len;
            n /= len;
            if index + 1 == self.dimensions.len() {
                follow = len - 1 - within;
            }
            at += i128::from(within) * i128::from(*stride);
        }
        // `new` has seen that all elements lie in the content.
        (u64::try_from(at).unwrap_or_default(), follow)
    }

    /// Copies elements from number `n` on, from a byte within the first; how many bytes.
    fn run(&self, n: u64, within: u64, out: &mut [u8]) -> Result<usize> {
        let (at, follow) = self.element(n);
        let stride = self.dimensions.last().map_or(0, |(_, stride)| *stride);
        if within > 0 || (out.len() as u64) < self.item || stride == 0 {
            let len = (self.item - within).min(out.len() as u64) as usize;
            read_exact_at(&*self.whole, at + within, &mut out[..len])?;
            if within > 0 || (len as u64) < self.item {
                return Ok(len);
            }
            // The same element for all that follow.
            let count = (out.len() as u64 / self.item).min(follow + 1) as usize;
            for n in 1..count {
                out.copy_within(..len, n * len);
            }
            return Ok(len * count);
        }
        let step = stride.unsigned_abs();
        // What lies far apart is read one by one.
        let in_span = if step > APART { 1 } else { 1 + SPAN.saturating_sub(self.item) / step };
        let count = (out.len() as u64 / self.item).min(follow + 1).min(in_span);
        let reach = (count - 1) * step;
        let len = (count * self.item) as usize;
        if stride > 0 && step == self.item {
            read_exact_at(&*self.whole, at, &mut out[..len])?;
            return Ok(len);
        }
        let lowest = if stride > 0 { at } else { at - reach };
        let mut span = vec![0; (reach + self.item) as usize];
        read_exact_at(&*self.whole, lowest, &mut span)?;
        for (index, element) in out[..len].chunks_exact_mut(self.item as usize).enumerate() {
            let from = index as u64 * step;
            let from = (if stride > 0 { from } else { reach - from }) as usize;
            element.copy_from_slice(&span[from..from + self.item as usize]);
        }
        Ok(len)
    }
}

impl Content for Gather {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        fill(&mut buf[..wanted], |done, rest| {
            let at = offset + done as u64;
            self.run(at / self.item, at % self.item, rest)
        })
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        self.whole.ranges()
    }

    fn relocation_lock(&self) -> Option<RelocationLock> {
        self.whole.relocation_lock()
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn soundness(&self) -> Soundness {
        match self.whole.soundness() {
            Soundness::Broken(_) => Soundness::Broken(0),
            known => known,
        }
    }

    fn trouble(&self) -> Option<Error> {
        self.whole.trouble()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::content::Text;

    fn bytes(len: u8) -> Arc<dyn Content> {
        Arc::new(Text::new((0..len).collect::<Vec<u8>>()))
    }

    fn all(content: &Gather, piece: usize) -> Vec<u8> {
        let (mut all, mut buf) = (Vec::new(), vec![0; piece]);
        loop {
            match content.read_at(all.len() as u64, &mut buf).unwrap() {
                0 => return all,
                read => all.extend_from_slice(&buf[..read]),
            }
        }
    }

    #[test]
    fn elements_come_in_c_order_whatever_is_read_at_once() {
        // Two rows of three elements of two bytes, in Fortran order from byte 1 on.
        let fortran = Gather::new(bytes(20), 1, 2, vec![(2, 2), (3, 4)]).unwrap();
        let expected = [1, 2, 5, 6, 9, 10, 3, 4, 7, 8, 11, 12];
        for piece in 1..14 {
            assert_eq!(all(&fortran, piece), expected, "{piece}");
        }
        let backwards = Gather::new(bytes(9), 8, 1, vec![(3, -3), (3, -1)]).unwrap();
        assert_eq!(all(&backwards, 4), [8, 7, 6, 5, 4, 3, 2, 1, 0]);
        let apart = Gather::new(bytes(9), 0, 1, vec![(3, 4)]).unwrap();
        assert_eq!(all(&apart, 2), [0, 4, 8]);
        let rows = Gather::new(bytes(9), 0, 1, vec![(2, 5), (3, 1)]).unwrap();
        assert_eq!(all(&rows, 100), [0, 1, 2, 5, 6, 7]);
        let same = Gather::new(bytes(9), 4, 1, vec![(2, 0), (2, 1)]).unwrap();
        assert_eq!(all(&same, 100), [4, 5, 4, 5]);
        for piece in 1..9 {
            let repeated = Gather::new(bytes(9), 4, 2, vec![(2, 2), (2, 0)]).unwrap();
            assert_eq!(all(&repeated, piece), [4, 5, 4, 5, 6, 7, 6, 7], "{piece}");
        }
    }

    /// Counts the bytes that are read.
    #[derive(Debug)]
    struct Counted(Text, AtomicU64);

    impl Content for Counted {
        fn len(&self) -> u64 {
            self.0.len()
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
            self.1.fetch_add(buf.len() as u64, Ordering::Relaxed);
            self.0.read_at(offset, buf)
        }
    }

    #[test]
    fn far_elements_are_read_one_by_one() {
        let whole: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let expected: Vec<u8> = (0..30).map(|n| whole[n * 100_000]).collect();
        let counted = Arc::new(Counted(Text::new(whole), AtomicU64::new(0)));
        let far = Gather::new(counted.clone(), 0, 1, vec![(30, 100_000)]).unwrap();
        assert_eq!(all(&far, 64), expected);
        assert_eq!(counted.1.load(Ordering::Relaxed), 30);
    }

    #[test]
    fn nothing_is_read_outside() {
        for (start, dimensions) in [
            (0, vec![(4, 3)]),
            (0, vec![(2, -1)]),
            (5, vec![(3, -3)]),
            (u64::MAX, vec![(1, 1)]),
            (0, vec![(u64::MAX, 1), (u64::MAX, 1)]),
            (0, vec![(u64::MAX, i64::MIN)]),
        ] {
            assert!(Gather::new(bytes(9), start, 1, dimensions.clone()).is_err(), "{dimensions:?}");
        }
        let empty = Gather::new(bytes(9), 100, 1, vec![(0, 1)]).unwrap();
        assert_eq!((empty.len(), all(&empty, 4)), (0, Vec::new()));
        let nothing = Gather::new(bytes(9), 0, 0, vec![(5, 1)]).unwrap();
        assert!(all(&nothing, 4).is_empty());
    }
}
