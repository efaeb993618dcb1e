//! Another user who forges a mount, or exchanges directories while root mounts and unmounts.

use crate::user::PROLOGUE;
use common::daemon::Bench;

/// A mount of the user nobody that looks like one of ours in the mount table, and has the attributes of its
/// directory `home/forged`. Its program may have the name of ours.
const FORGED: &str = r#"
    mkdir home/forged home/m fake
    cp $(command -v bindfs) fake/asdf-mount
    chown -R 65534 home
    forge() {
        user setfattr -n user.asdf-mount.$1 -v "$2" home/forged
    }
    # forged_mount PROGRAM
    forged_mount() {
        user $1 --no-allow-other -o subtype=asdf-mount home/forged home/m
        findmnt -no FSTYPE home/m | grep fuse.asdf-mount
    }
    # The user daemon, which every Debian has.
    other() { setpriv --reuid=1 --regid=1 --clear-groups "$@"; }
"#;

/// Stops root's command, or its daemon, after a system call, and lets the user act; then it goes on to its end.
const SCHEDULE: &str = r#"
    # stopped_at SYSCALL FILTER… -- COMMAND…
    stopped_at() {
        call=$1; shift
        rm -f trace
        filter=
        while test $1 != --; do filter="$filter $1"; shift; done
        shift
        strace -f -qq -o trace $filter -e trace=$call -e inject=$call:signal=SIGSTOP:when=${when:-1} "$@" >out 2>said &
        tracer=$!
        for i in $(seq 600); do
            stopped=$(sed -n 's/^\([0-9]*\) .*stopped by SIGSTOP.*/\1/p' trace 2>/dev/null | head -n 1)
            test -z "$stopped" || break
            kill -0 $tracer 2>/dev/null || break
            sleep 0.1
        done
        test -n "$stopped"
    }
    goes_on() {
        for i in $(seq 600); do
            for pid in $(sed -n 's/^\([0-9]*\) .*stopped by SIGSTOP.*/\1/p' trace | sort -u); do
                kill -CONT $pid 2>/dev/null || true
            done
            kill -0 $tracer 2>/dev/null || break
            sleep 0.1
        done
    }
"#;

#[track_caller]
fn runs(script: &str) {
    let bench = Bench::of_sample();
    bench.runs(&format!("{PROLOGUE}{script}"));
}

#[test]
fn a_forged_mount_makes_root_remove_no_file_and_signal_no_process() {
    runs(
        &format!(
            "{FORGED}{}",
            r#"
        mkdir third; chown 1 third
        other asdf-mount -r a.asdf third/m
        victim=$(other getfattr --absolute-names --only-values -n user.asdf-mount.pid third/m)
        echo 'text of root' >report-of-root
        for program in bindfs $T/fake/asdf-mount; do
            forged_mount $program
            forge pid $victim
            forge report $T/report-of-root
            forge unkept "$(printf 'forged \033]0;title\007')"
            forge mode "$(printf 'rw\033[2J')"
            forge since "$(printf '2026\033[2J')"
            forge remounts '1 '
            asdf-mount -l >listed
            cat listed
            grep "^$T/home/m  *$T/home/forged  *?  *?  *?$" listed
            not grep "$(printf '\033')" listed
            asdf-mount -l --json | grep 'home/m".*"pid":null,"mode":null,"since":null'
            not asdf-mount -o remount,ro home/m 2>said
            grep 'no process of asdf-mount that serves this mount is visible here' said
            timeout 60 asdf-mount -u home/m 2>said
            cat said
            not grep -e forged -e 'text of root' said
            grep "home/m: unmounted without waiting for its daemon" said
            not ours_at home/m
        done
        test "$(cat report-of-root)" = 'text of root'
        other cat third/m/tree.yaml >/dev/null
        other asdf-mount -l | grep "third/m .* ro "
        other asdf-mount -u third/m
        "#
        )
        .replace("not ours_at", "not mountpoint -q"),
    );
}

/// The user's other mount, which a signal would end.
#[test]
fn a_daemon_that_serves_another_mount_is_not_signalled() {
    runs(&format!(
        "{FORGED}{}",
        r#"
        user mkdir home/own
        user asdf-mount -r a.asdf home/own
        forge pid $(user getfattr --absolute-names --only-values -n user.asdf-mount.pid home/own)
        forged_mount bindfs
        timeout 60 asdf-mount -u home/m
        user test -s home/own/tree.yaml
        user asdf-mount -l | grep "home/own .* ro "
        user asdf-mount -u home/own
        "#
    ));
}

