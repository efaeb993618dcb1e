//! Reads and evaluates the transform of a gwcs: astropy models, composed in any way.
//!
//! Units are those that the models have without quantities: pixels, degrees on the sky. A quantity in another
//! unit would need conversions, so such a model is not read.

use super::values::{self, Numbers, number};
use crate::yaml::scalar::Type;
use crate::yaml::survey::TreeNode;

/// Maximum nesting of models, and maximum number of models.
const MAX_DEPTH: usize = 64;
const MAX_MODELS: usize = 1024;
/// Maximum number of inputs and outputs of a model.
const MAX_AXES: usize = 32;

const GWCS: &str = "tag:stsci.edu:gwcs/";
const PIXEL: &[&str] = &["pixel", "pix", "deg", ""];
const DEGREES: &[&str] = &["deg"];

/// A transform from pixels to the sky, in degrees.
#[derive(Debug)]
pub(super) struct Transform {
    steps: Vec<Model>,
    /// The numbers of all models, in the order in which the models name them.
    pub(super) numbers: Vec<Numbers>,
}

/// A model with its number of inputs and outputs.
#[derive(Debug)]
struct Model {
    inputs: usize,
    outputs: usize,
    map: Map,
}

#[derive(Debug)]
enum Map {
    Identity,
    /// The input for each output.
    Mapping(Vec<usize>),
    Shift(f64),
    Scale(f64),
    Constant(f64),
    Polynomial(Polynomial),
    /// The indices of matrix and translation in the numbers.
    Affine {
        matrix: usize,
        translation: usize,
    },
    Rotate2d {
        sin: f64,
        cos: f64,
    },
    /// A rotation of longitude and latitude in degrees.
    RotateSphere(Matrix),
    RotateVector(Matrix),
    ToCartesian,
    ToSpherical,
    Projection {
        projection: Zenithal,
        to_sky: bool,
    },
    Compose(Box<[Model; 2]>),
    Concatenate(Box<[Model; 2]>),
    Arithmetic(Operator, Box<[Model; 2]>),
}

/// A zenithal projection without parameters.
#[derive(Clone, Copy, Debug)]
enum Zenithal {
    Gnomonic,
    Stereographic,
    Orthographic,
    EqualArea,
    Equidistant,
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
}

pub(super) type Matrix = [[f64; 3]; 3];

/// A polynomial of one or two variables.
#[derive(Debug)]
struct Polynomial {
    basis: Basis,
    /// The index of the coefficients in the numbers. Coefficient (i, j) belongs to the i-th function of the
    /// first variable and the j-th function of the second one.
    coefficients: usize,
    /// The number of coefficients for each variable.
    counts: Vec<usize>,
    /// The linear map that is applied to each variable first.
    domains: Vec<Domain>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Basis {
    Power,
    Chebyshev,
    Legendre,
    Hermite,
}

/// Maps the interval `from` to the interval `to`.
#[derive(Clone, Copy, Debug)]
struct Domain {
    from: [f64; 2],
    to: [f64; 2],
}

impl Transform {
    /// Reads the transforms of all steps.
    ///
    /// # Errors
    /// The name of a model that is unknown, or that has unexpected parameters.
    pub(super) fn read(steps: &[&TreeNode]) -> Result<Self, String> {
        let mut reader = Reader { numbers: Vec::new(), models: 0 };
        let steps: Vec<Model> = steps.iter().map(|step| reader.read(step, 0)).collect::<Result<_, _>>()?;
        let mut axes = 2;
        for step in &steps {
            if step.inputs != axes {
                return Err(format!("its transform has {} inputs in place of {axes}", step.inputs));
            }
            axes = step.outputs;
        }
        if axes != 2 {
            return Err(format!("its transform has {axes} outputs in place of 2"));
        }
        Ok(Self { steps, numbers: reader.numbers })
    }

