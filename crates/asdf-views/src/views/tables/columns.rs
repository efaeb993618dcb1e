//! Makes the file of a table from the elements of its arrays.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use asdf_file::array::Gather;
use asdf_file::asdf::arrays::{Elements, Order, equal_to, file_of};
use asdf_file::asdf::ndarray::{ByteOrder, Datatype, Field, Ndarray, Number, Scalar};
use asdf_file::asdf::view::AsdfFile;
use asdf_file::folder::{File, Renewal, Signature};
use seekable::content::{Content, Text};
use seekable::error::{Error, Result};

use super::search::Source;
use super::survey::FoundTables;
use super::times::{Decision, Times};
use crate::parquet::{Column, Element, Facts, ParquetTable, SharedStatistics, Values};

/// Returns the file of a table.
pub(super) fn file(
    file: &Arc<AsdfFile>,
    sources: &[Source],
    meta: Option<&str>,
    statistics: &SharedStatistics,
) -> File {
    let mut parts = TableParts::default();
    if let (Some(signature), Some(meta)) = (&mut parts.signature, meta) {
        signature.text.push_str(&format!("{meta:?} "));
    }
    let made_columns: Result<Vec<_>> = sources.iter().map(|source| parts.column(file, source)).collect();
    let content = made_columns.and_then(|made| {
        let rows = made.first().map_or(0, |(rows, _)| *rows);
        if made.iter().any(|(others, _)| *others != rows) {
            return Err(Error::damaged("the columns of the table differ in length"));
        }
        let mut columns = Vec::new();
        let mut facts = Vec::new();
        for (source, (_, of_source)) in sources.iter().zip(made) {
            for (n, (name, column)) in of_source.into_iter().enumerate() {
                let own_columns =
                    if is_complex(source, n) { parts_of_complex(name, column) } else { vec![(name, column)] };
                facts.extend(std::iter::repeat_n(facts_of(source, n), own_columns.len()));
                columns.extend(own_columns);
            }
        }
        let columns = distinct(columns);
        let table =
            ParquetTable::with_facts(&columns, rows, &facts, meta)?.with_statistics(statistics.clone());
        Ok(Arc::new(table) as Arc<dyn Content>)
    });
    let renewal = parts.signature.map_or(Renewal::Anew, Renewal::WhileSame);
    let TableParts { blocks, grows, .. } = parts;
    File { grows, blocks, renewal, ..File::of(content) }
}

/// True if column `n` of those made from a source has complex numbers.
fn is_complex(source: &Source, n: usize) -> bool {
    let datatype = match &source.array.datatype {
        Some(Datatype::Structured(fields)) if source.name.is_empty() => {
            fields.get(n).map(|field| &field.datatype)
        }
        datatype => datatype.as_ref(),
    };
    matches!(datatype, Some(Datatype::Scalar(Scalar::Complex64 | Scalar::Complex128)))
}

/// Returns two columns, `NAME.re` and `NAME.im`, for one of complex numbers or of lists of them: astropy reads no groups.
fn parts_of_complex(name: String, column: Column) -> Vec<(String, Column)> {
    match column {
        Column::Group { columns, .. } => {
            columns.into_iter().map(|(part, numbers)| (format!("{name}.{part}"), numbers)).collect()
        }
        Column::List(len, of) => {
            let parts = parts_of_complex(name, *of).into_iter();
            parts.map(|(part_name, part)| (part_name, Column::List(len, Box::new(part)))).collect()
        }
        column @ Column::Values(_) => vec![(name, column)],
    }
}

/// Returns the metadata of column `n` of those made from a source.
fn facts_of(source: &Source, n: usize) -> Facts {
    let mut facts = source.facts.clone();
    facts.extend(source.facts_of_fields.get(n).into_iter().flatten().cloned());
    let decision = source.times.as_ref().and_then(Times::decision);
    facts.extend(decision.and_then(|decision| decision.format).map(|format| ("format", format.to_owned())));
    facts
}

/// Makes column names unique, because readers find columns by name. The second `a` becomes `a~1`.
fn distinct(mut columns: Vec<(String, Column)>) -> Vec<(String, Column)> {
    let mut taken: HashSet<String> = columns.iter().map(|(name, _)| name.clone()).collect();
    // Number of occurrences of each name.
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (name, _) in &mut columns {
        let count = seen.entry(name.clone()).or_insert(0);
        let first = name.clone();
        while *count > 0 {
            *name = format!("{first}~{count}");
            if taken.insert(name.clone()) {
                break;
            }
            *count += 1;
        }
        *count += 1;
    }
    columns
}

