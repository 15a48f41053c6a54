//! The spectrogram of a probe while it runs: a row of colour for every interval that is over.

use crate::plan::Ping;
use crate::run::{output, spectrogram::depth};
use latscope_event::{Batch, Clock, Context};
use latscope_series::{Interval, Quantity, SeriesBuilder, Weight};
use latscope_view_term::{SpectrogramOptions, TimeLabels, spectrogram};

/// The shortest row.
const SECOND_NS: u64 = 1_000_000_000;
/// The axis is printed again after so many rows.
const AXIS_EVERY: usize = 20;

/// Rows of intervals.
pub struct Rows {
    builder: SeriesBuilder,
    width_ns: u64,
    options: SpectrogramOptions,
    printed: usize,
    /// The rows before this number had what waits at their end.
    waited: i64,
}

impl Rows {
    pub fn new(plan: &Ping) -> Rows {
        let pace = plan.probes[0].pace;
        let width_ns = if pace.open { SECOND_NS } else { (pace.interval_ns as u64).max(SECOND_NS) };
        let options = SpectrogramOptions {
            columns: output::columns(&None).max(20),
            depth: depth(None, output::to_terminal(&None)),
            // The axis is chosen before the first request, so it holds whatever may come.
            min: Some(1_000),
            max: Some(10 * SECOND_NS),
            half_blocks: false,
            time: TimeLabels::Wall,
            ..SpectrogramOptions::default()
        };
        let builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), Interval::Fixed(width_ns));
        Rows { builder, width_ns, options, printed: 0, waited: 0 }
    }

    /// The end of the last row before `unix_ns` that has to show what waits, if there is such a row.
    pub fn waits_until(&mut self, unix_ns: i64) -> Option<i64> {
        let width_ns = self.width_ns as i64;
        let current = unix_ns.div_euclid(width_ns);
        (std::mem::replace(&mut self.waited, current) < current).then_some(current * width_ns - 1)
    }

    pub fn add(&mut self, batch: &Batch) {
        self.builder.add(batch, None);
    }

    /// Prints what is over at this moment; at the end, `i64::MAX`, everything.
    pub fn ready(&mut self, unix_ns: i64, out: &mut String) {
        let series = self.builder.take_before(unix_ns.div_euclid(self.width_ns as i64));
        if series.slices().is_empty() {
            return;
        }
        let context = Context::new("probe", Clock::wall());
        let lines: Vec<String> = spectrogram(&series, &context, "", &self.options)
            .map(|line| {
                let mut text = String::new();
                line.encode(&mut text);
                text
            })
            .collect();
        // The rows stand between two axes.
        let below = |above: usize| (above + 2..lines.len()).find(|&below| lines[below] == lines[above]);
        let Some((above, below)) = (0..lines.len()).find_map(|above| Some((above, below(above)?))) else { return };
        for row in &lines[above + 1..below] {
            if self.printed.is_multiple_of(AXIS_EVERY) {
                out.push_str(&lines[above]);
            }
            self.printed += 1;
            out.push_str(row);
        }
    }
}
