//! Servers that send what they should not, and redirects.

use super::*;

/// Opens an object and reads its third block; all replies, or only those after the first, are spoiled.
fn fails(later: bool, spoil: impl Fn(Reply) -> Reply + Send + Sync + 'static) -> seekable::error::Error {
    let server = serve(
        &data(3 * MIB),
        move |_, number, reply| if number == 0 && later { reply } else { spoil(reply) },
    );
    let remote = remote(RemoteOptions { read_timeout: Duration::from_secs(5), ..options() });
    let error = match open(&remote, &server.url("/x")) {
        Ok(source) if later => read(&source, 2 * MIB, 10).unwrap_err(),
        Ok(source) => panic!("opened {source:?}"),
        Err(error) => error,
    };
    assert_eq!(server.count(), 1 + usize::from(later), "{error}: no retry");
    error
}

#[test]
fn replies_that_are_no_ranges_are_refused_with_the_reason() {
    for later in [false, true] {
        let whole = fails(later, |reply| Reply { status: 200, ..reply }.without("Content-Range"));
        assert!(whole.to_string().contains("does not support ranges"), "{whole}");
        let encoded = fails(later, |reply| reply.with("Content-Encoding", "gzip"));
        assert!(encoded.to_string().contains("Content-Encoding: gzip"), "{encoded}");
        for range in [
            "",
            "bytes",
            "bytes 7-16/3145728",
            "bytes 0-3145727/3145728",
            "bytes 5-2/9",
            "bytes 0-9/*",
            "bytes */9",
            "bytes 0-18446744073709551615/18446744073709551616",
            "bytes 1-1/2",
        ] {
            let error = fails(later, move |reply| reply.with("Content-Range", range));
            let wanted = if later && range.contains("/2") { libc::ESTALE } else { libc::EIO };
            let wanted = if range == "bytes 1-1/2" && !later { libc::EIO } else { wanted };
            assert_eq!(error.errno(), wanted, "{range}: {error}");
        }
        let none = fails(later, |reply| reply.without("Content-Range"));
        assert!(none.to_string().contains("Content-Range"), "{none}");
        let length = fails(later, |reply| {
            let len = reply.body.len();
            reply.with("Content-Length", &(len + 1).to_string())
        });
        assert!(length.to_string().contains("contradict"), "{length}");
    }
    let total = fails(true, |reply| reply.with("Content-Range", "bytes 2097152-3145727/3145729"));
    assert_eq!(total.errno(), libc::ESTALE);
}

#[test]
fn endless_bodies_and_headers_are_cut_off() {
    for later in [false, true] {
        let error = fails(later, |reply| reply.with("X-Long", &"x".repeat(1 << 20)));
        assert_eq!(error.errno(), libc::EIO, "{error}");
    }
    let error = fails(false, |reply| Reply { endless: true, ..reply });
    assert!(error.errno() == libc::EIO && error.to_string().contains("more bytes"), "{error}");
    // Later the announced bytes are used, and no others are read.
    let data = data(3 * MIB);
    let server = serve(&data, |_, number, reply| Reply { endless: number > 0, ..reply });
    let remote = remote(options());
    let source = open(&remote, &server.url("/x")).unwrap();
    assert_eq!(read(&source, 2 * MIB, 10).unwrap(), data[2 * MIB..2 * MIB + 10]);
    assert!(remote.stats().bytes < (2 * MIB + MIB / 2) as u64);
}

#[test]
fn what_is_not_http_gives_eio() {
    for (name, value) in
        [("Content-Length", "x"), ("Content-Length", "-1"), ("Transfer-Encoding", "x\r\n\0: y")]
    {
        let server = serve(&data(3), move |_, _, reply| reply.with(name, value));
        let quick = RemoteOptions { read_timeout: Duration::from_millis(300), ..options() };
        assert_eq!(errno(open(&remote(quick), &server.url("/x"))), libc::EIO, "{name}: {value}");
    }
}

