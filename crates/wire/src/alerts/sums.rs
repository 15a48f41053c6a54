//! What is known of a step so far: histograms by group, and which hosts there are.

use crate::{HostRow, Ranges};
use latscope_histogram::{Grid, Histogram, Sparse};
use latscope_series::{Finding, HistogramSeries, HostCounts, Judged, Judgement, Threshold, Waiting};
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

/// Whether the labels of a group, which start with its host, pass a filter.
pub type Predicate = Box<dyn FnMut(&[String]) -> bool + Send>;

/// A step that lacks no more than one in so many of its intervals was observed as a whole.
const SLACK: u64 = 100;
/// Most requests of a group that are looked at one by one; of more, the oldest.
const WAITING_LIMIT: u64 = 100_000;

/// Of groups of no more hosts it is known when all of them are silent.
pub const HOSTS_KNOWN: usize = 8;

static EMPTY: LazyLock<Sparse> = LazyLock::new(|| Histogram::new(Grid::FINE, false).to_sparse());

/// Which rows count for a rule, and by which of their values they are grouped.
pub struct Selection {
    /// Positions of the group fields in the host and the labels of a row.
    pub by: Vec<usize>,
    /// Whether a group counts.
    pub picks: Option<Predicate>,
}

impl Selection {
    /// The group of a row's labels, which start with the host; `None` if they do not count.
    pub fn key(&mut self, labels: &[String]) -> Option<Vec<String>> {
        if self.picks.as_mut().is_some_and(|picks| !picks(labels)) {
            return None;
        }
        Some(self.by.iter().map(|&at| labels[at].clone()).collect())
    }

    /// Whether a group is a host, or the cluster.
    pub fn is_of_hosts(&self) -> bool {
        self.by.iter().all(|&at| at == 0)
    }

    /// The host of a group, where groups have one.
    pub fn host<'a>(&self, key: &'a [String]) -> Option<&'a String> {
        self.by.iter().position(|&at| at == 0).and_then(|at| key.get(at))
    }
}

/// A step.
#[derive(Default)]
pub struct StepSum {
    pub groups: HashMap<Vec<String>, GroupSum>,
    hosts: HashMap<String, HostSum>,
    pub present: BTreeSet<String>,
    /// Of its last interval.
    pub missing: BTreeSet<String>,
    pub ended: BTreeSet<String>,
    /// Whether agents may not have connected again in a part of it.
    pub is_unsettled: bool,
    /// Whether hosts that should be there have not connected again.
    pub lacks_hosts: bool,
    /// Of each host, its newest interval that came meanwhile, and how long after its end, nanoseconds.
    lags: HashMap<String, (i64, u64)>,
    offset_ns: Option<u64>,
    lost: u64,
}

#[derive(Default)]
struct HostSum {
    last: i64,
    lost: u64,
    /// For how much longer its intervals were observed than they are wide, nanoseconds.
    more_ns: u64,
    /// Of its clock.
    offset_ns: Option<u64>,
    /// The intervals that were observed as a whole, in the order of their numbers.
    whole: Ranges,
}

/// A group of a step.
#[derive(Default)]
pub struct GroupSum {
    done: Option<Sparse>,
    /// Of each host, ages at the end of an interval.
    waiting: HashMap<String, (i64, Sparse)>,
    /// The latest interval that it has.
    pub last: i64,
    /// Whose it is, up to [`HOSTS_KNOWN`] and one more.
    pub hosts: Vec<String>,
    /// The highest latency or age, and whose it is.
    worst: Option<(u64, String)>,
}

