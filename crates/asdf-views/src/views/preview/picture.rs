//! The file of a picture. It is made at the first read, and kept in the cache.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use seekable::cache::{Bytes, Cache, ContentId};
use seekable::error::{Error, Result};

use seekable::content::{Content, SharedBytes, Soundness};

use super::levels::Scale;
use super::plane::{Plane, Shown};
use crate::picture::png;
use asdf_file::asdf::arrays::Elements;

/// A picture as a file.
#[derive(Debug)]
pub(super) struct Picture {
    plane: Plane,
    cache: Arc<Cache>,
    id: ContentId,
    /// Locked while the picture is made, so that only one thread at a time makes it.
    making: Mutex<()>,
    /// The outcome of making the picture; unset before, and after an error that may be transient.
    made: OnceLock<std::result::Result<(), Error>>,
}

impl Picture {
    /// Returns the picture of the first plane that has a finite number.
    pub(super) fn new(elements: &Elements, shown: Shown, cache: &Arc<Cache>) -> Result<Self> {
        let plane = Plane::first(elements, shown)?;
        let id = cache.id();
        Ok(Self { plane, cache: cache.clone(), id, making: Mutex::default(), made: OnceLock::new() })
    }

    /// Returns the bytes of the file.
    fn bytes(&self) -> Result<Bytes> {
        if let Some(bytes) = self.cache.get(self.id, 0) {
            return Ok(bytes);
        }
        let _making = self.making.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(bytes) = self.cache.get(self.id, 0) {
            return Ok(bytes);
        }
        let (width, height) = self.plane.size();
        // Memory for the averages and the file. A sample of the averages is small.
        let averages = u64::from(width) * u64::from(height) * self.plane.colors() as u64 * 8;
        let needed = averages + png::len(width, height, self.pixel());
        let _reservation = self.cache.demand(needed);
        let made = self.make();
        match &made {
            Ok(bytes) => {
                let _ = self.made.set(Ok(()));
                self.cache.put(self.id, 0, bytes);
            }
            Err(error) if error.lasts() => drop(self.made.set(Err(error.clone()))),
            Err(_) => {}
        }
        made
    }

    /// Returns the kind of pixels.
    fn pixel(&self) -> png::Pixel {
        if self.plane.colors() > 1 { png::Pixel::Rgba } else { png::Pixel::GreyAlpha }
    }

    fn make(&self) -> Result<Bytes> {
        let averages = self.plane.averages()?;
        let colors = self.plane.colors();
        let scale = if self.plane.is_flags() {
            Scale::of_flags(&averages)
        } else if colors > 1 {
            Scale::of_colors(&averages, self.plane.largest)
        } else {
            Scale::of(&averages)
        };
        let (width, height) = self.plane.size();
        let kind = self.pixel();
        let file = png::encode(width, height, kind, &scale.note(), |y, line| {
            for (x, pixel) in line.chunks_exact_mut(kind.len()).enumerate() {
                let place = self.plane.place(x, y);
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
        });
        Ok(Arc::new(file))
    }

    fn range(&self, offset: u64, len: usize) -> Range<usize> {
        // A picture has a few megabytes at most.
        let start = offset.min(self.len()) as usize;
        start..start.saturating_add(len).min(self.len() as usize)
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        self.cache.forget(self.id);
    }
}

impl Content for Picture {
    fn len(&self) -> u64 {
        let (width, height) = self.plane.size();
        png::len(width, height, self.pixel())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let range = self.range(offset, buf.len());
        if range.is_empty() {
            return Ok(0);
        }
        let bytes = self.bytes()?;
        let part = bytes.get(range).unwrap_or_default();
        buf[..part.len()].copy_from_slice(part);
        Ok(part.len())
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        std::slice::from_ref(&self.plane.content)
    }

    fn share(&self, offset: u64, len: usize, at_any_cost: bool) -> Option<SharedBytes> {
        let range = self.range(offset, len);
        let bytes =
            if at_any_cost && !range.is_empty() { self.bytes().ok()? } else { self.cache.get(self.id, 0)? };
        Some(SharedBytes::new(bytes, range, self.cache.clone()))
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn soundness(&self) -> Soundness {
        match self.made.get() {
            None => Soundness::Unknown,
            Some(Ok(())) => Soundness::Sound,
            Some(Err(_)) => Soundness::Broken(0),
        }
    }

    fn damage(&self) -> Option<Error> {
        self.made.get().and_then(|made| made.as_ref().err().cloned())
    }
}
