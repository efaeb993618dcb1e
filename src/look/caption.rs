//! Text in pictures: the caption of a thumbnail, and pictures that are only text.

use std::convert::Infallible;

use asdf_views::picture::Picture;
use embedded_graphics::Pixel;
use embedded_graphics::mono_font::iso_8859_1::{FONT_6X10, FONT_10X20};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::{Gray8, GrayColor};
use embedded_graphics::prelude::{DrawTarget, Drawable, OriginDimensions, Point, Size};
use embedded_graphics::primitives::Rectangle;
use embedded_graphics::text::{Baseline, Text};

/// The least size of a thumbnail that has a caption, in pixels.
const LEAST_SIZE: usize = 96;
/// The size of a thumbnail from which on its caption is large, in pixels.
const LARGE_SIZE: usize = 200;
/// The space around a text, in pixels.
const MARGIN: u32 = 2;
/// The font of pictures that are only text.
const SMALL: &MonoFont<'_> = &FONT_6X10;
const LARGE: &MonoFont<'_> = &FONT_10X20;
const BLACK: Gray8 = Gray8::BLACK;
const WHITE: Gray8 = Gray8::WHITE;

/// Returns the picture with a line of text below, white on black, both in at most `size` pixels in each direction. A
/// text that is too long is cut. A small thumbnail gets no text.
pub(super) fn captioned(picture: Picture, text: &str, size: usize) -> Picture {
    let count = text.chars().count();
    if count == 0 || size < LEAST_SIZE {
        return picture.scaled(size);
    }
    let font = if size >= LARGE_SIZE && columns(size, LARGE) >= count { LARGE } else { SMALL };
    let shown: String = text.chars().take(columns(size, font)).collect();
    let letter = font.character_size;
    let text_size = Size::new(shown.chars().count() as u32 * letter.width, letter.height);
    let strip = text_size + Size::new_equal(2 * MARGIN);
    let picture = picture.scaled(size - strip.height as usize);
    let top = picture.height;
    let mut picture = picture.extended(strip.width as usize, strip.height as usize);
    let place = Rectangle::new(Point::new(0, top as i32), Size::new(picture.width as u32, strip.height));
    let mut canvas = Canvas(&mut picture);
    let Ok(()) = canvas.fill_solid(&place, BLACK);
    let at = place.top_left + Point::new_equal(MARGIN as i32);
    let style = MonoTextStyle::new(font, WHITE);
    let Ok(_) = Text::with_baseline(&shown, at, style, Baseline::Top).draw(&mut canvas);
    picture
}

/// Returns a picture of this width and height with these lines, black on white.
pub(super) fn of_text<'t>(side: usize, lines: impl Iterator<Item = &'t str>) -> Picture {
    let mut picture = Picture::white(side);
    let style = MonoTextStyle::new(SMALL, BLACK);
    let mut at = Point::new(MARGIN as i32, MARGIN as i32);
    for line in lines.take(rows_of_text(side)) {
        let Ok(_) = Text::with_baseline(line, at, style, Baseline::Top).draw(&mut Canvas(&mut picture));
        at.y += SMALL.character_size.height as i32;
    }
    picture
}

/// Returns the number of characters that fit into a line of a picture that is only text.
pub(super) fn columns_of_text(side: usize) -> usize {
    columns(side, SMALL)
}

/// Returns the number of lines that fit into a picture that is only text.
pub(super) fn rows_of_text(side: usize) -> usize {
    side.saturating_sub(2 * MARGIN as usize) / SMALL.character_size.height as usize
}

/// Returns the number of characters that fit into `width` pixels.
fn columns(width: usize, font: &MonoFont<'_>) -> usize {
    width.saturating_sub(2 * MARGIN as usize) / font.character_size.width as usize
}

/// A picture that is drawn on.
struct Canvas<'p>(&'p mut Picture);

impl OriginDimensions for Canvas<'_> {
    fn size(&self) -> Size {
        Size::new(self.0.width as u32, self.0.height as u32)
    }
}

impl DrawTarget for Canvas<'_> {
    type Color = Gray8;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Gray8>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        for Pixel(at, grey) in pixels {
            if let (Ok(x), Ok(y)) = (usize::try_from(at.x), usize::try_from(at.y)) {
                self.0.set_grey(x, y, grey.luma());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_drawn_within_the_picture() {
        for size in [1, 8, 64, 96, 128, 256] {
            let lines = ["a line that is much longer than the picture is wide, é, 漢", "", "second"];
            let blank = || of_text(size, std::iter::empty());
            let picture = of_text(size, lines.into_iter().cycle());
            assert_eq!((picture.width, picture.height), (size, size));
            assert_eq!(picture == blank(), rows_of_text(size) == 0, "{size}");
            for (text, side) in [("WFI F158", size), ("WFI F158", 1), (&"long".repeat(100), 300)] {
                let original = || of_text(side, std::iter::empty());
                let picture = captioned(original(), text, size);
                let largest = picture.width.max(picture.height);
                assert!(largest <= size && (side == 1 || largest == size), "{size} {side} {largest}");
                assert_eq!(picture == original().scaled(size), size < LEAST_SIZE, "{size} {side}");
            }
            assert_eq!(captioned(blank(), "", size), blank());
        }
    }
}
