//! Streams decoded at once, and those that are left to other decoders.

use super::*;

/// The encodings that are decoded at once.
const AT_ONCE: [&str; 5] = ["zlib", "bzip2", "zstd", "lz4 pieces", "lz4 tiny pieces"];

fn at_once(codec: Codec, stored: &[u8], len: usize) -> Result<Vec<u8>> {
    let mut out = vec![0x55; len];
    decode(codec, Arc::new(Text::new(stored)), &mut out, &mut || Ok(()))?;
    Ok(out)
}

#[test]
fn one_stream_is_decoded_at_once_and_other_forms_are_left_alone() {
    let granule = GRANULE as usize;
    for len in [1, 1000, granule - 1, granule, 5 * granule + 77, 9 << 20] {
        let bytes = truth(len, 7);
        for name in CODECS {
            let (codec, stored) = encode(name, &bytes);
            let decoded = at_once(codec, &stored, len);
            // Few bytes are in one part, whatever the name says.
            if AT_ONCE.contains(&name) {
                assert!(decoded.unwrap() == bytes, "{name} of {len} bytes");
            } else if len > 1 {
                assert!(decoded.is_err(), "{name} of {len} bytes");
            }
        }
    }
}

#[test]
fn another_length_a_cut_and_bytes_after_the_stream_are_errors() {
    let bytes = truth(3 << 20, 9);
    for name in AT_ONCE {
        let (codec, stored) = encode(name, &bytes);
        for len in [bytes.len() - 1, bytes.len() + 1, bytes.len() / 2, 2 * bytes.len()] {
            assert!(at_once(codec, &stored, len).is_err(), "{name} to {len} bytes");
        }
        for len in [0, 1, 4, 8, stored.len() / 2, stored.len() - 1] {
            assert!(at_once(codec, &stored[..len], bytes.len()).is_err(), "{len} bytes of {name}");
        }
        for after in [&b"\0"[..], b"after", &stored] {
            let longer = [&stored[..], after].concat();
            let decoded = at_once(codec, &longer, bytes.len());
            // All decoders ignore the bytes after a zlib stream.
            assert_eq!(decoded.is_ok(), codec == Codec::Zlib, "{name} and {} bytes", after.len());
        }
    }
}

#[test]
fn buffers_of_blosc_are_decoded_at_once() {
    let bytes = truth(100_000, 3);
    // A buffer that is stored as it is: its data follow the header.
    let mut buffer = vec![2, 1, 2, 1];
    let cbytes = bytes.len() as u32 + 16;
    for number in [bytes.len() as u32, bytes.len() as u32, cbytes] {
        buffer.extend(number.to_le_bytes());
    }
    buffer.extend(&bytes);
    let sized = [&cbytes.to_be_bytes()[..], &buffer].concat();
    for stored in [&buffer, &sized] {
        assert!(at_once(Codec::Blosc, stored, bytes.len()).unwrap() == bytes);
        assert!(at_once(Codec::Blosc, stored, bytes.len() - 1).is_err());
        assert!(at_once(Codec::Blosc, stored, bytes.len() + 1).is_err());
        assert!(at_once(Codec::Blosc, &stored[..stored.len() - 1], bytes.len()).is_err());
    }
    let twice = [&sized[..], &sized].concat();
    assert!(at_once(Codec::Blosc, &twice, 2 * bytes.len()).unwrap() == bytes.repeat(2));
}

#[test]
fn the_end_of_an_lz4_block_has_a_rule() {
    let piece = |block: &[u8], len: u32| {
        [&(block.len() as u32 + 4).to_be_bytes()[..], &len.to_le_bytes(), block].concat()
    };
    // 16 literals, a match of 8 bytes, literals.
    let block = |last: &[u8]| {
        let first = [&[0xf4, 1][..], b"0123456789abcdef", &[16, 0]].concat();
        [&first[..], &[(last.len() as u8) << 4], last].concat()
    };
    for (last, keeps_rule) in [(&b""[..], false), (b"wxyz", false), (b"vwxyz", true), (b"uvwxyz", true)] {
        let len = 24 + last.len();
        let decoded = at_once(Codec::Lz4, &piece(&block(last), len as u32), len);
        assert_eq!(decoded.is_ok(), keeps_rule, "{} literals after a match", last.len());
        if let Ok(decoded) = decoded {
            assert_eq!(decoded, [b"0123456789abcdef01234567", last].concat());
        }
    }
    // The last match begins 11 bytes before the end.
    let late = [&[0xf2, 1][..], b"0123456789abcdef", &[16, 0, 0x50], b"vwxyz"].concat();
    assert!(at_once(Codec::Lz4, &piece(&late, 27), 27).is_err());
}

#[test]
fn the_caller_can_end_it() {
    let bytes = truth(6 << 20, 5);
    for name in AT_ONCE {
        let (codec, stored) = encode(name, &bytes);
        let stored: Arc<dyn Content> = Arc::new(Text::new(stored));
        let mut out = vec![0; bytes.len()];
        // Other threads may decode all pieces.
        let most = if codec == Codec::Lz4 { 0 } else { 1 };
        for allowed in 0..=most {
            let mut calls = 0;
            let mut go_on = || {
                calls += 1;
                if calls > allowed { Err(Error::new(crate::Kind::Refused, "enough")) } else { Ok(()) }
            };
            let error = decode(codec, stored.clone(), &mut out, &mut go_on).unwrap_err();
            assert!(error.to_string().contains("enough"), "{name}: {error}");
        }
    }
}
