//! Logs that fio compressed itself (`log_store_compressed`): zlib streams one after the other, of its own structures.

use super::Reader;
use super::layout::Probe;
use super::rows::{FioColumns, Row};
use crate::input::{Input, read_full};
use crate::{Error, Sink};
use flate2::{Decompress, FlushDecompress, Status};
use latscope_event::{Anomaly, MISSING_U64};

/// Flags in the word of the direction.
const HAS_OFFSET: u32 = 1 << 31;
const HAS_ISSUE: u32 = 1 << 28;
const FLAGS: u32 = 0xf << 28;
/// Records that decide about the layout.
const LOOKED_AT: usize = 64;
/// Why a record is malformed.
const WHY_NONE: &str = "a direction other than 0, 1 or 2";

/// How a version of fio lays out a record (iolog.h, `struct io_sample`), before the offset and the time of issue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Record {
    /// Before 3.6: time, value, direction, 32 bits of size.
    Old,
    /// 64 bits of size behind the priority.
    Plain,
    /// From 3.37: a second value, the maximum.
    Max,
}

impl Record {
    fn direction_at(self) -> usize {
        if self == Record::Max { 24 } else { 16 }
    }

    /// The record at the beginning of the bytes and its length; none when there are too few or they make no sense.
    fn parse(self, bytes: &[u8]) -> Option<(Row, usize)> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let at = self.direction_at();
        let direction = half(at)?;
        let (size, mut len) = match self {
            Record::Old => (u64::from(half(at + 4)?), at + 8),
            _ => (word(at + 8)?, at + 16),
        };
        let mut optional = |flag: u32| {
            if direction & flag == 0 {
                return Some(None);
            }
            len += 8;
            word(len - 8).map(Some)
        };
        let offset = optional(HAS_OFFSET)?.unwrap_or(MISSING_U64);
        let issue_ns = if self == Record::Max { optional(HAS_ISSUE)?.unwrap_or(0) } else { 0 };
        let kind = u8::try_from(direction & !FLAGS).ok().filter(|&kind| kind <= 2)?;
        let row = Row {
            time_ms: word(0)?,
            value: word(8)?,
            direction: kind,
            size,
            offset,
            issue_ns,
            strange_priority: false,
        };
        Some((row, len))
    }

    /// Whether the bytes are such records: directions are possible, time ascends, and sizes are sizes.
    fn fits(self, bytes: &[u8]) -> bool {
        let (mut at, mut last_ms, mut seen) = (0, 0, 0);
        while let Some((row, len)) = self.parse(&bytes[at..]) {
            if row.time_ms < last_ms || row.size > 1 << 40 || seen == LOOKED_AT {
                return seen == LOOKED_AT;
            }
            (at, last_ms, seen) = (at + len, row.time_ms, seen + 1);
        }
        // The rest is the beginning of one that is cut.
        seen > 0 && bytes.len() - at < self.direction_at() + 32
    }

    fn detect(bytes: &[u8]) -> Option<Record> {
        [Record::Plain, Record::Max, Record::Old].into_iter().find(|record| record.fits(bytes))
    }
}

/// What the beginning of the file unpacks to.
fn unpacked(head: &[u8]) -> Option<Vec<u8>> {
    if head.first()? & 0x0f != 8 || !u16::from_be_bytes(*head.first_chunk()?).is_multiple_of(31) {
        return None;
    }
    let mut bytes = vec![0; 64 * LOOKED_AT];
    let mut unpacker = Decompress::new(true);
    unpacker.decompress(head, &mut bytes, FlushDecompress::None).ok()?;
    bytes.truncate(unpacker.total_out() as usize);
    (!bytes.is_empty()).then_some(bytes)
}

/// A zlib stream of records.
pub fn detect(head: &[u8]) -> bool {
    unpacked(head).is_some_and(|bytes| Record::detect(&bytes).is_some())
}

/// The beginning of the file, for the questions that text is asked too.
pub fn probe(head: &[u8]) -> Option<Probe> {
    let bytes = unpacked(head)?;
    let record = Record::detect(&bytes)?;
    let (mut rows, mut at) = (Vec::new(), 0);
    while let Some((row, len)) = record.parse(&bytes[at..]) {
        rows.push(row);
        at += len;
    }
    // Only fio 2 and the first of fio 3 wrote the old record.
    let layout = FioColumns { max: record == Record::Max, offset: true, priority: record != Record::Old, issue: false };
    Probe::with(layout, rows)
}

/// Reads all streams of the file.
pub fn read(mut input: Input, reader: &mut Reader, sink: &mut Sink) -> Result<(), Error> {
    let Some(record) = unpacked(input.head()).and_then(|bytes| Record::detect(&bytes)) else { return Ok(()) };
    let (mut packed, mut kept) = (vec![0; 1 << 16], 0);
    let (mut bytes, mut unpacker, mut number) = (Vec::with_capacity(1 << 17), Decompress::new(true), 0);
    loop {
        let got = read_full(&mut input, &mut packed[kept..]).map_err(|error| input.error(&error))?;
        let (mut from, to) = (0, kept + got);
        loop {
            let before = (unpacker.total_in(), bytes.len());
            let status = unpacker.decompress_vec(&packed[from..to], &mut bytes, FlushDecompress::None);
            from += (unpacker.total_in() - before.0) as usize;
            let done = records(record, &mut bytes, &mut number, reader, sink)?;
            if done {
                return Ok(());
            }
            match status {
                Ok(Status::StreamEnd) => unpacker.reset(true),
                Ok(_) if from == to || (before.1 == bytes.len() && unpacker.total_in() == before.0) => break,
                Ok(_) => {}
                Err(_) => {
                    reader.context.tally.add(Anomaly::DamagedRecords, 1);
                    reader.context.tally.add(Anomaly::Truncated, 1);
                    return Ok(());
                }
            }
            if from == to {
                break;
            }
        }
        packed.copy_within(from..to, 0);
        kept = to - from;
        if got == 0 {
            break;
        }
    }
    if unpacker.total_in() > 0 || !bytes.is_empty() {
        reader.context.tally.add(Anomaly::Truncated, 1);
    }
    Ok(())
}

/// Takes the whole records out of the bytes; true when nobody wants more.
fn records(
    record: Record,
    bytes: &mut Vec<u8>,
    number: &mut u64,
    reader: &mut Reader,
    sink: &mut Sink,
) -> Result<bool, Error> {
    let mut at = 0;
    // One with all its parts is this long.
    while bytes.len() - at >= record.direction_at() + 32 || bytes.len() > at && record.parse(&bytes[at..]).is_some() {
        *number += 1;
        let (row, len) = match record.parse(&bytes[at..]) {
            Some(parsed) => parsed,
            None => {
                reader.strange(*number, Err(WHY_NONE), WHY_NONE)?;
                at += record.direction_at() + if record == Record::Old { 8 } else { 16 };
                continue;
            }
        };
        at += len;
        if let Err(why) = reader.take(row) {
            reader.strange(*number, Err(why), why)?;
        } else if reader.is_full() && reader.hand_on(sink).is_break() {
            return Ok(true);
        }
    }
    bytes.drain(..at);
    Ok(false)
}
