//! `--repack`: what it keeps of a file, byte for byte, and what it refuses.

use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use asdf_access::File;
use asdf_file::container::Context;
use asdf_file::edit::repack::{NewCodec, Repack};
use asdf_views::format;
use common::asdf::{AsdfBuilder, Block, Index, sample};
use common::encode::Encoding;
use seekable::cache::Cache;
use seekable::codec::Codec;
use seekable::content::read_exact_at;
use seekable::source::MemorySource;
use serde_json::Value;

const START: &str = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n";

/// Runs the program in a directory; returns exit status, stdout and stderr.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_asdf-mount"));
    let Output { status, stdout, stderr } = command.args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn array(source: &str, more: &str) -> String {
    format!("!core/ndarray-1.1.0 {{source: {source}, datatype: int16, byteorder: big, {more}}}")
}

/// Writes a file `a.asdf` of these blocks, with a tree of these nodes.
fn write(folder: &Path, blocks: Vec<Block>, nodes: &str) {
    std::fs::write(folder.join("a.asdf"), built(blocks, nodes)).unwrap();
}

/// Compares all arrays of two files, and checks the second one.
fn compare(old: &File, new: &File, case: &str) {
    assert!(new.check().unwrap().is_empty(), "{case}: {:?}", new.check());
    let arrays = old.arrays().unwrap();
    assert_eq!(arrays.len(), new.arrays().unwrap().len(), "{case}");
    for array in arrays {
        let elements = |file: &File| {
            let found = file.array(&array.path).unwrap();
            let mut bytes = vec![0; (found.len() * found.item_size()) as usize];
            found.read_exact_at(0, &mut bytes).unwrap();
            bytes
        };
        assert!(elements(old) == elements(new), "{case}: {}", array.path);
    }
}

/// Repacks `a.asdf` to `b.asdf`, and compares all arrays. Returns what is told, and the new tree.
fn repacked(folder: &Path, arguments: &[&str]) -> (String, String) {
    let _ = std::fs::remove_file(folder.join("b.asdf"));
    let (status, told, why) =
        run(folder, &[&["--repack", "-q", "a.asdf", "-O", "b.asdf"], arguments].concat());
    assert_eq!((status, why.as_str()), (Some(0), ""), "{arguments:?}");
    let new = File::open(folder.join("b.asdf")).unwrap();
    compare(&File::open(folder.join("a.asdf")).unwrap(), &new, &format!("{arguments:?}"));
    (told, new.tree().unwrap())
}

/// Repacks a file in memory.
fn remade(bytes: &[u8], codec: NewCodec) -> Result<Vec<u8>, String> {
    let context = Context::new(Arc::new(Cache::new(1 << 20)));
    let container = format::open(Arc::new(MemorySource(bytes.to_vec())), &context).unwrap();
    let repack = Repack::plan(&*container, codec, None).map_err(|error| error.to_string())?;
    let mut new = Cursor::new(Vec::new());
    repack.write(&mut new, &|_| {}).unwrap();
    Ok(new.into_inner())
}

fn built(blocks: Vec<Block>, nodes: &str) -> Vec<u8> {
    AsdfBuilder::new().blocks(blocks).tree(format!("{START}{nodes}...\n")).build().bytes
}

/// Runs `--repack` on `a.asdf`, which fails and leaves nothing. Returns the reason.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let before = common::names(folder);
    let (status, told, why) = run(folder, &[&["--repack", "a.asdf", "-O", "new.asdf"], arguments].concat());
    assert_eq!((status, told.as_str(), why.lines().count()), (Some(1), "", 1), "{why}");
    assert_eq!(common::names(folder), before);
    why
}

