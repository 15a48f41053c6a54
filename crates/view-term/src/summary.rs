//! A line for each group: how many, how fast, how slow, and what share of all time it took.

use crate::marks::Marks;
use crate::table::{Align, Room, Table, csv_line};
use crate::{Line, caption};
use latscope_event::{
    Context, Field, Note, Wording, format_count, format_duration, format_rate, format_size, format_wall,
};
use latscope_histogram::{Histogram, Rule, Sparse, Totals};
use latscope_series::{Deviation, HistogramSeries, Quantity, Raised, Support, Usage, Used, Waiting, Weight};
use latscope_view::json_text;
use std::collections::BTreeSet;

/// The percentiles of a summary: quantile, title, stem of the key.
const PERCENTILES: [(f64, &str); 5] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];

/// The columns of utilization, saturation and errors.
const USE: [&str; 4] = ["queue", "in flight", "busy", "errors"];

/// A column to sort by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SummaryKey {
    /// By name, ascending; all others put the largest first.
    Group,
    /// Number of events, which is also the order of their rates.
    Count,
    /// Bytes a second.
    Bytes,
    /// Smallest value.
    Min,
    /// Mean.
    Mean,
    /// Standard deviation.
    Deviation,
    /// A percentile, by its place among p50, p90, p99, p99.9, p99.99.
    Percentile(usize),
    /// Largest value.
    Max,
    /// Share of all time.
    #[default]
    Share,
    /// Number of requests that wait.
    Waiting,
    /// Age of the oldest of them.
    Oldest,
    /// Mean wait in the queue.
    Queue,
    /// Mean number in flight.
    InFlight,
    /// Share of the time with any in flight.
    Busy,
    /// Events that failed.
    Errors,
}

impl SummaryKey {
    /// The key of a column's heading; also `group`, and `bytes` and `share`, as the column is called in CSV and JSON.
    pub fn from_name(name: &str) -> Option<SummaryKey> {
        Some(match name {
            "group" => SummaryKey::Group,
            "count" | "rate" => SummaryKey::Count,
            "bytes" | "bytes/s" => SummaryKey::Bytes,
            "min" => SummaryKey::Min,
            "mean" => SummaryKey::Mean,
            "sd" => SummaryKey::Deviation,
            "max" => SummaryKey::Max,
            "share" | "time" => SummaryKey::Share,
            "waiting" => SummaryKey::Waiting,
            "oldest" => SummaryKey::Oldest,
            "queue" => SummaryKey::Queue,
            "in flight" | "in_flight" => SummaryKey::InFlight,
            "busy" => SummaryKey::Busy,
            "errors" => SummaryKey::Errors,
            _ => SummaryKey::Percentile(PERCENTILES.iter().position(|(_, title)| *title == name)?),
        })
    }

    /// Whether the column is one of utilization, saturation and errors.
    pub fn is_use(self) -> bool {
        matches!(self, SummaryKey::Queue | SummaryKey::InFlight | SummaryKey::Busy | SummaryKey::Errors)
    }
}

/// One group, or all.
#[derive(Clone, PartialEq, Debug)]
pub struct SummaryRow {
    /// The values of the group fields.
    pub group: Vec<String>,
    /// Count, sum, minimum and maximum, exact.
    pub totals: Totals,
    /// p50, p90, p99, p99.9 and p99.99, raised by what waits.
    pub percentiles: Vec<Raised<u64>>,
    /// The mean, likewise.
    pub mean: Option<Raised<f64>>,
    /// The standard deviation of what completed.
    pub deviation: Option<Deviation>,
    /// The maximum, likewise.
    pub max: Option<Raised<u64>>,
    /// What still waits.
    pub waiting: Waiting,
    /// Bytes moved, when the series was built with [`Weight::Bytes`] or its histograms have them.
    pub bytes: Option<u64>,
    /// Utilization, saturation and errors, where they were asked for.
    pub used: Option<Used>,
    /// For how long its host was observed, nanoseconds, where that is another time than that of the summary.
    pub observed_ns: Option<u64>,
}

