//! Composes astropy models, from pixels to the projection plane, into the one linear map that FITS can
//! express.

use super::values::{self, Numbers, number};
use crate::yaml::survey::{NodeContent, TreeNode};

/// Maximum nesting of models.
const DEEPEST: usize = 64;

/// Maximum condition number of a matrix that is inverted: beyond it the inverse loses digits.
const MAX_STRETCH: f64 = 1e6;

/// A model with two inputs and two outputs.
#[derive(Debug)]
pub(super) enum Model {
    /// A chain of steps. Each multiplies the axes by factors, then adds offsets.
    Axes(Vec<([f64; 2], [f64; 2])>),
    /// A matrix, row-major.
    Matrix([f64; 4]),
    /// A matrix, row-major, then a translation.
    Affine(Box<[Numbers; 2]>),
}

/// A map from pixels, counted from 0, to the plane: `scale * matrix * (pixel - reference)`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plane {
    pub(super) reference: [f64; 2],
    pub(super) scale: [f64; 2],
    /// Row-major.
    pub(super) matrix: [f64; 4],
}

/// Flattens a sequence of transforms to a chain of single models.
pub(super) fn chain<'v>(transforms: &[&'v TreeNode]) -> Option<Vec<&'v TreeNode>> {
    let mut models = Vec::new();
    transforms.iter().try_for_each(|transform| parts(transform, "compose", DEEPEST, &mut models))?;
    Some(models)
}

/// Adds the parts of a compound model of this kind, or the model itself.
fn parts<'v>(model: &'v TreeNode, kind: &str, depth: usize, models: &mut Vec<&'v TreeNode>) -> Option<()> {
    if values::model(model) != Some(kind) {
        models.push(model);
        return Some(());
    }
    let [first, second] = model.get("forward")?.items()? else { return None };
    if depth == 0 || models.len() > DEEPEST || !values::has_only(model, &["forward"]) {
        return None;
    }
    parts(first, kind, depth - 1, models)?;
    parts(second, kind, depth - 1, models)
}

