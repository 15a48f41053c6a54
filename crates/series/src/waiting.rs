//! What waits: requests that have started and not ended. Their latency is at least their age, so they are the first to show
//! of a stall, while nothing completes.
//!
//! A request counts in each interval at whose end it waits, with its age at that moment as a lower bound of its latency,
//! and once in the whole series, with its last known age. It can raise a percentile, a mean or a maximum and never lower
//! one: young requests say nothing about the latency to come.

use crate::group::label;
use crate::{CountBy, HistogramSeries, Quantity, Weight};
use latscope_event::{Batch, Context, Field, Mask};
use latscope_histogram::{Histogram, Rule, Sparse};
use std::collections::BTreeMap;
use std::ops::Range;

/// A wait goes back over no more intervals than a picture can have.
const REACH: i64 = 100_000;
/// So many empty histograms are made for what waits, at most: some 100 bytes each.
const MOST_EMPTY: i64 = 1_000_000;
/// So many requests of an interval and group are kept apart where only their ages are known: the oldest.
const MOST_HELD: usize = 1 << 16;

/// Some 36 years: nobody has a limit beyond.
const ENDLESS_NS: u64 = 1 << 60;

/// One request that waits.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Waiter {
    /// The values of the group fields.
    pub group: Vec<String>,
    /// When it started, on the trace's clock.
    pub start_ns: i64,
    /// Its age when it was last looked at, nanoseconds.
    pub age_ns: u64,
    /// Whether it may be older: it had begun before the capture, or went on to wait when a recording was cut off.
    #[serde(default)]
    pub is_bound: bool,
}

impl Waiter {
    /// The rows of a batch of what waits (time: its start, latency: its age) that the mask lets through.
    pub fn of_batch(context: &Context, batch: &Batch, mask: Option<&Mask>, by: &[Field]) -> Vec<Waiter> {
        let mut waiters = Waiter::of_rows(batch, mask, by, &|_, _| true);
        let is_cut = context.is_cut();
        waiters.iter_mut().for_each(|waiter| waiter.is_bound = is_cut || context.had_begun(waiter.start_ns));
        waiters
    }

    /// As [`Waiter::of_batch`], but only those whose start and age, in nanoseconds, are picked.
    pub fn of_rows(batch: &Batch, mask: Option<&Mask>, by: &[Field], picks: &dyn Fn(i64, u64) -> bool) -> Vec<Waiter> {
        let rows = (0..batch.len()).filter(|&row| picks(batch.time()[row], batch.latency()[row]));
        let rows = rows.filter(|&row| mask.is_none_or(|mask| mask.get(row)));
        let waiter = |row: usize| Waiter {
            group: by.iter().map(|&field| label(batch, field, row)).collect(),
            start_ns: batch.time()[row],
            age_ns: batch.latency()[row],
            is_bound: false,
        };
        rows.map(waiter).collect()
    }

    /// When it was last looked at.
    pub(crate) fn seen_ns(&self) -> i64 {
        self.start_ns.saturating_add_unsigned(self.age_ns)
    }
}

/// One request that waits in an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Held {
    /// Its latency is at least this, nanoseconds.
    pub bound_ns: u64,
    /// What it counts in units of the series.
    pub count: u64,
    /// How long it had waited at the end of the interval, nanoseconds.
    pub age_ns: u64,
    /// As [`Waiter::is_bound`].
    #[serde(default)]
    pub is_bound: bool,
}

impl Held {
    /// The same; as if it had waited for ever where its age is a lower bound.
    fn endless(self, is_endless: bool) -> Held {
        match is_endless && self.is_bound {
            true => Held { bound_ns: ENDLESS_NS, age_ns: ENDLESS_NS, ..self },
            false => self,
        }
    }
}

/// What waits in one group, or in all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    /// In no order.
    held: Vec<Held>,
    /// Latencies of what completed stand alone: nothing is raised.
    completed_only: bool,
}

/// A number of what completed, or the larger one that what waits makes of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Raised<T> {
    /// The number.
    pub value: T,
    /// Whether it is a lower bound: what waits raised it, and may raise it further.
    pub at_least: bool,
}

impl<T: PartialOrd + Copy> Raised<T> {
    fn new(completed: Option<T>, bound: T) -> Raised<T> {
        match completed {
            Some(value) if value >= bound => Raised { value, at_least: false },
            _ => Raised { value: bound, at_least: true },
        }
    }
}

