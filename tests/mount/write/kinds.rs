//! Files of every kind: without blocks, without a tree, of every layout, with a streamed block. Each can be
//! saved and then has a correct index, or none if none belongs there.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::place::{Ended, OLD, Place, errno, tree, write};
use common::asdf::{AsdfBuilder, Block, Built, HEAD, Header, Index, MAGIC, MAGIC_2014, index_text, sample};
use common::dice::Dice;
use common::mount::wait_until;

/// A tree that contains [`OLD`] and refers to no block.
const TREE: &str = "%YAML 1.1\n--- !core/asdf-1.1.0\nname: first light\n...\n";

/// The expected index after the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Indexed {
    Yes,
    No,
}

/// Returns the text with a longer name; adds a tree if there is none.
fn changed(text: &str, name: &str) -> String {
    if text.contains(OLD) { text.replace(OLD, name) } else { format!("{text}{}", TREE.replace(OLD, name)) }
}

/// Returns the expected bytes of the file with this text.
fn model(built: &Built, text: &str, bytes: &[u8], indexed: Indexed) -> Vec<u8> {
    let Some(first) = built.blocks.first() else { return text.as_bytes().to_vec() };
    let last = built.blocks.last().unwrap();
    let to =
        if last.streamed { built.bytes.len() } else { (last.data_offset + last.allocated_size) as usize };
    let blocks = &built.bytes[first.offset as usize..to];
    let magic = &blocks[..4];
    let at = bytes.windows(4).position(|four| four == magic).unwrap();
    let offsets: Vec<u64> =
        built.blocks.iter().map(|block| block.offset - first.offset + at as u64).collect();
    let index = if indexed == Indexed::Yes { index_text(&offsets) } else { Vec::new() };
    [text.as_bytes(), &vec![b' '; at - text.len()], blocks, &index].concat()
}

/// Saves longer and shorter texts, and compares the whole file after each save.
fn can_be_saved(name: &str, builder: &AsdfBuilder, indexed: Indexed, is_sound: bool) {
    for kind in ["ext4", "tmpfs"] {
        let place = Place::with(kind, builder);
        let text = place.text();
        {
            let mount = place.mount();
            assert_eq!(mount.tree(), text.as_bytes(), "{name}");
            for new in [
                changed(&text, "second"),
                changed(&text, &"longer ".repeat(1000)),
                changed(&text, "short"),
                changed(&text, &"still longer ".repeat(2000)),
            ] {
                write(&mount, &new).unwrap_or_else(|error| panic!("{name}: {error}\n{}", place.log()));
                let bytes = fs::read(&place.source).unwrap();
                let wanted = model(&place.built, &new, &bytes, indexed);
                assert!(bytes == wanted, "{name}, {kind}: {}", bytes.escape_ascii());
                assert_eq!(mount.tree(), new.as_bytes(), "{name}");
                assert_eq!(mount.block_count(), place.built.blocks.len(), "{name}");
                place.shows_blocks(&mount);
                if is_sound {
                    place.is_sound();
                }
            }
        }
        let again = place.try_mount(&place.source, &["-o", "ro"]).unwrap();
        assert_eq!(again.tree(), changed(&text, &"still longer ".repeat(2000)).as_bytes());
        place.shows_blocks(&again);
        place.nothing_is_beside();
    }
}

fn three() -> Vec<Block> {
    vec![Block::new(sample(700, 1)), Block::new(sample(0, 2)), Block::new(sample(9000, 3))]
}

#[test]
fn trees_in_all_their_forms() {
    let with = |blocks: Vec<Block>| AsdfBuilder::new().tree(tree(&blocks)).blocks(blocks);
    for (name, blocks) in [("blocks", three()), ("no blocks", Vec::new())] {
        let indexed = if blocks.is_empty() { Indexed::No } else { Indexed::Yes };
        let save = |form: &str, builder: &AsdfBuilder| {
            can_be_saved(&format!("{form}, {name}"), builder, indexed, true);
        };
        save("DOS line ends", &with(blocks.clone()).head(HEAD).crlf());
        save(
            "comments between header and tree",
            &with(blocks.clone()).head(format!("{HEAD}# one\n#two é\n")),
        );
        save("no tree", &AsdfBuilder::new().no_tree().blocks(blocks.clone()));
        save(
            "nothing but the header line",
            &AsdfBuilder::new().head("#ASDF 1.0.0\n").no_tree().blocks(blocks),
        );
    }
}

#[test]
fn older_layouts() {
    for (name, head, header, magic, indexed) in [
        ("2014, 44", "%ASDF 0.1.0\n", Header::Encoding44, MAGIC_2014, Indexed::No),
        ("2014, 40", "%ASDF 0.1.0\n", Header::Encoding40, MAGIC_2014, Indexed::No),
        ("0.1.0, 40", "#ASDF 0.1.0\n", Header::Label40, MAGIC, Indexed::Yes),
        ("0.1.0, 48", "#ASDF 0.1.0\n", Header::Label48, MAGIC, Indexed::Yes),
        ("0.1.0, 36", "#ASDF 0.1.0\n", Header::Chain, MAGIC, Indexed::Yes),
    ] {
        let blocks = (0..3).map(|n| Block::new(sample(50 * n + 1, 5)).header(header).magic(magic));
        let builder = AsdfBuilder::new().head(head).tree(TREE).blocks(blocks).index(Index::Absent);
        can_be_saved(name, &builder, indexed, true);
    }
}

