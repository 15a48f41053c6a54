//! The lines of a chart: values by column, and how each is drawn.

use super::PercentilesOptions;
use crate::frame::Columns;
use crate::heatmap::Facets;
use crate::page::quantile_name;
use crate::palette::{Inks, Palette};
use latscope_histogram::{Histogram, Rule};
use latscope_series::{HistogramSeries, Support};

/// A value of a line in one column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Point {
    pub value: u64,
    /// Whether fewer than ten events lie beyond it.
    pub doubtful: bool,
}

/// One line.
pub(super) struct Curve {
    pub name: String,
    pub colour: String,
    pub width_px: f64,
    /// SVG's lengths of dashes and gaps; empty for a whole line.
    pub dashes: &'static str,
    /// By column.
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
    /// Events by column.
    pub counts: Vec<f64>,
    /// Whether the service level was exceeded, by column.
    pub exceeded: Vec<bool>,
    pub curves: Vec<Curve>,
    pub shades: Vec<Shade>,
}

impl Panel {
    /// Columns that have events.
    pub fn filled(&self) -> usize {
        self.counts.iter().filter(|&&count| count > 0.0).count()
    }
}

/// A panel of everything, and one for each group if there are any.
pub(super) fn by_panel(
    series: &HistogramSeries,
    columns: Columns,
    quantiles: &[f64],
    limit: usize,
    options: &PercentilesOptions,
    inks: &Inks,
) -> Vec<Panel> {
    let mut panels = vec![panel(series, columns, quantiles, None, options, inks)];
    if series.by.is_empty() {
        return panels;
    }
    let facets = Facets::by_group(series, limit);
    if facets.names.len() > 1 {
        panels[0].name = Some("all".into());
        panels.extend((0..facets.names.len()).map(|facet| {
            let mut panel = panel(series, columns, quantiles, Some((&facets, facet)), options, inks);
            panel.name.clone_from(&facets.names[facet]);
            panel
        }));
    } else {
        panels[0].name.clone_from(&facets.names[0]);
    }
    panels
}

/// One panel with a line of this percentile for everything and for each group.
pub(super) fn by_group(
    series: &HistogramSeries,
    columns: Columns,
    quantile: f64,
    limit: usize,
    options: &PercentilesOptions,
    inks: &Inks,
) -> Panel {
    let one = &[quantile][..];
    let mut all = panel(series, columns, one, None, options, inks);
    all.curves.retain(|curve| curve.name == quantile_name(quantile));
    let facets = Facets::by_group(series, limit);
    for curve in &mut all.curves {
        (curve.colour, curve.width_px) = (inks.text.into(), 2.2);
        curve.name = format!("{} of all", curve.name);
    }
    for facet in 0..facets.names.len() {
        let part = panel(series, columns, one, Some((&facets, facet)), options, inks);
        let Some(mut curve) = part.curves.into_iter().find(|curve| curve.name == quantile_name(quantile)) else {
            continue;
        };
        curve.name = facets.names[facet].clone().unwrap_or_default();
        curve.colour = inks.groups[facet % inks.groups.len()].into();
        all.curves.push(curve);
    }
    all
}

/// The histogram of a column, of everything or of one facet.
fn column(series: &HistogramSeries, interval: i64, facet: Option<(&Facets, usize)>, sum: &mut Histogram) {
    sum.clear();
    let Some(slice) = series.slices().get(&interval) else { return };
    let of = |group: u32| facet.is_none_or(|(facets, facet)| facets.panel_of.get(group as usize) == Some(&facet));
    slice.groups.iter().filter(|(group, _)| of(*group)).for_each(|(_, sparse)| sum.add(sparse));
}

fn panel(
    series: &HistogramSeries,
    columns: Columns,
    quantiles: &[f64],
    facet: Option<(&Facets, usize)>,
    options: &PercentilesOptions,
    inks: &Inks,
) -> Panel {
    let count = columns.count as usize;
    let empty = Histogram::new(series.grid(), series.is_weighted());
    let (mut sum, mut total) = (empty.clone(), empty);
    let (mut counts, mut exceeded) = (vec![0.0; count], vec![false; count]);
    let mut lines: Vec<Vec<Option<Point>>> = vec![vec![None; count]; quantiles.len() + 2];
    for (&interval, place) in series.slices().keys().filter_map(|at| Some((at, columns.of(*at)? as usize))) {
        column(series, interval, facet, &mut sum);
        let totals = *sum.totals();
        let Some(values) = sum.quantiles(quantiles, Rule::Interpolated) else { continue };
        let sparse = sum.to_sparse();
        total.add(&sparse);
        counts[place] = totals.count as f64 / series.per_event() as f64;
        exceeded[place] =
            options.level.as_ref().is_some_and(|level| level.holds(&sparse, series.per_event(), series.width_ns()));
        for (line, (&quantile, value)) in quantiles.iter().zip(values).enumerate() {
            let support = Support::of(quantile, counts[place]);
            let point = Point { value, doubtful: support == Support::Few };
            lines[line][place] = (support != Support::None).then_some(point);
        }
        let sure = |value| Some(Point { value, doubtful: false });
        lines[quantiles.len()][place] = totals.mean().and_then(|mean| sure(mean.round() as u64));
        lines[quantiles.len() + 1][place] = sure(totals.max);
    }
    let (curves, shades) = styled(quantiles, lines, options, inks);
    Panel { name: None, total, counts, exceeded, curves, shades }
}

/// Neighbours at most so far apart, and at least so many of them, are shades.
const SHADE_STEP: f64 = 0.0100001;
const SHADES: usize = 8;

/// Colours from the lowest percentile to the highest, away from the ground; the mean and the maximum are told apart by
/// their dashes, too.
fn styled(
    quantiles: &[f64],
    lines: Vec<Vec<Option<Point>>>,
    options: &PercentilesOptions,
    inks: &Inks,
) -> (Vec<Curve>, Vec<Shade>) {
    let shaded: Vec<bool> = shaded(quantiles);
    let ramp = Palette::Viridis.ramp(options.theme, 64);
    let colour = |part: f64| {
        let [r, g, b] = ramp[(part * 63.0) as usize];
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
            None if at == quantiles.len() => ("mean".into(), inks.mean.to_string(), 1.6, "5 3"),
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
