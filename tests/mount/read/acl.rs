//! With `allow_other`, no user gets access through the mount that the source's ACL denies.

use std::fs;
use std::path::Path;

use common::daemon::Bench;

/// `as UID:GID[:GROUPS] COMMAND` runs as that user; `reads` and `writes` try a file as that user.
///
/// `compare SOURCE FOLDER` compares the permissions on a file, and on its directory in the mount, for all
/// users.
const FUNCTIONS: &str = r#"
    as() {
        IFS=: read -r uid gid groups <<-END
			$1
		END
        shift
        if [ "$groups" ]; then groups=--groups=$groups; else groups=--clear-groups; fi
        setpriv --reuid=$uid --regid=$gid $groups "$@"
    }
    reads() { as $1 head -c 1 "$2" >read 2>/dev/null && test -s read; }
    writes() { as $1 sh -c ': >>"$1"' - "$2" 2>/dev/null; }
    # The owner, members of the owning group by first and by other group, users and groups with an entry
    # (33, 1001, 6000), in the owning group and not, and a stranger.
    users='2000:2000 1002:5000 1002:1002:5000 33:33 33:5000 1001:1001 1001:5000 1002:6000 1002:6000:5000 1003:1003'
    compare() {
        for user in $users; do
            for file in tree.yaml blocks/0.bin .asdf-mount/status.yaml; do
                reads $user "$1" || not reads $user "$2/$file" || exit 1
            done
            writes $user "$1" || not writes $user "$2/tree.yaml" || exit 1
        done
        # The owner can do what the source allows the owner, and root everything.
        if reads 2000:2000 "$1"; then reads 2000:2000 "$2/tree.yaml"; fi
        if writes 2000:2000 "$1"; then writes 2000:2000 "$2/tree.yaml"; fi
        cat "$2/tree.yaml" >/dev/null
    }
    mkdir dir dir/sub one all
    chmod 755 dir dir/sub one all
    cp sample.asdf dir/g.asdf
    cp sample.asdf dir/sub/g.asdf
    chown 2000:5000 dir/g.asdf dir/sub dir/sub/g.asdf
"#;

#[track_caller]
fn runs(script: &str) {
    let bench = Bench::new();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/asdf/zlib.asdf");
    fs::copy(fixture, bench.path("sample.asdf")).unwrap();
    bench.runs(&format!("{FUNCTIONS}{script}"));
}

#[test]
fn no_user_can_do_more_than_at_the_source() {
    runs(
        r#"
        for acl in u::rw,g::r,o::r u::rw,g::-,o::r u::-,g::r,o::r u::rw,u:33:rw,g::-,m::rw,o::- \
                   u::rw,u:1001:-,g::rw,m::rw,o::r u::rw,u:1001:-,g::rw,m::rw,o::rw \
                   u::rw,g::r,g:6000:-,m::rw,o::rw u::rw,u:1001:w,g::r,m::rw,o::r u::rw,u:33:r,g::rw,m::-,o::rw \
                   u::rw,u:33:r,g::rw,g:6000:w,m::rw,o::-; do
            setfacl --set $acl dir/g.asdf
            asdf-mount -o allow_other dir/g.asdf one
            compare dir/g.asdf one
            asdf-mount -u one
            asdf-mount -o allow_other dir all
            compare dir/g.asdf all/g.asdf
            asdf-mount -u all
        done"#,
    );
}

#[test]
fn without_an_acl_the_mode_counts_for_everybody() {
    runs(
        r#"
        chmod 664 dir/g.asdf
        asdf-mount -o allow_other dir/g.asdf one
        reads 1003:1003 one/tree.yaml
        not writes 1003:1003 one/tree.yaml
        writes 1002:1002:5000 one/tree.yaml
        # An entry that gives more takes nothing from the rest.
        setfacl -m u:33:rw,m::rw dir/g.asdf
        sleep 1
        reads 1003:1003 one/tree.yaml
        writes 1002:5000 one/tree.yaml
        asdf-mount -u one"#,
    );
}

