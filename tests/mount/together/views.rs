//! The views of a file, and how the version that each one shows is read out of its bytes.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::Read;

use crate::content::{CELLS, ELEMENTS, INLINE, SIDE, state_of_tree};
use crate::judge::State;

/// The part of a state that a view shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    State(State),
    Version(u32),
}

impl Seen {
    pub(crate) fn is(self, state: State) -> bool {
        match self {
            Self::State(seen) => seen == state,
            Self::Version(version) => version == state.version,
        }
    }
}

/// A file in the directory of a mounted file.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) name: &'static str,
    /// Returns what the bytes show, or what is wrong with them.
    pub(crate) seen: fn(&[u8]) -> Result<Seen, String>,
}

macro_rules! views {
    ($($name:literal: $seen:expr,)+) => { &[$(View { name: $name, seen: $seen }),+] };
}

/// All views. The first one shows drafts, too.
pub(crate) const VIEWS: &[View] = views! {
    "tree.yaml": |it| state_of_tree(it).map(Seen::State),
    "tree.json": state_of_text,
    "tree.tagged.json": state_of_text,
    ".asdf-mount/info.txt": state_of_text,
    "index.html": state_of_page,
    "refs.json": |it| version_of_references(it).map(Seen::Version),
    "blocks/0.bin": |it| pixels(it).map(Seen::Version),
    "blocks/1.bin": |it| numbers(it, ELEMENTS).map(Seen::Version),
    "blocks/2.bin": |it| numbers(it, ELEMENTS).map(Seen::Version),
    "blocks/3.bin": |it| numbers(it, CELLS).map(Seen::Version),
    "arrays/stored.npy": |it| numbers(elements(it)?, ELEMENTS).map(Seen::Version),
    "arrays/packed.npy": |it| numbers(elements(it)?, ELEMENTS).map(Seen::Version),
    "arrays/table.npy": |it| numbers(elements(it)?, CELLS).map(Seen::Version),
    "arrays/image.npy": |it| pixels(elements(it)?).map(Seen::Version),
    "arrays/inline.npy": |it| floats(elements(it)?).map(Seen::Version),
    "fits/stored.fits": |it| version_of_fits(it, |data| big_endian(data, ELEMENTS)),
    "fits/packed.fits": |it| version_of_fits(it, |data| big_endian(data, ELEMENTS)),
    "fits/table.fits": |it| version_of_fits(it, |data| big_endian(data, CELLS)),
    "fits/image.fits": |it| version_of_fits(it, |data| pixels(start(data, SIDE * SIDE * 3)?)),
    "tables/table.parquet": |it| version_of_parquet(it).map(Seen::Version),
    "preview.png": |it| version_of_picture(it).map(Seen::Version),
    "preview/image.png": |it| version_of_picture(it).map(Seen::Version),
};

/// Returns the number that occurs `count` times in these little-endian bytes, and nothing else does.
pub(crate) fn numbers(bytes: &[u8], count: usize) -> Result<u32, String> {
    same(bytes.as_chunks().0.iter().map(|four| u32::from_le_bytes(*four)), count)
}

/// Returns the number in the numbers of a FITS file.
fn big_endian(data: &[u8], count: usize) -> Result<u32, String> {
    let data = start(data, count * 4)?;
    same(data.as_chunks().0.iter().map(|four| u32::from_be_bytes(*four) ^ (1 << 31)), count)
}

fn floats(bytes: &[u8]) -> Result<u32, String> {
    same(bytes.as_chunks().0.iter().map(|eight| f64::from_le_bytes(*eight) as u32), INLINE)
}

/// Returns the number that is the color of each pixel.
pub(crate) fn pixels(bytes: &[u8]) -> Result<u32, String> {
    same(bytes.as_chunks().0.iter().map(|[r, g, b]| u32::from_le_bytes([*r, *g, *b, 0])), SIDE * SIDE)
}

fn same<T: PartialEq + Debug>(values: impl Iterator<Item = T>, wanted: usize) -> Result<T, String> {
    let mut values: Vec<T> = values.collect();
    let count = values.len();
    values.dedup();
    match values.pop() {
        Some(value) if values.is_empty() && count == wanted => Ok(value),
        last => Err(format!(
            "{count} elements of {wanted}, of versions {:?}, {last:?}",
            &values[..values.len().min(9)]
        )),
    }
}

fn start(bytes: &[u8], len: usize) -> Result<&[u8], String> {
    bytes.get(..len).ok_or_else(|| format!("{} bytes in place of {len}", bytes.len()))
}

/// Returns the bytes after the header of a `.npy` file.
fn elements(npy: &[u8]) -> Result<&[u8], String> {
    let len = start(npy, 10)?;
    let header = 10 + usize::from(u16::from_le_bytes([len[8], len[9]]));
    npy.get(header..).ok_or_else(|| "no header".to_owned())
}

/// Returns all versions and notes in a text.
fn numbers_of_text(text: &[u8]) -> BTreeSet<u32> {
    let words = text.split(|byte| !byte.is_ascii_alphanumeric());
    let words = words.filter(|word| word.len() == 8 && word.starts_with(b"1"));
    words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok()).collect()
}

/// Returns the state of a text that shows version and note. The note is never less than the version.
fn state_of_text(text: &[u8]) -> Result<Seen, String> {
    let numbers: Vec<u32> = numbers_of_text(text).into_iter().collect();
    match numbers[..] {
        [both] => Ok(Seen::State(State { version: both, note: both })),
        [version, note] => Ok(Seen::State(State { version, note })),
        _ => Err(format!("the versions and notes {numbers:?}")),
    }
}

