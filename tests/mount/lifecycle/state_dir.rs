//! The state directory is used only if no other user can write to it.

use std::fs;

use common::daemon::Bench;

#[test]
fn nothing_is_written_through_a_link_in_a_state_directory_of_another_user() {
    let bench = Bench::new();
    let output = bench.script(
        r#"
        export XDG_STATE_HOME=$T/home/state
        mkdir home precious
        mounts() { asdf-mount -v --log-file log a.asdf m 2>said; ls $XDG_STATE_HOME/asdf-mount; ended_by_u; }
        ended_by_u() { daemon=$(daemon_of m); asdf-mount -u m; ended $daemon; }
        # The name of the note about the lock.
        asdf-mount a.asdf m
        note=$(ls $XDG_STATE_HOME/asdf-mount)
        test ${note%.holder} != $note
        test $(stat -c %a $XDG_STATE_HOME/asdf-mount/$note) = 600
        ended_by_u
        test -z "$(ls $XDG_STATE_HOME/asdf-mount)"
        # A planted link is replaced, and not written through.
        echo mine >precious/file
        ln -s $T/precious/file $XDG_STATE_HOME/asdf-mount/$note
        mounts
        test "$(cat precious/file)" = mine
        test ! -s said
        # In a directory that another user may write nothing is made or removed.
        ln -s $T/precious/file $XDG_STATE_HOME/asdf-mount/$note
        chown -R 65534 home
        mounts
        test "$(cat precious/file)" = mine
        test -h $XDG_STATE_HOME/asdf-mount/$note
        grep -q 'is not used as state directory: it belongs to another user (uid 65534).*XDG_STATE_HOME' said
        grep -q 'is not used as state directory' log
        chown -R 0 home; chmod 1777 $XDG_STATE_HOME/asdf-mount
        mounts
        grep -q 'other users can write to it: remove their permission (chmod go-w)' said
        # It is not made in another user's home, and another user's link to it is not followed.
        rm -r home/state; chown 65534 home
        mounts || true
        grep -q 'home belongs to another user' said
        test ! -e home/state
        mkdir -p home/state precious/empty
        ln -s $T/precious/empty home/state/asdf-mount; chown -h 65534 home/state/asdf-mount
        mounts
        grep -q 'a link that another user (uid 65534) made' said
        test -z "$(ls precious/empty)"
        # One's own link is followed.
        chown -h 0 home/state/asdf-mount
        asdf-mount a.asdf m
        test -e precious/empty/$note
        ended_by_u
        "#,
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(bench.path("precious/file")).unwrap(), "mine\n");
    bench.nothing_is_left();
}

/// Script functions that edit and save, starting from `Sample Galaxy`, in any state of the directory.
const FUNCTIONS: &str = r#"
    name() { grep -a ^object "${2:-a.asdf}" | grep -q "name: $1}"; }
    saves() {
        sed -i "s/\(^object.*name: \)[^}]*/\1$1/" mnt/tree.yaml; name "$1"
        sed "s/\(^object.*name: \)[^}]*/\1$1 too/" mnt/tree.yaml >new; cat new >mnt/tree.yaml; name "$1 too"
    }
    # The kernel reports the end of a handle only after close has returned.
    refuses() {
        sed 's/source: 0/source: 9/' mnt/tree.yaml >bad; not cp bad mnt/tree.yaml; cmp bad mnt/tree.yaml.rejected
        for i in $(seq 200); do cmp -s bad mnt/tree.yaml || return 0; sleep 0.05; done; return 1
    }
"#;

#[track_caller]
fn runs(script: &str) {
    Bench::of_sample().runs(&format!("{FUNCTIONS}{script}"));
}

#[test]
fn a_state_directory_that_is_removed_is_made_again() {
    runs(
        r#"
        asdf-mount a.asdf mnt
        saves one
        echo early >mnt/early
        # With a draft open, whose scratch file goes.
        sed 's/one too/draft/' new | { head -c 200; rm -r state; cat; } >mnt/tree.yaml
        name draft
        saves two
        echo late >mnt/late
        refuses
        cmp bad state/asdf-mount/*.rejected.yaml
        rm -r state/asdf-mount/scratch-*
        saves three
        asdf-mount -u mnt 2>said
        cat said
        grep -q 'are kept: early, late in' said
        cat state/asdf-mount/*.files/early state/asdf-mount/*.files/late >both; printf 'early\nlate\n' | cmp - both
        grep -q 'a.asdf: refused texts are kept: .*rejected.yaml in' said"#,
    );
}

#[test]
fn saves_go_on_where_the_state_directory_is_full_and_u_says_what_is_lost() {
    runs(
        r#"
        mkdir state; mount -t tmpfs -o size=256k,mode=700 none state
        asdf-mount -v --log-file log a.asdf mnt
        fill() { dd if=/dev/zero of=state/$1 bs=4k 2>/dev/null || true; }
        fill full
        for n in 1 2 3; do saves "full $n"; done
        # A file that is open, and grows.
        { echo one; fill more; seq 10000; } >mnt/notes.txt
        { echo one; seq 10000; } | cmp - mnt/notes.txt
        refuses
        grep -q 'are held in memory' log
        asdf-mount -u mnt 2>said
        cat said
        grep -q 'a.asdf: notes.txt, tree.yaml.rejected could not be kept: there is no space' said
        umount state"#,
    );
}

#[test]
fn without_a_state_directory_u_says_what_is_lost() {
    runs(
        r#"
        mkdir state; mount -t tmpfs -o ro none state
        asdf-mount a.asdf mnt 2>said
        grep -q 'are not kept when the mount ends' said
        saves 'read only'
        echo note >mnt/notes.txt
        refuses
        asdf-mount -u mnt 2>said
        cat said
        test $(wc -l <said) = 1
        grep -q 'a.asdf: notes.txt, tree.yaml.rejected could not be kept: there is no state directory' said
        asdf-mount a.asdf mnt 2>said
        saves 'without loss'
        asdf-mount -u mnt 2>said
        test ! -s said
        umount state"#,
    );
}

#[test]
fn the_home_is_that_of_the_effective_user_whatever_mount_leaves_in_home() {
    let bench = Bench::of_sample();
    let prologue = crate::user::PROLOGUE;
    let script = r#"
        unset XDG_STATE_HOME XDG_CACHE_HOME
        mkdir own own/.local; chown -R 65534:65534 own a.asdf
        sed "s|^\(nobody:.*:\)[^:]*:\([^:]*\)\$|\1$T/own:\2|" /etc/passwd >passwd
        mount --bind passwd /etc/passwd
        for home in /root '' /nonexistent; do
            export HOME=$home
            test "$home" || unset HOME
            user asdf-mount a.asdf home/m 2>said
            cat said
            test ! -s said
            user cp home/m/tree.yaml bad 2>/dev/null || user cat home/m/tree.yaml >bad
            sed -i 's/source: 0/source: 9/' bad
            not user dd if=bad of=home/m/tree.yaml 2>/dev/null
            user asdf-mount -u home/m 2>said
            ls own/.local/state/asdf-mount/*.rejected.yaml
            rm -r own/.local/state
        done"#;
    let output = bench.script(&format!("{prologue}{script}"));
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}
