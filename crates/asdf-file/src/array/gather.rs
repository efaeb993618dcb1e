//! The elements of an array with strides, read as if they were contiguous.
//!
//! A sequential reader gets larger and larger parts of the array at once, which are kept until they have been
//! read. This matters where the elements of a row lie far apart: each part then costs a pass over the data.
//!
//! | module | what it does |
//! |---|---|
//! | [`slab`] | gathers a part of the array in tiles |
//! | [`gather_cache`] | gathered parts that readers have not read yet, under one limit |

use std::sync::Arc;

use seekable::cache::has_room;
use seekable::error::{Error, Result};

use seekable::content::{Content, Strided, fill, on_server, read_exact_at};
use seekable::workers::caller;

use self::gather_cache::GatherCache;
use self::slab::Slab;

mod gather_cache;
mod slab;

/// Maximum size of a read, in bytes, unless a single element is longer.
const SPAN: u64 = 256 << 10;
/// Maximum distance of elements, in bytes, at which the gap between them is read, too.
const APART: u64 = 4 << 10;
/// Both limits for data that are decoded, or that a server sends, in blocks at least this long: such as those of the
/// rows of a part of an image.
const SPAN_OF_BLOCKS: u64 = 1 << 20;
const APART_OF_BLOCKS: u64 = 64 << 10;

/// A dimension: its length, and the distance in bytes from one element to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    len: u64,
    stride: i64,
}

/// The elements of an array with strides, in C order.
#[derive(Debug)]
pub struct Gather {
    whole: Arc<dyn Content>,
    /// The offset of the first element.
    start: u64,
    /// The stride of each dimension in bytes.
    strides: Vec<i64>,
    /// The number of bytes from the lowest element to the end of the highest.
    span: u64,
    len: u64,
    /// The dimensions, the outermost first, merged where they are contiguous: as few as possible, of elements of
    /// `item` bytes.
    axes: Vec<Axis>,
    /// The length of a merged element, in bytes.
    item: u64,
    gather_cache: Arc<GatherCache>,
}

impl Gather {
    /// Gathers elements of `item` bytes from `whole`.
    ///
    /// # Errors
    /// [`Kind::Damaged`](seekable::error::Kind) if elements lie outside `whole`, or are too many to count.
    pub fn new(whole: Arc<dyn Content>, start: u64, item: u64, dimensions: Vec<(u64, i64)>) -> Result<Self> {
        let outside = || Error::damaged("elements of the array lie outside its data");
        let count = dimensions.iter().try_fold(item, |bytes, (len, _)| bytes.checked_mul(*len));
        let len = count.filter(|len| *len <= i64::MAX as u64).ok_or_else(outside)?;
        let mut first = i128::from(start);
        let mut last = i128::from(start) + i128::from(item);
        for (axis_len, stride) in &dimensions {
            let reach = i128::from(*stride) * (i128::from(*axis_len) - 1).max(0);
            *(if reach < 0 { &mut first } else { &mut last }) += reach;
        }
        if len > 0 && (first < 0 || last > i128::from(whole.len())) {
            return Err(outside());
        }
        let (axes, item) = if len == 0 { (Vec::new(), 0) } else { merged(&dimensions, item) };
        let strides = dimensions.iter().map(|(_, stride)| *stride).collect();
        let span = u64::try_from(last - first).unwrap_or_default();
        Ok(Self { whole, start, strides, span, len, axes, item, gather_cache: Arc::default() })
    }

    /// Reorders contiguous elements whose first index varies fastest, so that the last one does.
    ///
    /// # Errors
    /// The elements are more than `whole` has.
    pub fn in_c_order(whole: Arc<dyn Content>, item: u64, shape: &[u64]) -> Result<Self> {
        let too_large = || Error::damaged("the array is too large");
        let mut step = i64::try_from(item).map_err(|_| too_large())?;
        let mut dimensions = Vec::with_capacity(shape.len());
        for len in shape {
            dimensions.push((*len, step));
            let next = i64::try_from(*len).ok().and_then(|len| step.checked_mul(len));
            step = next.ok_or_else(too_large)?;
        }
        Self::new(whole, 0, item, dimensions)
    }

