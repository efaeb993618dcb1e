//! Where the chunks lie.
//!
//! A chunk follows the one before it, after that one's checksum: this chain is what Bloscpack itself reads, so it is
//! right. The offsets are a way to find a chunk without the chain. They are believed where the chunk, the one before
//! it and the offset behind it fit together, and all of them increase; else the chain is walked from the start. Behind
//! a chunk whose header is damaged the chain goes on at the next offset, if there are offsets.
//!
//! Items of the variable-length proposal have only their offsets. An item that was not finished has the offset −1.
//!
//! Marks are kept of the chain: of each chunk, or of every second, fourth … where there are very many, so that the
//! memory is bounded whatever a file says.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::chain::{Chain, Found, Hop, Mark};
use super::header::{Header, Kind};
use crate::codec::blosc;
use crate::error::{self, Error, Result};
use crate::source::{Source, read_up_to};

/// Offsets looked through in one go.
const PIECE: u64 = 8 << 10;

/// What walking the chain to its end found.
#[derive(Clone, Debug)]
pub struct Scan {
    /// How many chunks there are.
    pub chunks: u64,
    /// Decoded bytes in all, as far as they are known without a gap.
    pub decoded: u64,
    /// Where the chain ends, if all of it could be walked.
    pub end: Option<u64>,
    /// What keeps the rest from being counted.
    pub stopped: Option<Error>,
}

/// The chunks of a file.
#[derive(Debug)]
pub struct ChunkMap {
    source: Arc<dyn Source>,
    /// Of the file.
    size: u64,
    data: u64,
    /// Bytes of the checksum behind a chunk.
    sum: u64,
    chunks: Option<u64>,
    offsets: Option<u64>,
    variable: bool,
    /// Whether the offsets increase; `false` once they were found wrong.
    trusted: OnceLock<bool>,
    distrusted: OnceLock<()>,
    chain: Mutex<Chain>,
    scan: OnceLock<Scan>,
    last: Mutex<Option<(u64, Found)>>,
}

impl ChunkMap {
    /// The chunks of a file with this header.
    pub fn new(source: Arc<dyn Source>, size: u64, header: &Header) -> Self {
        Self {
            source,
            size,
            data: header.data,
            sum: header.checksum.size(),
            chunks: header.chunks,
            offsets: header.offsets,
            variable: header.kind == Kind::Variable,
            trusted: OnceLock::new(),
            distrusted: OnceLock::new(),
            chain: Mutex::new(Chain::new(header.data)),
            scan: OnceLock::new(),
            last: Mutex::default(),
        }
    }

    /// How many chunks there are. Where the header does not say so, they are counted.
    pub fn count(&self) -> Result<u64> {
        match self.chunks {
            Some(chunks) => Ok(chunks),
            None => Ok(self.scan()?.chunks),
        }
    }

    /// Chunk `n`.
    pub fn chunk(&self, n: u64) -> Result<Found> {
        if self.chunks.is_some_and(|chunks| n >= chunks) {
            return Err(Error::new(error::Kind::NotFound, format!("there is no chunk {n}")));
        }
        if let Some((_, found)) = self.last().filter(|(last, _)| *last == n) {
            return Ok(found);
        }
        let found = match self.offsets {
            Some(_) if self.variable => self.item(n)?,
            Some(offsets) if self.trusts_offsets()? => match self.by_offset(offsets, n)? {
                Some(found) => found,
                None => {
                    let _ = self.distrusted.set(());
                    self.by_chain(n)?
                }
            },
            _ => self.by_chain(n)?,
        };
        *self.last_slot() = Some((n, found));
        Ok(found)
    }

    /// The first chunk, if there is one that is in order.
    pub fn first(&self) -> Result<Option<Found>> {
        lasting(self.header(self.data))
    }

