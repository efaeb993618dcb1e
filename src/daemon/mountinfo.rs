//! Parsing of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
//!
//! The fields of a line are separated by spaces. In a field, space, tab, line break and backslash are written
//! `\040`, `\011`, `\012` and `\134`:
//!
//! ```text
//! 36 35 0:52 / /mnt/x rw,nosuid - fuse.asdf-mount /data/a.asdf ro,user_id=0
//! id parent device root mountpoint options [optional…] - type source options
//! ```

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use asdf_access::options::FILE_SYSTEM_TYPE;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::thread::{Gid, Uid, set_thread_res_gid, set_thread_res_uid};
use seekable::error::{Error, Result};

/// The mount table of this process's mount namespace.
const TABLE: &str = "/proc/self/mountinfo";

/// An entry of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Number of the mount, and of its parent mount.
    pub(crate) id: u64,
    pub(crate) parent: u64,
    /// Device number `major:minor`, unique for each mounted file system.
    pub(crate) device: String,
    pub(crate) mountpoint: PathBuf,
    /// Type of the mounted file system: `fuse.asdf-mount`, `tmpfs` …
    pub(crate) kind: String,
    pub(crate) source: OsString,
    /// Options of the mounted file system, such as `rw,user_id=0`.
    pub(crate) options: String,
    /// The flags of the mount, such as `rw,nosuid,relatime`.
    pub(crate) flags: String,
    /// User and group of the mounter; without `allow_other`, FUSE refuses all other users.
    pub(crate) owner: Option<(u32, u32)>,
}

/// The state of a mount's daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Alive,
    /// The daemon was killed.
    Dead,
    /// The mount belongs to another user, and FUSE refuses the requests of this one.
    Silent,
}

impl Mount {
    /// True if the mount has the type of this program's mounts. Any user can choose that type, so it proves
    /// nothing.
    pub(crate) fn has_our_type(&self) -> bool {
        self.kind == FILE_SYSTEM_TYPE
    }

    /// True if the kernel refuses changes.
    pub(crate) fn is_read_only(&self) -> bool {
        self.flags.split(',').any(|flag| flag == "ro")
    }

    /// Returns the flags for mount(2).
    pub(crate) fn flags(&self) -> MountFlags {
        let flag = |name| match name {
            "ro" => MountFlags::RDONLY,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            "sync" => MountFlags::SYNCHRONOUS,
            "dirsync" => MountFlags::DIRSYNC,
            _ => MountFlags::empty(),
        };
        let flags = self.flags.split(',').chain(self.options.split(','));
        flags.map(flag).fold(MountFlags::empty(), MountFlags::union)
    }

    /// Probes the mount with this root, as its owner if necessary and permitted.
    pub(crate) fn health(&self, root: &OwnedFd) -> Health {
        // The kernel may answer stat from its cache, but not statfs. FUSE answers statfs with zeros to users
        // without access.
        let ask = || rustix::fs::fstatfs(root).map(|answer| answer.f_bsize != 0);
        match self.as_owner(ask).unwrap_or_else(ask) {
            Err(Errno::NOTCONN | Errno::CONNABORTED) => Health::Dead,
            Err(Errno::ACCESS) => Health::Silent,
            Ok(false) if self.owner.is_some() => Health::Silent,
            _ => Health::Alive,
        }
    }

    /// Runs `ask` as the user of the mount, since FUSE otherwise refuses even root.
    ///
    /// Returns `None` if this process already runs as that user, or if the user is unknown or this process
    /// may not become that user.
    pub(crate) fn as_owner<T: Send>(&self, ask: impl FnOnce() -> T + Send) -> Option<T> {
        let (user, group) = self.owner?;
        if user == rustix::process::geteuid().as_raw() && group == rustix::process::getegid().as_raw() {
            return None;
        }
        let user = Uid::from_raw(user);
        let group = Gid::from_raw(group);
        // In the kernel each thread has its own credentials, which end with the thread.
        std::thread::scope(|scope| {
            let asked = std::thread::Builder::new().spawn_scoped(scope, || {
                set_thread_res_gid(group, group, group).ok()?;
                set_thread_res_uid(user, user, user).ok()?;
                Some(ask())
            });
            asked.ok()?.join().ok().flatten()
        })
    }
}

