use super::*;
use crate::limits::{MAX_NOTES, MAX_VALUE};
use seekable::content::Text;

const TAGS: Wanted<'static> = Wanted {
    tag: &|tag| tag.ends_with("want"),
    telling: &["source", "shape"],
    array: "data",
    root_keys: &["top"],
    ..Wanted::NOTHING
};

/// Surveys the nodes of a text.
fn nodes_in(text: &str, found: &mut dyn FnMut(&Paths, WantedNode<'_>)) -> Survey {
    nodes::survey(&Document::read(&Text::new(text.as_bytes())).unwrap(), TAGS, found).unwrap()
}

fn surveyed(text: &str) -> TextSurvey {
    findings::survey(&read(&Text::new(text.as_bytes())).unwrap(), None)
}

/// Returns the findings of a text, each with line and column.
fn findings(text: &str) -> Vec<(Wrong, u64, u64)> {
    let document = read(&Text::new(text.as_bytes())).unwrap();
    let survey = findings::survey(&document, None);
    let place = |finding: &Finding| document.mark_at(finding.at);
    survey.findings.iter().map(|found| (found.wrong, place(found).line, place(found).column)).collect()
}

#[test]
fn wanted_nodes_come_with_path_place_and_fields() {
    let mut seen = Vec::new();
    let text =
        "a: !want {x: 1, mask: !want [1, 2]}\nb:\n- 5\n- c: &w !want y\n  d: *w\ntop: {k: v}\n!want q: r\n";
    let survey = nodes_in(text, &mut |paths, found| {
        seen.push((paths.show(found.path), found.value.place.line, found.root_key.map(str::to_owned)));
    });
    let place = |path: &str, line, key: Option<&str>| (path.to_owned(), line, key.map(str::to_owned));
    assert_eq!(
        seen,
        [
            place("a/mask", 1, None),
            place("a", 1, None),
            place("b/1/c", 4, None),
            place("top", 6, Some("top")),
            place("?", 7, None),
        ]
    );
    let [alias] = survey.aliases[..] else { panic!("there is one alias") };
    assert_eq!(
        (survey.paths.show(alias.path), survey.paths.show(alias.target)),
        ("b/1/d".into(), "b/1/c".into())
    );
    assert_eq!(alias.place.line, 5);
    let survey = surveyed(text);
    assert_eq!(survey.root, Some(Root { tag: None, mapping: true, at: 0 }));
    assert_eq!(survey.depth.0, 3);
}

#[test]
fn a_large_array_in_the_tree_is_kept_as_its_shape() {
    let rows: String = (0..2000).map(|n| format!("  - [{n}, 2, 3]\n")).collect();
    let mut shapes = Vec::new();
    nodes_in(&format!("a: !want\n  data:\n{rows}  x: 1\n"), &mut |_, found| {
        let data = found.value.get("data").unwrap();
        assert_eq!(found.value.get("x").unwrap().integer(), Some(1));
        match &data.node {
            NodeContent::LargeSequence(shape) => shapes.push(shape.clone()),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(shapes, [SequenceShape::Array(vec![2000, 3])]);
}

#[test]
fn a_value_that_is_too_large_is_told_apart() {
    let many: String = (0..MAX_VALUE + 10).map(|n| format!("k{n}: 1\n  ")).collect();
    let text = format!("a: !want\n  {many}\nb: !want\n  x: [{}]\n  y: 1\n", "1,".repeat(MAX_VALUE + 10));
    let mut whole = Vec::new();
    nodes_in(&text, &mut |_, found| {
        whole.push((found.value.is_whole(), found.value.get("y").and_then(TreeNode::integer)));
        assert!(found.value.get("x").is_none_or(|x| matches!(x.node, NodeContent::LargeSequence(_))));
    });
    assert_eq!(whole, [(false, None), (true, Some(1))]);
}

#[test]
fn what_readers_do_not_get_over_is_found_with_its_place() {
    use Wrong::*;
    for (text, expected) in [
        ("a: 1\nb: 2\n'a': 3\n", vec![(DuplicateKey, 3, 1)]),
        ("1: a\n0x1: b\ntrue: c\n'1': d\n", vec![(DuplicateKey, 2, 1), (DuplicateKey, 3, 1)]),
        ("a: &x k\n*x : 1\nk: 2\n", vec![(DuplicateKey, 3, 1)]),
        ("a: *b\n", vec![(UndefinedAlias, 1, 4)]),
        ("*b : 1\n", vec![(UndefinedAlias, 1, 1)]),
        ("a: &b 1\nc: [&b 2]\n", vec![(RepeatedAnchor, 2, 5)]),
        ("[a]: 1\n", vec![(UnhashableKey, 1, 1)]),
        ("? {a: 1}\n: 1\n", vec![(UnhashableKey, 1, 3)]),
        ("a: &x [1]\n*x : 1\n", vec![(UnhashableKey, 2, 1)]),
        ("!foo a: 1\n", vec![(UnhashableKey, 1, 1)]),
        ("1.5: a\nnull: b\n2001-01-01: c\n? !!binary aGk=\n: d\n", vec![]),
        ("ä: 2001-99-99\n", vec![(Unfit, 1, 4)]),
        ("a: ! '2001-99-99'\n! b: 1\n", vec![(Unfit, 1, 4)]),
        ("a: 0x_\nb: !!int abc\nc: !!map [a]\n", vec![(Unfit, 1, 4), (Unfit, 2, 4), (Unfit, 3, 4)]),
        ("a: !!omap [b: 1, {c: 1, d: 2}, e]\n", vec![(Unfit, 1, 18), (Unfit, 1, 32)]),
        // PyYAML constructs no pair and no merged mapping by its tag, unless an alias stands elsewhere.
        ("a: !!omap [!!omap {b: 1}, !!str {c: 2}]\nd: !!pairs [!!omap {[e]: 1}]\n", vec![]),
        ("a: &x {b: 1}\n<<: !!omap {c: 2}\nd: {<<: !!str [!!seq {e: 1}, *x]}\n", vec![]),
        ("a: !!omap [&x !!omap {b: 1}]\nc: *x\n", vec![(Unfit, 2, 4)]),
        ("a: !!omap {b: 1}\nc: [!!omap {b: 1}]\n", vec![(Unfit, 1, 4), (Unfit, 2, 5)]),
        (
            "a: !!omap [<<: {b: 1}]\nc: !!omap [[d]: 1]\n",
            vec![(UnhashableKey, 1, 12), (UnhashableKey, 2, 12)],
        ),
        ("a: !!pairs [{b: 1, c: 2}]\n", vec![(Unfit, 1, 13)]),
        ("<<: {a: 1}\n<<: {a: 2}\n? !!merge [b]\n: {a: 3}\n!!value c: 1\n", vec![]),
        ("a: !!int {=: 5, [b]: 1}\nc: !!int {d: 5}\n", vec![(Unfit, 2, 4)]),
        ("<<: x\n", vec![(Merge, 1, 5)]),
        ("a: &a {b: 1}\n<<: [*a, 3]\n", vec![(Merge, 2, 5)]),
        ("a: 1\n---\nb: 2\n---\nc: [\n", vec![(SecondDocument, 2, 1)]),
        ("a: 9223372036854775808\n", vec![(LargeInteger, 1, 4)]),
        (
            "a: &x [*x]\nb: &y {<<: *y, z: =}\n<<: &a {c: 1}\n'<<': 1\n=: 2\n!!str 1: a\n!!int '1': b\n",
            vec![],
        ),
    ] {
        assert_eq!(findings(text), expected, "{text}");
    }
}

#[test]
fn a_finding_has_the_same_identity_wherever_it_moves() {
    let identity = |text: &str| surveyed(text).findings[0].identity;
    let there = identity("x:\n- {a: 1, a: 2}\n");
    assert_eq!(there, identity("y: 1\nx:\n- 0\n- # b\n  {b: 0, a: 1, a: 2}\n"));
    assert_ne!(there, identity("y:\n- {a: 1, a: 2}\n"));
    assert_ne!(there, identity("x:\n- {b: 1, b: 2}\n"));
}

#[test]
fn large_mappings_and_findings_without_end_are_borne() {
    let text: String = (0..5000).map(|n| format!("k{}: {n}\n", n % 2500)).collect();
    let survey = surveyed(&text);
    assert_eq!(survey.findings.len(), MAX_NOTES);
    assert_eq!(survey.findings[0].at as usize, text.match_indices("k0:").nth(1).unwrap().0);
}

#[test]
fn mappings_that_look_like_wanted_ones_are_known() {
    let text = "a: {source: 1, shape: 2}\nb: !want {source: 1, shape: 2}\nc: {source: 1}\n";
    let survey = nodes_in(text, &mut |_, _| {});
    let [(path, place)] = survey.untagged[..] else { panic!("there is one") };
    assert_eq!((survey.paths.show(path), place.line), ("a".to_owned(), 1));
}

/// PyYAML takes keys and values out of merged mappings and pairs, whatever the tags of these are.
#[test]
fn a_node_that_is_not_constructed_is_no_wanted_one() {
    for (text, expected) in [
        ("a: {<<: !want {x: 1}}\n", vec![]),
        ("a: {<<: [!want {x: 1}, !want {y: 1}]}\n", vec![]),
        ("a: {<<: !want [{x: 1}]}\n", vec![]),
        ("a: !!omap [!want {x: 1}]\nb: !!pairs [!want {x: 1}]\n", vec![]),
        ("a: {<<: !want {source: 1, shape: 2}}\n", vec![]),
        ("a: {<<: !want {x: !want {y: 1}}}\n", vec!["a/<</x"]),
        ("a: !!omap [x: !want {y: 1}]\n", vec!["a/0/x"]),
        ("a: {<<: [{x: !want [1]}]}\n", vec!["a/<</0/x"]),
        ("a: {<<: &w !want {x: 1}}\nb: *w\n", vec!["a/<<"]),
    ] {
        let mut seen = Vec::new();
        let survey = nodes_in(text, &mut |paths, found| seen.push(paths.show(found.path)));
        assert_eq!(
            (seen, survey.untagged.len()),
            (expected.iter().map(ToString::to_string).collect(), 0),
            "{text}"
        );
    }
}

#[test]
fn what_is_kept_is_bounded_by_the_text() {
    let chain: String = (1..50_000).map(|n| format!("- &a{n} [*a{}]\n", n - 1)).collect();
    assert_eq!(nodes_in(&format!("- &a0 x\n{chain}"), &mut |_, _| {}).aliases.len(), 49_999);
    // Deep paths with keys of 1000 bytes.
    let mut text = String::new();
    for depth in 0..400 {
        text.push_str(&format!("{}{}:\n", " ".repeat(depth), "k".repeat(1000)));
    }
    assert_eq!(surveyed(&text).depth.0, 400);
    let deep = "[".repeat(990) + &"]".repeat(990);
    assert_eq!(surveyed(&deep).depth.0, 990);
    let broken = read(&Text::new("[".repeat(2000).into_bytes())).unwrap_err();
    assert!(broken.too_large);
    assert_eq!(broken.failure.unwrap().place.column, 1001);
}

#[test]
fn a_whole_head_is_checked_whatever_its_first_line() {
    let check = |text: &str| {
        let text = seekable::content::Text::new(text.as_bytes().to_vec());
        read(&text)
            .map_err(Error::from)
            .and_then(|document| check_tree(&document))
            .map_err(|error| error.to_string())
    };
    for fine in [
        "#ASDF 1.0.0\n%YAML 1.1\n---\na: 1\n...\n",
        "%ASDF 0.1.0\n%YAML 1.1\n---\na: 1\na: 2\n...\n",
        "#ASDF 1.0.0\n",
        "",
    ] {
        assert_eq!(check(fine), Ok(()), "{fine}");
    }
    for (text, expected) in [
        ("%ASDF 0.1.0\n%YAML 1.1\n---\na: [\n...\n", "line 5, column 1"),
        ("%ASDG 0.1.0\n---\na: 1\n", "line 1, column 6"),
        ("#ASDF 1.0.0\n--- {a: *b}\n", "line 2, column 9: the alias \"*b\" has no anchor before it"),
        ("#ASDF 1.0.0\n---\na: 1\n---\n", "line 4, column 1"),
    ] {
        let error = check(text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn no_mutation_panics() {
    let seed = b"%TAG ! tag:x/\n--- !r\na: &b !c [1, 'x', [2, 3]]\nd: !want {data: [[1], [2]], source: 1, shape: [1]}\n? *b\n: {<<: {e: 1}, e: 0x1}\nf: !!omap [g: *b]\ntop: !want 5\n";
    let mut state = 11u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let tokens: [&[u8]; 16] = [
        b"[", b"]", b"{", b"}", b"&b ", b"*b", b"!want ", b"<<: ", b", ", b": ", b"\n", b"- ", b"? ",
        b"!!set ", b"data: ", b"'",
    ];
    for _ in 0..20_000 {
        let mut text = seed.to_vec();
        for _ in 0..=random(4) {
            let at = random(text.len());
            match random(4) {
                0 => text.truncate(at + 1),
                1 => drop(text.splice(at..at + 1, tokens[random(tokens.len())].iter().copied())),
                2 => drop(text.splice(at..at, tokens[random(tokens.len())].iter().copied())),
                _ => text[at] ^= 1 << random(8),
            }
        }
        let document = Document::read(&Text::new(text.clone())).unwrap();
        let _ = nodes::survey(&document, TAGS, &mut |paths, found| drop(paths.show(found.path)));
        for finding in findings::survey(&document, None).findings {
            assert!(finding.at <= text.len() as u64);
        }
    }
}