#[test]
fn root_takes_a_save_back_in_its_own_mount_and_writes_nowhere_else() {
    runs(&format!(
        "{FORGED}{}",
        r#"
        export XDG_STATE_HOME=$T/root-state
        echo 'text of root' >victim
        user ln -s $T/victim home/forged/tree.yaml
        for program in bindfs $T/fake/asdf-mount; do
            forged_mount $program
            # The source in the mount table now leads to the file.
            user mv home/forged home/files
            user ln -s $T/a.asdf home/forged
            asdf-mount a.asdf mnt
            cp mnt/tree.yaml before
            sed -i 's/Sample Galaxy/another name/' mnt/tree.yaml
            asdf-mount --undo a.asdf >said; cat said
            grep 'is taken back' said
            cmp before mnt/tree.yaml
            grep -a 'Sample Galaxy' a.asdf
            sed -i 's/Sample Galaxy/another name/' mnt/tree.yaml
            asdf-mount -u mnt
            # Another process has the file, and no mount of root serves it.
            exec 5<a.asdf
            flock -x 5
            not asdf-mount --undo a.asdf >said 2>&1; cat said
            not grep 'is taken back' said
            grep -a 'another name' a.asdf
            exec 5<&-
            asdf-mount --undo a.asdf
            umount home/m
            user rm home/forged
            user mv home/files home/forged
        done
        test "$(cat victim)" = 'text of root'
        "#
    ));
}

#[test]
fn a_tree_with_a_draft_is_not_replaced() {
    runs(
        r#"
        asdf-mount a.asdf mnt
        sed -i 's/Sample Galaxy/another name/' mnt/tree.yaml
        exec 5>mnt/tree.yaml
        echo draft >&5
        not asdf-mount --undo a.asdf >said 2>&1; cat said
        grep 'tree.yaml: differs from the tree of the file' said
        grep -a 'another name' a.asdf
        exec 5>&-
        asdf-mount -u mnt || true"#,
    );
}

#[test]
fn a_directory_that_is_exchanged_for_a_link_before_the_mount_covers_nothing_else() {
    runs(&format!(
        "{SCHEDULE}{}",
        r#"
        mkdir victim
        cp a.asdf home/x.asdf
        for place in '' 'home/x'; do
            # Without a place, root's command creates the directory.
            test -z "$place" || user mkdir home/x
            stopped_at openat -P /dev/fuse -- asdf-mount home/x.asdf $place
            # The directory that root has created is root's, but lies in a directory of the user.
            user mv home/x home/y
            user ln -s $T/victim home/x
            goes_on
            cat said
            not mountpoint -q victim
            grep 'home/x: was renamed or replaced at this moment; try again' said
            not ours
            test -z "$(ls -A victim)"
            user rm home/x
            rmdir home/y
        done
        user ln -s $T/victim home/x
        for place in '' home/x home/x/sub; do
            not asdf-mount home/x.asdf $place 2>said
            cat said
            grep 'symbolic link of user 65534, which root does not follow to a mountpoint; give the directory itself' said
        done
        test -z "$(ls -A victim)"
        # The user's own links are followed for the user, and root's for root.
        ln -s $T/victim link
        asdf-mount home/x.asdf link
        mountpoint -q victim
        asdf-mount -u link
        user mkdir home/dir; user ln -s dir home/to-dir
        user asdf-mount home/x.asdf home/to-dir
        user asdf-mount -u home/to-dir
        not ours"#
    ));
}

#[test]
fn a_new_directory_that_is_exchanged_gets_no_attribute_and_stays() {
    runs(&format!(
        "{SCHEDULE}{}",
        r#"
        cp a.asdf home/x.asdf
        user mkdir home/other
        stopped_at mkdirat -- asdf-mount home/x.asdf
        user mv home/x home/y
        user mv home/other home/x
        goes_on
        cat said
        grep 'home/x: another program replaced the new directory' said
        not getfattr -n user.asdf-mount.created home/x
        test -d home/x
        not ours"#
    ));
}

/// The path is resolved once: the user's file gets no text from the history of root's file, which has the same tree.
#[test]
fn root_takes_a_save_back_in_the_file_that_was_found() {
    runs(&format!(
        "{SCHEDULE}{}",
        r#"
        mkdir -m 700 roots
        cp a.asdf roots/x.asdf
        tree() { sed '/^\.\.\.$/q' "$1"; }
        save() { tree roots/x.asdf | sed "s/\(^object.*name: \)[^}]*/\1$1/" | asdf-mount --set-tree - roots/x.asdf; }
        save SECRET
        save shared
        chmod 600 roots/x.asdf
        cp roots/x.asdf roots/saved
        asdf-mount --log roots/x.asdf | grep -c . | grep -x 2
        user mkdir home/d
        cp roots/x.asdf home/d/x.asdf
        chown 65534 home/d/x.asdf
        strace -f -qq -o calls -e trace=openat asdf-mount -q --undo home/d/x.asdf 2>said || true
        grep 'has no saves' said
        for when in $(seq $(grep -c openat calls)); do
            stopped_at openat -- asdf-mount -q --undo home/d/x.asdf || continue
            user mv home/d home/moved
            user ln -s $T/roots home/d
            goes_on
            not grep -a SECRET home/moved/x.asdf
            cmp home/moved/x.asdf roots/saved
            user rm home/d
            user mv home/moved home/d
            # Before the path is resolved, root's own file is the one that is found.
            cat roots/saved >roots/x.asdf
        done
        test $when -gt 10"#
    ));
}