/// The facts that decide when a table's file changes, gathered while its columns are made.
struct TableParts {
    /// The signature, equal for tables with the same elements; `None` if the elements can't be identified.
    signature: Option<Signature>,
    blocks: Vec<usize>,
    grows: bool,
}

impl Default for TableParts {
    fn default() -> Self {
        Self { signature: Some(Signature::default()), blocks: Vec::new(), grows: false }
    }
}

impl TableParts {
    /// Returns the number of rows of a column, and the columns made from it: several for a structured array.
    fn column(&mut self, file: &Arc<AsdfFile>, source: &Source) -> Result<(u64, Vec<(String, Column)>)> {
        if let Some(signature) = &mut self.signature {
            signature.text.push_str(&format!("{:?} {:?} ", source.name, source.facts));
        }
        let elements = self.elements(file, &source.array)?;
        let missing = match &source.mask {
            Some(mask) => Some(Missing::of(self.elements(file, mask)?, &elements)?),
            None => None,
        };
        let [rows, lists @ ..] = &elements.dimensions[..] else {
            return Err(Error::damaged("a column of the table has no rows"));
        };
        let decision = self.timestamps(file, source, &elements, missing.as_ref().map(|it| &*it.content))?;
        let content = match (decision, &source.times) {
            (Some(decision), Some(times)) => times.convert(&elements, decision, missing.is_some()),
            _ => elements.content.clone(),
        };
        let count = elements.dimensions.iter().try_fold(1_u64, |product, len| product.checked_mul(*len));
        let array = Array {
            byteorder: elements.byteorder,
            content,
            count: count.ok_or_else(|| Error::damaged("a column of the table is too large"))?,
            missing,
        };
        let columns = match &elements.datatype {
            Datatype::Structured(fields) if source.name.is_empty() => {
                let nulls = file.fits.as_ref().map_or(&[][..], |fits| fits.nulls(&source.array));
                array.fields(fields, lists, nulls)?
            }
            datatype => {
                let column = match decision {
                    Some(decision) => in_lists(array.timestamps(decision), lists),
                    None => array.column(datatype, lists)?,
                };
                vec![(source.name.clone(), column)]
            }
        };
        Ok((*rows, columns))
    }

    /// Returns the timestamps that a column of times is converted to; `None` if the values are shown
    /// unchanged.
    fn timestamps(
        &mut self,
        file: &Arc<AsdfFile>,
        source: &Source,
        elements: &Elements,
        missing: Option<&dyn Content>,
    ) -> Result<Option<Decision>> {
        let Some(times) = source.times.as_ref() else { return Ok(None) };
        let has_read = || file.computed.get().into_iter().for_each(FoundTables::has_read_times);
        let decision = times.decide(elements, missing, has_read)?;
        if let Some(signature) = &mut self.signature {
            signature.text.push_str(&format!("{decision:?} "));
        }
        Ok(decision)
    }

    /// Returns the elements of an array in C order. If the array can't be read, each element is an error.
    fn elements(&mut self, file: &Arc<AsdfFile>, array: &Ndarray) -> Result<Elements> {
        let mut found = None;
        let made = file_of(file, array, |elements| {
            found = Some(elements.clone());
            Ok(Arc::new(Text::default()))
        });
        self.grows |= made.grows;
        self.blocks.extend(made.blocks.iter().filter(|n| !self.blocks.contains(n)).collect::<Vec<_>>());
        self.signature = match (self.signature.take(), made.renewal) {
            (Some(before), Renewal::WhileSame(signature)) => Some(before.and(&signature)),
            _ => None,
        };
        match (found, made.content) {
            (Some(elements), Ok(_)) => elements.in_c_order(),
            (_, Err(error)) if error.is_of_reading() => Err(error),
            (_, Err(error)) => unreadable(array, error),
            (None, Ok(_)) => Err(Elements::unknown_type()),
        }
    }
}

/// Returns elements that all fail with this error when read.
fn unreadable(array: &Ndarray, error: Error) -> Result<Elements> {
    let shape = array.shape.as_ref().filter(|shape| !shape.streamed);
    let (Some(shape), Some(datatype)) = (shape, &array.datatype) else { return Err(error) };
    let size =
        shape.dimensions.iter().try_fold(datatype.size().unwrap_or(0), |sum, len| sum.checked_mul(*len));
    let len = size.filter(|len| *len <= i64::MAX as u64).ok_or_else(|| error.clone())?;
    Ok(Elements {
        dimensions: shape.dimensions.clone(),
        datatype: datatype.clone(),
        byteorder: array.byteorder.unwrap_or(ByteOrder::Big),
        order: Order::C,
        content: Arc::new(Unreadable { len, error }),
    })
}

