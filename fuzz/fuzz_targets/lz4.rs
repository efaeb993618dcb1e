//! LZ4 blocks, alone and after up to 64 KiB of history for matches, compared with lz4_flex. The input is a
//! byte for the kind, two bytes for the uncompressed size, and the block.
#![no_main]

use std::sync::Arc;

use seekable::cache::Cache;
use seekable::codec::{self, Codec};
use seekable::content::{Content, Text};

/// Header of a frame of linked blocks of at most 64 KiB, without checksums.
const LINKED: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x40, 0x40, 0xc0];

/// Flag in the size of an uncompressed block.
const RAW: u32 = 1 << 31;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&[which, a, b], block)) = data.split_first_chunk::<3>() else { return };
    let room = usize::from(u16::from_be_bytes([a, b]));
    let history = match which % 4 {
        0 => 0,
        1 => 1 + usize::from(which),
        _ => 0x1_0000 - usize::from(which),
    };
    let history: Vec<u8> = (0..history).map(|at| (at * at >> 7) as u8).collect();
    let linked = !history.is_empty();
    let mut theirs = vec![0; if linked { 0x1_0000 } else { room }];
    let count = lz4_flex::block::decompress_into_with_dict(block, &mut theirs, &history).ok();

    let (stored, size) = if linked {
        let Ok(stored) = u32::try_from(block.len()) else { return };
        let frame = [
            &LINKED[..],
            &(history.len() as u32 | RAW).to_le_bytes(),
            &history,
            &stored.to_le_bytes(),
            block,
            &[0; 4],
        ];
        (frame.concat(), history.len() + count.unwrap_or(room))
    } else {
        let piece = [&(block.len() as u32 + 4).to_be_bytes()[..], &(room as u32).to_le_bytes(), block];
        (piece.concat(), room)
    };
    let stored: Arc<dyn Content> = Arc::new(Text::new(stored));
    let codec = if linked { Codec::Lz4Frame } else { Codec::Lz4 };
    let Ok(content) = codec::open(codec, stored, size as u64, &Arc::new(Cache::new(1 << 20))) else { return };
    let (mut whole, mut buf) = (Vec::new(), vec![0; 0x2_0000]);
    let end = loop {
        match content.read_at(whole.len() as u64, &mut buf) {
            Ok(0) => break Ok(()),
            Ok(read) => whole.extend_from_slice(&buf[..read]),
            Err(error) => break Err(error),
        }
    };
    assert!(whole.len() <= size);
    let known = whole.len().min(history.len());
    assert_eq!(whole[..known], history[..known]);
    match count {
        Some(count) if linked || count == room => {
            // An empty block is the end mark, and a block longer than the frame's limit is invalid.
            if !block.is_empty() && block.len() <= 0x1_0000 {
                assert!(end.is_ok(), "{end:?}");
                assert_eq!(whole[history.len()..], theirs[..count]);
            }
        }
        // In Python's framing, a block that ends with a match is accepted.
        _ => assert!(end.is_err() || whole.len() == size),
    }
});
