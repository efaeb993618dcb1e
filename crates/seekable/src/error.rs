//! Errors: a message with file, block and offset.
//!
//! A [`Kind`] tells the caller how to react to an error. Only [`Error::errno`] chooses an errno. Messages are
//! lower case, without a full stop. They say what is wrong and, if possible, what to do.

mod shown;

use std::path::{Path, PathBuf};
use std::{fmt, io};

pub use shown::{beginning, columns, in_json, in_shell, is_unsafe, one_line, padded, printable, to_json};

/// The result of an operation that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The meaning of an error for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is no such name, block or attribute.
    NotFound,
    /// The file is of no known format.
    Unrecognised,
    /// The bytes violate their format: they are truncated, parts overlap, a number overflows, a stream is
    /// broken.
    Damaged,
    /// The bytes may be valid, but this program can't read them: an unknown codec or version.
    Unsupported,
    /// Another program changed or replaced the source; data parsed from it are invalid.
    Changed,
    /// Another program has the file locked.
    Busy,
    /// Another program changed the tree after the text of a save was begun.
    Conflict,
    /// The new text of a tree does not fit into the file, or is too large to handle.
    TooLarge,
    /// The file can't be written.
    ReadOnly,
    /// The request would damage the file.
    Refused,
    /// A save was begun and can be neither finished nor undone yet.
    Unfinished,
    /// The arguments are invalid.
    Usage,
    /// The system refused; the errno is passed on unchanged.
    System(i32),
}

/// An error with its file and location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    kind: Kind,
    message: String,
    /// Boxed to keep errors, and thus results, small.
    context: Option<Box<ErrorContext>>,
}

/// The file and location of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ErrorContext {
    file: Option<PathBuf>,
    offset: Option<u64>,
    block: Option<u64>,
    stream: Option<StreamPlace>,
    wrong_checksum: bool,
}

/// The position in a stream at which decoding failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPlace {
    /// Bit offset in the stored bytes, if known.
    pub bit: Option<u64>,
    /// Number of decoded bytes before the position.
    pub decoded: u64,
}

