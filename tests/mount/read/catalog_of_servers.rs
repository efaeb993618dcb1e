//! `--catalog` and `--refs` of files on servers.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::on_servers::{example, large, run};
use common::asdf::{AsdfBuilder, Block};
use common::mount::{Mounted, fresh_folder};
use common::server::{Reply, Server};
use common::site::Site;

/// Runs `--catalog` with more arguments; returns the lines of the catalogue, of which none is an error.
fn catalog(arguments: &[&str]) -> Vec<String> {
    catalog_ending_with(0, arguments)
}

/// Runs `--catalog` with more arguments, which must end with this status; returns the lines of the catalogue.
fn catalog_ending_with(status: i32, arguments: &[&str]) -> Vec<String> {
    let output = run(&[&["--catalog", "-q", "-o", "anonymous"], arguments].concat());
    assert!(output.status.code() == Some(status) && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Returns the text between two others.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    text.split_once(start).and_then(|(_, rest)| rest.split_once(end)).unwrap_or_else(|| panic!("{text}")).0
}

/// Writes the lines as an older catalogue, with another format, by which lines copied from it are recognised.
fn older(lines: &[String], path: &Path) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(path, text.replace("\"format\":\"asdf\"", "\"format\":\"copy\"")).unwrap();
}

fn formats(lines: &[String]) -> Vec<&str> {
    let of =
        |line| if str::contains(line, "\"error\"") { "error" } else { between(line, "\"format\":\"", "\"") };
    lines.iter().map(|line| of(line)).collect()
}

#[test]
fn a_small_file_costs_one_request_and_a_large_one_two() {
    let (site, dir) = (Site::web(|_, reply| reply), fresh_folder());
    fs::write(dir.path().join("x.asdf"), example()).unwrap();
    let local = &catalog(&[dir.path().join("x.asdf").to_str().unwrap()])[0];
    for (bytes, requests) in [(example(), 1), (large(1), 2)] {
        let (url, before) = (site.server.url("/x.asdf"), site.server.count());
        site.put("x.asdf", bytes.clone());
        let line = &catalog(&[&url])[0];
        let asked = &site.asked()[before..];
        assert_eq!((asked.len(), &*asked[0].1), (requests, "bytes=0-262143"), "{asked:?}");
        let version = if requests == 1 { 0 } else { 1 };
        let size = bytes.len();
        let start = format!(
            "{{\"uri\":\"{url}\",\"size\":{size},\"etag\":\"\\\"{version}-{size}\\\"\",\
             \"mtime\":\"1994-11-06T08:49:37.000000000Z\",\"format\":\"asdf\""
        );
        assert!(line.starts_with(&start), "{line}");
        if requests == 1 {
            assert_eq!(line.split_once("\"format\"").unwrap().1, local.split_once("\"format\"").unwrap().1);
        }
    }
}

/// The blocks between the start and the end of a file have only their offset, which the index has.
#[test]
fn a_file_with_many_large_blocks_costs_two_requests() {
    let array = |n| {
        format!(
            "a{n}: !<tag:stsci.edu:asdf/core/ndarray-1.1.0> {{source: {n}, datatype: uint8, byteorder: big, shape: [2000000]}}\n"
        )
    };
    let file = |last: usize| {
        let mut file = AsdfBuilder::new().tree((0..5).map(array).collect::<String>());
        for n in 0..5 {
            file = file.block(Block::new(vec![n; 2_000_000]));
        }
        file.block(Block::new(vec![5; last])).build().bytes
    };
    let dir = fresh_folder();
    // The header of a short last block comes with the index.
    for (last, described) in [(1000, 2), (2_000_000, 1)] {
        let bytes = file(last);
        fs::write(dir.path().join("x.asdf"), &bytes).unwrap();
        let whole = catalog(&[dir.path().join("x.asdf").to_str().unwrap()]).remove(0);
        for is_bucket in [false, true] {
            let site = if is_bucket { Site::s3() } else { Site::web(|_, reply| reply) };
            site.put("data/x.asdf", bytes.clone());
            let options = format!("endpoint={}", site.server.url(""));
            let name =
                if is_bucket { "s3://data/x.asdf".to_owned() } else { site.server.url("/data/x.asdf") };
            let line = catalog(&["-o", &options, "-j", "3", &name]).remove(0);
            assert_eq!(site.asked().len(), 2, "{:?}", site.asked());
            assert_eq!(
                between(&line, "\"array_count\"", "\"tree\""),
                between(&whole, "\"array_count\"", "\"tree\"")
            );
            let blocks = between(&line, "\"blocks\":[", "]");
            assert_eq!(blocks.matches("\"offset\"").count(), 6, "{blocks}");
            assert_eq!(blocks.matches("data_size").count(), described, "{blocks}");
        }
    }
}

