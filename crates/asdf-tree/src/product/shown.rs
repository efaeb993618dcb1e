//! The facts of a tree as texts.

use super::FileSummary;
use crate::yaml::scalar::TAG_PREFIX;

impl FileSummary {
    /// Returns the product: its kind, and the schema of the tree's main part.
    pub fn product(&self) -> Option<String> {
        let tag = self.tag().and_then(|tag| {
            let kind = kind_of_tag(tag)?;
            let authority = tag.strip_prefix("asdf://").or_else(|| tag.strip_prefix("tag:")).unwrap_or(tag);
            let authority = authority.split(['/', ':', ',']).next().unwrap_or_default();
            Some(format!("{kind} ({authority})"))
        });
        match (self.get("product"), tag) {
            (Some(product), Some(tag)) => Some(format!("{product}, {tag}")),
            (Some(product), None) => Some(product.to_owned()),
            (None, tag) => tag,
        }
    }

    /// Returns the program that wrote the file.
    pub fn software(&self) -> Option<String> {
        match (self.get("writer"), self.get("version")) {
            (Some(name), Some(version)) => Some(format!("{name} {version}")),
            (Some(name), None) => Some(name.to_owned()),
            _ => self.get("software").map(str::to_owned),
        }
    }

    /// Returns the lines about the product and its observation: a name and a text.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if let Some(product) = self.product() {
            facts.push(("product", product));
        }
        let joined = |names: &[&str]| {
            let found: Vec<&str> = names.iter().filter_map(|name| self.get(name)).collect();
            (!found.is_empty()).then(|| found.join(" "))
        };
        if let Some(instrument) = joined(&["telescope", "instrument", "detector"]) {
            facts.push(("instrument", instrument));
        }
        for name in ["filter", "exposure", "date", "target"] {
            if let Some(value) = self.get(name) {
                let is_seconds = name == "exposure" && value.parse::<f64>().is_ok();
                facts.push((name, if is_seconds { format!("{value} s") } else { value.to_owned() }));
            }
        }
        if let (Some(ra), Some(dec)) = (self.get("ra"), self.get("dec")) {
            facts.push(("position", format!("RA {ra} Dec {dec}")));
        }
        facts
    }
}

/// Returns the name in a tag without authority and version; `None` for YAML's own tags.
pub fn kind_of_tag(tag: &str) -> Option<&str> {
    if tag.starts_with(TAG_PREFIX) {
        return None;
    }
    let name = tag.rsplit(['/', ':', '!']).next().unwrap_or(tag);
    let versioned =
        name.rsplit_once('-').filter(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit()));
    Some(versioned.map_or(name, |(name, _)| name)).filter(|name| !name.is_empty())
}
