//! The spectrogram: when it was slow, and how slow, as rows or columns of coloured cells.

mod across;
mod down;
mod growing;
mod source;

use crate::palette::ColorDepth;
use crate::scale::Strength;
use crate::{Line, SysdigSpectrogram, TimeLabels, caption};
pub use growing::GrowingSpectrogram;
use latscope_event::{Context, Wording, format_duration, format_size};
use latscope_series::HistogramSeries;
use latscope_view::{Palette, Scale};
use source::Source;
pub(crate) use source::strength;

/// Which way time goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Orient {
    /// Down: an interval is a row, values go across.
    #[default]
    Down,
    /// Across: an interval is a column, values go up.
    Across,
}

/// How a spectrogram is drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct SpectrogramOptions {
    /// Columns of the terminal; no line is wider.
    pub columns: usize,
    /// How notes are worded.
    pub wording: Wording,
    /// Rows of the map when time goes across.
    pub rows: usize,
    /// Which way time goes.
    pub orient: Orient,
    /// The colours.
    pub palette: Palette,
    /// How many of them the terminal shows.
    pub depth: ColorDepth,
    /// How a rate becomes a colour.
    pub scale: Scale,
    /// The rate per second (events, nanoseconds or bytes) of the strongest colour, so that two pictures compare;
    /// `None` takes it from the data.
    pub full: Option<f64>,
    /// The lowest value of the axis; what lies below it gets a cell of its own. `None` takes it from the data.
    pub min: Option<u64>,
    /// The highest value of the axis, likewise.
    pub max: Option<u64>,
    /// Two intervals (or two ranges of values) to a row of text, where the palette allows it.
    pub half_blocks: bool,
    /// Whether the terminal shows more than ASCII.
    pub unicode: bool,
    /// What stands beside the intervals.
    pub time: TimeLabels,
    /// Draw this group only.
    pub group: Option<u32>,
    /// Beside each row, how many requests wait at its end and the age of the oldest.
    pub waiting: bool,
}

impl Default for SpectrogramOptions {
    fn default() -> SpectrogramOptions {
        SpectrogramOptions {
            columns: 80,
            wording: Wording::default(),
            rows: 24,
            orient: Orient::Down,
            palette: Palette::Viridis,
            depth: ColorDepth::Ansi256,
            scale: Scale::Log,
            full: None,
            min: None,
            max: None,
            half_blocks: true,
            unicode: true,
            time: TimeLabels::Elapsed,
            group: None,
            waiting: false,
        }
    }
}

/// The lines of a spectrogram, made as they are asked for: a long trace need not fit into memory as text.
pub fn spectrogram<'a>(
    series: &'a HistogramSeries,
    context: &'a Context,
    filter: &str,
    options: &SpectrogramOptions,
) -> Box<dyn Iterator<Item = Line> + 'a> {
    let name = options.group.map_or(String::new(), |group| format!(" of {}", series.group_name(group)));
    let what = format!("{}{name}", series.quantity.word());
    match options.orient {
        Orient::Down => {
            let layout = down::Layout::new(options, down::label_width(series, context, options));
            let source = Source::of_series(series, options, layout.map);
            Box::new(down::lines(source, layout, &what, context, filter, options))
        }
        Orient::Across => Box::new(across::lines(series, &what, context, filter, options).into_iter()),
    }
}

/// Columns of the time labels where the map's width must be known before the first event.
const SYSDIG_LABEL: usize = 12;

/// How many columns the map of [`sysdig_spectrogram`] has on a terminal: all of them without labels, as the chisel.
pub fn sysdig_width(options: &SpectrogramOptions) -> usize {
    down::Layout::new(&options.for_sysdig(), SYSDIG_LABEL).map
}

/// The lines of a spectrogram with the chisel's columns and colours, from counted events.
pub fn sysdig_spectrogram<'a>(
    counted: &'a SysdigSpectrogram,
    context: &'a Context,
    filter: &str,
    options: &SpectrogramOptions,
) -> impl Iterator<Item = Line> + use<'a> {
    let options = options.for_sysdig();
    let layout = down::Layout::new(&options, SYSDIG_LABEL).with_map(counted.width());
    down::lines(Source::of_chisel(counted, &options), layout, "latency", context, filter, &options)
}

impl SpectrogramOptions {
    /// The chisel's axis ends at 100 s, so there is always something beyond it.
    fn for_sysdig(&self) -> SpectrogramOptions {
        let max = (self.time != TimeLabels::None).then_some(99_999_999_999);
        SpectrogramOptions { palette: Palette::Sysdig, min: None, max, group: None, ..self.clone() }
    }

    fn halved(&self, strength: &Strength) -> bool {
        self.half_blocks && strength.can_halve()
    }
}

/// The lines below a map: the legend, what lies beyond the axis, what is missing.
fn foot(source: &Source<'_>, context: &Context, options: &SpectrogramOptions) -> Vec<Line> {
    let mut lines = source.strength.legend(options.columns);
    let text = |value: u64| if source.is_bytes() { format_size(value) } else { format_duration(value) };
    let (below, above) = source.beyond;
    for (count, sign, limit) in [(below, '<', options.min), (above, '>', options.max)] {
        if let Some(limit) = limit.filter(|_| count > 0) {
            let note = format!("{sign} {}: {} in the cells marked {sign}", text(limit), caption::events(count));
            lines.extend(crate::cell::wrap(&note, options.columns));
        }
    }
    lines.extend(foot_without(source.without, options.columns));
    let note =
        source.range().and_then(|(_, last)| caption::incomplete(context, source.start_ns(last), source.width_ns));
    lines.extend(note.iter().flat_map(|note| crate::cell::wrap(note, options.columns)));
    lines.extend(caption::foot(context, options.wording, options.columns));
    lines
}

/// Says how many events are in no cell.
fn foot_without(count: u64, columns: usize) -> Vec<Line> {
    if count == 0 {
        return Vec::new();
    }
    crate::cell::wrap(&format!("note: {} of 0 ns, outside this axis", caption::events(count)), columns)
}