impl Waiting {
    /// Requests of these ages, nanoseconds, with what each counts.
    pub fn from_ages(ages: impl IntoIterator<Item = (u64, u64)>) -> Waiting {
        let held = ages.into_iter().map(|(age_ns, count)| Held { bound_ns: age_ns, count, age_ns, is_bound: false });
        Waiting { held: held.collect(), completed_only: false }
    }

    /// The same, whose ages raise no latency.
    #[must_use]
    pub fn completed_only(self) -> Waiting {
        Waiting { completed_only: true, ..self }
    }

    /// How many requests wait.
    pub fn count(&self) -> u64 {
        self.held.len() as u64
    }

    /// How many have waited longer than this.
    pub fn older_than(&self, age_ns: u64) -> u64 {
        self.held.iter().filter(|held| held.age_ns > age_ns).count() as u64
    }

    /// The age of the one that has waited longest.
    pub fn oldest_ns(&self) -> Option<u64> {
        self.held.iter().map(|held| held.age_ns).max()
    }

    /// Whether that may be more: nobody saw when one of them began.
    pub fn oldest_is_bound(&self) -> bool {
        self.held.iter().any(|held| held.is_bound)
    }

    /// The ages of all, nanoseconds, in no order.
    pub fn ages_ns(&self) -> impl Iterator<Item = u64> + '_ {
        self.held.iter().map(|held| held.age_ns)
    }

    /// The least latencies of those that count, nanoseconds; none with `--completed-only`.
    pub fn bounds_ns(&self) -> impl Iterator<Item = u64> + '_ {
        self.bounds().iter().map(|held| held.bound_ns)
    }

    /// What those count that raise numbers, in units of the series.
    pub fn weight(&self) -> u64 {
        self.bounds().iter().map(|held| held.count).sum()
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> &[Held] {
        &self.held
    }

    fn bounds(&self) -> &[Held] {
        if self.completed_only { &[] } else { &self.held }
    }

    /// What completed and what waits together.
    fn merged_with(&self, completed: &Sparse) -> Histogram {
        let mut all = completed.to_dense();
        self.bounds().iter().for_each(|held| all.record_many(held.bound_ns, held.count, 0));
        all
    }

    /// The quantiles (0 to 1) of what completed, raised by what waits; `None` where there is neither.
    pub fn quantiles(&self, completed: &Sparse, quantiles: &[f64], rule: Rule) -> Option<Vec<Raised<u64>>> {
        let alone = completed.quantiles(quantiles, rule);
        if self.bounds().is_empty() {
            return Some(alone?.into_iter().map(|value| Raised { value, at_least: false }).collect());
        }
        let bounds = self.merged_with(completed).quantiles(quantiles, rule)?;
        let raised = |(at, &bound): (usize, &u64)| Raised::new(alone.as_ref().map(|alone| alone[at]), bound);
        Some(bounds.iter().enumerate().map(raised).collect())
    }

    /// Which share (0 to 1) of the events has a latency in a bucket above a bound. Requests that wait count once they are older. `None`
    /// without events.
    pub fn share_over(&self, completed: &Sparse, bound_ns: u64) -> Option<f64> {
        let grid = completed.grid();
        let over: u64 = completed
            .buckets()
            .rev()
            .take_while(|&(index, _, _)| grid.lower(index) > bound_ns)
            .map(|(_, count, _)| count)
            .sum();
        let waiting: u64 = self.bounds().iter().filter(|held| held.bound_ns > bound_ns).map(|held| held.count).sum();
        let all = completed.totals().count + waiting;
        (all > 0).then(|| (over + waiting) as f64 / all as f64)
    }

    /// The mean of what completed, raised by what waits.
    pub fn mean(&self, completed: &Sparse) -> Option<Raised<f64>> {
        let alone = completed.totals().mean();
        if self.bounds().is_empty() {
            return alone.map(|value| Raised { value, at_least: false });
        }
        Some(Raised::new(alone, self.merged_with(completed).totals().mean()?))
    }

    /// The maximum of what completed, raised by what waits.
    pub fn max(&self, completed: &Sparse) -> Option<Raised<u64>> {
        let totals = completed.totals();
        let alone = (totals.count > 0).then_some(totals.max);
        match self.bounds_ns().max() {
            None => alone.map(|value| Raised { value, at_least: false }),
            Some(oldest) => Some(Raised::new(alone, oldest)),
        }
    }
}

