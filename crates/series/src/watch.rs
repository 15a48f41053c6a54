//! Whether a threshold was exceeded, interval after interval, also in those without any event.

use crate::{HistogramSeries, Threshold};
use latscope_histogram::{Grid, Histogram, Sparse};
use std::collections::BTreeMap;

/// Holds a [threshold](Threshold) against one series after the other, which may be parts of one that goes on.
#[derive(Clone, Debug)]
pub struct Watch {
    threshold: Threshold,
    /// By group: in how many intervals in a row it held so far.
    runs: BTreeMap<Vec<String>, u64>,
    /// The interval behind the last one.
    next: Option<i64>,
    exceeded: Option<Exceeded>,
}

/// When and of whom a threshold held long enough for the first time.
#[derive(Clone, PartialEq, Debug)]
pub struct Exceeded {
    /// The values of the group fields.
    pub group: Vec<String>,
    /// Begin of the interval, on the trace's clock.
    pub start_ns: i64,
    /// Its length.
    pub width_ns: u64,
    /// Events in it; by share not a whole number.
    pub events: f64,
}

impl Watch {
    /// Before the first series.
    pub fn new(threshold: Threshold) -> Watch {
        Watch { threshold, runs: BTreeMap::new(), next: None, exceeded: None }
    }

    /// The threshold.
    pub fn threshold(&self) -> &Threshold {
        &self.threshold
    }

