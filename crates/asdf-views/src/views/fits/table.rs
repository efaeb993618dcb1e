//! A table as the data of a `BINTABLE`: consecutive rows, each with one field per column.

use std::sync::Arc;

use asdf_file::array::{Conversion, Gather, Interleaved, Recoded};
use asdf_file::asdf::arrays::elements::Elements;
use asdf_file::asdf::arrays::{ArrayPart, Masked, MaskedBy};
use asdf_file::asdf::ndarray::{ByteOrder, Datatype, Mask, Ndarray, Number, Scalar};
use asdf_tree::yaml::survey::TreeNode;
use seekable::content::Content;
use seekable::error::{Error, Result};

use super::blank::{self, Null};
use super::required::{Must, Reading};
use super::{card, image};

/// Maximum length of a vector, or of the rows of a matrix, in a column.
const MAX_VECTOR: u64 = 4;
/// Maximum number of columns in FITS.
const MAX_COLUMNS: usize = 999;

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    rows: u64,
    columns: Vec<Form>,
    source: RowSource,
    /// The masks of columns, each with the number of its column.
    masks: Vec<(usize, Masked)>,
}

/// The arrays that hold the rows.
#[derive(Debug)]
enum RowSource {
    /// One array for each column.
    Columns(Vec<Ndarray>),
    /// One structured array, and its mask.
    Records(Box<Ndarray>, Option<Box<Masked>>),
}

/// The type and shape of a field of a row.
#[derive(Clone, Debug)]
struct Form {
    /// The name in FITS.
    name: String,
    scalar: Scalar,
    /// The byte order, if it is a field of a structured array.
    byteorder: Option<ByteOrder>,
    /// The dimensions of the field, the outermost first.
    shape: Vec<u64>,
    /// The unit in FITS notation.
    unit: Option<String>,
    /// The integer that means a masked value.
    null: Option<i128>,
    /// True if an unused integer means a masked value.
    has_unused: bool,
}

/// The size of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableSize {
    /// The length of a row in bytes.
    pub(super) row: u64,
    /// The number of rows.
    pub(super) rows: u64,
    /// The number of columns.
    pub(super) columns: usize,
}

/// The data of a table.
#[derive(Debug)]
pub(super) struct TableData {
    pub(super) rows: Arc<dyn Content>,
    /// The integers of masked elements, with their keywords.
    pub(super) nulls: Vec<(String, Null)>,
}

/// A column in FITS representation, and the length of its fields in bytes.
type ColumnData = (Arc<dyn Content>, u64);

/// A column with an array of its own.
#[derive(Debug)]
pub(super) struct ArrayColumn {
    rows: u64,
    form: Form,
    array: Ndarray,
    masked: Option<Masked>,
}

impl ArrayColumn {
    pub(super) fn name(&self) -> &str {
        &self.form.name
    }

    pub(super) fn array(&self) -> &Ndarray {
        &self.array
    }

    /// True if a row is a single value.
    pub(super) fn is_line(&self) -> bool {
        self.form.shape.is_empty()
    }

    /// True if the column may be an image: a row is longer than a vector.
    pub(super) fn has_images(&self) -> bool {
        self.shape().iter().any(|len| *len > MAX_VECTOR) && image::can_be(&self.array)
    }

    /// Returns the dimensions of a row.
    pub(super) fn shape(&self) -> &[u64] {
        &self.form.shape
    }

