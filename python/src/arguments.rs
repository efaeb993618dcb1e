//! Sources and options, as Python programs give them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use asdf_access::named::{self, without_file_scheme};
use asdf_access::options::Options;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyMapping, PyString};

use crate::waiting::exception;

/// Returns a source as an absolute path, or the address of a file on a server.
#[pyfunction]
pub(crate) fn source_text(source: &Bound<'_, PyAny>) -> PyResult<OsString> {
    Ok(source_of(source)?.into_os_string())
}

/// Returns a source as an absolute path, or the address of a file on a server.
pub(crate) fn source_of(source: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let text: OsString = source.py().import("os")?.call_method1("fsdecode", (source,))?.extract()?;
    if text.is_empty() || text.as_bytes().contains(&0) {
        return Err(PyValueError::new_err(format!("{text:?} is not the name of a file")));
    }
    let source = without_file_scheme(text.into());
    // An address that is not valid is an error when it is opened.
    let is_local = named::is_local(&source).unwrap_or(false);
    Ok(if is_local { std::env::current_dir()?.join(source) } else { source })
}

/// Returns an argument as messages show it: an address without password and query.
#[pyfunction]
pub(crate) fn shown(argument: PathBuf) -> OsString {
    named::shown(&argument).into_os_string()
}

/// Returns options as a list after `-o`; an error if the program would refuse them.
#[pyfunction]
pub(crate) fn option_text(options: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
    let list = list_of_options(options, None)?;
    Options::parse([&OsString::from(&list)]).map_err(|error| exception(&error))?;
    Ok(list)
}

/// Returns options as a list after `-o`: a text or a mapping, then keywords, whose names have `_` for `-`.
pub(crate) fn list_of_options(
    options: Option<&Bound<'_, PyAny>>,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<String> {
    let mut list: Vec<String> = Vec::new();
    let mut named: Vec<(String, Bound<'_, PyAny>)> = Vec::new();
    match options {
        None => {}
        Some(text) if text.is_instance_of::<PyString>() => list.push(text.extract()?),
        Some(other) => {
            let wrong = || {
                // Their values may be secrets.
                let kind = other.get_type();
                PyTypeError::new_err(format!(
                    "options are a text or a mapping with names, such as {{\"anonymous\": True}}, not {kind}"
                ))
            };
            let mapping = other.cast::<PyMapping>().map_err(|_| wrong())?;
            for item in mapping.items()?.iter() {
                named.push(item.extract().map_err(|_| wrong())?);
            }
        }
    }
    for (name, value) in keywords.into_iter().flatten() {
        named.push((name.extract::<String>()?.replace('_', "-"), value));
    }
    for (name, value) in named {
        let flag = value.cast::<PyBool>().ok().map(|flag| flag.is_true());
        let text = match flag {
            Some(true) => name,
            Some(false) => continue,
            None if value.is_none() => continue,
            None => format!("{name}={}", value.str()?),
        };
        list.push(text.replace('\\', r"\\").replace('"', "\\\"").replace(',', r"\,"));
    }
    Ok(list.join(","))
}
