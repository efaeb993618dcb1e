use asdf_file::asdf::view::{AsdfFile, View};
use asdf_file::container::Context;
use asdf_file::folder::Node;
use proptest::prelude::*;
use seekable::cache::Cache;
use serde_json::{Value, json};

use super::*;
use crate::counted::CountedSource;
use crate::views::tree_json::JsonFile;

const HEAD: &str = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- ";

fn text(nodes: &str, tagged: bool) -> Result<String> {
    Ok(String::from_utf8(of_text(format!("{HEAD}{nodes}\n...\n").as_bytes(), tagged)?).unwrap())
}

fn json(nodes: &str) -> Value {
    serde_json::from_str(&text(nodes, false).unwrap()).unwrap()
}

fn tagged(nodes: &str) -> Value {
    serde_json::from_str(&text(nodes, true).unwrap()).unwrap()
}

#[test]
fn members_have_lines_of_their_own_and_items_follow_each_other() {
    let shown = text("\na: {}\nb: [1, [2, 3], {c: null, d: []}]\ne: !x\n  f: true", false).unwrap();
    let expected = "{\n  \"a\": {},\n  \"b\": [1, [2, 3], {\n    \"c\": null,\n    \"d\": []\n  }],\n  \
                    \"e\": {\n    \
                    \"f\": true\n  }\n}\n";
    assert_eq!(shown, expected);
    assert_eq!(of_text(b"#ASDF 1.0.0\n", false).unwrap(), b"{}\n");
}

#[test]
fn many_numbers_are_written_in_pieces() {
    let numbers: Vec<String> = (0..30_000).map(|n| format!("{n}.5")).collect();
    let rows: Vec<String> = (0..3000).map(|n| format!("- [{n}, 0x1F, ~]\n- - yes\n  - {n}")).collect();
    let nodes = format!("\na: [{}]\nb:\n{}\n- {{c: 1}}", numbers.join(", "), rows.join("\n"));
    let shown = text(&nodes, false).unwrap();
    let expected_rows: Vec<String> = (0..3000).map(|n| format!("[{n}, 31, null], [true, {n}]")).collect();
    let rows = expected_rows.join(", ");
    let expected =
        format!("{{\n  \"a\": [{}],\n  \"b\": [{rows}, {{\n    \"c\": 1\n  }}]\n}}\n", numbers.join(", "));
    assert!(shown == expected, "{shown:.300}");
}

#[test]
fn scalars_are_what_python_asdf_reads() {
    for (yaml, expected) in [
        ("~", json!(null)),
        ("Off", json!(false)),
        ("0x1F", json!(31)),
        ("017", json!(15)),
        ("-0b11", json!(-3)),
        ("1_000", json!(1000)),
        ("190:20:30", json!(685_230)),
        ("1:30.5", json!(90.5)),
        ("1.0e+3", json!(1000.0)),
        ("1e3", json!("1e3")),
        ("'5'", json!("5")),
        ("!!str 5", json!("5")),
        ("! 5", json!(5)),
        ("! '12'", json!(12)),
        ("! '2001-12-14 21:59:43+00:00'", json!("2001-12-14T21:59:43+00:00")),
        ("! ''", json!(null)),
        ("!!int '3'", json!(3)),
        ("!!float 3", json!(3.0)),
        ("!!bool yES", json!(true)),
        ("!!null x", json!(null)),
        ("!foo 5", json!("5")),
        (".nan", json!(null)),
        ("-.inf", json!(null)),
        ("!!binary |\n  aG\n  k=\n", json!("aGk=")),
        ("2001-12-14", json!("2001-12-14")),
        ("2001-12-14t21:59:43.10-05:00", json!("2001-12-14T21:59:43.100000-05:00")),
        ("2001-12-14 1:59:43", json!("2001-12-14T01:59:43")),
        ("2001-12-14 1:59:43 Z", json!("2001-12-14T01:59:43+00:00")),
        ("2001-12-14 1:59:43.1234567 +5", json!("2001-12-14T01:59:43.123456+05:00")),
        ("2001-02-30", json!("2001-02-30")),
        ("\"a\\tb\\u2028\\\"\"", json!("a\tb\u{2028}\"")),
    ] {
        assert_eq!(
            json(&format!("[{yaml}\n]").replace("[!!binary", "\n- !!binary").replace("\n\n]", "")),
            json!([expected]),
            "{yaml}"
        );
    }
    assert_eq!(text("9999999999999999999999999999999999999999999", false).unwrap().len(), 44);
    assert_eq!(text("+1_0", false).unwrap(), "10\n");
}

