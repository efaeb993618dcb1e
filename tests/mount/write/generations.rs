//! Reads of every view during saves of every plan, and during changes by another program: each reader gets
//! the bytes of one generation.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use memmap2::Mmap;

use crate::faults::Faults;
use crate::place::{Place, file};
use common::asdf::{AsdfBuilder, Block, sample};
use common::disk::Disk;
use common::encode::Encoding;
use common::mount::{Mounted, wait_until};

/// Number of elements of the inline array.
const NUMBERS: usize = 3000;

/// Builds a file with an inline array, an array in a block, and one in a compressed block.
fn build(path: &Path, padding: usize) {
    let numbers = vec!["12345"; NUMBERS].join(", ");
    let tree = format!(
        "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\ntitle: AAAA\n\
         stored: !core/ndarray-1.1.0 {{source: 0, datatype: uint8, byteorder: little, shape: [300000]}}\n\
         packed: !core/ndarray-1.1.0 {{source: 1, datatype: uint8, byteorder: little, shape: [300000]}}\n\
         inline: !core/ndarray-1.1.0\n  datatype: int64\n  shape: [{NUMBERS}]\n  data: [{numbers}]\n...\n"
    );
    let packed = Block::new(sample(300_000, 2)).encoding(Encoding::Zlib);
    let built = AsdfBuilder::new().tree(tree).padding(vec![b' '; padding]);
    let built = built.block(Block::new(sample(300_000, 1))).block(packed).build();
    fs::write(path, &built.bytes).unwrap();
}

/// Files that do not depend on the title.
const CONSTANT: [&str; 6] = [
    "arrays/inline.npy",
    "arrays/stored.npy",
    "arrays/packed.npy",
    "fits/inline.fits",
    "blocks/0.bin",
    "blocks/1.bin",
];

/// Saves titles of the lengths that `title` returns; returns the number of saves.
fn save_titles(mounted: &Mounted, count: usize, title: impl Fn(usize) -> String) {
    let tree = mounted.path("tree.yaml");
    for n in 0..count {
        let text = fs::read_to_string(&tree).unwrap();
        let old = text.lines().find(|line| line.starts_with("title: ")).unwrap();
        let new = text.replacen(old, &format!("title: {}", title(n)), 1);
        fs::write(&tree, &new).unwrap();
        // A file opened right after a save shows the new generation.
        let json = fs::read_to_string(mounted.path("tree.json")).unwrap();
        assert!(json.contains(&format!("\"{}\"", title(n))), "{n}");
    }
}

