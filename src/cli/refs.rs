//! `--refs`: writes the references of files, without a mount.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::complain;
use crate::cache::Cache;
use crate::error::{Error, Kind, Result};
use crate::exit;
use crate::format::{self, Context};
use crate::source::{BufferedSource, FileSource};

/// Name of the references in a mounted file.
const REFS: &str = "refs.json";
/// Cache budget in bytes.
const CACHE_BUDGET: u64 = 16 << 20;
/// Bytes written at once.
const PIECE: usize = 64 << 10;

/// Writes a line for each file; the exit status is that of the last failure.
pub(super) fn run(files: &[PathBuf]) -> Result<u8> {
    let (mut out, mut status) = (io::stdout().lock(), exit::OK);
    for file in files {
        match write(file, &mut out).map_err(|error| error.of(file)) {
            Ok(()) => {}
            // A reader that closes the pipe early is no failure.
            Err(error) if error.kind() == Kind::System(libc::EPIPE) => break,
            Err(error) => {
                complain(&error.to_string());
                status = exit::of(&error);
            }
        }
    }
    Ok(status)
}

fn write(file: &Path, out: &mut dyn Write) -> Result<()> {
    let source = Arc::new(BufferedSource::new(Arc::new(FileSource::open(file)?)));
    let container = format::open(source, &Context::new(Arc::new(Cache::new(CACHE_BUDGET))))?;
    let format = container.format();
    let none = || Error::unsupported(format!("files of the format {format} have no references"));
    let content = container.derived_file(REFS)?.ok_or_else(none)?.content?;
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    while at < content.len() {
        let read = content.read_at(at, &mut piece)?;
        if read == 0 {
            return Err(Error::damaged("the references end early"));
        }
        out.write_all(&piece[..read])?;
        at += read as u64;
    }
    Ok(out.flush()?)
}
