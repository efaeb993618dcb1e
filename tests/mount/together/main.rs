//! Several programs at once on mounted files: every read is compared with the states that were legal at that moment.
//!
//! Writers save in every style, other programs replace, overwrite and put back the sources, readers hold files and
//! maps, daemons are remounted and killed. `TOGETHER_SECONDS` sets the time of each test (30), and `TOGETHER_SEED` the
//! seed. They are ignored unless `--ignored` is given. Needs root and `/dev/fuse`.

#![allow(clippy::unwrap_used)] // a test fails by panicking

#[path = "../../common/mod.rs"]
mod common;
mod content;
mod judge;
mod world;

use std::time::Duration;

use world::World;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn nothing_is_wrong(files: usize) {
    let seconds = setting("TOGETHER_SECONDS", 30);
    let seed = setting("TOGETHER_SEED", 1);
    let wrong = World::new(files).run(Duration::from_secs(seconds), seed);
    assert!(wrong.is_empty(), "seed {seed}: {} findings\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
#[ignore = "has not run for an hour without a finding yet: see docs/design.md; run it with --ignored"]
fn programs_on_one_file() {
    nothing_is_wrong(1);
}

#[test]
#[ignore = "has not run for an hour without a finding yet: see docs/design.md; run it with --ignored"]
fn programs_on_a_directory() {
    nothing_is_wrong(20);
}
