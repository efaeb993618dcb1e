//! A zstd frame: decoding from a checkpoint between two blocks gives the same data as decoding from the
//! start. The input is a byte for the window size, and the blocks; the rest of the header is fixed, so that
//! most inputs exercise blocks.
#![no_main]

use std::sync::Arc;

use seekable::codec::ZstdEverywhere;
use seekable::content::{Content, Text};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((window, blocks)) = data.split_first() else { return };
    let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0, window % 72], blocks].concat();
    let stored: Arc<dyn Content> = Arc::new(Text::new(frame));
    let Ok(all) = ZstdEverywhere::of(&stored, 1 << 20, 10) else { return };
    for (offset, rest) in all.outputs {
        assert!(rest == all.whole[offset..], "from {offset} on");
    }
});
