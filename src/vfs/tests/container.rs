//! Tests of a mounted file, as the only source or in a directory: its views, changes and generations.

use seekable::source::Source;

use super::*;
use crate::mounted::file::saving::SaveEnd;
use std::io::Write;
use std::sync::atomic::Ordering;

fn append(path: &Path, bytes: &str) {
    fs::File::options().append(true).open(path).unwrap().write_all(bytes.as_bytes()).unwrap();
}

fn text(value: Xattr) -> String {
    match value {
        Xattr::Ready(value) => String::from_utf8(value).unwrap(),
        Xattr::Slow(find) => String::from_utf8(find().unwrap()).unwrap(),
        Xattr::Absent => "absent".into(),
    }
}

#[test]
fn a_file_alone_is_the_root() {
    let test = Test::new();
    test.write("a.asdf", FILE);
    let tree = test.tree("a.asdf");
    assert_eq!(tree.names(""), [".asdf-mount", "blocks", "index.html", "tree.yaml"]);
    assert_eq!(tree.names("blocks"), ["0.bin", "1.bin"]);
    assert_eq!(tree.names(".asdf-mount"), ["blocks.yaml", "info.txt", "status.yaml"]);
    assert_eq!(tree.read("tree.yaml"), b"#ASDF fake\n--- x: 1\n...\n");
    assert_eq!(tree.read("blocks/0.bin"), b"hello");
    assert_eq!(tree.at("blocks/1.bin").unwrap().size, 0);
    for none in
        ["blocks/2.bin", "blocks/00.bin", "blocks/+1.bin", "blocks/1", "tree", "blocks/4294967295.bin"]
    {
        assert_eq!(tree.errno(none), libc::ENOENT, "{none}");
    }
    let link = test.path("link");
    std::os::unix::fs::symlink("a.asdf", &link).unwrap();
    assert_eq!(test.tree("link").read("blocks/0.bin"), b"hello");
}

/// A walk through many files asks for no size.
#[test]
fn a_listing_does_not_make_the_overview() {
    let test = Test::new();
    test.write("a.asdf", FILE);
    let tree = test.tree("a.asdf");
    let about = tree.open_dir(tree.at(".asdf-mount").unwrap().ino).unwrap();
    let mut listed = None;
    let mut about_end = 0;
    let mut take = |item: DirItem<'_>| {
        about_end = item.next;
        if item.name == "info.txt" {
            listed = item.attr;
        }
        false
    };
    tree.read_dir(&about, 0, true, &mut take).unwrap();
    let attr = listed.unwrap();
    assert!(about.ends_at(about_end), "the last request of a listing needs no look at the file");
    // The kernel keeps no attribute that grows, so it asks when a program does.
    assert!(attr.size == 0 && attr.grows);
    assert_eq!(tree.at(".asdf-mount/info.txt").unwrap().size, tree.read(".asdf-mount/info.txt").len() as u64);
}

#[test]
fn parts_carry_what_the_file_has() {
    let test = Test::new();
    let path = test.write("a.asdf", FILE);
    let tree = test.tree("a.asdf");
    let meta = Stat::from(rustix::fs::stat(&path).unwrap());
    let part = tree.at("blocks/0.bin").unwrap();
    assert_eq!((part.mtime, part.uid, part.size), (meta.source.mtime, meta.uid, 5));
    // The link count of these directories does not count their subdirectories.
    let dirs = [tree.at("").unwrap(), tree.at("blocks").unwrap(), tree.at(".asdf-mount").unwrap()];
    assert_eq!(dirs.map(|dir| (dir.kind, dir.nlink)), [(FileKind::Directory, 1); 3]);
    assert_eq!(tree.at("tree.yaml").unwrap().mode & 0o222, 0);
}

