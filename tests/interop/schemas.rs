//! `-o schemas=`: random edits of a tree break the same rules as in Python asdf.

use std::ffi::OsStr;
use std::path::Path;

use common::mount::{fresh_folder, program};
use common::python::{python, run};

/// Directories of Python packages with schemas.
const PACKAGES: &str =
    "rad:asdf_standard:asdf_transform_schemas:asdf_coordinates_schemas:asdf_wcs_schemas:asdf_astropy";

/// Compares the verdicts on this many edited trees.
pub(crate) fn compare(count: u32, seed: u32) {
    let folder = fresh_folder();
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schemas/roman.asdf");
    let numbers = [count.to_string(), seed.to_string()];
    let [count_text, seed] = numbers.each_ref().map(OsStr::new);
    let arguments = [
        folder.path().as_os_str(),
        program().as_ref(),
        PACKAGES.as_ref(),
        count_text,
        seed,
        tree.as_os_str(),
    ];
    let compared = run(&python(), "schema_edits.py", arguments);
    let counts: serde_json::Value = serde_json::from_str(&compared).unwrap();
    for kind in ["valid", "invalid"] {
        assert!(counts[kind].as_u64() > Some(u64::from(count) / 10), "{compared}");
    }
    assert_eq!(counts["same paths"], counts["invalid"], "{compared}");
}

#[test]
fn schemas_forbid_what_they_forbid_in_python() {
    compare(40, 1);
}
