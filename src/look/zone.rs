//! Local time: the offset from UTC by `$TZ` or `/etc/localtime` (RFC 9636, and TZ in POSIX).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Directory of the time zones that `$TZ` names.
const ZONES: &str = "/usr/share/zoneinfo";

/// Maximum size of a zone file; the largest has a few kilobytes.
const MAX_BYTES: usize = 1 << 20;

const DAY: i64 = 86_400;

/// Offsets from UTC in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Zone {
    /// Times from which an offset is valid, in order.
    changes: Vec<(i64, i32)>,
    /// Offset before the first change.
    first: i32,
    /// Rule for times after the last change.
    rule: Option<Rule>,
}

/// A rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    standard: i32,
    /// The offset in summer, and when summer begins and ends.
    summer: Option<(i32, OffsetChange, OffsetChange)>,
}

/// The day on which the offset changes, and the local time of day in seconds.
type OffsetChange = (Day, i32);

/// A day of every year.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Day {
    /// Month, week (5 for the last) and day of the week from Sunday.
    Week(i64, i64, i64),
    /// Day from 1 to 365; 29 February is not counted.
    Julian(i64),
    /// Day from 0 to 365; 29 February is counted.
    Count(i64),
}

impl Zone {
    /// Returns the zone of this process; UTC if it can't be read.
    pub(super) fn local() -> Self {
        let Some(name) = std::env::var_os("TZ") else {
            return Self::read(Path::new("/etc/localtime")).unwrap_or_default();
        };
        let name = name.to_string_lossy();
        let name = name.strip_prefix(':').unwrap_or(&name);
        if name.is_empty() {
            return Self::default();
        }
        let zone = Self::read(&PathBuf::from(ZONES).join(name));
        zone.unwrap_or_else(|| Self { rule: Rule::parse(name), ..Self::default() })
    }

    #[cfg(test)]
    pub(super) fn utc() -> Self {
        Self::default()
    }

    fn read(path: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
        let mut bytes = Vec::new();
        file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() > MAX_BYTES { None } else { Self::parse(&bytes) }
    }

    /// Parses the 64-bit part of a zone file.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (_, rest) = block(bytes, 4)?;
        let (zone, rest) = block(rest, 8)?;
        let footer = std::str::from_utf8(rest).ok()?.strip_prefix('\n')?.split('\n').next()?;
        Some(Self { rule: Rule::parse(footer), ..zone })
    }

    /// Returns the offset at a time.
    pub(super) fn offset(&self, time: i64) -> i32 {
        match (self.changes.partition_point(|(from, _)| *from <= time), self.rule) {
            (passed, Some(rule)) if passed == self.changes.len() => rule.offset(time),
            (passed, _) => passed
                .checked_sub(1)
                .and_then(|n| self.changes.get(n))
                .map_or(self.first, |(_, offset)| *offset),
        }
    }
}

/// Parses a header and its data block with times of `width` bytes. Returns the zone and the rest of the file.
fn block(bytes: &[u8], width: usize) -> Option<(Zone, &[u8])> {
    let header = bytes.get(..44).filter(|header| header.starts_with(b"TZif"))?;
    let count =
        |n: usize| Some(u32::from_be_bytes(header.get(20 + 4 * n..)?.first_chunk().copied()?) as usize);
    let of_utc = count(0)?;
    let of_standard = count(1)?;
    let leaps = count(2)?;
    let times = count(3)?;
    let types = count(4)?;
    let letters = count(5)?;
    let (stamps, rest) = bytes.get(44..)?.split_at_checked(times.checked_mul(width)?)?;
    let (kinds, rest) = rest.split_at_checked(times)?;
    let (descriptions, rest) = rest.split_at_checked(types.checked_mul(6)?)?;
    let after =
        letters.checked_add(leaps.checked_mul(width + 4)?)?.checked_add(of_standard)?.checked_add(of_utc)?;
    let rest = rest.get(after..)?;
    let offset = |n: usize| Some(i32::from_be_bytes(descriptions.get(6 * n..)?.first_chunk().copied()?));
    let stamp = |stamp: &[u8]| match stamp {
        [_, _, _, _] => Some(i64::from(i32::from_be_bytes(stamp.try_into().ok()?))),
        _ => Some(i64::from_be_bytes(stamp.try_into().ok()?)),
    };
    let change = |(at, kind): (&[u8], &u8)| Some((stamp(at)?, offset(usize::from(*kind))?));
    let changes = stamps.chunks_exact(width).zip(kinds).map(change).collect::<Option<Vec<_>>>()?;
    Some((Zone { changes, first: offset(0).unwrap_or(0), rule: None }, rest))
}

