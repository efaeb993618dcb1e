//! World coordinates of a `gwcs` as cards of a FITS header.
//!
//! Cards are exact if the transform is `gwcs/fitswcs_imaging`, or a chain of linear models, a projection and a
//! rotation. Other transforms are fitted by TAN-SIP.
//!
//! gwcs counts pixels from 0 and FITS from 1; matrix, scales and projection are the same (gwcs/fitswcs.py). A
//! transform gets no cards unless it is known to have the same meaning in FITS: no cards are better than
//! wrong ones.

use std::sync::OnceLock;

use super::card::{Cards, Value as Card};
use super::linear::{self, Model, Plane};
use super::model::{Deprojection, Matrix, Transform, rotated, to_cartesian};
use super::sip::{self, Rectangle, Sip};
use super::values::{self, Numbers, has_tag, number, written};
use crate::yaml::event::Mark;
use crate::yaml::scalar::Type;
use crate::yaml::survey::TreeNode;

const TAG: &str = "tag:stsci.edu:gwcs/wcs-1.";
const TRANSFORM: &str = "tag:stsci.edu:gwcs/fitswcs_imaging-1.";
const CELESTIAL: &str = "tag:stsci.edu:gwcs/celestial_frame-1.";

/// True for the resolved tag of a gwcs.
pub(super) fn is_tag(tag: &str) -> bool {
    tag.starts_with(TAG)
}

/// A gwcs from the pixels of an image to the sky.
#[derive(Debug)]
pub(in super::super) struct Wcs {
    map: Map,
    frame: ReferenceSystem,
    /// The lengths of the image's axes, if written, the fastest-varying axis first.
    pixels: Option<[u64; 2]>,
    /// The bounding box, if written.
    bounds: Option<Rectangle>,
    /// The node in the tree, for notes: its place and its path.
    pub(super) place: Mark,
    pub(super) path: String,
    /// The solution for an image of a shape.
    pub(super) solved: OnceLock<Solved>,
}

/// The world coordinates of an image of a shape, or the reason why FITS can't express them.
#[derive(Debug)]
pub(super) struct Solved {
    pub(super) shape: [u64; 2],
    pub(super) solution: Result<Solution, String>,
}

/// The map from pixels to the sky.
#[derive(Debug)]
enum Map {
    /// The FITS keywords `crpix` (counted from 0), `crval`, `cdelt` and `pc`.
    Keywords(Box<[Numbers; 4]>, Projection),
    Chain(Vec<Model>, Projection, Pole),
    /// Any other transform, which is fitted.
    Fitted(Transform),
}

/// The celestial position of a projection's native pole, in degrees.
#[derive(Clone, Copy, Debug)]
struct Pole {
    longitude: f64,
    latitude: f64,
    /// The native longitude of the celestial pole.
    native: f64,
}

/// A projection and its parameters `PV2_1`, `PV2_2`, …
#[derive(Clone, Debug, PartialEq)]
struct Projection {
    code: &'static str,
    parameters: Vec<f64>,
}

