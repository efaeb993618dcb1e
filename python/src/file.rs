//! A file.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use asdf_access::catalog;
use asdf_access::library::read_all;
use asdf_access::named;
use asdf_access::search::Pattern;
use asdf_access::{Allowed, Array, Block, Error, File as Opened, Kind, OpenOptions, Result, SaveReport};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use seekable::per_process::PerProcess;
use seekable::sync::locked;

use crate::arguments::{list_of_options, source_of};
use crate::process::Own;
use crate::waiting::{exception, wait};

/// Maximum number of options that are kept, with their caches. Scripts may renew a setting often.
const MAX_OPTIONS: usize = 16;

/// Maximum number of arrays of a file that are kept.
const MAX_ARRAYS: usize = 256;

/// The options that were used, by their text. Files with the same options share a cache.
static OPTIONS: PerProcess<Mutex<HashMap<OptionsKey, OpenOptions>>> = PerProcess::new(Mutex::default);

/// The text, and the variables of the environment that servers depend on.
type OptionsKey = (String, Vec<(OsString, OsString)>);

/// Returns the options with a text, as long as the variables that servers depend on are what they were.
fn options_of(text: &str) -> Result<OpenOptions> {
    let is_of_servers =
        |name: &str| name.starts_with("AWS_") || name.starts_with("ASDF_MOUNT_") || name.ends_with("_proxy");
    let mut variables: Vec<(OsString, OsString)> =
        std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_of_servers)).collect();
    variables.sort_unstable();
    let key = (text.to_owned(), variables);
    if let Some(options) = locked(OPTIONS.get()).get(&key) {
        return Ok(options.clone());
    }
    let parsed = OpenOptions::parse(text)?;
    let mut all = locked(OPTIONS.get());
    if all.len() >= MAX_OPTIONS {
        all.clear();
    }
    Ok(all.entry(key).or_insert(parsed).clone())
}

/// A file in one version: that of its first opening, or of its last save by this object.
///
/// After a fork the child opens the file anew when it first uses it.
#[pyclass(frozen, subclass, module = "asdf_mount._native")]
#[derive(Debug)]
pub(crate) struct File {
    source: PathBuf,
    options: String,
    /// Locked for moments only, and with the GIL: so no thread holds the lock when the process is forked.
    state: Mutex<State>,
}

/// A number of saves. What was taken before the last one is not read after it.
pub(crate) type Saves = u64;

/// The state of a file.
#[derive(Clone, Debug)]
struct State {
    saves: Saves,
    /// The version, as text.
    version: String,
    /// `None` once it is closed.
    open: Option<Arc<Own<Open>>>,
}

/// An open file.
#[derive(Debug)]
struct Open {
    file: Opened,
    /// The arrays that were found, by their paths. They keep the file open, so they go with it.
    arrays: Mutex<HashMap<String, Arc<Array>>>,
}

impl Open {
    fn array(&self, path: &str) -> Result<Option<Arc<Array>>> {
        if let Some(array) = locked(&self.arrays).get(path) {
            return Ok(Some(array.clone()));
        }
        let Some(found) = self.file.array_if_any(path)?.map(Arc::new) else { return Ok(None) };
        let mut arrays = locked(&self.arrays);
        if arrays.len() >= MAX_ARRAYS {
            arrays.clear();
        }
        arrays.insert(path.to_owned(), found.clone());
        Ok(Some(found))
    }
}

impl State {
    fn of(file: Opened, saves: Saves) -> Result<Self> {
        let version = file.version_of_source()?;
        let open = Open { file, arrays: Mutex::default() };
        Ok(Self { saves, version, open: Some(Arc::new(Own::new(open))) })
    }
}

/// Opens a file, which must have a version if one is given.
fn open_version(source: &Path, options: &str, version: Option<&str>) -> Result<Opened> {
    let file = options_of(options)?.open(source)?;
    if let Some(version) = version
        && file.version_of_source()? != version
    {
        let message = "has changed since it was opened; open it again";
        return Err(Error::new(Kind::Changed, message).of(file.path()));
    }
    Ok(file)
}

