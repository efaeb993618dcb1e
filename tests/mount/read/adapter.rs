//! The FUSE adapter on a real mount, without the daemon.
//!
//! The container is a fake; its second block breaks after the first million bytes.

#![allow(unsafe_code)] // mount(2), umount2(2) and mmap(2)
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use asdf_access::named::Named;
use asdf_access::options::Verify;
use asdf_access::{Error, Kind, Result};
use asdf_file::container::{Block, Container, Context, Defect, Fact, Facts, Verified, Views};
use asdf_mount::fuse::{Adapter, KernelNotifier};
use asdf_mount::vfs::{Options, Vfs};
use seekable::cache::Cache;
use seekable::content::{Content, Pieces, Slice, Soundness, Text};
use seekable::source::{Source, SourceStat};

use common::names;
use common::place::FakeServer;

pub(crate) const HEAD: &[u8] = b"#ASDF 1.0.0\n...\n";
const LARGE: u64 = 4 << 20;
/// Offset from which the broken block can't be decoded.
const GOOD: u64 = 1_000_001;

/// The header before the bytes of block 4.
const HEADER: &[u8; 128] = &[b'h'; 128];

/// Block 0 is the streamed rest of the file after its head; 1 is broken; 2 panics on reads; 3 is intact; 4 is
/// a header before the uncompressed bytes of block 0.
#[derive(Debug)]
pub(crate) struct Stand(pub(crate) Arc<dyn Source>, pub(crate) SourceStat, pub(crate) Option<Arc<Gate>>);

/// A gate at which reads of a file's blocks, or of its first bytes, wait.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub(crate) fn set(&self, open: bool) {
        *self.open.lock().unwrap() = open;
        self.opened.notify_all();
    }

    fn is_open(&self) -> bool {
        *self.open.lock().unwrap()
    }

    /// Waits until the gate is open; fails instead of blocking forever.
    pub(crate) fn pass(&self) -> Result<()> {
        let patience = Duration::from_secs(60);
        let waited = self.opened.wait_timeout_while(self.open.lock().unwrap(), patience, |open| !*open);
        if waited.unwrap().1.timed_out() { Err(Error::damaged("the gate stays closed")) } else { Ok(()) }
    }
}

/// Content generated from offsets.
#[derive(Debug)]
struct Made {
    len: u64,
    good: u64,
    panics: bool,
}

pub(crate) fn made(offset: u64) -> u8 {
    (offset * 7 + offset / 251) as u8
}

impl Content for Made {
    fn len(&self) -> u64 {
        self.len
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        assert!(!self.panics, "on purpose");
        let rest = self.good.min(self.len).saturating_sub(offset);
        if rest == 0 && offset < self.len {
            return Err(Error::damaged("the stream breaks"));
        }
        let read = buf.len().min(rest as usize);
        buf.iter_mut().zip(offset..).take(read).for_each(|(byte, at)| *byte = made(at));
        Ok(read)
    }
    fn is_slow(&self) -> bool {
        true
    }
    fn soundness(&self) -> Soundness {
        Soundness::Unknown
    }
}

