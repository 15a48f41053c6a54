//! Events of files, and the views of them.

use crate::arguments::{Fold, fields, filter, format};
use crate::notes::WORDING;
use crate::raised::{Error as Raised, Notes, raise, run, usage};
use crate::series::{Series, observe, percentile_lines};
use crate::spark;
use crate::stream::Stream;
use latscope_capture_file::is_pipe;
use latscope_event::{Context, Field, FieldSet, FieldType};
use latscope_pipeline::{Control, Error, Explained, Pipeline, Question, Reading};
use latscope_series::CountBy;
use latscope_series::explain::{Attribute, Condition};
use latscope_view_report::{ReportOptions, fit_report, report, report_keys};
use latscope_view_term::{ExplanationView, Line, SpotsView, Summary};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Lines of percentiles when the interval is not given, as the program has them.
const LINES: u32 = 60;
/// Bytes of the data of a page.
const PAGE_BYTES: u64 = 4_000_000;
/// Columns of texts.
const COLUMNS: usize = 120;

/// Files, and which of their events.
#[pyclass(frozen, module = "latscope._native")]
pub struct Trace {
    pub reading: Reading,
    notes: Notes,
}

#[pymethods]
impl Trace {
    #[new]
    #[pyo3(signature = (files, filter=None, format=None, offsets=None, align_starts=false, lenient=false, from_queue=false, all_syscalls=false, all_of_spark=false, omitted_every_ns=None))]
    #[allow(clippy::too_many_arguments, reason = "options by name, each of its own")]
    fn new(
        files: Vec<PathBuf>,
        filter: Option<&str>,
        format: Option<&str>,
        offsets: Option<PathBuf>,
        align_starts: bool,
        lenient: bool,
        from_queue: bool,
        all_syscalls: bool,
        all_of_spark: bool,
        omitted_every_ns: Option<u64>,
    ) -> PyResult<Trace> {
        if files.is_empty() {
            return Err(usage("There is no file to read; give at least one."));
        }
        let reading = Reading {
            files,
            filter: self::filter(filter)?,
            format: self::format(format)?,
            offsets,
            align_starts,
            lenient,
            from_queue,
            all_syscalls,
            all_of_spark,
            omitted_every_ns,
            ..Reading::default()
        };
        Ok(Trace { reading, notes: Notes::default() })
    }

