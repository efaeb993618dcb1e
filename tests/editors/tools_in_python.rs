//! Tools from PyPI that read a tree and rewrite it, in the environment made by `scripts/test`.

use std::fs;
use std::process::{Command, Output};

use common::case::{Case, NEW, OLD};
use common::mount::wait_until;
use common::python::python;

fn run(case: &Case, script: &str) -> Output {
    let mut command = Command::new(python());
    command.arg("-c").arg(script).current_dir(case.mount.root()).output().unwrap()
}

/// ruamel drops the header and `...`, but nothing else that matters.
#[test]
fn ruamel_saves_and_saves_again() {
    let case = Case::new();
    let name = |name: &str| {
        format!(
            "from ruamel.yaml import YAML\ny = YAML()\nwith open('tree.yaml') as f: t = y.load(f)\n\
             t['name'] = '{name}'\nwith open('tree.yaml', 'w') as f: y.dump(t, f)"
        )
    };
    for (saves, new) in [(1, NEW), (2, "third"), (2, "third"), (3, OLD)] {
        let output = run(&case, &name(new));
        assert!(output.status.success(), "{output:?}");
        assert_eq!(case.saves(), saves, "{}", case.log());
        let saved = case.saved();
        assert!(saved.starts_with("#ASDF 1.0.0\n#ASDF_STANDARD") && saved.ends_with("\n...\n"), "{saved}");
        assert!(saved.contains(&format!("\nname: {new}\n")) && saved.contains("# a comment"), "{saved}");
        // The text without its header gives way to the saved one, once it is closed.
        assert!(wait_until(|| fs::read_to_string(case.tree()).unwrap() == saved));
        assert_eq!(case.names(), ["tree.yaml"]);
    }
    case.blocks_are_whole();
}

/// Because of the line `%YAML 1.1`, ruamel reads `y` as true; PyYAML does not.
#[test]
fn what_ruamel_reads_otherwise_is_a_warning() {
    let case = Case::new();
    let axes = case.text.replace("\nkey0:", "\naxes: [x, y]\nkey0:");
    fs::write(case.tree(), &axes).unwrap();
    let script = "from ruamel.yaml import YAML\ny = YAML()\nwith open('tree.yaml') as f: t = y.load(f)\n\
                  with open('tree.yaml', 'w') as f: y.dump(t, f)";
    let output = run(&case, script);
    assert!(output.status.success(), "{output:?}");
    assert!(case.saved().contains("axes: [x, true]"), "{}", case.saved());
    let told = fs::read_to_string(case.path("tree.yaml.warning")).unwrap();
    assert!(told.contains("axes/1: \"true\" is not what Python read here before"), "{told}");
}

/// The script reads tags as the plain values below them, and writes these.
#[test]
fn a_round_trip_by_pyyaml_that_drops_tags_is_refused() {
    let case = Case::new();
    let tagged = case.text.replace("\nkey0:", "\nwhen: !time/time-1.2.0 2020-01-01T00:00:00\nkey0:");
    fs::write(case.tree(), &tagged).unwrap();
    let script = "import re, yaml\nclass Loader(yaml.SafeLoader): pass\n\
                  Loader.add_multi_constructor('', lambda l, s, n: l.construct_mapping(n, True) \
                  if isinstance(n, yaml.MappingNode) else l.construct_scalar(n))\n\
                  t = yaml.load(open('tree.yaml'), Loader)\n\
                  with open('tree.yaml', 'w') as f: f.write(yaml.safe_dump(t))";
    let output = run(&case, script);
    assert!(!output.status.success(), "{output:?}");
    let told = fs::read_to_string(case.path("tree.yaml.error")).unwrap();
    assert!(told.contains("3 of 3 tags are gone") && told.contains("when has lost its tag"), "{told}");
    assert_eq!((case.saved(), case.saves()), (tagged, 1));
}

/// yq drops every tag and ignores errors, so its text must be refused.
#[test]
fn yq_is_refused() {
    let case = Case::new();
    let script = format!("import yq; yq.cli(['-Y', '-i', '.name = \"{NEW}\"', 'tree.yaml'])");
    run(&case, &script);
    assert!(wait_until(|| fs::read_to_string(case.tree()).unwrap() == case.text));
    assert_eq!((case.saved(), case.saves()), (case.text.clone(), 0));
    let told = fs::read_to_string(case.path("tree.yaml.error")).unwrap();
    assert!(told.contains("has lost its tag"), "{told}");
    case.is_refused(&fs::read_to_string(case.path("tree.yaml.rejected")).unwrap());
}
