//! World coordinates of a `gwcs` as cards of a FITS header.
//!
//! Cards are exact if each world coordinate is a linear form of the pixels, or if a projection and a rotation lead two
//! such forms to the sky. Other transforms from images with two dimensions to the sky are fitted by TAN-SIP.
//!
//! gwcs counts pixels from 0 and FITS from 1; matrix, scales and projection are the same (gwcs/fitswcs.py). A
//! transform gets no cards unless it is known to have the same meaning in FITS: no cards are better than
//! wrong ones.

use std::sync::OnceLock;

use asdf_tree::yaml::event::Mark;
use asdf_tree::yaml::scalar::Type;
use asdf_tree::yaml::survey::TreeNode;

use super::card::{Cards, Value as Card};
use super::forms::{Expression, Expressions, Form, SkyForms};
use super::frames::{self, Axis, MAX_AXES, ReferenceSystem, Sky, World};
use super::model::Transform;
use super::projection::{Deprojection, Projection};
use super::rotation::{Matrix, rotated, to_cartesian};
use super::sip::{self, Rectangle, Sip};
use super::unit::Unit;
use super::values::{self, Numbers, number};

const TAG: &str = "tag:stsci.edu:gwcs/wcs-1.";

/// True for the resolved tag of a gwcs.
pub(super) fn is_tag(tag: &str) -> bool {
    tag.starts_with(TAG)
}

/// A gwcs from the pixels of an image to world coordinates, as many as the image has dimensions.
#[derive(Debug)]
pub(crate) struct Wcs {
    transform: Transform,
    world: World,
    /// The unit of the pixels.
    pixel: Unit,
    /// True if the transform has a distortion, and is fitted.
    is_fitted: bool,
    /// The lengths of the image's axes, if written, the fastest-varying axis first.
    lengths: Option<Vec<u64>>,
    /// The bounding box, if written: an interval for each axis.
    bounds: Option<Vec<[f64; 2]>>,
    /// The node in the tree, for notes: its place and its path.
    pub(super) place: Mark,
    pub(super) path: String,
    /// The world coordinates that have no cards, counted from 1, with the reasons.
    pub(super) left_out: Vec<(usize, String)>,
    /// The solution for an image of a shape.
    pub(super) solved: OnceLock<Solved>,
}

/// The world coordinates of an image of a shape, or the reason why FITS can't express them.
#[derive(Debug)]
pub(super) struct Solved {
    pub(super) shape: Vec<u64>,
    pub(super) solution: Result<Solution, String>,
}

impl Wcs {
    /// Reads a gwcs. `path` is its path in the tree, for notes.
    ///
    /// # Errors
    /// The reason why FITS can't express it.
    pub(super) fn read(node: &TreeNode, path: String) -> Result<Self, String> {
        let steps = node.get("steps").and_then(TreeNode::items).and_then(<[TreeNode]>::split_last);
        let (last, steps) = steps.ok_or("it has no steps")?;
        let is_end = last.get("transform").is_none_or(|end| end.scalar_type() == Some(Type::Null));
        let first = steps.first().filter(|_| is_end).ok_or("it has no transform")?;
        let pixel = first.get("frame").and_then(frames::pixel_unit);
        let pixel = pixel.ok_or("the axes of its input are not pixels in their order")?;
        let transforms: Option<Vec<&TreeNode>> = steps.iter().map(|step| step.get("transform")).collect();
        let transforms = transforms.ok_or("one of its steps has no transform")?;
        let transform = Transform::read(&transforms)?;
        if transform.inputs > MAX_AXES {
            return Err(format!("it has {} pixel axes, more than {MAX_AXES}", transform.inputs));
        }
        let world = World::read(last.get("frame").ok_or("it has no output frame")?)?;
        let count = world.axes.len();
        if transform.outputs != count {
            return Err(format!("its transform has {} outputs in place of {count}", transform.outputs));
        }
        if transform.inputs != count {
            let inputs = transform.inputs;
            return Err(format!("it leads from {inputs} pixel axes to {count} world coordinates"));
        }
        let lengths = match node.get("pixel_shape") {
            Some(shape) if shape.scalar_type() != Some(Type::Null) => {
                let lengths = pixel_shape(shape).filter(|lengths| lengths.len() == count);
                Some(lengths.ok_or_else(|| format!("its pixel_shape is not {count} lengths"))?)
            }
            _ => None,
        };
        let bounds = transforms.first().and_then(|from_pixels| bounding_box(from_pixels));
        let bounds = bounds.filter(|bounds| bounds.len() == count);
        let mut wcs = Self {
            transform,
            world,
            pixel,
            is_fitted: false,
            lengths,
            bounds,
            place: node.place,
            path,
            left_out: Vec::new(),
            solved: OnceLock::new(),
        };
        wcs.plan()?;
        Ok(wcs)
    }