/// A reference system.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ReferenceSystem {
    Icrs,
    /// FK5 with its equinox.
    Fk5(f64),
    Galactic,
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
        if !first.get("frame").is_some_and(in_order) {
            return Err("the axes of its input are not x and y".to_owned());
        }
        let transforms: Option<Vec<&TreeNode>> = steps.iter().map(|step| step.get("transform")).collect();
        let transforms = transforms.ok_or("one of its steps has no transform")?;
        let frame = last.get("frame").and_then(ReferenceSystem::read);
        let frame = frame.ok_or("its output is not in degrees in ICRS, FK5 or galactic coordinates")?;
        let map = match Map::exact(&transforms) {
            Some(map) => map,
            None => Map::Fitted(Transform::read(&transforms)?),
        };
        let pixels = match node.get("pixel_shape") {
            Some(shape) if shape.scalar_type() != Some(Type::Null) => {
                Some(pixel_shape(shape).ok_or("its pixel_shape is not two lengths")?)
            }
            _ => None,
        };
        let bounds = transforms.first().and_then(|transform| bounding_box(transform));
        Ok(Self { map, frame, pixels, bounds, place: node.place, path, solved: OnceLock::new() })
    }

    /// True if the world coordinates can belong to an image of this shape, whose name says that it is one.
    pub(super) fn fits(&self, [y, x]: [u64; 2]) -> bool {
        self.pixels.is_none_or(|pixels| pixels == [x, y])
    }

    /// True if the world coordinates themselves say that they belong to an image of this shape.
    pub(super) fn tells(&self, [y, x]: [u64; 2]) -> bool {
        match (self.pixels, self.bounds) {
            (Some(pixels), _) => pixels == [x, y],
            (None, Some(bounds)) => bounds.iter().zip([x, y]).all(|([from, to], len)| {
                let len = len as f64;
                (-1.0..=0.5).contains(from) && *to > len - 2.0 && *to <= len
            }),
            (None, None) => false,
        }
    }

    /// Returns the numbers of the map.
    pub(super) fn numbers(&self) -> Vec<&Numbers> {
        match &self.map {
            Map::Keywords(keywords, _) => keywords.iter().collect(),
            Map::Chain(models, ..) => models.iter().flat_map(Model::numbers).collect(),
            Map::Fitted(transform) => transform.numbers.iter().collect(),
        }
    }

    /// Computes the cards for an image of a shape from the map's numbers.
    ///
    /// # Errors
    /// The reason why there are none.
    pub(super) fn solve(&self, numbers: &[Vec<f64>], shape: [u64; 2]) -> Result<Solution, String> {
        let coordinates = match &self.map {
            Map::Keywords(_, projection) => Linear::of_keywords(numbers, projection).map(Coordinates::Linear),
            Map::Chain(models, projection, pole) => {
                Linear::of_chain(models, numbers, projection, *pole).map(Coordinates::Linear)
            }
            Map::Fitted(transform) => {
                let apply = |pixel| transform.apply(pixel, numbers);
                Some(Coordinates::Sip(Box::new(sip::fit(&apply, self.rectangle(shape))?)))
            }
        };
        let coordinates = coordinates.ok_or("its matrix is singular, or its numbers are not finite")?;
        Ok(Solution { coordinates, frame: self.frame })
    }

    /// Returns the map from pixels to unit vectors in ICRS, by the map's numbers. `None` if the reference system or
    /// the projection has none.
    pub(super) fn directions<'w>(&'w self, numbers: &'w [Vec<f64>]) -> Option<Box<Directions<'w>>> {
        let linear = match &self.map {
            Map::Keywords(_, projection) => Linear::of_keywords(numbers, projection)?,
            Map::Chain(models, projection, pole) => Linear::of_chain(models, numbers, projection, *pole)?,
            Map::Fitted(transform) => {
                let frame = self.frame.to_icrs()?;
                return Some(Box::new(move |pixel| frame.direction(transform.apply(pixel, numbers)?)));
            }
        };
        let frame = self.frame.to_icrs()?;
        // The parameters of an orthographic projection slant it.
        linear.projection.parameters.iter().all(|parameter| *parameter == 0.0).then_some(())?;
        let projection = Deprojection::new(linear.projection.code, linear.crval, linear.pole)?;
        Some(Box::new(move |pixel| frame.direction(projection.sky(linear.plane.at(pixel))?)))
    }

    /// Returns the pixels of an image that are in the bounding box.
    pub(super) fn rectangle(&self, [y, x]: [u64; 2]) -> Rectangle {
        let image = [x, y].map(|len| [-0.5, len as f64 - 0.5]);
        let Some(bounds) = self.bounds else { return image };
        let mut both = bounds;
        for (interval, of_image) in both.iter_mut().zip(image) {
            *interval = [interval[0].max(of_image[0]), interval[1].min(of_image[1])];
        }
        if both.iter().all(|[from, to]| from < to) { both } else { bounds }
    }
}

