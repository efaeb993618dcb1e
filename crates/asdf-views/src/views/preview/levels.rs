//! Levels from 0 to 255 for numbers: grey between the limits of zscale, flags by their highest bit, and colors.

use seekable::content::short_number;

/// Maximum number of pixels from which the limits are computed.
const MAX_SAMPLES: usize = 1 << 16;
/// The part of the range of a fitted line that is shown, as in IRAF and DS9.
const CONTRAST: f64 = 0.25;
/// Maximum number of fits.
const MAX_FITS: usize = 5;
/// Pixels that deviate from the line by more standard deviations than this are rejected.
const REJECTED_BEYOND: f64 = 2.5;
/// The least number of pixels that a fit needs, and the least part of all.
const MIN_FITTED: usize = 5;
const MIN_FITTED_PART: f64 = 0.5;
/// For each pixel that is rejected, this part of all is rejected around it.
const REJECTED_AROUND: f64 = 0.01;
/// The limits of zscale are not used if they span less than this part of what the percentiles span: they then show the
/// noise of a computation, or a single value.
const MIN_SPAN: f64 = 1e-3;
/// The fraction of the numbers that lie below the least of the percentiles, and the fraction above the greatest.
const OUTSIDE: f64 = 0.005;
/// The grey level of a picture if the range of its numbers is 0.
const MIDDLE: u8 = 127;
/// The least grey level of a flag.
const FLAG: f64 = 64.0;

/// The numbers shown as the least and the greatest level, and the rule that found them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    rule: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    Zscale,
    Percentiles,
    Extremes,
    /// Logarithms of flags, from 1 to the greatest.
    Flags,
    /// The levels that a color can have in numbers of its type.
    Colors,
}

impl Scale {
    /// Returns the scale for these numbers, as zscale of IRAF and DS9 finds it; if nearly all numbers are equal, from the
    /// 0.5th to the 99.5th percentile, or else from the least to the greatest.
    pub(super) fn of(numbers: &[f64]) -> Self {
        let mut sorted: Vec<f64> = sampled(numbers).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else {
            return Self { low: 0.0, high: 0.0, rule: Rule::Extremes };
        };
        let ranked = |rank: f64| sorted[((rank * last as f64).round() as usize).min(last)];
        let percentiles = Self { low: ranked(OUTSIDE), high: ranked(1.0 - OUTSIDE), rule: Rule::Percentiles };
        let zscale = zscale(&sorted);
        if zscale.span() > 0.0 && zscale.span() >= percentiles.span() * MIN_SPAN {
            return zscale;
        }
        if percentiles.span() > 0.0 {
            return percentiles;
        }
        let finite = || numbers.iter().copied().filter(|number| number.is_finite());
        let low = finite().fold(f64::INFINITY, f64::min);
        let high = finite().fold(f64::NEG_INFINITY, f64::max);
        Self { low, high, rule: Rule::Extremes }
    }

    /// Returns the scale for flags.
    pub(super) fn of_flags(flags: &[f64]) -> Self {
        Self { low: 1.0, high: flags.iter().copied().fold(1.0, f64::max), rule: Rule::Flags }
    }

    /// Returns the scale for colors, where `largest` is the greatest number of an integer type. Floats reach from 0 to 1,
    /// or from 0 to 255; any others are shown between their percentiles.
    pub(super) fn of_colors(numbers: &[f64], largest: Option<f64>) -> Self {
        let of_type = |high| Self { low: 0.0, high, rule: Rule::Colors };
        if let Some(largest) = largest {
            return of_type(largest);
        }
        let finite = || numbers.iter().filter(|number| number.is_finite());
        let lie_below = |high: f64| finite().all(|number| (0.0..=high).contains(number));
        if lie_below(1.0) {
            of_type(1.0)
        } else if lie_below(255.0) {
            of_type(255.0)
        } else {
            Self::of(numbers)
        }
    }

    /// Half of the range, because the range itself may overflow.
    fn span(self) -> f64 {
        self.high / 2.0 - self.low / 2.0
    }

    /// Returns the scale in words.
    pub(super) fn note(self) -> String {
        let low = short_number(self.low);
        let high = short_number(self.high);
        match self.rule {
            Rule::Zscale => format!("linear from {low} to {high} (zscale)"),
            Rule::Percentiles => format!("linear from {low} to {high} (0.5 and 99.5 percent)"),
            Rule::Extremes => format!("linear from {low} to {high} (least and greatest)"),
            Rule::Flags => format!("highest flag, logarithmic to {high}; black: none"),
            Rule::Colors => format!("colors from {low} to {high}"),
        }
    }

