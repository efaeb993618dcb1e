//! A part of a stored stream.

use crate::error::Result;

/// A part of a stored stream that decodes on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalPart {
    /// Offset in the stored bytes.
    pub offset: u64,
    /// Number of stored bytes.
    pub stored: u64,
    /// Number of decoded bytes.
    pub len: u64,
}

/// A callback that takes a part.
pub(in crate::codec) type Take<'t> = &'t mut dyn FnMut(ExternalPart) -> Result<()>;
