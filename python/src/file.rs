//! A file.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use asdf_access::catalog;
use asdf_access::library::read_all;
use asdf_access::named::{self, without_file_scheme};
use asdf_access::search::Pattern;
use asdf_access::{Allowed, Error, File as Opened, Kind, OpenOptions, Result, SaveReport};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use seekable::per_process::PerProcess;
use seekable::sync::locked;

use crate::process::Own;
use crate::waiting::wait;

/// Maximum number of options that are kept, with their caches. Scripts may renew a setting often.
const MAX_OPTIONS: usize = 16;

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
#[pyclass(frozen, module = "asdf_mount._native")]
#[derive(Debug)]
pub(crate) struct File {
    source: PathBuf,
    options: String,
    /// Locked for moments only, and with the GIL: so no thread holds the lock when the process is forked.
    version: Mutex<OpenVersion>,
}

/// An open version of a file.
#[derive(Clone, Debug)]
struct OpenVersion {
    file: Arc<Own<Opened>>,
    /// Its text.
    text: String,
}

impl OpenVersion {
    fn of(file: Opened) -> Result<Self> {
        Ok(Self { text: file.version_of_source()?, file: Arc::new(Own::new(file)) })
    }
}

/// Opens a file, which must have a version if one is given.
fn open(source: &Path, options: &str, version: Option<&str>) -> Result<Opened> {
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
    /// Runs a job on the open file.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        job: impl FnOnce(&Opened) -> Result<T> + Send,
    ) -> PyResult<T> {
        let now = locked(&self.version).clone();
        if let Some(file) = now.file.get() {
            return wait(py, || job(file));
        }
        let opened =
            wait(py, || open(&self.source, &self.options, Some(&now.text)).and_then(OpenVersion::of))?;
        *locked(&self.version) = opened.clone();
        wait(py, || opened.file.get().map_or_else(|| Err(Error::new(Kind::Changed, "forked meanwhile")), job))
    }
}

/// Returns an argument as messages show it: an address without password and query.
#[pyfunction]
pub(crate) fn shown(argument: PathBuf) -> OsString {
    named::shown(&argument).into_os_string()
}

#[pymethods]
impl File {
    /// Opens a file. `version` is the one that it must have.
    #[new]
    #[pyo3(signature = (source, options, version=None))]
    fn new(py: Python<'_>, source: PathBuf, options: String, version: Option<&str>) -> PyResult<Self> {
        let source = without_file_scheme(source);
        let opened = wait(py, || open(&source, &options, version).and_then(OpenVersion::of))?;
        Ok(Self { source, options, version: Mutex::new(opened) })
    }

    /// The version of the file, as text.
    #[getter]
    fn version(&self) -> String {
        locked(&self.version).text.clone()
    }

    /// The path or address, without password and query.
    #[getter]
    fn label(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |file| Ok(file.path().to_string_lossy().into_owned()))
    }

    /// `asdf`, `gsd`, `bloscpack` or `blosc2`.
    #[getter]
    fn format(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |file| Ok(file.format()))
    }

    /// Returns the text of the tree.
    fn tree_text(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, Opened::tree)
    }

    /// Returns the tree as JSON.
    fn tree_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.with(py, Opened::tree_json)?))
    }

    /// Returns the paths of the arrays that the catalogue lists.
    fn listed_arrays(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |file| Ok(file.arrays()?.into_iter().map(|facts| facts.path).collect()))
    }

    /// Returns the paths of all arrays below a directory, with masks and aliases. A path may lead to no array.
    fn all_arrays(&self, py: Python<'_>, directory: &str) -> PyResult<Vec<String>> {
        self.with(py, |file| file.array_paths(directory))
    }

    /// Returns the number of blocks.
    fn block_count(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, Opened::block_count)
    }

    /// Returns the references to the chunks of the arrays, as `refs.json` has them; empty if the format has none.
    fn references<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let text = self.with(py, |file| {
            let content = file.references()?;
            content.map_or_else(|| Ok(Vec::new()), |content| read_all(&*content))
        })?;
        Ok(PyBytes::new(py, &text))
    }

    /// Returns a descriptor of the local file, which the caller closes; None for a file on a server.
    fn descriptor(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        let copy =
            self.with(py, |file| Ok(file.descriptor().map(|file| file.try_clone_to_owned()).transpose()?))?;
        Ok(copy.map(IntoRawFd::into_raw_fd))
    }

    /// Replaces the tree. Returns whether the file was written, what was restored in the text, and warnings.
    fn set_tree(&self, py: Python<'_>, text: &str) -> PyResult<Saved> {
        self.save(py, |file| file.set_tree(text))
    }

    /// Sets keys to values in YAML. Returns what `set_tree` does.
    fn set(
        &self,
        py: Python<'_>,
        values: Vec<(String, String)>,
        create: bool,
        force: bool,
    ) -> PyResult<Saved> {
        let values: Vec<(&str, &str)> = values.iter().map(|(key, value)| (&**key, &**value)).collect();
        self.save(py, |file| file.set(&values, Allowed { create, force }))
    }

    /// Returns the keys and values that a pattern matches.
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
    fn line<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.with(py, catalog::line)?))
    }

    /// Reads the whole file. Returns its defects: severity, offset, block and text of each.
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

/// The result of a save: true if the file was written, what was restored in the text, and warnings.
type Saved = (bool, Vec<String>, Vec<String>);

impl File {
    fn save(
        &self,
        py: Python<'_>,
        save: impl FnOnce(&mut Opened) -> Result<SaveReport> + Send,
    ) -> PyResult<Saved> {
        let before = self.version();
        let (report, now) = wait(py, || {
            // Readers of the version before go on using their own file.
            let mut file = open(&self.source, &self.options, Some(&before))?;
            Ok((save(&mut file)?, OpenVersion::of(file)?))
        })?;
        *locked(&self.version) = now;
        Ok((report.written, report.restored, report.warnings))
    }
}
