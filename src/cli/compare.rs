//! `--diff A B`: compares two files, or the files of two directories.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};
use std::iter::once;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_access::files::{FilesToRead, Found};
use asdf_access::named::{self, Servers};
use asdf_access::options::Options;
use asdf_views::format;
use seekable::cache::Cache;
use seekable::error::{Error, Kind, Result, one_line};

use super::{complain, diff, print};
use crate::exit;
use crate::look::Look;

/// Compares two files, or the files of two directories. The exit status is that of diff(1): 0 if they are equal, 1 if they
/// differ, 2 after an error.
pub(super) fn run(one: &Path, other: &Path, options: &Options) -> u8 {
    let compared = match (is_directory(one), is_directory(other)) {
        (false, false) => compare(one, other, options, false),
        (true, true) => compare_directories(one, other, options),
        (is_first, _) => {
            let (directory, file) = if is_first { (one, other) } else { (other, one) };
            if let Err(error) = file.metadata() {
                complain(&Error::from(error).of(file).to_string());
                return exit::DIFF_FAILED;
            }
            let message = "is a directory; give two files or two directories";
            Err(Error::new(Kind::Usage, message).of(directory))
        }
    };
    match compared {
        Ok(status) => status,
        // A reader that closes the pipe early has seen a difference.
        Err(error) if error.kind() == Kind::System(libc::EPIPE) => exit::DIFFERENT,
        Err(error) => {
            complain(&error.to_string());
            exit::DIFF_FAILED
        }
    }
}

fn is_directory(path: &Path) -> bool {
    matches!(named::is_local(path), Ok(true)) && path.is_dir()
}

/// Compares the files of the same names in two directories, and in those within them. Files of unknown formats are left
/// out.
fn compare_directories(one: &Path, other: &Path, options: &Options) -> Result<u8> {
    let mut status = exit::OK;
    let failed = |error: &Error| {
        complain(&error.to_string());
        exit::DIFF_FAILED
    };
    let mut files = [BTreeMap::new(), BTreeMap::new()];
    for (directory, files) in [one, other].into_iter().zip(&mut files) {
        named::refuse_mount(directory)?;
        let servers = Servers::new(&options.remote, &Arc::new(Cache::new(0)));
        for file in FilesToRead::new(once(directory.to_owned()), &servers) {
            match (&file, file.label().strip_prefix(directory)) {
                (Found::Failed(path, error), _) => status = failed(&error.clone().of(path)),
                (_, Ok(name)) => drop(files.insert(name.to_owned(), file)),
                (_, Err(_)) => {}
            }
        }
    }
    let names: BTreeSet<PathBuf> = files.iter().flat_map(BTreeMap::keys).cloned().collect();
    for name in names {
        let compared = match [files[0].get(&name), files[1].get(&name)] {
            [Some(file), Some(_)] => {
                let compared = compare(&one.join(&name), &other.join(&name), options, true);
                compared.or_else(|error| if file.is_passed_over(&error) { Ok(exit::OK) } else { Err(error) })
            }
            [file, another] => match file.or(another) {
                Some(file) => only_in(if another.is_none() { one } else { other }, &name, file),
                None => Ok(exit::OK),
            },
        };
        status = status.max(match compared {
            Err(error) if error.kind() == Kind::System(libc::EPIPE) => return Err(error),
            Err(error) => failed(&error),
            Ok(status) => status,
        });
    }
    Ok(status)
}

/// Says that only one of the directories has a file, as diff does.
fn only_in(directory: &Path, name: &Path, file: &Found) -> Result<u8> {
    match file.open().and_then(|source| format::check_kind(&*source)) {
        Err(error) if file.is_passed_over(&error) => Ok(exit::OK),
        Err(error) => Err(error.of(file.label())),
        Ok(()) => {
            let [directory, name] = [directory, name].map(|path| one_line(&path.to_string_lossy()));
            print(format!("Only in {directory}: {name}\n").as_bytes())?;
            Ok(exit::DIFFERENT)
        }
    }
}

/// Compares two files. With `is_titled`, a line names them if they differ.
fn compare(one: &Path, other: &Path, options: &Options, is_titled: bool) -> Result<u8> {
    let looks = [Look::open(one, options)?, Look::open(other, options)?];
    let names = [one, other].map(|path| one_line(&named::shown(path).to_string_lossy()));
    let mut texts = Vec::new();
    for (look, name) in looks.iter().zip(&names) {
        texts.push(look.tree_text().map_err(|error| error.of(Path::new(name)))?);
    }
    let before = &texts[0];
    let after = &texts[1];
    let mut title = is_titled.then(|| format!("diff {} {}\n", names[0], names[1]));
    if before != after {
        print(title.take().unwrap_or_default().as_bytes())?;
    }
    diff::show(before, after, (&names[0], &names[1]))?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut has_failed = false;
    let mut failed = |path: &Path, error: &seekable::error::Error| {
        has_failed = true;
        complain(&format!("diff {} {}: {}: {}", names[0], names[1], path.display(), error.message()));
    };
    let mut show = |hunk: &str| {
        out.write_all(title.take().unwrap_or_default().as_bytes())?;
        Ok(out.write_all(&diff::for_stdout(hunk.as_bytes()))?)
    };
    let differ = looks[0].compare_arrays(&looks[1], &mut show, &mut failed)?;
    out.flush()?;
    for look in looks {
        look.close();
    }
    Ok(if has_failed {
        exit::DIFF_FAILED
    } else if differ || before != after {
        exit::DIFFERENT
    } else {
        exit::OK
    })
}
