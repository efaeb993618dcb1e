//! Units of the parameters of models, and quantities in them.

use asdf_file::asdf::units;
use asdf_tree::yaml::survey::TreeNode;

use super::values::{number, written};

/// A unit as a multiple of a product of powers of base units: degree, metre, second, kilogram, pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    scale: f64,
    powers: [i8; 5],
}

/// The units that models have, with their multiples of base units.
const UNITS: [(&str, f64, [i8; 5]); 22] = [
    ("deg", 1.0, ANGLE),
    ("arcmin", 1.0 / 60.0, ANGLE),
    ("arcsec", 1.0 / 3600.0, ANGLE),
    ("mas", 1e-3 / 3600.0, ANGLE),
    ("uas", 1e-6 / 3600.0, ANGLE),
    ("rad", 180.0 / std::f64::consts::PI, ANGLE),
    ("pixel", 1.0, PIXEL),
    ("pix", 1.0, PIXEL),
    ("m", 1.0, LENGTH),
    ("Angstrom", 1e-10, LENGTH),
    ("AA", 1e-10, LENGTH),
    ("micron", 1e-6, LENGTH),
    ("AU", 149_597_870_700.0, LENGTH),
    ("solRad", 6.957e8, LENGTH),
    ("s", 1.0, [0, 0, 1, 0, 0]),
    ("min", 60.0, [0, 0, 1, 0, 0]),
    ("h", 3600.0, [0, 0, 1, 0, 0]),
    ("d", 86_400.0, [0, 0, 1, 0, 0]),
    ("Hz", 1.0, FREQUENCY),
    ("J", 1.0, ENERGY),
    ("erg", 1e-7, ENERGY),
    ("eV", 1.602_176_634e-19, ENERGY),
];
/// Prefixes of those of the units that take one.
const PREFIXES: [(&str, f64); 9] = [
    ("T", 1e12),
    ("G", 1e9),
    ("M", 1e6),
    ("k", 1e3),
    ("c", 1e-2),
    ("m", 1e-3),
    ("u", 1e-6),
    ("n", 1e-9),
    ("p", 1e-12),
];
const PREFIXED: [&str; 5] = ["m", "s", "Hz", "J", "eV"];

const ANGLE: [i8; 5] = [1, 0, 0, 0, 0];
const PIXEL: [i8; 5] = [0, 0, 0, 0, 1];
pub(super) const NONE: [i8; 5] = [0; 5];
pub(super) const LENGTH: [i8; 5] = [0, 1, 0, 0, 0];
pub(super) const WAVENUMBER: [i8; 5] = [0, -1, 0, 0, 0];
pub(super) const FREQUENCY: [i8; 5] = [0, 0, -1, 0, 0];
pub(super) const ENERGY: [i8; 5] = [0, 2, -2, 1, 0];
pub(super) const SPEED: [i8; 5] = [0, 1, -1, 0, 0];

impl Unit {
    pub(super) const DEGREE: Self = Self { scale: 1.0, powers: ANGLE };
    pub(super) const METRE: Self = Self { scale: 1.0, powers: LENGTH };
    pub(super) const PIXEL: Self = Self { scale: 1.0, powers: PIXEL };

