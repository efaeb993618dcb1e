//! Translation of the kernel's requests into calls of the [`Vfs`], and of the results into replies.
//!
//! This module decides only which thread does the work. A fast request is answered on the thread that
//! received it. Slow work runs on separate workers, so that `ls` and readers of other files never wait
//! for it: parsing and searching a large file, decoding, verifying a whole block, and every request that
//! may end in a save (flush, fsync, release, rename). If a handler panics, its request fails with EIO,
//! and the mount continues.
//!
//! `tree.yaml` and the files beside it bypass the kernel's page cache (FOPEN_DIRECT_IO). The kernel caches the
//! attributes of `tree.yaml` while it shows the saved text. When a save ends, and before its program gets the
//! answer, the kernel is made to ask again for names and attributes; that takes no lock that a request may
//! hold. (Notifications about blocks, which no program writes, come from a thread that answers no request:
//! `vfs/kernel_cache`.) Writes through a mapping of these files arrive as
//! write requests before the flush.
//!
//! - `requests`: the kernel's requests, each passed to the method that answers it
//! - `node`, `dir`, `xattr`: attributes, directory entries, extended attributes
//! - `file`, `read`: open files; the ways in which their bytes reach the kernel
//! - `write`: requests that change files
//! - `queues`: threads for parsing and searching files; `saves`: threads for saves
//! - `reply`: attributes, kinds and errors in fuser's types
//! - `handle`: handles of open files; `caller`: the process that made a request
//! - `notify`: notifications to the kernel; `activity`: the time of the last request

mod activity;
mod caller;
mod dir;
mod file;
mod handle;
mod node;
mod notify;
mod queues;
mod read;
mod reply;
mod requests;
mod saves;
mod write;
mod xattr;

use std::sync::Arc;
use std::time::Duration;

use fuser::{Generation, INodeNo};
use seekable::workers::Workers;

use crate::vfs::{Attr, DirHandle, Ino, OpenFile, Vfs};
pub(crate) use activity::quiet_for;
use handle::Handles;
pub use notify::KernelNotifier;
use queues::Queues;
use saves::Saves;

/// Time that pending replies get after all saves are done.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// Time that programs get to close their files after a save.
const LAST_CLOSING: Duration = Duration::from_secs(1);
/// Generation of every node in the kernel's protocol: inode numbers are never reused.
const GENERATION: Generation = Generation(0);

/// The mount's implementation of fuser's trait [`Filesystem`](fuser::Filesystem).
#[derive(Debug)]
pub struct Adapter(Arc<Server>);

/// The state that all threads share to answer requests.
#[derive(Debug)]
struct Server {
    vfs: Arc<Vfs>,
    files: Arc<Handles<OpenFile>>,
    dirs: Handles<DirHandle>,
    searching: Queues,
    decoding: Workers,
    checking: Workers,
    saving: Arc<Saves>,
}

impl Adapter {
    /// Creates the file system for `vfs`. Starts no thread yet.
    pub fn new(vfs: Vfs) -> Self {
        let cpus = std::thread::available_parallelism().map_or(2, |cpus| cpus.get().max(2));
        Self(Arc::new(Server {
            vfs: Arc::new(vfs),
            files: Arc::new(Handles::new()),
            dirs: Handles::new(),
            searching: Queues::new("search"),
            decoding: Workers::new("read", cpus),
            checking: Workers::new("xattr", 2),
            saving: Arc::new(Saves::new()),
        }))
    }

    /// Returns the tree of nodes.
    pub fn vfs(&self) -> &Arc<Vfs> {
        &self.0.vfs
    }

    /// Returns the part of the file system that can end all writing.
    pub fn writing(&self) -> Writing {
        let Server { vfs, saving, files, .. } = &*self.0;
        Writing { vfs: vfs.clone(), saving: saving.clone(), files: files.clone() }
    }
}

/// The part of a file system that writes. It outlives the threads that answer requests.
#[derive(Debug)]
pub struct Writing {
    /// The tree of nodes.
    pub vfs: Arc<Vfs>,
    saving: Arc<Saves>,
    files: Arc<Handles<OpenFile>>,
}

impl Writing {
    /// Ends all writing ([`Vfs::close`]). Programs that wait for a save get their answer first.
    pub fn end(&self) {
        let was_saving = self.saving.workers.is_busy();
        self.vfs.close();
        self.saving.workers.wait(LAST_ANSWERS);
        // A program that saved by fsync closes its file next, and that close must not fail.
        if was_saving {
            self.files.wait_while_any(|file| matches!(file, OpenFile::Writer(_)), LAST_CLOSING);
        }
        self.saving.workers.wait(LAST_ANSWERS);
    }
}

impl Server {
    /// Returns the time for which the kernel may cache the attributes of a node.
    fn ttl(&self, attr: &Attr) -> Duration {
        self.vfs.ttl(attr.ino).min(attr.ttl())
    }
}

/// Returns an inode number in the type of `vfs`.
fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}
