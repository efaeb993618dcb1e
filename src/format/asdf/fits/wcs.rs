//! World coordinates: a `gwcs` whose only transform is `gwcs/fitswcs_imaging`, as cards of a FITS header.
//!
//! gwcs counts pixels from 0 and FITS from 1; matrix, scales and projection are the same (gwcs/fitswcs.py). Anything
//! that is not known to mean the same in FITS has no cards: none are better than wrong ones.

use super::card::{Cards, Value as Card};
use crate::format::asdf::ndarray::{self, Datatype, Ndarray, Scalar};
use crate::yaml::scalar::{self, Type};
use crate::yaml::survey::{Node, Value};

const TAG: &str = "tag:stsci.edu:gwcs/wcs-1.";
const TRANSFORM: &str = "tag:stsci.edu:gwcs/fitswcs_imaging-1.";
const CELESTIAL: &str = "tag:stsci.edu:gwcs/celestial_frame-1.";
const PROJECTION: &str = "tag:stsci.edu:asdf/transform/";

/// Keys of a projection that do not change where it leads to.
const OF_ANY_TRANSFORM: [&str; 9] = [
    "direction",
    "name",
    "inputs",
    "outputs",
    "inverse",
    "bounding_box",
    "fixed",
    "bounds",
    "input_units_equivalencies",
];

/// Whether a resolved tag is that of a gwcs.
pub(super) fn is_tag(tag: &str) -> bool {
    tag.starts_with(TAG)
}

/// A gwcs that FITS can have.
#[derive(Debug)]
pub(in super::super) struct Wcs {
    pub(super) crpix: Numbers,
    pub(super) crval: Numbers,
    pub(super) cdelt: Numbers,
    pub(super) pc: Numbers,
    projection: Projection,
    frame: Frame,
    /// The lengths of the axes that it is for, if they are written, the one that changes fastest first.
    pub(super) pixels: Option<[u64; 2]>,
}

/// Numbers of the tree.
#[derive(Debug)]
pub(super) enum Numbers {
    Written(Vec<f64>),
    InBlock(Box<Ndarray>),
}

/// A projection, and its parameters `PV2_1` and so on.
#[derive(Clone, Debug, PartialEq)]
struct Projection {
    code: &'static str,
    parameters: Vec<f64>,
}

/// A reference system.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Frame {
    Icrs,
    /// With its equinox.
    Fk5(f64),
    Galactic,
}

impl Wcs {
    /// Reads a gwcs; `None` if FITS can't have it.
    pub(super) fn read(node: &Value) -> Option<Self> {
        let [first, last] = node.get("steps")?.items()? else { return None };
        let is_end = last.get("transform").is_none_or(|end| end.scalar_type() == Some(Type::Null));
        let transform = first.get("transform").filter(|_| is_end)?;
        has_tag(transform, TRANSFORM)?;
        if !in_order(first.get("frame")?) {
            return None;
        }
        Some(Self {
            crpix: Numbers::read(transform.get("crpix")?, 2)?,
            crval: Numbers::read(transform.get("crval")?, 2)?,
            cdelt: Numbers::read(transform.get("cdelt")?, 2)?,
            pc: Numbers::read(transform.get("pc")?, 4)?,
            projection: Projection::read(transform.get("projection")?)?,
            frame: Frame::read(last.get("frame")?)?,
            pixels: match node.get("pixel_shape") {
                Some(shape) if shape.scalar_type() != Some(Type::Null) => {
                    let [x, y] = shape.items()? else { return None };
                    let len = |value: &Value| value.integer().and_then(|len| u64::try_from(len).ok());
                    Some([len(x)?, len(y)?])
                }
                _ => None,
            },
        })
    }

    /// Its cards, with its numbers: `crpix`, `crval`, `cdelt` and `pc`. `None` if they are impossible.
    pub(super) fn solve(&self, numbers: [&[f64]; 4]) -> Option<Solution> {
        let [&[x, y], &[longitude, latitude], &[dx, dy], &[p11, p12, p21, p22]] = numbers else {
            return None;
        };
        let all = [x, y, longitude, latitude, dx, dy, p11, p12, p21, p22];
        let is_sound = all.iter().all(|number| number.is_finite())
            && latitude.abs() <= 90.0
            && dx * dy != 0.0
            && p11 * p22 - p12 * p21 != 0.0;
        let (projection, frame) = (self.projection.clone(), self.frame);
        is_sound.then_some(Solution {
            crpix: [x + 1.0, y + 1.0],
            crval: [longitude, latitude],
            cdelt: [dx, dy],
            pc: [p11, p12, p21, p22],
            projection,
            frame,
        })
    }
}

fn has_tag(value: &Value, start: &str) -> Option<()> {
    value.target().tag.as_deref().filter(|tag| tag.starts_with(start)).map(|_| ())
}

