//! Comparisons of the decoder with zlib-rs, libdeflate and the tests' own writer.

mod damage;
mod joined;
mod parallel;
mod places;
pub(super) mod writer;

use std::io::Write;
use std::path::Path;

use flate2::{Compression, Decompress, FlushDecompress, Status};

use super::zlib::{self, Adler};
use super::*;
use crate::codec::features::tests::both_ways;
use crate::content::Content;
use crate::error::{Error, Result};
use writer::{BlockKind, Dice, Writer};

/// Returns the output of a piece after `window`, as far as it can be known.
fn resolved(resolver: &mut Resolver, piece: &Piece, window: &[u8]) -> Vec<u8> {
    resolver.know(window);
    let mut out = vec![7; piece.len() + 5];
    let written = resolver.write(piece, 0, &mut out);
    out.truncate(written);
    out
}

/// Bytes in memory, with a limit for each read.
#[derive(Debug)]
struct Bytes {
    bytes: Vec<u8>,
    sip: usize,
    /// The offset from which on reads fail.
    bad: Option<u64>,
}

impl Bytes {
    fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), sip: usize::MAX, bad: None }
    }
}

impl Content for Bytes {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if self.bad.is_some_and(|bad| offset >= bad) {
            return Err(Error::new(crate::Kind::System(libc::EIO), "the disk is broken"));
        }
        let end = self.bad.unwrap_or(self.len());
        let count = buf.len().min(self.sip).min(end.saturating_sub(offset) as usize);
        let from = (offset as usize).min(self.bytes.len());
        buf[..count].copy_from_slice(&self.bytes[from..from + count]);
        Ok(count)
    }
}

/// A stream, the start of its deflate data, and its decoded bytes.
struct Stream {
    name: String,
    stored: Bytes,
    start: u64,
    plain: Vec<u8>,
}

/// Returns the values of an image as bytes: noise over a slope.
pub(super) fn image(count: u32) -> Vec<u8> {
    let mut dice = Dice::new(7);
    let noise = |dice: &mut Dice| (0..4).map(|_| dice.below(12)).sum::<usize>() as u32;
    (0..count).flat_map(|n| (1000 + n / 4096 + noise(&mut dice)).to_le_bytes()).collect()
}

pub(super) fn zlib(plain: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// Decodes raw deflate with zlib-rs. Returns the output and the verdict: ended (`Ok(true)`), cut off
/// (`Ok(false)`), or broken.
fn reference(raw: &[u8]) -> (Vec<u8>, std::result::Result<bool, ()>) {
    let mut decoder = Decompress::new(false);
    let mut out = Vec::new();
    let mut room = vec![0; 1 << 16];
    loop {
        let taken = decoder.total_in() as usize;
        let given = decoder.total_out();
        let status = decoder.decompress(&raw[taken..], &mut room, FlushDecompress::None);
        out.extend_from_slice(&room[..(decoder.total_out() - given) as usize]);
        match status {
            Err(_) => return (out, Err(())),
            Ok(Status::StreamEnd) => return (out, Ok(true)),
            Ok(_) if decoder.total_out() == given && decoder.total_in() as usize == taken => {
                return (out, Ok(false));
            }
            Ok(_) => {}
        }
    }
}

/// Returns streams of every kind.
fn streams() -> Vec<Stream> {
    let mut streams = Vec::new();
    let mut add = |name: String, bytes: Vec<u8>, start: u64, plain: Option<Vec<u8>>| {
        let (reference, end) = reference(&bytes[start as usize / 8..]);
        assert_eq!(end, Ok(true), "{name}");
        if let Some(plain) = plain {
            assert!(plain == reference, "{name}");
        }
        streams.push(Stream { name, stored: Bytes::new(bytes), start, plain: reference });
    };
    let image = image(60_000);
    for level in 0..=9 {
        add(format!("zlib-rs level {level}"), zlib(&image, level), zlib::FIRST_BIT, Some(image.clone()));
    }
    for level in 0..=12 {
        let mut encoder = libdeflater::Compressor::new(libdeflater::CompressionLvl::new(level).unwrap());
        let mut out = vec![0; encoder.zlib_compress_bound(image.len())];
        let len = encoder.zlib_compress(&image, &mut out).unwrap();
        out.truncate(len);
        add(format!("libdeflate level {level}"), out, zlib::FIRST_BIT, Some(image.clone()));
    }
    add("empty".into(), zlib(&[], 6), zlib::FIRST_BIT, Some(Vec::new()));
    add("zeros".into(), zlib(&vec![0; 300_000], 6), zlib::FIRST_BIT, Some(vec![0; 300_000]));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/deflate");
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|extension| extension == "zlib") {
            let name = entry.file_stem().unwrap().to_string_lossy().into_owned();
            add(name, std::fs::read(&entry).unwrap(), zlib::FIRST_BIT, None);
        }
    }
    let mut dice = Dice::new(1);
    for (name, kind) in [("one fixed block", BlockKind::Fixed), ("one dynamic block", BlockKind::Dynamic)] {
        let mut writer = Writer::default();
        writer.block(kind, 20_000, true, &mut dice);
        add(name.into(), writer.bytes, 0, Some(writer.plain));
    }
    for n in 0..30 {
        let writer = Writer::random(&mut dice);
        add(format!("written {n}"), writer.bytes, 0, Some(writer.plain));
    }
    streams
}

