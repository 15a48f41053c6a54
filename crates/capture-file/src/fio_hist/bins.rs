//! fio's bins as buckets of our grid.
//!
//! From fio 3 on a bin is one bucket: both grids have 64 to the octave (a coarse log fewer), in nanoseconds. Before, bins
//! were of microseconds; those, and the lowest bins of a coarse log, lie across buckets and are shared out among them.

use latscope_histogram::{Grid, Sparse, Totals};

/// Octaves of 64 bins, and the unit in nanoseconds: fio 2, and fio 3.
const KINDS: [(usize, u64); 2] = [(19, 1000), (29, 1)];
const COARSEST: u8 = 6;
/// From 3.6 to 3.16, fio copied only the bins below this one and left the rest to chance.
const UPPER_HALF: usize = 928;

/// The non-empty bins of a row.
pub type Counts = Vec<(u32, u64)>;

/// The bins of a log.
#[derive(Debug)]
pub struct Bins {
    /// Microseconds for fio 2.
    pub unit_ns: u64,
    /// What one I/O counts in the histograms: more than 1 where it is to be divided.
    pub per_event: u64,
    coarseness: u8,
    grid: Grid,
    bins: Vec<Bin>,
    /// How many counts were given to one of several buckets by the sequence that is as even as can be.
    dealt: u64,
}

#[derive(Debug)]
struct Bin {
    lower_ns: u64,
    /// First value above.
    end_ns: u64,
    first: u32,
    last: u32,
}

impl Bins {
    /// The bins of rows with so many counts; none when no fio writes so many.
    pub fn with_count(count: usize) -> Option<Bins> {
        let kinds = KINDS.into_iter().flat_map(|kind| (0..=COARSEST).map(move |coarseness| (kind, coarseness)));
        let ((octaves, unit_ns), coarseness) =
            kinds.into_iter().find(|((octaves, _), coarseness)| (octaves * 64) >> coarseness == count)?;
        let grid = Grid::with_power(Grid::FINE.power() - coarseness)?;
        let edge = |bin: usize| lower(bin << coarseness) * unit_ns;
        let bins = (0..count).map(|bin| {
            let (lower_ns, end_ns) = (edge(bin), edge(bin + 1));
            Bin { lower_ns, end_ns, first: grid.index(lower_ns) as u32, last: grid.index(end_ns - 1) as u32 }
        });
        debug_assert_eq!((octaves * 64) >> coarseness, count);
        Some(Bins { unit_ns, per_event: 1, coarseness, grid, bins: bins.collect(), dealt: 0 })
    }

    pub fn len(&self) -> usize {
        self.bins.len()
    }

    /// The bin of a value in the unit of the log, at full resolution.
    pub fn of_value(&self, value: u64) -> u32 {
        Grid::FINE.index(value).min(self.bins.len() - 1) as u32
    }

    /// The bins that fio 3.6 to 3.16 lost, and those just below: none of an older fio.
    pub fn doubtful(&self) -> Option<(u32, u32)> {
        let at = |bin: usize| (bin >> self.coarseness) as u32;
        (self.unit_ns == 1).then(|| (at(UPPER_HALF - 32), at(UPPER_HALF)))
    }