impl Container for Stand {
    fn format(&self) -> &'static str {
        "stand"
    }
    fn version(&self) -> String {
        "1".into()
    }
    fn tree(&self) -> Arc<dyn Content> {
        Arc::new(Slice::new(self.0.clone(), 0, HEAD.len() as u64))
    }
    fn is_slow(&self) -> bool {
        self.2.as_ref().is_some_and(|gate| !gate.is_open())
    }
    fn block_count(&self) -> Result<usize> {
        self.2.as_ref().map_or(Ok(()), |gate| gate.pass())?;
        Ok(5)
    }
    fn block(&self, n: usize) -> Result<Block> {
        self.2.as_ref().map_or(Ok(()), |gate| gate.pass())?;
        let head = HEAD.len() as u64;
        let stored = Slice::new(self.0.clone(), head, self.1.size - head);
        let content: Arc<dyn Content> = match n {
            0 => Arc::new(stored),
            4 => Arc::new(Pieces::new([Arc::new(Text::new(&HEADER[..])) as _, Arc::new(stored) as _])?),
            1 => Arc::new(Made { len: LARGE, good: GOOD, panics: false }),
            2 => Arc::new(Made { len: LARGE, good: 0, panics: true }),
            3 => Arc::new(Made { len: 100_000, good: u64::MAX, panics: false }),
            _ => return Err(Error::new(Kind::NotFound, "no such block")),
        };
        let size = Fact::size("user.stand.data_size", content.len());
        let facts = Facts { offset: head, data_size: content.len(), groups: vec![vec![size]] };
        Ok(Block { facts, content: Ok(content), streamed: n == 0 })
    }
    fn block_before(&self, offset: u64) -> Result<Option<usize>> {
        Ok((offset > HEAD.len() as u64).then_some(0))
    }
    fn still_has(&self, file: &Arc<dyn Source>) -> bool {
        file.stat().is_ok_and(|now| now.size >= self.1.size)
    }
    fn verify(&self, n: usize) -> Result<Verified> {
        Ok(if n == 0 { Verified::Mismatch } else { Verified::Stored })
    }
    fn defects(&self) -> Vec<Defect> {
        Vec::new()
    }
    fn source(&self) -> &Arc<dyn Source> {
        &self.0
    }
    fn source_stat(&self) -> SourceStat {
        self.1
    }
}

impl Views for Stand {}

/// A function that opens a source as the fake container.
type Opener = Arc<dyn Fn(Arc<dyn Source>) -> Result<Arc<dyn Container>> + Send + Sync>;

/// A mount that ends when dropped.
pub(crate) struct Mount {
    pub(crate) at: PathBuf,
    session: Option<JoinHandle<std::io::Result<()>>>,
}

impl Mount {
    fn new(source: impl Into<Named>, at: &Path) -> Self {
        Self::verifying(Verify::Off, source, at)
    }

    fn verifying(verify: Verify, source: impl Into<Named>, at: &Path) -> Self {
        let opener = |source: Arc<dyn Source>| {
            let stat = source.stat()?;
            Ok(Arc::new(Stand(source, stat, None)) as _)
        };
        Self::with(verify, Arc::new(opener), source, at)
    }

    pub(crate) fn with(verify: Verify, opener: Opener, source: impl Into<Named>, at: &Path) -> Self {
        let mut options = Options::new(Context::new(Arc::new(Cache::new(1 << 20))));
        options.mountpoint = Some(at.to_owned());
        options.verify = verify;
        options.opener = opener;
        Self::of(Vfs::new(&[source.into()], &options).unwrap(), at)
    }

    /// Mounts a tree.
    pub(crate) fn of(tree: Vfs, at: &Path) -> Self {
        let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
        let data =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,default_permissions", device.as_raw_fd());
        let (data, path) = (CString::new(data).unwrap(), CString::new(at.as_os_str().as_bytes()).unwrap());
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_RDONLY;
        // SAFETY: all pointers are to NUL-terminated strings that outlive the call.
        let mounted = unsafe {
            libc::mount(
                c"test".as_ptr(),
                path.as_ptr(),
                c"fuse.asdf-test".as_ptr(),
                flags,
                data.as_ptr().cast(),
            )
        };
        assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
        let mut config = fuser::Config::default();
        config.n_threads = Some(2);
        let device: OwnedFd = device.into();
        let adapter = Adapter::new(tree);
        let vfs = adapter.vfs().clone();
        let session = fuser::Session::from_fd(adapter, device, fuser::SessionACL::Owner, config).unwrap();
        vfs.serve(KernelNotifier::new(session.notifier(), None));
        let session = Some(std::thread::spawn(move || session.run()));
        Self { at: at.to_owned(), session }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let path = CString::new(self.at.as_os_str().as_bytes()).unwrap();
        // SAFETY: the pointer is to a NUL-terminated string.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        let ended = self.session.take().unwrap().join();
        if !std::thread::panicking() {
            // The kernel ends a session with ENODEV, which is Ok here, or with ECONNABORTED.
            let aborted = |error: &std::io::Error| error.raw_os_error() == Some(libc::ECONNABORTED);
            assert!(ended.unwrap().err().as_ref().is_none_or(aborted));
        }
    }
}

