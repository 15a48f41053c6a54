//! What was typed means this: plain values, comparable in tests. No file is opened and nothing is printed here; what a plan has to
//! know about the machine comes in by [`World`].

mod agent;
mod alerts;
mod compare;
mod convert;
mod events;
mod explain;
mod flamegraph;
mod folding;
mod heatmap;
mod histogram;
mod hub;
mod lab;
mod percentiles;
mod ping;
mod push;
mod reading;
mod record;
mod report;
mod rotation;
mod serve;
mod shell;
mod spark;
mod spark_lab;
mod spectrogram;
mod stacks;
mod summary;
#[cfg(test)]
pub mod tests;

pub use agent::Agent;
pub use alerts::Alerts;
pub use compare::{Compare, Uncompared, uncompared};
pub use convert::{Conversion, Target};
pub use events::{Events, Sort};
pub use explain::Explain;
pub use flamegraph::{Against, Flamegraph};
pub use heatmap::Heatmap;
pub use histogram::Histogram;
pub use hub::Hub;
pub use lab::{Lab, Scan};
pub use latscope_pipeline::{Folding, Live, Mode, Reading};
pub use percentiles::{Percentiles, percentile_list};
pub use ping::{Ping, PingShow, ioping};
pub use reading::filter;
pub use record::Recording;
pub use report::Report;
pub use rotation::{Keep, Rotate};
pub use serve::Serve;
pub use spark::{Spark, SparkLive, SparkSample, SparkSource};
pub use spark_lab::{SparkLab, SparkSide};
pub use spectrogram::{Spectrogram, Style, quoted};
pub use stacks::Stacks;
pub use summary::Summary;

use crate::Failure;
use crate::args::{self, Arguments, Verb};
use crate::world::World;
use latscope_view_report::Theme;
use std::path::{Path, PathBuf};

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Plan {
    /// Print how a filter was understood.
    ExplainFilter(String),
    /// List fields or formats.
    Fields {
        json: bool,
    },
    /// List the names of fields, for shells.
    FieldNames,
    Formats {
        json: bool,
    },
    Heatmap(Reading, Heatmap),
    Spectrogram(Reading, Spectrogram),
    Histogram(Reading, Histogram),
    Summary(Reading, Summary),
    Events(Reading, Events),
    Explain(Reading, Explain),
    Stacks(Reading, Stacks),
    Flamegraph(Reading, Flamegraph),
    Spark(Reading, Spark),
    SparkLive(SparkLive),
    SparkSample(SparkSample),
    Percentiles(Reading, Percentiles),
    Compare(Compare),
    /// Say why nothing is compared, also in the files of results.
    Uncompared(Uncompared),
    Report(Reading, Report),
    Serve(Reading, Serve),
    Record(Reading, Recording),
    Convert(Reading, Conversion),
    Agent(Reading, Agent),
    Hub(Hub),
    Alerts(Reading, Alerts),
    Ping(Box<Ping>),
    Lab(Box<Lab>),
    Scan(Box<Scan>),
    SparkLab(Box<SparkLab>),
    /// List the labs, as JSON or not.
    Labs(bool),
    /// Print this and be done.
    Say(String),
    /// Write these files, each with its name, to a folder.
    Pages {
        folder: PathBuf,
        pages: Vec<(String, String)>,
    },
}

/// How a table is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    Text,
    Csv,
    Json,
}

