use std::sync::Arc;

use asdf_file::container::Context;
use seekable::cache::Cache;
use seekable::content::read_exact_at;
use seekable::source::MemorySource;

use super::*;
use crate::format;

const START: &str = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n";

/// Returns an ASDF file with a tree and uncompressed blocks.
fn asdf(tree: &str, blocks: &[&[u8]]) -> Vec<u8> {
    let mut file = format!("{START}{tree}...\n").into_bytes();
    for block in blocks {
        file.extend(b"\xd3BLK\0\x30");
        file.extend([0; 8]);
        for _ in 0..3 {
            file.extend((block.len() as u64).to_be_bytes());
        }
        file.extend([0; 16]);
        file.extend(*block);
    }
    file
}

fn container(bytes: Vec<u8>) -> Arc<dyn Container> {
    let context = Context::new(Arc::new(Cache::new(64 << 20)));
    format::open(Arc::new(MemorySource(bytes)), &context).unwrap()
}

fn page_of(container: &Arc<dyn Container>) -> String {
    let page = file(container, Arc::new(|_| true), &Arc::default()).unwrap();
    let content = page.content.unwrap();
    let mut bytes = vec![0; content.len() as usize];
    read_exact_at(&*content, 0, &mut bytes).unwrap();
    assert_eq!(content.read_at(content.len(), &mut [0]).unwrap(), 0);
    String::from_utf8(bytes).unwrap()
}

fn page(tree: &str, blocks: &[&[u8]]) -> String {
    page_of(&container(asdf(tree, blocks)))
}

/// Asserts that each element is closed where it should be, and returns the elements.
fn elements(page: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut all = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let end = rest[start..].find('>').unwrap() + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{all:?}");
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap();
        all.push(tag.to_owned());
        if name == "style" {
            rest = &rest[rest.find("</style>").unwrap()..];
        }
        if !matches!(name, "!DOCTYPE" | "meta" | "img" | "wbr") && !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
    all
}

const IMAGE: &str = "data: !core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: big, shape: [3, 4]}\n";

#[test]
fn the_first_screen_has_all_parts_in_their_order() {
    let tree = format!(
        "meta: {{telescope: JWST, instrument: {{name: NIRCAM, filter: F200W}}, target: {{name: M 51}},\n  \
         exposure: {{exposure_time: 12.5, start_time: '2026-01-01T00:00:00'}},\n  wcsinfo: {{s_region: 'POLYGON ICRS 10 1 \
         10.1 1 10.1 1.1 10 1.1'}},\n  cal_step: {{dark: COMPLETE, flat: SKIPPED}}, calibration_software_version: \
         '1.2'}}\nunit: DN\n{IMAGE}dq: !core/ndarray-1.0.0 {{source: 1, datatype: uint8, byteorder: big, shape: [3, \
         4]}}\ncurve: !core/ndarray-1.0.0 {{data: [1, 2, 3, 4, 5, 6, 7, 8], datatype: int8}}\n"
    );
    let page = page(&tree, &[&(0..12).collect::<Vec<u8>>(), &[0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]]);
    elements(&page);
    let mut at = 0;
    for part in [
        "<h1>memory</h1>",
        "No damage found",
        "<img class=\"small\" src=\"data:image/png;base64,",
        "linear from 0 to 11 (zscale)",
        "<dt>Instrument</dt><dd>JWST NIRCAM</dd>",
        "<dt>Filter</dt><dd>F200W</dd>",
        "<dt>Exposure</dt><dd>12.5 s</dd>",
        "<dt>Date</dt><dd>2026-01-01T00:00:00</dd>",
        "<dt>Target</dt><dd>M 51</dd>",
        "<dt>RA</dt><dd>00h 40m 12.00s = 10.05000°</dd>",
        "<dt>Field</dt><dd>6.00′ × 6.00′",
        "<h2>Arrays</h2>",
        "<th scope=\"row\">data</th><td>uint8</td><td class=\"whole\">3 × 4</td><td>DN</td><td class=\"whole\">12 B</td><td>0 … \
         11, mean 5.5 <small>(all 12 values)</small>",
        "<a href=\"./arrays/data.npy\" aria-label=\"data.npy\">.npy</a> <a href=\"./fits/data.fits\" aria-label=\"data.fits\">.fits</a>",
        "<h2>Data quality</h2>",
        "dq: 10 of 12 values without a flag (83.33 %), from all 12 values",
        "<td>0</td><th scope=\"row\">DO_NOT_USE</th><td>2</td><td>16.67 %</td>",
        "<h2>Calibration</h2>",
        "<li class=\"done\"><b>dark</b> complete</li>",
        "<h2>Tree</h2>",
        "<details class=\"tree\">",
        "<b>filter: </b>F200W",
        "numpy.load(&#39;arrays/data.npy&#39;, mmap_mode=&quot;r&quot;)",
        "asdf.open(&#39;memory&#39;)[&#39;data&#39;]",
        "<h2>One-dimensional arrays</h2>",
    ] {
        let found = page[at..].find(part);
        at += found.unwrap_or_else(|| panic!("no {part} after byte {at} of {page}"));
    }
}