    /// Decides from the models alone which cards there are.
    fn plan(&mut self) -> Result<(), String> {
        let placeholders: Vec<Vec<f64>> = self.transform.numbers.iter().map(Numbers::placeholder).collect();
        let outputs = self.outputs(&placeholders).ok_or("its models do not go together")?;
        let left_out: Vec<(usize, String)> = (0..self.world.axes.len())
            .filter_map(|n| Some((n + 1, self.not_expressed(&outputs, n)?)))
            .collect();
        if left_out.len() < self.world.axes.len() {
            self.left_out = left_out;
            return Ok(());
        }
        let is_plane = self.world.sky.is_some() && self.world.axes.len() == 2;
        // Longitudes are known up to a turn of 360 degrees, so they can't be in another unit.
        let is_other_unit = self.world.sky.as_ref().is_some_and(|sky| sky.unit != Unit::DEGREE);
        match &self.transform.not_evaluated {
            _ if is_plane
                && is_other_unit
                && !self.transform.has_units
                && self.transform.ends_in_degrees() =>
            {
                Err("its output is not in the unit of its frame".to_owned())
            }
            None if is_plane && !outputs.all.iter().any(|output| matches!(output, Expression::Sky(..))) => {
                self.is_fitted = true;
                Ok(())
            }
            Some(why) if is_plane => Err(why.clone()),
            _ => Err(left_out.into_iter().next().map_or_else(|| "it has no axes".to_owned(), |(_, why)| why)),
        }
    }

    fn outputs(&self, numbers: &[Vec<f64>]) -> Option<Expressions> {
        Expressions::of(&self.transform, numbers, self.pixel)
    }

    /// Returns the reason why a world coordinate has no cards of its own; `None` if it has.
    fn not_expressed(&self, outputs: &Expressions, n: usize) -> Option<String> {
        match (&self.world.axes[n], outputs.all.get(n)?) {
            (Axis::Other(name), _) => Some(format!("it is of a {name}")),
            (_, Expression::Other(why)) => Some(why.clone()),
            (Axis::Spectral(spectral), Expression::Linear(form)) => {
                let is_known = form.clone().in_units_of(spectral.unit).is_some();
                (!is_known).then(|| "its unit is not that of its frame".to_owned())
            }
            (Axis::Longitude, Expression::Sky(_, 1)) | (Axis::Latitude, Expression::Sky(_, 0)) => {
                Some("its longitude is a latitude of its transform".to_owned())
            }
            (Axis::Longitude | Axis::Latitude, Expression::Sky(..)) => match self.sky_forms(outputs) {
                Some(_) => None,
                None => Some("its output is not in the unit of its frame".to_owned()),
            },
            (Axis::Longitude | Axis::Latitude, _) => Some("no projection leads to it".to_owned()),
            (Axis::Spectral(_), _) => Some("its transform is not linear".to_owned()),
        }
    }