impl Error {
    /// Creates an error of `kind`.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), context: None }
    }

    fn context_mut(&mut self) -> &mut ErrorContext {
        self.context.get_or_insert_default()
    }

    /// Creates an error for bytes that violate their format.
    pub fn damaged(message: impl Into<String>) -> Self {
        Self::new(Kind::Damaged, message)
    }

    /// Creates an error for bytes that this program can't read.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, message)
    }

    /// Adds the offset in the source, unless the error has one.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.context_mut().offset.get_or_insert(offset);
        self
    }

    /// Adds the file, unless the error has one.
    #[must_use]
    pub fn of(mut self, file: impl AsRef<Path>) -> Self {
        self.context_mut().file.get_or_insert_with(|| file.as_ref().to_owned());
        self
    }

    /// Adds the block, unless the error has one.
    #[must_use]
    pub fn in_block(mut self, n: u64) -> Self {
        self.context_mut().block.get_or_insert(n);
        self
    }

    /// Adds the position in a stream. If the error has a position without a bit offset, adds only the bit
    /// offset.
    #[must_use]
    pub fn in_stream(mut self, bit: Option<u64>, decoded: u64) -> Self {
        let place = self.context_mut().stream.get_or_insert(StreamPlace { bit, decoded });
        place.bit = place.bit.or(bit);
        self
    }

    /// Returns the block, if the error concerns one.
    pub fn block(&self) -> Option<u64> {
        self.context.as_ref()?.block
    }

    /// Creates an error for a checksum mismatch.
    pub fn wrong_checksum(message: impl Into<String>) -> Self {
        let mut error = Self::damaged(message);
        error.context_mut().wrong_checksum = true;
        error
    }

    /// True for a checksum mismatch.
    pub fn is_wrong_checksum(&self) -> bool {
        self.context.as_ref().is_some_and(|context| context.wrong_checksum)
    }

    /// Prefixes the message with `context` and a colon.
    #[must_use]
    pub fn within(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// Appends a semicolon and advice to the message.
    #[must_use]
    pub fn advise(mut self, to_do: impl fmt::Display) -> Self {
        self.message = format!("{}; {to_do}", self.message);
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the message with block and position in the stream, without the file.
    pub fn message(&self) -> String {
        self.context
            .as_ref()
            .and_then(|context| context.block)
            .map_or_else(String::new, |n| format!("block {n}: "))
            + &self.message_in_block()
    }

    /// Returns the message with the position in the stream, without file and block.
    pub fn message_in_block(&self) -> String {
        let message = printable(&self.message);
        match self.stream() {
            Some(StreamPlace { bit: Some(bit), decoded }) => {
                format!("compressed bit {bit}, decoded offset {decoded}: {message}")
            }
            Some(StreamPlace { bit: None, decoded }) => format!("decoded offset {decoded}: {message}"),
            None => message.into_owned(),
        }
    }

    /// Returns the position in a stream, if known.
    pub fn stream(&self) -> Option<StreamPlace> {
        self.context.as_ref()?.stream
    }

    /// Returns the offset in the source, if known.
    pub fn offset(&self) -> Option<u64> {
        self.context.as_ref()?.offset
    }

    /// True if the bytes themselves are the cause, so that every read fails in the same way.
    pub fn lasts(&self) -> bool {
        matches!(self.kind, Kind::Damaged | Kind::Unsupported)
    }

    /// True if the error says nothing about the bytes, which could not be read or changed meanwhile. It must not be
    /// taken for a property of the file.
    pub fn is_of_reading(&self) -> bool {
        matches!(self.kind, Kind::System(_) | Kind::Changed)
    }

    /// True if the system is short of a resource, which says nothing about the file.
    pub fn is_shortage(&self) -> bool {
        matches!(self.kind, Kind::System(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS))
    }

    /// Returns the errno for a program that reads the mount.
    pub fn errno(&self) -> i32 {
        match self.kind {
            Kind::NotFound => libc::ENOENT,
            Kind::Unrecognised | Kind::Damaged | Kind::Unsupported | Kind::Unfinished => libc::EIO,
            Kind::Changed => libc::ESTALE,
            Kind::Busy | Kind::Conflict => libc::EBUSY,
            Kind::TooLarge => libc::EFBIG,
            Kind::ReadOnly => libc::EROFS,
            Kind::Refused | Kind::Usage => libc::EINVAL,
            Kind::System(errno) => errno,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = self.context.as_ref().and_then(|context| context.file.as_ref()) {
            write!(out, "{}: ", one_line(&file.to_string_lossy()))?;
        }
        out.write_str(&self.message())?;
        match self.offset() {
            Some(offset) => write!(out, " (at byte {offset})"),
            None => Ok(()),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        // A library makes an io::Error without an errno for invalid data.
        match error.raw_os_error() {
            Some(errno) => Self::new(Kind::System(errno), plain(&error)),
            None => Self::damaged(error.to_string()),
        }
    }
}

/// Returns the system's message in the style of ours: lower case, without the number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

impl From<rustix::io::Errno> for Error {
    fn from(errno: rustix::io::Errno) -> Self {
        io::Error::from(errno).into()
    }
}

/// Returns `None` for an error that is a property of the bytes. Fails if the bytes could not be read.
pub fn if_readable<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_of_reading() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Creates the error for an errno of the system.
pub fn errno(errno: i32) -> Error {
    io::Error::from_raw_os_error(errno).into()
}

/// Returns alternatives as text: `a, b or c`.
pub fn one_of(words: &[impl AsRef<str>]) -> String {
    let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_file_message_and_place_and_keeps_the_first_of_each() {
        let error = Error::damaged("bad magic").at(7).at(9).of("a.asdf").of("b.asdf").in_block(3).in_block(4);
        assert_eq!(error.to_string(), "a.asdf: block 3: bad magic (at byte 7)");
        let error = error.in_stream(None, 5).in_stream(Some(6), 7);
        assert_eq!(error.message(), "block 3: compressed bit 6, decoded offset 5: bad magic");
        assert_eq!(error.message_in_block(), "compressed bit 6, decoded offset 5: bad magic");
        assert_eq!(error.errno(), libc::EIO);
    }

    #[test]
    fn a_system_error_keeps_its_errno() {
        let error = Error::from(io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(error.errno(), libc::EACCES);
        assert_eq!(error.to_string(), "permission denied");
    }
}
