//! `-o remount,ro` and `-o remount,rw`.

use crate::user::PROLOGUE;
use common::daemon::Bench;

#[track_caller]
fn runs(script: &str) {
    Bench::of_sample().runs(&format!("{PROLOGUE}{script}"));
}

#[test]
fn changes_are_refused_until_it_is_writable_again() {
    runs(
        r#"
        asdf-mount a.asdf m
        mode() { test "$(findmnt -no OPTIONS m | cut -c1-3)" = $1, ; asdf-mount -l | grep "^$T/m .* $1 "; }
        for change in 'asdf-mount -o remount,ro m' 'asdf-mount a.asdf m -o rw,remount,ro,user_id=0,relatime'; do
            mode rw
            $change
            mode ro
            not sh -c 'echo x >m/notes' 2>said
            grep 'Read-only file system' said
            not sed -i 's/filter: V/filter: B/' m/tree.yaml
            grep '^writable: false' m/.asdf-mount/status.yaml
            cat m/blocks/0.bin >/dev/null
            asdf-mount -o remount,rw m
        done
        mode rw
        sed -i 's/filter: V/filter: B/' m/tree.yaml
        grep -a 'filter: B' a.asdf
        asdf-mount -u m"#,
    );
}

#[test]
fn writers_and_texts_that_are_not_saved_prevent_it() {
    runs(
        r#"
        asdf-mount a.asdf m
        exec 5>>m/notes
        not asdf-mount -o remount,ro m 2>said
        grep 'a program has notes of .*a.asdf open for writing; close it' said
        exec 5>&-
        not sed -i 's/source: 0/source: 9/' m/tree.yaml
        not asdf-mount -o remount,ro m 2>said
        grep 'was refused; save a correct one, or remove tree.yaml.rejected' said
        findmnt -no OPTIONS m | grep ^rw
        sed -i 's/filter: V/filter: B/' m/tree.yaml
        asdf-mount -o remount,ro m
        asdf-mount -u m
        asdf-mount -r a.asdf m
        not asdf-mount -o remount,rw m 2>said
        grep 'the mount was made read-only' said
        findmnt -no OPTIONS m | grep ^ro
        asdf-mount -u m"#,
    );
}

#[test]
fn only_the_owner_and_root_may_do_it() {
    runs(
        r#"
        cp a.asdf home
        chown 65534 home/a.asdf
        user sh -c 'cd home; asdf-mount a.asdf m'
        user asdf-mount -o remount,ro home/m
        user asdf-mount -l | grep "^$T/home/m .* ro "
        not user sh -c 'echo x >home/m/notes'
        user asdf-mount -o remount,rw home/m
        user sh -c 'echo x >home/m/notes'
        asdf-mount -o remount,ro home/m
        not user sh -c 'echo x >home/m/other'
        not setpriv --reuid=65533 --clear-groups asdf-mount -o remount,rw home/m
        user asdf-mount -l | grep "^$T/home/m .* ro "
        user asdf-mount -u home/m"#,
    );
}
