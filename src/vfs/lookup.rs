//! Lookup: from a name in a directory to its node.

use std::ffi::OsStr;
use std::sync::Arc;

use asdf_file::folder::{self, Dir};
use seekable::error::{self, Error, Result, errno};

use crate::mounted::file::MountedFile;
use crate::mounted::generation::HeldGeneration;
use crate::overlay;
use crate::overlay::paths::NewName;
use crate::vfs::Vfs;
use crate::vfs::entry::{Class, Entry};
use crate::vfs::node::{Ino, Inode, NodeState, ViewNode};
use crate::vfs::write::writing;
use crate::view::root::RootDir;
use crate::view::{ABOUT, TREE};

/// The result of a lookup.
#[derive(Debug)]
pub(crate) struct FoundNode {
    pub(crate) node: Inode,
    /// The content, if the node is a view.
    pub(crate) shown: Option<ViewContent>,
}

/// The directory of a mounted file, or a directory of a view in it.
#[derive(Clone, Debug)]
pub(crate) struct ViewDir {
    pub(crate) entry: Arc<Entry>,
    pub(crate) mounted: Arc<MountedFile>,
    /// `None` for the file's own directory.
    pub(crate) view: Option<Arc<ViewNode>>,
}

impl ViewDir {
    /// Returns the serial number under which the nodes in the directory are known.
    pub(crate) fn serial(&self) -> u64 {
        self.view.as_ref().map_or(self.mounted.serial, |view| view.serial)
    }
}

/// A directory of a view with its content.
#[derive(Debug)]
pub(crate) struct ListedDir {
    /// The directory, of the file that is at the name now.
    pub(crate) parent: ViewDir,
    pub(crate) held: HeldGeneration,
    pub(crate) dir: Arc<dyn Dir>,
}

/// A mounted file, and a generation of it.
type MountedGeneration = (Arc<MountedFile>, HeldGeneration);

/// The content of a view, with its generation.
#[derive(Debug)]
pub(crate) struct ViewContent {
    pub(crate) held: HeldGeneration,
    pub(crate) what: folder::Node,
}

impl From<Inode> for FoundNode {
    fn from(node: Inode) -> Self {
        Self { node, shown: None }
    }
}

impl Vfs {
    /// Returns the node at a name.
    pub(crate) fn find(&self, parent: Ino, name: &OsStr) -> Result<FoundNode> {
        match self.node(parent)? {
            Inode::Entry(entry) => match &entry.class {
                Class::Sources { sources, .. } => {
                    let source = sources.iter().find(|(known, _)| known == name);
                    let (_, position) = source.ok_or_else(no_entry)?;
                    let seen = self.detector.detect_at(position)?;
                    Ok(Inode::Entry(entry.child(name, seen, &self.serials)?).into())
                }
                Class::Directory { key, .. } => {
                    let dir = entry.position.location.open_known_dir(*key)?;
                    match self.detector.detect(&dir, name) {
                        Ok(seen) => Ok(Inode::Entry(entry.child(name, seen, &self.serials)?).into()),
                        Err(error) if self.has_gallery(name) && error.errno() == libc::ENOENT => {
                            Ok(Inode::Entry(self.in_gallery(&entry, name)?).into())
                        }
                        Err(error) => Err(error),
                    }
                }
                Class::Gallery { .. } => Ok(Inode::Entry(self.in_gallery(&entry, name)?).into()),
                Class::MountedFile(overlay) if !overlay::is_reserved(name) && self.is_writable(&entry)? => {
                    match overlay.used_overlay() {
                        Some(overlay) => {
                            let file = overlay.lookup(NewName { dir: None, name })?;
                            Ok(Inode::of_overlay_file(entry, file).into())
                        }
                        None if name == TREE => Ok(Inode::Tree(entry).into()),
                        None => Err(errno(libc::ENOENT)),
                    }
                }
                Class::MountedFile(_) => {
                    let (mounted, held) = self.newest(&entry)?;
                    self.confirm_format(&entry, &held)?;
                    if name == TREE || name != ABOUT && overlay::is_reserved(name) {
                        // Fails with the reason why it is not known whether there is such a view.
                        held.container()?;
                    }
                    self.find_view(&ViewDir { entry, mounted, view: None }, held, name)
                }
                _ => Err(errno(libc::ENOTDIR)),
            },
            Inode::View(entry, mounted, view) => {
                // If the file is gone, lookups in it find nothing. Open handles keep their data.
                let (mounted, held) = self.present(&entry, &mounted)?.ok_or_else(no_entry)?;
                confirm_content(&held, &view)?;
                self.find_view(&ViewDir { entry, mounted, view: Some(view) }, held, name)
            }
            Inode::OverlayFile(entry, dir) if dir.is_dir => {
                let overlay = entry.lazy_overlay()?.overlay_of(&dir)?;
                let file = overlay.lookup(NewName { dir: Some(&dir), name })?;
                Ok(Inode::of_overlay_file(entry, file).into())
            }
            _ => Err(errno(libc::ENOTDIR)),
        }
    }

