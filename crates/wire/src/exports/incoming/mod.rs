//! Histograms that others push: OpenTelemetry and remote-write, added to what a hub merges.

mod classic;
mod difference;
pub mod otlp;
mod place;
mod refused;
pub mod remote_write;

use crate::cluster::AHEAD_NS;
use crate::{Hub, Malformed, clock};
use classic::{Classics, Part};
use difference::Differences;
use place::Places;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use refused::{Reasons, Refused};

/// How often it is reported what is not taken.
const REPORT: Duration = Duration::from_secs(10);

/// Most histograms of a request.
const POINTS_LIMIT: usize = 20_000;
/// Most buckets of a histogram.
const BUCKETS_LIMIT: usize = 4096;

/// How the numbers of a histogram change over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nature {
    /// Since a start.
    Cumulative,
    /// Since the one before.
    Delta,
    /// What is there now.
    Gauge,
}

/// Where the edges of buckets are.
#[derive(Clone, PartialEq, Debug)]
pub enum Layout {
    /// Exponential, by the indices of Prometheus.
    Exponential {
        /// `2^schema` buckets to the octave.
        schema: i8,
        /// Half the width of the bucket around zero, in the unit of the values.
        zero_threshold: f64,
    },
    /// Up to each of these, and above.
    Explicit(Vec<f64>),
}

/// A histogram at a time, as it was pushed.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// The name of its metric.
    pub name: String,
    /// Its labels or attributes, also those of its resource.
    pub labels: BTreeMap<String, String>,
    /// Nanoseconds in a unit of its values.
    pub unit_ns: f64,
    /// Since when it counts, nanoseconds since the epoch.
    pub start_ns: Option<i64>,
    /// When it was, nanoseconds since the epoch.
    pub time_ns: i64,
    /// How it changes.
    pub nature: Nature,
    /// Where its edges are.
    pub layout: Layout,
    /// Counts of the buckets; the one around zero is not among them.
    pub buckets: BTreeMap<i32, u64>,
    /// Count of the bucket around zero.
    pub zero: u64,
    /// How many values it has; more than its buckets where some are no numbers.
    pub count: u64,
    /// Their sum, in its unit.
    pub sum: Option<f64>,
    /// Smallest and largest value, in its unit, where they are known.
    pub limits: Option<(f64, f64)>,
    /// The series ends; there is no value.
    pub is_end: bool,
}

impl Default for Point {
    fn default() -> Point {
        Point {
            name: String::new(),
            labels: BTreeMap::new(),
            unit_ns: 1e9,
            start_ns: None,
            time_ns: 0,
            nature: Nature::Cumulative,
            layout: Layout::Explicit(Vec::new()),
            buckets: BTreeMap::new(),
            zero: 0,
            count: 0,
            sum: None,
            limits: None,
            is_end: false,
        }
    }
}

/// What is in a request.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Decoded {
    /// Histograms of latencies.
    pub points: Vec<Point>,
    /// Buckets and sums of classic histograms.
    pub parts: Vec<Part>,
    /// What else it has, and what cannot be read.
    pub refused: Reasons,
}

/// What became of a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Histograms that were taken, also those that add nothing: the first of a running total, or one that was known.
    pub taken: u64,
    /// Histograms and other values that were not.
    pub refused: Reasons,
}

/// Takes what others push, for a hub.
pub struct Receiver<'a> {
    hub: &'a Hub,
    known: Mutex<(Classics, Differences, Places)>,
    report: &'a (dyn Fn(String) + Sync),
    unreported: Mutex<Unreported>,
}

/// What was not taken and is still to be reported.
#[derive(Default)]
struct Unreported {
    reasons: Reasons,
    reported: Option<Instant>,
}

