//! Streams in which decoding can start at many places.
//!
//! A seek table says where. It reaches as far as anyone has decoded, its frontier; behind it a reader's
//! way begins at the nearest place before what he wants, beyond it at the frontier, which he extends:
//!
//! | part | what it is |
//! |---|---|
//! | [`SeekTable`] | the places of one stream; the codec's own ([`zlib`](super::zlib), [`bzip2`](super::bzip2), [`zstd`](super::zstd)), or cuts between [`parts`](super::parts) |
//! | [`SegmentReader`] | a way through the stream from a place on, stretch by stretch, several of them in work |
//! | [`SeekableDecoder`] | the bytes of such a way, for [`Decoded`](crate::decode::Decoded) |
//! | [`Seekable`] | the stream |
//! | [`index`] | a table as it is kept between two mounts |
//!
//! The decoders behind a table are our own. Where they find a stream broken, or meet what they don't
//! handle, the library is asked ([`Sequential`]) before a reader gets an error: it decodes from the start
//! of the stream, and what it says counts.
//!
//! A table that was kept by an earlier mount is complete. What is decoded with it is checked against it
//! before it is given ([`trust`]). Where that fails, the stream is decoded from its start to its end as if
//! there had been no table: if it is sound, the table lied, and is forgotten; if it is not, it has changed,
//! and the bytes for which the table no longer vouches can't be had.

pub(super) mod index;
pub(super) mod spans;
pub(super) mod trust;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::decode::{Decoder, Sequential, UNIT, WHOLE};
use crate::error::{Error, Result};
use trust::IndexTrust;

/// Units that a reader takes in a row before he is decoded ahead for.
const IN_A_ROW: u64 = 2;

/// The places of a stream where decoding can start.
pub(super) trait SeekTable: Send + Sync + fmt::Debug + 'static {
    /// Finds places up to `wanted` that can be found without decoding.
    fn look_ahead(&self, wanted: u64) {
        let _ = wanted;
    }

    /// Bytes of memory that a way through it takes up, beside what is decoded ahead.
    ///
    /// Unless a codec says otherwise, those of a stretch of zlib with its symbols and its bytes.
    fn weight(&self) -> u64 {
        8 << 20
    }

    /// The decoded offset of the last place at or before `wanted`.
    fn nearest(&self, wanted: u64) -> u64;

    /// A way from the last place at or before `from` on, and the decoded offset of that place.
    fn walk(self: Arc<Self>, from: u64) -> Result<(u64, Box<dyn SegmentReader>)>;

    /// The same from the start, without the table that was kept.
    fn pass(self: Arc<Self>) -> Result<Box<dyn SegmentReader>> {
        Ok(self.walk(0)?.1)
    }

    /// What was found where the table is kept, if it is of a kind that is.
    fn found(&self) -> Option<&dyn IndexTrust> {
        None
    }
}

/// A way through a stream.
pub(super) trait SegmentReader: Send {
    /// Puts the next stretch into `out`, which may hold anything, and says where in it the stretch
    /// begins; it ends with `out`. `None` is the end of the stream, all of it in order.
    ///
    /// An error comes after all bytes that are before the damage.
    fn next(&mut self, out: &mut Vec<u8>) -> Result<Option<usize>>;

    /// Takes back the buffer of the last stretch, at the end of the way.
    fn done(&mut self, out: Vec<u8>) {
        drop(out);
    }

    /// Writes the next bytes straight to `out`, where that spares copying a stretch of them, and says how
    /// many; 0 is the end of the stream. `None`: the next stretch is to be asked for.
    fn read(&mut self, out: &mut [u8]) -> Option<Result<usize>> {
        let _ = out;
        None
    }

    /// Says that all bytes up to this decoded offset are going to be asked for, on the way to the last ones.
    fn wanted(&mut self, until: u64);

    /// Bytes of memory that it takes up, roughly.
    fn weight(&self) -> u64;

    /// Whether it goes by a table that was kept, so that an error may be the table's fault.
    fn is_of_kept_table(&self) -> bool {
        false
    }

    /// The compressed bit that it has come to, or where it met an error.
    fn bit(&self) -> Option<u64> {
        None
    }
}

/// A stream with a table, and with the library's decoder for a second opinion.
#[derive(Debug)]
pub(super) struct Seekable<T> {
    table: Arc<T>,
    library: Arc<dyn Sequential>,
    verdict: Arc<Mutex<Option<Verdict>>>,
}

/// What the library said where ours stopped, so that it is not asked again: it begins at the start.
#[derive(Clone, Debug)]
struct Verdict {
    /// The decoded offset where both stopped.
    at: u64,
    error: Error,
    /// See [`Decoder::suspect`].
    suspect: Option<u64>,
}

impl<T: SeekTable> Seekable<T> {
    pub(super) fn new(table: T, library: impl Sequential + 'static) -> Self {
        Self { table: Arc::new(table), library: Arc::new(library), verdict: Arc::default() }
    }
}