/// Reads all views in threads while `save` runs, and checks each byte.
fn read_beside(mounted: &Mounted, save: impl FnOnce()) {
    let whole = CONSTANT.map(|name| fs::read(mounted.path(name)).unwrap());
    let (done, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    let done = &done;
    thread::scope(|scope| {
        let going = move || !done.load(Ordering::Relaxed);
        for (name, whole) in CONSTANT.iter().zip(&whole) {
            let reads = &reads;
            scope.spawn(move || {
                while going() {
                    let read = fs::read(mounted.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
                    assert!(read == *whole, "{name}: {} of {} bytes", read.len(), whole.len());
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(move || {
            while going() {
                let json = fs::read_to_string(mounted.path("tree.json")).unwrap();
                assert!(json.ends_with('}') || json.ends_with("}\n"), "{} bytes", json.len());
                assert_eq!(json.matches("12345").count(), NUMBERS);
            }
        });
        // A handle and a map of the first generation, used to the end.
        let (mut held, map) = (open(mounted, "arrays/inline.npy"), map(mounted, "arrays/packed.npy"));
        save();
        held.seek(SeekFrom::Start(0)).unwrap();
        let mut read = Vec::new();
        held.read_to_end(&mut read).unwrap();
        assert!(read == whole[0] && map[..] == whole[2][..]);
        done.store(true, Ordering::Relaxed);
    });
    assert!(reads.load(Ordering::Relaxed) > 0);
}

fn open(mounted: &Mounted, name: &str) -> File {
    File::open(mounted.path(name)).unwrap()
}

fn map(mounted: &Mounted, name: &str) -> Mmap {
    // SAFETY: no program truncates the file, which lies in the mount.
    unsafe { Mmap::map(&open(mounted, name)) }.unwrap()
}

/// Mounts a file without padding on a separate file system; `linked` gives it a second hard link.
fn mounted_on(kind: &str, size: u64, linked: bool) -> (Disk, Mounted) {
    let disk = Disk::new(kind, size);
    let source = disk.path().join("a.asdf");
    build(&source, 0);
    if linked {
        fs::hard_link(&source, disk.path().join("b.asdf")).unwrap();
    }
    let mounted = Mounted::file(&source);
    (disk, mounted)
}

#[test]
fn readers_beside_saves_get_whole_files_in_each_plan() {
    // The plans in this order: in place; clone; insert; copy; rewrite, because the file has two links.
    for (kind, size, linked) in [
        ("xfs", 320, false),
        ("ext4", 64, false),
        ("ext2", 64, false),
        ("btrfs", 128, true),
        ("ext2", 64, true),
    ] {
        let (_disk, mounted) = mounted_on(kind, size, linked);
        read_beside(&mounted, || {
            // Each text exceeds the padding that the previous save left.
            save_titles(&mounted, 4, |n| "C".repeat(9000 * (n + 1)));
            save_titles(&mounted, 12, |n| "D".repeat(4 + n % 3));
        });
    }
}

#[test]
fn a_handle_and_a_map_outlive_the_name_that_they_were_opened_by() {
    let folder = common::mount::fresh_folder();
    let source = folder.path().join("a.asdf");
    build(&source, 4096);
    let mounted = Mounted::file(&source);
    let names =
        ["arrays/stored.npy", "arrays/packed.npy", "arrays/inline.npy", "fits/stored.fits", "tree.json"];
    let whole = names.map(|name| fs::read(mounted.path(name)).unwrap());
    let handles = names.map(|name| open(&mounted, name));
    let maps = names.map(|name| map(&mounted, name));
    for (from, to) in [("stored", "s"), ("packed", "p"), ("inline", "renamed_to_a_longer_name")] {
        let script = format!("s/^{from}:/{to}:/");
        let status = Command::new("sed").args(["-i", &script]).arg(mounted.path("tree.yaml")).status();
        assert!(status.unwrap().success());
        assert!(!mounted.path(format!("arrays/{from}.npy")).exists());
        assert!(mounted.path(format!("arrays/{to}.npy")).exists());
        for ((handle, map), whole) in handles.iter().zip(&maps).zip(&whole) {
            let mut read = vec![0; whole.len()];
            handle.read_exact_at(&mut read, 0).unwrap();
            assert!(read == *whole && map[..] == whole[..]);
            assert_eq!(handle.metadata().unwrap().len(), whole.len() as u64);
        }
    }
}

#[test]
fn the_table_of_blocks_names_the_arrays_of_the_saved_tree() {
    let folder = common::mount::fresh_folder();
    let source = folder.path().join("a.asdf");
    build(&source, 4096);
    let mounted = Mounted::file(&source);
    let table = || fs::read_to_string(mounted.path(".asdf-mount/blocks.yaml")).unwrap();
    let row = |path: &str| table().lines().find(|line| line.contains(path)).unwrap_or_default().to_owned();
    assert!(row("[packed]").starts_with("- {block: 1, "), "{}", table());
    let text = String::from_utf8(mounted.tree()).unwrap().replace("packed:", "renamed:");
    fs::write(mounted.path("tree.yaml"), text).unwrap();
    assert!(row("[renamed]").starts_with("- {block: 1, ") && row("[packed]").is_empty(), "{}", table());
}

#[test]
fn after_another_programs_change_no_handle_gives_other_bytes() {
    let folder = common::mount::fresh_folder();
    let source = folder.path().join("a.asdf");
    build(&source, 4096);
    let mounted = Mounted::file(&source);
    let stored = fs::read(mounted.path("blocks/0.bin")).unwrap();
    let bytes = fs::read(&source).unwrap();
    let at = memchr::memmem::find(&bytes, &stored).unwrap();
    let handle = open(&mounted, "blocks/0.bin");
    let mut half = vec![0; stored.len() / 2];
    handle.read_exact_at(&mut half, 0).unwrap();
    // A byte in the middle of the data changes, and no header.
    let file = File::options().write(true).open(&source).unwrap();
    file.write_all_at(&[!stored[200_000]], at as u64 + 200_000).unwrap();
    let fresh = fs::read(mounted.path("blocks/0.bin")).unwrap();
    assert_eq!(fresh[200_000], !stored[200_000]);
    let mut byte = [0];
    match handle.read_at(&mut byte, 299_999) {
        Ok(read) => assert_eq!((read, byte[0]), (1, stored[299_999]), "kept by the kernel"),
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESTALE)),
    }
    match handle.read_at(&mut byte, 200_000) {
        Ok(read) => assert_eq!((read, byte[0]), (1, stored[200_000]), "kept by the kernel"),
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESTALE)),
    }
    // Only the time changes: the checksum proves the data.
    file.write_all_at(&[stored[200_000]], at as u64 + 200_000).unwrap();
    let (stored_handle, packed) = (open(&mounted, "blocks/0.bin"), open(&mounted, "blocks/1.bin"));
    file.set_modified(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000))
        .unwrap();
    for (handle, name) in [(stored_handle, "blocks/0.bin"), (packed, "blocks/1.bin")] {
        let whole = fs::read(mounted.path(name)).unwrap();
        let mut read = vec![0; whole.len()];
        handle.read_exact_at(&mut read, 0).unwrap();
        assert!(read == whole, "{name}");
    }
    // Truncation is an error, not a shorter file.
    let handle = open(&mounted, "blocks/0.bin");
    file.set_len(at as u64 + 1000).unwrap();
    let mut read = Vec::new();
    match (&handle).read_to_end(&mut read) {
        Ok(_) => assert!(read == stored, "kept by the kernel"),
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESTALE)),
    }
}

