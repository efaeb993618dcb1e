//! Integers and floats in YAML 1.1.

use std::borrow::Cow;

use super::MAX_DIGITS;

/// Returns the number of leading bytes for which `is` is true, and the rest of the text.
fn span(text: &[u8], is: impl Fn(u8) -> bool) -> (usize, &[u8]) {
    let len = text.iter().take_while(|byte| is(**byte)).count();
    (len, &text[len..])
}

fn unsigned(text: &[u8]) -> &[u8] {
    match text {
        [b'+' | b'-', rest @ ..] => rest,
        _ => text,
    }
}

fn digit(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'_'
}

/// Skips repetitions of `:[0-5]?[0-9]` (base 60). Returns the text after them; `None` if there is none.
fn sixties(mut text: &[u8]) -> Option<&[u8]> {
    let mut any = false;
    loop {
        text = match text {
            [b':', b'0'..=b'5', b'0'..=b'9', rest @ ..] | [b':', b'0'..=b'9', rest @ ..] => rest,
            _ => return any.then_some(text),
        };
        any = true;
    }
}

pub(super) fn is_int(text: &str) -> bool {
    let text = unsigned(text.as_bytes());
    match text {
        [b'0', b'b', rest @ ..] => !rest.is_empty() && rest.iter().all(|b| matches!(b, b'0' | b'1' | b'_')),
        [b'0', b'x', rest @ ..] => {
            !rest.is_empty() && rest.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'_')
        }
        [b'0', rest @ ..] => rest.iter().all(|byte| matches!(byte, b'0'..=b'7' | b'_')),
        [b'1'..=b'9', rest @ ..] => {
            let (_, rest) = span(rest, digit);
            rest.is_empty() || sixties(rest).is_some_and(<[u8]>::is_empty)
        }
        _ => false,
    }
}

pub(super) fn is_float(text: &str) -> bool {
    let bytes = text.as_bytes();
    let rest = unsigned(bytes);
    match rest {
        b".inf" | b".Inf" | b".INF" => true,
        b".nan" | b".NaN" | b".NAN" => rest.len() == bytes.len(),
        // This form is a float only without a sign.
        [b'.', b'0'..=b'9', rest @ ..] if rest.len() + 2 == bytes.len() => {
            is_exponent_or_nothing(span(rest, digit).1)
        }
        [b'0'..=b'9', rest @ ..] => match span(rest, digit).1 {
            [b'.', rest @ ..] => is_exponent_or_nothing(span(rest, digit).1),
            rest => matches!(sixties(rest), Some([b'.', rest @ ..]) if span(rest, digit).1.is_empty()),
        },
        _ => false,
    }
}

fn is_exponent_or_nothing(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b'e' | b'E', b'+' | b'-', rest @ ..] => !rest.is_empty() && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Returns the digits without underscores, and their base.
fn digits(text: &str) -> (String, u32) {
    let text = text.trim_start_matches(['+', '-']).replace('_', "");
    match text.as_bytes() {
        [b'0', b'b', ..] => (text[2..].to_owned(), 2),
        [b'0', b'x', ..] => (text[2..].to_owned(), 16),
        [b'0', _, ..] => (text[1..].to_owned(), 8),
        _ => (text, 10),
    }
}

pub(super) fn unfit_int(text: &str) -> Option<&'static str> {
    let is_short = text.len() <= MAX_DIGITS;
    if is_short && unsigned(text.as_bytes()).iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (digits, base) = digits(text);
    if digits.is_empty() {
        return Some(NO_DIGITS);
    }
    (base == 10 && digits.len() > MAX_DIGITS && digits.split(':').any(|part| part.len() > MAX_DIGITS))
        .then_some("it is an integer with more digits than Python reads")
}

const NO_DIGITS: &str = "it looks like an integer but has no digits";

