//! Fits a transform from pixels to the sky by TAN-SIP: a gnomonic projection whose plane is distorted by
//! polynomials of the pixels (Shupe et al. 2005).
//!
//! The reference pixel is the centre of the fitted rectangle. The linear terms of the polynomials are the
//! matrix `CD`, the others divided by `CD` are `A` and `B`. The polynomials of the way back, `AP` and `BP`, are
//! approximations that readers use as a start or as the result.

use std::fmt::Write;

use super::card::{Cards, Value as Card};

/// Maximum deviation of the fit from the transform, in pixels.
const MAX_ERROR: f64 = 1e-3;
/// Maximum deviation of the way back, in pixels.
const MAX_INVERSE_ERROR: f64 = 0.5;
/// Maximum degree: that of the SIP convention.
const MAX_DEGREE: usize = 9;
/// Number of points in each direction that are fitted, and at which the fit is compared with the transform.
const FITTED: usize = 24;
const COMPARED: usize = 64;
/// Maximum distance of a point from the reference point, as cosine: 80 degrees.
const MIN_COSINE: f64 = 0.17;

/// A rectangle of pixels, counted from 0: the intervals of x and y.
pub(super) type Rectangle = [[f64; 2]; 2];

/// The result of a fit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sip {
    /// The reference pixel, counted from 0, and its sky coordinates in degrees.
    pub(super) reference: [f64; 2],
    sky: [f64; 2],
    /// Row-major.
    cd: [f64; 4],
    degree: usize,
    /// The polynomials `A` and `B`.
    forward: [Vec<f64>; 2],
    /// Largest deviation in pixels.
    error: f64,
    inverse: Option<Inverse>,
}

/// The way back: the polynomials `AP` and `BP`.
#[derive(Clone, Debug, PartialEq)]
struct Inverse {
    degree: usize,
    polynomials: [Vec<f64>; 2],
    error: f64,
}

/// A pixel relative to the reference pixel, and its place in the plane.
#[derive(Clone, Copy, Debug)]
struct Sample {
    pixel: [f64; 2],
    plane: [f64; 2],
}

/// Fits `transform` on a rectangle, with the lowest degree that suffices.
///
/// # Errors
/// The reason why there is no fit.
pub(super) fn fit(
    transform: &dyn Fn([f64; 2]) -> Option<[f64; 2]>,
    rectangle: Rectangle,
) -> Result<Sip, String> {
    let reference = rectangle.map(|[from, to]| f64::midpoint(from, to));
    let half = rectangle.map(|[from, to]| (to - from) / 2.0);
    if !half.iter().all(|half| half.is_finite() && *half > 0.0) {
        return Err("its bounding box is empty".to_owned());
    }
    let outside = || "it has no sky coordinates at some pixels of its bounding box".to_owned();
    let sky = transform(reference).ok_or_else(outside)?;
    if sky[1].abs() > 90.0 {
        return Err("it leads to latitudes beyond 90 degrees".to_owned());
    }
    let turned = sky[0].rem_euclid(360.0);
    // A tiny negative angle is rounded to 360.
    let sky = [if turned < 360.0 { turned } else { 0.0 }, sky[1]];
    let sample_at = |x: f64, y: f64| {
        let pixel = [x * half[0], y * half[1]];
        let plane = tangent_plane(transform([reference[0] + pixel[0], reference[1] + pixel[1]])?, sky)?;
        Some(Sample { pixel, plane })
    };
    // Nodes that are denser at the borders make the largest deviation almost as small as possible.
    let nodes = |n: usize| -((n as f64 + 0.5) * std::f64::consts::PI / FITTED as f64).cos();
    let fitted = grid(FITTED, &nodes, &sample_at).ok_or_else(outside)?;
    let even = |n: usize| 2.0 * n as f64 / (COMPARED - 1) as f64 - 1.0;
    let compared = grid(COMPARED, &even, &sample_at).ok_or_else(outside)?;
    let mut least = f64::INFINITY;
    for degree in 1..=MAX_DEGREE {
        let planes = |axis: usize| fitted.iter().map(|sample| sample.plane[axis]).collect();
        let pixels: Vec<[f64; 2]> = fitted.iter().map(|sample| sample.pixel).collect();
        let Some([xi, eta]) = least_squares(&pixels, half, degree, [planes(0), planes(1)]) else { break };
        let Some(mut sip) = Sip::new(reference, sky, degree, &xi, &eta) else { continue };
        let inverse = inverse_of(sip.cd).ok_or("its matrix is singular")?;
        sip.error = largest(&compared, |sample| {
            let wanted = linear(inverse, sample.plane);
            let found = distance_terms(sample.pixel, &sip.forward, degree);
            Some([sample.pixel[0] + found[0] - wanted[0], sample.pixel[1] + found[1] - wanted[1]])
        });
        least = least.min(sip.error);
        if sip.error <= MAX_ERROR {
            sip.inverse = Inverse::fit(&fitted, &compared, inverse);
            return Ok(sip);
        }
    }
    Err(format!("polynomials of degree {MAX_DEGREE} deviate from it by up to {least:.3} pixels"))
}

