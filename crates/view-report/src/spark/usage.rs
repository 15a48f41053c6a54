//! What the control groups of executors counted, on the axis of their tasks.

use super::{LEFT_PX, Picture, elapsed};
use crate::plot::{Axis, Plot, rounded};
use crate::svg::{Num, Svg};
use latscope_event::format_size;
use latscope_series::spark::{ExecutorUsage, Usage};

const MIB: f64 = 1048576.0;
const HEIGHT_PX: f64 = 100.0;
/// So many executors have a line of their own.
const LINES: usize = 6;

/// Values over time: seconds since the start of the picture, and the value from then on.
type Steps = Vec<(f64, f64)>;
/// What is drawn of an executor.
type Series<'a> = &'a dyn Fn(&ExecutorUsage) -> Steps;
/// The words of a value on an axis.
type Label<'a> = &'a dyn Fn(f64) -> String;

impl Picture<'_> {
    /// CPU, memory, block I/O and network of each control group; returns where they end.
    pub(super) fn usage(&self, svg: &mut Svg, mut y: f64) -> f64 {
        let usage = &self.analysis.tasks.usage;
        if usage.is_empty() {
            return y;
        }
        let inks = &self.page.inks;
        let cores: Label<'_> = &rounded;
        let size: Label<'_> = &|mib| format_size((mib * MIB) as u64);
        let per_second: Label<'_> = &|mib| format!("{}MiB/s", (mib * 1000.0).round() / 1000.0);
        let kept = usage.iter().flat_map(|(_, of)| of.steps(Usage::ThrottledTime)).any(|(_, more)| more > 0);
        let panels: [(&str, Series<'_>, Label<'_>); 4] = [
            ("CPU of the control group of an executor, cores", &|of| self.rates(of, &[Usage::Cpu], 1e9), cores),
            ("Memory of the control group", &|of| self.values(of, Usage::Memory), size),
            ("Block devices, read and written", &|of| self.rates(of, &[Usage::Read, Usage::Written], MIB), per_second),
            (
                "Network of its namespace, received, sent and loopback",
                &|of| self.rates(of, &[Usage::Received, Usage::Sent, Usage::Loopback], MIB),
                per_second,
            ),
        ];
        for (at, (title, series, label)) in panels.into_iter().enumerate() {
            let mut lines: Vec<(Steps, &str)> = Vec::new();
            let mut names: Vec<(String, &str)> = Vec::new();
            for (number, (executor, of)) in usage.iter().enumerate().take(LINES) {
                lines.push((series(of), inks.groups[number]));
                names.push((format!("executor {executor}"), inks.groups[number]));
            }
            if at == 0 && kept {
                let most = usage.iter().max_by_key(|(_, of)| of.throttled().map_or(0, |(some, _)| some));
                lines.extend(most.map(|(_, of)| (self.rates(of, &[Usage::ThrottledTime], 1e9), inks.alarm)));
                names.extend(
                    most.map(|(name, _)| (format!("kept from running by its quota, executor {name}"), inks.alarm)),
                );
            }
            let legend: Vec<(&str, &str)> = names.iter().rev().map(|(name, ink)| (name.as_str(), *ink)).collect();
            // What no group counts has no picture, which would look like zero.
            if lines.iter().all(|(steps, _)| steps.is_empty()) {
                continue;
            }
            y = self.heading(svg, y, title, &legend);
            let most = lines.iter().flat_map(|(steps, _)| steps).map(|(_, value)| *value).fold(0.0, f64::max);
            let seconds = self.extent_ns.1.abs_diff(self.extent_ns.0) as f64 / 1e9;
            let area = crate::svg::Area { height: HEIGHT_PX, ..self.area(y, HEIGHT_PX) };
            let top = if most > 0.0 { most * 1.1 } else { 1.0 };
            let plot = Plot { area, x: Axis::seconds(seconds), y: Axis::linear(0.0, top), inks };
            plot.ground(svg, &elapsed, label);
            if at == 1 {
                self.limit(svg, &plot, top * MIB);
            }
            lines.iter().filter(|(steps, _)| !steps.is_empty()).for_each(|(steps, ink)| plot.steps(svg, steps, ink));
            y = area.bottom() + 26.0;
        }
        y
    }

    /// The least limit of memory, where it is not far above what was used.
    fn limit(&self, svg: &mut Svg, plot: &Plot, most: f64) {
        let usage = &self.analysis.tasks.usage;
        let Some(limit) = usage.iter().filter_map(|(_, of)| of.most(Usage::MemoryLimit)).min() else { return };
        let y = plot.y_at(limit as f64 / MIB);
        if (limit as f64) < most {
            svg.put(format_args!(
                "<path stroke=\"{}\" stroke-dasharray=\"4 3\" d=\"M{} {}h{}\"><title>limit {}</title></path>\n",
                self.page.inks.alarm,
                Num(LEFT_PX),
                Num(y),
                Num(plot.area.width),
                format_size(limit)
            ));
        }
    }

    fn seconds(&self, time_ns: i64) -> f64 {
        let time_ns = time_ns.clamp(self.extent_ns.0, self.extent_ns.1);
        time_ns.saturating_sub(self.extent_ns.0) as f64 / 1e9
    }

    /// How fast counters grow together, in so much a second.
    fn rates(&self, of: &ExecutorUsage, counters: &[Usage], unit: f64) -> Steps {
        let mut points: Steps = Vec::new();
        for pair in of.samples.windows(2) {
            let more = counters
                .iter()
                .filter_map(|&of| pair[1].values[of as usize]?.checked_sub(pair[0].values[of as usize]?))
                .reduce(u64::saturating_add);
            let Some(more) = more else { continue };
            let took = pair[1].time_ns.abs_diff(pair[0].time_ns).max(1) as f64 / 1e9;
            points.push((self.seconds(pair[0].time_ns), more as f64 / unit / took));
        }
        let last = of.samples.last().map(|sample| self.seconds(sample.time_ns)).zip(points.last().map(|point| point.1));
        points.extend(last);
        points
    }

    fn values(&self, of: &ExecutorUsage, gauge: Usage) -> Steps {
        let point = |sample: &latscope_series::spark::UsageSample| {
            Some((self.seconds(sample.time_ns), sample.values[gauge as usize]? as f64 / MIB))
        };
        of.samples.iter().filter_map(point).collect()
    }
}
