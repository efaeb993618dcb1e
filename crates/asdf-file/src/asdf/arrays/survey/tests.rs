use seekable::content::Text;

use super::*;

fn tree(nodes: &str) -> Arc<dyn Content> {
    let text =
        format!("#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n{nodes}...\n");
    Arc::new(Text::new(text.into_bytes()))
}

/// Finds the arrays of a tree with blocks of this size.
fn found_in(tree: &Arc<dyn Content>, blocks: usize, size: Option<u64>) -> FoundArrays {
    let document = Document::read(&**tree).unwrap();
    let tree = UnsurveyedTree { text: tree.clone(), document: Arc::new(document), fits: None };
    find(
        tree,
        ArrayBlocks { count: blocks, size: &|_| size, is_count_sure: true, failure: None },
        &[],
        &Computed::default(),
    )
    .unwrap()
}

fn paths_of(tree: &Arc<dyn Content>, blocks: usize) -> ArrayPaths {
    found_in(tree, blocks, None).of_blocks
}

fn array(source: i64) -> String {
    format!("!core/ndarray-1.1.0 {{source: {source}, datatype: int8, byteorder: little, shape: [1]}}")
}

#[test]
fn each_block_has_the_paths_of_its_arrays() {
    let nodes = format!(
        "roman: {{data: {}, err: {}}}\nlist:\n- {}\n- {}\ninline: !core/ndarray-1.1.0 [1]\nnone: {}\n",
        array(0),
        array(1),
        array(0),
        array(-1),
        array(7)
    );
    let found = paths_of(&tree(&nodes), 3);
    assert!(found.complete);
    let of = |n| found.found.get(&n).map(|paths| paths.join(" "));
    assert_eq!(of(0).as_deref(), Some("roman.data list.0"));
    assert_eq!(of(1).as_deref(), Some("roman.err"));
    assert_eq!(of(2).as_deref(), Some("list.1"));
    assert_eq!(found.found.len(), 3);
    let found = paths_of(&tree(&format!("1: {0}\n'1': {0}\na: {{1: {1}}}\n", array(0), array(1))), 3);
    assert_eq!(found.found[&0], ["1", "1~1"]);
    assert_eq!(found.found[&1], ["a.1"]);
}

#[test]
fn what_is_kept_is_bounded_and_a_broken_tree_says_so() {
    let many: String = (0..1000).map(|n| format!("array{n:03}: {}\n", array(0))).collect();
    let found = paths_of(&tree(&many), 1);
    assert!(found.complete && found.found[&0].len() == 8, "{found:?}");
    let long = format!("{}: {}\n", "long".repeat(100), array(0));
    assert_eq!(paths_of(&tree(&long), 1).found[&0], [format!("...{}", "long".repeat(16))]);
    assert!(!paths_of(&tree("a: [\n"), 1).complete);
    let too_many: String = (0..MAX_ITEMS + 9).map(|n| format!("a{n}: {}\n", array(n as i64))).collect();
    let found = paths_of(&tree(&too_many), usize::MAX);
    assert!(!found.complete && found.found.len() >= MAX_ITEMS);
}

#[test]
fn paths_that_are_not_shown_cost_nothing() {
    // A copy of each prefix of this path would take some 30 GiB.
    let key = "k".repeat(4 << 20);
    assert_eq!(shown(&format!("a: {}\n? {key}\n: {}\n", array(0), array(0))), ["a.npy"]);
    // Only entries with paths of more than 3000 bytes are left out.
    let nested = "{four: ".repeat(900) + &array(0) + &"}".repeat(900);
    assert_eq!(shown(&format!("b: {}\nc: {nested}\n", array(0))), ["b.npy"]);
    let lists = "[".repeat(900) + &vec![array(0); 50].join(", ") + &"]".repeat(900);
    assert_eq!(shown(&format!("c: {lists}\n")).len(), 50);
    let mappings = format!("{{a: {0}, b: {0}, c: ", array(0)).repeat(400) + "1" + &"}".repeat(400) + "\n";
    assert_eq!(shown(&mappings).len(), 800);
}

