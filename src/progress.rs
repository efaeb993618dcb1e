//! A progress line on the terminal for runs longer than a second; no line is shown if stderr is no terminal.
//!
//! For many small files the line shows their number. For a file that takes long to read it is a progress bar.

use std::cell::{Cell, RefCell};
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use asdf_access::CheckProgress;
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Minimum duration of a run before the line is shown, and of a file before its bar is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// Minimum time between updates of the line. Without it, a thousand files a second make a terminal flicker,
/// and script(1) records each update.
const INTERVAL: Duration = Duration::from_millis(100);

/// The progress through several files, one after the other.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    begun: Instant,
    drawn: Cell<Instant>,
    is_shown: Cell<bool>,
    /// True if stdout is a terminal as well, presumably the same one.
    shares_terminal: bool,
    files: Cell<u64>,
    bytes: Cell<u64>,
    current: RefCell<Current>,
}

/// The file that is being read.
#[derive(Debug)]
struct Current {
    name: String,
    total: u64,
    done: u64,
    begun: Instant,
    has_bar: bool,
}

impl Progress {
    /// Creates a progress line that is not shown yet, and never with `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let now = Instant::now();
        let current = Current { name: String::new(), total: 0, done: 0, begun: now, has_bar: false };
        Self {
            bar,
            begun: now,
            drawn: Cell::new(now),
            is_shown: Cell::new(false),
            shares_terminal: std::io::stdout().is_terminal(),
            files: Cell::new(0),
            bytes: Cell::new(0),
            current: RefCell::new(current),
        }
    }

    fn draw_when_due(&self) {
        let now = Instant::now();
        if now - self.begun < PATIENCE || now - self.drawn.get() < INTERVAL {
            return;
        }
        self.drawn.set(now);
        self.is_shown.set(true);
        let mut current = self.current.borrow_mut();
        let Current { name, total, done, begun, has_bar } = &mut *current;
        if now - *begun >= PATIENCE && *has_bar {
            self.bar.set_position(*done);
            return;
        }
        // The style without a bar is set first, so that the bar is not drawn with half of its new values.
        self.set_style("{wide_msg}");
        let count = self.files.get();
        if now - *begun < PATIENCE {
            let bytes = HumanBytes(self.bytes.get());
            self.bar.set_message(format!("file {count}, {bytes} read: {name}"));
        } else {
            *has_bar = true;
            self.bar.set_message(format!("file {count}: {name}"));
            self.bar.reset();
            self.bar.set_length(*total);
            self.bar.set_position(*done);
            // The rate counts from here on.
            self.bar.reset_eta();
            self.set_style("{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        }
    }

    fn set_style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
    }

    /// Removes the line.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Writes to stderr while the line is hidden.
    pub(crate) fn hide<T>(&self, write: impl FnOnce() -> T) -> T {
        if self.is_shown.get() { self.bar.suspend(write) } else { write() }
    }

    /// Writes to stdout while the line is hidden, if both share a terminal.
    pub(crate) fn hide_if_shared<T>(&self, write: impl FnOnce() -> T) -> T {
        if self.shares_terminal { self.hide(write) } else { write() }
    }
}

impl CheckProgress for Progress {
    fn is_visible(&self) -> bool {
        !self.bar.is_hidden()
    }

    fn file(&self, file: &Path, total: u64) {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().escape_debug().to_string();
        self.files.set(self.files.get() + 1);
        self.current.replace(Current { name, total, done: 0, begun: Instant::now(), has_bar: false });
        self.draw_when_due();
    }

    fn add(&self, bytes: u64) {
        self.bytes.set(self.bytes.get() + bytes);
        self.current.borrow_mut().done += bytes;
        self.draw_when_due();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}
