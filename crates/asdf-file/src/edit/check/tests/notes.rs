//! The notes and warnings of a save in full.

use super::*;

fn restored(new: &str) -> Vec<String> {
    checked(new.as_bytes(), &base(), Validation::Strict).unwrap().restored
}

#[test]
fn notes_about_restored_parts() {
    let base = base();
    for (new, notes) in [
        (base.strip_suffix('\n').unwrap().to_owned(), vec!["the last newline was missing and was restored"]),
        (
            base.strip_suffix("...\n").unwrap().to_owned(),
            vec!["the last line '...' was missing and was restored"],
        ),
        (
            TREE.to_owned(),
            vec![
                "the header line was missing and was restored",
                "the comments before the tree were missing and were restored",
                "the line %YAML was missing and was restored",
                "a line %TAG was missing and was restored",
            ],
        ),
        (edited("#ASDF_STANDARD 1.5.0\n", ""), vec!["the line #ASDF_STANDARD was missing and was restored"]),
        (format!("{base}\n"), vec!["blank lines after the line '...' were removed"]),
        (format!("{base}# a\n"), vec!["comments after the line '...' were moved before it"]),
    ] {
        assert_eq!(restored(&new), notes, "{new}");
    }
    let notes = restored(&TREE.replace("--- !core", "!core"));
    assert_eq!(notes.last().unwrap(), "the line --- was missing and was restored");
}

#[test]
fn refusals_of_a_tree_in_an_odd_file() {
    for (new, level, told, advice) in [
        (
            "#ASDF 1.0.0\na: 1\n",
            Validation::Strict,
            "line 2, column 1: the tree does not begin with a line '%YAML 1.1'",
            "begin the tree with the line '%YAML 1.1', right after the comments that follow the header line",
        ),
        (
            "#ASDF 1.0.0\n a: 1\n",
            Validation::Off,
            "line 2, column 1: the first line of the tree begins with a blank, which readers take for padding",
            "begin the tree with the line '%YAML 1.1'",
        ),
    ] {
        let refusal = checked(new.as_bytes(), "#ASDF 1.0.0\n", level).unwrap_err();
        assert_eq!((refusal.first.to_string().as_str(), refusal.first.to_do.as_str()), (told, advice));
    }
}

#[test]
fn warnings_about_integers() {
    let large = edited("name: x", "name: 9223372036854775808");
    let warned = checked(large.as_bytes(), &base(), Validation::Strict).unwrap().warnings;
    assert_eq!(
        crate::edit::refusal::report_of_warnings(&warned),
        "line 13, column 14: the integer 9223372036854775808 is beyond 64 bits\n\nWhat to do: write it as \
         !core/integer, or in quotes\n"
    );
}
