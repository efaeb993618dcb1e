//! What was decoded of a long stream, put aside in a file.
//!
//! A stream that can be decoded from its start only, and holds more than the cache may, would be decoded
//! again and again by who reads here and there. It is decoded once instead, as far as anyone reads, into
//! a file that has no name; behind that frontier everything is read from there. Where the file may
//! grow no more, decoding goes on without it; and where the stream has a place to start at beyond the
//! frontier, it begins there.
//!
//! Who reads it from its start on, as most do, and never comes back needs none of that, and writing the
//! file would cost him a tenth of his time. So nothing is put aside before someone wants a place that the
//! first decoder has not come to in order.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::cache::{Cache, Reservation, unnamed};
use crate::decode::{Decoder, Sequential, UNIT};
use crate::error::{Error, Result};

/// Bytes between two looks at how much room there is.
const LOOK: u64 = 64 << 20;

/// Bytes that stay free where the file lies, or the part of all of it, whichever is more.
const FLOOR: u64 = 1 << 30;
const FLOOR_PART: u64 = 20;

/// A stream whose decoded bytes are put aside once they are wanted out of order.
pub(super) struct Spilled(Arc<Aside>);

struct Aside {
    stream: Arc<dyn Sequential>,
    cache: Arc<Cache>,
    folder: PathBuf,
    /// There was a first decoder.
    begun: AtomicBool,
    /// Where it is put, or nothing if there can't be a file.
    spill: OnceLock<Option<Arc<Spill>>>,
}

/// What is put aside.
struct Spill {
    stream: Arc<dyn Sequential>,
    cache: Arc<Cache>,
    file: File,
    /// Bytes that the file may hold.
    limit: u64,
    /// Bytes that it holds.
    frontier: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// It stands at the frontier.
    decoder: Option<(Box<dyn Decoder>, Reservation)>,
    /// The file grows no more.
    full: bool,
    looked_at: Option<u64>,
}

impl Spilled {
    /// The stream, with a file in `folder` that may take half of what is free there.
    pub(super) fn new(stream: Arc<dyn Sequential>, folder: &Path, cache: &Arc<Cache>) -> Self {
        let (cache, folder) = (cache.clone(), folder.to_owned());
        let (begun, spill) = (AtomicBool::new(false), OnceLock::new());
        Self(Arc::new(Aside { stream, cache, folder, begun, spill }))
    }
}

impl Aside {
    /// Begins to put the stream aside, unless that was done before; nothing if it can't be.
    fn spill(&self) -> Option<&Arc<Spill>> {
        let make = || match Spill::new(&self.stream, &self.folder, &self.cache) {
            Ok(spill) => Some(Arc::new(spill)),
            Err(error) => {
                let folder = self.folder.display();
                tracing::warn!("{folder}: a large block can't be put aside here: {error}");
                None
            }
        };
        self.spill.get_or_init(make).as_ref()
    }

    /// A decoder at `at` of what is put aside, or else of the stream.
    fn start_at(&self, at: u64) -> Result<Box<dyn Decoder>> {
        match self.spill() {
            Some(spill) => Ok(Box::new(Cursor { spill: spill.clone(), at, own: None, suspect: None })),
            None => self.stream.start_at(at),
        }
    }
}

/// Bytes that may be written where a file lies.
fn free(file: &File) -> Result<u64> {
    let space = rustix::fs::fstatvfs(file)?;
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    let floor = (bytes(space.f_blocks) / FLOOR_PART).max(FLOOR);
    Ok(bytes(space.f_bavail).saturating_sub(floor))
}

