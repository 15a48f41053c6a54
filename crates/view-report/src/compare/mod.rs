//! Two or more traces in one picture: heat maps on one axis, distributions with their bands, tails, differences with their
//! intervals, and every single request between minimum, average and maximum.

mod scatter;

use crate::heatmap::{HeatmapError, HeatmapOptions, panels};
use crate::page::{Page, percent};
use crate::palette::Theme;
use crate::plot::{Axis, Plot};
use crate::svg::{Area, Svg, shortened, text_width, wrapped};
use latscope_event::{Context, Field, Wording, format_count};
use latscope_series::compare::{Comparison, Finding, Measure, Sample, distribution, signed};
use latscope_series::{HistogramSeries, Quantity, Weight, round_multiples};
use latscope_view::Palette;

/// How the picture of a comparison shall look.
#[derive(Clone, PartialEq, Debug)]
pub struct ComparePicture {
    /// Heading; by default it names the sides.
    pub title: Option<String>,
    /// Width of the plots, pixels. From 620 to 4000.
    pub width: u32,
    /// Background.
    pub theme: Theme,
    /// How notes are worded.
    pub wording: Wording,
    /// The filter that chose the events, to be named.
    pub filter: Option<String>,
}

/// One side.
pub struct CompareSide<'a> {
    /// What it is called.
    pub name: &'a str,
    /// What was compared, turn by turn.
    pub turns: &'a [Sample],
    /// The same over time; at most 512 intervals or so each.
    pub series: Vec<&'a HistogramSeries>,
    /// Where it comes from.
    pub context: &'a Context,
}

const LEFT_PX: f64 = 84.0;
const RIGHT_PX: f64 = 26.0;
const GAP_PX: f64 = 70.0;
/// Height of the plots of distributions and of single requests.
const PLOT_PX: f64 = 220.0;
/// Columns of the heat maps.
const COLUMNS: u32 = 250;

struct Picture<'a> {
    comparison: &'a Comparison,
    sides: &'a [CompareSide<'a>],
    page: Page<'a>,
    names: Vec<String>,
    theme: Theme,
}

