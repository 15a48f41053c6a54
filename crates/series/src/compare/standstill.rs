//! Times in which no request of a run completed, while at least one was in flight.

use crate::HistogramSeries;

/// So many completions are kept apart.
const COMPLETIONS: usize = 1 << 16;

/// When the requests of a run completed, as far as standstills need it: where they are too many, those that follow each other within a
/// 32,768th of the run are taken together.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Completions {
    each: Vec<Completed>,
}

/// Requests that completed one soon after the other.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Completed {
    /// The first one completed no earlier than this, nanoseconds.
    first_ns: i64,
    /// The last one completed no later than this, nanoseconds.
    last_ns: i64,
    /// The latest moment by which the first of them to start had started, nanoseconds.
    since_ns: i64,
}

impl Completions {
    /// Adds a request: its start and latency, nanoseconds.
    pub fn push(&mut self, since_ns: i64, latency_ns: u64) {
        let end = since_ns.saturating_add_unsigned(latency_ns);
        self.each.push(Completed { first_ns: end, last_ns: end, since_ns });
        self.compact();
    }

    /// Adds those of another part of the run.
    pub fn append(&mut self, mut other: Completions) {
        self.each.append(&mut other.each);
        self.compact();
    }

    /// Of histograms of latencies by the interval of the completion: when in the interval a request completed is not known.
    pub fn of_series(series: &HistogramSeries) -> Completions {
        let completed = |&interval: &i64| {
            let last_ns = series.start_ns(interval.saturating_add(1));
            let since_ns = last_ns.saturating_sub_unsigned(series.at(interval, None).totals().max);
            Completed { first_ns: series.start_ns(interval), last_ns, since_ns }
        };
        Completions { each: series.slices().keys().map(completed).collect() }
    }

    fn compact(&mut self) {
        if self.each.len() <= COMPLETIONS {
            return;
        }
        self.each.sort_unstable_by_key(|some| some.last_ns);
        let (first, last) = (self.each[0], self.each[self.each.len() - 1]);
        let least_ns = last.last_ns.abs_diff(first.first_ns) / (COMPLETIONS as u64 / 2);
        self.each.dedup_by(|next, kept| {
            let is_near = next.first_ns.saturating_sub(kept.last_ns) <= least_ns as i64;
            if is_near {
                let (first_ns, since_ns) = (kept.first_ns.min(next.first_ns), kept.since_ns.min(next.since_ns));
                *kept = Completed { first_ns, since_ns, last_ns: next.last_ns };
            }
            is_near
        });
    }
}

/// Each standstill of a run.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Standstills {
    each: Vec<Still>,
    run_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Still {
    for_ns: u64,
    /// How long a request had been in flight when it ended.
    waited_ns: u64,
    is_last: bool,
}

/// The standstills of a run that are longer than some time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Standstill {
    /// How long all of them are together, nanoseconds.
    pub for_ns: u64,
    /// The whole run, nanoseconds.
    pub run_ns: u64,
    /// The longest time that a request had been in flight when one of them ended, nanoseconds.
    pub oldest_ns: u64,
    /// One of them lasts until the end of the run.
    pub at_end: bool,
    /// There is no other.
    pub only_at_end: bool,
}

impl Standstill {
    /// Part of the whole run, 0 to 1.
    pub fn share(&self) -> f64 {
        self.for_ns as f64 / self.run_ns.max(1) as f64
    }
}

impl Standstills {
    /// Of a run with these completed requests, and these that wait at its end: start and age, nanoseconds.
    ///
    /// Each is a lower bound where the time of a completion is known only within an interval.
    pub fn new(completions: Completions, waiting: &[(i64, u64)]) -> Standstills {
        let mut completed = completions.each;
        completed.sort_unstable_by_key(|some| some.last_ns);
        let waiting_since = waiting.iter().map(|&(start, _)| start).min();
        let waiting_until = waiting.iter().map(|&(start, age)| start.saturating_add_unsigned(age)).max();
        let Some(end) = completed.last().map(|some| some.last_ns).max(waiting_until) else {
            return Standstills::default();
        };
        // Backwards, so that the earliest start of all that complete later is known: what was in flight in between.
        let (mut in_flight_since, mut until) = (waiting_since.unwrap_or(i64::MAX), end);
        let (mut each, mut is_last) = (Vec::new(), waiting_since.is_some());
        for some in completed.iter().rev() {
            each.extend(Still::between(some.last_ns, until, in_flight_since, is_last));
            in_flight_since = in_flight_since.min(some.since_ns);
            (until, is_last) = (until.min(some.first_ns), false);
        }
        // Before the first completion, the run is as old as what completed later.
        each.extend(Still::between(in_flight_since, until, in_flight_since, is_last));
        let run_ns = end.saturating_sub(in_flight_since).try_into().unwrap_or(0);
        Standstills { each, run_ns }
    }

    /// Those that are longer than this, nanoseconds, if there are any.
    ///
    /// One that ends before the run counts only if it is more than half of what the oldest request in flight has waited by its end: where
    /// others go on while one hangs, the pauses between them do not count.
    pub fn longer_than(&self, ns: u64) -> Option<Standstill> {
        let counts = |still: &&Still| still.for_ns > ns && (still.is_last || still.for_ns > still.waited_ns / 2);
        let long: Vec<&Still> = self.each.iter().filter(counts).collect();
        let oldest_ns = long.iter().map(|still| still.waited_ns).max()?;
        let at_end = long.iter().any(|still| still.is_last);
        Some(Standstill {
            for_ns: long.iter().map(|still| still.for_ns).sum(),
            run_ns: self.run_ns,
            oldest_ns,
            at_end,
            only_at_end: at_end && long.len() == 1,
        })
    }
}

