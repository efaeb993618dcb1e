//! `--search`: the keys and values of many files that a pattern matches; `--get`: the values of keys.

use std::io::{self, BufWriter, IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;

use asdf_access::files::{FilesToRead, Found, parallel};
use asdf_access::named::Servers;
use asdf_access::options::Options;
use asdf_access::search::Pattern;
use asdf_tree::yaml::assign::{KeyPath, value_at};
use asdf_tree::yaml::document::text_of;
use asdf_views::info;
use clap::Args;
use seekable::cache::Cache;
use seekable::error::{Error, Kind, Result, one_line, printable, to_json};

use super::action::ACTION;
use super::jobs::Jobs;
use super::position::Near;
use super::{DESCRIBE, at_least_one, complain, open};
use crate::exit;

/// Cache budget of a file, and that for files on servers, in bytes.
const CACHE_BUDGET: u64 = 1 << 20;
const SERVERS_BUDGET: u64 = 64 << 20;
/// Maximum length in bytes of the matches of a file that are held.
const MAX_MATCHES: usize = 64 << 20;

/// The options of `--search` and `--get`.
#[derive(Debug, Args)]
pub(super) struct SearchArguments {
    /// Print the keys and values that PATTERN matches, in each FILE, or in each file of a known format in a directory
    ///
    /// A line has the file, the path of the key, and the value. PATTERN is a regular expression, which is searched for
    /// in paths (meta.instrument.name) and in values; 'filter: V' and filter=V match both. The exit status is that of
    /// grep: 0 if something is found, 1 if not, 2 after an error.
    #[arg(long, help_heading = DESCRIBE, value_name = "PATTERN", group = ACTION)]
    search: Option<String>,

    /// With --search: ignore case
    #[arg(short, long, help_heading = DESCRIBE)]
    ignore_case: bool,

    /// Print the value of KEY, a path such as meta.exposure.filter, in each FILE
    ///
    /// KEY is written as for --set; --get may be repeated. The value of a single FILE stands alone, others stand behind
    /// file and key. A mapping or sequence is printed as YAML. The exit status is 1 if a file does not have the key, and
    /// 2 after an error.
    #[arg(long, help_heading = DESCRIBE, value_name = "KEY", action = clap::ArgAction::Append, group = ACTION)]
    get: Vec<String>,
}

impl SearchArguments {
    /// Searches each file.
    pub(super) fn run(
        &self,
        paths: &[PathBuf],
        options: &Options,
        near: Near,
        jobs: Jobs,
        json: bool,
    ) -> Result<u8> {
        let paths = at_least_one(paths, "--search needs at least one FILE or directory")?;
        let pattern = self.search.as_deref().unwrap_or_default();
        let pattern = Pattern::new(pattern, self.ignore_case).map_err(|error| error.within("--search"))?;
        let form = LineForm::new(json);
        each(paths, options, jobs, &|file| search(file, &pattern, near, form))
    }

    /// Prints the values of the keys in each file.
    pub(super) fn get(&self, paths: &[PathBuf], options: &Options, jobs: Jobs, json: bool) -> Result<u8> {
        let paths = at_least_one(paths, "--get needs at least one FILE or directory")?;
        let keys = self.get.iter().map(|key| KeyPath::parse(key)).collect::<Result<Vec<_>>>()?;
        let is_alone = paths.len() == 1 && keys.len() == 1;
        let form = LineForm::new(json);
        each(paths, options, jobs, &|file| get(file, &keys, is_alone && file.is_named(), form))
    }
}

/// Prints the lines of each file. The exit status is that of grep.
fn each(
    paths: &[PathBuf],
    options: &Options,
    jobs: Jobs,
    lines: &(dyn Fn(&Found) -> Result<Vec<u8>> + Sync),
) -> Result<u8> {
    let servers = Servers::new(&options.remote, &Arc::new(Cache::new(SERVERS_BUDGET)));
    let files = FilesToRead::new(paths.iter().cloned(), &servers);
    let mut out = BufWriter::new(stdout().lock());
    let mut is_found = false;
    let mut is_missing = false;
    let mut has_failed = false;
    let report = |(file, found): (Found, Result<Vec<u8>>)| {
        match found {
            Ok(lines) => {
                is_found |= !lines.is_empty();
                out.write_all(&lines)?;
            }
            Err(error) if file.is_passed_over(&error) => {}
            Err(error) => {
                // A key that a file does not have.
                let is_key = error.kind() == Kind::NotFound;
                is_missing |= is_key;
                has_failed |= !is_key;
                out.flush()?;
                complain(&error.of(file.label()).to_string());
            }
        }
        Ok::<_, Error>(())
    };
    let work = |file: Found| {
        let found = lines(&file);
        (file, found)
    };
    let searched = parallel::each(files, parallel::threads_for(jobs.given()), &work, report);
    match searched.and_then(|()| Ok(out.flush()?)) {
        // A reader that closes the pipe early, such as head, is no failure.
        Err(error) if error.kind() == Kind::System(libc::EPIPE) => {}
        searched => searched?,
    }
    Ok(match (has_failed, is_found && !is_missing) {
        (true, _) => exit::UNREADABLE,
        (false, true) => exit::OK,
        (false, false) => exit::NOT_FOUND,
    })
}

/// The form of a line.
#[derive(Clone, Copy, Debug)]
struct LineForm {
    json: bool,
    colour: bool,
}

impl LineForm {
    fn new(json: bool) -> Self {
        Self { json, colour: info::wants_colour(stdout().is_terminal()) }
    }

    /// Returns the line of a value.
    fn line(self, name: &str, path: &str, value: &str) -> String {
        if self.json {
            return to_json(&serde_json::json!({ "file": name, "path": path, "value": value }));
        }
        let name = one_line(name);
        let path = one_line(path);
        let value = one_line(value);
        if self.colour {
            format!("\x1b[35m{name}\x1b[0m:\x1b[34m{path}\x1b[0m: {value}")
        } else {
            format!("{name}:{path}: {value}")
        }
    }
}

/// Returns the values of keys in a file; one that is alone without file and key.
fn get(file: &Found, keys: &[KeyPath], is_alone: bool, form: LineForm) -> Result<Vec<u8>> {
    let text = text_of(&*open(file, CACHE_BUDGET)?.tree_to_show()?)?;
    let name = file.label().to_string_lossy();
    let mut lines = Vec::new();
    for key in keys {
        let value = value_at(text.as_bytes(), key)?;
        if is_alone && !form.json {
            writeln!(lines, "{}", printable(&value))?;
            continue;
        }
        let values = if form.json { vec![value.as_str()] } else { value.lines().collect() };
        for value in if values.is_empty() { vec![""] } else { values } {
            writeln!(lines, "{}", form.line(&name, &key.to_string(), value))?;
        }
    }
    Ok(lines)
}

/// Returns the lines of a file, if it is near.
fn search(file: &Found, pattern: &Pattern, near: Near, form: LineForm) -> Result<Vec<u8>> {
    let container = open(file, CACHE_BUDGET)?;
    if !near.includes(&container)? {
        return Ok(Vec::new());
    }
    let name = file.label().to_string_lossy();
    let mut lines = Vec::new();
    pattern.each_match(&*container, &mut |path, value| {
        if lines.len() > MAX_MATCHES {
            return Err(Error::unsupported("there are more than 64 MiB of matches; give a narrower pattern"));
        }
        writeln!(lines, "{}", form.line(&name, path, value)).map_err(|error: io::Error| error.into())
    })?;
    Ok(lines)
}
