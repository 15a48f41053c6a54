//! What the words of `compare` mean.

use super::{Plan, Reading, Shape, is_svg, percentile_list, reading, shape, theme};
use crate::Failure;
use crate::args::{self, Arguments, Verb};
use latscope_series::compare::{CompareOptions, Limit};
use latscope_view_report::ComparePicture;
use std::path::PathBuf;

/// Plan of `compare`.
#[derive(Debug, PartialEq)]
pub struct Compare {
    /// Name and files of each side.
    pub sides: Vec<(String, Reading)>,
    pub options: CompareOptions,
    pub limit: Option<Limit>,
    pub shape: Shape,
    pub output: Option<PathBuf>,
    /// The picture, beside the table.
    pub chart: Option<ComparePicture>,
}

/// Plans `compare`.
pub fn plan(typed: Arguments) -> Result<Plan, Failure> {
    let Verb::Compare(typed) = typed.verb else { unreachable!("planned for compare only") };
    let name = |path: &PathBuf| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let mut names: Vec<String> = typed.traces.iter().map(name).collect();
    if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
        names = typed.traces.iter().map(|path| path.display().to_string()).collect();
    }
    if !typed.names.is_empty() {
        if typed.names.len() != names.len() {
            return Err(Failure::Usage(format!("--names takes a name for each of the {} traces.", names.len())));
        }
        names = typed.names;
    }
    let side = |path: &PathBuf| {
        reading(&args::Input {
            read: vec![path.clone()],
            source: None,
            files: typed.files.clone(),
            offsets: None,
            live: args::Live::default(),
            explain_filter: false,
            filter: typed.filter.iter().cloned().collect(),
        })
    };
    let readings: Vec<Reading> = typed.traces.iter().map(side).collect::<Result<_, _>>()?;
    let limit = typed.fail_if.as_deref().map(Limit::parse).transpose();
    let limit = limit.map_err(|message| Failure::Usage(format!("--fail-if: {message}.")))?;
    let mut quantiles: Vec<f64> = percentile_list("--p", &typed.percentiles)?.iter().map(|p| p / 100.0).collect();
    // A limit on a percentile that nobody looks at could never be exceeded.
    quantiles.extend(limit.iter().flat_map(Limit::quantiles));
    let chart = is_svg(&typed.output).then(|| ComparePicture {
        title: typed.look.title,
        width: typed.look.width,
        theme: theme(typed.look.dark, typed.look.light),
        filter: typed.filter.clone(),
    });
    Ok(Plan::Compare(Compare {
        sides: names.into_iter().zip(readings).collect(),
        options: CompareOptions { quantiles, rounds: typed.rounds, seed: typed.seed, ..CompareOptions::default() },
        limit,
        shape: shape(typed.table),
        output: typed.output,
        chart,
    }))
}
