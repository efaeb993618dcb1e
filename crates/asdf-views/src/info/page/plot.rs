//! Curves as SVG.

use seekable::error::Result;

use seekable::content::short_number;

use super::arrays::{ArrayRow, Elements, Views};
use super::html::{cut, escape, link};
use super::sample::{Budget, Sample, masks};

/// The space for a plot in bytes.
pub(super) const RESERVED: usize = 8200;
/// Size of the drawing.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 110.0;
/// The number of columns in which the points are gathered.
const COLUMNS: usize = 180;

/// Returns the plot of a one-dimensional array.
pub(super) fn of_array(views: &Views, row: &ArrayRow, budget: &mut Budget) -> Result<String> {
    let Some(elements) = views.elements(&row.path)? else { return Ok(String::new()) };
    if !elements.are_numbers() || elements.count < 2 {
        return Ok(String::new());
    }
    let sample = Sample::of(&*elements.content, elements.item, elements.count, budget)?;
    let path = cut(&row.path, 150);
    let file = format!("arrays/{}.npy", row.path);
    // A link of an unusually long path does not fit.
    let name = if file.len() < 600 { link(&file, &path) } else { escape(&path) };
    let masks = masks(views, row, &elements, &sample)?;
    let curve = Curve::of_sample(&elements, &sample, &masks);
    Ok(format!(
        "<figure>{}<figcaption>{name}</figcaption></figure>",
        curve.svg(&path, &sample.words_without(&masks))
    ))
}

/// The least and greatest number in each column of a plot.
#[derive(Debug)]
pub(super) struct Curve {
    columns: Vec<Option<(f64, f64)>>,
    /// The numbers at the left and the right end.
    from: f64,
    to: f64,
}

impl Curve {
    pub(super) fn new(from: f64, to: f64) -> Self {
        Self { columns: vec![None; COLUMNS], from, to }
    }

    /// Gathers the elements of a sample that are not masked by their index.
    fn of_sample(elements: &Elements, sample: &Sample, masks: &[Vec<u8>]) -> Self {
        let last = elements.count.saturating_sub(1) as f64;
        let mut curve = Self::new(0.0, last);
        for (n, (first, run)) in sample.runs.iter().enumerate() {
            let mask = masks.get(n).map(Vec::as_slice).unwrap_or_default();
            for (k, number) in elements.numbers(run).enumerate() {
                if mask.get(k).is_none_or(|is_masked| *is_masked == 0) {
                    curve.add((*first + k as u64) as f64, number);
                }
            }
        }
        curve
    }

    pub(super) fn add(&mut self, x: f64, y: f64) {
        let part = (x - self.from) / (self.to - self.from);
        if !part.is_finite() || !y.is_finite() {
            return;
        }
        let column = (part.clamp(0.0, 1.0) * (COLUMNS - 1) as f64).round() as usize;
        if let Some(column) = self.columns.get_mut(column) {
            let (least, greatest) = column.unwrap_or((y, y));
            *column = Some((least.min(y), greatest.max(y)));
        }
    }

    /// Returns the drawing. `words` says which values it shows.
    pub(super) fn svg(&self, name: &str, words: &str) -> String {
        let all = || self.columns.iter().flatten();
        let least = all().map(|(least, _)| *least).fold(f64::INFINITY, f64::min);
        let greatest = all().map(|(_, greatest)| *greatest).fold(f64::NEG_INFINITY, f64::max);
        if least > greatest {
            return format!("<p>{}: no finite number in {}</p>", escape(name), escape(words));
        }
        // Halves, because the range itself may overflow.
        let range = greatest / 2.0 - least / 2.0;
        let height = |y: f64| {
            let part = if range > 0.0 { (y / 2.0 - least / 2.0) / range } else { 0.5 };
            HEIGHT - 4.0 - part * (HEIGHT - 8.0)
        };
        let mut path = String::new();
        let mut is_down = false;
        for (n, column) in self.columns.iter().enumerate() {
            let Some((low, high)) = column else { continue };
            let x = n as f64 / (COLUMNS - 1) as f64 * (WIDTH - 4.0) + 2.0;
            path += &format!("{}{x:.0} {:.1}", if is_down { 'L' } else { 'M' }, height(*low));
            if low < high {
                path += &format!("V{:.1}", height(*high));
            }
            is_down = true;
        }
        let name = escape(name);
        let words = escape(words);
        let low = short_number(least);
        let high = short_number(greatest);
        let from = short_number(self.from);
        let to = short_number(self.to);
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{name}: from {low} to {high}, \
             {words}\"><path d=\"{path}\"/></svg><p class=\"axis\"><span>{from}</span><span>{low} … {high} \
             ({words})</span><span>{to}</span></p>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_keeps_its_extremes_and_fits() {
        let mut curve = Curve::new(0.0, 1e6);
        for n in 0..1_000_000 {
            curve.add(f64::from(n), if n == 777_777 { 5e300 } else { f64::from(n % 7) });
        }
        let svg = curve.svg(&"<".repeat(150), "a sample of 100000000 of 100000000000 values");
        assert!(svg.contains("0 … 5e300") && !svg.contains("<<"), "{svg}");
        assert!(svg.len() + 1400 < RESERVED, "{}", svg.len());
        let mut jagged = Curve::new(0.0, 1000.0);
        for n in 0..1000 {
            jagged.add(f64::from(n), f64::from(n % 2 * 1000));
            jagged.add(f64::from(n), f64::NAN);
        }
        assert!(jagged.svg("x", "y").len() + 3000 < RESERVED);
        assert!(Curve::new(0.0, 0.0).svg("x", "all 1 values").contains("no finite number"));
        let mut flat = Curve::new(0.0, 2.0);
        flat.add(1.0, -f64::MAX);
        flat.add(2.0, f64::MAX);
        assert!(flat.svg("x", "").contains("M181 106.0L358 4.0"));
    }
}
