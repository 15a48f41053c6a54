use super::*;
use crate::{Format, read_bytes};
use latscope_event::{Batch, Column, Field};
use std::io::Write;
use std::ops::ControlFlow;

/// Writes trace.dat by other means than it is read.
struct Writer {
    big: bool,
    bytes: Vec<u8>,
}

impl Writer {
    fn new(big: bool) -> Writer {
        Writer { big, bytes: Vec::new() }
    }

    /// A number of so many bytes.
    fn number(&mut self, value: u64, size: usize) -> &mut Writer {
        let mut bytes = value.to_le_bytes()[..size].to_vec();
        if self.big {
            bytes.reverse();
        }
        self.bytes.extend(bytes);
        self
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Writer {
        self.bytes.extend(bytes);
        self
    }

    /// Bytes behind their length.
    fn block(&mut self, bytes: &[u8]) -> &mut Writer {
        self.number(bytes.len() as u64, 8).raw(bytes)
    }

    /// An option.
    fn option(&mut self, number: u64, data: &[u8]) -> &mut Writer {
        self.number(number, 2).number(data.len() as u64, 4).raw(data)
    }
}

const PAGE: usize = 4096;
const ISSUE: u64 = 10;
const COMPLETE: u64 = 11;
const OTHER: u64 = 12;

fn format_text(name: &str, id: u64, fields: &str) -> Vec<u8> {
    format!("name: {name}\nID: {id}\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n{fields}\n").into_bytes()
}

/// Layout of the fields that both events share, and the name that only an issue has.
fn systems(writer: &mut Writer) {
    let shared = "\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\tfield:char rwbs[8];\toffset:28;\tsize:8;\tsigned:0;\n";
    let comm = format!("{shared}\tfield:char comm[16];\toffset:36;\tsize:16;\tsigned:0;\n");
    writer.number(1, 4).raw(b"block\0").number(2, 4);
    writer.block(&format_text("block_rq_issue", ISSUE, &comm)).block(&format_text(
        "block_rq_complete",
        COMPLETE,
        shared,
    ));
}

fn raw_record(big: bool, id: u64, sector: u64) -> Vec<u8> {
    let mut writer = Writer::new(big);
    writer.number(id, 2).number(0, 2).number(77, 4).number(8 << 20, 4).number(0, 4).number(sector, 8).number(8, 4);
    writer.raw(b"RS\0\0\0\0\0\0").raw(b"my job\0\0\0\0\0\0\0\0\0\0");
    writer.bytes
}

fn word(big: bool, kind: u64, delta: u64) -> u64 {
    if big { kind << 27 | delta } else { delta << 5 | kind }
}

/// A page that starts at a time, with records at distances to the one before; flags stand beside its size.
fn page(big: bool, time: u64, records: &[(u64, u64, u64)], flags: u64, missed: u64) -> Vec<u8> {
    let mut data = Writer::new(big);
    for (at, &(delta, id, sector)) in records.iter().enumerate() {
        let raw = raw_record(big, id, sector);
        let delta = match delta {
            0..0x800_0000 => delta,
            _ => {
                // More than 27 bits go ahead in a record of their own: a distance, or a moment.
                let (low, high) = (delta & 0x7ff_ffff, delta >> 27);
                data.number(word(big, 30, low), 4).number(high, 4);
                0
            }
        };
        if at % 2 == 0 {
            data.number(word(big, raw.len() as u64 / 4, delta), 4).raw(&raw);
        } else {
            data.number(word(big, 0, delta), 4).number(raw.len() as u64 + 4, 4).raw(&raw);
        }
    }
    let used = data.bytes.len() as u64;
    if missed > 0 {
        data.number(missed, 8);
    }
    let mut page = Writer::new(big);
    page.number(time, 8).number(used | flags, 8).raw(&data.bytes);
    page.bytes.resize(PAGE, 0xee);
    page.bytes
}

fn start(big: bool, version: &str) -> Writer {
    let mut writer = Writer::new(big);
    writer.raw(b"\x17\x08\x44tracing").raw(version.as_bytes()).raw(&[0, u8::from(big), 8]).number(PAGE as u64, 4);
    writer
}

fn headers(writer: &mut Writer) {
    let page = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
    writer.raw(b"header_page\0").block(page).raw(b"header_event\0").block(b"");
}

const UNAME: &[u8] = b"Linux vm 6.18.44 x86_64\0";

fn version_6(big: bool, cpus: &[Vec<u8>]) -> Vec<u8> {
    let mut file = start(big, "6");
    headers(&mut file);
    file.number(0, 4);
    systems(&mut file);
    file.number(2, 4).raw(b"ab").number(0, 4).block(b"77 my job\n").number(cpus.len() as u64, 4).raw(b"options  \0");
    file.option(5, UNAME).option(2, b"overrun: 3\ndropped events: 4\n").number(0, 2).raw(b"flyrecord\0");
    let mut at = (file.bytes.len() + 16 * cpus.len()).next_multiple_of(PAGE);
    let first = at;
    for pages in cpus {
        file.number(at as u64, 8).number(pages.len() as u64, 8);
        at += pages.len();
    }
    file.bytes.resize(first, 0);
    for pages in cpus {
        file.raw(pages);
    }
    file.bytes
}

fn packed(big: bool, codec: &str, bytes: &[u8]) -> Vec<u8> {
    let squeezed = match codec {
        "zstd" => zstd::encode_all(bytes, 1).unwrap(),
        _ => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
    };
    let mut writer = Writer::new(big);
    writer.number(squeezed.len() as u64, 4).number(bytes.len() as u64, 4).raw(&squeezed);
    writer.bytes
}

fn version_7(big: bool, codec: &str, cpus: &[Vec<u8>]) -> Vec<u8> {
    let mut file = start(big, "7");
    file.raw(codec.as_bytes()).raw(b"\0x\0");
    let hole = file.bytes.len();
    file.number(0, 8);
    let is_packed = codec != "none";
    let mut options = Writer::new(big);
    let mut add = |file: &mut Writer, id: u64, content: &Writer| {
        let mut at = Writer::new(big);
        options.option(id, &at.number(file.bytes.len() as u64, 8).bytes);
        let content = if is_packed { packed(big, codec, &content.bytes) } else { content.bytes.clone() };
        file.number(id, 2).number(u64::from(is_packed), 2).number(0, 4).block(&content);
    };
    let mut section = Writer::new(big);
    headers(&mut section);
    add(&mut file, 16, &section);
    let mut section = Writer::new(big);
    systems(&mut section);
    add(&mut file, 18, &section);
    let mut section = Writer::new(big);
    section.block(b"77 my job\n");
    add(&mut file, 21, &section);
    options.option(5, UNAME).option(2, b"overrun: 3\ndropped events: 4\n");
    let mut buffer = Writer::new(big);
    buffer.number(file.bytes.len() as u64, 8).raw(b"\0mono\0").number(PAGE as u64, 4).number(cpus.len() as u64, 4);
    file.number(3, 2).number(u64::from(is_packed), 2).number(0, 4).number(0, 8);
    for (cpu, pages) in cpus.iter().enumerate() {
        let at = file.bytes.len() as u64;
        if is_packed {
            // Two pages to a chunk.
            let chunks: Vec<_> = pages.chunks(2 * PAGE).map(|pages| packed(big, codec, pages)).collect();
            file.number(chunks.len() as u64, 4);
            for chunk in chunks {
                file.raw(&chunk);
            }
        } else {
            file.raw(pages);
        }
        buffer.number(cpu as u64, 4).number(at, 8).number(file.bytes.len() as u64 - at, 8);
    }
    options.option(3, &buffer.bytes).option(0, &[0; 8]);
    let at = file.bytes.len() as u64;
    file.number(0, 2).number(0, 2).number(0, 4).block(&options.bytes);
    let mut place = Writer::new(big);
    file.bytes[hole..hole + 8].copy_from_slice(&place.number(at, 8).bytes);
    file.bytes
}

/// Two CPUs: requests that are issued on one and complete on the other.
fn cpus(big: bool) -> Vec<Vec<u8>> {
    let issues = [
        page(big, 1_000, &[(0, ISSUE, 8), (50, OTHER, 0), (50, ISSUE, 16)], 0, 0),
        page(big, 9_000_000_000, &[(7, ISSUE, 24)], 0, 0),
    ];
    let ends = [
        page(big, 2_000, &[(500, COMPLETE, 8), (1_000_000_000, COMPLETE, 16)], 0, 0),
        page(big, 9_000_000_500, &[(0, COMPLETE, 24)], 1 << 31 | 1 << 30, 5),
    ];
    vec![issues.concat(), ends.concat()]
}

type Rows = Vec<(i64, u64, Option<String>)>;

fn events(bytes: &[u8]) -> (Rows, Context) {
    let mut rows = Rows::new();
    let context = read_bytes("test", bytes, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch: &Batch| {
        let Some(Column::Text(codes)) = batch.column(Field::Comm) else { panic!("names") };
        let names = codes.iter().map(|&code| batch.dictionary(Field::Comm).text(code).map(str::to_string));
        let times = batch.time().iter().zip(batch.latency());
        rows.extend(times.zip(names).map(|((&time, &latency), name)| (time, latency, name)));
        ControlFlow::Continue(())
    });
    (rows, context.unwrap())
}

#[test]
fn every_version_codec_and_byte_order_holds_the_same() {
    for big in [false, true] {
        let files = [("none", version_6(big, &cpus(big)))].into_iter();
        let files = files.chain(["none", "zstd", "zlib"].map(|codec| (codec, version_7(big, codec, &cpus(big)))));
        for (codec, bytes) in files {
            let (rows, context) = events(&bytes);
            let name = Some("my job".to_string());
            let expected =
                [(1_000, 1_500, name.clone()), (1_100, 1_000_001_400, name.clone()), (9_000_000_007, 493, name)];
            assert_eq!(rows, expected, "{codec}, big {big}");
            // The kernel counted seven, and a page says of five where.
            let counts = [(Anomaly::LostRecords, 7), (Anomaly::Doubtful, 1), (Anomaly::OtherRecords, 1)];
            assert_eq!(context.tally.iter().collect::<Vec<_>>(), counts, "{codec}, big {big}");
            let [range] = context.loss_ranges[..] else { panic!("{:?}", context.loss_ranges) };
            assert_eq!((range.cpu, range.records, range.end_ns), (Some(1), 5, 9_000_000_500));
            assert_eq!((context.host.as_deref(), &*context.properties["arch"]), (Some("vm"), "x86_64"));
        }
    }
}

#[test]
fn times_of_day_and_moments() {
    let mut absolute = Writer::new(false);
    let moment = 5_000_000_000u64;
    absolute.number(word(false, 31, moment & 0x7ff_ffff), 4).number(moment >> 27, 4);
    let issue = raw_record(false, ISSUE, 8);
    absolute.number(word(false, issue.len() as u64 / 4, 0), 4).raw(&issue);
    // What was taken back: as long as it was, with a time; then the end of the page.
    absolute.number(word(false, 29, 1), 4).number(8, 4).raw(&[0; 4]);
    let complete = raw_record(false, COMPLETE, 8);
    absolute
        .number(word(false, complete.len() as u64 / 4, 99), 4)
        .raw(&complete)
        .number(word(false, 29, 0), 4)
        .raw(b"junk");
    let mut page = Writer::new(false);
    page.number(1_000, 8).number(absolute.bytes.len() as u64, 8).raw(&absolute.bytes);
    page.bytes.resize(PAGE, 0);
    let (rows, context) = events(&version_7(false, "none", &[page.bytes]));
    assert_eq!(rows.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(), [(5_000_000_000, 100)]);
    assert_eq!(context.clock, Clock::unanchored("monotonic"));
    let text = |data: &[u8]| {
        let mut recording = Recording::read(&file(&version_6(false, &cpus(false)))).unwrap().unwrap();
        recording.take_option(1, data);
        (recording.shift_ns, recording.has_date)
    };
    assert_eq!(text(b"0x10\0"), (16_000, true));
    assert_eq!(text(b"0\0"), (0, false));
}

fn file(bytes: &[u8]) -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn options() -> ReadOptions<'static> {
    ReadOptions { format: Some(Format::TraceDat), ..ReadOptions::new(FieldSet::EVERY) }
}

