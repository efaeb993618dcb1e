mod notes;
mod texts;

use seekable::source::MemorySource;

use super::*;
use crate::asdf::head;

const PROLOGUE: &str =
    "#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n# a comment\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n";
const TREE: &str = "--- !core/asdf-1.1.0\na: !core/ndarray-1.0.0 {source: 0, shape: [10], datatype: int8, \
                    byteorder: big}\n\
                    b: !core/ndarray-1.0.0\n  source: 1\n  shape: [2, 2]\n  datatype: int32\n  byteorder: \
                    little\n\
                    meta: {name: x} # kept\n...\n";

fn base() -> String {
    [PROLOGUE, TREE].concat()
}

fn blocks() -> Vec<u64> {
    vec![10, 16]
}

/// Returns the base text with `from` replaced by `to`.
fn edited(from: &str, to: &str) -> String {
    let base = base();
    assert_eq!(base.matches(from).count(), 1, "{from}");
    base.replace(from, to)
}

fn checked<'n>(new: &'n [u8], old: &str, level: Validation) -> Result<Accepted<'n>, Box<Problems>> {
    check(new, &Old::of(old.as_bytes(), None), &blocks(), level)
}

/// Returns the problems for which a text is refused, with line and column.
fn refused(new: impl AsRef<[u8]>) -> (String, Option<(u64, u64)>) {
    match checked(new.as_ref(), &base(), Validation::Strict) {
        Ok(accepted) => panic!("accepted: {}", accepted.text.escape_ascii()),
        Err(refusal) => {
            assert_eq!(refusal.first.class.errno(), libc::EINVAL);
            let place = refusal.first.position.as_ref().map(|place| (place.line, place.column));
            (refusal.first.what.clone(), place)
        }
    }
}

fn accepted(new: &str, old: &str) -> (String, usize) {
    match checked(new.as_bytes(), old, Validation::Strict) {
        Ok(accepted) => (String::from_utf8(accepted.text.into_owned()).unwrap(), accepted.restored.len()),
        Err(refusal) => panic!("refused: {}", refusal.report()),
    }
}

#[test]
fn a_refusal_is_told_in_a_few_lines() {
    let new = edited("meta: {name: x}", "meta:\t{name: x, name: y}\na: 1");
    let refusal = checked(new.as_bytes(), &base(), Validation::Strict).unwrap_err();
    assert_eq!(
        refusal.report(),
        "line 13, column 17: the key \"name\" is repeated in the same mapping\n\
         \n    meta:   {name: x, name: y}\n                      ^\n\n\
         What to do: remove one of the two: readers see only the last\n\
         \nAlso:\n  line 14, column 1: the key \"a\" is repeated in the same mapping\n"
    );
}

#[test]
fn conflict_markers_are_refused_in_quoted_texts_and_comments_too() {
    let merged = "mine\n<<<<<<< yours\n  a\n=======\n  b\n>>>>>>> saved\n";
    for (from, to) in [
        ("name: x", format!("name: \"{merged}\"")),
        ("name: x", format!("name: '{}'", merged.replace('\n', "\r\n"))),
        ("name: x", "name: 'a\n||||||| base\n'".to_owned()),
        ("name: x", "name: 'a\n>>>>>>>\n'".to_owned()),
        ("name: x", "name: 'a\n=======\n'".to_owned()),
        ("# a comment\n", "=======\n".to_owned()),
        ("# a comment\n", "<<<<<<< yours\n# a\n=======\n# b\n>>>>>>> saved\n".to_owned()),
    ] {
        for level in [Validation::Strict, Validation::Warn, Validation::Off] {
            let new = edited(from, &to);
            let refusal = checked(new.as_bytes(), &base(), level).unwrap_err();
            assert!(refusal.first.what.contains("conflict marker"), "{to}: {}", refusal.report());
        }
    }
    // An underline, a quotation, a longer and an indented line.
    for text in [
        "a\n ======= \n",
        "a\n========\n",
        "a\n======= b\n",
        "a\n>>>>>> b\n",
        "a\n<<<<<<<<< b\n",
        "a\n  <<<<<<< b\n",
        "a\n<<<<<<<b",
    ] {
        let new = edited("name: x", &format!("name: \"{text}\""));
        assert_eq!(accepted(&new, &base()).0, new);
    }
    // A text about markers may be edited, but gets no further ones.
    let old = edited("name: x", &format!("name: \"{merged}\""));
    let new = old.replace("# kept", "# changed");
    assert_eq!(accepted(&new, &old).0, new);
    let more = new.replace("# changed", "\nmore: 'a\n<<<<<<< b\n'");
    assert!(checked(more.as_bytes(), &old, Validation::Strict).is_err());
}