pub(super) fn unfit_tagged_int(text: &str) -> Option<&'static str> {
    let bare = text.replace('_', "");
    let bare = bare.strip_prefix(['+', '-']).unwrap_or(&bare);
    let bare = bare.strip_prefix("0o").filter(|rest| !rest.is_empty()).unwrap_or(bare);
    let parts_fit =
        || bare.split(':').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    let fits = is_int(bare) || (!bare.starts_with('0') && parts_fit());
    if fits { unfit_int(bare) } else { Some("it is tagged !!int but is not an integer") }
}

pub(super) fn unfit_tagged_float(text: &str) -> Option<&'static str> {
    let bare = text.replace('_', "").to_ascii_lowercase();
    let bare = bare.strip_prefix(['+', '-']).unwrap_or(&bare);
    let fits = matches!(bare, ".inf" | ".nan")
        || bare.split(':').all(|part| !part.is_empty() && part.parse::<f64>().is_ok());
    (!fits).then_some("it is tagged !!float but is not a number")
}

pub(super) fn integer(text: &str) -> Option<i128> {
    let (digits, base) = digits(text);
    let mut value = 0_i128;
    for part in digits.split(':') {
        value = value.checked_mul(60)?.checked_add(match part {
            "" => 0,
            part => i128::from_str_radix(part, base).ok()?,
        })?;
    }
    Some(if text.starts_with('-') { -value } else { value })
}

/// Converts an integer to decimal. Beyond 128 bits, only decimal integers are converted.
pub(super) fn decimal(text: &str) -> Option<Cow<'_, str>> {
    let unsigned = text.strip_prefix('-').unwrap_or(text).as_bytes();
    if matches!(unsigned, [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit)) {
        return Some(Cow::Borrowed(text));
    }
    if let Some(value) = integer(text) {
        return Some(value.to_string().into());
    }
    let digits: String = text.chars().filter(|char| *char != '_').collect();
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits.strip_prefix('+').unwrap_or(&digits)),
    };
    let is_decimal =
        !digits.starts_with('0') && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal.then(|| format!("{sign}{digits}").into())
}

/// Parses a scalar of type float.
pub fn float(text: &str) -> Option<f64> {
    let text = text.replace('_', "").to_ascii_lowercase();
    let (digits, sign) = match text.strip_prefix('-') {
        Some(digits) => (digits, -1.0),
        None => (text.strip_prefix('+').unwrap_or(&text), 1.0),
    };
    let value = match digits {
        ".inf" => f64::INFINITY,
        // PyYAML computes NaN by a division, which sets its sign.
        ".nan" => return Some(-f64::NAN),
        _ => digits.split(':').try_fold(0.0, |sum, part| part.parse::<f64>().ok().map(|n| sum * 60.0 + n))?,
    };
    Some(sign * value)
}

/// True if an integer needs more than 64 bits, the limit of the ASDF standard.
pub fn beyond_int64(text: &str) -> bool {
    // Shorter texts always fit in 64 bits.
    text.len() > 15 && integer(text).is_none_or(|value| i64::try_from(value).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_the_value_that_pyyaml_gives_them() {
        for (text, expected) in [
            ("0", 0),
            ("-12_3", -123),
            ("0x1f", 31),
            ("0b101", 5),
            ("017", 15),
            ("0_", 0),
            ("190:20:30", 685_230),
            ("+9223372036854775808", 1 << 63),
        ] {
            assert_eq!(integer(text), Some(expected), "{text}");
        }
        assert_eq!(integer(&"9".repeat(50)), None);
    }

    #[test]
    fn the_bounds_of_int64_are_met() {
        for (text, beyond) in [
            ("9223372036854775807", false),
            ("9223372036854775808", true),
            ("-9223372036854775808", false),
            ("-9223372036854775809", true),
            ("0x7fffffffffffffff", false),
            ("0x8000000000000000", true),
            ("99999999999999999999999999999999999999999999999999", true),
            ("1_0_0_0_0_0_0_0_0_0_0", false),
        ] {
            assert_eq!(beyond_int64(text), beyond, "{text}");
        }
    }
}
