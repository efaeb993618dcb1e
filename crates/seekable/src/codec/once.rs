//! A stream decoded once, from its start to its end, into memory: without a seek table, and without a cache of decoded
//! bytes.
//!
//! Only what the usual writers make is decoded: one stream, which ends where its bytes end (zlib may have bytes after it),
//! and decodes to the expected number of bytes. Everything else is an error, even if [`open`](super::open) reads it,
//! because other decoders read less. They get the same bytes after an error.
//!
//! Pieces that stand alone (LZ4, Blosc) are decoded by all threads, each into its place. A stream (zlib, bzip2) is read by the
//! caller's thread, while others decode its next segments. A zstd frame is decoded by one thread, and the caller's copies
//! its output: the first access to a page of `out` takes time.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;

use super::part::ExternalPart;
use super::seek::SegmentReader;
use super::{Codec, blosc, bzip2, check_sizes, is_lz4_frame, lz4, zlib, zstd};
use crate::cache::{Cache, default_budget, has_room};
use crate::content::{Content, read_exact_at};
use crate::decode::{Chunks, Decoder};
use crate::error::{Error, Kind, Result};
use crate::sync::locked;

/// A callback between pieces. Its error ends the decoding.
type GoOn<'g> = &'g mut dyn FnMut() -> Result<()>;

/// Size and number of the buffers between the thread that decodes and the one that copies.
const BUFFER: usize = 256 << 10;
const BUFFERS: usize = 4;

/// Maximum number of LZ4 pieces: their list is kept in memory.
const MAX_PIECES: usize = 1 << 20;

/// Decodes a stream into the whole of `out`, on all cores. `go_on` is called often, on the caller's thread; its error ends the
/// decoding. After an error, the bytes of `out` are undefined.
///
/// ```
/// use std::io::Write;
/// use std::sync::Arc;
///
/// use flate2::{Compression, write::ZlibEncoder};
/// use seekable::codec::{Codec, decode};
/// use seekable::content::Text;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
/// encoder.write_all(b"some bytes")?;
/// let stored = Arc::new(Text::new(encoder.finish()?));
/// let mut out = [0; 10];
/// decode(Codec::Zlib, stored, &mut out, &mut || Ok(()))?;
/// assert_eq!(&out, b"some bytes");
/// # Ok(())
/// # }
/// ```
pub fn decode(
    codec: Codec,
    stored: Arc<dyn Content>,
    out: &mut [u8],
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let data_size = out.len() as u64;
    check_sizes(codec, stored.len(), data_size)?;
    // Its threads start with the first task, and end with the cache.
    let cache = Arc::new(Cache::new(default_budget()));
    match codec {
        Codec::Zlib => read(zlib::read_once(stored, &cache)?, out, go_on),
        Codec::Bzip2 => read(bzip2::read_once(stored, &cache)?, out, go_on),
        Codec::Zstd => read_ahead(zstd::decode_once(&stored)?, out, go_on),
        Codec::Lz4 if !is_lz4_frame(&*stored)? => decode_lz4(&stored, out, cache.threads(), go_on),
        Codec::Blosc => decode_chunks(&blosc::open(stored, data_size), out, cache.threads(), go_on),
        Codec::Lz4 | Codec::Lz4Frame | Codec::Blosc2 => {
            Err(Error::unsupported("a stream of this form is not decoded at once"))
        }
    }
}

/// Reads all segments into `out`.
fn read(mut segments: Box<dyn SegmentReader>, out: &mut [u8], go_on: GoOn<'_>) -> Result<()> {
    segments.wanted(u64::MAX);
    let mut segment = Vec::new();
    let mut done = 0;
    loop {
        go_on()?;
        let rest = &mut out[done..];
        if !rest.is_empty()
            && let Some(written) = segments.read(rest)
        {
            match written? {
                0 => break,
                written => done += written,
            }
            continue;
        }
        let Some(start) = segments.next(&mut segment)? else { break };
        let bytes = segment.get(start..).unwrap_or_default();
        rest.get_mut(..bytes.len()).ok_or_else(too_long)?.copy_from_slice(bytes);
        done += bytes.len();
    }
    if done < out.len() { Err(too_short()) } else { Ok(()) }
}

/// Reads all bytes of a decoder, which runs on another thread, into `out`.
fn read_ahead(decoder: Box<dyn Decoder>, out: &mut [u8], go_on: GoOn<'_>) -> Result<()> {
    let (give, given) = mpsc::sync_channel(BUFFERS);
    let (give_back, given_back) = mpsc::sync_channel(BUFFERS);
    for _ in 0..BUFFERS {
        let _ = give_back.send(vec![0; BUFFER]);
    }
    thread::scope(|scope| {
        let decoding = thread::Builder::new().name("decode".into());
        decoding.spawn_scoped(scope, move || fill_buffers(decoder, &given_back, &give))?;
        // Drops its ends of the channels, also after an error, so that the thread ends.
        copy_buffers(given, give_back, out, go_on)
    })
}

/// A buffer, and the number of bytes in it.
type Filled = (Vec<u8>, usize);

/// Fills buffers with the bytes of a decoder, up to its end, an error, or the end of the receiver.
fn fill_buffers(
    mut decoder: Box<dyn Decoder>,
    buffers: &Receiver<Vec<u8>>,
    filled: &SyncSender<Result<Filled>>,
) {
    for mut buffer in buffers {
        let read = decoder.read(&mut buffer);
        let goes_on = matches!(read, Ok(1..));
        let is_end = matches!(read, Ok(0));
        if is_end || filled.send(read.map(|len| (buffer, len))).is_err() || !goes_on {
            return;
        }
    }
}

