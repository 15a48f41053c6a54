//! What a hub knows: histograms merged over all hosts, by interval and group, and which hosts they are of.
//!
//! An interval is provisional from its first record on, closed when all expected hosts are in or some time after its end, and amended
//! by what comes later.

mod answer;
mod clocks;
mod facts;
mod slice;
mod states;

use crate::clock::{ClockState, EXPECTED_NS};
use crate::closed::{Closed, Groups, Merged};
use crate::news::{self, HostRow, News, OverInterval};
use crate::{
    Data, Dictionary, GROUPS_LIMIT, Head, Hello, Id, IntervalRow, Kind, Malformed, Parts, Ranges, Record, Usage, reduce,
};
use latscope_event::{Severity, Tally, is_printable};
use latscope_histogram::Sparse;
use slice::{Slice, Sum};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

pub use answer::{Answer, HostsAnswer};
pub use facts::{Counters, HostFacts};
pub use states::IntervalState;

/// So far beyond the hub's own time an interval may be, nanoseconds.
pub const AHEAD_NS: i64 = 120_000_000_000;
/// Records of single hosts are kept for so long, and take no more than this of each.
const RECENT_NS: i64 = 60_000_000_000;
const RECENT_BYTES: usize = 256 << 10;
/// So many times of each host at which it said that it ends are remembered.
const ABSENCES: usize = 64;
/// The source of runs that are pushed.
pub const PUSHED: &str = "pushed";
/// So many intervals of each host are remembered that were observed for another time than their width.
const UNEVEN: usize = 10_000;
/// Most runs and hosts that are remembered.
const RUNS_LIMIT: usize = 100_000;
const HOSTS_LIMIT: usize = 4096;

/// How much a hub keeps in memory, and for how long it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Intervals are kept for so long, nanoseconds.
    pub keep_ns: u64,
    /// Closed intervals take no more than this, bytes.
    pub memory_bytes: usize,
    /// An interval is closed so long after its end though hosts are missing, nanoseconds.
    pub grace_ns: u64,
}

/// What a hub knows.
pub struct Cluster {
    limits: Limits,
    /// Of the first run: all have the same width and fields.
    model: Option<Hello>,
    /// Numbers of the groups of all hosts.
    groups: HashMap<Arc<[String]>, u32>,
    labels: Vec<Arc<[String]>>,
    hosts: Vec<Host>,
    runs: HashMap<Id, Run>,
    slices: BTreeMap<i64, Slice>,
    /// Of closed intervals, about.
    bytes: usize,
    outside: u64,
    /// Intervals from here on are in memory, as far as they were not too old; nanoseconds since the epoch.
    complete_ns: i64,
    /// Since it was last asked for, if somebody asks for it.
    merged: Option<Vec<Merged>>,
    /// Rows for alerts, if somebody asks for them.
    news: Option<news::Waiting>,
    /// What came since the start.
    pub counters: Counters,
}

struct Host {
    name: String,
    /// The run that is connected, and by how many connections: after a break the hub may not have noticed that the first one is gone.
    connected: Option<(Id, u32)>,
    /// Its first and its last interval.
    intervals: Option<(i64, i64)>,
    /// It said that it ends.
    has_left: bool,
    /// Its first interval behind that, until the next one comes.
    ended: Option<i64>,
    /// The intervals between saying that and the next one.
    absences: VecDeque<(i64, i64)>,
    /// It has no agent: others push its histograms when they like, so that no interval waits for it.
    is_pushed: bool,
    /// When a record of it came, nanoseconds since the epoch.
    heard_ns: i64,
    /// What waited at the end of its last interval, by group.
    waiting: Vec<(u32, Sparse)>,
    clock: ClockState,
    /// By how many intervals what it sends is moved.
    shift: i64,
    /// What it says next of its clock is about a clock of the hub that was set since.
    is_clock_outdated: bool,
    /// How long after the end of its last interval the record came, nanoseconds.
    lag_ns: Option<u64>,
    /// How full the queue of its agent is: bytes, and how many there may be.
    queue: Option<(u64, u64)>,
    /// What its agent takes itself.
    usage: Option<Usage>,
    /// What was lost on it since the start of the hub.
    lost: Tally,
    certificate_end_ns: Option<i64>,
    recent: VecDeque<Recent>,
    recent_bytes: usize,
    /// For how long intervals were observed, nanoseconds, where that is not their width: at the ends of runs, and where the clock of the
    /// host was set.
    uneven: BTreeMap<i64, u64>,
}

