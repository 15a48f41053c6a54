//! Where everything of the map stands, and what it shows.

use super::canvas::{Area, Canvas};
use super::samples::{Measure, Samples, Survey};
use super::window::{Times, Values};
use super::{MapArea, Screen};
use crate::axis::Axis;
use crate::caption::Moments;
use crate::scale::Strength;
use crate::spectrogram::strength;
use crate::{Orient, TimeLabels};
use latscope_event::Wait;
use latscope_histogram::Totals;
use latscope_series::{HistogramSeries, Quantity};

/// Columns of the labels of the values when time goes across.
const VALUE_LABELS: usize = 8;
/// Columns of what stands at the right: rates, or the distribution.
pub(super) const RIGHT: usize = 15;
/// Rows of the distribution above the map, and of the rates below it.
const BAND: usize = 3;
/// Columns or rows that a strip needs to be of use.
const NARROWEST: usize = 24;
const LOWEST: usize = 6;

/// Rows and columns around the strips, 0 where there is no room for them.
#[derive(Clone, Copy, Default)]
pub(super) struct Margins {
    pub left: usize,
    pub right: usize,
    /// Rows above the strips (time down): the distribution, the axis.
    pub band: usize,
    pub axis: usize,
    /// A row with the name above each strip.
    pub heading: usize,
    pub legend: usize,
    pub note: usize,
}

pub(super) struct Scene<'a> {
    pub screen: &'a Screen<'a>,
    pub down: bool,
    pub margins: Margins,
    pub times: Times,
    pub values: Values,
    pub strength: Strength,
    pub moments: Moments,
    /// Group, place and contents of the strips.
    pub strips: Vec<(Option<u32>, Area, Samples)>,
    /// Groups that have none.
    pub more: usize,
    /// Amount of all groups by interval of the map.
    pub whole: Vec<f64>,
    /// First and last moment of the trace.
    pub span: Option<(i64, i64)>,
    pub area: Area,
}

