//! The variants of `saved.rs`, and intended differences from Python asdf.

/// A text that replaces another one.
#[derive(Debug)]
pub(super) struct Variant {
    /// The version of the standard; empty if the file has none.
    pub(super) standard: String,
    /// The old lines at the end of the tree.
    pub(super) was: String,
    /// The new lines. `!A` and `!I` are the tags of an ndarray and an integer.
    pub(super) lines: String,
    /// The type that Python must read for `c`.
    pub(super) reads: &'static str,
}

/// Differences between a save and Python asdf, with the reasons.
pub(super) const KNOWN: &[(&[&str], &str)] = &[
    (
        &["c: !A {data: [], shape: [0, 3]}", "c: !A {data: [], datatype: [int8, int8]}"],
        "saved: today's asdf writes and opens it",
    ),
    (
        &[
            "c: !A {source: 0, datatype: uint8, byteorder: big, shape: [5], mask: !A {source: 1, datatype: bool8, byteorder: big, shape: ['*']}}",
            "c: !A {source: 0, datatype: uint8, byteorder: big, shape: ['*'], mask: !A {source: 1, datatype: bool8, byteorder: big, shape: [6]}}",
        ],
        "saved: how long a streamed array or mask is stands in its block",
    ),
    (
        &["c: !A {data: [1, 2], datatype: int8, mask: [true, false]}"],
        "saved: Python opens it, and passes over a mask without a tag",
    ),
    (
        &["c: !core/integer-1.0.0 {words: [1, 2], sign: +, string: '1'}"],
        "saved without a line of the standard: its first edition has no integers at all",
    ),
    (&["c: !I {words: [a], sign: +}"], "saved: the words of an integer are not looked at"),
    (&["c: {x: 1, x: 2}", "c: {1: x, 1.0: y}"], "refused: of two values Python keeps one"),
    (&["c: 5\n...\nd: 6\n", "c: 5\n...\n--- {}\n"], "refused: Python passes over what is behind the end"),
    (
        &["c: [1]", "c: 1+1j", "c: !!str 1+1j", "c: {words: [1], sign: +}", "c: {name: a, version: '1'}"],
        "saved with a warning: fewer than half of the tags are gone",
    ),
    (&["c: true", "c: 'no'", "c: 15", "c: '190:20:30'"], "saved with a warning: it may be meant"),
    (
        &[
            "history: [{description: a, software: null}]",
            "history: [!core/history_entry-1.0.0 {description: a, software: null}]",
            "history: {entries: [!core/history_entry-1.0.0 {description: a, software: null}]}",
        ],
        "saved: today's asdf opens it; only the schema of older ones has no null there",
    ),
    (
        &[
            "history: {extensions: [!core/extension_metadata-1.0.0 {extension_class: a, software: {name: a, version: x}}]}",
        ],
        "refused: Python fails at it where it has the extension",
    ),
];

const STANDARDS: [&str; 3] = ["", "1.5.0", "1.6.0"];
const VERSIONS: [&str; 5] = ["-1.0.0", "-1.1.0", "-1.2.0", "-2.0.0", ""];

const DATATYPES: [&str; 5] = ["int8", "float32", "complex128", "bool8", "[ascii, 3]"];

const ELEMENTS: [&str; 30] = [
    "[-1]",
    "[300]",
    "[9223372036854775808]",
    "[1e30]",
    "[1.5]",
    "[.nan]",
    "[.inf, 1]",
    "['7']",
    "['1.5']",
    "[a, b]",
    "[ä]",
    "[true, false]",
    "[null]",
    "[1, null]",
    "[null, a]",
    "[]",
    "[[1, 2], [3, 4]]",
    "[[1, 2], [3]]",
    "[[1, null], [3, 4]]",
    "[1, [2]]",
    "[2001-01-01]",
    "[!!binary aGVsbG8=]",
    "[{a: 1}]",
    "[0o17]",
    "[0x1f, 017, 1_000]",
    "[1:30]",
    "['']",
    "[' 7 ']",
    "[!core/complex-1.0.0 1+2j]",
    "['1+2j', '(1-2j)', 'infj']",
];

