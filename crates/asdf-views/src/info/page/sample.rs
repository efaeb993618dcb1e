//! Numbers from a bounded sample of an array.

use asdf_file::array::numbers::{ToNumber, to_number};
use asdf_file::array::{ByteOrder, Datatype, Scalar, ScalarKind};
use seekable::content::{Content, on_server, read_exact_at, short_number};
use seekable::error::Result;

use super::arrays::{ArrayRow, Elements, Views};
use super::html::{escape, grouped};

/// Maximum number of bytes that are read of an array, of a local file and of one on a server.
const MAX_BYTES: u64 = 4 << 20;
const MAX_FROM_SERVER: u64 = 256 << 10;
/// The number of evenly spaced runs of elements in a sample.
const RUNS: u64 = 64;
const RUNS_ON_SERVER: u64 = 4;
/// Maximum number of bytes that the elements of an array with strides may span to be read completely.
const MAX_SPAN: u64 = 16 << 20;
/// Maximum number of elements of a run that lie far from each other.
const FAR: u64 = 16;
/// Maximum number of bytes of compressed data that are decoded for samples of one page.
const MAX_DECODED: u64 = 256 << 20;

/// The data that may still be decoded for a page.
#[derive(Debug)]
pub(super) struct Budget {
    decoded: u64,
    is_on_server: bool,
}

impl Budget {
    pub(super) fn new(is_on_server: bool) -> Self {
        Self { decoded: MAX_DECODED, is_on_server }
    }

    /// True if an array of this many bytes may be read completely.
    pub(super) fn allows(&mut self, bytes: u64) -> bool {
        if self.is_on_server {
            return bytes <= MAX_FROM_SERVER;
        }
        let is_allowed = bytes <= self.decoded;
        if is_allowed {
            self.decoded -= bytes;
        }
        is_allowed
    }
}

/// A sample of the elements of an array, in their order.
#[derive(Debug)]
pub(super) struct Sample {
    /// The first element of each run, and the bytes of the run.
    pub(super) runs: Vec<(u64, Vec<u8>)>,
    /// Which elements these are: `all 100 values`.
    pub(super) words: String,
}

impl Sample {
    /// Reads a sample of `count` elements of `item` bytes each.
    pub(super) fn of(content: &dyn Content, item: u64, count: u64, budget: &mut Budget) -> Result<Self> {
        let bytes = count.saturating_mul(item);
        let most = if budget.is_on_server { MAX_FROM_SERVER } else { MAX_BYTES };
        let is_strided = content.strided().is_some_and(|strided| strided.span > MAX_SPAN || bytes > most);
        if is_strided {
            return Self::of_strided(content, item, count, budget);
        }
        if bytes <= most {
            let mut all = vec![0; usize::try_from(bytes).unwrap_or_default()];
            read_exact_at(content, 0, &mut all)?;
            return Ok(Self { runs: vec![(0, all)], words: format!("all {} values", grouped(count)) });
        }
        let is_cheap = content.stored().is_some() || !content.is_slow();
        if !is_cheap && !budget.allows(bytes) {
            let taken = (most / item).max(1).min(count);
            let mut first = vec![0; usize::try_from(taken.saturating_mul(item)).unwrap_or_default()];
            read_exact_at(content, 0, &mut first)?;
            let words = format!("the first {} of {} values", grouped(taken), grouped(count));
            return Ok(Self { runs: vec![(0, first)], words });
        }
        let runs = if budget.is_on_server { RUNS_ON_SERVER } else { RUNS };
        let of_run = (most / runs / item).max(1);
        let starts = starts(runs, count, of_run);
        let read = read_runs(content, &starts, item, of_run.min(count))?;
        let taken = runs.saturating_mul(of_run);
        let words = format!("a sample of {} of {} values", grouped(taken), grouped(count));
        Ok(Self { runs: starts.into_iter().zip(read).collect(), words })
    }

    /// Reads a sample of elements with strides: runs of elements that are read at once, or of a few far from each other.
    fn of_strided(content: &dyn Content, item: u64, count: u64, budget: &Budget) -> Result<Self> {
        let (most, runs) =
            if budget.is_on_server { (MAX_FROM_SERVER, RUNS_ON_SERVER) } else { (MAX_BYTES, RUNS) };
        let of_run = (most / runs / item).clamp(1, count);
        let mut sample = Vec::new();
        let mut taken = 0;
        for start in starts(runs, count, of_run) {
            let mut run = vec![0; usize::try_from(of_run.saturating_mul(item)).unwrap_or_default()];
            let mut read = 0;
            for _ in 0..FAR {
                let offset = start.saturating_mul(item).saturating_add(read as u64);
                let now = content.read_few(offset, &mut run[read..])?;
                read += now;
                // Elements that lie near each other are read at once.
                if now as u64 > item || read == run.len() {
                    break;
                }
            }
            run.truncate(read);
            taken += read as u64 / item;
            sample.push((start, run));
        }
        let words = format!("a sample of {} of {} values", grouped(taken), grouped(count));
        Ok(Self { runs: sample, words })
    }

