//! Seek tables that are kept between mounts.
//!
//! Use of a table is visible from its effect: if the stream is damaged in the middle, its end can be read
//! only with a table.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::asdf::{AsdfBuilder, Block, Built, Checksum, sample};
use common::encode::Encoding;
use common::mount::{Mounted, fresh_folder};

/// A directory with a file of a zlib and a bzip2 block, and a cache directory.
pub(crate) struct Case {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) built: Built,
}

impl Case {
    pub(crate) fn new(checksum: Checksum) -> Self {
        let block = |len, seed, encoding| Block::new(sample(len, seed)).encoding(encoding).checksum(checksum);
        let blocks = [block(6_000_000, 1, Encoding::Zlib), block(1_500_000, 2, Encoding::Bzip2(1))];
        let case = Self { folder: fresh_folder(), built: AsdfBuilder::new().blocks(blocks).build() };
        fs::write(case.file(), &case.built.bytes).unwrap();
        case
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path("a.asdf")
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    pub(crate) fn tables(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.cache().join("asdf-mount")) else { return Vec::new() };
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names
    }

    pub(crate) fn mount(&self, file: &Path) -> Mounted {
        super::SOURCES.with_cache(&self.cache(), ["-r".as_ref(), file.as_os_str()])
    }

    /// Mounts, reads all of both blocks, and unmounts.
    pub(crate) fn read_all(&self, file: &Path) {
        self.read_and_unmount(self.mount(file));
    }

    /// Makes another version of the file, with the same bytes.
    fn write_again(&self) {
        fs::write(self.file(), &self.built.bytes).unwrap();
    }

    /// Reads two versions of the file. For the second one, the MD5 of the blocks is proved.
    pub(crate) fn prove_md5(&self) {
        self.read_all(&self.file());
        self.write_again();
        self.read_all(&self.file());
    }

    fn read_and_unmount(&self, mounted: Mounted) {
        (0..2).for_each(|n| assert!(mounted.block(n) == self.built.blocks[n].data));
        mounted.unmount();
    }

    /// Returns true for each block whose end can be read correctly.
    pub(crate) fn ends(&self, mounted: &Mounted) -> [bool; 2] {
        [0, 1].map(|n| {
            let data = &self.built.blocks[n].data;
            let (mut end, at) = ([0; 4096], data.len() - 4096);
            let file = fs::File::open(mounted.block_path(n)).unwrap();
            match file.read_exact_at(&mut end, at as u64) {
                Ok(()) => {
                    assert!(end == data[at..], "wrong bytes");
                    true
                }
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::EIO));
                    false
                }
            }
        })
    }
}

/// Damages both compressed blocks in the middle; `moved` is the distance by which the blocks have moved.
pub(crate) fn damage(file: &Path, built: &Built, moved: u64) {
    let file = fs::File::options().read(true).write(true).open(file).unwrap();
    for block in &built.blocks {
        let at = block.data_offset + moved + block.used_size / 2;
        let mut bytes = [0; 500];
        file.read_exact_at(&mut bytes, at).unwrap();
        file.write_all_at(&bytes.map(|byte| byte ^ 0x5a), at).unwrap();
    }
}