/// Returns all variants.
pub(super) fn variants() -> Vec<Variant> {
    let mut all = Vec::new();
    let mut add = |standard: &str, was: &str, lines: &str, reads| {
        all.push(Variant { standard: standard.into(), was: was.into(), lines: lines.into(), reads });
    };
    for standard in STANDARDS {
        for version in VERSIONS {
            for (node, reads) in [
                ("ndarrayV [1, 2]", "array"),
                ("ndarrayV {source: 1, datatype: uint8, byteorder: big, shape: [6]}", "array"),
                ("integerV {words: [1, 2], sign: +, string: '1'}", "IntegerType"),
                ("complexV 1+1j", "complex"),
            ] {
                add(standard, "", &format!("c: !core/{}", node.replace('V', version)), reads);
            }
        }
    }
    for elements in ELEMENTS {
        let reads = if elements.contains("null") { "masked array" } else { "array" };
        add("1.6.0", "", &format!("c: !A {elements}"), reads);
        for datatype in DATATYPES {
            add("1.6.0", "", &format!("c: !A {{data: {elements}, datatype: {datatype}}}"), reads);
        }
    }
    for (node, reads) in NODES {
        add("1.6.0", "", &format!("c: {node}"), reads);
    }
    for (was, lines, reads) in CHANGES {
        add("1.6.0", was, lines, reads);
    }
    all
}

