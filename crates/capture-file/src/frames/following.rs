//! A hub that is followed: each interval once, also when the connection breaks.

use crate::input::{Input, read_full};
use crate::series_rows::SeriesRow;
use crate::{OnRestart, Query, ReadOptions, ending};
use latscope_event::Note;
use latscope_histogram::{Grid, Histogram, Sparse};
use latscope_wire::{Address, PREFACE, Records};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long to wait before connecting again.
const RETRY: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_millis(50);
/// Names shown of the hosts that are missing.
const NAMES_SHOWN: usize = 5;

/// What is asked again when a connection breaks.
pub struct Following {
    path: PathBuf,
    query: Query,
    /// Takes a sentence.
    report: OnRestart,
    /// What was reported last about hosts.
    hosts: Option<String>,
}

impl Following {
    /// `None` of what is no hub, or is not followed.
    pub fn new(name: &str, options: &ReadOptions) -> Option<Following> {
        let path = PathBuf::from(name);
        Address::of_input(&path)?.ok()?;
        let report = options.follow.filter(|_| options.query.follow)?;
        Some(Following { path, query: options.query, report, hosts: None })
    }

    /// Intervals up to this moment were handed on.
    pub fn add(&mut self, end_ns: i64) {
        self.query.from_ns = self.query.from_ns.max(end_ns);
    }

    /// Whether an interval that ends so was handed on.
    pub fn has_passed(&self, end_ns: i64) -> bool {
        end_ns <= self.query.from_ns
    }

    /// Connects again until that works; `None` when it is to end.
    pub fn reconnect(&mut self) -> Option<Records<Input<'static>>> {
        let mut failure = None;
        while !ending::is_over() {
            match self.connect() {
                Ok(records) => {
                    (self.report)(&format!("{}: connected again", self.path.display()));
                    return Some(records);
                }
                Err(why) if failure.as_ref() != Some(&why) => {
                    (self.report)(&format!("{why} Trying again."));
                    failure = Some(why);
                }
                Err(_) => {}
            }
            let until = Instant::now() + RETRY;
            while Instant::now() < until && !ending::is_over() {
                sleep(TURN);
            }
        }
        None
    }

    fn connect(&self) -> Result<Records<Input<'static>>, String> {
        let address = Address::of_input(Path::new(&self.path)).unwrap_or_else(|| Err(String::new()));
        let mut input = Input::ask(&self.path, address, &self.query).map_err(|error| error.to_string())?;
        let mut preface = [0; PREFACE.len()];
        match read_full(&mut input, &mut preface) {
            Ok(_) if preface == PREFACE => Ok(Records::of_file(input)),
            _ => Err(format!("{}: The connection ended.", self.path.display())),
        }
    }

    /// Reports which hosts are there, once for each change.
    pub fn report_hosts(&mut self, note: &Note) {
        let Note::Hosts { present, missing, .. } = note else { return };
        let all = present + missing.len() as u64;
        let mut text = format!("{present} of {all} {}", if all == 1 { "host" } else { "hosts" });
        if !missing.is_empty() {
            let shown = missing.iter().take(NAMES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
            let more = missing.len().saturating_sub(NAMES_SHOWN);
            text +=
                &format!(", missing: {shown}{}", if more > 0 { format!(" and {more} more") } else { String::new() });
        }
        if self.hosts.as_ref() != Some(&text) && all > 0 {
            (self.report)(&text);
            self.hosts = Some(text);
        }
    }
}

/// A histogram without events.
pub fn nothing() -> Sparse {
    Histogram::new(Grid::FINE, false).to_sparse()
}

/// A row without events, from whose start on nothing was read: intervals before it have passed.
pub fn passed(time_ns: i64, width_ns: u64, fields: usize) -> SeriesRow {
    let histogram = nothing();
    SeriesRow { time_ns, width_ns, groups: vec!["-".to_string(); fields].into(), histogram, waiting: None }
}