/// Whether the axes of a frame come in their order.
fn in_order(frame: &Value) -> bool {
    let Some(order) = frame.get("axes_order") else { return true };
    let order = order.items().map(|items| items.iter().map(Value::integer).collect::<Vec<_>>());
    order.is_some_and(|order| order == [Some(0), Some(1)])
}

impl Numbers {
    fn read(value: &Value, count: usize) -> Option<Self> {
        let tag = value.target().tag.as_deref();
        let data = match tag.filter(|tag| ndarray::is_tag(tag)) {
            Some(tag) => match Ndarray::read(tag, value).ok()? {
                array @ Ndarray { source: ndarray::Source::Block(_), .. } => {
                    let size =
                        array.shape.as_ref()?.dimensions.iter().try_fold(1_u64, |n, len| n.checked_mul(*len));
                    return (size == Some(count as u64)).then(|| Self::InBlock(Box::new(array)));
                }
                // Numbers of fewer digits are not those that are written.
                Ndarray {
                    source: ndarray::Source::Inline(_),
                    datatype: None | Some(Datatype::Scalar(Scalar::Float64)),
                    ..
                } => value.get(ndarray::INLINE_KEY).unwrap_or(value),
                _ => return None,
            },
            None => value,
        };
        let mut numbers = Vec::with_capacity(count);
        for item in data.items()? {
            match item.items() {
                Some(row) => numbers.extend(row.iter().map(number).collect::<Option<Vec<_>>>()?),
                None => numbers.push(number(item)?),
            }
        }
        (numbers.len() == count).then_some(Self::Written(numbers))
    }
}

/// The number that a scalar is.
fn number(value: &Value) -> Option<f64> {
    let Node::Scalar { text, .. } = &value.target().node else { return None };
    match value.scalar_type()? {
        Type::Int => scalar::integer(text).map(|value| value as f64),
        Type::Float => scalar::float(text),
        _ => None,
    }
}

impl Projection {
    fn read(value: &Value) -> Option<Self> {
        let tag = value.target().tag.as_deref()?.strip_prefix(PROJECTION)?;
        let (name, _) = tag.rsplit_once('-')?;
        // Those whose reference point is the native pole: gwcs rotates only these as FITS does.
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
        let is_known =
            |key: &str| OF_ANY_TRANSFORM.contains(&key) || keys.iter().any(|(known, _)| *known == key);
        let Node::Mapping(entries) = &value.target().node else { return None };
        if !entries.iter().all(|(key, _)| key.text().is_some_and(is_known)) {
            return None;
        }
        let parameters = keys.iter().map(|(key, default)| match value.get(key) {
            Some(parameter) => number(parameter).filter(|number| number.is_finite()),
            None => Some(*default),
        });
        Some(Self { code, parameters: parameters.collect::<Option<_>>()? })
    }
}

impl Frame {
    fn read(frame: &Value) -> Option<Self> {
        has_tag(frame, CELESTIAL)?;
        let degrees = |unit: &Value| written(unit) == Some("deg");
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

/// The Julian epoch that a time is, as asdf-astropy writes it: `J2000.000`, by itself or as a value.
fn julian(time: &Value) -> Option<f64> {
    let text = written(time).or_else(|| written(time.get("value")?))?;
    text.strip_prefix('J')?.parse().ok().filter(|year: &f64| (1800.0..2200.0).contains(year))
}

/// The text of a scalar, whatever its tag.
fn written(value: &Value) -> Option<&str> {
    match &value.target().node {
        Node::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

/// World coordinates as FITS has them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Solution {
    crpix: [f64; 2],
    crval: [f64; 2],
    cdelt: [f64; 2],
    pc: [f64; 4],
    projection: Projection,
    frame: Frame,
}

impl Solution {
    /// Adds its cards.
    pub(super) fn describe(&self, cards: &mut Cards) {
        let mut set =
            |keyword: &str, value: f64, comment: &str| cards.set(keyword, Card::Float(value), comment);
        for n in 0..2 {
            set(&format!("CRPIX{}", n + 1), self.crpix[n], "pixel coordinate of reference point");
            set(&format!("CRVAL{}", n + 1), self.crval[n], "[deg] coordinate of reference point");
            set(&format!("CDELT{}", n + 1), self.cdelt[n], "[deg] coordinate increment");
        }
        for (n, value) in self.pc.iter().enumerate() {
            set(&format!("PC{}_{}", n / 2 + 1, n % 2 + 1), *value, "coordinate transformation matrix");
        }
        for (n, value) in self.projection.parameters.iter().enumerate() {
            set(&format!("PV2_{}", n + 1), *value, "projection parameter");
        }
        // gwcs turns by 180 degrees whatever the latitude; FITS would not at a pole.
        set("LONPOLE", 180.0, "[deg] native longitude of celestial pole");
        let (names, system, equinox) = match self.frame {
            Frame::Icrs => (["RA--", "DEC-"], Some("ICRS"), None),
            Frame::Fk5(equinox) => (["RA--", "DEC-"], Some("FK5"), Some(equinox)),
            Frame::Galactic => (["GLON", "GLAT"], None, None),
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
