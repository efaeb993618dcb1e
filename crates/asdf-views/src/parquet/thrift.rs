//! Writes structures in Thrift's compact protocol.

/// Field types.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
pub(super) const I32: u8 = 5;
const I64: u8 = 6;
pub(super) const BINARY: u8 = 8;
const LIST: u8 = 9;
pub(super) const STRUCT: u8 = 12;

/// A writer of nested structures.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
    /// The number of the last field in each open structure.
    last: Vec<i16>,
}

impl Writer {
    /// Begins the outermost structure.
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), last: vec![0] }
    }

    /// Ends the outermost structure and returns the bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    pub(super) fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Writes the header of a field. Field numbers must increase, by less than 16 each.
    fn field(&mut self, number: i16, kind: u8) {
        if let Some(last) = self.last.last_mut() {
            self.bytes.push(((number - *last) as u8) << 4 | kind);
            *last = number;
        }
    }

    pub(super) fn i32(&mut self, number: i16, value: i32) {
        self.field(number, I32);
        self.bare_i32(value);
    }

    /// Writes a number as an item of a list.
    pub(super) fn bare_i32(&mut self, value: i32) {
        self.varint(zigzag(value.into()));
    }

    pub(super) fn i64(&mut self, number: i16, value: u64) {
        self.field(number, I64);
        // All values are below 2^63.
        self.varint(zigzag(value as i64));
    }

    /// Writes a number in `len` bytes, which may be more than it needs: the last ones have no bits.
    pub(super) fn padded(&mut self, number: i16, value: u64, len: u64) {
        self.field(number, I64);
        let mut value = zigzag(value as i64);
        for _ in 1..len {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8 & 0x7f);
    }

    /// Writes bytes as a field.
    pub(super) fn bytes(&mut self, number: i16, bytes: &[u8]) {
        self.field(number, BINARY);
        self.varint(bytes.len() as u64);
        self.bytes.extend(bytes);
    }

    pub(super) fn byte(&mut self, number: i16, value: u8) {
        self.field(number, BYTE);
        self.bytes.push(value);
    }

    pub(super) fn bool(&mut self, number: i16, value: bool) {
        self.field(number, if value { TRUE } else { FALSE });
    }

    pub(super) fn text(&mut self, number: i16, text: &str) {
        self.field(number, BINARY);
        self.bare_text(text);
    }

    /// Writes a text as an item of a list.
    pub(super) fn bare_text(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }

    /// Writes the header of a list. The caller writes the items.
    pub(super) fn list(&mut self, number: i16, kind: u8, len: usize) {
        self.field(number, LIST);
        match len {
            0..15 => self.bytes.push((len as u8) << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                self.varint(len as u64);
            }
        }
    }

    /// Writes a structure as a field.
    pub(super) fn structure(&mut self, number: i16, write: impl FnOnce(&mut Self)) {
        self.field(number, STRUCT);
        self.bare_structure(write);
    }

    /// Writes a structure as an item of a list.
    pub(super) fn bare_structure(&mut self, write: impl FnOnce(&mut Self)) {
        self.last.push(0);
        write(self);
        self.last.pop();
        self.bytes.push(0);
    }
}

/// Returns the length of a number as [`Writer::varint`] writes it.
pub(super) fn varint_len(value: u64) -> u64 {
    u64::from((64 - (value | 1).leading_zeros()).div_ceil(7))
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_written_as_the_protocol_says() {
        let mut out = Writer::new();
        out.i32(1, -1);
        out.text(4, "ab");
        out.structure(5, |out| out.bool(2, true));
        out.list(6, I32, 2);
        out.bare_i32(300);
        out.bare_i32(0);
        out.list(7, STRUCT, 20);
        let expected =
            [0x15, 1, 0x38, 2, b'a', b'b', 0x1c, 0x21, 0, 0x19, 0x25, 0xd8, 4, 0, 0x19, 0xfc, 20, 0];
        assert_eq!(out.finish(), expected);
    }

    #[test]
    fn numbers_have_the_length_that_is_told() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut out = Writer::default();
            out.varint(value);
            assert_eq!(out.bytes.len() as u64, varint_len(value), "{value}");
        }
    }
}
