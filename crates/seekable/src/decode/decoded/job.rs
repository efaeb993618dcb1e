//! Decoding jobs: which thread decodes, which readers wait, and which granules are cached.
//!
//! A job is one thread that decodes from the position of a decoder up to the granule that its reader wants. A
//! reader whose granule is in between waits, and gets the granule when the job reaches it, even if the cache has
//! no room. A reader whose granule is slightly beyond the job's target waits for the decoder, since the
//! requests of one reader arrive slightly out of order. Any other reader takes the nearest idle decoder
//! before its granule, or starts a new one.

use std::collections::HashMap;
use std::sync::Arc;

use super::damage::Damage;
use super::range_set::RangeSet;
use super::read_ahead::Sequences;
use super::{Decoded, Encoded, Granule, NEAR, Span};
use crate::cache::Bytes;
use crate::decode::idle::PER_CONTENT;
use crate::decode::{Chunk, Decoder, GRANULE, IdleDecoders};
use crate::error::{Error, Result, errno};
use crate::sync::{Awaited, wait_within};
use crate::workers::caller;

/// Maximum number of bytes from an idle decoder to the checkpoint after it for which the idle decoder is
/// preferred to a new one that starts at the checkpoint.
const LITTLE: u64 = 4 * GRANULE;

/// The state shared by all readers of a content.
#[derive(Default)]
pub(super) struct ReadersState {
    pub(super) jobs: Vec<DecodeJob>,
    last_number: u64,
    /// The awaited granules, by their start.
    wanted: HashMap<u64, AwaitedGranule>,
    pub(super) damage: Damage,
    pub(super) covered: RangeSet,
    pub(super) sequences: Sequences,
    /// The end of the last read of a chunk that may be decoded in part.
    pub(super) read_to: u64,
    /// True if the data end where the header says.
    pub(super) ended: bool,
}

pub(super) struct DecodeJob {
    number: u64,
    span: u64,
    /// Start of the granule that is being decoded.
    at: u64,
    /// End of the granule that the job's reader wants.
    until: u64,
}

#[derive(Default)]
struct AwaitedGranule {
    readers: usize,
    bytes: Option<Bytes>,
}

/// The result of decoding a granule.
enum Outcome {
    /// More of the span follows.
    Good,
    /// The end of the span was reached, at the expected offset.
    Ended,
    /// No byte from this offset on can be decoded.
    Broken(u64, Error),
    /// A system error; a retry may succeed.
    Transient(Error),
}

/// A granule as far as it could be decoded.
struct DecodedGranule {
    at: u64,
    buffer: Vec<u8>,
    outcome: Outcome,
}

enum Route {
    Wait,
    /// Start a job at this offset, with the idle decoder that is there, or else with a new one.
    Go(u64, Option<Box<dyn Decoder>>),
}

impl ReadersState {
    /// Returns the number of waiting readers.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.wanted.values().map(|wanted| wanted.readers).sum()
    }

    fn wait_for(&mut self, start: u64) {
        self.wanted.entry(start).or_default().readers += 1;
    }

    /// Returns a decoded granule that some waiting reader has not taken yet.
    fn handed_over(&self, start: u64) -> Option<Bytes> {
        self.wanted.get(&start)?.bytes.clone()
    }

    /// Ends the wait for a granule; returns it if it was decoded.
    fn waited_for(&mut self, start: u64) -> Option<Bytes> {
        let wanted = self.wanted.get_mut(&start)?;
        wanted.readers = wanted.readers.saturating_sub(1);
        if wanted.readers == 0 { self.wanted.remove(&start)?.bytes } else { wanted.bytes.clone() }
    }
}

