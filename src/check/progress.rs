//! A line on the terminal about what takes longer than a second; nothing where stderr is no terminal.
//!
//! Of many small files it says how many are done; of a file that takes long by itself it is a bar.

use std::cell::{Cell, RefCell};
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long a run, and then a single file, takes before it is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a line stays before it is drawn anew: a terminal that is drawn on for each of a thousand files a second
/// flickers, and what is not a terminal after all (script(1)) keeps it.
const INTERVAL: Duration = Duration::from_millis(100);

/// The progress through a number of files, one after the other.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    begun: Instant,
    drawn: Cell<Instant>,
    is_shown: Cell<bool>,
    /// Whether stdout, too, is a terminal: the same one, if in doubt.
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
    /// Nothing is shown yet, and with `quiet` never.
    pub(super) fn new(quiet: bool) -> Self {
        let target = match quiet {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
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

    /// True if there is a terminal to show it on.
    pub(super) fn is_visible(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Begins the next file, of which `total` bytes are to be read.
    pub(super) fn file(&self, file: &Path, total: u64) {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().escape_debug().to_string();
        self.files.set(self.files.get() + 1);
        self.current.replace(Current { name, total, done: 0, begun: Instant::now(), has_bar: false });
        self.draw_when_due();
    }

    /// Says that `bytes` more were read.
    pub(super) fn add(&self, bytes: u64) {
        self.bytes.set(self.bytes.get() + bytes);
        self.current.borrow_mut().done += bytes;
        self.draw_when_due();
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
        // In this style, so that the steps to a bar are not seen.
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
            // The rate is that from here on.
            self.bar.reset_eta();
            self.set_style("{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        }
    }

    fn set_style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
    }

    /// Takes the line away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Writes something to stderr, where the line is.
    pub(super) fn hide<T>(&self, write: impl FnOnce() -> T) -> T {
        if self.is_shown.get() { self.bar.suspend(write) } else { write() }
    }

    /// Writes something to stdout, where the line may be as well.
    pub(super) fn hide_if_shared<T>(&self, write: impl FnOnce() -> T) -> T {
        if self.shares_terminal { self.hide(write) } else { write() }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}
