//! Remote-write of Prometheus, versions 1 and 2.

use super::super::protobuf::{Fields, Value};
use super::super::remote_write::STALE;
use super::classic::Part;
use super::{BUCKETS_LIMIT, Decoded, Layout, Nature, POINTS_LIMIT, Point, Refused, is_latency, unit_ns};
use crate::Malformed;
use std::collections::BTreeMap;

/// Longest request, unpacked, bytes.
const UNPACKED_BYTES: usize = 16 << 20;
/// Most labels of a series.
const LABELS_LIMIT: usize = 256;
/// Most plain numbers of a request that may be buckets.
const SAMPLES_LIMIT: usize = 500_000;
/// A histogram that may fall.
const GAUGE: u64 = 3;
/// Buckets with edges of their own.
const CUSTOM: i64 = -53;

type Labels = BTreeMap<String, String>;

/// Histograms of a request.
///
/// # Errors
/// When it is malformed or too large.
pub fn decode(packed: &[u8], version: u8) -> Result<Decoded, Malformed> {
    let length = snap::raw::decompress_len(packed).map_err(|_| Malformed::Packed)?;
    if length > UNPACKED_BYTES {
        return Err(Malformed::Packed);
    }
    let bytes = snap::raw::Decoder::new().decompress_vec(packed).map_err(|_| Malformed::Packed)?;
    read(&bytes, version)
}

/// Histograms of a request that is not compressed. What is malformed in itself does not keep off the rest.
///
/// # Errors
/// When the request as a whole is malformed.
pub fn read(bytes: &[u8], version: u8) -> Result<Decoded, Malformed> {
    let (mut symbols, mut request) = (Vec::new(), Fields(bytes));
    while let Some((field, value)) = request.next()? {
        if version == 2 && field == 4 {
            symbols.push(value.text()?);
        }
    }
    let (mut decoded, mut request) = (Decoded::default(), Fields(bytes));
    while let Some((field, value)) = request.next()? {
        match (version, field) {
            (2, 5) | (1, 1) => {
                let read = value.fields();
                let read = read.and_then(|fields| series(fields, &symbols, version, &mut decoded));
                read.unwrap_or_else(|malformed| decoded.refused.add(malformed.into(), 1));
            }
            _ => {}
        }
    }
    Ok(decoded)
}

fn series(fields: Fields, symbols: &[&str], version: u8, decoded: &mut Decoded) -> Result<(), Malformed> {
    let (mut labels, mut references, mut created_ms) = (Labels::new(), Vec::new(), None);
    let (mut samples, mut histograms, mut rest) = (Vec::new(), Vec::new(), fields);
    while let Some((field, value)) = rest.next()? {
        match (version, field) {
            (2, 1) => value.uints(&mut references, 2 * LABELS_LIMIT)?,
            (2, 3) | (1, 4) => histograms.push(value),
            // Of version 2 as it was first.
            (2, 6) => created_ms = Some(value.uint()?),
            (1, 1) if labels.len() >= LABELS_LIMIT => return Err(Malformed::Amount),
            (1, 1) => drop(label(value.fields()?, &mut labels)?),
            (_, 2) => samples.push(sample(value.fields()?)?),
            _ => {}
        }
    }
    let symbol =
        |reference: &u64| usize::try_from(*reference).ok().and_then(|at| symbols.get(at)).map(|text| text.to_string());
    let (pairs, []) = references.as_chunks::<2>() else { return Err(Malformed::Short) };
    for [name, value] in pairs {
        let (name, value) = symbol(name).zip(symbol(value)).ok_or(Malformed::Number)?;
        labels.insert(name, value);
    }
    let name = labels.remove("__name__").unwrap_or_default();
    if !is_latency(&name) {
        decoded.refused.add(Refused::Other, (samples.len() + histograms.len()) as u64);
        return Ok(());
    }
    for value in histograms {
        let start_ns = created_ms.and_then(milliseconds);
        let unit_ns = unit_ns(&name);
        let base = Point { name: name.clone(), labels: labels.clone(), unit_ns, start_ns, ..Point::default() };
        match value.fields().and_then(|fields| histogram(fields, base)) {
            Ok(Some(_)) if decoded.points.len() >= POINTS_LIMIT => decoded.refused.add(Refused::Amount, 1),
            Ok(Some(point)) => decoded.points.push(point),
            Ok(None) => decoded.refused.add(Refused::Fraction, 1),
            Err(malformed) => decoded.refused.add(malformed.into(), 1),
        }
    }
    classic(&name, labels, &samples, decoded)
}

fn label(mut fields: Fields, into: &mut Labels) -> Result<(), Malformed> {
    let (mut name, mut text) = ("", "");
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = value.text()?,
            2 => text = value.text()?,
            _ => {}
        }
    }
    into.insert(name.to_string(), text.to_string());
    Ok(())
}

