//! The footprints of images with world coordinates.

use std::sync::Arc;

use asdf_file::asdf::arrays::{self, ArrayEntry};
use asdf_file::asdf::view::AsdfFile;
use asdf_file::container::Footprint;
use seekable::error::Result;

use super::{nodes, nodes_of, numbers_of, path_of};

/// Maximum number of footprints of a file.
const MAX_COUNT: usize = 64;

/// Returns the footprints of the images whose world coordinates lead to the sky. Arrays that share the world
/// coordinates of an image, such as its errors, are not in the list.
pub(super) fn footprints(file: &Arc<AsdfFile>) -> Result<Vec<Footprint>> {
    let nodes = nodes_of(file)?;
    let mut footprints = Vec::new();
    if nodes.solutions.is_empty() {
        return Ok(footprints);
    }
    let mut images = Vec::new();
    let mut companions = Vec::new();
    for item in arrays::found(file)?.items.iter() {
        let ArrayEntry::Array(array) = &item.what else { continue };
        let path = path_of(item);
        let Some(wcs) = nodes.of_array(&path) else { continue };
        let Some(shape) = nodes::lengths(array) else { continue };
        let of_kind = if nodes::is_companion(&path) { &mut companions } else { &mut images };
        of_kind.push((path, wcs, shape));
    }
    let mut seen = Vec::new();
    for (path, wcs, shape) in images.into_iter().chain(companions) {
        let same = (Arc::as_ptr(wcs), shape);
        if seen.contains(&same) {
            continue;
        }
        if seen.len() == MAX_COUNT {
            break;
        }
        seen.push(same);
        let Some(numbers) = numbers_of(file, wcs.numbers())? else { continue };
        let Some(directions) = wcs.directions(&numbers) else { continue };
        footprints.extend(Footprint::of_image(path.join("/"), wcs.rectangle(shape), &*directions));
    }
    Ok(footprints)
}
