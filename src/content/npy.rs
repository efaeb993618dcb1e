//! `.npy`, a file with one array that numpy reads and maps (numpy.lib.format, versions 1.0 to 3.0).

use std::sync::Arc;

use super::{Array, Content, Pieces, Text, read_exact_at};
use crate::error::{Error, Result};

/// The first bytes of a file.
const MAGIC: &[u8] = b"\x93NUMPY";

/// Maximum length of a header that is read.
const MAX_HEADER: u64 = 1 << 20;

/// The data begin at a multiple of this many bytes.
const ALIGNMENT: usize = 64;

/// Width that numpy reserves in the header for the length of the axis that may grow.
const GROWTH: usize = 21;

/// Returns the header of an array, byte for byte as `numpy.save` writes it.
///
/// `descr` is the type as a Python literal: `'<f4'` with its quotes, or a list of fields. `shape` counts
/// elements.
pub(crate) fn header(descr: &str, fortran_order: bool, shape: &[u64]) -> Vec<u8> {
    let order = if fortran_order { "True" } else { "False" };
    let mut text = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {}, }}", tuple(shape));
    let grows = if fortran_order { shape.last() } else { shape.first() };
    if let Some(size) = grows {
        text.push_str(&" ".repeat(GROWTH.saturating_sub(size.to_string().len())));
    }
    // The text is Latin-1 with a 16-bit length in version 1.0, and with a 32-bit length in 2.0. It is UTF-8
    // in 3.0.
    let latin: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    let (version, mut bytes) = match latin {
        // Magic, length, at least one blank, and the line break take 12 bytes.
        Some(latin) if latin.len() + 12 <= 1 << 16 => (1, latin),
        Some(latin) => (2, latin),
        None => (3, text.into_bytes()),
    };
    let prefix = if version == 1 { 10 } else { 12 };
    // One to 64 blanks, then the line break.
    let padding = 1 + ALIGNMENT - (prefix + bytes.len() + 1) % ALIGNMENT;
    bytes.resize(bytes.len() + padding - 1, b' ');
    bytes.push(b'\n');
    let mut header = MAGIC.to_vec();
    header.extend([version, 0]);
    match version {
        1 => header.extend((bytes.len() as u16).to_le_bytes()),
        _ => header.extend((bytes.len() as u32).to_le_bytes()),
    }
    header.extend(bytes);
    header
}

/// A header as it is read.
#[derive(Debug)]
pub(crate) struct Header {
    /// The type of an element as a Python literal.
    pub descr: String,
    /// True if the first index varies fastest.
    pub fortran_order: bool,
    /// The length of each dimension.
    pub shape: Vec<u64>,
    /// Number of elements.
    pub count: u64,
    /// Length of the header, and the offset of the elements.
    pub len: u64,
}

impl Header {
    /// Reads the header of a file; `None` if it is not a `.npy` file as numpy writes it.
    ///
    /// # Errors
    /// The file can't be read, or its header is longer than 1 MiB.
    pub(crate) fn read(file: &dyn Content) -> Result<Option<Self>> {
        let mut start = [0; 12];
        if file.len() < 12 || read_exact_at(file, 0, &mut start).is_err() || !start.starts_with(MAGIC) {
            return Ok(None);
        }
        let (len, from) = match start[6] {
            1 => (u64::from(u16::from_le_bytes([start[8], start[9]])), 10),
            _ => (u64::from(u32::from_le_bytes([start[8], start[9], start[10], start[11]])), 12),
        };
        let len = len.min(file.len() - from);
        if len > MAX_HEADER {
            return Err(Error::unsupported("the header of the array is too long"));
        }
        let mut text = vec![0; len as usize];
        read_exact_at(file, from, &mut text)?;
        let text: String = match start[6] {
            3 => String::from_utf8_lossy(&text).into_owned(),
            _ => text.iter().copied().map(char::from).collect(),
        };
        Ok(Self::parse(&text, from + len))
    }

