//! Histograms of intervals: a plain head, so that a repeated record is known without unpacking it, and a compressed body.

use crate::record::RECORD_BYTES;
use crate::varint::{Payload, put, put_signed};
use crate::{GROUPS_LIMIT, Id, Kind, Malformed, Record};
use latscope_event::{Anomaly, Tally};
use latscope_histogram::{Grid, Sparse, Totals};
use std::ops::RangeInclusive;

/// Most intervals of a record.
const INTERVALS_LIMIT: u64 = 64;
/// Most groups of all intervals of a record.
const ROWS_LIMIT: usize = 1 << 16;
/// Most events of a histogram.
pub const COUNT_LIMIT: u64 = 1 << 48;
/// The longest that an interval may be covered, nanoseconds: a year.
const COVERED_LIMIT: u64 = 365 * 86_400 * 1_000_000_000;
/// The flag of an interval that was observed only in part.
const PARTIAL: u64 = 1;
/// The parts of a group.
const DONE: u64 = 1;
const WAITING: u64 = 2;
/// How many bytes moved what completed; agents of before sent none.
const BYTES: u64 = 4;

/// What is known of a record of histograms without unpacking it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// The run that it is from.
    pub run: Id,
    /// Its number in the run; several where records were merged.
    pub sequences: RangeInclusive<u64>,
    /// The number of its earliest interval, which starts at this many widths since the epoch.
    pub start: i64,
    /// Width of the intervals, nanoseconds.
    pub width_ns: u64,
    /// How many intervals it has.
    pub intervals: u64,
}

/// One interval.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IntervalRow {
    /// How long it was observed, nanoseconds.
    pub covered_ns: u64,
    /// Whether that was only a part of it: the run started or ended in it.
    pub is_partial: bool,
    /// What was lost or repaired in it.
    pub tally: Tally,
    /// By ascending number of the group.
    pub groups: Vec<(u32, Parts)>,
}

/// The histograms of one interval and group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parts {
    /// Latencies of what completed in it.
    pub done: Option<Sparse>,
    /// Ages of what waited at its end: lower bounds of latencies to come.
    pub waiting: Option<Sparse>,
}

/// A record of histograms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Data {
    /// What is known of it without unpacking.
    pub head: Head,
    /// Its intervals, one after the other.
    pub rows: Vec<IntervalRow>,
}

impl IntervalRow {
    /// Leaves what completed.
    pub(crate) fn forget_waiting(&mut self) {
        self.groups.iter_mut().for_each(|(_, parts)| parts.waiting = None);
        self.groups.retain(|(_, parts)| parts.done.is_some());
    }
}

impl Head {
    /// Of a record, with the part behind it.
    ///
    /// # Errors
    /// When it is malformed, or another kind of record.
    pub fn parse(record: &Record) -> Result<(Head, &[u8]), Malformed> {
        if record.kind()? != Kind::Data {
            return Err(Malformed::UnknownPart);
        }
        let mut payload = Payload(record.payload());
        let run = Id(payload.array()?);
        let first = payload.number()?;
        let last = first.checked_add(payload.number()?).ok_or(Malformed::Number)?;
        let start = payload.signed()?;
        let width_ns = payload.at_most(i64::MAX as u64 / 4)?;
        let intervals = payload.at_most(INTERVALS_LIMIT).map_err(|_| Malformed::Amount)?;
        let width = i64::try_from(width_ns).unwrap_or(0);
        // Its times are times.
        let end = start.checked_add(intervals as i64).and_then(|end| end.checked_mul(width));
        let fits = start.checked_mul(width).zip(end).is_some_and(|(_, end_ns)| end_ns < i64::MAX / 2);
        if width == 0 || intervals == 0 || !fits {
            return Err(Malformed::Number);
        }
        Ok((Head { run, sequences: first..=last, start, width_ns, intervals }, payload.0))
    }

    fn plain(&self) -> Vec<u8> {
        let mut plain = self.run.0.to_vec();
        put(&mut plain, *self.sequences.start());
        put(&mut plain, self.sequences.end() - self.sequences.start());
        put_signed(&mut plain, self.start);
        put(&mut plain, self.width_ns);
        put(&mut plain, self.intervals);
        plain
    }

