//! Comparisons of the decoder with the library, also on streams that no encoder writes.

mod damage;
mod library;
mod places;
mod written;

use std::io::{Read, Write};
use std::sync::Arc;

use super::{Fault, StreamReader};
use crate::content::Text;

/// A deterministic pseudo-random generator.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        // SplitMix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Kinds of data.
#[derive(Clone, Copy, Debug)]
enum Data {
    Equal,
    Periodic,
    Text,
    Image,
    Random,
}

impl Data {
    const ALL: [Self; 5] = [Self::Equal, Self::Periodic, Self::Text, Self::Image, Self::Random];

    fn make(self, len: usize) -> Vec<u8> {
        let mut numbers = Numbers(len as u64);
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            match self {
                Self::Equal => out.push(0x55),
                Self::Periodic => out.extend(b"period "),
                Self::Text => {
                    out.extend(["sky ", "of ", "stars\n", "and ", "dust, "][numbers.below(5)].bytes())
                }
                Self::Image => {
                    let noise = (0..8).map(|_| numbers.below(40) as u16).sum::<u16>();
                    out.extend((1000 + noise).to_le_bytes());
                }
                Self::Random => out.extend(numbers.next().to_le_bytes()),
            }
        }
        out.truncate(len);
        out
    }
}

/// Compresses with the library.
fn compress(level: u32, data: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(level));
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// Reads until the end or an error.
fn drain(mut read: impl FnMut(&mut [u8]) -> Option<usize>) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let mut piece = vec![0; 50_021];
    loop {
        match read(&mut piece) {
            Some(0) => return (out, true),
            Some(count) => out.extend(&piece[..count]),
            None => return (out, false),
        }
    }
}

/// Decodes one stream with the library. Returns the bytes before any error, and true if there was none.
///
/// The library's reader is not used: it drops the bytes before an error in the same call.
fn by_library(stream: &[u8]) -> (Vec<u8>, bool) {
    let mut decoder = bzip2::Decompress::new(false);
    let mut out = Vec::new();
    let mut piece = vec![0; 50_021];
    loop {
        let read = decoder.total_in();
        let written = decoder.total_out();
        let status = decoder.decompress(&stream[read as usize..], &mut piece);
        let count = (decoder.total_out() - written) as usize;
        out.extend(&piece[..count]);
        match status {
            Ok(bzip2::Status::StreamEnd) => return (out, true),
            Ok(_) if count > 0 || decoder.total_in() > read => {}
            _ => return (out, false),
        }
    }
}

/// Decodes one or more streams with our decoder. Returns the bytes before any error, and the error.
fn by_us(streams: &[u8]) -> (Vec<u8>, Option<Fault>) {
    let mut walk = StreamReader::new(Arc::new(Text::new(streams)));
    let mut fault = None;
    let (out, _) = drain(|out| walk.read(out).map_err(|met| fault = Some(met)).ok());
    (out, fault)
}

/// Asserts that `streams` decode to `data`.
fn assert_decodes(streams: &[u8], data: &[u8], what: &str) {
    let (out, fault) = by_us(streams);
    assert!(fault.is_none(), "{what}: {fault:?}");
    assert!(out == data, "{what}: {} bytes instead of {}, or other ones", out.len(), data.len());
}
