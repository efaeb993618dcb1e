//! Several short ranges at once.

use std::ops::Range;

use super::*;

/// Returns short ranges far from each other.
fn ranges(count: u64) -> Vec<Range<u64>> {
    (0..count).map(|n| 600_000 + n * 70_001..600_100 + n * 70_001 + n).collect()
}

fn check(source: &Arc<dyn Source>, data: &[u8], ranges: &[Range<u64>]) {
    let read = source.read_ranges(ranges).unwrap();
    for (range, bytes) in ranges.iter().zip(read) {
        assert!(bytes == data[range.start as usize..range.end as usize], "{range:?}");
    }
}

#[test]
fn a_server_that_sends_several_ranges_is_asked_once() {
    let data = data(20 * MIB);
    let server = serve(&data, |_, _, reply| reply);
    let remote = remote(options());
    let source = open(&remote, &server.url("/x")).unwrap();
    // A HEAD request shows what the server can do.
    check(&source, &data, &ranges(57));
    assert_eq!(server.count(), 3);
    assert_eq!(server.requests()[1].method, "HEAD");
    check(&source, &data, &ranges(250));
    assert_eq!(server.count(), 3 + 3);
    assert!(server.requests()[1..].iter().all(|request| request.header("if-match") == "\"v1\""));
    // Bytes in memory are not requested, nor those beyond the end.
    let read = source.read_ranges(&[7..9, (20 << 20) - 3..u64::MAX, u64::MAX..u64::MAX]).unwrap();
    assert_eq!(read.iter().map(Vec::len).collect::<Vec<_>>(), [2, 3, 0]);
    assert_eq!(server.count(), 7);
}

#[test]
fn a_few_ranges_are_requested_at_once_without_a_probe() {
    let data = data(20 * MIB);
    let server = serve(&data, |_, _, reply| reply);
    let remote = remote(options());
    let source = open(&remote, &server.url("/x")).unwrap();
    check(&source, &data, &ranges(6));
    assert_eq!(server.count(), 1 + 6);
}

#[test]
fn a_server_that_sends_one_range_at_a_time_is_asked_for_each() {
    let data = data(20 * MIB);
    for way in 0..6 {
        let served = data.clone();
        let server = serve(&data, move |request, _, reply| match (request.ranges(), way) {
            // HEAD requests are not allowed, or fail.
            (Some(_), 4) => Reply::status(405),
            (Some(_), 5) => Reply::status(500),
            (None, _) => reply,
            (Some(_), 0) => Reply { body: served.to_vec(), ..reply.without("Content-Type").status_of(200) },
            (Some(_), 1) => Reply::status(416),
            (Some(_), 2) => Reply::status(400),
            (Some(ranges), _) => {
                let mut request = request.clone();
                let (first, last) = (ranges[0].start, ranges[0].end - 1);
                request.headers.insert("range".into(), format!("bytes={first}-{last}"));
                Reply::part(&served, "\"v1\"", &request)
            }
        });
        let remote = remote(options());
        let source = open(&remote, &server.url("/x")).unwrap();
        check(&source, &data, &ranges(30));
        assert_eq!(server.count(), 1 + 1 + 30, "{way}");
        // Nothing else was sent.
        let wanted: u64 = ranges(30).iter().map(|range| range.end - range.start).sum();
        assert!(server.sent() <= (256 << 10) + wanted, "{way}: {} bytes", server.sent());
        // It is not asked for several again.
        check(&source, &data, &ranges(40)[30..]);
        assert_eq!(server.count(), 1 + 1 + 30 + 10, "{way}");
    }
}

#[test]
fn a_reply_that_is_wrong_is_an_error() {
    let data = data(20 * MIB);
    for way in 0..3 {
        let server = serve(&data, move |request, _, mut reply| {
            if request.ranges().is_some() {
                match way {
                    0 => reply.body.truncate(reply.body.len() - 9),
                    1 => reply = reply.with("ETag", "\"v2\""),
                    _ => reply.body = vec![b'x'; 20 * MIB],
                }
            }
            reply
        });
        let remote = remote(RemoteOptions { read_timeout: Duration::from_secs(1), ..options() });
        let source = open(&remote, &server.url("/x")).unwrap();
        let expected = if way == 1 { libc::ESTALE } else { libc::EIO };
        assert_eq!(errno(source.read_ranges(&ranges(9))), expected, "{way}");
    }
}

#[test]
fn facts_are_kept_for_a_version() {
    let (dir, data) = (tempfile::tempdir().unwrap(), data(100));
    let cached = || remote(RemoteOptions { cache_dir: Some(dir.path().to_owned()), ..options() });
    let server = serve(&data, |_, _, reply| reply);
    let first = cached();
    let source = open(&first, &server.url("/x")).unwrap();
    let long = vec![7; 200_000];
    source.keep("short", b"fact");
    source.keep("long", &long);
    let later = cached();
    let source = open(&later, &server.url("/x")).unwrap();
    assert_eq!((source.kept("short").unwrap(), source.kept("long").unwrap()), (b"fact".to_vec(), long));
    assert_eq!(source.kept("other"), None);
    let changed = serve(&data, |_, _, reply| reply.with("ETag", "\"v2\""));
    assert_eq!(open(&cached(), &changed.url("/x")).unwrap().kept("short"), None);
}
