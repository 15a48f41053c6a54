//! Fields that follow from the events of a whole trace, in the order of their start: what was in flight, what came before.
//!
//! Events come in the order of their completion, so all of them have to be there before the first can be handed on. They are kept
//! packed. Then all are gone through in the order of their start: a chunk is unpacked when its first row is due, and handed on when
//! the last one has been.

mod packed;

use crate::Error;
use hashbrown::HashMap;
use latscope_event::{Batch, Column, Field, FieldSet, MISSING_CODE, MISSING_I64, MISSING_U64};
use packed::Packed;
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
    let ours = [Field::Host, Field::Device, Field::Path, Field::Job, Field::Kind, Field::Size];
    (derived, if derived == FieldSet::EMPTY { asked } else { needed.with(&ours) })
}

/// The memory that several gatherings share, bytes.
#[derive(Default)]
pub struct Room(AtomicU64);

/// The events of a trace, kept until all are there.
pub struct Gathered {
    derived: FieldSet,
    chunks: Vec<Chunk>,
    /// Where the last request of each device ends, bytes.
    ends: HashMap<Place, u64>,
    /// Holds the dictionaries.
    batch: Batch,
}

impl Gathered {
    /// Nothing yet; these fields will be derived.
    pub fn new(derived: FieldSet) -> Gathered {
        Gathered { derived, chunks: Vec::new(), ends: HashMap::new(), batch: Batch::new(FieldSet::ALWAYS) }
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// [`Error::NotDerivable`] when there are too many.
    pub fn add(&mut self, batch: &Batch, room: &Room) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let columns = || batch.fields().iter().filter_map(|field| Some((field, batch.column(field)?)));
        let bytes: u64 = columns().map(|(_, column)| bytes(column)).sum();
        if room.0.fetch_add(bytes, Ordering::Relaxed) + bytes > MOST_BYTES {
            return Err(Error::NotDerivable { fields: self.derived, limit_bytes: MOST_BYTES });
        }
        self.batch.follow(batch);
        if self.derived.contains(Field::Region) {
            Rows::new(|field| batch.column(field)).add_ends(&mut self.ends);
        }
        let start_ns = batch.time().iter().copied().filter(|&time| time != MISSING_I64).min();
        let kept = columns().map(|(field, column)| (field, Packed::new(column))).collect();
        self.chunks.push(Chunk { start_ns, state: State::Kept(kept) });
        Ok(())
    }

    /// Derives the fields and hands on the batches as they came, until one is refused.
    pub fn hand_on(mut self, mut take: impl FnMut(&Batch) -> ControlFlow<()>) {
        let mut deriving = Deriving::new(self.derived, &self.ends, &mut self.batch);
        let starts = self.chunks.iter().enumerate().filter_map(|(at, chunk)| Some(Reverse((chunk.start_ns?, at))));
        let mut heads: BinaryHeap<Reverse<(i64, usize)>> = starts.collect();
        let mut next = 0;
        loop {
            while let Some(chunk) = self.chunks.get_mut(next).filter(|chunk| chunk.is_finished()) {
                self.batch.replace_columns(chunk.finish(self.derived));
                if take(&self.batch).is_break() {
                    return;
                }
                next += 1;
            }
            let Some(Reverse((_, at))) = heads.pop() else { return };
            let other = heads.peek().map(|Reverse(head)| *head);
            let left_ns = self.chunks[at].derive(at, other, &mut deriving);
            heads.extend(left_ns.map(|left_ns| Reverse((left_ns, at))));
        }
    }
}

/// Batches with dictionaries of their own, one after the other with one dictionary for all.
pub struct Unified(Batch);

impl Unified {
    /// Nothing yet.
    pub fn new() -> Unified {
        Unified(Batch::new(FieldSet::ALWAYS))
    }

    /// The rows of a batch.
    pub fn rows(&mut self, batch: &Batch) -> &Batch {
        let column = |field| {
            let column = batch.column(field)?;
            let Column::Text(codes) = column else { return Some((field, column.clone())) };
            let texts = batch.dictionary(field).texts();
            let ours: Vec<u32> = texts.iter().map(|text| self.0.intern(field, text.as_bytes())).collect();
            let code = |&code: &u32| ours.get(code as usize).copied().unwrap_or(MISSING_CODE);
            Some((field, Column::Text(codes.iter().map(code).collect())))
        };
        let columns: Vec<(Field, Column)> = batch.fields().iter().filter_map(column).collect();
        self.0.replace_columns(columns);
        &self.0
    }
}

fn bytes(column: &Column) -> u64 {
    match column {
        Column::I64(values) => values.len() as u64 * 8,
        Column::U64(values) => values.len() as u64 * 8,
        Column::Text(codes) => codes.len() as u64 * 4,
    }
}

/// The rows of a batch.
struct Chunk {
    /// The earliest start; `None` where no row has one.
    start_ns: Option<i64>,
    state: State,
}

