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
#[path = "derived_tests.rs"]
mod tests;