/// A map from pixels to unit vectors.
type Directions<'w> = dyn Fn([f64; 2]) -> Option<[f64; 3]> + 'w;

/// The rotation from a reference system to ICRS.
#[derive(Clone, Copy)]
struct ToIcrs(Matrix);

/// The axes of ICRS.
const ICRS: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
/// The axes of ICRS in galactic coordinates (The Hipparcos and Tycho Catalogues, volume 1, section 1.5.3).
const FROM_GALACTIC: Matrix = [
    [-0.054_875_560_416_215_4, 0.494_109_427_875_583_7, -0.867_666_149_019_004_7],
    [-0.873_437_090_234_885, -0.444_829_629_960_011_2, -0.198_076_373_431_201_5],
    [-0.483_835_015_548_713_2, 0.746_982_244_497_219, 0.455_983_776_175_066_9],
];

impl ToIcrs {
    /// Returns the unit vector of longitude and latitude in degrees.
    fn direction(self, [longitude, latitude]: [f64; 2]) -> Option<[f64; 3]> {
        let vector = rotated(&self.0, to_cartesian(longitude, latitude));
        vector.iter().all(|length| length.is_finite()).then_some(vector)
    }
}

/// Reads the two lengths of `pixel_shape`.
fn pixel_shape(shape: &TreeNode) -> Option<[u64; 2]> {
    let [x, y] = shape.items()? else { return None };
    let len = |value: &TreeNode| value.integer().and_then(|len| u64::try_from(len).ok());
    Some([len(x)?, len(y)?])
}

/// Reads the bounding box of a transform with two inputs: the intervals of x and y.
fn bounding_box(transform: &TreeNode) -> Option<Rectangle> {
    let bounds = transform.get("bounding_box")?;
    let interval = |node: &TreeNode| {
        let [from, to] = node.items()? else { return None };
        let end = |value| number(values::parameter(value, &["pixel", "pix"])?);
        let interval = [end(from)?, end(to)?];
        interval.iter().all(|end| end.is_finite()).then_some(interval)
    };
    if let Some(intervals) = bounds.get("intervals") {
        let [x, y] = transform.get("inputs")?.items()? else { return None };
        let of = |input: &TreeNode| interval(intervals.get(input.text()?)?);
        return Some([of(x)?, of(y)?]);
    }
    // Before asdf-transform-schemas 0.2, a list: the last input first.
    let [y, x] = bounds.items()? else { return None };
    Some([interval(x)?, interval(y)?])
}

impl Map {
    /// Returns the map if FITS can express it exactly.
    fn exact(transforms: &[&TreeNode]) -> Option<Self> {
        if let [transform] = transforms
            && has_tag(transform, TRANSFORM).is_some()
        {
            let numbers = |key, count| Numbers::read(transform.get(key)?, count);
            let keywords =
                [numbers("crpix", 2)?, numbers("crval", 2)?, numbers("cdelt", 2)?, numbers("pc", 4)?];
            return Some(Self::Keywords(Box::new(keywords), Projection::read(transform.get("projection")?)?));
        }
        let chain = linear::chain(transforms)?;
        let [models @ .., projection, rotation] = &chain[..] else { return None };
        let models = models.iter().map(|model| Model::read(model)).collect::<Option<_>>()?;
        Some(Self::Chain(models, Projection::read(projection)?, Pole::read(rotation)?))
    }
}

impl Linear {
    fn of_keywords(numbers: &[Vec<f64>], projection: &Projection) -> Option<Self> {
        let [crpix, crval, cdelt, pc] = numbers else { return None };
        let plane = Plane {
            reference: crpix[..].try_into().ok()?,
            scale: cdelt[..].try_into().ok()?,
            matrix: pc[..].try_into().ok()?,
        };
        let crval = crval[..].try_into().ok()?;
        // gwcs always uses 180 degrees. The default of FITS differs at a latitude of 90 degrees.
        Self { plane, crval, pole: 180.0, projection: projection.clone() }.if_sound()
    }

