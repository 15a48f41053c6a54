//! Histograms as text: biolatency (of bcc and libbpf-tools), bpftrace's `hist()` and `lhist()`, SystemTap, DTrace.
//!
//! What is printed between two times of day, or before a group is printed again, is the histogram of one interval, which
//! ended when it was printed.

mod line;
mod rows;

use crate::input::Input;
use crate::series_rows::{SeriesHeader, SeriesRow, SeriesRows};
use crate::text_rows::Lines;
use crate::{Detected, Error, Position, ReadOptions, Remedy};
use latscope_event::{Anomaly, Clock, Context, Note};
use line::Line;
use rows::end_linear;
pub use rows::{RangeCount, Row, histogram};
use std::collections::VecDeque;
use std::sync::Arc;

/// Groups of a histogram: the disk, the flags or the name of the map, the key of the map or any other group.
const GROUP_FIELDS: [&str; 3] = ["device", "name", "job"];
/// No histogram has more rows, and nobody prints more histograms at once.
const MOST_ROWS: usize = 1 << 12;
const MOST_GROUPS: usize = 1 << 14;
const NO_VALUE: &str = "-";
const SECOND_NS: i64 = 1_000_000_000;
const NS_PER_DAY: i64 = 86_400 * SECOND_NS;

/// A header with a row behind it.
pub fn detect(head: &[u8]) -> Detected {
    let mut after_header = false;
    for line in head.split(|&byte| byte == b'\n') {
        match Line::parse(line) {
            Line::Row(_) if after_header => return Detected::Yes,
            Line::Unit(_) | Line::Value | Line::Map { .. } => after_header = true,
            _ => after_header = false,
        }
    }
    Detected::No
}

/// Opens the text.
pub fn open(input: Input<'static>, options: &ReadOptions) -> Result<Box<dyn SeriesRows>, Error> {
    let context = Context::new(format!("histogram text, {}", input.name), Clock::unanchored("relative"));
    Ok(Box::new(Reader {
        header: SeriesHeader {
            group_fields: GROUP_FIELDS.map(str::to_string).to_vec(),
            value: "latency".into(),
            weight: "count".into(),
        },
        context,
        lines: Lines::new(input),
        given_unit_ns: options.two_columns.latency_unit_ns,
        per_event: 1,
        groups: GROUP_FIELDS.map(|_| None),
        table: None,
        is_skipped: false,
        has_unit: false,
        key: None,
        print: Print::default(),
        complete: VecDeque::new(),
        ready: VecDeque::new(),
        last_end_ns: None,
        has_clock: false,
        tables: 0,
        is_over: false,
    }))
}

/// A histogram in the making.
struct Table {
    groups: Arc<[String]>,
    unit_ns: u64,
    ranges: Vec<RangeCount>,
    /// Whether its last row shows that it is one of `lquantize()`.
    is_linear: bool,
}

/// What was printed at once.
#[derive(Default)]
struct Print {
    /// When, nanoseconds since midnight.
    of_day_ns: Option<i64>,
    tables: Vec<Table>,
}

struct Reader<'a> {
    header: SeriesHeader,
    context: Context,
    lines: Lines<'a>,
    /// The unit of histograms that do not give one.
    given_unit_ns: Option<u64>,
    /// As how many an event counts.
    per_event: u64,
    /// Values of the groups of the next histogram.
    groups: [Option<String>; 3],
    table: Option<Table>,
    /// Whether the rows are of a map that has no latencies.
    is_skipped: bool,
    /// Whether some map has its unit in its name.
    has_unit: bool,
    /// The line before, if it may be the key of an aggregation of DTrace.
    key: Option<String>,
    print: Print,
    /// Prints whose intervals are not known before the next one.
    complete: VecDeque<Print>,
    ready: VecDeque<SeriesRow>,
    /// When the last interval ended.
    last_end_ns: Option<i64>,
    has_clock: bool,
    tables: u64,
    is_over: bool,
}

/// Whether a map is by its name one of something else than times.
fn is_of_others(name: &[u8]) -> bool {
    let is_other =
        |word: &[u8]| matches!(word, b"bytes" | b"size" | b"sizes" | b"len" | b"length" | b"count" | b"counts" | b"kb");
    name.split(|&byte| byte == b'_').any(is_other)
}

