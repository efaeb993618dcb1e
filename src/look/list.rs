//! `--ls`: directories and files as `ls -l` prints them, or as JSON.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use asdf_access::local::stat::FileKind;
use asdf_file::time::{precise_instant, timestamp};
use jiff::tz::TimeZone;
use nix::unistd::{Gid, Group, Uid, User};
use seekable::error::{Error, in_json, one_line};
use seekable::source::Time;
use serde::Serialize;

use super::{Look, written};
use crate::exit;
use crate::vfs::{Attr, Ino};

/// Seconds after which `ls -l` shows the year of a time instead of the hour: half a year.
const RECENT: i64 = 31_556_952 / 2;

/// The form of a listing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListingForm {
    /// True for JSON, one object per line.
    pub json: bool,
    /// True to list directories within directories.
    pub recursive: bool,
    /// True to list names that begin with a dot; JSON always lists them.
    pub all: bool,
}

/// One line of a listing.
#[derive(Debug)]
struct Line {
    name: OsString,
    attr: Result<Attr, Error>,
    target: Option<OsString>,
}

/// A directory to list, and its path.
type Pending = (PathBuf, Ino);

impl Look {
    /// Prints the entries of the directories at `paths`, and the files. Returns the exit status, as `ls` does.
    pub(crate) fn list(&self, paths: &[PathBuf], listing: ListingForm, out: &mut dyn Write) -> u8 {
        let mut run = Run::new(self, listing, out);
        match run.all(paths).and_then(|()| run.out.flush()) {
            Ok(()) => run.status,
            Err(error) => match written(Err(error)) {
                exit::OK => run.status,
                _ => exit::LS_FAILED,
            },
        }
    }
}

/// A run of `--ls`.
struct Run<'a> {
    look: &'a Look,
    listing: ListingForm,
    out: &'a mut dyn Write,
    zone: TimeZone,
    now: i64,
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
    status: u8,
    /// True once something was printed.
    begun: bool,
}

impl<'a> Run<'a> {
    fn new(look: &'a Look, listing: ListingForm, out: &'a mut dyn Write) -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0));
        let users = HashMap::new();
        let groups = HashMap::new();
        Self {
            look,
            listing,
            out,
            zone: TimeZone::system(),
            now,
            users,
            groups,
            status: exit::OK,
            begun: false,
        }
    }

    fn all(&mut self, paths: &[PathBuf]) -> io::Result<()> {
        let root = [PathBuf::from(".")];
        let paths = if paths.is_empty() { &root[..] } else { paths };
        let mut files = Vec::new();
        let mut directories = Vec::new();
        for path in paths {
            match self.look.find(path, false) {
                Ok(found) if found.attr.kind == FileKind::Directory => {
                    directories.push((path.clone(), found.attr.ino));
                }
                Ok(found) => files.push(self.line(path.as_os_str().to_owned(), Ok(found.attr))),
                Err(error) => {
                    self.look.complain(path, &error);
                    self.status = exit::LS_FAILED;
                }
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        directories.sort();
        let has_heads = paths.len() > 1 || self.listing.recursive;
        if !files.is_empty() {
            self.print(Path::new(""), &files)?;
        }
        directories.reverse();
        while let Some((path, ino)) = directories.pop() {
            let within = self.directory(&path, ino, has_heads)?;
            if self.listing.recursive {
                directories.extend(within.into_iter().rev());
            }
        }
        Ok(())
    }

    /// Prints a directory and returns the directories in it.
    fn directory(&mut self, path: &Path, ino: Ino, has_head: bool) -> io::Result<Vec<Pending>> {
        let is_all = self.listing.json || self.listing.all;
        let mut names = Vec::new();
        let listed = self.look.each_name(ino, &mut |name, _| {
            if is_all || !name.as_bytes().starts_with(b".") {
                names.push(name.to_owned());
            }
        });
        if let Err(error) = listed {
            self.fail(path, &error);
        }
        names.sort_unstable();
        let mut lines = Vec::with_capacity(names.len());
        let mut within = Vec::new();
        for name in names {
            let attr = match self.look.lookup(ino, &name) {
                // The entry vanished since the directory was read.
                Err(error) if error.errno() == libc::ENOENT => continue,
                attr => attr,
            };
            if let Err(error) = &attr {
                self.fail(&path.join(&name), error);
            }
            if let Ok(attr) = &attr
                && attr.kind == FileKind::Directory
                && self.listing.recursive
            {
                within.push((path.join(&name), attr.ino));
            }
            lines.push(self.line(name, attr));
        }
        if !self.listing.json {
            if has_head {
                let gap = if self.begun { "\n" } else { "" };
                writeln!(self.out, "{gap}{}:", shown(path.as_os_str()))?;
            }
            let units: u64 = lines.iter().filter_map(|line| Some(line.attr.as_ref().ok()?.blocks())).sum();
            writeln!(self.out, "total {}", units.div_ceil(2))?;
        }
        self.print(path, &lines)?;
        self.forget(&lines, &within);
        Ok(within)
    }

    /// Forgets the nodes of a directory, except the directories that are listed later.
    fn forget(&self, lines: &[Line], later: &[Pending]) {
        let later: std::collections::HashSet<Ino> = later.iter().map(|(_, ino)| *ino).collect();
        for attr in lines.iter().filter_map(|line| line.attr.as_ref().ok()) {
            if !later.contains(&attr.ino) {
                self.look.vfs.forget(attr.ino, 1);
            }
        }
    }

    fn line(&self, name: OsString, attr: Result<Attr, Error>) -> Line {
        let link = attr.as_ref().ok().filter(|attr| attr.kind == FileKind::Link);
        let target = link.and_then(|attr| self.look.vfs.read_link(attr.ino).ok());
        Line { name, attr, target }
    }

    fn fail(&mut self, path: &Path, error: &Error) {
        self.look.complain(path, error);
        self.status = self.status.max(exit::LS_INCOMPLETE);
    }

    fn print(&mut self, within: &Path, lines: &[Line]) -> io::Result<()> {
        self.begun = true;
        if self.listing.json { self.print_json(within, lines) } else { self.print_table(lines) }
    }

    fn print_table(&mut self, lines: &[Line]) -> io::Result<()> {
        let rows: Vec<[String; 5]> = lines.iter().map(|line| self.columns(line)).collect();
        let width = |n: usize| rows.iter().map(|row| row[n].chars().count()).max().unwrap_or(0);
        let [links, user, group, size] = [0, 1, 2, 3].map(width);
        for (line, row) in lines.iter().zip(&rows) {
            let mode = line.attr.as_ref().map_or_else(|_| "-?????????".to_owned(), mode);
            let name = shown(&line.name);
            let arrow = line.target.as_ref().map_or_else(String::new, |to| format!(" -> {}", shown(to)));
            let [n, u, g, s, time] = row;
            writeln!(
                self.out,
                "{mode} {n:>links$} {u:<user$} {g:<group$} {s:>size$} {time:>12} {name}{arrow}"
            )?;
        }
        Ok(())
    }

    /// Returns links, owner, group, size and time.
    fn columns(&mut self, line: &Line) -> [String; 5] {
        let Ok(attr) = &line.attr else { return ["?"; 5].map(str::to_owned) };
        let size = match attr.kind {
            FileKind::CharDevice | FileKind::BlockDevice => {
                let device = u64::from(attr.rdev);
                format!("{}, {}", rustix::fs::major(device), rustix::fs::minor(device))
            }
            _ => attr.size.to_string(),
        };
        let time = date(attr.mtime, self.now, &self.zone);
        [attr.nlink.to_string(), self.user(attr.uid), self.group(attr.gid), size, time]
    }

    fn user(&mut self, uid: u32) -> String {
        let named = || User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| one_line(&user.name));
        self.users.entry(uid).or_insert_with(|| named().unwrap_or_else(|| uid.to_string())).clone()
    }

    fn group(&mut self, gid: u32) -> String {
        let named = || Group::from_gid(Gid::from_raw(gid)).ok().flatten().map(|group| one_line(&group.name));
        self.groups.entry(gid).or_insert_with(|| named().unwrap_or_else(|| gid.to_string())).clone()
    }

    fn print_json(&mut self, within: &Path, lines: &[Line]) -> io::Result<()> {
        for line in lines {
            let path = within.strip_prefix(".").unwrap_or(within).join(&line.name);
            let path = path.to_string_lossy().into_owned();
            let object = match &line.attr {
                Err(error) => serde_json::json!({ "path": path, "error": error.message() }).to_string(),
                Ok(attr) => serde_json::to_string(&Object {
                    path,
                    kind: word(attr.kind),
                    mode: format!("{:04o}", attr.mode),
                    links: attr.nlink,
                    uid: attr.uid,
                    gid: attr.gid,
                    owner: self.user(attr.uid),
                    group: self.group(attr.gid),
                    size: attr.size,
                    mtime: precise_instant(attr.mtime),
                    target: line.target.as_ref().map(|target| target.to_string_lossy().into_owned()),
                })?,
            };
            writeln!(self.out, "{}", in_json(&object))?;
        }
        Ok(())
    }
}

