//! The arguments of `--ls`, `--cat` and `--extract`.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use asdf_access::options::Options;
use clap::Args;
use seekable::error::{Kind, Result, is_unsafe};

use super::action::ACTION;
use super::{any_path, complain, print, usage};
use crate::exit;
use crate::look::{Extraction, ListingForm, Look, Range, thumbnail, write_picture};

/// The group of `--ls`, `--cat` and `--extract` in `--help`.
pub(super) const LOOK: &str = "Look, without mounting";

/// The size of a thumbnail in pixels.
const THUMBNAIL: u32 = 256;

/// The actions that show a file without mounting it, and their options.
#[derive(Debug, Args)]
pub(super) struct LookArguments {
    /// List FILE, or PATHs in it, as ls -l would in a mount
    ///
    /// Names that begin with a dot, such as .asdf-mount, are listed with -a. Times are local.
    #[arg(long, help_heading = LOOK, group = ACTION)]
    ls: bool,

    /// With --ls: list directories within directories
    #[arg(short = 'R', long, help_heading = LOOK)]
    recursive: bool,

    /// With --ls: list names that begin with a dot, too. With --info: show all keys, and values in full
    #[arg(short, long, help_heading = LOOK)]
    pub(super) all: bool,

    /// Write the bytes of each PATH in FILE to stdout; a PATH may be a pattern, such as 'arrays/*.npy'
    ///
    /// Binary data are not written to a terminal.
    #[arg(long, help_heading = LOOK, group = ACTION)]
    cat: bool,

    /// With --cat: write only these bytes of each PATH: FROM-TO, FROM- or -COUNT
    ///
    /// Offsets count from 0, and TO is included: 0-79 are the first 80 bytes. FROM- leads to the end;
    /// -COUNT are the last COUNT bytes. Reading beyond the end is not an error.
    #[arg(long, help_heading = LOOK, value_name = "FROM-TO", allow_hyphen_values = true)]
    range: Option<Range>,

    /// Write the picture of FILE to OUT.png, at most 256 pixels wide and high
    ///
    /// It is preview.png, or the first picture in preview/, with the instrument and the filter below, and DAMAGED
    /// if the file is. A file without pictures gets the text of --info. File managers call this for their thumbnails.
    #[arg(long, help_heading = LOOK, group = ACTION)]
    thumbnail: bool,

    /// With --thumbnail: maximum width and height in pixels
    #[arg(short = 's', long, help_heading = LOOK, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(1..=1024))]
    size: Option<u32>,

    /// Copy FILE, or PATHs or patterns in it, into the current directory or DIR (-C)
    ///
    /// A file that exists is kept, unless --force is given. A file that can't be read is left out and named
    /// at the end, and the exit status is 1; all others are extracted. No link is followed on the way, so
    /// nothing is written outside of DIR.
    #[arg(long, help_heading = LOOK, group = ACTION)]
    extract: bool,

    /// With --extract: the directory to extract into; made if it is missing
    #[arg(short = 'C', long, help_heading = LOOK, value_name = "DIR", value_parser = any_path())]
    directory: Option<PathBuf>,
}

impl LookArguments {
    /// Runs `--thumbnail`. `paths` are the file and the picture to write; `-` is standard output.
    pub(super) fn thumbnail(&self, paths: &[PathBuf], options: &Options) -> Result<u8> {
        let [file, picture] = paths else {
            return Err(usage(
                "--thumbnail needs a FILE and the name of the picture, OUT.png ('-' for stdout)",
            ));
        };
        let size = self.size.unwrap_or(THUMBNAIL);
        let bytes = match Look::open(file, options) {
            Ok(look) => {
                let bytes = look.thumbnail(size).map_err(|error| error.of(file))?;
                look.close();
                bytes
            }
            Err(error) if error.kind() == Kind::Damaged => thumbnail::of_damage(&error, size)?,
            Err(error) => return Err(error),
        };
        if picture.as_os_str() == "-" {
            return print(&bytes).map(|()| exit::OK);
        }
        write_picture(picture, &bytes).map_err(|error| error.of(picture))?;
        Ok(exit::OK)
    }