#[test]
fn a_change_of_the_acl_is_seen_within_a_second_and_served_to_nobody_from_before() {
    runs(
        r#"
        for source in dir/g.asdf dir; do
            setfacl -b dir/g.asdf
            chmod 664 dir/g.asdf
            asdf-mount -o allow_other $source one
            folder=one
            test $source != dir || folder=one/g.asdf
            reads 1003:1003 $folder/tree.yaml
            writes 1002:5000 $folder/tree.yaml
            setfacl --set u::rw,u:33:rw,g::-,m::rw,o::- dir/g.asdf
            sleep 1
            # Root and the owner have just looked: what they may do says nothing of the others.
            cat $folder/tree.yaml >/dev/null
            writes 2000:2000 $folder/tree.yaml
            compare dir/g.asdf $folder
            asdf-mount -u one
        done"#,
    );
}

#[test]
fn a_folder_that_a_user_cannot_pass_hides_what_is_in_it() {
    runs(
        r#"
        chmod 666 dir/sub/g.asdf
        cp dir/g.asdf dir/sub/plain.txt
        setfacl --set u::rwx,u:1001:-,g::rwx,m::rwx,o::rx -d --set u::rw,g::-,o::- dir/sub
        asdf-mount -o allow_other dir all
        cat all/sub/g.asdf/tree.yaml >/dev/null
        not reads 1001:1001 dir/sub/g.asdf
        not reads 1001:1001 all/sub/g.asdf/tree.yaml
        not as 1001:5000 ls all/sub
        reads 1002:5000 all/sub/g.asdf/tree.yaml || not as 1002:5000 ls all/sub
        reads 2000:2000 all/sub/g.asdf/tree.yaml
        # Files that are no ASDF files, too.
        echo text >dir/plain.txt
        setfacl --set u::rw,u:1001:-,g::r,m::r,o::r dir/plain.txt
        not reads 1001:1001 all/plain.txt
        asdf-mount -u all"#,
    );
}

#[test]
fn owner_options_and_saves_give_nothing_away() {
    runs(
        r#"
        # The source's owner, who is one of the group or of the others then, gets nothing that he lacks.
        chmod 066 dir/g.asdf
        asdf-mount -o allow_other,uid=1003 dir/g.asdf one
        not reads 2000:2000 one/tree.yaml
        not reads 2000:5000 one/tree.yaml
        not writes 2000:2000 one/tree.yaml
        asdf-mount -u one
        # The options say whose the files are; the ACL still counts for the rest.
        setfacl --set u::rw,u:33:rw,g::-,m::rw,o::- dir/g.asdf
        asdf-mount -o allow_other,uid=1003,umask=007 dir/g.asdf one
        writes 1003:1003 one/tree.yaml
        not reads 1002:5000 one/tree.yaml
        asdf-mount -u one
        asdf-mount -o allow_other,gid=6000 dir/g.asdf one
        not reads 1002:5000 one/tree.yaml
        not reads 1002:6000 one/tree.yaml
        asdf-mount -u one
        # What a member of the group saves stays the owner's, whatever mode the new file had.
        setfacl -b dir/g.asdf
        chmod 664 dir/g.asdf
        asdf-mount -o allow_other dir/g.asdf one
        as 1002:5000 sh -c 'umask 000; sed "s/^...$/marked: yes\n.../" one/tree.yaml >one/new; mv one/new one/tree.yaml'
        grep -q marked dir/g.asdf
        compare dir/g.asdf one
        writes 1002:5000 one/tree.yaml
        as 2000:2000 chmod 777 one/tree.yaml || true
        not writes 1003:1003 one/tree.yaml
        chmod 644 dir/g.asdf
        sleep 1
        not writes 1002:5000 one/tree.yaml
        asdf-mount -u one"#,
    );
}
