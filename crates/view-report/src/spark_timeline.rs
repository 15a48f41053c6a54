//! What the executors of an application do over time as a picture: active tasks, parts of run time and memory, one below the other on
//! one axis of time. The picture of what the terminal shows as rows.

use crate::page::Page;
use crate::palette::Theme;
use crate::plot::{Axis, Plot, rounded};
use crate::spark::{Bar, LEFT_PX, RIGHT_PX, bars, legend};
use crate::svg::{Area, Num, Svg};
use latscope_event::{Wording, format_size, format_strftime};
use latscope_series::{SPARK_GROUPS, SPARK_MEMORY, SPARK_PARTS, SPARK_PEAKS, SparkColumn, SparkTimeline};
use latscope_view::Escaped;
use std::fmt::Write;

/// Height of the plots of tasks and run time, and of one of memory.
const PLOT_PX: f64 = 110.0;
const MEMORY_PX: f64 = 46.0;
/// So many executors have plots of their memory.
const EXECUTORS: usize = 24;
const MIB: f64 = 1048576.0;

struct Picture<'a> {
    timeline: &'a SparkTimeline,
    page: Page<'a>,
    width: f64,
    start_s: i64,
    end_s: i64,
}

/// Draws the columns as one self-contained SVG; `source` is where they come from.
pub fn spark_timeline(timeline: &SparkTimeline, source: &str, width: u32, theme: Theme) -> String {
    let page = Page {
        width_px: LEFT_PX + f64::from(width) + RIGHT_PX,
        inks: theme.inks(),
        title: if timeline.app.is_empty() { "No application has reported yet".into() } else { timeline.app.clone() },
        contexts: &[],
        wording: Wording::default(),
        filter: None,
    };
    let times = timeline.columns.iter().map(|column| column.at_s);
    let (start_s, end_s) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
    let picture = Picture { timeline, page, width: f64::from(width), start_s, end_s: end_s.max(start_s + 1) };
    picture.draw(source)
}

/// The same as a page that a browser reads again after so many seconds; never, once it is complete.
pub fn spark_page(timeline: &SparkTimeline, source: &str, again_s: Option<u64>) -> String {
    let picture = spark_timeline(timeline, source, 1200, Theme::Adaptive);
    let again = again_s.map_or(String::new(), |s| format!("<meta http-equiv=\"refresh\" content=\"{s}\">"));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">{again}\
         <title>{}</title><style>body{{margin:0;background:Canvas}}svg{{max-width:100%;height:auto}}</style></head>\n\
         <body>\n{picture}</body></html>\n",
        Escaped(&timeline.app)
    )
}

