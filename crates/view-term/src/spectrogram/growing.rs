//! A spectrogram of something that goes on: rows come as intervals pass.

use super::down::{self, AXIS_EVERY, Layout, Painter};
use super::source::Source;
use super::{SpectrogramOptions, foot_without, strength};
use crate::caption::{self, Moments};
use crate::scale::Strength;
use crate::{Line, SysdigSpectrogram, cell};
use latscope_event::{Context, Note, format_count, format_duration_exact};
use latscope_histogram::Totals;
use latscope_series::{HistogramSeries, Quantity, Weight};

/// The axis of latencies when none is given, nanoseconds: what the data will be is not known yet, and what lies beyond has
/// cells of its own.
const AXIS_NS: (u64, u64) = (1_000, 10_000_000_000);
/// Columns of a time of day with milliseconds.
const LABEL: usize = 12;
/// Columns of the name of a group, with the blank before it.
const NAME: usize = 17;
/// So many groups of an interval have a row, those of the most time; the others share a line.
const GROUPS: usize = 12;

/// Draws what passes, an interval to a row, or a row for each group of an interval.
pub struct GrowingSpectrogram {
    options: SpectrogramOptions,
    filter: String,
    /// The interval that comes next, and the first one.
    next: Option<(i64, i64)>,
    since_axis: usize,
    /// The strongest colour so far, and of what.
    strength: Option<Strength>,
    /// Events that were in no cell.
    without: u64,
    /// Whether hosts were missing in a row.
    has_marks: bool,
}

impl GrowingSpectrogram {
    /// With nothing on it yet. Half blocks are not used, as a row is final when it is there. What waits has columns where
    /// [they are asked for](SpectrogramOptions::waiting).
    pub fn new(filter: &str, options: &SpectrogramOptions) -> GrowingSpectrogram {
        let options = SpectrogramOptions { half_blocks: false, group: None, ..options.clone() };
        GrowingSpectrogram {
            options,
            filter: filter.to_owned(),
            next: None,
            since_axis: 0,
            strength: None,
            without: 0,
            has_marks: false,
        }
    }

    /// The lines of all intervals before this one that were not drawn yet, those without events too. The colours are those
    /// of rates up to a power of ten (bytes: of 16); when there is more, legend and axis come again.
    pub fn grow(&mut self, series: &HistogramSeries, before: i64, context: &Context) -> Vec<Line> {
        let mut options = self.options.clone();
        if series.quantity == Quantity::Latency {
            options.min = options.min.or(Some(AXIS_NS.0));
            options.max = options.max.or(Some(AXIS_NS.1));
        }
        let layout = Layout::new(&options, if series.by.is_empty() { LABEL } else { LABEL + NAME });
        let source = Source::of_series(series, &options, layout.map);
        let groups = |interval: i64| Groups::new(series, interval);
        self.rows((source, layout, options), series.quantity.word(), series.weight, before, context, &groups)
    }

    /// As [`GrowingSpectrogram::grow`], for events counted on the columns of sysdig's chisel.
    pub fn grow_sysdig(&mut self, counted: &SysdigSpectrogram, before: i64, context: &Context) -> Vec<Line> {
        let options = SpectrogramOptions { waiting: false, ..self.options.for_sysdig() };
        let layout = Layout::new(&options, LABEL).with_map(counted.width());
        let source = Source::of_chisel(counted, &options);
        self.without += source.without;
        self.rows((source, layout, options), "latency", Weight::Count, before, context, &|_| Groups::default())
    }

    fn rows(
        &mut self,
        (mut source, layout, options): (Source, Layout, SpectrogramOptions),
        what: &str,
        weight: Weight,
        before: i64,
        context: &Context,
        groups: &dyn Fn(i64) -> Groups,
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        let (next, first) = self.next.unwrap_or_else(|| {
            let first = source.range().map_or(before - 1, |(first, _)| first.min(before - 1));
            let what = format!("{what}, every {}", format_duration_exact(source.width_ns));
            lines.extend(caption::head(&what, context, &self.filter, options.columns));
            (first, first)
        });
        if next >= before {
            return lines;
        }
        let grown = Strength::steady_full(source.strength.full, options.scale, weight);
        let full = match (&self.strength, options.full) {
            (_, Some(full)) => full,
            (Some(before), None) => before.full.max(grown),
            (None, None) => grown,
        };
        let has_grown = self.strength.as_ref().is_none_or(|before| before.full != full);
        source.strength.full = full;
        self.strength = Some(Strength { full, ..strength(&options, weight) });
        let axis_start_ns = context.axis_start_ns(Some(source.start_ns(first)), source.width_ns);
        let moments = Moments::new(options.time, &context.clock, axis_start_ns, source.width_ns, 0);
        let (sum, name) = (source.empty(), String::new());
        let mut painter = Painter { moments, name, halved: false, sum, layout, options, source };
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
            let mut of = groups(interval).rows(&mut painter, interval);
            // Which hosts are missing is known of the last one.
            if interval == before - 1 && lacks_hosts(context) {
                of.iter_mut().for_each(|line| painter.layout.mark(line));
                self.has_marks = true;
            }
            self.since_axis += of.len();
            lines.extend(of);
        }
        self.next = Some((before, first));
        lines
    }

    /// The lines below: what was lost or is open.
    pub fn finish(self, context: &Context) -> Vec<Line> {
        let mut lines = foot_without(self.without, self.options.columns);
        if self.has_marks {
            lines.extend(cell::wrap("/ a host is missing in this interval", self.options.columns));
        }
        lines.extend(caption::foot(context, self.options.wording, self.options.columns));
        lines
    }
}