/// The key that a line above an aggregation of DTrace is: not what it prints of a probe that fires (`0  36521  :tick-5sec`).
fn key_above(text: &[u8]) -> Option<String> {
    let key = text.trim_ascii();
    let is_probe = key.contains(&b':') && key.first().is_some_and(u8::is_ascii_digit);
    let is_key = text.starts_with(b"  ") && !is_probe && !key.starts_with(b"CPU ");
    is_key.then(|| String::from_utf8_lossy(key).into())
}

impl Reader<'_> {
    fn next_row(&mut self) -> Result<Option<SeriesRow>, Error> {
        loop {
            if let Some(row) = self.ready.pop_front() {
                return Ok(Some(row));
            }
            if self.is_over {
                return Ok(None);
            }
            if !self.read_line()? {
                self.is_over = true;
                self.end_print();
                while self.hand_on() {}
                self.lines.note_cut(&mut self.context);
                if self.tables == 0 {
                    let message = "No histogram found (biolatency, bpftrace, SystemTap or DTrace).";
                    return Err(Error::new(self.lines.name(), Position::File, message));
                }
            } else if self.complete.len() > 1 {
                self.hand_on();
            }
        }
    }

    /// Takes the next line; false at the end.
    fn read_line(&mut self) -> Result<bool, Error> {
        let Some((number, line)) = self.lines.next()? else { return Ok(false) };
        let (Ok(text) | Err(text)) = line.map_err(|_| &b""[..]);
        let group_at = |key: &[u8]| match key {
            b"disk" => Some(0),
            b"flags" => Some(1),
            // The mean of all histograms that biolatency -e prints.
            b"avg" => None,
            _ => Some(2),
        };
        let is_cut = !text.ends_with(b"\n") && !text.is_empty();
        let parsed = Line::parse(text);
        let has_rows = self.table.as_ref().is_some_and(|table| !table.ranges.is_empty());
        let key = self.key.take();
        match parsed {
            // What is cut may be anything, and the count of a row may be cut, too.
            _ if is_cut && !text.trim_ascii_end().ends_with(b"|") => {
                self.context.tally.add(Anomaly::Truncated, 1);
            }
            Line::Row(row) => self.row(row, number),
            Line::Empty if has_rows => self.end_table(),
            Line::Empty => {}
            Line::Time(ns) => {
                self.end_print();
                self.print.of_day_ns = Some(ns);
            }
            Line::Group(key, value) => {
                let group = group_at(key).map(|at| (at, String::from_utf8_lossy(value).into()));
                self.end_table();
                if let Some((at, value)) = group {
                    self.groups[at] = Some(value);
                }
            }
            Line::Unit(unit_ns) => self.start_table(Some(unit_ns), number)?,
            Line::Value => {
                self.end_table();
                // DTrace prints the key of an aggregation above it.
                if let Some(key) = key {
                    self.groups[2] = Some(key);
                }
                self.start_table(None, number)?;
            }
            Line::Map { name, key, unit_ns } => {
                // A name that is a unit distinguishes nothing.
                let is_unit = unit_ns.is_some() && !name.contains(&b'_');
                let text =
                    |text: &[u8]| Some(String::from_utf8_lossy(text).into()).filter(|text: &String| !text.is_empty());
                let groups = [None, text(name).filter(|_| !is_unit), text(key)];
                let is_of_others = is_of_others(name);
                self.end_table();
                self.has_unit |= unit_ns.is_some();
                self.is_skipped = unit_ns.is_none() && (is_of_others || self.has_unit);
                if self.is_skipped {
                    self.context.tally.add(Anomaly::OtherRecords, 1);
                } else {
                    self.groups = groups;
                    self.start_table(unit_ns, number)?;
                }
            }
            // A remark among rows is not expected.
            Line::Other if has_rows || line.is_err() => {
                self.end_table();
                self.malformed(number, "no range with a count");
            }
            Line::Other => self.key = key_above(text),
        }
        Ok(true)
    }

    fn row(&mut self, row: Row, number: u64) {
        let has_room = self.table.as_ref().is_some_and(|table| table.ranges.len() < MOST_ROWS);
        match (row, &mut self.table) {
            (_, None) if self.is_skipped => {}
            (Row::Range(range), Some(table)) if has_room => table.ranges.push(range),
            (Row::Last(range), Some(table)) if has_room => {
                table.ranges.push(range);
                self.context.tally.add(Anomaly::LastBin, range.count);
            }
            (Row::From(lower, count), Some(table)) if has_room => {
                table.ranges.push(RangeCount { lower, end: lower.saturating_add(1), count });
                table.is_linear = true;
                self.context.tally.add(Anomaly::LastBin, count);
            }
            (Row::Negative(count), Some(_)) => self.context.tally.add(Anomaly::NegativeLatency, count),
            (Row::Gap, _) => {}
            _ => self.malformed(number, "a row without a histogram around it"),
        }
    }

    #[cold]
    fn malformed(&mut self, line: u64, why: &str) {
        self.context.tally.add(Anomaly::UnparsedLines, 1);
        if self.context.notes.is_empty() {
            self.context.note(Note::MalformedRow { line, why: why.into() });
        }
    }

    fn start_table(&mut self, unit_ns: Option<u64>, number: u64) -> Result<(), Error> {
        self.end_table();
        self.is_skipped = false;
        let Some(unit_ns) = unit_ns.or(self.given_unit_ns) else {
            let error = Error::new(self.lines.name(), Position::Line(number), "The histogram does not give its unit.");
            return Err(error.with_remedy(Remedy::LatencyUnit));
        };
        let groups = self.groups.each_mut().map(|group| group.take().unwrap_or_else(|| NO_VALUE.into()));
        let groups: Arc<[String]> = groups.into();
        // Each group is printed once at a time.
        let is_again = self.print.tables.iter().any(|table| table.groups == groups);
        if is_again || self.print.tables.len() >= MOST_GROUPS {
            self.end_print();
        }
        self.table = Some(Table { groups, unit_ns, ranges: Vec::new(), is_linear: false });
        Ok(())
    }

    fn end_table(&mut self) {
        if let Some(mut table) = self.table.take().filter(|table| !table.ranges.is_empty()) {
            if table.is_linear {
                end_linear(&mut table.ranges);
            }
            self.tables += 1;
            self.print.tables.push(table);
        }
    }

    fn end_print(&mut self) {
        self.end_table();
        let print = std::mem::take(&mut self.print);
        if print.of_day_ns.is_some() || !print.tables.is_empty() {
            self.complete.push_back(print);
        }
    }

    /// Makes rows of the first complete print; false if no print is complete.
    fn hand_on(&mut self) -> bool {
        let Some(print) = self.complete.pop_front() else { return false };
        let end_ns = self.end_ns(&print);
        let next_ns = self.complete.front().and_then(|next| next.of_day_ns);
        let start_ns = match (self.last_end_ns, print.of_day_ns, next_ns) {
            (Some(last_ns), Some(_), _) => Some(last_ns),
            // The first interval is taken to be as long as the second.
            (None, Some(of_day_ns), Some(next_ns)) => Some(end_ns - (next_ns - of_day_ns).rem_euclid(NS_PER_DAY)),
            _ => None,
        };
        let start_ns = start_ns.unwrap_or_else(|| {
            self.context.tally.add(Anomaly::AssumedWidth, u64::from(!print.tables.is_empty()));
            end_ns - SECOND_NS
        });
        self.last_end_ns = Some(end_ns);
        self.context.cover(start_ns);
        self.context.cover(end_ns);
        for table in print.tables {
            let histogram = histogram(&table.ranges, table.unit_ns).and_then(|sparse| sparse.times(self.per_event));
            let Some(histogram) = histogram else {
                self.context.tally.add(Anomaly::DamagedRecords, 1);
                continue;
            };
            let width_ns = end_ns.abs_diff(start_ns);
            self.ready.push_back(SeriesRow {
                time_ns: start_ns,
                width_ns,
                groups: table.groups,
                histogram,
                waiting: None,
            });
        }
        true
    }

    /// When the interval of a print ended, on the trace's clock.
    fn end_ns(&mut self, print: &Print) -> i64 {
        if !std::mem::replace(&mut self.has_clock, true) {
            match print.of_day_ns {
                Some(_) => self.context.clock = Clock::unanchored("time of day"),
                None => self.context.start_ns = Some(0),
            }
        }
        let Some(last_ns) = self.last_end_ns else { return print.of_day_ns.unwrap_or(SECOND_NS) };
        let Some(of_day_ns) = print.of_day_ns else { return last_ns.saturating_add(SECOND_NS) };
        // Past midnight the time of day starts again; one that goes back a little is of a clock that was set.
        let same = last_ns.div_euclid(NS_PER_DAY).saturating_mul(NS_PER_DAY).saturating_add(of_day_ns);
        let end_ns = if same < last_ns - NS_PER_DAY / 2 { same.saturating_add(NS_PER_DAY) } else { same };
        if end_ns < last_ns {
            self.context.tally.add(Anomaly::OutOfOrder, 1);
        }
        end_ns.max(last_ns)
    }
}

