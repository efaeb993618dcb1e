//! Notifications: what the daemon tells the kernel without a request.

use std::os::fd::OwnedFd;

use fuser::{INodeNo, Notifier};

use crate::error::{Result, errno};
use crate::vfs::{Ino, Kernel};

/// The code of the notification that asks for nodes (`FUSE_NOTIFY_PRUNE`, Linux 6.18), which fuser does not have.
const PRUNE: i32 = 9;

/// Nodes asked for at once.
const AT_ONCE: usize = 4096;

/// Sends notifications to the kernel. Errors are ignored: a node that the kernel does not know has
/// nothing in its cache.
#[derive(Debug)]
pub struct KernelNotifier {
    notifier: Notifier,
    /// The mount's device, for what fuser does not send.
    device: Option<OwnedFd>,
}

impl KernelNotifier {
    /// Notifies through the session's `notifier`, and through the mount's `device`.
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

    fn give_back(&self, inos: &[Ino]) -> Result<()> {
        let device = self.device.as_ref().ok_or_else(|| errno(libc::EBADF))?;
        for inos in inos.chunks(AT_ONCE) {
            rustix::io::write(device, &prune(inos))?;
        }
        Ok(())
    }
}

/// The notification that asks for nodes: `fuse_out_header`, `fuse_notify_prune_out`, the numbers.
#[allow(clippy::host_endian_bytes)] // the kernel's structures
fn prune(inos: &[Ino]) -> Vec<u8> {
    let len = 16 + 16 + inos.len() * 8;
    let mut message = Vec::with_capacity(len);
    message.extend((len as u32).to_ne_bytes());
    message.extend(PRUNE.to_ne_bytes());
    message.extend([0; 8]);
    message.extend((inos.len() as u32).to_ne_bytes());
    message.extend([0; 12]);
    inos.iter().for_each(|ino| message.extend(ino.0.to_ne_bytes()));
    message
}
