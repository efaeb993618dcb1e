//! The data of an HDU as an array: an image, or the rows of a binary table.

use std::ops::Range;
use std::sync::Arc;

use seekable::error::Result;

use seekable::content::Content;

use super::super::ndarray::{Datatype, Field, Number, Scalar};
use super::header::Header;
use crate::array::{Conversion, Recoded, ScalarKind};

/// The `XTENSION` of an ASDF file that asdf 2.0 wrote.
pub(super) const ASDF: &str = "ASDF";
/// Maximum number of columns, which the standard sets.
const MAX_COLUMNS: u64 = 999;
/// Maximum length of an item of a table's column in bytes.
const MAX_ITEM: u64 = 1 << 30;

/// The array in an HDU: big-endian, in C order.
#[derive(Debug)]
pub struct HduArray {
    pub dimensions: Vec<u64>,
    pub datatype: Datatype,
    /// The units of a table's columns.
    pub units: Vec<Option<String>>,
    /// The numbers that mean no value: of an image whose integers are not made floats, or of each column of a table.
    pub nulls: Vec<Option<Number>>,
    /// True if the stored bytes are those of the array.
    is_stored: bool,
    /// The names of the columns that are left out.
    pub left_out: Vec<String>,
    /// The stored bytes.
    pub(super) place: u64,
    pub(super) stored_len: u64,
    /// The conversions of the parts of an element or row.
    parts: Vec<(Conversion, usize)>,
}

/// A result, or the reason why data are not shown.
type OrReason<T> = std::result::Result<T, String>;

impl HduArray {
    /// Reads the description of the data in a header; `None` if there are no data.
    pub(super) fn of(header: &Header, data: &Range<u64>) -> OrReason<Option<Self>> {
        let kind = header.text("XTENSION").unwrap_or_default();
        match kind.as_str() {
            "BINTABLE" | "A3DTABLE" if header.is_true("ZIMAGE") || header.is_true("ZTABLE") => {
                Err("its data are compressed within FITS (ZIMAGE, ZTABLE); decompress them first: funpack"
                    .into())
            }
            "BINTABLE" | "A3DTABLE" => table(header, data).map(Some),
            "" | "IMAGE" | "IUEIMAGE" if header.is_true("GROUPS") => Err("it has random groups".into()),
            "" | "IMAGE" | "IUEIMAGE" if header.count("NAXIS") == Some(0) => Ok(None),
            // asdf 2.0 wrote its file as an extension of a type of its own, of bytes.
            "" | "IMAGE" | "IUEIMAGE" | ASDF => image(header, data).map(Some),
            kind => Err(format!("it is of the type \"{}\"", kind.escape_debug())),
        }
    }

    /// Returns the array's elements.
    pub(super) fn decoded(&self, stored: Arc<dyn Content>) -> Result<Arc<dyn Content>> {
        Recoded::records(stored, self.parts.clone())
    }

    /// Returns the position of the elements in the file, and their length; `None` if they are converted.
    pub fn place_of_elements(&self) -> Option<(u64, u64)> {
        self.is_stored.then_some((self.place, self.stored_len))
    }

