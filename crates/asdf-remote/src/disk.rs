//! The cache of blocks on disk, which outlives a mount: `-o remote-cache=DIR,SIZE`.
//!
//! ```text
//! DIR/                      owned by this user; created with mode 0700
//!   6f1e…c2-1f.block        0600; block 0x1f of the version with this digest; its mtime is the last use
//!   .new-4711-…-1           being written
//! ```
//!
//! | bytes of a file | |
//! |---|---|
//! | 0–15 | XXH3-128 of the rest, little-endian |
//! | 16–23 | magic |
//! | 24–55 | digest of address and version |
//! | 56–63 | number of the block, little-endian |
//! | 64– | data |
//!
//! The files are not trusted: each is checked before a byte of it is used. A file that fails the check is
//! removed. Several mounts may share the directory. A full disk stops the cache, not the mount.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::AtFlags;
use seekable::error::Result;
use seekable::sync::{locked, locked_at_once};
use seekable::user_dirs::{self, cached_files};
use twox_hash::XxHash3_128;

use super::block::{BLOCK, Key};

const MAGIC: &[u8; 8] = b"ADFBLK2\n";
const HEADER: usize = 64;
/// Length of the checksum, which precedes the bytes that it covers.
const CHECKSUM: usize = 16;
const SUFFIX: &str = ".block";
/// Number of blocks after which the directory is listed again, because other mounts write there, too.
const RELIST: u64 = 64;
/// The time for which nothing is written after a failure.
const PAUSE: Duration = Duration::from_secs(60);

/// Locked by the thread that removes blocks.
#[derive(Debug, Default)]
struct Trimming;

/// A directory of blocks, held open.
#[derive(Debug)]
pub(super) struct DiskCache {
    dir: OwnedFd,
    most: u64,
    /// Bytes of all blocks, as far as is known.
    held: AtomicU64,
    /// Number of blocks written since the directory was listed.
    written: AtomicU64,
    trimming: Mutex<Trimming>,
    paused_until: Mutex<Option<Instant>>,
}

impl DiskCache {
    /// Opens the cache in `path`, which is created if missing.
    ///
    /// # Errors
    /// The directory can't be created or read, has another owner, or is writable by others.
    pub(super) fn open(path: &Path, most: u64) -> Result<Self> {
        let dir = user_dirs::REMOTE.open(path).map_err(|error| error.of(path))?;
        let cache = Self {
            dir,
            most,
            held: AtomicU64::new(0),
            written: AtomicU64::new(0),
            trimming: Mutex::default(),
            paused_until: Mutex::default(),
        };
        cache.trim();
        Ok(cache)
    }

    /// True if there is a file for the block that can be opened.
    pub(super) fn has(&self, key: &Key, block: u64) -> bool {
        user_dirs::open_file(&self.dir, name(key, block)).is_some()
    }

    /// Returns a block of `len` bytes if it is there and intact.
    pub(super) fn get(&self, key: &Key, block: u64, len: usize) -> Option<Vec<u8>> {
        let name = name(key, block);
        let (file, _) = user_dirs::open_file(&self.dir, &name)?;
        let data = read(&file, key, block, len);
        if data.is_none() {
            tracing::debug!("a block in the remote cache is damaged and is removed");
            let _ = rustix::fs::unlinkat(&self.dir, &name, AtFlags::empty());
            return None;
        }
        cached_files::touch(&file);
        data
    }

    /// Writes a block. Failures are not reported: the block is read from the server again.
    pub(super) fn put(&self, key: &Key, block: u64, data: &[u8]) {
        let len = (data.len() + HEADER) as u64;
        let is_paused = locked(&self.paused_until).is_some_and(|until| Instant::now() < until);
        if is_paused || len > self.most || data.len() as u64 > BLOCK {
            return;
        }
        let bytes = file_of(key, block, data);
        if let Err(error) = user_dirs::write(&self.dir, name(key, block), &bytes) {
            tracing::debug!("the remote cache is not written for a while: {error}");
            *locked(&self.paused_until) = Some(Instant::now() + PAUSE);
        }
        let held = self.held.fetch_add(len, Ordering::Relaxed) + len;
        if held > self.most || self.written.fetch_add(1, Ordering::Relaxed) >= RELIST {
            self.trim();
        }
    }

