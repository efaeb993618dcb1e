//! The history of a file: in the mount, and by `--log`, `--diff` and `--undo`.

use common::daemon::Bench;

/// Script functions: `rename NAME` saves through the mount, `save NAME` without one, `named NAME` checks the
/// file, `count N` the saves in its history.
const FUNCTIONS: &str = r#"
    F=a.asdf
    tree() { sed '/^\.\.\.$/q' ${1:-$F}; }
    to() { sed "s/\(^object.*name: \)[^}]*/\1$1/"; }
    rename() { to "$1" <mnt/tree.yaml >new; cp new mnt/tree.yaml; named "$1"; }
    save() { tree | to "$1" | asdf-mount --set-tree - $F; named "$1"; }
    named() { grep -a ^object $F | grep -q "name: $1}"; }
    count() { test "$(asdf-mount --log $F | grep -vc 'of another text')" = "$1"; }
    H=mnt/.asdf-mount/history
    first() { echo $H/$(ls $H | head -n 1); }
    last() { echo $H/$(ls $H | tail -n 1); }
"#;

#[track_caller]
fn runs(script: &str) {
    Bench::of_sample().runs(&format!("{FUNCTIONS}{script}"));
}

#[test]
fn each_save_in_a_mount_keeps_the_text_that_it_replaced() {
    runs(
        r#"
        tree >0
        asdf-mount a.asdf mnt
        test -z "$(ls $H)"
        touch before
        sed -i 's/Sample Galaxy/one/' mnt/tree.yaml; cp mnt/tree.yaml 1
        to two <1 >2; cat 2 >mnt/tree.yaml
        to three <2 >3; mv 3 mnt/tree.yaml; cp mnt/tree.yaml 3
        to four <3 >4; dd if=4 of=mnt/tree.yaml conv=fsync 2>/dev/null
        cp 4 mnt/tree.yaml
        to five <4 | sed 's/source: 0/source: 9/' >bad
        not cp bad mnt/tree.yaml
        n=0; for name in $(ls $H); do cmp $n $H/$name; n=$((n + 1)); done
        test $n = 4
        ls $H | grep -qxE '[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}-[0-9]{2}-[0-9]{2}Z[0-9]*.yaml'
        for name in $H/*; do test $name -nt before; test $(stat -c %a $name) = 444; done
        test $(stat -c %a $H) = 755; test -f $(first)
        name=$(first); second=${name##*/}
        date -u -r $name +%Y-%m-%dT%H-%M-%SZ | grep -qx ${second%.yaml}
        not touch $H/new; not rm -f $(first); not cp 0 $(first)
        asdf-mount --log a.asdf >log; cat log
        awk '{ print $1, $3, $4, $5, $6 }' log >facts
        size=$(stat -c %s 0)
        grep -qx "4 $size -1 +1 sed" facts
        head -n 1 facts | grep -q '^1 .* -1 +1 dd$'
        # A copy back undoes.
        cp $(first) mnt/tree.yaml; named 'Sample Galaxy'; count 5
        cp $(last) mnt/tree.yaml; named four; count 6
        # Private in the state directory.
        test "$(stat -c %a state/asdf-mount/history/*)" = 700
        test "$(stat -c %a state/asdf-mount/history/*/* | sort -u)" = 600
        chmod 640 a.asdf; sleep 1
        test $(stat -c %a $(first)) = $(stat -c %a mnt/blocks/0.bin)
        asdf-mount -u mnt 2>&1 | grep -q 'refused texts are kept'
        asdf-mount -r a.asdf mnt; cmp 0 $(first); asdf-mount -u mnt"#,
    );
}

