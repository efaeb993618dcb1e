//! `-o` on a real mount.

use std::fs;
use std::os::unix::fs::MetadataExt;

use common::daemon::{Bench, Daemon, failed, line_of, succeeded};

/// Mounts with `options` and returns the mount's line in mountinfo.
fn line_with(options: &[&str]) -> String {
    let bench = Bench::new();
    succeeded(&bench.run(options.iter().copied().chain(["a.asdf", "mnt"])));
    let line = line_of(&bench.mountpoint());
    succeeded(&bench.run(["-u", "mnt"]));
    bench.nothing_is_left();
    line
}

#[test]
fn the_kernel_is_told_what_was_asked() {
    let plain = line_with(&[]);
    assert!(plain.contains(" rw,nosuid,nodev,relatime "), "{plain}");
    assert!(plain.contains("/a.asdf rw,user_id=0,group_id=0,default_permissions"), "{plain}");
    assert!(!plain.contains("allow_other"), "{plain}");
    for (options, shown) in [
        ("noexec", "noexec"),
        ("noatime", "noatime"),
        ("nodiratime", "nodiratime"),
        ("sync", "sync"),
        ("dirsync", "dirsync"),
        ("ro", " ro,nosuid,nodev,relatime "),
        ("ro,rw", " rw,nosuid,nodev,relatime "),
        ("allow_other", "allow_other"),
        ("max_read=65536", "max_read=65536"),
        ("rw,suid,dev,exec", " rw,nosuid,nodev,relatime "),
        (
            "kernel_cache,auto_unmount,nonempty,lazytime,big_writes,attr_timeout=1,x-systemd.automount,_netdev,nofail",
            " rw,nosuid,",
        ),
        (r"fsname=a\,suid\\b c", r" a,suid\134b\040c rw,"),
    ] {
        let line = line_with(&["-o", options]);
        assert!(line.contains(shown), "{options}: {line}");
    }
}

#[test]
fn options_stand_anywhere_and_names_may_begin_with_a_dash() {
    let bench = Bench::new();
    fs::rename(bench.source(), bench.path("-f")).unwrap();
    succeeded(&bench.run(["-onoexec", "--", "-f", "-u"]));
    let line = line_of(&bench.path("-u"));
    assert!(line.contains("noexec"), "{line}");
    succeeded(&bench.run(["-u", "--", "-u"]));
    fs::rename(bench.path("-f"), bench.source()).unwrap();
    succeeded(&bench.run(["a.asdf", "-o", "noexec", "mnt", "-o", "sync"]));
    let line = line_of(&bench.mountpoint());
    assert!(line.contains("noexec") && line.contains("sync"), "{line}");
    succeeded(&bench.run(["-u", "mnt"]));
}

#[test]
fn owner_group_and_mode_are_as_asked() {
    let bench = Bench::new();
    succeeded(&bench.run(["-o", "uid=12,gid=34,umask=077", "a.asdf", "mnt"]));
    for path in [bench.mountpoint(), bench.mountpoint().join("tree.yaml")] {
        let meta = fs::metadata(path).unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o077), (12, 34, 0));
    }
    succeeded(&bench.run(["-u", "mnt"]));
}

#[test]
fn what_is_unknown_or_bad_is_refused_by_name() {
    let bench = Bench::new();
    for (options, named) in [
        ("ro,nonsense", "-o nonsense"),
        ("remount", "-o remount needs ro or rw"),
        ("user_id=0", "it is set by asdf-mount itself"),
        ("timeout=soon", "-o timeout=soon is not a number of seconds"),
        ("uid=me", "-o uid=me"),
        ("allow_root", "allow_other,umask=077"),
        ("subtype=other", "-o subtype"),
    ] {
        let said = failed(&bench.run(["a.asdf", "mnt", "-o", options]), 2);
        assert!(said.contains(named), "{options}: {said}");
    }
    bench.nothing_is_left();
}

#[test]
fn the_log_file_is_private_and_has_one_line_an_event() {
    let bench = Bench::new();
    fs::rename(bench.source(), bench.path("a\nb")).unwrap();
    succeeded(&bench.run(["-v", "--log-file", "log", "a\nb", "m\nnt"]));
    let daemon = Daemon::of(&bench.path("m\nnt"));
    succeeded(&bench.run(["-u", "m\nnt"]));
    assert!(!daemon.runs());
    let log = fs::read_to_string(bench.path("log")).unwrap();
    assert_eq!(fs::metadata(bench.path("log")).unwrap().mode() & 0o777, 0o600);
    assert!(log.contains(r"m\nnt: mounted") && log.contains(r"m\nnt: ended"), "{log}");
    // UTC, as 2024-12-31T23:59:59.000000Z
    assert!(log.lines().all(|line| line.starts_with("20") && line[..30].contains("Z ")), "{log}");
}

#[test]
fn what_lies_on_a_read_only_file_system_is_mounted_read_only() {
    let bench = Bench::new();
    let output = bench.script(
        r#"
        mkdir disk
        cp a.asdf disk
        mount --bind disk disk
        mount -o remount,bind,ro disk
        for source in disk disk/a.asdf; do
            asdf-mount $source mnt 2>said
            grep -q "^asdf-mount: .*$source: can't be written: the mount is read-only$" said
            test $(wc -l <said) = 1
            findmnt -no OPTIONS mnt | grep -q ^ro,
            asdf-mount -u mnt
            asdf-mount -o ro $source mnt 2>said
            test ! -s said
            asdf-mount -u mnt
        done
        umount disk"#,
    );
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}

#[test]
fn a_wrong_filter_of_the_log_is_refused_by_every_command() {
    let bench = Bench::of_sample();
    bench.runs(
        r#"
        for filter in nonsense daemon=trace asdf_mount::daemon=loud debug,verbose; do
            for command in 'asdf-mount a.asdf mnt' 'asdf-mount --ls a.asdf' 'asdf-mount -l' 'asdf-mount --check a.asdf'; do
                status=0
                ASDF_MOUNT_LOG=$filter $command >/dev/null 2>said || status=$?
                test $status = 2
                grep "^asdf-mount: ASDF_MOUNT_LOG=$filter: '.*' is neither a level nor a module with a level" said
            done
        done
        ASDF_MOUNT_LOG= asdf-mount --ls a.asdf
        ASDF_MOUNT_LOG=asdf_mount::daemon=info asdf-mount --log-file log a.asdf mnt
        grep 'mnt: mounted' log
        asdf-mount -u mnt"#,
    );
}
