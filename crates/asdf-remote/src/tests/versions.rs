//! Objects that are written twice within a second: both versions have the same size, ETag and date.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use super::*;

/// Last-Modified of all versions.
const MODIFIED: i64 = 784_111_777;
const MODIFIED_AS_TEXT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// A server whose clock and object the test sets. Each version has the same validators.
struct Clocked {
    server: Server,
    data: Arc<Mutex<Arc<Vec<u8>>>>,
    /// Seconds since the change, by the server's clock.
    passed: Arc<AtomicI64>,
}

impl Clocked {
    fn start(first: Arc<Vec<u8>>, change: fn(Reply) -> Reply) -> Self {
        let data = Arc::new(Mutex::new(first));
        let passed = Arc::new(AtomicI64::new(0));
        let served = data.clone();
        let clock = passed.clone();
        let server = Server::start(move |request, _| {
            let bytes = served.lock().unwrap().clone();
            let second = 37 + clock.load(Ordering::Relaxed);
            let reply = Reply::part(&bytes, "\"2ebd1b81-64\"", request)
                .with("Date", &format!("Sun, 06 Nov 1994 08:49:{second} GMT"));
            assert!(!reply.body.is_empty() || reply.status != 206);
            change(reply)
        });
        Self { server, data, passed }
    }

    fn put(&self, data: &Arc<Vec<u8>>) {
        *self.data.lock().unwrap() = data.clone();
    }

    /// Sets the clock of the server.
    fn pass(&self, seconds: i64) {
        self.passed.store(seconds, Ordering::Relaxed);
    }

    fn url(&self) -> String {
        self.server.url("/x")
    }
}

/// Returns a second version of data: with other bytes from an offset on.
fn other(data: &[u8], from: usize) -> Arc<Vec<u8>> {
    let mut bytes = data.to_vec();
    for byte in &mut bytes[from..] {
        *byte ^= 0x55;
    }
    Arc::new(bytes)
}

fn all(source: &Arc<dyn Source>, len: usize) -> Vec<u8> {
    read(source, 0, len).unwrap()
}

#[test]
fn nothing_is_kept_on_disk_within_the_second_of_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let first = data(1000);
    let cached = || {
        let cache_dir = Some(dir.path().to_owned());
        remote(RemoteOptions { cache_dir, stat_lifetime: Duration::ZERO, ..options() })
    };
    let kept = || std::fs::read_dir(dir.path()).unwrap().count();
    let site = Clocked::start(first.clone(), |reply| reply);
    assert_eq!(MODIFIED_AS_TEXT, Reply::part(b"x", "", &Request::default()).headers[1].1);
    assert_eq!(date::http(MODIFIED_AS_TEXT), Some(MODIFIED));
    let source = open(&cached(), &site.url()).unwrap();
    assert_eq!((all(&source, 1000), kept()), (first.to_vec(), 0));
    let second = other(&first, 500);
    site.put(&second);
    assert_eq!(all(&open(&cached(), &site.url()).unwrap(), 1000), second[..]);
    assert_eq!(kept(), 0);
    // A second later the version is kept.
    site.pass(1);
    assert_eq!(all(&open(&cached(), &site.url()).unwrap(), 1000), second[..]);
    assert_eq!(kept(), 2);
    let later = cached();
    assert_eq!(all(&open(&later, &site.url()).unwrap(), 1000), second[..]);
    assert_eq!((later.stats().bytes, later.stats().disk_hits), (0, 1));
}

#[test]
fn blocks_in_memory_are_of_one_version() {
    let first = data(3 * MIB);
    // The change is in the first bytes, or behind them.
    for from in [10, 2 * MIB] {
        let site = Clocked::start(first.clone(), |reply| reply);
        let remote = remote(RemoteOptions { stat_lifetime: Duration::ZERO, ..options() });
        let old = open(&remote, &site.url()).unwrap();
        assert_eq!(read(&old, 0, 100).unwrap(), first[..100]);
        let second = other(&first, from);
        site.put(&second);
        site.pass(1);
        match read(&old, 2 * MIB, 100) {
            Ok(bytes) => {
                assert_eq!(from, 2 * MIB);
                assert_eq!(bytes, second[2 * MIB..][..100]);
                assert!(all(&old, 3 * MIB) == second[..]);
            }
            Err(error) => {
                assert_eq!((from, error.errno()), (10, libc::ESTALE));
                assert_eq!(read(&old, 0, 100).unwrap(), first[..100], "what was read stays");
            }
        }
        assert!(all(&open(&remote, &site.url()).unwrap(), 3 * MIB) == second[..]);
    }
}