#[test]
fn links_are_shown_until_there_are_too_many() {
    let aliases = vec!["*a"; 140_000].join(", ");
    let found = found_in(&tree(&format!("a: &a {}\nb: [{aliases}]\n", array(0))), 9, Some(4));
    assert_eq!(found.items.len(), 1 + (1 << 17));
    assert!(found.defects[0].what.contains("more than 131072 links"), "{:?}", found.defects);
}

#[test]
fn a_tree_with_too_many_anchors_says_why_it_has_no_arrays() {
    let anchored: String = (0..70_000).map(|n| format!("- &a{n} {}\n- *a{n}\n", array(0))).collect();
    let found = found_in(&tree(&format!("a:\n{anchored}")), 9, Some(4));
    assert!(found.items.is_empty() && !found.of_blocks.complete);
    let what = &found.defects[0].what;
    assert!(
        what.contains("not looked for: there are too many anchors, aliases and arrays at line"),
        "{what}"
    );
}

/// Lists files and links.
fn shown(nodes: &str) -> Vec<String> {
    let found = found_in(&tree(nodes), 9, Some(4));
    let shown = found.items.iter().map(|item| match &item.what {
        ArrayEntry::Array(_) | ArrayEntry::Mask(_) | ArrayEntry::Reference(..) | ArrayEntry::Unread(_) => {
            item.components().collect::<Vec<_>>().join("/")
        }
        ArrayEntry::Pending(_, target) => {
            let path = item.components().collect::<Vec<_>>().join("/");
            format!("{path} => {}", target.names().join("/"))
        }
        ArrayEntry::Link(text) => format!("{} -> {text}", item.components().collect::<Vec<_>>().join("/")),
    });
    shown.collect()
}

#[test]
fn arrays_lie_at_the_paths_of_their_keys() {
    let nodes = format!("a: {0}\n'x/y': {{'..': {0}, x.npy: {0}}}\nl:\n- {0}\n", array(0));
    assert_eq!(shown(&nodes), ["a.npy", "l/0.npy", "x%2Fy/%2E%2E.npy", "x%2Fy/x%2Enpy.npy"]);
    // A number and a text are different keys that look the same.
    assert_eq!(shown(&format!("1: {0}\n'1': {0}\n", array(0))), ["1.npy", "1~1.npy"]);
}

#[test]
fn what_is_mentioned_again_is_a_link() {
    let nodes = format!(
        "a: {{b: &array {0}, c: &dir {{d: {0}}}}}\nx: *array\ny: {{z: *dir}}\nw: &word text\nv: *word\n\
         same: [*array]\n",
        array(0)
    );
    let expected = ["a/b.npy", "a/c/d.npy", "same/0.npy -> ../a/b.npy", "x.npy -> a/b.npy", "y/z -> ../a/c"];
    assert_eq!(shown(&nodes), expected);
    let within = format!("a: {{b: &array {0}, c: *array}}\n", array(0));
    assert_eq!(shown(&within), ["a/b.npy", "a/c.npy -> b.npy"]);
}

#[test]
fn a_mask_stands_beside_its_array() {
    let node = "!core/ndarray-1.1.0 {source: 0, datatype: int8, byteorder: little, shape: [1], mask: MASK}";
    let nodes =
        format!("image: {}\nmask: {}\n", node.replace("MASK", &array(1).replace("int8", "bool8")), array(2));
    assert_eq!(shown(&nodes), ["image.mask.npy", "image.npy", "mask.npy"]);
}

#[test]
fn references_within_the_file_are_links() {
    let nodes = format!(
        "a: {{b/c: {0}, '~': {{d: [{0}]}}}}\nw: {{$ref: '#/a/b~1c'}}\nx: {{$ref: '#/w'}}\n\
         y: {{$ref: '#/a/~0'}}\nz: {{$ref: '#/y/d/0'}}\nround: {{$ref: '#/circle'}}\ncircle: {{$ref: \
         '#/round'}}\n\
         self: {{$ref: '#/self/self'}}\nall: {{$ref: '#'}}\nnone: {{$ref: '#/nothing'}}\nfar: {{$ref: \
         'o.asdf#/a'}}\n",
        array(0)
    );
    let expected = [
        "a/b%2Fc.npy",
        "a/~/d/0.npy",
        "far.npy",
        "w.npy -> a/b%2Fc.npy",
        "x.npy -> a/b%2Fc.npy",
        "y -> a/~",
        "z.npy -> a/~/d/0.npy",
    ];
    assert_eq!(shown(&nodes), expected);
}

