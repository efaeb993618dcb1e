//! Trees, arrays and blocks of the three formats.

use asdf_access::{
    ArraySource, ByteOrder, Datatype, File, Kind, OpenOptions, Scalar, Selection, Severity, Verified,
};

use crate::repository;
use common::asdf::{AsdfBuilder, Block, HEAD};
use common::encode::Encoding;
use common::site::Site;

const TREE: &str = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n";

/// Returns an ASDF file with the nodes of `tree` and the blocks.
fn asdf(tree: &str, blocks: impl IntoIterator<Item = Block>) -> AsdfBuilder {
    AsdfBuilder::new().head(HEAD).tree(format!("{TREE}{tree}...\n")).blocks(blocks)
}

/// Saves a file in a new directory and opens it.
fn opened(builder: &AsdfBuilder) -> (tempfile::TempDir, File) {
    let folder = tempfile::tempdir().unwrap();
    let path = builder.build().save(folder.path(), "a.asdf");
    (folder, File::open(path).unwrap())
}

#[test]
fn every_listed_array_of_every_format_can_be_read() {
    for (path, format, count) in [
        ("examples/sample.asdf", "asdf", 3),
        ("examples/trajectory.gsd", "gsd", 11),
        ("tests/fixtures/bloscpack/bloscpack0.16.0-blosc1.11.4_np_c16.blp", "bloscpack", 1),
    ] {
        let path = repository(path);
        let file = File::open(&path).unwrap();
        assert_eq!((file.format(), file.path()), (format, &*path));
        assert!(!file.version().is_empty() && file.tree().unwrap().contains(':'), "{format}");
        let arrays = file.arrays().unwrap();
        assert_eq!(arrays.len(), count, "{arrays:?}");
        for listed in arrays {
            let array = file.array(&listed.path).unwrap();
            assert_eq!(array.shape, listed.shape, "{}", listed.path);
            let mut bytes = vec![0; usize::try_from(array.len() * array.item_size()).unwrap() + 1];
            assert_eq!(array.read_at(0, &mut bytes).unwrap(), bytes.len() - 1, "{}", listed.path);
        }
        for block in file.blocks().unwrap() {
            let block = block.unwrap();
            assert_eq!(block.to_vec().unwrap().len() as u64, block.len());
            assert!(block.facts().count() > 3 && block.verify().unwrap() != Verified::Mismatch);
        }
        assert_eq!(file.block(file.block_count().unwrap()).unwrap_err().kind(), Kind::NotFound);
        assert_eq!(file.array("no/such").unwrap_err().kind(), Kind::NotFound);
        assert!(file.check().unwrap().iter().all(|defect| defect.severity == Severity::Note));
    }
}

