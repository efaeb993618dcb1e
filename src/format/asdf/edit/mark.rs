//! The mark of a save under way, which stands on the file's first bytes.
//!
//! A save that changes more than one page of the file writes the mark first and the file's own first bytes
//! last. If the program is killed in between, the file itself says so: no program takes it for an ASDF file,
//! and a copy of it that was made without the journal is not taken for sound.
//!
//! The mark costs no further sync, so a power cut does not keep that order: the disk may have half of the
//! new text and no mark. Then only the journal tells.

use std::io;

use crate::source::storage::Storage;

/// The mark. ASDF files begin with `#ASDF` or `%ASDF` and white space.
pub(crate) const MARK: [u8; 6] = *b"#ASDF!";

/// The first bytes of a file, zeros behind its end.
pub(crate) fn start<S: Storage>(storage: &S, file: &S::File) -> io::Result<[u8; MARK.len()]> {
    let mut start = [0; MARK.len()];
    storage.read_at(file, 0, &mut start)?;
    Ok(start)
}

/// True if the file has the mark.
pub(crate) fn is_marked<S: Storage>(storage: &S, file: &S::File) -> io::Result<bool> {
    Ok(start(storage, file)? == MARK)
}

/// Puts `bytes` over the first bytes of a piece at the start of the file.
pub(crate) fn put(bytes: &[u8; MARK.len()], piece: &mut [u8]) {
    if let Some(first) = piece.first_chunk_mut() {
        *first = *bytes;
    }
}