/// A mount may go on showing a text as its program wrote it, without the parts that the save restored.
#[test]
fn a_tree_with_restored_parts_is_changed_by_commands() {
    runs(
        r#"
        tree >0; asdf-mount a.asdf mnt
        sed -i -e 1d -e 's/Sample Galaxy/one/' mnt/tree.yaml; named one; tree | cmp - mnt/tree.yaml
        (cat mnt/tree.yaml; echo; echo ...) | to two >new; cp new mnt/tree.yaml; named two; cmp new mnt/tree.yaml
        asdf-mount --set object.name=three a.asdf; named three; tree | cmp - mnt/tree.yaml
        sed -e 1d -e 's/three/four/' mnt/tree.yaml | grep -v '^#' >new; cp new mnt/tree.yaml; named four
        asdf-mount --undo a.asdf; named three
        # A draft is not overwritten.
        python3 -c "
import subprocess
tree = open('mnt/tree.yaml', 'ab', buffering=0)
tree.write(b'more: 1\n')
done = subprocess.run(['asdf-mount', '--undo', 'a.asdf'], stderr=subprocess.PIPE, text=True)
assert done.returncode != 0 and 'a program is editing it' in done.stderr, done"
        grep -qa '^more: 1' a.asdf; asdf-mount -u mnt"#,
    );
}

#[test]
fn the_last_save_is_shown_and_taken_back() {
    runs(
        r#"
        tree >0
        asdf-mount --log a.asdf >log 2>said; test ! -s log; grep -q 'a.asdf: has no saves in its history' said
        not asdf-mount --undo a.asdf 2>said; grep -q 'a.asdf: has no saves in its history' said
        save one; tree >1
        EDITOR="sed -i s/one/two/" asdf-mount --edit a.asdf; tree >2
        asdf-mount --diff a.asdf >diff; cat diff
        cp 1 patched; patch -s patched <diff; cmp patched 2
        grep -qx -- '-object: .*name: one}' diff; grep -qx -- '+object: .*name: two}' diff
        asdf-mount --diff a.asdf 2 >diff; cp 0 patched; patch -s patched <diff; cmp patched 1
        not asdf-mount --diff a.asdf 3 2>said; grep -q 'has 2 saves in its history, not 3' said
        not asdf-mount --diff a.asdf 0 2>said; not asdf-mount --diff a.asdf x 2>said
        asdf-mount --undo a.asdf >said; cat said
        grep -q '^a.asdf: the save of .* by sed -i s/one/two/ is taken back' said
        tree | cmp - 1
        asdf-mount -q --undo a.asdf >said; test ! -s said
        tree | cmp - 2
        not asdf-mount --undo a.asdf 2 2>said
        grep -q 'not changed: the text before the last 2 saves is the present one' said
        count 4
        asdf-mount --log a.asdf | head -n 1 | grep -q 'asdf-mount --undo$'
        asdf-mount --log --json a.asdf >json
        test $(grep -c '"removed":1,"added":1,.*"own":true}' json) = 4
        grep -q '^{"n":4,"time":"[0-9T:Z-]*","file":"[0-9T-]*Z.*yaml","size":[0-9]*,.*"program":"asdf-mount --set-tree"' json
        # A save that is refused, or changes nothing, leaves nothing.
        sed 's/source: 0/source: 9/' 2 >bad; not asdf-mount --set-tree bad a.asdf 2>said
        asdf-mount --set-tree 2 a.asdf; count 4
        # In a mount.
        asdf-mount a.asdf mnt
        asdf-mount --undo a.asdf; tree | cmp - 1; cmp 1 mnt/tree.yaml
        asdf-mount --undo a.asdf; tree | cmp - 2; cmp 2 mnt/tree.yaml
        test $(ls $H | wc -l) = 6
        cd mnt; asdf-mount --diff ../a.asdf | patch -s -R -o - tree.yaml | cmp - ../1; cd ..
        asdf-mount -u mnt
        cp $T/a.asdf b.asdf; test -z "$(asdf-mount --log b.asdf)""#,
    );
}