fn version_of_header(header: &[u8]) -> Result<u32, String> {
    let numbers: Vec<u32> = numbers_of_text(header).into_iter().collect();
    match numbers[..] {
        [version] => Ok(version),
        _ => Err(format!("the versions {numbers:?}")),
    }
}

/// Returns the version of header and data, which are of one.
fn version_of_fits(file: &[u8], version_of_data: fn(&[u8]) -> Result<u32, String>) -> Result<Seen, String> {
    let mut data = file;
    // The primary HDU of a table has no data.
    while data.starts_with(b"SIMPLE ") || data.starts_with(b"XTENSION") {
        let end = data.chunks(80).position(|card| card.starts_with(b"END ")).ok_or("no END")?;
        data = data.get((end + 1).next_multiple_of(36) * 80..).ok_or("half a header")?;
    }
    let of_header = version_of_header(&file[..file.len() - data.len()])?;
    let of_data = version_of_data(data)?;
    if of_header != of_data {
        return Err(format!("the header of {of_header} before the data of {of_data}"));
    }
    Ok(Seen::Version(of_data))
}

/// Returns the version that each number of a table has.
fn version_of_parquet(file: &[u8]) -> Result<u32, String> {
    let is_run = |bytes: &&[u8]| bytes[2] != 0 && bytes[3] == 0 && bytes[..28] == bytes[4..];
    let version = &file.windows(32).find(is_run).ok_or("no numbers")?[..4];
    let count = file.windows(4).filter(|four| *four == version).count();
    if count == CELLS && file.ends_with(b"PAR1") {
        Ok(u32::from_le_bytes(version.try_into().unwrap()))
    } else {
        Err(format!("{count} numbers of the version of the first one"))
    }
}

fn version_of_picture(png: &[u8]) -> Result<u32, String> {
    let data = png.windows(4).position(|four| four == b"IDAT").ok_or("no IDAT")? + 4;
    let mut lines = Vec::new();
    flate2::read::ZlibDecoder::new(&png[data..])
        .read_to_end(&mut lines)
        .map_err(|error| error.to_string())?;
    let width = 1 + 4 * SIDE;
    let colors: Vec<u8> = lines
        .chunks(width)
        .flat_map(|line| line[1..].chunks(4).flat_map(|pixel| &pixel[..3]))
        .copied()
        .collect();
    pixels(&colors)
}

/// Returns the state in the text of a page; its picture has the same version.
fn state_of_page(page: &[u8]) -> Result<Seen, String> {
    const BEFORE: &[u8] = b"data:image/png;base64,";
    let at = page.windows(BEFORE.len()).position(|bytes| bytes == BEFORE).ok_or("no picture")?;
    let (before, picture) = page.split_at(at + BEFORE.len());
    let len = picture.iter().position(|byte| *byte == b'"').ok_or("no end of the picture")?;
    let (picture, after) = picture.split_at(len);
    let seen = state_of_text(&[before, after].concat())?;
    let version = version_of_picture(&bytes_of_base64(picture))?;
    match seen {
        Seen::State(state) if state.version == version => Ok(seen),
        _ => Err(format!("{seen:?} beside a picture of {version}")),
    }
}

fn bytes_of_base64(text: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    for four in text.chunks(4) {
        let values: Vec<u32> = four
            .iter()
            .filter_map(|byte| Some(DIGITS.iter().position(|digit| digit == byte)? as u32))
            .collect();
        let all = values.iter().fold(0, |all, value| all << 6 | value) << (6 * (4 - values.len()));
        bytes.extend(&all.to_be_bytes()[1..][..values.len() * 3 / 4]);
    }
    bytes
}

fn references(json: &[u8]) -> Result<serde_json::Value, String> {
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

/// Returns the version of the array that `refs.json` itself contains.
fn version_of_references(json: &[u8]) -> Result<u32, String> {
    let all = references(json)?;
    let data =
        all["refs"]["inline/0"].as_str().and_then(|it| it.strip_prefix("base64:")).ok_or("no inline/0")?;
    floats(&bytes_of_base64(data.as_bytes()))
}

/// Returns the place of the array `stored` in the file.
pub(crate) fn reference(json: &[u8]) -> Option<(u64, usize)> {
    let all = references(json).ok()?;
    let place = &all["refs"]["stored/0"];
    Some((place[1].as_u64()?, place[2].as_u64()? as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixture_of_two_versions_is_no_version() {
        let two = [10_000_001_u32, 10_000_002].map(|version| vec![version; CELLS / 2]).concat();
        let bytes: Vec<u8> = two.iter().flat_map(|number| number.to_le_bytes()).collect();
        assert!(numbers(&bytes, CELLS).is_err() && numbers(&bytes[..2000], CELLS).is_err());
        assert_eq!(numbers(&bytes[..2000], CELLS / 2), Ok(10_000_001));
        assert!(version_of_parquet(&[&bytes[..], b"PAR1"].concat()).is_err());
        assert!(pixels(&[vec![1; SIDE * SIDE * 3 - 3], vec![2; 3]].concat()).is_err());
        assert!(state_of_text(b"a: 10000001, b: 10000002, c: '10000003'").is_err());
        assert!(matches!(
            state_of_text(b"a: 10000002, b: '10000001'"),
            Ok(Seen::State(State { version: 10_000_001, note: 10_000_002 }))
        ));
        assert_eq!(bytes_of_base64(b"AAECAwQ="), [0, 1, 2, 3, 4]);
    }
}
