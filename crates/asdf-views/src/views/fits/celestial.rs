//! Pixels on the sky by the cards of a header, in both directions.

use super::card::Cards;
use super::frames::ReferenceSystem;
use super::projection::{Deprojection, Zenithal};
use super::rotation::{Matrix, inverse, rotated};
use super::sip::{inverse_of, linear};
use super::unit::Unit;
use super::wcs::{direction, to_icrs};

/// Maximum number of axes, and degree of a polynomial of SIP.
const MAX_AXES: usize = 9;
const MAX_DEGREE: i32 = 9;
/// Maximum number of steps to the pixel of a direction, and the length of the last step in pixels.
const MAX_STEPS: usize = 100;
const LAST_STEP: f64 = 1e-9;
/// Maximum distance in pixels of the way there and back.
const MAX_ERROR: f64 = 1e-4;
/// Starts of the keywords of distortions that are tables in other extensions.
const TABLES: [&str; 4] = ["CPDIS", "CQDIS", "D2IM", "DQ"];

/// The world coordinates of an image on the sky.
#[derive(Debug)]
pub(super) struct Celestial {
    /// The numbers, from 0, of the two pixel axes on the sky.
    pub(super) axes: [usize; 2],
    /// The reference pixel, counted from 0.
    reference: [f64; 2],
    /// From pixels to the plane of the projection in degrees, row-major, and back.
    matrix: [f64; 4],
    inverse: [f64; 4],
    /// The polynomials `A` and `B`: exponents and coefficients.
    distortion: [Vec<([i32; 2], f64)>; 2],
    deprojection: Deprojection,
    to_icrs: Matrix,
}

impl Celestial {
    /// Reads the world coordinates of a header; `None` if they do not lead to the sky.
    ///
    /// # Errors
    /// The reason why they can't be evaluated.
    pub(super) fn of(cards: &Cards) -> Result<Option<Self>, String> {
        let kinds: Vec<String> =
            (1..=MAX_AXES).map(|n| cards.text(&format!("CTYPE{n}")).unwrap_or_default()).collect();
        let place = |name: &str| kinds.iter().position(|kind| kind.starts_with(name));
        let (longitude, latitude, is_galactic) =
            match (place("RA--"), place("DEC-"), place("GLON"), place("GLAT")) {
                (Some(longitude), Some(latitude), ..) => (longitude, latitude, false),
                (_, _, Some(longitude), Some(latitude)) => (longitude, latitude, true),
                _ => return Ok(None),
            };
        let kind = &kinds[longitude];
        let has = |start: &str| cards.keywords().any(|keyword| keyword.starts_with(start));
        if TABLES.iter().any(|start| has(start)) {
            return Err("its distortion is a table".to_owned());
        }
        if let Some(kind) = kinds.iter().find(|kind| kind.ends_with("-TAB")) {
            return Err(format!("its coordinate {kind} is a table"));
        }
        let is_set = |keyword: &str| {
            [longitude, latitude].iter().any(|n| keyword.starts_with(&format!("PV{}_", n + 1)))
                && cards.number(keyword) != Some(0.0)
        };
        let zenithal = kind.get(5..8).and_then(Zenithal::of_code).filter(|_| !cards.keywords().any(is_set));
        let zenithal =
            zenithal.ok_or_else(|| format!("its projection ({kind}) is not known, or has parameters"))?;
        let system = if is_galactic { Some(ReferenceSystem::Galactic) } else { equatorial(cards) };
        let to_icrs = system.and_then(|system| to_icrs(&system));
        let to_icrs = to_icrs.ok_or("its reference system is neither ICRS nor FK5 of J2000")?;
        let plane = Plane::read(cards, [longitude, latitude])?;
        let pole = [longitude, latitude].map(|n| cards.number(&format!("CRVAL{}", n + 1)).unwrap_or(0.0));
        let pole = [pole[0] * plane.units[0], pole[1] * plane.units[1]];
        let native = cards.number("LONPOLE").unwrap_or(if pole[1] >= 90.0 { 0.0 } else { 180.0 });
        let is_on_sphere = pole[0].is_finite() && pole[1].abs() <= 90.0 && native.is_finite();
        let deprojection = is_on_sphere.then(|| Deprojection::new(zenithal, pole, native)).flatten();
        let deprojection = deprojection.ok_or("its reference point is not on the sky")?;
        let distortion = ["A_", "B_"].map(|name| polynomial(cards, name));
        if plane.axes != [0, 1] && distortion.iter().any(|polynomial| !polynomial.is_empty()) {
            return Err("its distortion is not one of the axes on the sky".to_owned());
        }
        let reference = plane.axes.map(|n| cards.number(&format!("CRPIX{}", n + 1)).unwrap_or(0.0) - 1.0);
        let inverse = inverse_of(plane.matrix).ok_or("its matrix is singular")?;
        let Plane { axes, matrix, .. } = plane;
        Ok(Some(Self { axes, reference, matrix, inverse, distortion, deprojection, to_icrs }))
    }

