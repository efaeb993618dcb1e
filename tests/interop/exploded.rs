//! `exploded/`: a copy of the directory is a file in exploded form, with the same arrays. `imploded.asdf` is
//! the reverse.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use common::asdf::{AsdfBuilder, Block, Built, Header, MAGIC_2014};
use common::mount::{Mounted, fresh_folder, wait_until};
use common::python::{python, run};

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").args([from, to]).status().unwrap();
    assert!(status.success(), "cp -r {}", from.display());
}

#[test]
fn copies_have_the_arrays_of_the_files() {
    let (folder, copies) = (fresh_folder(), fresh_folder());
    run(&python(), "write_exploded.py", [folder.path()]);
    let mounted = Mounted::file(folder.path());
    for entry in fs::read_dir(folder.path()).unwrap() {
        let name = entry.unwrap().file_name();
        copy(&mounted.path(&name).join("exploded"), &copies.path().join(&name));
        for file in fs::read_dir(copies.path().join(&name)).unwrap() {
            let file = file.unwrap();
            let shown = mounted.path(&name).join("exploded").join(file.file_name());
            assert_eq!(shown.metadata().unwrap().len(), file.metadata().unwrap().len());
        }
    }
    mounted.unmount();
    let count = run(&python(), "read_exploded.py", [folder.path(), copies.path()]);
    assert!(count.trim().parse::<usize>().unwrap() >= 16, "{count}");
}

/// Asserts that the exploded copy, mounted again, shows the same arrays.
fn explodes(built: &Built, blocks: usize) {
    let (folder, copies) = (fresh_folder(), fresh_folder());
    let mounted = Mounted::file(built.save(folder.path(), "old.asdf"));
    let target = copies.path().join("old");
    copy(&mounted.path("exploded"), &target);
    let again = Mounted::file(target.join("old.asdf"));
    let mut arrays = 0;
    for entry in fs::read_dir(mounted.path("arrays")).unwrap() {
        let name = Path::new("arrays").join(entry.unwrap().file_name());
        let (one, other) = (fs::read(mounted.path(&name)), fs::read(again.path(&name)));
        assert_eq!(one.unwrap(), other.unwrap(), "{}", name.display());
        arrays += 1;
    }
    again.unmount();
    for n in 0..blocks {
        let single = Mounted::file(target.join(format!("old{n:04}.asdf")));
        assert_eq!((single.block_count(), single.block(0)), (1, mounted.block(n)));
        let status = fs::read_to_string(single.path(".asdf-mount/status.yaml")).unwrap();
        assert!(status.contains("defects: []"), "{status}");
        single.unmount();
    }
    mounted.unmount();
    assert!(arrays > 0);
}

fn old_tree() -> &'static str {
    "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/0.1.0/\n--- !core/asdf\n\
     a: !core/ndarray {source: 0, dtype: uint8, datatype: uint8, shape: [8]} # the first\n\
     b: !core/ndarray\n  source: -1\n  dtype: uint8\n  datatype: uint8\n  shape: [8]\n...\n"
}

#[test]
fn old_layouts_explode_into_themselves() {
    let data = [b"01234567".to_vec(), b"abcdefgh".to_vec()];
    let blocks = |header: Header| data.clone().map(|data| Block::new(data).header(header));
    let old = |head: &str| AsdfBuilder::new().head(head).tree(old_tree());
    explodes(&old("%ASDF 0.1.0\n").blocks(blocks(Header::Encoding44)).build(), 2);
    let draft = blocks(Header::Encoding44).map(|block| block.magic(MAGIC_2014));
    explodes(&old("%ASDF 0.1.0\n").blocks(draft).build(), 2);
    explodes(&old("#ASDF 0.1.0\n").blocks(blocks(Header::Label40)).build(), 2);
    explodes(&old("#ASDF 0.1.0\n").padding("   ").blocks(blocks(Header::Chain)).build(), 2);
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&data[0]).unwrap();
    let chained = Block::new(data[0].clone()).chain("--- [zlib]\n...\n", encoder.finish().unwrap());
    explodes(
        &old("#ASDF 0.1.0\n").block(chained).block(Block::new(data[1].clone()).header(Header::Chain)).build(),
        2,
    );
}

#[test]
fn a_streamed_block_is_a_file_that_grows() {
    let folder = fresh_folder();
    let built = AsdfBuilder::new()
        .block(Block::new(b"01234567".to_vec()))
        .block(Block::new(b"89".to_vec()).streamed());
    let path = built.build().save(folder.path(), "x.asdf");
    let mounted = Mounted::file(&path);
    let stream = mounted.path("exploded/x0001.asdf");
    let before = fs::read(&stream).unwrap();
    assert!(before.ends_with(b"89"));
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"ab").unwrap();
    let grew = wait_until(|| {
        let now = fs::read(&stream).unwrap();
        now.ends_with(b"89ab") && now.len() == before.len() + 2
    });
    assert!(grew);
    mounted.unmount();
}