/// New nodes.
const NODES: &[(&str, &str)] = &[
    // Integers at the limits of their types.
    ("!A {data: [9223372036854775807, -9223372036854775808], datatype: int64}", "array"),
    ("!A {data: [9223372036854775808], datatype: int64}", "array"),
    ("!A {data: [18446744073709551615], datatype: uint64}", "array"),
    ("!A {data: [-1], datatype: uint64}", "array"),
    ("!A {data: [1e30], datatype: float16}", "array"),
    ("!A {data: [ä], datatype: [ucs4, 3]}", "array"),
    ("!A {data: [٣], datatype: int8}", "array"),
    ("!A {data: [1+2i], datatype: complex64}", "array"),
    ("!A {data: ['infinity', 'nan', '1_0j', ' 1e3-.5J ', '1.'], datatype: complex64}", "array"),
    ("!A {data: ['1 + 2j'], datatype: complex64}", "array"),
    ("!A {data: [!I {words: [1], sign: +, string: '1'}], datatype: int8}", "array"),
    // Shapes and other array properties.
    ("!A {data: [1, 2], shape: [2]}", "array"),
    ("!A {data: [1, 2], shape: [3]}", "array"),
    ("!A {data: [1, 2], shape: [1, 2]}", "array"),
    ("!A {data: [1, 2], shape: ['*']}", "array"),
    ("!A {data: [], shape: [0, 3]}", "array"),
    ("!A {data: [1, 2], offset: 1}", "array"),
    ("!A {data: 5}", "array"),
    ("!A {shape: [1]}", "array"),
    ("!A 5", "array"),
    ("!A {source: 0, datatype: uint8, byteorder: little, shape: [2, 3], strides: [12, 4]}", "array"),
    ("!A {source: 0, datatype: uint8, byteorder: little, shape: [2, 3], strides: [12, 40]}", "array"),
    ("!A {source: 0, datatype: uint8, byteorder: little, shape: ['*']}", "array"),
    ("!A {source: 0, datatype: uint8, byteorder: little, shape: ['*', 5]}", "array"),
    ("!A {source: -1, datatype: bool8, byteorder: little, shape: ['*']}", "array"),
    ("!A {source: 0, datatype: uint8, byteorder: big, shape: [3], offset: 21}", "array"),
    ("!A {source: 0, datatype: uint8, byteorder: big, shape: [3], offset: 22}", "array"),
    ("!A {source: 0, datatype: uint8, byteorder: middle, shape: [3]}", "array"),
    ("!A {source: 0, datatype: uint9, byteorder: big, shape: [3]}", "array"),
    ("!A {source: 0, datatype: uint8, shape: [3]}", "array"),
    ("!A {source: 2, datatype: uint8, byteorder: big, shape: [3]}", "array"),
    ("!A {source: 0, datatype: [uint8, [ascii, 2]], byteorder: big, shape: [8]}", "array"),
    ("!A {source: 0, datatype: [uint8, [ascii, 2]], byteorder: big, shape: [9]}", "array"),
    // Inline structured arrays.
    ("!A {data: [[1, a], [2, b]], datatype: [int8, [ascii, 2]]}", "array"),
    (
        "!A {data: [[1, 2.5], [2, 1]], datatype: [{name: a, datatype: int8}, {name: b, datatype: float32}]}",
        "array",
    ),
    ("!A {data: [[[1, 2], [3, 4]]], datatype: [int8, int8]}", "array"),
    ("!A {data: [], datatype: [int8, int8]}", "array"),
    ("!A {data: [1, 2], datatype: [int8, int8]}", "array"),
    ("!A {data: [[1, x]], datatype: [int8, int8]}", "array"),
    ("!A {data: [[1, 300]], datatype: [int8, int8]}", "array"),
    ("!A {data: [[1, 2, 3]], datatype: [int8, int8]}", "array"),
    ("!A {data: [[1]], datatype: [int8, int8]}", "array"),
    ("!A {data: [[1, 2], [3]], datatype: [int8, int8]}", "array"),
    ("!A {data: [[1, null]], datatype: [int8, int8]}", "array"),
    ("!A {data: [[1, null]], datatype: [int8, float32]}", "array"),
    (
        "!A {data: [[1, [2, 3]]], datatype: [{name: a, datatype: int8}, {name: b, datatype: int8, shape: [2]}]}",
        "array",
    ),
    (
        "!A {data: [[1, [2, 3]]], datatype: [{name: a, datatype: int8}, {name: b, datatype: [int8, int8]}]}",
        "array",
    ),
    ("!A {data: [[1, a], [2, b], [3, c]], datatype: [int8, [ascii, 2]]}", "array"),
    ("!A {data: [[1, a], [2, b], [x, c]], datatype: [int8, [ascii, 2]]}", "array"),
    ("!A {data: [[1, 2], [300, 4], [5, 6]], datatype: [int8, float32]}", "array"),
    ("!A {data: [[1, 2], [3, 300], [5, 6]], datatype: [int8, float32]}", "array"),
    ("!A {data: [[[1, 2], [3, 4], [5, 6]]], datatype: [int8, float32]}", "array"),
    ("!A {data: [[1, 2], [3, 4], [5, 6]], datatype: [int8, float32], shape: [3]}", "array"),
    ("!A {data: [[1, 2], [3, 4], [5, 6]], datatype: [int8, float32], shape: [2]}", "array"),
    ("!A {data: [[1, 2], [3, 4], [5, 6]], datatype: [int8, float32], shape: [3, 2]}", "array"),
    ("!A {data: [[1], [2]], datatype: [int8]}", "array"),
    ("!A {data: [[1]], datatype: [int8]}", "array"),
    ("!A {data: [1, 2, 3], datatype: [int8]}", "array"),
    ("!A {data: [[1, 2], 3, 4], datatype: [int8, int8]}", "array"),
    ("!A {data: [[1, [2]], [3, 4], [5, 6]], datatype: [int8, int8]}", "array"),
    ("!A {data: [[1, null]], datatype: [int8, complex64]}", "array"),
    ("!A {data: [[1, null]], datatype: [int8, bool8]}", "array"),
    ("!A {data: [[a, b], [c, d]], datatype: [[ascii, 1], [ascii, 1]]}", "array"),
    // Masks.
    ("!A {data: [1, 2], datatype: int8, mask: 1}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: 300}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: 1.5}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: .nan}", "masked array"),
    ("!A {data: [1, 2], mask: 300}", "masked array"),
    ("!A {data: [1, 2], datatype: float32, mask: .nan}", "masked array"),
    ("!A {data: [1, 2], datatype: float32, mask: 1}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: x}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: true}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: null}", "array"),
    ("!A {data: [1, 2], datatype: int8, mask: [true, false]}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: !core/complex-1.0.0 1+1j}", "masked array"),
    ("!A {data: [1, 2], datatype: complex64, mask: !core/complex-1.0.0 1+1j}", "masked array"),
    ("!A {data: [a, b], datatype: [ascii, 1], mask: 1}", "masked array"),
    ("!A {data: [true], datatype: bool8, mask: 1}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: !A {data: [true, false], datatype: bool8}}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: !A {data: [1, 0], datatype: int8}}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: !A [true, false]}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: !A [1, 0]}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: !A [1.5, a]}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: !A [true]}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: !A [true, false, true]}", "masked array"),
    ("!A {data: [[1, 2], [3, 4]], datatype: int8, mask: !A [true, false, true, true]}", "masked array"),
    ("!A {data: [1, 2], datatype: int8, mask: !core/ndarray-1.0.0 [true, false]}", "masked array"),
    (
        "!A {source: 0, datatype: uint8, byteorder: big, shape: [6], mask: !A {source: 1, datatype: bool8, byteorder: big, shape: [6]}}",
        "masked array",
    ),
    (
        "!A {source: 0, datatype: uint8, byteorder: big, shape: [6], mask: !A {source: 1, datatype: bool8, byteorder: big, shape: [5]}}",
        "masked array",
    ),
    (
        "!A {source: 0, datatype: uint8, byteorder: big, shape: [6], mask: !A {source: 1, datatype: bool8, byteorder: big, shape: ['*']}}",
        "masked array",
    ),
    (
        "!A {source: 0, datatype: uint8, byteorder: big, shape: [5], mask: !A {source: 1, datatype: bool8, byteorder: big, shape: ['*']}}",
        "masked array",
    ),
    (
        "!A {source: 0, datatype: uint8, byteorder: big, shape: ['*'], mask: !A {source: 1, datatype: bool8, byteorder: big, shape: [6]}}",
        "masked array",
    ),
    ("!A {source: 0, datatype: uint8, byteorder: big, shape: [6], mask: 1}", "masked array"),
    ("!A {source: 0, datatype: uint8, byteorder: big, shape: [6], mask: 300}", "masked array"),
    ("!A {source: 0, datatype: [uint8, uint8], byteorder: big, shape: [6], mask: 1}", "masked array"),
    // Keys.
    ("{1: x}", "dict"),
    ("{true: x}", "dict"),
    ("{1.5: x, .nan: y, 2001-01-01: z, ~: a, !!binary aGVsbG8=: b, =: c}", "dict"),
    ("{2001-01-01 10:00:00: z, 0x1f: a, 1:30: b}", "dict"),
    ("{!foo x: 1}", "dict"),
    ("{!core/complex-1.0.0 1+1j: 1}", "dict"),
    ("{[1, 2]: x}", "dict"),
    ("{{a: 1}: x}", "dict"),
    ("{x: 1, x: 2}", "dict"),
    ("{1: x, 1.0: y}", "dict"),
    ("{<<: {a: 1}, b: 2}", "dict"),
    ("{<<: 5}", "dict"),
    ("{'': x}", "dict"),
    ("{$ref: x}", "dict"),
    // Scalars.
    ("2001-01-01", "date"),
    ("2001-02-30", "date"),
    ("!!binary aGVsbG8=", "bytes"),
    ("!!binary aGVs***", "bytes"),
    ("!!int x", "int"),
    ("!!float 1.5", "float"),
    ("!!set {a, b}", "set"),
    ("!!omap [a: 1]", "OrderedDict"),
    ("!!python/tuple [1, 2]", "TaggedList"),
    ("!foo {a: 1}", "TaggedDict"),
    ("!<tag:example.org/x-1.0.0> [a]", "TaggedList"),
    ("9223372036854775808", "int"),
    ("0b2", "str"),
    ("*x", "int"),
    ("&x 5", "int"),
    // The standard's other types.
    ("!I {words: [1, 2], sign: -, string: '1'}", "IntegerType"),
    ("!I {words: !A {data: [1], datatype: uint32}, sign: +, string: '1'}", "IntegerType"),
    ("!I {words: [1, 2], sign: x, string: '1'}", "IntegerType"),
    ("!I {words: [1, 2], string: '1'}", "IntegerType"),
    ("!I {sign: +, string: '1'}", "IntegerType"),
    ("!I {words: [1], sign: +}", "IntegerType"),
    ("!I {words: [a], sign: +}", "IntegerType"),
    ("!I {words: x, sign: +}", "IntegerType"),
    ("!I {words: 5, sign: +}", "IntegerType"),
    ("!I {words: [1], sign: +, string: 1}", "IntegerType"),
    ("!I 5", "IntegerType"),
    ("!core/complex-1.0.0 1", "complex"),
    ("!core/complex-1.0.0 nan+infj", "complex"),
    ("!core/complex-1.0.0 x", "complex"),
    ("!core/complex-1.0.0 1 + 1j", "complex"),
    ("!core/complex-1.0.0 [1, 1]", "complex"),
    ("!core/software-1.0.0 {name: a, version: '1'}", "Software"),
    ("!core/software-1.0.0 {name: a, version: 1.0}", "Software"),
    ("!core/software-1.0.0 {name: a}", "Software"),
    (
        "!core/externalarray-1.0.0 {fileuri: a, target: 1, datatype: int8, shape: [1]}",
        "ExternalArrayReference",
    ),
    ("!core/constant-1.0.0 5", "Constant"),
];