#[test]
fn ordinary_edits_are_taken_byte_for_byte() {
    for (from, to) in [
        ("name: x", "name: 'a long text', more: [1, 2.5, ~, yes]"),
        ("# a comment\n", ""),
        ("# a comment", "# another\n# and another"),
        ("shape: [10]", "shape: [2, 5], offset: 0"),
        ("source: 0", "source: -2"),
        ("# kept", "# käpt \u{2028}"),
        ("meta:", "!<tag:stsci.edu:asdf/core/x-1.0.0> meta2: &x {a: 1}\nmeta:"),
        ("!core/asdf-1.1.0", "!<tag:stsci.edu:asdf/core/asdf-1.0.0>"),
        ("  shape: [2, 2]\n", "  shape:\n  - 2\n  - 2\n"),
        ("meta:", "c: &c {<<: {a: 1}}\nmeta: "),
        // PyYAML constructs these nodes without their tags.
        ("meta:", "c: !!omap [!core/ndarray-1.0.0 {source: 9}]\nmeta: "),
        ("meta:", "c: !!pairs [!core/complex-1.0.0 {a: 9}]\nmeta: "),
        (
            "meta:",
            "c: {<<: !core/ndarray-1.0.0 {source: 9, shape: [1], datatype: int8, byteorder: big}}\nmeta: ",
        ),
        ("meta:", "c: {<<: !core/complex-1.0.0 {a: 1}}\nmeta: "),
        ("meta:", "c: {<<: [!core/complex-1.0.0 {a: 1}]}\nmeta: "),
        ("...\n", "... \n...\n"),
    ] {
        if from.starts_with("meta") && to.starts_with("!<") {
            continue;
        }
        let new = edited(from, to);
        assert_eq!(accepted(&new, &base()), (new.clone(), 0), "{to}");
        let dos = new.replace('\n', "\r\n");
        assert_eq!(accepted(&dos, &base()), (dos.clone(), 0), "{to}");
    }
}

#[test]
fn what_a_tool_dropped_is_put_back() {
    let base = base();
    for (new, restored) in [
        (base.strip_suffix('\n').unwrap().to_owned(), 1),
        (base.strip_suffix("...\n").unwrap().to_owned(), 1),
        (base.strip_suffix("\n...\n").unwrap().to_owned(), 1),
        (TREE.to_owned(), 4),
        (edited("#ASDF 1.0.0\n", ""), 1),
        (edited("#ASDF_STANDARD 1.5.0\n", ""), 1),
        (edited("%YAML 1.1\n", ""), 1),
        (edited("%TAG ! tag:stsci.edu:asdf/\n", ""), 1),
        (edited("%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n", ""), 2),
    ] {
        assert_eq!(accepted(&new, &base), (base.clone(), restored), "{new}");
    }
    // The line --- is restored, too, although its tag stands alone now.
    let new = TREE.replace("--- !core", "!core").replace("...\n", "");
    let whole = edited("--- !core", "---\n!core");
    assert_eq!(accepted(&new, &base), (whole, 6));
    // Restored lines have the file's own line ends.
    let dos = base.replace('\n', "\r\n");
    assert_eq!(accepted(dos.strip_suffix("...\r\n").unwrap(), &dos), (dos.clone(), 1));
    assert_eq!(accepted(dos.strip_suffix("\n").unwrap(), &dos), (dos.clone(), 1));
    assert_eq!(accepted(&TREE.replace('\n', "\r\n"), &dos), (dos.clone(), 4));
}

#[test]
fn blanks_and_comments_behind_the_end_are_taken() {
    let base = base();
    let with = |tail: &str, comments: &str| {
        let expected = base.replace("...\n", &format!("{comments}...\n"));
        assert_eq!(accepted(&format!("{base}{tail}"), &base), (expected, 1), "{tail:?}");
    };
    for blank in ["\n", "\n\n \t\n", "   ", "\r\n", "...\n", "\n...", "...\r\n\n"] {
        with(blank, "");
    }
    with("# a\n", "# a\n");
    with("\n  # a\n\n#b", "# a\n#b\n");
    with("# a\n...\n# b\n", "# a\n# b\n");
    // A comment that is moved before the end does not become part of a block scalar there.
    let text = edited("meta: {name: x} # kept", "meta: |\n  text");
    assert_eq!(accepted(&format!("{text}  # a\n"), &base).0, text.replace("...\n", "# a\n...\n"));
    let dos = base.replace('\n', "\r\n");
    assert_eq!(accepted(&format!("{dos}\r\n# a\r\n"), &dos).0, dos.replace("...", "# a\r\n..."));
    // A tool that dropped the prologue may have added blank lines and comments after the end, too. Positions
    // are those of the text as written.
    assert_eq!(accepted(&format!("{TREE}\n"), &base), (base.clone(), 5));
    let (_, place) = refused(format!("{}\n\n", TREE.replace("[10]", "[11]")));
    assert_eq!(place, Some((2, 4)));
}

