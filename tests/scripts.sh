#!/usr/bin/env bash
# Tests scripts/prepare.sh through scripts/demo on simulated machines: PATH holds fake commands and a few real tools.
# Then runs the real demonstration with its output into a pipe, and the installation.
#
#   tests/scripts.sh ASDF-MOUNT    the program for the demonstration
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."

here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
# A copy that requires a nonexistent version of Rust, which the scripts must read from Cargo.toml.
mkdir "$here/copy"
cp -r scripts examples packaging "$here/copy"
sed 's/^rust-version = .*/rust-version = "7.10"/' Cargo.toml >"$here/copy/Cargo.toml"

# fake NAME: makes a command that logs its call, then runs the script given on standard input.
fake() {
    {
        echo '#!/bin/bash'
        printf 'echo "%s $*" >>"%s/log"\n' "$1" "$here"
        cat
    } >"$here/bin/$1"
    chmod +x "$here/bin/$1"
}

# rust VERSION FOLDER: makes a fake compiler and a fake cargo.
rust() {
    mkdir -p "$2"
    printf '#!/bin/bash\necho "rustc %s (a fake)"\n' "$1" >"$2/rustc"
    printf '#!/bin/bash\n[ $1 != build ] || { echo BUILDS; exit 7; }\necho "cargo %s (a fake)"\n' "$1" >"$2/cargo"
    chmod +x "$2/rustc" "$2/cargo"
}

# machine UID: makes a machine with everything except Rust, apt, sudo and rustup.
machine() {
    rm -rf "${here:?}/bin" "$here/home"
    mkdir "$here/bin" "$here/home"
    : >"$here/log"
    local tool
    for tool in bash sh cat cp cut dirname env grep head mkdir mktemp printf realpath rm sed sleep sort tail tr; do
        ln -s "$(command -v "$tool")" "$here/bin/$tool"
    done
    for tool in cc fusermount3 getfattr jq python3 unshare; do fake "$tool" <<<''; done
    fake id <<<"echo $1"
}

# apt CARGO CARGO-WEB [RUSTUP]: adds fake Debian tools that install these versions of cargo, cargo-web and rustup.
apt() {
    fake apt-cache <<<"case \$2 in cargo) echo '  Candidate: $1+dfsg1-1' ;; cargo-web) echo '  Candidate: $2+dfsg1' ;;
        rustup) echo '  Candidate: ${3-(none)}' ;; esac"
    fake apt-get <<<"case \"\$*\" in *cargo-web*) cp $here/new/* $here/bin ;; *install*rustup*) cp $here/rustup $here/bin ;; esac"
}

# demo EXPECTED…: runs the demo; output and log must contain each text, but no text after a '!'.
demo() {
    local text all
    env -i PATH="$here/bin" HOME="$here/home" "$here/copy/scripts/demo" >"$here/output" 2>&1 || true
    all=$(cat "$here/output" "$here/log")
    for text in "$@"; do
        case $text in
        '!'*) [[ $all != *"${text#!}"* ]] ;;
        *) [[ $all == *"$text"* ]] ;;
        esac || { printf 'line %s: %s, in:\n%s\n' "${BASH_LINENO[0]}" "$text" "$all" && exit 1; }
    done
}

rust 7.10.2 "$here/new"

