//! What views answer as JSON, text and pictures.

use crate::notes::WORDING;
use crate::raised::{Error as Raised, usage};
use latscope_capture_file::is_pipe;
use latscope_event::{Context, Field, FieldSet};
use latscope_filter::Filter;
use latscope_pipeline::{Error, Explained, Pipeline, Question, SparkApplication, refuse_stacks};
use latscope_series::StackWidth;
use latscope_view_report::{
    FlameColour, FlamegraphOptions, Flames, ReportOptions, SparkPicture, Theme, fit_report, flamegraph, report_keys,
    report_title, spark,
};
use latscope_view_term::{ExplanationView, Line, Room, SparkLevel, SparkReport, SpotsView, StacksTable};
use pyo3::prelude::*;

/// As wide as the program prints to a file.
pub const ROOM: Room = Room { texts: 160, tables: 1000 };
/// Width of the plots of Spark, pixels.
const WIDTH: u32 = 1180;
/// Bytes of the data of a page.
const PAGE_BYTES: u64 = 4_000_000;
/// Columns of texts.
const COLUMNS: usize = 100;

/// JSON, text, and what the traces say of themselves.
pub type Answer = (String, String, Vec<Context>);

pub fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| line.text().trim_end().to_string() + "\n").collect()
}

/// What a selection has in common, or what is unusual.
pub fn explained(pipeline: &Pipeline, question: &Question) -> Result<Answer, Error> {
    let mut compared = pipeline.compare(question)?;
    let within = pipeline.reading().filter.as_ref().map(ToString::to_string).unwrap_or_default();
    let (seed, quantity) = (question.seed, question.quantity);
    if question.selection.is_none() && pipeline.reading().files.len() != 2 {
        let spots = compared.spots();
        let waits = compared.long_waits();
        let view = SpotsView { spots: &spots, waits, total: compared.table().total(), quantity, within, seed };
        let lines = view.lines(&Context::merged(&compared.contexts), WORDING, COLUMNS);
        return Ok((view.json(), text(&lines), compared.contexts.clone()));
    }
    let explained = compared.explained();
    let (selection, baseline) = explained.sides(question, pipeline.reading());
    let Explained { explanation, is_inverted } = explained;
    let waits = compared.selected_waits();
    let view = ExplanationView { explanation: &explanation, selection, baseline, within, is_inverted, waits, seed };
    let lines = view.lines(&Context::merged(&compared.contexts), WORDING, COLUMNS);
    Ok((view.json(), text(&lines), compared.contexts.clone()))
}

/// How stacks are shown.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Stacks {
    by: Vec<String>,
    width: Option<String>,
    against: Option<String>,
    top: usize,
    full: bool,
}

impl Stacks {
    /// The fields of the groups.
    pub fn by(&self) -> PyResult<Vec<Field>> {
        crate::arguments::fields(&self.by)
    }

    /// What shares are of, where that is given.
    pub fn width(&self) -> PyResult<Option<StackWidth>> {
        let words = [StackWidth::Time, StackWidth::Events, StackWidth::Samples];
        let of = |word: &String| {
            let width = words.into_iter().find(|width| width.word() == word);
            width.ok_or_else(|| usage(format!("There is no width {word}; use time, events or samples.")))
        };
        self.width.as_ref().map(of).transpose()
    }

    /// What is compared with.
    pub fn against(&self) -> PyResult<Option<Filter>> {
        crate::arguments::filter(self.against.as_deref())
    }

    /// The table of the largest stacks.
    pub fn table(&self, pipeline: &Pipeline, by: &[Field], width: Option<StackWidth>) -> Result<Answer, Error> {
        let (tree, contexts) = pipeline.stacks(&StacksTable::fields(by))?;
        let width = width.unwrap_or(tree.usual_width());
        refuse_stacks(&tree, width)?;
        let table = StacksTable::new(&tree, by.len(), width);
        let filter = pipeline.reading().filter_text();
        let lines = table.lines(&Context::merged(&contexts), WORDING, &filter, self.top, self.full, ROOM);
        Ok((table.json(), text(&lines), contexts))
    }
}

/// How a flame graph looks.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Flamegraph {
    title: Option<String>,
    pixels: u32,
    icicle: bool,
    color: String,
    min_share: f64,
    dark: Option<bool>,
}

impl Flamegraph {
    /// The same, checked.
    pub fn options(self, filter: String) -> PyResult<FlamegraphOptions> {
        let colour = match &self.color[..] {
            "kind" => FlameColour::Kind,
            "latency" => FlameColour::Latency,
            other => return Err(usage(format!("There is no color {other}; use kind or latency."))),
        };
        if !(0.0..=50.0).contains(&self.min_share) {
            return Err(usage(format!("min_share={}: give a number of percent from 0 to 50.", self.min_share)));
        }
        Ok(FlamegraphOptions {
            title: self.title,
            width: self.pixels,
            theme: theme(self.dark),
            wording: WORDING,
            filter: Some(filter).filter(|text| !text.is_empty()),
            icicle: self.icicle,
            colour,
            min_share: self.min_share / 100.0,
            ..FlamegraphOptions::default()
        })
    }
}