/// Each reply waits until 24 requests have come at once.
#[test]
fn as_many_files_are_asked_for_at_once_as_j_says() {
    let together = Arc::new((Mutex::new(0), Condvar::new()));
    let shared = together.clone();
    let site = Site::web(move |_, reply| {
        let (count, more) = &*shared;
        let mut count = count.lock().unwrap();
        *count += 1;
        more.notify_all();
        let patience = Duration::from_secs(20);
        drop(more.wait_timeout_while(count, patience, |count| *count < 24).unwrap());
        reply
    });
    let names: Vec<_> = (0..24).map(|n| format!("{n}.asdf")).collect();
    for name in &names {
        site.put(name, example());
    }
    let urls: Vec<_> = names.iter().map(|name| site.server.url(&format!("/{name}"))).collect();
    let mut arguments = vec!["-o", "read-timeout=10", "-j", "24"];
    arguments.extend(urls.iter().map(String::as_str));
    assert_eq!(formats(&catalog(&arguments)), ["asdf"; 24]);
    assert_eq!(*together.0.lock().unwrap(), 24);
}

/// An index that does not begin at the first block is not believed, and the chain is followed.
#[test]
fn a_wrong_index_costs_a_request_for_each_block() {
    let site = Site::web(|_, reply| reply);
    let mut file = AsdfBuilder::new();
    for n in 0..4 {
        file = file.block(Block::new(vec![n; 400_000]));
    }
    let mut bytes = file.build().bytes;
    let index = bytes.windows(8).rposition(|text| text == b"#ASDF BL").unwrap();
    bytes.truncate(index);
    for text in ["#ASDF BLOCK INDEX\n%YAML 1.1\n---\n- 7\n- 400000\n...\n", ""] {
        site.put("x.asdf", [&bytes, text.as_bytes()].concat());
        let before = site.server.count();
        let line = catalog(&[&site.server.url("/x.asdf")]).remove(0);
        assert_eq!(between(&line, "\"block_count\":", ","), "4");
        assert_eq!(line.matches("data_size").count(), 4, "{line}");
        assert_eq!(site.server.count() - before, 5, "{:?}", &site.asked()[before..]);
    }
}