#[test]
fn elements_come_in_c_order_and_in_the_byte_order_of_the_machine() {
    let tree = "\
big: !core/ndarray-1.1.0 {source: 0, datatype: int16, byteorder: big, shape: [2, 3]}
every_second: !core/ndarray-1.1.0 {source: 0, datatype: int16, byteorder: big, shape: [3], strides: [4]}
backwards: !core/ndarray-1.1.0
  {source: 0, datatype: int16, byteorder: big, shape: [6], strides: [-2], offset: 10}
fortran: !core/ndarray-1.1.0
  {source: 0, datatype: int16, byteorder: big, shape: [3, 2], strides: [2, 6]}
repeated: !core/ndarray-1.1.0
  {source: 0, datatype: int16, byteorder: big, shape: [2, 2], strides: [0, 2]}
half: !core/ndarray-1.1.0 {source: 1, datatype: float16, byteorder: little, shape: [2]}
complex: !core/ndarray-1.1.0 {source: 2, datatype: complex64, byteorder: big, shape: [1]}
inline: !core/ndarray-1.1.0 {data: [[1, 2], [3, 4]], datatype: int64}
masked: !core/ndarray-1.1.0
  {source: 0, datatype: int16, byteorder: big, shape: [6], mask: 3}
empty: !core/ndarray-1.1.0 {source: 0, datatype: uint8, byteorder: big, shape: [0]}
deep: {key: &here !core/ndarray-1.1.0 {source: 0, datatype: uint8, byteorder: big, shape: [2]}}
alias: *here
table: !core/ndarray-1.1.0
  source: 0
  datatype: [{name: a, datatype: int16, byteorder: big}, {name: b, datatype: uint8, shape: [2]}]
  byteorder: little
  shape: [3]
";
    let numbers: Vec<u8> = (1..=6_i16).flat_map(i16::to_be_bytes).collect();
    let complex = [1.5_f32, -2.0].into_iter().flat_map(f32::to_be_bytes).collect::<Vec<_>>();
    let blocks = [
        Block::new(numbers).encoding(Encoding::Zlib),
        Block::new([0x00, 0x3c, 0x00, 0xc0]),
        Block::new(complex),
    ];
    let (_folder, file) = opened(&asdf(tree, blocks));
    let int16 = |path: &str| file.array(path).unwrap().to_vec::<i16>().unwrap();
    assert_eq!(int16("big"), [1, 2, 3, 4, 5, 6]);
    assert_eq!(int16("every_second"), [1, 3, 5]);
    assert_eq!(int16("backwards"), [6, 5, 4, 3, 2, 1]);
    assert_eq!(int16("fortran"), [1, 4, 2, 5, 3, 6]);
    assert_eq!(int16("repeated"), [1, 2, 1, 2]);
    assert_eq!(file.array("half").unwrap().to_vec::<f32>().unwrap(), [1.0, -2.0]);
    assert_eq!(file.array("complex").unwrap().to_vec::<[f32; 2]>().unwrap(), [[1.5, -2.0]]);
    assert_eq!(file.array("inline").unwrap().to_vec::<i64>().unwrap(), [1, 2, 3, 4]);
    assert_eq!(file.array("inline").unwrap().shape, [2, 2]);
    assert!(file.array("empty").unwrap().to_vec::<u8>().unwrap().is_empty());
    assert_eq!(file.array("deep/key").unwrap().to_vec::<u8>().unwrap(), [0, 1]);
    assert_eq!(file.array("alias").unwrap().to_vec::<u8>().unwrap(), [0, 1]);
    let mask = file.array("masked.mask").unwrap();
    assert_eq!(mask.to_vec::<bool>().unwrap(), [false, false, true, false, false, false]);

    let table = file.array("table").unwrap();
    let Datatype::Record(fields) = &table.datatype else { panic!("{:?}", table.datatype) };
    let [a, b] = &fields[..] else { panic!("{fields:?}") };
    assert_eq!(
        (a.name.as_str(), a.byteorder, &a.datatype),
        ("a", ByteOrder::Big, &Datatype::Scalar(Scalar::Int16))
    );
    assert_eq!(
        (b.name.as_str(), &b.shape[..], &b.datatype),
        ("b", &[2][..], &Datatype::Scalar(Scalar::Uint8))
    );
    let mut row = [0; 4];
    assert_eq!((table.read_at(4, &mut row).unwrap(), row), (4, [0, 3, 0, 4]));

    let mut some = [9_i16; 4];
    assert_eq!(file.array("big").unwrap().read(4, &mut some).unwrap(), 2);
    assert_eq!(some, [5, 6, 9, 9]);
    assert_eq!(file.array("big").unwrap().read(u64::MAX, &mut some).unwrap(), 0);
}

#[test]
fn another_type_is_refused_with_both_types() {
    let file = File::open(repository("examples/sample.asdf")).unwrap();
    let error = file.array("image").unwrap().to_vec::<f32>().unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert_eq!(
        error.message(),
        "the array \"image\" has elements of the type int16, which can't be read as f32"
    );
    assert!(file.array("stars").unwrap().to_vec::<u8>().is_err());
    let image = file.arrays().unwrap().remove(0);
    assert_eq!((image.datatype.to_string(), image.source), ("int16".to_owned(), ArraySource::Block(0)));
}

