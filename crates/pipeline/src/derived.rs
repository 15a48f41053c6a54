//! Fields that follow from the events of a whole trace, in the order of their start: what was in flight, what came before.
//!
//! Events come in the order of their completion, so all of them have to be there before the first can be handed on. They are kept
//! as columns, and each batch is freed as it is handed on.

use crate::Error;
use hashbrown::HashMap;
use latscope_event::{Batch, Column, Field, FieldSet, MISSING_CODE, MISSING_I64, MISSING_U64};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// The events of all traces that are read at a time take no more than this.
const MOST_BYTES: u64 = 2 << 30;
/// So many recent requests of a device and kind are remembered: streams that interleave.
const RECENT: usize = 32;
/// A device has so many regions.
const REGIONS: u64 = 64;

/// The derived fields among those that are asked for, and what the readers have to fill for them.
pub fn split(asked: FieldSet) -> (FieldSet, FieldSet) {
    let derived = asked.intersection(FieldSet::DERIVED);
    let needed = derived.iter().fold(asked.without(derived), |needed, field| needed.union(field.needed()));
    let ours = [Field::Host, Field::Device, Field::Path, Field::Job, Field::Kind];
    (derived, if derived == FieldSet::EMPTY { asked } else { needed.with(&ours) })
}

/// The memory that several gatherings share, bytes.
#[derive(Default)]
pub struct Room(AtomicU64);

/// The events of a trace, kept until all are there.
pub struct Gathered {
    derived: FieldSet,
    chunks: Vec<Vec<(Field, Column)>>,
    /// Holds the dictionaries.
    batch: Batch,
}

impl Gathered {
    /// Nothing yet; these fields will be derived.
    pub fn new(derived: FieldSet) -> Gathered {
        Gathered { derived, chunks: Vec::new(), batch: Batch::new(FieldSet::ALWAYS) }
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// [`Error::NotDerivable`] when there are too many.
    pub fn add(&mut self, batch: &Batch, room: &Room) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let columns = batch.fields().iter().filter_map(|field| Some((field, batch.column(field)?.clone())));
        let columns: Vec<(Field, Column)> = columns.collect();
        let bytes: u64 = columns.iter().map(|(_, column)| bytes(column)).sum();
        if room.0.fetch_add(bytes, Ordering::Relaxed) + bytes > MOST_BYTES {
            return Err(Error::NotDerivable { fields: self.derived, limit_bytes: MOST_BYTES });
        }
        self.batch.follow(batch);
        self.chunks.push(columns);
        Ok(())
    }

    /// Derives the fields and hands on the batches as they came, until one is refused.
    pub fn hand_on(mut self, mut take: impl FnMut(&Batch) -> ControlFlow<()>) {
        let derived = derive(&self.chunks, self.derived, &mut self.batch);
        for (columns, derived) in self.chunks.into_iter().zip(derived) {
            self.batch.replace_columns(columns.into_iter().chain(derived));
            if take(&self.batch).is_break() {
                return;
            }
        }
    }
}

fn bytes(column: &Column) -> u64 {
    match column {
        Column::I64(values) => values.len() as u64 * 8,
        Column::U64(values) => values.len() as u64 * 8,
        Column::Text(codes) => codes.len() as u64 * 4,
    }
}

/// The columns of a chunk that fields are derived from.
struct Rows<'a> {
    time: &'a [i64],
    latency: &'a [u64],
    offset: Option<&'a [u64]>,
    size: Option<&'a [u64]>,
    kind: Option<&'a [u32]>,
    host: Option<&'a [u32]>,
    /// What distinguishes devices, the best first.
    places: [Option<&'a [u32]>; 3],
}

/// A device: its host, what it is known by, and its code.
type Place = (u32, u8, u32);

