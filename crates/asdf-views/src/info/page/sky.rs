//! The position and the size of the field on the sky.

use seekable::error::Result;

use seekable::content::read_exact_at;

use super::arrays::Views;
use super::html::escape;

/// Bytes of a FITS header that are read.
const HEADER: u64 = 28_800;

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

/// Returns the field that a FITS header describes.
fn of_header(header: &str) -> Option<FieldOnSky> {
    let number_of = |keyword: &str| header_number(header, keyword);
    let text = |keyword: &str| header_value(header, keyword);
    if !text("CTYPE1")?.contains("RA--") || !text("CTYPE2")?.contains("DEC-") {
        return None;
    }
    let scale = |axis: u8| {
        let cd = number_of(&format!("CD{axis}_1")).zip(number_of(&format!("CD{axis}_2")));
        let pc = || {
            let scale = number_of(&format!("CDELT{axis}"))?;
            let default = |other: u8| if other == axis { 1.0 } else { 0.0 };
            let part = |other: u8| number_of(&format!("PC{axis}_{other}")).unwrap_or(default(other));
            Some((scale * part(1), scale * part(2)))
        };
        cd.or_else(pc)
    };
    let (a, b) = scale(1)?;
    let (c, d) = scale(2)?;
    let across = number_of("NAXIS1")?;
    let up = number_of("NAXIS2")?;
    let x = (across + 1.0) / 2.0 - number_of("CRPIX1")?;
    let y = (up + 1.0) / 2.0 - number_of("CRPIX2")?;
    // The centre on the tangent plane, in radians, and from there on the sky.
    let xi = (a * x + b * y).to_radians();
    let eta = (c * x + d * y).to_radians();
    let ra0 = number_of("CRVAL1")?.to_radians();
    let dec0 = number_of("CRVAL2")?.to_radians();
    let down = dec0.cos() - eta * dec0.sin();
    let ra = ra0 + xi.atan2(down);
    let dec = (dec0.sin() + eta * dec0.cos()).atan2((xi * xi + down * down).sqrt());
    let field = FieldOnSky {
        ra: ra.to_degrees().rem_euclid(360.0),
        dec: dec.to_degrees(),
        width: across * (a * a + c * c).sqrt(),
        height: up * (b * b + d * d).sqrt(),
        origin: "the world coordinates of the image",
    };
    [field.ra, field.dec, field.width, field.height].iter().all(|number| number.is_finite()).then_some(field)
}

fn header_value(header: &str, keyword: &str) -> Option<String> {
    let card = header
        .as_bytes()
        .chunks_exact(80)
        .filter_map(|card| std::str::from_utf8(card).ok())
        .find(|card| card.get(..8).is_some_and(|name| name.trim_end() == keyword))?;
    Some(card.get(10..)?.split('/').next()?.trim().trim_matches('\'').trim().to_owned())
}

fn header_number(header: &str, keyword: &str) -> Option<f64> {
    header_value(header, keyword)?.parse().ok()
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

/// Returns the field of an array with world coordinates, or else the position that the tree gives.
pub(super) fn html(views: &Views, path: Option<&str>, ra: Option<&str>, dec: Option<&str>) -> Result<String> {
    if let Some(path) = path
        && let Some(content) = views.content("fits", &format!("{path}.fits"))?
    {
        let mut header = vec![0; usize::try_from(content.len().min(HEADER)).unwrap_or_default()];
        read_exact_at(&*content, 0, &mut header)?;
        let header: String = header.iter().map(|byte| char::from(*byte & 0x7f)).collect();
        if let Some(field) = of_header(&header) {
            return Ok(field.html());
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
    fn a_header_gives_the_centre_of_the_image() {
        let cards = [
            ("NAXIS1", "100"),
            ("NAXIS2", "50"),
            ("CTYPE1", "'RA---TAN-SIP'"),
            ("CTYPE2", "'DEC--TAN-SIP' / a comment"),
            ("CRPIX1", "0.5"),
            ("CRPIX2", "0.5"),
            ("CRVAL1", "150.0"),
            ("CRVAL2", "2.0"),
            ("CD1_1", "-0.001"),
            ("CD1_2", "0"),
            ("CD2_1", "0"),
            ("CD2_2", "0.001"),
        ];
        let header: String = cards
            .iter()
            .map(|(keyword, value)| format!("{:<80}", format!("{keyword:<8}= {value}")))
            .collect();
        let field = of_header(&header).unwrap();
        // astropy.wcs: WCS(header).pixel_to_world_values(49.5, 24.5)
        assert!((field.ra - 149.949_968).abs() < 1e-5 && (field.dec - 2.024_999).abs() < 1e-5, "{field:?}");
        assert!((field.width - 0.1).abs() < 1e-9 && (field.height - 0.05).abs() < 1e-9);
        assert_eq!(of_header(&header.replace("RA---", "HPLN-")), None);
        assert_eq!(hours(150.0), "10h 00m 00.00s");
        assert_eq!(degrees(-0.5), "−00° 30′ 00.0″");
        assert_eq!(hours(359.999_999_99), "00h 00m 00.00s");
    }
}