#[test]
fn without_blocks_there_is_only_the_tree() {
    let folder = fresh_folder();
    let built = AsdfBuilder::new().build();
    let mounted = Mounted::file(built.save(folder.path(), "x.asdf"));
    let names: Vec<_> =
        fs::read_dir(mounted.path("exploded")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["x.asdf"]);
    assert_eq!(fs::read(mounted.path("exploded/x.asdf")).unwrap(), built.tree());
    assert!(!mounted.path("exploded/x0000.asdf").exists());
    mounted.unmount();
}

#[test]
fn a_save_shows_in_the_tree_and_spares_the_blocks() {
    let folder = fresh_folder();
    let path =
        AsdfBuilder::new().block(Block::new(b"01234567".to_vec())).build().save(folder.path(), "x.asdf");
    let mounted = Mounted::file(&path);
    let block = fs::File::open(mounted.path("exploded/x0000.asdf")).unwrap();
    let before = fs::read(mounted.path("exploded/x0000.asdf")).unwrap();
    let tree = String::from_utf8(mounted.tree()).unwrap();
    let longer = tree.replace("\n...\n", &format!("\nmore: {}\n...\n", "long ".repeat(2000)));
    fs::write(mounted.path("tree.yaml"), &longer).unwrap();
    let shown = fs::read_to_string(mounted.path("exploded/x.asdf")).unwrap();
    assert!(shown.contains("more: long") && shown.contains("x0000.asdf"), "{shown}");
    let mut open = Vec::new();
    std::io::Read::read_to_end(&mut &block, &mut open).unwrap();
    assert_eq!((&open, fs::read(mounted.path("exploded/x0000.asdf")).unwrap()), (&before, before.clone()));
    drop(block);
    mounted.unmount();
}

/// An array in another file is not confused with a block of this file whose file has the same name.
#[test]
fn no_array_leads_to_a_block_of_the_same_name() {
    let folder = fresh_folder();
    let tree = |source: &str| {
        format!(
            "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
             a: !core/ndarray-1.0.0 {{source: 0, datatype: uint8, byteorder: big, shape: [8]}}\n\
             b: !core/ndarray-1.0.0 {{source: {source}, datatype: uint8, byteorder: big, shape: [8]}}\n...\n"
        )
    };
    for (source, expected) in [("x0000.asdf", Some(5)), ("x%30000.asdf", Some(5)), ("y0000.asdf", None)] {
        let built = AsdfBuilder::new().tree(tree(source)).block(Block::new(b"01234567".to_vec())).build();
        let mounted = Mounted::file(built.save(folder.path(), "x.asdf"));
        let error = fs::read(mounted.path("exploded/x.asdf")).err().and_then(|error| error.raw_os_error());
        assert_eq!(error, expected, "{source}");
        let status = fs::read_to_string(mounted.path(".asdf-mount/status.yaml")).unwrap();
        assert_eq!(status.contains("use imploded.asdf"), expected.is_some(), "{status}");
        mounted.unmount();
    }
}

#[test]
fn blocks_in_other_files_come_into_one() {
    let (folder, copies) = (fresh_folder(), fresh_folder());
    run(&python(), "write_imploded.py", [folder.path()]);
    let mounted = Mounted::file(folder.path());
    for (name, expected) in [("all.asdf", "3 3"), ("some.asdf", "6 4"), ("streamed.asdf", "6 4")] {
        let shown = mounted.path(name).join("imploded.asdf");
        let copied = copies.path().join(name);
        copy(&shown, &copied);
        assert_eq!(shown.metadata().unwrap().len(), copied.metadata().unwrap().len());
        // The copy lies alone in its directory.
        let counts = run(&python(), "read_imploded.py", [folder.path().join(name), copied]);
        assert_eq!(counts.trim(), expected, "{name}");
        let names: Vec<_> =
            fs::read_dir(mounted.path(name)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().any(|name| name == "imploded.asdf"));
    }
    assert!(!mounted.path("stream.asdf/imploded.asdf").exists());
    fs::remove_file(folder.path().join("all0001.asdf")).unwrap();
    let gone = fs::read(mounted.path("all.asdf/imploded.asdf")).unwrap_err();
    assert_eq!(gone.raw_os_error(), Some(5), "{gone}");
    mounted.unmount();
}
