//! Mounting with mount(2), or with fusermount3.
//!
//! fuser can mount, too, but its session unmounts the path when it ends, which may by then be another mount.
//! Therefore fuser only gets the descriptor (`Session::from_fd`), and [`Mounted`] identifies the mount by its
//! device number, not by its path.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::{detach, fusermount, mountinfo};
use crate::error::{Error, Kind, Result};
use crate::options::{AccessTime, FILE_SYSTEM_TYPE, Options, SUBTYPE};

/// The FUSE device.
pub(super) const DEVICE: &str = "/dev/fuse";

/// A mount that this process serves.
#[derive(Clone, Debug)]
pub(crate) struct Mounted {
    path: PathBuf,
    /// Device number `major:minor`; `None` if /proc can't be read.
    device: Option<String>,
}

impl Mounted {
    /// Unmounts the mount everywhere in this namespace; open files stay usable for a while.
    pub(crate) fn detach(&self) {
        self.detach_those(|_| true);
    }

    /// Unmounts the mount if it is dead: it stays behind as a dead mount if the connection to the kernel was
    /// aborted.
    pub(crate) fn detach_if_dead(&self) {
        self.detach_those(mountinfo::Mount::is_dead);
    }

    /// Unmounts the mount unless a program uses it, or another mount covers it or is a copy of it. Returns
    /// false if it stays mounted.
    pub(crate) fn is_removed_unless_busy(&self) -> bool {
        let Some(device) = &self.device else { return false };
        let Ok(mounts) = mountinfo::all() else { return false };
        let mut own = mounts.into_iter().filter(|mount| mount.is_ours() && &mount.device == device);
        // If there is a bind mount, it may be in use although this mount is not.
        let (Some(mount), None) = (own.next(), own.next()) else { return false };
        let is_top =
            mountinfo::top_at(&mount.mountpoint).ok().flatten().is_some_and(|top| top.id == mount.id);
        is_top && detach::take_away(&mount.mountpoint, false).is_ok()
    }

    fn detach_those(&self, wanted: impl Fn(&mountinfo::Mount) -> bool) {
        let places = match (&self.device, mountinfo::all()) {
            (Some(device), Ok(mounts)) => mounts
                .into_iter()
                .filter(|mount| mount.is_ours() && &mount.device == device && wanted(mount))
                .map(|mount| (mount.id, mount.mountpoint))
                .collect(),
            _ => vec![(0, self.path.clone())],
        };
        for (id, place) in places {
            // The path of a covered mount leads to the covering one.
            if id != 0 && mountinfo::top_at(&place).ok().flatten().is_some_and(|top| top.id != id) {
                tracing::warn!("{}: stays mounted, because another mount covers it", place.display());
            } else if let Err(error) = detach::detach(&place) {
                let place = place.display();
                tracing::error!(
                    "{error}; the daemon ends anyway and leaves a dead mount; remove it with 'asdf-mount -u {place}' \
                     or, as root, 'umount -l {place}'"
                );
            }
        }
    }
}

/// Mounts on `path` and returns the descriptor to serve. `source` is the text that the mount table shows as
/// the source of the mount.
///
/// # Errors
/// Neither the system call nor fusermount3 could mount; no mount is left.
pub(crate) fn mount(
    path: &Path,
    source: &OsStr,
    options: &Options,
    read_only: bool,
) -> Result<(Mounted, OwnedFd)> {
    let descriptor = match directly(path, source, options, read_only)? {
        Some(descriptor) => descriptor,
        None => fusermount::mount(path, &helper_options(source, options, read_only))?,
    };
    let device = mountinfo::top_at(path).ok().flatten().filter(mountinfo::Mount::is_ours);
    Ok((Mounted { path: path.to_owned(), device: device.map(|mount| mount.device) }, descriptor))
}

/// Mounts with mount(2); `None` if this process lacks the permission.
fn directly(path: &Path, source: &OsStr, options: &Options, read_only: bool) -> Result<Option<OwnedFd>> {
    let device = match OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(device) => device,
        Err(error) => match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => return Ok(None),
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => return Err(no_fuse()),
            _ => return Err(Error::from(error).of(DEVICE)),
        },
    };
    let data = CString::new(kernel_options(&device, options)).expect("only our own words and numbers");
    match rustix::mount::mount(source, path, FILE_SYSTEM_TYPE, flags(options, read_only), data.as_c_str()) {
        Ok(()) => Ok(Some(device.into())),
        Err(Errno::PERM) => Ok(None),
        Err(Errno::NODEV) => Err(no_fuse()),
        Err(errno) => Err(Error::from(errno).within("can't mount").of(path)),
    }
}

fn no_fuse() -> Error {
    let message = "the kernel has no FUSE: load its module (modprobe fuse), or give the container /dev/fuse";
    Error::new(Kind::System(libc::ENODEV), message).advise(fusermount::WITHOUT_MOUNT)
}

/// Returns the FUSE options for mount(2). The kernel always checks permissions.
fn kernel_options(device: &File, options: &Options) -> String {
    let user = rustix::process::getuid().as_raw();
    let group = rustix::process::getgid().as_raw();
    let mut data = format!(
        "fd={},rootmode=40000,user_id={user},group_id={group},default_permissions",
        device.as_raw_fd()
    );
    if options.allow_other {
        data += ",allow_other";
    }
    if let Some(bytes) = options.max_read {
        data += &format!(",max_read={bytes}");
    }
    data
}

fn flags(options: &Options, read_only: bool) -> MountFlags {
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, read_only);
    flags.set(MountFlags::NOEXEC, options.no_exec);
    flags.set(MountFlags::SYNCHRONOUS, options.synchronous);
    flags.set(MountFlags::DIRSYNC, options.synchronous_directories);
    flags.set(MountFlags::NODIRATIME, options.no_directory_access_time);
    flags |= match options.access_time {
        AccessTime::Default => MountFlags::empty(),
        AccessTime::Relative => MountFlags::RELATIME,
        AccessTime::Strict => MountFlags::STRICTATIME,
        AccessTime::Never => MountFlags::NOATIME,
    };
    flags
}

/// Returns the options for fusermount3, which knows fewer flags and adds nosuid,nodev.
fn helper_options(source: &OsStr, options: &Options, read_only: bool) -> OsString {
    let way = if read_only { "ro" } else { "rw" };
    let mut list =
        OsString::from(format!("{way},nosuid,nodev,default_permissions,subtype={SUBTYPE},fsname="));
    list.push(fusermount::escape(source));
    let flags = [
        (options.allow_other, ",allow_other"),
        (options.no_exec, ",noexec"),
        (options.synchronous, ",sync"),
        (options.synchronous_directories, ",dirsync"),
        (options.access_time == AccessTime::Never, ",noatime"),
    ];
    for (_, name) in flags.iter().filter(|(on, _)| *on) {
        list.push(name);
    }
    if let Some(bytes) = options.max_read {
        list.push(format!(",max_read={bytes}"));
    }
    list
}
