//! `imploded.asdf`: the file with the blocks of its arrays in other files included.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use asdf_file::asdf::external::{split, unchanged};
use asdf_file::asdf::header::{Generation, Layout, STREAMED};
use asdf_file::asdf::ndarray;
use asdf_file::asdf::sources::{Mention, Target, are_known, replaced, sources};
use asdf_file::asdf::view::{AsdfFile, View};
use asdf_file::folder::{File, Node, Renewal, Signature};
use seekable::content::{Content, Pieces, Slice, Text, any_piece, read_exact_at};
use seekable::error::{Error, Result, if_readable};

/// Maximum number of other files that are held open for `imploded.asdf`.
const MAX_FILES: usize = 1000;

/// The blocks of the imploded file, in their order.
struct ImplodedBlocks {
    blocks: Vec<Arc<dyn Content>>,
    /// The number that the block of each other file gets, by the file's URI.
    others: HashMap<String, usize>,
    /// The number of the file's own last block, if that is streamed. It is moved to the end.
    streamed: Option<usize>,
    /// A text that changes whenever the bytes of the imploded file may have changed.
    signature: String,
}

/// The file `imploded.asdf`, if the tree names blocks of other files.
#[derive(Debug)]
pub(crate) struct Imploded;

/// True if the text of the tree may name other files.
struct MayNameFiles(bool);

impl View for Imploded {
    fn name(&self) -> &'static str {
        "imploded.asdf"
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        match self.is_there(file) {
            Ok(true) => Some(Node::File(imploded_file(file))),
            Ok(false) => None,
            Err(error) => Some(Node::File(File::unreadable(error))),
        }
    }

    /// True if an array of the tree is in another file. Searches the text for the names of files before the
    /// tree is parsed.
    fn is_there(&self, file: &AsdfFile) -> Result<bool> {
        if !file.computed.get_or_try_compute(|| names_files(&*file.tree()).map(MayNameFiles))?.0 {
            return Ok(false);
        }
        let is_external = |mention: &Mention| matches!(mention.target, Target::External(_));
        let sources = if_readable(sources(file))?;
        Ok(sources.is_some_and(|sources| sources.mentions.iter().any(is_external)))
    }

    fn is_sought_slowly(&self, file: &AsdfFile) -> bool {
        file.computed.get().is_none_or(|MayNameFiles(may)| *may && !are_known(file))
    }

    fn is_made_slowly(&self, file: &AsdfFile) -> bool {
        // Slow, because the other files have to be opened.
        file.computed.get().is_none_or(|MayNameFiles(may)| *may)
    }
}

fn imploded_file(file: &AsdfFile) -> File {
    let made = collect_blocks(file).and_then(|collected| Ok((imploded(file, &collected)?, collected)));
    let (content, collected) = match made {
        Ok((content, collected)) => (Ok(content), Some(collected)),
        Err(error) => (Err(error), None),
    };
    let grows = collected.as_ref().is_some_and(|collected| collected.streamed.is_some());
    let renewal =
        collected.map_or(Renewal::Anew, |collected| Renewal::WhileSame(Signature::new(collected.signature)));
    let of_content = match content {
        Ok(content) if grows => File::changing(content),
        Ok(content) => File::new(content),
        Err(error) => File::unreadable(error),
    };
    File { grows, renewal, ..of_content }
}

/// Collects all blocks.
fn collect_blocks(file: &AsdfFile) -> Result<ImplodedBlocks> {
    let mut collected = ImplodedBlocks {
        blocks: Vec::new(),
        others: HashMap::new(),
        streamed: None,
        signature: String::new(),
    };
    let mut last = None;
    let count = file.block_count()?;
    for n in 0..count {
        let header = file.header_of(n).map_err(|error| error.in_block(n as u64))?;
        let block = file.lent_block(n, &header)?;
        if header.streamed() { last = Some(block) } else { collected.blocks.push(block) }
    }
    for mention in &sources(file)?.mentions {
        let Target::External(uri) = &mention.target else { continue };
        let name = split(uri).0;
        if collected.others.contains_key(name) {
            continue;
        }
        if collected.others.len() >= MAX_FILES {
            return Err(Error::unsupported(format!("the tree names more than {MAX_FILES} other files")));
        }
        let other = file.external(uri)?;
        let block = block_for(&other, file).map_err(|error| {
            Error::new(error.kind(), format!("the file \"{}\": {}", name.escape_debug(), error.message()))
        })?;
        // Writing to a String can't fail.
        let _ = write!(collected.signature, "{name:?} {:?} ", other.source_stat.version);
        collected.others.insert(name.to_owned(), collected.blocks.len());
        collected.blocks.push(unchanged(block, &other));
    }
    if let Some(last) = last {
        collected.streamed = Some(count - 1);
        let _ = write!(collected.signature, "{}", file.head.end);
        collected.blocks.push(last);
    } else {
        let _ = write!(collected.signature, "{:?}", file.source_stat.version);
    }
    Ok(collected)
}

