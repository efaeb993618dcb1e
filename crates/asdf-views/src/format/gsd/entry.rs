//! An index entry, and the element types (`file-layer.rst` of gsd 1.0, "Index block"; types as in `gsd.h`).
//!
//! ```text
//!   0 frame u64    16 location i64   28 id u16    31 flags u8
//!   8 N u64        24 M u32          30 type u8
//! ```

use asdf_file::array::Scalar;
use seekable::error::{Error, Result};

use super::header::{SIZE, u16_at, u32_at, u64_at};

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    /// NumPy's name of the type; `character` is UTF-8.
    pub name: &'static str,
    /// The type in an array.
    pub scalar: Scalar,
}

impl Element {
    /// Returns the size of an element in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.scalar.size().unwrap_or_default()
    }

    /// True for the characters of a text.
    pub(crate) fn is_text(&self) -> bool {
        self.name == "character"
    }
}

const fn number(scalar: Scalar) -> Element {
    Element { name: scalar.name(), scalar }
}

/// The types by number, from 1 on. The last one came with version 2.1.
const ELEMENTS: [Element; 11] = [
    number(Scalar::Uint8),
    number(Scalar::Uint16),
    number(Scalar::Uint32),
    number(Scalar::Uint64),
    number(Scalar::Int8),
    number(Scalar::Int16),
    number(Scalar::Int32),
    number(Scalar::Int64),
    number(Scalar::Float32),
    number(Scalar::Float64),
    Element { name: "character", scalar: Scalar::Uint8 },
];

/// Returns the number of a type.
pub(crate) fn kind_of(scalar: Scalar) -> Option<u8> {
    let at = ELEMENTS.iter().position(|element| element.scalar == scalar)?;
    u8::try_from(at + 1).ok()
}

/// An index entry: describes one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// Number of the entry in the index, from 0.
    pub slot: u64,
    /// Number of the frame.
    pub frame: u64,
    /// Number of rows.
    pub n: u64,
    /// Number of columns.
    pub m: u32,
    /// Offset of the data in the file.
    pub location: i64,
    /// Number of the name.
    pub id: u16,
    /// Number of the element type.
    pub kind: u8,
    /// Always 0 in a valid entry.
    pub flags: u8,
}

/// Upper limits for the fields of valid entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Number of names in the list.
    pub names: u64,
    /// The last frame that is shown.
    pub last_frame: u64,
}

impl IndexEntry {
    /// Reads the entry with number `slot`.
    pub(crate) fn parse(bytes: &[u8], slot: u64) -> Self {
        Self {
            slot,
            frame: u64_at(bytes, 0),
            n: u64_at(bytes, 8),
            location: u64_at(bytes, 16).cast_signed(),
            m: u32_at(bytes, 24),
            id: u16_at(bytes, 28),
            kind: bytes.get(30).copied().unwrap_or(0),
            flags: bytes.get(31).copied().unwrap_or(0),
        }
    }

    /// True if the slot is unused: the index ends before it.
    pub(crate) fn is_end(&self) -> bool {
        self.location == 0
    }