    /// Returns the option `--directory` and its path, which may be empty by mistake.
    pub(super) fn directory(&self) -> (&'static str, &Option<PathBuf>) {
        ("--directory", &self.directory)
    }

    /// Runs `--ls`. `paths` are the file and the paths in it.
    pub(super) fn list(&self, paths: &[PathBuf], options: &Options, json: bool) -> Result<u8> {
        let Some((file, paths)) = paths.split_first() else {
            return Err(usage("--ls needs a FILE"));
        };
        let look = match Look::open(file, options) {
            Ok(look) => look,
            Err(error) => {
                complain(&error.to_string());
                return Ok(exit::LS_FAILED);
            }
        };
        let listing = ListingForm { json, recursive: self.recursive, all: self.all };
        let status = look.list(paths, listing, &mut BufWriter::new(std::io::stdout().lock()));
        look.close();
        Ok(status)
    }

    /// Runs `--cat`. `paths` are the file and the paths in it.
    pub(super) fn cat(&self, paths: &[PathBuf], options: &Options) -> Result<u8> {
        let Some((file, paths)) = paths.split_first().filter(|(_, paths)| !paths.is_empty()) else {
            return Err(usage("--cat needs a FILE and a PATH in it; --ls lists them"));
        };
        let look = Look::open(file, options)?;
        let status = look.cat(paths, self.range.unwrap_or(Range::ALL), &mut binary_stdout());
        look.close();
        Ok(status)
    }

    /// Runs `--extract`. `paths` are the file and the paths in it.
    pub(super) fn extract(
        &self,
        paths: &[PathBuf],
        options: &Options,
        force: bool,
        quiet: bool,
    ) -> Result<u8> {
        let Some((file, paths)) = paths.split_first() else {
            return Err(usage("--extract needs a FILE"));
        };
        let look = Look::open(file, options)?;
        let into = self.directory.as_deref().unwrap_or(Path::new("."));
        let status = look.extract(&Extraction { paths, into, force, quiet });
        look.close();
        status
    }
}

/// Returns stdout for bytes of any kind; a terminal gets no binary data.
pub(super) fn binary_stdout() -> Box<dyn Write> {
    // `Stdout` is line-buffered: it would search each piece for line breaks.
    let out: Box<dyn Write> = match rustix::io::dup(std::io::stdout()) {
        Ok(descriptor) => Box::new(std::fs::File::from(descriptor)),
        Err(_) => Box::new(std::io::stdout()),
    };
    if std::io::stdout().is_terminal() { Box::new(TextOnly(out)) } else { out }
}

/// A terminal, to which no binary data are written.
struct TextOnly<W>(W);

impl<W: Write> Write for TextOnly<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if is_binary(bytes) {
            let message = "it is a terminal, and the data are binary; add >FILE, or | less";
            return Err(io::Error::other(message));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// True if a part of a file is no text, or contains characters that a terminal acts on.
fn is_binary(bytes: &[u8]) -> bool {
    let acts = |letter: char| is_unsafe(letter) && !matches!(letter, '\n' | '\r' | '\t');
    let mut rest = bytes;
    // A character may be split between two parts.
    let first = rest.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    rest = rest.get(first..).unwrap_or_default();
    match std::str::from_utf8(rest) {
        Ok(text) => text.contains(acts),
        Err(error) if error.error_len().is_some() => true,
        Err(error) => String::from_utf8_lossy(&rest[..error.valid_up_to()]).contains(acts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_binary_data() {
        for text in ["a: \u{e9}\r\n\t", ""] {
            assert!(!is_binary(text.as_bytes()));
        }
        assert!(!is_binary(&"\u{20ac}".as_bytes()[..2]) && !is_binary(&"\u{20ac}x".as_bytes()[1..]));
        for binary in [&b"\x93NUMPY\x01\0"[..], b"a\0", b"a\x1b[2J", "\u{9b}2J".as_bytes(), b"a\xffa"] {
            assert!(is_binary(binary), "{binary:?}");
        }
    }
}
