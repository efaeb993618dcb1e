//! `asdf-mount --check`: reads a whole file without a mount and reports its defects. `--index` ([`tables`])
//! reads only the blocks that have seek tables.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_access::files::{FilesToRead, Found};
use asdf_access::library;
use asdf_access::library::check::Findings;
use asdf_access::named::Servers;
use asdf_access::options::RemoteOptions;
use asdf_file::container::{Context, Defect, Severity};
use asdf_tree::schema::Schemas;
use seekable::cache::Cache;
use seekable::error::{Error, Kind, Result, in_json, one_line};
use seekable::source::BufferedSource;
use serde::Serialize;

use crate::log::complain;
use crate::progress::Progress;

mod summary;
pub(crate) mod tables;

use summary::Summary;

/// Cache budget in bytes: one pass from start to end needs little.
const CACHE_BUDGET: u64 = 16 << 20;
/// Cache budget in bytes for files on servers, which are read ahead.
const SERVERS_BUDGET: u64 = 128 << 20;

/// The result for one file.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// The file as named on the command line, without passwords; in JSON, bytes that are not UTF-8 become
    /// U+FFFD.
    #[serde(serialize_with = "as_text")]
    pub file: PathBuf,
    /// The verdict.
    pub status: Status,
    /// Number of blocks, as far as they can be found.
    pub blocks: usize,
    /// The defects, in file order.
    pub defects: Vec<Defect>,
    /// The error if the file can't be read at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The verdict on a file; its number is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// All data can be read; there may be notes of violations of the standard.
    Sound = 0,
    /// Some data can't be read or can't be trusted.
    Damaged = 1,
    /// The file, or some of its data, can't be read by this program, such as an unknown format or codec. No damage was
    /// found.
    Unreadable = 2,
}

/// The settings of a check and its report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How<'a> {
    /// True for an object in JSON per file instead of a line per defect.
    pub json: bool,
    /// True to leave the summary out.
    pub quiet: bool,
    /// The options for files on servers.
    pub remote: &'a RemoteOptions,
    /// The schemas that the trees must fit; `None` for no schemas.
    pub schemas: Option<&'a Arc<Schemas>>,
}

/// Checks the files, including those in directories, and prints their defects. Returns the worst verdict.
///
/// # Errors
///
/// The output can't be written.
pub(crate) fn run(files: &[PathBuf], how: How<'_>, out: &mut dyn Write) -> io::Result<Status> {
    let How { json, quiet, remote, schemas } = how;
    let servers = servers(remote);
    let files = FilesToRead::new(files.iter().cloned(), &servers);
    let progress = Progress::new(quiet);
    let mut summary = Summary::default();
    for found in files {
        let Some(report) = report_on(&found, schemas, &progress) else {
            summary.passed_over += 1;
            continue;
        };
        summary.add(report.status, report.blocks);
        if let Some(error) = &report.error
            && !json
        {
            progress.hide(|| complain(format_args!("asdf-mount: {}", one_line(error))));
        }
        match write(&report, json, &progress, out) {
            // A reader that closes the pipe early, such as head, is no failure.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(summary.status()),
            written => written?,
        }
    }
    progress.end();
    if !quiet {
        out.flush()?;
        complain(summary);
    }
    Ok(summary.status())
}

fn write(report: &Report, json: bool, progress: &Progress, out: &mut dyn Write) -> io::Result<()> {
    if json {
        progress.hide_if_shared(|| writeln!(out, "{}", in_json(&serde_json::to_string(report)?)))
    } else if report.defects.is_empty() {
        Ok(())
    } else {
        progress.hide_if_shared(|| print(report, out))
    }
}

fn as_text<S: serde::Serializer>(file: &Path, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(&file.to_string_lossy())
}

fn print(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let file = one_line(&report.file.to_string_lossy());
    for defect in &report.defects {
        let severity = match defect.severity {
            Severity::Note => "note",
            Severity::Damage => "damage",
            Severity::Unread => "not read",
        };
        write!(out, "{file}: byte {}: ", defect.offset)?;
        if let Some(block) = defect.block {
            write!(out, "block {block}: ")?;
        }
        writeln!(out, "{severity}: {}", one_line(&defect.what))?;
    }
    Ok(())
}

impl Report {
    fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), status: Status::Sound, blocks: 0, defects: Vec::new(), error: None }
    }

    /// A file that can't be opened, because it is damaged or for another reason.
    fn unreadable(mut self, error: Error) -> Self {
        self.status = if error.kind() == Kind::Damaged { Status::Damaged } else { Status::Unreadable };
        self.error = Some(error.of(&self.file).to_string());
        self
    }
}

/// Returns the servers of files to check.
fn servers(options: &RemoteOptions) -> Servers {
    Servers::new(options, &Arc::new(Cache::new(SERVERS_BUDGET)))
}

/// Checks one file. Returns `None` if it is not a file to check.
fn report_on(found: &Found, schemas: Option<&Arc<Schemas>>, progress: &Progress) -> Option<Report> {
    let mut report = Report::new(found.label());
    let mut findings = Findings::default();
    let result = open(found, schemas).and_then(|file| file.check_into(&mut findings, progress));
    report.blocks = findings.blocks;
    report.defects = findings.defects;
    let result = match result {
        Err(error) if error.kind() == Kind::Unfinished => {
            let what = error.message();
            report.defects.push(Defect { severity: Severity::Damage, offset: 0, block: None, what });
            Ok(())
        }
        result => result,
    };
    match result {
        Ok(()) => {
            report.status = match report.defects.iter().map(|defect| defect.severity).max() {
                None | Some(Severity::Note) => Status::Sound,
                Some(Severity::Unread) => Status::Unreadable,
                Some(Severity::Damage) => Status::Damaged,
            };
        }
        Err(error) if found.is_passed_over(&error) => return None,
        Err(error) => return Some(report.unreadable(error)),
    }
    Some(report)
}

fn open(found: &Found, schemas: Option<&Arc<Schemas>>) -> Result<library::File> {
    let schemas = schemas.cloned();
    let context = Context { schemas, ..Context::new(Arc::new(Cache::new(CACHE_BUDGET))) };
    library::File::of_source(Arc::new(BufferedSource::new(found.open()?)), &context)
}
