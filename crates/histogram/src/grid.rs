//! The bucket grid: base 2, `2^power` buckets to the octave, values below `2^(power+1)` exact.
//!
//! The index rule is that of H2 histograms (rezolus, the crate `histogram`) and of fio's latency logs.

/// A log-linear division of all `u64` values into buckets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct Grid {
    power: u8,
}

/// Middles of the buckets of the fine grid, which hot loops ask for.
static MIDDLES: [u64; Grid::FINE.len()] = {
    let (mut middles, mut index) = ([0; Grid::FINE.len()], 0);
    while index < middles.len() {
        let (lower, upper) = (Grid::FINE.lower(index), Grid::FINE.upper(index));
        middles[index] = lower + (upper - lower).div_ceil(2);
        index += 1;
    }
    middles
};

impl Grid {
    /// The grid of latscope: 64 buckets to the octave, exact below 128, a bucket at most 1/64 of its lower edge wide.
    pub const FINE: Grid = Grid { power: 6 };
    /// Finest grid that can be asked for.
    pub const MAX_POWER: u8 = 14;

    /// The grid with `2^power` buckets to the octave; `None` beyond [`Grid::MAX_POWER`].
    pub const fn with_power(power: u8) -> Option<Grid> {
        if power <= Grid::MAX_POWER { Some(Grid { power }) } else { None }
    }

    /// The logarithm to base 2 of the number of buckets to the octave ("grouping power").
    pub const fn power(self) -> u8 {
        self.power
    }

    /// Number of buckets.
    pub const fn len(self) -> usize {
        (65 - self.power as usize) << self.power
    }

    /// Never: every grid covers all values.
    pub const fn is_empty(self) -> bool {
        false
    }

    /// The bucket of a value.
    #[inline]
    pub const fn index(self, value: u64) -> usize {
        let power = self.power as u32;
        if value < 2 << power {
            return value as usize;
        }
        let shift = 63 - value.leading_zeros() - power;
        ((shift as usize) << power) + (value >> shift) as usize
    }

    /// Smallest value of a bucket.
    ///
    /// # Panics
    /// When the index is not below [`Grid::len`].
    #[inline]
    pub const fn lower(self, index: usize) -> u64 {
        assert!(index < self.len());
        let linear = 2usize << self.power;
        if index < linear {
            return index as u64;
        }
        let shift = (index >> self.power) - 1;
        ((index - (shift << self.power)) as u64) << shift
    }

    /// Largest value of a bucket.
    ///
    /// # Panics
    /// When the index is not below [`Grid::len`].
    #[inline]
    pub const fn upper(self, index: usize) -> u64 {
        if index + 1 < self.len() { self.lower(index + 1) - 1 } else { u64::MAX }
    }

    /// The value in the middle of a bucket; of two, the larger.
    ///
    /// # Panics
    /// When the index is not below [`Grid::len`].
    #[inline]
    pub fn middle(self, index: usize) -> u64 {
        if self == Grid::FINE {
            return MIDDLES[index];
        }
        let (lower, upper) = (self.lower(index), self.upper(index));
        lower + (upper - lower).div_ceil(2)
    }

    /// The bucket of this (coarser) grid that holds a whole bucket of a finer grid.
    pub const fn fold(self, finer: Grid, index: usize) -> usize {
        self.index(finer.lower(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_index_rule_is_that_of_the_histogram_crate() {
        for power in 0..=10 {
            let grid = Grid::with_power(power).unwrap();
            let edges =
                (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1, (1u64 << bit) | 1 << bit >> 2]);
            for value in edges.chain([u64::MAX, 127, 128, 12_345_678]) {
                let mut theirs = histogram::Histogram::new(power, 64).unwrap();
                theirs.increment(value).unwrap();
                assert_eq!(grid.len(), theirs.as_slice().len());
                let index = theirs.as_slice().iter().position(|&count| count == 1).unwrap();
                assert_eq!(grid.index(value), index, "{value} at power {power}");
                let bucket = theirs.iter().nth(index).unwrap();
                assert_eq!((grid.lower(index), grid.upper(index)), (bucket.start(), bucket.end()));
            }
        }
    }

    #[test]
    fn values_below_128_are_exact_on_the_fine_grid() {
        assert_eq!(Grid::FINE.len(), 3776);
        for value in 0..128 {
            let index = Grid::FINE.index(value);
            assert_eq!((Grid::FINE.lower(index), Grid::FINE.upper(index)), (value, value));
        }
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_values(value: u64, power in 0..=Grid::MAX_POWER) {
            let grid = Grid::with_power(power).unwrap();
            let index = grid.index(value);
            prop_assert!(grid.lower(index) <= value && value <= grid.upper(index));
            let width = grid.upper(index) - grid.lower(index);
            prop_assert!(width <= grid.lower(index) >> power);
            let middle = grid.middle(index);
            prop_assert!((middle - grid.lower(index)).checked_sub(grid.upper(index) - middle).is_some_and(|more| more <= 1));
        }

        #[test]
        fn coarser_grids_nest(value: u64, fine in 0..=Grid::MAX_POWER, coarse in 0..=Grid::MAX_POWER) {
            prop_assume!(coarse <= fine);
            let (fine, coarse) = (Grid::with_power(fine).unwrap(), Grid::with_power(coarse).unwrap());
            prop_assert_eq!(coarse.fold(fine, fine.index(value)), coarse.index(value));
        }
    }
}
