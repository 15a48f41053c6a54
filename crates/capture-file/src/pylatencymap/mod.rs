//! Records of PyLatencyMap: cumulative counts by powers of two, in text that its collectors print and `LatencyMap.py` reads.
//!
//! ```text
//! <begin record>
//! timestamp, microsec, 1795224000000000, Sat Nov 21 01:20:00 2026
//! label, db file sequential read
//! latencyunit, microsec
//! datasource, oracle
//! 64,353
//! 128,71
//! <end record>
//! ```
//!
//! Each record counts since the start of its source, so an interval is the difference of two. Whether a bucket is named by its upper
//! edge (oracle) or by its lower one (the others) depends on the source. Instead of buckets there may be the histogram that SystemTap or DTrace
//! prints, so that no connector is needed.

mod record;
mod write;

use crate::histogram_text::{RangeCount, histogram};
use crate::input::Input;
use crate::series_rows::{SeriesHeader, SeriesRow, SeriesRows};
use crate::text_rows::Lines;
use crate::{Detected, Error, Position, ReadOptions};
use latscope_event::{Anomaly, Clock, Context, Note};
use record::{BEGIN, Record};
use std::collections::{BTreeMap, HashMap};
pub use write::write_pylatencymap;

/// The label is the group of this field.
const LABEL_FIELD: &str = "job";
/// More sources write to no pipe; others share a label.
const MOST_LABELS: usize = 1 << 10;
const SECOND_NS: i64 = 1_000_000_000;
/// A time after September 2001 is one on the wall; no machine has been up that long.
const WALL_FROM_NS: i64 = 1_000_000_000_000_000_000;

/// There is the start of a record.
pub fn detect(head: &[u8]) -> Detected {
    let is_start = |line: &[u8]| line.trim_ascii().eq_ignore_ascii_case(BEGIN);
    if head.split(|&byte| byte == b'\n').any(is_start) { Detected::Yes } else { Detected::No }
}

/// Opens the text.
pub fn open(input: Input<'static>, _: &ReadOptions) -> Result<Box<dyn SeriesRows>, Error> {
    let context = Context::new(format!("PyLatencyMap, {}", input.name), Clock::unanchored("relative"));
    Ok(Box::new(Reader {
        header: SeriesHeader {
            group_fields: vec![LABEL_FIELD.into()],
            value: "latency".into(),
            weight: "count".into(),
        },
        context,
        lines: Lines::new(input),
        per_event: 1,
        record: None,
        last: HashMap::new(),
        unit_ns: record::MILLISECOND_NS,
        records: 0,
        is_over: false,
    }))
}

/// The last record of a label.
struct Last {
    /// When the interval started that it ended; `None` for the first.
    start_ns: Option<i64>,
    end_ns: i64,
    counts: BTreeMap<u64, u64>,
}

struct Reader<'a> {
    header: SeriesHeader,
    context: Context,
    lines: Lines<'a>,
    /// As how many an event counts.
    per_event: u64,
    /// What is read of the next record.
    record: Option<Record>,
    last: HashMap<String, Last>,
    /// A record without a unit has that of the one before.
    unit_ns: u64,
    records: u64,
    is_over: bool,
}