    /// Returns the direction in ICRS of a pixel, counted from 0.
    pub(super) fn direction(&self, pixel: [f64; 2]) -> Option<[f64; 3]> {
        let offset = [pixel[0] - self.reference[0], pixel[1] - self.reference[1]];
        let [f, g] = self.distorted(offset);
        let sky = self.deprojection.sky(linear(self.matrix, [offset[0] + f, offset[1] + g]))?;
        direction(self.to_icrs, sky)
    }

    /// Returns the pixel of a direction in ICRS; `None` if there is none.
    pub(super) fn pixel(&self, wanted: [f64; 3]) -> Option<[f64; 2]> {
        let plane = self.deprojection.plane(rotated(&inverse(&self.to_icrs), wanted))?;
        let undistorted = linear(self.inverse, plane);
        let mut offset = undistorted;
        for _ in 0..MAX_STEPS {
            let [f, g] = self.distorted(offset);
            let next = [undistorted[0] - f, undistorted[1] - g];
            let step = (next[0] - offset[0]).abs().max((next[1] - offset[1]).abs());
            offset = next;
            if step <= LAST_STEP {
                break;
            }
        }
        let pixel = [offset[0] + self.reference[0], offset[1] + self.reference[1]];
        // A direction on the other side of the sky, or beyond the reach of the distortion, has no pixel.
        let found = self.direction(pixel)?;
        let squares = found.iter().zip(wanted).map(|(one, other)| (one - other).powi(2));
        let [x, y] = self.scales();
        (squares.sum::<f64>().sqrt().to_degrees() <= MAX_ERROR * x.min(y).max(1e-9)).then_some(pixel)
    }

    /// Returns the sizes of a pixel in degrees, at the reference pixel.
    pub(super) fn scales(&self) -> [f64; 2] {
        let [a, b, c, d] = self.matrix;
        [(a * a + c * c).sqrt(), (b * b + d * d).sqrt()]
    }

    /// Returns both polynomials at an offset from the reference pixel.
    fn distorted(&self, [u, v]: [f64; 2]) -> [f64; 2] {
        let sum =
            |terms: &Vec<([i32; 2], f64)>| terms.iter().map(|([p, q], k)| k * u.powi(*p) * v.powi(*q)).sum();
        [sum(&self.distortion[0]), sum(&self.distortion[1])]
    }
}

/// Returns the reference system of equatorial coordinates.
fn equatorial(cards: &Cards) -> Option<ReferenceSystem> {
    let equinox = cards.number("EQUINOX");
    match cards.text("RADESYS").or_else(|| cards.text("RADECSYS")).as_deref() {
        Some("ICRS") => Some(ReferenceSystem::Icrs),
        Some("FK5") => Some(ReferenceSystem::Fk5(equinox.unwrap_or(2000.0))),
        Some("") | None => match equinox {
            None => Some(ReferenceSystem::Icrs),
            // Before 1984, it is FK4 (FITS 4.0, section 8.3).
            Some(equinox) => (equinox >= 1984.0).then_some(ReferenceSystem::Fk5(equinox)),
        },
        Some(_) => None,
    }
}