#[test]
fn a_table_leads_to_the_end_of_a_stream_that_was_damaged_since_and_no_byte_is_wrong() {
    let case = Case::new(Checksum::Stored);
    case.prove_md5();
    assert_eq!(case.tables().len(), 2);
    damage(&case.file(), &case.built, 0);
    let without = super::SOURCES
        .with_cache(&case.cache(), ["-o".as_ref(), "index-cache=off".as_ref(), case.file().as_os_str()]);
    assert_eq!(case.ends(&without), [false, false]);
    without.unmount();
    let mounted = case.mount(&case.file());
    assert_eq!(case.ends(&mounted), [true, true]);
    for n in 0..2 {
        let data = &case.built.blocks[n].data;
        let file = fs::File::open(mounted.block_path(n)).unwrap();
        // The first reader that reaches the damage does not affect reads before the damage.
        let damaged =
            (0..8).any(|k| file.read_at(&mut [0; 9], (data.len() / 2 + k * 90_000) as u64).is_err());
        assert!(damaged, "block {n}");
        let (mut at, mut buf) = (0, vec![0; 100_000]);
        let error = loop {
            match file.read_at(&mut buf, at as u64) {
                Ok(read) => {
                    assert!(read > 0 && buf[..read] == data[at..at + read], "block {n} at {at}");
                    at += read;
                }
                Err(error) => break error,
            }
        };
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        assert!(at > data.len() / 2 - 700_000 && at < data.len() / 2 + 300_000, "block {n}: {at}");
    }
    let status = fs::read_to_string(mounted.path(".asdf-mount/status.yaml")).unwrap();
    for word in ["block: 0", "block: 1", "compressed bit ", "decoded offset "] {
        assert!(status.contains(word), "{word}: {status}");
    }
    mounted.unmount();
    assert!(case.tables().is_empty());
}

#[test]
fn without_an_md5_a_table_is_of_one_file_as_it_is() {
    let case = Case::new(Checksum::None);
    case.read_all(&case.file());
    let tables = case.tables();
    assert_eq!(tables.len(), 2);
    let used = |path: &PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    let age = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let file = |path| fs::File::options().write(true).open(path).unwrap();
    for table in &tables {
        file(table).set_modified(age).unwrap();
    }
    fs::copy(case.file(), case.path("copy.asdf")).unwrap();
    damage(&case.path("copy.asdf"), &case.built, 0);
    assert_eq!(case.ends(&case.mount(&case.path("copy.asdf"))), [false, false]);
    assert!(tables.iter().all(|table| used(table) == age), "the copy is another file");
    assert_eq!(case.ends(&case.mount(&case.file())), [true, true]);
    assert!(tables.iter().all(|table| used(table) > age), "the file has its tables");
    file(&case.file()).set_modified(age).unwrap();
    case.read_all(&case.file());
    assert_eq!(case.tables().len(), 4, "what was changed since is another file");
}

#[test]
fn nothing_is_kept_if_it_is_not_wanted() {
    let case = Case::new(Checksum::Stored);
    let mounted = super::SOURCES
        .with_cache(&case.cache(), ["-o".as_ref(), "index-cache=off".as_ref(), case.file().as_os_str()]);
    (0..2).for_each(|n| assert!(mounted.block(n) == case.built.blocks[n].data));
    mounted.unmount();
    assert!(!case.cache().exists());
    case.read_all(&case.file());
    assert_eq!(case.tables().len(), 2);
}

#[test]
fn two_mounts_that_make_the_same_tables_at_once_leave_one_of_each() {
    let case = Case::new(Checksum::Stored);
    let mounts = [0; 3].map(|_| case.mount(&case.file()));
    std::thread::scope(|scope| {
        for mounted in mounts {
            let case = &case;
            scope.spawn(move || case.read_and_unmount(mounted));
        }
    });
    let tables = case.tables();
    assert!(tables.len() == 2 && tables.iter().all(|table| table.extension().is_some()), "{tables:?}");
    case.prove_md5();
    damage(&case.file(), &case.built, 0);
    assert_eq!(case.ends(&case.mount(&case.file())), [true, true]);
}