    /// The last chunk, if an offset leads to one that fits the one before it.
    pub fn last_by_offset(&self) -> Result<Option<Found>> {
        match (self.offsets, self.chunks.and_then(|chunks| chunks.checked_sub(1))) {
            (Some(offsets), Some(last)) => self.by_offset(offsets, last),
            _ => Ok(None),
        }
    }

    /// The chunk that the chain has as number `n`, whatever the offsets say.
    pub fn by_chain(&self, n: u64) -> Result<Found> {
        let mut chain = self.chain();
        let mut mark = chain.before(n);
        loop {
            let hop = self.hop(mark)?;
            chain.passed(mark, &hop);
            if mark.n == n {
                return hop.found;
            }
            mark = match (hop.next, hop.found) {
                (Some(next), _) => next,
                (None, Err(error)) => {
                    return Err(error.within(format_args!("the chain of chunks breaks at chunk {}", mark.n)));
                }
                (None, Ok(_)) => {
                    return Err(Error::new(error::Kind::NotFound, format!("there is no chunk {n}")));
                }
            };
        }
    }

    /// The chunk that holds decoded byte `offset`, where its bytes begin, and how many there are. `None` past the end.
    pub fn at_decoded(&self, offset: u64) -> Result<Option<(u64, u64, u64)>> {
        let mut chain = self.chain();
        let mut mark = chain.before_decoded(offset);
        loop {
            if self.chunks.is_some_and(|chunks| mark.n >= chunks) {
                return Ok(None);
            }
            let hop = self.hop(mark)?;
            chain.passed(mark, &hop);
            let len = match &hop.found {
                Ok(found) => u64::from(found.header.nbytes()),
                Err(_) if self.is_at_end(mark) => return Ok(None),
                Err(error) => return Err(error.clone().in_block(mark.n)),
            };
            if offset.checked_sub(mark.decoded).is_some_and(|within| within < len) {
                return Ok(Some((mark.n, mark.decoded, len)));
            }
            match hop.next {
                Some(next) => mark = next,
                None => return Ok(None),
            }
        }
    }

    /// Where the decoded bytes of chunk `n` begin, if all chunks before it are in order.
    pub fn decoded_start(&self, n: u64) -> Result<u64> {
        let mut chain = self.chain();
        let mut mark = chain.before(n);
        while mark.n < n {
            let hop = self.hop(mark)?;
            chain.passed(mark, &hop);
            hop.found?;
            match hop.next {
                Some(next) => mark = next,
                None => return Err(Error::new(error::Kind::NotFound, format!("there is no chunk {n}"))),
            }
        }
        match mark.gap {
            false => Ok(mark.decoded),
            true => Err(Error::damaged("a chunk before it is damaged, so its place in the data is unknown")),
        }
    }

    /// Walks all chunks, once.
    pub fn scan(&self) -> Result<&Scan> {
        if let Some(scan) = self.scan.get() {
            return Ok(scan);
        }
        let mut chain = self.chain();
        let mut mark = chain.frontier();
        let (mut stopped, mut decoded) = (None, mark.decoded);
        loop {
            if self.chunks.is_some_and(|chunks| mark.n >= chunks) || self.is_at_end(mark) {
                break;
            }
            let hop = self.hop(mark)?;
            chain.passed(mark, &hop);
            if !mark.gap {
                decoded = mark.decoded;
            }
            if let Err(error) = hop.found {
                stopped.get_or_insert_with(|| error.in_block(mark.n));
            } else if !mark.gap
                && let Some(next) = hop.next
            {
                decoded = next.decoded;
            }
            match hop.next {
                Some(next) => mark = next,
                None => break,
            }
        }
        let end = mark.at.filter(|_| self.chunks.is_none_or(|chunks| mark.n == chunks));
        let scan = Scan { chunks: self.chunks.unwrap_or(mark.n), decoded, end, stopped };
        Ok(self.scan.get_or_init(|| scan))
    }

