//! A part of an image around a position on the sky, as a FITS file.

use std::ops::Range;
use std::sync::Arc;

use asdf_file::asdf::arrays::{Elements, file_of_all};
use asdf_file::asdf::view::AsdfFile;
use asdf_file::container::Container;
use seekable::content::Content;
use seekable::error::{Error, Result};

use super::card::Cards;
use super::celestial::Celestial;
use super::document::{Data, Document, Hdu};
use super::groups::{self, GroupImage};
use super::nodes::NO_COORDINATES;
use super::rotation::to_cartesian;
use super::sky::{self, SkyImage, SkyPlace};
use super::{build, entries, images_file, nodes_of, unsolved};

/// Names of the extensions that go with an image: its errors, flags and weights.
const COMPANIONS: [&str; 5] = ["ERR", "DQ", "WHT", "UNCERTAINTY", "MASK"];
/// Distance in pixels of positions that are the same, but for rounding.
const SAME: f64 = 1e-6;
/// Maximum number of images that are searched for a position.
const MAX_IMAGES: usize = 1024;

/// A square on the sky.
#[derive(Clone, Debug)]
pub struct CutoutRequest {
    /// Right ascension and declination of its centre in ICRS, in degrees.
    pub position: [f64; 2],
    /// The length of its sides.
    pub size: CutoutSize,
    /// The path of the image, as in `arrays/`. If there is none, it is the first image that contains the position.
    pub path: Option<String>,
}

/// The length of a side of a cut-out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CutoutSize {
    /// Degrees, which are rounded to whole pixels, by the scale at the reference pixel.
    Degrees(f64),
    /// Pixels.
    Pixels(u64),
}

/// The part of an image that a request asks for.
#[derive(Debug)]
pub struct Cutout {
    /// The path of the image, as in `arrays/`.
    pub path: String,
    /// The bytes of the FITS file. Pixels are read with them.
    pub content: Arc<dyn Content>,
}

/// A box of pixels.
#[derive(Debug)]
pub(super) struct Part {
    /// The indices of each dimension of the array.
    pub(super) ranges: Vec<Range<u64>>,
}

impl Part {
    /// Returns the first pixel, the fastest-varying axis first.
    pub(super) fn corner(&self) -> Vec<u64> {
        self.ranges.iter().rev().map(|range| range.start).collect()
    }

    /// Returns the elements of the box.
    pub(super) fn of_all(&self, elements: &[Elements]) -> Result<Vec<Elements>> {
        elements.iter().map(|elements| elements.clone().part(&self.ranges)).collect()
    }
}

/// Cuts the part of an image around a position, with its errors and flags. Pixels outside of the image are left out, as
/// by astropy's `Cutout2D` with the mode `trim`. The inner error says why the file has no such part.
///
/// # Errors
/// The file can't be read, or the world coordinates of its images can't be evaluated.
pub fn cutout(
    container: Arc<dyn Container>,
    request: &CutoutRequest,
) -> Result<std::result::Result<Cutout, String>> {
    let container: Arc<dyn std::any::Any + Send + Sync> = container;
    let Ok(file) = container.downcast::<AsdfFile>() else {
        return Ok(Err("files of this format have no images on the sky".to_owned()));
    };
    let [ra, dec] = request.position;
    let wanted = to_cartesian(ra, dec);
    let mut has_sky = false;
    let mut unknown = None;
    let images = sky::images(&file)?;
    let is_meant = |image: &&SkyImage<'_>| {
        request.path.as_ref().is_none_or(|path| image.path.join("/").strip_prefix(path).is_some_and(is_value))
    };
    for image in images.iter().filter(is_meant).take(MAX_IMAGES) {
        let Some(cards) = image.cards(&file)? else { continue };
        let celestial = match Celestial::of(&cards) {
            Ok(Some(celestial)) => celestial,
            Ok(None) => continue,
            Err(why) => {
                unknown.get_or_insert(format!(
                    "the world coordinates of {} can't be used: {why}",
                    image.path.join(".")
                ));
                continue;
            }
        };
        has_sky = true;
        let Some(lengths) = image.lengths(celestial.axes) else { continue };
        let Some(pixel) = celestial.pixel(wanted) else { continue };
        let is_inside = |(at, len): (f64, u64)| at >= -0.5 && at < len as f64 - 0.5;
        if !pixel.into_iter().zip(lengths).all(is_inside) {
            continue;
        }
        let mut ranges: Vec<Range<u64>> = image.shape.iter().map(|len| 0..*len).collect();
        let scales = celestial.scales();
        for n in 0..2 {
            let range = interval(pixel[n], lengths[n], request.size, scales[n]);
            if let Some(place) = ranges.iter_mut().rev().nth(celestial.axes[n]) {
                *place = range;
            }
        }
        let part = Part { ranges };
        let made = match image.place {
            SkyPlace::Array(number) => of_array(&file, image, number, &part)?,
            SkyPlace::Hdu(number, n) => of_hdu(&file, number, n, &part)?,
        };
        return Ok(Ok(Cutout { path: image.path.join("/"), content: made.content? }));
    }
    if let Some(unknown) = unknown {
        return Err(Error::unsupported(unknown));
    }
    Ok(Err(match &request.path {
        _ if has_sky => "does not contain the position".to_owned(),
        Some(path) => format!("has no image {} with world coordinates on the sky", path.replace('/', ".")),
        None => {
            let why = without_coordinates(&file)?.map_or_else(String::new, |why| format!(": {why}"));
            format!("has no image with world coordinates on the sky{why}")
        }
    }))
}