/// For how long a host (or, without a name, all on the average) was observed in this time, nanoseconds, where clocks were set back in it.
fn repeated(context: &Context, host: &str, span_ns: u64) -> Option<u64> {
    let more_ns = context.repeated_ns.get(host)?.values().sum::<u64>();
    Some(span_ns.saturating_add(more_ns))
}

/// The summary of a series.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// The group fields.
    pub by: Vec<Field>,
    /// What the values are.
    pub quantity: Quantity,
    /// What the rates are taken over: the time that the trace covers.
    pub span_ns: u64,
    /// The groups.
    pub rows: Vec<SummaryRow>,
    /// All of them together.
    pub total: SummaryRow,
    /// The disks among the groups, where the trace describes them.
    pub disks: Vec<Disk>,
    /// Whether utilization, saturation and errors are shown.
    pub shows_use: bool,
    /// Start and width of the interval that it is of, where it is not of the whole time, nanoseconds.
    pub interval: Option<(i64, u64)>,
    /// The groups that the total leaves out.
    left_out: BTreeSet<Vec<String>>,
}

impl Summary {
    /// The summary of a series, largest share of time first. Bytes come from a series built with [`Weight::Bytes`].
    pub fn new(series: &HistogramSeries, context: &Context) -> Summary {
        let mut parts: Vec<Vec<&Sparse>> = vec![Vec::new(); series.groups().len()];
        for (group, sparse) in series.slices().values().flat_map(|slice| &slice.groups) {
            parts[*group as usize].push(sparse);
        }
        let weighs_bytes = series.weight == Weight::Bytes;
        let covered = context.span_ns.map(|(from, to)| to.abs_diff(from)).filter(|&span| span > 0);
        let intervals = series.range().map_or(1, |(first, last)| last.abs_diff(first).saturating_add(1));
        let span_ns = covered.unwrap_or_else(|| intervals.saturating_mul(series.width_ns()));
        let mut sum = Histogram::new(series.grid(), series.is_weighted());
        let mut rows = Vec::new();
        for (group, parts) in parts.iter().enumerate().filter(|(_, parts)| !parts.is_empty()) {
            sum.clear();
            parts.iter().for_each(|part| sum.add(part));
            let waiting = series.still_waiting(Some(group as u32));
            let row = SummaryRow::new(series.groups()[group].clone(), &sum, waiting, weighs_bytes);
            let host = series.by.iter().position(|field| *field == Field::Host).map(|at| &row.group[at]);
            let observed_ns = host.and_then(|host| context.observed_ns.get(host)).copied();
            // The sums of hosts have what came again.
            let observed_ns = observed_ns.or_else(|| repeated(context, host.map_or("", String::as_str), span_ns));
            rows.push(SummaryRow { deviation: series.deviation(Some(group as u32)), observed_ns, ..row });
        }
        let counts = counted_once(series, context);
        let left_out = series.groups().iter().zip(&counts).filter(|&(_, counts)| !counts);
        let left_out = left_out.map(|(group, _)| group.clone()).collect();
        let counts = |group: u32| counts.get(group as usize).is_none_or(|&counts| counts);
        let (sum, waiting) = (series.total_among(counts), series.still_waiting_among(counts));
        let total = SummaryRow::new(vec!["total".into()], &sum, waiting, weighs_bytes);
        let total = SummaryRow {
            deviation: series.deviation_among(counts),
            observed_ns: repeated(context, "", span_ns),
            ..total
        };
        let (by, quantity) = (series.by.clone(), series.quantity);
        let disks = Disk::among(&by, &rows, context);
        let mut summary =
            Summary { by, quantity, span_ns, rows, total, disks, shows_use: false, interval: None, left_out };
        summary.sort(SummaryKey::Share);
        summary
    }

