//! The cards of a slice of world coordinates (`astropy/wcs/slicedwcs`), or of pixels of another size
//! (`ndcube/resampledwcs`).
//!
//! A pixel axis that a slice keeps begins at `start`: `CRPIX` moves by it, and a step multiplies the increments. A pixel
//! axis that a slice drops becomes an axis behind those of the image, so that `WCSAXES` is greater than `NAXIS`: FITS
//! readers take the first pixel there.

use asdf_tree::yaml::scalar::Type;
use asdf_tree::yaml::survey::TreeNode;

use super::card::{Cards, Value};
use super::frames::MAX_AXES;

/// Keywords that are numbered by the pixel axis, or by the world coordinate.
const OF_PIXELS: [&str; 1] = ["CRPIX"];
const OF_WORLD: [&str; 8] = ["CDELT", "CRVAL", "CTYPE", "CUNIT", "CNAME", "CRDER", "CSYER", "CROTA"];
/// Keywords that are numbered by the world coordinate and the pixel axis, or a parameter of the coordinate.
const OF_BOTH: [&str; 2] = ["PC", "CD"];
const OF_PARAMETER: [&str; 2] = ["PV", "PS"];
/// Starts of the keywords of distortions.
const DISTORTIONS: [&str; 6] = ["A_", "B_", "AP_", "BP_", "CPDIS", "DP"];

/// A slice of a pixel axis.
#[derive(Clone, Copy, Debug)]
pub(super) enum AxisSlice {
    /// All pixels from `start` on, or each `step`th one, up to `stop`.
    Range { start: u64, stop: Option<u64>, step: u64 },
    /// One pixel.
    Pixel(u64),
}

impl AxisSlice {
    /// Reads the slices of a node, the fastest-varying axis first; `None` if they are not valid.
    pub(super) fn read_all(node: &TreeNode) -> Option<Vec<Self>> {
        let list = node.get("slices_array")?.items()?;
        list.iter().rev().map(Self::read).collect()
    }

    fn read(node: &TreeNode) -> Option<Self> {
        let index = |node: &TreeNode| u64::try_from(node.integer()?).ok();
        if let Some(pixel) = index(node) {
            return Some(Self::Pixel(pixel));
        }
        let end = |key: &str| match node.get(key) {
            None => Some(None),
            Some(end) if end.scalar_type() == Some(Type::Null) => Some(None),
            Some(end) => index(end).map(Some),
        };
        node.is_whole().then_some(())?;
        let step = end("step")?.unwrap_or(1);
        (step > 0).then_some(())?;
        Some(Self::Range { start: end("start")?.unwrap_or(0), stop: end("stop")?, step })
    }

    /// Returns what the slice does to its axis.
    pub(super) fn change(self) -> AxisChange {
        match self {
            Self::Range { start, step, .. } => {
                AxisChange { shift: start as f64, scale: step as f64, is_dropped: false }
            }
            Self::Pixel(pixel) => AxisChange { shift: pixel as f64, scale: 1.0, is_dropped: true },
        }
    }

    /// Returns the length of the slice of an axis, whose length is `len` if it is known; `None` for a single pixel.
    pub(super) fn len(self, len: Option<u64>) -> Option<Option<u64>> {
        let Self::Range { start, stop, step } = self else { return None };
        let end = match (stop, len) {
            (Some(stop), Some(len)) => Some(stop.min(len)),
            (stop, len) => stop.or(len),
        };
        Some(end.map(|end| end.saturating_sub(start).div_ceil(step)))
    }
}

/// New pixels of an axis: pixel `n` is the old pixel `shift + scale * n`, from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisChange {
    shift: f64,
    scale: f64,
    is_dropped: bool,
}

impl AxisChange {
    /// Returns pixels that are larger by a factor. The first one begins `offset` old pixels after the first old one: the
    /// edges count, not the centres.
    pub(super) fn resampled(factor: f64, offset: f64) -> Option<Self> {
        let shift = offset + (factor - 1.0) / 2.0;
        (factor > 0.0 && shift.is_finite()).then_some(Self { shift, scale: factor, is_dropped: false })
    }
}

