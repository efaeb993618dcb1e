//! Checks the standard's types other than ndarray, and two keys of the root, against their schemas. Python
//! asdf up to version 5 opens no file with a node that violates them, and later versions fail on some.

use asdf_tree::yaml::scalar::Type;
use asdf_tree::yaml::survey::{NodeContent, TreeNode};

use super::version::is_version;
use crate::asdf::ndarray::NodeFault;

const TAG: &str = "tag:stsci.edu:asdf/core/";

/// The keys of the root whose values have a schema.
pub(super) const ROOT_KEYS: [&str; 2] = ["asdf_library", "history"];

type Checked = Result<(), NodeFault>;

/// True if nodes with this tag are checked.
pub(super) fn is_tag(tag: &str) -> bool {
    kind(tag).is_some()
}

fn kind(tag: &str) -> Option<&str> {
    let (name, version) = tag.strip_prefix(TAG)?.rsplit_once('-')?;
    let known = match name {
        "software" | "extension_metadata" | "subclass_metadata" | "complex" | "history_entry"
        | "externalarray" => version == "1.0.0",
        "integer" => matches!(version, "1.0.0" | "1.1.0" | "1.2.0"),
        _ => false,
    };
    known.then_some(name)
}

/// Checks a node with the given tag.
pub(super) fn check(tag: &str, node: &TreeNode) -> Checked {
    kind(tag).map_or(Ok(()), |kind| check_kind(kind, node))
}

/// Checks the value of one of [`ROOT_KEYS`].
pub(super) fn check_root_key(key: &str, value: &TreeNode) -> Checked {
    let value = value.target();
    match (key, &value.node) {
        (_, NodeContent::Unknown | NodeContent::LargeSequence(_)) => Ok(()),
        ("asdf_library", _) => check_kind("software", value),
        (_, NodeContent::Sequence(entries, _)) => {
            entries.iter().try_for_each(|entry| check_kind("history_entry", entry))
        }
        (_, NodeContent::Mapping(_)) => {
            if let Some(entries) = value.get("entries") {
                items("entries", entries)?.iter().try_for_each(|entry| check_kind("history_entry", entry))?;
            }
            match value.get("extensions") {
                Some(extensions) => items("extensions", extensions)?.iter().try_for_each(extension),
                None => Ok(()),
            }
        }
        _ => fault(value, "the history is neither a list nor a mapping"),
    }
}

fn items<'v>(key: &str, value: &'v TreeNode) -> Result<&'v [TreeNode], NodeFault> {
    match &value.target().node {
        NodeContent::Sequence(items, _) => Ok(items),
        NodeContent::Unknown | NodeContent::LargeSequence(_) => Ok(&[]),
        _ => fault(value, format!("the \"{key}\" of the history are not a list")),
    }
}

/// Checks an extension in the history. Python asdf reads these nodes whatever their tags are.
fn extension(value: &TreeNode) -> Checked {
    let tag = value.target().tag.as_deref();
    if tag.and_then(kind) != Some("extension_metadata") {
        return fault(value, "an extension in the history has lost its tag, extension_metadata-1.0.0");
    }
    check_kind("extension_metadata", value)?;
    for (key, software) in
        ["software", "manifest_software", "package"].iter().filter_map(|key| Some((key, value.get(key)?)))
    {
        if *key == "software" && software.scalar_type() == Some(Type::Null) {
            continue;
        }
        check_kind("software", software)?;
        let version = software.get("version");
        let unread = version.filter(|version| version.text().is_some_and(|text| !is_version(text)));
        if let Some(version) = unread {
            return fault(version, "the version of an extension's software is not one that Python reads");
        }
    }
    Ok(())
}

fn check_kind(kind: &str, node: &TreeNode) -> Checked {
    let node = node.target();
    match (kind, &node.node) {
        (_, NodeContent::Unknown) => Ok(()),
        ("complex", NodeContent::Scalar { text, .. }) if is_complex(text) => Ok(()),
        ("complex", _) => fault(node, "this is not a complex number"),
        (_, NodeContent::LargeSequence(_)) => Ok(()),
        (_, NodeContent::Mapping(_)) => fields(kind, node),
        _ => fault(node, format!("a node of type {kind} is not a mapping")),
    }
}