    /// Reads a byte for each element of the runs from a mask with a byte for each element. `item` is the length of an
    /// element.
    pub(super) fn masks(&self, mask: &dyn Content, item: u64) -> Result<Vec<Vec<u8>>> {
        let mut masks = Vec::with_capacity(self.runs.len());
        for (first, run) in &self.runs {
            let mut masked = vec![0; run.len() / usize::try_from(item).unwrap_or(usize::MAX)];
            read_exact_at(mask, *first, &mut masked)?;
            masks.push(masked);
        }
        Ok(masks)
    }

    /// Says which elements the sample has, and how many of these are masked.
    pub(super) fn words_without(&self, masks: &[Vec<u8>]) -> String {
        let masked = masks.iter().flatten().filter(|byte| **byte != 0).count();
        let words = &self.words;
        if masked > 0 { format!("{words}, without {masked} masked") } else { words.clone() }
    }
}

/// Returns the first elements of evenly spaced runs of `len` elements.
fn starts(runs: u64, count: u64, len: u64) -> Vec<u64> {
    let last = u128::from(count - len.min(count));
    let start = |run: u64| last * u128::from(run) / u128::from(runs - 1);
    (0..runs).map(|run| u64::try_from(start(run)).unwrap_or_default()).collect()
}

/// Reads the runs of `len` elements that begin at `starts`.
fn read_runs(content: &dyn Content, starts: &[u64], item: u64, len: u64) -> Result<Vec<Vec<u8>>> {
    let bytes = usize::try_from(len.saturating_mul(item)).unwrap_or_default();
    if let Some((source, offset)) = on_server(content) {
        let range = |start: &u64| {
            let from = offset.saturating_add(start.saturating_mul(item));
            from..from.saturating_add(bytes as u64)
        };
        let ranges: Vec<_> = starts.iter().map(range).collect();
        return source.read_ranges(&ranges);
    }
    let mut runs = Vec::with_capacity(starts.len());
    for start in starts {
        let mut run = vec![0; bytes];
        read_exact_at(content, start.saturating_mul(item), &mut run)?;
        runs.push(run);
    }
    Ok(runs)
}

/// Returns the function that reads a real number; `None` if the type is not that of one.
pub(super) fn to_real(scalar: Option<Scalar>, byteorder: ByteOrder) -> Option<ToNumber> {
    to_number(scalar.filter(|scalar| scalar.kind() != ScalarKind::Complex)?, byteorder)
}

impl Elements {
    /// True if the elements are real numbers.
    pub(super) fn are_numbers(&self) -> bool {
        self.to_real().is_some()
    }

    /// Returns the numbers in some bytes.
    pub(super) fn numbers<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = f64> + 'b {
        let elements = bytes.chunks_exact(usize::try_from(self.item).unwrap_or(usize::MAX));
        let to_real = self.to_real();
        elements.filter_map(move |element| to_real.map(|to_real| to_real(element)))
    }

    fn to_real(&self) -> Option<ToNumber> {
        to_real(self.datatype.scalar(), self.byteorder)
    }
}

/// Returns a byte for each element of a sample of an array, not 0 if the element is masked; nothing if the array has no
/// mask.
pub(super) fn masks(
    views: &Views,
    row: &ArrayRow,
    elements: &Elements,
    sample: &Sample,
) -> Result<Vec<Vec<u8>>> {
    let Some(mask) = views.elements(&format!("{}.mask", row.path))? else { return Ok(Vec::new()) };
    if mask.datatype != Datatype::Scalar(Scalar::Bool8) || mask.count != elements.count {
        return Ok(Vec::new());
    }
    sample.masks(&*mask.content, elements.item)
}

/// Returns least, greatest, mean and the number of NaNs of an array without its masked elements, and the number of these.
pub(super) fn statistics(views: &Views, row: &ArrayRow, budget: &mut Budget) -> Result<String> {
    let Some(elements) = views.elements(&row.path)? else { return Ok(String::new()) };
    if !elements.are_numbers() || elements.count == 0 {
        return Ok(String::new());
    }
    let sample = Sample::of(&*elements.content, elements.item, elements.count, budget)?;
    let mut least = f64::INFINITY;
    let mut greatest = f64::NEG_INFINITY;
    let mut sum = 0.0;
    let mut finite: u64 = 0;
    let mut nans: u64 = 0;
    let mut masked: u64 = 0;
    let masks = masks(views, row, &elements, &sample)?;
    for (n, (_, run)) in sample.runs.iter().enumerate() {
        let mask = masks.get(n).map(Vec::as_slice).unwrap_or_default();
        for (k, number) in elements.numbers(run).enumerate() {
            if mask.get(k).is_some_and(|is_masked| *is_masked != 0) {
                masked += 1;
            } else if number.is_nan() {
                nans += 1;
            } else {
                least = least.min(number);
                greatest = greatest.max(number);
                if number.is_finite() {
                    sum += number;
                    finite += 1;
                }
            }
        }
    }
    let mut text = String::new();
    if least <= greatest {
        text = format!("{} … {}", short_number(least), short_number(greatest));
        if finite > 0 {
            text += &format!(", mean {}", short_number(sum / finite as f64));
        }
    }
    if nans > 0 {
        text += &format!("{}{nans} NaN", if text.is_empty() { "" } else { ", " });
    }
    if masked > 0 {
        text += &format!("{}without {masked} masked", if text.is_empty() { "" } else { ", " });
    }
    Ok(format!("{} <small>({})</small>", escape(&text), escape(&sample.words)))
}