/// A record of the last minute of a host.
struct Recent {
    run: Id,
    start_ns: i64,
    record: Arc<Record>,
}

struct Run {
    host: u32,
    hello: Hello,
    descriptions: Vec<Arc<Record>>,
    dictionary: Dictionary,
    /// Numbers in the cluster by those of the run.
    groups: Vec<u32>,
    known: Ranges,
}

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It counts.
    New,
    /// It was known.
    Known,
}

impl Cluster {
    /// One without hosts.
    pub fn new(limits: Limits) -> Cluster {
        Cluster {
            limits,
            model: None,
            groups: HashMap::new(),
            labels: Vec::new(),
            hosts: Vec::new(),
            runs: HashMap::new(),
            slices: BTreeMap::new(),
            bytes: 0,
            outside: 0,
            complete_ns: i64::MIN,
            merged: None,
            news: None,
            counters: Counters::default(),
        }
    }

    /// Keeps what is merged into closed intervals for [`Cluster::take_closed`].
    pub fn keep_closed(&mut self) {
        self.merged.get_or_insert_default();
    }

    /// What was merged into closed intervals since the last call; `None` before the first run.
    pub fn take_closed(&mut self, now_ns: i64) -> Option<Closed> {
        let model = self.model.as_ref()?;
        let (width_ns, fields) = (model.width_ns, model.fields.clone());
        let intervals = std::mem::take(self.merged.as_mut()?);
        let (waiting, (present, missing)) = (self.waiting_now(now_ns), self.present(now_ns));
        let hosts = Some((present, missing.len() as u64));
        Some(Closed { width_ns, fields, intervals, waiting, hosts })
    }

    fn label(&self, group: u32) -> Arc<[String]> {
        self.labels.get(group as usize).map_or_else(|| [].into(), Arc::clone)
    }

    /// Keeps what comes for [`Cluster::news`]: what waits, and where it is asked for, what completed.
    pub fn keep_news(&mut self, with_completed: bool) {
        self.news.get_or_insert_default().with_completed = with_completed;
    }

    /// What came since the last call, and the intervals that are over since; `None` before the first run.
    pub fn news(&mut self, now_ns: i64) -> Option<News> {
        const MOST: i64 = 600;
        let model = self.model.as_ref()?;
        let (fields, width_ns) = (model.fields.clone(), model.width_ns);
        let width = width_ns as i64;
        let by_time = now_ns.saturating_sub_unsigned(self.grace_ns()).div_euclid(width);
        let closed = self.slices.iter().rev().find(|(_, slice)| slice.is_closed).map(|(&interval, _)| interval + 1);
        let open = self.slices.iter().find(|(_, slice)| !slice.is_closed).map(|(&interval, _)| interval);
        let end = by_time.max(closed.unwrap_or(by_time)).min(open.unwrap_or(i64::MAX));
        let start = self.slices.first_key_value().map(|(&interval, _)| interval);
        let start = self.news.as_ref()?.next.or(start)?.max(end - MOST);
        let name = |&host: &u32| self.hosts[host as usize].name.clone();
        let hosts_of = |interval| OverInterval {
            interval,
            present: self.slices.get(&interval).map_or(Vec::new(), |slice| slice.hosts.iter().map(name).collect()),
            missing: self.missing(interval).iter().map(name).collect(),
            ended: self
                .hosts
                .iter()
                .filter(|host| host.has_left && !host.is_pushed)
                .map(|host| host.name.clone())
                .collect(),
        };
        let over = (start..end).map(hosts_of).collect();
        let news = self.news.as_mut()?;
        news.next = Some(start.max(end));
        let stepped_ns = std::mem::take(&mut news.stepped_ns);
        Some(News { fields, width_ns, stepped_ns, rows: news.take(), over })
    }

