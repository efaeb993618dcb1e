//! Sequential access to the chunks of a file.

use seekable::codec::blosc::DecodedRun;
use seekable::error::Result;

use super::chain::LocatedChunk;
use super::map::ChunkMap;
use super::reader::Reader;

/// A reader of consecutive chunks.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    map: &'a ChunkMap,
    pub(crate) reader: Reader<'a>,
    before: Option<(u64, LocatedChunk)>,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor before the first chunk.
    pub(crate) fn new(map: &'a ChunkMap) -> Self {
        Self { map, reader: Reader::new(map.places()), before: None }
    }

    /// Returns chunk `n`. The chunk after the one returned last is found without a lookup, unless its
    /// offset differs from the end of that one.
    pub(crate) fn chunk(&mut self, n: u64) -> Result<LocatedChunk> {
        let found = match self.next(n)? {
            Some(found) => found,
            None => self.map.chunk(n)?,
        };
        self.before = Some((n, found));
        Ok(found)
    }

    fn next(&mut self, n: u64) -> Result<Option<LocatedChunk>> {
        let places = self.map.places();
        if !places.has(n) {
            return Ok(None);
        }
        if places.variable {
            return self.reader.item(n).map(Some);
        }
        let follows = self.before.as_ref().filter(|(before, _)| before + 1 == n);
        let Some(at) = follows.map(|(_, before)| places.end_of(before)) else { return Ok(None) };
        let agrees = !self.map.follows_offsets()?
            || self.reader.offset(n)?.is_some_and(|offset| u64::try_from(offset) == Ok(at));
        match self.reader.header(at) {
            Ok(found) if agrees => Ok(Some(found)),
            Err(error) if !error.lasts() => Err(error),
            _ => Ok(None),
        }
    }

    /// Returns the chunk of a run that contains decoded byte `offset`.
    pub(crate) fn place_in(&mut self, run: DecodedRun, offset: u64) -> Result<Option<DecodedRun>> {
        let mut start = run.start;
        for n in run.n..run.n + run.count {
            let len = u64::from(self.chunk(n)?.header.nbytes());
            if offset.checked_sub(start).is_some_and(|within| within < len) {
                return Ok(Some(DecodedRun { n, count: 1, start, len }));
            }
            start += len;
        }
        Ok(None)
    }
}
