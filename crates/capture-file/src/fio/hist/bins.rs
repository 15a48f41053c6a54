//! fio's bins as buckets of our grid.
//!
//! From fio 3 on a bin is one bucket: both grids have 64 to the octave (a coarse log fewer), in nanoseconds. Before, bins
//! were of microseconds; those, and the lowest bins of a coarse log, lie across buckets and are shared out among them. A bin
//! of microseconds is shared out among many, so that its edges are as good as kept.

use latscope_histogram::{Grid, Sparse, Totals};

/// Groups of 64 bins, and the unit in nanoseconds: fio 2, and fio 3.
const KINDS: [(usize, u64); 2] = [(19, 1000), (29, 1)];
/// What somebody who builds fio himself may have set the number of groups to.
const CUSTOM: std::ops::RangeInclusive<usize> = 19..=40;
const COARSEST: u8 = 6;
/// Buckets to the octave for bins of microseconds, as a power of 2. A percentile is off by no more than a bucket where an
/// edge of a bin lies within one.
const POWER_OF_MICROSECONDS: u8 = 10;

/// The non-empty bins of a row.
pub type Counts = Vec<(u32, u64)>;

/// The bins of a log.
#[derive(Debug)]
pub struct Bins {
    /// Microseconds for fio 2.
    pub unit_ns: u64,
    /// What one I/O counts in the histograms: more than 1 where it is to be divided.
    pub per_event: u64,
    groups: usize,
    coarseness: u8,
    grid: Grid,
    bins: Vec<Bin>,
}

#[derive(Debug)]
struct Bin {
    lower_ns: u64,
    /// First value above.
    end_ns: u64,
    first: u32,
    last: u32,
    /// How often its counts were shared out, each time beginning with another part of one.
    dealt: u32,
}

impl Bins {
    /// The bins of so many counts, on the grid of most series; none when no fio has so many.
    pub fn with_count(count: usize) -> Option<Bins> {
        KINDS.into_iter().find_map(|(groups, unit_ns)| Bins::of_groups(groups, unit_ns, count, Grid::FINE.power()))
    }

    /// The bins of rows with so many counts, on a grid on which those of microseconds have their edges, too.
    pub fn of_row(count: usize) -> Option<Bins> {
        KINDS.into_iter().find_map(|(groups, unit_ns)| Bins::of_groups(groups, unit_ns, count, power_of(unit_ns)))
    }

    /// The bins of rows with so many counts that a build of somebody's own writes; none when no such build does.
    ///
    /// Counts of 20 and of 40 groups look alike when halved: of microseconds 40 would reach beyond a
    /// year, and of nanoseconds 20 no further than 34 ms.
    pub fn custom(count: usize, unit_ns: u64) -> Option<Bins> {
        let of = |groups| Bins::of_groups(groups, unit_ns, count, power_of(unit_ns));
        if unit_ns == 1 { CUSTOM.rev().find_map(of) } else { CUSTOM.into_iter().find_map(of) }
    }

    fn of_groups(groups: usize, unit_ns: u64, count: usize, power: u8) -> Option<Bins> {
        let coarseness = (0..=COARSEST).find(|coarseness| (groups * 64) >> coarseness == count)?;
        let grid = Grid::with_power(power - coarseness)?;
        let edge = |bin: usize| lower(bin << coarseness) * unit_ns;
        let bins = (0..count).map(|bin| {
            let (lower_ns, end_ns) = (edge(bin), edge(bin + 1));
            Bin { lower_ns, end_ns, first: grid.index(lower_ns) as u32, last: grid.index(end_ns - 1) as u32, dealt: 0 }
        });
        Some(Bins { unit_ns, per_event: 1, groups, coarseness, grid, bins: bins.collect() })
    }

    pub fn len(&self) -> usize {
        self.bins.len()
    }

    /// The bin of a value in the unit of the log, at full resolution.
    pub fn of_value(&self, value: u64) -> u32 {
        Grid::FINE.index(value).min(self.bins.len() - 1) as u32
    }

    /// How many groups of 64 bins there are at full resolution.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The bins that fio 3.6 to 3.16 lost, which copied only half of them and left the rest to chance, and before them those
    /// just below and those from an eighth of that on. None of an older fio.
    pub fn doubtful(&self) -> Option<Doubtful> {
        let (half, at) = (self.groups * 32, |bin: usize| (bin >> self.coarseness) as u32);
        (self.unit_ns == 1).then(|| Doubtful { eighth: at(half - 3 * 64), near: at(half - 32), edge: at(half) })
    }