/// Old and new lines at the end of the tree.
const CHANGES: &[(&str, &str, &str)] = &[
    // Tags.
    ("c: !A [1]", "c: [1]", "array"),
    (
        "c: !A {source: 1, datatype: uint8, byteorder: big, shape: [6]}",
        "c: {source: 1, datatype: uint8, byteorder: big, shape: [6]}",
        "array",
    ),
    ("c: !core/complex-1.0.0 1+1j", "c: 1+1j", "complex"),
    ("c: !core/complex-1.0.0 1+1j", "c: !!str 1+1j", "complex"),
    ("c: !I {words: [1], sign: +}", "c: {words: [1], sign: +}", "IntegerType"),
    ("c: !core/software-1.0.0 {name: a, version: '1'}", "c: {name: a, version: '1'}", "Software"),
    ("c: !foo {a: 1}\nd: !foo 1", "c: {a: 1}\nd: 1", "TaggedDict"),
    // Scalars of other versions of YAML.
    ("c: y", "c: true", "str"),
    ("c: no", "c: 'no'", "bool"),
    ("c: 0o17", "c: 15", "str"),
    ("c: 190:20:30", "c: '190:20:30'", "int"),
    ("c: 5", "c: 6", "int"),
    // History.
    ("", "history: []", "nothing"),
    ("", "history: 3", "nothing"),
    ("", "history: {}", "nothing"),
    ("", "history: {entries: []}", "nothing"),
    ("", "history: {entries: 5}", "nothing"),
    ("", "history: [!core/history_entry-1.0.0 {description: a}]", "nothing"),
    ("", "history: [{description: a, software: null}]", "nothing"),
    ("", "history: [!core/history_entry-1.0.0 {description: a, software: null}]", "nothing"),
    ("", "history: {entries: [!core/history_entry-1.0.0 {description: a, software: null}]}", "nothing"),
    (
        "",
        "history: {entries: [!core/history_entry-1.0.0 {description: a, time: 2001-01-01 10:00:00}]}",
        "nothing",
    ),
    ("", "history: {entries: [!core/history_entry-1.0.0 {description: a, time: x}]}", "nothing"),
    (
        "",
        "history: {entries: [!core/history_entry-1.0.0 {description: a, software: {name: a, version: '1'}}]}",
        "nothing",
    ),
    (
        "",
        "history: {entries: [!core/history_entry-1.0.0 {description: a, software: !core/software-1.0.0 {name: a, version: '1'}}]}",
        "nothing",
    ),
    (
        "",
        "history: {entries: [!core/history_entry-1.0.0 {description: a, software: [!core/software-1.0.0 {name: a, version: '1'}]}]}",
        "nothing",
    ),
    ("", "history: {entries: [!core/history_entry-1.0.0 {description: a, software: 5}]}", "nothing"),
    ("", "history: {entries: [!core/history_entry-1.0.0 {}]}", "nothing"),
    ("", "history: {entries: [{}]}", "nothing"),
    (
        "",
        "history: {extensions: [!core/extension_metadata-1.0.0 {extension_class: a, software: null}]}",
        "nothing",
    ),
    ("", "history: {extensions: [!core/extension_metadata-1.0.0 {extension_class: a}]}", "nothing"),
    (
        "",
        "history: {extensions: [!core/extension_metadata-1.0.0 {extension_class: a, software: {name: a, version: '1'}}]}",
        "nothing",
    ),
    (
        "",
        "history: {extensions: [!core/extension_metadata-1.0.0 {extension_class: a, software: {name: a, version: x}}]}",
        "nothing",
    ),
    (
        "",
        "history: {extensions: [!core/extension_metadata-1.0.0 {extension_class: a, software: !core/software-1.0.0 {name: a, version: '1'}}]}",
        "nothing",
    ),
    ("", "history: {extensions: [{extension_class: a}]}", "nothing"),
    ("", "asdf_library: !core/software-1.0.0 {name: asdf, version: 6.0.0}", "nothing"),
    ("", "asdf_library: !core/software-1.0.0 {name: asdf, version: 6.0}", "nothing"),
    ("", "asdf_library: 5", "nothing"),
    ("", "asdf_library: null", "nothing"),
    // Text after the end of the tree.
    ("", "c: 5\n...\n\n\n", "int"),
    ("", "c: 5\n...\n# a comment\n", "int"),
    ("", "c: 5\n...\n  # a comment\n\n# another", "int"),
    ("", "c: 5\n...\nd: 6\n", "int"),
    ("", "c: 5\n...\n--- {}\n", "int"),
];