    /// `by` is the rule for masked elements, if they are not those that equal a number.
    pub(super) fn new(
        name: &str,
        unit: Option<String>,
        array: Ndarray,
        by: Option<MaskedBy>,
    ) -> Reading<Self> {
        let scalar = match array.datatype {
            Some(Datatype::Scalar(scalar)) => scalar,
            _ => return Err("a column has no datatype, or one with fields".to_owned()),
        };
        let dimensions = dimensions(&array).ok_or("a column has no shape, or one that is not fixed")?;
        let (rows, shape) = dimensions.split_first().ok_or("a column has no rows")?;
        let null = null_of(scalar, &array);
        let by = by.or(match array.mask {
            Mask::Value(_, Some(number)) if null.is_none() => Some(MaskedBy::Number(number)),
            _ => None,
        });
        let is_number = !matches!(scalar, Scalar::Ascii(_) | Scalar::Ucs4(_));
        let by = by.filter(|by| is_number || by.number().is_none());
        let name = card::name(name);
        let shape = shape.to_vec();
        let has_unused = by.is_some() && has_null(scalar);
        let form = Form { name, scalar, byteorder: None, shape, unit, null, has_unused };
        form.check()?;
        let masked = by.map(|by| Masked { of: Arc::new(array.clone()), by });
        Ok(Self { rows: *rows, form, array, masked })
    }
}

/// Returns the number that masks the elements equal to it; `None` if FITS can't express it. FITS has null
/// values only for integers, and astropy misreads the null values of integer types with an offset.
fn null_of(scalar: Scalar, array: &Ndarray) -> Option<i128> {
    let (Mask::Value(_, Some(Number::Int(value))), true) = (array.mask, image::is_integer(scalar)) else {
        return None;
    };
    let (least, greatest) = scalar.range()?;
    (least..=greatest).contains(&value).then_some(value)
}

/// Returns the dimensions of an array; `None` if the tree does not state them or the array is streamed.
fn dimensions(array: &Ndarray) -> Option<Vec<u64>> {
    array.shape.as_ref().filter(|shape| !shape.streamed).map(|shape| shape.dimensions.clone())
}

impl Table {
    /// Reads a table of the ASDF standard or of asdf-astropy.
    pub(super) fn read(node: &TreeNode) -> Reading<Self> {
        let columns = node
            .get("columns")
            .and_then(TreeNode::items)
            .ok_or("its data are neither an array nor a table")?;
        let names = node.get("colnames").and_then(TreeNode::items).unwrap_or_default();
        let name = |n| names.get(n).and_then(TreeNode::text);
        let columns = columns.iter().enumerate().map(|(n, column)| ArrayColumn::read(column, name(n)));
        let columns: Reading<Vec<Vec<ArrayColumn>>> = columns.collect();
        Self::of_columns(columns?.into_iter().flatten().collect())
    }

    /// Makes a table of columns, which must have the same number of rows.
    pub(super) fn of_columns(columns: Vec<ArrayColumn>) -> Reading<Self> {
        let rows = columns.first().map_or(0, |column| column.rows);
        if columns.iter().any(|column| column.rows != rows) {
            return Err("the columns of its table differ in length".to_owned());
        }
        let mut forms = Vec::with_capacity(columns.len());
        let mut arrays = Vec::with_capacity(columns.len());
        let mut masks = Vec::new();
        for (n, column) in columns.into_iter().enumerate() {
            forms.push(column.form);
            arrays.push(column.array);
            masks.extend(column.masked.map(|masked| (n, masked)));
        }
        Self::new(rows, forms, RowSource::Columns(arrays), masks)
    }

    /// Describes a structured array as a table. `by` is the array that masks elements or their fields.
    pub(super) fn of_records(array: Ndarray, by: Option<MaskedBy>) -> Reading<Self> {
        let dimensions = dimensions(&array).ok_or("the shape of its table is not fixed")?;
        let [rows] = dimensions[..] else { return Err("its table has more than one dimension".to_owned()) };
        let Some(Datatype::Structured(fields)) = &array.datatype else {
            return Err("its data have no fields".to_owned());
        };
        let mut columns = Vec::with_capacity(fields.len());
        for (n, field) in fields.iter().enumerate() {
            let Datatype::Scalar(scalar) = field.datatype else {
                return Err("a column of its table has nested fields".to_owned());
            };
            let name = card::name(&field.name_at(n));
            let byteorder = field.byteorder;
            let shape = field.shape.clone();
            let has_unused = by.is_some() && has_null(scalar);
            let form = Form { name, scalar, byteorder, shape, unit: None, null: None, has_unused };
            form.check()?;
            columns.push(form);
        }
        let masked = by.map(|by| Box::new(Masked { of: Arc::new(array.clone()), by }));
        Self::new(rows, columns, RowSource::Records(Box::new(array), masked), Vec::new())
    }

