//! Complex numbers, read as Python does.

/// Converts a complex number of the tree to Python's notation, with `j` for `i`.
pub fn with_j(text: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        replaced.push(match c {
            'i' if !after.starts_with("nf") => 'j',
            'I' if !after.starts_with("NF") => 'j',
            'J' => 'j',
            c => c,
        });
        rest = after;
    }
    replaced
}

/// Parses a text as Python's `complex` does.
pub fn complex(text: &str) -> Option<(f64, f64)> {
    let text = text.trim();
    let text = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).map_or(text, str::trim);
    let number =
        |part: &str| if part.trim() == part { part.replace('_', "").parse::<f64>().ok() } else { None };
    let Some(body) = text.strip_suffix(['j', 'J']) else { return Some((number(text)?, 0.0)) };
    let bytes = body.as_bytes();
    let sign = |at: &usize| {
        matches!(bytes.get(*at), Some(b'+' | b'-'))
            && !matches!(at.checked_sub(1).and_then(|before| bytes.get(before)), Some(b'e' | b'E'))
    };
    let split = (1..bytes.len()).rev().find(sign).unwrap_or(0);
    let re = body.get(..split)?;
    let im = body.get(split..)?;
    let im = match im {
        "" | "+" => 1.0,
        "-" => -1.0,
        im => number(im)?,
    };
    Some((if split == 0 { 0.0 } else { number(re)? }, im))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complex_numbers_are_those_of_python() {
        for (text, expected) in [
            ("1+1j", Some((1.0, 1.0))),
            ("(3-4j)", Some((3.0, -4.0))),
            ("-j", Some((0.0, -1.0))),
            ("1e-3-2.5e+4j", Some((0.001, -25_000.0))),
            ("nan+infj", None),
            ("2", Some((2.0, 0.0))),
            ("-inf+1j", Some((f64::NEG_INFINITY, 1.0))),
            ("1 + 1j", None),
            ("x", None),
        ] {
            if expected.is_some() || text != "nan+infj" {
                assert_eq!(complex(text), expected, "{text}");
            }
        }
        assert_eq!(with_j("1+infi"), "1+infj");
        assert!(complex("nan+infj").is_some_and(|(re, im)| re.is_nan() && im == f64::INFINITY));
    }
}
