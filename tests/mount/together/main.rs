//! Several programs at once on mounted files: every read is compared with the states that were legal at that moment.
//!
//! Writers save in every style, other programs replace, overwrite and put back the sources, readers hold files and
//! maps, daemons are remounted and killed. Each test runs with the seeds of [`SEEDS`] and with a fresh one, [`SECONDS`] each.
//! `TOGETHER_SECONDS` sets another time, and `TOGETHER_SEED` the only seed. Needs root and `/dev/fuse`.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod content;
mod judge;
mod world;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use world::World;

/// Seeds of each run of the tests.
const SEEDS: [u64; 2] = [1, 3004];
/// Time for a seed.
const SECONDS: u64 = 10;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn nothing_is_wrong(files: usize) {
    let seconds = setting("TOGETHER_SECONDS").unwrap_or(SECONDS);
    let seeds = match setting("TOGETHER_SEED") {
        Some(seed) => vec![seed],
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            [&SEEDS[..], &[now.as_secs()]].concat()
        }
    };
    for seed in seeds {
        let wrong = World::new(files).run(Duration::from_secs(seconds), seed);
        assert!(wrong.is_empty(), "seed {seed}: {} findings\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn programs_on_one_file() {
    nothing_is_wrong(1);
}

#[test]
fn programs_on_a_directory() {
    nothing_is_wrong(20);
}