impl<'a> Rows<'a> {
    fn new(columns: &'a [(Field, Column)]) -> Rows<'a> {
        let column = |field| columns.iter().find(|(of, _)| *of == field).map(|(_, column)| column);
        let u64s = |field| match column(field) {
            Some(Column::U64(values)) => Some(&values[..]),
            _ => None,
        };
        let codes = |field| match column(field) {
            Some(Column::Text(codes)) => Some(&codes[..]),
            _ => None,
        };
        let time = match column(Field::Time) {
            Some(Column::I64(values)) => &values[..],
            _ => &[],
        };
        Rows {
            time,
            latency: u64s(Field::Latency).unwrap_or(&[]),
            offset: u64s(Field::Offset),
            size: u64s(Field::Size),
            kind: codes(Field::Kind),
            host: codes(Field::Host),
            places: [codes(Field::Device), codes(Field::Path), codes(Field::Job)],
        }
    }

    /// The device of a row, else its file, else its job. Where a trace has none of these, everything is one device.
    fn place(&self, row: usize) -> Option<Place> {
        let code = |codes: Option<&[u32]>| codes.map_or(MISSING_CODE, |codes| codes[row]);
        let host = code(self.host);
        let known = (0u8..).zip(self.places).find(|&(_, codes)| code(codes) != MISSING_CODE);
        match known {
            Some((which, codes)) => Some((host, which, code(codes))),
            None if self.places.iter().all(Option::is_none) => Some((host, 3, 0)),
            None => None,
        }
    }

    fn offset(&self, row: usize) -> Option<u64> {
        self.offset.map(|values| values[row]).filter(|&value| value != MISSING_U64)
    }

    fn end(&self, row: usize) -> Option<u64> {
        let size = self.size.map_or(0, |values| values[row]);
        Some(self.offset(row)?.saturating_add(if size == MISSING_U64 { 0 } else { size }))
    }
}

/// What is known of a device on the way through its requests.
#[derive(Default)]
struct Device {
    previous_ns: Option<i64>,
    /// When the requests in flight end, the earliest on top.
    ends: BinaryHeap<Reverse<i64>>,
    /// Where the last requests of each kind ended.
    recent: HashMap<u32, Ring>,
}

struct Ring {
    ends: [u64; RECENT],
    next: usize,
}

impl Device {
    /// Requests in flight when one starts, and the time since the one before.
    fn starts(&mut self, start_ns: i64, latency_ns: u64) -> (i64, u64) {
        while self.ends.peek().is_some_and(|Reverse(end)| *end <= start_ns) {
            self.ends.pop();
        }
        let in_flight = self.ends.len() as i64;
        self.ends.push(Reverse(start_ns.saturating_add_unsigned(latency_ns)));
        let since_ns = self.previous_ns.replace(start_ns).map_or(MISSING_U64, |before| before.abs_diff(start_ns));
        (in_flight, since_ns)
    }

