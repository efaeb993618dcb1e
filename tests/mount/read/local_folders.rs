//! Local GSD and Bloscpack files: they can't be changed through a mount, and other programs change them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use common::bloscpack_builder::Pack;
use common::gsd_builder::GsdBuilder;
use common::mount::{Mounted, fresh_folder, wait_until};

#[test]
fn a_trajectory_that_cannot_be_changed_is_no_warning() {
    let mounted = Mounted::file("tests/fixtures/gsd/gsd5.0.1_hoomd.gsd");
    assert_eq!(mounted.stderr(), "");
    let status = fs::read_to_string(mounted.path(".asdf-mount/status.yaml")).unwrap();
    assert!(status.contains("read_only_because: files of the format gsd can't be changed\n"), "{status}");
    let error = fs::write(mounted.path("tree.yaml"), "x").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EROFS));
    mounted.unmount();
}

/// The two files differ only in their data.
#[test]
fn old_handles_of_a_gsd_file_that_was_written_anew_are_stale() {
    const LEN: usize = 2 << 20;
    let built = |value: u8| {
        GsdBuilder::new().bytes(0, "a", &vec![value; LEN]).bytes(1, "a", &vec![value; LEN]).build()
    };
    let folder = fresh_folder();
    let path = folder.path().join("a.gsd");
    fs::write(&path, built(1).bytes).unwrap();
    let mounted = Mounted::file(&path);
    let names = ["arrays/frames/0/a.npy", "arrays/series/a.npy", "blocks/1.bin"];
    let old = names.map(|name| File::open(mounted.path(name)).unwrap());
    fs::write(&path, built(2).bytes).unwrap();
    // Waits without reading the old file, because the kernel would cache its pages.
    let status = || fs::read_to_string(mounted.path(".asdf-mount/status.yaml")).unwrap();
    assert!(wait_until(|| !status().contains("generation: 0\n") && !status().contains("\nerror: ")));
    for (file, name) in old.iter().zip(names) {
        let error = file.read_at(&mut [0; 10], LEN as u64 / 2).expect_err(name);
        assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{name}");
    }
    drop(old);
    mounted.unmount();
}

/// Bloscpack appends in place.
#[test]
fn old_handles_of_a_bloscpack_file_that_was_changed_are_stale() {
    // Smaller files stay in the kernel's cache, which does not notice the change.
    let numbers = (0..500_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let data: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    let folder = fresh_folder();
    let file = folder.path().join("a.blp");
    fs::write(&file, Pack::new(2_000_000, &data[..2_000_000]).build()).unwrap();
    let mounted = Mounted::file(&file);
    let (old, block) =
        ["data.bin", "blocks/0.bin"].map(|name| File::open(mounted.path(name)).unwrap()).into();
    fs::write(&file, Pack::new(2_000_000, &data).build()).unwrap();
    assert!(wait_until(|| fs::read(mounted.path("data.bin")).is_ok_and(|read| read == data)));
    assert_eq!(mounted.block_count(), 2);
    for old in [old, block] {
        assert_eq!(old.read_at(&mut [0; 10], 0).unwrap_err().raw_os_error(), Some(libc::ESTALE));
    }
    mounted.unmount();
}
