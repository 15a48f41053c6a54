//! A histogram that the kernel counts for a key, and what was added since it was last read.

use super::shared::Sums;
use crate::Counted;
use crate::loader::Raw;
use latscope_histogram::{Grid, Sparse, Totals};

/// The kernel's histograms end at two to this power of nanoseconds, 73 minutes; what is longer counts in the last
/// bucket (`bpf/hist.h`).
const BITS: usize = 42;

/// Bytes of a histogram on this grid.
pub const fn bytes(grid: Grid) -> usize {
    Sums::SIZE + 4 * buckets(grid)
}

const fn buckets(grid: Grid) -> usize {
    (BITS + 1 - grid.power() as usize) << grid.power()
}

/// What a key had counted when it was last read. Numbers in the kernel only grow, and wrap, so that differences of
/// sums over the CPUs are right as long as no bucket grows by 2^32 between two readings.
pub struct Cumulative {
    /// Row of the key.
    pub row: usize,
    sums: Sums,
    buckets: Vec<u32>,
}

impl Cumulative {
    /// Nothing counted so far.
    pub fn new(row: usize, grid: Grid) -> Cumulative {
        Cumulative { row, sums: Sums { latency_ns: 0, bytes: 0 }, buckets: vec![0; buckets(grid)] }
    }

    /// What was counted since the last call, `None` if nothing was.
    pub fn take(&mut self, per_cpu: &[Vec<u8>], grid: Grid) -> Option<Counted> {
        let mut now = Cumulative::new(self.row, grid);
        for cpu in per_cpu {
            let sums = Sums::read(cpu);
            now.sums.latency_ns = now.sums.latency_ns.wrapping_add(sums.latency_ns);
            now.sums.bytes = now.sums.bytes.wrapping_add(sums.bytes);
            for (sum, bucket) in now.buckets.iter_mut().zip(cpu.get(Sums::SIZE..)?.chunks_exact(4)) {
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
            sum: now.sums.latency_ns.wrapping_sub(self.sums.latency_ns).into(),
            min: grid.lower(*indices.first()? as usize),
            max: grid.upper(*indices.last()? as usize),
        };
        let bytes = now.sums.bytes.wrapping_sub(self.sums.bytes);
        *self = now;
        let histogram = Sparse::from_parts(grid, indices, counts, None, totals).ok()?;
        Some(Counted { key: self.row, histogram, bytes })
    }
}