impl File {
    /// Returns the number of saves.
    pub(crate) fn saves(&self) -> Saves {
        locked(&self.state).saves
    }

    /// Runs a job on the open file.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        job: impl FnOnce(&Opened) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.with_open(py, None, |open| job(&open.file))
    }

    /// Returns the array at a path, which was taken after this number of saves; `None` if there is none.
    pub(crate) fn array(&self, py: Python<'_>, taken: Saves, path: &str) -> PyResult<Option<Arc<Array>>> {
        self.with_open(py, Some(taken), |open| open.array(path))
    }

    /// Returns a block, which was taken after this number of saves.
    pub(crate) fn block(&self, py: Python<'_>, taken: Saves, number: usize) -> PyResult<Block> {
        self.with_open(py, Some(taken), |open| open.file.block(number))
    }

    fn with_open<T: Send>(
        &self,
        py: Python<'_>,
        taken: Option<Saves>,
        job: impl FnOnce(&Open) -> Result<T> + Send,
    ) -> PyResult<T> {
        let now = locked(&self.state).clone();
        let label = || named::shown(&self.source);
        if taken.is_some_and(|taken| taken != now.saves) {
            let message = "was saved since the array or block was taken; take it again";
            return Err(exception(&Error::new(Kind::Changed, message).of(label())));
        }
        let closed = || PyValueError::new_err(format!("{}: the file is closed", label().display()));
        let open = now.open.ok_or_else(closed)?;
        if let Some(open) = open.get() {
            return wait(py, || job(open));
        }
        // In a forked process.
        let again = wait(py, || {
            State::of(open_version(&self.source, &self.options, Some(&now.version))?, now.saves)
        })?;
        *locked(&self.state) = again.clone();
        let open = again.open.ok_or_else(closed)?;
        wait(py, || open.get().map_or_else(|| Err(Error::new(Kind::Changed, "forked meanwhile")), job))
    }
}