/// Decodes from the start with room for `room` bytes at a time, and keeps all output.
fn decode(
    stored: &dyn Content,
    start: u64,
    mut room: impl FnMut() -> usize,
) -> (Vec<u8>, std::result::Result<Position, Fault>) {
    let mut inflate = Inflate::new();
    inflate.start(stored, Position::block_at(start, 0)).unwrap();
    let mut out = Vec::new();
    let mut filled = 0;
    loop {
        out.resize(filled + room(), 0xaa);
        let stop;
        (filled, stop) = inflate.decode(stored, &mut out, filled);
        match stop {
            Ok(Stop::Full) => assert_eq!(filled, out.len()),
            Ok(Stop::Block) => unreachable!("not asked for"),
            Ok(Stop::End) | Err(_) => {
                assert!(filled <= out.len());
                out.truncate(filled);
                assert_eq!(inflate.position().offset, filled as u64);
                return (out, stop.map(|_| inflate.position()));
            }
        }
    }
}

#[test]
fn every_kind_of_stream_decodes_as_zlib_decodes_it() {
    for Stream { name, stored, start, plain } in streams() {
        both_ways(|| assert!(decode(&stored, start, || plain.len() + 1).0 == plain, "{name}"));
        let (out, end) = decode(&stored, start, || plain.len() + 1);
        assert!(out == plain, "{name}");
        let end = end.unwrap();
        assert!(end.last && end.block == Block::Between, "{name}");
        if start == zlib::FIRST_BIT {
            zlib::Header::read(&stored).unwrap();
            let sum = zlib::stored_checksum(&stored, end).unwrap();
            assert_eq!(sum, Adler::of(&plain).sum, "{name}");
            assert_eq!(end.bit.div_ceil(8) + 4, stored.len(), "{name}");
            let cut = Bytes::new(&stored.bytes[..stored.bytes.len() - 1]);
            assert!(matches!(zlib::stored_checksum(&cut, end).unwrap_err().why, Cause::Cut), "{name}");
        }
    }
}

#[test]
fn it_stops_at_any_byte_and_goes_on() {
    let mut dice = Dice::new(2);
    for Stream { name, stored, start, plain } in streams() {
        for most in [1, 3, 300, 5000, 70_000] {
            let (out, end) = decode(&stored, start, || dice.below(most + 1));
            assert!(out == plain && end.is_ok(), "{name}, up to {most} at a time");
        }
    }
}

#[test]
fn input_may_come_byte_by_byte() {
    for Stream { name, mut stored, start, plain } in streams() {
        for sip in [1, 7, 4096] {
            stored.sip = sip;
            let (out, end) = decode(&stored, start, || 10_000);
            assert!(out == plain && end.is_ok(), "{name}, {sip} at a time");
        }
    }
}

#[test]
fn without_room_it_tells_more_output_from_the_end() {
    for Stream { name, stored, start, plain } in streams() {
        let mut inflate = Inflate::new();
        inflate.start(&stored, Position::block_at(start, 0)).unwrap();
        let mut out = vec![0; plain.len()];
        let short = plain.len().saturating_sub(1);
        if !plain.is_empty() {
            let (filled, stop) = inflate.decode(&stored, &mut out[..short], 0);
            assert_eq!((filled, stop.unwrap()), (short, Stop::Full), "{name}");
        }
        let (filled, stop) = inflate.decode(&stored, &mut out, short);
        assert_eq!((filled, stop.unwrap()), (plain.len(), Stop::End), "{name}");
    }
}
