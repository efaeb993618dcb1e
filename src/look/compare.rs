//! `--diff A B`: the trees of two files as a unified diff, and their arrays element by element.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::copy::{self, CopyTarget, Failure, Range};
use super::{Look, again};
use crate::content::{Content, read_exact_at};
use crate::error::{Error, Result, one_line};
use crate::local::stat::FileKind;
use crate::vfs::ReadHandle;

/// The tree, and the arrays.
const TREE: &str = "tree.yaml";
const ARRAYS: &str = "arrays";
/// The chunks of a trajectory; all other arrays of such a file are made from them.
const FRAMES: &str = "frames";
/// Bytes compared at once.
const PIECE: usize = 1 << 18;
/// Maximum number of arrays, and length of a header.
const MAX_ARRAYS: usize = 1 << 20;
const MAX_HEADER: u64 = 1 << 20;

impl Look {
    /// Returns the text of the tree.
    ///
    /// # Errors
    /// The tree can't be read.
    pub fn tree_text(&self) -> Result<Vec<u8>> {
        let mut text = InMemory(Vec::new());
        let reader = self.file_at(Path::new(TREE))?;
        copy::all(&reader, Range::ALL, &mut text).map_err(|failure| match failure {
            Failure::Read(error) => error,
            Failure::Write(error) => error.into(),
        })?;
        Ok(text.0)
    }

    /// Returns the paths of the arrays that are files.
    fn array_paths(&self) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        let mut directories = vec![PathBuf::from(ARRAYS)];
        while let Some(directory) = directories.pop() {
            let Ok(found) = self.find(&directory, true) else { continue };
            let names: Vec<OsString> = again(|| self.names(found.attr.ino))?;
            let has_frames = directory == Path::new(ARRAYS) && names.iter().any(|name| name == FRAMES);
            for name in names {
                if has_frames && name != FRAMES {
                    continue;
                }
                let path = directory.join(&name);
                match self.lookup(found.attr.ino, &name)?.kind {
                    FileKind::Directory => directories.push(path),
                    FileKind::File => paths.push(path),
                    _ => {}
                }
                if paths.len() > MAX_ARRAYS {
                    return Err(Error::unsupported("there are more than 1048576 arrays"));
                }
            }
        }
        Ok(paths)
    }

    /// Compares the arrays of two files, and writes a line for each that differs. Returns true if any does.
    /// `failed` gets the errors of arrays that can't be read.
    ///
    /// # Errors
    /// The arrays can't be found, or `out` can't be written.
    pub fn compare_arrays(
        &self,
        other: &Self,
        out: &mut dyn Write,
        failed: &mut dyn FnMut(&Path, &Error),
    ) -> Result<bool> {
        let mut all: BTreeMap<PathBuf, [bool; 2]> = BTreeMap::new();
        for (n, look) in [self, other].into_iter().enumerate() {
            for path in look.array_paths()? {
                all.entry(path).or_default()[n] = true;
            }
        }
        let mut differ = false;
        for (path, has) in all {
            let shown = one_line(&path.to_string_lossy());
            let line = match has {
                [true, false] => Some(format!("only in {}", one_line(&self.label.to_string_lossy()))),
                [false, true] => Some(format!("only in {}", one_line(&other.label.to_string_lossy()))),
                _ => match self.compare_array(other, &path) {
                    Ok(line) => line,
                    Err(error) => {
                        failed(&path, &error);
                        continue;
                    }
                },
            };
            if let Some(line) = line {
                differ = true;
                writeln!(out, "{shown}: {line}")?;
            }
        }
        Ok(differ)
    }

    /// Returns the difference of two arrays; `None` if they are equal.
    fn compare_array(&self, other: &Self, path: &Path) -> Result<Option<String>> {
        let one = ArrayFile::open(self.file_at(path)?)?;
        let other = ArrayFile::open(other.file_at(path)?)?;
        if one.header.is_none() || other.header.is_none() {
            // A text, such as a chunk of a trajectory.
            return Ok(one.count_differences(&other)?.map(|found| found.in_words(one.len(), "bytes")));
        }
        let (Some(a), Some(b)) = (&one.header, &other.header) else { return Ok(None) };
        let mut changed = Vec::new();
        if a.descr != b.descr {
            changed.push(format!("{} → {}", a.descr, b.descr));
        }
        if a.shape != b.shape {
            changed.push(format!("{} → {}", a.shape, b.shape));
        }
        if a.shape != b.shape || (a.descr != b.descr && (a.number().is_none() || b.number().is_none())) {
            return Ok(Some(one_line(&changed.join(", "))));
        }
        let found = one.count_differences(&other)?;
        if let Some(found) = found {
            let count = one.len() / one.item().max(1);
            changed.push(found.in_words(count, "elements"));
        }
        if changed.is_empty() {
            return Ok(None);
        }
        Ok(Some(one_line(&format!("{} {}: {}", a.descr, a.shape, changed.join(", ")))))
    }
}

struct InMemory(Vec<u8>);

