//! Dates in replies of servers.

use crate::source::Time;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses the date of an HTTP header, such as `Sun, 06 Nov 1994 08:49:37 GMT`, into seconds since 1970.
pub fn http(text: &str) -> Option<i64> {
    let mut words = text.split_once(',')?.1.split_ascii_whitespace();
    let day = words.next()?;
    let month = words.next()?;
    let year = words.next()?;
    let time = words.next()?;
    if (words.next(), words.next()) != (Some("GMT"), None) {
        return None;
    }
    seconds(number(year, 4)?, month_of(month)?, number(day, 2)?, clock(time)?)
}

/// Parses the date of a listing by S3, such as `2009-10-12T17:50:30.000Z`.
pub fn iso(text: &str) -> Option<Time> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let fraction = fraction.get(..9).unwrap_or(fraction);
    let nanoseconds = number(fraction, fraction.len())? * 10_i64.pow(9 - u32::try_from(fraction.len()).ok()?);
    Some((seconds_of(date, time)?, u32::try_from(nanoseconds).ok()?))
}

/// Parses the date of an index page: `23-Nov-2026 20:06` (nginx), or `2026-11-23 20:06` (Apache).
pub fn index_page(date: &str, time: &str) -> Option<Time> {
    let time = if time.len() == 5 { format!("{time}:00") } else { time.to_owned() };
    let parts: Vec<&str> = date.split('-').collect();
    let seconds = match parts[..] {
        [day, month, year] if month.len() == 3 => {
            seconds(number(year, 4)?, month_of(month)?, number(day, 2)?, clock(&time)?)
        }
        _ => seconds_of(date, &time),
    };
    Some((seconds?, 0))
}

fn seconds_of(date: &str, time: &str) -> Option<i64> {
    let mut parts = date.split('-');
    let date = (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    if parts.next().is_some() { None } else { seconds(date.0, date.1, date.2, clock(time)?) }
}

fn month_of(name: &str) -> Option<i64> {
    MONTHS.iter().position(|month| *month == name).map(|month| month as i64 + 1)
}

fn clock(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let hour = number(parts.next()?, 2)?;
    let minute = number(parts.next()?, 2)?;
    let second = number(parts.next()?, 2)?;
    let is_valid = parts.next().is_none() && hour < 24 && minute < 60 && second <= 60;
    is_valid.then_some(hour * 3600 + minute * 60 + second)
}

fn number(text: &str, most: usize) -> Option<i64> {
    let is_valid = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_valid { text.parse().ok() } else { None }
}

/// Returns the seconds since 1970 of a day of the Gregorian calendar.
fn seconds(year: i64, month: i64, day: i64, clock: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that the leap day is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year;
    Some((days - 719_468) * 86_400 + clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read() {
        assert_eq!(http("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(http("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(iso("2009-10-12T17:50:30.250Z"), Some((1_255_369_830, 250_000_000)));
        assert_eq!(iso("2000-02-29T00:00:00Z"), Some((951_782_400, 0)));
        assert_eq!(index_page("06-Nov-1994", "08:49"), Some((784_111_740, 0)));
        assert_eq!(index_page("1994-11-06", "08:49"), Some((784_111_740, 0)));
        for text in
            ["", ",", "Sun, 06 Now 1994 08:49:37 GMT", "x, 99 Nov 1994 08:49:37 GMT", "x, 1 Nov 1 1:1:1 UTC"]
        {
            assert_eq!(http(text), None, "{text}");
        }
        for text in ["2009-10-12T17:50:30", "2009-10-12 17:50:30Z", "-1-1-1T1:1:1Z", "2009-13-12T17:50:30Z"] {
            assert_eq!(iso(text), None, "{text}");
        }
        assert_eq!(index_page("", ""), None);
        assert!(iso("2009-10-12T17:50:30.1234567890123456789Z").is_some());
    }
}
