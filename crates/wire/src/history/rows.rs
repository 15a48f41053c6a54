//! What a folder of history has of a stretch of time, from tables and from the journal.

use super::files::{DAY_NS, Files, Table};
use super::known::Known;
use super::presence::{Presence, observed};
use super::segment::{Piece, Segment};
use super::waited::{nothing, waited};
use super::{Query, TableRows, Tables};
use crate::{Hosts, Id, Ranges};
use latscope_event::{Anomaly, Tally};
use latscope_histogram::Sparse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Stands where a group has no value of a field.
const NO_VALUE: &str = "-";

/// The histogram of an interval and group of a host; several may be of the same one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryRow {
    /// Start of the interval, nanoseconds since the epoch.
    pub time_ns: i64,
    /// Who sent it.
    pub host: Arc<str>,
    /// Values of the group fields.
    pub labels: Arc<[String]>,
    /// Latencies of what completed in it.
    pub done: Sparse,
    /// Ages of what waited at its end.
    pub waiting: Option<Sparse>,
}

/// The rows of a stretch of time, one file after the other; after an error there are no more.
pub struct HistoryRows {
    folder: PathBuf,
    tables: Arc<dyn Tables>,
    query: Query,
    /// Intervals from here on are left out.
    before_ns: i64,
    width_ns: u64,
    fields: Vec<String>,
    source: String,
    files: VecDeque<Table>,
    segments: VecDeque<PathBuf>,
    seen: HashMap<Id, Ranges>,
    table: Option<OpenTable>,
    segment: Option<Segment>,
    /// Of the last record of the journal.
    rows: VecDeque<HistoryRow>,
    /// What was lost or repaired, so far.
    pub tally: Tally,
    presence: Presence,
}

