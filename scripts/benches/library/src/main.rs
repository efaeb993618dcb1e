//! Decodes a zlib stream with our inflate and other decoders in turn, and prints the duration of each.
//!
//! usage: library-bench zlib FILE DATA_SIZE REPEATS      prints one line per run: NAME<tab>SECONDS
//!        library-bench rapidgzip-core FILE              decodes FILE with two workers, once

use std::error::Error;
use std::io::{Read, Write, copy, sink};
use std::sync::Arc;
use std::time::Instant;

use seekable::codec::deflate::{Pass, Position, Stop};
use seekable::content::{Content, Slice, Text};
use seekable::source::{FileSource, Source};

/// Uncompressed bytes between two checkpoints, as in the mount.
const SPACING: u64 = 1 << 20;

type Answer = Result<u64, Box<dyn Error>>;

fn own(stored: &dyn Content, spacing: Option<u64>) -> Answer {
    let mut pass = Pass::new(stored, Position::block_at(16, 0), &[])?;
    if let Some(spacing) = spacing {
        pass = pass.with_checkpoints(spacing);
    }
    let (mut sum, mut decoded) = (simd_adler32::Adler32::new(), 0);
    loop {
        let (bytes, stop) = pass.step(stored);
        sum.write(bytes);
        decoded += bytes.len() as u64;
        if stop? == Stop::End {
            std::hint::black_box(sum.finish());
            return Ok(decoded);
        }
        std::hint::black_box(pass.take_checkpoint());
    }
}

fn zlib_rs(stored: &[u8]) -> Answer {
    let mut decoder = flate2::read::ZlibDecoder::new(stored);
    let mut buffer = vec![0; 128 << 10];
    let mut decoded = 0;
    loop {
        match decoder.read(&mut buffer)? {
            0 => return Ok(decoded),
            read => decoded += read as u64,
        }
    }
}

fn libdeflate(stored: &[u8], whole: &mut [u8]) -> Answer {
    Ok(libdeflater::Decompressor::new().zlib_decompress(stored, whole)? as u64)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let mut out = std::io::stdout();
    match arguments[..] {
        ["rapidgzip-core", file] => {
            let decoder = rapidgzip_core::Decoder::builder()
                .format(rapidgzip_core::Format::Zlib)
                .decoder_threads(2)
                .build()?;
            writeln!(out, "{} bytes", copy(&mut decoder.open(file)?, &mut sink())?)?;
        }
        ["zlib", file, data_size, repeats] => {
            let (data_size, repeats): (u64, u32) = (data_size.parse()?, repeats.parse()?);
            let source: Arc<dyn Source> = Arc::new(FileSource::open(file.as_ref())?);
            let len = source.stat()?.size;
            let slice = Slice::new(source, 0, len);
            let bytes = std::fs::read(file)?;
            let memory = Text::new(bytes.clone());
            let mut whole = vec![0; data_size.try_into()?];
            let mut time = |name: &str, decode: &mut dyn FnMut() -> Answer| -> Result<(), Box<dyn Error>> {
                let begun = Instant::now();
                let decoded = decode()?;
                let seconds = begun.elapsed().as_secs_f64();
                if decoded != data_size {
                    return Err(format!("{name} gave {decoded} bytes instead of {data_size}").into());
                }
                Ok(writeln!(out, "{name}\t{seconds:.6}")?)
            };
            for _ in 0..repeats {
                time("own", &mut || own(&memory, None))?;
                time("zlib-rs", &mut || zlib_rs(&bytes))?;
                time("own with checkpoints", &mut || own(&memory, Some(SPACING)))?;
                time("libdeflate", &mut || libdeflate(&bytes, &mut whole))?;
                time("own from the file", &mut || own(&slice, None))?;
            }
        }
        _ => return Err("usage: library-bench zlib FILE DATA_SIZE REPEATS | rapidgzip-core FILE".into()),
    }
    Ok(())
}