impl Decoded {
    /// Decodes a granule that is not in the cache. Returns its bytes, fewer than a full granule if decoding
    /// stopped, and the error if a retry may succeed.
    pub(super) fn obtain(&self, granule: Granule) -> Result<(Bytes, Option<Error>)> {
        if let Encoded::Stream(stream) = &self.encoded {
            // Looking ahead in the stream may wait for a lock.
            let _awaited = Awaited::begin();
            stream.find_ahead(granule.start);
        }
        let mut room = None;
        let mut state = self.state();
        let (at, decoder, _room) = loop {
            // Another thread may have decoded the granule meanwhile.
            if let Some(bytes) =
                state.handed_over(granule.start).or_else(|| self.cache.get(self.id, granule.start))
            {
                return Ok((bytes, None));
            }
            if let Some(error) = state.damage.error_at(granule.start) {
                return Err(error.clone());
            }
            match self.route(&state, granule) {
                Route::Go(at, decoder) => {
                    let weight = self.weight_with(granule, decoder.as_deref());
                    match room.take().or_else(|| self.cache.demand_at_once(weight)) {
                        Some(room) => break (at, decoder, room),
                        None => {
                            // The wait for memory comes before the job: other readers wait for jobs, so a job
                            // must not wait.
                            self.park(granule.span, decoder.map(|decoder| (at, decoder)));
                            drop(state);
                            room = Some(self.cache.demand(weight));
                            state = self.state();
                        }
                    }
                }
                Route::Wait => {
                    room = None;
                    state.wait_for(granule.start);
                    let (now, is_over) = wait_within(&self.job_changed, state, caller::LOOK);
                    state = now;
                    if let Some(bytes) = state.waited_for(granule.start) {
                        return Ok((bytes, None));
                    }
                    if is_over && caller::is_gone() {
                        return Err(errno(libc::EINTR));
                    }
                }
            }
        };
        state.last_number += 1;
        let number = state.last_number;
        state.jobs.push(DecodeJob { number, span: granule.span.start, at, until: self.end_of(granule) });
        drop(state);
        let running = Running { decoded: self, number };
        match granule.span.piece {
            Some(piece) if granule.span.is_whole() => self.run_whole(&running, granule, piece),
            _ => self.run_to(&running, granule, at, decoder),
        }
    }

    /// Returns the memory in bytes that decoding a granule needs; `decoder` is the idle decoder to be used, if
    /// any.
    fn weight_with(&self, granule: Granule, decoder: Option<&dyn Decoder>) -> u64 {
        match (decoder, &self.encoded) {
            // The decoder has its memory already.
            (Some(decoder), Encoded::Pieces(_)) => decoder.weight().saturating_add(GRANULE),
            _ => self.weight(granule),
        }
    }

    /// Keeps a decoder for the next read at its position.
    fn park(&self, span: Span, decoder: Option<(u64, Box<dyn Decoder>)>) {
        if let Some((at, decoder)) = decoder {
            self.cache.idle::<IdleDecoders>().park((self.id, span.start), at, decoder);
        }
    }

    /// Returns the memory in bytes that decoding a granule with a new decoder needs.
    pub(super) fn weight(&self, granule: Granule) -> u64 {
        match (&self.encoded, granule.span.piece) {
            (Encoded::Stream(stream), _) => stream.weight().saturating_add(GRANULE),
            // The stored bytes may be as many as the decoded ones.
            (Encoded::Pieces(_), Some(piece)) if granule.span.is_whole() => 2 * piece.len + GRANULE,
            (Encoded::Pieces(pieces), Some(piece)) => pieces.weight(piece).saturating_add(GRANULE),
            (Encoded::Pieces(_), None) => GRANULE,
        }
    }

    pub(super) fn end_of(&self, granule: Granule) -> u64 {
        if granule.span.is_whole() {
            granule.span.end
        } else {
            granule.start.saturating_add(GRANULE).min(granule.span.end)
        }
    }

    fn route(&self, state: &ReadersState, granule: Granule) -> Route {
        let mut ahead = None;
        for job in state.jobs.iter().filter(|job| job.span == granule.span.start) {
            if job.at <= granule.start && granule.start < job.until {
                return Route::Wait;
            }
            if granule.start.checked_sub(job.until).is_some_and(|gap| gap <= NEAR) {
                ahead = ahead.max(Some(job.at));
            }
        }
        if granule.span.is_whole() {
            return Route::Go(granule.start, None);
        }
        let parked = self.cache.idle::<IdleDecoders>();
        let stream = (self.id, granule.span.start);
        let nearest = parked.nearest(stream, granule.start);
        if ahead.is_some() && ahead >= nearest {
            return Route::Wait;
        }
        let start = self.startable(granule);
        // An idle decoder at most slightly before `start` is preferred: it has work in flight, or needs no
        // window from the seek table.
        if let Some(at) = nearest.filter(|at| at.saturating_add(LITTLE) >= start)
            && let Some(decoder) = parked.take(stream, at)
        {
            return Route::Go(at, Some(decoder));
        }
        if state.jobs.len() >= PER_CONTENT { Route::Wait } else { Route::Go(start, None) }
    }

    /// Returns the start of the last granule, up to this one, at which a new decoder can start.
    fn startable(&self, granule: Granule) -> u64 {
        let nearest = match &self.encoded {
            Encoded::Stream(stream) => stream.nearest(granule.start),
            Encoded::Pieces(_) => return granule.span.start,
        };
        nearest.saturating_add(GRANULE - 1).min(granule.start) / GRANULE * GRANULE
    }

