//! `-o schemas=`: a save that breaks the schemas of a package is refused.

use std::fs;

use common::case::{Case, errno};
use common::daemon::Bench;
use common::mount::fresh_folder;
use common::schemas::package;

/// The saved tree breaks the first rule.
const SCHEMA: &str = "title: A product\n\
                      properties: {key1: {type: integer}, key2: {title: Second, enum: [value 2, new]}}\n";
const TAG: &str = "tag:stsci.edu:asdf/core/asdf-1.1.0";

#[test]
fn only_newly_introduced_violations_are_refused() {
    let folder = fresh_folder();
    let option = format!("schemas={}", package(folder.path(), TAG, SCHEMA).display());
    let case = Case::with(&["-o", &option]);
    let wrong = case.text.replace("value 2 ", "value 9 ");
    assert_eq!(errno(case.save(&wrong)), libc::EINVAL);
    case.is_refused(&wrong);
    let told = fs::read_to_string(case.path("tree.yaml.error")).unwrap();
    let first = "line 10, column 7: key2: enum wants [\"value 2\", \"new\"] (schema \"Second\", \
                 asdf://x.org/schemas/product-1.0.0)\n";
    assert!(told.starts_with(first) && told.contains("What to do: correct it"), "{told}");
    let still_wrong = case.text.replace("value 2 ", "new ").replace("value 1 ", "another value ");
    case.save(&still_wrong).unwrap();
    case.is_saved(&still_wrong, 1);
    // The saved text is what the next one is compared with.
    let mended = still_wrong.replace("another value ", "1 ");
    case.save(&mended).unwrap();
    assert_eq!(errno(case.save(&still_wrong)), libc::EINVAL);
}

#[test]
fn levels_and_commands_know_the_schemas() {
    let bench = Bench::of_sample();
    package(&bench.path(""), TAG, "properties: {object: {properties: {filter: {enum: [V, B]}}}}\n");
    let run = |line: &str| {
        let output = bench.shell(line);
        (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let rule = "object/filter: enum wants [\"V\", \"B\"]";
    for line in [
        "asdf-mount --set object.filter=X -o schemas=package a.asdf",
        "asdf-mount --set object.filter=X --dry-run -o schemas=package a.asdf",
        "ASDF_MOUNT_OPTIONS=schemas=package asdf-mount --set object.filter=X a.asdf",
        "asdf-mount --cat a.asdf tree.yaml | sed 's/filter: V/filter: X/' \
         | asdf-mount --set-tree - -o schemas=package a.asdf",
        "EDITOR=\"sed -i 's/filter: V/filter: X/'\" asdf-mount --edit -o schemas=package a.asdf",
    ] {
        let (status, told) = run(line);
        assert!(status != 0 && told.contains(rule), "{line}: {status} {told}");
    }
    let (status, told) = run("asdf-mount --set object.filter=B -o schemas=package a.asdf");
    assert_eq!(status, 0, "{told}");
    let (status, told) = run("asdf-mount --set object.filter=X -o schemas=package,validate=warn a.asdf");
    assert!(status == 0 && told.contains(rule), "{told}");
    let (status, told) = run("asdf-mount --set object.filter=Y -o schemas=package,validate=off a.asdf");
    assert!(status == 0 && !told.contains(rule), "{told}");
    let (status, told) = run("asdf-mount -o schemas=none a.asdf mnt");
    assert!(status != 0 && told.contains("none: "), "{status} {told}");
}
