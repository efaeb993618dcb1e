//! Dates in replies of servers.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use seekable::source::Time;

/// Parses the date of an HTTP header, such as `Sun, 06 Nov 1994 08:49:37 GMT`, into seconds since 1970.
pub fn http(text: &str) -> Option<i64> {
    seconds("%d %b %Y %H:%M:%S GMT", text.split_once(',')?.1.trim())
}

/// Parses the date of a listing by S3, such as `2009-10-12T17:50:30.000Z`.
pub fn iso(text: &str) -> Option<Time> {
    let text = text.strip_suffix('Z')?;
    let (time, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let fraction = fraction.get(..9).unwrap_or(fraction);
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((seconds("%Y-%m-%dT%H:%M:%S", time)?, format!("{fraction:0<9}").parse().ok()?))
}

/// Parses the date of an index page: `23-Nov-2026 20:06` (nginx), or `2026-11-23 20:06` (Apache).
pub fn index_page(date: &str, time: &str) -> Option<Time> {
    let forms = ["%d-%b-%Y %H:%M", "%d-%b-%Y %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"];
    let seconds = forms.iter().find_map(|form| seconds(form, &format!("{date} {time}")))?;
    Some((seconds, 0))
}

/// Parses a time in UTC by a form of strptime. Returns the seconds since 1970.
fn seconds(form: &str, text: &str) -> Option<i64> {
    let time = DateTime::strptime(form, text).ok().filter(|time| time.year() > 0)?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
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
