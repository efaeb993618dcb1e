//! Notifications to the kernel: messages without a request.

use std::os::fd::OwnedFd;

use fuser::{INodeNo, Notifier};
use seekable::error::{Result, errno};

use crate::vfs::{Ino, Kernel};

/// Code of the notification that makes the kernel look up every name again (`FUSE_NOTIFY_INC_EPOCH`, Linux
/// 6.16), which fuser lacks.
const INC_EPOCH: i32 = 8;

/// Code of the notification that asks the kernel to drop nodes (`FUSE_NOTIFY_PRUNE`, Linux
/// 6.18), which fuser lacks.
const PRUNE: i32 = 9;

/// Maximum number of nodes in one notification.
const AT_ONCE: usize = 4096;

/// A sender of notifications to the kernel. Errors about one node are ignored: if the kernel does not
/// know a node, it has no cached bytes or attributes of the node.
#[derive(Debug)]
pub struct KernelNotifier {
    notifier: Notifier,
    /// The mount's device, for the notifications that fuser lacks.
    device: Option<OwnedFd>,
}

impl KernelNotifier {
    /// Creates a notifier from the session's `notifier` and the mount's `device`.
    pub fn new(notifier: Notifier, device: Option<OwnedFd>) -> Self {
        Self { notifier, device }
    }
}

impl Kernel for KernelNotifier {
    fn keep(&self, ino: Ino, offset: u64, bytes: &[u8]) {
        let _ = self.notifier.store(INodeNo(ino.0), offset, bytes);
    }

    fn forget(&self, ino: Ino) {
        let _ = self.notifier.inval_inode(INodeNo(ino.0), 0, 0);
    }

    fn renew_attributes(&self, ino: Ino) {
        // Invalidating attributes alone takes no lock that a request may hold.
        let _ = self.notifier.inval_inode(INodeNo(ino.0), -1, 0);
    }

    fn renew_names(&self) -> Result<()> {
        let device = self.device.as_ref().ok_or_else(|| errno(libc::EBADF))?;
        rustix::io::write(device, &header(INC_EPOCH, 0))?;
        Ok(())
    }

    fn give_back(&self, inos: &[Ino]) -> Result<()> {
        let device = self.device.as_ref().ok_or_else(|| errno(libc::EBADF))?;
        for batch in inos.chunks(AT_ONCE) {
            rustix::io::write(device, &prune(batch))?;
        }
        Ok(())
    }
}

/// Returns the header of a notification, `fuse_out_header`, before `len` bytes.
#[allow(clippy::host_endian_bytes)] // native byte order, as in the kernel's structures
fn header(code: i32, len: usize) -> Vec<u8> {
    let len = 16 + len;
    let mut message = Vec::with_capacity(len);
    message.extend((len as u32).to_ne_bytes());
    message.extend(code.to_ne_bytes());
    message.extend([0; 8]);
    message
}

/// Returns the notification that asks the kernel to drop nodes: header, `fuse_notify_prune_out`, inode
/// numbers.
#[allow(clippy::host_endian_bytes)] // native byte order, as in the kernel's structures
fn prune(inos: &[Ino]) -> Vec<u8> {
    let mut message = header(PRUNE, 16 + inos.len() * 8);
    message.extend((inos.len() as u32).to_ne_bytes());
    message.extend([0; 12]);
    for ino in inos {
        message.extend(ino.0.to_ne_bytes());
    }
    message
}
