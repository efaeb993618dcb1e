//! The sources that a user names on the command line.
//!
//! An address must not be shown as the user wrote it, because it may contain a password or a signature:
//! [`shown`] leaves them out.

// Compiled for tests, too, as scripts/test builds with servers only.
#[cfg(all(test, feature = "remote"))]
#[allow(dead_code, unreachable_pub)] // for the build without servers
mod no_servers;
#[cfg_attr(not(feature = "remote"), path = "named/no_servers.rs")]
mod servers;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seekable::error::{Error, Kind, Result};
use seekable::source::Place;

use crate::options::{FUSE_SUPER_MAGIC, PID_ATTRIBUTE};
use servers::Address;
pub use servers::Servers;

/// Refuses a mount of this program and the directories in it: texts there begin like ASDF files.
///
/// # Errors
/// [`Kind::Unrecognised`].
pub fn refuse_mount(path: &Path) -> Result<()> {
    if !is_in_mount(path) {
        return Ok(());
    }
    let tree = path.join("tree.yaml");
    let editing =
        if tree.is_file() { format!(", and any editor for {}", tree.display()) } else { String::new() };
    let message =
        format!("is a mount of asdf-mount: use ls, cp and cat in it{editing}; or name what is mounted");
    Err(Error::new(Kind::Unrecognised, message).of(path))
}

/// True for a directory of a mount of this program.
fn is_in_mount(path: &Path) -> bool {
    // Any directory may have the attribute, but only a FUSE mount can answer for ours.
    let is_fuse =
        |path: &Path| rustix::fs::statfs(path).is_ok_and(|space| space.f_type as u64 == FUSE_SUPER_MAGIC);
    if !is_fuse(path) || !path.is_dir() {
        return false;
    }
    let Ok(path) = path.canonicalize() else { return false };
    let mut directories = path.ancestors().take_while(|directory| is_fuse(directory));
    directories.any(|directory| rustix::fs::getxattr(directory, PID_ATTRIBUTE, &mut [0; 20]).is_ok())
}

/// A source that a user named.
#[derive(Clone, Debug)]
pub enum Named {
    /// A local file or directory.
    Local(PathBuf),
    /// A file or directory elsewhere.
    Elsewhere(Arc<dyn Place>),
}

impl Named {
    /// Decides from an argument's text in which kind of place the source is. Sends no request.
    ///
    /// # Errors
    /// The text names no place, or an option for servers is not valid.
    pub fn of(argument: &Path, servers: &Servers) -> Result<Self> {
        Ok(match address(argument)? {
            Some(address) => Self::Elsewhere(servers.place(address)?),
            None => Self::Local(argument.to_owned()),
        })
    }

    /// Returns the path or address, for messages.
    pub fn label(&self) -> &Path {
        match self {
            Self::Local(path) => path,
            Self::Elsewhere(place) => place.label(),
        }
    }

    /// Returns the last name of the path or address, if it has one.
    ///
    /// # Errors
    /// A local path can't be resolved.
    pub fn name(&self) -> Result<Option<OsString>> {
        match self {
            Self::Local(path) => {
                let full = path.canonicalize().map_err(|error| Error::from(error).of(path))?;
                Ok(path.file_name().or(full.file_name()).map(Into::into))
            }
            Self::Elsewhere(place) => Ok(place.name()),
        }
    }
}

impl From<PathBuf> for Named {
    fn from(path: PathBuf) -> Self {
        Self::Local(path)
    }
}

/// True if an argument is a local path rather than an address.
///
/// # Errors
/// The argument is an address that is not valid, or of a scheme that can't be read.
pub fn is_local(argument: &Path) -> Result<bool> {
    Ok(address(argument)?.is_none())
}

/// Returns an argument as messages show it: an address without password and signature.
pub fn shown(argument: &Path) -> PathBuf {
    match address(argument) {
        Ok(Some(address)) => PathBuf::from(address.to_string()),
        Ok(None) => argument.to_owned(),
        Err(_) => PathBuf::from(format!("{}://…", scheme(argument).unwrap_or_default())),
    }
}

