//! Spectra and one-dimensional cubes as tables.

use super::super::units;
use super::search::{Source, arrays_in};
use crate::yaml::survey::{NodeContent, TreeNode};

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
    if is_cube(tag) { ("data", columns_in_cube(node)) } else { ("flux", arrays_in(node)) }
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
    for table in tables.and_then(TreeNode::items).unwrap_or_default() {
        // Each item is a pair: the axis or axes, and the coordinate along them.
        let Some([_, coordinate]) = table.items() else { continue };
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
        let array = uncertainty.get("array").unwrap_or(uncertainty);
        add("uncertainty", array, units::of_any(uncertainty));
    }
    if let Some(mask) = cube.get("mask") {
        add("mask", mask, None);
    }
    columns
}
