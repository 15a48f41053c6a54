//! `latscope heatmap`.

use super::{output, read, stored};
use crate::Failure;
use crate::args;
use crate::plan::{Folding, Reading, percentile_list, theme};
use latscope_series::Weight;
use latscope_view_report::{HeatmapOptions, heatmap};

pub fn run(reading: &Reading, folding: &Folding, typed: args::Heatmap) -> Result<(), Failure> {
    read::ends_by_signal(reading);
    if output::to_terminal(&typed.output) {
        return Err(Failure::Usage("Not writing SVG to a terminal; write it to a file: -o latency.svg.".into()));
    }
    let options = options(reading, folding, &typed)?;
    let (series, contexts) = read::series_to_plot(reading, folding, typed.look.width.clamp(200, 4000) / 2)?;
    stored::refuse_runs(reading, &series)?;
    let picture = heatmap(&series, &contexts, &options).map_err(|error| Failure::Usage(error.to_string()))?;
    output::text(typed.output.as_deref(), &picture)
}

fn options(reading: &Reading, folding: &Folding, typed: &args::Heatmap) -> Result<HeatmapOptions, Failure> {
    Ok(HeatmapOptions {
        title: typed.look.title.clone(),
        width: typed.look.width,
        rows: typed.rows,
        scale_y: typed.scale,
        min: folding.min,
        max: folding.max,
        color: typed.color,
        // Typed in seconds of time spent, drawn in nanoseconds.
        color_max: typed.color_max.map(|rate| if folding.weight == Weight::Time { rate * 1e9 } else { rate }),
        palette: typed.palette,
        theme: theme(typed.look.dark, typed.look.light),
        percentiles: percentiles(&typed.lines)?,
        strips: !typed.no_strips,
        grid: typed.grid,
        filter: reading.filter.as_ref().map(ToString::to_string),
        facet: !folding.by.is_empty(),
        max_tooltips: typed.tooltips,
        ..HeatmapOptions::default()
    })
}

/// `50,99,99.9` as quantiles.
fn percentiles(text: &str) -> Result<Vec<f64>, Failure> {
    if text == "none" {
        return Ok(Vec::new());
    }
    Ok(percentile_list("--lines", text)?.into_iter().map(|percentile| percentile / 100.0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_lists() {
        assert_eq!(percentiles("50, p99,100").ok(), Some(vec![0.5, 0.99, 1.0]));
        assert_eq!(percentiles("none").ok(), Some(vec![]));
        assert!(percentiles("101").is_err() && percentiles("x").is_err() && percentiles("").is_err());
    }
}
