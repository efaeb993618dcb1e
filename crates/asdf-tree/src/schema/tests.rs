use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::*;

/// Schemas of some texts, each for the tag `tag:x/NAME` of its name.
fn schemas(texts: &[(&str, &str)]) -> Schemas {
    let mut all = vec!["id: asdf://x/manifests/m-1.0\ntags:\n".to_owned()];
    for (name, text) in texts {
        all.push(format!("id: asdf://x/schemas/{name}\n{text}\n"));
        all[0] += &format!("- {{tag_uri: 'tag:x/{name}', schema_uri: 'asdf://x/schemas/{name}'}}\n");
    }
    let all: Vec<&[u8]> = all.iter().map(String::as_bytes).collect();
    Schemas::of_texts(&all).unwrap()
}

fn check(schemas: &Schemas, tree: &str) -> Checked {
    let document = Document::read(&Borrowed(format!("%TAG ! tag:x/\n--- {tree}\n").as_bytes())).unwrap();
    assert!(document.fault().is_none(), "{tree}: {:?}", document.fault());
    schemas.check(&document)
}

/// Checks `!a NODE` by a schema, and returns what is found.
fn found(schema: &str, node: &str) -> Vec<String> {
    let schemas = schemas(&[("a", schema)]);
    let mut checked = check(&schemas, &format!("!a {node}"));
    remove_explained(&mut checked.violations);
    checked.violations.into_iter().map(|violation| violation.what).collect()
}

#[test]
fn each_keyword_allows_and_forbids() {
    let long: String = (0..40).map(|n| format!("{n}, ")).collect();
    let run = format!("[{long}]");
    let run_of_texts = format!("[{long}a]");
    for (schema, fitting, other) in [
        ("type: integer", "{a: 1}", "{a: 1.0}"),
        ("type: number", "{a: .inf}", "{a: true}"),
        ("type: [string, 'null']", "{a: ~}", "{a: 2026-01-01}"),
        ("{type: string, format: date-time}", "{a: 2026-01-01 10:00:00}", "{a: 2026-01-01}"),
        ("type: array", "{a: []}", "{a: {}}"),
        ("enum: [x, 1, [2, 3]]", "{a: 1.0}", "{a: true}"),
        ("enum: [x, 1, [2, 3]]", "{a: [2, 3]}", "{a: [3, 2]}"),
        ("enum: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r]", "{a: r}", "{a: s}"),
        ("minimum: 2", "{a: 2}", "{a: 1.9}"),
        ("{minimum: 2, exclusiveMinimum: true}", "{a: 3}", "{a: 2}"),
        ("{maximum: 2, exclusiveMaximum: true}", "{a: text}", "{a: 2.0}"),
        ("maximum: 9223372036854775807", "{a: 9223372036854775807}", "{a: 9223372036854775808}"),
        ("multipleOf: 3", "{a: 9}", "{a: 10}"),
        ("multipleOf: 0.5", "{a: 1.5}", "{a: 1.2}"),
        ("{minLength: 2, maxLength: 3}", "{a: 'äöü'}", "{a: x}"),
        ("pattern: '[0-9]{2}$'", "{a: x12}", "{a: x1}"),
        ("pattern: '[0-9]{2}$'", "{a: 7}", "{a: '7'}"),
        ("minItems: 17", &format!("{{a: {run}}}"), "{a: [1]}"),
        ("maxItems: 2", "{a: [1, 2]}", &format!("{{a: {run}}}")),
        ("uniqueItems: true", &format!("{{a: {run}}}"), "{a: [1, 1.0]}"),
        ("items: {type: integer}", &format!("{{a: {run}}}"), &format!("{{a: {run_of_texts}}}")),
        ("{items: [{type: string}], additionalItems: {type: integer}}", "{a: [x, 1]}", "{a: [x, x]}"),
        ("{items: [{}, {}], additionalItems: false}", "{a: [1, 2]}", "{a: [1, 2, 3]}"),
        ("required: [b]", "{a: {b: 1}}", "{a: {c: 1}}"),
        ("{minProperties: 1, maxProperties: 2}", "{a: {1: 1, b: 2}}", "{a: {1: 1, b: 2, c: 3}}"),
        ("dependencies: {b: [c]}", "{a: {c: 1}}", "{a: {b: 1}}"),
        ("dependencies: {b: {required: [c]}}", "{a: {b: 1, c: 1}}", "{a: {b: 1}}"),
        ("patternProperties: {'^b': {type: integer}}", "{a: {b1: 1, c: x}}", "{a: {b1: x}}"),
        ("{properties: {b: {}}, additionalProperties: false}", "{a: {b: 1}}", "{a: {b: 1, c: 1}}"),
        (
            "{patternProperties: {b: {}}, additionalProperties: {type: integer}}",
            "{a: {b: x, c: 1}}",
            "{a: {c: x}}",
        ),
        ("allOf: [{minimum: 1}, {maximum: 2}]", "{a: 1}", "{a: 3}"),
        ("anyOf: [{type: string}, {minimum: 2}]", "{a: x}", "{a: 1}"),
        ("oneOf: [{type: number}, {minimum: 2}]", "{a: 1}", "{a: 2}"),
        ("not: {type: string}", "{a: 1}", "{a: x}"),
        ("tag: 'tag:y/*-1.*'", "{a: !<tag:y/b-1.2> x}", "{a: !<tag:y/b/c-1.2> x}"),
        ("tag: 'tag:y/**'", "{a: !<tag:y/b/c> {}}", "{a: {}}"),
        ("tag: 'tag:yaml.org,2002:int'", "{a: 1}", "{a: '1'}"),
    ] {
        let schema = format!("properties: {{a: {schema}}}").replace("{a: {{", "{a: {").replace("}}}}", "}}}");
        let schema = match schema.strip_prefix("properties: {a: {") {
            Some(_) => schema,
            None => schema.replacen("{a: ", "{a: {", 1) + "}",
        };
        assert_eq!(found(&schema, fitting), [""; 0], "{schema}: {fitting}");
        assert_eq!(found(&schema, other).len(), 1, "{schema}: {other}");
    }
}

