//! `--diff A B`: the trees of two files as a unified diff, and their arrays element by element.
//!
//! An array that differs is a hunk, too:
//!
//! ```text
//! @@ arrays/image.npy @@
//! -<f4 (50, 60) md5 9a0364b9e99bb480dd25e1f0284c8555
//! +<f4 (50, 60) md5 5d41402abc4b2a76b9719d911017c592
//!  2 of 3000 elements differ, by at most 0.5; the first at [3, 4]: 0.75 → 1.25
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asdf_access::local::stat::FileKind;
use asdf_file::array::numbers::{bits, integer};
use asdf_file::array::{self, ByteOrder, Scalar, ScalarKind, float16, literal};
use seekable::content::{Content, checksum, read_exact_at, short_number};
use seekable::error::{Error, Result, one_line};

use super::copy::{self, CopyTarget, Failure};
use super::{Look, again};
use crate::vfs::ReadHandle;

/// The tree, and the arrays.
const TREE: &str = "tree.yaml";
const ARRAYS: &str = "arrays";
/// The chunks of a trajectory; all other arrays of such a file are made from them.
const FRAMES: &str = "frames";
/// Bytes compared at once.
const PIECE: usize = 1 << 18;
/// Maximum number of arrays.
const MAX_ARRAYS: usize = 1 << 20;
/// An array longer than this, and this many times as long as the file that it is in, is not compared: it repeats few
/// elements, as an array with a stride of 0 does.
const MAX_REPEATED: u64 = 4 << 30;
const MAX_TIMES: u64 = 1024;
/// The length that is assumed of stored bytes whose places are not known, such as those of chunks.
const MAX_UNKNOWN: u64 = 16 << 30;
/// Maximum size of an array that is held in memory because its elements have another order, in bytes.
const MAX_REARRANGED: u64 = 256 << 20;

