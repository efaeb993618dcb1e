//! Tests of sources elsewhere: files of the fake format on a server in memory.

use asdf_access::named::Named;
use common::place::{FakeServer, MTIME};

use super::*;

/// Returns the tree of a file or directory of a server.
fn tree(test: &Test, server: &Arc<FakeServer>, path: &str) -> Vfs {
    Vfs::new(&[Named::Elsewhere(server.place(path))], &test.options).unwrap()
}

fn server() -> Arc<FakeServer> {
    let server = FakeServer::new("server");
    server.put("s/a.asdf", FILE.as_bytes());
    server.put("s/plain", "text".as_bytes());
    server.put("s/sub/deep/b.asdf", FILE.as_bytes());
    server
}

fn refused(test: &Test, server: &Arc<FakeServer>, path: &str) -> seekable::Error {
    Vfs::new(&[Named::Elsewhere(server.place(path))], &test.options).unwrap_err()
}

#[test]
fn a_file_elsewhere_is_the_root() {
    let test = Test::new();
    let server = server();
    let tree = tree(&test, &server, "s/a.asdf");
    assert_eq!(tree.names(""), [".asdf-mount", "blocks", "index.html", "tree.yaml"]);
    assert_eq!(tree.read("blocks/0.bin"), b"hello");
    assert_eq!(tree.at("blocks/1.bin").unwrap().size, 0);
    assert_eq!((tree.errno("blocks/2.bin"), tree.errno("none")), (libc::ENOENT, libc::ENOENT));
    assert!(
        String::from_utf8(tree.read(".asdf-mount/status.yaml")).unwrap().contains("fake://server/s/a.asdf")
    );
    assert_eq!(tree.at("blocks/0.bin").unwrap().mtime, MTIME);
    assert_eq!(tree.space().unwrap().name_max, 255);
    // The root remains after its file is gone.
    server.remove("s/a.asdf");
    wait();
    assert_eq!(tree.errno("tree.yaml"), libc::ENOENT);
    assert_eq!(tree.attr(Ino::ROOT).unwrap().kind, FileKind::Directory);
    server.put("s/a.asdf", FILE.replace("hello", "again").into_bytes());
    assert_eq!(tree.read("blocks/0.bin"), b"again");
}

#[test]
fn a_directory_elsewhere_is_mirrored() {
    let test = Test::new();
    let server = server();
    let tree = tree(&test, &server, "s");
    assert_eq!(tree.names(""), ["a.asdf", "plain", "sub"]);
    assert_eq!(tree.names("sub/deep/b.asdf/blocks"), ["0.bin", "1.bin"]);
    assert_eq!((tree.read("plain"), tree.read("a.asdf/blocks/0.bin")), (b"text".to_vec(), b"hello".to_vec()));
    let kinds = ["a.asdf", "plain", "sub"].map(|name| tree.at(name).unwrap().kind);
    assert_eq!(kinds, [FileKind::Directory, FileKind::File, FileKind::Directory]);
    for none in ["none", "sub/none", "sub/deep/none", "sub/deep/b.asdf/none"] {
        assert_eq!(tree.errno(none), libc::ENOENT, "{none}");
    }
    assert_eq!(tree.errno("plain/none"), libc::ENOTDIR);
    // Inode numbers stay while nothing changes, and listings have the types of the entries.
    let before = tree.at("sub/deep").unwrap();
    assert_eq!(tree.at("sub/deep").unwrap(), before);
    for attrs in [false, true] {
        let mut kinds = Vec::new();
        let mut take = |item: DirItem<'_>| {
            kinds.push((item.name.to_string_lossy().into_owned(), item.kind));
            false
        };
        tree.read_dir(&tree.open_dir(Ino::ROOT).unwrap(), 2, attrs, &mut take).unwrap();
        let sure = [("a.asdf", FileKind::Directory), ("plain", FileKind::File), ("sub", FileKind::Directory)];
        assert_eq!(kinds, sure.map(|(name, kind)| (name.to_owned(), kind)));
    }
    server.put("s/new", "new".as_bytes());
    server.remove("s/sub/deep/b.asdf");
    assert_eq!(tree.names(""), ["a.asdf", "new", "plain"]);
    assert_eq!(tree.errno("sub"), libc::ENOENT);
    assert_eq!(tree.attr(before.ino).unwrap_err().errno(), libc::ENOENT);
}

#[test]
fn sources_of_both_kinds_stand_side_by_side() {
    let test = Test::new();
    let server = server();
    let local = test.write("local.asdf", FILE.replace("hello", "local"));
    let sources = [
        Named::Elsewhere(server.place("s/a.asdf")),
        Named::Local(local),
        Named::Elsewhere(server.place("s/sub")),
    ];
    let tree = Vfs::new(&sources, &test.options).unwrap();
    assert_eq!(tree.names(""), ["a.asdf", "local.asdf", "sub"]);
    assert_eq!(tree.read("a.asdf/blocks/0.bin"), b"hello");
    assert_eq!(tree.read("local.asdf/blocks/0.bin"), b"local");
    assert_eq!(tree.names("sub/deep"), ["b.asdf"]);
}

