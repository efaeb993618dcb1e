//! An n-dimensional array whose elements are stored chunk by chunk, each chunk a content of its own.
//!
//! The array is never held in memory. A read is split into runs, each from one row of one chunk. Chunks of a shape of
//! their own may be padded at the far edges: the padding is never read.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use seekable::error::{Error, Result};

use seekable::content::{Content, Soundness, fill};

/// Runs of fewer bytes are copied out of a window of the chunk, which has this length. Where chunks are narrow, the rows of a
/// read need the same few bytes of each chunk again and again.
const SHORT_RUN: u64 = 512;
const WINDOW: u64 = 4096;

/// The chunks of a grid.
pub trait GridChunks: Send + Sync + fmt::Debug {
    /// Returns the elements of chunk `n` in C order; `None` if all of them have the fill value.
    fn chunk(&self, n: u64) -> Result<Option<Arc<dyn Content>>>;
}

/// How one dimension of an array is divided into chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Division {
    /// Chunks of this length, the last one with padding.
    Every(u64),
    /// Chunks that begin at these indices, ascending from 0, and end where the next ones begin.
    At(Vec<u64>),
}

/// One dimension of the grid.
#[derive(Debug)]
struct Axis {
    len: u64,
    division: Division,
}

impl Division {
    /// Returns the number of chunks of a dimension of `len`.
    pub fn count(&self, len: u64) -> u64 {
        match self {
            Self::Every(chunk) => len.div_ceil((*chunk).max(1)),
            Self::At(starts) => starts.len() as u64,
        }
    }

    /// Returns the length of the chunks of a dimension of `len`; `None` if one that is not the last has another length.
    pub fn regular(&self, len: u64) -> Option<u64> {
        let starts = match self {
            Self::Every(chunk) => return Some(*chunk),
            Self::At(starts) => starts,
        };
        let chunk = starts.get(1).copied().unwrap_or(len.max(1));
        let is_spaced = starts.iter().zip(0_u64..).all(|(start, n)| n.checked_mul(chunk) == Some(*start));
        let is_last_short = starts.last().is_none_or(|last| len.saturating_sub(*last) <= chunk);
        (is_spaced && is_last_short).then_some(chunk)
    }
}

impl Axis {
    /// Returns the number of the chunk with an index, its first index, the index after its last one, and its length
    /// with padding.
    fn chunk_at(&self, index: u64) -> AxisChunk {
        match &self.division {
            Division::Every(chunk) => {
                let number = index / chunk;
                let start = number * chunk;
                AxisChunk { number, start, end: self.len.min(start + chunk), width: *chunk }
            }
            Division::At(starts) => {
                let number = starts.partition_point(|start| *start <= index).saturating_sub(1);
                let start = starts.get(number).copied().unwrap_or(0);
                let end = starts.get(number + 1).copied().unwrap_or(self.len);
                AxisChunk { number: number as u64, start, end, width: end - start }
            }
        }
    }
}

/// A chunk in one dimension.
struct AxisChunk {
    number: u64,
    /// The first index.
    start: u64,
    /// The index after the last one.
    end: u64,
    /// The length with the padding.
    width: u64,
}

/// The elements of an array in chunks, in C order.
#[derive(Debug)]
pub struct Grid {
    axes: Vec<Axis>,
    /// The length of an element in bytes, or of the elements that each chunk holds in a row.
    item: u64,
    /// An element of the chunks that are not there.
    fill: Vec<u8>,
    len: u64,
    chunks: Arc<dyn GridChunks>,
    /// The shape of the chunks, unless they differ.
    chunk_shape: Option<Vec<u64>>,
}

/// A chunk that a read needs.
struct OpenChunk {
    content: Arc<dyn Content>,
    /// The bytes of the chunk that were read last, and the offset of the first.
    window: Vec<u8>,
    at: u64,
}

