//! Creation of a mount's file system from its sources and options.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::idle::Idle;
use super::{MountPlan, Served, given, memory};
use crate::cache::Cache;
use crate::error::Result;
use crate::format::editor::EditContext;
use crate::fuse::{Adapter, KernelNotifier};
use crate::history::History;
use crate::library::options::context;
use crate::named::{Named, Servers};
use crate::vfs::{Options, Ownership, Vfs};

/// Maximum time that unmounting waits for seek tables to be written.
const PATIENCE: Duration = Duration::from_secs(20);

/// Opens the history, before a mount may cover it. Only a writable mount (`creates`) makes a directory for it.
fn history(
    options: &crate::options::Options,
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
pub(crate) fn reading(options: &crate::options::Options) -> (Arc<Cache>, Options) {
    let context = context(options);
    let cache = context.cache.clone();
    let mut reading = Options::new(context);
    reading.verify = options.verify;
    reading.views = options.views.clone();
    reading.history = history(options, None, false);
    (cache, reading)
}

/// Opens the sources of a plan. A file of an unknown format is an error.
pub fn open_tree(plan: &MountPlan) -> Result<Served<Adapter>> {
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
        let context = EditContext { options: plan.options.edit, history, ..EditContext::default() };
        options.edits = Some(Arc::new(context));
    }
    let filesystem = Adapter::new(Vfs::new(&sources, &options)?);
    let vfs = filesystem.vfs().clone();
    let read_only = vfs.is_read_only();
    // Nothing is lost by ignoring these options, so only a verbose log mentions them.
    for note in &plan.options.notes {
        tracing::info!("{note}");
    }
    let remarks = vfs.remarks();
    // The kernel caches attributes and names only briefly. It is notified of bytes that it may keep, and of
    // bytes that turn out to be wrong.
    let notify = Box::new(move |notifier, device| vfs.serve(KernelNotifier::new(notifier, device)));
    let end_writing = filesystem.closer();
    let switched = filesystem.vfs().clone();
    let watched = filesystem.vfs().clone();
    let remount = Arc::new(move |read_only| switched.remount(read_only));
    let idle = plan.options.timeout.map(|seconds| Idle {
        timeout: Duration::from_secs(seconds.into()),
        quiet_for: crate::fuse::quiet_for,
        has_unfinished: Box::new(move || watched.has_unfinished()),
    });
    let close = Arc::new(move || {
        end_writing();
        cache.store().wait_for_writes_within(PATIENCE);
    });
    Ok(Served { filesystem, notify, read_only, remarks, close, remount, idle })
}
