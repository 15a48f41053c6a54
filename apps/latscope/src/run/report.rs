//! `latscope report`.

use super::{output, reports};
use crate::Failure;
use crate::notes::{WORDING, plural};
use crate::plan::Report;
use latscope_capture_bpf::usual;
use latscope_capture_file::is_pipe;
use latscope_event::{FieldSet, format_duration, format_size};
use latscope_pipeline::{Error, Pipeline};
use latscope_series::{Cube, CubeKey};
use latscope_view_report::{REPORT_TEMPLATE, ReportOptions, fit_report, report, report_keys, report_title};

/// Bytes of data per event, and at least and at most, unless a budget is given.
const BYTES_PER_EVENT: u64 = 1;
const LEAST_BUDGET: u64 = 1_000_000;
const MOST_BUDGET: u64 = 32_000_000;

pub fn run(pipeline: &Pipeline, plan: &Report) -> Result<(), Failure> {
    let reading = pipeline.reading();
    reports::ends_by_signal(reading);
    if output::to_terminal(&plan.output) {
        return Err(Failure::Usage("Not writing HTML to a terminal; write it to a file: -o report.html.".into()));
    }
    refuse_stored(pipeline)?;
    let derives = reading.live.is_none() && !is_read_once(pipeline);
    let (cube, spots, contexts) = match pipeline.cube(&keys(pipeline, derives), plan.interval_ns) {
        // The other attributes do without all events in memory.
        Err(Error::NotDerivable { .. }) => pipeline.cube(&keys(pipeline, false), plan.interval_ns),
        done => done,
    }?;
    reports::say_notes(&contexts);
    let events = cube.events();
    let waiting = pipeline.passing_unfinished(&contexts)?;
    let options = ReportOptions {
        title: plan.title.clone().unwrap_or_else(|| title(pipeline)),
        wording: WORDING,
        filter: Some(reading.filter_text()).filter(|text| !text.is_empty()),
        source: plan.source.clone(),
        traces: traces(pipeline),
        spots,
        waiting: Some(waiting),
        section: super::spark::section(pipeline)?,
    };
    let budget = plan.budget.unwrap_or((events.saturating_mul(BYTES_PER_EVENT)).clamp(LEAST_BUDGET, MOST_BUDGET));
    let cube = fit_report(cube, &contexts, &options, budget);
    let page = report(&cube, &contexts, &options);
    output::text(plan.output.as_deref(), &page)?;
    note_limits(plan, &cube, page.len().saturating_sub(REPORT_TEMPLATE.len()) as u64);
    if let Some(file) = &plan.output {
        let columns = cube.range().map_or(0, |(_, columns)| columns) as u64;
        say!(
            "latscope: {}: {}, {} in {} of {}",
            file.display(),
            format_size(page.len() as u64),
            plural(events, "event"),
            plural(columns, "column"),
            format_duration(cube.width_ns)
        );
    }
    Ok(())
}

/// Reports which options could not be kept.
fn note_limits(plan: &Report, cube: &Cube, bytes: u64) {
    if let Some(asked_ns) = plan.interval_ns.filter(|&asked_ns| asked_ns != cube.width_ns) {
        let [asked, width] = [asked_ns, cube.width_ns].map(format_duration);
        say!("latscope: -i {asked}: Columns are {width} wide; narrower ones exceed 6,000 columns or the budget.");
    }
    if let Some(budget) = plan.budget.filter(|&budget| bytes > budget) {
        let [budget, bytes] = [budget, bytes].map(format_size);
        say!("latscope: --budget {budget}: The data need {bytes} even with the widest columns and without attributes.");
    }
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
    report_title(&pipeline.reading().files)
}