    /// A run of a host comes, or is described; returns what is known of it.
    ///
    /// # Errors
    /// A sentence for the host that is refused.
    pub fn describe(&mut self, hello: Hello, record: Record) -> Result<Ranges, String> {
        if hello.host.is_empty() || !hello.host.chars().all(is_printable) || !hello.is_wall {
            return Err("an agent needs a name of printable characters and a clock".into());
        }
        if let Some(model) = &self.model
            && (model.width_ns != hello.width_ns || model.fields != hello.fields)
        {
            return Err(format!(
                "this hub has intervals of {} by {}: start the agent with -i {0} --by {1}",
                latscope_event::format_duration_exact(model.width_ns),
                model.fields.join(",")
            ));
        }
        if let Some(run) = self.runs.get(&hello.run) {
            if run.hello.host != hello.host {
                return Err("this run is of another host".into());
            }
            self.model.get_or_insert(hello);
            return Ok(run.known.clone());
        }
        if self.runs.len() >= RUNS_LIMIT {
            return Err("this hub has seen too many runs: restart it with another --data".into());
        }
        let known = self.hosts.iter().position(|host| host.name == hello.host);
        let host = match known {
            Some(host) => host,
            None if self.hosts.len() >= HOSTS_LIMIT => return Err(format!("this hub has {HOSTS_LIMIT} hosts already")),
            None => {
                self.hosts.push(Host::new(hello.host.clone()));
                self.hosts.len() - 1
            }
        };
        self.hosts[host].is_pushed = hello.source == PUSHED;
        self.model.get_or_insert_with(|| hello.clone());
        let (id, descriptions) = (hello.run, vec![Arc::new(record)]);
        let (dictionary, groups, known) = (Dictionary::default(), Vec::new(), Ranges::default());
        self.runs.insert(id, Run { host: host as u32, hello, descriptions, dictionary, groups, known });
        Ok(Ranges::default())
    }

    /// A run that was taken before what is in the journal, of which the first file was started then.
    pub fn restore(&mut self, descriptions: Vec<Record>, run: Id, ranges: Ranges, start_ns: i64) {
        // Others may send intervals of another width now.
        let model = self.model.take();
        for record in descriptions {
            match (record.kind(), Hello::parse(record.payload())) {
                (Ok(Kind::Hello), Ok(hello)) => drop(self.describe(hello, record)),
                (Ok(Kind::Dictionary), _) => drop(self.add_groups(record)),
                _ => {}
            }
        }
        self.model = model;
        if let Some(run) = self.runs.get_mut(&run) {
            run.known = ranges;
        }
        self.complete_ns = self.complete_ns.max(start_ns.saturating_add(AHEAD_NS));
    }

    /// All that was taken of intervals that start from here on is in memory; nanoseconds since the epoch.
    pub fn complete_ns(&self, now_ns: i64) -> i64 {
        self.complete_ns.max(now_ns.saturating_sub_unsigned(self.limits.keep_ns))
    }

    /// A run connects.
    ///
    /// # Errors
    /// A sentence where another run of the same name is connected.
    pub fn connect(&mut self, run: Id, now_ns: i64) -> Result<(), String> {
        let Some(host) = self.runs.get(&run).and_then(|run| self.hosts.get_mut(run.host as usize)) else {
            return Ok(());
        };
        let count = match host.connected {
            Some((connected, _)) if connected != run => None,
            connected => Some(connected.map_or(1, |(_, count)| count + 1)),
        };
        let Some(count) = count else {
            return Err(format!("another agent is connected as {}: give one of them another --name", host.name));
        };
        (host.connected, host.has_left, host.heard_ns) = (Some((run, count)), false, now_ns);
        Ok(())
    }

    /// A connection of a run is gone; whether the run said that it ends.
    pub fn disconnect(&mut self, run: Id, has_left: bool) {
        if let Some(host) = self.runs.get(&run).and_then(|run| self.hosts.get_mut(run.host as usize)) {
            host.connected = host.connected.and_then(|(connected, count)| match connected == run {
                true => (count > 1).then_some((connected, count - 1)),
                false => Some((connected, count)),
            });
            host.has_left |= has_left;
            host.ended =
                host.intervals.filter(|_| has_left && !host.is_pushed).map(|(_, last)| last + 1).or(host.ended);
        }
    }

    /// The end of the last interval of the host of a run, nanoseconds since the epoch.
    pub fn end_ns(&self, run: Id) -> Option<i64> {
        let (_, last) = self.hosts.get(self.runs.get(&run)?.host as usize)?.intervals?;
        Some((last + 1).saturating_mul(self.width_ns() as i64))
    }

    /// The groups of a run.
    ///
    /// # Errors
    /// When the record is malformed or of an unknown run.
    pub fn add_groups(&mut self, record: Record) -> Result<(), Malformed> {
        let run = self.runs.get_mut(&Dictionary::run(&record)?).ok_or(Malformed::Group)?;
        let known = run.dictionary.len();
        run.dictionary.add(&record, run.hello.fields.len())?;
        if run.dictionary.len() > known {
            run.descriptions.push(Arc::new(record));
        }
        for number in known..run.dictionary.len() {
            let Some(labels) = run.dictionary.get(number as u32) else { continue };
            let is_full = self.labels.len() >= GROUPS_LIMIT - 1;
            let labels = match self.groups.contains_key(labels) || !is_full {
                true => Arc::clone(labels),
                false => vec![reduce::OTHERS.to_string(); labels.len()].into(),
            };
            let number = *self.groups.entry(Arc::clone(&labels)).or_insert_with(|| {
                self.labels.push(labels);
                self.labels.len() as u32 - 1
            });
            run.groups.push(number);
        }
        Ok(())
    }

