//! The text of `refs.json`, generated array by array. `docs/scale.md` has the rules.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use seekable::cache::Cache;
use seekable::error::{Error, Result};

use crate::array::zarr;
use crate::array::zarr::{References, ZarrArray};
use crate::folder::File;
use crate::generated::{Generated, Generator, Measured};

/// The name of the file.
pub const NAME: &str = "refs.json";

/// Maximum number of chunks of all arrays.
pub const MAX_CHUNKS: u64 = 1 << 22;
/// Bytes that are generated at a time.
const PIECE: usize = 64 << 10;

/// The arrays of a file, sorted by their paths.
pub trait ReferencedArrays: Clone + Send + Sync + fmt::Debug + 'static {
    /// An array with the places of its chunks.
    type Plan: Plan;

    /// Returns the path of the source.
    fn source(&self) -> &Path;

    /// Returns array number `n`, or the reason why it is left out; `None` after the last.
    ///
    /// # Errors
    /// The file can't be read now.
    fn array(&self, n: usize) -> Result<Option<Listed<Self::Plan>>>;

    /// Returns the path of array number `n`, which is left out.
    fn path(&self, n: usize) -> Result<String>;

    /// Returns path and reason of the `n`-th array that is left out and has no number; `None` after the last.
    fn left_out(&self, n: usize) -> Result<Option<(String, &'static str)>> {
        let _ = n;
        Ok(None)
    }
}

/// An array with the places of its chunks.
pub trait Plan: Send {
    /// Returns the array.
    fn array(&self) -> &ZarrArray;

    /// Returns the number of chunks.
    fn count(&self) -> u64 {
        self.array().count().unwrap_or(u64::MAX)
    }

    /// Returns what readers need beside the codecs of numcodecs, if anything. It is named among the arrays that
    /// are left out.
    fn remark(&self) -> Option<&'static str> {
        None
    }

    /// Writes the byte range of chunk number `chunk`, and those of some chunks after it. Returns the number
    /// of the next chunk; `None` after the last.
    fn write(&self, chunk: u64, references: &References, out: &mut Vec<u8>) -> Result<Option<u64>>;

    /// Returns the approximate memory usage in bytes.
    fn weight(&self) -> u64;
}

/// Result of looking for the chunks of an array.
#[derive(Debug)]
pub enum Listed<P> {
    /// The array has chunks.
    Array(P),
    /// The array is left out for this reason.
    LeftOut(Cow<'static, str>),
    /// The entry is not an array. It is omitted without a reason.
    Nothing,
}

/// The reason why an array has no plan.
#[derive(Debug)]
pub enum Left {
    /// Zarr can't express the array.
    Out(Cow<'static, str>),
    /// The file can't be read now.
    Unknown(Error),
}

impl From<&'static str> for Left {
    fn from(why: &'static str) -> Self {
        Self::Out(why.into())
    }
}

impl From<Error> for Left {
    fn from(error: Error) -> Self {
        if error.lasts() { Self::Out(error.message().into()) } else { Self::Unknown(error) }
    }
}

impl Left {
    /// Returns the reason as a result for the array. Fails if the file can't be read now.
    pub fn result<P>(self) -> Result<Listed<P>> {
        match self {
            Self::Out(why) => Ok(Listed::LeftOut(why)),
            Self::Unknown(error) => Err(error),
        }
    }
}

/// The reason for an array with more than [`MAX_CHUNKS`] chunks, together with the arrays before it.
pub fn too_many() -> Cow<'static, str> {
    format!("the file has more than {MAX_CHUNKS} chunks").into()
}

/// The text of `refs.json`.
#[derive(Clone, Debug)]
pub struct RefsText<A>(pub A);

impl<A: ReferencedArrays> Generated for RefsText<A> {
    fn generator(&self) -> Result<Box<dyn Generator>> {
        Ok(Box::new(RefsGenerator {
            arrays: self.0.clone(),
            at: At::Start,
            references: References::new(&zarr::url(self.0.source())?),
            left_out: Vec::new(),
            chunks: 0,
        }))
    }
}

