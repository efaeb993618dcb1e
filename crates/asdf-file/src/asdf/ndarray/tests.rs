use asdf_tree::yaml::document::Document;
use asdf_tree::yaml::survey::nodes;
use seekable::content::Text;

use super::*;

/// Reads the last ndarray in a text.
fn read(text: &str) -> Result<Ndarray> {
    let text = format!("%TAG ! tag:stsci.edu:asdf/\n%TAG !o! tag:stsci.edu:asdf/0.1.0/\n---\n{text}\n");
    let mut last = None;
    let document = Document::read(&Text::new(text.into_bytes())).unwrap();
    nodes::survey(&document, WANTED, &mut |_, found| {
        last = found.tag.map(|tag| Ndarray::read(tag, found.value));
    })
    .unwrap();
    last.expect("the text has an ndarray")
}

fn extent(fields: &str, size: u64) -> std::result::Result<(u64, u64), TooLarge> {
    let text = format!("a: !core/ndarray-1.1.0 {{source: 0, byteorder: big, {fields}}}");
    let extent = read(&text).unwrap().extent(size).expect("the extent is known");
    extent.map(|extent| (extent.start, extent.end))
}

#[test]
fn every_field_is_read() {
    let array = read(
        "a: !core/ndarray-1.1.0\n  source: -1\n  shape: ['*', 2]\n  byteorder: little\n  offset: 0x10\n  \
         strides: [16, -8]\n  mask: !core/ndarray-1.0.0 {source: 1, shape: [2], datatype: bool8, byteorder: big}\n  \
         datatype: [{name: a, datatype: uint8}, {name: b, datatype: [ascii, 3], byteorder: big, shape: [2, 2]}, \
         [ucs4, 2], float16, {name: d, datatype: [{datatype: int8}, complex64]}]",
    )
    .unwrap();
    assert_eq!(array.source, Source::Block(-1));
    assert_eq!(array.shape, Some(Shape { streamed: true, dimensions: vec![2] }));
    assert_eq!((array.byteorder, array.offset), (Some(ByteOrder::Little), 16));
    assert_eq!(array.strides, Some(vec![16, -8]));
    assert!(matches!(array.mask, Mask::Ndarray(_)));
    let Some(Datatype::Structured(fields)) = &array.datatype else { panic!("it is structured") };
    assert_eq!(
        fields.iter().map(|field| field.datatype.size().unwrap()).collect::<Vec<_>>(),
        [1, 3, 8, 2, 9]
    );
    assert_eq!(array.datatype.unwrap().size(), Some(1 + 12 + 8 + 2 + 9));
}

#[test]
fn a_source_is_a_block_a_file_or_the_tree() {
    let external =
        read("a: !core/ndarray-1.0.0 {source: x.asdf, shape: [1], datatype: int8, byteorder: big}");
    assert_eq!(external.unwrap().source, Source::External("x.asdf".into()));
    for inline in
        ["!core/ndarray-1.0.0 [[1, 2, 3], [4, 5, 6]]", "!core/ndarray-1.0.0 {data: [[1, 2, 3], [4, 5, 6]]}"]
    {
        let Source::Inline(inline) = read(inline).unwrap().source else { panic!("it is in the tree") };
        assert_eq!(inline.shape, survey::SequenceShape::Array(vec![2, 3]));
    }
    let old = read("a: !o!core/ndarray {source: 3, shape: [2], dtype: [{name: a, dtype: int8}]}").unwrap();
    assert_eq!((old.byteorder, old.datatype.unwrap().size()), (None, Some(1)));
    for (n, count, expected) in [
        (0, 1, Some(0)),
        (1, 1, None),
        (-1, 3, Some(2)),
        (-3, 3, Some(0)),
        (-4, 3, None),
        (0, 0, None),
        (i64::MIN, 3, None),
    ] {
        assert_eq!(Source::Block(n).block(count), expected, "{n} of {count}");
    }
}

