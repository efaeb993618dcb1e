//! `-j`: the number of files in progress.

use std::num::NonZero;
use std::thread;

use clap::Args;

use super::EDIT;

/// Number of saves at once: each of them waits for several syncs of the disk.
const SAVES: usize = 16;

/// The number of files in progress.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Jobs {
    /// With --set, --unset, --filter, --search, --get, --catalog or --cutout: work on up to N files at once [16 with --set, --unset
    /// or from servers, else one per core]
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