#[test]
fn generated_files_have_the_size_that_is_said_and_are_yaml() {
    let test = Test::new();
    test.write("a.asdf", FILE);
    let tree = test.tree("a.asdf");
    for name in [".asdf-mount/status.yaml", ".asdf-mount/blocks.yaml"] {
        assert_eq!(tree.at(name).unwrap().size, tree.read(name).len() as u64, "{name}");
        let reader = tree.open(tree.at(name).unwrap().ino).unwrap();
        assert_eq!(reader.caching(1), Caching::Direct);
    }
    let status: serde_yaml::Value = serde_yaml::from_slice(&tree.read(".asdf-mount/status.yaml")).unwrap();
    assert_eq!(status["blocks"].as_u64(), Some(2));
    assert_eq!(status["format"].as_str(), Some("fake"));
    assert_eq!(status["writable"].as_bool(), Some(false));
    let blocks: serde_yaml::Value = serde_yaml::from_slice(&tree.read(".asdf-mount/blocks.yaml")).unwrap();
    assert_eq!(blocks[1]["block"].as_u64(), Some(1));
    assert_eq!(blocks[0]["data_size"].as_u64(), Some(5));
}

#[test]
fn what_another_program_writes_in_place_is_another_generation() {
    let test = Test::new();
    let path = test.write("s/a.asdf", FILE);
    let tree = test.tree("s");
    let dir = tree.at("a.asdf/blocks").unwrap();
    let block = tree.at("a.asdf/blocks/0.bin").unwrap();
    let kept = tree.open(block.ino).unwrap();
    fs::write(&path, FILE.replace("hello", "HELLO")).unwrap();
    // Before the change is detected, and after.
    assert_eq!(tree.open(block.ino).unwrap_err().errno(), libc::ESTALE);
    wait();
    assert_eq!(tree.at("a.asdf/blocks").unwrap().ino, dir.ino);
    assert_ne!(tree.at("a.asdf/blocks/0.bin").unwrap().ino, block.ino);
    assert_eq!(tree.read("a.asdf/blocks/0.bin"), b"HELLO");
    assert_eq!(read(&kept).unwrap_err().errno(), libc::ESTALE);
    assert_eq!(kept.renew().unwrap_err().errno(), libc::ESTALE);
    let status = String::from_utf8(tree.read("a.asdf/.asdf-mount/status.yaml")).unwrap();
    assert!(status.contains("generation: 1\n"), "{status}");
}

#[test]
fn an_open_waits_for_a_save_that_began_just_before_another_program_wrote() {
    let test = Test::new();
    let path = test.write("s/a.asdf", FILE);
    let tree = test.tree("s");
    let block = tree.at("a.asdf/blocks/0.bin").unwrap();
    let Inode::View(_, mounted, _) = tree.node(block.ino).unwrap() else { panic!("not a view") };
    let saving = mounted.begin_save().unwrap();
    fs::write(&path, FILE.replace("hello", "HELLO")).unwrap();
    std::thread::scope(|scope| {
        let (sender, opened) = std::sync::mpsc::channel();
        let tree = &tree;
        scope.spawn(move || sender.send(tree.read("a.asdf/blocks/0.bin")));
        let answer = opened.recv_timeout(Duration::from_millis(100));
        assert_eq!(answer, Err(std::sync::mpsc::RecvTimeoutError::Timeout));
        saving.end(SaveEnd::Conflict).unwrap();
        assert_eq!(opened.recv().unwrap(), b"HELLO");
    });
}

#[test]
fn a_file_replaced_is_a_new_one_and_the_old_one_can_be_read_to_its_end() {
    let test = Test::new();
    let path = test.write("s/a.asdf", FILE);
    let tree = test.tree("s");
    let dir = tree.at("a.asdf").unwrap();
    let block = tree.at("a.asdf/blocks/0.bin").unwrap();
    let reader = tree.open(block.ino).unwrap();
    let new = test.write("s/new", FILE.replace("hello", "HELLO"));
    fs::rename(new, &path).unwrap();
    wait();
    assert_eq!(tree.at("a.asdf").unwrap().ino, dir.ino);
    assert_ne!(tree.at("a.asdf/blocks/0.bin").unwrap().ino, block.ino);
    assert_eq!(tree.read("a.asdf/blocks/0.bin"), b"HELLO");
    assert_eq!(read(&reader).unwrap(), b"hello");
    assert_eq!(tree.attr(block.ino).unwrap().size, 5);
    drop(reader);
    tree.open_files.clear();
    assert_eq!(tree.attr(block.ino).unwrap_err().errno(), libc::ESTALE);
}

