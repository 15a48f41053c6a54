//! Histograms over time.

use crate::answers::theme;
use crate::notes::WORDING;
use crate::raised::{Error as Raised, Notes, usage};
use crate::stream::Stream;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use latscope_event::Context;
use latscope_histogram::Rule;
use latscope_pipeline::continued;
use latscope_series::{HistogramSeries, Weight};
use latscope_view::{Palette, Scale};
use latscope_view_report::{HeatmapOptions, heatmap};
use latscope_view_term::{PercentileOptions, Percentiles};
use pyo3::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;

/// A matrix takes so many bytes at most.
const MOST_BYTES: usize = 4 << 30;

/// A histogram for each interval and group.
#[pyclass(frozen, module = "latscope._native")]
pub struct Series {
    pub series: HistogramSeries,
    pub contexts: Vec<Context>,
    /// The filter that made it.
    pub filter: Option<String>,
    /// Why it cannot be drawn over time, if it cannot.
    pub undrawable: Option<String>,
}

/// A matrix of counts, and what its rows and columns are.
type Matrix = (Stream, i64, usize, usize, usize);

/// What bytes of a series have: version, series, contexts, how long each was observed, the filter, and why it is not drawn.
type Kept =
    (String, HistogramSeries, Vec<Context>, Vec<(BTreeMap<String, u64>, Repeated)>, Option<String>, Option<String>);
type Repeated = BTreeMap<String, BTreeMap<i64, u64>>;

#[pymethods]
impl Series {
    /// Width of the intervals, nanoseconds.
    #[getter]
    fn width_ns(&self) -> u64 {
        self.series.width_ns()
    }