    /// The histogram of these counts: none when there are more than 64 bits hold. Sum, minimum and maximum are as good as
    /// bins tell: middles and edges.
    pub fn histogram(&mut self, counts: &Counts) -> Option<Sparse> {
        let mut buckets =
            Buckets { indices: Vec::with_capacity(counts.len()), counts: Vec::with_capacity(counts.len()) };
        let mut totals = Totals::EMPTY;
        let all = counts.iter().try_fold(0u64, |sum, &(_, count)| sum.checked_add(count))?;
        // None is more than all of them.
        totals.count = all.checked_mul(self.per_event)?;
        if self.unit_ns == 1 && self.coarseness == 0 {
            // The most usual bins are the buckets.
            buckets.indices.extend(counts.iter().map(|&(at, _)| at));
            buckets.counts.extend(counts.iter().map(|&(_, count)| count * self.per_event));
        } else {
            for &(at, count) in counts {
                let bin = &self.bins[at as usize];
                if bin.first == bin.last {
                    buckets.push(bin.first, count * self.per_event);
                } else {
                    deal(bin, self.grid, count * self.per_event, &mut self.dealt, &mut buckets);
                }
            }
        }
        let middle = |bin: &Bin| bin.lower_ns + (bin.end_ns - bin.lower_ns) / 2;
        let sum_of = |&(at, count): &(u32, u64)| u128::from(middle(&self.bins[at as usize])) * u128::from(count);
        totals.sum = counts.iter().map(sum_of).sum::<u128>() * u128::from(self.per_event);
        let (Some(&first), Some(&last)) = (buckets.indices.first(), buckets.indices.last()) else {
            return Sparse::from_parts(self.grid, Vec::new(), Vec::new(), None, totals).ok();
        };
        let (&(lowest, _), &(highest, _)) = (counts.first()?, counts.last()?);
        totals.min = self.grid.lower(first as usize).max(self.bins[lowest as usize].lower_ns);
        totals.max = self.grid.upper(last as usize).min(self.bins[highest as usize].end_ns - 1);
        Sparse::from_parts(self.grid, buckets.indices, buckets.counts, None, totals).ok()
    }
}

/// Lowest value of a bin of full resolution (stat.c, `plat_idx_to_val`).
fn lower(bin: usize) -> u64 {
    if bin < 128 {
        return bin as u64;
    }
    let shift = (bin >> 6) - 1;
    (64 + (bin & 63) as u64) << shift
}

/// Buckets that are not empty, ascending.
struct Buckets {
    indices: Vec<u32>,
    counts: Vec<u64>,
}

impl Buckets {
    /// Adds to the last bucket or opens the next one: bins ascend, and two may share a bucket.
    fn push(&mut self, at: u32, count: u64) {
        match self.counts.last_mut() {
            _ if count == 0 => {}
            Some(sum) if self.indices.last() == Some(&at) => *sum += count,
            _ => {
                self.indices.push(at);
                self.counts.push(count);
            }
        }
    }
}

