//! Checksums of our own Parquet files. The library writes none for its pages, so the metadata hold the CRC-32 of each block
//! of the file, and that of its end, which describes the columns. Files of other programs have neither.

use super::value;
use flate2::Crc;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// Metadata key of the blocks: their size and how many bytes they cover, then a CRC-32 each, hexadecimal.
pub const BLOCKS_KEY: &str = "latscope.blocks";
/// Metadata key of the end: the CRC-32 of all that stands behind the blocks, counted with zeros in its own place.
pub const END_KEY: &str = "latscope.end";
/// What stands there while the end is summed up.
pub const NOT_YET: &str = "00000000";
/// Bytes of a block: small against a row group, large against its checksum.
const BLOCK: usize = 256 << 10;
/// An end that describes more than this was not written by latscope.
const LONGEST_END: u64 = 256 << 20;

/// Sums up what is written through it, block by block; the end of the file waits until its own checksum is known.
pub struct Summed<W> {
    writer: W,
    crc: Crc,
    blocks: Vec<u32>,
    written: u64,
    /// What is written once the blocks are over.
    end: Option<Vec<u8>>,
}

impl<W: Write> Summed<W> {
    pub fn new(writer: W) -> Summed<W> {
        Summed { writer, crc: Crc::new(), blocks: Vec::new(), written: 0, end: None }
    }

    /// Ends the blocks and returns their entry for the metadata.
    pub fn end_blocks(&mut self) -> String {
        let last = (self.crc.amount() > 0).then(|| self.crc.sum());
        let sums: String = self.blocks.iter().copied().chain(last).map(|sum| format!("{sum:08x}")).collect();
        self.end = Some(Vec::new());
        format!("{BLOCK} {} {sums}", self.written)
    }

