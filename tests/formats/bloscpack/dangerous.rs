//! Malicious headers, metadata and chunks.

use std::io::Write;

use asdf_access::Kind;
use asdf_file::container::Severity;

use super::{block, file, open, read, view, whole};
use common::bloscpack_builder::{Pack, checksum, stored};

fn data() -> Vec<u8> {
    (0..100_u8).collect()
}

fn pack() -> Pack {
    Pack::new(10, &data())
}

#[test]
fn headers_that_can_not_be_true_are_refused_with_a_reason() {
    let with = |change: &dyn Fn(&mut Pack)| {
        let mut pack = pack();
        change(&mut pack);
        pack.build()
    };
    let json = |change: fn(&mut Vec<u8>)| {
        let mut pack = pack().described(b"{}");
        change(&mut pack.metadata);
        pack.build()
    };
    let cases: [(Vec<u8>, &str); 15] = [
        (with(&|pack| pack.version = 0), "version 0"),
        (with(&|pack| pack.version = 4), "version 4"),
        (with(&|pack| pack.options |= 8), "option bit 3"),
        (with(&|pack| (pack.version, pack.options) = (2, 2)), "option bit 1"),
        (with(&|pack| pack.options = 4), "need"),
        (with(&|pack| pack.nchunks = 1 << 62), "reach past the end"),
        (with(&|pack| pack.last_word = 1 << 62), "reach past the end"),
        (with(&|pack| (pack.nchunks, pack.last_word) = (i64::MAX, i64::MAX)), "reach past the end"),
        (with(&|pack| pack.nchunks = -1), "number of chunks is unknown"),
        (with(&|pack| pack.nchunks = -2), "number of chunks is -2"),
        (with(&|pack| pack.last_word = i64::MIN), "that may be appended is -9223372036854775808"),
        (with(&|pack| (pack.options, pack.nchunks) = (0, 1 << 62)), "has space for at most"),
        (json(|section| section[9] = 9), "checksum 9"),
        (json(|section| section[16..20].fill(0xff)), "metadata reach past the end"),
        (pack().build()[..31].to_vec(), "cut off within its header"),
    ];
    for (bytes, reason) in cases {
        let error = open(&bytes).expect_err(reason);
        assert!(error.message().contains(reason), "{error}");
        assert!(matches!(error.kind(), Kind::Damaged | Kind::Unsupported), "{error:?}");
    }
    let mut bytes = pack().build();
    bytes[6] = 9;
    assert!(open(&bytes).unwrap_err().message().contains("checksum 9"));
    assert!(open(b"blpk").is_err());
}

