//! `.npy`, a file with one array that numpy reads and maps (numpy.lib.format, versions 1.0 to 3.0).

use std::sync::Arc;

use seekable::error::Result;

use seekable::content::{Content, Pieces, Text};

use super::literal::tuple;
use super::{Array, ByteOrder, Datatype};

/// The first bytes of a file.
const MAGIC: &[u8] = b"\x93NUMPY";

/// The data begin at a multiple of this many bytes.
const ALIGNMENT: usize = 64;

/// Width that numpy reserves in the header for the length of the axis that may grow.
const GROWTH: usize = 21;

/// Returns the header of an array, byte for byte as `numpy.save` writes it.
///
/// `descr` is the type as a Python literal: `'<f4'` with its quotes, or a list of fields. `shape` counts
/// elements.
pub fn header(descr: &str, fortran_order: bool, shape: &[u64]) -> Vec<u8> {
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

/// Makes the file of an array: the header, then the elements unchanged.
///
/// # Errors
/// Header and elements together are longer than any file can be.
pub fn file(array: Array) -> Result<Arc<dyn Content>> {
    let descr = array.datatype.descr(array.byteorder);
    let header: Arc<dyn Content> = Arc::new(Text::new(header(&descr, array.fortran_order, &array.shape)));
    Ok(Arc::new(Pieces::new([header, array.elements.clone()])?.of_value(array)))
}

/// Makes the file of an array of little-endian elements in C order.
///
/// # Errors
/// See [`file()`].
pub fn little_endian(
    datatype: impl Into<Datatype>,
    shape: Vec<u64>,
    elements: Arc<dyn Content>,
) -> Result<Arc<dyn Content>> {
    let (datatype, byteorder) = (datatype.into(), ByteOrder::Little);
    file(Array { datatype, byteorder, fortran_order: false, shape, elements })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Scalar;

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
    fn an_array_is_its_header_and_its_data() {
        let data = Arc::new(Text::new(vec![7; 12]));
        let array = little_endian(Datatype::Scalar(Scalar::Uint8), vec![12], data).unwrap();
        assert_eq!(array.len(), 140);
        let mut end = [0; 12];
        assert_eq!(array.read_at(128, &mut end).unwrap(), 12);
        assert_eq!(end, [7; 12]);
    }
}
