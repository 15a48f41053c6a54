//! Drawing blocks of both sides again and again.

use super::Measure;
use super::blocks;
use super::sample::{Cells, Sample};
use latscope_histogram::Grid;

/// With fewer intervals than this, blocks of histograms tell nothing; their counts are drawn instead, as if events were
/// independent.
const CELLS: usize = 20;

/// The data of all sides over one table of values.
pub(super) struct Resampler {
    /// Lower edge and width, ascending.
    values: Vec<(f64, f64)>,
    sides: Vec<Drawn>,
    quantiles: Vec<f64>,
    /// The part of a value that the values resolve.
    resolution: f64,
}

/// One side.
struct Drawn {
    /// Place in the table and count, cell by cell.
    entries: Vec<(u32, u64)>,
    /// Where each cell begins, and the end of the last.
    starts: Vec<usize>,
    /// Where the entries of each turn begin, and the end of the last.
    turns: Vec<usize>,
    block: usize,
    /// Counts as they are.
    counts: Vec<u64>,
}

impl Resampler {
    pub fn new(sides: &[Vec<Sample>], quantiles: &[f64]) -> Resampler {
        let grid = sides.iter().flatten().filter_map(|sample| match &sample.cells {
            Cells::Events(values) if values.len() > Sample::EVENTS => Some(Grid::FINE),
            Cells::Events(_) => None,
            Cells::Histograms(grid, _) => Some(*grid),
        });
        // One side of histograms makes histograms of all.
        let grid = grid.min();
        let keys = |turns: &Vec<Sample>| turns.iter().map(|sample| keys(sample, grid)).collect();
        let keys: Vec<Vec<Vec<Vec<(u64, u64)>>>> = sides.iter().map(keys).collect();
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
        let mut resampler =
            Resampler { values: values.collect(), sides: Vec::new(), quantiles: quantiles.to_vec(), resolution };
        for turns in keys {
            let mut drawn = Drawn {
                entries: Vec::new(),
                starts: vec![0],
                turns: vec![0],
                block: 1,
                counts: vec![0; resampler.values.len()],
            };
            for turn in turns {
                for cell in turn {
                    let place = |key: u64| table.binary_search(&key).unwrap_or(0) as u32;
                    drawn.entries.extend(cell.iter().map(|&(key, count)| (place(key), count)));
                    drawn.starts.push(drawn.entries.len());
                }
                drawn.turns.push(drawn.entries.len());
            }
            drawn.entries.iter().for_each(|&(place, count)| drawn.counts[place as usize] += count);
            drawn.block = resampler.block(&drawn);
            resampler.sides.push(drawn);
        }
        resampler
    }

    /// The longest of the blocks that the shares of events beyond each quantile ask for.
    fn block(&self, drawn: &Drawn) -> usize {
        let blocks = self.quantiles.iter().map(|&quantile| {
            let limit = self.measured(&drawn.counts, &[quantile])[0];
            let share = |cell: &[usize]| {
                let entries = &drawn.entries[cell[0]..cell[1]];
                let all: u64 = entries.iter().map(|&(_, count)| count).sum();
                let beyond: u64 = entries
                    .iter()
                    .filter(|&&(place, _)| self.values[place as usize].0 > limit)
                    .map(|&(_, count)| count)
                    .sum();
                beyond as f64 / all.max(1) as f64
            };
            blocks::length(&drawn.starts.windows(2).map(share).collect::<Vec<_>>())
        });
        blocks.max().unwrap_or(1)
    }

    /// Whether single values are compared.
    pub fn exact(&self) -> bool {
        self.resolution == 0.0
    }

    pub fn resolution(&self) -> f64 {
        self.resolution
    }

    /// Quantiles and length of blocks of a side.
    pub fn side(&self, at: usize) -> (Vec<f64>, usize) {
        let mut quantiles = self.measured(&self.sides[at].counts, &self.quantiles);
        quantiles.truncate(self.quantiles.len());
        (quantiles, self.sides[at].block)
    }