/// What waits, of all intervals.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Waits {
    /// By interval and group, what was seen at the end of single intervals.
    pub(crate) within: BTreeMap<i64, BTreeMap<u32, Vec<Held>>>,
    /// What waits in all intervals from its start on, with its group. Their ages in an interval are found when they are asked
    /// for: thousands of requests that hang for hours would fill the memory.
    pub(crate) throughout: Vec<(u32, Waiter)>,
    /// By interval and group, ages at the end of intervals of which nothing is known of single requests.
    pub(crate) ages: BTreeMap<i64, BTreeMap<u32, Sparse>>,
    /// By group: each request once.
    pub(crate) once: BTreeMap<u32, Vec<Held>>,
    pub(crate) completed_only: bool,
    #[serde(default)]
    pub(crate) is_endless: bool,
    /// What completed and had begun before the capture, so that its latency is a lower bound: where it counts, with what it counted.
    #[serde(default)]
    pub(crate) begun: Vec<Waiter>,
}

impl Waits {
    pub(crate) fn add_begun(&mut self, events: Vec<Waiter>) {
        let room = MOST_HELD.saturating_sub(self.begun.len());
        self.begun.extend(events.into_iter().take(room));
    }
}

impl HistogramSeries {
    /// Whether the latency of an event, or the age of anything that waits, is a lower bound, as nobody saw it begin.
    pub fn has_bounds(&self) -> bool {
        !self.waits.begun.is_empty() || self.waits.once.values().flatten().any(|held| held.is_bound)
    }

    /// As if all of whose latency or age only a lower bound is known had lasted for ever: what does not change a verdict is not needed
    /// for it.
    #[must_use]
    pub fn as_if_endless(mut self) -> HistogramSeries {
        self.waits.is_endless = true;
        for event in std::mem::take(&mut self.waits.begun) {
            let group = self.group_of_waiter(&event.group);
            let (first, last) = (self.interval_of(event.start_ns), self.interval_of(event.seen_ns()));
            let first = if self.count_by == CountBy::Overlap { first } else { last };
            let counts: Vec<(i64, u64)> =
                self.slices.keys().map(|&interval| (interval, self.held(interval, &event).count)).collect();
            let counts = counts.into_iter().filter(|&(interval, _)| first < self.after(interval) && interval <= last);
            for (interval, count) in counts.collect::<Vec<_>>() {
                let groups = self.slices.get_mut(&interval).map_or(&mut [][..], |slice| &mut slice.groups);
                if let Ok(at) = groups.binary_search_by_key(&group, |&(group, _)| group) {
                    groups[at].1.raise(event.age_ns, count, ENDLESS_NS);
                }
            }
        }
        self
    }

    /// Shows what waits without counting it as latency.
    #[must_use]
    pub fn completed_only(mut self, completed_only: bool) -> HistogramSeries {
        self.waits.completed_only = completed_only;
        self
    }

    /// Whether anything waits in any interval.
    pub fn has_waiting(&self) -> bool {
        !self.waits.once.is_empty() || !self.waits.ages.is_empty()
    }

    /// Adds what waits, to these intervals as far as it waited in them; `None`: to all from the first with events (or the
    /// last, without them) to that in which it was last seen waiting. Intervals and groups without events then have
    /// empty histograms. Only a series of latencies takes what waits.
    pub fn add_waiting(&mut self, waiters: &[Waiter], intervals: Option<Range<i64>>) {
        if self.quantity != Quantity::Latency {
            return;
        }
        let range = self.range();
        let mut throughout = Vec::new();
        for waiter in waiters {
            let group = self.group_of_waiter(&waiter.group);
            match &intervals {
                Some(intervals) => {
                    let (started, seen) = (self.interval_of(waiter.start_ns), self.interval_of(waiter.seen_ns()));
                    for interval in started.max(intervals.start)..intervals.end.min(seen.saturating_add(1)) {
                        let held = self.held(interval, waiter);
                        self.waits.within.entry(interval).or_default().entry(group).or_default().push(held);
                        self.know(interval, group);
                    }
                }
                None => throughout.push((group, waiter.clone())),
            }
            let (age_ns, is_bound) = (waiter.age_ns, waiter.is_bound);
            let held = Held { bound_ns: age_ns, count: self.per_event(), age_ns, is_bound };
            self.waits.once.entry(group).or_default().push(held);
        }
        self.know_throughout(&throughout, range);
        self.waits.throughout.append(&mut throughout);
    }

