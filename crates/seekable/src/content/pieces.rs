//! Several contents joined into one: for example, a generated header and stored data.

use std::any::Any;
use std::sync::Arc;

use super::{Content, SharedBytes, Stored, fill};
use crate::error::{Error, Result};

/// Contents joined into one.
///
/// A read within one piece is as fast as a read of that piece alone: stored bytes are lent, and decoded bytes
/// are shared. Only a read that spans pieces is copied.
#[derive(Debug)]
pub struct Pieces {
    contents: Vec<Arc<dyn Content>>,
    /// The end of each content in the whole.
    ends: Vec<u64>,
    len: u64,
    /// The value that the bytes are a file of.
    written: Option<Box<dyn Any + Send + Sync>>,
}

impl Pieces {
    /// Joins `contents`.
    ///
    /// # Errors
    /// Together they are longer than any file can be.
    pub fn new(contents: impl IntoIterator<Item = Arc<dyn Content>>) -> Result<Self> {
        let contents: Vec<Arc<dyn Content>> = contents.into_iter().collect();
        let mut ends = Vec::with_capacity(contents.len());
        let mut len = 0_u64;
        for content in &contents {
            let end = len.checked_add(content.len()).filter(|end| *end <= i64::MAX as u64);
            len = end.ok_or_else(|| Error::damaged("the data are longer than any file can be"))?;
            ends.push(len);
        }
        Ok(Self { contents, ends, len, written: None })
    }

    /// Notes the value that the bytes are a file of, such as an array.
    #[must_use]
    pub fn of_value(self, value: impl Any + Send + Sync) -> Self {
        Self { written: Some(Box::new(value)), ..self }
    }

    /// Returns the content that holds byte `offset`, and the offset in it. At the end of the whole, returns the last
    /// content.
    fn at(&self, offset: u64) -> Option<(&Arc<dyn Content>, u64)> {
        let n = self.ends.partition_point(|end| *end <= offset);
        let n = if offset == self.len { self.contents.len().checked_sub(1)? } else { n };
        Some((self.contents.get(n)?, offset - self.start(n)))
    }

    fn start(&self, n: usize) -> u64 {
        n.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0)
    }
}

impl Content for Pieces {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        fill(buf, |done, room| {
            let Some((content, within)) = self.at(offset.saturating_add(done as u64)) else { return Ok(0) };
            // At the end of the whole, the read goes on to the last piece: its stream may have an error at
            // the end.
            let wanted = match content.len() - within {
                0 => room.len(),
                rest => rest.min(room.len() as u64) as usize,
            };
            Ok(content.read_at(within, &mut room[..wanted])?.min(wanted))
        })
    }

    fn written(&self) -> Option<&dyn Any> {
        Some(&**self.written.as_ref()?)
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        &self.contents
    }

    fn first_broken(&self, n: usize, at: u64) -> u64 {
        self.start(n).saturating_add(at)
    }

    fn stored_at(&self, offset: u64) -> Option<Stored<'_>> {
        let (content, within) = self.at(offset)?;
        content.stored_at(within)
    }

    fn share(&self, offset: u64, len: usize, at_any_cost: bool) -> Option<SharedBytes> {
        let (content, within) = self.at(offset)?;
        let wanted = (len as u64).min(self.len - offset);
        let is_whole = content.len() - within >= wanted;
        if is_whole { content.share(within, wanted as usize, at_any_cost) } else { None }
    }

    fn inherit(&self, from: u64, damage: &Error) {
        if let Some((content, within)) = self.at(from) {
            content.inherit(within, damage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Slice, Soundness, Text};
    use crate::source::{MemorySource, Source};

    fn joined(data: &[u8], offset: u64, len: u64) -> Pieces {
        let source: Arc<dyn Source> = Arc::new(MemorySource(data.to_vec()));
        let stored: Arc<dyn Content> = Arc::new(Slice::new(source, offset, len));
        let text = |text: &[u8]| -> Arc<dyn Content> { Arc::new(Text::new(text)) };
        Pieces::new([text(b"head"), text(b""), stored, text(b"end")]).unwrap()
    }

    #[test]
    fn every_range_reads_as_the_pieces_in_a_row() {
        let pieces = joined(b"..stored bytes..", 2, 12);
        let whole = b"headstored bytesend";
        assert_eq!((pieces.len(), pieces.soundness()), (whole.len() as u64, Soundness::Sound));
        for start in 0..=whole.len() + 2 {
            for wanted in 0..=whole.len() + 2 {
                let mut buf = vec![0; wanted];
                let read = pieces.read_at(start as u64, &mut buf).unwrap();
                let rest = whole.get(start..).unwrap_or_default();
                assert_eq!(&buf[..read], &rest[..rest.len().min(wanted)], "{wanted} at {start}");
            }
        }
    }

    #[test]
    fn stored_bytes_are_found_where_they_lie() {
        let pieces = joined(b"..stored bytes..", 2, 12);
        let place = |offset| pieces.stored_at(offset).map(|stored| (stored.offset, stored.len));
        assert_eq!([place(0), place(3), place(16), place(19), place(99)], [None; 5]);
        assert_eq!((place(4), place(15)), (Some((2, 12)), Some((13, 1))));
        assert!(pieces.stored().is_none());
        assert_eq!(pieces.ranges().first(), Some(&(2..14)));
    }

    #[test]
    fn a_broken_piece_gives_its_good_bytes_and_then_the_error() {
        let pieces = joined(b"..stor", 2, 12);
        let mut buf = [0; 32];
        assert_eq!((pieces.read_at(2, &mut buf).unwrap(), &buf[..6]), (6, &b"adstor"[..]));
        assert!(pieces.read_at(8, &mut buf).is_err());
        assert_eq!(pieces.soundness(), Soundness::Broken(8));
        // The piece after it can be read.
        assert_eq!((pieces.read_at(16, &mut buf).unwrap(), &buf[..3]), (3, &b"end"[..]));
    }

    #[test]
    fn what_no_file_can_hold_is_refused() {
        let source: Arc<dyn Source> = Arc::new(MemorySource(Vec::new()));
        let huge: Arc<dyn Content> = Arc::new(Slice::new(source, 0, i64::MAX as u64));
        let text: Arc<dyn Content> = Arc::new(Text::new(&b"x"[..]));
        assert!(Pieces::new([huge.clone(), text]).is_err());
        assert_eq!(Pieces::new([huge]).unwrap().len(), i64::MAX as u64);
    }
}
