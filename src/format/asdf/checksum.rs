//! Verifies a block's checksum by both rules in use.
//!
//! The standard defines the checksum as the MD5 of the used data as stored. Python asdf up to 5.2 wrote the
//! MD5 of the decoded data instead. Files of either kind are sound, and no version field reliably tells them
//! apart. Zeros mean that there is no checksum. For the 8-byte field of the oldest layouts no rule was ever
//! defined.

use md5::{Digest, Md5};

use super::header::{Header, Layout};
use crate::content::Content;
use crate::error::{Result, if_readable};
use crate::format::Verified;

/// Bytes hashed at once.
const PIECE: usize = 1 << 20;

/// Verifies `header`'s checksum. `decoded` is called only if the stored bytes do not match it.
pub fn verify(
    header: &Header,
    stored: &dyn Content,
    decoded: impl FnOnce() -> Result<std::sync::Arc<dyn Content>>,
) -> Result<Verified> {
    if header.layout != Layout::Md5 || !header.has_checksum() {
        return Ok(Verified::None);
    }
    if md5_of(stored)?[..] == header.checksum[..] {
        return Ok(Verified::Stored);
    }
    if header.label_text().is_empty() {
        return Ok(Verified::Mismatch);
    }
    // A damaged stream matches no checksum.
    let md5 = if_readable(decoded().and_then(|decoded| md5_of(&*decoded)))?;
    Ok(if md5.is_some_and(|md5| md5[..] == header.checksum[..]) {
        Verified::Decoded
    } else {
        Verified::Mismatch
    })
}

fn md5_of(content: &dyn Content) -> Result<[u8; 16]> {
    let mut md5 = Md5::new();
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < content.len() {
        let read = content.read_at(at, &mut piece)?;
        md5.update(&piece[..read]);
        at += read as u64;
    }
    Ok(md5.finalize().into())
}
