//! A simple saver: accepts any single YAML document, and writes the whole file anew beside the old one.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

use super::saver::{Head, Refused, Saved, Saver, Savers, Site};
use crate::error::{Error, Result};
use crate::format::Container;
use crate::yaml;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

#[derive(Debug)]
struct PlainSaver {
    site: Site,
}

impl Savers for Plain {
    fn can_save(&self, container: &dyn Container) -> bool {
        container.format() == crate::format::asdf::NAME
    }

    fn open(&self, site: Site) -> Result<Box<dyn Saver>> {
        let file = File::options().read(true).write(true).open(site.path());
        let file = file.map_err(|error| Error::from(error).of(site.label()))?;
        drop(file);
        Ok(Box::new(PlainSaver { site }))
    }
}

fn refused(errno: i32, summary: String) -> Refused {
    let explanation = format!("{summary}\n");
    Refused { errno, summary, explanation, for_good: errno == libc::EINVAL }
}

impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Self {
        refused(error.raw_os_error().unwrap_or(libc::EIO), error.to_string())
    }
}

impl PlainSaver {
    /// The text with what was put back into it, if it is sound, and the old file after its head.
    fn sound(&self, text: &[u8], began_from: &Head) -> std::result::Result<(Vec<u8>, File), Refused> {
        let mut old = File::open(self.site.path())?;
        let mut head = vec![0; usize::try_from(began_from.len).unwrap_or(0)];
        let same = old.read_exact(&mut head).is_ok();
        if !same || Head::of_bytes(&head) != *began_from {
            return Err(refused(libc::EBUSY, "the tree was changed by another program".into()));
        }
        let mut whole = text.to_vec();
        if !whole.starts_with(b"#ASDF") {
            let lines = head.split_inclusive(|byte| *byte == b'\n');
            whole = lines.take_while(|line| !line.starts_with(b"---")).flatten().copied().collect();
            if !text.starts_with(b"---") {
                whole.extend(b"---\n");
            }
            whole.extend(text);
        }
        if !whole.ends_with(b"\n") {
            whole.push(b'\n');
        }
        if !whole.ends_with(b"\n...\n") && !whole.ends_with(b"\n...\r\n") {
            whole.extend(b"...\n");
        }
        yaml::check_document(&whole).map_err(|error| refused(libc::EINVAL, error.to_string()))?;
        old.seek(SeekFrom::Start(began_from.len))?;
        Ok((whole, old))
    }
}

impl Saver for PlainSaver {
    fn check(&mut self, text: &[u8], began_from: &Head) -> std::result::Result<(), Refused> {
        self.sound(text, began_from).map(drop)
    }

    fn try_save(
        &mut self,
        text: &[u8],
        began_from: &Head,
        _moving: &mut dyn FnMut(),
    ) -> std::result::Result<Saved, Refused> {
        let (whole, mut old) = self.sound(text, began_from)?;
        let meta = old.metadata()?;
        let mut name = self.site.name().to_owned();
        name.push(".asdf-mount-new");
        let new = self.site.path().with_file_name(name);
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        let mut write = || -> std::io::Result<()> {
            file.write_all(&whole)?;
            std::io::copy(&mut old, &mut file)?;
            file.set_permissions(std::fs::Permissions::from_mode(meta.mode() & 0o7777))?;
            std::os::unix::fs::fchown(&file, Some(meta.uid()), Some(meta.gid()))?;
            file.sync_all()?;
            std::fs::rename(&new, self.site.path())
        };
        if let Err(error) = write() {
            let _ = std::fs::remove_file(&new);
            return Err(error.into());
        }
        Ok(Saved { mended: whole != text, notes: Vec::new() })
    }
}
