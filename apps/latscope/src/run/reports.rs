//! What the program says about a run of the pipeline: notes, progress, remedies, and how a signal ends it.

use super::output;
use crate::Failure;
use crate::notes::WORDING;
use crate::plan::Reading;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use latscope_capture_file::Remedy;
use latscope_capture_file::{is_over, is_pipe};
use latscope_event::{Context, format_count};
use latscope_histogram::Totals;
use latscope_pipeline::{Control, Error, Notice, Observer, Pipeline, missing_groups};
use latscope_series::{HistogramSeries, MergeError, Quantity};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Shorter reads than this end before a bar could be read.
const BAR_FROM_BYTES: u64 = 64 << 20;

/// Opens a reading for a view that writes to `output`: it must not overwrite what it reads.
pub fn open(reading: Reading, output: Option<&Path>) -> Result<Pipeline, Failure> {
    let control = Control::new(
        // Without it Ctrl-C kills the program, which is what a conversion of files wants. Without files there is a capture or a probe.
        if reading.files.is_empty() { Arc::clone(interrupted()) } else { Arc::default() },
        Arc::new(Console::default()),
    );
    let control = control.on_restart(|sentence| say!("latscope: {sentence}"));
    let pipeline = Pipeline::open(reading, control)?;
    let inputs: Vec<PathBuf> = pipeline.reading().inputs().collect();
    output::refuse_inputs(&inputs, output)?;
    if pipeline.reading().follow {
        pipeline.require_growing()?;
        ends_by_signal(pipeline.reading());
    }
    Ok(pipeline)
}

/// Whether SIGHUP came, which then no longer ends the program. Asked for before [`interrupted`].
pub fn hung_up() -> &'static Arc<AtomicBool> {
    HANGUP.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let _ = signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&flag));
        flag
    })
}

static HANGUP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Whether somebody asked the program to end: Ctrl-C, SIGTERM or SIGHUP. The second Ctrl-C kills.
pub fn interrupted() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| {
        output::unnamed::signals_are_handled();
        let flag = Arc::new(AtomicBool::new(false));
        let hangup = HANGUP.get().is_none().then_some(signal_hook::consts::SIGHUP);
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM].into_iter().chain(hangup) {
            // Without a handler the signal simply kills, and what was flushed so far stays readable.
            let _ = signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag));
            let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
        }
        flag
    })
}

/// Lets Ctrl-C, SIGTERM and SIGHUP end the reading of files and pipes: the view then shows what was read.
pub fn ends_by_signal(reading: &Reading) {
    if reading.live.is_none() {
        latscope_capture_file::end_when(interrupted());
    }
}

/// Whether a signal ended the reading of files before their end. A pipe, and a file that is followed, end by a signal as a rule.
pub fn was_interrupted(reading: &Reading) -> bool {
    is_over() && !reading.follow && !reading.files.iter().any(|file| is_pipe(file))
}

/// Fails if a signal ended the reading of files before their end, where a part of them is no result.
pub fn refuse_interrupted() -> Result<(), Failure> {
    if is_over() { Err(Failure::Input("Interrupted; no file was written.".into())) } else { Ok(()) }
}

/// Standard error.
#[derive(Default)]
struct Console {
    bar: Mutex<Option<ProgressBar>>,
}

impl Observer for Console {
    fn notice(&self, notice: &Notice) {
        static NO_MATCH: AtomicBool = AtomicBool::new(false);
        static SAME_EVENTS: AtomicBool = AtomicBool::new(false);
        // A view that reads its files twice prints these once.
        let reported = match notice {
            Notice::NoMatch { .. } => Some(&NO_MATCH),
            Notice::SameEvents { .. } => Some(&SAME_EVENTS),
            _ => None,
        };
        if reported.is_none_or(|reported| !reported.swap(true, Ordering::Relaxed)) {
            say!("latscope: {}", in_full(notice));
        }
    }

    fn progress(&self, read_bytes: u64, size_bytes: u64) {
        if size_bytes < BAR_FROM_BYTES {
            return;
        }
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        // The draw target is hidden where standard error is no terminal.
        let bar = bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("reading {bar:40} {bytes} of {total_bytes} {eta}");
            let bar = ProgressBar::with_draw_target(Some(size_bytes), ProgressDrawTarget::stderr_with_hz(5));
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_length(size_bytes);
        bar.set_position(read_bytes);
    }

    fn ended(&self) {
        if let Some(bar) = self.bar.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }
}