/// Returns a file with a metadata section and its checksum: the stored bytes, and the sizes and codec of its
/// header.
fn section(stored: &[u8], codec: u8, sizes: [u32; 3]) -> Pack {
    let mut metadata = b"JSON\0\0\0\0\0\x01".to_vec();
    metadata.extend([codec, 6]);
    metadata.extend(sizes.map(u32::to_le_bytes).concat());
    metadata.extend([0; 8]);
    metadata.extend(stored);
    metadata.resize(32 + sizes[1].min(1 << 20) as usize, 0);
    metadata.extend(checksum(1, stored));
    Pack { options: 3, metadata, ..pack() }
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn wrong_metadata_cost_nothing_else() {
    let bomb = zlib(&vec![b' '; 32 << 20]);
    let len = bomb.len() as u32;
    let mut torn = section(b"{}", 0, [2, 8, 2]);
    torn.metadata[32] = b'[';
    for (pack, reason) in [
        (section(&bomb, 1, [32 << 20, len, len]), "16 MiB"),
        (section(&bomb, 1, [1000, len, len]), "1001 bytes, not 1000"),
        (section(&bomb[..len as usize / 2], 1, [1000, len, len / 2]), "1001 bytes, not 1000"),
        (section(b"nothing", 1, [1000, 100, 7]), "zlib stream is broken"),
        (section(b"{}", 0, [2, 8, 9]), "do not fit into the 8 bytes allocated"),
        (section(b"{}", 0, [2, 8, u32::MAX]), "do not fit into the 8 bytes allocated"),
        (section(b"{}", 0, [3, 8, 2]), "2 bytes, not 3"),
        (section(b"{}", 7, [2, 8, 2]), "codec 7"),
        (torn, "checksum does not match the stored bytes"),
    ] {
        let container = open(&pack.build()).expect(reason);
        assert_eq!(view(&container, "data.bin").unwrap(), data(), "{reason}");
        let error = file(&container, "meta.json").unwrap().content.unwrap_err();
        assert!(error.message().contains(reason), "{error}");
        let defects = container.defects();
        assert_eq!((defects.len(), defects[0].severity), (1, Severity::Damage), "{defects:?}");
        assert!(defects[0].what.contains(reason), "{defects:?}");
        whole(&*container.tree());
    }
}

#[test]
fn what_metadata_say_of_an_array_is_never_evaluated() {
    let array = |dtype: &str, shape: &str| {
        let dtype = serde_json::to_string(dtype).unwrap();
        let json =
            format!("{{\"dtype\": {dtype}, \"shape\": {shape}, \"order\": \"C\", \"container\": \"numpy\"}}");
        open(&pack().described(json.as_bytes()).build()).unwrap()
    };
    assert!(view(&array("'|u1'", "[100]"), "arrays/data.npy").is_some());
    assert!(view(&array("|u1", "[4, 25]"), "arrays/data.npy").is_some());
    let deep = "[".repeat(1000);
    for (dtype, shape) in [
        ("__import__('os').system('touch pwned')", "[100]"),
        ("'|O'", "[100]"),
        ("|O8", "[12]"),
        ("'<f8'", "[100]"),
        ("'|u1'", "[101]"),
        ("'|u1'", "[-1]"),
        ("'|u1'", "[10000000000, 10000000000, 10000000000]"),
        (&deep, "[100]"),
    ] {
        let container = array(dtype, shape);
        assert!(view(&container, "arrays/data.npy").is_none(), "{dtype} {shape}");
        let defects = container.defects();
        assert_eq!((defects.len(), defects[0].severity), (1, Severity::Note), "{dtype}: {defects:?}");
        assert_eq!(view(&container, "data.bin").unwrap(), data());
    }
    // Text that is not JSON has no array either.
    for json in [&b"\xff\xfe"[..], b"", deep.as_bytes(), b"{\"container\": \"numpy\"", &vec![b'['; 2 << 20]] {
        let container = open(&pack().described(json).build()).unwrap();
        assert_eq!(view(&container, "meta.json").unwrap(), json);
        assert!(view(&container, "arrays/data.npy").is_none());
        whole(&*container.tree());
    }
}

#[test]
fn chunks_with_headers_that_can_not_be_true_harm_nothing_else() {
    let change = |at: usize, bytes: &[u8]| {
        let mut chunk = stored(&data()[40..50]);
        chunk[at..at + bytes.len()].copy_from_slice(bytes);
        chunk
    };
    let huge = (i32::MAX as u32 - 16).to_le_bytes();
    for (what, chunk) in [
        ("version", change(0, &[3])),
        ("codec", change(2, &[0xe0])),
        ("flag", change(2, &[8])),
        ("typesize", change(3, &[0])),
        ("nbytes", change(4, &huge)),
        ("nbytes, not stored", {
            [&change(2, &[0x20])[..4], &huge, &huge, &26_u32.to_le_bytes(), &[0; 10]].concat()
        }),
        ("blocksize 0", change(8, &[0; 4])),
        ("blocksize", change(8, &[0xff; 4])),
        ("cbytes 0", change(12, &[0; 4])),
        ("cbytes 15", change(12, &15_u32.to_le_bytes())),
        ("cbytes", change(12, &[0xff; 4])),
    ] {
        let mut pack = pack();
        pack.chunks[4] = chunk;
        let container = open(&pack.build()).unwrap();
        let content = file(&container, "data.bin").unwrap().content.unwrap();
        let (prefix, error) = read(&*content);
        assert_eq!((prefix, error.is_some()), (data()[..40].to_vec(), true), "{what}");
        for n in [9, 5, 3] {
            let content = block(&*container, n).content.unwrap();
            assert_eq!(whole(&*content), data()[n * 10..(n + 1) * 10], "{what} {n}");
        }
        let told = block(&*container, 4).content.map(|content| read(&*content).1);
        assert!(!matches!(told, Ok(None)), "{what}");
    }
}

/// A match length continues as long as there are bytes of 0xff. In 32 bits it becomes negative, and c-blosc
/// (issue 405) writes before its output.
#[test]
fn a_match_of_more_than_two_gigabytes_is_damage() {
    const LEN: u32 = 16 << 20;
    let mut stream = vec![0, b'A', 0xe0];
    stream.resize(3 + 8_421_600, 0xff);
    stream.extend([0, 0, 0, b'Z']);
    let (start, size) = (20_u32, stream.len() as u32);
    let mut chunk = vec![2, 1, 0x10, 1];
    chunk.extend([LEN, LEN, start + 4 + size, start, size].map(u32::to_le_bytes).concat());
    chunk.extend(stream);
    let mut pack = Pack { chunk_size: -1, last_chunk: -1, ..pack() };
    pack.chunks[4] = chunk;
    let container = open(&pack.build()).unwrap();
    let (bytes, error) = read(&*block(&*container, 4).content.unwrap());
    assert!(bytes.is_empty(), "{}", bytes.len());
    assert!(error.unwrap().message().contains("blosclz stream within Blosc is broken"));
    assert_eq!(whole(&*block(&*container, 5).content.unwrap()), data()[50..60]);
    let content = file(&container, "data.bin").unwrap().content.unwrap();
    let mut behind = [0; 50];
    assert_eq!(content.read_at(40 + u64::from(LEN), &mut behind).unwrap(), 50);
    assert_eq!(behind, data()[50..]);
}

#[test]
fn a_bare_blosc_buffer_is_refused_by_its_name() {
    let error = open(&stored(b"some data")).unwrap_err();
    assert_eq!(error.kind(), Kind::Unrecognised);
    assert!(error.message().starts_with("is a bare Blosc buffer of 9 uncompressed bytes"), "{error}");
    assert!(error.message().contains("blosc.decompress"), "{error}");
    // The header gives another size, so the file is something else.
    let error = open(&[&stored(b"some data")[..], b"more"].concat()).unwrap_err();
    assert!(error.message().contains("or a Blosc2 frame"), "{error}");
}
