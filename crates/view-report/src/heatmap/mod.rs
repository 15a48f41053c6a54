//! The heat map: time to the right, latency (or size, offset, queue time) upwards, colour for how much fell into a cell.

mod caption;
mod colour;
mod draw;
mod grid;
mod legend;
mod strips;
mod tips;

pub use latscope_view::{Palette, Scale, value_label};

use crate::axis::{AxisWish, ValueAxis};
use crate::frame::{self, Frame, FrameWish};
use crate::page::Page;
use crate::palette::{self, Theme};
use crate::svg::Svg;
use colour::Colours;
pub(crate) use grid::Facets;
use grid::{Asked, Panel};
use latscope_event::{Context, Wording};
use latscope_series::{HistogramSeries, Quantity};
use std::rc::Rc;

/// How a heat map shall look.
#[derive(Clone, PartialEq, Debug)]
pub struct HeatmapOptions {
    /// Heading; by default it names the quantity and the weight.
    pub title: Option<String>,
    /// Width of the plot, pixels; also the largest number of columns. From 200 to 4000.
    pub width: u32,
    /// Height of the plot, pixels: of one panel, or of all facets together. From 100 to 4000.
    pub height: u32,
    /// At most so many rows; by default as many as stay 3 pixels high. A logarithmic axis has one for each octave at least.
    pub rows: Option<u32>,
    /// Layout of the value axis; by default linear for offsets, logarithmic for everything else.
    pub scale_y: Option<Scale>,
    /// Smallest value with rows of its own (nanoseconds or bytes); smaller ones share a row.
    pub min: Option<u64>,
    /// Largest value with rows of its own (nanoseconds or bytes); larger ones share a row.
    pub max: Option<u64>,
    /// How weights become colours.
    pub color: Scale,
    /// Fixes the last colour, in weight per second and cell (events, nanoseconds or bytes per second), so that pictures
    /// of different traces and intervals compare.
    pub color_max: Option<f64>,
    /// Colours of the cells.
    pub palette: Palette,
    /// Background.
    pub theme: Theme,
    /// How notes are worded.
    pub wording: Wording,
    /// Quantiles (0 to 1) drawn as lines over the cells; at most six. None are drawn over offsets, where they mean nothing.
    pub percentiles: Vec<f64>,
    /// Whether strips below show rate, throughput and requests in flight.
    pub strips: bool,
    /// Whether faint lines mark the ticks.
    pub grid: bool,
    /// The filter that made the series, to be named.
    pub filter: Option<String>,
    /// A panel for each group, the heaviest first.
    pub facet: bool,
    /// Those panels in the order in which the groups came into the series, however many they are.
    pub in_order: bool,
    /// At most so many cells have a text that shows when the pointer rests on them; it takes some 150 bytes. Stretches of
    /// time have one, too, wherever this is not 0.
    pub max_tooltips: u32,
}

impl Default for HeatmapOptions {
    fn default() -> HeatmapOptions {
        HeatmapOptions {
            title: None,
            width: 1180,
            height: 400,
            rows: None,
            scale_y: None,
            min: None,
            max: None,
            color: Scale::Log,
            color_max: None,
            palette: Palette::Inferno,
            theme: Theme::default(),
            wording: Wording::default(),
            percentiles: vec![0.5, 0.99],
            strips: true,
            grid: true,
            filter: None,
            facet: false,
            in_order: false,
            max_tooltips: 10_000,
        }
    }
}

/// Options that make no picture.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum HeatmapError {
    /// The range of the value axis is empty.
    #[error("The smallest value of the axis ({min}) must be below the largest ({max}); set --min below --max.")]
    Range {
        /// The given minimum with its unit.
        min: String,
        /// The given maximum with its unit.
        max: String,
    },
    /// A quantile outside of 0 to 1, or too many of them.
    #[error("Percentile lines must be at most 6 numbers from 0 to 100.")]
    Percentiles,
    /// No usable end of the colour scale.
    #[error("The maximum of the colour scale must be positive.")]
    ColorMax,
    /// A size beyond what a picture can be.
    #[error("A heat map must be 200 to 4000 pixels wide and 100 to 4000 high, with at least one row.")]
    Size,
}

/// A point of a percentile line stands for columns of at least this width together.
const LINE_PX: u32 = 8;
/// A cell is at most so wide.
const COLUMN_PX: u32 = 48;
/// So many stretches of time have a text, in all panels together.
const STRETCHES: u32 = 250;
/// Panels beyond this many are merged into the last one.
const PANELS: usize = 12;

impl HeatmapOptions {
    fn check(&self, quantity: Quantity) -> Result<(), HeatmapError> {
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min >= max
        {
            let label = |value| value_label(quantity, value);
            return Err(HeatmapError::Range { min: label(min), max: label(max) });
        }
        if self.percentiles.len() > 6 || !self.percentiles.iter().all(|quantile| (0.0..=1.0).contains(quantile)) {
            return Err(HeatmapError::Percentiles);
        }
        if self.color_max.is_some_and(|end| !(end > 0.0 && end.is_finite())) {
            return Err(HeatmapError::ColorMax);
        }
        if !(200..=4000).contains(&self.width) || !(100..=4000).contains(&self.height) || self.rows == Some(0) {
            return Err(HeatmapError::Size);
        }
        Ok(())
    }

    /// The percentile lines for this quantity.
    fn lines(&self, quantity: Quantity) -> &[f64] {
        if quantity == Quantity::Offset { &[] } else { &self.percentiles }
    }

    fn scale(&self, quantity: Quantity) -> Scale {
        self.scale_y.unwrap_or(if quantity == Quantity::Offset { Scale::Linear } else { Scale::Log })
    }
}

