//! The options after `-o`: those of mount(8), mount.fuse(8) and /etc/fstab, and our own.
//!
//! A later option overrides an earlier one. An unknown option is an error: if a misspelt `allow_other` were
//! ignored, other users would not see the mount.

mod list;
mod names;
// Compiled for tests, too, as scripts/test builds with servers only.
#[cfg(all(test, feature = "remote"))]
#[allow(dead_code, unreachable_pub)] // for the build without servers
mod no_servers;
#[cfg_attr(not(feature = "remote"), path = "options/no_servers.rs")]
mod servers;
pub mod shown;
mod system;
mod values;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use asdf_file::edit::context::{EditOptions, Validation};
use asdf_tree::schema::Schemas;
use asdf_views::format::view_names;
use list::{ListedOption, split};
pub use names::{KnownOption, all};
pub use names::{Row, TABLE};
use names::{find, is_comment, is_option};
use seekable::error::{Error, Kind, Result, one_of};
pub use servers::RemoteOptions;
pub use shown::ShownViews;
use system::SystemOption;
use values::{number, size, text};

/// The type of our mounts in mount(8) and /proc/self/mountinfo.
pub const FILE_SYSTEM_TYPE: &str = "fuse.asdf-mount";

/// The part of [`FILE_SYSTEM_TYPE`] after `fuse.`, which is also the program's name.
pub const SUBTYPE: &str = "asdf-mount";

/// The extended attribute of a mount's root that holds the process number of its daemon, in decimal.
pub(crate) const PID_ATTRIBUTE: &str = "user.asdf-mount.pid";

/// The file system type of all FUSE mounts in statfs.
pub const FUSE_SUPER_MAGIC: u64 = 0x6573_5546;

/// The names of the options for sources on servers.
pub const REMOTE: [&str; 8] = [
    "anonymous",
    "ca-bundle",
    "endpoint",
    "region",
    "read-timeout",
    "remote-cache",
    "requester-pays",
    "token-file",
];

/// The refusal of an address, and of an option for servers, in a build without the feature `remote`.
#[cfg(any(test, not(feature = "remote")))]
pub(crate) const NO_SERVERS: &str = "this program was built without servers (the feature `remote`); \
                                      scripts/install builds one that reads them";

/// Maximum of `padding=` in bytes.
const MAX_PADDING: u64 = 1 << 30;

/// Minimum of `cache=` in bytes. With a smaller cache, each granule would be decoded twice for a program that
/// reads half a granule at a time.
pub(crate) const MIN_CACHE: u64 = 1 << 20;

/// Minimum of `max_read=`: one page.
const MIN_MAX_READ: u32 = 4096;

/// The policy for updating the access time of a file on read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTime {
    /// The kernel's default.
    #[default]
    Default,
    /// `relatime`
    Relative,
    /// `strictatime`
    Strict,
    /// `noatime`
    Never,
}

/// The time at which the checksum of a block is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Only on request, by the attribute `user.asdf.verified`.
    #[default]
    Off,
    /// In the background, from the first read of the block on.
    FirstRead,
    /// Before any byte of the block is returned.
    Always,
}

