//! The places in the arguments of a mount: sources and mountpoint.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use asdf_access::named;
use asdf_views::format;
use seekable::error::{Error, Result, in_shell};
use seekable::source::FileSource;

use super::{exit, usage};
use crate::daemon;

/// The sources and the mountpoint of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MountPlaces {
    pub(super) sources: Vec<PathBuf>,
    pub(super) mountpoint: PathBuf,
    /// True if the mountpoint was not given: it is then beside the source and named after the source.
    pub(super) beside: bool,
}

/// Splits the paths of a command line. The last of several is the mountpoint; a file alone is mounted beside
/// itself.
pub(super) fn of(mut paths: Vec<PathBuf>) -> Result<MountPlaces> {
    let Some(last) = paths.pop() else {
        return Err(usage("SOURCE is required; asdf-mount --help=all shows examples"));
    };
    if !named::is_local(&last)? {
        let shown = named::shown(&last);
        let word = in_shell(&shown);
        let shown = shown.display();
        let message = if paths.is_empty() {
            format!("{shown}: is on a server; give a MOUNTPOINT, too: asdf-mount {word} MOUNTPOINT")
        } else {
            format!(
                "{shown}: is on a server, but the last argument is the directory to mount on; add it: asdf-mount \
                 SOURCE... MOUNTPOINT"
            )
        };
        return Err(usage(message));
    }
    if paths.is_empty() {
        return Ok(MountPlaces { mountpoint: beside(&last)?, sources: vec![last], beside: true });
    }
    if last.is_file() {
        for source in paths.iter().filter(|source| matches!(named::is_local(source), Ok(true))) {
            source.metadata().map_err(|error| Error::from(error).of(source))?;
        }
        let message = format!(
            "{}: is a file, but the last argument is the directory to mount on; to mount this file, too, add a \
             directory: asdf-mount SOURCE... MOUNTPOINT",
            last.display()
        );
        return Err(usage(message));
    }
    Ok(MountPlaces { sources: paths, mountpoint: last, beside: false })
}

/// Returns the mountpoint beside a file: its name without the extension.
fn beside(source: &Path) -> Result<PathBuf> {
    let shown = source.display();
    let word = in_shell(source);
    let meta = source.metadata().map_err(|error| Error::from(error).of(source))?;
    if meta.is_dir() {
        return Err(usage(format!(
            "{shown}: is a directory; give a MOUNTPOINT, too: asdf-mount {word} MOUNTPOINT"
        )));
    }
    match (source.file_stem(), source.extension()) {
        (Some(stem), Some(_)) if stem != "." && stem != ".." => {
            let mountpoint = source.with_file_name(stem);
            // `galaxy.asdf.gz` beside `galaxy.asdf` is better told that it is compressed.
            if mountpoint.is_file() {
                format::check_kind(&FileSource::open(source)?)?;
            }
            Ok(mountpoint)
        }
        _ => Err(usage(format!(
            "{shown}: has no extension to leave out for the name of a directory; give a MOUNTPOINT: asdf-mount \
             {word} MOUNTPOINT"
        ))),
    }
}

/// Makes an existing mount read-only or writable. The last path is the mountpoint; mount(8) gives the source,
/// too.
pub(super) fn remount(mut paths: Vec<PathBuf>, lists: &[OsString], read_only: bool) -> Result<u8> {
    let Some(mountpoint) = paths.pop().filter(|_| paths.len() <= 1) else {
        return Err(usage("-o remount needs one MOUNTPOINT: asdf-mount -o remount,ro MOUNTPOINT"));
    };
    let names = lists.iter().flat_map(|list| list.as_encoded_bytes().split(|&byte| byte == b','));
    if !names.into_iter().any(|name| name == b"ro" || name == b"rw") {
        return Err(usage("-o remount needs ro or rw; for other options, unmount, and mount again"));
    }
    daemon::remount(&mountpoint, read_only).map(|()| exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_alone_is_mounted_beside_itself() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, mountpoint) in [
            ("a.asdf", Some("a")),
            ("a b.c.gsd", Some("a b.c")),
            ("x.", Some("x")),
            ("..asdf", None),
            ("...asdf", None),
            ("plain", None),
            (".asdf", None),
        ] {
            std::fs::write(at(name), "").unwrap();
            let found = of(vec![at(name)]);
            match mountpoint {
                Some(mountpoint) => {
                    let places = found.unwrap();
                    assert_eq!((places.mountpoint, places.beside), (at(mountpoint), true));
                }
                None => assert!(found.is_err(), "{name}"),
            }
        }
        assert!(of(vec![folder.path().to_owned()]).unwrap_err().message().contains("MOUNTPOINT"));
        assert!(of(vec![at("missing.asdf")]).is_err());
    }

    #[test]
    fn an_address_needs_a_mountpoint() {
        let url = PathBuf::from("http://me:secret@host/x.asdf?sig=secret");
        for paths in [vec![url.clone()], vec![PathBuf::from("a.asdf"), url]] {
            let error = of(paths).unwrap_err();
            assert!(error.message().contains("MOUNTPOINT"), "{error}");
            assert!(
                error.message().contains("http://host/x.asdf") && !error.message().contains("secret"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_last_of_several_is_the_mountpoint_and_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("b.asdf"), "").unwrap();
        let error = of(vec![at("a.asdf"), at("b.asdf")]).unwrap_err();
        assert!(error.message().contains("no such file"), "{error}");
        let error = of(vec![at("b.asdf"), at("b.asdf")]).unwrap_err();
        assert!(error.message().contains("is a file"), "{error}");
        let places = of(vec![at("a.asdf"), at("new")]).unwrap();
        assert_eq!(
            (places.sources, places.mountpoint, places.beside),
            (vec![at("a.asdf")], at("new"), false)
        );
    }
}
