//! `ExportMetricsServiceRequest` of OpenTelemetry.

use super::super::protobuf::{Fields, Value};
use super::{BUCKETS_LIMIT, Decoded, Layout, Nature, POINTS_LIMIT, Point, Refused, is_latency};
use crate::Malformed;
use std::collections::BTreeMap;

/// The finest scale that is kept.
const SCALE_LIMIT: i64 = 8;
/// The fields of a metric that have its points: gauge, sum, histogram, exponential histogram, summary.
const DATA: [u32; 5] = [5, 7, 9, 10, 11];

type Attributes = BTreeMap<String, String>;

/// Histograms of a request. What is malformed in itself does not keep off the rest.
///
/// # Errors
/// When the request as a whole is malformed.
pub fn decode(bytes: &[u8]) -> Result<Decoded, Malformed> {
    let (mut decoded, mut request) = (Decoded::default(), Fields(bytes));
    while let Some((field, value)) = request.next()? {
        if field == 1 {
            let before = decoded.count();
            let read = value.fields().and_then(|fields| resource_metrics(fields, &mut decoded));
            read.unwrap_or_else(|malformed| decoded.refuse(malformed, value, &[&[2], &[2], &DATA, &[1]], before));
        }
    }
    Ok(decoded)
}

impl Decoded {
    /// How many points were read, refused ones, too.
    fn count(&self) -> u64 {
        self.points.len() as u64 + self.refused.count()
    }

    /// Refuses the points of what is malformed, as far as they can be told apart: those that stand at the end of such fields. At `before`
    /// points it started.
    fn refuse(&mut self, malformed: Malformed, value: Value, levels: &[&[u32]], before: u64) {
        let read = self.count() - before;
        let all = value.fields().map_or(0, |fields| count(fields, levels));
        self.refused.add(malformed.into(), all.saturating_sub(read).max(1));
    }
}

/// How many fields there are at the end of such fields, up to where they cannot be told apart.
fn count(mut fields: Fields, levels: &[&[u32]]) -> u64 {
    let Some((level, below)) = levels.split_first() else { return 1 };
    let mut sum = 0;
    while let Ok(Some((field, value))) = fields.next() {
        if level.contains(&field) {
            let within = || value.fields().map_or(0, |fields| count(fields, below));
            sum += if below.is_empty() { 1 } else { within() };
        }
    }
    sum
}

fn resource_metrics(fields: Fields, decoded: &mut Decoded) -> Result<(), Malformed> {
    let (mut resource, mut rest) = (Attributes::new(), fields);
    // Attributes may stand behind what they are of.
    while let Some((field, value)) = rest.next()? {
        if field == 1 {
            let mut fields = value.fields()?;
            while let Some((field, value)) = fields.next()? {
                if field == 1 {
                    attribute(value.fields()?, &mut resource)?;
                }
            }
        }
    }
    let mut rest = fields;
    while let Some((field, value)) = rest.next()? {
        if field == 2 {
            let mut scope = value.fields()?;
            while let Some((field, value)) = scope.next()? {
                if field == 2 {
                    let before = decoded.count();
                    let read = value.fields().and_then(|fields| metric(fields, &resource, decoded));
                    read.unwrap_or_else(|malformed| decoded.refuse(malformed, value, &[&DATA, &[1]], before));
                }
            }
        }
    }
    Ok(())
}

fn attribute(mut fields: Fields, into: &mut Attributes) -> Result<(), Malformed> {
    let (mut name, mut text) = ("", String::new());
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = value.text()?,
            2 => {
                let mut any = value.fields()?;
                while let Some((field, value)) = any.next()? {
                    match field {
                        1 => text = value.text()?.to_string(),
                        2 => text = (value.uint()? != 0).to_string(),
                        3 => text = (value.uint()? as i64).to_string(),
                        4 => text = value.double()?.to_string(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    into.insert(name.to_string(), text);
    Ok(())
}

fn metric(mut fields: Fields, resource: &Attributes, decoded: &mut Decoded) -> Result<(), Malformed> {
    let (mut name, mut unit, mut data) = ("", "", Vec::new());
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = value.text()?,
            3 => unit = value.text()?,
            field if DATA.contains(&field) => data.push((field, value)),
            _ => {}
        }
    }
    let unit_ns = match unit {
        "s" | "" => Ok(1e9),
        "ms" => Ok(1e6),
        "us" => Ok(1e3),
        "ns" => Ok(1.0),
        _ => Err(Refused::Unit),
    };
    for (kind, value) in data {
        let (mut points, mut temporality) = (Vec::new(), 0);
        let mut fields = value.fields()?;
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => points.push(value),
                2 => temporality = value.uint()?,
                _ => {}
            }
        }
        let nature = match temporality {
            // Ages of what is there have no kind of their own.
            _ if name.contains("waiting") => Ok(Nature::Gauge),
            1 => Ok(Nature::Delta),
            2 => Ok(Nature::Cumulative),
            _ => Err(Refused::Temporality),
        };
        let is_latency = matches!(kind, 9 | 10) && is_latency(name);
        let known = if is_latency { nature.and_then(|nature| Ok((nature, unit_ns?))) } else { Err(Refused::Other) };
        let (nature, unit_ns) = match known {
            Ok(known) => known,
            Err(why) => {
                decoded.refused.add(why, points.len() as u64);
                continue;
            }
        };
        let base = Point { name: name.to_string(), unit_ns, nature, labels: resource.clone(), ..Point::default() };
        for value in points {
            match if kind == 10 { exponential(value, &base) } else { explicit(value, &base) } {
                Ok(_) if decoded.points.len() >= POINTS_LIMIT => decoded.refused.add(Refused::Amount, 1),
                Ok(point) => decoded.points.push(point),
                Err(malformed) => decoded.refused.add(malformed.into(), 1),
            }
        }
    }
    Ok(())
}