impl Rule {
    fn parse(text: &str) -> Option<Self> {
        let rest = abbreviation(text)?;
        let (standard, rest) = duration(rest)?;
        let standard = -standard;
        if rest.is_empty() {
            return Some(Self { standard, summer: None });
        }
        let rest = abbreviation(rest)?;
        let (offset, rest) = if rest.starts_with(',') || rest.is_empty() {
            (standard.checked_add(3600)?, rest)
        } else {
            duration(rest).map(|(west, rest)| (-west, rest))?
        };
        let mut days = rest.strip_prefix(',').unwrap_or("M3.2.0,M11.1.0").split(',');
        let begin = day(days.next()?)?;
        let end = day(days.next()?)?;
        Some(Self { standard, summer: Some((offset, begin, end)) })
    }

    fn offset(&self, time: i64) -> i32 {
        let Some((summer, begin, end)) = self.summer else { return self.standard };
        // The bounds hold any realistic year, and the arithmetic below can't overflow.
        let time = time.clamp(-(1 << 55), 1 << 55);
        let year = year_of(time.saturating_add(self.standard.into()));
        let at = |(day, second): OffsetChange, offset: i32| {
            (first_day(year) + day.of(year)) * DAY + i64::from(second) - i64::from(offset)
        };
        let begin = at(begin, self.standard);
        let end = at(end, summer);
        let is_summer =
            if begin < end { (begin..end).contains(&time) } else { !(end..begin).contains(&time) };
        if is_summer { summer } else { self.standard }
    }
}

impl Day {
    /// Returns the day counted from the start of the year.
    fn of(self, year: i64) -> i64 {
        let leap = i64::from(is_leap(year));
        match self {
            Self::Count(day) => day,
            Self::Julian(day) => day - 1 + if day >= 60 { leap } else { 0 },
            Self::Week(month, week, weekday) => {
                let days = [31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
                let before = usize::try_from(month - 1).unwrap_or(0);
                let first: i64 = days.iter().take(before).sum();
                let length = days.get(before).copied().unwrap_or(31);
                // 1 January 1970 was a Thursday.
                let first_weekday = (first_day(year) + first + 4).rem_euclid(7);
                let day = (weekday - first_weekday).rem_euclid(7) + 7 * (week - 1);
                first + if day >= length { day - 7 } else { day }
            }
        }
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns the first day of a year, counted from 1970.
fn first_day(year: i64) -> i64 {
    let before = year - 1;
    365 * (year - 1970) + before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400) - 477
}

fn year_of(time: i64) -> i64 {
    let day = time.div_euclid(DAY);
    let near = 1970 + day.saturating_mul(400).div_euclid(146_097);
    [near + 1, near].into_iter().find(|year| first_day(*year) <= day).unwrap_or(near - 1)
}

/// Skips the abbreviation of a zone: letters, or anything in angle brackets.
fn abbreviation(text: &str) -> Option<&str> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split_once('>').map(|(_, rest)| rest);
    }
    let rest = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    (text.len() - rest.len() >= 3).then_some(rest)
}

/// Parses `[+-]hh[:mm[:ss]]` into seconds.
fn duration(text: &str) -> Option<(i32, &str)> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut seconds = 0;
    for unit in [3600, 60, 1] {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(end);
        let number = digits.parse::<i32>().ok().filter(|number| *number <= 167)?;
        seconds += number * unit;
        match after.strip_prefix(':').filter(|_| unit > 1) {
            Some(after) => rest = after,
            None => return Some((sign * seconds, after)),
        }
    }
    None
}

