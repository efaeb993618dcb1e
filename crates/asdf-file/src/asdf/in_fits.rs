//! ASDF in FITS: the header/data units (HDUs) of a FITS file with an extension `ASDF`, and the arrays in them.
//!
//! The extension holds a whole ASDF file: as the only field of a table of one row, as stdatamodels writes it, or as an
//! image of bytes, as older versions of asdf wrote it. The `source` of its arrays may name another HDU:
//! `fits:SCI,1` (name and version) or `fits:3` (number). Type and shape of such an array are those of the HDU, as in
//! stdatamodels.
//!
//! | module | content |
//! |---|---|
//! | [`header`] | reads a header |
//! | [`data`] | the data of an HDU as an array |
//! | [`check`] | reads all HDUs, for `--check` |

use std::ops::Range;
use std::sync::Arc;

use asdf_tree::yaml::event::Mark;
use seekable::content::{Content, Slice, Text};
use seekable::error::{Error, Result};
use seekable::source::{Source, SourceStat};

use self::data::HduArray;
use self::header::{Header, RECORD, read_fully};
use super::head::recognises;
use super::ndarray::{ByteOrder, Datatype, FITS, Mask, Ndarray, Number, Shape, Source as ArrayPlace};
use crate::container::{HEAD, ReadAt};
use crate::folder::names::ViewNames;

mod check;
mod data;
mod header;

/// The beginning of a FITS file.
const MAGIC: &[u8] = b"SIMPLE  =       ";
/// The name of the extension.
const NAME: &str = "ASDF";
/// The names of the files of HDUs.
const NAMES: ViewNames = ViewNames { endings: &[] };
/// Maximum number of HDUs.
const MAX_HDUS: usize = 1 << 14;
/// Maximum length of all headers in bytes.
const MAX_HEADERS: u64 = 64 << 20;
/// Maximum number of axes, which the standard sets.
const MAX_AXES: u64 = 999;

/// A header/data unit.
#[derive(Debug)]
pub struct Hdu {
    /// `EXTNAME`, in capitals; `PRIMARY` for the first one if it has none; else empty.
    pub(crate) name: String,
    /// `EXTVER`.
    pub(crate) version: i64,
    header: Range<u64>,
    /// The position of the data, without padding.
    data: Range<u64>,
    sums: Sums,
    /// The data as an array; `None` if there are none. The error says why they can't be shown.
    pub array: std::result::Result<Option<HduArray>, String>,
}

/// A FITS file with an ASDF file in it.
#[derive(Debug)]
pub struct FitsFile {
    pub(crate) source: Arc<dyn Source>,
    /// The size and version of the FITS file.
    pub stat: SourceStat,
    /// The HDUs, in the order of the file.
    pub hdus: Vec<Hdu>,
    /// The position of the ASDF file.
    pub(crate) asdf: Range<u64>,
    /// The end of the last HDU with its padding.
    end: u64,
}

/// The checksums in a header.
#[derive(Debug)]
struct Sums {
    /// `DATASUM`, as it is written.
    of_data: Option<String>,
    /// True if `CHECKSUM` makes the sum of the whole HDU known.
    of_hdu: bool,
}

