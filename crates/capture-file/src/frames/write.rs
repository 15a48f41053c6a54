//! Writes a series as frames, as one run.

use crate::{SeriesHeader, SeriesRow};
use latscope_event::{Context, Unfinished, Value};
use latscope_histogram::{Grid, Histogram, Sparse};
use latscope_wire::{Data, Dictionary, GROUPS_LIMIT, Head, Hello, Id, IntervalRow, PREFACE, Parts, new_id};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

/// Writes rows of one width, in the order of their times, and gives back where they were written. What waited at the end is written
/// with the last interval.
///
/// # Errors
/// When it cannot be written, when there are more groups than a run may have, and when no random number can be had.
pub fn write_frames<W: Write>(
    mut out: W,
    header: &SeriesHeader,
    context: &Context,
    width_ns: u64,
    rows: impl IntoIterator<Item = SeriesRow>,
) -> io::Result<W> {
    // Where groups have it, it is no more that of the run.
    let is_group = header.group_fields.iter().any(|field| field == super::HOST);
    let hello = Hello {
        run: new_id()?,
        host: context.host.clone().filter(|_| !is_group).unwrap_or_default(),
        source: context.source.clone(),
        filter: context.properties.get("filter").cloned().unwrap_or_default(),
        width_ns,
        fields: header.group_fields.clone(),
        is_wall: context.clock.to_unix_ns == Some(0),
    };
    out.write_all(PREFACE)?;
    out.write_all(hello.record().bytes())?;
    let run =
        Run { id: hello.run, width_ns: width_ns as i64, groups: HashMap::new(), sequence: 0, span_ns: context.span_ns };
    run.write(&mut out, header, context, rows)?;
    Ok(out)
}

/// What is written.
struct Run {
    id: Id,
    width_ns: i64,
    groups: HashMap<Vec<String>, u32>,
    /// Of the next record.
    sequence: u64,
    span_ns: Option<(i64, i64)>,
}

impl Run {
    fn write(
        mut self,
        out: &mut impl Write,
        header: &SeriesHeader,
        context: &Context,
        rows: impl IntoIterator<Item = SeriesRow>,
    ) -> io::Result<()> {
        let number = |ns: i64| ns.div_euclid(self.width_ns);
        let ends = self.span_ns.map(|(from_ns, to_ns)| (number(from_ns), number(to_ns.saturating_sub(1).max(from_ns))));
        let waiting = waiting(&context.unfinished, &header.group_fields);
        // The interval that is gathered; silence at both ends is part of the series.
        let mut open = ends.map(|(first, _)| (first, BTreeMap::<u32, Parts>::new()));
        for row in rows {
            let interval = row.time_ns.div_euclid(self.width_ns);
            let group = self.group(out, &row.groups)?;
            match &mut open {
                Some((at, _)) if *at == interval => {}
                open => {
                    if let Some((before, groups)) = open.replace((interval, BTreeMap::new())) {
                        self.put(out, before, groups, None)?;
                    }
                }
            }
            if let Some((_, groups)) = open.as_mut().filter(|_| row.histogram.totals().count > 0) {
                groups.entry(group).or_default().done = Some(row.histogram);
            }
        }
        let last = ends.map(|(_, last)| last).filter(|&last| open.as_ref().is_none_or(|(at, _)| *at < last));
        if let Some(last) = last
            && let Some((before, groups)) = open.replace((last, BTreeMap::new()))
        {
            self.put(out, before, groups, None)?;
        }
        let Some((interval, mut groups)) = open else { return Ok(()) };
        for (labels, ages) in waiting {
            let group = self.group(out, &labels)?;
            groups.entry(group).or_default().waiting = Some(ages);
        }
        self.put(out, interval, groups, Some(context))
    }

    /// The number of a group, which is described before it is used.
    fn group(&mut self, out: &mut impl Write, labels: &[String]) -> io::Result<u32> {
        if let Some(&known) = self.groups.get(labels) {
            return Ok(known);
        }
        let number = self.groups.len();
        if number >= GROUPS_LIMIT {
            return Err(io::Error::other(format!("there are more than {GROUPS_LIMIT} groups")));
        }
        out.write_all(Dictionary::record(self.id, number, &[labels.to_vec()]).bytes())?;
        self.groups.insert(labels.to_vec(), number as u32);
        Ok(number as u32)
    }

    /// Writes an interval; the last one has the account of the trace.
    fn put(
        &mut self,
        out: &mut impl Write,
        interval: i64,
        groups: BTreeMap<u32, Parts>,
        account: Option<&Context>,
    ) -> io::Result<()> {
        let (start_ns, width_ns) = (interval * self.width_ns, self.width_ns.unsigned_abs());
        let (from_ns, to_ns) = self.span_ns.unwrap_or((i64::MIN, i64::MAX));
        let covered_ns =
            to_ns.min(start_ns + self.width_ns).saturating_sub(from_ns.max(start_ns)).max(0).unsigned_abs();
        let row = IntervalRow {
            covered_ns,
            is_partial: covered_ns < width_ns,
            tally: account.map(|context| context.tally.clone()).unwrap_or_default(),
            groups: groups.into_iter().collect(),
        };
        let head =
            Head { run: self.id, sequences: self.sequence..=self.sequence, start: interval, width_ns, intervals: 1 };
        self.sequence += 1;
        out.write_all(Data { head, rows: vec![row] }.record().bytes())
    }
}

/// Ages of what waited at the end, by group.
fn waiting(unfinished: &[Unfinished], fields: &[String]) -> BTreeMap<Vec<String>, Sparse> {
    let mut ages = BTreeMap::<Vec<String>, Histogram>::new();
    for request in unfinished.iter().filter(|request| request.counts()) {
        let label = |field: &String| match request.values.get(field) {
            Some(Value::Text(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            None => "-".into(),
        };
        let group = ages.entry(fields.iter().map(label).collect());
        group.or_insert_with(|| Histogram::new(Grid::FINE, false)).record(request.at_least_ns, 0);
    }
    ages.into_iter().map(|(group, ages)| (group, ages.to_sparse())).collect()
}
