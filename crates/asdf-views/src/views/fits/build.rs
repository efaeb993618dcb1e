//! The bytes of FITS files: headers, data, and padding to whole records.

use std::sync::Arc;

use asdf_file::asdf::arrays::Masked;
use asdf_file::asdf::arrays::elements::Elements;
use seekable::content::{Content, Pieces, Text};
use seekable::error::Result;

use super::blank::{self, MaskedImage, Null};
use super::card::{self, Cards, Value};
use super::document::{Data, Document, Hdu};
use super::image::{self, Image};
use super::table::TableSize;
use super::wcs::Solution;

/// The keyword of the integer of masked elements.
const BLANK: &str = "BLANK";

/// Returns the header and the content of the file of one array. `path` holds the components of its path.
pub(super) fn of_array(
    elements: &Elements,
    place: &ImagePlace<'_>,
    mask: Option<&Elements>,
) -> Result<(Vec<u8>, Arc<dyn Content>)> {
    let MaskedImage { image, null } = MaskedImage::new(elements.clone(), place.masked.zip(mask), None)?;
    let mut cards = Cards::default();
    cards.set("SIMPLE", Value::Bool(true), image::usual_comment("SIMPLE"));
    image.describe(&mut cards, &|keyword| image::usual_comment(keyword).to_owned());
    describe(&mut cards, &image, null.as_ref(), place);
    let header = cards.header();
    let end = image::padding(image.data.len());
    let content = Pieces::new([with_null(header.clone(), null), image.data, end])?;
    Ok((header, Arc::new(content)))
}

/// Returns the header of an image as a content.
fn with_null(header: Vec<u8>, null: Option<Null>) -> Arc<dyn Content> {
    blank::header(header, null.map(|null| (BLANK.to_owned(), null)).into_iter().collect())
}

/// The name, place, unit, world coordinates and mask of an image.
pub(super) struct ImagePlace<'i> {
    pub name: &'i str,
    /// The number of this image among those of the name, from 1 on.
    pub version: usize,
    pub path: &'i [&'i str],
    pub unit: Option<&'i str>,
    pub solution: Option<&'i Solution>,
    /// The header that the tree has for the image.
    pub own: Option<&'i Cards>,
    /// The cards that people search by.
    pub about: &'i Cards,
    pub masked: Option<&'i Masked>,
}