/// Draws a comparison as one self-contained SVG; `unlike` is what makes the sides unlike each other beside their latency.
///
/// # Errors
/// When the size is beyond what a picture can be.
pub fn compare(
    comparison: &Comparison,
    sides: &[CompareSide<'_>],
    unlike: &[String],
    options: &ComparePicture,
) -> Result<String, HeatmapError> {
    if !(620..=4000).contains(&options.width) {
        return Err(HeatmapError::Size);
    }
    let names: Vec<String> = sides.iter().map(|side| shortened(side.name, 40)).collect();
    let quantity = comparison.options.quantity;
    let title =
        options.title.clone().unwrap_or_else(|| format!("{} of {}", capital(quantity.word()), names.join(", ")));
    let contexts: Vec<Context> = sides.iter().map(|side| side.context.clone()).collect();
    let page = Page {
        width_px: LEFT_PX + f64::from(options.width) + RIGHT_PX,
        inks: options.theme.inks(),
        title,
        contexts: &contexts,
        wording: options.wording,
        filter: options.filter.as_deref(),
    };
    Picture { comparison, sides, page, names, theme: options.theme }.draw(unlike, options.width)
}

impl Picture<'_> {
    fn draw(&self, unlike: &[String], width: u32) -> Result<String, HeatmapError> {
        let mut svg = Svg::new();
        let mut y = self.page.head(&mut svg, &[self.page.origin()]);
        y = self.verdicts(&mut svg, y, unlike);
        y = self.numbers(&mut svg, y + 4.0);
        // Of one volume, its requests are what is looked at first.
        let is_alone = self.sides.len() == 1;
        if is_alone {
            y = self.requests(&mut svg, y + 10.0);
        }
        y = self.over_time(&mut svg, y + 10.0, width)?;
        y = self.distributions(&mut svg, y + 14.0);
        if !is_alone {
            y = self.differences(&mut svg, y + 10.0);
            y = self.requests(&mut svg, y + 10.0);
        }
        let height = self.page.notes(&mut svg, y) + 12.0;
        Ok(self.page.document(svg, height, &self.description(unlike)))
    }

    fn quantity(&self) -> Quantity {
        self.comparison.options.quantity
    }

    fn shown(&self, value: f64) -> String {
        self.quantity().shown(value.max(0.0).round() as u64)
    }

    fn colour(&self, side: usize) -> &'static str {
        self.page.inks.groups[side % self.page.inks.groups.len()]
    }

    /// What was found and what has to be known about it; returns where it ends.
    fn verdicts(&self, svg: &mut Svg, y: f64, unlike: &[String]) -> f64 {
        let mut y = y + 6.0;
        let mut put = |text: &str, size: f64, style: &str| {
            // Bold letters are wider.
            let letters = self.page.letters(if style.contains("bold") { size * 1.15 } else { size });
            for line in wrapped(text, letters, 4) {
                svg.text(20.0, y, &format!(" font-size=\"{size}\"{style}"), &line);
                y += size + 5.0;
            }
        };
        for text in unlike {
            put(&format!("unlike: {text}"), 12.0, &format!(" fill=\"{}\"", self.page.inks.alarm));
        }
        for pair in &self.comparison.pairs {
            put(&self.comparison.verdict(pair, &self.names), 14.0, " font-weight=\"bold\"");
        }
        for note in self.comparison.notes(&self.names) {
            put(&note, 11.0, &format!(" fill=\"{}\"", self.page.inks.muted));
        }
        y
    }

    /// A line of numbers for each side, which is the key of the colours, too.
    fn numbers(&self, svg: &mut Svg, y: f64) -> f64 {
        let mut y = y;
        let names = self.names.iter().map(|name| text_width(name, 12.0)).fold(0.0, f64::max);
        for (at, (side, name)) in self.comparison.sides.iter().zip(&self.names).enumerate() {
            svg.rect(Area { x: 20.0, y, width: 12.0, height: 12.0 }, &format!(" fill=\"{}\"", self.colour(at)));
            svg.text(38.0, y + 10.5, " font-size=\"12\" font-weight=\"bold\"", name);
            let quantiles = self.comparison.options.quantiles.iter().zip(&side.quantiles);
            let quantiles =
                quantiles.map(|(&at, &value)| format!("{} {}", Measure::Quantile(at).key(), self.shown(value)));
            let text = format!(
                "{} requests: mean {}, sd {}, min {}, {}, max {}",
                format_count(side.count),
                self.shown(side.mean),
                self.shown(side.deviation),
                self.shown(side.min as f64),
                quantiles.collect::<Vec<_>>().join(", "),
                self.shown(side.max as f64)
            );
            svg.text(52.0 + names * 1.06, y + 10.5, " font-size=\"12\"", &text);
            y += 17.0;
        }
        y
    }

    fn heading(&self, svg: &mut Svg, x: f64, y: f64, title: &str, what: &str) {
        svg.text(x, y, " font-size=\"12\" font-weight=\"bold\"", title);
        let behind = x + text_width(title, 12.0) * 1.06 + 8.0;
        svg.text(behind, y, &format!(" fill=\"{}\"", self.page.inks.muted), what);
    }

    /// A heat map of each side, all on one axis and from the same moment on.
    fn over_time(&self, svg: &mut Svg, y: f64, width: u32) -> Result<f64, HeatmapError> {
        let turns = if self.comparison.has_turns() { ", with its turns in sequence" } else { "" };
        self.heading(svg, LEFT_PX, y + 10.0, "Over time", &format!("each from its own start{turns}"));
        let Some(series) = together(self.quantity(), self.sides, &self.names) else {
            let why =
                "the intervals of the stored histograms do not divide each other, so they are not shown side by side";
            svg.text(LEFT_PX, y + 30.0, "", why);
            return Ok(y + 40.0);
        };
        let options = HeatmapOptions {
            width,
            height: 150 * self.sides.len().clamp(1, 6) as u32,
            palette: Palette::Viridis,
            theme: self.theme,
            facet: true,
            max_tooltips: 300,
            ..HeatmapOptions::default()
        };
        // A point of a line needs some hundred events for a p99.
        let fewest = self.comparison.sides.iter().map(|side| side.count).min().unwrap_or(1).max(1);
        let line_px = (u64::from(width) * 120).div_ceil(fewest).clamp(8, u64::from(width) / 5) as u32;
        panels(svg, y + 18.0, &series.fitted(COLUMNS), &options, line_px)
    }

    /// The axis of latencies that all distributions share, to the right.
    fn latencies(&self) -> Axis {
        let sides = &self.comparison.sides;
        let low = sides.iter().map(|side| side.min).min().unwrap_or(1).max(1) as f64;
        let high = sides.iter().map(|side| side.max).max().unwrap_or(1) as f64;
        Axis::log(low * 0.95, high.max(low * 1.5) * 1.05)
    }

    /// Distribution and tail, side by side.
    fn distributions(&self, svg: &mut Svg, y: f64) -> f64 {
        let width = (self.page.width_px - LEFT_PX - RIGHT_PX - GAP_PX) / 2.0;
        let area = Area { x: LEFT_PX, y: y + 18.0, width, height: PLOT_PX };
        let share = |part: f64| percent(100.0 * part);
        let bands = (0..self.sides.len()).any(|side| self.band(side).is_some());
        let interval = if bands { ", with its 95 % interval" } else { "" };
        let (upto, above) = match self.quantity() {
            Quantity::Latency => ("as fast as this", "slower than this"),
            _ => ("up to this", "above this"),
        };
        let what = format!("share of requests {upto}{interval}");
        self.heading(svg, area.x, y + 10.0, "Distribution", &what);
        let plot = Plot { area, x: self.latencies(), y: Axis::linear(0.0, 1.0), inks: &self.page.inks };
        plot.ground(svg, &|value| self.shown(value), &share);
        let curves: Vec<Vec<(f64, f64)>> = self.sides.iter().map(|side| shares(side.turns)).collect();
        for (at, curve) in curves.iter().enumerate() {
            if let Some(half) = self.band(at) {
                plot.band(svg, curve, &half, self.colour(at));
            }
        }
        for (at, curve) in curves.iter().enumerate() {
            plot.steps(svg, curve, self.colour(at));
        }
        let area = Area { x: area.right() + GAP_PX, ..area };
        self.heading(svg, area.x, y + 10.0, "Tail", &format!("share of requests {above}"));
        let most = self.comparison.sides.iter().map(|side| side.count).max().unwrap_or(1) as f64;
        let plot = Plot { area, x: self.latencies(), y: Axis::log(0.5 / most, 1.0), inks: &self.page.inks };
        plot.ground(svg, &|value| self.shown(value), &tail_share);
        for (at, curve) in curves.iter().enumerate() {
            // The last request has none slower than itself; the line ends at the one before it, and falls.
            let tail: Vec<(f64, f64)> =
                curve.iter().map(|&(value, share)| (value, (1.0 - share).max(0.25 / most))).collect();
            plot.steps(svg, &tail, self.colour(at));
        }
        area.bottom() + 26.0
    }

    /// Half the height of the 95 % band of a share, by as many independent requests as claims are based on; `None` where there is
    /// no way to know. Where two such bands lie apart, their difference is claimed: nearly so, as a claim takes 2.9 standard
    /// deviations of the difference, and two bands of equal width lie apart from 2.8 on.
    fn band(&self, side: usize) -> Option<impl Fn(f64) -> f64> {
        let independent = self.comparison.sides[side].independent?.max(1) as f64;
        Some(move |share: f64| 1.96 * (share * (1.0 - share) / independent).max(0.0).sqrt())
    }

    /// A row for each measure in time, with a point and its intervals for each pair.
    fn differences(&self, svg: &mut Svg, y: f64) -> f64 {
        let rows = |pair: &latscope_series::compare::Pair| -> Vec<_> {
            pair.differences.iter().filter(|row| row.measure != Measure::Chance).copied().collect()
        };
        let all: Vec<_> = self.comparison.pairs.iter().flat_map(rows).collect();
        let ends = all.iter().flat_map(|row| {
            let (low, high) = row.joint.or(row.interval).unwrap_or((row.difference(), row.difference()));
            [low, high]
        });
        let ends: Vec<f64> = ends.chain([0.0]).filter(|end| end.is_finite()).collect();
        let (low, high) = (ends.iter().copied().fold(0.0, f64::min), ends.iter().copied().fold(0.0, f64::max));
        // Sides that are equal have an axis, too, whose ticks are whole nanoseconds or bytes.
        let room = ((high - low) * 0.05).max(20.0);
        let measures = self.comparison.options.quantiles.len() + 1;
        let row_px = 10.0 + 12.0 * self.comparison.pairs.len() as f64;
        let what = format!("to {}; thick: 95 %, thin: together with all others", self.names[0]);
        self.heading(svg, LEFT_PX, y + 10.0, "Difference", &what);
        let width = self.page.width_px - LEFT_PX - RIGHT_PX - 330.0;
        let area = Area { x: LEFT_PX, y: y + 18.0, width, height: row_px * measures as f64 };
        let axis = Axis::linear(low - room, high + room);
        let plot = Plot { area, x: axis, y: Axis::linear(0.0, 1.0), inks: &self.page.inks };
        plot.ground_across(svg, &|value| signed(self.quantity(), value));
        for (nth, pair) in self.comparison.pairs.iter().enumerate() {
            for (at, row) in rows(pair).iter().enumerate() {
                let middle = area.y + row_px * at as f64 + 11.0 + 12.0 * nth as f64;
                if nth == 0 {
                    svg.text(area.x - 8.0, middle + 4.0, " text-anchor=\"end\"", &row.measure.key());
                }
                let ink = self.colour(pair.other);
                let text = match (row.interval, row.joint) {
                    (Some(own), Some(joint)) => {
                        plot.whisker(svg, middle, row.difference(), own, joint, ink);
                        format!(
                            "{} [{}, {}]: {}",
                            signed(self.quantity(), row.difference()),
                            signed(self.quantity(), own.0),
                            signed(self.quantity(), own.1),
                            row.finding.word(self.quantity())
                        )
                    }
                    (own, joint) => {
                        // What was measured is shown, though it may be chance.
                        let at = row.difference();
                        plot.whisker(svg, middle, at, own.unwrap_or((at, at)), joint.unwrap_or((at, at)), ink);
                        let what = match row.finding {
                            Finding::Dependent => "too few independent requests",
                            _ if self.comparison.has_turns() => "too few turns or requests",
                            _ => "too few requests",
                        };
                        format!("{}: {what}", signed(self.quantity(), at))
                    }
                };
                let name = if self.comparison.pairs.len() > 1 {
                    format!("{}: ", self.names[pair.other])
                } else {
                    String::new()
                };
                svg.text(area.right() + 10.0, middle + 4.0, "", &format!("{name}{text}"));
            }
        }
        area.bottom() + 30.0
    }

    /// The picture in words.
    fn description(&self, unlike: &[String]) -> Vec<String> {
        let mut parts = vec![self.page.origin()];
        parts.extend(unlike.iter().map(|text| format!("unlike: {text}")));
        parts.extend(self.comparison.pairs.iter().map(|pair| self.comparison.verdict(pair, &self.names)));
        for (name, side) in self.names.iter().zip(&self.comparison.sides) {
            parts.push(format!(
                "{name}: minimum {}, average {}, maximum {}, standard deviation {}",
                self.shown(side.min as f64),
                self.shown(side.mean),
                self.shown(side.max as f64),
                self.shown(side.deviation)
            ));
        }
        parts.extend(self.comparison.notes(&self.names));
        parts.extend(self.page.note_texts());
        parts
    }
}

