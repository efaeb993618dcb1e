//! Times as text, in UTC.

use jiff::Timestamp;

use seekable::source::Time;

/// Returns a time as a timestamp. A time outside the years -9999 to 9999 becomes the first or the last of them.
pub fn timestamp((seconds, nanoseconds): Time) -> Timestamp {
    let limit = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::new(seconds, nanoseconds.try_into().unwrap_or(0)).unwrap_or(limit)
}

/// Returns a time in the format of RFC 3339.
pub fn instant(time: Time) -> String {
    format!("{:.0}", timestamp((time.0, 0)))
}

/// Returns a time in the format of RFC 3339, with nanoseconds.
pub fn precise_instant(time: Time) -> String {
    format!("{:.9}", timestamp(time))
}

/// Returns a time as part of a file name, without colons.
pub(crate) fn as_name(seconds: i64) -> String {
    instant((seconds, 0)).replace(':', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_763_650_000, "2025-11-20T14:46:40Z"),
            (1_795_392_000, "2026-11-23T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(instant((seconds, 5)), text);
            assert_eq!(precise_instant((seconds, 5)), text.replace('Z', ".000000005Z"));
            assert_eq!(as_name(seconds), text.replace(':', "-"));
        }
        // Extreme times do not overflow.
        instant((i64::MIN, 0));
        instant((i64::MAX, 0));
    }
}