    /// What was said of the traces so far: losses, repairs, assumptions.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.sentences()
    }

    /// The files that are read, with those of folders in place of these.
    fn files(&self, py: Python<'_>) -> PyResult<Vec<PathBuf>> {
        self.ask(py, false, |pipeline| Ok(pipeline.reading().files.clone()))
    }

    /// Parts that can be read by themselves, by file and range of bytes, for events in these columns.
    fn parts(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<Vec<(PathBuf, u64, u64)>> {
        let asked = FieldSet::from_iter(fields(columns.iter().filter(|name| !is_end(name)))?);
        let parts = self.ask(py, false, move |pipeline| Ok(pipeline.parts(asked)))?;
        Ok(parts.into_iter().map(|(file, part)| (file, part.start, part.end)).collect())
    }

    /// One of these parts.
    fn part(&self, start: u64, end: u64) -> Trace {
        let is_whole = start == 0 && end == u64::MAX;
        let within = (!is_whole).then_some(start..end);
        Trace { reading: Reading { within, ..self.reading.clone() }, notes: Notes::default() }
    }

    /// Names of the columns that the files have, and whether they are texts.
    fn columns(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, bool)>> {
        let fields = self.ask(py, false, |pipeline| Ok(columns_of(&pipeline)))?;
        Ok(fields.iter().map(|field| (field.name(), field.field_type() == FieldType::Text)).collect())
    }

    /// All events in these columns; without any, in all that the files have.
    #[pyo3(signature = (columns=None))]
    fn events(&self, py: Python<'_>, columns: Option<Vec<String>>) -> PyResult<Stream> {
        let has_end = columns.as_ref().is_some_and(|names| names.iter().any(|name| is_end(name)));
        let asked = columns.map(|names| fields(names.iter().filter(|name| !is_end(name)))).transpose()?;
        let (pipeline, fields) = self.ask(py, false, move |pipeline| {
            let fields = asked.map_or_else(|| columns_of(&pipeline), FieldSet::from_iter);
            Ok((pipeline, fields.union(FieldSet::ALWAYS)))
        })?;
        Ok(Stream::of_events(pipeline, fields, has_end, self.notes.clone()))
    }

    /// Histograms over time; in at most so many intervals where none is given.
    fn series(&self, py: Python<'_>, fold: Fold, limit: u32) -> PyResult<Series> {
        let folding = fold.folding()?;
        let filter = Some(self.reading.filter_text()).filter(|text| !text.is_empty());
        let series = self.ask(py, true, move |pipeline| pipeline.series_to_plot(&folding, limit));
        let (series, contexts) = series?;
        self.notes.note(&contexts);
        Ok(Series { series, contexts, filter })
    }

    /// Percentiles by interval and group, as JSON lines.
    fn percentiles(
        &self,
        py: Python<'_>,
        percentiles: Vec<f64>,
        fold: Fold,
        all: bool,
        overlap: bool,
    ) -> PyResult<String> {
        let mut folding = fold.folding()?;
        let is_latency = folding.quantity == latscope_series::Quantity::Latency;
        folding.count_by = if overlap && is_latency { CountBy::Overlap } else { CountBy::CompletionInParts };
        folding.values_only = true;
        let (mut series, contexts) = self.ask(py, true, move |pipeline| pipeline.series(&folding, LINES))?;
        self.notes.note(&contexts);
        observe(&mut series, &contexts);
        percentile_lines(&series, &contexts, &percentiles, all)
    }

    /// Count, rate, percentiles and more of each group: JSON and text.
    fn summary(&self, py: Python<'_>, by: Option<Vec<String>>, fold: Fold) -> PyResult<(String, String)> {
        let mut folding = fold.folding()?;
        let asked = by.map(|names| fields(&names)).transpose()?;
        let (series, contexts) = self.ask(py, false, move |pipeline| {
            let (usual, by_default) = (pipeline.usual_groups(), asked.is_none());
            let drops_missing = by_default && usual.is_some();
            folding.by = asked.or(usual).unwrap_or_else(|| vec![Field::Device]);
            folding.weight =
                if pipeline.has_sizes() { latscope_series::Weight::Bytes } else { latscope_series::Weight::Count };
            let (series, contexts) = pipeline.totals(&folding, by_default)?;
            Ok((if drops_missing { series.without_missing() } else { series }, contexts))
        })?;
        self.notes.note(&contexts);
        let context = Context::merged(&contexts);
        let summary = Summary::new(&series, &context);
        let lines = summary.lines(&context, WORDING, &self.reading.filter_text(), COLUMNS);
        Ok((summary.json(), text(&lines)))
    }

    /// What a selection has in common that the others have not, or what is unusual: JSON and text.
    #[pyo3(signature = (selection, against, columns, seed, quantity))]
    fn explain(
        &self,
        py: Python<'_>,
        selection: Option<&str>,
        against: Option<&str>,
        columns: Option<Vec<String>>,
        seed: u64,
        quantity: &str,
    ) -> PyResult<(String, String)> {
        let quantity = crate::arguments::quantity(quantity)?;
        let (selection, against) = (filter(selection)?, filter(against)?);
        if against.is_some() && selection.is_none() {
            return Err(usage("against needs a selection."));
        }
        let columns = columns.map(|names| fields(&names)).transpose()?.map(FieldSet::from_iter);
        let question = Question { selection, against, columns, seed, quantity };
        let (json, text, contexts) = self.ask(py, false, move |pipeline| explained(&pipeline, &question))?;
        self.notes.note(&contexts);
        Ok((json, text))
    }

    /// The report of the Spark application that this is: JSON, text and picture. With a block, nanoseconds, executors count for that long.
    #[pyo3(signature = (by, most, block=None))]
    fn spark(
        &self,
        py: Python<'_>,
        by: &str,
        most: usize,
        block: Option<(i64, i64)>,
    ) -> PyResult<(String, String, String)> {
        let level = spark::level(by)?;
        let reading = Reading { all_of_spark: true, block_ns: block, ..self.reading.clone() };
        let whole = Trace { reading, notes: self.notes.clone() };
        let (found, contexts) =
            whole.ask(py, false, |pipeline| pipeline.spark_applications(FieldSet::EMPTY, |_, _| {}))?;
        self.notes.note(&contexts);
        spark::report(found, &contexts, level, most)
    }

    /// The interactive page.
    fn report(&self, py: Python<'_>, title: String) -> PyResult<String> {
        let (page, contexts) = self.ask(py, false, move |pipeline| page(&pipeline, title))?;
        self.notes.note(&contexts);
        page.ok_or_else(|| Raised::new_err("There are no events to report."))
    }
}

