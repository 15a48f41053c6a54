//! The lines of a chart: values by column, and how each is drawn.

use super::PercentilesOptions;
use crate::frame::Columns;
use crate::heatmap::Facets;
use crate::page::quantile_name;
use crate::palette::Inks;
use latscope_histogram::{Histogram, Sparse};
use latscope_series::{AskedPercentiles, HistogramSeries, Judging, Slice, Waiting, Watch};
use latscope_view::Palette;

/// A value of a line in one step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Point {
    pub value: u64,
    /// Whether fewer than ten events lie beyond it.
    pub doubtful: bool,
    /// Whether it is a lower bound, raised by what waits.
    pub at_least: bool,
}

/// One line.
pub(super) struct Curve {
    pub name: String,
    pub colour: String,
    pub width_px: f64,
    /// SVG's lengths of dashes and gaps; empty for a whole line.
    pub dashes: &'static str,
    /// By step.
    pub points: Vec<Option<Point>>,
    /// Whether it is only the edge of a shade.
    pub is_edge: bool,
}

/// Between two curves of a panel, by their places.
pub(super) struct Shade {
    pub lower: usize,
    pub upper: usize,
    pub colour: String,
}

/// One plot.
pub(super) struct Panel {
    /// Name of the group; `None` when there is nothing but everything.
    pub name: Option<String>,
    pub total: Histogram,
    /// What still waits at the end.
    pub waiting: Waiting,
    /// Events by step.
    pub counts: Vec<f64>,
    pub verdict: Verdict,
    pub curves: Vec<Curve>,
    pub shades: Vec<Shade>,
}

/// Where the service level was exceeded.
#[derive(Default)]
pub(super) struct Verdict {
    /// By step: in any of its intervals.
    pub steps: Vec<bool>,
    /// In how many intervals.
    pub exceeded: u64,
    /// Of how many.
    pub judged: u64,
    /// Whether groups were judged one by one: exceeded is what one of them did.
    pub apart: bool,
}

/// What lines are steps of: an interval each, which is a column, or several where intervals were merged.
pub(super) struct Steps {
    /// The first column of each, and the one behind the last.
    bounds: Vec<u32>,
}

impl Steps {
    pub fn new(series: &HistogramSeries, columns: Columns) -> Steps {
        let (mut bounds, mut next) = (Vec::new(), 0);
        for (&interval, column) in series.slices().keys().filter_map(|at| Some((at, columns.column_of(*at)?))) {
            bounds.extend(next..=column);
            let length = series.width_of(interval) / series.width_ns();
            next = column.saturating_add(u32::try_from(length).unwrap_or(u32::MAX)).min(columns.count);
        }
        bounds.extend(next..=columns.count);
        Steps { bounds }
    }

    pub fn count(&self) -> usize {
        self.bounds.len() - 1
    }

    /// The first column of a step; that of the one behind the last is the end.
    pub fn column(&self, step: usize) -> u32 {
        self.bounds[step]
    }

    /// How many columns a step spans.
    pub fn columns(&self, step: usize) -> u32 {
        self.bounds[step + 1] - self.bounds[step]
    }

    /// The step of a column.
    fn step_of(&self, column: u32) -> usize {
        self.bounds.partition_point(|&first| first <= column).saturating_sub(1)
    }
}

/// What panels are made of.
pub(super) struct Source<'a> {
    pub series: &'a HistogramSeries,
    /// In intervals that were not merged to fit.
    pub judged: &'a HistogramSeries,
    /// Where the percentiles come from that are judged.
    pub judged_by: &'a AskedPercentiles,
    pub columns: Columns,
    pub steps: &'a Steps,
    pub asked: &'a AskedPercentiles,
    pub options: &'a PercentilesOptions,
    pub inks: &'a Inks,
}