#[test]
fn an_array_may_have_elements_that_readers_take() {
    for fine in [
        "{data: [1, 127, null, true, 1.5, '7', \" 1_0 \"], datatype: int8}",
        "{data: [1, .nan, '1e5', inf, null], datatype: float32}",
        "{data: [a, 5, 2.5], datatype: [ascii, 3]}",
        "{data: [a, x], datatype: bool8}",
        "{data: [9223372036854775808], datatype: uint64}",
        "{data: [1, 2], datatype: int8, mask: !core/ndarray-1.0.0 {data: [1], datatype: bool8}}",
        "{data: [1, 2], datatype: int8, mask: 5.5}",
    ] {
        let new = edited("meta:", &format!("c: !core/ndarray-1.0.0 {fine}\nmeta:"));
        match checked(new.as_bytes(), &base(), Validation::Strict) {
            Ok(accepted) => assert_eq!(accepted.text.as_ref(), new.as_bytes()),
            Err(refusal) => panic!("{fine}: {}", refusal.report()),
        }
    }
}

#[test]
fn keys_may_be_what_python_can_look_up() {
    for key in ["1.5", ".nan", "-.inf", "2001-01-01", "~", "null", "!!binary aGVsbG8=", "=", "0x1f"] {
        let new = edited("name: x", &format!("{key}: x"));
        assert_eq!(accepted(&new, &base()), (new.clone(), 0));
    }
    for twice in ["{1: a, 1.0: b}", "{true: a, 1.0: b}", "{1.5: a, 1.50: b}", "{~: a, null: b}"] {
        let (what, _) = refused(edited("{name: x}", twice));
        assert!(what.contains("is repeated in the same mapping"), "{twice}: {what}");
    }
}

#[test]
fn a_place_is_that_in_the_text_as_it_was_written() {
    let new = TREE.replace("name: x", "name: [");
    let (what, place) = refused(new.strip_suffix("...\n").unwrap());
    assert!(what.contains("not valid YAML"), "{what}");
    assert_eq!(place, Some((8, 15)));
    let (_, place) = refused(TREE.replace("[10]", "[11]"));
    assert_eq!(place, Some((2, 4)));
}

#[test]
fn only_what_gets_worse_is_refused() {
    let odd = "#ASDF 1.0.0\n\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.0.0\n\
               list:\n- {x: 1, x: 2}\n- !core/ndarray-1.0.0 {source: 7, shape: [99], datatype: int8, \
               byteorder: big}\n\
               a: !core/ndarray-1.0.0 {source: 0, shape: [99], datatype: int8, byteorder: big}\n\
               1.5: 2001-99-99\nhistory: 3\nb: !core/ndarray-1.0.0 {source: 0}\n";
    let new = odd.replace("list:\n", "list:\n- new\n").replace("1.5: ", "new: 1\n1.5: ");
    assert_eq!(accepted(&new, odd).0, new.clone() + "...\n");
    for (from, to, expected) in [
        ("{x: 1, x: 2}", "{x: 1, x: 2, x: 3}", "\"x\" is repeated"),
        (
            "shape: [99], datatype: int8, byteorder: big}\na",
            "shape: [99], datatype: int9, byteorder: big}\na",
            "int9",
        ),
        ("history: 3", "history: 3\nc: 2001-99-98", "2001-99-98"),
        ("a: !core", "c: !core/ndarray-1.0.0 {source: 7}\na: !core", "no \"shape\""),
    ] {
        let new = odd.replace(from, to);
        assert_ne!(new, odd);
        let refusal = checked(new.as_bytes(), odd, Validation::Strict).unwrap_err();
        assert!(refusal.first.what.contains(expected), "{}", refusal.report());
    }
    // A tree that was not valid YAML may stay so, or become valid.
    let broken = "#ASDF 1.0.0\n%YAML 1.1\n---\na: [\n...\n";
    let still = broken.replace("a: [", "a: [[");
    assert_eq!(checked(still.as_bytes(), broken, Validation::Strict).unwrap().warnings.len(), 1);
    assert_eq!(accepted(&broken.replace('[', "1"), broken).1, 0);
}

