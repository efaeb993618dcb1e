//! A bar on the terminal for what takes longer than a second; nothing when stderr is none.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long to wait before a bar is worth showing.
const PATIENCE: Duration = Duration::from_secs(1);

/// The progress through one file.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    begun: Instant,
    shown: Cell<bool>,
}

impl Progress {
    /// A bar for `total` bytes, not shown yet.
    pub(super) fn new(file: &Path, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().escape_debug().to_string();
        let template = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(name);
        Self { bar, begun: Instant::now(), shown: Cell::new(false) }
    }

    /// Says that `bytes` more were read.
    pub(super) fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
        if !self.shown.get() && self.begun.elapsed() > PATIENCE {
            self.shown.set(true);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Writes something on the terminal where the bar is.
    pub(super) fn hide<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