#[test]
fn keys_are_strings() {
    let value = json("{3: a, true: b, ~: c, 1.5: d, 2001-12-14: e, 0x10: f, .nan: g, '<<': h, !!str 2: i}");
    let expected = json!({"3": "a", "true": "b", "null": "c", "1.5": "d", "2001-12-14": "e", "16": "f", ".nan": "g",
                          "<<": "h", "2": "i"});
    assert_eq!(value, expected);
    assert_eq!(json("{a: 1, a: 2}"), json!({"a": 2}));
}

/// Expected values are those of Python's `yaml.safe_load`, and names of keys those of `json.dumps`.
#[test]
fn numbers_that_are_one_key_to_python_have_one_name() {
    for (nodes, expected) in [
        ("{1: a, true: b}", json!({"1": "b"})),
        ("{yes: a, 1.0: b, 1: c}", json!({"true": "c"})),
        ("{0: a, false: b, -0.0: c, '0': d}", json!({"0": "d"})),
        ("{2.0: a, 2: b, 0x2: c, true: d, 2.5: e}", json!({"2.0": "c", "true": "d", "2.5": "e"})),
        ("{1.0e+22: a, 10000000000000000000000: b}", json!({"1e22": "b"})),
        ("{.inf: a, +.inf: b, -.inf: c}", json!({".inf": "b", "-.inf": "c"})),
        ("{a: &t true, b: {1: x, *t : y}}", json!({"a": true, "b": {"1": "y"}})),
        ("{a: {1: x}, b: {true: y}}", json!({"a": {"1": "x"}, "b": {"true": "y"}})),
        ("{1: &m [], true: 2}", json!({"1": 2})),
    ] {
        assert_eq!(json(nodes), expected, "{nodes}");
    }
}

#[test]
fn what_is_mentioned_again_is_a_reference_or_the_scalar_itself() {
    let value = json("{a: {b/~: &list [1, &short x]}, c: *list, d: *short, e: &deep {f: *deep}, *short : 2}");
    let expected = json!({"a": {"b/~": [1, "x"]}, "c": {"$ref": "#/a/b~1~0"}, "d": "x",
                          "e": {"f": {"$ref": "#/e"}}, "x": 2});
    assert_eq!(value, expected);
    let long = format!("{{a: &long {0}, b: *long}}", "x".repeat(300));
    assert_eq!(json(&long)["b"], json!({"$ref": "#/a"}));
    assert_eq!(
        json("[&a [], *a, &a 1, *a]"),
        json!([[], {"$ref": "#/0"}, 1, 1]),
        "an anchor may be given anew"
    );
}

#[test]
fn tags_are_kept_on_request() {
    let value =
        tagged("!core/asdf-1.1.0 {a: !x 5, b: !!set {y}, c: .inf, d: 2001-12-14, e: ! 5, f: &s !y z, g: *s}");
    let tag = |tag: &str, value: Value| json!({"$tag": tag, "$value": value});
    let inner = json!({
        "a": tag("tag:stsci.edu:asdf/x", json!("5")),
        "b": tag("tag:yaml.org,2002:set", json!({"y": null})),
        "c": tag("tag:yaml.org,2002:float", json!(".inf")),
        "d": tag("tag:yaml.org,2002:timestamp", json!("2001-12-14")),
        "e": 5,
        "f": tag("tag:stsci.edu:asdf/y", json!("z")),
        "g": tag("tag:stsci.edu:asdf/y", json!("z")),
    });
    assert_eq!(value, tag("tag:stsci.edu:asdf/core/asdf-1.1.0", inner));
}

