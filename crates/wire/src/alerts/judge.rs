//! One rule: what is known of its steps so far, and where the alerts of its groups stand.

use super::alert::{Alert, Change};
use super::rules::{Hold, OnNoData, Quorum, Rule};
use super::state::{Patience, Phase, Sample, State, Turn};
use super::sums::{HOSTS_KNOWN, Selection, StepSum};
use super::track::{Amendment, Track};
use crate::news::RECENT_NS;
use crate::{HostRow, OverInterval};
use latscope_event::format_duration_exact;
use latscope_series::Threshold;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most groups of a rule.
const GROUPS_LIMIT: usize = 100_000;
/// A group without data for so long is forgotten unless it fires, nanoseconds.
const IDLE_NS: i64 = 3_600_000_000_000;
/// Most buckets of steps that were judged and are kept, as late data may come for them.
const CELLS_LIMIT: usize = 1_000_000;

/// States of a rule.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SavedRule {
    /// What the rule asked; another rule starts anew.
    pub condition: String,
    /// Its fields.
    pub by: Vec<String>,
    /// The step that is judged next.
    pub next: Option<i64>,
    /// The length of a step, nanoseconds.
    pub step_ns: u64,
    /// By the values of the group.
    pub groups: Vec<(Vec<String>, State)>,
}

/// A rule with the states of its groups.
pub struct Judge {
    pub rule: Rule,
    /// `None` before the fields are known, or where it needs others.
    pub selection: Option<Selection>,
    /// How many intervals are judged at once.
    step: i64,
    width_ns: u64,
    /// The step that is judged next.
    next: Option<i64>,
    /// Steps that are not over.
    sums: BTreeMap<i64, StepSum>,
    /// Steps of the last quarter of an hour that were judged, and how many buckets they have.
    past: BTreeMap<i64, (usize, StepSum)>,
    cells: usize,
    /// Groups of judged steps for which data came since.
    late: BTreeMap<Vec<String>, BTreeSet<i64>>,
    groups: BTreeMap<Vec<String>, Track>,
}

impl Judge {
    pub fn new(rule: Rule) -> Judge {
        Judge {
            rule,
            selection: None,
            step: 1,
            width_ns: 0,
            next: None,
            sums: BTreeMap::new(),
            past: BTreeMap::new(),
            cells: 0,
            late: BTreeMap::new(),
            groups: BTreeMap::new(),
        }
    }

    pub fn restore(&mut self, saved: &SavedRule) {
        let is_built_in = self.rule.is_built_in && saved.by.iter().all(|name| self.rule.by.contains(name));
        if is_built_in {
            // As far as the hub had these fields.
            self.rule.by.clone_from(&saved.by);
        }
        if saved.condition == self.rule.condition.to_string() && saved.by == self.rule.by {
            self.groups = saved.groups.iter().map(|(key, state)| (key.clone(), Track::new(state.clone()))).collect();
            (self.next, self.width_ns) = (saved.next, saved.step_ns);
        }
    }

    pub fn save(&self) -> SavedRule {
        SavedRule {
            condition: self.rule.condition.to_string(),
            by: self.rule.by.clone(),
            next: self.next,
            step_ns: self.width_ns,
            groups: self.groups.iter().map(|(key, track)| (key.clone(), track.state.clone())).collect(),
        }
    }

    /// Sets the width of the intervals. Steps that were counted in another length are forgotten.
    pub fn set_width(&mut self, interval_ns: u64) {
        self.step = self.rule.step_ns.map_or(1, |step_ns| step_ns.div_ceil(interval_ns.max(1)).max(1) as i64);
        let width_ns = interval_ns.saturating_mul(self.step.unsigned_abs());
        if width_ns != std::mem::replace(&mut self.width_ns, width_ns) {
            self.next = None;
            self.sums.clear();
            self.past.clear();
            self.cells = 0;
        }
    }

    /// The clock was set forward by this time, nanoseconds: alerts are as old as before, and steps start anew.
    pub fn step_clock(&mut self, step_ns: i64) {
        (self.next, self.cells) = (None, 0);
        self.sums.clear();
        self.past.clear();
        self.late.clear();
        for track in self.groups.values_mut() {
            let mut state = std::mem::take(&mut track.state);
            state.step_clock(step_ns);
            *track = Track::new(state);
        }
    }

    /// The end of the last time that was judged, nanoseconds since the epoch.
    pub fn last_ns(&self) -> i64 {
        self.groups.values().map(|track| track.state.last_ns).max().unwrap_or(i64::MIN)
    }

    fn patience(&self) -> Patience {
        let hold_ns = match self.rule.hold {
            Hold::Time(ns) => ns,
            Hold::Steps(steps) => self.width_ns.saturating_mul(u64::from(steps)),
        };
        let clamp = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        Patience { hold_ns: clamp(hold_ns), keep_ns: clamp(self.rule.keep_ns), on_no_data: self.rule.on_no_data }
    }

