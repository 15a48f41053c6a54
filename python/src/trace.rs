//! Events of files, and the views of them.

use crate::answers::{Flamegraph, ROOM, Stacks, application, explained, flames, is_read_once, level, page, text};
use crate::arguments::{Fold, Options, fields, filter};
use crate::notes::WORDING;
use crate::raised::{Error as Raised, Notes, message, raise, run, usage};
use crate::series::{Series, observe, percentile_lines};
use crate::stream::Stream;
use latscope_capture_file::ArrowBatches;
use latscope_event::{Context, Field, FieldSet, FieldType};
use latscope_pipeline::{Control, Error, Pipeline, Question, Reading};
use latscope_series::{CountBy, Quantity};
use latscope_view_term::Summary;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Lines of percentiles when the interval is not given, as the program has them.
const LINES: u32 = 60;

/// Files, and which of their events.
#[pyclass(frozen, module = "latscope._native")]
pub struct Trace {
    pub reading: Reading,
    notes: Notes,
}

#[pymethods]
impl Trace {
    #[new]
    fn new(files: Vec<PathBuf>, options: Options) -> PyResult<Trace> {
        if files.is_empty() {
            return Err(usage("There is no file to read; give at least one."));
        }
        Ok(Trace { reading: Reading { files, ..options.reading()? }, notes: Notes::default() })
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

    /// The requests that wait at the end of the traces, in these columns: when they started, and their age then.
    #[pyo3(signature = (columns=None))]
    fn waiting(&self, py: Python<'_>, columns: Option<Vec<String>>) -> PyResult<Stream> {
        let asked = columns.map(|names| fields(&names)).transpose()?.map(FieldSet::from_iter);
        let (rows, contexts) = self.ask(py, false, move |pipeline| {
            let needed = pipeline.reading().filter_fields().union(FieldSet::ALWAYS);
            let contexts = pipeline.each_batch(needed, |_, _, _, _| ControlFlow::<Error>::Continue(()))?;
            let mut present = FieldSet::ALWAYS;
            pipeline.each_passing_waiter(&contexts, asked.unwrap_or(FieldSet::EVERY), |batch, _| {
                present = present.union(batch.fields());
            })?;
            let fields = asked.unwrap_or(present).union(FieldSet::ALWAYS);
            let mut rows = ArrowBatches::new(fields);
            let mut added = Ok(None);
            pipeline.each_passing_waiter(&contexts, fields, |batch, mask| {
                if added.is_ok() {
                    added = rows.add(batch, mask);
                }
            })?;
            Ok((added.and_then(|_| rows.rest()).map(|batch| (batch, rows.schema())), contexts))
        })?;
        self.notes.note(&contexts);
        let (batch, schema) = rows.map_err(|error| Raised::new_err(error.to_string()))?;
        Ok(Stream::of_waiting(batch, &schema))
    }

    /// What a quantity is of these files: where their latencies are said to be sizes or offsets, the latency is one of these.
    fn quantity(&self, word: &str) -> PyResult<&'static str> {
        let quantity = crate::arguments::quantity(word)?;
        let quantity = match (quantity, self.reading.two_columns.unit_bytes) {
            (Quantity::Latency, Some(1)) => Quantity::Size,
            (Quantity::Latency, Some(_)) => Quantity::Offset,
            (quantity, _) => quantity,
        };
        Ok(quantity.word())
    }

    /// Histograms over time; in at most so many intervals where none is given.
    fn series(&self, py: Python<'_>, fold: Fold, limit: u32) -> PyResult<Series> {
        let folding = fold.folding()?;
        let filter = Some(self.reading.filter_text()).filter(|text| !text.is_empty());
        let series = self.ask(py, true, move |pipeline| {
            let (series, contexts) = pipeline.series_to_plot(&folding, limit)?;
            let undrawable = pipeline.refuse_whole_jobs(&series).err().map(|error| message(&error));
            Ok((series, contexts, undrawable))
        });
        let (series, contexts, undrawable) = series?;
        self.notes.note_series(&series, &contexts);
        Ok(Series { series, contexts, filter, undrawable })
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
        let is_latency = folding.quantity == Quantity::Latency;
        let is_overlap = overlap && is_latency;
        folding.count_by = if is_overlap { CountBy::Overlap } else { CountBy::CompletionInParts };
        folding.values_only = true;
        let (mut series, contexts) = self.ask(py, true, move |pipeline| pipeline.series(&folding, LINES))?;
        self.notes.note_series(&series, &contexts);
        observe(&mut series, &contexts);
        percentile_lines(&series, &contexts, &percentiles, all, is_overlap)
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
        self.notes.note_series(&series, &contexts);
        let context = Context::merged(&contexts);
        let summary = Summary::new(&series, &context);
        let lines = summary.lines(&context, WORDING, &self.reading.filter_text(), ROOM);
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

    /// The call stacks with the largest shares: JSON and text.
    fn stacks(&self, py: Python<'_>, stacks: Stacks) -> PyResult<(String, String)> {
        let (by, width) = (stacks.by()?, stacks.width()?);
        let (json, text, contexts) = self.ask(py, false, move |pipeline| stacks.table(&pipeline, &by, width))?;
        self.notes.note(&contexts);
        Ok((json, text))
    }

    /// The flame graph as SVG.
    fn flamegraph(&self, py: Python<'_>, stacks: Stacks, look: Flamegraph) -> PyResult<String> {
        let (by, width, against) = (stacks.by()?, stacks.width()?, stacks.against()?);
        let options = look.options(self.reading.filter_text())?;
        let (picture, contexts) =
            self.ask(py, false, move |pipeline| flames(&pipeline, &by, width, against.as_ref(), &options))?;
        self.notes.note(&contexts);
        picture.map_err(Raised::new_err)
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
        let level = level(by)?;
        let reading = Reading { all_of_spark: true, block_ns: block, ..self.reading.clone() };
        let whole = Trace { reading, notes: self.notes.clone() };
        let (found, contexts) =
            whole.ask(py, false, |pipeline| pipeline.spark_applications(FieldSet::EMPTY, |_, _| {}))?;
        self.notes.note(&contexts);
        application(found, &contexts, level, most)
    }

    /// The interactive page; without a title, with that of the program.
    #[pyo3(signature = (title))]
    fn report(&self, py: Python<'_>, title: Option<String>) -> PyResult<String> {
        let (page, contexts) = self.ask(py, false, move |pipeline| page(&pipeline, title))?;
        self.notes.note(&contexts);
        Ok(page)
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