    /// A record of which all is so many intervals later, and which is the same one still.
    ///
    /// # Errors
    /// When it is malformed, or its times leave the range of times.
    pub fn moved(record: &Record, intervals: i64) -> Result<Record, Malformed> {
        let (head, body) = Head::parse(record)?;
        let start = head.start.checked_add(intervals).ok_or(Malformed::Number)?;
        let moved = record.with_plain(&Head { start, ..head }.plain(), body);
        Head::parse(&moved)?;
        if moved.payload().len() > RECORD_BYTES - 2 { Err(Malformed::Number) } else { Ok(moved) }
    }
}

impl Data {
    /// As a record.
    pub fn record(&self) -> Record {
        let mut body = Vec::new();
        self.rows.iter().for_each(|row| put_row(&mut body, row));
        Record::packed(Kind::Data, &self.head.plain(), &body)
    }

    /// Of a record.
    ///
    /// # Errors
    /// When it is malformed or has parts of a later version: it is taken as a whole or not at all.
    pub fn parse(record: &Record) -> Result<Data, Malformed> {
        let (head, body) = Head::parse(record)?;
        let body = record.unpacked(body)?;
        let (mut payload, mut room) = (Payload(&body), ROWS_LIMIT);
        let rows = (0..head.intervals).map(|_| parse_row(&mut payload, &mut room)).collect::<Result<_, _>>()?;
        payload.end()?;
        Ok(Data { head, rows })
    }
}

fn put_row(out: &mut Vec<u8>, row: &IntervalRow) {
    put(out, row.covered_ns);
    put(out, if row.is_partial { PARTIAL } else { 0 });
    put(out, row.tally.iter().count() as u64);
    for (anomaly, count) in row.tally.iter() {
        crate::varint::put_text(out, anomaly.key());
        put(out, count);
    }
    put(out, row.groups.len() as u64);
    let mut next = 0;
    for (group, parts) in &row.groups {
        put(out, group - std::mem::replace(&mut next, group + 1));
        let bits = |part: &Option<Sparse>, bit| if part.is_some() { bit } else { 0 };
        let bytes = parts.done.as_ref().and_then(|done| done.totals().bytes);
        let with_bytes = if bytes.is_some() { BYTES } else { 0 };
        put(out, bits(&parts.done, DONE) | bits(&parts.waiting, WAITING) | with_bytes);
        parts.done.iter().chain(&parts.waiting).for_each(|histogram| put_histogram(out, histogram));
        bytes.into_iter().for_each(|bytes| put(out, bytes));
    }
}

fn parse_row(payload: &mut Payload, room: &mut usize) -> Result<IntervalRow, Malformed> {
    let covered_ns = payload.at_most(COVERED_LIMIT)?;
    let flags = payload.number()?;
    if flags & !PARTIAL != 0 {
        return Err(Malformed::UnknownPart);
    }
    let mut tally = Tally::default();
    for _ in 0..payload.at_most(Anomaly::ALL.len() as u64 * 2).map_err(|_| Malformed::Amount)? {
        let (key, count) = (payload.text()?, payload.number()?);
        // A reason of a later version is a loss until it is known to be none.
        let known = Anomaly::ALL.iter().copied().find(|anomaly| anomaly.key() == key);
        tally.add(known.unwrap_or(Anomaly::LostRecords), count);
    }
    let count = payload.at_most(GROUPS_LIMIT as u64).map_err(|_| Malformed::Amount)? as usize;
    *room = room.checked_sub(count).ok_or(Malformed::Amount)?;
    let (mut groups, mut next) = (Vec::new(), 0u64);
    for _ in 0..count {
        let group = next.checked_add(payload.number()?).filter(|&group| group < GROUPS_LIMIT as u64);
        let group = group.ok_or(Malformed::Group)?;
        next = group + 1;
        groups.push((group as u32, parse_parts(payload)?));
    }
    Ok(IntervalRow { covered_ns, is_partial: flags & PARTIAL != 0, tally, groups })
}

