//! Whether a threshold was exceeded, interval after interval, also in those without any event.

use crate::threshold::{Finding, Judged, Judgement};
use crate::{AskedPercentiles, HistogramSeries, Threshold, Waiting};
use hashbrown::HashMap;
use latscope_histogram::{Grid, Histogram, Sparse};
use std::borrow::Cow;
use std::ops::Range;

/// Holds a [threshold](Threshold) against one series after the other, which may be parts of one that goes on.
#[derive(Clone, Debug)]
pub struct Watch {
    threshold: Threshold,
    /// Places in `states` of the groups that were ever seen; of all groups together under `None`.
    known: HashMap<Option<Vec<String>>, usize>,
    states: Vec<State>,
    /// The interval behind the last one.
    next: Option<i64>,
    /// Intervals so far.
    seen: u64,
    /// The one, counted as in `seen`, behind the last that is in the verdict.
    counted: u64,
    /// Whether the condition could be judged in any interval.
    is_known: bool,
    exceeded: Option<Exceeded>,
}

/// One group.
#[derive(Clone, Debug)]
struct State {
    label: Option<Vec<String>>,
    /// In how many intervals in a row the condition held so far, the first of them, and the worst.
    run: u64,
    from: i64,
    worst: Option<(GroupInterval, Finding)>,
    /// The events of the last interval, if it had any.
    last: Option<Sparse>,
    /// Whether it ever held long enough.
    is_exceeded: bool,
}

/// What is judged, and by which numbers.
#[derive(Clone, Copy)]
pub struct Judging<'a> {
    /// Where percentiles come from, as for those that are shown.
    pub percentiles: &'a AskedPercentiles,
    /// Which groups, by their number in the series; every one where this is `None`.
    pub groups: Option<&'a dyn Fn(u32) -> bool>,
    /// Whether all groups together are judged beside the single ones.
    pub all: bool,
}

impl<'a> Judging<'a> {
    /// Every group by itself.
    pub fn new(percentiles: &'a AskedPercentiles) -> Judging<'a> {
        Judging { percentiles, groups: None, all: false }
    }
}

/// That a threshold held long enough: when, how many times, and in which groups.
#[derive(Clone, PartialEq, Debug)]
pub struct Exceeded {
    /// In how many intervals it held as long as it takes, of one group at least.
    pub intervals: u64,
    /// Of how many that were judged.
    pub judged: u64,
    /// Of how many groups it held, and how many were judged.
    pub groups: (usize, usize),
    /// The interval in which it had held long enough for the first time.
    pub first: GroupInterval,
    /// The interval that was worst, and what was found there.
    pub worst: (GroupInterval, Finding),
}

/// One interval of one group.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupInterval {
    /// The values of the group fields; `None` for all groups together.
    pub group: Option<Vec<String>>,
    /// Start of the interval, on the trace's clock.
    pub start_ns: i64,
    /// Its length.
    pub width_ns: u64,
    /// Events in it; by share not a whole number.
    pub events: f64,
}

impl Watch {
    /// Before the first series.
    pub fn new(threshold: Threshold) -> Watch {
        Watch {
            threshold,
            known: HashMap::new(),
            states: Vec::new(),
            next: None,
            seen: 0,
            counted: 0,
            is_known: false,
            exceeded: None,
        }
    }

    /// The threshold.
    pub fn threshold(&self) -> &Threshold {
        &self.threshold
    }

    /// Intervals that were judged.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// What was found, if it held long enough in any group.
    pub fn exceeded(&self) -> Option<Exceeded> {
        let mut exceeded = self.exceeded.clone()?;
        exceeded.judged = self.seen;
        exceeded.groups = (self.states.iter().filter(|state| state.is_exceeded).count(), self.states.len());
        Some(exceeded)
    }

    /// Whether no interval could be judged, because there was none or because what the threshold asks for is
    /// unknown.
    pub fn is_blind(&self) -> bool {
        !self.is_known
    }

    /// Looks at the next series: at each interval from its first to its last, and in it at each group that was ever seen. What was
    /// observed of an interval only as a [stub](HistogramSeries::is_stub) is judged together with the interval before it, or
    /// the one behind it at the start of the series, unless requests wait in it.
    pub fn see(&mut self, series: &HistogramSeries, judging: &Judging) {
        self.see_each(series, judging, |_| {});
    }