/// Makes a plan of what was typed; also, notes about options that change nothing.
///
/// # Errors
/// [`Failure::Usage`] when it makes no sense.
pub fn plan(mut typed: Arguments, world: &World) -> Result<(Plan, Vec<String>), Failure> {
    let over_time =
        matches!(typed.verb, Verb::Heatmap(_) | Verb::Spectrogram(_) | Verb::Percentiles(_) | Verb::Report(_));
    // The words at the end are what is explained, and do not restrict the trace.
    let within = if let Verb::Explain(typed) = &mut typed.verb { Some(typed.within.take()) } else { None };
    let is_of_stacks = matches!(typed.verb, Verb::Stacks(_) | Verb::Flamegraph(_));
    let for_ns = match &mut typed.verb {
        Verb::Spark(args::Spark { input, .. }) if input.follow => folding::duration("--for", &input.live.for_.take())?,
        _ => None,
    };
    let mut selection = None;
    let input = match &mut typed.verb {
        Verb::Heatmap(typed) => Some(&mut typed.input),
        Verb::Spectrogram(typed) => Some(&mut typed.input),
        Verb::Histogram(typed) => Some(&mut typed.input),
        Verb::Summary(typed) => Some(&mut typed.input),
        Verb::Events(typed) => Some(&mut typed.input),
        Verb::Explain(typed) => Some(&mut typed.input),
        Verb::Stacks(typed) => Some(&mut typed.input),
        Verb::Flamegraph(typed) => Some(&mut typed.input),
        Verb::Spark(typed) => Some(&mut typed.input),
        Verb::Percentiles(typed) => Some(&mut typed.input),
        Verb::Convert(typed) => Some(&mut typed.input),
        Verb::Serve(typed) => Some(&mut typed.input),
        Verb::Report(typed) => Some(&mut typed.input),
        _ => None,
    };
    let mut remarks = Vec::new();
    let reading = match input {
        None => Reading::default(),
        Some(input) => {
            input.take_files(world);
            if input.explain_filter {
                let filter = reading::filter_of(input)?;
                let text = filter.map_or("(everything)".into(), |filter| filter.to_string());
                return Ok((Plan::ExplainFilter(text), Vec::new()));
            }
            if let Some(within) = within {
                selection = filter(&input.filter.join(" "), None)?;
                input.filter = within.into_iter().collect();
            }
            input.take_standard_input(world);
            if is_of_stacks {
                input.take_stacks();
            }
            reading::reading(input, over_time)?
        }
    };
    let plan = match typed.verb {
        Verb::Heatmap(typed) => {
            let (plan, more) = heatmap::plan(typed, &reading)?;
            remarks = more;
            Plan::Heatmap(reading, plan)
        }
        Verb::Spectrogram(typed) => Plan::Spectrogram(reading, spectrogram::plan(typed)?),
        Verb::Histogram(typed) => Plan::Histogram(reading, histogram::plan(typed)?),
        Verb::Summary(typed) => Plan::Summary(reading, summary::plan(typed)?),
        Verb::Events(typed) => Plan::Events(reading, events::plan(typed)?),
        Verb::Explain(typed) => Plan::Explain(reading, explain::plan(typed, selection)?),
        Verb::Stacks(typed) => {
            let mut reading = reading;
            let plan = stacks::plan(typed, &mut reading)?;
            Plan::Stacks(reading, plan)
        }
        Verb::Flamegraph(typed) => {
            let plan = flamegraph::plan(typed, &reading, world)?;
            Plan::Flamegraph(reading, plan)
        }
        Verb::Spark(args::Spark { sample: Some(output), .. }) => Plan::SparkSample(spark::sample(output, &reading)),
        Verb::Spark(typed) if typed.graphite.is_some() || typed.input.follow => {
            Plan::SparkLive(spark::live(typed, &reading, for_ns)?)
        }
        Verb::Spark(typed) => {
            let mut reading = reading;
            let plan = spark::plan(typed, &mut reading)?;
            Plan::Spark(reading, plan)
        }
        Verb::Percentiles(typed) => Plan::Percentiles(reading, percentiles::plan(typed)?),
        Verb::Convert(typed) => Plan::Convert(reading, convert::plan(typed)?),
        Verb::Compare(typed) => compare::plan(typed, world)?,
        Verb::Report(typed) => {
            let mut reading = reading;
            let plan = report::plan(typed, &mut reading)?;
            Plan::Report(reading, plan)
        }
        Verb::Serve(typed) => {
            let plan = serve::plan(typed, &reading)?;
            Plan::Serve(reading, plan)
        }
        Verb::Record(typed) => record::plan(typed)?,
        Verb::Agent(typed) => agent::plan(typed, world)?,
        Verb::Hub(typed) => alerts::plan(typed)?,
        Verb::Ping(typed) => ping::plan(&typed.words, world)?,
        Verb::Lab(typed) => lab::plan(typed, world)?,
        Verb::Fields(typed) if typed.names => Plan::FieldNames,
        Verb::Fields(typed) => Plan::Fields { json: typed.json },
        Verb::Formats(typed) => Plan::Formats { json: typed.json },
        Verb::Completions(typed) => Plan::Say(shell::completions(typed.shell)?),
        Verb::Man(typed) => shell::pages(typed, world)?,
    };
    plan.refuse_pictures()?;
    Ok((plan, remarks))
}

