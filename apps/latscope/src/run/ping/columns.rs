//! Several targets side by side: a row for every interval, and a table at the end.

use super::amount::time;
use super::lines::extremes;
use super::meter::{Meter, Open, Percentile};
use super::stats::{Class, Stats};
use crate::output::COLUMNS;
use crate::plan::Ping;
use latscope_capture_probe::Sample;
use latscope_event::{format_count, format_elapsed, printable};
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
    /// How long the oldest request of every target has waited.
    waiting_ns: Vec<u64>,
    /// Rows before this one are printed.
    next: u64,
    titled: bool,
}

impl Columns {
    pub fn new(plan: &Ping) -> Columns {
        let interval_ns = if plan.probes[0].pace.open { 0 } else { plan.probes[0].pace.interval_ns as u64 };
        Columns {
            names: plan.probes.iter().map(|probe| printable(&probe.target.to_string_lossy()).into_owned()).collect(),
            shows: !plan.show.quiet,
            width_ns: interval_ns.max(SECOND_NS),
            rows: BTreeMap::new(),
            seen_ns: vec![0; plan.probes.len()],
            waiting_ns: vec![0; plan.probes.len()],
            next: 0,
            titled: false,
        }
    }

    pub fn add(&mut self, target: usize, sample: &Sample, class: Class) {
        self.seen_ns[target] = self.seen_ns[target].max(sample.completed_ns);
        if self.shows {
            // By the start, so that the requests of one moment stand in one row whoever is faster; one that hung comes when
            // its row was printed without it.
            let number = (sample.intended_ns / self.width_ns).max(self.next);
            class.count(sample, &mut self.entry(number)[target]);
        }
    }

    fn entry(&mut self, number: u64) -> &mut Vec<Stats> {
        self.rows.entry(number).or_insert_with(|| vec![Stats::default(); self.names.len()])
    }

    /// It is `now_ns`, and these requests of the targets are not done: a target that hangs holds up nobody's rows.
    pub fn waiting(&mut self, now_ns: u64, open: &[Open]) {
        self.waiting_ns = open.iter().map(Open::oldest_ns).collect();
        let hangs = self.waiting_ns.iter().map(|&waiting_ns| waiting_ns > 2 * self.width_ns).collect::<Vec<_>>();
        for (seen_ns, _) in self.seen_ns.iter_mut().zip(&hangs).filter(|(_, hangs)| **hangs) {
            *seen_ns = now_ns;
        }
        if self.shows && hangs.contains(&true) {
            for number in self.next..now_ns / self.width_ns {
                self.entry(number);
            }
        }
    }

    /// Prints the rows that are over for all.
    pub fn ready(&mut self, out: &mut String) {
        let until = self.seen_ns.iter().min().copied().unwrap_or(0) / self.width_ns;
        let later = self.rows.split_off(&until);
        for (number, row) in std::mem::replace(&mut self.rows, later) {
            self.row(number, &row, out);
        }
        self.next = self.next.max(until);
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
        for (stats, &waiting_ns) in row.iter().zip(&self.waiting_ns) {
            let failed = if stats.failed > 0 { format!("{} failed ", stats.failed) } else { String::new() };
            let text = match stats.count {
                0 if stats.load == 0 && waiting_ns > self.width_ns => {
                    format!("{failed}waiting >={}", time(waiting_ns as f64))
                }
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
            .chain(Percentile::names())
            .chain(["max", "waiting"]);
        let mut table =
            Table::new(std::iter::once(("target", Align::Left)).chain(titles.map(|title| (title, Align::Right))));
        for (meter, name) in meters.iter().zip(&self.names) {
            let stats = &meter.total;
            let rate = if meter.end_ns == 0 { 0.0 } else { stats.load as f64 * 1e9 / meter.end_ns as f64 };
            let mut row =
                vec![name.clone(), format_count(stats.count), format_count(stats.failed), format!("{rate:.1}")];
            let [min, mean, max, _] = extremes(&meter.whole());
            row.extend([min, mean]);
            row.extend(meter.percentiles().iter().map(ToString::to_string));
            row.extend([max, format_count(meter.open.count)]);
            table.push(row);
        }
        out.push('\n');
        let columns = COLUMNS * 2;
        for line in std::iter::once(table.heading(columns)).chain(table.take_lines(columns)) {
            line.encode(out);
        }
    }
}

/// The end of a path, which gives more than its beginning.
fn tail(path: &str) -> String {
    let letters = path.chars().count();
    if letters <= WIDE {
        path.into()
    } else {
        format!("…{}", path.chars().skip(letters - WIDE + 1).collect::<String>())
    }
}