    /// Whether a request starts where a recent one of its kind ended.
    fn goes_on(&mut self, kind: u32, from: u64, to: u64) -> bool {
        // No request ends at the greatest number.
        let ring = self.recent.entry(kind).or_insert(Ring { ends: [u64::MAX; RECENT], next: 0 });
        let goes_on = ring.ends.contains(&from);
        ring.ends[ring.next] = to;
        ring.next = (ring.next + 1) % RECENT;
        goes_on
    }
}

/// The derived columns of each chunk; their texts are put into the dictionaries of `batch`.
fn derive(chunks: &[Vec<(Field, Column)>], derived: FieldSet, batch: &mut Batch) -> Vec<Vec<(Field, Column)>> {
    let rows: Vec<Rows> = chunks.iter().map(|columns| Rows::new(columns)).collect();
    let mut columns: Vec<Derived> = rows.iter().map(|rows| Derived::new(rows.time.len(), derived)).collect();
    let words = ["sequential", "random"].map(|word| batch.intern(Field::Sequential, word.as_bytes()));
    let parts: Vec<u32> =
        (1..=REGIONS).map(|part| batch.intern(Field::Region, format!("{part}/{REGIONS}").as_bytes())).collect();
    let widths = if derived.contains(Field::Region) { region_widths(&rows) } else { HashMap::new() };
    let mut devices: HashMap<Place, Device> = HashMap::new();
    for (chunk, row) in in_order_of_start(&rows) {
        let (rows, columns) = (&rows[chunk], &mut columns[chunk]);
        let Some(place) = rows.place(row) else { continue };
        if let (Some(regions), Some(offset)) = (&mut columns.region, rows.offset(row)) {
            let part = offset / widths.get(&place).copied().unwrap_or(1).max(1);
            regions[row] = parts[part.min(REGIONS - 1) as usize];
        }
        let device = devices.entry(place).or_default();
        let latency_ns = rows.latency[row];
        if latency_ns != MISSING_U64 && (columns.in_flight.is_some() || columns.since_previous.is_some()) {
            let (in_flight, since_ns) = device.starts(rows.time[row], latency_ns);
            columns.in_flight.iter_mut().for_each(|values| values[row] = in_flight);
            columns.since_previous.iter_mut().for_each(|values| values[row] = since_ns);
        }
        if let (Some(codes), Some(from), Some(to)) = (&mut columns.sequential, rows.offset(row), rows.end(row))
            && from < to
        {
            let kind = rows.kind.map_or(MISSING_CODE, |codes| codes[row]);
            codes[row] = words[usize::from(!device.goes_on(kind, from, to))];
        }
    }
    columns.into_iter().map(Derived::into_columns).collect()
}

/// Chunk and row of every event that has a start, the earliest first; equal ones as they came.
fn in_order_of_start(rows: &[Rows]) -> impl Iterator<Item = (usize, usize)> {
    let all = rows.iter().enumerate().flat_map(|(chunk, rows)| {
        let known = (0..rows.time.len()).filter(|&row| rows.time[row] != MISSING_I64);
        known.map(move |row| (chunk as u32, row as u32))
    });
    let mut order: Vec<(u32, u32)> = all.collect();
    order.sort_by_key(|&(chunk, row)| rows[chunk as usize].time[row as usize]);
    order.into_iter().map(|(chunk, row)| (chunk as usize, row as usize))
}

/// How wide a region of each device is, bytes: a power of two, so that a slice of a trace mostly has the regions of the whole.
fn region_widths(rows: &[Rows]) -> HashMap<Place, u64> {
    let mut ends: HashMap<Place, u64> = HashMap::new();
    for rows in rows {
        for row in 0..rows.time.len() {
            if let (Some(place), Some(end)) = (rows.place(row), rows.end(row)) {
                let highest = ends.entry(place).or_insert(0);
                *highest = end.max(*highest);
            }
        }
    }
    let width = |end: u64| (end.checked_next_power_of_two().unwrap_or(1 << 63) / REGIONS).max(1);
    ends.into_iter().map(|(place, end)| (place, width(end))).collect()
}

/// The derived columns of one chunk, as far as they are asked for.
struct Derived {
    sequential: Option<Vec<u32>>,
    in_flight: Option<Vec<i64>>,
    since_previous: Option<Vec<u64>>,
    region: Option<Vec<u32>>,
}

impl Derived {
    fn new(len: usize, asked: FieldSet) -> Derived {
        Derived {
            sequential: asked.contains(Field::Sequential).then(|| vec![MISSING_CODE; len]),
            in_flight: asked.contains(Field::InFlight).then(|| vec![MISSING_I64; len]),
            since_previous: asked.contains(Field::SincePrevious).then(|| vec![MISSING_U64; len]),
            region: asked.contains(Field::Region).then(|| vec![MISSING_CODE; len]),
        }
    }

