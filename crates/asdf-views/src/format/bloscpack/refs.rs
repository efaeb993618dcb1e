//! `refs.json`: the array as a Zarr array, with a chunk for each chunk of the file. `docs/scale.md` has the rules.

use std::path::Path;
use std::sync::Arc;

use asdf_file::array::zarr::{References, ZarrArray, chunks_of};
use asdf_file::array::{ByteOrder, Datatype};
use asdf_file::container::references::{Left, Listed, MAX_CHUNKS, Plan, ReferencedArrays, too_many};
use seekable::codec::{Codec, blosc};
use seekable::error::Result;
use seekable::source::Source;

use super::array::{Array, Metadata};
use super::body::Body;
use super::cursor::Cursor;
use super::header::{Header, Layout};
use crate::format::dtype::elements;

/// The name of the array, as in `arrays/`.
const DATA: &str = "data";
/// Number of chunks that are written at once.
const AT_ONCE: u64 = 256;

/// Reasons for which an array is left out.
const NO_ARRAY: &str = "the metadata describe no array";
const NO_BYTES: &str = "its elements have no bytes";
const LENGTHS: &str = "its chunks differ in length";

/// The array that the metadata of a file describe.
#[derive(Clone, Debug)]
pub(super) struct FileArray {
    pub(super) source: Arc<dyn Source>,
    pub(super) header: Header,
    pub(super) body: Arc<Body>,
}

/// The array with the places of its chunks.
pub(super) struct ArrayPlan {
    array: ZarrArray,
    count: u64,
    body: Arc<Body>,
}

impl ReferencedArrays for FileArray {
    type Plan = ArrayPlan;

    fn source(&self) -> &Path {
        self.source.path()
    }

    fn array(&self, n: usize) -> Result<Option<Listed<ArrayPlan>>> {
        match n {
            0 => self.plan().map(Listed::Array).or_else(Left::result).map(Some),
            _ => Ok(None),
        }
    }

    fn path(&self, _: usize) -> Result<String> {
        Ok(DATA.to_owned())
    }
}

impl FileArray {
    /// Returns the array that the metadata describe.
    fn described(&self) -> std::result::Result<Array, Left> {
        let bytes = self.header.metadata.as_ref().ok_or(NO_ARRAY)?.bytes(&*self.source)?;
        let array = Metadata::new(Ok(bytes), self.header.kind != Layout::Variable).array.ok_or(NO_ARRAY)?;
        let array = array.map_err(|why| Left::Out(format!("the array of the metadata {why}").into()))?;
        if array.size == self.body.size()? {
            Ok(array)
        } else {
            Err("its size is not that of the chunks".into())
        }
    }

    fn plan(&self) -> std::result::Result<ArrayPlan, Left> {
        let Array { datatype, byteorder, fortran_order, shape, size } = self.described()?;
        if fortran_order && shape.len() > 1 {
            return Err("its elements are not in C order".into());
        }
        let dtype = dtype_of(&datatype, byteorder)?;
        let (chunks, count) = if shape.contains(&0) {
            (shape.iter().map(|len| (*len).max(1)).collect(), 0)
        } else {
            let item = elements(&shape).and_then(|count| size.checked_div(count)).filter(|item| *item > 0);
            let item = item.ok_or(NO_BYTES)?;
            let count = self.body.map().count()?;
            let chunks = chunks_of(&shape, item, self.chunk_len(count, size)?);
            (chunks.ok_or("its chunks are not whole rows")?, count)
        };
        let path = vec![DATA.to_owned()];
        let compressor = Codec::Blosc.numcodec();
        let array = ZarrArray::new(path, dtype, shape, chunks, compressor);
        Ok(ArrayPlan { array, count, body: self.body.clone() })
    }

    /// Returns the decoded length of each of `count` chunks, which together have `size` bytes. Reads the header
    /// of each chunk.
    fn chunk_len(&self, count: u64, size: u64) -> std::result::Result<u64, Left> {
        if count > MAX_CHUNKS {
            return Err(Left::Out(too_many()));
        }
        let len = size.checked_div(count).filter(|len| len * count == size).ok_or(LENGTHS)?;
        if self.body.stated_place(0).is_some_and(|(_, stated)| stated != len) {
            return Err(LENGTHS.into());
        }
        let mut cursor = Cursor::new(self.body.map());
        for n in 0..count {
            let header = cursor.chunk(n).map_err(|error| error.in_block(n))?.header;
            if u64::from(header.nbytes()) != len {
                return Err(LENGTHS.into());
            }
            blosc::check_external(&header)?;
        }
        Ok(len)
    }
}

/// Returns the type for Zarr.
fn dtype_of(datatype: &Datatype, byteorder: ByteOrder) -> std::result::Result<String, Left> {
    let other = if let Datatype::Other(name) = datatype { name.get(1..).unwrap_or_default() } else { "" };
    match datatype {
        Datatype::Record(_) => Err("its type is structured".into()),
        _ if datatype.size() == Some(0) => Err(NO_BYTES.into()),
        _ if other.starts_with(['f', 'c']) => Err("Zarr has no long double".into()),
        _ if other.starts_with(['M', 'm']) && !other.contains('[') => Err("its times have no unit".into()),
        _ => Ok(datatype.descr(byteorder).trim_matches('\'').to_owned()),
    }
}

impl Plan for ArrayPlan {
    fn array(&self) -> &ZarrArray {
        &self.array
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn write(&self, chunk: u64, references: &References, out: &mut Vec<u8>) -> Result<Option<u64>> {
        let end = self.count.min(chunk.saturating_add(AT_ONCE));
        if chunk >= end {
            return Ok(None);
        }
        let mut cursor = Cursor::new(self.body.map());
        for n in chunk..end {
            let found = cursor.chunk(n).map_err(|error| error.in_block(n))?;
            references.chunk(&self.array, n, (found.at, found.header.cbytes().into()), out);
        }
        Ok(Some(end))
    }

    fn weight(&self) -> u64 {
        1 << 20
    }
}
