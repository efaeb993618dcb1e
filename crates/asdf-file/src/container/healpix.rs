//! Cells of HEALPix (Górski et al. 2005) in nested order: those that a part of the sky touches.
//!
//! Each cell has four children in the next order. The search descends from the twelve cells of order 0, and looks
//! only at the centre of a cell and the largest distance of its points from there, so no point is converted to a
//! cell.

use std::f64::consts::FRAC_PI_4;
use std::ops::RangeInclusive;

/// The order of the cells in the result: 12 582 912 cells of 3.4 arc minutes.
pub(crate) const ORDER: u32 = 10;

/// Maximum number of cells that a search looks at. A larger search is repeated in the order before.
const MAX_VISITS: usize = 1 << 14;

/// The row of the southern corner of each cell of order 0, and its column, in halves of a cell.
const ROWS: [i64; 12] = [2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4];
const COLUMNS: [i64; 12] = [1, 3, 5, 7, 0, 2, 4, 6, 1, 3, 5, 7];

/// A unit vector.
pub(crate) type Direction = [f64; 3];

/// A part of the sky.
pub(crate) trait Region {
    /// True if the distance between a direction and the border is larger than `distance`, in radians.
    fn is_border_beyond(&self, direction: Direction, distance: f64) -> bool;

    fn contains(&self, direction: Direction) -> bool;
}

#[derive(Clone, Copy)]
struct Cell {
    order: u32,
    index: u64,
}

impl Cell {
    fn children(self) -> impl Iterator<Item = Self> {
        (0..4).map(move |n| Self { order: self.order + 1, index: 4 * self.index + n })
    }

    fn centre(self) -> Direction {
        let sides = 1_i64 << self.order;
        let face = (self.index >> (2 * self.order)) as usize;
        let x = even_bits(self.index, self.order);
        let y = even_bits(self.index >> 1, self.order);
        // Counted from the north pole.
        let row = (ROWS[face] << self.order) - x - y - 1;
        // The number of cells in a quarter of the row.
        let cells = row.min(sides).min(4 * sides - row);
        let side = sides as f64;
        let cap = (cells * cells) as f64 / (3.0 * side * side);
        let z = if row < sides {
            1.0 - cap
        } else if row > 3 * sides {
            cap - 1.0
        } else {
            (2 * sides - row) as f64 * 2.0 / (3.0 * side)
        };
        let column = COLUMNS[face] * cells + x - y;
        direction(z, FRAC_PI_4 * column as f64 / cells as f64)
    }

    /// Returns the cells of [`ORDER`] in this cell.
    fn range(self) -> RangeInclusive<u64> {
        let shift = 2 * (ORDER - self.order);
        self.index << shift..=((self.index + 1) << shift) - 1
    }
}

/// Returns the number that the bits 0, 2, 4, … make, `count` of them.
fn even_bits(bits: u64, count: u32) -> i64 {
    (0..count).fold(0, |number, n| number | (((bits >> (2 * n)) & 1) << n) as i64)
}

fn direction(z: f64, longitude: f64) -> Direction {
    let (sin, cos) = longitude.sin_cos();
    let height = ((1.0 - z) * (1.0 + z)).sqrt();
    [height * cos, height * sin, z]
}

/// Returns the largest distance of a point from the centre of its cell, in radians.
fn max_radius(order: u32) -> f64 {
    let side = f64::from(1_u32 << order);
    let rest = 1.0 - 1.0 / side;
    let one = direction(2.0 / 3.0, FRAC_PI_4 / side);
    let other = direction(1.0 - rest * rest / 3.0, 0.0);
    angle(one, other)
}

/// Returns the angle between two directions, in radians.
pub(crate) fn angle(one: Direction, other: Direction) -> f64 {
    let difference = [one[0] - other[0], one[1] - other[1], one[2] - other[2]];
    let chord = difference.iter().map(|length| length * length).sum::<f64>().sqrt();
    2.0 * (chord / 2.0).min(1.0).asin()
}

/// Returns the cells of [`ORDER`] that a region touches, as ranges in ascending order, and some cells around it.
pub(crate) fn cells(region: &dyn Region) -> Vec<RangeInclusive<u64>> {
    for order in (1..=ORDER).rev() {
        let mut search = Search { region, order, visits: 0, ranges: Vec::new() };
        if (0..12).all(|index| search.visit(Cell { order: 0, index })) {
            return search.ranges;
        }
    }
    vec![0..=(12 << (2 * ORDER)) - 1]
}

