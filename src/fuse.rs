//! Translates the kernel's requests into questions to the [`Vfs`], and its answers back.
//!
//! Nothing is decided here but who does the work: what is at hand is answered on the thread that the
//! request came in on, what has to be decoded by a few workers, the check of a whole block by others,
//! so that `ls` answers meanwhile. A handler that panics answers EIO, and the mount lives on.
//!
//! What writes is answered on the thread it came in on too, but for what may end in a save: closing,
//! fsync and renaming have workers of their own, so that readers never wait for a save.
//!
//! `tree.yaml` and the files beside it go past the kernel's cache (FOPEN_DIRECT_IO), and nothing that is
//! said of them is believed for any time at all: so the kernel never has to be told of a change, and no
//! notification can meet a request that waits for it. (What it is told of blocks, which nobody writes, comes
//! from a thread that answers no request: `vfs/kernel_cache`.) A mapping of such a file is written through: its
//! pages arrive as writes before the flush.

mod caller;
mod dir;
mod handle;
mod reply;
mod write;
mod xattr;

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::cache::Workers;
use crate::overlay::change::Change;
use crate::overlay::write_handle::OpenFor;
use crate::vfs::{Attr, Caching, Ino, Listing, OpenFile, Reader, TTL, Vfs, Writer};
use handle::Handles;

/// What is asked of the kernel if it offers it.
const WANTED: [InitFlags; 7] = [
    // Emptying a file comes with opening it, so that the handle is known that did it.
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    // A new size or modification time drops the pages of a file.
    InitFlags::FUSE_AUTO_INVAL_DATA,
    // A file that is read past the cache can still be mapped.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ASYNC_DIO,
];
/// Read-ahead requests that may be under way at once.
const BACKGROUND: u16 = 64;
/// Bytes of the longest request, and with that of the longest read.
const LONGEST: u32 = 1 << 20;
/// How long answers may take that are under way when all saves are done.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// How long those who have just saved may take until they have closed their files.
const LAST_CLOSING: Duration = Duration::from_secs(1);
/// Nodes never get a number that was used before, so none needs a second life.
const GENERATION: Generation = Generation(0);

/// The file system that the kernel talks to.
#[derive(Debug)]
pub struct Adapter {
    vfs: Arc<Vfs>,
    files: Arc<Handles<OpenFile>>,
    dirs: Handles<Listing>,
    decoding: Workers,
    checking: Workers,
    saving: Arc<Workers>,
}

impl Adapter {
    /// Serves `vfs`. Starts no thread yet.
    pub fn new(vfs: Vfs) -> Self {
        let cpus = std::thread::available_parallelism().map_or(2, |cpus| cpus.get().max(2));
        Self {
            vfs: Arc::new(vfs),
            files: Arc::new(Handles::new()),
            dirs: Handles::new(),
            decoding: Workers::new("decode", cpus),
            checking: Workers::new("verify", 2),
            saving: Arc::new(Workers::new("save", 4)),
        }
    }

    /// What is served.
    pub fn vfs(&self) -> &Arc<Vfs> {
        &self.vfs
    }

    /// How writing is brought to an end; see [`Vfs::close`]. Who waits for a save is told of it first.
    pub fn closer(&self) -> impl Fn() + Send + Sync + 'static {
        let (vfs, saving, files) = (self.vfs.clone(), self.saving.clone(), self.files.clone());
        move || {
            let was_saving = saving.is_busy();
            vfs.close();
            saving.wait(LAST_ANSWERS);
            // Who saved by fsync is about to close its file, and shall not hear of an error after that.
            if was_saving {
                files.wait_while_any(|file| matches!(file, OpenFile::Writer(_)), LAST_CLOSING);
            }
            saving.wait(LAST_ANSWERS);
        }
    }

    /// The handle of a file that can be written.
    fn writer(&self, handle: FileHandle) -> Option<Arc<OpenFile>> {
        self.files.get(handle).filter(|opened| matches!(**opened, OpenFile::Writer(_)))
    }

    /// How long the kernel may believe what it is told of a node.
    fn ttl(&self, attr: &Attr) -> Duration {
        self.vfs.ttl(attr.ino).min(attr.ttl())
    }
}

fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}

/// Logs a request and runs its handler. If that panics the reply it owns is dropped, which answers EIO.
fn guarded(request: fmt::Arguments<'_>, handler: impl FnOnce()) {
    tracing::debug!("{request}");
    if catch_unwind(AssertUnwindSafe(handler)).is_err() {
        tracing::error!("{request} panicked: it was answered with EIO");
    }
}

fn opened(reader: &Reader, handle: FileHandle, reply: ReplyOpen) {
    reply.opened(
        handle,
        match reader.caching() {
            Caching::Direct => FopenFlags::FOPEN_DIRECT_IO,
            Caching::Given => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_KEEP_CACHE,
            Caching::Keep => FopenFlags::FOPEN_KEEP_CACHE,
            Caching::Anew => FopenFlags::empty(),
        },
    );
}