#[test]
fn the_history_follows_the_file_and_no_other() {
    runs(
        r#"
        mkdir disk; mount -t tmpfs none disk; mv a.asdf disk/a.asdf; cd disk; F=a.asdf
        for n in 1 2; do
            asdf-mount a.asdf mnt
            inode=$(stat -c %i a.asdf)
            # A text that grows makes a new file.
            seq -f 'line %.0f: added' 2000 | sed "s/line/line $n/" >more
            cat more >>mnt/tree.yaml
            test $(stat -c %i a.asdf) != $inode
            rename "number $n"
            asdf-mount -u mnt
        done
        count 4
        mv a.asdf b.asdf; F=b.asdf; count 4
        asdf-mount -q --undo b.asdf; named 'number 1'; count 5
        ln b.asdf hard.asdf; ln -s b.asdf soft.asdf
        for F in hard.asdf soft.asdf; do count 5; done
        rm hard.asdf; F=b.asdf
        asdf-mount b.asdf mnt; test $(ls $H | wc -l) = 5; asdf-mount -u mnt
        # Each file of a directory has its own.
        mkdir dir; cp b.asdf dir/c.asdf; mv b.asdf dir/b.asdf; asdf-mount dir mnt
        test $(ls mnt/b.asdf/.asdf-mount/history | wc -l) = 5
        test -z "$(ls mnt/c.asdf/.asdf-mount/history)"
        sed -i 's/number 1/other/' mnt/c.asdf/tree.yaml
        test $(ls mnt/c.asdf/.asdf-mount/history | wc -l) = 1
        asdf-mount -q --undo dir/c.asdf; F=dir/c.asdf; named 'number 1'
        asdf-mount -u mnt
        # Another program writes another tree: the texts are not of this one.
        F=dir/b.asdf
        sed 's/number 1/number 7/' dir/b.asdf >x; cat x >dir/b.asdf; named 'number 7'
        count 0; test $(asdf-mount --log dir/b.asdf | grep -c 'of another text') = 5
        asdf-mount --log dir/b.asdf | head -n 1 | grep -q ' ? *? '
        asdf-mount --log --json dir/b.asdf | head -n 1 | grep -q '"removed":null,"added":null'
        not asdf-mount --undo dir/b.asdf 2>said; cat said; grep -q 'another program has changed the tree' said
        asdf-mount dir/b.asdf mnt; test -z "$(ls $H)"; rename eight; test $(ls $H | wc -l) = 1; asdf-mount -u mnt
        asdf-mount -q --undo dir/b.asdf; named 'number 7'; count 2
        # A file restored under its old name has its history, also a newer copy.
        save nine; cp -p dir/b.asdf saved; rm dir/b.asdf; cp -p saved dir/b.asdf; count 3
        sleep 0.1; cp saved new; mv new dir/b.asdf; count 3
        asdf-mount -q --undo dir/b.asdf; named 'number 7'; count 4
        # A new file of this name whose text another program wrote first has none.
        sleep 0.1; cp dir/b.asdf new; rm dir/b.asdf; cp new dir/b.asdf; count 0
        not asdf-mount --undo dir/b.asdf 2>said; grep -q 'has no saves in its history' said; named 'number 7'
        save ten; count 1; asdf-mount -q --undo dir/b.asdf; named 'number 7'; count 2
        # A text put back in place has the saves that led to it.
        cp -p dir/b.asdf saved; save eleven; save twelve; save thirteen; cp saved dir/b.asdf; count 2
        test $(asdf-mount --log dir/b.asdf | grep -c 'of another text') = 3
        asdf-mount -q --undo dir/b.asdf; named ten; count 3
        cd ..; umount disk"#,
    );
}

