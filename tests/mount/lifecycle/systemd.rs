//! Readiness by the protocol of sd_notify(3), and the units in docs/systemd.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use common::daemon::{Bench, Daemon, eventually, succeeded};

/// Returns the next message to a service manager, or none within the time limit.
fn received(socket: &UnixDatagram, patience: Duration) -> Option<String> {
    socket.set_read_timeout(Some(patience)).unwrap();
    let mut message = [0; 200];
    let length = socket.recv(&mut message).ok()?;
    Some(String::from_utf8_lossy(&message[..length]).into_owned())
}

fn next(socket: &UnixDatagram) -> String {
    received(socket, Duration::from_secs(60)).expect("a message within a minute")
}

/// Mounts `a.asdf` in the foreground, as a service of type `notify`.
fn service(bench: &Bench, address: &str) -> Child {
    let mut command = bench.command(["-f", "a.asdf", "mnt"]);
    command.env("NOTIFY_SOCKET", address).stderr(Stdio::null()).spawn().unwrap()
}

fn is_mounted(bench: &Bench) -> bool {
    bench.mountpoint().join("tree.yaml").exists()
}

#[test]
fn it_is_ready_when_the_mount_answers_and_stops_before_the_unmount() {
    let bench = Bench::new();
    let path = bench.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut child = service(&bench, path.to_str().unwrap());
    assert_eq!(next(&socket), "READY=1\n");
    assert!(is_mounted(&bench));
    let daemon = Daemon::of(&bench.mountpoint());
    assert_eq!(daemon.number, child.id().cast_signed());

    // The queue is full, so the daemon waits for the end of its message.
    let filler = UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    let full = (0..100_000)
        .any(|_| filler.send_to(b"full", &path).is_err_and(|e| e.kind() == ErrorKind::WouldBlock));
    assert!(full, "the queue has an end");
    daemon.send(Signal::TERM);
    std::thread::sleep(Duration::from_millis(300));
    assert!(is_mounted(&bench), "it was unmounted before the message");
    eventually("STOPPING is sent", || next(&socket) != "full");
    eventually("the daemon ends", || child.try_wait().unwrap().is_some());
    assert!(child.wait().unwrap().success());
    assert_eq!(received(&socket, Duration::from_millis(1)), None, "no message twice");
    bench.nothing_is_left();
}

#[test]
fn an_unmount_by_another_program_is_announced_too() {
    let bench = Bench::new();
    let name = format!("asdf-mount-{}", bench.path("").display());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let mut child = service(&bench, &format!("@{name}"));
    assert_eq!(next(&socket), "READY=1\n");
    succeeded(&bench.run(["-u", "mnt"]));
    assert_eq!(next(&socket), "STOPPING=1\n");
    assert!(child.wait().unwrap().success());
    bench.nothing_is_left();
}

#[test]
fn a_daemon_in_the_background_is_announced_with_its_number() {
    let bench = Bench::new();
    let path = bench.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    succeeded(&bench.command(["a.asdf", "mnt"]).env("NOTIFY_SOCKET", &path).output().unwrap());
    let daemon = Daemon::of(&bench.mountpoint());
    assert_eq!(next(&socket), format!("MAINPID={}\nREADY=1\n", daemon.number));
    succeeded(&bench.run(["-u", "mnt"]));
    assert_eq!(next(&socket), "STOPPING=1\n");
    bench.nothing_is_left();
}

#[test]
fn a_mount_that_fails_is_never_ready_and_a_bad_address_does_not_matter() {
    let bench = Bench::new();
    let path = bench.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    fs::write(bench.source(), "no ASDF file").unwrap();
    assert!(!service(&bench, path.to_str().unwrap()).wait().unwrap().success());
    assert_eq!(received(&socket, Duration::from_millis(1)), None);
    fs::write(bench.source(), common::daemon::TEXT).unwrap();
    for address in ["vsock:2:9999", "relative", "/nowhere/at/all", "@nobody is here"] {
        let mut command = bench.command(["-f", "a.asdf", "mnt"]);
        let mut child = command.env("NOTIFY_SOCKET", address).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // A mount that ends before it is ready has failed.
        assert!(lines.any(|line| line.unwrap().contains("the message can't be sent")), "{address}");
        assert!(is_mounted(&bench));
        succeeded(&bench.run(["-u", "mnt"]));
        assert!(child.wait().unwrap().success(), "{address}");
    }
    bench.nothing_is_left();
}

/// Copies the units of the documents, with the path of this program, and returns their paths.
fn units(bench: &Bench) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/systemd");
    let units = fs::read_dir(folder).unwrap().map(|entry| {
        let unit = entry.unwrap();
        // A template is checked as one of its instances.
        let name = unit.file_name().into_string().unwrap().replace('@', "@data-galaxy.asdf");
        let text = fs::read_to_string(unit.path()).unwrap();
        // systemd searches /usr/local/bin and /usr/bin, so that a package and scripts/install are found.
        assert!(!name.ends_with(".service") || text.contains("\nExecStart=asdf-mount "));
        let copy = bench.path(name);
        fs::write(&copy, text.replace("=asdf-mount ", concat!("=", env!("CARGO_BIN_EXE_asdf-mount"), " ")))
            .unwrap();
        copy
    });
    units.collect()
}

#[test]
fn the_units_in_the_documents_are_valid() {
    let bench = Bench::new();
    let units = units(&bench);
    assert_eq!(units.len(), 3);
    for unit in units {
        let manager = if unit.extension().unwrap() == "service" { "--user" } else { "--system" };
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", manager, "--man=no"]).arg(&unit);
        let output = command.env("XDG_RUNTIME_DIR", bench.path("")).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}: {output:?}", unit.display());
    }
}