/// A daemon that ends removes the directory that it created, and not another one of that name.
#[test]
fn only_the_own_directory_is_removed_at_the_end() {
    runs(
        r#"
        cp a.asdf home/x.asdf
        asdf-mount home/x.asdf
        daemon=$(daemon_of home/x)
        # In another namespace, the mountpoint can be renamed.
        unshare -m sh -c 'umount home/x; mv home/x home/y; mkdir home/x'
        kill $daemon
        ended $daemon
        not ours
        test -d home/x
        test -d home/y"#,
    );
}

/// Between the check and the unmount, the user moves the directories on the way.
#[test]
fn root_unmounts_the_mount_that_was_checked() {
    runs(&format!(
        "{SCHEDULE}{}",
        r#"
        cp a.asdf home/x.asdf
        user mkdir home/a home/a/m victim-dir 2>/dev/null || user mkdir -p home/a/m
        mkdir -p victim/m
        mount -t tmpfs none victim/m
        user asdf-mount home/x.asdf home/a/m
        daemon=$(user getfattr --absolute-names --only-values -n user.asdf-mount.pid home/a/m)
        # The table of mounts is read last, after the directories were opened.
        stopped_at openat -P /proc/self/mountinfo -- asdf-mount -u home/a/m
        user mv home/a home/b
        user ln -s $T/victim home/a
        goes_on
        cat said
        mountpoint -q victim/m
        ended $daemon
        not ours
        umount victim/m"#
    ));
}

/// Another program replaces the file by rename between two steps of the start.
#[test]
fn a_file_that_is_replaced_during_the_start_is_mounted() {
    runs(&format!(
        "{SCHEDULE}{}",
        r#"
        for command in 'asdf-mount a.asdf mnt' 'asdf-mount --ls a.asdf'; do
            stopped_at openat -P a.asdf -P $T/a.asdf -- $command
            seen=0
            for i in $(seq 600); do
                stops=$(grep -c 'stopped by SIGSTOP' trace)
                if test $stops -gt $seen; then
                    seen=$stops
                    cp a.asdf new; mv new a.asdf
                    sed -n 's/^\([0-9]*\) .*stopped by SIGSTOP.*/\1/p' trace | sort -u | xargs kill -CONT 2>/dev/null || true
                fi
                kill -0 $tracer 2>/dev/null || break
                # strace follows the daemon to its end.
                if mountpoint -q mnt; then
                    test -s mnt/tree.yaml
                    asdf-mount -u mnt
                fi
                sleep 0.1
            done
            test $seen -gt 0
            cat said
            # strace tells of the path that it was given.
            not grep -v '^strace: ' said
            # Any status but 0 fails.
            wait $tracer
        done"#
    ));
}

/// Root may write to the mount of the file's owner.
#[test]
fn root_takes_a_save_back_in_the_mount_of_the_files_owner() {
    runs(
        r#"
        cp a.asdf home/x.asdf
        chown 65534 home/x.asdf
        export XDG_STATE_HOME=$T/root-state
        asdf-mount --cat home/x.asdf tree.yaml >before
        sed 's/Sample Galaxy/another name/' before >after
        asdf-mount --set-tree after home/x.asdf
        user env XDG_STATE_HOME=$T/home/state asdf-mount home/x.asdf home/m
        asdf-mount --undo home/x.asdf
        asdf-mount --cat home/x.asdf tree.yaml | cmp - before
        user cmp home/m/tree.yaml before
        user asdf-mount -u home/m"#,
    );
}

#[test]
fn an_attribute_hides_no_directory_from_a_walk() {
    runs(
        r#"
        mkdir -p data/hidden
        cp a.asdf data/hidden
        setfattr -n user.asdf-mount.pid -v 1 data/hidden
        asdf-mount --catalog data >lines
        grep 'hidden/a.asdf' lines
        asdf-mount --check --json data | grep 'hidden/a.asdf'
        # A mount is still passed over.
        asdf-mount a.asdf data/hidden
        asdf-mount --catalog data >lines
        test ! -s lines
        asdf-mount -u data/hidden"#,
    );
}
