//! What Prometheus scrapes: protocol buffers with native and classic buckets, text 0.0.4, and OpenMetrics.

use super::metrics::{Buckets, Distribution, Kind, METRICS, Metric, Reading, Value, decimal_seconds};
use super::protobuf::Message;
use super::split::{Edges, spans};
use std::fmt::Write;

/// Half of the width of the bucket around zero, where nothing is counted: the usual one.
pub const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

/// How an answer is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// Length-delimited messages.
    Protobuf,
    /// Version 0.0.4.
    Text,
    /// Version 1.0.0.
    OpenMetrics,
}

impl Encoding {
    /// What the header `Accept` asks for, in our order of preference.
    pub fn accepted(accept: &str) -> Encoding {
        if accept.contains("application/vnd.google.protobuf") {
            Encoding::Protobuf
        } else if accept.contains("application/openmetrics-text") {
            Encoding::OpenMetrics
        } else {
            Encoding::Text
        }
    }

    /// For the header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Encoding::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
            Encoding::Text => "text/plain; version=0.0.4; charset=utf-8",
            Encoding::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Readings as an answer; they are ordered by metric and have exponential buckets and those of `le`.
    pub fn encode(self, readings: &[Reading]) -> Vec<u8> {
        let families = readings.chunk_by(|one, other| one.metric == other.metric);
        let families = families.filter_map(|family| Some((METRICS.get(family.first()?.metric)?, family)));
        match self {
            Encoding::Protobuf => {
                let mut out = Vec::new();
                families.for_each(|(metric, family)| protobuf(metric, family).delimited(&mut out));
                out
            }
            Encoding::Text | Encoding::OpenMetrics => {
                let mut text = Text { out: String::new(), is_open: self == Encoding::OpenMetrics, edges: edges() };
                families.for_each(|(metric, family)| text.family(metric, family));
                if text.is_open {
                    text.out.push_str("# EOF\n");
                }
                text.out.into_bytes()
            }
        }
    }
}

/// The upper edges of all classic buckets but the last, as seconds.
pub fn edges() -> Vec<String> {
    let edges = Edges::le();
    edges.uppers().iter().filter(|&&upper| upper < u64::MAX).map(|&upper| decimal_seconds(upper)).collect()
}

/// Counts up to each edge, from those between edges.
pub fn cumulated(buckets: &Buckets, edges: usize) -> Vec<u64> {
    let mut counts = vec![0; edges];
    for &(place, count) in buckets {
        if let Some(counted) = counts.get_mut(place as usize) {
            *counted += count;
        }
    }
    counts
        .iter()
        .scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
        .collect()
}

fn protobuf(metric: &Metric, family: &[Reading]) -> Message {
    let mut message = Message::default();
    message.text(1, metric.name);
    message.text(2, metric.help);
    let kind = match metric.kind {
        Kind::Counter => 0,
        Kind::Gauge => 1,
        Kind::Histogram => 4,
        Kind::GaugeHistogram => 5,
    };
    message.uint(3, kind);
    for reading in family.iter().filter(|reading| reading.value != Value::Ended) {
        message.message(4, |series| {
            for (name, value) in &reading.labels {
                series.message(1, |label| {
                    label.text(1, name);
                    label.text(2, value);
                });
            }
            match &reading.value {
                Value::Number(number) if metric.kind == Kind::Counter => series.message(3, |counter| {
                    counter.double(1, *number);
                    counter.message(3, |time| timestamp(time, reading.created_ms));
                }),
                Value::Number(number) => series.message(2, |gauge| gauge.double(1, *number)),
                Value::Distribution(distribution) => series.message(7, |histogram| {
                    histogram_message(histogram, distribution);
                    if metric.kind == Kind::Histogram {
                        histogram.message(15, |time| timestamp(time, reading.created_ms));
                    }
                }),
                Value::Ended => {}
            }
        });
    }
    message
}

fn timestamp(message: &mut Message, time_ms: i64) {
    message.uint(1, time_ms.div_euclid(1000) as u64);
    message.uint(2, time_ms.rem_euclid(1000) as u64 * 1_000_000);
}

fn histogram_message(message: &mut Message, distribution: &Distribution) {
    message.uint(1, distribution.count);
    message.double(2, distribution.sum_seconds());
    let edges = Edges::le();
    let inner = &edges.uppers()[..edges.uppers().len() - 1];
    let counts = cumulated(&distribution.le, inner.len());
    for (&upper, count) in inner.iter().zip(counts) {
        message.message(3, |bucket| {
            bucket.uint(1, count);
            bucket.double(2, upper as f64 / 1e9);
        });
    }
    message.sint(5, distribution.schema.into());
    message.double(6, ZERO_THRESHOLD);
    message.uint(7, 0);
    let (mut spans, deltas) = spans(&distribution.exponential);
    if spans.is_empty() {
        // Without any it would be taken for a classic histogram.
        spans.push((0, 0));
    }
    for (offset, length) in spans {
        message.message(12, |span| {
            span.sint(1, offset);
            span.uint(2, length);
        });
    }
    message.sints(13, deltas.into_iter());
}