    /// When a step starts and ends, nanoseconds since the epoch.
    fn span(&self, step: i64) -> (i64, i64) {
        let width_ns = self.width_ns as i64;
        (step.saturating_mul(width_ns), (step + 1).saturating_mul(width_ns))
    }

    /// Whether each group needs a state, also where nothing ever held.
    fn knows_all(&self) -> bool {
        !self.rule.condition.stays_exceeded() || self.rule.on_no_data == OnNoData::Fire
    }

    fn is_about_lag(&self) -> bool {
        self.rule.condition.parts().iter().all(|part| part.metric == "lag")
    }

    pub fn add(&mut self, row: &HostRow, width_ns: i64, changes: &mut Vec<Change>) {
        let step = row.interval.div_euclid(self.step);
        if self.next.is_some_and(|next| step < next) {
            // How late a host is shows when its data comes, in the step that is open then.
            if let Some(next) = self.next {
                self.sums.entry(next).or_default().add_lag(row, (row.interval + 1) * width_ns);
                if self.is_about_lag() && self.selection.as_ref().is_some_and(|selection| selection.by == [0]) {
                    self.know(std::slice::from_ref(&row.host));
                }
            }
            return self.add_late(step, row, width_ns);
        }
        let Some(selection) = &mut self.selection else { return };
        let keys = self.sums.entry(step).or_default().add(row, (row.interval + 1) * width_ns, selection);
        let (is_early, knows_all) = (self.rule.condition.stays_exceeded(), self.knows_all());
        for key in keys {
            if knows_all {
                self.know(&key);
            }
            // What more data cannot undo is judged at once.
            if is_early && let Some((span, finding)) = self.early(step, &key, width_ns) {
                self.know(&key);
                let patience = self.patience();
                let turn = self
                    .groups
                    .get_mut(&key)
                    .and_then(|track| track.state.go_on(span, Sample::Holds(finding), patience));
                changes.extend(self.change(&key, span.1, turn));
            }
        }
    }

    /// What holds already in a step that is not over.
    fn early(&self, step: i64, key: &[String], width_ns: i64) -> Option<((i64, i64), String)> {
        let sum = self.sums.get(&step)?;
        let finding = self.finding(sum, key, &self.rule.condition)?;
        let last = sum.groups.get(key).map_or(step * self.step, |sum| sum.last);
        Some(((self.span(step).0, (last + 1) * width_ns), finding))
    }

    /// Adds to a step that was judged. What hosts were in it stays as it was judged: that is about the time.
    fn add_late(&mut self, step: i64, row: &HostRow, width_ns: i64) {
        let (Some((_, sum)), Some(selection)) = (self.past.get_mut(&step), &mut self.selection) else { return };
        sum.missing.remove(&row.host);
        sum.present.insert(row.host.clone());
        let mut keys = sum.add(row, (row.interval + 1) * width_ns, selection);
        if self.rule.quorum.is_some() {
            // With this host, there may be enough of them for all groups.
            keys.extend(sum.groups.keys().cloned());
        }
        for key in keys {
            self.late.entry(key).or_default().insert(step);
        }
    }

    /// Judges again for what data came late.
    pub fn judge_late(&mut self, width_ns: i64, changes: &mut Vec<Change>) {
        let patience = self.patience();
        for (key, steps) in std::mem::take(&mut self.late) {
            let found = steps.iter().filter_map(|&step| {
                let (_, sum) = self.past.get(&step)?;
                Some((self.span(step), self.sample(sum, &key)?))
            });
            let found: Vec<_> = found.collect();
            let holds = found.iter().any(|(_, sample)| matches!(sample, Sample::Holds(_)));
            if holds || self.knows_all() {
                self.know(&key);
            }
            let is_early = self.rule.condition.stays_exceeded();
            let open = self.sums.keys().filter(|_| is_early).filter_map(|&step| self.early(step, &key, width_ns));
            let later = open.map(|(span, finding)| (span, Sample::Holds(finding))).collect();
            let Some(track) = self.groups.get_mut(&key) else { continue };
            let amendments = track.amend(found, later, patience);
            let (now_ns, finding) = (track.state.last_ns, track.state.finding.clone());
            let mut report = |annotation: &str, finding: &str, start_ns, end_ns: Option<i64>| {
                let mut alert = self.alert(&key, finding, (start_ns, end_ns));
                if !annotation.is_empty() {
                    alert.annotations.insert(annotation.into(), "true".into());
                }
                let fired_ns = start_ns.saturating_add(patience.hold_ns).min(now_ns);
                changes.push(Change { at_ns: end_ns.unwrap_or(fired_ns), alert });
            };
            for amendment in amendments {
                match amendment {
                    Amendment::Episode { start_ns, end_ns, finding } => {
                        let finding = format!("{finding}; data came late");
                        report("late", &finding, start_ns, None);
                        report("late", &finding, start_ns, Some(end_ns));
                    }
                    Amendment::Fires { start_ns } => {
                        report("late", &format!("{finding}; data came late"), start_ns, None);
                    }
                    Amendment::Moved { start_ns, end_ns, finding } => {
                        report("late", &format!("{finding}; data came late"), start_ns, Some(end_ns));
                    }
                    Amendment::Ends { start_ns, end_ns } => report("", &finding, start_ns, Some(end_ns)),
                    Amendment::Resolves { start_ns } => {
                        report("amended", &format!("{finding}; late data disproved it"), start_ns, Some(now_ns));
                    }
                }
            }
        }
    }