/// A content that fails with the same error at each read.
#[derive(Debug)]
struct Unreadable {
    len: u64,
    error: Error,
}

impl Content for Unreadable {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if offset >= self.len || buf.is_empty() { Ok(0) } else { Err(self.error.clone()) }
    }

    fn soundness(&self) -> seekable::content::Soundness {
        seekable::content::Soundness::Broken(0)
    }

    fn damage(&self) -> Option<Error> {
        Some(self.error.clone())
    }
}

/// Which elements of an array are missing.
#[derive(Clone)]
struct Missing {
    content: Arc<dyn Content>,
    /// Bytes of the mask for an element of the array: one, or one for each value of its fields.
    size: u64,
    has_fields: bool,
}

impl Missing {
    /// Broadcasts a mask to an array.
    fn of(mask: Elements, array: &Elements) -> Result<Self> {
        let unfit = || Error::damaged("the mask of a column does not fit it");
        let has_fields = matches!(mask.datatype, Datatype::Structured(_));
        let size = mask.datatype.size().ok_or_else(unfit)?;
        let fits = if has_fields {
            mask.datatype.is_of_bools() && mask.datatype.has_fields_of(&array.datatype)
        } else {
            size == 1
        };
        let missing = array.dimensions.len().checked_sub(mask.dimensions.len());
        let Some(missing) = missing.filter(|_| fits) else { return Err(unfit()) };
        if mask.dimensions == array.dimensions {
            return Ok(Self { content: mask.content, size, has_fields });
        }
        let mut step = i64::try_from(size).map_err(|_| unfit())?;
        let mut gathered = Vec::with_capacity(array.dimensions.len());
        for (n, len) in array.dimensions.iter().enumerate().rev() {
            let own = n.checked_sub(missing).and_then(|n| mask.dimensions.get(n)).copied().unwrap_or(1);
            if own != 1 && own != *len {
                return Err(unfit());
            }
            gathered.push((*len, if own == 1 { 0 } else { step }));
            let own = i64::try_from(own).map_err(|_| unfit())?;
            step = step.checked_mul(own).ok_or_else(unfit)?;
        }
        gathered.reverse();
        Ok(Self { content: Arc::new(Gather::new(mask.content, 0, size, gathered)?), size, has_fields })
    }

    /// Selects what belongs to a field of `count` elements, which has `size` values from `offset` on.
    fn of_field(&self, count: u64, offset: u64, size: u64) -> Result<Self> {
        if !self.has_fields {
            return Ok(self.clone());
        }
        let stride = i64::try_from(self.size).map_err(|_| Elements::unknown_type())?;
        let content = Gather::new(self.content.clone(), offset, size, vec![(count, stride)])?;
        Ok(Self { content: Arc::new(content), size, has_fields: true })
    }

    /// Divides the masks of `count` elements into those of `items` items each. All items of a missing element are missing.
    fn in_items(self, count: u64, items: u64, is_structured: bool) -> Result<Self> {
        if self.has_fields {
            return Ok(Self { size: self.size / items.max(1), has_fields: is_structured, ..self });
        }
        if items == 1 {
            return Ok(self);
        }
        let content = Gather::new(self.content, 0, 1, vec![(count, 1), (items, 0)])?;
        Ok(Self { content: Arc::new(content), ..self })
    }
}

/// Contiguous elements.
struct Array {
    byteorder: ByteOrder,
    content: Arc<dyn Content>,
    count: u64,
    missing: Option<Missing>,
}

impl Array {
    /// Returns a column of elements of this type. Each row is made of nested lists of these lengths.
    fn column(&self, datatype: &Datatype, lists: &[u64]) -> Result<Column> {
        let column = match datatype {
            Datatype::Structured(fields) => Column::Group {
                columns: self.fields(fields, &[], &[])?,
                // Lists in a missing group would have no items, so the length of the file would depend on the
                // data.
                nullable: self.missing.as_ref().is_some_and(|it| !it.has_fields) && !has_lists(fields),
            },
            Datatype::Scalar(Scalar::Complex64) => self.complex(4)?,
            Datatype::Scalar(Scalar::Complex128) => self.complex(8)?,
            Datatype::Scalar(scalar) => self.values(Element::of(*scalar).ok_or_else(Elements::unknown_type)?),
            Datatype::Unknown => return Err(Elements::unknown_type()),
        };
        Ok(in_lists(column, lists))
    }