/// A missing, wrong, repeated or differently formatted index is rewritten by any save.
#[test]
fn indices_right_or_wrong() {
    for index in Index::all() {
        // A correct index in another format may stay until blocks move.
        let place = Place::with(
            "tmpfs",
            &AsdfBuilder::new().tree(tree(&three())).blocks(three()).index(index.clone()),
        );
        let mount = place.mount();
        let first = place.built.blocks[0].offset as usize;
        let mut offsets: Vec<u64> = place.built.blocks.iter().map(|block| block.offset).collect();
        for name in ["short", &"longer ".repeat(1000)] {
            let text = place.named(name);
            if text.len() > first {
                write(&mount, &text).unwrap();
                let bytes = fs::read(&place.source).unwrap();
                let moved = bytes.windows(4).position(|four| four == MAGIC).unwrap() - first;
                for offset in offsets.iter_mut() {
                    *offset += moved as u64;
                }
                assert!(
                    bytes.ends_with(&index_text(&offsets)),
                    "{index:?}: {}",
                    bytes[9000..].escape_ascii()
                );
            } else {
                write(&mount, &text).unwrap();
                let bytes = fs::read(&place.source).unwrap();
                let kept = matches!(index, Index::Flow | Index::ThenZeros(_));
                assert!(kept || bytes.ends_with(&index_text(&offsets)), "{index:?}");
            }
            place.shows_blocks(&mount);
            place.is_sound();
        }
    }
}

fn streamed(padding: usize) -> AsdfBuilder {
    let blocks = vec![Block::new(sample(700, 1)), Block::new(sample(5000, 2)).streamed()];
    AsdfBuilder::new().tree(tree(&blocks)).padding(vec![b' '; padding]).blocks(blocks)
}

/// File systems that use different plans for a longer tree.
const STREAM_KINDS: [&str; 5] = ["ext4", "ext3", "tmpfs", "btrfs", "xfs"];

#[test]
fn the_tree_of_a_stream_grows_when_nobody_writes_to_it() {
    for kind in STREAM_KINDS {
        let place = Place::with(kind, &streamed(300));
        let mount = place.mount();
        let saves = |text: &str| {
            // A process that another test has forked has the source open for writing until it executes its program.
            let is_saved = wait_until(|| match write(&mount, text) {
                Err(error) if error.raw_os_error() == Some(libc::EFBIG) => false,
                result => result.map(|()| true).unwrap(),
            });
            assert!(is_saved, "{kind}: {}", place.log());
            let bytes = fs::read(&place.source).unwrap();
            assert!(bytes == model(&place.built, text, &bytes, Indexed::No), "{kind}");
            place.shows_blocks(&mount);
        };
        for name in ["x".repeat(300), "short".to_owned()] {
            saves(&place.named(&name));
        }
        let before = fs::read(&place.source).unwrap();
        let text = place.named(&"z".repeat(9000));
        let writer = File::options().append(true).open(&place.source).unwrap();
        assert_eq!(errno(write(&mount, &text)), libc::EFBIG, "{kind}");
        let told = fs::read_to_string(mount.path("tree.yaml.error")).unwrap();
        assert!(told.contains("What to do: shorten the text"), "{told}");
        assert!(told.contains("streamed: another program has it open for writing"), "{told}");
        assert!(place.kept().contains(&text));
        assert!(fs::read(&place.source).unwrap() == before);
        // A text that fits before the stream is saved while the writer has the file open.
        let fits = place.named("shorter");
        saves(&fits);
        // A child that a program has just started holds its files until exec.
        let mut child = Command::new("sleep").arg("0.1").stdin(writer).spawn().unwrap();
        for n in 1..4 {
            let inode = fs::metadata(&place.source).unwrap().ino();
            saves(&place.named(&"z".repeat(9000 * n)));
            // In the same file, a program that had looked up the end of the file would overwrite a row.
            assert_ne!(fs::metadata(&place.source).unwrap().ino(), inode, "{kind}");
        }
        child.wait().unwrap();
        place.nothing_is_beside();
        let tree = place.folder().join("tree");
        fs::write(&tree, place.named(&"y".repeat(60_000))).unwrap();
        drop(mount);
        let output = place.run([Path::new("--set-tree"), &tree, &place.source]);
        assert!(output.status.success(), "{kind}: {output:?}");
        place.is_sound();
    }
}