    /// The summary of one interval of a series, of which `covered_ns` were observed.
    pub fn of_interval(series: &HistogramSeries, interval: i64, covered_ns: u64, context: &Context) -> Summary {
        let at = series.span_of(interval, None);
        let summary = Summary::new(&series.only(interval), context);
        // Hosts were observed for longer than one interval.
        let covered = |group: &Vec<String>| {
            let number = series.groups().iter().position(|known| known == group).map(|number| number as u32);
            let own_ns = series.covered_of(interval, number);
            (own_ns > covered_ns).then_some(own_ns)
        };
        let row = |row: SummaryRow| SummaryRow { observed_ns: covered(&row.group), ..row };
        let (rows, total) = (summary.rows.into_iter().map(row).collect(), row(summary.total));
        Summary { span_ns: covered_ns.max(1), interval: Some(at), rows, total, ..summary }
    }

    /// Adds utilization, saturation and errors.
    pub fn show_use(&mut self, usage: &Usage) {
        self.shows_use = true;
        self.rows.iter_mut().for_each(|row| row.used = usage.used(&row.group, self.span_ns));
        self.total.used = Some(usage.total_without(&self.left_out, self.span_ns));
    }

    /// Puts the rows in the order of a column.
    pub fn sort(&mut self, key: SummaryKey) {
        self.rows.sort_by(|a, b| a.group.cmp(&b.group));
        let value = |row: &SummaryRow| -> f64 {
            match key {
                SummaryKey::Group => 0.0,
                SummaryKey::Count => row.totals.count as f64,
                SummaryKey::Bytes => row.bytes.unwrap_or(0) as f64,
                SummaryKey::Min => row.totals.min as f64,
                SummaryKey::Mean => row.mean.map_or(0.0, |mean| mean.value),
                SummaryKey::Deviation => row.deviation.map_or(0.0, |deviation| deviation.value),
                SummaryKey::Percentile(at) => row.percentiles.get(at).map_or(0.0, |at| at.value as f64),
                SummaryKey::Max => row.max.map_or(0.0, |max| max.value as f64),
                SummaryKey::Share => row.time() as f64,
                SummaryKey::Waiting => row.waiting.count() as f64,
                SummaryKey::Oldest => row.waiting.oldest_ns().unwrap_or(0) as f64,
                SummaryKey::Queue => row.used.as_ref().and_then(Used::queue_of_most).unwrap_or(0.0),
                SummaryKey::InFlight => row.used.as_ref().map_or(0.0, |used| used.in_flight),
                SummaryKey::Busy => row.used.as_ref().map_or(0.0, |used| used.busy),
                SummaryKey::Errors => row.used.as_ref().and_then(|used| used.errors).unwrap_or(0) as f64,
            }
        };
        self.rows.sort_by(|a, b| value(b).total_cmp(&value(a)));
    }

    /// The summary as a table. A percentile with fewer than ten events beyond it has a question mark.
    pub fn lines(&self, context: &Context, wording: Wording, filter: &str, room: impl Into<Room>) -> Vec<Line> {
        let room = room.into();
        let columns = room.texts;
        let what = format!(
            "{} in {}, {}",
            caption::events(self.total.totals.count),
            format_duration(self.span_ns),
            self.quantity.word()
        );
        let mut lines = caption::head(&what, context, filter, columns);
        lines.extend(self.table(room));
        lines.extend(self.disks.iter().flat_map(|disk| crate::cell::wrap(&disk.line(), columns)));
        lines.extend(caption::foot(context, wording, columns));
        lines
    }

    /// The heading of an interval and its table.
    pub fn interval_lines(&self, context: &Context, room: Room) -> Vec<Line> {
        let (start_ns, width_ns) = self.interval.unwrap_or((0, self.span_ns));
        let moment = match context.clock.to_unix_ns {
            Some(to_unix_ns) => format_wall(start_ns.saturating_add(to_unix_ns), 0, false),
            None => {
                let axis_start_ns = context.axis_start_ns(Some(start_ns), width_ns);
                format!("+{}", format_duration(start_ns.saturating_sub(axis_start_ns).max(0).unsigned_abs()))
            }
        };
        let events = caption::events(self.total.totals.count);
        let mut lines =
            crate::cell::wrap(&format!("{moment}, {}: {events}", format_duration(self.span_ns)), room.texts);
        lines.extend(self.table(room));
        lines.push(Line::default());
        lines
    }