#[test]
fn a_look_at_the_files_reads_the_tree_only_once() {
    for nodes in ["{a: 1}".to_owned(), format!("[{}]", "long text, ".repeat(256 << 10))] {
        let tree = format!("{HEAD}{nodes}\n...\n").into_bytes();
        let source = CountedSource::new(tree);
        let context = Context::new(Arc::new(Cache::new(1 << 20)));
        let file = Arc::new(AsdfFile::open(source.clone(), &context, &[]).unwrap());
        let bare = JsonFile::WITHOUT_TAGS;
        let tagged = JsonFile::WITH_TAGS;
        assert!(bare.is_made_slowly(&file) && tagged.is_made_slowly(&file));
        let lens = || {
            [bare, tagged].map(|view| match view.node(&file) {
                Some(Node::File(made)) => made.content.unwrap().len(),
                other => panic!("{other:?}"),
            })
        };
        let first = lens();
        let reads = source.counts();
        assert_eq!((lens(), source.counts()), (first, reads));
        assert!(!bare.is_made_slowly(&file) && !tagged.is_made_slowly(&file) && first[0] > 2);
    }
}

#[test]
fn own_keys_are_told_from_those_of_the_tagged_form() {
    let nodes = "{$tag: a, $value: !x 1, $$ref: 2, $ref: '#/x', $other: 3, ref: 4, $: &s [5], $$tag: *s}";
    let expected = json!({"$$tag": "a", "$$value": {"$tag": "tag:stsci.edu:asdf/x", "$value": "1"}, "$$$ref": 2,
                          "$$ref": "#/x", "$other": 3, "ref": 4, "$": [5], "$$$tag": {"$ref": "#/$"}});
    assert_eq!(tagged(nodes), expected);
    assert_eq!(json(nodes)["$ref"], "#/x", "the standard's own references stay");
}

#[test]
fn a_large_integer_keeps_its_type() {
    let large = format!("0x1{}", "0".repeat(40));
    assert_eq!(json(&large), json!(large));
    assert_eq!(tagged(&large), json!({"$tag": "tag:yaml.org,2002:int", "$value": large}));
}

