//! Streams with a seek table, in which decoding can start at many offsets.
//!
//! A seek table lists checkpoints up to the end of the output decoded so far, its frontier. A read before the
//! frontier starts at the last checkpoint before its offset. A read past it starts at the frontier and
//! extends the table:
//!
//! | part | what it is |
//! |---|---|
//! | [`SeekTable`] | the checkpoints of a stream, by codec ([`zlib`](super::zlib), [`bzip2`](super::bzip2), [`zstd`](super::zstd)), or starts of [`parts`](super::parts) |
//! | [`SegmentReader`] | decodes the stream from a checkpoint on, segment by segment, several of them ahead |
//! | [`SeekableDecoder`] | the bytes of its segments, for [`Decoded`](crate::decode::Decoded) |
//! | [`Seekable`] | the stream |
//! | [`stored_table`] | a table as it is stored between mounts |
//!
//! The decoders behind a table are our own. If they find a stream damaged, or meet an unsupported feature,
//! the library ([`Sequential`]) decodes it from its start before a reader gets an error. The library's
//! verdict counts.
//!
//! A table that an earlier mount stored is complete. Output that was decoded with
//! it is checked against it before a reader gets the output ([`trust`]). If the check fails, the stream is
//! decoded from start to end without the stored table. If the stream is sound, the stored table was wrong and
//! is removed. Otherwise the stream has changed, and bytes that the stored table does not confirm cannot be
//! read.

pub(super) mod spans;
pub(super) mod stored_table;
pub(super) mod trust;

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::decode::{Decoder, GRANULE, Sequential, WHOLE};
use crate::error::{Error, Result};
use crate::sync::locked;
use trust::TableTrust;

/// The checkpoints of a stream.
pub(super) trait SeekTable: Send + Sync + fmt::Debug + 'static {
    /// Finds checkpoints up to `wanted` that can be found without decoding.
    fn find_ahead(&self, wanted: u64) {
        let _ = wanted;
    }

    /// Returns the memory of a [`SegmentReader`] in bytes, not counting the segments that it decodes ahead.
    ///
    /// The default is for a zlib reader, which holds one segment both as symbols and as bytes.
    fn weight(&self) -> u64 {
        8 << 20
    }

    /// Returns the decoded offset of the last checkpoint at or before `wanted`.
    fn nearest(&self, wanted: u64) -> u64;

    /// Returns a reader from the last checkpoint at or before `from` on, and the decoded offset of that
    /// checkpoint.
    fn read_from(self: Arc<Self>, from: u64) -> Result<(u64, Box<dyn SegmentReader>)>;

    /// Returns a reader from the start that ignores the stored table.
    fn read_without_stored_table(self: Arc<Self>) -> Result<Box<dyn SegmentReader>> {
        Ok(self.read_from(0)?.1)
    }

    /// Returns the stored table, if the codec has one.
    fn stored_table(&self) -> Option<&dyn TableTrust> {
        None
    }
}

/// A decoder that returns the output of a stream in segments. A segment is the output of one decoding step.
pub(super) trait SegmentReader: Send {
    /// Puts the next segment into `out`, whose old contents do not matter, and returns the segment's start in
    /// `out`; the segment ends at the end of `out`. `None` is the end of a sound stream.
    ///
    /// An error comes after all bytes before the damage.
    fn next(&mut self, out: &mut Vec<u8>) -> Result<Option<usize>>;

    /// Takes back the buffer of the last segment before the reader is dropped.
    fn done(&mut self, out: Vec<u8>) {
        drop(out);
    }

    /// Writes the next bytes directly to `out` if this saves a copy, and returns their number; 0 is the end
    /// of the stream. After `None` the caller asks for the next segment instead.
    fn read(&mut self, out: &mut [u8]) -> Option<Result<usize>> {
        let _ = out;
        None
    }

    /// Announces that all bytes up to this decoded offset will be read, and all but the last ones skipped.
    fn wanted(&mut self, until: u64);

    /// Returns the approximate memory of the reader in bytes.
    fn weight(&self) -> u64;

    /// True if the reader uses the stored table, so that an error may be the table's fault.
    fn uses_stored_table(&self) -> bool {
        false
    }

    /// Returns the position of the reader, or of its error, in bits of the compressed stream.
    fn bit(&self) -> Option<u64> {
        None
    }
}

/// A stream with a seek table, and the library's decoder, which gives the verdict if ours finds damage.
#[derive(Debug)]
pub(super) struct Seekable<T> {
    table: Arc<T>,
    library: Arc<dyn Sequential>,
    verdict: Arc<Mutex<Option<Verdict>>>,
}

