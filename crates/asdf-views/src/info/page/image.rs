//! The picture of the file in its page.

use std::sync::Arc;

use asdf_file::container::Container;
use base64::prelude::{BASE64_STANDARD, Engine};
use seekable::content::Content;
use seekable::error::{Error, Result};

use super::html::{cut, escape, link};
use crate::info::describe::codec_of;
use crate::picture::Picture;

/// The picture in the directory of the file.
const NAME: &str = "preview.png";
/// Maximum width and height in the page, in pixels.
const SIDE: usize = 512;
/// Maximum number of bytes that are read of compressed data on a server.
const MAX_FROM_SERVER: u64 = 8 << 20;
/// The space for the text around the picture.
const CAPTION: usize = 2000;
/// Maximum length of the name of the array, in characters.
const MAX_NAME: usize = 60;

fn picture(container: &Arc<dyn Container>) -> Result<Option<Arc<dyn Content>>> {
    match container.clone().derived_file(NAME)? {
        Some(file) => file.content.map(Some),
        None => Ok(None),
    }
}

/// Returns the space for the picture; `None` if the file has none.
pub(super) fn reserved(
    container: &Arc<dyn Container>,
    is_shown: &dyn Fn(&str) -> bool,
) -> Result<Option<usize>> {
    if !is_shown(NAME) || !container.derived_files()?.contains(&NAME) {
        return Ok(None);
    }
    let Some(content) = container.clone().derived_file(NAME)?.and_then(|file| file.content.ok()) else {
        return Ok(None);
    };
    // A pixel takes two bytes of the file, and at most as much in the page: Deflate adds little to data that can't be
    // compressed.
    let most = (SIDE * SIDE * 2 + SIDE) as u64;
    let bytes = content.len().min(most + most / 1000 + 400);
    Ok(Some(usize::try_from(bytes.div_ceil(3) * 4).unwrap_or_default() + CAPTION))
}

/// Returns the size of the compressed data that the picture needs from a server; 0 for all others.
fn compressed_bytes(container: &Arc<dyn Container>, content: &dyn Content) -> Result<u64> {
    let mut bytes: u64 = 0;
    if !container.source().is_slow() {
        return Ok(bytes);
    }
    for range in content.ranges() {
        let Some(block) = container.block_before(range.end.max(range.start))? else { continue };
        if codec_of(&container.block(block)?.facts).is_some() {
            bytes = bytes.saturating_add(range.end.saturating_sub(range.start));
        }
    }
    Ok(bytes)
}

/// Returns the picture as a figure.
pub(super) fn html(container: &Arc<dyn Container>) -> Result<String> {
    let Some(content) = picture(container)? else { return Ok(String::new()) };
    if compressed_bytes(container, &*content)? > MAX_FROM_SERVER {
        let link = link(NAME, NAME);
        return Ok(format!(
            "<p>The picture needs the whole of its compressed data from the server: {link}</p>"
        ));
    }
    let undrawn = || Error::unsupported("the picture is not one of this program");
    let picture = Picture::of(&*content).ok_or_else(undrawn)??;
    let width = picture.width;
    let height = picture.height;
    let note = picture.note.clone();
    let first_row = if picture.has_colors() { "above" } else { "below" };
    let small = picture.scaled(SIDE);
    let shown_width = small.width;
    let shown_height = small.height;
    let class = if shown_width.max(shown_height) < 200 { " class=\"small\"" } else { "" };
    let data = BASE64_STANDARD.encode(small.encode()?);
    let note = escape(&note);
    let path = container.displayed_image()?.unwrap_or_default().join("/");
    let name =
        if path.is_empty() { "the image in this file".to_owned() } else { escape(&cut(&path, MAX_NAME)) };
    let shown = if path.is_empty() { String::new() } else { format!("<b>{name}</b>: ") };
    let link = link(NAME, &format!("{NAME}, {width} × {height} pixels"));
    Ok(format!(
        "<figure>\n<a href=\"./{NAME}\"><img{class} src=\"data:image/png;base64,{data}\" width=\"{shown_width}\" \
         height=\"{shown_height}\" alt=\"Picture of {name}: {note}\"></a>\n<figcaption>{shown}{note}; the first \
         row is {first_row}; {link}</figcaption>\n</figure>\n"
    ))
}
