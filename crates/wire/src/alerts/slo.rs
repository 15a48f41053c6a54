//! Error budgets: how fast they burn, over a long and a short window at once.

use super::alert::{Alert, Change};
use super::rules::{OnNoData, Slo};
use super::state::{Patience, Phase, Sample, State, Turn};
use super::sums::{Selection, events};
use crate::{HostRow, OverInterval};
use latscope_event::format_duration_exact;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

const MINUTE_NS: i64 = 60_000_000_000;
const MONTH_MINUTES: f64 = 30.0 * 24.0 * 60.0;
const HOUR: i64 = 60;
/// Most groups of an objective.
const GROUPS_LIMIT: usize = 1000;

/// A condition on the speed at which a budget burns.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Burn {
    /// Length of the long window, minutes.
    pub long: i64,
    /// Of the short one.
    pub short: i64,
    /// How many times faster than the budget allows.
    pub factor: f64,
    /// `page` or `ticket`.
    pub severity: &'static str,
    /// What of the budget is gone when it fires, from 0 to 1.
    pub budget: f64,
    /// The usual factor, which this target can never reach.
    pub unreachable: Option<f64>,
}

/// The conditions of an objective. The usual table is for thirty days; other periods scale it. A budget cannot burn faster than all
/// events are bad, which is 1 / (1 - target): where the usual factor is beyond, seven tenths of that are taken, and the window in which
/// the same part of the budget is gone. A window is at least a minute; of two that are as long then, the one with the lower factor stays,
/// as it holds whenever the other does.
pub fn burns(slo: &Slo) -> Vec<Burn> {
    let period = slo.period_ns as f64 / MINUTE_NS as f64;
    let allowed = 1.0 - slo.target;
    let table = [(0.02, 60.0, "page"), (0.05, 360.0, "page"), (0.1, 1440.0, "ticket"), (0.1, 4320.0, "ticket")];
    let burn = |(budget, minutes, severity): (f64, f64, &'static str)| {
        let usual = budget * MONTH_MINUTES / minutes;
        let is_reachable = usual * allowed < 1.0;
        let factor = if is_reachable { usual } else { 0.7 / allowed };
        let long = (budget * period / factor).round().max(1.0) as i64;
        let unreachable = (!is_reachable).then_some(usual);
        Burn { long, short: (long as f64 / 12.0).round().max(1.0) as i64, factor, severity, budget, unreachable }
    };
    let mut burns: Vec<Burn> = Vec::new();
    for burn in table.map(burn) {
        match burns.last_mut().filter(|last| last.long == burn.long) {
            Some(last) if burn.factor <= last.factor => *last = burn,
            Some(_) => {}
            None => burns.push(burn),
        }
    }
    burns
}

impl Burn {
    /// What it is called: its long window.
    pub fn window(&self) -> String {
        let parts = [(self.long / 1440, "d"), (self.long / 60 % 24, "h"), (self.long % 60, "m")];
        parts.iter().filter(|(number, _)| *number > 0).map(|(number, unit)| format!("{number}{unit}")).collect()
    }
}

impl Slo {
    /// Sentences about the conditions that its target cannot reach, and what is taken instead.
    pub fn remarks(&self) -> Vec<String> {
        let remark = |burn: Burn| {
            let usual = burn.unreachable?;
            Some(format!(
                "{}: a burn rate of {usual:.1} cannot be reached with a target of {}%; {:.2} over {} is used",
                self.name,
                (self.target * 1e8).round() / 1e6,
                burn.factor,
                burn.window()
            ))
        };
        burns(self).into_iter().filter_map(remark).collect()
    }
}

/// Bad and all events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Counts {
    bad: u64,
    all: u64,
}

/// What a group has used of its budget.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Of the longest window, by minute since the epoch.
    minutes: VecDeque<(i64, Counts)>,
    /// Before that, by hour since the epoch.
    hours: VecDeque<(i64, Counts)>,
    /// Of each condition.
    states: Vec<State>,
}