    /// Returns the projection to the sky, in the unit of the frame.
    fn sky_forms(&self, outputs: &Expressions) -> Option<SkyForms> {
        let Sky { unit, .. } = self.world.sky.as_ref()?;
        let place = |wanted: fn(&Axis) -> bool| {
            let n = self.world.axes.iter().position(wanted)?;
            outputs.all.get(n)
        };
        let longitude = place(|axis| matches!(axis, Axis::Longitude))?;
        let latitude = place(|axis| matches!(axis, Axis::Latitude))?;
        let (Expression::Sky(number, 0), Expression::Sky(other, 1)) = (longitude, latitude) else {
            return None;
        };
        let SkyForms { plane: [x, y], projection, pole } = outputs.skies.get(*number)?.clone();
        // Models without units lead to degrees.
        let is_known = number == other && (x.has_unit() || *unit == Unit::DEGREE);
        is_known.then_some(())?;
        Some(SkyForms { plane: [x.in_units_of(*unit)?, y.in_units_of(*unit)?], projection, pole })
    }

    /// True if the world coordinates have this number of pixel axes.
    pub(super) fn has_axes(&self, count: usize) -> bool {
        self.world.axes.len() == count
    }

    /// True if the world coordinates can belong to an image of this shape, whose name says that it is one.
    pub(super) fn fits(&self, shape: &[u64]) -> bool {
        self.unfit(shape).is_none()
    }

