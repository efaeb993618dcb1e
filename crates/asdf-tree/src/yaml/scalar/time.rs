//! Timestamps in YAML 1.1.

use jiff::civil::Date;

/// The parts of a timestamp, not checked against the calendar.
struct TimestampParts {
    /// Year, month, day.
    date: [u32; 3],
    /// Hour, minute, second; `None` for a date alone.
    time: Option<[u32; 3]>,
    /// Microseconds.
    micros: u32,
    /// Distance from UTC in minutes, without the sign.
    zone: u32,
    /// `Some(true)` for a zone west of UTC; `None` if no zone is written.
    west: Option<bool>,
    /// True if month and day have two digits each.
    full: bool,
}

/// Parses `least` to `most` digits at the start of `text` and removes them.
fn number(text: &mut &[u8], least: usize, most: usize) -> Option<u32> {
    let len = text.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
    if len < least {
        return None;
    }
    let (digits, rest) = text.split_at(len);
    *text = rest;
    Some(digits.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0')))
}

fn exactly(text: &mut &[u8], byte: u8) -> Option<()> {
    let (first, rest) = text.split_first()?;
    *text = rest;
    (*first == byte).then_some(())
}

fn skip_blanks(text: &mut &[u8]) -> usize {
    let len = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    *text = &text[len..];
    len
}

fn parse(text: &str) -> Option<TimestampParts> {
    let mut bytes = text.as_bytes();
    let rest = &mut bytes;
    let year = number(rest, 4, 4)?;
    exactly(rest, b'-')?;
    let before = rest.len();
    let month = number(rest, 1, 2)?;
    exactly(rest, b'-')?;
    let day = number(rest, 1, 2)?;
    let full = before - rest.len() == 5;
    let date = [year, month, day];
    if rest.is_empty() {
        return Some(TimestampParts { date, time: None, micros: 0, zone: 0, west: None, full });
    }
    match rest.first()? {
        b'T' | b't' => *rest = &rest[1..],
        _ if skip_blanks(rest) > 0 => {}
        _ => return None,
    }
    let hour = number(rest, 1, 2)?;
    exactly(rest, b':')?;
    let minute = number(rest, 2, 2)?;
    exactly(rest, b':')?;
    let second = number(rest, 2, 2)?;
    let mut micros = 0;
    if rest.first() == Some(&b'.') {
        *rest = &rest[1..];
        for unit in [100_000, 10_000, 1000, 100, 10, 1] {
            micros += number(rest, 1, 1).unwrap_or(0) * unit;
        }
        while number(rest, 1, 9).is_some() {}
    }
    let written: &[u8] = rest;
    let west = (!written.is_empty()).then(|| written.contains(&b'-'));
    let zone = zone(rest)?;
    let time = Some([hour, minute, second]);
    rest.is_empty().then_some(TimestampParts { date, time, micros, zone, west, full })
}

fn zone(text: &mut &[u8]) -> Option<u32> {
    if text.is_empty() {
        return Some(0);
    }
    skip_blanks(text);
    let (first, rest) = text.split_first()?;
    *text = rest;
    match first {
        b'Z' => Some(0),
        b'+' | b'-' => {
            let hours = number(text, 1, 2)?;
            if text.is_empty() {
                return Some(hours * 60);
            }
            exactly(text, b':')?;
            Some(hours * 60 + number(text, 2, 2)?)
        }
        _ => None,
    }
}

/// Converts a timestamp to ISO 8601 as Python's `isoformat` does; `None` if it is invalid.
pub fn iso_timestamp(text: &str) -> Option<String> {
    let TimestampParts { date: [year, month, day], time, micros, zone, west, .. } = parse(text)?;
    if unfit(text).is_some() {
        return None;
    }
    let date = format!("{year:04}-{month:02}-{day:02}");
    let Some([hour, minute, second]) = time else { return Some(date) };
    let fraction = if micros > 0 { format!(".{micros:06}") } else { String::new() };
    let zone = west.map(|west| {
        // Python has no negative zero offset.
        let sign = if west && zone > 0 { '-' } else { '+' };
        format!("{sign}{:02}:{:02}", zone / 60, zone % 60)
    });
    Some(format!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}{}", zone.unwrap_or_default()))
}

/// True if a plain scalar resolves to a timestamp.
pub(super) fn looks_like(text: &str) -> bool {
    parse(text).is_some_and(|parts| parts.time.is_some() || parts.full)
}

pub(super) fn unfit(text: &str) -> Option<&'static str> {
    let Some(TimestampParts { date: [year, month, day], time, zone, .. }) = parse(text) else {
        return Some("it is tagged !!timestamp but is not a timestamp");
    };
    let date = || Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok();
    let [hour, minute, second] = time.unwrap_or_default();
    let is_date = year > 0 && date().is_some();
    let is_time = hour < 24 && minute < 60 && second < 60 && zone < 24 * 60;
    match (is_date, is_time) {
        (false, _) => Some("it is an invalid date"),
        (_, false) => Some("it is an invalid time of day"),
        _ => None,
    }
}