#[test]
fn a_violation_is_told_with_its_path_the_rule_and_the_schema() {
    let schema =
        "title: A\nproperties: {b: {title: 'The b\n\n  ', items: {properties: {c: {maxLength: 2}}}}}";
    let what = "b/1/c: maxLength wants 2 (schema \"The b\", asdf://x/schemas/a)";
    assert_eq!(found(schema, "{b: [{c: ab}, {c: abc}]}"), [what]);
    let items: String = (0..100).map(|n| format!("{n}, ")).collect();
    let what = "b/100: type wants \"integer\", and this is a string (schema asdf://x/schemas/a)";
    assert_eq!(found("properties: {b: {items: {type: integer}}}", &format!("{{b: [{items}x, 1]}}")), [what]);
    // One message of a node deep within alternatives.
    let schema = "properties: {b: {anyOf: [{tag: 'tag:x/a'}, {type: 'null'}]}, c: {type: integer}}";
    let what = "b/b/c: type wants \"integer\", and this is a string (schema asdf://x/schemas/a)";
    assert_eq!(found(schema, "{b: !a {b: !a {c: x}}}"), [what]);
    let what = "the root: required wants the key \"n\" (schema asdf://x/schemas/a)";
    assert_eq!(found("required: [n]", "{}"), [what]);
}