#[test]
fn directories_on_servers_are_searched_and_unchanged_files_are_not_read_again() {
    for is_bucket in [false, true] {
        let (site, dir) = (if is_bucket { Site::s3() } else { Site::web(|_, reply| reply) }, fresh_folder());
        let options = format!("endpoint={}", site.server.url(""));
        let top = if is_bucket { "s3://data/p/".to_owned() } else { site.server.url("/data/p/") };
        for name in ["a.asdf", "b c.asdf", "d.asdf", "e.asdf", "deep/er/f.asdf"] {
            site.put(&format!("data/p/{name}"), example());
        }
        site.put("data/p/notes.txt", "text");
        site.put("data/p/broken.asdf", "#ASDF 1.0.0\n%YAML 1.1\n--- [\n...\n");
        let lines = catalog(&["-o", &options, &top]);
        let uris: Vec<&str> = lines.iter().map(|line| between(line, "{\"uri\":\"", "\"")).collect();
        let name = if is_bucket { "b c.asdf" } else { "b%20c.asdf" };
        let mut expected: Vec<_> = ["a.asdf", name, "broken.asdf", "d.asdf", "deep/er/f.asdf", "e.asdf"]
            .map(|name| format!("{top}{name}"))
            .to_vec();
        expected.sort();
        let mut sorted = uris.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);

        let old = dir.path().join("old");
        older(&lines, &old);
        site.put("data/p/d.asdf", large(1));
        let before = site.server.count();
        let lines = catalog(&["-o", &options, "--since", old.to_str().unwrap(), &top]);
        let copied = lines.iter().filter(|line| line.contains("\"format\":\"copy\"")).count();
        assert_eq!((lines.len(), copied), (6, 5), "{lines:#?}");
        let asked = site.asked();
        let read = |range: &str| asked[before..].iter().filter(|asked| asked.1 == range).count();
        // The changed file is read, and the text file, which has no line in the older catalogue. The listing
        // of a bucket has the ETags, so no request is needed for them.
        assert_eq!(read("bytes=0-262143"), 2, "{:?}", &asked[before..]);
        assert_eq!(read("bytes=0-0"), if is_bucket { 0 } else { 6 }, "{:?}", &asked[before..]);
    }
}

#[test]
fn a_file_without_a_strong_etag_is_unchanged_while_its_time_is() {
    let (site, dir) = (Site::web(|_, reply| reply.with("ETag", "W/\"weak\"")), fresh_folder());
    site.put("x.asdf", example());
    let (url, old) = (site.server.url("/x.asdf"), dir.path().join("old"));
    let lines = catalog(&[&url]);
    older(&lines, &old);
    assert_eq!(formats(&catalog(&["--since", old.to_str().unwrap(), &url])), ["copy"]);
    let later = fs::read_to_string(&old).unwrap().replace("1994-11-06", "1994-11-05");
    fs::write(&old, later).unwrap();
    assert_eq!(formats(&catalog(&["--since", old.to_str().unwrap(), &url])), ["asdf"]);
}

#[test]
fn lists_have_addresses_and_errors_are_lines_without_secrets() {
    let site = Site::web(|request, reply| match &*request.target {
        "/refused.asdf" => Reply::status(403),
        _ => reply,
    });
    site.put("x.asdf", example());
    site.put("d/x.asdf", example());
    let dir = fresh_folder();
    let (list, local) = (dir.path().join("list"), dir.path().join("local.asdf"));
    fs::write(&local, example()).unwrap();
    let secret = site.server.url("/x.asdf?sig=secret").replace("http://", "http://me:secret@");
    let named = [
        site.server.url("/x.asdf"),
        local.to_str().unwrap().to_owned(),
        secret.clone(),
        site.server.url("/refused.asdf"),
        site.server.url("/none.asdf"),
        site.server.url("/d"),
        "ftp://me:secret@h/x".to_owned(),
        "s3://x/secret".to_owned(),
    ];
    fs::write(&list, named.join("\n")).unwrap();
    let lines = catalog_ending_with(2, &["-o", "read-timeout=2", "--files-from", list.to_str().unwrap()]);
    assert_eq!(formats(&lines), ["asdf", "asdf", "asdf", "error", "error", "error", "error", "error"]);
    assert!(!lines.concat().contains("secret"), "{lines:#?}");
    assert!(lines[2].contains("/x.asdf?…\""), "{}", lines[2]);
    for (line, says) in [(3, "HTTP 403"), (4, "HTTP 404"), (5, "ends with a slash"), (6, "ftp://…")] {
        assert!(lines[line].contains(says), "{}", lines[line]);
    }
    // Files with different queries have the same URI, so their lines are not copied.
    let old = dir.path().join("old");
    older(&lines, &old);
    assert_eq!(formats(&catalog(&["--since", old.to_str().unwrap(), &secret])), ["asdf"]);
}