    /// Decodes a chunk as a whole.
    fn run_whole(
        &self,
        running: &Running<'_>,
        granule: Granule,
        piece: Chunk,
    ) -> Result<(Bytes, Option<Error>)> {
        let Encoded::Pieces(pieces) = &self.encoded else {
            return Err(Error::damaged("a stream has no pieces"));
        };
        let mut buffer = self.cache.buffer(usize::try_from(piece.len).unwrap_or_default());
        let decoded = pieces.decode(piece, &mut buffer);
        let right = buffer.len() as u64 == piece.len;
        buffer
            .truncate(usize::try_from(piece.len.min(granule.span.end - granule.start)).unwrap_or(usize::MAX));
        let end = granule.start.saturating_add(buffer.len() as u64);
        let outcome = match decoded {
            Ok(()) if right => self.finish_piece(granule.span),
            Ok(()) => Outcome::Broken(end, Error::damaged("a piece decodes to a wrong number of bytes")),
            Err(error) if error.lasts() => Outcome::Broken(end, error),
            Err(error) => Outcome::Transient(error),
        };
        let last = DecodedGranule { at: granule.start, buffer, outcome };
        let (bytes, transient) = self.finish_job(running, granule, last, None);
        Ok((bytes, transient))
    }

    /// Decodes a stream from `at` up to a granule.
    fn run_to(
        &self,
        running: &Running<'_>,
        granule: Granule,
        mut at: u64,
        decoder: Option<Box<dyn Decoder>>,
    ) -> Result<(Bytes, Option<Error>)> {
        let mut decoder = match decoder.map_or_else(|| self.start(granule.span, at), Ok) {
            Ok(decoder) => decoder,
            Err(error) if error.lasts() => {
                return Err(self.broken_in(granule.span, granule.span.start, error));
            }
            Err(error) => return Err(error),
        };
        if granule.start > at {
            decoder.wanted(granule.start.saturating_add(GRANULE));
        }
        let mut buffer = Vec::new();
        loop {
            if let Err(error) = caller::look() {
                self.park(granule.span, Some((at, decoder)));
                return Err(error);
            }
            let end = at.saturating_add(GRANULE).min(granule.span.end);
            let len = (end - at) as usize;
            if buffer.capacity() < len {
                buffer = self.cache.buffer(len);
            }
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            let (filled, outcome) = self.decode_granule(&mut *decoder, granule.span, at, &mut buffer[..len]);
            buffer.truncate(filled);
            if at == granule.start {
                let on = matches!(outcome, Outcome::Good).then_some((end, decoder));
                return Ok(self.finish_job(running, granule, DecodedGranule { at, buffer, outcome }, on));
            }
            match outcome {
                Outcome::Good => buffer = self.pass(running, granule, at, buffer),
                Outcome::Broken(from, error) => {
                    let outcome = Outcome::Broken(from, error.clone());
                    let _ = self.finish_job(running, granule, DecodedGranule { at, buffer, outcome }, None);
                    return Err(error);
                }
                Outcome::Transient(error) => return Err(error),
                // The span ended before the wanted granule.
                Outcome::Ended => return Err(self.broken_in(granule.span, end, self.too_short(end))),
            }
            at = end;
        }
    }

    fn start(&self, span: Span, at: u64) -> Result<Box<dyn Decoder>> {
        match (&self.encoded, span.piece) {
            (Encoded::Stream(stream), _) => stream.start_at(at),
            (Encoded::Pieces(pieces), Some(piece)) => pieces.start(piece),
            (Encoded::Pieces(_), None) => Err(Error::damaged("there is no such piece")),
        }
    }

    /// Fills `out` with the granule at `at`; returns the number of bytes and the result.
    fn decode_granule(
        &self,
        decoder: &mut dyn Decoder,
        span: Span,
        at: u64,
        out: &mut [u8],
    ) -> (usize, Outcome) {
        let mut filled = 0;
        let outcome = loop {
            let here = at + filled as u64;
            let Some(rest) = out.get_mut(filled..).filter(|rest| !rest.is_empty()) else {
                break if here == span.end { self.finish(decoder, span) } else { Outcome::Good };
            };
            let room = rest.len();
            match decoder.read(rest) {
                Ok(0) => break Outcome::Broken(here, self.stopped(span, here)),
                Ok(read) => filled += read.min(room),
                Err(error) => break place(decoder, error, span, here),
            }
        };
        (filled, outcome)
    }

