//! Landlock: the files that a daemon may open, from its start to its end.
//!
//! A source may be written to break a decoder. What runs in its place then reaches the files that this mount is about, and
//! no others. It starts no program, mounts nothing, makes no device, signals no other process and, without a server among
//! the sources, makes no TCP connection.
//!
//! | mount | may read | may write |
//! |---|---|---|
//! | of files | their directories, what the system's libraries read | their directories, unless the mount is read-only |
//! | of directories, with `allow_other` | the directories, as above | the directories, as above |
//! | of directories, which follows links; of a link | everything but devices | everything but devices, `/proc` and `/sys`, unless the mount is read-only |
//! | with `external=anywhere`, or of servers, with certificates and passwords | everything but devices | as above |
//!
//! All may write the state directory, the cache, the directory of the log, and the one for temporary files. A mount of S3
//! without `anonymous` is not confined, because `credential_process` may be any program. Rules are for directories that
//! exist: a state directory that is removed during the mount is not made again.
//!
//! Rules are per thread: they are made before a thread starts.

use std::path::{Path, PathBuf};

use asdf_access::named;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};
use seekable::error::Result;
use seekable::user_dirs::{self, CACHE, REMOTE, STATE};

use super::{MountPlan, mount, saves, service_manager};

/// The version of Landlock that the rules are written for (Linux 6.15). An older kernel enforces what it knows.
const VERSION: ABI = ABI::V7;

/// Access to files and directories that are only read.
const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
/// Access to directories in which files are saved.
const WRITE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir | Refer
});
/// Access to a device.
const DEVICE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile | IoctlDev});

/// The devices that a daemon opens.
const DEVICES: [&str; 3] = [mount::DEVICE, "/dev/null", "/dev/tty"];
/// Files and directories that this program and the libraries of the system read.
const SYSTEM: [&str; 13] = [
    "/proc",
    "/sys",
    "/usr",
    "/lib",
    "/lib64",
    "/nix/store",
    "/dev/urandom",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/machine-id",
    "/etc/nsswitch.conf",
    "/etc/passwd",
];
/// Directories of the root directory that are not files of users.
const OF_KERNEL: [&str; 3] = ["dev", "proc", "sys"];

/// The files and directories that a daemon may open.
#[derive(Debug, Default)]
struct Reach {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    /// True if there may be a server to connect to.
    connects: bool,
}

/// Confines this thread, and all threads that it starts, to what the mount needs. Does nothing if the kernel has no
/// Landlock.
///
/// # Errors
/// A source is an address that is not valid.
pub(super) fn confine(plan: &MountPlan) -> Result<()> {
    if let Some(reach) = Reach::of(plan)? {
        match reach.enforce() {
            Ok(status) => tracing::debug!("Landlock: {:?}", status.ruleset),
            Err(error) => tracing::debug!("Landlock: {error}"),
        }
    }
    Ok(())
}

impl Reach {
    /// Returns what a mount reaches; `None` for a mount that is not confined. Makes the state and cache directories of the
    /// mount, because a rule needs a directory that exists.
    fn of(plan: &MountPlan) -> Result<Option<Self>> {
        let options = &plan.options;
        let mut reach = Self { connects: options.remote.follow, ..Self::default() };
        reach.read.extend(SYSTEM.map(PathBuf::from));
        reach.read.extend(options.schemas.iter().cloned());
        let mut follows_links = false;
        let mut sources = Vec::new();
        for source in &plan.sources {
            if !named::is_local(source)? {
                if named::shown(source).starts_with("s3:") && !options.remote.anonymous {
                    return Ok(None);
                }
                reach.connects = true;
                continue;
            }
            let is_dir = std::fs::metadata(source).is_ok_and(|meta| meta.is_dir());
            let is_link = std::fs::read_link(source).is_ok();
            follows_links |= is_link || is_dir && !options.allow_other;
            sources.push(if is_dir { source } else { source.parent().unwrap_or(source) }.to_owned());
        }
        let reads_anywhere =
            follows_links || reach.connects || options.external_anywhere && !options.allow_other;
        if reads_anywhere {
            reach.read.extend(anywhere());
        }
        if saves(plan)? {
            reach.write.extend(sources);
            reach.write.extend(STATE.path().ok().filter(|path| STATE.open(path).is_ok()));
            if follows_links {
                reach.write.extend(anywhere());
            }
        } else {
            reach.read.extend(sources);
            reach.read.extend(STATE.path());
        }
        if options.index_cache {
            reach.write.extend(CACHE.path().ok().filter(|path| CACHE.open(path).is_ok()));
        }
        reach.write.extend(options.remote.cache_dir.clone().filter(|path| REMOTE.open(path).is_ok()));
        reach.write.extend(plan.log.file.as_deref().and_then(Path::parent).map(Path::to_owned));
        reach.write.push(user_dirs::temporary());
        Ok(Some(reach))
    }