    /// When it held long enough for the first time, if it did.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        self.exceeded.as_ref()
    }

    /// Whether there was not one interval to look at.
    pub fn is_blind(&self) -> bool {
        self.next.is_none()
    }

    /// Looks at the next series: at each interval from its first to its last, and in it at each group that the series knows.
    pub fn see(&mut self, series: &HistogramSeries) {
        let empty = Histogram::new(Grid::FINE, false).to_sparse();
        let holds = |histogram: &Sparse, interval| {
            self.threshold.holds(histogram, series.per_event(), series.width_of(interval))
        };
        let mut runs: Vec<u64> =
            series.groups().iter().map(|group| self.runs.get(group).copied().unwrap_or(0)).collect();
        let enough = u64::from(self.threshold.intervals());
        let mut first: Option<(i64, usize, f64)> = None;
        let mut note = |interval: i64, group: usize, events: f64| {
            let groups = series.groups();
            if first.is_none_or(|(at, other, _)| (interval, &groups[group]) < (at, &groups[other])) {
                first = Some((interval, group, events));
            }
        };
        for (&interval, slice) in series.slices() {
            let without_events = holds(&empty, interval);
            let gap = self.next.map_or(0, |next| interval.saturating_sub(next).max(0));
            for (group, run) in runs.iter_mut().enumerate().filter(|_| gap > 0) {
                let before = *run;
                *run = if without_events { before.saturating_add(gap as u64) } else { 0 };
                if before < enough && *run >= enough {
                    note(interval - gap + (enough - before) as i64 - 1, group, 0.0);
                }
            }
            let mut slots = slice.groups.iter().peekable();
            for (group, run) in runs.iter_mut().enumerate() {
                let histogram = slots.next_if(|(number, _)| *number as usize == group).map(|(_, histogram)| histogram);
                let held = histogram.map_or(without_events, |histogram| holds(histogram, interval));
                *run = if held { run.saturating_add(1) } else { 0 };
                if *run == enough {
                    let count = histogram.map_or(0, |histogram| histogram.totals().count);
                    note(interval, group, count as f64 / series.per_event() as f64);
                }
            }
            self.next = Some(series.after(interval));
        }
        self.runs.extend(series.groups().iter().cloned().zip(runs));
        if let (None, Some((interval, group, events))) = (&self.exceeded, first) {
            let group = series.groups()[group].clone();
            let (start_ns, width_ns) = (series.start_ns(interval), series.width_of(interval));
            self.exceeded = Some(Exceeded { group, start_ns, width_ns, events });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Quantity, Weight};
    use proptest::prelude::*;

    /// One event of that many milliseconds for each interval and group.
    fn series(events: &[(i64, &str, u64)]) -> HistogramSeries {
        let by = vec![latscope_event::Field::Host];
        let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, by, 1_000_000_000);
        for &(interval, host, ms) in events {
            let mut histogram = Histogram::new(Grid::FINE, false);
            histogram.record(ms * 1_000_000, 0);
            series.insert(interval, vec![host.into()], &histogram.to_sparse()).unwrap();
        }
        series
    }

    fn exceeded(threshold: &str, parts: &[&[(i64, &str, u64)]]) -> Option<(String, i64)> {
        let mut watch = Watch::new(Threshold::parse(threshold).unwrap());
        parts.iter().for_each(|part| watch.see(&series(part)));
        watch.exceeded().map(|at| (at.group.join(" "), at.start_ns / 1_000_000_000))
    }

    #[test]
    fn intervals_without_events_count() {
        let gap: &[_] = &[(0, "a", 1), (1, "a", 1), (6, "a", 1)];
        for (threshold, expected) in [
            ("count < 1", Some(2)),
            ("rate < 1 for 4 intervals", Some(5)),
            ("rate < 1 for 5 intervals", None),
            ("p99 < 1s for 3 intervals", None),
            ("max >= 1ms for 2 intervals", Some(1)),
        ] {
            assert_eq!(exceeded(threshold, &[gap]), expected.map(|at| ("a".into(), at)), "{threshold}");
            let parts: Vec<_> = gap.chunks(1).collect();
            assert_eq!(exceeded(threshold, &parts), expected.map(|at| ("a".into(), at)), "{threshold} in parts");
        }
        assert!(Watch::new(Threshold::parse("count < 1").unwrap()).is_blind());
    }

    #[test]
    fn a_group_that_is_silent_has_no_events() {
        let both: &[_] = &[(0, "a", 1), (0, "b", 1), (1, "a", 1), (2, "a", 1), (3, "a", 1), (3, "b", 9)];
        assert_eq!(exceeded("count < 1 for 2 intervals", &[both]), Some(("b".into(), 2)));
        assert_eq!(exceeded("count < 1 for 3 intervals", &[both]), None);
        assert_eq!(exceeded("p50 > 5ms", &[both]), Some(("b".into(), 3)));
    }

    proptest! {
        /// By definition: a table of all intervals and groups, and the first window that is full.
        #[test]
        fn equals_a_table(
            events in proptest::collection::btree_map((0i64..12, 0usize..3), 1u64..4, 1..20), enough in 1usize..4, cut in 0usize..20,
        ) {
            let hosts = ["a", "b", "c"];
            let list: Vec<_> = events.iter().map(|(&(at, host), &ms)| (at, hosts[host], ms)).collect();
            let text = format!("count < 1 or max > 2ms for {enough} intervals");
            let (from, to) = (list[0].0, list[list.len() - 1].0);
            let known = |host: &str| list.iter().any(|event| event.1 == host);
            let is_bad = |at: i64, host: &str| {
                list.iter().find(|event| (event.0, event.1) == (at, host)).is_none_or(|event| event.2 > 2)
            };
            let truth = (from..=to).flat_map(|at| hosts.map(|host| (at, host))).find(|&(at, host)| {
                known(host) && (0..enough as i64).all(|back| at - back >= from && is_bad(at - back, host))
            });
            let truth = truth.map(|(at, host)| (host.to_string(), at));
            prop_assert_eq!(exceeded(&text, &[&list]), truth.clone());
            // In parts that know all groups.
            let whole = series(&list);
            let mut watch = Watch::new(Threshold::parse(&text).unwrap());
            let middle = list[cut % list.len()].0;
            for part in [i64::MIN..middle, middle..i64::MAX] {
                let mut some = whole.clone();
                some.slices.retain(|at, _| part.contains(at));
                watch.see(&some);
            }
            let found = watch.exceeded().map(|at| (at.group.join(" "), at.start_ns / 1_000_000_000));
            prop_assert_eq!(found, truth);
        }
    }
}