#[test]
fn odd_files_can_be_saved() {
    for (old, new) in [
        ("#ASDF 1.0.0\n", "#ASDF 1.0.0\n# a comment\n"),
        ("#ASDF 1.0.0\n", "#ASDF 1.0.0\n%YAML 1.1\n---\na: 1\n...\n"),
        ("#ASDF 1.0.0\n---\na: 1\n...\n", "#ASDF 1.0.0\n---\na: 2\n...\n"),
        ("#ASDF 1.0.0\na: 1\n...\n", "#ASDF 1.0.0\na: 2\n...\n"),
        ("%ASDF 0.1.0\n%YAML 1.1\n---\na: 1\n...\n", "%ASDF 0.1.0\n%YAML 1.1\n---\na: 2\n...\n"),
        (
            "#ASDF 1.0.0\r\n# x\r\n%YAML 1.1\r\n---\r\na: 1\r\n...\r\n",
            "#ASDF 1.0.0\r\n# x\r\n%YAML 1.1\r\n---\r\na: 2\r\n...\r\n",
        ),
    ] {
        assert_eq!(accepted(new, old), (new.to_owned(), 0), "{new}");
    }
    assert_eq!(accepted("# x\n", "#ASDF 1.0.0\n").0, "#ASDF 1.0.0\n# x\n");
    assert_eq!(
        accepted("---\na: 2\n", "%ASDF 0.1.0\n%YAML 1.1\n---\na: 1\n...\n").0,
        "%ASDF 0.1.0\n%YAML 1.1\n---\na: 2\n...\n"
    );
    let refusal = checked(b"#ASDF 1.0.0\na: 1\n", "#ASDF 1.0.0\n", Validation::Strict).unwrap_err();
    assert!(refusal.first.what.contains("does not begin with a line '%YAML"), "{}", refusal.report());
    let refusal = checked(b"#ASDF 1.0.0\n a: 1\n", "#ASDF 1.0.0\n", Validation::Off).unwrap_err();
    assert!(
        refusal.first.what.contains("takes for padding") || refusal.first.what.contains("take for padding")
    );
}

#[test]
fn the_levels_ask_for_less() {
    let meaning = edited("meta:", "b: [\nmeta:");
    let layout = edited("meta:", "...\nmeta:");
    let warned = checked(meaning.as_bytes(), &base(), Validation::Warn).unwrap();
    assert_eq!((warned.text.as_ref(), warned.warnings.len()), (meaning.as_bytes(), 1));
    let off = checked(meaning.as_bytes(), &base(), Validation::Off).unwrap();
    assert_eq!((off.text.as_ref(), off.warnings.len(), off.next.is_none()), (meaning.as_bytes(), 0, true));
    for level in [Validation::Warn, Validation::Off] {
        assert!(checked(layout.as_bytes(), &base(), level).is_err());
        assert!(checked(edited("1.0.0\n#", "1.0.1\n#").as_bytes(), &base(), level).is_err());
    }
    let large = edited("name: x", "name: 9223372036854775808");
    assert_eq!(checked(large.as_bytes(), &base(), Validation::Strict).unwrap().warnings.len(), 1);
}

/// Checks the invariants of any accepted text, at every level.
fn assert_sound(new: &[u8], accepted: &Accepted<'_>, level: Validation) {
    let text = accepted.text.as_ref();
    // All written bytes are there, in order, except those after the end.
    let mut rest = text.iter();
    let whole = accepted.restored.iter().all(|line| line.ends_with("restored"));
    assert!(!whole || new.iter().all(|byte| rest.any(|other| other == byte)), "{}", new.escape_ascii());
    let again = checked(text, &base(), level).expect("a normalized text is accepted");
    assert_eq!((again.text.as_ref(), again.restored.len()), (text, 0));
    for behind in [&b"    \xd3BLK"[..], b"\xd3BLK\0\x30", b""] {
        if behind.starts_with(b" ") && !text.ends_with(b"...\n") && !text.ends_with(b"...\r\n") {
            continue;
        }
        let read = head::read(&MemorySource([text, behind].concat())).unwrap();
        assert_eq!((read.end, read.defects.len()), (text.len() as u64, 0), "{}", text.escape_ascii());
    }
}

