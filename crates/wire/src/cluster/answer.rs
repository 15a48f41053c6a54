//! What a view is answered.

use super::Cluster;
use crate::{Data, Dictionary, Head, Hello, HostState, Hosts, Id, IntervalRow, Kind, PREFACE, Parts, Record, reduce};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// So many intervals are handed on at a time.
const CHUNK: usize = 60;

/// Intervals that were answered are so far ahead at most, unless the clock was set back since.
const AHEAD: i64 = 2;

/// How far an answer to a view has come.
pub struct Answer {
    run: Id,
    is_started: bool,
    is_over: bool,
    described: usize,
    next: i64,
    /// The first and the last interval that are asked for.
    first: i64,
    last: i64,
    /// The width of the intervals that are answered, nanoseconds; `None`: that of the hub.
    width_ns: Option<u64>,
    /// Whether histograms stand before it.
    is_second: bool,
    sequence: u64,
}

impl Answer {
    /// One that has not started.
    pub fn new(run: Id) -> Answer {
        let (next, last) = (i64::MIN, i64::MAX);
        Answer {
            run,
            is_started: false,
            is_over: false,
            described: 0,
            next,
            first: next,
            last,
            width_ns: None,
            is_second: false,
            sequence: 0,
        }
    }

    /// One of a stretch of time, nanoseconds since the epoch, in intervals of this width, that stands behind what is on disk.
    pub fn of_span(run: Id, (from_ns, to_ns): (i64, i64), width_ns: u64, hub_ns: u64) -> Answer {
        let hub = hub_ns.max(1) as i64;
        let (next, last) = (from_ns.div_euclid(hub), to_ns.div_euclid(hub));
        Answer { next, first: next, last, width_ns: Some(width_ns), is_second: true, ..Answer::new(run) }
    }

    fn data(&mut self, interval: i64, hub_ns: u64, mut row: IntervalRow) -> Record {
        let width_ns = self.width_ns.unwrap_or(hub_ns);
        let interval = interval.saturating_mul(hub_ns as i64).div_euclid(width_ns as i64);
        if width_ns != hub_ns {
            (row.covered_ns, row.is_partial) = (width_ns, false);
        }
        let head =
            Head { run: self.run, sequences: self.sequence..=self.sequence, start: interval, width_ns, intervals: 1 };
        self.sequence += 1;
        Data { head, rows: vec![row] }.record()
    }
}

/// How far an answer to a view has come that follows hosts apart.
#[derive(Default)]
pub struct HostsAnswer {
    next: Option<i64>,
    /// How many of the records that describe a run were handed on.
    described: HashMap<Id, usize>,
}

impl Cluster {
    /// As [`Cluster::answer_closed`], with hosts apart: the records of the last minute as they came, those of an interval at once.
    pub fn answer_closed_by_host(&self, answer: &mut HostsAnswer, from_ns: i64) -> Vec<Arc<Record>> {
        let mut records = Vec::new();
        let width = self.width_ns().max(1) as i64;
        let next = *answer.next.get_or_insert(from_ns.div_euclid(width));
        let closed = self.slices.range(next..).take_while(|(_, slice)| slice.is_closed).last();
        let Some((&last, _)) = closed else { return records };
        answer.next = Some(last + 1);
        let is_next = |start_ns: i64| (next..=last).contains(&start_ns.div_euclid(width));
        for recent in self.hosts.iter().flat_map(|host| &host.recent).filter(|recent| is_next(recent.start_ns)) {
            let Some(run) = self.runs.get(&recent.run) else { continue };
            let described = answer.described.entry(recent.run).or_insert(0);
            records.extend(run.descriptions[*described..].iter().map(Arc::clone));
            *described = run.descriptions.len();
            records.push(Arc::clone(&recent.record));
        }
        records
    }

