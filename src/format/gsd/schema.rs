//! The HOOMD schema: the quantities of a frame, and what each is where a frame does not store it.
//!
//! The rules are those of `gsd.hoomd`, the reader of the gsd package. A quantity that a frame lacks is that of frame 0,
//! if frame 0 has it, and else a default. The quantities of particles, bonds and so on are lent from frame 0 only to
//! frames with as many of these.

use super::header::Version;

/// The name of the schema in the header of a file.
pub(crate) const NAME: &[u8] = b"hoomd";

/// What lies in the file of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// One number: the first element of the chunk.
    Number,
    /// The whole chunk.
    Whole,
    /// The whole chunk, or a row for each particle, bond and so on.
    Rows,
    /// Names of types, a row of characters each.
    Types,
    /// A JSON text for each type, a row of characters each.
    Shapes,
}

/// Numbers of one type: a default, or one row of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// The type, as `.npy` names it.
    pub(crate) descr: &'static str,
    /// How many there are; `None` for a single number.
    pub(crate) columns: Option<u64>,
    /// Their bytes.
    pub(crate) bytes: &'static [u8],
}

/// A quantity of the schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    /// The last part of the name of its chunk.
    pub(crate) name: &'static str,
    pub(crate) rule: Rule,
    /// Of [`Rule::Types`] the names that there are without a chunk, one after the other; of [`Rule::Shapes`] the texts.
    pub(crate) default: Numbers,
}

/// Quantities that share the first part of their names, and their number of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) quantities: &'static [Quantity],
}

/// The default of names and shapes: one row of these characters, or no row.
const fn words(bytes: &'static [u8]) -> Numbers {
    Numbers { descr: "'|i1'", columns: Some(bytes.len() as u64), bytes }
}

const fn number(descr: &'static str, bytes: &'static [u8]) -> Numbers {
    Numbers { descr, columns: None, bytes }
}

const fn row(descr: &'static str, columns: u64, bytes: &'static [u8]) -> Numbers {
    Numbers { descr, columns: Some(columns), bytes }
}

const fn quantity(name: &'static str, rule: Rule, default: Numbers) -> Quantity {
    Quantity { name, rule, default }
}

const F4: &str = "'<f4'";
const U4: &str = "'<u4'";
const I4: &str = "'<i4'";
const ZEROS: [u8; 16] = [0; 16];
const ONE: [u8; 4] = 1_f32.to_le_bytes();

/// The first 4·`columns` bytes of zeros.
const fn zeros(descr: &'static str, columns: u64) -> Numbers {
    let (bytes, _) = ZEROS.split_at(4 * columns as usize);
    row(descr, columns, bytes)
}

const NO_NUMBER: Numbers = number(U4, &[0; 4]);

/// How many there are of something. Without a chunk `gsd.hoomd` has the number 0 of Python, which numpy saves with
/// 64 bits.
const N: Quantity = quantity("N", Rule::Number, number("'<i8'", &[0; 8]));
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

/// 1, 1, 1, 0, 0, 0.
const BOX: [u8; 24] = [0, 0, 128, 63, 0, 0, 128, 63, 0, 0, 128, 63, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// 1, 0, 0, 0.
const UNTURNED: [u8; 16] = [0, 0, 128, 63, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// All quantities of the schema but those whose names the writer chooses (`log/…`, `state/…`).
pub(crate) const GROUPS: &[Group] = &[
    Group {
        name: "configuration",
        quantities: &[
            quantity("step", Rule::Number, number("'<u8'", &[0; 8])),
            quantity("dimensions", Rule::Number, number("'|u1'", &[3])),
            quantity("box", Rule::Whole, row(F4, 6, &BOX)),
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
            quantity("orientation", Rule::Rows, row(F4, 4, &UNTURNED)),
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

/// The groups of names that the writer chooses, in a file of this version of the schema. There is no default.
pub(crate) fn free_groups(version: Version) -> &'static [&'static str] {
    if version.0 < 2 { &["log", "state"] } else { &["log"] }
}

/// The group of names that the writer chooses of which frame 0 lends to others what they lack.
pub(crate) const LENT: &str = "log";

/// The name of the step of a frame.
pub(crate) const STEP: &str = "configuration/step";

/// The start of the names of what is logged.
pub(crate) const LOGGED: &str = "log/";

/// Whether files of this version of the schema can be understood.
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
                let size = u64::from(default.descr.as_bytes()[3] - b'0');
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
