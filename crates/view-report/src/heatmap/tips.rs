//! Texts that show when the pointer rests on the picture; `<title>` elements, so no script is needed.

use super::Picture;
use super::grid::{Cell, Panel, Percentile};
use crate::axis::{Place, ValueAxis};
use crate::page::{events, percent};
use crate::svg::{Area, Svg};
use latscope_view::weight_label;
use std::collections::HashMap;

impl Percentile {
    /// The value with its marks.
    fn text(self, axis: &ValueAxis) -> String {
        let (bound, few) = (if self.at_least { ">=" } else { "" }, if self.is_few { "?" } else { "" });
        format!("{bound}{}{few}", axis.label(self.value))
    }
}

impl Picture<'_> {
    /// Invisible areas with a text: one for each stretch of time over the whole height, and on top of them one for
    /// each cell, or each of the highest and of the heaviest where they are too many.
    pub(super) fn tips(&self, svg: &mut Svg, panel: &Panel, whole: Area, area_of: &dyn Fn(&Cell) -> Area) {
        if self.options.max_tooltips == 0 {
            return;
        }
        svg.put(format_args!("<g fill-opacity=\"0\">\n"));
        for stretch in &panel.stretches {
            let (from, to) = (stretch.columns.start, stretch.columns.end);
            let names = ["p50", "p99"].into_iter().zip(&stretch.percentiles);
            let mut numbers: Vec<String> =
                names.map(|(name, percentile)| format!("{name} {}", percentile.text(&panel.axis))).collect();
            numbers.push(match stretch.oldest_ns.filter(|&oldest_ns| oldest_ns > stretch.totals.max) {
                Some(oldest_ns) => format!("max >={}", panel.axis.label(oldest_ns)),
                None => format!("max {}", panel.axis.label(stretch.totals.max)),
            });
            let count = events(stretch.totals.count);
            let mut text = format!("{}\n{count}\n{}", self.frame.span(from, to), numbers.join(", "));
            if self.series.is_weighted() {
                text += &format!("\n{} of {}", weight_label(self.series.weight, stretch.weight), self.weight_noun());
            }
            let width = f64::from((to - from) * self.frame.column_px);
            svg.tip(Area { x: self.frame.x(from), width, ..whole }, format_args!("{text}"));
        }
        self.cell_tips(svg, panel, area_of);
        svg.put(format_args!("</g>\n"));
    }

    fn cell_tips(&self, svg: &mut Svg, panel: &Panel, area_of: &dyn Fn(&Cell) -> Area) {
        let (lower, upper) = panel.axis.range();
        let label = |value| panel.axis.label(value);
        let (below, above) = (format!("< {}", label(lower)), format!("> {}", label(upper)));
        let rows = panel.axis.rows().iter();
        let rows: Vec<String> =
            rows.map(|row| format!("{} - {}", label(row.lower), label(row.upper.saturating_add(1)))).collect();
        // Cells come column by column; those of a column share its time, and most of them their count.
        let (mut column, mut span, mut shares) = (u32::MAX, String::new(), HashMap::new());
        for cell in self.worth_a_tip(panel) {
            if column != cell.column {
                (column, span) = (cell.column, self.frame.span(cell.column, cell.column + 1));
                shares.clear();
            }
            let range = match cell.place {
                Place::Below => &below,
                Place::Above => &above,
                Place::Row(row) => &rows[row as usize],
            };
            let share = shares.entry(cell.count).or_insert_with(|| {
                let share = 100.0 * cell.count as f64 / panel.counts[column as usize].max(1) as f64;
                format!("{}, {} of this interval", events(cell.count), percent(share))
            });
            let area = area_of(cell);
            if self.series.is_weighted() {
                let (weight, noun) = (weight_label(self.series.weight, cell.weight), self.weight_noun());
                let text = format_args!("{span}\n{range}\n{share}\n{weight} of {noun}");
                svg.tip(area, text);
            } else {
                svg.tip(area, format_args!("{span}\n{range}\n{share}"));
            }
        }
    }

    /// The cells with the largest values, and those with the most in them.
    fn worth_a_tip<'a>(&self, panel: &'a Panel) -> Vec<&'a Cell> {
        let budget = self.options.max_tooltips as usize / self.panels.len().max(1);
        if panel.cells.len() <= budget {
            return panel.cells.iter().collect();
        }
        let mut order: Vec<usize> = (0..panel.cells.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse((panel.cells[at].place, panel.cells[at].weight)));
        let mut chosen: Vec<usize> = order.iter().copied().take(budget / 2).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(panel.cells[at].weight));
        chosen.extend(order.iter().copied().take(budget - budget / 2));
        chosen.sort_unstable();
        chosen.dedup();
        chosen.into_iter().map(|at| &panel.cells[at]).collect()
    }
}
