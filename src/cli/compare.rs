//! `--diff A B`: compares two files.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::{complain, diff};
use crate::error::{Kind, Result, one_line};
use crate::exit;
use crate::look::Look;
use crate::named;
use crate::options::Options;

/// Compares two files. The exit status is that of diff(1): 0 if they are equal, 1 if they differ, 2 after an error.
pub(super) fn run(one: &Path, other: &Path, options: &Options) -> u8 {
    match compare(one, other, options) {
        Ok(status) => status,
        // A reader that closes the pipe early has seen a difference.
        Err(error) if error.kind() == Kind::System(libc::EPIPE) => exit::DIFFERENT,
        Err(error) => {
            complain(&error.to_string());
            exit::DIFF_FAILED
        }
    }
}

fn compare(one: &Path, other: &Path, options: &Options) -> Result<u8> {
    let looks = [Look::open(one, options)?, Look::open(other, options)?];
    let names = [one, other].map(|path| one_line(&named::shown(path).to_string_lossy()));
    let mut texts = Vec::new();
    for (look, name) in looks.iter().zip(&names) {
        texts.push(look.tree_text().map_err(|error| error.of(Path::new(name)))?);
    }
    let before = &texts[0];
    let after = &texts[1];
    diff::show(before, after, (&names[0], &names[1]))?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut has_failed = false;
    let mut failed = |path: &Path, error: &crate::error::Error| {
        has_failed = true;
        complain(&format!("{}: {}", path.display(), error.message()));
    };
    let mut show = |hunk: &str| Ok(out.write_all(&diff::for_stdout(hunk.as_bytes()))?);
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
