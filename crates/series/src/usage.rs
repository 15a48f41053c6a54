//! Utilization, saturation and errors of each group, as `iostat -x` has them: from single events, by exact overlap.

use crate::Waiter;
use crate::group::{GROUP_LIMIT, label};
use latscope_event::{Batch, Column, Field, FieldSet, MISSING_U64, Mask};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An event is in flight in no more intervals than a picture can have.
const REACH: i64 = 100_000;
/// So many stretches of work are kept for all groups together: 48 MB or so.
const STRETCHES: usize = 1 << 20;

/// Hands on the events that the mask lets through, with their groups.
fn each_event(by: &[Field], batch: &Batch, mask: Option<&Mask>, take: &mut dyn FnMut(Vec<String>, &Event)) {
    let known =
        |field, row: usize| batch.u64s(field).map(|values: &[u64]| values[row]).filter(|&value| value != MISSING_U64);
    for row in (0..batch.len()).filter(|&row| mask.is_none_or(|mask| mask.get(row))) {
        let event = Event {
            start_ns: batch.time()[row],
            latency_ns: batch.latency()[row],
            queue_ns: known(Field::Queue, row),
            weight: known(Field::SampleWeight, row).unwrap_or(1),
            failed: matches!(batch.column(Field::Error), Some(Column::Text(_)))
                .then(|| batch.text(Field::Error, row).is_some()),
            completed: true,
        };
        take(by.iter().map(|&field| label(batch, field, row)).collect(), &event);
    }
}

/// What a group did, and how long.
#[derive(Clone, PartialEq, Debug)]
pub struct Used {
    /// Mean wait before the issue of the events that have it, nanoseconds; `None` where none has.
    pub mean_queue_ns: Option<f64>,
    /// Number of events that have it.
    pub queued: u64,
    /// Number of events that completed.
    pub events: u64,
    /// Requests in flight, the mean over time.
    pub in_flight: f64,
    /// Share of the time in which at least one was in flight, 0 to 1.
    pub busy: f64,
    /// Whether it was busy for longer than that: events are a sample, or came later than the table reaches back.
    pub busy_at_least: bool,
    /// Events that failed; `None` where the trace does not give it.
    pub errors: Option<u64>,
}

impl Used {
    /// The mean wait before the issue, nanoseconds, where it is that of half of the events or more.
    pub fn queue_of_most(&self) -> Option<f64> {
        self.mean_queue_ns.filter(|_| self.queued.saturating_mul(2) >= self.events)
    }
}

/// Collects [`Used`] of all groups and of each.
#[derive(Default)]
pub struct Usage {
    by: Vec<Field>,
    /// Of groups beyond [`GROUP_LIMIT`] nothing is kept but their part of the total.
    groups: HashMap<Vec<String>, Work>,
    total: Work,
    stretches: usize,
}

#[derive(Default)]
struct Work {
    latency_ns: u128,
    queue_ns: u128,
    queued: u64,
    events: u64,
    errors: Option<u64>,
    busy: Busy,
}

/// The union of stretches of time: those that may still grow, by their start, and the length of those before.
#[derive(Default)]
struct Busy {
    open: BTreeMap<i64, i64>,
    closed_ns: u128,
    closed_to_ns: Option<i64>,
    is_at_least: bool,
}

impl Busy {
    /// Adds a stretch; returns by how many there are more.
    fn add(&mut self, mut from_ns: i64, mut to_ns: i64) -> isize {
        if let Some(closed_to_ns) = self.closed_to_ns.filter(|&closed_to_ns| from_ns < closed_to_ns) {
            self.is_at_least = true;
            from_ns = closed_to_ns;
        }
        let before = self.open.len() as isize;
        // From the last that touches it backwards: none that does not can lie between two that do.
        while let Some((&start_ns, &end_ns)) = self.open.range(..=to_ns).next_back()
            && end_ns >= from_ns
        {
            self.open.remove(&start_ns);
            (from_ns, to_ns) = (from_ns.min(start_ns), to_ns.max(end_ns));
        }
        if from_ns < to_ns {
            self.open.insert(from_ns, to_ns);
        }
        self.open.len() as isize - before
    }

    /// Adds the stretches of another one. Where those that were closed lie is not known, so it is busy for that long at least.
    fn merge(&mut self, other: &Busy) {
        self.closed_ns = self.closed_ns.max(other.closed_ns);
        self.closed_to_ns = self.closed_to_ns.max(other.closed_to_ns);
        self.is_at_least |= other.is_at_least || other.closed_ns > 0;
        other.open.iter().for_each(|(&from_ns, &to_ns)| {
            self.add(from_ns, to_ns);
        });
    }

