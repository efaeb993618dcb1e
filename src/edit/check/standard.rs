//! Which versions of the core's types an edition of the standard has: readers take a node with another
//! version of a tag for a plain dict.

/// Types whose version is another in each of some editions.
const VERSIONED: [&str; 2] = ["ndarray", "integer"];

/// The version that the edition `standard` has of the type that `tag` names, if it is not the tag's own.
///
/// Without a line `#ASDF_STANDARD` readers take the first edition.
pub(super) fn expected(standard: Option<&str>, tag: &str) -> Option<&'static str> {
    let (name, version) = tag.strip_prefix("tag:stsci.edu:asdf/core/")?.rsplit_once('-')?;
    let expected = match standard {
        None | Some("1.0.0" | "1.1.0" | "1.2.0" | "1.3.0" | "1.4.0" | "1.5.0") => "1.0.0",
        Some("1.6.0") => "1.1.0",
        Some("1.7.0") => "1.2.0",
        Some(_) => return None,
    };
    (VERSIONED.contains(&name) && version != expected).then_some(expected)
}