    fn table(&self, room: Room) -> Vec<Line> {
        let columns = room.texts;
        let mut lines = Vec::new();
        let names: Vec<&str> = self.by.iter().map(|field| field.name()).collect();
        let numbers = ["count", "rate", "bytes/s", "min", "mean", "sd"].into_iter();
        let numbers = numbers.chain(PERCENTILES.map(|(_, title)| title)).chain(["max", self.share_title()]);
        let numbers = numbers.chain(USE.into_iter().filter(|_| self.shows_use));
        let waits = self.total.waiting.count() > 0;
        let numbers = numbers.chain(["waiting", "oldest"].into_iter().filter(|_| waits));
        let texts = if names.is_empty() { vec![""] } else { names };
        let mut table = Table::new(
            texts.iter().map(|&title| (title, Align::Left)).chain(numbers.map(|title| (title, Align::Right))),
        );
        let mut doubtful = false;
        for row in self.rows.iter().filter(|_| !self.by.is_empty()).chain([&self.total]) {
            let mut group = row.group.clone();
            group.resize(texts.len(), String::new());
            group.extend(self.texts(row, &mut doubtful));
            group.extend(use_texts(row.used.as_ref()).into_iter().filter(|_| self.shows_use));
            if waits {
                group.push(format_count(row.waiting.count()));
                let bound = if row.waiting.oldest_is_bound() { ">=" } else { "" };
                let oldest =
                    row.waiting.oldest_ns().map_or("-".into(), |age_ns| format!("{bound}{}", format_duration(age_ns)));
                group.push(oldest);
            }
            table.push(group);
        }
        lines.push(table.heading(room.tables));
        lines.extend(table.take_lines(room.tables));
        let raised = self.has_bounds();
        lines.extend(Marks { few: doubtful, raised, ..Marks::default() }.key(columns));
        let queued = self.total.used.as_ref().filter(|used| used.queued > 0 && used.queued < used.events);
        if let Some(Used { queued, events, .. }) = queued {
            let (queued, events) = (format_count(*queued), format_count(*events));
            let key = format!("queue: mean of the {queued} of {events} events that have one; - where most have none");
            lines.extend(crate::cell::wrap(&key, columns));
        }
        lines
    }

    /// Whether a value is a lower bound since requests wait.
    fn has_bounds(&self) -> bool {
        let is_bound = |row: &SummaryRow| {
            let percentiles = row.percentiles.iter().any(|percentile| percentile.at_least);
            let most = row.mean.is_some_and(|mean| mean.at_least) || row.max.is_some_and(|max| max.at_least);
            percentiles || most || row.waiting.oldest_is_bound()
        };
        self.rows.iter().filter(|_| !self.by.is_empty()).chain([&self.total]).any(is_bound)
    }