    /// Parses the literal that numpy writes. Its keys are in alphabetical order.
    fn parse(text: &str, len: u64) -> Option<Self> {
        let rest = text.strip_prefix("{'descr': ")?;
        let (descr, rest) = rest.rsplit_once(", 'fortran_order': ")?;
        let (order, rest) = rest.split_once(", 'shape': ")?;
        let (lengths, _) = rest.split_once(')')?;
        let sizes = lengths.trim_start_matches('(').split(',').map(str::trim).filter(|size| !size.is_empty());
        let shape: Vec<u64> = sizes.map(|size| size.parse().ok()).collect::<Option<_>>()?;
        let count = shape.iter().try_fold(1_u64, |count, size| count.checked_mul(*size))?;
        let descr = descr.to_owned();
        Some(Self { descr, fortran_order: order == "True", shape, count, len })
    }

    /// Returns the dimension that varies as number `n`, from the fastest one on.
    fn dimension(&self, n: usize) -> usize {
        if self.fortran_order { n } else { self.shape.len() - 1 - n }
    }

    /// Returns the index of the element at a position in the file.
    pub(crate) fn index_of(&self, position: u64) -> Vec<u64> {
        let mut index = vec![0; self.shape.len()];
        let mut rest = position;
        for n in 0..index.len() {
            let dimension = self.dimension(n);
            let size = self.shape[dimension].max(1);
            index[dimension] = rest % size;
            rest /= size;
        }
        index
    }

    /// Returns the position in the file of the element with this index, which has as many dimensions.
    pub(crate) fn position_of(&self, index: &[u64]) -> u64 {
        let mut position = 0;
        for n in (0..index.len()).rev() {
            let dimension = self.dimension(n);
            position = position * self.shape[dimension] + index[dimension];
        }
        position
    }
}

