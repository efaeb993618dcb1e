//! The cards of a slice of world coordinates (`astropy/wcs/slicedwcs`).
//!
//! A pixel axis that a slice keeps begins at `start`: `CRPIX` moves by it, and a step multiplies the increments. A pixel
//! axis that a slice drops becomes an axis behind those of the image, so that `WCSAXES` is greater than `NAXIS`: FITS
//! readers take the first pixel there.

use super::card::{Cards, Value};
use super::frames::MAX_AXES;
use crate::yaml::scalar::Type;
use crate::yaml::survey::TreeNode;

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

/// Returns the cards of a slice of the world coordinates in `cards`, one slice for each pixel axis.
///
/// # Errors
/// The reason why no cards can express it.
pub(super) fn cards(cards: &Cards, slices: &[AxisSlice]) -> Result<Cards, String> {
    let axes = cards.number("WCSAXES").unwrap_or(slices.len() as f64);
    if axes != slices.len() as f64 || slices.len() > MAX_AXES {
        return Err("its slices are not as many as its pixel axes".to_owned());
    }
    let is_dropped = |slice: &&AxisSlice| matches!(slice, AxisSlice::Pixel(_));
    let has_step = |slice: &AxisSlice| matches!(slice, AxisSlice::Range { step: 2.., .. });
    let changes_axes = slices.iter().any(|slice| is_dropped(&slice) || has_step(slice));
    let keywords: Vec<String> = cards.keywords().map(str::to_owned).collect();
    let has =
        |starts: &[&str]| keywords.iter().any(|name| starts.iter().any(|start| name.starts_with(start)));
    if changes_axes && has(&DISTORTIONS) {
        return Err(
            "a slice of a distortion, with a step or without one of its axes, has no cards".to_owned()
        );
    }
    if changes_axes && has(&["CROTA"]) {
        return Err("a slice of coordinates with CROTA has no cards".to_owned());
    }
    let has_matrix = |name: &str| (1..=MAX_AXES).any(|row| has(&[&format!("{name}{row}_")]));
    // The new number of each axis: those of the image first.
    let kept = slices.len() - slices.iter().filter(is_dropped).count();
    let mut next = [1, kept + 1];
    let numbers: Vec<usize> = slices
        .iter()
        .map(|slice| {
            let next = &mut next[usize::from(is_dropped(&slice))];
            *next += 1;
            *next - 1
        })
        .collect();
    let mut sliced = cards.renamed(&|keyword| renumbered(keyword, &numbers));
    if kept < slices.len() {
        sliced.replace("WCSAXES", Value::Int(slices.len() as i128), "Number of coordinate axes");
    }
    for (n, slice) in slices.iter().enumerate() {
        let (start, step) = match slice {
            AxisSlice::Range { start, step, .. } => (*start, *step as f64),
            AxisSlice::Pixel(pixel) => (*pixel, 1.0),
        };
        let number = numbers[n];
        let keyword = format!("CRPIX{number}");
        let reference = sliced.number(&keyword).unwrap_or(0.0);
        let reference = (reference - start as f64 - 1.0) / step + 1.0;
        sliced.replace(&keyword, Value::Float(reference), "pixel coordinate of reference point");
        if step == 1.0 {
            continue;
        }
        if !has_matrix("PC") && !has_matrix("CD") {
            let keyword = format!("CDELT{number}");
            let increment = sliced.number(&keyword).unwrap_or(1.0) * step;
            sliced.replace(&keyword, Value::Float(increment), "coordinate increment");
            continue;
        }
        let name = if has_matrix("CD") { "CD" } else { "PC" };
        for row in 1..=slices.len() {
            let keyword = format!("{name}{row}_{number}");
            let usual = if name == "PC" && row == number { 1.0 } else { 0.0 };
            let value = sliced.number(&keyword).unwrap_or(usual) * step;
            if value != 0.0 {
                sliced.replace(&keyword, Value::Float(value), "coordinate transformation matrix");
            }
        }
    }
    Ok(sliced)
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
