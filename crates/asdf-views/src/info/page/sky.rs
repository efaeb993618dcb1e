//! The position and the size of the field on the sky.

use std::sync::Arc;

use asdf_file::container::Container;
use seekable::error::Result;

use super::html::escape;

/// A field: its centre and its size in degrees.
#[derive(Debug, PartialEq)]
pub(super) struct FieldOnSky {
    ra: f64,
    dec: f64,
    width: f64,
    height: f64,
    /// Where the numbers come from.
    origin: &'static str,
}

/// Returns the field of a region such as `POLYGON ICRS 10.0 -5.0 10.1 -5.0 10.1 -4.9 10.0 -4.9`.
pub(super) fn of_region(region: &str) -> Option<FieldOnSky> {
    let numbers: Vec<f64> = region
        .split_whitespace()
        .skip_while(|word| word.parse::<f64>().is_err())
        .map_while(|word| word.parse().ok())
        .collect();
    if numbers.len() < 6 || !numbers.iter().all(|number| number.is_finite()) {
        return None;
    }
    let first = *numbers.first()?;
    // A field may lie at RA 0.
    let ras: Vec<f64> = numbers.iter().step_by(2).map(|ra| first + near(ra - first)).collect();
    let decs: Vec<f64> = numbers.iter().skip(1).step_by(2).copied().collect();
    let (west, east) = ends(&ras);
    let (south, north) = ends(&decs);
    let dec = (south + north) / 2.0;
    if !(-90.0..=90.0).contains(&dec) {
        return None;
    }
    Some(FieldOnSky {
        ra: ((west + east) / 2.0).rem_euclid(360.0),
        dec,
        width: (east - west) * dec.to_radians().cos(),
        height: north - south,
        origin: "its region in the tree",
    })
}

/// Returns an angle in degrees between -180 and 180.
fn near(angle: f64) -> f64 {
    (angle + 180.0).rem_euclid(360.0) - 180.0
}

fn ends(numbers: &[f64]) -> (f64, f64) {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, greatest)
}

/// Returns the field of an image with these corners: right ascension and declination in degrees, in their order around
/// the image, of which the second one ends the first column.
fn of_corners(corners: [[f64; 2]; 4]) -> FieldOnSky {
    let directions = corners.map(|[ra, dec]| {
        let (ra, dec) = (ra.to_radians(), dec.to_radians());
        [dec.cos() * ra.cos(), dec.cos() * ra.sin(), dec.sin()]
    });
    let [x, y, z] = [0, 1, 2].map(|axis| directions.iter().map(|direction| direction[axis]).sum::<f64>());
    let angle = |from: usize, to: usize| {
        let chord = [0, 1, 2].map(|axis| (directions[from][axis] - directions[to][axis]).powi(2));
        2.0 * (chord.iter().sum::<f64>().sqrt() / 2.0).asin()
    };
    FieldOnSky {
        ra: y.atan2(x).to_degrees().rem_euclid(360.0),
        dec: z.atan2((x * x + y * y).sqrt()).to_degrees(),
        width: angle(0, 3).to_degrees(),
        height: angle(0, 1).to_degrees(),
        origin: "the world coordinates of the image",
    }
}

impl FieldOnSky {
    pub(super) fn html(&self) -> String {
        format!(
            "<dl>\n<dt>RA</dt><dd>{} = {:.5}°</dd>\n<dt>Dec</dt><dd>{} = {:.5}°</dd>\n<dt>Field</dt><dd>{} × {} \
             <small>(centre and size from {})</small></dd>\n</dl>\n",
            hours(self.ra),
            self.ra,
            degrees(self.dec),
            self.dec,
            size(self.width),
            size(self.height),
            self.origin
        )
    }
}

/// Returns an angle in hours, minutes and seconds.
fn hours(angle: f64) -> String {
    let hundredths = (angle / 15.0 * 360_000.0).round().max(0.0) as u64 % (24 * 360_000);
    let seconds = hundredths / 100;
    format!("{:02}h {:02}m {:02}.{:02}s", seconds / 3600, seconds / 60 % 60, seconds % 60, hundredths % 100)
}

/// Returns an angle in degrees, minutes and seconds.
fn degrees(angle: f64) -> String {
    let tenths = (angle.abs() * 36_000.0).round() as u64;
    let seconds = tenths / 10;
    let sign = if angle < 0.0 { '−' } else { '+' };
    format!("{sign}{:02}° {:02}′ {:02}.{}″", seconds / 3600, seconds / 60 % 60, seconds % 60, tenths % 10)
}

fn size(angle: f64) -> String {
    match angle.abs() {
        angle if angle >= 1.0 => format!("{angle:.2}°"),
        angle if angle >= 1.0 / 60.0 => format!("{:.2}′", angle * 60.0),
        angle => format!("{:.2}″", angle * 3600.0),
    }
}

/// Returns the field of an image with world coordinates, or else the position that the tree gives.
pub(super) fn html(
    container: &Arc<dyn Container>,
    path: Option<&str>,
    ra: Option<&str>,
    dec: Option<&str>,
) -> Result<String> {
    if let Some(path) = path {
        let footprints = container.clone().footprints()?;
        if let Some(footprint) = footprints.into_iter().find(|footprint| footprint.path == path) {
            return Ok(of_corners(footprint.corners).html());
        }
    }
    let (Some(ra), Some(dec)) = (ra, dec) else { return Ok(String::new()) };
    Ok(format!("<dl>\n<dt>Position</dt><dd>{}, {}</dd>\n</dl>\n", escape(ra), escape(dec)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_at_ra_0_has_a_centre_and_a_size() {
        let field = of_region("POLYGON ICRS 359.9 10 0.1 10 0.1 10.2 359.9 10.2").unwrap();
        assert!((field.ra % 360.0).min((360.0 - field.ra).abs()) < 1e-9 && (field.dec - 10.1).abs() < 1e-9);
        assert!(
            (field.height - 0.2).abs() < 1e-9
                && (field.width - 0.2 * 10.1_f64.to_radians().cos()).abs() < 1e-9
        );
        for region in ["", "POLYGON ICRS", "CIRCLE ICRS 1 2 3", "POLYGON ICRS a b c", "P 1 2 3 4 nan 6"] {
            assert_eq!(of_region(region), None, "{region}");
        }
    }

    #[test]
    fn corners_give_the_centre_and_the_size_of_the_image() {
        // astropy.wcs, with CD 0.001, 100 by 50 pixels: WCS(header).pixel_to_world_values([-0.5, -0.5, 99.5, 99.5],
        // [-0.5, 49.5, 49.5, -0.5]), and of (49.5, 24.5)
        let field = of_corners([
            [150.0, 2.0],
            [150.0, 2.049_999_987],
            [149.899_936_098, 2.049_996_864],
            [149.899_939_147, 1.999_996_953],
        ]);
        assert!((field.ra - 149.949_968).abs() < 1e-5 && (field.dec - 2.024_999).abs() < 1e-5, "{field:?}");
        assert!((field.width - 0.1).abs() < 1e-6 && (field.height - 0.05).abs() < 1e-6, "{field:?}");
        assert_eq!(hours(150.0), "10h 00m 00.00s");
        assert_eq!(degrees(-0.5), "−00° 30′ 00.0″");
        assert_eq!(hours(359.999_999_99), "00h 00m 00.00s");
    }
}
