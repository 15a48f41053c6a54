//! A Spark application over time: its jobs and stages, tasks against cores, where the time of cores went, and peaks of memory; one
//! below the other on one axis of time.

mod areas;
mod usage;

use crate::page::Page;
use crate::palette::{Inks, Theme};
use crate::plot::{Axis, Plot, rounded};
use crate::svg::{Area, Num, Svg, shortened, text_width};
use latscope_event::{Context, Wording, format_duration, format_elapsed, format_size};
use latscope_series::spark::{ActiveTasks, Analysis, Breakdown, SparkGroup, SparkTasks};
use std::fmt::Write;

/// How the picture shall look.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SparkPicture {
    /// Heading; by default the name of the application.
    pub title: Option<String>,
    /// Width of the plots, pixels.
    pub width: u32,
    /// Background.
    pub theme: Theme,
    /// How notes are worded.
    pub wording: Wording,
}

pub(crate) const LEFT_PX: f64 = 84.0;
pub(crate) const RIGHT_PX: f64 = 26.0;
const PLOT_PX: f64 = 150.0;
const BAR_PX: f64 = 13.0;
/// Spans that overlap lie in rows; so many at most.
const ROWS: usize = 6;
/// A column of the breakdown is so wide.
const COLUMN_PX: u32 = 2;
/// What is stacked: names and the parts of [`Breakdown::parts`] that they add up. What is small lies together.
const LAYERS: [(&str, &[usize]); 7] = [
    ("CPU", &[0]),
    ("GC", &[1]),
    ("fetch wait", &[2]),
    ("shuffle write", &[3]),
    ("remainder", &[4]),
    ("deserialize", &[5]),
    ("scheduler, results, unknown", &[6, 7, 8, 9]),
];

/// A span on the axis of time: from when to when, a label, and more words.
pub(crate) struct Bar {
    pub span_ns: (i64, i64),
    pub label: String,
    pub words: String,
    /// Whether it has not ended, as far as is known.
    pub is_bound: bool,
}

struct Picture<'a> {
    page: Page<'a>,
    analysis: Analysis<'a>,
    extent_ns: (i64, i64),
    width: u32,
}

/// Draws the application as one self-contained SVG.
pub fn spark(tasks: &SparkTasks, context: &Context, options: &SparkPicture) -> String {
    let property = |key: &str| context.properties.get(key).map_or("-", String::as_str);
    let name = format!("{}, Spark {}", property("spark.app.name"), property("spark.version"));
    let page = Page {
        width_px: LEFT_PX + f64::from(options.width) + RIGHT_PX,
        inks: options.theme.inks(),
        title: options.title.clone().unwrap_or(name),
        contexts: std::slice::from_ref(context),
        wording: options.wording,
        filter: None,
    };
    let analysis = Analysis::new(tasks, &context.properties);
    let extent_ns = tasks.extent_ns().unwrap_or((0, 1));
    let picture = Picture { page, analysis, extent_ns, width: options.width };
    let (load, sums) = (&picture.analysis.load, &picture.analysis.observed.sums);
    let mut sentences = vec![
        picture.page.origin(),
        format!(
            "{} in {}, {} at most{}",
            tasks_in_words(sums.tasks),
            format_duration(picture.analysis.wall_ns()),
            load.tasks,
            if load.cores > 0 { format!(" on {} cores", load.cores) } else { ", cores are not known".into() }
        ),
    ];
    let verdicts = picture.analysis.observed.findings();
    sentences.extend(verdicts.first().map(|finding| format!("{}: {}", finding.verdict.word(), finding.evidence)));
    let mut svg = Svg::new();
    let mut y = picture.page.head(&mut svg, &sentences) + 8.0;
    let bar = |group: &SparkGroup, kind: &str| {
        let label = format!("{kind} {}", group.id);
        let words = format!("{label} {}: {}", group.name, tasks_in_words(group.sums.tasks));
        group.span_ns.map(|span_ns| Bar { span_ns, label: group.id.to_string(), words, is_bound: group.is_bound() })
    };
    let queries: Vec<Bar> = tasks.executions().iter().filter_map(|group| bar(group, "sql")).collect();
    let jobs: Vec<Bar> = tasks.jobs().iter().filter_map(|group| bar(group, "job")).collect();
    let stages: Vec<Bar> = tasks
        .stages
        .iter()
        .filter_map(|(id, stage)| {
            let words = format!("stage {}.{} {}: {}", id.0, id.1, stage.name, tasks_in_words(stage.sums.tasks));
            Some(Bar { span_ns: stage.extent_ns()?, label: id.0.to_string(), words, is_bound: stage.is_bound() })
        })
        .collect();
    for (at, (name, bars)) in [("sql", queries), ("job", jobs), ("stage", stages)].into_iter().enumerate() {
        y = self::bars(&mut svg, y, (name, &bars), at, &picture.page.inks, &|ns| picture.x_at(ns));
    }
    y = picture.active(&mut svg, y);
    y = picture.breakdown(&mut svg, y);
    y = picture.memory(&mut svg, y);
    y = picture.areas(&mut svg, y);
    y = picture.usage(&mut svg, y);
    sentences.extend(picture.page.note_texts());
    let height = picture.page.notes(&mut svg, y) + 12.0;
    picture.page.document(svg, height, &sentences)
}

