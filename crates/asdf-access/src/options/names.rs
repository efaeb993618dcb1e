//! The table of options, and suggestions for misspelt names.

use seekable::error::{Error, Result};

use super::usage;

/// A line of the option list in `--help`, the only list of option names.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The options that are shown, separated by `, `. After `=` stands a placeholder for the value in
    /// capitals, or the possible values, separated by `|`.
    pub shown: &'static str,
    /// Options of the line that are not shown, in the same notation.
    hidden: &'static str,
    /// Description of the options.
    pub what: &'static str,
}

const fn row(shown: &'static str, what: &'static str) -> Row {
    Row { shown, hidden: "", what }
}

/// All options, in the order of `--help`.
pub const TABLE: &[Row] = &[
    row("ro, rw", "mount read-only, or writable if the source is [rw]"),
    row(
        "allow_other",
        "let other users access the mount, as far as the mode of the source allows (ordinary users need \
         'user_allow_other' in /etc/fuse.conf)",
    ),
    row("uid=N, gid=N", "owner and group of all files [as in the source]"),
    row("umask=OCTAL", "permission bits to remove from all files [0]"),
    row(
        "cache=SIZE",
        "memory for decoded data, with suffix K, M or G [256M, or an eighth of the memory if that is less]",
    ),
    row(
        "verify=off|first-read|always",
        "check the MD5 of a block on request only (getfattr), during the first read, or before any byte is \
         returned [off]",
    ),
    row(
        "views=NAME,...",
        "what the directory of a file contains besides tree.yaml and blocks/: names such as arrays,fits; \
         all or none [all]",
    ),
    row(
        "external=below|anywhere|http",
        "where the other files may be whose arrays a tree shows: in the directory of the file and below, or \
         anywhere the daemon can read, which requires trust in the tree and is ignored with allow_other; \
         http: also on web servers, and on the server of the tree [below]",
    ),
    row("anonymous", "send no credentials to S3 [signed, if the environment has credentials]"),
    row("requester-pays", "agree to pay for requests to S3 buckets whose owner asks for that"),
    row(
        "token-file=FILE",
        "the token for a web server, alone in a file [$ASDF_MOUNT_TOKEN, else the login of ~/.netrc]",
    ),
    row(
        "ca-bundle=FILE",
        "certificates in PEM of authorities to trust besides the system's, for https [$AWS_CA_BUNDLE, $CURL_CA_BUNDLE]",
    ),
    row(
        "endpoint=URL, region=NAME",
        "server and region of s3:// sources; buckets are part of the path at an endpoint [AWS_ENDPOINT_URL_S3, \
         AWS_ENDPOINT_URL, or endpoint_url of the profile, else AWS; AWS_REGION, or that of the profile, else \
         us-east-1]",
    ),
    row("read-timeout=SECONDS", "the time without an answer after which a request fails [30]"),
    row(
        "remote-cache=DIR,SIZE",
        "directory for data from servers, which later mounts use; at most SIZE bytes, with suffix K, M or G [none; \
         1G]",
    ),
    row(
        "index-cache=on|off",
        "keep seek tables of zlib, bzip2 and zstd blocks between mounts, in the user's cache directory [on]",
    ),
    row(
        "validate=strict|warn|off",
        "refuse to save a tree that Python asdf could no longer open as the same data, warn only, or \
         disable validation [strict]",
    ),
    row(
        "schemas=DIR:...",
        "check each saved tree, and with --check each file, by the schemas and manifests below these directories, such as \
         those of Python packages [none]",
    ),
    row(
        "padding=SIZE",
        "free space to reserve after a tree that has grown, with suffix K, M or G [a tenth of it, at least \
         4K]",
    ),
    row(
        "history=on|off",
        "keep each text that a save replaces in the user's state directory, and show it in \
         .asdf-mount/history/ [on]",
    ),
    row(
        "timeout=SECS",
        "unmount after SECS seconds in which nothing in the mount was open or asked for; an unsaved or refused \
         text keeps it mounted [0: never]",
    ),
    row(
        "remount",
        "with ro or rw: forbid or allow changes in the mount on MOUNTPOINT, as its owner or root: asdf-mount -o \
         remount,ro MOUNTPOINT",
    ),
    row("max_read=N", "largest read request in bytes"),
    row("fsname=NAME", "source to show in df and findmnt [the file's path]"),
    Row {
        shown: "noexec, noatime, nodiratime, relatime, strictatime, sync, dirsync",
        hidden: "exec, atime, diratime, norelatime, nostrictatime, async",
        what: "as in mount(8), and their opposites",
    },
    Row {
        shown: "default_permissions, nosuid, nodev",
        hidden: "suid, dev",
        what: "always on; suid and dev are accepted and have no effect",
    },
    Row {
        shown: "auto, noauto, user, users, owner, group, nofail, defaults, _netdev, comment=TEXT, x-*",
        hidden: "nouser, user=NAME, nousers, noowner, nogroup, subtype=asdf-mount",
        what: "for mount(8) and /etc/fstab; no effect in asdf-mount",
    },
];

