//! Tiles: an n-dimensional array whose items are stored tile by tile, in C order within and among the tiles.
//!
//! The array is never held in memory. A read is split into runs, each from one row of one tile, and each run
//! is read from its place in the tiles. Tiles at the far edges are padded to the full shape. The padding is
//! never read. If rows are short and tiles small, one read for each run would cost more than reading the
//! bytes between the runs, too. In this case a window of the tiles is read, and the runs are copied from it.

use std::sync::Arc;

use seekable::error::{Error, Result};

use seekable::content::{Content, Soundness};

/// Maximum number of dimensions of an array: NumPy's limit before version 2.0.
pub(crate) const MAX_DIMENSIONS: usize = 32;

/// The length below which runs are copied out of a window, if tiles are small.
const SHORT_RUN: u64 = 512;

/// Maximum size of a small tile, in bytes.
const SMALL_TILE: u64 = 4096;

/// Maximum number of bytes of tiles in a window.
const WINDOW: u64 = 64 << 10;

/// One dimension of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    /// The number of the array's items.
    len: u64,
    /// The number of a tile's items.
    tile: u64,
    /// The number of tiles.
    tiles: u64,
}

/// A partition of an array into tiles. Converts offsets in the array to offsets in the tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// The axes, except trailing axes that each tile spans completely: these are merged into the item.
    axes: Vec<Axis>,
    /// The size of an item in bytes.
    item_size: u64,
    items: u64,
    decoded_len: u64,
    encoded_len: u64,
}

impl Tiling {
    /// Divides an array of `original_shape` with items of `item_size` bytes into tiles of `shape`.
    ///
    /// If `shape` has fewer dimensions than the array, each tile spans the array's last ones.
    pub fn new(original_shape: &[u64], shape: &[u64], item_size: u64) -> Result<Self> {
        if original_shape.len() > MAX_DIMENSIONS || shape.len() > original_shape.len() {
            return Err(Error::damaged(format!(
                "the tiles have {} dimensions, but the array has {}",
                shape.len(),
                original_shape.len()
            )));
        }
        if item_size == 0 || shape.contains(&0) {
            return Err(Error::damaged("the tiles or their items have no size"));
        }
        let too_large = || Error::damaged("the array of tiles is larger than any file can be");
        let mut axes = Vec::new();
        let mut items = 1u64;
        let mut encoded_items = 1u64;
        for (n, &len) in original_shape.iter().enumerate() {
            let tile = shape.get(n).copied().unwrap_or(len.max(1));
            let tiles = len.div_ceil(tile);
            let padded = tiles.checked_mul(tile).ok_or_else(too_large)?;
            items = items.checked_mul(len).ok_or_else(too_large)?;
            encoded_items = encoded_items.checked_mul(padded).ok_or_else(too_large)?;
            axes.push(Axis { len, tile, tiles });
        }
        let decoded_len = items.checked_mul(item_size).ok_or_else(too_large)?;
        let encoded_len = encoded_items.checked_mul(item_size).ok_or_else(too_large)?;
        let mut item_size = item_size;
        while let Some(axis) = axes.pop_if(|axis| axis.tile == axis.len) {
            item_size = item_size.checked_mul(axis.len).ok_or_else(too_large)?;
        }
        Ok(Self { axes, item_size, items, decoded_len, encoded_len })
    }

    /// Returns the number of items in the array, without padding.
    pub(crate) fn items(&self) -> u64 {
        self.items
    }

    /// Returns the size of the array in bytes.
    pub(crate) fn decoded_len(&self) -> u64 {
        self.decoded_len
    }

    /// Returns the size of all tiles in bytes, including padding.
    pub fn encoded_len(&self) -> u64 {
        self.encoded_len
    }

    /// Returns the offset in the tiles of byte `offset` of the array, and the number of contiguous bytes from
    /// there on.
    ///
    /// No step can overflow: each product is at most `encoded_len`.
    fn place(&self, offset: u64) -> (u64, u64) {
        let mut index = offset / self.item_size;
        let within = offset % self.item_size;
        let mut number = 0;
        let mut tiles = 1;
        let mut item = 0;
        let mut tile_items = 1;
        let mut run = 1;
        for (n, axis) in self.axes.iter().rev().enumerate() {
            let at = index % axis.len;
            index /= axis.len;
            let in_tile = at % axis.tile;
            number += at / axis.tile * tiles;
            tiles *= axis.tiles;
            item += in_tile * tile_items;
            tile_items *= axis.tile;
            if n == 0 {
                run = (axis.tile - in_tile).min(axis.len - at);
            }
        }
        ((number * tile_items + item) * self.item_size + within, run * self.item_size - within)
    }