/// The parsed options after `-o`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `uid=`: the owner of all files; the source's owner otherwise.
    pub uid: Option<u32>,
    /// `gid=`: the group of all files; the source's otherwise.
    pub gid: Option<u32>,
    /// `umask=`: permission bits to remove from all files (octal, at most 0777).
    pub umask: Option<u32>,
    /// `allow_other`: users other than the mount's owner have access, as far as mode and ACL allow.
    pub allow_other: bool,
    /// `fsname=`: the source that df and findmnt show; the file's path otherwise.
    pub fsname: Option<OsString>,
    /// `max_read=`: the largest read request that the kernel sends, in bytes.
    pub max_read: Option<u32>,
    /// `cache=`: bytes of decoded data to hold in memory; depends on the machine's memory otherwise.
    pub cache: Option<u64>,
    /// `verify=`: when the MD5 of blocks is checked.
    pub verify: Verify,
    /// `views=`: the views in the directory of a file besides `tree.yaml` and `blocks/`.
    pub views: ShownViews,
    /// `external=anywhere`: files that a tree refers to may be outside of the file's directory.
    pub external_anywhere: bool,
    /// The options for sources on servers.
    pub remote: RemoteOptions,
    /// `index-cache=`: true if seek tables are kept between mounts.
    pub index_cache: bool,
    /// `history=`: true if replaced texts are kept and shown.
    pub history: bool,
    /// `validate=` and `padding=`: how an edited tree is validated and saved.
    pub edit: EditOptions,
    /// `schemas=`: the directories with the schemas that trees must fit, separated by colons.
    pub schemas: Vec<PathBuf>,
    /// `ro`: the mount is read-only; otherwise it is writable if the source is.
    pub read_only: bool,
    /// `timeout=`: the mount ends after this many seconds without a request.
    pub timeout: Option<u32>,
    /// `remount`: the arguments name an existing mount, which `ro` or `rw` changes.
    pub remount: bool,
    /// `noexec`
    pub no_exec: bool,
    /// `sync`
    pub synchronous: bool,
    /// `dirsync`
    pub synchronous_directories: bool,
    /// `nodiratime`
    pub no_directory_access_time: bool,
    /// `atime`, `noatime`, `relatime`, `strictatime`
    pub access_time: AccessTime,
    /// The ignored options, and why, a line each.
    pub notes: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            uid: None,
            gid: None,
            umask: None,
            allow_other: false,
            fsname: None,
            max_read: None,
            cache: None,
            verify: Verify::Off,
            views: ShownViews::default(),
            external_anywhere: false,
            remote: RemoteOptions::default(),
            index_cache: true,
            history: true,
            edit: EditOptions::default(),
            schemas: Vec::new(),
            read_only: false,
            timeout: None,
            remount: false,
            no_exec: false,
            synchronous: false,
            synchronous_directories: false,
            no_directory_access_time: false,
            access_time: AccessTime::Default,
            notes: Vec::new(),
        }
    }
}

/// Splits a list of directories, which are separated by colons.
pub fn directories(list: &OsStr) -> Vec<PathBuf> {
    let names = list.as_bytes().split(|byte| *byte == b':').filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect()
}