    /// The records that describe a run, from this one on.
    pub fn descriptions(&self, run: Id, start: usize) -> Vec<Arc<Record>> {
        let descriptions = self.runs.get(&run).map(|run| &run.descriptions[..]).unwrap_or_default();
        descriptions.get(start..).unwrap_or_default().to_vec()
    }

    /// Width of the intervals, nanoseconds, and the fields that make a group; `None` before the first run.
    pub fn shape(&self) -> Option<(u64, Vec<String>)> {
        self.model.as_ref().map(|model| (model.width_ns, model.fields.clone()))
    }

    /// How long intervals are kept, nanoseconds.
    pub fn keep_ns(&self) -> u64 {
        self.limits.keep_ns
    }

    /// Width of the intervals, nanoseconds; 0 before the first run.
    pub fn width_ns(&self) -> u64 {
        self.model.as_ref().map_or(0, |model| model.width_ns)
    }

    /// Whether all of a record is known.
    pub fn is_known(&self, head: &Head) -> bool {
        self.runs.get(&head.run).is_some_and(|run| run.known.has_all(&head.sequences))
    }

    /// Merges a record, which counts once however often it comes.
    ///
    /// # Errors
    /// When it is of an unknown run or group, or a part of it is known.
    pub fn add(&mut self, data: Data, now_ns: i64) -> Result<Taken, Malformed> {
        let head = &data.head;
        let run = self.runs.get_mut(&head.run).ok_or(Malformed::Group)?;
        if run.known.has_all(&head.sequences) {
            return Ok(Taken::Known);
        }
        let mut numbers = data.rows.iter().flat_map(|row| &row.groups).map(|&(group, _)| group as usize);
        if head.width_ns != run.hello.width_ns || numbers.any(|group| group >= run.groups.len()) {
            return Err(Malformed::Group);
        }
        if run.known.has_any(&head.sequences) || !run.known.add(head.sequences.clone()) {
            return Err(Malformed::Amount);
        }
        self.counters.records += 1;
        let (host, groups) = (run.host, run.groups.clone());
        for (interval, mut row) in (head.start..).zip(data.rows) {
            row.groups.iter_mut().for_each(|(group, _)| *group = groups[*group as usize]);
            self.add_row(host, interval, head.width_ns as i64, row, now_ns);
        }
        Ok(Taken::New)
    }

    /// Keeps a record that was [added](Cluster::add) for [`Cluster::recent`].
    pub fn keep_recent(&mut self, head: &Head, record: Arc<Record>, now_ns: i64) {
        let Some(host) = self.runs.get(&head.run).and_then(|run| self.hosts.get_mut(run.host as usize)) else { return };
        let (run, start_ns) = (head.run, head.start.saturating_mul(head.width_ns as i64));
        let oldest_ns = now_ns - RECENT_NS;
        if start_ns >= oldest_ns {
            host.recent_bytes += record.bytes().len();
            host.recent.push_back(Recent { run, start_ns, record });
        }
        while let Some(first) = host.recent.front()
            && (first.start_ns < oldest_ns || host.recent_bytes > RECENT_BYTES)
        {
            host.recent_bytes -= first.record.bytes().len();
            host.recent.pop_front();
        }
    }