/// True if a file that begins with `head` may be a FITS file.
pub fn may_be_fits(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// True if a file is a FITS file with an ASDF extension.
pub fn has_asdf(read: ReadAt<'_>) -> Result<bool> {
    Ok(walk(read, true)?.asdf.is_some())
}

impl FitsFile {
    /// Reads the headers of all HDUs.
    pub(crate) fn open(source: Arc<dyn Source>) -> Result<Self> {
        let stat = source.stat()?;
        let read = |offset: u64, buf: &mut [u8]| {
            let extent = offset..offset.saturating_add(buf.len() as u64);
            source.read_within(extent, offset, buf)
        };
        let Walked { hdus, asdf, end } = walk(&read, false).map_err(|error| error.of(source.path()))?;
        let asdf = asdf.ok_or_else(|| {
            let what = "is a FITS file without an ASDF extension";
            Error::new(seekable::error::Kind::Unrecognised, what).of(source.path())
        })?;
        Ok(Self { source, stat, hdus, asdf, end })
    }

    /// Returns the number of the HDU that the `source` of an array names.
    fn find(&self, source: &str) -> Option<usize> {
        let name = source.strip_prefix(FITS)?;
        if let Ok(number) = name.parse() {
            return (number < self.hdus.len()).then_some(number);
        }
        let (name, version) =
            match name.rsplit_once(',').map(|(name, version)| (name, version.parse::<i64>())) {
                Some((name, Ok(version))) => (name, Some(version)),
                _ => (name, None),
            };
        let name = name.trim_end_matches(' ').to_ascii_uppercase();
        self.hdus
            .iter()
            .position(|hdu| hdu.name == name && version.is_none_or(|version| version == hdu.version))
    }

    /// Returns the array that the `source` of an array in the tree names, or the reason why there is none.
    pub fn array(&self, source: &str) -> std::result::Result<&HduArray, String> {
        let nothing = || format!("the FITS file has no extension \"{}\"", source.escape_debug());
        let hdu = self.find(source).and_then(|number| self.hdus.get(number)).ok_or_else(nothing)?;
        let array = hdu.array.as_ref().map_err(Clone::clone)?;
        array.as_ref().ok_or_else(|| format!("the extension \"{}\" has no data", source.escape_debug()))
    }

    /// Returns the numbers that mean no value in the fields of a structured array, as they are shown.
    pub fn nulls(&self, array: &Ndarray) -> &[Option<Number>] {
        match (&array.source, array.mask) {
            (ArrayPlace::Hdu(source), Mask::Fields) => self.array(source).map_or(&[], |of_hdu| &of_hdu.nulls),
            _ => &[],
        }
    }

    /// Sets type and shape of an array of the tree, and the mask if it has none, to those of the HDU that holds its
    /// elements.
    pub(crate) fn complete(&self, array: &mut Ndarray) -> std::result::Result<(), String> {
        let ArrayPlace::Hdu(source) = &array.source else { return Ok(()) };
        let of_hdu = self.array(source)?;
        array.shape = Some(Shape { streamed: false, dimensions: of_hdu.dimensions.clone() });
        array.datatype = Some(of_hdu.datatype.clone());
        array.byteorder = Some(ByteOrder::Big);
        array.offset = 0;
        array.strides = None;
        if array.mask == Mask::None {
            array.mask = match (&of_hdu.datatype, &of_hdu.nulls[..]) {
                (Datatype::Structured(_), nulls) if nulls.iter().any(Option::is_some) => Mask::Fields,
                (Datatype::Scalar(_), [Some(blank)]) => Mask::Value(Mark::default(), Some(*blank)),
                _ => Mask::None,
            };
        }
        Ok(())
    }

    /// Returns the array of an HDU as an array of the tree; `None` if it has none.
    pub fn as_ndarray(&self, number: usize) -> Option<Ndarray> {
        let source = ArrayPlace::Hdu(format!("{FITS}{number}"));
        let mut array = Ndarray {
            source,
            shape: None,
            datatype: None,
            byteorder: None,
            offset: 0,
            strides: None,
            mask: Mask::None,
        };
        self.complete(&mut array).ok().map(|()| array)
    }

    /// Returns the elements of the array that a `source` names: big-endian, in C order.
    pub(crate) fn elements(&self, source: &str) -> Result<Arc<dyn Content>> {
        let array = self.array(source).map_err(Error::damaged)?;
        let stored = Slice::new(self.source.clone(), array.place, array.stored_len);
        array.decoded(Arc::new(stored))
    }

    /// Returns the header of an HDU as a text with a line for each card.
    pub fn header_text(&self, number: usize) -> Result<Arc<dyn Content>> {
        let read = |offset: u64, buf: &mut [u8]| self.source.read_at(offset, buf);
        let hdu = self.hdus.get(number);
        let header = hdu.map(|hdu| Header::read(&read, hdu.header.start)).transpose()?.flatten();
        let (header, _) = header.ok_or_else(|| Error::damaged("the header can't be read"))?;
        let mut text = Vec::new();
        for card in header.cards() {
            text.extend_from_slice(card.trim_ascii_end());
            text.push(b'\n');
        }
        Ok(Arc::new(Text::new(text)))
    }

    /// True for the number of the HDU that holds the ASDF file.
    pub fn is_asdf(&self, number: usize) -> bool {
        let array = self.hdus.get(number).and_then(|hdu| hdu.array.as_ref().ok()?.as_ref());
        array.is_some_and(|array| array.place == self.asdf.start)
    }

    /// Returns the name of an HDU for files: `SCI`, `SCI,2`, or its number if it has no name or its name is taken.
    pub fn file_name(&self, number: usize) -> String {
        let Some(hdu) = self.hdus.get(number).filter(|hdu| !hdu.name.is_empty()) else {
            return number.to_string();
        };
        let spec = format!("{},{}", hdu.name, hdu.version);
        if self.find(&format!("{FITS}{spec}")) != Some(number) {
            return number.to_string();
        }
        let name = if hdu.version == 1 { hdu.name.clone() } else { spec };
        NAMES.component(name.as_bytes()).concat()
    }
}

/// The facts that the headers of a file tell.
struct Walked {
    hdus: Vec<Hdu>,
    /// The position of the ASDF file, if there is one.
    asdf: Option<Range<u64>>,
    /// The end of the last HDU.
    end: u64,
}

/// Reads the headers of a file. If `until_found`, no further HDU is read after the ASDF file.
fn walk(read: ReadAt<'_>, until_found: bool) -> Result<Walked> {
    let mut hdus = Vec::new();
    let mut asdf = None;
    let mut at = 0;
    let mut headers = 0;
    while hdus.len() < MAX_HDUS && headers < MAX_HEADERS {
        let Some((header, start)) = Header::read(read, at)? else { break };
        headers += start - at;
        let is_header =
            if hdus.is_empty() { header.is_true("SIMPLE") } else { header.text("XTENSION").is_some() };
        let Some(len) = data_len(&header).filter(|_| is_header) else { break };
        let Some(end) = start.checked_add(len) else { break };
        let hdu = Hdu::new(&header, at..start, &(start..end), hdus.is_empty());
        let is_asdf = hdu.name == NAME || header.text("XTENSION").is_some_and(|kind| kind == data::ASDF);
        if asdf.is_none() && is_asdf {
            asdf = asdf_in(read, &hdu)?;
            if asdf.is_some() && until_found {
                break;
            }
        }
        hdus.push(hdu);
        at = padded(end);
        if at == u64::MAX {
            break;
        }
    }
    Ok(Walked { hdus, asdf, end: at })
}

/// Returns the end of data with their padding.
fn padded(end: u64) -> u64 {
    end.checked_next_multiple_of(RECORD).unwrap_or(u64::MAX)
}

/// Returns the length of an HDU's data in bytes; `None` if the header is not valid.
fn data_len(header: &Header) -> Option<u64> {
    let axes = header.count("NAXIS").filter(|axes| *axes <= MAX_AXES)?;
    let bits = header.integer("BITPIX").filter(|bits| matches!(bits, 8 | 16 | 32 | 64 | -32 | -64))?;
    if axes == 0 {
        return Some(0);
    }
    // The first axis of random groups is 0 and does not count.
    let first = if header.is_true("GROUPS") && header.count("NAXIS1") == Some(0) { 2 } else { 1 };
    let mut elements = 1_u64;
    for axis in first..=axes {
        elements = elements.checked_mul(header.count(&format!("NAXIS{axis}"))?)?;
    }
    let elements = elements.checked_add(header.count("PCOUNT").unwrap_or(0))?;
    let elements = elements.checked_mul(header.count("GCOUNT").unwrap_or(1))?;
    elements.checked_mul(bits.unsigned_abs() / 8).filter(|len| *len <= i64::MAX as u64)
}

/// Returns the position of the ASDF file in an extension of bytes.
fn asdf_in(read: ReadAt<'_>, hdu: &Hdu) -> Result<Option<Range<u64>>> {
    let Ok(Some(array)) = &hdu.array else { return Ok(None) };
    let Some(len) = array.len_of_bytes() else { return Ok(None) };
    let mut head = [0; HEAD];
    let count = read_fully(read, array.place, &mut head)?;
    Ok(recognises(&head[..count]).then(|| array.place..array.place.saturating_add(len)))
}

impl Hdu {
    fn new(header: &Header, header_range: Range<u64>, data: &Range<u64>, is_first: bool) -> Self {
        let name = header.text("EXTNAME").unwrap_or_default().to_ascii_uppercase();
        let name = if name.is_empty() && is_first { "PRIMARY".to_owned() } else { name };
        let version = header.integer("EXTVER").unwrap_or(1);
        let array = HduArray::of(header, data);
        // The value of a card that is there but not set is a text without characters.
        let sum = |keyword| header.text(keyword).filter(|text| !text.trim().is_empty());
        let sums = Sums { of_data: sum("DATASUM"), of_hdu: sum("CHECKSUM").is_some() };
        Self { name, version, header: header_range, data: data.clone(), sums, array }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekable::source::MemorySource;

    /// Returns a header of these cards.
    fn header(cards: &[&str]) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            cards.iter().chain(&["END"]).flat_map(|card| format!("{card:80}").into_bytes()).collect();
        bytes.resize(bytes.len().next_multiple_of(RECORD as usize), b' ');
        bytes
    }

    /// Returns a file with an image of these axes and then an image of bytes that is named ASDF.
    fn file(axes: &[&str], asdf: &[u8]) -> Vec<u8> {
        let mut bytes =
            header(&[&["SIMPLE  =                    T", "BITPIX  =                   16"], axes].concat());
        let naxis1 = format!("NAXIS1  = {:20}", asdf.len());
        let extension =
            ["XTENSION= 'IMAGE   '", "BITPIX  =                    8", "NAXIS   =                    1"];
        bytes.extend(header(&[&extension[..], &[&naxis1, "EXTNAME = 'asdf'"]].concat()));
        bytes.extend(asdf);
        bytes
    }

    fn has(bytes: &[u8]) -> bool {
        let source = MemorySource(bytes.to_vec());
        has_asdf(&|offset, buf| source.read_at(offset, buf)).unwrap()
    }

    #[test]
    fn only_a_fits_file_with_an_asdf_file_is_recognised() {
        let empty = ["NAXIS   =                    0"];
        let whole = file(&empty, b"#ASDF 1.0.0\n...\n");
        assert!(may_be_fits(&whole) && has(&whole));
        let text = String::from_utf8(whole.clone()).unwrap();
        assert!(has(text.replacen("'IMAGE   '", "'ASDF    '", 1).replacen("'asdf'", "''    ", 1).as_bytes()));
        assert!(!has(&file(&empty, b"#asdf 1.0.0\n")));
        assert!(!has(&file(&empty, b"")));
        assert!(!has(&whole[..2 * RECORD as usize - 1]));
        let no_fits =
            String::from_utf8(whole).unwrap().replacen("                   T", "                   F", 1);
        assert!(!has(no_fits.as_bytes()));
    }

    #[test]
    fn lengths_that_no_file_has_end_the_walk() {
        for axes in [
            &["NAXIS   =                  999"][..],
            &["NAXIS   =                 1000"],
            &["NAXIS   =                   -1"],
            &["NAXIS   =                    1", "NAXIS1  = 9223372036854775807"],
            &["NAXIS   =                    1", "NAXIS1  = -1"],
            &["NAXIS   =                    2", "NAXIS1  = 4294967296", "NAXIS2  = 4294967296"],
            &["NAXIS   =                    1", "NAXIS1  = 1", "PCOUNT  = 18446744073709551615"],
            &["NAXIS   =                    1", "NAXIS1  = 1", "GCOUNT  = 18446744073709551615"],
        ] {
            assert!(!has(&file(axes, b"#ASDF 1.0.0\n...\n")), "{axes:?}");
        }
        // A header without an end, of any length.
        let endless = [&file(&[], b"")[..RECORD as usize - 80], &vec![b' '; 6 << 20]].concat();
        assert!(!has(&endless));
    }

    #[test]
    fn a_text_may_have_quotes_and_a_slash() {
        let bytes = header(&[
            "A       = 'it''s / 1   ' / comment",
            "B       =                 1D2 / x",
            "C       = T",
        ]);
        let source = MemorySource(bytes);
        let (header, end) = Header::read(&|offset, buf| source.read_at(offset, buf), 0).unwrap().unwrap();
        assert_eq!(
            (header.text("A").as_deref(), header.float("B"), end),
            (Some("it's / 1"), Some(100.0), RECORD)
        );
        assert!(header.is_true("C") && header.text("B").is_none() && header.integer("NONE").is_none());
    }
}