/// Returns the path of an address such as `file:///a%20b`; any other argument is returned as it is.
pub fn without_file_scheme(argument: PathBuf) -> PathBuf {
    if !scheme(&argument).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file")) {
        return argument;
    }
    let rest = argument.as_os_str().as_encoded_bytes().get("file://".len()..).unwrap_or_default();
    let path = rest.strip_prefix(b"localhost").unwrap_or(rest);
    if !path.starts_with(b"/") {
        return argument;
    }
    PathBuf::from(OsString::from_vec(percent_encoding::percent_decode(path).collect()))
}

/// Returns the scheme of a text such as `https://…`.
fn scheme(argument: &Path) -> Option<&str> {
    let bytes = argument.as_os_str().as_encoded_bytes();
    let end = bytes.windows(3).position(|three| three == b"://")?;
    let is_valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let scheme = bytes.get(..end).filter(|scheme| scheme.iter().all(is_valid))?;
    std::str::from_utf8(scheme)
        .ok()
        .filter(|scheme| scheme.starts_with(|first: char| first.is_ascii_alphabetic()))
}

/// Returns the address in an argument; `None` if the argument is a path.
fn address(argument: &Path) -> Result<Option<Address>> {
    let Some(scheme) = scheme(argument) else { return Ok(None) };
    let text = argument.to_str().unwrap_or_default();
    if Address::has_scheme(scheme) {
        return Address::parse(text).map(Some).map_err(|error| error.of(format!("{scheme}://…")));
    }
    match argument.symlink_metadata() {
        Ok(_) => Ok(None),
        Err(_) => {
            let why = "this kind of address can't be read; give a path, or an address that begins with file:///, \
                       http://, https:// or s3://";
            Err(Error::new(Kind::Usage, why).of(format!("{scheme}://…")))
        }
    }
}

#[cfg(test)]
#[cfg(feature = "remote")]
mod tests {
    use seekable::cache::Cache;

    use super::*;
    use crate::options::RemoteOptions;

    fn servers() -> Servers {
        Servers::new(&RemoteOptions::default(), &Arc::new(Cache::new(1 << 20)))
    }

    #[test]
    fn an_argument_is_a_path_or_an_address() {
        for (text, label, name) in [
            (
                "https://me:secret@h.org/a/x%20y.asdf?sig=secret",
                "https://h.org/a/x%20y.asdf?…",
                Some("x y.asdf"),
            ),
            ("S3://bucket/p/", "s3://bucket/p/", Some("p")),
            ("s3://bucket", "s3://bucket/", None),
            ("http://h.org:8080/", "http://h.org:8080/", None),
            ("http://h.org/a%2Fb", "http://h.org/a%2Fb", None),
            ("http://h.org/%2e%2e", "http://h.org/%2e%2e", None),
        ] {
            let named = Named::of(Path::new(text), &servers()).unwrap();
            assert!(matches!(named, Named::Elsewhere(_)) && !is_local(Path::new(text)).unwrap());
            assert_eq!(named.label().as_os_str(), label);
            assert_eq!(shown(Path::new(text)).as_os_str(), label);
            assert_eq!(named.name().unwrap().as_deref(), name.map(AsRef::as_ref), "{text}");
        }
        for text in ["a.asdf", "/x://y", "a b://c", "://x", "http:/x", "./http://x", "s3:x"] {
            assert!(is_local(Path::new(text)).unwrap(), "{text}");
        }
    }

    #[test]
    fn the_address_of_a_local_file_is_its_path() {
        for (text, path) in [
            ("file:///a%20b/%C3%BC.asdf", "/a b/ü.asdf"),
            ("FILE://localhost/x", "/x"),
            ("file://host/x", "file://host/x"),
            ("file:/x", "file:/x"),
            ("/x%20y", "/x%20y"),
            ("http://h/x%20y", "http://h/x%20y"),
        ] {
            assert_eq!(without_file_scheme(text.into()), Path::new(path), "{text}");
        }
    }

    #[test]
    fn other_schemes_are_refused_without_their_secrets() {
        for text in [
            "ftp://me:secret@h/x",
            "file:///secret",
            "gs://secret/x",
            "http://me:secret@h:0/",
            "s3://x/secret",
        ] {
            let error = Named::of(Path::new(text), &servers()).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{text}");
            assert!(!format!("{error} {}", shown(Path::new(text)).display()).contains("secret"), "{error}");
        }
    }
}
