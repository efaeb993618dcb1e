//! Mounted GSD files: frames and blocks as programs see them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use common::gsd_builder::{FLAGS, GsdBuilder, LOCATION};
use common::md5;
use common::mount::{Mounted, fresh_folder, program};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gsd").join(name)
}

fn truth(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixture(name).with_extension("json")).unwrap()).unwrap()
}

/// Collects the files below a directory, by path.
fn walk(folder: &Path, within: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{within}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), &format!("{path}/"), found)
        } else {
            drop(found.insert(path, fs::read(entry.path()).unwrap()))
        }
    }
}

#[test]
fn frames_and_blocks_are_what_was_written() {
    for name in ["gsd1.4.0_hoomd.gsd", "gsd2.9.0_grown_index.gsd", "gsd5.0.1_hoomd.gsd"] {
        let (mounted, truth) = (super::SOURCES.file(fixture(name)), truth(name));
        let mut files = BTreeMap::new();
        walk(&mounted.path("arrays/frames"), "", &mut files);
        let chunks = truth["chunks"].as_array().unwrap();
        assert_eq!((files.len(), mounted.block_count()), (chunks.len(), chunks.len()), "{name}");
        for (n, chunk) in chunks.iter().enumerate() {
            let wanted = chunk["md5"].as_str().unwrap();
            let path = format!("{}/{}", chunk["frame"], chunk["name"].as_str().unwrap());
            let data = match files.get(&format!("{path}.npy")) {
                Some(array) => array.get(128..).unwrap(),
                None => &files[&format!("{path}.txt")],
            };
            assert_eq!(md5(data), wanted, "{name}: {path}");
            assert_eq!(md5(&mounted.block(n)), wanted, "{name}: block {n}");
            for path in [format!("blocks/{n}.bin"), format!("arrays/frames/{path}.npy")] {
                if !mounted.path(&path).exists() {
                    continue;
                }
                for key in ["frame", "N", "M", "location"] {
                    let value = mounted.attribute(&path, &format!("user.gsd.{key}")).unwrap();
                    assert_eq!(value, chunk[key].to_string(), "{name}: {key} of {path}");
                }
                for key in ["name", "type"] {
                    let value = mounted.attribute(&path, &format!("user.gsd.{key}")).unwrap();
                    assert_eq!(Some(&*value), chunk[key].as_str(), "{name}: {key} of {path}");
                }
            }
        }
        assert_eq!(mounted.attribute("", "user.gsd.format").unwrap(), "gsd");
        assert!(fs::write(mounted.path("tree.yaml"), "x").is_err());
    }
}

/// Returns the memory of the daemon, in KiB.
fn memory(mounted: &Mounted) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", mounted.daemon().unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_walk_over_many_frames_stays_within_a_bound_of_memory() {
    const FRAMES: u64 = 200_000;
    let folder = fresh_folder();
    let path = folder.path().join("long.gsd");
    let mut builder = GsdBuilder::new();
    for frame in 0..FRAMES {
        builder = builder.bytes(frame, "a", if frame == FRAMES - 1 { b"2" } else { b"1" });
    }
    fs::write(&path, builder.build().bytes).unwrap();
    let mounted = super::SOURCES.file(&path);
    let frames = mounted.path("arrays/frames");
    let before = memory(&mounted);
    let mut count = 0;
    for entry in fs::read_dir(&frames).unwrap() {
        assert!(entry.unwrap().metadata().unwrap().is_dir());
        count += 1;
    }
    assert_eq!(count, FRAMES);
    let grown = memory(&mounted).saturating_sub(before);
    // A node takes some 240 bytes. From Linux 6.18 on, the kernel forgets old nodes on request.
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = kernel.split(['.', '-']).map(|number| number.parse().unwrap_or(0));
    let gives_back = (numbers.next(), numbers.next()) >= (Some(6), Some(18));
    let bound = if gives_back { 32 << 10 } else { FRAMES };
    assert!(grown < bound, "{grown} KiB more");
    assert!(fs::read(frames.join(format!("{}/a.npy", FRAMES - 1))).unwrap().ends_with(b"2"));
    assert!(fs::read(frames.join("0/a.npy")).unwrap().ends_with(b"1"));
}

