//! A cube as bytes: streams of small numbers (LEB128), deflated together. `web/src/capture-file/decode.ts` reads them.

use super::{ReportOptions, head};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use latscope_event::Context;
use latscope_histogram::Grid;
use latscope_series::{CUBE_ROWS, Cube, CubeColumn};
use std::collections::BTreeMap;
use std::io::Write;

/// The names of the streams, in their order in the file.
pub const STREAMS: [&str; 13] = [
    "combinations",
    "cube_lengths",
    "cube_rows",
    "cube_combinations",
    "cube_counts",
    "total_lengths",
    "total_buckets",
    "total_counts",
    "sums",
    "bytes",
    "in_flight",
    "exemplars",
    "events",
];

#[derive(Default)]
struct Stream(Vec<u8>);

impl Stream {
    fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A number with a sign: the sign is the lowest bit.
    fn push_signed(&mut self, value: i128) {
        let value = i64::try_from(value).unwrap_or(if value < 0 { i64::MIN / 2 } else { i64::MAX / 2 });
        self.push(((value << 1) ^ (value >> 63)) as u64);
    }

    /// A number that may be missing.
    fn push_optional(&mut self, value: Option<u64>) {
        self.push(value.map_or(0, |value| value.saturating_add(1)));
    }
}

/// Length of the head, the head, the streams; deflated without a header.
pub fn packed(cube: &Cube, contexts: &[Context], options: &ReportOptions) -> Vec<u8> {
    let streams = streams(cube);
    let lengths = streams.iter().map(|stream| stream.0.len());
    let head = head::head(cube, contexts, options, lengths.collect());
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
    let length = u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes();
    // Writing to memory does not fail.
    let written = encoder.write_all(&length).and_then(|()| encoder.write_all(head.as_bytes()));
    let written = streams.iter().fold(written, |so_far, stream| so_far.and_then(|()| encoder.write_all(&stream.0)));
    written.and_then(|()| encoder.finish()).unwrap_or_default()
}

fn streams(cube: &Cube) -> [Stream; STREAMS.len()] {
    let mut streams: [Stream; STREAMS.len()] = std::array::from_fn(|_| Stream::default());
    let [combinations, cells @ .., exemplars, events] = &mut streams;
    for attribute in 0..cube.attributes.len() {
        cube.combinations.iter().for_each(|values| combinations.push(values[attribute].into()));
    }
    let empty = CubeColumn::default();
    let (first, columns) = cube.range().unwrap_or((0, 0));
    for at in 0..columns {
        push_column(cells, cube.columns.get(&(first + at as i64)).unwrap_or(&empty));
    }
    let start_ns = head::start_ns(cube).unwrap_or(0);
    for exemplar in &cube.exemplars {
        exemplars.push_signed(i128::from(exemplar.start_ns) - i128::from(start_ns));
        exemplars.push(exemplar.latency_ns);
        exemplars.push_optional(exemplar.size);
        exemplars.push_optional(exemplar.offset);
        exemplars.push_optional(exemplar.pid.and_then(|pid| u64::try_from(pid).ok()));
        exemplars.push(exemplar.combination.into());
    }
    events.push(cube.events());
    streams
}

fn push_column(cells: &mut [Stream], column: &CubeColumn) {
    let [lengths, rows, combinations, counts, total_lengths, buckets, totals, sums, bytes, in_flight] = cells else {
        return;
    };
    lengths.push(column.cells.len() as u64);
    let mut last: Option<(u16, u32)> = None;
    for (&(row, combination), &count) in &column.cells {
        let (before, next) = match last {
            Some((before, last)) if before == row => (before, last + 1),
            other => (other.map_or(0, |(before, _)| before), 0),
        };
        rows.push(u64::from(row - before));
        combinations.push(u64::from(combination - next));
        counts.push(count - 1);
        last = Some((row, combination));
    }
    total_lengths.push(column.totals.len() as u64);
    let mut before = 0;
    let mut middles: BTreeMap<u16, u128> = BTreeMap::new();
    for (&bucket, &count) in &column.totals {
        buckets.push(u64::from(bucket - before));
        totals.push(count - 1);
        before = bucket;
        let row = CUBE_ROWS.fold(Grid::FINE, bucket.into()) as u16;
        *middles.entry(row).or_insert(0) += u128::from(Grid::FINE.middle(bucket.into())) * u128::from(count);
    }
    for (row, known) in &column.sums {
        let middle = middles.get(row).copied().unwrap_or(0);
        sums.push_signed(known.latency_ns as i128 - middle as i128);
        bytes.push(u64::try_from(known.bytes).unwrap_or(u64::MAX));
    }
    in_flight.push(u64::try_from(column.in_flight_ns).unwrap_or(u64::MAX));
}