impl CopyTarget for InMemory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// The header of a `.npy` file.
#[derive(Debug)]
struct NpyHeader {
    /// Type of an element, as a Python literal.
    descr: String,
    shape: String,
    order: String,
    /// Number of elements.
    count: u64,
    /// Offset of the elements.
    start: u64,
}

impl NpyHeader {
    fn read(content: &dyn Content) -> Result<Option<Self>> {
        let mut start = [0; 12];
        if content.len() < 12
            || read_exact_at(content, 0, &mut start).is_err()
            || !start.starts_with(b"\x93NUMPY")
        {
            return Ok(None);
        }
        let (len, from) = match start[6] {
            1 => (u64::from(u16::from_le_bytes([start[8], start[9]])), 10),
            _ => (u64::from(u32::from_le_bytes([start[8], start[9], start[10], start[11]])), 12),
        };
        let len = len.min(content.len() - from);
        if len > MAX_HEADER {
            return Err(Error::unsupported("the header of the array is too long"));
        }
        let mut text = vec![0; len as usize];
        read_exact_at(content, from, &mut text)?;
        let text: String = match start[6] {
            3 => String::from_utf8_lossy(&text).into_owned(),
            _ => text.iter().copied().map(char::from).collect(),
        };
        Ok(Self::parse(&text, from + len))
    }

    /// Parses the literal that numpy writes, whose keys are in alphabetical order.
    fn parse(text: &str, start: u64) -> Option<Self> {
        let rest = text.strip_prefix("{'descr': ")?;
        let (descr, rest) = rest.rsplit_once(", 'fortran_order': ")?;
        let (order, rest) = rest.split_once(", 'shape': ")?;
        let (shape, _) = rest.split_once(')')?;
        let sizes = shape.trim_start_matches('(').split(',').map(str::trim).filter(|size| !size.is_empty());
        let count = sizes
            .map(|size| size.parse::<u64>().ok())
            .try_fold(1_u64, |count, size| count.checked_mul(size?))?;
        let descr = descr.trim_matches('\'').to_owned();
        Some(Self { descr, shape: format!("{shape})"), order: order.to_owned(), count, start })
    }

    /// Returns the kind of number, its size in bytes, and true for big-endian.
    fn number(&self) -> Option<(char, usize, bool)> {
        let mut letters = self.descr.chars();
        let is_big = match letters.next()? {
            '<' | '|' | '=' => false,
            '>' => true,
            _ => return None,
        };
        let kind = letters.next()?;
        let size: usize = letters.as_str().parse().ok()?;
        let is_known = matches!((kind, size), ('i' | 'u', 1 | 2 | 4 | 8) | ('f', 2 | 4 | 8) | ('b', 1));
        is_known.then_some((kind, size, is_big))
    }
}

/// An array that is read.
struct ArrayFile {
    reader: ReadHandle,
    header: Option<NpyHeader>,
    size: u64,
}

impl ArrayFile {
    fn open(reader: ReadHandle) -> Result<Self> {
        let content = reader.content()?;
        let (header, size) = (NpyHeader::read(&*content)?, content.len());
        Ok(Self { reader, header, size })
    }

    fn start(&self) -> u64 {
        self.header.as_ref().map_or(0, |header| header.start)
    }

    /// Returns the length of the elements in bytes.
    fn len(&self) -> u64 {
        self.size - self.start().min(self.size)
    }

    /// Returns the size of an element in bytes.
    fn item(&self) -> u64 {
        self.header.as_ref().map_or(1, |header| self.len() / header.count.max(1)).max(1)
    }