#[test]
fn only_the_numbers_in_the_tree_change() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = [
        "# mine\nfirst:   ".to_owned() + &array("1", "shape: [10], offset: 40") + " # the first\n",
        format!("cut: &cut {}\nsame: *cut\n", array("-2", "shape: [5, 3], strides: [200, 2], offset: 106")),
        format!("back: {}\n", array("2", "shape: [4], strides: [-4], offset: 0x10")),
        format!("part: {}\n", array("2", "shape: [3], strides: [4], offset: 4")),
        "n: &n 3\n".to_owned() + &format!("last: {}\n", array("*n", "shape: [8], offset:\n  0")),
        format!("empty: {}\n", array("3", "shape: [0]")),
    ];
    let blocks = (0..4).map(|n| Block::new(sample(2000, n)).encoding(Encoding::Zlib)).collect();
    write(folder.path(), blocks, &nodes.concat());
    let (told, tree) = repacked(folder.path(), &["--codec", "lz4"]);
    let mut wanted = nodes.concat();
    for (old, new) in [
        ("source: 1", "source: 0"),
        ("offset: 40", "offset: 0"),
        ("source: -2", "source: 2"),
        ("strides: [200, 2], offset: 106", "strides: [6, 2], offset: 0"),
        ("back: !core/ndarray-1.1.0 {source: 2", "back: !core/ndarray-1.1.0 {source: 1"),
        ("offset: 0x10", "offset: 12"),
        ("part: !core/ndarray-1.1.0 {source: 2", "part: !core/ndarray-1.1.0 {source: 1"),
        ("offset: 4}", "offset: 0}"),
        ("source: *n", "source: 4"),
    ] {
        assert_eq!(wanted.matches(old).count(), 1, "{old}");
        wanted = wanted.replace(old, new);
    }
    assert_eq!(tree, format!("{}{START}{wanted}...\n", common::asdf::HEAD));
    assert_eq!(
        told,
        "a.asdf: block 0: left out: no array is in it\n\
         a.asdf: block 1: 20 of 2000 bytes are in use\n\
         a.asdf: block 2: 44 of 2000 bytes are in use, in 2 blocks\n\
         a.asdf: block 3: 16 of 2000 bytes are in use, in 2 blocks\n"
    );
}

#[test]
fn each_codec_is_kept_and_made() {
    let data = sample(24_000, 1);
    let whole = format!("a: {}\n", array("0", "shape: [120, 100]"));
    let part = format!("{whole}b: {}\n", array("1", "shape: [60], offset: 2"));
    let label = |bytes: &[u8]| {
        let magic = bytes.windows(4).position(|magic| magic == common::asdf::MAGIC).unwrap();
        <[u8; 4]>::try_from(&bytes[magic + 10..magic + 14]).unwrap()
    };
    for encoding in Encoding::all() {
        let block = || Block::new(data.clone()).encoding(encoding.clone());
        let old = built(vec![block(), block()], &part);
        for (codec, wanted) in [
            (NewCodec::Of(Codec::Zlib), b"zlib"),
            (NewCodec::Of(Codec::Bzip2), b"bzp2"),
            (NewCodec::Of(Codec::Lz4), b"lz4\0"),
            (NewCodec::Of(Codec::Zstd), b"zstd"),
            (NewCodec::None, b"\0\0\0\0"),
            (NewCodec::Kept, &encoding.label()),
        ] {
            let case = format!("{encoding:?} {codec:?}");
            let is_blosc = matches!(&encoding.label(), b"blsc" | b"bls2" | b"bsc2");
            let (old, new) = match remade(&old, codec) {
                Err(why) if codec == NewCodec::Kept && is_blosc => {
                    assert!(why.contains("block 1: it is used in part, and is compressed by Blosc"), "{why}");
                    let whole = built(vec![block()], &whole);
                    (whole.clone(), remade(&whole, codec).unwrap())
                }
                new => (old.clone(), new.unwrap()),
            };
            assert_eq!(label(&new), *wanted, "{case}");
            compare(&File::from_bytes(old).unwrap(), &File::from_bytes(new).unwrap(), &case);
        }
    }
    // Data of an unknown codec are copied.
    let unknown = Block::new(data.clone()).encoding(Encoding::Raw(*b"what", vec![7; 90]));
    let old = built(vec![Block::new(b"x"), unknown], &format!("a: {}\n", array("1", "shape: [120, 100]")));
    let new = remade(&old, NewCodec::Kept).unwrap();
    assert!(label(&new) == *b"what" && new.windows(90).any(|bytes| bytes == [7; 90]));
    assert!(remade(&old, NewCodec::None).unwrap_err().contains("leave --codec out"));
}