impl Budget {
    fn add(&mut self, minute: i64, more: Counts) {
        let at = self.minutes.iter().rposition(|&(known, _)| known <= minute);
        match at.and_then(|at| self.minutes.get_mut(at)) {
            Some((known, counts)) if *known == minute => *counts = counts.merged(more),
            _ => self.minutes.insert(at.map_or(0, |at| at + 1), (minute, more)),
        }
    }

    /// The counts of so many minutes before this one.
    fn window(&self, end: i64, minutes: i64) -> Counts {
        let within = |&&(minute, _): &&(i64, Counts)| minute >= end - minutes && minute < end;
        let recent = self.minutes.iter().rev().skip_while(|(minute, _)| *minute >= end).take_while(|one| within(one));
        let old = self.hours.iter().filter(|(hour, _)| *hour * HOUR >= end - minutes);
        recent.chain(old).fold(Counts::default(), |sum, &(_, counts)| sum.merged(counts))
    }

    /// Forgets what is older than the period, and keeps only hours of what is older than the longest window.
    fn fold(&mut self, end: i64, longest: i64, period: i64) {
        while let Some(&(minute, counts)) = self.minutes.front()
            && minute < end - longest
        {
            self.minutes.pop_front();
            match self.hours.back_mut() {
                Some((hour, sum)) if *hour == minute / HOUR => *sum = sum.merged(counts),
                _ => self.hours.push_back((minute / HOUR, counts)),
            }
        }
        while self.hours.front().is_some_and(|(hour, _)| *hour * HOUR < end - period) {
            self.hours.pop_front();
        }
    }
}

impl Counts {
    fn merged(self, other: Counts) -> Counts {
        Counts { bad: self.bad.saturating_add(other.bad), all: self.all.saturating_add(other.all) }
    }

    fn share(self) -> f64 {
        self.bad as f64 / self.all.max(1) as f64
    }
}

/// Counts and states of an objective.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SavedSlo {
    /// What is good, nanoseconds; another objective starts anew.
    pub below_ns: u64,
    /// Its fields.
    pub by: Vec<String>,
    /// The minute that is judged next.
    pub next: Option<i64>,
    /// By the values of the group.
    pub groups: Vec<(Vec<String>, Budget)>,
}

/// An objective with the budgets of its groups.
pub struct Objective {
    pub slo: Slo,
    pub selection: Option<Selection>,
    burns: Vec<Burn>,
    /// The minute that is judged next.
    next: Option<i64>,
    /// What is older counted before the last restart, and may come again.
    restored: Option<i64>,
    groups: BTreeMap<Vec<String>, Budget>,
}

/// What a group has used of its budget.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BudgetState {
    /// The objective.
    pub name: String,
    /// Values of its fields.
    pub labels: BTreeMap<String, String>,
    /// Events of the period so far that are fast enough.
    pub good: u64,
    /// The others.
    pub bad: u64,
    /// The share of the budget that is left; below 0 if more than all of it is gone.
    pub left: f64,
    /// How many times faster than the budget allows it burns, by the window.
    pub burn: BTreeMap<String, f64>,
    /// How many days the budget lasts at the rate of the longest window; `None` where nothing is used.
    pub days_left: Option<f64>,
}

impl Objective {
    pub fn new(slo: Slo) -> Objective {
        let burns = burns(&slo);
        Objective { slo, selection: None, burns, next: None, restored: None, groups: BTreeMap::new() }
    }

    pub fn restore(&mut self, saved: &SavedSlo) {
        if saved.below_ns == self.slo.below_ns && saved.by == self.slo.by {
            self.groups = saved.groups.iter().cloned().collect();
            (self.next, self.restored) = (saved.next, saved.next);
        }
    }