impl Options {
    /// Parses the lists given after each `-o`, in order.
    ///
    /// # Errors
    /// [`Kind::Usage`], with the name of the option.
    pub fn parse<'a>(lists: impl IntoIterator<Item = &'a OsString>) -> Result<Self> {
        let mut options = Self::default();
        let lists = lists.into_iter().map(|list| split(list.as_bytes())).collect::<Result<Vec<_>>>()?;
        options.remount = lists.iter().flatten().any(|item| item.name == "remount");
        for list in lists {
            // The names of views are separated by commas, as options are, and so are the parts of remote-cache.
            let mut in_views = false;
            let mut in_cache = false;
            for item in list {
                if in_views && item.value.is_none() {
                    if options.views.add(&item.name) {
                        continue;
                    }
                    if !is_option(&item.name) {
                        return Err(no_view(item.name.as_bytes()));
                    }
                }
                let is_size =
                    in_cache && item.value.is_none() && item.name.starts_with(|c: char| c.is_ascii_digit());
                if is_size {
                    servers::take_cache_size(&mut options.remote, item.name.as_bytes())?;
                } else {
                    options.set(&item)?;
                }
                (in_views, in_cache) = (item.name == "views", item.name == "remote-cache");
            }
        }
        Ok(options)
    }

    /// Reads the schemas of `schemas=`; `None` without it.
    ///
    /// # Errors
    /// The schemas can't be read, or there are none.
    pub fn read_schemas(&self) -> Result<Option<Arc<Schemas>>> {
        if self.schemas.is_empty() { Ok(None) } else { Schemas::read(&self.schemas).map(Arc::new).map(Some) }
    }

    fn set(&mut self, item: &ListedOption) -> Result<()> {
        if is_comment(&item.name) {
            return Ok(());
        }
        match system::find(&item.name) {
            Some(SystemOption::Ignored(why)) => {
                let note = format!("-o {} has no effect: {why}", item.name);
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
                return Ok(());
            }
            // For a remount, mount(8) passes all options of the existing mount.
            Some(SystemOption::Kernel) if self.remount => return Ok(()),
            Some(SystemOption::Kernel) => {
                let message = format!("-o {} is not supported; it is set by asdf-mount itself", item.name);
                return Err(usage(message));
            }
            Some(SystemOption::Refused(instead)) => {
                return Err(usage(format!("-o {} is not supported; {instead}", item.name)));
            }
            None => {}
        }
        if item.name.is_empty() {
            return Err(usage("-o has a value without a name, such as '=x'; write NAME=VALUE"));
        }
        let known = find(&item.name, item.value.is_some())?;
        match item.value.as_deref() {
            Some(value) if REMOTE.contains(&known.name) => servers::set(&mut self.remote, known.name, value),
            Some(value) => self.take_value(known, value),
            None => {
                self.take_flag(known.name);
                Ok(())
            }
        }
    }

    fn take_flag(&mut self, name: &str) {
        match name {
            "allow_other" => self.allow_other = true,
            "noexec" => self.no_exec = true,
            "exec" => self.no_exec = false,
            "sync" => self.synchronous = true,
            "async" => self.synchronous = false,
            "dirsync" => self.synchronous_directories = true,
            "nodiratime" => self.no_directory_access_time = true,
            "diratime" => self.no_directory_access_time = false,
            "noatime" => self.access_time = AccessTime::Never,
            "relatime" => self.access_time = AccessTime::Relative,
            "strictatime" => self.access_time = AccessTime::Strict,
            "atime" | "norelatime" | "nostrictatime" => self.access_time = AccessTime::Default,
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "anonymous" => self.remote.anonymous = true,
            "requester-pays" => self.remote.requester_pays = true,
            // All other options are for other programs, or always on. mount.fuse(8) adds dev,suid for root,
            // which have no effect in the mount.
            _ => {}
        }
    }

    /// Takes an option with one of a few words as its value.
    fn take_choice(&mut self, known: KnownOption, value: &[u8]) -> Result<()> {
        let name = known.name;
        let other = || Err(bad(name, value, &one_of(&known.values().collect::<Vec<_>>())));
        match name {
            "verify" => match value {
                b"off" => self.verify = Verify::Off,
                b"first-read" => self.verify = Verify::FirstRead,
                b"always" => self.verify = Verify::Always,
                _ => return other(),
            },
            "external" => match value {
                b"below" => (self.external_anywhere, self.remote.follow) = (false, false),
                b"http" => self.remote.follow = true,
                b"anywhere" => self.external_anywhere = true,
                _ => return other(),
            },
            "index-cache" | "history" => {
                let switch = if name == "history" { &mut self.history } else { &mut self.index_cache };
                match value {
                    b"on" => *switch = true,
                    b"off" => *switch = false,
                    _ => return other(),
                }
            }
            "validate" => match value {
                b"strict" => self.edit.validation = Validation::Strict,
                b"warn" => self.edit.validation = Validation::Warn,
                b"off" => self.edit.validation = Validation::Off,
                _ => return other(),
            },
            _ => {}
        }
        Ok(())
    }

    fn take_value(&mut self, known: KnownOption, value: &[u8]) -> Result<()> {
        let name = known.name;
        match name {
            "uid" => self.uid = Some(number(name, value, 10, "a user number")?),
            "gid" => self.gid = Some(number(name, value, 10, "a group number")?),
            "umask" => {
                let bits = number(name, value, 8, "an octal number up to 777")?;
                if bits > 0o777 {
                    return Err(bad(name, value, "an octal number up to 777"));
                }
                self.umask = Some(bits);
            }
            "max_read" => {
                let bytes = number(name, value, 10, "a number of bytes")?;
                if bytes < MIN_MAX_READ {
                    return Err(bad(name, value, "at least 4096"));
                }
                self.max_read = Some(bytes);
            }
            "timeout" => {
                let seconds = number(name, value, 10, "a number of seconds")?;
                self.timeout = (seconds > 0).then_some(seconds);
            }
            "cache" => {
                let bytes = size(value).filter(|bytes| *bytes >= MIN_CACHE);
                self.cache =
                    Some(bytes.ok_or_else(|| bad(name, value, "a size such as 64M or 1G, at least 1M"))?);
            }
            "padding" => {
                let padding = size(value).filter(|size| *size <= MAX_PADDING);
                self.edit.padding =
                    Some(padding.ok_or_else(|| bad(name, value, "a size such as 64K, at most 1G"))?);
            }
            "views" => self.views = views(value)?,
            "verify" | "external" | "index-cache" | "history" | "validate" => {
                return self.take_choice(known, value);
            }
            "schemas" => self.schemas = directories(OsStr::from_bytes(value)),
            "fsname" => self.fsname = Some(text(name, value, "a name")?),
            "subtype" if value != SUBTYPE.as_bytes() => {
                return Err(usage(format!(
                    "-o subtype can only be {SUBTYPE}, by which 'asdf-mount -u' and mount(8) recognise the mount"
                )));
            }
            // All other options are for other programs.
            _ => {}
        }
        Ok(())
    }
}

