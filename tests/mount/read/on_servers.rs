//! Files on HTTP servers, mounted by the program.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::adapter;
use common::asdf::{AsdfBuilder, Block};
pub(crate) use common::case::errno;
use common::mount::{Mounted, fresh_folder, program, wait_until};
use common::names;
use common::server::{Reply, Server};
use common::site::Site;

const PROJECT: &str = env!("CARGO_MANIFEST_DIR");

/// Runs the program without the user's settings for servers.
pub(crate) fn plain(command: &mut Command) {
    const OTHERS: [&str; 5] =
        ["ASDF_MOUNT_TOKEN", "NETRC", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"];
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in variables {
        let is_of_servers = name.starts_with("AWS_") || name.to_lowercase().ends_with("_proxy");
        if is_of_servers || OTHERS.contains(&name.as_str()) {
            command.env_remove(name);
        }
    }
}

pub(crate) fn try_mount(options: &str, source: &str) -> Result<Mounted, Output> {
    let options = format!("history=off,anonymous,{options}");
    Mounted::prepared(["-o", &options, source], plain)
}

pub(crate) fn mount(options: &str, source: &str) -> Mounted {
    try_mount(options, source).unwrap_or_else(|output| panic!("{output:?}"))
}

/// Runs an action that needs no mount.
pub(crate) fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    plain(&mut command);
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

pub(crate) fn example() -> Vec<u8> {
    fs::read(Path::new(PROJECT).join("examples/sample.asdf")).unwrap()
}

/// Length of the block of a large file, and an offset that opening does not read ahead to.
const LARGE: usize = 24 << 20;
const FAR: u64 = 20 << 20;

/// Returns the bytes of the block of a large file.
fn block(seed: u8) -> Vec<u8> {
    let mut bytes = vec![seed; LARGE];
    bytes[FAR as usize] = b'x';
    bytes
}

/// Returns a file with a large block.
pub(crate) fn large(seed: u8) -> Vec<u8> {
    AsdfBuilder::new().block(Block::new(block(seed))).build().bytes
}

/// Returns everything below a directory, without the files that name the source.
fn contents(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let read = |path: &Path| match fs::read(path) {
        Ok(bytes) => {
            // A request may be counted meanwhile.
            if !path.ends_with("stats.yaml") {
                assert_eq!(path.metadata().unwrap().len(), bytes.len() as u64, "{}", path.display());
            }
            bytes
        }
        Err(error) => error.to_string().into_bytes(),
    };
    let of_source = [".asdf-mount/status.yaml", ".asdf-mount/stats.yaml", "refs.json"];
    let mut contents = adapter::contents(top, read);
    contents.retain(|path, _| !of_source.iter().any(|name| path.ends_with(name)));
    contents
}

/// Runs a command, and returns it once the server has got a request that it does not answer.
fn waiting(command: &[&str], is_asked: &AtomicBool) -> Child {
    is_asked.store(false, Ordering::Relaxed);
    let child = spawn(command);
    assert!(wait_until(|| is_asked.load(Ordering::Relaxed)), "no request reaches the server");
    child
}

pub(crate) fn spawn(command: &[&str]) -> Child {
    let mut command_line = Command::new(command[0]);
    command_line.args(&command[1..]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// True if a program waits for the kernel. Until `env` has run it, it may ignore the signal.
fn waits(child: &Child) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let (name, rest) = stat.rsplit_once(')').unwrap();
    !name.ends_with("(env") && [" S ", " D "].iter().any(|state| rest.starts_with(state))
}

/// Interrupts a program that waits; true if it ends.
pub(crate) fn ends(child: &mut Child) -> bool {
    assert!(wait_until(|| waits(child)), "the program does not wait");
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
    wait_until(|| child.try_wait().unwrap().is_some())
}

/// Starts a server that stops in the midst of a reply when the first flag is set, and then sets the second one.
fn stalling() -> (Site, Arc<AtomicBool>, Arc<AtomicBool>) {
    let (stalls, is_asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let flags = (stalls.clone(), is_asked.clone());
    let site = Site::web(move |request, reply| {
        // Other requests are answered, so that the file is opened.
        let is_far = request.range().is_some_and(|range| (range.0..range.1).contains(&(FAR as usize + 1000)));
        if !flags.0.load(Ordering::Relaxed) || !is_far {
            return reply;
        }
        flags.1.store(true, Ordering::Relaxed);
        Reply { stall: Some(0), ..reply }
    });
    (site, stalls, is_asked)
}

#[test]
fn files_on_a_web_server_are_read_like_local_ones() {
    let (site, dir) = (Site::web(|_, reply| reply), fresh_folder());
    for format in ["asdf", "gsd", "bloscpack"] {
        fs::create_dir(dir.path().join(format)).unwrap();
        for name in names(&Path::new(PROJECT).join("tests/fixtures").join(format)) {
            // Files that a tree on a server names are not opened.
            if !name.starts_with("exploded") && !name.ends_with(".json") {
                let path = Path::new(format).join(name);
                fs::copy(Path::new(PROJECT).join("tests/fixtures").join(&path), dir.path().join(&path))
                    .unwrap();
            }
        }
    }
    fs::write(dir.path().join("a b#.txt"), "text").unwrap();
    site.put_dir("data", dir.path());
    for name in ["", "asdf/zlib.asdf"] {
        let (local, url) = (dir.path().join(name), site.server.url(&format!("/data/{name}")));
        let expected = contents(mount("ro", local.to_str().unwrap()).root());
        let found = contents(mount("ro", &url).root());
        let differs = |path: &&PathBuf| found.get(*path) != expected.get(*path);
        let all: Vec<_> = expected.keys().chain(found.keys()).filter(differs).collect();
        assert!(all.is_empty(), "{name}: {all:?}");
        assert!(expected.len() > 5);
    }
}

#[test]
fn a_small_file_is_one_request() {
    let site = Site::web(|_, reply| reply);
    site.put("x.asdf", example());
    let mounted = mount("rw", &site.server.url("/x.asdf"));
    assert_eq!(mounted.stderr(), "");
    assert!(names(mounted.root()).contains(&"tree.yaml".to_owned()));
    assert!(mounted.tree().starts_with(b"#ASDF"));
    let mut asked = site.asked();
    // A slow test may ask for the version again.
    asked.retain(|(_, range)| range != "bytes=0-0");
    assert_eq!(asked, [("/x.asdf".to_owned(), "bytes=0-262143".to_owned())]);
    let statistics = fs::read_to_string(mounted.path(".asdf-mount/stats.yaml")).unwrap();
    for line in
        ["requests: ", "bytes: ", "retries: 0\n", "memory_hits: ", "disk_hits: 0\n", "last_error: null\n"]
    {
        assert!(statistics.contains(line), "{statistics}");
    }
}

#[test]
fn an_object_that_changes_is_another_file() {
    let site = Site::web(|_, reply| reply);
    site.put("x.asdf", large(1));
    let mounted = mount("ro", &site.server.url("/x.asdf"));
    let old = File::open(mounted.block_path(0)).unwrap();
    let (inode, size) = (old.metadata().unwrap().ino(), old.metadata().unwrap().len());
    site.put("x.asdf", large(2));
    assert!(wait_until(|| mounted.block_path(0).metadata().is_ok_and(|meta| meta.ino() != inode)));
    assert!(mounted.block(0) == block(2));
    assert_eq!(errno(old.read_at(&mut [0; 10], FAR)), libc::ESTALE);
    assert_eq!(old.metadata().unwrap().len(), size);
}

#[test]
fn a_server_that_stalls_fails_a_read_at_its_deadline() {
    let (site, stalls, _) = stalling();
    site.put("x.asdf", large(1));
    let mounted = mount("ro,cache=4M,read-timeout=1", &site.server.url("/x.asdf"));
    let block = File::open(mounted.block_path(0)).unwrap();
    stalls.store(true, Ordering::Relaxed);
    assert_eq!(errno(block.read_at(&mut [0; 10], FAR)), libc::EIO);
    // The request itself ends a moment after its reader.
    let statistics = || fs::read_to_string(mounted.path(".asdf-mount/stats.yaml")).unwrap();
    assert!(wait_until(|| statistics().contains("\n  message: \"")), "{}", statistics());
    stalls.store(false, Ordering::Relaxed);
    assert!(wait_until(|| block.read_at(&mut [0; 10], FAR).is_ok()));
}

#[test]
fn a_signal_and_an_unmount_do_not_wait_for_a_server() {
    let (site, stalls, is_asked) = stalling();
    site.put("x.asdf", large(1));
    // The deadline is later than the time limits of the tests.
    let mounted = mount("ro,cache=4M,read-timeout=1000", &site.server.url("/x.asdf"));
    let block = mounted.block_path(0);
    let from = format!("if={}", block.display());
    // If a shell started the tests in the background, they ignore SIGINT, and so would the programs that they
    // start.
    let tail =
        ["env", "--default-signal=INT", "dd", &from, "bs=10", "count=1", "skip=2097152", "status=none"];
    assert!(block.exists());
    stalls.store(true, Ordering::Relaxed);
    let mut reader = waiting(&tail, &is_asked);
    kill_process(Pid::from_child(&reader), Signal::INT).unwrap();
    assert!(wait_until(|| reader.try_wait().unwrap().is_some()), "the reader does not end");
    assert_eq!(reader.wait().unwrap().signal(), Some(libc::SIGINT));
    // The server still does not answer.
    mounted.unmount();
}

#[test]
fn a_signal_ends_programs_that_wait_for_names() {
    let (stalls, is_asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let flags = (stalls.clone(), is_asked.clone());
    let site = Site::web(move |_, reply| {
        if flags.0.load(Ordering::Relaxed) {
            flags.1.store(true, Ordering::Relaxed);
            Reply { stall: Some(0), ..reply }
        } else {
            reply
        }
    });
    for name in ["x.asdf", "y.asdf", "z.asdf", "deep/a.asdf"] {
        site.put(&format!("d/{name}"), example());
    }
    let mounted = mount("ro,read-timeout=1000", &site.server.url("/d/"));
    assert!(names(&mounted.path("x.asdf")).contains(&"tree.yaml".to_owned()));
    stalls.store(true, Ordering::Relaxed);
    let path = |name: &str| mounted.path(name).to_str().unwrap().to_owned();
    let (deep, tree, y, z) = (path("deep"), path("y.asdf/tree.yaml"), path("y.asdf"), path("z.asdf"));
    let known = mounted.path("x.asdf");
    for command in [
        &["ls", &deep][..],
        &["ls", "-l", &deep],
        &["stat", &z],
        &["stat", &y],
        &["cat", &tree],
        &["getfattr", "-d", &z],
        &["ls", mounted.root().to_str().unwrap()],
    ] {
        let command = [&["env", "--default-signal=INT"], command].concat();
        let mut child = waiting(&command, &is_asked);
        assert!(ends(&mut child), "{command:?} does not end");
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT), "{command:?}");
    }
    // The state of a known file is asked for after a second. The second request waits for the first one.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let command = ["env", "--default-signal=INT", "stat", known.to_str().unwrap()];
    let (mut first, mut second) = (waiting(&command, &is_asked), spawn(&command));
    assert!(ends(&mut second), "a queued request does not end");
    assert!(first.try_wait().unwrap().is_none(), "the first request waits");
    assert!(ends(&mut first));
    mounted.unmount();
}

#[test]
fn errors_of_listings_and_of_a_server_that_never_answers_are_counted() {
    let (stalls, is_asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let flags = (stalls.clone(), is_asked.clone());
    let site = Site::web(move |_, reply| {
        let is_silent = flags.0.load(Ordering::Relaxed);
        flags.1.fetch_or(is_silent, Ordering::Relaxed);
        if is_silent { Reply { stall: Some(0), ..reply } } else { reply }
    });
    site.put("d/x.asdf", example());
    let mounted = mount("ro,read-timeout=1", &site.server.url("/d/"));
    assert!(names(&mounted.path("x.asdf")).contains(&"tree.yaml".to_owned()));
    let errors = || {
        let stats = fs::read_to_string(mounted.path("x.asdf/.asdf-mount/stats.yaml")).unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix("errors: ")).unwrap();
        line.parse::<u32>().unwrap()
    };
    assert_eq!(errors(), 0);
    stalls.store(true, Ordering::Relaxed);
    // The listing is remembered for a moment.
    assert!(wait_until(|| fs::read_dir(mounted.root()).is_err()));
    assert!(is_asked.load(Ordering::Relaxed));
    stalls.store(false, Ordering::Relaxed);
    assert!(errors() > 0);
    mounted.unmount();
}

#[test]
fn the_first_error_reaches_the_user() {
    let site = Site::web(|request, reply| match &*request.target {
        "/refused.asdf" => Reply::status(403),
        "/whole.asdf" => Reply { status: 200, ..reply.without("Content-Range") },
        _ => reply,
    });
    site.put("text", "no file of a known format");
    site.put("whole.asdf", example());
    let closed = Server::start(|_, _| Reply::status(500)).url("/x.asdf");
    let with_login = site.server.url("/none.asdf?sig=secret").replace("http://", "http://me:secret@");
    for (url, shown, says) in [
        (with_login, "/none.asdf?…: ", "HTTP 404"),
        (site.server.url("/refused.asdf"), "/refused.asdf: ", "HTTP 403"),
        (site.server.url("/text"), "/text: ", "is not an ASDF file"),
        (site.server.url("/whole.asdf"), "/whole.asdf: ", "does not support ranges"),
        (closed, "/x.asdf: ", "can't be reached"),
        ("http://name.invalid/x.asdf".into(), "http://name.invalid/x.asdf: ", "name"),
    ] {
        for look in [false, true] {
            let output = if look {
                run(&["--cat", "-o", "anonymous,read-timeout=1", &url, "tree.yaml"])
            } else {
                try_mount("read-timeout=1", &url).unwrap_err()
            };
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{stderr}");
            assert!(
                stderr.contains(shown) && stderr.contains(says) && !stderr.contains("secret"),
                "{stderr}"
            );
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
        }
    }
    let output = run(&["ftp://me:secret@host/x.asdf", "/nowhere"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("ftp://…: ") && stderr.contains("https://") && !stderr.contains("secret"),
        "{stderr}"
    );
}

#[test]
fn a_directory_that_cannot_be_listed_is_not_mounted() {
    let page = |title: &str| Reply::status(200).body("text/html", &format!("<title>{title}</title>"));
    let site = Site::web(move |request, reply| match &*request.target {
        "/none/" => Reply::status(404),
        "/refused/" => Reply::status(403),
        "/plain/" => page("Welcome"),
        "/empty/" => page("Index of /empty/"),
        _ => reply,
    });
    site.put("d/x.asdf", example());
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (url, s3) = (|path: &str| site.server.url(path), Site::s3());
    s3.put("data/p/x.asdf", example());
    let bucket = format!("endpoint={}", s3.server.url(""));
    for (options, source, says) in [
        ("", &*url("/none/"), "HTTP 404"),
        ("", &url("/refused/"), "HTTP 403"),
        ("", &url("/plain/"), "not an index of a directory"),
        ("", &format!("http://{closed}/d/"), "can't be reached"),
        (&*format!("endpoint=http://{closed}"), "s3://data/p/", "can't be reached"),
        (&bucket, "s3://data/none/", "no object"),
    ] {
        let output = try_mount(&format!("read-timeout=1,{options}"), source).unwrap_err();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{source}: {stderr}");
        assert!(stderr.contains(source) && stderr.contains(says), "{source}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    assert!(names(mount("ro", &url("/empty/")).root()).is_empty());
    assert_eq!(names(mount(&bucket, "s3://data/p/").root()), ["x.asdf"]);
    // Each of several sources is listed.
    let dir = fresh_folder();
    let mut several = Command::new(program());
    plain(&mut several);
    let output = several.args([&url("/d/"), &url("/plain/")]).arg(dir.path().join("m")).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && stderr.contains("/plain/: "), "{stderr}");
}

#[test]
fn commands_that_need_a_mountpoint_or_a_local_file_say_so() {
    let url = "http://me:secret@127.0.0.1:1/x.asdf";
    for arguments in [
        &[url][..],
        &["-r", "/nowhere.asdf", url],
        &["--edit", url],
        &["--undo", url],
        &["--log", url],
        &["--diff", url],
        &["--diff", url, "1"],
        &["--recover", url],
        &["--set-tree", "-", url],
        &["--set-tree", "-", "--dry-run", url],
    ] {
        let stderr = String::from_utf8(run(arguments).stderr).unwrap();
        let is_edit = arguments[0].starts_with("--");
        assert!(stderr.contains("http://127.0.0.1:1/x.asdf: is on a server"), "{arguments:?}: {stderr}");
        assert!(stderr.contains(if is_edit { "download" } else { "MOUNTPOINT" }), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("secret") && !stderr.contains("No such file"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn an_extraction_detects_formats_by_the_first_bytes() {
    let (s3, web, dir) = (Site::s3(), Site::web(|_, reply| reply), fresh_folder());
    for site in [&s3, &web] {
        site.put("data/p/x.asdf", example());
        site.put("data/p/cube", example());
        site.put("data/p/deep/cube.fits", example());
        site.put("data/p/text.asdf", "text");
        site.put("data/p/notes", "notes");
    }
    let options = format!("anonymous,endpoint={}", s3.server.url(""));
    for (n, url) in ["s3://data/p/", &web.server.url("/data/p/")].into_iter().enumerate() {
        let to = dir.path().join(n.to_string());
        let output = run(&["--extract", "-o", &options, url, "-C", to.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        for name in ["x.asdf", "cube", "deep/cube.fits"] {
            let tree = fs::read(to.join(name).join("tree.yaml"))
                .unwrap_or_else(|error| panic!("{url} {name}: {error}"));
            assert!(tree.starts_with(b"#ASDF"), "{url} {name}");
        }
        assert_eq!(fs::read(to.join("text.asdf")).unwrap(), b"text");
        assert_eq!(fs::read(to.join("notes")).unwrap(), b"notes");
    }
}

#[test]
fn a_mount_of_a_server_can_be_copied_whole() {
    let (site, dir) = (Site::web(|_, reply| reply), fresh_folder());
    site.put("d/x.asdf", example());
    for path in ["/d/", "/d/x.asdf"] {
        // With the history, as users mount.
        let options = ["-o", "anonymous", &site.server.url(path)];
        let mounted = Mounted::prepared(options, plain).unwrap();
        let about = if path.ends_with('/') { "x.asdf/.asdf-mount" } else { ".asdf-mount" };
        assert!(!names(&mounted.path(about)).contains(&"history".to_owned()));
        assert_eq!(errno(fs::metadata(mounted.path(about).join("history"))), libc::ENOENT);
        let (from, to) = (mounted.root().to_str().unwrap(), dir.path().join(format!("{}", path.len())));
        let to = to.to_str().unwrap();
        output_of(&["cp", "-r", from, to]);
        output_of(&["tar", "-cf", &format!("{to}.tar"), "-C", from, "."]);
        output_of(&["rsync", "-a", &format!("{from}/"), &format!("{to}.rsync/")]);
        assert!(Path::new(to).join(about).join("stats.yaml").exists());
    }
}

#[test]
fn a_file_keeps_its_time_while_it_does_not_change() {
    // Replies have 08:49:37. An index page has minutes, perhaps of another time zone, or no times.
    for (listed, shown) in [("06-Nov-1994 10:49  17", 784_118_940), ("", 784_111_777)] {
        let site = Site::web(move |request, mut reply| {
            if request.target.ends_with('/') {
                let page = String::from_utf8(reply.body).unwrap();
                reply.body = page.replace("06-Nov-1994 08:49  17", listed).into();
            }
            reply
        });
        site.put("d/x.asdf", example());
        let mount = mount("cache=4M", &site.server.url("/d/"));
        let time = |name: &str| fs::metadata(mount.path(name)).unwrap().mtime();
        for _ in 0..2 {
            assert_eq!(names(mount.root()), ["x.asdf"]);
            for name in ["x.asdf", "x.asdf/tree.yaml", "x.asdf/arrays/image.npy", "x.asdf"] {
                assert_eq!(time(name), shown, "{name}");
            }
            // The kernel forgets the names.
            fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
        }
    }
}

#[test]
fn files_on_a_server_can_be_looked_at_without_a_mount() {
    let (site, dir) = (Site::web(|_, reply| reply), fresh_folder());
    site.put("d/x.asdf", example());
    site.put("d/large.asdf", large(1));
    let (url, local) = (site.server.url("/d/x.asdf"), Path::new(PROJECT).join("examples/sample.asdf"));
    let local = local.to_str().unwrap();
    let image = run(&["--cat", local, "arrays/image.npy"]).stdout;
    assert!(image.starts_with(b"\x93NUMPY"));
    assert!(run(&["--cat", &url, "arrays/image.npy"]).stdout == image);
    assert!(run(&["--cat", &site.server.url("/d"), "x.asdf/arrays/image.npy"]).stdout == image);
    let listed = String::from_utf8(run(&["--ls", &url, "blocks"]).stdout).unwrap();
    assert!(listed.contains(" 51200 ") && listed.contains(" 0.bin"), "{listed}");
    let output = run(&["--extract", &url, "arrays", "-C", dir.path().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read(dir.path().join("arrays/image.npy")).unwrap() == image);
    let output = run(&["--check", "-o", "read-timeout=20", &url, local]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let mut broken = example();
    *broken.last_mut().unwrap() ^= 1;
    let at = broken.len() / 2;
    broken[at] ^= 1;
    site.put("d/broken.asdf", broken);
    let secret = site.server.url("/d/broken.asdf").replace("http://", "http://me:secret@");
    let output = run(&["--check", "--json", &secret]);
    let report = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(report.contains("/d/broken.asdf\"") && !report.contains("secret"), "{report}");

    let mut cat = Command::new(program());
    plain(&mut cat);
    cat.args(["--cat", &site.server.url("/d/large.asdf"), "blocks/0.bin"]).stdout(Stdio::piped());
    let mut cat = cat.spawn().unwrap();
    let mut start = [0; 100];
    let mut out = cat.stdout.take().unwrap();
    out.read_exact(&mut start).unwrap();
    drop(out);
    assert_eq!(cat.wait().unwrap().code(), Some(0));
    assert_eq!(start, [1; 100]);
}

/// Runs a program, which succeeds, and returns its output.
fn output_of(command: &[&str]) -> String {
    let output = Command::new(command[0]).args(&command[1..]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the names in a directory as their listing shows them; those of directories end with a slash.
fn shown(dir: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| {
        let end = if entry.file_type().unwrap().is_dir() { "/" } else { "" };
        format!("{}{end}", entry.file_name().into_string().unwrap())
    };
    let mut shown: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| name(entry.unwrap())).collect();
    shown.sort();
    shown
}

#[test]
fn a_listing_requests_its_pages_and_no_file() {
    let (s3, web, file, text) = (Site::s3(), Site::web(|_, reply| reply), example(), b"text".to_vec());
    for n in 0..1000 {
        let (ending, bytes) = [("asdf", &file), ("GSD", &file), ("blp", &file), ("txt", &text)][n % 4];
        s3.put(&format!("data/many/{n:04}.{ending}"), bytes.clone());
        web.put(&format!("many/{n:04}.{ending}"), bytes.clone());
    }
    s3.put("data/many/deep/x.asdf", example());
    web.put("many/deep/x.asdf", example());
    let endpoint = format!("ro,endpoint={},region=eu-west-1", s3.server.url(""));
    let bucket = mount(&endpoint, "s3://data/many/");
    let pages = mount("ro", &web.server.url("/many/"));
    for (mounted, site, of_listing) in [(&bucket, &s3, 5), (&pages, &web, 1)] {
        let before = site.server.count();
        let shown = shown(mounted.root());
        assert_eq!(shown[..4], ["0000.asdf/", "0001.GSD/", "0002.blp/", "0003.txt"]);
        assert!(shown.len() == 1001 && shown[1000] == "deep/");
        output_of(&["ls", mounted.root().to_str().unwrap()]);
        output_of(&["sh", "-c", &format!("stat {} >/dev/null", mounted.path("*.asdf").display())]);
        assert!(site.server.count() <= before + 3 * of_listing, "{:?}", site.asked());
    }
    // The listing of a bucket has all attributes, and is used for 5 s; a busy machine takes longer.
    let root = bucket.root().to_str().unwrap();
    let long = "ls -ld --time-style=+%s \"$0\"/*.txt";
    for (command, of_listing) in [(long.to_owned(), 5), (format!("{long} \"$0\"/00*.asdf \"$0\"/deep"), 10)] {
        let before = s3.server.count();
        let begun = Instant::now();
        let shown = output_of(&["sh", "-c", &command, root]);
        let listings = 1 + begun.elapsed().as_secs() as usize / 5;
        assert!(shown.contains(" 4 784111777 ") && shown.contains("/0003.txt\n"), "{shown}");
        assert!(s3.server.count() <= before + listings * of_listing, "{:?}", s3.asked());
    }
    assert_eq!(fs::read(bucket.path("0003.txt")).unwrap(), text);
    assert!(fs::read(bucket.path("0004.asdf/tree.yaml")).unwrap().starts_with(b"#ASDF"));
    assert_eq!(fs::read(pages.path("0003.txt")).unwrap(), text);
}

#[test]
fn a_file_with_a_wrong_ending_is_shown_as_it_is_once_it_is_opened() {
    let site = Site::web(|_, reply| reply);
    for (name, bytes) in [("text.asdf", b"text".to_vec()), ("empty.asdf", Vec::new()), ("cube", example())] {
        site.put(&format!("d/{name}"), bytes);
    }
    let mounted = mount("ro", &site.server.url("/d/"));
    assert_eq!(shown(mounted.root()), ["cube", "empty.asdf/", "text.asdf/"]);
    for name in ["empty.asdf", "text.asdf"] {
        assert_eq!(errno(fs::read(mounted.path(name).join("tree.yaml"))), libc::ENOTDIR);
        assert!(mounted.path(name).metadata().unwrap().is_file());
    }
    assert_eq!(fs::read(mounted.path("text.asdf")).unwrap(), b"text");
    assert!(wait_until(|| mounted.path("cube/tree.yaml").exists()));
    assert_eq!(shown(mounted.root()), ["cube/", "empty.asdf", "text.asdf"]);
}

#[test]
fn a_bucket_is_a_directory() {
    let site = Site::s3();
    for name in
        ["a.asdf", "b c.asdf", "d.asdf", "d.asdf/deeper/g.asdf", "deep/e.asdf", "deep/f.txt", "marked/"]
    {
        site.put(&format!("data/p/{name}"), example());
    }
    let endpoint = format!("ro,endpoint={},region=eu-west-1", site.server.url(""));
    let mounted = mount(&endpoint, "s3://data/p/");
    assert_eq!(names(mounted.root()), ["a.asdf", "b c.asdf", "d.asdf", "d.asdf%-", "deep", "marked"]);
    assert!(names(&mounted.path("marked")).is_empty());
    assert_eq!(names(&mounted.path("deep")), ["e.asdf", "f.txt"]);
    for name in ["a.asdf", "b c.asdf", "d.asdf", "d.asdf%-/deeper/g.asdf", "deep/e.asdf"] {
        assert!(fs::read(mounted.path(name).join("tree.yaml")).unwrap().starts_with(b"#ASDF"), "{name}");
    }
    assert_eq!(errno(fs::read(mounted.path("none.asdf"))), libc::ENOENT);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = mounts.lines().find(|line| line.contains(mounted.root().to_str().unwrap())).unwrap();
    assert!(line.contains(" s3://data/p/ "), "{line}");
    let options = format!("anonymous,{endpoint}").replace("ro,", "");
    let output = run(&["--cat", "-o", &options, "s3://data/p/deep/e.asdf", "tree.yaml"]);
    assert!(output.stdout.starts_with(b"#ASDF"), "{output:?}");
    assert!(site.server.requests().iter().all(|request| request.header("authorization").is_empty()));
}

#[test]
fn a_cache_on_disk_serves_later_mounts_and_secrets_stay_secret() {
    let site = Site::web(|_, reply| reply);
    site.put("x.asdf", large(1));
    let dir = fresh_folder();
    let options = format!("ro,remote-cache={},64M", dir.path().join("cache").display());
    let url = site.server.url("/x.asdf?token=secret");
    for n in 0..2 {
        let before = site.server.count();
        let mounted = mount(&options, &url.replace("http://", "http://me:secret@"));
        assert!(mounted.block(0) == block(1));
        let statistics = fs::read_to_string(mounted.path(".asdf-mount/stats.yaml")).unwrap();
        // Each block comes from the server once. Later mounts only ask if the version is the same.
        let bytes = statistics.lines().find_map(|line| line.strip_prefix("bytes: ")).unwrap();
        let most = if n == 0 { 26 << 20 } else { 100 };
        assert!(bytes.parse::<u64>().unwrap() < most, "{statistics}");
        assert!(n == 0 || !statistics.contains("disk_hits: 0\n"), "{statistics}");
        // A slow test may ask for the version again.
        let asked = site.asked().into_iter().skip(before).filter(|(_, range)| range != "bytes=0-0").count();
        assert!(n == 0 || asked == 1, "{:?}", site.asked());
        let status = fs::read_to_string(mounted.path(".asdf-mount/status.yaml")).unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = mounts.lines().find(|line| line.contains(mounted.root().to_str().unwrap())).unwrap();
        assert!(line.contains("/x.asdf?"), "{line}");
        assert!(![&statistics, &status, line].iter().any(|text| text.contains("secret")), "{status}{line}");
    }
    assert!(site.server.requests().iter().all(|request| !request.header("authorization").is_empty()));
}