    /// Gives the intervals in which these wait, and those between, a histogram of their group, as far as a series with these first and
    /// last intervals shows them.
    pub(crate) fn know_throughout(&mut self, waiters: &[(u32, Waiter)], range: Option<(i64, i64)>) {
        let mut reach = BTreeMap::<u32, Range<i64>>::new();
        for (group, waiter) in waiters {
            let (started, seen) = (self.interval_of(waiter.start_ns), self.interval_of(waiter.seen_ns()));
            // A clock that went astray makes no picture of a million empty rows.
            let end = range.map_or(seen, |(_, end)| if seen.abs_diff(end) > REACH as u64 { end } else { seen });
            let first = started.max(range.map_or(seen, |(first, _)| first));
            let of_group = reach.entry(*group).or_insert(first..end);
            *of_group = first.min(of_group.start)..end.max(of_group.end);
        }
        // All groups together have as many empty histograms as one may have.
        let most = (MOST_EMPTY / reach.len().max(1) as i64).clamp(1, REACH);
        for (group, known) in reach {
            let first = known.start.max(known.end.saturating_sub(most - 1));
            (first..=known.end).for_each(|interval| self.know(interval, group));
        }
    }

    /// Adds the ages of what waited in a group at a moment, which count in the interval that ends then; others are left out. They stand
    /// for all that waited there: what [`HistogramSeries::add_waiting`] adds to all intervals counts only where there are no ages.
    pub fn add_ages(&mut self, end_ns: i64, group: &[String], ages: &Sparse) {
        let width_ns = i64::try_from(self.width_ns).unwrap_or(i64::MAX);
        if self.quantity != Quantity::Latency || end_ns.rem_euclid(width_ns) != 0 {
            return;
        }
        let (interval, group) = (self.interval_of(end_ns) - 1, self.group_of_waiter(group));
        self.know(interval, group);
        let of_interval = self.waits.ages.entry(interval).or_default();
        match of_interval.get_mut(&group) {
            Some(sum) => sum.merge(ages),
            None => drop(of_interval.insert(group, ages.clone())),
        }
    }

