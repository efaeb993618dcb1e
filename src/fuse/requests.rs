//! The kernel's requests, each passed to the method that answers it.

use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::SystemTime;
use std::{fmt, io};

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::queues::Turn;
use super::read::{Purpose, ReadRequest};
use super::reply::Refuse;
use super::{Adapter, Server, activity, caller, ino, reply, write, xattr};
use crate::overlay::change::Change;
use crate::vfs::{Asked, Delay, GONE, NameIn, is_of_mount, may_be_xattr};

/// Capabilities that the mount uses if the kernel has them.
const WANTED: [InitFlags; 7] = [
    // The open request does the truncation, so that the truncating handle is known.
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    // A new size or modification time drops a file's cached pages.
    InitFlags::FUSE_AUTO_INVAL_DATA,
    // Files opened for direct I/O can still be mapped.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ASYNC_DIO,
];
/// Maximum number of pending read-ahead requests.
const BACKGROUND: u16 = 64;
/// Maximum length of a write, and thereby of a read, in bytes.
const MAX_WRITE: u32 = 1 << 20;

/// Logs a request and runs its handler. If the handler panics, its reply is dropped, and
/// the request fails with EIO.
fn guarded(request: fmt::Arguments<'_>, handler: impl FnOnce()) {
    activity::note();
    unnoted(request, handler);
}

/// Runs a handler like [`guarded`], for a request that does not keep an idle mount from ending.
fn unnoted(request: fmt::Arguments<'_>, handler: impl FnOnce()) {
    tracing::debug!(target: "asdf_mount::fuse", "{request}");
    if catch_unwind(AssertUnwindSafe(handler)).is_err() {
        tracing::error!("{request} panicked: it was answered with EIO");
    }
}

/// A request of a program: the node, and the part of it that it asks for.
#[derive(Clone, Copy)]
struct Question<'a> {
    node: INodeNo,
    asked: Asked<'a>,
    /// The program's thread.
    thread: u32,
}

impl Adapter {
    /// Answers a request at once, or on another thread if it is slow.
    fn answer(
        &self,
        node: INodeNo,
        asked: Asked<'_>,
        request: fmt::Arguments<'_>,
        handler: impl FnOnce(&Server) + Send + 'static,
    ) {
        let Some(delay) = self.delay(node, asked) else { return unnoted(request, || handler(&self.0)) };
        let server = self.0.clone();
        let request = request.to_string();
        self.0.searching.run(delay, move || unnoted(format_args!("{request}"), || handler(&server)));
    }

    /// Records the use of the mount, and returns the reason why a request is slow; `None` if it is fast.
    fn delay(&self, node: INodeNo, asked: Asked<'_>) -> Option<Delay> {
        // If this panics, the handler is called all the same: it panics, too, and its request fails with EIO.
        let delay = catch_unwind(AssertUnwindSafe(|| self.0.vfs.delay(ino(node), asked)));
        // Programs that list mounts or free space ask for the root's attributes only, so these requests do
        // not count as use of the mount.
        if node != INodeNo::ROOT || !matches!(asked, Asked::Itself) {
            activity::note();
        }
        delay.ok().flatten()
    }

    /// Answers a program's request that changes nothing. If the request waits for a stalling file system, a
    /// signal that ends the program ends the wait, too.
    fn answer_program<R: Refuse>(
        &self,
        question: Question<'_>,
        reply: R,
        request: fmt::Arguments<'_>,
        handler: impl FnOnce(&Server, R) + Send + 'static,
    ) {
        let Some(delay) = self.delay(question.node, question.asked) else {
            return unnoted(request, || handler(&self.0, reply));
        };
        let server = self.0.clone();
        let request = request.to_string();
        if delay.stalling.is_none() {
            let run = move || unnoted(format_args!("{request}"), || handler(&server, reply));
            return self.0.searching.run(delay, run);
        }
        self.0.searching.run_for(question.thread, delay, move |turn| match turn {
            Turn::Next => unnoted(format_args!("{request}"), || handler(&server, reply)),
            Turn::Interrupted => reply.refuse(Errno::EINTR),
        });
    }

