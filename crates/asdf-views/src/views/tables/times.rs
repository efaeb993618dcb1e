//! Times as timestamps, where the conversion is exact.
//!
//! A conversion may be exact for some values only, so all of them are read once, when a program first looks up the
//! table. Values are converted while they are read.

use std::sync::{Arc, OnceLock};

use asdf_file::array::numbers::{bits, integer};
use asdf_file::asdf::arrays::Elements;
use asdf_file::asdf::ndarray::{ByteOrder, Datatype, Ndarray, Scalar, Source};
use asdf_tree::yaml::survey::TreeNode;
use seekable::content::{Content, fill, read_exact_at};
use seekable::error::{Error, Result, if_readable};

use super::instant::{Instant, Notation};
use crate::parquet::Timestamp;

/// Maximum size of the values that are read to find out if they can be converted, in bytes.
const MAX_COLUMN: u64 = 256 << 20;
/// Size of the values that are converted at once, in bytes.
const SPAN: usize = 256 << 10;

/// Length of a timestamp, in bytes.
const LEN: usize = 8;

/// The array of a time, and the timestamps that it is converted to.
#[derive(Clone, Debug)]
pub(super) struct Times {
    notation: Notation,
    /// The result of `decide`. The inner `None` means that the values are shown unchanged.
    decided: OnceLock<Option<Decision>>,
}

/// The timestamps that an array of times is converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub timestamp: Timestamp,
    /// The format of the times, if the tree does not say it.
    pub format: Option<&'static str>,
}

/// Returns the scale of a time for which the tree states none.
pub(super) fn default_scale(format: Option<&str>) -> &'static str {
    match format {
        Some("gps" | "unix_tai") => "tai",
        Some("cxcsec") => "tt",
        _ => "utc",
    }
}

impl Times {
    /// Describes the array at `value` in a node with the tag of a time; `None` if its values are always shown
    /// unchanged.
    pub(super) fn of(time: &TreeNode, array: &Ndarray) -> Option<Self> {
        // An array in another file may change at any time, and with it the decision.
        let is_here = matches!(array.source, Source::Block(_) | Source::Inline(_));
        let is_fixed = array.shape.as_ref().is_some_and(|shape| !shape.streamed);
        let text = |key| time.get(key).and_then(TreeNode::text);
        let format = text("format");
        let scale = text("scale").unwrap_or(default_scale(format));
        let Some(Datatype::Scalar(scalar)) = array.datatype else { return None };
        let notation = Notation::of(format, scale, scalar)?;
        (is_here && is_fixed).then(|| Self { notation, decided: OnceLock::new() })
    }

    /// Returns the result of an earlier call of [`decide`](Self::decide); `None` if there was no call, or the
    /// values are shown unchanged.
    pub(super) fn decision(&self) -> Option<Decision> {
        self.decided.get().copied().flatten()
    }

    /// Returns the timestamps of these times; `None` if one of them has no exact timestamp, or is damaged.
    /// `missing` has a byte for each element: 0 unless the element is missing. The first call reads the
    /// values, and calls `has_read`.
    pub(super) fn decide(
        &self,
        elements: &Elements,
        missing: Option<&dyn Content>,
        has_read: impl FnOnce(),
    ) -> Result<Option<Decision>> {
        if let Some(decision) = self.decided.get() {
            return Ok(*decision);
        }
        let decision = if_readable(self.read_all(elements, missing))?.flatten();
        has_read();
        Ok(*self.decided.get_or_init(|| decision))
    }

    fn read_all(&self, elements: &Elements, missing: Option<&dyn Content>) -> Result<Option<Decision>> {
        let content = &*elements.content;
        let Some(form) = Form::of(elements).filter(|_| content.len() <= MAX_COLUMN) else { return Ok(None) };
        let mut is_micros = true;
        let mut is_nanos = true;
        let mut format = None;
        let mut bytes = Vec::new();
        let mut masked = Vec::new();
        let count = content.len() / form.size as u64;
        let step = (SPAN / form.size).max(1) as u64;
        let mut first = 0;
        while first < count {
            let some = step.min(count - first) as usize;
            bytes.resize(some * form.size, 0);
            read_exact_at(content, first * form.size as u64, &mut bytes)?;
            masked.resize(some, 0);
            if let Some(missing) = missing {
                read_exact_at(missing, first, &mut masked)?;
            }
            for (element, is_masked) in bytes.chunks_exact(form.size).zip(&masked) {
                if *is_masked != 0 {
                    continue;
                }
                let Some(instant) = form.instant(self.notation, element) else { return Ok(None) };
                is_micros &= instant.micros().is_some();
                is_nanos &= instant.nanos().is_some();
                format = format.or(instant.format);
            }
            first += some as u64;
        }
        let timestamp = Timestamp { nanos: !is_micros, utc: self.notation.utc };
        Ok((is_micros || is_nanos).then_some(Decision { timestamp, format }))
    }