    /// Returns the sky coordinates of a pixel in degrees. `numbers` holds the values of
    /// [`numbers`](Self::numbers). `None` if a result is not finite.
    pub(super) fn apply(&self, pixel: [f64; 2], numbers: &[Vec<f64>]) -> Option<[f64; 2]> {
        let mut values = pixel.to_vec();
        for step in &self.steps {
            values = step.apply(&values, numbers)?;
        }
        let sky: [f64; 2] = values.try_into().ok()?;
        sky.iter().all(|angle| angle.is_finite()).then_some(sky)
    }
}

/// The state of reading a transform.
struct Reader {
    numbers: Vec<Numbers>,
    models: usize,
}

impl Reader {
    fn read(&mut self, node: &TreeNode, depth: usize) -> Result<Model, String> {
        self.models += 1;
        if depth > MAX_DEPTH || self.models > MAX_MODELS {
            return Err("its transform has too many models".to_owned());
        }
        let name = match values::model(node) {
            Some(name) => name,
            None => gwcs_model(node).ok_or_else(|| unknown(node))?,
        };
        let compound = match name {
            "compose" | "concatenate" => Some(None),
            "add" => Some(Some(Operator::Add)),
            "subtract" => Some(Some(Operator::Subtract)),
            "multiply" => Some(Some(Operator::Multiply)),
            "divide" => Some(Some(Operator::Divide)),
            "power" => Some(Some(Operator::Power)),
            _ => None,
        };
        let model = match compound {
            Some(operator) => self.compound(name, operator, node, depth)?,
            None => {
                self.single(name, node).ok_or_else(|| format!("its model \"{name}\" is not supported"))?
            }
        };
        if model.inputs.max(model.outputs) > MAX_AXES {
            return Err(format!("its model \"{name}\" has too many axes"));
        }
        Ok(model)
    }

    fn compound(
        &mut self,
        name: &str,
        operator: Option<Operator>,
        node: &TreeNode,
        depth: usize,
    ) -> Result<Model, String> {
        let wrong = || format!("its model \"{name}\" is not supported");
        let parts = node.get("forward").and_then(TreeNode::items);
        let Some([first, second]) = parts else { return Err(wrong()) };
        if !values::has_only(node, &["forward"]) {
            return Err(wrong());
        }
        let first = self.read(first, depth + 1)?;
        let second = self.read(second, depth + 1)?;
        if let Some(operator) = operator {
            let is_same = first.inputs == second.inputs && first.outputs == second.outputs;
            let inputs = first.inputs;
            let outputs = first.outputs;
            let map = Map::Arithmetic(operator, Box::new([first, second]));
            return if is_same { Ok(Model { inputs, outputs, map }) } else { Err(wrong()) };
        }
        if name == "concatenate" {
            let inputs = first.inputs + second.inputs;
            let outputs = first.outputs + second.outputs;
            return Ok(Model { inputs, outputs, map: Map::Concatenate(Box::new([first, second])) });
        }
        if first.outputs != second.inputs {
            return Err(wrong());
        }
        let inputs = first.inputs;
        let outputs = second.outputs;
        Ok(Model { inputs, outputs, map: Map::Compose(Box::new([first, second])) })
    }