    /// True if the elements lie so far apart that gathering ahead of a reader pays off.
    fn has_slabs(&self) -> bool {
        let is_contiguous =
            self.axes.last().is_some_and(|axis| i128::from(axis.stride) == i128::from(self.item));
        self.axes.len() > 1 && !is_contiguous
    }

    /// Copies bytes from the kept slab, gathering one first if necessary. Returns the number of bytes; 0 if
    /// slabs are not possible.
    fn read_slab(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        if !self.has_slabs() {
            return Ok(0);
        }
        self.gather_cache.read((offset, self.len), out, &|size| {
            self.slab_at(offset, size).transpose().or_else(|error| {
                // The caller has given up; that is no fault of the elements.
                if error.errno() == libc::EINTR { Err(error) } else { Ok(None) }
            })
        })
    }

    /// Gathers a slab of about `size` bytes that holds the byte at `offset`. Returns the slab's offset and
    /// its bytes.
    fn slab_at(&self, offset: u64, size: u64) -> Option<Result<(u64, Vec<u8>)>> {
        // For each axis, the bytes of one of its elements: all elements of the axes within.
        let mut bytes = vec![self.item];
        for axis in self.axes.iter().skip(1).rev() {
            bytes.push(bytes.last()?.checked_mul(axis.len)?);
        }
        bytes.reverse();
        let k = bytes.iter().position(|bytes| *bytes <= size)?;
        let mut at = i128::from(self.start);
        let mut rest = offset;
        let mut begin = 0;
        for (n, axis) in self.axes.iter().enumerate().take(k + 1) {
            let index = rest / bytes[n];
            rest %= bytes[n];
            begin += index * bytes[n];
            at += i128::from(index) * i128::from(axis.stride);
            if n == k {
                let len = (size / bytes[n]).min(axis.len - index);
                let mut axes = vec![Axis { len, ..*axis }];
                axes.extend_from_slice(&self.axes[k + 1..]);
                let slab = Slab {
                    whole: &*self.whole,
                    start: u64::try_from(at).ok()?,
                    item: self.item,
                    axes: &axes,
                };
                let size =
                    usize::try_from(len.checked_mul(bytes[n])?).ok().filter(|size| has_room(*size as u64))?;
                let mut data = vec![0; size];
                return Some(slab.gather(&mut data).map(|()| (begin, data)));
            }
        }
        None
    }

    /// Returns the offset of element `n`, and the number of elements after it in the innermost dimension.
    fn element(&self, mut n: u64) -> (u64, u64) {
        let mut at = i128::from(self.start);
        let mut follow = 0;
        for (index, Axis { len, stride }) in self.axes.iter().enumerate().rev() {
            let within = n % len;
            n /= len;
            if index + 1 == self.axes.len() {
                follow = len - 1 - within;
            }
            at += i128::from(within) * i128::from(*stride);
        }
        // `new` has checked that all elements lie in the content.
        (u64::try_from(at).unwrap_or_default(), follow)
    }

