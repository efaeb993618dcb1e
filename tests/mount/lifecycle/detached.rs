//! The end of a mount that is in use or can't be removed, and mounts with little address space.

use crate::user::PROLOGUE;
use common::daemon::Bench;

#[track_caller]
fn runs(script: &str) {
    let bench = Bench::new();
    bench.runs(script);
}

#[test]
fn unmounting_cuts_off_a_copy_in_another_mount_namespace_and_names_its_holder() {
    runs(
        r#"
        asdf-mount a.asdf mnt
        daemon=$(daemon_of mnt)
        mkfifo ready
        unshare -m sh -c 'echo >ready; exec sleep 300' &
        holder=$!
        read line <ready
        timeout 60 asdf-mount -u mnt 2>error
        cat error
        grep -q "^asdf-mount: $T/mnt: unmounted, .*process $holder (.*" error
        test $(wc -l <error) = 1
        ended $daemon
        not ours
        not nsenter -m -t $holder cat mnt/tree.yaml
        kill $holder"#,
    );
}

#[test]
fn unmounting_a_copy_leaves_the_mount_itself() {
    runs(
        r#"
        asdf-mount a.asdf mnt
        daemon=$(daemon_of mnt)
        timeout 60 unshare -m asdf-mount -u mnt 2>error
        grep -q "unmounted here, but not in the mount namespace of its daemon (process $daemon)" error
        test -s mnt/tree.yaml
        asdf-mount -u mnt
        ended $daemon"#,
    );
}

#[test]
fn a_signal_ends_the_daemon_whatever_holds_the_mount() {
    runs(
        r#"
        asdf-mount a.asdf mnt
        daemon=$(daemon_of mnt)
        mkfifo ready
        unshare -m sh -c 'echo >ready; exec sleep 300' &
        holder=$!
        read line <ready
        kill $daemon
        ended $daemon
        not ours
        kill $holder"#,
    );
    runs(&format!(
        "{PROLOGUE}{}",
        r#"
        printf '#!/bin/sh\nexit 1\n' >fails
        printf '#!/bin/sh\nexec sleep 1000\n' >hangs
        chmod 755 fails hangs
        mkdir none
        for how in $T/none/fusermount3 $T/fails $T/hangs; do
            ln -sf $(command -v fusermount3) fusermount
            user env FUSERMOUNT_PATH=$T/fusermount asdf-mount --log-file home/log a.asdf home/m
            daemon=$(user_daemon)
            ln -sf $how fusermount
            # umount(8) as it is without setuid.
            cp -p /bin/umount plain
            mount --bind plain /bin/umount
            chmod u-s /bin/umount
            kill $daemon
            ended $daemon
            umount -l /bin/umount
            grep -q "a dead mount; remove it: asdf-mount -u $T/home/m; or, as root: umount -l $T/home/m" home/log
            not user cat home/m/tree.yaml
            # It removes the directory, which the mount created.
            asdf-mount -u home/m
            not test -e home/m
            rm home/log
        done"#
    ));
}

#[test]
fn without_a_table_of_mounts_in_etc_a_user_unmounts_all_the_same() {
    runs(&format!(
        "{PROLOGUE}{}",
        r#"
        cp -a /etc etc
        rm -f etc/mtab
        mount --bind etc /etc
        test ! -e /etc/mtab
        for end in 'user asdf-mount -u home/m' 'kill $daemon'; do
            user asdf-mount a.asdf home/m
            daemon=$(user_daemon)
            eval "$end"
            ended $daemon
            not ours
            test ! -e home/m
        done
        asdf-mount a.asdf mnt
        asdf-mount -u mnt
        # Where nothing can take it away, it is said what is missing.
        user asdf-mount a.asdf home/m
        cp -p /bin/umount plain
        mount --bind plain /bin/umount
        chmod u-s /bin/umount
        not user asdf-mount -u home/m 2>error
        grep -q "can't read /etc/mtab: as root, 'ln -s /proc/self/mounts /etc/mtab'" error
        asdf-mount -u home/m"#
    ));
}

#[test]
fn with_little_address_space_a_mount_is_served_or_refused_and_never_dies() {
    runs(
        r#"
        cp a.asdf b.asdf
        for kib in 30000 60000 100000 130000 160000 200000 250000 300000 400000 400000 400000 400000 400000 1000000; do
            if (ulimit -v $kib; asdf-mount -r a.asdf mnt 2>error); then
                daemon=$(daemon_of mnt)
                seq 200 | xargs -n 1 -P 16 sh -c 'cat mnt/tree.yaml mnt/.asdf-mount/status.yaml' >/dev/null
                asdf-mount -u mnt
                ended $daemon
            else
                test $kib -lt 400000
                cat error
                not grep -q 'killed by\|panicked\|memory allocation' error
                not ours
            fi
        done"#,
    );
}
