//! The folder of a hub (`--data`): tables in Parquet by day and host, and the journal that they are made of.

mod tables;

use crate::input::Input;
use crate::series_rows::{SeriesHeader, SeriesRow, SeriesRows};
use crate::{Detected, Error, Position, ReadOptions};
use latscope_event::{Clock, Context};
use latscope_wire::history::{HistoryRow, HistoryRows, is_history};
use std::sync::Arc;
pub use tables::SeriesTables;

/// The field of who sent it.
const HOST: &str = "host";

/// By the names of the files in it.
pub fn detect(input: &Input) -> Detected {
    match input.path.as_ref().is_some_and(|path| is_history(path)) {
        true => Detected::Yes,
        false => Detected::No,
    }
}

/// Opens a folder.
pub fn open(input: Input<'static>, options: &ReadOptions) -> Result<Box<dyn SeriesRows>, Error> {
    let fail = |message: String| Error::new(&input.name, Position::File, message);
    let folder = input.path.as_ref().filter(|path| path.is_dir());
    let path = folder.ok_or_else(|| fail("This is no folder of a hub (latscope hub --data).".into()))?;
    let rows = HistoryRows::open(path, Arc::new(SeriesTables), options.query, (i64::MAX, None));
    let rows = rows.map_err(|error| fail(format!("Cannot be read: {error}.")))?;
    let mut context = Context::new(format!("hub, {}", input.name), Clock::wall());
    if !rows.source().is_empty() {
        context.properties.insert("source".into(), rows.source().into());
    }
    let group_fields = std::iter::once(HOST.to_string()).chain(rows.fields().iter().cloned()).collect();
    let header = SeriesHeader { group_fields, value: "latency".into(), weight: "count".into() };
    Ok(Box::new(History { name: input.name.clone(), header, context, rows, group: None, is_over: false }))
}

/// The rows of a folder.
struct History {
    name: String,
    header: SeriesHeader,
    context: Context,
    rows: HistoryRows,
    /// The labels of the last row, with the host: most rows share theirs with the one before.
    group: Option<(HistoryRow, Arc<[String]>)>,
    is_over: bool,
}

impl History {
    fn row(&mut self, row: HistoryRow) -> SeriesRow {
        let width_ns = self.rows.width_ns();
        [row.time_ns, row.time_ns.saturating_add_unsigned(width_ns)].into_iter().for_each(|ns| self.context.cover(ns));
        let is_same = |last: &HistoryRow| Arc::ptr_eq(&last.labels, &row.labels) && Arc::ptr_eq(&last.host, &row.host);
        let groups = match &self.group {
            Some((last, groups)) if is_same(last) => Arc::clone(groups),
            _ => std::iter::once(row.host.to_string()).chain(row.labels.iter().cloned()).collect(),
        };
        let (time_ns, histogram, waiting) = (row.time_ns, row.done.clone(), row.waiting.clone());
        self.group = Some((row, Arc::clone(&groups)));
        SeriesRow { time_ns, width_ns, groups, histogram, waiting }
    }
}

impl SeriesRows for History {
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

impl Iterator for History {
    type Item = Result<SeriesRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let row = self.rows.next();
        self.is_over = !matches!(row, Some(Ok(_)));
        if row.is_none() {
            self.context.tally = self.rows.tally.clone();
            let width_ns = self.rows.width_ns();
            if let Some(hosts) = self.rows.hosts() {
                crate::frames::note_repeated(&hosts, &mut self.context);
                self.context.note(crate::frames::hosts(hosts, width_ns));
            }
        }
        Some(match row? {
            Ok(row) => Ok(self.row(row)),
            Err(error) => {
                let message =
                    format!("Cannot be read: {error}. If its hub is running, read from the hub: -r hub://HOST.");
                Err(Error::new(&self.name, Position::File, message))
            }
        })
    }
}
