//! A plane of an array as a picture.

use std::sync::Arc;

use seekable::content::Content;
use seekable::error::Result;

use super::levels::Scale;
use super::plane::Plane;
use crate::picture::file::Drawing;
use crate::picture::{Picture, png};

/// A plane, drawn in grey or in colors.
#[derive(Debug)]
pub(super) struct DrawnPlane(pub(super) Plane);

impl Drawing for DrawnPlane {
    fn size(&self) -> (u32, u32, png::Pixel) {
        let (width, height) = self.0.size();
        let pixel = if self.0.colors() > 1 { png::Pixel::Rgba } else { png::Pixel::GreyAlpha };
        (width, height, pixel)
    }

    /// The averages; a sample of them is small.
    fn memory(&self) -> u64 {
        let (width, height) = self.0.size();
        u64::from(width) * u64::from(height) * self.0.colors() as u64 * 8
    }

    fn content(&self) -> &Arc<dyn Content> {
        &self.0.content
    }

    fn draw(&self) -> Result<Picture> {
        let averages = self.0.averages()?;
        let colors = self.0.colors();
        let scale = if self.0.is_flags() {
            Scale::of_flags(&averages)
        } else if colors > 1 {
            Scale::of_colors(&averages, self.0.largest)
        } else {
            Scale::of(&averages)
        };
        let (width, height, kind) = self.size();
        Ok(Picture::drawn(width, height, kind, scale.note(), |y, line| {
            for (x, pixel) in line.chunks_exact_mut(kind.len()).enumerate() {
                let place = self.0.place(x, y);
                let numbers = averages.get(place..place + colors).unwrap_or_default();
                // Grey or red, green and blue.
                let (levels, alpha) = pixel.split_at_mut(kind.len() - 1);
                for (level, number) in levels.iter_mut().zip(numbers) {
                    *level = scale.level(*number);
                }
                let is_transparent = numbers.iter().all(|number| number.is_nan());
                let opacity = numbers.get(levels.len()).map(|number| scale.level(*number));
                alpha.fill(if is_transparent { 0 } else { opacity.unwrap_or(255) });
            }
        }))
    }
}
