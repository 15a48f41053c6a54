//! The output of ioping 1.3: a line for each request, raw lines, JSON, and the summary.

use super::amount::{count, rate, size, speed, time};
use super::meter::{Meter, Percentile, Window};
use super::stats::{Class, Stats};
use crate::plan::PingShow;
use latscope_capture_probe::{Operation, Place, Probe, Sample};
use latscope_event::{format_strftime, printable};
use latscope_series::Support;
use latscope_view::json_text;
use std::fmt::Write;

/// Writes what happens at one target.
pub struct Lines {
    show: PingShow,
    /// JSON gives more than ioping's.
    more: bool,
    path: String,
    /// Behind the path: `(ext4 /dev/vda 252.0 GiB)`.
    place: String,
    json_target: String,
    size: u64,
    moved: &'static str,
    burst: u64,
    start_unix_ns: i64,
}

/// One JSON array of all targets, or an object a line.
#[derive(Default)]
pub struct Json {
    lines: bool,
    started: bool,
}

impl Json {
    pub fn new(lines: bool) -> Json {
        Json { lines, started: false }
    }

    /// An object, of whose members the text behind `from` in `out` is made.
    fn object(&mut self, from: usize, out: &mut String) {
        if self.lines {
            // A text in JSON has no line break in it, so those that are there are ours.
            let members: String = out[from..].lines().map(str::trim_start).collect();
            out.truncate(from);
            let _ = writeln!(out, "{{{members}}}");
        } else {
            out.insert_str(from, if self.started { "},{\n" } else { "[{\n" });
            self.started = true;
        }
    }

    /// Ends the array.
    pub fn end(&self, out: &mut String) {
        if !self.lines {
            out.push_str(if self.started { "}]\n" } else { "[]\n" });
        }
    }
}

impl Lines {
    pub fn new(probe: &Probe, place: &Place, show: &PingShow, start_unix_ns: i64, more: bool) -> Lines {
        let path = probe.target.to_string_lossy().into_owned();
        let described = match place.fstype.as_str() {
            kind @ ("block" | "character") => format!("({kind} device {})", size(place.size as f64)),
            fstype => format!("({fstype} {} {})", place.device, size(place.size as f64)),
        };
        let json_target = format!(
            "  \"target\": {{\n    \"path\": {},\n    \"fstype\": {},\n    \"device\": {},\n    \"device_size\": {}\n  }},\n",
            json_text(&path),
            json_text(&place.fstype),
            json_text(&place.device),
            place.size
        );
        Lines {
            show: show.clone(),
            more,
            path: printable(&path).into_owned(),
            place: printable(&described).into_owned(),
            json_target,
            size: probe.work.size,
            moved: match probe.work.operation {
                Operation::Read => " read",
                Operation::Write => " written",
                Operation::Alternate => "",
            },
            burst: probe.pace.burst,
            start_unix_ns,
        }
    }

    /// The target as it was typed.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether every request is shown.
    pub fn shows_requests(&self) -> bool {
        !self.show.quiet
    }

    /// One request.
    pub fn request(&self, sample: &Sample, number: u64, class: Class, json: &mut Json, out: &mut String) {
        let end_ns = self.start_unix_ns + sample.completed_ns as i64;
        let moved = u64::from(sample.result.max(0) as u32);
        if self.show.json {
            let from = out.len();
            self.head(end_ns, out);
            let operation = if sample.write { "write" } else { "read" };
            let _ = write!(out, "  \"io\": {{\n    \"request\": {number},\n    \"operation\": \"{operation}\",\n");
            if self.more {
                let _ = writeln!(out, "    \"offset\": {},", sample.offset);
            }
            let (ns, ignored) = (sample.latency_ns(), !class.is_valid());
            let _ = write!(out, "    \"size\": {moved},\n    \"time\": {ns},\n    \"ignored\": {ignored}");
            if self.more {
                self.more_of(sample, class, out);
            }
            out.push_str("\n  }\n");
            json.object(from, out);
            return;
        }
        self.time_of_day(end_ns, out);
        let arrow = if sample.write { ">>>" } else { "<<<" };
        let (moved, took) = (size(moved as f64), time(sample.latency_ns() as f64));
        let _ = write!(out, "{moved} {arrow} {} {}: request={number} time={took}", self.path, self.place);
        if let Some(word) = class.word() {
            let _ = write!(out, " ({word})");
        }
        if self.more {
            self.remarks(sample, out);
        }
        out.push('\n');
        if self.burst > 0 && number.is_multiple_of(self.burst) {
            out.push('\n');
        }
    }

    /// What a line gives beyond ioping's.
    fn remarks(&self, sample: &Sample, out: &mut String) {
        if sample.cpu_wait_ns != Sample::UNKNOWN && u64::from(sample.cpu_wait_ns) * 10 > sample.service_ns() {
            let _ = write!(out, " (waited {} for a CPU)", time(f64::from(sample.cpu_wait_ns)));
        }
        if sample.cached == Some(true) {
            out.push_str(" (from memory)");
        }
        if sample.lag_ns() > sample.latency_ns() / 10 {
            let _ = write!(out, " (made {} late)", time(sample.lag_ns() as f64));
        }
    }

    fn more_of(&self, sample: &Sample, class: Class, out: &mut String) {
        if let Some(word) = class.word() {
            let _ = write!(out, ",\n    \"notice\": \"{word}\"");
        }
        if sample.lag_ns() > 0 {
            let _ = write!(out, ",\n    \"lag\": {}", sample.lag_ns());
        }
        if sample.cpu_wait_ns != Sample::UNKNOWN {
            let _ = write!(out, ",\n    \"cpu_wait\": {}", sample.cpu_wait_ns);
        }
        if let Some(cached) = sample.cached {
            let _ = write!(out, ",\n    \"cached\": {cached}");
        }
    }

