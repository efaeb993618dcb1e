//! Reads and evaluates the transform of a gwcs: astropy models, composed in any way.
//!
//! Evaluation is in the units that models have without quantities: pixels, degrees on the sky. Quantities in other units
//! are only composed ([`forms`](super::forms)).

use asdf_tree::yaml::scalar::Type;
use asdf_tree::yaml::survey::TreeNode;

use super::projection::{Projection, Zenithal};
use super::rotation::{Matrix, rotated, rotation, rotation_of, to_cartesian, to_spherical};
use super::unit::{self, Quantity, Unit};
use super::values::{self, Numbers, number};

/// Maximum nesting of models, and maximum number of models.
const MAX_DEPTH: usize = 64;
const MAX_MODELS: usize = 1024;
/// Maximum number of inputs and outputs of a model.
const MAX_AXES: usize = 32;

const GWCS: &str = "tag:stsci.edu:gwcs/";

/// A transform from pixels to world coordinates.
#[derive(Debug)]
pub(super) struct Transform {
    pub(super) steps: Vec<Model>,
    /// The numbers of all models, in the order in which the models name them.
    pub(super) numbers: Vec<Numbers>,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// True if a parameter has a unit.
    pub(super) has_units: bool,
    /// The reason why it can't be evaluated, if it can't.
    pub(super) not_evaluated: Option<String>,
}

/// A model with its number of inputs and outputs.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) map: Map,
}

#[derive(Debug)]
pub(super) enum Map {
    Identity,
    /// The input for each output.
    Mapping(Vec<usize>),
    Shift(Quantity),
    /// Keeps the unit of its input.
    Scale(f64),
    Multiply(Quantity),
    Linear {
        slope: Quantity,
        intercept: Quantity,
    },
    Constant(Quantity),
    Polynomial(Polynomial),
    /// The indices of matrix and translation in the numbers, and the unit of the translation.
    Affine {
        matrix: usize,
        translation: usize,
        unit: Option<Unit>,
    },
    Rotate2d {
        sin: f64,
        cos: f64,
    },
    /// A rotation of longitude and latitude in degrees.
    RotateSphere {
        matrix: Matrix,
        /// From native to celestial coordinates: longitude and latitude of the native pole, native longitude of the
        /// celestial pole.
        pole: Option<[Quantity; 3]>,
    },
    RotateVector(Matrix),
    ToCartesian,
    ToSpherical,
    Projection(Projection),
    /// The index of the numbers of `crpix`, which those of `crval`, `cdelt` and `pc` follow.
    FitsImaging(usize, Projection),
    /// A model that is not supported, with the reason.
    Unknown(String),
    Compose(Box<[Model; 2]>),
    Concatenate(Box<[Model; 2]>),
    Arithmetic(Operator, Box<[Model; 2]>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
}

/// A polynomial of one or two variables.
#[derive(Debug)]
pub(super) struct Polynomial {
    basis: Basis,
    /// The index of the coefficients in the numbers. Coefficient (i, j) belongs to the i-th function of the
    /// first variable and the j-th function of the second one.
    pub(super) coefficients: usize,
    /// The number of coefficients for each variable.
    pub(super) counts: Vec<usize>,
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
    /// True if the outputs are those of a rotation of the sphere, which are in degrees.
    pub(super) fn ends_in_degrees(&self) -> bool {
        self.steps.iter().rev().find_map(Model::ends_in_degrees).unwrap_or(false)
    }

    /// Reads the transforms of all steps.
    ///
    /// # Errors
    /// The reason why the transforms don't go together.
    pub(super) fn read(steps: &[&TreeNode]) -> Result<Self, String> {
        let mut reader = Reader::default();
        let steps: Vec<Model> = steps.iter().map(|step| reader.read(step, 0)).collect::<Result<_, _>>()?;
        let inputs = steps.first().map_or(0, |first| first.inputs);
        let mut outputs = inputs;
        for step in &steps {
            if step.inputs != outputs {
                return Err(format!("its transform has {} inputs in place of {outputs}", step.inputs));
            }
            outputs = step.outputs;
        }
        let Reader { numbers, has_units, not_evaluated, .. } = reader;
        Ok(Self { steps, numbers, inputs, outputs, has_units, not_evaluated })
    }