#[test]
fn a_full_or_unwritable_state_directory_fails_no_save_and_warns_once() {
    runs(
        r#"
        mkdir state; mount -t tmpfs -o size=256k,mode=700 none state
        asdf-mount -v --log-file log a.asdf mnt
        rename early
        fill() { dd if=/dev/zero of=state/full bs=4k 2>/dev/null || true; }
        fill; for n in 1 2 3; do rename "full $n"; done
        test $(grep -c 'WARN.*a.asdf: .*the replaced text is not kept in the history: .*[Nn]o space' log) = 1
        test -z "$(find state -name '.new*')"
        asdf-mount -u mnt
        fill; save five 2>said; cat said; test $(grep -c 'not kept in the history' said) = 1
        rm state/full; save six 2>said; test ! -s said; count 1
        umount state; rm -r state
        # Read-only.
        mkdir state; mount -t tmpfs -o ro none state
        save seven 2>said; cat said; grep -q 'not kept in the history: .*state' said
        asdf-mount a.asdf mnt 2>said; grep -q 'replaced texts are not kept' said
        rename eight; test ! -e $H; asdf-mount -u mnt
        asdf-mount --log a.asdf; umount state; rm -r state
        # Of another user.
        mkdir -p state/asdf-mount; chown -R 65534 state
        save nine 2>said; cat said; grep -q 'belongs to another user' said
        test -z "$(ls -A state/asdf-mount)"
        not asdf-mount --undo a.asdf 2>said; grep -q 'belongs to another user' said
        rm -r state
        # Removed during a mount.
        asdf-mount a.asdf mnt; rename ten; rm -r state; rename eleven; test $(ls $H | wc -l) = 1; asdf-mount -u mnt"#,
    );
}