/// Whether hosts of a hub are missing in its last closed interval.
fn lacks_hosts(context: &Context) -> bool {
    context.notes.iter().any(|note| matches!(note, Note::Hosts { missing, .. } if !missing.is_empty()))
}

/// The groups of an interval that have rows.
#[derive(Default)]
struct Groups {
    /// Number and name, by name.
    shown: Vec<(u32, String)>,
    /// How many have none.
    others: usize,
}

impl Groups {
    fn new(series: &HistogramSeries, interval: i64) -> Groups {
        let Some(slice) = series.slices().get(&interval).filter(|_| !series.by.is_empty()) else {
            return Groups::default();
        };
        let time = |totals: &Totals, group: u32| {
            let oldest_ns = series.waiting(interval, Some(group)).oldest_ns().unwrap_or(0);
            totals.sum.saturating_add(u128::from(oldest_ns))
        };
        let mut groups: Vec<_> =
            slice.groups.iter().map(|(group, sparse)| (time(sparse.totals(), *group), *group)).collect();
        groups.sort_by_key(|&(time, group)| (std::cmp::Reverse(time), group));
        let others = groups.split_off(GROUPS.min(groups.len())).len();
        let mut shown: Vec<_> =
            groups.into_iter().map(|(_, group)| (group, series.groups()[group as usize].join(" "))).collect();
        shown.sort_by(|a, b| a.1.cmp(&b.1));
        Groups { shown, others }
    }

    /// A row for each group, or one for everything if there are no groups.
    fn rows(&self, painter: &mut Painter, interval: i64) -> Vec<Line> {
        if self.shown.is_empty() {
            return vec![painter.row(&[interval])];
        }
        let mut lines = Vec::new();
        for (group, name) in &self.shown {
            painter.source.show(*group);
            painter.name = fitted(name);
            lines.push(painter.row(&[interval]));
        }
        if self.others > 0 {
            let noun = if self.others == 1 { "group" } else { "groups" };
            lines.push(painter.note(&format!("{} more {noun}", format_count(self.others as u64))));
        }
        painter.name.clear();
        lines
    }
}

/// The name of a group in the columns that there are for it, with the blank before it.
fn fitted(name: &str) -> String {
    let mut line = Line::default();
    line.push(" ").push(name);
    line.truncate(NAME, true);
    line.pad_to(NAME);
    line.text()
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

    /// Interval by interval the chisel's rows are those of the whole picture.
    #[test]
    fn rows_of_the_chisel_are_those_of_its_whole_picture() {
        let context = Context::new("block", Clock::unanchored("monotonic"));
        let options = SpectrogramOptions { time: crate::TimeLabels::Wall, ..SpectrogramOptions::default() };
        let width = crate::sysdig_width(&options);
        let counted = |seconds: &mut dyn Iterator<Item = i64>| {
            let mut counted = SysdigSpectrogram::new(width, WIDTH_NS as u64);
            seconds.for_each(|second| counted.add(second * WIDTH_NS, (second as u64 % 7) * 1_000));
            counted
        };
        let whole = counted(&mut (100..118));
        let mut coming = counted(&mut (100..118));
        let mut growing = GrowingSpectrogram::new("", &options);
        let mut lines = Vec::new();
        for before in 101..119 {
            lines.extend(growing.grow_sysdig(&coming.take_before(before), before, &context));
        }
        lines.extend(growing.finish(&context));
        let is_row = |line: &Line| line.text().ends_with("/s") && line.width() > 13 + width;
        let cells = |lines: &[Line]| -> Vec<Vec<crate::Cell>> {
            lines.iter().filter(|line| is_row(line)).map(|line| line.cells[13..13 + width].to_vec()).collect()
        };
        let whole: Vec<Line> = crate::sysdig_spectrogram(&whole, &context, "", &options).collect();
        let (pieces, whole) = (cells(&lines), cells(&whole));
        assert!(pieces.len() >= 14, "{}", pieces.len());
        assert_eq!(pieces, whole);
        let last = lines.last().unwrap().text();
        assert!(last.contains("2 events of 0 ns"), "{last}");
    }

    /// Of groups each has a row in each interval in which it has events; of too many those of the most time.
    #[test]
    fn groups_have_rows_of_their_own() {
        let context = Context::new("block", Clock::unanchored("monotonic"));
        let width = Interval::Fixed(WIDTH_NS as u64);
        let mut builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, vec![Field::Device], width);
        let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Device]));
        let mut add = |second: i64, device: &str| {
            batch.push_i64(Field::Time, second * WIDTH_NS);
            batch.push_u64(Field::Latency, 5_000);
            batch.push_text(Field::Device, Some(device.as_bytes()));
            batch.end_row();
        };
        (0..3).for_each(|second| add(second, "vda"));
        add(1, "a device with a long name");
        (0..20).for_each(|at| add(2, &format!("loop{at:02}")));
        builder.add(&batch, None);
        let mut growing = GrowingSpectrogram::new("", &SpectrogramOptions::default());
        let lines = growing.grow(&builder.finish(), 3, &context);
        let texts: Vec<String> = lines.iter().map(Line::text).collect();
        let with = |word: &str| texts.iter().filter(|text| text.contains(word)).count();
        assert_eq!((with(" vda "), with("a device with a"), with(" loop")), (3, 1, 11), "{texts:#?}");
        assert_eq!(with("9 more groups"), 1, "{texts:#?}");
        let place = |word: &str| texts.iter().position(|text| text.contains(word));
        assert!(place("a device with a") < texts.iter().rposition(|text| text.contains(" vda ")), "by name");
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
