//! What the words of `events` mean.

use super::folding::column;
use super::{Shape, shape};
use crate::{Failure, args};
use latscope_view_report::rows::{RowColumn, Wall};
use std::path::PathBuf;

/// Plan of `events`.
#[derive(Debug, PartialEq)]
pub struct Events {
    /// `None`: what the source fills.
    pub columns: Option<Vec<RowColumn>>,
    pub top: Option<usize>,
    pub sort: Option<Sort>,
    pub shape: Shape,
    pub output: Option<PathBuf>,
}

/// The order of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// The earliest first.
    Time,
    /// The slowest first.
    Latency,
}

/// Plans `events`.
pub fn plan(typed: args::Events) -> Result<Events, Failure> {
    // What the filter takes for the completion is a number or a text of wall-clock time here.
    let column = |name: &String| match name.trim() {
        "end_ns" | "end" | "ts" | "evt.rawtime" => Ok(RowColumn::End),
        "wall" | "evt.time" | "evt.datetime" | "evt.time.iso8601" => Ok(RowColumn::Wall(Wall::default())),
        name => column("--columns", name).map(RowColumn::Field),
    };
    let columns = typed.columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let columns = Some(columns).filter(|columns| !columns.is_empty());
    Ok(Events {
        columns,
        top: typed.top,
        sort: typed.sort.map(|sort| match sort {
            args::Sort::Time => Sort::Time,
            args::Sort::Latency => Sort::Latency,
        }),
        shape: shape(typed.table, &typed.output),
        output: typed.output,
    })
}
