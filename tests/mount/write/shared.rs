//! A file in a directory that is writable by all users, such as /tmp: files that another user creates under
//! the names used by saves do not prevent a save.

use std::fs;

use crate::place::{KINDS, Place, copy_program};
use common::namespace::script_in_namespace;

/// Start of the scripts: two ordinary users, and the file in a directory that both can write to.
const PROLOGUE: &str = r#"
    chmod 755 .. . ; chmod 644 text*
    mkdir dev home
    mount -t tmpfs -o dev none dev
    mknod -m 666 dev/fuse c 10 229
    chmod 666 dev/fuse
    mount --bind dev/fuse /dev/fuse
    mkdir -m 1777 shared
    cp a.asdf original
    mv a.asdf shared/
    chown -R 65534:65534 home shared/a.asdf
    other() { setpriv --reuid=65533 --regid=65533 --clear-groups "$@"; }
    user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
    is() { cmp -n $(stat -c %s $1) $1 shared/a.asdf; }
    journal=shared/.a.asdf.asdf-mount-journal
    unmount() {
        daemon=$(user getfattr --absolute-names --only-values -n user.asdf-mount.pid home/m)
        user fusermount3 -u home/m
        while kill -0 $daemon 2>/dev/null && ! grep -q 'Z (zombie)' /proc/$daemon/status; do sleep 0.02; done
    }
"#;

/// End of the scripts: puts everything back where the place expects it.
const EPILOGUE: &str = "
    chown 0:0 shared/a.asdf; mv shared/a.asdf .
    rm -rf home shared original; umount -l /dev/fuse dev; rmdir dev
";

#[track_caller]
fn runs(place: &Place, script: &str) {
    for (n, text) in ["text0", "text1"].into_iter().enumerate() {
        fs::write(place.disk.path().join(text), place.named(&"longer ".repeat(1000 * (2 - n)))).unwrap();
    }
    copy_program(place);
    let output = script_in_namespace(&place.disk.path(), 120, &format!("{PROLOGUE}{script}{EPILOGUE}"))
        .env("XDG_STATE_HOME", place.disk.path().join("home/state"))
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    place.nothing_is_beside();
}

#[test]
fn what_another_user_makes_under_the_names_of_a_save_is_named_and_worked_around() {
    for kind in KINDS {
        let place = Place::on(kind);
        runs(
            &place,
            r#"
            plant() {
                case $1 in
                    open) other sh -c 'echo x >$1; chmod 644 $1' sh $2;;
                    closed) other sh -c 'umask 077; echo x >$1' sh $2;;
                    folder) other mkdir $2;;
                    pipe) other mkfifo $2;;
                    link) other ln -s nowhere $2;;
                esac
            }
            for what in open closed folder pipe link; do
                cp original shared/a.asdf
                plant $what $journal
                user mkdir -p home/m
                user ./program -v --log-file home/log shared/a.asdf home/m
                # One that moves the blocks, one that does not.
                for text in text0 text1; do
                    user cp $text home/m/tree.yaml
                    is $text
                    user cmp $text home/m/tree.yaml
                done
                unmount
                grep -q "$journal is in the way of saves and can't be moved away" home/log
                rm -r $journal
                rm home/log
                test -z "$(ls -A home/state/asdf-mount | grep -vx history)"
            done
            # Without a mount it is the same.
            cp original shared/a.asdf
            plant open $journal
            user ./program --set-tree text0 shared/a.asdf 2>home/said
            grep -q "$journal is in the way" home/said
            is text0
            user ./program --recover shared/a.asdf | grep -q "$journal is in the way"
            # Made while the mount is there.
            rm $journal
            user mkdir -p home/m
            user ./program shared/a.asdf home/m
            plant closed $journal
            user cp text1 home/m/tree.yaml; is text1
            unmount
            rm -r $journal"#,
        );
    }
}

#[test]
fn what_is_no_journal_is_set_aside() {
    let place = Place::on("ext4");
    runs(
        &place,
        r#"
        # A file of the owner's that another user may write, and has given the journal's name.
        user sh -c 'echo nonsense >home/loose; chmod 666 home/loose'
        ln home/loose $journal
        user ./program --recover shared/a.asdf | grep -q 'kept as .*other users can write to it'
        rm $journal.aside; chmod 600 home/loose
        ln home/loose $journal
        user ./program --recover shared/a.asdf | grep -q 'kept as .*it is not a journal'
        rm $journal.aside
        cmp original shared/a.asdf"#,
    );
}

#[test]
fn where_there_is_no_state_directory_either_the_refusal_names_what_is_in_the_way() {
    let place = Place::on("ext4");
    runs(
        &place,
        r#"
        user mkdir -p home/state/asdf-mount home/m
        other sh -c 'echo x >$1' sh $journal
        chmod 777 home/state/asdf-mount
        user ./program -v --log-file home/log shared/a.asdf home/m 2>home/said
        grep -q 'home/state/asdf-mount: is not used as state directory: other users can write to it' home/said
        if user cp text0 home/m/tree.yaml; then exit 7; fi
        user cat home/m/tree.yaml.error
        user grep -q "$journal: file exists" home/m/tree.yaml.error
        cmp original shared/a.asdf
        unmount
        test -z "$(ls -A home/state/asdf-mount | grep -vx history)"
        # What is there of a save is looked at all the same.
        if user ./program --set-tree text0 shared/a.asdf 2>home/said; then exit 8; fi
        grep -q 'is not used as state directory' home/said
        rm $journal"#,
    );
}