    /// Reads a model that is not composed of others; `None` if it is not supported.
    fn single(&mut self, name: &str, node: &TreeNode) -> Option<Model> {
        let model = |axes: [usize; 2], map: Map| Some(Model { inputs: axes[0], outputs: axes[1], map });
        let parameter = |key: &str, units: &[&str]| number(values::parameter(node.get(key)?, units)?);
        let own: &[&str] = match name {
            "identity" => &["n_dims"],
            "remap_axes" => &["mapping", "n_inputs"],
            "shift" => &["offset"],
            "scale" | "multiplyscale" => &["factor"],
            "constant" => &["value", "dimensions"],
            "polynomial" => &["coefficients", "domain", "window"],
            "ortho_polynomial" => &["polynomial_type", "coefficients", "domain", "window"],
            "affine" => &["matrix", "translation"],
            "rotate2d" => &["angle"],
            "rotate3d" => &["phi", "theta", "psi"],
            "rotate_sequence_3d" => &["angles", "axes_order", "rotation_type"],
            "spherical_cartesian" => &["transform_type", "wrap_lon_at"],
            "slant_orthographic" => &["xi", "eta"],
            _ => &[],
        };
        let has_equivalencies = node.get("input_units_equivalencies").is_some_and(|value| !is_null(value));
        let own = [own, &["input_units_equivalencies"]].concat();
        if has_equivalencies || !values::has_only(node, &own) {
            return None;
        }
        match name {
            "identity" => {
                let axes = match node.get("n_dims") {
                    Some(count) => usize::try_from(count.integer()?).ok()?,
                    None => 1,
                };
                model([axes; 2], Map::Identity)
            }
            "remap_axes" => {
                let index = |item: &TreeNode| usize::try_from(item.integer()?).ok();
                let mapping: Vec<usize> =
                    node.get("mapping")?.items()?.iter().map(index).collect::<Option<_>>()?;
                let least = mapping.iter().max()?.checked_add(1)?;
                let inputs = match node.get("n_inputs") {
                    Some(count) => index(count)?,
                    None => least,
                };
                (inputs >= least).then_some(())?;
                model([inputs, mapping.len()], Map::Mapping(mapping))
            }
            "shift" => model([1, 1], Map::Shift(parameter("offset", PIXEL)?)),
            "scale" => model([1, 1], Map::Scale(parameter("factor", &[""])?)),
            "multiplyscale" => {
                model([1, 1], Map::Scale(parameter("factor", &["", "deg.pixel**-1", "deg.pix**-1"])?))
            }
            "constant" => {
                let axes = match node.get("dimensions") {
                    Some(count) => usize::try_from(count.integer()?).ok()?,
                    None => 1,
                };
                model([axes, 1], Map::Constant(parameter("value", PIXEL)?))
            }
            "polynomial" | "ortho_polynomial" => {
                let polynomial = self.polynomial(node)?;
                model([polynomial.counts.len(), 1], Map::Polynomial(polynomial))
            }
            "affine" => {
                let matrix = Numbers::read(values::parameter(node.get("matrix")?, PIXEL)?, 4)?;
                let translation = Numbers::read(values::parameter(node.get("translation")?, PIXEL)?, 2)?;
                let first = self.numbers.len();
                self.numbers.extend([matrix, translation]);
                model([2, 2], Map::Affine { matrix: first, translation: first + 1 })
            }
            "rotate2d" | "rotate3d" | "rotate_sequence_3d" => rotation_model(name, node),
            "spherical_cartesian" => match node.get("transform_type")?.text()? {
                "spherical_to_cartesian" => model([2, 3], Map::ToCartesian),
                "cartesian_to_spherical" => model([3, 2], Map::ToSpherical),
                _ => None,
            },
            _ => projection_model(name, node),
        }
    }