/// Without the other file, such a link is not known to lead anywhere: `=>` stands for a link to be decided.
#[test]
fn links_to_references_into_other_files_are_kept_for_later() {
    let nodes = format!(
        "out: &out {{$ref: 'o.asdf#/a'}}\nin: {{$ref: '#/out'}}\nalias: *out\nbelow: {{$ref: '#/in/b'}}\n\
         box: &box {{c: *out}}\nsame: *box\nown: {{k: {0}, l: {{$ref: '#/own/k'}}}}\n\
         links: {{m: {{$ref: '#/own/k'}}}}\nto_links: {{$ref: '#/links'}}\n",
        array(0)
    );
    let expected = [
        "alias => out",
        "below => out/b",
        "box/c => out",
        "in => out",
        "links/m.npy -> ../own/k.npy",
        "out.npy",
        "own/k.npy",
        "own/l.npy -> k.npy",
        "same => box",
        "to_links -> links",
    ];
    let mut found = shown(&nodes);
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn merge_keys_bring_the_arrays_of_other_mappings() {
    let nodes = format!(
        "x: &x {{a: {0}, b: {{c: {0}}}, 0x10: {0}, s: 1}}\ny: &y {{<<: *x, b: 1}}\nz: {{<<: [*y, {{a: {0}, d: {0}}}]}}\n\
         v: &v {{u: {0}}}\nw: {{<<: *x, 16: 1, <<: *v}}\nr: {{$ref: '#/z/a'}}\n",
        array(0)
    );
    let mut found = shown(&nodes);
    found.sort();
    let expected = [
        "r.npy -> x/a.npy",
        "v/u.npy",
        "w/a.npy -> ../x/a.npy",
        "w/b -> ../x/b",
        "w/u.npy -> ../v/u.npy",
        "x/16.npy",
        "x/a.npy",
        "x/b/c.npy",
        "y/16.npy -> ../x/16.npy",
        "y/a.npy -> ../x/a.npy",
        "z/16.npy -> ../x/16.npy",
        "z/<</1/a.npy",
        "z/<</1/d.npy",
        "z/a.npy -> ../x/a.npy",
        "z/d.npy -> <</1/d.npy",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_repeated_key_with_the_same_node_is_one_array() {
    let nodes = format!("a: {{&k v: &x {0}, *k : *x}}\nb: &y {{c: {0}}}\nb: *y\n", array(0));
    assert_eq!(shown(&nodes), ["a/v.npy", "b/c.npy"]);
}

#[test]
fn keys_have_the_names_of_their_values() {
    let nodes =
        format!("00000000: {{0x10: {0}, 1_000: {0}, yes: {0}, ~: {0}, 1.50: {0}, '007': {0}}}\n", array(0));
    let expected = ["0/007.npy", "0/1.5.npy", "0/1000.npy", "0/16.npy", "0/null.npy", "0/true.npy"];
    assert_eq!(shown(&nodes), expected);
}

#[test]
fn a_structured_mask_has_the_fields_of_its_array() {
    let node = |mask: &str| {
        let fields = "[{name: a, datatype: int8}, {name: b, datatype: [ascii, 3]}]";
        format!(
            "!core/ndarray-1.1.0 {{source: 0, datatype: {fields}, byteorder: big, shape: [1], mask: \
             !core/ndarray-1.1.0 {{source: 1, datatype: {mask}, byteorder: big, shape: [1]}}}}"
        )
    };
    let found = |mask: &str| {
        let found = found_in(&tree(&format!("x: {}\n", node(mask))), 9, Some(4));
        found.items.iter().next().map(|item| item.what.clone())
    };
    let bools = "[{name: a, datatype: bool8}, {name: b, datatype: bool8}]";
    assert!(
        matches!(found(bools), Some(ArrayEntry::Array(mask)) if matches!(mask.datatype, Some(Datatype::Structured(_))))
    );
    let bytes = bools.replace("bool8", "int16");
    assert!(matches!(found(&bytes), Some(ArrayEntry::Mask(mask)) if mask.has_fields()));
    // Fields that its array does not have.
    assert!(
        matches!(found("[{name: a, datatype: bool8}]"), Some(ArrayEntry::Array(array)) if array.source == Source::Block(0))
    );
}

#[test]
fn masks_are_arrays_numbers_nulls_and_references() {
    let node = |mask: &str| {
        format!(
            "!core/ndarray-1.1.0 {{source: 0, datatype: float32, byteorder: big, shape: [1], mask: {mask}}}"
        )
    };
    let bools = array(1).replace("int8", "bool8");
    let nodes = format!(
        "number: {}\nbroadcast: {}\nm: &m {bools}\nalias: {}\nref: {}\nnulls: !core/ndarray-1.1.0 [1, ~]\n\
         wide: {}\n",
        node("0"),
        node(&bools.replace("shape: [1]", "shape: []")),
        node("*m"),
        node("{$ref: '#/m'}"),
        node("{$ref: '#/number'}"),
    );
    let expected = [
        "alias.mask.npy -> m.npy",
        "alias.npy",
        "broadcast.mask.npy",
        "broadcast.npy",
        "m.npy",
        "nulls.mask.npy",
        "nulls.npy",
        "number.mask.npy",
        "number.npy",
        "ref.mask.npy -> m.npy",
        "ref.npy",
        "wide.mask.npy",
        "wide.npy",
    ];
    assert_eq!(shown(&nodes), expected);
}

#[test]
fn masks_are_shared_and_lost_ones_are_told() {
    let node = |mask: &str| array(0).replace("[1]}", &format!("[1], mask: {mask}}}"));
    let bools = array(1).replace("int8", "bool8");
    let nodes = format!(
        "a: {}\nb: {}\nc: *m\nd: {}\ne: *s\nf: {}\ng: {}\nh: {}\ni: {}\nj: {}\n",
        node(&format!("&m {bools}")),
        node("*m"),
        node(&format!("&s {}", bools.replace("[1]", "[1, 1, 1]"))),
        node("*s"),
        node("{$ref: 'other.asdf#/x'}"),
        node("{$ref: '#/nowhere'}"),
        node(&bools.replace("[1]", "[2]")),
        node("3").replace("int8", "[ascii, 1]"),
    );
    let mut expected: Vec<String> = "abdfghij".chars().map(|name| format!("{name}.npy")).collect();
    let masks = ["a.mask.npy", "b.mask.npy -> a.mask.npy", "c.npy -> a.mask.npy", "d.mask.npy"];
    expected.extend(masks.map(str::to_owned));
    // A mask that is broadcast for one array is a separate file for another.
    expected.extend(["e.npy".to_owned(), "f.mask.npy".to_owned()]);
    expected.sort();
    assert_eq!(shown(&nodes), expected);
    let found = found_in(&tree(&nodes), 9, Some(4));
    let told: Vec<_> = found.defects.iter().map(|defect| defect.what.as_str()).collect();
    let expected = [
        "line 14: arrays/ leaves out the mask of j: the mask or the elements are not numbers",
        "line 13: arrays/ leaves out the mask of i: it does not fit the shape of its array",
        "line 11: arrays/ leaves out the mask of g: it is in another file",
        "line 12: arrays/ leaves out the mask of h: it does not refer to an array",
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_cannot_be_shown_is_left_out_with_its_reason() {
    let nodes = format!("gone: {}\nlarge: {}\nhere: [1]\nin: !core/ndarray-1.1.0 [1]\n", array(9), array(1));
    let found = found_in(&tree(&nodes), 3, Some(0));
    assert_eq!(found.items.len(), 1);
    let told: Vec<_> = found.defects.iter().map(|defect| defect.what.as_str()).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], "line 5: arrays/ leaves out gone: there is no block 9");
    assert_eq!(told[1], "line 6: arrays/ leaves out large: it takes 1 bytes, and block 1 has 0");
}
