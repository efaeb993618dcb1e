//! Requests that read directories.

use std::sync::Arc;

use fuser::{Errno, FileHandle, FopenFlags, INodeNo, ReplyDirectory, ReplyDirectoryPlus, ReplyOpen};

use super::{GENERATION, Server, ino, reply};
use crate::vfs::{DirHandle, TTL};

impl Server {
    pub(super) fn open_dir(&self, node: INodeNo, reply: ReplyOpen) {
        match self.vfs.open_dir(ino(node)) {
            Ok(listing) => reply.opened(self.dirs.add(listing).0, FopenFlags::empty()),
            Err(error) => {
                tracing::debug!("opendir: {error}");
                reply.error(reply::errno(&error));
            }
        }
    }

    fn dir(&self, handle: FileHandle) -> Result<Arc<DirHandle>, Errno> {
        self.dirs.get(handle).ok_or(Errno::EBADF)
    }

    /// True if a listing has no entry from `offset` on: it was read to its end.
    pub(super) fn is_listed(&self, handle: FileHandle, offset: u64) -> bool {
        self.dirs.get(handle).is_some_and(|listing| listing.ends_at(offset))
    }

    pub(super) fn read_dir(&self, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listing = match self.dir(handle) {
            Ok(listing) => listing,
            Err(errno) => return reply.error(errno),
        };
        let done = self.vfs.read_dir(&listing, offset, false, &mut |item| {
            reply.add(INodeNo(item.ino.0), item.next, reply::kind(item.kind), item.name)
        });
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(reply::errno(&error)),
        }
    }

    /// Returns directory entries together with their attributes (READDIRPLUS).
    pub(super) fn read_dir_plus(&self, handle: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let listing = match self.dir(handle) {
            Ok(listing) => listing,
            Err(errno) => return reply.error(errno),
        };
        let done = self.vfs.read_dir(&listing, offset, true, &mut |item| {
            let kernel_attr = item.attr.as_ref().map(reply::attr).unwrap_or(fuser::FileAttr {
                // For `.` and `..` the kernel uses only these two fields.
                ino: INodeNo(item.ino.0),
                kind: reply::kind(item.kind),
                ..reply::absent()
            });
            let ttl =
                item.attr.as_ref().map_or(TTL, |attr| attr.ttl().min(self.vfs.ttl_in_listing(attr.ino)));
            reply.add(kernel_attr.ino, item.next, item.name, &ttl, &kernel_attr, GENERATION)
        });
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(reply::errno(&error)),
        }
    }
}
