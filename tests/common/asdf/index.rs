//! The block index after the last block, correct or wrong.

/// The index that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Index {
    /// No index.
    Absent,
    /// As Python asdf writes it: one offset per line.
    Right,
    /// Correct, in YAML's flow style on one line.
    Flow,
    /// Correct, in flow style with several offsets per line, without a document end.
    FlowUnended,
    /// Stale: all offsets 7 too small, as after an edit of the tree.
    Stale,
    /// Truncated in the middle of the text.
    Truncated,
    /// In the wrong order.
    Unsorted,
    /// Without the last block.
    TooShort,
    /// With an offset after the last block.
    TooLong,
    /// First and last correct, one in the middle 3 off (correct if there are fewer than three blocks).
    WrongMiddle,
    /// Correct, followed by this many zero bytes.
    ThenZeros(usize),
    /// Impossible numbers: negative, larger than 64 bits, not numbers.
    Nonsense,
    /// Correct, preceded by a stale one.
    Second,
    /// Any bytes.
    Bytes(Vec<u8>),
}

impl Index {
    /// Returns every kind of index; blocks must be found with each.
    pub fn all() -> Vec<Self> {
        vec![
            Self::Absent,
            Self::Right,
            Self::Flow,
            Self::FlowUnended,
            Self::Stale,
            Self::Truncated,
            Self::Unsorted,
            Self::TooShort,
            Self::TooLong,
            Self::WrongMiddle,
            Self::ThenZeros(1),
            Self::ThenZeros(5000),
            Self::Nonsense,
            Self::Second,
            Self::Bytes(b"#ASDF BLOCK INDEX".to_vec()),
            Self::Bytes(b"#ASDF BLOCK INDEX\n%YAML 1.1\n--- {a: b}\n...\n".to_vec()),
        ]
    }

    /// Returns the bytes of this index for blocks at `offsets`.
    pub(super) fn text(&self, offsets: &[u64]) -> Vec<u8> {
        let shifted = |by: u64| offsets.iter().map(|offset| offset.saturating_sub(by)).collect::<Vec<_>>();
        match self {
            Self::Absent => Vec::new(),
            Self::Right => index_text(offsets),
            Self::Flow => flow(offsets, ", ", "\n...\n"),
            Self::FlowUnended => flow(offsets, ",\n  ", "\n"),
            Self::Stale => index_text(&shifted(7)),
            Self::Truncated => {
                let mut text = index_text(offsets);
                text.truncate(text.len() - "...\n".len() - 2);
                text
            }
            Self::Unsorted => index_text(&offsets.iter().rev().copied().collect::<Vec<_>>()),
            Self::TooShort => index_text(&offsets[..offsets.len() - 1]),
            Self::TooLong => {
                let past = offsets.last().map_or(0, |last| last + 1_000_000);
                index_text(&[offsets, &[past]].concat())
            }
            Self::WrongMiddle => {
                let mut wrong = offsets.to_vec();
                if wrong.len() > 2 {
                    let middle = wrong.len() / 2;
                    wrong[middle] += 3;
                }
                index_text(&wrong)
            }
            Self::ThenZeros(zeros) => [index_text(offsets), vec![0; *zeros]].concat(),
            Self::Nonsense => {
                b"#ASDF BLOCK INDEX\n%YAML 1.1\n---\n- -5\n- 99999999999999999999999\n- no\n...\n".to_vec()
            }
            Self::Second => [index_text(&shifted(7)), index_text(offsets)].concat(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

/// Returns an index as Python asdf writes it; also used to hide one in a block's data.
pub fn index_text(offsets: &[u64]) -> Vec<u8> {
    let mut text = "#ASDF BLOCK INDEX\n%YAML 1.1\n---\n".to_owned();
    for offset in offsets {
        text.push_str(&format!("- {offset}\n"));
    }
    text.push_str("...\n");
    text.into_bytes()
}

fn flow(offsets: &[u64], between: &str, end: &str) -> Vec<u8> {
    let list: Vec<String> = offsets.iter().map(u64::to_string).collect();
    format!("#ASDF BLOCK INDEX\n%YAML 1.1\n--- [{}]{end}", list.join(between)).into_bytes()
}