#[test]
fn header_and_data_are_of_one_generation_beside_a_program_that_updates() {
    let folder = common::mount::fresh_folder();
    let source = folder.path().join("a.asdf");
    let file_of = |len: usize| {
        let tree = format!(
            "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
             a: !core/ndarray-1.1.0 {{source: 0, datatype: uint8, byteorder: little, shape: [{len:6}]}}\n...\n"
        );
        AsdfBuilder::new().tree(tree).block(Block::new(vec![(len / 100) as u8; len])).build().bytes
    };
    fs::write(&source, file_of(100)).unwrap();
    let mounted = Mounted::new(["-r".as_ref(), source.as_os_str()]);
    let writes = File::options().write(true).open(&source).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..60 {
                let bytes = file_of(100 * (1 + n * 7 % 50));
                // The program rewrites the file in place in one write.
                writes.write_all_at(&bytes, 0).unwrap();
                writes.set_len(bytes.len() as u64).unwrap();
                thread::sleep(std::time::Duration::from_millis(15));
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut whole = 0;
        while !done.load(Ordering::Relaxed) {
            let Ok(read) = fs::read(mounted.path("arrays/a.npy")) else { continue };
            let header = String::from_utf8_lossy(&read[..128]);
            let len: usize =
                header.split("'shape': (").nth(1).unwrap().split([',', ')']).next().unwrap().parse().unwrap();
            assert_eq!(read.len(), 128 + len, "{header}");
            whole += 1;
        }
        assert!(whole > 0);
    });
}

/// A handle of `tree.yaml` reads the text that it opened, although saves insert and move bytes meanwhile.
#[test]
fn a_handle_of_the_tree_reads_its_text_over_saves_of_each_plan() {
    for (kind, size, linked) in
        [("xfs", 320, false), ("ext4", 64, true), ("ext2", 64, false), ("btrfs", 128, true)]
    {
        let (_disk, mounted) = mounted_on(kind, size, linked);
        let mut opened: Vec<(String, File)> = Vec::new();
        for n in 0..4 {
            let text = fs::read_to_string(mounted.path("tree.yaml")).unwrap();
            let handle = open(&mounted, "tree.yaml");
            let mut first = vec![0; 10];
            handle.read_exact_at(&mut first, 0).unwrap();
            opened.push((text, handle));
            // The new text is a new file, as with most editors, so that the open handles belong to the old
            // one.
            let old = fs::read_to_string(mounted.path("tree.yaml")).unwrap();
            let line = old.lines().find(|line| line.starts_with("title: ")).unwrap();
            let new = old.replacen(line, &format!("title: {}", "E".repeat(9000 * (n % 3) + n)), 1);
            fs::write(mounted.path(".tree.new"), new).unwrap();
            fs::rename(mounted.path(".tree.new"), mounted.path("tree.yaml")).unwrap();
            for (text, handle) in &opened {
                let mut read = vec![0; text.len()];
                handle.read_exact_at(&mut read, 0).unwrap();
                assert!(read == text.as_bytes(), "{kind}: save {n}");
                assert_eq!(handle.read_at(&mut [0], text.len() as u64).unwrap(), 0, "{kind}: save {n}");
            }
        }
    }
}

