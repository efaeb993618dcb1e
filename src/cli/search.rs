//! `--search`: the keys and values of many files that a pattern matches.

use std::io::{self, BufWriter, IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use regex::Regex;

use super::action::ACTION;
use super::jobs::Jobs;
use super::{DESCRIBE, at_least_one, complain, usage};
use crate::cache::Cache;
use crate::error::{Error, Kind, Result, one_line, to_json};
use crate::exit;
use crate::files::{FilesToRead, Found, parallel};
use crate::format::{self, Context};
use crate::info;
use crate::named::Servers;
use crate::options::Options;
use crate::source::BufferedSource;

/// Cache budget of a file, and that for files on servers, in bytes.
const CACHE_BUDGET: u64 = 1 << 20;
const SERVERS_BUDGET: u64 = 64 << 20;
/// Maximum length in bytes of the matches of a file that are held.
const MAX_MATCHES: usize = 64 << 20;

/// The options of `--search`.
#[derive(Debug, Args)]
pub(super) struct SearchArguments {
    /// Print the keys and values that PATTERN matches, in each FILE, or in each file of a known format in a directory
    ///
    /// A line has the file, the path of the key, and the value. PATTERN is a regular expression, which is searched for
    /// in paths (meta.instrument.name) and in values; (?i) at its start ignores case. The exit status is that of grep:
    /// 0 if something is found, 1 if not, 2 after an error.
    #[arg(long, help_heading = DESCRIBE, value_name = "PATTERN", group = ACTION)]
    pub(super) search: Option<String>,
}

impl SearchArguments {
    /// Searches each file.
    pub(super) fn run(&self, paths: &[PathBuf], options: &Options, jobs: Jobs, json: bool) -> Result<u8> {
        let paths = at_least_one(paths, "--search needs at least one FILE or directory")?;
        let pattern = self.search.as_deref().unwrap_or_default();
        let pattern = Regex::new(pattern).map_err(|error| {
            let lines: Vec<String> = error.to_string().lines().map(|line| line.trim().to_owned()).collect();
            usage(format!("--search: {}", lines.join(" ")))
        })?;
        let servers = Servers::new(&options.remote, &Arc::new(Cache::new(SERVERS_BUDGET)));
        let files = FilesToRead::new(paths.iter().cloned(), &servers);
        let form = LineForm { json, colour: info::wants_colour(stdout().is_terminal()) };
        let mut out = BufWriter::new(stdout().lock());
        let mut is_found = false;
        let mut has_failed = false;
        let report = |(file, found): (Found, Result<Vec<u8>>)| {
            match found {
                Ok(lines) => {
                    is_found |= !lines.is_empty();
                    out.write_all(&lines)?;
                }
                Err(error) if file.is_passed_over(&error) => {}
                Err(error) => {
                    has_failed = true;
                    out.flush()?;
                    complain(&error.of(file.label()).to_string());
                }
            }
            Ok::<_, Error>(())
        };
        let search = |file: Found| {
            let found = search(&file, &pattern, form);
            (file, found)
        };
        let searched = parallel::each(files, parallel::threads_for(jobs.given()), &search, report);
        match searched.and_then(|()| Ok(out.flush()?)) {
            // A reader that closes the pipe early, such as head, is no failure.
            Err(error) if error.kind() == Kind::System(libc::EPIPE) => {}
            searched => searched?,
        }
        Ok(match (has_failed, is_found) {
            (true, _) => exit::UNREADABLE,
            (false, true) => exit::OK,
            (false, false) => exit::NOT_FOUND,
        })
    }
}

/// The form of a line.
#[derive(Clone, Copy, Debug)]
struct LineForm {
    json: bool,
    colour: bool,
}

/// Returns the lines of a file.
fn search(file: &Found, pattern: &Regex, form: LineForm) -> Result<Vec<u8>> {
    let context = Context::new(Arc::new(Cache::with_threads(CACHE_BUDGET, 1)));
    let container = format::open(Arc::new(BufferedSource::new(file.open()?)), &context)?;
    let name = file.label().to_string_lossy();
    let shown = one_line(&name);
    let mut lines = Vec::new();
    info::each_leaf(&*container, &mut |path, value| {
        if !pattern.is_match(path) && !pattern.is_match(value) {
            return Ok(());
        }
        if lines.len() > MAX_MATCHES {
            return Err(Error::unsupported("there are more than 64 MiB of matches; give a narrower pattern"));
        }
        let line = if form.json {
            to_json(&serde_json::json!({ "file": name, "path": path, "value": value }))
        } else if form.colour {
            format!("\x1b[35m{shown}\x1b[0m:\x1b[34m{}\x1b[0m: {}", one_line(path), one_line(value))
        } else {
            format!("{shown}:{}: {}", one_line(path), one_line(value))
        };
        writeln!(lines, "{line}").map_err(|error: io::Error| error.into())
    })?;
    Ok(lines)
}