#[test]
fn references_name_the_address() {
    let (site, dir) = (Site::web(|_, reply| reply), fresh_folder());
    let local = dir.path().join("x.asdf");
    let array = "a: !<tag:stsci.edu:asdf/core/ndarray-1.0.0> {source: 0, datatype: uint8, byteorder: big, shape: [8]}\n";
    let file = AsdfBuilder::new().tree(array).block(Block::new([1, 2, 3, 4, 5, 6, 7, 8])).build().bytes;
    fs::write(&local, &file).unwrap();
    site.put("x.asdf", file);
    let refs = |arguments: &[&str]| {
        let output = run(&[&["--refs"], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (expected, _) = refs(&[local.to_str().unwrap()]);
    let url = site.server.url("/x.asdf");
    let (found, said) = refs(&[&url]);
    assert_eq!(found, expected.replace(&format!("file://{}", local.display()), &url));
    assert!(said.is_empty() && found.contains("\"a/0\":"), "{said} {found}");
    let secret = format!("{}?sig=secret", url.replace("http://", "http://me:secret@"));
    let (found, said) = refs(&["-o", "read-timeout=5", &secret]);
    assert!(said.contains("the whole address") && !format!("{said}{found}").contains("secret"), "{said}");
    let output = run(&["--refs", "-o", "ro", &url]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn keys_with_an_empty_component_are_found() {
    let site = Site::s3();
    for key in ["abc/p//a.asdf", "abc/p/x/b.asdf", "abc//c.asdf", "abc/p/", "abc/p//"] {
        site.put(key, if key.ends_with('/') { Vec::new() } else { example() });
    }
    let endpoint = format!("endpoint={}", site.server.url(""));
    let mut uris: Vec<String> = catalog(&["-o", &endpoint, "s3://abc/"])
        .iter()
        .map(|line| between(line, "\"uri\":\"", "\"").to_owned())
        .collect();
    uris.sort();
    assert_eq!(uris, ["s3://abc//c.asdf", "s3://abc/p//a.asdf", "s3://abc/p/x/b.asdf"]);
    let mounted = Mounted::new(["-o", &format!("anonymous,{endpoint}"), "s3://abc/"]);
    assert_eq!(common::names(mounted.root()), ["%-", "p"]);
    assert_eq!(common::names(&mounted.path("p")), ["%-", "x"]);
    for path in ["%-/c.asdf", "p/%-/a.asdf", "p/x/b.asdf"] {
        assert!(mounted.path(path).join("tree.yaml").is_file(), "{path}");
    }
    mounted.unmount();
    // A name that no file can have is told, too.
    site.put(&format!("abc/q/{}.asdf", "x".repeat(300)), example());
    let output = run(&["--catalog", "-q", "-o", "anonymous", "-o", &endpoint, "s3://abc/q/"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(2) && text.contains("1 of its names are left out"), "{text}");
}

/// The second page of the listing is not sent before a file of the first one was asked for.
#[test]
fn a_search_begins_before_the_listing_ends() {
    let asked = Arc::new((Mutex::new(false), Condvar::new()));
    let shared = asked.clone();
    let file = example();
    let server = Server::start(move |request, _| {
        let (is_asked, changed) = &*shared;
        let page = |inner: &str| {
            let text = format!("<ListBucketResult>{inner}</ListBucketResult>");
            Reply::status(200).body("application/xml", &text)
        };
        if request.target.contains("continuation-token") {
            let guard = is_asked.lock().unwrap();
            let wait = changed.wait_timeout_while(guard, Duration::from_secs(30), |is_asked| !*is_asked);
            return if wait.unwrap().1.timed_out() { Reply::status(404) } else { page("") };
        }
        if request.target.contains("list-type") {
            return page(
                "<Contents><Key>a.asdf</Key></Contents><IsTruncated>true</IsTruncated>\
                 <NextContinuationToken>t</NextContinuationToken>",
            );
        }
        *is_asked.lock().unwrap() = true;
        changed.notify_all();
        Reply::part(&file, "\"v\"", request)
    });
    let endpoint = format!("endpoint={}", server.url(""));
    let output = run(&["--search", ".", "-o", "anonymous", "-o", &endpoint, "s3://abc/"]);
    assert!(*asked.0.lock().unwrap());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
