//! Converts units to FITS notation: `erg s-1 cm-2`.

use asdf_tree::yaml::survey::{NodeContent, TreeNode};

/// Maximum length of the text of one FITS card.
const MAX_UNIT: usize = 68;

/// The prefixes of the tags of nodes with a `unit` and a `value`.
const QUANTITIES: [&str; 7] = [
    "tag:stsci.edu:asdf/unit/quantity-1.",
    "tag:astropy.org:astropy/coordinates/angle-",
    "tag:astropy.org:astropy/coordinates/distance-",
    "tag:astropy.org:astropy/coordinates/latitude-",
    "tag:astropy.org:astropy/coordinates/longitude-",
    "tag:astropy.org:astropy/coordinates/spectralcoord-",
    "tag:astropy.org:specutils/spectra/spectral_axis-",
];

/// The prefixes of the tags of other nodes with a `unit`, and the key of the array that has this unit.
const WITH_UNIT: [(&str, &str); 3] = [
    ("tag:sunpy.org:ndcube/ndcube-1.", "data"),
    ("tag:astropy.org:astropy/nddata/uncertainty-1.", "array"),
    (MAP, "data"),
];
/// The prefix of the tag of sunpy's maps. Old ones have their unit in the keywords only.
const MAP: &str = "tag:sunpy.org:sunpy/map/generic_map-1.";

/// Returns the key of the array that has the unit of a node with this tag.
pub(crate) fn array_key(tag: &str) -> Option<&'static str> {
    let found = WITH_UNIT.iter().find(|(known, _)| tag.starts_with(known));
    found.map(|(_, key)| *key).or(is_quantity(tag).then_some("value"))
}

/// True if a tag is that of a quantity.
pub fn is_quantity(tag: &str) -> bool {
    QUANTITIES.iter().any(|known| tag.starts_with(known))
}

/// Returns the unit of a node in FITS notation; `None` if there is no unit, or FITS can't express it.
pub fn of(node: &TreeNode) -> Option<String> {
    in_fits(text(node)?)
}

/// Returns the unit of a node in FITS notation, or as in the tree if FITS can't express it.
pub fn of_any(node: &TreeNode) -> Option<String> {
    let text = text(node).filter(|text| !text.is_empty() && *text != "null")?;
    Some(in_fits(text).unwrap_or_else(|| text.to_owned()))
}

/// Returns a power of a unit in FITS notation: `erg2 s-2` for 2 and `erg s-1`. `None` if the unit has another form.
pub fn power(unit: &str, power: i32) -> Option<String> {
    let raised = |part: &str| -> Option<String> {
        if let Some(ten) = part.strip_prefix("10**") {
            return Some(format!("10**{}", ten.parse::<i32>().ok()?.checked_mul(power)?));
        }
        let digits = part.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(part.len());
        let (name, exponent) = part.split_at(digits);
        let exponent = if exponent.is_empty() { 1 } else { exponent.parse::<i32>().ok()? };
        let exponent = exponent.checked_mul(power).filter(|exponent| *exponent != 0 && !name.is_empty())?;
        Some(if exponent == 1 { name.to_owned() } else { format!("{name}{exponent}") })
    };
    let parts: Option<Vec<String>> = unit.split(' ').map(raised).collect();
    Some(parts?.join(" "))
}

fn text(node: &TreeNode) -> Option<&str> {
    let is_map = node.target().tag.as_deref().is_some_and(|tag| tag.starts_with(MAP));
    let keyword = || node.get("meta").filter(|_| is_map)?.get("bunit");
    match &node.get("unit").or_else(keyword)?.target().node {
        NodeContent::Scalar { text, .. } => Some(text.trim()),
        _ => None,
    }
}

