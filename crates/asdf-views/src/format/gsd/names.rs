//! The list of names (`file-layer.rst` of gsd 1.0, "Namelist block", and of gsd 2.0 for the newer form).
//!
//! Up to version 1.x a name is a slot of 64 bytes, padded with NULs. From 2.0 on names have any length and
//! end with a NUL. The list ends at the first empty name. An index entry refers to a name by its number in
//! the list.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use asdf_file::folder::names;
use seekable::error::Result;
use seekable::source::{Source, read_up_to};

use super::header::{Header, SLOT, text};

/// Maximum number of names. The number 65535 means "no name".
pub(crate) const MAX_NAMES: usize = 65535;

/// Maximum number of bytes of the list that are read: 256 per name.
const MAX_BYTES: u64 = 16 << 20;

/// Bytes read at once.
const PIECE: usize = 16 << 10;

/// Maximum length in bytes of a path that is shown; Linux accepts less than 4096.
const MAX_PATH: usize = 3000;

/// The escaping of names as file names. The extensions are reserved for the views.
pub(crate) const FILES: names::ViewNames = names::ViewNames { endings: &[".npy", ".txt", ".frames"] };

/// The names of a file, by number.
#[derive(Debug, Default)]
pub struct Names {
    names: Vec<Box<[u8]>>,
    ids: HashMap<Box<[u8]>, u16>,
    paths: OnceLock<Vec<Option<Path>>>,
    /// True if the list ends within its allocated space.
    pub has_end: bool,
    /// True if the list has more names than were read.
    pub has_more: bool,
}

/// The path of a name: directories, and a file without its extension.
pub(crate) type Path = Arc<[String]>;

impl Deref for Names {
    type Target = [Box<[u8]>];

    fn deref(&self) -> &[Box<[u8]>] {
        &self.names
    }
}

impl Names {
    /// Reads the list that the header names.
    pub fn read(source: &dyn Source, header: &Header) -> Result<Self> {
        let room = header.names.len.min(MAX_BYTES);
        let mut bytes = Vec::new();
        let mut end = None;
        while end.is_none() && (bytes.len() as u64) < room {
            let from = bytes.len();
            let wanted = (room - from as u64).min(PIECE as u64) as usize;
            bytes.resize(from + wanted, 0);
            let read = read_up_to(source, header.names.offset + from as u64, &mut bytes[from..])?;
            bytes.truncate(from + read);
            // The previous piece may end with the first of two NULs.
            end = end_of(&bytes, from.saturating_sub(SLOT as usize), header.is_old());
            if read < wanted {
                break;
            }
        }
        let is_cut = end.is_none() && header.names.len > room;
        Ok(Self { has_more: is_cut, ..Self::parse(&bytes, header.is_old()) })
    }

    /// Parses the bytes of a list.
    pub fn parse(bytes: &[u8], is_old: bool) -> Self {
        let mut found = Self::default();
        let slots: Box<dyn Iterator<Item = &[u8]>> = if is_old {
            Box::new(bytes.chunks(SLOT as usize))
        } else {
            Box::new(bytes.split(|byte| *byte == 0))
        };
        // The last part is empty if the list ends with a NUL.
        let ends = bytes.is_empty() || bytes.last() == Some(&0);
        found.has_end = ends;
        for slot in slots {
            let name = if is_old { text(slot) } else { slot.to_vec() };
            if name.is_empty() {
                found.has_end = true;
                break;
            }
            if is_old && name.len() == slot.len() {
                found.has_end = false;
            }
            if found.names.len() == MAX_NAMES {
                found.has_more = true;
                break;
            }
            let id = found.names.len() as u16;
            let name = name.into_boxed_slice();
            // Lookup by name finds the first of equal names.
            found.ids.entry(name.clone()).or_insert(id);
            found.names.push(name);
        }
        found
    }

    /// Returns the name with a number.
    pub fn bytes(&self, id: u16) -> Option<&[u8]> {
        self.names.get(usize::from(id)).map(|name| &**name)
    }

    /// Returns the number of a name.
    pub fn id_of(&self, name: &[u8]) -> Option<u16> {
        self.ids.get(name).copied()
    }

    /// Returns the path of the name with a number; `None` if there is no such name, or its path is too long
    /// to open.
    pub fn path(&self, id: u16) -> Option<&Path> {
        let path = |name: &[u8]| {
            // Escaping never shortens a name.
            let path = (name.len() <= MAX_PATH).then(|| FILES.path(name))?;
            let len: usize = path.iter().map(|component| component.len() + 1).sum();
            (len <= MAX_PATH).then(|| path.into())
        };
        let paths = self.paths.get_or_init(|| self.iter().map(|name| path(name)).collect());
        paths.get(usize::from(id))?.as_ref()
    }
}

