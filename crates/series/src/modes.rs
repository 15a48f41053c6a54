//! The modes of a latency distribution: the separate masses that the eye sees in a heat map.
//!
//! The definition: counts on a logarithmic axis, eight bins to the octave, smoothed by a binomial kernel of nine bins (a
//! standard deviation of 0.18 octaves), so that the steps of a clock do not count as modes. Two neighbouring peaks are two modes when
//! the valley between them is less than half as high as the lower one, and deeper than three standard deviations of its
//! count. Then the valleys divide all events, and what holds less than one percent of them belongs to its neighbour.

use latscope_histogram::{Grid, Sparse};

/// A separate mass of a distribution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mode {
    /// Where it is highest, nanoseconds.
    pub peak_ns: u64,
    /// Nine tenths of its events lie between this and [`Mode::high_ns`], by bins of an eighth of an octave.
    pub low_ns: u64,
    /// See [`Mode::low_ns`].
    pub high_ns: u64,
    /// Its part of all events, 0 to 1.
    pub share: f64,
}

/// Eight bins to the octave.
const POWER: u8 = 3;
/// Binomial coefficients of order eight; they sum up to 256.
const KERNEL: [f64; 9] = [1.0, 8.0, 28.0, 56.0, 70.0, 56.0, 28.0, 8.0, 1.0];
/// A valley is at most so high, as a part of the lower peak beside it.
const VALLEY: f64 = 0.5;
/// And so many standard deviations of a count below it.
const DEVIATIONS: f64 = 3.0;
/// A mode holds at least this part of all events.
const LEAST: f64 = 0.01;

/// The modes of a histogram, ascending; none when it is empty.
pub fn modes(histogram: &Sparse) -> Vec<Mode> {
    let Some(bins) = Bins::new(histogram) else { return Vec::new() };
    let mut parts = bins.parts();
    bins.merge_small(&mut parts);
    parts.into_iter().map(|(from, to)| bins.mode(from, to)).collect()
}

/// Counts on the logarithmic axis, from `first` on.
struct Bins {
    grid: Grid,
    first: usize,
    counts: Vec<u64>,
    smooth: Vec<f64>,
    all: f64,
}

impl Bins {
    fn new(histogram: &Sparse) -> Option<Bins> {
        let histogram = histogram.folded(Grid::with_power(POWER)?);
        let grid = histogram.grid();
        let (first, last) = (*histogram.indices().first()? as usize, *histogram.indices().last()? as usize);
        let mut counts = vec![0; last - first + 1];
        histogram.buckets().for_each(|(index, count, _)| counts[index - first] += count);
        let reach = KERNEL.len() / 2;
        let at = |bin: usize| {
            let near = KERNEL.iter().enumerate().filter_map(|(shift, weight)| {
                let count = *counts.get((bin + shift).checked_sub(reach)?)?;
                Some(weight * count as f64)
            });
            near.sum::<f64>() / 256.0
        };
        let smooth = (0..counts.len()).map(at).collect();
        Some(Bins { grid, first, counts, smooth, all: histogram.totals().count as f64 })
    }