    /// Returns the reason why the world coordinates can't belong to an image of this shape: it has not their
    /// `pixel_shape`, or else their bounding box goes beyond it.
    pub(super) fn unfit(&self, shape: &[u64]) -> Option<&'static str> {
        let is_beyond = |bounds: &Vec<[f64; 2]>| {
            let mut axes = bounds.iter().zip(shape.iter().rev());
            axes.any(|([from, to], len)| *from < -1.0 || *to > *len as f64)
        };
        if shape.len() != self.world.axes.len() {
            return Some("it has not as many pixel axes as the image");
        }
        match (&self.lengths, &self.bounds) {
            (Some(lengths), _) if !lengths.iter().eq(shape.iter().rev()) => {
                Some("its pixel_shape is not that of the image")
            }
            (None, Some(bounds)) if is_beyond(bounds) => Some("its bounding box goes beyond the image"),
            _ => None,
        }
    }

    /// True if the world coordinates themselves have this shape: it is their `pixel_shape`, or else that of their bounding
    /// box.
    pub(super) fn names_shape(&self, shape: &[u64]) -> bool {
        if !self.fits(shape) {
            return false;
        }
        match (&self.lengths, &self.bounds) {
            (Some(_), _) => true,
            (None, Some(bounds)) => bounds.iter().zip(shape.iter().rev()).all(|([from, to], len)| {
                let len = *len as f64;
                (-1.0..=0.5).contains(from) && *to > len - 2.0 && *to <= len
            }),
            (None, None) => false,
        }
    }

    /// Returns the numbers of the transform.
    pub(super) fn numbers(&self) -> &[Numbers] {
        &self.transform.numbers
    }

    /// Computes the cards for an image of a shape from the transform's numbers.
    ///
    /// # Errors
    /// The reason why there are none.
    pub(super) fn solve(&self, numbers: &[Vec<f64>], shape: &[u64]) -> Result<Solution, String> {
        let coordinates = if self.is_fitted {
            let apply = |pixel| self.apply(pixel, numbers);
            let sip = sip::fit(&apply, self.rectangle(shape))?;
            Some(Coordinates::Sip(Box::new(sip), self.begins_with_latitude()))
        } else {
            self.linear(numbers).map(Coordinates::Linear)
        };
        let coordinates = coordinates.ok_or("its matrix is singular, or its numbers are not finite")?;
        Ok(Solution { coordinates, system: self.world.sky.as_ref().map(|sky| sky.system.clone()) })
    }

    /// Evaluates the transform of an image with two dimensions; returns longitude and latitude in degrees.
    fn apply(&self, pixel: [f64; 2], numbers: &[Vec<f64>]) -> Option<[f64; 2]> {
        let mut sky = self.transform.apply(pixel, numbers)?;
        if self.begins_with_latitude() {
            sky.reverse();
        }
        // Quantities that can be evaluated are in degrees.
        let unit = self.world.sky.as_ref()?.unit;
        let factor = if self.transform.has_units { 1.0 } else { unit.in_units_of(Unit::DEGREE)? };
        Some(sky.map(|angle| angle * factor))
    }

    fn begins_with_latitude(&self) -> bool {
        matches!(self.world.axes.first(), Some(Axis::Latitude))
    }

    /// Returns the linear forms in terms of FITS keywords.
    fn linear(&self, numbers: &[Vec<f64>]) -> Option<Linear> {
        let outputs = self.outputs(numbers)?;
        let count = self.world.axes.len();
        let sky_forms = self.sky_forms(&outputs);
        let mut forms: Vec<Option<Form>> = Vec::with_capacity(count);
        for (axis, output) in self.world.axes.iter().zip(&outputs.all) {
            forms.push(match (axis, output) {
                (Axis::Longitude, _) => sky_forms.as_ref().map(|sky| sky.plane[0].clone()),
                (Axis::Latitude, _) => sky_forms.as_ref().map(|sky| sky.plane[1].clone()),
                (Axis::Spectral(spectral), Expression::Linear(form)) => {
                    form.clone().in_units_of(spectral.unit)
                }
                _ => None,
            });
        }
        let mut reference = vec![None; count];
        for form in sky_forms.iter().flat_map(|sky| &sky.plane).chain(forms.iter().flatten()) {
            form.refer(&mut reference);
        }
        let mut free = (0..count).filter(|n| reference[*n].is_none()).collect::<Vec<_>>().into_iter();
        let mut reference: Vec<f64> = reference.into_iter().map(Option::unwrap_or_default).collect();
        let mut projected = None;
        if let Some(SkyForms { projection, pole: [longitude, latitude, native], .. }) = &sky_forms {
            sky_forms.as_ref()?.centre(&mut reference)?;
            let Sky { unit, .. } = self.world.sky.as_ref()?;
            let pole = [longitude.angle(*unit)?, latitude.angle(*unit)?];
            let is_on_sphere = (pole[1] * unit.in_units_of(Unit::DEGREE)?).abs() <= 90.0;
            let native = native.angle(Unit::DEGREE)?;
            (is_on_sphere && pole[0].is_finite() && native.is_finite()).then_some(())?;
            projected = Some(Projected { projection: projection.clone(), pole, native });
        }
        let mut rows = Vec::with_capacity(count);
        for (axis, form) in self.world.axes.iter().zip(forms) {
            let Some(form) = form else {
                // An axis without cards has a pixel axis that no other one has.
                let mut coefficients = vec![0.0; count];
                coefficients[free.next()?] = 1.0;
                rows.push(Row { name: None, value: 0.0, scale: 1.0, coefficients });
                continue;
            };
            let (kind, unit, value) = match (axis, &projected, &self.world.sky) {
                (Axis::Spectral(spectral), ..) => {
                    (spectral.kind.to_owned(), spectral.text.clone(), form.at(&reference))
                }
                (_, Some(projected), Some(sky)) => {
                    let n = usize::from(matches!(axis, Axis::Latitude));
                    let kind = format!("{}-{}", sky.system.names()[n], projected.projection.code);
                    (kind, sky.text.to_owned(), projected.pole[n])
                }
                _ => return None,
            };
            let Form { scale, coefficients, .. } = form;
            rows.push(Row { name: Some(AxisName { kind, unit }), value, scale, coefficients });
        }
        let latitude = self.world.axes.iter().position(|axis| matches!(axis, Axis::Latitude));
        let all = rows.iter().flat_map(|row| row.coefficients.iter().chain([&row.value, &row.scale]));
        let is_finite = all.chain(&reference).all(|number| number.is_finite());
        (is_finite && is_regular(&rows)).then_some(Linear { reference, rows, projected, latitude })
    }

    /// Returns the map from the pixels of a plane to unit vectors in ICRS, by the transform's numbers. `None` if the
    /// reference system or the projection has none.
    pub(super) fn directions<'w>(&'w self, numbers: &'w [Vec<f64>]) -> Option<Box<Directions<'w>>> {
        let Sky { system, unit, .. } = self.world.sky.as_ref()?;
        let to_icrs = to_icrs(system)?;
        if self.is_fitted {
            return Some(Box::new(move |pixel| direction(to_icrs, self.apply(pixel, numbers)?)));
        }
        let Projected { projection, pole, native } = self.linear(numbers)?.projected?;
        let degrees = unit.in_units_of(Unit::DEGREE)?;
        let SkyForms { plane: [x, y], .. } = self.sky_forms(&self.outputs(numbers)?)?;
        let is_of_plane = |form: &Form| form.coefficients.iter().skip(2).all(|other| *other == 0.0);
        (is_of_plane(&x) && is_of_plane(&y) && x.coefficients.len() >= 2).then_some(())?;
        let deprojection =
            Deprojection::new(projection.zenithal()?, pole.map(|angle| angle * degrees), native)?;
        Some(Box::new(move |pixel| {
            let sky = deprojection.sky([x.at(&pixel) * degrees, y.at(&pixel) * degrees])?;
            direction(to_icrs, sky)
        }))
    }

    /// Returns the pixels of the planes of an image that are in the bounding box.
    pub(super) fn rectangle(&self, shape: &[u64]) -> Rectangle {
        let mut lens = shape.iter().rev().map(|len| [-0.5, *len as f64 - 0.5]);
        let mut axis = || lens.next().unwrap_or([-0.5, 0.5]);
        let image = [axis(), axis()];
        let Some([x, y, ..]) = self.bounds.as_deref() else { return image };
        let bounds = [*x, *y];
        let mut both = bounds;
        for (interval, of_image) in both.iter_mut().zip(image) {
            *interval = [interval[0].max(of_image[0]), interval[1].min(of_image[1])];
        }
        if both.iter().all(|[from, to]| from < to) { both } else { bounds }
    }
}