/// Returns all headers, and the content, of a file with these images as its extensions. `elements` are those of all
/// images, and then those of the masks of the images that have one. The primary header has the cards `common`.
pub(super) fn of_group(
    images: &[ImagePlace<'_>],
    elements: &[Elements],
    common: &Cards,
) -> Result<(Vec<u8>, Arc<dyn Content>)> {
    let mut headers = primary_without_data(common);
    let mut pieces: Vec<Arc<dyn Content>> = vec![Arc::new(Text::new(headers.clone()))];
    let mut masks = elements.iter().skip(images.len());
    for (place, of_image) in images.iter().zip(elements) {
        let mask = place.masked.and_then(|masked| Some((masked, masks.next()?)));
        let MaskedImage { image, null } = MaskedImage::new(of_image.clone(), mask, None)?;
        let mut cards = Cards::default();
        cards.set("XTENSION", Value::Text("IMAGE"), image::usual_comment("IMAGE"));
        image.describe(&mut cards, &|keyword| image::usual_comment(keyword).to_owned());
        cards.set("PCOUNT", Value::Int(0), image::usual_comment("PCOUNT"));
        cards.set("GCOUNT", Value::Int(1), image::usual_comment("GCOUNT"));
        describe(&mut cards, &image, null.as_ref(), place);
        let header = cards.header();
        headers.extend_from_slice(&header);
        let end = image::padding(image.data.len());
        pieces.extend([with_null(header, null), image.data, end]);
    }
    Ok((headers, Arc::new(Pieces::new(pieces)?)))
}

/// Adds the cards of an image after those of its layout.
fn describe(cards: &mut Cards, image: &Image, null: Option<&Null>, place: &ImagePlace<'_>) {
    let ImagePlace { name, version, path, unit, solution, own, about, .. } = *place;
    if let Some(zero) = image.stored.zero {
        cards.set("BSCALE", Value::Int(1), "");
        cards.set("BZERO", Value::Int(zero), "");
    }
    if let Some(null) = null {
        blank::add_card(cards, BLANK, null);
    }
    set_names(cards, name, path, unit);
    if version > 1 {
        cards.set("EXTVER", Value::Int(version as i128), "");
    }
    if let Some(own) = own {
        cards.extend_missing(own);
    }
    if let Some(solution) = solution {
        solution.describe(cards);
    }
    cards.extend_missing(about);
}

/// Adds the cards of name, path and unit.
fn set_names(cards: &mut Cards, name: &str, path: &[&str], unit: Option<&str>) {
    let path: Vec<String> = path.iter().map(|part| card::ascii(part)).collect();
    let path = path.join("/");
    let continues = |text: &str| text.len() + text.matches('\'').count() > card::MAX_TEXT;
    if continues(name) || continues(&path) || unit.is_some_and(continues) {
        cards.set("LONGSTRN", Value::Text("OGIP 1.0"), "long texts continue in CONTINUE cards");
    }
    cards.set("EXTNAME", Value::Text(name), "");
    cards.set("ASDFPATH", Value::Text(&path), "");
    if let Some(unit) = unit {
        cards.set("BUNIT", Value::Text(unit), "");
    }
}

/// Returns all headers, and the content, of the FITS file that `document` describes. `elements` holds the
/// elements of each part of `document`, in order.
///
/// `about` are the cards of a primary header that the document does not have itself, `path` is that of a table.
pub(super) fn of_document(
    document: &Document,
    elements: &[Elements],
    about: &Cards,
    path: &[&str],
) -> Result<(Vec<u8>, Arc<dyn Content>)> {
    let mut headers = Vec::new();
    let mut pieces: Vec<Arc<dyn Content>> = Vec::new();
    let mut elements = elements.iter();
    let mut place = HduPlace::First { has_more: document.hdus.len() > 1 };
    if matches!(document.hdus.first(), Some(Hdu { data: Data::Table(_), .. })) {
        let primary = primary_without_data(about);
        headers.extend_from_slice(&primary);
        pieces.push(Arc::new(Text::new(primary)));
        place = HduPlace::Later;
    }
    for hdu in &document.hdus {
        let mut nulls = Vec::new();
        let (mut cards, data): (Cards, Arc<dyn Content>) = match &hdu.data {
            Data::None => (start_of_image(hdu, hdu.bitpix, &[], place), Arc::new(Text::default())),
            Data::Image(_, masked) => {
                let of_image = elements.next().ok_or_else(Elements::unknown_type)?.clone();
                let mask = masked.as_deref().and_then(|masked| Some((masked, elements.next()?)));
                let MaskedImage { image, null } = MaskedImage::new(of_image, mask, hdu.blank)?;
                let mut cards = start_of_image(hdu, image.stored.bitpix, &image.axes, place);
                if let Some(null) = null {
                    blank::add_card(&mut cards, BLANK, &null);
                    nulls.push((BLANK.to_owned(), null));
                }
                (cards, image.data)
            }
            Data::Table(table) => {
                let of_table: Vec<Elements> = elements.by_ref().take(table.parts().len()).cloned().collect();
                let data = table.data(&of_table)?;
                nulls = data.nulls;
                (start_of_table(hdu, table.size()), data.rows)
            }
        };
        cards.extend(&hdu.cards);
        if document.is_table() {
            let mut names = Cards::default();
            set_names(&mut names, &card::name(path.last().unwrap_or(&"")), path, None);
            // A table that the tree describes by cards may have an EXTNAME of its own.
            cards.extend_missing(&names);
        }
        let end = image::padding(data.len());
        let header = cards.header();
        headers.extend_from_slice(&header);
        pieces.extend([blank::header(header, nulls), data, end]);
        place = HduPlace::Later;
    }
    Ok((headers, Arc::new(Pieces::new(pieces)?)))
}

/// The place of a header/data unit (HDU) in its FITS file.
#[derive(Clone, Copy)]
enum HduPlace {
    /// The first HDU; `has_more` is true if other HDUs follow.
    First {
        has_more: bool,
    },
    Later,
}

/// Returns the mandatory cards of an image, in their order.
fn start_of_image(hdu: &Hdu, bitpix: i128, axes: &[u64], place: HduPlace) -> Cards {
    let mut cards = Cards::default();
    let comment = |keyword: &str| hdu.comment(keyword);
    if let HduPlace::First { has_more } = place {
        cards.set("SIMPLE", Value::Bool(true), &comment("SIMPLE"));
        image::describe(&mut cards, bitpix, axes, &comment);
        if let Some(extend) = hdu.extend.map(|extend| extend || has_more).or(has_more.then_some(true)) {
            cards.set("EXTEND", Value::Bool(extend), &comment("EXTEND"));
        }
    } else {
        cards.set("XTENSION", Value::Text(hdu.data.extension()), &comment("XTENSION"));
        image::describe(&mut cards, bitpix, axes, &comment);
        cards.set("PCOUNT", Value::Int(0), &comment("PCOUNT"));
        cards.set("GCOUNT", Value::Int(1), &comment("GCOUNT"));
    }
    cards
}

/// Returns the mandatory cards of a table, in their order.
fn start_of_table(hdu: &Hdu, size: TableSize) -> Cards {
    let mut cards = Cards::default();
    let comment = |keyword: &str| hdu.comment(keyword);
    cards.set("XTENSION", Value::Text(hdu.data.extension()), &comment("XTENSION"));
    image::describe(&mut cards, 8, &[size.row, size.rows], &comment);
    cards.set("PCOUNT", Value::Int(0), &comment("PCOUNT"));
    cards.set("GCOUNT", Value::Int(1), &comment("GCOUNT"));
    cards.set("TFIELDS", Value::Int(size.columns as i128), &comment("TFIELDS"));
    cards
}

/// Returns a primary header without data, which has the cards `about` the file.
fn primary_without_data(about: &Cards) -> Vec<u8> {
    let mut cards = Cards::default();
    cards.set("SIMPLE", Value::Bool(true), image::usual_comment("SIMPLE"));
    image::describe(&mut cards, 8, &[], &|keyword| image::usual_comment(keyword).to_owned());
    cards.set("EXTEND", card::Value::Bool(true), "");
    cards.extend(about);
    cards.header()
}
