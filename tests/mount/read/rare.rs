//! fio reads the blocks of every codec, and verifies the checksums that it wrote. `scripts/test --all` runs this test.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::asdf::{AsdfBuilder, Block};
use common::encode::Encoding;
use common::mount::{Sources, fresh_folder};

/// I/O engines of fio, without and with O_DIRECT.
const ENGINES: [(&str, &str); 7] = [
    ("psync", "0"),
    ("psync", "1"),
    ("libaio", "0"),
    ("libaio", "1"),
    ("mmap", "0"),
    ("io_uring", "0"),
    ("io_uring", "1"),
];
const KIBIBYTES: u64 = 4096;

/// Runs fio in a directory on files with a checksum in every 4 KiB.
fn fio(folder: &Path, arguments: &[impl AsRef<OsStr>]) -> Output {
    let size = format!("--size={KIBIBYTES}k");
    let all = ["--bs=4k", &size, "--verify=crc32c", "--verify_state_save=0", "--minimal", "--iodepth=16"];
    let output = Command::new("fio").args(all).args(arguments).current_dir(folder).output();
    output.unwrap_or_else(|error| panic!("fio: {error}: run scripts/test --all, which installs it"))
}

#[test]
fn blocks_of_every_codec_are_what_fio_wrote_by_each_way_of_reading() {
    let folder = fresh_folder();
    let written =
        ["--name=write", "--filename=data", "--rw=write", "--do_verify=0", "--buffer_compress_percentage=60"];
    let output = fio(folder.path(), &written);
    assert!(output.status.success(), "{output:?}");
    let mut data = fs::read(folder.path().join("data")).unwrap();
    let mut builder = AsdfBuilder::new();
    for encoding in Encoding::all() {
        builder = builder.block(Block::new(data.clone()).encoding(encoding));
    }
    data[1_234_567] ^= 1;
    let source = builder.block(Block::new(data)).build().save(folder.path(), "a.asdf");
    let mut read = 0;
    for sources in [Sources::Local, Sources::OverHttp] {
        let mounted = sources.file(&source);
        for n in 0..=Encoding::all().len() {
            let file = format!("--filename={}", mounted.block_path(n).display());
            let mut arguments = vec![file, "--readonly".to_owned(), "--rw=randread".to_owned()];
            for (engine, direct) in ENGINES {
                arguments.push(format!("--name={engine}{direct}"));
                arguments.push(format!("--ioengine={engine}"));
                arguments.push(format!("--direct={direct}"));
            }
            let output = fio(folder.path(), &arguments);
            if n == Encoding::all().len() {
                assert!(!output.status.success(), "fio reads a bit that is not what it wrote");
                continue;
            }
            assert!(output.status.success(), "block {n}, {sources:?}: {output:?}");
            // The sixth field of a job is the number of KiB that it has read.
            let said = String::from_utf8_lossy(&output.stdout);
            let lines = said
                .lines()
                .filter_map(|line| line.strip_prefix("3;")?.split(';').nth(4)?.parse::<u64>().ok());
            let of_block: u64 = lines.sum();
            assert_eq!(of_block, KIBIBYTES * ENGINES.len() as u64, "block {n}, {sources:?}: {said}");
            read += of_block;
        }
        mounted.unmount();
    }
    println!(
        "fio: {} blocks, {read} KiB verified by {} ways of reading",
        Encoding::all().len(),
        ENGINES.len()
    );
}