    fn read(&self, element: u64, count: u64) -> Result<Vec<u8>> {
        let item = self.item();
        let offset = self.start() + element * item;
        let len = (count * item).min(self.size - offset.min(self.size));
        let mut bytes =
            vec![0; usize::try_from(len).map_err(|_| Error::unsupported("the array is too large"))?];
        read_exact_at(&*self.reader.content()?, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Counts the elements that differ; `None` if all are equal.
    fn count_differences(&self, other: &Self) -> Result<Option<Differences>> {
        let (item, other_item) = (self.item(), other.item());
        let (count, other_count) = (self.len() / item, other.len() / other_item);
        let number = |array: &Self| array.header.as_ref().and_then(NpyHeader::number);
        let numbers = number(self).zip(number(other));
        let order = |array: &Self| array.header.as_ref().map(|header| header.order.clone());
        if order(self) != order(other) {
            return Err(Error::unsupported(
                "the order of the elements (C or Fortran) differs; they are not compared",
            ));
        }
        let mut found = Differences { count: count.abs_diff(other_count), ..Differences::default() };
        let common = count.min(other_count);
        let step = (PIECE as u64 / item.max(other_item)).max(1);
        let mut at = 0;
        while at < common {
            let wanted = step.min(common - at);
            let (one, two) = (self.read(at, wanted)?, other.read(at, wanted)?);
            if one != two || item != other_item || numbers.is_some_and(|(one, two)| one != two) {
                let pairs = one.chunks_exact(item as usize).zip(two.chunks_exact(other_item as usize));
                for (n, (one, two)) in pairs.enumerate() {
                    found.add(at + n as u64, one, two, numbers);
                }
            }
            at += wanted;
        }
        Ok((found.count > 0).then_some(found))
    }
}

/// The kind of number, its size in bytes, and true for big-endian.
type Number = (char, usize, bool);

/// The elements that differ.
#[derive(Debug, Default)]
struct Differences {
    count: u64,
    /// The greatest absolute difference of two numbers.
    greatest: Option<f64>,
    /// Number of elements that are NaN in only one array.
    nans: u64,
    /// The position and the values of the first difference.
    first: Option<(u64, String)>,
}

impl Differences {
    fn add(&mut self, at: u64, one: &[u8], two: &[u8], numbers: Option<(Number, Number)>) {
        let Some((a, b)) = numbers else {
            if one != two {
                self.count += 1;
                self.first.get_or_insert((at, String::new()));
            }
            return;
        };
        let (one, two) = (Value::of(one, a), Value::of(two, b));
        let Some(difference) = one.difference(two) else { return };
        self.count += 1;
        self.first.get_or_insert_with(|| (at, format!(": {one} → {two}")));
        if difference.is_nan() {
            self.nans += 1;
        } else if self.greatest.is_none_or(|greatest| difference > greatest) {
            self.greatest = Some(difference);
        }
    }

    fn in_words(&self, count: u64, what: &str) -> String {
        let mut text = format!("{} of {count} {what} differ", self.count);
        if let Some(greatest) = self.greatest {
            text += &format!(", by at most {greatest}");
        }
        if self.nans > 0 {
            text += &format!(", {} are NaN in one only", self.nans);
        }
        if let Some((at, values)) = &self.first {
            text += &format!(" (first at {at}{values})");
        }
        text
    }
}

/// A number of an array.
#[derive(Clone, Copy, Debug)]
enum Value {
    Integer(i128),
    Float(f64),
}

impl Value {
    fn of(bytes: &[u8], (kind, size, is_big): Number) -> Self {
        let mut little = [0; 8];
        for (n, byte) in bytes.iter().take(size).enumerate() {
            little[if is_big { size - 1 - n } else { n }] = *byte;
        }
        let unsigned = u64::from_le_bytes(little);
        let shift = 64 - 8 * size as u32;
        match (kind, size) {
            ('i', _) => Self::Integer(i128::from((unsigned << shift) as i64 >> shift)),
            ('f', 8) => Self::Float(f64::from_bits(unsigned)),
            ('f', 4) => Self::Float(f32::from_bits(unsigned as u32).into()),
            ('f', _) => Self::Float(half(unsigned as u16)),
            _ => Self::Integer(unsigned.into()),
        }
    }

    /// Returns the absolute difference; `None` if the numbers are equal, NaN if one of them is NaN.
    fn difference(self, other: Self) -> Option<f64> {
        match (self, other) {
            (Self::Integer(one), Self::Integer(two)) => {
                (one != two).then(|| (one - two).unsigned_abs() as f64)
            }
            (one, two) => {
                let (one, two) = (one.float(), two.float());
                let is_same = one == two || one.is_nan() && two.is_nan();
                (!is_same).then(|| (one - two).abs())
            }
        }
    }

    fn float(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(out),
            Self::Float(value) => value.fmt(out),
        }
    }
}

/// Converts a number of IEEE 754's half precision.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let fraction = f64::from(bits & 0x3ff);
    match (bits >> 10) & 0x1f {
        0 => sign * fraction * f64::powi(2.0, -24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        exponent => sign * (1.0 + fraction / 1024.0) * f64::powi(2.0, i32::from(exponent) - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_that_of_numpy() {
        let header = |descr: &str, shape: &[u64]| {
            let bytes = crate::content::npy::header(descr, false, shape);
            let len = bytes.len() as u64;
            let header = NpyHeader::read(&crate::content::Text::new(bytes)).unwrap().unwrap();
            assert_eq!(header.start, len);
            header
        };
        let found = header("'<f4'", &[2, 3]);
        assert_eq!((&*found.descr, &*found.shape, found.count), ("<f4", "(2, 3)", 6));
        assert_eq!(found.number(), Some(('f', 4, false)));
        assert_eq!(header("'|u1'", &[]).count, 1);
        assert_eq!(header("[('a', '<f4'), ('b', '>i2')]", &[5]).number(), None);
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        let value = |bytes: &[u8], kind, is_big| Value::of(bytes, (kind, bytes.len(), is_big));
        assert_eq!(value(&[255, 255], 'i', false).difference(value(&[1], 'i', false)), Some(2.0));
        assert_eq!(value(&[255], 'u', false).difference(value(&[255, 0], 'u', false)), None);
        assert_eq!(value(&[0, 1], 'u', true).difference(value(&[1], 'u', false)), None);
        let nan = value(&f32::NAN.to_le_bytes(), 'f', false);
        assert!(nan.difference(nan).is_none() && nan.difference(Value::Integer(1)).is_some_and(f64::is_nan));
        let infinity = Value::Float(f64::INFINITY);
        assert!(infinity.difference(infinity).is_none());
        for (bits, number) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 5.960_464_477_539_063e-8), (0x7c00, f64::INFINITY)]
        {
            assert_eq!(half(bits), number);
        }
    }
}