#[test]
fn a_recent_object_that_does_not_change_is_asked_for_its_first_bytes_once_more() {
    let dir = tempfile::tempdir().unwrap();
    let data = data(3 * MIB);
    let site = Clocked::start(data.clone(), |reply| reply);
    let cached = || remote(RemoteOptions { cache_dir: Some(dir.path().to_owned()), ..options() });
    let source = open(&cached(), &site.url()).unwrap();
    site.pass(1);
    assert!(all(&source, data.len()) == data[..]);
    let ranges: Vec<_> = site.server.requests().iter().map(|request| request.range().unwrap()).collect();
    let first = FIRST as usize;
    assert_eq!(ranges, [(0, first), (0, first), (first, 3 * MIB)]);
    // The blocks were proven, so they are kept.
    await_files(dir.path(), 3 * 16 + 1);
    let later = cached();
    assert!(all(&open(&later, &site.url()).unwrap(), data.len()) == data[..]);
    assert_eq!((later.stats().bytes, later.stats().disk_hits), (0, 3 * 16));
}

#[test]
fn a_change_that_leaves_the_validators_is_seen_by_stat() {
    let first = data(1000);
    let site = Clocked::start(first.clone(), |reply| reply);
    let remote = remote(RemoteOptions { stat_lifetime: Duration::ZERO, ..options() });
    let stat = || match remote.stat(&address(&site.url()), Trust::Mounted).unwrap() {
        RemoteStat::File(stat) => stat,
        RemoteStat::Directory => panic!("a file"),
    };
    let before = stat();
    assert_eq!(stat(), before);
    site.put(&other(&first, 999));
    let after = stat();
    assert_ne!(after.version, before.version);
    site.pass(1);
    assert_eq!(stat().version, after.version, "the same bytes, now proven");
    assert_eq!(stat().version, after.version);
    let asked = site.server.requests();
    let last: Vec<_> = asked.iter().rev().take(2).map(|request| request.range().unwrap()).collect();
    assert!(last.contains(&(0, 1)), "a proven version is asked for with a byte: {last:?}");
}

#[test]
fn a_clock_that_stands_proves_nothing() {
    let site = Clocked::start(data(3 * MIB), |reply| reply);
    let quick = RemoteOptions { read_timeout: Duration::from_millis(300), ..options() };
    let source = open(&remote(quick), &site.url()).unwrap();
    let error = read(&source, 2 * MIB, 10).unwrap_err();
    assert_eq!(error.errno(), libc::EIO);
    assert!(error.to_string().contains("clock"), "{error}");
    assert_eq!(read(&source, 0, 10).unwrap(), data(10)[..]);
}

#[test]
fn a_time_of_modification_in_the_far_future_proves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let later = |reply: Reply| reply.with("Last-Modified", "Sun, 06 Nov 2094 08:49:37 GMT");
    let site = Clocked::start(data(3 * MIB), later);
    let cached = remote(RemoteOptions { cache_dir: Some(dir.path().to_owned()), ..options() });
    let source = open(&cached, &site.url()).unwrap();
    assert_eq!(read(&source, 2 * MIB, 10).unwrap(), data(3 * MIB)[2 * MIB..][..10]);
    assert_eq!((site.server.count(), std::fs::read_dir(dir.path()).unwrap().count()), (2, 0));
}

#[test]
fn without_a_date_another_reply_proves_a_recent_version() {
    let site = Clocked::start(data(3 * MIB), |reply| {
        reply.without("Date").with("Last-Modified", "Sun, 06 Nov 2094 08:49:37 GMT")
    });
    let source = open(&remote(options()), &site.url()).unwrap();
    assert_eq!(read(&source, 2 * MIB, 10).unwrap(), data(3 * MIB)[2 * MIB..][..10]);
    assert_eq!(site.server.count(), 3);
}

#[test]
fn without_a_time_of_modification_nothing_is_kept_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let site = Clocked::start(data(3 * MIB), |reply| reply.without("Last-Modified"));
    let cached = remote(RemoteOptions { cache_dir: Some(dir.path().to_owned()), ..options() });
    let source = open(&cached, &site.url()).unwrap();
    assert!(all(&source, 3 * MIB) == data(3 * MIB)[..]);
    assert_eq!((site.server.count(), std::fs::read_dir(dir.path()).unwrap().count()), (2, 0));
}

#[test]
fn a_digest_of_a_bucket_is_proven_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let site = Clocked::start(data(10), |reply| reply.with("ETag", "\"d41d8cd98f00b204e9800998ecf8427e\""));
    let endpoint = Some(site.server.url(""));
    let cache_dir = Some(dir.path().to_owned());
    let cached = remote(RemoteOptions { endpoint, cache_dir, ..options() });
    open(&cached, "s3://abc/x").unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn a_revision_has_no_validators_that_prove_nothing() {
    let site = Clocked::start(data(10), |reply| reply);
    let remote = Arc::new(remote(options()));
    let revision = || {
        let source = remote.open_with_others(&address(&site.url()), Trust::Mounted).unwrap();
        source.revision().unwrap()
    };
    assert_eq!((revision().etag, revision().mtime), (None, Some((MODIFIED, 0))));
    site.pass(1);
    let other = Arc::new(super::remote(options()));
    let source = other.open_with_others(&address(&site.url()), Trust::Mounted).unwrap();
    assert!(source.revision().unwrap().etag.is_some());
}