    /// The same, and hands on the intervals, by their numbers, in which the threshold held long enough in any group. Some
    /// may be handed on more than once.
    pub fn see_each(&mut self, series: &HistogramSeries, judging: &Judging, mut exceeded: impl FnMut(Range<i64>)) {
        let places = self.places(series, judging);
        let all = judging.all.then(|| self.place(None));
        let nothing = Histogram::new(Grid::FINE, false).to_sparse();
        // Where that is not known, the caller refuses the question.
        let asks_what_waits = self.threshold.asks_what_waits();
        for (&interval, slice) in series.slices() {
            let gap = self.next.unwrap_or(interval)..interval;
            if !gap.is_empty() && !series.is_of_runs() {
                let judged = Judged::new(&nothing, series.per_event(), series.width_ns());
                let verdict = self.threshold.judge(&judged);
                self.pass(series, gap, verdict, &mut exceeded);
            }
            let mut found: Vec<Option<(Cow<Sparse>, Option<u32>)>> = vec![None; self.states.len()];
            for (number, sparse) in &slice.groups {
                if let Some(place) = places[*number as usize] {
                    found[place] = Some((Cow::Borrowed(sparse), Some(*number)));
                }
            }
            if let Some(all) = all {
                found[all] = Some((Cow::Owned(series.at(interval, None).to_sparse()), None));
            }
            let mut reached = None;
            for (place, found) in found.iter().enumerate() {
                let (own, group) = found.as_ref().map_or((&nothing, None), |(sparse, group)| (&**sparse, *group));
                let waits = || series.waiting(interval, group).count() > 0;
                let neighbour = (series.is_stub(interval) && own.totals().count > 0 && !waits())
                    .then(|| self.neighbour(series, interval, group, place))
                    .flatten();
                let with = neighbour.map(|mut sum| {
                    sum.merge(own);
                    sum
                });
                let sparse = with.as_ref().unwrap_or(own);
                let value = |quantile| judging.percentiles.value(series, interval, group, sparse, quantile);
                let mut judged = Judged::new(own, series.per_event(), series.covered_of(interval, group));
                judged = judged.partial(series.is_partial(interval));
                judged = if with.is_some() { judged.with_values(sparse) } else { judged.with_percentiles(&value) };
                let waiting = match (group, Some(place) == all) {
                    (None, false) => Waiting::default(),
                    _ => series.waiting(interval, group),
                };
                if asks_what_waits || waiting.count() > 0 {
                    judged = judged.with_waiting(&waiting);
                }
                let verdict = self.threshold.judge(&judged);
                let events = sparse.totals().count as f64 / series.per_event() as f64;
                let from = self.count(place, verdict, 1, (series, interval, events));
                reached = from.into_iter().chain(reached).min();
            }
            self.seen += 1;
            self.next = Some(series.after(interval));
            self.count_exceeded(reached, self.next.unwrap_or(interval), &mut exceeded);
            if series.range().is_some_and(|(_, last)| last == interval) {
                for (state, found) in self.states.iter_mut().zip(found) {
                    state.last = found.map(|(sparse, _)| sparse.into_owned());
                }
            }
        }
    }

    /// The events of a group in the interval before a stub, or in the one behind it at the start; `None` where it had none.
    fn neighbour(&self, series: &HistogramSeries, interval: i64, group: Option<u32>, place: usize) -> Option<Sparse> {
        let events = |interval: i64| {
            let slice = series.slices().get(&interval)?;
            let own = |number: u32| slice.groups.iter().find(|(other, _)| *other == number).map(|(_, own)| own.clone());
            group.map_or_else(|| Some(series.at(interval, None).to_sparse()), own)
        };
        let first = series.range().map(|(first, _)| first);
        let found = match first == Some(interval) {
            true if self.next == Some(interval) => self.states[place].last.clone(),
            true => events(series.after(interval)),
            false => {
                let (&before, _) = series.slices().range(..interval).next_back()?;
                (series.after(before) == interval).then(|| events(before)).flatten()
            }
        };
        found.filter(|found| found.totals().count > 0)
    }

    /// Passes over intervals without any event.
    fn pass(
        &mut self,
        series: &HistogramSeries,
        gap: Range<i64>,
        verdict: Judgement,
        exceeded: &mut impl FnMut(Range<i64>),
    ) {
        let length = gap.start.abs_diff(gap.end);
        let mut reached = None;
        for place in 0..self.states.len() {
            let from = self.count(place, verdict, length, (series, gap.start, 0.0));
            reached = from.into_iter().chain(reached).min();
        }
        self.seen += length;
        self.count_exceeded(reached, gap.end, exceeded);
    }

