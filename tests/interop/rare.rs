//! Comparisons with asdf 5.2, the last version whose checksums are of the decoded bytes, with fitsverify, and longer ones.
//! `scripts/test --all` runs them.

use std::fs;
use std::path::Path;

use crate::{doubtful, saved, schemas, written_by_python};
use common::mount::{Mounted, fresh_folder};
use common::python::{old_python, python, run};

#[test]
fn files_of_an_asdf_with_the_old_checksum_rule() {
    let folder = fresh_folder();
    let names = run(&old_python(), "write_files.py", [folder.path().as_os_str(), "old-".as_ref()]);
    written_by_python::every_block_is_numpys(folder.path(), &names);

    for (name, word) in [("old-zlib", "decoded"), ("old-stored", "stored")] {
        let mounted = Mounted::file(folder.path().join(format!("{name}.asdf")));
        assert_eq!(mounted.attribute("blocks/0.bin", "user.asdf.verified").unwrap(), word, "{name}");
        mounted.unmount();
    }
}

#[test]
fn what_an_older_python_reads_of_a_damaged_file_is_shown_or_an_error() {
    doubtful::compare(&old_python());
}

#[test]
fn what_both_pythons_open_as_the_same_data_is_saved_and_nothing_else() {
    saved::compare(&[python(), old_python()]);
}

#[test]
fn schemas_forbid_in_a_thousand_trees_what_they_forbid_in_python() {
    schemas::compare(1000, 2);
}

#[test]
fn fitsverify_and_duckdb_find_nothing_wrong_with_generated_files() {
    let folder = fresh_folder();
    for (script, arguments) in [
        ("write_arrays.py", &["FOLDER", "14", "30"][..]),
        ("write_fits.py", &["FOLDER"]),
        ("write_sip.py", &["FOLDER", "1", "12"]),
        ("write_tables.py", &["FOLDER", "7", "6"]),
        ("fits_masks.py", &["write", "FOLDER"]),
        ("gwcs_axes.py", &["write", "FOLDER"]),
        ("fits_coordinates.py", &["write", "FOLDER"]),
        ("read_fits_groups.py", &["write", "FOLDER"]),
        ("map_fits.py", &["write", "FOLDER"]),
        ("times.py", &["write", "FOLDER"]),
    ] {
        let into = folder.path().join(script);
        fs::create_dir(&into).unwrap();
        let into = into.to_str().unwrap();
        run(&python(), script, arguments.iter().map(|word| if *word == "FOLDER" { into } else { word }));
    }
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mounted = Mounted::new([folder.path(), &fixtures]);
    let printed = run(&python(), "verify_generated.py", [mounted.root()]);
    mounted.unmount();
    println!("fitsverify and DuckDB: {}", printed.trim());
    let counts: Vec<usize> = printed.split_whitespace().map(|count| count.parse().unwrap()).collect();
    let [fits, tables, rows, unreadable] = counts[..] else { panic!("{printed}") };
    assert!(fits > 1900 && tables > 170 && rows > 500_000 && unreadable < 10, "{printed}");
}