/// Everything that is drawn, before it is drawn.
struct Picture<'a> {
    series: &'a HistogramSeries,
    contexts: &'a [Context],
    options: &'a HeatmapOptions,
    page: Page<'a>,
    frame: Frame,
    panels: Vec<Panel>,
    colours: Colours,
    /// The ramp, and the one for viewers that prefer a dark picture where it adapts.
    ramps: Vec<(Option<&'static str>, Vec<[u8; 3]>)>,
}

/// Draws the heat map of a series as one self-contained SVG. The contexts are those of the traces that the series was
/// made from: their host, clock, losses and notes are part of the picture.
///
/// # Errors
/// When the options contradict themselves.
pub fn heatmap(
    series: &HistogramSeries,
    contexts: &[Context],
    options: &HeatmapOptions,
) -> Result<String, HeatmapError> {
    with_picture(series, contexts, options, None, LINE_PX, |picture| picture.draw())
}

/// Draws the key, a panel for each group in this order, and the time axis below `y`, as part of a larger picture. A point of a
/// percentile line stands for `line_px` at least. Returns
/// where they end.
///
/// # Errors
/// As [`heatmap`].
pub(crate) fn panels(
    svg: &mut Svg,
    y: f64,
    series: &HistogramSeries,
    options: &HeatmapOptions,
    line_px: u32,
) -> Result<f64, HeatmapError> {
    let facets = Facets::in_order(series);
    with_picture(series, &[], options, Some(facets), line_px, |picture| {
        let mut y = picture.legend(svg, y);
        for panel in &picture.panels {
            y = picture.panel(svg, panel, y);
        }
        picture.frame.axis(svg, &picture.page.inks, y)
    })
}

fn with_picture<T>(
    series: &HistogramSeries,
    contexts: &[Context],
    options: &HeatmapOptions,
    facets: Option<Facets>,
    line_px: u32,
    draw: impl FnOnce(&Picture<'_>) -> T,
) -> Result<T, HeatmapError> {
    options.check(series.quantity)?;
    let wish = FrameWish { width_px: options.width, column_px: COLUMN_PX, line_px, filtered: options.filter.is_some() };
    let (series, frame) = frame::fitted(series, contexts, &wish);
    let facets =
        facets.unwrap_or_else(|| match options.facet && !series.by.is_empty() && !is_one_without_name(&series) {
            true if options.in_order => Facets::in_order(&series),
            true => Facets::by_group(&series, PANELS),
            false => Facets::none(&series),
        });
    let many = facets.names.len() as u32;
    let height_px =
        if many > 1 { (2 * options.height / many).clamp(90, 260).min(options.height) } else { options.height };
    let wish = AxisWish {
        quantity: series.quantity,
        scale: options.scale(series.quantity),
        min: options.min,
        max: options.max,
        height_px,
        rows: options.rows,
    };
    let axes: Vec<Rc<ValueAxis>> = if series.quantity == Quantity::Offset {
        (0..facets.names.len()).map(|panel| Rc::new(ValueAxis::new(&facets.total(&series, panel), &wish))).collect()
    } else {
        let mut all = series.total(None);
        // What waits has its place on the axis, too.
        series.still_waiting(None).ages_ns().for_each(|age_ns| all.record(age_ns, 0));
        let shared = Rc::new(ValueAxis::new(&all, &wish));
        facets.names.iter().map(|_| Rc::clone(&shared)).collect()
    };
    let stretches = (STRETCHES / many).max(1);
    let asked = Asked {
        quantiles: options.lines(series.quantity),
        line_columns: frame.line_columns(),
        stretch_columns: frame.columns.count.div_ceil(stretches),
    };
    let panels = grid::panels(&series, frame.columns, &axes, &facets, &asked);
    let weights = panels.iter().flat_map(|panel| &panel.cells).map(|cell| cell.weight);
    let colours = Colours::new(options.color, series.weight, series.width_ns(), weights, options.color_max);
    let colours_of = |theme| palette::ramp(options.palette, theme, colours.steps);
    let ramps = match options.theme {
        Theme::Adaptive => vec![(Some("light"), colours_of(Theme::Light)), (Some("dark"), colours_of(Theme::Dark))],
        theme => vec![(None, colours_of(theme))],
    };
    let page = Page {
        width_px: frame.page_px(),
        inks: options.theme.inks(),
        title: options.title.clone().unwrap_or_else(|| caption::title(series.quantity, series.weight)),
        contexts,
        wording: options.wording,
        filter: options.filter.as_deref(),
    };
    let picture = Picture { series: &series, contexts, options, page, frame, panels, colours, ramps };
    Ok(draw(&picture))
}

/// Whether all events are in one group that has no value: its name would say nothing.
fn is_one_without_name(series: &HistogramSeries) -> bool {
    series.groups().len() <= 1 && series.groups().iter().flatten().all(|value| value == HistogramSeries::NO_VALUE)
}

impl Picture<'_> {
    fn draw(&self) -> String {
        // The height of the page is known when all of it is drawn.
        let mut body = Svg::new();
        let head_px = self.page.head(&mut body, &self.sentences());
        let mut y = self.legend(&mut body, head_px);
        if self.panels.iter().all(|panel| panel.totals.count == 0 && panel.waiting.count() == 0) {
            y = self.page.nothing(&mut body, self.frame.left(), y);
        } else {
            for panel in &self.panels {
                y = self.panel(&mut body, panel, y);
            }
            if self.options.strips {
                y = self.strips(&mut body, y);
            }
            y = self.frame.axis(&mut body, &self.page.inks, y);
        }
        let height = self.page.notes(&mut body, y) + 12.0;
        self.page.document(body, height, &self.description())
    }
}
