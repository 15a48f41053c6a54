//! Remote-write of Prometheus, versions 1 and 2: native histograms, or classic and decimal buckets as plain numbers.

use super::metrics::{Distribution, Kind, Labels, METRICS, Metric, Reading, Value};
use super::prometheus::{ZERO_THRESHOLD, cumulated, edges};
use super::protobuf::Message;
use super::split::{spans, vmrange_label};
use std::collections::{BTreeMap, HashMap};

/// The number that means "the series ends".
pub const STALE: u64 = 0x7ff0_0000_0000_0002;
/// A histogram that may fall.
const GAUGE: u64 = 3;

/// The time of a value and since when it counts, both milliseconds since the epoch, and the value.
pub type Point = (i64, i64, Value);

/// Series with their values by time, milliseconds since the epoch: what is sent at once.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Batch {
    series: BTreeMap<(usize, Labels), Vec<Point>>,
}

impl Batch {
    /// Adds a value. Times of a series ascend; a second value of a time is left out.
    pub fn add(&mut self, time_ms: i64, reading: Reading) {
        let points = self.series.entry((reading.metric, reading.labels)).or_default();
        if points.last().is_none_or(|&(last_ms, ..)| last_ms < time_ms) {
            points.push((time_ms, reading.created_ms, reading.value));
        }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.series.values().map(Vec::len).sum()
    }

    /// Metrics, labels, and values with their time and since when they count.
    pub fn series(&self) -> impl Iterator<Item = (&'static Metric, &Labels, &[Point])> {
        let known = self.series.iter().filter_map(|(series, points)| Some((METRICS.get(series.0)?, series, points)));
        known.map(|(metric, series, points)| (metric, &series.1, &points[..]))
    }

    /// Batches of at most so many series each.
    pub fn parts(self, most: usize) -> Vec<Batch> {
        let mut parts = vec![Batch::default()];
        for (series, points) in self.series {
            if parts.last().is_some_and(|part| part.series.len() >= most) {
                parts.push(Batch::default());
            }
            if let Some(part) = parts.last_mut() {
                part.series.insert(series, points);
            }
        }
        parts
    }
}

/// How histograms are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Native ones.
    Native,
    /// Buckets with `le`.
    Classic,
    /// Buckets with `vmrange`.
    Vmrange,
}

/// A series as it is sent: its labels with the name, plain numbers and histograms.
struct Series {
    metric: &'static Metric,
    labels: Labels,
    numbers: Vec<(i64, u64)>,
    histograms: Vec<Message>,
}

/// A request, compressed. Headers are [`headers`].
pub fn encode(batch: &Batch, version: u8, shape: Shape) -> Vec<u8> {
    let series = batch.series().flat_map(|(metric, labels, points)| match (metric.kind, shape) {
        (Kind::Histogram | Kind::GaugeHistogram, Shape::Native) => vec![native(metric, labels, points, version)],
        (Kind::Histogram | Kind::GaugeHistogram, shape) => plain_histogram(metric, labels, points, shape),
        _ => vec![numbers(metric, labels, points)],
    });
    let message = if version == 2 { second(series) } else { first(series) };
    snap::raw::Encoder::new().compress_vec(message.bytes()).unwrap_or_default()
}

/// The headers of a request.
pub fn headers(version: u8) -> [(&'static str, &'static str); 3] {
    let (kind, number) = match version {
        2 => ("application/x-protobuf;proto=io.prometheus.write.v2.Request", "2.0.0"),
        _ => ("application/x-protobuf", "0.1.0"),
    };
    [("Content-Type", kind), ("Content-Encoding", "snappy"), ("X-Prometheus-Remote-Write-Version", number)]
}

fn named(name: &str, labels: &Labels, more: Option<(&str, &str)>) -> Labels {
    let mut labels = labels.clone();
    labels.push(("__name__".into(), name.into()));
    labels.extend(more.map(|(name, value)| (name.to_string(), value.to_string())));
    labels.sort();
    labels
}

fn numbers(metric: &'static Metric, labels: &Labels, points: &[Point]) -> Series {
    let bits = |value: &Value| match value {
        Value::Number(number) => number.to_bits(),
        _ => STALE,
    };
    let numbers = points.iter().map(|(time_ms, _, value)| (*time_ms, bits(value))).collect();
    Series { metric, labels: named(metric.name, labels, None), numbers, histograms: Vec::new() }
}

fn native(metric: &'static Metric, labels: &Labels, points: &[Point], version: u8) -> Series {
    let histogram = |(time_ms, created_ms, value): &Point| {
        let mut message = Message::default();
        let is_gauge = metric.kind == Kind::GaugeHistogram;
        match value {
            Value::Distribution(distribution) => native_message(&mut message, distribution),
            _ => {
                message.uint(1, 0);
                message.fixed(3, STALE);
            }
        }
        if is_gauge {
            message.uint(14, GAUGE);
        }
        message.uint(15, *time_ms as u64);
        if version == 2 && !is_gauge {
            message.uint(17, *created_ms as u64);
        }
        message
    };
    let histograms = points.iter().map(histogram).collect();
    Series { metric, labels: named(metric.name, labels, None), numbers: Vec::new(), histograms }
}