#[test]
fn redirects_are_followed_a_few_times() {
    let data = data(2 * MIB);
    let last = serve(&data, |_, _, reply| reply);
    let target = last.url("/y");
    let first = Server::start(move |_, _| Reply::status(302).with("Location", &target));
    let source = open(&remote(options()), &first.url("/x")).unwrap();
    assert_eq!(read(&source, MIB, 10).unwrap(), data[MIB..MIB + 10]);
    let circle = Server::start(|_, _| Reply::status(301).with("Location", "/again?and=again"));
    let error = open(&remote(options()), &circle.url("/x")).unwrap_err();
    assert!(error.errno() == libc::EIO && error.to_string().contains("redirects more than"), "{error}");
    assert_eq!(circle.count(), 6);
    for location in ["", "file:///etc/passwd", "http://", "http://[::1", "gopher://x/", "x:y"] {
        let server = Server::start(move |_, _| Reply::status(307).with("Location", location));
        let error = open(&remote(options()), &server.url("/x")).unwrap_err();
        assert!(server.count() > 5 || error.errno() == libc::EIO, "{location}: {error}");
    }
    let none = Server::start(|_, _| Reply::status(302));
    assert_eq!(errno(open(&remote(options()), &none.url("/x"))), libc::EIO);
}

#[test]
fn the_login_goes_to_the_first_server_only() {
    let last = serve(&data(10), |_, _, reply| reply);
    let target = last.url("/y");
    let first = Server::start(move |request, _| match request.target.as_str() {
        "/x" => Reply::status(302).with("Location", "/z"),
        _ => Reply::status(302).with("Location", &target),
    });
    let url = first.url("/x").replace("http://", "http://me:secret@");
    let remote = remote(options());
    let source = open(&remote, &url).unwrap();
    let login = |server: &Server| {
        server.requests().iter().map(|at| at.header("authorization").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(login(&first), ["Basic bWU6c2VjcmV0", "Basic bWU6c2VjcmV0"]);
    assert_eq!(login(&last), [""]);
    let shown = format!("{source:?} {remote:?} {:?} {}", remote.stats(), source.path().display());
    assert!(!shown.contains("secret") && !shown.contains("bWU6"), "{shown}");
}

#[test]
fn errors_do_not_show_secrets() {
    let server = Server::start(|_, _| Reply::status(403));
    let url = server.url("/x?X-Amz-Signature=secret&token=secret").replace("http://", "http://me:secret@");
    let remote = remote(options());
    let error = open(&remote, &url).unwrap_err();
    let shown = format!("{error} {error:?} {:?} {:?}", remote.stats(), address(&url));
    assert!(
        error.to_string().contains("/x") && !shown.contains("secret=") && !shown.contains("=secret"),
        "{shown}"
    );
    assert!(!shown.contains(":secret"), "{shown}");
}

#[test]
fn strangers_do_not_lead_into_private_networks() {
    for location in [
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/x",
        "http://192.168.1.1/x",
        "http://[fd00:ec2::254]/x",
        "http://[::ffff:169.254.169.254]/x",
        "http://0251.0376.0251.0376/x",
        "http://2852039166/x",
        "http://0xa9fea9fe/x",
        "http://224.0.0.1/x",
    ] {
        let server = Server::start(move |_, _| Reply::status(302).with("Location", location));
        let error = open(&remote(options()), &server.url("/x")).unwrap_err();
        assert_eq!(error.errno(), libc::EACCES, "{location}: {error}");
        assert_eq!(server.count(), 1);
    }
}

#[test]
fn a_tree_leads_to_this_machine_only_if_the_mounted_url_is_here() {
    let server = serve(&data(10), |_, _, reply| reply);
    let port = server.url("").rsplit(':').next().unwrap().to_owned();
    for host in ["127.0.0.1", "localhost", "127.1", "0x7f000001"] {
        let named = address(&format!("http://me:secret@{host}:{port}/x"));
        let remote = remote(options());
        let error = remote.open(&named, Trust::Named).unwrap_err();
        assert!(error.errno() == libc::EACCES && error.to_string().contains("not contacted"), "{error}");
        assert_eq!(errno(remote.may_be_named(&named)), if host == "127.0.0.1" { libc::EACCES } else { 0 });
        let before = server.count();
        open(&remote, &server.url("/y")).unwrap();
        assert_eq!(server.count(), before + 1, "only the mounted URL was asked");
        assert_eq!(remote.open(&named, Trust::Named).unwrap().stat().unwrap().size, 10);
        remote.may_be_named(&named).unwrap();
        assert!(server.requests().iter().all(|request| request.header("authorization").is_empty()));
        let metadata = address("http://169.254.169.254/x");
        assert_eq!(errno(remote.open(&metadata, Trust::Named)), libc::EACCES);
    }
}
