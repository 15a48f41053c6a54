//! Percentiles over time as lines: one panel of everything, one for each group; or, of a single percentile, one panel with
//! a line for each group; of several traces, one panel with the lines of up to three percentiles.

mod curves;
mod draw;

use crate::axis::{AxisWish, ValueAxis};
use crate::frame::{self, Frame, FrameWish, Strip};
use crate::page::{Page, events, percent, quantile_name};
use crate::palette::Theme;
use crate::svg::Svg;
use curves::{Panel, Source, Steps};
use latscope_event::{Context, Field, Wording, format_count, format_duration, format_rate};
use latscope_histogram::{Grid, Histogram, Rule};
use latscope_series::{AskedPercentiles, CountBy, Exact, HistogramSeries, Quantity, Threshold, Waiting};
use latscope_view::{Scale, quantity_title};
use std::borrow::Cow;

/// How a chart of percentiles shall look.
#[derive(Clone, PartialEq, Debug)]
pub struct PercentilesOptions {
    /// Heading; by default it names the quantity.
    pub title: Option<String>,
    /// Width of the plot, pixels; also the largest number of intervals. From 200 to 4000.
    pub width: u32,
    /// Height of the plot, pixels; panels of groups are lower. From 100 to 4000.
    pub height: u32,
    /// Smallest value of the axis (nanoseconds or bytes); a line below runs along the edge.
    pub min: Option<u64>,
    /// Largest value of the axis (nanoseconds or bytes); a line above runs along the edge.
    pub max: Option<u64>,
    /// Background.
    pub theme: Theme,
    /// How notes are worded.
    pub wording: Wording,
    /// Quantiles (0 to 1), at least one. Eight or more in even steps of a hundredth or less are shades instead of lines.
    pub percentiles: Vec<f64>,
    /// Where in its bucket a percentile lies.
    pub rule: Rule,
    /// A service level: its bounds are drawn as lines, the intervals in which it holds are marked.
    pub level: Option<Threshold>,
    /// The filter that made the series, to be named.
    pub filter: Option<String>,
    /// So many texts that show when the pointer rests.
    pub max_tooltips: u32,
}

impl Default for PercentilesOptions {
    fn default() -> PercentilesOptions {
        PercentilesOptions {
            title: None,
            width: 1000,
            height: 360,
            min: None,
            max: None,
            theme: Theme::default(),
            wording: Wording::default(),
            percentiles: vec![0.5, 0.9, 0.99, 0.999],
            rule: Rule::default(),
            level: None,
            filter: None,
            max_tooltips: 500,
        }
    }
}

/// Options that make no chart.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum PercentilesError {
    /// No quantiles, too many, or one outside of 0 to 1.
    #[error("A chart needs 1 to 200 percentiles from 0 to 100.")]
    Percentiles,
    /// The range of the value axis is empty.
    #[error("The smallest value of the axis must be below the largest.")]
    Range,
    /// A size beyond what a picture can be.
    #[error("A chart must be 200 to 4000 pixels wide and 100 to 4000 high.")]
    Size,
}

impl PercentilesOptions {
    fn check(&self) -> Result<(), PercentilesError> {
        let quantiles = &self.percentiles;
        if !(1..=200).contains(&quantiles.len()) || !quantiles.iter().all(|quantile| (0.0..=1.0).contains(quantile)) {
            return Err(PercentilesError::Percentiles);
        }
        if self.min.zip(self.max).is_some_and(|(min, max)| min >= max) {
            return Err(PercentilesError::Range);
        }
        if !(200..=4000).contains(&self.width) || !(100..=4000).contains(&self.height) {
            return Err(PercentilesError::Size);
        }
        Ok(())
    }
}

/// Panels, or lines of groups in one panel, at most; further groups are taken together.
const GROUPS: usize = 12;

/// So many percentiles of each trace are lines of one panel.
const TOGETHER: usize = 3;

/// Percentiles over time, mean and maximum as lines on a logarithmic axis, with the rate of events below, as one
/// self-contained SVG: the chart in the making.
pub struct PercentilesChart<'a> {
    series: Cow<'a, HistogramSeries>,
    /// In the intervals of the table, before they were merged to fit: the service level is judged by these.
    judged: Cow<'a, HistogramSeries>,
    contexts: &'a [Context],
    options: &'a PercentilesOptions,
    frame: Frame,
    asked: AskedPercentiles,
    /// Where the percentiles come from that the service level is held against.
    judged_by: AskedPercentiles,
    /// Intervals were merged until they had so many events.
    merged: Option<f64>,
}

