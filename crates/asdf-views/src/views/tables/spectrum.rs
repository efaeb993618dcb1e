//! Spectra and one-dimensional cubes as tables.

use asdf_file::asdf::units;
use asdf_tree::yaml::survey::{NodeContent, TreeNode};

use super::search::{Source, arrays_in};
use crate::parquet::Facts;

/// Tag prefixes of spectra of specutils.
const SPECTRA: [&str; 2] =
    ["tag:astropy.org:specutils/spectra/spectrum-", "tag:astropy.org:specutils/spectra/spectrum1d-"];
/// Tag prefix of cubes of ndcube.
const CUBE: &str = "tag:sunpy.org:ndcube/ndcube-1.";

/// True for the tag of a spectrum or a cube.
pub(super) fn is_spectrum(tag: &str) -> bool {
    is_cube(tag) || SPECTRA.iter().any(|known| tag.starts_with(known))
}

fn is_cube(tag: &str) -> bool {
    tag.starts_with(CUBE)
}

/// Returns the key of the main array of a node with this tag, and all arrays that may be columns.
pub(super) fn columns_in(tag: &str, node: &TreeNode) -> (&'static str, Vec<(String, Source)>) {
    let main = if is_cube(tag) { "data" } else { "flux" };
    let mut columns = if is_cube(tag) { columns_in_cube(node) } else { arrays_in(node) };
    let unit_of = |facts: &Facts| facts.iter().find(|(key, _)| *key == "unit").map(|(_, unit)| unit.clone());
    let unit = columns.iter().find(|(name, _)| name == main).and_then(|(_, source)| unit_of(&source.facts));
    for (name, source) in &mut columns {
        let facts = &mut source.facts;
        // specutils names the array `data`, other writers `array`.
        if let Some(kind) = facts.iter().find(|(key, _)| *key == "uncertainty_type") {
            let power = match &*kind.1 {
                "std" => 1,
                "var" => 2,
                "ivar" => -2,
                _ => 0,
            };
            let derived = unit.as_deref().and_then(|unit| units::power(unit, power));
            if unit_of(facts).is_none()
                && let Some(derived) = derived
            {
                facts.push(("unit", derived));
            }
            if name == "uncertainty.array" {
                "uncertainty".clone_into(name);
            }
        }
    }
    (main, columns)
}

/// Returns data, lookup tables of coordinates, uncertainty and mask of a cube. Coordinates that its `wcs`
/// computes are no columns.
fn columns_in_cube(cube: &TreeNode) -> Vec<(String, Source)> {
    let mut columns = Vec::new();
    let mut add = |name: &str, node: &TreeNode, unit: Option<String>| {
        for (below, mut source) in arrays_in(node) {
            let name = if below.is_empty() { name.to_owned() } else { format!("{name}.{below}") };
            if let Some(unit) = &unit
                && source.facts.is_empty()
            {
                source.facts.push(("unit", unit.clone()));
            }
            columns.push((name, source));
        }
    };
    if let Some(data) = cube.get("data") {
        add("data", data, units::of_any(cube));
    }
    let tables = cube.get("extra_coords").and_then(|coords| coords.get("lookup_tables"));
    for pair in tables.and_then(TreeNode::items).unwrap_or_default() {
        // Each item is a pair: the axis or axes, and the coordinate along them.
        let Some([_, coordinate]) = pair.items() else { continue };
        let Some(table) = coordinate.get("table") else { continue };
        let axes = match &table.target().node {
            NodeContent::Sequence(axes, _) => &axes[..],
            _ => std::slice::from_ref(table),
        };
        let names = coordinate.get("names").and_then(TreeNode::items).unwrap_or_default();
        for (n, axis) in axes.iter().enumerate() {
            add(names.get(n).and_then(TreeNode::text).unwrap_or("coordinate"), axis, None);
        }
    }
    if let Some(uncertainty) = cube.get("uncertainty") {
        add("uncertainty", uncertainty, units::of_any(uncertainty));
    }
    if let Some(mask) = cube.get("mask") {
        add("mask", mask, None);
    }
    columns
}
