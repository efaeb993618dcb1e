//! `refs.json`: the series as a Zarr hierarchy, with a chunk for each frame. `docs/scale.md` has the rules.

use std::sync::{Arc, OnceLock};

use super::file::GsdFile;
use super::series::{Rowed, Series};
use crate::cache::Cache;
use crate::content::folder::{File, Keeping, Renewal, Signature};
use crate::content::zarr::{self, NO_COMPRESSOR, References, ZarrArray};
use crate::decode::generated::{Generated, Generator, Measured};
use crate::error::Result;

/// The name of the view.
pub(super) const NAME: &str = "refs.json";

/// Maximal number of chunks of all arrays.
const MOST_CHUNKS: u64 = 1 << 22;
/// Bytes that are generated at a time.
const PIECE: usize = 64 << 10;

/// The view of a file.
#[derive(Debug)]
pub(super) struct Refs {
    text: RefsText,
    cache: Arc<Cache>,
    measured: OnceLock<Measured>,
}

impl Refs {
    pub(super) fn new(file: &Arc<GsdFile>, series: &Arc<Series>, cache: &Arc<Cache>) -> Self {
        let text = RefsText { file: file.clone(), series: series.clone() };
        Self { text, cache: cache.clone(), measured: OnceLock::new() }
    }

    /// True if the text has been measured.
    pub(super) fn is_known(&self) -> bool {
        self.measured.get().is_some()
    }

    /// Returns the file. The first call generates the text to measure it.
    pub(super) fn file(&self) -> Result<File> {
        let measured = match self.measured.get() {
            Some(measured) => measured,
            None => {
                let measured = Measured::of(&self.text)?;
                self.measured.get_or_init(|| measured)
            }
        };
        let signature = Signature::new(format!("{} {:x}", measured.len, measured.hash));
        let content = measured.content(self.text.clone(), &self.cache);
        Ok(File { renewal: Renewal::WhileSame(signature), ..File::new(content, Keeping::All) })
    }
}

#[derive(Clone, Debug)]
struct RefsText {
    file: Arc<GsdFile>,
    series: Arc<Series>,
}

impl Generated for RefsText {
    fn generator(&self) -> Result<Box<dyn Generator>> {
        let references = References::default();
        Ok(Box::new(RefsGenerator {
            text: self.clone(),
            at: At::Start,
            references,
            left_out: Vec::new(),
            chunks: 0,
        }))
    }
}

struct RefsGenerator {
    text: RefsText,
    at: At,
    references: References,
    /// The paths of series that are left out, with the reasons.
    left_out: Vec<(String, &'static str)>,
    /// Number of chunks so far.
    chunks: u64,
}

/// The next part of the text.
enum At {
    Start,
    Series(usize),
    /// A chunk of a series, and the number of the series.
    Chunk(Box<(ZarrArray, Rowed)>, u64, usize),
    LeftOut(usize),
    Differing(usize),
    Group(usize),
}

impl Generator for RefsGenerator {
    fn more(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        while out.len() < PIECE {
            if !self.step(out)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn weight(&self) -> u64 {
        (1 << 20) + self.references.weight()
    }
}

impl RefsGenerator {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        self.at = match std::mem::replace(&mut self.at, At::Start) {
            At::Start => {
                References::begin(&zarr::url(self.text.file.source().path())?, out);
                At::Series(0)
            }
            At::Series(n) => self.series(n, out)?,
            At::Chunk(series, from, n) if from < series.0.count().unwrap_or(0) => {
                let parts = series.1.chunks.parts(from)?;
                for (chunk, part) in (from..).zip(&parts) {
                    References::chunk(&series.0, chunk, *part, out);
                }
                At::Chunk(series, from + (parts.len() as u64).max(1), n)
            }
            At::Chunk(_, _, n) => At::Series(n + 1),
            At::LeftOut(n) => match self.left_out.get(n) {
                Some((path, why)) => {
                    self.references.left_out(path, why, out);
                    At::LeftOut(n + 1)
                }
                None => At::Differing(0),
            },
            At::Differing(n) => match self.text.series.differing(n)? {
                Some(path) => {
                    let why = "its chunks differ in type or shape";
                    self.references.left_out(&names(&path).join("/"), why, out);
                    At::Differing(n + 1)
                }
                None => {
                    self.references.end_left_out(out);
                    At::Group(0)
                }
            },
            At::Group(n) if self.references.consolidated(n, out) => At::Group(n + 1),
            At::Group(_) => {
                References::end(out);
                return Ok(false);
            }
        };
        Ok(true)
    }

    fn series(&mut self, n: usize, out: &mut Vec<u8>) -> Result<At> {
        let series = match self.text.series.rowed(n)? {
            None => return Ok(At::LeftOut(0)),
            Some(None) => return Ok(At::Series(n + 1)),
            Some(Some(series)) => series,
        };
        let (shape, path) = (series.shape.clone(), names(&series.path));
        let chunks = shape.iter().enumerate().map(|(n, len)| if n == 0 { 1 } else { (*len).max(1) });
        let array = ZarrArray {
            path,
            dtype: series.dtype.clone(),
            chunks: chunks.collect(),
            shape,
            compressor: NO_COMPRESSOR,
            has_frames: true,
        };
        let count = array.count().unwrap_or(u64::MAX);
        let why = if series.cut.is_some() {
            "its data are cut off"
        } else if self.text.series.has_below(&series.path)? {
            "a group has the same path"
        } else if self.chunks.saturating_add(count) > MOST_CHUNKS {
            "the file has more than 4194304 chunks"
        } else {
            self.chunks += count;
            self.references.array(&array, out);
            return Ok(At::Chunk(Box::new((array, series)), 0, n));
        };
        self.left_out.push((array.path.join("/"), why));
        Ok(At::Series(n + 1))
    }
}

fn names(path: &[String]) -> Vec<String> {
    path.iter().map(|name| zarr::name(name)).collect()
}