impl SeriesRows for Reader<'_> {
    fn header(&self) -> &SeriesHeader {
        &self.header
    }

    fn context(&self) -> &Context {
        &self.context
    }

    fn count_in(&mut self, per_event: u64) {
        self.per_event = per_event;
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<SeriesRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.next_row();
        if row.is_err() {
            // After an error there are no more.
            self.is_over = true;
            self.ready.clear();
        }
        row.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Printed = (i64, u64, String, Vec<(u64, u64)>);

    fn read(text: &str, unit_ns: Option<u64>) -> Result<(Vec<Printed>, Context), Error> {
        let mut options = ReadOptions::new(latscope_event::FieldSet::ALWAYS);
        options.two_columns.latency_unit_ns = unit_ns;
        let mut reader = open(Input::from_vec("test", text.as_bytes().to_vec())?, &options)?;
        let mut rows = Vec::new();
        for row in reader.by_ref() {
            let row = row?;
            let grid = row.histogram.grid();
            let buckets = row.histogram.buckets().map(|(index, count, _)| (grid.lower(index), count));
            rows.push((
                row.time_ns / SECOND_NS,
                row.width_ns / SECOND_NS as u64,
                row.groups.join(","),
                buckets.collect(),
            ));
        }
        let context = reader.context().clone();
        Ok((rows, context))
    }

    #[test]
    fn prints_with_times_are_intervals() {
        let disk = |disk: &str, count: u64| {
            format!(
                "\ndisk = {disk}\n     usecs    : count    distribution\n  0 -> 1 : 0 | |\n 64 -> 127 : {count} |** |\n"
            )
        };
        let text = format!(
            "Tracing...\n23:59:58\n{}{}\n00:00:00\n\n00:00:02\n{}",
            disk("vda", 5),
            disk("vdb", 6),
            disk("vda", 7)
        );
        let (rows, context) = read(&text, None).unwrap();
        let row = |end: i64, disk: &str, count| (end - 2, 2, format!("{disk},-,-"), vec![(65_536, count)]);
        assert_eq!(rows, [row(86_398, "vda", 5), row(86_398, "vdb", 6), row(86_402, "vda", 7)]);
        assert!(context.is_plain() && context.clock.name == "time of day");
    }

    #[test]
    fn maps_of_bpftrace() {
        let text = "Attaching 2 probes...\n@read_us[dd, 7]: \n[64, 128)  5 |@@|\n[1K, ...)   1 |@ |\n\n@usecs: \n[1] 3 |@@|\n\n@usecs: \n(..., 0) 2 |@|\n[1] 4 |@@|\n\n";
        let (rows, context) = read(text, None).unwrap();
        assert_eq!(
            rows,
            [
                (0, 1, "-,read_us,dd, 7".into(), vec![(65_536, 5), (1 << 20, 1)]),
                (0, 1, "-,-,-".into(), vec![(1_024, 3)]),
                (1, 1, "-,-,-".into(), vec![(1_024, 4)]),
            ]
        );
        let counts = [Anomaly::AssumedWidth, Anomaly::NegativeLatency, Anomaly::LastBin];
        let counts = counts.map(|anomaly| context.tally.get(anomaly));
        assert_eq!((counts, context.start_ns), ([2, 2, 1], Some(0)));
    }

    #[test]
    fn aggregations_of_dtrace_have_their_keys() {
        let table = |key: &str, count: u64| {
            format!(
                "  {key}          \n           value  ------------- Distribution ------------- count    \n             512 |       0        \n            1024 |@@@@   {count}        \n\n"
            )
        };
        let text = format!(
            "CPU     ID     FUNCTION:NAME\n  0  36521   :tick-5sec \n\n{}{}  0  36521   :tick-5sec \n{}",
            table("sched", 4),
            table("oracle db", 2),
            table("sched", 1)
        );
        let (rows, _) = read(&text, Some(1)).unwrap();
        let row = |start: i64, key: &str, count| (start, 1, format!("-,-,{key}"), vec![(1024, count)]);
        assert_eq!(rows, [row(0, "sched", 4), row(0, "oracle db", 2), row(1, "sched", 1)]);
        let text = "           value  ------------- Distribution ------------- count    \n             < 0 |       1\n               0 |@      4\n             100 |@@@    17\n             200 |@@     19\n          >= 300 |@      2\n";
        assert_eq!(detect(text.as_bytes()), Detected::Yes);
        let (rows, context) = read(text, Some(1_000)).unwrap();
        let counts = [Anomaly::LastBin, Anomaly::NegativeLatency, Anomaly::UnparsedLines]
            .map(|anomaly| context.tally.get(anomaly));
        assert_eq!(
            (rows[0].3.iter().map(|&(_, count)| count).collect::<Vec<_>>(), counts),
            (vec![4, 17, 19, 2], [2, 1, 0])
        );
    }

    #[test]
    fn maps_of_something_else_are_skipped() {
        let text = "@bytes:\n[4K, 8K) 100 |@|\n\n@usecs:\n[4, 8) 10 |@|\n\n@x:\n[4K, 8K) 100 |@|\n\n";
        for unit_ns in [None, Some(1_000)] {
            let (rows, context) = read(text, unit_ns).unwrap();
            assert_eq!((rows.len(), rows[0].3[0].1), (1, 10));
            let counts = [Anomaly::OtherRecords, Anomaly::UnparsedLines].map(|anomaly| context.tally.get(anomaly));
            assert_eq!(counts, [2, 0]);
        }
    }

    #[test]
    fn a_unit_that_is_not_printed_must_be_given() {
        let text = "  value |------- count\n   64 |@@   3\n      ~\n  512 |@    1\n\n";
        let error = read(text, None).unwrap_err();
        assert_eq!(
            (error.to_string(), error.remedy),
            ("test:1: The histogram does not give its unit.".into(), Remedy::LatencyUnit)
        );
        let (rows, _) = read(text, Some(1_000_000)).unwrap();
        assert_eq!(rows[0].3, [(1 << 26, 3), (1 << 29, 1)]);
        assert_eq!(detect(text.as_bytes()), Detected::Yes);
        for text in ["64 |@ 3\n", "@x: 5\n", "a : b\n1 2\n", ""] {
            assert_eq!(detect(text.as_bytes()), Detected::No, "{text}");
        }
        assert!(read("nothing\n", None).unwrap_err().message.starts_with("No histogram found"));
    }

    #[test]
    fn what_is_cut_or_no_row_is_counted() {
        let text = "     usecs    : count    distribution\n 64 -> 127 : 5 |** |\nhello\n 64 -> 127 : 5 |** |\n     usecs    : count    distribution\n 64 -> 127 : 5 |** |\n 128 -> 255 : 1";
        let (rows, context) = read(text, None).unwrap();
        let counts = [Anomaly::UnparsedLines, Anomaly::Truncated].map(|anomaly| context.tally.get(anomaly));
        assert_eq!((rows.len(), counts), (2, [2, 1]));
        let text = "     usecs    : count    distribution\n 64 -> 127 : 5 |** |\n";
        for (end, cut) in [("", 0), (" 128 -> 255 : 1 |* |", 0), (" ", 1), ("disk = vd", 1), ("@usecs[a]:", 1)] {
            let (rows, context) = read(&format!("{text}{end}"), None).unwrap();
            assert_eq!((rows.len(), context.tally.get(Anomaly::Truncated)), (1, cut), "{end}");
        }
    }
}