/// Returns the note on the first image whose world coordinates FITS can't express.
fn without_coordinates(file: &AsdfFile) -> Result<Option<String>> {
    let nodes = nodes_of(file)?;
    let mut notes = nodes.defects.iter().cloned().chain(unsolved(nodes)).map(|note| note.what);
    Ok(notes.find(|what| what.contains(NO_COORDINATES)))
}

/// True for the rest of a path to the array of a quantity or of an uncertainty, or to the array itself.
fn is_value(rest: &str) -> bool {
    matches!(rest, "" | "/value" | "/array")
}

/// Returns the pixels of an axis with `len` pixels around a position on it. `scale` is the size of a pixel in degrees.
fn interval(position: f64, len: u64, size: CutoutSize, scale: f64) -> Range<u64> {
    let count = match size {
        CutoutSize::Degrees(degrees) => (degrees / scale).round_ties_even().max(1.0),
        CutoutSize::Pixels(count) => count as f64,
    };
    // Two ways to write a position in the middle of a pixel give the same pixels.
    let start = (position - count / 2.0 - SAME).ceil();
    let within = |end: f64| end.clamp(0.0, len as f64) as u64;
    within(start)..within(start + count)
}

/// Cuts an array, and the arrays that go with it.
fn of_array(
    file: &Arc<AsdfFile>,
    image: &SkyImage<'_>,
    number: usize,
    part: &Part,
) -> Result<asdf_file::folder::File> {
    let mut groups = entries(file)?.groups.iter();
    let found =
        groups.find_map(|group| Some((group, group.images.iter().find(|image| image.number == number)?)));
    let Some((group, main)) = found else {
        // The key of the node that has the array: a quantity or an uncertainty.
        let key = match image.names()[..] {
            [.., key, "value"] | [.., key @ "uncertainty", "array"] => key,
            [.., key] => key,
            [] => "",
        };
        let alone = GroupImage { number, name: groups::extension_name(key), version: 1 };
        return images_file(file, &[&alone], Some(part));
    };
    let goes_with =
        |other: &&GroupImage| other.version == main.version && COMPANIONS.contains(&other.name.as_str());
    let mut images = vec![main];
    if !COMPANIONS.contains(&main.name.as_str()) {
        images.extend(group.images.iter().filter(goes_with));
    }
    images_file(file, &images, Some(part))
}

/// Cuts an HDU of a described file, and the HDUs that go with it.
fn of_hdu(file: &Arc<AsdfFile>, number: usize, n: usize, part: &Part) -> Result<asdf_file::folder::File> {
    let missing = || Error::damaged("the FITS file is not in the tree");
    let (path, document) = nodes_of(file)?.documents.get(number).ok_or_else(missing)?;
    let main = document.hdus.get(n).ok_or_else(missing)?;
    let shape = |hdu: &Hdu| match &hdu.data {
        Data::Image(array, _) => array.shape.clone(),
        _ => None,
    };
    let version = |hdu: &Hdu| hdu.cards.number("EXTVER").unwrap_or(1.0);
    let is_companion =
        |hdu: &Hdu| hdu.cards.text("EXTNAME").is_some_and(|name| COMPANIONS.contains(&name.as_str()));
    let goes_with =
        |hdu: &&Hdu| is_companion(hdu) && shape(hdu) == shape(main) && version(hdu) == version(main);
    let mut hdus = Vec::new();
    if n > 0 {
        hdus.extend(document.hdus.first().map(Hdu::without_data));
    }
    let others: Vec<&Hdu> =
        if is_companion(main) { Vec::new() } else { document.hdus.iter().filter(goes_with).collect() };
    hdus.extend([main].into_iter().chain(others).map(|hdu| hdu.part(&part.corner())));
    let cut = Document { hdus, size: document.size };
    Ok(file_of_all(file, &cut.parts(), |elements| {
        let parts = part.of_all(elements)?;
        build::of_document(&cut, &parts, &Cards::default(), &path.names()).map(|(_, content)| content)
    }))
}