fn native_message(message: &mut Message, distribution: &Distribution) {
    message.uint(1, distribution.count);
    message.double(3, distribution.sum_seconds());
    message.sint(4, distribution.schema.into());
    message.double(5, ZERO_THRESHOLD);
    let (mut spans, deltas) = spans(&distribution.exponential);
    if spans.is_empty() {
        spans.push((0, 0));
    }
    for (offset, length) in spans {
        message.message(11, |span| {
            span.sint(1, offset);
            span.uint(2, length);
        });
    }
    message.sints(12, deltas.into_iter());
}

/// Series of plain numbers, one for each bucket.
fn plain_histogram(metric: &'static Metric, labels: &Labels, points: &[Point], shape: Shape) -> Vec<Series> {
    let edges = edges();
    let mut all = BTreeMap::<Labels, Vec<(i64, u64)>>::new();
    let (bucket, sum, count) =
        (format!("{}_bucket", metric.name), format!("{}_sum", metric.name), format!("{}_count", metric.name));
    let inf = ("le", "+Inf");
    for (time_ms, _, value) in points {
        let mut put = |name: &str, more: Option<(&str, &str)>, bits: u64| {
            all.entry(named(name, labels, more)).or_default().push((*time_ms, bits));
        };
        let Value::Distribution(distribution) = value else {
            put(&sum, None, STALE);
            put(&count, None, STALE);
            if shape == Shape::Classic {
                let edges = edges.iter().map(|edge| ("le", edge.as_str()));
                edges.chain([inf]).for_each(|edge| put(&bucket, Some(edge), STALE));
            }
            continue;
        };
        put(&sum, None, distribution.sum_seconds().to_bits());
        put(&count, None, (distribution.count as f64).to_bits());
        match shape {
            Shape::Vmrange => {
                for &(index, count) in &distribution.vmrange {
                    put(&bucket, Some(("vmrange", &vmrange_label(index))), (count as f64).to_bits());
                }
            }
            _ => {
                for (edge, count) in edges.iter().zip(cumulated(&distribution.le, edges.len())) {
                    put(&bucket, Some(("le", edge)), (count as f64).to_bits());
                }
                put(&bucket, Some(inf), (distribution.count as f64).to_bits());
            }
        }
    }
    let series = |(labels, numbers)| Series { metric, labels, numbers, histograms: Vec::new() };
    all.into_iter().map(series).collect()
}

/// `prometheus.WriteRequest`.
fn first(all: impl Iterator<Item = Series>) -> Message {
    let mut request = Message::default();
    for series in all {
        request.message(1, |message| {
            for (name, value) in &series.labels {
                message.message(1, |label| {
                    label.text(1, name);
                    label.text(2, value);
                });
            }
            put_points(message, &series, 4);
        });
    }
    request
}

/// `io.prometheus.write.v2.Request`.
fn second(all: impl Iterator<Item = Series>) -> Message {
    let (mut symbols, mut numbers) = (vec![String::new()], HashMap::from([(String::new(), 0)]));
    let mut number = |text: &str| -> u64 {
        if let Some(&number) = numbers.get(text) {
            return number;
        }
        symbols.push(text.to_string());
        numbers.insert(text.to_string(), symbols.len() as u64 - 1);
        symbols.len() as u64 - 1
    };
    let mut written = Vec::new();
    for series in all {
        let mut message = Message::default();
        let references: Vec<u64> =
            series.labels.iter().flat_map(|(name, value)| [number(name), number(value)]).collect();
        message.uints(1, references.into_iter());
        put_points(&mut message, &series, 3);
        let kind = match (series.metric.kind, series.histograms.is_empty()) {
            (Kind::Counter, _) => 1,
            (Kind::Gauge, _) => 2,
            (Kind::Histogram, _) => 3,
            (Kind::GaugeHistogram, _) => 4,
        };
        let (help, unit) = (number(series.metric.help), number(series.metric.unit));
        message.message(5, |metadata| {
            metadata.uint(1, kind);
            metadata.uint(3, help);
            metadata.uint(4, unit);
        });
        written.push(message);
    }
    let mut request = Message::default();
    symbols.iter().for_each(|symbol| request.text(4, symbol));
    written.iter().for_each(|message| request.raw(5, message.bytes()));
    request
}

fn put_points(message: &mut Message, series: &Series, histograms: u32) {
    for &(time_ms, bits) in &series.numbers {
        message.message(2, |sample| {
            sample.fixed(1, bits);
            sample.uint(2, time_ms as u64);
        });
    }
    series.histograms.iter().for_each(|histogram| message.raw(histograms, histogram.bytes()));
}
