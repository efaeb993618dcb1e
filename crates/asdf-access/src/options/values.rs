//! Values of options: texts, numbers, sizes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use seekable::error::Result;

use super::bad;

/// Returns a value for a system call as text; fails if it is empty or contains a NUL.
pub(super) fn text(name: &str, value: &[u8], wanted: &str) -> Result<OsString> {
    if value.is_empty() || value.contains(&0) {
        Err(bad(name, value, wanted))
    } else {
        Ok(OsString::from_vec(value.to_vec()))
    }
}

/// Parses a number.
pub(super) fn number(name: &str, value: &[u8], radix: u32, wanted: &str) -> Result<u32> {
    // from_str_radix would accept a sign.
    let digits = std::str::from_utf8(value).ok().filter(|text| !text.starts_with(['+', '-']));
    let number = digits.and_then(|text| u32::from_str_radix(text, radix).ok());
    // System calls take u32::MAX as "no change".
    number.filter(|&number| number != u32::MAX).ok_or_else(|| bad(name, value, wanted))
}

/// Parses a number of bytes with an optional K, M, G or T (powers of 1024).
pub(super) fn size(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let (digits, shift) = match text.chars().last()?.to_ascii_uppercase() {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}
