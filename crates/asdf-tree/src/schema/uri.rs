//! The addresses by which schemas refer to each other.

/// Returns an address without its fragment, and the fragment.
pub(super) fn split(address: &str) -> (&str, &str) {
    address.split_once('#').unwrap_or((address, ""))
}

/// Returns an address, which may be relative to `base` (RFC 3986, 5.2), with `.` and `..` resolved.
pub(super) fn join(base: &str, address: &str) -> String {
    if address.is_empty() {
        return base.to_owned();
    }
    if has_scheme(address) {
        return address.to_owned();
    }
    let path_at = match base.find("://") {
        Some(at) => base[at + 3..].find('/').map_or(base.len(), |slash| at + 3 + slash),
        None => base.find(':').map_or(0, |at| at + 1),
    };
    let (root, path) = base.split_at(path_at);
    let above = path.rfind('/').map_or("", |slash| &path[..=slash]);
    let above = if path.is_empty() && root.contains("://") { "/" } else { above };
    let joined = if address.starts_with('/') { address.to_owned() } else { format!("{above}{address}") };
    let mut steps: Vec<&str> = Vec::new();
    for step in joined.split('/') {
        match step {
            "." => {}
            ".." if steps.len() > 1 => {
                steps.pop();
            }
            ".." => {}
            step => steps.push(step),
        }
    }
    format!("{root}{}", steps.join("/"))
}

/// True for an address that begins with `http:`, `asdf:`, `tag:` or the like.
fn has_scheme(address: &str) -> bool {
    let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|char| char.is_ascii_alphanumeric() || "+.-".contains(char))
}
