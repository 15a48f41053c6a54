//! `latscope spark`.

use super::{output, reports};
use crate::Failure;
use crate::plan::Spark as Plan;
use latscope_pipeline::Pipeline;
use latscope_series::spark::{SparkMeasures, SparkTasks};
use latscope_view_term::SparkReport;
use std::ops::ControlFlow;

pub fn run(pipeline: &Pipeline, plan: &Plan) -> Result<(), Failure> {
    reports::ends_by_signal(pipeline.reading());
    let mut tasks = SparkTasks::default();
    let contexts = pipeline.each_batch::<Failure>(SparkTasks::fields(), |_, batch, mask, _| {
        let is_in = |row: &usize| mask.is_none_or(|mask| mask.get(*row));
        (0..batch.len()).filter(is_in).for_each(|row| tasks.add(batch, row));
        ControlFlow::Continue(())
    })?;
    let Some(context) = contexts.first().filter(|_| !tasks.stages.is_empty()) else {
        return Err(Failure::Input("No task of Spark was found; latscope spark reads event logs.".into()));
    };
    reports::say_notes(&contexts);
    let report = SparkReport::new(&tasks, context);
    match plan.json {
        true => output::text(plan.output.as_deref(), &report.json()),
        false => output::lines(plan.output.as_deref(), report.lines(plan.by, plan.top, output::room(&plan.output))),
    }?;
    if plan.fail_if.is_empty() {
        return Ok(());
    }
    let measures = SparkMeasures::new(&tasks);
    let broken: Vec<String> = plan.fail_if.iter().filter_map(|limit| limit.broken(&measures)).collect();
    if broken.is_empty() { Ok(()) } else { Err(Failure::Exceeded(format!("{}.", broken.join("; ")))) }
}