/// Shares the counts of a bin out among its buckets, by their width. What whole numbers leave over goes where a sequence
/// that fills evenly says, so that many small rows add up to the same shares.
fn deal(bin: &Bin, grid: Grid, count: u64, dealt: &mut u64, buckets: &mut Buckets) {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let width = u128::from(bin.end_ns - bin.lower_ns);
    let overlap = |at: u32| {
        let (from, to) = (grid.lower(at as usize).max(bin.lower_ns), grid.upper(at as usize).min(bin.end_ns - 1));
        u128::from(to - from + 1)
    };
    let whole = |at: u32| (u128::from(count) * overlap(at) / width) as u64;
    let part = |at: u32| (u128::from(count) * overlap(at) % width) as f64 / width as f64;
    let range = bin.first..=bin.last;
    let mut left: Vec<u64> = vec![0; range.clone().count()];
    let over = count - range.clone().map(whole).sum::<u64>();
    for _ in 0..over {
        let mut place = (*dealt as f64 * GOLDEN + 0.5).fract() * over as f64;
        *dealt += 1;
        let at = range.clone().position(|at| {
            place -= part(at);
            place < 0.0
        });
        left[at.unwrap_or(0)] += 1;
    }
    range.zip(left).for_each(|(at, more)| buckets.push(at, whole(at) + more));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bins_of_every_version_and_coarseness() {
        for (count, unit_ns, coarseness) in [
            (1216, 1000, 0),
            (608, 1000, 1),
            (304, 1000, 2),
            (152, 1000, 3),
            (76, 1000, 4),
            (38, 1000, 5),
            (19, 1000, 6),
            (1856, 1, 0),
            (928, 1, 1),
            (464, 1, 2),
            (232, 1, 3),
            (116, 1, 4),
            (58, 1, 5),
            (29, 1, 6),
        ] {
            let bins = Bins::with_count(count).unwrap();
            assert_eq!((bins.unit_ns, bins.coarseness, bins.len()), (unit_ns, coarseness, count));
        }
        for count in [0, 1, 18, 1215, 1857, 3712] {
            assert!(Bins::with_count(count).is_none(), "{count}");
        }
    }

    /// Edges that fio's own scripts print.
    #[test]
    fn edges_of_bins() {
        let bins = Bins::with_count(1856).unwrap();
        for (bin, from, to) in [
            (127, 127, 128),
            (128, 128, 130),
            (191, 254, 256),
            (317, 1000, 1008),
            (737, 99_328, 100_352),
            (954, 999_424, 1_007_616),
            (1591, 998_244_352, 1_006_632_960),
            (1855, 17_045_651_456, 17_179_869_184),
        ] {
            assert_eq!((bins.bins[bin].lower_ns, bins.bins[bin].end_ns), (from, to));
        }
        assert_eq!(Bins::with_count(1216).unwrap().bins[1215].lower_ns, 16_646_144_000);
    }

    #[test]
    fn a_bin_of_nanoseconds_is_a_bucket() {
        for coarseness in 0..=6u8 {
            let mut bins = Bins::with_count(1856 >> coarseness).unwrap();
            let grid = bins.grid;
            for bin in 64 >> coarseness..bins.len() {
                let histogram = bins.histogram(&vec![(bin as u32, 7)]).unwrap();
                let [index] = *histogram.indices() else { panic!("{bin} at {coarseness}") };
                assert_eq!(grid.lower(index as usize), bins.bins[bin].lower_ns);
                assert_eq!(grid.upper(index as usize) + 1, bins.bins[bin].end_ns);
            }
        }
    }

    #[test]
    fn microseconds_are_shared_out_evenly_and_none_is_lost() {
        let mut bins = Bins::with_count(1216).unwrap();
        // 58 us: buckets of 512 ns from 57,856 on: 368 ns, 512 ns and 120 ns of it.
        let once = bins.histogram(&vec![(58, 1000)]).unwrap();
        assert_eq!(once.counts().iter().sum::<u64>(), 1000);
        for (count, expect) in once.counts().iter().zip([368, 512, 120]) {
            assert!(count.abs_diff(expect) <= 1, "{once:?}");
        }
        let totals = once.totals();
        assert_eq!((totals.min, totals.max, totals.sum), (58_000, 58_999, 58_500_000));
        let mut sum = once.to_dense();
        sum.clear();
        (0..1000).for_each(|_| sum.add(&bins.histogram(&vec![(58, 1)]).unwrap()));
        for ((_, count, _), expect) in sum.buckets().zip([368u64, 512, 120]) {
            assert!(count.abs_diff(expect) <= 3, "one at a time: {count}, not {expect}");
        }
    }

    #[test]
    fn every_bin_makes_a_histogram_that_agrees_with_itself() {
        for count in [1216, 304, 19, 1856, 116, 29] {
            let mut bins = Bins::with_count(count).unwrap();
            let all: Counts = (0..count as u32).map(|bin| (bin, u64::from(bin % 5 + 1))).collect();
            let histogram = bins.histogram(&all).unwrap();
            let totals = histogram.totals();
            assert_eq!(totals.count, all.iter().map(|&(_, count)| count).sum::<u64>());
            let (first, last) = (histogram.indices()[0], *histogram.indices().last().unwrap());
            assert_eq!(bins.grid.index(totals.min) as u32, first);
            assert_eq!(bins.grid.index(totals.max) as u32, last);
            assert!(bins.histogram(&vec![(3, u64::MAX), (4, 1)]).is_none());
            assert_eq!(bins.histogram(&Vec::new()).unwrap().totals(), &Totals::EMPTY);
        }
    }
}
