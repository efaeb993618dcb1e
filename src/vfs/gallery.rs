//! `index.html` of a mirrored directory: the gallery of its files; and `.asdf-mount/`, which has it in several orders. As
//! ZFS does with `.zfs`, listings leave these names out, so that copies and searches of the directory do not meet them; a
//! lookup finds them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, OnceLock, Weak};

use asdf_access::local::detect::{EntryForm, EntryPosition};
use asdf_access::local::location::Location;
use asdf_access::local::path::beside::reads_as_much;
use asdf_access::local::stat::FileKind;
use asdf_views::format::endings::by_ending;
use asdf_views::info;
use asdf_views::info::page::gallery::{GalleryFacts, GalleryNames, GalleryPage};
use seekable::content::{Content, copy_from};
use seekable::error::{Result, errno};
use seekable::sync::locked;

use crate::vfs::attr::Attr;
use crate::vfs::entry::{Class, Entry};
use crate::vfs::node::Ino;
use crate::vfs::{Opener, Vfs};
use crate::view::{ABOUT, PAGE};

/// The picture of a file.
const PICTURE: &str = "preview.png";
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
    /// True if a mirrored directory has a page of this name, unless it has a file of this name.
    pub(super) fn has_gallery(&self, name: &OsStr) -> bool {
        name == ABOUT || name == PAGE && self.open_files.shown.has(PAGE)
    }

    /// Returns the directory of the gallery of a mirrored directory, or a page in that directory or in the mirrored one.
    pub(super) fn in_gallery(&self, parent: &Arc<Entry>, name: &OsStr) -> Result<Arc<Entry>> {
        let class = match &parent.class {
            Class::Gallery { .. } => {
                let page = name.to_str().and_then(GalleryPage::of_name).ok_or_else(|| errno(libc::ENOENT))?;
                if page.number > 0 && !page.is_of(self.gallery_files(parent)?.len()) {
                    return Err(errno(libc::ENOENT));
                }
                Class::GalleryPage(page)
            }
            _ if name == PAGE => {
                Class::GalleryPage(GalleryPage::of_name(PAGE).ok_or_else(|| errno(libc::ENOENT))?)
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
        Ok(self.gallery_entries(entry)?.0)
    }

    /// Returns the files, and the names of the directories.
    fn gallery_entries(&self, entry: &Entry) -> Result<(Vec<GalleryFile>, Vec<Vec<u8>>)> {
        let location = &entry.position.location;
        let dir = location.open_dir()?;
        let own = location.stat()?;
        let mut files = Vec::new();
        let mut directories = Vec::new();
        for name in location.list()? {
            // A file may vanish meanwhile.
            let Ok(seen) = self.detector.detect(&dir, &name.name) else { continue };
            let is_open = !location.is_shared() || reads_as_much(&own, &seen.stat);
            // A file whose first bytes are lost is shown as it is, and the page says so.
            let is_misnamed = seen.form == EntryForm::File && is_open && by_ending(&name.name).is_some();
            if seen.form == EntryForm::MountedFile || is_misnamed {
                files.push(GalleryFile { name: name.name, position: seen.position, is_open });
            } else if seen.form == EntryForm::Directory {
                directories.push(name.name.into_vec());
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        directories.sort();
        Ok((files, directories))
    }

    /// Returns the names in the directory of a gallery.
    pub(super) fn gallery_names(&self, entry: &Entry) -> Result<Vec<OsString>> {
        let count = self.gallery_files(entry)?.len();
        Ok(GalleryPage::names(count).into_iter().map(OsString::from).collect())
    }

    /// Returns the content of a page.
    pub(super) fn gallery_page(&self, entry: &Entry, page: GalleryPage) -> Result<GalleryContent> {
        let (files, directories) = self.gallery_entries(entry)?;
        let above = entry.parent.as_ref();
        let is_in_directory = above.is_some_and(|above| matches!(above.class, Class::Directory { .. }));
        let directory = if is_in_directory { above } else { above.and_then(|above| above.parent.as_ref()) };
        let parent = directory.and_then(|directory| directory.parent.as_ref());
        let name = match directory {
            Some(directory) if !directory.name.is_empty() => directory.name.clone(),
            _ => entry.position.location.label().file_name().map(OsStr::to_owned).unwrap_or_default(),
        };
        let names = GalleryNames {
            directory: name.to_string_lossy().into_owned(),
            files: files.iter().map(|file| file.name.clone().into_vec()).collect(),
            directories,
            has_parent: parent.is_some_and(|parent| matches!(parent.class, Class::Directory { .. })),
            is_in_directory,
            has_pages: self.open_files.shown.has(PAGE),
        };
        let mut content = GalleryContent {
            page,
            names,
            files,
            opener: self.open_files.opener.clone(),
            has_pictures: self.open_files.shown.has(PICTURE),
            len: 0,
            bytes: OnceLock::new(),
        };
        content.len = content.page.html(&content.names, &mut |_| Ok(None))?.len() as u64;
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
    names: GalleryNames,
    files: Vec<GalleryFile>,
    opener: Opener,
    /// True if the directories of files show pictures.
    has_pictures: bool,
    len: u64,
    bytes: OnceLock<Vec<u8>>,
}

impl std::fmt::Debug for GalleryContent {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("GalleryContent").field("len", &self.len).finish_non_exhaustive()
    }
}

impl GalleryContent {
    fn bytes(&self) -> Result<&Vec<u8>> {
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes);
        }
        let mut facts = |number| Ok(self.files.get(number).and_then(|file: &GalleryFile| self.facts(file)));
        let bytes = self.page.html(&self.names, &mut facts)?;
        Ok(self.bytes.get_or_init(|| bytes))
    }

    /// Returns the facts of a file, if all who can read this page can read the file, too. A server would have to be asked for each file; the page does without.
    fn facts(&self, file: &GalleryFile) -> Option<GalleryFacts> {
        if !file.is_open || !matches!(file.position.location, Location::Local(_)) {
            return None;
        }
        self.facts_of_open(file).unwrap_or_else(|error| {
            let damage = Some(format!("can't be read: {}", error.message()));
            Some(GalleryFacts { damage, ..GalleryFacts::default() })
        })
    }

    /// Returns the facts of a file; `None` if its tree is too long.
    fn facts_of_open(&self, file: &GalleryFile) -> Result<Option<GalleryFacts>> {
        let container = (self.opener)(file.position.location.open()?)?;
        if container.tree().len() > MAX_TREE {
            return Ok(None);
        }
        let summary = info::summary_of_picture(&*container, None)?;
        let damage = info::damage(&*container)?;
        let damage = damage.first().map(|defect| format!("damaged: {}", info::words_of(defect)));
        let mut has_picture = self.has_pictures && container.derived_files()?.contains(&PICTURE);
        if has_picture {
            let picture = container.derived_file(PICTURE).ok().flatten().and_then(|file| file.content.ok());
            // To make it, a whole array may be decoded.
            let is_made = |picture: Arc<dyn Content>| picture.read_at(0, &mut [0]).is_ok();
            has_picture = picture.is_some_and(|picture| damage.is_none() || is_made(picture));
        }
        Ok(Some(GalleryFacts { summary, damage, has_picture, is_readable: true }))
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