impl<'a> PercentilesChart<'a> {
    /// A chart of a series in intervals that fit the width; the contexts are those of the traces that it was made from.
    ///
    /// # Errors
    /// When the options contradict themselves.
    pub fn new(
        series: &'a HistogramSeries,
        contexts: &'a [Context],
        options: &'a PercentilesOptions,
    ) -> Result<PercentilesChart<'a>, PercentilesError> {
        options.check()?;
        let wish = FrameWish {
            width_px: options.width,
            column_px: options.width,
            line_px: 1,
            filtered: options.filter.is_some(),
        };
        let judged = Cow::Borrowed(series);
        let (series, frame) = frame::fitted(series, contexts, &wish);
        let mut quantiles = options.percentiles.clone();
        quantiles.sort_by(f64::total_cmp);
        quantiles.dedup();
        let asked = AskedPercentiles { quantiles, rule: options.rule, exact: None };
        let judged_by = AskedPercentiles { rule: options.rule, ..AskedPercentiles::default() };
        Ok(PercentilesChart { series, judged, contexts, options, frame, asked, judged_by, merged: None })
    }

    /// The same with intervals merged to the shortest runs that have so many events ([`HistogramSeries::merged_until`]).
    #[must_use]
    pub fn merged_until(self, events: f64) -> PercentilesChart<'a> {
        let series = Cow::Owned(self.series.into_owned().merged_until(events));
        let judged = match self.options.level {
            Some(_) => Cow::Owned(self.judged.into_owned().merged_until(events)),
            None => self.judged,
        };
        PercentilesChart { series, judged, merged: Some(events), ..self }
    }

    /// The series in the intervals by which the service level is judged: those of the table.
    pub fn judged(&self) -> &HistogramSeries {
        &self.judged
    }

    /// The series as it is drawn.
    pub fn series(&self) -> &HistogramSeries {
        &self.series
    }

    /// The percentiles as they are drawn, from 0 to 1.
    pub fn quantiles(&self) -> &[f64] {
        &self.asked.quantiles
    }

    /// The same with exact percentiles, which are those of [`series`](PercentilesChart::series) and
    /// [`quantiles`](PercentilesChart::quantiles) and of all groups together, too.
    #[must_use]
    pub fn exact(mut self, exact: Exact) -> PercentilesChart<'a> {
        self.asked.exact = Some(exact);
        self
    }

    /// The same with a service level that is held against the percentiles of [`judged`](PercentilesChart::judged) that come
    /// from there.
    #[must_use]
    pub fn judged_by(self, judged_by: AskedPercentiles) -> PercentilesChart<'a> {
        PercentilesChart { judged_by, ..self }
    }

    /// Draws it.
    pub fn svg(self) -> String {
        let PercentilesChart { series, judged, contexts, options, frame, asked, judged_by, merged } = self;
        let page = Page {
            width_px: frame.page_px(),
            inks: options.theme.inks(),
            title: options
                .title
                .clone()
                .unwrap_or_else(|| format!("{} percentiles over time", quantity_title(series.quantity))),
            contexts,
            wording: options.wording,
            filter: options.filter.as_deref(),
        };
        let steps = Steps::new(&series, frame.columns);
        let (columns, inks) = (frame.columns, &page.inks);
        let source = Source {
            series: &series,
            judged: &judged,
            judged_by: &judged_by,
            columns,
            steps: &steps,
            asked: &asked,
            options,
            inks,
        };
        // Traces are compared with each other.
        let of_traces = series.by == [Field::Trace] && asked.quantiles.len() <= TOGETHER;
        let panels = match asked.quantiles[..] {
            _ if of_traces => vec![source.by_group(GROUPS, false)],
            [_] if !series.by.is_empty() => vec![source.by_group(GROUPS, true)],
            _ => source.by_panel(GROUPS),
        };
        let axis = axis(&series, &panels, options);
        let total = series.total(None);
        let open_from_ns = open_from(&series, contexts, total.totals().max);
        let is_exact = asked.exact.is_some();
        let knows_unfinished = !contexts.is_empty() && contexts.iter().all(|context| context.knows_unfinished);
        Chart {
            series: &series,
            options,
            page,
            frame,
            steps,
            axis,
            panels,
            total,
            is_exact,
            merged,
            open_from_ns,
            knows_unfinished,
        }
        .draw()
    }
}

/// A [`PercentilesChart`] of the series as it is.
///
/// # Errors
/// When the options contradict themselves.
pub fn percentiles(
    series: &HistogramSeries,
    contexts: &[Context],
    options: &PercentilesOptions,
) -> Result<String, PercentilesError> {
    PercentilesChart::new(series, contexts, options).map(PercentilesChart::svg)
}