/// A map from pixels to unit vectors.
pub(super) type Directions<'w> = dyn Fn([f64; 2]) -> Option<[f64; 3]> + 'w;

/// The axes of ICRS.
const ICRS: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
/// The axes of ICRS in galactic coordinates (The Hipparcos and Tycho Catalogues, volume 1, section 1.5.3).
const FROM_GALACTIC: Matrix = [
    [-0.054_875_560_416_215_4, 0.494_109_427_875_583_7, -0.867_666_149_019_004_7],
    [-0.873_437_090_234_885, -0.444_829_629_960_011_2, -0.198_076_373_431_201_5],
    [-0.483_835_015_548_713_2, 0.746_982_244_497_219, 0.455_983_776_175_066_9],
];

/// Returns the rotation from a reference system to ICRS; `None` for FK4, and for another equinox than J2000.
pub(super) fn to_icrs(system: &ReferenceSystem) -> Option<Matrix> {
    match system {
        ReferenceSystem::Icrs => Some(ICRS),
        // The axes differ by 0.02 arc seconds.
        ReferenceSystem::Fk5(equinox) => (*equinox == 2000.0).then_some(ICRS),
        ReferenceSystem::Galactic => Some(FROM_GALACTIC),
        ReferenceSystem::Fk4 { .. } | ReferenceSystem::Solar(_) => None,
    }
}

