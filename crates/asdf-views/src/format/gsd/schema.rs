//! The HOOMD schema: the quantities of a frame, and the value of each if a frame does not store it.
//!
//! The rules are those of `gsd.hoomd`, the reader of the gsd package. A quantity that a frame lacks is taken
//! from frame 0, or is a default if frame 0 lacks it, too. Per-particle and per-bond quantities are taken
//! from frame 0 only if both frames have equally many particles or bonds.

use asdf_file::array::Scalar;

use super::header::Version;

/// The name of the schema in the header of a file.
pub(crate) const NAME: &[u8] = b"hoomd";

/// The layout of a quantity's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// One number: the first element of the chunk.
    Number,
    /// The whole chunk.
    WholeChunk,
    /// The whole chunk; the default has one row per particle, bond and so on.
    Rows,
    /// Names of types, one per row of characters.
    Types,
    /// JSON texts, one per type and row of characters.
    Shapes,
}

/// Numbers of one type: a default value, or one row of a default value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) scalar: Scalar,
    /// Number of columns; `None` for a single number.
    pub(crate) columns: Option<u64>,
    /// The bytes of the numbers.
    pub(crate) bytes: &'static [u8],
}

/// A quantity of the schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    /// The last component of the chunk's name.
    pub(crate) name: &'static str,
    pub(crate) rule: Rule,
    /// The value if there is no chunk. For [`Rule::Types`] it is a type name or empty, for [`Rule::Shapes`]
    /// a text.
    pub(crate) default: Numbers,
}

/// Quantities that share the first component of their names, and their number of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) quantities: &'static [Quantity],
}

/// Returns the default of names and shapes: one row of these characters, or no row.
const fn words(bytes: &'static [u8]) -> Numbers {
    Numbers { scalar: Scalar::Int8, columns: Some(bytes.len() as u64), bytes }
}

const fn number(scalar: Scalar, bytes: &'static [u8]) -> Numbers {
    Numbers { scalar, columns: None, bytes }
}

const fn row(scalar: Scalar, columns: u64, bytes: &'static [u8]) -> Numbers {
    Numbers { scalar, columns: Some(columns), bytes }
}

const fn quantity(name: &'static str, rule: Rule, default: Numbers) -> Quantity {
    Quantity { name, rule, default }
}

const F4: Scalar = Scalar::Float32;
const U4: Scalar = Scalar::Uint32;
const I4: Scalar = Scalar::Int32;
const ZEROS: [u8; 16] = [0; 16];
const ONE: [u8; 4] = 1_f32.to_le_bytes();

/// Returns a default of `columns` zeros of 4 bytes each.
const fn zeros(scalar: Scalar, columns: u64) -> Numbers {
    let (bytes, _) = ZEROS.split_at(4 * columns as usize);
    row(scalar, columns, bytes)
}

const NO_NUMBER: Numbers = number(U4, &[0; 4]);

/// The number of particles, bonds and so on. If there is no chunk, `gsd.hoomd` returns Python's integer 0,
/// which NumPy saves as int64.
const N: Quantity = quantity("N", Rule::Number, number(Scalar::Int64, &[0; 8]));
const TYPEID: Quantity = quantity("typeid", Rule::Rows, NO_NUMBER);
const NO_TYPES: Quantity = quantity("types", Rule::Types, words(b""));

const fn members(columns: u64) -> Quantity {
    quantity("group", Rule::Rows, zeros(U4, columns))
}

const fn one(name: &'static str) -> Quantity {
    quantity(name, Rule::Rows, number(F4, &ONE))
}

const fn origin(name: &'static str, columns: u64) -> Quantity {
    quantity(name, Rule::Rows, zeros(F4, columns))
}