    fn share_title(&self) -> &'static str {
        if self.quantity.is_bytes() { "share" } else { "time" }
    }

    fn texts(&self, row: &SummaryRow, doubtful: &mut bool) -> Vec<String> {
        let value = |value: u64| if self.quantity.is_bytes() { format_size(value) } else { format_duration(value) };
        let count = row.totals.count;
        let mut texts = vec![
            format_count(count),
            format_rate(self.per_second(row, count)),
            row.bytes.map_or("-".into(), |bytes| format_size(self.per_second(row, bytes) as u64)),
        ];
        let bound = |at_least: bool| if at_least { ">=" } else { "" };
        texts.push(if count > 0 { value(row.totals.min) } else { "-".into() });
        let mean = |mean: Raised<f64>| format!("{}{}", bound(mean.at_least), value(mean.value.round() as u64));
        texts.push(row.mean.map_or("-".into(), mean));
        // From buckets it is not exact.
        let about = |deviation: Deviation| if deviation.is_exact { "" } else { "~" };
        let deviation = |deviation: Deviation| format!("{}{}", about(deviation), value(deviation.value.round() as u64));
        texts.push(row.deviation.map_or("-".into(), deviation));
        for (at, (quantile, _)) in row.percentiles.iter().zip(PERCENTILES) {
            let support = Support::new(quantile, row.known());
            *doubtful |= support == Support::Few;
            texts.push(format!("{}{}{}", bound(at.at_least), value(at.value), support.mark()));
        }
        texts.resize(6 + PERCENTILES.len(), "-".into());
        texts.push(row.max.map_or("-".into(), |max| format!("{}{}", bound(max.at_least), value(max.value))));
        texts.push(format!("{:.1}%", 100.0 * self.share(row)));
        texts
    }

    fn per_second(&self, row: &SummaryRow, count: u64) -> f64 {
        count as f64 * 1e9 / row.observed_ns.unwrap_or(self.span_ns).max(1) as f64
    }

    fn share(&self, row: &SummaryRow) -> f64 {
        let total = self.total.time();
        if total == 0 { 0.0 } else { row.time() as f64 / total as f64 }
    }

    /// Names and numbers in base units: nanoseconds or bytes, events and bytes per second, shares from 0 to 1.
    fn numbers(&self, row: &SummaryRow) -> Vec<(String, Option<String>)> {
        let unit = if self.quantity.is_bytes() { "bytes" } else { "ns" };
        let some = |value: u64| (row.totals.count > 0).then(|| value.to_string());
        let mut numbers = vec![
            ("count".into(), Some(row.totals.count.to_string())),
            ("rate_per_s".into(), Some(self.per_second(row, row.totals.count).to_string())),
            ("bytes_per_s".into(), row.bytes.map(|bytes| self.per_second(row, bytes).to_string())),
            (format!("sum_{unit}"), Some(row.totals.sum.to_string())),
            (format!("min_{unit}"), some(row.totals.min)),
            (format!("mean_{unit}"), row.mean.map(|mean| mean.value.to_string())),
            (format!("sd_{unit}"), row.deviation.map(|deviation| deviation.value.to_string())),
            ("sd_exact".into(), row.deviation.map(|deviation| deviation.is_exact.to_string())),
        ];
        let mut bounds: Vec<&str> = row.mean.filter(|mean| mean.at_least).map(|_| "mean").into_iter().collect();
        for (at, (_, title)) in PERCENTILES.iter().enumerate() {
            let value = row.percentiles.get(at);
            bounds.extend(value.filter(|value| value.at_least).map(|_| *title));
            numbers.push((format!("{}_{unit}", title.replace('.', "_")), value.map(|value| value.value.to_string())));
        }
        bounds.extend(row.max.filter(|max| max.at_least).map(|_| "max"));
        numbers.push((format!("max_{unit}"), row.max.map(|max| max.value.to_string())));
        numbers.push(("share".into(), Some(self.share(row).to_string())));
        if self.shows_use {
            let used = row.used.as_ref();
            let queue_ns = used.and_then(|used| used.mean_queue_ns).map(|queue_ns| queue_ns.to_string());
            numbers.push(("mean_queue_ns".into(), queue_ns));
            numbers.push(("queued".into(), used.map(|used| used.queued.to_string())));
            numbers.push(("in_flight".into(), used.map(|used| used.in_flight.to_string())));
            numbers.push(("busy".into(), used.map(|used| used.busy.to_string())));
            numbers.push(("errors".into(), used.and_then(|used| used.errors).map(|errors| errors.to_string())));
            bounds.extend(used.filter(|used| used.busy_at_least).map(|_| "busy"));
        }
        bounds.extend(row.waiting.oldest_is_bound().then_some("oldest"));
        numbers.push(("waiting".into(), Some(row.waiting.count().to_string())));
        numbers.push(("oldest_ns".into(), row.waiting.oldest_ns().map(|age_ns| age_ns.to_string())));
        numbers.push(("at_least".into(), Some(bounds.join(" "))));
        numbers.push(("trusted_p".into(), Some(Support::trusted_percentile(row.known()).to_string())));
        numbers
    }

    /// The groups as CSV with a heading; a missing number is empty. Without group fields there is one line, the total.
    pub fn csv(&self) -> String {
        let numbers = self.numbers(&self.total);
        let names = self.by.iter().map(|field| field.name());
        let of_interval = ["time_ns", "width_ns"].into_iter().filter(|_| self.interval.is_some());
        csv_line(of_interval.chain(names).chain(numbers.iter().map(|(key, _)| key.as_str()))) + &self.csv_rows()
    }

    /// The same without the heading.
    pub fn csv_rows(&self) -> String {
        let of_interval = self.interval.map(|(start_ns, width_ns)| [start_ns.to_string(), width_ns.to_string()]);
        let of_interval: Vec<String> = of_interval.into_iter().flatten().collect();
        let line = |row: &SummaryRow| {
            let numbers = self.numbers(row);
            let group = row.group.iter().take(self.by.len()).map(String::as_str);
            let numbers = numbers.iter().map(|(_, value)| value.as_deref().unwrap_or(""));
            csv_line(of_interval.iter().map(String::as_str).chain(group).chain(numbers))
        };
        self.shown().map(line).collect()
    }

    /// The summary as a JSON object: `time_ns` and `width_ns` of an interval, `span_ns`, `groups` (a list, keys as in CSV) and `total`.
    pub fn json(&self) -> String {
        let object = |row: &SummaryRow, named: bool| {
            let texts = self.by.iter().zip(&row.group).filter(|_| named);
            let texts = texts.map(|(field, value)| format!("\"{}\":{}", field.name(), json_text(value)));
            let numbers = self.numbers(row).into_iter();
            let numbers = numbers.map(|(key, value)| match (key.as_str(), value) {
                ("at_least", Some(value)) => format!("\"{key}\":{}", json_text(&value)),
                (_, value) => format!("\"{key}\":{}", value.as_deref().unwrap_or("null")),
            });
            format!("{{{}}}", texts.chain(numbers).collect::<Vec<_>>().join(","))
        };
        let groups: Vec<String> = self.rows.iter().map(|row| object(row, true)).collect();
        let interval =
            self.interval.map(|(start_ns, width_ns)| format!("\"time_ns\":{start_ns},\"width_ns\":{width_ns},"));
        format!(
            "{{{}\"span_ns\":{},\"groups\":[{}],\"total\":{}{}}}\n",
            interval.unwrap_or_default(),
            self.span_ns,
            groups.join(","),
            object(&self.total, false),
            self.disks_json()
        )
    }

    fn disks_json(&self) -> String {
        if self.disks.is_empty() {
            return String::new();
        }
        let disk = |disk: &Disk| {
            let model = disk.model.as_deref().map_or("null".into(), json_text);
            let rotational = disk.is_rotational.map_or("null".into(), |is_rotational| is_rotational.to_string());
            format!("{}:{{\"model\":{model},\"rotational\":{rotational}}}", json_text(&disk.name))
        };
        format!(",\"disks\":{{{}}}", self.disks.iter().map(disk).collect::<Vec<_>>().join(","))
    }

    fn shown(&self) -> impl Iterator<Item = &SummaryRow> {
        let total = self.by.is_empty().then_some(&self.total);
        self.rows.iter().filter(|_| !self.by.is_empty()).chain(total)
    }
}

