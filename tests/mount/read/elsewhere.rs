//! Sources elsewhere, on a real mount: files of all formats on a server in memory.

#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{sleep, spawn};
use std::time::Duration;

use asdf_access::named::Named;
use asdf_file::container::Context;
use asdf_mount::vfs::{Options, Vfs};
use seekable::cache::Cache;

use crate::adapter::{self, Mount};
use common::case::errno;
use common::names;
use common::place::FakeServer;

const PROJECT: &str = env!("CARGO_MANIFEST_DIR");

/// Files of all formats with stored and compressed blocks, and others.
const FILES: [(&str, &str); 9] = [
    ("sample.asdf", "examples/sample.asdf"),
    ("run.gsd", "examples/trajectory.gsd"),
    ("README.md", "README.md"),
    ("none.asdf", "tests/fixtures/asdf/none.asdf"),
    ("sub/zlib.asdf", "tests/fixtures/asdf/zlib.asdf"),
    ("sub/bzp2.asdf", "tests/fixtures/asdf/bzp2.asdf"),
    ("sub/deep/zstd.asdf", "tests/fixtures/asdf/zstd.asdf"),
    ("sub/deep/streamed.asdf", "tests/fixtures/asdf/streamed.asdf"),
    ("sub/deep/data.blp", "tests/fixtures/bloscpack/bcolz1.2.1_f8__0.blp"),
];

fn mount(sources: &[Named]) -> (tempfile::TempDir, Mount) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::new(Context::new(Arc::new(Cache::new(1 << 24))));
    options.mountpoint = Some(dir.path().to_owned());
    let mount = Mount::of(Vfs::new(sources, &options).unwrap(), dir.path());
    (dir, mount)
}

/// Makes a server and a local directory with the same files.
fn server_and_dir() -> (Arc<FakeServer>, tempfile::TempDir) {
    let (server, dir) = (FakeServer::new("server"), tempfile::tempdir().unwrap());
    for (name, original) in FILES {
        let path = dir.path().join("s").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(Path::new(PROJECT).join(original), path).unwrap();
    }
    server.put_dir(Path::new(""), dir.path());
    (server, dir)
}

/// Returns everything below a directory, without the files that name the source.
fn contents(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let read = |path: &Path| fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut contents = adapter::contents(top, read);
    contents.retain(|path, _| !path.ends_with(".asdf-mount/status.yaml") && !path.ends_with("refs.json"));
    contents
}

/// Waits until a change of a source is seen, and names are looked up again.
fn wait() {
    sleep(Duration::from_millis(800));
}

#[test]
fn files_elsewhere_are_read_like_local_ones() {
    let (server, dir) = server_and_dir();
    for name in ["", "sample.asdf", "run.gsd", "sub/deep/data.blp"] {
        let name = Path::new("s").join(name);
        let local = mount(&[Named::Local(dir.path().join(&name))]);
        let elsewhere = mount(&[Named::Elsewhere(server.place(&name))]);
        let (expected, found) = (contents(local.0.path()), contents(elsewhere.0.path()));
        assert!(found.keys().eq(expected.keys()), "{found:?}");
        for (path, bytes) in expected {
            assert!(found[&path] == bytes, "{}: {}", name.display(), path.display());
        }
    }
}

#[test]
fn a_mount_of_both_kinds_is_read_only() {
    let (server, dir) = server_and_dir();
    let local = dir.path().join("s/sub");
    let sources = [
        Named::Elsewhere(server.place("s/sample.asdf")),
        Named::Local(local),
        Named::Elsewhere(server.place("s/sub/deep")),
    ];
    let (_dir, mount) = mount(&sources);
    assert_eq!(names(&mount.at), ["deep", "sample.asdf", "sub"]);
    assert!(fs::read(mount.path("sample.asdf/arrays/image.npy")).unwrap().starts_with(b"\x93NUMPY"));
    assert_eq!(contents(&mount.path("deep")), contents(&mount.path("sub/deep")));
    for path in ["sample.asdf/tree.yaml", "sample.asdf/new", "deep/new", "sample.asdf/blocks/0.bin", "new"] {
        assert_eq!(
            errno(File::options().create(true).append(true).open(mount.path(path))),
            libc::EROFS,
            "{path}"
        );
    }
    assert_eq!(errno(fs::remove_file(mount.path("deep/data.blp/data.bin"))), libc::EROFS);
    for none in ["none", "deep/none", "sample.asdf/none", "sample.asdf/blocks/9.bin"] {
        assert_eq!(errno(mount.path(none).metadata()), libc::ENOENT, "{none}");
    }
    let space = rustix::fs::statvfs(&mount.at).unwrap();
    assert_eq!((space.f_blocks, space.f_namemax), (0, 255));
}