#[test]
fn a_file_that_is_gone_has_no_names_but_its_handles_live_on() {
    let test = Test::new();
    let path = test.write("a.asdf", FILE);
    let tree = test.tree("a.asdf");
    let blocks = tree.at("blocks").unwrap();
    let reader = tree.open(tree.at("blocks/0.bin").unwrap().ino).unwrap();
    fs::remove_file(&path).unwrap();
    wait();
    assert_eq!(tree.errno("tree.yaml"), libc::ENOENT);
    assert_eq!(tree.lookup(blocks.ino, OsStr::new("0.bin")).unwrap_err().errno(), libc::ENOENT);
    assert!(tree.attr(Ino::ROOT).is_ok());
    assert_eq!(
        text(tree.xattr(Ino::ROOT, OsStr::new("user.asdf-mount.pid")).unwrap()),
        std::process::id().to_string()
    );
    assert_eq!(read(&reader).unwrap(), b"hello");
    test.write("a.asdf", FILE.replace("hello", "again"));
    assert_eq!(tree.read("blocks/0.bin"), b"again");
}

#[test]
fn a_streamed_block_grows_under_its_handle() {
    let test = Test::new();
    let path = test.write("a.asdf", "#ASDF fake\n...\nBLOCK 2\nhiSTREAM\nabc");
    let tree = test.tree("a.asdf");
    let block = tree.at("blocks/1.bin").unwrap();
    let reader = tree.open(block.ino).unwrap();
    assert_eq!(reader.caching(1), Caching::Direct);
    assert_eq!((block.size, read(&reader).unwrap()), (3, b"abc".to_vec()));
    append(&path, "def");
    wait();
    assert_eq!(tree.attr(block.ino).unwrap().size, 6);
    assert_eq!(read(&reader).unwrap(), b"abcdef");
    // A read keeps to what it saw when it began.
    let reading = reader.begin();
    append(&path, "g");
    wait();
    assert_eq!(read(&reader).unwrap(), b"abcdefg");
    assert!(reading.is_outdated() && !reader.begin().is_outdated());
    assert_eq!((reading.content().len(), reader.begin().content().len()), (6, 7));
}

#[test]
fn a_file_that_breaks_shows_why_and_heals() {
    let test = Test::new();
    let path = test.write("a.asdf", FILE);
    let tree = test.tree("a.asdf");
    let block = tree.open(tree.at("blocks/0.bin").unwrap().ino).unwrap();
    let blocks = tree.at("blocks").unwrap();
    fs::write(&path, "#ASDF fake\nBROKEN\n").unwrap();
    wait();
    assert_eq!(tree.names(""), [".asdf-mount"]);
    assert_eq!(tree.errno("blocks"), libc::EIO);
    assert_eq!(tree.errno("arrays"), libc::EIO);
    assert_eq!(tree.errno("another"), libc::ENOENT);
    // The kernel may still know the directory.
    assert_eq!(tree.lookup(blocks.ino, OsStr::new("0.bin")).unwrap_err().errno(), libc::EIO);
    let listed = tree.open_dir(blocks.ino).and_then(|dir| tree.read_dir(&dir, 0, false, &mut |_| false));
    assert_eq!(listed.unwrap_err().errno(), libc::EIO);
    assert_eq!(tree.names(".asdf-mount"), ["status.yaml"]);
    let status = String::from_utf8(tree.read(".asdf-mount/status.yaml")).unwrap();
    assert!(status.contains("is broken on purpose"), "{status}");
    assert_eq!(read(&block).unwrap_err().errno(), libc::ESTALE);
    fs::write(&path, FILE).unwrap();
    wait();
    assert_eq!(tree.read("blocks/0.bin"), b"hello");
    assert_eq!(block.renew().unwrap_err().errno(), libc::ESTALE);
}

