//! Rules over what was recorded: the journal of a hub, or any series of latencies.

use super::alert::{Alert, Change};
use super::engine::{Engine, Filters};
use super::in_flight::InFlight;
use super::rules::Rules;
use crate::cluster::{Cluster, Limits};
use crate::messages::Goodbye;
use crate::reduce::interval_parts;
use crate::{Data, Found, Hello, HostRow, Kind, News, OverInterval, PREFACE, Parts, Records};
use latscope_event::Field;
use latscope_series::HistogramSeries;
use std::collections::BTreeMap;
use std::io::{self, Read};

/// As a hub's, with enough room for what comes late.
const LIMITS: Limits = Limits { keep_ns: 3_600_000_000_000, memory_bytes: 256 << 20, grace_ns: 2_000_000_000 };

/// Rules over what was recorded.
pub struct Replay<'a> {
    engine: Engine<'a>,
    cluster: Cluster,
    /// The end of the latest interval, nanoseconds since the epoch.
    now_ns: i64,
}

/// Whether a file is a journal, or the queue of an agent; else it has no hosts, or is another kind of file.
///
/// # Errors
/// Those of the source.
pub fn is_journal(mut source: impl Read) -> io::Result<bool> {
    let mut preface = [0; PREFACE.len()];
    if source.read_exact(&mut preface).is_err() || preface != PREFACE {
        return Ok(false);
    }
    let Some(Found::Record(record)) = Records::of_file(source).next()? else { return Ok(false) };
    Ok(Hello::parse(record.payload()).is_ok_and(|hello| !hello.host.is_empty() && hello.is_wall))
}

impl<'a> Replay<'a> {
    /// Nothing has happened.
    pub fn new(rules: &Rules, filters: &'a Filters) -> Replay<'a> {
        let mut cluster = Cluster::new(LIMITS);
        cluster.keep_news(true);
        Replay { engine: Engine::new(rules, filters, i64::MIN), cluster, now_ns: i64::MIN }
    }

    /// Goes on by a journal; returns what changed, and sentences about rules that cannot be judged. Damaged records are left out.
    ///
    /// # Errors
    /// Those of the source.
    pub fn add_journal(&mut self, mut source: impl Read) -> io::Result<(Vec<Change>, Vec<String>)> {
        let (mut changes, mut refused) = (Vec::new(), Vec::new());
        source.read_exact(&mut [0; PREFACE.len()])?;
        let mut records = Records::of_file(source);
        while let Some(found) = records.next()? {
            let Found::Record(record) = found else { continue };
            match record.kind() {
                Ok(Kind::Hello) => {
                    if let Ok(hello) = Hello::parse(record.payload()) {
                        refused.extend(self.cluster.describe(hello, record).err());
                    }
                }
                Ok(Kind::Dictionary) => drop(self.cluster.add_groups(record)),
                Ok(Kind::Bye) => {
                    if let Ok(goodbye) = Goodbye::parse(record.payload()) {
                        self.cluster.disconnect(goodbye.run, true);
                    }
                }
                Ok(Kind::Data) => {
                    let Ok(data) = Data::parse(&record) else { continue };
                    let end = data.head.start + data.head.intervals as i64;
                    // Somewhat later it came.
                    self.now_ns = self.now_ns.max(end * data.head.width_ns as i64);
                    let _ = self.cluster.add(data, self.now_ns);
                    self.turn(&mut changes, &mut refused);
                }
                _ => {}
            }
        }
        Ok((changes, refused))
    }

    /// Closes the intervals that are open.
    pub fn finish(&mut self) -> Vec<Change> {
        let (mut changes, mut refused) = (Vec::new(), Vec::new());
        if self.now_ns > i64::MIN {
            self.now_ns = self.now_ns.saturating_add_unsigned(LIMITS.grace_ns);
            self.turn(&mut changes, &mut refused);
        }
        changes
    }

    fn turn(&mut self, changes: &mut Vec<Change>, refused: &mut Vec<String>) {
        self.cluster.close(self.now_ns);
        if let Some(news) = self.cluster.news(self.now_ns) {
            let (new, sentences) = self.engine.add(&news);
            changes.extend(new);
            refused.extend(sentences);
        }
    }

    /// Goes on by a series of any source, with the requests in flight that it does not have, whose times are shifted by this to those
    /// since the epoch. All its hosts are there all the time.
    pub fn add_series(
        &mut self,
        series: &HistogramSeries,
        in_flight: Option<&InFlight>,
        to_unix_ns: i64,
    ) -> (Vec<Change>, Vec<String>) {
        let host_at = series.by.iter().position(|&field| field == Field::Host);
        let names = series.by.iter().filter(|&&field| field != Field::Host).map(|field| field.name().to_string());
        let fields: Vec<String> = names.collect();
        let width_ns = series.width_ns();
        let shift = to_unix_ns.div_euclid(width_ns.max(1) as i64);
        let host = |group: &[String]| host_at.map_or(HistogramSeries::NO_VALUE.into(), |at| group[at].clone());
        let mut hosts: Vec<String> = series.groups().iter().map(|group| host(group)).collect();
        hosts.sort();
        hosts.dedup();
        let (mut changes, mut refused) = (Vec::new(), Vec::new());
        let Some((start, last)) = series.range() else { return (changes, refused) };
        for interval in start..=last {
            let mut rows: BTreeMap<String, Vec<_>> = hosts.iter().map(|host| (host.clone(), Vec::new())).collect();
            let of_series = interval_parts(series, interval).into_iter();
            let mut all: Vec<(&[String], Parts)> =
                of_series.map(|(number, parts)| (&series.groups()[number as usize][..], parts)).collect();
            let more = in_flight.map(|in_flight| in_flight.at_end_of(interval)).unwrap_or_default();
            all.extend(more.into_iter().map(|(group, ages)| (group, Parts { done: None, waiting: Some(ages) })));
            for (group, parts) in all {
                let labels = group.iter().enumerate().filter(|&(at, _)| Some(at) != host_at);
                let labels: Vec<String> = labels.map(|(_, label)| label.clone()).collect();
                rows.entry(host(group)).or_default().push((labels.into(), parts));
            }
            let is_partial = series.is_partial(interval);
            let more_ns = series.covered_of(interval, None).saturating_sub(series.width_ns());
            let interval = interval + shift;
            let arrived_ns = (interval + 1) * width_ns as i64;
            let row = |(host, groups)| HostRow {
                host,
                interval,
                arrived_ns,
                is_partial,
                more_ns,
                lost: 0,
                offset_ns: None,
                groups,
            };
            let over = OverInterval { interval, present: hosts.clone(), ..OverInterval::default() };
            let news = News {
                fields: fields.clone(),
                width_ns,
                stepped_ns: 0,
                rows: rows.into_iter().map(row).collect(),
                over: vec![over],
            };
            let (new, sentences) = self.engine.add(&news);
            changes.extend(new);
            refused.extend(sentences);
        }
        let (start_ns, end_ns) = ((start + shift) * width_ns as i64, (last + 1 + shift) * width_ns as i64);
        refused.extend(self.engine.never_judged(start_ns, end_ns));
        (changes, refused)
    }

    /// What still fires.
    pub fn firing(&self) -> Vec<Alert> {
        self.engine.firing()
    }
}