    /// Ranges of bins (the last one exclusive) between valleys that are deep enough.
    fn parts(&self) -> Vec<(usize, usize)> {
        let height = |bin: usize| self.smooth[bin];
        // A valley that is not deep enough joins its two sides; the shallowest goes first.
        let mut peaks: Vec<usize> = (0..self.smooth.len())
            .filter(|&bin| {
                let left = bin == 0 || height(bin - 1) < height(bin);
                // Of a plateau the first bin, if it goes down behind it.
                let behind = self.smooth[bin + 1..].iter().find(|&&next| next != height(bin));
                left && height(bin) > 0.0 && behind.is_none_or(|&next| next < height(bin))
            })
            .collect();
        let lowest =
            |from: usize, to: usize| (from..=to).min_by(|&a, &b| height(a).total_cmp(&height(b))).unwrap_or(from);
        loop {
            let joints = peaks.windows(2).enumerate().map(|(at, pair)| {
                let valley = height(lowest(pair[0], pair[1]));
                let lower = height(pair[0]).min(height(pair[1]));
                (at, valley, lower)
            });
            let shallow = joints
                .filter(|&(_, valley, lower)| valley >= VALLEY * lower || lower - valley <= DEVIATIONS * lower.sqrt());
            let Some((at, ..)) = shallow.min_by(|a, b| (a.2 - a.1).total_cmp(&(b.2 - b.1))) else { break };
            let lower = if height(peaks[at]) < height(peaks[at + 1]) { at } else { at + 1 };
            peaks.remove(lower);
        }
        let mut edges = vec![0];
        edges.extend(peaks.windows(2).map(|pair| lowest(pair[0], pair[1])));
        edges.push(self.counts.len());
        edges.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    fn count(&self, (from, to): (usize, usize)) -> u64 {
        self.counts[from..to].iter().sum()
    }

    /// Joins parts that hold too little to a neighbour: over the higher valley.
    fn merge_small(&self, parts: &mut Vec<(usize, usize)>) {
        while parts.len() > 1 {
            let smallest = (0..parts.len()).min_by_key(|&at| self.count(parts[at])).unwrap_or(0);
            if self.count(parts[smallest]) as f64 >= LEAST * self.all {
                return;
            }
            let valley = |edge: usize| self.smooth.get(edge).copied().unwrap_or(0.0);
            let to_left =
                smallest > 0 && (smallest + 1 == parts.len() || valley(parts[smallest].0) >= valley(parts[smallest].1));
            let left = if to_left { smallest - 1 } else { smallest };
            parts[left].1 = parts[left + 1].1;
            parts.remove(left + 1);
        }
    }

    fn mode(&self, from: usize, to: usize) -> Mode {
        let count = self.count((from, to)) as f64;
        let peak = (from..to).max_by(|&a, &b| self.smooth[a].total_cmp(&self.smooth[b])).unwrap_or(from);
        let (lower, upper) = (|bin| self.grid.lower(self.first + bin), |bin| self.grid.upper(self.first + bin));
        let rank = |part: f64| {
            let mut below = 0.0;
            (from..to)
                .find(|&bin| {
                    below += self.counts[bin] as f64;
                    below >= part * count
                })
                .unwrap_or(from)
        };
        let peak_ns = (lower(peak) as f64 * upper(peak) as f64).sqrt().round() as u64;
        Mode { peak_ns, low_ns: lower(rank(0.05)), high_ns: upper(rank(0.95)), share: count / self.all.max(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_histogram::Histogram;

    /// A generator of its own, so that the same numbers come everywhere.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }

        /// Log-normal about `median`, with this standard deviation in octaves.
        fn around(&mut self, median: f64, octaves: f64) -> u64 {
            let normal = (-2.0 * self.next().ln()).sqrt() * (std::f64::consts::TAU * self.next()).cos();
            (median * (normal * octaves).exp2()) as u64
        }
    }

    /// Of parts: how many, about what, how wide.
    fn modes_of(seed: u64, parts: &[(usize, f64, f64)]) -> Vec<Mode> {
        let (mut random, mut histogram) = (Random(seed), Histogram::new(Grid::FINE, false));
        for &(count, median, octaves) in parts {
            (0..count).for_each(|_| histogram.record(random.around(median, octaves), 0));
        }
        modes(&histogram.to_sparse())
    }

    #[test]
    fn two_masses_are_two_modes() {
        for seed in 0..50 {
            let found = modes_of(seed, &[(7000, 50e3, 0.4), (3000, 5e6, 0.4)]);
            assert_eq!(found.len(), 2, "{found:?}");
            for (mode, (median, share)) in found.iter().zip([(50e3, 0.7), (5e6, 0.3)]) {
                assert!((mode.peak_ns as f64 / median).log2().abs() < 0.25, "{mode:?}");
                assert!((mode.share - share).abs() < 0.001, "{mode:?}");
                assert!(mode.low_ns < mode.peak_ns && mode.peak_ns < mode.high_ns, "{mode:?}");
            }
        }
    }

    #[test]
    fn one_mass_is_one_mode_however_few_events_it_has() {
        for seed in 0..200 {
            for (count, octaves) in [(30, 0.3), (1000, 1.0), (100_000, 0.2)] {
                let found = modes_of(seed, &[(count, 120e3, octaves)]);
                assert_eq!(found.len(), 1, "seed {seed}: {count} events: {found:?}");
                assert!((found[0].share - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn what_is_close_or_small_is_no_mode_of_its_own() {
        assert_eq!(modes_of(1, &[(5000, 100e3, 0.5), (5000, 150e3, 0.5)]).len(), 1, "the valley is not deep");
        assert_eq!(modes_of(1, &[(10_000, 100e3, 0.3), (50, 10e6, 0.3)]).len(), 1, "half a percent");
        assert_eq!(modes_of(1, &[(10_000, 100e3, 0.3), (500, 10e6, 0.3)]).len(), 2, "five percent");
        assert_eq!(modes_of(1, &[(3500, 30e3, 0.3), (5900, 180e3, 0.3), (450, 8e6, 0.5)]).len(), 3);
    }

    #[test]
    fn steps_of_a_clock_are_no_modes() {
        let mut histogram = Histogram::new(Grid::FINE, false);
        for (step, count) in [(32, 40), (33, 300), (34, 900), (35, 700), (36, 250), (37, 100)] {
            histogram.record_many(step * 10, count, 0);
        }
        assert_eq!(modes(&histogram.to_sparse()).len(), 1);
        assert!(modes(&Histogram::new(Grid::FINE, false).to_sparse()).is_empty());
        histogram.clear();
        histogram.record(u64::MAX, 0);
        assert_eq!(modes(&histogram.to_sparse()).len(), 1);
    }
}