#[test]
fn a_writable_mount_writes_to_no_file_elsewhere() {
    let mut test = Test::new();
    let server = server();
    let context = Context::new(Arc::new(Cache::new(0)));
    test.options.opener = Arc::new(move |source| asdf_views::format::open(source, &context));
    let sample = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/sample.asdf")).unwrap();
    server.put("a.asdf", sample.clone());
    let sources = [Named::Local(test.write("local.asdf", sample)), Named::Elsewhere(server.place("a.asdf"))];
    let writable = |sources: &[Named]| {
        let tree = Vfs::new(sources, &test.options).unwrap();
        let serials = tree.serials.clone();
        let open_files = tree.open_files.clone();
        let quota = Arc::new(crate::overlay::file::Quota::new(8));
        let shared = SharedByOverlays { state_dir: None, quota, edits: Arc::default(), serials, open_files };
        Vfs { shared: Some(Arc::new(shared)), ..tree }
    };
    let tree = writable(&sources);
    let written = |name: &str| {
        let ino = tree.at(name).unwrap().ino;
        (tree.can_be_written(ino).unwrap(), tree.check_access(ino, 0, 0, 2).map_err(|error| error.errno()))
    };
    for name in ["local.asdf", "local.asdf/tree.yaml"] {
        assert_eq!(written(name), (true, Ok(())), "{name}");
    }
    for name in ["a.asdf", "a.asdf/tree.yaml", "a.asdf/blocks/0.bin"] {
        assert_eq!(written(name), (false, Err(libc::EROFS)), "{name}");
    }
    let mut alone = writable(&sources[1..]);
    alone.restrict(&[], true).unwrap();
    assert!(alone.is_read_only());
    assert_eq!(alone.remarks(), ["fake://server/a.asdf: can't be written: the mount is read-only"]);
}

#[test]
fn another_version_of_a_plain_file_is_another_file() {
    let test = Test::new();
    let server = server();
    let tree = tree(&test, &server, "s");
    let old = tree.at("plain").unwrap();
    let reader = tree.open(old.ino).unwrap();
    assert_eq!(read(&reader).unwrap(), b"text");
    server.put("s/plain", "longer".as_bytes());
    let new = tree.at("plain").unwrap();
    assert_ne!(new.ino, old.ino);
    assert_eq!((new.size, tree.read("plain")), (6, b"longer".to_vec()));
    assert_eq!(read(&reader).unwrap_err().errno(), libc::ESTALE);
    assert_eq!(tree.open(old.ino).unwrap_err().errno(), libc::ESTALE);
    assert_eq!(tree.attr(old.ino).unwrap().size, 4);
    server.remove("s/plain");
    assert_eq!(tree.attr(old.ino).unwrap().size, 4);
    assert_eq!(tree.errno("plain"), libc::ENOENT);
    drop(reader);
    assert!(tree.attr(old.ino).is_err());
    // A change of the type behind the name is noticed, too.
    server.put("s/plain", FILE.as_bytes());
    assert_eq!(tree.read("plain/blocks/0.bin"), b"hello");
}

#[test]
fn another_version_of_a_mounted_file_is_another_generation() {
    let test = Test::new();
    let server = server();
    let tree = tree(&test, &server, "s");
    let dir = tree.at("a.asdf").unwrap();
    let block = tree.at("a.asdf/blocks/0.bin").unwrap();
    let reader = tree.open(block.ino).unwrap();
    assert_eq!(read(&reader).unwrap(), b"hello");
    server.put("s/a.asdf", FILE.replace("hello", "HELLO").into_bytes());
    assert_eq!(read(&reader).unwrap_err().errno(), libc::ESTALE);
    wait();
    assert_eq!(tree.open(block.ino).unwrap_err().errno(), libc::ESTALE);
    assert_eq!(tree.at("a.asdf").unwrap().ino, dir.ino);
    assert_ne!(tree.at("a.asdf/blocks/0.bin").unwrap().ino, block.ino);
    assert_eq!(tree.read("a.asdf/blocks/0.bin"), b"HELLO");
    assert_eq!(read(&reader).unwrap_err().errno(), libc::ESTALE);
    assert_eq!(reader.renew().unwrap_err().errno(), libc::ESTALE);
    assert_eq!(tree.attr(block.ino).unwrap().size, 5);
    let status = String::from_utf8(tree.read("a.asdf/.asdf-mount/status.yaml")).unwrap();
    assert!(status.contains("generation: 1\n"), "{status}");
    // A damaged version fails with EIO; once it is repaired, it can be read again.
    server.put("s/a.asdf", "#ASDF fake\nBROKEN\n".as_bytes());
    wait();
    assert_eq!(tree.errno("a.asdf/blocks"), libc::EIO);
    server.put("s/a.asdf", FILE.as_bytes());
    wait();
    assert_eq!(tree.read("a.asdf/blocks/0.bin"), b"hello");
}

