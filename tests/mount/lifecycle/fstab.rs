//! mount(8) and /etc/fstab, through mount.fuse3.
//!
//! mount(8) clears `PATH`, and mount.fuse3 searches the shell's default directories, so the program is put
//! into /usr/local/bin, in a separate mount namespace. A helper that is installed already knows another program: it is
//! covered by one that knows this one.

use common::daemon::Bench;

const HELPER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/mount.fuse.asdf-mount");

const PROLOGUE: &str = r#"
    mount --bind bin /usr/local/bin
    if [ -e /sbin/mount.fuse.asdf-mount ]; then
        sed 's|/usr/bin/asdf-mount|/usr/local/bin/asdf-mount|' "$helper" >installed
        chmod +x installed
        mount --bind installed /sbin/mount.fuse.asdf-mount
    fi
"#;

#[track_caller]
fn runs(bench: &Bench, script: &str) {
    bench.runs(&format!("helper='{HELPER}'{PROLOGUE}{script}"));
}

#[test]
fn mount_by_type() {
    runs(
        &Bench::new(),
        r#"
        mount -t fuse.asdf-mount a.asdf mnt
        test -s mnt/tree.yaml
        daemon=$(daemon_of mnt)
        umount mnt
        ended $daemon

        mount -t fuse.asdf-mount -o ro,noexec,uid=12,allow_other,nosuid,user,x-test=1,nofail,_netdev a.asdf mnt
        test $(stat -c %u mnt/tree.yaml) = 12
        findmnt -no OPTIONS mnt | grep -q noexec
        umount mnt

        mount -r -n -s -t fuse "asdf-mount#$T/a.asdf" mnt
        test -s mnt/tree.yaml
        umount mnt"#,
    );
}

#[test]
fn a_line_in_fstab() {
    runs(
        &Bench::new(),
        r#"
        cp a.asdf 'a b.asdf'
        mkdir 'm t'
        printf '%s\n' "$T/a\040b.asdf $T/m\040t fuse.asdf-mount noauto,users,nofail,_netdev,comment=x,x-systemd.automount 0 0" >fstab
        printf '%s\n' "$T/a.asdf $T/mnt fuse.asdf-mount defaults,umask=077,noatime 0 0" >>fstab
        mount -T fstab "$T/m t"
        test -s 'm t/tree.yaml'
        findmnt -no SOURCE,FSTYPE 'm t' | grep -q 'a b.asdf fuse.asdf-mount'
        daemon=$(daemon_of 'm t')
        umount 'm t'
        ended $daemon

        mount -a -T fstab
        test $(stat -c %A mnt/tree.yaml | tail -c 7) = ------
        not mountpoint -q 'm t'
        umount mnt"#,
    );
}

/// The helper that the package installs, as mount(8) runs it: with an empty environment.
#[test]
fn the_helper_of_the_package() {
    let bench = Bench::new();
    let text = std::fs::read_to_string(HELPER).unwrap();
    let program = bench.path("bin/asdf-mount");
    std::fs::write(bench.path("helper"), text.replace("/usr/bin/asdf-mount", program.to_str().unwrap()))
        .unwrap();
    let output = bench.script(
        r##"
        helper() { env -i /bin/sh helper "$@"; }
        cp a.asdf 'a #b.asdf'
        helper 'a #b.asdf' mnt -s -n -v -o rw,noexec,nosuid,user,x-test=1 -t fuse.asdf-mount
        test -s mnt/tree.yaml
        findmnt -no OPTIONS mnt | grep -q noexec
        umount mnt
        helper a.asdf mnt
        test -s mnt/tree.yaml
        umount mnt
        helper a.asdf mnt -f -o rw
        not mountpoint -q mnt
        not helper missing.asdf mnt -o rw 2>error
        grep -q 'missing.asdf: no such file' error
        not helper 2>error"##,
    );
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}

#[test]
fn mount_fails_when_we_do() {
    runs(
        &Bench::new(),
        r#"
        not mount -t fuse.asdf-mount missing.asdf mnt 2>error
        grep -q 'missing.asdf: no such file or directory' error
        not mount -t fuse.asdf-mount a.asdf mnt -o nonsense 2>error
        grep -q 'unknown option -o nonsense' error
        not mountpoint -q mnt"#,
    );
}