#[test]
fn merged_and_aliased_fields_count() {
    let array = read(
        "base: &base {source: 1, shape: &shape [3], byteorder: big, datatype: int8}\n\
         other: &list [{datatype: int16}, *base]\n\
         a: !core/ndarray-1.1.0 {<<: *list, source: 2, strides: *shape}",
    )
    .unwrap();
    assert_eq!(array.source, Source::Block(2));
    assert_eq!(array.datatype, Some(Datatype::Scalar(Scalar::Int16)));
    assert_eq!((array.strides, array.shape.unwrap().dimensions), (Some(vec![3]), vec![3]));
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let fine = "source: 0, shape: [2], datatype: int8, byteorder: big";
    for (fields, expected) in [
        ("{shape: [2]}", "neither \"source\" nor \"data\""),
        ("{source: 0, data: [1]}", "both"),
        ("{source: 0, shape: [2], datatype: int8}", "no \"byteorder\""),
        ("{source: 0, shape: [2], byteorder: big}", "no \"datatype\""),
        ("{source: 0, datatype: int8, byteorder: big}", "no \"shape\""),
        (
            "{source: 1.5, shape: [2], datatype: int8, byteorder: big}",
            "neither the number of a block nor a URI",
        ),
        ("{source: '0', shape: [2], datatype: int8, byteorder: big}", "in quotes"),
        ("{source: 0, shape: 2, datatype: int8, byteorder: big}", "\"shape\" of an ndarray is not a list"),
        ("{source: 0, shape: [-1], datatype: int8, byteorder: big}", "not a number from 0 on"),
        ("{source: 0, shape: [1, '*'], datatype: int8, byteorder: big}", "only the first dimension"),
        ("{source: 0, shape: [2], datatype: int9, byteorder: big}", "no datatype \"int9\""),
        ("{source: 0, shape: [2], datatype: [ascii, x], byteorder: big}", "length of a text datatype"),
        ("{source: 0, shape: [2], datatype: {datatype: int8}, byteorder: big}", "neither a name nor a list"),
        ("{source: 0, shape: [2], datatype: [{name: a}], byteorder: big}", "no \"datatype\""),
        (
            "{source: 0, shape: [2], datatype: [{name: a, datatype: int8}, {name: a, datatype: int8}], byteorder: big}",
            "two fields",
        ),
        (
            "{source: 0, shape: [2], datatype: [{name: f1, datatype: int8}, int8], byteorder: big}",
            "named \"f1\"",
        ),
        ("{source: 0, shape: [2], datatype: [{name: 5, datatype: int8}], byteorder: big}", "not a name"),
        ("{source: 0, shape: [2], datatype: int8, byteorder: middle}", "neither \"big\" nor"),
        (&format!("{{{fine}, offset: -1}}"), "\"offset\""),
        (&format!("{{{fine}, strides: [0]}}"), "stride"),
        (&format!("{{{fine}, strides: [1, 1]}}"), "1 dimensions has strides for 2"),
        (&format!("{{{fine}, mask: x}}"), "\"mask\""),
        (&format!("{{{fine}, mask: {{source: 0}}}}"), "without the tag"),
        ("{data: [[1, 2], [3]]}", "not of the same length"),
        ("{data: [1, 2], shape: [3]}", "has the shape [2], but its \"shape\" is [3]"),
        ("{data: [[1, 2], [3, 4]], datatype: [bool8, int8]}", "as many rows as"),
        ("{data: [[true, true], [true, true]], datatype: [bool8, bool8]}", "as many rows as"),
        ("{data: 5}", "not a sequence"),
        ("5", "neither a mapping nor a sequence"),
    ] {
        let fault = read(&format!("a:\n  !core/ndarray-1.1.0 {fields}")).unwrap_err();
        assert!(fault.what.contains(expected), "{fields}: {}", fault.what);
        assert_eq!(fault.place.line, 5, "{fields}");
    }
    assert!(read("!core/ndarray-1.1.0 {data: [], shape: [0, 3]}").is_ok());
    let table = read("!core/ndarray-1.1.0 {data: [[a, 2], [b, 4]], datatype: [[ascii, 2], int8]}").unwrap();
    assert_eq!(table.shape, Some(Shape { streamed: false, dimensions: vec![2] }));
    for tag in ["!core/ndarray-0.1.0", "!o!core/ndarray"] {
        let old = read(&format!("{tag} {{source: 0, shape: [2], dtype: int8}}"));
        assert!(old.is_ok(), "{tag}: {old:?}");
    }
    let complex = fine.replace("int8", "complex64");
    assert!(read(&format!("!core/ndarray-1.1.0 {{{complex}, mask: !core/complex-1.0.0 1+1j}}")).is_ok());
}