/// The box 1, 1, 1, 0, 0, 0, as float32.
const BOX: [u8; 24] = [0, 0, 128, 63, 0, 0, 128, 63, 0, 0, 128, 63, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// The quaternion 1, 0, 0, 0, as float32.
const IDENTITY_ROTATION: [u8; 16] = [0, 0, 128, 63, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// All quantities of the schema except those with user-defined names (`log/…`, `state/…`).
pub(crate) const GROUPS: &[Group] = &[
    Group {
        name: "configuration",
        quantities: &[
            quantity("step", Rule::Number, number(Scalar::Uint64, &[0; 8])),
            quantity("dimensions", Rule::Number, number(Scalar::Uint8, &[3])),
            quantity("box", Rule::WholeChunk, row(F4, 6, &BOX)),
        ],
    },
    Group {
        name: "particles",
        quantities: &[
            N,
            quantity("types", Rule::Types, words(b"A")),
            TYPEID,
            one("mass"),
            quantity("charge", Rule::Rows, number(F4, &[0; 4])),
            one("diameter"),
            quantity("body", Rule::Rows, number(I4, &[255; 4])),
            origin("moment_inertia", 3),
            origin("position", 3),
            quantity("orientation", Rule::Rows, row(F4, 4, &IDENTITY_ROTATION)),
            origin("velocity", 3),
            origin("angmom", 4),
            quantity("image", Rule::Rows, zeros(I4, 3)),
            quantity("type_shapes", Rule::Shapes, words(b"{}")),
        ],
    },
    Group { name: "bonds", quantities: &[N, NO_TYPES, TYPEID, members(2)] },
    Group { name: "angles", quantities: &[N, NO_TYPES, TYPEID, members(3)] },
    Group { name: "dihedrals", quantities: &[N, NO_TYPES, TYPEID, members(4)] },
    Group { name: "impropers", quantities: &[N, NO_TYPES, TYPEID, members(4)] },
    Group {
        name: "constraints",
        quantities: &[N, quantity("value", Rule::Rows, number(F4, &[0; 4])), members(2)],
    },
    Group { name: "pairs", quantities: &[N, NO_TYPES, TYPEID, members(2)] },
];

/// Returns the groups of user-defined names in this version of the schema. They have no defaults.
pub(crate) fn free_groups(version: Version) -> &'static [&'static str] {
    if version.0 < 2 { &["log", "state"] } else { &["log"] }
}

/// The group of user-defined names whose missing chunks are taken from frame 0.
pub(crate) const INHERITED_GROUP: &str = "log";

/// The chunk name of a frame's step.
pub(crate) const STEP: &str = "configuration/step";

/// The prefix of the names of logged quantities.
pub(crate) const LOGGED: &str = "log/";

/// True for known versions of the schema.
pub(crate) fn is_known(version: Version) -> bool {
    matches!(version.0, 1 | 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_has_as_many_bytes_as_its_type_says() {
        for group in GROUPS {
            for quantity in group.quantities {
                let default = quantity.default;
                let size = default.scalar.size().unwrap();
                let columns = default.columns.unwrap_or(1);
                assert_eq!(default.bytes.len() as u64, size * columns, "{}/{}", group.name, quantity.name);
                let is_number = quantity.rule == Rule::Number;
                assert!(!is_number || default.columns.is_none(), "{}/{}", group.name, quantity.name);
            }
        }
    }

    #[test]
    fn each_group_but_the_first_is_counted() {
        for group in GROUPS {
            let is_counted = group.quantities.iter().any(|quantity| quantity.name == "N");
            assert_eq!(is_counted, group.name != "configuration", "{}", group.name);
        }
        let count: usize = GROUPS.iter().map(|group| group.quantities.len()).sum();
        assert_eq!(count, 40);
    }

    #[test]
    fn versions_1_and_2_are_known() {
        let known = [(0, 9), (1, 0), (1, 4), (2, 0), (2, 1), (3, 0)]
            .map(|(major, minor)| is_known(Version(major, minor)));
        assert_eq!(known, [false, true, true, true, true, false]);
        assert_eq!((free_groups(Version(1, 2)).len(), free_groups(Version(2, 0)).len()), (2, 1));
    }
}
