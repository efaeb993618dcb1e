//! `refs.json`: the series as a Zarr hierarchy, with a chunk for each frame. `docs/scale.md` has the rules.

use std::path::Path;
use std::sync::Arc;

use asdf_file::array::zarr::{self, NO_COMPRESSOR, References, ZarrArray};
use asdf_file::container::references::{Listed, Plan, ReferencedArrays};
use seekable::error::Result;

use super::file::GsdFile;
use super::series::{ChunkSeries, Series};

/// The series of a file.
#[derive(Clone, Debug)]
pub(super) struct SeriesArrays {
    pub(super) file: Arc<GsdFile>,
    pub(super) series: Arc<Series>,
}

/// A series with the places of its chunks.
pub(super) struct SeriesPlan {
    array: ZarrArray,
    series: ChunkSeries,
}

impl ReferencedArrays for SeriesArrays {
    type Plan = SeriesPlan;

    fn source(&self) -> &Path {
        self.file.source.path()
    }

    fn array(&self, n: usize) -> Result<Option<Listed<SeriesPlan>>> {
        let series = match self.series.chunk_series(n)? {
            None => return Ok(None),
            Some(None) => return Ok(Some(Listed::Nothing)),
            Some(Some(series)) => series,
        };
        if series.cut.is_some() {
            return Ok(Some(Listed::LeftOut("its data are cut off".into())));
        }
        if self.series.has_below(&series.path)? {
            return Ok(Some(Listed::LeftOut("a group has the same path".into())));
        }
        let shape = series.shape.clone();
        let path = names(&series.path);
        let chunks = shape.iter().enumerate().map(|(axis, len)| if axis == 0 { 1 } else { (*len).max(1) });
        let chunks = chunks.collect();
        let array = ZarrArray {
            has_frames: true,
            ..ZarrArray::new(path, series.dtype.clone(), shape, chunks, NO_COMPRESSOR)
        };
        Ok(Some(Listed::Array(SeriesPlan { array, series })))
    }

    fn path(&self, n: usize) -> Result<String> {
        let series = self.series.chunk_series(n)?.flatten();
        Ok(series.map(|series| names(&series.path)).unwrap_or_default().join("/"))
    }

    fn left_out(&self, n: usize) -> Result<Option<(String, &'static str)>> {
        let path = self.series.differing(n)?;
        Ok(path.map(|path| (names(&path).join("/"), "its chunks differ in type or shape")))
    }
}

impl Plan for SeriesPlan {
    fn array(&self) -> &ZarrArray {
        &self.array
    }

    fn write(&self, chunk: u64, references: &References, out: &mut Vec<u8>) -> Result<Option<u64>> {
        if chunk >= self.count() {
            return Ok(None);
        }
        let parts = self.series.chunks.parts(chunk)?;
        for (number, part) in (chunk..).zip(&parts) {
            references.chunk(&self.array, number, *part, out);
        }
        Ok(Some(chunk + (parts.len() as u64).max(1)))
    }

    fn weight(&self) -> u64 {
        1 << 20
    }
}

fn names(path: &[String]) -> Vec<String> {
    path.iter().map(|name| zarr::name(name)).collect()
}
