//! Turn after turn, each into a trace of its own.

use super::dry::duration;
use crate::Failure;
use crate::plan::Lab as Plan;
use crate::run::ping::{Signals, Trace};
use latscope_capture_probe::{Capture, Operation, Probe, Sample, Turn};
use latscope_event::{format_rate, format_size};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long samples are waited for before signals are looked at.
const WAIT: Duration = Duration::from_millis(50);
/// Requests in flight get so long to end.
const GRACE_NS: u64 = 1_000_000_000;
/// When the turn is over, a request that is older than this is not waited for.
const GIVEN_UP_NS: u64 = 5_000_000_000;
/// What a turn left in memory is written back for as long as the turn took, and at least so long.
const LEAST_WRITE_BACK: Duration = Duration::from_secs(10);

/// What was recorded.
pub struct Recorded {
    /// In the order of the measurement.
    pub traces: Vec<(Turn, PathBuf)>,
    /// Sentences about what could not be measured.
    pub left_out: Vec<String>,
    /// Whether a signal ended it early.
    pub interrupted: bool,
}

/// Runs all turns.
pub fn all(plan: &Plan) -> Result<Recorded, Failure> {
    prepare(&plan.output)?;
    let signals = Signals::new();
    let mut recorded = Recorded { traces: Vec::new(), left_out: Vec::new(), interrupted: false };
    let mut turns = plan.lab.turns(plan.directories.len());
    // What cannot run somewhere is reported before anything takes minutes.
    for (number, experiment) in plan.lab.experiments.iter().enumerate() {
        for (at, directory) in plan.directories.iter().enumerate() {
            if let Err(error) = experiment.try_in(directory) {
                recorded.left_out.push(format!("{} is skipped: {error}", experiment.name));
                turns.retain(|turn| (turn.experiment, turn.directory) != (number, at));
            }
        }
    }
    recorded.left_out.iter().for_each(|reason| say!("latscope: {reason}"));
    let names = names(&plan.directories);
    let mut largest: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    let mut left: Duration = turns.iter().map(|turn| plan.lab.experiments[turn.experiment].turn).sum();
    for (number, turn) in turns.iter().enumerate() {
        let experiment = &plan.lab.experiments[turn.experiment];
        let directory = &plan.directories[turn.directory];
        let place = (turn.experiment, turn.directory);
        let rate = match turn.load {
            None => experiment.rate,
            Some(load) => match largest.get(&place) {
                Some(largest) => Some(largest * f64::from(load) / 100.0),
                // The turn that should have measured it could not run, which was reported.
                None => continue,
            },
        };
        let (job, of) = (experiment.job(turn.load), turns.len());
        let paced = rate.map_or(String::new(), |rate| format!(" at {}", format_rate(rate)));
        say!(
            "latscope: turn {} of {of}: {job} in {} for {}{paced}; {} left",
            number + 1,
            directory.display(),
            duration(experiment.turn),
            duration(left)
        );
        left = left.saturating_sub(experiment.turn);
        let path = plan.output.join(format!("{job}.{}.{}.lat", names[turn.directory], turn.round + 1));
        match record(experiment.probe(directory, turn.load, rate), &path, &signals) {
            Ok(measured) => {
                if turn.load.is_none() && !experiment.loads.is_empty() {
                    largest.insert(place, measured);
                }
                recorded.traces.push((*turn, path));
            }
            Err(Failed::Probe(message)) => {
                let reason = format!("{job} is skipped in round {}: {message}", turn.round + 1);
                say!("latscope: {reason}");
                recorded.left_out.push(reason);
            }
            Err(Failed::Trace(failure)) => return Err(failure),
        }
        if signals.ended().is_some() {
            recorded.interrupted = true;
            break;
        }
    }
    if recorded.traces.is_empty() {
        return Err(Failure::Input("Nothing could be measured.".into()));
    }
    Ok(recorded)
}

/// The folder, which must not hold traces of another run.
fn prepare(folder: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Input(format!("{}: Cannot be created: {error}.", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let is_trace = |path: PathBuf| path.extension().is_some_and(|ending| ending == "lat");
    if entries.flatten().any(|entry| is_trace(entry.path())) {
        let message = "The folder already has traces; use another one (-o), or remove them.";
        return Err(Failure::Usage(format!("{}: {message}", folder.display())));
    }
    Ok(())
}

/// Names of the directories for files, all different.
fn names(directories: &[PathBuf]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (number, directory) in directories.iter().enumerate() {
        let text = directory.to_string_lossy();
        let kept =
            text.chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' });
        let kept: String = kept.collect();
        // The end of a long path gives more.
        let kept: String =
            kept.trim_matches('-').chars().rev().take(80).collect::<Vec<_>>().into_iter().rev().collect();
        let name = if kept.is_empty() { "dir".into() } else { kept };
        names.push(if names.contains(&name) { format!("{name}-{}", number + 1) } else { name });
    }
    names
}

/// Why a turn has no trace.
enum Failed {
    /// It could not start.
    Probe(String),
    Trace(Failure),
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed::Trace(failure)
    }
}

/// Runs one turn; the requests per second that were made.
fn record(probe: Probe, path: &Path, signals: &Signals) -> Result<f64, Failed> {
    let (turn, is_buffered) = (probe.duration, probe.work.operation != Operation::Read && !probe.work.is_durable());
    let mut capture = Capture::start(vec![probe]).map_err(|error| Failed::Probe(error.to_string()))?;
    capture.remarks().iter().for_each(|remark| say!("latscope: {remark}"));
    let mut trace = Trace::create(path, &capture)?;
    let mut kept: Vec<Sample> = Vec::new();
    let (mut requests, mut until_ns, mut end_ns) = (0, u64::MAX, 1);
    while capture.elapsed_ns() < until_ns {
        let more = capture.poll(WAIT, &mut |_, samples| kept.extend_from_slice(samples));
        requests += kept.len();
        end_ns = kept.iter().map(|sample| sample.completed_ns).fold(end_ns, u64::max);
        if !kept.is_empty() {
            trace.write(capture.events(0, &kept))?;
            kept.clear();
        }
        trace.flush_if_due()?;
        if !more {
            break;
        }
        if capture.is_given_up(GIVEN_UP_NS) {
            break;
        }
        if signals.ended().is_some() && until_ns == u64::MAX {
            capture.stop();
            until_ns = capture.elapsed_ns() + GRACE_NS;
        }
    }
    // Not after a signal, and not while a request hangs.
    if is_buffered && capture.outstanding().is_empty() && until_ns == u64::MAX {
        settle(&mut capture, turn.unwrap_or_default());
    }
    let context = capture.finish(&mut |_, _| {});
    trace.finish(&context)?;
    Ok(requests as f64 * 1e9 / end_ns as f64)
}

/// What a turn left in memory goes to the device before the next starts, which else would wait for it.
fn settle(capture: &mut Capture, turn: Duration) {
    let settled = capture.settle(turn.max(LEAST_WRITE_BACK));
    if let Some(in_memory) = settled.in_memory.filter(|&bytes| bytes > 0) {
        let took = duration(settled.took);
        let left = match settled.left {
            0 => String::new(),
            left => format!("; {} were left and never written", format_size(left)),
        };
        say!("latscope: {} were in memory and took {took} to write back{left}", format_size(in_memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_directories_differ() {
        let directories: Vec<PathBuf> = ["/mnt/a", "/", "mnt/a/", ".", "/mnt/ü b"].iter().map(PathBuf::from).collect();
        assert_eq!(names(&directories), ["mnt-a", "dir", "mnt-a-3", "dir-4", "mnt---b"]);
    }
}
