//! One panel: the cells as an image, the rows beyond the range, percentile lines, the value axis.

use super::Picture;
use super::grid::{Cell, Panel};
use crate::axis::Place;
use crate::page::{events, percent};
use crate::png::Packed;
use crate::svg::{Area, Num, Svg, shortened};
use latscope_event::format_count;

/// Height of the row of everything beyond the range, and its distance from the others.
const BEYOND_PX: u32 = 12;
const BEYOND_GAP_PX: u32 = 4;
/// A cell smaller than this grows into its empty surroundings.
const VISIBLE_PX: u32 = 3;
/// Arrows of what waits are this far apart at least.
const ARROW_PX: f64 = 4.0;

/// Where the parts of a panel lie, pixels from the top of its image.
#[derive(Clone, Copy)]
struct Bands {
    above: Option<u32>,
    main: u32,
    below: Option<u32>,
    height: u32,
}

impl Bands {
    fn new(panel: &Panel, main_px: u32) -> Bands {
        let main = if panel.above > 0 { BEYOND_PX + BEYOND_GAP_PX } else { 0 };
        let below = main + main_px + BEYOND_GAP_PX;
        let has_below = panel.below > 0;
        Bands {
            above: (panel.above > 0).then_some(0),
            main,
            below: has_below.then_some(below),
            height: if has_below { below + BEYOND_PX } else { main + main_px },
        }
    }
}