    /// Returns the number of tile bytes read for each byte of a row, if rows are short and tiles small.
    fn spread(&self) -> Option<u64> {
        let run = self.axes.last()?.tile.checked_mul(self.item_size)?;
        let tile = self.axes.iter().try_fold(self.item_size, |size, axis| size.checked_mul(axis.tile))?;
        (0 < run && run < SHORT_RUN && tile <= SMALL_TILE).then(|| tile / run)
    }
}

/// An array that is read from its tiles.
#[derive(Debug)]
pub struct Tiled {
    tiles: Arc<dyn Content>,
    tiling: Tiling,
    spread: Option<u64>,
}

impl Tiled {
    /// Returns the array stored as `tiles`. Bytes that are missing at the end of `tiles` can't be read.
    pub fn new(tiles: Arc<dyn Content>, tiling: Tiling) -> Self {
        let spread = tiling.spread();
        Self { tiles, tiling, spread }
    }

    fn missing(&self, position: u64) -> Error {
        let len = self.tiling.encoded_len;
        Error::damaged(format!("the tiles end at byte {position} of {len}"))
    }
}

/// A window of the tiles, held in memory.
#[derive(Default)]
struct TileWindow {
    at: u64,
    bytes: Vec<u8>,
}

impl TileWindow {
    /// Reads like `Content::read_at`. If `at` is outside of the window, reads a new window of `ahead` bytes,
    /// or of the length of `buf` if that is more.
    fn read_at(&mut self, tiles: &dyn Content, at: u64, buf: &mut [u8], ahead: usize) -> Result<usize> {
        let mut start = at.checked_sub(self.at).and_then(|start| usize::try_from(start).ok());
        if start.is_none_or(|start| start >= self.bytes.len()) {
            self.bytes.resize(ahead.max(buf.len()), 0);
            let read = tiles.read_at(at, &mut self.bytes);
            self.bytes.truncate(*read.as_ref().unwrap_or(&0));
            read?;
            self.at = at;
            start = Some(0);
        }
        let there = start.and_then(|start| self.bytes.get(start..)).unwrap_or_default();
        let len = there.len().min(buf.len());
        buf[..len].copy_from_slice(&there[..len]);
        Ok(len)
    }
}

impl Content for Tiled {
    fn len(&self) -> u64 {
        self.tiling.decoded_len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        let mut window = TileWindow::default();
        let ahead = self.spread.map(|spread| (wanted as u64).saturating_mul(spread).min(WINDOW) as usize);
        let mut done = 0;
        while done < wanted {
            let (position, run) = self.tiling.place(offset + done as u64);
            let run = run.min((wanted - done) as u64) as usize;
            let part = &mut buf[done..done + run];
            let read = match ahead {
                Some(ahead) => window.read_at(&*self.tiles, position, part, ahead),
                None => self.tiles.read_at(position, part),
            };
            match read {
                Ok(0) if done == 0 => return Err(self.missing(position)),
                Err(error) if done == 0 => return Err(error),
                // Returns the bytes before the error. A read that starts here gets the error.
                Ok(0) | Err(_) => break,
                Ok(read) => done += read,
            }
        }
        Ok(done)
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        std::slice::from_ref(&self.tiles)
    }

