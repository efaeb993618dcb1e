//! The catalogue's line of a file that is open.

use asdf_access::catalog::{self, Request};
use asdf_access::{File, Kind};

use crate::repository;
use common::site::Site;

#[test]
fn a_file_on_a_server_keeps_its_line() {
    let site = Site::web(|_, reply| reply);
    let url = site.server.url("/a.asdf");
    let sample = std::fs::read(repository("examples/sample.asdf")).unwrap();
    site.put("a.asdf", sample.clone());
    let mut expected = Vec::new();
    let take = &mut |line: catalog::Line| {
        expected.push(String::from_utf8(line.text).unwrap());
        Ok(())
    };
    catalog::each([url.clone().into()], &Request::default(), take).unwrap();
    let file = File::open(&url).unwrap();
    let line = || catalog::line(&file).map(|text| String::from_utf8(text).unwrap());
    assert_eq!(line().unwrap(), expected[0]);
    assert!(expected[0].contains("\"etag\":\"\\\"0-"), "{}", expected[0]);
    // Another version of the file.
    site.put("a.asdf", [&sample[..], b"\n"].concat());
    match line() {
        Ok(line) => assert_eq!(line, expected[0]),
        Err(error) => assert_eq!(error.kind(), Kind::Changed, "{error}"),
    }
}