/// Replaces the bytes of `path` in place and restores its modification time, as `cp -p` does.
fn put_back(path: &Path, bytes: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    assert_eq!(file.metadata().unwrap().len(), bytes.len() as u64);
    file.write_all_at(bytes, 0).unwrap();
    file.set_modified(time).unwrap();
}

/// Returns a file with an array of 40 pages, all of whose bytes are `byte`; `source` names another file that has
/// the array.
fn constant(byte: u8, source: Option<&str>) -> Vec<u8> {
    let source_of = source.map_or("0".to_owned(), str::to_owned);
    let tree = format!(
        "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
         a: !core/ndarray-1.1.0 {{source: {source_of}, datatype: uint8, byteorder: little, shape: [163840]}}\n...\n"
    );
    let built = AsdfBuilder::new().tree(tree);
    let built = if source.is_none() { built.block(Block::new(vec![byte; 163_840])) } else { built };
    built.build().bytes
}

/// True if all bytes of the array in `read` are `byte`. A mixture of two arrays is an error.
fn is_all(read: &[u8], byte: u8) -> bool {
    let data = &read[read.len() - 163_840..];
    assert!(data.iter().all(|other| *other == data[0]), "the bytes of two files");
    data[0] == byte
}

#[test]
fn a_file_that_is_put_back_with_its_time_is_another_file_in_every_view() {
    let folder = common::mount::fresh_folder();
    let sources = folder.path().join("s");
    fs::create_dir(&sources).unwrap();
    fs::write(sources.join("a.asdf"), constant(1, None)).unwrap();
    fs::write(sources.join("b.asdf"), constant(0, Some("a.asdf"))).unwrap();
    let plain = |byte| vec![byte; 163_840];
    fs::write(sources.join("plain"), plain(1)).unwrap();
    for option in ["rw", "ro"] {
        let mounted = Mounted::new(["-o", option, sources.to_str().unwrap()]);
        let names = ["a.asdf/arrays/a.npy", "a.asdf/blocks/0.bin", "b.asdf/arrays/a.npy", "plain"];
        for byte in [2, 1] {
            let held = names.map(|name| open(&mounted, name));
            for handle in &held {
                // The first pages get into the kernel's cache.
                handle.read_exact_at(&mut [0; 100], 0).unwrap();
            }
            put_back(&sources.join("a.asdf"), &constant(byte, None));
            put_back(&sources.join("plain"), &plain(byte));
            for name in names {
                let is_new = || is_all(&fs::read(mounted.path(name)).unwrap(), byte);
                assert!(common::mount::wait_until(is_new), "{option}, {name}: {byte}");
            }
        }
    }
}

/// A file in a mount whose array is held open, read only at its beginning.
fn held_at_its_start(mounted: &Mounted, name: &str) -> File {
    let held = open(mounted, name);
    // Without readahead.
    rustix::fs::fadvise(&held, 0, None, rustix::fs::Advice::Random).unwrap();
    held.read_exact_at(&mut [0; 100], 0).unwrap();
    held
}

#[test]
fn a_file_that_is_put_back_and_then_loses_its_name_is_not_read_on() {
    let lose: [fn(&Path); 3] = [
        |path| fs::rename(path, path.with_file_name("gone")).unwrap(),
        |path| fs::remove_file(path).unwrap(),
        |path| {
            fs::write(path.with_file_name("new"), constant(3, None)).unwrap();
            fs::rename(path.with_file_name("new"), path).unwrap();
        },
    ];
    for option in ["rw", "ro"] {
        for is_written in [true, false] {
            for lose in lose {
                let folder = common::mount::fresh_folder();
                let source = folder.path().join("a.asdf");
                fs::write(&source, constant(1, None)).unwrap();
                let mounted = Mounted::new(["-o", option, source.to_str().unwrap()]);
                let held = ["arrays/a.npy", "blocks/0.bin"].map(|name| held_at_its_start(&mounted, name));
                if is_written {
                    put_back(&source, &constant(2, None));
                }
                lose(&source);
                for held in held {
                    let mut byte = [0];
                    let read = held.read_at(&mut byte, 150_000).map_err(|error| error.raw_os_error());
                    let expected = if is_written { Err(Some(libc::ESTALE)) } else { Ok(1) };
                    assert_eq!(read, expected, "{option}");
                    assert!(is_written || byte == [1], "{option}");
                }
            }
        }
    }
}

/// Returns a file with a stream of this many bytes.
fn stream(byte: u8, len: usize) -> Vec<u8> {
    let tree = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n\
                a: !core/ndarray-1.1.0 {source: -1, datatype: uint8, byteorder: little, shape: ['*']}\n...\n";
    let block = Block::new(vec![byte; len]).streamed();
    AsdfBuilder::new().tree(tree).block(block).build().bytes
}

