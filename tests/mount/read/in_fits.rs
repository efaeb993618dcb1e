//! ASDF in FITS in mounts: beside other FITS files, and on a server.

use std::fs;
use std::path::{Path, PathBuf};

use crate::on_servers::{errno, mount};
use common::mount::{Mounted, fresh_folder};
use common::site::Site;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fits").join(name)
}

#[test]
fn a_fits_file_with_asdf_is_a_directory_and_another_one_stays_a_file() {
    let folder = fresh_folder();
    for name in ["image.fits", "plain.fits"] {
        fs::copy(fixture(name), folder.path().join(name)).unwrap();
    }
    let mounted =
        Mounted::prepared(["-o", "rw,history=off", folder.path().to_str().unwrap()], |_| {}).unwrap();
    let root = mounted.root();
    let listed = fs::read_dir(root).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), entry.file_type().unwrap().is_dir())
    });
    let mut listed: Vec<_> = listed.collect();
    listed.sort();
    assert_eq!(listed, [("image.fits".to_owned(), true), ("plain.fits".to_owned(), false)]);
    assert_eq!(fs::read(root.join("plain.fits")).unwrap(), fs::read(fixture("plain.fits")).unwrap());

    let tree = root.join("image.fits/tree.yaml");
    assert!(fs::read_to_string(&tree).unwrap().contains("source: fits:DQ,1"));
    assert_eq!(errno(fs::write(&tree, "a: 1\n")), libc::EROFS);
    assert_eq!(errno(fs::write(root.join("image.fits/new"), "")), libc::EROFS);
    let status = fs::read_to_string(root.join("image.fits/.asdf-mount/status.yaml")).unwrap();
    assert!(status.contains("ASDF in FITS is read-only"), "{status}");
    assert_eq!(fs::read(fixture("image.fits")).unwrap(), fs::read(folder.path().join("image.fits")).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    mounted.unmount();
}

#[test]
fn a_fits_file_on_a_server_is_looked_into_once_it_is_asked_for() {
    let site = Site::web(|_, reply| reply);
    for name in ["image.fits", "plain.fits"] {
        site.put(&format!("x/{name}"), fs::read(fixture(name)).unwrap());
    }
    let mounted = mount("", &site.server.url("/x/"));
    let root = mounted.root();
    assert!(fs::read(root.join("plain.fits")).unwrap().starts_with(b"SIMPLE"));
    assert!(fs::read_to_string(root.join("image.fits/tree.yaml")).unwrap().contains("fits:SCI,1"));
    assert!(fs::metadata(root.join("image.fits/arrays/dq.npy")).unwrap().is_file());
    mounted.unmount();
    let mounted = mount("", &site.server.url("/x/image.fits"));
    let local =
        Mounted::prepared(["-o", "history=off", fixture("image.fits").to_str().unwrap()], |_| {}).unwrap();
    for name in ["tree.yaml", "arrays/dq.npy", "hdus/SCI.hdr", "fits/err.fits"] {
        assert_eq!(
            fs::read(mounted.root().join(name)).unwrap(),
            fs::read(local.root().join(name)).unwrap(),
            "{name}"
        );
    }
    local.unmount();
    mounted.unmount();
}
