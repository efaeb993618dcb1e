//! The file system operations of a save.
//!
//! [`System`] is the real file system. Tests use another [`Storage`]: one that fails, or one that loses data
//! that are not durable.
//!
//! Nothing is decided here: each operation is one request to the file system, and its result is returned
//! unchanged.

mod attributes;
mod held;
mod ioctl;
mod quota;
mod remote;
mod state;
mod watch;

pub use held::HeldDir;
pub use remote::is_remote;
pub use watch::Watch;

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom};

use super::Identity;

/// Bytes that one system call copies within the kernel.
const COPIED_AT_ONCE: u64 = 64 << 20;
/// Bytes that are read and written at once where the kernel can't copy.
const PIECE: u64 = 1 << 20;
/// The type of ext2, ext3 and ext4 in statfs.
const EXT4: u64 = 0xef53;
/// The type of XFS in statfs.
const XFS: u64 = 0x5846_5342;

/// The types of btrfs, bcachefs and ZFS in statfs.
const COPY_ON_WRITE: [u64; 3] = [0x9123_683e, 0xca45_1a4e, 0x2fc1_2fc1];

/// The metadata of an inode that a save needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Device, inode, size and times of change.
    pub identity: Identity,
    /// Number of names (hard links).
    pub links: u64,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Type and permissions, as in stat.
    pub mode: u32,
}

/// Owner, group and mode of a file.
pub type Rights = (u32, u32, u32);

impl Meta {
    /// Returns owner, group and mode.
    pub fn rights(&self) -> Rights {
        (self.uid, self.gid, self.mode)
    }
}

impl Meta {
    fn of(meta: &Metadata) -> Self {
        Self {
            identity: Identity::of(meta),
            links: meta.nlink(),
            uid: meta.uid(),
            gid: meta.gid(),
            mode: meta.mode(),
        }
    }
}

/// An extent: a range of a file that is contiguous on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub logical: u64,
    /// Offset on the disk.
    pub physical: u64,
    /// Length in bytes.
    pub len: u64,
}

/// The locations of a file's bytes on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extents {
    /// All extents, in file order.
    Known(Vec<Extent>),
    /// The file system does not report the locations, or some bytes have no location of their own.
    Unknown,
}

/// A file system, as a save uses it.
///
/// Files are names in directories that are held open: a path would lead elsewhere once another user has put
/// another directory there.
pub trait Storage: Clone + Debug + Send + Sync {
    /// An open file.
    type File: Debug + Send + Sync;
    /// A directory that is held open.
    type Dir: Clone + Debug + Send + Sync;