#[test]
#[allow(clippy::too_many_lines)] // one case after the other, in the order that they happen
fn no_mutation_panics_and_what_is_accepted_is_sound() {
    let base = base();
    let old = Old::of(base.as_bytes(), None);
    let mut state = 5u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let tokens: [&[u8]; 22] = [
        b"...",
        b"\n...\n",
        b"---",
        b"%YAML 1.1\n",
        b"%TAG ! tag:x/\n",
        b"#ASDF ",
        b"\r\n",
        b"\r",
        b"\n",
        b" ",
        b"\t",
        b"#",
        b"\0",
        b"\xff",
        b"\xd3BLK",
        b"#ASDF BLOCK INDEX\n",
        b"[",
        b"'",
        b"source: 5",
        b"!core/ndarray-1.0.0 ",
        b"&a ",
        b"*a",
    ];
    let mut counts = [0; 3];
    for _ in 0..6_000 {
        let mut text = base.clone().into_bytes();
        for _ in 0..=random(3) {
            let at = random(text.len().max(1)).min(text.len());
            match random(6) {
                0 => text.truncate(at),
                1 => drop(text.splice(at..at, tokens[random(tokens.len())].iter().copied())),
                2 if at < text.len() => text[at] ^= 1 << random(8),
                3 => drop(text.drain(..at.min(120))),
                _ => {
                    let mut lines: Vec<Vec<u8>> =
                        text.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
                    if let Some(last) = lines.len().checked_sub(1) {
                        let from = random(last + 1);
                        let to = random(last + 1);
                        if random(2) == 0 { lines.swap(from, to) } else { drop(lines.remove(from)) }
                    }
                    text = lines.concat();
                }
            }
        }
        for (n, level) in [Validation::Strict, Validation::Warn, Validation::Off].into_iter().enumerate() {
            match check(&text, &old, &blocks(), level) {
                Ok(accepted) => {
                    counts[n] += 1;
                    assert_sound(&text, &accepted, level);
                }
                Err(refusal) => assert!(!refusal.report().is_empty()),
            }
        }
    }
    assert!(counts[0] > 300 && counts[0] < counts[1] && counts[1] == counts[2], "{counts:?}");
}

#[test]
fn the_lines_of_many_problems_are_not_all_counted() {
    let arrays = |source: &str, count: usize| -> String {
        let array = |n| {
            format!("a{n}: !core/ndarray-1.0.0 {{{source}, shape: [1], datatype: int8, byteorder: big}}\n")
        };
        [PROLOGUE, "--- !core/asdf-1.1.0\n", &(0..count).map(array).collect::<String>(), "...\n"].concat()
    };
    let count = 5_000;
    let old = Old::of(arrays("source: 0", count).as_bytes(), None);
    let new = arrays("source: 9", count);
    let refusal = check(new.as_bytes(), &old, &blocks(), Validation::Strict).unwrap_err();
    assert_eq!(refusal.further.len(), MAX_FURTHER);
    let warned = check(new.as_bytes(), &old, &blocks(), Validation::Warn).unwrap().warnings;
    assert_eq!(warned.len(), MAX_WARNINGS + 1);
    assert_eq!(warned.last().unwrap().to_string(), format!("and {} more", count - MAX_WARNINGS));
    assert_eq!(excerpt::ASKED.get(), 1 + MAX_FURTHER + MAX_WARNINGS, "lines are counted for what is told");
}

/// `scripts/test --all` runs this test.
mod rare {
    use super::*;

    #[test]
    fn a_text_that_is_too_large_for_a_document_must_still_be_yaml() {
        let comments = (0..12).map(|n| format!("c{n}: 1\n# {}\n", "x".repeat(24 << 20))).collect::<String>();
        let text = |prologue: &str, first: &str, last: &str| {
            [prologue, "---\n", first, &comments, last, "...\n"].concat()
        };
        let old = text(PROLOGUE, "", "a: 1\n");
        let new = text(PROLOGUE, "", "a: 2\n");
        let warnings = checked(new.as_bytes(), &old, Validation::Strict).unwrap().warnings;
        assert_eq!(warnings[0].what, "the tree is longer than 256 MiB");
        drop(new);
        let refused = |broken: &str, old: &str| {
            let refusal = checked(broken.as_bytes(), old, Validation::Strict).unwrap_err();
            assert!(refusal.first.what.starts_with("this is not valid YAML: "), "{}", refusal.first.what);
        };
        refused(&text(PROLOGUE, "", "a: [\n"), &old);
        let early = "%ASDF 0.1.0\n%YAML 1.1\n";
        refused(&text(early, "a: [\n", ""), &text(early, "", ""));
    }
}