    /// Closes the first stretch.
    fn close_first(&mut self) -> bool {
        let Some((from_ns, to_ns)) = self.open.pop_first() else { return false };
        self.closed_ns += u128::from(to_ns.abs_diff(from_ns));
        self.closed_to_ns = Some(to_ns);
        true
    }

    fn ns(&self) -> u128 {
        self.closed_ns + self.open.iter().map(|(from_ns, to_ns)| u128::from(to_ns.abs_diff(*from_ns))).sum::<u128>()
    }
}

/// An event, as far as it matters.
struct Event {
    start_ns: i64,
    latency_ns: u64,
    queue_ns: Option<u64>,
    weight: u64,
    failed: Option<bool>,
    /// Whether it completed here: parts of it in earlier intervals and what waits did not.
    completed: bool,
}

impl Work {
    fn add(&mut self, event: &Event) -> isize {
        let weight = u128::from(event.weight);
        self.latency_ns += u128::from(event.latency_ns) * weight;
        self.events += if event.completed { event.weight } else { 0 };
        if let Some(queue_ns) = event.queue_ns {
            self.queue_ns += u128::from(queue_ns) * weight;
            self.queued += event.weight;
        }
        if let Some(failed) = event.failed {
            *self.errors.get_or_insert(0) += if failed { event.weight } else { 0 };
        }
        self.busy.is_at_least |= event.weight > 1;
        self.busy.add(event.start_ns, event.start_ns.saturating_add_unsigned(event.latency_ns))
    }

    fn merge(&mut self, other: &Work) {
        self.latency_ns += other.latency_ns;
        self.queue_ns += other.queue_ns;
        self.queued += other.queued;
        self.events += other.events;
        self.errors = other.errors.map_or(self.errors, |errors| Some(self.errors.unwrap_or(0) + errors));
        self.busy.merge(&other.busy);
    }

    fn used(&self, span_ns: u64) -> Used {
        let span = span_ns.max(1) as f64;
        Used {
            mean_queue_ns: (self.queued > 0).then(|| self.queue_ns as f64 / self.queued as f64),
            queued: self.queued,
            events: self.events,
            in_flight: self.latency_ns as f64 / span,
            busy: (self.busy.ns() as f64 / span).min(1.0),
            busy_at_least: self.busy.is_at_least,
            errors: self.errors,
        }
    }
}

impl Usage {
    /// The fields that it needs beside those of the groups.
    pub const FIELDS: [Field; 3] = [Field::Queue, Field::Error, Field::SampleWeight];

    /// For these groups.
    pub fn new(by: Vec<Field>) -> Usage {
        Usage { by, ..Usage::default() }
    }

    /// The fields that it needs.
    pub fn fields(&self) -> FieldSet {
        Usage::FIELDS.into_iter().chain(self.by.iter().copied()).collect()
    }

    /// Adds the events that the mask lets through.
    pub fn add(&mut self, batch: &Batch, mask: Option<&Mask>) {
        each_event(&self.by.clone(), batch, mask, &mut |group, event| self.add_event(group, event));
    }

    /// Adds what still waits: it is in flight too.
    pub fn add_waiting(&mut self, waiters: &[Waiter]) {
        for waiter in waiters {
            let (start_ns, latency_ns) = (waiter.start_ns, waiter.age_ns);
            let event = Event { start_ns, latency_ns, queue_ns: None, weight: 1, failed: None, completed: false };
            self.add_event(waiter.group.clone(), &event);
        }
    }

    /// Adds a part of an event, which may have started before and may go on.
    fn add_part(&mut self, group: &[String], (from_ns, to_ns): (i64, i64), event: Option<&Event>) {
        let nothing = Event { start_ns: 0, latency_ns: 0, queue_ns: None, weight: 1, failed: None, completed: false };
        let part = Event { start_ns: from_ns, latency_ns: to_ns.abs_diff(from_ns), ..*event.unwrap_or(&nothing) };
        self.add_event(group.to_vec(), &part);
    }

    fn add_event(&mut self, group: Vec<String>, event: &Event) {
        let mut more = self.total.add(event);
        let is_known = self.groups.contains_key(&group);
        if is_known || self.groups.len() < GROUP_LIMIT {
            let work = self.groups.entry(group).or_default();
            more += work.add(event);
            self.stretches = self.stretches.saturating_add_signed(more);
            // The event has made one stretch of each at most.
            let is_closed = self.stretches > STRETCHES && work.busy.close_first();
            self.stretches -= usize::from(is_closed);
        } else {
            self.stretches = self.stretches.saturating_add_signed(more);
        }
        let is_closed = self.stretches > STRETCHES && self.total.busy.close_first();
        self.stretches -= usize::from(is_closed);
    }

    /// What a group did within so much time; `None` when nothing is known of it.
    pub fn used(&self, group: &[String], span_ns: u64) -> Option<Used> {
        Some(self.groups.get(group)?.used(span_ns))
    }