/// `1 task`, `104 tasks`.
fn tasks_in_words(count: u64) -> String {
    format!("{count} {}", if count == 1 { "task" } else { "tasks" })
}

impl Picture<'_> {
    fn area(&self, y: f64, height: f64) -> Area {
        Area { x: LEFT_PX, y, width: f64::from(self.width), height }
    }

    fn x_at(&self, ns: i64) -> f64 {
        let whole = self.extent_ns.1.abs_diff(self.extent_ns.0).max(1) as f64;
        let since = ns.clamp(self.extent_ns.0, self.extent_ns.1).abs_diff(self.extent_ns.0) as f64;
        LEFT_PX + since / whole * f64::from(self.width)
    }

    fn plot(&self, y: f64, most: f64) -> Plot<'_> {
        let seconds = self.extent_ns.1.abs_diff(self.extent_ns.0) as f64 / 1e9;
        Plot {
            area: self.area(y, PLOT_PX),
            x: Axis::seconds(seconds),
            y: Axis::linear(0.0, most),
            inks: &self.page.inks,
        }
    }

    /// A heading with names beside a square of their colour to the right, or below it where both have no room; returns where they end.
    fn heading(&self, svg: &mut Svg, y: f64, text: &str, names: &[(&str, &str)]) -> f64 {
        svg.text(LEFT_PX, y + 14.0, " font-size=\"12\" font-weight=\"bold\"", text);
        let width: f64 = names.iter().map(|(name, _)| text_width(name, 11.0) + 30.0).sum();
        // Bold letters are wider.
        let has_room = 1.15 * text_width(text, 12.0) + width < f64::from(self.width);
        let y = if has_room { y + 22.0 } else { y + 38.0 };
        legend(svg, (LEFT_PX + f64::from(self.width), y - 8.0), names);
        y
    }

    /// Tasks and cores as an exact step function, and the cores that tasks hold where one holds more than one.
    fn active(&self, svg: &mut Svg, y: f64) -> f64 {
        let (active, inks) = (&self.analysis.active, &self.page.inks);
        type Value = fn(&ActiveTasks) -> u64;
        let mut lines: Vec<(&str, &str, Value)> =
            vec![("cores", inks.muted, |step| step.cores), ("tasks", inks.groups[0], |step| step.tasks)];
        if active.iter().any(|step| step.held != step.tasks) {
            lines.insert(1, ("cores that tasks hold", inks.groups[1], |step| step.held));
        }
        let names: Vec<(&str, &str)> = lines.iter().map(|(name, ink, _)| (*name, *ink)).collect();
        let y = self.heading(svg, y, "Active tasks", &names);
        let most = lines.iter().flat_map(|(.., value)| active.iter().map(value)).max().unwrap_or(0);
        let plot = self.plot(y, most.max(1) as f64 * 1.1);
        plot.ground(svg, &elapsed, &|tasks| format!("{tasks}"));
        for (_, ink, value) in lines {
            let seconds = |step: &ActiveTasks| step.start_ns.saturating_sub(self.extent_ns.0) as f64 / 1e9;
            let steps: Vec<(f64, f64)> = active.iter().map(|step| (seconds(step), value(step) as f64)).collect();
            plot.steps(svg, &steps, ink);
        }
        plot.area.bottom() + 26.0
    }

    /// Where the time of cores went, in cores.
    fn breakdown(&self, svg: &mut Svg, y: f64) -> f64 {
        let inks = &self.page.inks;
        // Idle cores lie above all.
        let ink = |layer: usize| if layer < LAYERS.len() { inks.groups[layer] } else { inks.grid };
        let mut names: Vec<(&str, &str)> = vec![("idle", inks.grid)];
        names.extend(LAYERS.iter().enumerate().rev().map(|(layer, (name, _))| (*name, ink(layer))));
        let y = self.heading(svg, y, "Time of cores", &names);
        let columns = (self.width / COLUMN_PX).max(1) as usize;
        let breakdown = self.analysis.tasks.breakdown(&self.analysis.active, columns);
        let width_ns = breakdown.width_ns.max(1) as f64;
        let (stack, most) = stacked(&breakdown);
        let plot = self.plot(y, (most / width_ns).max(1.0) * 1.1);
        plot.ground(svg, &elapsed, &rounded);
        let x_of =
            |column: usize| self.x_at(breakdown.start_ns.saturating_add_unsigned(column as u64 * breakdown.width_ns));
        for layer in 0..=LAYERS.len() {
            let mut path = format!("M{} {}", Num(x_of(0)), Num(plot.y_at(0.0)));
            // Writing to a String does not fail.
            for (column, tops) in stack.iter().enumerate() {
                let _ = write!(path, "V{}H{}", Num(plot.y_at(tops[layer + 1] / width_ns)), Num(x_of(column + 1)));
            }
            for (column, tops) in stack.iter().enumerate().rev() {
                let _ = write!(path, "V{}H{}", Num(plot.y_at(tops[layer] / width_ns)), Num(x_of(column)));
            }
            svg.put(format_args!("<path fill=\"{}\" d=\"{path}z\"/>\n", ink(layer)));
        }
        svg.rect(plot.area, &format!(" fill=\"none\" stroke=\"{}\"", inks.frame));
        plot.area.bottom() + 26.0
    }

    /// Peaks of the unified pool by stage and executor, against the room that there was.
    fn memory(&self, svg: &mut Svg, y: f64) -> f64 {
        let names = [("room", self.page.inks.alarm), ("used by an executor in a stage", self.page.inks.groups[0])];
        let title = "Peaks of the unified pool of an executor by stage";
        let (inks, tasks) = (&self.page.inks, self.analysis.tasks);
        let room = self.analysis.pool.room();
        let peaks: Vec<_> = tasks
            .peaks_by_stage()
            .filter(|(_, executor, _)| *executor != "driver" || tasks.executors.iter().any(|one| one.id == "driver"))
            .filter_map(|(id, executor, peaks)| {
                let stage = tasks.stages.get(&id)?;
                Some((stage.extent_ns()?, id, executor, peaks.get("OnHeapUnifiedMemory")?))
            })
            .collect();
        let room = if self.analysis.pool.is_known { room } else { self.analysis.pool.reported.unwrap_or(0) };
        let y = self.heading(svg, y, title, if peaks.is_empty() { &[] } else { &names });
        if peaks.is_empty() {
            let style = format!(" fill=\"{}\"", inks.muted);
            let text =
                "Not sampled, which is not zero: run the application with spark.eventLog.logStageExecutorMetrics=true.";
            svg.text(LEFT_PX, y + 8.0, &style, text);
            return y + 24.0;
        }
        let most = peaks.iter().map(|peak| peak.3).max().unwrap_or(0).max(room);
        const MIB: f64 = 1048576.0;
        let plot = self.plot(y, most as f64 / MIB * 1.1);
        plot.ground(svg, &elapsed, &|mib| format_size((mib * MIB) as u64));
        let room_y = Num(plot.y_at(room as f64 / MIB));
        svg.put(format_args!(
            "<path stroke=\"{}\" stroke-dasharray=\"4 3\" d=\"M{} {room_y}h{}\"/>\n",
            inks.alarm,
            Num(LEFT_PX),
            Num(plot.area.width)
        ));
        for ((start_ns, end_ns), id, executor, bytes) in peaks {
            let (left, right) = (self.x_at(start_ns), self.x_at(end_ns));
            let area =
                Area { x: left, y: plot.y_at(bytes as f64 / MIB) - 1.0, width: (right - left).max(2.0), height: 2.5 };
            svg.rect(area, &format!(" fill=\"{}\"", inks.groups[0]));
            svg.put(format_args!("<g fill-opacity=\"0\">"));
            svg.tip(area, format_args!("stage {}, executor {executor}: {}", id.0, format_size(bytes)));
            svg.put(format_args!("</g>\n"));
        }
        plot.area.bottom() + 30.0
    }
}

