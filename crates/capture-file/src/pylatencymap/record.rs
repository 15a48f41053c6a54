//! One record: its fields, and counts by bucket.

use crate::histogram_text::Row;
use crate::scan::leading_number;
use latscope_event::{Anomaly, Tally};
use std::collections::BTreeMap;

pub const BEGIN: &[u8] = b"<begin record>";
pub const END: &[u8] = b"<end record>";
/// The unit where none is given.
pub const MILLISECOND_NS: u64 = 1_000_000;
/// Labels are cut here.
const LONGEST_LABEL: usize = 256;

/// What a record says.
pub struct Record {
    /// When, microseconds on any clock.
    pub timestamp_us: Option<i64>,
    pub label: String,
    /// Nanoseconds.
    pub unit_ns: u64,
    /// Whether the record names a unit that latscope does not know.
    pub has_unknown_unit: bool,
    /// Whether buckets are named by their upper edge.
    is_upper: bool,
    /// By bucket, a power of two or 0; each added up, as each instance of a database cluster prints its own.
    pub counts: BTreeMap<u64, u64>,
}

impl Record {
    pub fn new(unit_ns: u64) -> Record {
        Record {
            timestamp_us: None,
            label: String::new(),
            unit_ns,
            has_unknown_unit: false,
            is_upper: false,
            counts: BTreeMap::new(),
        }
    }

    /// First value of a bucket, and the one behind its last.
    pub fn edges(&self, bucket: u64) -> (u64, u64) {
        match (bucket, self.is_upper) {
            (0, _) | (1, true) => (0, 1),
            (bucket, true) => (bucket / 2, bucket),
            (bucket, false) => (bucket, bucket.saturating_mul(2)),
        }
    }

    /// Adds a line; false when it does not belong to a record.
    pub fn add(&mut self, line: &[u8], tally: &mut Tally) -> bool {
        if line.is_empty() {
            return true;
        }
        match Row::parse(line) {
            Some(Row::Range(range) | Row::Last(range)) => return self.count(range.lower, range.count),
            Some(Row::Negative(count)) => {
                tally.add(Anomaly::NegativeLatency, count);
                return true;
            }
            Some(Row::From(..)) => return false,
            Some(Row::Gap) => return true,
            None => {}
        }
        let comma = line.iter().position(|&byte| byte == b',');
        let Some(comma) = comma else { return is_heading(line) };
        let (key, value) = (line[..comma].trim_ascii(), line[comma + 1..].trim_ascii());
        let is_key = |name: &[u8]| key.eq_ignore_ascii_case(name);
        if is_key(b"label") {
            self.label = String::from_utf8_lossy(&value[..value.len().min(LONGEST_LABEL)]).into();
            true
        } else if is_key(b"timestamp") {
            let mut parts = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
            let is_micro = parts.next().is_some_and(|unit| unit.eq_ignore_ascii_case(b"microsec"));
            self.timestamp_us = parts.next().and_then(number).and_then(|us| i64::try_from(us).ok());
            is_micro && self.timestamp_us.is_some()
        } else if is_key(b"latencyunit") {
            let unit_ns = match &value.to_ascii_lowercase()[..] {
                b"millisec" | b"milliseconds" | b"millisecond" | b"msec" | b"ms" => Some(MILLISECOND_NS),
                b"microsec" | b"microseconds" | b"microsecond" | b"usec" | b"us" => Some(1_000),
                b"nanosec" | b"nanoseconds" | b"nanosecond" | b"nsec" | b"ns" => Some(1),
                _ => None,
            };
            (self.unit_ns, self.has_unknown_unit) = (unit_ns.unwrap_or(self.unit_ns), unit_ns.is_none());
            true
        } else if is_key(b"datasource") {
            self.is_upper = value.eq_ignore_ascii_case(b"oracle");
            self.is_upper || [&b"bpf"[..], b"systemtap", b"dtrace"].iter().any(|name| value.eq_ignore_ascii_case(name))
        } else {
            number(key).zip(number(value)).is_some_and(|(bucket, count)| self.count(bucket, count))
        }
    }

    fn count(&mut self, bucket: u64, count: u64) -> bool {
        let fits = bucket == 0 || bucket.is_power_of_two() && bucket < 1 << 62;
        if fits {
            let sum = self.counts.entry(bucket).or_insert(0);
            *sum = sum.saturating_add(count);
        }
        fits
    }
}

/// What SystemTap and DTrace print above their histogram: the name of the aggregation, and the headings of its columns.
fn is_heading(line: &[u8]) -> bool {
    let is_name = line.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') && !line[0].is_ascii_digit();
    is_name && line.len() < 64 || line.starts_with(b"value ") && line.ends_with(b"count")
}

fn number(text: &[u8]) -> Option<u64> {
    leading_number(text).filter(|&(_, len)| len == text.len() && len > 0).map(|(value, _)| value)
}