impl Source<'_> {
    /// A panel of everything, and one for each group if there are any.
    pub fn by_panel(&self, limit: usize) -> Vec<Panel> {
        let mut panels = vec![self.panel(None)];
        if self.series.by.is_empty() {
            return panels;
        }
        let facets = Facets::by_group(self.series, limit);
        if facets.names.len() > 1 {
            panels[0].name = Some("all".into());
            panels.extend((0..facets.names.len()).map(|facet| {
                let mut panel = self.panel(Some((&facets, facet)));
                panel.name = self.name(&facets, facet);
                panel
            }));
        } else {
            panels[0].name.clone_from(&facets.names[0]);
        }
        panels
    }

    /// One panel with a line of each percentile for each group, and perhaps for everything.
    pub fn by_group(&self, limit: usize, with_all: bool) -> Panel {
        let names: Vec<String> = self.asked.quantiles.iter().map(|&quantile| quantile_name(quantile)).collect();
        let mut all = self.panel(None);
        all.verdict = self.verdict(None, true);
        all.shades.clear();
        all.curves.retain(|curve| with_all && names.contains(&curve.name));
        let facets = Facets::by_group(self.series, limit);
        for curve in &mut all.curves {
            (curve.colour, curve.width_px) = (self.inks.text.into(), 2.2);
            curve.name = format!("{} of all", curve.name);
        }
        for facet in 0..facets.names.len() {
            let part = self.panel(Some((&facets, facet)));
            let group = self.name(&facets, facet).unwrap_or_default();
            for mut curve in part.curves.into_iter().filter(|curve| names.contains(&curve.name)) {
                (curve.colour, curve.dashes) = match facet {
                    _ if facet >= limit => (self.inks.muted.into(), OTHERS_DASHES),
                    // The last of the colours is grey, which is that of the others; where colours come again, lines are
                    // dashed.
                    _ if facet < HUES => (self.inks.groups[facet].into(), ""),
                    _ => (self.inks.groups[facet % HUES].into(), AGAIN_DASHES),
                };
                // The colour is the group's; of several percentiles, the highest is a whole line.
                let below = names.iter().rev().position(|name| *name == curve.name).unwrap_or(0);
                if below > 0 {
                    curve.dashes = PERCENTILE_DASHES[(below - 1) % PERCENTILE_DASHES.len()];
                }
                curve.name = if names.len() > 1 { format!("{group} {}", curve.name) } else { group.clone() };
                all.curves.push(curve);
            }
        }
        all
    }

    /// A facet's name, and where its percentiles are not as exact as those of the others.
    fn name(&self, facets: &Facets, facet: usize) -> Option<String> {
        let name = facets.names[facet].clone()?;
        let is_rest = self.asked.exact.is_some() && group_of(facets, facet).is_none();
        Some(if is_rest { format!("{name} (from buckets)") } else { name })
    }

    /// Judges each interval by itself, since what was merged to fit the picture hides what was short: of everything, of the
    /// one group of a facet, or `apart` of each of its groups, by [`Watch`] as everywhere.
    fn verdict(&self, facet: Option<(&Facets, usize)>, apart: bool) -> Verdict {
        let mut verdict = Verdict { steps: vec![false; self.steps.count()], apart, ..Verdict::default() };
        let Some(level) = &self.options.level else { return verdict };
        let together = facet.is_none() && !apart;
        let groups = |group| !together && is_of(facet, group);
        let judging = Judging { groups: Some(&groups), all: together, ..Judging::new(self.judged_by) };
        let mut watch = Watch::new(level.clone());
        watch.see_each(self.judged, &judging, |range| {
            let (from_ns, to_ns) = (self.judged.start_ns(range.start), self.judged.start_ns(range.end));
            verdict.steps[self.step_at(from_ns)..=self.step_at(to_ns.saturating_sub(1))].fill(true);
        });
        verdict.exceeded = watch.exceeded().map_or(0, |exceeded| exceeded.intervals);
        verdict.judged = watch.seen();
        verdict
    }

    /// The step of a moment; the last of those behind the picture.
    fn step_at(&self, ns: i64) -> usize {
        let column = self.columns.column_of(ns.div_euclid(self.series.width_ns() as i64));
        self.steps.step_of(column.unwrap_or(self.columns.count - 1))
    }

    fn panel(&self, facet: Option<(&Facets, usize)>) -> Panel {
        let (series, quantiles, count) = (self.series, &self.asked.quantiles[..], self.steps.count());
        let group = facet.and_then(|(facets, facet)| group_of(facets, facet));
        // Exact percentiles are those of groups and of everything; for a union of some groups they are not known.
        let buckets = AskedPercentiles { exact: None, quantiles: quantiles.to_vec(), ..*self.asked };
        let asked = if facet.is_some() && group.is_none() { &buckets } else { self.asked };
        let empty = Histogram::new(series.grid(), series.is_weighted());
        let (mut sum, mut total) = (empty.clone(), empty);
        let mut counts = vec![0.0; count];
        let mut lines: Vec<Vec<Option<Point>>> = vec![vec![None; count]; quantiles.len() + 2];
        for (&interval, column) in series.slices().keys().filter_map(|at| Some((at, self.columns.column_of(*at)?))) {
            sum_up(series, interval, facet, &mut sum);
            let sparse = sum.to_sparse();
            let (step, shown) = (self.steps.step_of(column), asked.percentiles(series, interval, group, &sparse));
            // What waits has lines where nothing completes.
            if sparse.totals().count == 0 && shown.waiting.count() == 0 {
                continue;
            }
            total.add(&sparse);
            counts[step] = shown.count;
            let point =
                |value: f64, doubtful, at_least| Some(Point { value: value.round() as u64, doubtful, at_least });
            let points = shown.values.iter();
            let points = points.map(|shown| shown.and_then(|shown| point(shown.value, shown.doubtful, shown.at_least)));
            let mean = shown.mean.and_then(|mean| point(mean.value, false, mean.at_least));
            let max = shown.max.and_then(|max| point(max.value as f64, false, max.at_least));
            for (line, point) in lines.iter_mut().zip(points.chain([mean, max])) {
                line[step] = point;
            }
        }
        let (curves, shades) = styled(quantiles, lines, self.options, self.inks);
        let waiting = match facet {
            Some((facets, facet)) => series.still_waiting_among(|group| facets.has(facet, group)),
            None => series.still_waiting(None),
        };
        Panel {
            name: None,
            total,
            waiting,
            counts,
            verdict: self.verdict(facet, facet.is_some() && group.is_none()),
            curves,
            shades,
        }
    }
}