    /// Checks at the end of a span that the decoder ends there, too, without an error.
    fn finish(&self, decoder: &mut dyn Decoder, span: Span) -> Outcome {
        if span.piece.is_some_and(|piece| piece.len > span.end - span.start) {
            return Outcome::Broken(span.end, self.too_long());
        }
        match decoder.read(&mut [0]) {
            Ok(0) => self.finish_piece(span),
            Ok(_) if span.piece.is_some() => Outcome::Broken(
                span.end,
                Error::damaged("a piece decodes to more bytes than its header says"),
            ),
            Ok(_) => Outcome::Broken(span.end, self.too_long()),
            Err(error) => place(decoder, error, span, span.end),
        }
    }

    /// Checks, if a sound chunk is the last one, that no data follow it.
    fn finish_piece(&self, span: Span) -> Outcome {
        let Encoded::Pieces(pieces) = &self.encoded else { return Outcome::Ended };
        if span.piece.is_some_and(|piece| piece.len > span.end - span.start) {
            return Outcome::Broken(span.end, self.too_long());
        }
        if span.end == self.data_size {
            self.note_end(self.after_last(&**pieces));
        }
        Outcome::Ended
    }

    fn stopped(&self, span: Span, here: u64) -> Error {
        match span.piece {
            None => self.too_short(here),
            Some(piece) => {
                let got = here - span.start;
                let len = piece.len;
                Error::damaged(format!("a piece decodes to {got} bytes, but its header says {len}"))
            }
        }
    }

    /// Completes the last granule of a job that wants `granule`: caches it, passes it to waiting readers, and ends
    /// the job. `on` is the decoder for the next job, with its offset.
    fn finish_job(
        &self,
        running: &Running<'_>,
        granule: Granule,
        last: DecodedGranule,
        on: Option<(u64, Box<dyn Decoder>)>,
    ) -> (Bytes, Option<Error>) {
        let DecodedGranule { at, mut buffer, outcome } = last;
        let mut state = self.state();
        let mut transient = None;
        match outcome {
            Outcome::Good => state.covered.add(at, at.saturating_add(buffer.len() as u64)),
            Outcome::Ended => {
                state.covered.add(at, granule.span.end);
                state.ended |= granule.span.piece.is_none();
            }
            Outcome::Broken(from, error) => {
                self.note(&mut state.damage, granule.span, from, &error);
                buffer.truncate(usize::try_from(from.saturating_sub(at)).unwrap_or(usize::MAX));
            }
            Outcome::Transient(error) => transient = Some(error),
        }
        if buffer.capacity() / 2 > buffer.len() {
            buffer.shrink_to_fit();
        }
        let bytes = Arc::new(buffer);
        if transient.is_none() {
            self.cache.put(self.id, at, &bytes);
            if let Some(wanted) = state.wanted.get_mut(&at) {
                wanted.bytes = Some(bytes.clone());
            }
        }
        // The decoder is kept before the job is removed: a reader that waits for this decoder must find it.
        self.park(granule.span, on);
        state.jobs.retain(|job| job.number != running.number);
        self.job_changed.notify_all();
        (bytes, transient)
    }

    /// Completes the granule at `at`, which is before the wanted `granule`: passes it to waiting readers, and caches
    /// it if it may be wanted soon. Returns a buffer for the next granule.
    fn pass(&self, running: &Running<'_>, granule: Granule, at: u64, buffer: Vec<u8>) -> Vec<u8> {
        let near = granule.start - at <= NEAR;
        let end = at.saturating_add(buffer.len() as u64);
        let mut state = self.state();
        if let Some(job) = state.jobs.iter_mut().find(|job| job.number == running.number) {
            job.at = end;
        }
        state.covered.add(at, end);
        let wanted = state.wanted.get_mut(&at);
        if wanted.is_none() && !near && !self.cache.has_room(buffer.len()) {
            return buffer;
        }
        let bytes = Arc::new(buffer);
        self.cache.put(self.id, at, &bytes);
        if let Some(wanted) = wanted {
            wanted.bytes = Some(bytes);
            self.job_changed.notify_all();
            return Vec::new();
        }
        // If the cache does not hold the buffer, it is reused for the next granule.
        Arc::into_inner(bytes).unwrap_or_default()
    }
}

/// Returns the outcome of an error at decoded offset `here`.
fn place(decoder: &dyn Decoder, error: Error, span: Span, here: u64) -> Outcome {
    if !error.lasts() {
        return Outcome::Transient(error);
    }
    let from = match decoder.suspect() {
        None => here,
        Some(offset) => span.start.saturating_add(offset).min(here),
    };
    Outcome::Broken(from, error)
}

/// A guard that ends a job on all paths, including panics, so that no reader waits for it forever.
struct Running<'a> {
    decoded: &'a Decoded,
    number: u64,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.decoded.state().jobs.retain(|job| job.number != self.number);
        self.decoded.job_changed.notify_all();
    }
}
