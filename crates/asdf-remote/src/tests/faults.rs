//! Failures of the server and the network, and objects that change.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::*;

#[test]
fn a_busy_server_is_asked_again() {
    let data = data(3 * MIB);
    for status in [408, 425, 429, 500, 502, 503, 504, 507, 520] {
        let server = serve(&data, move |_, number, reply| match number % 2 {
            0 => Reply::status(status).with("Retry-After", "0"),
            _ => reply,
        });
        let remote = remote(options());
        let source = open(&remote, &server.url("/x")).unwrap();
        assert_eq!(read(&source, 2 * MIB, 10).unwrap(), data[2 * MIB..2 * MIB + 10]);
        let stats = remote.stats();
        assert_eq!((stats.retries, stats.requests, stats.errors), (2, 4, 2));
        assert!(stats.last_error.unwrap().1.contains(&status.to_string()));
    }
}

#[test]
fn a_server_that_is_busy_for_long_is_not_waited_for() {
    let server = serve(&data(3), |_, _, _| Reply::status(503).with("Retry-After", "3600"));
    let error = open(&remote(options()), &server.url("/x")).unwrap_err();
    assert_eq!((error.errno(), server.count()), (libc::EIO, 1));
    assert!(error.to_string().contains("503") && error.to_string().contains("/x"), "{error}");
}

#[test]
fn refusals_have_their_errno_and_are_final() {
    for (status, wanted) in [
        (401, libc::EACCES),
        (403, libc::EACCES),
        (404, libc::ENOENT),
        (410, libc::ENOENT),
        (400, libc::EIO),
        (501, libc::EIO),
        (505, libc::EIO),
        (204, libc::EIO),
    ] {
        let server = serve(&data(3), move |_, _, _| Reply::status(status));
        assert_eq!(errno(open(&remote(options()), &server.url("/x"))), wanted, "{status}");
        assert_eq!(server.count(), 1);
    }
}

#[test]
fn a_stalled_server_gives_eio_at_the_deadline() {
    let data = data(3 * MIB);
    for stall in [0, 1000] {
        let server = serve(&data, move |request, _, mut reply| {
            reply.stall = request.range().filter(|(first, _)| *first > 0).map(|_| stall);
            reply
        });
        for threads in [false, true] {
            let quick = RemoteOptions { read_timeout: Duration::from_millis(300), ..options() };
            let remote = Remote::new(quick, Arc::new(Cache::new(64 << 20))).unwrap();
            if threads {
                remote.start_threads();
            }
            let source = open(&remote, &server.url("/x")).unwrap();
            assert_eq!(errno(read(&source, 2 * MIB, 10)), libc::EIO);
            assert_eq!(
                read(&source, 10, 10).unwrap(),
                data[10..20],
                "blocks in memory are read all the same"
            );
            assert_eq!(source.stat().unwrap().size, 3 * MIB as u64);
        }
    }
}

#[test]
fn a_reader_gives_up_only_if_nothing_arrives() {
    let data = data(20 * MIB);
    let server = serve(&data, |_, _, reply| reply);
    let source = open(&remote(options()), &server.url("/x")).unwrap();
    // The program has waited for many requests, each of which was answered in time.
    let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
    seekable::workers::caller::on_behalf_of(None, long_ago, || {
        for n in 1..6 {
            assert_eq!(read(&source, n * 3 * MIB, 10).unwrap(), data[n * 3 * MIB..n * 3 * MIB + 10]);
        }
    });
}

#[test]
fn a_server_that_is_not_there_gives_eio() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let quick = RemoteOptions { read_timeout: Duration::from_millis(200), ..options() };
    let error = open(&remote(quick), &format!("http://127.0.0.1:{port}/x")).unwrap_err();
    assert_eq!(error.errno(), libc::EIO);
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn short_bodies_are_continued() {
    let data = data(4 * MIB);
    let server = serve(&data, |_, number, mut reply| {
        reply.cut = (number > 0).then_some(700_000);
        reply
    });
    let remote = remote(options());
    let source = open(&remote, &server.url("/x")).unwrap();
    assert!(read(&source, 0, data.len()).unwrap() == data[..]);
    assert!(server.count() <= 7, "{}", server.count());
    let starts: Vec<_> =
        server.requests().iter().filter_map(Request::range).map(|(first, _)| first).collect();
    assert!(starts.contains(&(FIRST as usize + 700_000)), "{starts:?}");
}

#[test]
fn shorter_ranges_than_asked_for_are_continued() {
    let data = data(4 * MIB);
    let served = data.clone();
    let server = Server::start(move |request, _| {
        let mut request = request.clone();
        let (first, end) = request.range().unwrap();
        let end = end.min(first + 600_000);
        request.headers.insert("range".into(), format!("bytes={first}-{}", end - 1));
        Reply::part(&served, "\"v1\"", &request)
    });
    let source = open(&remote(options()), &server.url("/x")).unwrap();
    assert!(read(&source, 0, data.len()).unwrap() == data[..]);
}