impl Plan {
    /// Fails if a file is called like a picture of a kind that is not drawn, or like any where there is only text.
    fn refuse_pictures(&self) -> Result<(), Failure> {
        match self {
            Plan::Heatmap(_, plan) => refuse_pictures(plan.output.as_deref(), true),
            Plan::Flamegraph(_, plan) => refuse_pictures(plan.output.as_deref(), true),
            Plan::Stacks(_, plan) => refuse_pictures(plan.output.as_deref(), false),
            Plan::Spark(_, plan) => refuse_pictures(plan.output.as_deref(), true),
            Plan::SparkSample(plan) => refuse_pictures(Some(&plan.output), false),
            Plan::SparkLive(plan) => refuse_pictures(plan.output.as_deref(), true),
            Plan::Percentiles(_, plan) => refuse_pictures(plan.output.as_deref(), true),
            Plan::Compare(plan) => refuse_pictures(plan.output.as_deref(), true),
            Plan::Convert(_, plan) => refuse_pictures(Some(&plan.write), true),
            Plan::Spectrogram(_, plan) => refuse_pictures(plan.output.as_deref(), false),
            Plan::Histogram(_, plan) => refuse_pictures(plan.output.as_deref(), false),
            Plan::Summary(_, plan) => refuse_pictures(plan.output.as_deref(), false),
            Plan::Events(_, plan) => refuse_pictures(plan.output.as_deref(), false),
            Plan::Explain(_, plan) => refuse_pictures(plan.output.as_deref(), false),
            _ => Ok(()),
        }
    }
}

/// Fails if a file is called like a picture of a kind that is not drawn, or like any where there is only text.
fn refuse_pictures(output: Option<&Path>, draws: bool) -> Result<(), Failure> {
    const PICTURES: [&str; 10] = ["png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "pdf", "eps"];
    let ending = output.and_then(Path::extension).map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let shown = output.unwrap_or(Path::new("")).display();
    match ending.as_deref() {
        Some(ending) if PICTURES.contains(&ending) && draws => {
            Err(Failure::Usage(format!("-o {shown}: pictures are SVG; end the name in .svg.")))
        }
        Some(ending) if ending == "svg" || PICTURES.contains(&ending) => match draws {
            true => Ok(()),
            false => Err(Failure::Usage(format!(
                "-o {shown}: this view is text; heatmap, percentiles, compare, flamegraph and spark draw pictures (SVG)."
            ))),
        },
        _ => Ok(()),
    }
}

/// As asked, else by the ending of the file.
fn shape(typed: args::Table, output: &Option<PathBuf>) -> Shape {
    let ending = output.as_ref().and_then(|path| path.extension()).and_then(|ending| ending.to_str());
    match (typed.csv, typed.json, ending) {
        (true, ..) | (_, false, Some("csv")) => Shape::Csv,
        (_, true, _) | (.., Some("json" | "jsonl" | "ndjson")) => Shape::Json,
        _ => Shape::Text,
    }
}

/// Whether a picture is asked for.
fn is_svg(output: &Option<PathBuf>) -> bool {
    output.as_ref().and_then(|path| path.extension()).is_some_and(|ending| ending.eq_ignore_ascii_case("svg"))
}

pub fn theme(dark: bool, light: bool) -> Theme {
    match (dark, light) {
        (true, _) => Theme::Dark,
        (_, true) => Theme::Light,
        _ => Theme::Adaptive,
    }
}