    fn polynomial(&mut self, node: &TreeNode) -> Option<Polynomial> {
        let (numbers, counts) = Numbers::read_grid(node.get("coefficients")?)?;
        let basis = match node.get("polynomial_type") {
            None => Basis::Power,
            Some(name) => match name.text()? {
                "chebyshev" => Basis::Chebyshev,
                "legendre" => Basis::Legendre,
                "hermite" => Basis::Hermite,
                _ => return None,
            },
        };
        let axes = counts.len();
        let from = intervals(node.get("domain"), axes)?;
        let to = intervals(node.get("window"), axes)?;
        let domains = from.into_iter().zip(to).map(|(from, to)| match from {
            // astropy does not apply a window without a domain.
            None => Domain { from: [-1.0, 1.0], to: [-1.0, 1.0] },
            Some(from) => Domain { from, to: to.unwrap_or([-1.0, 1.0]) },
        });
        let domains = domains.collect();
        self.numbers.push(numbers);
        Some(Polynomial { basis, coefficients: self.numbers.len() - 1, counts, domains })
    }
}

/// Reads a rotation of a plane, of a sphere or of vectors.
fn rotation_model(name: &str, node: &TreeNode) -> Option<Model> {
    let angle = |key: &str| number(values::parameter(node.get(key)?, DEGREES)?).map(f64::to_radians);
    let (axes, map): (usize, Map) = match name {
        "rotate2d" => {
            let (sin, cos) = angle("angle")?.sin_cos();
            (2, Map::Rotate2d { sin, cos })
        }
        "rotate3d" => {
            let angles = [angle("phi")?, angle("theta")?, angle("psi")?];
            (2, Map::RotateSphere(rotation_of(angles, node.get("direction")?.text()?)?))
        }
        _ => {
            let angles = node.get("angles")?.items()?.iter().map(|angle| Some(number(angle)?.to_radians()));
            let angles: Vec<f64> = angles.collect::<Option<_>>()?;
            let rotation = rotation(&angles, node.get("axes_order")?.text()?)?;
            match node.get("rotation_type")?.text()? {
                "cartesian" => (3, Map::RotateVector(rotation)),
                "spherical" => (2, Map::RotateSphere(rotation)),
                _ => return None,
            }
        }
    };
    Some(Model { inputs: axes, outputs: axes, map })
}

fn projection_model(name: &str, node: &TreeNode) -> Option<Model> {
    let projection = match name {
        "gnomonic" => Zenithal::Gnomonic,
        "stereographic" => Zenithal::Stereographic,
        "zenithal_equal_area" => Zenithal::EqualArea,
        "zenithal_equidistant" => Zenithal::Equidistant,
        "slant_orthographic" => {
            let is_zero = |key| node.get(key).is_none_or(|value| number(value) == Some(0.0));
            (is_zero("xi") && is_zero("eta")).then_some(Zenithal::Orthographic)?
        }
        _ => return None,
    };
    let to_sky = match node.get("direction").map_or(Some("pix2sky"), TreeNode::text)? {
        "pix2sky" => true,
        "sky2pix" => false,
        _ => return None,
    };
    Some(Model { inputs: 2, outputs: 2, map: Map::Projection { projection, to_sky } })
}

/// Reads an interval for each axis. An interval may be missing or null.
fn intervals(node: Option<&TreeNode>, axes: usize) -> Option<Vec<Option<[f64; 2]>>> {
    let Some(node) = node.filter(|node| !is_null(node)) else { return Some(vec![None; axes]) };
    let interval = |node: &TreeNode| {
        if is_null(node) {
            return Some(None);
        }
        let [from, to] = node.items()? else { return None };
        Some(Some([number(from)?, number(to)?]))
    };
    if axes == 1 {
        return Some(vec![interval(node)?]);
    }
    let all: Vec<_> = node.items()?.iter().map(interval).collect::<Option<_>>()?;
    (all.len() == axes).then_some(all)
}

fn is_null(node: &TreeNode) -> bool {
    node.scalar_type() == Some(Type::Null)
}

/// Returns the name of a model of the package gwcs.
fn gwcs_model(node: &TreeNode) -> Option<&str> {
    let (name, _) = node.target().tag.as_deref()?.strip_prefix(GWCS)?.rsplit_once('-')?;
    (name == "spherical_cartesian").then_some(name)
}

fn unknown(node: &TreeNode) -> String {
    match node.target().tag.as_deref() {
        Some(tag) => format!("its model {} is not supported", tag.escape_debug()),
        None => "a model of it has no tag, or is too large".to_owned(),
    }
}

/// Returns the rotation of a node `rotate3d`.
fn rotation_of([phi, theta, psi]: [f64; 3], direction: &str) -> Option<Matrix> {
    use std::f64::consts::FRAC_PI_2;
    match direction {
        "native2celestial" => rotation(&[psi - FRAC_PI_2, theta - FRAC_PI_2, -(FRAC_PI_2 + phi)], "zxz"),
        "celestial2native" => rotation(&[FRAC_PI_2 + phi, FRAC_PI_2 - theta, FRAC_PI_2 - psi], "zxz"),
        axes => rotation(&[phi, theta, psi], axes),
    }
}

/// Returns a sequence of rotations of the coordinate axes, as astropy's `rotation_matrix` defines them.
fn rotation(angles: &[f64], axes: &str) -> Option<Matrix> {
    if angles.len() != axes.len() || angles.len() > MAX_AXES {
        return None;
    }
    let mut all = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    for (angle, axis) in angles.iter().zip(axes.bytes()) {
        let axis = usize::from(axis.checked_sub(b'x').filter(|axis| *axis < 3)?);
        let (sin, cos) = angle.sin_cos();
        let next = (axis + 1) % 3;
        let last = (axis + 2) % 3;
        let mut one = [[0.0; 3]; 3];
        one[axis][axis] = 1.0;
        one[next][next] = cos;
        one[next][last] = sin;
        one[last][next] = -sin;
        one[last][last] = cos;
        let mut product = [[0.0; 3]; 3];
        for (row, of_one) in product.iter_mut().zip(one) {
            for (column, value) in row.iter_mut().enumerate() {
                *value = of_one.iter().zip(all).map(|(factor, of_all)| factor * of_all[column]).sum();
            }
        }
        all = product;
    }
    Some(all)
}

/// A zenithal projection with the place of its pole on the sky.
#[derive(Debug)]
pub(super) struct Deprojection {
    projection: Zenithal,
    rotation: Matrix,
}

impl Deprojection {
    /// `code` is that of FITS. `native` is the native longitude of the celestial pole, in degrees as the others.
    /// `None` if the projection has parameters.
    pub(super) fn new(code: &str, [longitude, latitude]: [f64; 2], native: f64) -> Option<Self> {
        let projection = match code {
            "TAN" => Zenithal::Gnomonic,
            "STG" => Zenithal::Stereographic,
            "SIN" => Zenithal::Orthographic,
            "ZEA" => Zenithal::EqualArea,
            "ARC" => Zenithal::Equidistant,
            _ => return None,
        };
        let rotation = rotation_of([longitude, latitude, native].map(f64::to_radians), "native2celestial")?;
        Some(Self { projection, rotation })
    }