fn getxattr(path: &Path, name: &str) -> String {
    let mut value = [0; 100];
    let len = rustix::fs::getxattr(path, name, &mut value).unwrap();
    String::from_utf8(value[..len].to_vec()).unwrap()
}

/// Makes a directory with `s/a.asdf`, whose block 0 has 3 MiB, and a place to mount.
pub(crate) fn sources() -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..3u64 << 20).map(made).collect();
    fs::create_dir_all(dir.path().join("s/sub")).unwrap();
    fs::create_dir(dir.path().join("m")).unwrap();
    fs::write(dir.path().join("s/a.asdf"), [HEAD, &bytes].concat()).unwrap();
    fs::write(dir.path().join("s/sub/plain"), "plain").unwrap();
    (dir, bytes)
}

/// Returns `s/a.asdf` of [`sources`] as a local file, and as a file on a server in memory.
fn local_and_elsewhere(dir: &Path) -> [Named; 2] {
    let (server, path) = (FakeServer::new("server"), Path::new("s/a.asdf"));
    server.put(path, fs::read(dir.join(path)).unwrap());
    [Named::Local(dir.join(path)), Named::Elsewhere(server.place(path))]
}

#[test]
fn a_file_is_read_through_the_kernel() {
    let (dir, bytes) = sources();
    for source in local_and_elsewhere(dir.path()) {
        is_read_through_the_kernel(&Mount::new(source, &dir.path().join("m")), &bytes);
    }
}

fn is_read_through_the_kernel(mount: &Mount, bytes: &[u8]) {
    assert_eq!(fs::read(mount.path("tree.yaml")).unwrap(), HEAD);
    assert!(fs::read(mount.path("blocks/0.bin")).unwrap() == bytes);
    let mut part = vec![0; 70_000];
    let block = File::open(mount.path("blocks/0.bin")).unwrap();
    block.read_exact_at(&mut part, 1_234_567).unwrap();
    assert!(part == bytes[1_234_567..1_304_567]);
    // A file read past the kernel's cache can still be mapped.
    // SAFETY: nothing else writes to the file of this test while it is mapped.
    let map = unsafe { memmap2::Mmap::map(&block) }.unwrap();
    assert!(map[..] == *bytes);
    drop(map);

    // A broken block gives exactly its good prefix, then EIO.
    let mut broken = File::open(mount.path("blocks/1.bin")).unwrap();
    assert_eq!(broken.metadata().unwrap().len(), LARGE);
    let mut good = Vec::new();
    let error = broken.read_to_end(&mut good).unwrap_err();
    assert_eq!((good.len() as u64, error.raw_os_error()), (GOOD, Some(libc::EIO)));
    assert!(good.iter().zip(0..).all(|(byte, at)| *byte == made(at)));
    // A panic affects only one reader.
    for _ in 0..4 {
        let error = File::open(mount.path("blocks/2.bin")).unwrap().read(&mut [0; 9]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }
    let sound: Vec<u8> = (0..100_000).map(made).collect();
    assert!(fs::read(mount.path("blocks/3.bin")).unwrap() == sound);

    assert_eq!(names(&mount.at), [".asdf-mount", "blocks", "index.html", "tree.yaml"]);
    assert_eq!(names(&mount.path("blocks")).len(), 5);
    for name in [".asdf-mount/status.yaml", ".asdf-mount/blocks.yaml"] {
        let path = mount.path(name);
        assert_eq!(path.metadata().unwrap().len(), fs::read(&path).unwrap().len() as u64, "{name}");
    }
    assert_eq!(getxattr(&mount.at, "user.asdf-mount.pid"), std::process::id().to_string());
    assert_eq!(getxattr(&mount.path("blocks/3.bin"), "user.stand.data_size"), "100000");
    assert_eq!(getxattr(&mount.path("blocks/3.bin"), "user.stand.verified"), "stored");
    let mut short = [0; 2];
    let error =
        rustix::fs::getxattr(mount.path("blocks/3.bin"), "user.stand.data_size", &mut short).unwrap_err();
    assert_eq!(error, rustix::io::Errno::RANGE);
    let error = rustix::fs::getxattr(mount.path("tree.yaml"), "user.none", &mut short).unwrap_err();
    assert_eq!(error, rustix::io::Errno::NODATA);
    for path in ["tree.yaml", "new"] {
        let error = File::options().create(true).append(true).open(mount.path(path)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EROFS));
    }
}

