//! What the output is made of: bytes, or symbols that are bytes or markers.

/// The first marker. `MARKER + i` stands for byte `i` of the 32 KiB before the place where decoding
/// began; what is below 256 is a byte; nothing else occurs.
pub(super) const MARKER: u16 = 0x8000;

/// An item of the output.
pub(super) trait Unit: Copy + Default + 'static {
    /// The item that a literal stands for.
    fn from_byte(byte: u8) -> Self;
}

impl Unit for u8 {
    #[inline(always)]
    fn from_byte(byte: u8) -> Self {
        byte
    }
}

impl Unit for u16 {
    #[inline(always)]
    fn from_byte(byte: u8) -> Self {
        Self::from(byte)
    }
}
