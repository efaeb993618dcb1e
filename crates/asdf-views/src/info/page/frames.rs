//! Some frames of a trajectory, as small drawings beside each other.

use seekable::error::Result;

use seekable::content::read_exact_at;

use super::arrays::Views;

/// The space for the drawings in bytes.
pub(super) const RESERVED: usize = 36 << 10;
/// Maximum number of frames, and of particles in one.
const FRAMES: u64 = 6;
const PARTICLES: u64 = 400;
/// Maximum number of bytes that are read of a frame.
const MAX_BYTES: u64 = 1 << 20;
/// The size of a drawing.
const SIDE: f64 = 120.0;

/// Returns drawings of evenly spaced frames.
pub(super) fn html(views: &Views) -> Result<String> {
    let count = views.frames()?;
    let shown = count.min(FRAMES);
    let mut numbers: Vec<u64> = (0..shown)
        .map(|n| {
            let place = u128::from(n) * u128::from(count - 1) / u128::from((shown - 1).max(1));
            u64::try_from(place).unwrap_or_default()
        })
        .collect();
    numbers.dedup();
    let mut text = String::from("<div class=\"frames\">");
    for number in numbers {
        if let Some(frame) = frame(views, number, count)? {
            text += &frame;
        }
    }
    Ok(text + "</div>")
}

fn numbers(views: &Views, path: &str, most: u64) -> Result<Option<(Vec<f64>, u64)>> {
    let Some(elements) = views.elements(path)? else { return Ok(None) };
    let bytes = elements.count.saturating_mul(elements.item).min(most / elements.item * elements.item);
    let mut buffer = vec![0; usize::try_from(bytes).unwrap_or_default()];
    read_exact_at(&*elements.content, 0, &mut buffer)?;
    Ok(Some((elements.numbers(&buffer).collect(), elements.count)))
}

fn frame(views: &Views, number: u64, count: u64) -> Result<Option<String>> {
    let path = |name: &str| format!("resolved/{number}/{name}");
    let Some((positions, of_all)) = numbers(views, &path("particles/position"), MAX_BYTES)? else {
        return Ok(None);
    };
    let particles = positions.len() as u64 / 3;
    let sides = numbers(views, &path("configuration/box"), 4096)?.map_or(Vec::new(), |(sides, _)| sides);
    let extent = |axis: usize| {
        let farthest = positions.iter().skip(axis).step_by(3).filter(|x| x.is_finite());
        let farthest = farthest.fold(0.0_f64, |most, x| most.max(x.abs()));
        let half = sides.get(axis).copied().unwrap_or(0.0) / 2.0;
        let half = if half.is_finite() { half.max(farthest) } else { farthest };
        if half > 0.0 { half } else { 1.0 }
    };
    let across = extent(0);
    let up = extent(1);
    let largest = across.max(up);
    let step = particles.div_ceil(PARTICLES).max(1);
    let mut dots = String::new();
    let mut drawn = 0;
    for particle in positions.chunks_exact(3).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let x = SIDE / 2.0 + particle[0] / largest * (SIDE / 2.0 - 3.0);
        let y = SIDE / 2.0 - particle[1] / largest * (SIDE / 2.0 - 3.0);
        if x.is_finite() && y.is_finite() {
            dots += &format!("M{x:.0} {y:.0}h0");
            drawn += 1;
        }
    }
    let all = of_all / 3;
    let width = across / largest * (SIDE - 6.0);
    let height = up / largest * (SIDE - 6.0);
    let left = (SIDE - width) / 2.0;
    let top = (SIDE - height) / 2.0;
    Ok(Some(format!(
        "<div><svg viewBox=\"0 0 {SIDE} {SIDE}\" role=\"img\" aria-label=\"Frame {number} of {count}: {drawn} of {all} \
         particles\"><rect x=\"{left:.0}\" y=\"{top:.0}\" width=\"{width:.0}\" height=\"{height:.0}\"/><path \
         class=\"dots\" d=\"{dots}\"/></svg><p>frame {number}: {all} particles</p></div>"
    )))
}