enum State {
    /// Until the first of them is derived: packed.
    Kept(Vec<(Field, Packed)>),
    /// Starts and rows that are left, the earliest last.
    Open { columns: Vec<(Field, Column)>, derived: Derived, left: Vec<(i64, u32)> },
}

impl Chunk {
    /// Derives the fields of the rows that start before those of another chunk, of equal ones those of the earlier chunk. Returns when
    /// the next row starts.
    fn derive(&mut self, at: usize, other: Option<(i64, usize)>, deriving: &mut Deriving) -> Option<i64> {
        self.open(deriving.derived);
        let State::Open { columns, derived, left } = &mut self.state else { return None };
        let rows = Rows::new(|field| columns.iter().find(|(known, _)| *known == field).map(|(_, column)| column));
        while let Some(&(start_ns, row)) = left.last() {
            if other.is_some_and(|other| (start_ns, at) > other) {
                return Some(start_ns);
            }
            left.pop();
            deriving.derive(&rows, row as usize, derived);
        }
        None
    }

    fn open(&mut self, derived: FieldSet) {
        let State::Kept(kept) = &self.state else { return };
        let columns: Vec<(Field, Column)> = kept.iter().map(|(field, packed)| (*field, packed.unpacked())).collect();
        let mut left: Vec<(i64, u32)> = match columns.iter().find(|(field, _)| *field == Field::Time) {
            Some((_, Column::I64(times))) => times.iter().copied().zip(0..).collect(),
            _ => Vec::new(),
        };
        let derived = Derived::new(left.len(), derived);
        left.retain(|(start_ns, _)| *start_ns != MISSING_I64);
        left.sort_unstable_by_key(|&start| Reverse(start));
        self.state = State::Open { columns, derived, left };
    }

    fn is_finished(&self) -> bool {
        match &self.state {
            State::Kept(_) => self.start_ns.is_none(),
            State::Open { left, .. } => left.is_empty(),
        }
    }

    /// The columns with the derived ones. The chunk is empty then.
    fn finish(&mut self, derived: FieldSet) -> Vec<(Field, Column)> {
        self.open(derived);
        match std::mem::replace(&mut self.state, State::Kept(Vec::new())) {
            State::Kept(_) => Vec::new(),
            State::Open { columns, derived, .. } => columns.into_iter().chain(derived.into_columns()).collect(),
        }
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
    fn new(column: impl Fn(Field) -> Option<&'a Column>) -> Rows<'a> {
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

    /// Adds where the last request of each device ends.
    fn add_ends(&self, ends: &mut HashMap<Place, u64>) {
        for row in 0..self.time.len() {
            if let (Some(place), Some(end)) = (self.place(row), self.end(row)) {
                let highest = ends.entry(place).or_insert(0);
                *highest = end.max(*highest);
            }
        }
    }
}

/// What is known of a device on the way through its requests.
struct Device {
    /// How wide a region is, bytes: a power of two, so that a slice of a trace mostly has the regions of the whole.
    region_bytes: u64,
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
    /// A device whose last request ends here.
    fn new(end: u64) -> Device {
        let region_bytes = (end.checked_next_power_of_two().unwrap_or(1 << 63) / REGIONS).max(1);
        Device { region_bytes, previous_ns: None, ends: BinaryHeap::new(), recent: HashMap::new() }
    }

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

/// The way through the rows of all chunks, the earliest start first.
struct Deriving {
    derived: FieldSet,
    devices: HashMap<Place, Device>,
    /// Codes of `sequential` and `random`.
    words: [u32; 2],
    /// Codes of the regions.
    regions: Vec<u32>,
}

impl Deriving {
    /// Before the first row. The texts of derived fields are put into the dictionaries of the batch.
    fn new(derived: FieldSet, ends: &HashMap<Place, u64>, batch: &mut Batch) -> Deriving {
        let words = ["sequential", "random"].map(|word| batch.intern(Field::Sequential, word.as_bytes()));
        let region = |part: u64| batch.intern(Field::Region, format!("{part}/{REGIONS}").as_bytes());
        let regions = (1..=REGIONS).map(region).collect();
        let devices = ends.iter().map(|(&place, &end)| (place, Device::new(end))).collect();
        Deriving { derived, devices, words, regions }
    }

    /// Derives the fields of the next row.
    fn derive(&mut self, rows: &Rows, row: usize, columns: &mut Derived) {
        let Some(place) = rows.place(row) else { return };
        let device = self.devices.entry(place).or_insert_with(|| Device::new(0));
        if let (Some(regions), Some(offset)) = (&mut columns.region, rows.offset(row)) {
            regions[row] = self.regions[(offset / device.region_bytes).min(REGIONS - 1) as usize];
        }
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
            codes[row] = self.words[usize::from(!device.goes_on(kind, from, to))];
        }
    }
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