impl Reader<'_> {
    fn next_row(&mut self) -> Result<Option<SeriesRow>, Error> {
        while let Some((number, line)) = self.lines.next()? {
            let text = line.unwrap_or_default().trim_ascii();
            if text.eq_ignore_ascii_case(BEGIN) {
                // One that did not end is lost.
                let count = u64::from(self.record.is_some());
                self.context.tally.add(Anomaly::DamagedRecords, count);
                self.record = Some(Record::new(self.unit_ns));
                continue;
            }
            // What stands between records belongs to no record.
            let Some(record) = &mut self.record else { continue };
            if text.eq_ignore_ascii_case(record::END) {
                let record = self.record.take();
                if record.as_ref().is_some_and(|record| record.has_unknown_unit) {
                    let message = "The latencyunit of the record is unknown; use millisec, microsec or nanosec.";
                    return Err(Error::new(self.lines.name(), Position::Line(number), message));
                }
                if let Some(record) = record
                    && let Some(row) = self.interval(record)
                {
                    return Ok(Some(row));
                }
            } else if line.is_ok_and(|line| !line.ends_with(b"\n")) {
                // The record is not whole either.
            } else if !record.add(text, &mut self.context.tally) || line.is_err() {
                self.context.tally.add(Anomaly::UnparsedLines, 1);
                if self.context.notes.is_empty() {
                    let why = "neither a bucket and its count nor a field of a record".into();
                    self.context.note(Note::MalformedRow { line: number, why });
                }
            }
        }
        self.lines.note_cut(&mut self.context);
        if self.record.take().is_some() {
            self.context.tally.add(Anomaly::Truncated, 1);
        }
        match self.records {
            0 => {
                Err(Error::new(self.lines.name(), Position::File, "No record of PyLatencyMap found (<begin record>)."))
            }
            _ => Ok(None),
        }
    }

    /// The interval that a record ends; none of the first one of a label, which is what the others are compared with.
    fn interval(&mut self, record: Record) -> Option<SeriesRow> {
        self.unit_ns = record.unit_ns;
        let time_ns = record.timestamp_us.map(|us| us.saturating_mul(1000).min(i64::MAX / 2));
        if self.records == 0 {
            match time_ns {
                Some(ns) if ns > WALL_FROM_NS => self.context.clock = Clock::wall(),
                Some(_) => self.context.clock = Clock::unanchored("database"),
                None => self.context.start_ns = Some(0),
            }
        }
        self.records += 1;
        let is_known = self.last.contains_key(&record.label) || self.last.len() < MOST_LABELS;
        let label = if is_known { record.label.clone() } else { String::new() };
        let last = self.last.remove(&label);
        // Without times, a record is printed every second.
        let end_ns = time_ns.unwrap_or_else(|| last.as_ref().map_or(0, |last| last.end_ns.saturating_add(SECOND_NS)));
        self.context.cover(end_ns);
        let start_ns = match &last {
            None => None,
            // Of two records of one time the second adds to the interval that ended then.
            Some(last) if end_ns == last.end_ns => last.start_ns,
            Some(last) => Some(last.end_ns),
        };
        let Some(start_ns) = start_ns else {
            // What the others are compared with, or what more there was at the same time, which the next interval has then.
            self.last.insert(label, last.unwrap_or(Last { start_ns: None, end_ns, counts: record.counts }));
            return None;
        };
        let row = last.and_then(|last| {
            if end_ns < start_ns {
                self.context.tally.add(Anomaly::OutOfOrder, 1);
                return None;
            }
            let Some(ranges) = differences(&record, &last.counts) else {
                self.context.tally.add(Anomaly::CounterReset, 1);
                return None;
            };
            if time_ns.is_none() {
                self.context.tally.add(Anomaly::AssumedWidth, 1);
            }
            let counted = histogram(&ranges, record.unit_ns).and_then(|sparse| sparse.times(self.per_event));
            let Some(histogram) = counted else {
                self.context.tally.add(Anomaly::DamagedRecords, 1);
                return None;
            };
            let label = if label.is_empty() { "-".to_string() } else { label.clone() };
            Some(SeriesRow {
                time_ns: start_ns,
                width_ns: end_ns.abs_diff(start_ns),
                groups: [label].into(),
                histogram,
                waiting: None,
            })
        });
        let start_ns = Some(start_ns).filter(|&start_ns| start_ns < end_ns);
        self.last.insert(label, Last { start_ns, end_ns, counts: record.counts });
        row
    }
}

