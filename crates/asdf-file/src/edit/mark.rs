//! The mark of an unfinished save, which overwrites the first bytes of the file.
//!
//! A save that changes more than one page of the file writes the mark first, and restores the file's own
//! first bytes last. If the program is killed in between, the mark stays: no program recognises the file as
//! ASDF, and a copy made without the journal is not mistaken for a sound file.
//!
//! The mark costs no extra fsync, so a power cut may not preserve the order: the disk may hold half of the
//! new text and no mark. Then only the journal shows that the save was interrupted.

use std::io;

use seekable::source::storage::Storage;

/// The mark. ASDF files begin with `#ASDF` or `%ASDF` and white space.
pub(crate) const MARK: [u8; 6] = *b"#ASDF!";

/// Reads the first bytes of a file. Bytes past its end are zero.
pub(crate) fn start<S: Storage>(storage: &S, file: &S::File) -> io::Result<[u8; MARK.len()]> {
    let mut start = [0; MARK.len()];
    storage.read_at(file, 0, &mut start)?;
    Ok(start)
}

/// True if the file starts with the mark.
pub(crate) fn is_marked<S: Storage>(storage: &S, file: &S::File) -> io::Result<bool> {
    Ok(start(storage, file)? == MARK)
}

/// Writes `bytes` over the start of `piece`, which holds the first bytes of the file.
pub(crate) fn put(bytes: &[u8; MARK.len()], piece: &mut [u8]) {
    if let Some(first) = piece.first_chunk_mut() {
        *first = *bytes;
    }
}
