//! System calls that no crate wraps: FICLONERANGE, FIEMAP, leases, and the subvolume of a file on btrfs.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use rustix::ioctl::{Getter, Opcode, Setter, Updater, opcode};

use super::{Extent, Extents};

/// Extents per request.
const AT_ONCE: usize = 256;
/// Maximum number of extents of a file; for a file with more, the locations count as unknown.
const MAX_EXTENTS: usize = 1 << 20;
/// FIEMAP_FLAG_SYNC: writes the file out first.
const SYNC: u32 = 1;
/// FIEMAP_EXTENT_LAST: there is no further extent.
const LAST: u32 = 0x1;
/// FIEMAP_EXTENT_LAST, _UNWRITTEN and _MERGED: the flags that leave an extent a location of its own.
const HARMLESS: u32 = LAST | 0x800 | 0x1000;

/// `struct file_clone_range` of linux/fs.h.
#[repr(C)]
#[derive(Debug)]
struct CloneRange {
    source: i64,
    source_offset: u64,
    source_length: u64,
    offset: u64,
}

/// `struct fiemap` of linux/fiemap.h, followed by space for extents.
#[repr(C)]
struct Fiemap {
    head: FiemapHead,
    extents: [FiemapExtent; AT_ONCE],
}

/// `struct fiemap` without extents; its size is part of the request number.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapHead {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

const FICLONERANGE: Opcode = opcode::write::<CloneRange>(0x94, 13);
const FIEMAP: Opcode = opcode::read_write::<FiemapHead>(b'f', 11);

/// Shares the extents of `range` in `from` with `to` at `to_offset`.
pub(super) fn clone_range(from: &File, range: Range<u64>, to: &File, to_offset: u64) -> io::Result<()> {
    let argument = CloneRange {
        source: from.as_raw_fd().into(),
        source_offset: range.start,
        source_length: range.end - range.start,
        offset: to_offset,
    };
    // SAFETY: the request reads one `file_clone_range` and writes nothing to memory; the descriptor
    // in it is open for as long as `from` is borrowed.
    let request = unsafe { Setter::<FICLONERANGE, CloneRange>::new(argument) };
    // SAFETY: as above.
    Ok(unsafe { rustix::ioctl::ioctl(to, request) }?)
}

/// `struct btrfs_ioctl_fs_info_args` of linux/btrfs.h; unused fields are combined.
#[repr(C)]
struct BtrfsInfo {
    max_id: u64,
    num_devices: u64,
    fsid: [u8; 16],
    rest: [u64; 124],
}

/// `struct btrfs_ioctl_ino_lookup_args` of linux/btrfs.h.
#[repr(C)]
struct BtrfsLookup {
    tree: u64,
    object: u64,
    name: [u64; 510],
}

const BTRFS_INFO: Opcode = opcode::read::<BtrfsInfo>(0x94, 31);
const BTRFS_LOOKUP: Opcode = opcode::read_write::<BtrfsLookup>(0x94, 18);
/// BTRFS_FIRST_FREE_OBJECTID: the root of a subvolume, which any user may look up.
const ROOT_OF_SUBVOLUME: u64 = 256;

/// Returns the file system's UUID and the number of the subvolume that a file of btrfs belongs to.
pub(super) fn btrfs_subvolume(file: &File) -> io::Result<([u8; 16], u64)> {
    // SAFETY: the request writes one `btrfs_ioctl_fs_info_args`; `BtrfsInfo` has its 1024 bytes.
    let request = unsafe { Getter::<BTRFS_INFO, BtrfsInfo>::new() };
    // SAFETY: as above.
    let info = unsafe { rustix::ioctl::ioctl(file, request) }?;
    let mut lookup = Box::new(BtrfsLookup { tree: 0, object: ROOT_OF_SUBVOLUME, name: [0; 510] });
    // SAFETY: the request reads and writes one `btrfs_ioctl_ino_lookup_args`;
    // `BtrfsLookup` has its 4096 bytes.
    let update = unsafe { Updater::<BTRFS_LOOKUP, BtrfsLookup>::new(&mut *lookup) };
    // SAFETY: as above.
    unsafe { rustix::ioctl::ioctl(file, update) }?;
    Ok((info.fsid, lookup.tree))
}

/// F_SETSIG of linux/fcntl.h.
const SET_SIGNAL: libc::c_int = 10;

/// Takes a read lease.
pub(super) fn lease(file: &File) -> io::Result<()> {
    // The kernel signals the end of a lease, and the default signal ends the process. SIGURG is ignored by
    // default.
    control(file, SET_SIGNAL, libc::SIGURG)?;
    control(file, libc::F_SETLEASE, libc::F_RDLCK)?;
    Ok(())
}

/// True if the file has a read lease that no program waits for.
pub(super) fn has_lease(file: &File) -> bool {
    control(file, libc::F_GETLEASE, 0).is_ok_and(|kind| kind == libc::F_RDLCK)
}

/// Ends a lease.
pub(super) fn end_lease(file: &File) -> io::Result<()> {
    control(file, libc::F_SETLEASE, libc::F_UNLCK).map(|_| ())
}

fn control(file: &File, request: libc::c_int, argument: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: the requests take a number and touch no memory of ours; the descriptor is open.
    match unsafe { libc::fcntl(file.as_raw_fd(), request, argument) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}

/// Returns the locations of the file's bytes on the disk.
pub(super) fn extents(file: &File) -> io::Result<Extents> {
    let mut found = Vec::new();
    let mut start = 0;
    loop {
        let head = FiemapHead {
            start,
            length: u64::MAX - start,
            flags: SYNC,
            extent_count: AT_ONCE as u32,
            ..FiemapHead::default()
        };
        let mut map = Box::new(Fiemap { head, extents: [FiemapExtent::default(); AT_ONCE] });
        // SAFETY: the request reads a `fiemap` and writes to it and to at most `extent_count`
        // extents after it, all of which are in `map`.
        let request = unsafe { Updater::<FIEMAP, Fiemap>::new(&mut *map) };
        // SAFETY: as above.
        match unsafe { rustix::ioctl::ioctl(file, request) } {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOTTY | rustix::io::Errno::INVAL) => {
                return Ok(Extents::Unknown);
            }
            Err(error) => return Err(error.into()),
        }
        let count = map.head.mapped_extents.min(AT_ONCE as u32) as usize;
        for extent in &map.extents[..count] {
            if extent.flags & !HARMLESS != 0 || found.len() == MAX_EXTENTS {
                return Ok(Extents::Unknown);
            }
            found.push(Extent { logical: extent.logical, physical: extent.physical, len: extent.length });
        }
        match map.extents[..count].last() {
            Some(last) if last.flags & LAST == 0 => start = last.logical.saturating_add(last.length),
            _ => return Ok(Extents::Known(found)),
        }
    }
}