fn parse_parts(payload: &mut Payload) -> Result<Parts, Malformed> {
    let bits = payload.number()?;
    if bits == 0 || bits & !(DONE | WAITING | BYTES) != 0 {
        return Err(Malformed::UnknownPart);
    }
    let mut part = |bit| if bits & bit != 0 { parse_histogram(payload).map(Some) } else { Ok(None) };
    let (mut done, waiting) = (part(DONE)?, part(WAITING)?);
    if bits & BYTES != 0 {
        let done = done.as_mut().ok_or(Malformed::Histogram)?;
        done.set_bytes(Some(payload.number()?));
    }
    Ok(Parts { done, waiting })
}

/// A bucket is its distance from the one before, with a bit that says whether its count is above one; then the count, less two.
fn put_histogram(out: &mut Vec<u8>, histogram: &Sparse) {
    let totals = histogram.totals();
    put(out, histogram.grid().power());
    put(out, histogram.indices().len() as u64);
    put(out, totals.sum);
    put(out, totals.min);
    put(out, totals.max);
    let mut last = 0;
    for (&index, &count) in histogram.indices().iter().zip(histogram.counts()) {
        let gap = u64::from(index - std::mem::replace(&mut last, index));
        put(out, gap << 1 | u64::from(count > 1));
        if count > 1 {
            put(out, count - 2);
        }
    }
}

