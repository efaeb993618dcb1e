//! File systems whose files may change without this kernel's knowledge: on a server, or served by a program.
//!
//! The kernel may use cached attributes and pages of a file that has been replaced. Only opening the file by
//! its name asks the server which file it is.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, OFlags, StatxFlags};

/// The statfs types of the file systems that only this kernel changes. Any other type counts as remote.
const LOCAL: [u64; 22] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
    0xca45_1a4e, // bcachefs
    0x2fc1_2fc1, // ZFS
    0xf2f5_2010, // F2FS
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0x3153_464a, // JFS
    0x5265_4973, // reiserfs
    0x3434,      // NILFS2
    0x4d44,      // FAT
    0x2011_bab0, // exFAT
    0x7366_746e, // NTFS3
    0x1501_3346, // UDF
    0x482b,      // HFS+
    0x4244,      // HFS
    0x2405_1905, // UBIFS
    0x72b6,      // JFFS2
    0x0001_1954, // UFS
    0x137f,      // Minix
];

/// The types of FUSE, NFS, CIFS, SMB2 and 9P: direct I/O needs no alignment there.
const UNALIGNED: [u64; 5] = [0x6573_5546, 0x6969, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997];

/// Returns the statfs type of a file's file system. The upper half is cleared, as it may be a sign extension.
fn type_of(file: impl AsFd) -> Option<u64> {
    let fs = rustix::fs::fstatfs(file).ok()?;
    Some(fs.f_type as u64 & 0xffff_ffff)
}

/// True if another machine or program may change or replace a file, or one in a directory, without this
/// kernel's knowledge.
pub fn is_remote(file: impl AsFd) -> bool {
    type_of(file).is_some_and(|kind| !LOCAL.contains(&kind))
}

/// Makes reads and writes of an open file go to the server, if its file system supports direct I/O without
/// alignment.
pub(super) fn bypass_cache(file: &File) {
    if type_of(file).is_some_and(|kind| UNALIGNED.contains(&kind))
        && let Ok(flags) = rustix::fs::fcntl_getfl(file)
    {
        // Without direct I/O, the kernel may return pages that it read earlier.
        let _ = rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT);
    }
}

/// Makes the kernel ask the server for the attributes of an open file; does nothing on a local file system.
pub(super) fn ask_again(file: &File) {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    let _ = rustix::fs::statx(file, "", flags, StatxFlags::BASIC_STATS);
}