    /// Minutes that were not judged are left out: their records come again from the journal.
    pub fn save(&self) -> SavedSlo {
        let mut groups: Vec<(Vec<String>, Budget)> =
            self.groups.iter().map(|(key, budget)| (key.clone(), budget.clone())).collect();
        let next = self.next.unwrap_or(i64::MIN);
        groups.iter_mut().for_each(|(_, budget)| budget.minutes.retain(|&(minute, _)| minute < next));
        SavedSlo { below_ns: self.slo.below_ns, by: self.slo.by.clone(), next: self.next, groups }
    }

    pub fn add(&mut self, row: &HostRow, width_ns: i64) {
        let Some(selection) = &mut self.selection else { return };
        let minute = (row.interval * width_ns).div_euclid(MINUTE_NS);
        if self.restored.is_some_and(|restored| minute < restored) {
            return;
        }
        let mut labels = vec![row.host.clone()];
        for (group, parts) in &row.groups {
            let Some(done) = &parts.done else { continue };
            labels.truncate(1);
            labels.extend(group.iter().cloned());
            let Some(key) = selection.key(&labels) else { continue };
            if self.groups.len() >= GROUPS_LIMIT && !self.groups.contains_key(&key) {
                continue;
            }
            let grid = done.grid();
            let over = done.buckets().rev().take_while(|&(index, _, _)| grid.lower(index) > self.slo.below_ns);
            let counts = Counts { bad: over.map(|(_, count, _)| count).sum(), all: done.totals().count };
            self.groups.entry(key).or_default().add(minute, counts);
        }
    }

    pub fn is_over(&mut self, over: &OverInterval, width_ns: i64, changes: &mut Vec<Change>) {
        let end_ns = (over.interval + 1) * width_ns;
        let (end, next) = (end_ns.div_euclid(MINUTE_NS), (over.interval * width_ns).div_euclid(MINUTE_NS));
        let next = *self.next.get_or_insert(next);
        if self.selection.is_none() || end <= next {
            return;
        }
        self.next = Some(end);
        let longest = self.burns.iter().map(|burn| burn.long).max().unwrap_or(0);
        let period = (self.slo.period_ns / MINUTE_NS.unsigned_abs()) as i64;
        let patience = Patience { hold_ns: 0, keep_ns: 0, on_no_data: OnNoData::Keep };
        for (key, budget) in &mut self.groups {
            budget.fold(end, longest, period);
            budget.states.resize(self.burns.len(), State::default());
            for (at, burn) in self.burns.iter().enumerate() {
                let sample = sample(&self.slo, burn, budget, end);
                let span = ((end - 1) * MINUTE_NS, end * MINUTE_NS);
                let Some(turn) = budget.states[at].go_on(span, sample, patience) else { continue };
                let times = match turn {
                    Turn::Fires(start_ns) => (start_ns, None),
                    Turn::Resolves(start_ns) => (start_ns, Some(span.1)),
                };
                let alert = burn_alert(&self.slo, burn, key, &budget.states[at], times);
                changes.push(Change { at_ns: span.1, alert });
            }
        }
        self.groups.retain(|_, budget| !budget.minutes.is_empty() || !budget.hours.is_empty());
    }

    /// The clock was set forward by this time, nanoseconds: minutes that lie ahead now are where they would be by this clock.
    pub fn step_clock(&mut self, step_ns: i64) {
        let by = step_ns.div_euclid(MINUTE_NS);
        let next = self.next.take().map(|next| next + by);
        self.restored = None;
        for budget in self.groups.values_mut() {
            let ahead = budget.minutes.iter().filter(|(minute, _)| next.is_some_and(|next| *minute >= next));
            let ahead: Vec<_> = ahead.copied().collect();
            budget.minutes.truncate(budget.minutes.len() - ahead.len());
            ahead.into_iter().for_each(|(minute, counts)| budget.add(minute + by, counts));
            budget.states.iter_mut().for_each(|state| state.step_clock(step_ns));
        }
    }

