//! The state directory: used only where no other user can write.

use std::fs;

use crate::common::daemon::Bench;

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
        grep -q 'others may write there: make it yours alone (chmod go-w)' said
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