/// Everything that is drawn, before it is drawn.
struct Chart<'a> {
    series: &'a HistogramSeries,
    options: &'a PercentilesOptions,
    page: Page<'a>,
    frame: Frame,
    steps: Steps,
    axis: ValueAxis,
    panels: Vec<Panel>,
    /// Of everything.
    total: Histogram,
    /// Whether percentiles are those of the events themselves.
    is_exact: bool,
    merged: Option<f64>,
    /// From here on requests that had not ended when the trace did are missing, if they were as slow as the slowest.
    open_from_ns: Option<i64>,
    /// Whether the traces know what was in flight when they ended.
    knows_unfinished: bool,
}

/// An axis that has room for every line and every bound.
fn axis(series: &HistogramSeries, panels: &[Panel], options: &PercentilesOptions) -> ValueAxis {
    let mut drawn = Histogram::new(Grid::FINE, false);
    let bounds = options.level.iter().flat_map(Threshold::levels).map(|(_, value)| value);
    let lines = panels.iter().flat_map(|panel| &panel.curves).flat_map(|curve| &curve.points).flatten();
    lines.map(|point| point.value).chain(bounds).for_each(|value| drawn.record(value, 0));
    // No line lies on the frame, where it could not be seen: a thirtieth of the axis stays free at each end.
    let (least, most) = (drawn.totals().min.max(1) as f64, drawn.totals().max as f64);
    let room = (most / least).max(2.0).powf(1.0 / 30.0);
    if drawn.totals().count > 0 && series.quantity != Quantity::Offset {
        drawn.record((most * room) as u64, 0);
        drawn.record((least / room) as u64, 0);
    }
    let many = panels.len() as u32;
    let wish = AxisWish {
        quantity: series.quantity,
        scale: if series.quantity == Quantity::Offset { Scale::Linear } else { Scale::Log },
        min: options.min,
        max: options.max,
        height_px: if many > 1 {
            (3 * options.height / many).clamp(110, 280).min(options.height)
        } else {
            options.height
        },
        rows: None,
    };
    ValueAxis::new(&drawn, &wish)
}

/// Events are known when they end, and count by share in the intervals before, too: what was not over when the trace
/// ended is missing there, back to the length of the slowest.
fn open_from(series: &HistogramSeries, contexts: &[Context], slowest_ns: u64) -> Option<i64> {
    if series.count_by() != CountBy::Overlap || series.quantity != Quantity::Latency {
        return None;
    }
    let from_ns = match contexts {
        [] => series.start_ns(series.range()?.1.saturating_add(1)).saturating_sub_unsigned(slowest_ns),
        _ => Context::open_since_ns(contexts, slowest_ns)?,
    };
    if contexts.iter().all(|context| context.knows_unfinished) && !contexts.is_empty() {
        return Some(from_ns);
    }
    // Within the last interval it is no more than every other trace has.
    (slowest_ns > series.width_ns() / 100).then_some(from_ns)
}

