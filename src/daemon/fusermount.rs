//! fusermount3, the setuid program that mounts and unmounts for ordinary users.
//!
//! fusermount3 opens `/dev/fuse`, mounts, and sends the file descriptor through the socket with the number in
//! `_FUSE_COMMFD`. We use its stdin as the socket, which a child process inherits anyway.

use std::ffi::{OsStr, OsString};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};
use seekable::error::{Error, Kind, Result};

use super::held;

const PROGRAM: &str = "fusermount3";

/// The environment variable with the path of a replacement for fusermount3.
const PATH_VARIABLE: &str = "FUSERMOUNT_PATH";

/// Maximum time for unmounting, since the daemon waits for it before it ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// Directories that are searched after `PATH`, which mount(8) clears.
const USUAL_DIRS: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];

/// Advice for users who can't mount.
pub(super) const WITHOUT_MOUNT: &str =
    "without a mount, use asdf-mount --ls, --cat, or --extract FILE -C /tmp";

/// Mounts on the held directory and returns the descriptor to serve. `shown` is its path for messages. The values in
/// `options` are escaped.
///
/// fusermount3 checks that the user may mount on its working directory, and mounts there.
pub(crate) fn mount(dir: &OwnedFd, shown: &Path, options: &OsStr) -> Result<OwnedFd> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let mut command = Command::new(find()?);
    command.arg("-o").arg(options).arg("--").arg(".").current_dir(held::path_of(dir));
    command.env("_FUSE_COMMFD", "0").stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().map_err(not_started)?;
    // The command holds the other end of the socket, which must be closed when the program ends.
    drop(command);
    let descriptor = receive(&ours);
    let output = child.wait_with_output().map_err(|error| Error::from(error).of(PROGRAM))?;
    match descriptor {
        Some(descriptor) if output.status.success() => Ok(descriptor),
        _ => Err(refusal(&output).of(shown)),
    }
}

/// Unmounts `path`; with `lazy` even if files are open there.
///
/// fusermount3 looks up a mount's owner in /etc/mtab. If it can't, the setuid umount(8) of util-linux looks
/// it up in /proc.
pub(crate) fn unmount(path: &Path, lazy: bool) -> Result<()> {
    let refused =
        match find().and_then(|program| unmount_by(Command::new(program).arg("-u"), path, lazy, "-z")) {
            Err(error) if error.errno() != libc::EBUSY => error,
            result => return result,
        };
    let umount = || USUAL_DIRS.map(|dir| Path::new(dir).join("umount"));
    let umount = umount().into_iter().find(|program| program.is_file());
    match umount.map(|program| unmount_by(&mut Command::new(program), path, lazy, "-l")) {
        Some(Ok(())) => Ok(()),
        // Both programs report a mount in use in the same way.
        Some(Err(error)) if error.errno() == libc::EBUSY => Err(error),
        _ => Err(refused),
    }
}

fn unmount_by(command: &mut Command, path: &Path, lazy: bool, lazily: &str) -> Result<()> {
    command.args(lazy.then_some(lazily)).arg("--").arg(path);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(not_started)?;
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            let what = format!("{} does not end", command.get_program().display());
            return Err(Error::new(Kind::System(libc::ETIMEDOUT), what).of(path));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output()?;
    if output.status.success() { Ok(()) } else { Err(refusal(&output).of(path)) }
}

/// Escapes comma and backslash for fusermount3.
pub(crate) fn escape(value: &OsStr) -> OsString {
    let mut escaped = Vec::with_capacity(value.len());
    for &byte in value.as_bytes() {
        if matches!(byte, b',' | b'\\') {
            escaped.push(b'\\');
        }
        escaped.push(byte);
    }
    OsString::from_vec(escaped)
}

/// Returns the line that `fusermount3 --version` prints.
pub(crate) fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().map_err(not_started)?;
    let text = String::from_utf8_lossy(&output.stdout);
    // fusermount3 version: 3.14.0
    let version = text.lines().next().and_then(|line| line.split(": ").last()).unwrap_or("unknown");
    Ok(format!("version {version}"))
}

/// Returns the path of the fusermount3 to run.
pub(crate) fn find() -> Result<PathBuf> {
    if let Some(named) = named() {
        return Ok(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).filter(|dir| dir.is_absolute());
    dirs.chain(USUAL_DIRS.map(PathBuf::from))
        .map(|dir| dir.join(PROGRAM))
        .find(|program| program.is_file())
        .ok_or_else(not_found)
}

fn not_found() -> Error {
    let advice = match named() {
        Some(named) => format!(
            "{PATH_VARIABLE} is {}, which does not exist: unset it and install the package fuse3, or run as root",
            Path::new(&named).display()
        ),
        None => format!(
            "fusermount3 not found: install the package fuse3, or run as root, or set {PATH_VARIABLE}"
        ),
    };
    Error::new(Kind::System(libc::ENOENT), advice).advise(WITHOUT_MOUNT)
}

fn not_started(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => not_found(),
        _ => match named() {
            Some(named) => Error::from(error).within(format!("{PATH_VARIABLE} is {}", named.display())),
            None => Error::from(error).of(PROGRAM),
        },
    }
}

