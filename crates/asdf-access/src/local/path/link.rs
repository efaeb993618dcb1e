//! Symbolic links of a mirrored directory: their targets, and how they are shown.
//!
//! A link to a target inside the mirrored directory is shown as a link; an absolute link is made relative,
//! because the mirror has other absolute paths. A link to a file outside is followed: its target is shown in
//! its place. With `allow_other` such links are not followed, because other users could create links to files
//! that only the mounting user can read. Links to directories outside, broken links and circular links are
//! shown as links. A text that leads out of the mirrored directory is made absolute, because the directory
//! above the mount is not the one above the source.
//!
//! Links are resolved here, name by name, and not by the kernel. If the mount covers its own source, the
//! kernel would resolve them into the mount, and the daemon would wait for itself.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use seekable::error::{Error, Result};
use seekable::workers::while_waiting;

use crate::local::at::{descend, stat_in, stat_of, step, step_up};
use crate::local::mounts;
use crate::local::path::{LocalPath, OpenedDirectory};
use crate::local::stat::{FileKey, FileKind, Stat};

/// Maximum number of links followed in a row, as in the kernel.
const LINKS_IN_A_ROW: usize = 40;

/// The mount point, as it was before mounting.
#[derive(Debug)]
pub struct Mountpoint {
    /// Parent directory of the mount point.
    parent: FileKey,
    name: OsString,
    /// Directory that the mount covers.
    covered: Arc<OpenedDirectory>,
    path: PathBuf,
}

impl Mountpoint {
    /// Opens an existing mount point; `None` for `/`, which has no name.
    pub fn find(path: &Path) -> Result<Option<Self>> {
        let path = path.canonicalize().map_err(|error| Error::from(error).of(path))?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let parent = OpenedDirectory::open(parent)?.key;
        let covered = OpenedDirectory::open(&path)?;
        Ok(Some(Self { parent, name: name.to_owned(), covered, path }))
    }

    /// Returns the path of the mount point, without links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// True if `name` in the directory `dir` is the mount point.
    pub(crate) fn is_at(&self, dir: BorrowedFd<'_>, name: &OsStr) -> Result<bool> {
        Ok(name == self.name && stat_of(dir)?.key == self.parent)
    }
}

/// The policy for links: depends on the mirrored directory and the mount point.
#[derive(Debug)]
pub struct LinkPolicy {
    pub(super) origin: Arc<OpenedDirectory>,
    /// The directory `/`.
    root: Arc<OpenedDirectory>,
    pub(crate) mountpoint: Option<Arc<Mountpoint>>,
    /// True if the mount covers the mirrored directory or a directory above it.
    beneath: bool,
    /// True if links to files outside are followed.
    follow: bool,
}

impl LinkPolicy {
    /// Makes the policy for the links below `path`: of a mount at `mountpoint`, and whether links that leave are followed.
    pub fn new(
        origin: &Arc<OpenedDirectory>,
        path: &Path,
        mountpoint: Option<Arc<Mountpoint>>,
        follow: bool,
    ) -> Result<Arc<Self>> {
        let path = path.canonicalize().map_err(|error| Error::from(error).of(path))?;
        let beneath = mountpoint.as_ref().is_some_and(|mount| path.starts_with(&mount.path));
        let root = OpenedDirectory::open(Path::new("/"))?;
        Ok(Arc::new(Self { origin: origin.clone(), root, mountpoint, beneath, follow }))
    }
}

/// The form in which a link is shown.
#[derive(Debug)]
pub(crate) enum LinkForm {
    /// A link with this text.
    Link(OsString),
    /// The target of the link.
    Followed(Box<End>),
}

/// The final target of a link.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) dir: OwnedFd,
    /// Name in `dir`; `.` for `dir` itself. It is not a link.
    pub(crate) name: OsString,
    pub(crate) stat: Stat,
    /// Path below the mirrored directory; `None` if the target is outside.
    inside: Option<PathBuf>,
    /// True if resolving left the mirrored directory, or began at `/`.
    strayed: bool,
}

/// Returns the form in which a link is shown.
pub(crate) fn judge(link: &LocalPath) -> Result<LinkForm> {
    let text = read(link)?;
    let links = &link.links;
    // Number of directories between the link and the top of the mirror.
    let depth = link.depth.saturating_sub(1);
    // The link may lead to a server that does not answer.
    let Ok(end) = while_waiting(|| walk(link)) else {
        let text = if climbs_out(&text, depth) { from_root(link, &text) } else { text };
        return Ok(LinkForm::Link(text));
    };
    Ok(match &end.inside {
        Some(_) if !end.strayed => LinkForm::Link(text),
        Some(path) => {
            let mut up = PathBuf::from_iter(std::iter::repeat_n("..", depth));
            up.push(path);
            if up.as_os_str().is_empty() {
                up.push(".");
            }
            LinkForm::Link(up.into())
        }
        // If a link to a directory outside were shown as a directory, it could lead a program that walks the
        // mount out of the mount, or into an endless loop.
        None if !links.follow || end.stat.kind == FileKind::Directory => {
            LinkForm::Link(from_root(link, &text))
        }
        None => LinkForm::Followed(Box::new(end)),
    })
}