/// Returns samples on a grid of `count` by `count` positions; `None` if one of them has none.
fn grid(
    count: usize,
    position: &dyn Fn(usize) -> f64,
    sample: &dyn Fn(f64, f64) -> Option<Sample>,
) -> Option<Vec<Sample>> {
    let mut samples = Vec::with_capacity(count * count);
    for row in 0..count {
        for column in 0..count {
            samples.push(sample(position(column), position(row))?);
        }
    }
    Some(samples)
}

/// Returns the gnomonic projection of a point on the sky, in degrees; `None` if it is too far away from the
/// centre.
fn tangent_plane([longitude, latitude]: [f64; 2], centre: [f64; 2]) -> Option<[f64; 2]> {
    let (sin, cos) = latitude.to_radians().sin_cos();
    let (sin_of_centre, cos_of_centre) = centre[1].to_radians().sin_cos();
    let (sin_of_turn, cos_of_turn) = (longitude - centre[0]).to_radians().sin_cos();
    let distance = sin * sin_of_centre + cos * cos_of_centre * cos_of_turn;
    let xi = cos * sin_of_turn / distance;
    let eta = (sin * cos_of_centre - cos * sin_of_centre * cos_of_turn) / distance;
    (distance > MIN_COSINE).then(|| [xi.to_degrees(), eta.to_degrees()])
}

pub(super) fn linear([a, b, c, d]: [f64; 4], [x, y]: [f64; 2]) -> [f64; 2] {
    [a * x + b * y, c * x + d * y]
}

pub(super) fn inverse_of([a, b, c, d]: [f64; 4]) -> Option<[f64; 4]> {
    let determinant = a * d - b * c;
    let inverse = [d / determinant, -b / determinant, -c / determinant, a / determinant];
    inverse.iter().all(|value| value.is_finite()).then_some(inverse)
}

/// The exponents of the terms of a polynomial: those of degree 1, then of degree 2, and so on.
fn exponents(degree: usize) -> impl Iterator<Item = [usize; 2]> {
    (1..=degree).flat_map(|sum| (0..=sum).map(move |q| [sum - q, q]))
}

/// Returns all terms of a polynomial at a point.
fn terms([x, y]: [f64; 2], degree: usize) -> impl Iterator<Item = f64> {
    exponents(degree).map(move |[p, q]| x.powi(p as i32) * y.powi(q as i32))
}

/// Returns both polynomials at a point.
fn distance_terms(point: [f64; 2], polynomials: &[Vec<f64>; 2], degree: usize) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for (n, term) in terms(point, degree).enumerate() {
        for (sum, polynomial) in sums.iter_mut().zip(polynomials) {
            *sum += term * polynomial.get(n).copied().unwrap_or_default();
        }
    }
    sums
}

/// Returns the largest of the deviations, in pixels.
fn largest(samples: &[Sample], deviation: impl Fn(&Sample) -> Option<[f64; 2]>) -> f64 {
    let mut largest = 0.0_f64;
    for sample in samples {
        let Some([x, y]) = deviation(sample) else { return f64::INFINITY };
        let length = (x * x + y * y).sqrt();
        if !length.is_finite() {
            return f64::INFINITY;
        }
        largest = largest.max(length);
    }
    largest
}

