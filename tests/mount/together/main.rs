//! Several programs at once on mounted files: every read is compared with the states that were legal at that moment.
//!
//! Writers save in every style, commands save, other programs replace, overwrite, cut, move and link the sources, readers
//! hold files and maps of all views, daemons are remounted and killed; the disk is full at times, Python updates files,
//! or a second daemon shares no locks. Each test runs with the seeds of [`SEEDS`] and with a fresh one,
//! [`SECONDS`] each.
//! `TOGETHER_SECONDS` sets another time, and `TOGETHER_SEED` the only seed. With `TOGETHER_SHRINK=1`, a seed that finds
//! something is run again without one actor after another, to find the few that suffice. Needs root and `/dev/fuse`.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod commands;
mod content;
mod judge;
mod others;
mod python;
mod readers;
mod saves;
mod views;
mod world;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use world::{Kind, World};

/// Seeds of each run of the tests.
const SEEDS: [u64; 1] = [1];
/// Time for a seed.
const SECONDS: u64 = 7;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn nothing_is_wrong(kind: Kind) {
    let time = Duration::from_secs(setting("TOGETHER_SECONDS").unwrap_or(SECONDS));
    let seeds = match setting("TOGETHER_SEED") {
        Some(seed) => vec![seed],
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            [&SEEDS[..], &[now.as_secs()]].concat()
        }
    };
    for seed in seeds {
        let mut actors = World::actors(kind);
        let wrong = World::new(kind, seed).run(time, seed, &actors);
        if wrong.is_empty() {
            continue;
        }
        if setting("TOGETHER_SHRINK").is_some() {
            for actor in World::actors(kind) {
                let others: Vec<_> = actors.iter().copied().filter(|other| *other != actor).collect();
                if !World::new(kind, seed).run(time, seed, &others).is_empty() {
                    actors = others;
                }
            }
        }
        panic!("seed {seed}: {} findings\n{}\nby {actors:?}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn programs_on_one_file() {
    nothing_is_wrong(Kind::File);
}

#[test]
fn programs_on_a_directory() {
    nothing_is_wrong(Kind::Directory);
}

/// Each week.
mod rare {
    use super::nothing_is_wrong;
    use crate::world::Kind;

    #[test]
    fn programs_on_a_directory_that_is_read_only() {
        nothing_is_wrong(Kind::ReadOnly);
    }

    #[test]
    fn programs_on_a_full_disk() {
        nothing_is_wrong(Kind::FullDisk);
    }

    #[test]
    fn programs_and_two_daemons_without_shared_locks() {
        nothing_is_wrong(Kind::TwoDaemons);
    }
}
