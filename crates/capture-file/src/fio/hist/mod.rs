//! Histogram logs of fio: `write_hist_log` makes `*_clat_hist.N.log`, a row of counts for every `log_hist_msec`.
//!
//! A row holds the completions since the row before of the same direction, and is written by the first completion after
//! its time has come: so the row after a stall covers the stall, and what completes after the last row is in none.

mod bins;
mod row;
mod summed;

use crate::fio::beside::{AS_COUNTED, Facts};
use crate::fio::name::{LogKind, LogName};
use crate::fio::results::NANOSECONDS;
use crate::input::Input;
use crate::series_rows::{SeriesHeader, SeriesRow, SeriesRows};
use crate::text_rows::{Lines, NoRows};
use crate::{Detected, Error, Position, ReadOptions, Remedy};
pub use bins::Bins;
use bins::{Counts, Doubtful};
use latscope_event::{Anomaly, Clock, Context};
use row::Row;
use std::collections::VecDeque;
use std::sync::Arc;
use summed::Unsummer;

const MS: i64 = 1_000_000;
/// Times are rounded down, so on the average they are this much too early.
const HALF_MS: i64 = MS / 2;
/// A time that goes back further than this is another job's.
const JITTER_MS: u64 = 5;
/// What nobody counts in an interval: memory that was never written to.
const ABSURD: u64 = 1 << 40;
/// The versions, major and minor, that lost or spoiled the upper half of each row.
const SPOILING: std::ops::RangeInclusive<(u32, u32)> = (3, 6)..=(3, 16);
/// So many counts just below an edge and none above it are no chance.
const SUSPICIOUS: u64 = 30;
/// Of so many counts some should be above an edge, when more than one in a thousand come up to an eighth of it.
const MANY: u64 = 200;
/// fio's default, where a file with a single row does not give it.
const DEFAULT_MS: u64 = 1000;

/// The beginning is a row with as many counts as some fio writes.
pub fn detect(input: &Input) -> Detected {
    let head = input.head();
    let is_named = named(input).is_some_and(|name| name.kind == LogKind::ClatHist);
    if head.is_empty() {
        return if is_named { Detected::Yes } else { Detected::No };
    }
    // The name decides the format, even if some lines are malformed.
    let looked_at = if named(input).is_some() { usize::MAX } else { 1 };
    let mut lines = head.split(|&byte| byte == b'\n').take(looked_at);
    // A build of somebody's own has other counts, as some text has that is no log.
    let is_one = |bins| Bins::of_row(bins).is_some() || is_named && Bins::custom(bins, 1).is_some();
    let is_row = |line: &[u8]| row::row(line, None).is_ok_and(|(_, bins)| is_one(bins));
    if lines.any(is_row) { Detected::Yes } else { Detected::No }
}

fn named(input: &Input) -> Option<LogName> {
    LogName::parse(input.path.as_ref()?)
}

/// Opens a log.
pub fn open(input: Input<'static>, options: &ReadOptions) -> Result<Box<dyn SeriesRows>, Error> {
    Ok(Box::new(FioHist::open(input, options)?))
}

/// The rows of a histogram log.
struct FioHist<'a> {
    header: SeriesHeader,
    context: Context,
    lines: Lines<'a>,
    line: u64,
    bins: Bins,
    name: Option<LogName>,
    /// Whether the bins are of a build of somebody's own and nothing gives their unit yet.
    lacks_unit: bool,
    /// Whether the version of fio is known, and none of those that spoil rows.
    is_sound: bool,
    /// What the JSON beside it says.
    facts: Facts,
    unsummer: Unsummer,
    /// Rows that wait until it is known how far apart they are.
    waiting: VecDeque<Row>,
    interval_ms: Option<u64>,
    job: Job,
    jobs: u32,
    last_read_ms: u64,
    account: Account,
    no_rows: NoRows,
    state: State,
    /// Memory for the counts of the next row.
    spare: Counts,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    /// All lines are read.
    Draining,
    Done,
}