#[test]
fn references_lead_to_other_schemas_and_the_tags_within() {
    let schemas = schemas(&[
        (
            "a",
            "properties: {b: {$ref: 'b'}, c: {$ref: 'b#/definitions/short'}, d: {$ref: '#definitions/d'}}\ndefinitions: {d: {enum: [1]}}",
        ),
        ("b", "type: object\ndefinitions: {short: {maxLength: 1}}"),
        ("missing", "properties: {b: {$ref: 'asdf://x/schemas/none'}, c: {anyOf: [{$ref: '#/no'}, {}]}}"),
    ]);
    assert_eq!(check(&schemas, "!a {b: {}, c: x, d: 1}").violations, []);
    assert_eq!(check(&schemas, "!a {b: 1, c: xx, d: 2}").violations.len(), 3);
    assert_eq!(check(&schemas, "{e: [{f: !b []}]}").violations.len(), 1);
    let missing = check(&schemas, "!missing {b: 1, c: 1, d: !other 1}");
    assert!(missing.violations.len() == 2 && missing.violations.iter().all(|found| found.unchecked));
    assert!(
        missing.violations[0]
            .what
            .starts_with("b: it can't be checked: $ref: asdf://x/schemas/none leads nowhere")
    );
    assert!(missing.violations[0].what.ends_with("in text 3"), "{missing:?}");
    assert!(missing.unknown_tags.iter().eq(["tag:x/other"]));
    // A mapping that stands for another node is not checked, and neither are nodes in it.
    assert_eq!(check(&schemas, "!a {b: {$ref: '#'}, c: {$ref: 1, d: !b 1}}").violations, []);
    let merged = check(&schemas, "{m: &m {c: xx}, n: !a {<<: *m}}");
    assert_eq!(merged.violations[0].what.split(':').next(), Some("m/c"));
}

#[test]
fn addresses_are_resolved() {
    for (base, address, expected) in [
        ("asdf://x/schemas/a/b-1.0", "c-1.0", "asdf://x/schemas/a/c-1.0"),
        ("asdf://x/schemas/a/b-1.0", "../c/./d", "asdf://x/schemas/c/d"),
        ("http://x.y/a/b", "/c", "http://x.y/c"),
        ("http://x.y/a/b", "../../../c", "http://x.y/c"),
        ("http://x.y", "c", "http://x.y/c"),
        ("tag:x/a/b", "c", "tag:x/a/c"),
        ("asdf://x/a", "tag:y/b", "tag:y/b"),
        ("", "a", "a"),
    ] {
        assert_eq!(uri::join(base, address), expected, "{base} {address}");
    }
}

#[test]
fn arrays_have_dimensions_and_a_datatype() {
    let tag = "!<tag:stsci.edu:asdf/core/ndarray-1.1.0>";
    for (schema, fitting, other) in [
        ("ndim: 2", "{shape: [1, 2]}", "{shape: [1]}"),
        ("max_ndim: 2", "[[1, 2]]", "[[[1]]]"),
        ("datatype: float32", "{datatype: int16}", "{datatype: int32}"),
        ("datatype: float32, exact_datatype: true", "{datatype: float32}", "{datatype: int16}"),
        ("datatype: int64", "[1, 2]", "[1, 2.5]"),
        ("datatype: float64", "{data: [[1, 2.5]]}", "{data: [x]}"),
        ("datatype: [ucs4, 5]", "{datatype: [ascii, 5]}", "{datatype: [ucs4, 6]}"),
        ("datatype: complex64", "{datatype: uint16}", "{datatype: float64}"),
        (
            "datatype: [{name: a, datatype: int16, unit: m}]",
            "{datatype: [{name: b, datatype: uint8}]}",
            "{datatype: int16}",
        ),
        (
            "datatype: [{name: a, datatype: int16, shape: [2]}]",
            "{datatype: [{datatype: int8, shape: [2]}]}",
            "{datatype: [int8]}",
        ),
    ] {
        let schema = format!("properties: {{a: {{{schema}}}}}");
        assert_eq!(found(&schema, &format!("{{a: {tag} {fitting}}}")), [""; 0], "{schema}: {fitting}");
        assert_eq!(found(&schema, &format!("{{a: {tag} {other}}}")).len(), 1, "{schema}: {other}");
        assert_eq!(found(&schema, &format!("{{a: {other}}}")), [""; 0], "only of arrays");
    }
}