/// True if the names of a link's text alone lead above the top, which is `depth` directories higher.
fn climbs_out(text: &OsStr, depth: usize) -> bool {
    let mut depth = Some(depth);
    for name in Path::new(text).components() {
        depth = match name {
            Component::ParentDir => depth.and_then(|depth| depth.checked_sub(1)),
            Component::Normal(_) => depth.map(|depth| depth + 1),
            _ => depth,
        };
    }
    depth.is_none()
}

/// Returns the text of a link as an absolute path.
fn from_root(link: &LocalPath, text: &OsStr) -> OsString {
    // An absolute text replaces the path that it is joined to.
    link.label().parent().map_or_else(|| text.to_owned(), |dir| dir.join(text).into_os_string())
}

fn read(link: &LocalPath) -> Result<OsString> {
    let (dir, name) = link.holder()?;
    read_in(dir.as_fd(), &name)
}

fn read_in(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OsString> {
    Ok(OsString::from_vec(rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes()))
}

/// The state of resolving a link.
struct LinkWalk<'a> {
    links: &'a LinkPolicy,
    /// Current directory.
    at: OwnedFd,
    /// Path of `at` below the mirrored directory; `None` if it is outside.
    inside: Option<PathBuf>,
    strayed: bool,
    /// Names still to be resolved, the next one last.
    ahead: Vec<OsString>,
}

/// Resolves a link.
pub(crate) fn walk(link: &LocalPath) -> Result<End> {
    let links = &*link.links;
    let (dir, link_name) = link.holder()?;
    let at = dir.as_fd().try_clone_to_owned().map_err(Error::from)?;
    let dir_inside = link.inside().and_then(Path::parent).map(Path::to_owned);
    let strayed = dir_inside.is_none();
    let mut walk = LinkWalk { links, at, inside: dir_inside, strayed, ahead: Vec::new() };
    let mut followed = 1;
    walk.take(&read_in(dir.as_fd(), &link_name)?)?;
    while let Some(name) = walk.ahead.pop() {
        if name == ".." {
            walk.up()?;
            continue;
        }
        if let Some(mount) = &links.mountpoint
            && mount.is_at(walk.at.as_fd(), &name)?
        {
            if !links.beneath {
                // The link leads to the mount, which can't be shown inside itself.
                return Err(rustix::io::Errno::NOENT.into());
            }
            let covered = mount.covered.clone();
            walk.stand(&covered)?;
            continue;
        }
        let stat = stat_in(walk.at.as_fd(), &name)?;
        if stat.kind == FileKind::Link {
            followed += 1;
            if followed > LINKS_IN_A_ROW {
                return Err(rustix::io::Errno::LOOP.into());
            }
            let text = read_in(walk.at.as_fd(), &name)?;
            walk.take(&text)?;
            continue;
        }
        let inside = match &walk.inside {
            Some(path) => Some(path.join(&name)),
            None => (stat.key == links.origin.key).then(PathBuf::new),
        };
        if walk.ahead.is_empty() {
            return Ok(End { dir: walk.at, name, stat, inside, strayed: walk.strayed });
        }
        walk.at = step(walk.at.as_fd(), &name)?;
        walk.inside = inside;
    }
    let stat = stat_of(&walk.at)?;
    Ok(End { dir: walk.at, name: ".".into(), stat, inside: walk.inside, strayed: walk.strayed })
}

impl LinkWalk<'_> {
    /// Adds the names of a link's text, to be resolved before the names in `ahead`.
    fn take(&mut self, text: &OsStr) -> Result<()> {
        if text.as_bytes().starts_with(b"/") {
            let root = self.links.root.clone();
            self.stand(&root)?;
            self.strayed = true;
        }
        let names = text.as_bytes().split(|byte| *byte == b'/').rev();
        let names = names.filter(|name| !name.is_empty() && *name != b".");
        self.ahead.extend(names.map(|name| OsStr::from_bytes(name).to_owned()));
        Ok(())
    }

    /// Continues at a held directory.
    fn stand(&mut self, dir: &OpenedDirectory) -> Result<()> {
        self.at = dir.fd().try_clone_to_owned().map_err(Error::from)?;
        self.inside = (dir.key == self.links.origin.key).then(PathBuf::new);
        self.strayed |= self.inside.is_none();
        Ok(())
    }

    /// Continues at the parent directory.
    fn up(&mut self) -> Result<()> {
        if let Some(path) = &mut self.inside {
            if path.pop() {
                // The parent is not opened as `..`: the kernel would enter a mount that covers the parent.
                let top = self.links.origin.fd();
                self.at = if path.as_os_str().is_empty() {
                    top.try_clone_to_owned().map_err(Error::from)?
                } else {
                    descend(top, path)?
                };
                return Ok(());
            }
            self.inside = None;
            self.strayed = true;
        }
        let from = stat_of(&self.at)?.key;
        let (above, key) = step_up(self.at.as_fd())?;
        match &self.links.mountpoint {
            // This is the root of our own mount. The link leads to the directory that the mount covers.
            Some(mount) if self.links.beneath && key.inode() == Some(1) && key.device() != from.device() => {
                let covered = mount.covered.clone();
                self.stand(&covered)
            }
            _ if key.device() != from.device() && mounts::is_in_ours(key) => Err(mounts::refused()),
            _ => {
                self.at = above;
                self.inside = (key == self.links.origin.key).then(PathBuf::new);
                Ok(())
            }
        }
    }
}
