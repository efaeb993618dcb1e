//! Positions and angles on the command line, and `--near`.

use std::sync::Arc;

use asdf_file::container::{Cone, Container};
use asdf_views::views::fits::CutoutSize;
use clap::Args;
use seekable::error::Result;

use super::DESCRIBE;

/// The option `--near`.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Near {
    /// With --catalog, --search or --info: only files with an image that contains RA,DEC or, with RADIUS, that touches the
    /// circle around it
    ///
    /// RA and DEC are written as for --cutout, RADIUS as 30arcsec, 2arcmin or 0.1deg. No pixel is read. A file without an
    /// image with world coordinates on the sky is left out.
    #[arg(long, help_heading = DESCRIBE, value_name = "RA,DEC[,RADIUS]", value_parser = cone, allow_hyphen_values = true)]
    pub(super) near: Option<Cone>,
}

impl Near {
    /// True if an image of a file is near the position, or no position is given.
    pub(super) fn includes(self, container: &Arc<dyn Container>) -> Result<bool> {
        self.near.map_or(Ok(true), |cone| cone.is_in(container))
    }
}

/// Parses `RA,DEC[,RADIUS]`.
fn cone(text: &str) -> std::result::Result<Cone, String> {
    let (position, rest) = position(text)?;
    let radius = match rest {
        None => 0.0,
        Some(radius) => match side(radius)? {
            CutoutSize::Degrees(degrees) => degrees,
            CutoutSize::Pixels(_) => {
                return Err(format!("{radius} is no angle; write 30arcsec, 2arcmin or 0.1deg"));
            }
        },
    };
    let [ra, dec] = position;
    Ok(Cone::new(ra, dec, radius))
}

/// Parses a right ascension and a declination in degrees, and returns the text after a further comma.
pub(super) fn position(text: &str) -> std::result::Result<([f64; 2], Option<&str>), String> {
    let mut parts = text.splitn(3, ',');
    let (Some(ra), Some(dec)) = (parts.next(), parts.next()) else {
        return Err("write RA,DEC, as in 150.1,2.2 or 10h00m24s,+2d12m00s".to_owned());
    };
    let angle = |name: &str, text: &str, of_hour: f64| {
        let found = angle(text.trim(), of_hour);
        found.ok_or_else(|| format!("{text} is no {name}; write degrees, or as in 10h00m24s,+2d12m00s"))
    };
    let ra_in_degrees = angle("right ascension", ra, 15.0)?;
    let dec_in_degrees = angle("declination", dec, 1.0)?;
    if !(-360.0..=360.0).contains(&ra_in_degrees) {
        return Err(format!("the right ascension {ra} is not within 360 degrees"));
    }
    if !(-90.0..=90.0).contains(&dec_in_degrees) {
        return Err(format!("the declination {dec} is not within 90 degrees"));
    }
    Ok(([ra_in_degrees, dec_in_degrees], parts.next()))
}

/// Parses degrees, `12:34:56.7` or `12h34m56.7s`. `of_hour` is the unit before colons in degrees, as of `h`.
fn angle(text: &str, of_hour: f64) -> Option<f64> {
    if let Ok(degrees) = text.parse::<f64>() {
        return degrees.is_finite().then_some(degrees);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (unit, parts): (f64, Vec<&str>) = if unsigned.contains(':') {
        (of_hour, unsigned.split(':').collect())
    } else {
        let letter = unsigned.find(['h', 'd'])?;
        let (first, rest) = unsigned.split_at(letter);
        let unit = if rest.starts_with('h') { of_hour } else { 1.0 };
        // A declination has no hours.
        if rest.starts_with('h') && of_hour == 1.0 {
            return None;
        }
        let mut parts = vec![first];
        let mut rest = &rest[1..];
        for letter in ['m', 's'] {
            if !rest.is_empty() {
                let (part, after) = rest.split_once(letter)?;
                parts.push(part);
                rest = after;
            }
        }
        (unit, if rest.is_empty() { parts } else { return None })
    };
    let mut sum = 0.0;
    for (n, part) in parts.iter().enumerate() {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let number: f64 = part.parse().ok().filter(|_| is_number)?;
        if n > 2 || n > 0 && number >= 60.0 {
            return None;
        }
        sum += number / 60_f64.powi(i32::try_from(n).ok()?);
    }
    Some(if text.starts_with('-') { -sum * unit } else { sum * unit })
}

/// Parses the length of a side, or a radius: `30arcsec`, `2arcmin`, `0.1deg`, `64px`.
pub(super) fn side(text: &str) -> std::result::Result<CutoutSize, String> {
    const UNITS: [(&str, f64); 3] = [("arcsec", 1.0 / 3600.0), ("arcmin", 1.0 / 60.0), ("deg", 1.0)];
    let text = text.trim();
    let wrong = || format!("{text} is no size; write 30arcsec, 2arcmin, 0.1deg or 64px");
    if let Some(count) = text.strip_suffix("px") {
        let count = count.trim().parse().ok().filter(|count: &u64| *count > 0);
        return count.map(CutoutSize::Pixels).ok_or_else(wrong);
    }
    let found = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)));
    let degrees = found.and_then(|(number, unit)| Some(number.trim().parse::<f64>().ok()? * unit));
    let degrees = degrees.filter(|degrees| *degrees > 0.0 && *degrees <= 180.0);
    degrees.map(CutoutSize::Degrees).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_degrees_or_sexagesimal() {
        for (text, ra, dec) in [
            ("150.5,-2.25", 150.5, -2.25),
            ("-0.5, +1e1", -0.5, 10.0),
            ("10h02m00s,-0d30m", 150.5, -0.5),
            ("10:02:00.0,-00:30:36", 150.5, -0.51),
            ("150d30m,89d59m60.0s", 150.5, f64::NAN),
            ("23h59m59.999s,90", 359.999_995_833, 90.0),
            ("12h,0d", 180.0, 0.0),
        ] {
            match position(text) {
                Ok(([found_ra, found_dec], None)) => {
                    assert!((found_ra - ra).abs() < 1e-8 && (found_dec - dec).abs() < 1e-8, "{text}");
                }
                found => assert!(dec.is_nan() && found.is_err(), "{text}: {found:?}"),
            }
        }
        for text in [
            "",
            "1",
            "a,1",
            "1,b",
            "361,0",
            "0,91",
            "nan,0",
            "inf,0",
            "1h2m3s4,0",
            "1:2:3:4,0",
            "0,1h",
            "1h-2m,0",
            "1:60:0,0",
            "h,0",
            "1d2s,0",
            ":,0",
            "1e999,0",
            "12hé,0",
        ] {
            assert!(position(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(side("64px"), Ok(CutoutSize::Pixels(64)));
        assert_eq!(side("30 arcmin"), Ok(CutoutSize::Degrees(0.5)));
        assert_eq!(side("3600arcsec"), Ok(CutoutSize::Degrees(1.0)));
        for text in ["", "64", "0px", "-1px", "1.5px", "0deg", "-1deg", "nandeg", "181deg", "2rad", "px"] {
            assert!(side(text).is_err(), "{text}");
        }
        assert!(
            cone("1,2").is_ok()
                && cone("1,2,3deg").is_ok()
                && cone("1,2,3px").is_err()
                && cone("1,2,").is_err()
        );
    }
}
