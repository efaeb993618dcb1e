//! A mounted directory compared with the directory itself: permissions, space, and archives.

use std::fs;

use common::daemon::{Bench, SAMPLE};

#[track_caller]
fn runs(script: &str) {
    let bench = Bench::new();
    fs::create_dir(bench.path("dir")).unwrap();
    fs::copy(SAMPLE, bench.path("dir/galaxy.asdf")).unwrap();
    bench.runs(script);
}

#[test]
fn programs_can_be_executed() {
    runs(
        r#"
        printf '#!/bin/sh\necho it runs\n' >dir/program
        cp /bin/true dir/binary
        chmod 751 dir/program; chmod 644 dir/galaxy.asdf; echo text >dir/plain; chmod 644 dir/plain
        asdf-mount dir mnt
        test "$(mnt/program)" = 'it runs'
        mnt/binary
        ls -l mnt | grep -q '^-r-xr-x--x .* program$'
        test "$(stat -c %a mnt/program mnt/plain mnt/galaxy.asdf/blocks/0.bin | tr '\n' ' ')" = '551 444 444 '
        asdf-mount -u mnt"#,
    );
}

#[test]
fn df_shows_the_file_system_of_the_source() {
    runs(
        r#"
        asdf-mount dir mnt
        test "$(stat -fc '%b %s' mnt)" = "$(stat -fc '%b %s' dir)"
        test $(stat -fc %a mnt) -gt 0
        asdf-mount -u mnt
        asdf-mount dir/galaxy.asdf mnt
        test "$(stat -fc '%b %s' mnt)" = "$(stat -fc '%b %s' dir)"
        asdf-mount -u mnt"#,
    );
}

#[test]
fn tar_finds_no_file_changed_after_a_save() {
    runs(
        r#"
        asdf-mount dir mnt
        for n in 1 2; do
            sed -i "s/\(^object.*name: \)[^}]*/\1galaxy $n/" mnt/galaxy.asdf/tree.yaml
            # The kernel may believe what it was told before for half a second.
            sleep 0.6
            tar -cf archive.tar mnt
            tar -xOf archive.tar mnt/galaxy.asdf/tree.yaml | cmp - mnt/galaxy.asdf/tree.yaml
            seq -f 'key%g: added' $((n * 100)) $((n * 100 + 99)) >>mnt/galaxy.asdf/tree.yaml
            sleep 0.6
            tar -cf archive.tar mnt
        done
        asdf-mount -u mnt"#,
    );
}