    /// What the histograms are of.
    #[getter]
    fn quantity(&self) -> &'static str {
        self.series.quantity.word()
    }

    /// What a weight is the sum of.
    #[getter]
    fn weight(&self) -> &'static str {
        self.series.weight.word()
    }

    /// The logarithm to base 2 of the number of buckets to the octave.
    #[getter]
    fn power(&self) -> u8 {
        self.series.grid().power()
    }

    /// Names of the group fields.
    #[getter]
    fn by(&self) -> Vec<&'static str> {
        self.series.by.iter().map(|field| field.name()).collect()
    }

    /// The values of the group fields, by number of the group.
    #[getter]
    fn groups(&self) -> Vec<Vec<String>> {
        self.series.groups().to_vec()
    }

    /// What to add to a time for nanoseconds since 1970, where that is known.
    #[getter]
    fn to_unix_ns(&self) -> Option<i64> {
        Context::merged(&self.contexts).clock.to_unix_ns
    }

    /// Number of intervals, from the first to the last.
    #[getter]
    fn intervals(&self) -> u64 {
        self.series.range().map_or(0, |(first, last)| first.abs_diff(last) + 1)
    }

    /// The count that one event adds up to.
    #[getter]
    fn per_event(&self) -> u64 {
        self.series.per_event()
    }

    /// Number of events.
    #[getter]
    fn events(&self) -> f64 {
        self.series.total(None).totals().count as f64 / self.series.per_event() as f64
    }

    /// Number of requests that wait at the end.
    #[getter]
    fn waiting(&self) -> u64 {
        self.series.still_waiting(None).count()
    }

    /// What is noted of the traces.
    #[getter]
    fn notes(&self) -> Vec<String> {
        let notes = Notes::default();
        notes.note_series(&self.series, &self.contexts);
        // Read together, they count once.
        if let Some(&at) = continued(&self.contexts).first() {
            let source = &self.contexts[at].source;
            notes.add(format!(
                "{source}: requests that were in flight at its end count again in a later file of the same recording; read the files together instead: latscope.read([...])."
            ));
        }
        notes.sentences()
    }

    /// Counts by interval and bucket, of one group or of all: a column of cells row by row, the start of the first interval, the number
    /// of intervals, the first bucket and the number of buckets.
    #[pyo3(signature = (group, weights))]
    fn matrix(&self, py: Python<'_>, group: Option<u32>, weights: bool) -> PyResult<Matrix> {
        if weights && self.series.weight == Weight::Count {
            return Err(usage("The weight of this series is count; ask for weight=\"time\" or \"bytes\"."));
        }
        py.detach(|| self.counts(group, weights))
    }

    /// All cells in the long form: start of the interval, group fields, bucket and count.
    fn cells(&self, py: Python<'_>) -> PyResult<Stream> {
        py.detach(|| self.long())
    }

    /// The smallest values of so many buckets, and the one after the last.
    fn edges(&self, first: usize, count: usize) -> PyResult<Vec<u64>> {
        let grid = self.series.grid();
        let end = first.checked_add(count).filter(|&end| end <= grid.len());
        let end = end.ok_or_else(|| usage(format!("There are {} buckets.", grid.len())))?;
        Ok((first..=end).map(|at| if at < grid.len() { grid.lower(at) } else { u64::MAX }).collect())
    }

    /// The same in wider intervals.
    fn rebinned(&self, py: Python<'_>, width_ns: u64) -> PyResult<Series> {
        let own = latscope_event::format_duration_exact(self.series.width_ns());
        let wide = py.detach(|| self.series.rebinned(width_ns));
        let series =
            wide.ok_or_else(|| usage(format!("The intervals are {own} long; use a whole multiple of that.")))?;
        Ok(Series {
            series,
            contexts: self.contexts.clone(),
            filter: self.filter.clone(),
            undrawable: self.undrawable.clone(),
        })
    }

    /// Both together.
    fn merged(&self, py: Python<'_>, other: &Series) -> PyResult<Series> {
        if self.to_unix_ns() != other.to_unix_ns() {
            return Err(usage(
                "The clocks of these series count from different moments; read both traces together instead.",
            ));
        }
        if let Some((one, another)) = different_clocks(&self.contexts, &other.contexts) {
            return Err(usage(format!(
                "These series cannot be merged: {one} and {another} count time by different clocks; read both traces together instead."
            )));
        }
        py.detach(|| {
            let mut series = self.series.clone();
            series.merge(&other.series).map_err(|error| usage(format!("These series cannot be merged: {error}.")))?;
            let mut contexts = self.contexts.clone();
            // What is added to itself is still of the same traces.
            contexts.extend(other.contexts.iter().filter(|context| !self.contexts.contains(context)).cloned());
            let filter = self.filter.clone().filter(|_| self.filter == other.filter);
            Ok(Series { series, contexts, filter, undrawable: self.undrawable.clone() })
        })
    }

    /// All of it as bytes, for [`Series::from_bytes`] of the same version.
    fn to_bytes(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        // These are not written with a context.
        let observed =
            self.contexts.iter().map(|context| (&context.observed_ns, &context.repeated_ns)).collect::<Vec<_>>();
        let all = (env!("CARGO_PKG_VERSION"), &self.series, &self.contexts, observed, &self.filter, &self.undrawable);
        py.detach(|| serde_json::to_vec(&all).map_err(|error| Raised::new_err(error.to_string())))
    }

    /// What [`Series::to_bytes`] has made.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Series> {
        let (version, series, mut contexts, observed, filter, undrawable): Kept = py.detach(|| {
            serde_json::from_slice(bytes).map_err(|error| {
                usage(format!("These bytes are no series of latscope {}: {error}.", env!("CARGO_PKG_VERSION")))
            })
        })?;
        if version != env!("CARGO_PKG_VERSION") {
            let own = env!("CARGO_PKG_VERSION");
            return Err(usage(format!(
                "This series was pickled by latscope {version}; this is {own}, so make it again."
            )));
        }
        for (context, (observed_ns, repeated_ns)) in contexts.iter_mut().zip(observed) {
            (context.observed_ns, context.repeated_ns) = (observed_ns, repeated_ns);
        }
        Ok(Series { series, contexts, filter, undrawable })
    }

    /// Percentiles by interval and group, as JSON lines.
    fn percentiles(&self, py: Python<'_>, percentiles: Vec<f64>, all: bool) -> PyResult<String> {
        py.detach(|| {
            let mut series = self.series.clone();
            observe(&mut series, &self.contexts);
            percentile_lines(&series, &self.contexts, &percentiles, all, false)
        })
    }

    /// The heat map as SVG.
    #[pyo3(signature = (title, width, height, lines, palette, linear, dark))]
    #[allow(clippy::too_many_arguments, reason = "options by name, each of its own")]
    fn svg(
        &self,
        py: Python<'_>,
        title: Option<String>,
        width: u32,
        height: u32,
        lines: Vec<f64>,
        palette: &str,
        linear: Option<bool>,
        dark: Option<bool>,
    ) -> PyResult<String> {
        if let Some(why) = &self.undrawable {
            return Err(Raised::new_err(why.clone()));
        }
        let palette = Palette::from_word(palette).ok_or_else(|| usage(format!("There is no palette {palette}.")))?;
        let options = HeatmapOptions {
            title,
            width,
            height,
            percentiles: lines.iter().map(|percentile| percentile / 100.0).collect(),
            palette,
            scale_y: linear.map(|linear| if linear { Scale::Linear } else { Scale::Log }),
            theme: theme(dark),
            wording: WORDING,
            filter: self.filter.clone(),
            grid: false,
            facet: !self.series.by.is_empty(),
            ..HeatmapOptions::default()
        };
        py.detach(|| heatmap(&self.series, &self.contexts, &options).map_err(|error| usage(error.to_string())))
    }
}