    /// Returns the sky coordinates of a pixel. `numbers` holds the values of [`numbers`](Self::numbers). `None` if a
    /// result is not finite.
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
#[derive(Default)]
struct Reader {
    numbers: Vec<Numbers>,
    models: usize,
    has_units: bool,
    not_evaluated: Option<String>,
}

impl Reader {
    fn read(&mut self, node: &TreeNode, depth: usize) -> Result<Model, String> {
        self.models += 1;
        if depth > MAX_DEPTH || self.models > MAX_MODELS {
            return Err("its transform has too many models".to_owned());
        }
        let Some(name) = values::model(node).or_else(|| gwcs_model(node)) else {
            return self.unknown(node, unknown(node));
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
            None => match self.single(name, node) {
                Some(model) => model,
                None => self.unknown(node, format!("its model \"{name}\" is not supported"))?,
            },
        };
        if model.inputs.max(model.outputs) > MAX_AXES {
            return Err(format!("its model \"{name}\" has too many axes"));
        }
        let is_evaluated = match &model.map {
            Map::Projection(projection) => projection.zenithal().is_some(),
            Map::FitsImaging(..) => false,
            _ => true,
        };
        if !is_evaluated {
            self.not_evaluated.get_or_insert_with(|| format!("its model \"{name}\" is not supported"));
        }
        Ok(model)
    }

    /// Returns a model that is not supported, if the node tells its inputs and outputs.
    fn unknown(&mut self, node: &TreeNode, why: String) -> Result<Model, String> {
        let count = |key: &str| node.get(key).and_then(TreeNode::items).map(<[TreeNode]>::len);
        let (Some(inputs), Some(outputs)) = (count("inputs"), count("outputs")) else { return Err(why) };
        self.not_evaluated.get_or_insert_with(|| why.clone());
        Ok(Model { inputs, outputs, map: Map::Unknown(why) })
    }

    /// Reads a parameter of a model.
    fn quantity(&mut self, node: &TreeNode, key: &str) -> Option<Quantity> {
        let quantity = Quantity::read(node.get(key)?)?;
        self.note_unit(quantity.unit);
        Some(quantity)
    }

