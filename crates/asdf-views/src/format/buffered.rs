//! The views that Bloscpack files and Blosc2 frames have in common: both are rows of Blosc buffers.

use std::ffi::OsStr;
use std::sync::Arc;

use asdf_file::container::{Defect, Severity};
use asdf_file::folder::{Dir, EntryKind, File, Node, Renewal, Signature};
use seekable::codec::blosc::{Buffers, Payload};
use seekable::content::Content;
use seekable::error::{Error, Result};

/// Name of the one array.
const DATA: &str = "data.npy";

/// Returns the damage found by the reads of a payload so far.
pub(super) fn damage(payload: &Payload, buffers: &dyn Buffers) -> Vec<Defect> {
    let defect = |at: u64, error: Error| {
        let n = error.block().or_else(|| buffers.buffer_at(at).ok().flatten().map(|run| run.n));
        Defect {
            severity: Severity::of(&error),
            offset: error.offset().unwrap_or(0),
            block: n.and_then(|n| usize::try_from(n).ok()),
            what: error.message_in_block(),
        }
    };
    payload.damage().into_iter().map(|(at, error)| defect(at, error)).collect()
}

/// Creates a file that is readable while the source keeps its version.
pub(super) fn file(content: Result<Arc<dyn Content>>) -> Node {
    let renewal = Renewal::WhileSame(Signature::default());
    Node::File(File { renewal, ..File::of(content) })
}

/// Creates the directory `arrays/` with the one array.
pub(super) fn arrays(array: Arc<dyn Content>) -> Node {
    Node::Dir(Arc::new(Arrays(array)))
}

#[derive(Debug)]
struct Arrays(Arc<dyn Content>);

impl Dir for Arrays {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        Ok((name == DATA).then(|| file(Ok(self.0.clone()))))
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        if from == 0 {
            take(OsStr::new(DATA), EntryKind::File);
        }
        Ok(())
    }
}
