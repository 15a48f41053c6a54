//! The time axis that all panels and strips share: columns of intervals, pixels, labels.

use super::HeatmapOptions;
use super::grid::Columns;
use crate::palette::Inks;
use crate::svg::{Area, Num, Svg, text_width};
use crate::ticks::time_step;
use latscope_event::{Context, format_elapsed, format_wall};
use latscope_series::{HistogramSeries, next_wider};
use std::borrow::Cow;

/// Room for the labels of the value axes.
const LEFT_PX: f64 = 84.0;
const RIGHT_PX: f64 = 26.0;
/// Room that head, legend and notes need at least.
const LEAST_PX: f64 = 620.0;
/// A point of a percentile line stands for columns of at least this width together.
const LINE_PX: u32 = 8;
/// Distance between labels.
const LABEL_PX: f64 = 84.0;
const DAY_NS: u64 = 86_400_000_000_000;

/// Time to the right.
pub(crate) struct Frame {
    pub columns: Columns,
    pub column_px: u32,
    pub width_ns: u64,
    /// Width of the intervals that were given, when they had to be merged to fit.
    pub merged_from_ns: Option<u64>,
    /// Elapsed time counts from here, nanoseconds on the trace's clock.
    pub zero_ns: i64,
    /// What to add to the trace's clock to get Unix time.
    pub to_unix_ns: Option<i64>,
    pub approximate: bool,
    /// Whether the trace covers the first and the last column only in part.
    pub partial: [bool; 2],
}

/// The series in intervals that fit the width, and the frame for it.
pub(crate) fn fitted<'a>(
    series: &'a HistogramSeries,
    contexts: &[Context],
    options: &HeatmapOptions,
) -> (Cow<'a, HistogramSeries>, Frame) {
    let span = contexts
        .iter()
        .filter_map(|context| context.span_ns)
        .reduce(|(from, to), other| (from.min(other.0), to.max(other.1)));
    // A filter may be about time; without one, silence at either end of the trace is part of the picture.
    let shown = span.filter(|_| options.filter.is_none());
    let given_ns = series.width_ns();
    let mut wanted_ns = given_ns;
    while columns_of(series, wanted_ns, shown).is_none_or(|columns| columns.count > options.width)
        && wanted_ns < 1 << 62
    {
        wanted_ns = next_wider(wanted_ns);
    }
    let series = match series.rebinned(wanted_ns) {
        Some(wider) if wanted_ns != given_ns => Cow::Owned(wider),
        _ => Cow::Borrowed(series),
    };
    let columns = columns_of(&series, series.width_ns(), shown).unwrap_or(Columns { first: 0, count: 1 });
    let width_ns = series.width_ns();
    let clock = contexts.first().map(|context| &context.clock);
    // A hundredth of an interval is not worth a mark.
    let slack = (width_ns / 100) as i64;
    let (start, end) = (series.start_ns(columns.first), series.start_ns(columns.last().saturating_add(1)));
    let partial =
        span.map_or([false; 2], |(from, to)| [from > start.saturating_add(slack), to < end.saturating_sub(slack)]);
    let frame = Frame {
        columns,
        column_px: (options.width / columns.count.max(1)).clamp(1, 48),
        width_ns,
        merged_from_ns: (width_ns != given_ns).then_some(given_ns),
        zero_ns: span.map_or(start, |(from, _)| from),
        to_unix_ns: clock.and_then(|clock| clock.to_unix_ns),
        approximate: clock.is_some_and(|clock| clock.approximate),
        partial,
    };
    (series, frame)
}