    /// Returns the sky coordinates of a point in the plane, in degrees.
    pub(super) fn sky(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        let [phi, theta] = self.projection.to_sky(x, y)?;
        Some(to_spherical(rotated(&self.rotation, to_cartesian(phi, theta))))
    }
}

pub(super) fn rotated(matrix: &Matrix, vector: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(vector).map(|(factor, value)| factor * value).sum())
}

pub(super) fn to_cartesian(longitude: f64, latitude: f64) -> [f64; 3] {
    let (sin_longitude, cos_longitude) = longitude.to_radians().sin_cos();
    let (sin_latitude, cos_latitude) = latitude.to_radians().sin_cos();
    [cos_latitude * cos_longitude, cos_latitude * sin_longitude, sin_latitude]
}

/// Returns longitude (-180 to 180) and latitude in degrees. Turns of 360 degrees do not matter on the sky.
fn to_spherical([x, y, z]: [f64; 3]) -> [f64; 2] {
    let height = (x * x + y * y).sqrt();
    [y.atan2(x).to_degrees(), z.atan2(height).to_degrees()]
}

impl Model {
    /// Returns the outputs; `None` if the inputs are not as many as the model has.
    fn apply(&self, inputs: &[f64], numbers: &[Vec<f64>]) -> Option<Vec<f64>> {
        if inputs.len() != self.inputs {
            return None;
        }
        Some(match (&self.map, inputs) {
            (Map::Identity, _) => inputs.to_vec(),
            (Map::Mapping(mapping), _) => {
                mapping.iter().map(|n| inputs.get(*n).copied()).collect::<Option<_>>()?
            }
            (Map::Shift(offset), [x]) => vec![x + offset],
            (Map::Scale(factor), [x]) => vec![x * factor],
            (Map::Constant(value), _) => vec![*value],
            (Map::Polynomial(polynomial), _) => vec![polynomial.value(inputs, numbers)?],
            (Map::Affine { matrix, translation }, [x, y]) => {
                let [a, b, c, d] = numbers.get(*matrix)?[..] else { return None };
                let [e, f] = numbers.get(*translation)?[..] else { return None };
                vec![a * x + b * y + e, c * x + d * y + f]
            }
            (Map::Rotate2d { sin, cos }, [x, y]) => vec![cos * x - sin * y, sin * x + cos * y],
            (Map::RotateSphere(matrix), [longitude, latitude]) => {
                to_spherical(rotated(matrix, to_cartesian(*longitude, *latitude))).to_vec()
            }
            (Map::RotateVector(matrix), [x, y, z]) => rotated(matrix, [*x, *y, *z]).to_vec(),
            (Map::ToCartesian, [longitude, latitude]) => to_cartesian(*longitude, *latitude).to_vec(),
            (Map::ToSpherical, [x, y, z]) => to_spherical([*x, *y, *z]).to_vec(),
            (Map::Projection { projection, to_sky: true }, [x, y]) => projection.to_sky(*x, *y)?.to_vec(),
            (Map::Projection { projection, .. }, [phi, theta]) => projection.to_plane(*phi, *theta)?.to_vec(),
            (Map::Compose(models), _) => models[1].apply(&models[0].apply(inputs, numbers)?, numbers)?,
            (Map::Concatenate(models), _) => {
                let (first, second) = inputs.split_at_checked(models[0].inputs)?;
                let mut outputs = models[0].apply(first, numbers)?;
                outputs.extend(models[1].apply(second, numbers)?);
                outputs
            }
            (Map::Arithmetic(operator, models), _) => {
                let first = models[0].apply(inputs, numbers)?;
                let second = models[1].apply(inputs, numbers)?;
                first.into_iter().zip(second).map(|(one, other)| operator.apply(one, other)).collect()
            }
            _ => return None,
        })
    }
}

