# Clean installations of Debian for scripts/test-in and scripts/test-package, which source this file.

# install_debian SUITE DIRECTORY: installs a minimal Debian, unless it is there already.
install_debian() {
    local suite=$1 debian=$2
    if [ ! -e "$debian/etc/debian_version" ]; then
        debootstrap --variant=minbase "$suite" "$debian"
        # Like an installed Debian, take updates from the mirror that debootstrap chose.
        sed -nE "s|^(deb [^ ]+)/debian/? $suite .*|&\n\1/debian $suite-updates main\n\1/debian-security $suite-security main|p" \
            "$debian/etc/apt/sources.list" >"$debian/etc/apt/sources.list.new"
        mv "$debian/etc/apt/sources.list.new" "$debian/etc/apt/sources.list"
    fi
    # Debian's installer writes this file.
    [ -e "$debian/etc/hosts" ] || printf '127.0.0.1 localhost\n::1 localhost\n' >"$debian/etc/hosts"
    # Copy the certificates that this machine trusts in addition to Debian's.
    [ ! -d /usr/local/share/ca-certificates ] || cp -r /usr/local/share/ca-certificates "$debian/usr/local/share"
}

# in_debian DIRECTORY FOLDER COMMAND…: runs a command in an installation, in this folder of it.
in_debian() {
    local debian=$1 environment name
    shift
    # Of the environment, only settings of the network, the fuzzing time and cargo profiles are passed on.
    environment=("HOME=/root" "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "TERM=${TERM:-dumb}")
    for name in $(compgen -e); do
        case $name in
        *_proxy | *_PROXY | SSL_CERT_* | PIP_* | FUZZ_SECONDS | CARGO_PROFILE_*) environment+=("$name=${!name}") ;;
        esac
    done
    # Make it the root of a mount namespace, because in a chroot the kernel refuses user namespaces.
    local enter='
set -e
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind /sys sys
pivot_root . mnt
cd "$1"
shift
umount -l /mnt
# Bash stays, and reaps what daemons leave.
"$@" || exit
'
    unshare --mount --pid --fork --kill-child env -i "${environment[@]}" bash -c "$enter" "$debian" "$@"
}