impl Spill {
    fn new(stream: &Arc<dyn Sequential>, folder: &Path, cache: &Arc<Cache>) -> Result<Self> {
        let file = unnamed(folder)?;
        let limit = free(&file)? / 2;
        let (stream, cache) = (stream.clone(), cache.clone());
        Ok(Self { stream, cache, file, limit, frontier: AtomicU64::new(0), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn frontier(&self) -> u64 {
        self.frontier.load(Ordering::Acquire)
    }

    /// A decoder that stands at the frontier.
    fn decoder(&self) -> Result<(Box<dyn Decoder>, Reservation)> {
        let no_room = || Error::new(crate::Kind::System(libc::ENOMEM), "no room for a decoder");
        let reservation = self.cache.reserve(self.stream.weight()).ok_or_else(no_room)?;
        let mut decoder = self.stream.start()?;
        pass(&mut *decoder, self.frontier())?;
        Ok((decoder, reservation))
    }

    /// Decodes on from the frontier, where `at` is, into `out` and the file.
    ///
    /// `None`: that is not where the frontier is any more; or the file grows no more, and the decoder
    /// that stands there is the reader's own from now on, if there is one.
    fn extend(&self, at: u64, out: &mut [u8], own: &mut Option<Box<dyn Decoder>>) -> Result<Option<usize>> {
        let mut state = self.state();
        if self.frontier() != at {
            return Ok(None);
        }
        if !state.full && state.looked_at.is_none_or(|looked| at.saturating_sub(looked) >= LOOK) {
            state.looked_at = Some(at);
            state.full = free(&self.file).is_ok_and(|free| free < LOOK);
        }
        if state.full || at.saturating_add(out.len() as u64) > self.limit {
            state.full = true;
            *own = state.decoder.take().map(|(decoder, _)| decoder);
            return Ok(None);
        }
        if state.decoder.is_none() {
            match self.decoder() {
                Ok(decoder) => state.decoder = Some(decoder),
                Err(error) if error.lasts() => return Err(error),
                Err(_) => {
                    state.full = true;
                    return Ok(None);
                }
            }
        }
        let Some((decoder, _)) = &mut state.decoder else { return Ok(None) };
        let read = match decoder.read(out) {
            Ok(read) => read.min(out.len()),
            Err(error) => {
                if !error.lasts() {
                    // Where it stands now nobody knows.
                    state.decoder = None;
                }
                return Err(error);
            }
        };
        if let Err(error) = self.file.write_all_at(&out[..read], at) {
            tracing::debug!("a decoded block can't be put aside any further: {error}");
            state.full = true;
            *own = state.decoder.take().map(|(decoder, _)| decoder);
            return Ok(Some(read));
        }
        self.frontier.store(at.saturating_add(read as u64), Ordering::Release);
        Ok(Some(read))
    }
}

/// Goes on so many bytes.
fn pass(decoder: &mut dyn Decoder, bytes: u64) -> Result<()> {
    let mut passed = vec![0; UNIT as usize];
    let mut left = bytes;
    while left > 0 {
        let room = passed.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match decoder.read(&mut passed[..room])? {
            0 => return Err(Error::damaged("the stream is not as long as it was")),
            read => left = left.saturating_sub(read as u64),
        }
    }
    Ok(())
}

impl Sequential for Spilled {
    fn start(&self) -> Result<Box<dyn Decoder>> {
        self.start_at(0)
    }

    fn weight(&self) -> u64 {
        self.0.stream.weight()
    }

    fn nearest(&self, wanted: u64) -> u64 {
        let Some(Some(spill)) = self.0.spill.get() else { return self.0.stream.nearest(wanted) };
        let frontier = spill.frontier();
        if wanted > frontier { spill.stream.nearest(wanted).max(frontier) } else { wanted }
    }

    fn start_at(&self, at: u64) -> Result<Box<dyn Decoder>> {
        if at == 0 && !self.0.begun.swap(true, Ordering::Relaxed) {
            return Ok(Box::new(First { aside: self.0.clone(), decoder: None }));
        }
        self.0.start_at(at)
    }

    fn costs_a_pass(&self) -> bool {
        self.0.stream.costs_a_pass()
    }
}

impl fmt::Debug for Spilled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frontier = self.0.spill.get().map(|spill| spill.as_ref().map(|spill| spill.frontier()));
        out.debug_struct("Spilled")
            .field("stream", &self.0.stream)
            .field("frontier", &frontier.flatten())
            .finish()
    }
}

/// The first reader's decoder: of the stream if he reads on from its start, of what is put aside if his first
/// read is somewhere else.
struct First {
    aside: Arc<Aside>,
    decoder: Option<Box<dyn Decoder>>,
}

impl Decoder for First {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None => self.decoder.insert(self.aside.stream.start()?),
        };
        decoder.read(out)
    }

    fn suspect(&self) -> Option<u64> {
        self.decoder.as_ref().and_then(|decoder| decoder.suspect())
    }

    fn wanted(&mut self, until: u64) {
        if self.decoder.is_none() {
            // What fails here fails again when it is read, and is told then.
            self.decoder = self.aside.start_at(0).ok();
        }
        if let Some(decoder) = &mut self.decoder {
            decoder.wanted(until);
        }
    }

    fn weight(&self) -> u64 {
        self.decoder.as_ref().map_or(256, |decoder| decoder.weight())
    }
}

