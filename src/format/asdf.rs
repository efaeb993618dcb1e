//! ASDF, all three generations of its layout.

pub mod chain;

use std::sync::Arc;

use super::{Container, Context};
use crate::error::{Error, Result};
use crate::source::Source;

/// The format's name.
pub const NAME: &str = "asdf";

/// Whether a file that begins with `head` is an ASDF file.
pub fn recognises(head: &[u8]) -> bool {
    head.starts_with(b"#ASDF ") || head.starts_with(b"%ASDF ")
}

/// Opens an ASDF file.
pub fn open(source: Arc<dyn Source>, context: &Context) -> Result<Arc<dyn Container>> {
    let _ = (source, context);
    Err(Error::unsupported("not built yet"))
}
