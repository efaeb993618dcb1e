//! A filesystem with one file, until the tree of nodes is joined.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr,
    ReplyData, ReplyDirectory, ReplyEntry, ReplyXattr, Request,
};

use crate::cli::exit;
use crate::daemon::{PID_ATTRIBUTE, Plan, Served};
use crate::error::Result;

const TTL: Duration = Duration::from_secs(1);
const FILE: INodeNo = INodeNo(2);

#[derive(Debug)]
pub(crate) struct Stub {
    text: Vec<u8>,
    uid: u32,
    gid: u32,
    umask: u32,
}

pub(crate) fn open(plan: &Plan) -> Result<Served<Stub>> {
    let source = &plan.sources[0];
    let text = if source.is_dir() { Vec::new() } else { std::fs::read(source)? };
    let uid = plan.options.uid.unwrap_or_else(|| rustix::process::getuid().as_raw());
    let gid = plan.options.gid.unwrap_or_else(|| rustix::process::getgid().as_raw());
    let filesystem = Stub { text, uid, gid, umask: plan.options.umask.unwrap_or(0o022) };
    Ok(Served { filesystem, notify: Box::new(|_| {}) })
}

pub(crate) fn check(_files: &[PathBuf], _json: bool) -> u8 {
    exit::UNREADABLE
}

impl Stub {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let (kind, mode, size) = match ino {
            FILE => (FileType::RegularFile, 0o644, self.text.len() as u64),
            _ => (FileType::Directory, 0o755, 0),
        };
        let perm = mode & !(self.umask as u16);
        FileAttr {
            ino,
            size,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Stub {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == "tree.yaml" {
            true => reply.entry(&TTL, &self.attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(ino));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.text.len());
        let end = start.saturating_add(size as usize).min(self.text.len());
        reply.data(&self.text[start..end]);
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if offset == 0 {
            let _ = reply.add(FILE, 1, FileType::RegularFile, "tree.yaml");
        }
        reply.ok();
    }

    fn getxattr(&self, _: &Request, _: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let pid = std::process::id().to_string();
        match (name == PID_ATTRIBUTE, size) {
            (true, 0) => reply.size(pid.len() as u32),
            (true, _) => reply.data(pid.as_bytes()),
            _ => reply.error(Errno::ENODATA),
        }
    }
}