impl OpenChunk {
    /// Reads like `Content::read_at`.
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if buf.len() as u64 >= SHORT_RUN {
            return self.content.read_at(offset, buf);
        }
        let held = |chunk: &Self| {
            let skip = offset.checked_sub(chunk.at).and_then(|skip| usize::try_from(skip).ok());
            skip.filter(|skip| *skip < chunk.window.len())
        };
        if held(self).is_none() {
            let len = self.content.len().saturating_sub(offset).min(WINDOW).max(buf.len() as u64);
            self.window.resize(len as usize, 0);
            let read = self.content.read_at(offset, &mut self.window);
            self.window.truncate(*read.as_ref().unwrap_or(&0));
            self.at = offset;
            read?;
        }
        let there = held(self).and_then(|skip| self.window.get(skip..)).unwrap_or_default();
        let len = there.len().min(buf.len());
        buf[..len].copy_from_slice(&there[..len]);
        Ok(len)
    }
}

/// The place of some bytes of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GridPlace {
    chunk: u64,
    /// The offset in the chunk.
    offset: u64,
    /// The number of bytes that follow each other there.
    run: u64,
}

impl Grid {
    /// Makes the elements of an array of `shape`, each dimension of which is divided into chunks. `fill` is an element
    /// of the chunks that are not there.
    ///
    /// # Errors
    /// [`Kind::Damaged`](seekable::error::Kind) if the chunks do not belong to the shape, or are too many to count.
    pub fn new(
        shape: &[u64],
        divisions: Vec<Division>,
        fill: Vec<u8>,
        chunks: Arc<dyn GridChunks>,
    ) -> Result<Self> {
        let wrong = || Error::damaged("the chunks of the array do not belong to its shape");
        if divisions.len() != shape.len() || fill.is_empty() {
            return Err(wrong());
        }
        let mut item = fill.len() as u64;
        let mut len = item;
        let mut stored = item;
        let mut axes = Vec::new();
        let regular = shape.iter().zip(&divisions).map(|(len, division)| division.regular(*len));
        let chunk_shape = regular.collect();
        for (of_axis, division) in shape.iter().zip(divisions) {
            let is_right = match &division {
                Division::Every(chunk) => *chunk > 0,
                Division::At(starts) => {
                    let is_ascending = starts.windows(2).all(|two| two[0] < two[1]);
                    let is_within = starts.last().map_or(*of_axis == 0, |last| last < of_axis);
                    is_ascending && is_within && starts.first().is_none_or(|first| *first == 0)
                }
            };
            let with_padding = match &division {
                Division::Every(chunk) => chunk.checked_mul(division.count(*of_axis)),
                Division::At(_) => Some(*of_axis),
            };
            if !is_right {
                return Err(wrong());
            }
            len = len.checked_mul(*of_axis).ok_or_else(wrong)?;
            stored = with_padding.and_then(|padded| stored.checked_mul(padded)).ok_or_else(wrong)?;
            axes.push(Axis { len: *of_axis, division });
        }
        if len.max(stored) > i64::MAX as u64 {
            return Err(wrong());
        }
        // Rows that each chunk holds as a whole are one run.
        let is_whole = |axis: &mut Axis| match &axis.division {
            Division::Every(chunk) => *chunk == axis.len,
            Division::At(starts) => starts.len() == 1,
        };
        while let Some(axis) = axes.pop_if(is_whole) {
            item = item.saturating_mul(axis.len);
        }
        Ok(Self { axes, item, fill, len, chunks, chunk_shape })
    }

    /// Returns the place of byte `offset`, which is before the end.
    ///
    /// No step can overflow: each product is at most the length with the padding.
    fn place(&self, offset: u64) -> GridPlace {
        let mut index = offset / self.item;
        let within = offset % self.item;
        let mut chunk = 0;
        let mut chunks = 1;
        let mut items = 0;
        let mut stride = 1;
        let mut run = 1;
        for (n, axis) in self.axes.iter().rev().enumerate() {
            let at = index % axis.len;
            index /= axis.len;
            let of_axis = axis.chunk_at(at);
            if n == 0 {
                run = of_axis.end - at;
            }
            chunk += of_axis.number * chunks;
            chunks *= axis.division.count(axis.len);
            items += (at - of_axis.start) * stride;
            stride *= of_axis.width;
        }
        GridPlace { chunk, offset: items * self.item + within, run: run * self.item - within }
    }
}

