//! The images with world coordinates on the sky, and their footprints.

use std::sync::Arc;

use asdf_file::asdf::arrays::{self, ArrayEntry};
use asdf_file::asdf::view::AsdfFile;
use asdf_file::container::Footprint;
use seekable::error::Result;

use super::card::Cards;
use super::celestial::Celestial;
use super::document::Data;
use super::{nodes, nodes_of, numbers_of, own_cards, path_of, solution};

/// Maximum number of footprints of a file.
const MAX_COUNT: usize = 64;

/// An image that has world coordinates, which may lead to the sky.
#[derive(Debug)]
pub(super) struct SkyImage<'f> {
    /// The path of the array, as in `arrays/`.
    pub(super) path: Vec<String>,
    pub(super) shape: &'f [u64],
    pub(super) place: SkyPlace,
}

/// The place of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SkyPlace {
    /// The array with this number in the survey's items.
    Array(usize),
    /// The HDU with the second number in the document with the first one.
    Hdu(usize, usize),
}

/// Returns the images of a file, those that share the world coordinates of another one, such as its errors, at the end.
pub(super) fn images(file: &Arc<AsdfFile>) -> Result<Vec<SkyImage<'_>>> {
    let nodes = nodes_of(file)?;
    let mut images = Vec::new();
    if !(nodes.solutions.is_empty() && nodes.headers.is_empty()) {
        for (number, item) in arrays::found(file)?.items.iter().enumerate() {
            let ArrayEntry::Array(array) = &item.what else { continue };
            let path = path_of(item);
            if nodes.of_array(&path).is_none() && nodes.header_of(&path).is_none() {
                continue;
            }
            let Some(shape) = nodes::lengths(array) else { continue };
            let path = path.into_iter().map(str::to_owned).collect();
            images.push(SkyImage { path, shape, place: SkyPlace::Array(number) });
        }
        images.sort_by_key(|image| nodes::is_companion(&image.names()));
    }
    for (number, (path, document)) in nodes.documents.iter().enumerate().take(nodes.described) {
        for (n, hdu) in document.hdus.iter().enumerate() {
            let Data::Image(array, _) = &hdu.data else { continue };
            let Some(shape) = nodes::lengths(array).filter(|_| hdu.cards.text("CTYPE1").is_some()) else {
                continue;
            };
            let names = path.names().into_iter().map(str::to_owned);
            let path = names.chain([n.to_string(), "data".to_owned()]).collect();
            images.push(SkyImage { path, shape, place: SkyPlace::Hdu(number, n) });
        }
    }
    Ok(images)
}

impl SkyImage<'_> {
    pub(super) fn names(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// Returns the cards of the world coordinates, if they have any.
    pub(super) fn cards(&self, file: &Arc<AsdfFile>) -> Result<Option<Cards>> {
        let nodes = nodes_of(file)?;
        if let SkyPlace::Hdu(number, n) = self.place {
            let document = nodes.documents.get(number).map(|(_, document)| document);
            return Ok(document.and_then(|document| Some(document.hdus.get(n)?.cards.clone())));
        }
        let names = self.names();
        if let Some(wcs) = nodes.of_array(&names)
            && let Some(solution) = solution(file, wcs, self.shape)?
        {
            let mut cards = Cards::default();
            solution.describe(&mut cards);
            return Ok(Some(cards));
        }
        Ok(own_cards(file, nodes, &names)?.cloned())
    }

    /// Returns the lengths of two pixel axes, the fastest-varying one being number 0.
    pub(super) fn lengths(&self, axes: [usize; 2]) -> Option<[u64; 2]> {
        let len = |axis: usize| self.shape.iter().rev().nth(axis).copied();
        Some([len(axes[0])?, len(axes[1])?])
    }
}

/// Returns the footprints of the images whose world coordinates lead to the sky. Arrays that share the world
/// coordinates of an image, such as its errors, are not in the list.
pub(super) fn footprints(file: &Arc<AsdfFile>) -> Result<Vec<Footprint>> {
    let nodes = nodes_of(file)?;
    let mut footprints: Vec<Footprint> = Vec::new();
    let mut seen = Vec::new();
    for image in images(file)? {
        if seen.len() == MAX_COUNT {
            break;
        }
        let names = image.names();
        let path = names.join("/");
        if let Some(wcs) = nodes.of_array(&names) {
            let same = (Arc::as_ptr(wcs), image.shape);
            if seen.contains(&same) {
                continue;
            }
            seen.push(same);
            let Some(numbers) = numbers_of(file, wcs.numbers())? else { continue };
            let Some(directions) = wcs.directions(&numbers) else { continue };
            footprints.extend(Footprint::of_image(path, wcs.rectangle(image.shape), &*directions));
            continue;
        }
        if footprints.len() == MAX_COUNT {
            break;
        }
        let Some(Ok(Some(celestial))) = image.cards(file)?.map(|cards| Celestial::of(&cards)) else {
            continue;
        };
        let Some(lengths) = image.lengths(celestial.axes) else { continue };
        let rectangle = lengths.map(|len| [-0.5, len as f64 - 0.5]);
        let footprint = Footprint::of_image(path, rectangle, &|pixel| celestial.direction(pixel));
        footprints
            .extend(footprint.filter(|new| footprints.iter().all(|known| known.corners != new.corners)));
    }
    Ok(footprints)
}
