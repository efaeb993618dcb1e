//! Prints a range of the decoded bytes of a compressed file, wherever it lies.
//!
//!     cargo run --example read_range -- zstd FILE DECODED-SIZE FROM LENGTH

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use seekable::cache::Cache;
use seekable::codec::{self, Codec};
use seekable::content::{Slice, read_exact_at};
use seekable::source::{FileSource, Source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [codec, file, size, from, length] = arguments.as_slice() else {
        return Err("usage: read_range zlib|bzip2|lz4|zstd|blosc|blosc2 FILE DECODED-SIZE FROM LENGTH".into());
    };
    let codec = match codec.as_str() {
        "zlib" => Codec::Zlib,
        "bzip2" => Codec::Bzip2,
        "lz4" => Codec::Lz4Frame,
        "zstd" => Codec::Zstd,
        "blosc" => Codec::Blosc,
        "blosc2" => Codec::Blosc2,
        _ => return Err(format!("{codec}: unknown codec").into()),
    };
    let source = FileSource::open(Path::new(file))?;
    let stored_size = source.stat()?.size;
    let stored = Arc::new(Slice::new(Arc::new(source), 0, stored_size));
    let decoded = codec::open(codec, stored, size.parse()?, &Arc::new(Cache::new(64 << 20)))?;
    let from = from.parse::<u64>()?.min(decoded.len());
    let mut bytes = vec![0; length.parse::<u64>()?.min(decoded.len() - from) as usize];
    read_exact_at(&*decoded, from, &mut bytes)?;
    std::io::stdout().write_all(&bytes)?;
    Ok(())
}