    fn new(rows: u64, columns: Vec<Form>, source: RowSource, masks: Vec<(usize, Masked)>) -> Reading<Self> {
        if columns.len() > MAX_COLUMNS {
            return Err(format!("its table has more than {MAX_COLUMNS} columns"));
        }
        let table = Self { rows, columns, source, masks };
        table.row().filter(|row| row.checked_mul(rows).is_some()).ok_or("its table is too large")?;
        Ok(table)
    }

    /// Returns the arrays that hold the rows.
    pub(super) fn arrays(&self) -> Vec<&Ndarray> {
        match &self.source {
            RowSource::Columns(arrays) => arrays.iter().collect(),
            RowSource::Records(array, _) => vec![array],
        }
    }

    /// Returns the arrays that hold the rows, and the masks after them.
    pub(super) fn parts(&self) -> Vec<ArrayPart<'_>> {
        let mut parts: Vec<_> = self.arrays().into_iter().map(ArrayPart::Elements).collect();
        parts.extend(self.masks.iter().map(|(_, masked)| ArrayPart::Mask(masked)));
        if let RowSource::Records(_, Some(masked)) = &self.source {
            parts.push(ArrayPart::Mask(masked));
        }
        parts
    }

    /// Returns the length of a row, in bytes.
    fn row(&self) -> Option<u64> {
        self.columns.iter().try_fold(0_u64, |sum, form| sum.checked_add(form.width()?))
    }

    /// Returns the size of the table.
    pub(super) fn size(&self) -> TableSize {
        TableSize { row: self.row().unwrap_or(0), rows: self.rows, columns: self.columns.len() }
    }

    /// Returns the cards that describe the columns.
    pub(super) fn cards(&self) -> Vec<(String, Must)> {
        let mut cards = Vec::new();
        for (n, form) in (1..).zip(&self.columns) {
            if !form.name.is_empty() {
                cards.push((format!("TTYPE{n}"), Must::Text(form.name.clone())));
            }
            cards.push((format!("TFORM{n}"), Must::Form(form.form())));
            if let Some(unit) = &form.unit {
                cards.push((format!("TUNIT{n}"), Must::Default(unit.clone())));
            }
            // A placeholder for an integer that is searched later.
            if let Some(null) = form.null.or(form.has_unused.then_some(0)) {
                cards.push((format!("TNULL{n}"), Must::Int(null)));
            }
            let dimensions =
                form.dimensions().map_or(Must::Dimensions(form.count().unwrap_or(0)), Must::Form);
            cards.push((format!("TDIM{n}"), dimensions));
            if let Some(zero) = image::stored(form.scalar).and_then(|stored| stored.zero) {
                cards.push((format!("TZERO{n}"), Must::Int(zero)));
            }
        }
        cards
    }

    /// Returns the rows in FITS representation, from the elements of the table's parts.
    pub(super) fn data(&self, parts: &[Elements]) -> Result<TableData> {
        let mut nulls = Vec::new();
        let data: Arc<dyn Content> = match (&self.source, parts) {
            (RowSource::Records(..), [elements]) => {
                let elements = elements.clone().in_c_order()?;
                let record_parts =
                    self.columns.iter().map(|form| form.part(form.byteorder.unwrap_or(elements.byteorder)));
                Recoded::records(elements.content, record_parts.collect::<Result<_>>()?)?
            }
            (RowSource::Records(..), [elements, mask]) => {
                let columns = self.fields(elements.clone().in_c_order()?)?;
                self.interleaved(columns, self.masks_of_fields(mask.clone().in_c_order()?)?, &mut nulls)?
            }
            (RowSource::Records(..), _) => return Err(Elements::unknown_type()),
            (RowSource::Columns(arrays), parts) => {
                let (all, masks) = parts.split_at_checked(arrays.len()).ok_or_else(Elements::unknown_type)?;
                let mut columns = Vec::with_capacity(all.len());
                for (form, elements) in self.columns.iter().zip(all) {
                    let elements = elements.clone().in_c_order()?;
                    let content = Recoded::elements(elements.content, form.part(elements.byteorder)?.0)?;
                    columns.push((content, form.width().ok_or_else(Elements::unknown_type)?));
                }
                let mut of_columns = Vec::with_capacity(masks.len());
                for ((n, _), mask) in self.masks.iter().zip(masks) {
                    of_columns.push((*n, mask.clone().in_c_order()?.content));
                }
                self.interleaved(columns, of_columns, &mut nulls)?
            }
        };
        let TableSize { row, rows, .. } = self.size();
        if row.checked_mul(rows) == Some(data.len()) {
            Ok(TableData { rows: data, nulls })
        } else {
            Err(Error::damaged("the columns have another length than their table"))
        }
    }

    /// Returns rows of columns whose masked values are replaced. `masks` are those of the columns with these numbers.
    fn interleaved(
        &self,
        mut columns: Vec<ColumnData>,
        masks: Vec<(usize, Arc<dyn Content>)>,
        nulls: &mut Vec<(String, Null)>,
    ) -> Result<Arc<dyn Content>> {
        for (n, mask) in masks {
            let (Some(form), Some((content, _))) = (self.columns.get(n), columns.get_mut(n)) else {
                continue;
            };
            let width = form.letter().0.checked_mul(form.characters());
            let width = width.ok_or_else(Elements::unknown_type)?;
            let (blanked, null) = blank::blanked(content.clone(), mask, form.scalar, width, true)?;
            *content = blanked;
            nulls.extend(null.map(|null| (format!("TNULL{}", n + 1), null)));
        }
        Ok(Arc::new(Interleaved::new(columns, self.rows)?))
    }

    /// Returns the fields of records as columns.
    fn fields(&self, records: Elements) -> Result<Vec<ColumnData>> {
        let record = records.datatype.size().and_then(|size| i64::try_from(size).ok());
        let record = record.ok_or_else(Elements::unknown_type)?;
        let mut start = 0_u64;
        let mut columns = Vec::with_capacity(self.columns.len());
        for form in &self.columns {
            let size = form.scalar.size().and_then(|size| size.checked_mul(form.values()?));
            let size = size.ok_or_else(Elements::unknown_type)?;
            let field = Gather::new(records.content.clone(), start, size, vec![(self.rows, record)])?;
            start = start.saturating_add(size);
            let change = form.part(form.byteorder.unwrap_or(records.byteorder))?.0;
            let content = Recoded::elements(Arc::new(field), change)?;
            columns.push((content, form.width().ok_or_else(Elements::unknown_type)?));
        }
        Ok(columns)
    }

    /// Returns the masks of the fields of records, a byte for each value, with the numbers of the fields. `mask` has a
    /// boolean for each record, or for each value of its fields.
    fn masks_of_fields(&self, mask: Elements) -> Result<Vec<(usize, Arc<dyn Content>)>> {
        let has_fields = matches!(mask.datatype, Datatype::Structured(_));
        let record = if has_fields { mask.datatype.size() } else { Some(1) };
        let record = record.and_then(|size| i64::try_from(size).ok()).ok_or_else(Elements::unknown_type)?;
        let mut start = 0_u64;
        let mut masks: Vec<(usize, Arc<dyn Content>)> = Vec::with_capacity(self.columns.len());
        for (n, form) in self.columns.iter().enumerate() {
            let values = form.values().ok_or_else(Elements::unknown_type)?;
            let dimensions = vec![(self.rows, record), (values, i64::from(has_fields))];
            masks.push((n, Arc::new(Gather::new(mask.content.clone(), start, 1, dimensions)?)));
            if has_fields {
                start = start.saturating_add(values);
            }
        }
        Ok(masks)
    }
}