/// Returns the program in the environment variable.
fn named() -> Option<OsString> {
    std::env::var_os(PATH_VARIABLE).filter(|named| !named.is_empty())
}

/// Receives a descriptor, which comes with one byte; `None` if none comes.
pub(super) fn receive(socket: impl AsFd) -> Option<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    rustix::io::retry_on_intr(|| {
        recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })
    .ok()?;
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}

/// Converts the message of fusermount3 into an error, with advice if possible.
fn refusal(output: &Output) -> Error {
    let output = String::from_utf8_lossy(&output.stderr);
    let output =
        output.lines().find(|line| !line.trim().is_empty()).unwrap_or("fusermount3 failed without a message");
    // The message begins with the path by which fusermount3 was started.
    let output = output.split_once("fusermount3: ").map_or(output, |(_, output)| output);
    let (errno, message) = if output.contains("user_allow_other") {
        (libc::EPERM, "allow_other needs a line 'user_allow_other' in /etc/fuse.conf".to_owned())
    } else if output.contains("no write access to mountpoint") {
        (libc::EACCES, "ordinary users can only mount on a directory that they can write to".to_owned())
    } else if output.contains("not owned by user") {
        (
            libc::EACCES,
            "in a sticky directory ordinary users can only mount on a directory that they own".to_owned(),
        )
    } else if output.contains("could not determine username") {
        let user = rustix::process::getuid().as_raw();
        (libc::EPERM, format!("fusermount3 finds no name for user {user}: add the user to /etc/passwd"))
    } else if output.contains("not found in /etc/mtab") {
        (libc::EPERM, "another user's mount: only that user or root can unmount it".to_owned())
    } else if output.contains("/etc/mtab") {
        (
            libc::EPERM,
            "fusermount3 can't read /etc/mtab: as root, 'ln -s /proc/self/mounts /etc/mtab', or unmount with \
             'umount'"
                .to_owned(),
        )
    } else if output.contains("/dev/fuse") {
        (libc::EACCES, format!("{output}; /dev/fuse needs mode 0666, or run as root; {WITHOUT_MOUNT}"))
    } else if output.contains("mounting over filesystem") || output.contains("Permission denied") {
        return unsuitable(output);
    } else if output.contains("Operation not permitted") && rustix::process::geteuid().is_root() {
        let message = format!(
            "{output}: root without the capability SYS_ADMIN can't mount, as in a container; start the container \
             with --cap-add SYS_ADMIN --device /dev/fuse, and on Ubuntu --security-opt apparmor=unconfined; \
             {WITHOUT_MOUNT}"
        );
        (libc::EPERM, message)
    } else if output.contains("Operation not permitted") {
        (
            libc::EPERM,
            format!("{output}; is fusermount3 setuid root, and may this container mount? {WITHOUT_MOUNT}"),
        )
    } else if output.contains("busy") {
        (libc::EBUSY, output.to_owned())
    } else {
        (libc::EIO, output.to_owned())
    };
    Error::new(Kind::System(errno), message)
}

/// Returns the error for a directory on a file system that fusermount3 refuses (Lustre, FUSE), or that it
/// can't enter as root (NFS).
fn unsuitable(output: &str) -> Error {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    let runtime = runtime.map_or_else(String::new, |path| format!(" ({})", path.display()));
    let message = format!(
        "{output}: fusermount3 does not mount on every file system, such as Lustre or NFS; use a directory in \
         $XDG_RUNTIME_DIR{runtime} or /tmp; {WITHOUT_MOUNT}"
    );
    Error::new(Kind::System(libc::EPERM), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_name_is_left_out() {
        for (output, means) in [
            ("/usr/bin/fusermount3: entry for /m not found in /etc/mtab\n", "another user's mount"),
            ("fusermount3: failed to open /etc/mtab: No such file or directory", "fusermount3 can't read"),
            ("/usr/bin/fusermount3: something new\n", "something new"),
            ("fusermount3: something new\n", "something new"),
            ("something new", "something new"),
            (
                "fusermount3: mounting over filesystem type 0x0bd00bd0 is forbidden",
                "mounting over filesystem type 0x0bd00bd0 is forbidden: fusermount3 does not",
            ),
            ("fusermount3: mount failed: Permission denied", "mount failed: Permission denied: fusermount3"),
            ("", "fusermount3 failed without a message"),
        ] {
            let status = std::os::unix::process::ExitStatusExt::from_raw(256);
            let error = refusal(&Output { status, stdout: Vec::new(), stderr: output.into() });
            assert!(error.to_string().starts_with(means), "{error}");
        }
    }

    #[test]
    fn a_comma_in_a_name_adds_no_option() {
        assert_eq!(escape(OsStr::new(r"a,suid\b")), r"a\,suid\\b");
    }
}
