//! The directory `.asdf-mount/history/`: the texts that saves replaced, named after the times of the saves.

use std::ffi::OsStr;
use std::sync::{Arc, OnceLock};

use asdf_file::edit::context::SaveTarget;
use asdf_file::folder::{Dir, EntryKind, File, Node, Renewal, Signature};
use asdf_file::history::{Digest, History, Save};
use seekable::content::{Content, copy_from, read_exact_at};
use seekable::error::{Error, Result};

/// A callback that returns the mounted file.
pub(crate) type FindTarget = Arc<dyn Fn() -> Result<SaveTarget> + Send + Sync>;

/// The directory of replaced texts, in one generation of a file.
pub(super) struct HistoryDir {
    history: Arc<History>,
    target: FindTarget,
    tree: Arc<dyn Content>,
    /// The saves from the oldest to the newest, once they have been read.
    changes: OnceLock<Vec<Save>>,
}

impl std::fmt::Debug for HistoryDir {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("HistoryDir").field("history", &self.history).finish_non_exhaustive()
    }
}

impl HistoryDir {
    /// Creates the directory for a file whose present text is `tree`.
    pub(super) fn new(history: Arc<History>, target: FindTarget, tree: Arc<dyn Content>) -> Self {
        Self { history, target, tree, changes: OnceLock::new() }
    }

    fn changes(&self) -> Result<&[Save]> {
        if let Some(changes) = self.changes.get() {
            return Ok(changes);
        }
        let target = (self.target)()?;
        let now = || {
            let mut text = vec![0; usize::try_from(self.tree.len()).unwrap_or(usize::MAX)];
            read_exact_at(&*self.tree, 0, &mut text).map(|()| Digest::of(&text))
        };
        let mut changes = self.history.changes((target.dir(), target.name()), now)?;
        changes.retain(|change| change.is_own && !change.is_omitted);
        changes.reverse();
        Ok(self.changes.get_or_init(|| changes))
    }
}

impl Dir for HistoryDir {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        let found = self.changes()?.iter().rev().find(|change| name == &*change.name);
        Ok(found.map(|change| {
            let content =
                Replaced { history: self.history.clone(), change: change.clone(), text: OnceLock::new() };
            let signature = Signature::new(format!("{} {:?}", change.name, change.old));
            let file = File::new(Arc::new(content));
            Node::File(File { renewal: Renewal::WhileSame(signature), mtime: Some(change.time), ..file })
        }))
    }

    fn is_slow(&self) -> bool {
        self.history.is_slow()
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        for change in self.changes()?.iter().skip(from) {
            if !take(OsStr::new(&change.name), EntryKind::File) {
                break;
            }
        }
        Ok(())
    }
}

/// A replaced text, read when it is needed.
#[derive(Debug)]
struct Replaced {
    history: Arc<History>,
    change: Save,
    text: OnceLock<std::result::Result<Vec<u8>, Error>>,
}

impl Content for Replaced {
    fn len(&self) -> u64 {
        self.change.old.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let text =
            self.text.get_or_init(|| self.history.text(&self.change)).as_ref().map_err(Clone::clone)?;
        Ok(copy_from(text, offset, buf))
    }

    /// True before the first read, which opens a file of the state directory. The directory may be on a
    /// server.
    fn is_slow(&self) -> bool {
        self.history.is_slow() && self.text.get().is_none()
    }
}
