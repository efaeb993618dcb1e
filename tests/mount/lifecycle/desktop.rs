//! The file types and the action for file managers, in `packaging`.

use std::fs;
use std::path::Path;
use std::process::Command;

use common::daemon::{Bench, succeeded};

fn packaged(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(name)
}

#[test]
fn files_are_recognised_by_their_magic() {
    let bench = Bench::new();
    let packages = bench.path("data/mime/packages");
    fs::create_dir_all(&packages).unwrap();
    fs::copy(packaged("asdf-mount.xml"), packages.join("asdf-mount.xml")).unwrap();
    let mut update = Command::new("update-mime-database");
    update.arg(bench.path("data/mime")).env("XDG_DATA_HOME", bench.path("data"));
    succeeded(&update.output().unwrap());
    let gsd = [0xdf, 0x65].repeat(4);
    let heads: [(&[u8], &str); 7] = [
        (b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n", "application/x-asdf"),
        (b"#ASDF 0.1.0\n%YAML 1.1\n", "application/x-asdf"),
        (b"%ASDF 0.1.0\n%YAML 1.1\n", "application/x-asdf"),
        (&gsd, "application/x-gsd"),
        (b"blpk\x03\0\0\0", "application/x-bloscpack"),
        (b"\x9e\xa8b2frame\0\xd2\0\0\0", "application/x-blosc2"),
        (b"#ASDFGH is plain text\n", "text/plain"),
    ];
    for (head, wanted) in heads {
        fs::write(bench.path("without-extension"), head).unwrap();
        let mut gio = Command::new("gio");
        gio.args(["info", "-a", "standard::content-type", "without-extension"]).current_dir(bench.path(""));
        let output = gio.env("XDG_DATA_HOME", bench.path("data")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            said.contains(&format!("standard::content-type: {wanted}\n")),
            "{}: {said}",
            head.escape_ascii()
        );
    }
}

#[test]
fn the_action_mounts_and_shows_the_directory() {
    let bench = Bench::new();
    succeeded(&Command::new("desktop-file-validate").arg(packaged("asdf-mount.desktop")).output().unwrap());
    let script = fs::read_to_string(packaged("open")).unwrap();
    let script = script.replace("/usr/bin/asdf-mount", bench.path("bin/asdf-mount").to_str().unwrap());
    fs::write(bench.path("open"), script).unwrap();
    let output = bench.script(
        r#"
        printf '#!/bin/sh\nprintf "%%s\\n" "$1" >>"$T/shown"\n' >bin/xdg-open
        printf '#!/bin/sh\nprintf "%%s\\n" "$*" >>"$T/errors"\n' >bin/zenity
        chmod +x bin/*
        export XDG_RUNTIME_DIR=$T/run
        mkdir other
        cp a.asdf 'other/a.asdf'
        cp a.asdf 'a b.asdf'
        sh open a.asdf other/a.asdf 'a b.asdf'
        # A second time shows the same mount.
        sh open "$T/a.asdf"
        test $(wc -l <shown) = 4
        test $(sort -u shown | wc -l) = 3
        while read -r shown; do test -s "$shown/tree.yaml"; done <shown
        test "$(head -n 1 shown)" = "$(tail -n 1 shown)"
        test ! -e errors
        sort -u shown | while read -r shown; do asdf-mount -u "$shown"; done

        # cksum prints the same number for these paths.
        mkdir cz71d ddpaa
        rm shown
        sed s/1.5.0/1.4.0/ a.asdf >cz71d/x.asdf
        cp a.asdf ddpaa/x.asdf
        sh open cz71d/x.asdf ddpaa/x.asdf
        test $(sort -u shown | wc -l) = 2
        cat "$(head -n 1 shown)/tree.yaml" | grep 'STANDARD 1.4.0'
        cat "$(tail -n 1 shown)/tree.yaml" | grep 'STANDARD 1.5.0'
        sort -u shown | while read -r shown; do asdf-mount -u "$shown"; done

        # A name may end with a line break.
        name=$(printf 'a.asdf\nx')
        name=${name%x}
        sed s/1.5.0/1.3.0/ a.asdf >"$name"
        sh open "$name"
        grep 'STANDARD 1.3.0' run/asdf-mount/*/"$name"/tree.yaml
        asdf-mount -u run/asdf-mount/*/"$name"

        not sh open none/a.asdf 2>/dev/null
        grep -q 'none/a.asdf does not exist' errors
        echo text >text.asdf
        not sh open text.asdf 2>/dev/null
        grep -q 'text.asdf: is not' errors"#,
    );
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}

/// Without $XDG_RUNTIME_DIR, another user has made the directory in /tmp.
#[test]
fn the_action_uses_no_directory_of_another_user() {
    let bench = Bench::new();
    let script = fs::read_to_string(packaged("open")).unwrap();
    let script = script.replace("/usr/bin/asdf-mount", bench.path("bin/asdf-mount").to_str().unwrap());
    fs::write(bench.path("open"), script).unwrap();
    let output = bench.script(
        r#"
        printf '#!/bin/sh\nprintf "%%s\\n" "$1" >>"$T/shown"\n' >bin/xdg-open
        chmod +x bin/*
        unset XDG_RUNTIME_DIR
        mkdir victim tmp
        mount -t tmpfs -o mode=1777 none tmp
        case $T in
        /tmp/*) mkdir tmp/${T#/tmp/} && mount --bind $T tmp/${T#/tmp/} ;;
        esac
        mount --move tmp /tmp
        digest=$(printf %s "$T/a.asdf" | sha256sum)
        plant() {
            mkdir -p $1/asdf-mount/${digest%% *}
            ln -s $T/victim $1/asdf-mount/${digest%% *}/a.asdf
            chown -Rh 65534 $1
        }
        plant /tmp/asdf-mount-0
        plant /tmp/asdf-mount-0.planted
        mkdir -m 777 /tmp/asdf-mount-0.open
        ln -s /tmp/asdf-mount-0 /tmp/asdf-mount-0.link
        sh open a.asdf a.asdf
        not mountpoint -q victim
        test $(sort -u shown | wc -l) = 1
        shown=$(head -n 1 shown)
        test -s "$shown/tree.yaml"
        case $shown in /tmp/asdf-mount-0.????????/asdf-mount/*/a.asdf) ;; *) exit 1 ;; esac
        asdf-mount -u "$shown""#,
    );
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}