impl Picture<'_> {
    fn draw(&self, source: &str) -> String {
        let mut svg = Svg::new();
        let timeline = self.timeline;
        let mut y = self.page.head(&mut svg, &[source.to_string()]) + 6.0;
        for (kind, name) in ["sql", "job", "stage"].into_iter().enumerate() {
            y = bars(&mut svg, y, (name, &self.spans(name)), kind, &self.page.inks, &|ns| self.x_at(ns));
        }
        y += 20.0;
        let most =
            |value: &dyn Fn(&SparkColumn) -> Option<f64>| timeline.columns.iter().filter_map(value).fold(0.0, f64::max);
        let tasks = |column: &SparkColumn| column.active.map(|tasks| tasks as f64);
        let cores = |column: &SparkColumn| column.cores.map(|cores| cores as f64);
        let inks = &self.page.inks;
        let plot = self.plot(y, PLOT_PX, most(&tasks).max(most(&cores)).max(1.0) * 1.1);
        plot.ground(&mut svg, &|seconds| self.time(seconds), &|tasks| format!("{tasks}"));
        self.line(&mut svg, &plot, &cores, inks.muted);
        self.line(&mut svg, &plot, &tasks, inks.groups[0]);
        self.heading(&mut svg, y, "Active tasks", &[("cores", inks.muted), ("tasks", inks.groups[0])]);
        y = plot.area.bottom() + 46.0;
        y = self.parts(&mut svg, y);
        y = self.groups(&mut svg, y);
        for at in timeline.order().into_iter().take(EXECUTORS) {
            y = self.memory(&mut svg, y, at);
        }
        if timeline.executors.len() > EXECUTORS {
            let text = format!("{} more executors are not drawn.", timeline.executors.len() - EXECUTORS);
            svg.text(LEFT_PX, y, "", &text);
            y += 20.0;
        }
        self.page.document(svg, y + 6.0, &[source.to_string()])
    }

    /// Queries, jobs or stages that ran in what is drawn; those that run, to its end.
    fn spans(&self, kind: &str) -> Vec<Bar> {
        let [start_ns, end_ns] = [self.start_s, self.end_s].map(|at_s| at_s.saturating_mul(1_000_000_000));
        let spans = self.timeline.spans.iter().filter(|span| span.kind == kind).filter_map(|span| {
            let until_ns = span.end_ns.unwrap_or(end_ns).max(span.start_ns);
            let state = if span.end_ns.is_none() { " (runs)" } else { "" };
            let is_drawn = span.start_ns < end_ns && until_ns > start_ns;
            is_drawn.then(|| Bar {
                span_ns: (span.start_ns, until_ns),
                label: span.id.to_string(),
                words: format!("{kind} {} {}{state}", span.id, span.name),
                is_bound: span.end_ns.is_none(),
            })
        });
        spans.collect()
    }

    fn x_at(&self, ns: i64) -> f64 {
        let [start, end, at] = [self.start_s as f64, self.end_s as f64, ns as f64 / 1e9];
        LEFT_PX + ((at - start) / (end - start)).clamp(0.0, 1.0) * self.width
    }

    fn plot(&self, y: f64, height: f64, most: f64) -> Plot<'_> {
        Plot {
            area: Area { x: LEFT_PX, y, width: self.width, height },
            x: Axis::linear(0.0, (self.end_s - self.start_s) as f64),
            y: Axis::linear(0.0, most),
            inks: &self.page.inks,
        }
    }

    fn time(&self, seconds: f64) -> String {
        let ns = self.start_s.saturating_add(seconds as i64).saturating_mul(1_000_000_000);
        format_strftime(ns, "%H:%M:%S").unwrap_or_default()
    }

    fn heading(&self, svg: &mut Svg, y: f64, text: &str, names: &[(&str, &str)]) {
        svg.text(LEFT_PX, y - 8.0, " font-size=\"12\" font-weight=\"bold\"", text);
        legend(svg, (LEFT_PX + self.width, y - 8.0), names);
    }

    /// Straight lines between values; what was not sampled is a gap.
    fn line(&self, svg: &mut Svg, plot: &Plot<'_>, value: &dyn Fn(&SparkColumn) -> Option<f64>, ink: &str) {
        let (mut path, mut is_known) = (String::new(), false);
        for column in &self.timeline.columns {
            let known = value(column);
            if let Some(value) = known {
                let (x, y) = (plot.x_at((column.at_s - self.start_s) as f64), plot.y_at(value));
                // Writing to a String does not fail. A point between two gaps needs a line, or nobody draws it.
                let _ = match is_known {
                    true => write!(path, "L{} {}", Num(x), Num(y)),
                    false => write!(path, "M{} {}h0", Num(x), Num(y)),
                };
            }
            is_known = known.is_some();
        }
        svg.put(format_args!(
            "<path fill=\"none\" stroke=\"{ink}\" stroke-width=\"1.5\" stroke-linecap=\"round\" d=\"{path}\"/>\n"
        ));
    }

    /// Parts of run time upon each other, in cores.
    fn parts(&self, svg: &mut Svg, y: f64) -> f64 {
        let sums =
            self.timeline.columns.iter().filter_map(|column| column.parts).map(|parts| parts.iter().sum::<f64>());
        let plot = self.plot(y, PLOT_PX, sums.fold(0.0, f64::max).max(0.1) * 1.1);
        plot.ground(svg, &|seconds| self.time(seconds), &rounded);
        let columns: Vec<&SparkColumn> = self.timeline.columns.iter().collect();
        for layer in 0..SPARK_PARTS.len() {
            let ink = self.page.inks.groups[layer];
            for pair in columns.windows(2) {
                let Some(parts) = pair[1].parts else { continue };
                let [left, right] = [pair[0], pair[1]].map(|column| plot.x_at((column.at_s - self.start_s) as f64));
                let below: f64 = parts[..layer].iter().sum();
                let (bottom, top) = (plot.y_at(below), plot.y_at(below + parts[layer]));
                let area = Area { x: left, y: top, width: right - left, height: bottom - top };
                svg.rect(area, &format!(" fill=\"{ink}\""));
            }
        }
        let names: Vec<(&str, &str)> =
            SPARK_PARTS.iter().zip(self.page.inks.groups).map(|(name, ink)| (*name, ink)).collect();
        let names: Vec<(&str, &str)> = names.into_iter().rev().collect();
        self.heading(svg, y, "Run time of tasks that ended, in cores", &names);
        plot.area.bottom() + 46.0
    }

    /// What control groups count together, in cores, where they are sampled.
    fn groups(&self, svg: &mut Svg, y: f64) -> f64 {
        let values = self.timeline.columns.iter().flat_map(|column| column.groups).flatten();
        let Some(most) = values.reduce(f64::max) else { return y };
        let plot = self.plot(y, PLOT_PX, most.max(0.1) * 1.1);
        plot.ground(svg, &|seconds| self.time(seconds), &rounded);
        let inks = [self.page.inks.groups[0], self.page.inks.alarm];
        inks.iter().enumerate().for_each(|(at, ink)| self.line(svg, &plot, &|column| column.groups[at], ink));
        let shared = if self.timeline.is_shared { " (some executors share one)" } else { "" };
        let title = format!("Control groups of executors, in cores{shared}");
        self.heading(svg, y, &title, &[(SPARK_GROUPS[1], inks[1]), (SPARK_GROUPS[0], inks[0])]);
        plot.area.bottom() + 46.0
    }

    /// The memory of an executor: a line for each area, with its peak.
    fn memory(&self, svg: &mut Svg, y: f64, at: usize) -> f64 {
        // One scale for all executors, so that they compare; the driver is something else.
        let is_driver = self.timeline.is_driver(at);
        let alike =
            self.timeline.peaks.iter().enumerate().filter(|&(other, _)| self.timeline.is_driver(other) == is_driver);
        let most = alike.flat_map(|(_, peaks)| peaks).flatten().max().copied().unwrap_or(1).max(1);
        // Labels are round numbers of the unit that they have.
        let unit = if most as f64 > 1000.0 * MIB { 1024.0 * MIB } else { MIB };
        let plot = self.plot(y, MEMORY_PX, most as f64 / unit * 1.1);
        plot.ground(svg, &|seconds| self.time(seconds), &|units| format_size((units * unit) as u64));
        let mut names: Vec<(String, &str)> = Vec::new();
        for (area, title) in SPARK_MEMORY.iter().enumerate() {
            if area == SPARK_MEMORY.len() - 1 && self.timeline.peaks[at][area].is_none() {
                continue;
            }
            let ink = self.page.inks.groups[area];
            let value = |column: &SparkColumn| column.memory.get(&at)?[area].map(|bytes| bytes as f64 / unit);
            self.line(svg, &plot, &value, ink);
            // What is the greatest so far is a line that only climbs, and says so.
            let so_far = if self.timeline.is_asked && SPARK_PEAKS.contains(title) { " so far" } else { "" };
            let peak = self.timeline.peaks[at][area]
                .map_or("not sampled".into(), |peak| format!("at most {}{so_far}", format_size(peak)));
            names.push((format!("{title} {peak}"), ink));
        }
        let names: Vec<(&str, &str)> = names.iter().rev().map(|(name, ink)| (name.as_str(), *ink)).collect();
        self.heading(svg, y, &self.timeline.title(at), &names);
        plot.area.bottom() + 42.0
    }
}