    fn of_chain(models: &[Model], numbers: &[Vec<f64>], projection: &Projection, pole: Pole) -> Option<Self> {
        let plane = linear::plane(models, numbers)?;
        let crval = [pole.longitude, pole.latitude];
        Self { plane, crval, pole: pole.native, projection: projection.clone() }.if_sound()
    }

    fn if_sound(self) -> Option<Self> {
        let Self { plane, crval, pole, .. } = &self;
        let [p11, p12, p21, p22] = plane.matrix;
        let all = [&plane.reference[..], &plane.scale, &plane.matrix, crval, &[*pole]].concat();
        let is_sound = all.iter().all(|number| number.is_finite())
            && crval[1].abs() <= 90.0
            && plane.scale[0] * plane.scale[1] != 0.0
            && p11 * p22 - p12 * p21 != 0.0;
        is_sound.then_some(self)
    }
}

impl Pole {
    fn read(rotation: &TreeNode) -> Option<Self> {
        let is_fits = values::model(rotation)? == "rotate3d"
            && rotation.get("direction")?.text() == Some("native2celestial")
            && values::has_only(rotation, &["phi", "theta", "psi"]);
        let angle = |key| number(values::parameter(rotation.get(key)?, &["deg"])?);
        is_fits.then_some(())?;
        Some(Self { longitude: angle("phi")?, latitude: angle("theta")?, native: angle("psi")? })
    }
}

/// True if the axes of a frame are in the default order.
fn in_order(frame: &TreeNode) -> bool {
    let Some(order) = frame.get("axes_order") else { return true };
    let order = order.items().map(|items| items.iter().map(TreeNode::integer).collect::<Vec<_>>());
    order.is_some_and(|order| order == [Some(0), Some(1)])
}

impl Projection {
    fn read(value: &TreeNode) -> Option<Self> {
        let name = values::model(value)?;
        // Supports only projections with the reference point at the native pole: gwcs and FITS rotate other
        // projections differently.
        let (code, keys): (_, &[(&str, f64)]) = match name {
            "gnomonic" => ("TAN", &[]),
            "stereographic" => ("STG", &[]),
            "slant_orthographic" => ("SIN", &[("xi", 0.0), ("eta", 0.0)]),
            "zenithal_equal_area" => ("ZEA", &[]),
            "zenithal_equidistant" => ("ARC", &[]),
            "zenithal_perspective" => ("AZP", &[("mu", 0.0), ("gamma", 0.0)]),
            "slant_zenithal_perspective" => ("SZP", &[("mu", 0.0), ("phi0", 0.0), ("theta0", 90.0)]),
            "airy" => ("AIR", &[("theta_b", 90.0)]),
            _ => return None,
        };
        if value.get("direction").is_some_and(|direction| direction.text() != Some("pix2sky")) {
            return None;
        }
        let own: Vec<&str> = keys.iter().map(|(key, _)| *key).chain(["input_units_equivalencies"]).collect();
        if !values::has_only(value, &own) {
            return None;
        }
        let parameters = keys.iter().map(|(key, default)| match value.get(key) {
            Some(parameter) => number(parameter).filter(|number| number.is_finite()),
            None => Some(*default),
        });
        Some(Self { code, parameters: parameters.collect::<Option<_>>()? })
    }
}

impl ReferenceSystem {
    /// Returns the rotation to ICRS; `None` for another equinox than J2000.
    fn to_icrs(self) -> Option<ToIcrs> {
        match self {
            Self::Icrs => Some(ToIcrs(ICRS)),
            // The axes differ by 0.02 arc seconds.
            Self::Fk5(equinox) => (equinox == 2000.0).then_some(ToIcrs(ICRS)),
            Self::Galactic => Some(ToIcrs(FROM_GALACTIC)),
        }
    }

