//! Rows of a history as records, for a view.

use super::HistoryRow;
use crate::{Data, Dictionary, GROUPS_LIMIT, Head, Hello, Hosts, Id, IntervalRow, Parts, new_id, reduce};
use latscope_event::Tally;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

/// A record has no more buckets than this, so that it is no longer than a record may be.
const CELLS: usize = 100_000;

/// Writes rows as they come. It has one interval in memory.
pub struct HistoryWriter<W> {
    out: W,
    /// Of all runs.
    hello: Hello,
    by_host: bool,
    /// By host, where hosts are apart.
    runs: HashMap<Arc<str>, Run>,
    open: Option<Open>,
}

struct Run {
    id: Id,
    groups: HashMap<Arc<[String]>, u32>,
    sequence: u64,
}

/// What is gathered of one interval.
struct Open {
    time_ns: i64,
    host: Arc<str>,
    groups: BTreeMap<u32, Parts>,
    cells: usize,
}

impl<W: Write> HistoryWriter<W> {
    /// Writes behind a preface. The hello has no host; its run is not used.
    pub fn new(out: W, hello: Hello, by_host: bool) -> HistoryWriter<W> {
        HistoryWriter { out, hello, by_host, runs: HashMap::new(), open: None }
    }

    /// Adds a row; those of one interval are best added together.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn add(&mut self, row: HistoryRow) -> io::Result<()> {
        let host: Arc<str> = if self.by_host { row.host } else { "".into() };
        let is_same = |open: &Open| open.time_ns == row.time_ns && open.host == host && open.cells < CELLS;
        if !self.open.as_ref().is_some_and(is_same) {
            self.put(Tally::default())?;
        }
        let group = self.group(&host, &row.labels)?;
        let new = || Open { time_ns: row.time_ns, host, groups: BTreeMap::new(), cells: 0 };
        let open = self.open.get_or_insert_with(new);
        open.cells += row.done.indices().len() + row.waiting.as_ref().map_or(0, |ages| ages.indices().len());
        let sum = open.groups.entry(group).or_default();
        reduce::merge(&mut sum.done, Some(row.done).filter(|done| done.totals().count > 0));
        reduce::merge(&mut sum.waiting, row.waiting);
        Ok(())
    }

    /// Writes what is left, with what was lost, and which hosts there were.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self, tally: &Tally, hosts: Option<Hosts>) -> io::Result<()> {
        self.put(tally.clone())?;
        if let Some(hosts) = hosts {
            self.out.write_all(hosts.record().bytes())?;
        }
        self.out.flush()
    }

    fn put(&mut self, tally: Tally) -> io::Result<()> {
        let Some(Open { time_ns, host, groups, .. }) = self.open.take() else { return Ok(()) };
        let Some(run) = self.runs.get_mut(&host) else { return Ok(()) };
        let width_ns = self.hello.width_ns;
        let (start, sequences) = (time_ns.div_euclid(width_ns as i64), run.sequence..=run.sequence);
        run.sequence += 1;
        let head = Head { run: run.id, sequences, start, width_ns, intervals: 1 };
        let groups = groups.into_iter().filter(|(_, parts)| parts.done.is_some() || parts.waiting.is_some());
        // How long the host was observed is not known here: an interval may be several records, and silence is none.
        let row = IntervalRow { covered_ns: 0, is_partial: false, tally, groups: groups.collect() };
        self.out.write_all(Data { head, rows: vec![row] }.record().bytes())
    }

    /// The number of a group, which is described before it is used.
    fn group(&mut self, host: &Arc<str>, labels: &Arc<[String]>) -> io::Result<u32> {
        let run = match self.runs.get_mut(host) {
            Some(run) => run,
            None => {
                let id = new_id()?;
                let hello = Hello { run: id, host: host.to_string(), ..self.hello.clone() };
                self.out.write_all(hello.record().bytes())?;
                self.runs.entry(Arc::clone(host)).or_insert(Run { id, groups: HashMap::new(), sequence: 0 })
            }
        };
        if let Some(&known) = run.groups.get(labels) {
            return Ok(known);
        }
        let number = run.groups.len();
        let is_last = number >= GROUPS_LIMIT - 1;
        let labels = if is_last { vec![reduce::OTHERS.to_string(); labels.len()].into() } else { Arc::clone(labels) };
        if let Some(&known) = run.groups.get(&labels) {
            return Ok(known);
        }
        self.out.write_all(Dictionary::record(run.id, number, &[labels.to_vec()]).bytes())?;
        run.groups.insert(labels, number as u32);
        Ok(number as u32)
    }
}