/// `refs.json` of a file with arrays that do not change.
#[derive(Debug)]
pub struct RefsFile<A> {
    text: RefsText<A>,
    cache: Arc<Cache>,
    measured: OnceLock<Measured>,
}

impl<A: ReferencedArrays> RefsFile<A> {
    /// Makes the file of references to the chunks of `arrays`.
    pub fn new(arrays: A, cache: &Arc<Cache>) -> Self {
        Self { text: RefsText(arrays), cache: cache.clone(), measured: OnceLock::new() }
    }

    /// True if the text has been measured.
    pub fn is_known(&self) -> bool {
        self.measured.get().is_some()
    }

    /// Returns the file. The first call generates the text to measure it.
    pub fn file(&self) -> Result<File> {
        let measured = match self.measured.get() {
            Some(measured) => measured,
            None => {
                let measured = Measured::of(&self.text)?;
                self.measured.get_or_init(|| measured)
            }
        };
        Ok(measured.file(self.text.clone(), &self.cache))
    }
}

/// A generator of the text: first the arrays, then the omitted arrays, then the metadata of groups.
struct RefsGenerator<A: ReferencedArrays> {
    arrays: A,
    at: At<A::Plan>,
    references: References,
    /// The numbers of arrays that are left out, with the reasons.
    left_out: Vec<(usize, Cow<'static, str>)>,
    /// Number of chunks so far.
    chunks: u64,
}

/// The next part of the text.
enum At<P> {
    Start,
    Array(usize),
    /// A chunk of an array, and the number of the array.
    Chunk(Box<P>, u64, usize),
    LeftOut(usize),
    MoreLeftOut(usize),
    /// The consolidated metadata of a group.
    Group(usize),
}

impl<A: ReferencedArrays> Generator for RefsGenerator<A> {
    fn more(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        while out.len() < PIECE {
            if !self.step(out)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn weight(&self) -> u64 {
        let plan = if let At::Chunk(plan, ..) = &self.at { plan.weight() } else { 0 };
        (256 << 10) + 64 * self.left_out.len() as u64 + plan + self.references.weight()
    }
}

impl<A: ReferencedArrays> RefsGenerator<A> {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        self.at = match std::mem::replace(&mut self.at, At::Start) {
            At::Start => {
                References::begin(out);
                At::Array(0)
            }
            At::Array(n) => self.array(n, out)?,
            At::Chunk(plan, chunk, n) => match plan.write(chunk, &self.references, out)? {
                Some(next) => At::Chunk(plan, next, n),
                None => At::Array(n + 1),
            },
            At::LeftOut(n) => match self.left_out.get(n) {
                Some((array, why)) => {
                    self.references.left_out(&self.arrays.path(*array)?, why, out);
                    At::LeftOut(n + 1)
                }
                None => At::MoreLeftOut(0),
            },
            At::MoreLeftOut(n) => match self.arrays.left_out(n)? {
                Some((path, why)) => {
                    self.references.left_out(&path, why, out);
                    At::MoreLeftOut(n + 1)
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

    fn array(&mut self, n: usize, out: &mut Vec<u8>) -> Result<At<A::Plan>> {
        let Some(listed) = self.arrays.array(n)? else { return Ok(At::LeftOut(0)) };
        match listed {
            Listed::Array(plan) if self.chunks.saturating_add(plan.count()) <= MAX_CHUNKS => {
                self.chunks += plan.count();
                self.references.array(plan.array(), out);
                if let Some(remark) = plan.remark() {
                    self.left_out.push((n, remark.into()));
                }
                return Ok(At::Chunk(Box::new(plan), 0, n));
            }
            Listed::Array(_) => self.left_out.push((n, too_many())),
            Listed::LeftOut(why) => self.left_out.push((n, why)),
            Listed::Nothing => {}
        }
        Ok(At::Array(n + 1))
    }
}
