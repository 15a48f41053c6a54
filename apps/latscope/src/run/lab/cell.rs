//! What was measured in one directory by one experiment, over all its rounds.

use super::record::Recorded;
use crate::Failure;
use crate::plan::{Folding, Lab as Plan, Reading};
use crate::run::reports;
use latscope_capture_probe::{Turn, is_memory};
use latscope_event::{Context, format_duration, format_size};
use latscope_histogram::{Rule, Sparse};
use latscope_series::{
    HistogramSeries, Mode, Period, Quantity, Raised, Support, Waiting, Weight, modes, next_wider, period,
};
use std::path::PathBuf;

/// A turn has at least so many intervals.
const INTERVALS: u64 = 400;
/// The shortest interval.
const SHORTEST_NS: u64 = 1_000_000;
/// The percentiles of the table.
pub const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];

/// One experiment (at one load) in one directory.
pub struct Cell {
    /// Number of the experiment.
    pub experiment: usize,
    /// Number of the directory.
    pub directory: usize,
    /// Percent of the largest rate, where parts of it were offered.
    pub load: Option<u32>,
    pub job: String,
    pub files: Vec<PathBuf>,
    pub contexts: Vec<Context>,
    /// A series for each round.
    pub rounds: Vec<HistogramSeries>,
    pub total: Sparse,
    /// Requests that were not done when their turn was given up: how long each had waited.
    pub waiting: Waiting,
    /// How long was measured, nanoseconds.
    pub span_ns: u64,
    pub bytes: u64,
    pub modes: Vec<Mode>,
    pub period: Option<Period>,
}

/// Reads back what was recorded, in the order of experiments, loads, and directories.
pub fn read(plan: &Plan, recorded: &Recorded) -> Result<Vec<Cell>, Failure> {
    let mut traces: Vec<_> = recorded.traces.iter().collect();
    // A largest rate (no load) comes first.
    traces.sort_by_key(|(turn, _)| (turn.experiment, turn.load, turn.directory, turn.round));
    let job = |turn: &Turn| (turn.experiment, turn.load, turn.directory);
    let width_ns = width_ns(plan);
    let mut cells = Vec::new();
    for same in traces.chunk_by(|a, b| job(&a.0) == job(&b.0)) {
        let turn = same[0].0;
        let (mut rounds, mut contexts) = (Vec::new(), Vec::new());
        for (_, path) in same {
            let folding = Folding::of_latencies(Some(width_ns));
            let (series, context) = reports::open(reading(vec![path.clone()]), None)?.series(&folding, u32::MAX)?;
            rounds.push(series);
            contexts.extend(context);
        }
        let files = same.iter().map(|(_, path)| path.clone()).collect();
        let job = plan.lab.experiments[turn.experiment].job(turn.load);
        cells.push(Cell::new(&turn, job, files, contexts, rounds));
    }
    Ok(cells)
}

/// Our own traces.
pub fn reading(files: Vec<PathBuf>) -> Reading {
    Reading { files, ..Reading::default() }
}

/// The interval of all series: a round one.
fn width_ns(plan: &Plan) -> u64 {
    let shortest = plan.lab.experiments.iter().map(|experiment| experiment.turn.as_nanos() as u64).min().unwrap_or(0);
    let wanted = shortest / INTERVALS;
    let mut width_ns = SHORTEST_NS;
    while next_wider(width_ns) <= wanted {
        width_ns = next_wider(width_ns);
    }
    width_ns
}

