//! The part of the sky that an image covers.

use std::ops::RangeInclusive;
use std::sync::Arc;

use seekable::error::Result;

use super::Container;
use super::healpix::{self, Direction, Region, angle};

/// Number of points on each side of the border. It is even.
const POINTS: usize = 16;
/// Maximum distance of the border from the middle of the image, as cosine: 80 degrees.
const MIN_COSINE: f64 = 0.17;

/// The part of the sky that an image covers, as the catalogue describes it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Footprint {
    /// The path of the image, as in `arrays/`.
    pub path: String,
    /// Right ascension and declination in ICRS of the corners of the image, in degrees: those of its first and last
    /// row at its first column, then those at its last column, backwards.
    pub corners: [[f64; 2]; 4],
    /// First and last cell of each range of HEALPix cells of order 10, nested, that the image touches.
    pub healpix: Vec<[u64; 2]>,
    #[serde(skip)]
    border: Border,
}

/// A circle on the sky with the directions within it: a single direction if its radius is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cone {
    middle: Direction,
    /// In radians.
    radius: f64,
}

impl Cone {
    /// Creates a cone from the right ascension and the declination in ICRS of its middle, and its radius, in degrees.
    pub fn new(ra: f64, dec: f64, radius: f64) -> Self {
        Self { middle: direction(ra, dec), radius: radius.to_radians() }
    }

    /// True if an image of a file touches the cone. Reads no pixel.
    ///
    /// # Errors
    /// The tree can't be read.
    pub fn is_in(&self, container: &Arc<dyn Container>) -> Result<bool> {
        let footprints = container.clone().footprints()?;
        Ok(footprints.iter().any(|footprint| footprint.touches(self)))
    }
}

impl Footprint {
    /// Describes an image by the directions of its pixels in ICRS. `rectangle` holds the intervals of x and y.
    /// `None` if a pixel on its border has no direction, or if it covers almost half of the sky.
    pub fn of_image(
        path: String,
        rectangle: [[f64; 2]; 2],
        sky: &dyn Fn([f64; 2]) -> Option<Direction>,
    ) -> Option<Self> {
        let [[left, right], [low, high]] = rectangle;
        let pixel_corners = [[left, low], [left, high], [right, high], [right, low]];
        let mut points = Vec::with_capacity(4 * POINTS);
        for (n, from) in pixel_corners.iter().enumerate() {
            let to = pixel_corners[(n + 1) % 4];
            for step in 0..POINTS {
                let part = step as f64 / POINTS as f64;
                points.push(sky([from[0] + part * (to[0] - from[0]), from[1] + part * (to[1] - from[1])])?);
            }
        }
        let middle = sky([f64::midpoint(left, right), f64::midpoint(low, high)])?;
        let border = Border::new(middle, points)?;
        let ranges = healpix::cells(&border);
        let corners = [0, 1, 2, 3].map(|n| degrees(border.points[n * POINTS]));
        let ends = |range: &RangeInclusive<u64>| [*range.start(), *range.end()];
        Some(Self { path, corners, healpix: ranges.iter().map(ends).collect(), border })
    }

    /// True if the image has a direction of the cone. Between the points of its border, of which each side has 16, the
    /// border is taken for straight.
    pub fn touches(&self, cone: &Cone) -> bool {
        let reaches = |[from, to]: [Direction; 2]| distance(cone.middle, from, to) <= cone.radius;
        self.border.contains(cone.middle) || self.border.sides().any(reaches)
    }
}

/// The border of an image: a polygon on the sky around the middle of the image.
#[derive(Clone, Debug, PartialEq)]
struct Border {
    middle: Direction,
    points: Vec<Direction>,
    /// The largest distance of a point from the middle, in radians.
    radius: f64,
    /// How far the border may be from the polygon, in radians.
    bend: f64,
}

impl Border {
    fn new(middle: Direction, points: Vec<Direction>) -> Option<Self> {
        let is_near = |point: &Direction| dot(*point, middle) > MIN_COSINE;
        if !points.iter().all(is_near) {
            return None;
        }
        let radius = points.iter().map(|point| angle(*point, middle)).fold(0.0, f64::max);
        // The bend of the border between every other point is at least that between all points.
        let mut bend = 0.0_f64;
        for n in (0..points.len()).step_by(2) {
            let end = points[(n + 2) % points.len()];
            bend = bend.max(distance(points[n + 1], points[n], end));
        }
        Some(Self { middle, points, radius, bend })
    }

    fn sides(&self) -> impl Iterator<Item = [Direction; 2]> {
        let ends = self.points.iter().cycle().skip(1);
        self.points.iter().zip(ends).map(|(from, to)| [*from, *to])
    }
}

impl Region for Border {
    fn is_border_beyond(&self, direction: Direction, reach: f64) -> bool {
        let reach = reach + self.bend;
        angle(direction, self.middle) > self.radius + reach
            || self.sides().all(|[from, to]| distance(direction, from, to) > reach)
    }

    /// In the plane that touches the sky in the middle, great circles are straight.
    fn contains(&self, direction: Direction) -> bool {
        if dot(direction, self.middle) <= MIN_COSINE {
            return false;
        }
        let axis = if self.middle[2].abs() < 0.7 { [0.0, 0.0, 1.0] } else { [1.0, 0.0, 0.0] };
        let east = cross(axis, self.middle);
        let north = cross(self.middle, east);
        let plane = |point: Direction| {
            let height = dot(point, self.middle);
            [dot(point, east) / height, dot(point, north) / height]
        };
        let [x, y] = plane(direction);
        let mut is_inside = false;
        for [from, to] in self.sides() {
            let [x0, y0] = plane(from);
            let [x1, y1] = plane(to);
            if (y0 > y) != (y1 > y) && x < x0 + (y - y0) / (y1 - y0) * (x1 - x0) {
                is_inside = !is_inside;
            }
        }
        is_inside
    }
}