impl<T: SeekTable> Sequential for Seekable<T> {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        self.start_at(0)
    }

    fn look_ahead(&self, wanted: u64) {
        self.table.look_ahead(wanted);
    }

    fn weight(&self) -> u64 {
        self.table.weight()
    }

    fn nearest(&self, wanted: u64) -> u64 {
        self.table.nearest(wanted)
    }

    fn start_at(&self, at: u64) -> Result<Box<dyn Decoder>> {
        let (place, segments) = self.table.clone().walk(at)?;
        Ok(Box::new(SeekableDecoder {
            table: self.table.clone(),
            library: self.library.clone(),
            verdict: self.verdict.clone(),
            stopped: None,
            backend: Backend::Ours(segments),
            ready: Vec::new(),
            given: 0,
            at: place,
            from: at,
        }))
    }

    fn costs_a_pass(&self) -> bool {
        self.table.found().is_some_and(|found| !found.is_there())
    }
}

/// The bytes of a way.
struct SeekableDecoder {
    table: Arc<dyn SeekTable>,
    library: Arc<dyn Sequential>,
    verdict: Arc<Mutex<Option<Verdict>>>,
    backend: Backend,
    ready: Vec<u8>,
    /// How much of `ready` was given, or passed.
    given: usize,
    /// The decoded offset of the next byte.
    at: u64,
    /// Bytes before this offset are passed.
    from: u64,
    /// Where ours stopped: the compressed bit, and the decoded offset.
    stopped: Option<(u64, u64)>,
}

enum Backend {
    Ours(Box<dyn SegmentReader>),
    Ended,
    /// Ours found something wrong: the library's, once it stands at the same place.
    Library(Box<dyn Decoder>),
    /// It said so before.
    Judged(Verdict),
}

impl SeekableDecoder {
    /// After what was decoded with a kept table was wrong: goes on without it if it lied.
    fn judge_table(&mut self, error: &Error) -> Result<()> {
        let Some(found) = self.table.found() else { return Err(error.clone()) };
        found.judge(&mut || {
            tracing::warn!("a block is decoded to its end, for {error}");
            let mut pass = self.table.clone().pass()?;
            pass.wanted(u64::MAX);
            let (mut bytes, mut at) = (Vec::new(), 0);
            // What has changed may have no end.
            while at <= found.data_size() {
                match pass.next(&mut bytes) {
                    Ok(Some(start)) => at += (bytes.len() - start) as u64,
                    Ok(None) if at == found.data_size() => return Ok(()),
                    Ok(None) => break,
                    Err(error) => return Err(placed(error, pass.bit(), at)),
                }
            }
            Err(placed(Error::damaged("the stream has another length than it had"), pass.bit(), at))
        })?;
        self.from = self.from.max(self.at);
        let (place, segments) = self.table.clone().walk(self.from)?;
        (self.at, self.given) = (place, 0);
        self.ready = Vec::new();
        self.backend = Backend::Ours(segments);
        Ok(())
    }

    /// Remembers what the library said, where ours stopped as well.
    fn judged(&self, error: Error, suspect: Option<u64>) -> Error {
        *locked(&self.verdict) = Some(Verdict { at: self.at, error: error.clone(), suspect });
        error
    }

    /// Begins anew with the library, up to where ours stopped.
    fn ask_library(&mut self) -> Result<()> {
        self.ready = Vec::new();
        self.given = 0;
        let mut decoder = self.library.start()?;
        let mut passed = vec![0; UNIT as usize];
        let mut left = self.at;
        while left > 0 {
            let room = passed.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = decoder.read(&mut passed[..room]);
            match read.map_err(|error| placed(error, None, self.at - left))? {
                0 => return Err(Error::damaged("the stream is broken")),
                read => left = left.saturating_sub(read as u64),
            }
        }
        self.backend = Backend::Library(decoder);
        Ok(())
    }
}

/// How a way goes on.
enum Next {
    /// With what begins there in the room for segments.
    Segment(usize),
    /// With so many bytes that were written to the reader's.
    Written(usize),
    End,
}

/// Goes on: straight to `out`, if what comes next is not to be passed.
fn next(segments: &mut dyn SegmentReader, ready: &mut Vec<u8>, out: &mut [u8], pass: bool) -> Result<Next> {
    if !pass && let Some(written) = segments.read(out) {
        return written.map(|written| if written == 0 { Next::End } else { Next::Written(written) });
    }
    Ok(segments.next(ready)?.map_or(Next::End, Next::Segment))
}

fn locked(verdict: &Mutex<Option<Verdict>>) -> MutexGuard<'_, Option<Verdict>> {
    verdict.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says of an error in a stream where it is, if it doesn't itself.
fn placed(error: Error, bit: Option<u64>, at: u64) -> Error {
    match bit {
        _ if !error.lasts() || error.message().contains("decoded offset ") => error,
        Some(bit) => error.within(format!("compressed bit {bit}, decoded offset {at}")),
        None => error.within(format!("decoded offset {at}")),
    }
}

