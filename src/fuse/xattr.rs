//! Requests about extended attributes.

use std::ffi::OsStr;

use fuser::{Errno, INodeNo, ReplyEmpty, ReplyXattr};
use seekable::error::Result;

use super::{Server, ino, reply};
use crate::overlay::xattr::XattrCondition;
use crate::vfs::Xattr;

/// Replies with an attribute's value or with the list of names; if `size` is 0, with the length only.
pub(super) fn answer(value: &[u8], size: u32, reply: ReplyXattr) {
    match u32::try_from(value.len()) {
        Ok(len) if size == 0 => reply.size(len),
        Ok(len) if len <= size => reply.data(value),
        _ => reply.error(Errno::ERANGE),
    }
}

impl Server {
    pub(super) fn get_xattr(&self, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.vfs.xattr(ino(node), name) {
            Ok(Xattr::Ready(value)) => answer(&value, size, reply),
            Ok(Xattr::Slow(find)) => self.checking.run(move || match find() {
                Ok(value) => answer(&value, size, reply),
                Err(error) => reply.error(reply::errno(&error)),
            }),
            Ok(Xattr::Absent) => reply.error(Errno::NO_XATTR),
            Err(error) => reply.error(reply::errno(&error)),
        }
    }

    pub(super) fn list_xattrs(&self, node: INodeNo, size: u32, reply: ReplyXattr) {
        match self.vfs.xattr_names(ino(node)) {
            Ok(names) => answer(&names, size, reply),
            Err(error) => reply.error(reply::errno(&error)),
        }
    }

    pub(super) fn set_xattr(&self, node: INodeNo, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        let condition = match flags {
            libc::XATTR_CREATE => XattrCondition::IsMissing,
            libc::XATTR_REPLACE => XattrCondition::Exists,
            _ => XattrCondition::None,
        };
        self.vfs.set_xattr(ino(node), name, Some(value), condition)
    }

    pub(super) fn remove_xattr(&self, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply::done(self.vfs.set_xattr(ino(node), name, None, XattrCondition::None), reply);
    }
}