impl Series {
    fn counts(&self, group: Option<u32>, weights: bool) -> PyResult<Matrix> {
        let series = &self.series;
        let is_in = |of: u32| group.is_none_or(|group| group == of);
        let sparse = || series.slices().values().flat_map(|slice| &slice.groups).filter(|(of, _)| is_in(*of));
        let used = sparse().filter_map(|(_, sparse)| Some((*sparse.indices().first()?, *sparse.indices().last()?)));
        let used = used.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
        let (first, last) = used.map_or((0, 0), |(first, last)| (first as usize, last as usize + 1));
        let (from, to) = series.range().map_or((0, 0), |(from, to)| (from, to + 1));
        let (rows, columns) = (from.abs_diff(to) as usize, last - first);
        let size = rows.checked_mul(columns).filter(|cells| cells.saturating_mul(8) <= MOST_BYTES);
        let size = size.ok_or_else(|| {
            usage(format!(
                "{rows} intervals of {columns} buckets are too many for a matrix; use wider intervals, or cells()."
            ))
        })?;
        let mut cells = vec![0u64; size];
        for (&interval, slice) in series.slices() {
            let row = (interval - from) as usize * columns;
            for (_, sparse) in slice.groups.iter().filter(|(of, _)| is_in(*of)) {
                for (index, count, weight) in sparse.buckets() {
                    let cell = &mut cells[row + index - first];
                    *cell = cell.saturating_add(if weights { weight } else { count });
                }
            }
        }
        let cells: ArrayRef = Arc::new(UInt64Array::from(cells));
        let batch =
            RecordBatch::try_from_iter([("cells", cells)]).map_err(|error| Raised::new_err(error.to_string()))?;
        Ok((Stream::of_batch(batch), series.start_ns(from), rows, first, columns))
    }