#[test]
fn a_mirrored_folder_shows_gsd_files_as_folders() {
    let folder = fresh_folder();
    fs::copy(fixture("gsd5.0.1_unsorted.gsd"), folder.path().join("run.gsd")).unwrap();
    fs::write(folder.path().join("notes.txt"), "text").unwrap();
    let mounted = super::SOURCES.file(folder.path());
    let wanted = 5 * 10 + u32::from(b'a');
    let array = fs::read(mounted.path("run.gsd/arrays/frames/5/a.npy")).unwrap();
    assert_eq!(u32::from_le_bytes(*array.last_chunk().unwrap()), wanted);
    assert_eq!(fs::read_dir(mounted.path("run.gsd/arrays/frames/2")).unwrap().count(), 0);
}

#[test]
fn status_and_blocks_are_told_as_of_any_format() {
    let folder = fresh_folder();
    let path = folder.path().join("damaged.gsd");
    let built =
        GsdBuilder::new().bytes(0, "a\n\"b\"", b"one").bytes(1, "c", b"two").bytes(2, "c", b"3").build();
    let places = [1, 2].map(|slot| built.place(slot) as u64);
    let built = built.set(1, FLAGS, 1).set(2, LOCATION, 1 << 40);
    fs::write(&path, &built.bytes).unwrap();
    let mounted = super::SOURCES.file(&path);
    let yaml = |name: &str| -> serde_yaml::Value {
        serde_yaml::from_slice(&fs::read(mounted.path(name)).unwrap()).unwrap()
    };
    let status = yaml(".asdf-mount/status.yaml");
    assert_eq!((status["format"].as_str(), status["version"].as_str()), (Some("gsd"), Some("2.1")));
    let defects = status["defects"].as_sequence().unwrap();
    let offsets: Vec<_> = defects.iter().filter_map(|defect| defect["offset"].as_u64()).collect();
    assert_eq!(offsets, places);
    let blocks = yaml(".asdf-mount/blocks.yaml");
    assert_eq!(blocks.as_sequence().unwrap().len(), 3);
    assert_eq!(blocks[0]["name"].as_str(), Some("a\n\"b\""));
    assert_eq!((blocks[0]["frame"].as_u64(), blocks[0]["type"].as_str()), (Some(0), Some("uint8")));
    assert_eq!((blocks[0]["readable"].as_bool(), blocks[1]["readable"].as_bool()), (Some(true), Some(false)));
    assert_eq!(fs::read(mounted.path("arrays/frames/2/c.npy")).unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(fs::metadata(mounted.path("arrays/frames/2/c.npy")).unwrap().len(), 0);
    assert_eq!(fs::read(mounted.block_path(1)).unwrap_err().raw_os_error(), Some(libc::EIO));
}

#[test]
fn a_check_reads_all_and_tells_each_defect_once() {
    let check = |path: &Path| {
        let output = Command::new(program()).args(["--check", "--json", "-q"]).arg(path).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), report)
    };
    let (code, report) = check(&fixture("gsd1.10.0_hoomd.gsd"));
    assert_eq!(
        (code, report["blocks"].as_u64(), report["status"].as_str()),
        (Some(0), Some(68), Some("sound"))
    );
    let folder = fresh_folder();
    let path = folder.path().join("damaged.gsd");
    let built = GsdBuilder::new().bytes(0, "a", b"one").bytes(1, "c", b"two").bytes(2, "c", b"six").build();
    let place = built.place(1) as u64;
    fs::write(&path, built.set(1, LOCATION, 1 << 40).bytes).unwrap();
    let (code, report) = check(&path);
    let defects = report["defects"].as_array().unwrap();
    assert_eq!((code, defects.len()), (Some(1), 1), "{report}");
    assert_eq!((defects[0]["block"].as_u64(), defects[0]["offset"].as_u64()), (Some(1), Some(place)));
    assert!(defects[0]["what"].as_str().unwrap().contains("past the end of the file"), "{report}");
}
