//! `refs.json`: the array as a Zarr array, with a chunk for each chunk of the file. `docs/scale.md` has the rules.

use std::path::Path;
use std::sync::Arc;

use super::array::Array;
use super::body::Body;
use super::cursor::Cursor;
use super::dtype::elements;
use crate::codec::{Codec, foreign};
use crate::content::zarr::{References, ZarrArray, chunks_of};
use crate::error::Result;
use crate::format::references::{Left, Listed, MOST_CHUNKS, Plan, ReferencedArrays, too_many};
use crate::source::Source;

/// The name of the array, as in `arrays/`.
const DATA: &str = "data";
/// Number of chunks that are written at once.
const AT_ONCE: u64 = 256;

/// The array of a file, or the reason why the file has none.
#[derive(Clone, Debug)]
pub(super) struct FileArray {
    pub(super) source: Arc<dyn Source>,
    pub(super) body: Arc<Body>,
    pub(super) array: std::result::Result<Array, String>,
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
    fn plan(&self) -> std::result::Result<ArrayPlan, Left> {
        let array = self.array.as_ref().map_err(|why| Left::Out(why.clone().into()))?;
        if array.fortran_order && array.shape.len() > 1 {
            return Err("its elements are not in C order".into());
        }
        let dtype = array.descr.strip_prefix('\'').and_then(|descr| descr.strip_suffix('\''));
        let dtype = dtype.ok_or("its type is structured")?.to_owned();
        let shape = array.shape.clone();
        let (chunks, count) = if shape.contains(&0) {
            (shape.iter().map(|len| (*len).max(1)).collect(), 0)
        } else {
            let item = elements(&shape).and_then(|count| array.size.checked_div(count));
            let item = item.filter(|item| *item > 0).ok_or("its elements have no bytes")?;
            let count = self.body.map().count()?;
            let chunks = chunks_of(&shape, item, self.chunk_len(count, array.size)?);
            (chunks.ok_or("its chunks are not whole rows")?, count)
        };
        let compressor = foreign::numcodec(Codec::Blosc);
        let array =
            ZarrArray { path: vec![DATA.to_owned()], dtype, shape, chunks, compressor, has_frames: false };
        Ok(ArrayPlan { array, count, body: self.body.clone() })
    }

    /// Returns the decoded length of each of `count` chunks, which together have `size` bytes. Reads the header
    /// of each chunk.
    fn chunk_len(&self, count: u64, size: u64) -> std::result::Result<u64, Left> {
        if count > MOST_CHUNKS {
            return Err(Left::Out(too_many()));
        }
        let len =
            size.checked_div(count).filter(|len| len * count == size).ok_or("its chunks differ in length")?;
        if self.body.stated_place(0).is_some_and(|(_, stated)| stated != len) {
            return Err("its chunks differ in length".into());
        }
        let mut cursor = Cursor::new(self.body.map());
        for n in 0..count {
            if u64::from(cursor.chunk(n)?.header.nbytes()) != len {
                return Err("its chunks differ in length".into());
            }
        }
        Ok(len)
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
            let found = cursor.chunk(n)?;
            references.chunk(&self.array, n, (found.at, found.header.cbytes().into()), out);
        }
        Ok(Some(end))
    }

    fn weight(&self) -> u64 {
        1 << 20
    }
}
