//! `preview/` and `preview.png`: pictures equal numpy's results, and are made when they are read.

use common::mount::{Mounted, fresh_folder};
use common::python::{python, run};

/// `scripts/test --all` runs this test.
mod rare {
    use super::*;

    #[test]
    fn pictures_are_those_of_numpy_and_listing_them_decodes_nothing() {
        let folder = fresh_folder();
        run(&python(), "write_previews.py", [folder.path()]);
        let mounted = Mounted::file(folder.path());
        let compared = run(&python(), "read_previews.py", [folder.path(), mounted.root()]);
        mounted.unmount();
        assert!(compared.trim().parse::<usize>().unwrap() > 80, "{compared}");
    }
}
