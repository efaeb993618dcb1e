//! Verifies a block's checksum by both rules in use.
//!
//! The standard defines the checksum as the MD5 of the used data as stored. Python asdf up to 5.2 wrote the
//! MD5 of the decoded data instead. Files of either kind are sound, and no version field reliably tells them
//! apart. Zeros mean that there is no checksum. For the 8-byte field of the oldest layouts no rule was ever
//! defined.

use seekable::error::{Result, if_readable};

use seekable::content::{Content, md5_of};

use super::header::{Header, Layout};
use crate::container::Verified;

/// Verifies `header`'s checksum. `decoded` is called only if the stored bytes do not match it.
pub(crate) fn verify(
    header: &Header,
    stored: &dyn Content,
    decoded: impl FnOnce() -> Result<std::sync::Arc<dyn Content>>,
) -> Result<Verified> {
    if header.layout != Layout::Md5 || !header.has_checksum() {
        return Ok(Verified::None);
    }
    if md5_of(stored, 0)?[..] == header.checksum[..] {
        return Ok(Verified::Stored);
    }
    if header.label_text().is_empty() {
        return Ok(Verified::Mismatch);
    }
    // A damaged stream matches no checksum.
    let md5 = if_readable(decoded().and_then(|decoded| md5_of(&*decoded, 0)))?;
    Ok(if md5.is_some_and(|md5| md5[..] == header.checksum[..]) {
        Verified::Decoded
    } else {
        Verified::Mismatch
    })
}