/// A notice with what this program offers against it.
fn in_full(notice: &Notice) -> String {
    match notice {
        Notice::JobsLeftOut { .. } => {
            format!("{notice} percentiles shows them if they are read alone; summary and histogram include them.")
        }
        Notice::LateEvents { .. } => format!("{notice} To avoid this, write the input to a file and read that."),
        Notice::Ungrouped(fields) => {
            let names: Vec<_> = fields.iter().map(|field| field.name()).collect();
            format!("no event has {}, a field of --by.", names.join(" or "))
        }
        notice => notice.to_string(),
    }
}

/// What this program offers against an error of a file.
fn remedy(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::InMessage => "",
        Remedy::Lenient => " --lenient skips and counts such rows.",
        Remedy::Format => " Give it with --format (latscope formats lists them).",
        Remedy::Unpack => " Unpack it, or leave --follow out.",
        Remedy::Units => " Give their units with --unitstime (ms, us or ns) and --unitslat.",
        Remedy::LatencyUnit => " Give --latency-unit (ns, us or ms; fio 3 has ns, older versions us).",
        Remedy::Histograms => {
            " Use percentiles, heatmap, spectrogram or histogram, or convert it to a series or a .hlog (-i)."
        }
    }
}

impl From<Error> for Failure {
    /// The sentence with what this program offers as a way out.
    fn from(error: Error) -> Failure {
        let remedy = match &error {
            Error::Past => " Read a recording with -r, or remove the condition on evt.time.",
            Error::EventsWanted => " Remove --mode histogram.",
            Error::TooLarge(_) => {
                " Use a longer interval (-i), fewer groups (--by) or a filter, or check the units (--unitstime, \
                 --unitslat)."
            }
            Error::NotDerivable { .. } => {
                " Leave it out, or convert a part of the trace first (latscope convert -w part.lat FILTER)."
            }
            Error::Incomplete(_) => " Record first, and read the recording with -r.",
            Error::Averages(_) => {
                " Run fio without log_avg_msec, or ioping with -p 1. To see the averages, use latscope heatmap or \
                 latscope events."
            }
            Error::WholeJobs(_) => {
                " Let fio write logs (write_lat_log, or write_hist_log with log_hist_msec), or use latscope \
                 percentiles, histogram or summary."
            }
            Error::Width(_) => " Choose another -i.",
            Error::Merge(MergeError::CountBy) => " Stored histograms count by completion; use --count-by completion.",
            Error::Read(error) => remedy(error.remedy),
            Error::NoStacks(_) => " Record them with -s stacks, with -s block --stacks all, or by perf record -g.",
            Error::NoStackTimes => " Use --width events.",
            Error::NotGrowing { .. } => " Remove --follow, or follow text, a fio log or a .lat.",
            _ => "",
        };
        let message = format!("{error}{remedy}");
        if error.is_usage() { Failure::Usage(message) } else { Failure::Input(message) }
    }
}

/// Says how much of everything is in the group of all that were too many, and by which fields nothing could be grouped.
pub fn say_groups(series: &HistogramSeries) {
    say_others(series);
    // Maps of offsets are grouped by device unasked.
    if series.quantity != Quantity::Offset {
        say_ungrouped(series);
    }
}

/// Says how much of everything is in the group of all that were too many.
pub fn say_others(series: &HistogramSeries) {
    let Some(others) = series.others() else { return };
    let totals = series.group_totals();
    let all = totals.iter().fold(Totals::EMPTY, |sum, more| sum.merged(more));
    let Some(rest) = totals.get(others.group as usize).filter(|_| all.count > 0) else { return };
    let share = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
    let events = share(rest.count as f64, all.count as f64);
    let sum = match series.quantity.is_bytes() {
        false => format!(" and {:.2}% of the time", share(rest.sum as f64, all.sum as f64)),
        true => String::new(),
    };
    let lacking = match others.lacking {
        0 => "",
        _ => {
            " Counts of groups that were small at first may be too low; reading from a file instead of a pipe \
             gives exact counts."
        }
    };
    say!(
        "latscope: (others) has {events:.2}% of the events{sum}: all groups but the {} largest.{lacking}",
        format_count(totals.len() as u64 - 1)
    );
}

/// Says by which fields nothing could be grouped, because no event has them.
pub fn say_ungrouped(series: &HistogramSeries) {
    let missing = missing_groups(series);
    if !series.groups().is_empty() && series.others().is_none() && !missing.is_empty() {
        say!("latscope: {}", in_full(&Notice::Ungrouped(missing)));
    }
}

/// Says on standard error what a table in machine-readable form has no place for.
pub fn say_notes(contexts: &[Context]) {
    for note in WORDING.lines_of_all(contexts) {
        say!("latscope: {}: {}", note.source, note.text);
    }
}
