//! Judges rules as data comes, and says what changed.

use super::alert::{Alert, Change};
use super::fault::{self, Fault, Place};
use super::judge::Judge;
use super::rules::{OnNoData, Rule, Rules, Slo};
use super::saved::Saved;
use super::slo::{BudgetState, Objective};
use super::state::{Patience, Sample, State, Turn};
use super::sums::{Predicate, Selection};
use crate::News;
use std::collections::BTreeMap;

/// What was judged before a restart is not further ahead, nanoseconds, unless the clock was set back meanwhile.
const AHEAD_NS: i64 = 10_000_000_000;

/// What a filter means for groups of these fields.
pub type Filters = dyn Fn(&str, &[String]) -> Result<Predicate, String> + Send + Sync;

/// Rules with their states.
pub struct Engine<'a> {
    filters: &'a Filters,
    judges: Vec<Judge>,
    objectives: Vec<Objective>,
    /// What is watched beside histograms.
    watched: Vec<Fault>,
    faults: BTreeMap<Place, State>,
    /// Before this moment hosts are not missing: they have not connected again yet.
    settled_ns: i64,
    /// Fields and width of the intervals.
    shape: Option<(Vec<String>, u64)>,
}

impl<'a> Engine<'a> {
    /// Nothing fires. Hosts are not missing before a moment.
    pub fn new(rules: &Rules, filters: &'a Filters, settled_ns: i64) -> Engine<'a> {
        let judges = rules.alerts.iter().cloned().map(Judge::new).collect();
        let objectives = rules.slos.iter().cloned().map(Objective::new).collect();
        let (watched, faults) = (rules.faults.clone(), BTreeMap::new());
        Engine { filters, judges, objectives, watched, faults, settled_ns, shape: None }
    }

    /// Goes on with states that were saved; those of rules that have changed are left out. Returns the alerts that end as no rule has
    /// them any more.
    pub fn restore(&mut self, saved: Saved, now_ns: i64) -> Vec<Change> {
        for judge in &mut self.judges {
            if let Some(saved) = saved.alerts.get(&judge.rule.name) {
                judge.restore(saved);
            }
        }
        for objective in &mut self.objectives {
            if let Some(saved) = saved.slos.get(&objective.slo.name) {
                objective.restore(saved);
            }
        }
        self.faults = saved.faults.into_iter().collect();
        self.faults.retain(|(fault, _), _| self.watched.contains(fault));
        // The clock was ahead before the restart.
        let of_faults = self.faults.values().map(|state| state.last_ns);
        let last_ns = self.judges.iter().map(Judge::last_ns).chain(of_faults).max().unwrap_or(i64::MIN);
        if last_ns > now_ns.saturating_add(AHEAD_NS) {
            self.step_clock(now_ns - last_ns);
        }
        let fired = saved.firing.unwrap_or_else(|| self.firing());
        self.changes_since(&fired, now_ns)
    }

    /// What changes for those who know that these fire: alerts that no rule has any more end, and those under other labels are new.
    fn changes_since(&self, fired: &[Alert], now_ns: i64) -> Vec<Change> {
        let fires = self.firing();
        let is_in = |alerts: &[Alert], alert: &Alert| alerts.iter().any(|other| other.labels == alert.labels);
        let gone = fired.iter().filter(|alert| !is_in(&fires, alert));
        let gone = gone.map(|alert| Alert { end_ns: Some(now_ns), ..alert.clone() });
        let new = fires.iter().filter(|alert| !is_in(fired, alert)).cloned();
        gone.chain(new).map(|alert| Change { at_ns: now_ns, alert }).collect()
    }

    /// Goes on with other rules: those that stay the same go on as they were. Returns the alerts that end as their rules are gone.
    pub fn set_rules(&mut self, rules: &Rules, now_ns: i64) -> Vec<Change> {
        let fired = self.firing();
        let mut known = std::mem::take(&mut self.judges);
        let judge = |rule: &Rule| {
            let is_same = |judge: &Judge| {
                judge.rule == *rule || (judge.rule.is_built_in && rule.is_built_in && judge.rule.name == rule.name)
            };
            if let Some(at) = known.iter().position(is_same) {
                return known.swap_remove(at);
            }
            let mut judge = Judge::new(rule.clone());
            if let Some(before) = known.iter().find(|judge| judge.rule.name == rule.name) {
                judge.restore(&before.save());
            }
            judge
        };
        self.judges = rules.alerts.iter().map(judge).collect();
        let mut known = std::mem::take(&mut self.objectives);
        let objective = |slo: &Slo| match known.iter().position(|objective| objective.slo == *slo) {
            Some(at) => known.swap_remove(at),
            None => Objective::new(slo.clone()),
        };
        self.objectives = rules.slos.iter().map(objective).collect();
        self.watched.clone_from(&rules.faults);
        self.faults.retain(|(fault, _), _| self.watched.contains(fault));
        self.shape = None;
        self.changes_since(&fired, now_ns)
    }

    /// The states, to be saved.
    pub fn save(&self) -> Saved {
        Saved {
            alerts: self.judges.iter().map(|judge| (judge.rule.name.clone(), judge.save())).collect(),
            slos: self.objectives.iter().map(|one| (one.slo.name.clone(), one.save())).collect(),
            firing: Some(self.firing()),
            faults: self.faults.iter().map(|(place, state)| (place.clone(), state.clone())).collect(),
            ..Saved::default()
        }
    }

    /// The clock was set forward by this time, nanoseconds.
    fn step_clock(&mut self, step_ns: i64) {
        self.judges.iter_mut().for_each(|judge| judge.step_clock(step_ns));
        self.objectives.iter_mut().for_each(|objective| objective.step_clock(step_ns));
        self.faults.values_mut().for_each(|state| state.step_clock(step_ns));
    }

    /// Whether a rule looks at latencies that completed; else at what waits and at hosts only.
    pub fn asks_what_completed(&self) -> bool {
        !self.objectives.is_empty() || self.judges.iter().any(|judge| !judge.rule.condition.is_momentary())
    }

    /// Goes on by what is new; returns what changed, and sentences about rules that cannot be judged with these fields.
    pub fn add(&mut self, news: &News) -> (Vec<Change>, Vec<String>) {
        if news.stepped_ns != 0 {
            self.step_clock(news.stepped_ns);
            self.settled_ns = self.settled_ns.saturating_add(news.stepped_ns);
        }
        let (mut changes, refused) = (Vec::new(), self.bind(news));
        let width_ns = news.width_ns.max(1) as i64;
        for row in &news.rows {
            self.judges.iter_mut().for_each(|judge| judge.add(row, width_ns, &mut changes));
            self.objectives.iter_mut().for_each(|objective| objective.add(row, width_ns));
        }
        // Before what comes after it, so that an alert that still fires has its start.
        self.judges.iter_mut().for_each(|judge| judge.judge_late(width_ns, &mut changes));
        for over in &news.over {
            let is_settled = over.interval.saturating_mul(width_ns) >= self.settled_ns;
            self.judges.iter_mut().for_each(|judge| judge.is_over(over, is_settled, &mut changes));
            self.objectives.iter_mut().for_each(|objective| objective.is_over(over, width_ns, &mut changes));
        }
        (changes, refused)
    }

    /// Finds the fields of the rules among those of the hub.
    fn bind(&mut self, news: &News) -> Vec<String> {
        let shape = (news.fields.clone(), news.width_ns);
        if self.shape.as_ref() == Some(&shape) {
            return Vec::new();
        }
        let mut fields = vec!["host".to_string()];
        fields.extend(news.fields.iter().cloned());
        self.shape = Some(shape);
        let mut refused = Vec::new();
        let mut selection = |name: &str, filter: &Option<String>, by: &[String]| {
            let found = select(self.filters, &fields, filter, by);
            found.map_err(|why| refused.push(format!("{name}: {why}"))).ok()
        };
        for judge in &mut self.judges {
            if judge.rule.is_built_in {
                judge.rule.by.retain(|name| fields.contains(name));
            }
            judge.selection = selection(&judge.rule.name, &judge.rule.filter, &judge.rule.by);
            judge.set_width(news.width_ns);
        }
        for objective in &mut self.objectives {
            let slo = &objective.slo;
            objective.selection = selection(&slo.name, &slo.filter, &slo.by);
        }
        refused
    }

    /// Sentences about rules of which no whole step lies between two times, nanoseconds since the epoch.
    pub fn never_judged(&self, start_ns: i64, end_ns: i64) -> Vec<String> {
        self.judges.iter().filter_map(|judge| judge.never_judged(start_ns, end_ns)).collect()
    }

    /// Goes on by what is wrong now beside histograms, with what was found.
    pub fn set_faults(&mut self, found: &BTreeMap<Place, String>, now_ns: i64) -> Vec<Change> {
        let patience = Patience { hold_ns: 0, keep_ns: 0, on_no_data: OnNoData::Keep };
        for place in found.keys().filter(|(fault, _)| self.watched.contains(fault)) {
            self.faults.entry(place.clone()).or_default();
        }
        let mut changes = Vec::new();
        for (place, state) in &mut self.faults {
            let sample = found.get(place).map_or(Sample::Over, |finding| Sample::Holds(finding.clone()));
            if let Some(turn) = state.go_on((now_ns, now_ns), sample, patience) {
                changes.push(Change { at_ns: now_ns, alert: fault::alert(place, state, turn, now_ns) });
            }
        }
        self.faults.retain(|_, state| state.is_firing());
        changes
    }

    /// All that fires, and what may fire soon, each with whether it fires.
    pub fn active(&self) -> Vec<(bool, Alert)> {
        let mut alerts: Vec<_> = self.judges.iter().flat_map(Judge::active).collect();
        alerts.extend(self.objectives.iter().flat_map(Objective::firing).map(|alert| (true, alert)));
        for (place, state) in &self.faults {
            if let Some((is_firing, since_ns)) = state.phase.active() {
                alerts.push((is_firing, fault::alert(place, state, Turn::Fires(since_ns), since_ns)));
            }
        }
        alerts
    }

    /// All that fires.
    pub fn firing(&self) -> Vec<Alert> {
        self.active().into_iter().filter_map(|(is_firing, alert)| is_firing.then_some(alert)).collect()
    }

    /// The budgets of the objectives.
    pub fn budgets(&self) -> Vec<BudgetState> {
        self.objectives.iter().flat_map(Objective::budgets).collect()
    }
}

/// Which rows a rule looks at.
fn select(filters: &Filters, fields: &[String], filter: &Option<String>, by: &[String]) -> Result<Selection, String> {
    let position = |name: &String| {
        let at = fields.iter().position(|field| field == name);
        at.ok_or_else(|| format!("the groups of this hub have no {name}; they have {}", fields.join(", ")))
    };
    let by = by.iter().map(position).collect::<Result<_, _>>()?;
    let picks = filter.as_ref().map(|filter| filters(filter, fields)).transpose()?;
    Ok(Selection { by, picks })
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