    /// Fails with ESTALE if a file on a server is shown as a directory because of its name only. The kernel then
    /// looks the name up again, and the file is shown as it is.
    pub(crate) fn confirm_format(&self, entry: &Entry, held: &HeldGeneration) -> Result<()> {
        let is_unknown = held.container().is_err_and(|error| error.kind() == error::Kind::Unrecognised);
        if is_unknown && entry.parent.is_some() && self.detector.is_misnamed(&entry.position.location)? {
            return Err(errno(libc::ESTALE));
        }
        Ok(())
    }

    fn find_view(&self, parent: &ViewDir, held: HeldGeneration, name: &OsStr) -> Result<FoundNode> {
        let mut path = parent.view.as_ref().map_or_else(Vec::new, |view| view.path());
        path.push(name);
        let root = self.root_of(&parent.entry, &parent.mounted, &held);
        let what = root.find(&path)?.ok_or_else(no_entry)?;
        let shown = ViewContent { held, what };
        let node = self.view_node(parent, name, Some(&shown))?;
        Ok(FoundNode { node, shown: Some(shown) })
    }

    /// Returns the node of a name in a view: the known node if it shows the same data, or else a new one.
    /// If `shown` is `None`, returns the known node without comparing the data.
    pub(crate) fn view_node(
        &self,
        parent: &ViewDir,
        name: &OsStr,
        shown: Option<&ViewContent>,
    ) -> Result<Inode> {
        let shown = shown.map(|shown| {
            shown.held.usage.pin();
            NodeState::new(&shown.held, &shown.what)
        });
        let carries_over = |view: &Arc<ViewNode>| shown.as_ref().is_none_or(|shown| view.carry_over(shown));
        let view = match self.known.view(parent.serial(), name).filter(carries_over) {
            Some(view) => view,
            None => Arc::new(ViewNode::new(self.serials.next()?, parent.view.clone(), name, shown)),
        };
        Ok(Inode::View(parent.entry.clone(), parent.mounted.clone(), view))
    }

    /// Returns the directory of a mounted file in a generation.
    pub(crate) fn root_of(
        &self,
        entry: &Arc<Entry>,
        mounted: &Arc<MountedFile>,
        held: &HeldGeneration,
    ) -> RootDir {
        let read_only = self.read_only_because();
        let entry = entry.clone();
        let own = mounted.clone();
        mounted.root(held, move || writing(&entry, &own, read_only.as_deref()))
    }