#[test]
fn curves_leave_masked_numbers_out_and_say_how_many() {
    let numbers = "!core/ndarray-1.0.0 {datatype: int16, data: [1, 2, -9999, 4, 1, 2, 3, 4], mask: MASK}";
    let mask = "!core/ndarray-1.0.0 {datatype: bool8, data: [false, false, true, false, false, false, false, false]}";
    let numbers = numbers.replace("MASK", mask);
    let step = "!core/ndarray-1.0.0 {datatype: int16, data: [10, 20, 30, 40, 50, 60, 70, 80]}";
    let page = page(
        &format!("alone: {numbers}\nt: {{x: {numbers}}}\nagainst: {{time: {step}, x: {numbers}}}\n"),
        &[],
    );
    elements(&page);
    assert!(!page.contains("-9999 …"));
    for name in ["alone", "x against time"] {
        let label = format!("aria-label=\"{name}: from 1 to 4, all 8 values, without 1 masked\"");
        assert!(page.contains(&label), "no {label}");
    }
}

#[test]
fn the_facts_beside_the_picture_are_its_own() {
    let inline = "!core/ndarray-1.0.0 [[1, 2], [3, 4]]";
    let tree = format!(
        "sky: {{meta: {{filter: B, exptime: 9, target: {{name: Sky}}, cal_step: {{dark: SKIPPED}}}}, data: {inline}}}\n\
         meta: {{instrument: {{name: I}}, cal_step: {{flat: COMPLETE}}}}\ndata: {inline}\n"
    );
    let page = page(&tree, &[]);
    assert!(page.contains("<dt>Instrument</dt><dd>I</dd>"), "{page}");
    assert!(page.contains("<b>flat</b> complete"), "{page}");
    for other in ["<dt>Filter</dt>", "<dt>Exposure</dt>", "<dt>Target</dt>", "<b>dark</b>"] {
        assert!(!page.contains(other), "{other} {page}");
    }
}

#[test]
fn a_lookup_reads_no_data_and_the_length_is_exact() {
    // The block ends early: its data can't be read.
    let mut bytes = asdf(IMAGE, &[&[7; 12]]);
    bytes.truncate(bytes.len() - 6);
    let damaged = page_of(&container(bytes));
    let sound = page(IMAGE, &[&[7; 12]]);
    assert!(sound.contains("7 … 7, mean 7"));
    assert!(damaged.contains("Can't be read") || damaged.contains("class=\"bad\""), "{damaged}");
    elements(&damaged);
    let memo = Arc::default();
    let container = container(asdf(IMAGE, &[&[7; 12]]));
    let first = file(&container, Arc::new(|_| true), &memo).unwrap();
    assert!(memo.is_known() && memo.bytes.lock().unwrap().upgrade().is_none());
    assert_eq!(file(&container, Arc::new(|_| true), &memo).unwrap().len(), first.len());
    assert_eq!(first.len(), sound.len() as u64);
}

#[test]
fn texts_of_the_file_are_never_markup() {
    let evil =
        "\"</details></ul><script>alert(1)</script><img src=x onerror=alert(1)>'&lt;\\u202e\\0\\e[2J\"";
    let deep = format!("{}1{}", "{a: ".repeat(300), "}".repeat(300));
    let tree = format!(
        "{evil}: {evil}\nmeta: {{filter: {evil}, telescope: {evil}, target: {{name: 'javascript:alert(1)'}}, s_region: \
         {evil}, cal_step: {{{evil}: {evil}}}}}\n? [{evil}]\n: {evil}\n'..': {{'..': {{'<b>/x': !core/ndarray-1.0.0 {{data: \
         [1, 2, 3, 4, 5, 6, 7, 8, 9], datatype: int8}}}}}}\nunit: {evil}\ndeep: {deep}\nlong: {}\n'javascript:x': \
         !core/ndarray-1.0.0 {{data: [[1, 2], [3, 4]]}}\nt: !core/ndarray-1.0.0 {{datatype: [{{name: '</table>', datatype: \
         [ascii, 8]}}], data: [['<i>'], ['</td>']], shape: [2]}}\n",
        "x".repeat(1 << 20)
    );
    let page = page(&tree, &[]);
    let mut links = 0;
    for element in elements(&page) {
        let name = element.split(' ').next().unwrap();
        assert!(!matches!(name, "script" | "i>" | "b>x"), "{element}");
        assert!(!element.contains(" on"), "{element}");
        for (attribute, _) in element.match_indices("href=\"") {
            links += 1;
            let target = &element[attribute + 6..];
            assert!(target.starts_with("./") || target.starts_with("#arrays"), "{element}");
            assert!(!target.contains("/../") && !target.contains("/.."), "{element}");
        }
    }
    assert!(links > 4);
    assert!(!page.contains(['\0', '\u{1b}', '\u{202e}']));
    assert!(page.len() < 300_000, "{}", page.len());
}