/// The job whose rows are handed out.
#[derive(Default)]
struct Job {
    label: Option<String>,
    /// Values of the group fields by direction, once they are known.
    groups: [Option<Arc<[String]>>; 3],
    last_ms: u64,
    /// Time of the last row of each direction.
    last_of: [Option<u64>; 3],
    first_of: [Option<u64>; 3],
    count_of: [u64; 3],
}

/// What only the whole file gives.
#[derive(Default)]
struct Account {
    rows: u64,
    counts: u64,
    in_last_bin: u64,
    /// From an eighth of the edge on, and just below it.
    below_edge: [u64; 2],
    is_above_edge: bool,
    lost_tail: f64,
}

impl<'a> FioHist<'a> {
    fn open(mut input: Input<'a>, options: &ReadOptions) -> Result<FioHist<'a>, Error> {
        let results = &options.fio_results;
        input.skip_long_lines()?;
        let file = input.name.clone();
        let name = named(&input);
        let rows = || input.head().split(|&byte| byte == b'\n').filter_map(|line| row::row(line, None).ok());
        let known = rows().find(|&(_, bins)| Bins::of_row(bins).is_some());
        let first = known.or_else(|| rows().next());
        let (is_wall, bins) = match first {
            Some((row, bins)) => (row.time_ms > 1_000_000_000_000, bins),
            None if input.is_empty() && name.is_some() => (false, 1856),
            None => {
                let message = "No row of a fio histogram log found (time, direction, size, counts).";
                return Err(Error::new(file, Position::Line(1), message));
            }
        };
        let version = input.path.as_deref().and_then(|path| results.version(path));
        let unit_ns = version.map(|version| if version >= NANOSECONDS { 1 } else { 1000 });
        let unit_ns = unit_ns.or(options.two_columns.latency_unit_ns);
        let standard = Bins::of_row(bins);
        let lacks_unit = standard.is_none() && unit_ns.is_none();
        let bins = standard.or_else(|| Bins::custom(bins, unit_ns.unwrap_or(1))).ok_or_else(|| {
            let message = format!(
                "A row has {bins} counts, but fio writes 1856 (before fio 3, 1216), or 64 for each of 19 to 40 \
                 groups, halved up to six times."
            );
            Error::new(&file, Position::Line(1), message)
        })?;
        let version = version.filter(|_| bins.unit_ns == 1);
        let facts = input.path.as_deref().map(|path| results.facts(path)).unwrap_or_default();
        if let Some((major, minor)) = version.filter(|version| SPOILING.contains(version) && !input.is_empty()) {
            let message = format!(
                "According to the JSON next to it, fio {major}.{minor} wrote this log. fio 3.6 to 3.16 lost \
                 everything above 786 us, or wrote uninitialized memory there. Use a newer fio, or read the _clat \
                 log."
            );
            return Err(Error::new(file, Position::File, message));
        }
        let clock = if is_wall { Clock::wall() } else { Clock::unanchored("relative") };
        let mut context = Context::new(format!("fio histogram log, {file}"), clock);
        context.start_ns = (!is_wall).then_some(0);
        context.host = name.as_ref().and_then(|name| name.host.clone());
        if input.is_empty() {
            context.tally.add(Anomaly::EmptyLog, 1);
        }
        let group_fields = ["kind", "job", "host"].map(str::to_string).to_vec();
        let header = SeriesHeader { group_fields, value: "latency".into(), weight: "count".into() };
        Ok(FioHist {
            header,
            context,
            lines: Lines::new(input),
            line: 0,
            bins,
            name,
            lacks_unit,
            is_sound: version.is_some(),
            facts,
            unsummer: Unsummer::default(),
            waiting: VecDeque::new(),
            interval_ms: facts.hist_ms,
            job: Job::default(),
            jobs: 0,
            last_read_ms: 0,
            account: Account::default(),
            no_rows: NoRows::new(&file, options.lenient),
            state: State::Reading,
            spare: Counts::new(),
        })
    }

    fn error(&self, place: Position, message: impl Into<String>) -> Error {
        Error::new(self.lines.name(), place, message)
    }

    /// Hands the next line to the repair; false at the end.
    fn read_line(&mut self) -> Result<bool, Error> {
        let Some((number, line)) = self.lines.next()? else { return Ok(false) };
        self.line = number;
        let spare = std::mem::take(&mut self.spare);
        match line.and_then(|line| row::row_in(line, Some(self.bins.len()), spare)) {
            Ok((row, _)) if row.time_ms >= i64::MAX as u64 / MS as u64 - 1 => {
                self.no_rows.add(&mut self.context, number, line, "an impossible time")?;
            }
            Ok((row, _)) if row.counts.iter().any(|&(_, count)| count >= ABSURD) => self.absurd()?,
            Ok((row, _)) => self.take(row)?,
            Err(why) => self.no_rows.add(&mut self.context, number, line, why)?,
        }
        Ok(true)
    }

    #[cold]
    fn absurd(&mut self) -> Result<(), Error> {
        if self.no_rows.are_skipped() {
            let why = "an impossible count";
            return self.no_rows.add(&mut self.context, self.line, Err(why), why);
        }
        Err(self.error(
            Position::Line(self.line),
            "A count is impossible. fio 3.6 to 3.16 wrote uninitialized memory to the upper half of each row; use \
             a newer fio.",
        ))
    }

    fn take(&mut self, row: Row) -> Result<(), Error> {
        self.account.rows += 1;
        let contradiction =
            |reader: &FioHist, why| reader.error(Position::Line(reader.line), format!("The row has {why}."));
        if row.time_ms.saturating_add(JITTER_MS) < self.last_read_ms {
            self.unsummer.start_job().map_err(|why| contradiction(self, why))?;
        }
        self.last_read_ms = row.time_ms;
        self.unsummer.push(row).map_err(|why| contradiction(self, why))
    }

    /// The next row as fio counted it.
    fn next_row(&mut self) -> Result<Option<Row>, Error> {
        loop {
            // The first row of a file covers as much time as the others do, so those are looked at first.
            if self.interval_ms.is_some()
                && let Some(row) = self.waiting.pop_front()
            {
                return Ok(Some(row));
            }
            if let Some(row) = self.unsummer.pop() {
                self.waiting.push_back(row);
                if self.interval_ms.is_none() {
                    self.interval_ms = typical(&self.waiting, false);
                }
                continue;
            }
            match self.state {
                State::Reading => {
                    if !self.read_line()? {
                        self.state = State::Draining;
                        let has_host = self.name.as_ref().is_some_and(|name| name.host.is_some());
                        let finished = self.unsummer.finish(has_host);
                        finished.map_err(|why| self.error(Position::Line(self.line), format!("The row has {why}.")))?;
                    }
                }
                State::Draining if self.interval_ms.is_none() => {
                    self.interval_ms = typical(&self.waiting, true).or(Some(DEFAULT_MS));
                }
                State::Draining | State::Done => return Ok(None),
            }
        }
    }

    /// The histogram of a row and the time that it covers.
    fn place(&mut self, row: Row) -> Result<SeriesRow, Error> {
        if self.jobs == 0 || row.time_ms.saturating_add(JITTER_MS) < self.job.last_ms {
            self.end_job();
            self.jobs += 1;
            let label = self.name.as_ref().map(|name| name.job(self.jobs));
            self.job = Job { label, ..Job::default() };
        }
        self.job.last_ms = row.time_ms;
        let at = usize::from(row.direction);
        let moment = |ms: u64| ms as i64 * MS + HALF_MS;
        let end_ns = moment(row.time_ms);
        let start_ns = match self.job.last_of[at] {
            Some(last_ms) => moment(last_ms),
            None => (end_ns - self.interval_ms.unwrap_or(DEFAULT_MS).min(1 << 40) as i64 * MS).max(0),
        };
        self.job.last_of[at] = Some(row.time_ms);
        self.job.first_of[at].get_or_insert(row.time_ms);
        let count: u64 = row.counts.iter().map(|&(_, count)| count).sum();
        self.job.count_of[at] += count;
        self.count(&row, count);
        self.context.cover(start_ns);
        self.context.cover(end_ns);
        let groups = match &self.job.groups[at] {
            Some(groups) => Arc::clone(groups),
            None => {
                let groups = self.groups(at);
                Arc::clone(self.job.groups[at].insert(groups))
            }
        };
        let histogram = self
            .bins
            .histogram(&row.counts)
            .ok_or_else(|| self.error(Position::File, "The counts of a row exceed 64 bits."))?;
        let width_ns = (end_ns - start_ns).max(0) as u64;
        self.spare = row.counts;
        Ok(SeriesRow { time_ns: start_ns.min(end_ns), width_ns, groups, histogram, waiting: None })
    }

    /// Direction, job and host.
    fn groups(&self, direction: usize) -> Arc<[String]> {
        let text = |text: Option<&str>| text.unwrap_or("-").to_string();
        let host = self.name.as_ref().and_then(|name| name.host.as_deref());
        [["read", "write", "trim"][direction].to_string(), text(self.job.label.as_deref()), text(host)].into()
    }

    fn count(&mut self, row: &Row, count: u64) {
        let Some(&(highest, in_highest)) = row.counts.last() else { return };
        let account = &mut self.account;
        account.counts += count;
        account.in_last_bin += if highest as usize + 1 == self.bins.len() { in_highest } else { 0 };
        let Some(Doubtful { eighth, near, edge }) = self.bins.doubtful().filter(|_| !account.is_above_edge) else {
            return;
        };
        account.is_above_edge |= highest >= edge;
        // Bins ascend, and few lie just below the edge.
        let from = |bin| row.counts.partition_point(|&(at, _)| at < bin);
        let below = |bins: &[(u32, u64)]| bins.iter().map(|&(_, count)| count).sum::<u64>();
        let (eighth, near, edge) = (from(eighth), from(near), from(edge));
        account.below_edge[0] += below(&row.counts[eighth..edge]);
        account.below_edge[1] += below(&row.counts[near..edge]);
    }

    /// What completed after the last row is in none: up to an interval's worth, and mostly about that much.
    fn end_job(&mut self) {
        let interval_ms = self.interval_ms.unwrap_or(DEFAULT_MS) as f64;
        for at in 0..3 {
            if let (Some(first), Some(last)) = (self.job.first_of[at], self.job.last_of[at]) {
                let covered_ms = last.saturating_sub(first) as f64 + interval_ms;
                self.account.lost_tail += self.job.count_of[at] as f64 / covered_ms * interval_ms;
            }
        }
    }

    /// Writes down what the whole file gave, or says why it cannot be used.
    fn finish(&mut self) -> Result<(), Error> {
        self.end_job();
        let account = std::mem::take(&mut self.account);
        self.no_rows.finish(&mut self.context, account.rows)?;
        self.lines.note_cut(&mut self.context);
        if account.rows > 0 && account.counts == 0 {
            return Err(self.error(
                Position::File,
                "All counts are zero: fio counts nothing with clat_percentiles=0 or disable_clat=1. Run fio \
                 without them.",
            ));
        }
        if account.rows == 0 && self.context.tally.get(Anomaly::EmptyLog) == 0 {
            return Err(
                self.error(Position::File, "No row of a fio histogram log found (time, direction, size, counts).")
            );
        }
        let seems_cut = !self.is_sound && !account.is_above_edge;
        if seems_cut && account.below_edge[1] >= SUSPICIOUS {
            return Err(self.error(
                Position::File,
                "No latency is above 786 us although many come close: fio 3.6 to 3.16 lost the upper half of each \
                 row. Use a newer fio, or read the _clat log.",
            ));
        }
        let lost_tail = self.lost_tail(&account);
        let tally = &mut self.context.tally;
        if seems_cut && account.counts >= MANY && account.below_edge[0] > account.counts / 1000 {
            tally.add(Anomaly::NoUpperHalf, 1);
        }
        tally.add(Anomaly::SummedRows, self.unsummer.repaired);
        tally.add(Anomaly::MaybeSummedRows, self.unsummer.doubtful);
        tally.add(lost_tail.0, lost_tail.1);
        tally.add(Anomaly::FailedJobs, u64::from(self.facts.failed));
        if lost_tail == (Anomaly::LostTail, 0) {
            self.context.properties.insert(Context::COMPLETE.into(), AS_COUNTED.into());
        }
        tally.add(Anomaly::LastBin, account.in_last_bin);
        if let Some(ms) = self.interval_ms {
            let source = if self.facts.hist_ms.is_some() { "the JSON" } else { "the rows" };
            self.context.properties.insert("log_hist_msec".into(), format!("{ms}, from {source}"));
        }
        Ok(())
    }

    /// How many I/Os completed after the last row: those of the JSON that are in none, where it can be trusted to be of the
    /// same run and all rows were read, else about as many as a row holds.
    fn lost_tail(&self, account: &Account) -> (Anomaly, u64) {
        let one_run = self.jobs <= 1 || self.name.as_ref().is_some_and(|name| name.number.is_none());
        let all_read = self.context.tally.get(Anomaly::UnparsedLines) == 0 && self.unsummer.doubtful == 0;
        match self.facts.ios.and_then(|ios| ios.checked_sub(account.counts)) {
            Some(left) if one_run && all_read => (Anomaly::LostTail, left),
            _ => (Anomaly::MaybeLostTail, account.lost_tail.round() as u64),
        }
    }
}

/// The middle of the distances between rows of one direction, or, where rows come in bursts, their mean: behind a stall
/// fio writes as many rows as it would have without. None while there are too few.
fn typical(rows: &VecDeque<Row>, all: bool) -> Option<u64> {
    let (mut last, mut between) = ([None; 3], Vec::new());
    for row in rows {
        if let Some(last) = last[usize::from(row.direction)].replace(row.time_ms) {
            between.push(row.time_ms.saturating_sub(last));
        }
    }
    if between.is_empty() || between.len() < 16 && !all {
        return None;
    }
    between.sort_unstable();
    let middle = between[between.len() / 2];
    let mean = between.iter().fold(0u64, |sum, &ms| sum.saturating_add(ms)) / between.len() as u64;
    Some(if middle >= mean / 2 { middle } else { mean }.max(1))
}

impl SeriesRows for FioHist<'_> {
    fn header(&self) -> &SeriesHeader {
        &self.header
    }

    fn context(&self) -> &Context {
        &self.context
    }

    fn usual_ns(&self) -> Option<u64> {
        self.interval_ms?.checked_mul(MS as u64)
    }

    fn count_in(&mut self, per_event: u64) {
        self.bins.per_event = per_event;
    }
}

impl Iterator for FioHist<'_> {
    type Item = Result<SeriesRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == State::Done {
            return None;
        }
        if self.lacks_unit {
            self.state = State::Done;
            let message = format!(
                "A row has {} counts, as from a fio built with {} groups of 64 bins, in an \
                 unknown unit, nanoseconds or microseconds.",
                self.bins.len(),
                self.bins.groups()
            );
            return Some(Err(self.error(Position::Line(1), message).with_remedy(Remedy::LatencyUnit)));
        }
        let row = self.next_row().and_then(|row| row.map(|row| self.place(row)).transpose());
        match row {
            Ok(Some(row)) => Some(Ok(row)),
            Ok(None) => {
                self.state = State::Done;
                self.finish().err().map(Err)
            }
            Err(error) => {
                self.state = State::Done;
                Some(Err(error))
            }
        }
    }
}