#[test]
fn an_open_file_of_an_older_version_is_stale() {
    let (server, _dir) = server_and_dir();
    let (_dir, mount) = mount(&[Named::Elsewhere(server.place("s"))]);
    let (plain, block) = (mount.path("README.md"), mount.path("none.asdf/blocks/0.bin"));
    let open = |path: &Path| {
        let file = File::open(path).unwrap();
        let inode = file.metadata().unwrap().ino();
        (file, inode)
    };
    let ((old_plain, plain_ino), (old_block, block_ino)) = (open(&plain), open(&block));
    let bytes = fs::read(&block).unwrap();
    let sizes = [&old_plain, &old_block].map(|file| file.metadata().unwrap().len());
    let text = [b"long ".repeat(1 << 19), b"text".to_vec()].concat();
    server.put("s/README.md", text.clone());
    let mut changed = fs::read(Path::new(PROJECT).join("tests/fixtures/asdf/none.asdf")).unwrap();
    let at = changed.windows(bytes.len()).position(|window| window == bytes).unwrap();
    changed[at] ^= 1;
    server.put("s/none.asdf", changed);
    wait();
    let (new_plain, new_block) = (open(&plain), open(&block));
    assert!(new_plain.1 != plain_ino && new_block.1 != block_ino);
    let read = |mut file: File| {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    };
    assert!(read(new_plain.0) == text);
    let new_bytes = read(new_block.0);
    assert_eq!(new_bytes[0], bytes[0] ^ 1);
    assert!(new_bytes[1..] == bytes[1..]);
    // The kernel's cache may have the first pages of the old file.
    assert_eq!(errno(old_plain.read_at(&mut [0; 10], 4096)), libc::ESTALE);
    assert_eq!([&old_plain, &old_block].map(|file| file.metadata().unwrap().len()), sizes);
    server.remove("s/README.md");
    wait();
    assert_eq!(errno(File::open(&plain)), libc::ENOENT);
    assert_eq!(old_plain.metadata().unwrap().len(), sizes[0]);
}

#[test]
fn a_server_that_fails_is_told_from_a_missing_file() {
    let (server, _dir) = server_and_dir();
    let (_dir, mount) = mount(&[Named::Elsewhere(server.place("s"))]);
    let plain = File::open(mount.path("README.md")).unwrap();
    for errno_of_server in [libc::EIO, libc::EACCES] {
        for path in ["s", "s/sample.asdf", "s/README.md"] {
            server.fail(path, Some(errno_of_server));
        }
        wait();
        assert_eq!(errno(fs::read_dir(&mount.at).and_then(|mut dir| dir.next().unwrap())), errno_of_server);
        assert_eq!(errno(mount.path("sample.asdf").metadata()), errno_of_server);
        assert_eq!(errno(plain.read_at(&mut [0; 10], 0)), errno_of_server);
        for path in ["s", "s/sample.asdf", "s/README.md"] {
            server.fail(path, None);
        }
    }
    assert!(plain.read_at(&mut [0; 10], 0).is_ok());
    assert!(names(&mount.at).contains(&"sample.asdf".to_owned()));
}

#[test]
fn a_server_that_does_not_answer_holds_up_no_other_source() {
    let (server, dir) = server_and_dir();
    let other = FakeServer::new("other");
    other.put("o.asdf", fs::read(dir.path().join("s/sample.asdf")).unwrap());
    let local = Named::Local(dir.path().join("s"));
    let sources = [local, Named::Elsewhere(server.place("s/sub")), Named::Elsewhere(other.place("o.asdf"))];
    let (_dir, mount) = mount(&sources);
    let plain = File::open(mount.path("sub/deep/data.blp/data.bin")).unwrap();
    server.stop(true);
    let paths =
        ["sub", "sub/zlib.asdf", "sub/deep/zstd.asdf/blocks/0.bin", "sub/none"].map(|path| mount.path(path));
    let mut waiting: Vec<_> = paths.into_iter().map(|path| spawn(move || drop(path.metadata()))).collect();
    waiting.push(spawn(move || drop(plain.read_at(&mut [0; 100], 0))));
    let mut tries = 0;
    while !server.has_waited() {
        tries += 1;
        assert!(tries < 500, "no request reaches the server");
        sleep(Duration::from_millis(10));
    }
    let image = |path: &str| fs::read(mount.path(path)).unwrap();
    assert!(image("s/sample.asdf/arrays/image.npy") == image("o.asdf/arrays/image.npy"));
    assert!(names(&mount.path("s")).contains(&"sub".to_owned()));
    assert!(waiting.iter().any(|thread| !thread.is_finished()));
    server.stop(false);
    for thread in waiting {
        thread.join().unwrap();
    }
}
