use super::super::super::check::{Accepted, Old, Problems, Validation, check};
use super::super::super::refusal::report_of_warnings;

const HEAD: &str =
    "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n";

fn text(tree: &str) -> String {
    [HEAD, tree, "...\n"].concat()
}

fn checked<'n>(old: &str, new: &'n str, level: Validation) -> Result<Accepted<'n>, Box<Problems>> {
    check(new.as_bytes(), &Old::of(text(old).as_bytes(), None), &vec![10, 10], level)
}

/// Returns the warnings with which a tree is saved.
fn warnings(old: &str, new: &str) -> Vec<String> {
    match checked(old, &text(new), Validation::Strict) {
        Ok(accepted) => accepted.warnings.iter().map(ToString::to_string).collect(),
        Err(refusal) => panic!("refused: {}", refusal.report()),
    }
}

const WCS: &str =
    "wcs: !<tag:stsci.edu:gwcs/wcs-1.2.0>\n  steps:\n  - !<tag:stsci.edu:gwcs/step-1.1.0> {frame: sky}\n";
const TIME: &str = "time: !time/time-1.2.0 2020-01-01T00:00:00\n";

#[test]
fn half_of_the_tags_are_not_dropped_without_being_meant() {
    let old = [WCS, TIME].concat();
    for (new, gone) in [
        (old.replace("!<tag:stsci.edu:gwcs/wcs-1.2.0>", "").replace("!time/time-1.2.0 ", ""), 2),
        (
            old.replace("!<tag:stsci.edu:gwcs/wcs-1.2.0>", "")
                .replace("!<tag:stsci.edu:gwcs/step-1.1.0> ", ""),
            2,
        ),
        // A standard tag such as !!map does not replace a lost tag.
        (
            old.replace("!<tag:stsci.edu:gwcs/wcs-1.2.0>", "!!map")
                .replace("!time/time-1.2.0", "!!timestamp"),
            2,
        ),
    ] {
        let refusal = checked(&old, &text(&new), Validation::Strict).unwrap_err().report();
        assert!(refusal.contains(&format!("{gone} of 4 tags are gone")), "{refusal}");
        assert!(refusal.contains("wcs has lost its tag tag:stsci.edu:gwcs/wcs-1.2.0"), "{refusal}");
        assert!(refusal.contains("validate=warn") && refusal.contains("--force"), "{refusal}");
        let saved = text(&new);
        let warned = checked(&old, &saved, Validation::Warn).unwrap();
        assert_eq!((warned.text.as_ref(), warned.warnings.len()), (saved.as_bytes(), gone));
        assert_eq!(checked(&old, &saved, Validation::Off).unwrap().warnings.len(), 0);
    }
}

#[test]
fn fewer_tags_may_go_with_a_warning() {
    let old = [WCS, TIME].concat();
    assert_eq!(
        warnings(&old, &old.replace("!time/time-1.2.0 ", "")),
        ["line 9, column 7: time has lost its tag tag:stsci.edu:asdf/time/time-1.2.0"]
    );
    // A lost tag is reported only by the save that loses it.
    let without = old.replace("!time/time-1.2.0 ", "");
    assert_eq!(warnings(&without, &without), [""; 0]);
    // If many tags are lost, only the first are listed.
    let many: String = (0..40).map(|n| format!("k{n}: !t {n}\n")).collect();
    let told = warnings(&many, &many.replacen("!t ", "", 15));
    assert_eq!(told.len(), 10, "{told:#?}");
    assert!(told[0].contains("k0 has lost its tag tag:stsci.edu:asdf/t"), "{told:#?}");
    assert_eq!(told[9], "6 more tags are gone");
    let refusal = checked(&many, &text(&many.replace("!t ", "")), Validation::Strict).unwrap_err();
    assert!(refusal.report().contains("40 of 41 tags are gone"), "{}", refusal.report());
}