/// Refuses options that have no meaning for an action, and names the first of them.
///
/// # Errors
/// [`Kind::Usage`].
pub fn refuse_others(lists: &[OsString], accepted: &[&str], action: &str) -> Result<()> {
    for list in lists {
        for item in split(list.as_bytes())? {
            let name = item.name.as_str();
            // Names of views, and misspelt names, are left to the parser, whose message suggests a name.
            if (is_option(name) || system::find(name).is_some()) && !accepted.contains(&name) {
                let accepted = accepted.join(", ");
                return Err(usage(format!(
                    "-o {name} has no meaning with {action}, which accepts the options {accepted}"
                )));
            }
        }
    }
    Ok(())
}

/// The variable with options for every mount and action that accepts them, separated by commas.
pub const VARIABLE: &str = "ASDF_MOUNT_OPTIONS";

/// Returns the options in `$ASDF_MOUNT_OPTIONS` that are in `accepted`, if it is given.
///
/// # Errors
/// [`Kind::Usage`] if the variable is not a valid list.
pub fn of_environment(accepted: Option<&[&str]>) -> Result<Option<OsString>> {
    let Some(list) = std::env::var_os(VARIABLE).filter(|list| !list.is_empty()) else { return Ok(None) };
    Options::parse([&list]).map_err(|error| error.within(VARIABLE))?;
    let Some(accepted) = accepted else { return Ok(Some(list)) };
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut is_kept = false;
    for item in items(list.as_bytes()) {
        let name = item.split(|byte| *byte == b'=').next().unwrap_or_default();
        let name = std::str::from_utf8(name).unwrap_or_default();
        // A word that is no option continues the value before it, as in views=arrays,fits.
        is_kept =
            if is_option(name) || system::find(name).is_some() { accepted.contains(&name) } else { is_kept };
        if is_kept {
            kept.push(item);
        }
    }
    let kept = kept.join(&b","[..]);
    Ok((!kept.is_empty()).then(|| OsString::from_vec(kept)))
}

/// Splits a list at its commas, except those after a backslash.
fn items(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_escaped = false;
    list.split(move |byte| {
        let splits = *byte == b',' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        splits
    })
}

/// Parses names of views: all names if the list was quoted as a whole, otherwise only the first.
fn views(value: &[u8]) -> Result<ShownViews> {
    let mut views = ShownViews::none();
    for name in value.split(|byte| *byte == b',') {
        if !std::str::from_utf8(name).is_ok_and(|name| views.add(name)) {
            return Err(no_view(name));
        }
    }
    Ok(views)
}

fn no_view(name: &[u8]) -> Error {
    let names: Vec<_> = view_names().collect::<BTreeSet<_>>().into_iter().collect();
    bad("views", name, &format!("all, none, or one of {}", names.join(", ")))
}

fn usage(message: impl Into<String>) -> Error {
    Error::new(Kind::Usage, message)
}

fn bad(name: &str, value: &[u8], wanted: &str) -> Error {
    usage(format!("-o {name}={} is not {wanted}", String::from_utf8_lossy(value)))
}

#[cfg(test)]
mod tests;