/// A reader's place.
struct Cursor {
    spill: Arc<Spill>,
    at: u64,
    /// Beyond what was put aside.
    own: Option<Box<dyn Decoder>>,
    suspect: Option<u64>,
}

impl Cursor {
    fn next(&mut self, out: &mut [u8]) -> Result<usize> {
        loop {
            if let Some(own) = &mut self.own {
                return own.read(out);
            }
            let there = self.spill.frontier().saturating_sub(self.at);
            if there > 0 {
                let read = out.len().min(usize::try_from(there).unwrap_or(usize::MAX));
                self.spill.file.read_exact_at(&mut out[..read], self.at)?;
                return Ok(read);
            }
            let frontier = self.spill.frontier();
            if frontier < self.at && self.spill.stream.nearest(self.at) > frontier {
                // From a place of the stream's own table it is nearer.
                self.own = Some(self.spill.stream.start_at(self.at)?);
                continue;
            }
            // Beyond the frontier the decoder comes to it by and by.
            if frontier < self.at && !self.spill.state().full {
                let mut passed = vec![0; UNIT as usize];
                let room = passed.len().min(usize::try_from(self.at - frontier).unwrap_or(usize::MAX));
                let mut own = None;
                if self.spill.extend(frontier, &mut passed[..room], &mut own)? == Some(0) {
                    return Ok(0);
                }
                continue;
            }
            if let Some(read) = self.spill.extend(self.at, out, &mut self.own)? {
                return Ok(read);
            }
            if self.own.is_none() && self.spill.state().full && self.spill.frontier() <= self.at {
                self.own = Some(self.spill.stream.start_at(self.at)?);
            }
        }
    }
}