#[test]
fn the_tree_of_a_stream_with_two_names_does_not_grow() {
    let place = Place::with("ext4", &streamed(0));
    fs::hard_link(&place.source, place.disk.path().join("other name")).unwrap();
    let before = fs::read(&place.source).unwrap();
    let mount = place.mount();
    assert_eq!(errno(write(&mount, &place.named(&"z".repeat(9000)))), libc::EFBIG, "{}", place.log());
    let told = fs::read_to_string(mount.path("tree.yaml.error")).unwrap();
    assert!(told.contains("remove the other names"), "{told}");
    assert!(fs::read(&place.source).unwrap() == before);
}

#[test]
fn another_user_than_the_owner_grows_no_tree_of_a_stream() {
    let place = Place::with("ext4", &streamed(0));
    for folder in [place.disk.path().parent().unwrap(), &place.disk.path()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::set_permissions(&place.source, fs::Permissions::from_mode(0o666)).unwrap();
    let tree = place.disk.path().join("tree");
    fs::write(&tree, place.named(&"z".repeat(9000))).unwrap();
    let before = fs::read(&place.source).unwrap();
    let output = place.set_tree_as_nobody(&tree);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(crate::place::said(&output).contains("only the file's owner can find out"), "{output:?}");
    assert!(fs::read(&place.source).unwrap() == before);
}

/// Repeatedly opens the stream, appends a row and closes it, at random moments of the saves.
fn append(source: &Path, done: &AtomicBool, mut dice: Dice) -> usize {
    let mut appended = 0;
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(std::time::Duration::from_micros(dice.below(30_000)));
        let mut stream = File::options().append(true).open(source).unwrap();
        // Each row is one write, so that rows of several programs are not mixed.
        stream.write_all(&sample(777, 42)).unwrap();
        appended += 1;
        // Some handles stay open for a while.
        if dice.below(8) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(dice.below(5)));
            stream.write_all(&sample(777, 42)).unwrap();
            appended += 1;
        }
    }
    appended
}

#[test]
fn programs_that_open_a_stream_while_its_tree_grows_lose_nothing() {
    for kind in STREAM_KINDS {
        let place = Place::with(kind, &streamed(0));
        let mount = place.mount();
        let (done, mut saves, mut refused) = (AtomicBool::new(false), 0, 0);
        let began = std::time::Instant::now();
        let appended: usize = std::thread::scope(|scope| {
            let appending = [1, 2].map(|n| {
                let (source, done) = (&place.source, &done);
                scope.spawn(move || append(source, done, Dice(n)))
            });
            let ended = Ended(&done);
            while saves < 8 && began.elapsed() < std::time::Duration::from_secs(60) {
                let text = place.named(&"x".repeat(9000 * (saves + 1)));
                match write(&mount, &text) {
                    Ok(()) => {
                        assert_eq!(place.saved(), text, "{kind}");
                        saves += 1;
                    }
                    error => {
                        assert_eq!(errno(error), libc::EFBIG, "{kind}: {}", place.log());
                        refused += 1;
                    }
                }
            }
            drop(ended);
            appending.into_iter().map(|appending| appending.join().unwrap()).sum()
        });
        println!("{kind}: {saves} saves, {refused} refused, {appended} rows");
        assert!(saves > 0 && appended > 0, "{kind}: {saves}, {appended}: {}", place.log());
        let bytes = fs::read(&place.source).unwrap();
        let before = model(&place.built, &place.saved(), &bytes, Indexed::No);
        assert!(bytes[..before.len()] == before, "{kind}");
        assert_eq!((bytes.len() - before.len()) / 777, appended, "{kind}");
        assert!(bytes[before.len()..].chunks(777).all(|row| row == sample(777, 42)), "{kind}");
        place.nothing_is_beside();
    }
}

#[test]
fn a_live_writer_loses_nothing_while_the_tree_is_saved() {
    let place = Place::with("ext4", &streamed(3000));
    let mount = place.try_mount(&place.source, &[]).unwrap();
    let done = AtomicBool::new(false);
    // Opened before the first save, which it makes a difference for.
    let mut stream = File::options().append(true).open(&place.source).unwrap();
    let appended = std::thread::scope(|scope| {
        let appending = scope.spawn(|| {
            let mut all = Vec::new();
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_micros(500));
                let rows = sample(777, all.len() as u32);
                stream.write_all(&rows).unwrap();
                all.extend(rows);
            }
            all
        });
        let ended = Ended(&done);
        for n in 0..40 {
            let text = place.named(&"x".repeat(1 + n * 70));
            write(&mount, &text).unwrap_or_else(|error| panic!("{error}: {}", place.log()));
            assert_eq!(place.saved(), text);
            if n % 8 == 0 {
                let text = place.named(&"x".repeat(9000 + n));
                assert_eq!(errno(write(&mount, &text)), libc::EFBIG);
            }
        }
        drop(ended);
        appending.join().unwrap()
    });
    let text = place.saved();
    let bytes = fs::read(&place.source).unwrap();
    let before = model(&place.built, &text, &bytes, Indexed::No);
    assert!(bytes[..before.len()] == before);
    assert!(bytes[before.len()..] == appended);
    let wanted = [&place.built.blocks[1].data[..], &appended].concat();
    assert!(common::mount::wait_until(|| mount.block(1) == wanted));
}
