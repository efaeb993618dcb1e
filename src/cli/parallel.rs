//! Work on many files at once, reported in their order.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;
use std::thread;

use clap::Args;

use super::EDIT;
use crate::error::Result;

/// Maximum number of results that wait for an earlier one, per thread.
const AHEAD: usize = 64;
/// Number of saves at once: each of them waits for several syncs of the disk.
const SAVES: usize = 16;

/// The number of files in progress.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Jobs {
    /// With --set, --filter, --search or --catalog: work on up to N files at once [16 with --set or from servers, else
    /// one per core]
    #[arg(short = 'j', long, help_heading = EDIT, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
}

impl Jobs {
    /// Returns the number of threads for work that mostly waits for the disk.
    pub(super) fn count_for_saves(self) -> usize {
        self.jobs.map_or(SAVES, usize::from)
    }

    /// Returns the number that was given.
    pub(super) fn given(self) -> Option<usize> {
        self.jobs.map(usize::from)
    }

    pub(super) fn count(self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        self.jobs.map_or_else(cores, usize::from)
    }
}

/// Calls `work` for each item on `threads` threads, and `report` with each result on this thread, in the order of the
/// items.
///
/// # Errors
/// As of `report`. Items that were not begun are then left out.
pub(super) fn each<T: Send, R: Send>(
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    threads: usize,
    work: &(dyn Fn(&T) -> R + Sync),
    mut report: impl FnMut(&T, R) -> Result<()>,
) -> Result<()> {
    let items = Mutex::new(items.into_iter().enumerate());
    let (to_report, results) = sync_channel::<(usize, T, R)>(threads * AHEAD);
    thread::scope(|scope| {
        for _ in 0..threads {
            let to_report = to_report.clone();
            let items = &items;
            scope.spawn(move || {
                loop {
                    let next = items.lock().ok().and_then(|mut items| items.next());
                    let Some((n, item)) = next else { return };
                    let result = work(&item);
                    // The send fails once a report failed.
                    if to_report.send((n, item, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(to_report);
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        // The receiver is dropped at an error, which ends the threads.
        for (n, item, result) in results {
            waiting.insert(n, (item, result));
            while let Some((item, result)) = waiting.remove(&next) {
                report(&item, result)?;
                next += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn results_come_in_order_until_one_can_not_be_reported() {
        let mut seen = Vec::new();
        let report = |n: &u64, result: u64| {
            seen.push((*n, result));
            Ok(())
        };
        each(0..1000_u64, 7, &|n| n * n, report).unwrap();
        assert_eq!(seen, (0..1000).map(|n| (n, n * n)).collect::<Vec<_>>());
        let failed =
            each(
                0..1000_u64,
                7,
                &|n| *n,
                |n, _| {
                    if *n == 5 { Err(Error::unsupported("no")) } else { Ok(()) }
                },
            );
        assert_eq!(failed.unwrap_err().message(), "no");
    }
}
