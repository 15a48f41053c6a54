//! `latscope spark`.

use super::{output, reports};
use crate::Failure;
use crate::plan::{Reading, Spark as Plan};
use latscope_pipeline::Pipeline;
use latscope_series::spark::{SparkMeasures, SparkTasks};
use latscope_series::{SparkTaskWaits, SparkWaits};
use latscope_view_term::{SparkReport, spark_wait_json, spark_wait_lines};
use std::ops::ControlFlow;
use std::path::PathBuf;

pub fn run(pipeline: &Pipeline, plan: &Plan) -> Result<(), Failure> {
    reports::ends_by_signal(pipeline.reading());
    let (mut tasks, mut waits) = (SparkTasks::default(), SparkWaits::default());
    let contexts = pipeline.each_batch::<Failure>(
        SparkTasks::fields().union(SparkWaits::task_fields()),
        |_, batch, mask, _| {
            let is_in = |row: &usize| mask.is_none_or(|mask| mask.get(*row));
            for row in (0..batch.len()).filter(is_in) {
                tasks.add(batch, row);
                waits.add_task(batch, row);
            }
            ControlFlow::Continue(())
        },
    )?;
    let Some(context) = contexts.first().filter(|_| !tasks.stages.is_empty()) else {
        return Err(Failure::Input("No task of Spark was found; latscope spark reads event logs.".into()));
    };
    reports::say_notes(&contexts);
    let report = SparkReport::new(&tasks, context);
    let waits = if plan.kernel.is_empty() { None } else { Some(with_kernel(waits, &plan.kernel)?) };
    match plan.json {
        true => {
            let mut json = report.json();
            if let Some((tasks, unseen)) = &waits {
                json.truncate(json.trim_end().len() - 1);
                json += &format!(",\"kernel\":{}}}\n", spark_wait_json(tasks, unseen));
            }
            output::text(plan.output.as_deref(), &json)
        }
        false => {
            let room = output::room(&plan.output);
            let mut lines = report.lines(plan.by, plan.top, room);
            if let Some((tasks, unseen)) = &waits {
                lines.extend(spark_wait_lines(tasks, unseen, plan.top, room));
            }
            output::lines(plan.output.as_deref(), lines)
        }
    }?;
    if plan.fail_if.is_empty() {
        return Ok(());
    }
    let measures = SparkMeasures::new(&tasks);
    let broken: Vec<String> = plan.fail_if.iter().filter_map(|limit| limit.broken(&measures)).collect();
    if broken.is_empty() { Ok(()) } else { Err(Failure::Exceeded(format!("{}.", broken.join("; ")))) }
}

/// What the tasks waited for, by what the kernels of their hosts saw.
fn with_kernel(mut waits: SparkWaits, files: &[PathBuf]) -> Result<(Vec<SparkTaskWaits>, Vec<String>), Failure> {
    for file in files {
        let pipeline = reports::open(Reading { files: vec![file.clone()], ..Reading::default() }, None)?;
        waits.start_host();
        let contexts = pipeline.each_batch::<Failure>(SparkWaits::kernel_fields(), |_, batch, _, _| {
            (0..batch.len()).for_each(|row| waits.add_event(batch, row));
            ControlFlow::Continue(())
        })?;
        reports::say_notes(&contexts);
    }
    Ok(waits.finish())
}
