//! Files of real writers with changed or truncated bytes: reads reach the end or an error.

use std::sync::Arc;

use asdf_file::folder::Node;
use asdf_views::format::bloscpack::header::Header;
use asdf_views::format::bloscpack::map::ChunkMap;
use seekable::content::{Content, Soundness};
use seekable::source::{MemorySource, Source};

use super::{block, fixtures, open, read};
use common::bloscpack_builder::Pack;
use common::dice::Dice;

/// Number of mutated files of each kind.
const TRIES: u64 = 60;

fn mutated(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.below(4) {
        // Most misleading fields are at the start.
        let end = if dice.below(3) > 0 { bytes.len().min(400) } else { bytes.len() };
        let at = dice.below(end as u64) as usize;
        let value = [0, 1, 0x7f, 0x80, 0xff, dice.below(256) as u8][dice.below(6) as usize];
        let len = [1, 1, 1, 2, 4, 8][dice.below(6) as usize].min(bytes.len() - at);
        bytes[at..at + len].fill(value);
    }
    if dice.below(4) == 0 {
        bytes.truncate(dice.below(bytes.len() as u64 + 1) as usize);
    }
    bytes
}

/// Reads up to 4 MiB of a content, and some bytes elsewhere.
fn look_through(content: &dyn Content, dice: &mut Dice) {
    if content.len() <= 4 << 20 {
        let (bytes, error) = read(content);
        assert!(error.is_some() || bytes.len() as u64 == content.len());
        let is_broken = matches!(content.soundness(), Soundness::Broken(_));
        assert!(!is_broken || error.is_some());
    }
    let mut piece = [0; 100];
    for _ in 0..3 {
        let at = dice.below(content.len().max(1));
        assert!(!matches!(content.read_at(at, &mut piece), Ok(0)) || content.is_empty());
    }
}

/// Asserts that a chunk's data do not depend on earlier reads.
fn places_agree(bytes: &[u8]) {
    let source: Arc<dyn Source> = Arc::new(MemorySource(bytes.to_vec()));
    let size = bytes.len() as u64;
    let Ok(header) = Header::read(&*source, size) else { return };
    let map = || ChunkMap::new(source.clone(), size, &header).unwrap();
    let (forward, walked) = (map(), map());
    let scan = walked.scan().unwrap();
    assert!(scan.end.is_none_or(|end| end <= size));
    let mut next = 0;
    while let Ok(Some(run)) = walked.run_at(next) {
        assert!(run.start <= next && next < run.start + run.len && run.count > 0);
        next = run.start + run.len;
    }
    assert!(next <= scan.decoded);
    for n in 0..scan.chunks.min(64) {
        for found in [forward.chunk(n), map().chunk(n)].into_iter().flatten() {
            assert!(found.at >= 16 && found.at < size);
        }
        let places = [&forward, &walked, &map()].map(|map| map.by_chain(n).ok().map(|found| found.at));
        assert!(places.iter().all(|place| *place == places[0]), "{n}: {places:?}");
    }
}

#[test]
fn changed_files_harm_nobody() {
    let mut dice = Dice(13);
    let mut files: Vec<_> = fixtures().into_iter().map(|(path, _)| std::fs::read(path).unwrap()).collect();
    files.retain(|bytes| bytes.len() < 6000);
    let json = br#"{"dtype":"'<u2'","shape":[50],"order":"C","container":"numpy"}"#;
    files.push(Pack::new(10, &[7; 100]).described(json).build());
    files.push(Pack::variable(&[b"one", b"", b"two"], json).build());
    let mut opened = 0;
    for bytes in &files {
        for _ in 0..TRIES {
            let changed = mutated(bytes, &mut dice);
            places_agree(&changed);
            let Ok(container) = open(&changed) else { continue };
            opened += 1;
            let (tree, _) = read(&*container.tree());
            serde_yaml::from_slice::<serde_yaml::Value>(&tree).unwrap();
            for n in 0..container.block_count().unwrap().min(20) {
                if let Ok(content) = block(&*container, n).content {
                    look_through(&*content, &mut dice);
                }
                let _ = container.verify(n);
            }
            for (_, view) in container.clone().views().into_iter().flatten() {
                if let Node::File(file) = view
                    && let Ok(content) = file.content
                {
                    look_through(&*content, &mut dice);
                }
            }
            let _ = (container.check_tree().unwrap(), container.defects(), container.is_slow());
        }
    }
    assert!(opened > 1000, "{opened}");
}
