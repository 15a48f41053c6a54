//! What was measured on all sides, over one table of values.

use super::sample::{Cells, Sample};
use super::step::Step;
use super::{Difference, Measure, Measured};
use latscope_histogram::{Grid, nearest_rank};

/// The data of all sides over one table of values.
pub(super) struct Ground {
    /// Lower edge and width, ascending.
    values: Vec<(f64, f64)>,
    sides: Vec<Counted>,
    quantiles: Vec<f64>,
    /// The part of a value that the buckets resolve; 0 of single values.
    resolution: f64,
    /// Of each side.
    steps: Vec<Step>,
}

/// One side.
pub(super) struct Counted {
    /// Place in the table and count, cell by cell.
    entries: Vec<(u32, u64)>,
    /// Where each cell starts, and the end of the last.
    starts: Vec<usize>,
    /// Where the entries of each turn start, and the end of the last.
    turns: Vec<usize>,
    /// Of each value.
    counts: Vec<u64>,
}

/// The intervals of a turn: of each the values, as keys, with their counts.
type Keyed = Vec<Vec<(u64, u64)>>;

impl Ground {
    pub fn new(sides: &[Vec<Sample>], quantiles: &[f64]) -> Ground {
        let grid = sides.iter().flatten().filter_map(|sample| match &sample.cells {
            Cells::Events(values) if values.len() > Sample::EVENTS => Some(Grid::FINE),
            Cells::Events(_) => None,
            Cells::Histograms(grid, _) => Some(*grid),
        });
        // One side of histograms makes histograms of all.
        let grid = grid.min();
        let keys = |turns: &Vec<Sample>| turns.iter().map(|sample| keys(sample, grid)).collect();
        let keys: Vec<Vec<Keyed>> = sides.iter().map(keys).collect();
        let mut table: Vec<u64> = keys.iter().flatten().flatten().flatten().map(|&(key, _)| key).collect();
        table.sort_unstable();
        table.dedup();
        let values = table.iter().map(|&key| match grid {
            None => (key as f64, 0.0),
            Some(grid) => {
                let (lower, upper) = (grid.lower(key as usize), grid.upper(key as usize));
                (lower as f64, (upper - lower) as f64)
            }
        });
        let resolution = grid.map_or(0.0, |grid| 1.0 / f64::from(1u32 << grid.power()));
        let values: Vec<(f64, f64)> = values.collect();
        let sides: Vec<Counted> = keys.into_iter().map(|turns| Counted::new(turns, &table)).collect();
        let own = |side: &Counted| -> Vec<(f64, u64)> {
            let own = values.iter().zip(&side.counts).filter(|&(_, &count)| count > 0);
            own.map(|(&(lower, _), &count)| (lower, count)).collect()
        };
        let steps = Step::of_sides(&sides.iter().map(own).collect::<Vec<_>>(), grid.is_none());
        Ground { values, sides, quantiles: quantiles.to_vec(), resolution, steps }
    }

    /// Whether single values are compared.
    pub fn exact(&self) -> bool {
        self.resolution == 0.0
    }

    /// In what steps the values of each side come.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// By how much a difference can be off, because values come in steps or buckets; in its unit.
    pub fn unresolved(&self, row: &Difference, other: usize) -> f64 {
        if row.measure == Measure::Chance {
            // One request more or less.
            return 1.0 / self.sides[0].count().min(self.sides[other].count()).max(1.0);
        }
        let step = |side: usize| self.steps[side].reach_ns(row.measure);
        (row.base.max(row.other) * self.resolution).max(step(0)).max(step(other))
    }

    pub fn sides(&self) -> &[Counted] {
        &self.sides
    }

    pub fn quantiles(&self) -> &[f64] {
        &self.quantiles
    }

    /// The middle of each value of the table.
    pub fn middles(&self) -> Vec<f64> {
        self.values.iter().map(|&(lower, width)| lower + width / 2.0).collect()
    }

    /// Quantiles of a side.
    pub fn of_side(&self, at: usize) -> Vec<f64> {
        let mut quantiles = self.measured(&self.sides[at].counts);
        quantiles.truncate(self.quantiles.len());
        quantiles
    }

