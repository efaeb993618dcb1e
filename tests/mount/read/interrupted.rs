//! Programs that are interrupted while a server does not answer them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::on_servers::{ends, example, large, mount, spawn};
use common::mount::wait_until;
use common::server::Reply;
use common::site::Site;

/// Requests in flight of a file, and of a mount.
const OF_FILE: usize = 8;
const OF_MOUNT: usize = 16;

/// Starts a server that does not answer requests beyond the first 1 MiB of `/d/stalled-…` if the flag is set. The
/// number is that of such requests.
fn stalling() -> (Site, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (stalls, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let state = (stalls.clone(), asked.clone());
    let site = Site::web(move |request, reply| {
        let is_far = request.range().is_some_and(|range| (1 << 20..20 << 20).contains(&range.0));
        if !is_far || !request.target.contains("stalled") || !state.0.load(Ordering::Relaxed) {
            return reply;
        }
        state.1.fetch_add(1, Ordering::Relaxed);
        Reply { stall: Some(0), ..reply }
    });
    (site, stalls, asked)
}

#[test]
fn interrupted_readers_leave_their_requests_to_others() {
    let (site, stalls, asked) = stalling();
    for name in ["stalled-0.asdf", "stalled-1.asdf", "other.asdf", "another.asdf"] {
        site.put(&format!("d/{name}"), large(1));
    }
    site.put("d/small.asdf", example());
    // The deadline is later than the patience of the tests.
    let mounted = mount("ro,read-timeout=1000", &site.server.url("/d/"));
    let block = |name: &str| mounted.path(format!("{name}.asdf/blocks/0.bin")).to_str().unwrap().to_owned();
    let dd = |path: &str, mib: usize| {
        let (from, skip) = (format!("if={path}"), format!("skip={}", mib << 10));
        // A shell in the background has the tests ignore the signal.
        spawn(&["env", "--default-signal=INT", "dd", &from, "bs=1024", "count=1", &skip, "status=none"])
    };
    // The second round has more readers than may have requests.
    for readers in [OF_FILE, OF_FILE + 2] {
        asked.store(0, Ordering::Relaxed);
        let read = |n| dd(&block(&format!("stalled-{}", n % 2)), 2 + n / 2 * 2 - n / 2 / OF_FILE);
        let mut waiting: Vec<_> = (0..2 * readers.min(OF_FILE)).map(read).collect();
        assert!(wait_until(|| asked.load(Ordering::Relaxed) >= OF_MOUNT), "{asked:?}");
        waiting.extend((2 * OF_FILE..2 * readers).map(read));
        assert!(waiting.iter_mut().all(ends), "a reader does not end");

        let name = if readers == OF_FILE { "other" } else { "another" };
        let mut reader = dd(&block(name), 12);
        let is_read = wait_until(|| reader.try_wait().unwrap().is_some());
        let _ = reader.kill();
        assert!(is_read && reader.wait().unwrap().success(), "another file is not read");
    }
    assert!(fs::read(mounted.path("small.asdf/tree.yaml")).unwrap().starts_with(b"#ASDF"));
    // Interruptions are no errors, and the file is read once its server answers.
    let statistics = fs::read_to_string(mounted.path("small.asdf/.asdf-mount/stats.yaml")).unwrap();
    assert!(statistics.contains("last_error: null\n"), "{statistics}");
    stalls.store(false, Ordering::Relaxed);
    let stalled = File::open(block("stalled-0")).unwrap();
    assert_eq!(stalled.read_at(&mut [0; 10], 4 << 20).unwrap(), 10);
    drop(stalled);
    mounted.unmount();
}
