//! The exact instant of a time in one of ASDF's formats.

use asdf_file::asdf::ndarray::Scalar;

/// Nanoseconds of a second.
const SECOND: i128 = 1_000_000_000;
/// Seconds of a day.
const DAY: i128 = 86_400;
/// The years 1 to 9999, as seconds since 1970: the range of Python's `datetime`.
const YEARS: std::ops::Range<i128> = -62_135_596_800..253_402_300_800;
/// Years with a leap second at the end of June, and at the end of December.
const LEAP_IN_JUNE: [i64; 11] = [1972, 1981, 1982, 1983, 1985, 1992, 1993, 1994, 1997, 2012, 2015];
const LEAP_IN_DECEMBER: [i64; 16] =
    [1972, 1973, 1974, 1975, 1976, 1977, 1978, 1979, 1987, 1989, 1990, 1995, 1998, 2005, 2008, 2016];

/// The notation of times in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notation {
    kind: NotationKind,
    /// True for UTC, false for TAI.
    pub utc: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotationKind {
    /// `2000-01-01T12:00:00.5`, or with the number of the day `2000:001:12:00:00.5`.
    Text {
        /// True if the tree does not say which of these two formats is used.
        guessed: bool,
    },
    /// A count of time units from an epoch: `unit` is the length of a unit in seconds, `zero` the epoch in
    /// seconds since 1970.
    Number { unit: i128, zero: i128 },
}

/// An exact instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instant {
    /// Nanoseconds since 1970 in the time scale of the array, UTC or TAI, with days of 86 400 seconds.
    since: i128,
    /// The format, if it was guessed.
    pub format: Option<&'static str>,
}

impl Instant {
    pub(super) fn nanos(self) -> Option<i64> {
        i64::try_from(self.since).ok()
    }

    pub(super) fn micros(self) -> Option<i64> {
        (self.since % 1000 == 0).then(|| i64::try_from(self.since / 1000).ok())?
    }
}

impl Notation {
    /// Returns the notation of elements of this type; `None` if they are never converted.
    pub(super) fn of(format: Option<&str>, scale: &str, scalar: Scalar) -> Option<Self> {
        let utc = match scale {
            "utc" => true,
            "tai" => false,
            _ => return None,
        };
        let number = |unit, zero| NotationKind::Number { unit, zero };
        // `zero` is the instant of the number 0, in seconds since 1970.
        let kind = match format {
            None => NotationKind::Text { guessed: true },
            Some("iso" | "isot" | "fits" | "yday" | "datetime" | "datetime64") => {
                NotationKind::Text { guessed: false }
            }
            Some("jd") => number(DAY, -210_866_760_000),
            Some("mjd") => number(DAY, -3_506_716_800),
            Some("unix") if utc => number(1, 0),
            Some("unix_tai") if !utc => number(1, 0),
            // Begins on 1980-01-06 00:00:19 TAI.
            Some("gps") if !utc => number(1, 315_964_819),
            Some(_) => return None,
        };
        let is_text = matches!(scalar, Scalar::Ascii(_) | Scalar::Ucs4(_));
        (is_text == matches!(kind, NotationKind::Text { .. })).then_some(Self { kind, utc })
    }

    /// Returns the instant of an integer.
    pub(super) fn of_integer(self, value: i128) -> Option<Instant> {
        self.of_fraction(value, 0)
    }

    /// Returns the instant of a floating-point number.
    pub(super) fn of_float(self, value: f64) -> Option<Instant> {
        let bits = value.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as i32;
        let mantissa = i128::from(bits & ((1 << 52) - 1));
        let (mantissa, exponent) = match exponent {
            0x7ff => return None,
            0 => (mantissa, -1074),
            exponent => (mantissa | 1 << 52, exponent - 1075),
        };
        self.of_fraction(if value.is_sign_negative() { -mantissa } else { mantissa }, exponent)
    }

    /// Returns the instant of `mantissa` times 2 to the power of `exponent`.
    fn of_fraction(self, mantissa: i128, exponent: i32) -> Option<Instant> {
        let NotationKind::Number { unit, zero } = self.kind else { return None };
        let product = mantissa.checked_mul(unit * SECOND)?;
        let whole = match u32::try_from(exponent) {
            _ if product == 0 => 0,
            Ok(up) => 1_i128.checked_shl(up).filter(|power| *power > 0)?.checked_mul(product)?,
            Err(_) if product.trailing_zeros() < exponent.unsigned_abs() => return None,
            Err(_) => product >> exponent.unsigned_abs(),
        };
        let since = whole.checked_add(zero * SECOND)?;
        // astropy and ERFA stretch the fractions of a day with a leap second over 86 401 seconds.
        let is_stretched = || self.utc && since % (DAY * SECOND) != 0 && has_leap_second(since);
        if !YEARS.contains(&since.div_euclid(SECOND)) || is_stretched() {
            return None;
        }
        Some(Instant { since, format: None })
    }