    fn long(&self) -> PyResult<Stream> {
        let series = &self.series;
        let (mut times, mut groups) = (Vec::new(), Vec::new());
        let (mut buckets, mut counts, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (&interval, slice) in series.slices() {
            for (group, sparse) in &slice.groups {
                for (index, count, weight) in sparse.buckets() {
                    buckets.push(index as i32);
                    counts.push(i64::try_from(count).unwrap_or(i64::MAX));
                    weights.push(i64::try_from(weight).unwrap_or(i64::MAX));
                }
                times.resize(buckets.len(), series.start_ns(interval));
                groups.resize(buckets.len(), *group);
            }
        }
        let mut columns: Vec<(&str, ArrayRef)> = vec![("time_ns", Arc::new(Int64Array::from(times)))];
        for (at, field) in series.by.iter().enumerate() {
            // Groups that differ in another field have the same text here, and a dictionary has it once.
            let mut codes = HashMap::new();
            let mut texts = Vec::new();
            let code_of_group: Vec<i32> = (series.groups().iter())
                .map(|group| {
                    let text = group.get(at).map_or("", String::as_str);
                    *codes.entry(text).or_insert_with(|| {
                        texts.push(text);
                        texts.len() as i32 - 1
                    })
                })
                .collect();
            let keys = Int32Array::from_iter_values(groups.iter().map(|&group| code_of_group[group as usize]));
            let column = DictionaryArray::<Int32Type>::try_new(keys, Arc::new(StringArray::from(texts)));
            columns.push((field.name(), Arc::new(column.map_err(|error| Raised::new_err(error.to_string()))?)));
        }
        columns.push(("k", Arc::new(Int32Array::from(buckets))));
        columns.push(("n", Arc::new(Int64Array::from(counts))));
        if series.weight != Weight::Count {
            columns.push(("w", Arc::new(Int64Array::from(weights))));
        }
        let batch = RecordBatch::try_from_iter(columns).map_err(|error| Raised::new_err(error.to_string()))?;
        Ok(Stream::of_batch(batch))
    }
}

/// Two traces whose clocks have nothing to do with each other: of different kinds, or since different machines were started. A file that
/// names no clock, such as cells that Spark wrote, goes with any.
fn different_clocks<'a>(ours: &'a [Context], theirs: &'a [Context]) -> Option<(&'a str, &'a str)> {
    let differ = |one: &Context, other: &Context| {
        let has_zero = one.clock.to_unix_ns.is_some() && other.clock.to_unix_ns.is_some();
        let is_of_machine = one.clock.name != "relative" && one.host.is_some() && other.host.is_some();
        let is_named = [one, other].iter().all(|context| context.clock.name != "unknown");
        !has_zero && is_named && (one.clock.name != other.clock.name || is_of_machine && one.host != other.host)
    };
    let mut pairs = ours.iter().flat_map(|one| theirs.iter().map(move |other| (one, other)));
    pairs.find(|(one, other)| differ(one, other)).map(|(one, other)| (&*one.source, &*other.source))
}

/// Marks how much of each interval the traces cover.
pub fn observe(series: &mut HistogramSeries, contexts: &[Context]) {
    let merged = Context::merged(contexts);
    if let (Some(from_ns), Some((_, to_ns))) = (merged.trace_start_ns(), merged.span_ns) {
        series.observe(from_ns, to_ns);
    }
}

/// Percentiles by interval and group, as JSON lines: those of the program. Counts by overlap were asked for, which events in flight when
/// a trace ended may lack, or others.
pub fn percentile_lines(
    series: &HistogramSeries,
    contexts: &[Context],
    percentiles: &[f64],
    all: bool,
    is_overlap: bool,
) -> PyResult<String> {
    if let Some(wrong) = percentiles.iter().find(|percentile| !(0.0..=100.0).contains(*percentile)) {
        return Err(usage(format!("{wrong} is not a percentile; for example, use [50, 99, 99.9].")));
    }
    let context = Context::merged(contexts);
    let slowest_ns = if is_overlap { series.total(None).totals().max } else { 0 };
    let first_ns = series.range().map(|(first, _)| series.start_ns(first));
    let options = PercentileOptions {
        rule: Rule::Interpolated,
        all,
        axis_start_ns: Some(context.axis_start_ns(first_ns, series.width_ns())),
        complete_until_ns: if is_overlap { Context::open_since_ns(contexts, slowest_ns) } else { None },
        waiting: series.has_waiting(),
        ..PercentileOptions::default()
    };
    let mut table = Percentiles::new(percentiles, &series.by, series.quantity, context.clock.to_unix_ns).with(options);
    let mut lines = String::new();
    let Ok(()) = table.each_json_line(series, &mut |line| {
        lines.push_str(line);
        Ok::<(), Infallible>(())
    });
    Ok(lines)
}
