//! The trait of all views, and the file that a view is made from.
//!
//! A view is a directory or a file beside `tree.yaml`, made from the tree and the blocks. Views form one list
//! (`VIEWS` in `asdf.rs`); `docs/adding-a-view.md` says how one is added.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use asdf_tree::yaml::event::Mark;
use asdf_tree::yaml::survey::{PathId, Paths, Survey, WantedNode};
use seekable::error::{self, Error, Result};
use seekable::source::{Source, SourceSection, read_up_to};
use seekable::sync::locked;

use super::computed::Computed;
use super::external;
use super::head::recognises;
use super::in_fits::FitsFile;
use super::kept_document::KeptDocument;
use super::ndarray::Ndarray;
use super::stored::StoredFile;
use crate::container::{Context, Defect, Footprint, HEAD};
use crate::folder::path_dir::PathDir;
use crate::folder::{Dir, EntryKind, Node};

/// Maximum number of other files that are kept open for one file.
const KEPT: usize = 64;
/// Maximum number of other files on servers that are asked for, for one tree: all, and those of a host.
pub(crate) const MAX_ON_SERVERS: usize = 128;
const MAX_PER_HOST: usize = 64;

/// A view of ASDF files. It has no data of its own: results are kept in the file ([`AsdfFile::computed`]).
pub trait View: Sync + fmt::Debug {
    /// Returns the name beside `tree.yaml`. The name of a file has a `.`, that of a directory has none.
    fn name(&self) -> &'static str;

    /// Returns the directory or file. Making it must be cheap: a directory finds its entries when a program
    /// looks into it. `None` if this file has no such view.
    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node>;

    /// True for the tags of nodes that the survey of the tree passes to the view's collector.
    fn wants(&self, tag: &str) -> bool {
        let _ = tag;
        false
    }

    /// Returns a new collector of nodes, if the view wants any.
    fn collector(&self) -> Option<Box<dyn Collector>> {
        None
    }

    /// True if `file` has this view. A directory is always there.
    fn is_there(&self, file: &AsdfFile) -> Result<bool> {
        let _ = file;
        Ok(true)
    }

    /// True if [`is_there`](Self::is_there) is slow now.
    fn is_sought_slowly(&self, file: &AsdfFile) -> bool {
        let _ = file;
        false
    }

    /// True if [`node`](Self::node) is slow now, for example because it reads the tree. Only a file may be
    /// slow.
    fn is_made_slowly(&self, file: &AsdfFile) -> bool {
        let _ = file;
        false
    }

    /// Returns the parts of the sky that the images of the file cover.
    fn footprints(&self, file: &Arc<AsdfFile>) -> Result<Vec<Footprint>> {
        let _ = file;
        Ok(Vec::new())
    }

    /// Returns the path of the array that the view, a picture of the file, shows.
    fn displayed(&self, file: &AsdfFile) -> Result<Option<Vec<String>>> {
        let _ = file;
        Ok(None)
    }

    /// Returns the defects that the view has found so far.
    fn defects(&self, file: &AsdfFile) -> Vec<Defect> {
        let _ = file;
        Vec::new()
    }
}

impl dyn View {
    /// True if the view is a file.
    pub(crate) fn is_file(&self) -> bool {
        self.name().contains('.')
    }
}

/// A collector of the nodes that a view wants, during the survey of a tree.
pub trait Collector {
    /// Takes a node that the view wants, with the nodes within it up to a limit.
    fn on_node(&mut self, paths: &Paths, node: &WantedNode<'_>, unfit: Unfit<'_>);

    /// Returns the arrays that are described beside their nodes instead of within them, in the node that
    /// [`take`](Self::on_node) got last. The node of such an array is only a tag. Its mark is returned, too.
    fn bare_arrays(&mut self) -> Vec<(Mark, Ndarray)> {
        Vec::new()
    }

    /// Keeps the result in `computed`. `surveyed` is `None` if the tree can't be read to its end.
    fn end(self: Box<Self>, surveyed: Option<&Surveyed<'_>>, computed: &Computed);
}

/// A callback that returns the reason why an array does not fit in its block; `None` if it fits.
pub type Unfit<'u> = &'u dyn Fn(&Ndarray) -> Option<String>;

/// The tree after its survey.
#[allow(missing_debug_implementations)] // a callback
pub struct Surveyed<'s> {
    /// The paths and aliases.
    pub survey: &'s Survey,
    /// The arrays of the tree with their paths.
    pub arrays: &'s [(Option<PathId>, &'s Ndarray)],
    /// The check of an array against its block.
    pub unfit: Unfit<'s>,
}

/// An ASDF file as its views see it: head and blocks, the results computed so far, and the other files that
/// the tree names.
#[derive(Debug)]
pub struct AsdfFile {
    pub(crate) stored: StoredFile,
    /// The FITS file that holds this file in one of its extensions.
    pub fits: Option<FitsFile>,
    /// The views that take part in the survey of the tree.
    pub(crate) views: &'static [&'static dyn View],
    /// The results of all views.
    pub computed: Computed,
    externals: Externals,
}