/// The columns that the events (and the span) need in intervals of this width, a whole multiple of the series' own;
/// `None` when they are more than can be counted.
fn columns_of(series: &HistogramSeries, width_ns: u64, span: Option<(i64, i64)>) -> Option<Columns> {
    let Some((first, last)) = series.range() else { return Some(Columns { first: 0, count: 1 }) };
    let factor = (width_ns / series.width_ns()) as i64;
    let (mut first, mut last) = (first.div_euclid(factor), last.div_euclid(factor));
    if let Some((from, to)) = span {
        let width = width_ns.min(i64::MAX as u64) as i64;
        // A span that ends exactly at the end of an interval needs no further one.
        (first, last) = (first.min(from.div_euclid(width)), last.max(to.saturating_sub(1).div_euclid(width)));
    }
    let count = last.checked_sub(first)?.checked_add(1)?;
    u32::try_from(count).ok().map(|count| Columns { first, count })
}

impl Frame {
    pub fn left(&self) -> f64 {
        LEFT_PX
    }

    pub fn plot_px(&self) -> f64 {
        f64::from(self.columns.count * self.column_px)
    }

    pub fn page_px(&self) -> f64 {
        LEFT_PX + self.plot_px().max(LEAST_PX) + RIGHT_PX
    }

    pub fn x(&self, column: u32) -> f64 {
        LEFT_PX + f64::from(column * self.column_px)
    }

    /// Start of a column on the trace's clock.
    pub fn start_ns(&self, column: u32) -> i64 {
        self.columns.first.saturating_add(i64::from(column)).saturating_mul(self.width_ns as i64)
    }

    /// The pixel of a moment, inside the plot.
    pub fn x_at(&self, time_ns: i64) -> f64 {
        let since = i128::from(time_ns) - i128::from(self.start_ns(0));
        let px = since as f64 / self.width_ns as f64 * f64::from(self.column_px);
        LEFT_PX + px.clamp(0.0, self.plot_px())
    }

    /// A moment for a tooltip: elapsed, and wall time when known.
    pub fn moment(&self, time_ns: i64) -> String {
        let elapsed = i128::from(time_ns) - i128::from(self.zero_ns);
        let sign = if elapsed < 0 { "-" } else { "" };
        let elapsed = u64::try_from(elapsed.unsigned_abs()).unwrap_or(u64::MAX);
        format!("{sign}{}", format_elapsed(elapsed, self.width_ns))
    }

    /// The wall time of a moment, when known.
    pub fn wall(&self, time_ns: i64) -> Option<String> {
        let unix_ns = time_ns.checked_add(self.to_unix_ns?)?;
        Some(format_wall(unix_ns, decimals(self.width_ns), false))
    }

    fn step_ns(&self, room_px: f64) -> u64 {
        time_step((room_px / f64::from(self.column_px) * self.width_ns as f64) as u64)
    }

    /// Multiples of a step since `zero_ns` that lie in the plot.
    fn multiples(&self, zero_ns: i64, step_ns: u64) -> Vec<i64> {
        let (from, to) = (i128::from(self.start_ns(0)), i128::from(self.start_ns(self.columns.count)));
        let (zero, step) = (i128::from(zero_ns), i128::from(step_ns));
        let first = (from - zero).div_euclid(step) + i128::from((from - zero).rem_euclid(step) != 0);
        (0..=4096)
            .map(|at| zero + (first + at) * step)
            .take_while(|&time| time <= to)
            .filter_map(|time| i64::try_from(time).ok())
            .collect()
    }

    fn elapsed_ticks(&self) -> Vec<i64> {
        let mut ticks = self.multiples(self.zero_ns, self.step_ns(LABEL_PX));
        ticks.retain(|&time| time >= self.zero_ns);
        ticks
    }

    /// How many columns share a point of a percentile line: where columns are narrow, they hold too little for one.
    pub fn line_columns(&self) -> u32 {
        LINE_PX.div_ceil(self.column_px)
    }

    /// Faint vertical lines at the ticks.
    pub fn verticals(&self, svg: &mut Svg, inks: &Inks, y: f64, height: f64) {
        svg.put(format_args!("<path stroke=\"{}\" d=\"", inks.grid));
        for time_ns in self.elapsed_ticks() {
            svg.put(format_args!("M{} {}v{}", Num(self.x_at(time_ns).round() + 0.5), Num(y), Num(height)));
        }
        svg.put(format_args!("\"/>\n"));
    }

