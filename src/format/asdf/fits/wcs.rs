//! World coordinates of a `gwcs` as cards of a FITS header. The transform is `gwcs/fitswcs_imaging`, or a
//! chain of linear models, a projection and a rotation.
//!
//! gwcs counts pixels from 0 and FITS from 1; matrix, scales and projection are the same (gwcs/fitswcs.py). A
//! transform gets no cards unless it is known to have the same meaning in FITS: no cards are better than
//! wrong ones.

use super::card::{Cards, Value as Card};
use super::linear::{self, Model, Plane};
use super::values::{self, Numbers, has_tag, number, written};
use crate::yaml::scalar::Type;
use crate::yaml::survey::TreeNode;

const TAG: &str = "tag:stsci.edu:gwcs/wcs-1.";
const TRANSFORM: &str = "tag:stsci.edu:gwcs/fitswcs_imaging-1.";
const CELESTIAL: &str = "tag:stsci.edu:gwcs/celestial_frame-1.";

/// True for the resolved tag of a gwcs.
pub(super) fn is_tag(tag: &str) -> bool {
    tag.starts_with(TAG)
}

/// A gwcs that FITS can express.
#[derive(Debug)]
pub(in super::super) struct Wcs {
    map: Map,
    projection: Projection,
    frame: ReferenceSystem,
    /// The lengths of the image's axes, if written, the fastest-varying axis first.
    pub(super) pixels: Option<[u64; 2]>,
}

/// The map from pixels to the projection plane, and the rotation from there to the sky.
#[derive(Debug)]
enum Map {
    /// The FITS keywords `crpix` (counted from 0), `crval`, `cdelt` and `pc`.
    Keywords(Box<[Numbers; 4]>),
    Chain(Vec<Model>, Pole),
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
    /// Reads a gwcs; `None` if FITS can't express it.
    pub(super) fn read(node: &TreeNode) -> Option<Self> {
        let (last, steps) = node.get("steps")?.items()?.split_last()?;
        let is_end = last.get("transform").is_none_or(|end| end.scalar_type() == Some(Type::Null));
        let first = steps.first().filter(|_| is_end)?;
        if !in_order(first.get("frame")?) {
            return None;
        }
        let transforms: Vec<&TreeNode> =
            steps.iter().map(|step| step.get("transform")).collect::<Option<_>>()?;
        let (map, projection) = match transforms[..] {
            [transform] if has_tag(transform, TRANSFORM).is_some() => {
                let numbers = |key, count| Numbers::read(transform.get(key)?, count);
                let keywords =
                    [numbers("crpix", 2)?, numbers("crval", 2)?, numbers("cdelt", 2)?, numbers("pc", 4)?];
                (Map::Keywords(Box::new(keywords)), transform.get("projection")?)
            }
            _ => {
                let chain = linear::chain(&transforms)?;
                let ([rotation, projection], models) = match &chain[..] {
                    [models @ .., projection, rotation] => ([*rotation, *projection], models),
                    _ => return None,
                };
                let models = models.iter().map(|model| Model::read(model)).collect::<Option<_>>()?;
                (Map::Chain(models, Pole::read(rotation)?), projection)
            }
        };
        Some(Self {
            map,
            projection: Projection::read(projection)?,
            frame: ReferenceSystem::read(last.get("frame")?)?,
            pixels: match node.get("pixel_shape") {
                Some(shape) if shape.scalar_type() != Some(Type::Null) => {
                    let [x, y] = shape.items()? else { return None };
                    let len = |value: &TreeNode| value.integer().and_then(|len| u64::try_from(len).ok());
                    Some([len(x)?, len(y)?])
                }
                _ => None,
            },
        })
    }

    /// Returns the numbers of the map.
    pub(super) fn numbers(&self) -> Vec<&Numbers> {
        match &self.map {
            Map::Keywords(keywords) => keywords.iter().collect(),
            Map::Chain(models, _) => models.iter().flat_map(Model::numbers).collect(),
        }
    }

    /// Computes the cards from the map's numbers; `None` if the numbers are invalid.
    pub(super) fn solve(&self, numbers: &[Vec<f64>]) -> Option<Solution> {
        let (plane, crval, pole) = match &self.map {
            Map::Keywords(_) => {
                let [crpix, crval, cdelt, pc] = numbers else { return None };
                let plane = Plane {
                    reference: crpix[..].try_into().ok()?,
                    scale: cdelt[..].try_into().ok()?,
                    matrix: pc[..].try_into().ok()?,
                };
                // gwcs always uses 180 degrees. The default of FITS differs at a latitude of 90 degrees.
                (plane, crval[..].try_into().ok()?, 180.0)
            }
            Map::Chain(models, pole) => {
                (linear::plane(models, numbers)?, [pole.longitude, pole.latitude], pole.native)
            }
        };
        let [p11, p12, p21, p22] = plane.matrix;
        let all = [&plane.reference[..], &plane.scale, &plane.matrix, &crval, &[pole]].concat();
        let is_sound = all.iter().all(|number| number.is_finite())
            && crval[1].abs() <= 90.0
            && plane.scale[0] * plane.scale[1] != 0.0
            && p11 * p22 - p12 * p21 != 0.0;
        let (projection, frame) = (self.projection.clone(), self.frame);
        is_sound.then_some(Solution { plane, crval, pole, projection, frame })
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
    plane: Plane,
    crval: [f64; 2],
    pole: f64,
    projection: Projection,
    frame: ReferenceSystem,
}

impl Solution {
    /// Adds the cards of the world coordinates.
    pub(super) fn describe(&self, cards: &mut Cards) {
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
        set("LONPOLE", self.pole, "[deg] native longitude of celestial pole");
        let (names, system, equinox) = match self.frame {
            ReferenceSystem::Icrs => (["RA--", "DEC-"], Some("ICRS"), None),
            ReferenceSystem::Fk5(equinox) => (["RA--", "DEC-"], Some("FK5"), Some(equinox)),
            ReferenceSystem::Galactic => (["GLON", "GLAT"], None, None),
        };
        if let Some(equinox) = equinox {
            set("EQUINOX", equinox, "[yr] equinox of the coordinates");
        }
        for (n, name) in names.iter().enumerate() {
            let kind = format!("{name}-{}", self.projection.code);
            cards.set(&format!("CTYPE{}", n + 1), Card::Text(&kind), "");
            cards.set(&format!("CUNIT{}", n + 1), Card::Text("deg"), "");
        }
        if let Some(system) = system {
            cards.set("RADESYS", Card::Text(system), "");
        }
    }
}
