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

/// The source, the state, the cache, the log and temporary files are in directories beside each other, so that each needs
/// a rule of its own.
#[test]
fn a_daemon_reaches_the_directories_of_its_mount_and_no_others() {
    runs(
        &Bench::of_sample(),
        r#"
        mkdir -m 777 src logs tmp
        mv a.asdf src; chown -R 65534 src
        mkdir own-user own-env; chown 65534 own-user
        for who in user env; do
            export XDG_STATE_HOME=$T/own-$who/state XDG_CACHE_HOME=$T/own-$who/cache TMPDIR=$T/tmp
            for way in '' -f; do
                $who asdf-mount $way -v --log-file logs/$who src/a.asdf home/m &
                eventually $who test -e home/m/tree.yaml
                daemon=$($who getfattr --absolute-names --only-values -n user.asdf-mount.pid home/m)
                $who sed -i 's/Sample Galaxy/M 31/' home/m/tree.yaml
                grep -a 'M 31' src/a.asdf
                not $who sed -i 's/source: 0/source: 9/' home/m/tree.yaml; $who grep -q 'source: 9' home/m/tree.yaml.rejected
                $who sh -c 'cat home/m/blocks/*' >/dev/null
                $who sh -c 'echo text >home/m/note'
                # A program that changes the file while a text is open.
                $who asdf-mount --undo src/a.asdf
                grep -a 'Sample Galaxy' src/a.asdf
                $who cp -p src/a.asdf src/new; $who mv src/new src/a.asdf
                $who sed -i 's/Sample Galaxy/M 32/' home/m/tree.yaml
                $who asdf-mount --undo src/a.asdf
                # logrotate
                mv logs/$who logs/old; kill -HUP $daemon; eventually test -e logs/$who
                # The new directory has no rule.
                mv logs rotated; mkdir -m 777 logs; kill -HUP $daemon
                eventually grep 'permission denied' rotated/$who
                test ! -e logs/$who
                $who asdf-mount -u home/m
                ended $daemon
                wait
                cat own-$who/state/asdf-mount/*.files/note
                test -d own-$who/cache/asdf-mount
                rm -r own-$who/state rotated
            done
        done"#,
    );
}