impl Content for Grid {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        // A read of several rows needs each chunk again for each row.
        let mut open: HashMap<u64, Option<OpenChunk>> = HashMap::new();
        fill(buf, |done, room| {
            let at = offset.saturating_add(done as u64);
            if at >= self.len {
                return Ok(0);
            }
            let GridPlace { chunk, offset: within, run } = self.place(at);
            let len = (room.len() as u64).min(run) as usize;
            let chunk = match open.entry(chunk) {
                std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::hash_map::Entry::Vacant(free) => {
                    let content = self.chunks.chunk(chunk)?;
                    free.insert(content.map(|content| OpenChunk { content, window: Vec::new(), at: 0 }))
                }
            };
            match chunk {
                Some(chunk) => match chunk.read_at(within, &mut room[..len])? {
                    0 => Err(Error::damaged("a chunk of the array is shorter than its shape")),
                    read => Ok(read.min(len)),
                },
                None => {
                    let skip = (within % self.fill.len() as u64) as usize;
                    for (byte, fill) in room[..len].iter_mut().zip(self.fill.iter().cycle().skip(skip)) {
                        *byte = *fill;
                    }
                    Ok(len)
                }
            }
        })
    }

    fn chunk_shape(&self) -> Option<Vec<u64>> {
        self.chunk_shape.clone()
    }

    /// True: where a chunk lies, and how it is compressed, is found by the reads.
    fn is_slow(&self) -> bool {
        true
    }

    fn soundness(&self) -> Soundness {
        Soundness::Unknown
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use seekable::content::{Text, read_exact_at};

    #[derive(Debug)]
    struct Texts(Vec<Option<Vec<u8>>>);

    impl GridChunks for Texts {
        fn chunk(&self, n: u64) -> Result<Option<Arc<dyn Content>>> {
            Ok(self.0[n as usize].clone().map(|bytes| Arc::new(Text::new(bytes)) as Arc<dyn Content>))
        }
    }

    /// A chunk that counts the reads.
    #[derive(Debug)]
    struct Counted(Text, Arc<std::sync::atomic::AtomicU64>);

    impl Content for Counted {
        fn len(&self) -> u64 {
            self.0.len()
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.0.read_at(offset, buf)
        }
    }

    #[derive(Debug)]
    struct Columns(Vec<Arc<dyn Content>>);

    impl GridChunks for Columns {
        fn chunk(&self, n: u64) -> Result<Option<Arc<dyn Content>>> {
            Ok(Some(self.0[n as usize].clone()))
        }
    }

    #[test]
    fn narrow_chunks_are_not_read_element_by_element() {
        let reads = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let column = |n: u8| (0..200_u8).map(|row| row ^ n).collect::<Vec<u8>>();
        let chunk = |n| Arc::new(Counted(Text::new(column(n)), reads.clone())) as Arc<dyn Content>;
        let chunks = Arc::new(Columns((0..100).map(chunk).collect()));
        let divisions = vec![Division::Every(200), Division::Every(1)];
        let grid = Grid::new(&[200, 100], divisions, vec![0], chunks).unwrap();
        let mut bytes = vec![0; 20_000];
        read_exact_at(&grid, 0, &mut bytes).unwrap();
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == (at / 100) as u8 ^ (at % 100) as u8));
        assert_eq!(reads.load(std::sync::atomic::Ordering::Relaxed), 100);
    }

    fn all_of(grid: &Grid) -> Vec<u8> {
        let mut bytes = vec![0; grid.len() as usize];
        read_exact_at(grid, 0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn chunks_with_padding_and_missing_ones() {
        let chunks =
            Texts(vec![Some(b"abde".to_vec()), Some(b"c-f-".to_vec()), None, Some(b"i---".to_vec())]);
        let divisions = vec![Division::Every(2), Division::Every(2)];
        let grid = Grid::new(&[3, 3], divisions, b"?".to_vec(), Arc::new(chunks)).unwrap();
        assert_eq!(all_of(&grid), b"abcdef??i");
        let mut buf = [0; 9];
        assert_eq!(grid.read_at(9, &mut buf).unwrap(), 0);
        assert_eq!(grid.read_at(u64::MAX, &mut buf).unwrap(), 0);
    }

    #[test]
    fn a_short_chunk_gives_the_bytes_before_it_and_then_an_error() {
        let chunks = Texts(vec![Some(b"ab".to_vec()), Some(b"c".to_vec())]);
        let grid = Grid::new(&[4], vec![Division::At(vec![0, 2])], vec![0], Arc::new(chunks)).unwrap();
        let mut buf = [0; 4];
        assert_eq!(grid.read_at(0, &mut buf).unwrap(), 3);
        assert!(grid.read_at(3, &mut buf).is_err());
    }

    #[test]
    fn grids_that_do_not_belong_to_their_shape_are_refused() {
        let grid = |shape: &[u64], divisions: &[Division]| {
            Grid::new(shape, divisions.to_vec(), vec![0; 8], Arc::new(Texts(Vec::new())))
        };
        let at = |starts: &[u64]| Division::At(starts.to_vec());
        for division in [at(&[0, 0]), at(&[1]), at(&[0, 9]), at(&[]), Division::Every(0)] {
            assert!(grid(&[9], std::slice::from_ref(&division)).is_err(), "{division:?}");
        }
        assert!(grid(&[9], &[at(&[0]), at(&[0])]).is_err());
        assert!(grid(&[1 << 40, 1 << 40], &[at(&[0]), at(&[0])]).is_err());
        assert!(grid(&[1, 1], &[Division::Every(1 << 40), Division::Every(1 << 40)]).is_err());
        assert!(grid(&[3], &[Division::Every(u64::MAX)]).is_err());
        assert!(all_of(&grid(&[0, 3], &[at(&[]), at(&[0])]).unwrap()).is_empty());
    }

    /// Returns all index tuples of a shape in C order.
    fn every(shape: &[u64]) -> Vec<Vec<u64>> {
        shape.iter().fold(vec![vec![]], |tuples, &len| {
            tuples.iter().flat_map(|tuple| (0..len).map(move |n| [&tuple[..], &[n]].concat())).collect()
        })
    }

    proptest! {
        #[test]
        fn any_grid_gives_the_array(
            axes in proptest::collection::vec((1..7_u64, proptest::collection::btree_set(1..7_u64, 0..3), 1..7_u64), 1..4),
            is_padded: bool,
            item in 1..4_usize,
            from in 0..200_u64,
        ) {
            let shape: Vec<u64> = axes.iter().map(|(len, ..)| *len).collect();
            let chunk: Vec<u64> = axes.iter().map(|(.., chunk)| *chunk).collect();
            let starts: Vec<Vec<u64>> = axes
                .iter()
                .map(|(len, cuts, chunk)| {
                    let cuts: Vec<u64> = if is_padded {
                        (1..len.div_ceil(*chunk)).map(|n| n * chunk).collect()
                    } else {
                        cuts.iter().copied().filter(|cut| cut < len).collect()
                    };
                    [vec![0], cuts].concat()
                })
                .collect();
            let value = |at: &[u64]| at.iter().zip(&shape).fold(1_u64, |n, (at, len)| n * len + at);
            let counts: Vec<u64> = starts.iter().map(|starts| starts.len() as u64).collect();
            let chunks = every(&counts).into_iter().map(|cell| {
                let first: Vec<u64> = cell.iter().zip(&starts).map(|(k, starts)| starts[*k as usize]).collect();
                let lens: Vec<u64> = (0..shape.len()).map(|n| {
                    let end = starts[n].get(cell[n] as usize + 1).copied().unwrap_or(shape[n]);
                    if is_padded { chunk[n] } else { end - first[n] }
                }).collect();
                let elements = every(&lens).into_iter().flat_map(|within| {
                    let at: Vec<u64> = first.iter().zip(&within).map(|(one, other)| one + other).collect();
                    let is_there = at.iter().zip(&shape).all(|(at, len)| at < len);
                    vec![if is_there { value(&at) as u8 } else { 0xee }; item]
                });
                Some(elements.collect())
            });
            let chunks = Texts(chunks.collect());
            let divisions = chunk.iter().zip(&starts).map(|(chunk, starts)| {
                if is_padded { Division::Every(*chunk) } else { Division::At(starts.clone()) }
            });
            let grid = Grid::new(&shape, divisions.collect(), vec![0; item], Arc::new(chunks)).unwrap();
            let expected: Vec<u8> = every(&shape).iter().flat_map(|at| vec![value(at) as u8; item]).collect();
            prop_assert_eq!(&all_of(&grid), &expected);
            let from = from.min(grid.len());
            let mut rest = vec![0; (grid.len() - from) as usize];
            read_exact_at(&grid, from, &mut rest).unwrap();
            prop_assert_eq!(&rest[..], &expected[from as usize..]);
        }
    }
}