/// Text of either version.
struct Text {
    out: String,
    is_open: bool,
    edges: Vec<String>,
}

impl Text {
    fn family(&mut self, metric: &Metric, family: &[Reading]) {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::GaugeHistogram if self.is_open => "gaugehistogram",
            // The older version has no such type, and no histogram can fall.
            Kind::GaugeHistogram => return,
        };
        let name = if self.is_open { metric.name.trim_end_matches("_total") } else { metric.name };
        let _ = writeln!(self.out, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help);
        if self.is_open && !metric.unit.is_empty() {
            let _ = writeln!(self.out, "# UNIT {name} {}", metric.unit);
        }
        for reading in family {
            let labels = &reading.labels;
            match &reading.value {
                Value::Number(number) => self.sample(metric.name, labels, None, number),
                Value::Distribution(distribution) => self.histogram(metric, labels, distribution),
                Value::Ended => continue,
            }
            if self.is_open && matches!(metric.kind, Kind::Counter | Kind::Histogram) {
                let seconds = reading.created_ms as f64 / 1e3;
                self.sample(&format!("{name}_created"), labels, None, &seconds);
            }
        }
    }

    fn histogram(&mut self, metric: &Metric, labels: &[(String, String)], distribution: &Distribution) {
        let bucket = format!("{}_bucket", metric.name);
        let counts = cumulated(&distribution.le, self.edges.len());
        let edges = std::mem::take(&mut self.edges);
        for (edge, count) in edges.iter().zip(counts) {
            self.sample(&bucket, labels, Some(("le", edge)), &count);
        }
        self.edges = edges;
        self.sample(&bucket, labels, Some(("le", "+Inf")), &distribution.count);
        let [sum, count] = if metric.kind == Kind::GaugeHistogram { ["gsum", "gcount"] } else { ["sum", "count"] };
        self.sample(&format!("{}_{sum}", metric.name), labels, None, &distribution.sum_seconds());
        self.sample(&format!("{}_{count}", metric.name), labels, None, &distribution.count);
    }

    fn sample(
        &mut self,
        name: &str,
        labels: &[(String, String)],
        more: Option<(&str, &str)>,
        value: &dyn std::fmt::Display,
    ) {
        self.out.push_str(name);
        let labels = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(more);
        let mut separator = '{';
        for (name, value) in labels {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.out, "{separator}{name}=\"{value}\"");
            separator = ',';
        }
        if separator == ',' {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::metrics::Layouts;
    use super::super::totals::{Totals, tests::closed};
    use super::*;

    fn readings() -> Vec<Reading> {
        let mut totals = Totals::new(&[("host".into(), "a\"b".into())], 1_000);
        totals.add(&closed(1, false, &[1000, 2000, 1_500_000]), &mut |_, _| ());
        totals.readings(2_000, Layouts { exponential: true, le: true, vmrange: false })
    }

    #[test]
    fn text_has_cumulated_buckets() {
        let text = String::from_utf8(Encoding::accepted("text/plain").encode(&readings())).unwrap();
        let labels = r#"device="sda",host="a\"b",kind="read""#;
        for (edge, count) in
            [("0.000001023", 1), ("0.000001535", 1), ("0.000002047", 2), ("0.001572863", 3), ("+Inf", 3)]
        {
            let line = format!("latscope_io_latency_seconds_bucket{{{labels},le=\"{edge}\"}} {count}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
        assert!(text.contains(&format!("latscope_io_latency_seconds_sum{{{labels}}} 0.001503\n")), "{text}");
        assert!(text.contains("latscope_hub_hosts{host=\"a\\\"b\"} 1\n"), "{text}");
        assert!(!text.contains("waiting") && !text.contains("# EOF"));
    }

    #[test]
    fn open_metrics_have_what_the_standard_asks_for() {
        let text = String::from_utf8(Encoding::accepted("application/openmetrics-text").encode(&readings())).unwrap();
        assert!(text.ends_with("# EOF\n"));
        assert!(text.contains("# UNIT latscope_io_latency_seconds seconds\n"));
        assert!(text.contains("# TYPE latscope_hub_late_intervals counter\n"));
        assert!(text.contains("latscope_io_latency_seconds_created{") && text.contains("_gcount{"));
    }

    #[test]
    fn edges_are_exact_decimals() {
        let edges = edges();
        assert_eq!((edges.len(), edges[0].as_str(), edges[52].as_str()), (53, "0.000001023", "68.719476735"));
        assert_eq!(decimal_seconds(2_000_000_000), "2");
    }
}