impl Look {
    /// Returns the text of the tree.
    ///
    /// # Errors
    /// The tree can't be read.
    pub(crate) fn tree_text(&self) -> Result<Vec<u8>> {
        let mut text = InMemory(Vec::new());
        let reader = self.file_at(Path::new(TREE))?;
        copy::all(&reader, copy::Range::ALL, &mut text).map_err(|failure| match failure {
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

    /// Compares the arrays of two files. `show` gets a hunk of a diff for each array that differs: type, shape and
    /// checksum of both, and how many elements differ. `failed` gets the errors of arrays that can't be read. Returns
    /// true if any array differs.
    ///
    /// # Errors
    /// The arrays can't be found, or `show` fails.
    pub(crate) fn compare_arrays(
        &self,
        other: &Self,
        show: &mut dyn FnMut(&str) -> Result<()>,
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
            let open = |look: &Self| {
                let array = ArrayFile::open(look.file_at(&path)?)?;
                array.check_len()?;
                Ok(array)
            };
            let hunk = match has {
                [true, false] => open(self).and_then(|array| Ok(format!("-{}\n", array.described()?))),
                [false, true] => open(other).and_then(|array| Ok(format!("+{}\n", array.described()?))),
                _ => open(self).and_then(|one| one.hunk(&open(other)?)),
            };
            match hunk {
                Ok(hunk) if hunk.is_empty() => {}
                Ok(hunk) => {
                    differ = true;
                    show(&format!("@@ {} @@\n{hunk}", one_line(&path.to_string_lossy())))?;
                }
                Err(error) => failed(&path, &error),
            }
        }
        Ok(differ)
    }
}

struct InMemory(Vec<u8>);

impl CopyTarget for InMemory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// An array that is read.
struct ArrayFile {
    reader: ReadHandle,
    /// The array; `None` for a text.
    array: Option<array::Array>,
    size: u64,
}

impl ArrayFile {
    fn open(reader: ReadHandle) -> Result<Self> {
        let content = reader.content()?;
        let array = array::Array::of(&*content).cloned();
        let size = array.as_ref().map_or(content.len(), |array| array.elements.len());
        Ok(Self { reader, array, size })
    }

    /// Fails if the array repeats few stored bytes so often that a comparison would hardly end.
    fn check_len(&self) -> Result<()> {
        let content = self.reader.content()?;
        let (ranges, size) = (content.ranges(), content.len());
        let len = |range: &Range<u64>| range.end.saturating_sub(range.start);
        let stored = ranges.iter().map(len).fold(0, u64::saturating_add);
        let stored = if ranges.is_empty() { MAX_UNKNOWN } else { stored };
        if size > MAX_REPEATED && size / MAX_TIMES > stored {
            return Err(Error::unsupported(format!(
                "the array of {size} bytes repeats {stored} stored ones, more than {MAX_TIMES} times; such arrays are not \
                 compared"
            )));
        }
        Ok(())
    }

    /// Returns the elements, or the bytes of a text.
    fn elements(&self) -> Result<Arc<dyn Content>> {
        let content = self.reader.content()?;
        let elements = array::Array::of(&*content).map(|array| array.elements.clone());
        Ok(elements.unwrap_or(content))
    }

    /// Returns the size of an element in bytes.
    fn item(&self) -> u64 {
        self.array.as_ref().map_or(1, |array| self.size / array.count().max(1)).max(1)
    }

    fn read(&self, element: u64, count: u64) -> Result<Vec<u8>> {
        let item = self.item();
        let offset = element * item;
        let len = (count * item).min(self.size - offset.min(self.size));
        let mut bytes =
            vec![0; usize::try_from(len).map_err(|_| Error::unsupported("the array is too large"))?];
        read_exact_at(&*self.elements()?, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns type, shape, and the checksum of the elements as they are in the file, without its header.
    fn described(&self) -> Result<String> {
        let what = match &self.array {
            Some(array) => {
                let descr = array.datatype.descr(array.byteorder);
                format!("{} {}", descr.trim_matches('\''), literal::tuple(&array.shape))
            }
            None => format!("{} bytes", self.size),
        };
        let checksum = checksum(&*self.elements()?, 0)?;
        Ok(one_line(&format!("{what} {checksum}")))
    }

    /// Returns the lines about two arrays that differ; nothing if they are equal.
    fn hunk(&self, other: &Self) -> Result<String> {
        let types =
            [self, other].map(|file| file.array.as_ref().map(|array| (&array.datatype, array.byteorder)));
        let is_same_type = types[0] == types[1];
        let is_comparable = match (&self.array, &other.array) {
            (Some(one), Some(two)) => {
                let are_numbers = || number_of(one).is_some() && number_of(two).is_some();
                one.shape == two.shape && (is_same_type || are_numbers())
            }
            // A text, such as a chunk of a trajectory.
            (None, None) => true,
            _ => false,
        };
        let mut words = None;
        if is_comparable {
            let found = self.count_differences(other)?;
            if found.count > 0 {
                words = Some(found.in_words(self));
            } else if found.has_other_bytes || !is_same_type {
                words = Some("all elements are equal as numbers".to_owned());
            } else {
                return Ok(String::new());
            }
        }
        let mut hunk = format!("-{}\n+{}\n", self.described()?, other.described()?);
        if let Some(words) = words {
            hunk += &format!(" {}\n", one_line(&words));
        }
        Ok(hunk)
    }

    /// Compares the elements. The arrays have the same shape.
    fn count_differences(&self, other: &Self) -> Result<Differences> {
        let (item, other_item) = (self.item(), other.item());
        let (count, other_count) = (self.size / item, other.size / other_item);
        let number = |file: &Self| file.array.as_ref().and_then(number_of);
        let numbers = number(self).zip(number(other));
        let mut found = Differences { count: count.abs_diff(other_count), ..Differences::default() };
        let common = count.min(other_count);
        let step = (PIECE as u64 / item.max(other_item)).max(1);
        let rearranged = self.in_other_order(other)?;
        let mut at = 0;
        while at < common {
            let wanted = step.min(common - at);
            let one = self.read(at, wanted)?;
            let two = match &rearranged {
                Some(order) => order.read(at, wanted),
                None => other.read(at, wanted)?,
            };
            if one != two || item != other_item || numbers.is_some_and(|(own, others)| own != others) {
                found.has_other_bytes |= one != two;
                let pairs = one.chunks_exact(item as usize).zip(two.chunks_exact(other_item as usize));
                for (n, (own, others)) in pairs.enumerate() {
                    found.add(at + n as u64, own, others, numbers);
                }
            }
            at += wanted;
        }
        Ok(found)
    }

    /// Returns the elements of `other` for the order of this array; `None` if both have the same order.
    fn in_other_order<'a>(&'a self, other: &'a Self) -> Result<Option<Rearranged<'a>>> {
        let (Some(from), Some(to)) = (&self.array, &other.array) else { return Ok(None) };
        if from.fortran_order == to.fortran_order || from.shape.len() < 2 {
            return Ok(None);
        }
        if other.size > MAX_REARRANGED {
            return Err(Error::unsupported(
                "the order of the elements (C or Fortran) differs; arrays of more than 256 MiB are not compared then",
            ));
        }
        let bytes = other.read(0, to.count())?;
        Ok(Some(Rearranged { from, to, bytes, item: other.item() as usize }))
    }
}

/// The elements of an array in memory, by the positions of another one with the other order.
struct Rearranged<'a> {
    from: &'a array::Array,
    to: &'a array::Array,
    bytes: Vec<u8>,
    item: usize,
}

impl Rearranged<'_> {
    /// Returns `count` elements from position `start` on.
    fn read(&self, start: u64, count: u64) -> Vec<u8> {
        let mut read = Vec::new();
        for position in start..start + count {
            let position = self.to.position_of(&self.from.index_of(position)) as usize * self.item;
            read.extend_from_slice(self.bytes.get(position..position + self.item).unwrap_or_default());
        }
        read
    }
}

/// The type of a number.
type Number = (Scalar, ByteOrder);

/// Returns the type of the elements if they are numbers.
fn number_of(array: &array::Array) -> Option<Number> {
    let is_number = |scalar: &Scalar| !matches!(scalar.kind(), ScalarKind::Ascii | ScalarKind::Ucs4);
    array.datatype.scalar().filter(is_number).map(|scalar| (scalar, array.byteorder))
}

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
    /// True if the bytes of some elements differ, as do those of 0 and -0.
    has_other_bytes: bool,
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

    /// Returns how many elements of `array` differ, and how much.
    fn in_words(&self, array: &ArrayFile) -> String {
        let (all, what) = match &array.array {
            Some(array) => (array.count(), "elements"),
            None => (array.size, "bytes"),
        };
        let verb = if self.count == 1 { "differs" } else { "differ" };
        let mut text = format!("{} of {all} {what} {verb}", self.count);
        if let Some(greatest) = self.greatest {
            let is_whole = greatest.fract() == 0.0 && greatest < 1e15;
            let greatest = if is_whole { greatest.to_string() } else { short_number(greatest) };
            text += &format!(", by at most {greatest}");
        }
        if self.nans > 0 {
            text += &format!(", {} NaN in one file only", self.nans);
        }
        if let Some((at, values)) = &self.first {
            let index = array.array.as_ref().map_or_else(|| vec![*at], |array| array.index_of(*at));
            let index: Vec<String> = index.iter().map(u64::to_string).collect();
            text += &format!("; the first at [{}]{values}", index.join(", "));
        }
        text
    }
}

/// A number of an array.
#[derive(Clone, Copy, Debug)]
enum Value {
    Integer(i128),
    Float(f64),
    /// A number that is shown as one of single precision, so with as few digits as it has there.
    Single(f32),
    Complex(f64, f64),
}

impl Value {
    fn of(bytes: &[u8], (scalar, byteorder): Number) -> Self {
        let bits = || bits(bytes, byteorder);
        match scalar {
            Scalar::Float16 => Self::Float(float16(bits() as u16).into()),
            Scalar::Float32 => Self::Single(f32::from_bits(bits() as u32)),
            Scalar::Float64 => Self::Float(f64::from_bits(bits())),
            Scalar::Complex64 | Scalar::Complex128 => {
                let of_part = if scalar == Scalar::Complex64 { Scalar::Float32 } else { Scalar::Float64 };
                let (real, imaginary) = bytes.split_at_checked(bytes.len() / 2).unwrap_or_default();
                let part = |bytes| Self::of(bytes, (of_part, byteorder)).float();
                Self::Complex(part(real), part(imaginary))
            }
            // The bytes of a boolean are compared as they are.
            _ => Self::Integer(integer(scalar, byteorder, bytes).unwrap_or_else(|| bits().into())),
        }
    }