#[test]
fn facts_are_attributes_and_the_check_is_made_once_a_generation() {
    let test = Test::new();
    let path = test.write("a.asdf", FILE);
    let tree = test.tree("a.asdf");
    let block = tree.at("blocks/0.bin").unwrap().ino;
    let get = |ino, name: &str| text(tree.xattr(ino, OsStr::new(name)).unwrap());
    assert_eq!(get(block, "user.fake.data_size"), "5");
    assert_eq!(get(block, "user.fake.offset"), FILE.find("hello").unwrap().to_string());
    assert_eq!(get(block, "user.fake.compression"), "");
    let unsupported = tree.xattr(block, OsStr::new("security.capability")).unwrap_err();
    assert_eq!(unsupported.errno(), libc::EOPNOTSUPP);
    assert_eq!(get(Ino::ROOT, "user.fake.format"), "fake");
    let names = String::from_utf8(tree.xattr_names(block).unwrap()).unwrap();
    assert_eq!(names.matches('\0').count(), 4);
    assert!(!names.contains("verified"), "{names:?}");
    let verified = || test.counts.verified.load(Ordering::Relaxed);
    assert_eq!(get(block, "user.fake.verified"), "mismatch");
    assert_eq!(get(block, "user.fake.verified"), "mismatch");
    assert_eq!(verified(), 1);
    let rows = String::from_utf8(tree.read(".asdf-mount/blocks.yaml")).unwrap();
    assert!(rows.contains("verified: mismatch") && rows.contains("verified: unknown"), "{rows}");
    append(&path, "x");
    wait();
    let block = tree.at("blocks/0.bin").unwrap().ino;
    assert_eq!(get(block, "user.fake.verified"), "mismatch");
    assert_eq!(verified(), 2);
}

#[test]
fn files_are_opened_when_looked_into_and_closed_when_others_are() {
    let test = Test::new();
    for n in 0..100 {
        test.write(format!("s/{n}.asdf"), FILE);
    }
    let tree = test.tree("s");
    let open = || {
        fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter(|fd| {
                let target = fs::read_link(fd.as_ref().unwrap().path()).unwrap_or_default();
                target.starts_with(test.path("s")) && target.extension().is_some()
            })
            .count()
    };
    assert_eq!(tree.names("").len(), 100);
    assert_eq!((open(), test.counts.opened.load(Ordering::Relaxed)), (0, 0));
    let held = tree.open(tree.at("7.asdf/blocks/0.bin").unwrap().ino).unwrap();
    for n in 0..100 {
        assert_eq!(tree.read(&format!("{n}.asdf/blocks/0.bin")), b"hello");
    }
    assert!(open() <= 65, "{}", open());
    tree.open_files.clear();
    assert_eq!(open(), 1);
    assert_eq!(read(&held).unwrap(), b"hello");
    assert_eq!(tree.read("3.asdf/blocks/0.bin"), b"hello");
}

#[test]
fn what_the_kernel_may_keep_depends_on_size_and_soundness() {
    let test = Test::new();
    let big = (2 << 20).to_string();
    let bytes = "x".repeat(2 << 20);
    // The third block claims more bytes than the file has.
    test.write("a.asdf", format!("#ASDF fake\n...\nBLOCK 3\nabcBLOCK {big}\n{bytes}BLOCK 10\nabc"));
    test.write("s/plain", "text");
    test.write("s/large", &bytes);
    test.write("s/empty", "");
    let caching = |tree: &Vfs, path: &str| tree.open(tree.at(path).unwrap().ino).unwrap().caching(1);
    let tree = test.tree("a.asdf");
    for path in ["tree.yaml", "blocks/0.bin"] {
        assert_eq!(caching(&tree, path), Caching::Keep);
    }
    assert_eq!(caching(&tree, "blocks/1.bin"), Caching::Direct);
    assert_eq!(caching(&tree, "blocks/2.bin"), Caching::Direct);
    assert_eq!(tree.read("blocks/2.bin"), b"abc");
    let tree = test.tree("s");
    assert_eq!(caching(&tree, "plain"), Caching::Keep);
    assert_eq!(caching(&tree, "large"), Caching::Direct);
    assert_eq!(caching(&tree, "empty"), Caching::Direct);
}