    /// A request for each of these ages: that of the oldest is exact, others are those of the lower edges of their buckets.
    fn held_of_ages<'a>(&self, ages: &'a Sparse) -> impl Iterator<Item = Held> + use<'a> {
        let (count, mut oldest) = (self.per_event(), Some(ages.totals().max));
        let edges = ages.buckets().rev().flat_map(|(index, count, _)| {
            std::iter::repeat_n(ages.grid().lower(index), usize::try_from(count).unwrap_or(usize::MAX))
        });
        edges.take(MOST_HELD).map(move |lower| {
            let age_ns = oldest.take().unwrap_or(lower);
            Held { bound_ns: age_ns, count, age_ns, is_bound: false }
        })
    }

    /// The group of what waits: the one for all that were too many, where it has none of its own.
    fn group_of_waiter(&mut self, group: &[String]) -> u32 {
        match self.others {
            Some(others) if !self.groups.iter().any(|known| known == group) => others.group,
            _ => self.group_numbered(group),
        }
    }

    /// A request that waits throughout, if it does in this interval.
    pub(crate) fn held_in(&self, interval: i64, waiter: &Waiter) -> Option<Held> {
        let waits =
            self.interval_of(waiter.start_ns) < self.after(interval) && self.interval_of(waiter.seen_ns()) >= interval;
        waits.then(|| self.held(interval, waiter))
    }

    pub(crate) fn interval_of(&self, ns: i64) -> i64 {
        ns.div_euclid(i64::try_from(self.width_ns).unwrap_or(i64::MAX))
    }

    /// A request that waits in an interval.
    fn held(&self, interval: i64, waiter: &Waiter) -> Held {
        let start_ns = self.start_ns(interval);
        let end_ns = start_ns.saturating_add_unsigned(self.width_of(interval)).min(waiter.seen_ns());
        let until_end_ns = end_ns.saturating_sub(waiter.start_ns).max(0).unsigned_abs();
        let is_bound = waiter.is_bound;
        match self.count_by() {
            CountBy::Overlap if waiter.age_ns > 0 => {
                let overlap = end_ns.saturating_sub(start_ns.max(waiter.start_ns)).max(0).unsigned_abs();
                let share = u128::from(self.per_event()) * u128::from(overlap) / u128::from(waiter.age_ns);
                Held { bound_ns: waiter.age_ns, count: share as u64, age_ns: until_end_ns, is_bound }
            }
            _ => Held { bound_ns: until_end_ns, count: self.per_event(), age_ns: until_end_ns, is_bound },
        }
    }

    /// Puts intervals that have passed into the series, those in which nothing happened too, so that their lines are printed
    /// and thresholds are held against them.
    pub fn pass(&mut self, intervals: Range<i64>) {
        if self.by.is_empty() {
            let all = self.group_numbered(&[]);
            intervals.for_each(|interval| self.know(interval, all));
        } else {
            for interval in intervals {
                self.slices.entry(interval).or_default();
            }
        }
    }

    /// One interval of the series, with the same groups.
    #[must_use]
    pub fn only(&self, interval: i64) -> HistogramSeries {
        let mut one = HistogramSeries::new(self.quantity, self.weight, self.by.clone(), self.width_ns);
        one.grid = self.grid;
        one.count_by = self.count_by;
        one.groups.clone_from(&self.groups);
        one.slices.extend(self.slices.get(&interval).map(|slice| (interval, slice.clone())));
        one.lengths.extend(self.lengths.get(&interval).map(|&length| (interval, length)));
        one.runs = self.runs_of(interval);
        one.repeated.extend(self.repeated.get(&interval).map(|hosts| (interval, hosts.clone())));
        let groups = (0..self.groups.len() as u32).map(|group| (group, self.waiting(interval, Some(group)).held));
        let held: BTreeMap<u32, Vec<Held>> = groups.filter(|(_, held)| !held.is_empty()).collect();
        one.others = self.others;
        one.waits.completed_only = self.waits.completed_only;
        one.waits.within.insert(interval, held.clone());
        one.waits.once = held;
        one
    }

    /// Gives an interval and group a histogram: views go by those that have one.
    fn know(&mut self, interval: i64, group: u32) {
        let empty = || Histogram::new(self.grid, self.weight != Weight::Count).to_sparse();
        let slice = self.slices.entry(interval).or_default();
        if !slice.groups.iter().any(|&(known, _)| known == group) {
            slice.add(group, empty());
        }
    }

    /// What waits at the end of an interval, in one group or in all.
    pub fn waiting(&self, interval: i64, group: Option<u32>) -> Waiting {
        self.waiting_among(interval, |of| group.is_none_or(|group| group == of))
    }

    /// What waits at the end of an interval in some of the groups.
    pub fn waiting_among(&self, interval: i64, is_in: impl Fn(u32) -> bool) -> Waiting {
        let seen = self.waits.within.get(&interval).into_iter().flatten();
        let seen = seen.filter(|&(&group, _)| is_in(group)).flat_map(|(_, held)| held.iter().copied());
        let ages = self.waits.ages.get(&interval);
        let throughout = self.waits.throughout.iter();
        let throughout =
            throughout.filter(|(group, _)| is_in(*group) && ages.is_none_or(|ages| !ages.contains_key(group)));
        let throughout = throughout.filter_map(|(_, waiter)| self.held_in(interval, waiter));
        let ages = ages.into_iter().flatten().filter(|&(&group, _)| is_in(group));
        let ages = ages.flat_map(|(_, ages)| self.held_of_ages(ages));
        let held = seen.chain(ages).chain(throughout).map(|held| held.endless(self.waits.is_endless)).collect();
        Waiting { held, completed_only: self.waits.completed_only }
    }

    /// What still waits after the last interval, each request once, in one group or in all.
    pub fn still_waiting(&self, group: Option<u32>) -> Waiting {
        self.still_waiting_among(|of| group.is_none_or(|group| group == of))
    }

    /// What still waits after the last interval in some of the groups, each request once.
    pub fn still_waiting_among(&self, is_in: impl Fn(u32) -> bool) -> Waiting {
        let of_groups = self.waits.once.iter().filter(|&(&group, _)| is_in(group));
        let held =
            of_groups.flat_map(|(_, held)| held.iter().map(|held| held.endless(self.waits.is_endless))).collect();
        Waiting { held, completed_only: self.waits.completed_only }
    }
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
