//! The checksum of a content, for users.

use md5::{Digest, Md5};

use super::{Content, read_exact_at};
use crate::error::Result;

/// Bytes read at once.
const PIECE: u64 = 1 << 18;

/// Returns the MD5 of the bytes from `start` on: `md5 9a0364b9e99bb480dd25e1f0284c8555`.
///
/// # Errors
/// The bytes can't be read.
pub fn checksum(content: &dyn Content, start: u64) -> Result<String> {
    let mut digest = Md5::new();
    let mut at = start;
    let mut piece = vec![0; PIECE as usize];
    while at < content.len() {
        let len = (content.len() - at).min(PIECE) as usize;
        read_exact_at(content, at, &mut piece[..len])?;
        digest.update(&piece[..len]);
        at += len as u64;
    }
    let hex: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("md5 {hex}"))
}