/// Returns the offset of the end of a list, searching from offset `from` on.
fn end_of(bytes: &[u8], from: usize, is_old: bool) -> Option<usize> {
    if is_old {
        let slot_len = SLOT as usize;
        let first = from / slot_len * slot_len;
        let mut slots = bytes.get(first..)?.chunks(slot_len);
        return slots.position(|slot| slot.first() == Some(&0)).map(|at| first + at * slot_len);
    }
    if bytes.first() == Some(&0) {
        return Some(0);
    }
    memchr::memmem::find(bytes.get(from..)?, b"\0\0").map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::super::header::{FileRange, Version};
    use super::*;
    use seekable::source::MemorySource;

    fn found(bytes: &[u8], is_old: bool) -> Vec<Vec<u8>> {
        Names::parse(bytes, is_old).iter().map(|name| name.to_vec()).collect()
    }

    fn slots(names: &[&[u8]]) -> Vec<u8> {
        let slot = |name: &&[u8]| [name, &[0; 64][name.len()..]].concat();
        names.iter().flat_map(slot).collect()
    }

    #[test]
    fn both_forms_end_at_the_first_empty_name() {
        let wanted = [b"a/b".to_vec(), b"\xff".to_vec()];
        assert_eq!(found(b"a/b\0\xff\0\0c\0", false), wanted);
        assert_eq!(found(&slots(&[b"a/b", b"\xff", b"", b"c"]), true), wanted);
        assert_eq!(found(b"a/b\0\xff\0", false), wanted);
        assert!(
            found(b"\0a\0", false).is_empty() && found(b"", false).is_empty() && found(b"", true).is_empty()
        );
    }

    #[test]
    fn a_list_without_an_end_gives_what_is_there() {
        let names = Names::parse(b"a\0bc", false);
        assert_eq!((names.len(), names.bytes(1), names.has_end), (2, Some(&b"bc"[..]), false));
        let long = [b'x'; 64];
        let names = Names::parse(&slots(&[&long, b"b"]), true);
        assert_eq!((names.len(), names.bytes(0), names.has_end), (2, Some(&long[..]), false));
        assert!(Names::parse(b"a\0", false).has_end && Names::parse(b"a\0\0\0", false).has_end);
    }

    #[test]
    fn a_name_is_found_by_its_number_and_the_other_way() {
        let names = Names::parse(b"a\0b\0a\0..\0", false);
        assert_eq!((names.id_of(b"a"), names.id_of(b"b"), names.id_of(b"c")), (Some(0), Some(1), None));
        assert_eq!(names.path(3).map(|path| path.to_vec()), Some(vec!["%2E%2E".to_owned()]));
        assert!(names.path(4).is_none());
    }

    #[test]
    fn what_no_program_could_open_has_no_path() {
        let long = [b"a/".repeat(2000), b"b\0".to_vec()].concat();
        assert!(Names::parse(&long, false).path(0).is_none());
        let escaped = [vec![0xff; 1100], b"\0".to_vec()].concat();
        assert!(Names::parse(&escaped, false).path(0).is_none());
        let names = Names::parse(&[vec![b'x'; 2900], b"\0".to_vec()].concat(), false);
        assert_eq!(names.path(0).map(|path| path.len()), Some(13));
    }

    #[test]
    fn a_list_is_read_as_far_as_it_goes_and_no_further() {
        for is_old in [false, true] {
            for count in [0, 1, 255, 256, 257, 700] {
                let name = |n: usize| format!("{n:>63}").into_bytes();
                let names: Vec<Vec<u8>> = (0..count).map(name).collect();
                let list: Vec<u8> = names.iter().flat_map(|name| [&name[..], b"\0"].concat()).collect();
                // Other data follow the list.
                let bytes = [&[7; 300][..], &list, &[0; 64], &[7; 9000]].concat();
                let header = Header {
                    version: if is_old { Version(1, 0) } else { Version(2, 0) },
                    schema_version: Version(0, 0),
                    application: Vec::new(),
                    schema: Vec::new(),
                    index: FileRange { offset: 300, len: 0 },
                    names: FileRange { offset: 300, len: list.len() as u64 + 64 },
                };
                let found = Names::read(&MemorySource(bytes), &header).unwrap();
                assert!(found.iter().map(|name| &name[..]).eq(names.iter().map(|name| &name[..])), "{count}");
            }
        }
    }
}