/// True if masked values of a type are an integer in FITS.
fn has_null(scalar: Scalar) -> bool {
    scalar != Scalar::Bool8 && image::stored(scalar).is_some_and(|stored| stored.bitpix > 0)
}

impl Form {
    /// Returns an error if FITS can't store the column.
    fn check(&self) -> Reading<()> {
        self.width().map(|_| ()).ok_or_else(|| "a column of its table is too large".to_owned())
    }

    /// Returns the length of an element in FITS, in bytes, and the letter of its type.
    fn letter(&self) -> (u64, char) {
        match self.scalar {
            Scalar::Bool8 => (1, 'L'),
            Scalar::Int8 | Scalar::Uint8 => (1, 'B'),
            Scalar::Int16 | Scalar::Uint16 => (2, 'I'),
            Scalar::Int32 | Scalar::Uint32 => (4, 'J'),
            Scalar::Int64 | Scalar::Uint64 => (8, 'K'),
            Scalar::Float16 | Scalar::Float32 => (4, 'E'),
            Scalar::Float64 => (8, 'D'),
            Scalar::Complex64 => (8, 'C'),
            Scalar::Complex128 => (16, 'M'),
            Scalar::Ascii(_) | Scalar::Ucs4(_) => (1, 'A'),
        }
    }