    /// Converts the elements, which must be those that were passed to [`decide`](Self::decide).
    pub(super) fn convert(&self, elements: &Elements, decision: Decision, masked: bool) -> Arc<dyn Content> {
        let form = Form::of(elements).unwrap_or(Form {
            scalar: Scalar::Int8,
            size: 1,
            byteorder: ByteOrder::Little,
        });
        let notation = self.notation;
        let nanos = decision.timestamp.nanos;
        Arc::new(Timestamps { whole: elements.content.clone(), form, notation, nanos, masked })
    }
}

/// The form of an element.
#[derive(Clone, Copy, Debug)]
struct Form {
    scalar: Scalar,
    size: usize,
    /// The byte order of the element, or of each of its characters.
    byteorder: ByteOrder,
}

impl Form {
    fn of(elements: &Elements) -> Option<Self> {
        let Datatype::Scalar(scalar) = elements.datatype else { return None };
        let size = usize::try_from(scalar.size()?).ok().filter(|size| (1..=SPAN).contains(size))?;
        Some(Self { scalar, size, byteorder: elements.byteorder })
    }

    /// Returns the exact instant of an element.
    fn instant(self, notation: Notation, element: &[u8]) -> Option<Instant> {
        match self.scalar {
            Scalar::Float32 => notation.of_float(f32::from_bits(bits(element, self.byteorder) as u32).into()),
            Scalar::Float64 => notation.of_float(f64::from_bits(bits(element, self.byteorder))),
            Scalar::Ascii(_) => notation.of_text(element),
            Scalar::Ucs4(_) => {
                let code = |unit: &[u8]| u8::try_from(bits(unit, self.byteorder)).ok();
                let text: Option<Vec<u8>> = element.chunks_exact(4).map(code).collect();
                notation.of_text(&text?)
            }
            _ => notation.of_integer(integer(self.scalar, self.byteorder, element)?),
        }
    }
}

/// Times that are converted to timestamps while they are read.
#[derive(Debug)]
struct Timestamps {
    whole: Arc<dyn Content>,
    form: Form,
    notation: Notation,
    nanos: bool,
    /// True if elements may be missing. The stored value of a missing element need not be a time.
    masked: bool,
}

impl Timestamps {
    fn timestamp(&self, element: &[u8]) -> Result<i64> {
        let instant = self.form.instant(self.notation, element);
        match instant.and_then(|instant| if self.nanos { instant.nanos() } else { instant.micros() }) {
            Some(timestamp) => Ok(timestamp),
            None if self.masked => Ok(0),
            None => Err(Error::damaged("a time of the table has no exact timestamp")),
        }
    }

    /// Converts a few elements from an offset in the timestamps on.
    fn read_part(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let rest = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        if rest == 0 {
            return Ok(0);
        }
        let first = offset / LEN as u64;
        let skipped = (offset % LEN as u64) as usize;
        let count = (skipped + rest).div_ceil(LEN).min((SPAN / self.form.size).max(1));
        let mut elements = vec![0; count * self.form.size];
        read_exact_at(&*self.whole, first * self.form.size as u64, &mut elements)?;
        let mut done = 0;
        for (n, element) in elements.chunks_exact(self.form.size).enumerate() {
            let timestamp = self.timestamp(element)?.to_le_bytes();
            let from = &timestamp[if n == 0 { skipped } else { 0 }..];
            let len = from.len().min(rest - done);
            buf[done..done + len].copy_from_slice(&from[..len]);
            done += len;
        }
        Ok(done)
    }
}

impl Content for Timestamps {
    fn len(&self) -> u64 {
        self.whole.len() / self.form.size as u64 * LEN as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        fill(buf, |done, rest| self.read_part(offset.saturating_add(done as u64), rest))
    }

    fn made_of(&self) -> &[Arc<dyn Content>] {
        std::slice::from_ref(&self.whole)
    }
}