impl<'a> Receiver<'a> {
    /// For a hub; reports now and then what is not taken.
    pub fn new(hub: &'a Hub, report: &'a (dyn Fn(String) + Sync)) -> Receiver<'a> {
        Receiver { hub, known: Mutex::default(), report, unreported: Mutex::default() }
    }

    /// Takes an `ExportMetricsServiceRequest`.
    ///
    /// # Errors
    /// When it is malformed; then nothing is taken.
    pub fn otlp(&self, body: &[u8]) -> Result<Received, Malformed> {
        self.read(otlp::decode(body))
    }

    /// Takes a request of remote-write, of version 1 or 2, compressed as it comes.
    ///
    /// # Errors
    /// When it is malformed; then nothing is taken.
    pub fn remote_write(&self, body: &[u8], version: u8) -> Result<Received, Malformed> {
        self.read(remote_write::decode(body, version))
    }

    fn read(&self, decoded: Result<Decoded, Malformed>) -> Result<Received, Malformed> {
        let received = decoded.map(|decoded| self.receive(decoded));
        match &received {
            Ok(received) => self.report(&received.refused),
            Err(malformed) => {
                let mut reasons = Reasons::default();
                reasons.add(Refused::Malformed(*malformed), 1);
                self.report(&reasons);
            }
        }
        received
    }

    fn receive(&self, decoded: Decoded) -> Received {
        let mut guard = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (classics, differences, places) = &mut *guard;
        let mut received = Received { taken: 0, refused: decoded.refused };
        let classic = classics.join(decoded.parts, &mut received.refused);
        let (oldest_ns, ahead_ns) = (self.hub.oldest_ns(), clock::now_ns().saturating_add(AHEAD_NS));
        for point in decoded.points.into_iter().chain(classic) {
            let added = match point.time_ns {
                time_ns if time_ns > ahead_ns => Err(Refused::Ahead),
                time_ns if time_ns < oldest_ns => Err(Refused::Old),
                _ => differences.added(point),
            };
            let placed = added.and_then(|added| match added {
                Some(point) => places.add(self.hub, &point, oldest_ns),
                None => Ok(true),
            });
            match placed {
                Ok(is_all) => {
                    received.taken += 1;
                    received.refused.add(Refused::Cut, u64::from(!is_all));
                }
                Err(why) => received.refused.add(why, 1),
            }
        }
        for why in places.send(self.hub) {
            (self.report)(format!("not all was added: {why}"));
        }
        received
    }

    fn report(&self, reasons: &Reasons) {
        let mut unreported = self.unreported.lock().unwrap_or_else(PoisonError::into_inner);
        unreported.reasons.merge(reasons);
        if unreported.reported.is_some() {
            // What is of another kind comes all the time.
            unreported.reasons.remove(Refused::Other);
        }
        if unreported.reasons.is_empty() || unreported.reported.is_some_and(|at| at.elapsed() < REPORT) {
            return;
        }
        unreported.reported = Some(Instant::now());
        let reasons = std::mem::take(&mut unreported.reasons);
        drop(unreported);
        (self.report)(reasons.to_string());
    }
}

/// Whether a metric has latencies.
fn is_latency(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["latency", "duration", "waiting"].iter().any(|word| name.contains(word))
}

/// Nanoseconds in the unit that a name ends with; seconds where it does not name one.
fn unit_ns(name: &str) -> f64 {
    let units = [
        ("_milliseconds", 1e6),
        ("_ms", 1e6),
        ("_microseconds", 1e3),
        ("_us", 1e3),
        ("_nanoseconds", 1.0),
        ("_ns", 1.0),
    ];
    units.iter().find(|(ending, _)| name.ends_with(ending)).map_or(1e9, |&(_, unit_ns)| unit_ns)
}