/// A table that is read: its host, the width of its intervals, and where the fields are.
type OpenTable = (Arc<str>, u64, Vec<Option<usize>>, TableRows<'static>);

impl HistoryRows {
    /// Finds what a folder has. What is complete elsewhere from a moment on, nanoseconds since the epoch, is left out from the next
    /// interval on; `journal_ns` is the width of intervals there.
    ///
    /// # Errors
    /// When the folder or the start of a file cannot be read.
    pub fn open(
        folder: &Path,
        tables: Arc<dyn Tables>,
        query: Query,
        (complete_ns, journal_ns): (i64, Option<u64>),
    ) -> io::Result<HistoryRows> {
        let (first, last) = (query.from_ns.div_euclid(DAY_NS) - 1, query.to_ns.min(complete_ns).div_euclid(DAY_NS));
        let files = Files::list(folder, first..=last)?;
        let mut all: Vec<Table> = files.tables;
        let mut days = BTreeMap::<i64, BTreeSet<u64>>::new();
        for table in &all {
            days.entry(table.day).or_default().insert(table.width_ns);
        }
        let mut widths: BTreeSet<u64> = journal_ns.into_iter().collect();
        let (mut segments, mut fields, mut source) = (VecDeque::new(), Vec::new(), String::new());
        for (_, path) in files.segments {
            let Some(hello) = first_hello(&path)? else { continue };
            widths.insert(hello.width_ns);
            (fields, source) = (hello.fields.clone(), hello.source.clone());
            segments.push_back(path);
        }
        let start_ns = days.keys().next().map_or(complete_ns.saturating_sub(DAY_NS), |day| day * DAY_NS);
        let span_ns = (query.from_ns.max(start_ns), query.to_ns.min(complete_ns.max(start_ns)));
        let width_ns = query.level(&days, &widths, span_ns).or(journal_ns).unwrap_or(1_000_000_000);
        if fields.is_empty()
            && let Some(table) = all.iter().max_by_key(|table| table.last)
        {
            let head = tables.open(&table.path(folder))?.0;
            (fields, source) = (head.fields, head.source);
        }
        // Of each day the widest that makes up the width.
        let width_of = |day: &i64| {
            let widths = days.get(day).into_iter().flatten().rev();
            widths.copied().find(|&width| width_ns.is_multiple_of(width))
        };
        all.retain(|table| width_of(&table.day) == Some(table.width_ns));
        let width = width_ns as i64;
        let before_ns = complete_ns.div_euclid(width).saturating_mul(width);
        let before_ns = if before_ns < complete_ns { before_ns.saturating_add(width) } else { before_ns };
        Ok(HistoryRows {
            seen: if segments.is_empty() { HashMap::new() } else { Known::load(folder)?.ranges() },
            folder: folder.into(),
            tables,
            query,
            before_ns,
            width_ns,
            fields,
            source,
            files: all.into(),
            segments,
            table: None,
            segment: None,
            rows: VecDeque::new(),
            tally: Tally::default(),
            presence: Presence::default(),
        })
    }

    /// Width of the intervals, nanoseconds.
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Intervals that start here or later are left out.
    pub fn before_ns(&self) -> i64 {
        self.before_ns
    }

    /// Names of the fields that make a group, without the host.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// What was captured; empty where that is not known.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Which hosts there were, after the last row; `None` where that is not known.
    pub fn hosts(&self) -> Option<Hosts> {
        // What comes behind that is known elsewhere.
        let until_ns = Some(self.before_ns).filter(|&before_ns| before_ns <= self.query.to_ns);
        self.presence.hosts(self.width_ns, until_ns)
    }

    /// The start of the interval that a row counts in, where it is asked for.
    fn placed(&self, time_ns: i64, width_ns: u64) -> Option<i64> {
        let is_asked = time_ns.saturating_add_unsigned(width_ns) > self.query.from_ns && time_ns <= self.query.to_ns;
        let width = self.width_ns as i64;
        let start_ns = time_ns.div_euclid(width) * width;
        (is_asked && start_ns < self.before_ns).then_some(start_ns)
    }

    fn next_row(&mut self) -> io::Result<Option<HistoryRow>> {
        loop {
            if let Some(row) = self.rows.pop_front() {
                return Ok(Some(row));
            }
            if let Some((host, width_ns, places, rows)) = &mut self.table {
                let Some(row) = rows.next().transpose()? else {
                    self.table = None;
                    continue;
                };
                let (host, width_ns) = (Arc::clone(host), *width_ns);
                let labels = arranged(row.labels, places);
                if let Some(time_ns) = self.placed(row.time_ns, width_ns) {
                    let ends = [(row.time_ns, width_ns), (time_ns, self.width_ns)]
                        .map(|(start_ns, width_ns)| start_ns.saturating_add_unsigned(width_ns));
                    let waiting = row.waiting.filter(|_| ends[0] == ends[1]);
                    if row.done.totals().count > 0 || waiting.is_some() {
                        return Ok(Some(HistoryRow { time_ns, host, labels, done: row.done, waiting }));
                    }
                }
            } else if let Some(table) = self.files.pop_front() {
                let (head, rows) = self.tables.open(&table.path(&self.folder))?;
                self.tally.merge(&head.tally);
                let places = places(&head.fields, &self.fields);
                let host: Arc<str> = head.host.into();
                self.presence.add_ends(&host, &head.ended);
                match head.observed.is_empty() {
                    true => self.presence.set_unknown(),
                    false => {
                        let span_ns = (self.query.from_ns, self.query.to_ns.min(self.before_ns.saturating_sub(1)));
                        self.presence.add(&host, (&head.observed, &head.uneven), table.width_ns, span_ns);
                    }
                }
                self.table = Some((host, table.width_ns, places, rows));
            } else if self.segment.is_some() {
                self.read_journal()?;
            } else if let Some(path) = self.segments.pop_front() {
                self.segment = Some(Segment::open(&path)?);
            } else {
                return Ok(None);
            }
        }
    }

    /// Reads a record of the journal.
    fn read_journal(&mut self) -> io::Result<()> {
        let Some(mut segment) = self.segment.take() else { return Ok(()) };
        let (from_ns, to_ns) = (self.query.from_ns, self.query.to_ns.min(self.before_ns));
        let wants = |_: &_, head: &crate::Head| {
            let width = head.width_ns as i64;
            head.start * width <= to_ns && (head.start + head.intervals as i64) * width > from_ns
        };
        let Some(piece) = segment.next(&mut self.seen, &wants)? else {
            // The one that is written may end in the middle of a record.
            for (hello, end_ns) in &segment.ended {
                let moment = end_ns.div_euclid(1_000_000).max(0).unsigned_abs();
                let moments = [moment..=moment].into_iter().collect();
                self.presence.add_ends(&hello.host.as_str().into(), &moments);
            }
            let is_last = self.segments.is_empty();
            self.tally.add(Anomaly::DamagedRecords, if is_last { 0 } else { segment.damaged });
            return Ok(());
        };
        let Piece { hello, head, .. } = &piece;
        let (host, places): (Arc<str>, _) = (hello.host.as_str().into(), places(&hello.fields, &self.fields));
        for (interval, row) in (head.start..).zip(&piece.rows) {
            let Some(time_ns) = self.placed(interval * head.width_ns as i64, head.width_ns) else { continue };
            self.tally.merge(&row.tally);
            if let Some(range) = observed(interval * head.width_ns as i64, head.width_ns, row) {
                self.presence.add_one(&host, range, row.covered_ns);
            }
            for (group, parts) in &row.groups {
                let end_ns = (interval + 1) * head.width_ns as i64;
                let waiting = waited(parts, row, end_ns, time_ns.saturating_add_unsigned(self.width_ns)).cloned();
                let Some(labels) = segment.labels(&piece, *group) else { continue };
                if parts.done.is_none() && waiting.is_none() {
                    continue;
                }
                let labels = arranged(Arc::clone(labels), &places);
                let done = parts.done.clone().unwrap_or_else(nothing);
                self.rows.push_back(HistoryRow { time_ns, host: Arc::clone(&host), labels, done, waiting });
            }
        }
        self.segment = Some(segment);
        Ok(())
    }
}

impl Iterator for HistoryRows {
    type Item = io::Result<HistoryRow>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.next_row();
        if row.is_err() {
            (self.table, self.segment) = (None, None);
            self.files.clear();
            self.segments.clear();
        }
        row.transpose()
    }
}

/// The first run of a file of the journal.
fn first_hello(path: &Path) -> io::Result<Option<Arc<crate::Hello>>> {
    let is_first = |_: &_, _: &_| true;
    Ok(Segment::open(path)?.next(&mut HashMap::new(), &is_first)?.map(|piece| piece.hello))
}

/// Where the fields are among others; none where they are the same.
fn places(has: &[String], fields: &[String]) -> Vec<Option<usize>> {
    match has == fields {
        true => Vec::new(),
        false => fields.iter().map(|field| has.iter().position(|name| name == field)).collect(),
    }
}

fn arranged(labels: Arc<[String]>, places: &[Option<usize>]) -> Arc<[String]> {
    if places.is_empty() {
        return labels;
    }
    let label = |place: &Option<usize>| place.and_then(|at| labels.get(at)).map_or(NO_VALUE, String::as_str);
    places.iter().map(|place| label(place).to_string()).collect()
}