/// What was counted since an earlier record, by ranges that ascend; none when any count is lower than it was: the source started again.
fn differences(record: &Record, before: &BTreeMap<u64, u64>) -> Option<Vec<RangeCount>> {
    if before.iter().any(|(bucket, &count)| record.counts.get(bucket).copied().unwrap_or(0) < count) {
        return None;
    }
    let ranges = record.counts.iter().map(|(&bucket, &count)| {
        let (lower, end) = record.edges(bucket);
        RangeCount { lower, end, count: count - before.get(&bucket).copied().unwrap_or(0) }
    });
    Some(ranges.collect())
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
        if self.is_over {
            return None;
        }
        let row = self.next_row();
        self.is_over = !matches!(row, Ok(Some(_)));
        row.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Interval = (i64, u64, String, Vec<(u64, u64)>);

    pub fn read(text: &str) -> Result<(Vec<Interval>, Context), Error> {
        let options = ReadOptions::new(latscope_event::FieldSet::ALWAYS);
        let mut reader = open(Input::from_vec("test", text.as_bytes().to_vec())?, &options)?;
        let mut rows = Vec::new();
        for row in reader.by_ref() {
            let row = row?;
            let grid = row.histogram.grid();
            let buckets = row.histogram.buckets().map(|(index, count, _)| (grid.lower(index), count));
            rows.push((row.time_ns, row.width_ns, row.groups.join(","), buckets.collect()));
        }
        let context = reader.context().clone();
        Ok((rows, context))
    }

    fn record(fields: &str, buckets: &str) -> String {
        format!("noise\n<begin record>\n{fields}\n{buckets}\n<end record>\n")
    }

    #[test]
    fn counts_are_cumulative_and_buckets_mean_what_the_source_says() {
        for (source, lower) in [("oracle", 65_536 / 2), ("bpf", 65_536), ("SystemTap", 65_536), ("dtrace", 65_536)] {
            let fields = |us: u64| {
                format!("Timestamp , microsec, {us}, x\nlabel, a, b\nlatencyunit,microsec\ndatasource, {source}")
            };
            let text = [
                record(&fields(5_000_000), "64, 3\n0,7\n128,1"),
                record(&fields(8_000_000), "64, 4\n64,9\n0,7\n128,1"),
            ];
            let (rows, context) = read(&text.concat()).unwrap();
            assert_eq!(rows, [(5_000_000_000, 3_000_000_000, "a, b".into(), vec![(lower, 10)])], "{source}");
            assert!(context.is_plain());
        }
    }

    #[test]
    fn units_are_known_or_refused() {
        for (unit, lower) in [("microseconds", 65_536), ("US", 65_536), ("ns", 64), ("msec", 1 << 26)] {
            let text = ["64,1", "64,3"].map(|buckets| record(&format!("latencyunit, {unit}"), buckets)).concat();
            assert_eq!(read(&text).unwrap().0[0].3, [(lower, 2)], "{unit}");
        }
        let error = read(&record("latencyunit, fortnights", "64,1")).unwrap_err();
        assert!(error.to_string().starts_with("test:5: The latencyunit of the record is unknown"), "{error}");
    }

    #[test]
    fn resets_and_missing_times() {
        let text =
            ["64,5", "64,9", "64,2\n128,7", "64,2\n128,8"].map(|buckets| record("latencyunit, nanosec", buckets));
        let (rows, context) = read(&text.concat()).unwrap();
        let second = 1_000_000_000;
        assert_eq!(
            rows,
            [(0, 1_000_000_000, "-".into(), vec![(64, 4)]), (2 * second, 1_000_000_000, "-".into(), vec![(128, 1)])]
        );
        let counts = [Anomaly::CounterReset, Anomaly::AssumedWidth].map(|anomaly| context.tally.get(anomaly));
        assert_eq!((counts, context.start_ns), ([1, 2], Some(0)));
    }

    /// A collector that prints twice within the resolution of its clock: no event is lost, none counts twice.
    #[test]
    fn the_second_record_of_one_time_adds_to_the_interval_that_ended_then() {
        let text = |counts: &[(u64, u64)]| -> String {
            let one = |&(us, count)| {
                record(&format!("timestamp, microsec, {us}, x\nlatencyunit, nanosec"), &format!("64,{count}"))
            };
            counts.iter().map(one).collect()
        };
        let ms = 1_000_000;
        let (rows, context) = read(&text(&[(1000, 5), (2000, 8), (2000, 10), (2000, 11), (4000, 20)])).unwrap();
        let found: Vec<_> = rows.iter().map(|row| (row.0, row.1, row.3[0].1)).collect();
        let first = (ms, ms as u64);
        assert_eq!(
            found,
            [(first.0, first.1, 3), (first.0, first.1, 2), (first.0, first.1, 1), (2 * ms, 2 * ms as u64, 9)]
        );
        assert!(context.is_plain(), "{:?}", context.tally);
        // Before the first of them there is no interval.
        let (rows, _) = read(&text(&[(1000, 5), (1000, 8), (2000, 10)])).unwrap();
        assert_eq!(rows.iter().map(|row| (row.0, row.3[0].1)).collect::<Vec<_>>(), [(ms, 5)]);
    }

    #[test]
    fn labels_are_counted_apart() {
        let text = ["a", "b", "a", "b"].iter().enumerate();
        let text: String =
            text.map(|(at, label)| record(&format!("label,{label}"), &format!("1,{}", 10 * at + 1))).collect();
        let (rows, _) = read(&text).unwrap();
        assert_eq!(rows.iter().map(|row| (row.2.as_str(), row.3[0].1)).collect::<Vec<_>>(), [("a", 20), ("b", 20)]);
    }

    #[test]
    fn what_is_no_record_is_counted() {
        let text = [
            record("label,a", "3,5\nmyhistogram\n-1,5\n64"),
            "<begin record>\n64,1\n".into(),
            record("label,a", "1,5"),
            "<begin record>\n64,1\n".into(),
        ];
        let (rows, context) = read(&text.concat()).unwrap();
        let counts = [Anomaly::UnparsedLines, Anomaly::DamagedRecords, Anomaly::Truncated];
        assert_eq!((rows.len(), counts.map(|anomaly| context.tally.get(anomaly))), (1, [3, 1, 1]));
        assert!(read("nothing\n").unwrap_err().message.starts_with("No record of PyLatencyMap found"));
        assert_eq!((detect(b" <Begin Record> \n"), detect(b"begin record\n")), (Detected::Yes, Detected::No));
    }
}