impl Cell {
    fn new(
        turn: &Turn,
        job: String,
        files: Vec<PathBuf>,
        contexts: Vec<Context>,
        rounds: Vec<HistogramSeries>,
    ) -> Cell {
        let nothing = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), 1);
        let mut total = nothing.total(None).to_sparse();
        rounds.iter().for_each(|series| total.merge(&series.total(None).to_sparse()));
        let span_ns = contexts.iter().filter_map(|context| context.span_ns).map(|(from, to)| from.abs_diff(to)).sum();
        let bytes = rounds.iter().flat_map(|series| series.slices().values()).map(|slice| slice.bytes).sum();
        let (modes, period) = (modes(&total), period(&rounds));
        let Turn { experiment, directory, load, .. } = *turn;
        let unfinished = contexts.iter().flat_map(|context| &context.unfinished);
        let waiting = Waiting::from_ages(unfinished.map(|request| (request.at_least_ns, 1)));
        Cell {
            experiment,
            directory,
            load,
            job,
            files,
            contexts,
            rounds,
            total,
            waiting,
            span_ns,
            bytes,
            modes,
            period,
        }
    }

    /// Requests or bytes per second.
    pub fn per_second(&self, amount: u64) -> f64 {
        amount as f64 * 1e9 / self.span_ns.max(1) as f64
    }

    /// The percentiles of the table with their support; requests that are not done raise them.
    pub fn quantiles(&self) -> Vec<(Raised<u64>, Support)> {
        let quantiles = QUANTILES.map(|(quantile, _)| quantile);
        let values = self.waiting.quantiles(&self.total, &quantiles, Rule::Interpolated).unwrap_or_default();
        let count = (self.total.totals().count + self.waiting.count()) as f64;
        values.into_iter().zip(quantiles).map(|(value, quantile)| (value, Support::new(quantile, count))).collect()
    }

    /// The modes, in a phrase.
    pub fn modes_text(&self) -> String {
        let text = |mode: &Mode| {
            format!(
                "about {} ({} to {})",
                format_duration(mode.peak_ns),
                format_duration(mode.low_ns),
                format_duration(mode.high_ns)
            )
        };
        match &self.modes[..] {
            [] => "no requests".into(),
            [mode] => format!("one mode {}", text(mode)),
            modes => {
                let each = modes.iter().map(|mode| format!("{:.1} % {}", 100.0 * mode.share, text(mode)));
                let each: Vec<String> = each.collect();
                format!("{} modes: {}", modes.len(), each.join(", "))
            }
        }
    }

    /// What recurs, in a phrase.
    pub fn period_text(&self) -> String {
        match self.period {
            Some(found) => format!(
                "requests slower than {} recur every {} (autocorrelation {:.2})",
                format_duration(found.slow_ns),
                format_duration(found.period_ns),
                found.correlation
            ),
            None => {
                let longest = self.rounds.iter().filter_map(|round| {
                    let (first, last) = round.range()?;
                    Some(first.abs_diff(last) * round.width_ns() / 3)
                });
                let longest = longest.max().unwrap_or(0);
                format!("no period of slow requests up to {}", format_duration(longest))
            }
        }
    }

    /// The sum of a property over all turns; `None` where no turn has it.
    pub fn sum_of(&self, key: &str) -> Option<u64> {
        let values = self.contexts.iter().filter_map(|context| context.properties.get(key)?.parse::<u64>().ok());
        values.reduce(|a, b| a + b)
    }

    /// What became of buffered writes, in a phrase; `None` where they waited for the device anyhow.
    pub fn write_back_text(&self, plan: &Plan) -> Option<String> {
        let sum = |key: &str| self.sum_of(key);
        let fstype = |context: &Context| context.properties.get("fs").filter(|fstype| is_memory(fstype)).cloned();
        if let Some(fstype) = self.contexts.iter().find_map(fstype) {
            return Some(format!("{fstype} keeps all data in memory and has no device"));
        }
        let in_memory = sum("unwritten_bytes")?;
        let turns = self.contexts.len() as u64;
        let took = self.contexts.iter().filter_map(|context| context.properties.get("write_back")).cloned();
        let mut text = format!(
            "wrote {}, of which {} were still in memory when the turns ended (written back in {})",
            format_size(self.bytes),
            format_size(in_memory),
            took.collect::<Vec<_>>().join(", then ")
        );
        if let Some(left) = sum("unwritten_left_bytes").filter(|&left| left > 0) {
            text += &format!("; {} never reached the device", format_size(left));
        }
        if let Some(device) = sum("device_written_bytes") {
            text += &format!("; the device wrote {} meanwhile", format_size(device));
        }
        let experiment = &plan.lab.experiments[self.experiment];
        let held = experiment.held_in_memory(&plan.directories[self.directory]);
        if let Some(held) = held.filter(|&held| experiment.rate.is_none() && self.bytes / turns.max(1) < held) {
            text += &format!(
                ". Memory can hold {}, so no write had to wait for the device; use longer turns (--for)",
                format_size(held)
            );
        }
        Some(text)
    }

    /// How much of the slow requests was waiting for a CPU, round by round, in a phrase; `None` where none was slow.
    pub fn cpu_wait_text(&self) -> Option<String> {
        let waits = self.contexts.iter().filter_map(|context| context.properties.get("cpu_wait"));
        let waits: Vec<&str> = waits.map(String::as_str).collect();
        (!waits.is_empty()).then(|| format!("time spent waiting for a CPU: {}", waits.join(", then ")))
    }

    /// Bytes per second, as people write them.
    pub fn throughput(&self) -> String {
        format!("{}/s", format_size(self.per_second(self.bytes) as u64))
    }
}