/// One option of the table.
#[derive(Clone, Copy, Debug)]
pub struct KnownOption {
    /// The name, as it is written after `-o`.
    pub name: &'static str,
    /// Notation of the option's value, as in [`Row::shown`]; `None` if the option takes no value.
    value: Option<&'static str>,
    /// The effect of the option.
    pub what: &'static str,
}

impl KnownOption {
    /// True if a value follows the name.
    pub fn takes_value(&self) -> bool {
        self.value.is_some()
    }

    /// Returns the possible values that are fixed words.
    pub fn values(&self) -> impl Iterator<Item = &'static str> + use<> {
        let values = self.value.into_iter().flat_map(|value| value.split('|'));
        values.filter(|value| value.starts_with(|c: char| c.is_ascii_lowercase()))
    }
}

/// Iterates over all options by name, except those for other programs (`x-*`).
pub fn all() -> impl Iterator<Item = KnownOption> {
    TABLE.iter().flat_map(|row| {
        let names = row.shown.split(", ").chain(row.hidden.split(", "));
        names.filter(|name| !name.is_empty() && !name.ends_with('*')).map(|option| {
            let (name, value) =
                option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
            KnownOption { name, value, what: row.what }
        })
    })
}

/// Finds an option that was given with or without a value.
pub(super) fn find(name: &str, with_value: bool) -> Result<KnownOption> {
    let mut found = None;
    for known in all().filter(|known| known.name == name) {
        if known.takes_value() == with_value {
            return Ok(known);
        }
        found = Some(known);
    }
    Err(match found {
        Some(known) if known.takes_value() => usage(format!("-o {name} needs a value: {name}=…")),
        Some(_) => usage(format!("-o {name} takes no value")),
        None => unknown(name),
    })
}

/// True for an option for other programs, such as systemd's `x-systemd.automount`.
pub(super) fn is_comment(name: &str) -> bool {
    name.starts_with("x-") || name.starts_with("X-")
}

/// True if there is an option of this name.
pub(super) fn is_option(name: &str) -> bool {
    is_comment(name) || all().any(|known| known.name == name)
}

/// Returns the error for an unknown name.
fn unknown(name: &str) -> Error {
    let nearest = all()
        .map(|known| (strsim::levenshtein(name, known.name), known))
        .min_by_key(|(distance, known)| (*distance, known.name));
    match nearest.filter(|(distance, known)| *distance <= 2 && 2 * *distance < known.name.len()) {
        Some((_, known)) => {
            let equals = if known.takes_value() { "=" } else { "" };
            usage(format!("unknown option -o {name}; did you mean {}{equals}?", known.name))
        }
        None => usage(format!("unknown option -o {name}; asdf-mount --help=all lists all options")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parse, refusal};
    use super::*;

    #[test]
    fn refuses_the_unknown_and_says_what_was_meant() {
        assert_eq!(refusal("alow_other"), "unknown option -o alow_other; did you mean allow_other?");
        assert_eq!(refusal("guid=4"), "unknown option -o guid; did you mean gid=?");
        assert!(refusal("recover").starts_with("unknown option -o recover; "));
        assert!(refusal("RO").contains("unknown"));
        assert!(refusal("ro,=3").contains("without a name"));
    }

    /// Returns every way to write an option: with each of its values, or with one that fits.
    fn written(known: KnownOption) -> Vec<String> {
        let Some(value) = known.value else { return vec![known.name.to_owned()] };
        let fitting = value.split('|').map(|value| match value {
            "N" => "4096",
            "OCTAL" => "022",
            "SECS" => "60",
            "SIZE" => "1G",
            "NAME" | "TEXT" => "a",
            "NAME,..." => "arrays,fits",
            "FILE" => "/etc/a.pem",
            "URL" => "http://localhost:9000",
            "SECONDS" => "7",
            "DIR,SIZE" => "/var/cache/a,2G",
            "DIR:..." => "/a:/b",
            word => word,
        });
        fitting.map(|value| format!("{}={value}", known.name)).collect()
    }

    #[test]
    fn every_option_of_the_table_has_its_effect() {
        let all: Vec<_> =
            all().flat_map(|known| written(known).into_iter().map(move |item| (known, item))).collect();
        assert!(all.len() > 50);
        for (known, item) in &all {
            let alone = parse(item).unwrap();
            let changes = all
                .iter()
                .any(|(_, before)| parse(&format!("{before},{item}")).unwrap() != parse(before).unwrap());
            let has_none = known.what.contains("no effect");
            assert_eq!(changes, !has_none, "{item}");
            assert!(!has_none || alone == parse("").unwrap(), "{item}");
        }
    }

    #[test]
    fn a_name_stands_once_in_the_table() {
        let mut names: Vec<_> = all().map(|known| (known.name, known.takes_value())).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_value_that_is_missing_or_too_much_is_told() {
        assert_eq!(refusal("cache"), "-o cache needs a value: cache=…");
        assert_eq!(refusal("ro=1"), "-o ro takes no value");
        assert_eq!(refusal("verify=maybe"), "-o verify=maybe is not off, first-read or always");
    }
}