/// A file, link or directory in JSON.
#[derive(Serialize)]
struct Object {
    path: String,
    kind: &'static str,
    mode: String,
    links: u32,
    uid: u32,
    gid: u32,
    owner: String,
    group: String,
    size: u64,
    mtime: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

fn shown(name: &OsStr) -> String {
    one_line(&name.to_string_lossy())
}

fn word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "character device",
        FileKind::BlockDevice => "block device",
    }
}

/// Returns type and permissions as ten letters.
fn mode(attr: &Attr) -> String {
    let kind = match attr.kind {
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Link => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::CharDevice => 'c',
        FileKind::BlockDevice => 'b',
    };
    let bit = |(n, letter)| if attr.mode & (0o400_u16 >> n) == 0 { '-' } else { letter };
    std::iter::once(kind).chain((0u16..).zip("rwxrwxrwx".chars()).map(bit)).collect()
}

/// Returns a local time as `ls -l` shows it: with hour and minute if it is recent, or else with the year.
fn date(time: Time, now: i64, zone: &TimeZone) -> String {
    let is_recent = time.0 > now.saturating_sub(RECENT) && time.0 <= now;
    let form = if is_recent { "%b %e %H:%M" } else { "%b %e  %Y" };
    timestamp(time).to_zoned(zone.clone()).strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_hour_for_half_a_year() {
        let now = 1_763_650_000; // 2025-11-20T14:46:40Z
        let shown = |seconds| date((seconds, 7), now, &TimeZone::UTC);
        assert_eq!(shown(now), "Nov 20 14:46");
        assert_eq!(shown(now - RECENT), "May 21  2025");
        assert_eq!(shown(now - RECENT + 1), "May 21 23:52");
        assert_eq!(shown(now + 1), "Nov 20  2025");
        assert_eq!(shown(0), "Jan  1  1970");
        assert_eq!(precise_instant((0, 7)), "1970-01-01T00:00:00.000000007Z");
        shown(i64::MIN);
        shown(i64::MAX);
    }
}
