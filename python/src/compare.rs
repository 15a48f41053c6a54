//! Comparison of measurements.

use crate::raised::{Error as Raised, Notes, raise, run, usage};
use crate::trace::Trace;
use latscope_pipeline::{Control, Pipeline, Reading, Subject, compare_sides, unlike};
use latscope_series::compare::{CompareError, CompareOptions};
use latscope_view_term::CompareTable;
use pyo3::prelude::*;

/// Columns of the table.
const COLUMNS: usize = 160;

/// Compares sides, each with one turn or several; the first is the base. JSON, text and notes.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    sides: Vec<(String, Vec<Bound<'_, Trace>>)>,
    percentiles: Vec<f64>,
    rounds: u32,
    seed: u64,
    quantity: &str,
) -> PyResult<(String, String, Vec<String>)> {
    let sides: Vec<(String, Vec<Reading>)> = sides
        .iter()
        .map(|(name, turns)| (name.clone(), turns.iter().map(|turn| turn.get().reading.clone()).collect()))
        .collect();
    let quantiles = percentiles.iter().map(|percentile| percentile / 100.0).collect();
    let quantity = crate::arguments::quantity(quantity)?;
    let options = CompareOptions { quantity, quantiles, rounds, seed, ..CompareOptions::default() };
    let notes = Notes::default();
    let noted = notes.clone();
    let (json, text) = run(py, &notes, move |control: Control| {
        let open = |reading| Pipeline::open(reading, control.clone());
        let subjects = sides.iter().map(|(name, turns)| Subject::read(name.clone(), turns, quantity, open));
        let subjects: Vec<Subject> =
            subjects.collect::<Result<_, latscope_pipeline::Error>>().map_err(|error| raise(&error))?;
        refuse_same(&sides, &subjects)?;
        let (comparison, _) = compare_sides(&subjects, &options).map_err(|error| match error {
            CompareError::Empty(side) => Raised::new_err(format!("{} has no events to compare.", subjects[side].name)),
            error => usage(format!("{error}.")),
        })?;
        let names: Vec<String> = subjects.iter().map(|subject| subject.name.clone()).collect();
        let (unlike, unknown) = unlike(&subjects, quantity);
        let waiting: Vec<String> = subjects.iter().filter_map(Subject::waiting_note).collect();
        let table = CompareTable {
            comparison: &comparison,
            names: &names,
            unlike: &unlike,
            unknown: unknown.as_deref(),
            notes: &waiting,
        };
        subjects.iter().for_each(|subject| noted.note(&subject.contexts));
        let lines = table.lines(COLUMNS);
        let text: String = lines.iter().map(|line| line.text().trim_end().to_string() + "\n").collect();
        Ok((table.json(), text))
    })?;
    Ok((json, text, notes.sentences()))
}

/// Fails if two turns hold the same requests: two runs of one measurement agree for certain, and nothing follows from that.
fn refuse_same(sides: &[(String, Vec<Reading>)], subjects: &[Subject]) -> PyResult<()> {
    let readings = sides.iter().flat_map(|(_, turns)| turns);
    let turns: Vec<_> = readings.zip(subjects.iter().flat_map(|subject| &subject.turns)).collect();
    for (at, (reading, turn)) in turns.iter().enumerate() {
        if turns[..at].iter().any(|(by, other)| by.filter == reading.filter && turn.repeats(other)) {
            let file = reading.files.first().map(|file| file.display().to_string()).unwrap_or_default();
            return Err(usage(format!(
                "{file} has the same requests as another side; every run in a comparison needs a measurement of its own."
            )));
        }
    }
    Ok(())
}