    /// Notes the unit of a parameter.
    fn note_unit(&mut self, unit: Option<Unit>) {
        self.has_units |= unit.is_some();
        if unit.is_some_and(|unit| !unit.is_usual()) {
            let why = || "it has a distortion, and units other than pixels and degrees".to_owned();
            self.not_evaluated.get_or_insert_with(why);
        }
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
            "linear1d" => &["slope", "intercept"],
            "spherical_cartesian" => &["transform_type", "wrap_lon_at"],
            "fitswcs_imaging" => &["crpix", "crval", "cdelt", "pc", "projection"],
            _ => {
                return model([2, 2], Map::Projection(Projection::read(node)?));
            }
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
            "shift" => model([1, 1], Map::Shift(self.quantity(node, "offset")?)),
            "scale" => {
                let Quantity { value, unit } = self.quantity(node, "factor")?;
                let is_number = unit.is_none_or(|unit| unit.is_usual() && unit.is_of(unit::NONE));
                is_number.then_some(())?;
                model([1, 1], Map::Scale(value))
            }
            "multiplyscale" => model([1, 1], Map::Multiply(self.quantity(node, "factor")?)),
            "linear1d" => {
                let slope = self.quantity(node, "slope")?;
                let intercept = self.quantity(node, "intercept")?;
                model([1, 1], Map::Linear { slope, intercept })
            }
            "constant" => {
                let axes = match node.get("dimensions") {
                    Some(count) => usize::try_from(count.integer()?).ok()?,
                    None => 1,
                };
                model([axes, 1], Map::Constant(self.quantity(node, "value")?))
            }
            "polynomial" | "ortho_polynomial" => {
                let polynomial = self.polynomial(node)?;
                model([polynomial.counts.len(), 1], Map::Polynomial(polynomial))
            }
            "affine" => {
                let (matrix, of_matrix) = unit::split(node.get("matrix")?)?;
                let (translation, unit) = unit::split(node.get("translation")?)?;
                // As in astropy.
                (of_matrix == unit).then_some(())?;
                self.note_unit(unit);
                let first = self.numbers.len();
                self.numbers.extend([Numbers::read(matrix, 4)?, Numbers::read(translation, 2)?]);
                model([2, 2], Map::Affine { matrix: first, translation: first + 1, unit })
            }
            "fitswcs_imaging" => {
                let numbers = |key, count| Numbers::read(node.get(key)?, count);
                let all =
                    [numbers("crpix", 2)?, numbers("crval", 2)?, numbers("cdelt", 2)?, numbers("pc", 4)?];
                let projection = Projection::read(node.get("projection")?)?;
                let first = self.numbers.len();
                self.numbers.extend(all);
                model([2, 2], Map::FitsImaging(first, projection))
            }
            "rotate2d" | "rotate3d" | "rotate_sequence_3d" => rotation_model(name, node),
            "spherical_cartesian" => match node.get("transform_type")?.text()? {
                "spherical_to_cartesian" => model([2, 3], Map::ToCartesian),
                "cartesian_to_spherical" => model([3, 2], Map::ToSpherical),
                _ => None,
            },
            _ => None,
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
    let quantity = |key: &str| Quantity::read(node.get(key)?);
    let radians = |angle: Quantity| Some(angle.angle(Unit::DEGREE)?.to_radians());
    let (axes, map): (usize, Map) = match name {
        "rotate2d" => {
            let (sin, cos) = radians(quantity("angle")?)?.sin_cos();
            (2, Map::Rotate2d { sin, cos })
        }
        "rotate3d" => {
            let angles = [quantity("phi")?, quantity("theta")?, quantity("psi")?];
            let direction = node.get("direction")?.text()?;
            let pole = (direction == "native2celestial").then_some(angles);
            let [phi, theta, psi] = angles;
            let matrix = rotation_of([radians(phi)?, radians(theta)?, radians(psi)?], direction)?;
            (2, Map::RotateSphere { matrix, pole })
        }
        _ => {
            let angles = node.get("angles")?.items()?.iter().map(|angle| Some(number(angle)?.to_radians()));
            let angles: Vec<f64> = angles.collect::<Option<_>>()?;
            let rotation = rotation(&angles, node.get("axes_order")?.text()?)?;
            match node.get("rotation_type")?.text()? {
                "cartesian" => (3, Map::RotateVector(rotation)),
                "spherical" => (2, Map::RotateSphere { matrix: rotation, pole: None }),
                _ => return None,
            }
        }
    };
    Some(Model { inputs: axes, outputs: axes, map })
}

/// Reads an interval for each axis. An interval may be missing or null.
fn intervals(node: Option<&TreeNode>, axes: usize) -> Option<Vec<Option<[f64; 2]>>> {
    let Some(node) = node.filter(|node| !is_null(node)) else { return Some(vec![None; axes]) };
    let interval = |of_axis: &TreeNode| {
        if is_null(of_axis) {
            return Some(None);
        }
        let [from, to] = of_axis.items()? else { return None };
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
    matches!(name, "spherical_cartesian" | "fitswcs_imaging").then_some(name)
}

fn unknown(node: &TreeNode) -> String {
    match node.target().tag.as_deref() {
        Some(tag) => format!("its model {} is not supported", tag.escape_debug()),
        None => "a model of it has no tag, or is too large".to_owned(),
    }
}

impl Model {
    /// True if the outputs are those of a rotation of the sphere, false if not; `None` if they are inputs.
    fn ends_in_degrees(&self) -> Option<bool> {
        match &self.map {
            Map::Identity | Map::Mapping(_) => None,
            Map::Compose(models) => models[1].ends_in_degrees().or_else(|| models[0].ends_in_degrees()),
            Map::RotateSphere { .. } | Map::ToSpherical | Map::FitsImaging(..) => Some(true),
            _ => Some(false),
        }
    }

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
            (Map::Shift(offset), [x]) => vec![x + offset.value],
            (Map::Scale(factor), [x]) => vec![x * factor],
            (Map::Multiply(factor), [x]) => vec![x * factor.value],
            (Map::Linear { slope, intercept }, [x]) => vec![slope.value * x + intercept.value],
            (Map::Constant(value), _) => vec![value.value],
            (Map::Polynomial(polynomial), _) => vec![polynomial.value(inputs, numbers)?],
            (Map::Affine { matrix, translation, .. }, [x, y]) => {
                let [a, b, c, d] = numbers.get(*matrix)?[..] else { return None };
                let [e, f] = numbers.get(*translation)?[..] else { return None };
                vec![a * x + b * y + e, c * x + d * y + f]
            }
            (Map::Rotate2d { sin, cos }, [x, y]) => vec![cos * x - sin * y, sin * x + cos * y],
            (Map::RotateSphere { matrix, .. }, [longitude, latitude]) => {
                to_spherical(rotated(matrix, to_cartesian(*longitude, *latitude))).to_vec()
            }
            (Map::RotateVector(matrix), [x, y, z]) => rotated(matrix, [*x, *y, *z]).to_vec(),
            (Map::ToCartesian, [longitude, latitude]) => to_cartesian(*longitude, *latitude).to_vec(),
            (Map::ToSpherical, [x, y, z]) => to_spherical([*x, *y, *z]).to_vec(),
            (Map::Projection(projection), [x, y]) => {
                let zenithal: Zenithal = projection.zenithal()?;
                let of_point =
                    if projection.to_sky { zenithal.to_sky(*x, *y) } else { zenithal.to_plane(*x, *y) };
                of_point?.to_vec()
            }
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

impl Polynomial {
    /// Returns the variables, if it is a sum of a constant and multiples of its variables.
    pub(super) fn linear_variables(&self) -> Option<usize> {
        let is_linear = self.counts.iter().all(|count| *count == 2)
            && self.basis == Basis::Power
            && self.domains.iter().all(|domain| domain.from == domain.to);
        is_linear.then_some(self.counts.len())
    }

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