/// The library's verdict where our decoder stopped. It is kept because the library starts from the beginning
/// each time.
#[derive(Clone, Debug)]
struct Verdict {
    /// The decoded offset at which both decoders stopped.
    at: u64,
    error: Error,
    /// The decoded offset of the first byte that a checksum error puts in doubt ([`Decoder::suspect`]).
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

    fn find_ahead(&self, wanted: u64) {
        self.table.find_ahead(wanted);
    }

    fn weight(&self) -> u64 {
        self.table.weight()
    }

    fn nearest(&self, wanted: u64) -> u64 {
        self.table.nearest(wanted)
    }

    fn start_at(&self, at: u64) -> Result<Box<dyn Decoder>> {
        let (start, segments) = self.table.clone().read_from(at)?;
        Ok(Box::new(SeekableDecoder {
            table: self.table.clone(),
            library: self.library.clone(),
            verdict: self.verdict.clone(),
            stopped: None,
            backend: Backend::Ours(segments),
            ready: Vec::new(),
            consumed: 0,
            at: start,
            from: at,
        }))
    }

    fn costs_a_pass(&self) -> bool {
        self.table.stored_table().is_some_and(|table| !table.is_there())
    }
}

/// A decoder for the bytes of a stream from some offset on.
struct SeekableDecoder {
    table: Arc<dyn SeekTable>,
    library: Arc<dyn Sequential>,
    verdict: Arc<Mutex<Option<Verdict>>>,
    backend: Backend,
    ready: Vec<u8>,
    /// Number of bytes in `ready` that were returned or skipped.
    consumed: usize,
    /// The decoded offset of the next byte.
    at: u64,
    /// Bytes before this offset are skipped.
    from: u64,
    /// Compressed bit and decoded offset at which our decoder stopped.
    stopped: Option<(u64, u64)>,
}

enum Backend {
    Ours(Box<dyn SegmentReader>),
    Ended,
    /// The library's decoder, at the offset where our decoder found damage.
    Library(Box<dyn Decoder>),
    /// The earlier verdict of the library.
    Judged(Verdict),
}

impl SeekableDecoder {
    /// Handles output that contradicts the stored table: continues without the table if the table was wrong.
    fn judge_stored_table(&mut self, error: &Error) -> Result<()> {
        let Some(table) = self.table.stored_table() else { return Err(error.clone()) };
        table.judge(&mut || {
            tracing::warn!("decoding a block to its end, because {error}");
            let mut pass = self.table.clone().read_without_stored_table()?;
            pass.wanted(u64::MAX);
            let mut bytes = Vec::new();
            let mut at = 0;
            // A changed stream may have no end.
            while at <= table.data_size() {
                match pass.next(&mut bytes) {
                    Ok(Some(start)) => at += (bytes.len() - start) as u64,
                    Ok(None) if at == table.data_size() => return Ok(()),
                    Ok(None) => break,
                    Err(error) => return Err(placed(error, pass.bit(), at)),
                }
            }
            Err(placed(Error::damaged("the stream has changed: its decoded size differs"), pass.bit(), at))
        })?;
        self.from = self.from.max(self.at);
        let (start, segments) = self.table.clone().read_from(self.from)?;
        (self.at, self.consumed) = (start, 0);
        self.ready = Vec::new();
        self.backend = Backend::Ours(segments);
        Ok(())
    }

    /// Keeps `error` as the library's verdict at the current offset, and returns it.
    fn judged(&self, error: Error, suspect: Option<u64>) -> Error {
        *locked(&*self.verdict) = Some(Verdict { at: self.at, error: error.clone(), suspect });
        error
    }

    /// Starts the library at the beginning of the stream, and skips to the offset at which our decoder
    /// stopped.
    fn ask_library(&mut self) -> Result<()> {
        self.ready = Vec::new();
        self.consumed = 0;
        let mut decoder = self.library.start()?;
        let mut passed = vec![0; GRANULE as usize];
        let mut to_skip = self.at;
        while to_skip > 0 {
            let room = passed.len().min(usize::try_from(to_skip).unwrap_or(usize::MAX));
            let read = decoder.read(&mut passed[..room]);
            match read.map_err(|error| placed(error, None, self.at - to_skip))? {
                0 => return Err(Error::damaged("the stream is broken")),
                read => to_skip = to_skip.saturating_sub(read as u64),
            }
        }
        self.backend = Backend::Library(decoder);
        Ok(())
    }

