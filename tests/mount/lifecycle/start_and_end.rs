//! The mount is ready on return, and every way to end it.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use common::daemon::{Bench, Daemon, TEXT, eventually, failed, succeeded};

const SIGNALS: [Signal; 2] = [Signal::INT, Signal::TERM];

/// The commands that unmount; the mount point is appended.
const COMMANDS: [&[&str]; 3] =
    [&[env!("CARGO_BIN_EXE_asdf-mount"), "-u"], &["umount"], &["fusermount3", "-u"]];

fn run(command: &[&str], mountpoint: &Path) -> std::process::Output {
    Command::new(command[0]).args(&command[1..]).arg(mountpoint).output().unwrap()
}

fn dead(mountpoint: &Path) -> bool {
    rustix::fs::statfs(mountpoint).err() == Some(rustix::io::Errno::NOTCONN)
}

#[test]
fn the_mount_answers_as_soon_as_the_command_returns() {
    let bench = Bench::new();
    for _ in 0..20 {
        let daemon = bench.mount(&bench.mountpoint());
        assert_eq!(fs::read_to_string(bench.mountpoint().join("tree.yaml")).unwrap(), TEXT);
        succeeded(&bench.run(["-u", "mnt"]));
        assert!(!daemon.runs(), "-u returned before the daemon ended");
    }
    bench.nothing_is_left();
}

#[test]
fn each_command_and_signal_ends_an_idle_mount_and_removes_what_was_made() {
    let bench = Bench::new();
    for (name, made) in [("mnt", false), ("made here", true)] {
        let mountpoint = bench.path(name);
        for command in COMMANDS {
            let daemon = bench.mount(&mountpoint);
            let output = run(command, &mountpoint);
            assert!(output.status.success(), "{command:?}: {output:?}");
            daemon.ends();
            assert_eq!(mountpoint.exists(), !made, "{command:?}");
            bench.nothing_is_left();
        }
        for signal in SIGNALS {
            let daemon = bench.mount(&mountpoint);
            daemon.send(signal);
            daemon.ends();
            assert_eq!(mountpoint.exists(), !made, "{signal:?}");
            bench.nothing_is_left();
        }
    }
}

#[test]
fn a_signal_ends_a_mount_with_an_open_file() {
    let bench = Bench::new();
    for signal in SIGNALS {
        let mountpoint = bench.path("made");
        let daemon = bench.mount(&mountpoint);
        let file = File::open(mountpoint.join("tree.yaml")).unwrap();
        daemon.send(signal);
        daemon.ends();
        bench.nothing_is_left();
        assert!(!mountpoint.exists());
        drop(file);
    }
}

#[test]
fn a_second_signal_ends_it_too() {
    let bench = Bench::new();
    let daemon = bench.mount(&bench.mountpoint());
    let file = File::open(bench.mountpoint().join("tree.yaml")).unwrap();
    daemon.send(Signal::TERM);
    eventually("the mount is detached", || bench.mounted_on(&bench.mountpoint()).is_empty());
    daemon.send(Signal::INT);
    daemon.ends();
    drop(file);
}

#[test]
fn unmounting_a_mount_in_use_is_refused_and_harms_nothing() {
    let bench = Bench::new();
    for command in COMMANDS {
        let daemon = bench.mount(&bench.mountpoint());
        let mut file = File::open(bench.mountpoint().join("tree.yaml")).unwrap();
        let output = run(command, &bench.mountpoint());
        if command.contains(&"-u") && command[0].ends_with("asdf-mount") {
            assert!(failed(&output, 1).contains("in use"), "{output:?}");
        } else {
            assert!(!output.status.success(), "{command:?}");
        }
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, TEXT);
        drop(file);
        // The kernel sends RELEASE after close has returned.
        eventually("it can be unmounted", || run(command, &bench.mountpoint()).status.success());
        daemon.ends();
    }
    bench.nothing_is_left();
}

#[test]
fn after_a_lazy_unmount_open_files_are_served_until_closed() {
    let bench = Bench::new();
    let mountpoint = bench.path("made");
    let daemon = bench.mount(&mountpoint);
    let mut file = File::open(mountpoint.join("tree.yaml")).unwrap();
    assert!(run(&["umount", "-l"], &mountpoint).status.success());
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, TEXT);
    assert!(daemon.runs());
    drop(file);
    daemon.ends();
    assert!(!mountpoint.exists());
}

#[test]
fn an_unrelated_mount_on_the_same_path_survives_the_end() {
    for end in [None, Some(Signal::TERM)] {
        let bench = Bench::new();
        let mountpoint = bench.mountpoint();
        let daemon = bench.mount(&mountpoint);
        let file = File::open(mountpoint.join("tree.yaml")).unwrap();
        assert!(run(&["umount", "-l"], &mountpoint).status.success());
        assert!(run(&["mount", "-t", "tmpfs", "none"], &mountpoint).status.success());
        if let Some(signal) = end {
            daemon.send(signal);
            daemon.ends();
        }
        drop(file);
        daemon.ends();
        assert_eq!(bench.mounted_on(&mountpoint), ["tmpfs"], "{end:?}");
    }
}

#[test]
fn a_mount_on_top_survives_the_end_of_ours() {
    let bench = Bench::new();
    let mountpoint = bench.mountpoint();
    let daemon = bench.mount(&mountpoint);
    assert!(run(&["mount", "-t", "tmpfs", "none"], &mountpoint).status.success());
    daemon.send(Signal::TERM);
    daemon.ends();
    assert_eq!(bench.mounted_on(&mountpoint).len(), 2);
    assert!(run(&["umount"], &mountpoint).status.success());
    succeeded(&bench.run(["-u", "mnt"]));
    bench.nothing_is_left();
}

