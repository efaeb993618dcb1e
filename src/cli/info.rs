//! `--info`: one screen about each file, and a line for each file in a directory.

use std::io::{BufWriter, IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_access::files::{FilesToRead, Found, parallel};
use asdf_access::named::{self, Servers};
use asdf_access::options::Options;
use asdf_file::container::Container;
use asdf_tree::product::FileSummary;
use asdf_views::info::{self, InfoForm};
use clap::Args;
use seekable::cache::Cache;
use seekable::error::{Error, Kind, Result, beginning, columns, one_line, padded};

use super::action::ACTION;
use super::look::LOOK;
use super::position::Near;
use super::{at_least_one, complain, open, terminal};
use crate::exit;

/// Cache budget in bytes.
const CACHE_BUDGET: u64 = 4 << 20;
/// Cache budget in bytes for files on servers.
const SERVERS_BUDGET: u64 = 32 << 20;
/// Lines of the tree if the output is no terminal, and width of these lines.
const ROWS: usize = 50;
const WIDTH: usize = 100;
/// Maximum number of rows whose columns are aligned.
const ALIGNED: usize = 500;

/// The options of `--info`.
#[derive(Debug, Args)]
pub(super) struct InfoArguments {
    /// Show what is in each FILE on one screen: product, blocks, and the tree with its arrays and tables
    ///
    /// A directory is shown with a line for each file in it. The exit status is 1 if a file is damaged. The output is as
    /// wide as the terminal, and coloured on a terminal unless NO_COLOR is set.
    #[arg(long, help_heading = LOOK, group = ACTION)]
    info: bool,

    /// With --info: show the tree to this depth [as deep as fits on the screen]
    #[arg(short = 'L', long, help_heading = LOOK, value_name = "DEPTH", value_parser = clap::value_parser!(u16).range(1..))]
    depth: Option<u16>,
}

impl InfoArguments {
    /// Describes each file. The exit status is that of the last failure; a damaged file is one.
    pub(super) fn run(&self, paths: &[PathBuf], options: &Options, all: bool, near: Near) -> Result<u8> {
        let paths = at_least_one(paths, "--info needs at least one FILE or directory")?;
        let form = self.form(all);
        let servers = Servers::new(&options.remote, &Arc::new(Cache::new(SERVERS_BUDGET)));
        let files = FilesToRead::new(paths.iter().cloned(), &servers);
        let mut out = BufWriter::new(stdout().lock());
        let mut printing = Printing { form, rows: Rows::default(), shown: 0, status: exit::OK };
        let mut unseen: Vec<PathBuf> = paths.iter().map(|path| named::shown(path)).collect();
        let work = |file: Found| {
            let description = describe(&file, near);
            (file, description)
        };
        let report = |(file, description): (Found, Result<Description>)| {
            if matches!(description, Ok(Description::Far)) {
                unseen.retain(|path| !file.label().starts_with(path));
                return Ok(());
            }
            let is_shown = printing.take(&file, description, &mut out)?;
            unseen.retain(|path| !is_shown || !file.label().starts_with(path));
            Ok::<_, Error>(())
        };
        let read = parallel::each(files, parallel::threads_for(None), &work, report);
        match read.and_then(|()| printing.rows.write(form, &mut out)) {
            // A reader that closes the pipe early, such as head, is no failure.
            Err(error) if error.kind() == Kind::System(libc::EPIPE) => return Ok(exit::OK),
            printed => printed?,
        }
        if near.near.is_some() && printing.shown == 0 {
            complain("no image contains the position");
            printing.status = printing.status.max(exit::NOT_FOUND);
        }
        for path in unseen.iter().filter(|path| printing.shown == 0 || path.is_dir()) {
            complain(&format!("{}: no files of a known format", path.display()));
        }
        if let Some(broken) = printing.rows.broken() {
            complain(&format!("{broken}; --info FILE says how, --check reads the data"));
        }
        Ok(printing.status)
    }

    fn form(&self, all: bool) -> InfoForm {
        let (width, rows) = terminal::size().unwrap_or((WIDTH, ROWS));
        InfoForm {
            width,
            // The first lines, and the next prompt.
            rows: rows.saturating_sub(12).max(12),
            depth: self.depth.map(usize::from),
            all,
            children: info::MAX_CHILDREN,
            colour: info::wants_colour(stdout().is_terminal()),
        }
    }
}

/// The description of a file.
enum Description {
    /// None of its images is near.
    Far,
    /// Its line, as it was found in a directory.
    Row(Box<InfoRow>),
    /// All of it, which is read when it is printed.
    Whole,
}

/// Describes a file.
fn describe(file: &Found, near: Near) -> Result<Description> {
    if file.is_named() && near.near.is_none() {
        return Ok(Description::Whole);
    }
    let container = open(file, CACHE_BUDGET)?;
    if !near.includes(&container)? {
        return Ok(Description::Far);
    }
    if file.is_named() {
        return Ok(Description::Whole);
    }
    Ok(Description::Row(Box::new(InfoRow::of(file.label(), &*container)?)))
}

/// The output, and what it was about.
struct Printing {
    form: InfoForm,
    rows: Rows,
    /// Number of files that are shown.
    shown: usize,
    status: u8,
}

impl Printing {
    /// Prints a file: all of it, or its row if it was found in a directory. Returns false if it is passed over.
    fn take(&mut self, file: &Found, description: Result<Description>, out: &mut dyn Write) -> Result<bool> {
        let form = self.form;
        let described = description.and_then(|description| match description {
            Description::Row(row) => {
                if row.state() == DAMAGED {
                    self.status = self.status.max(exit::DAMAGED);
                }
                let is_slow = matches!(file, Found::Elsewhere(_));
                if is_slow && !self.rows.has_title {
                    // Any of the columns may be needed later.
                    self.rows.widths = COLUMNS.map(|column| column.title.len());
                }
                self.rows.add(*row);
                // A server is slow, so each file is printed at once.
                if is_slow || self.rows.rows.len() > ALIGNED { self.rows.write(form, out) } else { Ok(()) }
            }
            Description::Far => Ok(()),
            Description::Whole => open(file, CACHE_BUDGET).and_then(|container| {
                self.rows.write(form, out)?;
                if self.shown > 0 {
                    writeln!(out)?;
                }
                info::write(&*container, &file.label().to_string_lossy(), form, out)?;
                if !info::damage(&*container)?.is_empty() {
                    self.status = self.status.max(exit::DAMAGED);
                }
                Ok(())
            }),
        });
        match described {
            Ok(()) => {}
            Err(error) if file.is_passed_over(&error) => return Ok(false),
            Err(error) if error.kind() == Kind::System(libc::EPIPE) => return Err(error),
            Err(error) => {
                out.flush()?;
                let is_damaged = error.kind() == Kind::Damaged;
                complain(&error.of(file.label()).to_string());
                self.status = self.status.max(if is_damaged { exit::DAMAGED } else { exit::FAILED });
                if !file.is_named() {
                    let state = if is_damaged { DAMAGED } else { UNREADABLE };
                    self.rows.add(InfoRow::without_facts(file.label(), state));
                }
            }
        }
        self.shown += 1;
        Ok(true)
    }
}

/// A column of the table of files.
struct InfoColumn {
    title: &'static str,
    /// The fact that it shows; empty for the name and the size.
    fact: &'static str,
    /// The width to which it is cut if the lines are too long for the terminal.
    least_width: usize,
}

const fn column(title: &'static str, fact: &'static str, least_width: usize) -> InfoColumn {
    InfoColumn { title, fact, least_width }
}

const COLUMNS: [InfoColumn; 9] = [
    column("FILE", "", 24),
    column("SIZE", "", usize::MAX),
    column("STATE", "", usize::MAX),
    column("PRODUCT", "product", 12),
    column("FILTER", "filter", usize::MAX),
    column("INSTRUMENT", "instrument", 10),
    column("EXPOSURE", "exposure", usize::MAX),
    column("DATE", "date", 10),
    column("TARGET", "target", 10),
];
/// The numbers of the columns in the order in which they are cut.
const CUT_FIRST: [usize; 5] = [3, 7, 5, 8, FILE];
/// The number of the column with the file.
const FILE: usize = 0;
/// The number of the column with the state, and what is in it.
const STATE: usize = 2;
const DAMAGED: &str = "damaged";
const UNREADABLE: &str = "unreadable";

/// The line of a file.
#[derive(Debug)]
struct InfoRow([String; COLUMNS.len()]);

impl InfoRow {
    fn of(path: &Path, container: &dyn Container) -> Result<Self> {
        let summary: FileSummary = info::summary(container)?;
        let facts = summary.facts();
        let fact = |name: &str| {
            let found = facts.iter().find(|(known, _)| *known == name);
            found.map_or_else(String::new, |(_, value)| one_line(value))
        };
        let size = info::data_size(container.source().size_now()?);
        let mut row = COLUMNS.map(|column| fact(column.fact));
        row[FILE] = one_line(&path.to_string_lossy());
        row[1] = size;
        if !info::damage(container)?.is_empty() {
            DAMAGED.clone_into(&mut row[STATE]);
        }
        if row[3].is_empty() {
            container.format().clone_into(&mut row[3]);
        }
        Ok(Self(row))
    }

    /// Returns the line of a file that can't be opened.
    fn without_facts(path: &Path, state: &str) -> Self {
        let mut row = COLUMNS.map(|_| String::new());
        row[FILE] = one_line(&path.to_string_lossy());
        state.clone_into(&mut row[STATE]);
        Self(row)
    }

    fn state(&self) -> &str {
        &self.0[STATE]
    }
}

/// The files of a directory, a line each.
#[derive(Debug, Default)]
struct Rows {
    rows: Vec<[String; COLUMNS.len()]>,
    /// The widths of the columns so far.
    widths: [usize; COLUMNS.len()],
    /// Numbers of all rows, and of those with damaged and with unreadable files.
    count: usize,
    damaged: usize,
    unreadable: usize,
    has_title: bool,
}

impl Rows {
    fn add(&mut self, row: InfoRow) {
        self.count += 1;
        self.damaged += usize::from(row.state() == DAMAGED);
        self.unreadable += usize::from(row.state() == UNREADABLE);
        self.rows.push(row.0);
    }

    /// Returns how many files are damaged or unreadable, unless none is: "9 files, 2 damaged, 1 unreadable".
    fn broken(&self) -> Option<String> {
        let mut text = format!("{} {}", self.count, if self.count == 1 { "file" } else { "files" });
        for (count, state) in [(self.damaged, DAMAGED), (self.unreadable, UNREADABLE)] {
            if count > 0 {
                text += &format!(", {count} {state}");
            }
        }
        (self.damaged + self.unreadable > 0).then_some(text)
    }

    /// Writes the collected rows with aligned columns, without those that are empty.
    fn write(&mut self, form: InfoForm, out: &mut dyn Write) -> Result<()> {
        let mut rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        let width_of = |n: usize| match rows.iter().map(|row| columns(&row[n])).max() {
            None | Some(0) => self.widths[n],
            Some(width) => width.max(COLUMNS[n].title.len()).max(self.widths[n]),
        };
        let mut widths: [usize; COLUMNS.len()] = std::array::from_fn(width_of);
        self.widths = widths;
        // Programs that search the lines get them in full.
        let line_width = if form.all { None } else { terminal::size().map(|(width, _)| width) };
        let form = InfoForm { width: line_width.unwrap_or(usize::MAX), ..form };
        for n in CUT_FIRST {
            let needed: usize = widths.iter().filter(|width| **width > 0).map(|width| width + 2).sum();
            let excess = needed.saturating_sub(2).saturating_sub(form.width);
            widths[n] = widths[n].saturating_sub(excess).max(widths[n].min(COLUMNS[n].least_width));
        }
        if !self.has_title {
            self.has_title = true;
            rows.insert(0, COLUMNS.map(|column| column.title.to_owned()));
        }
        for row in &rows {
            let mut line = String::new();
            for (n, (cell, width)) in row.iter().zip(widths).enumerate() {
                if width > 0 {
                    let cell = if cell.is_empty() { "-" } else { cell };
                    let cell = if n == FILE { end(cell, width) } else { cut(cell, width) };
                    line += &padded(&cell, width + 2);
                }
            }
            writeln!(out, "{}", info::cut_line(line.trim_end(), form))?;
        }
        Ok(out.flush()?)
    }
}

/// Returns the beginning of a text; of a date, the day.
fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    if width >= 10 && text.as_bytes().get(10) == Some(&b'T') && text.starts_with(|c: char| c.is_ascii_digit())
    {
        return text.chars().take(10).collect();
    }
    beginning(text, width.saturating_sub(1)).to_owned() + "…"
}

/// Returns the end of a path, in which files differ.
fn end(path: &str, width: usize) -> String {
    let starts = path.char_indices().map(|(at, _)| &path[at..]);
    let fits = |rest: &&str| columns(rest) < width;
    if columns(path) <= width {
        return path.to_owned();
    }
    format!("…{}", starts.into_iter().find(fits).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_cut_at_their_beginning() {
        assert_eq!(end("night/a.asdf", 12), "night/a.asdf");
        assert_eq!(end("night/a.asdf", 8), "…/a.asdf");
        assert_eq!(end("銀河系.asdf", 9), "…系.asdf");
    }

    #[test]
    fn long_cells_are_cut_and_dates_keep_the_day() {
        assert_eq!(cut("ImageModel, wfi_image (stsci.edu)", 12), "ImageModel,…");
        assert_eq!(cut("2020-01-01T00:00:00.000", 10), "2020-01-01");
        assert_eq!(cut("F158", 4), "F158");
        assert_eq!(cut("銀河系", 5), "銀河…");
    }
}
