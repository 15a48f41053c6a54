//! `latscope heatmap`.

use super::{output, reports};
use crate::Failure;
use crate::plan::Heatmap;
use latscope_pipeline::Pipeline;
use latscope_view_report::heatmap;

pub fn run(pipeline: &Pipeline, plan: &Heatmap) -> Result<(), Failure> {
    reports::ends_by_signal(pipeline.reading());
    if output::to_terminal(&plan.output) {
        return Err(Failure::Usage("Not writing SVG to a terminal; write it to a file: -o latency.svg.".into()));
    }
    let (series, contexts) = pipeline.series_to_plot(&plan.folding, plan.options.width.clamp(200, 4000) / 2)?;
    reports::say_groups(&series);
    pipeline.refuse_whole_jobs(&series)?;
    let picture = heatmap(&series, &contexts, &plan.options).map_err(|error| Failure::Usage(error.to_string()))?;
    output::text(plan.output.as_deref(), &picture)
}
