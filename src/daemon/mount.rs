//! Mounting with mount(2), or with fusermount3.
//!
//! fuser can mount, too, but its session unmounts the path when it ends, which may by then be another mount.
//! Therefore fuser only gets the descriptor (`Session::from_fd`), and [`Mounted`] identifies the mount by its
//! device number, not by its path.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use asdf_access::options::{AccessTime, FILE_SYSTEM_TYPE, Options, SUBTYPE};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use seekable::error::{Error, Kind, Result, in_shell};

use super::held::{self, HeldEntry};
use super::mountinfo::{self, Health, Mount};
use super::mountpoint::Mountpoint;
use super::{detach, fusermount};

/// The FUSE device.
pub(super) const DEVICE: &str = "/dev/fuse";

/// A mount that this process made.
#[derive(Clone, Debug)]
pub(crate) struct Mounted {
    /// Device number `major:minor`.
    device: String,
}

impl Mounted {
    /// Returns the device number `major:minor`.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// Unmounts the mount everywhere in this namespace; open files stay usable for a while.
    pub(crate) fn detach(&self) {
        self.detach_those(|_, _| true);
    }

    /// Unmounts the mount if it is dead: it stays behind as a dead mount if the connection to the kernel was
    /// aborted.
    pub(crate) fn detach_if_dead(&self) {
        self.detach_those(|mount, root| mount.health(root) == Health::Dead);
    }

    /// Unmounts the mount unless a program uses it, or another mount covers it or is a copy of it. Returns
    /// false if it stays mounted.
    pub(crate) fn is_removed_unless_busy(&self) -> bool {
        let Ok(mounts) = self.places() else { return false };
        // If there is a bind mount, it may be in use although this mount is not.
        let [mount] = &mounts[..] else { return false };
        let Ok(found) = HeldEntry::find(&mount.mountpoint) else { return false };
        let Some(root) = held::hold_mount(mount) else { return false };
        detach::take_away(&found.entry, mount, root).is_ok()
    }

    /// Returns the mount, and its copies in this namespace.
    fn places(&self) -> Result<Vec<Mount>> {
        let mut mounts = mountinfo::all()?;
        mounts.retain(|mount| mount.has_our_type() && mount.device == self.device);
        Ok(mounts)
    }

    fn detach_those(&self, wanted: impl Fn(&Mount, &OwnedFd) -> bool) {
        let mounts = self.places().unwrap_or_else(|error| {
            tracing::error!("{error}; the daemon ends, and leaves a dead mount");
            Vec::new()
        });
        for mount in mounts {
            // The path of a covered mount leads to the covering one.
            let Some(root) = held::hold_mount(&mount) else {
                let place = in_shell(&mount.mountpoint);
                tracing::warn!("{place}: stays mounted, because another mount covers it");
                continue;
            };
            if wanted(&mount, &root)
                && let Err(error) = detach::detach(&mount, &root)
            {
                tracing::error!("{}", left_behind(&error, &mount.mountpoint));
            }
        }
    }
}

/// Returns the message for a mount that can't be unmounted.
pub(super) fn left_behind(error: &Error, mountpoint: &Path) -> String {
    let place = in_shell(mountpoint);
    format!(
        "{error}; the daemon ends anyway and leaves a dead mount; remove it: asdf-mount -u {place}; or, as root: umount -l \
         {place}"
    )
}

/// Mounts on the held directory and returns the descriptor to serve. `source` is the text that the mount table
/// shows as the source of the mount.
///
/// # Errors
/// Neither the system call nor fusermount3 could mount, or the directory was renamed at this moment; no mount
/// is left.
pub(crate) fn mount(
    place: &Mountpoint,
    source: &OsStr,
    options: &Options,
    read_only: bool,
) -> Result<(Mounted, OwnedFd)> {
    let descriptor = match directly(place, source, options, read_only)? {
        Some(descriptor) => descriptor,
        None => fusermount::mount(place.dir(), place.path(), &helper_options(source, options, read_only))?,
    };
    let here = place.entry().mount()?;
    match here.filter(|mount| is_own(mount) && held::mount_id(place.dir()).ok() == Some(mount.parent)) {
        Some(mount) => Ok((Mounted { device: mount.device }, descriptor)),
        None => {
            remove_elsewhere(place);
            let message = "was renamed or replaced at this moment; try again";
            Err(Error::new(Kind::System(libc::EAGAIN), message).of(place.path()))
        }
    }
}

/// True for a mount by the user of this process. fusermount3 lets nobody choose another user.
fn is_own(mount: &Mount) -> bool {
    let user = rustix::process::getuid().as_raw();
    mount.has_our_type() && mount.owner.is_some_and(|(owner, _)| owner == user)
}

/// Unmounts from the held directory, which has another name by now.
fn remove_elsewhere(place: &Mountpoint) {
    let Ok(path) = held::current_path(place.dir()) else { return };
    let mounts = mountinfo::all().unwrap_or_default();
    for mount in mounts.iter().filter(|mount| is_own(mount) && mount.mountpoint == path) {
        if let Some(root) = held::hold_mount(mount)
            && let Err(error) = detach::detach(mount, &root)
        {
            tracing::error!("{error}");
        }
    }
}

/// Mounts with mount(2); `None` if this process lacks the permission.
fn directly(
    place: &Mountpoint,
    source: &OsStr,
    options: &Options,
    read_only: bool,
) -> Result<Option<OwnedFd>> {
    let device = match OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(device) => device,
        Err(error) => match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => return Ok(None),
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => return Err(no_fuse()),
            _ => return Err(Error::from(error).of(DEVICE)),
        },
    };
    let data = CString::new(kernel_options(&device, options)).expect("only our own words and numbers");
    let path = held::path_of(place.dir());
    match rustix::mount::mount(source, path, FILE_SYSTEM_TYPE, flags(options, read_only), data.as_c_str()) {
        Ok(()) => Ok(Some(device.into())),
        Err(Errno::PERM) => Ok(None),
        Err(Errno::NODEV) => Err(no_fuse()),
        Err(errno) => Err(Error::from(errno).within("can't mount").of(place.path())),
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
