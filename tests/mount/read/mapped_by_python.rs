//! Blocks mapped into memory by Python: `mmap` and `numpy.memmap`.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{access, pages};
use common::asdf::{AsdfBuilder, Block, sample};
use common::encode::Encoding;
use common::mount::{Sources, fresh_folder, wait_until};
use common::python;

#[test]
fn every_codec_in_a_map() {
    let (mounted, data, count, _folder) = access::mounted();
    let script = "
import sys, mmap
with open(sys.argv[1], 'rb') as block, open(sys.argv[2], 'rb') as truth:
    block = mmap.mmap(block.fileno(), 0, access=mmap.ACCESS_READ)
    truth = truth.read()
    places = list(range(0, len(truth), 131071))
    assert all(block[at] == truth[at] for at in places[::-1] + places)
    assert block[:] == truth
";
    let plain = mounted.scratch().join("plain");
    fs::write(&plain, &data).unwrap();
    for n in 0..count {
        let python = python::python();
        let output =
            Command::new(python).args(["-c", script]).arg(mounted.block_path(n)).arg(&plain).output();
        let output = output.unwrap();
        assert!(output.status.success(), "block {n}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_block_is_mapped_by_numpy_before_and_after_it_was_read() {
    let script = "
import sys, numpy, hashlib
block = numpy.memmap(sys.argv[1], 'u1', 'r')
picked = block[::4099].copy()
print(len(block), hashlib.sha256(picked.tobytes()).hexdigest(), hashlib.sha256(block.tobytes()).hexdigest())
";
    let map = |path: &Path| {
        let output = Command::new(python::python()).args(["-c", script]).arg(path).output().unwrap();
        assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    // A server makes no difference to a codec.
    let encodings = if matches!(super::SOURCES, Sources::Local) { usize::MAX } else { 1 };
    let mut expected = None;
    for encoding in pages::encodings().take(encodings) {
        let (mounted, data, folder) = pages::mounted(&encoding);
        // The data are the same for all encodings.
        let expected = expected.get_or_insert_with(|| {
            let plain = folder.path().join("plain");
            fs::write(&plain, &data).unwrap();
            map(&plain)
        });
        let map = || map(&mounted.block_path(0));
        assert_eq!(map(), *expected, "{encoding:?}");
        assert!(mounted.block(0) == data);
        assert_eq!(map(), *expected, "{encoding:?}");
        assert!(
            wait_until(|| pages::cost(&mounted, || assert_eq!(map(), *expected)) < 200_000),
            "{encoding:?}"
        );
    }
}

#[test]
fn a_map_has_the_good_pages_of_a_damaged_block_and_no_zeros_behind_them() {
    // A process that touches a missing page is killed. A system call that touches it returns an error.
    let script = "
import sys, mmap, os
block, truth = open(sys.argv[1], 'rb', buffering=0), open(sys.argv[2], 'rb').read()
good = 0
try:
    while True:
        bytes = os.pread(block.fileno(), 65536, good)
        assert bytes and truth[good:good + len(bytes)] == bytes, 'read %d bytes at %d' % (len(bytes), good)
        good += len(bytes)
except OSError:
    pass
map, mapped = memoryview(mmap.mmap(block.fileno(), 0, access=mmap.ACCESS_READ)), 0
out, into = os.pipe()
try:
    while mapped < len(truth):
        written = os.write(into, map[mapped:mapped + 4096])
        assert os.read(out, 4096) == truth[mapped:mapped + written], 'mapped at %d' % mapped
        mapped += written
except OSError:
    pass
assert mapped == good // 4096 * 4096, '%d bytes are good, %d in the map' % (good, mapped)
assert 0 < os.fstat(block.fileno()).st_size == len(truth)
";
    for len in [600_000, 6_000_000] {
        for encoding in pages::encodings() {
            let (folder, data) = (fresh_folder(), sample(len, 23));
            let mut stored = encoding.encode(&data);
            stored.truncate(stored.len() / 2);
            let block = Block::new(data.clone()).encoding(Encoding::Raw(encoding.label(), stored));
            let source = AsdfBuilder::new().block(block).build().save(folder.path(), "a.asdf");
            let mounted = super::SOURCES.file(source);
            let plain = folder.path().join("plain");
            fs::write(&plain, &data).unwrap();
            let output = Command::new(python::python())
                .args(["-c", script])
                .arg(mounted.block_path(0))
                .arg(&plain)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{encoding:?}, {len} bytes: {said}");
        }
    }
}
