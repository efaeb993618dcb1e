//! The list of names of a GSD file. The input is a byte for the layout, and the list.
#![no_main]

use std::ffi::OsStr;

use asdf_file::folder::names::original;
use asdf_views::format::gsd::names::Names;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((layout, list)) = data.split_first() else { return };
    let names = Names::parse(list, layout % 2 == 1);
    assert!(names.len() <= list.len());
    for (id, name) in (0..u16::MAX).zip(names.iter()) {
        let name: &[u8] = name;
        assert_eq!(names.bytes(id), Some(name));
        assert_eq!(names.id_of(name).and_then(|id| names.bytes(id)), Some(name));
        let Some(path) = names.path(id) else { continue };
        assert!(
            path.iter().all(|part| !matches!(part.as_str(), "" | "." | "..") && !part.contains(['/', '\0']))
        );
        assert!(path.iter().all(|part| part.len() <= 242));
        assert_eq!(original(path.iter().map(OsStr::new)).as_deref(), Some(name));
    }
});
