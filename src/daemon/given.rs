//! A mount that the caller made: it opened `/dev/fuse`, mounted, and passes the descriptor by the mountpoint
//! `/dev/fd/N`. This is libfuse's protocol, which `apptainer --fusemount` and `mount.fuse3 -o drop_privileges`
//! use. The caller also unmounts.

use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, makedev};
use seekable::error::{Error, Kind, Result};

use super::{background, held, mount};

/// The device number of `/dev/fuse`.
const FUSE_DEVICE: (u32, u32) = (10, 229);

/// Returns the number in a mountpoint `/dev/fd/N`; `None` for any other path.
pub(crate) fn number(mountpoint: &Path) -> Option<u32> {
    let digits = mountpoint.to_str()?.strip_prefix("/dev/fd/")?;
    // A sign would be parsed, too.
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Returns the descriptor that a mountpoint names; `None` if it names none.
///
/// # Errors
/// The descriptor is not an open `/dev/fuse`.
pub(crate) fn descriptor(mountpoint: &Path) -> Result<Option<OwnedFd>> {
    let Some(number) = number(mountpoint) else { return Ok(None) };
    let refuse = |what: &str| {
        let message = format!("as a mountpoint, this has to be an open /dev/fuse, but {what}");
        Error::new(Kind::Usage, message).of(mountpoint)
    };
    let device = background::inherited(number).map_err(|_| refuse("no file is open under this number"))?;
    if is_fuse(&device) { Ok(Some(device)) } else { Err(refuse("it is another file")) }
}

/// True if each thread can have a descriptor of its own, for which it opens `/dev/fuse`. A container may lack
/// that device.
pub(crate) fn can_be_cloned() -> bool {
    OpenOptions::new().read(true).write(true).open(mount::DEVICE).is_ok_and(|file| is_fuse(&file.into()))
}

fn is_fuse(device: &OwnedFd) -> bool {
    let (major, minor) = FUSE_DEVICE;
    rustix::fs::fstat(device).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
            && stat.st_rdev == makedev(major, minor)
    })
}

/// Returns the device number `major:minor` of the mount that a descriptor serves; `None` before Linux 6.16.
pub(crate) fn device(descriptor: &OwnedFd) -> Option<String> {
    let minor: u32 = held::fdinfo(descriptor, "fuse_connection:").ok()?;
    Some(format!("0:{minor}"))
}
