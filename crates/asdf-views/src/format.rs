//! The file formats. Each [`Format`] opens a source as a [`Container`].

mod asdf;
pub mod blosc2;
pub mod bloscpack;
mod buffered;
mod described;
mod dtype;
pub mod endings;
pub mod gsd;
#[cfg(test)]
#[path = "format/tests/note.rs"]
mod note;
mod others;
pub mod shown;

use std::path::Path;
use std::sync::Arc;

pub use described::{TreeJson, describe};
use seekable::cache::Cache;
use seekable::error::{Error, Kind, Result, one_of};
use seekable::source::Source;

use asdf_file::container::{Container, Context, Format, HEAD, ReadAt};
use asdf_file::edit::context::{EditContext, SaveTarget};
use asdf_file::edit::{Editor, recovery};

/// The formats, in the order in which they are tried.
const FORMATS: &[&dyn Format] = &[
    &asdf::Asdf, //
    &asdf::AsdfInFits,
    &gsd::Gsd,
    &bloscpack::Bloscpack,
    &blosc2::Blosc2,
];

/// Returns the format of a file whose first [`HEAD`] bytes are `head`.
fn format_of(head: &[u8], read: ReadAt<'_>) -> Result<Option<&'static dyn Format>> {
    let Some(format) = FORMATS.iter().copied().find(|format| format.recognise(head)) else { return Ok(None) };
    Ok(format.confirm(read)?.then_some(format))
}

/// Returns the name of the format of a file.
pub fn recognise(read: ReadAt<'_>) -> Result<Option<&'static str>> {
    let mut head = [0; HEAD];
    let mut len = 0;
    while len < HEAD {
        match read(len as u64, &mut head[len..])? {
            0 => break,
            count => len += count,
        }
    }
    Ok(format_of(&head[..len], read)?.map(Format::name))
}

/// The name of the page about a file, which each format has.
pub const PAGE: &str = "index.html";

/// Returns the names of all views, of each format and of all formats. A name may occur several times.
pub fn view_names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().flat_map(|format| format.view_names()).copied().chain([PAGE])
}

/// Checks by its first bytes that a file is of a known format.
///
/// # Errors
/// [`Kind::Unrecognised`] if the format is unknown; other kinds if the file can't be read.
pub fn check_kind(source: &dyn Source) -> Result<()> {
    format_of_source(source).map(drop)
}

/// Opens a source in the format that its first bytes show.
pub fn open(source: Arc<dyn Source>, context: &Context) -> Result<Arc<dyn Container>> {
    format_of_source(&*source)?.open(source, context)
}

fn format_of_source(source: &dyn Source) -> Result<&'static dyn Format> {
    let mut head = [0; HEAD];
    let len = seekable::source::read_up_to(source, 0, &mut head)?;
    let head = &head[..len];
    let read = |offset: u64, buf: &mut [u8]| {
        source.read_within(offset..offset.saturating_add(buf.len() as u64), offset, buf)
    };
    if let Some(format) = format_of(head, &read)? {
        return Ok(format);
    }
    let stat = source.stat()?;
    let related = FORMATS.iter().find_map(|format| format.related(head, &stat));
    Err(match related {
        Some(related) => Error::new(Kind::Unrecognised, related).of(source.path()),
        None => {
            let mut longer = [0; others::HEAD];
            let longer_len = seekable::source::read_up_to(source, 0, &mut longer)?;
            unrecognised(source.path(), &longer[..longer_len])
        }
    })
}

/// Opens and locks a file for changes. An interrupted save is finished or undone first.
///
/// # Errors
///
/// [`Kind::ReadOnly`] if the file can't be written, [`Kind::Busy`] if another program has it locked,
/// [`Kind::Unsupported`] if files of its format can't be changed.
pub fn open_editor(target: SaveTarget, edits: &EditContext) -> Result<Editor> {
    // The first bytes of a half-saved file may not show its format.
    if !recovery::is_interrupted(&target)? {
        let context = Context::new(Arc::new(Cache::with_threads(0, 1)));
        let container = open(target.open()?, &context)?;
        if !container.is_editable() {
            return Err(Error::new(Kind::Unsupported, container.unchangeable()).of(target.label()));
        }
    }
    Editor::open(target, edits)
}

fn unrecognised(file: &Path, head: &[u8]) -> Error {
    let titles = || {
        let mut titles: Vec<&str> = FORMATS.iter().map(|format| format.title()).collect();
        titles.dedup();
        one_of(&titles)
    };
    let is_text = || head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    let message = match (head, others::describe(head)) {
        ([], _) => format!("is empty: it is not {}", titles()),
        _ if b"#ASDF".starts_with(head) => "is cut off within its first five bytes, #ASDF".to_owned(),
        (_, Some(what)) => what.to_owned(),
        (_, None) if is_text() => format!("is not {}: it is a text, and ASDF begins with #ASDF", titles()),
        (_, None) => format!("is not {}: its format is unknown", titles()),
    };
    Error::new(Kind::Unrecognised, message).of(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use asdf_file::folder::Node;
    use seekable::content::Content;
    use seekable::source::MemorySource;

    #[test]
    fn the_example_of_the_document_is_a_format() {
        let document = include_str!("../../../docs/adding-a-format.md");
        assert!(document.contains(&format!("```rust\n{}```", include_str!("format/tests/note.rs"))));

        assert!(note::Note.recognise(b"NOTE\nhello") && !note::Note.recognise(b"NOTES"));
        let source = Arc::new(MemorySource(b"NOTE\nhello".to_vec()));
        let file = note::Note.open(source, &Context::new(Arc::new(Cache::new(1 << 20)))).unwrap();
        let text = |content: &dyn Content| {
            let mut bytes = vec![0; content.len() as usize];
            seekable::content::read_exact_at(content, 0, &mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(text(&*file.tree()), "bytes: 5\n");
        let [("note.txt", Node::File(made))] = &file.views().unwrap()[..] else {
            panic!("there is no note.txt")
        };
        assert_eq!(text(&**made.content.as_ref().unwrap()), "hello");
    }
}
