//! Latencies in their order.

use super::super::table::Table;
use latscope_histogram::{Grid, Histogram};

/// Latencies of rows, ascending, with how many events each stands for.
pub struct Latencies {
    pub sorted_ns: Vec<u64>,
    /// How many events there are up to each, itself included; empty where each row stands for one.
    events: Vec<u64>,
}

impl Latencies {
    /// The latencies of these rows.
    pub fn new(table: &Table, rows: impl Iterator<Item = usize>) -> Latencies {
        if table.weights.is_empty() {
            let mut sorted_ns: Vec<u64> = rows.map(|row| table.value(row)).collect();
            sorted_ns.sort_unstable();
            return Latencies { sorted_ns, events: Vec::new() };
        }
        let mut weighted: Vec<(u64, u64)> = rows.map(|row| (table.value(row), table.weight(row))).collect();
        weighted.sort_unstable();
        let mut sum = 0;
        let sums = weighted.into_iter().map(|(ns, weight)| {
            sum += weight;
            (ns, sum)
        });
        let (sorted_ns, events) = sums.unzip();
        Latencies { sorted_ns, events }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.sorted_ns.len()
    }

    /// How many events the first rows stand for.
    pub fn events_of(&self, rows: usize) -> u64 {
        let Some(last) = rows.checked_sub(1) else { return 0 };
        self.events.get(last).copied().unwrap_or(rows as u64)
    }

    /// How many rows are faster.
    pub fn rows_below(&self, ns: u64) -> usize {
        self.sorted_ns.partition_point(|&one| one < ns)
    }

    /// The fastest and the slowest one; 0 without any.
    pub fn edges_ns(&self) -> [u64; 2] {
        [self.sorted_ns.first(), self.sorted_ns.last()].map(|ns| ns.copied().unwrap_or(0))
    }

    /// The median; 0 without any.
    pub fn median_ns(&self) -> u64 {
        self.median_without_ns(&Latencies { sorted_ns: Vec::new(), events: Vec::new() })
    }

    /// The median of those that are not among some of them; 0 without any.
    pub fn median_without_ns(&self, some: &Latencies) -> u64 {
        let half = (self.events_of(self.len()) - some.events_of(some.len())) / 2;
        // Up to a latency, others are those of all that are not of some.
        let others = |ns: u64| {
            let upto = |of: &Latencies| of.events_of(of.sorted_ns.partition_point(|&one| one <= ns));
            upto(self) - upto(some)
        };
        let at = self.sorted_ns.partition_point(|&ns| others(ns) <= half);
        self.sorted_ns.get(at).copied().unwrap_or(0)
    }

    /// The slowest so many events.
    pub fn slowest(&self, events: u64) -> Histogram {
        let (mut histogram, mut left, mut end) = (Histogram::new(Grid::FINE, false), events, self.len());
        while end > 0 && left > 0 {
            let edge_ns = Grid::FINE.lower(Grid::FINE.index(self.sorted_ns[end - 1]));
            let start = self.sorted_ns[..end].partition_point(|&ns| ns < edge_ns);
            let count = (self.events_of(end) - self.events_of(start)).min(left);
            histogram.record_many(edge_ns, count, 0);
            (left, end) = (left - count, start);
        }
        histogram
    }

    /// The least latency of the slowest so many events.
    pub fn slow_ns(&self, events: u64) -> u64 {
        let faster = self.events_of(self.len()).saturating_sub(events);
        let at = match self.events.is_empty() {
            true => faster as usize,
            false => self.events.partition_point(|&events| events <= faster),
        };
        self.sorted_ns.get(at).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_are_those_of_events(rows in proptest::collection::vec((0..40u64, 1..4u32, any::<bool>()), 1..40), is_weighted: bool, events in 1..60u64) {
            let weights = rows.iter().map(|&(_, weight, _)| weight);
            let mut table = Table::new();
            table.latency_ns = rows.iter().map(|&(ns, ..)| ns * 100).collect();
            table.weights = if is_weighted { weights.collect() } else { Vec::new() };
            let all = Latencies::new(&table, 0..rows.len());
            let some = Latencies::new(&table, (0..rows.len()).filter(|&row| rows[row].2));
            // Every event by itself.
            let each = |keep: &dyn Fn(usize) -> bool| {
                let rows = (0..rows.len()).filter(|&row| keep(row));
                let mut each: Vec<u64> =
                    rows.flat_map(|row| vec![table.latency_ns[row]; table.weight(row) as usize]).collect();
                each.sort_unstable();
                each
            };
            let (every, others) = (each(&|_| true), each(&|row| !rows[row].2));
            let median = |each: &[u64]| each.get(each.len() / 2).copied().unwrap_or(0);
            prop_assert_eq!(all.median_ns(), median(&every));
            prop_assert_eq!(all.median_without_ns(&some), median(&others));
            prop_assert_eq!(all.edges_ns(), [every[0], every[every.len() - 1]]);
            let events = events.min(every.len() as u64);
            let slowest = &every[every.len() - events as usize..];
            prop_assert_eq!(all.slow_ns(events), slowest[0]);
            let mut histogram = Histogram::new(Grid::FINE, false);
            slowest.iter().for_each(|&ns| histogram.record_many(ns, 1, 0));
            let buckets = |histogram: &Histogram| histogram.to_sparse().buckets().collect::<Vec<_>>();
            prop_assert_eq!(buckets(&all.slowest(events)), buckets(&histogram));
        }
    }
}