impl Chart<'_> {
    fn draw(&self) -> String {
        let mut body = Svg::new();
        let head_px = self.page.head(&mut body, &self.sentences());
        let mut y = head_px;
        if self.total.totals().count == 0 {
            y = self.page.nothing(&mut body, self.frame.left(), y + 8.0);
        } else {
            y = self.legend(&mut body, y);
            for panel in &self.panels {
                y = self.panel(&mut body, panel, y);
            }
            let rates = self.rates();
            let strip = Strip { name: "events", values: &rates, label: &format_rate };
            y = self.frame.strip(&mut body, &self.page, y, true, &strip);
            y = self.frame.axis(&mut body, &self.page.inks, y);
        }
        let height = self.page.notes(&mut body, y) + 12.0;
        let open = format!(
            "<pattern id=\"open\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\">\
             <circle cx=\"2\" cy=\"2\" r=\"0.9\" fill=\"{}\"/></pattern>",
            self.page.inks.muted
        );
        self.page.document_with(body, height, &self.description(), &open, Some(curves::RAMP))
    }

    /// Events per second, by column.
    fn rates(&self) -> Vec<f64> {
        let interval = |column| self.frame.columns.first.saturating_add(i64::from(column));
        let rate = |(step, count): (usize, &f64)| {
            let columns = self.steps.columns(step);
            let rate = self.series.rate(interval(self.steps.column(step)), None, *count).unwrap_or(0.0);
            std::iter::repeat_n(rate, columns as usize)
        };
        self.panels[0].counts.iter().enumerate().flat_map(rate).collect()
    }

    fn sentences(&self) -> [String; 3] {
        [self.page.origin(), self.numbers(&self.total, &self.series.still_waiting(None)), self.how()]
    }

    /// The numbers of the whole time.
    fn numbers(&self, of: &Histogram, waiting: &Waiting) -> String {
        let (totals, completed) = (of.totals(), of.to_sparse());
        let count = totals.count / self.series.per_event();
        if totals.count == 0 {
            return "0 events".into();
        }
        let label = |value| self.axis.label(value);
        let mut shown: Vec<f64> = self.options.percentiles.clone();
        shown.sort_by(f64::total_cmp);
        shown.dedup();
        if shown.len() > 5 {
            // Ends and quarters of a long list.
            shown = (0..5).map(|quarter| shown[quarter * (shown.len() - 1) / 4]).collect();
        }
        let values = waiting.quantiles(&completed, &shown, self.options.rule).unwrap_or_default();
        let bound = |at_least: bool, value| format!("{}{}", if at_least { ">=" } else { "" }, label(value));
        let mean = waiting.mean(&completed).map(|mean| bound(mean.at_least, mean.value.round() as u64));
        let mut parts = vec![format!("mean {}", mean.unwrap_or_default())];
        let named = shown.iter().zip(values);
        parts.extend(named.map(|(&at, value)| format!("{} {}", quantile_name(at), bound(value.at_least, value.value))));
        let max = waiting.max(&completed).map(|max| bound(max.at_least, max.value));
        parts.push(format!("max {}", max.unwrap_or_default()));
        let from = if self.is_exact { " (from buckets)" } else { "" };
        format!("{} · of the whole time{from}: {}", events(count), parts.join(", "))
    }

    fn how(&self) -> String {
        let mut how = self.frame.how(self.page.contexts, self.total.totals().count > 0, self.options.width);
        if let Some(merged) = self.merged {
            let widths = || self.series.slices().keys().map(|&interval| self.series.width_of(interval));
            if let (Some(least), Some(most)) = (widths().min(), widths().max()) {
                how += &format!(
                    " · intervals of {} to {}, the shortest with {} events; stalls have their own",
                    format_duration(least),
                    format_duration(most),
                    format_count(merged.round() as u64)
                );
            }
        }
        how += match self.options.rule {
            _ if self.is_exact => " · exact percentiles of the events themselves",
            Rule::Fio => " · percentiles as in fio, the middle of their bucket",
            Rule::Interpolated => "",
        };
        if self.series.is_of_runs() {
            how += " · histograms of whole jobs, each one interval";
        }
        if self.series.count_by() == CountBy::Overlap {
            how += " · events count in each interval by overlap";
        }
        if self.open_from_ns.is_some() {
            how += &format!(
                " · dotted ground: {}",
                match self.knows_unfinished {
                    true => "requests that had not completed when the trace ended are lower bounds".into(),
                    false => format!(
                        "events in flight at the end, up to the slowest ({}), may be missing",
                        self.axis.label(self.total.totals().max)
                    ),
                }
            );
        }
        how
    }

    /// The picture in words.
    fn description(&self) -> Vec<String> {
        let mut parts = self.sentences().to_vec();
        for panel in &self.panels {
            let all = self.total.totals().count.max(1) as f64;
            if let Some(name) = &panel.name {
                parts.push(format!("{name}: {}", percent(100.0 * panel.total.totals().count as f64 / all)));
            }
            for curve in &panel.curves {
                parts.extend(self.range(curve).map(|range| format!("{}: {range}", curve.name)));
            }
            parts.extend(self.exceeded(panel));
        }
        parts.extend(self.page.note_texts());
        parts
    }

    /// From the lowest to the highest point of a line.
    fn range(&self, curve: &curves::Curve) -> Option<String> {
        let values = || curve.points.iter().flatten().map(|point| point.value);
        let (low, high) = (values().min()?, values().max()?);
        let (low, high) = (self.axis.label(low), self.axis.label(high));
        Some(if low == high { low } else { format!("{low} - {high}") })
    }

    /// In how many intervals the service level was exceeded.
    fn exceeded(&self, panel: &Panel) -> Option<String> {
        let level = self.options.level.as_ref()?;
        let of_width = match self.merged {
            Some(_) => String::new(),
            None => format!(" of {}", format_duration(self.frame.merged_from_ns.unwrap_or(self.frame.width_ns))),
        };
        let (count, of) = (panel.verdict.exceeded, panel.verdict.judged);
        let apart = if panel.verdict.apart { ", for at least one group" } else { "" };
        Some(format!("{level}: in {count} of {of} intervals{of_width}{apart}"))
    }
}
