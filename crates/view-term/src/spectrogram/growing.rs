//! A spectrogram of something that goes on: rows come as intervals pass.

use super::down::{self, AXIS_EVERY, Layout, Painter};
use super::source::Source;
use super::{SpectrogramOptions, strength};
use crate::Line;
use crate::caption::{self, Moments};
use crate::scale::Strength;
use latscope_event::{Context, format_duration_exact};
use latscope_series::{HistogramSeries, Quantity};

/// The axis of latencies when none is given, nanoseconds: what the data will be is not known yet, and what lies beyond has
/// cells of its own.
const AXIS_NS: (u64, u64) = (1_000, 10_000_000_000);
/// Columns of a time of day with milliseconds.
const LABEL: usize = 12;

/// Draws what passes, an interval to a row.
pub struct GrowingSpectrogram {
    options: SpectrogramOptions,
    filter: String,
    /// The interval that comes next, and the first one.
    next: Option<(i64, i64)>,
    since_axis: usize,
    /// The strongest colour so far, and of what.
    strength: Option<Strength>,
}

impl GrowingSpectrogram {
    /// With nothing on it yet. Half blocks are not used, as a row is final when it is there.
    pub fn new(filter: &str, options: &SpectrogramOptions) -> GrowingSpectrogram {
        let options = SpectrogramOptions { half_blocks: false, group: None, waiting: true, ..options.clone() };
        GrowingSpectrogram { options, filter: filter.to_owned(), next: None, since_axis: 0, strength: None }
    }

    /// The lines of all intervals before this one that were not drawn yet, those without events too. The colours are those
    /// of rates up to a power of ten (bytes: of 16); when there is more, legend and axis come again.
    pub fn grow(&mut self, series: &HistogramSeries, before: i64, context: &Context) -> Vec<Line> {
        let mut options = self.options.clone();
        if series.quantity == Quantity::Latency {
            options.min = options.min.or(Some(AXIS_NS.0));
            options.max = options.max.or(Some(AXIS_NS.1));
        }
        let mut lines = Vec::new();
        let (next, first) = self.next.unwrap_or_else(|| {
            let first = series.range().map_or(before - 1, |(first, _)| first.min(before - 1));
            let what = format!("{}, every {}", series.quantity.word(), format_duration_exact(series.width_ns()));
            lines.extend(caption::head(&what, context, &self.filter, options.columns));
            (first, first)
        });
        if next >= before {
            return lines;
        }
        let layout = Layout::new(&options, LABEL);
        let mut source = Source::of_series(series, &options, layout.map);
        let grown = Strength::steady_full(source.strength.full, options.scale, series.weight);
        let full = match (&self.strength, options.full) {
            (_, Some(full)) => full,
            (Some(before), None) => before.full.max(grown),
            (None, None) => grown,
        };
        let has_grown = self.strength.as_ref().is_none_or(|before| before.full != full);
        source.strength.full = full;
        self.strength = Some(Strength { full, ..strength(&options, series.weight) });
        let zero_ns = context.zero_ns(Some(series.start_ns(first)), series.width_ns());
        let moments = Moments::new(options.time, &context.clock, zero_ns, series.width_ns(), 0);
        let mut painter = Painter { moments, halved: false, sum: source.empty(), layout, options, source };
        if has_grown {
            lines.extend(painter.source.strength.legend(painter.options.columns));
            self.since_axis = AXIS_EVERY;
        }
        let skipped = before.abs_diff(next).saturating_sub(down::GAP);
        if skipped > 0 {
            lines.push(painter.gap(skipped));
        }
        for interval in next + skipped as i64..before {
            if self.since_axis >= AXIS_EVERY {
                self.since_axis = 0;
                lines.push(painter.axis());
            }
            self.since_axis += 1;
            lines.push(painter.row(&[interval]));
        }
        self.next = Some((before, first));
        lines
    }

    /// The lines below: what was lost or is open.
    pub fn finish(self, context: &Context) -> Vec<Line> {
        caption::foot(context, self.options.columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spectrogram;
    use latscope_event::{Batch, Clock, Field, FieldSet};
    use latscope_series::{Interval, SeriesBuilder, Weight};

    const WIDTH_NS: i64 = 1_000_000_000;

    fn series(events: &[(i64, u64)]) -> HistogramSeries {
        let width = Interval::Fixed(WIDTH_NS as u64);
        let mut builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), width);
        let mut batch = Batch::new(FieldSet::ALWAYS);
        for &(second, latency_ns) in events {
            batch.push_i64(Field::Time, second * WIDTH_NS);
            batch.push_u64(Field::Latency, latency_ns);
            batch.end_row();
        }
        builder.add(&batch, None);
        builder.finish()
    }

    /// Piece by piece there are the rows of the whole, whose axis and colours are the same.
    #[test]
    fn rows_are_those_of_the_whole_picture() {
        let context = Context::new("block", Clock::unanchored("monotonic"));
        let full = Some(10.0);
        let (min, max) = (Some(1_000), Some(10_000_000_000));
        let time = crate::TimeLabels::None;
        let options = SpectrogramOptions { min, max, full, time, half_blocks: false, ..SpectrogramOptions::default() };
        let events: Vec<(i64, u64)> = (0..30).map(|at| (100 + at * at % 17, 2_000 << (at % 13))).collect();
        let mut growing = GrowingSpectrogram::new("", &SpectrogramOptions { min: None, max: None, ..options.clone() });
        let mut lines = Vec::new();
        for second in 100..118 {
            let passed: Vec<_> = events.iter().copied().filter(|&(at, _)| at == second).collect();
            lines.extend(growing.grow(&series(&passed), second + 1, &context));
        }
        lines.extend(growing.finish(&context));
        let cells = |lines: &[Line]| -> Vec<String> {
            let row = |line: &Line| {
                let mut codes = String::new();
                line.encode(&mut codes);
                codes.contains("\x1b[48").then(|| codes.split_once("\x1b[48").unwrap().1.to_owned())
            };
            lines.iter().filter(|line| !line.text().starts_with("events")).filter_map(row).collect()
        };
        let whole = series(&events);
        let whole: Vec<Line> = spectrogram(&whole, &context, "", &options).collect();
        let (pieces, whole) = (cells(&lines), cells(&whole));
        assert!(pieces.len() >= 9, "{pieces:?}");
        assert_eq!(pieces, whole);
    }

    #[test]
    fn a_time_without_events_has_rows_and_a_long_one_a_line() {
        let context = Context::new("block", Clock::unanchored("monotonic"));
        let mut growing = GrowingSpectrogram::new("", &SpectrogramOptions::default());
        let rows = growing.grow(&series(&[(5, 1_000_000)]), 10, &context).len();
        let quiet = growing.grow(&series(&[]), 13, &context);
        assert!(rows > 5 && quiet.len() == 3, "{rows} {}", quiet.len());
        assert!(growing.grow(&series(&[]), 13, &context).is_empty(), "nothing twice");
        let long = growing.grow(&series(&[]), 1_000_000, &context);
        assert!(long.len() < 300 && long[0].text().contains("without events"), "{}", long[0].text());
        // More than before in one interval: the legend comes again.
        let many: Vec<_> = (0..500).map(|_| (1_000_000, 1_000_000)).collect();
        let more = growing.grow(&series(&many), 1_000_001, &context);
        assert!(more[0].text().contains("1k/s") && more[1].text().contains('|'), "{}", more[0].text());
    }
}
