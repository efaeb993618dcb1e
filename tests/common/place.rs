//! Files in memory as a second kind of place. A test can change the files, and make requests fail or wait.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use asdf_access::{Error, Kind, Result};
use seekable::source::{Place, PlaceKind, PlaceStat, Source, SourceStat, SourceVersion};

/// Modification time of all files; a long time ago.
pub const MTIME: (i64, u32) = (1_000_000_000, 0);

/// A server with files in memory. A directory exists if the path of a file begins with it.
#[derive(Debug)]
pub struct FakeServer {
    name: String,
    files: Mutex<BTreeMap<PathBuf, Stored>>,
    /// Error for each request about a path.
    failures: Mutex<BTreeMap<PathBuf, i32>>,
    versions: AtomicUsize,
    stopped: Mutex<bool>,
    started: Condvar,
    /// True once a request had to wait.
    waits: AtomicBool,
}

#[derive(Clone, Debug)]
struct Stored {
    bytes: Arc<[u8]>,
    stat: SourceStat,
}

impl FakeServer {
    pub fn new(name: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            files: Mutex::default(),
            failures: Mutex::default(),
            versions: AtomicUsize::new(0),
            stopped: Mutex::new(false),
            started: Condvar::new(),
            waits: AtomicBool::new(false),
        })
    }

    /// Writes a new version of a file.
    pub fn put(&self, path: impl AsRef<Path>, bytes: impl Into<Arc<[u8]>>) {
        let (bytes, n) = (bytes.into(), self.versions.fetch_add(1, Ordering::Relaxed));
        let (size, version) = (bytes.len() as u64, SourceVersion::of_tag(&format!("\"{n}\"")));
        let stat = SourceStat { size, mtime: MTIME, version };
        self.files.lock().unwrap().insert(path.as_ref().to_owned(), Stored { bytes, stat });
    }

    /// Adds the files of a local directory.
    pub fn put_dir(&self, path: &Path, dir: &Path) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let path = path.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                self.put_dir(&path, &entry.path())
            } else {
                self.put(path, std::fs::read(entry.path()).unwrap())
            }
        }
    }

    pub fn remove(&self, path: impl AsRef<Path>) {
        self.files.lock().unwrap().remove(path.as_ref());
    }

    /// Lets all requests about a path fail, or succeed again.
    pub fn fail(&self, path: impl AsRef<Path>, errno: Option<i32>) {
        let mut failures = self.failures.lock().unwrap();
        match errno {
            Some(errno) => failures.insert(path.as_ref().to_owned(), errno),
            None => failures.remove(path.as_ref()),
        };
    }

    /// Lets all requests wait, or go on.
    pub fn stop(&self, stopped: bool) {
        *self.stopped.lock().unwrap() = stopped;
        self.started.notify_all();
    }

    /// True once a request had to wait.
    pub fn has_waited(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    pub fn place(self: &Arc<Self>, path: impl AsRef<Path>) -> Arc<dyn Place> {
        let label = Path::new("fake://").join(&self.name).join(path.as_ref());
        Arc::new(FakePlace { server: self.clone(), path: path.as_ref().to_owned(), label })
    }

    /// Receives a request about a path: waits while the server is stopped, then fails if a failure is set.
    fn receive(&self, path: &Path) -> Result<()> {
        let stopped = self.stopped.lock().unwrap();
        self.waits.fetch_or(*stopped, Ordering::Relaxed);
        let patience = Duration::from_secs(60);
        let waited = self.started.wait_timeout_while(stopped, patience, |stopped| *stopped).unwrap();
        assert!(!waited.1.timed_out(), "the server stays stopped");
        match self.failures.lock().unwrap().get(path) {
            Some(errno) => Err(Error::new(Kind::System(*errno), format!("the server says {errno}"))),
            None => Ok(()),
        }
    }

    fn file(&self, path: &Path) -> Result<Stored> {
        self.receive(path)?;
        let found = self.files.lock().unwrap().get(path).cloned();
        found.ok_or_else(|| Error::new(Kind::NotFound, "the server has no such file"))
    }
}

#[derive(Debug)]
struct FakePlace {
    server: Arc<FakeServer>,
    path: PathBuf,
    label: PathBuf,
}

impl Place for FakePlace {
    fn label(&self) -> &Path {
        &self.label
    }

    fn server(&self) -> &str {
        &self.server.name
    }

    fn stat(&self) -> Result<PlaceStat> {
        match self.server.file(&self.path) {
            Ok(file) => Ok(PlaceStat::File(file.stat)),
            Err(error) if error.kind() != Kind::NotFound => Err(error),
            Err(_) => self.list().map(|_| PlaceStat::Directory),
        }
    }

    fn child(&self, name: &OsStr) -> Arc<dyn Place> {
        self.server.place(self.path.join(name))
    }

    fn list(&self) -> Result<Vec<(OsString, PlaceKind)>> {
        self.server.receive(&self.path)?;
        let files = self.server.files.lock().unwrap();
        let below = files.keys().filter_map(|path| path.strip_prefix(&self.path).ok());
        let names = below.filter_map(|path| {
            let mut names = path.iter();
            let name = names.next()?.to_owned();
            Some((name, if names.next().is_some() { PlaceKind::Directory } else { PlaceKind::File }))
        });
        let mut names: Vec<_> = names.collect();
        names.dedup();
        if names.is_empty() {
            Err(Error::new(Kind::NotFound, "the server has no such directory"))
        } else {
            Ok(names)
        }
    }

    fn open(&self) -> Result<Arc<dyn Source>> {
        let Stored { bytes, stat } = self.server.file(&self.path)?;
        let (server, file, label) = (self.server.clone(), self.path.clone(), self.label.clone());
        Ok(Arc::new(FakeSource { server, file, label, bytes, stat }))
    }
}

/// One version of a file.
#[derive(Debug)]
struct FakeSource {
    server: Arc<FakeServer>,
    file: PathBuf,
    label: PathBuf,
    bytes: Arc<[u8]>,
    stat: SourceStat,
}

impl Source for FakeSource {
    fn path(&self) -> &Path {
        &self.label
    }

    fn stat(&self) -> Result<SourceStat> {
        Ok(self.server.file(&self.file)?.stat)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if self.server.file(&self.file)?.stat.version != self.stat.version {
            return Err(Error::new(Kind::Changed, "the server has another version"));
        }
        let rest = usize::try_from(offset).ok().and_then(|start| self.bytes.get(start..)).unwrap_or_default();
        let read = rest.len().min(buf.len());
        buf[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn is_slow(&self) -> bool {
        true
    }
}
