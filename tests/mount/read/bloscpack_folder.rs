//! Mounted Bloscpack files: data, arrays and chunks as programs see them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use common::bloscpack_builder::Pack;
use common::mount::{fresh_folder, program};
use common::python;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bloscpack").join(name)
}

/// Returns distinct little-endian numbers.
fn numbers(count: u64) -> Vec<u8> {
    (0..count).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect()
}

#[test]
fn an_array_is_loaded_and_mapped_by_numpy() {
    let count = 2 << 20;
    let json = format!(r#"{{"dtype":"'<u8'","shape":[{},16],"order":"C","container":"numpy"}}"#, count / 16);
    let folder = fresh_folder();
    let file = folder.path().join("a.blp");
    fs::write(&file, Pack::new(1 << 20, &numbers(count)).described(json.as_bytes()).build()).unwrap();
    let script = "
import sys, numpy
n = numpy.arange(2 << 20, dtype='<u8').reshape(-1, 16) * numpy.uint64(0x9e3779b97f4a7c15)
mapped = numpy.load(sys.argv[1], mmap_mode='r')
assert mapped.dtype == n.dtype and mapped.shape == n.shape
assert (mapped[-1] == n[-1]).all() and (mapped[::999] == n[::999]).all()
assert (numpy.load(sys.argv[1]) == n).all() and (mapped == n).all()
";
    let mounted = super::SOURCES.file(&file);
    for _ in 0..2 {
        let array = mounted.path("arrays/data.npy");
        let output = Command::new(python::python()).args(["-c", script]).arg(array).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    mounted.unmount();
}

#[test]
fn chunks_have_their_facts_as_attributes() {
    let mounted = super::SOURCES.file(fixture("bloscpack0.16.0-blosc1.11.4_checksum_sha256.blp"));
    let truth = fs::read(fixture("bloscpack0.16.0-blosc1.11.4_checksum_sha256.json")).unwrap();
    let truth: serde_json::Value = serde_json::from_slice(&truth).unwrap();
    for (n, chunk) in truth["chunks"].as_array().unwrap().iter().enumerate() {
        let attribute = |key: &str| {
            mounted.attribute(format!("blocks/{n}.bin"), &format!("user.bloscpack.{key}")).unwrap()
        };
        for key in ["nbytes", "cbytes", "codec"] {
            assert_eq!(attribute(key), chunk["blosc"][key].to_string().trim_matches('"'));
        }
        assert_eq!(attribute("offset"), chunk["offset"].to_string());
        assert_eq!(attribute("checksum"), chunk["checksum"].as_str().unwrap());
        assert_eq!(attribute("verified"), "stored");
    }
    mounted.unmount();
}

#[test]
fn a_chunk_with_a_wrong_checksum_can_not_be_read_and_all_others_can() {
    let data = numbers(500_000);
    let pack = Pack::new(400_000, &data);
    let mut bytes = pack.build();
    let place = pack.places()[3];
    bytes[place + 1000] ^= 1;
    let folder = fresh_folder();
    let file = folder.path().join("a.blp");
    fs::write(&file, bytes).unwrap();
    let mounted = super::SOURCES.file(&file);
    let whole = File::open(mounted.path("data.bin")).unwrap();
    let mut rest = vec![0; data.len() - 1_600_000];
    whole.read_exact_at(&mut rest, 1_600_000).unwrap();
    assert!(rest == data[1_600_000..]);
    let mut start = vec![0; 1_200_000];
    whole.read_exact_at(&mut start, 0).unwrap();
    assert!(start == data[..1_200_000]);
    for at in [1_200_000, 1_399_999, 1_599_999] {
        assert_eq!(whole.read_at(&mut [0; 1], at).unwrap_err().raw_os_error(), Some(libc::EIO));
    }
    assert_eq!(fs::read(mounted.block_path(3)).unwrap_err().raw_os_error(), Some(libc::EIO));
    assert!(mounted.block(4) == data[1_600_000..2_000_000]);
    assert_eq!(mounted.attribute("blocks/3.bin", "user.bloscpack.verified").unwrap(), "mismatch");
    let status = fs::read_to_string(mounted.path(".asdf-mount/status.yaml")).unwrap();
    assert!(status.contains("its checksum does not match the stored bytes"), "{status}");
    drop(whole);
    mounted.unmount();
    // The damage is reported once, with its offset.
    let output = Command::new(program()).args(["--check", "-q"]).arg(&file).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let expected = format!("byte {place}: block 3: damage: its checksum does not match the stored bytes\n");
    assert!(told.ends_with(&expected) && told.lines().count() == 1, "{told}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_chunk_that_says_another_length_shifts_nothing() {
    let name = "bloscpack0.16.0-blosc1.11.4_checksum_adler32.blp";
    let intact = super::SOURCES.file(fixture(name));
    let data = fs::read(intact.path("data.bin")).unwrap();
    let truth = fs::read(fixture(&name.replace(".blp", ".json"))).unwrap();
    let truth: serde_json::Value = serde_json::from_slice(&truth).unwrap();
    let (mut start, folder) = (0, fresh_folder());
    for (n, chunk) in truth["chunks"].as_array().unwrap().iter().enumerate() {
        let mut bytes = fs::read(fixture(name)).unwrap();
        bytes[chunk["offset"].as_u64().unwrap() as usize + 4..][..4].fill(0);
        let file = folder.path().join(format!("{n}.blp"));
        fs::write(&file, bytes).unwrap();
        let mounted = super::SOURCES.file(&file);
        let whole = File::open(mounted.path("data.bin")).unwrap();
        let end = start + chunk["blosc"]["nbytes"].as_u64().unwrap();
        for at in (0..data.len() as u64).step_by(100) {
            let (mut byte, is_lost) = ([0], (start..end).contains(&at));
            let found = whole.read_at(&mut byte, at).map(|_| byte[0]);
            let wanted = if is_lost { Err(Some(libc::EIO)) } else { Ok(data[at as usize]) };
            assert_eq!(found.map_err(|error| error.raw_os_error()), wanted, "chunk {n}, byte {at}");
        }
        assert_eq!(whole.metadata().unwrap().len(), data.len() as u64);
        drop(whole);
        mounted.unmount();
        start = end;
    }
    intact.unmount();
}

#[test]
fn an_item_that_was_not_finished_has_no_size_and_can_not_be_read() {
    let mut pack = Pack::variable(&[b"one", b"two"], b"{'dtype': 'varchar'}");
    pack.offsets = Some(vec![pack.places()[0] as i64, -1]);
    let folder = fresh_folder();
    fs::write(folder.path().join("a.blp"), pack.build()).unwrap();
    let mounted = super::SOURCES.file(folder.path());
    let item = mounted.path("a.blp/blocks/1.bin");
    assert_eq!(fs::metadata(&item).unwrap().len(), 0);
    assert_eq!(fs::read(&item).unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(fs::read(mounted.path("a.blp/blocks/0.bin")).unwrap(), b"one");
    assert_eq!(fs::read(mounted.path("a.blp/meta.json")).unwrap(), b"{'dtype': 'varchar'}");
    let tree = fs::read_to_string(mounted.path("a.blp/tree.yaml")).unwrap();
    assert!(fs::read(mounted.path("a.blp/data.bin")).is_err());
    let status = fs::read_to_string(mounted.path("a.blp/.asdf-mount/status.yaml")).unwrap();
    let parsed: serde_yaml::Value = serde_yaml::from_str(&status).unwrap();
    assert_eq!(parsed["defects"][0]["block"].as_u64(), Some(1), "{status}");
    assert!(status.contains("writable: false"), "{status}");
    assert!(tree.contains("layout: variable-length proposal") && tree.contains("dtype: varchar"), "{tree}");
    mounted.unmount();
}

#[test]
fn a_bare_blosc_buffer_is_refused_with_what_to_do() {
    let folder = fresh_folder();
    let mut mount = Command::new(program());
    let output = mount.arg(fixture("bare.blsc")).arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("is a bare Blosc buffer") && told.contains("blosc.decompress"), "{told}");
}
