//! What Python gives as words and numbers, as values of the pipeline.

use crate::raised::usage;
use latscope_capture_file::{FioColumns, Format, TwoColumns};
use latscope_event::{Field, parse_duration};
use latscope_filter::Filter;
use latscope_histogram::Grid;
use latscope_pipeline::{Folding, Reading, SourceChoice, TagSources, Tagging};
use latscope_series::{Quantity, Weight};
use pyo3::prelude::*;
use std::path::PathBuf;

/// A length of time with its unit, nanoseconds.
#[pyfunction]
pub fn duration_ns(text: &str) -> PyResult<u64> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(usage(format!("{text} needs a unit: \"{text}ms\" or \"{text}s\".")));
    }
    parse_duration(text).map_err(|error| usage(format!("{error}.")))
}

/// Names of the formats of files.
#[pyfunction]
pub fn formats() -> Vec<&'static str> {
    Format::ALL.iter().map(|format| format.name()).collect()
}

/// A filter; without words, none.
pub fn filter(text: Option<&str>) -> PyResult<Option<Filter>> {
    let text = text.filter(|text| !text.trim().is_empty());
    text.map(|text| Filter::parse(text).map_err(|error| usage(format!("{error}\n{}", error.caret())))).transpose()
}

/// A format of files.
pub fn format(name: Option<&str>) -> PyResult<Option<Format>> {
    let known = |name| Format::from_name(name);
    let unknown = |name| usage(format!("Unknown format {name}; known formats: {}.", formats().join(", ")));
    name.map(|name| known(name).ok_or_else(|| unknown(name))).transpose()
}

/// Columns of events.
pub fn fields<'a>(names: impl IntoIterator<Item = &'a String>) -> PyResult<Vec<Field>> {
    let field = |name: &String| {
        latscope_filter::column(name.trim()).ok_or_else(|| {
            usage(format!("There is no column {name}; \"latscope fields\" lists the columns of events."))
        })
    };
    names.into_iter().map(field).collect()
}

/// A source.
pub fn source(words: &str) -> PyResult<SourceChoice> {
    SourceChoice::parse(words).map_err(|why| usage(format!("{why}.")))
}

/// How files are read: the options of the program, under their names.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    filter: Option<String>,
    format: Option<String>,
    source: Option<String>,
    latency: String,
    unitstime: Option<String>,
    unitslat: Option<String>,
    log_columns: Option<Vec<String>>,
    lenient: bool,
    correct_omission_ns: Option<u64>,
    offsets: Option<PathBuf>,
    align_starts: bool,
    tag_file: Option<PathBuf>,
    tag: Option<String>,
}

impl Options {
    /// The same, checked, without files.
    pub fn reading(self) -> PyResult<Reading> {
        let unit = |name: &str, word: &String| {
            let unit = TwoColumns::unit(word);
            unit.ok_or_else(|| usage(format!("{name}={word:?}: it is no unit of time; use s, ms, us or ns.")))
        };
        let unit_bytes = self.unitslat.as_deref().and_then(TwoColumns::bytes);
        let time_unit_ns = self.unitstime.as_ref().map(|word| unit("unitstime", word)).transpose()?;
        let latency_unit_ns = self.unitslat.as_ref().filter(|_| unit_bytes.is_none());
        let two_columns = TwoColumns {
            time_unit_ns: time_unit_ns.unwrap_or(TwoColumns::default().time_unit_ns),
            latency_unit_ns: latency_unit_ns.map(|word| unit("unitslat", word)).transpose()?,
            unit_bytes,
        };
        let fio_columns = self.log_columns.map(|names| fio_columns(&names)).transpose()?;
        let from_queue = match &self.latency[..] {
            "device" => false,
            "request" => true,
            other => return Err(usage(format!("There is no latency {other}; use device or request."))),
        };
        let source = self.source.as_deref().map(source).transpose()?;
        let own = filter(self.filter.as_deref())?;
        let kept = source.map(|source| match &self.filter {
            Some(own_text) if own.is_some() => format!("({}) and ({own_text})", source.filter()),
            _ => source.filter(),
        });
        let typed_filter = kept.is_some().then(|| own.as_ref().map_or(String::new(), ToString::to_string));
        let sources = TagSources { file: self.tag_file, ..TagSources::default() };
        let is_tagged = sources != TagSources::default() || self.tag.is_some();
        Ok(Reading {
            filter: if kept.is_some() { filter(kept.as_deref())? } else { own },
            typed_filter,
            // Whoever says what the columns of a log are says that it is one.
            format: format(self.format.as_deref())?.or(fio_columns.map(|_| Format::FioLog)),
            all_syscalls: source == Some(SourceChoice::Syscall),
            only_io: source == Some(SourceChoice::Io),
            all_of_spark: source == Some(SourceChoice::Spark),
            two_columns,
            fio_columns,
            lenient: self.lenient,
            from_queue,
            offsets: self.offsets,
            align_starts: self.align_starts,
            omitted_every_ns: self.correct_omission_ns,
            tagging: is_tagged.then(|| Tagging::new(sources, self.tag)),
            ..Reading::default()
        })
    }
}

fn fio_columns(names: &[String]) -> PyResult<FioColumns> {
    FioColumns::parse(&names.join(",")).ok_or_else(|| {
        usage(format!(
            "log_columns={names:?}: no version of fio writes such rows; use {} in this order, omitting only max, offset, priority or \
             issue.",
            FioColumns::NAMES.join(", ")
        ))
    })
}

/// How events become histograms.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Fold {
    interval_ns: Option<u64>,
    by: Vec<String>,
    quantity: String,
    weight: String,
    precision: Option<u32>,
    completed_only: bool,
}

/// The quantity of this word.
pub fn quantity(word: &str) -> PyResult<Quantity> {
    let unknown =
        || usage(format!("There is no quantity {word}; it is a field with a duration or a size, such as latency."));
    Quantity::from_word(word).ok_or_else(unknown)
}

/// The unit of a quantity: `ns` or `bytes`.
#[pyfunction]
pub fn quantity_unit(word: &str) -> PyResult<&'static str> {
    Ok(if quantity(word)?.is_bytes() { "bytes" } else { "ns" })
}

impl Fold {
    /// The same, checked.
    pub fn folding(&self) -> PyResult<Folding> {
        let quantity = quantity(&self.quantity)?;
        let weight =
            [Weight::Count, Weight::Time, Weight::Bytes].into_iter().find(|weight| weight.word() == self.weight);
        let weight =
            weight.ok_or_else(|| usage(format!("There is no weight {}; use count, time or bytes.", self.weight)))?;
        let grid = |buckets: u32| {
            let power = u8::try_from(buckets.trailing_zeros()).ok().filter(|_| buckets.is_power_of_two());
            let grid = power.and_then(Grid::with_power).filter(|grid| *grid <= Grid::FINE);
            grid.ok_or_else(|| usage(format!("precision={buckets}: it is 1, 2, 4, 8, 16, 32 or 64.")))
        };
        if self.interval_ns == Some(0) {
            return Err(usage("The interval must be longer than zero."));
        }
        Ok(Folding {
            by: fields(&self.by)?,
            quantity,
            weight,
            completed_only: self.completed_only,
            over_time: true,
            precision: self.precision.map(grid).transpose()?,
            ..Folding::of_latencies(self.interval_ns)
        })
    }
}