#[test]
fn references_to_lz4_become_exact() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = || vec![Block::new(sample(24_000, 1)).encoding(Encoding::Lz4(4096))];
    write(folder.path(), blocks(), &format!("a: {}\n", array("0", "shape: [120, 100]")));
    let references =
        |file: &str| -> Value { serde_json::from_str(&run(folder.path(), &["--refs", file]).1).unwrap() };
    let compressor = |references: &Value| -> String {
        let meta: Value = serde_json::from_str(references["refs"]["a/.zarray"].as_str().unwrap()).unwrap();
        meta["compressor"]["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(compressor(&references("a.asdf")), "asdf-lz4");
    repacked(folder.path(), &[]);
    assert_eq!(compressor(&references("b.asdf")), "lz4");
}

#[test]
fn arrays_in_chunks_keep_their_chunks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/chunked");
    let references = |bytes: &[u8]| {
        let references = File::from_bytes(bytes).unwrap().references().unwrap().unwrap();
        let mut text = vec![0; references.len() as usize];
        read_exact_at(&*references, 0, &mut text).unwrap();
        String::from_utf8(text).unwrap().matches("left_out").count()
    };
    for name in ["zarr.asdf", "chunked.asdf"] {
        let old = std::fs::read(folder.join(name)).unwrap();
        for codec in [NewCodec::Kept, NewCodec::None, NewCodec::Of(Codec::Zlib), NewCodec::Of(Codec::Lz4)] {
            let new = remade(&old, codec).unwrap();
            compare(&File::from_bytes(&*old).unwrap(), &File::from_bytes(&*new).unwrap(), name);
            assert_eq!(references(&new), references(&old), "{name} {codec:?}");
        }
    }
    // All chunks get other numbers if blocks before them are left out.
    let unused = |n: u32| Block::new(sample(30, n));
    let map: Vec<u8> = [3_i32, -1, 2].into_iter().flat_map(i32::to_le_bytes).collect();
    let blocks = vec![unused(0), unused(1), unused(2), unused(3), Block::new(map).encoding(Encoding::Zlib)];
    let nodes = "z: !<asdf://asdf-format.org/zarr/tags/zarr-1.0.0>\n  .zarray: {chunks: [15], compressor: null, \
                 dtype: '<u2', fill_value: 9, filters: null, order: C, shape: [40], zarr_format: 2}\n  \
                 chunk_block_map: 4\n";
    let old = built(blocks, nodes);
    let new = File::from_bytes(remade(&old, NewCodec::Kept).unwrap()).unwrap();
    compare(&File::from_bytes(old).unwrap(), &new, "zarr");
    assert_eq!(new.block_count().unwrap(), 3);
    assert!(new.tree().unwrap().contains(&nodes.replace("map: 4", "map: 2")));
}

#[test]
fn streams_external_arrays_and_padding() {
    let folder = tempfile::tempdir().unwrap();
    let other = AsdfBuilder::new().block(Block::new(sample(40, 5))).build();
    other.save(folder.path(), "other.asdf");
    let nodes = format!(
        "out: {}\nstream: {}\nin: !core/ndarray-1.1.0 [1, 2, 3]\n",
        array("other.asdf", "shape: [20]"),
        array("-1", "shape: ['*', 5]")
    );
    let blocks = vec![Block::new(b"unused"), Block::new(sample(1000, 3)).streamed()];
    write(folder.path(), blocks, &nodes);
    let (told, tree) = repacked(folder.path(), &["--codec", "zstd"]);
    assert_eq!(told, "a.asdf: block 0: left out: no array is in it\n");
    assert!(tree.ends_with(&format!("{nodes}...\n")), "{tree}");
    let bytes = std::fs::read(folder.path().join("b.asdf")).unwrap();
    assert!(bytes.ends_with(&sample(1000, 3)) && bytes.len() == tree.len() + 54 + 1000);
    repacked(folder.path(), &["-o", "padding=4k"]);
    let padded = std::fs::read(folder.path().join("b.asdf")).unwrap();
    assert_eq!(padded.len(), bytes.len() + 4096);
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let (status, _, why) = run(folder.path(), &["--repack", "a.asdf", "-O", "sub/b.asdf"]);
    assert!(status == Some(1) && why.contains("write the new file into the same directory"), "{why}");
    assert!(common::names(&folder.path().join("sub")).is_empty());
}