    fn read(frame: &TreeNode) -> Option<Self> {
        has_tag(frame, CELESTIAL)?;
        let degrees = |unit: &TreeNode| written(unit) == Some("deg");
        let units = frame.get("unit")?.items()?;
        if !in_order(frame) || units.len() != 2 || !units.iter().all(degrees) {
            return None;
        }
        let system = frame.get("reference_frame")?;
        let tag = system.target().tag.as_deref()?;
        let (_, name) = tag.rsplit_once('/')?;
        let (name, _) = name.rsplit_once('-')?;
        match name {
            "icrs" => Some(Self::Icrs),
            "galactic" => Some(Self::Galactic),
            "fk5" => {
                let equinox = system.get("frame_attributes").and_then(|attributes| attributes.get("equinox"));
                Some(Self::Fk5(equinox.map_or(Some(2000.0), julian)?))
            }
            _ => None,
        }
    }
}

/// Parses a Julian epoch as asdf-astropy writes it: `J2000.000`, as the node itself or as its `value`.
fn julian(time: &TreeNode) -> Option<f64> {
    let text = written(time).or_else(|| written(time.get("value")?))?;
    text.strip_prefix('J')?.parse().ok().filter(|year: &f64| (1800.0..2200.0).contains(year))
}

/// World coordinates in terms of FITS keywords.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Solution {
    coordinates: Coordinates,
    frame: ReferenceSystem,
}

#[derive(Clone, Debug, PartialEq)]
enum Coordinates {
    Linear(Linear),
    Sip(Box<Sip>),
}

/// A linear map to the plane of a projection.
#[derive(Clone, Debug, PartialEq)]
struct Linear {
    plane: Plane,
    crval: [f64; 2],
    pole: f64,
    projection: Projection,
}

impl Linear {
    /// Adds the cards, from the reference pixel to the parameters of the projection.
    fn describe(&self, cards: &mut Cards) {
        let mut set =
            |keyword: &str, value: f64, comment: &str| cards.set(keyword, Card::Float(value), comment);
        for n in 0..2 {
            set(
                &format!("CRPIX{}", n + 1),
                self.plane.reference[n] + 1.0,
                "pixel coordinate of reference point",
            );
            set(&format!("CRVAL{}", n + 1), self.crval[n], "[deg] coordinate of reference point");
            set(&format!("CDELT{}", n + 1), self.plane.scale[n], "[deg] coordinate increment");
        }
        for (n, value) in self.plane.matrix.iter().enumerate() {
            set(&format!("PC{}_{}", n / 2 + 1, n % 2 + 1), *value, "coordinate transformation matrix");
        }
        for (n, value) in self.projection.parameters.iter().enumerate() {
            set(&format!("PV2_{}", n + 1), *value, "projection parameter");
        }
    }
}

impl Solution {
    /// Adds the cards of the world coordinates.
    pub(super) fn describe(&self, cards: &mut Cards) {
        let (code, distortion, pole) = match &self.coordinates {
            Coordinates::Linear(linear) => {
                linear.describe(cards);
                (linear.projection.code, "", linear.pole)
            }
            Coordinates::Sip(sip) => {
                sip.describe(cards);
                ("TAN", if sip.is_linear() { "" } else { "-SIP" }, 180.0)
            }
        };
        let mut set =
            |keyword: &str, value: f64, comment: &str| cards.set(keyword, Card::Float(value), comment);
        set("LONPOLE", pole, "[deg] native longitude of celestial pole");
        let (names, system, equinox) = match self.frame {
            ReferenceSystem::Icrs => (["RA--", "DEC-"], Some("ICRS"), None),
            ReferenceSystem::Fk5(equinox) => (["RA--", "DEC-"], Some("FK5"), Some(equinox)),
            ReferenceSystem::Galactic => (["GLON", "GLAT"], None, None),
        };
        if let Some(equinox) = equinox {
            set("EQUINOX", equinox, "[yr] equinox of the coordinates");
        }
        for (n, name) in names.iter().enumerate() {
            let kind = format!("{name}-{code}{distortion}");
            cards.set(&format!("CTYPE{}", n + 1), Card::Text(&kind), "");
            cards.set(&format!("CUNIT{}", n + 1), Card::Text("deg"), "");
        }
        if let Some(system) = system {
            cards.set("RADESYS", Card::Text(system), "");
        }
    }
}