#[test]
fn a_policy_forbids_scripts_before_any_text_of_the_file() {
    let page = page("'<b>': 1\n", &[]);
    let (before, policy) =
        page.split_once("<meta http-equiv=\"Content-Security-Policy\" content=\"").unwrap();
    assert!(!before.contains("<title"), "{before}");
    let (policy, _) = policy.split_once('"').unwrap();
    let directives: Vec<&str> = policy.split("; ").collect();
    assert!(directives.contains(&"default-src 'none'"), "{policy}");
    let kinds: Vec<&str> = directives.iter().filter_map(|directive| directive.split(' ').next()).collect();
    assert_eq!(kinds, ["default-src", "img-src", "style-src", "base-uri", "form-action"]);
    assert!(!policy.contains("http") && !policy.contains('*'), "{policy}");
}

#[test]
fn a_large_array_is_sampled_and_says_so() {
    let data = vec![1; 6 << 20];
    let tree = "sci: !core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: big, shape: [6291456]}\n";
    let page = page(tree, &[&data]);
    elements(&page);
    let words = "a sample of 4\u{202f}194\u{202f}304 of 6\u{202f}291\u{202f}456 values";
    assert!(page.contains(&format!("1 … 1, mean 1 <small>({words})</small>")), "{page}");
    assert!(page.contains(&format!("aria-label=\"sci: from 1 to 1, {words}\"")));
}

#[test]
fn a_tree_without_end_is_shown_as_far_as_it_can_be_read() {
    let page = page("a: {b: 1]\n", &[]);
    elements(&page);
    assert!(page.contains("The tree can't be read further"), "{page}");
    let many: String = (0..60_000).map(|n| format!("key{n}: {{value: {n}}}\n")).collect();
    let page = page_of(&container(asdf(&many, &[])));
    elements(&page);
    assert!(page.contains("… ") && page.len() < 1_400_000, "{}", page.len());
}

#[test]
fn the_array_of_the_picture_is_named_and_is_the_largest() {
    let image = |source: usize, side: u64| {
        format!(
            "!core/ndarray-1.0.0 {{source: {source}, datatype: uint8, byteorder: big, shape: [{side}, {side}]}}\n"
        )
    };
    let tree = format!("small: {}large<b>: {}other: {}", image(0, 3), image(1, 9), image(2, 9));
    let page = page(&tree, &[&[1; 9], &[2; 81], &[3; 81]]);
    elements(&page);
    assert!(page.contains("<figcaption><b>large&lt;b&gt;</b>: "), "{page}");
    assert!(page.contains("alt=\"Picture of large&lt;b&gt;: "), "{page}");
}

#[test]
fn what_is_left_out_of_the_table_is_told() {
    let arrays = |count: usize| {
        let array = |n| {
            format!(
                "a{n:02}: !core/ndarray-1.0.0 {{source: 0, datatype: uint8, byteorder: big, shape: [9]}}\n"
            )
        };
        (0..count).map(array).collect::<String>()
    };
    let few = page(&arrays(16), &[&[1; 9]]);
    assert!(!few.contains("values are read of") && !few.contains(" more: "), "{few}");
    let many = page(&arrays(50), &[&[1; 9]]);
    assert!(many.contains("; values are read of the first 16 arrays</caption>"), "{many}");
    assert!(many.contains("<summary>10 more: arrays</summary>"), "{many}");
    let inline = page(&format!("{}b: !core/ndarray-1.0.0 [1, 2]\n", arrays(1)), &[&[1; 9]]);
    assert!(inline.contains("<summary>1 more: inline arrays</summary>"), "{inline}");
}

#[test]
fn a_tree_that_is_not_valid_is_damage() {
    let page = page("a: {b: 1}\nc: [1\nd: 2\n", &[]);
    assert!(
        page.contains("<ul class=\"bad\" aria-label=\"Damage\"><li>the tree is not valid YAML: "),
        "{page}"
    );
    assert!(!page.contains("No damage found"), "{page}");
}
