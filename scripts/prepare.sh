# Requirements of the other scripts, which source this file.
#
# Each need_… only records missing requirements. install_needed then installs all of them, or prints what to do,
# so that nothing is built until all requirements are met.

missing=()    # Debian packages
problems=()   # problems that this script can't solve, one line each
rust_wanted=  # set by need_rust
rust_tools=() # the required subcommands of cargo
rust_std=()   # the other machines for which Rust's standard library is required
rust_version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# The version that rustup installs. A newer one may have new lints.
rust_tested=1.95.0

may_be_root() {
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null
}

# Runs a command as root: directly, or through sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# True if a command, or a file given by path, exists. Root's commands may be outside an ordinary user's PATH.
is_there() {
    case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ] ;;
    esac
}

# need_packages COMMAND=PACKAGE…: records the Debian packages of missing commands.
need_packages() {
    local pair
    for pair in "$@"; do
        [[ " ${missing[*]-} " == *" ${pair#*=} "* ]] || is_there "${pair%%=*}" || missing+=("${pair#*=}")
    done
}

# A C compiler and linker, which crates also need.
need_cc() {
    need_packages cc=gcc /usr/include/stdio.h=libc6-dev
}

# Python with the modules that make_venv needs.
need_python() {
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3 python3-venv)
}

# need_rust [SUBCOMMAND…]: the version of Rust that Cargo.toml requires, with these subcommands of cargo (fmt, clippy).
need_rust() {
    rust_wanted=1
    rust_tools=("$@")
    # Cargo fetches crates over HTTPS; Debian's cargo does not depend on the certificates.
    need_packages update-ca-certificates=ca-certificates
}

# need_rust_std TARGET…: Rust's standard library for other machines, to check that the program compiles for them.
need_rust_std() {
    rust_std=("$@")
}

# FUSE in the kernel, and without root the requirements of fusermount3.
need_fuse() {
    [ -e /dev/fuse ] || ! may_be_root || as_root modprobe fuse 2>/dev/null || true
    if [ ! -e /dev/fuse ]; then
        problems+=("there is no /dev/fuse: load the kernel module (as root: modprobe fuse), or start the container with --device /dev/fuse --cap-add SYS_ADMIN")
    elif [ "$(id -u)" = 0 ]; then
        # In a chroot whose / is no mountpoint, the propagation of / can't be changed.
        unshare --mount --propagation unchanged true 2>/dev/null ||
            problems+=("root may not mount here: start the container with --device /dev/fuse --cap-add SYS_ADMIN")
    else
        [ -r /dev/fuse ] && [ -w /dev/fuse ] || problems+=("run as root: chmod 666 /dev/fuse")
        [ -e /etc/mtab ] || problems+=("run as root: ln -s /proc/self/mounts /etc/mtab")
    fi
}

# The tests need root and loop devices.
need_root_and_loops() {
    if [ "$(id -u)" != 0 ]; then
        problems+=("the tests mount file systems of their own: run $0 as root")
    elif [ ! -e /etc/mtab ]; then
        # fusermount3 reads it. An installed system has it, but a new debootstrap directory does not.
        ln -s /proc/self/mounts /etc/mtab
    fi
    [ -e /dev/loop-control ] || problems+=("there is no /dev/loop-control: load the kernel module (as root: modprobe loop), or start the container with --privileged -v /dev:/dev")
}

# is_new_enough WANTED VERSION: true if VERSION is at least WANTED.
is_new_enough() {
    [ -n "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

# Prints the reason why the Rust in PATH is insufficient, or nothing.
rust_lacks() {
    local tool version
    for tool in rustc cargo; do
        version=$("$tool" --version 2>/dev/null | cut -d ' ' -f 2) || true
        [ -n "$version" ] || { echo "no $tool is here" && return; }
        is_new_enough "$rust_version" "$version" || { echo "$(command -v "$tool") is $version" && return; }
    done
    for tool in "${rust_tools[@]}"; do
        cargo "$tool" --version >/dev/null 2>&1 || { echo "no cargo $tool is here" && return; }
    done
}

# True if Rust is sufficient, in PATH or in rustup's directory, which is then added to PATH.
rust_is_there() {
    local path=$PATH
    [ -n "$(rust_lacks)" ] || return 0
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$path"
    [ -n "$(rust_lacks)" ] || return 0
    PATH=$path
    return 1
}

# candidate PACKAGE [OPTION…]: prints the version that apt would install, up to the first letter.
candidate() {
    LC_ALL=C apt-cache policy "$@" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p'
}

# Prints the Debian packages of the standard libraries that need_rust_std recorded, and that the compiler lacks.
# KIND is the suffix of the compiler's package: nothing, or -web.
rust_std_packages() {
    local kind=$1 target
    for target in "${rust_std[@]}"; do
        ! has_rust_std "$target" || continue
        case $target in
        aarch64-*) echo "libstd-rust$kind-dev:arm64" ;;
        x86_64-*) echo "libstd-rust$kind-dev:amd64" ;;
        esac
    done
}