    /// Returns the absolute difference; `None` if the numbers are equal, NaN if one of them is NaN.
    fn difference(self, other: Self) -> Option<f64> {
        if let (Self::Integer(one), Self::Integer(two)) = (self, other) {
            return (one != two).then(|| (one - two).unsigned_abs() as f64);
        }
        let is_same = |one: f64, two: f64| one == two || one.is_nan() && two.is_nan();
        let (real, imaginary) = self.parts();
        let (other_real, other_imaginary) = other.parts();
        if is_same(real, other_real) && is_same(imaginary, other_imaginary) {
            return None;
        }
        let difference = |one: f64, two: f64| if is_same(one, two) { 0.0 } else { one - two };
        let across = difference(real, other_real);
        let up = difference(imaginary, other_imaginary);
        // The square of a real difference may overflow.
        Some(if up == 0.0 { across.abs() } else { (across * across + up * up).sqrt() })
    }

    fn parts(self) -> (f64, f64) {
        match self {
            Self::Complex(real, imaginary) => (real, imaginary),
            other => (other.float(), 0.0),
        }
    }

    fn float(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) | Self::Complex(value, _) => value,
            Self::Single(value) => value.into(),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(out),
            Self::Float(value) => value.fmt(out),
            Self::Single(value) => value.fmt(out),
            Self::Complex(real, imaginary) => write!(out, "{real}{imaginary:+}j"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use asdf_file::array::ByteOrder::{Big, Little};
    use asdf_file::array::Datatype;
    use seekable::content::Text;

    #[test]
    fn a_type_is_a_number_or_another_one() {
        let number_of = |datatype: Datatype| {
            let elements = Arc::new(Text::default());
            number_of(&array::Array {
                datatype,
                byteorder: Big,
                fortran_order: false,
                shape: Vec::new(),
                elements,
            })
        };
        assert_eq!(number_of(Datatype::Scalar(Scalar::Int16)), Some((Scalar::Int16, Big)));
        for other in [
            Datatype::Other("<f16".to_owned()),
            Datatype::Scalar(Scalar::Ascii(5)),
            Datatype::Record(Vec::new()),
        ] {
            assert_eq!(number_of(other.clone()), None, "{other}");
        }
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        let value = |bytes: &[u8], kind, byteorder| {
            let scalar = Scalar::number(kind, bytes.len() as u64).unwrap();
            Value::of(bytes, (scalar, byteorder))
        };
        let (int, uint) = (ScalarKind::Int, ScalarKind::Uint);
        assert_eq!(value(&[255, 255], int, Little).difference(value(&[1], int, Little)), Some(2.0));
        assert_eq!(value(&[255], uint, Little).difference(value(&[255, 0], uint, Little)), None);
        assert_eq!(value(&[0, 1], uint, Big).difference(value(&[1], uint, Little)), None);
        let nan = value(&f32::NAN.to_le_bytes(), ScalarKind::Float, Little);
        assert!(nan.difference(nan).is_none() && nan.difference(Value::Integer(1)).is_some_and(f64::is_nan));
        let complex =
            |bytes: [f32; 2]| value(&bytes.map(f32::to_le_bytes).concat(), ScalarKind::Complex, Little);
        assert_eq!(complex([1.0, 2.0]).difference(complex([4.0, 6.0])), Some(5.0));
        assert_eq!(complex([1.0, 2.0]).difference(complex([1.0, 2.0])), None);
        assert_eq!(complex([1.0, -2.0]).to_string(), "1-2j");
        // An element that is shorter than its type says.
        assert_eq!(Value::of(&[], (Scalar::Complex128, Little)).to_string(), "0+0j");
        let infinity = Value::Float(f64::INFINITY);
        assert!(infinity.difference(infinity).is_none());
    }
}