    fn into_columns(self) -> Vec<(Field, Column)> {
        let columns = [
            (Field::Sequential, self.sequential.map(Column::Text)),
            (Field::InFlight, self.in_flight.map(Column::I64)),
            (Field::SincePrevious, self.since_previous.map(Column::U64)),
            (Field::Region, self.region.map(Column::Text)),
        ];
        columns.into_iter().filter_map(|(field, column)| Some((field, column?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Start, latency, device, kind, offset and size of a request.
    type Request = (i64, u64, Option<u8>, bool, u64, u64);

    fn batches(requests: &[Request], rows: usize) -> Vec<Batch> {
        let fields = FieldSet::ALWAYS.with(&[Field::Device, Field::Kind, Field::Offset, Field::Size]);
        let mut batch = Batch::new(fields);
        let filled = requests.chunks(rows).map(|requests| {
            batch.clear();
            for &(time, latency, device, writes, offset, size) in requests {
                batch.push_i64(Field::Time, time);
                batch.push_u64(Field::Latency, latency);
                batch
                    .push_text(Field::Device, device.map(|device| format!("sd{device}")).as_deref().map(str::as_bytes));
                batch.push_text(Field::Kind, Some(if writes { b"write" } else { b"read" }));
                batch.push_u64(Field::Offset, offset);
                batch.push_u64(Field::Size, size);
                batch.end_row();
            }
            batch.clone()
        });
        filled.collect()
    }

    /// Sequential, in flight, since previous and region of every row.
    type Answer = (Option<String>, i64, u64, Option<String>);

    fn derived(requests: &[Request], rows: usize) -> Vec<Answer> {
        let (room, mut gathered) = (Room::default(), Gathered::new(FieldSet::DERIVED));
        batches(requests, rows).iter().for_each(|batch| gathered.add(batch, &room).unwrap());
        let mut answers = Vec::new();
        gathered.hand_on(|batch| {
            for row in 0..batch.len() {
                let text = |field| batch.text(field, row).map(str::to_string);
                let (in_flight, since) =
                    (batch.i64s(Field::InFlight).unwrap(), batch.u64s(Field::SincePrevious).unwrap());
                answers.push((text(Field::Sequential), in_flight[row], since[row], text(Field::Region)));
                assert_eq!(batch.text(Field::Kind, row).is_some(), !batch.is_empty());
            }
            ControlFlow::Continue(())
        });
        answers
    }

    /// The definitions, one request at a time.
    fn by_definition(requests: &[Request]) -> Vec<Answer> {
        let answer = |at: usize| {
            let (time, _, device, writes, offset, size) = requests[at];
            if device.is_none() {
                return (None, MISSING_I64, MISSING_U64, None);
            }
            let is_before = |other: usize| (requests[other].0, other) < (time, at);
            let mut before: Vec<usize> =
                (0..requests.len()).filter(|&other| requests[other].2 == device && is_before(other)).collect();
            before.sort_by_key(|&other| (requests[other].0, other));
            let in_flight = before.iter().filter(|&&other| requests[other].0 + requests[other].1 as i64 > time).count();
            let since = before.last().map_or(MISSING_U64, |&other| (time - requests[other].0) as u64);
            let alike: Vec<_> =
                before.iter().filter(|&&other| requests[other].3 == writes && requests[other].5 > 0).collect();
            let goes_on = alike.iter().rev().take(32).any(|&&other| requests[other].4 + requests[other].5 == offset);
            let sequential = (size > 0).then(|| if goes_on { "sequential" } else { "random" }.to_string());
            let of_device = requests.iter().filter(|request| request.2 == device);
            let end = of_device.map(|request| request.4 + request.5).max().unwrap();
            let width = (end.next_power_of_two() / 64).max(1);
            (sequential, in_flight as i64, since, Some(format!("{}/64", (offset / width).min(63) + 1)))
        };
        (0..requests.len()).map(answer).collect()
    }

    proptest! {
        #[test]
        fn fields_are_as_defined(
            requests in proptest::collection::vec(
                (0..60i64, 0..20u64, proptest::option::of(0..3u8), any::<bool>(), 0..40u64, 0..3u64), 0..120),
            rows in 1..50usize,
        ) {
            let requests: Vec<Request> = requests
                .into_iter()
                .map(|(time, latency, device, writes, offset, size)| (time, latency, device, writes, offset * 4096, size * 4096))
                .collect();
            prop_assert_eq!(derived(&requests, rows), by_definition(&requests));
        }
    }

    #[test]
    fn a_trace_without_devices_is_one_device() {
        let mut batch = Batch::new(FieldSet::ALWAYS);
        for (time, latency) in [(0, 10), (5, 10), (12, 1)] {
            batch.push_i64(Field::Time, time);
            batch.push_u64(Field::Latency, latency);
            batch.end_row();
        }
        let mut gathered = Gathered::new(FieldSet::default().with(&[Field::InFlight]));
        gathered.add(&batch, &Room::default()).unwrap();
        gathered.hand_on(|batch| {
            assert_eq!(batch.i64s(Field::InFlight), Some(&[0, 1, 1][..]));
            assert!(batch.column(Field::Region).is_none());
            ControlFlow::Continue(())
        });
    }

    #[test]
    fn too_large_a_trace_is_refused() {
        let room = Room::default();
        room.0.store(MOST_BYTES, Ordering::Relaxed);
        let batch = &batches(&[(0, 1, None, true, 0, 1)], 1)[0];
        let mut gathered = Gathered::new(FieldSet::DERIVED);
        assert!(matches!(gathered.add(batch, &room), Err(Error::NotDerivable { .. })));
    }
}
