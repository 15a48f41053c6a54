//! OpenTelemetry over HTTP: exponential histograms, cumulative or as differences.

use super::delta::{self, Previous};
use super::metrics::{Distribution, Kind, Labels, Metric, Value};
use super::protobuf::Message;
use super::remote_write::Batch;
use std::borrow::Cow;

/// The header of a request beside its length.
pub const HEADERS: [(&str, &str); 1] = [("Content-Type", "application/x-protobuf")];

const DELTA: u64 = 1;
const CUMULATIVE: u64 = 2;

/// A point as it is sent.
struct Point<'a> {
    labels: &'a Labels,
    start_ms: i64,
    time_ms: i64,
    value: PointValue<'a>,
}

enum PointValue<'a> {
    Number(f64),
    Distribution(Cow<'a, Distribution>),
    Ended,
}

/// `ExportMetricsServiceRequest` with the last value of each series; with `previous`, the differences since it, else since the start.
pub fn encode(batch: &Batch, mut previous: Option<&mut Previous>) -> Vec<u8> {
    let mut metrics: Vec<(&'static Metric, Vec<Point>)> = Vec::new();
    for (metric, labels, points) in batch.series() {
        let Some((time_ms, created_ms, value)) = points.last() else { continue };
        // There is no such gauge, and receivers of running totals take no others.
        if metric.kind == Kind::GaugeHistogram && previous.is_none() {
            continue;
        }
        let mut point = Point { labels, start_ms: *created_ms, time_ms: *time_ms, value: PointValue::Ended };
        match (value, &mut previous) {
            (Value::Number(number), _) => point.value = PointValue::Number(*number),
            (Value::Distribution(_), Some(previous)) if metric.kind == Kind::Histogram => {
                let Some(all) = delta::merged(previous.added(metric.name, labels, points)) else { continue };
                point.start_ms = all.start_ms;
                point.value = PointValue::Distribution(all.added);
            }
            (Value::Distribution(distribution), _) => {
                point.value = PointValue::Distribution(Cow::Borrowed(distribution))
            }
            (Value::Ended, _) => {}
        }
        match metrics.last_mut() {
            Some((last, points)) if *last == metric => points.push(point),
            _ => metrics.push((metric, vec![point])),
        }
    }
    let is_delta = previous.is_some();
    let mut request = Message::default();
    request.message(1, |resource_metrics| {
        resource_metrics.message(1, |resource| resource.message(1, |pair| attribute(pair, "service.name", "latscope")));
        resource_metrics.message(2, |scope_metrics| {
            scope_metrics.message(1, |scope| {
                scope.text(1, "latscope");
                scope.text(2, env!("CARGO_PKG_VERSION"));
            });
            for (metric, points) in &metrics {
                scope_metrics.message(2, |message| put_metric(message, metric, points, is_delta));
            }
        });
    });
    request.into_bytes()
}

fn put_metric(message: &mut Message, metric: &Metric, points: &[Point], is_delta: bool) {
    message.text(1, metric.dotted);
    message.text(2, metric.help);
    let unit = match metric.unit {
        "seconds" => "s",
        "bytes" => "By",
        _ => "1",
    };
    message.text(3, unit);
    match metric.kind {
        Kind::Gauge => message.message(5, |gauge| points.iter().for_each(|point| put_point(gauge, point, true))),
        Kind::Counter => message.message(7, |sum| {
            points.iter().for_each(|point| put_point(sum, point, true));
            sum.uint(2, CUMULATIVE);
            sum.uint(3, 1);
        }),
        Kind::Histogram => message.message(10, |histogram| {
            points.iter().for_each(|point| put_point(histogram, point, false));
            histogram.uint(2, if is_delta { DELTA } else { CUMULATIVE });
        }),
        // The ages of each moment, as counts of their own.
        Kind::GaugeHistogram => message.message(10, |histogram| {
            points.iter().for_each(|point| put_point(histogram, point, false));
            histogram.uint(2, DELTA);
        }),
    }
}

fn put_point(message: &mut Message, point: &Point, is_number: bool) {
    message.message(1, |data| {
        let (attributes, flags) = if is_number { (7, 8) } else { (1, 10) };
        for (name, value) in point.labels {
            let name = match name.as_str() {
                "device" => "system.device",
                "kind" => "disk.io.direction",
                "host" => "host.name",
                name => name,
            };
            data.message(attributes, |pair| attribute(pair, name, value));
        }
        data.fixed(2, point.start_ms as u64 * 1_000_000);
        data.fixed(3, point.time_ms as u64 * 1_000_000);
        match &point.value {
            PointValue::Number(number) => data.double(4, *number),
            PointValue::Distribution(distribution) => put_buckets(data, distribution),
            // "No recorded value".
            PointValue::Ended => data.uint(flags, 1),
        }
    });
}

fn put_buckets(data: &mut Message, distribution: &Distribution) {
    data.fixed(4, distribution.count);
    data.double(5, distribution.sum_seconds());
    data.sint(6, distribution.schema.into());
    data.fixed(7, 0);
    let Some((&(start, _), &(end, _))) = distribution.exponential.first().zip(distribution.exponential.last()) else {
        return;
    };
    let mut counts = vec![0; (end - start) as usize + 1];
    distribution.exponential.iter().for_each(|&(index, count)| counts[(index - start) as usize] = count);
    data.message(8, |buckets| {
        // Counted from the lower edge here.
        buckets.sint(1, i64::from(start) - 1);
        buckets.uints(2, counts.into_iter());
    });
}

fn attribute(message: &mut Message, name: &str, value: &str) {
    message.text(1, name);
    message.message(2, |any| any.text(1, value));
}