    /// Closed intervals that were not handed on, with what waits in the last one; the first call starts with this moment,
    /// nanoseconds since the epoch. Nothing before the first run.
    pub fn answer_closed(&self, answer: &mut Answer, from_ns: i64, now_ns: i64) -> Vec<u8> {
        let mut out = Vec::new();
        let Some(model) = &self.model else { return out };
        let width_ns = model.width_ns;
        if !std::mem::replace(&mut answer.is_started, true) {
            answer.next = from_ns.div_euclid(width_ns as i64);
            let hello = Hello { run: answer.run, host: String::new(), ..model.clone() };
            out.extend_from_slice(hello.record().bytes());
        }
        // The clock of the hub was set back.
        let next = now_ns.div_euclid(width_ns as i64);
        if answer.next > next + AHEAD {
            answer.next = next;
        }
        let closed = self.slices.range(answer.next..).take_while(|(_, slice)| slice.is_closed).take(CHUNK);
        let closed: Vec<_> = closed.collect();
        let Some(&(&last, _)) = closed.last() else { return out };
        self.describe_groups(answer, &mut out);
        let is_latest = self.slices.range(last + 1..).next().is_none_or(|(_, slice)| !slice.is_closed);
        for (&interval, slice) in closed {
            let mut row = slice.row(width_ns);
            // It is closed; the view shows all of it.
            (row.covered_ns, row.is_partial) = (width_ns, false);
            row.forget_waiting();
            if interval == last && is_latest {
                let mut groups: BTreeMap<u32, Parts> = row.groups.into_iter().collect();
                for (group, parts) in self.waiting(now_ns).into_iter().flat_map(|row| row.groups) {
                    groups.entry(group).or_default().waiting = parts.waiting;
                }
                row.groups = groups.into_iter().collect();
            }
            out.extend_from_slice(answer.data(interval, width_ns, row).bytes());
        }
        answer.next = last + 1;
        out
    }

    /// Which hosts are in the last closed interval.
    pub fn latest_hosts(&self, now_ns: i64) -> Hosts {
        let (present, missing) = self.present(now_ns);
        let hosts = (0..).zip(&self.hosts).filter(|(_, host)| host.intervals.is_some());
        let state = |(number, host): (u32, &super::Host)| HostState {
            name: host.name.clone(),
            last: host.intervals.map_or(i64::MIN, |(_, last)| last),
            is_missing: missing.contains(&number),
            clock: host.clock,
            ..HostState::default()
        };
        Hosts { present, hosts: hosts.map(state).collect(), outside: self.outside, ..Hosts::default() }
    }

    /// Describes the groups that were not described yet.
    fn describe_groups(&self, answer: &mut Answer, out: &mut Vec<u8>) {
        if self.labels.len() > answer.described {
            let new: Vec<Vec<String>> = self.labels[answer.described..].iter().map(|labels| labels.to_vec()).collect();
            out.extend_from_slice(Dictionary::record(answer.run, answer.described, &new).bytes());
            answer.described = self.labels.len();
        }
    }

    /// Which hosts these intervals are of, counted in intervals of this width, nanoseconds.
    fn hosts(&self, span: RangeInclusive<i64>, width_ns: u64, now_ns: i64) -> Hosts {
        let (present, missing) = match *span.end() < self.last_over(now_ns) {
            true => {
                let last = self.slices.range(span.clone()).next_back();
                let count = last.map_or(0, |(_, slice)| slice.hosts.len() as u64);
                (count, self.missing(last.map_or(*span.end(), |(&last, _)| last)))
            }
            false => self.present(now_ns),
        };
        let mut hosts = Hosts { outside: self.outside, present, ..Hosts::default() };
        let mut states: Vec<HostState> = self
            .hosts
            .iter()
            .map(|host| HostState {
                name: host.name.clone(),
                repeated: host.repeated(span.clone(), self.width_ns()),
                last: host.intervals.map_or(i64::MIN, |(_, last)| last),
                clock: host.clock,
                ..HostState::default()
            })
            .collect();
        missing.into_iter().for_each(|host| states[host as usize].is_missing = true);
        // An interval of a view may be several of the hub; it counts once.
        let hub_ns = self.width_ns() as i64;
        let (mut provisional, mut amended, mut incomplete, mut missing) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (&interval, slice) in self.slices.range(span) {
            let wide = interval.saturating_mul(hub_ns).div_euclid((width_ns as i64).max(1));
            provisional.extend((!slice.is_closed).then_some(wide));
            amended.extend((slice.revision > 0).then_some(wide));
            let lacks = if slice.is_closed { self.missing(interval) } else { Vec::new() };
            incomplete.extend((!lacks.is_empty()).then_some(wide));
            missing.extend(lacks.into_iter().map(|host| (host, wide)));
        }
        hosts.provisional = provisional.len() as u64;
        (hosts.amended, hosts.incomplete) = (amended.len() as u64, incomplete.len() as u64);
        missing.into_iter().for_each(|(host, _)| states[host as usize].missing += 1);
        hosts.hosts = states
            .into_iter()
            .zip(&self.hosts)
            .filter(|(_, host)| host.intervals.is_some())
            .map(|(state, _)| state)
            .collect();
        hosts
    }