#[test]
fn whatever_lies_in_the_place_of_a_table_the_bytes_are_right() {
    let case = Case::new(Checksum::Stored);
    case.read_all(&case.file());
    let tables = case.tables();
    let good: Vec<_> = tables.iter().map(|table| fs::read(table).unwrap()).collect();
    type Spoil = fn(&[u8], &[u8]) -> Vec<u8>;
    let spoils: [Spoil; 5] = [
        |_, _| Vec::new(),
        |_, other| other.to_vec(),
        |own, _| own[..own.len() - 1].to_vec(),
        |own, _| own.iter().map(|byte| byte ^ 1).collect(),
        |own, _| [&own[..8], &[2], &own[9..]].concat(),
    ];
    for spoil in spoils {
        let spoilt = [spoil(&good[0], &good[1]), spoil(&good[1], &good[0])];
        tables.iter().zip(&spoilt).for_each(|(table, spoilt)| fs::write(table, spoilt).unwrap());
        let mounted = case.mount(&case.file());
        assert_eq!(case.ends(&mounted), [true, true]);
        mounted.unmount();
        // The tables were rebuilt.
        assert!(tables.iter().zip(&spoilt).all(|(table, spoilt)| fs::read(table).unwrap() != *spoilt));
    }
}

#[test]
fn of_a_single_zstd_frame_the_next_mount_decodes_only_what_is_near() {
    let data = sample(72_000_000, 5);
    // The first encoding does not state the decoded size.
    let sized = Encoding::Raw(*b"zstd", zstd::bulk::compress(&data, 1).unwrap());
    for encoding in [Encoding::Zstd, sized] {
        the_next_mount_decodes_only_what_is_near(&data, encoding);
    }
}

fn the_next_mount_decodes_only_what_is_near(data: &[u8], encoding: Encoding) {
    let folder = fresh_folder();
    let block = Block::new(data).encoding(encoding).checksum(Checksum::Stored);
    let built = AsdfBuilder::new().block(block).build();
    let (file, cache) = (folder.path().join("a.asdf"), folder.path().join("cache"));
    fs::write(&file, &built.bytes).unwrap();
    let bytes_for_the_end = || {
        let mounted = super::SOURCES.with_cache(&cache, ["-r".as_ref(), file.as_os_str()]);
        let block = fs::File::open(mounted.block_path(0)).unwrap();
        let (mut end, before) = ([0; 4096], mounted.bytes_read());
        block.read_exact_at(&mut end, data.len() as u64 - 4096).unwrap();
        assert!(end == data[data.len() - 4096..]);
        let bytes = mounted.bytes_read() - before;
        drop(block);
        mounted.unmount();
        bytes
    };
    let stored = built.blocks[0].used_size;
    let (first, next) = (bytes_for_the_end(), bytes_for_the_end());
    // The first and the last megabyte of a file on a server may come before the block is opened. Next time: the
    // window before the checkpoint, and a megabyte of data after it.
    assert!(first > stored / 3 * 2 && next < stored / 3, "{first} bytes, then {next} of {stored}");
    assert_eq!(fs::read_dir(cache.join("asdf-mount")).unwrap().count(), 1);
    // Another version of the file needs the MD5, which its first mount proves.
    fs::write(&file, &built.bytes).unwrap();
    assert!(bytes_for_the_end() > stored / 3 * 2);
    damage(&file, &built, 0);
    assert!(bytes_for_the_end() < stored / 3);
    assert_eq!(fs::read_dir(cache.join("asdf-mount")).unwrap().count(), 1);
}

#[test]
fn the_first_read_of_a_file_computes_no_md5_and_that_of_its_next_version_does() {
    for checksum in [Checksum::Stored, Checksum::Decoded, Checksum::Wrong] {
        let case = Case::new(checksum);
        case.read_all(&case.file());
        // The table belongs to this file as it is.
        let headers = || -> Vec<_> {
            case.tables()
                .iter()
                .map(|table| (table.clone(), fs::read(table).unwrap()[16..32].to_vec()))
                .collect()
        };
        let name = |key: &[u8]| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let is_proved =
            |(table, key): &(PathBuf, Vec<u8>)| table.file_stem().unwrap().to_str() == Some(&name(key));
        let first = headers();
        assert!(first.len() == 2 && !first.iter().any(is_proved), "{first:?}");
        // Later mounts of the file use it, and compute no MD5 either.
        assert_eq!(case.ends(&case.mount(&case.file())), [true, true]);
        case.read_all(&case.file());
        assert_eq!(headers(), first);
        // Another version does not use the table before the MD5 is proved.
        case.write_again();
        case.read_all(&case.file());
        let second = headers();
        let proved = second.iter().filter(|table| is_proved(table)).count();
        match checksum {
            Checksum::Wrong => {
                assert_eq!((second.len(), proved), (4, 2), "each version has its own: {second:?}")
            }
            _ => assert_eq!((second.len(), proved), (2, 2), "{second:?}"),
        }
    }
}

