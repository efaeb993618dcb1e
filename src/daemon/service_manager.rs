//! Messages to systemd or another service manager, by the protocol of sd_notify(3).
//!
//! `NOTIFY_SOCKET` is the address of a datagram socket: a path, or `@` and an abstract name. Each message is a
//! datagram of lines `NAME=VALUE`:
//!
//! | message | sent |
//! |---|---|
//! | `READY=1` | when the mount has answered a process |
//! | `MAINPID=` | with `READY=1`, by the caller's process, if the daemon runs in the background |
//! | `STOPPING=1` | before a signal detaches the mount, or after a program has unmounted it |

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Once;

use rustix::process::Pid;

const VARIABLE: &str = "NOTIFY_SOCKET";

/// True if a service manager waits for messages.
pub(super) fn is_there() -> bool {
    address().is_some()
}

/// True if the service manager has an abstract socket.
pub(super) fn has_abstract_address() -> bool {
    address().is_some_and(|address| address.as_bytes().starts_with(b"@"))
}

/// Announces that the mount answers. `daemon` is the daemon's process number if the service manager started
/// another process.
pub(super) fn ready(daemon: Option<Pid>) {
    match daemon {
        Some(daemon) => send(&format!("MAINPID={}\nREADY=1\n", daemon.as_raw_pid())),
        None => send("READY=1\n"),
    }
}

/// Announces that the mount ends; only the first call sends a message.
pub(super) fn stopping() {
    static SENT: Once = Once::new();
    SENT.call_once(|| send("STOPPING=1\n"));
}

fn address() -> Option<OsString> {
    std::env::var_os(VARIABLE).filter(|address| !address.is_empty())
}

/// Sends a message if a service manager waits for one. A failure does not affect the mount.
fn send(message: &str) {
    let Some(address) = address() else { return };
    if let Err(error) = send_to(&address, message) {
        tracing::warn!("{VARIABLE}={}: the message can't be sent: {error}", address.display());
    }
}

fn send_to(address: &OsStr, message: &str) -> io::Result<()> {
    let address = match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(address)?,
        _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "neither a path nor an abstract name")),
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the next message to a socket; fails if none is there.
    fn received(socket: &UnixDatagram) -> String {
        socket.set_nonblocking(true).unwrap();
        let mut message = [0; 100];
        let length = socket.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    }

    #[test]
    fn messages_arrive_at_a_path_and_at_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send_to(path.as_os_str(), "READY=1\n").unwrap();
        assert_eq!(received(&socket), "READY=1\n");

        let name = format!("asdf-mount-test-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send_to(format!("@{name}").as_ref(), "STOPPING=1\n").unwrap();
        assert_eq!(received(&socket), "STOPPING=1\n");
    }

    #[test]
    fn other_addresses_are_refused() {
        for address in ["vsock:2:1234", "notify", "/nowhere/at/all", "@"] {
            assert!(send_to(address.as_ref(), "READY=1\n").is_err(), "{address}");
        }
    }
}
