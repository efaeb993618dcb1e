//! Projections of the sky to a plane.

use asdf_tree::yaml::survey::TreeNode;

use super::rotation::{Matrix, inverse, rotated, rotation_of, to_cartesian, to_spherical};
use super::values::{self, number};

/// A zenithal projection and its parameters `PV2_1`, `PV2_2`, …
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Projection {
    pub(super) code: &'static str,
    pub(super) parameters: Vec<f64>,
    pub(super) to_sky: bool,
}

/// A zenithal projection without parameters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Zenithal {
    Gnomonic,
    Stereographic,
    Orthographic,
    EqualArea,
    Equidistant,
}

impl Projection {
    pub(super) fn read(value: &TreeNode) -> Option<Self> {
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
        let to_sky = match value.get("direction").map_or(Some("pix2sky"), TreeNode::text)? {
            "pix2sky" => true,
            "sky2pix" => false,
            _ => return None,
        };
        let own: Vec<&str> = keys.iter().map(|(key, _)| *key).chain(["input_units_equivalencies"]).collect();
        if !values::has_only(value, &own) {
            return None;
        }
        let parameters = keys.iter().map(|(key, default)| match value.get(key) {
            Some(parameter) => number(parameter).filter(|number| number.is_finite()),
            None => Some(*default),
        });
        Some(Self { code, parameters: parameters.collect::<Option<_>>()?, to_sky })
    }

    /// Returns the projection if it can be evaluated.
    pub(super) fn zenithal(&self) -> Option<Zenithal> {
        // The parameters of an orthographic projection slant it.
        let has_parameters = self.parameters.iter().any(|parameter| *parameter != 0.0);
        if has_parameters { None } else { Zenithal::of_code(self.code) }
    }
}

/// A zenithal projection with the place of its pole on the sky.
#[derive(Debug)]
pub(super) struct Deprojection {
    projection: Zenithal,
    rotation: Matrix,
}

impl Deprojection {
    /// `native` is the native longitude of the celestial pole, in degrees as the others.
    pub(super) fn new(projection: Zenithal, [longitude, latitude]: [f64; 2], native: f64) -> Option<Self> {
        let rotation = rotation_of([longitude, latitude, native].map(f64::to_radians), "native2celestial")?;
        Some(Self { projection, rotation })
    }

    /// Returns the sky coordinates of a point in the plane, in degrees.
    pub(super) fn sky(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        let [phi, theta] = self.projection.to_sky(x, y)?;
        Some(to_spherical(rotated(&self.rotation, to_cartesian(phi, theta))))
    }

    /// Returns the point in the plane, in degrees, of a direction on the sky.
    pub(super) fn plane(&self, direction: [f64; 3]) -> Option<[f64; 2]> {
        let [phi, theta] = to_spherical(rotated(&inverse(&self.rotation), direction));
        self.projection.to_plane(phi, theta)
    }
}

impl Zenithal {
    /// Returns the projection with this code in `CTYPE`.
    pub(super) fn of_code(code: &str) -> Option<Self> {
        match code {
            "TAN" => Some(Self::Gnomonic),
            "STG" => Some(Self::Stereographic),
            "SIN" => Some(Self::Orthographic),
            "ZEA" => Some(Self::EqualArea),
            "ARC" => Some(Self::Equidistant),
            _ => None,
        }
    }

    /// Returns native longitude and latitude of a point in the plane, in degrees.
    pub(super) fn to_sky(self, x: f64, y: f64) -> Option<[f64; 2]> {
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
    pub(super) fn to_plane(self, phi: f64, theta: f64) -> Option<[f64; 2]> {
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
