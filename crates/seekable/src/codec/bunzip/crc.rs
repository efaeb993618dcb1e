//! The CRC of bzip2: 32 bits, polynomial 0x04c11db7, most significant bit first, computed sixteen bytes at a
//! time.

/// The generator polynomial, without its highest term.
const POLYNOMIAL: u32 = 0x04c1_1db7;

/// Bytes processed in one step.
const STEP: usize = 16;

/// The contribution of each byte to the CRC, by the number of bytes after it within a step.
static TABLES: [[u32; 256]; STEP] = tables();

const fn tables() -> [[u32; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc >> 31 == 1 { crc << 1 ^ POLYNOMIAL } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut step = 1;
    while step < STEP {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[step - 1][byte];
            tables[step][byte] = before << 8 ^ tables[0][(before >> 24) as usize];
            byte += 1;
        }
        step += 1;
    }
    tables
}

/// The running CRC of bytes that come in pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crc(u32);

impl Crc {
    /// Returns the CRC of no bytes.
    pub(super) fn new() -> Self {
        Self(u32::MAX)
    }

    /// Adds `bytes`.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        let mut crc = self.0;
        let (steps, rest) = bytes.as_chunks::<STEP>();
        for step in steps {
            let mut head = [0; 4];
            head.copy_from_slice(&step[..4]);
            let head = (crc ^ u32::from_be_bytes(head)).to_be_bytes();
            crc = 0;
            for (byte, table) in head.iter().chain(&step[4..]).zip(TABLES.iter().rev()) {
                crc ^= table[usize::from(*byte)];
            }
        }
        for &byte in rest {
            crc = crc << 8 ^ TABLES[0][usize::from((crc >> 24) as u8 ^ byte)];
        }
        self.0 = crc;
    }

    /// Returns the CRC of all added bytes.
    pub(super) fn value(self) -> u32 {
        !self.0
    }
}

/// Returns the combined CRC of a stream after a block with the CRC `block`.
pub(super) fn combine(combined: u32, block: u32) -> u32 {
    combined.rotate_left(1) ^ block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue() {
        let mut crc = Crc::new();
        crc.update(b"123456789");
        assert_eq!(crc.value(), 0xfc89_1918);
    }

    #[test]
    fn does_not_depend_on_the_pieces() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| ((i * i) >> 3) as u8).collect();
        let bit_by_bit = !bytes.iter().fold(u32::MAX, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| {
                crc << 1 ^ if crc >> 31 == 1 { POLYNOMIAL } else { 0 }
            })
        });
        for cut in [0, 1, 15, 16, 17, 500, 999] {
            let mut crc = Crc::new();
            crc.update(&bytes[..cut]);
            crc.update(&bytes[cut..]);
            assert_eq!(crc.value(), bit_by_bit);
        }
    }
}