/// Returns a zlib stream and its data: an uncompressed `seed`, and matches that repeat it.
fn repeated(seed: &[u8], blocks: usize) -> (Vec<u8>, Vec<u8>) {
    let mut bits: Vec<bool> = Vec::new();
    let mut put = |value: usize, count: usize| bits.extend((0..count).map(|bit| value >> bit & 1 == 1));
    let mut data = seed.to_vec();
    for n in 0..blocks {
        put(usize::from(n + 1 == blocks) | 0b010, 3);
        for _ in 0..200 {
            put(0b1010_0011, 8); // a match of 258 bytes
            put(0b00111, 5); // 16385 bytes back or more
            put(seed.len() - 16385, 13);
            data.extend_from_within(data.len() - seed.len()..data.len() - seed.len() + 258);
        }
        put(0, 7);
    }
    let len = u16::try_from(seed.len()).unwrap();
    let mut stream = vec![0x78, 0x9c, 0];
    stream.extend([len.to_le_bytes(), (!len).to_le_bytes()].concat());
    stream.extend(seed);
    let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
    stream.extend(bits.chunks(8).map(byte));
    stream.extend(simd_adler32::adler32(&&data[..]).to_be_bytes());
    (data, stream)
}

#[test]
fn a_file_that_claims_the_md5_of_another_leaves_it_no_table() {
    let seed = sample(20_000, 9);
    let mut other = seed.clone();
    // Another seed with an equal Adler-32.
    let at = (8000..).find(|at| other[*at] < 255 && other[at + 1] > 1 && other[at + 2] < 255).unwrap();
    (other[at], other[at + 1], other[at + 2]) = (seed[at] + 1, seed[at + 1] - 2, seed[at + 2] + 1);
    let [(good, stream), (evil, forged)] = [repeated(&seed, 100), repeated(&other, 100)];
    assert!(good != evil && stream.len() == forged.len());
    let build = |data: &[u8], stream: Vec<u8>| {
        let block = Block::new(data).encoding(Encoding::Raw(*b"zlib", stream)).checksum(Checksum::Stored);
        AsdfBuilder::new().block(block).build()
    };
    let (built, mut bad) = (build(&good, stream), build(&evil, forged));
    let header = built.blocks[0].offset as usize..built.blocks[0].data_offset as usize;
    bad.bytes[header.clone()].copy_from_slice(&built.bytes[header]);
    let folder = fresh_folder();
    let [path, evil_path, cache] = ["good.asdf", "evil.asdf", "cache"].map(|name| folder.path().join(name));
    fs::write(&path, &built.bytes).unwrap();
    fs::write(&evil_path, &bad.bytes).unwrap();
    let mount = |file: &Path| super::SOURCES.with_cache(&cache, ["-r".as_ref(), file.as_os_str()]);
    let tables = || fs::read_dir(cache.join("asdf-mount")).unwrap().count();
    let mounted = mount(&evil_path);
    assert!(mounted.block(0) == evil);
    mounted.unmount();
    assert_eq!(tables(), 1);
    for _ in 0..2 {
        let mounted = mount(&path);
        let (mut end, at) = (vec![0; 50_000], good.len() - 60_000);
        fs::File::open(mounted.block_path(0)).unwrap().read_exact_at(&mut end, at as u64).unwrap();
        assert!(end == good[at..][..50_000], "another file's table was taken");
        assert!(mounted.block(0) == good);
        mounted.unmount();
        assert!(tables() <= 2);
    }
    let mounted = mount(&evil_path);
    assert!(mounted.block(0) == evil);
}
