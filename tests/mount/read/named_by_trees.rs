//! Files on servers that a tree names.

use std::fs;
use std::path::Path;

use crate::on_servers::{errno, mount, run};
use common::mount::fresh_folder;
use common::server::{Reply, Server};
use common::site::Site;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/asdf");

/// Returns the file with one of the blocks of the exploded fixture.
fn other() -> Vec<u8> {
    fs::read(Path::new(FIXTURES).join("exploded0000.asdf")).unwrap()
}

/// Returns a tree whose array `a` is in the file at a URI.
pub(crate) fn tree(uri: &str) -> Vec<u8> {
    let text = fs::read_to_string(Path::new(FIXTURES).join("exploded.asdf")).unwrap();
    text.replace("exploded0000.asdf", &format!("\"{uri}\"")).into_bytes()
}

/// Reads the array `a` of a mounted tree; returns the reason if it can't be read.
fn array(options: &str, source: &str) -> Result<Vec<u8>, String> {
    let mounted = mount(options, source);
    fs::read(mounted.path("arrays/a.npy")).map_err(|_| {
        assert_eq!(errno(fs::read(mounted.path("arrays/a.npy"))), libc::EIO);
        fs::read_to_string(mounted.path(".asdf-mount/status.yaml")).unwrap()
    })
}

/// Returns the array `a` as a local mount shows it.
fn expected() -> Vec<u8> {
    array("ro", Path::new(FIXTURES).join("exploded.asdf").to_str().unwrap()).unwrap()
}

#[test]
fn a_tree_on_a_server_leads_to_its_server_with_an_option_only() {
    let site = Site::web(|_, reply| reply);
    for path in ["d/other.asdf", "d/sub/o%20ther.asdf", "other.asdf"] {
        site.put(&path.replace("%20", " "), other());
    }
    let same_host = site.server.url("/other.asdf");
    let expected = expected();
    for uri in ["other.asdf", "sub/o%20ther.asdf", "../other.asdf", "/other.asdf", &same_host] {
        site.put("d/x.asdf", tree(uri));
        // With the option, the array is read. Without it, the other file is not asked for.
        let url = site.server.url("/d/x.asdf");
        assert!(array("ro,external=http", &url) == Ok(expected.clone()), "{uri}");
        let before = site.asked().iter().filter(|(target, _)| target.contains("other")).count();
        let why = array("ro", &url).unwrap_err();
        assert!(why.contains("-o external=http"), "{uri}: {why}");
        let after = site.asked().iter().filter(|(target, _)| target.contains("other")).count();
        assert_eq!(before, after, "{uri}");
    }
}

#[test]
fn a_tree_leads_nowhere_else() {
    let site = Site::web(|request, reply| match request.target.as_str() {
        "/redirected.asdf" => Reply::status(302).with("Location", "http://169.254.169.254/latest/meta-data/"),
        "/private.asdf" => Reply::status(307).with("Location", "http://10.0.0.1/x.asdf"),
        _ => reply,
    });
    site.put("d/other.asdf", other());
    let local = fresh_folder();
    let file = local.path().join("other.asdf");
    fs::write(&file, other()).unwrap();
    let of_this_machine = format!("file://{}", file.display());
    let cases = [
        ("http://169.254.169.254/latest/meta-data/", "is not contacted"),
        ("http://10.1.2.3/x.asdf", "is not contacted"),
        ("http://[fd00:ec2::254]/x.asdf", "is not contacted"),
        ("//192.168.0.1/x.asdf", "is not contacted"),
        ("/redirected.asdf", "169.254.169.254 is not contacted"),
        ("/private.asdf", "10.0.0.1 is not contacted"),
        (&of_this_machine, "files of this machine"),
        ("file:other.asdf", "files of this machine"),
        ("ftp://127.0.0.1/x.asdf", "unknown scheme"),
    ];
    for (uri, reason) in cases {
        site.put("d/x.asdf", tree(uri));
        let why = array("ro,external=http", &site.server.url("/d/x.asdf")).unwrap_err();
        assert!(why.contains(reason), "{uri}: {why}");
    }
}

