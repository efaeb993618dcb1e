//! The versions of the core types in each edition of the standard. Readers take a node whose tag has another
//! version for a plain dict.

/// The types whose version differs between editions.
const VERSIONED: [&str; 2] = ["ndarray", "integer"];
/// The type that has one version in all editions.
const COMPLEX: &str = "complex";
const TAG: &str = "tag:stsci.edu:asdf/core/";

/// Returns the version of a tag's type in the edition `standard`, if the tag has another version.
///
/// Without a line `#ASDF_STANDARD` readers assume the first edition.
pub(super) fn expected(standard: Option<&str>, tag: &str) -> Option<&'static str> {
    let (name, version) = parts(tag)?;
    let expected = match standard {
        None | Some("1.0.0" | "1.1.0" | "1.2.0" | "1.3.0" | "1.4.0" | "1.5.0") => "1.0.0",
        Some("1.6.0") => "1.1.0",
        Some("1.7.0") => "1.2.0",
        Some(_) => return None,
    };
    let expected = if name == COMPLEX { "1.0.0" } else { expected };
    (version != expected).then_some(expected)
}

/// True if readers know only the edition's version of a tag's type.
pub(super) fn is_versioned(tag: &str) -> bool {
    parts(tag).is_some()
}

/// Returns the name and the version in a tag of one of these types.
fn parts(tag: &str) -> Option<(&str, &str)> {
    let rest = tag.strip_prefix(TAG)?;
    let (name, version) = rest.rsplit_once('-').unwrap_or((rest, ""));
    (name == COMPLEX || VERSIONED.contains(&name)).then_some((name, version))
}
