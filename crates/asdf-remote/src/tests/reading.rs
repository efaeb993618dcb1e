//! Sizes, blocks, sequential and concurrent readers, the caches.

use super::*;

#[test]
fn one_request_opens_an_object_and_tells_its_size() {
    let first = FIRST as usize;
    for len in [1, 100, first - 1, first, first + 1, 3 * MIB] {
        let data = data(len);
        let server = serve(&data, |_, _, reply| reply);
        let remote = remote(options());
        let source = open(&remote, &server.url("/x")).unwrap();
        let stat = source.stat().unwrap();
        assert_eq!((stat.size, stat.mtime), (len as u64, (784_111_777, 0)));
        assert!(source.is_slow());
        assert_eq!(read(&source, 0, 100).unwrap(), data[..len.min(100)]);
        assert_eq!(read(&source, len - 1, 100).unwrap(), data[len - 1..]);
        assert!(read(&source, len, 100).unwrap().is_empty());
        assert_eq!(source.read_at(u64::MAX, &mut [0]).unwrap(), 0);
        let requests = server.requests();
        assert_eq!(requests.len(), if len > first { 2 } else { 1 });
        assert!(requests.iter().all(|request| request.method == "GET"));
        assert_eq!(requests[0].header("range"), format!("bytes=0-{}", first - 1));
        assert_eq!(requests[0].header("accept-encoding"), "identity");
        let rest = |request: &Request| request.header("if-match") == "\"v1\"" && request.range().is_some();
        assert!(requests[1..].iter().all(rest));
        assert_eq!(read(&source, 0, len + 1).unwrap(), data[..]);
    }
}

#[test]
fn an_empty_object_has_no_bytes() {
    let empty = data(0);
    for ranges in [true, false] {
        let server = serve(&empty, move |_, _, reply| if ranges { reply } else { Reply::status(200) });
        let remote = remote(options());
        let source = open(&remote, &server.url("/x")).unwrap();
        assert_eq!((source.stat().unwrap().size, read(&source, 0, 10).unwrap()), (0, vec![]));
        assert_eq!(server.count(), 1);
    }
}

#[test]
fn stat_and_open_are_one_request() {
    let server = serve(&data(10), |_, _, reply| reply);
    let remote = remote(RemoteOptions { stat_lifetime: Duration::from_secs(600), ..options() });
    let place = address(&server.url("/x"));
    let RemoteStat::File(stat) = remote.stat(&place, Trust::Mounted).unwrap() else { panic!("a file") };
    let source = remote.open(&place, Trust::Mounted).unwrap();
    assert_eq!(source.stat().unwrap(), stat);
    assert_eq!(server.count(), 1);
}

#[test]
fn random_reads_cost_one_block_each() {
    let data = data(60 * MIB);
    let server = serve(&data, |_, _, reply| reply);
    let remote = remote(options());
    let source = open(&remote, &server.url("/x")).unwrap();
    for n in 1..20 {
        let at = n * 3 * MIB + 5000 * n;
        assert_eq!(read(&source, at, 4096).unwrap(), data[at..at + 4096]);
        assert_eq!(read(&source, at + 100, 4096).unwrap(), data[at + 100..at + 4196]);
    }
    let stats = remote.stats();
    // A read may lie in two blocks of 64 KiB.
    assert_eq!((server.count(), stats.requests), (20, 20));
    assert!(stats.bytes <= MIB as u64 + 20 * (128 << 10), "{stats:?}");
}

#[test]
fn sequential_reads_use_large_requests() {
    let data = data(100 * MIB);
    let server = serve(&data, |_, _, reply| reply);
    let remote = remote(options());
    let source = open(&remote, &server.url("/x")).unwrap();
    for at in (0..data.len()).step_by(MIB / 4) {
        assert!(read(&source, at, MIB / 4).unwrap() == data[at..at + MIB / 4], "{at}");
    }
    let lens = server
        .requests()
        .iter()
        .map(|request| request.range().map_or(0, |(at, end)| end - at))
        .collect::<Vec<_>>();
    assert!(lens.iter().all(|len| *len <= 8 * MIB), "{lens:?}");
    assert!(lens.iter().filter(|len| **len == 8 * MIB).count() >= 10, "{lens:?}");
    assert!(lens.len() <= 20, "{lens:?}");
    assert_eq!(remote.stats().bytes, data.len() as u64, "no byte is read twice");
}

#[test]
fn nothing_is_read_ahead_beyond_the_extent_of_a_read() {
    let data = data(40 * MIB);
    let server = serve(&data, |_, _, reply| reply);
    let remote = remote(options());
    let source = open(&remote, &server.url("/x")).unwrap();
    let extent = MIB as u64..9 * MIB as u64;
    for at in (MIB..9 * MIB).step_by(MIB / 8) {
        let mut bytes = vec![0; MIB / 8];
        source.read_within(extent.clone(), at as u64, &mut bytes).unwrap();
        assert!(bytes == data[at..at + bytes.len()], "{at}");
    }
    let last = server.requests().iter().filter_map(|request| request.range()).map(|(_, end)| end).max();
    assert_eq!((last, server.sent()), (Some(9 * MIB), FIRST + 8 * MIB as u64));
}

