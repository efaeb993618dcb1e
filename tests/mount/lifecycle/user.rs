//! An ordinary user, with fusermount3; and root of a user namespace, without it.
//!
//! udev gives `/dev/fuse` mode 0666 on an installed system, but containers often don't. The tests therefore
//! use a separate device node in a separate mount namespace.

use std::path::Path;

use common::daemon::Bench;

pub(crate) const PROLOGUE: &str = r#"
    mkdir dev home
    mount -t tmpfs -o dev none dev
    mknod -m 666 dev/fuse c 10 229
    chmod 666 dev/fuse
    mount --bind dev/fuse /dev/fuse
    chown 65534:65534 home
    user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
    user_daemon() { user getfattr --absolute-names --only-values -n user.asdf-mount.pid home/m; }
    refused() { said=$1; shift; not user "$@" 2>error; cat error; test $(wc -l <error) = 1; grep -q "^asdf-mount: .*$said" error; not ours; test ! -e home/new; }
"#;

#[track_caller]
fn runs(script: &str) {
    let bench = Bench::new();
    bench.runs(&format!("{PROLOGUE}{script}"));
}

#[test]
fn mounts_and_unmounts_in_every_way() {
    runs(
        r#"
        cp a.asdf 'a,b\c d.asdf'
        for end in 'user asdf-mount -u home/m' 'user fusermount3 -u home/m' 'umount home/m' 'asdf-mount -u home/m' \
                   'kill $daemon' 'kill -INT $daemon'; do
            user asdf-mount 'a,b\c d.asdf' home/m
            user test -s home/m/tree.yaml
            findmnt -rno SOURCE,FSTYPE home/m | grep -qF 'a,b\x5cc\x20d.asdf fuse.asdf-mount'
            findmnt -no OPTIONS home/m | grep -q '^ro,nosuid,nodev.*user_id=65534.*default_permissions'
            not test -e home/m/tree.yaml
            daemon=$(user_daemon)
            eval "$end"
            ended $daemon
            test ! -e home/m
        done"#,
    );
}

#[test]
fn views_are_read_without_a_cache_directory() {
    let bench = Bench::new();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sample.asdf");
    std::fs::copy(sample, bench.path("sample.asdf")).unwrap();
    let script = r#"
        mkdir -m 700 closed
        asdf-mount sample.asdf mnt
        user env XDG_CACHE_HOME=$T/closed/cache XDG_STATE_HOME=$T/closed/state asdf-mount sample.asdf home/m
        for view in arrays fits tables preview; do
            test $(find mnt/$view -type f | wc -l) -gt 0
            (cd mnt; find $view -type f -exec sha1sum {} +) >expected
            user sh -c 'cd home/m; sha1sum --quiet -c ../../expected'
        done
        user asdf-mount -u home/m
        asdf-mount -u mnt"#;
    let output = bench.script(&format!("{PROLOGUE}{script}"));
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}

#[test]
fn a_signal_ends_it_with_an_open_file() {
    runs(
        r#"
        user asdf-mount a.asdf home/m
        daemon=$(user_daemon)
        mkfifo -m 666 opened
        user sh -c 'exec 3<home/m/tree.yaml; echo $$ >opened; exec sleep 300' &
        read sleeper <opened
        kill $daemon
        ended $daemon
        not ours
        test ! -e home/m
        kill $sleeper"#,
    );
}

#[test]
fn a_dead_mount_is_cleaned_up() {
    runs(
        r#"
        for round in 1 2; do
            user asdf-mount a.asdf home/m
            daemon=$(user_daemon)
            kill -KILL $daemon
            ended $daemon
            not user test -e home/m/tree.yaml
        done
        user asdf-mount a.asdf home/m
        test $(ours | wc -l) = 1
        daemon=$(user_daemon)
        kill -KILL $daemon
        ended $daemon
        user asdf-mount -u home/m
        not ours"#,
    );
}

