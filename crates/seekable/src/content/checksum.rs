//! Checksums of contents.

use md5::{Digest, Md5};

use super::{Content, read_exact_at};
use crate::error::Result;
use crate::workers::caller;

/// Bytes read at once.
const PIECE: u64 = 1 << 20;

/// Returns the MD5 of the bytes from `start` on.
///
/// # Errors
/// The bytes can't be read.
pub fn md5_of(content: &dyn Content, start: u64) -> Result<[u8; 16]> {
    let mut md5 = Md5::new();
    let mut at = start;
    let mut piece = vec![0; PIECE as usize];
    while at < content.len() {
        caller::look()?;
        let len = (content.len() - at).min(PIECE) as usize;
        read_exact_at(content, at, &mut piece[..len])?;
        md5.update(&piece[..len]);
        at += len as u64;
    }
    Ok(md5.finalize().into())
}

/// Returns the checksum of the bytes from `start` on, for users: `md5 9a0364b9e99bb480dd25e1f0284c8555`.
///
/// # Errors
/// The bytes can't be read.
pub fn checksum(content: &dyn Content, start: u64) -> Result<String> {
    let digest = md5_of(content, start)?;
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("md5 {digits}"))
}