    /// A sentence if no whole step lies between two times, nanoseconds since the epoch, and nothing is judged before.
    pub fn never_judged(&self, start_ns: i64, end_ns: i64) -> Option<String> {
        let width_ns = i64::try_from(self.width_ns).ok().filter(|&width_ns| width_ns > 0)?;
        let start_ns = start_ns.saturating_add(width_ns - 1).div_euclid(width_ns).saturating_mul(width_ns);
        let has_step = start_ns.saturating_add(width_ns) <= end_ns;
        if has_step || self.selection.is_none() || self.rule.condition.stays_exceeded() {
            return None;
        }
        let step = format_duration_exact(self.width_ns);
        Some(format!("{}: no whole step of {step} was recorded", self.rule.name))
    }

    fn know(&mut self, key: &[String]) {
        if self.groups.len() < GROUPS_LIMIT && !self.groups.contains_key(key) {
            self.groups.insert(key.to_vec(), Track::default());
        }
    }

    /// What was found in a step if a condition holds.
    fn finding(&self, sum: &StepSum, key: &[String], condition: &Threshold) -> Option<String> {
        self.judgement(sum, key, condition)?
    }

    /// What was found in a step, `Some(None)` if a condition does not hold, and `None` where it cannot be judged.
    fn judgement(&self, sum: &StepSum, key: &[String], condition: &Threshold) -> Option<Option<String>> {
        let (host, length) = (self.selection.as_ref()?.host(key), (self.width_ns, self.step.unsigned_abs()));
        let finding = sum.judge((key, host), condition, length, self.rule.done_only)?.exceeded();
        Some(finding.map(|finding| format!("{finding}{}", sum.remarks(key, host, &finding))))
    }

    pub fn is_over(&mut self, over: &OverInterval, is_settled: bool, changes: &mut Vec<Change>) {
        if self.selection.is_none() {
            return;
        }
        let step = over.interval.div_euclid(self.step);
        if self.next.is_some_and(|next| step < next) {
            return;
        }
        self.next = Some(step);
        let sum = self.sums.entry(step).or_default();
        sum.is_unsettled |= !is_settled;
        sum.lacks_hosts |= !is_settled && !over.missing.is_empty();
        sum.present.extend(over.present.iter().cloned());
        sum.ended = over.ended.iter().cloned().collect();
        sum.missing = if is_settled { over.missing.iter().cloned().collect() } else { BTreeSet::new() };
        if self.rule.condition.asks_who_is_missing() && !is_settled {
            sum.present.clear();
            sum.ended.clear();
        }
        if (over.interval + 1).rem_euclid(self.step) == 0 {
            self.judge_step(step, changes);
            let later = self.sums.split_off(&(step + 1));
            let judged = std::mem::replace(&mut self.sums, later).remove(&step);
            self.next = Some(step + 1);
            self.keep(step, judged.unwrap_or_default());
        }
    }

    /// Keeps a step that was judged, and forgets those for which no late data is taken any more.
    fn keep(&mut self, step: i64, sum: StepSum) {
        // Who was there, and when data came, is not changed by data that comes late.
        if self.rule.condition.parts().iter().any(|part| matches!(part.metric, "hosts" | "missing" | "lag" | "offset"))
        {
            return;
        }
        let (cells, end_ns) = (sum.cells(), self.span(step).1);
        self.cells += cells;
        self.past.insert(step, (cells, sum));
        while let Some((&first, &(cells, _))) = self.past.first_key_value()
            && (self.cells > CELLS_LIMIT || self.span(first).0 < end_ns - RECENT_NS)
        {
            self.cells -= cells;
            self.past.remove(&first);
        }
    }