impl<'a> Scene<'a> {
    /// `None` where there is no room for a map.
    pub fn new(screen: &'a Screen<'a>, area: Area) -> Option<Scene<'a>> {
        let (series, look) = (screen.series, screen.look);
        let options = &look.options;
        let down = options.orient == Orient::Down;
        let measure = Measure::new(series, look.shown);
        let mut strength = strength(options, measure.weight);
        let halves = if options.half_blocks && strength.can_halve() { 2 } else { 1 };
        let grouped = !series.by.is_empty() && options.group.is_none();
        let mut margins = margins(screen, area, down, grouped);
        let (each_time, each_value) = if down { (halves, 1) } else { (1, halves) };
        let inner = |margins: &Margins| {
            let above = if down { margins.heading + margins.band + margins.axis } else { 0 };
            let below = if down { 0 } else { margins.band + margins.axis } + margins.legend + margins.note;
            Some(Area {
                left: area.left + margins.left,
                top: area.top + above,
                columns: area.columns.checked_sub(margins.left + margins.right).filter(|&columns| columns > 0)?,
                rows: area.rows.checked_sub(above + below).filter(|&rows| rows > 0)?,
            })
        };
        let cells = |inner: Area| if down { inner.rows } else { inner.columns };
        let window = |inner: Area| Times::new(series, screen.context, look, cells(inner), each_time);
        let (span, moments) = {
            let times = window(inner(&margins)?);
            let span = extent(screen);
            (span, moments(screen, &times, span))
        };
        if down && margins.left > 0 {
            let newest = window(inner(&margins)?);
            margins.left = moments.label(newest.span(newest.cells.saturating_sub(1)).0).len().max(7) + 2;
        }
        let inner = inner(&margins)?;
        let times = window(inner);
        let survey = Survey::new(series, measure, options.group, &times);
        let (groups, more) = groups(&survey, options.group, grouped, down, inner);
        let areas = strip_areas(inner, groups.len(), down, margins.heading);
        let along = areas.first().map(|area| if down { area.columns } else { area.rows })?;
        let totals = with_waiting(survey.totals, screen);
        let values = values(series, &totals, (options.min, options.max), along, each_value);
        let (samples, whole) = Samples::collect(series, measure, (&times, &values), &groups, options.group);
        if options.full.is_none() {
            let most = samples.iter().map(Samples::most).fold(0.0, f64::max);
            strength.full =
                Strength::steady_full(most * 1e9 / times.interval_ns() as f64, options.scale, measure.weight);
        }
        let strips = groups.into_iter().zip(areas).zip(samples).map(|((group, area), samples)| (group, area, samples));
        let strips = strips.collect();
        Some(Scene { screen, down, margins, times, values, strength, moments, strips, more, whole, span, area })
    }

    pub fn draw(&self, canvas: &mut Canvas) -> Vec<MapArea> {
        for (group, area, samples) in &self.strips {
            self.paint(canvas, *area, samples);
            self.paint_percentiles(canvas, *area, samples);
            self.paint_waiting(canvas, *area);
            self.paint_marks(canvas, &self.map_area(*group, *area));
            self.draw_values(canvas, *area);
            self.draw_distribution(canvas, *area, samples);
        }
        self.draw_headings(canvas);
        self.draw_times(canvas);
        self.draw_rates(canvas);
        self.draw_foot(canvas);
        self.strips.iter().map(|(group, area, _)| self.map_area(*group, *area)).collect()
    }

    fn map_area(&self, group: Option<u32>, area: Area) -> MapArea {
        let Area { left, top, columns, rows } = area;
        let times = (0..self.times.cells).map(|at| self.times.span(at)).collect();
        MapArea { left, top, columns, rows, group, down: self.down, times, values: self.values.spans.clone() }
    }

    /// Where a cell of a strip is on the screen.
    pub fn place(&self, area: Area, time: usize, value: usize) -> (usize, usize) {
        match self.down {
            true => (area.left + value, area.top + time),
            false => (area.left + time, area.top + area.rows - 1 - value),
        }
    }

    /// Whether the newest interval on the map goes on beyond the end of the trace.
    pub fn is_incomplete(&self) -> bool {
        let Some((_, to)) = self.screen.context.span_ns else { return false };
        let (mut from, mut end) = self.times.slot_span((self.times.cells * self.times.each).saturating_sub(1));
        if to < from && self.times.each > 1 {
            // The newest cell is half filled.
            (from, end) = (from.saturating_sub_unsigned(self.times.interval_ns()), from);
        }
        (from..end.saturating_sub((self.times.interval_ns() / 100) as i64)).contains(&to)
    }
}

/// What there is room for, the most needed first.
fn margins(screen: &Screen, area: Area, down: bool, grouped: bool) -> Margins {
    let look = screen.look;
    let labelled = look.options.time != TimeLabels::None;
    let if_room = |rows: usize, wanted: usize| if area.rows >= rows { wanted } else { 0 };
    let side = if down { look.rates } else { look.distribution };
    let band = if down { look.distribution } else { look.rates };
    Margins {
        // Time down: as much as an ordinary label needs, until the labels are known.
        left: match (area.columns >= 36, down) {
            (false, _) => 0,
            (true, true) => {
                if labelled {
                    9
                } else {
                    2
                }
            }
            (true, false) => VALUE_LABELS,
        },
        right: if side && area.columns >= 60 { RIGHT } else { 0 },
        band: if band { if_room(13, BAND) } else { 0 },
        axis: if_room(3, 1),
        heading: if grouped { if_room(5, 1) } else { 0 },
        legend: if_room(4, 1),
        note: if screen.context.is_plain() { 0 } else { if_room(6, 1) },
    }
}