#[test]
fn the_extent_follows_offset_shape_and_strides() {
    for (fields, size, expected) in [
        ("shape: [3, 4], datatype: float64", 96, Ok((0, 96))),
        ("shape: [3, 4], datatype: float64", 95, Err(TooLarge::Needs(96))),
        ("shape: [], datatype: int32, offset: 2", 6, Ok((2, 6))),
        ("shape: [0], datatype: int32, offset: 6", 6, Ok((6, 6))),
        ("shape: [0, 9], datatype: int32, offset: 7, strides: [1, 1]", 6, Err(TooLarge::Needs(7))),
        ("shape: [4], datatype: int64, offset: 8, strides: [16]", 64, Ok((8, 64))),
        ("shape: [3], datatype: int8, offset: 2, strides: [-1]", 3, Ok((0, 3))),
        ("shape: [3], datatype: int8, offset: 1, strides: [-1]", 3, Err(TooLarge::BeforeBlock)),
        ("shape: [2, 2], datatype: int16, offset: 4, strides: [-4, 2]", 8, Ok((0, 8))),
        ("shape: ['*', 8], datatype: float64", 200, Ok((0, 192))),
        ("shape: ['*'], datatype: int16, offset: 1", 6, Err(TooLarge::Needs(7))),
        ("shape: ['*'], datatype: int16, offset: 1", 7, Ok((1, 7))),
        ("shape: ['*', 0], datatype: int8", 10, Err(TooLarge::Endless)),
        ("shape: ['*'], datatype: int8, strides: [-1]", 10, Err(TooLarge::Endless)),
        ("shape: [3], datatype: [ascii, 0]", 0, Ok((0, 0))),
        (
            "shape: [18446744073709551615, 18446744073709551615], datatype: int8",
            9,
            Err(TooLarge::Uncountable),
        ),
        ("shape: [4294967296, 4294967296], datatype: int8, strides: [1, 1]", 9, Err(TooLarge::Uncountable)),
        ("shape: [0, 9223372036854775807, 3], datatype: int8", 9, Err(TooLarge::Uncountable)),
        ("shape: [2], datatype: int8, strides: [9223372036854775807]", 9, Err(TooLarge::Needs(1 << 63))),
        ("shape: [1], datatype: int8, offset: 18446744073709551615", 9, Err(TooLarge::Uncountable)),
    ] {
        assert_eq!(extent(fields, size), expected, "{fields} in {size}");
    }
}

#[test]
fn the_extent_is_that_of_all_elements_one_by_one() {
    use proptest::prelude::*;
    let strategy = (proptest::collection::vec((0_u64..4, -9_i64..9), 0..4), 0_u64..20, 1_u64..5, 0_u64..60);
    proptest!(|((dimensions, offset, item, size) in strategy)| {
        let (lengths, strides): (Vec<u64>, Vec<i64>) = dimensions.iter().copied().unzip();
        let array = Ndarray {
            source: Source::Block(0),
            shape: Some(Shape { streamed: false, dimensions: lengths.clone() }),
            datatype: Some(Datatype::Scalar(Scalar::Ascii(item))),
            byteorder: None,
            offset,
            strides: Some(strides.clone()),
            mask: Mask::None,
        };
        let mut starts = vec![offset as i64];
        for (len, stride) in lengths.iter().zip(&strides) {
            let step = |start: &i64| (0..*len as i64).map(move |n| start + n * stride).collect::<Vec<_>>();
            starts = starts.iter().flat_map(step).collect();
        }
        let first = starts.iter().copied().min().unwrap_or(offset as i64);
        let last = starts.iter().map(|start| start + item as i64).max().unwrap_or(offset as i64);
        let expected = match (first, last) {
            (..0, _) => Err(TooLarge::BeforeBlock),
            _ if last as u64 > size => Err(TooLarge::Needs(last as u64)),
            _ => Ok((first as u64, last as u64)),
        };
        let found = array.extent(size).unwrap().map(|extent| (extent.start, extent.end));
        prop_assert_eq!(found, expected);
    });
}
