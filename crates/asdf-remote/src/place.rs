//! An address as a place, from which the mount gets its files.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seekable::error::{Error, Kind, Result};
use seekable::source::{ListedStat, Place, PlaceEntry, PlaceKind, PlaceStat, Revision, Source, SourceStat};
use seekable::sync::locked;

use super::{Address, ListedEntry, Remote, RemoteStat, Trust};

/// An object or a directory on a server, which the user mounted.
#[derive(Debug)]
pub struct RemotePlace {
    remote: Arc<Remote>,
    /// `None` for a name that no listing has.
    address: Option<Address>,
    label: PathBuf,
    server: String,
    /// Digest of the name and its directory, for lookups in recent listings.
    number: Option<u64>,
}

impl RemotePlace {
    /// Creates the place of an address. Sends no request.
    pub fn new(remote: Arc<Remote>, address: Address) -> Self {
        let label = PathBuf::from(address.to_string());
        let server = address.server();
        Self { remote, address: Some(address), label, server, number: None }
    }

    fn address(&self) -> Result<&Address> {
        let missing = || Error::new(Kind::NotFound, "no object has this name");
        self.address.as_ref().ok_or_else(|| missing().of(&self.label))
    }
}

impl Place for RemotePlace {
    fn label(&self) -> &Path {
        &self.label
    }

    fn name(&self) -> Option<OsString> {
        let name = self.address.as_ref().map(Address::file_name).unwrap_or_default();
        let is_name =
            !matches!(&*name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0));
        is_name.then(|| OsString::from_vec(name))
    }

    fn server(&self) -> &str {
        &self.server
    }

    fn stat(&self) -> Result<PlaceStat> {
        Ok(match self.remote.stat(self.address()?, Trust::Mounted)? {
            RemoteStat::File(stat) => PlaceStat::File(stat),
            RemoteStat::Directory => PlaceStat::Directory,
        })
    }

    fn child(&self, name: &OsStr) -> Arc<dyn Place> {
        let address = self.address.as_ref().and_then(|directory| self.remote.child(directory, name));
        let number = self.address.as_ref().map(|directory| self.remote.number(directory, name));
        Arc::new(match address {
            Some(address) => Self { number, ..Self::new(self.remote.clone(), address) },
            None => Self {
                remote: self.remote.clone(),
                address: None,
                label: self.label.join(name),
                server: self.server.clone(),
                number: None,
            },
        })
    }

    fn list(&self) -> Result<Vec<(OsString, PlaceKind)>> {
        let kind = |is_directory| if is_directory { PlaceKind::Directory } else { PlaceKind::File };
        let listed = self.remote.names(self.address()?, Trust::Mounted);
        let names = listed.inspect_err(|error| {
            if error.errno() != libc::EINTR {
                tracing::warn!("{error}");
            }
        })?;
        Ok(names.into_iter().map(|(name, is_directory)| (name.into(), kind(is_directory))).collect())
    }

    fn listed(&self) -> Option<ListedStat> {
        let name = self.remote.listed.get(self.number?)?;
        if name.is_directory {
            return Some(ListedStat { stat: PlaceStat::Directory, is_exact: true });
        }
        // An object that was opened is asked for its state itself.
        let key = (self.remote.shared.identity(self.address.as_ref()?), Trust::Mounted);
        let is_exact = name.is_exact && !locked(&self.remote.known).contains(&key);
        let mtime = self.remote.shared.times.get(&key.0).unwrap_or(name.stat.mtime);
        let stat = SourceStat { mtime, ..name.stat };
        Some(ListedStat { stat: PlaceStat::File(stat), is_exact })
    }

    fn is_shown_as_listed(&self) -> bool {
        true
    }

    fn entries(&self) -> Box<dyn Iterator<Item = Result<PlaceEntry>>> {
        let directory = match self.address() {
            Ok(address) => address,
            Err(error) => return Box::new(std::iter::once(Err(error))),
        };
        let remote = self.remote.clone();
        let mut entries = self.remote.list(directory, Trust::Mounted);
        let mut has_ended = false;
        let place_entry = move |entry: ListedEntry| {
            let ListedEntry { address, is_directory, size, tag, mtime, .. } = entry;
            PlaceEntry {
                place: Arc::new(Self::new(remote.clone(), address)),
                kind: if is_directory { PlaceKind::Directory } else { PlaceKind::File },
                revision: size.map(|size| Revision { size, etag: tag, mtime }),
            }
        };
        Box::new(std::iter::from_fn(move || match entries.next() {
            Some(entry) => Some(entry.map(&place_entry)),
            None if entries.left_out() > 0 && !has_ended => {
                has_ended = true;
                let count = entries.left_out();
                Some(Err(Error::unsupported(format!(
                    "{count} of its names are left out: no file can have them"
                ))))
            }
            None => None,
        }))
    }

    fn revision(&self) -> Result<Revision> {
        self.remote.revision(self.address()?, Trust::Mounted)
    }

    fn open(&self) -> Result<Arc<dyn Source>> {
        self.remote.open_with_others(self.address()?, Trust::Mounted)
    }

    fn statistics(&self) -> Option<Vec<u8>> {
        Some(self.remote.stats().yaml())
    }
}