    /// Quantiles and mean of each turn of a side.
    pub fn turns(&self, at: usize) -> impl Iterator<Item = Vec<Measured>> + '_ {
        let side = &self.sides[at];
        side.turns.windows(2).map(move |turn| {
            let mut counts = vec![0; self.values.len()];
            side.entries[turn[0]..turn[1]].iter().for_each(|&(place, count)| counts[place as usize] += count);
            let before: Vec<u64> = running(&counts).collect();
            let measures = self.quantiles.iter().map(|&quantile| Measure::Quantile(quantile)).chain([Measure::Mean]);
            let measured = measures.zip(self.measured(&counts)).map(|(measure, value)| {
                let own = match measure {
                    Measure::Quantile(quantile) => self.quantile_error(quantile, &before),
                    _ => self.mean_error(value, &counts),
                };
                // What is rounded lies anywhere in its step.
                let step = self.steps[at].reach_ns(measure);
                let rounded = (step / value.max(step).max(1.0)).max(self.resolution) / 12f64.sqrt();
                Measured { measure, value, error: own.hypot(rounded) }
            });
            measured.collect()
        })
    }

    /// Half of how far a quantile's logarithm lies apart, where the share below it is a standard deviation more or less.
    fn quantile_error(&self, quantile: f64, before: &[u64]) -> f64 {
        let all = before.last().map_or(1.0, |&all| all.max(1) as f64);
        let deviation = (quantile * (1.0 - quantile) / all).sqrt();
        let log = |quantile: f64| {
            let beyond = (1.0 - quantile).clamp(0.5 / all, 1.0 - 0.5 / all);
            self.exceeded_by(beyond, before).max(1.0).ln()
        };
        (log(quantile + deviation) - log(quantile - deviation)) / 2.0
    }

    /// Relative standard error of a mean.
    fn mean_error(&self, mean: f64, counts: &[u64]) -> f64 {
        let all = counts.iter().sum::<u64>().max(1) as f64;
        let square =
            |(&count, &(lower, width)): (&u64, &(f64, f64))| count as f64 * (lower + width / 2.0 - mean).powi(2);
        let squares: f64 = counts.iter().zip(&self.values).map(square).sum();
        squares.sqrt() / all / mean.max(1.0)
    }

    /// The chance that an event of a side is larger than one of the first.
    pub fn chance(&self, other: usize) -> f64 {
        chance(&self.sides[0].counts, &self.sides[other].counts)
    }

    /// Quantiles by nearest rank, within a bucket evenly, and the mean; in one pass.
    fn measured(&self, counts: &[u64]) -> Vec<f64> {
        let all: u64 = counts.iter().sum();
        let rank = |quantile: f64| nearest_rank(quantile, all);
        let mut measured = Vec::with_capacity(self.quantiles.len() + 1);
        let mut next = self.quantiles.first().map_or(u64::MAX, |&quantile| rank(quantile));
        let (mut before, mut sum) = (0, 0.0);
        for (&count, &(lower, width)) in counts.iter().zip(&self.values) {
            while next <= before + count {
                measured.push(lower + width * ((next - before) as f64 - 0.5) / count as f64);
                next = self.quantiles.get(measured.len()).map_or(u64::MAX, |&quantile| rank(quantile));
            }
            before += count;
            sum += (lower + width / 2.0) * count as f64;
        }
        measured.push(sum / f64::max(all as f64, 1.0));
        measured
    }

    /// The value that so many (a share, 0 to 1) of `before`, the running sum of a side's counts, exceed; infinite where that is less
    /// than half of the last event.
    pub fn exceeded_by(&self, share: f64, before: &[u64]) -> f64 {
        let all = before.last().copied().unwrap_or(0);
        if share * (all as f64) < 0.5 {
            return f64::INFINITY;
        }
        if (1.0 - share) * (all as f64) < 0.5 {
            return f64::NEG_INFINITY;
        }
        let rank = nearest_rank(1.0 - share, all);
        let place = before.partition_point(|&sum| sum < rank);
        let less = place.checked_sub(1).map_or(0, |place| before[place]);
        let (lower, width) = self.values[place];
        lower + width * ((rank - less) as f64 - 0.5) / (before[place] - less) as f64
    }
}

impl Counted {
    fn new(turns: Vec<Vec<Vec<(u64, u64)>>>, table: &[u64]) -> Counted {
        let mut side = Counted { entries: Vec::new(), starts: vec![0], turns: vec![0], counts: vec![0; table.len()] };
        for turn in turns {
            for cell in turn {
                let place = |key: u64| table.binary_search(&key).unwrap_or(0) as u32;
                side.entries.extend(cell.iter().map(|&(key, count)| (place(key), count)));
                side.starts.push(side.entries.len());
            }
            side.turns.push(side.entries.len());
        }
        side.entries.iter().for_each(|&(place, count)| side.counts[place as usize] += count);
        side
    }

    /// Of each value.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Number of events.
    pub fn count(&self) -> f64 {
        self.counts.iter().sum::<u64>() as f64
    }

    /// Places and counts of so many stretches of time at most, cells behind each other.
    pub fn stretches(&self, most: usize) -> impl Iterator<Item = &[(u32, u64)]> {
        let together = (self.starts.len() - 1).div_ceil(most).max(1);
        let ends = self.starts.iter().copied().skip(together).step_by(together);
        let rest = (!(self.starts.len() - 1).is_multiple_of(together)).then_some(self.entries.len());
        ends.chain(rest).scan(0, |from, to| Some(&self.entries[std::mem::replace(from, to)..to]))
    }
}

/// The running sum of counts.
pub(super) fn running(counts: &[u64]) -> impl Iterator<Item = u64> + '_ {
    counts.iter().scan(0, |sum, &count| {
        *sum += count;
        Some(*sum)
    })
}

/// The cells of a side: values (or buckets of `grid`) with counts.
fn keys(sample: &Sample, grid: Option<Grid>) -> Vec<Vec<(u64, u64)>> {
    match (&sample.cells, grid) {
        (Cells::Events(values), None) => values.iter().map(|&value| vec![(value, 1)]).collect(),
        (Cells::Events(values), Some(grid)) => {
            // As many cells as blocks are well found with.
            let together = values.len().div_ceil(1024).max(1);
            let cell = |values: &[u64]| values.iter().map(|&value| (grid.index(value) as u64, 1)).collect();
            values.chunks(together).map(cell).collect()
        }
        (Cells::Histograms(own, cells), grid) => {
            let to = grid.unwrap_or(*own);
            let cell = |cell: &Vec<(u32, u64)>| {
                cell.iter().map(|&(bucket, count)| (to.fold(*own, bucket as usize) as u64, count)).collect()
            };
            cells.iter().map(cell).collect()
        }
    }
}

/// The chance that a value of `b` is larger than one of `a`; equal ones (of one bucket) count half.
fn chance(a: &[u64], b: &[u64]) -> f64 {
    let (mut below, mut sum, mut of_a, mut of_b) = (0.0, 0.0, 0.0, 0.0);
    for (&a, &b) in a.iter().zip(b) {
        let (a, b) = (a as f64, b as f64);
        sum += b * (below + a / 2.0);
        below += a;
        of_a += a;
        of_b += b;
    }
    if of_a * of_b > 0.0 { sum / (of_a * of_b) } else { 0.5 }
}