/// Returns the unit vector of longitude and latitude in degrees.
pub(super) fn direction(to_icrs: Matrix, [longitude, latitude]: [f64; 2]) -> Option<[f64; 3]> {
    let vector = rotated(&to_icrs, to_cartesian(longitude, latitude));
    vector.iter().all(|length| length.is_finite()).then_some(vector)
}

/// Reads the lengths of `pixel_shape`.
fn pixel_shape(shape: &TreeNode) -> Option<Vec<u64>> {
    let len = |value: &TreeNode| value.integer().and_then(|len| u64::try_from(len).ok());
    shape.items()?.iter().map(len).collect()
}

/// Reads the bounding box of a transform: the intervals of all inputs.
fn bounding_box(transform: &TreeNode) -> Option<Vec<[f64; 2]>> {
    let bounds = transform.get("bounding_box")?;
    let interval = |node: &TreeNode| {
        let [from, to] = node.items()? else { return None };
        let end_of = |value| number(values::parameter(value, &["pixel", "pix"])?);
        let interval = [end_of(from)?, end_of(to)?];
        interval.iter().all(|end| end.is_finite()).then_some(interval)
    };
    if let Some(intervals) = bounds.get("intervals") {
        let inputs = transform.get("inputs")?.items()?;
        return inputs.iter().map(|input| interval(intervals.get(input.text()?)?)).collect();
    }
    // Before asdf-transform-schemas 0.2, a list: the last input first, or the interval of the only input.
    match interval(bounds) {
        Some(only) => Some(vec![only]),
        None => bounds.items()?.iter().rev().map(interval).collect(),
    }
}

/// World coordinates in terms of FITS keywords.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Solution {
    coordinates: Coordinates,
    system: Option<ReferenceSystem>,
}

#[derive(Clone, Debug, PartialEq)]
enum Coordinates {
    Linear(Linear),
    /// A fit; true if the latitude is the first coordinate.
    Sip(Box<Sip>, bool),
}

/// Linear maps to world coordinates and to the plane of a projection.
#[derive(Clone, Debug, PartialEq)]
struct Linear {
    /// The reference pixel, counted from 0.
    reference: Vec<f64>,
    /// The world coordinates.
    rows: Vec<Row>,
    projected: Option<Projected>,
    /// The number of the latitude.
    latitude: Option<usize>,
}

/// A world coordinate: `value + scale * Σ coefficients[i] * (pixel[i] - reference[i])`.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    /// `None` for a coordinate without cards.
    name: Option<AxisName>,
    value: f64,
    scale: f64,
    coefficients: Vec<f64>,
}

/// Kind and unit of a world coordinate.
#[derive(Clone, Debug, PartialEq)]
struct AxisName {
    kind: String,
    unit: String,
}

/// A projection with its place on the sky.
#[derive(Clone, Debug, PartialEq)]
struct Projected {
    projection: Projection,
    /// Longitude and latitude of the native pole, in the unit of the frame.
    pole: [f64; 2],
    /// The native longitude of the celestial pole, in degrees.
    native: f64,
}

/// True if the matrix of the rows has an inverse.
fn is_regular(rows: &[Row]) -> bool {
    let mut matrix: Vec<Vec<f64>> = Vec::with_capacity(rows.len());
    for row in rows {
        let slopes: Vec<f64> = row.coefficients.iter().map(|coefficient| row.scale * coefficient).collect();
        let largest = slopes.iter().fold(0.0, |largest: f64, slope| largest.max(slope.abs()));
        matrix.push(slopes.iter().map(|slope| slope / largest).collect());
    }
    for k in 0..matrix.len() {
        let pivot =
            (k..matrix.len()).max_by(|one, other| matrix[*one][k].abs().total_cmp(&matrix[*other][k].abs()));
        let Some(pivot) = pivot.filter(|pivot| matrix[*pivot][k].abs() > f64::EPSILON) else { return false };
        matrix.swap(k, pivot);
        let (done, rest) = matrix.split_at_mut(k + 1);
        for row in rest {
            let factor = row[k] / done[k][k];
            for (value, of_pivot) in row.iter_mut().zip(&done[k]) {
                *value -= factor * of_pivot;
            }
        }
    }
    true
}