    /// A window, or all of the run.
    pub fn statistics(&self, window: &Window, meter: Option<&Meter>, json: &mut Json, out: &mut String) {
        let Window { stats, open, until_ns, wall_ns } = window;
        let all = stats.raised(open);
        if !self.show.json {
            let bytes = stats.iops() * self.size as f64;
            let [avg, mdev] = [all.avg_ns(), all.mdev_ns()];
            let Stats { count, sum_ns, load, .. } = stats;
            let Stats { min_ns, max_ns, .. } = all;
            let iops = stats.iops();
            let _ = writeln!(
                out,
                "{count} {sum_ns} {iops:.0} {bytes:.0} {min_ns} {avg:.0} {max_ns} {mdev:.0} {load} {wall_ns}"
            );
            return;
        }
        let from = out.len();
        self.head(self.start_unix_ns + *until_ns as i64, out);
        let part = |out: &mut String, count: u64, ns: u64, iops: f64| {
            let bytes = count * self.size;
            let _ = write!(out, "    \"count\": {count},\n    \"size\": {bytes},\n    \"time\": {ns},\n");
            let _ = write!(out, "    \"iops\": {iops:.6},\n    \"bps\": {:.0}", iops * self.size as f64);
        };
        out.push_str("  \"stat\": {\n");
        part(out, stats.count, stats.sum_ns, stats.iops());
        let [min, avg, max, mdev] = [all.min_ns as f64, all.avg_ns(), all.max_ns as f64, all.mdev_ns()];
        let _ = write!(
            out,
            ",\n    \"min\": {min:.0},\n    \"avg\": {avg:.0},\n    \"max\": {max:.0},\n    \"mdev\": {mdev:.0}"
        );
        if let Some(meter) = meter.filter(|_| self.more) {
            let percentiles = meter.percentiles();
            for Percentile { name, ns, .. } in &percentiles {
                let value = ns.map_or("null".into(), |ns| ns.to_string());
                let _ = write!(out, ",\n    \"{name}\": {value}");
            }
            let trusted = Support::trusted_percentile(meter.requests() as f64);
            let _ = write!(out, ",\n    \"trusted_p\": {trusted}");
        }
        if self.more && open.count > 0 {
            let _ = write!(out, ",\n    \"waiting\": {},\n    \"oldest\": {}", open.count, open.max_ns);
        }
        out.push_str("\n  },\n  \"load\": {\n");
        part(out, stats.load, *wall_ns, per_second(stats.load, *wall_ns));
        if self.more {
            let _ = write!(out, ",\n    \"failed\": {}", stats.failed);
        }
        out.push_str("\n  }\n");
        json.object(from, out);
    }

    /// The last three lines.
    pub fn summary(&self, total: &Window, out: &mut String) {
        let stats = &total.stats;
        let (moved, bytes) = (stats.count * self.size, stats.load * self.size);
        let iops = stats.iops();
        let _ = writeln!(out, "\n--- {} {} ioping statistics ---", self.path, self.place);
        let _ = writeln!(
            out,
            "{} requests completed in {}, {}{}, {} iops, {}",
            count(stats.count as f64),
            time(stats.sum_ns as f64),
            size(moved as f64),
            self.moved,
            rate(iops),
            speed(iops * self.size as f64)
        );
        for (left_out, word) in [(stats.too_fast, "too fast"), (stats.too_slow, "too slow")] {
            if left_out > 0 {
                let _ = write!(out, "{} {word}, ", count(left_out as f64));
            }
        }
        let load = per_second(stats.load, total.wall_ns);
        let _ = writeln!(
            out,
            "generated {} requests in {}, {}, {} iops, {}",
            count(stats.load as f64),
            time(total.wall_ns as f64),
            size(bytes as f64),
            rate(load),
            speed(load * self.size as f64)
        );
        let _ = writeln!(out, "min/avg/max/mdev = {}", extremes(total).join(" / "));
    }

    fn head(&self, unix_ns: i64, out: &mut String) {
        let local = format_strftime(unix_ns, "%Y-%m-%dT%H:%M:%S%z").unwrap_or_default();
        let (seconds, micros) = (unix_ns.div_euclid(1_000_000_000), unix_ns.rem_euclid(1_000_000_000) / 1000);
        let _ = write!(out, "  \"timestamp\": {seconds}.{micros:06},\n  \"localtime\": \"{local}\",\n");
        out.push_str(&self.json_target);
    }

    fn time_of_day(&self, unix_ns: i64, out: &mut String) {
        if let Some(format) = &self.show.time_format {
            // A format that means nothing prints as it is.
            let time_text = format_strftime(unix_ns, format).unwrap_or_else(|| format.clone());
            let _ = write!(out, "{} ", printable(&time_text));
        }
    }
}

/// Minimum, mean, maximum and deviation; requests that are not done count with the time that they have waited, and `>=` says
/// of what that makes a lower bound.
pub fn extremes(window: &Window) -> [String; 4] {
    let all = window.stats.raised(&window.open);
    let bound = |is_bound: bool, ns: f64| format!("{}{}", if is_bound { ">=" } else { "" }, time(ns));
    [
        bound(all.min_ns != window.stats.min_ns, all.min_ns as f64),
        bound(all.count != window.stats.count, all.avg_ns()),
        bound(all.max_ns != window.stats.max_ns, all.max_ns as f64),
        time(all.mdev_ns()),
    ]
}

fn per_second(count: u64, wall_ns: u64) -> f64 {
    if wall_ns == 0 { 0.0 } else { count as f64 * 1e9 / wall_ns as f64 }
}