/// Every value with the share of requests up to it.
fn shares(turns: &[Sample]) -> Vec<(f64, f64)> {
    let all = turns.iter().map(Sample::count).sum::<u64>().max(1) as f64;
    let mut sum = 0.0;
    let share = |(value, count): (f64, u64)| {
        sum += count as f64;
        (value, sum / all)
    };
    distribution(turns).into_iter().map(share).collect()
}

/// All sides as groups of one series that starts at zero, the turns of each behind each other; `None` if no interval fits all.
fn together(quantity: Quantity, sides: &[CompareSide<'_>], names: &[String]) -> Option<HistogramSeries> {
    let series = || sides.iter().flat_map(|side| &side.series);
    let first = series().next()?.width_ns();
    let fits = |&width_ns: &u64| series().all(|series| width_ns.is_multiple_of(series.width_ns()));
    let width_ns = round_multiples(first).find(fits)?;
    let mut all = HistogramSeries::new(quantity, Weight::Count, vec![Field::Job], width_ns);
    for (side, name) in sides.iter().zip(names) {
        let mut start = 0;
        for turn in &side.series {
            // From the first event on: the interval in which it lies would start before it.
            let series = turn.rebinned(width_ns)?;
            let (first, last) = series.range()?;
            for &interval in series.slices().keys() {
                let sum = series.at(interval, None);
                if sum.totals().count > 0 {
                    all.insert(start + interval - first, vec![name.clone()], &sum.to_sparse()).ok()?;
                }
            }
            start += last - first + 1;
        }
    }
    Some(all)
}

/// A word at the start of a title.
fn capital(word: &str) -> String {
    let mut letters = word.replace('_', " ");
    letters[..1].make_ascii_uppercase();
    letters
}

/// A power of ten as a share, with as many digits as distinguish it from the next: `0.001 %`.
fn tail_share(part: f64) -> String {
    let share = 100.0 * part;
    if share >= 0.01 {
        return percent(share);
    }
    format!("{share:.*} %", (-share.log10() - 1e-9).ceil() as usize)
}

#[cfg(test)]
mod tests {
    use super::tail_share;

    #[test]
    fn every_tick_of_the_tail_is_another() {
        let ticks = [1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6].map(tail_share);
        assert_eq!(ticks, ["100 %", "10.0 %", "1.0 %", "0.10 %", "0.01 %", "0.001 %", "0.0001 %"]);
    }
}