/// What points of both kinds have under the same numbers.
fn put_plain(point: &mut Point, field: u32, value: Value) -> Result<(), Malformed> {
    match field {
        2 => point.start_ns = i64::try_from(value.uint()?).ok().filter(|&start_ns| start_ns > 0),
        3 => point.time_ns = i64::try_from(value.uint()?).map_err(|_| Malformed::Number)?,
        4 => point.count = value.uint()?,
        5 => point.sum = Some(value.double()?),
        _ => {}
    }
    Ok(())
}

fn set_limits(point: &mut Point, min: Option<f64>, max: Option<f64>) {
    point.limits = min.zip(max).filter(|(min, max)| *min >= 0.0 && min <= max && max.is_finite());
}

fn exponential(value: Value, base: &Point) -> Result<Point, Malformed> {
    let (mut point, mut scale, mut fields) = (base.clone(), 0, value.fields()?);
    let (mut min, mut max, mut zero_threshold) = (None, None, 0.0);
    let (mut start, mut counts) = (0, Vec::new());
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => attribute(value.fields()?, &mut point.labels)?,
            6 => scale = value.sint()?,
            7 => point.zero = value.uint()?,
            8 => {
                let mut buckets = value.fields()?;
                while let Some((field, value)) = buckets.next()? {
                    match field {
                        1 => start = value.sint()?,
                        2 => value.uints(&mut counts, BUCKETS_LIMIT)?,
                        _ => {}
                    }
                }
            }
            // Latencies are not negative.
            9 if !value.bytes()?.is_empty() => return Err(Malformed::Histogram),
            10 => point.is_end = value.uint()? & 1 == 1,
            12 => min = Some(value.double()?),
            13 => max = Some(value.double()?),
            14 => zero_threshold = value.double()?,
            _ => put_plain(&mut point, field, value)?,
        }
    }
    if !(-4..=20).contains(&scale) {
        return Err(Malformed::Histogram);
    }
    let shift = (scale - SCALE_LIMIT).max(0);
    for (place, &count) in (0i64..).zip(&counts).filter(|(_, count)| **count > 0) {
        // Counted from the lower edge there, and from the upper one here.
        let index = start.checked_add(place).ok_or(Malformed::Number)? >> shift;
        let index = index.checked_add(1).and_then(|index| i32::try_from(index).ok()).ok_or(Malformed::Number)?;
        let bucket = point.buckets.entry(index).or_insert(0);
        *bucket = bucket.checked_add(count).ok_or(Malformed::Number)?;
    }
    point.layout = Layout::Exponential { schema: (scale - shift) as i8, zero_threshold };
    set_limits(&mut point, min, max);
    Ok(point)
}

fn explicit(value: Value, base: &Point) -> Result<Point, Malformed> {
    let (mut point, mut fields) = (base.clone(), value.fields()?);
    let (mut counts, mut bounds, mut min, mut max) = (Vec::new(), Vec::new(), None, None);
    while let Some((field, value)) = fields.next()? {
        match field {
            6 => value.fixeds(&mut counts, BUCKETS_LIMIT)?,
            7 => value.fixeds(&mut bounds, BUCKETS_LIMIT)?,
            9 => attribute(value.fields()?, &mut point.labels)?,
            10 => point.is_end = value.uint()? & 1 == 1,
            11 => min = Some(value.double()?),
            12 => max = Some(value.double()?),
            _ => put_plain(&mut point, field, value)?,
        }
    }
    let bounds: Vec<f64> = bounds.into_iter().map(f64::from_bits).collect();
    if !bounds.is_sorted()
        || bounds.iter().any(|bound| !bound.is_finite())
        || !counts.is_empty() && counts.len() != bounds.len() + 1
    {
        return Err(Malformed::Histogram);
    }
    point.buckets = (0..).zip(counts).filter(|&(_, count)| count > 0).collect();
    point.layout = Layout::Explicit(bounds);
    set_limits(&mut point, min, max);
    Ok(point)
}
