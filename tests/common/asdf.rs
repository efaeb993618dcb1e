//! Builder of ASDF files in every known layout, intact or damaged.
//!
//! ```text
//! let file = AsdfBuilder::new()
//!     .block(Block::new(data).encoding(Encoding::Zlib))
//!     .index(Index::Stale)
//!     .build();
//! file.bytes            the file on disk
//! file.blocks[0].data   the data that a reader must find
//! ```

mod block;
mod index;

pub use block::{Block, Checksum, Expected, Header, MAGIC, MAGIC_2014, STREAMED};
pub use index::{Index, index_text};

/// Version line and comments, as current writers begin a file.
pub const HEAD: &str = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n";

/// An ASDF file to build. Defaults: [`HEAD`], a tree that refers to each block, no padding, a correct index
/// if there are blocks and none is streamed.
#[derive(Clone, Debug)]
pub struct AsdfBuilder {
    head: Vec<u8>,
    tree: Tree,
    crlf: bool,
    padding: Vec<u8>,
    blocks: Vec<Block>,
    index: Index,
    trailing: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Tree {
    /// One ndarray per block.
    Generated,
    /// These bytes, including `...`.
    Given(Vec<u8>),
    None,
}

/// A built file, with the data that a reader must find in it.
#[derive(Clone, Debug)]
pub struct Built {
    /// The file.
    pub bytes: Vec<u8>,
    /// Its blocks, in file order.
    pub blocks: Vec<Expected>,
    /// The end of head and tree, including the line break after `...`.
    pub tree_end: usize,
}

impl Default for AsdfBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl AsdfBuilder {
    /// Returns a builder of a file with a head and a small tree, without blocks.
    pub fn new() -> Self {
        Self {
            head: HEAD.into(),
            tree: Tree::Generated,
            crlf: false,
            padding: Vec::new(),
            blocks: Vec::new(),
            index: Index::Right,
            trailing: Vec::new(),
        }
    }

    /// Replaces the version line and comments; the caller adds line breaks.
    pub fn head(mut self, head: impl AsRef<[u8]>) -> Self {
        self.head = head.as_ref().to_vec();
        self
    }

    /// Replaces the tree, from `%YAML` to `...`; the caller adds line breaks.
    pub fn tree(mut self, tree: impl AsRef<[u8]>) -> Self {
        self.tree = Tree::Given(tree.as_ref().to_vec());
        self
    }

    /// Omits the tree: blocks follow the head immediately.
    pub fn no_tree(mut self) -> Self {
        self.tree = Tree::None;
        self
    }

    /// Ends the lines of head and tree with `\r\n`.
    pub fn crlf(mut self) -> Self {
        self.crlf = true;
        self
    }

    /// Inserts bytes between the tree and the first block.
    pub fn padding(mut self, padding: impl AsRef<[u8]>) -> Self {
        self.padding = padding.as_ref().to_vec();
        self
    }

    /// Adds a block.
    pub fn block(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }

    /// Adds several blocks.
    pub fn blocks(mut self, blocks: impl IntoIterator<Item = Block>) -> Self {
        self.blocks.extend(blocks);
        self
    }

    /// Chooses the block index.
    pub fn index(mut self, index: Index) -> Self {
        self.index = index;
        self
    }

    /// Appends bytes to the end of the file.
    pub fn trailing(mut self, trailing: impl AsRef<[u8]>) -> Self {
        self.trailing = trailing.as_ref().to_vec();
        self
    }

    /// Builds the file.
    pub fn build(&self) -> Built {
        let mut bytes = self.head.clone();
        match &self.tree {
            Tree::Generated => bytes.extend(self.generated_tree()),
            Tree::Given(tree) => bytes.extend(tree),
            Tree::None => {}
        }
        if self.crlf {
            bytes = with_crlf(&bytes);
        }
        let tree_end = bytes.len();
        bytes.extend(&self.padding);

        let blocks: Vec<Expected> = self.blocks.iter().map(|block| block.write(&mut bytes)).collect();
        let offsets: Vec<u64> = blocks.iter().map(|block| block.offset).collect();
        if !offsets.is_empty() && !blocks.iter().any(|block| block.streamed) {
            bytes.extend(self.index.text(&offsets));
        }
        bytes.extend(&self.trailing);
        Built { bytes, blocks, tree_end }
    }

    fn generated_tree(&self) -> Vec<u8> {
        let mut tree = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n".to_owned();
        if self.blocks.is_empty() {
            tree.push_str("answer: 42\n");
        }
        for (n, block) in self.blocks.iter().enumerate() {
            let (source, shape) = if block.is_streamed() {
                ("-1".to_owned(), "'*'".to_owned())
            } else {
                (n.to_string(), block.data().len().to_string())
            };
            tree.push_str(&format!(
                "block{n}: !core/ndarray-1.1.0\n  source: {source}\n  datatype: uint8\n  byteorder: little\n  shape: [{shape}]\n"
            ));
        }
        tree.push_str("...\n");
        tree.into_bytes()
    }
}

impl Built {
    /// Returns the text that `tree.yaml` must show.
    pub fn tree(&self) -> &[u8] {
        &self.bytes[..self.tree_end]
    }

    /// Returns this file followed by another one.
    pub fn followed_by(&self, other: &Self) -> Vec<u8> {
        [&self.bytes[..], &other.bytes[..]].concat()
    }

    /// Writes the file into a directory and returns its path.
    pub fn save(&self, folder: &std::path::Path, name: &str) -> std::path::PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, &self.bytes).unwrap();
        path
    }
}

fn with_crlf(text: &[u8]) -> Vec<u8> {
    text.iter().flat_map(|&byte| if byte == b'\n' { b"\r\n".to_vec() } else { vec![byte] }).collect()
}

/// Returns data that every codec compresses somewhat, and none to almost nothing: a ramp with noise.
pub fn sample(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    let mut noise = move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    (0..len).map(|i| if i % 7 == 0 { noise() as u8 } else { (i / 16) as u8 }).collect()
}
