//! What the kernel is told without having asked.

use fuser::{INodeNo, Notifier};

use crate::vfs::{Ino, Kernel};

/// Sends notifications to the kernel. Errors are ignored: a node that the kernel does not know has
/// nothing in its cache.
#[derive(Debug)]
pub struct KernelNotifier(Notifier);

impl KernelNotifier {
    /// Notifies through the session's `notifier`.
    pub fn new(notifier: Notifier) -> Self {
        Self(notifier)
    }
}

impl Kernel for KernelNotifier {
    fn keep(&self, ino: Ino, offset: u64, bytes: &[u8]) {
        let _ = self.0.store(INodeNo(ino.0), offset, bytes);
    }

    fn forget(&self, ino: Ino) {
        let _ = self.0.inval_inode(INodeNo(ino.0), 0, 0);
    }
}