    /// The next part of an answer to a view: the histograms so far, then what waits and which hosts there are. `None` when all was
    /// handed on.
    pub fn answer(&self, answer: &mut Answer, now_ns: i64) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let width_ns = self.model.as_ref().map_or(1_000_000_000, |model| model.width_ns);
        if !std::mem::replace(&mut answer.is_started, true) {
            let fields = self.model.as_ref().map_or(Vec::new(), |model| model.fields.clone());
            let source = self.model.as_ref().map_or(String::new(), |model| model.source.clone());
            let filter = self.model.as_ref().map_or(String::new(), |model| model.filter.clone());
            let hello = Hello { run: answer.run, host: String::new(), source, filter, width_ns, fields, is_wall: true };
            let hello = Hello { width_ns: answer.width_ns.unwrap_or(width_ns), ..hello };
            if !answer.is_second {
                out.extend_from_slice(PREFACE);
            }
            out.extend_from_slice(hello.record().bytes());
        }
        if answer.is_over {
            return None;
        }
        self.describe_groups(answer, &mut out);
        let last = answer.last;
        let next = self.slices.range(answer.next..).take_while(|(interval, _)| **interval <= last).take(CHUNK);
        let (mut count, newest) = (0, self.slices.last_key_value().map(|(&interval, _)| interval));
        for (&interval, slice) in next {
            (count, answer.next) = (count + 1, interval + 1);
            let (mut row, end_ns) = (slice.row(width_ns), (interval + 1).saturating_mul(width_ns as i64));
            // What waits now comes at the end, with that of hosts that are late; in wider intervals, what waited at their ends.
            let is_end = end_ns.rem_euclid(answer.width_ns.unwrap_or(width_ns) as i64) == 0;
            if !is_end || newest == Some(interval) && newest <= Some(last) {
                row.forget_waiting();
            }
            out.extend_from_slice(answer.data(interval, width_ns, row).bytes());
        }
        if count < CHUNK {
            answer.is_over = true;
            // Of the past, what waited then is in its intervals.
            let is_past = self.slices.last_key_value().is_some_and(|(&interval, _)| interval > answer.last);
            if let Some(waiting) = self.waiting(now_ns).filter(|_| !is_past) {
                let last = answer.next.saturating_sub(1);
                out.extend_from_slice(answer.data(last, width_ns, waiting).bytes());
            }
            let span = answer.first..=answer.last;
            if !is_past || self.slices.range(span.clone()).next().is_some() {
                let width_ns = answer.width_ns.unwrap_or(width_ns);
                out.extend_from_slice(self.hosts(span, width_ns, now_ns).record().bytes());
            }
            out.extend_from_slice(Record::new(Kind::Bye, b"").bytes());
        }
        Some(out)
    }

    /// What waited at the end of the last interval of each host; `None` without intervals.
    fn waiting(&self, now_ns: i64) -> Option<IntervalRow> {
        self.slices.last_key_value()?;
        let (mut groups, latest) = (BTreeMap::<u32, Parts>::new(), self.last_over(now_ns));
        let is_there = |host: &&super::Host| !host.has_left && !host.is_pushed && self.is_heard(host, latest);
        for (group, ages) in self.hosts.iter().filter(is_there).flat_map(|host| &host.waiting) {
            reduce::merge(&mut groups.entry(*group).or_default().waiting, Some(ages.clone()));
        }
        Some(IntervalRow { groups: groups.into_iter().collect(), ..IntervalRow::default() })
    }

    /// The last minute of each host, as records: each run is described before its histograms, and at the end stands which hosts there
    /// are.
    pub fn recent(&self, now_ns: i64) -> Vec<Arc<Record>> {
        let mut records = Vec::new();
        // Of a host that is gone, the minute is not one of its own.
        let latest_ns = self.hosts.iter().flat_map(|host| &host.recent).map(|recent| recent.start_ns).max();
        let oldest_ns = latest_ns.map_or(i64::MIN, |latest_ns| latest_ns - super::RECENT_NS);
        for host in &self.hosts {
            let recent = || host.recent.iter().filter(|recent| recent.start_ns > oldest_ns);
            let runs: BTreeSet<Id> = recent().map(|recent| recent.run).collect();
            records.extend(runs.iter().filter_map(|run| self.runs.get(run)).flat_map(|run| run.descriptions.clone()));
            records.extend(recent().map(|recent| Arc::clone(&recent.record)));
        }
        if records.is_empty() {
            return records;
        }
        records.push(Arc::new(self.hosts(i64::MIN..=i64::MAX, self.width_ns(), now_ns).record()));
        records.push(Arc::new(Record::new(Kind::Bye, b"")));
        records
    }
}
