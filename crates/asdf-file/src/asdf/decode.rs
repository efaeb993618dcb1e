//! The bytes of a compressed block, whatever file they are in.

use std::sync::Arc;

use seekable::codec;
use seekable::content::Content;
use seekable::error::Result;

use super::stored::codec_of;

/// Decodes the stored bytes of a block into the whole of `out`, on all cores; `label` is the compression in the block's
/// header. `go_on` is called often, on the caller's thread, and its error ends the decoding. After an error, the bytes of
/// `out` are undefined.
///
/// A file that is opened reads its blocks at any offset. This is for programs that read files themselves: it reads all of a
/// block once, with neither a seek table nor a cache.
///
/// # Errors
/// The label is unknown; the bytes are damaged, decode to another length, or are not one stream of the form that Python's
/// asdf and its plugins write.
///
/// ```
/// // A piece of ASDF's LZ4 framing, with literals only.
/// let stored = b"\0\0\0\x0b\x06\0\0\0\x60galaxy";
/// let stored = std::sync::Arc::new(seekable::content::Text::new(*stored));
/// let mut out = [0; 6];
/// asdf_file::asdf::decode::decode("lz4", stored, &mut out, &mut || Ok(()))?;
/// assert_eq!(&out, b"galaxy");
/// # Ok::<(), seekable::Error>(())
/// ```
pub fn decode(
    label: &str,
    stored: Arc<dyn Content>,
    out: &mut [u8],
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    codec::decode(codec_of(label.as_bytes())?, stored, out, go_on)
}