/// The flame graph of all stacks, or of how they differ from those of another filter.
pub fn flames(
    pipeline: &Pipeline,
    by: &[Field],
    width: Option<StackWidth>,
    against: Option<&Filter>,
    options: &FlamegraphOptions,
) -> Result<(Result<String, String>, Vec<Context>), Error> {
    let Some(against) = against else {
        let (tree, contexts) = pipeline.stacks(by)?;
        let unit = width.unwrap_or(tree.usual_width());
        refuse_stacks(&tree, unit)?;
        let options = FlamegraphOptions { unit, ..options.clone() };
        return Ok((Ok(flamegraph(Flames::Tree(&tree), &contexts, &options)), contexts));
    };
    let ([here, there], contexts) = pipeline.stacks_against(by, against)?;
    let name = against.to_string();
    for (tree, side) in [(&here, "the selection"), (&there, &name[..])] {
        refuse_stacks(tree, StackWidth::Events)?;
        if tree.total().samples == 0 {
            let nothing = "has a stack, so there is nothing to compare; choose another filter.";
            return Ok((Err(format!("No event of {side} {nothing}")), contexts));
        }
    }
    let usual = if there.usual_width() == StackWidth::Time { here.usual_width() } else { StackWidth::Events };
    let unit = width.unwrap_or(usual);
    refuse_stacks(&here, unit)?;
    refuse_stacks(&there, unit)?;
    let options = FlamegraphOptions { unit, ..options.clone() };
    Ok((Ok(flamegraph(Flames::Difference(&here.against(&there), &name), &contexts, &options)), contexts))
}

/// The background; without a choice, that of the viewer.
pub fn theme(dark: Option<bool>) -> Theme {
    match dark {
        None => Theme::Adaptive,
        Some(true) => Theme::Dark,
        Some(false) => Theme::Light,
    }
}

/// Whether a file can be read once only.
pub fn is_read_once(pipeline: &Pipeline) -> bool {
    pipeline.reading().files.iter().any(|file| is_pipe(file))
}

/// The interactive page.
pub fn page(pipeline: &Pipeline, title: Option<String>) -> Result<(String, Vec<Context>), Error> {
    let keys = |all: FieldSet| {
        let fields = if is_read_once(pipeline) { FieldSet::EVERY } else { pipeline.present(all) };
        report_keys(|field| fields.contains(field), pipeline.reading().files.len())
    };
    let (cube, spots, contexts) = match pipeline.cube(&keys(FieldSet::EVERY.union(FieldSet::DERIVED)), None) {
        // The other attributes do without all events in memory.
        Err(Error::NotDerivable { .. }) => pipeline.cube(&keys(FieldSet::EVERY), None),
        done => done,
    }?;
    let waiting = Some(pipeline.passing_unfinished(&contexts)?);
    let traces: Vec<String> = pipeline.reading().files.iter().map(|file| file.display().to_string()).collect();
    let options = ReportOptions {
        title: title.unwrap_or_else(|| report_title(&pipeline.reading().files)),
        wording: WORDING,
        filter: Some(pipeline.reading().filter_text()).filter(|text| !text.is_empty()),
        source: format!("-r {}", traces.join(" -r ")),
        traces,
        spots,
        waiting,
        section: None,
    };
    let cube = fit_report(cube, &contexts, &options, PAGE_BYTES);
    let page = latscope_view_report::report(&cube, &contexts, &options);
    Ok((page, contexts))
}

/// What rows of the table of counters of Spark stand for.
pub fn level(by: &str) -> PyResult<SparkLevel> {
    match by {
        "stage" => Ok(SparkLevel::Stage),
        "job" => Ok(SparkLevel::Job),
        "sql" => Ok(SparkLevel::Sql),
        _ => Err(usage(format!("There is no report by {by}; use stage, job or sql."))),
    }
}

/// The report of the one application of Spark that there is: JSON, text and picture.
pub fn application(
    mut found: Vec<SparkApplication>,
    contexts: &[Context],
    level: SparkLevel,
    most: usize,
) -> PyResult<(String, String, String)> {
    if found.len() > 1 {
        let names: Vec<String> = found.iter().take(3).map(|app| format!("app = {}", app.id)).collect();
        return Err(usage(format!(
            "These are {} logs of applications, and the report is of one; choose it by a filter ({}).",
            found.len(),
            names.join(", ")
        )));
    }
    let Some(SparkApplication { tasks, log, .. }) = found.pop() else {
        return Err(Raised::new_err("No task of Spark was found."));
    };
    let report = SparkReport::new(&tasks, &contexts[log]);
    let picture = SparkPicture { width: WIDTH, theme: Theme::Light, wording: WORDING, title: None };
    Ok((report.json(), text(&report.lines(level, most, ROOM)), spark(&tasks, &contexts[log], &picture)))
}