/// Returns the cards of the world coordinates in `cards` for new pixels of each axis.
///
/// # Errors
/// The reason why no cards can express it.
pub(super) fn cards(cards: &Cards, changes: &[AxisChange]) -> Result<Cards, String> {
    let axes = cards.number("WCSAXES").unwrap_or(changes.len() as f64);
    if axes != changes.len() as f64 || changes.len() > MAX_AXES {
        return Err("its slices are not as many as its pixel axes".to_owned());
    }
    let changes_axes = changes.iter().any(|change| change.is_dropped || change.scale != 1.0);
    let keywords: Vec<String> = cards.keywords().map(str::to_owned).collect();
    let has =
        |starts: &[&str]| keywords.iter().any(|name| starts.iter().any(|start| name.starts_with(start)));
    if changes_axes && has(&DISTORTIONS) {
        return Err("a distortion has no cards with other steps, or without one of its axes".to_owned());
    }
    if changes_axes && has(&["CROTA"]) {
        return Err("CROTA has no cards with other steps, or without one of its axes".to_owned());
    }
    let has_matrix = |name: &str| (1..=MAX_AXES).any(|row| has(&[&format!("{name}{row}_")]));
    // The new number of each axis: those of the image first.
    let kept = changes.iter().filter(|change| !change.is_dropped).count();
    let mut next = [1, kept + 1];
    let numbers: Vec<usize> = changes
        .iter()
        .map(|change| {
            let next = &mut next[usize::from(change.is_dropped)];
            *next += 1;
            *next - 1
        })
        .collect();
    let mut sliced = cards.renamed(&|keyword| renumbered(keyword, &numbers));
    if kept < changes.len() {
        sliced.replace("WCSAXES", Value::Int(changes.len() as i128), "Number of coordinate axes");
    }
    for (AxisChange { shift, scale, .. }, number) in changes.iter().zip(numbers) {
        let keyword = format!("CRPIX{number}");
        let reference = sliced.number(&keyword).unwrap_or(0.0);
        let reference = (reference - shift - 1.0) / scale + 1.0;
        sliced.replace(&keyword, Value::Float(reference), "pixel coordinate of reference point");
        if *scale == 1.0 {
            continue;
        }
        if !has_matrix("PC") && !has_matrix("CD") {
            let keyword = format!("CDELT{number}");
            let increment = sliced.number(&keyword).unwrap_or(1.0) * scale;
            sliced.replace(&keyword, Value::Float(increment), "coordinate increment");
            continue;
        }
        let name = if has_matrix("CD") { "CD" } else { "PC" };
        for row in 1..=changes.len() {
            let keyword = format!("{name}{row}_{number}");
            let usual = if name == "PC" && row == number { 1.0 } else { 0.0 };
            let value = sliced.number(&keyword).unwrap_or(usual) * scale;
            if value != 0.0 {
                sliced.replace(&keyword, Value::Float(value), "coordinate transformation matrix");
            }
        }
    }
    Ok(sliced)
}

/// Returns the cards of a part of an image, whose first pixel is `corner`, counted from 0.
pub(super) fn of_part(cards: &Cards, corner: &[u64]) -> Cards {
    let mut part = cards.clone();
    for (n, start) in (1..).zip(corner).filter(|(_, start)| **start > 0) {
        let usual = format!("CRPIX{n}");
        let physical = format!("LTV{n}");
        // Alternative world coordinates have a letter at the end.
        let is_moved = |keyword: &str| {
            let rest = keyword.strip_prefix(&usual).or_else(|| keyword.strip_prefix(&physical));
            rest.is_some_and(|rest| rest.is_empty() || matches!(rest.as_bytes(), [b'A'..=b'Z']))
        };
        let mut keywords: Vec<String> =
            cards.keywords().filter(|keyword| is_moved(keyword)).map(str::to_owned).collect();
        let has_world = cards.keywords().any(|keyword| keyword.starts_with("CTYPE"));
        if has_world && !keywords.contains(&usual) {
            keywords.push(usual.clone());
        }
        for keyword in keywords {
            let moved = cards.number(&keyword).unwrap_or(0.0) - *start as f64;
            part.replace(&keyword, Value::Float(moved), "pixel coordinate of reference point");
        }
    }
    part
}

/// Returns a keyword with the new numbers of its axes.
fn renumbered(keyword: &str, numbers: &[usize]) -> Option<String> {
    let new = |digits: &str| numbers.get(digits.parse::<usize>().ok()?.checked_sub(1)?);
    for name in OF_PIXELS.iter().chain(&OF_WORLD) {
        if let Some(number) = keyword.strip_prefix(name).and_then(new) {
            return Some(format!("{name}{number}"));
        }
    }
    for (name, has_axis) in
        OF_BOTH.iter().map(|name| (name, true)).chain(OF_PARAMETER.iter().map(|name| (name, false)))
    {
        let Some((row, column)) = keyword.strip_prefix(name).and_then(|rest| rest.split_once('_')) else {
            continue;
        };
        let (Some(row), Ok(number)) = (new(row), column.parse::<usize>()) else { continue };
        let column = if has_axis { *new(column)? } else { number };
        return Some(format!("{name}{row}_{column}"));
    }
    None
}
