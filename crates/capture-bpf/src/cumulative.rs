//! A histogram that the kernel counts for a key, and what was added since it was last read.

use crate::Counted;
use crate::loader::Raw;
use latscope_histogram::{Grid, Sparse, Totals};

/// The kernel's histograms end at two to this power of nanoseconds, 73 minutes; what is longer counts in the last
/// bucket (`bpf/hist.h`).
pub const BITS: usize = 42;
/// The head of a histogram: its sum of latencies and its bytes, 64 bits each; 32-bit counts of the buckets follow.
pub const HEAD: usize = 16;

/// What the histograms of all CPUs may occupy.
const MEMORY_BYTES: usize = 64 << 20;
/// Coarser than this is no use.
const COARSEST: u8 = 2;

/// The finest grid on which so many keys find room, and how many keys there is room for.
pub fn room(cpus: usize, keys: usize) -> (Grid, usize) {
    let fits = |grid: &Grid| keys.saturating_mul(cpus).saturating_mul(bytes(*grid)) <= MEMORY_BYTES;
    let mut grids = (COARSEST..=Grid::FINE.power()).rev().filter_map(Grid::with_power);
    let coarsest = Grid::with_power(COARSEST).unwrap_or(Grid::FINE);
    match grids.find(fits) {
        Some(grid) => (grid, keys),
        None => (coarsest, (MEMORY_BYTES / bytes(coarsest) / cpus.max(1)).max(1)),
    }
}

/// Bytes of a histogram on this grid.
pub const fn bytes(grid: Grid) -> usize {
    HEAD + 4 * buckets(grid)
}

/// Buckets of a histogram on this grid.
pub const fn buckets(grid: Grid) -> usize {
    (BITS + 1 - grid.power() as usize) << grid.power()
}

/// What a key had counted when it was last read. Numbers in the kernel only grow, and wrap, so that differences of
/// sums over the CPUs are right as long as no bucket grows by 2^32 between two readings.
pub struct Cumulative {
    /// Row of the key.
    pub row: usize,
    sum_ns: u64,
    bytes: u64,
    buckets: Vec<u32>,
}

impl Cumulative {
    /// Nothing counted so far.
    pub fn new(row: usize, grid: Grid) -> Cumulative {
        Cumulative { row, sum_ns: 0, bytes: 0, buckets: vec![0; buckets(grid)] }
    }

    /// What was counted since the last call, `None` if nothing was.
    pub fn take(&mut self, per_cpu: &[Vec<u8>], grid: Grid) -> Option<Counted> {
        let mut now = Cumulative::new(self.row, grid);
        for cpu in per_cpu {
            now.sum_ns = now.sum_ns.wrapping_add(u64::read(cpu));
            now.bytes = now.bytes.wrapping_add(u64::read(cpu.get(8..)?));
            for (sum, bucket) in now.buckets.iter_mut().zip(cpu.get(HEAD..)?.chunks_exact(4)) {
                *sum = sum.wrapping_add(u32::read(bucket));
            }
        }
        let (mut indices, mut counts, mut count) = (Vec::new(), Vec::new(), 0);
        for (index, (&now, &before)) in now.buckets.iter().zip(&self.buckets).enumerate() {
            let more = u64::from(now.wrapping_sub(before));
            if more > 0 {
                indices.push(index as u32);
                counts.push(more);
                count += more;
            }
        }
        let totals = Totals {
            count,
            sum: now.sum_ns.wrapping_sub(self.sum_ns).into(),
            min: grid.lower(*indices.first()? as usize),
            max: grid.upper(*indices.last()? as usize),
        };
        let bytes = now.bytes.wrapping_sub(self.bytes);
        *self = now;
        let histogram = Sparse::from_parts(grid, indices, counts, None, totals).ok()?;
        Some(Counted { key: self.row, histogram, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_whatever_the_machine_has() {
        for cpus in [1, 2, 8, 128, 1024, 8192] {
            for wanted in [1, 40, 384, 2540] {
                let (grid, keys) = room(cpus, wanted);
                assert!(keys * cpus * bytes(grid) <= MEMORY_BYTES, "{cpus} CPUs, {wanted} keys");
                assert!((1..=wanted).contains(&keys) && grid.power() >= COARSEST);
            }
        }
        assert_eq!(room(2, 90), (Grid::FINE, 90));
        assert_eq!(room(128, 384), (Grid::with_power(3).unwrap(), 384));
        assert_eq!(room(128, 50), (Grid::FINE, 50));
        assert_eq!(room(128, 160), (Grid::with_power(4).unwrap(), 160));
    }

    #[test]
    fn differences_survive_a_wrap() {
        let mut seen = Cumulative::new(3, Grid::FINE);
        let cpu = |bucket: u32, sum: u64| {
            let mut value = vec![0; bytes(Grid::FINE)];
            value[..8].copy_from_slice(&sum.to_ne_bytes());
            value[HEAD + 4 * 100..][..4].copy_from_slice(&bucket.to_ne_bytes());
            value
        };
        let first = seen.take(&[cpu(u32::MAX - 1, u64::MAX - 9), cpu(1, 0)], Grid::FINE).unwrap();
        assert_eq!((first.key, first.histogram.totals().count), (3, u64::from(u32::MAX)));
        let second = seen.take(&[cpu(u32::MAX, 90), cpu(3, 0)], Grid::FINE).unwrap();
        assert_eq!((second.histogram.totals().count, second.histogram.totals().sum), (3, 100));
        assert_eq!(second.histogram.indices(), [100]);
        assert!(seen.take(&[cpu(u32::MAX, 90), cpu(3, 0)], Grid::FINE).is_none(), "nothing new is left out");
    }
}
