//! Reads all bytes of a content.

use super::{Content, next_data, read_exact_at};
use crate::error::{Error, Result};
use crate::workers::caller;

/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// Reads a content to its end; returns damage that left all its bytes readable. `take` gets the bytes, each piece with
/// its offset, but not the zeros of a hole. `count` gets the numbers of bytes read.
pub fn read_through(
    content: &dyn Content,
    count: &dyn Fn(u64),
    take: &mut dyn FnMut(u64, &[u8]),
) -> Result<Option<Error>> {
    if content.is_empty() {
        // The header may be wrong, which only a read finds out.
        content.read_at(0, &mut [0])?;
    }
    let mut piece = vec![0; usize::try_from(content.len()).map_or(PIECE, |len| len.min(PIECE))];
    let mut at = 0;
    while at < content.len() {
        caller::look()?;
        // One byte shows that a hole can be read, so the others are passed over.
        let hole = next_data(content, at).map_or(0, |data| data.start - at);
        let passed = hole.saturating_sub(1);
        at += passed;
        count(passed);
        let read = content.read_at(at, &mut piece)?;
        if read == 0 {
            return Err(Error::damaged(format!("the data end after {at} of {} bytes", content.len())));
        }
        take(at, &piece[..read]);
        at += read as u64;
        count(read as u64);
    }
    Ok(content.damage())
}

/// Passes all bytes of a content to `take`, in order.
///
/// # Errors
/// The content can't be read, or `take` fails.
pub fn each_piece(content: &dyn Content, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut piece = vec![0; usize::try_from(content.len()).map_or(PIECE, |len| len.min(PIECE))];
    let mut at = 0;
    while at < content.len() {
        let len = (content.len() - at).min(PIECE as u64) as usize;
        read_exact_at(content, at, &mut piece[..len])?;
        take(&piece[..len])?;
        at += len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::content::Slice;
    use crate::source::{Source, SourceStat, SourceVersion};

    const HOLE: Range<u64> = 1 << 20..200 << 30;

    /// A source with a hole, of which only the last byte may be read.
    #[derive(Debug)]
    struct Sparse;

    impl Source for Sparse {
        fn path(&self) -> &Path {
            Path::new("sparse")
        }

        fn stat(&self) -> Result<SourceStat> {
            Ok(SourceStat { size: HOLE.end + 1, mtime: (0, 0), version: SourceVersion::of_tag("sparse") })
        }

        fn next_data(&self, offset: u64) -> Option<Range<u64>> {
            Some(if offset < HOLE.start { offset..HOLE.start } else { offset.max(HOLE.end)..HOLE.end + 1 })
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
            let end = HOLE.end + 1;
            assert!(offset < HOLE.start || offset + 1 >= HOLE.end, "{offset}");
            let read = (end - offset).min(buf.len() as u64);
            Ok(if offset < HOLE.start { read.min(HOLE.start - offset) } else { read } as usize)
        }
    }

    #[test]
    fn holes_are_not_read() {
        let content = Slice::new(Arc::new(Sparse), 1000, HOLE.end - 999);
        assert!(read_through(&content, &|_| {}, &mut |_, _| {}).unwrap().is_none());
    }
}