/// First and last moment of the trace, as far as they are known.
fn extent(screen: &Screen) -> Option<(i64, i64)> {
    let series = screen.series;
    let events = series
        .range()
        .map(|(first, last)| (series.start_ns(first), series.start_ns(last.saturating_add(1)).saturating_sub(1)));
    match (screen.context.span_ns, events) {
        (Some(span), Some(events)) => Some((span.0.min(events.0), span.1.max(events.1))),
        (span, events) => span.or(events),
    }
}

fn moments(screen: &Screen, times: &Times, span: Option<(i64, i64)>) -> Moments {
    let end = times.span(times.cells.saturating_sub(1)).0;
    let zero = screen.context.trace_start_ns().or(span.map(|span| span.0)).unwrap_or(end);
    let length = if end > zero { end.abs_diff(zero) } else { 0 };
    Moments::new(screen.look.options.time, &screen.context.clock, zero, times.cell_ns(), length)
}

/// The groups with a strip, in the order of their numbers so that strips do not change places, and how many have none.
fn groups(survey: &Survey, only: Option<u32>, grouped: bool, down: bool, inner: Area) -> (Vec<Option<u32>>, usize) {
    if !grouped || survey.groups.is_empty() {
        return (vec![only], 0);
    }
    let room = if down { (inner.columns + 1) / (NARROWEST + 1) } else { inner.rows / LOWEST };
    let shown = room.clamp(1, survey.groups.len());
    let mut groups = survey.groups[..shown].to_vec();
    groups.sort_unstable();
    (groups.into_iter().map(Some).collect(), survey.groups.len() - shown)
}

/// So many equal strips, beside one another or, each below its heading, one above the other.
fn strip_areas(inner: Area, count: usize, down: bool, heading: usize) -> Vec<Area> {
    if down {
        let columns = ((inner.columns + 1) / count.max(1)).saturating_sub(1).max(1);
        (0..count).map(|at| Area { left: inner.left + at * (columns + 1), columns, ..inner }).collect()
    } else {
        let each = inner.rows / count.max(1);
        let heading = if each > heading { heading } else { 0 };
        let rows = (each - heading).max(1);
        (0..count).map(|at| Area { top: inner.top + at * each + heading, rows, ..inner }).collect()
    }
}

/// What is in flight has its place on the axis too.
fn with_waiting(totals: Totals, screen: &Screen) -> Totals {
    let requests = screen.context.unfinished.iter().filter(|unfinished| unfinished.wait != Wait::Sleeps);
    let waiting = requests.map(|unfinished| unfinished.at_least_ns).max();
    match waiting {
        Some(at_least_ns) if totals.count > 0 && screen.series.quantity == Quantity::Latency => {
            Totals { max: totals.max.max(at_least_ns), ..totals }
        }
        _ => totals,
    }
}

/// The axis of the values over so many cells. It ends at whole decades, so that it stays as events come and go.
fn values(
    series: &HistogramSeries,
    totals: &Totals,
    range: (Option<u64>, Option<u64>),
    cells: usize,
    each: usize,
) -> Values {
    let mut totals = *totals;
    if totals.count > 0 && !series.quantity.is_bytes() && series.quantity != Quantity::Offset {
        totals.min = totals.min.checked_ilog10().map_or(0, |digits| 10u64.pow(digits));
        let above = totals.max.checked_ilog10().map_or(Some(10), |digits| 10u64.checked_pow(digits + 1));
        totals.max = above.map_or(u64::MAX, |above| above - 1);
    }
    let grid = series.grid();
    // A range upside down has the one bucket of its lower end, as the axis has it.
    let first = range.0.map_or(0, |low| grid.index(low));
    let above = range.1.is_some_and(|high| grid.index(high).max(first) + 1 < grid.len());
    let beyond = usize::from(first > 0) + usize::from(above);
    let (range, cells) = if cells > beyond { (range, cells - beyond) } else { ((None, None), cells) };
    Values::new(Axis::new(grid, series.quantity, &totals, range, cells * each), each)
}
