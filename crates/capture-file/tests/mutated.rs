//! The seeds of the fuzz targets with a few changes each, where no fuzzer is at hand: no panic, errors are sentences, and the same
//! events whatever is asked for. `MUTATIONS=1000 cargo test --release --test mutated` tries more of them.

#![allow(clippy::unwrap_used)]

use latscope_capture_file::{Format, ReadOptions, SeriesReader, read_bytes};
use latscope_event::{Anomaly, Context, FieldSet, Wording};
use std::ops::ControlFlow;
use std::path::PathBuf;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}

/// What readers of text stumble over.
const PIECES: [&[u8]; 14] = [
    b"\"",
    b",",
    b"\n",
    b"\r\n",
    b"'",
    b"\\",
    b"{",
    b"18446744073709551615",
    b"-9223372036854775808",
    b"1e400",
    b"null",
    b"\xff\xfe",
    b"\0",
    b"time_ns,latency_ns\n",
];

fn mutated(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            2 => bytes.truncate(at),
            3 => {
                let end = (at + random.below(20)).min(bytes.len());
                drop(bytes.drain(at.min(end)..end));
            }
            4 => {
                let end = (at + random.below(60)).min(bytes.len());
                let piece = bytes[at.min(end)..end].to_vec();
                let to = random.below(bytes.len() + 1);
                drop(bytes.splice(to..to, piece));
            }
            _ => drop(bytes.splice(at..at, PIECES[random.below(PIECES.len())].iter().copied())),
        }
    }
    bytes
}

/// The seeds of a target, by name: the files of a tar archive.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../fuzz/corpus/{target}.tar.zst"));
    let archive = zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    let (mut rest, mut seeds) = (&archive[..], Vec::new());
    // A header of one block of 512 bytes, the content in whole blocks; a block of zeros ends the archive.
    while rest[0] != 0 {
        let (header, behind) = rest.split_at(512);
        let digits = std::str::from_utf8(&header[124..135]).unwrap();
        let size = usize::from_str_radix(digits, 8).unwrap();
        if header[156] == b'0' {
            seeds.push(behind[..size].to_vec());
        }
        rest = &behind[size.next_multiple_of(512)..];
    }
    seeds
}

#[test]
fn every_corpus_is_unpacked() {
    for (target, seeds, bytes) in [
        ("csv", 5, 1160),
        ("filter", 190, 5183),
        ("fio_log", 200, 71489),
        ("fio_series", 200, 64978),
        ("histogram_text", 12, 27020),
        ("ioping", 200, 113023),
        ("json_lines", 4, 1828),
        ("lat", 140, 379757),
        ("perf_data", 112, 379331),
        ("perf_script", 190, 188595),
        ("smallfile", 103, 2598),
        ("snoop", 6, 12669),
        ("strace", 16, 46746),
        ("two_columns", 62, 28177),
    ] {
        let found = corpus(target);
        assert_eq!((found.len(), found.iter().map(Vec::len).sum()), (seeds, bytes), "{target}");
    }
}

