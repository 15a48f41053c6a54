//! Doing what was planned.

mod agent;
mod alerts;
mod compare;
mod convert;
mod events;
mod executors;
mod explain;
mod flamegraph;
mod heatmap;
mod histogram;
mod hub;
mod lab;
mod list;
mod percentiles;
mod ping;
mod push;
mod record;
mod report;
pub mod reports;
mod serve;
mod spark;
mod spark_live;
mod spectrogram;
mod stacks;
mod summary;

use crate::plan::Plan;
use crate::{Failure, output};
use std::path::PathBuf;

/// Carries out a plan. What was followed and broke off in the middle is printed, and is a failure all the same.
pub fn run(plan: Plan) -> Result<(), Failure> {
    carry_out(plan)?;
    latscope_capture_file::broke_off().map_or(Ok(()), |why| Err(Failure::Input(why.into())))
}

fn carry_out(plan: Plan) -> Result<(), Failure> {
    let open = |reading, output: &Option<PathBuf>| reports::open(reading, output.as_deref());
    match plan {
        Plan::ExplainFilter(text) => output::text(None, &format!("{text}\n")),
        Plan::Fields { json } => list::fields(json),
        Plan::FieldNames => list::names(),
        Plan::Formats { json } => list::formats(json),
        Plan::Heatmap(reading, plan) => heatmap::run(&open(reading, &plan.output)?, &plan),
        Plan::Spectrogram(reading, plan) => spectrogram::run(&open(reading, &plan.output)?, plan),
        Plan::Histogram(reading, plan) => histogram::run(&open(reading, &plan.output)?, &plan),
        Plan::Summary(reading, plan) => summary::run(&open(reading, &plan.output)?, &plan),
        Plan::Explain(reading, plan) => explain::run(&open(reading, &plan.output)?, &plan),
        Plan::Stacks(reading, plan) => stacks::run(&open(reading, &plan.output)?, plan),
        Plan::SparkSample(plan) => executors::run(&plan),
        Plan::SparkLive(plan) => spark_live::run(&plan),
        Plan::Spark(reading, plan) => spark::run(&open(reading, &plan.output)?, &plan),
        Plan::Flamegraph(reading, plan) => flamegraph::run(&open(reading, &plan.output)?, plan),
        Plan::Events(reading, plan) => events::run(&open(reading, &plan.output)?, &plan),
        Plan::Percentiles(reading, plan) => percentiles::run(&open(reading, &plan.output)?, &plan),
        Plan::Compare(plan) => {
            plan.sides.iter().flat_map(|(_, turns)| turns).take(1).for_each(reports::ends_by_signal);
            compare::run(&plan)
        }
        Plan::Uncompared(plan) => compare::refuse(plan),
        Plan::Report(reading, plan) => report::run(&open(reading, &plan.output)?, &plan),
        Plan::Serve(reading, plan) => serve::run(&reports::open(reading, None)?, &plan),
        Plan::Record(reading, plan) => record::run(&reports::open(reading, Some(&plan.write))?, &plan),
        Plan::Agent(reading, plan) => {
            // SIGHUP does not end it.
            reports::hung_up();
            agent::run(&reports::open(reading, plan.tee.as_deref())?, &plan)
        }
        Plan::Hub(plan) => hub::run(&plan),
        Plan::Alerts(reading, plan) => alerts::run(reading, &plan),
        Plan::Lab(plan) => lab::run(&plan),
        Plan::Scan(plan) => lab::scan(&plan),
        Plan::SparkLab(plan) => lab::spark(&plan),
        Plan::Labs(json) => lab::list(json),
        Plan::Ping(plan) => ping::run(&plan),
        Plan::Say(text) => output::text(None, &text),
        Plan::Pages { folder, pages } => list::pages(&folder, &pages),
        Plan::Convert(reading, plan) => convert::run(&reports::open(reading, Some(&plan.write))?, &plan),
    }
}
