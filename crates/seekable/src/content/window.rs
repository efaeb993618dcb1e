//! A range of another content.

use std::sync::Arc;

use super::{Content, SharedBytes, Soundness, Stored, on_server};
use crate::error::{Error, Result};

/// `len` bytes of a content from `start` on. Decoded bytes are shared with that content.
#[derive(Debug)]
pub struct ContentWindow {
    whole: Arc<dyn Content>,
    start: u64,
    len: u64,
}

impl ContentWindow {
    /// Selects `len` bytes from `start` on, cut at the end of `whole`.
    pub fn new(whole: Arc<dyn Content>, start: u64, len: u64) -> Self {
        let len = len.min(whole.len().saturating_sub(start));
        Self { whole, start, len }
    }

    /// Returns how many of the `wanted` bytes at `offset` exist.
    fn there(&self, offset: u64, wanted: usize) -> usize {
        usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX).min(wanted)
    }
}

impl Content for ContentWindow {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self.there(offset, buf.len()) {
            0 => Ok(0),
            there => {
                let buf = &mut buf[..there];
                // A server reads ahead to the end of these bytes, not of all.
                if let Some((source, start)) = on_server(self) {
                    let extent = start..start.saturating_add(self.len);
                    let read = source.read_within(extent, start.saturating_add(offset), buf)?;
                    if read > 0 {
                        return Ok(read);
                    }
                }
                self.whole.read_at(self.start + offset, buf)
            }
        }
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        std::slice::from_ref(&self.whole)
    }

    fn stored(&self) -> Option<(&Arc<dyn crate::source::Source>, u64)> {
        let (source, start) = self.whole.stored()?;
        Some((source, start.checked_add(self.start)?))
    }

    fn stored_at(&self, offset: u64) -> Option<Stored<'_>> {
        let stored = self.whole.stored_at(self.start.checked_add(offset)?)?;
        let len = stored.len.min(self.len.checked_sub(offset).filter(|len| *len > 0)?);
        Some(Stored { len, ..stored })
    }

    fn share(&self, offset: u64, len: usize, at_any_cost: bool) -> Option<SharedBytes> {
        match self.there(offset, len) {
            0 => None,
            there => self.whole.share(self.start + offset, there, at_any_cost),
        }
    }

    fn soundness(&self) -> Soundness {
        match self.whole.soundness() {
            Soundness::Broken(from) if from >= self.start + self.len => Soundness::Sound,
            Soundness::Broken(from) => Soundness::Broken(from.saturating_sub(self.start)),
            known => known,
        }
    }

    fn damage(&self) -> Option<Error> {
        self.whole.damage().filter(|_| matches!(self.soundness(), Soundness::Broken(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Text;

    #[test]
    fn a_window_shows_its_bytes_and_no_others() {
        let whole = Arc::new(Text::new((0..100).collect::<Vec<u8>>()));
        let window = ContentWindow::new(whole.clone(), 10, 20);
        let mut buf = [0; 50];
        assert_eq!(window.read_at(0, &mut buf).unwrap(), 20);
        assert_eq!(buf[..20], (10..30).collect::<Vec<u8>>());
        assert_eq!(window.read_at(15, &mut buf).unwrap(), 5);
        assert_eq!(window.read_at(20, &mut buf).unwrap(), 0);
        assert_eq!(window.read_at(u64::MAX, &mut buf).unwrap(), 0);
        assert_eq!(ContentWindow::new(whole.clone(), 90, 20).len(), 10);
        assert_eq!(ContentWindow::new(whole, 200, 20).len(), 0);
    }
}
