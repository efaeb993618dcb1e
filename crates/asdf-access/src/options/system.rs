//! Options of other FUSE programs and of mount(8) that have no meaning here.

/// The treatment of an option of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SystemOption {
    /// The option is ignored, for this reason.
    Ignored(&'static str),
    /// The mount is refused, with this advice or reason.
    Refused(&'static str),
    /// The mount is refused, because the option is for the kernel; ignored in a remount.
    Kernel,
}

use SystemOption::{Ignored, Kernel, Refused};

/// The options of the system and their treatment.
const TABLE: &[(&[&str], SystemOption)] = &[
    (&["auto_unmount"], Ignored("asdf-mount unmounts when it ends")),
    (&["nonempty"], Ignored("a mount may cover files")),
    (
        &[
            "kernel_cache",
            "auto_cache",
            "noauto_cache",
            "ac_attr_timeout",
            "direct_io",
            "entry_timeout",
            "attr_timeout",
            "negative_timeout",
            "remember",
            "noforget",
            "cache_timeout",
            "writeback_cache",
            "no_writeback_cache",
            "parallel_direct_writes",
            "no_rofd_flush",
        ],
        Ignored("asdf-mount decides for each file what the kernel keeps"),
    ),
    (
        &[
            "big_writes",
            "large_read",
            "max_write",
            "max_readahead",
            "max_background",
            "congestion_threshold",
            "async_read",
            "sync_read",
            "async_dio",
            "splice_read",
            "splice_write",
            "splice_move",
            "no_splice_read",
            "no_splice_write",
            "no_splice_move",
            "clone_fd",
            "max_threads",
            "max_idle_threads",
            "max_pages",
            "auto_inval_data",
            "no_auto_inval_data",
            "explicit_inval_data",
            "readdirplus",
            "no_splice",
            "flock",
            "noflock",
            "posix_lock",
            "noposix_lock",
        ],
        Ignored("asdf-mount chooses its requests and threads"),
    ),
    (
        &[
            "use_ino",
            "readdir_ino",
            "nopath",
            "nullpath_ok",
            "hard_remove",
            "intr",
            "intr_signal",
            "atomic_o_trunc",
            "no_remote_lock",
            "no_remote_flock",
            "no_remote_posix_lock",
            "noappledouble",
            "noapplexattr",
        ],
        Ignored("it has no meaning in asdf-mount"),
    ),
    (
        &["acl", "noacl", "user_xattr", "nouser_xattr"],
        Ignored("ACLs are those of the source, and extended attributes are always on"),
    ),
    (&["_rnetdev", "helper", "uhelper"], Ignored("it is for other programs")),
    (
        &[
            "symfollow",
            "lazytime",
            "nolazytime",
            "iversion",
            "noiversion",
            "silent",
            "loud",
            "mand",
            "nomand",
        ],
        Ignored("it has no meaning for FUSE"),
    ),
    (&["bind", "rbind", "move"], Refused("use mount --bind or mount --move")),
    (&["nosymfollow"], Refused("add it to the mount as root: mount -o remount,bind,nosymfollow MOUNTPOINT")),
    (&["loop", "offset", "sizelimit"], Refused("give the file itself as source")),
    (&["blkdev", "blksize"], Refused("the source is a file or directory, not a device")),
    (&["fd", "rootmode", "user_id", "group_id"], Kernel),
    (
        &["setuid", "drop_privileges"],
        Refused("run asdf-mount as that user, or add uid=N to show files as owned by the user"),
    ),
    (&["fmask", "dmask", "mode"], Refused("umask=OCTAL removes permissions from files and directories")),
    (&["debug"], Refused("add -f -vv to see each request")),
    (
        &["modules", "subdir", "iconv", "from_code", "to_code"],
        Refused("asdf-mount has no modules of libfuse"),
    ),
    (&["writable", "readonly"], Refused("write rw or ro")),
    (
        &["context", "fscontext", "defcontext", "rootcontext"],
        Refused("set the SELinux label of FUSE mounts in the policy (genfscon)"),
    ),
    (&["allow_root"], Refused("allow_other,umask=077 gives access to root and no other user")),
];

/// Returns the treatment of an option, if it is one of the system.
pub(super) fn find(name: &str) -> Option<SystemOption> {
    TABLE.iter().find(|(names, _)| names.contains(&name)).map(|(_, option)| *option)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::names;

    #[test]
    fn none_is_an_option_of_asdf_mount() {
        for name in TABLE.iter().flat_map(|(names, _)| names.iter()) {
            assert!(!names::is_option(name), "{name}");
        }
    }
}