#[test]
fn files_cut_anywhere_end_with_a_sentence_or_what_they_hold() {
    for bytes in [version_6(false, &cpus(false)), version_7(true, "zstd", &cpus(true))] {
        for end in (0..bytes.len()).step_by(7) {
            match read_bytes("test", &bytes[..end], &options(), &mut |_, _| ControlFlow::Continue(())) {
                Ok(context) => assert!(context.tally.get(Anomaly::Truncated) > 0, "cut at {end}"),
                Err(error) => assert!(error.message.ends_with('.'), "{error}"),
            }
        }
    }
    let error = |bytes: &[u8]| {
        read_bytes("test", bytes, &options(), &mut |_, _| ControlFlow::Continue(())).unwrap_err().message
    };
    assert!(error(&start(false, "5").bytes).contains("Only versions 6 and 7"));
    assert!(
        error(start(false, "7").raw(b"none\0\0").number(0, 8).raw(&[0; 64]).bytes.as_slice()).contains("incomplete")
    );
    assert!(error(b"\x17\x08\x44tracing").contains("truncated"));
}

#[test]
fn hostile_bytes_end_with_an_account() {
    let mut random = 3u64;
    for round in 0..400 {
        let big = round % 2 == 1;
        let mut bytes = match round % 4 {
            0 | 1 => version_6(big, &cpus(big)),
            _ => version_7(big, ["none", "zstd"][round / 4 % 2], &cpus(big)),
        };
        for _ in 0..8 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 32) as usize % bytes.len();
            bytes[at] = (random >> 24) as u8;
        }
        let _ = read_bytes("test", &bytes, &options(), &mut |_, _| ControlFlow::Continue(()));
    }
}
