//! `--thumbnail`: the picture of a file, scaled down, with the instrument and the filter below. The thumbnail of a file
//! without a picture is what `--info` says.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use asdf_access::local::stat::FileKind;
use asdf_views::info::InfoForm;
use asdf_views::picture::Picture;
use seekable::error::{Error, Kind, Result};

use super::caption::{captioned, columns_of_text, of_text, rows_of_text};
use super::{Look, again};

/// The picture of the whole file, and the directory of all pictures.
const PICTURE: &str = "preview.png";
const PICTURES: &str = "preview";
const ENDING: &[u8] = b".png";
/// Maximum number of directories that are searched for a picture.
const MAX_SEARCHED: usize = 1000;
/// Maximum length of a picture in bytes.
const MAX_PICTURE: u64 = 64 << 20;

impl Look {
    /// Returns the thumbnail as PNG, at most `size` pixels wide and high.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn thumbnail(&self, size: u32) -> Result<Vec<u8>> {
        let size = size as usize;
        let picture = match self.picture_path()? {
            Some(path) => again(|| self.picture(&path, size)),
            None => return self.text(size),
        };
        match picture {
            // The text tells the damage.
            Err(error) if error.kind() == Kind::Damaged => self.text(size),
            picture => Ok(picture?.encode()?),
        }
    }

    /// Returns what `--info` says as a picture.
    fn text(&self, size: usize) -> Result<Vec<u8>> {
        let rows = rows_of_text(size);
        let form = InfoForm { width: columns_of_text(size), rows, children: rows as u64, ..InfoForm::PLAIN };
        // The fonts have no ellipsis.
        let text = self.vfs.info(form)?.replace('…', "»");
        Ok(of_text(size, text.lines().map(str::trim_start)).encode()?)
    }

    /// Returns the picture at a path, scaled, with a caption.
    fn picture(&self, path: &Path, size: usize) -> Result<Picture> {
        let reader = self.file_at(path)?;
        if reader.content()?.len() > MAX_PICTURE {
            return Err(Error::unsupported("the picture is too large"));
        }
        let undrawn = || Error::unsupported("the picture is not one of this program");
        let picture = Picture::of(&*reader.content()?).ok_or_else(undrawn)??;
        let summary = self.vfs.summary_of_picture(in_previews(path).as_deref())?;
        let names = ["instrument", "filter"];
        let damage = self.vfs.is_damaged()?.then_some("DAMAGED");
        let known: Vec<&str> =
            damage.into_iter().chain(names.into_iter().filter_map(|name| summary.get(name))).collect();
        // Tiny pictures are seen, too.
        let picture = picture.enlarged(size / 2);
        Ok(captioned(picture, &known.join(" "), size))
    }

    /// Returns the path of the picture of the whole file, or of the first picture.
    fn picture_path(&self) -> Result<Option<PathBuf>> {
        let picture = Path::new(PICTURE);
        if self.is_there(picture)? {
            return Ok(Some(picture.to_owned()));
        }
        let mut directories = vec![PathBuf::from(PICTURES)];
        for _ in 0..MAX_SEARCHED {
            let Some(directory) = directories.pop() else { break };
            if !self.is_there(&directory)? {
                break;
            }
            let found = self.find(&directory, true)?;
            let mut below = Vec::new();
            for (name, is_directory) in again(|| self.names_with_kinds(found.attr.ino))? {
                let path = directory.join(&name);
                if is_directory {
                    below.push(path);
                } else if name.as_encoded_bytes().ends_with(ENDING) {
                    return Ok(Some(path));
                }
            }
            directories.extend(below.into_iter().rev());
        }
        Ok(None)
    }

    /// True if there is something at the path. What can't be read now may be there: that is an error.
    fn is_there(&self, path: &Path) -> Result<bool> {
        match self.find(path, true) {
            Err(error) if error.errno() == libc::ENOENT => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// Returns the names in a directory, in the order of the mount, and true for those of directories.
    fn names_with_kinds(&self, directory: crate::vfs::Ino) -> Result<Vec<(OsString, bool)>> {
        let mut names = Vec::new();
        for name in self.names(directory)? {
            let kind = self.lookup(directory, OsStr::new(&name))?.kind;
            names.push((name, kind == FileKind::Directory));
        }
        Ok(names)
    }
}

/// Returns the thumbnail of a file that can't be opened because it is damaged: what is wrong.
///
/// # Errors
/// There is too little memory.
pub(crate) fn of_damage(error: &Error, size: u32) -> Result<Vec<u8>> {
    let size = size as usize;
    let message = error.message();
    let letters: Vec<char> = message.chars().collect();
    let lines = letters.chunks(columns_of_text(size).max(1)).map(String::from_iter);
    let lines: Vec<String> = std::iter::once("DAMAGED".to_owned()).chain(lines).collect();
    Ok(of_text(size, lines.iter().map(String::as_str)).encode()?)
}

/// Returns the path of the array whose picture is at a path of `preview/`; `None` for the picture of the whole file.
fn in_previews(picture: &Path) -> Option<Vec<String>> {
    let path = picture.strip_prefix(PICTURES).ok()?.with_extension("");
    path.iter().map(|name| Some(name.to_str()?.to_owned())).collect()
}
