//! The shape of nested sequences as an array, measured during the survey.

use super::Leaves;

/// The shape of a sequence as an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequenceShape {
    /// The length of each dimension.
    Array(Vec<u64>),
    /// Not an array: sequences at one depth differ in length, or are mixed with other nodes.
    Ragged,
    /// Not measured, or with aliases of sequences.
    Unknown,
}

/// The common length of the sequences at each depth.
#[derive(Debug, Default)]
pub struct Rectangle {
    lengths: Vec<Option<u64>>,
    /// The depth of the scalars.
    leaves: Option<usize>,
    ragged: bool,
    unknown: bool,
    pub(super) elements: Leaves,
}

impl Rectangle {
    /// Begins a sequence at `depth`, 0 for the outermost.
    pub fn open(&mut self, depth: usize) {
        self.ragged |= self.leaves == Some(depth);
        if self.lengths.len() <= depth {
            self.lengths.push(None);
        }
    }

    /// Adds a scalar at `depth`.
    pub fn leaf(&mut self, depth: usize) {
        self.ragged |= *self.leaves.get_or_insert(depth) != depth || self.lengths.len() > depth;
    }

    /// Adds a mapping.
    pub(super) fn mapping(&mut self) {
        self.ragged = true;
    }

    /// Adds an alias of a sequence.
    pub(super) fn unknown(&mut self) {
        self.unknown = true;
    }

    /// Ends a sequence of `len` items at `depth`.
    pub fn close(&mut self, depth: usize, len: u64) {
        if let Some(length) = self.lengths.get_mut(depth) {
            self.ragged |= *length.get_or_insert(len) != len;
        }
    }

    /// Returns the shape.
    pub fn shape(&self) -> SequenceShape {
        match self.lengths.iter().copied().collect() {
            _ if self.unknown => SequenceShape::Unknown,
            Some(lengths) if !self.ragged => SequenceShape::Array(lengths),
            _ => SequenceShape::Ragged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shape of nested sequences written with brackets, `x` for a scalar and `?` for other nodes.
    fn shape(text: &str) -> SequenceShape {
        let mut rectangle = Rectangle::default();
        let mut counts = Vec::new();
        for byte in text.bytes() {
            if byte != b']'
                && let Some(count) = counts.last_mut()
            {
                *count += 1;
            }
            match byte {
                b'[' => {
                    rectangle.open(counts.len());
                    counts.push(0);
                }
                b']' => {
                    let count = counts.pop().unwrap();
                    rectangle.close(counts.len(), count);
                }
                b'x' => rectangle.leaf(counts.len()),
                _ => rectangle.mapping(),
            }
        }
        rectangle.shape()
    }

    #[test]
    fn only_rectangles_have_a_shape() {
        assert_eq!(shape("[xxx]"), SequenceShape::Array(vec![3]));
        assert_eq!(shape("[[xx][xx][xx]]"), SequenceShape::Array(vec![3, 2]));
        assert_eq!(shape("[]"), SequenceShape::Array(vec![0]));
        assert_eq!(shape("[[][]]"), SequenceShape::Array(vec![2, 0]));
        for ragged in ["[[x][xx]]", "[x[x]]", "[[x]x]", "[x?]", "[[][[]]]", "[[][x]]", "[[x][]]"] {
            assert_eq!(shape(ragged), SequenceShape::Ragged, "{ragged}");
        }
    }
}