impl StepSum {
    /// Adds a row; returns the groups that it has.
    pub fn add(&mut self, row: &HostRow, end_ns: i64, selection: &mut Selection) -> Vec<Vec<String>> {
        let host =
            self.hosts.entry(row.host.clone()).or_insert_with(|| HostSum { last: row.interval, ..HostSum::default() });
        host.last = host.last.max(row.interval);
        host.lost = host.lost.saturating_add(row.lost);
        host.more_ns = host.more_ns.saturating_add(row.more_ns);
        host.offset_ns = row.offset_ns.map(i64::unsigned_abs).or(host.offset_ns);
        self.offset_ns = self.offset_ns.max(host.offset_ns);
        self.lost = self.lost.saturating_add(row.lost);
        if !row.is_partial {
            // Numbers before the epoch, too, stay in their order.
            let number = row.interval.cast_unsigned() ^ (1 << 63);
            host.whole.add(number..=number);
        }
        self.add_lag(row, end_ns);
        let mut keys = Vec::new();
        let mut labels = vec![row.host.clone()];
        if selection.is_of_hosts() && selection.picks.is_none() {
            keys.extend(selection.key(&labels));
        }
        for (group, parts) in row.groups.iter().filter(|(_, parts)| parts.done.is_some() || parts.waiting.is_some()) {
            labels.truncate(1);
            labels.extend(group.iter().cloned());
            let Some(key) = selection.key(&labels) else { continue };
            let sum = self.groups.entry(key.clone()).or_default();
            sum.add(row, parts);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        for key in &keys {
            let sum = self.groups.entry(key.clone()).or_default();
            sum.last = sum.last.max(row.interval);
        }
        keys
    }

    /// Notes how late a host is, by the newest of its intervals: what it sends again is older.
    pub fn add_lag(&mut self, row: &HostRow, end_ns: i64) {
        let lag_ns = row.arrived_ns.saturating_sub(end_ns).max(0).unsigned_abs();
        let newest = self.lags.entry(row.host.clone()).or_insert((row.interval, lag_ns));
        if newest.0 <= row.interval {
            *newest = (row.interval, lag_ns);
        }
    }

    /// How many buckets its histograms have, about.
    pub fn cells(&self) -> usize {
        let of_group = |sum: &GroupSum| {
            let waiting = sum.waiting.values().map(|(_, ages)| ages.indices().len() + 8).sum::<usize>();
            8 + sum.done.as_ref().map_or(0, |done| done.indices().len()) + waiting
        };
        self.hosts.len() + self.groups.values().map(of_group).sum::<usize>()
    }

    /// What is known of the hosts, of a group of one host or of all.
    fn counts(&self, host: Option<&String>) -> HostCounts {
        let is_in = |hosts: &BTreeSet<String>| match host {
            Some(host) => u64::from(hosts.contains(host)),
            None => hosts.len() as u64,
        };
        let sum = host.map(|host| self.hosts.get(host));
        HostCounts {
            lost: sum.map_or(self.lost, |host| host.map_or(0, |host| host.lost)),
            hosts: is_in(&self.present),
            missing: is_in(&self.missing),
            lag_ns: match host {
                Some(host) => self.lags.get(host).map(|(_, lag_ns)| *lag_ns),
                None => self.lags.values().map(|(_, lag_ns)| *lag_ns).max(),
            },
            offset_ns: sum.map_or(self.offset_ns, |host| host.and_then(|host| host.offset_ns)),
        }
    }

    /// Whether a host sent anything.
    pub fn has_data_of(&self, host: &str) -> bool {
        self.hosts.contains_key(host)
    }

    /// Whether anything of a host came meanwhile, however old.
    pub fn has_lag_of(&self, host: &str) -> bool {
        self.lags.contains_key(host)
    }

    /// How many hosts should be there. One that is missing in the last interval may have been there before.
    pub fn expected(&self) -> usize {
        self.present.union(&self.missing).count()
    }

    /// Whether any host sent anything.
    pub fn has_data(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// Whether this step of so many intervals was observed only in part: of the host of a group, or of the hosts together.
    fn is_partial(&self, host: Option<&String>, intervals: u64) -> bool {
        let whole = |sum: &HostSum| sum.whole.iter().map(|range| range.end() - range.start() + 1).sum::<u64>();
        let (count, whole) = match host {
            Some(host) => (1, self.hosts.get(host).map_or(0, whole)),
            None => (self.hosts.len() as u64, self.hosts.values().map(whole).sum()),
        };
        let all = intervals.saturating_mul(count);
        all.saturating_sub(whole) > all / SLACK
    }

    /// For how much longer the step was observed than it is wide, as clocks were set back: of the host of a group, or of all on the average.
    fn more_ns(&self, host: Option<&String>) -> u64 {
        match host {
            Some(host) => self.hosts.get(host).map_or(0, |host| host.more_ns),
            None => self.hosts.values().map(|host| host.more_ns).sum::<u64>() / (self.hosts.len() as u64).max(1),
        }
    }

    /// Whether a condition holds in a group, in a step of so many nanoseconds and intervals. `None`: it asks for what is unknown, as
    /// the step was observed only in part, or a host does not know its bytes.
    pub fn judge(
        &self,
        (key, host): (&[String], Option<&String>),
        condition: &Threshold,
        (width_ns, intervals): (u64, u64),
        done_only: bool,
    ) -> Option<Judgement> {
        let sum = self.groups.get(key);
        let waiting = sum.map_or_else(Waiting::default, |sum| sum.ages(&self.hosts));
        let waiting = if done_only { waiting.completed_only() } else { waiting };
        let done = sum.and_then(|sum| sum.done.as_ref()).unwrap_or(&EMPTY);
        let judged = Judged::new(done, 1, width_ns.saturating_add(self.more_ns(host)))
            .with_waiting(&waiting)
            .with_hosts(self.counts(host));
        let is_partial = self.is_partial(host, intervals);
        match condition.judge(&judged.partial(is_partial)) {
            Judgement::Unknown if is_partial && condition.judge(&judged) != Judgement::Unknown => None,
            // A host that does not know them is no end of an alert.
            Judgement::Unknown if condition.asks_for_bytes() => None,
            judgement => Some(judgement),
        }
    }

    /// What a reader needs beside the value: of how many events, whose are the slowest, which hosts.
    pub fn remarks(&self, key: &[String], host: Option<&String>, finding: &Finding) -> String {
        let mut text = String::new();
        let sum = self.groups.get(key);
        if let Some(done) = sum.and_then(|sum| sum.done.as_ref()).filter(|_| finding.is_of_events()) {
            text += &format!(" of {}", events(done.totals().count));
        }
        let worst = sum.and_then(|sum| sum.worst.as_ref()).filter(|(_, name)| name != HistogramSeries::NO_VALUE);
        if let Some((_, worst)) = worst.filter(|_| host.is_none() && !finding.is_of_hosts()) {
            text += &format!("; the slowest is on {worst}");
        }
        if !self.missing.is_empty() && host.is_none() {
            let names: Vec<&str> = self.missing.iter().take(20).map(String::as_str).collect();
            let of = self.expected();
            text += &format!("; {} of {of} hosts, missing: {}", of - self.missing.len(), names.join(", "));
        }
        text
    }
}

/// `1 event`, `2,000 events`.
pub fn events(count: u64) -> String {
    format!("{} event{}", latscope_event::format_count(count), if count == 1 { "" } else { "s" })
}

impl GroupSum {
    fn add(&mut self, row: &HostRow, parts: &crate::Parts) {
        crate::reduce::merge(&mut self.done, parts.done.clone());
        if self.hosts.len() <= HOSTS_KNOWN && !self.hosts.contains(&row.host) {
            self.hosts.push(row.host.clone());
        }
        if let Some(ages) = &parts.waiting {
            match self.waiting.get_mut(&row.host) {
                Some((interval, sum)) if *interval == row.interval => sum.merge(ages),
                Some((interval, _)) if *interval > row.interval => {}
                _ => drop(self.waiting.insert(row.host.clone(), (row.interval, ages.clone()))),
            }
        }
        let highest = parts.done.iter().chain(&parts.waiting).map(|histogram| histogram.totals().max).max();
        if let Some(highest) = highest.filter(|&highest| self.worst.as_ref().is_none_or(|(worst, _)| highest > *worst))
        {
            self.worst = Some((highest, row.host.clone()));
        }
    }

    /// What waits at the end of the last interval of each host.
    fn ages(&self, hosts: &HashMap<String, HostSum>) -> Waiting {
        let is_last = |host: &String, interval: i64| hosts.get(host).is_some_and(|host| host.last == interval);
        let of_hosts = self.waiting.iter().filter(|(host, (interval, _))| is_last(host, *interval));
        let (mut ages, mut room) = (Vec::new(), WAITING_LIMIT);
        for (_, (_, sum)) in of_hosts {
            let oldest = sum.totals().max;
            for (at, (index, count, _)) in sum.buckets().rev().enumerate() {
                let age_ns = if at == 0 { oldest } else { sum.grid().lower(index) };
                let count = count.min(room);
                room -= count;
                ages.extend((0..count).map(|_| (age_ns, 1)));
            }
        }
        Waiting::from_ages(ages)
    }
}