    /// Returns a column of converted times.
    fn timestamps(&self, decision: Decision) -> Column {
        Column::Values(Values {
            element: Element::Timestamp(decision.timestamp),
            big_endian: false,
            content: self.content.clone(),
            missing: self.missing.as_ref().map(|missing| missing.content.clone()),
        })
    }

    fn values(&self, element: Element) -> Column {
        Column::Values(Values {
            element,
            big_endian: self.byteorder == ByteOrder::Big && element.size() > 1,
            content: self.content.clone(),
            missing: self.missing.as_ref().map(|missing| missing.content.clone()),
        })
    }

    /// Returns a column of real and imaginary parts of `size` bytes each.
    fn complex(&self, size: u8) -> Result<Column> {
        let part = |offset| -> Result<Column> {
            let part = self.part(offset, size.into(), 2 * u64::from(size), self.byteorder)?;
            Ok(part.values(Element::Float { size }))
        };
        let columns = vec![("re".to_owned(), part(0)?), ("im".to_owned(), part(size.into())?)];
        Ok(Column::Group { columns, nullable: self.missing.is_some() })
    }

    /// Returns the fields of a structured array as columns. Their rows are nested lists of these lengths. Values that
    /// equal the number in `nulls` for their field are missing.
    fn fields(
        &self,
        fields: &[Field],
        lists: &[u64],
        nulls: &[Option<Number>],
    ) -> Result<Vec<(String, Column)>> {
        // Bytes of a field's values, and of their mask.
        let sizes = |field: &Field| {
            let all = |one: u64| field.shape.iter().try_fold(one, |size, len| size.checked_mul(*len));
            Some((all(field.datatype.size()?)?, all(field.datatype.of_mask().size()?)?))
        };
        let record = fields.iter().try_fold(0_u64, |sum, field| sum.checked_add(sizes(field)?.0));
        let record = record.ok_or_else(Elements::unknown_type)?;
        let mut columns = Vec::with_capacity(fields.len());
        let mut offset = 0;
        let mut of_mask = 0;
        for (n, field) in fields.iter().enumerate() {
            // numpy's name for a field without a name.
            let name = field.name_at(n).into_owned();
            let (bytes, masked) = sizes(field).unwrap_or_default();
            let items = field.shape.iter().product::<u64>();
            let byteorder = field.byteorder.unwrap_or(self.byteorder);
            let mut part = self.part(offset, bytes, record, byteorder)?;
            part.count = self.count.saturating_mul(items);
            if let Some(missing) = &self.missing {
                let is_structured = matches!(field.datatype, Datatype::Structured(_));
                let missing = missing.of_field(self.count, of_mask, masked)?;
                part.missing = Some(missing.in_items(self.count, items, is_structured)?);
            }
            if let (Some(Some(null)), Datatype::Scalar(scalar)) = (nulls.get(n), &field.datatype) {
                let equal = equal_to(part.content.clone(), *scalar, byteorder, *null);
                part.missing = equal.map(|content| Missing { content, size: 1, has_fields: false });
            }
            columns.push((name, part.column(&field.datatype, &[lists, &field.shape].concat())?));
            offset += bytes;
            of_mask += masked;
        }
        Ok(distinct(columns))
    }

    /// Selects `size` bytes at an offset of each element.
    fn part(&self, offset: u64, size: u64, element: u64, byteorder: ByteOrder) -> Result<Self> {
        let stride = i64::try_from(element).map_err(|_| Elements::unknown_type())?;
        let content = Gather::new(self.content.clone(), offset, size, vec![(self.count, stride)])?;
        let count = self.count;
        let missing = self.missing.clone();
        Ok(Self { byteorder, content: Arc::new(content), count, missing })
    }
}

/// Returns a column with nested lists of these lengths in each row.
fn in_lists(column: Column, lists: &[u64]) -> Column {
    lists.iter().rev().fold(column, |column, len| Column::List(*len, Box::new(column)))
}

/// True if there are lists in structured elements with these fields.
fn has_lists(fields: &[Field]) -> bool {
    fields.iter().any(|field| match &field.datatype {
        _ if !field.shape.is_empty() => true,
        Datatype::Structured(inner) => has_lists(inner),
        _ => false,
    })
}
