//! The log.
//!
//! In the foreground the log goes to stderr, in the background to syslog, or to the file given by
//! `--log-file`. A syslog message is a datagram to `/dev/log`, which systemd's journal reads, too; without a
//! listener it is lost. The default level is warnings; each `-v` adds one. `ASDF_MOUNT_LOG` holds a filter
//! such as `asdf_mount::daemon=trace`, which overrides the level.
//!
//! Each event is one line. Control characters are escaped, so that a line break in a file name can't forge a
//! line.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, RwLock};

use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use seekable::error::{Error, Kind, Result, one_line, printable};
use seekable::sync::{locked_to_read, locked_to_write};

/// The environment variable that overrides `-v`.
pub(crate) const FILTER_VARIABLE: &str = "ASDF_MOUNT_LOG";

/// The names of the crates that log, as they are in a filter.
const CRATES: [&str; 6] = ["asdf_mount", "asdf_access", "asdf_file", "asdf_remote", "asdf_views", "seekable"];

/// The socket of syslog.
const SYSLOG_SOCKET: &str = "/dev/log";

/// The facility `daemon` in the priority of a syslog message (RFC 3164, 4.1.1).
const FACILITY_DAEMON: u8 = 3 << 3;

/// The log file, for [`reopen`].
static LOG_FILE: OnceLock<(PathBuf, Arc<RwLock<File>>)> = OnceLock::new();

/// Level and destination of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Number of `-v` options.
    pub verbose: u8,
    /// `-q`: errors only.
    pub quiet: bool,
    /// `--log-file`, absolute.
    pub file: Option<PathBuf>,
}

impl Settings {
    /// True if `-v` or `ASDF_MOUNT_LOG` asks for a log.
    #[must_use]
    pub(crate) fn is_wanted(&self) -> bool {
        self.verbose > 0 || std::env::var_os(FILTER_VARIABLE).is_some()
    }
}

/// The destination of the log without `--log-file`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogTarget {
    /// Stderr, for a mount in the foreground.
    Stderr,
    /// The system log, for a daemon.
    Syslog,
}

/// Starts the log. Only the first call in a process has an effect.
///
/// # Errors
/// The log file can't be opened, or `ASDF_MOUNT_LOG` is not a valid filter.
pub(crate) fn start(settings: &Settings, target: LogTarget) -> Result<()> {
    let output = match (&settings.file, target) {
        (Some(path), _) => {
            let file = open_file(path)?;
            let file = Arc::new(RwLock::new(file));
            let _ = LOG_FILE.set((path.clone(), file.clone()));
            Output::File(file)
        }
        (None, LogTarget::Stderr) => Output::Stderr,
        (None, LogTarget::Syslog) => Output::syslog(SYSLOG_SOCKET.into()),
    };
    let filter = filter(settings)?;
    // Syslog adds its own timestamps.
    let timed = matches!(output, Output::File(_) | Output::Stderr);
    let events = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(output);
    // Both calls fail only if a log was started before; that log stays in use.
    let _ = if timed { events.try_init() } else { events.without_time().try_init() };
    std::panic::set_hook(Box::new(|panic| tracing::error!("a bug in asdf-mount: {panic}")));
    Ok(())
}

/// Opens the log file again under its name, so that logrotate can rename it. Without a log file, does nothing.
///
/// # Errors
/// The file can't be opened; the log is still written to the old file.
pub(crate) fn reopen() -> Result<()> {
    if let Some((path, file)) = LOG_FILE.get() {
        *locked_to_write(file) = open_file(path)?;
    }
    Ok(())
}

fn open_file(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    file.map_err(|error| Error::from(error).within(format!("--log-file {}", path.display())))
}

/// Writes a line to stderr, ignoring errors.
pub(crate) fn complain(line: impl std::fmt::Display) {
    let _ = writeln!(Complaints, "{}", printable(&line.to_string()));
}

/// A writer to stderr that never fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Complaints;

impl Write for Complaints {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = io::stderr().flush();
        Ok(())
    }
}

/// Checks the filter of the environment.
///
/// # Errors
/// `ASDF_MOUNT_LOG` is not a valid filter.
pub(crate) fn check_environment() -> Result<()> {
    wanted_filter().map(|_| ())
}

/// Returns the filter of the environment; `None` if there is none.
fn wanted_filter() -> Result<Option<EnvFilter>> {
    let Some(wanted) = std::env::var_os(FILTER_VARIABLE).filter(|wanted| !wanted.is_empty()) else {
        return Ok(None);
    };
    let wanted = wanted.to_string_lossy();
    let refuse = |why: String| {
        let message = format!(
            "{FILTER_VARIABLE}={wanted}: {why}; give a level, such as debug, or asdf_mount::daemon=trace"
        );
        Error::new(Kind::Usage, message)
    };
    if let Some(wrong) = wanted.split(',').find(|directive| !is_directive(directive)) {
        return Err(refuse(format!("'{wrong}' is neither a level nor a module with a level")));
    }
    EnvFilter::try_new(&wanted).map(Some).map_err(|error| refuse(error.to_string()))
}

