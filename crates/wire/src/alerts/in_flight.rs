//! What was in flight at the end of each interval of a trace: a hub sees it while it waits, a trace has it when it is complete.

use latscope_event::{Batch, Field, Mask};
use latscope_histogram::{Grid, Histogram, Sparse};
use latscope_series::Waiter;
use std::collections::{BTreeMap, HashMap};

/// Most ages that are kept.
const LIMIT: usize = 20_000_000;

/// Ages of completed requests at the ends of the intervals in which they were in flight.
pub struct InFlight {
    by: Vec<Field>,
    width_ns: i64,
    groups: HashMap<Vec<String>, u32>,
    /// Group and age, by interval.
    ages: BTreeMap<i64, Vec<(u32, u64)>>,
    count: usize,
}

impl InFlight {
    /// By these fields, in intervals of so many nanoseconds.
    pub fn new(by: &[Field], width_ns: u64) -> InFlight {
        let (by, width_ns) = (by.to_vec(), i64::try_from(width_ns).unwrap_or(i64::MAX).max(1));
        InFlight { by, width_ns, groups: HashMap::new(), ages: BTreeMap::new(), count: 0 }
    }

    /// Adds the requests of a batch that the mask lets through. False, and nothing more is added, where there are too many.
    pub fn add(&mut self, batch: &Batch, mask: Option<&Mask>) -> bool {
        let width_ns = self.width_ns;
        let interval = |ns: i64| ns.div_euclid(width_ns);
        let end = |start_ns: i64, latency_ns: u64| interval(start_ns.saturating_add_unsigned(latency_ns));
        let is_in_flight = |start_ns, latency_ns| interval(start_ns) < end(start_ns, latency_ns);
        for request in Waiter::of_rows(batch, mask, &self.by, &is_in_flight) {
            let next = self.groups.len() as u32;
            let group = *self.groups.entry(request.group).or_insert(next);
            for interval in interval(request.start_ns)..end(request.start_ns, request.age_ns) {
                if self.count >= LIMIT {
                    return false;
                }
                let age_ns =
                    (interval + 1).saturating_mul(width_ns).saturating_sub(request.start_ns).max(0).unsigned_abs();
                self.ages.entry(interval).or_default().push((group, age_ns));
                self.count += 1;
            }
        }
        true
    }

    /// The ages at the end of an interval, by group.
    pub fn at_end_of(&self, interval: i64) -> Vec<(&[String], Sparse)> {
        let Some(ages) = self.ages.get(&interval) else { return Vec::new() };
        let mut histograms = BTreeMap::<u32, Histogram>::new();
        for &(group, age_ns) in ages {
            histograms.entry(group).or_insert_with(|| Histogram::new(Grid::FINE, false)).record(age_ns, 0);
        }
        let labels = self.groups.iter().filter_map(|(labels, number)| Some((&labels[..], histograms.get(number)?)));
        let mut all: Vec<(&[String], Sparse)> = labels.map(|(labels, ages)| (labels, ages.to_sparse())).collect();
        all.sort_by(|one, other| one.0.cmp(other.0));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_in_flight_at_each_end_that_it_crosses() {
        let mut batch = Batch::new([Field::Time, Field::Latency, Field::Device].into_iter().collect());
        for (start, latency, device) in [(5, 3, "sda"), (8, 30, "sda"), (9, 1, "sdb"), (20, 10, "sdb"), (29, 2, "sda")]
        {
            batch.push_i64(Field::Time, start);
            batch.push_u64(Field::Latency, latency);
            batch.push_text(Field::Device, Some(device.as_bytes()));
            batch.end_row();
        }
        let mut in_flight = InFlight::new(&[Field::Device], 10);
        assert!(in_flight.add(&batch, None));
        let found = |interval: i64| -> Vec<(String, u64, u64)> {
            let ages = in_flight.at_end_of(interval);
            ages.iter().map(|(group, ages)| (group[0].clone(), ages.totals().count, ages.totals().max)).collect()
        };
        let one = |device: &str, count, age| (device.to_string(), count, age);
        // What completes at the end itself is in flight there: it counts in the next interval.
        assert_eq!(found(0), [one("sda", 1, 2), one("sdb", 1, 1)]);
        assert_eq!(found(1), [one("sda", 1, 12)]);
        assert_eq!(found(2), [one("sda", 2, 22), one("sdb", 1, 10)]);
        assert_eq!(found(3), []);
    }
}
