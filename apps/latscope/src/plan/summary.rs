//! What the words of `summary` mean.

use super::folding::{fields, interval};
use super::{Folding, Shape, shape};
use crate::{Failure, args};
use latscope_event::{Field, parse_duration};
use latscope_series::Weight;
use latscope_view_term::SummaryKey;
use std::path::PathBuf;

/// Plan of `summary`.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub folding: Folding,
    /// Nobody asked for these groups: where stored histograms do not have them, all are summed up.
    pub by_default: bool,
    pub over_ns: Option<u64>,
    /// Utilization, saturation and errors are asked for.
    pub shows_use: bool,
    /// Peers that are different are asked for.
    pub different: bool,
    pub sort: SummaryKey,
    pub shape: Shape,
    pub output: Option<PathBuf>,
}

/// Plans `summary`.
pub fn plan(typed: args::Summary) -> Result<Summary, Failure> {
    let over_ns = match &typed.over {
        None => None,
        Some(text) => Some(parse_duration(text).map_err(|error| Failure::Usage(format!("--over: {error}.")))?),
    };
    if over_ns.is_some() && typed.shows_use && typed.interval.is_none() {
        return Err(Failure::Usage("--use and --over cannot be combined without -i.".into()));
    }
    let by_default = typed.by.is_empty();
    let by = match &typed.by[..] {
        // Most calls have no device that says more than their file.
        [] if typed.input.read.is_empty() && calls(typed.input.source) => vec![Field::Name],
        [] => vec![Field::Device],
        [none] if none == "none" => Vec::new(),
        names => fields("--by", names)?,
    };
    let sort = sort(&typed.sort, &by, typed.shows_use)?;
    let quantity = typed.quantity;
    let completed_only = typed.completed_only;
    let folding = Folding {
        by,
        weight: Weight::Bytes,
        quantity,
        completed_only,
        precision: typed.precision,
        ..Folding::of_latencies(interval(&typed.interval)?)
    };
    let shows_use = typed.shows_use;
    Ok(Summary {
        folding,
        by_default,
        over_ns,
        shows_use,
        different: typed.different,
        sort,
        shape: shape(typed.table, &typed.output),
        output: typed.output,
    })
}

/// The column to sort by: any that is printed, by its heading or its key.
fn sort(column: &str, by: &[Field], shows_use: bool) -> Result<SummaryKey, Failure> {
    let is_group = by.iter().any(|field| field.name() == column);
    let key = if is_group { Some(SummaryKey::Group) } else { SummaryKey::from_name(column) };
    match key {
        Some(key) if key.is_use() && !shows_use => {
            Err(Failure::Usage(format!("--sort {column} needs --use, which shows this column.")))
        }
        Some(key) => Ok(key),
        None => Err(Failure::Usage(format!(
            "--sort {column}: unknown column; use group, count, rate, bytes/s, min, mean, sd, p50, p90, p99, p99.9, p99.99, \
             max, time, waiting or oldest; with --use also queue, 'in flight', busy or errors."
        ))),
    }
}

/// Whether system calls are asked for.
fn calls(source: Option<args::Source>) -> bool {
    matches!(source, Some(args::Source::Io | args::Source::Syscall))
}
