//! How files are opened: the options of a mount, as far as they concern reading and saving.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use asdf_file::container::Context;
use asdf_file::edit::context::{EditContext, EditOptions};
use asdf_file::history::History;
use seekable::cache::store::Store;
use seekable::cache::{Cache, default_budget};
use seekable::error::Result;
use seekable::source::Reach;

use super::File;
use crate::named::{Named, Servers};
use crate::options::{MIN_CACHE, Options};

/// The options with which files are opened. All files that are opened with the same `OpenOptions`, or a clone,
/// share one cache of decoded data and the connections to servers.
///
/// ```
/// # fn main() -> asdf_access::Result<()> {
/// let options = asdf_access::OpenOptions::parse("cache=64M,external=anywhere")?;
/// let file = options.open("examples/sample.asdf")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    pub(super) context: Context,
    servers: Arc<Servers>,
    edit: EditOptions,
    has_history: bool,
}

impl OpenOptions {
    /// Parses options as they are written after `-o` on the command line: `cache=SIZE`, `index-cache=off`,
    /// `external=anywhere`, `validate=`, `schemas=`, `padding=`, `history=off` and those for servers. Options that concern
    /// only a mount have no effect.
    ///
    /// # Errors
    /// [`Kind::Usage`](crate::Kind::Usage), with the name of the wrong option.
    pub fn parse(options: &str) -> Result<Self> {
        Self::of(&Options::parse([&options.into()])?)
    }

    fn of(options: &Options) -> Result<Self> {
        let context = Context { schemas: options.read_schemas()?, ..context(options) };
        let servers = Arc::new(Servers::new(&options.remote, &context.cache));
        Ok(Self { context, servers, edit: options.edit, has_history: options.history })
    }

    /// Returns the options of [`File::open`], which share one cache in the whole process.
    pub(super) fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<OpenOptions> = OnceLock::new();
        if let Some(shared) = SHARED.get() {
            return Ok(shared);
        }
        let options = Self::of(&Options::default())?;
        Ok(SHARED.get_or_init(|| options))
    }

    /// Opens a file; see [`File::open`].
    ///
    /// # Errors
    /// As for [`File::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        File::open_named(Named::of(path.as_ref(), &self.servers)?, self)
    }

    /// Returns the context of a save.
    pub(super) fn edits(&self) -> EditContext {
        let history = self.has_history.then(|| History::open(None));
        // A state directory that can't be used is no reason to refuse a save.
        let history = history.and_then(|opened| opened.inspect_err(|error| tracing::info!("{error}")).ok());
        let schemas = self.context.schemas.clone();
        EditContext { options: self.edit, history: history.map(Arc::new), schemas, ..EditContext::default() }
    }
}

/// Returns the size in bytes of the cache of decoded data.
pub fn cache_budget(options: &Options) -> u64 {
    options.cache.unwrap_or_else(default_budget).max(MIN_CACHE)
}

/// Returns the objects that all files opened with these options share.
pub fn context(options: &Options) -> Context {
    let store = match options.index_cache.then(Store::of_user) {
        Some(Ok(store)) => store,
        Some(Err(error)) => {
            tracing::info!("{error}");
            Store::nowhere()
        }
        None => Store::nowhere(),
    };
    let cache = Arc::new(Cache::new(cache_budget(options)).with_store(store));
    let mut context = Context::new(cache.clone());
    if options.external_anywhere {
        context.reach = Reach::Anywhere;
    }
    if options.remote.follow {
        context.web = Some(Arc::new(Servers::new(&options.remote, &cache)));
    }
    context
}