    /// Returns the element type; `None` if it is unknown.
    pub(crate) fn element(&self) -> Option<&'static Element> {
        ELEMENTS.get(usize::from(self.kind).checked_sub(1)?)
    }

    /// True if the elements are characters.
    pub(crate) fn is_text(&self) -> bool {
        self.element().is_some_and(Element::is_text)
    }

    /// True if the chunk is a single number.
    pub(crate) fn is_number(&self) -> bool {
        (self.n, self.m) == (1, 1) && !self.is_text()
    }

    /// Returns the shape as readers of GSD see it: one-dimensional if M is 1.
    pub(crate) fn shape(&self) -> Vec<u64> {
        if self.m == 1 { vec![self.n] } else { vec![self.n, self.m.into()] }
    }

    /// Describes shape and type, for messages.
    pub(crate) fn array(&self) -> String {
        format!("{} x {} elements of {}", self.n, self.m, self.element().map_or("?", |element| element.name))
    }

    /// Returns the size of the data in bytes; `None` if it exceeds every possible file size.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let bytes = self.n.checked_mul(self.m.into())?.checked_mul(self.element()?.size())?;
        (bytes <= i64::MAX as u64).then_some(bytes)
    }

    /// Checks that the entry identifies a chunk and a frame. The location of the data is checked by
    /// [`Self::range`].
    ///
    /// # Errors
    /// Says which field is invalid.
    pub(crate) fn check(&self, limits: &Limits) -> Result<()> {
        let wrong = if self.is_end() {
            "location is 0, which ends the index, but further entries follow".to_owned()
        } else if self.element().is_none() {
            format!("type {} is not known", self.kind)
        } else if self.flags != 0 {
            format!("flags are {}, not 0", self.flags)
        } else if u64::from(self.id) >= limits.names {
            format!("name {} is not in the list of {} names", self.id, limits.names)
        } else if self.frame > limits.last_frame {
            format!("frame {} is far beyond the size of the index", self.frame)
        } else {
            return Ok(());
        };
        Err(Error::damaged(wrong))
    }

    /// Returns offset and length of the data in a file of `size` bytes.
    ///
    /// # Errors
    /// The data are not within the file.
    pub(crate) fn range(&self, size: u64) -> Result<(u64, u64)> {
        let Some(len) = self.bytes() else {
            return Err(Error::damaged(format!("{} are more than any file can have", self.array())));
        };
        let Some(offset) = u64::try_from(self.location).ok().filter(|offset| *offset >= SIZE) else {
            return Err(Error::damaged(format!(
                "the entry says that the data begin at byte {}",
                self.location
            )));
        };
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok((offset, len)),
            _ => Err(Error::damaged(format!(
                "{} from byte {offset} on reach past the end of the file, {size}",
                self.array()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { names: 3, last_frame: 1000 };

    fn entry() -> IndexEntry {
        IndexEntry { slot: 7, frame: 5, n: 4, m: 3, location: 300, id: 2, kind: 9, flags: 0 }
    }

    #[test]
    fn the_fields_are_where_the_document_has_them() {
        let mut bytes = Vec::new();
        for number in &[5_u64, 4, 300] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([3, 0, 0, 0, 2, 0, 9, 0]);
        assert_eq!(IndexEntry::parse(&bytes, 7), entry());
        assert_eq!((entry().bytes(), entry().shape()), (Some(48), vec![4, 3]));
        assert_eq!(IndexEntry { m: 1, ..entry() }.shape(), [4]);
        // Missing bytes are read as zeros, which mark the end.
        assert!(IndexEntry::parse(&bytes[..10], 0).is_end());
    }

    #[test]
    fn an_entry_that_says_nothing_is_told_why() {
        assert!(entry().check(&LIMITS).is_ok());
        let wrong = [
            IndexEntry { kind: 0, ..entry() },
            IndexEntry { kind: 12, ..entry() },
            IndexEntry { kind: 255, ..entry() },
            IndexEntry { flags: 1, ..entry() },
            IndexEntry { id: 3, ..entry() },
            IndexEntry { id: u16::MAX, ..entry() },
            IndexEntry { frame: 1001, ..entry() },
            IndexEntry { frame: u64::MAX, ..entry() },
            IndexEntry { location: 0, ..entry() },
        ];
        for entry in wrong {
            assert!(entry.check(&LIMITS).is_err(), "{entry:?}");
        }
    }

    #[test]
    fn data_outside_of_the_file_are_refused() {
        assert_eq!(entry().range(348).unwrap(), (300, 48));
        let wrong = [
            IndexEntry { location: 301, ..entry() },
            IndexEntry { location: -4, ..entry() },
            IndexEntry { location: i64::MIN, ..entry() },
            IndexEntry { location: i64::MAX, ..entry() },
            IndexEntry { location: 255, ..entry() },
            // The product would wrap to 0 or 8.
            IndexEntry { n: 1 << 62, m: 4, kind: 1, ..entry() },
            IndexEntry { n: (1 << 61) + 1, m: 1, kind: 4, ..entry() },
            IndexEntry { n: u64::MAX, m: u32::MAX, kind: 10, ..entry() },
            IndexEntry { kind: 0, ..entry() },
        ];
        for entry in wrong {
            assert!(entry.range(348).is_err(), "{entry:?}");
        }
        // An array without rows has no data, but its location must still be within the file.
        assert_eq!(IndexEntry { n: 0, location: 348, ..entry() }.range(348).unwrap(), (348, 0));
        assert!(IndexEntry { n: 0, location: 349, ..entry() }.range(348).is_err());
    }
}
