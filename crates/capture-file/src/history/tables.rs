//! Tables of a hub as series in Parquet.

use super::HOST;
use crate::ReadOptions;
use crate::input::Input;
use crate::parquet::{open_series, write_table};
use crate::series_rows::{SeriesHeader, SeriesRow};
use latscope_event::{Clock, Context, FieldSet};
use latscope_wire::Ranges;
use latscope_wire::history::{TableHead, TableRow, TableRows, Tables};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

/// The property of the context with the filter of an agent.
const FILTER: &str = "filter";
/// The property with when the host was observed: `START-END`, milliseconds since the epoch, apart by commas.
const OBSERVED: &str = "observed_ms";
/// The property with for how much longer or shorter than their width intervals were observed: `START:NANOSECONDS`, apart by commas.
const UNEVEN: &str = "uneven_ms";
/// The property with when the host said that it ends, likewise.
const ENDED: &str = "ended_ms";

/// Tables as `convert --series` writes them.
pub struct SeriesTables;

impl Tables for SeriesTables {
    fn write(&self, path: &Path, head: &TableHead, rows: TableRows<'_>) -> io::Result<()> {
        let group_fields = std::iter::once(HOST.to_string()).chain(head.fields.iter().cloned()).collect();
        let header = SeriesHeader { group_fields, value: "latency".into(), weight: "count".into() };
        let mut context = Context::new(head.source.clone(), Clock::wall());
        context.host = Some(head.host.clone());
        context.tally = head.tally.clone();
        context.span_ns = Some(head.span_ns);
        if !head.filter.is_empty() {
            context.properties.insert(FILTER.into(), head.filter.clone());
        }
        for (key, ranges) in [(OBSERVED, &head.observed), (ENDED, &head.ended)] {
            let range = |range: RangeInclusive<u64>| format!("{}-{}", range.start(), range.end());
            let ranges: Vec<String> = ranges.iter().map(range).collect();
            if !ranges.is_empty() {
                context.properties.insert(key.into(), ranges.join(","));
            }
        }
        if !head.uneven.is_empty() {
            let uneven: Vec<String> = head.uneven.iter().map(|(start, more_ns)| format!("{start}:{more_ns}")).collect();
            context.properties.insert(UNEVEN.into(), uneven.join(","));
        }
        let mut failure = None;
        let series_row = |TableRow { time_ns, labels, done, waiting }| {
            let groups = std::iter::once(head.host.clone()).chain(labels.iter().cloned()).collect();
            SeriesRow { time_ns, width_ns: head.width_ns, groups, histogram: done, waiting }
        };
        let rows = rows.map_while(|row| row.map_err(|error| failure = Some(error)).ok()).map(series_row);
        let out = write_table(BufWriter::new(File::create(path)?), &header, &context, rows)?;
        match failure {
            Some(error) => Err(error),
            None => out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all(),
        }
    }

    fn open(&self, path: &Path) -> io::Result<(TableHead, TableRows<'static>)> {
        let fail = |error: crate::Error| io::Error::other(error.to_string());
        let input = Input::open(path, None).map_err(fail)?;
        let rows = open_series(input, &ReadOptions::new(FieldSet::ALWAYS)).map_err(fail)?;
        let (header, context) = (rows.header(), rows.context());
        if header.group_fields.first().is_none_or(|field| field != HOST) {
            return Err(io::Error::other(format!("{}: It is no table of a hub.", path.display())));
        }
        let moments = |key| moments(context.properties.get(key).map_or("", String::as_str));
        let head = TableHead {
            host: context.host.clone().unwrap_or_default(),
            fields: header.group_fields[1..].to_vec(),
            source: context.source.clone(),
            filter: context.properties.get(FILTER).cloned().unwrap_or_default(),
            // Rows have it.
            width_ns: 0,
            tally: context.tally.clone(),
            span_ns: context.span_ns.unwrap_or_default(),
            observed: moments(OBSERVED),
            uneven: uneven(context.properties.get(UNEVEN).map_or("", String::as_str)),
            ended: moments(ENDED),
        };
        let mut last: Option<[Arc<[String]>; 2]> = None;
        let rows = rows.map(move |row| {
            let row = row.map_err(fail)?;
            let labels = match &last {
                Some([groups, labels]) if *groups == row.groups => Arc::clone(labels),
                _ => row.groups.get(1..).unwrap_or_default().into(),
            };
            last = Some([row.groups, Arc::clone(&labels)]);
            Ok(TableRow { time_ns: row.time_ns, labels, done: row.histogram, waiting: row.waiting })
        });
        Ok((head, Box::new(rows)))
    }
}

fn uneven(text: &str) -> BTreeMap<u64, i64> {
    let one =
        |part: &str| part.split_once(':').and_then(|(start, more)| Some((start.parse().ok()?, more.parse().ok()?)));
    text.split(',').filter_map(one).collect()
}

fn moments(text: &str) -> Ranges {
    let range = |part: &str| {
        let (start, end) = part.split_once('-')?;
        let (start, end) = (start.parse::<u64>().ok()?, end.parse().ok()?);
        (start <= end).then_some(start..=end)
    };
    text.split(',').filter_map(range).collect()
}
