//! Decodes a stream with the bare crate and discards the bytes: `scripts/bench` compares this with reading
//! through the mount.

use std::io::{Read, Write, copy, sink};

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (codec, file) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let stored = std::fs::File::open(file)?;
    let mut decoder: Box<dyn Read> = match codec.as_str() {
        "zlib" => Box::new(flate2::read::ZlibDecoder::new(stored)),
        "bzp2" => Box::new(bzip2::read::MultiBzDecoder::new(stored)),
        "zstd" => Box::new(zstd::stream::read::Decoder::new(stored)?),
        _ => return Err(std::io::Error::other("usage: decode zlib|bzp2|zstd FILE")),
    };
    let decoded = copy(&mut decoder, &mut sink())?;
    writeln!(std::io::stderr(), "{decoded} bytes")
}