    fn add_row(&mut self, number: u32, interval: i64, width_ns: i64, row: IntervalRow, now_ns: i64) {
        let host = &mut self.hosts[number as usize];
        let start_ns = interval * width_ns;
        let lost = row.tally.iter().filter(|(anomaly, _)| anomaly.severity() == Severity::Lost);
        lost.for_each(|(anomaly, count)| host.lost.add(anomaly, count));
        // A journal is read long after.
        host.heard_ns = host.heard_ns.max(now_ns.min(start_ns + width_ns));
        // What is shown of it now would be wrong, or is not kept; the journal has it.
        if start_ns > now_ns + AHEAD_NS || start_ns < now_ns.saturating_sub_unsigned(self.limits.keep_ns) {
            self.outside += 1;
            return;
        }
        let (first, last) = host.intervals.unwrap_or((interval, interval));
        if interval >= last {
            host.lag_ns = Some(now_ns.saturating_sub(start_ns + width_ns).max(0).unsigned_abs());
        }
        if interval >= last && row.covered_ns > 0 {
            let waiting = row.groups.iter().filter_map(|(group, parts)| Some((*group, parts.waiting.clone()?)));
            host.waiting = waiting.collect();
        }
        host.intervals = Some((first.min(interval), last.max(interval)));
        if let Some(ended) = host.ended.filter(|&ended| interval >= ended) {
            (host.ended, host.has_left) = (None, false);
            host.absences.push_back((ended, interval));
            host.absences.drain(..host.absences.len().saturating_sub(ABSENCES));
        }
        let slice = self.slices.entry(interval).or_default();
        // An interval that comes again, as the clock of its host was set back, is about the same requests.
        let is_new = slice.hosts.binary_search(&number).map_err(|at| slice.hosts.insert(at, number)).is_err();
        let more_ns = host.cover(interval, is_new, row.covered_ns, width_ns.unsigned_abs());
        if let Some(news) = self.news.as_mut().filter(|_| start_ns >= now_ns - news::RECENT_NS) {
            let with_completed = news.with_completed;
            let labels = |(group, parts): &(u32, Parts)| {
                let done = parts.done.as_ref().filter(|_| with_completed).cloned();
                let kept = Parts { done, waiting: parts.waiting.clone() };
                (Arc::clone(&self.labels[*group as usize]), kept)
            };
            let lost = row.tally.iter().filter(|(anomaly, _)| anomaly.severity() == Severity::Lost);
            news.add(HostRow {
                host: host.name.clone(),
                interval,
                arrived_ns: now_ns,
                is_partial: row.is_partial || row.covered_ns == 0,
                more_ns,
                lost: lost.map(|(_, count)| count).sum(),
                offset_ns: host.clock.offset.map(|(offset_ns, _)| offset_ns),
                groups: row.groups.iter().map(labels).collect(),
            });
        }
        slice.revision += u32::from(slice.is_closed);
        slice.covered_ns = slice.covered_ns.max(row.covered_ns);
        slice.tally.merge(&row.tally);
        if let Some(merged) = self.merged.as_mut().filter(|_| slice.is_closed) {
            let done = row.groups.iter().filter_map(|(group, parts)| Some((*group, parts.done.clone()?)));
            let label = |group: u32| self.labels.get(group as usize).map_or_else(|| [].into(), Arc::clone);
            let done = done.map(|(group, done)| (label(group), done)).collect();
            merged.push(Merged { interval, is_late: true, done, tally: row.tally.clone() });
        }
        for (group, parts) in row.groups {
            if let Some(ages) = parts.waiting.filter(|_| is_new && row.covered_ns > 0) {
                match slice.waiting.get_mut(&group) {
                    Some(sum) => sum.merge(&ages),
                    None => drop(slice.waiting.insert(group, ages)),
                }
            }
            if let Some(done) = parts.done {
                slice.add(group, done);
            }
        }
        if slice.is_closed {
            self.bytes -= slice.bytes;
            slice.measure();
            self.bytes += slice.bytes;
        }
    }

    /// Closes the intervals of which no more is waited for, and forgets those that there is no room for. Returns the names of hosts
    /// that are missing in the latest of those; `None` before the first one.
    pub fn close(&mut self, now_ns: i64) -> Option<Vec<String>> {
        let width_ns = self.model.as_ref()?.width_ns as i64;
        let open: Vec<i64> =
            self.slices.iter().filter(|(_, slice)| !slice.is_closed).map(|(&interval, _)| interval).collect();
        let grace_ns = self.grace_ns();
        for interval in open {
            let end_ns = (interval + 1) * width_ns;
            let has_all = now_ns >= end_ns && self.missing(interval).is_empty();
            if !has_all && now_ns < end_ns.saturating_add_unsigned(grace_ns) {
                continue;
            }
            self.close_slice(interval);
        }
        self.bound(now_ns, width_ns);
        let name = |host: u32| self.hosts[host as usize].name.clone();
        (self.last_over(now_ns) > i64::MIN).then(|| self.present(now_ns).1.into_iter().map(name).collect())
    }

