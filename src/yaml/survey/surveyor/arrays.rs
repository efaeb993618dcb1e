//! Shapes of arrays that are written in the text.

use super::Surveyor;
use crate::yaml::survey::frame::OpenCollection;
use crate::yaml::survey::rectangle::Rectangle;
use crate::yaml::survey::{Leaves, SequenceShape};

impl Surveyor<'_, '_> {
    /// Begins a collection. Returns the index of the array that it is part of, and its depth in that array.
    pub(super) fn open_rectangle(&mut self, mapping: bool, inside: bool) -> (Option<usize>, usize) {
        let parent = self.frames.last().and_then(|frame| Some((frame.rectangle?, frame.depth)));
        match (mapping, parent) {
            (true, Some((index, _))) => {
                self.rectangles[index].mapping();
                (None, 0)
            }
            (false, Some((index, depth))) => {
                self.rectangles[index].open(depth + 1);
                (Some(index), depth + 1)
            }
            (false, None) if inside => {
                let mut rectangle = Rectangle::default();
                rectangle.open(0);
                self.rectangles.push(rectangle);
                (Some(self.rectangles.len() - 1), 0)
            }
            _ => (None, 0),
        }
    }

    /// Ends a sequence. Returns the shape of the array if the sequence is its outermost one.
    pub(super) fn close_rectangle(
        &mut self,
        frame: &OpenCollection,
    ) -> Option<(SequenceShape, Option<Box<Leaves>>)> {
        let rectangle = self.rectangles.get_mut(frame.rectangle?)?;
        rectangle.close(frame.depth, frame.count);
        match frame.depth {
            0 => {
                let rectangle = self.rectangles.pop()?;
                Some((rectangle.shape(), Some(Box::new(rectangle.elements))))
            }
            _ => None,
        }
    }
}