    /// Answers a request that is slow only on a stalling file system.
    fn answer_foreign(
        &self,
        node: INodeNo,
        request: fmt::Arguments<'_>,
        handler: impl FnOnce(&Server) + Send + 'static,
    ) {
        match self.0.vfs.stalling(ino(node)) {
            Some(_) => self.answer(node, Asked::Itself, request, handler),
            None if node == INodeNo::ROOT => unnoted(request, || handler(&self.0)),
            None => guarded(request, || handler(&self.0)),
        }
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in WANTED {
            // Older kernels lack some of these capabilities.
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_background(BACKGROUND);
        let _ = config.set_max_write(MAX_WRITE);
        Ok(())
    }

    fn destroy(&mut self) {
        self.0.files.clear();
        self.0.dirs.clear();
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let question = Question { node: parent, asked: Asked::Name(name), thread: request.pid() };
        let own = name.to_owned();
        let words = format_args!("lookup {name:?} in {parent}");
        self.answer_program(question, reply, words, move |server, reply| server.look_up(parent, &own, reply));
    }

    fn forget(&self, _request: &Request, node: INodeNo, count: u64) {
        guarded(format_args!("forget {node}, {count} times"), || self.0.vfs.forget(ino(node), count));
    }

    fn getattr(&self, request: &Request, node: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let question = Question { node, asked: Asked::Itself, thread: request.pid() };
        self.answer_program(question, reply, format_args!("getattr {node}"), move |server, reply| {
            server.get_attr(node, reply);
        });
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        guarded(format_args!("readlink {node}"), || self.0.read_link(node, reply));
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let thread = request.pid();
        let uid = request.uid();
        let words = format_args!("open {node} {flags:?}");
        let question = Question { node, asked: Asked::Itself, thread };
        // An open for writing may truncate the file, so no signal ends it early.
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return self.answer(node, Asked::Itself, words, move |server| {
                server.open_file(thread, uid, node, flags, reply);
            });
        }
        self.answer_program(question, reply, words, move |server, reply| {
            server.open_file(thread, uid, node, flags, reply);
        });
    }

    fn read(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let thread = request.pid();
        let purpose = if owner.is_some() { Purpose::Program } else { Purpose::Cache };
        guarded(format_args!("read {node} at {offset}, {size} bytes"), || {
            self.0.read_file(handle, ReadRequest { thread, offset, size, purpose }, reply)
        });
    }

    fn flush(&self, request: &Request, node: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        guarded(format_args!("flush {node}"), || self.0.flush_file(request, handle, reply));
    }

    fn fsync(&self, _: &Request, node: INodeNo, handle: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        guarded(format_args!("fsync {node}"), || self.0.sync_file(handle, reply));
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        // Files are already durable when they get their names.
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
        // Dropping the handle may close files, which may be slow.
        self.answer_foreign(node, format_args!("release {node}"), move |server| {
            server.release_file(handle, reply);
        });
    }

    fn opendir(&self, request: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let question = Question { node, asked: Asked::Opening, thread: request.pid() };
        self.answer_program(question, reply, format_args!("opendir {node}"), move |server, reply| {
            server.open_dir(node, reply);
        });
    }

    fn readdir(&self, by: &Request, node: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        let question = Question { node, asked: Asked::Listing, thread: by.pid() };
        let request = format_args!("readdir {node} from {offset}");
        if self.0.is_listed(handle, offset) {
            return guarded(request, || reply.ok());
        }
        self.answer_program(question, reply, request, move |server, reply| {
            server.read_dir(handle, offset, reply);
        });
    }

    fn readdirplus(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let question = Question { node, asked: Asked::Listing, thread: request.pid() };
        let words = format_args!("readdirplus {node} from {offset}");
        if self.0.is_listed(handle, offset) {
            return guarded(words, || reply.ok());
        }
        self.answer_program(question, reply, words, move |server, reply| {
            server.read_dir_plus(handle, offset, reply);
        });
    }

    fn releasedir(&self, _: &Request, node: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        guarded(format_args!("releasedir {node}"), || {
            self.0.dirs.remove(handle);
            reply.ok();
        });
    }

    fn statfs(&self, _request: &Request, node: INodeNo, reply: ReplyStatfs) {
        self.answer_foreign(INodeNo::ROOT, format_args!("statfs {node}"), move |server| {
            server.tell_space(reply);
        });
    }

    fn getxattr(&self, by: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if !may_be_xattr(name) {
            return guarded(format_args!("getxattr {node} {name:?}"), || reply.error(Errno::EOPNOTSUPP));
        }
        if node == INodeNo::ROOT && is_of_mount(name) {
            return unnoted(format_args!("getxattr {node} {name:?}"), || {
                self.0.get_xattr(node, name, size, reply)
            });
        }
        let own = name.to_owned();
        if node == INodeNo::ROOT && name == GONE {
            return self.answer_foreign(node, format_args!("getxattr {node} {name:?}"), move |server| {
                server.get_xattr(node, &own, size, reply);
            });
        }
        let question = Question { node, asked: Asked::Derived, thread: by.pid() };
        self.answer_program(
            question,
            reply,
            format_args!("getxattr {node} {name:?}"),
            move |server, reply| {
                server.get_xattr(node, &own, size, reply);
            },
        );
    }

