use std::sync::Arc;

use asdf_file::container::Context;
use seekable::cache::Cache;
use seekable::source::MemorySource;

use super::*;
use crate::format;

const HEAD: &str = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n";

fn info_in(tree: &str, form: InfoForm) -> String {
    let bytes = format!("{HEAD}{tree}...\n").into_bytes();
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    let file = format::open(Arc::new(MemorySource(bytes)), &context).unwrap();
    let mut text = Vec::new();
    write(&*file, "x.asdf", form, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn info(tree: &str) -> String {
    info_in(tree, InfoForm::PLAIN)
}

/// Asserts that the tree has these lines, in this order.
fn shows(tree: &str, lines: &[&str]) {
    let text = info(tree);
    let shown: Vec<&str> = text.split_once("\n\n").unwrap().1.lines().collect();
    assert_eq!(shown, lines, "{text}");
}

#[test]
fn arrays_times_and_units_are_in_words() {
    shows(
        "a: !core/ndarray-1.0.0 [[1.5, 2], [3, 4], [5, 6]]\n",
        &["a: ndarray float64 (3, 2) inline [[1.5, 2], [3, 4], [5, 6]]"],
    );
    shows(
        "a: !core/ndarray-1.0.0\n  source: other.asdf\n  datatype: int16\n  byteorder: big\n  shape: ['*', 3]\n  mask: 0\n",
        &["a: ndarray int16 (*, 3) in other.asdf masked"],
    );
    shows(
        "a: !core/ndarray-1.0.0 {source: 2, datatype: int16, shape: [3]}\n",
        &["a: ndarray int16 (3) (damaged: there is no block 2)"],
    );
    shows("a: !unit/quantity-1.1.0 {unit: !unit/unit-1.0.0 Jy, value: 1.5}\n", &["a: 1.5 Jy"]);
    shows(
        "a: !time/time-1.1.0 {format: mjd, scale: utc, value: 59000.5}\n",
        &["a: 2020-05-31T12:00:00 (mjd 59000.5) utc"],
    );
    shows("a: !time/time-1.1.0 2020-05-31T00:00:00\n", &["a: 2020-05-31T00:00:00"]);
    shows("a: !time/time-1.1.0 {format: mjd, value: 1e300}\n", &["a: 1e300"]);
    let table = "a: !core/table-1.0.0\n  columns:\n  - !core/column-1.0.0\n    name: ra\n    unit: !unit/unit-1.0.0 deg\n    data: \
                 !core/ndarray-1.0.0 {data: [1.0, 2.0], datatype: float64, shape: [2]}\n";
    shows(table, &["a: table 1 columns × 2 rows", "  ra: float64 (2) inline [1.0, 2.0] deg"]);
    let quantity = "a: !<tag:astropy.org:astropy/table/table-1.0.0>\n  colnames: [flux]\n  columns:\n  - !unit/quantity-1.1.0 {unit: \
                    !unit/unit-1.0.0 Jy, value: !core/ndarray-1.0.0 {data: [1.0, 2.0], datatype: float64, shape: [2]}}\n";
    shows(quantity, &["a: table 1 columns × 2 rows", "  flux: float64 (2) inline [1.0, 2.0] Jy"]);
}

#[test]
fn the_depth_is_chosen_or_fits() {
    let tree = "a: {b: {c: {d: 1}}}\ne: [{f: 1}, {f: 2}]\ng: [1, 2]\n? [k]\n: v\n";
    shows(
        tree,
        &[
            "a: ",
            "  b: ",
            "    c: ",
            "      d: 1",
            "e: ",
            "  [0]: ",
            "    f: 1",
            "  [1]: ",
            "    f: 2",
            "g: [1, 2]",
            "…: v",
        ]
        .map(str::trim_end),
    );
    let at = |depth| info_in(tree, InfoForm { depth: Some(depth), ..InfoForm::PLAIN });
    assert!(at(1).contains("\na: {b: {c: {d: 1}}}\ne: [{f: 1}, {f: 2}]\n"), "{}", at(1));
    assert!(at(2).contains("\na:\n  b: {c: {d: 1}}\ne:\n  [0]: {f: 1}\n"), "{}", at(2));
    let small = info_in(tree, InfoForm { rows: 5, ..InfoForm::PLAIN });
    assert!(small.contains("\na: {b: {c: {d: 1}}}\n"), "{small}");
    let many: String = (0..100).map(|n| format!("k{n}: {n}\n")).collect();
    assert!(info(&many).ends_with("k39: 39\n… 60 more\n"), "{}", info(&many));
    assert!(info_in(&many, InfoForm { all: true, ..InfoForm::PLAIN }).ends_with("k99: 99\n"));
}

#[test]
fn the_first_lines_say_which_file_it_is() {
    let tree = "asdf_library: !core/software-1.0.0 {name: asdf, version: 4.0.0}\nroman: \
                !<asdf://stsci.edu/datamodels/roman/tags/wfi_image-1.2.0>\n  meta:\n    telescope: ROMAN\n    instrument: \
                {name: WFI, detector: WFI01, optical_element: F158}\n    exposure: {exposure_time: 139.8, start_time: \
                !time/time-1.1.0 2027-01-01T00:00:00.000}\n    target: {}\n";
    let text = info(tree);
    for line in [
        "written by asdf 4.0.0\n",
        "\nproduct    wfi_image (stsci.edu)\n",
        "\ninstrument ROMAN WFI WFI01\n",
        "\nfilter     F158\n",
        "\nexposure   139.8 s\n",
        "\ndate       2027-01-01T00:00:00.000\n",
        "\nblocks     none\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}

/// The picture of the file is that of `data`.
#[test]
fn the_facts_of_a_file_are_those_of_its_picture_if_its_images_differ() {
    let image = "data: !core/ndarray-1.0.0 [[1, 2], [3, 4]]";
    let first = "sky: {meta: {filter: B, exptime: 9}, IMAGE}\n".replace("IMAGE", image);
    let text = info(&format!("{first}meta: {{filter: A}}\n{image}\n"));
    assert!(text.contains("\nfilter     A\n") && !text.contains("\nexposure"), "{text}");
    // One image has no other's facts, and the file has them.
    let text = info(&format!("{first}meta: {{filter: B}}\n{image}\n"));
    assert!(text.contains("\nfilter     B\n") && text.contains("\nexposure   9 s\n"), "{text}");
    let text = info("one: {meta: {filter: A}}\nother: {meta: {filter: B}}\n");
    assert!(text.contains("\nfilter     A\n"), "{text}");
}

#[test]
fn text_of_a_file_can_not_act_on_a_terminal() {
    let hostile = "\"\\e[2Ja\": \"\\e[31m\\u202Ex\"\nobject: \"\\e]0;t\\a\"\nq: !unit/quantity-1.1.0 {unit: \"\\e[1m\", value: \"\\e\"}\n\
                   t: !time/time-1.1.0 {value: \"\\e\", scale: \"\\e\"}\nn: !core/ndarray-1.0.0 {datatype: \"\\e\", source: \"\\e\", \
                   shape: [\"\\e\"]}\ns: !core/software-1.0.0 {name: \"\\e\", version: \"\\e\"}\nc: !core/table-1.0.0 {columns: \
                   [{name: \"\\e\", data: !core/ndarray-1.0.0 {shape: [\"\\e\"]}}]}\n";
    for all in [false, true] {
        let text = info_in(hostile, InfoForm { all, ..InfoForm::PLAIN });
        assert!(!text.contains(|c: char| seekable::error::is_unsafe(c) && c != '\n'), "{text:?}");
        assert!(text.lines().all(|line| all || line.chars().count() <= 100), "{text}");
    }
    // Any text is shown as far as it is valid.
    for broken in [
        "a: 1\nb: [\n",
        "a: !core/ndarray-1.0.0\n",
        "a: *b\n",
        "[1, {a: b}]\n",
        "x\n",
        "? {a: b}\n: {c: d}\n",
        "",
    ] {
        info(broken);
    }
    assert!(info("a: 1\nb: [\n").contains("a: 1\n"));
}

#[test]
fn sizes_have_three_digits() {
    for (bytes, text) in [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_949, "99.9 kB"),
        (99_960, "100 kB"),
        (999_600, "1.0 MB"),
        (29_100_000, "29.1 MB"),
        (u64::MAX, "18447 PB"),
    ] {
        assert_eq!(data_size(bytes), text);
    }
}

#[test]
fn an_array_of_blosc2_has_its_stored_size() {
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/blosc2/");
    // The sizes are those of `cbytes` in the frame's header, as python-blosc2 tells them.
    for (name, line) in [
        ("whole.b2nd", "\n  data: uint16 (20, 20) zstd 342 B\n"),
        ("even_row.b2nd", "\n  data: int64 (1000) zstd 1.6 kB\n"),
        ("cube.b2nd", "\n  data: int16 (7, 11, 13) zstd 5.6 kB\n"),
    ] {
        let bytes = std::fs::read(format!("{fixtures}{name}")).unwrap();
        let file = format::open(Arc::new(MemorySource(bytes)), &context).unwrap();
        let mut text = Vec::new();
        write(&*file, name, InfoForm::PLAIN, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(line), "{text}");
    }
}
