//! `--check` and `--index` of directories on servers.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::on_servers::{example, plain, run};
use common::asdf::{AsdfBuilder, Block};
use common::encode::Encoding;
use common::mount::{fresh_folder, program};
use common::server::Reply;
use common::site::Site;

/// Returns a file whose checksum is wrong.
fn damaged() -> Vec<u8> {
    let mut bytes = example();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    bytes
}

/// Returns stdout without the address or path of the directory, stderr, and the exit status.
fn outcome(arguments: &[&str], top: &str) -> (String, String, Option<i32>) {
    let Output { status, stdout, stderr } = run(arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap().replace(top, "TOP/");
    (text(stdout), text(stderr), status.code())
}

#[test]
fn a_directory_on_a_server_is_checked_as_a_local_one() {
    let (web, s3, dir) = (Site::web(|_, reply| reply), Site::s3(), fresh_folder());
    for (name, bytes) in [
        ("a.asdf", example()),
        ("b c.asdf", damaged()),
        ("deep/deeper/d", example()),
        ("deep/deeper/.d.asdf-mount-journal", example()),
        ("deep/e.txt", b"text".to_vec()),
        ("deep/f.asdf", b"text".to_vec()),
        ("deep/g.asdf", b"#ASDF 1.0.0\n".to_vec()),
    ] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &bytes).unwrap();
        web.put(&format!("data/{name}"), bytes.clone());
        s3.put(&format!("data/p/{name}"), bytes);
    }
    let (url, local) = (web.server.url("/data/"), format!("{}/", dir.path().display()));
    let without_slash = url.trim_end_matches('/');
    let endpoint = format!("anonymous,region=eu-west-1,endpoint={}", s3.server.url(""));
    let sorted = |(out, errors, status): (String, String, _)| {
        let mut lines: Vec<_> = out.replace("%20", " ").lines().map(str::to_owned).collect();
        lines.sort();
        (lines, errors, status)
    };
    for how in [&["--check"][..], &["--check", "--json"]] {
        let expected = sorted(outcome(&[how, &[&local]].concat(), &local));
        assert!(expected.0.len() >= 2 && expected.1.contains("; 1 other file skipped"), "{expected:?}");
        // The name of f.asdf promises a format.
        let said = format!("{}{}", expected.0.concat(), expected.1);
        assert!(said.contains("TOP/deep/f.asdf: is not an ASDF file"), "{expected:?}");
        assert_eq!(expected.2, Some(2), "{expected:?}");
        for found in [
            outcome(&[how, &[&url]].concat(), &url),
            outcome(&[how, &[without_slash]].concat(), &url),
            outcome(&[how, &["-o", &endpoint, "s3://data/p/"]].concat(), "s3://data/p/"),
            outcome(&[how, &["-o", &endpoint, "s3://data/p"]].concat(), "s3://data/p/"),
        ] {
            assert_eq!(sorted(found), expected);
        }
    }
}

#[test]
fn directories_that_cannot_be_listed_are_errors_and_empty_ones_are_not() {
    let page = "<html><head><title>Index of /none/</title></head><body><pre><a href=\"../\">../</a></pre></body></html>";
    let web = Site::web(move |request, reply| match &*request.target {
        "/empty/" => Reply::status(200).body("text/html", page),
        "/refused/" => Reply::status(403),
        "/text/" => Reply::status(200).body("text/plain", "text"),
        "/missing/" => Reply::status(404),
        _ => reply,
    });
    let s3 = Site::s3();
    s3.put("data/marked/", "");
    s3.put("data/p/x.asdf", example());
    let endpoint = format!("anonymous,region=eu-west-1,endpoint={}", s3.server.url(""));
    let empty = "no files of a known format\n";
    for (url, status, says) in [
        (web.server.url("/empty/"), 0, empty),
        (web.server.url("/refused/"), 2, "HTTP 403"),
        (web.server.url("/text/"), 2, "not an index of a directory"),
        (web.server.url("/missing/"), 2, "HTTP 404"),
        (web.server.url("/missing"), 2, "HTTP 404"),
        ("s3://data/marked/".into(), 0, empty),
        ("s3://data/marked".into(), 0, empty),
        ("s3://empty/".into(), 0, empty),
        ("s3://data/none/".into(), 2, "no object is in a directory of this name"),
        ("s3://data/none".into(), 2, "HTTP 404"),
    ] {
        let (out, errors, found) = outcome(&["--check", "-o", &endpoint, &url], "none");
        assert!(found == Some(status) && errors.contains(says) && out.is_empty(), "{url}: {errors}");
    }
    // The other files are checked all the same.
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sample.asdf");
    let both = [&*web.server.url("/missing/"), example.to_str().unwrap()];
    let (_, errors, status) = outcome(&[&["--check"], &both[..]].concat(), "none");
    assert!(status == Some(2) && errors.contains("2 files, 3 blocks, 1 unreadable"), "{errors}");
}

#[test]
fn files_that_a_tree_names_are_not_checked() {
    let site = Site::web(|_, reply| reply);
    site.put("d/x.asdf", crate::named_by_trees::tree("none.asdf"));
    let url = site.server.url("/d/");
    let (out, said, status) = outcome(&["--check", &url], "none");
    assert!(status == Some(0) && out.is_empty() && said == "1 file, 0 blocks, sound\n", "{said}");
    assert!(site.asked().iter().all(|(target, _)| !target.contains("none")), "{:?}", site.asked());
    let (_, said, status) = outcome(&["--check", "-o", "external=http", &url], "none");
    assert!(status == Some(2) && said.contains("-o external has no meaning with --check"), "{said}");
}

#[test]
fn seek_tables_are_built_for_a_directory_on_a_server() {
    let (site, dir) = (Site::web(|_, reply| reply), fresh_folder());
    let block = || Block::new((0..3 << 20).map(|n: u32| (n.wrapping_mul(n) >> 7) as u8).collect::<Vec<_>>());
    for name in ["x.asdf", "deep/y.asdf"] {
        site.put(
            &format!("d/{name}"),
            AsdfBuilder::new().block(block().encoding(Encoding::Zlib)).build().bytes,
        );
    }
    site.put("d/text", "text");
    for indexed in [2, 0] {
        let mut command = Command::new(program());
        plain(&mut command);
        command.env("XDG_CACHE_HOME", dir.path()).args(["--index", &site.server.url("/d/")]);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let expected = format!("2 files, 2 blocks, {indexed} indexed; 1 other file skipped\n");
        assert!(output.status.success() && said.ends_with(&expected), "{said}");
    }
}