    /// Copies elements from byte `within` of element `n` on. Returns the number of bytes.
    fn run(&self, n: u64, within: u64, out: &mut [u8]) -> Result<usize> {
        let (at, follow) = self.element(n);
        let stride = self.axes.last().map_or(0, |axis| axis.stride);
        if within > 0 || (out.len() as u64) < self.item || stride == 0 {
            let len = (self.item - within).min(out.len() as u64) as usize;
            read_exact_at(&*self.whole, at + within, &mut out[..len])?;
            if within > 0 || (len as u64) < self.item {
                return Ok(len);
            }
            // With a stride of 0, the same element is repeated.
            let count = (out.len() as u64 / self.item).min(follow + 1) as usize;
            for copy in 1..count {
                out.copy_within(..len, copy * len);
            }
            return Ok(len * count);
        }
        let step = stride.unsigned_abs();
        let is_in_blocks = self.whole.decoded_at_once() > 1 || on_server(&*self.whole).is_some();
        let (apart, span) = if is_in_blocks { (APART_OF_BLOCKS, SPAN_OF_BLOCKS) } else { (APART, SPAN) };
        // Elements that lie far apart are read one at a time.
        let in_span = if step > apart { 1 } else { 1 + span.saturating_sub(self.item) / step };
        let count = (out.len() as u64 / self.item).min(follow + 1).min(in_span);
        let reach = (count - 1) * step;
        let len = (count * self.item) as usize;
        if stride > 0 && step == self.item {
            read_exact_at(&*self.whole, at, &mut out[..len])?;
            return Ok(len);
        }
        let lowest = if stride > 0 { at } else { at - reach };
        let mut span = vec![0; (reach + self.item) as usize];
        if let Err(error) = read_exact_at(&*self.whole, lowest, &mut span) {
            if count == 1 {
                return Err(error);
            }
            // The damage may be in a gap, or in a later element.
            let len = self.item as usize;
            read_exact_at(&*self.whole, at, &mut out[..len])?;
            return Ok(len);
        }
        for (index, element) in out[..len].chunks_exact_mut(self.item as usize).enumerate() {
            let from = index as u64 * step;
            let from = (if stride > 0 { from } else { reach - from }) as usize;
            element.copy_from_slice(&span[from..from + self.item as usize]);
        }
        Ok(len)
    }
}

/// Merges adjacent dimensions that are contiguous. Returns them and the length of an element.
fn merged(dimensions: &[(u64, i64)], mut item: u64) -> (Vec<Axis>, u64) {
    let mut axes: Vec<Axis> = Vec::new();
    for (len, stride) in dimensions.iter().rev().copied().filter(|(len, _)| *len != 1) {
        match axes.last_mut() {
            None if i128::from(stride) == i128::from(item) => item *= len,
            Some(inner) if i128::from(stride) == i128::from(inner.stride) * i128::from(inner.len) => {
                inner.len *= len;
            }
            _ => axes.push(Axis { len, stride }),
        }
    }
    axes.reverse();
    (axes, item)
}