#[test]
fn no_reference_leads_to_another_value_than_its_own() {
    // An alias that no reference can stand for is null.
    for (nodes, expected) in [
        ("{a: &x [1], a: [2], c: *x}", json!({"a": [2], "c": null})),
        ("{1: &x [1], '1': [2], c: *x}", json!({"1": [2], "c": null})),
        ("{a: {b: [0, &x [1]]}, a: {b: [0, [2]]}, c: *x}", json!({"a": {"b": [0, [2]]}, "c": null})),
        ("{a: &x [1], a: &y [2], c: *x, d: *y}", json!({"a": [2], "c": null, "d": {"$ref": "#/a"}})),
        ("{a: &x {b: 1}, a: 2, c: {<<: *x, d: 3}}", json!({"a": 2, "c": {"d": 3}})),
        (
            "{a: &x {b: 1}, a: 2, y: &y {e: 4}, c: {<<: [*x, *y]}}",
            json!({"a": 2, "y": {"e": 4}, "c": {"e": 4}}),
        ),
        ("{a: &x [1], c: *x, a: [2]}", json!({"a": [2], "c": null})),
        (
            "{a: &x [1], c: *x, d: &x [3], e: *x, a: [2]}",
            json!({"a": [2], "c": null, "d": [3], "e": {"$ref": "#/d"}}),
        ),
        ("{a: {b: &x [1]}, c: [*x, 5], a: [2]}", json!({"a": [2], "c": [null, 5]})),
        ("{a: &x {b: [1]}, c: {<<: *x}, a: [2]}", json!({"a": [2], "c": {}})),
    ] {
        assert_eq!(json(nodes), expected, "{nodes}");
        assert_eq!(tagged(nodes), expected, "{nodes}");
    }
    let head = format!("{HEAD}{{a: &x [1], c: *x, d: *x, a: [2]}}\n...\n");
    let document = Document::read(&Text::new(head.into_bytes())).unwrap();
    let tree = Tree { members: Arc::new(members_of(&document).unwrap()), document: Arc::new(document) };
    let mut output = [JsonOutput::new(Tags::Dropped)];
    let mut walk = Walk::default();
    while walk.more(&tree, &mut output).unwrap() {}
    assert_eq!(
        tree.note(&output[0]).unwrap(),
        "without a value: the alias *x refers to the first value of a repeated key at line 4, column 20, and 1 more \
         aliases"
    );
    for (nodes, expected) in [
        ("{a: [2], a: &x [1], c: *x}", json!({"a": [1], "c": {"$ref": "#/a"}})),
        ("{a: &x [1], a: [2], c: &x [3], d: *x}", json!({"a": [2], "c": [3], "d": {"$ref": "#/c"}})),
        ("{a: &x 1, a: [2], c: *x}", json!({"a": [2], "c": 1})),
        (
            "{a: {b: &x [1]}, a/b: 1, a0: 1, ab: {b: 1}, c: *x}",
            json!({"a": {"b": [1]}, "a/b": 1, "a0": 1, "ab": {"b": 1}, "c": {"$ref": "#/a/b"}}),
        ),
        (
            "{b: {a: &x [1]}, c: {a: 1, a: 2}, d: *x}",
            json!({"b": {"a": [1]}, "c": {"a": 2}, "d": {"$ref": "#/b/a"}}),
        ),
    ] {
        assert_eq!(json(nodes), expected, "{nodes}");
    }
}

/// The form of weldx: anchors on keys and values.
#[test]
fn a_repeated_key_with_the_node_that_it_has_already_is_one_member() {
    let list = json!({"v": [1]});
    for (nodes, expected) in [
        ("{a: {&k v: &x [1], u: 2, *k : *x}}", json!({"a": {"v": [1], "u": 2}})),
        ("{a: {v: &x [1], v: *x, w: *x}}", json!({"a": {"v": [1], "w": {"$ref": "#/a/v"}}})),
        ("{a: &x {v: [1]}, b: *x, a: *x}", json!({"a": list, "b": {"$ref": "#/a"}})),
        ("{1: &x [1], true: *x}", json!({"1": [1]})),
        ("{x: &x {v: &y [1], v: *y}, z: {<<: *x}}", json!({"x": list, "z": {"v": {"$ref": "#/x/v"}}})),
    ] {
        assert_eq!(json(nodes), expected, "{nodes}");
        assert_eq!(tagged(nodes), expected, "{nodes}");
        assert_eq!(
            text(nodes, false).unwrap().matches("\"v\":").count(),
            expected.to_string().matches("\"v\":").count()
        );
    }
}