    /// What all groups did together.
    pub fn total(&self, span_ns: u64) -> Used {
        self.total.used(span_ns)
    }

    /// What all groups but some did together.
    pub fn total_without(&self, left_out: &BTreeSet<Vec<String>>, span_ns: u64) -> Used {
        if left_out.is_empty() {
            return self.total(span_ns);
        }
        let mut sum = Work::default();
        self.groups.iter().filter(|(group, _)| !left_out.contains(*group)).for_each(|(_, work)| sum.merge(work));
        sum.used(span_ns)
    }
}

/// [`Usage`] of each interval: an event is in flight in all that it lasts, and its wait and its failure belong to that in which it
/// completed.
pub struct UsageOverTime {
    by: Vec<Field>,
    width_ns: i64,
    intervals: BTreeMap<i64, Usage>,
    /// Intervals before this one were taken.
    open: i64,
}

impl UsageOverTime {
    /// For these groups and intervals of this width.
    pub fn new(by: Vec<Field>, width_ns: u64) -> UsageOverTime {
        let width_ns = i64::try_from(width_ns).unwrap_or(i64::MAX).max(1);
        UsageOverTime { by, width_ns, intervals: BTreeMap::new(), open: i64::MIN }
    }

    /// The fields that it needs.
    pub fn fields(&self) -> FieldSet {
        Usage::FIELDS.into_iter().chain(self.by.iter().copied()).collect()
    }

    /// Adds the events that the mask lets through.
    pub fn add(&mut self, batch: &Batch, mask: Option<&Mask>) {
        each_event(&self.by.clone(), batch, mask, &mut |group, event| {
            let end_ns = event.start_ns.saturating_add_unsigned(event.latency_ns);
            self.spread(&group, (event.start_ns, end_ns), Some(event));
        });
    }

    fn spread(&mut self, group: &[String], (start_ns, end_ns): (i64, i64), event: Option<&Event>) {
        let last = end_ns.div_euclid(self.width_ns);
        let first = start_ns.div_euclid(self.width_ns).max(self.open).max(last.saturating_sub(REACH));
        for interval in first..=last {
            let from_ns = interval.saturating_mul(self.width_ns);
            let part = (start_ns.max(from_ns), end_ns.min(from_ns.saturating_add(self.width_ns)));
            let by = &self.by;
            let usage = self.intervals.entry(interval).or_insert_with(|| Usage::new(by.clone()));
            let weight = event.map_or(1, |event| event.weight);
            match event.filter(|_| interval < last) {
                Some(_) => {
                    let event =
                        Event { start_ns, latency_ns: 0, queue_ns: None, weight, failed: None, completed: false };
                    usage.add_part(group, part, Some(&event));
                }
                None => usage.add_part(group, part, event),
            }
        }
    }

    /// The usage of an interval, with what waits at its end; it and those before it are forgotten.
    pub fn take(&mut self, interval: i64, waiters: &[Waiter]) -> Usage {
        let open = interval.saturating_add(1);
        let from_ns = interval.saturating_mul(self.width_ns);
        let to_ns = from_ns.saturating_add(self.width_ns);
        let mut usage = self.intervals.remove(&interval).unwrap_or_else(|| Usage::new(self.by.clone()));
        for waiter in waiters {
            let seen_ns = waiter.start_ns.saturating_add_unsigned(waiter.age_ns);
            let part = (waiter.start_ns.max(from_ns), seen_ns.min(to_ns));
            if part.0 < part.1 {
                usage.add_part(&waiter.group, part, None);
            }
        }
        self.open = self.open.max(open);
        self.intervals = self.intervals.split_off(&open);
        usage
    }

    /// Whether it takes more memory than there is.
    pub fn is_full(&self) -> bool {
        self.intervals.values().map(|usage| usage.stretches + 16 * (1 + usage.groups.len())).sum::<usize>()
            > 4 * STRETCHES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn busy_is_what_every_nanosecond_says(
            events in proptest::collection::vec((0i64..300, 0u64..40), 0..60),
        ) {
            let mut busy = Busy::default();
            let mut is_busy = [false; 400];
            for &(start, latency) in &events {
                busy.add(start, start + latency as i64);
                is_busy[start as usize..start as usize + latency as usize].fill(true);
            }
            prop_assert_eq!(busy.ns(), is_busy.iter().filter(|&&is_busy| is_busy).count() as u128);
            // Whatever is closed stays counted, and what comes too late is not counted twice.
            while busy.close_first() {}
            events.iter().for_each(|&(start, latency)| { busy.add(start, start + latency as i64); });
            prop_assert_eq!(busy.ns(), is_busy.iter().filter(|&&is_busy| is_busy).count() as u128);
        }
    }
}
