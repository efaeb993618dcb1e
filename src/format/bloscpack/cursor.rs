//! The chunks of a file, one after the other.

use super::chain::Found;
use super::map::ChunkMap;
use super::reader::Reader;
use crate::codec::blosc::Run;
use crate::error::Result;

/// A reader of chunks that follow each other.
#[derive(Debug)]
pub struct Cursor<'a> {
    map: &'a ChunkMap,
    reader: Reader<'a>,
    before: Option<(u64, Found)>,
}

impl<'a> Cursor<'a> {
    /// A cursor before the first chunk.
    pub fn new(map: &'a ChunkMap) -> Self {
        Self { map, reader: Reader::new(map.places()), before: None }
    }

    /// Chunk `n`. One that follows the chunk that was read last, and has the offset for that, is found at once.
    pub fn chunk(&mut self, n: u64) -> Result<Found> {
        let found = match self.next(n)? {
            Some(found) => found,
            None => self.map.chunk(n)?,
        };
        self.before = Some((n, found));
        Ok(found)
    }

    fn next(&mut self, n: u64) -> Result<Option<Found>> {
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

    /// The stored bytes of a chunk with its checksum, unless they are too many.
    pub fn stored(&mut self, found: &Found) -> Result<Option<&[u8]>> {
        self.reader.stored(found)
    }

    /// The chunk of a run that holds decoded byte `offset`.
    pub fn place_in(&mut self, run: Run, offset: u64) -> Result<Option<Run>> {
        let mut start = run.start;
        for n in run.n..run.n + run.count {
            let len = u64::from(self.chunk(n)?.header.nbytes());
            if offset.checked_sub(start).is_some_and(|within| within < len) {
                return Ok(Some(Run { n, count: 1, start, len }));
            }
            start += len;
        }
        Ok(None)
    }
}
