//! Arrays in other files: `source: other.asdf` and `$ref: other.asdf#/path`.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::asdf::{AsdfBuilder, Block};
use common::encode::Encoding;
use common::mount::{Mounted, fresh_folder};

/// Returns the node of an array of eight bytes in another file.
pub(crate) fn node(source: &str) -> String {
    format!("!core/ndarray-1.1.0 {{source: '{source}', datatype: uint8, byteorder: little, shape: [8]}}")
}

pub(crate) fn tree(nodes: &[(&str, String)]) -> AsdfBuilder {
    let nodes: String = nodes.iter().map(|(key, node)| format!("{key}: {node}\n")).collect();
    let text = format!("%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n{nodes}...\n");
    AsdfBuilder::new().tree(text)
}

pub(crate) fn save_other(folder: &Path, name: &str, data: &[u8; 8]) {
    let own = node("x").replace("'x'", "0");
    tree(&[("own", own)]).block(Block::new(data.to_vec())).build().save(folder, name);
}

pub(crate) fn data(mounted: &Mounted, name: &str) -> std::io::Result<Vec<u8>> {
    let mut file = fs::read(mounted.path(format!("arrays/{name}.npy")))?;
    Ok(file.split_off(128))
}

pub(crate) fn status(mounted: &Mounted) -> String {
    fs::read_to_string(mounted.path(".asdf-mount/status.yaml")).unwrap()
}

#[test]
fn references_into_other_files_are_followed() {
    let folder = fresh_folder();
    let own = node("x").replace("'x'", "0");
    let nodes = [
        ("a", own.clone()),
        ("list", format!("[{own}, {{deep: {own}}}]")),
        ("alias", "&x 1".to_owned()),
        ("again", "{$ref: '#/list/1'}".to_owned()),
        ("back", "{$ref: 'main.asdf#/loop'}".to_owned()),
        ("far", node("third.asdf")),
    ];
    tree(&nodes).block(Block::new(b"01234567".to_vec())).build().save(folder.path(), "other.asdf");
    save_other(folder.path(), "third.asdf", b"3333test");
    let reference = |uri: &str| format!("{{$ref: '{uri}'}}");
    let nodes = [
        ("array", reference("other.asdf#/a")),
        ("list", reference("other.asdf#list")),
        ("again", reference("other.asdf#/again/deep")),
        ("far", reference("other.asdf#/far")),
        ("loop", reference("other.asdf#/back")),
        ("myself", reference("main.asdf#/myself")),
        ("nothing", reference("other.asdf#/alias")),
        ("missing", reference("missing.asdf#/a")),
    ];
    let source = tree(&nodes).build().save(folder.path(), "main.asdf");
    let mounted = super::SOURCES.file(&source);
    for name in ["array", "list/0", "list/1/deep", "again"] {
        assert_eq!(data(&mounted, name).unwrap(), b"01234567", "{name}");
    }
    assert_eq!(data(&mounted, "far").unwrap(), b"3333test");
    for name in ["loop", "myself", "missing"] {
        assert_eq!(data(&mounted, name).unwrap_err().raw_os_error(), Some(libc::EIO), "{name}");
    }
    let told = status(&mounted);
    for reason in [
        "line 10: loop can't be read: the chain of references is too long or circular",
        "line 12: arrays/ leaves out nothing: \"other.asdf#/alias\" does not refer to an array",
        "line 13: missing can't be read: the file \"missing.asdf\"",
    ] {
        let told = told.replace("''", "'");
        assert!(told.contains(reason), "{reason}\n{told}");
    }
    mounted.unmount();
}

#[test]
fn what_is_open_never_mixes_two_versions_of_the_other_file() {
    let folder = fresh_folder();
    save_other(folder.path(), "other.asdf", b"01234567");
    let source = tree(&[("a", node("other.asdf"))]).build().save(folder.path(), "main.asdf");
    let mounted = super::SOURCES.file(&source);
    assert_eq!(data(&mounted, "a").unwrap(), b"01234567");
    let replaced = File::open(mounted.path("arrays/a.npy")).unwrap();
    // A rename replaces `other.asdf`.
    save_other(folder.path(), "new.asdf", b"replaced");
    fs::rename(folder.path().join("new.asdf"), folder.path().join("other.asdf")).unwrap();
    assert!(shows(&mounted, b"replaced"), "what is opened now is new");
    drop(replaced);
    // A program overwrites `other.asdf` in place.
    let changed = File::open(mounted.path("arrays/a.npy")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    let other = File::options().write(true).open(folder.path().join("other.asdf")).unwrap();
    let len = other.metadata().unwrap().len();
    other.write_all_at(b"modified", len - 8 - index_len(&folder.path().join("other.asdf"))).unwrap();
    let mut buf = Vec::new();
    match (&changed).read_to_end(&mut buf) {
        Ok(_) => assert!(buf.ends_with(b"replaced"), "{:?}", &buf[128..]),
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESTALE)),
    }
    drop(changed);
    assert!(shows(&mounted, b"modified"));
    fs::remove_file(folder.path().join("other.asdf")).unwrap();
    assert!(
        super::SOURCES
            .soon(|| data(&mounted, "a").is_err_and(|error| error.raw_os_error() == Some(libc::EIO)))
    );
    mounted.unmount();
}

