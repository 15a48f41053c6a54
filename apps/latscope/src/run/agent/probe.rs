//! Where the intervals of an agent come from: a capture, or requests of its own.

use crate::Failure;
use crate::plan::Agent as Plan;
use crate::run::ping::failure;
use latscope_capture_probe::{Capture, Operation, Probe};
use latscope_event::{Context, format_size};
use latscope_pipeline::{Intervals, Pipeline};

/// Hands on the intervals as they pass, until it is over.
pub fn intervals<T>(pipeline: &Pipeline, plan: &Plan, taker: &mut T) -> Result<Context, Failure>
where
    T: Intervals<Error = Failure>,
{
    if plan.probes.is_empty() {
        return pipeline.intervals(&plan.folding, taker);
    }
    let capture = Capture::start(plan.probes.clone()).map_err(|error| failure(&error))?;
    capture.remarks().iter().for_each(|remark| say!("latscope: {remark}"));
    for (number, probe) in plan.probes.iter().enumerate() {
        say!("latscope: {}", describe(probe, &capture, number));
    }
    pipeline.probed_intervals(capture, plan.for_ns, &plan.folding, taker)
}

/// `probing /srv (ext4 /dev/vda 252GiB): 10 reads of 4KiB per second`.
fn describe(probe: &Probe, capture: &Capture, number: usize) -> String {
    let what = if probe.work.operation == Operation::Write { "durable writes" } else { "reads" };
    let (target, place) = (probe.target.display(), capture.place(number));
    let (rate, size) = (1e9 / probe.pace.interval_ns, format_size(probe.work.size));
    format!("probing {target} ({place}): {rate:.0} {what} of {size} per second")
}