/// Which groups the total adds up: where devices pass their requests on to others of the trace, only those below, as each request
/// is an event of both.
fn counted_once(series: &HistogramSeries, context: &Context) -> Vec<bool> {
    let stacked = context.notes.iter().filter_map(|note| match note {
        Note::StackedDevices { devices, numbers, .. } => Some(devices.iter().chain(numbers)),
        _ => None,
    });
    let upper: BTreeSet<&String> = stacked.flatten().collect();
    let fields = || series.by.iter().enumerate().filter(|(_, field)| matches!(field, Field::Device | Field::Dev));
    let is_upper = |group: &Vec<String>| fields().any(|(at, _)| upper.contains(&group[at]));
    let counts: Vec<bool> = series.groups().iter().map(|group| !is_upper(group)).collect();
    // A filter may have left nothing but the upper ones.
    if counts.contains(&true) { counts } else { vec![true; counts.len()] }
}

impl SummaryRow {
    fn new(group: Vec<String>, sum: &Histogram, waiting: Waiting, weighs_bytes: bool) -> SummaryRow {
        let completed = sum.to_sparse();
        let percentiles = waiting.quantiles(&completed, &PERCENTILES.map(|(quantile, _)| quantile), Rule::Interpolated);
        let bytes = sum.buckets().fold(0u64, |bytes, (_, _, weight)| bytes.saturating_add(weight));
        SummaryRow {
            group,
            totals: *sum.totals(),
            percentiles: percentiles.unwrap_or_default(),
            mean: waiting.mean(&completed),
            max: waiting.max(&completed),
            deviation: None,
            waiting,
            bytes: if weighs_bytes { Some(bytes) } else { sum.totals().bytes },
            used: None,
            observed_ns: None,
        }
    }

