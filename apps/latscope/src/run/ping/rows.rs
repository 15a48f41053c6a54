//! The spectrogram of a probe while it runs: a row of colour for every interval that is over.

use crate::notes::WORDING;
use crate::output;
use crate::plan::Ping;
use crate::run::spectrogram::depth;
use latscope_event::{Batch, Clock, Context};
use latscope_series::{Interval, Quantity, SeriesBuilder, Weight};
use latscope_view_term::{GrowingSpectrogram, SpectrogramOptions, TimeLabels};

/// The shortest row.
const SECOND_NS: u64 = 1_000_000_000;

/// Rows of intervals.
pub struct Rows {
    builder: SeriesBuilder,
    width_ns: u64,
    growing: GrowingSpectrogram,
    context: Context,
    /// The rows before this number had what waits at their end.
    waited: i64,
}

impl Rows {
    pub fn new(plan: &Ping) -> Rows {
        let pace = plan.probes[0].pace;
        let width_ns = if pace.open { SECOND_NS } else { (pace.interval_ns as u64).max(SECOND_NS) };
        let options = SpectrogramOptions {
            wording: WORDING,
            columns: output::columns(&None).max(20),
            depth: depth(None, output::to_terminal(&None)),
            time: TimeLabels::Wall,
            ..SpectrogramOptions::default()
        };
        let builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), Interval::Fixed(width_ns));
        let targets: Vec<_> = plan.probes.iter().map(|probe| probe.target.to_string_lossy()).collect();
        let context = Context::new(targets.join(", "), Clock::wall());
        Rows { builder, width_ns, context, growing: GrowingSpectrogram::new("", &options), waited: 0 }
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
        let before = unix_ns.div_euclid(self.width_ns as i64);
        let series = self.builder.take_before(before);
        // Intervals without a request get their row once one follows them.
        let Some((_, last)) = series.range() else { return };
        for line in self.growing.grow(&series, before.min(last + 1), &self.context) {
            line.encode(out);
        }
    }
}