impl Trace {
    /// Opens the pipeline and asks it, without the lock of the interpreter.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        over_time: bool,
        question: impl FnOnce(Pipeline) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let reading = Reading { over_time, ..self.reading.clone() };
        run(py, &self.notes, move |control: Control| {
            let answer = Pipeline::open(reading, control).and_then(question);
            answer.map_err(|error| raise(&error))
        })
    }
}

/// The columns that the files have; of several, also which of them an event is from.
fn columns_of(pipeline: &Pipeline) -> FieldSet {
    let several = if pipeline.reading().files.len() > 1 { &[Field::Trace][..] } else { &[] };
    let all = FieldSet::EVERY.with(several);
    // What is read once cannot be looked at beforehand.
    let fields = if is_read_once(pipeline) { all } else { pipeline.columns(all) };
    fields.union(FieldSet::ALWAYS)
}

/// Whether it is a column that is no field: what the filter takes for it is a time of the clock.
fn is_end(name: &str) -> bool {
    matches!(name.trim(), "end_ns" | "end" | "ts" | "evt.rawtime")
}

fn is_read_once(pipeline: &Pipeline) -> bool {
    pipeline.reading().files.iter().any(|file| is_pipe(file))
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| line.text().trim_end().to_string() + "\n").collect()
}

/// JSON, text, and what the traces say of themselves.
fn explained(pipeline: &Pipeline, question: &Question) -> Result<(String, String, Vec<Context>), Error> {
    let mut compared = pipeline.compare(question)?;
    let within = pipeline.reading().filter_text();
    let (seed, quantity) = (question.seed, question.quantity);
    if question.selection.is_none() && pipeline.reading().files.len() != 2 {
        let spots = compared.spots();
        let waits = compared.long_waits();
        let view = SpotsView { spots: &spots, waits, total: compared.table().total(), quantity, within, seed };
        let lines = view.lines(&Context::merged(&compared.contexts), WORDING, COLUMNS);
        return Ok((view.json(), text(&lines), compared.contexts.clone()));
    }
    let Explained { explanation, is_inverted } = compared.explained();
    let name = |at: usize| {
        let file = pipeline.reading().files.get(at).map_or(String::new(), |file| file.display().to_string());
        Condition::Is(Attribute::Field(Field::Trace), file).filter().unwrap_or_default()
    };
    let selection = question.selection.as_ref().map_or_else(|| name(1), ToString::to_string);
    let baseline = match (&question.against, &question.selection) {
        (Some(against), _) => format!("({against}) and not ({selection})"),
        (None, Some(_)) => format!("not ({selection})"),
        (None, None) => name(0),
    };
    let baseline = match explanation.layer {
        Some(layer) => format!("{baseline} and {}", layer.filter()),
        None => baseline,
    };
    let (selection, baseline) = if is_inverted { (baseline, selection) } else { (selection, baseline) };
    let waits = compared.selected_waits();
    let view = ExplanationView { explanation: &explanation, selection, baseline, within, is_inverted, waits, seed };
    let lines = view.lines(&Context::merged(&compared.contexts), WORDING, COLUMNS);
    Ok((view.json(), text(&lines), compared.contexts.clone()))
}

/// The interactive page, if there are events.
fn page(pipeline: &Pipeline, title: String) -> Result<(Option<String>, Vec<Context>), Error> {
    let keys = |all: FieldSet| {
        let fields = if is_read_once(pipeline) { FieldSet::EVERY } else { pipeline.present(all) };
        report_keys(|field| fields.contains(field), pipeline.reading().files.len())
    };
    let (cube, spots, contexts) = match pipeline.cube(&keys(FieldSet::EVERY.union(FieldSet::DERIVED)), None) {
        // The other attributes do without all events in memory.
        Err(Error::NotDerivable { .. }) => pipeline.cube(&keys(FieldSet::EVERY), None),
        done => done,
    }?;
    if cube.events() == 0 {
        return Ok((None, contexts));
    }
    let traces: Vec<String> = pipeline.reading().files.iter().map(|file| file.display().to_string()).collect();
    let options = ReportOptions {
        title,
        wording: WORDING,
        filter: Some(pipeline.reading().filter_text()).filter(|text| !text.is_empty()),
        source: format!("-r {}", traces.join(" -r ")),
        traces,
        spots,
        waiting: None,
        section: None,
    };
    let cube = fit_report(cube, &contexts, &options, PAGE_BYTES);
    let page = report(&cube, &contexts, &options);
    Ok((Some(page), contexts))
}
