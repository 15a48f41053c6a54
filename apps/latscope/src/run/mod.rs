//! Doing what was planned.

mod compare;
mod convert;
mod events;
mod heatmap;
mod histogram;
pub mod intervals;
mod lab;
mod list;
pub mod live;
pub mod output;
mod percentiles;
mod ping;
pub mod read;
mod record;
mod spectrogram;
pub mod stalls;
pub mod start;
pub mod stored;
mod stream;
mod summary;
mod unfinished;
mod unnamed;

use crate::Failure;
use crate::plan::Plan;

/// Carries out a plan.
pub fn run(plan: Plan) -> Result<(), Failure> {
    let (inputs, output) = plan.reads_and_writes();
    output::refuse_inputs(&inputs, output)?;
    if let Some(reading) = plan.reading().filter(|reading| reading.follow) {
        stream::refuse_complete_formats(reading)?;
        read::ends_by_signal(reading);
    }
    let draws = !matches!(plan, Plan::Summary(..) | Plan::Histogram(..) | Plan::Events(..) | Plan::Spectrogram(..));
    output::refuse_pictures(output, draws)?;
    match plan {
        Plan::Explain(text) => output::text(None, &format!("{text}\n")),
        Plan::Fields { json } => list::fields(json),
        Plan::Formats { json } => list::formats(json),
        Plan::Heatmap(reading, folding, typed) => heatmap::run(&reading, &folding, typed),
        Plan::Spectrogram(reading, folding, typed) => spectrogram::run(&reading, &folding, typed),
        Plan::Histogram(reading, folding, typed) => histogram::run(&reading, &folding, typed),
        Plan::Summary(reading, plan) => summary::run(&reading, &plan),
        Plan::Events(reading, plan) => events::run(&reading, &plan),
        Plan::Percentiles(reading, plan) => percentiles::run(&reading, &plan),
        Plan::Compare(plan) => compare::run(&plan),
        Plan::Record(reading, plan) => record::run(&reading, &plan),
        Plan::Lab(plan) => lab::run(&plan),
        Plan::Labs(json) => lab::list(json),
        Plan::Ping(plan) => ping::run(&plan),
        Plan::Say(text) => output::text(None, &text),
        Plan::Convert(reading, plan) => convert::run(&reading, &plan),
    }
}
