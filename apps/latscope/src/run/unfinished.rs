//! Requests of files that had not completed when the trace ended.

use super::read::Pass;
use crate::Failure;
use crate::plan::Reading;
use latscope_event::{Context, Field, Unfinished};
use latscope_series::Waiter;
use std::ops::ControlFlow;

/// The requests that wait at the end of traces from files, as far as the filter lets them through, in these groups.
///
/// # Errors
/// When the filter cannot be bound to the times of a trace.
pub fn waiters(reading: &Reading, contexts: &[Context], by: &[Field]) -> Result<Vec<Waiter>, Failure> {
    let mut waiters = Vec::new();
    for context in contexts.iter().filter(|context| !context.unfinished.is_empty()) {
        let mut pass = Pass::new(reading, None);
        let batch = Unfinished::batch(&context.unfinished);
        let _ = pass.batch(context, &batch, |batch, mask| {
            waiters.extend(Waiter::of_batch(batch, mask, by));
            ControlFlow::Continue(())
        });
        pass.failure.take().map_or(Ok(()), Err)?;
    }
    Ok(waiters)
}

/// Drops the unfinished requests that the filter does not let through, before a trace is written. Those that do not count as
/// waiting stay: they are an account of what may be missing.
pub fn keep_passing(reading: &Reading, context: &mut Context) {
    let mut passes = Vec::new();
    let mut pass = Pass::new(reading, None);
    let batch = Unfinished::batch(&context.unfinished);
    let _ = pass.batch(context, &batch, |batch, mask| {
        passes = (0..batch.len()).map(|row| mask.is_none_or(|mask| mask.get(row))).collect();
        ControlFlow::Continue(())
    });
    let mut passes = passes.into_iter();
    context.unfinished.retain(|request| !request.counts() || passes.next().unwrap_or(true));
}