    /// Removes the least recently used blocks until a tenth is free.
    fn trim(&self) {
        let Some(_trimming) = locked_at_once(&self.trimming) else { return };
        let blocks = cached_files::list(&self.dir, SUFFIX);
        self.written.store(0, Ordering::Relaxed);
        let mut held = blocks.iter().map(|block| block.size).sum::<u64>();
        if held > self.most {
            held = cached_files::trim(&self.dir, blocks, self.most - self.most / 10, None);
        }
        self.held.store(held, Ordering::Relaxed);
    }
}

fn name(key: &Key, block: u64) -> String {
    let digest: String = key[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digest}-{block:x}{SUFFIX}")
}

/// Returns the bytes of the file of a block.
fn file_of(key: &Key, block: u64, data: &[u8]) -> Vec<u8> {
    let mut bytes = [&[0; CHECKSUM], &MAGIC[..], key, &block.to_le_bytes(), data].concat();
    let checksum = XxHash3_128::oneshot(&bytes[CHECKSUM..]);
    bytes[..CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Reads and checks the file of a block.
fn read(mut file: &File, key: &Key, block: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; HEADER + len];
    file.read_exact(&mut bytes).ok()?;
    let is_end = file.read(&mut [0]).ok()? == 0;
    let (checksum, rest) = bytes.split_at(CHECKSUM);
    let is_intact = checksum == XxHash3_128::oneshot(rest).to_le_bytes();
    let is_block = rest.starts_with(&[&MAGIC[..], key, &block.to_le_bytes()].concat());
    (is_end && is_intact && is_block).then(|| bytes.split_off(HEADER))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, PermissionsExt};

    use super::*;

    const A: Key = [1; 32];

    fn files(dir: &Path) -> Vec<std::path::PathBuf> {
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn blocks_outlive_a_mount_and_belong_to_a_version() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        DiskCache::open(&path, 1 << 20).unwrap().put(&A, 7, b"data");
        let cache = DiskCache::open(&path, 1 << 20).unwrap();
        assert!(cache.has(&A, 7) && !cache.has(&A, 8));
        assert_eq!(cache.get(&A, 7, 4).unwrap(), b"data");
        let mut other = A;
        other[31] = 2;
        // The name has half of the digest; the header has all of it.
        assert!(cache.has(&other, 7) && cache.get(&other, 7, 4).is_none());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(cache.get(&A, 7, 4).is_none(), "a file that does not fit is removed");
    }

    #[test]
    fn a_changed_file_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(dir.path(), 1 << 20).unwrap();
        for at in 0..HEADER as u64 + 4 {
            cache.put(&A, 7, b"data");
            let [path] = &files(dir.path())[..] else { panic!("one file") };
            let file = File::options().read(true).write(true).open(path).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 4], at).unwrap();
            assert_eq!(cache.get(&A, 7, 4), None, "byte {at}");
            assert_eq!(files(dir.path()).len(), 0);
        }
        for len in [0, 63, 64, 67, 69] {
            cache.put(&A, 7, b"data");
            File::options().write(true).open(&files(dir.path())[0]).unwrap().set_len(len).unwrap();
            assert_eq!(cache.get(&A, 7, 4), None, "{len} bytes");
        }
        cache.put(&A, 7, b"data");
        assert_eq!(cache.get(&A, 7, 3), None);
    }

    #[test]
    fn the_size_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(dir.path(), 10_000).unwrap();
        for block in 0..100 {
            cache.put(&A, block, &[0; 1000]);
            let held: u64 = files(dir.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
            assert!(held <= 10_000, "{held}");
        }
        assert!(cache.has(&A, 99) && !cache.has(&A, 0));
        cache.put(&A, 100, &[0; 20_000]);
        assert!(!cache.has(&A, 100));
        // A smaller limit holds from the opening on.
        drop(DiskCache::open(dir.path(), 2000).unwrap());
        assert_eq!(files(dir.path()).len(), 1);
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = DiskCache::open(dir.path(), 1).unwrap_err();
        assert!(error.message().contains("remote-cache"), "{error}");
    }
}
