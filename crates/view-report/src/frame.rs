//! The time axis that all panels and strips share: columns of intervals, pixels, labels.

use crate::page::Page;
use crate::palette::Inks;
use crate::svg::{Area, Num, Svg, shortened, text_width};
use latscope_event::{Context, format_duration, format_elapsed, format_wall, wall_zone};
use latscope_series::{HistogramSeries, next_wider, round_multiples};
use latscope_view::ticks::time_step;
use std::borrow::Cow;

/// Room for the labels of the value axes.
const LEFT_PX: f64 = 84.0;
const RIGHT_PX: f64 = 26.0;
/// Room that head, legend and notes need at least.
const LEAST_PX: f64 = 620.0;

/// Distance between labels.
const LABEL_PX: f64 = 84.0;
const STRIP_PX: f64 = 38.0;
const GAP_PX: f64 = 8.0;
const DAY_NS: u64 = 86_400_000_000_000;

/// Columns of intervals: the first interval and how many follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Columns {
    pub first: i64,
    pub count: u32,
}

impl Columns {
    pub fn last(self) -> i64 {
        self.first + i64::from(self.count) - 1
    }

    /// The column of an interval; `None` outside.
    pub fn column_of(self, interval: i64) -> Option<u32> {
        u32::try_from(interval.checked_sub(self.first)?).ok().filter(|&column| column < self.count)
    }
}

/// What decides about the time axis beside the series.
pub(crate) struct FrameWish {
    /// Width of the plot, pixels; also the largest number of columns.
    pub width_px: u32,
    /// A column is at most so wide.
    pub column_px: u32,
    /// A point of a percentile line stands for columns of at least this width together.
    pub line_px: u32,
    /// Whether a filter chose the events: silence at either end is then no part of the picture.
    pub filtered: bool,
}

/// A value for each column, drawn below a plot: event rate, throughput ...
pub(crate) struct Strip<'a> {
    pub name: &'a str,
    pub values: &'a [f64],
    pub label: &'a dyn Fn(f64) -> String,
}