/// True for a level, and for one of our modules, with or without a level. Other words would be taken for a
/// module, of which nothing is logged.
fn is_directive(text: &str) -> bool {
    let is_ours = |module: &str| CRATES.contains(&module.split("::").next().unwrap_or_default());
    let (module, level) = match text.split_once('=') {
        Some((module, level)) => (Some(module), Some(level)),
        None if is_ours(text) => (Some(text), None),
        None => (None, Some(text)),
    };
    module.is_none_or(is_ours)
        && level.is_none_or(|level| !level.is_empty() && level.parse::<LevelFilter>().is_ok())
}

fn filter(settings: &Settings) -> Result<EnvFilter> {
    if let Some(filter) = wanted_filter()? {
        return Ok(filter);
    }
    Ok(EnvFilter::new(match (settings.quiet, settings.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    }))
}

/// The destination of complete lines.
#[derive(Clone, Debug)]
enum Output {
    Stderr,
    File(Arc<RwLock<File>>),
    Syslog { socket: Arc<UnixDatagram>, path: PathBuf },
    Nowhere,
}

impl Output {
    fn syslog(path: PathBuf) -> Self {
        let socket = UnixDatagram::unbound().and_then(|socket| {
            // A full or stuck log must not block a read.
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        socket.map_or(Self::Nowhere, |socket| Self::Syslog { socket: Arc::new(socket), path })
    }

    fn say(&self, severity: u8, line: &str) {
        // A failure to log must not fail the caller, and can't be reported.
        let _ = match self {
            Self::Stderr => writeln!(io::stderr(), "{line}"),
            Self::File(file) => {
                let file = locked_to_read(file);
                (&*file).write_all(format!("{line}\n").as_bytes())
            }
            Self::Syslog { socket, path } => {
                // No timestamp: syslog adds its own.
                let priority = FACILITY_DAEMON | severity;
                let message = format!("<{priority}>asdf-mount[{}]: {line}", std::process::id());
                socket.send_to(message.as_bytes(), path).map(|_| ())
            }
            Self::Nowhere => Ok(()),
        };
    }
}

impl<'a> MakeWriter<'a> for Output {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { output: self, severity: severity(&Level::INFO) }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line<'a> {
        Line { output: self, severity: severity(meta.level()) }
    }
}

/// A writer for one event; the subscriber writes each event in one call.
#[derive(Debug)]
struct Line<'a> {
    output: &'a Output,
    severity: u8,
}

impl Write for Line<'_> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.output.say(self.severity, &one_line(String::from_utf8_lossy(event).trim_end_matches('\n')));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the RFC 3164 severity of a level.
fn severity(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(output: Output, event: impl FnOnce()) {
        let events = tracing_subscriber::fmt().with_ansi(false).without_time().with_target(false);
        tracing::subscriber::with_default(events.with_writer(output).finish(), event);
    }

    #[test]
    fn a_line_break_in_a_name_does_not_make_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        logged(Output::File(Arc::new(RwLock::new(file))), || {
            tracing::warn!("file {}", "x\nERROR forged\u{1b}[2J");
            tracing::info!("second");
        });
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.contains(r"file x\nERROR forged"), "{text}");
    }

    #[test]
    fn syslog_gets_a_datagram_with_priority_and_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let listener = UnixDatagram::bind(&path).unwrap();
        logged(Output::syslog(path), || tracing::warn!("hello"));
        let mut buffer = [0; 200];
        let length = listener.recv(&mut buffer).unwrap();
        let text = std::str::from_utf8(&buffer[..length]).unwrap();
        assert!(text.starts_with(&format!("<28>asdf-mount[{}]: ", std::process::id())), "{text}");
        assert!(text.ends_with("hello"), "{text}");
    }

    #[test]
    fn a_filter_names_levels_and_modules_of_this_program() {
        for right in ["debug", "WARN", "off", "asdf_mount", "asdf_mount::daemon=trace", "asdf_mount=info"] {
            assert!(is_directive(right), "{right}");
        }
        for wrong in
            ["", "nonsense", "verbose", "asdf_mount::daemon=loud", "daemon=trace", "asdf_mounted", "=debug"]
        {
            assert!(!is_directive(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_missing_syslog_is_no_error() {
        logged(Output::syslog("/nowhere/at/all".into()), || tracing::error!("hello"));
    }
}