    /// Returns the length of the data if they are nothing but bytes: an image of bytes, or a table with one row of
    /// bytes.
    pub(super) fn len_of_bytes(&self) -> Option<u64> {
        match &self.datatype {
            Datatype::Scalar(Scalar::Uint8) if self.is_stored => Some(self.stored_len),
            Datatype::Structured(fields) if self.dimensions == [1] && self.is_stored => match &fields[..] {
                [Field { datatype: Datatype::Scalar(Scalar::Uint8), .. }] => Some(self.stored_len),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A number as it is stored, and as it is shown.
struct ShownNumber {
    scalar: Scalar,
    change: Conversion,
    /// The number that is shown for no value. It is NaN if the stored integers become floats.
    null: Option<Number>,
}

/// Returns the type of a stored number, as an image's `BITPIX` or a column's letter gives it, and its conversion. `null` is
/// the integer that is stored for no value (`BLANK`, `TNULL`).
fn number(
    width: usize,
    is_float: bool,
    scale: f64,
    zero: f64,
    is_image: bool,
    null: Option<i64>,
) -> Option<ShownNumber> {
    let kind = match (width, is_float) {
        (1, false) => ScalarKind::Uint,
        (_, false) => ScalarKind::Int,
        (4 | 8, true) => ScalarKind::Float,
        _ => return None,
    };
    let stored = Scalar::number(kind, width as u64)?;
    let null = null.filter(|_| !is_float);
    // astropy shows integers of an image with `BLANK` as floats, with NaN for this number.
    if (scale, zero) == (1.0, 0.0) && !(is_image && null.is_some()) {
        let null = null.map(|null| Number::Int(null.into()));
        return Some(ShownNumber { scalar: stored, change: Conversion::None(width), null });
    }
    // By this offset, FITS stores numbers with a sign as those without, and the other way round.
    let (other, offset) = match width {
        1 => (ScalarKind::Int, -128.0),
        _ => (ScalarKind::Uint, 2.0_f64.powi(8 * width as i32 - 1)),
    };
    if let Some(scalar) = Scalar::number(other, width as u64)
        && !is_float
        && (scale, zero) == (1.0, offset)
    {
        let change = Conversion::Number { width, reverse: false, flip: true };
        let null = null.map(|null| Number::Int(i128::from(null) + offset as i128));
        return Some(ShownNumber { scalar, change, null });
    }
    // astropy scales images of short numbers to float32.
    let is_short = is_image && (width <= 2 || stored == Scalar::Float32);
    let change =
        Conversion::Scaled { width, is_float, is_short, scale: scale.to_bits(), zero: zero.to_bits(), null };
    let scalar = if is_short { Scalar::Float32 } else { Scalar::Float64 };
    Some(ShownNumber { scalar, change, null: null.map(|_| Number::Float(f64::NAN)) })
}

fn image(header: &Header, data: &Range<u64>) -> OrReason<HduArray> {
    let bits = header.integer("BITPIX").unwrap_or_default();
    let width = (bits.unsigned_abs() / 8) as usize;
    let scale = header.float("BSCALE").unwrap_or(1.0);
    let zero = header.float("BZERO").unwrap_or(0.0);
    let blank = header.integer("BLANK");
    let ShownNumber { scalar, change, null } =
        number(width, bits < 0, scale, zero, true, blank).ok_or("its type is not known")?;
    let axes = header.count("NAXIS").unwrap_or_default();
    let dimensions: Option<Vec<u64>> = (1..=axes).rev().map(|n| header.count(&format!("NAXIS{n}"))).collect();
    let dimensions = dimensions.ok_or("an axis has no length")?;
    let stored_len = dimensions.iter().try_fold(width as u64, |len, axis| len.checked_mul(*axis));
    let stored_len = stored_len.filter(|len| *len <= data.end - data.start).ok_or("it is too large")?;
    Ok(HduArray {
        dimensions,
        datatype: Datatype::Scalar(scalar),
        units: Vec::new(),
        nulls: vec![null.filter(|null| matches!(null, Number::Int(_)))],
        is_stored: matches!(change, Conversion::None(_)),
        left_out: Vec::new(),
        place: data.start,
        stored_len,
        parts: vec![(change, 1)],
    })
}

/// A column of a binary table.
struct Column {
    field: Option<Field>,
    null: Option<Number>,
    parts: (Conversion, usize),
    len: u64,
}

fn table(header: &Header, data: &Range<u64>) -> OrReason<HduArray> {
    let row = header.count("NAXIS1").filter(|_| header.count("NAXIS") == Some(2)).ok_or("it has no rows")?;
    let rows = header.count("NAXIS2").ok_or("it has no rows")?;
    let count = header.count("TFIELDS").filter(|count| *count <= MAX_COLUMNS).ok_or("it has no columns")?;
    let stored_len =
        row.checked_mul(rows).filter(|len| *len <= data.end - data.start).ok_or("it is too large")?;
    let mut fields = Vec::new();
    let mut units = Vec::new();
    let mut nulls = Vec::new();
    let mut left_out = Vec::new();
    let mut parts = Vec::new();
    let mut len = 0_u64;
    for n in 1..=count {
        let name = header.text(&format!("TTYPE{n}")).unwrap_or_default();
        let name = if name.is_empty() { format!("col{n}") } else { name };
        let column = column(header, n)
            .ok_or_else(|| format!("its column \"{}\" is not known", name.escape_debug()))?;
        len = len.checked_add(column.len).ok_or("its rows are too long")?;
        parts.push(column.parts);
        match column.field {
            Some(field) => {
                fields.push(Field { name, ..field });
                units.push(header.text(&format!("TUNIT{n}")).filter(|unit| !unit.is_empty()));
                nulls.push(column.null);
            }
            None => left_out.push(name),
        }
    }
    let rest = row.checked_sub(len).ok_or("its columns are longer than its rows")?;
    if rest > 0 {
        parts.push((Conversion::Skip(rest as usize), 1));
    }
    if fields.is_empty() || row == 0 {
        return Err("it has no columns that can be shown".to_owned());
    }
    // Fields with equal names would hide each other in numpy.
    let mut names = std::collections::HashSet::new();
    for (n, field) in fields.iter_mut().enumerate() {
        if !names.insert(field.name.clone()) {
            field.name = format!("{}~{n}", field.name);
        }
    }
    Ok(HduArray {
        dimensions: vec![rows],
        datatype: Datatype::Structured(fields),
        units,
        nulls,
        is_stored: parts.iter().all(|(change, _)| matches!(change, Conversion::None(_))),
        left_out,
        place: data.start,
        stored_len,
        parts,
    })
}

/// Reads the description of column `n`, from 1. It has no field if it is of variable length or empty.
fn column(header: &Header, n: u64) -> Option<Column> {
    let form = header.text(&format!("TFORM{n}"))?;
    let form = form.trim();
    let digits = form.len() - form.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let repeat: u64 = if digits == 0 { 1 } else { form[..digits].parse().ok()? };
    let letter = form[digits..].chars().next()?;
    let scale = header.float(&format!("TSCAL{n}")).unwrap_or(1.0);
    let zero = header.float(&format!("TZERO{n}")).unwrap_or(0.0);
    let of = |scalar: Scalar, change: Conversion| ShownNumber { scalar, change, null: None };
    let null = header.integer(&format!("TNULL{n}")).filter(|_| letter != 'X');
    let numbers = |width, is_float| number(width, is_float, scale, zero, false, null);
    let ShownNumber { scalar, change, null } = match letter {
        'L' => of(Scalar::Bool8, Conversion::Truth),
        'X' | 'B' => numbers(1, false)?,
        'I' => numbers(2, false)?,
        'J' => numbers(4, false)?,
        'K' => numbers(8, false)?,
        'E' => numbers(4, true)?,
        'D' => numbers(8, true)?,
        'C' => of(Scalar::Complex64, Conversion::None(8)),
        'M' => of(Scalar::Complex128, Conversion::None(16)),
        'A' => of(Scalar::Ascii(repeat), Conversion::None(1)),
        'P' | 'Q' => {
            let len = repeat.min(1) * if letter == 'P' { 8 } else { 16 };
            return Some(Column { field: None, null: None, parts: (Conversion::Skip(len as usize), 1), len });
        }
        _ => return None,
    };
    let count = if letter == 'X' { repeat.div_ceil(8) } else { repeat };
    let width = change.before() as u64;
    let len = count.checked_mul(width).filter(|len| *len <= MAX_ITEM)?;
    let parts = (change, count as usize);
    if count == 0 {
        return Some(Column { field: None, null: None, parts, len });
    }
    let shape = shape_of(header, n, count);
    let (scalar, shape) = match scalar {
        // The first axis of an array of texts is their length.
        Scalar::Ascii(_) => match shape.split_last() {
            Some((last, above)) if *last > 0 => (Scalar::Ascii(*last), above.to_vec()),
            _ => (scalar, Vec::new()),
        },
        scalar if shape.is_empty() && count != 1 => (scalar, vec![count]),
        scalar => (scalar, shape),
    };
    let field = Field { name: String::new(), datatype: Datatype::Scalar(scalar), byteorder: None, shape };
    Some(Column { field: Some(field), null, parts, len })
}

/// Returns the shape of a column's items, as `TDIM` gives it; empty if it does not fit.
fn shape_of(header: &Header, n: u64, count: u64) -> Vec<u64> {
    let Some(text) = header.text(&format!("TDIM{n}")) else { return Vec::new() };
    let inner = text.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or_default();
    let shape: Option<Vec<u64>> = inner.split(',').rev().map(|len| len.trim().parse().ok()).collect();
    let Some(shape) = shape.filter(|shape| shape.len() <= 32) else { return Vec::new() };
    let product = shape.iter().try_fold(1_u64, |product, len| product.checked_mul(*len));
    if product == Some(count) { shape } else { Vec::new() }
}