/// Parses the day of a change and its local time, by default 02:00.
fn day(text: &str) -> Option<OffsetChange> {
    let (day, time) = text.split_once('/').unwrap_or((text, "2"));
    let (second, rest) = duration(time)?;
    let number = |text: &str, range: std::ops::RangeInclusive<i64>| {
        text.parse().ok().filter(|number| range.contains(number))
    };
    let day = if let Some(day) = day.strip_prefix('M') {
        let mut parts = day.split('.');
        let week = Day::Week(
            number(parts.next()?, 1..=12)?,
            number(parts.next()?, 1..=5)?,
            number(parts.next()?, 0..=6)?,
        );
        parts.next().is_none().then_some(week)?
    } else if let Some(day) = day.strip_prefix('J') {
        Day::Julian(number(day, 1..=365)?)
    } else {
        Day::Count(number(day, 0..=365)?)
    };
    rest.is_empty().then_some((day, second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(rule: &str, time: i64) -> i32 {
        Zone { rule: Some(Rule::parse(rule).expect(rule)), ..Zone::default() }.offset(time)
    }

    #[test]
    fn summer_time_begins_and_ends_by_the_rule() {
        let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
        // 2025-03-30T01:00:00Z and 2025-10-26T01:00:00Z
        for (time, hours) in [(1_743_296_399, 1), (1_743_296_400, 2), (1_761_440_399, 2), (1_761_440_400, 1)]
        {
            assert_eq!(offset(berlin, time), hours * 3600, "{time}");
        }
        // In Sydney, January is in summer: 2025-01-15 and 2025-07-15.
        let sydney = "AEST-10AEDT,M10.1.0,M4.1.0/3";
        assert_eq!((offset(sydney, 1_736_899_200), offset(sydney, 1_752_537_600)), (39_600, 36_000));
        assert_eq!(offset("<+0545>-5:45", 0), 20_700);
        assert_eq!(offset("EST5", i64::MAX), -18_000);
        assert_eq!(offset("EST5EDT", 1_752_537_600), -14_400);
        offset(berlin, i64::MAX / 4);
        for rule in ["", "C", "CET", "CET-1CEST,M3", "CET-1CEST,M13.1.0,M1.1.0", "CET-1:2:3:4", "CET999"] {
            assert_eq!(Rule::parse(rule), None, "{rule}");
        }
    }

    #[test]
    fn a_year_begins_on_its_first_day() {
        for (year, day) in [(1970, 0), (1969, -365), (2000, 10_957), (2001, 11_323), (2025, 20_089)] {
            assert_eq!(first_day(year), day);
            assert_eq!((year_of(day * DAY), year_of(day * DAY - 1)), (year, year - 1));
        }
    }

    #[test]
    fn a_zone_file_has_changes_and_a_rule() {
        let header = |times: u32, types: u32| {
            let counts = [0, 0, 0, times, types, 4].map(u32::to_be_bytes).concat();
            [&b"TZif2"[..], &[0; 15], &counts].concat()
        };
        let kinds = [&3600i32.to_be_bytes()[..], &[0, 0], &7200i32.to_be_bytes(), &[1, 0], b"CET\0"].concat();
        let old = [header(0, 2), kinds.clone()].concat();
        let stamps = [&100i64.to_be_bytes()[..], &200i64.to_be_bytes(), &[1, 0]].concat();
        let bytes = [old, header(2, 2), stamps, kinds, b"\nUTC-3\n".to_vec()].concat();
        let zone = Zone::parse(&bytes).unwrap();
        assert_eq!([99, 100, 199, 200].map(|time| zone.offset(time)), [3600, 7200, 7200, 10_800]);
        for end in 0..bytes.len() - 1 {
            Zone::parse(&bytes[..end]);
        }
        let mut huge = bytes;
        huge[32..44].fill(0xff);
        assert!(Zone::parse(&huge).is_none());
    }
}