#[test]
fn a_stream_that_is_written_anew_with_the_same_tree_has_not_grown() {
    let folder = common::mount::fresh_folder();
    let source = folder.path().join("a.asdf");
    let append = |bytes: &[u8]| {
        let mut file = File::options().append(true).open(&source).unwrap();
        file.write_all(bytes).unwrap();
    };
    let at = |held: &File, offset| {
        let mut byte = [0];
        held.read_at(&mut byte, offset).map(|_| byte[0]).map_err(|error| error.raw_os_error())
    };
    // The mount begins with an empty stream, too.
    for (first, later) in [(1 << 20, 0), (1 << 20, 4096), (0, 1 << 20)] {
        for len in [1 << 20, 2 << 20] {
            fs::write(&source, stream(1, first)).unwrap();
            let mounted = Mounted::file(&source);
            let held = open(&mounted, "blocks/0.bin");
            rustix::fs::fadvise(&held, 0, None, rustix::fs::Advice::Random).unwrap();
            append(&vec![1; later]);
            assert!(wait_until(|| at(&held, 100) == Ok(1)), "{first} + {later}");
            fs::write(&source, stream(2, len)).unwrap();
            assert_eq!(at(&held, 900_000), Err(Some(libc::ESTALE)), "{first} + {later}: {len}");
        }
    }
}

#[test]
fn a_view_opened_right_after_the_first_save_is_new() {
    let folder = common::mount::fresh_folder();
    let sources = folder.path().join("s");
    fs::create_dir(&sources).unwrap();
    let names = ["tree.json", "tree.tagged.json", "arrays/inline.npy", ".asdf-mount/blocks.yaml"];
    for n in 0..5 {
        build(&sources.join(format!("{n}.asdf")), 0);
    }
    let mounted = Mounted::file(&sources);
    for n in 0..5 {
        let path = |name: &str| mounted.path(format!("{n}.asdf")).join(name);
        let offset = || mounted.attribute(format!("{n}.asdf/blocks/0.bin"), "user.asdf.offset").unwrap();
        let old = names.map(|name| fs::read(path(name)).unwrap());
        let held = File::open(path("blocks/0.bin")).unwrap();
        let old_offset = offset();
        // Makes the text longer, so that the blocks move.
        let text = fs::read_to_string(path("tree.yaml")).unwrap();
        let more = format!("12345, {}", "54321, ".repeat(NUMBERS - 1));
        let text = text.replace("title: AAAA", &format!("title: {}", "B".repeat(20_000)));
        fs::write(
            path("tree.yaml"),
            text.replacen(&"12345, ".repeat(NUMBERS - 1), &more[..], 1)
                .replace(&format!("shape: [{NUMBERS}]"), &format!("shape: [{}]", NUMBERS + 1)),
        )
        .unwrap();
        for (name, old) in names.iter().zip(old) {
            assert!(fs::read(path(name)).unwrap() != old, "{name}");
        }
        assert_ne!(offset(), old_offset);
        assert_eq!(offset().parse::<u64>().unwrap() % 4096, old_offset.parse::<u64>().unwrap() % 4096);
        let mut read = vec![0; 300_000];
        held.read_exact_at(&mut read, 0).unwrap();
        assert!(read == sample(300_000, 1));
    }
}

#[test]
fn a_file_that_is_rewritten_and_then_replaced_during_a_save_is_opened_anew() {
    let place = Place::on("ext4");
    let faults = Faults::new(&place.folder(), &place.disk.path());
    let directory = place.disk.path();
    let mounted = place.try_mount_as(&directory, &[], |command| faults.under(command)).unwrap();
    let block = mounted.path("a.asdf/blocks/2.bin");
    // The kernel then knows the name.
    let mut old = File::open(&block).unwrap();
    let new = place.disk.path().join("new");
    let data = sample(1_500_000, 9);
    fs::write(
        &new,
        file(vec![Block::new(sample(10, 1)), Block::new(sample(10, 2)), Block::new(data.clone())])
            .build()
            .bytes,
    )
    .unwrap();
    // A save waits for no program that has the file open for writing already.
    let writer = File::options().write(true).open(&place.source).unwrap();
    faults.slow(1000);
    thread::scope(|scope| {
        let text = place.named("another");
        let saved = scope.spawn(|| fs::write(mounted.path("a.asdf/tree.yaml"), text));
        assert!(wait_until(|| !place.ours_beside().is_empty()), "no save began");
        writer.write_all_at(&[7; 1000], place.built.bytes.len() as u64 / 2).unwrap();
        fs::rename(&new, &place.source).unwrap();
        assert!(fs::read(&block).unwrap() == data);
        faults.none();
        let _ = saved.join().unwrap();
    });
    let error = old.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ESTALE));
}