    /// Draws ticks and labels below `y`; returns where they end.
    pub fn axis(&self, svg: &mut Svg, inks: &Inks, y: f64) -> f64 {
        let step = self.step_ns(LABEL_PX);
        let row = |svg: &mut Svg, y: f64, name: &str, labels: Vec<(f64, String)>| {
            svg.put(format_args!("<path stroke=\"{}\" d=\"", inks.muted));
            labels.iter().for_each(|(x, _)| svg.put(format_args!("M{} {}v4", Num(x.round() + 0.5), Num(y))));
            svg.put(format_args!("\"/>\n<g text-anchor=\"middle\">\n"));
            // A label at the very end would run over the edge of the page.
            let end = self.page_px() - 6.0;
            labels
                .iter()
                .filter(|(x, label)| x + text_width(label, 11.0) / 2.0 < end)
                .for_each(|(x, label)| svg.text(*x, y + 15.0, "", label));
            svg.put(format_args!("</g>\n"));
            svg.text(8.0, y + 15.0, &format!(" fill=\"{}\"", inks.muted), name);
        };
        let elapsed = self.elapsed_ticks().into_iter();
        row(svg, y, "elapsed", elapsed.map(|time| (self.x_at(time), self.label(time, step))).collect());
        let Some(to_unix_ns) = self.to_unix_ns else { return y + 24.0 };
        let whole_ns = self.width_ns.saturating_mul(self.columns.count.into());
        let step = self.step_ns(if whole_ns > DAY_NS { LABEL_PX * 1.8 } else { LABEL_PX });
        let label = |time: i64| {
            let full = format_wall(time.saturating_add(to_unix_ns), decimals(step), whole_ns > DAY_NS);
            // Seconds that are always zero are noise.
            if step >= 60_000_000_000 { full.strip_suffix(":00").map_or(full.clone(), str::to_string) } else { full }
        };
        let times = self.multiples(to_unix_ns.saturating_neg(), step).into_iter();
        row(svg, y + 20.0, "clock", times.map(|time| (self.x_at(time), label(time))).collect());
        y + 44.0
    }

    fn label(&self, time_ns: i64, step_ns: u64) -> String {
        let elapsed = u64::try_from(i128::from(time_ns) - i128::from(self.zero_ns)).unwrap_or(0);
        format_elapsed(elapsed, step_ns)
    }

    /// Hatches over the stretches in which records were lost and over columns covered in part.
    pub fn hatches(&self, svg: &mut Svg, contexts: &[Context], y: f64, height: f64) {
        let mut lost: Vec<(i64, i64)> = Vec::new();
        let mut ranges: Vec<(i64, i64)> = contexts
            .iter()
            .flat_map(|context| &context.loss_ranges)
            .filter(|range| range.to_ns >= self.start_ns(0) && range.from_ns <= self.start_ns(self.columns.count))
            .map(|range| (self.x_at(range.from_ns).floor() as i64, self.x_at(range.to_ns).ceil() as i64))
            .collect();
        ranges.sort_unstable();
        for (from, to) in ranges {
            let to = to.max(from + 2);
            match lost.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => lost.push((from, to)),
            }
        }
        for (from, to) in lost {
            let area = Area { x: from as f64, y, width: (to - from) as f64, height };
            svg.rect(area, " fill=\"url(#lost)\" fill-opacity=\"0.45\"");
        }
        let ends = [0, self.columns.count.saturating_sub(1)];
        for (column, _) in ends.into_iter().zip(self.partial).filter(|(_, partial)| *partial) {
            let area = Area { x: self.x(column), y, width: f64::from(self.column_px), height };
            svg.rect(area, " fill=\"url(#partial)\" fill-opacity=\"0.6\"");
        }
    }
}

/// Digits of the second that a step needs.
fn decimals(step_ns: u64) -> usize {
    (0..9).find(|&digits| step_ns.is_multiple_of(10u64.pow(9 - digits as u32))).unwrap_or(9)
}
