//! The properties of a chunk that `blocks.yaml` and extended attributes show, in the words of the format.

use asdf_file::container::{Fact, FactValue, Facts};
use asdf_file::folder::Attributes;

use super::entry::IndexEntry;
use super::file::GsdFile;

/// Returns the facts of an entry, damaged or not.
pub(crate) fn facts(file: &GsdFile, entry: &IndexEntry) -> Facts {
    let data_size = file.data(entry).ok().and(entry.bytes()).unwrap_or(0);
    let kind = entry.element().map_or_else(|| entry.kind.to_string(), |element| element.name.to_owned());
    let location = FactValue::Quoted(entry.location.to_string());
    let location = u64::try_from(entry.location).map_or(location, FactValue::Number);
    let groups = vec![
        vec![
            Fact::number("user.gsd.frame", entry.frame),
            Fact { name: "user.gsd.type", value: FactValue::Word(kind) },
            Fact::number("user.gsd.N", entry.n),
            Fact::number("user.gsd.M", entry.m),
        ],
        vec![
            Fact { name: "user.gsd.location", value: location },
            Fact::size("user.gsd.data_size", data_size),
        ],
        vec![Fact { name: "user.gsd.name", value: FactValue::Quoted(name(file, entry.id)) }],
    ];
    let at_data = u64::try_from(entry.location).ok().filter(|_| file.data(entry).is_ok());
    let offset = at_data.unwrap_or_else(|| file.index().offset(entry.slot));
    Facts { offset, data_size, groups }
}

/// Returns the facts of an entry as extended attributes.
pub(crate) fn attributes(file: &GsdFile, entry: &IndexEntry) -> Attributes {
    facts(file, entry).iter().map(|fact| (fact.name, fact.value.to_string())).collect()
}

/// Returns a name as text; bytes that are not UTF-8 become U+FFFD.
fn name(file: &GsdFile, id: u16) -> String {
    file.names().bytes(id).map_or_else(String::new, |name| String::from_utf8_lossy(name).into_owned())
}