/// Reads a polynomial of SIP, whose keywords begin with `name`.
fn polynomial(cards: &Cards, name: &str) -> Vec<([i32; 2], f64)> {
    let exponent = |text: &str| text.parse().ok().filter(|exponent| (0..=MAX_DEGREE).contains(exponent));
    let term = |keyword: &str| {
        let (p, q) = keyword.strip_prefix(name)?.split_once('_')?;
        Some(([exponent(p)?, exponent(q)?], cards.number(keyword)?))
    };
    cards.keywords().filter_map(term).collect()
}

/// The linear part of world coordinates: from pixels to the plane of the projection.
struct Plane {
    axes: [usize; 2],
    /// In degrees, row-major.
    matrix: [f64; 4],
    /// The units of longitude and latitude in degrees.
    units: [f64; 2],
}

impl Plane {
    /// Reads the rows of the world coordinates with these numbers, from 0.
    fn read(cards: &Cards, rows: [usize; 2]) -> Result<Self, String> {
        let number = |keyword: String| cards.number(&keyword);
        let has_cd = cards.keywords().any(|keyword| keyword.starts_with("CD") && keyword.contains('_'));
        let scale = |n: usize| number(format!("CDELT{}", n + 1)).unwrap_or(1.0);
        let rotation = number(format!("CROTA{}", rows[1] + 1)).filter(|angle| *angle != 0.0);
        let element = |i: usize, j: usize| {
            let usual = if i == j { 1.0 } else { 0.0 };
            if has_cd {
                return number(format!("CD{}_{}", i + 1, j + 1)).unwrap_or(0.0);
            }
            // Before PC, the latitude had an angle (Calabretta and Greisen 2002, section 6.1).
            match rotation.map(|angle| angle.to_radians().sin_cos()) {
                Some((_, cos)) if i == j => scale(i) * cos,
                Some((sin, _)) if [i, j] == rows => -scale(j) * sin,
                Some((sin, _)) if [j, i] == rows => scale(j) * sin,
                Some(_) => 0.0,
                None => scale(i) * number(format!("PC{}_{}", i + 1, j + 1)).unwrap_or(usual),
            }
        };
        let used: Vec<usize> =
            (0..MAX_AXES).filter(|j| rows.iter().any(|i| element(*i, *j) != 0.0)).collect();
        let [x, y] = used[..] else { return Err("its sky does not lie on two pixel axes".to_owned()) };
        let unit = |n: usize| {
            let name = cards.text(&format!("CUNIT{}", n + 1)).filter(|name| !name.is_empty());
            let unit = name.map_or(Some(Unit::DEGREE), |name| Unit::parse(&name))?;
            unit.in_units_of(Unit::DEGREE)
        };
        let [longitude, latitude] = rows;
        let units = unit(longitude).zip(unit(latitude)).ok_or("its units are not angles")?;
        let units = [units.0, units.1];
        let row = |i: usize, unit: f64| [element(i, x) * unit, element(i, y) * unit];
        let [a, b] = row(longitude, units[0]);
        let [c, d] = row(latitude, units[1]);
        Ok(Self { axes: [x, y], matrix: [a, b, c, d], units })
    }
}

#[cfg(test)]
mod tests {
    use super::super::card::Value;
    use super::super::rotation::to_spherical;
    use super::*;

    fn cards(kinds: [&str; 2], numbers: &[(&str, f64)]) -> Cards {
        let mut cards = Cards::default();
        for (n, kind) in (1..).zip(kinds) {
            cards.set(&format!("CTYPE{n}"), Value::Text(kind), "");
        }
        for (keyword, number) in numbers {
            cards.set(keyword, Value::Float(*number), "");
        }
        cards
    }