/// Spans of queries, jobs or stages (0, 1, 2) in as few rows as they need, with their number where there is room; returns where they end.
pub(crate) fn bars(
    svg: &mut Svg,
    y: f64,
    (name, bars): (&str, &[Bar]),
    kind: usize,
    inks: &Inks,
    x_at: &dyn Fn(i64) -> f64,
) -> f64 {
    if bars.is_empty() {
        return y;
    }
    let ink = inks.groups[[2, 0, 6][kind]];
    let mut bars: Vec<&Bar> = bars.iter().collect();
    bars.sort_by_key(|bar| bar.span_ns);
    let mut ends: Vec<i64> = Vec::new();
    svg.text(LEFT_PX - 8.0, y + 10.0, &format!(" text-anchor=\"end\" fill=\"{}\"", inks.muted), name);
    for bar in bars {
        let row = match ends.iter().position(|end_ns| *end_ns <= bar.span_ns.0) {
            Some(row) => row,
            None if ends.len() < ROWS => {
                ends.push(0);
                ends.len() - 1
            }
            // Those that find no row lie over the last one.
            None => ROWS - 1,
        };
        ends[row] = bar.span_ns.1;
        let (left, right) = (x_at(bar.span_ns.0), x_at(bar.span_ns.1));
        let area = Area { x: left, y: y + row as f64 * (BAR_PX + 2.0), width: (right - left).max(1.0), height: BAR_PX };
        svg.rect(area, &format!(" fill=\"{ink}\" fill-opacity=\"0.35\" stroke=\"{ink}\" stroke-width=\"0.6\""));
        if text_width(&bar.label, 10.0) + 2.0 < area.width {
            svg.text(
                area.x + area.width / 2.0,
                area.bottom() - 3.0,
                " text-anchor=\"middle\" font-size=\"10\"",
                &bar.label,
            );
        }
        svg.put(format_args!("<g fill-opacity=\"0\">"));
        let took = format_duration(bar.span_ns.1.abs_diff(bar.span_ns.0));
        let least = if bar.is_bound { ">=" } else { "" };
        svg.tip(area, format_args!("{} in {least}{took}", shortened(&bar.words, 160)));
        svg.put(format_args!("</g>\n"));
    }
    y + ends.len() as f64 * (BAR_PX + 2.0) + 4.0
}

