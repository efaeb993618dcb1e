//! Grey levels for numbers, by an inverse hyperbolic sine between robust percentiles.

use crate::content::short_number;

/// The fraction of the numbers that lie below the darkest level, and the fraction above the brightest level.
const OUTSIDE: f64 = 0.005;
/// The fraction of the range where the scale changes from linear to logarithmic; astropy's default.
const BEND: f64 = 0.1;
/// The grey level of a picture if the range of its numbers is 0.
const MIDDLE: u8 = 127;

/// The numbers shown as the darkest and the brightest level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// Returns the scale for these numbers. If nearly all numbers are equal, the scale reaches from the least
    /// to the greatest.
    pub(super) fn of(numbers: &[f64]) -> Self {
        let mut finite: Vec<f64> = numbers.iter().copied().filter(|number| number.is_finite()).collect();
        let Some(last) = finite.len().checked_sub(1) else { return Self { low: 0.0, high: 0.0 } };
        let mut ranked = |rank: f64| {
            let place = (rank * last as f64).round() as usize;
            *finite.select_nth_unstable_by(place.min(last), f64::total_cmp).1
        };
        let low = ranked(OUTSIDE);
        let high = ranked(1.0 - OUTSIDE);
        if low < high { Self { low, high } } else { Self { low: ranked(0.0), high: ranked(1.0) } }
    }

    /// Returns the scale in words.
    pub(super) fn note(self) -> String {
        let low = short_number(self.low);
        let high = short_number(self.high);
        format!("asinh stretch from {low} to {high} (0.5 and 99.5 percent)")
    }

    /// Returns the grey level and the alpha of a number. NaN is transparent.
    pub(super) fn pixel(self, number: f64) -> [u8; 2] {
        if number.is_nan() {
            return [0, 0];
        }
        // Half of the range, because the range itself may overflow.
        let range = self.high / 2.0 - self.low / 2.0;
        let level = if range > 0.0 {
            let part = ((number / 2.0 - self.low / 2.0) / range).clamp(0.0, 1.0);
            (asinh(part / BEND) / asinh(1.0 / BEND) * 255.0).round() as u8
        } else if number > self.high {
            // If all finite numbers are equal, an infinite one is still white or black.
            255
        } else if number < self.low {
            0
        } else {
            MIDDLE
        };
        [level, 255]
    }
}

/// Returns the inverse hyperbolic sine of a number from 0 to `1 / BEND`. `f64::asinh` calls hypot, which would need
/// glibc 2.35.
fn asinh(number: f64) -> f64 {
    (number + (number * number + 1.0).sqrt()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_rise_with_the_numbers_between_the_percentiles() {
        let numbers: Vec<f64> = (0..=1000).map(f64::from).collect();
        let scale = Scale::of(&numbers);
        assert_eq!(scale, Scale { low: 5.0, high: 995.0 });
        let levels: Vec<u8> = numbers.iter().map(|number| scale.pixel(*number)[0]).collect();
        assert!(levels.is_sorted() && levels[0] == 0 && levels[1000] == 255);
        // asinh(5) / asinh(10)
        assert_eq!(scale.pixel(500.0), [197, 255]);
        assert_eq!(
            [f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(|number| scale.pixel(number)),
            [[255, 255], [0, 255], [0, 0]]
        );
    }

    #[test]
    fn pictures_without_a_range_are_grey() {
        for numbers in [&[3.5; 9][..], &[f64::NAN, 3.5, 3.5]] {
            assert_eq!(Scale::of(numbers).pixel(3.5), [MIDDLE, 255]);
        }
        let none = Scale::of(&[f64::NAN, f64::INFINITY]);
        assert_eq!((none.pixel(f64::NAN), none.pixel(f64::INFINITY)), ([0, 0], [255, 255]));
        // A single flag among many zeros is visible.
        let mut flags = vec![0.0; 1000];
        flags[7] = 4.0;
        assert_eq!((Scale::of(&flags).pixel(4.0)[0], Scale::of(&flags).pixel(0.0)[0]), (255, 0));
        let far = Scale::of(&[-f64::MAX, f64::MAX]);
        assert_eq!((far.pixel(-f64::MAX)[0], far.pixel(f64::MAX)[0]), (0, 255));
    }
}
