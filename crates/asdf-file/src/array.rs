//! An array, as each format gives it and each view takes it; contents that are made of others, such as an array with
//! strides; the file formats of arrays.

mod blanked;
mod datatype;
mod gather;
mod grid;
mod interleaved;
pub mod literal;
pub mod npy;
pub mod numbers;
mod recoded;
pub mod tile;
pub mod zarr;

use std::sync::Arc;

use seekable::content::Content;

pub use blanked::{Blank, Blanked, FoundInteger, NullCandidates, Unused};
pub use datatype::{ByteOrder, Datatype, Field, Scalar, ScalarKind};
pub use gather::Gather;
pub use grid::{Division, Grid, GridChunks};
pub use interleaved::Interleaved;
pub use recoded::{Conversion, Recoded, float16, half};

/// Elements, and how they are read.
#[derive(Clone, Debug)]
pub struct Array {
    /// The type of an element.
    pub datatype: Datatype,
    /// The order of the bytes of an element, unless it is a record; its fields have orders of their own.
    pub byteorder: ByteOrder,
    /// True if the first index varies fastest.
    pub fortran_order: bool,
    /// The length of each dimension.
    pub shape: Vec<u64>,
    /// The elements, contiguous.
    pub elements: Arc<dyn Content>,
}

impl Array {
    /// Returns the array that a content is a `.npy` file of.
    pub fn of(content: &dyn Content) -> Option<&Self> {
        content.written()?.downcast_ref()
    }

    /// Returns the number of elements.
    pub fn count(&self) -> u64 {
        if self.shape.contains(&0) { 0 } else { self.shape.iter().copied().fold(1, u64::saturating_mul) }
    }

    /// Returns the dimension that varies as number `n`, from the fastest one on.
    fn dimension(&self, n: usize) -> usize {
        if self.fortran_order { n } else { self.shape.len() - 1 - n }
    }

    /// Returns the index of the element at a position.
    pub fn index_of(&self, position: u64) -> Vec<u64> {
        let mut index = vec![0; self.shape.len()];
        let mut rest = position;
        for n in 0..index.len() {
            let dimension = self.dimension(n);
            let size = self.shape[dimension].max(1);
            index[dimension] = rest % size;
            rest /= size;
        }
        index
    }

    /// Returns the position of the element with this index, which has as many dimensions.
    pub fn position_of(&self, index: &[u64]) -> u64 {
        let mut position = 0;
        for n in (0..index.len()).rev() {
            let dimension = self.dimension(n);
            position = position * self.shape[dimension] + index[dimension];
        }
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekable::content::Text;

    #[test]
    fn an_element_is_found_by_its_index() {
        for fortran_order in [false, true] {
            let elements = Arc::new(Text::new(vec![0; 24]));
            let (datatype, byteorder) = (Datatype::Scalar(Scalar::Uint8), ByteOrder::Little);
            let array = Array { datatype, byteorder, fortran_order, shape: vec![2, 3, 4], elements };
            for position in 0..24 {
                assert_eq!(array.position_of(&array.index_of(position)), position);
            }
            assert_eq!(array.index_of(7), if fortran_order { [1, 0, 1] } else { [0, 1, 3] });
        }
    }
}
