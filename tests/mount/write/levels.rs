//! `-o validate=`: levels of checking.

use std::fs;

use common::case::{BAD, Case, errno};
use common::mount::wait_until;

/// Returns texts that Python asdf could not open as the same data, although the file stays a valid ASDF file.
fn meaningless(case: &Case) -> [String; 4] {
    [
        case.named(BAD),
        case.text.replace("source: 0", "source: 7"),
        case.text.replace("shape: [3000]", "shape: [3001]"),
        case.text.replace("--- !core/asdf-1.1.0", "---"),
    ]
}

#[test]
fn warn_saves_and_reports() {
    let case = Case::with(&["-o", "validate=warn"]);
    for (n, text) in meaningless(&case).iter().enumerate() {
        case.save(text).unwrap();
        case.is_saved_beside(text, n as u64 + 1, &["tree.yaml.warning"]);
        assert!(case.status().contains("last_warnings:\n- '"), "{}", case.status());
        let log = case.log();
        let told =
            log.lines().filter(|line| line.contains(" WARN ") && line.contains("saved with a warning"));
        assert!(told.count() > n, "{log}");
    }
    case.save(&case.text).unwrap();
    assert!(!case.status().contains("last_warnings"), "{}", case.status());
}

#[test]
fn off_does_not_look() {
    let case = Case::with(&["-o", "validate=off"]);
    for (n, text) in meaningless(&case).iter().enumerate() {
        case.save(text).unwrap();
        case.is_saved(text, n as u64 + 1);
    }
    assert!(!case.log().contains("WARN"), "{}", case.log());
}

#[test]
fn what_would_break_the_layout_is_refused_at_every_level() {
    for level in ["validate=strict", "validate=warn", "validate=off"] {
        let case = Case::with(&["-o", level]);
        for (old, new, why) in [
            ("#ASDF 1.0.0", "#ASDF 9.0.0", "the header line was changed"),
            ("#ASDF 1.0.0", "x: 1\n#ASDF 1.0.0", "there is text before the line"),
            ("key7:", "...\nkey7:", "the tree would end at this line '...'"),
            ("%YAML", "#ASDF BLOCK INDEX\n%YAML", "a line begins like the block index"),
            ("key7:", "<<<<<<< ours\nkey7:", "a line begins with a conflict marker"),
        ] {
            let text = case.text.replace(old, new);
            assert_eq!(
                case.save(&text).map_err(|error| error.raw_os_error()),
                Err(Some(libc::EINVAL)),
                "{text}"
            );
            assert_eq!((case.saved(), case.saves()), (case.text.clone(), 0), "{level}");
            case.is_refused(&text);
            let told = fs::read_to_string(case.path("tree.yaml.error")).unwrap();
            assert!(told.starts_with("line ") && told.contains(why), "{level}: {told}");
        }
    }
}

#[test]
fn strict_is_the_level_that_nobody_asked_for() {
    let case = Case::new();
    for text in meaningless(&case) {
        assert_eq!(errno(case.save(&text)), libc::EINVAL, "{text}");
        case.is_refused(&text);
    }
    // The kernel reports the end of a handle only after close has returned.
    assert!(wait_until(|| fs::read_to_string(case.tree()).unwrap() == case.text));
    assert_eq!((case.saved(), case.saves()), (case.text.clone(), 0));
}