/// How many inputs are made of each seed, so that all targets take about as long.
fn mutations(seeds: usize) -> usize {
    let asked: Option<usize> = std::env::var("MUTATIONS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(60).div_ceil(seeds.max(1)).max(1)
}

/// Times and latencies, and the account.
type Read = Result<(Vec<(i64, u64)>, Context), String>;

fn read(bytes: &[u8], options: &ReadOptions) -> Read {
    let mut events = Vec::new();
    let ended = read_bytes("mutated", bytes, options, &mut |_, batch| {
        events.extend(batch.time().iter().copied().zip(batch.latency().iter().copied()));
        ControlFlow::Continue(())
    });
    // Of a request in flight, a reader may know no more than what it was asked for.
    let context = ended.map(|mut context| {
        context.unfinished.iter_mut().for_each(|request| request.values.clear());
        context
    });
    context.map(|context| (events, context)).map_err(|error| error.to_string())
}

fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

#[test]
fn events_of_damaged_files() {
    // Their seeds have a byte in front that selects the format.
    let skipped = |target: &str| usize::from(["strace", "snoop", "stacks"].contains(&target));
    for (target, format) in [
        ("strace", Format::Strace),
        ("strace", Format::PerfTrace),
        ("snoop", Format::Snoop),
        ("snoop", Format::Oracle10046),
        ("csv", Format::Csv),
        ("json_lines", Format::JsonLines),
        ("two_columns", Format::TwoColumns),
        ("fio_log", Format::FioLog),
        ("smallfile", Format::Smallfile),
        ("ioping", Format::Ioping),
        ("perf_script", Format::PerfScript),
        ("perf_data", Format::PerfData),
        ("lat", Format::Lat),
        ("stacks", Format::Folded),
        ("spark_eventlog", Format::SparkEventlog),
        ("stacks", Format::StapStacks),
    ] {
        let (seeds, mut random) = (corpus(target), Random(7));
        for (number, seed) in seeds.iter().enumerate() {
            for round in 0..mutations(seeds.len()) {
                let bytes = mutated(&seed[skipped(target)..], &mut random);
                if is_packed(&bytes) {
                    continue;
                }
                let of = |fields, format| ReadOptions { format, lenient: round % 2 == 0, ..ReadOptions::new(fields) };
                let all = read(&bytes, &of(FieldSet::EVERY, Some(format)));
                let few = read(&bytes, &of(FieldSet::ALWAYS, Some(format)));
                if let Err(message) = &all {
                    assert!(message.ends_with('.'), "{target} {number} {round}: {message}");
                }
                match (all, few) {
                    (Ok((all, account)), Ok((few, _)))
                        if account.tally.get(Anomaly::DamagedRecords) + account.tally.get(Anomaly::DamagedBatches)
                            > 0 =>
                    {
                        // Damage in a column that is not asked for is not seen.
                        assert!(all.len() <= few.len(), "{target} {number} {round}");
                    }
                    (all, few) => assert_eq!(all, few, "{target} {number} {round}"),
                }
                // Whatever it is taken for.
                let _ = read(&bytes, &of(FieldSet::EVERY, None));
            }
        }
    }
}

#[test]
fn compressed_logs_that_are_damaged() {
    for (target, magic) in [
        ("spark_lz4", &b"LZ4Block"[..]),
        ("spark_snappy", b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"),
        ("spark_lzf", b"ZV"),
        ("spark_zstd", b"\x28\xb5\x2f\xfd"),
        ("spark_gzip", b"\x1f\x8b"),
    ] {
        let (seeds, mut random) = (corpus(target), Random(13));
        // Seeds with an odd first byte are the text of a log.
        for (number, seed) in seeds.iter().enumerate().filter(|(_, seed)| seed[0] % 2 == 0) {
            for round in 0..mutations(seeds.len()) {
                let bytes = [magic, &mutated(&seed[1..], &mut random)].concat();
                let of = |fields| ReadOptions { format: Some(Format::SparkEventlog), ..ReadOptions::new(fields) };
                let all = read(&bytes, &of(FieldSet::EVERY));
                assert!(all.as_ref().err().is_none_or(|message| message.ends_with('.')), "{target} {number} {round}");
                assert_eq!(all, read(&bytes, &of(FieldSet::ALWAYS)), "{target} {number} {round}");
            }
        }
    }
}

#[test]
fn histograms_of_damaged_files() {
    // A byte in front selects the format.
    let seeds =
        |target| corpus(target).iter().map(|seed| seed.get(1..).unwrap_or_default().to_vec()).collect::<Vec<_>>();
    damaged_histograms(&seeds("fio_series"), &[Format::FioHist, Format::FioJson, Format::Hlog]);
    damaged_histograms(&seeds("histogram_text"), &[Format::PyLatencyMap, Format::HistogramText]);
}

fn damaged_histograms(seeds: &[Vec<u8>], formats: &[Format]) {
    let mut random = Random(11);
    for (number, seed) in seeds.iter().enumerate() {
        for round in 0..mutations(seeds.len()) {
            let bytes = mutated(seed, &mut random);
            if is_packed(&bytes) {
                continue;
            }
            for &format in formats {
                let lenient = round % 2 == 0;
                let options = ReadOptions { format: Some(format), lenient, ..ReadOptions::new(FieldSet::ALWAYS) };
                let mut reader = match SeriesReader::from_bytes("mutated", bytes.clone(), &options) {
                    Ok(reader) => reader,
                    Err(error) => {
                        assert!(error.to_string().ends_with('.'), "{number} {round}: {error}");
                        continue;
                    }
                };
                for row in reader.by_ref().map_while(Result::ok) {
                    assert!(row.time_ns.checked_add_unsigned(row.width_ns).is_some(), "{number} {round}");
                    let totals = row.histogram.totals();
                    assert!(totals.count == 0 || totals.min <= totals.max, "{number} {round}");
                    assert_eq!(row.histogram.counts().iter().sum::<u64>(), totals.count, "{number} {round}");
                }
                assert!(Wording::default().lines(reader.context()).iter().all(|note| !note.text.is_empty()));
            }
        }
    }
}
