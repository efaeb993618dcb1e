# What the other scripts need on a machine, installed when missing. To be sourced.

# Runs a command as root: directly, or through sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "not root, and there is no sudo; run as root: $*" >&2
        return 1
    fi
}

# need_packages COMMAND=PACKAGE…: installs the Debian packages whose commands are missing.
need_packages() {
    local missing=() pair
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || [ -x "/sbin/${pair%%=*}" ] || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        echo "please install what these Debian packages hold: ${missing[*]}" >&2
        return 1
    fi
    echo "installing ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# Makes cargo available; Debian's own may be older than the crate needs, so it comes from rustup.
need_rust() {
    command -v cargo >/dev/null || PATH="$HOME/.cargo/bin:$PATH"
    command -v cargo >/dev/null && return 0
    need_packages curl=curl update-ca-certificates=ca-certificates
    echo "installing Rust with rustup"
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
        sh -s -- -y -q --no-modify-path --profile minimal --component rustfmt,clippy
}

# Says what to do where the kernel's side of FUSE is missing.
need_fuse() {
    [ -e /dev/fuse ] || as_root modprobe fuse 2>/dev/null || true
    if [ ! -e /dev/fuse ]; then
        echo "there is no /dev/fuse: load the kernel module (modprobe fuse), or start the container" \
            "with --device /dev/fuse --cap-add SYS_ADMIN" >&2
        return 1
    fi
}

# need_venv FOLDER REQUIREMENTS: a virtual environment, kept as long as the requirements stay the same.
need_venv() {
    local folder=$1 requirements=$2 mark
    mark=$(sha256sum "$requirements" | cut -d' ' -f1)
    if [ -x "$folder/bin/python" ] && [ "$(cat "$folder/requirements.sha256" 2>/dev/null)" = "$mark" ]; then
        return 0
    fi
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        need_packages no-such-command=python3-venv
    fi
    echo "making $folder with $requirements"
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/python" -m pip install -q --disable-pip-version-check -r "$requirements"
    echo "$mark" >"$folder/requirements.sha256"
}