    /// Enforces the rules for this thread. Paths that do not exist have none.
    fn enforce(&self) -> std::result::Result<RestrictionStatus, RulesetError> {
        let mut rules =
            Ruleset::default().handle_access(AccessFs::from_all(VERSION))?.scope(Scope::Signal)?;
        if !self.connects {
            rules = rules.handle_access(AccessNet::from_all(VERSION))?;
        }
        if !service_manager::has_abstract_address() {
            rules = rules.scope(Scope::AbstractUnixSocket)?;
        }
        let mut rules = rules.create()?;
        let devices: Vec<_> = DEVICES.map(PathBuf::from).into();
        for (paths, access) in [(&devices, DEVICE), (&self.read, READ), (&self.write, WRITE)] {
            for path in paths {
                if let Ok(held) = PathFd::new(path) {
                    rules = rules.add_rule(PathBeneath::new(held, access))?;
                }
            }
        }
        // `rights.rs` has set it for this thread.
        rules.no_new_privs(false).restrict_self()
    }
}

/// Returns the directories of the root directory, without those of the kernel.
fn anywhere() -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir("/").into_iter().flatten().flatten();
    entries.filter(|entry| !OF_KERNEL.iter().any(|name| entry.file_name() == *name)).map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::ErrorKind;
    use std::net::TcpListener;
    use std::process::Command;

    /// Runs `act` in a thread that has the rules.
    fn confined<T: Send>(reach: &Reach, act: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let acting = scope.spawn(|| {
                rustix::thread::set_no_new_privs(true).unwrap();
                reach.enforce().unwrap();
                act()
            });
            acting.join().unwrap()
        })
    }

    fn is_denied<T>(result: std::io::Result<T>) -> bool {
        result.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    }

    #[test]
    fn only_named_files_are_opened_and_nothing_is_started() {
        let folder = tempfile::tempdir().unwrap();
        let [shown, kept, other] = ["shown", "kept", "other"].map(|name| folder.path().join(name));
        for dir in [&shown, &kept, &other] {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join("file"), "text").unwrap();
        }
        let reach = Reach { read: vec![shown.clone()], write: vec![kept.clone()], connects: false };
        confined(&reach, || {
            assert_eq!(fs::read(shown.join("file")).unwrap(), b"text");
            assert!(is_denied(File::options().write(true).open(shown.join("file"))));
            assert!(is_denied(fs::remove_file(shown.join("file"))));
            fs::write(kept.join("new"), "text").unwrap();
            fs::rename(kept.join("new"), kept.join("file")).unwrap();
            user_dirs::unnamed(&kept).unwrap();
            assert!(is_denied(File::open(other.join("file"))));
            assert!(is_denied(fs::read_dir(&other)));
            assert!(is_denied(fs::write(other.join("new"), "")));
            assert!(is_denied(fs::rename(kept.join("file"), other.join("file"))));
            assert!(is_denied(File::open("/etc/shadow")));
            File::options().write(true).open("/dev/null").unwrap();
            assert!(is_denied(Command::new("/bin/true").status()));
            assert!(is_denied(TcpListener::bind("127.0.0.1:0")));
        });
        let connects = Reach { connects: true, ..reach };
        confined(&connects, || TcpListener::bind("127.0.0.1:0").unwrap());
    }

    #[test]
    fn anywhere_is_not_among_devices_and_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        let reach = Reach { write: anywhere().collect(), ..Reach::default() };
        confined(&reach, || {
            fs::write(&path, "new").unwrap();
            assert!(is_denied(File::open("/dev/zero")));
            assert!(is_denied(File::options().write(true).open("/proc/self/comm")));
        });
    }
}