    /// The histogram of these counts: none when there are more than 64 bits hold. Sum, minimum and maximum are as good as
    /// bins give: middles and edges.
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
                let bin = &mut self.bins[at as usize];
                if bin.first == bin.last {
                    buckets.push(bin.first, count * self.per_event);
                } else {
                    deal(bin, self.grid, count * self.per_event, &mut buckets);
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

/// The finest grid for bins of this unit.
fn power_of(unit_ns: u64) -> u8 {
    if unit_ns == 1 { Grid::FINE.power() } else { POWER_OF_MICROSECONDS }
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

/// Shares the counts of a bin out among its buckets, by their width: at equal distances, of which each time the first starts
/// elsewhere, as evenly as can be, so that many small rows add up to the same shares.
fn deal(bin: &mut Bin, grid: Grid, count: u64, buckets: &mut Buckets) {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    // At first to the nearest whole number.
    let phase = (f64::from(bin.dealt) * GOLDEN + 0.5).fract();
    bin.dealt = bin.dealt.wrapping_add(1);
    let per_ns = count as f64 / (bin.end_ns - bin.lower_ns) as f64;
    // How many there are up to the end of a bucket.
    let mut given = 0;
    for at in bin.first..=bin.last {
        let up_to = if at == bin.last {
            count
        } else {
            let end_ns = grid.upper(at as usize) + 1 - bin.lower_ns;
            // Rounded to zero, which is the phase of the first.
            ((end_ns as f64 * per_ns + phase) as u64).clamp(given, count)
        };
        buckets.push(at, up_to - given);
        given = up_to;
    }
}

/// See [`Bins::doubtful`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doubtful {
    pub eighth: u32,
    pub near: u32,
    pub edge: u32,
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

    #[test]
    fn the_bins_of_builds_of_somebodys_own() {
        for (count, unit_ns, expect) in [
            (1920, 1, Some((30, 0))),
            (1920, 1000, Some((30, 0))),
            (1280, 1, Some((40, 1))),
            (1280, 1000, Some((20, 0))),
            (640, 1000, Some((20, 1))),
            (2560, 1000, Some((40, 0))),
            (36, 1, Some((36, 6))),
            (18, 1, None),
            (41, 1, None),
            (1000, 1, None),
            (2624, 1, None),
        ] {
            let bins = Bins::custom(count, unit_ns);
            let found = bins.as_ref().map(|bins| (bins.groups(), bins.coarseness));
            assert_eq!(found, expect, "{count} of {unit_ns} ns");
            assert!(bins.is_none_or(|bins| bins.len() == count && bins.bins[count - 1].lower_ns < 1 << 58));
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
        let mut bins = Bins::of_row(1216).unwrap();
        let once = bins.histogram(&vec![(58, 1000)]).unwrap();
        // 58 us: buckets of 32 ns from 57,984 on: 16 ns of the first, 24 ns of the last.
        let overlaps: Vec<u64> = std::iter::once(16).chain([32; 30]).chain([24]).collect();
        assert_eq!(once.counts().iter().sum::<u64>(), 1000);
        assert_eq!(once.counts().len(), overlaps.len());
        for (count, expect) in once.counts().iter().zip(&overlaps) {
            assert!(count.abs_diff(*expect) <= 1, "{once:?}");
        }
        let totals = once.totals();
        assert_eq!((totals.min, totals.max, totals.sum), (58_000, 58_999, 58_500_000));
        for (rows, count) in [(1000, 1), (100, 10), (10, 100)] {
            let mut sum = once.to_dense();
            sum.clear();
            (0..rows).for_each(|_| sum.add(&bins.histogram(&vec![(58, count)]).unwrap()));
            assert_eq!(sum.totals().count, 1000);
            for ((_, count, _), expect) in sum.buckets().zip(&overlaps) {
                assert!(count.abs_diff(*expect) <= 3, "{rows} rows: {count}, not {expect}");
            }
        }
    }

    #[test]
    fn every_bin_makes_a_histogram_that_agrees_with_itself() {
        let of_row = [1216, 304, 19, 1856, 116, 29].map(|count| Bins::of_row(count).unwrap());
        let of_json = [1216, 1856].map(|count| Bins::with_count(count).unwrap());
        for mut bins in of_row.into_iter().chain(of_json) {
            let count = bins.len();
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