#[test]
fn a_source_of_nothing_is_no_source() {
    let test = Test::new();
    let path = test.write("a.asdf", FILE);
    let source = seekable::source::FileSource::open(&path).unwrap();
    assert_eq!(source.stat().unwrap().size, FILE.len() as u64);
    test.write("empty", "");
    assert!(Vfs::new(&[test.path("empty").into()], &test.options).is_err());
}

#[test]
fn a_block_of_a_file_that_was_emptied_just_now_is_not_an_empty_one() {
    let mut test = Test::new();
    let context = Context::new(Arc::new(Cache::new(0)));
    test.options.opener = Arc::new(move |source| asdf_views::format::open(source, &context));
    let sizes = [5_u64; 3].map(u64::to_be_bytes).concat();
    let header = [b"\xd3BLK\0\x30\0\0\0\0\0\0\0\0", &sizes[..], &[0; 16], b"hello"].concat();
    let path = test.write("a.asdf", [b"#ASDF 1.0.0\n...\n", &header[..]].concat());
    let tree = test.tree("a.asdf");
    wait();
    let block = tree.at("blocks/0.bin").unwrap();
    assert_eq!((block.size, tree.read("blocks/0.bin")), (5, b"hello".to_vec()));
    fs::write(&path, "").unwrap();
    // Before the change is detected, and after.
    assert!(tree.open(block.ino).is_err());
    assert!(tree.attr(block.ino).is_ok_and(|attr| attr.size == 5));
    wait();
    assert!(tree.attr(block.ino).is_ok_and(|attr| attr.size == 5));
    assert_eq!(tree.errno("blocks"), libc::EIO);
}

/// A kernel that records which nodes it is asked to drop.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<Ino>>>);

impl Kernel for Asked {
    fn keep(&self, _: Ino, _: u64, _: &[u8]) {}
    fn forget(&self, _: Ino) {}
    fn renew_attributes(&self, _: Ino) {}
    fn renew_names(&self) -> Result<()> {
        Ok(())
    }
    fn give_back(&self, inos: &[Ino]) -> Result<()> {
        locked(&*self.0).extend(inos);
        if inos.is_empty() { Err(errno(libc::EINVAL)) } else { Ok(()) }
    }
}

#[test]
fn the_kernel_is_asked_for_older_nodes_when_it_knows_many() {
    const MANY: usize = 40_000;
    let test = Test::new();
    test.write("a.asdf", format!("#ASDF fake\n...\n{}", "BLOCK 0\n".repeat(MANY)));
    let tree = test.tree("a.asdf");
    let asked = Asked::default();
    tree.serve(asked.clone());
    let blocks = tree.at("blocks").unwrap().ino;
    let first = tree.lookup(blocks, OsStr::new("0.bin")).unwrap().ino;
    for n in 1..MANY {
        tree.lookup(blocks, OsStr::new(&format!("{n}.bin"))).unwrap();
    }
    let given = loop {
        match locked(&*asked.0).clone() {
            none if none.is_empty() => sleep(Duration::from_millis(1)),
            given => break given,
        }
    };
    assert!(given.contains(&first));
    // The entries of a directory come before the directory, and so does its `tree.yaml`.
    assert!(given.is_sorted_by(|one, other| one > other));
    let known = tree.known.len();
    let nodes: Vec<_> = given.iter().filter(|ino| Ino::of(ino.serial()) == **ino).collect();
    assert!(nodes.iter().all(|ino| given.contains(&Ino::of_tree_in(ino.serial()))));
    assert!(nodes.contains(&&blocks) && !nodes.contains(&&Ino::ROOT));
    for ino in nodes.iter().filter(|ino| ***ino != blocks) {
        tree.forget(**ino, 1);
    }
    assert!(tree.known.len() <= known - nodes.len() + 1);
}
