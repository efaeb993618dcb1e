//! `tables/`: the columns read by pyarrow and DuckDB equal the original columns.

use common::mount::{Mounted, fresh_folder};
use common::python::{python, run};

#[test]
fn random_tables_are_those_that_were_written() {
    let folder = fresh_folder();
    let arguments = [folder.path().as_os_str(), "7".as_ref(), "6".as_ref()];
    run(&python(), "write_tables.py", arguments);
    let mounted = Mounted::file(folder.path());
    let compared = run(&python(), "read_tables.py", [folder.path(), mounted.root()]);
    mounted.unmount();
    assert!(compared.trim().parse::<usize>().unwrap() > 400, "{compared}");
}

/// `scripts/test --all` runs this test.
mod rare {
    use super::*;

    #[test]
    fn times_are_timestamps_where_that_is_exact() {
        let folder = fresh_folder();
        run(&python(), "times.py", ["write".as_ref(), folder.path().as_os_str()]);
        let mounted = Mounted::file(folder.path());
        let arguments = ["read".as_ref(), folder.path().as_os_str(), mounted.root().as_os_str()];
        let compared = run(&python(), "times.py", arguments);
        mounted.unmount();
        assert_eq!(compared.trim(), "54");
    }
}
