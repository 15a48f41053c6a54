//! What Python gives as words and numbers, as values of the pipeline.

use crate::raised::usage;
use latscope_capture_file::Format;
use latscope_event::{Field, parse_duration};
use latscope_filter::Filter;
use latscope_histogram::Grid;
use latscope_pipeline::Folding;
use latscope_series::{Quantity, Weight};
use pyo3::prelude::*;

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