/// Serves an object whose version is that of a counter.
fn changing(etag: fn(usize) -> String, ignores_if_match: bool) -> (Server, Arc<AtomicUsize>) {
    let version = Arc::new(AtomicUsize::new(1));
    let current = version.clone();
    let data: Vec<_> =
        (1..4).map(|n| data(3 * MIB).iter().map(|byte| byte ^ n).collect::<Vec<u8>>()).collect();
    let server = Server::start(move |request, _| {
        let mut request = request.clone();
        if ignores_if_match {
            request.headers.remove("if-match");
        }
        let n = current.load(Ordering::Relaxed);
        let reply = Reply::part(&data[n - 1], &etag(n), &request);
        reply.with("Last-Modified", &format!("Sun, 0{n} Nov 1994 08:49:37 GMT"))
    });
    (server, version)
}

#[test]
fn a_changed_object_is_stale_and_the_new_one_can_be_opened() {
    let etags: [fn(usize) -> String; 3] =
        [|n| format!("\"v{n}\""), |n| format!("W/\"v{n}\""), |_| String::new()];
    for etag in etags {
        for ignores_if_match in [false, true] {
            let (server, version) = changing(etag, ignores_if_match);
            let remote = remote(RemoteOptions { stat_lifetime: Duration::ZERO, ..options() });
            let old = open(&remote, &server.url("/x")).unwrap();
            let before = old.stat().unwrap();
            let start = read(&old, 0, 10).unwrap();
            version.store(2, Ordering::Relaxed);
            assert_eq!(errno(read(&old, 2 * MIB, 10)), libc::ESTALE);
            assert_eq!(errno(read(&old, MIB, 10)), libc::ESTALE);
            assert_eq!(read(&old, 0, 10).unwrap(), start, "what was read stays");
            let after = old.stat().unwrap();
            assert!(after.version != before.version && after.size == before.size);
            let new = open(&remote, &server.url("/x")).unwrap();
            assert_eq!(new.stat().unwrap().version, old.stat().unwrap().version);
            assert_ne!(read(&new, 0, 10).unwrap(), start);
            assert_eq!(read(&new, 2 * MIB, 10).unwrap().len(), 10);
            // A state without a read is noticed, too.
            version.store(3, Ordering::Relaxed);
            assert_ne!(new.stat().unwrap().version, after.version);
        }
    }
}

#[test]
fn each_request_after_the_first_names_the_version() {
    let server = serve(&data(3 * MIB), |_, _, reply| reply);
    let remote = remote(RemoteOptions { stat_lifetime: Duration::ZERO, ..options() });
    let source = open(&remote, &server.url("/x")).unwrap();
    source.stat().unwrap();
    read(&source, 2 * MIB, 1).unwrap();
    open(&remote, &server.url("/x")).unwrap().stat().unwrap();
    let requests = server.requests();
    // The second opening asks for the state, and then for the first block.
    let named: Vec<_> = requests.iter().map(|request| request.header("if-match")).collect();
    assert!(named.len() > 3 && named[1..4] == ["\"v1\""; 3], "{requests:?}");
}

#[test]
fn an_object_that_is_gone_has_another_version() {
    let server =
        serve(&data(3 * MIB), |_, number, reply| if number == 0 { reply } else { Reply::status(404) });
    let remote = remote(RemoteOptions { stat_lifetime: Duration::ZERO, ..options() });
    let source = open(&remote, &server.url("/x")).unwrap();
    assert_eq!(errno(read(&source, 2 * MIB, 1)), libc::ENOENT);
    assert_eq!(source.stat().unwrap().size, 3 * MIB as u64);
    assert_eq!(errno(open(&remote, &server.url("/x"))), libc::ENOENT);
}

#[test]
fn a_state_is_asked_for_again_only_after_its_time() {
    let server = serve(&data(MIB * 2), |_, _, reply| reply);
    let remote = remote(RemoteOptions { stat_lifetime: Duration::from_secs(600), ..options() });
    let source = open(&remote, &server.url("/x")).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(5) {
        source.stat().unwrap();
    }
    assert_eq!(server.count(), 1);
}

#[test]
fn the_region_of_a_bucket_is_named() {
    let body = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>wrong</Message><Region>eu-west-1</Region></Error>";
    let replies: [fn(&str) -> Reply; 2] = [
        |body| Reply::status(400).body("application/xml", body),
        |_| Reply::status(301).with("x-amz-bucket-region", "eu-west-1"),
    ];
    for reply in replies {
        let server = Server::start(move |_, _| reply(body));
        let own = RemoteOptions { endpoint: Some(server.url("")), ..options() };
        let error = open(&remote(own), "s3://abc/x").unwrap_err();
        let said = error.message();
        assert!(
            said.contains("the bucket is in the region eu-west-1") && said.contains("-o region=eu-west-1"),
            "{said}"
        );
        assert_eq!((error.errno(), server.count()), (libc::EACCES, 1));
    }
    // AWS names the region in every refusal.
    let server = Server::start(|_, _| {
        Reply::status(403)
            .with("x-amz-bucket-region", "eu-west-1")
            .body("application/xml", "<Error><Code>AccessDenied</Code></Error>")
    });
    let own = RemoteOptions { endpoint: Some(server.url("")), ..options() };
    let error = open(&remote(own), "s3://abc/x").unwrap_err();
    assert!(error.message().contains("refuses access") && !error.message().contains("region"), "{error}");
}
