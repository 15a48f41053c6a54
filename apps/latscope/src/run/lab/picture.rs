//! Heat maps of all cells on one axis of latency, each from its own beginning, and curves over load.

use super::cell::{Cell, QUANTILES};
use crate::Failure;
use crate::notes::WORDING;
use crate::output;
use crate::plan::Lab as Plan;
use latscope_event::{Context, Field};
use latscope_series::{HistogramSeries, Quantity, Weight};
use latscope_view_report::{CurvePicture, CurvePoint, CurveSide, HeatmapOptions, curve, heatmap};
use std::path::PathBuf;

/// A picture has room for so many.
const PANELS: usize = 12;
/// Between two rounds nothing is drawn for this part of their time.
const GAP: i64 = 60;

/// Draws the cells, a dozen to a picture; returns the files.
pub fn all(plan: &Plan, cells: &[Cell]) -> Result<Vec<PathBuf>, Failure> {
    let least = cells.iter().map(|cell| cell.total.totals()).filter(|totals| totals.count > 0);
    let (min, max) = (least.clone().map(|totals| totals.min).min(), least.map(|totals| totals.max).max());
    // The same ends for all, whatever is in a picture; of a single latency there is no axis.
    let ends = min.zip(max).filter(|(min, max)| min < max);
    let mut files = Vec::new();
    // Experiments take different times, so each has a picture with an axis of time of its own.
    let of_experiment = cells.chunk_by(|a, b| a.experiment == b.experiment);
    for (number, some) in of_experiment.flat_map(|cells| cells.chunks(PANELS).enumerate()) {
        let name = &plan.lab.experiments[some[0].experiment].name;
        let path = plan.output.join(match number {
            0 => format!("heatmap-{name}.svg"),
            number => format!("heatmap-{name}-{}.svg", number + 1),
        });
        let series = laid_out(plan, some)?;
        let contexts: Vec<Context> = some.iter().flat_map(|cell| cell.contexts.clone()).collect();
        let mut context = Context::merged(&contexts);
        // The turns lie beside each other, at times that never were.
        context.span_ns = None;
        context.clock = latscope_event::Clock::unanchored("relative");
        context.source = format!("latscope lab {}", plan.lab.name);
        let options = HeatmapOptions {
            title: Some(match plan.lab.rounds {
                1 => format!("{}: latency of {name} in each directory", plan.lab.name),
                rounds => {
                    format!(
                        "{}: latency of {name} in each directory, {rounds} rounds with gaps between them",
                        plan.lab.name
                    )
                }
            }),
            theme: plan.theme,
            wording: WORDING,
            min: ends.map(|(min, _)| min),
            max: ends.map(|(_, max)| max),
            facet: true,
            in_order: true,
            strips: false,
            ..HeatmapOptions::default()
        };
        let picture = heatmap(&series, &[context], &options).map_err(|error| Failure::Input(error.to_string()))?;
        output::text(Some(&path), &picture)?;
        files.push(path);
    }
    Ok(files)
}

/// A picture for every experiment of several loads: how latency grows with them.
pub fn curves(plan: &Plan, cells: &[Cell]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for (number, experiment) in plan.lab.experiments.iter().enumerate().filter(|(_, of)| !of.loads.is_empty()) {
        let its_cells: Vec<&Cell> = cells.iter().filter(|cell| cell.experiment == number).collect();
        let sides: Vec<CurveSide> = (0..plan.directories.len()).filter_map(|at| side(plan, &its_cells, at)).collect();
        if sides.is_empty() {
            continue;
        }
        let contexts: Vec<Context> = its_cells.iter().flat_map(|cell| cell.contexts.clone()).collect();
        let mut context = Context::merged(&contexts);
        context.source = format!("latscope lab {}", plan.lab.name);
        let options = CurvePicture {
            title: format!("{}: latency of {} over the offered rate", plan.lab.name, experiment.name),
            width: 1000,
            theme: plan.theme,
            wording: WORDING,
            quantiles: QUANTILES.map(|(quantile, _)| quantile).to_vec(),
        };
        let path = plan.output.join(format!("curve-{}.svg", experiment.name));
        output::text(Some(&path), &curve(&sides, &[context], &options))?;
        files.push(path);
    }
    Ok(files)
}

/// The loads of a directory; `None` where not even the largest rate is known.
fn side(plan: &Plan, cells: &[&Cell], directory: usize) -> Option<CurveSide> {
    let cells = || cells.iter().filter(|cell| cell.directory == directory);
    let made_per_s = |cell: &Cell| cell.per_second(cell.total.totals().count);
    let largest_per_s = made_per_s(cells().find(|cell| cell.load.is_none())?);
    let point = |cell: &&&Cell| {
        Some(CurvePoint {
            offered_per_s: largest_per_s * f64::from(cell.load?) / 100.0,
            made_per_s: made_per_s(cell),
            latencies_ns: cell.quantiles().into_iter().map(|(raised, _)| Some(raised.value)).collect(),
        })
    };
    let name = plan.directories[directory].display().to_string();
    Some(CurveSide { name, largest_per_s, points: cells().filter_map(|cell| point(&cell)).collect() })
}

/// Rounds behind each other, from zero for each cell.
fn laid_out(plan: &Plan, cells: &[Cell]) -> Result<HistogramSeries, Failure> {
    let width_ns = cells.iter().flat_map(|cell| &cell.rounds).map(HistogramSeries::width_ns).next().unwrap_or(1);
    let by = vec![Field::Job, Field::Path];
    let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, by, width_ns);
    for cell in cells {
        let group = vec![cell.job.clone(), plan.directories[cell.directory].display().to_string()];
        let lengths = cell.rounds.iter().filter_map(HistogramSeries::range).map(|(first, last)| last - first + 1);
        let gap = (lengths.sum::<i64>() / GAP).max(1);
        let mut start = 0;
        for round in &cell.rounds {
            let Some((first, last)) = round.range() else { continue };
            for (&interval, slice) in round.slices() {
                for (_, sparse) in &slice.groups {
                    let inserted = series.insert(start + interval - first, group.clone(), sparse);
                    inserted.map_err(|error| Failure::Input(error.to_string()))?;
                }
            }
            start += last - first + 1 + gap;
        }
    }
    Ok(series)
}