#[test]
fn errors_of_a_server_reach_the_program() {
    let test = Test::new();
    let server = server();
    for errno in [libc::EIO, libc::EACCES, libc::ETIMEDOUT] {
        server.fail("s/a.asdf", Some(errno));
        let why = refused(&test, &server, "s/a.asdf");
        assert_eq!(why.errno(), errno);
        assert_eq!(why.to_string(), format!("fake://server/s/a.asdf: the server says {errno}"));
    }
    server.fail("s/a.asdf", None);
    let why = refused(&test, &server, "s/none").to_string();
    assert_eq!(why, "fake://server/s/none: the server has no such directory");
    let why = refused(&test, &server, "s/plain").to_string();
    assert_eq!(why, "fake://server/s/plain: is not a fake file");

    let tree = tree(&test, &server, "s");
    let block = tree.open(tree.at("a.asdf/blocks/0.bin").unwrap().ino).unwrap();
    for errno in [libc::EIO, libc::EACCES, libc::ETIMEDOUT] {
        server.fail("s/a.asdf", Some(errno));
        wait();
        assert_eq!(read(&block).unwrap_err().errno(), errno);
        assert_eq!(tree.errno("a.asdf"), errno);
        server.fail("s/sub", Some(errno));
        assert_eq!(tree.errno("sub"), errno);
        server.fail("s", Some(errno));
        assert_eq!(tree.open_dir(Ino::ROOT).unwrap_err().errno(), errno);
        assert_eq!(tree.attr(Ino::ROOT).unwrap_err().errno(), errno);
        for path in &["s", "s/sub", "s/a.asdf"] {
            server.fail(path, None);
        }
        assert_eq!(read(&block).unwrap(), b"hello");
    }
    assert_eq!(tree.read("a.asdf/blocks/0.bin"), b"hello");
}

#[test]
fn a_listing_omits_what_is_gone_or_private_and_fails_with_the_server() {
    let test = Test::new();
    let server = server();
    let tree = tree(&test, &server, "s");
    let listed = |attrs| {
        let listing = tree.open_dir(Ino::ROOT).unwrap();
        let mut names = Vec::new();
        let mut take = |item: DirItem<'_>| {
            names.push(item.name.to_string_lossy().into_owned());
            false
        };
        let done = tree.read_dir(&listing, 2, attrs, &mut take);
        done.map(|()| names).map_err(|error| error.errno())
    };
    for attrs in [false, true] {
        server.fail("s/a.asdf", Some(libc::EACCES));
        assert_eq!(listed(attrs).unwrap(), ["plain", "sub"]);
        server.fail("s/a.asdf", Some(libc::EIO));
        assert_eq!(listed(attrs), Err(libc::EIO));
        server.fail("s/a.asdf", None);
        // The entries before the failing one are returned; the next call fails.
        server.fail("s/plain", Some(libc::EIO));
        assert_eq!(listed(attrs).unwrap(), ["a.asdf"]);
        server.fail("s/plain", None);
        assert_eq!(listed(attrs).unwrap(), ["a.asdf", "plain", "sub"]);
    }
}

#[test]
fn requests_about_a_server_get_threads_of_their_own() {
    let test = Test::new();
    let server = server();
    let other = FakeServer::new("other");
    other.put("o.asdf", FILE.as_bytes());
    let local = test.write("local.asdf", FILE);
    let sources =
        [Named::Local(local), Named::Elsewhere(server.place("s")), Named::Elsewhere(other.place("o.asdf"))];
    let tree = Vfs::new(&sources, &test.options).unwrap();
    let block = tree.at("s/a.asdf/blocks/0.bin").unwrap().ino;
    let [dir, plain] = ["s", "s/plain"].map(|name| tree.at(name).unwrap().ino);
    // `delay` asks no server: from here on, this one does not answer.
    server.stop(true);
    let stalling = |ino, asked| tree.delay(ino, asked).and_then(|delay| delay.stalling);
    let own = stalling(Ino::ROOT, Asked::Name(OsStr::new("s"))).unwrap();
    for ino in [dir, plain, block] {
        for asked in
            [Asked::Itself, Asked::Name(OsStr::new("x")), Asked::Opening, Asked::Listing, Asked::Derived]
        {
            assert_eq!(stalling(ino, asked), Some(own));
        }
        assert_eq!(tree.stalling(ino), Some(own));
    }
    let names = ["x", "y"].map(|name| tree.delay(dir, Asked::Name(OsStr::new(name))).unwrap().file);
    assert_ne!(names[0], names[1]);
    let others = stalling(Ino::ROOT, Asked::Name(OsStr::new("o.asdf")));
    assert!(others.is_some() && others != Some(own));
    assert_eq!(stalling(Ino::ROOT, Asked::Name(OsStr::new("local.asdf"))), None);
    assert_eq!(tree.read("local.asdf/blocks/0.bin"), b"hello");
    assert!(!server.has_waited());
    server.stop(false);
}
