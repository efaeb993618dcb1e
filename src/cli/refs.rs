//! `--refs`: writes the references of files, without a mount.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use asdf_access::files::open_whole;
use asdf_access::library;
use asdf_access::named::{Named, Servers};
use asdf_access::options::Options;
use asdf_file::container::Context;
use seekable::cache::Cache;
use seekable::error::{Error, Kind, Result};
use seekable::source::BufferedSource;

use super::complain;
use crate::exit;

/// Cache budget in bytes.
const CACHE_BUDGET: u64 = 16 << 20;
/// Cache budget in bytes for files on servers.
const SERVERS_BUDGET: u64 = 128 << 20;
/// Bytes written at once.
const PIECE: usize = 64 << 10;

/// Writes a line for each file; the exit status is that of the last failure.
pub(super) fn run(files: &[PathBuf], options: &Options, quiet: bool) -> Result<u8> {
    let servers = Servers::new(&options.remote, &Arc::new(Cache::new(SERVERS_BUDGET)));
    let mut out = io::stdout().lock();
    let mut status = exit::OK;
    for file in files {
        let named = match Named::of(file, &servers) {
            Ok(named) => named,
            Err(error) => {
                complain(&error.to_string());
                status = exit::of(&error);
                continue;
            }
        };
        if !quiet && named.label().to_string_lossy().ends_with("?…") {
            complain(&format!(
                "{}: the references do not have the query of the address; give each reference the whole address",
                named.label().display()
            ));
        }
        match write(&named, &mut out).map_err(|error| error.of(named.label())) {
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

fn write(named: &Named, out: &mut dyn Write) -> Result<()> {
    let source = Arc::new(BufferedSource::new(match named {
        Named::Local(path) => open_whole(path)?,
        Named::Elsewhere(place) => place.open()?,
    }));
    let file = library::File::of_source(source, &Context::new(Arc::new(Cache::new(CACHE_BUDGET))))?;
    let format = file.format();
    let none = || Error::unsupported(format!("files of the format {format} have no references"));
    let content = file.references()?.ok_or_else(none)?;
    let mut piece = vec![0; PIECE];
    let mut at = 0;
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