    /// Returns the level of a number. That of NaN is 0.
    pub(super) fn level(self, number: f64) -> u8 {
        let span = self.span();
        let part = |part: f64| (part.clamp(0.0, 1.0) * 255.0).round() as u8;
        if self.rule == Rule::Flags {
            if number < 1.0 {
                return 0;
            }
            let bits = if self.high > 1.0 { number.log2() / self.high.log2() } else { 1.0 };
            (FLAG + bits.clamp(0.0, 1.0) * (255.0 - FLAG)).round() as u8
        } else if number.is_nan() {
            0
        } else if span > 0.0 {
            part((number / 2.0 - self.low / 2.0) / span)
        } else if number > self.high {
            // If all finite numbers are equal, an infinite one is still white or black.
            255
        } else if number < self.low {
            0
        } else {
            MIDDLE
        }
    }
}

/// Returns the finite ones among the numbers, or among [`MAX_SAMPLES`] of them that are spread evenly.
fn sampled(numbers: &[f64]) -> impl Iterator<Item = f64> {
    // Multiples of the golden ratio, modulo 1, are spread evenly and fall into no column of a picture.
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let len = numbers.len();
    let place = move |n: usize| {
        if len <= MAX_SAMPLES {
            return n;
        }
        let part = (n as u64).wrapping_mul(GOLDEN);
        ((u128::from(part) * len as u128) >> 64) as usize
    };
    (0..len.min(MAX_SAMPLES)).map(move |n| numbers[place(n)]).filter(|number| number.is_finite())
}

/// Returns the limits that zscale finds in sorted numbers, of which there is one at least: those of a line that is fitted
/// to the numbers by their rank, without those that are far from it, and made steeper.
fn zscale(sorted: &[f64]) -> Scale {
    let count = sorted.len();
    let low = sorted[0];
    let high = sorted[count - 1];
    let extremes = Scale { low, high, rule: Rule::Zscale };
    let needed = MIN_FITTED.max((count as f64 * MIN_FITTED_PART) as usize);
    let around = ((count as f64 * REJECTED_AROUND) as usize).max(1);
    let mut is_rejected = vec![false; count];
    let mut fitted = count;
    let mut fitted_before = count + 1;
    let mut slope = 0.0;
    for _ in 0..MAX_FITS {
        if fitted >= fitted_before || fitted < needed {
            break;
        }
        let line = FittedLine::through(sorted, &is_rejected);
        slope = line.slope;
        let deviation = |rank: usize| sorted[rank] - line.at(rank);
        let kept = || (0..count).filter(|rank| !is_rejected[*rank]);
        let mean = kept().map(deviation).sum::<f64>() / fitted as f64;
        let variance = kept().map(|rank| (deviation(rank) - mean).powi(2)).sum::<f64>() / fitted as f64;
        let threshold = REJECTED_BEYOND * variance.sqrt();
        let far: Vec<bool> =
            (0..count).map(|rank| is_rejected[rank] || deviation(rank).abs() > threshold).collect();
        is_rejected = grown(&far, around);
        fitted_before = fitted;
        fitted = is_rejected.iter().filter(|is_rejected| !**is_rejected).count();
    }
    if fitted < needed {
        return extremes;
    }
    let slope = slope / CONTRAST;
    let center = (count - 1) / 2;
    let median = sorted[center] / 2.0 + sorted[count / 2] / 2.0;
    let below = center as f64 - 1.0;
    let above = (count - center) as f64;
    Scale { low: low.max(median - below * slope), high: high.min(median + above * slope), rule: Rule::Zscale }
}

/// Returns which ranks are at most half of `around` from one that is true, as the convolution with a window of that
/// length.
fn grown(far: &[bool], around: usize) -> Vec<bool> {
    let mut sums = vec![0_usize];
    for is_far in far {
        sums.push(sums[sums.len() - 1] + usize::from(*is_far));
    }
    let after = (around - 1) / 2;
    let before = around - 1 - after;
    (0..far.len())
        .map(|rank| sums[(rank + after + 1).min(far.len())] > sums[rank.saturating_sub(before)])
        .collect()
}

/// A line through numbers by their rank.
struct FittedLine {
    slope: f64,
    mean: f64,
    mean_rank: f64,
}