fn fault<T>(value: &TreeNode, what: impl Into<String>) -> Result<T, NodeFault> {
    Err(NodeFault { place: value.place, what: what.into() })
}

fn fields(kind: &str, node: &TreeNode) -> Checked {
    let (needed, texts): (&[&str], &[&str]) = match kind {
        "software" => (&["name", "version"], &["name", "author", "homepage", "version"]),
        "extension_metadata" => (&["extension_class"], &["extension_class", "extension_uri"]),
        "subclass_metadata" => (&["name"], &["name"]),
        "history_entry" => (&["description"], &["description"]),
        "externalarray" => (&["fileuri", "target", "datatype", "shape"], &["fileuri", "datatype"]),
        "integer" => (&["words", "sign"], &["string"]),
        _ => (&[], &[]),
    };
    for key in needed {
        if node.get(key).is_none() {
            return fault(node, format!("a node of type {kind} has no \"{key}\""));
        }
    }
    for (key, value) in texts.iter().filter_map(|key| Some((key, node.get(key)?))) {
        if !is_text(value) {
            return fault(value, format!("the \"{key}\" of a node of type {kind} is not a text"));
        }
    }
    let scalar = |key: &str| node.get(key).filter(|value| value.scalar_type().is_some());
    match (kind, scalar("words"), scalar("software")) {
        ("integer", Some(words), _) => return fault(words, "the \"words\" of an integer are not a list"),
        ("history_entry", _, Some(software)) if software.scalar_type() != Some(Type::Null) => {
            return fault(software, "the \"software\" of a node of type history_entry is not a mapping");
        }
        _ => {}
    }
    match node.get("sign") {
        Some(sign) if kind == "integer" && !matches!(sign.text(), Some("+" | "-")) => {
            fault(sign, "the \"sign\" of an integer is neither + nor -")
        }
        _ => Ok(()),
    }
}

/// True if a schema takes the node as a string. Scalars with tags of their own are strings, too.
fn is_text(value: &TreeNode) -> bool {
    match &value.target().node {
        NodeContent::Unknown => true,
        _ => matches!(value.scalar_type(), Some(Type::Str | Type::Value | Type::Merge | Type::Other)),
    }
}

/// True if a text is a complex number: a real part, an imaginary part that ends in `i` or `j`, or both,
/// optionally in parentheses.
fn is_complex(text: &str) -> bool {
    let text = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text);
    let Some(rest) = text.strip_suffix(['i', 'I', 'j', 'J']) else { return is_number(text) };
    let signs = rest.char_indices().filter(|(_, sign)| matches!(sign, '+' | '-'));
    is_number(rest)
        || signs
            .skip_while(|(at, _)| *at == 0)
            .any(|(at, _)| is_number(&rest[..at]) && is_number(&rest[at..]))
}

/// True if a text is a number that can be part of a complex number.
fn is_number(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.strip_prefix(['+', '-']).unwrap_or(exponent)),
        None => (text, "0"),
    };
    let is_mantissa = match mantissa.split_once('.') {
        _ if matches!(mantissa, "inf" | "INF" | "nan" | "NAN") => true,
        Some((whole, fraction)) => (whole.is_empty() || digits(whole)) && digits(fraction),
        None => digits(mantissa),
    };
    is_mantissa && digits(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complex_numbers_are_known() {
        for text in ["1+1j", "(1.5e-3-.5I)", "nan+infj", "-1i", "3", "1e5+2e+5j", "INF"] {
            assert!(is_complex(text), "{text}");
        }
        for text in ["", "a", "1+", "1+1", "1++1j", "(1+1j", "j", "1.+1j", "1+1jj", "1 + 1j", "ä+1j"] {
            assert!(!is_complex(text), "{text}");
        }
    }
}
