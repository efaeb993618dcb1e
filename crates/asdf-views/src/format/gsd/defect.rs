//! Damage and notes of a GSD file, in words.

use std::fmt;
use std::ops::Range;

use asdf_file::container::{self, Severity};
use seekable::error::{Result, if_readable};

use super::entry::IndexEntry;
use super::file::GsdFile;
use super::header::Version;
use super::index::SURVEYED;

/// Maximum number of reported defects of a large index, and of reported long names.
const MAX_DEFECTS: usize = 1000;

/// The newest known version.
const NEWEST: Version = Version(2, 1);

/// A defect, with its details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GsdDefect {
    /// The version is newer than the newest known one.
    NewerVersion(Version),
    /// The list of names has no end within its allocated space.
    EndlessNames,
    /// There are more names than can be shown. The field is the number of names that are shown.
    TooManyNames(usize),
    /// A name is too long for a path.
    LongName(u16),
    /// An entry or its data are damaged.
    Entry(String),
    /// The entry's frame is out of order.
    Frame(u64),
    /// Slots after the end of the index are in use.
    EndsEarly {
        /// The first slot with location 0.
        end: u64,
        /// The first slot after the end that is in use.
        used: u64,
    },
    /// The last frame is not finished.
    Unfinished {
        /// The frame's number.
        frame: u64,
        /// Number of the frame's chunks in the index.
        chunks: u64,
    },
    /// The entries of a frame are not sorted by name.
    Unsorted(u64),
    /// The chunks of a name differ in type or shape, so they make no series.
    NoSeries(UnequalChunks),
    /// A chunk of a name can't be a row.
    NoRows(UnequalChunks),
    /// Numbers are converted to the type of the first chunk.
    Converted(UnequalChunks),
}

impl fmt::Display for GsdDefect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewerVersion(version) => {
                write!(out, "version {version} is newer than {NEWEST} and is read as that")
            }
            Self::EndlessNames => {
                out.write_str("the list of names has no NUL at its end: its last name may be cut off")
            }
            Self::TooManyNames(most) => {
                write!(out, "the list has more names than {most}: chunks with further names are not shown")
            }
            Self::LongName(id) => {
                write!(
                    out,
                    "name {id} is too long for a path: arrays/ does not show its chunks, blocks/ does"
                )
            }
            Self::Entry(what) => out.write_str(what),
            Self::Frame(frame) => {
                write!(out, "its frame {frame} is out of order: arrays/ does not show the chunk")
            }
            Self::EndsEarly { end, used } => write!(
                out,
                "entry {end} has location 0, which ends the index, but entry {used} is used: it and what \
                 follows \
                 are not shown"
            ),
            Self::Unfinished { frame, chunks } => write!(
                out,
                "frame {frame} is not finished: {chunks} of its chunks are in the index; arrays/ does not \
                 show them"
            ),
            Self::Unsorted(frame) => write!(
                out,
                "the entries of frame {frame} are not sorted by name: other programs may not find its chunks"
            ),
            Self::NoSeries(chunks) => chunks.differ(out, "is not in arrays/series"),
            Self::NoRows(UnequalChunks { name, first, other }) if first.slot == other.slot => write!(
                out,
                "{} is not in arrays/resolved/series: frame {} has {}, which do not form one row",
                String::from_utf8_lossy(name),
                first.frame,
                first.array()
            ),
            Self::NoRows(chunks) => chunks.differ(out, "is not in arrays/resolved/series"),
            Self::Converted(chunks) => {
                let what = "is converted in arrays/resolved/series and tables, as gsd.hoomd.read_log does";
                chunks.differ(out, what)
            }
        }
    }
}

/// The chunks of a name that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnequalChunks {
    /// The name.
    pub name: Box<[u8]>,
    /// The first chunk.
    pub first: IndexEntry,
    /// The first chunk that differs from `first`.
    pub other: IndexEntry,
}

impl UnequalChunks {
    /// Writes how the two chunks differ.
    fn differ(&self, out: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        let Self { name, first, other } = self;
        let name = String::from_utf8_lossy(name);
        let one = first.array();
        let another = other.array();
        write!(out, "{name} {what}: frame {} has {one}, frame {} has {another}", first.frame, other.frame)
    }
}

impl GsdDefect {
    fn severity(&self) -> Severity {
        match self {
            Self::TooManyNames(_) | Self::Entry(_) | Self::Frame(_) | Self::EndsEarly { .. } => {
                Severity::Damage
            }
            Self::NewerVersion(_)
            | Self::EndlessNames
            | Self::LongName(_)
            | Self::Unfinished { .. }
            | Self::NoSeries(_)
            | Self::NoRows(_)
            | Self::Converted(_)
            | Self::Unsorted(_) => Severity::Note,
        }
    }

    /// Converts the defect to the common form, with its location.
    pub(super) fn at(&self, offset: u64, slot: Option<u64>) -> container::Defect {
        let block = slot.and_then(|slot| usize::try_from(slot).ok());
        container::Defect { severity: self.severity(), offset, block, what: self.to_string() }
    }
}