    /// Writes the end of the file with its checksum.
    pub fn finish(mut self) -> io::Result<W> {
        let mut end = self.end.unwrap_or_default();
        if let Some(at) = place_of_sum(&end) {
            let sum = format!("{:08x}", crc_of(&end));
            end[at..at + NOT_YET.len()].copy_from_slice(sum.as_bytes());
        }
        self.writer.write_all(&end)?;
        self.writer.flush()?;
        Ok(self.writer)
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(end) = &mut self.end {
            end.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let written = self.writer.write(bytes)?;
        let mut rest = &bytes[..written];
        self.written += written as u64;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(BLOCK - self.crc.amount() as usize));
            self.crc.update(now);
            if self.crc.amount() as usize == BLOCK {
                self.blocks.push(self.crc.sum());
                self.crc.reset();
            }
            rest = later;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

fn crc_of(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Where the checksum of an end stands in it: behind its key, the header of a text and the length of it.
fn place_of_sum(end: &[u8]) -> Option<usize> {
    let head = [END_KEY.as_bytes(), &[0x18, NOT_YET.len() as u8]].concat();
    let at = memchr::memmem::rfind(end, &head)? + head.len();
    (at + NOT_YET.len() <= end.len()).then_some(at)
}

/// What a file says about its blocks.
struct Blocks {
    size: u64,
    covered: u64,
    sums: Vec<u32>,
}

impl Blocks {
    fn parse(text: &str) -> Option<Blocks> {
        let mut words = text.split(' ');
        let (size, covered) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let sums = words.next()?.as_bytes().chunks(8);
        let sums = sums.map(|sum| u32::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok());
        let sums: Vec<u32> = sums.collect::<Option<_>>()?;
        let fits = (4096..=16 << 20).contains(&size) && u64::div_ceil(covered, size) == sums.len() as u64;
        fits.then_some(Blocks { size, covered, sums })
    }

    /// Whether a block is what was written.
    fn is_sound(&self, file: &File, block: u64, buffer: &mut Vec<u8>) -> bool {
        let from = block * self.size;
        let length = self.size.min(self.covered.saturating_sub(from));
        buffer.resize(length as usize, 0);
        let sum = self.sums.get(block as usize);
        file.read_exact_at(buffer, from).is_ok() && sum == Some(&crc_of(buffer))
    }
}

/// Fails if the end of a file, which describes all of it, is not what was written. Nothing is known of files of others.
pub fn check_end(file: &File, metadata: &ArrowReaderMetadata) -> Result<(), String> {
    let Some(text) = value(metadata, BLOCKS_KEY) else {
        // The keys stand together.
        return if value(metadata, END_KEY).is_none() { Ok(()) } else { Err(damaged()) };
    };
    let blocks = Blocks::parse(text).ok_or_else(damaged)?;
    let length = file.metadata().map_err(|error| format!("{error}."))?.len();
    let end = length.checked_sub(blocks.covered).filter(|&end| end <= LONGEST_END).ok_or_else(damaged)?;
    let mut bytes = vec![0; end as usize];
    file.read_exact_at(&mut bytes, blocks.covered).map_err(|error| format!("{error}."))?;
    let at = place_of_sum(&bytes).ok_or_else(damaged)?;
    let sum = bytes[at..at + NOT_YET.len()].to_vec();
    bytes[at..at + NOT_YET.len()].copy_from_slice(NOT_YET.as_bytes());
    if format!("{:08x}", crc_of(&bytes)).as_bytes() == sum { Ok(()) } else { Err(damaged()) }
}

fn damaged() -> String {
    "The end of the file, which describes its columns, is damaged: it does not match its checksum.".into()
}

/// Those of these row groups of which all columns that are read are what was written, and how many rows the others have; `None` where
/// nothing is wrong.
pub fn sound_groups(
    file: &File,
    metadata: &ArrowReaderMetadata,
    columns: &ProjectionMask,
    groups: &[usize],
) -> Option<(Vec<usize>, u64)> {
    let blocks = Blocks::parse(value(metadata, BLOCKS_KEY)?)?;
    let mut known: Vec<Option<bool>> = vec![None; blocks.sums.len()];
    let mut buffer = Vec::new();
    let mut is_sound = |block: u64| {
        let known = known.get_mut(block as usize);
        known.is_some_and(|known| *known.get_or_insert_with(|| blocks.is_sound(file, block, &mut buffer)))
    };
    let (mut sound, mut lost) = (Vec::new(), 0);
    for &number in groups {
        let group = metadata.metadata().row_group(number);
        let read = group.columns().iter().enumerate().filter(|(at, _)| columns.leaf_included(*at));
        let mut ranges = read.map(|(_, column)| column.byte_range()).filter(|&(_, length)| length > 0);
        let all = ranges.all(|(from, length)| {
            // What the library still held back when the blocks ended has the checksum of the end.
            let behind = from.saturating_add(length).min(blocks.covered);
            (from / blocks.size..behind.div_ceil(blocks.size)).all(&mut is_sound)
        });
        if all {
            sound.push(number);
        } else {
            lost += u64::try_from(group.num_rows()).unwrap_or(0);
        }
    }
    (sound.len() < groups.len()).then_some((sound, lost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::groups::Groups;
    use crate::parquet::{close, properties};
    use crate::{ReadOptions, read_bytes};
    use arrow_array::{Int64Array, RecordBatch};
    use arrow_schema::{DataType, Field as ArrowField, Schema};
    use latscope_event::{Anomaly, Clock, Context, FieldSet};
    use std::ops::ControlFlow;
    use std::sync::Arc;

    const ROWS: i64 = 50_000;

    /// Three row groups of random latencies, each larger than a block.
    fn file() -> Vec<u8> {
        let column = |name| ArrowField::new(name, DataType::Int64, false);
        let schema = Arc::new(Schema::new(vec![column("time_ns"), column("latency_ns")]));
        let mut groups = Groups::create(Vec::new(), &schema, properties().build()).unwrap();
        let mut state = 1u64;
        for group in 0..3 {
            let times = Int64Array::from_iter_values((group * ROWS)..((group + 1) * ROWS));
            let latencies = Int64Array::from_iter_values((0..ROWS).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 1) as i64
            }));
            let records = RecordBatch::try_new(schema.clone(), vec![Arc::new(times), Arc::new(latencies)]).unwrap();
            groups.write(&[records]).unwrap();
        }
        close(groups, &Context::new("test", Clock::wall()), &[]).unwrap()
    }

    /// Times that are read, and how many rows were damaged.
    fn read(file: &[u8]) -> Result<(Vec<i64>, u64), String> {
        let mut times = Vec::new();
        let options = ReadOptions::new(FieldSet::ALWAYS);
        let context = read_bytes("t.parquet", file, &options, &mut |_, batch| {
            times.extend_from_slice(batch.time());
            ControlFlow::Continue(())
        });
        context.map(|context| (times, context.tally.get(Anomaly::DamagedRecords))).map_err(|error| error.message)
    }

    #[test]
    fn a_damaged_row_group_is_left_out_and_counted() {
        let whole = file();
        assert_eq!(read(&whole), Ok(((0..3 * ROWS).collect(), 0)));
        let mut damaged = whole.clone();
        let middle = whole.len() / 2;
        damaged[middle] ^= 4;
        let (times, lost) = read(&damaged).unwrap();
        assert_eq!((times.len() as i64, lost as i64), (2 * ROWS, ROWS));
        assert!(times.iter().all(|time| !(ROWS..2 * ROWS).contains(time)), "the second is left out");
    }

    #[test]
    fn parts_are_row_groups_and_a_damaged_one_is_counted_once() {
        let mut whole = file();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        std::fs::write(&path, &whole).unwrap();
        let found = crate::parts(&path, crate::Format::Parquet);
        // A group has 400 kB of latencies, and its times take little: three are a part of a MiB.
        assert_eq!((found.len(), found[0].start, found[found.len() - 1].end), (1, 0, u64::MAX), "{found:?}");
        let middle = whole.len() / 2;
        whole[middle] ^= 4;
        std::fs::write(&path, &whole).unwrap();
        let (mut times, mut lost) = (Vec::new(), Vec::new());
        let third = whole.len() as u64 / 3;
        for within in [0..third / 2, third / 2..third * 3 / 2, third * 3 / 2..u64::MAX] {
            let options = ReadOptions { within: Some(within), ..ReadOptions::new(FieldSet::ALWAYS) };
            let context = crate::read(&path, &options, &mut |_, batch| {
                times.extend_from_slice(batch.time());
                ControlFlow::Continue(())
            });
            lost.push(context.unwrap().tally.get(Anomaly::DamagedRecords));
        }
        assert_eq!(lost, [0, ROWS as u64, 0]);
        assert_eq!(times, (0..ROWS).chain(2 * ROWS..3 * ROWS).collect::<Vec<_>>());
    }

    #[test]
    fn the_end_has_a_checksum_of_its_own() {
        let whole = file();
        let blocks: u64 = {
            let at = memchr::memmem::find(&whole, format!("{BLOCK} ").as_bytes()).unwrap();
            let text = String::from_utf8_lossy(&whole[at..at + 40]).into_owned();
            text.split(' ').nth(1).unwrap().parse().unwrap()
        };
        for at in (blocks as usize..whole.len()).step_by(7) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(read(&damaged).is_err(), "byte {at} of {}", whole.len());
        }
    }
}