/// Fits polynomials without constant term to the values of two functions at points, by a QR decomposition with
/// Householder's reflections. `scale` is the extent of the points in each direction.
fn least_squares(
    points: &[[f64; 2]],
    scale: [f64; 2],
    degree: usize,
    mut values: [Vec<f64>; 2],
) -> Option<[Vec<f64>; 2]> {
    let count = exponents(degree).count();
    let rows = points.len();
    if rows < count {
        return None;
    }
    // Column by column.
    let mut matrix = vec![vec![0.0; rows]; count];
    for (row, point) in points.iter().enumerate() {
        let scaled = [point[0] / scale[0], point[1] / scale[1]];
        for (column, term) in matrix.iter_mut().zip(terms(scaled, degree)) {
            column[row] = term;
        }
    }
    let mut diagonal = vec![0.0; count];
    for k in 0..count {
        let (done, rest) = matrix.split_at_mut(k + 1);
        let reflector = done.last_mut()?;
        let length = reflector[k..].iter().map(|value| value * value).sum::<f64>().sqrt();
        let length = if reflector[k] > 0.0 { -length } else { length };
        if length == 0.0 || !length.is_finite() {
            return None;
        }
        diagonal[k] = length;
        reflector[k] -= length;
        let squares: f64 = reflector[k..].iter().map(|value| value * value).sum();
        for column in rest.iter_mut().chain(&mut values) {
            let product: f64 = reflector[k..].iter().zip(&column[k..]).map(|(one, other)| one * other).sum();
            let factor = 2.0 * product / squares;
            for (value, of_reflector) in column[k..].iter_mut().zip(&reflector[k..]) {
                *value -= factor * of_reflector;
            }
        }
    }
    let scales: Vec<f64> = terms(scale, degree).collect();
    let solved = values.map(|values| {
        let mut solution = vec![0.0; count];
        for k in (0..count).rev() {
            let known: f64 = (k + 1..count).map(|n| matrix[n][k] * solution[n]).sum();
            solution[k] = (values[k] - known) / diagonal[k];
        }
        solution.iter().zip(&scales).map(|(value, term_scale)| value / term_scale).collect()
    });
    Some(solved)
}

impl Sip {
    /// Makes the polynomials from those that lead to the plane; `None` if the matrix can't be inverted.
    fn new(reference: [f64; 2], sky: [f64; 2], degree: usize, xi: &[f64], eta: &[f64]) -> Option<Self> {
        let ([a, b, ..], [c, d, ..]) = (xi, eta) else { return None };
        let cd = [*a, *b, *c, *d];
        let inverse = inverse_of(cd)?;
        let mut forward = [vec![0.0; xi.len()], vec![0.0; xi.len()]];
        for n in 2..xi.len() {
            let [one, other] = linear(inverse, [xi[n], *eta.get(n)?]);
            forward[0][n] = one;
            forward[1][n] = other;
        }
        Some(Self { reference, sky, cd, degree, forward, error: 0.0, inverse: None })
    }

    /// True if the fit has no distortion.
    pub(super) fn is_linear(&self) -> bool {
        self.degree < 2
    }

    /// Adds the cards, from the reference pixel on. `latitude_first` is true if the latitude is the first coordinate.
    pub(super) fn describe(&self, cards: &mut Cards, latitude_first: bool) {
        let mut set =
            |keyword: &str, value: f64, comment: &str| cards.set(keyword, Card::Float(value), comment);
        let axes = if latitude_first { [1, 0] } else { [0, 1] };
        for (n, axis) in axes.into_iter().enumerate() {
            set(&format!("CRPIX{}", n + 1), self.reference[n] + 1.0, "pixel coordinate of reference point");
            set(&format!("CRVAL{}", n + 1), self.sky[axis], "[deg] coordinate of reference point");
        }
        for (n, axis) in axes.into_iter().enumerate() {
            for column in 0..2 {
                let value = self.cd[2 * axis + column];
                set(&format!("CD{}_{}", n + 1, column + 1), value, "coordinate transformation matrix");
            }
        }
        if self.is_linear() {
            set("SIPMXERR", self.error, "[pixel] largest deviation from the gwcs");
            return;
        }
        describe_polynomials(cards, ["A", "B"], self.degree, &self.forward);
        if let Some(Inverse { degree, polynomials, .. }) = &self.inverse {
            describe_polynomials(cards, ["AP", "BP"], *degree, polynomials);
        }
        let card = Card::Float(self.error);
        cards.set("SIPMXERR", card, "[pixel] largest deviation from the gwcs");
        if let Some(Inverse { error, .. }) = &self.inverse {
            cards.set("SIPIVERR", Card::Float(*error), "[pixel] largest deviation of AP and BP");
        }
    }
}

/// Adds the cards of two polynomials.
fn describe_polynomials(cards: &mut Cards, names: [&str; 2], degree: usize, polynomials: &[Vec<f64>; 2]) {
    for (name, polynomial) in names.iter().zip(polynomials) {
        cards.set(&format!("{name}_ORDER"), Card::Int(degree as i128), "degree of the polynomial");
        for ([p, q], value) in exponents(degree).zip(polynomial) {
            if *value != 0.0 {
                let mut keyword = String::new();
                let _ = write!(keyword, "{name}_{p}_{q}");
                cards.set(&keyword, Card::Float(*value), "");
            }
        }
    }
}

