//! A mount that the caller makes, and passes as the mountpoint `/dev/fd/N`.

use crate::user::PROLOGUE;
use common::daemon::Bench;

/// Mounts on `mnt` and runs the program: `given.py OPTIONS COMMAND…`, where `FD` stands for the descriptor.
const CALLER: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,{sys.argv[1]}"
if libc.mount(b"caller", b"mnt", b"fuse", 0, options.encode()) != 0:
    raise OSError(ctypes.get_errno(), "mount")
os.set_inheritable(device, True)
# As in a container that has no device to open.
if libc.mount(b"/dev/null", b"/dev/fuse", None, 0x1000, None) != 0:
    raise OSError(ctypes.get_errno(), "bind")
command = [word.replace("FD", str(device)) for word in sys.argv[2:]]
os.execvp(command[0], command)
"#;

#[track_caller]
fn runs(script: &str) {
    let bench = Bench::of_sample();
    std::fs::write(bench.path("given.py"), CALLER).unwrap();
    bench.runs(&format!("{PROLOGUE}{script}"));
}

#[test]
fn a_given_mount_is_served_until_the_caller_unmounts_it() {
    runs(
        r#"
        for way in '' -f; do
            case $way in
            -f)
                python3 given.py allow_other,default_permissions asdf-mount -f a.asdf /dev/fd/FD &
                for i in $(seq 600); do test ! -e mnt/tree.yaml || break; sleep 0.1; done
                ;;
            *) timeout 60 python3 given.py allow_other,default_permissions asdf-mount a.asdf /dev/fd/FD ;;
            esac
            umount /dev/fuse
            daemon=$(daemon_of mnt)
            test -s mnt/blocks/0.bin
            # The caller decided that others may read.
            user cat mnt/tree.yaml >/dev/null
            sed -i 's/Sample Galaxy/another name/' mnt/tree.yaml
            grep -a 'another name' a.asdf
            asdf-mount --set-tree mnt/tree.yaml a.asdf && exit 1
            sed -i 's/another name/Sample Galaxy/' mnt/tree.yaml
            umount mnt
            ended $daemon
            wait
        done
        python3 given.py default_permissions asdf-mount -r a.asdf /dev/fd/FD
        umount /dev/fuse
        not sh -c 'echo x >mnt/tree.yaml'
        kill $(daemon_of mnt)
        for i in $(seq 600); do not ls mnt 2>/dev/null && break; sleep 0.1; done
        umount mnt"#,
    );
}

#[test]
fn mount_fuse3_drops_privileges() {
    runs(
        r#"
        mount.fuse3 asdf-mount#$T/a.asdf $T/mnt -o drop_privileges,ro,allow_other
        test -s mnt/tree.yaml
        user test -s mnt/blocks/0.bin
        grep '^CapEff:.0*$' /proc/$(daemon_of mnt)/status
        daemon=$(daemon_of mnt)
        umount mnt
        ended $daemon"#,
    );
}

#[test]
fn another_descriptor_is_refused() {
    runs(
        r#"
        for place in /dev/fd/77 /dev/fd/0 /dev/fd/5; do
            not asdf-mount a.asdf $place 5<mnt 2>said
            cat said
            test $(wc -l <said) = 1
            grep "^asdf-mount: $place: as a mountpoint, this has to be an open /dev/fuse, but" said
        done
        # A device that is not mounted.
        not asdf-mount a.asdf /dev/fd/5 5<>/dev/fuse 2>said
        cat said
        not python3 given.py default_permissions asdf-mount -o timeout=5 a.asdf /dev/fd/FD 2>said
        grep 'timeout needs a mountpoint that asdf-mount can unmount' said
        umount /dev/fuse mnt
        not ours"#,
    );
}