    /// Parses a unit as astropy writes it: `arcsec.pixel**-1`. `None` if it is unknown.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut unit = Self { scale: 1.0, powers: NONE };
        for factor in text.split('.').filter(|_| !text.is_empty()) {
            let (name, exponent) = factor.split_once("**").unwrap_or((factor, "1"));
            let exponent: i8 = exponent.parse().ok()?;
            let one = Self::named(name)?;
            unit.scale *= one.scale.powi(i32::from(exponent));
            for (power, of_one) in unit.powers.iter_mut().zip(one.powers) {
                *power = power.checked_add(of_one.checked_mul(exponent)?)?;
            }
        }
        Some(unit)
    }

    fn named(name: &str) -> Option<Self> {
        let known = |name: &str| UNITS.iter().find(|(known, ..)| *known == name);
        if let Some((_, scale, powers)) = known(name) {
            return Some(Self { scale: *scale, powers: *powers });
        }
        PREFIXES.iter().find_map(|(prefix, factor)| {
            let name = name.strip_prefix(prefix).filter(|name| PREFIXED.contains(name))?;
            let (_, scale, powers) = known(name)?;
            Some(Self { scale: factor * scale, powers: *powers })
        })
    }

    /// Returns the product of two units.
    pub(super) fn times(self, other: Self) -> Option<Self> {
        let mut powers = self.powers;
        for (power, of_other) in powers.iter_mut().zip(other.powers) {
            *power = power.checked_add(of_other)?;
        }
        Some(Self { scale: self.scale * other.scale, powers })
    }

    /// Returns the number of `other` that one of this unit is; `None` if the units differ in kind.
    pub(super) fn in_units_of(self, other: Self) -> Option<f64> {
        (self.powers == other.powers).then(|| self.scale / other.scale)
    }

    /// True for a unit of this kind, such as [`LENGTH`].
    pub(super) fn is_of(self, powers: [i8; 5]) -> bool {
        self.powers == powers
    }

    /// True for products of pixels and degrees, in which models without units are.
    pub(super) fn is_usual(self) -> bool {
        self.scale == 1.0 && [NONE, PIXEL, ANGLE, [1, 0, 0, 0, -1]].contains(&self.powers)
    }
}

/// A number, with a unit if it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantity {
    pub(super) value: f64,
    pub(super) unit: Option<Unit>,
}

impl Quantity {
    /// Reads a number, or a quantity in a known unit.
    pub(super) fn read(node: &TreeNode) -> Option<Self> {
        let (value, unit) = split(node)?;
        Some(Self { value: number(value)?, unit })
    }

    /// Returns the number in another unit. Only a number without unit has none.
    pub(super) fn in_units_of(self, unit: Option<Unit>) -> Option<f64> {
        match (self.unit, unit) {
            (None, None) => Some(self.value),
            (Some(own), Some(unit)) => Some(self.value * own.in_units_of(unit)?),
            _ => None,
        }
    }

    /// Returns an angle in degrees or in another unit. Numbers without unit are degrees.
    pub(super) fn angle(self, unit: Unit) -> Option<f64> {
        Some(self.value * self.unit.unwrap_or(Unit::DEGREE).in_units_of(unit)?)
    }
}

/// Returns the value of a quantity, and its unit. `None` if the unit is unknown.
pub(super) fn split(node: &TreeNode) -> Option<(&TreeNode, Option<Unit>)> {
    if !node.target().tag.as_deref().is_some_and(units::is_quantity) {
        return Some((node, None));
    }
    let unit = Unit::parse(written(node.get("unit")?)?.trim())?;
    Some((node.get("value")?, Some(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_their_multiples() {
        let ratio = |one, other| Unit::parse(one)?.in_units_of(Unit::parse(other)?);
        assert_eq!(ratio("arcsec.pixel**-1", "deg.pix**-1"), Some(1.0 / 3600.0));
        assert_eq!(ratio("nm", "nm"), Some(1.0));
        assert!((ratio("km.s**-1", "m.s**-1").unwrap() - 1e3).abs() < 1e-9);
        assert!((ratio("GHz", "s**-1").unwrap() - 1e9).abs() < 1e-3);
        assert!((ratio("AU", "km").unwrap() - 149_597_870.7).abs() < 1e-3);
        assert_eq!(ratio("nm", "GHz"), None);
        for unknown in ["Jy", "m**x", "cHz.", "10**-10.m", "m**128", "marcsec"] {
            assert_eq!(Unit::parse(unknown), None, "{unknown}");
        }
        assert!(Unit::parse("").unwrap().is_usual() && Unit::parse("deg.pix**-1").unwrap().is_usual());
        assert!(!Unit::parse("arcsec").unwrap().is_usual());
    }
}
