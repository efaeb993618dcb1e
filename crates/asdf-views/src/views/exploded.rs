//! `exploded/`: the exploded form of the standard. `NAME.asdf` holds the header and the tree. Each block has
//! a file of its own, `NAME0000.asdf` and so on, to which the arrays in `NAME.asdf` refer. Programs open a
//! copy of the directory.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use asdf_file::asdf::external::{split, unescaped};
use asdf_file::asdf::header::{Generation, Header};
use asdf_file::asdf::ndarray;
use asdf_file::asdf::sources::{Mention, Sources, Target, replaced, sources};
use asdf_file::asdf::view::{AsdfFile, View};
use asdf_file::container::{Defect, Severity};
use asdf_file::folder::{Dir, EntryKind, File, Node, Renewal, Signature};
use seekable::content::{Content, Pieces, Text};
use seekable::error::{Error, Result};

const ENDING: &str = ".asdf";
/// Maximum length of the original file's name in names of this directory, in bytes. Block numbers and the
/// ending follow.
const MAX_STEM: usize = 240;

/// The directory `exploded/`. The tree is searched when a program first asks for a file in it.
#[derive(Debug)]
pub(crate) struct Exploded;

impl View for Exploded {
    fn name(&self) -> &'static str {
        "exploded"
    }

    fn node(&self, file: &Arc<AsdfFile>) -> Option<Node> {
        Some(Node::Dir(Arc::new(ExplodedDir { file: file.clone() })))
    }

    fn defects(&self, file: &AsdfFile) -> Vec<Defect> {
        let Some(Err(error)) = file.computed.get::<Result<ExplodedParts>>() else { return Vec::new() };
        let what = format!("exploded/ can't be read: {}", error.message());
        vec![Defect { severity: Severity::Note, offset: 0, block: None, what }]
    }
}

/// A file in its exploded form.
#[derive(Debug)]
struct ExplodedDir {
    file: Arc<AsdfFile>,
}

/// The tree of the exploded form, and the start of each block file.
#[derive(Debug)]
struct ExplodedParts {
    tree: Arc<dyn Content>,
    front: Arc<[u8]>,
}

/// A file of the directory.
#[derive(Debug, PartialEq, Eq)]
enum Name {
    Tree,
    Block(usize),
}

impl ExplodedDir {
    fn stem(&self) -> Vec<u8> {
        let name = self.file.source.path().file_name().unwrap_or_default().as_bytes();
        stem(name).to_vec()
    }

    fn block_file(&self, n: usize) -> Result<Option<File>> {
        match self.file.offset(n) {
            Ok(_) => {}
            Err(error) if error.is_of_reading() => return Err(error),
            Err(_) => return Ok(None),
        }
        let header = self.file.header_of(n);
        let content = header.clone().and_then(|header| block_alone(&self.file, n, &header));
        let streamed = header.as_ref().is_ok_and(Header::streamed);
        let renewal = match (&header, parts(&self.file)) {
            (Ok(_), Ok(_)) if streamed => Renewal::Follows,
            (Ok(header), Ok(parts)) => {
                // After another program has written the file, a block without a checksum is identified only
                // by its offset.
                let place = if header.has_checksum() { 0 } else { header.offset };
                let header = Header { offset: 0, ..header.clone() };
                let text = format!("{header:?} {}", parts.front.escape_ascii());
                Renewal::WhileSame(Signature { text, place: place.to_string() })
            }
            _ => Renewal::Anew,
        };
        let file = match content {
            Ok(content) if streamed => File::changing(content),
            content => File::of(content.map_err(|error| error.in_block(n as u64))),
        };
        Ok(Some(File { grows: streamed, blocks: vec![n], renewal, ..file }))
    }
}

impl Dir for ExplodedDir {
    fn lookup(&self, name: &OsStr) -> Result<Option<Node>> {
        Ok(match parse(&self.stem(), name.as_bytes()) {
            Some(Name::Tree) => {
                let content = parts(&self.file).map(|parts| parts.tree.clone());
                let version = format!("{:?}", self.file.source_stat.version);
                let renewal = Renewal::WhileSame(Signature::new(version));
                Some(Node::File(File { renewal, ..File::of(content) }))
            }
            Some(Name::Block(n)) => self.block_file(n)?.map(Node::File),
            None => None,
        })
    }

    fn list(&self, from: u64, take: &mut dyn FnMut(&OsStr, EntryKind) -> bool) -> Result<()> {
        let stem = self.stem();
        let blocks = self.file.block_count()? as u64;
        for number in from..=blocks {
            let name = match number.checked_sub(1) {
                None => [&stem, ENDING.as_bytes()].concat(),
                Some(n) => block_name(&stem, n),
            };
            if !take(&OsString::from_vec(name), EntryKind::File) {
                break;
            }
        }
        Ok(())
    }

    fn is_slow(&self) -> bool {
        self.file.is_slow()
    }

    fn is_slow_at(&self, _: &OsStr) -> bool {
        self.file.is_slow() || self.file.computed.get::<Result<ExplodedParts>>().is_none()
    }
}

/// Returns the parts of the exploded form. They are made at the first call.
fn parts(file: &AsdfFile) -> Result<&ExplodedParts> {
    let make = || -> Result<ExplodedParts> {
        let found = sources(file)?;
        let stem = stem(file.source.path().file_name().unwrap_or_default().as_bytes());
        let tree = exploded_tree(file, found, stem)?;
        Ok(ExplodedParts { tree, front: found.front.clone().into() })
    };
    let made = file.computed.get_or_try_compute(|| match make() {
        Err(error) if error.is_of_reading() => Err(error),
        made => Ok(made),
    });
    made?.as_ref().map_err(Error::clone)
}

