//! A separate file system, in an image mounted through a loop device. Needs root.

#![allow(dead_code, unreachable_pub, missing_docs, missing_debug_implementations)]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A separate file system, unmounted when dropped.
#[derive(Debug)]
pub struct Disk {
    folder: tempfile::TempDir,
}

/// Runs a program that must succeed.
pub fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program}: {error}: run scripts/test, which installs it"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} (root is needed): {said}");
}

impl Disk {
    /// Makes an empty file system: tmpfs, FUSE over a directory, or one of [`make`] in memory.
    pub fn new(kind: &str, mebibytes: u64) -> Self {
        let disk = Self::unmounted(kind, mebibytes);
        disk.mount(kind, mebibytes);
        disk
    }

    /// Makes a file system like [`new`](Self::new) in memory; `None` if this kernel can't mount it.
    pub fn try_new(kind: &str, mebibytes: u64) -> Option<Self> {
        let disk = Self::unmounted(kind, mebibytes);
        if kind == "tmpfs" {
            disk.mount(kind, mebibytes);
            return Some(disk);
        }
        let [image, mounted] = ["image", "disk"].map(|name| disk.folder.path().join(name));
        let mounted = Command::new("mount").args(["-o", "loop"]).args([image, mounted]).output().unwrap();
        mounted.status.success().then_some(disk)
    }

    /// Mounts an image, which `fill` writes to a file.
    pub fn of_image(kind: &str, fill: impl FnOnce(&File)) -> Self {
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        disk.hold_in_memory();
        fill(&File::create(disk.image()).unwrap());
        fs::create_dir(disk.path()).unwrap();
        disk.mount(kind, 0);
        disk
    }

    /// Mounts a file system in memory for the image: no fsync waits for a disk.
    fn hold_in_memory(&self) {
        run("mount", &["-t", "tmpfs", "-o", "mode=700", "tmpfs", self.folder.path().to_str().unwrap()]);
    }

    fn unmounted(kind: &str, mebibytes: u64) -> Self {
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        let folder = disk.folder.path();
        match kind {
            "tmpfs" => {}
            "sshfs" | "mergerfs" => {
                fs::create_dir(folder.join("behind")).unwrap();
                // sshfs connects to the server without ssh.
                let server = folder.join("server");
                fs::write(&server, "#!/bin/sh\nexec /usr/lib/openssh/sftp-server\n").unwrap();
                run("chmod", &["755", server.to_str().unwrap()]);
            }
            _ => {
                disk.hold_in_memory();
                let image = folder.join("image");
                File::create(&image).unwrap().set_len(mebibytes << 20).unwrap();
                make(kind, image.to_str().unwrap());
            }
        }
        fs::create_dir(disk.path()).unwrap();
        disk
    }

    fn mount(&self, kind: &str, mebibytes: u64) {
        let [image, mounted, behind, server] =
            ["image", "disk", "behind", "server"].map(|name| self.folder.path().join(name));
        let [image, mounted, behind] = [&image, &mounted, &behind].map(|path| path.to_str().unwrap());
        match kind {
            "tmpfs" => run("mount", &["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs", mounted]),
            "sshfs" => {
                let command = format!("ssh_command={}", server.display());
                run("sshfs", &["-o", &command, &format!("localhost:{behind}"), mounted]);
            }
            "mergerfs" => run("mergerfs", &["-o", "allow_other", behind, mounted]),
            "exfat" => run("mount", &["-t", "exfat-fuse", "-o", "loop", image, mounted]),
            "ntfs" => run("ntfs-3g", &[image, mounted]),
            // A copy of an image has its UUID, and the kernel may not have unmounted the one before yet.
            _ if kind.starts_with("xfs") => run("mount", &["-o", "loop,nouuid", image, mounted]),
            _ => run("mount", &["-o", "loop", image, mounted]),
        }
    }

    /// Unmounts a file system of this kind, which must not be tmpfs, and mounts it again.
    pub fn mount_again(&self, kind: &str) {
        self.unmount();
        self.mount(kind, 0);
    }

    /// Unmounts the file system; its image stays.
    pub fn unmount(&self) {
        run("umount", &[self.path().to_str().unwrap()]);
    }

    /// Returns the path of the image.
    pub fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Returns the mount point of the file system.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// Returns a path outside of the file system for a state directory.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }
}

/// Makes a file system in an image.
fn make(kind: &str, image: &str) {
    let ext = |options: &[&str]| run("mke2fs", &[&["-q", "-F", "-m", "0"], options, &[image]].concat());
    match kind {
        "ext2" | "ext3" | "ext4" => ext(&["-t", kind]),
        "ext4 without extents" => ext(&["-t", "ext4", "-O", "^extents,^64bit"]),
        "ext4 with bigalloc" => ext(&["-t", "ext4", "-O", "bigalloc"]),
        "ext4 of 1 KiB" => ext(&["-t", "ext4", "-b", "1024"]),
        "xfs" => run("mkfs.xfs", &["-q", "-m", "reflink=1", image]),
        "xfs of 1 KiB" => run("mkfs.xfs", &["-q", "-m", "reflink=1", "-b", "size=1024", image]),
        "xfs of 8 KiB" => run("mkfs.xfs", &["-q", "-m", "reflink=1", "-b", "size=8192", image]),
        "xfs of 64 KiB" => run("mkfs.xfs", &["-q", "-m", "reflink=1", "-b", "size=65536", image]),
        // Data and metadata share the free space.
        "btrfs" => run("mkfs.btrfs", &["-q", "-M", image]),
        "exfat" => run("mkfs.exfat", &[image]),
        "ntfs" => run("mkntfs", &["-F", "-Q", image]),
        "btrfs of two kinds of room" => run("mkfs.btrfs", &["-q", image]),
        _ => panic!("no file system is called {kind}"),
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for path in [&self.path(), self.folder.path()] {
            let _ = rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// The attribute with the POSIX ACL of a file.
pub const ACL: &str = "system.posix_acl_access";

/// Returns `u::rw-,u:1000:r--,g::r--,m::r--,o::---` in the kernel's form.
pub fn acl() -> Vec<u8> {
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in
        [(1_u16, 6_u16, u32::MAX), (2, 4, 1000), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)]
    {
        acl.extend(tag.to_le_bytes());
        acl.extend(permissions.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    acl
}

/// Writes a file with holes where pages are zero.
pub fn write_sparse(path: &Path, bytes: &[u8]) {
    let file = File::create(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (n, page) in bytes.chunks(4096).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, n as u64 * 4096).unwrap();
        }
    }
    file.sync_all().unwrap();
}
