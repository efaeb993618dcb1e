//! The names of the options: as `--help` shows them, and what a misspelt one was meant to be.

use super::usage;
use crate::error::Error;

/// The options as `--help` shows them: name with its value, and what it does.
pub const TABLE: &[(&str, &str)] = &[
    ("ro, rw", "read-only, or writable as far as the source is [rw]"),
    (
        "allow_other",
        "let other users in, as far as mode and ACL of the source let them (an ordinary user needs 'user_allow_other' in /etc/fuse.conf)",
    ),
    ("uid=N, gid=N", "owner and group of all files [those of the source]"),
    ("umask=OCTAL", "permission bits that no file has [0]"),
    (
        "cache=SIZE",
        "memory for decoded data, with K, M or G [256M, or an eighth of the memory if that is less]",
    ),
    (
        "spill=DIR|off",
        "where a zstd block of one frame is put aside, decoded, that is larger than cache= and has no seek table, or a coarse one [$TMPDIR, or /var/tmp]",
    ),
    (
        "verify=off|first-read|always",
        "check the MD5 of a block when asked (getfattr) only, beside its first readers, or before a byte of it is given [off]",
    ),
    (
        "index-cache=on|off",
        "keep the seek tables of zlib, bzip2 and zstd blocks for the next mount, in the user's cache directory [on]",
    ),
    (
        "validate=strict|warn|off",
        "refuse a tree that Python asdf could no longer open as the same data, only warn, or do not look [strict]",
    ),
    ("padding=SIZE", "room left behind a tree that has grown, with K, M or G [a tenth of it, at least 4K]"),
    ("max_read=N", "largest read request in bytes"),
    ("fsname=NAME", "what df and findmnt show as the source [the file's path]"),
    (
        "noexec, noatime, nodiratime, relatime, strictatime, sync, dirsync",
        "as in mount(8), and their opposites",
    ),
    ("default_permissions, nosuid, nodev", "always on; suid and dev are taken and have no effect"),
    (
        "auto, noauto, user, users, owner, group, nofail, defaults, _netdev, comment=, x-*",
        "for mount(8) and /etc/fstab; no effect here",
    ),
];

/// Every option without a value and every `name=`, for telling what a misspelt one was meant to be.
pub(crate) const NAMES: &[&str] = &[
    "ro",
    "rw",
    "allow_other",
    "allow_root",
    "default_permissions",
    "uid=",
    "gid=",
    "umask=",
    "fsname=",
    "subtype=",
    "cache=",
    "index-cache=",
    "verify=",
    "spill=",
    "validate=",
    "padding=",
    "max_read=",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "exec",
    "noexec",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "diratime",
    "nodiratime",
    "sync",
    "async",
    "dirsync",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "nofail",
    "defaults",
    "_netdev",
    "comment=",
];

/// Whether an option is one that only others read, as systemd reads `x-systemd.automount`.
pub(super) fn is_comment(name: &str) -> bool {
    name.starts_with("x-") || name.starts_with("X-")
}

/// The error of a name that is none of them.
pub(super) fn unknown(name: &str) -> Error {
    let nearest = NAMES
        .iter()
        .map(|known| (distance(name, known.trim_end_matches('=')), known))
        .min()
        .filter(|(distance, known)| *distance <= 2 && *distance < known.len() / 2);
    match nearest {
        Some((_, known)) => usage(format!("unknown option -o {name}; did you mean {known}?")),
        None => usage(format!("unknown option -o {name}; asdf-mount --help lists those it takes")),
    }
}

/// Counts the letters to insert, drop or change to get from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (above, left) in from.chars().zip(1..) {
        let mut next = vec![left];
        let mut best = left;
        for (window, &letter) in row.windows(2).zip(&to) {
            best = (window[0] + usize::from(above != letter)).min(window[1] + 1).min(best + 1);
            next.push(best);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{parse, refusal};
    use super::*;

    #[test]
    fn refuses_the_unknown_and_says_what_was_meant() {
        assert_eq!(refusal("alow_other"), "unknown option -o alow_other; did you mean allow_other?");
        assert_eq!(refusal("guid=4"), "unknown option -o guid; did you mean gid=?");
        assert!(refusal("remount").starts_with("unknown option -o remount; "));
        assert!(refusal("RO").contains("unknown"));
        assert!(refusal("=3").contains("unknown"));
    }

    #[test]
    fn every_option_of_the_table_is_taken() {
        for (names, _) in TABLE {
            for name in names.split(", ") {
                let name = name
                    .replace("=N", "=4096")
                    .replace("=OCTAL", "=022")
                    .replace("=SIZE", "=1G")
                    .replace("=on|off", "=on")
                    .replace("=strict|warn|off", "=warn")
                    .replace("=off|first-read|always", "=first-read")
                    .replace("=DIR|off", "=/tmp");
                let name = name.replace("=NAME", "=a").replace("x-*", "x-a");
                parse(&name).unwrap();
            }
        }
    }

    proptest! {
        #[test]
        fn the_distance_is_symmetric_and_zero_only_for_equals(a in "[ab]{0,6}", b in "[ab]{0,6}") {
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
            prop_assert_eq!(distance(&a, &b) == 0, a == b);
        }
    }
}