/// Names beside a square of their colour, to the left of a point.
pub(crate) fn legend(svg: &mut Svg, (right, y): (f64, f64), names: &[(&str, &str)]) {
    let mut x = right;
    for (name, ink) in names {
        x -= text_width(name, 11.0) + 4.0;
        svg.text(x, y, "", name);
        x -= 14.0;
        svg.rect(Area { x, y: y - 9.0, width: 10.0, height: 10.0 }, &format!(" fill=\"{ink}\""));
        x -= 12.0;
    }
}

fn elapsed(seconds: f64) -> String {
    match (seconds * 1e9).round() as u64 {
        0 => "0".into(),
        // Ticks are then whole seconds apart.
        ns @ 60_000_000_000.. => format_elapsed(ns, 1_000_000_000),
        ns => format_duration(ns),
    }
}

/// For each column where the layers end, core-nanoseconds from 0 on, idle cores last; and the highest of all.
fn stacked(breakdown: &Breakdown) -> (Vec<[f64; LAYERS.len() + 2]>, f64) {
    let columns = breakdown.parts.iter().zip(&breakdown.idle).map(|(parts, idle)| {
        let mut tops = [0.0; LAYERS.len() + 2];
        for (layer, (_, of)) in LAYERS.iter().enumerate() {
            tops[layer + 1] = tops[layer] + of.iter().map(|&part| parts[part]).sum::<f64>();
        }
        tops[LAYERS.len() + 1] = tops[LAYERS.len()] + idle;
        tops
    });
    let columns: Vec<_> = columns.collect();
    let most = columns.iter().map(|tops| tops[LAYERS.len() + 1]).fold(0.0, f64::max);
    (columns, most)
}