/// The histogram of an interval, of everything or of one facet.
fn sum_up(series: &HistogramSeries, interval: i64, facet: Option<(&Facets, usize)>, sum: &mut Histogram) {
    sum.clear();
    let slice = series.slices().get(&interval);
    slice.into_iter().flat_map(|slice| of_facet(slice, facet)).for_each(|sparse| sum.add(sparse));
}

/// The histograms of the groups of a facet, or of all.
fn of_facet<'a>(slice: &'a Slice, facet: Option<(&'a Facets, usize)>) -> impl Iterator<Item = &'a Sparse> {
    slice.groups.iter().filter(move |(group, _)| is_of(facet, *group)).map(|(_, sparse)| sparse)
}

/// Whether a group is of a facet; every group is of everything.
fn is_of(facet: Option<(&Facets, usize)>, group: u32) -> bool {
    facet.is_none_or(|(facets, facet)| facets.panel_of.get(group as usize) == Some(&facet))
}

/// Colours of groups that are not grey.
const HUES: usize = 7;
const AGAIN_DASHES: &str = "7 3";
const OTHERS_DASHES: &str = "2 2";
/// Of lower percentiles of the same group.
const PERCENTILE_DASHES: [&str; 2] = ["6 2", "1.5 2.5"];

/// The group of a facet that has one only.
fn group_of(facets: &Facets, facet: usize) -> Option<u32> {
    let mut groups = (0u32..).zip(&facets.panel_of).filter(|(_, of)| **of == facet).map(|(group, _)| group);
    groups.next().filter(|_| groups.next().is_none())
}

/// Neighbours at most so far apart, and at least so many of them, are shades.
const SHADE_STEP: f64 = 0.0100001;
const SHADES: usize = 8;

/// What the colours of percentiles are taken from.
pub(super) const RAMP: (Palette, usize) = (Palette::Viridis, 64);

/// Colours from the lowest percentile to the highest, away from the ground; the mean and the maximum are distinguished by
/// their dashes, too.
fn styled(
    quantiles: &[f64],
    lines: Vec<Vec<Option<Point>>>,
    options: &PercentilesOptions,
    inks: &Inks,
) -> (Vec<Curve>, Vec<Shade>) {
    let shaded: Vec<bool> = shaded(quantiles);
    let (palette, steps) = RAMP;
    let ramp = crate::palette::ramp(palette, options.theme, steps);
    let colour = |part: f64| {
        let [r, g, b] = ramp[(part * (steps - 1) as f64) as usize];
        format!("#{r:02x}{g:02x}{b:02x}")
    };
    let single = quantiles.iter().zip(&shaded).filter(|(_, shaded)| !**shaded).count().max(2) as f64;
    let mut drawn = 0.0;
    let mut curves = Vec::new();
    for (at, points) in lines.into_iter().enumerate() {
        let (name, colour, width_px, dashes) = match quantiles.get(at) {
            Some(&quantile) => {
                let colour = if shaded[at] { inks.muted.into() } else { colour(0.3 + 0.7 * drawn / (single - 1.0)) };
                drawn += f64::from(u8::from(!shaded[at]));
                (quantile_name(quantile), colour, 1.6, "")
            }
            None if at == quantiles.len() => ("mean".into(), inks.mean.to_string(), 1.2, "5 3"),
            None => ("max".into(), inks.muted.to_string(), 1.1, "1.5 2"),
        };
        let is_edge = shaded.get(at).copied().unwrap_or(false);
        curves.push(Curve { name, colour, width_px, dashes, points, is_edge });
    }
    let pairs = (1..quantiles.len()).filter(|&at| shaded[at - 1] && shaded[at]);
    let pairs: Vec<usize> = pairs.filter(|&at| quantiles[at] - quantiles[at - 1] <= SHADE_STEP).collect();
    let last = pairs.len().saturating_sub(1).max(1) as f64;
    let shade = |(nth, &upper): (usize, &usize)| {
        // Most events lie in the middle, so the lowest shade is the strongest.
        Shade { lower: upper - 1, upper, colour: colour(0.75 - 0.7 * nth as f64 / last) }
    };
    let shades = pairs.iter().enumerate().map(shade).collect();
    (curves, shades)
}

/// Which quantiles (ascending) are edges of shades: those of a row of even steps.
fn shaded(quantiles: &[f64]) -> Vec<bool> {
    let steps: Vec<f64> = quantiles.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut shaded = vec![false; quantiles.len()];
    let mut first = 0;
    for at in 0..=steps.len() {
        let goes_on = steps.get(at).is_some_and(|step| *step <= SHADE_STEP && (step - steps[first]).abs() < 1e-6);
        if !goes_on {
            if at - first + 1 >= SHADES {
                shaded[first..=at].fill(true);
            }
            first = at;
        }
    }
    shaded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_shades_and_single_percentiles_are_lines() {
        let range: Vec<f64> = (50..=99).map(|percent| f64::from(percent) / 100.0).collect();
        assert!(shaded(&range).iter().all(|&shaded| shaded));
        assert_eq!(shaded(&[0.5, 0.9, 0.99]), [false; 3]);
        let mixed: Vec<f64> = [0.1].into_iter().chain((90..=99).map(|percent| f64::from(percent) / 100.0)).collect();
        let mixed: Vec<f64> = mixed.into_iter().chain([0.999]).collect();
        assert_eq!(shaded(&mixed)[..3], [false, true, true]);
        assert_eq!(shaded(&mixed)[9..], [true, true, false]);
    }
}
