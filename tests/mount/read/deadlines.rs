//! The deadline of the requests of a read, and the requests that a file takes.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::on_servers::{ends, errno, mount, plain, spawn};
use common::asdf::{AsdfBuilder, Block};
use common::dice::Dice;
use common::encode::Encoding;
use common::mount::{program, wait_until};
use common::names;
use common::server::{Reply, Server};
use common::site::Site;

const MIB: usize = 1 << 20;
/// Length of a compressed block, which takes several requests one after the other.
const LEN: usize = 40 * MIB;
const LAST: u64 = LEN as u64 - 100;

/// Returns bytes that are not compressible.
fn noise(len: usize) -> Vec<u8> {
    let mut dice = Dice(1);
    (0..len / 8).flat_map(|_| dice.below(u64::MAX).to_le_bytes()).collect()
}

/// Returns a file with a compressed block.
fn compressed(data: &[u8]) -> Vec<u8> {
    AsdfBuilder::new().block(Block::new(data).encoding(Encoding::Zlib)).build().bytes
}

/// Starts a server that is slow with all but the first block while the flag is set.
fn slow(delay: Duration) -> (Site, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (is_slow, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let state = (is_slow.clone(), asked.clone());
    let site = Site::web(move |request, reply| {
        let is_later = request.range().is_some_and(|(first, _)| first > 0);
        if !is_later || !state.0.load(Ordering::Relaxed) {
            return reply;
        }
        state.1.fetch_add(1, Ordering::Relaxed);
        Reply { delay, ..reply }
    });
    (site, is_slow, asked)
}

#[test]
fn a_read_fails_only_if_the_server_stops_answering() {
    // Each request is answered before the deadline, and all together take longer.
    let (delay, timeout) = (Duration::from_secs(1), Duration::from_secs(3));
    let (hangs, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // The number of replies of which each was sent before the request for the next one.
    let in_a_row = Arc::new(AtomicUsize::new(0));
    let state = (hangs.clone(), asked.clone(), in_a_row.clone());
    let site = Site::web(move |request, reply| {
        if request.range().is_none_or(|(first, _)| first == 0) {
            return reply;
        }
        if state.0.load(Ordering::Relaxed) && state.1.fetch_add(1, Ordering::Relaxed) > 0 {
            return Reply { delay: Duration::from_secs(1000), ..reply };
        }
        let before = state.2.load(Ordering::Relaxed);
        std::thread::sleep(delay);
        state.2.fetch_max(before + 1, Ordering::Relaxed);
        reply
    });
    let data = noise(LEN);
    site.put("x.asdf", compressed(&data));
    let mounted = mount(&format!("ro,read-timeout={}", timeout.as_secs()), &site.server.url("/x.asdf"));
    let (block, mut piece) = (File::open(mounted.block_path(0)).unwrap(), [0; 100]);
    // The server answers once more, then no longer.
    hangs.store(true, Ordering::Relaxed);
    assert_eq!(errno(block.read_at(&mut piece, LAST)), libc::EIO);
    assert!(asked.load(Ordering::Relaxed) > 1);
    hangs.store(false, Ordering::Relaxed);
    in_a_row.store(0, Ordering::Relaxed);
    assert_eq!(block.read_at(&mut piece, LAST).unwrap(), 100);
    assert_eq!(piece, data[LAST as usize..]);
    let in_a_row = u32::try_from(in_a_row.load(Ordering::Relaxed)).unwrap();
    assert!(
        in_a_row * delay > timeout,
        "{in_a_row} requests one after the other take less than the deadline"
    );
}

#[test]
fn a_reader_that_waits_for_the_decoder_of_another_is_interrupted() {
    let (site, is_slow, asked) = slow(Duration::from_secs(1000));
    site.put("x.asdf", compressed(&noise(LEN)));
    let mounted = mount("ro,read-timeout=1000", &site.server.url("/x.asdf"));
    let from = format!("if={}", mounted.block_path(0).display());
    assert!(mounted.block_path(0).exists());
    is_slow.store(true, Ordering::Relaxed);
    let skip = format!("skip={}", LAST / 100);
    let dd =
        || spawn(&["env", "--default-signal=INT", "dd", &from, "bs=100", "count=1", &skip, "status=none"]);
    let mut first = dd();
    assert!(wait_until(|| asked.load(Ordering::Relaxed) > 0));
    let mut second = dd();
    // Only a pause can show that the second reader waits.
    std::thread::sleep(Duration::from_millis(300));
    assert!(ends(&mut second), "the second reader does not end");
    assert!(first.try_wait().unwrap().is_none(), "the first reader waits");
    assert!(ends(&mut first));
    mounted.unmount();
}

#[test]
fn an_object_of_any_size_is_searched_within_limits() {
    // The tree is followed by zeros up to the greatest size.
    let (tree, total) = (AsdfBuilder::new().build().bytes, i64::MAX as usize);
    let server = Server::start(move |request, _| {
        let (first, end) = request.range().unwrap();
        let mut body = tree.get(first..).unwrap_or_default().to_vec();
        body.resize(end - first, 0);
        let reply = Reply { body, ..Reply::status(206) };
        reply.with("ETag", "\"v\"").with("Content-Range", &format!("bytes {first}-{}/{total}", end - 1))
    });
    let mounted = mount("ro", &server.url("/x.asdf"));
    assert!(names(&mounted.path("blocks")).is_empty());
    assert!(mounted.tree().starts_with(b"#ASDF"));
}

#[test]
fn the_index_comes_before_the_headers_that_it_lists() {
    let site = Site::web(|_, reply| reply);
    let block = noise(2 * MIB);
    let file =
        (0..12).fold(AsdfBuilder::new(), |file, _| file.block(Block::new(block.clone()))).build().bytes;
    let blocks = file.len().div_ceil(MIB);
    site.put("x.asdf", file);
    let mounted = mount("ro", &site.server.url("/x.asdf"));
    assert_eq!(names(&mounted.path("blocks")).len(), 12);
    let requests = site.server.requests();
    let asked: Vec<_> =
        requests.iter().filter_map(|request| request.range()).map(|range| range.0 / MIB).collect();
    // The index is short, so it may be in the last two blocks.
    assert!(asked[0] == 0 && asked[1] + 2 >= blocks, "{asked:?}");
    assert!(requests[1..].iter().all(|request| !request.header("if-match").is_empty()));
}

#[test]
fn a_crash_leaves_no_core_dump_with_credentials() {
    let server = Server::start(|_, _| Reply { delay: Duration::from_secs(5), ..Reply::status(404) });
    let url = server.url("/x.asdf").replace("http://", "http://me:secret@");
    let folder = common::mount::fresh_folder();
    let mut command = Command::new("prlimit");
    plain(&mut command);
    command.arg("--core=unlimited").arg(program()).args(["--cat", &url, "tree.yaml"]);
    let mut cat =
        command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert!(wait_until(|| server.count() > 0));
    kill_process(Pid::from_child(&cat), Signal::ABORT).unwrap();
    let status = cat.wait().unwrap();
    assert_eq!((status.signal(), status.core_dumped()), (Some(libc::SIGABRT), false));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