    /// Returns the number of characters of a text element, 1 for other types.
    fn characters(&self) -> u64 {
        match self.scalar {
            Scalar::Ascii(len) | Scalar::Ucs4(len) => len,
            _ => 1,
        }
    }

    /// Returns the number of values of a field.
    fn values(&self) -> Option<u64> {
        self.shape.iter().try_fold(1_u64, |count, len| count.checked_mul(*len))
    }

    /// Returns the number of elements of a field, or of its characters.
    fn count(&self) -> Option<u64> {
        self.values()?.checked_mul(self.characters())
    }

    fn width(&self) -> Option<u64> {
        self.count()?.checked_mul(self.letter().0)
    }

    /// Returns the `TFORM`.
    fn form(&self) -> String {
        let letter = self.letter().1;
        match self.count().unwrap_or(0) {
            1 => letter.to_string(),
            count => format!("{count}{letter}"),
        }
    }

    /// Returns the `TDIM`, if one is needed.
    fn dimensions(&self) -> Option<String> {
        let is_text = matches!(self.scalar, Scalar::Ascii(_) | Scalar::Ucs4(_));
        let characters = is_text.then(|| self.characters());
        let axes: Vec<u64> = characters.into_iter().chain(self.shape.iter().rev().copied()).collect();
        let axes: Vec<String> = axes.iter().map(u64::to_string).collect();
        (axes.len() > 1).then(|| format!("({})", axes.join(",")))
    }

    /// Returns the conversion of an element, and the number of elements in a field.
    fn part(&self, byteorder: ByteOrder) -> Result<(Conversion, usize)> {
        let reverse = byteorder == ByteOrder::Little;
        let number = |width, reverse| Conversion::Number { width, reverse, flip: false };
        let (change, times) = match self.scalar {
            Scalar::Bool8 => (Conversion::Letter, 1),
            Scalar::Ascii(_) => (Conversion::None(1), 1),
            Scalar::Ucs4(_) => (Conversion::Ascii { reverse }, 1),
            Scalar::Complex64 => (number(4, reverse), 2),
            Scalar::Complex128 => (number(8, reverse), 2),
            scalar => {
                let stored = image::stored(scalar).ok_or_else(Elements::unknown_type)?;
                (stored.change(scalar, byteorder), 1)
            }
        };
        let count = self.count().and_then(|count| usize::try_from(count).ok()?.checked_mul(times));
        Ok((change, count.ok_or_else(Elements::unknown_type)?))
    }
}