    /// What the share is taken of: the values of all events, and the ages of what waits.
    fn time(&self) -> u128 {
        self.waiting.bounds_ns().fold(self.totals.sum, |sum, age_ns| sum.saturating_add(u128::from(age_ns)))
    }

    /// Events that the percentiles come from, those among them that wait.
    fn known(&self) -> f64 {
        (self.totals.count + self.waiting.bounds_ns().count() as u64) as f64
    }
}

/// What a trace records of a disk.
#[derive(Clone, PartialEq, Debug)]
pub struct Disk {
    /// Its name, as the groups have it.
    pub name: String,
    /// What it calls itself.
    pub model: Option<String>,
    /// Whether it rotates.
    pub is_rotational: Option<bool>,
}

impl Disk {
    fn among(by: &[Field], rows: &[SummaryRow], context: &Context) -> Vec<Disk> {
        let Some(at) = by.iter().position(|&field| field == Field::Device) else { return Vec::new() };
        let names: BTreeSet<&String> = rows.iter().filter_map(|row| row.group.get(at)).collect();
        let disks = names.into_iter().map(|name| (name, context.disk(name)));
        let disks = disks.filter(|(_, (model, is_rotational))| model.is_some() || is_rotational.is_some());
        disks
            .map(|(name, (model, is_rotational))| {
                let model = model.map(str::to_string);
                Disk { name: name.clone(), model, is_rotational }
            })
            .collect()
    }

    fn line(&self) -> String {
        let kind = self.is_rotational.map(|is_rotational| if is_rotational { "rotational" } else { "not rotational" });
        let parts: Vec<&str> = self.model.as_deref().into_iter().chain(kind).collect();
        format!("disk: {}: {}", self.name, parts.join(", "))
    }
}

fn use_texts(used: Option<&Used>) -> [String; 4] {
    let text = |text: Option<String>| text.unwrap_or("-".into());
    let bound = |used: &Used| if used.busy_at_least { ">=" } else { "" };
    let queue_ns = used.and_then(Used::queue_of_most);
    [
        text(queue_ns.map(|queue_ns| format_duration(queue_ns.round() as u64))),
        text(used.map(|used| format!("{:.2}", used.in_flight))),
        text(used.map(|used| format!("{}{:.1}%", bound(used), 100.0 * used.busy))),
        text(used.and_then(|used| used.errors).map(format_count)),
    ]
}