impl Still {
    fn between(from: i64, until: i64, in_flight_since: i64, is_last: bool) -> Option<Still> {
        let since = from.max(in_flight_since);
        let length = |since: i64| u64::try_from(until.saturating_sub(since)).unwrap_or(0);
        let (for_ns, waited_ns) = (length(since), length(in_flight_since));
        (for_ns > 0).then_some(Still { for_ns, waited_ns, is_last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interval, Quantity, SeriesBuilder, Weight};
    use latscope_event::{Batch, Field, FieldSet};
    use proptest::prelude::*;

    /// Time in which something is in flight and nothing completes for longer than this, tick by tick.
    fn counted(events: &[(i64, u64)], waiting: &[(i64, u64)], longer_than: u64) -> (u64, bool) {
        let ends: Vec<i64> = events.iter().map(|&(start, latency)| start + latency as i64).collect();
        let until = waiting.iter().map(|&(start, age)| start + age as i64).max();
        let end = ends.iter().copied().chain(until).max().unwrap();
        let first = events.iter().chain(waiting).map(|&(start, _)| start).min().unwrap();
        let is_in_flight = |tick: i64| {
            let is_in = |&(start, latency): &(i64, u64)| start <= tick && tick < start + latency as i64;
            events.iter().any(is_in) || waiting.iter().any(|&(start, _)| start <= tick)
        };
        // When the oldest of those that were in flight before this tick had started.
        let oldest = |tick: i64| {
            let is_in = |&&(start, latency): &&(i64, u64)| start < tick && tick <= start + latency as i64;
            let starts = events.iter().filter(is_in).chain(waiting.iter().filter(|&&(start, _)| start < tick));
            starts.map(|&(start, _)| start).min().unwrap_or(tick)
        };
        let (mut length, mut sum, mut last) = (0, 0, false);
        for tick in first..=end {
            let ended = tick == end || ends.contains(&tick) || !is_in_flight(tick);
            if ended {
                let is_last = tick == end && !waiting.is_empty() && !ends.contains(&end);
                let counts = length > longer_than && (is_last || length > (tick - oldest(tick)) as u64 / 2);
                sum += if counts { length } else { 0 };
                last = counts && is_last;
                length = 0;
            }
            length += u64::from(is_in_flight(tick) && tick < end);
        }
        (sum, last)
    }

    fn completions(events: &[(i64, u64)]) -> Completions {
        let mut completions = Completions::default();
        events.iter().for_each(|&(start, latency)| completions.push(start, latency));
        completions
    }

    #[test]
    fn many_completions_keep_their_standstills() {
        // A request every microsecond, but for 20 ms in which one is in flight. Later, others go on beside one that takes as long; where it
        // starts no other for 20 ms, nothing is in flight.
        let mut completions = Completions::default();
        for at in 0..300_000i64 {
            let stall = if at == 100_000 || at == 250_000 { 20_000_000 } else { 0 };
            completions.push(at * 1000 + at / 100_001 * 20_000_000, 500 + stall);
        }
        assert!(completions.each.len() <= COMPLETIONS);
        let still = Standstills::new(completions, &[]).longer_than(10_000_000).unwrap();
        assert_eq!((still.for_ns, still.oldest_ns, still.at_end), (20_000_500, 20_000_500, false));
    }

    proptest! {
        #[test]
        fn they_are_those_of_a_count_by_ticks(
            events in proptest::collection::vec((0i64..200, 1u64..60), 1..20),
            starts in proptest::collection::vec(0i64..200, 0..3),
            later in 0i64..60,
            longer_than in 0u64..20,
        ) {
            let end = events.iter().map(|&(start, latency)| start + latency as i64).max().unwrap();
            let end = starts.iter().copied().chain([end]).max().unwrap() + later;
            let waiting: Vec<(i64, u64)> = starts.iter().map(|&start| (start, (end - start) as u64)).collect();
            let found = Standstills::new(completions(&events), &waiting).longer_than(longer_than);
            let (sum, last) = counted(&events, &waiting, longer_than);
            prop_assert_eq!(found.map_or((0, false), |still| (still.for_ns, still.at_end)), (sum, last));
        }

        #[test]
        fn those_of_histograms_are_lower_bounds(
            events in proptest::collection::vec((0i64..2000, 1u64..600), 1..20),
            width in 1u64..100,
        ) {
            let mut batch = Batch::new(FieldSet::ALWAYS);
            for &(start, latency) in &events {
                batch.push_i64(Field::Time, start);
                batch.push_u64(Field::Latency, latency);
            }
            let mut builder =
                SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), Interval::Fixed(width));
            builder.add(&batch, None);
            let found = Standstills::new(Completions::of_series(&builder.finish()), &[]);
            let exact = Standstills::new(completions(&events), &[]);
            let total = |stills: &Standstills| stills.each.iter().map(|still| still.for_ns).sum::<u64>();
            prop_assert!(total(&found) <= total(&exact), "{found:?} {exact:?}");
        }
    }
}
