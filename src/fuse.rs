//! Translates the kernel's requests into calls of the [`Vfs`], and its answers into replies.
//!
//! This module decides only which thread does the work. A request that can be answered at once is
//! answered on the thread that received it. Parsing a large file and looking through it, decoding, the
//! verification of a whole block and whatever may end in a save (flush, fsync, release, rename) run on workers of
//! their own, so that `ls` and readers of other files never wait for them. A handler that panics answers EIO, and the mount lives on.
//!
//! `tree.yaml` and the files beside it bypass the kernel's page cache (FOPEN_DIRECT_IO), and their
//! attributes are valid for no time at all. So the kernel never has to be told of a change, and no
//! notification can meet a request that waits for it. (Notifications about blocks, which no program writes,
//! come from a thread that answers no request: `vfs/kernel_cache`.) A mapping of such a file is written
//! through: its pages arrive as writes before the flush.
//!
//! - `requests`: the kernel's requests, each handed to the method that answers it
//! - `node`, `dir`, `xattr`: what a node is, and what is in it
//! - `file`, `read`: open files, and the ways in which their bytes reach the kernel
//! - `write`: the requests that change something
//! - `queues`: threads for files that are parsed or looked through
//! - `reply`: attributes, kinds and errors in fuser's types
//! - `handle`: the numbers of open files; `caller`: which process made a request
//! - `notify`: what the kernel is told without having asked

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
mod write;
mod xattr;

use std::sync::Arc;
use std::time::Duration;

use fuser::{Generation, INodeNo};

use crate::vfs::{Attr, Ino, Listing, OpenFile, Vfs};
use crate::workers::Workers;
use handle::Handles;
pub use notify::KernelNotifier;
use queues::Queues;

/// How long replies that are under way may take once all saves are done.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// How long programs that have just saved may take to close their files.
const LAST_CLOSING: Duration = Duration::from_secs(1);
/// Inode numbers are never used twice, so every node is of generation 0.
const GENERATION: Generation = Generation(0);

/// The file system that the kernel talks to.
#[derive(Debug)]
pub struct Adapter(Arc<Server>);

/// What answers the requests, on whatever thread.
#[derive(Debug)]
struct Server {
    vfs: Arc<Vfs>,
    files: Arc<Handles<OpenFile>>,
    dirs: Handles<Listing>,
    searching: Queues,
    decoding: Workers,
    checking: Workers,
    saving: Arc<Workers>,
}

impl Adapter {
    /// Serves `vfs`. Starts no thread yet.
    pub fn new(vfs: Vfs) -> Self {
        let cpus = std::thread::available_parallelism().map_or(2, |cpus| cpus.get().max(2));
        Self(Arc::new(Server {
            vfs: Arc::new(vfs),
            files: Arc::new(Handles::new()),
            dirs: Handles::new(),
            searching: Queues::new("search"),
            decoding: Workers::new("decode", cpus),
            checking: Workers::new("verify", 2),
            saving: Arc::new(Workers::new("save", 4)),
        }))
    }

    /// The file system that is served.
    pub fn vfs(&self) -> &Arc<Vfs> {
        &self.0.vfs
    }

    /// Ends writing ([`Vfs::close`]). A program that waits for a save gets its answer first.
    pub fn closer(&self) -> impl Fn() + Send + Sync + 'static {
        let (vfs, saving, files) = (self.0.vfs.clone(), self.0.saving.clone(), self.0.files.clone());
        move || {
            let was_saving = saving.is_busy();
            vfs.close();
            saving.wait(LAST_ANSWERS);
            // A program that saved by fsync closes its file next, and must not get an error there.
            if was_saving {
                files.wait_while_any(|file| matches!(file, OpenFile::Writer(_)), LAST_CLOSING);
            }
            saving.wait(LAST_ANSWERS);
        }
    }
}

impl Server {
    /// How long the attributes of a node are valid for the kernel.
    fn ttl(&self, attr: &Attr) -> Duration {
        self.vfs.ttl(attr.ino).min(attr.ttl())
    }
}

/// A node's number in the type of `vfs`.
fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}
