//! Symbolic links of a mirrored directory: where they lead, and as what they are shown.
//!
//! A link that stays inside the mirrored directory is shown as a link, an absolute one made
//! relative, since the mirror has other absolute paths. A link to a file outside is followed: it is
//! shown as what it leads to, unless others than the owner may look (`allow_other`): they could plant
//! links to what only the owner may read. What leads to a directory outside, nowhere, or round in a
//! circle, stays a link; where it leaves the mirrored directory by `..` it is made absolute, since
//! what lies beside the mount is not what lies beside the source.
//!
//! Links are walked here, name by name, and never by the system: it would walk into the mount itself
//! when that covers its own source, and the daemon would wait for its own answer.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::host::at::{stat_in, stat_of, step, step_up};
use crate::host::location::{Location, Origin};
use crate::host::mounts;
use crate::host::stat::{Key, Kind, Stat};
use crate::workers::while_waiting;

/// So many links in a row are followed, as by the system itself.
const LINKS_IN_A_ROW: usize = 40;

/// Where the mount will be, as it was before mounting.
#[derive(Debug)]
pub(crate) struct Mountpoint {
    /// The directory that holds it.
    parent: Key,
    name: OsString,
    /// The directory that the mount covers.
    covered: Arc<Origin>,
    path: PathBuf,
}

impl Mountpoint {
    /// Takes a directory that exists; `None` for `/`, which has no name.
    pub(crate) fn find(path: &Path) -> Result<Option<Self>> {
        let path = path.canonicalize().map_err(|error| Error::from(error).of(path))?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let (parent, covered) = (Origin::open(parent)?.key, Origin::open(&path)?);
        Ok(Some(Self { parent, name: name.to_owned(), covered, path }))
    }

    /// Whether `name` in the directory `dir` is where the mount is.
    pub(crate) fn is_at(&self, dir: BorrowedFd<'_>, name: &OsStr) -> Result<bool> {
        Ok(name == self.name && stat_of(dir)?.key == self.parent)
    }
}

/// What a link is judged by: the directory that is mirrored, and where the mount will be.
#[derive(Debug)]
pub(crate) struct LinkPolicy {
    origin: Arc<Origin>,
    /// `/`
    root: Arc<Origin>,
    pub(crate) mountpoint: Option<Arc<Mountpoint>>,
    /// Whether the mount covers a directory above the mirrored one, or that one itself.
    beneath: bool,
    /// Whether links that lead outside are followed.
    follow: bool,
}

impl LinkPolicy {
    pub(crate) fn new(
        origin: &Arc<Origin>,
        path: &Path,
        mountpoint: Option<Arc<Mountpoint>>,
        follow: bool,
    ) -> Result<Arc<Self>> {
        let path = path.canonicalize().map_err(|error| Error::from(error).of(path))?;
        let beneath = mountpoint.as_ref().is_some_and(|mount| path.starts_with(&mount.path));
        let root = Origin::open(Path::new("/"))?;
        Ok(Arc::new(Self { origin: origin.clone(), root, mountpoint, beneath, follow }))
    }
}

/// As what a link is shown.
#[derive(Debug)]
pub(crate) enum LinkForm {
    /// As a link with this text.
    Link(OsString),
    /// As what it leads to.
    Followed(End),
}

/// Where a link leads to in the end.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) dir: OwnedFd,
    /// In `dir`; `.` for `dir` itself. Not a link.
    pub(crate) name: OsString,
    pub(crate) stat: Stat,
    /// The path below the mirrored directory, if it lies in it.
    inside: Option<PathBuf>,
    /// Whether the way there left the mirrored directory, or began at `/`.
    strayed: bool,
}