#[test]
fn paths_that_lead_nowhere_are_errors() {
    let file = File::open(repository("examples/sample.asdf")).unwrap();
    for path in ["", "/", "image/", "image.npy", "../arrays/image", "object", "..", "image/x", "a\0b"] {
        assert_eq!(file.array(path).unwrap_err().kind(), Kind::NotFound, "{path:?}");
    }
    let missing = File::open("no/such/file.asdf").unwrap_err();
    assert_eq!(missing.kind(), Kind::System(libc::ENOENT));
    assert!(missing.to_string().starts_with("no/such/file.asdf: "), "{missing}");
    assert_eq!(File::open(repository("README.md")).unwrap_err().kind(), Kind::Unrecognised);
    assert_eq!(File::open(repository("src")).unwrap_err().kind(), Kind::Unrecognised);
    assert_eq!(File::open("ftp://host/a.asdf").unwrap_err().kind(), Kind::Usage);
    assert_eq!(OpenOptions::parse("cash=1M").unwrap_err().kind(), Kind::Usage);
}

/// An array may claim more elements than any machine has memory for: strides of 0 need no bytes.
#[test]
fn an_array_that_does_not_fit_in_memory_is_an_error() {
    let tree = "huge: !core/ndarray-1.1.0
  {source: 0, datatype: float64, byteorder: big, shape: [1000000000, 100000000], strides: [0, 0]}
";
    let (_folder, file) = opened(&asdf(tree, [Block::new([0; 8])]));
    let huge = file.array("huge").unwrap();
    assert_eq!(huge.to_vec::<f64>().unwrap_err().kind(), Kind::TooLarge);
    let mut two = [1.0; 2];
    assert_eq!((huge.read(99_999_999_999_999_998, &mut two).unwrap(), two), (2, [0.0; 2]));
}

#[test]
fn damage_is_told_with_its_block() {
    let mut bytes = asdf("", [Block::new(vec![7; 500]), Block::new(vec![8; 500])]).build();
    let damaged = usize::try_from(bytes.blocks[1].offset).unwrap() + 60;
    bytes.bytes[damaged] ^= 1;
    let folder = tempfile::tempdir().unwrap();
    let path = bytes.save(folder.path(), "a.asdf");
    let file = File::open(path).unwrap();
    let defects = file.check().unwrap();
    assert_eq!(defects.len(), 1, "{defects:?}");
    assert_eq!((defects[0].severity, defects[0].block), (Severity::Damage, Some(1)));
    assert_eq!(file.block(1).unwrap().verify().unwrap(), Verified::Mismatch);
}

#[test]
fn an_array_in_another_file_is_read_from_there() {
    let (folder, _) = opened(&asdf("", [Block::new([1, 2, 3])]));
    let tree = "far: !core/ndarray-1.1.0 {source: a.asdf, datatype: uint8, byteorder: big, shape: [3]}\n";
    let path = asdf(tree, []).build().save(folder.path(), "b.asdf");
    let file = File::open(path).unwrap();
    assert_eq!(file.array("far").unwrap().to_vec::<u8>().unwrap(), [1, 2, 3]);
}

#[test]
fn an_array_in_another_file_is_divided_as_it_is_decoded() {
    let array = |source| {
        format!(
            "far: !core/ndarray-1.1.0 {{source: {source}, datatype: uint8, byteorder: big, shape: [300, 10]}}\n"
        )
    };
    let block = Block::new(vec![7; 3000]).encoding(Encoding::Bzip2(1));
    let (folder, near) = opened(&asdf(&array("0"), [block]));
    let far = asdf(&array("a.asdf"), []).build().save(folder.path(), "b.asdf");
    let near = near.array("far").unwrap().chunks(100);
    assert_ne!(near, [[10], [10]], "rows, as if nothing were decoded");
    assert_eq!(File::open(far).unwrap().array("far").unwrap().chunks(100), near);
    // Chunks of the other file's tree.
    let chunked = folder.path().join("c.asdf");
    std::fs::copy(repository("tests/fixtures/chunked/zarr.asdf"), &chunked).unwrap();
    let stored = File::open(chunked).unwrap().array("plain").unwrap().chunks(1);
    let far = asdf("far: {$ref: 'c.asdf#/plain'}\n", []).build().save(folder.path(), "b.asdf");
    assert_ne!(stored, [[1], [1]]);
    assert_eq!(File::open(far).unwrap().array("far").unwrap().chunks(1), stored);
}