    /// Counts a verdict on so many intervals from one on; returns since when, as a place in `seen` and as an interval, the
    /// threshold is exceeded, if it is.
    fn count(
        &mut self,
        place: usize,
        verdict: Judgement,
        length: u64,
        (series, interval, events): (&HistogramSeries, i64, f64),
    ) -> Option<(u64, i64)> {
        let enough = u64::from(self.threshold.intervals());
        let state = &mut self.states[place];
        self.is_known |= verdict != Judgement::Unknown;
        let Some(finding) = verdict.exceeded() else {
            (state.run, state.worst) = (0, None);
            return None;
        };
        let before = state.run;
        if before == 0 {
            state.from = interval;
        }
        state.run = before.saturating_add(length);
        let at = |interval: i64| {
            let (start_ns, width_ns) = series.span_of(interval, None);
            GroupInterval { group: state.label.clone(), start_ns, width_ns, events }
        };
        if state.worst.as_ref().is_none_or(|(_, worst)| finding.excess() > worst.excess()) {
            state.worst = Some((at(interval), finding));
        }
        if state.run < enough {
            return None;
        }
        if before < enough {
            let first = at(interval.saturating_add_unsigned(enough - before - 1));
            let worst = state.worst.clone().unwrap_or_else(|| (first.clone(), finding));
            let exceeded = self.exceeded.get_or_insert_with(|| Exceeded {
                intervals: 0,
                judged: 0,
                groups: (0, 0),
                first: first.clone(),
                worst,
            });
            if (first.start_ns, &first.group) < (exceeded.first.start_ns, &exceeded.first.group) {
                exceeded.first = first;
            }
        }
        state.is_exceeded = true;
        if let (Some(exceeded), Some(worst)) = (&mut self.exceeded, &state.worst)
            && worst.1.excess() > exceeded.worst.1.excess()
        {
            exceeded.worst = worst.clone();
        }
        Some(if before < enough { (self.seen - before, state.from) } else { (self.seen, interval) })
    }

    /// Counts the intervals in which it was exceeded, from the first of any group up to what was seen.
    fn count_exceeded(&mut self, reached: Option<(u64, i64)>, end: i64, exceeded: &mut impl FnMut(Range<i64>)) {
        let (Some((seen, from)), Some(sum)) = (reached, &mut self.exceeded) else { return };
        sum.intervals += self.seen - seen.max(self.counted);
        self.counted = self.seen;
        exceeded(from..end);
    }

    /// The places of the groups of a series, of those that are judged.
    fn places(&mut self, series: &HistogramSeries, judging: &Judging) -> Vec<Option<usize>> {
        let is_judged = |number: u32| judging.groups.is_none_or(|groups| groups(number));
        let places = (0u32..).zip(series.groups());
        places.map(|(number, label)| is_judged(number).then(|| self.place(Some(label)))).collect()
    }

