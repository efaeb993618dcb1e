use std::sync::Arc;

use asdf_file::asdf::arrays;
use asdf_tree::limits::MAX_SEARCHED;
use asdf_tree::yaml::document::Document;
use seekable::content::{Content, Text};

use super::super::super::tables::Tables;
use super::*;

fn found(nodes: &str) -> &'static FoundTables {
    let text = format!(
        "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n{}...\n",
        nodes
            .replace("ARRAY", "!core/ndarray-1.1.0 {source: 0, datatype: int8, byteorder: big, shape")
            .replace("ASTROPY", "!<tag:astropy.org:astropy/table/table-1.3.0>")
    );
    let tree: Arc<dyn Content> = Arc::new(Text::new(text.into_bytes()));
    let computed: &Computed = Box::leak(Box::default());
    let blocks =
        arrays::ArrayBlocks { count: usize::MAX, size: &|_| None, is_count_sure: true, failure: None };
    let document = Document::read(&*tree).unwrap();
    let tree = arrays::UnsurveyedTree { text: tree, document: Arc::new(document), fits: None };
    arrays::find(tree, blocks, &[&Tables], computed).unwrap();
    computed.get().unwrap()
}

/// Lists tables with the names of their columns, and links.
fn shown(nodes: &str) -> Vec<String> {
    let found = found(nodes);
    let shown = found.items.iter().map(|item| {
        let path = item.components().collect::<Vec<_>>().join("/");
        match &item.what {
            TableEntry::Table { columns: sources, .. } => {
                let names: Vec<_> = sources.iter().map(|source| source.name.as_str()).collect();
                format!("{path}: {}", names.join(" "))
            }
            TableEntry::Link(text) => format!("{path} -> {text}"),
        }
    });
    shown.collect()
}

#[test]
fn tables_have_the_columns_that_they_list() {
    let nodes = "t: ASTROPY\n  colnames: [a, b, sky, c]\n  columns:\n  - !core/column-1.0.0 {data: ARRAY: \
                 [2]}, name: x}\n\
                 \x20 - !unit/quantity-1.1.0 {value: ARRAY: [2]}, unit: m}\n\
                 \x20 - {ra: {value: ARRAY: [2]}}, dec: {value: ARRAY: [2]}}, frame: icrs}\n  - ARRAY: [2, \
                 3]}\n";
    assert_eq!(shown(nodes), ["t.parquet: x b sky.ra sky.dec c"]);
    for tag in ["!core/table-1.0.0", "!table/table-1.1.0", "!<tag:stsci.edu:asdf/0.1.0/core/table>"] {
        let nodes =
            format!("l:\n- {tag} {{columns: [!core/column-1.0.0 {{name: a, data: ARRAY: [2]}}}}]}}\n");
        assert_eq!(shown(&nodes), ["l/0.parquet: a"], "{tag}");
    }
}

#[test]
fn columns_that_do_not_fit_are_left_out_with_their_reason() {
    let nodes = "t: ASTROPY\n  columns: [ARRAY: [2]}, ARRAY: [3]}, ARRAY: [2, 0]}, ARRAY: []}, {x: 1}, \
                 ARRAY: [2, 99999999]}]\n";
    let found = found(nodes);
    let told: Vec<_> = found.defects.iter().map(|defect| defect.what.as_str()).collect();
    let expected = [
        "\"column4\" of t: it has no array",
        "\"column1\" of t: it has not as many rows as the first one",
        "\"column2\" of t: its rows are empty",
        "\"column3\" of t: it has not as many rows as the first one",
        "\"column5\" of t: one of its rows is longer than 8 MiB",
    ];
    assert_eq!(told, expected.map(|what| format!("line 6: tables/ leaves out the column {what}")));
    assert_eq!(shown(nodes), ["t.parquet: column0"]);
}

#[test]
fn mappings_of_arrays_of_one_length_are_tables() {
    let both = "{x: ARRAY: [4]}, y: ARRAY: [4, 3]}, n: 1}";
    assert_eq!(shown(&format!("a: {both}\nl: [{both}]\n")), ["a.parquet: x y", "l/0.parquet: x y"]);
    assert_eq!(
        shown("x: ARRAY: [4]}\nq: !unit/quantity-1.1.0 {value: ARRAY: [4]}}\n"),
        ["%-.parquet: x q", "tree.parquet -> %-.parquet"]
    );
    let times = "x: ARRAY: [4]}\nt: !time/time-1.1.0 {value: ARRAY: [4]}, format: unix}\n";
    assert_eq!(
        shown(&format!("{times}at: !time/time-1.1.0 2000-01-01\n")),
        ["%-.parquet: x t", "tree.parquet -> %-.parquet"]
    );
    for none in [
        "{x: ARRAY: [4]}}",
        "{x: ARRAY: [4]}, y: ARRAY: [5]}}",
        "{x: ARRAY: ['*']}, y: ARRAY: ['*', 5]}}",
        "{x: ARRAY: [4, 4]}, y: ARRAY: [4, 4]}}",
        "[ARRAY: [4]}, ARRAY: [4]}]",
        "!core/thing-1.0.0 {x: ARRAY: [4]}, y: ARRAY: [4]}}",
        "!core/ndarray-1.1.0 {source: 0, datatype: int8, byteorder: big, shape: [4], mask: ARRAY: [4]}}",
        "ASTROPY {columns: [{x: ARRAY: [4]}, y: ARRAY: [4]}}], meta: {x: ARRAY: [4]}, y: ARRAY: [4]}}, c: 1}",
    ] {
        let shown = shown(&format!("a: {none}\n"));
        let expected: &[&str] =
            if none.starts_with("ASTROPY") { &["a.parquet: column0.x column0.y"] } else { &[] };
        assert_eq!(shown, expected, "{none}");
    }
}

#[test]
fn arrays_of_records_are_tables_and_mentions_are_links() {
    let records = "&r !core/ndarray-1.1.0 {source: 0, byteorder: big, shape: [3], datatype: [{name: a, \
                   datatype: int8}]}";
    assert_eq!(
        shown(&format!("d: {{r: {records}}}\nsame: *r\n")),
        ["d/r.parquet: ", "same.parquet -> d/r.parquet"]
    );
    assert_eq!(
        shown("x.parquet: {'..': {a: ARRAY: [4]}, b: ARRAY: [4]}}}\n"),
        ["x%2Eparquet/%2E%2E.parquet: a b"]
    );
}

#[test]
fn aliases_of_aliases_are_not_followed_without_end() {
    let mut nodes = "a0: &a0 {x: ARRAY: [4]}}\n".to_owned();
    for n in 1..12 {
        let same: Vec<_> = (0..30).map(|key| format!("k{key}: *a{}", n - 1)).collect();
        nodes.push_str(&format!("a{n}: &a{n} {{{}}}\n", same.join(", ")));
    }
    nodes.push_str("t: ASTROPY {columns: [*a11, *a7]}\n");
    let found = found(&nodes);
    let columns: usize = found
        .items
        .iter()
        .map(|item| match &item.what {
            TableEntry::Table { columns, .. } => columns.len(),
            TableEntry::Link(_) => 0,
        })
        .sum();
    assert!(columns <= 2 * MAX_SEARCHED, "{columns}");
}