/// Returns the defects of header and names, and those of the index if it is small enough to scan at once. Fails
/// if the index can't be read now.
pub(crate) fn of_file(file: &GsdFile) -> Result<Vec<container::Defect>> {
    let mut found = of_names(file);
    let version = file.header().version;
    if version > NEWEST {
        found.push(GsdDefect::NewerVersion(version).at(44, None));
    }
    // A damaged index is reported by the reads that fail.
    found.extend(if_readable(unfinished(file))?.into_iter().flatten());
    if if_readable(file.index().used())?.is_some_and(|used| used <= SURVEYED) {
        found.extend(if_readable(of_small(file))?.into_iter().flatten());
    }
    if file.index().slots() <= SURVEYED {
        found.extend(if_readable(ends_early(file))?.into_iter().flatten());
    }
    Ok(found)
}

/// Returns the defects of a large index, except damage of single entries.
pub(crate) fn of_index(file: &GsdFile) -> Result<Vec<container::Defect>> {
    let index = file.index();
    let mut found = Vec::new();
    let used = index.used()?;
    if used > SURVEYED {
        let mut highest = 0;
        let mut sorted = Sorted::new(file);
        index.scan(0..used, &mut |entry| {
            if index.is_usable(entry) {
                if entry.frame < highest {
                    found.push(GsdDefect::Frame(entry.frame).at(index.offset(entry.slot), Some(entry.slot)));
                }
                highest = highest.max(entry.frame);
                sorted.add(entry, &mut found);
            }
            Ok(found.len() < MAX_DEFECTS)
        })?;
    }
    if index.slots() > SURVEYED {
        found.extend(ends_early(file)?);
    }
    Ok(found)
}

fn of_names(file: &GsdFile) -> Vec<container::Defect> {
    let names = file.names();
    let place = file.header().names.offset;
    let mut found = Vec::new();
    if names.has_more {
        found.push(GsdDefect::TooManyNames(names.len()).at(place, None));
    } else if !names.has_end {
        found.push(GsdDefect::EndlessNames.at(place, None));
    }
    let ids = 0..u16::try_from(names.len()).unwrap_or(u16::MAX);
    let long = ids.filter(|id| names.path(*id).is_none());
    found.extend(long.take(MAX_DEFECTS).map(|id| GsdDefect::LongName(id).at(place, None)));
    found
}

fn unfinished(file: &GsdFile) -> Result<Option<container::Defect>> {
    let shown = file.shown()?;
    if shown.unfinished == 0 {
        return Ok(None);
    }
    let first = file.index().entry(shown.entries)?;
    let defect = GsdDefect::Unfinished { frame: first.frame, chunks: shown.unfinished };
    Ok(Some(defect.at(file.index().offset(first.slot), None)))
}

fn of_small(file: &GsdFile) -> Result<Vec<container::Defect>> {
    let index = file.index();
    let mut found = Vec::new();
    let order = index.order()?;
    let mut sorted = Sorted::new(file);
    index.scan(0..index.used()?, &mut |entry| {
        let place = index.offset(entry.slot);
        let checked = entry.check(index.limits()).and_then(|()| file.data(entry).map(drop));
        if let Err(error) = checked {
            found.push(GsdDefect::Entry(error.message()).at(place, Some(entry.slot)));
        } else if !order.has(entry.slot) {
            found.push(GsdDefect::Frame(entry.frame).at(place, Some(entry.slot)));
        } else {
            sorted.add(entry, &mut found);
        }
        Ok(true)
    })?;
    Ok(found)
}

/// A check that the entries of each frame are sorted by name, as required from version 2.0 on.
struct Sorted<'a> {
    file: &'a GsdFile,
    last: Option<(u64, u16)>,
    reported: Option<u64>,
}

impl<'a> Sorted<'a> {
    fn new(file: &'a GsdFile) -> Self {
        Self { file, last: None, reported: None }
    }

    fn add(&mut self, entry: &IndexEntry, found: &mut Vec<container::Defect>) {
        let now = (entry.frame, entry.id);
        let is_wrong = self.last.is_some_and(|last| last.0 == now.0 && last.1 > now.1);
        if is_wrong && self.reported != Some(entry.frame) && !self.file.header().is_old() {
            self.reported = Some(entry.frame);
            found.push(GsdDefect::Unsorted(entry.frame).at(self.file.index().offset(entry.slot), None));
        }
        self.last = Some(now);
    }
}

fn ends_early(file: &GsdFile) -> Result<Option<container::Defect>> {
    let index = file.index();
    let end = index.used()?;
    let mut used = None;
    let rest: Range<u64> = end..index.slots();
    index.scan(rest, &mut |entry| {
        used = (!entry.is_end()).then_some(entry.slot);
        Ok(used.is_none())
    })?;
    Ok(used.map(|used| GsdDefect::EndsEarly { end, used }.at(index.offset(end), None)))
}
