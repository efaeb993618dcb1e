//! Small ASDF files, and their expected bytes after a save.

use asdf_file::edit::SaveOptions;

pub(crate) const MARKER: &[u8] = b"#ASDF BLOCK INDEX";

/// Returns a text of at least `len` bytes, identified by `letter`.
pub(crate) fn text(letter: char, len: usize) -> Vec<u8> {
    let mut text = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n--- !core/asdf-1.1.0\n".to_vec();
    let mut n = 0;
    while text.len() + 4 < len {
        let room = len - text.len() - 4;
        let line = format!("key{letter}{n}: {}\n", letter.to_string().repeat(40));
        text.extend(&line.as_bytes()[..line.len().min(room)]);
        if room < line.len() {
            text.pop();
            text.push(b'\n');
        }
        n += 1;
    }
    text.extend(b"...\n");
    text
}

/// Returns a block without compression or checksum.
pub(crate) fn block(data: &[u8], allocated: usize, flags: u32) -> Vec<u8> {
    let mut block = b"\xd3BLK\0\x30".to_vec();
    block.extend(flags.to_be_bytes());
    block.extend([0; 4]);
    for size in [allocated, data.len(), data.len()] {
        block.extend((size as u64).to_be_bytes());
    }
    block.extend([0; 16]);
    block.extend(data);
    block.resize(54 + allocated, 0);
    block
}

/// Returns the index of blocks at these offsets.
pub(crate) fn index(offsets: &[usize]) -> Vec<u8> {
    let list: String = offsets.iter().map(|offset| format!("- {offset}\n")).collect();
    [MARKER, b"\n%YAML 1.1\n---\n", list.as_bytes(), b"...\n"].concat()
}

/// The parts of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) text: Vec<u8>,
    pub(crate) padding: Vec<u8>,
    pub(crate) blocks: Vec<Vec<u8>>,
    /// The bytes after the blocks; the index if `None`.
    pub(crate) tail: Option<Vec<u8>>,
}

impl Parts {
    pub(crate) fn offsets(&self) -> Vec<usize> {
        let mut at = self.text.len() + self.padding.len();
        let mut offsets = Vec::new();
        for block in &self.blocks {
            offsets.push(at);
            at += block.len();
        }
        offsets
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let tail = self
            .tail
            .clone()
            .unwrap_or_else(|| if self.blocks.is_empty() { Vec::new() } else { index(&self.offsets()) });
        [&self.text[..], &self.padding, &self.blocks.concat(), &tail].concat()
    }

    /// Returns the expected parts after saving `text`; the file's blocks have, or get, a correct index.
    pub(crate) fn saved(&self, text: &[u8], options: &SaveOptions) -> Parts {
        let first = self.text.len() + self.padding.len();
        let mut saved = Self { text: text.to_vec(), ..self.clone() };
        if self.blocks.is_empty() {
            saved.padding.clear();
            return saved;
        }
        let room = if text.len() <= first {
            first
        } else {
            let padding = options.padding.unwrap_or((text.len() as u64 / 10).max(4096)) as usize;
            first + (text.len() - first + padding).next_multiple_of(4096)
        };
        saved.padding = vec![b' '; room - text.len()];
        saved
    }
}