    /// Hands each chunk of the chain to `take`, from the first on.
    pub fn each(&self, mut take: impl FnMut(u64, &Result<Found>) -> Result<()>) -> Result<()> {
        let mut next = Some(self.chain().before(0));
        while let Some(mark) = next.filter(|mark| self.chunks.is_none_or(|chunks| mark.n < chunks)) {
            let hop = self.hop(mark)?;
            take(mark.n, &hop.found)?;
            next = hop.next;
        }
        Ok(())
    }

    /// Whether a chunk is looked for by walking the chain.
    pub fn walks(&self) -> bool {
        !self.variable && (self.offsets.is_none() || self.is_distrusted())
    }

    /// Whether the chain was walked to its end.
    pub fn is_walked(&self) -> bool {
        // Another thread that walks it has the lock.
        let at_end = |chain: MutexGuard<'_, Chain>| self.chunks.is_some_and(|all| chain.frontier().n >= all);
        self.scan.get().is_some() || self.chain.try_lock().is_ok_and(at_end)
    }

    /// Whether something was found that contradicts the offsets.
    pub fn is_distrusted(&self) -> bool {
        self.distrusted.get().is_some() || self.trusted.get() == Some(&false)
    }

    /// The offset of chunk `n`, if there are offsets.
    pub fn offset(&self, n: u64) -> Result<Option<i64>> {
        let Some(at) = self.offsets else { return Ok(None) };
        let at = n.checked_mul(8).and_then(|skip| at.checked_add(skip));
        let mut bytes = [0; 8];
        match at {
            Some(at) if read_up_to(&*self.source, at, &mut bytes)? == 8 => {
                Ok(Some(i64::from_le_bytes(bytes)))
            }
            _ => Err(Error::damaged("the offsets are cut off")),
        }
    }

    /// What follows the mark in the chain.
    fn hop(&self, mark: Mark) -> Result<Hop> {
        let found = match mark.at {
            _ if self.variable => self.item(mark.n),
            Some(at) => self.header(at),
            None => {
                Err(Error::damaged("its place is unknown: the chunk before it is damaged").at(mark.known))
            }
        };
        let next = match &found {
            Ok(found) => Some(self.behind(mark, found)),
            Err(error) if !error.lasts() => return Err(error.clone()),
            Err(_) => self.beyond(mark)?,
        };
        let next = next.filter(|next| self.chunks.is_none_or(|chunks| next.n <= chunks));
        Ok(Hop { found, next })
    }

    fn behind(&self, mark: Mark, found: &Found) -> Mark {
        let end = self.end_of(found);
        Mark {
            n: mark.n + 1,
            at: Some(end),
            known: end,
            decoded: mark.decoded.saturating_add(found.header.nbytes().into()),
            gap: mark.gap,
        }
    }

    /// The mark after a chunk that is damaged, if the offsets know it.
    fn beyond(&self, mark: Mark) -> Result<Option<Mark>> {
        let n = mark.n + 1;
        if self.offsets.is_none() || self.chunks.is_none_or(|chunks| n > chunks) {
            return Ok(None);
        }
        let at = match self.chunks == Some(n) {
            true => None,
            false => self.offset(n)?.and_then(|at| u64::try_from(at).ok()),
        };
        let at = at.filter(|at| *at >= mark.known);
        let known = at.filter(|at| *at < self.size).unwrap_or(mark.known);
        Ok(Some(Mark { n, at, known, decoded: mark.decoded, gap: true }))
    }

    /// Whether the chain ends at the end of the file, where the number of chunks is unknown.
    fn is_at_end(&self, mark: Mark) -> bool {
        self.chunks.is_none() && mark.at.is_some_and(|at| at >= self.size)
    }

    /// An item of variable length.
    fn item(&self, n: u64) -> Result<Found> {
        match self.offset(n)? {
            Some(-1) => Err(Error::damaged("was not finished: its offset is -1")),
            Some(at) => match u64::try_from(at) {
                Ok(at) if at >= self.data => self.header(at),
                _ => Err(Error::damaged(format!("has the offset {at}, where no item can be"))),
            },
            None => Err(Error::damaged("has no offset")),
        }
    }

