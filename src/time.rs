//! Times as text, in UTC.

use crate::source::Time;

/// Returns a time in the format of RFC 3339.
pub fn instant(time: Time) -> String {
    let (date, clock) = parts(time.0);
    format!("{date}T{}:{}:{}Z", clock[0], clock[1], clock[2])
}

/// Returns a time in the format of RFC 3339, with nanoseconds.
pub fn precise_instant(time: Time) -> String {
    instant(time).replace('Z', &format!(".{:09}Z", time.1))
}

/// Returns a time as part of a file name, without colons.
pub fn as_name(seconds: i64) -> String {
    let (date, clock) = parts(seconds);
    format!("{date}T{}-{}-{}Z", clock[0], clock[1], clock[2])
}

/// Returns the date, and hour, minute and second.
fn parts(seconds: i64) -> (String, [String; 3]) {
    let days = seconds.div_euclid(86_400);
    let second = seconds.rem_euclid(86_400);
    // Counts years from March, in eras of 400 years, so that the leap day is the last of a year.
    let day = days.saturating_add(719_468);
    let era = day.div_euclid(146_097);
    let day = day.rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era.saturating_mul(400) + i64::from(month <= 2);
    let clock = [second / 3_600, second / 60 % 60, second % 60].map(|number| format!("{number:02}"));
    (format!("{year:04}-{month:02}-{day:02}"), clock)
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