/// Makes a file with only block `n`. Header and data are read from the source, not copied.
fn block_alone(file: &AsdfFile, n: usize, header: &Header) -> Result<Arc<dyn Content>> {
    let front = &parts(file)?.front;
    let start: Arc<dyn Content> = Arc::new(Text::new(front.clone()));
    let mut pieces = vec![start, file.lent_block(n, header)?];
    if file.head.generation == Generation::One && !header.streamed() {
        // Without an index, Python asdf reads a large file to its end in search of one.
        let index = format!("#ASDF BLOCK INDEX\n%YAML 1.1\n---\n- {}\n...\n", front.len());
        pieces.push(Arc::new(Text::new(index.into_bytes())));
    }
    Ok(Arc::new(Pieces::new(pieces)?))
}

/// Returns the head of the file in which arrays refer to files instead of blocks.
fn exploded_tree(file: &AsdfFile, found: &Sources, stem: &[u8]) -> Result<Arc<dyn Content>> {
    let count = file.block_count()?;
    let block = |mention: &Mention| match mention.target {
        Target::Block(n) => ndarray_block(n, count),
        Target::External(_) => None,
    };
    for mention in &found.mentions {
        if let Target::External(uri) = &mention.target
            && is_taken(stem, count, split(uri).0)
        {
            let what = format!(
                "an array is in another file, {uri:?}, with the name of a file of exploded/: use \
                 imploded.asdf"
            );
            return Err(Error::unsupported(what));
        }
    }
    let names = found.mentions.iter().filter_map(|mention| {
        let name = block_name(stem, block(mention)? as u64);
        Some((mention, escaped(&name)))
    });
    replaced(file, names)
}

/// True if a relative URI refers to a file of the exploded form.
fn is_taken(stem: &[u8], blocks: usize, uri: &str) -> bool {
    let name = unescaped(uri);
    let name = name.strip_prefix(b"./").unwrap_or(&name);
    match parse(stem, name) {
        Some(Name::Tree) => true,
        Some(Name::Block(n)) => n < blocks,
        None => false,
    }
}

/// Returns the number of the block that the `source` of an array refers to.
fn ndarray_block(n: i64, count: usize) -> Option<usize> {
    ndarray::Source::Block(n).block(count)
}

/// Returns the name of a file without its ending, shortened to [`MAX_STEM`].
fn stem(name: &[u8]) -> &[u8] {
    let stem = name.strip_suffix(ENDING.as_bytes()).unwrap_or(name);
    let mut end = stem.len().min(MAX_STEM);
    while end > 0 && stem.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
        end -= 1;
    }
    &stem[..end]
}

fn block_name(stem: &[u8], n: u64) -> Vec<u8> {
    [stem, format!("{n:04}{ENDING}").as_bytes()].concat()
}

fn parse(stem: &[u8], name: &[u8]) -> Option<Name> {
    let number = name.strip_prefix(stem)?.strip_suffix(ENDING.as_bytes())?;
    if number.is_empty() {
        return Some(Name::Tree);
    }
    let n: usize = std::str::from_utf8(number).ok()?.parse().ok()?;
    (block_name(stem, n as u64) == name).then_some(Name::Block(n))
}

/// Escapes a file name as a relative URI that is also a plain YAML scalar and a string.
fn escaped(name: &[u8]) -> String {
    let mut uri = String::with_capacity(name.len());
    for byte in name {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' => uri.push(char::from(*byte)),
            b'-' | b'~' if !uri.is_empty() => uri.push(char::from(*byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    // A plain scalar can't begin with `%`.
    if uri.starts_with('%') { format!("./{uri}") } else { uri }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_blocks() {
        for (name, expected) in [
            ("a.asdf", Some(Name::Tree)),
            ("a0000.asdf", Some(Name::Block(0))),
            ("a0012.asdf", Some(Name::Block(12))),
            ("a12345.asdf", Some(Name::Block(12345))),
            ("a012345.asdf", None),
            ("a12.asdf", None),
            ("a+001.asdf", None),
            ("a0000", None),
            ("b0000.asdf", None),
            ("a99999999999999999999999.asdf", None),
        ] {
            assert_eq!(parse(b"a", name.as_bytes()), expected, "{name}");
        }
        assert_eq!(stem(b"x.asdf"), b"x");
        assert_eq!(stem(b"x.dat"), b"x.dat");
        assert_eq!(stem("é".repeat(125).as_bytes()).len(), 240);
        assert_eq!(stem(format!("x{}", "é".repeat(125)).as_bytes()).len(), 239);
    }

    #[test]
    fn uris_that_lead_into_the_directory_are_known() {
        let is_taken = |uri: &str| is_taken(b"a b", 2, uri);
        assert!(["a%20b0001.asdf", "./a b0000.asdf", "a%20b.asdf"].into_iter().all(is_taken));
        assert!(!["a%20b0002.asdf", "sub/a b0000.asdf", "b0000.asdf", ""].into_iter().any(is_taken));
    }

    #[test]
    fn names_are_uris_in_the_tree() {
        for (name, uri) in [
            ("galaxy_1-b~.asdf", "galaxy_1-b~.asdf"),
            ("a b#c?d%e:f,g.asdf", "a%20b%23c%3Fd%25e%3Af%2Cg.asdf"),
            ("é.asdf", "./%C3%A9.asdf"),
            ("-0.asdf", "./%2D0.asdf"),
        ] {
            assert_eq!(escaped(name.as_bytes()), uri);
            let value: serde_yaml::Value = serde_yaml::from_str(uri).unwrap();
            assert_eq!(value.as_str(), Some(uri));
        }
    }
}
