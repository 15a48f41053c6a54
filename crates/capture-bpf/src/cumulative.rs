//! A histogram that the kernel counts for a key, and what was added since it was last read.

use crate::loader::{Loaded, Raw, shared};
use crate::{Counted, Error};
use latscope_histogram::{Grid, Sparse, Totals};

/// The kernel's histograms end at two to this power of nanoseconds, 73 minutes; what is longer counts in the last
/// bucket (`bpf/hist.h`).
pub const BITS: usize = 42;
/// Bytes of the head of a histogram; 32-bit counts of the buckets follow.
const HEAD: usize = Head::SIZE;
/// A key has a histogram for even epochs and one for odd ones, from which it is read while nobody writes into it.
pub const HALVES: usize = 2;

shared! {
    /// The head of a histogram. Minimum, maximum and count are those of one epoch.
    pub struct Head {
        sum_ns: u64,
        bytes: u64,
        min_ns: u64,
        max_ns: u64,
        epoch: u32,
        count: u32,
    }
}

/// What the histograms of all CPUs may occupy.
const MEMORY_BYTES: usize = 64 << 20;
/// Coarser than this is no use.
const COARSEST: u8 = 2;

/// The finest grid, of those up to the given one, on which so many keys find room, and how many keys there is room for.
pub fn room(cpus: usize, keys: usize, finest: Grid) -> (Grid, usize) {
    let finest = finest.min(Grid::FINE);
    let fits = |grid: &Grid| keys.saturating_mul(HALVES * cpus).saturating_mul(bytes(*grid)) <= MEMORY_BYTES;
    let coarsest = Grid::with_power(COARSEST).unwrap_or(finest).min(finest);
    let mut grids = (coarsest.power()..=finest.power()).rev().filter_map(Grid::with_power);
    match grids.find(fits) {
        Some(grid) => (grid, keys),
        None => (coarsest, (MEMORY_BYTES / HALVES / bytes(coarsest) / cpus.max(1)).max(1)),
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

/// The epoch in which events count now.
pub struct Epoch(u32);

impl Epoch {
    /// That in which a capture starts.
    pub const FIRST: Epoch = Epoch(1);

    /// Goes on to the next epoch and returns the one that is over. Only programs that run at this very moment still
    /// write into its histograms.
    pub fn turn(&mut self, loaded: &Loaded) -> Result<u32, Error> {
        let over = self.0;
        loaded.set_variable(".data.epoch", over.wrapping_add(1))?;
        self.0 = over.wrapping_add(1);
        Ok(over)
    }
}

/// Which of the histograms of a key has the events of an epoch.
pub const fn half(epoch: u32) -> usize {
    epoch as usize % HALVES
}

/// What a key had counted when it was last read.
pub struct Cumulative {
    /// Row of the key.
    pub row: usize,
    halves: [Half; HALVES],
}

/// Of one of the two histograms. Numbers in the kernel only grow, and wrap, so that differences of sums over the CPUs
/// are right as long as no bucket grows by 2^32 between two readings.
#[derive(Clone)]
struct Half {
    sum_ns: u64,
    bytes: u64,
    buckets: Vec<u32>,
    /// All buckets of each CPU.
    totals: Vec<u32>,
}

impl Cumulative {
    /// Nothing counted so far.
    pub fn new(row: usize, grid: Grid) -> Cumulative {
        let half = || Half { sum_ns: 0, bytes: 0, buckets: vec![0; buckets(grid)], totals: Vec::new() };
        Cumulative { row, halves: [half(), half()] }
    }

    /// What was counted in an epoch that is over, from the histograms of its half; `None` if nothing was.
    pub fn take(&mut self, per_cpu: &[Vec<u8>], grid: Grid, epoch: u32) -> Option<Counted> {
        let before = &mut self.halves[half(epoch)];
        let mut now = Half { sum_ns: 0, bytes: 0, buckets: vec![0; buckets(grid)], totals: Vec::new() };
        let (mut min, mut max, mut is_exact) = (u64::MAX, 0, true);
        for (at, cpu) in per_cpu.iter().enumerate() {
            let head = Head::read(cpu);
            now.sum_ns = now.sum_ns.wrapping_add(head.sum_ns);
            now.bytes = now.bytes.wrapping_add(head.bytes);
            let mut total = 0u32;
            for (sum, bucket) in now.buckets.iter_mut().zip(cpu.get(HEAD..)?.chunks_exact(4)) {
                let bucket = u32::read(bucket);
                *sum = sum.wrapping_add(bucket);
                total = total.wrapping_add(bucket);
            }
            now.totals.push(total);
            // What a program added while it was read is in its buckets now and not in its head, or the other way round.
            let count = if head.epoch == epoch { head.count } else { 0 };
            is_exact &= count == total.wrapping_sub(before.totals.get(at).copied().unwrap_or(0));
            if count > 0 {
                (min, max) = (min.min(head.min_ns), max.max(head.max_ns));
            }
        }
        let (mut indices, mut counts, mut count) = (Vec::new(), Vec::new(), 0);
        for (index, (&now, &before)) in now.buckets.iter().zip(&before.buckets).enumerate() {
            let more = u64::from(now.wrapping_sub(before));
            if more > 0 {
                indices.push(index as u32);
                counts.push(more);
                count += more;
            }
        }
        let (first, last) = (*indices.first()? as usize, *indices.last()? as usize);
        // What is longer than the last bucket counts in it.
        let index = |value| grid.index(value).min(buckets(grid) - 1);
        is_exact &= index(min) == first && index(max) == last;
        if !is_exact {
            (min, max) = (grid.lower(first), grid.upper(last));
        }
        let totals = Totals { count, sum: now.sum_ns.wrapping_sub(before.sum_ns).into(), min, max, bytes: None };
        let bytes = now.bytes.wrapping_sub(before.bytes);
        *before = now;
        let histogram = Sparse::from_parts(grid, indices, counts, None, totals).ok()?;
        Some(Counted { key: self.row, histogram, bytes, is_exact })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::in_c;

    #[test]
    fn memory_is_bounded_whatever_the_machine_has() {
        for cpus in [1, 2, 8, 128, 1024, 8192] {
            for wanted in [1, 40, 384, 2540] {
                let (grid, keys) = room(cpus, wanted, Grid::FINE);
                assert!(keys * cpus * bytes(grid) <= MEMORY_BYTES, "{cpus} CPUs, {wanted} keys");
                assert!((1..=wanted).contains(&keys) && grid.power() >= COARSEST);
            }
        }
        assert_eq!(room(2, 90, Grid::FINE), (Grid::FINE, 90));
        for power in 0..=6 {
            let finest = Grid::with_power(power).unwrap();
            assert_eq!(room(2, 90, finest), (finest, 90), "as coarse as asked for");
            assert!(room(512, 4000, finest).0 <= finest);
        }
        assert_eq!(room(128, 384, Grid::FINE), (Grid::with_power(2).unwrap(), 376));
        assert_eq!(room(128, 50, Grid::FINE), (Grid::with_power(5).unwrap(), 50));
        assert_eq!(room(128, 160, Grid::FINE), (Grid::with_power(3).unwrap(), 160));
    }

    /// One CPU as the kernel's side counts it.
    struct Cpu(Vec<u8>);

    impl Cpu {
        fn new(head: Head, counts: &[(u64, u32)]) -> Cpu {
            let mut value = Vec::new();
            head.write(&mut value);
            value.resize(bytes(Grid::FINE), 0);
            for &(latency_ns, count) in counts {
                let at = HEAD + 4 * Grid::FINE.index(latency_ns);
                value[at..at + 4].copy_from_slice(&count.to_ne_bytes());
            }
            Cpu(value)
        }
    }

    fn head(epoch: u32, count: u32, (min_ns, max_ns): (u64, u64)) -> Head {
        Head { sum_ns: 0, bytes: 0, min_ns, max_ns, epoch, count }
    }

    fn extremes(seen: &mut Cumulative, cpus: Vec<Cpu>, epoch: u32) -> (u64, u64, bool) {
        let cpus: Vec<Vec<u8>> = cpus.into_iter().map(|cpu| cpu.0).collect();
        let counted = seen.take(&cpus, Grid::FINE, epoch).unwrap();
        let totals = *counted.histogram.totals();
        (totals.min, totals.max, counted.is_exact)
    }

    #[test]
    fn minimum_and_maximum_are_those_of_the_epoch_or_edges() {
        let edges = |value: u64| {
            let bucket = Grid::FINE.index(value);
            (Grid::FINE.lower(bucket), Grid::FINE.upper(bucket))
        };
        let mut seen = Cumulative::new(0, Grid::FINE);
        let (one, other) = (1_000_003, 5_000_007);
        // Each CPU has one event; that of the second is of the same epoch.
        let cpus =
            vec![Cpu::new(head(1, 1, (one, one)), &[(one, 1)]), Cpu::new(head(1, 1, (other, other)), &[(other, 1)])];
        assert_eq!(extremes(&mut seen, cpus, 1), (one, other, true));
        // In epoch 3 the second CPU counted nothing: what it has is old.
        let cpus = vec![
            Cpu::new(head(3, 1, (one + 9, one + 9)), &[(one, 2)]),
            Cpu::new(head(1, 1, (other, other)), &[(other, 1)]),
        ];
        assert_eq!(extremes(&mut seen, cpus, 3), (one + 9, one + 9, true));
        // An event of epoch 3 came too late: it counts in epoch 5, and nobody knows its value.
        let cpus = vec![
            Cpu::new(head(5, 1, (one + 5, one + 5)), &[(one, 4)]),
            Cpu::new(head(1, 1, (other, other)), &[(other, 1)]),
        ];
        assert_eq!(extremes(&mut seen, cpus, 5), (edges(one).0, edges(one).1, false));
        // Longer than the last bucket.
        let hours = 1 << 43;
        let last = Grid::FINE.lower(buckets(Grid::FINE) - 1);
        let cpus = vec![
            Cpu::new(head(7, 1, (hours, hours)), &[(one, 4), (last, 1)]),
            Cpu::new(head(1, 1, (other, other)), &[(other, 1)]),
        ];
        assert_eq!(extremes(&mut seen, cpus, 7), (hours, hours, true));
        // The other half starts at nothing.
        assert_eq!(extremes(&mut seen, vec![Cpu::new(head(8, 1, (one, one)), &[(one, 1)])], 8), (one, one, true));
    }

    /// As the programs do it, compiled for user space: epochs of odd numbers, the last event late.
    #[test]
    fn the_first_event_of_an_epoch_resets_its_extremes() {
        let events = [(1, 70), (1, 50), (1, 60), (3, 90), (3, 95), (1, 20)];
        let add = events.map(|(epoch, value)| format!("hist_add(&h.head, {value}, 1, {epoch}, 6);"));
        let field = |events: usize, name: &str| {
            let declared = "static struct { struct hist head; u32 buckets[HIST_MAX_LEN]; } h;";
            format!("({{ {declared} __builtin_memset(&h, 0, sizeof(h)); {} h.head.{name}; }})", add[..events].concat())
        };
        let asked: Vec<String> = [3, 5, 6]
            .into_iter()
            .flat_map(|events| ["min_ns", "max_ns", "count", "epoch", "sum_ns"].map(|name| field(events, name)))
            .collect();
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let expected = [[50, 70, 3, 1, 180], [90, 95, 2, 3, 365], [20, 95, 3, 3, 385]];
        assert_eq!(in_c::evaluate(&["hist.h"], &asked), expected.concat());
        in_c::assert_layout(&["hist.h"], "hist", Head::SIZE, Head::LAYOUT);
    }

    #[test]
    fn differences_survive_a_wrap() {
        let mut seen = Cumulative::new(3, Grid::FINE);
        let cpu = |bucket: u32, sum_ns: u64| Cpu::new(Head { sum_ns, ..head(0, 0, (0, 0)) }, &[(100, bucket)]).0;
        let first = seen.take(&[cpu(u32::MAX - 1, u64::MAX - 9), cpu(1, 0)], Grid::FINE, 1).unwrap();
        assert_eq!((first.key, first.histogram.totals().count), (3, u64::from(u32::MAX)));
        let second = seen.take(&[cpu(u32::MAX, 90), cpu(3, 0)], Grid::FINE, 3).unwrap();
        assert_eq!((second.histogram.totals().count, second.histogram.totals().sum), (3, 100));
        assert_eq!(second.histogram.indices(), [100]);
        assert!(seen.take(&[cpu(u32::MAX, 90), cpu(3, 0)], Grid::FINE, 5).is_none(), "nothing new is left out");
    }
}
