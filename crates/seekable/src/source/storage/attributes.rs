//! Copying of owner, mode, ACLs and extended attributes to a replacement file.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::XattrFlags;

/// Prefix of the attributes that hold POSIX ACLs.
const ACL: &[u8] = b"system.posix_acl_";

/// Copies the attributes of `from` to `to`.
///
/// Fails if the owner, group, mode, ACLs or an attribute with the prefix `user.` or `security.` can't be
/// copied. Also fails if an attribute is listed but can't be read (`trusted.` on btrfs). All other attributes
/// are copied if the system allows it.
pub(super) fn keep(from: &File, to: &File) -> io::Result<()> {
    let old = from.metadata()?;
    let new = to.metadata()?;
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        std::os::unix::fs::fchown(to, Some(old.uid()), Some(old.gid()))?;
    }
    to.set_permissions(std::fs::Permissions::from_mode(old.mode() & 0o7777))?;
    let names = list(from)?;
    for name in &names {
        let value = match value(from, name) {
            Err(rustix::io::Errno::NODATA) => Err(rustix::io::Errno::PERM),
            answer => answer,
        }?;
        match rustix::fs::fsetxattr(to, name.as_slice(), &value, XattrFlags::empty()) {
            Err(_) if !must_be_kept(name) || self::value(to, name).is_ok_and(|there| there == value) => {}
            answer => answer?,
        }
    }
    // A new file inherits the directory's default ACL.
    for name in list(to)?.iter().filter(|name| name.starts_with(ACL) && !names.contains(name)) {
        rustix::fs::fremovexattr(to, name.as_slice())?;
    }
    Ok(())
}

fn must_be_kept(name: &[u8]) -> bool {
    // Writing to a file drops its capabilities.
    let is_security = name.starts_with(b"security.") && name != b"security.capability";
    is_security || name.starts_with(b"user.") || name.starts_with(ACL)
}

fn list(file: &File) -> io::Result<Vec<Vec<u8>>> {
    let mut names = vec![0; 64 << 10];
    match rustix::fs::flistxattr(file, &mut names) {
        Ok(len) => names.truncate(len),
        Err(rustix::io::Errno::OPNOTSUPP) => names.clear(),
        Err(error) => return Err(error.into()),
    }
    Ok(names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
}

fn value(file: &File, name: &[u8]) -> rustix::io::Result<Vec<u8>> {
    let mut value = vec![0; 64 << 10];
    let len = rustix::fs::fgetxattr(file, name, &mut value)?;
    value.truncate(len);
    Ok(value)
}