# Prints the Debian packages that bring a Rust that is new enough, one per line; nothing if apt has none. Rustup is
# preferred: Debian's compiler takes 1.7 times as long as its. `rust_packages debian` prints the compiler.
rust_packages() {
    local kind version lists options=()
    is_there apt-get || return 0
    # Container images have no package lists; without root, apt can download them into a private directory.
    if [ -z "$(candidate cargo)" ] && lists=$(mktemp -d); then
        options=(-o "Dir::State::Lists=$lists/lists" -o "Dir::Cache=$lists/cache")
        mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial"
        apt-get -qq "${options[@]}" update >&2 || true
    fi
    if [ "${1-}" != debian ] && [ -n "$(candidate rustup "${options[@]}")" ]; then
        echo rustup
    else
        for kind in '' -web; do
            version=$(candidate "cargo$kind" "${options[@]}")
            if is_new_enough "$rust_version" "$version"; then
                printf '%s\n' "rustc$kind" "cargo$kind"
                [ ${#rust_tools[@]} = 0 ] || printf '%s\n' "rustfmt$kind" "rust$kind-clippy"
                rust_std_packages "$kind"
                break
            fi
        done
    fi
    [ ${#options[@]} = 0 ] || rm -rf "$lists"
}

# Installs Rust with rustup, which needs no root.
rust_by_rustup() {
    if command -v rustup >/dev/null; then
        echo "installing Rust: rustup toolchain install $rust_tested"
        rustup toolchain install "$rust_tested" --no-self-update --profile minimal \
            --component rustfmt --component clippy || return 1
        export RUSTUP_TOOLCHAIN=$rust_tested
    elif command -v curl >/dev/null; then
        echo "installing Rust with rustup into ${CARGO_HOME:-$HOME/.cargo}"
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | RUSTUP_INIT_SKIP_PATH_CHECK=yes \
            sh -s -- -y -q --no-modify-path --default-toolchain "$rust_tested" --profile minimal \
            --component rustfmt,clippy || return 1
    fi
    rust_is_there
}

# True if the compiler in PATH has the standard library for a machine.
has_rust_std() {
    is_there rustc && compgen -G "$(rustc --print target-libdir --target "$1")/libstd-*.rlib" >/dev/null
}

# Records how the standard libraries are installed that the compiler in PATH lacks: as packages if the compiler is
# Debian's, else as a problem. Rustup installs them later.
plan_rust_std() {
    local target compiler kind packages=()
    ! is_there rustup || return 0
    compiler=$(command -v rustc)
    if is_there dpkg-query && kind=$(dpkg-query -S "$(realpath "$compiler")" 2>/dev/null); then
        kind=${kind%%:*}
        mapfile -t packages < <(rust_std_packages "${kind#rustc}")
        missing+=("${packages[@]}")
        return
    fi
    for target in "${rust_std[@]}"; do
        has_rust_std "$target" ||
            problems+=("$compiler lacks the standard library for $target: install it from where this Rust is, or install rustup")
    done
}

# Installs the missing standard libraries with rustup, or records what to do.
install_rust_std() {
    local target
    for target in "${rust_std[@]}"; do
        has_rust_std "$target" && continue
        if is_there rustup; then
            echo "installing Rust's standard library: rustup target add $target"
            rustup target add "$target" || true
        fi
        has_rust_std "$target" ||
            problems+=("$(command -v rustc) lacks the standard library for $target, which could not be installed")
    done
}

# Installs the missing Debian packages, or records the command that root has to run.
install_packages() {
    local install=(apt-get install -y --no-install-recommends "${missing[@]}") package architecture foreign=
    for package in "${missing[@]}"; do
        architecture=${package#"${package%%:*}"}
        architecture=${architecture#:}
        [ -z "$architecture" ] || dpkg --print-foreign-architectures | grep -qx "$architecture" || foreign=$architecture
    done
    if ! is_there apt-get; then
        problems+=("install what these Debian packages hold: ${missing[*]}")
    elif ! may_be_root; then
        problems+=("run as root: ${foreign:+dpkg --add-architecture $foreign && }apt-get update && ${install[*]}")
    else
        echo "installing ${missing[*]}"
        if [ -n "$foreign" ]; then
            as_root dpkg --add-architecture "$foreign"
            as_root apt-get -qq update || true
        fi
        as_root env DEBIAN_FRONTEND=noninteractive "${install[@]}" -qq -o DPkg::Lock::Timeout=60 >/dev/null ||
            problems+=("this failed, the reason is above: ${install[*]}")
    fi
}

# Prints all problems and fails; returns if there are none.
say_problems() {
    [ ${#problems[@]} != 0 ] || return 0
    printf '%s: nothing was built. What to do:\n' "$0" >&2
    printf '  - %s\n' "${problems[@]}" >&2
    return 1
}

# Installs everything recorded, or prints what to do and fails.
install_needed() {
    local rust= has_rustup= packages=()
    # If other problems remain, nothing is installed.
    ! may_be_root || say_problems || return 1
    if [ -n "$rust_wanted" ] && ! rust_is_there; then
        rust="Rust $rust_version or newer is needed, and $(rust_lacks)"
        ! is_there rustup || has_rustup=1
    elif [ ${#rust_std[@]} != 0 ]; then
        plan_rust_std
        ! may_be_root || say_problems || return 1
    fi
    if [ -n "$rust${missing[*]}" ] && is_there apt-get && may_be_root; then
        as_root apt-get -qq update || true
    fi
    # Debian's Rust conflicts with Debian's rustup, so if rustup is installed, it is used.
    if [ -n "$rust" ] && [ -z "$has_rustup" ]; then
        mapfile -t packages < <(rust_packages)
        [ ${#packages[@]} != 0 ] || ! is_there apt-get || need_packages curl=curl
        # Without root, rustup is tried first if nothing but Rust is missing.
        if may_be_root || [ ${#missing[@]} != 0 ]; then missing+=("${packages[@]}"); fi
    fi
    [ ${#missing[@]} = 0 ] || install_packages
    if [ -n "$rust" ] && [ ${#problems[@]} = 0 ] && ! rust_is_there && ! rust_by_rustup; then
        # Rustup's servers can't be reached: Debian's Rust takes the place of Debian's rustup.
        missing=()
        [ -n "$has_rustup" ] || mapfile -t missing < <(rust_packages debian)
        if [ ${#missing[@]} != 0 ]; then
            install_packages
        elif is_there apt-get && [ -z "$has_rustup" ]; then
            problems+=("$rust; apt has no version that is new enough: install it as https://rustup.rs says")
        else
            problems+=("$rust: install it from your distribution, or as https://rustup.rs says")
        fi
    fi
    [ ${#problems[@]} != 0 ] || install_rust_std
    say_problems
}

# install_tool NAME[@VERSION]: adds a program from crates.io to PATH, installed in the cache unless it is here.
install_tool() {
    local tools=${XDG_CACHE_HOME:-$HOME/.cache}/asdf-mount/tools
    PATH="$PATH:$tools/bin"
    if ! command -v "${1%@*}" >/dev/null; then
        echo "installing $1 into $tools"
        cargo install -q "$1" --locked --root "$tools"
    fi
}

# make_venv FOLDER REQUIREMENTS: makes a virtual environment, unless one with the same requirements exists.
make_venv() {
    local folder=$1 requirements=$2 mark
    mark=$(sha256sum "$requirements" | cut -d' ' -f1)
    if [ -x "$folder/bin/python" ] && [ "$(cat "$folder/requirements.sha256" 2>/dev/null)" = "$mark" ]; then
        return 0
    fi
    echo "making $folder with $requirements"
    rm -rf "$folder"
    python3 -m venv "$folder"
    # Python compiles what is imported; pip would compile all, which takes as long as the download.
    "$folder/bin/python" -m pip install -q --no-compile --disable-pip-version-check -r "$requirements"
    echo "$mark" >"$folder/requirements.sha256"
}
