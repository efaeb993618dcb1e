//! Blocks mapped into memory by Python: `mmap` and `numpy.memmap`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{access, pages};
use common::asdf::{AsdfBuilder, Block, sample};
use common::encode::Encoding;
use common::mount::{fresh_folder, wait_until};
use common::python;

#[test]
fn every_codec_in_a_map() {
    let (mounted, data, count, _folder) = access::mounted();
    let script = "
import sys, mmap
truth = open(sys.argv[1], 'rb').read()
places = list(range(0, len(truth), 131071))
for path in sys.argv[2:]:
    with open(path, 'rb') as block:
        block = mmap.mmap(block.fileno(), 0, access=mmap.ACCESS_READ)
    assert all(block[at] == truth[at] for at in places[::-1] + places), path
    assert block[:] == truth, path
";
    let plain = mounted.scratch().join("plain");
    fs::write(&plain, &data).unwrap();
    let blocks = (0..count).map(|n| mounted.block_path(n));
    let output =
        Command::new(python::python()).args(["-c", script]).arg(&plain).args(blocks).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn blocks_are_mapped_by_numpy_before_and_after_they_were_read() {
    let script = "
import sys, numpy, hashlib
for path in sys.argv[1:]:
    block = numpy.memmap(path, 'u1', 'r')
    picked = block[::4099].copy()
    print(len(block), hashlib.sha256(picked.tobytes()).hexdigest(), hashlib.sha256(block.tobytes()).hexdigest())
";
    let map = |paths: &[PathBuf]| {
        let output = Command::new(python::python()).args(["-c", script]).args(paths).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = String::from_utf8(output.stdout).unwrap();
        output.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (mounted, data, count, folder) = access::mounted();
    let plain = folder.path().join("plain");
    fs::write(&plain, &data).unwrap();
    let expected = vec![map(&[plain]).remove(0); count];
    let blocks: Vec<_> = (0..count).map(|n| mounted.block_path(n)).collect();
    assert_eq!(map(&blocks), expected);
    for n in 0..count {
        assert!(mounted.block(n) == data, "block {n}");
    }
    assert_eq!(map(&blocks), expected);
    // The first block is stored as it is: the kernel keeps none of its pages.
    let again = || assert_eq!(map(&blocks[1..]), expected[1..]);
    assert!(wait_until(|| pages::cost(&mounted, again) < 200_000));
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