/// True if the array `a` has these bytes now; on a server, soon.
fn shows(mounted: &Mounted, bytes: &[u8]) -> bool {
    super::SOURCES.soon(|| data(mounted, "a").is_ok_and(|data| data == bytes))
}

/// Returns the length of the block index at the end of a file.
fn index_len(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    let at = bytes.windows(12).position(|window| window == b"#ASDF BLOCK ");
    at.map_or(0, |at| (bytes.len() - at) as u64)
}

#[test]
fn a_file_without_a_block_makes_imploded_an_error_with_its_reason() {
    let folder = fresh_folder();
    tree(&[("own", "1".to_owned())]).build().save(folder.path(), "empty.asdf");
    let source = tree(&[("lost", node("empty.asdf"))]).build().save(folder.path(), "main.asdf");
    let mounted = super::SOURCES.file(&source);
    assert!(mounted.path("imploded.asdf").metadata().is_ok());
    let error = fs::read(mounted.path("imploded.asdf")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    let told = status(&mounted);
    assert!(told.contains("it has no block"), "{told}");
    mounted.unmount();
}

/// A change of `other.asdf` in a directory; the bytes are the new version.
type Change = fn(&Path, &[u8]);

/// An open array in another file gives all of its data, or fails; it never ends early.
#[test]
fn an_array_in_a_changed_file_never_ends_early() {
    const LEN: usize = 3 << 20;
    let other = |byte: u8, len: usize, is_packed: bool| {
        let own = "!core/ndarray-1.1.0 {source: 0, datatype: uint8, byteorder: little, shape: [3145728]}";
        let mut data = Vec::new();
        for n in 0..len.div_ceil(1000) {
            data.resize(len.min(data.len() + 1000), n as u8 ^ byte);
        }
        let block = Block::new(data);
        let block = if is_packed { block.encoding(Encoding::Zlib) } else { block };
        tree(&[("own", own.to_owned())]).block(block).build().bytes
    };
    let at = |folder: &Path| folder.join("other.asdf");
    let changes: [(&str, Change); 6] = [
        ("deleted", |folder, _| fs::remove_file(folder.join("other.asdf")).unwrap()),
        ("moved", |folder, _| fs::rename(folder.join("other.asdf"), folder.join("moved.asdf")).unwrap()),
        ("truncated", |folder, _| {
            let file = File::options().write(true).open(folder.join("other.asdf")).unwrap();
            file.set_len(20_000).unwrap();
        }),
        ("emptied", |folder, _| fs::write(folder.join("other.asdf"), "").unwrap()),
        ("written anew", |folder, new| fs::write(folder.join("other.asdf"), new).unwrap()),
        ("replaced", |folder, new| {
            fs::write(folder.join("new.asdf"), new).unwrap();
            fs::rename(folder.join("new.asdf"), folder.join("other.asdf")).unwrap();
        }),
    ];
    let node =
        "!core/ndarray-1.1.0 {source: other.asdf, datatype: uint8, byteorder: little, shape: [3145728]}";
    for is_packed in [false, true] {
        let old = other(0, LEN, is_packed);
        for new_len in [LEN, LEN / 2] {
            let new = other(1, new_len, is_packed);
            for (what, change) in changes {
                let folder = fresh_folder();
                fs::write(at(folder.path()), &old).unwrap();
                let source = tree(&[("a", node.to_owned())]).build().save(folder.path(), "main.asdf");
                let mounted = super::SOURCES.file(&source);
                for name in ["arrays/a.npy", "fits/a.fits"] {
                    fs::write(at(folder.path()), &old).unwrap();
                    // Over http, the mount may know the version before for a moment. FITS has zeros after the last element.
                    let mut whole = Vec::new();
                    let is_read = super::SOURCES.soon(|| {
                        whole = fs::read(mounted.path(name)).unwrap_or_default();
                        whole.iter().rev().find(|byte| **byte != 0) == Some(&(((LEN - 1) / 1000) as u8))
                    });
                    assert!(is_read, "{what}, {new_len}, {name}");
                    let handle = File::open(mounted.path(name)).unwrap();
                    let mut first = vec![0; 100_000];
                    handle.read_exact_at(&mut first, 0).unwrap();
                    change(folder.path(), &new);
                    let mut read = Vec::new();
                    match (&handle).read_to_end(&mut read) {
                        Ok(_) => assert!(read == whole, "{what}, {new_len}, {name}: {}", read.len()),
                        Err(error) => {
                            let errno = error.raw_os_error();
                            let is_told = [libc::ESTALE, libc::EIO].map(Some).contains(&errno);
                            assert!(is_told, "{what}, {name}: {error}");
                            assert!(whole.starts_with(&read), "{what}, {new_len}, {name}: other bytes");
                        }
                    }
                    match fs::read(mounted.path(name)) {
                        Ok(read) => assert_eq!(read.len(), whole.len(), "{what}, {new_len}, {name}"),
                        Err(error) => assert_ne!(error.raw_os_error(), Some(libc::EINVAL), "{error}"),
                    }
                }
                mounted.unmount();
            }
        }
    }
}
