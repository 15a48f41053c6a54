//! What the words of `heatmap` mean.

use super::folding::folding;
use super::{Folding, Reading, percentile_list, theme};
use crate::notes::WORDING;
use crate::{Failure, args};
use latscope_event::Field;
use latscope_series::{Quantity, Weight};
use latscope_view::Scale;
use latscope_view_report::HeatmapOptions;
use std::path::PathBuf;

/// Plan of `heatmap`.
#[derive(Debug, PartialEq)]
pub struct Heatmap {
    pub folding: Folding,
    pub options: HeatmapOptions,
    pub output: Option<PathBuf>,
}

/// Plans `heatmap`; also, notes about options that change nothing.
pub fn plan(mut typed: args::Heatmap, reading: &Reading) -> Result<(Heatmap, Vec<String>), Failure> {
    let remarks = trace2heatmap(&mut typed)?;
    let mut folding = folding(&typed.fold, &typed.input)?;
    // Offsets of different devices share nothing but their unit; two columns know no device.
    let has_devices = reading.two_columns.unit_bytes.is_none();
    if folding.quantity == Quantity::Offset && folding.by.is_empty() && has_devices {
        folding.by.push(Field::Device);
    }
    let options = options(reading, &folding, &typed)?;
    Ok((Heatmap { folding, options, output: typed.output }, remarks))
}

fn options(reading: &Reading, folding: &Folding, typed: &args::Heatmap) -> Result<HeatmapOptions, Failure> {
    Ok(HeatmapOptions {
        wording: WORDING,
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
        filter: Some(reading.filter_text()).filter(|text| !text.is_empty()),
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

/// The options of trace2heatmap in the words of this program.
fn trace2heatmap(typed: &mut args::Heatmap) -> Result<Vec<String>, Failure> {
    if let (Some(seconds), None) = (typed.step_seconds, &typed.fold.interval) {
        typed.fold.interval = Some(format!("{seconds}s"));
    }
    if let (Some(step), Some(max), None) = (typed.step_latency.filter(|&step| step > 0), &typed.fold.max, typed.rows) {
        let number = |text: &str| text.parse::<u64>().ok();
        let min = typed.fold.min.as_deref().map_or(Some(0), number);
        let (Some(max), Some(min)) = (number(max), min) else {
            let message = "--steplat needs --minlat and --maxlat without units; otherwise use --rows.";
            return Err(Failure::Usage(message.into()));
        };
        typed.rows = Some(u32::try_from(max.saturating_sub(min).div_ceil(step)).unwrap_or(u32::MAX).clamp(1, 1000));
        typed.scale = typed.scale.or(Some(Scale::Linear));
    }
    let without = [
        (
            "--maxcol",
            typed.maxcol.is_some(),
            "all columns are drawn; limit the time with a filter such as time < \
                                              +60s",
        ),
        ("--boxsize", typed.boxsize.is_some(), "--width sets the width of the picture"),
        ("--fonttype", typed.fonttype.is_some(), "the picture uses the viewer's fonts"),
        ("--fontsize", typed.fontsize.is_some(), "the picture scales with its text"),
        ("--accstats", typed.accstats, "tooltips have counts and percentiles of each column"),
    ];
    let given = without.iter().filter(|(_, is_given, _)| *is_given);
    Ok(given.map(|(option, _, why)| format!("{option} has no effect: {why}.")).collect())
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
