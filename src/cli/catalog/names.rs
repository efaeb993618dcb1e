//! A list of file names in a file: one name a line, or each name followed by NUL.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use seekable::error::{Error, Kind, Result};

/// Length in bytes from which a name is refused. A path on Linux has at most 4096 bytes.
const MAX_NAME: usize = 1 << 16;

/// Opens a list; `-` is standard input.
pub(super) fn open(list: &Path, has_nuls: bool) -> Result<impl Iterator<Item = Result<PathBuf>>> {
    let text: Box<dyn Read> = if list.as_os_str() == "-" {
        Box::new(stdin())
    } else {
        Box::new(File::open(list).map_err(|error| Error::from(error).of(list))?)
    };
    Ok(names(BufReader::new(text), if has_nuls { 0 } else { b'\n' }, list.to_owned()))
}

/// Returns the names in a text. Empty names are skipped.
fn names(mut text: impl BufRead, end: u8, list: PathBuf) -> impl Iterator<Item = Result<PathBuf>> {
    std::iter::from_fn(move || {
        loop {
            let mut name = Vec::new();
            match (&mut text).take(MAX_NAME as u64).read_until(end, &mut name) {
                Ok(0) => return None,
                Ok(MAX_NAME) => {
                    let what = "a name in the list is longer than any path; are the names separated by NUL?";
                    return Some(Err(Error::new(Kind::Usage, what).of(&list)));
                }
                Ok(_) => {}
                Err(error) => return Some(Err(Error::from(error).of(&list))),
            }
            name.pop_if(|last| *last == end);
            if !name.is_empty() {
                return Some(Ok(OsString::from_vec(name).into()));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_a_line_break_or_nul() {
        let of = |text: &[u8], end| names(text, end, "list".into()).collect::<Result<Vec<_>>>();
        assert_eq!(of(b"a\n\nb c\nd", b'\n').unwrap(), ["a", "b c", "d"].map(PathBuf::from));
        assert_eq!(of(b"a\nb\0c\0", 0).unwrap(), ["a\nb", "c"].map(PathBuf::from));
        assert!(of(&[b'a'; MAX_NAME], b'\n').is_err());
    }
}
