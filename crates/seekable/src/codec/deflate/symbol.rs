//! Items of the output: bytes, or symbols that are bytes or markers.

/// The first marker. `MARKER + i` stands for byte `i` of the 32 KiB before the position where decoding began.
/// Symbols below 256 are bytes. No other values occur.
pub(super) const MARKER: u16 = 0x8000;

/// An item of the output.
pub(super) trait OutputSymbol: Copy + Default + 'static {
    /// Returns the item for a literal.
    fn from_byte(byte: u8) -> Self;
}

impl OutputSymbol for u8 {
    #[inline(always)]
    fn from_byte(byte: u8) -> Self {
        byte
    }
}

impl OutputSymbol for u16 {
    #[inline(always)]
    fn from_byte(byte: u8) -> Self {
        Self::from(byte)
    }
}