struct Search<'r> {
    region: &'r dyn Region,
    /// The order of the smallest cells.
    order: u32,
    visits: usize,
    ranges: Vec<RangeInclusive<u64>>,
}

impl Search<'_> {
    /// Adds the cells in this one that the region touches. False if there are too many cells to look at.
    fn visit(&mut self, cell: Cell) -> bool {
        self.visits += 1;
        if self.visits > MAX_VISITS {
            return false;
        }
        let centre = cell.centre();
        if self.region.is_border_beyond(centre, max_radius(cell.order)) {
            if self.region.contains(centre) {
                self.add(cell);
            }
            return true;
        }
        if cell.order == self.order {
            self.add(cell);
            return true;
        }
        cell.children().all(|child| self.visit(child))
    }

    fn add(&mut self, cell: Cell) {
        let range = cell.range();
        match self.ranges.last_mut() {
            Some(last) if last.end() + 1 == *range.start() => *last = *last.start()..=*range.end(),
            _ => self.ranges.push(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All directions within a distance of one of them, in radians.
    struct Cone(Direction, f64);

    impl Region for Cone {
        fn is_border_beyond(&self, direction: Direction, distance: f64) -> bool {
            (angle(self.0, direction) - self.1).abs() > distance
        }

        fn contains(&self, direction: Direction) -> bool {
            angle(self.0, direction) <= self.1
        }
    }

    /// The centres are those of astropy-healpix 2.0.1: `healpix_to_lonlat(index, 2**order, order="nested")`.
    #[test]
    fn centres_are_those_of_the_paper() {
        for (order, index, longitude, latitude) in [
            (0, 0, 45.0, 41.810_314_895_778_596),
            (0, 4, 0.0, 0.0),
            (0, 11, 315.0, -41.810_314_895_778_596),
            (1, 3, 45.0, 66.443_535_690_898_76),
            (2, 77, 11.25, 19.471_220_634_490_69),
            (10, 0, 45.0, 0.037_301_942_422_267_32),
            (10, 1_048_575, 45.0, 89.954_314_639_342_47),
            (10, 12_582_911, 315.0, -0.037_301_942_422_267_32),
        ] {
            let [x, y, z] = Cell { order, index }.centre();
            let found = [y.atan2(x).to_degrees().rem_euclid(360.0), z.asin().to_degrees()];
            let is_same = (found[0] - longitude).abs() < 1e-7 && (found[1] - latitude).abs() < 1e-7;
            assert!(is_same, "{order}/{index}: {found:?}");
        }
    }

    #[test]
    fn the_cells_of_a_cone_are_those_whose_centre_is_near() {
        for (order, z) in [(4, 0.1), (4, 0.7), (5, 0.999), (5, -1.0), (3, -0.6)] {
            let cone = Cone(direction(z, 5.9), 0.05);
            let reach = max_radius(order);
            let mut search = Search { region: &cone, order, visits: 0, ranges: Vec::new() };
            assert!((0..12).all(|index| search.visit(Cell { order: 0, index })));
            for index in 0..12_u64 << (2 * order) {
                let cell = Cell { order, index };
                let distance = angle(cone.0, cell.centre());
                let is_found = search.ranges.iter().any(|range| range.contains(cell.range().start()));
                assert_eq!(is_found, distance <= cone.1 + reach, "{order}/{index}: {distance}");
            }
            let ends: Vec<u64> =
                search.ranges.iter().flat_map(|range| [*range.start(), *range.end()]).collect();
            assert!(ends.is_sorted());
        }
    }

    #[test]
    fn a_large_region_has_larger_cells() {
        let ranges = cells(&Cone([0.0, 0.6, 0.8], 1.2));
        let count: u64 = ranges.iter().map(|range| range.end() - range.start() + 1).sum();
        let share = count as f64 / f64::from(12 << (2 * ORDER));
        let exact = (1.0 - 1.2_f64.cos()) / 2.0;
        assert!((exact..exact + 0.01).contains(&share) && ranges.len() < MAX_VISITS, "{share} {exact}");
    }
}
