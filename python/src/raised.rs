//! Work without the lock of the interpreter, ended by Ctrl-C, whose failures are raised as exceptions.

use crate::notes::WORDING;
use latscope_capture_file::Remedy;
use latscope_event::Context;
use latscope_pipeline::{Control, Error as Failure, Notice, Observer, missing_groups};
use latscope_series::{HistogramSeries, MergeError};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

create_exception!(latscope, Error, PyException, "The input cannot be read, or has nothing to show.");
create_exception!(latscope, UsageError, Error, "What was asked for cannot be.");

/// How often Python is asked whether somebody pressed Ctrl-C.
pub const TURN: Duration = Duration::from_millis(50);

/// Raises what the caller did wrong.
pub fn usage(sentence: impl ToString) -> PyErr {
    UsageError::new_err(sentence.to_string())
}

/// Raises an error of the pipeline with its sentence, and what this package offers as a way out.
pub fn raise(error: &Failure) -> PyErr {
    let message = message(error);
    if error.is_usage() { usage(message) } else { Error::new_err(message) }
}

/// The sentence of an error, and what this package offers as a way out.
pub fn message(error: &Failure) -> String {
    format!("{error}{}", remedy(error))
}

/// What this package offers against an error.
fn remedy(error: &Failure) -> &'static str {
    match error {
        Failure::Past => " Read a recording, or remove the condition on evt.time.",
        Failure::TooLarge(_) => {
            " Use a longer interval, fewer groups or a filter, or check the units (unitstime, unitslat)."
        }
        Failure::NotDerivable { .. } => {
            " Leave it out, or convert a part of the trace first (latscope convert -w part.lat FILTER)."
        }
        Failure::Averages(_) => {
            " Run fio without log_avg_msec, or ioping with -p 1. To see the averages, use heatmap() or events()."
        }
        Failure::WholeJobs(_) => {
            " Let fio write logs (write_lat_log, or write_hist_log with log_hist_msec), or use percentiles() or summary()."
        }
        Failure::Width(_) => " Choose another interval.",
        Failure::Merge(MergeError::CountBy) => " Stored histograms count by completion; use count_by=\"completion\".",
        Failure::NoStacks(_) => " Record them with -s stacks, with -s block --stacks all, or by perf record -g.",
        Failure::NoStackTimes => " Use width=\"events\".",
        Failure::Read(error) => match error.remedy {
            Remedy::Lenient => " lenient=True skips and counts such rows.",
            Remedy::Format => " Give it with format (latscope formats lists them).",
            Remedy::Units => " Give their units with unitstime (ms, us or ns) and unitslat.",
            Remedy::LatencyUnit => " Give unitslat (ns, us or ms; fio 3 has ns, older versions us).",
            Remedy::Histograms => " Use series(), percentiles(), summary() or heatmap().",
            Remedy::InMessage | Remedy::Unpack => "",
        },
        _ => "",
    }
}

/// What the pipeline and the traces say beside their numbers.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// All sentences, in their order.
    pub fn sentences(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a sentence, unless it is there.
    pub fn add(&self, sentence: String) {
        let mut sentences = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }

    /// Keeps what is noted of traces, in the words of the program.
    pub fn note(&self, contexts: &[Context]) {
        let lines = WORDING.lines_of_all(contexts);
        lines.into_iter().for_each(|line| self.add(format!("{}: {}", line.source, line.text)));
    }

    /// The same of a series, and what its groups lack.
    pub fn note_series(&self, series: &HistogramSeries, contexts: &[Context]) {
        self.note(contexts);
        let missing = missing_groups(series);
        if !series.groups().is_empty() && !missing.is_empty() {
            self.add(Notice::Ungrouped(missing).to_string());
        }
    }
}

impl Observer for Notes {
    fn notice(&self, notice: &Notice) {
        self.add(notice.to_string());
    }
}

/// Does this on a thread of its own, without the lock of the interpreter. Ctrl-C is raised at once; what the thread had begun ends
/// by itself, and nobody takes it.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    notes: &Notes,
    work: impl FnOnce(Control) -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let control = Control::new(Arc::clone(&cancelled), Arc::new(notes.clone()));
    py.detach(|| {
        let (sender, receiver) = mpsc::sync_channel(1);
        std::thread::spawn(move || sender.send(work(control)));
        loop {
            match receiver.recv_timeout(TURN) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new_err("latscope failed; the reason is on standard error."));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = Python::attach(|py| py.check_signals()) {
                        cancelled.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
        }
    })
}
