//! Examples that need Python's packages.

use std::fs;

use super::{Example, copy_sample, examples, root, run};
use common::daemon::Bench;

/// DuckDB's command line as far as the examples use it, by DuckDB's Python package.
const DUCKDB: &str = r#"#!/usr/bin/env python3
import csv, sys
import duckdb

assert sys.argv[1:-1] == ["-csv", "-c"], sys.argv
result = duckdb.sql(sys.argv[-1])
rows = csv.writer(sys.stdout, lineterminator="\n")
rows.writerow(result.columns)
rows.writerows(result.fetchall())
"#;

/// Makes a bench with the sample file, and DuckDB's command in `$T/tools`.
fn bench() -> Bench {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    fs::remove_file(bench.source()).unwrap();
    copy_sample(&bench, "galaxy.asdf");
    fs::create_dir(bench.path("tools")).unwrap();
    let duckdb = bench.path("tools/duckdb");
    fs::write(&duckdb, DUCKDB).unwrap();
    fs::set_permissions(duckdb, fs::Permissions::from_mode(0o755)).unwrap();
    bench
}

/// Runs a whole Python program, and `after` at its end; returns its output.
fn python(bench: &Bench, example: &Example, after: &str) -> String {
    fs::write(bench.path("example.py"), format!("{}\n{after}\n", example.text)).unwrap();
    let output = bench.shell("python3 example.py");
    assert!(output.status.success(), "{}: {output:?}", example.place);
    String::from_utf8(output.stdout).unwrap()
}

/// The examples of `docs/views.md` begin with a mounted file.
#[test]
fn what_the_page_on_views_promises() {
    let bench = bench();
    assert!(bench.shell("asdf-mount galaxy.asdf galaxy").status.success());
    for example in examples("docs/views.md") {
        run(&bench, &example.place, &example.text);
    }
    assert!(bench.shell("asdf-mount -u galaxy").status.success());
    bench.nothing_is_left();
}

/// The examples of `docs/gsd.md` begin with a mounted trajectory.
#[test]
fn what_the_page_on_gsd_promises() {
    let bench = bench();
    fs::copy(root().join("examples/trajectory.gsd"), bench.path("run.gsd")).unwrap();
    assert!(bench.shell("asdf-mount run.gsd run").status.success());
    for example in examples("docs/gsd.md") {
        run(&bench, &example.place, &example.text);
    }
    assert!(bench.shell("asdf-mount -u run").status.success());
    bench.nothing_is_left();
}

/// `/data` in the examples of `docs/scale.md` is replaced by a directory of the bench.
#[test]
fn what_the_page_on_scale_promises() {
    let bench = bench();
    fs::create_dir(bench.path("data")).unwrap();
    for (name, exposure) in [("a", 10), ("b", 1200), ("c", 99)] {
        let tree = format!("#ASDF 1.0.0\n%YAML 1.1\n--- {{name: {name}, exposure: {exposure}}}\n...\n");
        fs::write(bench.path(format!("data/{name}.asdf")), tree).unwrap();
    }
    let data = bench.path("data").to_str().unwrap().to_owned();
    let mut languages = Vec::new();
    for example in examples("docs/scale.md") {
        languages.push(example.language.clone());
        match &*example.language {
            "console" => run(&bench, &example.place, &example.text.replace("/data", &data)),
            "sql" => {
                fs::write(bench.path("example.sql"), &example.text).unwrap();
                let script = "import duckdb; duckdb.sql(open('example.sql').read()); \
                              print(duckdb.sql(\"select uri, tree->'name' from 'catalog.parquet'\").fetchall())";
                let output = bench.shell(&format!("python3 -c \"{}\"", script.replace('"', "\\\"")));
                let printed = String::from_utf8(output.stdout).unwrap();
                assert_eq!(printed.matches(&format!("file://{data}/")).count(), 3, "{}", example.place);
            }
            "python" if example.text.contains("dask.bag") => {
                assert!(python(&bench, &example, "print(len(sizes))").contains('3'));
            }
            "python" => {
                assert!(bench.shell("asdf-mount --refs galaxy.asdf >refs.json").status.success());
                assert_eq!(python(&bench, &example, "print(group['image'][:].max())"), "3208\n");
            }
            other => panic!("{}: {other}", example.place),
        }
    }
    assert_eq!(languages, ["console", "sql", "python", "python", "console", "console"]);
    bench.nothing_is_left();
}
