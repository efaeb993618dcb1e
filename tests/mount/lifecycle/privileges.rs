//! The privileges of a daemon, and the process that mounts and unmounts for it.

use common::daemon::Bench;

use crate::user::PROLOGUE;

/// Functions that find the process that mounts for a daemon, and say if a process has the flag `no_new_privs`.
const FUNCTIONS: &str = r#"
    mounter_of() { grep -l "^PPid:.$1\$" /proc/[0-9]*/status 2>/dev/null | cut -d / -f 3; }
    gains_nothing() { grep -q '^NoNewPrivs:.1' /proc/$1/status; }
    eventually() { for i in $(seq 600); do "$@" && return 0; sleep 0.1; done; return 1; }
"#;

#[track_caller]
fn runs(bench: &Bench, script: &str) {
    bench.runs(&format!("{PROLOGUE}{FUNCTIONS}{script}"));
}

#[test]
fn a_daemon_of_root_keeps_only_the_rights_that_it_needs() {
    runs(
        &Bench::new(),
        r#"
        # chown, dac_override, dac_read_search, fowner, fsetid, lease, setfcap; and sys_admin
        for mount in 'rw 9020001f' 'ro 9000001f'; do
            set -- $mount
            asdf-mount -o $1 a.asdf mnt
            daemon=$(daemon_of mnt)
            for status in /proc/$daemon/task/*/status; do
                for set in CapEff CapPrm CapBnd; do
                    kept=$(sed -n "s/^$set:\t//p" $status)
                    test $((0x$kept & ~0x$2)) = 0
                done
                test $((0x$(sed -n 's/^CapEff:\t//p' $status) & 0x3)) = $((0x3))
                grep -q '^CapInh:.0*$' $status
                grep -q '^NoNewPrivs:.1' $status
            done
            # Its memory is not for a process without sys_ptrace, even one of root.
            readlink /proc/$daemon/exe
            not setpriv --bounding-set=-sys_ptrace readlink /proc/$daemon/exe
            mounter=$(mounter_of $daemon)
            # dac_override, dac_read_search, fowner, sys_admin
            test $((0x$(sed -n 's/^CapPrm:\t//p' /proc/$mounter/status) & ~0x20000e)) = 0
            gains_nothing $mounter
            asdf-mount -u mnt
            ended $mounter
        done"#,
    );
}

#[test]
fn a_daemon_of_a_user_gains_none_and_unmounts() {
    runs(
        &Bench::new(),
        r#"
        for end in 'kill $daemon' 'kill $daemon $mounter' 'user asdf-mount -u home/m' true; do
            test "$end" != true || timeout=-otimeout=1
            user asdf-mount ${timeout-} a.asdf home/m
            daemon=$(user_daemon)
            mounter=$(mounter_of $daemon)
            gains_nothing $daemon
            eval "$end"
            ended $daemon
            ended $mounter
            not ours
            test ! -e home/m
        done"#,
    );
}

#[test]
fn the_process_that_unmounts_ends_with_the_daemon() {
    runs(
        &Bench::new(),
        r#"
        asdf-mount a.asdf mnt
        daemon=$(daemon_of mnt)
        mounter=$(mounter_of $daemon)
        kill -KILL $daemon
        ended $daemon
        ended $mounter
        # A killed daemon leaves a dead mount, as any FUSE daemon does.
        ours
        not cat mnt/tree.yaml
        asdf-mount -u mnt"#,
    );
}

#[test]
fn a_daemon_without_the_process_that_unmounts_serves_and_says_what_to_do() {
    runs(
        &Bench::new(),
        r#"
        for end in 'kill $daemon' 'asdf-mount -u mnt'; do
            asdf-mount --log-file log a.asdf mnt
            daemon=$(daemon_of mnt)
            kill -KILL $(mounter_of $daemon)
            cat mnt/tree.yaml
            eval "$end"
            ended $daemon
            case $end in
            kill*)
                grep 'the process that mounts and unmounts was killed by signal 9; the daemon ends anyway and leaves a dead mount; remove it: asdf-mount -u' log
                asdf-mount -u mnt
                ;;
            esac
            not ours
        done"#,
    );
}