machine 0 # new enough
cp "$here"/new/* "$here/bin"
demo BUILDS '!apt-get' '!needed'

machine 0 # a terminal has a line that says what cargo compiles
cp "$here"/new/* "$here/bin"
cat >"$here/bin/cargo" <<END
#!/bin/bash
[ "\$1" = build ] || { echo "cargo 7.10"; exit; }
printf '   Building [====>    ] 57/199: ring, rustls\r' >&2
for i in {1..600}; do ! grep -q 'crate 57/199: ring' $here/output || break; sleep 0.1; done
exit 7
END
env -i PATH="$here/bin" HOME="$here/home" "$(command -v script)" -qec "$here/copy/scripts/demo" /dev/null \
    </dev/null >"$here/output" 2>&1 || true
grep -q ' s, crate 57/199: ring ' "$here/output" || { cat -v "$here/output" && exit 1; }

machine 0 # too old, and no source to install from
rust 7.9.9 "$here/bin"
demo 'Rust 7.10 or newer is needed' 'rustc is 7.9.9' 'https://rustup.rs' '!BUILDS'

machine 0 # Debian 13: its rustc is too old, rustc-web is not
rust 7.9.9 "$here/bin"
apt 7.9.9 7.10.0
demo 'apt-get install -y --no-install-recommends rustc-web cargo-web -qq' BUILDS

machine 0 # Debian 13 has rustup, whose compiler is faster
apt 7.9.9 7.10.0 1.27.1-2
fake rustup <<<"cp $here/new/* $here/bin" && mv "$here/bin/rustup" "$here/rustup"
demo 'apt-get install -y --no-install-recommends rustup -qq' 'toolchain install' BUILDS '!cargo-web'

machine 0 # the servers of rustup can't be reached
apt 7.9.9 7.10.0 1.27.1-2
fake rustup <<<'exit 1' && mv "$here/bin/rustup" "$here/rustup"
demo '--no-install-recommends rustup -qq' '--no-install-recommends rustc-web cargo-web -qq' BUILDS

machine 0 # a Debian with a new cargo, and missing packages
rm "$here/bin/cc" "$here/bin/fusermount3"
apt 7.11.0 7.11.0
fake apt-get <<<"[ \"\$1\" != install ] || cp $here/new/* $here/bin"
demo 'apt-get -qq update' 'install -y --no-install-recommends gcc fuse3 rustc cargo -qq' BUILDS

machine 1000 # an ordinary user without sudo: prints the whole command for root
rm "$here/bin/fusermount3"
apt 7.9.9 7.10.0
demo 'run as root: apt-get update && apt-get install -y --no-install-recommends fuse3 rustc-web cargo-web' \
    '!BUILDS' '!apt-get -qq update'

machine 1000 # only Rust is missing, and rustup can't be downloaded
rust 7.9.9 "$here/bin"
apt 7.9.9 7.10.0
fake curl <<<'exit 6'
demo 'curl --proto' 'run as root: apt-get update && apt-get install -y --no-install-recommends rustc-web cargo-web' '!BUILDS'

machine 1000 # only Rust is missing, and rustup can be downloaded
rust 7.9.9 "$here/bin"
apt 7.9.9 7.10.0
fake curl <<<"echo 'mkdir -p $here/home/.cargo; cp -r $here/new $here/home/.cargo/bin'"
demo 'curl --proto' BUILDS '!apt-get -qq update'

machine 1000 # only Rust is missing, and apt has no package lists yet
apt 7.9.9 7.10.0
fake apt-cache <<<"case \"\$*\" in *web*Lists*) echo '  Candidate: 7.10.0+dfsg1' ;; *) echo '  Candidate: (none)' ;; esac"
demo 'run as root: apt-get update && apt-get install -y --no-install-recommends rustc-web cargo-web' '!BUILDS'

machine 1000 # with sudo
apt 7.9.9 7.10.0
fake sudo <<<'"$@"'
demo 'sudo env DEBIAN_FRONTEND=noninteractive apt-get install' BUILDS

machine 0 # Debian 12: no package is new enough, so rustup is used
rust 7.9.9 "$here/bin"
apt 0.66.0 7.9.0
fake curl <<<"echo 'mkdir -p $here/home/.cargo; cp -r $here/new $here/home/.cargo/bin'"
demo 'installing Rust with rustup' BUILDS '!apt-get install'

machine 0 # no network
rust 7.9.9 "$here/bin"
apt 0.66.0 7.9.0
fake curl <<<'echo "could not resolve host" >&2; exit 6'
demo 'could not resolve host' 'Rust 7.10 or newer is needed' 'apt has no version that is new enough' 'https://rustup.rs' \
    '!BUILDS'

machine 0 # rustup with an old toolchain; Debian's packages would conflict with it
rust 7.9.9 "$here/bin"
apt 7.9.9 7.10.0
fake rustup <<<"cp $here/new/* $here/bin"
demo 'rustup toolchain install' BUILDS '!apt-get install'

machine 0 # a chroot whose / is no mountpoint
cp "$here"/new/* "$here/bin"
fake unshare <<<'case "$*" in *"--propagation unchanged"*) ;; *) exit 1 ;; esac'
demo BUILDS '!SYS_ADMIN'

machine 0 # a container that can't mount: reported before any installation
rm "$here/bin/cc"
apt 7.9.9 7.10.0
fake unshare <<<'exit 1'
demo '--cap-add SYS_ADMIN' '!apt-get' '!BUILDS'

# Rust's standard library for another machine: rustup installs it, or the message says what to do.
standard_library() {
    rust 7.10.2 "$here/bin"
    printf '#!/bin/bash\n[ $1 != --print ] || { echo %q/std; exit; }\necho "rustc 7.10.2 (a fake)"\n' "$here" >"$here/bin/rustc"
    (cd "$here/copy" && env -i PATH="$here/bin" HOME="$here/home" bash -c \
        '. scripts/prepare.sh; need_rust; need_rust_std "$1"; install_needed && echo COMPLETE' test "${2-other}") >"$here/output" 2>&1 || true
    grep -q "$1" "$here/output" || { cat "$here/output" && exit 1; }
}
machine 0
standard_library 'lacks the standard library for other: install it from where this Rust is, or install rustup'
machine 0
fake rustup <<<"[ \"\$*\" != 'target add other' ] || { mkdir -p $here/std; : >$here/std/libstd-1.rlib; }"
standard_library COMPLETE
machine 0 # the compiler is Debian's rustc-web: its package for the other architecture is installed, before anything is built
fake dpkg-query <<<'echo "rustc-web: $2"'
fake dpkg <<<''
fake apt-get <<<"case \"\$*\" in *libstd-rust-web-dev:arm64*) mkdir -p $here/std; : >$here/std/libstd-1.rlib ;; esac"
rm -rf "$here/std"
standard_library COMPLETE aarch64-unknown-linux-gnu
grep -qx 'dpkg --add-architecture arm64' "$here/log"

# The demonstration: all of its steps, and no terminal escape codes in the pipe.
mkdir -p "$here/target/release" "$here/target/demo"
ln -s "$program" "$here/target/release/asdf-mount"
ln -s "$program" "$here/target/demo/asdf-mount"
machine 0
cp "$here"/new/* "$here/bin"
printf '#!/bin/bash\necho "cargo 7.10"\n' >"$here/bin/cargo"
rm "$here"/bin/{unshare,cc,fusermount3,getfattr,jq,python3,id}
# The Python with numpy is that of the tests, if --quick has not left it out.
if [ -x .venv/bin/python ]; then
    printf '#!/bin/bash\nexec %q "$@"\n' "$PWD/.venv/bin/python" >"$here/bin/python3"
    chmod +x "$here/bin/python3"
fi
shown=try
! PATH="$here/bin:$PATH" python3 -c 'import numpy' 2>/dev/null || shown='^3208 79 78$'
if ! PATH="$here/bin:$PATH" TMPDIR="$here" CARGO_TARGET_DIR="$here/target" "$here/copy/scripts/demo" 2>&1 | cat >"$here/output" ||
    ! grep -q 'its source is block 9' "$here/output" || ! grep -q '^2.bin is the same' "$here/output" ||
    ! grep -q 'by sed is taken back; another --undo restores it$' "$here/output" || ! grep -q '^object: .*name: Sample Galaxy}' "$here/output" ||
    ! grep -q '^SIMPLE  =' "$here/output" || [ ! -s "$here/target/demo/galaxy.png" ] || ! grep -q 'try next' "$here/output" ||
    ! grep -q "$shown" "$here/output" || grep -q $'\033' "$here/output"; then
    echo "the demonstration is not as it should be:"
    cat -v "$here/output"
    exit 1
fi

# The installation below a prefix, and its removal.
install() {
    PATH="$here/bin:$PATH" CARGO_TARGET_DIR="$here/target" DESTDIR="$here/installed" "$here/copy/scripts/install" "$@"
}
install --prefix /opt/asdf >"$here/output"
installed=$here/installed/opt/asdf
"$installed/bin/asdf-mount" --version >/dev/null
grep -q '/opt/asdf/bin/asdf-mount#' "$here/installed/usr/sbin/mount.fuse.asdf-mount"
grep -q '^Exec=/opt/asdf/libexec/asdf-mount/open' "$installed/share/applications/asdf-mount.desktop"
if grep -rn '/usr/\(bin\|libexec\)/' "$installed/share" "$installed/libexec"; then exit 1; fi
[ "$(find "$installed" -type f | wc -l)" = 9 ]
install --uninstall --prefix /opt/asdf >"$here/output"
left=$(find "$here/installed" -type f)
[ -z "$left" ] || { printf 'not removed:\n%s\n' "$left" && exit 1; }
echo "the scripts do as they should"
