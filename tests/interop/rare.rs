//! Comparisons with asdf 5.2, the last version whose checksums are of the decoded bytes, and longer ones.
//! `scripts/test --all` runs them.

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