    /// Returns the content of a view. A file comes from its own generation while that exists, everything else
    /// from the newest generation.
    ///
    /// # Errors
    /// ESTALE if the file's generation is gone and the newest one has other bytes, or if another file, from
    /// which the bytes come, has changed. The kernel then looks the name up again.
    pub(crate) fn shown(
        &self,
        entry: &Arc<Entry>,
        mounted: &Arc<MountedFile>,
        view: &ViewNode,
    ) -> Result<ViewContent> {
        let own = view.generation();
        let is_own = own.as_ref().is_some_and(|own| !mounted.has_stale(own));
        let held = match own {
            Some(own) if is_own => own,
            _ if mounted.is_attached() => mounted.newest()?,
            // A directory or link has what the file that is now at the name has.
            _ => self.present(entry, mounted)?.ok_or_else(no_entry)?.1,
        };
        confirm_content(&held, view)?;
        let what = self.root_of(entry, mounted, &held).find(&view.path())?;
        let shown = ViewContent { held, what: what.ok_or_else(no_entry)? };
        // Bytes may differ within a generation: another file, to which the tree refers, may have changed.
        if !view.carry_over(&NodeState::new(&shown.held, &shown.what)) {
            return Err(rustix::io::Errno::STALE.into());
        }
        shown.held.usage.pin();
        Ok(shown)
    }

    /// Returns the mounted file at an entry, and its newest generation.
    pub(crate) fn newest(&self, entry: &Entry) -> Result<MountedGeneration> {
        entry.lazy_overlay()?.current.newest(&entry.position.location, &self.serials, &self.open_files)
    }

    /// Returns the content of a view in the newest generation, if it has the same bytes there: their place in
    /// the file may have changed. Otherwise returns what [`shown`](Self::shown) does.
    pub(crate) fn shown_now(
        &self,
        entry: &Arc<Entry>,
        mounted: &Arc<MountedFile>,
        view: &ViewNode,
    ) -> Result<ViewContent> {
        if let Ok(held) = mounted.newest()
            && let Ok(Some(what)) = self.root_of(entry, mounted, &held).find(&view.path())
            && view.carry_over(&NodeState::new(&held, &what))
        {
            return Ok(ViewContent { held, what });
        }
        self.shown(entry, mounted, view)
    }

    /// Returns the newest generation of a mounted file, or that of the file that has taken its name; `None` if
    /// there is no file at the name.
    fn present(&self, entry: &Entry, mounted: &Arc<MountedFile>) -> Result<Option<MountedGeneration>> {
        if mounted.revalidate().attached
            && let Ok(held) = mounted.newest()
            && mounted.is_attached()
        {
            return Ok(Some((mounted.clone(), held)));
        }
        match self.newest(entry) {
            Err(error) if error.errno() == libc::ENOENT => Ok(None),
            newest => newest.map(Some),
        }
    }

    /// Returns a directory with its current content; `None` if the file is gone.
    pub(crate) fn listed(&self, dir: &ViewDir) -> Result<Option<ListedDir>> {
        let Some((mounted, held)) = self.present(&dir.entry, &dir.mounted)? else { return Ok(None) };
        let root = self.root_of(&dir.entry, &mounted, &held);
        let parent = ViewDir { mounted, ..dir.clone() };
        let Some(view) = &dir.view else {
            return Ok(Some(ListedDir { parent, held, dir: Arc::new(root) }));
        };
        confirm_content(&held, view)?;
        match root.find(&view.path())? {
            Some(folder::Node::Dir(found)) => Ok(Some(ListedDir { parent, held, dir: found })),
            Some(_) => Err(errno(libc::ENOTDIR)),
            None => Err(no_entry()),
        }
    }
}

/// Fails with the reason why the file of a view can't be parsed. What is about the file itself is there all the same.
fn confirm_content(held: &HeldGeneration, view: &ViewNode) -> Result<()> {
    match held.container() {
        Err(error) if view.path().first().is_none_or(|first| *first != ABOUT) => Err(error),
        _ => Ok(()),
    }
}

fn no_entry() -> Error {
    Error::new(error::Kind::NotFound, "there is nothing of that name")
}