impl Content for Gather {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        fill(&mut buf[..wanted], |done, rest| {
            let at = offset + done as u64;
            caller::look()?;
            match self.read_slab(at, rest)? {
                // No slab is possible. Runs are read instead, so that every readable element is read.
                0 => self.run(at / self.item, at % self.item, rest),
                copied => Ok(copied),
            }
        })
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        std::slice::from_ref(&self.whole)
    }

    fn strided(&self) -> Option<Strided> {
        let strides = self.strides.clone();
        Some(Strided { whole: self.whole.clone(), start: self.start, strides, span: self.span })
    }

    fn read_few(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        if wanted == 0 { Ok(0) } else { self.run(offset / self.item, offset % self.item, &mut buf[..wanted]) }
    }

    fn is_slow(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use seekable::content::Text;

    fn bytes(len: u8) -> Arc<dyn Content> {
        Arc::new(Text::new((0..len).collect::<Vec<u8>>()))
    }

    fn all(content: &Gather, piece: usize) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buf = vec![0; piece];
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

    /// Bytes of which one can't be read.
    #[derive(Debug)]
    struct Damaged(Arc<dyn Content>, u64);

    impl Content for Damaged {
        fn len(&self) -> u64 {
            self.0.len()
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
            let readable = self.1.checked_sub(offset).map_or(buf.len(), |len| buf.len().min(len as usize));
            if readable == 0 {
                Err(Error::damaged("one byte"))
            } else {
                self.0.read_at(offset, &mut buf[..readable])
            }
        }
    }

    #[test]
    fn damage_between_elements_hides_none_of_them() {
        let apart = Gather::new(Arc::new(Damaged(bytes(20), 6)), 0, 1, vec![(5, 4)]).unwrap();
        assert_eq!(all(&apart, 5), [0, 4, 8, 12, 16]);
    }

    /// Tests every permutation of an array's axes, also with gaps and negative strides, in reads of any size.
    #[test]
    fn permuted_axes_come_in_c_order() {
        for item in [1_u64, 2, 3, 4, 8, 16] {
            for (lens, gaps) in
                [([7_u64, 300, 41], [1_i64, 1, 1]), ([2000, 3, 11], [1, 1, -1]), ([5, 1, 900], [-1, 2, 3])]
            {
                for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                    permuted_axes(item, lens, gaps, order);
                }
            }
        }
    }

    fn permuted_axes(item: u64, lens: [u64; 3], gaps: [i64; 3], order: [usize; 3]) {
        // The strides of the axes in memory, the last one smallest.
        let mut strides = [0_i64; 3];
        let mut step = item as i64;
        for n in (0..3).rev() {
            strides[n] = step * gaps[n];
            step *= lens[n] as i64 * gaps[n].abs();
        }
        let start: i64 = (0..3).filter(|n| strides[*n] < 0).map(|n| -strides[n] * (lens[n] as i64 - 1)).sum();
        let bytes: Vec<u8> = (0..step + 5).map(|n| (n % 251 + n / 251 % 7) as u8).collect();
        let dimensions: Vec<(u64, i64)> = order.iter().map(|n| (lens[*n], strides[*n])).collect();
        let mut expected = Vec::new();
        for a in 0..dimensions[0].0 as i64 {
            for b in 0..dimensions[1].0 as i64 {
                for c in 0..dimensions[2].0 as i64 {
                    let at = start + a * dimensions[0].1 + b * dimensions[1].1 + c * dimensions[2].1;
                    expected.extend_from_slice(&bytes[at as usize..][..item as usize]);
                }
            }
        }
        let whole: Arc<dyn Content> = Arc::new(Text::new(bytes));
        let gather = Gather::new(whole, start as u64, item, dimensions).unwrap();
        for piece in [1 << 20, 65_536, 4099] {
            assert!(all(&gather, piece) == expected, "{item} {lens:?} {gaps:?} {order:?} {piece}");
        }
        let at = expected.len() / 3;
        let mut buf = [0; 100];
        assert_eq!(gather.read_at(at as u64, &mut buf).unwrap(), 100);
        assert_eq!(buf, expected[at..at + 100]);
    }

    #[test]
    fn elements_before_a_fault_can_be_had() {
        #[derive(Debug)]
        struct Broken(u64);
        impl Content for Broken {
            fn len(&self) -> u64 {
                1 << 20
            }
            fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
                match self.0.saturating_sub(offset).min(buf.len() as u64) {
                    0 => Err(Error::damaged("broken")),
                    available => {
                        buf[..available as usize].fill(7);
                        Ok(available as usize)
                    }
                }
            }
        }
        let gather = Gather::new(Arc::new(Broken(512 << 10)), 0, 1, vec![(1024, 1), (1024, 1024)]).unwrap();
        let mut buf = [0; 1024];
        assert_eq!(gather.read_at(0, &mut buf).unwrap(), 512);
        assert!(gather.read_at(512, &mut buf).is_err());
        assert_eq!(gather.read_at(1024, &mut buf).unwrap(), 512);
    }

    #[test]
    fn an_interrupted_reader_is_told_and_does_not_slow_the_next_one() {
        #[derive(Debug, Default)]
        struct Interrupted(AtomicU64);
        impl Content for Interrupted {
            fn len(&self) -> u64 {
                1 << 20
            }
            fn read_at(&self, _: u64, buf: &mut [u8]) -> Result<usize> {
                if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
                    return Err(seekable::error::errno(libc::EINTR));
                }
                Ok(buf.len())
            }
        }
        let gather = Gather::new(Arc::<Interrupted>::default(), 0, 1, vec![(1024, 1), (1024, 1024)]).unwrap();
        let mut buf = [0; 1024];
        assert_eq!(gather.read_at(0, &mut buf).unwrap_err().errno(), libc::EINTR);
        assert_eq!(gather.read_slab(0, &mut buf).unwrap(), 1024);
    }

    /// A content that counts the bytes read from it.
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
