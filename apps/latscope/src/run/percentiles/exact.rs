//! Percentiles of the events themselves.

use crate::Failure;
use latscope_capture_file::is_pipe;
use latscope_event::{FieldSet, format_size};
use latscope_pipeline::Pipeline;
use latscope_series::{Budget, Exact, ExactBuilder};
use std::ops::ControlFlow;

/// Exact percentiles take single events, twice.
pub fn require_events(pipeline: &Pipeline) -> Result<(), Failure> {
    let reading = pipeline.reading();
    if reading.follow || reading.files.iter().any(|file| is_pipe(file)) {
        return Err(Failure::Usage(
            "--exact reads its input twice, so it needs a complete file, not a pipe or a growing file.".into(),
        ));
    }
    match pipeline.stored_file() {
        None => Ok(()),
        Some(file) => Err(Failure::Usage(format!(
            "{} has histograms, not events, so exact percentiles cannot be computed; remove --exact.",
            file.display()
        ))),
    }
}

/// Reads the events once more, for the exact percentiles of series of them.
pub fn exact(pipeline: &Pipeline, mut builders: Vec<ExactBuilder>) -> Result<Vec<Exact>, Failure> {
    if !pipeline.is_read_again() {
        return Err(Failure::Input(
            "Interrupted: --exact reads its input twice; let it finish, or remove --exact.".into(),
        ));
    }
    let fields = builders.iter().fold(FieldSet::default(), |fields, builder| fields.union(builder.fields()));
    pipeline.each_batch(fields, |context, batch, mask, is_new| {
        for builder in &mut builders {
            if is_new {
                builder.start_trace(context.start_ns);
            }
            builder.add(batch, mask);
        }
        if builders.iter().any(ExactBuilder::is_full) {
            ControlFlow::Break(too_much())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(builders.into_iter().map(ExactBuilder::finish).collect())
}

/// The refusal of exact percentiles that do not fit into memory.
fn too_much() -> Failure {
    let limit = format_size(Budget::default().limit() as u64);
    Failure::Usage(format!(
        "Exact percentiles of all intervals and groups need more than {limit} of memory; use a longer interval \
         (-i), fewer groups (--by), fewer percentiles (--p) or a filter, or remove --exact."
    ))
}