#[test]
fn what_goes_with_its_node_or_gets_another_tag_is_not_lost() {
    let own = "same: !!str text\nempty: !!map {}\nnumber: !!float 5\nnone: !!null 7\n";
    let old = [WCS, TIME, "list: [!a 1, !b 2, !c 3]\n", own].concat();
    for (from, to) in [
        (WCS, ""),
        (TIME, ""),
        ("!a 1, ", ""),
        ("[!a", "[0, !a"),
        ("time-1.2.0", "time-1.3.0"),
        ("!time/time-1.2.0 2020-01-01T00:00:00", "{iso: 2020}"),
        ("!!str ", ""),
        ("!!map ", ""),
        ("!!float 5", "1e5"),
        ("!!null 7", "8"),
        ("  - !<tag:stsci.edu:gwcs/step-1.1.0> {frame: sky}\n", "  - null\n"),
        ("wcs:", "wcs2:"),
    ] {
        let new = old.replace(from, to);
        assert_ne!(new, old);
        let told = warnings(&old, &new);
        let shifted = from == "[!a";
        assert_eq!(told.len(), usize::from(shifted), "{from}: {told:?}");
    }
}

#[test]
fn scalars_that_another_version_of_yaml_reads_otherwise_are_a_warning() {
    let old = "axes: [x, y]\nn: {y: 1, x: 2}\na: yes\nb: 0o17\nc: 190:20:30\nd: 017\ne: 2020-01-01\nf: 1e3\ng: off\n";
    assert_eq!(warnings(old, old), [""; 0]);
    for (from, to, path) in [
        ("[x, y]", "[x, true]", "axes/1"),
        ("{y: 1", "{true: 1", "n"),
        ("a: yes", "a: 'yes'", "a"),
        ("0o17", "15", "b"),
        ("190:20:30", "'190:20:30'", "c"),
        ("017", "17", "d"),
        ("2020-01-01", "\"2020-01-01\"", "e"),
        ("1e3", "1000.0", "f"),
        ("g: off", "g: 'off'", "g"),
        ("n: {", "false: {", "the root"),
    ] {
        let new = old.replace(from, to);
        assert_ne!(new, old);
        let told = warnings(old, &new);
        assert_eq!(told.len(), 1, "{to}: {told:?}");
        assert!(
            told[0].contains(": \"") && told[0].contains("is not what Python read here before"),
            "{told:?}"
        );
        assert!(told[0].contains(path) || path == "n" || path == "the root", "{told:?}");
    }
    for (from, to) in
        [("[x, y]", "[x, 'y']"), ("yes", "true"), ("190:20:30", "685230"), ("017", "15"), ("1e3", "'1e3'")]
    {
        let new = old.replace(from, to);
        assert_ne!(new, old);
        assert_eq!(warnings(old, &new), [""; 0], "{to}");
    }
}

#[test]
fn the_advice_is_told_in_full() {
    let old = [WCS, TIME, "a: yes\n"].concat();
    let few = text(&old.replace("!time/time-1.2.0 ", "").replace("a: yes", "a: 'yes'"));
    let warned = checked(&old, &few, Validation::Strict).unwrap().warnings;
    assert_eq!(
        report_of_warnings(&warned),
        "line 9, column 7: time has lost its tag tag:stsci.edu:asdf/time/time-1.2.0\n\
         line 10, column 4: a: \"yes\" is not what Python read here before: versions of YAML differ in y, n, yes, \
         no, on, off, 0o17, 190:20:30, dates and the like, and a tool has written the scalar for another version\n\
         \nWhat to do: restore the tags, or use a tool that keeps them: without its tag, Python reads a node as a \
         plain dict, list or text. If they are meant to go, save with -o validate=warn, or with asdf-mount \
         --set-tree TREE --force FILE\n\
         \nWhat to do: write the scalar as it was, or in quotes if it is meant as text\n"
    );
    let list: String = (0..20).map(|_| "- yes\n").collect();
    let told = warnings(&list, &list.replace("yes", "'yes'"));
    assert_eq!(told.last().unwrap(), "11 more scalars are read differently");
}
