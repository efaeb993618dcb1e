//! `--repair`: writes a sound file from a damaged one, without a mount.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_access::files::open_whole;
use asdf_access::named::{self, Named, Servers};
use asdf_access::options::Options;
use asdf_access::{CheckProgress, library};
use asdf_file::container::{Context, Severity};
use asdf_file::edit::repair::{Finding, Outcome, Repair};
use asdf_views::format;
use seekable::cache::Cache;
use seekable::error::{Error, Kind, Result, in_json, one_line};
use seekable::source::{BufferedSource, FileSource};
use serde::Serialize;

use super::{complain, exit, print, usage};
use crate::log;
use crate::look::write_new;
use crate::progress::Progress;

/// Cache budget in bytes.
const CACHE_BUDGET: u64 = 16 << 20;
/// Cache budget in bytes for files on servers, which are read ahead.
const SERVERS_BUDGET: u64 = 128 << 20;
/// Bytes written at once.
const PIECE: usize = 256 << 10;
/// Mode of the new file if the damaged one is on a server.
const MODE: u32 = 0o666;

/// The report in JSON.
#[derive(Serialize)]
struct Report {
    file: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fixed: Option<String>,
    findings: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Writes what can be kept of a file to `fixed`, and reports what became of each block. The exit status is 0 if all data
/// are kept, or nothing is to be repaired.
pub(super) fn run(
    paths: &[PathBuf],
    fixed: Option<&Path>,
    options: &Options,
    json: bool,
    quiet: bool,
) -> Result<u8> {
    let ([file], Some(fixed)) = (paths, fixed) else {
        return Err(usage("give one FILE, and the name of the file to write: --repair FILE -O FIXED"));
    };
    let name = named::shown(file).display().to_string();
    let repaired = repair(file, fixed, options, quiet);
    if let Err(error) = &repaired
        && !json
    {
        complain(&error.to_string());
        return Ok(exit::of(error));
    }
    let error = repaired.as_ref().err().map(Error::to_string);
    let findings = repaired.unwrap_or_default();
    let is_whole = findings.iter().all(|finding| finding.outcome < Outcome::Doubtful);
    let (status, code) = match (&error, is_whole) {
        (Some(_), _) => ("failed", exit::FAILED),
        (None, false) => ("incomplete", exit::FAILED),
        (None, true) if findings.is_empty() => ("sound", exit::OK),
        (None, true) => ("repaired", exit::OK),
    };
    let is_written = error.is_none() && !findings.is_empty();
    let fixed = is_written.then(|| fixed.display().to_string());
    if json {
        let report = Report { file: name, status, fixed, findings, error };
        let line = serde_json::to_string(&report).map_err(std::io::Error::from)?;
        print(format!("{}\n", in_json(&line)).as_bytes())?;
        return Ok(code);
    }
    let mut lines = String::new();
    for finding in &findings {
        lines += &format!("{}: {}\n", one_line(&name), one_line(&finding.to_string()));
    }
    if findings.is_empty() && !quiet {
        lines = format!("{}: nothing to repair\n", one_line(&name));
    }
    print(lines.as_bytes())?;
    if !quiet && let Some(fixed) = fixed {
        let count = |outcome| findings.iter().filter(|finding| finding.outcome == outcome).count();
        let outcomes = [Outcome::Kept, Outcome::Mended, Outcome::Doubtful, Outcome::Cut, Outcome::Lost];
        let counts: Vec<String> =
            outcomes.map(|outcome| format!("{} {}", count(outcome), outcome.word())).into();
        log::complain(format_args!("{}: {}", one_line(&fixed), counts.join(", ")));
    }
    Ok(code)
}

/// Repairs a file. Returns no findings if there is nothing to repair.
fn repair(file: &Path, fixed: &Path, options: &Options, quiet: bool) -> Result<Vec<Finding>> {
    check_free(fixed)?;
    let progress = Progress::new(quiet);
    let servers = Servers::new(&options.remote, &Arc::new(Cache::new(SERVERS_BUDGET)));
    let context = Context::new(Arc::new(Cache::new(CACHE_BUDGET)));
    let mut mode = MODE;
    let mut plan = || {
        let source = match Named::of(file, &servers)? {
            Named::Local(path) => open_whole(&path)?,
            Named::Elsewhere(place) => place.open()?,
        };
        if let Some(descriptor) = source.descriptor() {
            mode = rustix::fs::fstat(descriptor)?.st_mode;
        }
        let container = format::open(Arc::new(BufferedSource::new(source)), &context)?;
        progress.file(file, container.source_stat().size);
        Repair::plan(&*container, &|bytes| progress.add(bytes))
    };
    let repair = plan().map_err(|error: Error| error.of(named::shown(file)))?;
    if !repair.is_needed() {
        return Ok(Vec::new());
    }
    let mut findings = repair.findings.clone();
    let write = |new: &std::fs::File| {
        progress.file(fixed, repair.size());
        let mut out = BufWriter::with_capacity(PIECE, new);
        repair.write(&mut out, &|bytes| progress.add(bytes))?;
        out.flush()?;
        drop(out);
        // The new file is checked before it gets its name.
        let source = Arc::new(FileSource::from_file(new.try_clone()?, fixed)?);
        let mut checked = library::check::Findings::default();
        library::File::of_source(source, &context)?.check_into(&mut checked, &progress)?;
        for defect in checked.defects.iter().filter(|defect| defect.severity == Severity::Damage) {
            let what = format!("still damaged: {}", defect.what);
            findings.push(Finding { block: defect.block, outcome: Outcome::Doubtful, what });
        }
        Ok(())
    };
    write_new(fixed, mode, write).map_err(|error| error.of(fixed))?;
    Ok(findings)
}

/// Refuses a name that exists, before the file is read.
fn check_free(fixed: &Path) -> Result<()> {
    match fixed.symlink_metadata() {
        Ok(_) => Err(Error::new(Kind::Refused, "exists already: give a name that is free").of(fixed)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::from(error).of(fixed)),
    }
}