#[test]
fn names_that_both_files_have_are_found_while_another_program_replaces_the_file() {
    let folder = common::mount::fresh_folder();
    let source = folder.path().join("a.asdf");
    let replace = |byte: u8| {
        let new = folder.path().join("new");
        fs::write(&new, constant(byte, None)).unwrap();
        fs::rename(&new, &source).unwrap();
    };
    replace(0);
    for option in ["rw", "ro"] {
        let mounted = Mounted::new(["-o", option, source.to_str().unwrap()]);
        // Directories of the first file, as a process in them has.
        let [arrays, blocks] = ["arrays", "blocks"].map(|name| open(&mounted, name));
        for byte in 1..4 {
            replace(byte);
            // The daemon looks at the file again.
            thread::sleep(std::time::Duration::from_millis(250));
            for (dir, name) in [(&arrays, "a.npy"), (&blocks, "0.bin")] {
                let flags = rustix::fs::OFlags::RDONLY;
                let is_new = || {
                    let file = rustix::fs::openat(dir, name, flags, rustix::fs::Mode::empty()).unwrap();
                    let mut read = Vec::new();
                    File::from(file).read_to_end(&mut read).unwrap();
                    is_all(&read, byte)
                };
                assert!(common::mount::wait_until(is_new), "{option}, {name}: {byte}");
                let listed = rustix::fs::Dir::read_from(dir).unwrap();
                let names = listed.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
                assert!(names.into_iter().any(|listed| listed == name), "{option}, {name}: {byte}");
            }
        }
        fs::remove_file(&source).unwrap();
        // The kernel may keep a name for half a second.
        let is_gone = || {
            let gone = rustix::fs::statat(&arrays, "a.npy", rustix::fs::AtFlags::empty());
            gone.err() == Some(rustix::io::Errno::NOENT)
        };
        assert!(common::mount::wait_until(is_gone), "{option}");
        replace(0);
    }
}

#[test]
fn after_a_save_no_program_gets_an_older_attribute() {
    let folder = common::mount::fresh_folder();
    let path = folder.path().join("a.asdf");
    build(&path, 1 << 20);
    let mounted = Mounted::file(&path);
    let (tree, draft) = (mounted.path("tree.yaml"), mounted.path("draft"));
    let stored = fs::read_to_string(&tree).unwrap();
    let texts = [stored.replace("stored:", "other:"), stored];
    let arrays = [mounted.path("arrays/other.npy"), mounted.path("arrays/stored.npy")];
    for round in 0..30 {
        let (new, old) = (&arrays[round % 2], &arrays[(round + 1) % 2]);
        let held = File::open(&tree).unwrap();
        // From now on the kernel may answer for half a second.
        let count = |name: &str| {
            let mut count = 0;
            for entry in fs::read_dir(mounted.path(name)).unwrap() {
                entry.unwrap().metadata().unwrap();
                count += 1;
            }
            count
        };
        assert!(count("") > 3 && count("arrays") == 3);
        for _ in 0..2 {
            assert_eq!(fs::metadata(&tree).unwrap().len(), fs::read(&tree).unwrap().len() as u64);
            fs::metadata(old).unwrap();
            fs::metadata(new).unwrap_err();
        }
        let text = texts[round % 2].replace("\n...", &format!("\n# {}\n...", "x".repeat(round)));
        if round % 3 == 0 {
            fs::write(&draft, &text).unwrap();
            fs::rename(&draft, &tree).unwrap();
        } else {
            let mut file = File::options().write(true).truncate(true).open(&tree).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            if round % 3 == 1 {
                file.sync_all().unwrap();
                fs::metadata(new).unwrap();
            }
        }
        fs::metadata(new).unwrap();
        assert!(fs::metadata(old).is_err(), "round {round}: the array of the older text");
        assert_eq!(fs::metadata(&tree).unwrap().len(), text.len() as u64, "round {round}");
        if round % 3 > 0 {
            assert_eq!(held.metadata().unwrap().len(), text.len() as u64, "round {round}: of an open file");
        }
        assert_eq!(fs::read_to_string(&tree).unwrap(), text);
    }
}