/// Converts a unit of the tree, `erg.s**-1.cm**-2`, to FITS notation. A text of another form is returned
/// unchanged: astropy writes its own units in such forms (`electron / s`).
pub fn in_fits(unit: &str) -> Option<String> {
    let is_plain = unit.bytes().all(|byte| matches!(byte, b' '..=b'~')) && unit.len() <= MAX_UNIT;
    if unit.is_empty() || unit == "null" || !is_plain {
        return None;
    }
    let names = unit.find(|c: char| c.is_ascii_alphabetic() && c != 'e').unwrap_or(unit.len());
    // FITS allows no numeric factors but powers of ten.
    let (scale, rest) = if unit.starts_with(|c: char| c.is_ascii_digit()) {
        let (power, rest) = match split_decimal(unit) {
            Some(found) => found,
            None => {
                let (number, rest) = split_scale(unit, names)?;
                let digits = number.strip_prefix("1e").or_else(|| number.strip_prefix("10**"))?;
                (digits.trim_start_matches('+').parse::<i32>().ok()?, rest)
            }
        };
        ((power != 0).then(|| format!("10**{power}")), rest)
    } else {
        (None, unit)
    };
    let factors: Option<Vec<String>> = rest.split('.').map(factor).collect();
    match (factors, scale) {
        (Some(factors), scale) => Some(scale.into_iter().chain(factors).collect::<Vec<_>>().join(" ")),
        (None, None) => Some(unit.to_owned()),
        (None, Some(scale)) => Some(format!("{scale} {}", quotient(rest)?)),
    }
}

/// Converts a unit as astropy writes and reads it, `erg / (Angstrom s cm2)` or `erg/s/cm2`, to FITS notation: astropy
/// reads no such form after a power of ten. `None` if it may mean several units.
fn quotient(unit: &str) -> Option<String> {
    let unit = unit.replace("**", "^");
    let mut parts = vec![String::new()];
    let mut depth = 0_usize;
    for character in unit.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            '/' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut()?.push(character);
    }
    let mut factors = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        let part = part.trim();
        let inner = part.strip_prefix('(').and_then(|part| part.strip_suffix(')'));
        let mut names =
            inner.unwrap_or(part).split([' ', '*', '.']).filter(|name| !name.is_empty()).peekable();
        let first = match names.next() {
            Some(first) => first,
            None if n == 0 => continue,
            None => return None,
        };
        // It is not clear whether a name behind the divisor is a part of it.
        if n > 0 && inner.is_none() && names.peek().is_some() {
            return None;
        }
        for name in std::iter::once(first).chain(names) {
            factors.push(power_of(name, if n > 0 { -1 } else { 1 })?);
        }
    }
    (!factors.is_empty()).then(|| factors.join(" "))
}

/// Raises a name with an exponent, `cm2`, `cm^-2` or `Hz^(1/2)`, to the power 1 or -1.
fn power_of(factor: &str, sign: i32) -> Option<String> {
    let end = factor.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(factor.len());
    let (name, exponent) = factor.split_at(end);
    let exponent = exponent.strip_prefix('^').unwrap_or(exponent);
    let inner = exponent.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(exponent);
    let (above, below) = inner.split_once('/').unwrap_or((inner, "1"));
    let above = if exponent.is_empty() { 1 } else { above.parse::<i32>().ok()? };
    let above = above.checked_mul(sign).filter(|above| *above != 0 && !name.is_empty())?;
    let below = below.parse::<u32>().ok().filter(|below| *below > 0)?;
    Some(match (above, below) {
        (1, 1) => name.to_owned(),
        (_, 1) => format!("{name}{above}"),
        _ => format!("{name}({above}/{below})"),
    })
}

/// Splits off a power of ten in decimal before the names of a unit, `1000Hz` or `0.01m`; returns the power.
fn split_decimal(unit: &str) -> Option<(i32, &str)> {
    let (whole, rest) = unit.split_at(unit.find(|c: char| !c.is_ascii_digit())?);
    // A point may also separate the number from the first name.
    let fraction = rest.strip_prefix('.').unwrap_or_default();
    let fraction = &fraction[..fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len())];
    let has_point = rest.starts_with('.') && (!fraction.is_empty() || rest.starts_with(". "));
    let rest = if has_point { &rest[1 + fraction.len()..] } else { rest };
    let digits = [whole, fraction].concat();
    let one = digits.find(|c| c != '0')?;
    let is_power = digits[one..].trim_end_matches('0') == "1";
    let rest = rest.trim_start_matches(['.', ' ']);
    let is_name = rest.starts_with(|c: char| c.is_ascii_alphabetic()) && !rest.starts_with(['e', 'E']);
    let is_exponent = rest.starts_with(['e', 'E'])
        && !rest[1..].starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+'));
    let power = i32::try_from(whole.len()).ok()? - 1 - i32::try_from(one).ok()?;
    (is_power && (is_name || is_exponent)).then_some((power, rest))
}