impl Filesystem for Adapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in WANTED {
            // What an older kernel lacks is done without.
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_background(BACKGROUND);
        let _ = config.set_max_write(LONGEST);
        Ok(())
    }

    fn destroy(&mut self) {
        self.files.clear();
        self.dirs.clear();
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        guarded(format_args!("lookup {name:?} in {parent}"), || match self.vfs.lookup(ino(parent), name) {
            Ok(attr) => {
                let (of_name, of_node) = (self.vfs.ttl(attr.ino), self.ttl(&attr));
                reply.entry_with_ttls(&of_node, &of_name, &reply::attr(&attr), GENERATION);
            }
            Err(error) if error.errno() == libc::ENOENT => match self.vfs.changes_by_itself(ino(parent)) {
                true => reply.error(Errno::ENOENT),
                false => reply.entry_with_ttls(&TTL, &TTL, &reply::absent(), GENERATION),
            },
            Err(error) => {
                tracing::debug!("lookup of {name:?}: {error}");
                reply.error(reply::errno(&error));
            }
        });
    }

    fn forget(&self, _request: &Request, node: INodeNo, count: u64) {
        guarded(format_args!("forget {node}, {count} times"), || self.vfs.forget(ino(node), count));
    }

    fn getattr(&self, _request: &Request, node: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        guarded(format_args!("getattr {node}"), || match self.vfs.attr(ino(node)) {
            Ok(attr) => reply.attr(&self.ttl(&attr), &reply::attr(&attr)),
            Err(error) => {
                tracing::debug!("getattr: {error}");
                reply.error(reply::errno(&error));
            }
        });
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        guarded(format_args!("readlink {node}"), || match self.vfs.read_link(ino(node)) {
            Ok(text) => reply.data(text.as_bytes()),
            Err(error) => reply.error(reply::errno(&error)),
        });
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        guarded(format_args!("open {node} {flags:?}"), || {
            let open = OpenFor {
                writing: flags.acc_mode() != OpenAccMode::O_RDONLY,
                appending: flags.0 & libc::O_APPEND != 0,
                truncating: flags.0 & libc::O_TRUNC != 0,
                only_new: false,
            };
            match self.vfs.open_for(ino(node), open, caller::of(request)) {
                Ok(opened_file) => {
                    let (handle, file) = self.files.add(opened_file);
                    match &*file {
                        OpenFile::Writer(_) => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO),
                        OpenFile::Reader(reader) if reader.is_slow() => self.decoding.run(move || {
                            if let OpenFile::Reader(reader) = &*file {
                                opened(reader, handle, reply);
                            }
                        }),
                        OpenFile::Reader(reader) => opened(reader, handle, reply),
                    }
                }
                Err(error) => {
                    tracing::debug!("open: {error}");
                    reply.error(reply::errno(&error));
                }
            }
        });
    }

    fn read(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // A program's own read says whose it is; one for the kernel's cache, or a map, is nobody's.
        let way = if owner.is_some() { reply::For::Program } else { reply::For::Cache };
        guarded(format_args!("read {node} at {offset}, {size} bytes"), || {
            let Some(file) = self.files.get(handle) else { return reply.error(Errno::EBADF) };
            match &*file {
                OpenFile::Writer(writer) => reply::read_writer(writer, offset, size, reply),
                OpenFile::Reader(reader) if reader.is_slow() => {
                    let Some(reply) = reply::read_at_hand(reader, offset, size, reply) else { return };
                    self.decoding.run(move || {
                        if let OpenFile::Reader(reader) = &*file {
                            reply::read(reader, offset, size, way, reply);
                        }
                    });
                }
                OpenFile::Reader(reader) => reply::read(reader, offset, size, way, reply),
            }
        });
    }

    fn flush(&self, request: &Request, node: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        guarded(format_args!("flush {node}"), || {
            if !self
                .writer(handle)
                .is_some_and(|file| matches!(&*file, OpenFile::Writer(writer) if writer.is_concerned()))
            {
                // Nothing is to be decided, nor asked who decides.
                return reply.ok();
            }
            let caller = caller::closing(request);
            self.with_writer(handle, reply, |_| true, move |writer| writer.flush(caller));
        });
    }

    fn fsync(&self, _: &Request, node: INodeNo, handle: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        guarded(format_args!("fsync {node}"), || {
            self.with_writer(handle, reply, |writer| writer.is_slow(), |writer| writer.sync())
        });
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        // What a name stands for was made durable when it got the name.
        guarded(format_args!("fsyncdir"), || reply.ok());
    }

    fn release(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        guarded(format_args!("release {node}"), || {
            let end = |writer: &Writer| {
                writer.release();
                Ok(())
            };
            self.with_writer(handle, reply, |writer| writer.is_slow_release(), end);
            self.files.remove(handle);
        });
    }

    fn opendir(&self, _request: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        guarded(format_args!("opendir {node}"), || self.open_dir(node, reply));
    }

    fn readdir(&self, _: &Request, node: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        guarded(format_args!("readdir {node} from {offset}"), || self.read_dir(handle, offset, reply));
    }

    fn readdirplus(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        guarded(format_args!("readdirplus {node} from {offset}"), || {
            self.read_dir_plus(handle, offset, reply)
        });
    }

    fn releasedir(&self, _: &Request, node: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        guarded(format_args!("releasedir {node}"), || {
            self.dirs.remove(handle);
            reply.ok();
        });
    }

    fn statfs(&self, _request: &Request, node: INodeNo, reply: ReplyStatfs) {
        guarded(format_args!("statfs {node}"), || match self.vfs.space() {
            Ok(space) => reply.statfs(
                space.blocks,
                space.free,
                space.free,
                space.files,
                space.files,
                space.block_size,
                space.name_max,
                space.block_size,
            ),
            Err(error) => reply.error(reply::errno(&error)),
        });
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        guarded(format_args!("getxattr {node} {name:?}"), || self.get_xattr(node, name, size, reply));
    }

    fn listxattr(&self, _request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        guarded(format_args!("listxattr {node}"), || self.list_xattrs(node, size, reply));
    }

    fn access(&self, request: &Request, node: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        guarded(format_args!("access {node} {mask:?}"), || {
            if mask.contains(AccessFlags::W_OK) {
                match self.vfs.can_be_written(ino(node)) {
                    Ok(true) => {}
                    Ok(false) => return reply.error(Errno::EROFS),
                    Err(error) => return reply.error(reply::errno(&error)),
                }
            }
            let wanted = (mask & (AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK)).bits() as u16;
            match self.vfs.attr(ino(node)) {
                Ok(attr) if attr.allows(request.uid(), request.gid(), wanted) => reply.ok(),
                Ok(_) => reply.error(Errno::EACCES),
                Err(error) => reply.error(reply::errno(&error)),
            }
        });
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        // The kernel then takes every file as data from start to end, which it is.
        guarded(format_args!("lseek"), || reply.error(Errno::ENOSYS));
    }

    fn ioctl(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _input: &[u8],
        _size: u32,
        reply: ReplyIoctl,
    ) {
        guarded(format_args!("ioctl"), || reply.error(Errno::ENOTTY));
    }

    fn setattr(
        &self,
        _request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let moment = write::moment;
        let change = Change { mode, uid, gid, size, atime: atime.map(moment), mtime: mtime.map(moment) };
        guarded(format_args!("setattr {node} {change:?}"), || self.change(node, change, handle, reply));
    }

    fn write(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mapped = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        guarded(format_args!("write {node} at {offset}, {} bytes", data.len()), || {
            self.write_to(handle, offset, data, mapped, reply)
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        guarded(format_args!("create {name:?} in {parent}"), || {
            self.make(request, parent, name, mode, flags, reply)
        });
    }

    fn mknod(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        guarded(format_args!("mknod {name:?} in {parent}"), || reply.error(self.no_such_kind(parent)));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        guarded(format_args!("mkdir {name:?} in {parent}"), || reply.error(self.no_such_kind(parent)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        guarded(format_args!("unlink {name:?} in {parent}"), || {
            reply::done(self.vfs.unlink(ino(parent), name), reply)
        });
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        guarded(format_args!("rmdir"), || reply.error(Errno::EROFS));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, text: &Path, reply: ReplyEntry) {
        guarded(format_args!("symlink {name:?} in {parent} to {text:?}"), || {
            self.make_link(request, parent, name, text, reply)
        });
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        guarded(format_args!("rename {name:?} in {parent} to {new_name:?} in {new_parent}"), || {
            self.change_name((parent, name), (new_parent, new_name), flags, reply)
        });
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        guarded(format_args!("link {node} as {name:?} in {parent}"), || {
            self.entry(self.vfs.link(ino(node), ino(parent), name), reply)
        });
    }

    fn setxattr(
        &self,
        _: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        guarded(format_args!("setxattr {node} {name:?}"), || self.set_xattr(node, name, value, flags, reply));
    }

    fn removexattr(&self, _: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        guarded(format_args!("removexattr {node} {name:?}"), || self.remove_xattr(node, name, reply));
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        // The C library then writes zeros itself.
        guarded(format_args!("fallocate"), || reply.error(Errno::EOPNOTSUPP));
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // The kernel then reads and writes.
        guarded(format_args!("copy_file_range"), || reply.error(Errno::ENOSYS));
    }
}