/// Returns the distance of a direction from an arc of a great circle, in radians.
fn distance(direction: Direction, from: Direction, to: Direction) -> f64 {
    let pole = cross(from, to);
    let length = dot(pole, pole).sqrt();
    let is_beside = dot(cross(pole, from), direction) > 0.0 && dot(cross(to, pole), direction) > 0.0;
    if is_beside {
        (dot(pole, direction) / length).abs().min(1.0).asin()
    } else {
        angle(direction, from).min(angle(direction, to))
    }
}

fn dot(one: Direction, other: Direction) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn cross([a, b, c]: Direction, [x, y, z]: Direction) -> Direction {
    [b * z - c * y, c * x - a * z, a * y - b * x]
}

/// Returns the direction of a longitude and a latitude in degrees.
fn direction(longitude: f64, latitude: f64) -> Direction {
    let (sin, cos) = longitude.to_radians().sin_cos();
    let (z, height) = latitude.to_radians().sin_cos();
    [height * cos, height * sin, z]
}

/// Returns right ascension (0 to 360) and declination.
fn degrees([x, y, z]: Direction) -> [f64; 2] {
    let turned = y.atan2(x).to_degrees().rem_euclid(360.0);
    let height = (x * x + y * y).sqrt();
    // A tiny negative angle is rounded to 360.
    [if turned < 360.0 { turned } else { 0.0 }, z.atan2(height).to_degrees()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_around_a_pole_contains_it() {
        // The plane that touches the sky there, 0.001 radians from its middle to a side.
        let sky = |[x, y]: [f64; 2]| {
            let length = (x * x + y * y + 1.0).sqrt();
            Some([x / length, y / length, -1.0 / length])
        };
        let footprint = Footprint::of_image("a".to_owned(), [[-1e-3, 1e-3]; 2], &sky).unwrap();
        assert!((footprint.corners[0][0] - 225.0).abs() < 1e-9 && footprint.corners[2][1] < -89.9);
        let count: u64 = footprint.healpix.iter().map(|[first, last]| last - first + 1).sum();
        let touches = |ra, dec, radius| footprint.touches(&Cone::new(ra, dec, radius));
        assert!(touches(0.0, -90.0, 0.0) && touches(123.0, -89.95, 0.0) && !touches(0.0, 90.0, 9.0));
        // Its sides are 0.0573 degrees from the pole, its corners 0.081.
        assert!(!touches(0.0, -89.9, 0.0) && touches(0.0, -89.9, 0.05) && !touches(0.0, -89.9, 0.04));
        // It has the area of four cells.
        assert!((4..=16).contains(&count), "{footprint:?}");
        // The cells at the southern pole.
        for face in 8..12_u64 {
            let pole = face << 20;
            assert!(footprint.healpix.iter().any(|[first, last]| (*first..=*last).contains(&pole)));
        }
    }

    #[test]
    fn a_cone_beside_right_ascension_0_touches_an_image_across_it() {
        let sky = |[x, y]: [f64; 2]| Some(direction(359.99 + x / 100.0, 10.0 + y / 100.0));
        let footprint = Footprint::of_image("a".to_owned(), [[-0.5, 3.5]; 2], &sky).unwrap();
        let touches = |ra, radius| footprint.touches(&Cone::new(ra, 10.01, radius));
        for ra in [359.99, -0.01, 0.0, 360.0, 0.02] {
            assert!(touches(ra, 0.0), "{ra}");
        }
        assert!(
            !touches(0.03, 0.0) && touches(0.03, 0.006) && !touches(359.98, 0.0) && touches(359.98, 0.006)
        );
        assert!(!touches(180.0, 90.0) && touches(180.0, 179.0));
    }

    #[test]
    fn a_side_that_is_bent_is_covered() {
        // A band along a parallel of latitude: the great circle between its corners is 4 degrees away from it.
        let sky = |[x, y]: [f64; 2]| Some(direction(x, 60.0 + y));
        let footprint = Footprint::of_image("a".to_owned(), [[-20.0, 20.0], [-0.5, 0.5]], &sky).unwrap();
        let count: u64 = footprint.healpix.iter().map(|[first, last]| last - first + 1).sum();
        let area = 40.0 * 0.5 * 41_252.96 / 360.0 / 180.0 * std::f64::consts::FRAC_PI_2;
        let exact = (area / (41_252.96 / f64::from(12 << 20))) as u64;
        assert!((exact..exact * 3 / 2).contains(&count), "{count} {exact}");
    }

    #[test]
    fn images_without_a_border_on_the_sky_have_none() {
        let half = |[x, _]: [f64; 2]| (x < 1.0).then(|| direction(0.0, 0.0));
        assert!(Footprint::of_image(String::new(), [[0.0, 2.0]; 2], &half).is_none());
        let all = |[x, y]: [f64; 2]| Some(direction(x, y));
        assert!(Footprint::of_image(String::new(), [[-170.0, 170.0], [-89.0, 89.0]], &all).is_none());
    }
}