fn parse_histogram(payload: &mut Payload) -> Result<Sparse, Malformed> {
    let power = payload.at_most(u64::from(Grid::MAX_POWER))? as u8;
    let grid = Grid::with_power(power).ok_or(Malformed::Histogram)?;
    let cells = payload.at_most(grid.len() as u64)? as usize;
    let (sum, min, max) = (payload.large()?, payload.number()?, payload.number()?);
    // Each takes a byte at least.
    if cells == 0 || cells > payload.0.len() {
        return Err(Malformed::Histogram);
    }
    let (mut indices, mut counts) = (Vec::with_capacity(cells), Vec::with_capacity(cells));
    let (mut index, mut total) = (0u64, 0u64);
    for _ in 0..cells {
        let token = payload.number()?;
        index = index.checked_add(token >> 1).filter(|&index| index < grid.len() as u64).ok_or(Malformed::Histogram)?;
        let count = if token & 1 == 1 { payload.at_most(COUNT_LIMIT)? + 2 } else { 1 };
        total += count;
        if total > COUNT_LIMIT {
            return Err(Malformed::Number);
        }
        indices.push(index as u32);
        counts.push(count);
    }
    let fits = |bound: u64, index: Option<&u32>| index == Some(&(grid.index(bound) as u32));
    if min > max || !fits(min, indices.first()) || !fits(max, indices.last()) {
        return Err(Malformed::Histogram);
    }
    // A sum that the values cannot have would spoil the means of all that it is merged with.
    let sum = sum.clamp(u128::from(total) * u128::from(min), u128::from(total) * u128::from(max));
    let totals = Totals { count: total, sum, min, max, bytes: None };
    Sparse::from_parts(grid, indices, counts, None, totals).map_err(|_| Malformed::Histogram)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_histogram::Histogram;
    use proptest::prelude::*;

    fn histogram() -> impl Strategy<Value = Option<Sparse>> {
        let values = proptest::collection::vec((0u32..64, any::<u64>(), 1u64..5), 0..20);
        (values, 0u8..8).prop_map(|(values, power)| {
            let mut histogram = Histogram::new(Grid::with_power(power).unwrap(), false);
            values.iter().for_each(|&(bits, value, count)| histogram.record_many(value >> bits, count, 0));
            (!values.is_empty()).then(|| histogram.to_sparse())
        })
    }

    fn row() -> impl Strategy<Value = IntervalRow> {
        let parts = (histogram(), histogram(), any::<Option<u64>>()).prop_map(|(mut done, waiting, bytes)| {
            done.iter_mut().for_each(|done| done.set_bytes(bytes));
            Parts { done, waiting }
        });
        let groups = proptest::collection::btree_map(0u32..300, parts, 0..6);
        (0..COVERED_LIMIT, any::<bool>(), groups, 0u64..3).prop_map(|(covered_ns, is_partial, groups, lost)| {
            let mut tally = Tally::default();
            tally.add(Anomaly::LostRecords, lost);
            let has = |(_, parts): &(u32, Parts)| parts.done.is_some() || parts.waiting.is_some();
            IntervalRow { covered_ns, is_partial, tally, groups: groups.into_iter().filter(has).collect() }
        })
    }

    fn data() -> impl Strategy<Value = Data> {
        (proptest::collection::vec(row(), 1..4), 0u64..100, 0u64..3, -1000i64..1000).prop_map(
            |(rows, first, more, start)| Data {
                head: Head {
                    run: Id([3; 16]),
                    sequences: first..=first + more,
                    start,
                    width_ns: 1_000_000_000,
                    intervals: rows.len() as u64,
                },
                rows,
            },
        )
    }

    proptest! {
        #[test]
        fn a_record_is_moved_and_the_same_still(data in data(), by in -1000i64..1000) {
            let moved = Data::parse(&Head::moved(&data.record(), by).unwrap()).unwrap();
            let start = data.head.start + by;
            prop_assert_eq!(moved, Data { head: Head { start, ..data.head.clone() }, rows: data.rows.clone() });
            prop_assert_eq!(Head::moved(&data.record(), i64::MAX), Err(Malformed::Number));
        }


        #[test]
        fn histograms_come_back(data in data()) {
            let record = data.record();
            prop_assert_eq!(Head::parse(&record).unwrap().0, data.head.clone());
            prop_assert_eq!(Data::parse(&record), Ok(data));
        }

        #[test]
        fn changed_bytes_are_read_or_refused(data in data(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
            let record = data.record();
            let (head, part) = Head::parse(&record).unwrap();
            let mut body = record.unpacked(part).unwrap();
            let position = at.index(body.len());
            body[position] = byte;
            let plain = record.payload().len() - part.len();
            let plain = &record.payload()[..plain];
            if let Ok(parsed) = Data::parse(&Record::packed(Kind::Data, plain, &body)) {
                prop_assert_eq!(parsed.head, head);
                let histograms = parsed.rows.iter().flat_map(|row| &row.groups).flat_map(|(_, parts)| [&parts.done, &parts.waiting]);
                for histogram in histograms.flatten() {
                    prop_assert!(histogram.totals().min <= histogram.totals().max);
                }
            }
            let short = &body[..cut.index(body.len())];
            let _ = Data::parse(&Record::packed(Kind::Data, plain, short));
            let _ = Data::parse(&Record::new(Kind::Data, short));
        }
    }

    /// The sum is one that the values can have, whatever a record claims.
    #[test]
    fn sums_lie_between_the_least_and_the_greatest() {
        let mut histogram = Histogram::new(Grid::FINE, false);
        [1000, 1000, 5000].into_iter().for_each(|value| histogram.record(value, 0));
        let honest = histogram.to_sparse();
        for (claimed, believed) in [(0, 3000), (7000, 7000), (u128::from(u64::MAX), 15000)] {
            let totals = Totals { sum: claimed, ..*honest.totals() };
            let (indices, counts) = (honest.indices().to_vec(), honest.counts().to_vec());
            let claimed = Sparse::from_parts(Grid::FINE, indices, counts, None, totals).unwrap();
            let mut bytes = Vec::new();
            put_histogram(&mut bytes, &claimed);
            assert_eq!(parse_histogram(&mut Payload(&bytes)).unwrap().totals().sum, believed);
        }
    }

    #[test]
    fn what_a_later_version_adds_is_refused() {
        let plain = || {
            let mut plain = vec![3; 16];
            [1u64, 0, 0, 1_000_000_000, 1].iter().for_each(|&number| put(&mut plain, number));
            plain
        };
        let parse = |body: &[u8]| Data::parse(&Record::packed(Kind::Data, &plain(), body));
        assert!(parse(&[0, 0, 0, 0]).is_ok());
        assert_eq!(parse(&[0, 2, 0, 0]), Err(Malformed::UnknownPart));
        assert_eq!(parse(&[0, 0, 0, 1, 0, 8]), Err(Malformed::UnknownPart));
        assert_eq!(parse(&[0, 0, 0, 1, 0, 4, 9]), Err(Malformed::Histogram), "bytes of nothing");
        assert_eq!(parse(&[0, 0, 0, 0, 0]), Err(Malformed::Long));
        assert_eq!(parse(&[0, 0, 0, 1, 0, 1, 6, 0, 0, 0, 0]), Err(Malformed::Histogram));
    }
}