/// Time to the right.
pub(crate) struct Frame {
    pub columns: Columns,
    pub column_px: u32,
    line_px: u32,
    pub width_ns: u64,
    /// Width of the intervals that were given, when they had to be merged to fit.
    pub merged_from_ns: Option<u64>,
    /// Elapsed time counts from here, nanoseconds on the trace's clock: where the table's does, whose intervals may be
    /// shorter.
    pub axis_start_ns: i64,
    /// When the trace started, nanoseconds on its clock.
    trace_start_ns: i64,
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
    wish: &FrameWish,
) -> (Cow<'a, HistogramSeries>, Frame) {
    let all = Context::merged(contexts);
    let span = all.span_ns;
    // A filter may be about time; without one, silence at either end of the trace is part of the picture.
    let shown = span.filter(|_| !wish.filtered);
    let given_ns = series.width_ns();
    let axis_start_ns = all.axis_start_ns(series.range().map(|(first, _)| series.start_ns(first)), given_ns);
    let fits = |width_ns| columns_of(series, width_ns, shown).is_some_and(|columns| columns.count <= wish.width_px);
    let ladder = std::iter::successors(Some(given_ns), |&width_ns| Some(next_wider(width_ns)));
    let mut wider = round_multiples(given_ns).chain(ladder.take_while(|&width_ns| width_ns < 1 << 62));
    let wanted_ns = wider.find(|&width_ns| fits(width_ns)).unwrap_or(1 << 62);
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
    // Where the start is known, silence before the first event was seen, too.
    let trace_start_ns = all.trace_start_ns().unwrap_or(start);
    let partial = span
        .map_or([false; 2], |(_, to)| [trace_start_ns > start.saturating_add(slack), to < end.saturating_sub(slack)]);
    let frame = Frame {
        columns,
        column_px: (wish.width_px / columns.count.max(1)).clamp(1, wish.column_px),
        line_px: wish.line_px,
        width_ns,
        merged_from_ns: (width_ns != given_ns).then_some(given_ns),
        axis_start_ns,
        trace_start_ns,
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
        let elapsed = i128::from(time_ns) - i128::from(self.axis_start_ns);
        let sign = if elapsed < 0 { "-" } else { "" };
        let elapsed = u64::try_from(elapsed.unsigned_abs()).unwrap_or(u64::MAX);
        format!("{sign}{}", format_elapsed(elapsed, self.merged_from_ns.unwrap_or(self.width_ns)))
    }

    /// The wall time of a moment, when known.
    pub fn wall(&self, time_ns: i64) -> Option<String> {
        let unix_ns = time_ns.checked_add(self.to_unix_ns?)?;
        Some(format_wall(unix_ns, decimals(self.width_ns), false))
    }

    /// The time of some columns: elapsed, and by the wall clock.
    pub fn span(&self, from: u32, to: u32) -> String {
        let (from, to) = (self.start_ns(from), self.start_ns(to));
        let elapsed = format!("{} - {}", self.moment(from), self.moment(to));
        self.wall(from).map_or(elapsed.clone(), |wall| format!("{elapsed} ({wall})"))
    }

    fn step_ns(&self, room_px: f64) -> u64 {
        time_step((room_px / f64::from(self.column_px) * self.width_ns as f64) as u64)
    }

    /// Multiples of a step since `axis_start_ns` that lie in the plot.
    fn multiples(&self, axis_start_ns: i64, step_ns: u64) -> Vec<i64> {
        let (from, to) = (i128::from(self.start_ns(0)), i128::from(self.start_ns(self.columns.count)));
        let (zero, step) = (i128::from(axis_start_ns), i128::from(step_ns));
        let first = (from - zero).div_euclid(step) + i128::from((from - zero).rem_euclid(step) != 0);
        (0..=4096)
            .map(|at| zero + (first + at) * step)
            .take_while(|&time| time <= to)
            .filter_map(|time| i64::try_from(time).ok())
            .collect()
    }

    fn elapsed_ticks(&self) -> Vec<i64> {
        let mut ticks = self.multiples(self.axis_start_ns, self.step_ns(LABEL_PX));
        ticks.retain(|&time| time >= self.axis_start_ns);
        ticks
    }

    /// How many columns share a point of a percentile line: where columns are narrow, they hold too little for one.
    pub fn line_columns(&self) -> u32 {
        self.line_px.div_ceil(self.column_px)
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
        let elapsed = u64::try_from(i128::from(time_ns) - i128::from(self.axis_start_ns)).unwrap_or(0);
        format_elapsed(elapsed, step_ns)
    }

    /// Draws a strip below `y`, with faint lines at the ticks with `grid`; returns where it ends.
    pub fn strip(&self, svg: &mut Svg, page: &Page<'_>, y: f64, grid: bool, strip: &Strip<'_>) -> f64 {
        let Strip { name, values, label } = *strip;
        let inks = &page.inks;
        let most = values.iter().copied().fold(0.0, f64::max);
        let area = Area { x: self.left(), y, width: self.plot_px(), height: STRIP_PX };
        svg.rect(area, &format!(" fill=\"{}\"", inks.plot));
        if grid {
            self.verticals(svg, inks, area.y, area.height);
        }
        let top = |value: f64| {
            // Something that is not nothing is at least a pixel high.
            let height = if most > 0.0 { value / most * (STRIP_PX - 2.0) } else { 0.0 };
            area.bottom() - if value > 0.0 { height.max(1.0) } else { 0.0 }
        };
        svg.put(format_args!(
            "<path fill=\"{}\" stroke=\"{}\" stroke-width=\"0.8\" d=\"M{} {}",
            inks.strip,
            inks.strip_line,
            Num(area.x),
            Num(area.bottom())
        ));
        let mut run = 0;
        for (at, &value) in values.iter().enumerate() {
            run += 1;
            if values.get(at + 1).is_none_or(|&next| next != value) {
                svg.put(format_args!("V{}h{}", Num(top(value)), run * self.column_px));
                run = 0;
            }
        }
        svg.put(format_args!("V{}z\"/>\n", Num(area.bottom())));
        self.hatches(svg, page.contexts, area.y, area.height);
        svg.rect(area, &format!(" fill=\"none\" stroke=\"{}\"", inks.frame));
        let muted = format!(" text-anchor=\"end\" fill=\"{}\"", inks.muted);
        svg.text(area.x - 8.0, y + 11.0, " text-anchor=\"end\"", &label(most));
        svg.text(area.x - 8.0, y + STRIP_PX / 2.0 + 7.0, &muted, name);
        svg.text(area.x - 8.0, area.bottom(), &format!("{muted} font-size=\"9\""), "0");
        area.bottom() + GAP_PX
    }

    /// Interval, merging, clock, marks: a sentence for the heading. `limit` is the largest number of columns.
    pub fn how(&self, contexts: &[Context], has_events: bool, limit: u32) -> String {
        let mut parts = vec![match self.merged_from_ns {
            Some(given) => format!(
                "interval {} (intervals of {} merged to fit {limit} columns)",
                format_duration(self.width_ns),
                format_duration(given),
            ),
            None => format!("interval {}", format_duration(self.width_ns)),
        }];
        if let Some(to_unix_ns) = self.to_unix_ns {
            let unix_ns = self.trace_start_ns.saturating_add(to_unix_ns);
            let about = if self.approximate { "about " } else { "" };
            parts.push(format!("began {about}{} {}", format_wall(unix_ns, 0, true), wall_zone(unix_ns)));
        } else if let Some(context) = contexts.first() {
            parts.push(format!("{} clock, wall time unknown", shortened(&context.clock.name, 24)));
        }
        if has_events && self.partial.contains(&true) {
            parts.push("fine hatches: interval covered in part".into());
        }
        if contexts.iter().any(|context| !context.loss_ranges.is_empty()) {
            parts.push("bold hatches: records lost".into());
        }
        parts.join(" · ")
    }

    /// Hatches over the stretches in which records were lost and over columns covered in part.
    pub fn hatches(&self, svg: &mut Svg, contexts: &[Context], y: f64, height: f64) {
        let mut lost: Vec<(i64, i64)> = Vec::new();
        let mut ranges: Vec<(i64, i64)> = contexts
            .iter()
            .flat_map(|context| &context.loss_ranges)
            .filter(|range| range.end_ns >= self.start_ns(0) && range.start_ns <= self.start_ns(self.columns.count))
            .map(|range| (self.x_at(range.start_ns).floor() as i64, self.x_at(range.end_ns).ceil() as i64))
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