    /// Returns the instant of a text with trailing NULs.
    pub(super) fn of_text(self, text: &[u8]) -> Option<Instant> {
        let NotationKind::Text { guessed } = self.kind else { return None };
        let end = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let mut unpadded = &text[..end];
        let rest = &mut unpadded;
        let year = number(rest, 4)?;
        let (day, format) = match rest.first()? {
            b'-' => (day_of_date(year, rest)?, "iso"),
            _ => (day_of_number(year, rest)?, "yday"),
        };
        let clock = match (rest.split_first(), format) {
            (None, _) => 0,
            (Some((b'T' | b' ', time)), "iso") | (Some((b':', time)), "yday") => {
                *rest = time;
                let clock = nanos_of_day(rest)?;
                if self.utc && rest.first() == Some(&b'Z') {
                    *rest = &rest[1..];
                }
                clock
            }
            _ => return None,
        };
        let since = i128::from(day) * DAY * SECOND + clock;
        let is_valid = rest.is_empty() && YEARS.contains(&since.div_euclid(SECOND));
        is_valid.then_some(Instant { since, format: guessed.then_some(format) })
    }
}

/// Parses the number in the first `len` digits of `text`, and removes them.
fn number(text: &mut &[u8], len: usize) -> Option<i64> {
    let (digits, rest) = text.split_at_checked(len)?;
    *text = rest;
    digits
        .iter()
        .try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0')))
}

fn exactly(text: &mut &[u8], byte: u8) -> Option<()> {
    *text = text.strip_prefix(&[byte])?;
    Some(())
}

/// Parses month and day. Returns the days since 1970.
fn day_of_date(year: i64, text: &mut &[u8]) -> Option<i64> {
    exactly(text, b'-')?;
    let month = number(text, 2).filter(|month| (1..=12).contains(month))?;
    exactly(text, b'-')?;
    let day = number(text, 2)?;
    let first = days_before(year, month);
    let next = if month == 12 { days_before(year + 1, 1) } else { days_before(year, month + 1) };
    (1..=next - first).contains(&day).then(|| first + day - 1)
}

/// Parses the number of a day in its year. Returns the days since 1970.
fn day_of_number(year: i64, text: &mut &[u8]) -> Option<i64> {
    exactly(text, b':')?;
    let day = number(text, 3)?;
    let first = days_before(year, 1);
    (1..=days_before(year + 1, 1) - first).contains(&day).then(|| first + day - 1)
}

/// Parses the time of day; `None` within a leap second.
fn nanos_of_day(text: &mut &[u8]) -> Option<i128> {
    let hour = number(text, 2).filter(|hour| *hour < 24)?;
    exactly(text, b':')?;
    let minute = number(text, 2).filter(|minute| *minute < 60)?;
    let mut second = 0;
    let mut nanos = 0;
    if exactly(text, b':').is_some() {
        second = number(text, 2).filter(|second| *second < 60)?;
        if exactly(text, b'.').is_some() {
            nanos = fraction(text)?;
        }
    }
    Some(i128::from(hour * 3600 + minute * 60 + second) * SECOND + nanos)
}

/// Parses the digits after the point. Returns nanoseconds; `None` if a fraction of a nanosecond remains.
fn fraction(text: &mut &[u8]) -> Option<i128> {
    let mut nanos = 0;
    let mut weight = SECOND;
    while let Some((digit, rest)) = text.split_first().filter(|(digit, _)| digit.is_ascii_digit()) {
        *text = rest;
        weight /= 10;
        if weight == 0 && *digit != b'0' {
            return None;
        }
        nanos += i128::from(digit - b'0') * weight;
    }
    Some(nanos)
}

/// Returns the number of days from 1970 to the first of a month.
fn days_before(year: i64, month: i64) -> i64 {
    // Counts years from March, so that the leap day is the last of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 - 719_468
}

/// True if a UTC day ends with a leap second. `since` is an instant in the day.
fn has_leap_second(since: i128) -> bool {
    let next = since.div_euclid(DAY * SECOND) + 1;
    let begins = |year, month| i128::from(days_before(year, month)) == next;
    LEAP_IN_JUNE.iter().any(|year| begins(*year, 7))
        || LEAP_IN_DECEMBER.iter().any(|year| begins(*year + 1, 1))
}

#[cfg(test)]
mod tests;