    fn place(&mut self, label: Option<&Vec<String>>) -> usize {
        let label = label.cloned();
        let next = self.states.len();
        let place = *self.known.entry(label.clone()).or_insert(next);
        if place == next {
            self.states.push(State { label, run: 0, from: 0, worst: None, last: None, is_exceeded: false });
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CountBy, Interval, Quantity, SeriesBuilder, Waiter, Weight};
    use latscope_event::{Batch, Clock, Context, Field, FieldSet};
    use proptest::prelude::*;

    /// One event of that many milliseconds for each interval and group.
    fn series(events: &[(i64, &str, u64)]) -> HistogramSeries {
        let by = vec![Field::Host];
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
        let asked = AskedPercentiles::default();
        parts.iter().for_each(|part| watch.see(&series(part), &Judging::new(&asked)));
        first(&watch)
    }

    fn first(watch: &Watch) -> Option<(String, i64)> {
        watch.exceeded().map(|found| (found.first.group.unwrap().join(" "), found.first.start_ns / 1_000_000_000))
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
    fn lower_bounds_may_exceed_what_they_keep() {
        for (is_bound, expected) in [(true, Some(3)), (false, None)] {
            let mut silent = series(&[(0, "a", 1), (1, "a", 1)]);
            let start_ns = 3_000_000_000;
            silent.add_waiting(&[Waiter { group: vec!["a".into()], start_ns, age_ns: 2_000_000_000, is_bound }], None);
            assert_eq!(silent.has_bounds(), is_bound);
            let found = |series: &HistogramSeries| {
                let mut watch = Watch::new(Threshold::parse("oldest > 5s or max > 5s").unwrap());
                watch.see(series, &Judging::new(&AskedPercentiles::default()));
                first(&watch).map(|(_, at)| at)
            };
            assert_eq!(found(&silent), None);
            assert_eq!(found(&silent.as_if_endless()), expected);
        }
    }

    /// What completed and had begun before the capture, and what had not.
    #[test]
    fn completed_waits_may_be_lower_bounds_too() {
        let second = 1_000_000_000;
        let mut context = Context::new(String::new(), Clock::wall());
        context.begun_before_ns = vec![second];
        for (start_ns, exceeded) in [(second, true), (second + 1, false)] {
            for count_by in [CountBy::Completion, CountBy::Overlap] {
                let mut batch = Batch::new(FieldSet::ALWAYS);
                for (start_ns, latency_ns) in [(start_ns, 2_500_000_000), (9 * second, 1_000_000)] {
                    batch.push_i64(Field::Time, start_ns);
                    batch.push_u64(Field::Latency, latency_ns);
                    batch.end_row();
                }
                let interval = Interval::Fixed(second as u64);
                let mut builder =
                    SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), interval).count_by(count_by);
                builder.add(&batch, None);
                builder.add_bounds(&context, &batch, None);
                let early = builder.take_before(5);
                assert_eq!((early.has_bounds(), builder.finish().has_bounds()), (exceeded, false));
                for limit in ["max > 5s", "p50 > 5s", "mean > 5s"] {
                    let found = |series: &HistogramSeries| {
                        let mut watch = Watch::new(Threshold::parse(limit).unwrap());
                        watch.see(series, &Judging::new(&AskedPercentiles::default()));
                        watch.exceeded().is_some()
                    };
                    assert_eq!((found(&early), found(&early.clone().as_if_endless())), (false, exceeded), "{limit}");
                }
            }
        }
    }

    #[test]
    fn a_group_that_is_silent_has_no_events() {
        let both: &[_] = &[(0, "a", 1), (0, "b", 1), (1, "a", 1), (2, "a", 1), (3, "a", 1), (3, "b", 9)];
        assert_eq!(exceeded("count < 1 for 2 intervals", &[both]), Some(("b".into(), 2)));
        assert_eq!(exceeded("count < 1 for 3 intervals", &[both]), None);
        assert_eq!(exceeded("p50 > 5ms", &[both]), Some(("b".into(), 3)));
    }

    #[test]
    fn the_worst_is_of_the_whole_time() {
        let mut watch = Watch::new(Threshold::parse("max > 5ms for 2 intervals").unwrap());
        // The 90 ms stands alone, so it is no run; 40 ms is worse than 30 ms, and starts before its run is long enough.
        let events = [(0, "a", 90), (1, "a", 1), (2, "b", 40), (3, "b", 6), (4, "a", 20), (5, "a", 30)];
        watch.see(&series(&events), &Judging::new(&AskedPercentiles::default()));
        let found = watch.exceeded().unwrap();
        assert_eq!((found.intervals, found.judged, found.groups), (4, 6, (2, 2)));
        assert_eq!((found.first.start_ns, found.first.group.clone()), (3_000_000_000, Some(vec!["b".into()])));
        assert_eq!((found.worst.0.start_ns, found.worst.1.to_string()), (2_000_000_000, "max = 40ms".into()));
    }

    #[test]
    fn what_waits_is_judged_without_events_too() {
        let mut watch = Watch::new(Threshold::parse("oldest > 3500ms for 2 intervals").unwrap());
        let asked = AskedPercentiles::default();
        for interval in 0..5 {
            // Two devices; one of them hangs from the first moment on and never has an event.
            let events = if interval == 2 { vec![] } else { vec![(interval, "a", 1)] };
            let mut series = series(&events);
            let hung = Waiter { group: vec!["b".into()], start_ns: 0, age_ns: 10_000_000_000, is_bound: false };
            series.add_waiting(&[hung], Some(interval..interval + 1));
            watch.see(&series, &Judging { all: true, ..Judging::new(&asked) });
        }
        let found = watch.exceeded().unwrap();
        assert_eq!((found.intervals, found.judged, found.groups), (2, 5, (2, 3)), "b and all groups together");
        assert_eq!((found.first.group, found.first.start_ns), (None, 4_000_000_000));
        assert_eq!(found.worst.1.to_string(), "oldest = 5s");
    }