/// Says as what the link at `location` is shown, which lies `depth` directories below the mirror's top.
pub(crate) fn judge(location: &Location, depth: usize, links: &LinkPolicy) -> Result<LinkForm> {
    let text = read(location)?;
    // It may lead to a server that does not answer.
    let Ok(end) = while_waiting(|| walk(location, links)) else {
        let text = if climbs_out(&text, depth) { from_root(location, &text) } else { text };
        return Ok(LinkForm::Link(text));
    };
    Ok(match &end.inside {
        Some(_) if !end.strayed => LinkForm::Link(text),
        Some(path) => {
            let mut link = PathBuf::from_iter(std::iter::repeat_n("..", depth));
            link.push(path);
            if link.as_os_str().is_empty() {
                link.push(".");
            }
            LinkForm::Link(link.into())
        }
        // As a directory it would lead a copy of the mount out of it, and round for ever.
        None if !links.follow || end.stat.kind == Kind::Directory => {
            LinkForm::Link(from_root(location, &text))
        }
        None => LinkForm::Followed(end),
    })
}

/// Whether the names of a link's text alone lead above the top, which is `depth` directories higher.
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

/// The text of the link at `location` as one that means the same from anywhere.
fn from_root(location: &Location, text: &OsStr) -> OsString {
    // An absolute text takes the place of what it is joined to.
    location.label().parent().map_or_else(|| text.to_owned(), |dir| dir.join(text).into_os_string())
}

fn read(location: &Location) -> Result<OsString> {
    let (dir, name) = location.holder()?;
    read_in(dir.as_fd(), &name)
}

fn read_in(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OsString> {
    Ok(OsString::from_vec(rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes()))
}

/// A walk on its way.
struct LinkWalk<'a> {
    links: &'a LinkPolicy,
    /// The directory it stands in.
    at: OwnedFd,
    /// That directory's path below the mirrored one, if it lies in it.
    inside: Option<PathBuf>,
    strayed: bool,
    /// What is still to be walked, the next name last.
    ahead: Vec<OsString>,
}

/// Follows the link at `location` to its end.
pub(crate) fn walk(location: &Location, links: &LinkPolicy) -> Result<End> {
    let (dir, name) = location.holder()?;
    let at = dir.as_fd().try_clone_to_owned().map_err(Error::from)?;
    let inside = location.inside().and_then(Path::parent).map(Path::to_owned);
    let strayed = inside.is_none();
    let mut walk = LinkWalk { links, at, inside, strayed, ahead: Vec::new() };
    let mut followed = 1;
    walk.take(&read_in(dir.as_fd(), &name)?)?;
    while let Some(name) = walk.ahead.pop() {
        if name == ".." {
            walk.up()?;
            continue;
        }
        if let Some(mount) = &links.mountpoint
            && mount.is_at(walk.at.as_fd(), &name)?
        {
            if !links.beneath {
                // What the link means is the mount, of which nothing can be shown in the mount.
                return Err(rustix::io::Errno::NOENT.into());
            }
            let covered = mount.covered.clone();
            walk.stand(&covered)?;
            continue;
        }
        let stat = stat_in(walk.at.as_fd(), &name)?;
        if stat.kind == Kind::Link {
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
    /// Puts the names of a link's text before what is ahead.
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

    /// Goes to a directory that is held.
    fn stand(&mut self, dir: &Origin) -> Result<()> {
        self.at = dir.fd().try_clone_to_owned().map_err(Error::from)?;
        self.inside = (dir.key == self.links.origin.key).then(PathBuf::new);
        self.strayed |= self.inside.is_none();
        Ok(())
    }

    /// Goes one directory up.
    fn up(&mut self) -> Result<()> {
        if let Some(path) = &mut self.inside {
            if path.pop() {
                // Not by "..": the system would step into a mount that covers that directory.
                let location = Location::new(&self.links.origin, path.clone());
                self.at = location.open_dir()?.as_fd().try_clone_to_owned().map_err(Error::from)?;
                return Ok(());
            }
            self.inside = None;
            self.strayed = true;
        }
        let from = stat_of(&self.at)?.key;
        let (above, key) = step_up(self.at.as_fd())?;
        match &self.links.mountpoint {
            // The root of this very mount, which covers the directory that is meant.
            Some(mount) if self.links.beneath && key.1 == 1 && key.0 != from.0 => {
                let covered = mount.covered.clone();
                self.stand(&covered)
            }
            _ if key.0 != from.0 && mounts::is_ours(key.0) => Err(mounts::refused()),
            _ => {
                self.at = above;
                self.inside = (key == self.links.origin.key).then(PathBuf::new);
                Ok(())
            }
        }
    }
}
