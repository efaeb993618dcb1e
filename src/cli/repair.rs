//! `--repair`: writes a sound file from a damaged one, without a mount.

use std::fs::File;
use std::path::{Path, PathBuf};

use asdf_access::CheckProgress;
use asdf_access::named;
use asdf_access::options::Options;
use asdf_file::container::Defect;
use asdf_file::edit::repair::{Finding, Outcome, Repair};
use seekable::error::{Error, Result, in_json, one_line};
use serde::Serialize;

use super::remake::{Remaking, check_free};
use super::{complain, exit, print, usage};
use crate::log;
use crate::look::write_new;

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
    let remaking = Remaking::new(options, quiet);
    let plan = || {
        let old = remaking.open(file)?;
        Ok((Repair::plan(&*old.container, &|bytes| remaking.progress.add(bytes))?, old.mode))
    };
    let (repair, mode) = plan().map_err(|error: Error| error.of(named::shown(file)))?;
    if !repair.is_needed() {
        return Ok(Vec::new());
    }
    let mut findings = repair.findings.clone();
    let write = |new: &File| {
        remaking.write(fixed, new, repair.size(), |out, count| repair.write(out, count))?;
        for Defect { block, what, .. } in remaking.damage_in(fixed, new)? {
            let what = format!("still damaged: {what}");
            findings.push(Finding { block, outcome: Outcome::Doubtful, what });
        }
        Ok(())
    };
    write_new(fixed, mode, write).map_err(|error| error.of(fixed))?;
    Ok(findings)
}
