//! What views show of the nodes of products: links, attributes and types.

use std::ffi::OsStr;
use std::sync::Arc;

use asdf_file::container::Container;
use asdf_file::folder::Node;

use crate::open::{Opened, open};

/// Opens a file with these nodes in its tree.
fn with_tree(nodes: &str) -> Opened {
    let text =
        format!("#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n{nodes}...\n");
    open(text.as_bytes()).unwrap()
}

/// Returns the node at a path; `None` if there is none.
fn find(container: &Arc<dyn Container>, path: &str) -> Option<Node> {
    let (view, rest) = path.split_once('/').unwrap_or((path, ""));
    let views = container.clone().views().unwrap();
    let node = views.into_iter().find(|(name, _)| *name == view)?.1;
    if rest.is_empty() {
        return Some(node);
    }
    let Node::Dir(dir) = node else { return None };
    dir.find(&rest.split('/').map(OsStr::new).collect::<Vec<_>>()).unwrap()
}

#[test]
fn the_fits_files_of_a_dkist_dataset_are_links() {
    let opened = with_tree(
        "dataset:\n  data: !<asdf://dkist.nso.edu/tags/file_manager-1.0.0>\n    fileuris:\n    - [&a a.fits, b/c.fits]\n    \
         - [../x.fits, /etc/passwd, 'https://a/b.fits', *a, d/c.fits, null]\n    shape: [2, 2]\n",
    );
    let target = |name: &str| match find(&opened.container, &format!("fits/dataset/data/{name}")) {
        Some(Node::Link(target)) => Some(target.into_string().unwrap()),
        _ => None,
    };
    assert_eq!(target("a.fits").unwrap(), "../../../../a.fits");
    assert_eq!(target("c.fits").unwrap(), "../../../../b/c.fits");
    assert_eq!(target("c~1.fits").unwrap(), "../../../../d/c.fits");
    assert!(["x.fits", "passwd", "b.fits", "a~1.fits"].into_iter().all(|name| target(name).is_none()));
}

#[test]
fn arrays_have_type_shape_and_unit_as_attributes() {
    let opened = with_tree(
        "flux: !unit/quantity-1.1.0 {unit: !unit/unit-1.0.0 15deg, value: !core/ndarray-1.0.0 [[1.5, 2.5]]}\n\
         table: !core/ndarray-1.0.0 {data: [[1, a]], datatype: [{name: n, datatype: int16, byteorder: big}, \
         {name: t, datatype: [ascii, 3], byteorder: big}]}\n",
    );
    let attributes = |path: &str| match find(&opened.container, path) {
        Some(Node::File(file)) => file.attributes.unwrap()(),
        _ => panic!("{path}"),
    };
    let of = |key: &'static str, value: &str| (key, value.to_owned());
    assert_eq!(
        attributes("arrays/flux/value.npy"),
        [of("user.asdf.datatype", "float64"), of("user.asdf.shape", "[1, 2]"), of("user.asdf.unit", "15deg")]
    );
    assert_eq!(
        attributes("arrays/table.npy"),
        [of("user.asdf.datatype", "[n: int16, t: [ascii, 3]]"), of("user.asdf.shape", "[1]")]
    );
    // The catalogue has the type as JSON.
    let arrays = opened.file.arrays().unwrap();
    let types: Vec<String> =
        arrays.iter().map(|array| serde_json::to_string(&array.datatype).unwrap()).collect();
    assert_eq!(
        types,
        [
            "\"float64\"",
            r#"[{"name":"n","datatype":"int16","byteorder":"big"},{"name":"t","datatype":["ascii",3],"byteorder":"big"}]"#
        ]
    );
}

#[test]
fn the_picture_of_a_product_is_its_first_image() {
    let array = |value: &str| format!("!core/ndarray-1.0.0 {value}");
    let plane = array("[[1, 2], [3, 4]]");
    for (nodes, is_there) in [
        (format!("a: {}\nslope: {plane}\n", array("[1, 2]")), true),
        (format!("roman: {{mask: {plane}}}\n"), true),
        (format!("meta: {{lookup: {plane}}}\n"), false),
        (format!("a: {}\n", array("[[1, 2]]")), false),
    ] {
        let derived = with_tree(&nodes).container.derived_files().unwrap();
        assert_eq!(derived.contains(&"preview.png"), is_there, "{nodes}");
    }
}