#[test]
fn a_local_tree_leads_to_public_servers_only() {
    let server = Server::start(|request, _| Reply::part(&other(), "\"v\"", request));
    let dir = fresh_folder();
    let file = dir.path().join("x.asdf");
    fs::write(&file, tree(&server.url("/other.asdf"))).unwrap();
    for (options, reason) in [("ro", "-o external=http"), ("ro,external=http", "127.0.0.1 is not contacted")]
    {
        let why = array(options, file.to_str().unwrap()).unwrap_err();
        assert!(why.contains(reason), "{why}");
    }
    assert_eq!(server.count(), 0);
    // Files beside the tree are found as before.
    fs::write(&file, tree("other.asdf")).unwrap();
    fs::write(dir.path().join("other.asdf"), other()).unwrap();
    assert!(array("ro,external=http", file.to_str().unwrap()) == Ok(expected()));
}

#[test]
fn a_tree_asks_for_a_bounded_number_of_other_files() {
    let site = Site::web(|_, reply| reply);
    let elsewhere = Site::web(|_, reply| reply);
    for (uri, most) in [
        // Files beside the tree, on one host, and on two hosts.
        ("'{n}.asdf#/a'".to_owned(), 128),
        (format!("'{}#/a'", elsewhere.server.url("/{n}.asdf")), 64),
        (format!("'{}#/a'", elsewhere.server.url("/{n}.asdf").replace("127.0.0.1", "{host}")), 128),
    ] {
        let reference = |n: usize| {
            let uri = uri.replace("{n}", &n.to_string()).replace("{host}", ["127.0.0.1", "localhost"][n % 2]);
            format!("- {{$ref: {uri}}}\n")
        };
        let references: String = (0..1000).map(reference).collect();
        let head =
            "#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n--- !<tag:stsci.edu:asdf/core/asdf-1.1.0>\n";
        site.put("d/x.asdf", format!("{head}many:\n{references}...\n"));
        let count = || site.server.count() + elsewhere.server.count();
        let before = count();
        let url = site.server.url("/d/x.asdf");
        // A listing of the file itself asks for none of them.
        assert!(run(&["--ls", "-o", "anonymous,external=http", &url]).status.success());
        assert!(count() - before <= 2, "{uri}: {}", count() - before);
        let output = run(&["--ls", "-o", "anonymous,external=http", &url, ".", "arrays/many"]);
        let listed = String::from_utf8(output.stdout).unwrap();
        assert!(listed.contains("tree.yaml"), "{listed}");
        assert!(count() - before <= most + 10, "{uri}: {}", count() - before);
        // The mount's own files send no requests.
        let mounted = mount("ro,external=http", &url);
        let _ = fs::read_dir(mounted.path("arrays/many")).map(Iterator::count);
        let before = count();
        let status = fs::read_to_string(mounted.path(".asdf-mount/status.yaml")).unwrap();
        assert!(status.contains("can''t be read"), "{status}");
        assert!(count() - before <= 2, "{uri}: {}", count() - before);
    }
}

#[test]
fn a_server_that_is_not_there_is_asked_for_one_of_many_files() {
    let site = Site::web(|_, reply| reply);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let references: String =
        (0..100).map(|n| format!("- {{$ref: 'http://{closed}/{n}.asdf#/a'}}\n")).collect();
    let head = "#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n--- !<tag:stsci.edu:asdf/core/asdf-1.1.0>\n";
    site.put("d/x.asdf", format!("{head}many:\n{references}...\n"));
    let mounted = mount("ro,external=http,read-timeout=1", &site.server.url("/d/x.asdf"));
    let _ = fs::read_dir(mounted.path("arrays/many")).map(Iterator::count);
    let stats = fs::read_to_string(mounted.path(".asdf-mount/stats.yaml")).unwrap();
    let sent = stats.lines().find_map(|line| line.strip_prefix("requests: ")).unwrap();
    let status = fs::read_to_string(mounted.path(".asdf-mount/status.yaml")).unwrap();
    assert!(status.contains("does not answer"), "{status}");
    assert!(sent.parse::<u64>().unwrap() < 50, "{stats}");
}
