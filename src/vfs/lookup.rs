//! From a name in a directory to the node that lies there.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::content::folder::{self, Folder};
use crate::error::{self, Error, Result, errno};
use crate::folder::mounted_file::MountedFile;
use crate::folder::snapshot::Snapshot;
use crate::host::at::stat_of;
use crate::overlay;
use crate::vfs::Vfs;
use crate::vfs::entry::{Class, Entry};
use crate::vfs::node::{Ino, Node, ViewNode};
use crate::vfs::write::writing;
use crate::view::root::Root;
use crate::view::shown::is_file;
use crate::view::{ABOUT, BLOCKS, STATUS, TREE};

/// What lies at a name.
#[derive(Debug)]
pub(crate) struct FoundNode {
    pub(crate) node: Node,
    /// Of a view, what it shows.
    pub(crate) shown: Option<Shown>,
}

/// A folder of a view, of the version that was parsed.
type Listed = (Arc<Snapshot>, Arc<dyn Folder>);

/// What a view shows.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) what: folder::Node,
}

impl From<Node> for FoundNode {
    fn from(node: Node) -> Self {
        Self { node, shown: None }
    }
}

impl Vfs {
    /// What lies at a name.
    pub(crate) fn find(&self, parent: Ino, name: &OsStr) -> Result<FoundNode> {
        match self.node(parent)? {
            Node::Entry(entry) => match &entry.class {
                Class::Sources { sources, .. } => {
                    let source = sources.iter().find(|(known, _)| known == name);
                    let (_, position) = source.ok_or_else(no_entry)?;
                    let seen = self.detector.look_at(position.clone())?;
                    Ok(Node::Entry(entry.child(name, seen, &self.serials)?).into())
                }
                Class::Directory { key, .. } => {
                    let dir = entry.position.location.open_dir()?;
                    if stat_of(dir.as_fd())?.key != *key {
                        return Err(errno(libc::ESTALE));
                    }
                    let seen = self.detector.look(&entry.position, dir.as_fd(), name)?;
                    Ok(Node::Entry(entry.child(name, seen, &self.serials)?).into())
                }
                Class::Folder(folder) if !overlay::is_reserved(name) && self.is_writable(&entry)? => {
                    match folder.used_overlay() {
                        Some(overlay) => {
                            let file = overlay.lookup(name)?;
                            Ok(Node::of_overlay_file(entry, file).into())
                        }
                        None if name == TREE => Ok(Node::Tree(entry).into()),
                        None => Err(errno(libc::ENOENT)),
                    }
                }
                Class::Folder(_) => {
                    let mounted = self.mounted(&entry)?;
                    let held = mounted.clone();
                    let _still = is_moved(None, name).then(|| held.hold_still());
                    let snapshot = mounted.opened()?;
                    if [TREE, BLOCKS].iter().any(|known| name == *known) {
                        // Says why there is none.
                        snapshot.container()?;
                    }
                    self.find_view(entry, mounted, snapshot, None, name)
                }
                _ => Err(errno(libc::ENOTDIR)),
            },
            Node::View(entry, mounted, view) => {
                let held = mounted.clone();
                let _still = is_moved(Some(&view), name).then(|| held.hold_still());
                // A file that is gone has no new names. A handle keeps what it reads.
                let snapshot = present(&mounted)?.ok_or_else(no_entry)?;
                self.find_view(entry, mounted, snapshot, Some(view), name)
            }
            _ => Err(errno(libc::ENOTDIR)),
        }
    }

    fn find_view(
        &self,
        entry: Arc<Entry>,
        mounted: Arc<MountedFile>,
        snapshot: Arc<Snapshot>,
        parent: Option<Arc<ViewNode>>,
        name: &OsStr,
    ) -> Result<FoundNode> {
        let mut path = parent.as_ref().map_or_else(Vec::new, |parent| parent.path());
        path.push(name);
        let root = self.root_of(&entry, &mounted, &snapshot);
        let what = folder::resolve(&root, &path)?.ok_or_else(no_entry)?;
        let node = self.view_node(entry, mounted, parent.as_ref(), name)?;
        Ok(FoundNode { node, shown: Some(Shown { snapshot, what }) })
    }

    /// The node of a name in a view: the one that is known, or a new one.
    pub(crate) fn view_node(
        &self,
        entry: Arc<Entry>,
        mounted: Arc<MountedFile>,
        parent: Option<&Arc<ViewNode>>,
        name: &OsStr,
    ) -> Result<Node> {
        let within = parent.map_or(mounted.serial, |parent| parent.serial);
        let view = match self.known.view(within, name) {
            Some(view) => view,
            None => {
                let serial = self.serials.next()?;
                Arc::new(ViewNode {
                    serial,
                    parent: parent.cloned(),
                    name: name.into(),
                    told: AtomicU64::new(0),
                })
            }
        };
        Ok(Node::View(entry, mounted, view))
    }

    /// The folder that stands for a file, as it was parsed.
    pub(crate) fn root_of(
        &self,
        entry: &Arc<Entry>,
        mounted: &Arc<MountedFile>,
        snapshot: &Arc<Snapshot>,
    ) -> Root {
        let (read_only, entry, own) = (self.read_only_because(), entry.clone(), mounted.clone());
        mounted.root(snapshot, move || writing(&entry, &own, read_only.as_deref()))
    }

    /// What a view shows now.
    pub(crate) fn shown(
        &self,
        entry: &Arc<Entry>,
        mounted: &Arc<MountedFile>,
        view: &ViewNode,
    ) -> Result<Shown> {
        let _still = is_moved(view.parent.as_ref(), &view.name).then(|| mounted.hold_still());
        mounted.look();
        let snapshot = mounted.opened()?;
        snapshot.container().map(drop).or_else(|error| match view.path().first() {
            Some(first) if *first == ABOUT => Ok(()),
            _ => Err(error),
        })?;
        let what = folder::resolve(&self.root_of(entry, mounted, &snapshot), &view.path())?;
        Ok(Shown { snapshot, what: what.ok_or_else(no_entry)? })
    }

    /// The folder of a view, or that of the file itself, as it is now; `None` if the file is gone.
    pub(crate) fn folder_of(
        &self,
        entry: &Arc<Entry>,
        mounted: &Arc<MountedFile>,
        view: Option<&ViewNode>,
    ) -> Result<Option<Listed>> {
        let Some(snapshot) = present(mounted)? else { return Ok(None) };
        let root = self.root_of(entry, mounted, &snapshot);
        let Some(view) = view else { return Ok(Some((snapshot, Arc::new(root)))) };
        match folder::resolve(&root, &view.path())? {
            Some(folder::Node::Folder(folder)) => Ok(Some((snapshot, folder))),
            Some(_) => Err(errno(libc::ENOTDIR)),
            None => Err(no_entry()),
        }
    }
}

/// What is parsed of a mounted file now; `None` if it is gone.
fn present(mounted: &MountedFile) -> Result<Option<Arc<Snapshot>>> {
    if mounted.look().attached { mounted.opened().map(Some) } else { Ok(None) }
}

/// Whether what is shown at a name is read where a save may move bytes: `tree.yaml`, `status.yaml` and the folders at
/// the top are not, so that they answer meanwhile.
pub(crate) fn is_moved(parent: Option<&Arc<ViewNode>>, name: &OsStr) -> bool {
    match parent {
        Some(_) => name != STATUS,
        None => is_file(name),
    }
}

fn no_entry() -> Error {
    Error::new(error::Kind::NotFound, "there is nothing of that name")
}