    const TAN: [&str; 2] = ["RA---TAN", "DEC--TAN"];
    const SIMPLE: [(&str, f64); 6] = [
        ("CRPIX1", 1.0),
        ("CRPIX2", 1.0),
        ("CRVAL1", 10.0),
        ("CRVAL2", 20.0),
        ("CDELT1", -1e-3),
        ("CDELT2", 2e-3),
    ];

    /// Expected numbers are those of `astropy.wcs.WCS(header).all_pix2world(100, 50, 0)`.
    #[test]
    fn pixels_have_the_directions_of_astropy_and_back() {
        let pole = [("CRVAL2", 90.0)];
        for (others, wanted) in [
            (&[("CROTA2", 30.0)][..], [9.854_597_116_312_883, 20.036_543_148_414_825]),
            (&pole, [55.0, 89.858_578_930_957_7]),
        ] {
            let mut all = SIMPLE.to_vec();
            all.retain(|(keyword, _)| others.iter().all(|(other, _)| other != keyword));
            let celestial = Celestial::of(&cards(TAN, &[&all[..], others].concat())).unwrap().unwrap();
            let found = celestial.direction([100.0, 50.0]).unwrap();
            let [ra, dec] = to_spherical(found);
            assert!((ra - wanted[0]).abs() < 1e-9 && (dec - wanted[1]).abs() < 1e-9, "{ra} {dec}");
            let [x, y] = celestial.pixel(found).unwrap();
            assert!((x - 100.0).abs() < 1e-6 && (y - 50.0).abs() < 1e-6, "{x} {y}");
            // The other side of the sky.
            assert_eq!(celestial.pixel(found.map(|length| -length)), None);
        }
    }

    #[test]
    fn a_direction_beyond_the_reach_of_a_distortion_has_no_pixel() {
        let distortion = [("A_2_0", 1e-3), ("B_0_2", -1e-3)];
        let celestial = Celestial::of(&cards(TAN, &[&SIMPLE[..], &distortion].concat())).unwrap().unwrap();
        let there = celestial.direction([60.0, -70.0]).unwrap();
        let [x, y] = celestial.pixel(there).unwrap();
        assert!((x - 60.0).abs() < 1e-6 && (y + 70.0).abs() < 1e-6, "{x} {y}");
        // No pixel leads to more than 250 undistorted pixels below the reference pixel.
        let plain = Celestial::of(&cards(TAN, &SIMPLE)).unwrap().unwrap();
        assert_eq!(celestial.pixel(plain.direction([-400.0, 0.0]).unwrap()), None);
    }

    #[test]
    fn coordinates_that_are_not_evaluated_have_a_reason() {
        let reason =
            |kinds, others: &[(&str, f64)]| Celestial::of(&cards(kinds, &[&SIMPLE[..], others].concat()));
        assert!(reason(["HPLN-TAN", "HPLT-TAN"], &[]).unwrap().is_none());
        assert!(reason(["RA---TAN", "WAVE"], &[]).unwrap().is_none());
        for (kinds, others, why) in [
            (["RA---CAR", "DEC--CAR"], &[][..], "its projection (RA---CAR) is not known"),
            (TAN, &[("PV2_1", 1.0)], "has parameters"),
            (TAN, &[("CPDIS1", 1.0)], "its distortion is a table"),
            (TAN, &[("EQUINOX", 1950.0)], "neither ICRS nor FK5"),
            (TAN, &[("CD1_1", 1.0), ("CD2_2", 0.0)], "two pixel axes"),
            (TAN, &[("CD1_1", 1.0), ("CD1_2", 1.0), ("CD2_1", 1.0), ("CD2_2", 1.0)], "singular"),
            (TAN, &[("LONPOLE", 180.0), ("PC1_3", 1.0)], "two pixel axes"),
        ] {
            let found = reason(kinds, others).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
    }
}