#[test]
fn a_dead_mount_of_another_user_is_cleaned_up_by_root_alone() {
    runs(
        r#"
        mkdir -m 777 shared
        killed() { daemon=$("$@" getfattr --absolute-names --only-values -n user.asdf-mount.pid shared); kill -KILL $daemon; ended $daemon; }
        # Root over what the user left, and root's -u.
        user asdf-mount a.asdf shared
        killed user
        asdf-mount a.asdf shared
        test $(ours | wc -l) = 1
        test -s shared/tree.yaml
        asdf-mount -u shared
        user asdf-mount a.asdf shared
        killed user
        asdf-mount -u shared
        not ours
        # Root's -u waits for a user's daemon, too.
        user asdf-mount a.asdf shared
        daemon=$(user getfattr --absolute-names --only-values -n user.asdf-mount.pid shared)
        asdf-mount -u shared
        has_ended $daemon
        # A user over what root left is told which user has to act.
        asdf-mount a.asdf shared
        not user asdf-mount a.asdf shared 2>error
        grep -q 'root has mounted .*a.asdf here; only root can' error
        killed
        not user asdf-mount a.asdf shared 2>error
        grep -q 'root has mounted .*a.asdf here; only root can' error
        test $(wc -l <error) = 1
        not user asdf-mount -u shared
        asdf-mount -u shared"#,
    );
}

#[test]
fn options_reach_the_kernel() {
    runs(
        r#"
        echo user_allow_other >conf
        mount --bind conf /etc/fuse.conf
        user asdf-mount a.asdf home/m -o allow_other,noexec,noatime,max_read=65536,suid,dev,umask=022
        findmnt -no OPTIONS home/m | grep '^ro,nosuid,nodev,noexec,noatime.*allow_other.*max_read=65536'
        cat home/m/tree.yaml
        user asdf-mount -u home/m"#,
    );
}

#[test]
fn failures_leave_nothing() {
    runs(
        r#"
        : >conf
        mount --bind conf /etc/fuse.conf
        refused "allow_other needs a line 'user_allow_other' in /etc/fuse.conf" asdf-mount -o allow_other a.asdf home/new
        refused 'can write to' asdf-mount a.asdf mnt
        refused "can't create the mountpoint: permission denied" asdf-mount a.asdf new
        chmod 600 a.asdf
        refused 'a.asdf: permission denied' asdf-mount a.asdf home/new
        chmod 644 a.asdf
        refused 'FUSERMOUNT_PATH is /nowhere, .*install the package fuse3, or run as root' env FUSERMOUNT_PATH=/nowhere asdf-mount a.asdf home/new
        # A daemon that is killed while it mounts says nothing; its parent does.
        printf '#!/bin/sh\nkill -KILL $PPID\n' >killer
        chmod 755 killer
        refused 'FUSERMOUNT_PATH is /etc/passwd: permission denied' env FUSERMOUNT_PATH=/etc/passwd asdf-mount a.asdf home/new
        refused 'was killed by signal 9' env FUSERMOUNT_PATH=$T/killer asdf-mount a.asdf home/new
        refused 'asdf-mount --ls, --cat, or --extract FILE -C /tmp' env FUSERMOUNT_PATH=/nowhere asdf-mount a.asdf home/new
        # Lustre is not on the list of fusermount3.
        printf '#!/bin/sh\necho "fusermount3: mounting over filesystem type 0x0bd00bd0 is forbidden" >&2; exit 1\n' >lustre
        chmod 755 lustre
        refused 'Lustre or NFS; use a directory in $XDG_RUNTIME_DIR (/run/x) or /tmp; .*--ls' \
            env XDG_RUNTIME_DIR=/run/x FUSERMOUNT_PATH=$T/lustre asdf-mount a.asdf home/new
        chmod 600 dev/fuse
        refused '/dev/fuse.*--ls, --cat' asdf-mount a.asdf home/new"#,
    );
}

/// In a chroot the kernel refuses user namespaces, so `leave_chroot.py` first makes the directory the real
/// root.
#[test]
fn root_of_a_user_namespace_mounts_without_fusermount3() {
    let bench = Bench::new();
    std::fs::write(bench.path("leave_chroot.py"), include_str!("leave_chroot.py")).unwrap();
    let output = bench.script(&format!(
        r#"{PROLOGUE}
        python3 leave_chroot.py setpriv --reuid=65534 --regid=65534 --clear-groups \
            env FUSERMOUNT_PATH=/nowhere unshare -Urm sh -euc '
            asdf-mount a.asdf home/m
            test -s home/m/tree.yaml
            asdf-mount -u home/m
            test ! -e home/m'"#
    ));
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}
