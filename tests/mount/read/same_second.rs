//! Files on a web server (nginx) that are written twice within a second: nginx makes the ETag from the time in
//! seconds and the size, so both versions have the same one.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::on_servers::{errno, mount};
use crate::tls::Nginx;
use common::mount::{fresh_folder, wait_until};

/// Length of a file, and an offset in it that the first request does not read.
const LEN: usize = 24 << 20;
const FAR: u64 = 20 << 20;

/// Writes a file with a time of modification.
fn write(path: &Path, bytes: &[u8], time: SystemTime) {
    fs::write(path, bytes).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_file_written_twice_within_a_second_is_never_a_mixture() {
    let dir = fresh_folder();
    fs::create_dir(dir.path().join("www")).unwrap();
    let (file, cache) = (dir.path().join("www/x.bin"), dir.path().join("cache"));
    let nginx = Nginx::plain(dir.path());
    let (url, options) = (nginx.plain_url("/"), format!("ro,remote-cache={}", cache.display()));
    // The second of both changes is not over before the second one.
    let second = SystemTime::now() + Duration::from_secs(5);
    write(&file, &[1; LEN], second);
    let mounted = mount(&options, &url);
    let path = mounted.path("x.bin");
    let old = File::open(&path).unwrap();
    let mut piece = [0; 10];
    assert_eq!((old.read_at(&mut piece, 0).unwrap(), piece), (10, [1; 10]));
    write(&file, &[2; LEN], second);
    // The handle has bytes of the first version, so no byte of the second one is read with it.
    assert_eq!(errno(old.read_at(&mut piece, FAR)), libc::ESTALE);
    assert!(wait_until(|| fs::read(&path).is_ok_and(|bytes| bytes == [2; LEN])));
    drop(old);
    mounted.unmount();
    // The cache on disk has no block of the first version.
    for n in 0..3 {
        let mounted = mount(&options, &url);
        assert!(fs::read(mounted.path("x.bin")).unwrap() == [2; LEN], "{n}");
        mounted.unmount();
    }
    assert!(fs::read_dir(&cache).unwrap().count() > 10);
}

#[test]
fn a_small_file_written_twice_within_a_second_shows_the_second_version() {
    let dir = fresh_folder();
    fs::create_dir(dir.path().join("www")).unwrap();
    let (file, cache) = (dir.path().join("www/x.asdf"), dir.path().join("cache"));
    let nginx = Nginx::plain(dir.path());
    let (url, options) = (nginx.plain_url("/x.asdf"), format!("ro,remote-cache={}", cache.display()));
    let text = |value: &str| format!("#ASDF 1.0.0\n%YAML 1.1\n--- !core/asdf-1.1.0\na: {value}\n...\n");
    let second = SystemTime::now() + Duration::from_secs(3);
    write(&file, text("first").as_bytes(), second);
    let mounted = mount(&options, &url);
    assert_eq!(mounted.tree(), text("first").as_bytes());
    write(&file, text("other").as_bytes(), second);
    assert!(wait_until(|| mounted.tree() == text("other").as_bytes()));
    mounted.unmount();
    assert_eq!(mount(&options, &url).tree(), text("other").as_bytes());
}