/// Copies buffers to `out`, which they must fill, and gives them back.
fn copy_buffers(
    filled: Receiver<Result<Filled>>,
    give_back: SyncSender<Vec<u8>>,
    out: &mut [u8],
    go_on: GoOn<'_>,
) -> Result<()> {
    let mut done = 0;
    for filled in filled {
        go_on()?;
        let (buffer, len) = filled?;
        let room = out.get_mut(done..).and_then(|rest| rest.get_mut(..len)).ok_or_else(too_long)?;
        room.copy_from_slice(&buffer[..len]);
        done += len;
        // The decoder may have ended.
        let _ = give_back.send(buffer);
    }
    if done < out.len() { Err(too_short()) } else { Ok(()) }
}

/// Decodes the pieces of LZ4 in ASDF's framing.
fn decode_lz4(stored: &Arc<dyn Content>, out: &mut [u8], threads: usize, go_on: GoOn<'_>) -> Result<()> {
    let mut pieces = Vec::new();
    lz4::each_piece(stored, &mut |piece| {
        if pieces.len() == MAX_PIECES || piece.len == 0 || piece.len > i32::MAX as u64 {
            return Err(Error::unsupported("the pieces of LZ4 are too small or too large"));
        }
        pieces.push(piece);
        Ok(())
    })?;
    let mut pieces = pieces.into_iter();
    let next = |_| Ok(pieces.next().map(|piece| (piece.len, piece)));
    let decode = |piece: ExternalPart, room: &mut [u8], buffer: &mut Vec<u8>| {
        // The part begins with its decoded size.
        let len = usize::try_from(piece.stored.saturating_sub(4)).unwrap_or(usize::MAX);
        if len as u64 > stored.len() {
            return Err(Error::damaged("an LZ4 block is cut off"));
        }
        if len > buffer.len() && !has_room(len as u64) {
            return Err(Error::new(Kind::TooLarge, "an LZ4 block does not fit in memory"));
        }
        buffer.resize(buffer.len().max(len), 0);
        let block = &mut buffer[..len];
        read_exact_at(&**stored, piece.offset.saturating_add(4), block)?;
        if lz4::decode_by_the_rule(block, room) {
            Ok(())
        } else {
            Err(Error::damaged("an LZ4 block is invalid"))
        }
    };
    decode_pieces(out, threads, go_on, next, decode)
}

/// Decodes chunks that stand alone.
fn decode_chunks(chunks: &dyn Chunks, out: &mut [u8], threads: usize, go_on: GoOn<'_>) -> Result<()> {
    let next = |at| Ok(chunks.find(at)?.filter(|chunk| chunk.offset == at).map(|chunk| (chunk.len, chunk)));
    let decode = |chunk, room: &mut [u8], buffer: &mut Vec<u8>| {
        chunks.decode(chunk, buffer)?;
        if buffer.len() != room.len() {
            return Err(Error::damaged("a chunk decodes to a wrong number of bytes"));
        }
        room.copy_from_slice(buffer);
        Ok(())
    };
    decode_pieces(out, threads, go_on, next, decode)
}

/// The pieces that are not decoded yet, and the room for them.
struct Pieces<'o, N> {
    rest: &'o mut [u8],
    /// Decoded offset of `rest`.
    at: u64,
    next: N,
    error: Option<Error>,
}

impl<'o, P, N: FnMut(u64) -> Result<Option<(u64, P)>>> Pieces<'o, N> {
    /// Returns the next piece, and the room for it; `None` after the last one, and after an error.
    fn take(&mut self) -> Option<(P, &'o mut [u8])> {
        if self.error.is_some() {
            return None;
        }
        let (len, piece) = match (self.next)(self.at) {
            Ok(Some(next)) => next,
            Ok(None) => {
                self.error = (!self.rest.is_empty()).then(too_short);
                return None;
            }
            Err(error) => {
                self.error = Some(error);
                return None;
            }
        };
        match usize::try_from(len).ok().filter(|len| *len > 0 && *len <= self.rest.len()) {
            Some(len) => {
                let (room, rest) = std::mem::take(&mut self.rest).split_at_mut(len);
                self.rest = rest;
                self.at += len as u64;
                Some((piece, room))
            }
            None => {
                self.error = Some(too_long());
                None
            }
        }
    }
}

/// Decodes pieces into `out` on several threads. `next` gets the decoded offset of a piece and returns the piece with its
/// decoded length.
fn decode_pieces<P: Send>(
    out: &mut [u8],
    threads: usize,
    go_on: GoOn<'_>,
    next: impl FnMut(u64) -> Result<Option<(u64, P)>> + Send,
    decode: impl Fn(P, &mut [u8], &mut Vec<u8>) -> Result<()> + Sync,
) -> Result<()> {
    go_on()?;
    let pieces = Mutex::new(Pieces { rest: out, at: 0, next, error: None });
    let work = |go_on: GoOn<'_>| {
        let mut buffer = Vec::new();
        loop {
            let Some((piece, room)) = locked(&pieces).take() else { return };
            if let Err(error) = go_on().and_then(|()| decode(piece, room, &mut buffer)) {
                locked(&pieces).error.get_or_insert(error);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // If the system has no thread for it, the others do the work.
            let _ = thread::Builder::new().name("decode".into()).spawn_scoped(scope, || work(&mut || Ok(())));
        }
        work(go_on);
    });
    let error = locked(&pieces).error.take();
    error.map_or(Ok(()), Err)
}

fn too_long() -> Error {
    Error::damaged("the stream decodes to more bytes than expected")
}

fn too_short() -> Error {
    Error::damaged("the stream decodes to fewer bytes than expected")
}
