//! Extended attributes that programs set on files of the overlay. They last as long as the mount.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use seekable::error::{Result, errno};
use seekable::sync::locked;

use crate::overlay::Overlay;
use crate::overlay::file::OverlayFile;

/// Maximum number of bytes of all extended attributes of one file, names and values.
const MAX_XATTRS: usize = 64 << 10;

/// Returns the value of an attribute.
pub(crate) fn get(overlay_file: &OverlayFile, name: &OsStr) -> Option<Vec<u8>> {
    locked(&overlay_file.body).xattrs.get(name).cloned()
}

/// Returns the names, each with a trailing NUL.
pub(crate) fn names(overlay_file: &OverlayFile) -> Vec<u8> {
    let body = locked(&overlay_file.body);
    body.xattrs.keys().flat_map(|name| name.as_bytes().iter().copied().chain([0])).collect()
}

/// A condition of setting an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrCondition {
    None,
    Exists,
    IsMissing,
}

impl Overlay {
    /// Sets or, without a value, removes an extended attribute.
    pub(crate) fn set_xattr(
        &self,
        overlay_file: &Arc<OverlayFile>,
        name: &OsStr,
        value: Option<&[u8]>,
        condition: XattrCondition,
    ) -> Result<()> {
        // A program that sets a POSIX ACL must not believe that it was set.
        if !name.as_bytes().starts_with(b"user.") {
            return Err(errno(libc::EOPNOTSUPP));
        }
        let mut state = locked(&self.state);
        self.write_access(&mut state)?;
        let mut body = locked(&overlay_file.body);
        let exists = body.xattrs.contains_key(name);
        if !exists && (value.is_none() || condition == XattrCondition::Exists) {
            return Err(errno(libc::ENODATA));
        }
        if exists && condition == XattrCondition::IsMissing {
            return Err(errno(libc::EEXIST));
        }
        body.xattrs.remove(name);
        if let Some(value) = value {
            let taken: usize = body.xattrs.iter().map(|(other, held)| other.len() + held.len()).sum();
            if taken.saturating_add(name.len()).saturating_add(value.len()) > MAX_XATTRS {
                return Err(errno(libc::ENOSPC));
            }
            body.xattrs.insert(name.to_owned(), value.to_owned());
        }
        Ok(())
    }
}