    /// Handles damage found by our decoder: continues with the library, or with its earlier verdict.
    fn stop(&mut self, bit: Option<u64>, error: Error) -> Result<()> {
        self.stopped = bit.map(|bit| (bit, self.at));
        let verdict = locked(&*self.verdict).clone();
        if let Some(verdict) = verdict.filter(|verdict| verdict.at == self.at) {
            self.backend = Backend::Judged(verdict);
            return Ok(());
        }
        tracing::debug!("asking the library about a stream: {error}");
        match self.ask_library() {
            // The library stops before our decoder did, so nothing more can be decoded.
            Err(theirs) if theirs.lasts() => Err(self.judged(placed(error, bit, self.at), None)),
            outcome => outcome,
        }
    }

    /// Reads from the library; `None` if all bytes read are to be skipped.
    fn read_library(&mut self, out: &mut [u8]) -> Result<Option<usize>> {
        let Backend::Library(decoder) = &mut self.backend else { return Ok(None) };
        let read = match decoder.read(out) {
            Ok(read) => read.min(out.len()),
            Err(error) => {
                // The bit position is that of our decoder. It is right if the library stops at the same byte.
                let bit = self.stopped.filter(|(_, at)| *at == self.at).map(|(bit, _)| bit);
                let suspect = decoder.suspect();
                let lasts = error.lasts();
                let error = placed(error, bit, self.at);
                let same = bit.is_some() && lasts;
                return Err(if same { self.judged(error, suspect) } else { error });
            }
        };
        let skipped = usize::try_from(self.from.saturating_sub(self.at)).unwrap_or(usize::MAX);
        self.at += read as u64;
        match skipped {
            0 => Ok(Some(read)),
            skipped if skipped < read => {
                out.copy_within(skipped..read, 0);
                Ok(Some(read - skipped))
            }
            _ if read == 0 => Ok(Some(0)),
            _ => Ok(None),
        }
    }
}

/// The result of a decoding step.
enum StepResult {
    /// A segment that begins at this index of the segment buffer.
    Segment(usize),
    /// Number of bytes written to the caller's buffer.
    Written(usize),
    End,
}

/// Decodes further bytes: directly to `out`, unless they are to be skipped (`pass`).
fn next(
    segments: &mut dyn SegmentReader,
    ready: &mut Vec<u8>,
    out: &mut [u8],
    pass: bool,
) -> Result<StepResult> {
    if !pass && let Some(written) = segments.read(out) {
        return written
            .map(|written| if written == 0 { StepResult::End } else { StepResult::Written(written) });
    }
    Ok(segments.next(ready)?.map_or(StepResult::End, StepResult::Segment))
}

/// Adds the position in the stream to an error, unless the error has one.
fn placed(error: Error, bit: Option<u64>, at: u64) -> Error {
    match error.stream() {
        None if error.lasts() => error.in_stream(bit, at),
        _ => error,
    }
}

impl Decoder for SeekableDecoder {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            let decoded = self.ready.get(self.consumed..).unwrap_or_default();
            let pass = usize::try_from(self.from.saturating_sub(self.at)).unwrap_or(usize::MAX);
            if pass > 0 && !decoded.is_empty() {
                let passed = pass.min(decoded.len());
                self.consumed += passed;
                self.at += passed as u64;
                continue;
            }
            if !decoded.is_empty() {
                let read = decoded.len().min(out.len());
                out[..read].copy_from_slice(&decoded[..read]);
                self.consumed += read;
                self.at += read as u64;
                return Ok(read);
            }
            match &mut self.backend {
                Backend::Ours(segments) => match next(&mut **segments, &mut self.ready, out, pass > 0) {
                    Ok(StepResult::Segment(start)) => self.consumed = start,
                    Ok(StepResult::Written(written)) => {
                        self.consumed = self.ready.len();
                        let written = written.min(out.len());
                        self.at += written as u64;
                        return Ok(written);
                    }
                    Ok(StepResult::End) => {
                        self.ready = Vec::new();
                        self.consumed = 0;
                        self.backend = Backend::Ended;
                    }
                    Err(error) if error.lasts() && segments.uses_stored_table() => {
                        self.judge_stored_table(&error)?
                    }
                    Err(error) if error.lasts() => {
                        let bit = segments.bit();
                        self.stop(bit, error)?;
                    }
                    Err(error) => return Err(error),
                },
                Backend::Ended => return Ok(0),
                Backend::Judged(verdict) => return Err(verdict.error.clone()),
                Backend::Library(_) => {
                    if let Some(read) = self.read_library(out)? {
                        return Ok(read);
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

    fn is_cheap_to_replace(&self) -> bool {
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

#[cfg(test)]
mod tests;