impl Picture<'_> {
    /// Draws a panel below `y`; returns where it ends.
    pub(super) fn panel(&self, svg: &mut Svg, panel: &Panel, y: f64) -> f64 {
        let mut y = y;
        if panel.name.is_some() {
            svg.text(self.frame.left(), y + 12.0, " font-size=\"12\" font-weight=\"bold\"", &self.panel_title(panel));
            y += 18.0;
        }
        let note = format!(" font-size=\"10\" fill=\"{}\"", self.page.inks.muted);
        if panel.above > 0 {
            svg.text(self.frame.left(), y + 10.0, &note, &self.beyond(panel, panel.above, true));
            y += 14.0;
        }
        let bands = Bands::new(panel, panel.axis.height_px());
        let (left, width) = (self.frame.left(), self.frame.plot_px());
        let main = Area { x: left, y: y + f64::from(bands.main), width, height: f64::from(panel.axis.height_px()) };
        self.backgrounds(svg, panel, bands, y);
        if self.options.grid {
            self.frame.verticals(svg, &self.page.inks, main.y, main.height);
        }
        panel.axis.draw(svg, &self.page.inks, main, self.options.grid);
        self.image(svg, panel, bands, y);
        self.frame.hatches(svg, self.contexts, y, f64::from(bands.height));
        self.percentile_lines(svg, panel, main);
        self.waiting(svg, panel, main);
        svg.rect(main, &format!(" fill=\"none\" stroke=\"{}\"", self.page.inks.frame));
        let whole = Area { x: left, y, width, height: f64::from(bands.height) };
        self.tips(svg, panel, whole, &|cell| self.cell_area(panel, cell, bands, y));
        y = whole.bottom();
        if panel.below > 0 {
            svg.text(left, y + 12.0, &note, &self.beyond(panel, panel.below, false));
            y += 15.0;
        }
        y + 10.0
    }

    fn backgrounds(&self, svg: &mut Svg, panel: &Panel, bands: Bands, y: f64) {
        let parts = [(Some(bands.main), panel.axis.height_px()), (bands.above, BEYOND_PX), (bands.below, BEYOND_PX)];
        for (top, height) in parts {
            if let Some(top) = top {
                let area = Area {
                    x: self.frame.left(),
                    y: y + f64::from(top),
                    width: self.frame.plot_px(),
                    height: height.into(),
                };
                svg.rect(area, &format!(" fill=\"{}\"", self.page.inks.plot));
            }
        }
    }

    /// A sentence about the events beyond one end of the axis.
    fn beyond(&self, panel: &Panel, count: u64, above: bool) -> String {
        let (lower, upper) = panel.axis.range();
        let label = |value| panel.axis.label(value);
        let share = 100.0 * count as f64 / panel.totals.count.max(1) as f64;
        let range = if above {
            format!("> {}, up to {}", label(upper), label(panel.totals.max))
        } else {
            format!("< {}, down to {}", label(lower), label(panel.totals.min))
        };
        format!("{range}: {} ({})", events(count), percent(share))
    }

    fn panel_title(&self, panel: &Panel) -> String {
        let name = shortened(panel.name.as_deref().unwrap_or_default(), 60);
        let all: u64 = self.panels.iter().map(|panel| panel.totals.count).sum();
        let mut title = format!(
            "{name}: {} ({})",
            events(panel.totals.count),
            percent(100.0 * panel.totals.count as f64 / all.max(1) as f64)
        );
        if self.series.is_weighted() {
            let all: f64 = self.panels.iter().map(|panel| panel.weight as f64).sum();
            let share = 100.0 * panel.weight as f64 / all.max(1.0);
            let sum = latscope_view::weight_label(self.series.weight, panel.weight);
            title += &format!(", {sum} of {} ({})", self.weight_noun(), percent(share));
        }
        title
    }

    /// Pixels of a cell in the image of its panel: left, top, width, height.
    fn cell_px(&self, panel: &Panel, cell: &Cell, bands: Bands) -> [u32; 4] {
        let (top, height) = match cell.place {
            Place::Above => (bands.above.unwrap_or(0), BEYOND_PX),
            Place::Below => (bands.below.unwrap_or(0), BEYOND_PX),
            Place::Row(row) => {
                let row = panel.axis.rows()[row as usize];
                (bands.main + panel.axis.height_px() - row.to_px, row.to_px - row.from_px)
            }
        };
        [cell.column * self.frame.column_px, top, self.frame.column_px, height]
    }

    fn cell_area(&self, panel: &Panel, cell: &Cell, bands: Bands, y: f64) -> Area {
        let [left, top, width, height] = self.cell_px(panel, cell, bands).map(f64::from);
        Area { x: self.frame.left() + left, y: y + top, width, height }
    }

    fn image(&self, svg: &mut Svg, panel: &Panel, bands: Bands, y: f64) {
        let (width, height) = (self.frame.plot_px() as u32, bands.height);
        let mut canvas = Canvas { pixels: vec![0; (width * height) as usize], width, height };
        for cell in &panel.cells {
            canvas.fill(self.cell_px(panel, cell, bands), self.colours.index(cell.weight));
        }
        for cell in &panel.cells {
            canvas.grow(self.cell_px(panel, cell, bands), self.colours.index(cell.weight));
        }
        let image = Packed::new(width, &canvas.pixels);
        for (class, ramp) in &self.ramps {
            let class = class.map(|class| format!(" class=\"{class}\"")).unwrap_or_default();
            svg.put(format_args!(
                "<image{class} x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{height}\" preserveAspectRatio=\"none\" \
                 style=\"image-rendering:pixelated\" href=\"{}\"/>\n",
                Num(self.frame.left()),
                Num(y),
                image.data_uri(ramp)
            ));
        }
    }

    /// Lines of percentiles, thin where fewer than ten events lie beyond.
    fn percentile_lines(&self, svg: &mut Svg, panel: &Panel, main: Area) {
        for line in 0..self.options.lines(self.series.quantity).len() {
            let ink = self.page.inks.lines[line % self.page.inks.lines.len()];
            for (is_few, width_px, halo_px) in [(true, 0.7, 2.0), (false, 1.5, 3.4)] {
                let path = self.line_path(panel, line, is_few, main);
                if path.is_empty() {
                    continue;
                }
                for (ink, style) in [
                    (self.page.inks.halo, format!("stroke-opacity=\"0.7\" stroke-width=\"{halo_px}\"")),
                    (ink, format!("stroke-width=\"{width_px}\"")),
                ] {
                    svg.put(format_args!(
                        "<path fill=\"none\" stroke=\"{ink}\" {style} stroke-linejoin=\"round\" d=\"{path}\"/>\n"
                    ));
                }
            }
        }
    }

    /// The steps of a line that few events support, or enough; broken where there is nothing to take a percentile of.
    fn line_path(&self, panel: &Panel, line: usize, is_few: bool, main: Area) -> String {
        use std::fmt::Write;
        let (mut path, mut before) = (String::new(), None::<(u32, f64, bool)>);
        let (lower, upper) = panel.axis.range();
        for point in &panel.percentiles {
            let Some(percentile) = point.values.get(line) else { continue };
            // Beyond the range the line runs along the edge.
            let y = main.bottom() - panel.axis.px(percentile.value.clamp(lower, upper)).unwrap_or(0.0);
            let (x, to) = (self.frame.x(point.columns.start), self.frame.x(point.columns.end));
            let joins = before.filter(|&(end, ..)| end == point.columns.start);
            before = Some((point.columns.end, y, percentile.is_few));
            if percentile.is_few != is_few {
                continue;
            }
            // Writing to a String does not fail.
            let _ = match joins {
                Some((.., was_few)) if was_few == is_few => write!(path, "V{}H{}", Num(y), Num(to)),
                Some((_, from, _)) => write!(path, "M{} {}V{}H{}", Num(x), Num(from), Num(y), Num(to)),
                None => write!(path, "M{} {}H{}", Num(x), Num(y), Num(to)),
            };
        }
        path
    }

    /// Arrows at the right edge where requests are that had not completed when the trace ended: they go on to the top.
    fn waiting(&self, svg: &mut Svg, panel: &Panel, main: Area) {
        let Some(oldest_ns) = panel.waiting.oldest_ns() else { return };
        let (lower, upper) = panel.axis.range();
        let height = |age_ns: u64| main.bottom() - panel.axis.px(age_ns.clamp(lower, upper)).unwrap_or(0.0);
        let mut heights: Vec<i64> = panel.waiting.ages_ns().map(|age_ns| (height(age_ns) / ARROW_PX) as i64).collect();
        heights.sort_unstable();
        heights.dedup();
        let (x, ink) = (main.right(), self.page.inks.text);
        for step in heights {
            let y = (step as f64 + 0.5) * ARROW_PX;
            svg.put(format_args!("<path fill=\"{ink}\" d=\"M{} {}l9 -5v10z\"/>\n", Num(x + 10.0 - 9.0), Num(y)));
        }
        let (count, age) = (format_count(panel.waiting.count()), panel.axis.label(oldest_ns));
        let y = (height(oldest_ns) - 6.0).max(main.y + 11.0);
        let style = format!(
            " text-anchor=\"end\" font-size=\"10\" paint-order=\"stroke\" stroke=\"{}\" stroke-width=\"3\"",
            self.page.inks.halo
        );
        svg.text(x - 4.0, y, &style, &format!("{count} waiting, the oldest >={age}"));
    }
}

