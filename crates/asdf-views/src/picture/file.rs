//! The file of a picture. It is made at the first read, and kept in the cache.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use seekable::cache::{Bytes, Cache, ContentId};
use seekable::content::{Content, SharedBytes, Soundness};
use seekable::error::{Error, Result};
use seekable::sync::locked;

use super::{Picture, png};

/// A picture that is drawn when it is needed.
pub(crate) trait Drawing: Send + Sync + fmt::Debug {
    /// Returns width and height in pixels, and the kind of the pixels.
    fn size(&self) -> (u32, u32, png::Pixel);

    /// Returns the memory in bytes that drawing needs besides the picture.
    fn memory(&self) -> u64;

    /// Returns the content that is drawn.
    fn content(&self) -> &Arc<dyn Content>;

    /// Draws the picture.
    fn draw(&self) -> Result<Picture>;
}

/// Locked by the thread that makes a picture.
#[derive(Debug, Default)]
struct Making;

/// A picture as a PNG file.
#[derive(Debug)]
pub(crate) struct PictureFile {
    drawing: Box<dyn Drawing>,
    cache: Arc<Cache>,
    id: ContentId,
    /// Locked while the picture is made, so that only one thread at a time makes it.
    making: Mutex<Making>,
    /// The outcome of making the picture; unset before, and after an error that may be transient.
    made: OnceLock<std::result::Result<(), Error>>,
}

impl PictureFile {
    pub(crate) fn new(drawing: impl Drawing + 'static, cache: &Arc<Cache>) -> Self {
        let id = cache.id();
        Self {
            drawing: Box::new(drawing),
            cache: cache.clone(),
            id,
            making: Mutex::default(),
            made: OnceLock::new(),
        }
    }

    /// Draws the picture, without the file.
    pub(super) fn picture(&self) -> Result<Picture> {
        // Memory for the picture, and as much for its file.
        let _reservation = self.cache.demand(self.drawing.memory() + 2 * self.len());
        let drawn = self.drawing.draw();
        match &drawn {
            Ok(_) => drop(self.made.set(Ok(()))),
            Err(error) if error.lasts() => drop(self.made.set(Err(error.clone()))),
            Err(_) => {}
        }
        drawn
    }

    /// Returns the bytes of the file.
    fn bytes(&self) -> Result<Bytes> {
        if let Some(bytes) = self.cache.get(self.id, 0) {
            return Ok(bytes);
        }
        let _making = locked(&self.making);
        if let Some(bytes) = self.cache.get(self.id, 0) {
            return Ok(bytes);
        }
        let bytes = Arc::new(png::encode(&self.picture()?));
        self.cache.put(self.id, 0, &bytes);
        Ok(bytes)
    }

    fn range(&self, offset: u64, len: usize) -> Range<usize> {
        // A picture has a few megabytes at most.
        let start = offset.min(self.len()) as usize;
        start..start.saturating_add(len).min(self.len() as usize)
    }
}

impl Drop for PictureFile {
    fn drop(&mut self) {
        self.cache.forget(self.id);
    }
}

impl Content for PictureFile {
    fn len(&self) -> u64 {
        let (width, height, pixel) = self.drawing.size();
        png::len(width, height, pixel)
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

    fn written(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        std::slice::from_ref(self.drawing.content())
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