impl Operator {
    fn apply(self, one: f64, other: f64) -> f64 {
        match self {
            Self::Add => one + other,
            Self::Subtract => one - other,
            Self::Multiply => one * other,
            Self::Divide => one / other,
            Self::Power => one.powf(other),
        }
    }
}

impl Zenithal {
    /// Returns native longitude and latitude of a point in the plane, in degrees.
    fn to_sky(self, x: f64, y: f64) -> Option<[f64; 2]> {
        let radius = (x * x + y * y).sqrt();
        let scaled = radius.to_radians();
        let distance = match self {
            Self::Gnomonic => scaled.atan(),
            Self::Stereographic => 2.0 * (scaled / 2.0).atan(),
            Self::Orthographic => scaled.asin(),
            Self::EqualArea => 2.0 * (scaled / 2.0).asin(),
            Self::Equidistant => scaled,
        };
        let longitude = if radius == 0.0 { 0.0 } else { x.atan2(-y) };
        distance.is_finite().then(|| [longitude.to_degrees(), 90.0 - distance.to_degrees()])
    }

    /// Returns the point in the plane of native longitude and latitude, in degrees.
    fn to_plane(self, phi: f64, theta: f64) -> Option<[f64; 2]> {
        let distance = (90.0 - theta).to_radians();
        let radius = match self {
            Self::Gnomonic => (theta > 0.0).then(|| distance.tan())?,
            Self::Stereographic => 2.0 * (distance / 2.0).tan(),
            Self::Orthographic => distance.sin(),
            Self::EqualArea => 2.0 * (distance / 2.0).sin(),
            Self::Equidistant => distance,
        };
        let radius = radius.to_degrees();
        let (sin, cos) = phi.to_radians().sin_cos();
        Some([radius * sin, -radius * cos])
    }
}

impl Polynomial {
    fn value(&self, variables: &[f64], numbers: &[Vec<f64>]) -> Option<f64> {
        let coefficients = numbers.get(self.coefficients)?;
        let mut functions = Vec::with_capacity(variables.len());
        for ((variable, domain), count) in variables.iter().zip(&self.domains).zip(&self.counts) {
            functions.push(self.basis.functions(domain.map(*variable), *count));
        }
        let mut sum = 0.0;
        match &functions[..] {
            [x] => {
                for (coefficient, function) in coefficients.iter().zip(x) {
                    sum += coefficient * function;
                }
            }
            [x, y] => {
                for (i, (row, of_x)) in coefficients.chunks_exact(y.len().max(1)).zip(x).enumerate() {
                    // The degree of a plain polynomial is that of its terms.
                    let count = if self.basis == Basis::Power { y.len().saturating_sub(i) } else { y.len() };
                    for (coefficient, of_y) in row.iter().zip(y).take(count) {
                        sum += coefficient * of_x * of_y;
                    }
                }
            }
            _ => return None,
        }
        Some(sum)
    }
}

impl Domain {
    fn map(self, value: f64) -> f64 {
        let [from, end] = self.from;
        let [to, to_end] = self.to;
        if self.from == self.to { value } else { to + (value - from) * (to_end - to) / (end - from) }
    }
}

impl Basis {
    /// Returns the first `count` functions at `x`.
    fn functions(self, x: f64, count: usize) -> Vec<f64> {
        let mut functions = vec![1.0; count];
        if let Some(first) = functions.get_mut(1) {
            *first = if self == Self::Hermite { 2.0 * x } else { x };
        }
        for n in 2..count {
            let degree = n as f64;
            let one = functions[n - 1];
            let two = functions[n - 2];
            functions[n] = match self {
                Self::Power => x * one,
                Self::Chebyshev => 2.0 * x * one - two,
                Self::Legendre => ((2.0 * degree - 1.0) * x * one - (degree - 1.0) * two) / degree,
                Self::Hermite => 2.0 * x * one - 2.0 * (degree - 1.0) * two,
            };
        }
        functions
    }
}
