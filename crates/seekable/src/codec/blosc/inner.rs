//! The codecs within Blosc, which decode one split at a time.
//!
//! [`blosclz`] and LZ4 are our own, the others are crates. They decode into a slice of the wanted length and
//! never past it. Decoders with large tables are kept from split to split.

use std::fmt;

use flate2::{Decompress, FlushDecompress, Status};

use super::blosclz;
use super::header::Inner;
use crate::codec::lz4;
use crate::error::{Error, Result};

/// A buffer larger than this is freed after use.
const KEPT: usize = 1 << 20;

/// True if `stored` may decode to `len` bytes. If not, the error is found without an allocation.
pub(super) fn may_hold(inner: Inner, stored: &[u8], len: usize) -> bool {
    let ratio = match inner {
        // Each further length byte adds up to 255.
        Inner::Blosclz | Inner::Lz4 => 256,
        // The stream begins with its length, and a copy of 64 bytes takes three.
        Inner::Snappy if snap::raw::decompress_len(stored).ok() != Some(len) => return false,
        Inner::Snappy => 64,
        // 258 bytes take at least two bits.
        Inner::Zlib => 1032,
        // A frame states its decoded size unless its writer did not know the size; Blosc does. A block of at
        // most 128 KiB takes at least three bytes.
        Inner::Zstd => match zstd::zstd_safe::get_frame_content_size(stored) {
            Ok(Some(size)) if size == len as u64 => 1 << 16,
            Ok(None) => 1 << 16,
            _ => return false,
        },
    };
    len <= stored.len().saturating_mul(ratio).saturating_add(1 << 10)
}

/// The codecs' tables, created at first use.
#[derive(Default)]
pub(super) struct Decoders {
    zlib: Option<Decompress>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    trained: Option<TrainedZstd>,
    /// A dictionary, and after it the output of LZ4.
    joined: Vec<u8>,
}

/// A decoder of zstd with its dictionary.
struct TrainedZstd {
    dictionary: Vec<u8>,
    decoder: zstd::bulk::Decompressor<'static>,
}

impl fmt::Debug for Decoders {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Decoders").finish_non_exhaustive()
    }
}

impl Decoders {
    /// Decodes `stored` into the whole of `out`; after an error the contents of `out` are undefined. `dictionary` is
    /// empty if there is none.
    pub(super) fn decode(
        &mut self,
        inner: Inner,
        stored: &[u8],
        dictionary: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let wanted = out.len();
        let done = match inner {
            Inner::Lz4 if !dictionary.is_empty() => self.lz4_with(dictionary, stored, out)?,
            Inner::Zstd if !dictionary.is_empty() => self.zstd_with(dictionary, stored, out)?,
            _ if !dictionary.is_empty() => {
                let what = format!("a {} stream within Blosc can't have a dictionary", inner.name());
                return Err(Error::damaged(what));
            }
            Inner::Blosclz => {
                blosclz::decode(stored, out).ok_or_else(|| broken(inner, &"its data are invalid"))?
            }
            // As liblz4 decides, which the C library calls.
            Inner::Lz4 if lz4::decode_by_the_rule(stored, out) => wanted,
            Inner::Lz4 => return Err(broken(inner, &"its data are invalid")),
            Inner::Snappy => {
                snap::raw::Decoder::new().decompress(stored, out).map_err(|error| broken(inner, &error))?
            }
            Inner::Zlib => self.zlib(stored, out)?,
            Inner::Zstd => self.zstd(stored, out)?,
        };
        if done == wanted {
            Ok(())
        } else {
            Err(broken(inner, &format_args!("it has {done} bytes, not {wanted}")))
        }
    }

    fn lz4_with(&mut self, dictionary: &[u8], stored: &[u8], out: &mut [u8]) -> Result<usize> {
        let joined = &mut self.joined;
        joined.clear();
        joined.extend_from_slice(dictionary);
        joined.resize(dictionary.len() + out.len(), 0);
        let done = lz4::decode(stored, joined, dictionary.len())
            .ok_or_else(|| broken(Inner::Lz4, &"its data are invalid"))?;
        out.copy_from_slice(&joined[dictionary.len()..]);
        if joined.capacity() > KEPT {
            *joined = Vec::new();
        }
        Ok(done)
    }

    fn zstd_with(&mut self, dictionary: &[u8], stored: &[u8], out: &mut [u8]) -> Result<usize> {
        let trained = match self.trained.take() {
            Some(trained) if trained.dictionary == dictionary => trained,
            _ => TrainedZstd {
                dictionary: dictionary.to_vec(),
                decoder: zstd::bulk::Decompressor::with_dictionary(dictionary)?,
            },
        };
        let decoder = &mut self.trained.insert(trained).decoder;
        decoder.decompress_to_buffer(stored, out).map_err(|error| broken(Inner::Zstd, &error))
    }

    fn zlib(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize> {
        let zlib = self.zlib.get_or_insert_with(|| Decompress::new(true));
        zlib.reset(true);
        let status = zlib
            .decompress(stored, out, FlushDecompress::Finish)
            .map_err(|error| broken(Inner::Zlib, &error))?;
        if status != Status::StreamEnd {
            return Err(broken(Inner::Zlib, &"it ends too early or too late"));
        }
        Ok(usize::try_from(zlib.total_out()).unwrap_or(usize::MAX))
    }

    fn zstd(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize> {
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(zstd::bulk::Decompressor::new()?),
        };
        zstd.decompress_to_buffer(stored, out).map_err(|error| broken(Inner::Zstd, &error))
    }
}

fn broken(inner: Inner, why: &dyn fmt::Display) -> Error {
    Error::damaged(format!("a {} stream within Blosc is broken: {why}", inner.name()))
}
