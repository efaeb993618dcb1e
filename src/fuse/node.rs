//! Requests about one node: lookup, attributes, link target, permissions, space.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{AccessFlags, INodeNo, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyStatfs};

use super::{GENERATION, Server, ino, reply};
use crate::vfs::TTL;

impl Server {
    pub(super) fn look_up(&self, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.vfs.lookup(ino(parent), name) {
            Ok(attr) => {
                let of_name = self.vfs.ttl_of_name(attr.ino);
                let of_node = self.ttl(&attr);
                reply.entry_with_ttls(&of_node, &of_name, &reply::attr(&attr), GENERATION);
            }
            Err(error) if error.errno() == libc::ENOENT && !self.vfs.changes_by_itself(ino(parent)) => {
                reply.entry_with_ttls(&TTL, &TTL, &reply::absent(), GENERATION);
            }
            Err(error) => {
                tracing::debug!("lookup of {name:?}: {error}");
                reply.error(reply::errno(&error));
            }
        }
    }

    pub(super) fn get_attr(&self, node: INodeNo, reply: ReplyAttr) {
        match self.vfs.attr(ino(node)) {
            Ok(attr) => reply.attr(&self.ttl(&attr), &reply::attr(&attr)),
            Err(error) => {
                tracing::debug!("getattr: {error}");
                reply.error(reply::errno(&error));
            }
        }
    }

    pub(super) fn read_link(&self, node: INodeNo, reply: ReplyData) {
        match self.vfs.read_link(ino(node)) {
            Ok(text) => reply.data(text.as_bytes()),
            Err(error) => reply.error(reply::errno(&error)),
        }
    }

    pub(super) fn check_access(
        &self,
        (uid, gid): (u32, u32),
        node: INodeNo,
        mask: AccessFlags,
        reply: ReplyEmpty,
    ) {
        let wanted = (mask & (AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK)).bits() as u16;
        reply::done(self.vfs.check_access(ino(node), uid, gid, wanted), reply);
    }

    pub(super) fn tell_space(&self, reply: ReplyStatfs) {
        match self.vfs.space() {
            // A mount itself uses no blocks: it is never full, and has room as its source has.
            Ok(space) => reply.statfs(
                space.blocks,
                space.blocks,
                space.free,
                space.files,
                space.files,
                space.block_size,
                space.name_max,
                space.block_size,
            ),
            Err(error) => reply.error(reply::errno(&error)),
        }
    }
}