/// The history notes a save whose text is too large, and says so. A text that is removed while it is listed
/// has no numbers of lines.
#[test]
fn a_save_whose_text_is_not_kept_is_listed() {
    runs(
        r#"
        tree >0
        { sed '$d' 0; seq -f '# line %.0f: a comment of some length' 500000; echo ...; } >large
        asdf-mount --set-tree large a.asdf 2>said; test ! -s said
        asdf-mount --set-tree 0 a.asdf 2>said; cat said
        grep -q 'the replaced text is larger than 16 MiB: it is not kept in the history' said
        asdf-mount --log a.asdf >log; cat log; test $(wc -l <log) = 2
        head -n 1 log | grep -q ' ? *? '; asdf-mount --log --json a.asdf | head -n 1 | grep -q '"file":null'
        not asdf-mount --undo a.asdf 2>said; cat said
        grep -q 'the text is larger than 16 MiB and is not in the history' said
        tree | cmp - 0
        asdf-mount a.asdf mnt; test $(ls $H | wc -l) = 1; cmp 0 $(last)
        cp large mnt/tree.yaml; cp 0 mnt/tree.yaml; asdf-mount -u mnt 2>/dev/null
        # A text that is removed after it was listed.
        save one; save two; save three
        oldest=$(ls state/asdf-mount/history/*/*.yaml | tail -n 3 | head -n 1)
        strace -qq -e trace=openat -e inject=openat:error=ENOENT:when=1 -P $oldest \
            asdf-mount --log a.asdf >log; cat log
        test $(grep -c . log) -ge 2"#,
    );
}

#[test]
fn a_user_has_a_history_of_his_own() {
    let bench = Bench::of_sample();
    let script = r#"
        mkdir own; chmod 777 .; chown 65534:65534 own a.asdf
        user env XDG_STATE_HOME=$T/own asdf-mount a.asdf home/m
        user sed -i 's/Sample Galaxy/one/' home/m/tree.yaml
        user sh -c 'cp home/m/.asdf-mount/history/* old'; grep -q 'Sample Galaxy' old
        not ls home/m
        user asdf-mount -u home/m
        test "$(stat -c '%a %u' own/asdf-mount/history/*)" = '700 65534'
        user env XDG_STATE_HOME=$T/own asdf-mount --undo a.asdf
        grep -qa 'Sample Galaxy' a.asdf
        # Root has no history of it, and does not read the user's.
        test -z "$(asdf-mount --log a.asdf)"
        not env XDG_STATE_HOME=$T/own asdf-mount --log a.asdf
        # The directory is private whatever the umask, and other users of the mount read as much as of the tree.
        chmod 640 a.asdf; chown 0:65534 a.asdf
        umask 0; asdf-mount -o allow_other a.asdf home/m; umask 22
        sed -i 's/Sample Galaxy/two/' home/m/tree.yaml
        test "$(stat -c %a state/asdf-mount/history/*)" = 700
        test "$(stat -c %a home/m/.asdf-mount/history/*)" = 440
        user sh -c 'cat home/m/.asdf-mount/history/*' | grep -q 'Sample Galaxy'
        chmod 600 a.asdf; sleep 1
        not user sh -c 'cat home/m/.asdf-mount/history/*' 2>/dev/null
        asdf-mount -u home/m"#;
    let output = bench.script(&format!("{}{script}", crate::user::PROLOGUE));
    assert!(output.status.success(), "{output:?}");
    bench.nothing_is_left();
}

#[test]
fn without_history_nothing_is_kept_or_shown() {
    runs(
        r#"
        asdf-mount -o history=off a.asdf mnt
        rename one; test ! -e $H; test -z "$(find state -name 'history*')"
        asdf-mount -u mnt
        tree | to two | asdf-mount -o history=off --set-tree - a.asdf
        test -z "$(find state -name 'history*')"
        not asdf-mount -o history=no a.asdf mnt 2>said; grep -q 'history=no is not on or off' said
        # Formats that can't be saved have none.
        printf 'blpk\3\0\1\1\0\20\0\0\0\20\0\0\0\20\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >b.blp
        not asdf-mount --undo b.blp 2>said; test $(wc -l <said) = 1"#,
    );
}

/// Gives this machine the identifier NAME, in the mount namespace of the script.
const MACHINE: &str = r#"
    mkdir etc; cp -a /etc/. etc; mount --bind etc /etc
    machine() { echo "$1" >/etc/machine-id; }
"#;

#[test]
fn machines_that_share_the_state_directory_do_not_mix_their_files() {
    runs(&format!(
        r#"
        {MACHINE}
        cp a.asdf sample
        mkdir disk served state; bindfs served state
        for machine in one two one two; do
            machine $machine
            # The same path, and the same inode.
            mount -t tmpfs none disk; cp ${{machine}}.asdf disk/a.asdf 2>/dev/null || cp sample disk/a.asdf
            F=disk/a.asdf; before=$(asdf-mount --log $F | wc -l)
            save $machine 2>/dev/null || true; save "again $machine"
            asdf-mount --log $F >log
            test $(grep -c . log) = $((before + 2))
            asdf-mount -q --undo $F; named $machine; asdf-mount -q --undo $F; named "again $machine"
            cp $F ${{machine}}.asdf
            umount disk
        done
        umount state"#,
    ));
}

#[test]
fn a_new_machine_id_hides_no_saves_of_a_local_disk() {
    runs(&format!(
        r#"
        {MACHINE}
        rm -f /etc/machine-id; save first
        machine one; count 1; save second; count 2
        machine two; count 2
        asdf-mount -q --undo $F 2; named 'Sample Galaxy'"#,
    ));
}

#[test]
fn a_torn_text_is_not_shown_and_saves_go_on() {
    runs(
        r#"
        for n in one two three; do save $n; done
        second=$(ls state/asdf-mount/history/*/00000002-*)
        head -c 700 $second >torn; cp torn $second
        count 2
        asdf-mount a.asdf mnt; test $(ls $H | wc -l) = 2
        for name in $H/*; do grep -q '^\.\.\.$' $name; done
        rename four; test $(ls $H | wc -l) = 3
        # The daemon is killed: what was saved stays.
        daemon=$(daemon_of mnt); kill -9 $daemon; ended $daemon; asdf-mount -u mnt
        count 3; asdf-mount -q --undo a.asdf; named three
        # Any bytes in the place of a text are ignored.
        for name in state/asdf-mount/history/*/*; do head -c 3000 /dev/urandom >$name; done
        count 0; save five; count 1"#,
    );
}
