//! `latscope report`.

use super::{output, reports};
use crate::Failure;
use crate::notes::WORDING;
use crate::plan::Report;
use latscope_capture_bpf::usual;
use latscope_capture_file::is_pipe;
use latscope_event::{Context, Field, FieldSet, format_count, format_duration, format_size};
use latscope_pipeline::{Error, Pipeline};
use latscope_series::{Cube, CubeBuilder, CubeKey, CubeLimits};
use latscope_view_report::{ReportOptions, fit_report, report, report_keys};
use std::ops::ControlFlow;

/// Bytes of data per event, and at least and at most, unless a budget is given.
const BYTES_PER_EVENT: u64 = 1;
const LEAST_BUDGET: u64 = 1_000_000;
const MOST_BUDGET: u64 = 32_000_000;

/// What is known of the slowest events beside the attributes.
const OF_EXAMPLES: FieldSet = FieldSet::ALWAYS.with(&[Field::Size, Field::Offset, Field::Pid, Field::SampleWeight]);

pub fn run(pipeline: &Pipeline, plan: &Report) -> Result<(), Failure> {
    let reading = pipeline.reading();
    reports::ends_by_signal(reading);
    if output::to_terminal(&plan.output) {
        return Err(Failure::Usage("Not writing HTML to a terminal; write it to a file: -o report.html.".into()));
    }
    refuse_stored(pipeline)?;
    let derives = reading.live.is_none() && !is_read_once(pipeline);
    let (cube, contexts) = match cube(pipeline, plan, derives) {
        // The other attributes do without all events in memory.
        Err(Error::NotDerivable { .. }) => cube(pipeline, plan, false),
        done => done,
    }?;
    reports::say_notes(&contexts);
    let events = cube.events();
    if events == 0 {
        return Err(Failure::Input("There are no events to report, so no page was written.".into()));
    }
    let options = ReportOptions {
        title: plan.title.clone().unwrap_or_else(|| title(pipeline)),
        wording: WORDING,
        filter: reading.filter.as_ref().map(ToString::to_string),
        source: plan.source.clone(),
        traces: traces(pipeline),
        waiting: None,
    };
    let budget = plan.budget.unwrap_or((events.saturating_mul(BYTES_PER_EVENT)).clamp(LEAST_BUDGET, MOST_BUDGET));
    let cube = fit_report(cube, &contexts, &options, budget);
    let page = report(&cube, &contexts, &options);
    output::text(plan.output.as_deref(), &page)?;
    if let Some(file) = &plan.output {
        let columns = cube.range().map_or(0, |(_, columns)| columns) as u64;
        say!(
            "latscope: {}: {}, {} events in {} columns of {}",
            file.display(),
            format_size(page.len() as u64),
            format_count(events),
            format_count(columns),
            format_duration(cube.width_ns)
        );
    }
    Ok(())
}

/// Counts all events; with the attributes that are derived from many of them, if they are wanted.
fn cube(pipeline: &Pipeline, plan: &Report, derives: bool) -> Result<(Cube, Vec<Context>), Error> {
    let keys = keys(pipeline, derives);
    let mut builder = CubeBuilder::new(&keys, CubeLimits { width_ns: plan.interval_ns, ..CubeLimits::default() });
    let mut trace = 0;
    let contexts = pipeline.each_batch(fields(&keys), |context, batch, mask, starts| {
        if starts {
            builder.start_trace(trace);
            trace += 1;
        }
        builder.add(context, batch, mask);
        ControlFlow::<Error>::Continue(())
    })?;
    Ok((builder.finish().without_empty_attributes(), contexts))
}

fn is_read_once(pipeline: &Pipeline) -> bool {
    pipeline.reading().files.iter().any(|file| is_pipe(file))
}

/// Fails if a file holds histograms: the page needs single events.
pub fn refuse_stored(pipeline: &Pipeline) -> Result<(), Failure> {
    let Some(file) = pipeline.stored_file() else { return Ok(()) };
    Err(Failure::Input(format!(
        "{}: There are only histograms in this file, and the page needs single events; heatmap and percentiles draw it.",
        file.display()
    )))
}

/// What is read of each event for these attributes.
pub fn fields(keys: &[CubeKey]) -> FieldSet {
    let fields = keys.iter().filter_map(|&key| if let CubeKey::Field(field) = key { Some(field) } else { None });
    fields.collect::<FieldSet>().union(OF_EXAMPLES)
}

/// The names of the traces.
pub fn traces(pipeline: &Pipeline) -> Vec<String> {
    pipeline.reading().files.iter().map(|file| file.display().to_string()).collect()
}

/// The attributes that events may have.
pub fn keys(pipeline: &Pipeline, derives: bool) -> Vec<CubeKey> {
    let reading = pipeline.reading();
    let all = if derives { FieldSet::EVERY.union(FieldSet::DERIVED) } else { FieldSet::EVERY };
    let fields = match &reading.live {
        Some(live) => usual(live.source),
        // What is read once cannot be looked at beforehand.
        None if is_read_once(pipeline) => all,
        None => pipeline.present(all),
    };
    report_keys(|field| fields.contains(field), reading.files.len())
}

/// What is shown, in short.
pub fn title(pipeline: &Pipeline) -> String {
    let reading = pipeline.reading();
    let name = |path: &std::path::PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    match &reading.files[..] {
        [] => "live capture".into(),
        [file] => name(file).unwrap_or_else(|| file.display().to_string()),
        [file, rest @ ..] => format!("{} and {} more", name(file).unwrap_or_default(), rest.len()),
    }
}