    pub fn budgets(&self) -> Vec<BudgetState> {
        let (allowed, end) = (1.0 - self.slo.target, self.next.unwrap_or(i64::MIN));
        let period = (self.slo.period_ns / MINUTE_NS.unsigned_abs()) as i64;
        let state = |(key, budget): (&Vec<String>, &Budget)| {
            let counts = budget.window(end, period);
            let rate = |burn: &Burn| budget.window(end, burn.long).share() / allowed;
            let left = 1.0 - counts.share() / allowed;
            let slowest = self.burns.last().map_or(0.0, rate);
            BudgetState {
                name: self.slo.name.clone(),
                labels: self.slo.by.iter().cloned().zip(key.iter().cloned()).collect(),
                good: counts.all - counts.bad,
                bad: counts.bad,
                left,
                burn: self.burns.iter().map(|burn| (burn.window(), rate(burn))).collect(),
                days_left: (slowest > 0.0).then(|| left.max(0.0) * period as f64 / 1440.0 / slowest),
            }
        };
        self.groups.iter().map(state).collect()
    }

    pub fn firing(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        for (key, budget) in &self.groups {
            for (burn, state) in self.burns.iter().zip(&budget.states) {
                if let Phase::Firing { since_ns, .. } = state.phase {
                    alerts.push(burn_alert(&self.slo, burn, key, state, (since_ns, None)));
                }
            }
        }
        alerts
    }
}

/// Whether a budget burns too fast at the end of a minute.
fn sample(slo: &Slo, burn: &Burn, budget: &Budget, end: i64) -> Sample {
    let allowed = 1.0 - slo.target;
    let (long, short) = (budget.window(end, burn.long), budget.window(end, burn.short));
    let (long_rate, short_rate) = (long.share() / allowed, short.share() / allowed);
    if long_rate <= burn.factor || short_rate <= burn.factor {
        return Sample::Over;
    }
    let period = budget.window(end, (slo.period_ns / MINUTE_NS.unsigned_abs()) as i64);
    let used = period.share() / allowed;
    let budget = match used {
        ..=1.0 => format!("{:.0}% of the budget is left", (1.0 - used) * 100.0),
        _ => format!("{used:.1} times the budget is used"),
    };
    let bound = format_duration_exact(slo.below_ns);
    Sample::Holds(format!(
        "burn rate {long_rate:.1} over {} (limit {:.1}): {:.2}% of {} took longer than {bound}; {budget}",
        burn.window(),
        burn.factor,
        long.share() * 100.0,
        events(long.all),
    ))
}

