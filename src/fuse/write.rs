//! Requests that change files, except their extended attributes.

use std::ffi::OsString;

use fuser::{
    Errno, FileHandle, FopenFlags, INodeNo, RenameFlags, ReplyAttr, ReplyCreate, ReplyEmpty, ReplyEntry,
    ReplyWrite, Request, TimeOrNow,
};
use seekable::error::Result;

use super::{GENERATION, Server, ino, reply};
use crate::overlay::change::{Change, TimeSpec};
use crate::overlay::naming::{Maker, Renaming, is_slow_rename};
use crate::overlay::write_handle::OpenFor;
use crate::vfs::{Attr, NameIn, OpenFile, OverlayWriter};

/// Returns a time from setattr in the overlay's type.
pub(super) fn time_spec(time: TimeOrNow) -> TimeSpec {
    match time {
        TimeOrNow::Now => TimeSpec::Now,
        TimeOrNow::SpecificTime(time) => TimeSpec::At(time),
    }
}

/// Returns the user, group and mode for a new file.
pub(super) fn maker(request: &Request, mode: u32) -> Maker {
    Maker { uid: request.uid(), gid: request.gid(), mode }
}

/// Returns how a create request with these `flags` opens the file.
pub(super) fn open_new(flags: i32) -> OpenFor {
    OpenFor {
        writing: flags & libc::O_ACCMODE != libc::O_RDONLY,
        appending: flags & libc::O_APPEND != 0,
        truncating: flags & libc::O_TRUNC != 0,
        only_new: flags & libc::O_EXCL != 0,
    }
}

/// Replies to a write.
pub(super) fn written(written: std::result::Result<u32, Errno>, reply: ReplyWrite) {
    match written {
        Ok(len) => reply.written(len),
        Err(errno) => reply.error(errno),
    }
}

impl Server {
    pub(super) fn change(&self, node: INodeNo, change: Change, handle: Option<FileHandle>, reply: ReplyAttr) {
        let file = handle.and_then(|handle| self.writer(handle));
        let writer = file.as_deref().and_then(|file| match file {
            OpenFile::Writer(writer) => Some(writer),
            OpenFile::Reader(_) => None,
        });
        match self.vfs.change(ino(node), change, writer) {
            Ok(attr) => reply.attr(&self.vfs.ttl(attr.ino), &reply::attr(&attr)),
            Err(error) => reply.error(reply::errno(&error)),
        }
    }

    /// Writes all of `data`, and returns its length.
    pub(super) fn write_to(
        &self,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        mapped: bool,
    ) -> std::result::Result<u32, Errno> {
        let file = self.writer(handle).ok_or(Errno::EBADF)?;
        let OpenFile::Writer(writer) = &*file else { return Err(Errno::EBADF) };
        writer.write(offset, data, mapped).map_err(|error| reply::errno(&error))?;
        u32::try_from(data.len()).map_err(|_| Errno::EINVAL)
    }

    pub(super) fn created(&self, created: Result<(Attr, OverlayWriter)>, reply: ReplyCreate) {
        match created {
            Ok((attr, writer)) => {
                let (handle, _) = self.files.add(OpenFile::Writer(writer));
                let flags = FopenFlags::FOPEN_DIRECT_IO;
                reply.created(&self.vfs.ttl(attr.ino), &reply::attr(&attr), GENERATION, handle, flags);
            }
            Err(error) => {
                tracing::debug!("create: {error}");
                reply.error(reply::errno(&error));
            }
        }
    }

    pub(super) fn entry(&self, found: Result<Attr>, reply: ReplyEntry) {
        match found {
            Ok(attr) => reply.entry(&self.vfs.ttl(attr.ino), &reply::attr(&attr), GENERATION),
            Err(error) => reply.error(reply::errno(&error)),
        }
    }

    pub(super) fn change_name(
        &self,
        (parent, name): (INodeNo, OsString),
        (new_parent, new_name): (INodeNo, OsString),
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let how = match flags {
            flags if flags.is_empty() => Renaming::Over,
            RenameFlags::RENAME_NOREPLACE => Renaming::NoReplace,
            RenameFlags::RENAME_EXCHANGE => Renaming::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let is_slow = is_slow_rename(&name, &new_name, how);
        let vfs = self.vfs.clone();
        let rename = move || {
            let old = NameIn { parent: ino(parent), name: &name };
            let new = NameIn { parent: ino(new_parent), name: &new_name };
            reply::done(vfs.rename(old, new, how), reply);
        };
        if !is_slow {
            return rename();
        }
        self.saving.run(self.vfs.file_system(ino(new_parent)), rename);
    }

    /// Returns the error for creating a special file: only files, directories and symbolic links can be created.
    pub(super) fn no_such_kind(&self, parent: INodeNo) -> Errno {
        if self.vfs.can_be_written(ino(parent)).unwrap_or(false) { Errno::EPERM } else { Errno::EROFS }
    }
}