/// The time and the bits of a number.
fn sample(mut fields: Fields) -> Result<(u64, u64), Malformed> {
    let (mut bits, mut time_ms) = (0, 0);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => bits = value.uint()?,
            2 => time_ms = value.uint()?,
            _ => {}
        }
    }
    Ok((time_ms, bits))
}

/// Milliseconds since the epoch as nanoseconds.
pub fn milliseconds(time_ms: u64) -> Option<i64> {
    i64::try_from(time_ms).ok()?.checked_mul(1_000_000).filter(|&time_ns| time_ns > 0)
}

/// A native histogram; `None` where its counts are no whole numbers.
fn histogram(mut fields: Fields, mut point: Point) -> Result<Option<Point>, Malformed> {
    let (mut schema, mut zero_threshold, mut is_float) = (0, 0.0, false);
    let (mut spans, mut deltas, mut custom) = (Vec::new(), Vec::new(), Vec::new());
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => point.count = value.uint()?,
            2 | 7 | 13 => is_float = true,
            3 if value == Value::Fixed64(STALE) => point.is_end = true,
            3 => point.sum = Some(value.double()?),
            4 => schema = value.sint()?,
            5 => zero_threshold = value.double()?,
            6 => point.zero = value.uint()?,
            // Latencies are not negative.
            9 | 10 if !value.bytes()?.is_empty() => return Err(Malformed::Histogram),
            11 if spans.len() >= BUCKETS_LIMIT => return Err(Malformed::Amount),
            11 => spans.push(span(value.fields()?)?),
            12 => value.sints(&mut deltas, BUCKETS_LIMIT)?,
            14 if value.uint()? == GAUGE => point.nature = Nature::Gauge,
            15 => point.time_ns = milliseconds(value.uint()?).ok_or(Malformed::Number)?,
            16 => value.fixeds(&mut custom, BUCKETS_LIMIT)?,
            17 => point.start_ns = milliseconds(value.uint()?),
            _ => {}
        }
    }
    if is_float {
        return Ok(None);
    }
    let shift = (schema - 8).max(0);
    let bounds: Vec<f64> = custom.into_iter().map(f64::from_bits).collect();
    point.layout = match schema {
        CUSTOM if bounds.is_sorted() && bounds.iter().all(|bound| bound.is_finite()) => Layout::Explicit(bounds),
        -4..=52 => Layout::Exponential { schema: (schema - shift) as i8, zero_threshold },
        _ => return Err(Malformed::Histogram),
    };
    let (mut index, mut count, mut deltas) = (0i64, 0i64, deltas.into_iter());
    for (offset, length) in spans {
        index = index.checked_add(offset).ok_or(Malformed::Number)?;
        for _ in 0..length {
            count = deltas.next().and_then(|delta| count.checked_add(delta)).ok_or(Malformed::Short)?;
            let folded =
                if shift > 0 { index.checked_add((1 << shift) - 1).ok_or(Malformed::Number)? >> shift } else { index };
            let folded = i32::try_from(folded).map_err(|_| Malformed::Number)?;
            let bucket = point.buckets.entry(folded).or_insert(0u64);
            let counted = u64::try_from(count).ok().and_then(|count| bucket.checked_add(count));
            *bucket = counted.ok_or(Malformed::Histogram)?;
            index = index.checked_add(1).ok_or(Malformed::Number)?;
        }
    }
    point.buckets.retain(|_, count| *count > 0);
    Ok(Some(point))
}

fn span(mut fields: Fields) -> Result<(i64, u64), Malformed> {
    let (mut offset, mut length) = (0, 0);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => offset = value.sint()?,
            2 => length = value.uint()?,
            _ => {}
        }
    }
    if length > BUCKETS_LIMIT as u64 { Err(Malformed::Amount) } else { Ok((offset, length)) }
}

/// Adds the numbers of a series that is part of a classic histogram.
fn classic(name: &str, mut labels: Labels, samples: &[(u64, u64)], decoded: &mut Decoded) -> Result<(), Malformed> {
    if decoded.parts.len() + samples.len() > SAMPLES_LIMIT {
        return Err(Malformed::Amount);
    }
    let edge = labels.remove("le").and_then(|edge| edge.parse::<f64>().ok()).filter(|edge| *edge >= 0.0);
    let base = match edge {
        Some(_) => name.strip_suffix("_bucket"),
        None => name.strip_suffix("_sum"),
    };
    let Some(base) = base else {
        // The count of a classic histogram is that of its last bucket.
        if !name.ends_with("_count") {
            decoded.refused.add(Refused::Other, samples.len() as u64);
        }
        return Ok(());
    };
    let part = |&(time_ms, bits): &(u64, u64)| {
        let (name, labels) = (base.to_string(), labels.clone());
        Part { name, labels, time_ms, edge, value: f64::from_bits(bits) }
    };
    decoded.parts.extend(samples.iter().filter(|&&(_, bits)| bits != STALE).map(part));
    Ok(())
}