#[pymethods]
impl File {
    /// Opens a file. `_version` is the one that it must have.
    #[new]
    #[pyo3(signature = (source, *, options=None, _version=None, **keywords))]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyAny>>,
        _version: Option<&str>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let source = source_of(source)?;
        let options = list_of_options(options, keywords)?;
        // Local paths are absolute.
        if source.as_os_str().as_encoded_bytes().ends_with(b"/") || source.is_absolute() && source.is_dir() {
            let message = "is a directory; asdf_mount.catalog() and mount() take directories";
            let error = Error::new(Kind::System(libc::EISDIR), message).of(named::shown(&source));
            return Err(exception(&error));
        }
        let state = wait(py, || State::of(open_version(&source, &options, _version)?, 0))?;
        Ok(Self { source, options, state: Mutex::new(state) })
    }

    /// Closes the file. Its arrays and blocks can no longer be read; arrays of numpy that were read, and maps, stay as they
    /// are.
    fn close(&self) {
        locked(&self.state).open = None;
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// The path or address, absolute.
    #[getter]
    fn source(&self) -> OsString {
        self.source.clone().into_os_string()
    }

    /// The options, as after `-o`.
    #[getter]
    fn options(&self) -> &str {
        &self.options
    }

    /// The version of the file, as text.
    #[getter]
    fn version(&self) -> String {
        locked(&self.state).version.clone()
    }

    /// The path or address, without password and query.
    #[getter]
    fn label(&self) -> OsString {
        named::shown(&self.source).into_os_string()
    }

    /// `asdf`, `gsd`, `bloscpack` or `blosc2`.
    #[getter]
    fn format(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |file| Ok(file.format()))
    }

    /// The text of the tree.
    #[getter]
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, Opened::tree)
    }

    /// Returns the tree as JSON.
    #[pyo3(name = "_tree_json")]
    fn tree_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.with(py, Opened::tree_json)?))
    }

    /// Returns the paths of the arrays that the catalogue lists.
    #[pyo3(name = "_listed_arrays")]
    fn listed_arrays(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |file| Ok(file.arrays()?.into_iter().map(|facts| facts.path).collect()))
    }

    /// Returns the paths of all arrays below a directory, with masks and aliases. A path may lead to no array.
    #[pyo3(name = "_all_arrays")]
    fn all_arrays(&self, py: Python<'_>, directory: &str) -> PyResult<Vec<String>> {
        self.with(py, |file| file.array_paths(directory))
    }

    /// Returns the number of blocks.
    #[pyo3(name = "_block_count")]
    fn block_count(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, Opened::block_count)
    }

    /// Returns the references to the chunks of the arrays, as `refs.json` has them; empty if the format has none.
    #[pyo3(name = "_references")]
    fn references<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let text = self.with(py, |file| {
            let content = file.references()?;
            content.map_or_else(|| Ok(Vec::new()), |content| read_all(&*content))
        })?;
        Ok(PyBytes::new(py, &text))
    }

    /// Returns a descriptor of the local file, which the caller closes; None for a file on a server.
    #[pyo3(name = "_descriptor")]
    fn descriptor(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        let copy =
            self.with(py, |file| Ok(file.descriptor().map(|file| file.try_clone_to_owned()).transpose()?))?;
        Ok(copy.map(IntoRawFd::into_raw_fd))
    }

    /// Replaces the tree. Returns warnings.
    #[pyo3(name = "_set_tree")]
    fn set_tree(&self, py: Python<'_>, text: &str) -> PyResult<Vec<String>> {
        self.save(py, |file| file.set_tree(text))
    }

    /// Sets keys to values in YAML. Returns warnings.
    #[pyo3(name = "_set")]
    fn set(
        &self,
        py: Python<'_>,
        values: Vec<(String, String)>,
        create: bool,
        force: bool,
    ) -> PyResult<Vec<String>> {
        let values: Vec<(&str, &str)> = values.iter().map(|(key, value)| (&**key, &**value)).collect();
        self.save(py, |file| file.set(&values, Allowed { create, force }))
    }

    /// Return the paths and values that a regular expression matches, as ``asdf-mount --search`` finds them.
    #[pyo3(signature = (pattern, *, ignore_case=false))]
    fn search(&self, py: Python<'_>, pattern: &str, ignore_case: bool) -> PyResult<Vec<(String, String)>> {
        self.with(py, |file| {
            let mut found = Vec::new();
            file.search(&Pattern::new(pattern, ignore_case)?, &mut |path, value| {
                found.push((path.to_owned(), value.to_owned()));
                Ok(())
            })?;
            Ok(found)
        })
    }

    /// Returns the line of the catalogue.
    #[pyo3(name = "_line")]
    fn line<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.with(py, catalog::line)?))
    }

    /// Reads the whole file. Returns its defects: severity, offset, block and text of each.
    #[pyo3(name = "_check")]
    fn check(&self, py: Python<'_>) -> PyResult<Vec<DefectRow>> {
        let defects = self.with(py, Opened::check)?;
        let row = |defect: asdf_access::Defect| {
            (format!("{:?}", defect.severity).to_lowercase(), defect.offset, defect.block, defect.what)
        };
        Ok(defects.into_iter().map(row).collect())
    }
}

/// The severity of a defect, its offset, its block and its text.
type DefectRow = (String, u64, Option<usize>, String);

impl File {
    fn save(
        &self,
        py: Python<'_>,
        save: impl FnOnce(&mut Opened) -> Result<SaveReport> + Send,
    ) -> PyResult<Vec<String>> {
        let before = self.version();
        let saves = self.saves() + 1;
        self.with(py, |_| Ok(()))?;
        let (report, now) = wait(py, || {
            // Readers of the version before go on using their own file.
            let mut file = open_version(&self.source, &self.options, Some(&before))?;
            Ok((save(&mut file)?, State::of(file, saves)?))
        })?;
        *locked(&self.state) = now;
        let restored = report.restored.iter().map(|part| format!("restored: {part}"));
        Ok(restored.chain(report.warnings).collect())
    }
}