impl Model {
    /// Reads a model; `None` if it is unknown or not linear.
    pub(super) fn read(value: &TreeNode) -> Option<Self> {
        const PIXEL: &[&str] = &["pixel", "pix"];
        match values::model(value)? {
            "concatenate" => {
                let mut axes = Vec::new();
                parts(value, "concatenate", DEEPEST, &mut axes)?;
                let [x, y] = axes[..] else { return None };
                let mut x = chain(&[x])?.into_iter();
                let mut y = chain(&[y])?.into_iter();
                let mut steps = Vec::new();
                loop {
                    let step = match (x.next(), y.next()) {
                        (None, None) => return Some(Self::Axes(steps)),
                        step => step,
                    };
                    // The shorter chain ends earlier.
                    let next = |model: Option<&TreeNode>| model.map_or(Some((1.0, 0.0)), axis);
                    let x = next(step.0)?;
                    let y = next(step.1)?;
                    steps.push(([x.0, y.0], [x.1, y.1]));
                }
            }
            "affine" if values::has_only(value, &["matrix", "translation"]) => {
                let part = |key, count| Numbers::read(values::parameter(value.get(key)?, PIXEL)?, count);
                Some(Self::Affine(Box::new([part("matrix", 4)?, part("translation", 2)?])))
            }
            "rotate2d" if values::has_only(value, &["angle"]) => {
                let (sin, cos) = number(value.get("angle")?)?.to_radians().sin_cos();
                Some(Self::Matrix([cos, -sin, sin, cos]))
            }
            "identity" if values::has_only(value, &["n_dims"]) => {
                let is_plane = value.get("n_dims")?.integer() == Some(2);
                is_plane.then_some(Self::Matrix([1.0, 0.0, 0.0, 1.0]))
            }
            "remap_axes" if values::has_only(value, &["mapping"]) => {
                let order: Vec<_> = value.get("mapping")?.items()?.iter().map(TreeNode::integer).collect();
                match order[..] {
                    [Some(0), Some(1)] => Some(Self::Matrix([1.0, 0.0, 0.0, 1.0])),
                    [Some(1), Some(0)] => Some(Self::Matrix([0.0, 1.0, 1.0, 0.0])),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns the numbers that the model needs.
    pub(super) fn numbers(&self) -> &[Numbers] {
        match self {
            Self::Affine(numbers) => &**numbers,
            Self::Axes(_) | Self::Matrix(_) => &[],
        }
    }
}

/// Returns the factor and offset of a model with one axis.
fn axis(model: &TreeNode) -> Option<(f64, f64)> {
    let own = |key, units| {
        values::has_only(model, &[key]).then_some(())?;
        number(values::parameter(model.get(key)?, units)?)
    };
    match values::model(model)? {
        "shift" => Some((1.0, own("offset", &["pixel", "pix"])?)),
        "scale" => Some((own("factor", &[])?, 0.0)),
        "multiplyscale" => Some((own("factor", &["deg.pixel**-1"])?, 0.0)),
        "identity" if matches!(&model.target().node, NodeContent::Mapping(_)) => {
            let is_one = model.get("n_dims").is_none_or(|count| count.integer() == Some(1));
            (is_one && values::has_only(model, &["n_dims"])).then_some((1.0, 0.0))
        }
        _ => None,
    }
}

/// Composes all models into one map. `numbers` are the [`Model::numbers`] of all models, in order.
pub(super) fn plane(models: &[Model], numbers: &[Vec<f64>]) -> Option<Plane> {
    let mut numbers = numbers.iter();
    let mut map = Plane { reference: [0.0; 2], scale: [1.0; 2], matrix: [1.0, 0.0, 0.0, 1.0] };
    for model in models {
        match model {
            Model::Axes(steps) => {
                for (factors, offsets) in steps {
                    map.scale = [map.scale[0] * factors[0], map.scale[1] * factors[1]];
                    map.shift(*offsets)?;
                }
            }
            Model::Matrix(matrix) => map.append_matrix(*matrix),
            Model::Affine(_) => {
                map.append_matrix(numbers.next()?[..].try_into().ok()?);
                map.shift(numbers.next()?[..].try_into().ok()?)?;
            }
        }
    }
    Some(map)
}

impl Plane {
    /// Returns the point in the plane of a pixel.
    pub(super) fn at(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let [a, b, c, d] = self.whole();
        let x = x - self.reference[0];
        let y = y - self.reference[1];
        [a * x + b * y, c * x + d * y]
    }

    /// Appends a matrix to the map.
    fn append_matrix(&mut self, matrix: [f64; 4]) {
        let [a, b, c, d] = self.whole();
        let [p, q, r, s] = matrix;
        self.matrix = [p * a + q * c, p * b + q * d, r * a + s * c, r * b + s * d];
        self.scale = [1.0; 2];
    }

    /// Returns the matrix multiplied by the scale.
    fn whole(&self) -> [f64; 4] {
        let [a, b, c, d] = self.matrix;
        let [x, y] = self.scale;
        [x * a, x * b, y * c, y * d]
    }

    /// Appends a shift to the map, by moving the reference pixel. `None` if digits would be lost.
    fn shift(&mut self, [x, y]: [f64; 2]) -> Option<()> {
        if x == 0.0 && y == 0.0 {
            return Some(());
        }
        let [a, b, c, d] = self.whole();
        if [a, b, c, d] == [1.0, 0.0, 0.0, 1.0] {
            self.reference = [self.reference[0] - x, self.reference[1] - y];
            return Some(());
        }
        let determinant = a * d - b * c;
        let squares = a * a + b * b + c * c + d * d;
        if determinant == 0.0 || squares / determinant.abs() > MAX_STRETCH {
            return None;
        }
        let back = [(d * x - b * y) / determinant, (a * y - c * x) / determinant];
        self.reference = [self.reference[0] - back[0], self.reference[1] - back[1]];
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_in_any_order_are_one_map() {
        let axes = |factors, offsets| Model::Axes(vec![(factors, offsets)]);
        let models = [
            axes([1.0; 2], [-3.5, -4.25]),
            axes([1.0; 2], [0.5, 0.25]),
            Model::Matrix([0.5, -0.25, 0.125, 2.0]),
            axes([1.0; 2], [8.0, -2.0]),
            Model::Matrix([0.0, 1.0, 1.0, 0.0]),
            axes([0.5, -0.25], [0.0; 2]),
        ];
        let map = plane(&models, &[]).unwrap();
        assert_eq!(map.scale, [0.5, -0.25]);
        for pixel in [[0.0, 0.0], [7.5, 3.0], [-1.0, 20.0]] {
            let [u, v] = [pixel[0] - 3.0, pixel[1] - 4.0];
            let [u, v] = [0.5 * u - 0.25 * v + 8.0, 0.125 * u + 2.0 * v - 2.0];
            let wanted = [0.5 * v, -0.25 * u];
            let found = map.at(pixel);
            assert!((0..2).all(|n| (found[n] - wanted[n]).abs() < 1e-12), "{found:?} {wanted:?}");
        }
        let flat = [Model::Matrix([1.0, 1.0, 1.0, 1.0 + 1e-9]), axes([1.0; 2], [1.0, 0.0])];
        assert!(plane(&flat, &[]).is_none());
    }
}