    /// Quantiles and mean of each turn of a side.
    pub fn turns(&self, at: usize) -> impl Iterator<Item = Vec<(Measure, f64)>> + '_ {
        let side = &self.sides[at];
        side.turns.windows(2).map(|turn| {
            let mut counts = vec![0; self.values.len()];
            side.entries[turn[0]..turn[1]].iter().for_each(|&(place, count)| counts[place as usize] += count);
            let measures = self.quantiles.iter().map(|&quantile| Measure::Quantile(quantile)).chain([Measure::Mean]);
            measures.zip(self.measured(&counts, &self.quantiles)).collect()
        })
    }

    /// The chance that an event of a side is larger than one of the first, as it is.
    pub fn chance(&self, other: usize) -> f64 {
        chance(&self.sides[0].counts, &self.sides[other].counts)
    }

    /// For each round the differences of every pair: quantiles, mean, chance.
    pub fn rounds(&self, rounds: u32, seed: u64) -> Vec<Vec<f64>> {
        let mut random = Random(seed);
        let mut counts: Vec<Vec<u64>> = self.sides.iter().map(|side| vec![0; side.counts.len()]).collect();
        (0..rounds)
            .map(|_| {
                counts.iter_mut().zip(&self.sides).for_each(|(counts, side)| side.draw(counts, &mut random));
                let measured: Vec<Vec<f64>> =
                    counts.iter().map(|counts| self.measured(counts, &self.quantiles)).collect();
                let mut row = Vec::new();
                for other in 1..counts.len() {
                    row.extend(measured[other].iter().zip(&measured[0]).map(|(other, base)| other - base));
                    row.push(chance(&counts[0], &counts[other]) - 0.5);
                }
                row
            })
            .collect()
    }

    /// Quantiles (given ascending) by nearest rank, within a bucket evenly, and the mean; in one pass.
    fn measured(&self, counts: &[u64], quantiles: &[f64]) -> Vec<f64> {
        let all: u64 = counts.iter().sum();
        let rank = |quantile: f64| ((quantile * all as f64).ceil() as u64).clamp(1, all.max(1));
        let mut measured = Vec::with_capacity(quantiles.len() + 1);
        let mut next = quantiles.first().map_or(u64::MAX, |&quantile| rank(quantile));
        let (mut before, mut sum) = (0, 0.0);
        for (&count, &(lower, width)) in counts.iter().zip(&self.values) {
            while next <= before + count {
                measured.push(lower + width * ((next - before) as f64 - 0.5) / count as f64);
                next = quantiles.get(measured.len()).map_or(u64::MAX, |&quantile| rank(quantile));
            }
            before += count;
            sum += (lower + width / 2.0) * count as f64;
        }
        // Nothing was drawn at all: possible only of a handful of events.
        measured.resize(quantiles.len(), 0.0);
        measured.push(sum / f64::max(all as f64, 1.0));
        measured
    }
}

impl Drawn {
    /// Counts of as many cells as there are, drawn in blocks that go around at the end.
    fn draw(&self, counts: &mut [u64], random: &mut Random) {
        counts.fill(0);
        let cells = self.starts.len() - 1;
        if cells < CELLS && self.entries.len() != cells {
            // Independent counts: by Poisson, which is what each count of many is on its own.
            self.counts.iter().zip(counts).for_each(|(&count, drawn)| *drawn = random.poisson(count as f64));
            return;
        }
        let mut left = cells;
        while left > 0 {
            let first = random.below(cells as u64) as usize;
            for step in 0..self.block.min(left) {
                let cell = (first + step) % cells;
                for &(place, count) in &self.entries[self.starts[cell]..self.starts[cell + 1]] {
                    counts[place as usize] += count;
                }
            }
            left -= self.block.min(left);
        }
    }
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

/// Splitmix64 (Steele, Lea and Flood 2014): small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Above 0, below or at 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// By counting exponential steps (Knuth); of large means by the normal distribution that it then is.
    fn poisson(&mut self, mean: f64) -> u64 {
        if mean > 60.0 {
            let normal = (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
            return (mean + mean.sqrt() * normal).round().max(0.0) as u64;
        }
        let (mut left, mut count) = (mean + self.unit().ln(), 0);
        while left > 0.0 {
            count += 1;
            left += self.unit().ln();
        }
        count
    }
}