impl Inverse {
    /// Fits the way back: with the lowest degree that is as exact as the way there, or else with the best one.
    fn fit(fitted: &[Sample], compared: &[Sample], inverse: [f64; 4]) -> Option<Self> {
        let distorted: Vec<[f64; 2]> = fitted.iter().map(|sample| linear(inverse, sample.plane)).collect();
        let extent = |axis: usize| distorted.iter().map(|point| point[axis].abs()).fold(0.0, f64::max);
        let scale = [extent(0), extent(1)];
        let mut best: Option<Self> = None;
        for degree in 1..=MAX_DEGREE {
            let offsets = |axis: usize| {
                fitted.iter().zip(&distorted).map(|(sample, at)| sample.pixel[axis] - at[axis]).collect()
            };
            let polynomials = least_squares(&distorted, scale, degree, [offsets(0), offsets(1)])?;
            let error = largest(compared, |sample| {
                let at = linear(inverse, sample.plane);
                let found = distance_terms(at, &polynomials, degree);
                Some([at[0] + found[0] - sample.pixel[0], at[1] + found[1] - sample.pixel[1]])
            });
            if best.as_ref().is_none_or(|best| error < best.error) {
                best = Some(Self { degree, polynomials, error });
            }
            if error <= MAX_ERROR {
                break;
            }
        }
        best.filter(|best| best.error <= MAX_INVERSE_ERROR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transform of 0.11 arc seconds a pixel, with a distortion of `strength`.
    fn distorted(strength: f64) -> impl Fn([f64; 2]) -> Option<[f64; 2]> {
        move |[x, y]| {
            let u = (x - 2000.0) / 2000.0;
            let v = (y - 2000.0) / 2000.0;
            let x = u + strength * (u * v + 0.3 * v * v + 0.1 * u * u * v);
            let y = v - strength * (0.5 * u * u - 0.2 * v * v * v);
            Some([-0.03 + 0.08 * x, -45.0 + 0.06 * y])
        }
    }

    #[test]
    fn a_distorted_transform_is_fitted() {
        let rectangle = [[-0.5, 4087.5], [-0.5, 4087.5]];
        let sip = fit(&distorted(0.02), rectangle).unwrap();
        assert!(sip.error < MAX_ERROR && sip.degree > 2, "{sip:?}");
        assert!((0.0..360.0).contains(&sip.sky[0]), "{sip:?}");
        assert!(sip.inverse.as_ref().unwrap().error < 0.05, "{sip:?}");
        // The way there and back.
        let pixel = [17.0, 4001.0];
        let [u, v] = [pixel[0] - sip.reference[0], pixel[1] - sip.reference[1]];
        let [f, g] = distance_terms([u, v], &sip.forward, sip.degree);
        let inverse = sip.inverse.as_ref().unwrap();
        let at = [u + f, v + g];
        let [back_x, back_y] = distance_terms(at, &inverse.polynomials, inverse.degree);
        assert!((at[0] + back_x - u).abs() < 0.05 && (at[1] + back_y - v).abs() < 0.05);
        let mut cards = Cards::default();
        sip.describe(&mut cards, false);
        let text = String::from_utf8(cards.header()).unwrap();
        assert!(["A_ORDER", "BP_ORDER", "SIPMXERR", "SIPIVERR"].iter().all(|name| text.contains(name)));
        assert!(!text.contains("A_1_0") && !text.contains("A_0_1"));
    }

    #[test]
    fn a_linear_transform_has_no_distortion_and_a_wild_one_no_fit() {
        let rectangle = [[-0.5, 99.5], [-0.5, 49.5]];
        let plane = |[x, y]: [f64; 2]| Some([10.0 + 1e-5 * x, 1e-5 * y]);
        assert!(fit(&plane, rectangle).unwrap().is_linear());
        let wild = |[x, y]: [f64; 2]| Some([10.0 + 1e-3 * x.sin(), 1e-3 * y]);
        assert!(fit(&wild, rectangle).unwrap_err().contains("deviate"));
        let half = |[x, y]: [f64; 2]| (x > 50.0).then_some([1e-3 * x, 1e-3 * y]);
        assert!(fit(&half, rectangle).unwrap_err().contains("no sky coordinates"));
        assert!(fit(&|_| Some([1.0, 2.0]), rectangle).is_err());
        assert!(fit(&plane, [[5.0, 5.0], [0.0, 1.0]]).unwrap_err().contains("empty"));
    }
}
