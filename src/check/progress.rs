//! A bar on the terminal for what takes longer than a second; nothing when stderr is none.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long to wait before a bar is worth showing.
const PATIENCE: Duration = Duration::from_secs(1);

/// The progress through a number of files, one after the other.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    begun: Instant,
    files: Cell<u64>,
    shown: Cell<bool>,
}

impl Progress {
    /// A bar that is not shown yet.
    pub(super) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        let template = "{prefix} {msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, begun: Instant::now(), files: Cell::new(0), shown: Cell::new(false) }
    }

    /// Begins the next file, of which `total` bytes are to be read.
    pub(super) fn file(&self, file: &Path, total: u64) {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().escape_debug().to_string();
        self.files.set(self.files.get() + 1);
        self.bar.reset();
        self.bar.set_length(total);
        self.bar.set_prefix(format!("file {}:", self.files.get()));
        self.bar.set_message(name);
        self.show_when_due();
    }

    /// Says that `bytes` more were read.
    pub(super) fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
        self.show_when_due();
    }

    fn show_when_due(&self) {
        if !self.shown.get() && self.begun.elapsed() > PATIENCE {
            self.shown.set(true);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Writes something on the terminal where the bar is.
    pub(super) fn hide<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}