#[test]
fn a_file_has_at_most_eight_requests_in_flight() {
    let data = data(99 * MIB);
    let server = serve(&data, |_, _, mut reply| {
        reply.delay = Duration::from_millis(20);
        reply
    });
    let remote = remote(options());
    let source = open(&remote, &server.url("/x")).unwrap();
    std::thread::scope(|scope| {
        for n in 0..32 {
            let source = &source;
            let data = &data;
            scope.spawn(move || {
                let at = (2 + n * 3) * MIB + 7;
                assert_eq!(read(source, at, 4096).unwrap(), data[at..at + 4096]);
            });
        }
    });
    assert!((2..=8).contains(&server.most_busy()), "{}", server.most_busy());
    assert_eq!(server.count(), 33);
}

#[test]
fn readers_of_a_block_share_its_request() {
    let data = data(10 * MIB);
    let server = serve(&data, |_, _, mut reply| {
        reply.delay = Duration::from_millis(50);
        reply
    });
    let remote = remote(options());
    let source = open(&remote, &server.url("/x")).unwrap();
    std::thread::scope(|scope| {
        for n in 0..16 {
            let source = &source;
            let data = &data;
            scope.spawn(move || {
                let at = 5 * MIB + 1000 * n;
                assert_eq!(read(source, at, 4096).unwrap(), data[at..at + 4096]);
            });
        }
    });
    assert_eq!(server.count(), 2);
}

#[test]
fn without_threads_and_with_a_small_cache_everything_is_read() {
    let data = data(20 * MIB + 5);
    let server = serve(&data, |_, _, reply| reply);
    let remote = Remote::new(options(), Arc::new(Cache::new(1))).unwrap();
    let source = open(&remote, &server.url("/x")).unwrap();
    assert!(read(&source, 3, data.len()).unwrap() == data[3..]);
    source.will_need(0, u64::MAX);
    remote.start_threads();
    source.will_need(5 * MIB as u64, u64::MAX);
    assert!(read(&source, 3, data.len()).unwrap() == data[3..]);
}

#[test]
fn an_announced_range_is_read_ahead() {
    let data = data(30 * MIB);
    let server = serve(&data, |_, _, reply| reply);
    let remote = remote(options());
    let source = open(&remote, &server.url("/x")).unwrap();
    source.will_need(4 * MIB as u64, 10 * MIB as u64);
    let mut bytes = vec![0; 10 * MIB];
    source.read_within(4 * MIB as u64..14 * MIB as u64, 4 * MIB as u64, &mut bytes).unwrap();
    assert!(bytes == data[4 * MIB..14 * MIB]);
    assert_eq!(server.count(), 3);
}

#[test]
fn the_cache_on_disk_outlives_a_mount_and_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let data = data(5 * MIB + 9);
    let cached =
        |size| RemoteOptions { cache_dir: Some(dir.path().join("c")), cache_size: size, ..options() };
    let server = serve(&data, |_, _, reply| reply);
    let first = remote(cached(100 << 20));
    let source = open(&first, &server.url("/x?X-Amz-Signature=1")).unwrap();
    assert!(read(&source, 0, data.len()).unwrap() == data[..]);
    let before = server.count();
    await_files(&dir.path().join("c"), 5 * 16 + 2);
    let second = remote(cached(100 << 20));
    // A new signature is no other object.
    let source = open(&second, &server.url("/x?X-Amz-Signature=2")).unwrap();
    assert!(read(&source, 0, data.len()).unwrap() == data[..]);
    assert_eq!((server.count(), second.stats().disk_hits), (before + 1, 5 * 16 + 1));
    assert_eq!((server.requests()[before].header("if-none-match"), second.stats().bytes), ("\"v1\"", 0));
    // A damaged block is read again.
    for entry in std::fs::read_dir(dir.path().join("c")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let third = remote(cached(100 << 20));
    let source = open(&third, &server.url("/x")).unwrap();
    assert!(read(&source, 0, data.len()).unwrap() == data[..]);
    assert_eq!(third.stats().disk_hits, 0);
}

#[test]
fn other_files_in_the_cache_on_disk_are_no_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let data = data(3 * MIB + 9);
    let path = dir.path().join("c");
    let cached = || RemoteOptions { cache_dir: Some(path.clone()), ..options() };
    let server = serve(&data, |_, _, reply| reply);
    let replace: [fn(&std::path::Path); 2] = [
        |file| std::fs::create_dir(file).unwrap(),
        |file| std::os::unix::fs::symlink("/etc/passwd", file).unwrap(),
    ];
    for replace in replace {
        let source = open(&remote(cached()), &server.url("/x")).unwrap();
        assert!(read(&source, 0, data.len()).unwrap() == data[..]);
        for entry in std::fs::read_dir(&path).unwrap() {
            let file = entry.unwrap().path();
            let _ = std::fs::remove_file(&file).or_else(|_| std::fs::remove_dir(&file));
            replace(&file);
        }
        let source = open(&remote(cached()), &server.url("/x")).unwrap();
        assert!(read(&source, 0, data.len()).unwrap() == data[..]);
    }
}

#[test]
fn a_version_without_a_strong_tag_is_not_kept_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let data = data(100);
    let cached = || RemoteOptions { cache_dir: Some(dir.path().to_owned()), ..options() };
    let server = serve(&data, |_, _, reply| reply.with("ETag", "W/\"v1\""));
    open(&remote(cached()), &server.url("/x")).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
