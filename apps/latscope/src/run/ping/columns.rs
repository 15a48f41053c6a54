//! Several targets side by side: a row for every interval, and a table at the end.

use super::amount::time;
use super::meter::{Meter, PERCENTILES};
use super::stats::{Notice, Stats};
use crate::plan::Ping;
use crate::run::output::COLUMNS;
use latscope_capture_probe::Sample;
use latscope_event::{format_count, format_elapsed};
use latscope_view_term::{Align, Table};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::MutexGuard;

/// The shortest row.
const SECOND_NS: u64 = 1_000_000_000;
/// Width of a target's column.
const WIDE: usize = 30;

/// Rows of intervals.
pub struct Columns {
    names: Vec<String>,
    /// Rows are printed.
    shows: bool,
    width_ns: u64,
    /// By number of the interval, of every target.
    rows: BTreeMap<u64, Vec<Stats>>,
    /// The latest completion of every target.
    seen_ns: Vec<u64>,
    titled: bool,
}

impl Columns {
    pub fn new(plan: &Ping) -> Columns {
        let interval_ns = if plan.probes[0].pace.open { 0 } else { plan.probes[0].pace.interval_ns as u64 };
        Columns {
            names: plan.probes.iter().map(|probe| probe.target.to_string_lossy().into_owned()).collect(),
            shows: !plan.show.quiet,
            width_ns: interval_ns.max(SECOND_NS),
            rows: BTreeMap::new(),
            seen_ns: vec![0; plan.probes.len()],
            titled: false,
        }
    }

    pub fn add(&mut self, target: usize, sample: &Sample, notice: Notice) {
        self.seen_ns[target] = self.seen_ns[target].max(sample.completed_ns);
        if self.shows {
            // By the start, so that the requests of one moment stand in one row whoever is faster.
            let row = self
                .rows
                .entry(sample.intended_ns / self.width_ns)
                .or_insert_with(|| vec![Stats::default(); self.names.len()]);
            notice.count(sample, &mut row[target]);
        }
    }

    /// Prints the rows that are over for all.
    pub fn ready(&mut self, out: &mut String) {
        let until = self.seen_ns.iter().min().copied().unwrap_or(0) / self.width_ns;
        let later = self.rows.split_off(&until);
        for (number, row) in std::mem::replace(&mut self.rows, later) {
            self.row(number, &row, out);
        }
    }

    /// Prints what is left.
    pub fn rest(&mut self, out: &mut String) {
        for (number, row) in std::mem::take(&mut self.rows) {
            self.row(number, &row, out);
        }
    }

    fn row(&mut self, number: u64, row: &[Stats], out: &mut String) {
        if !std::mem::replace(&mut self.titled, true) {
            let _ = write!(out, "{:>10}", "");
            self.names.iter().for_each(|name| out.push_str(&format!("  {:>WIDE$}", tail(name))));
            out.push('\n');
        }
        let _ = write!(out, "{:>10}", format_elapsed(number * self.width_ns, self.width_ns));
        for stats in row {
            let failed = if stats.failed > 0 { format!("{} failed ", stats.failed) } else { String::new() };
            let text = match stats.count {
                0 if stats.load == 0 => format!("{failed}-"),
                0 => format!("{failed}(warmup)"),
                1 => format!("{failed}{}", time(stats.avg_ns())),
                count => format!("{failed}{count}: {} .. {}", time(stats.avg_ns()), time(stats.max_ns as f64)),
            };
            let _ = write!(out, "  {text:>WIDE$}");
        }
        out.push('\n');
    }

    /// A row for each target.
    pub fn summary(&self, meters: &[MutexGuard<Meter>], out: &mut String) {
        let titles = ["requests", "failed", "per second", "min", "mean"]
            .into_iter()
            .chain(PERCENTILES.map(|(name, _)| name))
            .chain(["max"]);
        let mut table =
            Table::new(std::iter::once(("target", Align::Left)).chain(titles.map(|title| (title, Align::Right))));
        for (meter, name) in meters.iter().zip(&self.names) {
            let stats = &meter.total;
            let rate = if meter.end_ns == 0 { 0.0 } else { stats.load as f64 * 1e9 / meter.end_ns as f64 };
            let mut row =
                vec![name.clone(), format_count(stats.count), format_count(stats.failed), format!("{rate:.1}")];
            row.extend([stats.min_ns as f64, stats.avg_ns()].map(time));
            row.extend(
                meter.percentiles().into_iter().map(|(_, value)| value.map_or("-".into(), |ns| time(ns as f64))),
            );
            row.push(time(stats.max_ns as f64));
            table.push(row);
        }
        out.push('\n');
        let columns = COLUMNS * 2;
        for line in std::iter::once(table.heading(columns)).chain(table.take_lines(columns)) {
            line.encode(out);
        }
    }
}

/// The end of a path, which tells more than its beginning.
fn tail(path: &str) -> String {
    let letters = path.chars().count();
    if letters <= WIDE {
        path.into()
    } else {
        format!("…{}", path.chars().skip(letters - WIDE + 1).collect::<String>())
    }
}