    /// Closes an interval that is open.
    fn close_slice(&mut self, interval: i64) {
        let Some(slice) = self.slices.get_mut(&interval).filter(|slice| !slice.is_closed) else { return };
        slice.close();
        self.bytes += slice.bytes;
        if self.merged.is_some() {
            let merged = self.merged(interval);
            self.merged.get_or_insert_default().push(merged);
        }
    }

    /// What a closed interval has.
    fn merged(&self, interval: i64) -> Merged {
        let mut merged = Merged { interval, is_late: false, done: Groups::new(), tally: Tally::default() };
        if let Some(slice) = self.slices.get(&interval) {
            merged.tally.merge(&slice.tally);
            for (&group, sum) in &slice.groups {
                if let Sum::Closed(done) = sum {
                    merged.done.push((self.label(group), done.clone()));
                }
            }
        }
        merged
    }

    fn bound(&mut self, now_ns: i64, width_ns: i64) {
        let oldest_ns = now_ns.saturating_sub_unsigned(self.limits.keep_ns);
        while let Some((&interval, slice)) = self.slices.first_key_value()
            && slice.is_closed
            && (interval * width_ns < oldest_ns || self.bytes > self.limits.memory_bytes)
        {
            self.complete_ns = self.complete_ns.max((interval + 1) * width_ns);
            self.bytes -= slice.bytes;
            self.slices.remove(&interval);
        }
    }

    /// The hosts that should be in an interval and are not.
    fn missing(&self, interval: i64) -> Vec<u32> {
        let width_ns = self.model.as_ref().map_or(1, |model| model.width_ns as i64);
        let slice = self.slices.get(&interval);
        let is_in = |host: u32| slice.is_some_and(|slice| slice.hosts.binary_search(&host).is_ok());
        let is_expected = |host: &Host| {
            host.intervals.is_some_and(|(first, last)| {
                let is_away = host.has_left && interval > last || host.is_absent(interval, width_ns);
                !host.is_pushed
                    && first <= interval
                    && !is_away
                    && (host.connected.is_some() || interval * width_ns <= host.heard_ns + EXPECTED_NS)
            })
        };
        let hosts = (0..).zip(&self.hosts);
        hosts.filter(|&(number, host)| is_expected(host) && !is_in(number)).map(|(number, _)| number).collect()
    }
}

impl Host {
    /// Whether it said before that it would not be there: until it sends again, or connected at least.
    fn is_absent(&self, interval: i64, width_ns: i64) -> bool {
        let was = self.absences.iter().any(|&(start, end)| (start..end).contains(&interval));
        was || self.ended.is_some_and(|ended| interval >= ended && (interval + 1) * width_ns <= self.heard_ns)
    }

    /// Notes for how long an interval was observed. Returns by how many nanoseconds the excess over its width grew: 0 for what others
    /// push, of which it is not known.
    fn cover(&mut self, interval: i64, is_new: bool, covered_ns: u64, width_ns: u64) -> u64 {
        let before_ns = if is_new { 0 } else { self.uneven.get(&interval).copied().unwrap_or(width_ns) };
        let sum_ns = before_ns.saturating_add(covered_ns);
        if self.is_pushed || !is_new && covered_ns == 0 {
            return 0;
        }
        if sum_ns == width_ns {
            self.uneven.remove(&interval);
        } else {
            self.uneven.insert(interval, sum_ns);
        }
        if self.uneven.len() > UNEVEN {
            self.uneven.pop_first();
        }
        sum_ns.max(width_ns) - before_ns.max(width_ns)
    }

    /// The intervals among these that came again: their start, and for how much longer than their width they were observed; nanoseconds.
    fn repeated(&self, span: RangeInclusive<i64>, width_ns: u64) -> Vec<(i64, u64)> {
        let more = |(&interval, &covered_ns): (&i64, &u64)| {
            let more_ns = covered_ns.checked_sub(width_ns).filter(|&more_ns| more_ns > 0)?;
            Some((interval.saturating_mul(width_ns as i64), more_ns))
        };
        self.uneven.range(span).filter_map(more).collect()
    }

    fn new(name: String) -> Host {
        Host {
            name,
            connected: None,
            intervals: None,
            has_left: false,
            ended: None,
            absences: VecDeque::new(),
            is_pushed: false,
            heard_ns: 0,
            waiting: Vec::new(),
            clock: ClockState::default(),
            shift: 0,
            is_clock_outdated: false,
            lag_ns: None,
            queue: None,
            usage: None,
            lost: Tally::default(),
            certificate_end_ns: None,
            recent: VecDeque::new(),
            recent_bytes: 0,
            uneven: BTreeMap::new(),
        }
    }
}
