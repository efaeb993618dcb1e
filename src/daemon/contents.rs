//! Creation of a mount's file system from its sources and options.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use asdf_access::library::options::context;
use asdf_access::named::{Named, Servers};
use asdf_file::edit::context::EditContext;
use asdf_file::history::History;
use seekable::cache::Cache;
use seekable::error::Result;
use seekable::source::count_writes;

use super::{MountPlan, given, memory};
use crate::fuse::{Adapter, Writing};
use crate::vfs::{Options, Ownership, Vfs};

/// Maximum time that unmounting waits for seek tables to be written.
const PATIENCE: Duration = Duration::from_secs(20);

/// Opens the history, before a mount may cover it. Only a writable mount (`creates`) makes a directory for it.
fn history(
    options: &asdf_access::options::Options,
    mountpoint: Option<&Path>,
    creates: bool,
) -> Option<Arc<History>> {
    if !options.history {
        return None;
    }
    let opened = if creates { History::open(mountpoint) } else { History::open_existing(mountpoint) };
    // Only logged: a writable mount warns the user if the state directory can't be used for other texts
    // either.
    opened.inspect_err(|error| tracing::info!("{error}")).ok().map(Arc::new)
}

/// Returns the cache and the options for reading sources as a mount with these options shows them.
pub(crate) fn reading(options: &asdf_access::options::Options) -> (Arc<Cache>, Options) {
    let context = context(options);
    let cache = context.cache.clone();
    let mut reading = Options::new(context);
    reading.verify = options.verify;
    reading.views = options.views.clone();
    reading.history = history(options, None, false);
    (cache, reading)
}

/// The parts of a mount that signals and its clock act on.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) writing: Writing,
    cache: Arc<Cache>,
}

impl Served {
    /// Ends all writing before the process ends: waits for saves, and keeps unsaved texts. If it is called twice,
    /// both calls return when this is done.
    pub(super) fn close(&self) {
        self.writing.end();
        self.cache.store().wait_for_writes_within(PATIENCE);
    }
}

/// Opens the sources of a plan. A file of an unknown format is an error.
pub(super) fn open_tree(plan: &MountPlan) -> Result<(Adapter, Served)> {
    let (cache, mut options) = reading(&plan.options);
    // A mount that the caller made may be anywhere.
    let mountpoint = given::number(&plan.mountpoint).is_none().then(|| plan.mountpoint.clone());
    options.mountpoint = mountpoint.clone();
    options.ownership = Ownership {
        uid: plan.options.uid,
        gid: plan.options.gid,
        umask: plan.options.umask.map_or(0, |umask| (umask & 0o777) as u16),
    };
    options.allow_other = plan.options.allow_other;
    options.history = history(&plan.options, mountpoint.as_deref(), !plan.options.read_only);
    options.give_back = memory::give_back_small_pieces;
    let servers = Servers::new(&plan.options.remote, &cache);
    let sources =
        plan.sources.iter().map(|source| Named::of(source, &servers)).collect::<Result<Vec<_>>>()?;
    // Files on servers are never written, so no message says that they are read-only.
    let has_local = sources.iter().any(|source| matches!(source, Named::Local(_)));
    if has_local && !plan.options.read_only {
        let history = options.history.clone();
        let schemas = plan.options.read_schemas()?;
        let context = EditContext { options: plan.options.edit, history, schemas, ..EditContext::default() };
        options.edits = Some(Arc::new(context));
    }
    count_writes();
    let filesystem = Adapter::new(Vfs::new(&sources, &options)?);
    // Nothing is lost by ignoring these options, so only a verbose log mentions them.
    for note in &plan.options.notes {
        tracing::info!("{note}");
    }
    let writing = filesystem.writing();
    Ok((filesystem, Served { writing, cache }))
}