#[test]
fn hostile_schemas_end() {
    // Schemas that lead to themselves, with and without progress in the tree.
    assert_eq!(found("$ref: '#'", "{a: 1}"), [""; 0]);
    assert_eq!(
        found(
            "properties: {a: {$ref: '#'}}\nallOf: [{$ref: '#'}, {anyOf: [{$ref: '#'}]}]",
            "{a: {a: {a: 1}}}"
        ),
        [""; 0]
    );
    assert_eq!(found("items: {$ref: '#'}", "&a [*a, [*a]]"), [""; 0]);
    let deep = format!("{}{}", "allOf: [{".repeat(400), "}]".repeat(400));
    assert!(found(&deep, "1")[0].contains("too many times"));
    // Alternatives of alternatives, none of which fits.
    let mut doubling = "definitions:\n  d0: {type: string}\n".to_owned();
    for n in 1..60 {
        doubling.push_str(&format!(
            "  d{n}: {{anyOf: [{{$ref: '#/definitions/d{0}'}}, {{$ref: '#/definitions/d{0}'}}]}}\n",
            n - 1
        ));
    }
    let found_some = found(&format!("{doubling}$ref: '#/definitions/d59'"), "{}");
    assert!(found_some[0].contains("anyOf wants"), "{found_some:?}");
    let deep = format!("{}1{}", "[".repeat(300), "]".repeat(300));
    assert!(found("items: {$ref: '#'}", &deep)[0].contains("too many times"));
    // Many rules for many nodes.
    let rules: String = (0..400).map(|n| format!("- maxProperties: {n}\n")).collect();
    let nodes: String = (0..2000).map(|n| format!("{{a: {n}}}, ")).collect();
    let found_some =
        found(&format!("items:\n allOf:\n{}", rules.replace("- ", "  - ")), &format!("[{nodes}]"));
    assert!(found_some.iter().any(|found| found.contains("takes too long")), "{found_some:?}");
    // Patterns that take a backtracking engine years, or much memory.
    assert_eq!(found("pattern: '(a*)*b'", &"a".repeat(100_000)).len(), 1);
    assert!(found("pattern: '(?=a)'", "a")[0].contains("is not supported"));
    assert!(found("pattern: '(\\w{1000}){1000}'", "a")[0].contains("is not supported"));
    // Aliases in the schema and in the tree that stand for 2^60 nodes.
    let laughs: String = (1..60).map(|n| format!("- &l{n} [*l{0}, *l{0}]\n", n - 1)).collect();
    let schema = format!("definitions:\n- &l0 [x]\n{laughs}enum: [*l59]\nuniqueItems: true");
    assert!(!found(&schema, &format!("\n- &l0 [x]\n{laughs}")).is_empty());
}

#[test]
fn files_that_are_no_schemas_are_named() {
    let folder = TempDir::new().unwrap();
    let error = Schemas::read(&[folder.path().to_owned()]).unwrap_err().to_string();
    assert!(error.contains("has no schemas"), "{error}");
    let schemas = folder.path().join("schemas");
    fs::create_dir(&schemas).unwrap();
    fs::write(schemas.join("a.yaml"), "id: x\ntype: integer\n").unwrap();
    assert!(Command::new("mkfifo").arg(schemas.join("fifo.yaml")).status().unwrap().success());
    std::os::unix::fs::symlink(folder.path(), schemas.join("round")).unwrap();
    assert_eq!(Schemas::read(&[folder.path().to_owned()]).unwrap().files.len(), 1);
    fs::write(schemas.join("b.yaml"), "id: [x\n").unwrap();
    let error = Schemas::read(&[folder.path().to_owned()]).unwrap_err().to_string();
    assert!(error.contains("b.yaml: not valid YAML at line"), "{error}");
    assert!(Schemas::read(&[folder.path().join("none")]).is_err());
}
