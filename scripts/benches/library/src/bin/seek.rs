//! Measures reading in the middle of an encoded stream, through the library alone: the first pass on one
//! thread and on all, the last 4 KiB fresh and again, and 4 KiB at random after that.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use seekable::cache::Cache;
use seekable::codec::{self, Codec};
use seekable::content::Slice;
use seekable::source::{FileSource, Source};

/// Bytes read at a time in a pass over the stream.
const PIECE: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [codec, file, data_size] = &arguments[..] else {
        return Err("usage: seek zlib|bzp2|lz4|blsc FILE DATA_SIZE".into());
    };
    let codec = match codec.as_str() {
        "zlib" => Codec::Zlib,
        "bzp2" => Codec::Bzip2,
        "lz4" => Codec::Lz4,
        _ => Codec::Blosc,
    };
    let (file, data_size): (_, u64) = (Path::new(file), data_size.parse()?);
    let open = |budget: u64, threads: usize| {
        let source: Arc<dyn Source> = Arc::new(FileSource::open(file)?);
        let len = source.stat()?.size;
        let cache = Arc::new(Cache::with_threads(budget, threads));
        codec::open(codec, Arc::new(Slice::new(source, 0, len)), data_size, &cache)
    };
    let mut err = std::io::stderr();
    let threads = std::thread::available_parallelism()?.get();
    for threads in [1, threads] {
        let content = open(256 << 20, threads)?;
        let begun = Instant::now();
        let mut buf = vec![0; PIECE];
        for at in (0..data_size).step_by(PIECE) {
            content.read_at(at, &mut buf)?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        writeln!(
            err,
            "first pass, {threads} threads: {seconds:.3} s, {:.0} MB/s, {:?}",
            data_size as f64 / seconds / 1e6,
            content.soundness()
        )?;
    }
    let content = open(64 << 20, threads)?;
    let mut buf = [0; 4096];
    for what in ["fresh", "again"] {
        let begun = Instant::now();
        content.read_at(data_size.saturating_sub(4096), &mut buf)?;
        writeln!(err, "last 4 KiB, {what}: {:.2} ms", begun.elapsed().as_secs_f64() * 1e3)?;
    }
    let mut at = 88_172_645_463_325_252_u64;
    let mut times: Vec<_> = (0..200)
        .map(|_| {
            at ^= at << 13;
            at ^= at >> 7;
            at ^= at << 17;
            let begun = Instant::now();
            content.read_at(at % data_size, &mut buf).map(|_| begun.elapsed().as_secs_f64() * 1e3)
        })
        .collect::<Result<_, _>>()?;
    times.sort_by(f64::total_cmp);
    writeln!(err, "4 KiB at random: median {:.2} ms, 95 % {:.2} ms", times[100], times[190])?;
    Ok(())
}
