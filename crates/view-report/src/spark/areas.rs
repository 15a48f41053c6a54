//! The memory of each executor by area: what it was at most in each stage, on the axis of its tasks.

use super::{LEFT_PX, Picture, elapsed};
use crate::plot::{Axis, Plot};
use crate::svg::{Area, Svg};
use latscope_event::format_size;
use latscope_series::spark::AREAS;
use std::collections::BTreeMap;

const MIB: f64 = 1048576.0;
const HEIGHT_PX: f64 = 60.0;
/// Its place in [`AREAS`].
const RSS: usize = 1;
/// So many executors have a plot of their own.
const EXECUTORS: usize = 6;

/// The greatest value of each area, bytes; `None` was not sampled.
type Peaks = [Option<u64>; AREAS.len()];

/// What was sampled of an executor.
#[derive(Default)]
struct Sampled {
    /// Spans of stages, their number, and the areas.
    stages: Vec<((i64, i64), i64, Peaks)>,
    /// Whether Python workers had memory, so that RSS is a sum of peaks that need not have been at the same time.
    has_python: bool,
    /// Whether its RSS is that of all processes of the cluster, which it started.
    has_cluster: bool,
}

impl Picture<'_> {
    /// Heap, RSS, execution and storage memory of executors; returns where they end. A log has the greatest of each stage.
    pub(super) fn areas(&self, svg: &mut Svg, mut y: f64) -> f64 {
        let tasks = self.analysis.tasks;
        let master = self.page.contexts.first().and_then(|log| log.properties.get("spark.master"));
        let starts_executors = master.is_some_and(|master| master.starts_with("local-cluster"));
        let mut executors: BTreeMap<(bool, usize, &str), Sampled> = BTreeMap::new();
        for (id, executor, peaks) in tasks.peaks_by_stage() {
            let mut areas = peaks.areas();
            let has_cluster = executor == "driver" && starts_executors;
            if has_cluster {
                areas[RSS] = None;
            }
            if let Some(span_ns) = tasks.stages.get(&id).and_then(|stage| stage.extent_ns())
                && areas.iter().any(Option::is_some)
            {
                // 2 before 10, and the driver behind them.
                let name = (executor == "driver", executor.len(), executor);
                let sampled = executors.entry(name).or_default();
                sampled.stages.push((span_ns, id.0, areas));
                sampled.has_cluster = has_cluster;
                sampled.has_python |= peaks.get("ProcessTreePythonRSSMemory").is_some();
            }
        }
        let all = executors.values().flat_map(|sampled| &sampled.stages);
        let most = all.flat_map(|(.., areas)| areas).flatten().max().copied().unwrap_or(1);
        for ((is_driver, _, name), sampled) in executors.iter().take(EXECUTORS) {
            let title = if *is_driver { "the driver".to_string() } else { format!("executor {name}") };
            y = self.areas_of(svg, y, &title, sampled, most as f64 / MIB);
        }
        if executors.len() > EXECUTORS {
            let text = format!(
                "The memory of {} more executors is not drawn; --json has that of all.",
                executors.len() - EXECUTORS
            );
            svg.text(LEFT_PX, y + 4.0, &format!(" fill=\"{}\"", self.page.inks.muted), &text);
            y += 20.0;
        }
        y
    }

    fn areas_of(&self, svg: &mut Svg, y: f64, title: &str, sampled: &Sampled, most: f64) -> f64 {
        let (inks, stages) = (&self.page.inks, &sampled.stages);
        let peak = |area: usize| stages.iter().filter_map(|(.., areas)| areas[area]).max();
        let names = AREAS.iter().enumerate().map(|(area, name)| match peak(area) {
            Some(bytes) if area == RSS && sampled.has_python => {
                format!("RSS at most {} (peaks of JVM and Python added)", format_size(bytes))
            }
            Some(bytes) => format!("{name} at most {}", format_size(bytes)),
            None if area == RSS && sampled.has_cluster => "RSS not shown (it contains the executors)".into(),
            None => format!("{name} not sampled"),
        });
        let names: Vec<String> = names.collect();
        let legend: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(inks.groups).rev().collect();
        let y = self.heading(svg, y, &format!("Memory of {title}, the most in each stage"), &legend);
        let seconds = self.extent_ns.1.abs_diff(self.extent_ns.0) as f64 / 1e9;
        // One scale for all executors, so that they compare.
        let (x, height) = (Axis::seconds(seconds), Axis::linear(0.0, most.max(1e-6) * 1.1));
        let plot = Plot { area: self.area(y, HEIGHT_PX), x, y: height, inks };
        plot.ground(svg, &elapsed, &|mib| format_size((mib * MIB) as u64));
        for ((start_ns, end_ns), stage, areas) in stages {
            let (left, right) = (self.x_at(*start_ns), self.x_at(*end_ns));
            for (area, bytes) in areas.iter().enumerate() {
                let Some(bytes) = *bytes else { continue };
                let top = plot.y_at(bytes as f64 / MIB) - 1.0;
                let line = Area { x: left, y: top, width: (right - left).max(2.0), height: 2.0 };
                svg.rect(line, &format!(" fill=\"{}\"", inks.groups[area]));
                svg.put(format_args!("<g fill-opacity=\"0\">"));
                let words = format!("{title}, stage {stage}: {} {}", AREAS[area], format_size(bytes));
                svg.tip(line, format_args!("{words}"));
                svg.put(format_args!("</g>\n"));
            }
        }
        plot.area.bottom() + 26.0
    }
}