#[test]
fn a_moved_mount_and_its_bind_mounts_end_with_the_daemon() {
    let bench = Bench::new();
    let output = bench.script(
        r#"
        mkdir there bound
        mount --make-rprivate /
        asdf-mount a.asdf mnt
        mount --move mnt there
        mount --bind there bound
        kill $(getfattr --only-values -n user.asdf-mount.pid there)
        for i in $(seq 600); do ours >/dev/null || exit 0; sleep 0.1; done
        cat /proc/self/mountinfo; exit 1"#,
    );
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}

#[test]
fn a_dead_mount_of_ours_is_cleaned_up() {
    let bench = Bench::new();
    let mountpoint = bench.mountpoint();
    bench.mount(&mountpoint).kill();
    assert!(dead(&mountpoint));
    // A dead mount is removed by the next mount.
    let daemon = bench.mount(&mountpoint);
    assert_eq!(bench.mounted_on(&mountpoint), ["fuse.asdf-mount"]);
    daemon.kill();
    // A dead mount is removed by a mount with a relative path, too, and while a file in it is still open.
    succeeded(&bench.run(["a.asdf", "mnt/"]));
    let file = File::open(mountpoint.join("tree.yaml")).unwrap();
    Daemon::of(&mountpoint).kill();
    // A dead mount is removed by -u.
    succeeded(&bench.run(["-u", "mnt"]));
    drop(file);
    bench.nothing_is_left();
}

#[test]
fn a_dead_mount_of_another_program_is_left_alone() {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    use std::os::fd::AsRawFd;
    let bench = Bench::new();
    let mountpoint = bench.mountpoint();
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").unwrap();
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let data = std::ffi::CString::new(data).unwrap();
    mount("other", &mountpoint, "fuse.other", MountFlags::empty(), data.as_c_str()).unwrap();
    drop(device);
    assert!(dead(&mountpoint));
    assert!(failed(&bench.run(["a.asdf", "mnt"]), 1).contains("fuse.other"));
    assert!(failed(&bench.run(["-u", "mnt"]), 1).contains("fuse.other"));
    assert_eq!(bench.mounted_on(&mountpoint), ["fuse.other"]);
    unmount(&mountpoint, UnmountFlags::DETACH).unwrap();
    bench.nothing_is_left();
}

#[test]
fn in_the_foreground_it_ends_with_status_0_by_signal_and_by_unmounting() {
    let bench = Bench::new();
    let mountpoint = bench.path("made");
    for signal in SIGNALS.map(Some).into_iter().chain([None]) {
        let child = bench.mount_in_foreground(&mountpoint);
        match signal {
            Some(signal) => kill_process(Pid::from_child(&child), signal).unwrap(),
            None => assert!(run(&["umount"], &mountpoint).status.success()),
        }
        let output = child.wait_with_output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{signal:?}: {log}");
        assert!(log.contains("mounted"), "{log}");
        assert!(!mountpoint.exists());
        bench.nothing_is_left();
    }
}

#[test]
fn unmounting_by_command_waits_for_one_in_the_foreground() {
    let bench = Bench::new();
    let mut child = bench.mount_in_foreground(&bench.mountpoint());
    succeeded(&bench.run(["-u", "mnt"]));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn several_mounts_are_unmounted_at_once_and_one_failure_stops_nothing() {
    let bench = Bench::new();
    fs::copy(bench.source(), bench.path("b.asdf")).unwrap();
    let daemons = [("a.asdf", "one"), ("b.asdf", "two")].map(|(source, name)| {
        succeeded(&bench.run([source, name]));
        Daemon::of(&bench.path(name))
    });
    let output = bench.run(["-u", "one", "mnt", "missing", "two"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 2);
    assert!(daemons.iter().all(|daemon| !daemon.runs()));
    bench.nothing_is_left();
}

#[test]
fn the_daemon_keeps_nothing_of_its_caller() {
    let bench = Bench::new();
    fs::create_dir(bench.path("cwd")).unwrap();
    let mut command = Command::new("flock");
    command.arg(bench.path("lock")).arg(env!("CARGO_BIN_EXE_asdf-mount"));
    // `output` reads both pipes to their end, so it returns only when no process holds stdout or stderr.
    let output = command.args(["../a.asdf", "../mnt"]).current_dir(bench.path("cwd")).output().unwrap();
    succeeded(&output);
    let daemon = Daemon::of(&bench.mountpoint());
    let link = |name: &str| fs::read_link(format!("/proc/{}/{name}", daemon.number)).unwrap();
    assert_eq!(link("cwd"), Path::new("/"));
    for fd in ["fd/0", "fd/1", "fd/2"] {
        assert_eq!(link(fd), Path::new("/dev/null"));
    }
    for fd in fs::read_dir(format!("/proc/{}/fd", daemon.number)).unwrap() {
        let target = fs::read_link(fd.unwrap().path()).unwrap();
        assert_ne!(target, bench.path("lock"));
        assert!(!target.to_str().unwrap().starts_with("pipe:"), "{target:?}");
    }
    let stat = daemon.stat().unwrap();
    assert_eq!(stat[3], daemon.number.to_string(), "a session of its own");
    assert_eq!(stat[4], "0", "no terminal");
    assert!(Command::new("flock").arg("-n").arg(bench.path("lock")).arg("true").status().unwrap().success());
    fs::remove_dir(bench.path("cwd")).unwrap();
    succeeded(&bench.run(["-u", "mnt"]));
    bench.nothing_is_left();
}
