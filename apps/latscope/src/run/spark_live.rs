//! `latscope spark --graphite`: what executors do now, as they report it.

use super::{output, reports};
use crate::Failure;
use crate::plan::SparkLive as Plan;
use latscope_pipeline::Graphite;
use latscope_view_term::{SparkMetricsTable, spark_metrics_json};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// How often a signal is looked for.
const TURN: Duration = Duration::from_millis(50);

/// Runs until Ctrl-C, or for a time.
pub fn run(plan: &Plan) -> Result<(), Failure> {
    let path = plan.output.as_deref();
    let is_over = reports::interrupted();
    let graphite = Graphite::listen(plan.address)
        .map_err(|error| Failure::Input(format!("--graphite {}: Cannot listen there: {error}.", plan.address)))?;
    say!("latscope: listening on {}; Ctrl-C ends it", graphite.address());
    let (start, interval) = (Instant::now(), Duration::from_nanos(plan.interval_ns));
    let fail = |error: std::io::Error| Failure::Input(format!("Cannot be written: {error}."));
    let (mut out, mut table) = (output::open(path)?.growing(), SparkMetricsTable::default());
    let (mut next, room) = (start + interval, output::room(&plan.output));
    loop {
        let ends = is_over.load(Ordering::Relaxed)
            || plan.for_ns.is_some_and(|for_ns| start.elapsed() >= Duration::from_nanos(for_ns));
        if ends || Instant::now() >= next {
            next += interval;
            let executors = graphite.take();
            match plan.json {
                true => {
                    executors.iter().try_for_each(|executor| out.write_all(spark_metrics_json(executor).as_bytes()))
                }
                false => out.lines(&table.lines(&executors, room)),
            }
            .and_then(|()| out.flush())
            .map_err(fail)?;
        }
        if ends {
            return out.finish().map(|_| ()).map_err(fail);
        }
        thread::sleep(TURN);
    }
}