impl Decoder for SeekableDecoder {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            let there = self.ready.get(self.given..).unwrap_or_default();
            let pass = usize::try_from(self.from.saturating_sub(self.at)).unwrap_or(usize::MAX);
            if pass > 0 && !there.is_empty() {
                let passed = pass.min(there.len());
                self.given += passed;
                self.at += passed as u64;
                continue;
            }
            if !there.is_empty() {
                let read = there.len().min(out.len());
                out[..read].copy_from_slice(&there[..read]);
                self.given += read;
                self.at += read as u64;
                return Ok(read);
            }
            match &mut self.backend {
                Backend::Ours(segments) => match next(&mut **segments, &mut self.ready, out, pass > 0) {
                    Ok(Next::Segment(start)) => self.given = start,
                    Ok(Next::Written(written)) => {
                        self.given = self.ready.len();
                        let written = written.min(out.len());
                        self.at += written as u64;
                        return Ok(written);
                    }
                    Ok(Next::End) => {
                        self.ready = Vec::new();
                        self.given = 0;
                        self.backend = Backend::Ended;
                    }
                    Err(error) if error.lasts() && segments.is_of_kept_table() => {
                        self.judge_table(&error)?;
                    }
                    Err(error) if error.lasts() => {
                        self.stopped = segments.bit().map(|bit| (bit, self.at));
                        let verdict = locked(&self.verdict).clone();
                        if let Some(verdict) = verdict.filter(|verdict| verdict.at == self.at) {
                            self.backend = Backend::Judged(verdict);
                            continue;
                        }
                        tracing::debug!("asking the library about a stream: {error}");
                        if let Err(theirs) = self.ask_library() {
                            // It gives up before ours did, and where ours did nothing more can be had.
                            let (bit, at) = (self.stopped.map(|(bit, _)| bit), self.at);
                            return Err(match theirs.lasts() {
                                true => self.judged(placed(error, bit, at), None),
                                false => theirs,
                            });
                        }
                    }
                    Err(error) => return Err(error),
                },
                Backend::Ended => return Ok(0),
                Backend::Judged(verdict) => return Err(verdict.error.clone()),
                Backend::Library(decoder) => {
                    let read = match decoder.read(out) {
                        Ok(read) => read.min(out.len()),
                        Err(error) => {
                            // The bit is ours, and right if the library stops at the same byte.
                            let bit = self.stopped.filter(|(_, at)| *at == self.at).map(|(bit, _)| bit);
                            let (suspect, lasts) = (decoder.suspect(), error.lasts());
                            let error = placed(error, bit, self.at);
                            let same = bit.is_some() && lasts;
                            return Err(if same { self.judged(error, suspect) } else { error });
                        }
                    };
                    self.at += read as u64;
                    let passed = usize::try_from(self.from.saturating_sub(self.at - read as u64));
                    match passed.unwrap_or(usize::MAX) {
                        0 => return Ok(read),
                        passed if passed < read => {
                            out.copy_within(passed..read, 0);
                            return Ok(read - passed);
                        }
                        _ if read == 0 => return Ok(0),
                        _ => {}
                    }
                }
            }
        }
    }

    fn suspect(&self) -> Option<u64> {
        match &self.backend {
            Backend::Library(decoder) => decoder.suspect(),
            Backend::Judged(verdict) => verdict.suspect,
            _ => None,
        }
    }

    fn wanted(&mut self, until: u64) {
        if let Backend::Ours(segments) = &mut self.backend {
            segments.wanted(until);
        }
    }

    fn weight(&self) -> u64 {
        let backend = match &self.backend {
            Backend::Ours(segments) => segments.weight(),
            Backend::Ended | Backend::Judged(_) => 0,
            Backend::Library(decoder) => decoder.weight(),
        };
        backend.saturating_add(self.ready.capacity() as u64)
    }

    fn is_soon_there(&self) -> bool {
        let nearest = self.table.nearest(self.at);
        matches!(self.backend, Backend::Ours(_)) && self.at.saturating_sub(nearest) <= WHOLE
    }
}

impl Drop for SeekableDecoder {
    fn drop(&mut self) {
        if let Backend::Ours(segments) = &mut self.backend {
            segments.done(std::mem::take(&mut self.ready));
        }
    }
}

/// How many segments are in work ahead of a reader: more the longer he reads on.
#[derive(Debug, Default)]
pub(super) struct Depth {
    /// Bytes that he took in a row.
    taken: u64,
    /// What comes before is only on the way to what he wants.
    until: u64,
}

impl Depth {
    /// He took so many bytes more, and stands at a decoded offset now.
    pub(super) fn took(&mut self, bytes: usize, at: u64) {
        self.taken = self.taken.saturating_add((bytes as u64).min(at.saturating_sub(self.until)));
    }

    /// All up to there will be taken, on the way to what is wanted.
    pub(super) fn wanted(&mut self, until: u64) {
        self.until = self.until.max(until);
    }

    /// How many may be in work while the reader stands at `at`, on so many threads.
    pub(super) fn get(&self, at: u64, threads: usize) -> usize {
        let most = if threads < 2 { 0 } else { threads + 1 };
        if self.until.saturating_sub(at) > 8 * UNIT {
            return most;
        }
        match (self.taken / UNIT).checked_sub(IN_A_ROW) {
            None => 0,
            Some(more) => most.min(1_usize << more.min(8)),
        }
    }
}

#[cfg(test)]
mod tests;