    /// Opens the directory at a path, and holds it.
    fn hold(&self, path: &Path) -> io::Result<Self::Dir>;
    /// Returns the path at which a directory is now, for messages.
    fn label(&self, dir: &Self::Dir) -> String;
    /// Returns a name for files about `name` in the state directory, made from the path at which it is now.
    fn key(&self, dir: &Self::Dir, name: &OsStr) -> io::Result<String>;
    /// Opens the state directory, which is private to the user. If `makes` is true, creates it and missing
    /// parents, durably. Fails if other users could write there.
    fn open_state(&self, path: &Path, makes: bool) -> io::Result<Self::Dir>;
    /// Fails if it is known that the state directory can't be used or created. The path in the error is the
    /// directory that can't be changed.
    fn may_use_state(&self, path: &Path) -> Result<(), (PathBuf, io::Error)> {
        let _ = path;
        Ok(())
    }
    /// Opens a regular file that exists; never blocks on a FIFO.
    fn open(&self, dir: &Self::Dir, name: &OsStr, write: bool) -> io::Result<Self::File>;
    /// Creates a file of mode 0600, open for reading and writing; an error if the name is taken.
    fn create(&self, dir: &Self::Dir, name: &OsStr) -> io::Result<Self::File>;
    /// Duplicates an open file for readers that may outlive the save; `None` if the storage has no readers.
    fn reopen(&self, file: &Self::File) -> Option<File> {
        let _ = file;
        None
    }
    /// Returns the current metadata of an open file.
    fn meta(&self, file: &Self::File) -> io::Result<Meta>;
    /// Returns the metadata of the file with a name; does not follow links.
    fn meta_at(&self, dir: &Self::Dir, name: &OsStr) -> io::Result<Meta>;
    /// Reads at `offset`; returns fewer bytes than asked only at the end.
    fn read_at(&self, file: &Self::File, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, file: &Self::File, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Truncates or extends the file.
    fn set_len(&self, file: &Self::File, len: u64) -> io::Result<()>;
    /// Returns the next part of `range` that is not a hole.
    fn next_data(&self, file: &Self::File, range: Range<u64>) -> io::Result<Option<Range<u64>>>;
    /// Sets the modification time to now, with nanosecond resolution. A write alone sets it to the last clock
    /// tick, which other files may share. Does nothing if this user may not set it.
    fn touch(&self, file: &Self::File) {
        let _ = file;
    }
    /// Takes the space that bytes of `range` will need, so that writing them can't fail for lack of it. The bytes and the
    /// size stay as they are. Does nothing on a file system that can't.
    fn reserve(&self, file: &Self::File, range: Range<u64>) -> io::Result<()> {
        let _ = (file, range);
        Ok(())
    }
    /// Zeroes a range of the file, and frees its space if the file system can.
    fn punch(&self, file: &Self::File, range: Range<u64>) -> io::Result<()>;
    /// Shares the extents of `range` in `from` with `to` at `to_offset`. All offsets are multiples of 4096,
    /// except an end at the end of the file.
    fn clone_range(
        &self,
        from: &Self::File,
        range: Range<u64>,
        to: &Self::File,
        to_offset: u64,
    ) -> io::Result<()>;
    /// Copies the bytes of `range` to `to_offset` of another file, holes included.
    fn copy_range(
        &self,
        from: &Self::File,
        range: Range<u64>,
        to: &Self::File,
        to_offset: u64,
    ) -> io::Result<()>;
    /// True if another machine or program may change or replace the file without this kernel's knowledge.
    fn is_remote(&self, file: &Self::File) -> bool {
        let _ = file;
        false
    }
    /// Returns the free bytes if the file system is copy-on-write, so that overwriting needs space, too;
    /// limited by quotas.
    fn room_to_write_over(&self, file: &Self::File) -> Option<u64> {
        let _ = file;
        None
    }
    /// True if a crash during [`insert`](Self::insert) leaves a file in which all extents after some offset
    /// are moved, and none before it.
    fn inserts_by_extent(&self, file: &Self::File) -> bool;
    /// Moves all bytes from `offset` on by `len`, which leaves a hole. Both are multiples of 4096.
    fn insert(&self, file: &Self::File, offset: u64, len: u64) -> io::Result<()>;
    /// Removes `len` bytes at `offset` from the file, the reverse of [`insert`](Self::insert).
    fn collapse(&self, file: &Self::File, offset: u64, len: u64) -> io::Result<()>;
    /// Writes out data without a location, then returns the locations of the file's bytes on the disk.
    fn extents(&self, file: &Self::File) -> io::Result<Extents>;
    /// Gives `to` the owner, group, mode, ACLs and extended attributes of `from`.
    fn keep_attributes(&self, from: &Self::File, to: &Self::File) -> io::Result<()>;
    /// Makes the file's bytes and size durable.
    fn sync(&self, file: &Self::File) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Self::Dir) -> io::Result<()>;
    /// Calls [`sync`](Self::sync) and [`sync_dir`](Self::sync_dir), in parallel if possible.
    fn sync_with_dir(&self, file: &Self::File, dir: &Self::Dir) -> io::Result<()> {
        self.sync(file)?;
        self.sync_dir(dir)
    }
    /// Closes a file that has no name any more, now or shortly after.
    fn close(&self, file: Self::File) {
        drop(file);
    }
    /// Renames a file within its directory, replacing an existing one.
    fn rename(&self, dir: &Self::Dir, from: &OsStr, to: &OsStr) -> io::Result<()>;
    /// Gives a file of a directory a second name there, which must be unused.
    fn link(&self, dir: &Self::Dir, name: &OsStr, second: &OsStr) -> io::Result<()> {
        let _ = (dir, name, second);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns names in a directory that begin with `start`. Not all if the directory has very many names.
    fn names(&self, dir: &Self::Dir, start: &OsStr) -> io::Result<Vec<OsString>>;
    /// Swaps the names of two files of a directory.
    fn exchange(&self, dir: &Self::Dir, one: &OsStr, other: &OsStr) -> io::Result<()> {
        let _ = (dir, one, other);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Takes a read lease; `WouldBlock` if a program has the file open for writing. A program that opens it
    /// for writing later waits until the lease ends, or for the system's timeout.
    fn lease(&self, file: &Self::File) -> io::Result<()> {
        let _ = file;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// True if the file has a lease that no program waits for.
    fn has_lease(&self, file: &Self::File) -> bool {
        let _ = file;
        false
    }
    /// Ends the lease.
    fn end_lease(&self, file: &Self::File) -> io::Result<()> {
        let _ = file;
        Ok(())
    }
    /// Starts to watch for writes of other programs to a file; `None` if that is not possible.
    fn watch(&self, file: &Self::File) -> Option<Watch> {
        let _ = file;
        None
    }
    /// Sleeps.
    fn wait(&self, time: Duration) {
        std::thread::sleep(time);
    }
    /// Removes a name.
    fn unlink(&self, dir: &Self::Dir, name: &OsStr) -> io::Result<()>;
    /// Locks the file exclusively; `WouldBlock` if another program has it locked.
    fn lock(&self, file: &Self::File) -> io::Result<()>;
    /// Fails if it is known that names can't be created and removed in a directory.
    fn may_change(&self, dir: &Self::Dir) -> io::Result<()> {
        let _ = dir;
        Ok(())
    }
}

/// The operating system's file systems.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Storage for System {
    type File = File;
    type Dir = HeldDir;

    fn hold(&self, path: &Path) -> io::Result<HeldDir> {
        HeldDir::open(path)
    }

    fn label(&self, dir: &HeldDir) -> String {
        dir.to_string()
    }

    fn key(&self, dir: &HeldDir, name: &OsStr) -> io::Result<String> {
        dir.key(name)
    }

    fn open_state(&self, path: &Path, makes: bool) -> io::Result<HeldDir> {
        state::open(path, makes)
    }

    fn may_use_state(&self, path: &Path) -> Result<(), (PathBuf, io::Error)> {
        state::may_use(path)
    }

    fn open(&self, dir: &HeldDir, name: &OsStr, write: bool) -> io::Result<File> {
        let file = dir.open_file(name, write)?;
        remote::bypass_cache(&file);
        Ok(file)
    }

    fn reopen(&self, file: &File) -> Option<File> {
        file.try_clone().ok()
    }

    fn create(&self, dir: &HeldDir, name: &OsStr) -> io::Result<File> {
        dir.create(name)
    }

    fn meta(&self, file: &File) -> io::Result<Meta> {
        remote::ask_again(file);
        Ok(Meta::of(&file.metadata()?))
    }

    fn meta_at(&self, dir: &HeldDir, name: &OsStr) -> io::Result<Meta> {
        self.meta(&dir.open_entry(name)?)
    }

    fn read_at(&self, file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match file.read_at(&mut buf[done..], offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn next_data(&self, file: &File, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        let start = match rustix::fs::seek(file, SeekFrom::Data(range.start)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            // A file system without holes has data everywhere.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => return Ok(Some(range)),
            Err(error) => return Err(error.into()),
        };
        if start >= range.end {
            return Ok(None);
        }
        let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
        Ok(Some(start..end.min(range.end)))
    }

    fn touch(&self, file: &File) {
        // A user who may write but does not own the file may not set its time.
        let _ = file.set_modified(std::time::SystemTime::now());
    }

    fn reserve(&self, file: &File, range: Range<u64>) -> io::Result<()> {
        match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, range.start, range.end - range.start) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            answer => Ok(answer?),
        }
    }

    fn punch(&self, file: &File, range: Range<u64>) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(file, flags, range.start, range.end - range.start) {
            Err(rustix::io::Errno::OPNOTSUPP) => write_zeros(file, range),
            answer => Ok(answer?),
        }
    }

    fn clone_range(&self, from: &File, range: Range<u64>, to: &File, to_offset: u64) -> io::Result<()> {
        ioctl::clone_range(from, range, to, to_offset)
    }

    fn copy_range(&self, from: &File, range: Range<u64>, to: &File, to_offset: u64) -> io::Result<()> {
        let mut at = range.start;
        let mut to_at = to_offset;
        while at < range.end {
            let len = (range.end - at).min(COPIED_AT_ONCE) as usize;
            match rustix::fs::copy_file_range(from, Some(&mut at), to, Some(&mut to_at), len) {
                Ok(0) => return copy_by_hand(from, at..range.end, to, to_at),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(
                    rustix::io::Errno::XDEV
                    | rustix::io::Errno::INVAL
                    | rustix::io::Errno::NOSYS
                    | rustix::io::Errno::OPNOTSUPP,
                ) => return copy_by_hand(from, at..range.end, to, to_at),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn is_remote(&self, file: &File) -> bool {
        remote::is_remote(file)
    }

    fn room_to_write_over(&self, file: &File) -> Option<u64> {
        let fs = rustix::fs::fstatfs(file).ok()?;
        let copies = COPY_ON_WRITE.contains(&(fs.f_type as u64));
        let free = fs.f_bavail.saturating_mul(fs.f_bsize as u64);
        copies.then(|| quota::room(file).map_or(free, |room| room.min(free)))
    }

    fn inserts_by_extent(&self, file: &File) -> bool {
        rustix::fs::fstatfs(file).is_ok_and(|fs| matches!(fs.f_type as u64, EXT4 | XFS))
    }

    fn insert(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(file, FallocateFlags::INSERT_RANGE, offset, len)?)
    }

    fn collapse(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(file, FallocateFlags::COLLAPSE_RANGE, offset, len)?)
    }

    fn extents(&self, file: &File) -> io::Result<Extents> {
        ioctl::extents(file)
    }

    fn keep_attributes(&self, from: &File, to: &File) -> io::Result<()> {
        attributes::keep(from, to)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_dir(&self, dir: &HeldDir) -> io::Result<()> {
        dir.sync()
    }

    fn sync_with_dir(&self, file: &File, dir: &HeldDir) -> io::Result<()> {
        std::thread::scope(|scope| {
            let beside = std::thread::Builder::new().name("sync".into());
            let beside = beside.spawn_scoped(scope, || self.sync_dir(dir));
            let synced = self.sync(file);
            let dir_synced = match beside.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(answer)) => answer,
                // The thread could not be started, or panicked.
                _ => self.sync_dir(dir),
            };
            synced.and(dir_synced)
        })
    }

    fn close(&self, file: File) {
        close_later(file);
    }

    fn rename(&self, dir: &HeldDir, from: &OsStr, to: &OsStr) -> io::Result<()> {
        dir.rename(from, to)
    }

    fn exchange(&self, dir: &HeldDir, one: &OsStr, other: &OsStr) -> io::Result<()> {
        dir.exchange(one, other)
    }

    fn link(&self, dir: &HeldDir, name: &OsStr, second: &OsStr) -> io::Result<()> {
        dir.link(name, second)
    }

    fn names(&self, dir: &HeldDir, start: &OsStr) -> io::Result<Vec<OsString>> {
        dir.names(start)
    }

    fn lease(&self, file: &File) -> io::Result<()> {
        ioctl::lease(file)
    }

    fn has_lease(&self, file: &File) -> bool {
        ioctl::has_lease(file)
    }

    fn end_lease(&self, file: &File) -> io::Result<()> {
        ioctl::end_lease(file)
    }

    fn watch(&self, file: &File) -> Option<Watch> {
        Watch::of(file)
    }

    fn unlink(&self, dir: &HeldDir, name: &OsStr) -> io::Result<()> {
        dir.unlink(name)
    }

    fn lock(&self, file: &File) -> io::Result<()> {
        Ok(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?)
    }

    fn may_change(&self, dir: &HeldDir) -> io::Result<()> {
        dir.may_change()
    }
}

/// Closes a file on a separate thread. For an unlinked file this takes as long as an fsync, because the file system then
/// frees its space; for a file on a server it may take for ever.
pub fn close_later(file: impl Send + 'static) {
    // If no thread can be started, the file is closed at once.
    let _ = std::thread::Builder::new().name("close".into()).spawn(move || drop(file));
}

fn copy_by_hand(from: &File, range: Range<u64>, to: &File, to_offset: u64) -> io::Result<()> {
    let mut piece = vec![0; PIECE.min(range.end - range.start) as usize];
    let mut at = range.start;
    while at < range.end {
        let len = piece.len().min((range.end - at) as usize);
        from.read_exact_at(&mut piece[..len], at)?;
        to.write_all_at(&piece[..len], to_offset + (at - range.start))?;
        at += len as u64;
    }
    Ok(())
}

fn write_zeros(file: &File, range: Range<u64>) -> io::Result<()> {
    let zeros = vec![0; PIECE.min(range.end - range.start) as usize];
    let mut at = range.start;
    while at < range.end {
        let len = zeros.len().min((range.end - at) as usize);
        file.write_all_at(&zeros[..len], at)?;
        at += len as u64;
    }
    Ok(())
}