/// Formats sizes as a Python tuple: `(2, 3)`, `(5,)`, `()`.
pub(crate) fn tuple(sizes: &[u64]) -> String {
    let comma = if sizes.len() == 1 { "," } else { "" };
    format!("({}{comma})", sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
}

/// Formats a text as a Python literal, as `repr` does.
pub(crate) fn literal(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut literal = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            _ if c == quote => literal.extend(['\\', c]),
            _ if is_printable(c) => literal.push(c),
            _ => literal.push_str(&match u32::from(c) {
                code @ ..0x100 => format!("\\x{code:02x}"),
                code @ ..0x1_0000 => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    literal.push(quote);
    literal
}

/// True if `repr` leaves the character unescaped. Rust uses the same Unicode classes.
fn is_printable(c: char) -> bool {
    // Rust escapes a combining character at the start of a text, hence the letter before it.
    !c.is_control() && !format!("a{c}").escape_debug().skip(1).collect::<String>().starts_with("\\u")
}

/// Makes a file of one array: the header, then `elements` unchanged.
///
/// # Errors
/// Header and elements together are longer than any file can be.
pub fn array(
    descr: &str,
    fortran_order: bool,
    shape: &[u64],
    elements: Arc<dyn Content>,
) -> Result<Arc<dyn Content>> {
    let header: Arc<dyn Content> = Arc::new(Text::new(header(descr, fortran_order, shape)));
    let file = Pieces::new([header, elements.clone()])?;
    let descr = descr.to_owned();
    let shape = shape.to_vec();
    Ok(Arc::new(file.of_array(Array { descr, fortran_order, shape, elements })))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected headers are from numpy 2.4: `numpy.save(file, numpy.zeros(shape, descr))`.
    #[test]
    fn the_header_is_that_of_numpy() {
        let cases: [(&str, bool, &[u64], &str, usize); 7] = [
            // The text would fit into 128 bytes, but without the blank that must follow.
            (
                "[('field 0', '|S5'), ('field 1', '|S5')]",
                false,
                &[2, 1, 2],
                "{'descr': [('field 0', '|S5'), ('field 1', '|S5')], \
                 'fortran_order': False, 'shape': (2, 1, 2), }",
                192,
            ),
            ("'<f4'", false, &[3, 4], "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", 128),
            ("'>i2'", false, &[], "{'descr': '>i2', 'fortran_order': False, 'shape': (), }", 128),
            ("'<f8'", true, &[2, 3], "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }", 128),
            ("'<f8'", false, &[0], "{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }", 128),
            (
                "[('a', '<f4'), ('b', '|i1', (2,))]",
                false,
                &[5],
                "{'descr': [('a', '<f4'), ('b', '|i1', (2,))], 'fortran_order': False, 'shape': (5,), }",
                128,
            ),
            (
                "[('aaaaaaaaaaa', '<f4'), ('abcdefghijklmn', '|i1')]",
                false,
                &[5],
                "{'descr': [('aaaaaaaaaaa', '<f4'), ('abcdefghijklmn', '|i1')], \
                 'fortran_order': False, 'shape': (5,), }",
                192,
            ),
        ];
        for (descr, fortran, shape, text, len) in cases {
            let header = header(descr, fortran, shape);
            assert_eq!(header.len(), len, "{descr}");
            assert_eq!(&header[..10], [0x93, b'N', b'U', b'M', b'P', b'Y', 1, 0, len as u8 - 10, 0]);
            assert_eq!(std::str::from_utf8(&header[10..]).unwrap().trim_end(), text);
            assert!(header.ends_with(b"\n"));
        }
    }

    #[test]
    fn a_header_is_read_as_it_is_written() {
        for (descr, fortran, shape, count) in [
            ("'<f4'", false, &[2, 3, 4][..], 24),
            ("'<f4'", true, &[2, 3, 4], 24),
            ("'|u1'", false, &[], 1),
            ("[('a', '<f4'), ('λ', '>i2', (2,))]", false, &[5], 5),
            (&format!("[{}]", "('abcdefgh', '<f4'), ".repeat(5000)), false, &[0], 0),
        ] {
            let written = header(descr, fortran, shape);
            let len = written.len() as u64;
            let read = Header::read(&Text::new(written)).unwrap().unwrap();
            assert_eq!((&*read.descr, read.fortran_order, &*read.shape), (descr, fortran, shape));
            assert_eq!((read.count, read.len), (count, len), "{descr}");
            for position in 0..count {
                assert_eq!(read.position_of(&read.index_of(position)), position);
            }
            if shape == [2, 3, 4] {
                assert_eq!(read.index_of(7), if fortran { [1, 0, 1] } else { [0, 1, 3] });
            }
        }
        let too_many = header("'<f4'", false, &[1 << 40, 1 << 40]);
        for other in
            [&too_many[..], &b"\x93NUMPY\x01\0\xff\xff"[..], b"\x93NUMPY\x01\0\xff\xff{'descr'", b"text"]
        {
            assert!(Header::read(&Text::new(other.to_vec())).unwrap().is_none());
        }
    }

    #[test]
    fn long_names_and_others_than_ascii_have_later_versions() {
        let long = format!("[{}]", "('abcdefgh', '<f4'), ".repeat(5000));
        let header_of_long = header(&long, false, &[1]);
        assert_eq!((header_of_long[6], header_of_long.len() % 64), (2, 0));
        assert_eq!(header_of_long[8..12], (header_of_long.len() as u32 - 12).to_le_bytes());
        let not_ascii = header("[('λ', '<f4')]", false, &[1]);
        assert_eq!((not_ascii[6], not_ascii.len() % 64), (3, 0));
        let latin = header("[('é', '<f4')]", false, &[1]);
        assert_eq!((latin[6], latin.len() % 64), (1, 0));
        // The longest text that fits version 1.0.
        let version = |len| header(&"x".repeat(len), false, &[])[6];
        assert_eq!((version(65_474), version(65_475)), (1, 2));
        assert!(latin.contains(&0xe9));
    }

    #[test]
    fn literals_are_those_of_python() {
        assert_eq!(literal("a"), "'a'");
        assert_eq!(literal("it's"), r#""it's""#);
        assert_eq!(literal(r#"it's "x""#), r#"'it\'s "x"'"#);
        assert_eq!(literal("a\\\n\u{7}é"), r"'a\\\n\x07é'");
        assert_eq!(
            literal("\0\u{a0}\u{2028}e\u{301}😀\u{e0001}"),
            r"'\x00\xa0\u2028é😀\U000e0001'".replace('é', "e\u{301}")
        );
    }

    #[test]
    fn an_array_is_its_header_and_its_data() {
        let data = Arc::new(Text::new(vec![7; 12]));
        let array = array("'|u1'", false, &[12], data).unwrap();
        assert_eq!(array.len(), 140);
        let mut end = [0; 12];
        assert_eq!(array.read_at(128, &mut end).unwrap(), 12);
        assert_eq!(end, [7; 12]);
    }
}