    fn soundness(&self) -> Soundness {
        match self.tiles.soundness() {
            Soundness::Sound if self.tiles.len() >= self.tiling.encoded_len => Soundness::Sound,
            // The first faulty byte of the tiles need not be the first one of the array, which has its bytes
            // in another order.
            _ => Soundness::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use seekable::content::{Text, read_exact_at};

    /// Returns the tiles of an array, built item by item with padding.
    pub(crate) fn tiles_of(array: &[u8], original: &[u64], shape: &[u64], item_size: u64) -> Vec<u8> {
        let shape: Vec<u64> = (0..original.len()).map(|n| *shape.get(n).unwrap_or(&original[n])).collect();
        let grid: Vec<u64> = original.iter().zip(&shape).map(|(len, tile)| len.div_ceil(*tile)).collect();
        let mut tiles = Vec::new();
        for tile in every(&grid) {
            for place in every(&shape) {
                let at: Vec<u64> = (0..shape.len()).map(|n| tile[n] * shape[n] + place[n]).collect();
                if at.iter().zip(original).all(|(at, len)| at < len) {
                    let index = at.iter().zip(original).fold(0, |index, (at, len)| index * len + at);
                    let start = (index * item_size) as usize;
                    tiles.extend_from_slice(&array[start..start + item_size as usize]);
                } else {
                    tiles.extend(std::iter::repeat_n(0xee, item_size as usize));
                }
            }
        }
        tiles
    }

    /// Returns all index tuples of a shape, in C order.
    fn every(shape: &[u64]) -> Vec<Vec<u64>> {
        shape.iter().fold(vec![vec![]], |tuples, &len| {
            tuples.iter().flat_map(|tuple| (0..len).map(move |n| [&tuple[..], &[n]].concat())).collect()
        })
    }

    fn array(len: u64) -> Vec<u8> {
        (0..len).map(|n| (n * 167 % 251) as u8).collect()
    }

    #[test]
    fn two_by_two_tiles_with_padded_edges() {
        let tiling = Tiling::new(&[3, 3], &[2, 2], 1).unwrap();
        assert_eq!((tiling.decoded_len(), tiling.encoded_len(), tiling.items()), (9, 16, 9));
        let tiles = Text::new(*b"abdec-f-gh--i---");
        let tiled = Tiled::new(Arc::new(tiles), tiling);
        let mut buf = [0; 20];
        assert_eq!(tiled.read_at(0, &mut buf).unwrap(), 9);
        assert_eq!(&buf[..9], b"abcdefghi");
        assert_eq!(tiled.read_at(9, &mut buf).unwrap(), 0);
        assert_eq!(tiled.read_at(u64::MAX, &mut buf).unwrap(), 0);
    }

    #[test]
    fn missing_tiles_give_the_prefix_and_then_an_error() {
        let tiling = Tiling::new(&[3, 3], &[2, 2], 1).unwrap();
        let tiled = Tiled::new(Arc::new(Text::new(*b"abdec-")), tiling);
        let mut buf = [0; 9];
        assert_eq!(tiled.read_at(0, &mut buf).unwrap(), 5);
        assert_eq!(&buf[..5], b"abcde");
        assert!(tiled.read_at(5, &mut buf).unwrap_err().to_string().contains("end at byte 6 of 16"));
        assert_eq!(tiled.soundness(), Soundness::Unknown);
    }

    #[test]
    fn arguments_that_make_no_sense_are_errors() {
        for (original, shape, item_size) in [
            (&[4u64, 4][..], &[2u64, 0][..], 1),
            (&[4, 4], &[2, 2], 0),
            (&[4], &[2, 2], 1),
            (&[u64::MAX, u64::MAX], &[1, 1], 1),
            (&[u64::MAX], &[2], 1),
            (&[3], &[u64::MAX], 2),
            (&[1; 33], &[1; 33], 1),
            (&[1 << 40, 1 << 20], &[1, 1], 16),
        ] {
            assert!(Tiling::new(original, shape, item_size).is_err(), "{original:?} {shape:?}");
        }
    }

    #[test]
    fn arrays_of_nothing_and_of_one_item() {
        for (original, shape, len) in [(&[][..], &[][..], 4), (&[0, 7], &[2, 2], 0), (&[7, 0], &[2], 0)] {
            let tiling = Tiling::new(original, shape, 4).unwrap();
            assert_eq!(tiling.decoded_len(), len);
            let tiled = Tiled::new(Arc::new(Text::new(*b"abcd")), tiling);
            let mut buf = [0; 8];
            assert_eq!(tiled.read_at(0, &mut buf).unwrap() as u64, len);
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_model_built_item_by_item(
            axes in prop::collection::vec((1u64..8, 1u64..10), 0..5),
            fewer in 0usize..3,
            item_size in prop_oneof![1u64..17, Just(600)],
            reads in prop::collection::vec((any::<prop::sample::Index>(), 1usize..300), 1..8),
        ) {
            let original: Vec<u64> = axes.iter().map(|axis| axis.0).collect();
            let shape: Vec<u64> =
                axes.iter().map(|axis| axis.1).take(axes.len().saturating_sub(fewer)).collect();
            let tiling = Tiling::new(&original, &shape, item_size).unwrap();
            let array = array(tiling.decoded_len());
            let tiles = tiles_of(&array, &original, &shape, item_size);
            prop_assert_eq!(tiles.len() as u64, tiling.encoded_len());
            let tiled = Tiled::new(Arc::new(Text::new(tiles)), tiling);
            let mut whole = vec![0; array.len()];
            read_exact_at(&tiled, 0, &mut whole).unwrap();
            prop_assert!(whole == array);
            for (start, len) in reads {
                let start = start.index(array.len());
                let mut buf = vec![0; len];
                let read = tiled.read_at(start as u64, &mut buf).unwrap();
                prop_assert_eq!(read, len.min(array.len() - start));
                prop_assert!(buf[..read] == array[start..start + read]);
            }
        }

        #[test]
        fn hostile_shapes_never_panic(
            original in prop::collection::vec(prop_oneof![0u64..5, any::<u64>(), Just(u64::MAX)], 0..6),
            shape in prop::collection::vec(prop_oneof![0u64..5, any::<u64>(), Just(u64::MAX)], 0..6),
            item_size in prop_oneof![0u64..5, any::<u64>()],
            offset: u64,
        ) {
            if let Ok(tiling) = Tiling::new(&original, &shape, item_size) {
                let tiled = Tiled::new(Arc::new(Text::new(*b"0123456789")), tiling);
                let mut buf = [0; 100];
                for offset in [0, offset, tiled.len() / 2, tiled.len().saturating_sub(1)] {
                    let _ = tiled.read_at(offset, &mut buf);
                }
            }
        }
    }
}
