//! What a mount shows: the tree of its sources behind the adapter.

use std::sync::Arc;

use super::{Plan, Served};
use crate::cache::Cache;
use crate::error::Result;
use crate::format::Context;
use crate::fuse::Adapter;
use crate::tree::savers::Sessions;
use crate::tree::{Options, Ownership, Tree};

/// Opens the sources of a plan; a file of no known format is the error.
pub fn open_tree(plan: &Plan) -> Result<Served<Adapter>> {
    let context = Context { cache: Arc::new(Cache::new(plan.options.cache)) };
    let mut options = Options::new(context);
    options.mountpoint = Some(plan.mountpoint.clone());
    options.ownership = Ownership {
        uid: plan.options.uid,
        gid: plan.options.gid,
        umask: plan.options.umask.map_or(0, |umask| (umask & 0o777) as u16),
    };
    options.allow_other = plan.options.allow_other;
    if !plan.options.read_only {
        options.savers = Some(Arc::new(Sessions::new(plan.options.edit, &plan.mountpoint)));
    }
    let filesystem = Adapter::new(Tree::new(&plan.sources, &options)?);
    let tree = filesystem.tree().clone();
    let read_only = tree.is_read_only();
    // The kernel believes nothing for long that could change without it: it need not be told.
    let notify = Box::new(|_| {});
    Ok(Served { filesystem, notify, read_only, close: Arc::new(move || tree.close()) })
}