#[test]
fn merge_keys_bring_the_members_of_other_mappings() {
    let base = "x: &x {a: 1, l: [1], t: !y 2}, z: &z {a: 3, b: 4}";
    let list = json!({"$ref": "#/x/l"});
    for (nodes, expected) in [
        ("{<<: *x}", json!({"a": 1, "l": list, "t": "2"})),
        ("{<<: *x, a: 5}", json!({"a": 5, "l": list, "t": "2"})),
        ("{a: 5, <<: *x}", json!({"a": 5, "l": list, "t": "2"})),
        ("{<<: [*x, *z]}", json!({"a": 1, "l": list, "t": "2", "b": 4})),
        ("{<<: [*z, *x]}", json!({"a": 3, "l": list, "t": "2", "b": 4})),
        ("{<<: *x, <<: *z}", json!({"a": 3, "l": list, "t": "2", "b": 4})),
        ("{b: 0, <<: [], q: {<<: *z}, <<: *z}", json!({"b": 0, "q": {"a": 3, "b": 4}, "a": 3})),
        ("!!set {<<: *z}", json!({"a": 3, "b": 4})),
        ("{!!merge m: *z}", json!({"a": 3, "b": 4})),
        ("{'<<': 1}", json!({"<<": 1})),
        ("[<<]", json!(["<<"])),
    ] {
        assert_eq!(json(&format!("{{{base}, y: {nodes}}}"))["y"], expected, "{nodes}");
    }
    let twice = json("{x: &x {k: [1], l: 1}, y: &y {<<: *x, l: [2]}, z: {<<: *y}}");
    assert_eq!(twice["z"], json!({"k": {"$ref": "#/x/k"}, "l": {"$ref": "#/y/l"}}));
    let value = tagged(&format!("{{{base}, y: {{<<: *x}}}}"));
    assert_eq!(value["y"]["t"], json!({"$tag": "tag:stsci.edu:asdf/y", "$value": "2"}));
    // No name is repeated.
    let shown = text("{x: &x {a: 1, b: 2}, y: {<<: *x, a: 3, <<: *x}}", false).unwrap();
    assert_eq!((shown.matches("\"a\"").count(), shown.matches("\"b\"").count()), (2, 2), "{shown}");
    // A member that is set again keeps its position, as in Python.
    let shown = text("{x: &x {c: 1, b: 2}, y: &y {<<: *x, b: 3, a: 4}, z: {<<: *y}}", false).unwrap();
    let z = shown.split("\"z\"").nth(1).unwrap();
    assert!(z.find("\"c\"") < z.find("\"b\"") && z.find("\"b\"") < z.find("\"a\""), "{shown}");
    // The last value of a repeated key is merged.
    assert_eq!(json("{x: &x {a: 1, a: 2}, y: {<<: *x}}")["y"], json!({"a": 2}));
}

#[test]
fn merge_keys_that_can_not_be_followed_are_refused() {
    for (nodes, why) in [
        ("{<<: 5}", "a merge key has a value that is not a mapping at line 4"),
        ("{x: &x [1], y: {<<: *x}}", "a merge key refers to a node that is not a mapping"),
        ("{x: &x {}, y: {<<: [[*x]]}}", "a merge key has a value that is not a mapping"),
        ("{y: {<<: *x}}", "the alias *x has no anchor"),
        ("&x {a: {<<: *x}}", "a merge key refers to a mapping that contains it"),
        ("{&m <<: 1}", "a merge key has a value that is not a mapping"),
        ("{<<: &x {a: {<<: *x}}}", "a merge key refers to a mapping that contains it"),
    ] {
        let error = text(nodes, false).unwrap_err().to_string();
        assert!(error.contains(why), "{nodes}: {error}");
    }
}

/// PyYAML never constructs the value of a merge key, so its tag says nothing.
#[test]
fn mappings_that_are_written_after_a_merge_key_are_merged() {
    let base = "x: &x {a: 1, l: [1]}";
    let list = json!({"$ref": "#/x/l"});
    for (nodes, expected) in [
        ("{<<: {a: 2}}", json!({"a": 2})),
        ("{a: 1, <<: {a: 2, b: 3}, c: 4}", json!({"a": 1, "c": 4, "b": 3})),
        ("{<<: {a: 2, b: 3}, a: 1}", json!({"a": 1, "b": 3})),
        ("{<<: !!omap [a: 2, b: 3, a: 4]}", json!({"a": 2, "b": 3})),
        ("{<<: [*x, {a: 2, b: 3}]}", json!({"a": 1, "l": list, "b": 3})),
        ("{<<: [{a: 2, b: 3}, *x]}", json!({"a": 2, "b": 3, "l": list})),
        (
            "{<<: {<<: *x, b: !!str 3, a: !y 2}, d: {a: 5}}",
            json!({"d": {"a": 5}, "a": "2", "l": list, "b": "3"}),
        ),
        ("{<<: {a: &b 7, m: *x}, c: *b}", json!({"c": 7, "a": 7, "m": {"$ref": "#/x"}})),
        ("{<<: {}, <<: [{}], a: &v [1], b: *v}", json!({"a": [1], "b": {"$ref": "#/y/a"}})),
        ("&y {a: &v [1], <<: {a: 2}, b: *v}", json!({"a": [1], "b": {"$ref": "#/y/a"}})),
    ] {
        assert_eq!(json(&format!("{{{base}, y: {nodes}}}"))["y"], expected, "{nodes}");
    }
    assert_eq!(json("{y: &y {<<: {a: 1}, b: 2}, z: {<<: *y}}")["z"], json!({"a": 1, "b": 2}));
}

