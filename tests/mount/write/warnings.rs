//! Messages about saves and refusals, beside the errno.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Output};
use std::time::Duration;

use common::case::{BAD, Case, NEW, build, close, errno};
use common::mount::{fresh_folder, program, wait_until};

const TIMES: &str =
    "\nt0: !time/time-1.2.0 2020\nt1: !time/time-1.2.0 2021\nt2: !time/time-1.2.0 2022\nkey0:";

#[test]
fn a_warning_stands_beside_the_tree_until_a_save_without_one() {
    let case = Case::new();
    let tagged = case.text.replace("\nkey0:", TIMES);
    case.save(&tagged).unwrap();
    let one_less = tagged.replace("t1: !time/time-1.2.0", "t1:");
    case.save(&one_less).unwrap();
    case.is_saved_beside(&one_less, 2, &["tree.yaml.warning"]);
    let told = fs::read_to_string(case.path("tree.yaml.warning")).unwrap();
    assert!(told.contains("t1 has lost its tag tag:stsci.edu:asdf/time/time-1.2.0"), "{told}");
    assert!(told.contains("What to do: restore the tags"), "{told}");
    assert!(case.status().contains("last_warnings:\n- '"), "{}", case.status());
    let log = case.log();
    assert!(log.lines().any(|line| line.contains(" WARN ") && line.contains("t1 has lost its tag")), "{log}");
    // After an unchanged save, the warning still applies.
    case.save(&one_less).unwrap();
    assert!(case.path("tree.yaml.warning").exists());
    let next = one_less.replace("first light", NEW);
    case.save(&next).unwrap();
    case.is_saved(&next, 3);
    // Half of the tags are missing, which is refused.
    let half =
        next.replace("!time/time-1.2.0 ", "").replace("--- !core/asdf-1.1.0", "--- !core/asdf-1.1.0 # x");
    assert_eq!(errno(case.save(&half)), libc::EINVAL);
    let told = fs::read_to_string(case.path("tree.yaml.error")).unwrap();
    assert!(told.contains("2 of 4 tags are gone") && told.contains("validate=warn"), "{told}");
    case.is_refused(&half);
}

#[test]
fn a_save_without_change_takes_away_what_tells_of_a_refusal() {
    let case = Case::new();
    for seen in [true, false] {
        assert_eq!(errno(case.save(&case.named(BAD))), libc::EINVAL);
        if seen {
            case.is_refused(&case.named(BAD));
        } else {
            std::thread::sleep(Duration::from_millis(2100));
        }
        case.save(&case.text).unwrap();
        assert_eq!((case.names(), case.saves()), (vec!["tree.yaml".to_owned()], 0));
    }
    // If an editor restores the old text within two seconds of a refusal, the error and the refused text stay.
    // A loaded machine may take longer, and then it tries again.
    let stays = |_| {
        assert_eq!(errno(case.save(&case.named(BAD))), libc::EINVAL);
        case.save(&case.text).unwrap();
        case.path("tree.yaml.error").exists()
    };
    assert!((0..30).any(stays));
    case.is_refused(&case.named(BAD));
}

#[test]
fn what_is_written_when_the_source_is_gone_is_kept() {
    let case = Case::new();
    let mut file = File::create(case.tree()).unwrap();
    fs::remove_file(&case.source).unwrap();
    file.write_all(case.named(NEW).as_bytes()).unwrap();
    let error = close(file).unwrap_err();
    assert!(wait_until(|| case.kept().iter().any(|kept| kept == case.named(NEW).as_bytes())), "{error}");
    let told = fs::read_to_string(case.path("tree.yaml.error")).unwrap();
    assert!(
        told.contains(".rejected.yaml") && told.contains("removed or moved by another program"),
        "{told}"
    );
    assert!(case.log().contains("it is kept in"), "{}", case.log());
    assert_eq!(fs::read_to_string(case.path("tree.yaml.rejected")).unwrap(), case.named(NEW));
}

fn set_tree(folder: &std::path::Path, text: &str, more: &[&str]) -> Output {
    fs::write(folder.join("new.yaml"), text).unwrap();
    let mut command = Command::new(program());
    command.args(["--set-tree", "new.yaml"]).args(more).arg("a.asdf").current_dir(folder);
    command.env("XDG_STATE_HOME", folder.join("state")).output().unwrap()
}

#[test]
fn set_tree_warns_and_can_be_forced() {
    let folder = fresh_folder();
    let (text, _) = build(&folder.path().join("a.asdf"));
    let tagged = text.replace("\nkey0:", TIMES);
    assert!(set_tree(folder.path(), &tagged, &[]).status.success());
    let said = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();
    let one_less = tagged.replace("t1: !time/time-1.2.0", "t1:");
    let output = set_tree(folder.path(), &one_less, &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(
        said(&output).contains("asdf-mount: warning: a.asdf: line 9, column 5: t1 has lost its tag"),
        "{output:?}"
    );
    let none = one_less.replace("!time/time-1.2.0 ", "");
    let output = set_tree(folder.path(), &none, &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        said(&output).contains("2 of 4 tags are gone") && said(&output).contains("--force"),
        "{output:?}"
    );
    let output = set_tree(folder.path(), &none, &["--force"]);
    assert!(output.status.success() && said(&output).contains("warning: "), "{output:?}");
    let saved = fs::read(folder.path().join("a.asdf")).unwrap();
    assert!(saved.starts_with(none.as_bytes()));
    // Without --set-tree, --force is an error.
    let output =
        Command::new(program()).args(["--force", "--check", "a.asdf"]).current_dir(folder.path()).output();
    assert_eq!(output.unwrap().status.code(), Some(2));
}