struct Canvas {
    pixels: Vec<u8>,
    width: u32,
    height: u32,
}

impl Canvas {
    fn fill(&mut self, [left, top, width, height]: [u32; 4], colour: u8) {
        for y in top..(top + height).min(self.height) {
            let from = (y * self.width + left) as usize;
            self.pixels[from..from + width as usize].fill(colour);
        }
    }

    /// Widens a cell that stands alone until it is large enough to be seen.
    fn grow(&mut self, [left, top, width, height]: [u32; 4], colour: u8) {
        let (more_x, more_y) = (VISIBLE_PX.saturating_sub(width), VISIBLE_PX.saturating_sub(height));
        if more_x + more_y == 0 {
            return;
        }
        let x0 = left.saturating_sub(more_x.div_ceil(2));
        let y0 = top.saturating_sub(more_y.div_ceil(2));
        let x1 = (left + width + more_x / 2).min(self.width);
        let y1 = (top + height + more_y / 2).min(self.height);
        let inside = |x: u32, y: u32| (left..left + width).contains(&x) && (top..top + height).contains(&y);
        let surroundings = || (y0..y1).flat_map(|y| (x0..x1).map(move |x| (x, y))).filter(|&(x, y)| !inside(x, y));
        if surroundings().all(|(x, y)| self.pixels[(y * self.width + x) as usize] == 0) {
            let places: Vec<_> = surroundings().collect();
            places.into_iter().for_each(|(x, y)| self.pixels[(y * self.width + x) as usize] = colour);
        }
    }
}