/// Expected values are those of PyYAML, with references in place of what stands elsewhere.
#[test]
fn nested_collections_in_merge_keys_stand_where_they_are_merged() {
    let long = "x".repeat(300);
    for (nodes, expected) in [
        ("{<<: {u: [1, 2]}}", json!({"u": [1, 2]})),
        ("{b: 0, <<: [{a: {b: 1}}, {a: 2, c: [[3]]}]}", json!({"b": 0, "a": {"b": 1}, "c": [[3]]})),
        (
            "{<<: &x {a: 1, l: [2]}, z: {<<: *x}}",
            json!({"z": {"a": 1, "l": {"$ref": "#/l"}}, "a": 1, "l": [2]}),
        ),
        ("{<<: {a: &v [1]}, b: *v}", json!({"b": {"$ref": "#/a"}, "a": [1]})),
        ("{a: 1, <<: {a: &v [1]}, b: *v}", json!({"a": 1, "b": null})),
        ("{<<: {a: &v [1]}, <<: {a: [2]}, b: *v}", json!({"b": null, "a": [2]})),
        ("{<<: &x {a: 1}, b: *x}", json!({"b": null, "a": 1})),
        ("{<<: &l [{a: [1]}], b: {<<: *l}}", json!({"b": {"a": {"$ref": "#/a"}}, "a": [1]})),
        ("{<<: {<<: {a: [1], b: 2}, b: 3}}", json!({"a": [1], "b": 3})),
        ("{<<: {a: 1, a: [2]}}", json!({"a": [2]})),
        ("{&m <<: {a: [1]}, b: {*m : {c: 2}}}", json!({"b": {"c": 2}, "a": [1]})),
        ("{1: a, <<: {true: b, 2: c}}", json!({"1": "a", "2": "c"})),
        (&format!("{{<<: {{a: {long}}}}}"), json!({"a": long})),
    ] {
        assert_eq!(json(nodes), expected, "{nodes}");
        assert_eq!(tagged(nodes), expected, "{nodes}");
    }
    let deep = 400;
    let nested = format!("{}{{a: [1]}}{}", "{<<: ".repeat(deep), "}".repeat(deep));
    assert_eq!(json(&nested), json!({"a": [1]}));
}

#[test]
fn each_name_of_a_mapping_stands_once() {
    for (nodes, expected) in [
        ("{a: 1, b: 2, a: 3}", "{\n  \"a\": 3,\n  \"b\": 2\n}\n"),
        ("{0: a, false: b, x: y, '0': c, -0.0: d}", "{\n  \"0\": \"d\",\n  \"x\": \"y\"\n}\n"),
        ("{true: [1], '1': b, 1.0: [2]}", "{\n  \"true\": [2],\n  \"1\": \"b\"\n}\n"),
        ("{a: &x [1], a: [2], a: *x}", "{\n  \"a\": [1]\n}\n"),
        ("{a: [0], a: &x [1], a: *x, b: *x}", "{\n  \"a\": [1],\n  \"b\": {\"$ref\": \"#/a\"}\n}\n"),
    ] {
        assert_eq!(text(nodes, false).unwrap(), expected, "{nodes}");
    }
    // More keys than are compared one by one, and more numbers than were once remembered.
    let numbers: Vec<String> = (0..10_000).map(|n| format!("{n}: a, {n}.0: {n}")).collect();
    let shown = json(&format!("{{{}}}", numbers.join(", ")));
    assert_eq!((shown.as_object().unwrap().len(), &shown["9999"]), (10_000, &json!(9999)));
}