    /// Chunk `n` where its offset says, if the chunks around it agree.
    fn by_offset(&self, offsets: u64, n: u64) -> Result<Option<Found>> {
        let around = [n.checked_sub(1), Some(n), n.checked_add(1).filter(|next| Some(*next) < self.chunks)];
        let first = around[0].unwrap_or(n);
        let mut bytes = [0; 24];
        let from = offsets.saturating_add(first.saturating_mul(8));
        if read_up_to(&*self.source, from, &mut bytes)? < 8 {
            return Ok(None);
        }
        let read =
            |n: u64| bytes.as_chunks::<8>().0.get((n - first) as usize).map(|&at| u64::from_le_bytes(at));
        let [before, at, behind] = around.map(|n| n.and_then(read));
        let Some(at) = at else { return Ok(None) };
        let Some(found) = lasting(self.header(at))? else { return Ok(None) };
        let fits_behind = behind.is_none_or(|behind| behind == self.end_of(&found));
        let fits_before = match before {
            None => at == self.data,
            Some(before) => match self.last().filter(|(last, _)| *last == first) {
                Some((_, before)) => self.end_of(&before) == at,
                None => lasting(self.header(before))?.is_some_and(|before| self.end_of(&before) == at),
            },
        };
        Ok(Some(found).filter(|_| fits_before && fits_behind))
    }

    /// Whether the offsets begin where they should, and increase.
    fn trusts_offsets(&self) -> Result<bool> {
        if self.distrusted.get().is_some() {
            return Ok(false);
        }
        if let Some(trusted) = self.trusted.get() {
            return Ok(*trusted);
        }
        let trusted = self.increase()?;
        Ok(*self.trusted.get_or_init(|| trusted))
    }

    fn increase(&self) -> Result<bool> {
        let (Some(offsets), Some(chunks)) = (self.offsets, self.chunks) else { return Ok(false) };
        let mut piece = vec![0; chunks.min(PIECE) as usize * 8];
        let (mut n, mut least) = (0, self.data);
        while n < chunks {
            let wanted = (chunks - n).min(PIECE) as usize * 8;
            if read_up_to(&*self.source, offsets + n * 8, &mut piece[..wanted])? < wanted {
                return Ok(false);
            }
            for &offset in piece[..wanted].as_chunks::<8>().0 {
                let at = u64::from_le_bytes(offset);
                if at < least || at >= self.size || (n == 0 && at != self.data) {
                    return Ok(false);
                }
                least = at.saturating_add(u64::from(blosc::HEADER_SIZE) + self.sum);
                n += 1;
            }
        }
        Ok(true)
    }

    /// The chunk that begins at `at`.
    fn header(&self, at: u64) -> Result<Found> {
        let mut bytes = [0; blosc::HEADER_SIZE as usize];
        let read = if at < self.size { read_up_to(&*self.source, at, &mut bytes)? } else { 0 };
        if read < bytes.len() {
            return Err(Error::damaged("its header is cut off: the file ends before it").at(at));
        }
        let header = blosc::Header::parse(&bytes).map_err(|error| error.at(at))?;
        let found = Found { at, header };
        if self.end_of(&found) > self.size {
            return Err(Error::damaged(format!(
                "its {} bytes reach past the end of the file: the file is cut off, or the chunk's header is wrong",
                header.cbytes()
            ))
            .at(at));
        }
        Ok(found)
    }

    /// Where the chunk ends, its checksum included.
    fn end_of(&self, found: &Found) -> u64 {
        found.at.saturating_add(u64::from(found.header.cbytes()) + self.sum)
    }

    fn chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_slot(&self) -> MutexGuard<'_, Option<(u64, Found)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> Option<(u64, Found)> {
        *self.last_slot()
    }
}

/// `None` instead of an error that lasts.
fn lasting<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.lasts() => Ok(None),
        Err(error) => Err(error),
    }
}