#[test]
fn a_file_that_another_program_changes_is_not_mixed() {
    let data: Vec<u8> = (0..200_000_u32).map(|n| n as u8).collect();
    let builder = asdf("", [Block::new(data)]);
    let (folder, file) = opened(&builder);
    let block = file.block(0).unwrap();
    let other = asdf("", [Block::new(vec![1; 200_000])]).build();
    std::fs::write(folder.path().join("a.asdf"), &other.bytes).unwrap();
    assert_eq!(block.read_at(0, &mut [0; 10]).unwrap_err().kind(), Kind::Changed);
    // A file that was replaced or removed is read to its end.
    let file = File::open(folder.path().join("a.asdf")).unwrap();
    std::fs::remove_file(folder.path().join("a.asdf")).unwrap();
    assert_eq!(file.block(0).unwrap().to_vec().unwrap(), [1; 200_000]);
}

#[test]
fn a_file_on_a_server_is_read_and_never_saved() {
    let site = Site::web(|_, reply| reply);
    site.put("a.asdf", std::fs::read(repository("examples/sample.asdf")).unwrap());
    let mut file = File::open(site.server.url("/a.asdf")).unwrap();
    let local = File::open(repository("examples/sample.asdf")).unwrap();
    let image = |file: &File| file.array("image").unwrap().to_vec::<i16>().unwrap();
    assert!(image(&file) == image(&local) && file.tree().unwrap() == local.tree().unwrap());
    let tree = file.tree().unwrap();
    assert_eq!(file.set_tree(&tree).unwrap_err().kind(), Kind::ReadOnly);
}

#[test]
fn parts_of_an_array_are_selected_and_stored_ones_found() {
    let file = File::open(repository("examples/sample.asdf")).unwrap();
    let image = file.array("image").unwrap();
    let all: Vec<i16> = image.to_vec().unwrap();
    let columns = Selection { start: 150, step: -3, count: 40 };
    let selected = image.select(&[Selection { start: 7, step: 2, count: 5 }, columns]).unwrap();
    let again = selected
        .select(&[Selection { start: 1, step: 3, count: 2 }, Selection { start: 0, step: 1, count: 40 }]);
    let expected = |rows: &[usize]| -> Vec<i16> {
        rows.iter().flat_map(|row| (0..40).map(move |n| row * 160 + 150 - 3 * n)).map(|at| all[at]).collect()
    };
    assert_eq!(selected.to_vec::<i16>().unwrap(), expected(&[7, 9, 11, 13, 15]));
    assert_eq!(again.unwrap().to_vec::<i16>().unwrap(), expected(&[9, 15]));
    for wrong in [&[columns][..], &[columns, Selection { start: 0, step: 1, count: 161 }]] {
        assert_eq!(image.select(wrong).unwrap_err().kind(), Kind::Usage);
    }
    assert_eq!(file.stored(&image).unwrap(), None);

    let tree = "a: !core/ndarray-1.1.0 {source: 0, datatype: uint8, byteorder: little, shape: [9]}\n";
    let (folder, file) = opened(&asdf(tree, [Block::new(b"012345678")]));
    let path = folder.path().join("a.asdf");
    let bytes = std::fs::read(&path).unwrap();
    let array = file.array("a").unwrap();
    let start = usize::try_from(file.stored(&array).unwrap().unwrap()).unwrap();
    assert_eq!(
        (&bytes[start..start + 9], file.array_paths("").unwrap()),
        (&b"012345678"[..], vec!["a".to_owned()])
    );
    std::fs::write(&path, [&bytes[..], b"x"].concat()).unwrap();
    assert_eq!(file.stored(&array).unwrap_err().kind(), Kind::Changed);
    assert_ne!(File::open(&path).unwrap().version_of_source().unwrap(), file.version_of_source().unwrap());
}