/// Many merge keys for one mapping, or many references to a deep node, do not make a large text of a small
/// tree.
#[test]
fn what_aliases_add_is_bounded() {
    let keys: Vec<String> = (0..5000).map(|n| format!("k{n}: {n}")).collect();
    let merges = format!("{{x: &x {{{}}}, y: [{}]}}", keys.join(", "), "{<<: *x}, ".repeat(5000));
    let key = "long".repeat(10_000);
    let deep = format!("{{? {key} : &x [1], y: [{}]}}", "*x, ".repeat(5000));
    let error = text(&merges, false).unwrap_err().to_string();
    assert!(error.contains("make the text longer by 16 MiB"), "{error}");
    // The aliases beyond the bound are null.
    let shown = json(&deep);
    assert!(shown["y"][0]["$ref"].is_string() && shown["y"][4999].is_null());
}

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    for (nodes, why) in [
        ("{[1]: 2}", "a key is not a scalar at line 4, column 6"),
        ("{a: *b}", "the alias *b has no anchor at line 4, column 9"),
        ("{a: 1}\n--- {b: 2}", "a second document begins at line 5, column 1"),
        ("{a: [}", "line 4"),
    ] {
        let error = text(nodes, false).unwrap_err().to_string();
        assert!(error.contains(why), "{nodes}: {error}");
    }
}

#[test]
fn laughs_do_not_multiply() {
    let mut nodes = "\na0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..100 {
        let before = format!("*a{}", n - 1);
        nodes += &format!("a{n}: &a{n} [{}]\n", [before.as_str(); 9].join(", "));
    }
    assert!(text(&nodes, false).unwrap().len() < 20 * nodes.len());
}

/// Generates values that YAML and JSON can both express.
fn trees() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // serde_json may parse other floats with the last bit wrong.
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
        prop::sample::select(vec![1e300, -2.5e-10, 5e-324]).prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map("\\PC{1,12}", inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Writes a tree as YAML in brackets and braces.
fn yaml_of(tree: &Value) -> String {
    match tree {
        Value::Number(number) if number.is_f64() => {
            let text = format!("{:?}", number.as_f64().unwrap());
            match text.split_once('e') {
                Some((digits, exponent)) => {
                    let point = if digits.contains('.') { "" } else { "." };
                    let sign = if exponent.starts_with('-') { "" } else { "+" };
                    format!("{digits}{point}e{sign}{exponent}")
                }
                None => text,
            }
        }
        Value::Array(items) => format!("[{}]", items.iter().map(yaml_of).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| format!("{}: {}", quoted(name), yaml_of(value));
            let members: Vec<_> = members.iter().map(member).collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// Quotes a text in double quotes. JSON does not escape all line breaks of YAML.
fn quoted(text: &str) -> String {
    let breaks = ['\u{85}', '\u{2028}', '\u{2029}'];
    let escaped = |text: String, char: char| text.replace(char, &format!("\\u{:04x}", u32::from(char)));
    breaks.into_iter().fold(json!(text).to_string(), escaped)
}

proptest! {
    #[test]
    fn what_json_has_is_the_same_in_json(tree in trees()) {
        let yaml = yaml_of(&tree);
        prop_assert_eq!(&json(&yaml), &tree, "{}", yaml);
        prop_assert_eq!(&tagged(&yaml), &tree, "{}", yaml);
    }
}