    #[test]
    fn a_stub_decides_only_with_its_neighbour() {
        // By interval of a second: how many events of how many milliseconds.
        let built = |intervals: &[(i64, &[(u64, u64)])], observed: (i64, i64)| {
            let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), 1_000_000_000);
            for (interval, events) in intervals {
                let mut histogram = Histogram::new(Grid::FINE, false);
                for &(count, ms) in *events {
                    (0..count).for_each(|_| histogram.record(ms * 1_000_000, 0));
                }
                series.insert(*interval, vec![], &histogram.to_sparse()).unwrap();
            }
            series.observe(observed.0 * 1_000_000, observed.1 * 1_000_000);
            series
        };
        let often = |parts: &[HistogramSeries], threshold: &str| {
            let mut watch = Watch::new(Threshold::parse(threshold).unwrap());
            parts.iter().for_each(|part| watch.see(part, &Judging::new(&AskedPercentiles::default())));
            watch.exceeded().map_or(0, |found| found.intervals)
        };
        let (fast, tail): (&[_], &[_]) = (&[(1000, 1)], &[(1, 30)]);
        let all = (0, 2005);
        let run = built(&[(0, fast), (1, fast), (2, tail)], all);
        assert_eq!(often(std::slice::from_ref(&run), "p99 > 10ms"), 0, "one of a thousand");
        assert_eq!(often(std::slice::from_ref(&run), "max > 10ms"), 1, "the maximum is no matter of shares");
        let parts: Vec<_> = [&[(0, fast)][..], &[(1, fast)], &[(2, tail)]].map(|part| built(part, all)).into();
        assert_eq!(often(&parts, "p99 > 10ms"), 0, "the same as it comes");
        let head = built(&[(0, tail), (1, fast)], (950, 2000));
        assert_eq!(often(&[head], "p99 > 10ms"), 0);
        // A tenth of an interval is judged by itself, and so is a stub with nothing to judge it with.
        assert_eq!(often(&[built(&[(0, fast), (1, fast), (2, tail)], (0, 2100))], "p99 > 10ms"), 1);
        assert_eq!(often(&[built(&[(0, fast), (1, &[]), (2, tail)], all)], "p99 > 10ms"), 1, "a stall, then its end");
        assert_eq!(often(&[built(&[(0, tail)], (0, 5))], "p99 > 10ms"), 1);
        // What comes back at once after half a second of silence is more than one in a hundred.
        assert_eq!(often(&[built(&[(0, fast), (1, fast), (2, &[(32, 504)])], all)], "p99 > 100ms"), 1);
        // What waits counts by itself.
        let mut hung = run;
        let waiter = Waiter { group: Vec::new(), start_ns: 0, age_ns: 2_005_000_000, is_bound: false };
        hung.add_waiting(&[waiter], Some(2..3));
        assert_eq!(often(&[hung.clone()], "p99 > 1s"), 1);
        assert_eq!(often(&[hung], "oldest > 1s"), 1);
    }

    #[test]
    fn all_groups_together_are_judged_where_they_are_asked_for() {
        let events = [(0, "a", 1), (0, "b", 1), (1, "a", 1)];
        let asked = AskedPercentiles::default();
        for (all, intervals) in [(false, 0), (true, 1)] {
            let mut watch = Watch::new(Threshold::parse("count >= 2").unwrap());
            watch.see(&series(&events), &Judging { all, ..Judging::new(&asked) });
            assert_eq!(watch.exceeded().map_or(0, |found| found.intervals), intervals);
        }
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
                watch.see(&some, &Judging::new(&AskedPercentiles::default()));
            }
            prop_assert_eq!(first(&watch), truth);
            // How often: every interval of a full window of any group.
            let window = |last: i64, host: &str| (0..enough as i64).all(|back| last - back >= from && is_bad(last - back, host));
            let covers = |at: i64, host: &str| (at..=to.min(at + enough as i64 - 1)).any(|last| window(last, host));
            let often = (from..=to).filter(|&at| hosts.iter().any(|host| known(host) && covers(at, host))).count();
            prop_assert_eq!(watch.exceeded().map_or(0, |found| found.intervals), often as u64);
            let groups = hosts.iter().filter(|host| known(host) && (from..=to).any(|at| window(at, host))).count();
            let all = hosts.iter().filter(|host| known(host)).count();
            prop_assert_eq!(watch.exceeded().map_or((0, all), |found| found.groups), (groups, all));
            prop_assert_eq!(watch.seen(), (to - from + 1) as u64);
        }
    }
}