    fn listxattr(&self, request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        let question = Question { node, asked: Asked::Derived, thread: request.pid() };
        guarded(format_args!("listxattr {node}"), || match self.0.vfs.xattr_names_unparsed(ino(node)) {
            Some(names) => xattr::answer(&names, size, reply),
            None => self.answer_program(
                question,
                reply,
                format_args!("listxattr {node}"),
                move |server, reply| {
                    server.list_xattrs(node, size, reply);
                },
            ),
        });
    }

    fn access(&self, request: &Request, node: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let user = (request.uid(), request.gid());
        let question = Question { node, asked: Asked::Derived, thread: request.pid() };
        self.answer_program(question, reply, format_args!("access {node} {mask:?}"), move |server, reply| {
            server.check_access(user, node, mask, reply);
        });
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        // On ENOSYS the kernel treats every file as data without holes.
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
        request: &Request,
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
        let time = write::time_spec;
        let atime = atime.map(time);
        let mtime = mtime.map(time);
        let change = Change { by: request.uid(), mode, uid, gid, size, atime, mtime };
        self.answer(node, Asked::Itself, format_args!("setattr {node} {change:?}"), move |server| {
            server.change(node, change, handle, reply);
        });
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
        let request = format_args!("write {node} at {offset}, {} bytes", data.len());
        if self.0.vfs.stalling(ino(node)).is_none() {
            return guarded(request, || write::written(self.0.write_to(handle, offset, data, mapped), reply));
        }
        let data = data.to_owned();
        self.answer(node, Asked::Itself, request, move |server| {
            write::written(server.write_to(handle, offset, &data, mapped), reply);
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
        let own = name.to_owned();
        let maker = write::maker(request, mode);
        let thread = request.pid();
        self.answer(parent, Asked::Name(name), format_args!("create {name:?} in {parent}"), move |server| {
            let open = write::open_new(flags);
            let new = NameIn { parent: ino(parent), name: &own };
            server.created(server.vfs.create(new, maker, open, caller::of(thread, maker.uid)), reply);
        });
    }

    fn mknod(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        guarded(format_args!("mknod {name:?} in {parent}"), || reply.error(self.0.no_such_kind(parent)));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let maker = write::maker(request, mode);
        let own = name.to_owned();
        self.answer(parent, Asked::Name(name), format_args!("mkdir {name:?} in {parent}"), move |server| {
            server.entry(server.vfs.make_dir(NameIn { parent: ino(parent), name: &own }, maker), reply);
        });
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let own = name.to_owned();
        self.answer(parent, Asked::Name(name), format_args!("unlink {name:?} in {parent}"), move |server| {
            reply::done(server.vfs.unlink(NameIn { parent: ino(parent), name: &own }), reply);
        });
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let own = name.to_owned();
        self.answer(parent, Asked::Name(name), format_args!("rmdir {name:?} in {parent}"), move |server| {
            reply::done(server.vfs.remove_dir(NameIn { parent: ino(parent), name: &own }), reply);
        });
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, text: &Path, reply: ReplyEntry) {
        let maker = write::maker(request, 0o777);
        let own = name.to_owned();
        let to = text.to_owned();
        let words = format_args!("symlink {name:?} in {parent} to {text:?}");
        self.answer(parent, Asked::Name(name), words, move |server| {
            let new = NameIn { parent: ino(parent), name: &own };
            server.entry(server.vfs.symlink(new, to.into(), maker), reply);
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
        let old = name.to_owned();
        let new = new_name.to_owned();
        let request = format_args!("rename {name:?} in {parent} to {new_name:?} in {new_parent}");
        self.answer(new_parent, Asked::Name(new_name), request, move |server| {
            server.change_name((parent, old), (new_parent, new), flags, reply);
        });
    }

    fn link(&self, asking: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let uid = asking.uid();
        let own = name.to_owned();
        let request = format_args!("link {node} as {name:?} in {parent}");
        self.answer(parent, Asked::Name(name), request, move |server| {
            let new = NameIn { parent: ino(parent), name: &own };
            server.entry(server.vfs.link(ino(node), new, uid), reply);
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
        let own = name.to_owned();
        let value = value.to_owned();
        self.answer(node, Asked::Itself, format_args!("setxattr {node} {name:?}"), move |server| {
            reply::done(server.set_xattr(node, &own, &value, flags), reply);
        });
    }

    fn removexattr(&self, _: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let own = name.to_owned();
        self.answer(node, Asked::Itself, format_args!("removexattr {node} {name:?}"), move |server| {
            server.remove_xattr(node, &own, reply);
        });
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        // On EOPNOTSUPP the C library writes zeros itself.
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
        // On ENOSYS the kernel reads and writes instead.
        guarded(format_args!("copy_file_range"), || reply.error(Errno::ENOSYS));
    }
}