/// Returns the first block of another file in a form that is valid within `file`.
fn block_for(other: &AsdfFile, file: &AsdfFile) -> Result<Arc<dyn Content>> {
    if other.block_count()? == 0 {
        return Err(Error::damaged("it has no block"));
    }
    let header = other.header_of(0)?;
    if other.head.generation != file.head.generation {
        let what = "its blocks are of another version of the format, which can't be in this file";
        return Err(Error::unsupported(what));
    }
    let block = other.lent_block(0, &header)?;
    if !header.streamed() {
        return Ok(block);
    }
    if header.layout != Layout::Md5 {
        return Err(Error::unsupported("its block is streamed, which only the last one may be"));
    }
    // In the imploded file the block is no longer streamed, so its sizes are filled in.
    let before = header.data_offset() - header.offset;
    let mut bytes = vec![0; usize::try_from(before).unwrap_or(0)];
    read_exact_at(&*block, 0, &mut bytes)?;
    let len = block.len() - before;
    bytes[6..10].copy_from_slice(&(header.flags & !STREAMED).to_be_bytes());
    for at in [14, 22, 30] {
        bytes[at..at + 8].copy_from_slice(&len.to_be_bytes());
    }
    let data = Slice::new(other.source.clone(), header.data_offset(), len);
    Ok(Arc::new(Pieces::new([Arc::new(Text::new(bytes)) as Arc<dyn Content>, Arc::new(data)])?))
}

fn imploded(file: &AsdfFile, collected: &ImplodedBlocks) -> Result<Arc<dyn Content>> {
    let count = file.block_count()?;
    let places = sources(file)?.mentions.iter().filter_map(|mention| {
        let number = match &mention.target {
            Target::Block(n) => match ndarray::Source::Block(*n).block(count)? {
                n if collected.streamed == Some(n) => collected.blocks.len() - 1,
                n => n,
            },
            Target::External(uri) => *collected.others.get(split(uri).0)?,
        };
        Some((mention, number.to_string()))
    });
    let tree = replaced(file, places)?;
    let mut index = "#ASDF BLOCK INDEX\n%YAML 1.1\n---\n".to_owned();
    let mut at = tree.len();
    for block in &collected.blocks {
        let _ = writeln!(index, "- {at}");
        at = at.saturating_add(block.len());
    }
    index.push_str("...\n");
    let is_indexed = collected.streamed.is_none() && file.head.generation == Generation::One;
    let index = is_indexed.then(|| Arc::new(Text::new(index.into_bytes())) as Arc<dyn Content>);
    let pieces = std::iter::once(tree).chain(collected.blocks.iter().cloned()).chain(index);
    Ok(Arc::new(Pieces::new(pieces)?))
}

/// True if a text may have a key `source` with a value that is not a number.
fn names_files(text: &dyn Content) -> Result<bool> {
    let finder = memchr::memmem::Finder::new("source");
    any_piece(text, |piece, is_last| {
        let names_file = |place: usize| {
            let after = &piece[place + 6..];
            let after = after.strip_prefix(b"\"").or(after.strip_prefix(b"'")).unwrap_or(after);
            match after.trim_ascii_start() {
                [b':', value @ ..] => {
                    let value = value.trim_ascii_start();
                    let number = value.strip_prefix(b"-").unwrap_or(value);
                    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    match &number[digits..] {
                        [] => !is_last,
                        // The name of a file may begin with a digit.
                        [next, ..] => digits == 0 || !(next.is_ascii_whitespace() || b",]}".contains(next)),
                    }
                }
                // A match that is cut off here is found again in the next piece.
                _ => false,
            }
        };
        finder.find_iter(piece).any(names_file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_name_files_are_told_by_a_glance() {
        let names = |text: &str| names_files(&Text::new(text.as_bytes())).unwrap();
        for text in [
            "source: a.asdf",
            "{\"source\":'x'}",
            "source : &a b",
            "  source:\n    x",
            "a\nsource: *n",
            "source: 2026-11-30.asdf",
            "source: -1.asdf",
        ] {
            assert!(names(text), "{text}");
            let far = format!("{}{text}\n", "#".repeat(seekable::content::PIECE - 9));
            assert!(names(&far), "{text}");
        }
        for text in [
            "",
            "source: 0",
            "{source: 12, a: b}",
            "{'source': -1}",
            "[source: 3]",
            "source: 0\n",
            "sources: x",
            "the source is x: y",
        ] {
            assert!(!names(text), "{text}");
        }
    }
}