    fn judge_step(&mut self, step: i64, changes: &mut Vec<Change>) {
        let (Some(sum), Some(selection)) = (self.sums.get(&step), &self.selection) else { return };
        if self.rule.condition.asks_who_is_missing() && selection.by == [0] {
            for host in sum.missing.iter().chain(&sum.present) {
                self.groups.entry(vec![host.clone()]).or_default();
            }
        }
        let (span, patience) = (self.span(step), self.patience());
        let keys: Vec<Vec<String>> = self.groups.keys().cloned().collect();
        for key in keys {
            let Some(sample) = self.sums.get(&step).and_then(|sum| self.sample(sum, &key)) else { continue };
            let sum = self.sums.get(&step).and_then(|sum| sum.groups.get(&key)).filter(|sum| !sum.hosts.is_empty());
            let Some(track) = self.groups.get_mut(&key) else { continue };
            if let Some(sum) = sum {
                track.state.hosts = if sum.hosts.len() <= HOSTS_KNOWN { sum.hosts.clone() } else { Vec::new() };
            }
            let turn = track.add(span, sample, patience);
            changes.extend(self.change(&key, span.1, turn));
        }
        self.groups.retain(|_, track| track.state.phase != Phase::Idle || span.1 - track.state.seen_ns < IDLE_NS);
    }

    /// What a step says about a group; `None` with too few hosts to judge, or where too little of it was observed.
    fn sample(&self, sum: &StepSum, key: &[String]) -> Option<Sample> {
        let asks_who = self.rule.condition.asks_who_is_missing();
        let parts = self.rule.condition.parts();
        if sum.is_unsettled && parts.iter().any(|part| part.metric == "hosts") {
            return None;
        }
        let asks_hosts = parts.iter().any(|part| ["hosts", "missing"].contains(&part.metric));
        let host = self.selection.as_ref()?.host(key);
        // Where a group is of few hosts, others that send something say nothing of it.
        let hosts = self.groups.get(key).map_or(&[][..], |track| &track.state.hosts);
        let is_silent = !asks_hosts && !hosts.is_empty() && !hosts.iter().any(|host| sum.has_data_of(host));
        let is_silent = is_silent && sum.groups.get(key).is_none_or(|group| group.hosts.is_empty());
        let has_data = match host {
            Some(host) if self.is_about_lag() => sum.has_lag_of(host),
            Some(host) => sum.has_data_of(host) || (asks_hosts && sum.present.contains(host)),
            None if is_silent => false,
            None => sum.has_data() || (asks_hosts && !sum.present.is_empty()),
        };
        let without_data = match host {
            _ if has_data => None,
            Some(host) if sum.ended.contains(host) => Some(Sample::Over),
            None if is_silent && hosts.iter().all(|host| sum.ended.contains(host)) => Some(Sample::Over),
            Some(host) if asks_who && sum.missing.contains(host) => None,
            None if asks_who && !sum.missing.is_empty() => None,
            _ => Some(Sample::NoData),
        };
        if without_data.is_some() {
            // After a restart of the hub, who is not back yet is not silent.
            return without_data.filter(|sample| !sum.lacks_hosts || matches!(sample, Sample::Over));
        }
        let is_enough = match self.rule.quorum {
            None => true,
            Some(Quorum::Count(count)) => sum.present.len() as u64 >= count,
            Some(Quorum::Share(share)) => sum.present.len() as f64 >= share * sum.expected().max(1) as f64,
        };
        if !is_enough {
            return None;
        }
        let judged = self.judgement(sum, key, &self.rule.condition)?;
        let may_change = !(judged.is_some() && self.rule.condition.stays_exceeded());
        if sum.lacks_hosts && host.is_none() && may_change {
            return None;
        }
        if let Some(finding) = judged {
            return Some(Sample::Holds(finding));
        }
        Some(match &self.rule.until {
            Some(until) if self.finding(sum, key, until).is_none() => Sample::Between,
            _ => Sample::Over,
        })
    }

    fn change(&self, key: &[String], at_ns: i64, turn: Option<Turn>) -> Option<Change> {
        let times = match turn? {
            Turn::Fires(start_ns) => (start_ns, None),
            Turn::Resolves(start_ns) => (start_ns, Some(at_ns)),
        };
        let finding = &self.groups.get(key)?.state.finding;
        Some(Change { at_ns, alert: self.alert(key, finding, times) })
    }

    fn alert(&self, key: &[String], finding: &str, times: (i64, Option<i64>)) -> Alert {
        let rule = &self.rule;
        let mut annotations = rule.annotations.clone();
        annotations.insert("condition".into(), rule.condition.to_string());
        Alert::new(&rule.name, (&rule.by, key), (&rule.labels, &annotations), finding, times)
    }

    /// Alerts that fire, and those that may, each with whether it fires.
    pub fn active(&self) -> impl Iterator<Item = (bool, Alert)> {
        self.groups.iter().filter_map(|(key, track)| {
            let (is_firing, since_ns) = track.state.phase.active()?;
            Some((is_firing, self.alert(key, &track.state.finding, (since_ns, None))))
        })
    }
}
