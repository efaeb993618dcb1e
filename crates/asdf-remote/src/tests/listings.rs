//! Directories of buckets and of web servers.

use super::*;

fn page(inner: &str) -> Reply {
    let text = format!("<ListBucketResult><EncodingType>url</EncodingType>{inner}</ListBucketResult>");
    Reply::status(200).body("application/xml", &text)
}

fn bucket(server: &Server) -> Remote {
    remote(RemoteOptions { endpoint: Some(server.url("")), ..options() })
}

fn names(remote: &Remote, directory: &str) -> Vec<String> {
    let listing = remote.list(&address(directory), Trust::Mounted);
    listing.map(|entry| entry.unwrap().name).collect()
}

#[test]
fn a_bucket_is_listed_by_pages_as_far_as_it_is_asked_for() {
    let server = Server::start(|request, _| {
        if request.target.contains("continuation-token=t%2B1") {
            page(
                "<CommonPrefixes><Prefix>p/a/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>p/../</Prefix>\
             </CommonPrefixes><Contents><Key>p/a</Key></Contents><Contents><Key>p/.</Key></Contents>",
            )
        } else {
            page(
                "<IsTruncated>true</IsTruncated><NextContinuationToken>t+1</NextContinuationToken>\
             <Contents><Key>p/a</Key><Size>7</Size><ETag>\"x\"</ETag></Contents>\
             <Contents><Key>p/%0A%25</Key></Contents>",
            )
        }
    });
    let remote = bucket(&server);
    let mut listing = remote.list(&address("s3://abc/p/"), Trust::Mounted);
    assert_eq!(server.count(), 0);
    let first = listing.next().unwrap().unwrap();
    assert_eq!((&*first.name, first.size, first.tag.as_deref()), ("a", Some(7), Some("\"x\"")));
    assert_eq!(server.count(), 1);
    let rest: Vec<_> = listing.map(|entry| entry.unwrap()).collect();
    let shown: Vec<_> = rest.iter().map(|entry| (&*entry.name, entry.address.to_string())).collect();
    let wanted = [
        ("%0A%25", "s3://abc/p/\n%"),
        ("a%-", "s3://abc/p/a/"),
        ("%2E%2E", "s3://abc/p/../"),
        ("%2E", "s3://abc/p/."),
    ];
    assert_eq!(shown, wanted.map(|(name, address)| (name, address.to_owned())));
    assert_eq!(server.count(), 2);
    let target = &server.requests()[0].target;
    assert_eq!(target, "/abc/?delimiter=%2F&encoding-type=url&list-type=2&prefix=p%2F");
    for entry in rest {
        let child = remote.child(&address("s3://abc/p/"), entry.name.as_ref()).unwrap();
        assert_eq!(
            (child == entry.address, child.is_directory()),
            (entry.name != "%2E%2E", entry.name == "a%-")
        );
    }
}

#[test]
fn strange_keys_are_left_out() {
    let server = Server::start(|_, _| {
        let long = "x".repeat(1000);
        page(&format!(
            "<Contents><Key>p/{long}</Key></Contents><Contents><Key>p/</Key></Contents><Contents><Key>p/b/c</Key>\
             </Contents><Contents><Key>q</Key></Contents><Contents><Key>p/%FF</Key></Contents>\
             <Contents><Key>p/b</Key></Contents><Contents><Key>p/b</Key></Contents>"
        ))
    });
    assert_eq!(names(&bucket(&server), "s3://abc/p"), ["b"]);
}

#[test]
fn a_listing_that_never_ends_is_an_error() {
    let again = "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>";
    let server = Server::start(move |_, _| page(again));
    let remote = bucket(&server);
    let mut listing = remote.list(&address("s3://abc/p/"), Trust::Mounted);
    assert_eq!(errno(listing.next().unwrap()), libc::EIO);
    assert!(listing.next().is_none());
    assert_eq!(server.count(), 2);
    // Each page has another token, but no new name.
    for inner in ["", "<Contents><Key>p/a</Key></Contents>"] {
        let server = Server::start(move |_, number| {
            let token = format!("<NextContinuationToken>{number}</NextContinuationToken>");
            page(&format!("<IsTruncated>true</IsTruncated>{token}{inner}"))
        });
        let last = bucket(&server).list(&address("s3://abc/p/"), Trust::Mounted).last().unwrap();
        assert_eq!(errno(last), libc::EIO);
        assert!(server.count() < 200, "{}", server.count());
    }
}