/// Lists all mounts.
pub(crate) fn all() -> Result<Vec<Mount>> {
    let table = std::fs::read(TABLE).map_err(|error| Error::from(error).of(TABLE))?;
    Ok(parse(&table))
}

/// Another mount namespace, and its processes that this user can inspect.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    /// Process numbers and names.
    pub(crate) processes: Vec<(i32, String)>,
}

/// Returns the mount namespace of a process.
fn namespace(process: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

/// True if a process is known to be in another mount namespace.
pub(crate) fn is_elsewhere(process: i32) -> bool {
    let theirs = namespace(&process.to_string());
    theirs.is_some_and(|theirs| namespace("self").is_some_and(|own| own != theirs))
}

/// Returns the other mount namespaces that contain our mount with this device number.
pub(crate) fn copies_of(device: &str) -> Vec<Elsewhere> {
    let mut seen = HashMap::<PathBuf, Option<Elsewhere>>::new();
    if let Some(own) = namespace("self") {
        seen.insert(own, None);
    }
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        let dir = Path::new("/proc").join(process.to_string());
        let Some(theirs) = namespace(&process.to_string()) else { continue };
        let elsewhere = seen.entry(theirs).or_insert_with(|| {
            let table = std::fs::read(dir.join("mountinfo")).unwrap_or_default();
            let has_it = parse(&table).iter().any(|mount| mount.has_our_type() && mount.device == device);
            has_it.then(|| Elsewhere { processes: Vec::new() })
        });
        if let Some(elsewhere) = elsewhere {
            let name = std::fs::read_to_string(dir.join("comm")).unwrap_or_default();
            elsewhere.processes.push((process, name.trim_end().to_owned()));
        }
    }
    seen.into_values().flatten().collect()
}

fn parse(table: &[u8]) -> Vec<Mount> {
    table.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let mut text = || Some(String::from_utf8_lossy(fields.next()?).into_owned());
    let id = text()?.parse().ok()?;
    let parent = text()?.parse().ok()?;
    let device = text()?;
    let _root = text()?;
    let mountpoint = PathBuf::from(unescape(fields.next()?));
    let flags = String::from_utf8_lossy(fields.next()?).into_owned();
    fields.by_ref().find(|&field| field == b"-")?;
    let kind = unescape(fields.next()?).to_string_lossy().into_owned();
    let source = unescape(fields.next()?);
    let options = String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
    let number = |name: &str| options.split(',').find_map(|option| option.strip_prefix(name)?.parse().ok());
    let owner = number("user_id=").zip(number("group_id="));
    Some(Mount { id, parent, device, mountpoint, kind, source, options, flags, owner })
}

/// Decodes the octal escapes of a field.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let digits =
            after.get(..3).filter(|_| first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStrExt;

    const EXAMPLE: &[u8] = b"\
24 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
36 24 0:52 / /mnt/a\\040b\\134c ro,nosuid,nodev - fuse.asdf-mount /data/x\\012y.asdf ro,user_id=7,group_id=8
40 36 0:53 / /mnt/a\\040b\\134c rw shared:4 master:2 - tmpfs tmpfs rw
garbage
";

    #[test]
    fn reads_the_fields_and_their_escapes() {
        let mounts = parse(EXAMPLE);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[1].mountpoint, Path::new("/mnt/a b\\c"));
        assert_eq!(mounts[1].source, "/data/x\ny.asdf");
        assert_eq!(mounts[1].device, "0:52");
        assert!(mounts[1].has_our_type() && !mounts[2].has_our_type());
        assert_eq!((mounts[1].owner, mounts[2].owner), (Some((7, 8)), None));
    }

    proptest! {
        #[test]
        fn what_the_kernel_escapes_comes_back(name in proptest::collection::vec(1u8.., 0..40)) {
            let escaped: Vec<u8> = name.iter().flat_map(|&byte| match byte {
                b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
                _ => vec![byte],
            }).collect();
            let unescaped = unescape(&escaped);
            prop_assert_eq!(unescaped.as_bytes(), &name[..]);
        }

        #[test]
        fn nothing_makes_it_panic(table in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&table);
        }
    }
}