#[test]
fn a_header_before_stored_bytes_is_read_and_mapped_as_one_file() {
    let (dir, bytes) = sources();
    let whole = [&HEADER[..], &bytes].concat();
    for source in local_and_elsewhere(dir.path()) {
        let mount = Mount::new(source.clone(), &dir.path().join("m"));
        let direct = is_read_and_mapped(&mount, &whole);
        // A truncated file gives no wrong bytes.
        let Named::Local(path) = source else { continue };
        File::options().write(true).open(path).unwrap().set_len(1 << 20).unwrap();
        let mut buf = vec![0; 300_000];
        for at in [2 << 20, 1 << 20] {
            if let Ok(read) = rustix::io::pread(&direct, &mut buf[..], at as u64) {
                assert!(buf[..read] == whole[at..][..read], "cut, at {at}");
            }
        }
    }
}

/// Reads block 4, and returns it open for direct I/O.
fn is_read_and_mapped(mount: &Mount, whole: &[u8]) -> OwnedFd {
    let path = mount.path("blocks/4.bin");
    assert_eq!(path.metadata().unwrap().len(), whole.len() as u64);
    let file = File::open(&path).unwrap();
    // SAFETY: nothing else writes to the file of this test while it is mapped.
    let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    assert!(map[..] == *whole);
    drop(map);
    assert!(fs::read(&path).unwrap() == whole);
    let mut buf = vec![0; 300_000];
    for at in [0, 1, 127, 128, 129, 4096, 1_000_003, whole.len() - 5, whole.len()] {
        let read = file.read_at(&mut buf, at as u64).unwrap();
        assert!(buf[..read] == whole[at..][..buf.len().min(whole.len() - at)], "at {at}");
    }
    // Direct I/O bypasses the kernel's cache and shows the replies unchanged.
    let direct = rustix::fs::open(&path, rustix::fs::OFlags::DIRECT, rustix::fs::Mode::empty()).unwrap();
    for at in [0, 100, 128, 100_001] {
        let read = rustix::io::pread(&direct, &mut buf[..], at as u64).unwrap();
        assert!(buf[..read] == whole[at..][..buf.len()], "direct, at {at}");
    }
    direct
}

#[test]
fn what_is_made_of_a_block_is_verified_with_it_and_leaves_the_kernels_cache_with_it() {
    let (dir, _) = sources();
    for source in local_and_elsewhere(dir.path()) {
        is_verified_with_its_block(&source, &dir.path().join("m"));
    }
}

fn is_verified_with_its_block(source: &Named, at: &Path) {
    let is_eio = |path: &Path| fs::read(path).is_err_and(|error| error.raw_os_error() == Some(libc::EIO));
    {
        let mount = Mount::verifying(Verify::Always, source.clone(), at);
        assert!(is_eio(&mount.path("blocks/4.bin")));
        assert_eq!(fs::read(mount.path("blocks/3.bin")).unwrap().len(), 100_000);
        assert_eq!(fs::read(mount.path("tree.yaml")).unwrap(), HEAD);
    }
    let mount = Mount::verifying(Verify::FirstRead, source.clone(), at);
    let path = mount.path("blocks/4.bin");
    let file = File::open(&path).unwrap();
    let mut waited = 0;
    // Until the checksum mismatch is noticed, pages can be read, and they stay in the kernel's cache.
    while file.read_at(&mut [0; 4096], 4096).is_ok_and(|read| read == 4096) {
        assert!(waited < 200, "its pages are read for ever");
        waited += 1;
        sleep(Duration::from_millis(50));
    }
    assert!(is_eio(&path) && is_eio(&mount.path("blocks/0.bin")));
}