#[test]
fn replies_that_are_no_listing_are_errors() {
    for (kind, body) in [
        (
            "application/xml",
            "<!DOCTYPE l [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]><ListBucketResult>&b;</ListBucketResult>",
        ),
        ("application/xml", "<Error/>"),
        ("text/html", "<title>Welcome</title>"),
        ("text/plain", "Index of"),
    ] {
        let server = Server::start(move |_, _| Reply::status(200).body(kind, body));
        for directory in ["s3://abc/p/".to_owned(), server.url("/")] {
            let mut listing = bucket(&server).list(&address(&directory), Trust::Mounted);
            assert_eq!(errno(listing.next().unwrap()), libc::EIO, "{body}");
            assert!(listing.next().is_none());
        }
    }
    let server = Server::start(|_, _| Reply::status(403));
    assert_eq!(
        errno(bucket(&server).list(&address("s3://abc/"), Trust::Mounted).next().unwrap()),
        libc::EACCES
    );
}

#[test]
fn a_prefix_is_a_directory_and_a_key_a_file() {
    let server = Server::start(|request, _| match request.target.as_str() {
        "/abc/key" => Reply::part(b"data", "\"v\"", request),
        target if target.contains("prefix=dir%2F") => page("<Contents><Key>dir/x</Key></Contents>"),
        target if target.contains("list-type") => page(""),
        _ => Reply::status(404).body("application/xml", "<Error><Code>NoSuchKey</Code></Error>"),
    });
    let remote = bucket(&server);
    let stat = |text: &str| remote.stat(&address(text), Trust::Mounted);
    assert!(matches!(stat("s3://abc/key"), Ok(RemoteStat::File(stat)) if stat.size == 4));
    assert_eq!(stat("s3://abc/dir"), Ok(RemoteStat::Directory));
    assert_eq!(stat("s3://abc/"), Ok(RemoteStat::Directory));
    let error = stat("s3://abc/none").unwrap_err();
    assert!(error.errno() == libc::ENOENT && error.to_string().contains("NoSuchKey"), "{error}");
    assert!(server.requests().iter().all(|request| request.header("authorization").is_empty()));
}

#[test]
fn an_index_page_is_a_directory() {
    let server = Server::start(|request, _| {
        match request.target.as_str() {
        "/d" => Reply::status(301).with("Location", "/d/"),
        "/d/" => Reply::status(200).body(
            "text/html",
            "<html><head><title>Index of /d/</title></head><pre><a href=\"../\">../</a>\
             <a href=\"x.asdf\">x.asdf</a> 06-Nov-1994 08:49  4\n<a href=\"x.asdf/\">x</a><a href=\"a%2520b\">b</a>",
        ),
        "/d/a%2520b" => Reply::part(b"data", "\"v\"", request),
        _ => Reply::status(404),
    }
    });
    let remote = remote(options());
    assert_eq!(remote.stat(&address(&server.url("/d")), Trust::Mounted), Ok(RemoteStat::Directory));
    assert_eq!(errno(remote.open(&address(&server.url("/d")), Trust::Mounted)), libc::EISDIR);
    assert_eq!(errno(remote.stat(&address(&server.url("/e")), Trust::Mounted)), libc::ENOENT);
    assert_eq!(names(&remote, &server.url("/d/")), ["x.asdf", "x.asdf%-", "a%2520b"]);
    let child = remote.child(&address(&server.url("/d/")), "a%2520b".as_ref()).unwrap();
    assert_eq!(remote.open(&child, Trust::Mounted).unwrap().stat().unwrap().size, 4);
}
