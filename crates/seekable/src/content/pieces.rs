//! Several contents joined into one: for example, a generated header and stored data.

use std::ops::Range;
use std::sync::Arc;

use super::{Content, SharedBytes, Soundness, Stored, fill};
use crate::error::{Error, Result};

/// Contents joined into one.
///
/// A read within one piece is as fast as a read of that piece alone: stored bytes are lent, and decoded bytes
/// are shared. Only a read that spans pieces is copied.
#[derive(Debug)]
pub struct Pieces {
    pieces: Vec<Piece>,
    len: u64,
}

#[derive(Debug)]
struct Piece {
    content: Arc<dyn Content>,
    /// The end of the piece in the whole.
    end: u64,
}

impl Pieces {
    /// Joins `contents`.
    ///
    /// # Errors
    /// Together they are longer than any file can be.
    pub fn new(contents: impl IntoIterator<Item = Arc<dyn Content>>) -> Result<Self> {
        let mut pieces = Vec::new();
        let mut len = 0_u64;
        for content in contents {
            let end = len.checked_add(content.len()).filter(|end| *end <= i64::MAX as u64);
            len = end.ok_or_else(|| Error::damaged("the data are longer than any file can be"))?;
            pieces.push(Piece { content, end: len });
        }
        Ok(Self { pieces, len })
    }

    /// Returns the piece that holds byte `offset`, and the offset in that piece. At the end of the whole,
    /// returns the last piece.
    fn at(&self, offset: u64) -> Option<(&Piece, u64)> {
        let index = self.pieces.partition_point(|piece| piece.end <= offset);
        let piece = self.pieces.get(index).or_else(|| self.pieces.last().filter(|_| offset == self.len))?;
        Some((piece, offset - piece.start()))
    }
}

impl Piece {
    fn start(&self) -> u64 {
        self.end - self.content.len().min(self.end)
    }
}

impl Content for Pieces {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        fill(buf, |done, room| {
            let Some((piece, within)) = self.at(offset.saturating_add(done as u64)) else { return Ok(0) };
            // At the end of the whole, the read goes on to the last piece: its stream may have an error at
            // the end.
            let wanted = match piece.content.len() - within {
                0 => room.len(),
                rest => rest.min(room.len() as u64) as usize,
            };
            Ok(piece.content.read_at(within, &mut room[..wanted])?.min(wanted))
        })
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        self.pieces.iter().flat_map(|piece| piece.content.ranges()).collect()
    }

    fn stored_at(&self, offset: u64) -> Option<Stored<'_>> {
        let (piece, within) = self.at(offset)?;
        piece.content.stored_at(within)
    }

    fn share(&self, offset: u64, len: usize, at_any_cost: bool) -> Option<SharedBytes> {
        let (piece, within) = self.at(offset)?;
        let wanted = (len as u64).min(self.len - offset);
        let is_whole = piece.content.len() - within >= wanted;
        if is_whole { piece.content.share(within, wanted as usize, at_any_cost) } else { None }
    }

    fn is_slow(&self) -> bool {
        self.pieces.iter().any(|piece| piece.content.is_slow())
    }

    fn soundness(&self) -> Soundness {
        let mut found = Soundness::Sound;
        for piece in &self.pieces {
            match piece.content.soundness() {
                Soundness::Sound => {}
                Soundness::Unknown => found = Soundness::Unknown,
                Soundness::Broken(at) => return Soundness::Broken(piece.start().saturating_add(at)),
            }
        }
        found
    }

    fn costs_a_pass(&self) -> bool {
        self.pieces.iter().any(|piece| piece.content.costs_a_pass())
    }

    fn damage(&self) -> Option<Error> {
        self.pieces.iter().find_map(|piece| piece.content.damage())
    }

    fn inherit(&self, from: u64, damage: &Error) {
        if let Some((piece, within)) = self.at(from) {
            piece.content.inherit(within, damage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Slice, Text};
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