#[test]
fn what_can_not_be_tidied_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let two = || vec![Block::new(sample(400, 1)), Block::new(sample(400, 2))];
    for (nodes, why) in [
        ("a: 1\n".to_owned(), "no array of the tree is in a block"),
        (format!("a: {}\n", array("7", "shape: [3]")), "line 6: there is no block 7"),
        (
            format!("a: {}\nb: {{source: 1, datatype: int8, shape: [2]}}\n", array("0", "shape: [3]")),
            "line 7: a mapping has the keys of an array in a block, but no tag",
        ),
        (format!("a: {}\nn: *n\n", array("&n 1", "shape: [3]")), "line 6: several arrays share this number"),
        (
            format!(
                "a: &a {}\nb: !core/ndarray-1.1.0\n  <<: *a\n  source: 1\n",
                array("0", "shape: [3], offset: 9")
            ) + &format!("c: {}\n", array("1", "shape: [300], datatype: int8")),
            "line 6: several arrays share this number",
        ),
        (format!("a: {}\n", array("1", "shape: [x]")), "line 6: a dimension of an ndarray is not a number"),
    ] {
        let said = remade(&built(two(), &nodes), NewCodec::Kept).unwrap_err();
        assert!(said.contains(why), "{why}: {said}");
    }
    let old = AsdfBuilder::new().head("#ASDF 0.1.0\n").block(Block::new(sample(300, 1))).build();
    old.save(folder.path(), "a.asdf");
    assert!(refused(folder.path(), &[]).contains("only files of ASDF 1.0.0 are repacked"));
    for bytes in [
        common::gsd_builder::GsdBuilder::new().build().bytes,
        common::bloscpack_builder::Pack::new(100, &[1; 300]).build(),
    ] {
        std::fs::write(folder.path().join("a.asdf"), bytes).unwrap();
        assert!(refused(folder.path(), &[]).contains("only ASDF files are repacked"));
    }
}

#[test]
fn damage_is_named_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = (0..3).map(|n| Block::new(sample(3000, n)).encoding(Encoding::Zlib));
    let mut built = AsdfBuilder::new().blocks(blocks).build();
    built.bytes[built.blocks[1].data_offset as usize + 900] ^= 4;
    built.save(folder.path(), "a.asdf");
    let why = refused(folder.path(), &[]);
    assert!(why.starts_with("asdf-mount: a.asdf: block 1: "), "{why}");
    assert!(why.contains("; repair it first: asdf-mount --repair a.asdf -O FIXED"), "{why}");
    let (_, json, _) = run(folder.path(), &["--repack", "--json", "a.asdf", "-O", "new.asdf"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert!(report["status"] == "failed" && report["error"].as_str().unwrap().contains("block 1"), "{json}");
    // A wrong index is no damage, and the new file has a right one.
    let stale = AsdfBuilder::new().block(Block::new(sample(300, 1))).index(Index::Stale).build();
    let right = AsdfBuilder::new().block(Block::new(sample(300, 1))).build();
    assert!(remade(&stale.bytes, NewCodec::Kept).unwrap().ends_with(&right.bytes[right.tree_end..]));

    let sound = AsdfBuilder::new().block(Block::new(sample(3000, 1))).build();
    sound.save(folder.path(), "a.asdf");
    std::fs::write(folder.path().join("old"), "old").unwrap();
    for new in ["a.asdf", "old", "missing/b.asdf"] {
        let (status, _, why) = run(folder.path(), &["--repack", "a.asdf", "-O", new]);
        assert!(status == Some(1) && why.starts_with(&format!("asdf-mount: {new}: ")), "{why}");
    }
    // The limit on the size of a file stands for a full disk.
    let mut command = Command::new("prlimit");
    command.args(["--fsize=500", env!("CARGO_BIN_EXE_asdf-mount"), "--repack", "a.asdf", "-O", "b.asdf"]);
    assert_eq!(command.current_dir(folder.path()).output().unwrap().status.code(), Some(1));
    assert_eq!(common::names(folder.path()), ["a.asdf", "old"]);
    assert_eq!(std::fs::read(folder.path().join("a.asdf")).unwrap(), sound.bytes);
    let (status, json, _) = run(folder.path(), &["--repack", "--json", "-q", "a.asdf", "-O", "b.asdf"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (status, &report["status"], &report["new"]["blocks"]),
        (Some(0), &"repacked".into(), &1.into())
    );
    let (status, _, why) = run(folder.path(), &["--repack", "a.asdf"]);
    assert!(status == Some(2) && why.contains("--repack FILE -O NEW"), "{why}");
}