impl FittedLine {
    /// Fits a line to the numbers that are not rejected by least squares.
    fn through(sorted: &[f64], is_rejected: &[bool]) -> Self {
        let kept = || sorted.iter().enumerate().filter(|(rank, _)| !is_rejected[*rank]);
        let count = kept().count().max(1) as f64;
        // Each is divided first, because the sum may overflow.
        let mean: f64 = kept().map(|(_, number)| number / count).sum();
        let mean_rank = kept().map(|(rank, _)| rank as f64).sum::<f64>() / count;
        let mut products = 0.0;
        let mut squares = 0.0;
        for (rank, number) in kept() {
            let from_mean = rank as f64 - mean_rank;
            products += from_mean * (number - mean);
            squares += from_mean * from_mean;
        }
        Self { slope: if squares > 0.0 { products / squares } else { 0.0 }, mean, mean_rank }
    }

    fn at(&self, rank: usize) -> f64 {
        self.mean + (rank as f64 - self.mean_rank) * self.slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sky_is_shown_as_zscale_does() {
        let numbers: Vec<f64> = (0..=1000).map(f64::from).collect();
        let scale = Scale::of(&numbers);
        assert_eq!((scale.low, scale.high, scale.rule), (0.0, 1000.0, Rule::Zscale));
        assert_eq!(
            [0.0, 250.0, 500.0, 1000.0, 2e9].map(|number| scale.level(number)),
            [0, 64, 128, 255, 255]
        );
        // A flat sky with a star in each hundredth pixel.
        let sky: Vec<f64> = (0..10_000)
            .map(|n| if n % 100 == 0 { 5000.0 } else { 100.0 + f64::from(n * 37 % 1000) / 100.0 })
            .collect();
        let scale = Scale::of(&sky);
        assert!(
            scale.rule == Rule::Zscale && scale.low == 100.01 && (100.0..160.0).contains(&scale.high),
            "{scale:?}"
        );
        // astropy.visualization.ZScaleInterval(n_samples=200).get_limits(numpy.concatenate([numpy.arange(150.),
        // numpy.arange(50) ** 2 * 100.]))
        let mut numbers: Vec<f64> = (0..150).map(f64::from).collect();
        numbers.extend((0..50).map(|n| f64::from(n * n) * 100.0));
        numbers.sort_unstable_by(f64::total_cmp);
        let scale = zscale(&numbers);
        assert!(scale.low == 0.0 && (scale.high - 17_204.844_537_815_123).abs() < 1e-8, "{scale:?}");
    }

    #[test]
    fn pictures_without_a_range_are_grey() {
        for numbers in [&[3.5; 9][..], &[f64::NAN, 3.5, 3.5]] {
            assert_eq!(Scale::of(numbers).level(3.5), MIDDLE);
        }
        let none = Scale::of(&[f64::NAN, f64::INFINITY]);
        assert_eq!((none.level(f64::NAN), none.level(f64::INFINITY)), (0, 255));
        // A single number among many zeros is visible.
        let mut numbers = vec![0.0; 100_000];
        numbers[7] = 4.0;
        assert_eq!((Scale::of(&numbers).level(4.0), Scale::of(&numbers).level(0.0)), (255, 0));
        let far = Scale::of(&[-f64::MAX, f64::MAX]);
        assert_eq!((far.level(-f64::MAX), far.level(f64::MAX)), (0, 255));
    }

    #[test]
    fn each_flag_differs_from_none_and_from_others() {
        let levels = |flags: &[f64]| {
            let scale = Scale::of_flags(flags);
            flags.iter().map(|flag| scale.level(*flag)).collect::<Vec<u8>>()
        };
        assert_eq!(levels(&[0.0, 1.0, 2.0, 2_147_483_648.0]), [0, 64, 70, 255]);
        assert_eq!(levels(&[0.0, 1.0]), [0, 255]);
        assert_eq!(levels(&[0.0, 0.0]), [0, 0]);
    }

    #[test]
    fn colors_have_the_levels_of_their_type() {
        let level = |numbers: &[f64], largest| Scale::of_colors(numbers, largest).level(numbers[0]);
        assert_eq!(level(&[100.0, 3.0], Some(255.0)), 100);
        assert_eq!(level(&[25_700.0], Some(65_535.0)), 100);
        assert_eq!(level(&[0.2, f64::NAN], None), 51);
        assert_eq!(level(&[51.0, 2.0], None), 51);
        assert_eq!(level(&[-3.0, 2.0, 7.0], None), 0);
    }
}