#[test]
fn a_stream_that_grows_is_followed_and_a_file_that_is_cut_gives_eio() {
    let (dir, bytes) = sources();
    let source = dir.path().join("s/a.asdf");
    let mount = Mount::new(source.clone(), &dir.path().join("m"));
    let mut block = File::open(mount.path("blocks/0.bin")).unwrap();
    block.seek(SeekFrom::End(0)).unwrap();
    File::options().append(true).open(&source).unwrap().write_all(b"more").unwrap();
    let (mut more, mut waited) = (String::new(), 0);
    while more.len() < 4 && waited < 100 {
        sleep(Duration::from_millis(50));
        waited += 1;
        // The kernel's cached size is updated when the block grows.
        assert!(block.metadata().unwrap().len() >= bytes.len() as u64);
        block.read_to_string(&mut more).unwrap();
    }
    assert_eq!(more, "more");
    // The size must be right at once: `tail` assumes truncation if the size is less than the bytes it has
    // read.
    assert_eq!(block.metadata().unwrap().len(), bytes.len() as u64 + 4);
    // The file is truncated during a read: no wrong bytes, and the mount survives.
    File::options().write(true).open(&source).unwrap().set_len(1 << 20).unwrap();
    let mut buf = vec![0; 1 << 16];
    for at in [2 << 20, (1 << 20) - 100] {
        match block.read_at(&mut buf, at) {
            Ok(read) => assert!(read <= 100 && buf[..read] == bytes[at as usize..][..read], "{read} at {at}"),
            Err(error) => assert!(matches!(error.raw_os_error(), Some(libc::EIO | libc::ESTALE)), "{error}"),
        }
    }
    assert_eq!(fs::read(mount.path("tree.yaml")).unwrap(), HEAD);
}

#[test]
fn a_directory_is_mirrored_also_by_a_mount_over_itself() {
    let (dir, bytes) = sources();
    let source = dir.path().join("s");
    let secret = source.join("link");
    std::os::unix::fs::symlink(source.join("sub/plain"), &secret).unwrap();
    for n in 0..3000 {
        fs::write(source.join(format!("sub/{n}")), "").unwrap();
    }
    for at in ["m", "s"] {
        let mount = Mount::new(source.clone(), &dir.path().join(at));
        assert!(fs::read(mount.path("a.asdf/blocks/0.bin")).unwrap() == bytes);
        assert_eq!(fs::read(mount.path("sub/plain")).unwrap(), b"plain");
        assert_eq!(fs::read(mount.path("link")).unwrap(), b"plain");
        assert_eq!(fs::read_link(mount.path("link")).unwrap(), Path::new("sub/plain"));
        for _ in 0..2 {
            let entries = fs::read_dir(mount.path("sub")).unwrap();
            let inodes: std::collections::HashSet<u64> =
                entries.map(|entry| entry.unwrap().metadata().unwrap().ino()).collect();
            assert_eq!(inodes.len(), 3001);
        }
    }
}

/// Returns all paths below a directory: the bytes of files, read with `read`, and the targets of links.
pub(crate) fn contents(top: &Path, read: impl Fn(&Path) -> Vec<u8>) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut ahead, mut found) = (vec![top.to_owned()], BTreeMap::new());
    while let Some(dir) = ahead.pop() {
        for name in names(&dir) {
            let path = dir.join(name);
            let bytes = match path.symlink_metadata().unwrap().file_type() {
                kind if kind.is_dir() => {
                    ahead.push(path.clone());
                    Vec::new()
                }
                kind if kind.is_symlink() => {
                    fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                }
                _ => read(&path),
            };
            found.insert(path.strip_prefix(top).unwrap().to_owned(), bytes);
        }
    }
    found
}