fn burn_alert(slo: &Slo, burn: &Burn, key: &[String], state: &State, times: (i64, Option<i64>)) -> Alert {
    let mut labels = BTreeMap::from([("severity".to_string(), burn.severity.to_string())]);
    labels.extend(slo.labels.clone());
    labels.insert("window".into(), burn.window());
    Alert::new(&slo.name, (&slo.by, key), (&labels, &BTreeMap::new()), &state.finding, times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parts;
    use latscope_histogram::{Grid, Histogram};

    fn slo(target: f64, days: u64) -> Slo {
        Slo {
            name: "db".into(),
            filter: None,
            by: Vec::new(),
            below_ns: 10_000_000,
            target,
            period_ns: days * 86_400 * 1_000_000_000,
            labels: BTreeMap::new(),
        }
    }

    /// The tables of the SRE workbook, and what a target cannot reach.
    #[test]
    fn burn_rates_can_be_reached() {
        let table = |target, days| -> Vec<(i64, i64, f64, bool)> {
            let burns = burns(&slo(target, days));
            burns
                .iter()
                .map(|burn| (burn.long, burn.short, (burn.factor * 100.0).round() / 100.0, burn.unreachable.is_some()))
                .collect()
        };
        let usual = [(60, 5, 14.4, false), (360, 30, 6.0, false), (1440, 120, 3.0, false), (4320, 360, 1.0, false)];
        assert_eq!(table(0.999, 30), usual);
        assert_eq!(table(0.95, 30), usual, "14.4 needs 72 % bad events");
        assert_eq!(table(0.9, 30)[..2], [(123, 10, 7.0, true), (360, 30, 6.0, false)]);
        assert_eq!(table(0.999, 7)[0], (14, 1, 14.4, false));
        for (target, days) in [(0.5, 30), (0.9, 1), (0.75, 90)] {
            for burn in burns(&slo(target, days)) {
                assert!(burn.factor * (1.0 - target) < 1.0 && burn.short < burn.long.max(2), "{burn:?}");
            }
        }
        let hour = |target| Slo { period_ns: 3_600_000_000_000, ..slo(target, 1) };
        let of_hour: Vec<(i64, i64, f64, &str)> =
            burns(&hour(0.99)).iter().map(|burn| (burn.long, burn.short, burn.factor, burn.severity)).collect();
        assert_eq!(of_hour, [(1, 1, 6.0, "page"), (2, 1, 3.0, "ticket"), (6, 1, 1.0, "ticket")]);
        for (target, hours) in (1..100).flat_map(|percent| (1..800).map(move |hours| (percent, hours))) {
            let slo = Slo { period_ns: hours * 3_600_000_000_000, ..slo(target as f64 / 100.0, 1) };
            let windows: BTreeMap<String, f64> = burns(&slo).iter().map(|burn| (burn.window(), burn.factor)).collect();
            assert_eq!(windows.len(), burns(&slo).len(), "{slo:?}");
        }
        assert_eq!(
            slo(0.9, 30).remarks(),
            ["db: a burn rate of 14.4 cannot be reached with a target of 90%; 7.00 over 2h3m is used"]
        );
    }

    /// Minutes with so many events, of which so many are slow, against sums over all of them.
    #[test]
    fn a_budget_burns_as_the_sums_say() {
        let slo = slo(0.99, 30);
        let mut objective = Objective::new(slo.clone());
        objective.selection = Some(Selection { by: Vec::new(), picks: None });
        let mut changes = Vec::new();
        // Slow from minute 100 to 139.
        let bad = |minute: i64| if (100..140).contains(&minute) { 300u64 } else { 1 };
        for minute in 0..600i64 {
            let mut histogram = Histogram::new(Grid::FINE, false);
            histogram.record_many(1_000_000, 1000 - bad(minute), 0);
            histogram.record_many(50_000_000, bad(minute), 0);
            let parts = Parts { done: Some(histogram.to_sparse()), waiting: None };
            let groups = vec![(Vec::new().into(), parts)];
            let row = HostRow {
                host: "n1".into(),
                interval: minute,
                arrived_ns: 0,
                is_partial: false,
                more_ns: 0,
                lost: 0,
                offset_ns: None,
                groups,
            };
            objective.add(&row, MINUTE_NS);
            objective.is_over(&OverInterval { interval: minute, ..OverInterval::default() }, MINUTE_NS, &mut changes);
        }
        let rate = |end: i64, minutes: i64| {
            let (start, end) = ((end - minutes).max(0), end);
            (start..end).map(bad).sum::<u64>() as f64 / (1000 * (end - start)) as f64 / 0.01
        };
        let mut expected = Vec::new();
        for burn in burns(&slo) {
            let mut is_firing = false;
            for end in 1..=600 {
                let holds = rate(end, burn.long) > burn.factor && rate(end, burn.short) > burn.factor;
                if holds != std::mem::replace(&mut is_firing, holds) {
                    expected.push((end, holds, burn.window()));
                }
            }
        }
        expected.sort();
        let mut found: Vec<(i64, bool, String)> = changes
            .iter()
            .map(|change| {
                (change.at_ns / MINUTE_NS, change.alert.end_ns.is_none(), change.alert.labels["window"].clone())
            })
            .collect();
        found.sort();
        assert_eq!(found, expected);
        assert!(found.len() >= 4, "{found:?}");
        let first = &changes[0].alert;
        assert_eq!(first.labels["severity"], "ticket");
        assert!(first.annotations["summary"].starts_with("db: burn rate "), "{first:?}");
    }
}
