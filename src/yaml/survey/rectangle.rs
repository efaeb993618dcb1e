//! The shape that nested sequences have as an array, found in passing.

use super::Leaves;

/// The shape that a sequence has as an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The lengths of each depth.
    Array(Vec<u64>),
    /// It is none: sequences of one depth are of different lengths, or beside something else.
    Ragged,
    /// It was not looked at, or has aliases of sequences in it.
    Unknown,
}

/// How long the sequences of each depth are, as long as all of one depth are equally long.
#[derive(Debug, Default)]
pub struct Rectangle {
    lengths: Vec<Option<u64>>,
    /// The depth at which there are no more sequences.
    leaves: Option<usize>,
    ragged: bool,
    unknown: bool,
    pub(super) elements: Leaves,
}

impl Rectangle {
    /// A sequence begins at `depth`, the outermost at 0.
    pub fn open(&mut self, depth: usize) {
        self.ragged |= self.leaves == Some(depth);
        if self.lengths.len() <= depth {
            self.lengths.push(None);
        }
    }

    /// A scalar stands at `depth`.
    pub fn leaf(&mut self, depth: usize) {
        self.ragged |= *self.leaves.get_or_insert(depth) != depth || self.lengths.len() > depth;
    }

    /// A mapping stands there.
    pub(super) fn foreign(&mut self) {
        self.ragged = true;
    }

    /// A sequence is mentioned there by its anchor.
    pub(super) fn unknown(&mut self) {
        self.unknown = true;
    }

    /// A sequence at `depth` ends that has `len` items.
    pub fn close(&mut self, depth: usize, len: u64) {
        if let Some(length) = self.lengths.get_mut(depth) {
            self.ragged |= *length.get_or_insert(len) != len;
        }
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        match self.lengths.iter().copied().collect() {
            _ if self.unknown => Shape::Unknown,
            Some(lengths) if !self.ragged => Shape::Array(lengths),
            _ => Shape::Ragged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shape of nested sequences written with brackets, `x` for a scalar, `?` for something else.
    fn shape(text: &str) -> Shape {
        let mut rectangle = Rectangle::default();
        let mut counts = Vec::new();
        for byte in text.bytes() {
            if let (true, Some(count)) = (byte != b']', counts.last_mut()) {
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
                _ => rectangle.foreign(),
            }
        }
        rectangle.shape()
    }

    #[test]
    fn only_rectangles_have_a_shape() {
        assert_eq!(shape("[xxx]"), Shape::Array(vec![3]));
        assert_eq!(shape("[[xx][xx][xx]]"), Shape::Array(vec![3, 2]));
        assert_eq!(shape("[]"), Shape::Array(vec![0]));
        assert_eq!(shape("[[][]]"), Shape::Array(vec![2, 0]));
        for ragged in ["[[x][xx]]", "[x[x]]", "[[x]x]", "[x?]", "[[][[]]]", "[[][x]]", "[[x][]]"] {
            assert_eq!(shape(ragged), Shape::Ragged, "{ragged}");
        }
    }
}
