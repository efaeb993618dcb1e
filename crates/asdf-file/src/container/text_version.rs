//! The identity of a tree's text.

use md5::{Digest, Md5};
use seekable::content::{Content, read_exact_at};
use seekable::error::Result;

/// Bytes hashed at once.
const PIECE: usize = 256 << 10;

/// The identity of a tree's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextVersion {
    /// Length of the text in bytes.
    pub len: u64,
    /// MD5 digest of the text.
    pub digest: [u8; 16],
}

impl TextVersion {
    /// Computes the version of a text in memory.
    pub fn of_bytes(text: &[u8]) -> Self {
        Self { len: text.len() as u64, digest: Md5::digest(text).into() }
    }

    /// Computes the version of a content, reading all of it.
    pub fn of(text: &dyn Content) -> Result<Self> {
        Self::read(text.len(), |at, piece| read_exact_at(text, at, piece).map(|()| piece.len()))
    }

    /// Hashes the first `len` bytes that `read_at` returns, or all bytes if there are fewer.
    pub(crate) fn read<E>(
        len: u64,
        mut read_at: impl FnMut(u64, &mut [u8]) -> std::result::Result<usize, E>,
    ) -> std::result::Result<Self, E> {
        let mut md5 = Md5::new();
        let mut at = 0;
        let mut piece = vec![0; PIECE.min(usize::try_from(len).unwrap_or(PIECE))];
        while at < len {
            let wanted = usize::try_from(len - at).map_or(piece.len(), |rest| rest.min(piece.len()));
            match read_at(at, &mut piece[..wanted])? {
                0 => break,
                read => {
                    md5.update(&piece[..read]);
                    at += read as u64;
                }
            }
        }
        Ok(Self { len, digest: md5.finalize().into() })
    }
}