#[cfg(test)]
mod receiver_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message that was made by another program.
    fn golden(name: &str) -> Vec<u8> {
        let path = format!("{}/../../testdata/wire/goldens.txt", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let hex = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap().as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16).unwrap() as u8;
        hex.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
    }

    fn written(name: &str, version: u8) -> Decoded {
        let packed = snap::raw::Encoder::new().compress_vec(&golden(name)).unwrap();
        remote_write::decode(&packed, version).unwrap()
    }

    fn telemetry(name: &str) -> Point {
        let mut decoded = otlp::decode(&golden(name)).unwrap();
        assert_eq!((decoded.points.len(), decoded.refused.count()), (1, 0));
        decoded.points.remove(0)
    }

    fn buckets(point: &Point) -> Vec<(i32, u64)> {
        point.buckets.iter().map(|(&index, &count)| (index, count)).collect()
    }

    const TIME_NS: i64 = 1_700_000_000_000_000_000;

    #[test]
    fn remote_write_is_read() {
        let decoded = written("remote_write_v1", 1);
        let point = &decoded.points[0];
        assert_eq!((decoded.points.len(), point.count, point.time_ns), (1, 1000, TIME_NS));
        assert_eq!(point.layout, Layout::Exponential { schema: 3, zero_threshold: 1e-9 });
        let found = buckets(point);
        assert_eq!((found[0], found[found.len() - 1]), ((-113, 1), (-39, 1)));
        assert_eq!(found.iter().map(|(_, count)| count).sum::<u64>(), 1000);
        // The same histogram by another protocol.
        assert_eq!(buckets(&telemetry("otlp_exponential_histogram")), found);
        assert!(written("rw1_stale", 1).points[0].is_end);
        assert_eq!(written("rw1_gauge", 1).points[0].nature, Nature::Gauge);
        let float = written("rw1_float", 1);
        assert_eq!((float.points.len(), float.refused.to_string()), (0, format!("1: {}", Refused::Fraction)));
        let custom = &written("rw1_nhcb", 1).points[0];
        assert_eq!(
            (&custom.layout, buckets(custom)),
            (&Layout::Explicit(vec![0.0, 0.001, 0.01]), vec![(1, 4), (3, 2)])
        );
        let fifteen = written("rw1_fifteen", 1);
        let counts: Vec<u64> = fifteen.points.iter().map(|point| point.count).collect();
        assert_eq!(counts, (0..15).map(|at| 3 * at + 1).collect::<Vec<_>>());
        for name in ["rw2_rc3", "rw2_rc4"] {
            let point = &written(name, 2).points[0];
            assert_eq!(
                (point.start_ns, buckets(point)),
                (Some(TIME_NS - 60_000_000_000), vec![(-80, 3), (-79, 5), (-60, 1)])
            );
            assert_eq!(
                (point.name.as_str(), point.labels["device"].as_str()),
                ("latscope_io_latency_seconds", "nvme0n1")
            );
        }
    }

    #[test]
    fn open_telemetry_is_read() {
        let point = telemetry("otlp_delta_scale20");
        let labels = ["host.name", "system.device", "disk.io.direction"].map(|name| point.labels[name].as_str());
        assert_eq!((labels, point.nature, point.count), (["n1", "nvme0n1", "read"], Nature::Delta, 4));
        assert_eq!(point.layout, Layout::Exponential { schema: 8, zero_threshold: 0.0 });
        assert_eq!(point.limits, Some((0.0009935, 0.0009936)));
        let point = telemetry("otlp_cumulative_scale3_zero");
        assert_eq!((point.zero, point.count, buckets(&point)), (2, 10, vec![(-80, 3), (-79, 5)]));
        let point = telemetry("otlp_explicit");
        assert_eq!(
            (&point.layout, buckets(&point)),
            (&Layout::Explicit(vec![0.001, 0.01]), vec![(0, 1), (1, 4), (2, 2)])
        );
        assert!(telemetry("otlp_no_recorded_value").is_end);
    }

    /// Behind two resources as one, a length that is not there.
    #[test]
    fn the_points_of_what_is_damaged_are_counted() {
        let message = golden("otlp_explicit");
        let mut fields = super::super::protobuf::Fields(&message);
        let resource = fields.next().unwrap().unwrap().1.bytes().unwrap().to_vec();
        let damaged = [&resource[..], &resource, &[0x0a, 5]].concat();
        let packed = |bytes: &[u8]| {
            let mut out = vec![0x0a];
            crate::varint::put(&mut out, bytes.len() as u64);
            [&out[..], bytes].concat()
        };
        let decoded = otlp::decode(&[packed(&damaged), packed(&resource)].concat()).unwrap();
        assert_eq!((decoded.points.len(), decoded.refused.count()), (1, 2), "{}", decoded.refused);
    }

    const MESSAGES: [(&str, u8); 9] = [
        ("remote_write_v1", 1),
        ("rw1_nhcb", 1),
        ("rw1_fifteen", 1),
        ("rw1_float", 1),
        ("rw2_rc3", 2),
        ("rw2_rc4", 2),
        ("otlp_delta_scale20", 0),
        ("otlp_explicit", 0),
        ("otlp_cumulative_scale3_zero", 0),
    ];

    proptest! {
        #[test]
        fn changed_bytes_are_read_or_refused(number in 0..MESSAGES.len(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
            let (name, version) = MESSAGES[number];
            let mut bytes = golden(name);
            let position = at.index(bytes.len());
            bytes[position] = byte;
            for bytes in [&bytes[..], &bytes[..cut.index(bytes.len())]] {
                let decoded = match version {
                    0 => otlp::decode(bytes),
                    _ => remote_write::decode(&snap::raw::Encoder::new().compress_vec(bytes).unwrap(), version),
                };
                let mut differences = Differences::default();
                for point in decoded.unwrap_or_default().points {
                    // Nothing is read twice with another result, and no count is lost.
                    if let Ok(Some(added)) = differences.added(Point { nature: Nature::Delta, start_ns: None, ..point }) {
                        let ranges = difference::ranges(&added);
                        let count: u128 = ranges.iter().map(|&(_, _, count)| u128::from(count)).sum();
                        prop_assert_eq!(count, u128::from(added.count));
                        prop_assert!(ranges.iter().all(|&(start, end, _)| 0 < start && start <= end));
                    }
                }
            }
            let _ = (remote_write::decode(&bytes, 1), remote_write::decode(&bytes, 2));
        }
    }
}
