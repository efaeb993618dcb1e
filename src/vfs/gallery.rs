//! `.asdf-mount/` of a mirrored directory: the gallery of its files. As ZFS does with `.zfs`, listings leave the name
//! out, so that copies and searches of the directory do not meet it; a lookup finds it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, OnceLock, Weak};

use crate::content::{Content, copy_from};
use crate::error::{Result, errno};
use crate::info::page::gallery::GalleryPage;
use crate::info::{self, FileSummary};
use crate::local::detect::{EntryForm, EntryPosition};
use crate::local::location::Location;
use crate::local::path::beside::reads_as_much;
use crate::local::stat::FileKind;
use crate::sync::locked;
use crate::vfs::attr::Attr;
use crate::vfs::entry::{Class, Entry};
use crate::vfs::node::Ino;
use crate::vfs::{Opener, Vfs};

/// Maximum length of a tree whose facts are shown, in bytes.
const MAX_TREE: u64 = 16 << 20;

/// A file in a gallery.
#[derive(Clone, Debug)]
struct GalleryFile {
    name: OsString,
    position: EntryPosition,
    /// True if everyone who can read the page may see the facts of the file.
    is_open: bool,
}

impl Vfs {
    /// Returns the directory of the gallery of a mirrored directory, or a page in that directory.
    pub(super) fn in_gallery(&self, parent: &Arc<Entry>, name: &OsStr) -> Result<Arc<Entry>> {
        let class = match &parent.class {
            Class::Gallery { .. } => {
                let page = name.to_str().and_then(GalleryPage::of_name).ok_or_else(|| errno(libc::ENOENT))?;
                if page.number > 0 && !page.is_of(self.gallery_files(parent)?.len()) {
                    return Err(errno(libc::ENOENT));
                }
                Class::GalleryPage(page)
            }
            _ => Class::Gallery { children: Box::default() },
        };
        let Some(children) = parent.children() else { return Err(errno(libc::ENOTDIR)) };
        let mut children = locked(children);
        let known = children.get(name).and_then(Weak::upgrade);
        if let Some(known) = known
            && matches!(known.class, Class::Gallery { .. } | Class::GalleryPage(_))
        {
            return Ok(known);
        }
        let entry = Arc::new(Entry {
            serial: self.serials.next()?,
            parent: Some(parent.clone()),
            name: name.to_owned(),
            position: parent.position.clone(),
            class,
        });
        children.insert(name.to_owned(), Arc::downgrade(&entry));
        Ok(entry)
    }

    /// Returns the files of the directory that an entry of its gallery belongs to, sorted by name.
    fn gallery_files(&self, entry: &Entry) -> Result<Vec<GalleryFile>> {
        let location = &entry.position.location;
        let dir = location.open_dir()?;
        let own = location.stat()?;
        let mut files = Vec::new();
        for name in location.list()? {
            // A file may vanish meanwhile.
            let Ok(seen) = self.detector.detect(&dir, &name.name) else { continue };
            if seen.form == EntryForm::MountedFile {
                let is_open = !location.is_shared() || reads_as_much(&own, &seen.stat);
                files.push(GalleryFile { name: name.name, position: seen.position, is_open });
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(files)
    }

    /// Returns the names in the directory of a gallery.
    pub(super) fn gallery_names(&self, entry: &Entry) -> Result<Vec<OsString>> {
        let count = self.gallery_files(entry)?.len();
        Ok(GalleryPage::names(count).into_iter().map(OsString::from).collect())
    }

    /// Returns the content of a page.
    pub(super) fn gallery_page(&self, entry: &Entry, page: GalleryPage) -> Result<GalleryContent> {
        let files = self.gallery_files(entry)?;
        let directory = entry.parent.as_ref().and_then(|gallery| gallery.parent.as_ref());
        let name = match directory {
            Some(directory) if !directory.name.is_empty() => directory.name.clone(),
            _ => entry.position.location.label().file_name().map(OsStr::to_owned).unwrap_or_default(),
        };
        let opener = self.open_files.opener.clone();
        let mut content = GalleryContent {
            page,
            directory: name.to_string_lossy().into_owned(),
            files,
            opener,
            len: 0,
            bytes: OnceLock::new(),
        };
        content.len = content.html(&mut |_| Ok(None))?.len() as u64;
        Ok(content)
    }

    /// Returns the attributes of the directory of a gallery, or of a page in it.
    pub(super) fn attr_of_gallery(&self, entry: &Entry) -> Result<Attr> {
        let stat = entry.position.location.stat()?;
        let ino = Ino::of(entry.serial);
        match entry.class {
            Class::GalleryPage(page) => {
                let size = self.gallery_page(entry, page)?.len;
                let attr = self.ownership.attr(ino, FileKind::File, size, &stat);
                // The files may change without their directory.
                Ok(Attr { grows: true, ..attr })
            }
            _ => Ok(self.ownership.attr(ino, FileKind::Directory, 0, &stat)),
        }
    }
}

/// A page of a gallery. The files are opened when it is first read.
pub(super) struct GalleryContent {
    page: GalleryPage,
    directory: String,
    files: Vec<GalleryFile>,
    opener: Opener,
    len: u64,
    bytes: OnceLock<Vec<u8>>,
}

impl std::fmt::Debug for GalleryContent {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("GalleryContent").field("len", &self.len).finish_non_exhaustive()
    }
}

impl GalleryContent {
    fn html(&self, facts: &mut dyn FnMut(usize) -> Result<Option<FileSummary>>) -> Result<Vec<u8>> {
        let names: Vec<Vec<u8>> = self.files.iter().map(|file| file.name.clone().into_vec()).collect();
        self.page.html(&self.directory, &names, facts)
    }

    fn bytes(&self) -> Result<&Vec<u8>> {
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes);
        }
        let bytes = self.html(&mut |number| {
            // A file that can't be read has no facts.
            Ok(self.files.get(number).and_then(|file| self.facts(file)))
        })?;
        Ok(self.bytes.get_or_init(|| bytes))
    }

    /// Returns the facts of a file, if all who can read this page can read the file, too. A server would have to be asked for each file; the page does without.
    fn facts(&self, file: &GalleryFile) -> Option<FileSummary> {
        if !file.is_open || !matches!(file.position.location, Location::Local(_)) {
            return None;
        }
        let container = (self.opener)(file.position.location.open().ok()?).ok()?;
        if container.tree().len() > MAX_TREE {
            return None;
        }
        info::summary_of_picture(&*container, None).ok()
    }
}

impl Content for GalleryContent {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Ok(copy_from(self.bytes()?, offset, buf))
    }

    fn is_slow(&self) -> bool {
        true
    }
}