impl Decoder for Cursor {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let read = self.next(out).inspect_err(|error| {
            if error.lasts() {
                let shared =
                    || self.spill.state().decoder.as_ref().and_then(|(decoder, _)| decoder.suspect());
                self.suspect = self.own.as_ref().map_or_else(shared, |own| own.suspect());
            }
        })?;
        self.at = self.at.saturating_add(read as u64);
        Ok(read)
    }

    fn suspect(&self) -> Option<u64> {
        self.suspect
    }

    fn wanted(&mut self, until: u64) {
        if let Some(own) = &mut self.own {
            own.wanted(until);
        }
    }

    fn weight(&self) -> u64 {
        self.own.as_ref().map_or(256, |own| own.weight())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    use crate::content::{Content, Soundness};
    use crate::decode::Decoded;

    /// A stream whose byte at `n` is a function of `n`; it counts how often it was begun.
    #[derive(Debug)]
    struct Stream(u64, Arc<AtomicUsize>);

    struct Standing(u64, u64);

    fn byte(at: u64) -> u8 {
        (at ^ (at >> 7) ^ (at >> 15)) as u8
    }

    impl Sequential for Stream {
        fn start(&self) -> Result<Box<dyn Decoder>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Standing(0, self.0)))
        }

        fn start_at(&self, at: u64) -> Result<Box<dyn Decoder>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Standing(at, self.0)))
        }
    }

    impl Decoder for Standing {
        fn read(&mut self, out: &mut [u8]) -> Result<usize> {
            let count = out.len().min(70_000).min((self.1 - self.0) as usize);
            (self.0..).zip(&mut out[..count]).for_each(|(at, out)| *out = byte(at));
            self.0 += count as u64;
            Ok(count)
        }
    }

    fn check(content: &Decoded, at: u64, count: usize) {
        let mut buf = vec![0; count];
        let read = content.read_at(at, &mut buf).unwrap();
        assert_eq!(read as u64, (content.len() - at).min(count as u64));
        assert!((at..).zip(&buf[..read]).all(|(at, got)| *got == byte(at)), "{count} bytes at {at}");
    }

    /// A stream of `len` bytes whose file may hold `limit`, what it is put aside in, and how often it was begun.
    fn spilled(len: u64, limit: u64) -> (Decoded, Arc<Aside>, Arc<AtomicUsize>) {
        let starts = Arc::new(AtomicUsize::new(0));
        let cache = Arc::new(Cache::with_threads(8 << 20, 2));
        let stream: Arc<dyn Sequential> = Arc::new(Stream(len, starts.clone()));
        let folder = std::env::temp_dir();
        let spilled = Spilled::new(stream.clone(), &folder, &cache);
        if limit < u64::MAX {
            let spill = Spill { limit, ..Spill::new(&stream, &folder, &cache).unwrap() };
            assert!(spilled.0.spill.set(Some(Arc::new(spill))).is_ok());
        }
        let aside = spilled.0.clone();
        (Decoded::stream(spilled, len, &cache), aside, starts)
    }

    #[test]
    fn who_reads_it_from_its_start_has_nothing_put_aside_until_he_comes_back() {
        let len = 80 * UNIT + 77;
        let (content, aside, starts) = spilled(len, u64::MAX);
        (0..len).step_by(100_000).for_each(|at| check(&content, at, 100_000));
        assert!(aside.spill.get().is_none() && starts.load(Ordering::Relaxed) == 1);
        for at in [40 * UNIT, 5, 79 * UNIT, 3 * UNIT, 60 * UNIT, 20 * UNIT, 70 * UNIT] {
            check(&content, at, 100_000);
        }
        let spill = aside.spill.get().unwrap().as_ref().unwrap();
        assert!(spill.frontier() >= 60 * UNIT);
        assert_eq!(starts.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn who_begins_elsewhere_has_what_is_before_that_put_aside() {
        let len = 80 * UNIT + 77;
        let (content, aside, starts) = spilled(len, u64::MAX);
        for at in (0..len).rev().step_by(3_000_017) {
            check(&content, at, 100_000);
        }
        assert_eq!(aside.spill.get().unwrap().as_ref().unwrap().frontier(), len);
        assert_eq!(starts.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_stream_is_decoded_twice_at_most_whoever_reads_where() {
        let len = 20 * UNIT + 77;
        let (content, _, starts) = spilled(len, u64::MAX);
        let content = &content;
        std::thread::scope(|scope| {
            for reader in 0..6_u64 {
                scope.spawn(move || {
                    for step in 0..40 {
                        let at = (step * 7919 * UNIT / 100 + reader * 3 * UNIT) % len;
                        check(content, at, 100_000);
                    }
                });
            }
        });
        (0..len).step_by(100_000).for_each(|at| check(content, at, 100_000));
        assert_eq!(content.soundness(), Soundness::Sound);
        assert!(starts.load(Ordering::Relaxed) <= 2);
    }

    #[test]
    fn beyond_what_the_file_may_hold_it_goes_on_without() {
        let len = 20 * UNIT + 77;
        let (content, aside, starts) = spilled(len, 7 * UNIT + 5);
        aside.begun.store(true, Ordering::Relaxed);
        (0..len).step_by(100_000).for_each(|at| check(&content, at, 100_000));
        assert_eq!(starts.load(Ordering::Relaxed), 1);
        for at in [0, 19 * UNIT, 6 * UNIT, 12 * UNIT, 7 * UNIT] {
            check(&content, at, 300_000);
        }
    }

    /// A stream that can be entered at every hundredth unit.
    #[derive(Debug)]
    struct Placed(Stream);

    impl Sequential for Placed {
        fn start(&self) -> Result<Box<dyn Decoder>> {
            self.0.start()
        }

        fn nearest(&self, wanted: u64) -> u64 {
            wanted / (100 * UNIT) * (100 * UNIT)
        }

        fn start_at(&self, at: u64) -> Result<Box<dyn Decoder>> {
            self.0.start_at(at)
        }
    }

    #[test]
    fn beyond_the_frontier_it_begins_at_a_place_of_the_stream_if_there_is_one() {
        let (len, starts) = (1000 * UNIT + 77, Arc::new(AtomicUsize::new(0)));
        let cache = Arc::new(Cache::with_threads(8 << 20, 2));
        let stream = Arc::new(Placed(Stream(len, starts.clone())));
        let spilled = Spilled::new(stream, &std::env::temp_dir(), &cache);
        let aside = spilled.0.clone();
        let content = Decoded::stream(spilled, len, &cache);
        let frontier = || aside.spill.get().unwrap().as_ref().unwrap().frontier();
        check(&content, 50 * UNIT, 1000);
        assert!((51 * UNIT..100 * UNIT).contains(&frontier()), "{}", frontier() / UNIT);
        check(&content, 950 * UNIT, 1000);
        check(&content, 20 * UNIT, 1000);
        assert!((51 * UNIT..100 * UNIT).contains(&frontier()), "{}", frontier() / UNIT);
        assert_eq!(starts.load(Ordering::Relaxed), 2);
    }
}