impl Linear {
    /// Adds the cards, from the reference pixel to the parameters of the projection.
    fn describe(&self, cards: &mut Cards) {
        let mut set =
            |keyword: &str, value: f64, comment: &str| cards.set(keyword, Card::Float(value), comment);
        for (n, row) in self.rows.iter().enumerate() {
            let is_used = |other: &Row| other.name.is_some() && other.coefficients[n] != 0.0;
            let reference = self.reference[n] + 1.0;
            let n = n + 1;
            if self.rows.iter().any(is_used) {
                set(&format!("CRPIX{n}"), reference, "pixel coordinate of reference point");
            }
            let Some(AxisName { unit, .. }) = &row.name else { continue };
            let unit = if unit.is_empty() { String::new() } else { format!("[{unit}] ") };
            set(&format!("CRVAL{n}"), row.value, &format!("{unit}coordinate of reference point"));
            set(&format!("CDELT{n}"), row.scale, &format!("{unit}coordinate increment"));
        }
        for (i, row) in self.rows.iter().enumerate() {
            for (j, value) in row.coefficients.iter().enumerate() {
                let usual = if i == j { 1.0 } else { 0.0 };
                if row.name.is_some() || *value != usual {
                    set(&format!("PC{}_{}", i + 1, j + 1), *value, "coordinate transformation matrix");
                }
            }
        }
        if let (Some(projected), Some(latitude)) = (&self.projected, self.latitude) {
            for (n, value) in projected.projection.parameters.iter().enumerate() {
                set(&format!("PV{}_{}", latitude + 1, n + 1), *value, "projection parameter");
            }
            set("LONPOLE", projected.native, "[deg] native longitude of celestial pole");
        }
    }
}

impl Solution {
    /// Returns the world coordinates of a part of the image, whose first pixel is `corner`.
    pub(super) fn of_part(&self, corner: &[u64]) -> Self {
        let mut part = self.clone();
        let reference = match &mut part.coordinates {
            Coordinates::Linear(linear) => &mut linear.reference[..],
            Coordinates::Sip(sip, _) => &mut sip.reference[..],
        };
        for (reference, corner) in reference.iter_mut().zip(corner) {
            *reference -= *corner as f64;
        }
        part
    }

    /// Adds the cards of the world coordinates.
    pub(super) fn describe(&self, cards: &mut Cards) {
        let names: Vec<Option<AxisName>> = match &self.coordinates {
            Coordinates::Linear(linear) => {
                linear.describe(cards);
                linear.rows.iter().map(|row| row.name.clone()).collect()
            }
            Coordinates::Sip(sip, latitude_first) => {
                sip.describe(cards, *latitude_first);
                cards.set("LONPOLE", Card::Float(180.0), "[deg] native longitude of celestial pole");
                let distortion = if sip.is_linear() { "" } else { "-SIP" };
                let names = self.system.iter().flat_map(ReferenceSystem::names);
                let name =
                    |name| AxisName { kind: format!("{name}-TAN{distortion}"), unit: "deg".to_owned() };
                let mut names: Vec<_> = names.map(|one| Some(name(one))).collect();
                if *latitude_first {
                    names.reverse();
                }
                names
            }
        };
        for (n, name) in names.iter().enumerate() {
            let Some(AxisName { kind, unit }) = name else { continue };
            cards.set(&format!("CTYPE{}", n + 1), Card::Text(kind), "");
            if !unit.is_empty() {
                cards.set(&format!("CUNIT{}", n + 1), Card::Text(unit), "");
            }
        }
        if let Some(system) = &self.system {
            system.describe(cards);
        }
    }
}
