//! Objects and directories of a server that misbehaves.

mod faults;
mod listings;
mod ranges;
mod reading;
mod server;
mod strangers;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use super::block::FIRST;
use super::*;
use server::{Reply, Request, Server};

const MIB: usize = 1 << 20;

/// Returns bytes that differ from block to block.
fn data(len: usize) -> Arc<Vec<u8>> {
    let mut bytes = vec![0; len];
    for (n, piece) in bytes.chunks_mut(1024).enumerate() {
        piece.fill((n as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]);
    }
    Arc::new(bytes)
}

/// Serves an object; `change` may spoil each reply.
fn serve(
    data: &Arc<Vec<u8>>,
    change: impl Fn(&Request, usize, Reply) -> Reply + Send + Sync + 'static,
) -> Server {
    let data = data.clone();
    Server::start(move |request, number| change(request, number, Reply::part(&data, "\"v1\"", request)))
}

fn options() -> RemoteOptions {
    RemoteOptions { anonymous: true, read_timeout: Duration::from_secs(20), ..RemoteOptions::default() }
}

fn remote(options: RemoteOptions) -> Remote {
    let remote = Remote::new(options, Arc::new(Cache::new(256 << 20))).unwrap();
    remote.start_threads();
    remote
}

fn address(text: &str) -> Address {
    Address::parse(text).unwrap()
}

fn open(remote: &Remote, url: &str) -> seekable::error::Result<Arc<dyn Source>> {
    remote.open(&address(url), Trust::Mounted)
}

/// Reads a range with one call.
fn read(source: &Arc<dyn Source>, at: usize, len: usize) -> seekable::error::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let read = source.read_at(at as u64, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Returns the errno with which something fails.
/// Waits until the cache on disk has this many files: one for each block, and one for each version. The last blocks are
/// written after the reader has them.
fn await_files(dir: &std::path::Path, count: usize) {
    let files = || std::fs::read_dir(dir).unwrap().flatten();
    let written = || files().filter(|file| !file.file_name().as_encoded_bytes().starts_with(b".")).count();
    while written() < count {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn errno<T>(result: seekable::error::Result<T>) -> i32 {
    result.err().map_or(0, |error| error.errno())
}