/// Splits off the number before the names of a unit: `1e-17erg` or `10**-17.erg`.
fn split_scale(unit: &str, names: usize) -> Option<(&str, &str)> {
    // The exponent ends at the first non-digit: a name such as `erg` may follow it directly.
    let digits = |from: usize| {
        let rest = unit.get(from..)?;
        let sign = usize::from(rest.starts_with(['-', '+']));
        let count = rest.get(sign..)?.bytes().take_while(u8::is_ascii_digit).count();
        (count > 0).then_some(from + sign + count)
    };
    let start = ["1e", "10**"].into_iter().find(|start| unit.starts_with(start))?.len();
    let end = digits(start)?;
    let rest = unit.get(end..)?.trim_start_matches(['.', ' ']);
    (names >= start && !rest.is_empty()).then_some((unit.get(..end)?, rest))
}

/// Converts a name with its exponent: `cm**-2` becomes `cm-2`.
fn factor(factor: &str) -> Option<String> {
    let (name, exponent) = factor.split_once("**").unwrap_or((factor, ""));
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    let digits = exponent.strip_prefix('-').unwrap_or(exponent);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = exponent.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
    let is_fraction = fraction.and_then(|inner| inner.split_once('/')).is_some_and(|(above, below)| {
        is_number(above.strip_prefix('-').unwrap_or(above)) && is_number(below)
    });
    let fits = is_name && (is_number(digits) || is_fraction || factor == name);
    fits.then(|| format!("{name}{exponent}"))
}

#[cfg(test)]
mod tests {
    use super::{in_fits, power};

    #[test]
    fn a_power_of_ten_is_raised_with_its_unit() {
        assert_eq!(power("10**-17 erg s-1", 2).as_deref(), Some("10**-34 erg2 s-2"));
        assert_eq!(power("10**-17 erg", -2).as_deref(), Some("10**34 erg-2"));
        assert_eq!((power("10**x erg", 2), power("erg / s", 2)), (None, None));
    }

    #[test]
    fn units_are_written_as_fits_writes_them() {
        for (unit, wanted) in [
            ("Jy", "Jy"),
            ("erg.s**-1.cm**-2", "erg s-1 cm-2"),
            ("1e-17erg.Angstrom**-1.s**-1.cm**-2", "10**-17 erg Angstrom-1 s-1 cm-2"),
            ("10**-17.erg", "10**-17 erg"),
            ("1000Hz", "10**3 Hz"),
            ("10m", "10**1 m"),
            ("1000.0Hz", "10**3 Hz"),
            ("0.01m", "10**-2 m"),
            ("0.001eV", "10**-3 eV"),
            ("100.erg.s**-1", "10**2 erg s-1"),
            ("1.Jy", "Jy"),
            ("Jy**(1/2)", "Jy(1/2)"),
            ("electron / s", "electron / s"),
            ("DN", "DN"),
            ("1e-17 erg / (Angstrom s cm2)", "10**-17 erg Angstrom-1 s-1 cm-2"),
            ("1e-17 erg/s/cm2/Angstrom", "10**-17 erg s-1 cm-2 Angstrom-1"),
            ("1e-17erg / s", "10**-17 erg s-1"),
            ("1000 Jy / (Hz(1/2) * m**-2)", "10**3 Jy Hz(-1/2) m2"),
            ("1e-3 / (s m)", "10**-3 s-1 m-1"),
        ] {
            assert_eq!(in_fits(unit).as_deref(), Some(wanted), "{unit}");
        }
        for unit in [
            "",
            "null",
            "15deg",
            "2.5.erg",
            "110m",
            "0.0m",
            "0.011m",
            "1.5m",
            "1e3",
            "\u{b5}m",
            "x\ny",
            "1e-17",
            "1e-17 erg / s m",
            "1e-17 erg / (s",
            "1e-17 erg / 2",
            "1e-17 erg 2 s",
            "1e-17 m0.5 / s",
        ] {
            assert_eq!(in_fits(unit), None, "{unit}");
        }
        assert_eq!(in_fits(&"m.".repeat(40)), None);
    }
}
