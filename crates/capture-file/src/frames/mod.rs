//! Histograms over time as agents and hubs store and send them: the records of `latscope_wire` behind their preface.

mod following;
mod waiting;
mod write;

use crate::input::{Input, read_full};
use crate::series_rows::{SeriesHeader, SeriesRow, SeriesRows};
use crate::{Detected, Error, Position, ReadOptions};
use following::{Following, nothing, passed};
use latscope_event::{Anomaly, Clock, Context, Note};
use latscope_wire::{
    Address, Data, Dictionary, Found, Head, Hello, HostState, Hosts, Id, Kind, Malformed, PREFACE, PUSHED, Ranges,
    Record, Records,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use waiting::Waits;
pub use write::write_frames;

/// The field of who sent it, where that is known.
const HOST: &str = "host";

/// By its first line.
pub fn detect(head: &[u8]) -> Detected {
    match () {
        () if head.starts_with(PREFACE) => Detected::Yes,
        () if !head.is_empty() && PREFACE.starts_with(head) => Detected::NeedMore,
        () => Detected::No,
    }
}

/// Opens a file.
pub fn open(input: Input<'static>, options: &ReadOptions) -> Result<Box<dyn SeriesRows>, Error> {
    Ok(Box::new(Frames::open(input, options)?))
}

/// The rows of a file.
struct Frames {
    name: String,
    header: SeriesHeader,
    context: Context,
    /// The fields of its groups, without the host.
    fields: Vec<String>,
    has_host: bool,
    /// Whether hosts are apart, as was asked of a hub.
    is_by_host: bool,
    records: Records<Input<'static>>,
    runs: HashMap<Id, Run>,
    /// Of the last record.
    rows: VecDeque<SeriesRow>,
    /// Of a hub that is followed, until it said which hosts they are of: then an interval is complete.
    held: Vec<SeriesRow>,
    waits: Waits,
    /// The hub, where it is followed.
    following: Option<Following>,
    is_over: bool,
}

/// A run of an agent, of which others may be in the same file.
struct Run {
    hello: Hello,
    groups: Dictionary,
    /// As they stand in rows, with the host.
    labels: Vec<Arc<[String]>>,
    /// What was read of it: records may be repeated.
    known: Ranges,
}

impl Frames {
    fn open(mut input: Input<'static>, options: &ReadOptions) -> Result<Frames, Error> {
        let name = input.name.clone();
        let mut preface = [0; PREFACE.len()];
        let read = read_full(&mut input, &mut preface).map_err(|error| input.error(&error))?;
        if preface != PREFACE {
            let is_cut = read < preface.len() && PREFACE.starts_with(&preface[..read]);
            let message =
                if is_cut { "The file is truncated in its first line." } else { "This is no file of frames." };
            return Err(Error::new(name, Position::File, message));
        }
        let mut frames = Frames {
            context: Context::new(format!("frames, {name}"), Clock::wall()),
            header: SeriesHeader { group_fields: Vec::new(), value: "latency".into(), weight: "count".into() },
            fields: Vec::new(),
            has_host: false,
            // A hub without agents does not name any host.
            is_by_host: options.query.by_host && Address::of_input(Path::new(&name)).is_some(),
            records: Records::of_file(input),
            runs: HashMap::new(),
            rows: VecDeque::new(),
            held: Vec::new(),
            waits: Waits::default(),
            following: Following::new(&name, options),
            is_over: false,
            name,
        };
        frames.context.knows_unfinished = true;
        // What the numbers are of stands before all of them.
        while frames.runs.is_empty() && frames.advance()? {}
        Ok(frames)
    }

    /// Reads a record, of a hub that is followed the next one whenever it comes; false at the end.
    fn advance(&mut self) -> Result<bool, Error> {
        loop {
            if self.step()? {
                return Ok(true);
            }
            match self.following.as_mut().and_then(Following::reconnect) {
                Some(records) => {
                    self.records = records;
                    // Merged intervals come again as a new run; records of single hosts are known.
                    self.held.retain(|_| self.has_host);
                }
                None => return Ok(false),
            }
        }
    }

    /// Reads a record; false at the end.
    fn step(&mut self) -> Result<bool, Error> {
        let name = &self.name;
        let fail = |error: std::io::Error| Error::new(name, Position::File, format!("Cannot be read: {error}."));
        let is_followed = self.following.is_some();
        let found = match self.records.next() {
            Err(_) | Ok(Some(Found::Cut(_))) if is_followed => return Ok(false),
            found => found.map_err(fail)?,
        };
        match found {
            None => return Ok(false),
            Some(Found::Cut(_)) => self.context.tally.add(Anomaly::Truncated, 1),
            Some(Found::Damaged(_)) => self.context.tally.add(Anomaly::DamagedRecords, 1),
            Some(Found::Record(record)) => match self.take(&record) {
                Ok(result) => result?,
                Err(_) => self.context.tally.add(Anomaly::DamagedRecords, 1),
            },
        }
        Ok(true)
    }

    /// What a record says. The inner error is of the file as a whole.
    fn take(&mut self, record: &Record) -> Result<Result<(), Error>, Malformed> {
        match record.kind()? {
            Kind::Hello => return Hello::parse(record.payload()).map(|hello| self.start_run(hello)),
            Kind::Dictionary => {
                let run = self.runs.get_mut(&Dictionary::run(record)?).ok_or(Malformed::Group)?;
                run.groups.add(record, self.fields.len())?;
            }
            Kind::Data => self.take_data(record)?,
            Kind::Hosts => {
                let width_ns = self.runs.values().map(|run| run.hello.width_ns).max().unwrap_or(0);
                let parsed = Hosts::parse(record.payload())?;
                note_repeated(&parsed, &mut self.context);
                let note = hosts(parsed, width_ns);
                if let Some(following) = &mut self.following {
                    following.report_hosts(&note);
                    self.context.notes.retain(|note| !matches!(note, Note::Hosts { .. }));
                }
                self.note_hosts(note);
                self.pass_held();
            }
            _ => {}
        }
        Ok(Ok(()))
    }

    fn start_run(&mut self, hello: Hello) -> Result<(), Error> {
        let fail = |message: &str| Err(Error::new(&self.name, Position::File, message));
        if self.runs.is_empty() {
            self.has_host = !hello.host.is_empty() || self.is_by_host;
            self.fields.clone_from(&hello.fields);
            let host = self.has_host.then(|| HOST.to_string());
            self.header.group_fields = host.into_iter().chain(hello.fields.iter().cloned()).collect();
            if !hello.is_wall {
                self.context.clock = Clock::unanchored("relative");
            }
            for (key, value) in [("source", &hello.source), ("filter", &hello.filter)] {
                if !value.is_empty() {
                    self.context.properties.insert(key.into(), value.clone());
                }
            }
            self.context.host = Some(hello.host.clone()).filter(|host| !host.is_empty());
        } else if hello.fields != self.fields {
            return fail("Its runs are grouped by different fields; read them one by one.");
        } else if self.context.host.as_ref() != Some(&hello.host) {
            self.context.host = None;
        }
        let new = || Run {
            hello: hello.clone(),
            groups: Dictionary::default(),
            labels: Vec::new(),
            known: Ranges::default(),
        };
        self.runs.entry(hello.run).or_insert_with(new);
        Ok(())
    }

    fn take_data(&mut self, record: &Record) -> Result<(), Malformed> {
        let (head, _) = Head::parse(record)?;
        let run = self.runs.get_mut(&head.run).ok_or(Malformed::Group)?;
        if run.known.has_all(&head.sequences) {
            return Ok(());
        }
        let data = Data::parse(record)?;
        let groups = data.rows.iter().flat_map(|row| &row.groups);
        if run.hello.width_ns != head.width_ns || groups.into_iter().any(|&(group, _)| run.groups.get(group).is_none())
        {
            return Err(Malformed::Group);
        }
        let is_first = run.known.is_empty();
        run.known.add(head.sequences.clone());
        for (interval, row) in (head.start..).zip(data.rows) {
            let time_ns = interval * head.width_ns as i64;
            let end_ns = time_ns + head.width_ns as i64;
            // The first of a run was observed at its end, the last at its start.
            let covered_ns = row.covered_ns.min(head.width_ns) as i64;
            let (from_ns, to_ns) = match (row.is_partial, is_first) {
                (false, _) => (time_ns, end_ns),
                (true, true) => (end_ns - covered_ns, end_ns),
                (true, false) => (time_ns, time_ns + covered_ns),
            };
            [from_ns, to_ns].into_iter().for_each(|moment| self.context.cover(moment));
            // What is pushed of one interval may come in several records.
            if self.has_host && row.covered_ns > 0 && run.hello.source != PUSHED {
                *self.context.observed_ns.entry(run.hello.host.clone()).or_insert(0) += row.covered_ns;
            }
            self.context.tally.merge(&row.tally);
            self.waits.start(&run.hello.host, to_ns);
            for (group, parts) in row.groups {
                let groups = run.label(group, self.has_host);
                if let Some(ages) = &parts.waiting {
                    self.waits.add(&run.hello.host, to_ns, &groups, ages);
                }
                // Of an interval that was observed in part, they are from another moment than its end; of a hub that is followed, the last
                // ones stand for all.
                let waiting = parts.waiting.filter(|_| to_ns == end_ns && self.following.is_none());
                if parts.done.is_none() && waiting.is_none() {
                    continue;
                }
                let histogram = parts.done.unwrap_or_else(nothing);
                let row = SeriesRow { time_ns, width_ns: head.width_ns, groups, histogram, waiting };
                match &self.following {
                    Some(following) if following.has_passed(end_ns) => {}
                    Some(_) => self.held.push(row),
                    None => self.rows.push_back(row),
                }
            }
            if self.following.is_some() {
                self.held.push(passed(end_ns, head.width_ns, self.header.group_fields.len()));
            }
        }
        Ok(())
    }

    /// An answer has what is on disk before what is in memory.
    fn note_hosts(&mut self, mut note: Note) {
        let is_hosts = |note: &Note| matches!(note, Note::Hosts { .. });
        let before = self.context.notes.iter().position(is_hosts).map(|at| self.context.notes.remove(at));
        if let (Some(Note::Hosts { incomplete: before, .. }), Note::Hosts { incomplete, .. }) = (before, &mut note) {
            *incomplete += before;
        }
        self.context.note(note);
    }

    /// Hands on what came of a hub that is followed: intervals in their order, as hosts come one after the other.
    fn pass_held(&mut self) {
        let Some((following, end_ns)) = self.following.as_mut().zip(self.held.iter().map(|row| row.time_ns).max())
        else {
            return;
        };
        following.add(end_ns);
        self.context.unfinished = self.waits.clone().unfinished(&self.header.group_fields);
        self.context.sort_unfinished();
        self.held.sort_by_key(|row| row.time_ns);
        self.rows.extend(self.held.drain(..));
    }

    fn next_row(&mut self) -> Result<Option<SeriesRow>, Error> {
        loop {
            if let Some(row) = self.rows.pop_front() {
                return Ok(Some(row));
            }
            if !self.advance()? {
                let waits = std::mem::take(&mut self.waits);
                self.context.unfinished = waits.unfinished(&self.header.group_fields);
                self.context.sort_unfinished();
                return Ok(None);
            }
        }
    }
}

/// Which hosts the histograms of a hub are of.
pub fn hosts(hosts: Hosts, width_ns: u64) -> Note {
    let off = |host: &HostState| {
        let (offset_ns, _) = host.clock.offset.filter(|(offset_ns, _)| offset_ns.unsigned_abs() > width_ns / 10)?;
        Some((host.name.clone(), offset_ns))
    };
    let clocks = hosts.hosts.iter().filter_map(off).collect();
    let missing = hosts.hosts.iter().filter(|host| host.is_missing).map(|host| host.name.clone()).collect();
    Note::Hosts {
        present: hosts.present,
        missing,
        incomplete: hosts.incomplete,
        provisional: hosts.provisional,
        amended: hosts.amended,
        outside: hosts.outside,
        clocks,
    }
}

/// Adds what came again as clocks were set back.
pub fn note_repeated(hosts: &Hosts, context: &mut Context) {
    let mut all = BTreeMap::<i64, (u64, u64)>::new();
    for host in hosts.hosts.iter().filter(|host| !host.repeated.is_empty()) {
        let of_host = context.repeated_ns.entry(host.name.clone()).or_default();
        for &(start_ns, more_ns) in &host.repeated {
            *of_host.entry(start_ns).or_insert(0) += more_ns;
            let sum = all.entry(start_ns).or_insert((0, 0));
            *sum = (sum.0.saturating_add(more_ns), sum.1 + 1);
        }
    }
    let average = |(sum_ns, count): (u64, u64)| sum_ns / hosts.present.max(count).max(1);
    for (start_ns, sum) in all {
        *context.repeated_ns.entry(String::new()).or_default().entry(start_ns).or_insert(0) += average(sum);
    }
}

impl Run {
    /// The labels of a group that was described.
    fn label(&mut self, group: u32, has_host: bool) -> Arc<[String]> {
        for number in self.labels.len() as u32..=group {
            let host = has_host.then(|| self.hello.host.clone());
            let values = self.groups.get(number).into_iter().flat_map(|values| values.iter().cloned());
            self.labels.push(host.into_iter().chain(values).collect());
        }
        Arc::clone(&self.labels[group as usize])
    }
}

impl SeriesRows for Frames {
    fn header(&self) -> &SeriesHeader {
        &self.header
    }

    fn context(&self) -> &Context {
        &self.context
    }

    fn is_uneven(&self) -> bool {
        false
    }
}

impl Iterator for Frames {
    type Item = Result<SeriesRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let row = self.next_row();
        self.is_over = !matches!(row, Ok(Some(_)));
        row.transpose()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