/// The other files opened last, by their URIs without fragment.
#[derive(Debug, Default)]
struct Externals {
    kept: Mutex<HashMap<String, Arc<AsdfFile>>>,
    /// Others that could not be opened.
    failed: Mutex<HashMap<String, FailedOpen>>,
    /// The URLs that were asked for.
    asked: Mutex<HashSet<String>>,
    /// The hosts that did not answer, and when.
    silent: Mutex<HashMap<String, Instant>>,
    /// True once another file was requested, or the tree is known to name another file.
    named: AtomicBool,
}

/// Why another file could not be opened.
#[derive(Clone, Debug)]
struct FailedOpen {
    why: Error,
    /// True if its server did not answer.
    is_silent: bool,
    /// True if it could not be read, so that nothing is known about it.
    is_unread: bool,
    /// True if it was opened since.
    is_over: bool,
}

impl Deref for AsdfFile {
    type Target = StoredFile;

    fn deref(&self) -> &StoredFile {
        &self.stored
    }
}

impl AsdfFile {
    /// Reads the head of `source`, which [`recognises`] has accepted.
    pub fn open(
        source: Arc<dyn Source>,
        context: &Context,
        views: &'static [&'static dyn View],
    ) -> Result<Self> {
        let stored = StoredFile::open(source, context)?;
        Ok(Self { stored, fits: None, views, computed: Computed::default(), externals: Externals::default() })
    }

    /// Reads the head of the ASDF file in an extension of a FITS file.
    pub fn open_in_fits(
        source: Arc<dyn Source>,
        context: &Context,
        views: &'static [&'static dyn View],
    ) -> Result<Self> {
        let fits = FitsFile::open(source)?;
        let section = SourceSection::new(fits.source.clone(), fits.asdf.clone())?;
        let file = Self::open(Arc::new(section), context, views)?;
        Ok(Self { fits: Some(fits), ..file })
    }

    /// Returns the document of the tree.
    pub fn kept_document(&self) -> &Arc<KeptDocument> {
        self.computed.get_or_compute(|| Arc::new(KeptDocument::new(self.tree(), &self.context.cache)))
    }

    /// True if calls are slow now: the blocks have not been found yet, or the tree names other files.
    pub fn is_slow(&self) -> bool {
        self.finds_blocks_slowly() || self.has_externals()
    }

    /// True if the tree is known to name other files. They may be large, or on a server that does not answer.
    pub(crate) fn has_externals(&self) -> bool {
        self.externals.named.load(Ordering::Relaxed)
    }

    /// Records that the tree names other files.
    pub(crate) fn note_externals(&self) {
        self.externals.named.store(true, Ordering::Relaxed);
    }

    /// Opens the ASDF file that a URI in the tree names. The fragment of the URI is ignored.
    ///
    /// The file must lie in the directory of this one or below, unless the mount allows more. Each call looks
    /// for the present file, and returns the same parsed file while its version is the same. An array with
    /// this URI as its `source` is in block 0. Contents of the file must be read through
    /// [`external::unchanged`], as the file may change at any time.
    ///
    /// # Errors
    /// EIO with the URI and the reason: the file does not exist, can't be read, lies outside the allowed
    /// directories, is not an ASDF file, or is on a server.
    pub fn external(&self, uri: &str) -> Result<Arc<Self>> {
        self.note_externals();
        let name = external::split(uri).0;
        let failed = |error: &Error| {
            Error::new(
                error::Kind::Unrecognised,
                format!("the file \"{}\": {}", name.escape_debug(), error.message()),
            )
        };
        let says_nothing = |error: &Error| error.is_shortage() || error.errno() == libc::EINTR;
        let opened = self.open_external(name);
        if let Err(error) = &opened
            && says_nothing(error)
        {
            return opened;
        }
        let host = external::host(name);
        if external::has_host(name)
            && matches!(&opened, Err(error) if error.kind() == error::Kind::System(libc::EIO))
        {
            locked(&self.externals.silent).insert(host.clone(), Instant::now());
        }
        let is_silent = self.is_silent(&host);
        let opened = opened.map_err(|error| {
            let is_unread =
                is_silent || matches!(error.kind(), error::Kind::System(libc::EIO) | error::Kind::Changed);
            FailedOpen { why: failed(&error), is_silent, is_unread, is_over: false }
        });
        self.note_opening(name, opened.as_ref().err());
        opened.map_err(|failed| failed.why)
    }

    /// Records whether another file could be opened.
    fn note_opening(&self, name: &str, failure: Option<&FailedOpen>) {
        let mut all = locked(&self.externals.failed);
        let Some(failure) = failure else {
            if let Some(failed) = all.get_mut(name) {
                failed.is_over = true;
            }
            return;
        };
        if all.len() >= 2 * MAX_ON_SERVERS {
            all.clear();
        }
        all.insert(name.to_owned(), failure.clone());
    }

    /// True if another file could not be read when it was opened last without success.
    pub(crate) fn was_unread(&self, uri: &str) -> bool {
        locked(&self.externals.failed).get(external::split(uri).0).is_some_and(|failed| failed.is_unread)
    }

    /// True if the server of another file did not answer, and was opened since or may be asked again now.
    pub(crate) fn may_be_back(&self, uri: &str) -> bool {
        let name = external::split(uri).0;
        let is_silent = self.is_silent(&external::host(name));
        let failed = locked(&self.externals.failed);
        failed.get(name).is_some_and(|failed| failed.is_silent && (failed.is_over || !is_silent))
    }

    /// True if a host did not answer a moment ago, so that it is not asked now.
    fn is_silent(&self, host: &str) -> bool {
        locked(&self.externals.silent).get(host).is_some_and(|since| since.elapsed() < self.context.silence)
    }

    /// True if a request to a server is needed to open the file that a URI names.
    pub(crate) fn is_on_server(&self, uri: &str) -> bool {
        let is_here = self.source.surroundings().is_none_or(|surroundings| !surroundings.is_on_server());
        self.context.web.is_some() && (!is_here || external::is_on_server(uri))
    }

    /// Returns the result of [`external`](Self::external) as far as it is known without a request to a server.
    pub(crate) fn known_external(&self, uri: &str) -> Option<Result<Arc<Self>>> {
        if !self.is_on_server(uri) {
            return Some(self.external(uri));
        }
        let name = external::split(uri).0;
        let failed =
            locked(&self.externals.failed).get(name).filter(|it| !it.is_over).map(|it| it.why.clone());
        failed
            .map_or_else(|| locked(&self.externals.kept).get(name).cloned().map(Ok), |error| Some(Err(error)))
    }

    /// Fails if the tree names too many files on servers: each of them costs a request, which a stranger's tree
    /// could aim at any host.
    fn check_asked(&self, url: &str) -> Result<()> {
        let host = external::host(url);
        if self.is_silent(&host) {
            return Err(Error::unsupported(format!("the server {host} does not answer")));
        }
        let mut asked = locked(&self.externals.asked);
        if asked.contains(url) {
            return Ok(());
        }
        if asked.len() >= MAX_ON_SERVERS {
            let why = format!("the tree names more than {MAX_ON_SERVERS} files on servers");
            return Err(Error::unsupported(why));
        }
        if asked.iter().filter(|other| external::host(other) == host).count() >= MAX_PER_HOST {
            let why = format!("the tree names more than {MAX_PER_HOST} files on the server {host}");
            return Err(Error::unsupported(why));
        }
        asked.insert(url.to_owned());
        Ok(())
    }

    /// Opens the file that a URI without fragment names.
    fn source_of_external(&self, name: &str) -> Result<Arc<dyn Source>> {
        let surroundings = self.source.surroundings();
        if external::has_host(name) && self.context.web.is_some() {
            self.check_asked(name)?;
        }
        if let Some(found) = surroundings.and_then(|surroundings| surroundings.open_reference(name)) {
            return found;
        }
        if external::is_on_server(name) {
            let web = self.context.web.as_ref();
            let refused =
                || Error::unsupported("it lies on a server, which is not followed without -o external=http");
            return web.ok_or_else(refused)?.open(name);
        }
        let path = external::path_of(name)?;
        let surroundings =
            surroundings.ok_or_else(|| Error::unsupported("the directory of the file is not known"))?;
        surroundings.open(&path, &self.context.reach)
    }

    fn open_external(&self, name: &str) -> Result<Arc<Self>> {
        let source = self.source_of_external(name)?;
        let stat = source.stat()?;
        let mut kept = locked(&self.externals.kept);
        if let Some(file) = kept.get(name).filter(|file| file.source_stat.version == stat.version) {
            return Ok(file.clone());
        }
        let mut head = [0; HEAD];
        let read = read_up_to(&*source, 0, &mut head)?;
        if !recognises(&head[..read]) {
            return Err(Error::new(error::Kind::Unrecognised, "is not an ASDF file"));
        }
        let file = Arc::new(Self::open(source, &self.context, self.views)?);
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(name.to_owned(), file.clone());
        Ok(file)
    }
}

/// A directory of files and links at paths, which are found when a program first looks into it.
#[derive(Debug)]
pub struct Directory<T> {
    /// The file that the directory shows.
    pub file: Arc<AsdfFile>,
    /// The function that finds the entries.
    pub find: fn(&Arc<AsdfFile>) -> Result<PathDir<T>>,
    /// True if finding the entries, or making one, is slow now.
    pub is_slow: fn(&AsdfFile) -> bool,
}

impl<T: Send + Sync + fmt::Debug + 'static> Directory<T> {
    /// Returns the node of the directory.
    pub fn node(self) -> Node {
        Node::Dir(Arc::new(self))
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> Dir for Directory<T> {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        (self.find)(&self.file)?.lookup(name)
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        (self.find)(&self.file)?.list(from, take)
    }

    fn is_slow(&self) -> bool {
        self.file.is_slow() || (self.is_slow)(&self.file)
    }
}
